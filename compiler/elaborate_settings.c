// The settings of the train section but the optimizer: learning-rate schedule, clipping, lengths. All become attributes
// of the module.
#include <math.h>
#include <string.h>

#include "compiler/elaborate_internal.h"

// --- Keywords

static const char *const keywords[] = {"data",       "eval",    "loss",       "metric",   "optimizer",  "group",
                                       "schedule",   "clip",    "accumulate", "epochs",   "steps",      "batch",
                                       "eval_every", "seed",    "ema",        "patience", "validation", "labels",
                                       "loss_scale", "average", "parameters"};
// Those that a phase has for its own.
static const char *const of_phase[] = {"loss", "metric", "optimizer", "group", "schedule", "clip", "parameters"};

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

bool settings_in_place(Elaborator *e, const AstStmt *s) {
  const char *keyword = s->setting.keyword.text;
  bool own = false, inside = e->in_phase >= 0;
  for (size_t i = 0; i < sizeof of_phase / sizeof *of_phase; i++) own |= strcmp(keyword, of_phase[i]) == 0;
  if (inside == own || (!e->phased && strcmp(keyword, "parameters") != 0)) return true;
  if (inside) return elaborator_error(e, s->pos, "'%s' is a setting of train, not of a phase", keyword);
  if (e->phased) elaborator_error(e, s->pos, "with phases '%s' stands in one of them", keyword);
  else elaborator_error(e, s->pos, "'parameters' says what a phase trains, and there is none");
  if (!e->phased) elaborator_hint(e, "group \"pattern\", frozen=true keeps parameters as they are");
  return false;
}

