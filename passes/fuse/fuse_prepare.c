// Rewrites before fusion: shapes of code that would otherwise keep ops apart or that no kernel takes.
#include "passes/fuse/fuse.h"
#include "passes/plan/plan.h"
#include "passes/rewrite.h"

static void replace(MlirOperation op, int result, MlirValue by) {
  mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(op, result), by);
}

// ---------------------------------------------------------------------------------------------------------------------
// Reductions over scattered axes: the trailing run first, the rest of what remains after it.

// Splits off the last contiguous run of axes; returns how many are left before it.
static int split_axes(const int64_t *axes, int n) {
  int first = n - 1;
  while (first > 0 && axes[first - 1] == axes[first] - 1) first--;
  return first;
}

// moments over both parts: the mean of means; the mean of variances plus the variance of means (the parts are equally
// large).
static void split_moments(NnBuilder *b, MlirOperation op, const int64_t *axes, int first, int n) {
  MlirValue x = mlirOperationGetOperand(op, 0);
  NnType t = nn_value_type(x);
  int64_t parts = 1;
  for (int i = 0; i < first; i++) parts *= t.dim[axes[i]];
  MlirOperation inner = nn_build(b, NN_OP_moments, 1, &x, 1, &NN_I64S("axes", axes + first, n - first), NULL);
  MlirValue mean = mlirOperationGetResult(inner, 0), var = mlirOperationGetResult(inner, 1);
  MlirOperation outer = nn_build(b, NN_OP_moments, 1, &mean, 1, &NN_I64S("axes", axes, first), NULL);
  MlirValue var_sum = nn_reduce(b, NN_OP_reduce_sum, var, first, axes);
  MlirValue within = nn_binary(b, NN_OP_mul, var_sum, nn_constant_like(b, var_sum, 1.0 / (double)parts));
  replace(op, 0, mlirOperationGetResult(outer, 0));
  replace(op, 1, nn_binary(b, NN_OP_add, within, mlirOperationGetResult(outer, 1)));
}

