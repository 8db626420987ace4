// Collectives: what the ranks of a distributed program give each other. Operands lie one behind the other, flattened,
// in the one result.
#include "ir/ops/ops.h"

static bool infer_bucket(NnOpCall *c, int first, NnType *result) {
  int64_t elements = 0;
  if (first >= c->n_operands) return nn_fail(c, "there is nothing to exchange");
  const NnType *x = &c->operand[first];
  if (!nn_dtype_is_float(x->dtype)) return nn_fail(c, "only floats are exchanged, found %s", nn_text(x).text);
  for (int i = first; i < c->n_operands; i++) {
    if (c->operand[i].dtype != x->dtype)
      return nn_fail(c, "operands must have one element type, found %s and %s", nn_text(x).text,
                     nn_text(&c->operand[i]).text);
    elements += nn_type_elements(&c->operand[i]);
  }
  *result = nn_type(x->dtype, 1, &elements);
  return true;
}

bool nn_infer_all_reduce(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  return infer_bucket(c, 0, result);
}

bool nn_infer_rank_receive(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  return infer_bucket(c, 1, result);
}

bool nn_infer_rank_send(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  return infer_bucket(c, 0, result);
}
