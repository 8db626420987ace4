// The pass `scan`: one step of each scan gets an order, shared buffers and offsets of its own, once, however many steps
// run. What it needs is the workspace of the loop; where its arguments are is said by the call. So everything after
// this sees a loop as one step.

#include "passes/plan/plan.h"

// Every result is written to an argument: a carried value to its own, what is stacked to a new one, the row of the
// step.
static void add_rows(const NnScan *s) {
  MlirLocation loc = mlirOperationGetLocation(s->body);
  MlirOperation end = nn_function_return(s->body);
  for (int r = 0; r < nn_function_n_results(s->body); r++) {
    if (r >= s->n_stacked && r < s->n_stacked + s->n_tied) continue;
    int arg = nn_function_n_args(s->body);
    nn_function_add_arg(s->body, nn_value_type(mlirOperationGetOperand(end, r)), loc, 0, NULL);
    nn_set_result_attr(s->body, r, &NN_I64(ATTR_tied, arg));
  }
  for (int a = 0; a < nn_function_n_args(s->body); a++) nn_set_arg_attr(s->body, a, &NN_STR(ATTR_role, "state"));
}

// Products of the step whose second operand comes from outside of the loop.
static void mark_packed(const NnScan *s, const NnTarget *target) {
  if (!target || !target->packs_once) return;
  NN_FOREACH_OP (op, nn_function_body(s->body)) {
    MlirValue b = mlirOperationGetNumOperands(op) > 1 ? nn_operand(op, 1) : nn_null_value();
    bool outside = nn_op_of(op) == NN_OP_matmul && mlirValueIsABlockArgument(b) &&
                   nn_value_index(b) >= s->n_slices + s->n_stacked + s->n_tied;
    if (outside && target->packs_once(target, op)) nn_set_unit(op, ATTR_packs_once);
  }
}

// Those inside of the step first: what they need is a workspace in it.
void plan_scan(MlirModule module, const NnScan *scan, const NnTarget *target) {
  if (nn_has_attr(scan->body, ATTR_arena)) return;
  NnStepList steps = nn_flatten(scan->body);
  for (int i = 0; i < steps.n; i++) {
    NnScan inside;
    if (steps.items[i].role == NN_STEP_RUN && nn_scan_of(steps.items[i].op, &inside))
      plan_scan(module, &inside, target);
  }
  nn_steps_free(&steps);
  mark_packed(scan, target);
  add_rows(scan);
  schedule_function(module, scan->body, target);
  inplace_function(module, scan->body, target);
  plan_scan_body(module, scan->body, target);
}

// Requires: kernels (fuse).
// Establishes: on the body of each scan docs/internals.md, "Scans": arguments for what is stacked, nn.tied on all
// results, a plan of its own; nn.packs_once on products where the target gains by it. Breaks: nothing. The step of a
// scan is final.
bool nn_pass_scan(MlirModule module, const NnPassRun *run) {
  NN_FOREACH_OP (op, mlirModuleGetBody(module)) {
    NnScan scan;
    if (nn_is(op, "func.func") && nn_scan_of(op, &scan)) plan_scan(module, &scan, run->target);
  }
  return true;
}
