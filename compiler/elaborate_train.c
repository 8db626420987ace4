// The train section: what is computed in a step (@train), in an evaluation (@eval) and for a prediction (@predict). The
// loss and the metrics are expressions over the names that the data lines give; each function elaborates them again in
// its own mode.
#include <fnmatch.h>
#include <string.h>

#include "compiler/elaborate_internal.h"

MlirAttribute text_attr(Elaborator *e, const char *text) {
  return mlirStringAttrGet(e->ctx, mlirStringRefCreateFromCString(text));
}
MlirAttribute int_attr(Elaborator *e, int64_t value) {
  return mlirIntegerAttrGet(mlirIntegerTypeGet(e->ctx, 64), value);
}
MlirAttribute float_attr(Elaborator *e, double value) {
  return mlirFloatAttrDoubleGet(e->ctx, mlirF64TypeGet(e->ctx), value);
}
MlirAttribute bool_attr(Elaborator *e, bool value) { return mlirBoolAttrGet(e->ctx, value); }

MlirNamedAttribute named_attr(Elaborator *e, const char *name, MlirAttribute value) {
  return mlirNamedAttributeGet(mlirIdentifierGet(e->ctx, mlirStringRefCreateFromCString(name)), value);
}

void set_module_attr(Elaborator *e, const char *name, MlirAttribute value) {
  mlirOperationSetAttributeByName(mlirModuleGetOperation(e->module), mlirStringRefCreateFromCString(name), value);
}

// --- Losses and metrics

static bool is_keyword(const AstStmt *s, const char *keyword) { return strcmp(s->setting.keyword.text, keyword) == 0; }

bool train_has_line(const Elaborator *e, const AstStmt *s) {
  for (int i = 0; i < e->train->body.n; i++)
    if (e->train->body.stmts[i] == s) return true;
  return false;
}

// loss and metric lines are computed where they stand, among the assignments; data lines were read before; the others
// wait until the section is executed, since group patterns need the optimizer.
static bool exec_score(Elaborator *e, const AstStmt *s, bool is_loss) {
  if (s->setting.n_args != 1) return elaborator_error(e, s->pos, "'%s' needs one expression", s->setting.keyword.text);
  const AstArg *arg = &s->setting.args[0];
  Value v;
  if (!eval(e, arg->value, &v)) return false;
  if (!is_loss && v.kind == VALUE_TENSOR && !nn_dtype_is_float(nn_value_dtype(v.tensor)))
    v.tensor = nn_cast(elaborator_builder(e), v.tensor, e->dtype);   // a count
  bool fits = v.kind == VALUE_TENSOR && nn_value_type(v.tensor).rank == 0 &&
              nn_dtype_is_float(nn_value_dtype(v.tensor));
  if (!fits) {
    elaborator_error(e, arg->value->pos, "a %s must be one number computed from the data, found %s",
                     s->setting.keyword.text, value_describe(e, v));
    if (v.kind == VALUE_TENSOR) elaborator_hint(e, "mean(…) makes one number of a tensor");
    return false;
  }
  const char *name = arg->name.text                 ? arg->name.text
                     : arg->value->kind == AST_CALL ? arg->value->call.callee
                                                    : s->setting.keyword.text;
  static const char *const log_keys[] = {"kind", "step", "epoch", "lr", "seconds"};
  for (size_t i = 0; !is_loss && i < sizeof log_keys / sizeof *log_keys; i++)
    if (strcmp(name, log_keys[i]) == 0) {
      elaborator_error(e, arg->name.text ? arg->name.pos : arg->value->pos,
                       "a metric cannot be named '%s': each record of the log has a number of that name", name);
      elaborator_hint(e, "metric %s_value = …", name);
      return false;
    }
  if (strcmp(name, "__metadata__") == 0)
    return elaborator_error(e, arg->name.pos, "'%s' is the name of what a file says of itself, a %s cannot have it too",
                            name, s->setting.keyword.text);
  if (e->function->n_scores >= MAX_LISTED)
    return elaborator_give_up(e, s->pos, "a program has at most %d losses and metrics", MAX_LISTED);
  Score score = {.name = name, .is_loss = is_loss, .phase = e->in_phase, .pos = s->pos, .value = v.tensor};
  PUSH(e, e->function->scores, e->function->n_scores, e->function->cap_scores, score);
  return true;
}

