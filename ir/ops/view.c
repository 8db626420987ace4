// Views: broadcast, reshape, transpose, slice. Another index map over the same data; each gradient is the transposed
// index map.
#include "ir/ops/ops.h"

bool nn_infer_broadcast(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  const NnType *x = &c->operand[0];
  int64_t dims[NN_MAX_RANK];
  if (!nn_need_asked(c, result) || !nn_need_i64s(c, "dims", x->rank, 0, dims)) return false;
  if (result->dtype != x->dtype)
    return nn_fail(c, "cannot change the element type: %s to %s", nn_text(x).text, nn_text(result).text);
  for (int i = 0; i < x->rank; i++) {
    if (dims[i] >= result->rank)
      return nn_fail(c, "dims[%d] = %lld is outside the result %s", i, (long long)dims[i], nn_text(result).text);
    if (i > 0 && dims[i] <= dims[i - 1]) return nn_fail(c, "dims must increase strictly");
    if (x->dim[i] != 1 && x->dim[i] != result->dim[dims[i]])
      return nn_fail(c, "axis %d of %s has size %lld, which is neither 1 nor the %lld of axis %lld of %s", i,
                     nn_text(x).text, (long long)x->dim[i], (long long)result->dim[dims[i]], (long long)dims[i],
                     nn_text(result).text);
  }
  return true;
}

// Sums over every axis along which elements were repeated, then gives stretched axes their size 1 back.
void nn_vjp_broadcast(NnVjp *v) {
  MlirValue g = v->cotangent[0];
  if (!v->needed[0] || nn_value_is_null(g)) return;
  NnType x = nn_value_type(v->operand[0]), y = nn_value_type(v->result[0]);
  int64_t dims[NN_MAX_RANK], axes[NN_MAX_RANK];
  nn_attr_i64s(v->op, "dims", dims, NN_MAX_RANK);
  int n = 0;
  for (int axis = 0, i = 0; axis < y.rank; axis++) {
    bool mapped = i < x.rank && dims[i] == axis;
    if (y.dim[axis] > 1 && (!mapped || x.dim[i] == 1)) axes[n++] = axis;
    i += mapped;
  }
  v->operand_cotangent[0] = nn_reshape(v->b, nn_reduce(v->b, NN_OP_reduce_sum, g, n, axes), x.rank, x.dim);
}

bool nn_infer_reshape(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  const NnType *x = &c->operand[0];
  if (!nn_need_asked(c, result)) return false;
  if (result->dtype != x->dtype)
    return nn_fail(c, "cannot change the element type: %s to %s", nn_text(x).text, nn_text(result).text);
  return nn_type_elements(x) == nn_type_elements(result) ||
         nn_fail(c, "%s has %lld elements, %s has %lld", nn_text(x).text, (long long)nn_type_elements(x),
                 nn_text(result).text, (long long)nn_type_elements(result));
}

void nn_vjp_reshape(NnVjp *v) {
  if (!v->needed[0] || nn_value_is_null(v->cotangent[0])) return;
  NnType x = nn_value_type(v->operand[0]);
  v->operand_cotangent[0] = nn_reshape(v->b, v->cotangent[0], x.rank, x.dim);
}

bool nn_infer_transpose(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  const NnType *x = &c->operand[0];
  int64_t perm[NN_MAX_RANK];
  bool used[NN_MAX_RANK] = {0};
  if (!nn_need_i64s(c, "perm", x->rank, 0, perm)) return false;
  *result = *x;
  for (int i = 0; i < x->rank; i++) {
    if (perm[i] >= x->rank || used[perm[i]])
      return nn_fail(c, "perm must name each of the %d axes of %s once", x->rank, nn_text(x).text);
    used[perm[i]] = true;
    result->dim[i] = x->dim[perm[i]];
  }
  return true;
}

void nn_vjp_transpose(NnVjp *v) {
  if (!v->needed[0] || nn_value_is_null(v->cotangent[0])) return;
  int64_t perm[NN_MAX_RANK], inverse[NN_MAX_RANK];
  int rank = nn_attr_i64s(v->op, "perm", perm, NN_MAX_RANK);
  for (int i = 0; i < rank; i++) inverse[perm[i]] = i;
  v->operand_cotangent[0] = nn_transpose(v->b, v->cotangent[0], inverse);
}

bool nn_infer_slice(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  const NnType *x = &c->operand[0];
  int64_t starts[NN_MAX_RANK], sizes[NN_MAX_RANK], strides[NN_MAX_RANK];
  if (!nn_need_i64s(c, "starts", x->rank, 0, starts) || !nn_need_i64s(c, "sizes", x->rank, 1, sizes) ||
      !nn_need_i64s(c, "strides", x->rank, INT64_MIN, strides))
    return false;
  *result = *x;
  for (int i = 0; i < x->rank; i++) {
    // Written as a division: the last index itself could overflow.
    bool fits = starts[i] < x->dim[i] && strides[i] != 0 && strides[i] != INT64_MIN;
    if (fits && sizes[i] > 1)
      fits = strides[i] > 0 ? sizes[i] - 1 <= (x->dim[i] - 1 - starts[i]) / strides[i]
                            : sizes[i] - 1 <= starts[i] / -strides[i];
    if (!fits)
      return nn_fail(c, "axis %d of %s has no %lld elements from %lld in steps of %lld", i, nn_text(x).text,
                     (long long)sizes[i], (long long)starts[i], (long long)strides[i]);
    result->dim[i] = sizes[i];
  }
  return true;
}

void nn_vjp_slice(NnVjp *v) {
  if (!v->needed[0] || nn_value_is_null(v->cotangent[0])) return;
  NnType x = nn_value_type(v->operand[0]);
  int64_t starts[NN_MAX_RANK], sizes[NN_MAX_RANK], strides[NN_MAX_RANK], high[NN_MAX_RANK], interior[NN_MAX_RANK];
  nn_attr_i64s(v->op, "starts", starts, NN_MAX_RANK);
  nn_attr_i64s(v->op, "sizes", sizes, NN_MAX_RANK);
  nn_attr_i64s(v->op, "strides", strides, NN_MAX_RANK);
  MlirValue g = v->cotangent[0];
  int64_t first[NN_MAX_RANK], turn[NN_MAX_RANK];
  bool turned = false;
  for (int i = 0; i < x.rank; i++) {
    int64_t length = (sizes[i] - 1) * (strides[i] < 0 ? -strides[i] : strides[i]);
    bool back = strides[i] < 0 && sizes[i] > 1;
    turned |= back;
    turn[i] = back ? -1 : 1;
    first[i] = back ? sizes[i] - 1 : 0;
    if (back) starts[i] -= length;
    interior[i] = sizes[i] > 1 ? length / (sizes[i] - 1) - 1 : 0;
    high[i] = x.dim[i] - starts[i] - (length + 1);
  }
  if (turned) g = nn_slice(v->b, g, first, sizes, turn);   // to the order of x
  v->operand_cotangent[0] = nn_pad(v->b, g, starts, high, interior, 0);
}
