// Reductions: reduce_sum, reduce_max, moments. The reduced axes are dropped.
#include "ir/ops/ops.h"

static bool reduced(NnOpCall *c, NnType *result) {
  const NnType *x = &c->operand[0];
  int64_t axes[NN_MAX_RANK];
  int n = nn_call_i64s(c, "axes", axes, NN_MAX_RANK);
  if (n < 1 || n > x->rank)
    return nn_fail(c, "'axes' must name 1 to %d axes of %s, found %d", x->rank, nn_text(x).text, n);
  for (int i = 0; i < n; i++) {
    if (axes[i] < 0 || axes[i] >= x->rank)
      return nn_fail(c, "axis %lld is outside %s", (long long)axes[i], nn_text(x).text);
    if (i > 0 && axes[i] <= axes[i - 1]) return nn_fail(c, "'axes' must increase strictly");
  }
  *result = (NnType){.dtype = x->dtype};
  for (int axis = 0, i = 0; axis < x->rank; axis++) {
    if (i < n && axes[i] == axis) i++;
    else result->dim[result->rank++] = x->dim[axis];
  }
  return true;
}

bool nn_infer_reduce_sum(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  return nn_need_number(c, 0) && reduced(c, result);
}

bool nn_infer_reduce_max(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  return nn_need_number(c, 0) && reduced(c, result);
}

bool nn_infer_moments(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  if (!nn_need_float(c, 0) || !reduced(c, &result[0])) return false;
  result[1] = result[0];
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------

// v, of the reduced shape, repeated over the reduced axes of the operand.
static MlirValue expanded(NnVjp *v, MlirValue reduced_value) {
  NnType x = nn_value_type(v->operand[0]);
  int64_t axes[NN_MAX_RANK], dims[NN_MAX_RANK];
  int n = nn_attr_i64s(v->op, "axes", axes, NN_MAX_RANK), kept = 0;
  for (int axis = 0, i = 0; axis < x.rank; axis++) {
    if (i < n && axes[i] == axis) i++;
    else dims[kept++] = axis;
  }
  return nn_broadcast(v->b, reduced_value, x, dims);
}

void nn_vjp_reduce_sum(NnVjp *v) {
  if (v->needed[0] && !nn_value_is_null(v->cotangent[0])) v->operand_cotangent[0] = expanded(v, v->cotangent[0]);
}

// Elements equal to the maximum share the cotangent equally. A narrow type may be too small for how many there are.
void nn_vjp_reduce_max(NnVjp *v) {
  MlirValue g = v->cotangent[0], x = v->operand[0];
  if (!v->needed[0] || nn_value_is_null(g)) return;
  NnBuilder *b = v->b;
  int64_t axes[NN_MAX_RANK];
  int n = nn_attr_i64s(v->op, "axes", axes, NN_MAX_RANK);
  MlirValue is_max = nn_compare(b, "eq", x, expanded(v, v->result[0]));
  NnDtype dtype = nn_value_dtype(x), wide = nn_dtype_wide(dtype);
  MlirValue count = nn_reduce(b, NN_OP_reduce_sum, nn_cast(b, is_max, wide), n, axes);
  MlirValue share = expanded(v, nn_cast(b, nn_binary(b, NN_OP_div, nn_cast(b, g, wide), count), dtype));
  v->operand_cotangent[0] = nn_select(b, is_max, share, nn_zeros_like(b, x));
}

// mean = sum(x)/M, var = sum((x-mean)²)/M: dx = dmean/M + dvar 2(x-mean)/M. (That mean moves inside var adds nothing:
// the deviations sum to zero.)
void nn_vjp_moments(NnVjp *v) {
  if (!v->needed[0]) return;
  NnBuilder *b = v->b;
  MlirValue x = v->operand[0], mean = v->result[0], dmean = v->cotangent[0], dvar = v->cotangent[1],
            dx = nn_null_value();
  NnType full = nn_value_type(x), small = nn_value_type(mean);
  double count = (double)(nn_type_elements(&full) / nn_type_elements(&small));
  if (!nn_value_is_null(dvar)) {
    MlirValue deviation = nn_binary(b, NN_OP_sub, x, expanded(v, mean));
    dx = nn_binary(b, NN_OP_mul, deviation, expanded(v, nn_scale(b, dvar, 2 / count)));
  }
  if (!nn_value_is_null(dmean)) {
    MlirValue share = expanded(v, nn_scale(b, dmean, 1 / count));
    dx = nn_value_is_null(dx) ? share : nn_binary(b, NN_OP_add, dx, share);
  }
  v->operand_cotangent[0] = dx;
}

// ---------------------------------------------------------------------------------------------------------------------

static double operand_elements(MlirOperation op) {
  NnType x = nn_operand_type(op, 0);
  return (double)nn_type_elements(&x);
}

double nn_flops_reduce_sum(MlirOperation op) { return operand_elements(op); }
double nn_flops_reduce_max(MlirOperation op) { return operand_elements(op); }
double nn_flops_moments(MlirOperation op) { return 4 * operand_elements(op); }