bool exec_setting(Elaborator *e, const AstStmt *s) {
  if (!settings_known(e, s) || !settings_in_place(e, s)) return false;
  if (is_keyword(s, "loss") || is_keyword(s, "metric")) return exec_score(e, s, is_keyword(s, "loss"));
  if (is_keyword(s, "average")) return exec_average(e, s);
  if (is_keyword(s, "data") || is_keyword(s, "eval"))
    return train_has_line(e, s) ||
           elaborator_error(e, s->pos, "'%s' can only stand directly in train", s->setting.keyword.text);
  if (e->function->mode == MODE_TRAIN && !e->has_settings)
    PUSH(e, e->settings, e->n_settings, e->cap_settings, ((Setting){s, e->in_phase}));
  return true;
}

// Metrics carry the name of the function that computes them, made distinct.
static void add_metric(Elaborator *e, const Score *s) {
  const Function *f = e->function;
  const char *first = phase_name(e, s->name), *name = first;
  for (int i = 0, count = 1; i < f->n_outputs; i++) {
    if (strcmp(f->outputs[i].name, name) != 0) continue;
    name = elaborator_format(e, "%s_%d", first, ++count);
    i = -1;
  }
  function_add_output(e, "metric", name, s->value);
}

bool train_missing_loss(Elaborator *e) {
  elaborator_error(e, e->train->pos, "the train section has no loss");
  elaborator_hint(e, "loss cross_entropy(model(x), label)");
  return false;
}

// Several losses are added; each is then also shown as a metric.
static bool add_phase_results(Elaborator *e) {
  Function *f = e->function;
  MlirValue total = nn_null_value();
  int losses = 0;
  for (int i = 0; i < f->n_scores; i++) {
    const Score *s = &f->scores[i];
    if (!s->is_loss || s->phase != e->in_phase) continue;
    if (losses && nn_value_dtype(s->value) != nn_value_dtype(total))
      return elaborator_error(e, s->pos, "the losses have different element types");
    f->builder.loc = location_of(e, s->pos);
    total = losses++ ? nn_binary(&f->builder, NN_OP_add, total, s->value) : s->value;
  }
  if (losses == 0) return train_missing_loss(e);
  function_add_output(e, "loss", phase_name(e, "loss"), total);
  for (int i = 0; i < f->n_scores; i++)
    if (f->scores[i].phase == e->in_phase && (!f->scores[i].is_loss || losses > 1)) add_metric(e, &f->scores[i]);
  return true;
}

static bool add_results(Elaborator *e) {
  bool ok = true;
  if (!e->phased) return add_phase_results(e);
  for (int i = 0; i < e->n_phases; i++) {
    e->in_phase = i;
    if (e->only_phase < 0 || e->only_phase == i) ok = add_phase_results(e) && ok;
  }
  e->in_phase = -1;
  return ok;
}

static const char *parameter_path(const Elaborator *e, int i) {
  const Slot *s = &e->function->slots[i];
  return s->is_state ? NULL : s->path;
}

// The parameters nearest to a pattern, three at most; the first ones where none is near.
void hint_parameters(Elaborator *e, const char *pattern) {
  int n = e->function->n_slots, least = name_pattern_limit(pattern), n_listed = 0;
  const char *listed = NULL;
  for (int pass = 0; pass < 2 && !listed; pass++) {
    for (int i = 0; i < n && pass == 0; i++) {   // how near the nearest is
      const char *path = parameter_path(e, i);
      int distance = path ? name_pattern_distance(pattern, path, least) : least + 1;
      if (distance <= least) least = distance;
    }
    for (int i = 0; i < n && n_listed < 3; i++) {
      const char *path = parameter_path(e, i);
      if (!path || (pass == 0 && name_pattern_distance(pattern, path, least) > least)) continue;
      listed = listed ? elaborator_format(e, "%s, %s", listed, path) : path;
      n_listed++;
    }
    if (listed)
      elaborator_hint(e, "the %s parameter%s %s", pass ? "first" : "nearest", n_listed > 1 ? "s are" : " is", listed);
  }
}

// The group that has a parameter which group i would match, were it the first; NULL: there is none.
static const Group *group_before(Elaborator *e, int i, const char **path) {
  int begin = 0;   // of the groups of its phase
  for (int p = 0; p < e->n_phases; p++)
    if (e->phases[p].first_group <= i) begin = e->phases[p].first_group;
  for (int k = 0; k < e->function->n_slots; k++) {
    const Slot *s = &e->function->slots[k];
    bool matches = false;
    for (int n = 0; n < e->groups[i].n_patterns && !s->is_state; n++)
      matches |= fnmatch(e->groups[i].patterns[n], s->path, 0) == 0;
    int first = matches ? settings_group_of(e, s->path) : i;
    const Group *g = &e->groups[first];
    *path = s->path;
    if (first >= begin && first < i && g->n_patterns > 0) return g;
  }
  return NULL;
}

