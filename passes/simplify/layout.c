// Channels-last convolutions. Each convolution and pool is built on NHWC, and its result lives on as a twin in that
// order: ops that can work in any order of axes (maps, reductions, batchnorm, pads …) are built on the twins, so that
// no transpose stands between convolutions. Where an op needs the original order (a reshape, a result of the function)
// one transpose brings it back.
#include "passes/simplify/simplify.h"

#include <stdlib.h>
#include <string.h>

#include "passes/passes.h"
#include "passes/rewrite.h"
#include "support/alloc.h"

static const Permutation nhwc = {4, {0, 2, 3, 1}}, ndhwc = {5, {0, 2, 3, 4, 1}};

// The twins of all results replace them.
static void set_results(Layout *l, MlirOperation op, MlirOperation made, const Permutation *p) {
  for (int i = 0; i < (int)mlirOperationGetNumResults(op); i++)
    layout_set_twin(l, nn_result(op, i), nn_result(made, i), p, true);
}

// conv2d, maxpool2d, avgpool2d on nchw; conv3d and conv3d_input_grad on ncdhw.
static bool convert_window(Layout *l, MlirOperation op) {
  char text[8];
  if (nn_attr_str(op, "layout", text, sizeof text, "nchw")[1] != 'c') return false;
  bool volume = nn_value_type(nn_operand(op, 0)).rank == 5;
  const Permutation *last = volume ? &ndhwc : &nhwc;
  MlirValue operands[2];
  operands[0] = layout_demand(l, op, nn_operand(op, 0), last);
  layout_restore_operands(l, op, 1);   // the weight keeps its order
  MlirValue halved = layout_halve_stride(l, op, operands[0]);
  if (!nn_value_is_null(halved)) {
    layout_set_twin(l, nn_result(op, 0), halved, last, true);
    return true;
  }
  if (mlirOperationGetNumOperands(op) > 1) operands[1] = nn_operand(op, 1);
  NnType types[NN_MAX_RESULTS];
  for (int i = 0; i < (int)mlirOperationGetNumResults(op); i++)
    types[i] = permutation_apply(last, nn_value_type(nn_result(op, i)));
  set_results(l, op, layout_clone(op, op, operands, types, 1, &NN_STR("layout", volume ? "ndhwc" : "nhwc")), last);
  return true;
}

// The order that the operands of an op on equal shapes should be brought to: that of the first twin that replaces its
// original. False when no operand has one, or when more operands would have to be transposed to it than transposes back
// are saved.
static bool choose_order(const Layout *l, MlirOperation op, Permutation *p) {
  Twin twin;
  bool found = false;
  int saved = 0, added = 0;
  intptr_t n = mlirOperationGetNumOperands(op);
  for (intptr_t i = 0; i < n && !found; i++)
    if ((found = layout_replaced(l, nn_operand(op, (int)i), &twin))) *p = twin.perm;
  if (!found) return false;
  for (intptr_t i = 0; i < n; i++) {
    MlirValue v = nn_operand(op, (int)i);
    bool again = false;
    for (intptr_t k = 0; k < i && !again; k++) again = mlirValueEqual(v, nn_operand(op, (int)k));
    if (again) continue;
    if (layout_replaced(l, v, &twin) && permutation_equal(&twin.perm, p)) saved += nn_value_is_null(twin.back);
    else added += !layout_is_free(l, v, p);
  }
  return added == 0 || added <= saved;
}

static bool convert_map(Layout *l, MlirOperation op) {
  Permutation p;
  if (!choose_order(l, op, &p)) return false;
  MlirValue operands[3];
  for (int i = 0; i < (int)mlirOperationGetNumOperands(op); i++)
    operands[i] = layout_demand(l, op, nn_operand(op, i), &p);
  NnType type = permutation_apply(&p, nn_value_type(nn_result(op, 0)));
  set_results(l, op, layout_clone(op, op, operands, &type, 0, NULL), &p);
  return true;
}

