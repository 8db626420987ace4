// Composites (softmax, layernorm, batchnorm, cross_entropy …) become the maps and reductions they stand for, through
// the expansion of their row in the table of ops. After autodiff, because their gradients are written for the whole op.
#include <stdlib.h>

#include "passes/passes.h"
#include "passes/rewrite.h"

static void decompose_block(MlirBlock block) {
  int n;
  MlirOperation *ops = rewrite_ops(block, &n);
  for (int i = 0; i < n; i++) {
    NnOp kind = nn_op_of(ops[i]);
    if (kind == NN_OP_NONE || nn_op_info(kind)->kind != NN_KIND_COMPOSITE) continue;
    MlirValue results[NN_MAX_RESULTS];
    NnBuilder b = rewrite_builder(ops[i]);
    nn_expand(&b, ops[i], results);
    rewrite_replace(ops[i], results);
  }
  free(ops);
}

// Requires: nothing.
// Establishes: no composite in any public function; what they expand to has their location and phase.
// Breaks: nothing. Leaves results that nobody reads (a batch variance in @eval, say) for simplify to remove.
bool nn_pass_decompose(MlirModule module, const NnPassRun *run) {
  (void)run;
  NN_FOREACH_OP (op, mlirModuleGetBody(module))
    if (nn_is(op, "func.func") && !rewrite_is_private(op) && !mlirBlockIsNull(nn_function_body(op)))
      decompose_block(nn_function_body(op));
  return true;
}