static bool check_groups(Elaborator *e) {
  bool ok = true;
  for (int i = 0; i < e->n_groups; i++) {
    if (e->groups[i].matched || e->groups[i].n_patterns == 0) continue;
    const char *path;
    const Group *before = group_before(e, i, &path);
    if (before) {
      ok = elaborator_error(e, e->groups[i].pos, "group \"%s\" has no parameter that is left for it",
                            e->groups[i].patterns[0]);
      elaborator_hint(e, "the first group that matches counts: write it above the other");
      elaborator_note(e, before->pos, "'%s' is in this group", path);
      continue;
    }
    ok = elaborator_error(e, e->groups[i].pos, "group \"%s\" matches no parameter", e->groups[i].patterns[0]);
    hint_parameters(e, e->groups[i].patterns[0]);
  }
  return ok;
}

// Begins a function of the section; ends with frame_pop.
static bool exec_section(Elaborator *e, const char *name, Mode mode, int n, const DataInput *inputs, Frame *frame) {
  Function *f = function_begin(e, name, mode);
  Value ignored;
  bool has_value;
  frame_push(e, frame, NULL, e->train->pos, path_create(e, ""));
  f->builder.loc = location_of(e, e->train->pos);
  for (int i = 0; i < n; i++) {
    bool known = inputs[i].typed && !inputs[i].broken;
    Value value = known ? value_tensor(
                              function_add_input(e, inputs[i].name, inputs[i].type, inputs[i].whole, inputs[i].staging))
                        : (Value){0};
    set_variable(e, inputs[i].name, inputs[i].pos, value)->broken = !known;
  }
  return exec_body(e, &e->train->body, &ignored, &has_value);
}

// What the section as a whole says: settings, the phases' parameters, names, how parameters are updated.
static bool read_section(Elaborator *e) {
  bool ok = settings_read(e);
  e->has_settings = true;
  return ok;
}

static bool check_section(Elaborator *e) {
  return phases_check(e) && optimizer_build_updates(e) && add_results(e) && function_check_names(e) && check_groups(e);
}

static bool build_step(Elaborator *e, const char *name, Mode mode, int n, const DataInput *inputs) {
  Frame frame;
  bool whole = mode == MODE_TRAIN && !e->phased;
  bool ok = exec_section(e, name, mode, n, inputs, &frame);
  Function *f = e->function;
  if (whole) ok = read_section(e) && ok;
  ok = ok && (whole ? check_section(e) : add_results(e)) && !e->gave_up;
  frame_pop(e);
  if (ok) function_finish(e, f);
  else function_discard(f);
  return ok;
}

// All phases in one function, which is made for what it says and not kept.
static bool gather_phases(Elaborator *e, int n, const DataInput *inputs) {
  Frame frame;
  MlirModule module = e->module;
  e->module = mlirModuleCreateEmpty(location_of(e, e->train->pos));   // for the bodies of scans
  bool ok = exec_section(e, "phases", MODE_TRAIN, n, inputs, &frame);
  Function *f = e->function;
  e->limits = function_limits(e);
  mlirModuleDestroy(e->module);
  e->module = module;
  ok = read_section(e) && ok && check_section(e) && !e->gave_up;
  e->n_shared_draws = f->n_keys;
  for (int i = 0; i < e->n_phases; i++) e->n_shared_draws -= e->phases[i].n_draws;
  frame_pop(e);
  function_discard(f);
  return ok;
}

static bool build_phases(Elaborator *e, int n, const DataInput *inputs) {
  bool ok = gather_phases(e, n, inputs);
  for (int i = 0; ok && i < e->n_phases; i++) {
    e->only_phase = i;
    ok = build_step(e, elaborator_format(e, "train.%s", e->phases[i].name), MODE_TRAIN, n, inputs);
  }
  e->only_phase = -1;
  return ok;
}

