// Optimizers: which one, its arguments, groups of parameters that have others, and the functions that say how a
// parameter is updated. An optimizer is written in the language (compiler/library/optimizers.nn, or the program's own):
//   optimizer sgd(parameter, gradient, lr=0.01) { parameter - lr * gradient }
// Its body computes the new parameter; `state` and `update` are what it keeps of it. `lr` is the learning rate of the
// step, `step` the number of the step, from 1; all others are constants. For each type of parameter in each group there
// is a function @update…, which the pass autodiff puts behind the gradient.
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "compiler/elaborate_internal.h"
#include "compiler/methods.h"

// --- Arguments

enum { FIRST_OPTION = 2 };   // behind the parameter and its gradient

static const Option frozen_option = {"frozen", OPTION_FLAG, {.kind = VALUE_BOOL}, 0, 1, false};

void optimizer_check_declaration(Elaborator *e, const AstItem *o) {
  bool has_rate = false, tensors = o->n_parameters >= FIRST_OPTION;
  for (int i = 0; i < o->n_parameters; i++) {
    const AstParameter *p = &o->parameters[i];
    has_rate |= i >= FIRST_OPTION && strcmp(p->name.text, "lr") == 0;
    if (i < FIRST_OPTION) tensors = tensors && !p->otherwise;
  }
  if (tensors && has_rate) return;
  elaborator_error(e, o->name.pos, "optimizer '%s' needs the parameter, its gradient and 'lr' as arguments",
                   o->name.text);
  elaborator_hint(e, "optimizer %s(parameter, gradient, lr=0.01) { parameter - lr * gradient }", o->name.text);
}

static bool is_step(const AstParameter *p) { return strcmp(p->name.text, "step") == 0; }

// *place: number of the parameter of each option.
static bool optimizer_options(Elaborator *e, const AstItem *o, bool is_group, int *n, Option **options, int **place) {
  static const char *const given[] = {"step"};
  bool ok = options_of(e, o, FIRST_OPTION, 1, given, n, options, place);
  if (is_group) (*options)[*n] = frozen_option, (*place)[(*n)++] = 0;   // in the place of the parameter itself
  return ok;
}

// The arguments of an optimizer or a group; an `lr` that follows from the step becomes g->rate.
static bool eval_arguments(Elaborator *e, int n, const AstArg *from, CallArg *args, Group *g) {
  bool ok = true;
  for (int i = 0; i < n; i++) {
    bool rate = from[i].name.text && strcmp(from[i].name.text, "lr") == 0;
    if (!rate) {
      ok = eval_args(e, 1, &from[i], &args[i]) && ok;
      continue;
    }
    args[i] = (CallArg){.name = from[i].name.text, .name_pos = from[i].name.pos, .pos = from[i].value->pos};
    ok = settings_rate(e, from[i].value, &args[i].value, &g->rate) && ok;
    if (g->rate) args[i].value = value_float(1);
  }
  return ok;
}

// For what the optimizer says of an argument. An own optimizer's are there before those behind it on the line.
static bool note_places(Elaborator *e, Group *g, int n_args, const CallArg *args, int n, const Option *options,
                        const int *place) {
  size_t size = (size_t)(g->optimizer->n_parameters + 1) * sizeof(AstPos);
  AstPos *places = elaborator_alloc(e, size);
  bool ok = true;
  if (g->place) memcpy(places, g->place, size);
  for (int k = 0, i = 0; k < n_args; k++, i++) {
    for (int j = 0; args[k].name && j < n; j++)
      if (strcmp(options[j].name, args[k].name) == 0) i = j;
    if (places[place[i]].source)
      ok = elaborator_error(e, args[k].pos, "'%s' is given twice, to %s and behind it", options[i].name,
                            g->optimizer->name.text);
    places[place[i]] = args[k].pos;
  }
  g->place = places;
  return ok;
}

