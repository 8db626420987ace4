// How a parameter is updated: a function of the program, whose ops are put behind the gradient.
//   arguments, by nn.name: `parameter`, `gradient`, `lr` and `step` (f64), with nn.role = "state" what is kept of it
//   results: the new parameter, then with nn.tied what the states become
// What depends on `lr` and `step` alone is computed once, before all updates. 1 - beta^step of the group's betas comes
// ready-made. A function whose ops are all element by element serves parameters of any shape, and parts of them.
#include <stdlib.h>
#include <string.h>

#include "passes/autodiff/autodiff.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "support/alloc.h"

static bool is_argument(MlirOperation func, MlirValue v, const char *name) {
  char text[32];
  return mlirValueIsABlockArgument(v) &&
         strcmp(nn_arg_str(func, nn_value_index(v), ATTR_name, text, sizeof text, ""), name) == 0;
}

static int argument_of(MlirOperation func, const char *name) {
  for (int i = 0; i < nn_function_n_args(func); i++)
    if (is_argument(func, mlirBlockGetArgument(nn_function_body(func), i), name)) return i;
  return -1;
}

// The number that was written, not what its type holds of it: beta1 and beta2 may be one there.
static bool is_constant(MlirValue v, double value) {
  MlirOperation op = nn_value_def(v);
  return nn_op_of(op) == NN_OP_constant && nn_attr_f64(op, "value", 0) == value;
}

// 1 - beta^step: 1 or 2; else 0.
static int correction_of(MlirOperation func, MlirOperation op, const OptimizerGroup *group) {
  if (nn_op_of(op) != NN_OP_sub || !is_constant(nn_operand(op, 0), 1)) return 0;
  MlirOperation power = nn_value_def(nn_operand(op, 1));
  if (nn_op_of(power) != NN_OP_pow || !is_argument(func, nn_operand(power, 1), "step")) return 0;
  return is_constant(nn_operand(power, 0), group->beta1) ? 1 : is_constant(nn_operand(power, 0), group->beta2) ? 2 : 0;
}

static bool reads_step(const Update *u) {
  int arg = argument_of(u->func, "step");
  if (arg < 0) return false;
  NN_FOREACH_USE (use, mlirBlockGetArgument(nn_function_body(u->func), arg)) {
    MlirOperation power = mlirOpOperandGetOwner(use);
    if (nn_op_of(power) != NN_OP_pow) return true;
    NN_FOREACH_USE (inner, mlirOperationGetResult(power, 0))
      if (ptr_map_get(&u->corrections, mlirOpOperandGetOwner(inner).ptr) < 0) return true;
  }
  return false;
}

static bool same_shape(NnType x, NnType y) {
  y.dtype = x.dtype;
  return nn_type_equal(&x, &y);
}

// Every value has the parameter's shape or none.
static bool is_elementwise(MlirOperation func, NnType parameter) {
  for (int i = 0; i < nn_function_n_args(func); i++) {
    NnType t = nn_value_type(mlirBlockGetArgument(nn_function_body(func), i));
    if (t.rank > 0 && !same_shape(t, parameter)) return false;
  }
  NN_FOREACH_OP (op, nn_function_body(func)) {
    NnOp kind = nn_op_of(op);
    if (nn_is(op, "func.return")) continue;
    if (kind == NN_OP_NONE) return false;
    NnType t = nn_value_type(mlirOperationGetResult(op, 0));
    NnOpKind of = nn_op_info(kind)->kind;
    bool local = of == NN_KIND_MAP || kind == NN_OP_constant ||
                 (kind == NN_OP_broadcast && nn_value_type(nn_operand(op, 0)).rank == 0);
    if (!local || (t.rank > 0 && !same_shape(t, parameter))) return false;
  }
  return true;
}

static bool check_shape(const Optimizer *o, MlirOperation func, NnType type) {
  int arg = argument_of(func, "parameter");
  if (arg < 0 || argument_of(func, "gradient") < 0) {
    nn_error(func, "an update needs arguments 'parameter' and 'gradient'");
    return false;
  }
  NnType own = nn_value_type(mlirBlockGetArgument(nn_function_body(func), arg));
  char text[128], other[128];
  if (own.dtype != type.dtype) {
    nn_error(func, "an update of %s cannot be one of %s", nn_type_format(&own, text, sizeof text),
             nn_type_format(&type, other, sizeof other));
    return false;
  }
  if ((same_shape(own, type) && !o->parts) || is_elementwise(func, own)) return true;
  nn_error(func,
           "the optimizer computes with a whole parameter of %s, of which each rank has a part; it may with "
           "--shard=none, and Adam computes each element alone with bits=32",
           nn_type_format(&own, text, sizeof text));
  return false;
}

static bool operand_follows(const PtrMap *follows, MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (ptr_map_get(follows, nn_operand(op, i).ptr) >= 0) return true;
  return false;
}

