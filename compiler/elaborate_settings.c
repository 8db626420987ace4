// The settings of the train section: optimizer, parameter groups, learning-rate schedule, clipping, lengths. All become
// attributes of the module.
#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "compiler/elaborate_internal.h"

// --- Arguments of a setting: numbers with names, defaults and limits
// ---------------------------------------------------------

typedef enum OptionKind { OPTION_REAL, OPTION_COUNT, OPTION_FLAG } OptionKind;
typedef struct Option {
  const char *name;
  OptionKind kind;
  double otherwise;   // NAN: must be given
  double low, high;   // inclusive
} Option;
#define BIG 1e18
#define MAX_OPTIONS 8

static const char *const option_kinds[] = {"a number", "an integer", "true or false"};

static bool option_value(Elaborator *e, const char *of, const Option *o, const CallArg *a, double *value) {
  const Value *v = &a->value;
  // of `clip 1.0` the setting itself
  const char *name = strcmp(of, o->name) == 0 ? elaborator_format(e, "'%s'", of)
                                              : elaborator_format(e, "%s: '%s'", of, o->name);
  bool fits = o->kind == OPTION_FLAG ? v->kind == VALUE_BOOL
                                     : v->kind == VALUE_INT || (o->kind == OPTION_REAL && v->kind == VALUE_FLOAT);
  if (!fits || !value_as_number(v, value))
    return elaborator_error(e, a->pos, "%s must be %s, found %s", name, option_kinds[o->kind], value_describe(e, *v));
  if (*value < o->low || *value > o->high || !isfinite(*value)) {
    if (o->high >= BIG && *value > o->high) return elaborator_error(e, a->pos, "%s is too large: %g", name, *value);
    if (o->high >= BIG) return elaborator_error(e, a->pos, "%s must be at least %g, found %g", name, o->low, *value);
    return elaborator_error(e, a->pos, "%s must be between %g and %g, found %g", name, o->low, o->high, *value);
  }
  return true;
}

static void hint_options(Elaborator *e, const char *of, int n, const Option *options) {
  const char *names = options[0].name;
  for (int i = 1; i < n; i++)
    names = elaborator_format(e, "%s%s%s", names, i == n - 1 ? " and " : ", ", options[i].name);
  elaborator_hint(e, "the arguments of %s are %s", of, names);
}

// The option that an argument names; n after reporting.
static int find_option(Elaborator *e, const char *of, const char *name, AstPos pos, int n, const Option *options) {
  NameSearch nearest = name_search(name);
  for (int i = 0; i < n; i++) {
    if (strcmp(options[i].name, name) == 0) return i;
    name_consider(&nearest, options[i].name);
  }
  elaborator_error(e, pos, "%s has no argument '%s'", of, name);
  if (nearest.best) elaborator_hint(e, "did you mean '%s'?", nearest.best);
  else hint_options(e, of, n, options);
  return n;
}

// Binds arguments to n options; value[] holds the defaults on entry (they may come from elsewhere), given[] is filled.
static bool read_options(Elaborator *e, AstPos pos, const char *of, int n_args, const CallArg *args, int n,
                         const Option *options, double *value, bool *given) {
  bool ok = true;
  memset(given, 0, sizeof *given * (size_t)n);
  for (int k = 0, place = 0; k < n_args; k++) {
    if (!args[k].name && place >= n)
      return elaborator_error(e, args[k].pos, "too many arguments to %s, which takes %d", of, n);
    int i = args[k].name ? find_option(e, of, args[k].name, args[k].name_pos, n, options) : place++;
    if (i == n) {
      ok = false;
      continue;
    }
    if (given[i]) {
      ok = elaborator_error(e, args[k].pos, "'%s' is given twice to %s", options[i].name, of);
      continue;
    }
    given[i] = true;
    ok = option_value(e, of, &options[i], &args[k], &value[i]) && ok;
  }
  for (int i = 0; i < n; i++)
    if (!given[i] && isnan(value[i])) ok = elaborator_error(e, pos, "%s needs '%s'", of, options[i].name);
  return ok;
}