// What the program has tables of, which the body does not compute. value: of each option.
static bool read_numbers(Elaborator *e, Group *g, int n, const Option *options, const int *place, Value *value) {
  static const char *const names[] = {"lr", "beta1", "beta2"};
  double *const numbers[] = {&g->lr, &g->beta1, &g->beta2};
  const AstItem *o = g->optimizer;
  bool ok = options_complete(e, o, n, options, place, value);
  g->lr = 0, g->beta1 = 0.9, g->beta2 = 0.999;
  for (int i = 0; i < n; i++)
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
      if (strcmp(options[i].name, names[k]) != 0) continue;
      *numbers[k] = option_number(value[i]);
      if (value[i].kind == VALUE_INT || value[i].kind == VALUE_FLOAT) continue;
      const AstParameter *p = &o->parameters[place[i]];
      bool given = g->place && g->place[place[i]].source;
      if (!given && p->otherwise)
        ok = elaborator_error(e, p->otherwise->pos, "the default of '%s' must be a constant number", names[k]);
      else
        ok = elaborator_error(e, given ? g->place[place[i]] : p->name.pos, "'%s' of '%s' must be a number, found %s",
                              names[k], o->name.text, value_describe(e, value[i]));
    }
  return ok;
}

// Reads arguments into the values that g begins with.
static bool read_arguments(Elaborator *e, AstPos pos, const char *of, bool is_group, int n_args, const CallArg *args,
                           Group *g) {
  const AstItem *o = g->optimizer;
  Option *options;
  int n, *place;
  if (!optimizer_options(e, o, is_group, &n, &options, &place)) return false;
  Value *all = elaborator_alloc(e, sizeof *all * (size_t)(o->n_parameters + 1)),
        *value = elaborator_alloc(e, sizeof *value * (size_t)(n + 1));
  for (int i = 0; i < n; i++) value[i] = g->value ? g->value[place[i]] : options[i].otherwise;
  if (!options_bind(e, pos, of, n_args, args, n, options, value) || !note_places(e, g, n_args, args, n, options, place))
    return false;
  for (int i = 0; i < n; i++) all[place[i]] = value[i];
  if (!is_group) all[0] = value_bool(false);
  g->value = all;
  g->frozen = all[0].b;
  return read_numbers(e, g, n, options, place, value);
}

// `adamw(lr=1e-3)`: name and arguments. A name alone is a call without arguments.
static bool read_call(Elaborator *e, AstPos pos, const AstExpr *x, Group *g) {
  bool call = x->kind == AST_CALL;
  int n = call ? x->call.n_args : 0;
  const char *name = call ? x->call.callee : x->text;
  CallArg *args = elaborator_alloc(e, sizeof *args * (size_t)(n + 1));
  g->rate = NULL;
  if (n && !eval_arguments(e, n, x->call.args, args, g)) return false;
  g->optimizer = method_named(e, AST_OPTIMIZER, x->pos, name);
  return g->optimizer && read_arguments(e, pos, name, false, n, args, g);
}

// --- Groups

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

// The optimizer that a group has for its own, behind the patterns; NULL: that of all.
static const AstExpr *own_optimizer(const Elaborator *e, const AstStmt *s, int n_patterns) {
  const AstArg *a = n_patterns < s->setting.n_args ? &s->setting.args[n_patterns] : NULL;
  if (!a || a->name.text) return NULL;
  bool call = a->value->kind == AST_CALL,
       name = a->value->kind == AST_NAME && method_of(e, AST_OPTIMIZER, a->value->text);
  return call || name ? a->value : NULL;
}

static int count_patterns(const Elaborator *e, const AstStmt *s) {
  int n = 0;
  while (n < s->setting.n_args && !s->setting.args[n].name.text && !own_optimizer(e, s, n)) n++;
  return n;
}