const AstStmt *settings_find(Elaborator *e, const char *keyword) {
  const AstStmt *found = NULL;
  for (int i = 0; i < e->n_settings; i++) {
    const AstStmt *s = e->settings[i].line;
    if (e->settings[i].phase != e->in_phase || strcmp(s->setting.keyword.text, keyword) != 0) continue;
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
  const AstStmt *s = settings_find(e, keyword);
  *found = s != NULL;
  if (!s) return true;
  Option option = {keyword, kind, {0}, low, high, false};
  CallArg arg;
  Value v;
  if (s->setting.n_args != 1 || s->setting.args[0].name.text)
    return elaborator_error(e, s->pos, "'%s' needs %s", keyword, option_kind_name(kind));
  if (!eval_args(e, 1, s->setting.args, &arg) || !option_value(e, keyword, &option, &arg, &v)) return false;
  *value = option_number(v);
  return true;
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

// --- Schedule and the rest
// ---------------------------------------------------------------------------------------------------

// `loss_scale 1024`, `loss_scale dynamic(init=65536, every=2000)`. Without the line it is dynamic where the step
// computes in f16.
static bool read_loss_scale(Elaborator *e) {
  static const Option options[] = {{"init", OPTION_REAL, OPTION_FLOAT(65536), 1, 0x1p24, false},
                                   {"every", OPTION_COUNT, OPTION_INT(2000), 1, 1e6, false}};
  const AstStmt *s = settings_find(e, "loss_scale");
  Value value[2] = {options[0].otherwise, options[1].otherwise};
  double fixed;
  bool found;
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
    if (!options_bind(e, s->pos, callee, n, args, 2, options, value)) return false;
  } else {
    if (!read_number(e, "loss_scale", OPTION_REAL, 0x1p-24, 0x1p24, &fixed, &found)) return false;
    value[0] = value_float(fixed), value[1] = value_int(0);
  }
  settings_loss_scale(e, option_number(value[0]), (int64_t)option_number(value[1]));
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
  ok = read_number(e, "steps", OPTION_COUNT, 1, OPTION_BIG, &steps, &has_steps) && ok;
  if (ok && has_epochs && has_steps)
    return elaborator_error(e, settings_find(e, "steps")->pos, "either 'epochs' or 'steps' can be given, not both");
  if (has_steps) set_module_attr(e, ATTR_steps, int_attr(e, (int64_t)steps));
  else set_module_attr(e, ATTR_epochs, float_attr(e, epochs));
  return ok;
}

static bool check_batch(Elaborator *e) {
  double batch;
  bool found;
  if (!read_number(e, "batch", OPTION_COUNT, 1, OPTION_BIG, &batch, &found)) return false;
  if (!nn_has_attr(mlirModuleGetOperation(e->module), ATTR_batch)) return true;   // the data has mistakes of its own
  int64_t actual = nn_attr_i64(mlirModuleGetOperation(e->module), ATTR_batch, 1);
  if (!found || (int64_t)batch == actual) return true;
  return elaborator_error(e, settings_find(e, "batch")->pos, "the batch is %lld, the first axis of the data is %lld",
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
    elaborator_error(e, settings_find(e, "validation")->pos,
                     "data that is read whole has no records to leave out of the training");
    elaborator_hint(e,
                    "masks say which nodes of a graph count: weights= of the loss, and an eval line with another mask");
    return false;
  }
  for (size_t i = 0; !found && !evaluated && i < sizeof needs / sizeof *needs; i++) {
    const AstStmt *s = settings_find(e, needs[i]);
    if (!s) continue;
    ok = elaborator_error(e, s->pos, "'%s' needs data to evaluate", needs[i]);
    elaborator_hint(e, "an eval line reads it; validation 0.1 takes a tenth of the training data");
  }
  return ok;
}

// labels ["cat", "dog"]: names of the classes, which predict prints
static bool read_labels(Elaborator *e) {
  const AstStmt *s = settings_find(e, "labels");
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

void settings_check_line(Elaborator *e, const AstStmt *s) {
  const char *keyword = s->setting.keyword.text;
  const AstExpr *x = s->setting.n_args == 1 && !s->setting.args[0].name.text ? s->setting.args[0].value : NULL;
  if (strcmp(keyword, "group") == 0) optimizer_check_group(e, s);
  if (!x || (x->kind != AST_NAME && x->kind != AST_CALL)) return;
  if (strcmp(keyword, "optimizer") == 0) optimizer_check_line(e, s, x);
  if (strcmp(keyword, "schedule") == 0) schedule_check_line(e, s, x);
}

// --- All of the section

bool settings_read_phase(Elaborator *e, Phase *phase) {
  bool ok = settings_optimizer(e, settings_find(e, "optimizer"), phase);
  double rate = ok ? e->groups[phase->first_group].lr : INFINITY;
  const AstStmt *schedule = settings_find(e, "schedule");
  if (schedule && ok && e->groups[phase->first_group].rate) {
    ok = elaborator_error(e, schedule->pos, "the optimizer's 'lr' is an expression of the step: there is no schedule");
    elaborator_hint(e, "leave the line away, or give the optimizer a number");
  }
  ok = settings_schedule(e, schedule, rate, &phase->schedule) && ok;
  return read_number(e, "clip", OPTION_REAL, 0, OPTION_BIG, &phase->clip_norm, &phase->clips) && ok;
}

bool settings_read(Elaborator *e) {
  static const struct {
    const char *keyword, *attribute;
    double otherwise, low;   // -1: the attribute is absent where the keyword is
  } counts[] = {
      {"accumulate", ATTR_accumulate, -1, 1},
      {"eval_every", ATTR_eval_every, 0, 0},
      {"seed", ATTR_seed, 0, 0},
      {"patience", ATTR_patience, 0, 0},
  };
  bool ok = e->phased || settings_read_phase(e, &e->phases[0]), found;
  phases_write(e);
  ok = read_loss_scale(e) && ok;
  ok = read_lengths(e) && ok;
  ok = check_batch(e) && ok;
  ok = check_evaluation(e) && ok;
  ok = read_labels(e) && ok;
  double value;
  if (!read_number(e, "ema", OPTION_REAL, 0, 1, &value, &found)) ok = false;
  else if (found) set_module_attr(e, ATTR_ema, float_attr(e, e->ema = value));
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    value = counts[i].otherwise;
    ok = read_number(e, counts[i].keyword, OPTION_COUNT, counts[i].low, OPTION_BIG, &value, &found) && ok;
    if (value >= 0) set_module_attr(e, counts[i].attribute, int_attr(e, (int64_t)value));
  }
  return ok;
}
