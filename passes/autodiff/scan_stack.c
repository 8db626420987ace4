// Second gradients of loops: a part of the passes gradients and autodiff. The gradient of a scan carries its cotangents
// in one buffer that each step overwrites. To go through it once more their values before each step are needed, so the
// tied carries become stacked ones, a row per step, as the frontend makes them where it trains.
#include <stdlib.h>
#include <string.h>

#include "passes/autodiff/autodiff.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "support/alloc.h"

// The step with another name and without ties.
static MlirOperation clone_step(MlirModule module, const NnScan *s) {
  MlirContext ctx = mlirOperationGetContext(s->body);
  char name[256];
  char *symbol = nn_free_symbol(module, nn_attr_str(s->body, "sym_name", name, sizeof name, "scan_body"));
  MlirOperation body = mlirOperationClone(s->body);
  nn_set_attribute(body, "sym_name", mlirStringAttrGet(ctx, nn_string_ref(symbol)));
  mlirBlockInsertOwnedOperationBefore(mlirModuleGetBody(module), s->body, body);
  MlirOperation end = nn_function_return(body);
  int n = (int)mlirOperationGetNumOperands(end);
  MlirValue *values = allocate_array((size_t)n + 1, sizeof *values);
  for (int i = 0; i < n; i++) values[i] = mlirOperationGetOperand(end, i);
  nn_function_set_results(body, n, values, 0);
  free(values);
  free(symbol);
  return body;
}

static MlirValue last_value(NnBuilder *b, MlirValue stack, const NnScan *s, NnType type) {
  return nn_reshape(b, nn_rows(b, stack, s->reverse ? 0 : s->length, 1), type.rank, type.dim);
}

bool scan_stack(MlirModule module, MlirOperation call) {
  NnScan s;
  if (!nn_scan_called(module, call, &s) || s.n_tied == 0) return false;
  for (int i = 0; i < s.n_tied; i++) {
    if (nn_value_type(mlirOperationGetResult(call, s.n_stacked + i)).rank < NN_MAX_RANK) continue;
    nn_error(call, "a second gradient keeps what this loop carries, of all steps, and tensors have at most %d axes",
             NN_MAX_RANK);
    return false;
  }
  int n = (int)mlirOperationGetNumOperands(call), n_results = (int)mlirOperationGetNumResults(call),
      first = s.n_stacked, end = first + s.n_tied;
  MlirValue *operands = allocate_array((size_t)(n + n_results) + 1, sizeof *operands), *results = operands + n;
  for (int i = 0; i < n; i++) operands[i] = mlirOperationGetOperand(call, i);
  NnBuilder b = rewrite_builder(call);
  s.body = clone_step(module, &s);
  s.n_stacked += s.n_tied;
  s.n_tied = 0;
  char *symbol = nn_string_copy(nn_callee_name(call)), *name = nn_free_symbol(module, symbol);
  MlirOperation stacked = nn_scan_build(&b, module, name, &s, operands);
  for (int r = 0; r < n_results; r++) {
    results[r] = mlirOperationGetResult(stacked, r);
    if (r >= first && r < end)
      results[r] = last_value(&b, results[r], &s, nn_value_type(mlirOperationGetResult(call, r)));
  }
  rewrite_replace(call, results);
  free(name);
  free(symbol);
  free(operands);
  return true;
}

void scan_prepare(MlirModule module, MlirBlock block) {
  int n;
  MlirOperation *ops = rewrite_ops(block, &n);
  for (int i = 0; i < n; i++) {
    MlirValue results[NN_MAX_RESULTS];
    if (nn_op_of(ops[i]) == NN_OP_NONE) {
      if (nn_has_attr(ops[i], ATTR_scan)) scan_stack(module, ops[i]);
      continue;
    }
    NnBuilder b = rewrite_builder(ops[i]);
    if (nn_expand_differentiable(&b, ops[i], results)) rewrite_replace(ops[i], results);
  }
  free(ops);
}
