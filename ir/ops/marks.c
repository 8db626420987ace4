// Marks: tap and checkpoint accept any value and have no results. stop_gradient is a mark on the way of a value: the
// value itself, once autodiff has seen it. gradient stands for the ops that the pass gradients makes. A copy is the
// value in another place.
#include "ir/ops/ops.h"

bool nn_infer_tap(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results, (void)result;
  const NnType *x = &c->operand[0];
  int64_t most = x->rank ? x->dim[x->rank - 1] : 1, columns = nn_call_i64(c, "columns", most), shape[NN_MAX_RANK],
          rows = 1;
  if (!((columns >= 1 && columns <= most) || columns == most))
    return nn_fail(c, "columns must be 1 to %lld, found %lld", (long long)most, (long long)columns);
  int rank = nn_call_i64s(c, "shape", shape, NN_MAX_RANK);
  if (rank < 0) return true;
  for (int i = 0; i + 1 < rank; i++) rows *= shape[i];
  int64_t first = nn_call_i64(c, "first", 0);
  if (rank < 1 || x->rank != 2 || shape[rank - 1] != most)
    return nn_fail(c, "a part must be rows of the whole, found %s", nn_text(x).text);
  return (first >= 0 && first + x->dim[0] <= rows) ||
         nn_fail(c, "rows %lld to %lld of %lld", (long long)first, (long long)(first + x->dim[0]), (long long)rows);
}

bool nn_infer_checkpoint(NnOpCall *c, int n_results, NnType *result) {
  (void)c, (void)n_results, (void)result;
  return true;
}

bool nn_infer_stop_gradient(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  *result = c->operand[0];
  return true;
}

bool nn_infer_copy(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  *result = c->operand[0];
  return true;
}

bool nn_infer_optimization_barrier(NnOpCall *c, int n_results, NnType *result) {
  return nn_infer_copy(c, n_results, result);
}

bool nn_infer_gradient(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  *result = c->operand[1];
  return nn_need_float(c, 0) && nn_need_float(c, 1);
}

void nn_expand_stop_gradient(NnBuilder *b, MlirOperation op, MlirValue *results) {
  (void)b;
  results[0] = mlirOperationGetOperand(op, 0);
}