// --- Keywords
// ----------------------------------------------------------------------------------------------------------------

static const char *const keywords[] = {"data",     "eval",       "loss",       "metric",     "optimizer",
                                       "group",    "schedule",   "clip",       "accumulate", "epochs",
                                       "steps",    "batch",      "eval_every", "seed",       "ema",
                                       "patience", "validation", "labels",     "loss_scale"};

bool settings_known(Elaborator *e, const AstStmt *s) {
  NameSearch nearest = name_search(s->setting.keyword.text);
  for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++) {
    if (strcmp(keywords[i], s->setting.keyword.text) == 0) return true;
    name_consider(&nearest, keywords[i]);
  }
  elaborator_error(e, s->setting.keyword.pos, "unknown setting '%s'", s->setting.keyword.text);
  if (nearest.best) elaborator_hint(e, "did you mean '%s'?", nearest.best);
  return false;
}

// The only line with this keyword; NULL when there is none.
static const AstStmt *find_setting(Elaborator *e, const char *keyword) {
  const AstStmt *found = NULL;
  for (int i = 0; i < e->n_settings; i++) {
    const AstStmt *s = e->settings[i];
    if (strcmp(s->setting.keyword.text, keyword) != 0) continue;
    if (found) {
      elaborator_error(e, s->pos, "'%s' is given twice", keyword);
      elaborator_note(e, found->pos, "the first is here");
    } else {
      found = s;
    }
  }
  return found;
}

// `clip 1.0`: a setting of one number. *found tells whether it is there.
static bool read_number(Elaborator *e, const char *keyword, OptionKind kind, double low, double high, double *value,
                        bool *found) {
  const AstStmt *s = find_setting(e, keyword);
  *found = s != NULL;
  if (!s) return true;
  Option option = {keyword, kind, NAN, low, high};
  CallArg arg;
  if (s->setting.n_args != 1 || s->setting.args[0].name.text)
    return elaborator_error(e, s->pos, "'%s' needs %s", keyword, option_kinds[kind]);
  return eval_args(e, 1, s->setting.args, &arg) && option_value(e, keyword, &option, &arg, value);
}

// `schedule cosine(warmup=10)`: the call of a setting. A name alone is a call without arguments.
static bool call_of(Elaborator *e, const AstStmt *s, const char **callee, int *n, CallArg **args) {
  const AstExpr *x = s->setting.n_args == 1 && !s->setting.args[0].name.text ? s->setting.args[0].value : NULL;
  *n = 0;
  *args = NULL;
  if (x && x->kind == AST_NAME) {
    *callee = x->text;
    return true;
  }
  if (!x || x->kind != AST_CALL)
    return elaborator_error(e, s->pos, "'%s' needs a name and its arguments", s->setting.keyword.text);
  *callee = x->call.callee;
  *n = x->call.n_args;
  *args = elaborator_alloc(e, sizeof **args * (size_t)(*n + 1));
  return eval_args(e, *n, x->call.args, *args);
}

// --- Optimizer and groups
// ----------------------------------------------------------------------------------------------------

enum { LR, MOMENTUM, NESTEROV, BETA1, BETA2, EPS, WEIGHT_DECAY, FROZEN, GROUP_OPTIONS };
static const Option group_options[GROUP_OPTIONS] = {
    [LR] = {"lr", OPTION_REAL, NAN, 0, BIG},
    [MOMENTUM] = {"momentum", OPTION_REAL, 0, 0, 1},
    [NESTEROV] = {"nesterov", OPTION_FLAG, 0, 0, 1},
    [BETA1] = {"beta1", OPTION_REAL, 0.9, 0, 0.9999999},
    [BETA2] = {"beta2", OPTION_REAL, 0.999, 0, 0.9999999},
    [EPS] = {"eps", OPTION_REAL, 1e-8, 0, BIG},
    [WEIGHT_DECAY] = {"weight_decay", OPTION_REAL, 0, 0, BIG},
    [FROZEN] = {"frozen", OPTION_FLAG, 0, 0, 1},
};