// Without any loss nothing tells what the data is for: its shapes are then not asked for.
bool train_has_loss(const Elaborator *e) {
  for (int i = 0; i < e->train->body.n; i++) {
    const AstStmt *s = e->train->body.stmts[i];
    // loops and conditions may hold one
    if (s->kind != AST_SETTING ? s->kind != AST_ASSIGN : is_keyword(s, "loss")) return true;
  }
  return false;
}

bool elaborate_train(Elaborator *e) {
  DataInput *inputs;
  int n = 0;
  Frame frame;
  Function *scratch = function_begin(e, "data", MODE_PREDICT);
  frame_push(e, &frame, NULL, e->train->pos, path_create(e, ""));
  bool ok = phases_find(e);
  ok = data_inputs(e, &n, &inputs) && data_attributes(e, n, inputs) && ok;
  frame_pop(e);
  function_discard(scratch);
  // also without its data: the settings have mistakes of their own
  ok = (e->phased ? build_phases(e, n, inputs) : build_step(e, "train", MODE_TRAIN, n, inputs)) && ok;
  return ok && (e->train_alone || build_step(e, "eval", MODE_EVAL, n, inputs));
}

// --- Prediction

// The model's first call in the train section; NULL: it is not called there.
static const ModelUse *find_use(const Elaborator *e, const AstItem *model) {
  for (int i = 0; i < e->n_uses; i++)
    if (e->uses[i].model == model) return &e->uses[i];
  return NULL;
}

// The argument of that call for the model's i-th parameter; -1: none.
static int used_argument(const ModelUse *use, const AstItem *model, int i) {
  int place = 0;
  for (int k = 0; use && k < use->n_args; k++) {
    const char *name = use->args[k].name;
    if (name ? strcmp(name, model->parameters[i].name.text) == 0 : place++ == i) return k;
  }
  return -1;
}

// The value the model's i-th parameter has in @predict: an input for tensors, else what the train section gave. given:
// false for a default.
static bool predict_argument(Elaborator *e, const AstItem *model, int i, CallArg *arg, bool *given) {
  const AstParameter *p = &model->parameters[i];
  const ModelUse *use = find_use(e, model);
  int k = used_argument(use, model, i);
  *arg = (CallArg){.name = p->name.text, .pos = p->name.pos};
  *given = k >= 0 || !p->otherwise;
  if (!*given) return true;
  NnType type = nn_scalar(e->dtype);
  if (k >= 0 && use->args[k].value.kind != VALUE_TENSOR) {
    arg->value = use->args[k].value;
    return true;
  }
  if (k >= 0) {
    type = use->inputs[k].type;
    if (p->has_type && p->type.dtype && !type_dtype(e, &p->type, &type.dtype)) return false;
  } else if (!p->has_type) {
    elaborator_error(e, p->name.pos, "'%s' of model '%s' has no value", p->name.text, model->name.text);
    elaborator_hint(e, "a tensor needs its type, as in %s: f32[N, 10]; a number a default", p->name.text);
    return false;
  } else if (!eval_type(e, &p->type, &type)) {
    return false;
  }
  bool whole = type.rank == 0 || (k >= 0 && use->inputs[k].whole);
  arg->value = value_tensor(function_add_input(e, p->name.text, type, whole, k >= 0 ? use->inputs[k].staging : NULL));
  if (k >= 0) e->function->inputs[e->function->n_inputs - 1].drawn = use->inputs[k].drawn;
  return true;
}

// Of a tuple or list each element, by its place in it.
static void add_outputs(Elaborator *e, const AstItem *model, const char *name, const Value *v) {
  if (v->kind == VALUE_TENSOR) {
    function_add_output(e, "output", name, value_before_widening(v->tensor));
  } else if (v->kind == VALUE_LIST) {
    for (int i = 0; i < v->list.n; i++)
      add_outputs(e, model, elaborator_format(e, "%s.%d", name, i), &v->list.items[i]);
  } else {
    elaborator_warning(e, model->name.pos, "there is no '%s': an output is a tensor, found %s", name,
                       value_describe(e, *v));
  }
}

static void add_predictions(Elaborator *e, const AstItem *model, const Value *result) {
  bool labelled = e->n_labels && model == e->main_model;
  const char *name = elaborator_format(e, "output.%s", model->name.text);
  NnType t = result->kind == VALUE_TENSOR ? nn_value_type(result->tensor) : nn_scalar(NN_F32);
  if (labelled && t.rank > 0 && t.dim[t.rank - 1] != e->n_labels)
    elaborator_error(e, e->labels_pos, "%d labels, the last axis of '%s' has %lld classes", e->n_labels,
                     model->name.text, (long long)t.dim[t.rank - 1]);
  if (result->kind == VALUE_TENSOR || result->kind == VALUE_LIST) add_outputs(e, model, name, result);
  if (e->function->n_outputs == 0 && (model == e->main_model || !find_use(e, model)))
    elaborator_error(e, model->name.pos, "model '%s' must compute a tensor, found %s", model->name.text,
                     value_describe(e, *result));
}

