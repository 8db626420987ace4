// grad(y, x) of the language: each nn.gradient becomes the ops of a backward sweep from y to x, by the same rules as
// the gradient of the loss (autodiff.c). Before all other passes, so that these see ordinary ops, and the loss is
// differentiated through them: rules are made of ops that have rules.
#include <stdlib.h>
#include <string.h>

#include "passes/autodiff/autodiff.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

static bool is_gradient_of(MlirOperation op, MlirValue y) {
  return nn_op_of(op) == NN_OP_gradient && mlirValueEqual(nn_operand(op, 0), y);
}

// Inside of a scan a step sees what it makes, its slices and carried values. That a value from outside reaches the
// carried ones by the steps before is nothing that a step can tell.
static bool is_reachable(MlirOperation func, MlirOperation mark) {
  MlirValue x = nn_operand(mark, 1);
  if (!nn_is_scan_body(func) || !mlirValueIsABlockArgument(x)) return true;
  MlirModule module = nn_module_of(func);
  NnScan s = {0};
  NN_FOREACH_OP (op, mlirModuleGetBody(module))
    if (nn_has_attr(op, ATTR_body) && nn_scan_of(op, &s) && mlirOperationEqual(s.body, func)) break;
  return nn_value_index(x) < s.n_slices + s.n_stacked + s.n_tied;
}

static bool activate(Sweep *s, MlirOperation func, MlirOperation mark) {
  MlirValue x = nn_operand(mark, 1);
  if (!sweep_is_active(s, x)) sweep_activate(s, x);
  if (is_reachable(func, mark)) return true;
  nn_error(mark, "grad inside of a scan goes by what the step makes, its slices and carried values; what comes from "
                 "outside may reach the carried values by the steps before");
  return false;
}

// From the first of the marks backwards. What `mark` reads may have been replaced by what can be differentiated.
static void sweep_back(Sweep *s, MlirBlock block, MlirOperation mark) {
  int n;
  MlirOperation *ops = rewrite_ops(block, &n);
  while (!mlirOperationEqual(ops[--n], mark)) continue;
  MlirValue y = nn_operand(mark, 0);
  sweep_contribute(s, y, nn_constant_like(&s->b, y, 1));
  for (int i = n - 1; i >= 0; i--)
    if (nn_op_of(ops[i]) != NN_OP_NONE || nn_has_attr(ops[i], ATTR_scan)) sweep_differentiate(s, ops[i]);
  free(ops);
}

// Null after reporting.
static MlirValue gradient_of(Sweep *s, MlirOperation mark) {
  MlirValue x = nn_operand(mark, 1), dx = sweep_cotangent(s, x);
  if (!nn_value_is_null(dx)) return dx;
  NnType t = nn_value_type(x);
  char text[128];
  nn_error(mark,
           "grad: what is differentiated does not depend on this %s, or only where the gradient is zero (what is taken "
           "of x once more, as x[:, 0:1], is another value)",
           nn_type_format(&t, text, sizeof text));
  return dx;
}

// The gradients of one y: marks[0 ... n - 1] stand side by side. False after reporting.
static bool resolve(MlirModule module, MlirOperation func, MlirOperation *marks, int n) {
  Sweep s = {.module = module, .func = func, .b = nn_builder_before(marks[0])};
  bool ok = true;
  s.b.phase = "forward";
  for (int i = 0; i < n; i++) ok = activate(&s, func, marks[i]) && ok;
  if (ok && sweep_mark_active(&s, nn_function_body(func), marks[0])) sweep_back(&s, nn_function_body(func), marks[0]);
  else ok = false;
  for (int i = 0; i < n; i++) {
    MlirValue dx = ok ? gradient_of(&s, marks[i]) : nn_null_value();
    if (nn_value_is_null(dx)) ok = false;
    else rewrite_replace(marks[i], &dx);
  }
  sweep_free(&s);
  return ok;
}

// In the order of the block: what a gradient goes through has been resolved before.
static bool resolve_all(MlirModule module, MlirOperation func) {
  bool ok = true;
  int n;
  MlirOperation *ops = rewrite_ops(nn_function_body(func), &n);
  int n_marks = 0;
  for (int i = 0; i < n; i++)
    if (nn_op_of(ops[i]) == NN_OP_gradient) ops[n_marks++] = ops[i];
  for (int i = 0, next; i < n_marks && ok; i = next) {
    for (next = i + 1; next < n_marks && is_gradient_of(ops[next], nn_operand(ops[i], 0)) &&
                       mlirOperationEqual(mlirOperationGetNextInBlock(ops[next - 1]), ops[next]);)
      next++;
    ok = resolve(module, func, ops + i, next - i);
  }
  free(ops);
  return ok;
}

// Requires: the module as the frontend builds it. Establishes: no nn.gradient; what computes them has the phase
// "forward". Breaks: nothing. The first mistake ends it: others may follow from it, and other functions repeat it.
bool nn_pass_gradients(MlirModule module, const NnPassRun *run) {
  (void)run;
  bool ok = true;
  int n;
  MlirOperation *functions = rewrite_ops(mlirModuleGetBody(module), &n);
  for (int bodies = 1; bodies >= 0; bodies--)   // steps of inner loops stand before those around them
    for (int i = 0; i < n && ok; i++) {
      if (!nn_is(functions[i], "func.func") || nn_has_attr(functions[i], ATTR_kernel)) continue;
      if (nn_is_scan_body(functions[i]) == (bool)bodies) ok = resolve_all(module, functions[i]);
    }
  free(functions);
  return ok;
}