typedef struct OptimizerInfo {
  const char *name;
  double lr, weight_decay, momentum;
  int options[MAX_OPTIONS], n;
} OptimizerInfo;
static const OptimizerInfo optimizers[] = {
    {"sgd", 0.01, 0, 0, {LR, MOMENTUM, NESTEROV, WEIGHT_DECAY}, 4},
    {"momentum", 0.01, 0, 0.9, {LR, MOMENTUM, NESTEROV, WEIGHT_DECAY}, 4},
    {"adam", 1e-3, 0, 0, {LR, BETA1, BETA2, EPS, WEIGHT_DECAY}, 5},
    {"adamw", 1e-3, 0.01, 0, {LR, BETA1, BETA2, EPS, WEIGHT_DECAY}, 5},
};

// Those that this optimizer has, and `frozen` for groups.
static int options_of(const OptimizerInfo *o, bool is_group, Option *out) {
  for (int i = 0; i < o->n; i++) out[i] = group_options[o->options[i]];
  if (is_group) out[o->n] = group_options[FROZEN];
  return o->n + is_group;
}

static void unpack(const double *v, Group *g) {
  g->lr = v[LR];
  g->momentum = v[MOMENTUM];
  g->nesterov = v[NESTEROV] != 0;
  g->beta1 = v[BETA1];
  g->beta2 = v[BETA2];
  g->eps = v[EPS];
  g->weight_decay = v[WEIGHT_DECAY];
  g->frozen = v[FROZEN] != 0;
}

// Reads the options into v, which holds the values to start from.
static bool read_group(Elaborator *e, AstPos pos, const char *of, const OptimizerInfo *o, bool is_group, int n,
                       const CallArg *args, double *v) {
  Option options[MAX_OPTIONS + 1] = {0};
  double value[MAX_OPTIONS + 1];
  bool given[MAX_OPTIONS + 1];
  int n_options = options_of(o, is_group, options);
  for (int i = 0; i < n_options; i++) value[i] = v[i < o->n ? o->options[i] : FROZEN];
  if (!read_options(e, pos, of, n, args, n_options, options, value, given)) return false;
  for (int i = 0; i < n_options; i++) v[i < o->n ? o->options[i] : FROZEN] = value[i];
  return true;
}

// The entry of a table whose `n` entries, `size` bytes each, begin with their names. NULL with an error: no such name;
// kind and all say what there is.
static const void *find_named(Elaborator *e, AstPos pos, const char *name, const void *table, size_t n, size_t size,
                              const char *kind, const char *all) {
  NameSearch nearest = name_search(name);
  for (size_t i = 0; i < n; i++) {
    const char *const *entry = (const void *)((const char *)table + i * size);
    if (strcmp(*entry, name) == 0) return entry;
    name_consider(&nearest, *entry);
  }
  elaborator_error(e, pos, "unknown %s '%s'", kind, name);
  if (nearest.best) elaborator_hint(e, "did you mean '%s'?", nearest.best);
  else elaborator_hint(e, "the %ss are %s", kind, all);
  return NULL;
}

static const OptimizerInfo *find_optimizer(Elaborator *e, AstPos pos, const char *name) {
  return find_named(e, pos, name, optimizers, sizeof optimizers / sizeof *optimizers, sizeof *optimizers, "optimizer",
                    "sgd, momentum, adam and adamw");
}

static bool pattern_of(Elaborator *e, const CallArg *a) {
  return a->value.kind == VALUE_STRING ||
         elaborator_error(e, a->pos, "a pattern of parameter names must be a string, found %s",
                          value_describe(e, a->value));
}

