// The train section: what is computed in a step (@train), in an evaluation (@eval) and for a prediction (@predict). The loss and the metrics are
// expressions over the names that the data lines give; each function elaborates them again in its own mode.
#include <string.h>

#include "compiler/elaborate_internal.h"

MlirAttribute text_attr(Elaborator *e, const char *text) { return mlirStringAttrGet(e->ctx, mlirStringRefCreateFromCString(text)); }
MlirAttribute int_attr(Elaborator *e, int64_t value) { return mlirIntegerAttrGet(mlirIntegerTypeGet(e->ctx, 64), value); }
MlirAttribute float_attr(Elaborator *e, double value) { return mlirFloatAttrDoubleGet(e->ctx, mlirF64TypeGet(e->ctx), value); }
MlirAttribute bool_attr(Elaborator *e, bool value) { return mlirBoolAttrGet(e->ctx, value); }

MlirNamedAttribute named_attr(Elaborator *e, const char *name, MlirAttribute value)
{
  return mlirNamedAttributeGet(mlirIdentifierGet(e->ctx, mlirStringRefCreateFromCString(name)), value);
}

void set_module_attr(Elaborator *e, const char *name, MlirAttribute value)
{
  mlirOperationSetAttributeByName(mlirModuleGetOperation(e->module), mlirStringRefCreateFromCString(name), value);
}

// --- Losses and metrics ----------------------------------------------------------------------------------------------------

static bool scalar_of(Elaborator *e, const AstSetting *s, MlirValue *out)
{
  Value v;
  if (!eval(e, s->expr, &v)) return false;
  bool fits = v.kind == VALUE_TENSOR && nn_value_type(v.tensor).rank == 0 && nn_dtype_is_float(nn_value_type(v.tensor).dtype);
  if (!fits) {
    elaborator_error(e, s->expr ? s->expr->pos : s->pos, "a %s must be one number computed from the data, found %s", s->keyword, value_describe(e, v));
    if (v.kind == VALUE_TENSOR) elaborator_hint(e, "mean(…) makes one number of a tensor");
    return false;
  }
  *out = v.tensor;
  return true;
}

// Metrics carry the name of the function that computes them, made distinct.
static const char *output_name(Elaborator *e, const AstSetting *s, const char *otherwise)
{
  const char *base = s->expr && s->expr->kind == AST_CALL ? s->expr->text : otherwise, *name = base;
  const Function *f = e->function;
  for (int i = 0, count = 1; i < f->n_outputs; i++) {
    if (strcmp(f->outputs[i].name, name) != 0) continue;
    name = elaborator_format(e, "%s_%d", base, ++count);
    i = -1;
  }
  return name;
}

static bool add_results(Elaborator *e)
{
  const AstFile *file = e->file;
  MlirValue total = nn_null_value(), v;
  bool ok = true;
  int losses = 0;
  for (int i = 0; i < file->n_settings; i++) {
    const AstSetting *s = &file->settings[i];
    if (strcmp(s->keyword, "loss") != 0) continue;
    if (!scalar_of(e, s, &v)) { ok = false; continue; }
    losses++;
    if (losses > 1 && nn_value_type(v).dtype != nn_value_type(total).dtype) {
      ok = elaborator_error(e, s->pos, "the losses have different element types");
      continue;
    }
    elaborator_builder(e)->loc = location_of(e, s->pos);
    total = losses == 1 ? v : nn_binary(elaborator_builder(e), NN_OP_add, total, v);
  }
  if (ok) function_add_output(e, "loss", "loss", total);
  for (int i = 0; i < file->n_settings; i++) {
    const AstSetting *s = &file->settings[i];
    bool part = losses > 1 && strcmp(s->keyword, "loss") == 0;   // the parts of a summed loss are shown on their own
    if (!part && strcmp(s->keyword, "metric") != 0) continue;
    if (part && !ok) continue;
    if (!scalar_of(e, s, &v)) { ok = false; continue; }
    function_add_output(e, "metric", output_name(e, s, s->keyword), v);
  }
  return ok;
}

static bool build_step(Elaborator *e, const char *name, Mode mode, int n, const DataInput *inputs)
{
  Function *f = function_begin(e, name, mode);
  Frame frame;
  frame_push(e, &frame, NULL, e->file->train_pos, path_create(e, ""));
  f->builder.loc = location_of(e, e->file->train_pos);
  for (int i = 0; i < n; i++)
    set_variable(e, inputs[i].name, inputs[i].pos, value_tensor(function_add_input(e, inputs[i].name, inputs[i].type)));
  bool ok = add_results(e) && !e->gave_up;
  frame_pop(e);
  if (ok) function_finish(e, f);
  else function_discard(f);
  return ok;
}