static bool split_reduction(MlirOperation op) {
  int64_t axes[NN_MAX_RANK];
  int n = nn_attr_i64s(op, "axes", axes, NN_MAX_RANK);
  int first = split_axes(axes, n);
  if (n <= 0 || first == 0) return false;
  NnBuilder b = rewrite_builder(op);
  NnOp kind = nn_op_of(op);
  if (kind == NN_OP_moments) {
    split_moments(&b, op, axes, first, n);
  } else {
    MlirValue part = nn_reduce(&b, kind, mlirOperationGetOperand(op, 0), n - first, axes + first);
    replace(op, 0, nn_reduce(&b, kind, part, first, axes));
  }
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// broadcast(reshape(x)) where the reshape only adds or drops axes of size 1 is a broadcast of x.

static bool fold_unit_reshape(MlirOperation op) {
  MlirOperation reshape = nn_value_def(mlirOperationGetOperand(op, 0));
  if (mlirOperationIsNull(reshape) || nn_op_of(reshape) != NN_OP_reshape) return false;
  MlirValue x = mlirOperationGetOperand(reshape, 0);
  NnType from = nn_value_type(x), to = nn_value_type(mlirOperationGetResult(reshape, 0)),
         result = nn_value_type(mlirOperationGetResult(op, 0));
  int64_t dims[NN_MAX_RANK], folded[NN_MAX_RANK];
  nn_attr_i64s(op, "dims", dims, NN_MAX_RANK);
  int j = 0;
  int64_t lowest = 0;   // result axes left for the next axis of x
  for (int i = 0; i < from.rank; i++) {
    if (from.dim[i] == 1) {   // stands anywhere between its neighbours
      folded[i] = lowest++;
      continue;
    }
    while (j < to.rank && to.dim[j] == 1) j++;
    if (j == to.rank || to.dim[j] != from.dim[i] || dims[j] < lowest) return false;
    folded[i] = dims[j++];
    lowest = folded[i] + 1;
  }
  if (lowest > result.rank) return false;
  NnBuilder b = rewrite_builder(op);
  replace(op, 0, nn_broadcast(&b, x, result, folded));
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// A map of broadcasts along the same axes is computed on the small shape and broadcast after.

static bool hoist_broadcast(MlirOperation op) {
  int n = (int)mlirOperationGetNumOperands(op);
  MlirValue small[4];
  MlirOperation first = nn_null_operation();
  if (n > 4) return false;
  NnType type = {0};
  for (int i = 0; i < n; i++) {
    MlirOperation def = nn_value_def(mlirOperationGetOperand(op, i));
    if (mlirOperationIsNull(def)) return false;
    NnOp kind = nn_op_of(def);
    if (kind == NN_OP_constant) continue;
    if (kind != NN_OP_broadcast) return false;
    small[i] = mlirOperationGetOperand(def, 0);
    NnType t = nn_value_type(small[i]);
    if (mlirOperationIsNull(first)) {
      first = def;
      type = t;
    } else if (!nn_shape_equal(&t, &type) ||
               !mlirAttributeEqual(nn_attribute(def, "dims"), nn_attribute(first, "dims"))) {
      return false;
    }
  }
  if (mlirOperationIsNull(first)) return false;
  NnType result = nn_value_type(mlirOperationGetResult(op, 0));
  if (nn_type_elements(&type) == nn_type_elements(&result)) return false;
  char predicate[8];
  NnBuilder b = rewrite_builder(op);
  for (int i = 0; i < n; i++) {
    MlirOperation def = nn_value_def(mlirOperationGetOperand(op, i));
    if (nn_op_of(def) != NN_OP_constant) continue;
    NnType t = type;
    t.dtype = nn_value_dtype(mlirOperationGetResult(def, 0));
    small[i] = nn_build_like(&b, NN_OP_constant, def, 0, NULL, &t);
  }
  type.dtype = result.dtype;
  NnAttr attr = NN_STR("predicate", nn_attr_str(op, "predicate", predicate, sizeof predicate, ""));
  MlirOperation map = nn_build(&b, nn_op_of(op), n, small, nn_op_of(op) == NN_OP_compare, &attr, &type);
  int64_t dims[NN_MAX_RANK];
  nn_attr_i64s(first, "dims", dims, NN_MAX_RANK);
  replace(op, 0, nn_broadcast(&b, mlirOperationGetResult(map, 0), result, dims));
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// A map that only slices read (the bias of queries, keys and values, made by one product) is computed on the slices:
// the whole is never stored. It reads one stored value: in place of two, as the terms of an LSTM's gates, their sum
// alone may be kept for the gradient.

// Or a wider type of what is, which kernels cast where they read it.
static bool is_in_memory(MlirValue v) {
  if (mlirValueIsABlockArgument(v)) return true;
  MlirOperation op = nn_value_def(v);
  NnOp kind = nn_op_of(op);
  if (kind == NN_OP_NONE) return false;
  bool widens = kind == NN_OP_cast &&
                nn_dtype_bytes(nn_value_dtype(nn_operand(op, 0))) < nn_dtype_bytes(nn_value_dtype(v));
  if (widens || (kind == NN_OP_reshape && nn_is_alias(op))) return is_in_memory(nn_operand(op, 0));
  return nn_op_info(kind)->kind == NN_KIND_LIBRARY;
}

static bool can_be_sliced(MlirOperation map) {
  int64_t sum = 0;
  for (MlirOpOperand use = mlirValueGetFirstUse(mlirOperationGetResult(map, 0)); !mlirOpOperandIsNull(use);
       use = mlirOpOperandGetNextUse(use)) {
    MlirOperation slice = mlirOpOperandGetOwner(use);
    if (nn_op_of(slice) != NN_OP_slice || nn_is_alias(slice) || nn_has_attr(slice, ATTR_recompute)) return false;
    NnType part = nn_value_type(mlirOperationGetResult(slice, 0));
    sum += nn_type_elements(&part);
  }
  if (sum == 0 || nn_has_attr(map, ATTR_recompute)) return false;
  NnType type = nn_value_type(mlirOperationGetResult(map, 0));
  if (sum > nn_type_elements(&type)) return false;
  int reads = 0;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(map); i++) {
    MlirValue v = mlirOperationGetOperand(map, i);
    NnOp kind = mlirValueIsABlockArgument(v) ? NN_OP_NONE : nn_op_of(nn_value_def(v));
    if (kind == NN_OP_constant || kind == NN_OP_broadcast) continue;
    if (!is_in_memory(v)) return false;
    reads++;
  }
  return reads == 1;
}

typedef struct Part {
  int64_t start[NN_MAX_RANK], size[NN_MAX_RANK], stride[NN_MAX_RANK];
} Part;

static MlirValue sliced(NnBuilder *b, MlirValue v, const NnType *type, const Part *p) {
  MlirOperation def = mlirValueIsABlockArgument(v) ? nn_null_operation() : nn_value_def(v);
  NnType to = *type;
  to.dtype = nn_value_dtype(v);
  if (!mlirOperationIsNull(def) && nn_op_of(def) == NN_OP_constant)
    return nn_build_like(b, NN_OP_constant, def, 0, NULL, &to);
  if (mlirOperationIsNull(def) || nn_op_of(def) != NN_OP_broadcast) return nn_slice(b, v, p->start, p->size, p->stride);
  MlirValue x = mlirOperationGetOperand(def, 0);
  NnType small = nn_value_type(x);
  int64_t dims[NN_MAX_RANK];
  nn_attr_i64s(def, "dims", dims, NN_MAX_RANK);
  Part inner;
  bool whole = true, turned = false;
  for (int i = 0; i < small.rank; i++) {
    bool once = small.dim[i] == 1;
    inner.start[i] = once ? 0 : p->start[dims[i]];
    inner.size[i] = once ? 1 : p->size[dims[i]];
    inner.stride[i] = once ? 1 : p->stride[dims[i]];
    whole &= inner.size[i] == small.dim[i] && (inner.size[i] == 1 || inner.stride[i] > 0);
    turned |= inner.size[i] > 1 && inner.stride[i] < 0;
  }
  if (turned) return nn_slice(b, v, p->start, p->size, p->stride);   // no copy of the smaller one the other way round
  return nn_broadcast(b, whole ? x : nn_slice(b, x, inner.start, inner.size, inner.stride), to, dims);
}

static void slice_map(MlirOperation map) {
  MlirOpOperand next;
  for (MlirOpOperand use = mlirValueGetFirstUse(mlirOperationGetResult(map, 0)); !mlirOpOperandIsNull(use);
       use = next) {
    next = mlirOpOperandGetNextUse(use);
    MlirOperation slice = mlirOpOperandGetOwner(use);
    NnType type = nn_value_type(mlirOperationGetResult(slice, 0));
    Part part;
    nn_attr_i64s(slice, "starts", part.start, NN_MAX_RANK);
    nn_attr_i64s(slice, "sizes", part.size, NN_MAX_RANK);
    nn_attr_i64s(slice, "strides", part.stride, NN_MAX_RANK);
    NnBuilder b = rewrite_builder(slice);
    MlirValue operands[4];
    int n = (int)mlirOperationGetNumOperands(map);
    for (int i = 0; i < n; i++) operands[i] = sliced(&b, mlirOperationGetOperand(map, i), &type, &part);
    replace(slice, 0, nn_build_like(&b, nn_op_of(map), map, n, operands, &type));
    mlirOperationDestroy(slice);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Attention whose queries, keys and values are slices of one tensor, as one product leaves them, reads them there: no
// copies of its parts are made, and a bias is added to the whole.

// v has heads [first, first + heads) of all the heads of each token of what `x` is then. 0: it has not; else all heads.
static int64_t heads_of_whole(MlirValue v, int64_t first, MlirValue *x) {
  NnType part = nn_value_type(v);   // [B, T, heads, D]
  int64_t start[NN_MAX_RANK], stride[NN_MAX_RANK], d = part.dim[3];
  MlirOperation def = nn_value_def(v);
  if (mlirOperationIsNull(def) || nn_op_of(def) != NN_OP_reshape) return 0;
  def = nn_value_def(mlirOperationGetOperand(def, 0));
  if (mlirOperationIsNull(def) || nn_op_of(def) != NN_OP_slice) return 0;
  *x = mlirOperationGetOperand(def, 0);
  NnType from = nn_value_type(*x), to = nn_value_type(mlirOperationGetResult(def, 0));
  int last = from.rank - 1;
  nn_attr_i64s(def, "starts", start, NN_MAX_RANK);
  nn_attr_i64s(def, "strides", stride, NN_MAX_RANK);
  for (int i = 0; i < last; i++)
    if (to.dim[i] != from.dim[i] || (to.dim[i] > 1 && stride[i] != 1)) return 0;
  bool fits = to.dim[last] == part.dim[2] * d && start[last] == first * d && from.dim[last] % d == 0 &&
              (to.dim[last] == 1 || stride[last] == 1);
  return fits ? from.dim[last] / d : 0;
}

static void join_attention(MlirOperation op) {
  NnAttention a = nn_attention_of(op);
  if (a.joined || !a.heads_last || a.n_queries != a.n_keys) return;
  MlirValue whole[3];
  for (int i = 0; i < 3; i++) {
    int64_t heads = heads_of_whole(mlirOperationGetOperand(op, i), nn_attention_first_head(&a, i), &whole[i]);
    if (heads != a.heads + 2 * a.groups || !mlirValueEqual(whole[i], whole[0])) return;
  }
  NnBuilder b = rewrite_builder(op);
  MlirValue x = nn_reshape(&b, whole[0], 4, (int64_t[]){a.batch, a.n_queries, a.heads + 2 * a.groups, a.head_dim});
  for (int i = 0; i < 3; i++) mlirOperationSetOperand(op, i, x);
  nn_set_attr(op, &NN_I64("heads", a.heads));
}

// ---------------------------------------------------------------------------------------------------------------------
// Rows 0, 1, 2, ... of a table (positions that are learnt) are where they are, and so is their gradient.

static bool counts_rows(MlirValue index, int64_t *n) {
  MlirOperation def = nn_value_def(index);
  NnType type = nn_value_type(index);
  *n = type.dim[0];
  return !mlirOperationIsNull(def) && nn_op_of(def) == NN_OP_iota && type.rank == 1;
}

// Something outside of kernels sees the value, which must not become a parameter that the step may overwrite.
static bool is_shown(MlirValue v) {
  NN_FOREACH_USE (use, v) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    if (nn_op_of(user) == NN_OP_NONE || nn_op_of(user) == NN_OP_tap || nn_is_alias(user)) return true;
  }
  return false;
}

static bool take_counted_rows(MlirOperation op) {
  int64_t n;
  MlirValue x = mlirOperationGetOperand(op, 0);
  NnType from = nn_value_type(x), to = nn_value_type(mlirOperationGetResult(op, 0));
  if (!counts_rows(mlirOperationGetOperand(op, 1), &n)) return false;
  NnBuilder b = rewrite_builder(op);
  if (nn_op_of(op) == NN_OP_gather && n <= from.dim[0] && !is_shown(mlirOperationGetResult(op, 0))) {
    replace(op, 0, n == from.dim[0] ? x : nn_rows(&b, x, 0, n));
    return true;
  }
  if (nn_op_of(op) != NN_OP_scatter_add || !nn_type_equal(&from, &to)) return false;
  replace(op, 0, x);
  return true;
}

void fuse_prepare(MlirOperation func) {
  MlirBlock block = nn_function_body(func);
  MlirOperation next;
  NN_FOREACH_OP (op, block) {
    NnOp kind = nn_op_of(op);
    if (kind == NN_OP_attention || kind == NN_OP_attention_grad || kind == NN_OP_attention_grad_packed)
      join_attention(op);
  }
  rewrite_erase_dead(block);   // the slices
  NN_FOREACH_OP (op, block) {
    NnOp kind = nn_op_of(op);
    if (kind != NN_OP_NONE && nn_op_info(kind)->kind == NN_KIND_MAP && can_be_sliced(op)) slice_map(op);
  }
  for (MlirOperation op = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(op); op = next) {
    NnOp kind = nn_op_of(op);
    bool replaced = false;
    if (kind != NN_OP_NONE) {
      if (nn_op_info(kind)->kind == NN_KIND_REDUCE) replaced = split_reduction(op);
      else if (kind == NN_OP_broadcast) replaced = fold_unit_reshape(op);
      else if (kind == NN_OP_gather || kind == NN_OP_scatter_add) replaced = take_counted_rows(op);
      else if (nn_op_info(kind)->kind == NN_KIND_MAP) replaced = hoist_broadcast(op);
    }
    next = mlirOperationGetNextInBlock(op);
    if (replaced) mlirOperationDestroy(op);
  }
  rewrite_erase_dead(block);
}