// The model by itself, of inputs as its signature says. Owned: function_finish or function_discard. false: after
// reporting.
static bool build_prediction(Elaborator *e, const AstItem *model, Function **out) {
  const char *name = model == e->main_model ? "predict" : elaborator_format(e, "predict.%s", model->name.text);
  Function *f = *out = function_begin(e, name, MODE_PREDICT);
  CallArg *args = elaborator_alloc(e, sizeof *args * (size_t)(model->n_parameters + 1));
  Frame frame;
  int n = 0;
  bool ok = true;
  Value result = {0};
  frame_push(e, &frame, NULL, model->name.pos, path_create(e, ""));
  f->builder.loc = location_of(e, model->name.pos);
  for (int i = 0; i < model->n_parameters; i++) {
    bool given;
    ok = predict_argument(e, model, i, &args[n], &given) && ok;
    n += given;
  }
  ok = ok && call_block(e, model, model->name.pos, &(AstName){0}, n, args, &result);
  if (ok) add_predictions(e, model, &result);
  ok = ok && f->n_outputs > 0 && !e->gave_up;
  frame_pop(e);
  return ok;
}

bool elaborate_predict(Elaborator *e, const AstItem *model) {
  Function *f;
  bool ok = build_prediction(e, model, &f);
  if (ok) function_finish(e, f);
  else function_discard(f);
  return ok;
}

// --- The other models

static bool is_constant(Elaborator *e, const AstExpr *x) {
  switch (x->kind) {
  case AST_INT: return true;
  case AST_NAME: return find_variable(e->globals, x->text) != NULL;
  case AST_UNARY: return is_constant(e, x->unary.x);
  case AST_BINARY: return is_constant(e, x->binary.x) && is_constant(e, x->binary.y);
  default: return false;
  }
}

// Every argument has a default, or a type whose sizes the file gives.
static bool says_its_shapes(Elaborator *e, const AstItem *model) {
  for (int i = 0; i < model->n_parameters; i++) {
    const AstParameter *p = &model->parameters[i];
    if (p->otherwise) continue;
    if (!p->has_type || !p->type.dtype || p->type.has_rest) return false;
    for (int k = 0; k < p->type.n_dims; k++)
      if (!is_constant(e, p->type.dims[k])) return false;
  }
  return true;
}

static bool has_argument(MlirModule module, const char *name) {
  MlirAttribute wanted = mlirStringAttrGet(mlirModuleGetContext(module), nn_string_ref(name));
  NN_FOREACH_OP (func, mlirModuleGetBody(module))
    for (int a = 0; nn_is(func, "func.func") && a < nn_function_n_args(func); a++)
      if (mlirAttributeEqual(nn_arg_attr(func, a, ATTR_name), wanted)) return true;
  return false;
}

// Training, where there is any, gives all parameters and states that f reads.
static bool has_its_slots(const Elaborator *e, const Function *f) {
  for (int i = 0; e->train && i < f->n_slots; i++)
    if (!has_argument(e->module, f->slots[i].average_of ? f->slots[i].average_of : f->slots[i].path)) return false;
  return true;
}

// Built in a module of its own first, where the bodies of scans stay behind.
static bool can_predict(Elaborator *e, const AstItem *model) {
  MlirModule module = e->module;
  Function *f;
  e->module = mlirModuleCreateEmpty(location_of(e, model->name.pos));
  bool ok = build_prediction(e, model, &f);
  mlirModuleDestroy(e->module);
  e->module = module;
  ok = ok && has_its_slots(e, f);
  function_discard(f);
  return ok;
}

void elaborate_others(Elaborator *e) {
  for (int i = 0; i < e->file->n_items && !e->gave_up; i++) {
    const AstItem *model = e->file->items[i];
    if (model->kind != AST_MODEL || model == e->main_model || !(find_use(e, model) || says_its_shapes(e, model)))
      continue;
    if (can_predict(e, model)) elaborate_predict(e, model);
  }
}
