// Batch normalisation (Ioffe & Szegedy, 2015) in training: statistics over all axes but `axis`; (x, gamma, beta) to (y,
// mean, var), var the population variance. mean and var feed the running statistics; only a second gradient reaches
// them.
#include "ir/ops/ops.h"

bool nn_infer_batchnorm(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  const NnType *x = &c->operand[0];
  int64_t axis;
  if (!nn_need_float(c, 0) || !nn_need_min_rank(c, 0, 2) || !nn_need_axis(c, x->rank, &axis)) return false;
  NnType channel = {.dtype = x->dtype, .rank = 1, .dim = {x->dim[axis]}};
  for (int i = 1; i < 3; i++)
    if (!nn_type_equal(&c->operand[i], &channel))
      return nn_fail(c, "%s must be %s for axis %lld of %s, found %s", i == 1 ? "gamma" : "beta",
                     nn_text(&channel).text, (long long)axis, nn_text(x).text, nn_text(&c->operand[i]).text);
  result[0] = *x;
  result[1] = result[2] = channel;
  return true;
}

static MlirValue reciprocal_deviation(NnBuilder *b, MlirValue var, double eps) {
  return nn_unary(b, NN_OP_rsqrt, nn_binary(b, NN_OP_add, var, nn_constant_like(b, var, eps)));
}

// Per channel, scale = gamma rstd is formed once; the large map is (x - mean) scale + beta.
void nn_expand_batchnorm(NnBuilder *b, MlirOperation op, MlirValue *results) {
  MlirValue x = mlirOperationGetOperand(op, 0), gamma = mlirOperationGetOperand(op, 1),
            beta = mlirOperationGetOperand(op, 2);
  int64_t axis = nn_attr_i64(op, "axis", 1), axes[NN_MAX_RANK];
  int n = nn_axes_except(nn_value_type(x).rank, axis, axes);
  MlirOperation moments = nn_build(b, NN_OP_moments, 1, &x, 1, &NN_I64S("axes", axes, n), NULL);
  MlirValue mean = mlirOperationGetResult(moments, 0), var = mlirOperationGetResult(moments, 1);
  MlirValue scale = nn_binary(b, NN_OP_mul, gamma, reciprocal_deviation(b, var, nn_attr_f64(op, "eps", 1e-5)));
  MlirValue centred = nn_binary(b, NN_OP_sub, x, nn_along_axis(b, mean, x, axis));
  MlirValue scaled = nn_binary(b, NN_OP_mul, centred, nn_along_axis(b, scale, x, axis));
  results[0] = nn_binary(b, NN_OP_add, scaled, nn_along_axis(b, beta, x, axis));
  results[1] = mean;
  results[2] = var;
}

// What reaches x through the mean and the variance: dmean/M + dvar 2(x - mean)/M.
static MlirValue through_statistics(NnVjp *v, MlirValue centred, double count, int64_t axis) {
  NnBuilder *b = v->b;
  MlirValue x = v->operand[0], dmean = v->cotangent[1], dvar = v->cotangent[2], sum = nn_null_value();
  if (!nn_value_is_null(dmean)) sum = nn_along_axis(b, nn_scale(b, dmean, 1 / count), x, axis);
  if (nn_value_is_null(dvar)) return sum;
  MlirValue more = nn_binary(b, NN_OP_mul, centred, nn_along_axis(b, nn_scale(b, dvar, 2 / count), x, axis));
  return nn_value_is_null(sum) ? more : nn_binary(b, NN_OP_add, sum, more);
}

// xhat = (x - mean) rstd over M elements a channel; dbeta = sum(dy), dgamma = sum(dy xhat) = rstd sum(dy (x - mean)),
// dx = gamma rstd (dy - dbeta/M - xhat dgamma/M). Two reductions of the same operands over the same axes (one kernel),
// products per channel on the small shape (its epilogue), then one map.
void nn_vjp_batchnorm(NnVjp *v) {
  MlirValue g = v->cotangent[0], x = v->operand[0], mean = v->result[1], var = v->result[2];
  NnBuilder *b = v->b;
  NnType full = nn_value_type(x), channel = nn_value_type(mean);
  int64_t axis = nn_attr_i64(v->op, "axis", 1), axes[NN_MAX_RANK];
  int n = nn_axes_except(full.rank, axis, axes);
  double count = (double)(nn_type_elements(&full) / nn_type_elements(&channel));
  MlirValue centred = nn_binary(b, NN_OP_sub, x, nn_along_axis(b, mean, x, axis));
  MlirValue other = v->needed[0] ? through_statistics(v, centred, count, axis) : nn_null_value();
  v->operand_cotangent[0] = other;
  if (nn_value_is_null(g)) return;
  MlirValue rstd = reciprocal_deviation(b, var, nn_attr_f64(v->op, "eps", 1e-5));
  MlirValue dbeta = nn_reduce(b, NN_OP_reduce_sum, g, n, axes);
  MlirValue dgamma = nn_binary(b, NN_OP_mul,
                               nn_reduce(b, NN_OP_reduce_sum, nn_binary(b, NN_OP_mul, g, centred), n, axes), rstd);
  if (v->needed[0]) {
    MlirValue shift = nn_along_axis(b, nn_scale(b, dbeta, 1 / count), x, axis);
    MlirValue slope = nn_along_axis(b, nn_scale(b, nn_binary(b, NN_OP_mul, dgamma, rstd), 1 / count), x, axis);
    MlirValue scale = nn_along_axis(b, nn_binary(b, NN_OP_mul, v->operand[1], rstd), x, axis);
    MlirValue inner = nn_binary(b, NN_OP_sub, nn_binary(b, NN_OP_sub, g, shift),
                                nn_binary(b, NN_OP_mul, centred, slope));
    MlirValue dx = nn_binary(b, NN_OP_mul, scale, inner);
    v->operand_cotangent[0] = nn_value_is_null(other) ? dx : nn_binary(b, NN_OP_add, dx, other);
  }
  if (v->needed[1]) v->operand_cotangent[1] = dgamma;
  if (v->needed[2]) v->operand_cotangent[2] = dbeta;
}

double nn_flops_batchnorm(MlirOperation op) {
  NnType x = nn_operand_type(op, 0);
  return 7.0 * (double)nn_type_elements(&x);
}