static bool group_incomplete(Elaborator *e, const AstStmt *s) {
  elaborator_error(e, s->pos, "'group' needs a pattern of parameter names and what differs for them");
  elaborator_hint(e, "group \"*.bias\", weight_decay=0");
  return false;
}

// group "*.bias", "*.norm.*", weight_decay=0: patterns, then what differs from the optimizer's own arguments
static bool read_group_line(Elaborator *e, const AstStmt *s, const OptimizerInfo *o, const double *base) {
  int n = s->setting.n_args, n_patterns = 0;
  CallArg *args = elaborator_alloc(e, sizeof *args * (size_t)(n + 1));
  if (!eval_args(e, n, s->setting.args, args)) return false;
  Group g = {.pos = s->pos, .patterns = elaborator_alloc(e, sizeof *g.patterns * (size_t)(n + 1))};
  for (; n_patterns < n && !args[n_patterns].name; n_patterns++) {
    if (!pattern_of(e, &args[n_patterns])) return false;
    g.patterns[g.n_patterns++] = args[n_patterns].value.s;
  }
  if (n_patterns == 0 || n_patterns == n) return group_incomplete(e, s);
  if (e->n_groups > MAX_LISTED) return elaborator_give_up(e, s->pos, "a program has at most %d groups", MAX_LISTED);
  double v[GROUP_OPTIONS];
  memcpy(v, base, sizeof v);
  if (!read_group(e, s->pos, "group", o, true, n - n_patterns, args + n_patterns, v)) return false;
  unpack(v, &g);
  e->groups[e->n_groups++] = g;
  return true;
}

static bool read_optimizer(Elaborator *e) {
  const AstStmt *s = find_setting(e, "optimizer");
  const char *callee;
  int n;
  CallArg *args;
  if (!s) {
    elaborator_error(e, e->train->pos, "the train section has no optimizer");
    elaborator_hint(e, "optimizer adamw(lr=1e-3)");
    return false;
  }
  if (!call_of(e, s, &callee, &n, &args)) return false;
  const OptimizerInfo *o = find_optimizer(e, s->setting.args[0].value->pos, callee);
  if (!o) return false;
  double v[GROUP_OPTIONS];
  for (int i = 0; i < GROUP_OPTIONS; i++) v[i] = group_options[i].otherwise;
  v[LR] = o->lr;
  v[WEIGHT_DECAY] = o->weight_decay;
  v[MOMENTUM] = o->momentum;
  bool ok = read_group(e, s->pos, o->name, o, false, n, args, v);
  const char *kind = strcmp(o->name, "sgd") == 0 && v[MOMENTUM] > 0 ? "momentum" : o->name;
  set_module_attr(e, ATTR_optimizer, text_attr(e, kind));
  e->groups = elaborator_alloc(e, sizeof *e->groups * (size_t)(e->n_settings + 1));
  e->n_groups = 1;
  unpack(v, &e->groups[0]);
  for (int i = 0; i < e->n_settings; i++)
    if (strcmp(e->settings[i]->setting.keyword.text, "group") == 0) ok = read_group_line(e, e->settings[i], o, v) && ok;
  return ok;
}

static void write_groups(Elaborator *e) {
  MlirAttribute *groups = elaborator_alloc(e, sizeof *groups * (size_t)e->n_groups);
  for (int i = 0; i < e->n_groups; i++) {
    const Group *g = &e->groups[i];
    MlirNamedAttribute entries[] = {
        named_attr(e, "lr", float_attr(e, g->lr)),
        named_attr(e, "beta1", float_attr(e, g->beta1)),
        named_attr(e, "beta2", float_attr(e, g->beta2)),
        named_attr(e, "eps", float_attr(e, g->eps)),
        named_attr(e, "weight_decay", float_attr(e, g->weight_decay)),
        named_attr(e, "momentum", float_attr(e, g->momentum)),
        named_attr(e, "nesterov", bool_attr(e, g->nesterov)),
        named_attr(e, "frozen", bool_attr(e, g->frozen)),
    };
    groups[i] = mlirDictionaryAttrGet(e->ctx, (intptr_t)(sizeof entries / sizeof entries[0]), entries);
  }
  set_module_attr(e, ATTR_groups, mlirArrayAttrGet(e->ctx, e->n_groups, groups));
}