// Where the parameter is a scalar, shapes do not tell its values from those of the step, such as a power of a beta: it
// is those that come from the parameter or the gradient, and states that become such.
static void find_follows(MlirOperation func, PtrMap *follows) {
  MlirBlock body = nn_function_body(func);
  ptr_map_set(follows, mlirBlockGetArgument(body, argument_of(func, "parameter")).ptr, 1);
  ptr_map_set(follows, mlirBlockGetArgument(body, argument_of(func, "gradient")).ptr, 1);
  MlirOperation end = nn_function_return(func);
  for (bool more = true; more;) {
    more = false;
    NN_FOREACH_OP (op, body)
      if (mlirOperationGetNumResults(op) == 1 && operand_follows(follows, op))
        ptr_map_set(follows, mlirOperationGetResult(op, 0).ptr, 1);
    for (int i = 1; i < nn_function_n_results(func); i++) {
      MlirValue state = mlirBlockGetArgument(body, nn_result_i64(func, i, ATTR_tied, -1));
      if (ptr_map_get(follows, nn_operand(end, i).ptr) < 0 || ptr_map_get(follows, state.ptr) >= 0) continue;
      ptr_map_set(follows, state.ptr, 1);
      more = true;
    }
  }
}

int update_find(Optimizer *o, MlirModule module, const char *name, int64_t group, NnType type) {
  MlirOperation func = nn_module_function(module, name);
  if (mlirOperationIsNull(func)) {
    nn_error(mlirModuleGetOperation(module), "parameters are updated by @%s, which the module does not have", name);
    return -1;
  }
  if (!check_shape(o, func, type)) return -1;
  for (int i = 0; i < o->n_updates; i++)
    if (mlirOperationEqual(o->update[i].func, func) && o->update[i].group == group) return i;
  Update u = {.func = func, .group = group};
  NN_FOREACH_OP (op, nn_function_body(func)) {
    int correction = correction_of(func, op, &o->group[group]);
    if (correction) ptr_map_set(&u.corrections, op.ptr, correction);
  }
  u.reads_step = reads_step(&u);
  if (nn_value_type(mlirBlockGetArgument(nn_function_body(func), argument_of(func, "parameter"))).rank == 0)
    find_follows(func, &u.follows);
  *ARRAY_ADD(o->update, o->n_updates) = u;
  return o->n_updates - 1;
}

void update_free(Update *u) {
  ptr_map_free(&u->corrections);
  ptr_map_free(&u->follows);
  ptr_map_free(&u->scalars);
  free(u->scalar);
}