// group "*.bias", "*.norm.*", weight_decay=0: patterns, then what differs from the optimizer's own arguments; or
// group "embedding.*", adamw(lr=3e-4): another optimizer
static bool read_group_line(Elaborator *e, const AstStmt *s, const Group *base) {
  int n = s->setting.n_args, n_patterns = count_patterns(e, s);
  const AstExpr *own = own_optimizer(e, s, n_patterns);
  int first = n_patterns + (own != NULL);
  CallArg *args = elaborator_alloc(e, sizeof *args * (size_t)(n + 1));
  Group g = {.pos = s->pos, .patterns = elaborator_alloc(e, sizeof *g.patterns * (size_t)(n + 1))};
  if (!eval_args(e, n_patterns, s->setting.args, args)) return false;
  for (; g.n_patterns < n_patterns; g.n_patterns++) {
    if (!pattern_of(e, &args[g.n_patterns])) return false;
    g.patterns[g.n_patterns] = args[g.n_patterns].value.s;
  }
  if (n_patterns == 0 || n_patterns == n) return group_incomplete(e, s);
  if (e->n_groups > MAX_LISTED) return elaborator_give_up(e, s->pos, "a program has at most %d groups", MAX_LISTED);
  g.optimizer = base->optimizer;
  g.value = base->value;
  g.rate = base->rate;
  if (own && !read_call(e, s->pos, own, &(Group){0})) return false;
  if (own) g.value = NULL, read_call(e, s->pos, own, &g);
  if (!eval_arguments(e, n - first, s->setting.args + first, args + n_patterns, &g) ||
      !read_arguments(e, s->pos, "group", true, n - first, args + n_patterns, &g))
    return false;
  PUSH(e, e->groups, e->n_groups, e->cap_groups, g);
  return true;
}

bool settings_optimizer(Elaborator *e, const AstStmt *s, Phase *phase) {
  if (!s) {
    if (phase->line) elaborator_error(e, phase->line->pos, "phase '%s' has no optimizer", phase->name);
    else elaborator_error(e, e->train->pos, "the train section has no optimizer");
    elaborator_hint(e, "optimizer adamw(lr=1e-3)");
    return false;
  }
  const AstExpr *x = s->setting.n_args == 1 && !s->setting.args[0].name.text ? s->setting.args[0].value : NULL;
  if (!x || (x->kind != AST_NAME && x->kind != AST_CALL))
    return elaborator_error(e, s->pos, "'optimizer' needs a name and its arguments");
  Group all = {.pos = s->pos};
  if (!read_call(e, s->pos, x, &all)) return false;
  phase->first_group = e->n_groups;
  phase->optimizer = all.optimizer->name.text;
  PUSH(e, e->groups, e->n_groups, e->cap_groups, all);
  bool ok = true;
  for (int i = 0; ok && i < e->n_settings; i++)
    if (e->settings[i].phase == e->in_phase && strcmp(e->settings[i].line->setting.keyword.text, "group") == 0)
      ok = read_group_line(e, e->settings[i].line, &all);
  phase->n_groups = e->n_groups - phase->first_group;
  return ok;
}

void optimizer_write_groups(Elaborator *e) {
  MlirAttribute *groups = elaborator_alloc(e, sizeof *groups * (size_t)e->n_groups);
  for (int i = 0; i < e->n_groups; i++) {
    const Group *g = &e->groups[i];
    MlirNamedAttribute entries[] = {
        named_attr(e, "lr", float_attr(e, g->lr)),
        named_attr(e, "beta1", float_attr(e, g->beta1)),
        named_attr(e, "beta2", float_attr(e, g->beta2)),
        named_attr(e, "frozen", bool_attr(e, g->frozen)),
        named_attr(e, "rate", text_attr(e, g->rate ? g->rate : "")),
    };
    groups[i] = mlirDictionaryAttrGet(e->ctx, (g->rate ? 5 : 4), entries);
  }
  set_module_attr(e, ATTR_groups, mlirArrayAttrGet(e->ctx, e->n_groups, groups));
}