int settings_group_of(Elaborator *e, const char *path) {
  for (int i = 1; i < e->n_groups; i++) {
    for (int k = 0; k < e->groups[i].n_patterns; k++) {
      if (fnmatch(e->groups[i].patterns[k], path, 0) != 0) continue;
      e->groups[i].matched = true;
      return i;
    }
  }
  return 0;
}

bool settings_averaged(Elaborator *e, const char *path) {
  return e->ema > 0 && e->n_groups > 0 && !e->groups[settings_group_of(e, path)].frozen;
}

// --- Schedule and the rest
// ---------------------------------------------------------------------------------------------------

enum { WARMUP, MIN, EVERY, GAMMA, SCHEDULE_OPTIONS };
static const Option schedule_options[SCHEDULE_OPTIONS] = {
    [WARMUP] = {"warmup", OPTION_COUNT, 0, 0, BIG},
    [MIN] = {"min", OPTION_REAL, 0, 0, BIG},
    [EVERY] = {"every", OPTION_COUNT, NAN, 1, BIG},
    [GAMMA] = {"gamma", OPTION_REAL, 0.1, 0, 1},
};
typedef struct ScheduleInfo {
  const char *name;
  int options[SCHEDULE_OPTIONS], n;
} ScheduleInfo;
static const ScheduleInfo schedules[] = {
    {"constant", {WARMUP}, 1},
    {"cosine", {WARMUP, MIN}, 2},
    {"linear", {WARMUP, MIN}, 2},
    {"step", {EVERY, GAMMA, WARMUP, MIN}, 4},
};

static const ScheduleInfo *find_schedule(Elaborator *e, AstPos pos, const char *name) {
  return find_named(e, pos, name, schedules, sizeof schedules / sizeof *schedules, sizeof *schedules, "schedule",
                    "constant, cosine, linear and step");
}

static int schedule_options_of(const ScheduleInfo *info, Option *out) {
  for (int i = 0; i < info->n; i++) out[i] = schedule_options[info->options[i]];
  return info->n;
}

static bool read_schedule(Elaborator *e, double rate) {
  const AstStmt *s = find_setting(e, "schedule");
  const char *callee = "constant";
  int n = 0;
  CallArg *args = NULL;
  if (s && !call_of(e, s, &callee, &n, &args)) return false;
  const ScheduleInfo *info = find_schedule(e, s ? s->setting.args[0].value->pos : e->train->pos, callee);
  if (!info) return false;
  Option options[SCHEDULE_OPTIONS];
  double value[SCHEDULE_OPTIONS], all[SCHEDULE_OPTIONS] = {[GAMMA] = 0.1};
  bool given[SCHEDULE_OPTIONS];
  schedule_options_of(info, options);
  for (int i = 0; i < info->n; i++) value[i] = options[i].otherwise;
  if (!read_options(e, s ? s->pos : e->train->pos, callee, n, args, info->n, options, value, given)) return false;
  for (int i = 0; i < info->n; i++) all[info->options[i]] = value[i];
  for (int k = 0; k < n && all[MIN] > rate; k++)
    if (args[k].name && strcmp(args[k].name, "min") == 0)
      return elaborator_error(e, args[k].pos,
                              "%s: 'min' = %g is above the optimizer's lr = %g, from which the schedule comes down",
                              callee, all[MIN], rate);
  MlirNamedAttribute entries[] = {
      named_attr(e, "kind", text_attr(e, callee)),       named_attr(e, "warmup", int_attr(e, (int64_t)all[WARMUP])),
      named_attr(e, "min", float_attr(e, all[MIN])),     named_attr(e, "every", int_attr(e, (int64_t)all[EVERY])),
      named_attr(e, "gamma", float_attr(e, all[GAMMA])),
  };
  set_module_attr(e, ATTR_schedule, mlirDictionaryAttrGet(e->ctx, 5, entries));
  return true;
}

