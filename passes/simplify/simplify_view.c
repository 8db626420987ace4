// Rules of the pass simplify for views, reductions, moves and the operands of matrix products: identities vanish,
// chains of the same view become one, and a view of a constant is a constant.

#include "passes/rewrite.h"
#include "passes/simplify/simplify.h"

static MlirValue none(void) { return nn_null_value(); }

// ---------------------------------------------------------------------------------------------------------------------

static MlirValue rule_reshape(MlirOperation op, MlirValue x) {
  MlirOperation inner;
  NnType from = nn_value_type(x), to = nn_value_type(nn_result(op, 0));
  if (nn_type_equal(&from, &to)) return x;
  NnBuilder b = rewrite_builder(op);
  if (simplify_is(x, NN_OP_cast, &inner) && rewrite_has_one_use(x) && !nn_has_attr(inner, ATTR_recompute) &&
      nn_dtype_bytes(nn_value_dtype(nn_operand(inner, 0))) < nn_dtype_bytes(from.dtype))
    return nn_cast(&b, nn_reshape(&b, nn_operand(inner, 0), to.rank, to.dim), to.dtype);   // in the narrower type
  if (!simplify_is(x, NN_OP_reshape, &inner)) return none();
  return nn_reshape(&b, nn_operand(inner, 0), to.rank, to.dim);
}

// Transposing what a broadcast repeats is repeating along other axes; its operand, the smaller tensor, is transposed if
// its own axes change places.
static MlirValue transposed_broadcast(MlirOperation op, MlirOperation inner, const int64_t *perm) {
  MlirValue x = nn_operand(inner, 0);
  NnType small = nn_value_type(x), to = nn_value_type(nn_result(op, 0));
  if (nn_type_elements(&small) >= nn_type_elements(&to)) return none();
  int64_t dims[NN_MAX_RANK], moved[NN_MAX_RANK], order[NN_MAX_RANK];
  nn_attr_i64s(inner, "dims", dims, NN_MAX_RANK);
  int n = 0;
  for (int i = 0; i < to.rank; i++)
    for (int k = 0; k < small.rank; k++)
      if (dims[k] == perm[i]) moved[n] = i, order[n++] = k;
  NnBuilder b = rewrite_builder(op);
  return nn_broadcast(&b, nn_transpose(&b, x, order), to, moved);
}

static MlirValue rule_transpose(MlirOperation op, MlirValue x) {
  int64_t perm[NN_MAX_RANK], first[NN_MAX_RANK];
  NnType from = nn_value_type(x);
  nn_attr_i64s(op, "perm", perm, NN_MAX_RANK);
  NnBuilder b = rewrite_builder(op);
  if (rewrite_moves_only_ones(&from, perm)) return rewrite_transpose(&b, x, perm);
  MlirOperation inner;
  if (simplify_is(x, NN_OP_broadcast, &inner)) return transposed_broadcast(op, inner, perm);
  if (!simplify_is(x, NN_OP_transpose, &inner)) return none();
  nn_attr_i64s(inner, "perm", first, NN_MAX_RANK);
  for (int i = 0; i < from.rank; i++) perm[i] = first[perm[i]];
  return nn_transpose(&b, nn_operand(inner, 0), perm);
}

// `wide` is `narrow` with axes of size 1 put in: at[i] is where axis i of narrow stands.
static bool inserts_ones(const NnType *narrow, const NnType *wide, int64_t *at) {
  int k = 0;
  for (int i = 0; i < wide->rank; i++) {
    if (k < narrow->rank && narrow->dim[k] == wide->dim[i]) at[k++] = i;
    else if (wide->dim[i] != 1) return false;
  }
  return k == narrow->rank;
}

