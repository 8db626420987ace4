// Softmax and log_softmax over the last axis. The largest element is subtracted first, so that no exponential
// overflows.
#include "ir/ops/ops.h"

static bool rows(NnOpCall *c, NnType *result) {
  *result = c->operand[0];
  return nn_need_float(c, 0) && nn_need_min_rank(c, 0, 1);
}

bool nn_infer_softmax(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  return rows(c, result);
}

bool nn_infer_log_softmax(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  return rows(c, result);
}

// dx = y (dy - sum(dy y))
void nn_vjp_softmax(NnVjp *v) {
  MlirValue g = v->cotangent[0], y = v->result[0];
  if (!v->needed[0] || nn_value_is_null(g)) return;
  NnBuilder *b = v->b;
  MlirValue sum = nn_sum_last(b, nn_binary(b, NN_OP_mul, g, y));
  v->operand_cotangent[0] = nn_binary(b, NN_OP_mul, y, nn_binary(b, NN_OP_sub, g, nn_along_rows(b, sum, y)));
}

// dx = dy - exp(y) sum(dy)
void nn_vjp_log_softmax(NnVjp *v) {
  MlirValue g = v->cotangent[0], y = v->result[0];
  if (!v->needed[0] || nn_value_is_null(g)) return;
  NnBuilder *b = v->b;
  MlirValue sum = nn_along_rows(b, nn_sum_last(b, g), y);
  v->operand_cotangent[0] = nn_binary(b, NN_OP_sub, g, nn_binary(b, NN_OP_mul, nn_unary(b, NN_OP_exp, y), sum));
}

static MlirValue minus_row_max(NnBuilder *b, MlirValue x) {
  int64_t last = nn_value_type(x).rank - 1;
  MlirValue max = nn_reduce(b, NN_OP_reduce_max, x, 1, &last);
  return nn_binary(b, NN_OP_sub, x, nn_along_rows(b, max, x));
}

void nn_expand_softmax(NnBuilder *b, MlirOperation op, MlirValue *results) {
  MlirValue x = mlirOperationGetOperand(op, 0), e = nn_unary(b, NN_OP_exp, minus_row_max(b, x));
  MlirValue scale = nn_unary(b, NN_OP_recip, nn_sum_last(b, e));
  results[0] = nn_binary(b, NN_OP_mul, e, nn_along_rows(b, scale, x));
}

void nn_expand_log_softmax(NnBuilder *b, MlirOperation op, MlirValue *results) {
  MlirValue x = mlirOperationGetOperand(op, 0), shifted = minus_row_max(b, x);
  MlirValue log_sum = nn_unary(b, NN_OP_log, nn_sum_last(b, nn_unary(b, NN_OP_exp, shifted)));
  results[0] = nn_binary(b, NN_OP_sub, shifted, nn_along_rows(b, log_sum, x));
}

// Maximum, subtraction, exponential, sum, and product or difference: one each per element.
double nn_flops_softmax(MlirOperation op) {
  NnType x = nn_operand_type(op, 0);
  return 5.0 * (double)nn_type_elements(&x);
}

double nn_flops_log_softmax(MlirOperation op) { return nn_flops_softmax(op); }
