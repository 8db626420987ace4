// Composites (softmax, layernorm, batchnorm, cross_entropy …) become the maps and reductions of their table row, so that `fuse` can join them
// with what stands around them. Their gradients were taken as a whole before, from compact rules.
//
// Requires: nothing. Establishes: no COMPOSITE op is left. Breaks: sharing of subexpressions (simplify restores it).
#include <stdlib.h>

#include "passes/passes.h"
#include "passes/rewrite.h"

static void decompose_function(MlirOperation func)
{
  int n;
  MlirOperation *ops = rewrite_ops(nn_function_body(func), &n);
  for (int i = 0; i < n; i++) {
    NnOp op = nn_op_of(ops[i]);
    if (op == NN_OP_NONE || nn_op_info(op)->kind != NN_KIND_COMPOSITE) continue;
    MlirValue results[NN_MAX_RESULTS];
    NnBuilder b = rewrite_builder(ops[i]);
    nn_expand(&b, ops[i], results);
    rewrite_replace(ops[i], results);
  }
  free(ops);
}

bool nn_pass_decompose(MlirModule module, const NnPassRun *run)
{
  (void)run;
  MlirBlock block = mlirModuleGetBody(module);
  for (MlirOperation op = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    if (nn_is(op, "func.func") && !rewrite_is_private(op)) decompose_function(op);
  return true;
}