static MlirValue rule_broadcast(MlirOperation op, MlirValue x) {
  MlirOperation inner = nn_value_def(x);
  NnOp of_x = nn_op_of(inner);
  if (mlirTypeEqual(mlirValueGetType(x), mlirValueGetType(nn_result(op, 0)))) return x;
  if (of_x != NN_OP_broadcast && of_x != NN_OP_reshape) return none();
  NnType from = nn_value_type(x), to = nn_value_type(nn_result(op, 0));
  int64_t dims[NN_MAX_RANK], at[NN_MAX_RANK];
  nn_attr_i64s(op, "dims", dims, NN_MAX_RANK);
  NnBuilder b = rewrite_builder(op);
  if (of_x == NN_OP_broadcast) {
    int n = nn_attr_i64s(inner, "dims", at, NN_MAX_RANK);
    for (int i = 0; i < n; i++) at[i] = dims[at[i]];
    return nn_broadcast(&b, nn_operand(inner, 0), to, at);
  }
  NnType narrow = nn_value_type(nn_operand(inner, 0));
  if (!inserts_ones(&narrow, &from, at)) return none();
  for (int i = 0; i < narrow.rank; i++) at[i] = dims[at[i]];
  return nn_broadcast(&b, nn_operand(inner, 0), to, at);
}

// ---------------------------------------------------------------------------------------------------------------------

typedef struct Slice {
  int64_t start[NN_MAX_RANK], size[NN_MAX_RANK], stride[NN_MAX_RANK];
} Slice;

static Slice slice_of(MlirOperation op) {
  Slice s;
  nn_attr_i64s(op, "starts", s.start, NN_MAX_RANK);
  nn_attr_i64s(op, "sizes", s.size, NN_MAX_RANK);
  nn_attr_i64s(op, "strides", s.stride, NN_MAX_RANK);
  return s;
}

// A slice of a concatenation that takes from one part only is a slice of that part; one that `recompute` made is there
// so that the part need not be kept.
static MlirValue slice_of_part(MlirOperation op, MlirOperation concat, Slice s) {
  int64_t axis = nn_attr_i64(concat, "axis", 0), begin = 0;
  int64_t first = s.start[axis], last = first + (s.size[axis] - 1) * s.stride[axis];
  if (last < first) {
    int64_t most = first;
    first = last;
    last = most;
  }
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(concat); i++) {
    MlirValue part = mlirOperationGetOperand(concat, i);
    int64_t end = begin + nn_value_type(part).dim[axis];
    if (first >= begin && last < end) {
      s.start[axis] -= begin;
      NnBuilder b = rewrite_builder(op);
      return nn_slice(&b, part, s.start, s.size, s.stride);
    }
    begin = end;
  }
  return none();
}

static MlirValue rule_slice(MlirOperation op, MlirValue x) {
  MlirOperation inner;
  NnType from = nn_value_type(x), to = nn_value_type(nn_result(op, 0));
  Slice s = slice_of(op);
  bool turned = false;   // from the last to the first
  for (int i = 0; i < from.rank; i++) turned |= s.size[i] > 1 && s.stride[i] < 0;
  if (nn_type_equal(&from, &to) && !turned) return x;
  if (simplify_is(x, NN_OP_concat, &inner) && !nn_has_attr(op, ATTR_recompute)) return slice_of_part(op, inner, s);
  if (!simplify_is(x, NN_OP_slice, &inner)) return none();
  Slice first = slice_of(inner);
  for (int i = 0; i < from.rank; i++) {
    s.start[i] = first.start[i] + s.start[i] * first.stride[i];
    s.stride[i] = s.size[i] > 1 ? s.stride[i] * first.stride[i] : 1;   // a stride that is not used may be anything
  }
  NnBuilder b = rewrite_builder(op);
  return nn_slice(&b, nn_operand(inner, 0), s.start, s.size, s.stride);
}

static MlirValue rule_pad(MlirOperation op, MlirValue x) {
  NnType from = nn_value_type(x), to = nn_value_type(nn_result(op, 0));
  return nn_type_equal(&from, &to) ? x : none();   // sizes never shrink, so equal types mean no padding
}