bool elaborate_train(Elaborator *e)
{
  const char *optimizer = NULL;
  DataInput *inputs;
  int n = 0;
  Frame frame;
  Function *scratch = function_begin(e, "settings", MODE_PREDICT);
  frame_push(e, &frame, NULL, e->file->train_pos, path_create(e, ""));
  bool ok = settings_check_keywords(e);
  ok = settings_optimizer(e, &optimizer) && ok;
  ok = settings_attributes(e, optimizer) && ok;
  ok = data_inputs(e, &n, &inputs) && ok;
  ok = ok && data_attributes(e, n, inputs);
  frame_pop(e);
  function_discard(scratch);
  if (!ok) return false;
  if (!build_step(e, "train", MODE_TRAIN, n, inputs) || !build_step(e, "eval", MODE_EVAL, n, inputs)) return false;
  for (int i = 1; i < e->n_groups; i++) {
    if (e->groups[i].matched) continue;
    ok = elaborator_error(e, e->groups[i].pos, "group \"%s\" matches no parameter", e->groups[i].pattern);
    elaborator_hint(e, "nnc --emit=nn shows the names of the parameters");
  }
  if (e->classes) {
    set_module_attr(e, "nn.classes", int_attr(e, e->classes));
    set_module_attr(e, "nn.label", text_attr(e, e->label));
  }
  return ok;
}

// --- Prediction --------------------------------------------------------------------------------------------------------------

static int main_argument(const Elaborator *e, const AstItem *model, int i)
{
  int place = 0;
  for (int k = 0; e->has_main_call && model == e->main_model && k < e->n_main_args; k++) {
    const char *name = e->main_args[k].name;
    if (name ? strcmp(name, model->parameters[i].name) == 0 : place++ == i) return k;
  }
  return -1;
}

// The value the model's i-th parameter has in @predict: an input for tensors, else what the train section gave. given: false for a default.
static bool predict_argument(Elaborator *e, const AstItem *model, int i, CallArg *arg, bool *given)
{
  const AstParameter *p = &model->parameters[i];
  int k = main_argument(e, model, i);
  bool trained_tensor = k >= 0 && e->main_args[k].value.kind == VALUE_TENSOR;
  *arg = (CallArg){.name = p->name, .pos = p->pos};
  *given = true;
  NnType type = nn_scalar(e->dtype);
  if (trained_tensor) {
    type = e->main_types[k];
    if (p->type && p->type->dtype && !type_dtype(e, p->type, &type.dtype)) return false;
    if (p->type && !p->type->dtype && !nn_dtype_is_float(type.dtype)) type.dtype = e->dtype;
  } else if (k >= 0) {
    arg->value = e->main_args[k].value;
    return true;
  } else if (p->fallback) {
    *given = false;
    return true;
  } else if (!p->type || !p->type->has_shape) {
    elaborator_error(e, p->pos, "'%s' of model '%s' has no value", p->name, model->name);
    elaborator_hint(e, "a tensor needs its type, as in %s: f32[N, 10]; a number a default", p->name);
    return false;
  } else if (!eval_type(e, p->type, &type)) {
    return false;
  }
  arg->value = value_tensor(function_add_input(e, p->name, type));
  return true;
}

static void add_predictions(Elaborator *e, const AstItem *model, const Value *result)
{
  const char *name = elaborator_format(e, "output.%s", model->name);
  if (result->kind == VALUE_TENSOR) function_add_output(e, "output", name, result->tensor);
  for (int i = 0; result->kind == VALUE_LIST && i < result->list.n; i++)
    if (result->list.items[i].kind == VALUE_TENSOR)
      function_add_output(e, "output", elaborator_format(e, "%s.%d", name, i), result->list.items[i].tensor);
  if (e->function->n_outputs == 0)
    elaborator_error(e, model->pos, "model '%s' must compute a tensor, found %s", model->name, value_describe(e, *result));
}

bool elaborate_predict(Elaborator *e, const AstItem *model)
{
  Function *f = function_begin(e, "predict", MODE_PREDICT);
  CallArg *args = elaborator_alloc(e, sizeof *args * (size_t)(model->n_parameters + 1));
  Frame frame;
  int n = 0;
  bool ok = true;
  Value result = {0};
  frame_push(e, &frame, NULL, model->pos, path_create(e, ""));
  f->builder.loc = location_of(e, model->pos);
  for (int i = 0; i < model->n_parameters; i++) {
    bool given;
    ok = predict_argument(e, model, i, &args[n], &given) && ok;
    n += given;
  }
  ok = ok && call_block(e, model, model->pos, NULL, n, args, &result);
  if (ok) add_predictions(e, model, &result);
  ok = ok && f->n_outputs > 0 && !e->gave_up;
  frame_pop(e);
  if (ok) function_finish(e, f);
  else function_discard(f);
  return ok;
}
