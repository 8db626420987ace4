// The expression `scan`: the body is built once, in a block of its own, and becomes a function that the loop calls for
// every step (ir/scan.c). What it uses from outside, parameters among it, is the same in all steps.
#include <stdio.h>
#include <string.h>

#include "compiler/elaborate_internal.h"

typedef struct Scan {
  const AstScan *ast;
  AstPos pos;
  int n_carries, n_outputs;
  int64_t length, axis;   // axis of the first input, which the outputs take over
  bool reverse;
  MlirValue *slices, *init;   // as operands: the axis first
  MlirValue *value;           // what the body computes
  MlirBlock block;
  // slots of the function that layers in the body update, such as running statistics: carried behind the program's own
  // values
  int n_states, *state;
  MlirValue *state_init, *state_value;
} Scan;

static NnType step_type(NnType t) {
  for (int i = 1; i < t.rank; i++) t.dim[i - 1] = t.dim[i];
  t.rank--;
  return t;
}

// --- What is gone over
// ---------------------------------------------------------------------------------------------------

static bool find_axis(Elaborator *e, const Scan *s, AstPos pos, Value v, int64_t length, int64_t *axis) {
  NnType t = nn_value_type(v.tensor);
  int found = 0;
  if (s->ast->axis) {
    if (!eval_int(e, s->ast->axis, "the axis", axis)) return false;
    if (*axis < 0) *axis += t.rank;
    if (*axis < 0 || *axis >= t.rank)
      return elaborator_error(e, s->ast->axis->pos, "%s has no such axis", value_describe(e, v));
    if (t.dim[*axis] == length) return true;
    return elaborator_error(e, pos, "axis %lld of %s is %lld long, not %lld", (long long)*axis, value_describe(e, v),
                            (long long)t.dim[*axis], (long long)length);
  }
  for (int i = t.rank - 1; i >= 0; i--)
    if (t.dim[i] == length) {
      *axis = i;
      found++;
    }
  if (found == 1) return true;
  if (found) elaborator_error(e, pos, "%s has %d axes of length %lld", value_describe(e, v), found, (long long)length);
  else elaborator_error(e, pos, "%s has no axis of length %lld", value_describe(e, v), (long long)length);
  if (found) elaborator_hint(e, "say which one: scan(x over T, axis=%lld, init=…)", (long long)*axis);
  return false;
}

// x with the axis in front.
static MlirValue axis_to_front(Elaborator *e, MlirValue x, int64_t axis) {
  NnType t = nn_value_type(x);
  int64_t perm[NN_MAX_RANK];
  if (axis == 0) return x;
  perm[0] = axis;
  for (int i = 1; i < t.rank; i++) perm[i] = i <= axis ? i - 1 : i;
  return nn_transpose(elaborator_builder(e), x, perm);
}

static MlirValue axis_from_front(Elaborator *e, MlirValue x, int64_t axis) {
  NnType t = nn_value_type(x);
  int64_t perm[NN_MAX_RANK];
  if (axis >= t.rank) axis = t.rank - 1;
  if (axis == 0) return x;
  for (int i = 0; i < t.rank; i++) perm[i] = i < axis ? i + 1 : i == axis ? 0 : i;
  return nn_transpose(elaborator_builder(e), x, perm);
}

static bool eval_inputs(Elaborator *e, Scan *s) {
  bool ok = true;
  s->slices = elaborator_alloc(e, sizeof *s->slices * (size_t)s->ast->n_inputs);
  for (int i = 0; i < s->ast->n_inputs; i++) {
    Value v;
    int64_t length, axis;
    const AstExpr *x = s->ast->inputs[i], *over = s->ast->over[i];
    bool fine = eval(e, x, &v);
    if (!eval_int(e, over, "the length", &length) || !fine) {
      ok = false;
      continue;
    }
    if (v.kind != VALUE_TENSOR) {
      ok = elaborator_error(e, x->pos, "scan goes over tensors, found %s", value_describe(e, v));
      continue;
    }
    if (i > 0 && length != s->length) {
      ok = elaborator_error(e, over->pos, "the inputs of a scan have one length: %lld here, %lld before",
                            (long long)length, (long long)s->length);
      continue;
    }
    s->length = length;
    if (!find_axis(e, s, x->pos, v, length, &axis)) {
      ok = false;
      continue;
    }
    if (i == 0) s->axis = axis;
    elaborator_builder(e)->loc = location_of(e, x->pos);
    s->slices[i] = axis_to_front(e, v.tensor, axis);
  }
  return ok;
}

