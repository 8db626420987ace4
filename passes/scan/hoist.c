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

// Library ops alone read it, in the steps of loops within as well.
static bool feeds_library_only(MlirValue v) {
  bool any = false;
  NN_FOREACH_USE (use, v) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    NnScan s;
    if (nn_scan_of(user, &s)) {
      int at = (int)mlirOpOperandGetOperandNumber(use);
      if (at < first_invariant(&s) || !feeds_library_only(mlirBlockGetArgument(nn_function_body(s.body), at)))
        return false;
    } else if (nn_op_of(user) == NN_OP_NONE || nn_op_info(nn_op_of(user))->kind != NN_KIND_LIBRARY) {
      return false;
    }
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

// The calls of loops that have this step: a loop whose length has no divisor is two. Owned: free().
static MlirOperation *find_calls(MlirModule module, MlirOperation body, int *n) {
  MlirOperation *calls = NULL;
  NnScan s;
  bool casts = false;
  NN_FOREACH_OP (op, nn_function_body(body)) casts |= nn_op_of(op) == NN_OP_cast;
  *n = 0;
  if (!casts) return NULL;   // nothing to be moved: no look at the whole module for each loop
  NN_FOREACH_OP (func, mlirModuleGetBody(module)) {
    if (rewrite_is_private(func)) continue;
    NN_FOREACH_OP (op, nn_function_body(func))
      if (nn_scan_of(op, &s) && mlirOperationEqual(s.body, body)) *ARRAY_ADD(calls, *n) = op;
  }
  return calls;
}

// The call again, as the step and its arguments are now, with the attributes that others have put on it, under the same
// name, which the loop's gradient refers to.
static void rebuild(MlirModule module, MlirOperation call, const NnScan *s, const MlirValue *operands) {
  char *name = copy_string(mlirFlatSymbolRefAttrGetValue(nn_attribute(call, "callee")).data);
  mlirOperationDestroy(nn_module_function(module, name));
  NnBuilder b = rewrite_builder(call);
  MlirOperation made = nn_scan_build(&b, module, name, s, operands);
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(call); i++) {
    MlirNamedAttribute own = mlirOperationGetAttribute(call, i);
    mlirOperationSetAttributeByName(made, mlirIdentifierStr(own.name), own.attribute);
  }
  int n = (int)mlirOperationGetNumResults(made);
  MlirValue *results = allocate_array((size_t)n + 1, sizeof *results);
  for (int r = 0; r < n; r++) results[r] = mlirOperationGetResult(made, r);
  rewrite_replace(call, results);
  free(results);
  free(name);
}

// The call with argument `at` of the step cast outside, as the last invariant; `unread`: without the wide one.
static void pass_cast(MlirModule module, MlirOperation call, int at, NnDtype dtype, bool unread) {
  NnScan s;
  nn_scan_of(call, &s);
  int n = first_invariant(&s) + s.n_invariants, kept = 0;
  MlirValue *operands = allocate_array((size_t)n + 1, sizeof *operands);
  NnBuilder b = rewrite_builder(call);
  for (int i = 0; i < n; i++)
    if (!unread || i != at) operands[kept++] = mlirOperationGetOperand(call, i);
  operands[kept++] = nn_cast(&b, mlirOperationGetOperand(call, at), dtype);
  s.n_invariants = kept - first_invariant(&s);
  rebuild(module, call, &s, operands);
  free(operands);
}

// Moves a cast of the step in front of its loops. Its result is an invariant; its operand no more, where nothing else
// reads it. False: there is none.
static bool hoist_from(MlirModule module, MlirOperation body) {
  int n;
  MlirOperation *calls = find_calls(module, body, &n), cast = nn_null_operation();
  NnScan s;
  if (n > 0 && nn_scan_of(calls[0], &s)) cast = find_cast(&s);
  bool found = !mlirOperationIsNull(cast);
  if (found) {
    MlirValue inside = mlirOperationGetResult(cast, 0), source = nn_operand(cast, 0);
    int at = (int)nn_value_index(source);
    NnType type = nn_value_type(inside);
    MlirValue arg = nn_function_add_arg(body, type, mlirOperationGetLocation(body), 0, NULL);
    mlirValueReplaceAllUsesOfWith(inside, arg);
    mlirOperationDestroy(cast);
    bool unread = mlirOpOperandIsNull(mlirValueGetFirstUse(source));
    if (unread) nn_function_remove_arg(body, at);
    for (int i = 0; i < n; i++) pass_cast(module, calls[i], at, type.dtype, unread);
  }
  free(calls);
  return found;
}

// Requires: gradients are there (autodiff): the gradient of what is cast is then that of the wide tensor. Establishes:
// no step of a loop casts an invariant that library ops alone read. Breaks: nothing.
bool nn_pass_hoist(MlirModule module, const NnPassRun *run) {
  (void)run;
  for (bool found = true; found;) {   // what leaves a loop may leave one around it, too
    found = false;
    NN_FOREACH_OP (func, mlirModuleGetBody(module))
      while (nn_is_scan_body(func) && hoist_from(module, func)) found = true;
  }
  return true;
}