// `loss_scale 1024`, `loss_scale dynamic(init=65536, every=2000)`. Without the line it is dynamic where the step
// computes in f16.
static bool read_loss_scale(Elaborator *e) {
  static const Option options[] = {{"init", OPTION_REAL, 65536, 1, 0x1p24}, {"every", OPTION_COUNT, 2000, 1, 1e6}};
  const AstStmt *s = find_setting(e, "loss_scale");
  double value[2] = {65536, 2000};
  bool given[2], found;
  if (!s) return true;
  const AstExpr *x = s->setting.n_args == 1 && !s->setting.args[0].name.text ? s->setting.args[0].value : NULL;
  bool named = x && (x->kind == AST_CALL || (x->kind == AST_NAME && strcmp(x->text, "dynamic") == 0));
  if (named) {
    const char *callee;
    int n;
    CallArg *args;
    if (!call_of(e, s, &callee, &n, &args)) return false;
    if (strcmp(callee, "dynamic") != 0) {
      elaborator_error(e, x->pos, "unknown loss scale '%s'", callee);
      elaborator_hint(e, "it is a number, or dynamic(init=65536, every=2000)");
      return false;
    }
    if (!read_options(e, s->pos, callee, n, args, 2, options, value, given)) return false;
  } else {
    value[1] = 0;
    if (!read_number(e, "loss_scale", OPTION_REAL, 0x1p-24, 0x1p24, &value[0], &found)) return false;
  }
  settings_loss_scale(e, value[0], (int64_t)value[1]);
  return true;
}

void settings_loss_scale(Elaborator *e, double init, int64_t every) {
  MlirNamedAttribute entries[] = {named_attr(e, "init", float_attr(e, init)),
                                  named_attr(e, "every", int_attr(e, every))};
  set_module_attr(e, ATTR_loss_scale, mlirDictionaryAttrGet(e->ctx, 2, entries));
}

static bool read_lengths(Elaborator *e) {
  double epochs = 1, steps = 0;
  bool has_epochs, has_steps;
  bool ok = read_number(e, "epochs", OPTION_REAL, 1e-9, 1e9, &epochs, &has_epochs);
  ok = read_number(e, "steps", OPTION_COUNT, 1, BIG, &steps, &has_steps) && ok;
  if (ok && has_epochs && has_steps)
    return elaborator_error(e, find_setting(e, "steps")->pos, "either 'epochs' or 'steps' can be given, not both");
  if (has_steps) set_module_attr(e, ATTR_steps, int_attr(e, (int64_t)steps));
  else set_module_attr(e, ATTR_epochs, float_attr(e, epochs));
  return ok;
}

static bool check_batch(Elaborator *e) {
  double batch;
  bool found;
  if (!read_number(e, "batch", OPTION_COUNT, 1, BIG, &batch, &found)) return false;
  if (!nn_has_attr(mlirModuleGetOperation(e->module), ATTR_batch)) return true;   // the data has mistakes of its own
  int64_t actual = nn_attr_i64(mlirModuleGetOperation(e->module), ATTR_batch, 1);
  if (!found || (int64_t)batch == actual) return true;
  return elaborator_error(e, find_setting(e, "batch")->pos, "the batch is %lld, the first axis of the data is %lld",
                          (long long)batch, (long long)actual);
}