static bool convert_concat(Layout *l, MlirOperation op) {
  Permutation p;
  if (!choose_order(l, op, &p)) return false;
  int n = (int)mlirOperationGetNumOperands(op);
  MlirValue *operands = allocate_array((size_t)n, sizeof *operands);
  for (int i = 0; i < n; i++) operands[i] = layout_demand(l, op, nn_operand(op, i), &p);
  NnType type = permutation_apply(&p, nn_value_type(nn_result(op, 0)));
  int64_t axis = permutation_inverse(&p).axis[nn_attr_i64(op, "axis", 0)];
  set_results(l, op, layout_clone(op, op, operands, &type, 1, &NN_I64("axis", axis)), &p);
  free(operands);
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Ops on one tensor, whose twin `x` replaces it

// pad, slice: one entry per axis in each of the attributes.
static bool convert_per_axis(Layout *l, MlirOperation op, const Twin *x, const char *const names[3]) {
  int64_t in[NN_MAX_RANK], out[3][NN_MAX_RANK];
  NnAttr attrs[3];
  for (int k = 0; k < 3; k++) {
    nn_attr_i64s(op, names[k], in, NN_MAX_RANK);
    for (int i = 0; i < x->perm.rank; i++) out[k][i] = in[x->perm.axis[i]];
    attrs[k] = NN_I64S(names[k], out[k], x->perm.rank);
  }
  NnType type = permutation_apply(&x->perm, nn_value_type(nn_result(op, 0)));
  set_results(l, op, layout_clone(op, op, &x->value, &type, 3, attrs), &x->perm);
  return true;
}

// Replaces the results by the new ones where the order is the original one, else makes them twins.
static void set_or_replace(Layout *l, MlirOperation op, MlirOperation made, const Permutation *p) {
  bool identity = true;
  for (int i = 0; i < p->rank; i++) identity &= p->axis[i] == i;
  for (int i = 0; i < (int)mlirOperationGetNumResults(op); i++) {
    if (identity) mlirValueReplaceAllUsesOfWith(nn_result(op, i), nn_result(made, i));
    else layout_set_twin(l, nn_result(op, i), nn_result(made, i), p, true);
  }
}

// reduce_sum, reduce_max, moments, argmax: the axes that remain keep the twin's order.
static bool convert_reduce(Layout *l, MlirOperation op, const Twin *x, bool one_axis) {
  int64_t axes[NN_MAX_RANK], kept[NN_MAX_RANK], moved[NN_MAX_RANK];
  bool reduced[NN_MAX_RANK] = {0};
  int n = one_axis ? 1 : nn_attr_i64s(op, "axes", axes, NN_MAX_RANK), n_kept = 0, n_moved = 0;
  if (one_axis) axes[0] = nn_attr_i64(op, "axis", 0);
  for (int i = 0; i < n; i++) reduced[axes[i]] = true;
  // number of an original axis among those that remain
  for (int i = 0; i < x->perm.rank; i++) kept[i] = reduced[i] ? -1 : n_kept++;
  Permutation p = {.rank = n_kept};
  int at = 0;
  for (int i = 0; i < x->perm.rank; i++) {
    if (reduced[x->perm.axis[i]]) moved[n_moved++] = i;
    else p.axis[at++] = kept[x->perm.axis[i]];
  }
  NnType types[NN_MAX_RESULTS];
  for (int i = 0; i < (int)mlirOperationGetNumResults(op); i++)
    types[i] = permutation_apply(&p, nn_value_type(nn_result(op, i)));
  NnAttr attr = one_axis ? NN_I64("axis", moved[0]) : NN_I64S("axes", moved, n_moved);
  set_or_replace(l, op, layout_clone(op, op, &x->value, types, 1, &attr), &p);
  return true;
}

// Result axis dims[i] is operand axis i: the slots dims[0] < dims[1] < … take the operand's axes in the twin's order.
static bool convert_broadcast(Layout *l, MlirOperation op, const Twin *x) {
  int64_t dims[NN_MAX_RANK];
  nn_attr_i64s(op, "dims", dims, NN_MAX_RANK);
  NnType to = nn_value_type(nn_result(op, 0));
  Permutation p = {.rank = to.rank};
  for (int i = 0; i < to.rank; i++) p.axis[i] = i;
  for (int i = 0; i < x->perm.rank; i++) p.axis[dims[i]] = dims[x->perm.axis[i]];
  to = permutation_apply(&p, to);
  set_or_replace(l, op, layout_clone(op, op, &x->value, &to, 0, NULL), &p);
  return true;
}

// A transpose of the original is another transpose of the twin, and often none.
static bool convert_transpose(MlirOperation op, const Twin *x) {
  int64_t perm[NN_MAX_RANK];
  Permutation inverse = permutation_inverse(&x->perm);
  nn_attr_i64s(op, "perm", perm, NN_MAX_RANK);
  for (int i = 0; i < x->perm.rank; i++) perm[i] = inverse.axis[perm[i]];
  NnBuilder b = rewrite_builder(op);
  mlirValueReplaceAllUsesOfWith(nn_result(op, 0), rewrite_transpose(&b, x->value, perm));
  return true;
}

static bool convert_batchnorm(Layout *l, MlirOperation op, const Twin *x) {
  layout_restore_operands(l, op, 1);
  MlirValue operands[3] = {x->value, nn_operand(op, 1), nn_operand(op, 2)};
  NnType types[3] = {permutation_apply(&x->perm, nn_value_type(nn_result(op, 0))), nn_value_type(nn_result(op, 1)),
                     nn_value_type(nn_result(op, 2))};
  int64_t axis = permutation_inverse(&x->perm).axis[nn_attr_i64(op, "axis", 1)];
  MlirOperation made = layout_clone(op, op, operands, types, 1, &NN_I64("axis", axis));
  layout_set_twin(l, nn_result(op, 0), nn_result(made, 0), &x->perm, true);
  for (int i = 1; i < 3; i++) mlirValueReplaceAllUsesOfWith(nn_result(op, i), nn_result(made, i));
  return true;
}

static bool convert_checkpoint(MlirOperation op, const Twin *x) {
  mlirOperationSetOperand(op, 0, x->value);
  return true;
}

static bool convert_one_tensor(Layout *l, MlirOperation op, NnOp kind) {
  static const char *const pad[3] = {"low", "high", "interior"}, *const slice[3] = {"starts", "sizes", "strides"};
  Twin x;
  if (!layout_replaced(l, nn_operand(op, 0), &x)) return false;
  switch (kind) {
  case NN_OP_pad: return convert_per_axis(l, op, &x, pad);
  case NN_OP_slice: return convert_per_axis(l, op, &x, slice);
  case NN_OP_reduce_sum:
  case NN_OP_reduce_max:
  case NN_OP_moments: return convert_reduce(l, op, &x, false);
  case NN_OP_argmax: return convert_reduce(l, op, &x, true);
  case NN_OP_broadcast: return convert_broadcast(l, op, &x);
  case NN_OP_transpose: return convert_transpose(op, &x);
  case NN_OP_batchnorm: return convert_batchnorm(l, op, &x);
  case NN_OP_checkpoint: return convert_checkpoint(op, &x);
  default: return false;
  }
}

// ---------------------------------------------------------------------------------------------------------------------

static bool convert(Layout *l, MlirOperation op) {
  NnOp kind = nn_op_of(op);
  if (kind == NN_OP_NONE || mlirOperationGetNumOperands(op) == 0) return false;
  switch (kind) {
  case NN_OP_conv2d:
  case NN_OP_conv3d:
  case NN_OP_conv3d_input_grad:
  case NN_OP_maxpool2d:
  case NN_OP_avgpool2d: return convert_window(l, op);
  case NN_OP_concat: return convert_concat(l, op);
  default: return nn_op_info(kind)->kind == NN_KIND_MAP ? convert_map(l, op) : convert_one_tensor(l, op, kind);
  }
}

static void convert_function(MlirOperation func, int64_t block_channels) {
  Layout l = {.block_channels = block_channels};
  int n;
  MlirOperation *ops = rewrite_ops(nn_function_body(func), &n);
  for (int i = 0; i < n; i++)
    if (!convert(&l, ops[i])) layout_restore_operands(&l, ops[i], 0);
  free(ops);
  free(l.twin);
  ptr_map_free(&l.id);
  rewrite_erase_dead(nn_function_body(func));   // the originals
}

// Requires: forward functions (before autodiff, whose gradient rules keep the layout they find). Does nothing unless
// the target wants channels_last. Establishes: every conv2d, maxpool2d and avgpool2d is nhwc, every conv3d and
// conv3d_input_grad ndhwc, or gone where the target has none. A transpose stands only
// where a value enters a chain of convolutions from the outside (the image) and where one leaves it to an op that needs
// the original order; none in between, also where branches join. Breaks: nothing. A dropout mask inside such a chain is
// drawn in the new order: other numbers, the same distribution.
bool nn_pass_layout(MlirModule module, const NnPassRun *run) {
  if (!run->target || !run->target->channels_last) return true;
  NN_FOREACH_OP (op, mlirModuleGetBody(module)) {
    if (!nn_is(op, "func.func") || mlirBlockIsNull(nn_function_body(op))) continue;
    if (!run->target->convolves_volumes) layout_expand_volumes(nn_function_body(op));
    if (!rewrite_is_private(op)) convert_function(op, run->target->block_channels);
  }
  return true;
}
