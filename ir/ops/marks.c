// Marks: tap and checkpoint accept any value and have no results.
#include "ir/ops/ops.h"

bool nn_infer_tap(NnOpCall *c, int n_results, NnType *result) {
  (void)c, (void)n_results, (void)result;
  return true;
}

bool nn_infer_checkpoint(NnOpCall *c, int n_results, NnType *result) {
  (void)c, (void)n_results, (void)result;
  return true;
}