int settings_group_of(Elaborator *e, const char *path) {
  const Phase *phase = phase_of(e, path);
  if (!phase) return 0;
  for (int i = phase->first_group + 1; i < phase->first_group + phase->n_groups; i++) {
    for (int k = 0; k < e->groups[i].n_patterns; k++) {
      if (fnmatch(e->groups[i].patterns[k], path, 0) != 0) continue;
      e->groups[i].matched = true;
      return i;
    }
  }
  return phase->first_group;
}

bool settings_averaged(Elaborator *e, const char *path) {
  return e->ema > 0 && e->n_groups > 0 && !e->groups[settings_group_of(e, path)].frozen;
}

// --- Lines in branches that are not taken
// ------------------------------------------------------------------------------------

void optimizer_check_line(Elaborator *e, const AstStmt *s, const AstExpr *x) {
  const char *callee = x->kind == AST_NAME ? x->text : x->call.callee;
  const AstItem *o = method_named(e, AST_OPTIMIZER, x->pos, callee);
  Option *options;
  int n, *place;
  if (!o || !optimizer_options(e, o, false, &n, &options, &place)) return;
  options_check(e, s->pos, callee, x->kind == AST_CALL ? x->call.n_args : 0, x->kind == AST_CALL ? x->call.args : NULL,
                n, options);
}

// Whose optimizer it is is not known: it may have any option that some optimizer has.
static int all_options(Elaborator *e, Option **options) {
  int n = 0, capacity = 0;
  for (int i = 0; method_nth(e, AST_OPTIMIZER, i); i++) {
    Option *some;
    int n_some, *place;
    if (!optimizer_options(e, method_nth(e, AST_OPTIMIZER, i), false, &n_some, &some, &place)) continue;
    for (int k = 0; k < n_some; k++) {
      int same = 0;
      while (same < n && strcmp((*options)[same].name, some[k].name) != 0) same++;
      if (same < n) continue;
      if (some[k].otherwise.kind == VALUE_NONE) some[k].otherwise = value_float(0);   // that of the optimizer
      PUSH(e, *options, n, capacity, some[k]);
    }
  }
  PUSH(e, *options, n, capacity, frozen_option);
  return n;
}

void optimizer_check_group(Elaborator *e, const AstStmt *s) {
  int n = s->setting.n_args, n_patterns = count_patterns(e, s);
  const AstExpr *own = own_optimizer(e, s, n_patterns);
  int first = n_patterns + (own != NULL);
  Option *options = NULL;
  for (int i = 0; i < n_patterns; i++) {
    CallArg arg;
    if (option_literal(e, s->setting.args[i].value, &arg)) pattern_of(e, &arg);
  }
  if (own) optimizer_check_line(e, s, own);
  int n_options = all_options(e, &options);
  if (n_patterns == 0 || n_patterns == n) group_incomplete(e, s);
  else options_check(e, s->pos, "group", n - first, s->setting.args + first, n_options, options);
}

// --- The functions that update

typedef struct Update {
  const char *function;
  int group;
  NnType type;
  int n_states;
  const char **states;   // their names
} Update;

// What its body calls its arguments: tensors, scalars of the step, constants.
static int make_arguments(Elaborator *e, const Group *g, NnType type, CallArg *args) {
  const AstItem *o = g->optimizer;
  int n = 0;
  for (int i = 0; i < o->n_parameters; i++) {
    const char *name = o->parameters[i].name.text;
    bool scalar = strcmp(name, "lr") == 0 || is_step(&o->parameters[i]);
    CallArg arg = {.name = name, .pos = g->place[i].source ? g->place[i] : g->pos};
    if (i < FIRST_OPTION)
      arg.value = value_tensor(function_add_input(e, i ? "gradient" : "parameter", type, false, NULL));
    else if (scalar) arg.value = value_tensor(function_add_input(e, name, nn_scalar(NN_F64), false, NULL));
    else arg.value = g->value[i];
    if (arg.value.kind != VALUE_NONE) args[n++] = arg;   // else its default is computed in the body
  }
  return n;
}