static bool eval_init(Elaborator *e, Scan *s) {
  Value v;
  const AstExpr *x = s->ast->init;
  if (!eval(e, x, &v)) return false;
  s->n_carries = v.kind == VALUE_LIST ? v.list.n : 1;
  s->init = elaborator_alloc(e, sizeof *s->init * (size_t)(s->n_carries + 1));
  for (int i = 0; i < s->n_carries; i++) {
    Value item = v.kind == VALUE_LIST ? v.list.items[i] : v;
    if (item.kind != VALUE_TENSOR) {
      elaborator_error(e, x->pos, "the carried values of a scan are tensors, found %s", value_describe(e, item));
      elaborator_hint(e, "zeros[N, H] is a tensor of zeros");
      return false;
    }
    if (nn_value_type(item.tensor).rank >= NN_MAX_RANK)
      return elaborator_error(e, x->pos, "a carried value has at most %d axes", NN_MAX_RANK - 1);
    s->init[i] = item.tensor;
  }
  return s->n_carries > 0 || elaborator_error(e, x->pos, "scan carries at least one value");
}

static bool eval_reverse(Elaborator *e, Scan *s) {
  return !s->ast->reverse || eval_condition(e, s->ast->reverse, &s->reverse);
}

// --- The body

static void add_names(Elaborator *e, const Scan *s) {
  NnBuilder *b = elaborator_builder(e);
  for (int i = 0; i < s->ast->n_names; i++) {
    NnType t = i < s->ast->n_inputs ? step_type(nn_value_type(s->slices[i]))
                                    : nn_value_type(s->init[i - s->ast->n_inputs]);
    MlirValue arg = mlirBlockAddArgument(s->block, nn_type_to_mlir(e->ctx, &t), b->loc);
    set_variable(e, s->ast->names[i].text, s->ast->names[i].pos, value_tensor(arg));
  }
}

static bool check_values(Elaborator *e, Scan *s, Value v) {
  AstPos pos = s->ast->body.n ? s->ast->body.stmts[s->ast->body.n - 1]->pos : s->ast->body.pos;
  int n = v.kind == VALUE_LIST ? v.list.n : 1;
  if (n < s->n_carries) {
    elaborator_error(e, pos, "the body of this scan has %d value%s, but %d are carried", n, n == 1 ? "" : "s",
                     s->n_carries);
    elaborator_hint(e, "it ends with the new carried values, then what is kept of each step");
    return false;
  }
  s->n_outputs = n - s->n_carries;
  s->value = elaborator_alloc(e, sizeof *s->value * (size_t)n);
  for (int i = 0; i < n; i++) {
    Value item = v.kind == VALUE_LIST ? v.list.items[i] : v;
    if (item.kind != VALUE_TENSOR)
      return elaborator_error(e, pos, "value %d of a step must be a tensor, found %s", i + 1, value_describe(e, item));
    s->value[i] = item.tensor;
    NnType t = nn_value_type(item.tensor), was = i < s->n_carries ? nn_value_type(s->init[i]) : t;
    if (t.rank >= NN_MAX_RANK)
      return elaborator_error(e, pos, "value %d of a step has too many axes to be stacked: %s", i + 1,
                              value_describe(e, item));
    if (nn_type_equal(&t, &was)) continue;
    elaborator_error(e, pos, "'%s' is carried as %s, but its new value is %s", s->ast->names[s->ast->n_inputs + i].text,
                     value_describe(e, value_tensor(s->init[i])), value_describe(e, item));
    if (nn_shape_equal(&t, &was))
      elaborator_hint(e, "all steps carry one type: write cast(…, \"%s\") around the first value",
                      nn_dtype_name(t.dtype));
    return false;
  }
  return true;
}

// v is made in the block, or is one of its arguments.
static bool belongs_to(MlirValue v, MlirBlock block) {
  if (mlirValueIsABlockArgument(v)) return mlirBlockEqual(mlirBlockArgumentGetOwner(v), block);
  return mlirBlockEqual(mlirOperationGetBlock(nn_value_def(v)), block);
}

// What a loop cannot do: share a model's computation with the outside, or say what a state is from the next step of the
// training on.
static bool check_effects(Elaborator *e, const Scan *s, int calls_before) {
  const Function *f = e->function;
  if (f->n_calls > calls_before) {
    elaborator_error(e, s->pos, "'%s' is a model: it cannot be called inside of a scan",
                     f->calls[calls_before].model->name.text);
    elaborator_hint(e, "make it a block");
    return false;
  }
  for (int i = 0; i < f->n_slots; i++) {
    if (!f->slots[i].declared || !belongs_to(f->slots[i].updated, s->block)) continue;
    elaborator_error(e, s->pos, "'%s' is updated inside of a scan", f->slots[i].path);
    elaborator_hint(e, "carry the value, and update the state after the loop");
    return false;
  }
  return true;
}

