// Layer normalisation (Ba et al., 2016) over the last axis: (x, gamma, beta) to (y, mean, rstd). mean and rstd are
// results so that the gradient need not recompute them; only a second gradient reaches them.
#include "ir/ops/ops.h"

bool nn_infer_layernorm(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  const NnType *x = &c->operand[0];
  if (!nn_need_float(c, 0) || !nn_need_min_rank(c, 0, 1)) return false;
  NnType scale = {.dtype = x->dtype, .rank = 1, .dim = {x->dim[x->rank - 1]}};
  for (int i = 1; i < 3; i++)
    if (!nn_type_equal(&c->operand[i], &scale))
      return nn_fail(c, "%s must be %s for %s, found %s", i == 1 ? "gamma" : "beta", nn_text(&scale).text,
                     nn_text(x).text, nn_text(&c->operand[i]).text);
  result[0] = result[1] = *x;
  result[1].rank--;
  result[2] = result[1];
  return true;
}

static double row_length(MlirValue x) {
  NnType t = nn_value_type(x);
  return (double)t.dim[t.rank - 1];
}

static MlirValue mean_last(NnBuilder *b, MlirValue x) { return nn_scale(b, nn_sum_last(b, x), 1 / row_length(x)); }

// Mean first, then the mean square of the deviations: no cancellation, and a row is short enough to stay in cache for
// both passes.
void nn_expand_layernorm(NnBuilder *b, MlirOperation op, MlirValue *results) {
  MlirValue x = mlirOperationGetOperand(op, 0), gamma = mlirOperationGetOperand(op, 1),
            beta = mlirOperationGetOperand(op, 2);
  MlirValue mean = mean_last(b, x);
  MlirValue deviation = nn_binary(b, NN_OP_sub, x, nn_along_rows(b, mean, x));
  MlirValue var = mean_last(b, nn_binary(b, NN_OP_mul, deviation, deviation));
  MlirValue rstd = nn_unary(b, NN_OP_rsqrt,
                            nn_binary(b, NN_OP_add, var, nn_constant_like(b, var, nn_attr_f64(op, "eps", 1e-5))));
  MlirValue normal = nn_binary(b, NN_OP_mul, deviation, nn_along_rows(b, rstd, x));
  NnType full = nn_value_type(x);
  results[0] = nn_binary(b, NN_OP_add, nn_binary(b, NN_OP_mul, normal, nn_broadcast_trailing(b, gamma, full)),
                         nn_broadcast_trailing(b, beta, full));
  results[1] = mean;
  results[2] = rstd;
}

// What reaches x through the mean and rstd: dmean/M - drstd rstd^2 xhat/M.
static MlirValue through_statistics(NnVjp *v, MlirValue xhat) {
  NnBuilder *b = v->b;
  MlirValue x = v->operand[0], dmean = v->cotangent[1], drstd = v->cotangent[2], rstd = v->result[2],
            sum = nn_null_value();
  if (!nn_value_is_null(dmean)) sum = nn_along_rows(b, nn_scale(b, dmean, 1 / row_length(x)), x);
  if (nn_value_is_null(drstd)) return sum;
  MlirValue slope = nn_binary(b, NN_OP_mul, nn_scale(b, drstd, -1 / row_length(x)),
                              nn_binary(b, NN_OP_mul, rstd, rstd));
  MlirValue more = nn_binary(b, NN_OP_mul, xhat, nn_along_rows(b, slope, x));
  return nn_value_is_null(sum) ? more : nn_binary(b, NN_OP_add, sum, more);
}

// xhat = (x - mean) rstd, d = dy gamma; dx = rstd (d - mean(d) - xhat mean(d xhat)), dgamma = sum(dy xhat), dbeta =
// sum(dy), the means over the row and the sums over all rows.
void nn_vjp_layernorm(NnVjp *v) {
  MlirValue g = v->cotangent[0], x = v->operand[0], mean = v->result[1], rstd = v->result[2];
  NnBuilder *b = v->b;
  NnType full = nn_value_type(x);
  int64_t rows[NN_MAX_RANK];
  int n = nn_axes_except(full.rank, full.rank - 1, rows);
  MlirValue scale = nn_along_rows(b, rstd, x);
  MlirValue xhat = nn_binary(b, NN_OP_mul, nn_binary(b, NN_OP_sub, x, nn_along_rows(b, mean, x)), scale);
  MlirValue other = v->needed[0] ? through_statistics(v, xhat) : nn_null_value();
  v->operand_cotangent[0] = other;
  if (nn_value_is_null(g)) return;
  if (v->needed[0]) {
    MlirValue d = nn_binary(b, NN_OP_mul, g, nn_broadcast_trailing(b, v->operand[1], full));
    MlirValue mean_d = nn_along_rows(b, mean_last(b, d), x);
    MlirValue mean_d_xhat = nn_along_rows(b, mean_last(b, nn_binary(b, NN_OP_mul, d, xhat)), x);
    MlirValue centred = nn_binary(b, NN_OP_sub, nn_binary(b, NN_OP_sub, d, mean_d),
                                  nn_binary(b, NN_OP_mul, xhat, mean_d_xhat));
    MlirValue dx = nn_binary(b, NN_OP_mul, scale, centred);
    v->operand_cotangent[0] = nn_value_is_null(other) ? dx : nn_binary(b, NN_OP_add, dx, other);
  }
  if (v->needed[1]) v->operand_cotangent[1] = nn_reduce(b, NN_OP_reduce_sum, nn_binary(b, NN_OP_mul, g, xhat), n, rows);
  if (v->needed[2]) v->operand_cotangent[2] = nn_reduce(b, NN_OP_reduce_sum, g, n, rows);
}

double nn_flops_layernorm(MlirOperation op) {
  NnType x = nn_operand_type(op, 0);
  return 7.0 * (double)nn_type_elements(&x);
}