void update_erase(Optimizer *o) {
  for (int i = 0; i < o->n_updates; i++) {
    MlirOperation func = o->update[i].func;
    bool shared = false;   // by several groups
    for (int k = 0; k < i; k++) shared |= mlirOperationEqual(o->update[k].func, func);
    if (!shared) mlirOperationDestroy(func);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// The scalars of the step

static void add_scalar(Update *u, MlirValue of, MlirValue value) {
  ptr_map_set(&u->scalars, of.ptr, u->n_scalars);
  *ARRAY_ADD(u->scalar, u->n_scalars) = value;
}

static bool has_scalars(const Update *u, MlirOperation op) {
  NnOp kind = nn_op_of(op);
  if (kind == NN_OP_NONE || mlirOperationGetNumResults(op) != 1) return false;
  NnType t = nn_value_type(mlirOperationGetResult(op, 0));
  if (t.rank != 0 || t.dtype != NN_F64) return false;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (ptr_map_get(&u->scalars, nn_operand(op, i).ptr) < 0) return false;
  return true;
}

static MlirValue build_scalar(Step *step, NnBuilder *b, const Update *u, MlirOperation op) {
  MlirValue operands[NN_MAX_OPERANDS];
  int correction = ptr_map_get(&u->corrections, op.ptr), n = (int)mlirOperationGetNumOperands(op);
  if (correction > 0) return step_hyper(b, step->hyper, 3 * u->group + correction);
  for (int i = 0; i < n; i++) operands[i] = u->scalar[ptr_map_get(&u->scalars, nn_operand(op, i).ptr)];
  NnType t = nn_value_type(mlirOperationGetResult(op, 0));
  return nn_build_like(b, nn_op_of(op), op, n, operands, &t);
}

static void build_scalars(Step *step, Update *u) {
  NnBuilder b = nn_builder_before(step->start);
  b.phase = "update";
  int lr = argument_of(u->func, "lr"), number = argument_of(u->func, "step");
  MlirBlock body = nn_function_body(u->func);
  if (lr >= 0) add_scalar(u, mlirBlockGetArgument(body, lr), step_hyper(&b, step->hyper, 3 * u->group));
  if (number >= 0) {
    int64_t at = u->reads_step ? 3 * step->o->n_groups + HYPER_STEP : 0;   // else of no use
    add_scalar(u, mlirBlockGetArgument(body, number), step_hyper(&b, step->hyper, at));
  }
  NN_FOREACH_OP (op, body)
    if (has_scalars(u, op)) add_scalar(u, mlirOperationGetResult(op, 0), build_scalar(step, &b, u, op));
}

// ---------------------------------------------------------------------------------------------------------------------
// The update of one parameter

typedef struct Inlining {
  Update *u;
  NnType own, type;   // of the parameter: in the function, here
  PtrMap places;
  MlirValue *values;   // Owned
  int n;
} Inlining;

static void set_value(Inlining *in, MlirValue of, MlirValue value) {
  ptr_map_set(&in->places, of.ptr, in->n);
  *ARRAY_ADD(in->values, in->n) = value;
}

static MlirValue value_of(const Inlining *in, MlirValue of) {
  int scalar = ptr_map_get(&in->u->scalars, of.ptr);
  return scalar >= 0 ? in->u->scalar[scalar] : in->values[ptr_map_get(&in->places, of.ptr)];
}

static NnType type_here(const Inlining *in, MlirValue v) {
  NnType t = nn_value_type(v), here = in->type;
  bool follows = in->own.rank > 0 ? same_shape(t, in->own) : ptr_map_get(&in->u->follows, v.ptr) >= 0;
  if (!follows) return t;
  here.dtype = t.dtype;
  return here;
}

// A scalar parameter's function has no broadcasts, which a rank's part of it needs: a line of the memory, as of any.
static MlirValue operand_here(const Inlining *in, NnBuilder *b, MlirValue of, NnType result) {
  MlirValue v = value_of(in, of);
  NnType wanted = nn_value_type(v);
  if (in->own.rank > 0 || wanted.rank > 0 || result.rank == 0) return v;
  result.dtype = wanted.dtype;
  return nn_broadcast(b, v, result, NULL);
}

static void inline_op(Inlining *in, NnBuilder *b, MlirOperation op) {
  int n = (int)mlirOperationGetNumOperands(op);
  MlirValue operands[NN_MAX_OPERANDS];
  if (nn_op_of(op) != NN_OP_NONE && mlirOperationGetNumResults(op) == 1) {
    NnType t = type_here(in, mlirOperationGetResult(op, 0));
    for (int i = 0; i < n; i++) operands[i] = operand_here(in, b, nn_operand(op, i), t);
    set_value(in, mlirOperationGetResult(op, 0), nn_build_like(b, nn_op_of(op), op, n, operands, &t));
    return;
  }
  MlirOperation copy = mlirOperationClone(op);
  mlirBlockInsertOwnedOperationBefore(b->block, b->before, copy);
  nn_set_attr(copy, &NN_STR(ATTR_phase, b->phase));
  for (int i = 0; i < n; i++) mlirOperationSetOperand(copy, i, value_of(in, nn_operand(op, i)));
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    set_value(in, mlirOperationGetResult(op, i), mlirOperationGetResult(copy, i));
}

static void add_results(Step *step, NnBuilder *b, const TrainedParam *p, const Inlining *in, const int *state) {
  MlirOperation end = nn_function_return(in->u->func);
  step_add_parameter(step, b, p, value_of(in, nn_operand(end, 0)));
  for (int i = 1; i < nn_function_n_results(in->u->func); i++) {
    int arg = (int)nn_result_i64(in->u->func, i, ATTR_tied, -1);
    char text[128];
    const char *name = nn_arg_str(in->u->func, arg, ATTR_name, text, sizeof text, "");
    step_update_state(step, b, p, name, state[arg], value_of(in, nn_operand(end, i)));
  }
}

void update_build(Step *step, NnBuilder *b, const TrainedParam *p, MlirValue g) {
  Update *u = &step->o->update[p->update];
  Inlining in = {.u = u,
                 .own = nn_value_type(
                     mlirBlockGetArgument(nn_function_body(u->func), argument_of(u->func, "parameter"))),
                 .type = nn_value_type(p->value)};
  int n_args = nn_function_n_args(u->func), *state = allocate_array((size_t)n_args + 1, sizeof *state);
  if (!u->n_scalars) build_scalars(step, u);
  for (int i = 0; i < n_args; i++) {
    MlirValue arg = mlirBlockGetArgument(nn_function_body(u->func), i);
    char role[16], text[128], init_text[128];
    const char *name = nn_arg_str(u->func, i, ATTR_name, text, sizeof text, "");
    if (strcmp(nn_arg_str(u->func, i, ATTR_role, role, sizeof role, ""), "state") == 0) {
      const char *init = nn_arg_str(u->func, i, ATTR_init, init_text, sizeof init_text, "zeros");
      set_value(&in, arg, step_add_state(step, b, p, type_here(&in, arg), name, init, &state[i]));
    } else if (strcmp(name, "parameter") == 0) {
      set_value(&in, arg, p->value);
    } else if (strcmp(name, "gradient") == 0) {
      set_value(&in, arg, g);
    }
  }
  NN_FOREACH_OP (op, nn_function_body(u->func)) {
    bool known = mlirOperationGetNumResults(op) > 0 && ptr_map_get(&u->scalars, mlirOperationGetResult(op, 0).ptr) >= 0;
    if (!known && !nn_is(op, "func.return")) inline_op(&in, b, op);
  }
  add_results(step, b, p, &in, state);
  ptr_map_free(&in.places);
  free(in.values);
  free(state);
}
