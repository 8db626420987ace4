// Sources: constant, iota, random_uniform. They read no tensor data; the asked result type says what to make.
#include "ir/ops/ops.h"

bool nn_infer_constant(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  return nn_need_asked(c, result);
}

bool nn_infer_iota(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  int64_t axis;
  if (!nn_need_asked(c, result) || !nn_need_axis(c, result->rank, &axis)) return false;
  return result->dtype != NN_I1 || nn_fail(c, "the result must be of a numeric type, found %s", nn_text(result).text);
}

bool nn_infer_random_uniform(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  if (!nn_need_asked(c, result)) return false;
  NnType key = {.dtype = NN_I32, .rank = 1, .dim = {4}};
  if (!nn_type_equal(&c->operand[0], &key))
    return nn_fail(c, "the key must be i32[4], found %s", nn_text(&c->operand[0]).text);
  return nn_dtype_is_float(result->dtype) ||
         nn_fail(c, "the result must be of a floating-point type, found %s", nn_text(result).text);
}