static void replace_in_block(MlirBlock block, MlirValue old, MlirValue now) {
  NN_FOREACH_OP (op, block)
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
      if (mlirValueEqual(mlirOperationGetOperand(op, i), old)) mlirOperationSetOperand(op, i, now);
}

// A layer's state that the body updates goes from step to step, without a gradient. before[i]: slot i as it was
// outside; slots behind n_before are new.
static void carry_states(Elaborator *e, Scan *s, int n_before, const MlirValue *before) {
  Function *f = e->function;
  NnBuilder b = f->builder;
  b.block = s->block;
  s->state = elaborator_alloc(e, sizeof *s->state * (size_t)(f->n_slots + 1));
  s->state_init = elaborator_alloc(e, sizeof *s->state_init * (size_t)(f->n_slots + 1));
  s->state_value = elaborator_alloc(e, sizeof *s->state_value * (size_t)(f->n_slots + 1));
  for (int i = 0; i < f->n_slots; i++) {
    const Slot *slot = &f->slots[i];
    if (!belongs_to(slot->updated, s->block)) continue;
    MlirValue outside = i < n_before ? before[i] : slot->value;
    MlirValue arg = mlirBlockAddArgument(s->block, mlirValueGetType(outside), b.loc);
    replace_in_block(s->block, outside, arg);
    s->state[s->n_states] = i;
    s->state_init[s->n_states] = outside;
    s->state_value[s->n_states++] = nn_unary(&b, NN_OP_stop_gradient, slot->updated);
  }
}

// Marks mean nothing inside of a step.
static void drop_marks(MlirBlock block) {
  for (MlirOperation op = mlirBlockGetFirstOperation(block), next; !mlirOperationIsNull(op); op = next) {
    next = mlirOperationGetNextInBlock(op);
    NnOp kind = nn_op_of(op);
    if (kind != NN_OP_NONE && nn_op_info(kind)->kind == NN_KIND_MARK) mlirOperationDestroy(op);
  }
}

static bool build_body(Elaborator *e, Scan *s) {
  Function *f = e->function;
  Frame *frame = e->frame, saved = *frame;
  MlirBlock outer = f->builder.block;
  Value v;
  bool has_value;
  int calls = f->n_calls;
  frame->variables = elaborator_alloc(e, sizeof *frame->variables * (size_t)(frame->capacity + 1));
  if (frame->n) memcpy(frame->variables, saved.variables, sizeof *saved.variables * (size_t)frame->n);
  if (s->ast->label.text) frame->path = path_enter(e, frame->path, s->ast->label.text, true);
  f->builder.block = s->block;
  add_names(e, s);
  bool ok = exec_body(e, &s->ast->body, &v, &has_value);
  if (ok && !has_value)
    ok = elaborator_error(e, s->ast->body.pos, "the body of a scan ends with the new carried values");
  ok = ok && check_values(e, s, v) && check_effects(e, s, calls);
  f->builder.block = outer;
  frame->variables = saved.variables;
  frame->n = saved.n;
  frame->capacity = saved.capacity;
  frame->path = saved.path;
  return ok;
}

// --- The call

static MlirValue last_row(Elaborator *e, const Scan *s, MlirValue stack) {
  NnType row = step_type(nn_value_type(stack));
  NnBuilder *b = elaborator_builder(e);
  return nn_reshape(b, nn_rows(b, stack, s->reverse ? 0 : s->length, 1), row.rank, row.dim);
}

static MlirValue rows_after(Elaborator *e, const Scan *s, MlirValue stack) {
  return nn_rows(elaborator_builder(e), stack, !s->reverse, s->length);
}

