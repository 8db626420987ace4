// The pass `fuse`: maps, views and reductions of each public function become kernels, private functions that are
// called. What is left in a public function is a list of steps: calls, library ops, aliases and marks. The aim is the
// least memory traffic: a value that only its own kernel needs never exists in memory, and one that is cheaper to
// compute again than to store is computed again.
//
// fuse_graph.c tells how the graph is seen, fuse_group.c which ops share a kernel, fuse_emit.c how kernels are written.
#include <string.h>

#include "passes/fuse/fuse.h"
#include "passes/passes.h"

// Requires: no COMPOSITE ops; every op of a public function in its entry block, operands before users.
// Establishes: docs/internals.md, "Kernels". Ops keep an order that respects data and, where the order before did, lets
// every reader of an argument run before the update tied to it. Breaks: nothing.
bool nn_pass_fuse(MlirModule module, const NnPassRun *run) {
  bool alone = !strcmp(nn_pass_option(run, "mode", "all"), "none");   // each op a kernel of its own
  FuseKernels *kernels = fuse_kernels_create(module);
  bool ok = true;
  MlirOperation next;
  for (MlirOperation func = mlirBlockGetFirstOperation(mlirModuleGetBody(module)); ok && !mlirOperationIsNull(func);
       func = next) {
    next = mlirOperationGetNextInBlock(func);
    if (!nn_is(func, "func.func") || nn_has_attr(func, ATTR_kernel)) continue;
    fuse_prepare(func);
    FuseGraph g;
    ok = fuse_graph_build(&g, func, alone);
    if (ok) {
      if (!alone) fuse_groups_merge(&g);
      if (!alone) fuse_choose_inlined(&g);
      fuse_emit(&g, kernels);
    }
    fuse_graph_free(&g);
  }
  fuse_kernels_destroy(kernels);
  return ok;
}