// Over axes of size 1 a reduction only drops them.
static MlirValue rule_reduce(MlirOperation op, MlirValue x) {
  NnType from = nn_value_type(x), to = nn_value_type(nn_result(op, 0));
  NnBuilder b = rewrite_builder(op);
  if (nn_type_elements(&from) == nn_type_elements(&to)) return nn_reshape(&b, x, to.rank, to.dim);
  double value;
  if (!simplify_is_constant(x, &value)) return none();
  if (nn_op_of(op) == NN_OP_reduce_max) return nn_build_like(&b, NN_OP_constant, nn_value_def(x), 0, NULL, &to);
  double total = value * ((double)nn_type_elements(&from) / (double)nn_type_elements(&to));
  if (nn_dtype_is_float(to.dtype)) total = nn_dtype_round(to.dtype, total);
  else if (total < INT32_MIN || total > INT32_MAX || to.dtype == NN_U8) return none();
  return nn_constant(&b, to, total);
}

// v has for each token what all heads have of gradient `which` of an attention, from `axis` on, and nothing else reads
// that gradient: gives the attention_grad.
static bool is_gradient_rows(MlirValue v, int64_t axis, int which, MlirOperation *grad) {
  NnType type = nn_value_type(v);
  int64_t row = 1;
  for (int i = (int)axis; i < type.rank; i++) row *= type.dim[i];
  if (!rewrite_has_one_use(v)) return false;
  MlirOperation def;
  if (simplify_is(v, NN_OP_reshape, &def)) v = nn_operand(def, 0);
  bool moved = simplify_is(v, NN_OP_transpose, &def) && rewrite_has_one_use(v);   // from [B, H, T, D]
  if (moved) {
    int64_t perm[NN_MAX_RANK];
    int rank = nn_attr_i64s(def, "perm", perm, NN_MAX_RANK);
    if (rank != 4 || perm[0] != 0 || perm[1] != 2 || perm[3] != 3) return false;
    v = nn_operand(def, 0);
  }
  *grad = nn_value_def(v);
  if (nn_op_of(*grad) != NN_OP_attention_grad || nn_value_index(v) != which || !rewrite_has_one_use(v)) return false;
  NnAttention a = nn_attention_of(*grad);
  return a.heads_last != moved && row == (which == 0 ? a.heads : a.groups) * a.head_dim;
}

// The gradients of queries, keys and values that are slices of one tensor, joined: attention writes them side by side.
static MlirValue rule_concat(MlirOperation op) {
  NnType type = nn_value_type(nn_result(op, 0));
  if (mlirOperationGetNumOperands(op) == 1) return nn_operand(op, 0);
  if (mlirOperationGetNumOperands(op) != 3) return none();
  MlirOperation grad[3];
  for (int i = 0; i < 3; i++)
    if (!is_gradient_rows(nn_operand(op, i), nn_attr_i64(op, "axis", 0), i, &grad[i]) ||
        !mlirOperationEqual(grad[i], grad[0]))
      return none();
  NnAttention a = nn_attention_of(grad[0]);
  if (a.n_queries != a.n_keys) return none();
  NnBuilder b = rewrite_builder(grad[0]);
  MlirValue operands[NN_MAX_OPERANDS];
  int n = (int)mlirOperationGetNumOperands(grad[0]);
  for (int i = 0; i < n; i++) operands[i] = nn_operand(grad[0], i);
  return nn_reshape(&b, nn_build_like(&b, NN_OP_attention_grad_packed, grad[0], n, operands, NULL), type.rank,
                    type.dim);
}

// ---------------------------------------------------------------------------------------------------------------------

// v is a transpose of the last two axes alone: gives what it transposes.
static bool is_matrix_transpose(MlirValue v, MlirValue *x) {
  MlirOperation def;
  int64_t perm[NN_MAX_RANK];
  if (!simplify_is(v, NN_OP_transpose, &def)) return false;
  int rank = nn_attr_i64s(def, "perm", perm, NN_MAX_RANK);
  for (int i = 0; i < rank; i++) {
    int expected = i == rank - 1 ? rank - 2 : i == rank - 2 ? rank - 1 : i;
    if (perm[i] != expected) return false;
  }
  *x = nn_operand(def, 0);
  return rank >= 2;
}