static bool add_result(Elaborator *e, const AstItem *o, NnType type, Value result) {
  NnType found = result.kind == VALUE_TENSOR ? nn_value_type(result.tensor) : (NnType){0};
  char text[128];
  if (result.kind != VALUE_TENSOR || !nn_type_equal(&found, &type)) {
    elaborator_error(e, o->name.pos, "optimizer '%s' must end with the new value of the parameter, %s; found %s",
                     o->name.text, nn_type_format(&type, text, sizeof text), value_describe(e, result));
    return false;
  }
  function_add_output(e, "output", "parameter", result.tensor);
  return true;
}

// Averages and sums of gradients, which have names beside the states of the optimizer.
bool optimizer_is_taken(const char *state) { return strcmp(state, "ema") == 0 || strcmp(state, "grad_accum") == 0; }

static bool build_update(Elaborator *e, Update *u) {
  const Group *g = &e->groups[u->group];
  const AstItem *o = g->optimizer;
  Function *outer = e->function, *f = function_begin(e, u->function, MODE_TRAIN);
  CallArg *args = elaborator_alloc(e, sizeof *args * (size_t)(o->n_parameters + 1));
  Value result = {0};
  Frame frame;
  frame_push(e, &frame, NULL, g->pos, path_create(e, ""));
  f->builder.loc = location_of(e, g->pos);
  f->builder.phase = "update";
  int n = make_arguments(e, g, u->type, args);
  bool ok = call_block(e, o, g->pos, &(AstName){0}, n, args, &result) && add_result(e, o, u->type, result);
  frame_pop(e);
  u->states = elaborator_alloc(e, sizeof *u->states * (size_t)(f->n_slots + 1));
  for (int i = 0; i < f->n_slots; i++) {
    f->slots[i].declared = false;   // no text goes on with it
    u->states[u->n_states++] = f->slots[i].path;
    if (optimizer_is_taken(f->slots[i].path))
      ok = elaborator_error(e, f->slots[i].pos, "'%s' is the name of what training keeps of a parameter",
                            f->slots[i].path);
    if (f->slots[i].is_state) continue;
    ok = elaborator_error(e, f->slots[i].pos, "an optimizer has no parameters of its own: '%s'", f->slots[i].path);
    elaborator_hint(e, "state %s: f32[…] is kept from step to step", f->slots[i].path);
  }
  if (f->n_keys) ok = elaborator_error(e, o->name.pos, "an optimizer draws no random numbers");
  if (ok) function_finish(e, f);
  else function_discard(f);
  e->function = outer;
  return ok;
}

static Update *find_update(const Elaborator *e, int group, NnType type) {
  for (int i = 0; i < e->n_updates; i++)
    if (e->updates[i].group == group && nn_type_equal(&e->updates[i].type, &type)) return &e->updates[i];
  return NULL;
}

bool optimizer_build_updates(Elaborator *e) {
  const Function *f = e->function;
  bool ok = true;
  for (int i = 0; i < f->n_slots && !e->gave_up; i++) {
    const Slot *s = &f->slots[i];
    int group = settings_group_of(e, s->path);
    if (s->is_state || e->groups[group].frozen || find_update(e, group, s->type)) continue;
    const char *name = e->n_updates ? elaborator_format(e, "update_%d", e->n_updates + 1) : "update";
    PUSH(e, e->updates, e->n_updates, e->cap_updates, ((Update){name, group, s->type, 0, NULL}));
    ok = build_update(e, &e->updates[e->n_updates - 1]) && ok;
  }
  return ok;
}

const char *optimizer_update_of(Elaborator *e, const char *path, NnType type) {
  const Update *u = find_update(e, settings_group_of(e, path), type);
  return u ? u->function : NULL;
}

bool optimizer_keeps(Elaborator *e, const char *state) {
  for (int i = 0; i < e->n_updates; i++)
    for (int k = 0; k < e->updates[i].n_states; k++)
      if (strcmp(e->updates[i].states[k], state) == 0) return true;
  return false;
}