// In training every carried value is kept, one row per step: the backward pass starts each step again from there. An
// output that is a carried value is then its rows.
static void build_call(Elaborator *e, Scan *s, Value *result) {
  bool stacked = elaborator_training(e);
  int n_values = s->n_carries + s->n_outputs, n_carried = s->n_carries + s->n_states, n = n_carried,
      *carry = elaborator_alloc(e, sizeof *carry * (size_t)(n_values + 1));
  MlirValue *values = elaborator_alloc(e, sizeof *values * (size_t)(n_values + s->n_states)),
            *operands = elaborator_alloc(e, sizeof *operands * (size_t)(s->ast->n_names + s->n_states + 1));
  memcpy(values, s->value, sizeof *values * (size_t)s->n_carries);
  if (s->n_states) memcpy(values + s->n_carries, s->state_value, sizeof *values * (size_t)s->n_states);
  for (int i = s->n_carries; i < n_values; i++) {   // carry[i]: number of the result that output i is
    carry[i] = -1;
    for (int k = 0; stacked && k < s->n_carries && carry[i] < 0; k++)
      if (mlirValueEqual(s->value[i], s->value[k])) carry[i] = k;
    for (int k = s->n_carries; k < i && carry[i] < 0; k++)
      if (mlirValueEqual(s->value[i], s->value[k])) carry[i] = carry[k];
    if (carry[i] >= 0) continue;
    carry[i] = n;
    values[n++] = s->value[i];
  }
  memcpy(operands, s->slices, sizeof *operands * (size_t)s->ast->n_inputs);
  memcpy(operands + s->ast->n_inputs, s->init, sizeof *operands * (size_t)s->n_carries);
  if (s->n_states) memcpy(operands + s->ast->n_names, s->state_init, sizeof *operands * (size_t)s->n_states);
  NnScan scan = {.length = s->length,
                 .reverse = s->reverse,
                 .n_slices = s->ast->n_inputs,
                 .n_stacked = stacked ? n_carried : 0,
                 .n_tied = stacked ? 0 : n_carried,
                 .n_outputs = n - n_carried};
  drop_marks(s->block);
  const char *name = elaborator_format(e, "%s_scan", e->function->name);
  MlirOperation call = nn_scan_outline(elaborator_builder(e), e->module, name, s->block, &scan, operands, values);
  Value *items = elaborator_alloc(e, sizeof *items * (size_t)n_values);
  for (int i = 0; i < n_values; i++) {
    MlirValue v = mlirOperationGetResult(call, i < s->n_carries ? i : carry[i]);
    if (i < s->n_carries) items[i] = value_tensor(stacked ? last_row(e, s, v) : v);
    else
      items[i] = value_tensor(
          axis_from_front(e, carry[i] < s->n_carries && stacked ? rows_after(e, s, v) : v, s->axis));
  }
  for (int i = 0; i < s->n_states; i++) {
    MlirValue v = mlirOperationGetResult(call, s->n_carries + i);
    e->function->slots[s->state[i]].updated = stacked ? last_row(e, s, v) : v;
  }
  *result = n_values == 1 ? items[0] : (Value){.kind = VALUE_LIST, .list = {items, n_values}};
}

// States keep what is outside.
static void discard_block(Elaborator *e, MlirBlock block, int n_before, const MlirValue *before) {
  Function *f = e->function;
  for (int i = 0; i < f->n_slots; i++) {
    if (belongs_to(f->slots[i].updated, block)) f->slots[i].updated = i < n_before ? before[i] : f->slots[i].value;
  }
  mlirBlockDestroy(block);
}

bool eval_scan(Elaborator *e, const AstExpr *x, Value *result) {
  Scan s = {.ast = x->scan, .pos = x->pos};
  if (++e->function->n_scans > MAX_SCANS)
    return elaborator_give_up(e, x->pos, "the network has more than %d loops over time", MAX_SCANS);
  bool ok = eval_inputs(e, &s);
  if (!eval_init(e, &s) || !eval_reverse(e, &s) || !ok) return false;
  if (s.ast->n_names != s.ast->n_inputs + s.n_carries) {
    elaborator_error(e, s.ast->names[0].pos,
                     "the body names %d values: it needs one for the step of each input (%d) and for each carried "
                     "value (%d)",
                     s.ast->n_names, s.ast->n_inputs, s.n_carries);
    return false;
  }
  int calls = e->function->n_calls, n_slots = e->function->n_slots;
  MlirValue *before = elaborator_alloc(e, sizeof *before * (size_t)(n_slots + 1));
  for (int i = 0; i < n_slots; i++) before[i] = e->function->slots[i].updated;
  s.block = mlirBlockCreate(0, NULL, NULL);
  elaborator_builder(e)->loc = location_of(e, x->pos);
  if (!build_body(e, &s)) {
    e->function->n_calls = calls;   // what was made inside is gone
    discard_block(e, s.block, n_slots, before);
    return false;
  }
  elaborator_builder(e)->loc = location_of(e, x->pos);
  carry_states(e, &s, n_slots, before);
  build_call(e, &s, result);
  return function_count_ops(e, x->pos);
}