// The library reads transposed operands in place.
static MlirValue rule_matmul(MlirOperation op) {
  MlirValue x = nn_operand(op, 0), y = nn_operand(op, 1);
  bool tx = nn_attr_bool(op, "transpose_a", false), ty = nn_attr_bool(op, "transpose_b", false);
  bool equal_ranks = nn_value_type(x).rank == nn_value_type(y).rank;
  bool flips_x = equal_ranks && is_matrix_transpose(x, &x), flips_y = is_matrix_transpose(y, &y);
  if (!flips_x && !flips_y) return none();
  NnBuilder b = rewrite_builder(op);
  NnAttr attrs[] = {NN_BOOL("transpose_a", tx != flips_x), NN_BOOL("transpose_b", ty != flips_y)};
  NnType type = nn_value_type(nn_result(op, 0));
  return mlirOperationGetResult(nn_build(&b, NN_OP_matmul, 2, (MlirValue[]){x, y}, 2, attrs, &type), 0);
}

static MlirValue rule_constant_view(MlirOperation op) {
  MlirOperation constant;
  if (mlirOperationGetNumOperands(op) != 1 || !simplify_is(nn_operand(op, 0), NN_OP_constant, &constant)) return none();
  NnBuilder b = rewrite_builder(op);
  NnType to = nn_value_type(nn_result(op, 0));
  return nn_build_like(&b, NN_OP_constant, constant, 0, NULL, &to);
}

// Rows of a table are cast after they are taken: fewer elements, and their gradient is added up in the table's own
// type.
static MlirValue rule_gather(MlirOperation op) {
  MlirOperation cast;
  if (!simplify_is(nn_operand(op, 0), NN_OP_cast, &cast)) return none();
  NnBuilder b = rewrite_builder(op);
  return nn_cast(&b, nn_binary(&b, NN_OP_gather, nn_operand(cast, 0), nn_operand(op, 1)),
                 nn_value_dtype(nn_result(op, 0)));
}

MlirValue simplify_view(MlirOperation op, NnOp kind) {
  if (nn_op_info(kind)->kind == NN_KIND_VIEW) {
    MlirValue folded = rule_constant_view(op);
    if (!nn_value_is_null(folded)) return folded;
  }
  switch (kind) {
  case NN_OP_reshape: return rule_reshape(op, nn_operand(op, 0));
  case NN_OP_transpose: return rule_transpose(op, nn_operand(op, 0));
  case NN_OP_broadcast: return rule_broadcast(op, nn_operand(op, 0));
  case NN_OP_slice: return rule_slice(op, nn_operand(op, 0));
  case NN_OP_pad: return rule_pad(op, nn_operand(op, 0));
  case NN_OP_concat: return rule_concat(op);
  case NN_OP_reduce_sum:
  case NN_OP_reduce_max: return rule_reduce(op, nn_operand(op, 0));
  case NN_OP_gather: return rule_gather(op);
  case NN_OP_matmul: return rule_matmul(op);
  default: return none();
  }
}

// maxpool(relu(x)) is relu(maxpool(x)): the same values, and the same gradient, for where a window has no positive
// element both give none. The ReLU then runs, and is kept for its gradient, at the size of the pooled tensor.
bool simplify_pool_of_relu(MlirOperation op, NnOp kind) {
  MlirOperation relu;
  if (kind != NN_OP_maxpool2d || !simplify_is(nn_operand(op, 0), NN_OP_relu, &relu)) return false;
  if (!rewrite_has_one_use(nn_operand(op, 0)) ||
      !mlirOpOperandIsNull(mlirValueGetFirstUse(mlirOperationGetResult(op, 1))))
    return false;
  mlirOperationSetOperand(op, 0, nn_operand(relu, 0));
  NnBuilder b = rewrite_builder(op);
  b.before = mlirOperationGetNextInBlock(op);
  MlirValue pooled = mlirOperationGetResult(op, 0), y = nn_unary(&b, NN_OP_relu, pooled);
  mlirValueReplaceAllUsesOfWith(pooled, y);
  mlirOperationSetOperand(nn_value_def(y), 0, pooled);
  return true;   // the ReLU before the pooling is dead now; the next round erases it
}