// The part of the data that is evaluated, and what needs an evaluation.
static bool check_evaluation(Elaborator *e) {
  static const char *const needs[] = {"patience", "eval_every"};
  bool found, whole = false, evaluated = false, ok = true;
  double part;
  if (!read_number(e, "validation", OPTION_REAL, 0.001, 0.999, &part, &found)) return false;
  if (found) set_module_attr(e, ATTR_validation, float_attr(e, part));
  for (int i = 0; i < e->function->n_inputs; i++) whole = whole || e->function->inputs[i].whole;
  for (int i = 0; i < e->train->body.n; i++) {
    const AstStmt *s = e->train->body.stmts[i];
    evaluated = evaluated || (s->kind == AST_SETTING && strcmp(s->setting.keyword.text, "eval") == 0);
  }
  if (found && whole) {
    elaborator_error(e, find_setting(e, "validation")->pos,
                     "data that is read whole has no records to leave out of the training");
    elaborator_hint(e,
                    "masks say which nodes of a graph count: weights= of the loss, and an eval line with another mask");
    return false;
  }
  for (size_t i = 0; !found && !evaluated && i < sizeof needs / sizeof *needs; i++) {
    const AstStmt *s = find_setting(e, needs[i]);
    if (!s) continue;
    ok = elaborator_error(e, s->pos, "'%s' needs data to evaluate", needs[i]);
    elaborator_hint(e, "an eval line reads it; validation 0.1 takes a tenth of the training data");
  }
  return ok;
}

// labels ["cat", "dog"]: names of the classes, which predict prints
static bool read_labels(Elaborator *e) {
  const AstStmt *s = find_setting(e, "labels");
  CallArg arg;
  if (!s) return true;
  if (s->setting.n_args != 1 || s->setting.args[0].name.text) {
    elaborator_error(e, s->pos, "'labels' needs a list of names");
    elaborator_hint(e, "labels [\"cat\", \"dog\"]");
    return false;
  }
  if (!eval_args(e, 1, s->setting.args, &arg)) return false;
  bool ok = arg.value.kind == VALUE_LIST && arg.value.list.n > 0;
  const char **names = elaborator_alloc(e, sizeof *names * (size_t)(ok ? arg.value.list.n : 1));
  for (int i = 0; ok && i < arg.value.list.n; i++) {
    ok = arg.value.list.items[i].kind == VALUE_STRING;
    if (ok) names[i] = arg.value.list.items[i].s;
  }
  if (!ok)
    return elaborator_error(e, arg.pos, "'labels' must be a list of strings, found %s", value_describe(e, arg.value));
  e->n_labels = arg.value.list.n;
  e->labels_pos = s->pos;
  set_module_attr(e, ATTR_labels, data_texts(e, e->n_labels, names));
  return true;
}

// --- Lines in branches that are not taken
// ------------------------------------------------------------------------------------

// An argument whose value is written out; nothing is executed here, not even a sign.
static bool literal_argument(Elaborator *e, const AstExpr *x, CallArg *arg) {
  Value v;
  *arg = (CallArg){.pos = x->pos};
  switch (x->kind) {
  case AST_INT: v = value_int(x->integer); break;
  case AST_FLOAT: v = value_float(x->number); break;
  case AST_BOOL: v = value_bool(x->boolean); break;
  case AST_STRING: v = value_string(x->text); break;
  case AST_UNARY: {
    CallArg inner;
    if (!literal_argument(e, x->unary.x, &inner) || !value_unary(e, x->pos, x->unary.op, inner.value, &v)) return false;
    break;
  }
  default: return false;
  }
  arg->value = v;
  return true;
}

// The names of arguments, and the values that are written out; what a name stands for is not known here.
static void check_written(Elaborator *e, AstPos pos, const char *of, int n_args, const AstArg *args, int n,
                          const Option *options) {
  bool given[GROUP_OPTIONS] = {0};
  double ignored;
  for (int k = 0, place = 0; k < n_args; k++) {
    CallArg arg;
    int i = args[k].name.text ? find_option(e, of, args[k].name.text, args[k].name.pos, n, options) : place++;
    if (i >= n) {
      if (!args[k].name.text)
        elaborator_error(e, args[k].value->pos, "too many arguments to %s, which takes %d", of, n);
      continue;
    }
    given[i] = true;
    if (literal_argument(e, args[k].value, &arg)) option_value(e, of, &options[i], &arg, &ignored);
  }
  for (int i = 0; i < n; i++)
    if (!given[i] && isnan(options[i].otherwise)) elaborator_error(e, pos, "%s needs '%s'", of, options[i].name);
}

