// The pass `fuse`: maps, views and reductions of each public function become kernels, private functions that are
// called. What is left in a public function is a list of steps: calls, library ops, aliases and marks. The aim is the
// least memory traffic: a value that only its own kernel needs never exists in memory, and one that is cheaper to
// compute again than to store is computed again.
//
// fuse_graph.c tells how the graph is seen, fuse_group.c which ops share a kernel, fuse_emit.c how kernels are written.
#include <string.h>

#include "passes/fuse/fuse.h"
#include "passes/passes.h"
#include "passes/plan/plan.h"

static int argument_of(MlirValue v) {
  while (!mlirValueIsABlockArgument(v)) {
    MlirOperation op = nn_value_def(v);
    if (!nn_is_alias(op)) return -1;
    v = mlirOperationGetOperand(op, 0);
  }
  return (int)mlirBlockArgumentGetArgNumber(v);
}

// An update that is the value another argument had (`update last = w`) is copied before that argument is overwritten.
static void copy_kept(MlirOperation func) {
  MlirOperation ret = nn_function_return(func);
  int n = nn_function_n_results(func);
  for (int r = 0; r < n; r++) {
    int64_t tied = nn_result_i64(func, r, ATTR_tied, -1);
    MlirValue v = mlirOperationGetOperand(ret, r);
    int arg = tied < 0 ? -1 : argument_of(v);
    bool overwritten = false;
    for (int k = 0; k < n && arg >= 0 && arg != tied; k++) overwritten |= nn_result_i64(func, k, ATTR_tied, -1) == arg;
    if (!overwritten) continue;
    NnBuilder b = nn_builder_before(ret);
    mlirOperationSetOperand(ret, r, mlirOperationGetResult(nn_build(&b, NN_OP_copy, 1, &v, 0, NULL, NULL), 0));
  }
}

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
    ok = fuse_graph_build(&g, func, alone, run->target && run->target->groups_updates);
    if (ok) {
      if (!alone) fuse_groups_merge(&g);
      if (!alone) fuse_choose_inlined(&g);
      fuse_emit(&g, kernels);
    }
    fuse_graph_free(&g);
  }
  fuse_kernels_destroy(kernels);
  NnFunctions functions = nn_public_functions(module);
  for (int f = 0; ok && f < functions.n; f++) copy_kept(functions.items[f]);
  return ok;
}
