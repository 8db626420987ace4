// The pass `hoist`: a cast of what stays the same through all steps of a loop, such as that of a weight, leaves the
// loop where library ops alone read it: one kernel in place of one per step. Others become part of the kernels that
// read them, and cost nothing there.
#include <stdlib.h>

#include "passes/passes.h"
#include "passes/rewrite.h"
#include "support/alloc.h"

static int first_invariant(const NnScan *s) { return s->n_slices + s->n_stacked + s->n_tied; }

static bool is_invariant(const NnScan *s, MlirValue v) {
  return mlirValueIsABlockArgument(v) && nn_value_index(v) >= first_invariant(s);
}

static bool feeds_library_only(MlirValue v) {
  bool any = false;
  NN_FOREACH_USE (use, v) {
    NnOp user = nn_op_of(mlirOpOperandGetOwner(use));
    if (user == NN_OP_NONE || nn_op_info(user)->kind != NN_KIND_LIBRARY) return false;
    any = true;
  }
  return any;
}

// The first cast of the step that can leave it; null: none can.
static MlirOperation find_cast(const NnScan *s) {
  NN_FOREACH_OP (op, nn_function_body(s->body))
    if (nn_op_of(op) == NN_OP_cast && is_invariant(s, nn_operand(op, 0)) &&
        feeds_library_only(mlirOperationGetResult(op, 0)))
      return op;
  return nn_null_operation();
}

// The call again, as the step and its arguments are now: under the same name, which the loop's gradient refers to.
static MlirOperation rebuild(MlirModule module, MlirOperation call, const NnScan *s, const MlirValue *operands) {
  MlirAttribute callee = nn_attribute(call, "callee"), forward = nn_attribute(call, ATTR_forward);
  char *name = copy_string(mlirFlatSymbolRefAttrGetValue(callee).data);
  mlirOperationDestroy(nn_module_function(module, name));
  NnBuilder b = rewrite_builder(call);
  MlirOperation made = nn_scan_build(&b, module, name, s, operands);
  if (!mlirAttributeIsNull(forward)) nn_set_attribute(made, ATTR_forward, forward);
  int n = (int)mlirOperationGetNumResults(made);
  MlirValue *results = allocate_array((size_t)n + 1, sizeof *results);
  for (int r = 0; r < n; r++) results[r] = mlirOperationGetResult(made, r);
  rewrite_replace(call, results);
  free(results);
  free(name);
  return made;
}

// Moves the cast in front of the call. Its result is an invariant; its operand no more, where nothing else reads it.
static MlirOperation move_out(MlirModule module, MlirOperation call, NnScan *s, MlirOperation cast) {
  MlirValue inside = mlirOperationGetResult(cast, 0), source = nn_operand(cast, 0);
  int at = nn_value_index(source), n = first_invariant(s) + s->n_invariants, kept = 0;
  MlirValue *operands = allocate_array((size_t)n + 1, sizeof *operands);
  NnBuilder b = rewrite_builder(call);
  MlirValue outside = nn_cast(&b, mlirOperationGetOperand(call, at), nn_value_dtype(inside));
  mlirValueReplaceAllUsesOfWith(inside, nn_function_add_arg(s->body, nn_value_type(inside),
                                                            mlirOperationGetLocation(s->body), 0, NULL));
  mlirOperationDestroy(cast);
  bool unread = mlirOpOperandIsNull(mlirValueGetFirstUse(source));
  for (int i = 0; i < n; i++)
    if (!unread || i != at) operands[kept++] = mlirOperationGetOperand(call, i);
  operands[kept++] = outside;
  if (unread) nn_function_remove_arg(s->body, at);
  s->n_invariants = kept - first_invariant(s);
  call = rebuild(module, call, s, operands);
  free(operands);
  return call;
}

static int count_calls(MlirModule module, MlirOperation call) {
  int n = 0;
  MlirAttribute callee = nn_attribute(call, "callee");
  NN_FOREACH_OP (func, mlirModuleGetBody(module)) {
    if (rewrite_is_private(func)) continue;
    NN_FOREACH_OP (op, nn_function_body(func))
      n += nn_has_attr(op, ATTR_scan) && mlirAttributeEqual(nn_attribute(op, "callee"), callee);
  }
  return n;
}

static void hoist_function(MlirModule module, MlirOperation func) {
  int n;
  MlirOperation *ops = rewrite_ops(nn_function_body(func), &n);
  for (int i = 0; i < n; i++) {
    NnScan s;
    MlirOperation call = ops[i], cast;
    if (!nn_scan_of(call, &s) || count_calls(module, call) > 1) continue;
    hoist_function(module, s.body);   // of an inner loop first: what leaves it may leave this one, too
    while (!mlirOperationIsNull(cast = find_cast(&s))) call = move_out(module, call, &s, cast);
  }
  free(ops);
}

// Requires: gradients are there (autodiff): the gradient of what is cast is then that of the wide tensor. Establishes:
// no step of a loop casts an invariant that library ops alone read. Breaks: nothing.
bool nn_pass_hoist(MlirModule module, const NnPassRun *run) {
  (void)run;
  NnFunctions functions = nn_public_functions(module);
  for (int f = 0; f < functions.n; f++) hoist_function(module, functions.items[f]);
  return true;
}