// Whose optimizer it is is not known: it may have any option that some optimizer has.
static void check_group(Elaborator *e, const AstStmt *s) {
  int n = s->setting.n_args, n_patterns = 0;
  Option options[GROUP_OPTIONS];
  memcpy(options, group_options, sizeof options);
  options[LR].otherwise = 0;   // that of the optimizer
  for (; n_patterns < n && !s->setting.args[n_patterns].name.text; n_patterns++) {
    CallArg arg;
    if (literal_argument(e, s->setting.args[n_patterns].value, &arg)) pattern_of(e, &arg);
  }
  if (n_patterns == 0 || n_patterns == n) group_incomplete(e, s);
  else check_written(e, s->pos, "group", n - n_patterns, s->setting.args + n_patterns, GROUP_OPTIONS, options);
}

void settings_check_line(Elaborator *e, const AstStmt *s) {
  const char *keyword = s->setting.keyword.text;
  const AstExpr *x = s->setting.n_args == 1 && !s->setting.args[0].name.text ? s->setting.args[0].value : NULL;
  bool optimizer = strcmp(keyword, "optimizer") == 0, schedule = strcmp(keyword, "schedule") == 0;
  if (strcmp(keyword, "group") == 0) check_group(e, s);
  if ((!optimizer && !schedule) || !x || (x->kind != AST_NAME && x->kind != AST_CALL)) return;
  const char *callee = x->kind == AST_NAME ? x->text : x->call.callee;
  Option options[MAX_OPTIONS];
  int n = 0;
  if (optimizer) {
    const OptimizerInfo *o = find_optimizer(e, x->pos, callee);
    if (o) n = options_of(o, false, options);
    if (n) options[0].otherwise = o->lr;
  } else {
    const ScheduleInfo *info = find_schedule(e, x->pos, callee);
    if (info) n = schedule_options_of(info, options);
  }
  if (n)
    check_written(e, s->pos, callee, x->kind == AST_CALL ? x->call.n_args : 0,
                  x->kind == AST_CALL ? x->call.args : NULL, n, options);
}

// --- All of the section
// ------------------------------------------------------------------------------------------------------

bool settings_read(Elaborator *e) {
  static const struct {
    const char *keyword, *attribute;
    double otherwise, low;
  } counts[] = {
      {"accumulate", ATTR_accumulate, 1, 1},
      {"eval_every", ATTR_eval_every, 0, 0},
      {"seed", ATTR_seed, 0, 0},
      {"patience", ATTR_patience, 0, 0},
  };
  bool ok = read_optimizer(e), found;
  if (ok) write_groups(e);
  ok = read_schedule(e, ok ? e->groups[0].lr : INFINITY) && ok;
  ok = read_loss_scale(e) && ok;
  ok = read_lengths(e) && ok;
  ok = check_batch(e) && ok;
  ok = check_evaluation(e) && ok;
  ok = read_labels(e) && ok;
  double value;
  if (!read_number(e, "clip", OPTION_REAL, 0, BIG, &value, &found)) ok = false;
  else if (found) set_module_attr(e, ATTR_clip_norm, float_attr(e, value));
  if (!read_number(e, "ema", OPTION_REAL, 0, 1, &value, &found)) ok = false;
  else if (found) set_module_attr(e, ATTR_ema, float_attr(e, e->ema = value));
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    value = counts[i].otherwise;
    ok = read_number(e, counts[i].keyword, OPTION_COUNT, counts[i].low, BIG, &value, &found) && ok;
    set_module_attr(e, counts[i].attribute, int_attr(e, (int64_t)value));
  }
  return ok;
}
