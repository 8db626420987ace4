// Fourier transforms that the target has no loops for become products. Before autodiff, which then differentiates
// products.
#include <stdlib.h>
#include <string.h>

#include "passes/passes.h"
#include "passes/rewrite.h"

static void expand_block(MlirBlock block, const NnTarget *target) {
  int n;
  MlirOperation *ops = rewrite_ops(block, &n);
  for (int i = 0; i < n; i++) {
    if (nn_op_of(ops[i]) != NN_OP_fourier) continue;
    NnDtype dtype = nn_value_dtype(mlirOperationGetResult(ops[i], 0));
    if (target && target->fourier_ok && target->fourier_ok(nn_attr_i64(ops[i], "length", 0), dtype)) continue;
    MlirValue result;
    NnBuilder b = rewrite_builder(ops[i]);
    nn_expand(&b, ops[i], &result);
    rewrite_replace(ops[i], &result);
  }
  free(ops);
}

// Requires: nothing. keep=none: whatever the target has.
// Establishes: only transforms that the target has loops for, in public functions and steps of scans.
// Breaks: nothing.
bool nn_pass_fourier(MlirModule module, const NnPassRun *run) {
  const NnTarget *target = strcmp(nn_pass_option(run, "keep", "target"), "none") ? run->target : NULL;
  NN_FOREACH_OP (op, mlirModuleGetBody(module))
    if (nn_is(op, "func.func") && !mlirBlockIsNull(nn_function_body(op))) expand_block(nn_function_body(op), target);
  return true;
}
