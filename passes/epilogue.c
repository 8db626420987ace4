// The pass `epilogue`: the kernel that goes over a convolution's result becomes part of the convolution, on targets that can compute it where the result
// is still in registers. What was written and read again in between (or at least read again) is not, and the launch is saved: normalisation and activation
// in evaluation, statistics of a batch-norm, the sums of its gradient and the mask of the activation before it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passes/passes.h"
#include "passes/plan.h"
#include "passes/ptr_map.h"
#include "passes/rewrite.h"
#include "passes/solver/error.h"

static MlirStringRef ref(const char *text) { return mlirStringRefCreateFromCString(text); }
static MlirAttribute attribute(MlirOperation op, const char *name) { return mlirOperationGetAttributeByName(op, ref(name)); }

// What has been made of a kernel and a convolution in front of it.
typedef struct Made {
  const void *callee, *attributes, *type[2];   // of the kernel's symbol; the convolution's dictionary without nn.*, its operand types
  int argument, same[2];                       // the kernel's argument that is the convolution's result; its argument that is the convolution's operand too, -1: none
  bool keeps;                                  // returns the convolution's result, too
  MlirAttribute result;                        // symbol of the function; null: the target cannot
} Made;

typedef struct Epilogue {
  MlirModule module;
  const NnTarget *target;      // Borrowed
  PtrMap functions;            // symbol -> index into function
  int n_functions; MlirOperation *function;    // Owned
  int n_made; Made *made;      // Owned
  PtrMap position;             // op of the current function -> number
  PtrMap tied;                 // value that the current function returns -> argument it overwrites
} Epilogue;

static MlirOperation callee_of(const Epilogue *e, MlirOperation call) {
  int i = nn_is(call, "func.call") ? ptr_map_get(&e->functions, attribute(call, "callee").ptr) : -1;
  return i < 0 ? nn_null_operation() : e->function[i];
}

static MlirAttribute add_function(Epilogue *e, MlirOperation func) {
  MlirAttribute symbol = mlirFlatSymbolRefAttrGet(mlirModuleGetContext(e->module), mlirStringAttrGetValue(attribute(func, "sym_name")));
  e->function = solver_reallocate(e->function, (size_t)e->n_functions + 1, sizeof *e->function);
  ptr_map_set(&e->functions, symbol.ptr, e->n_functions);
  e->function[e->n_functions++] = func;
  return symbol;
}

// ---------------------------------------------------------------------------------------------------------------------
// The function

static MlirAttribute dictionary_of(MlirOperation op) {
  MlirNamedAttribute list[16];
  int n = 0;
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op); i++) {
    MlirNamedAttribute a = mlirOperationGetAttribute(op, i);
    MlirStringRef name = mlirIdentifierStr(a.name);
    bool ours = name.length > 3 && !memcmp(name.data, "nn.", 3);
    if (!ours && n < (int)(sizeof list / sizeof *list)) list[n++] = a;
  }
  return mlirDictionaryAttrGet(mlirOperationGetContext(op), n, list);
}

static void remove_pass_attributes(MlirOperation op) {
  static const char *const names[] = {"nn.phase", "nn.recompute", "nn.stored"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) mlirOperationRemoveAttributeByName(op, ref(names[i]));
}

static void set_names(Epilogue *e, MlirOperation func, MlirOperation kernel, MlirOperation conv) {
  char name[128], label[96], text[160];
  nn_attr_str(kernel, "sym_name", name, sizeof name, "");
  snprintf(text, sizeof text, "%s_conv", name);
  char *symbol = nn_free_symbol(e->module, text);
  nn_set_attr(func, &NN_STR("sym_name", symbol));
  free(symbol);
  snprintf(text, sizeof text, "%s+%s", nn_op_info(nn_op_of(conv))->name, nn_attr_str(kernel, "nn.label", label, sizeof label, ""));
  nn_set_attr(func, &NN_STR("nn.label", text));
}

// The kernel with the convolution in front: its arguments without the one that is computed now, then the convolution's operands that it lacks.
static MlirOperation make_function(Epilogue *e, MlirOperation kernel, MlirOperation conv, const Made *m) {
  MlirOperation func = mlirOperationClone(kernel);
  set_names(e, func, kernel, conv);
  mlirBlockInsertOwnedOperationAfter(mlirModuleGetBody(e->module), kernel, func);
  MlirBlock body = nn_function_body(func);
  MlirOperation copy = mlirOperationClone(conv);
  remove_pass_attributes(copy);
  for (int i = 0; i < 2; i++) {
    MlirValue operand = m->same[i] >= 0 ? mlirBlockGetArgument(body, m->same[i]) : nn_function_add_arg(func, nn_value_type(mlirOperationGetOperand(conv, i)), mlirOperationGetLocation(conv), 0, NULL);
    mlirOperationSetOperand(copy, i, operand);
  }
  mlirBlockInsertOwnedOperation(body, 0, copy);
  MlirValue y = mlirOperationGetResult(copy, 0);
  mlirValueReplaceAllUsesOfWith(mlirBlockGetArgument(body, m->argument), y);
  nn_function_remove_arg(func, m->argument);
  if (!m->keeps) return func;
  int n = nn_function_n_results(func);
  MlirValue *results = solver_allocate((size_t)n + 1, sizeof *results);
  for (int i = 0; i < n; i++) results[i] = mlirOperationGetOperand(nn_function_return(func), i);
  results[n] = y;
  nn_function_set_results(func, n + 1, results, n);
  free(results);
  return func;
}

static bool is_equal(const Made *a, const Made *b) {
  for (int i = 0; i < 2; i++)
    if (a->type[i] != b->type[i] || a->same[i] != b->same[i]) return false;
  return a->callee == b->callee && a->attributes == b->attributes && a->argument == b->argument && a->keeps == b->keeps;
}

static MlirAttribute function_for(Epilogue *e, MlirOperation kernel, MlirOperation conv, Made *m) {
  for (int i = 0; i < e->n_made; i++)
    if (is_equal(&e->made[i], m)) return e->made[i].result;
  MlirOperation func = make_function(e, kernel, conv, m);
  if (e->target->epilogue_ok(func)) m->result = add_function(e, func);
  else mlirOperationDestroy(func);
  e->made = solver_reallocate(e->made, (size_t)e->n_made + 1, sizeof *e->made);
  e->made[e->n_made++] = *m;
  return m->result;
}

// ---------------------------------------------------------------------------------------------------------------------
// Where

static bool is_map_or_column(MlirOperation func) {
  char kind[16];
  nn_attr_str(func, "nn.kind", kind, sizeof kind, "");
  return !strcmp(kind, "map") || !strcmp(kind, "column");
}

// The first op that reads the result, if it is a call that might take it; *keeps: others read it, too.
static MlirOperation first_reader(const Epilogue *e, MlirOperation conv, bool *keeps) {
  MlirOperation first = nn_null_operation();
  int at = -1, n = 0;
  for (MlirOpOperand use = mlirValueGetFirstUse(mlirOperationGetResult(conv, 0)); !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    int position = ptr_map_get(&e->position, user.ptr);
    if (position < 0) return nn_null_operation();   // in a region
    if (at < 0 || position < at) first = user, at = position;
    n++;
  }
  *keeps = n > 1;
  return first;
}

static bool phases_fit(MlirOperation conv, MlirOperation call) {
  int a = rewrite_phase_rank(rewrite_phase(conv)), b = rewrite_phase_rank(rewrite_phase(call));
  return a == b || (a == 1 && b == 2);
}

// Nothing between the two overwrites an argument that the convolution, which is to run later, reads.
static bool can_wait(const Epilogue *e, MlirOperation conv, MlirOperation call) {
  for (MlirOperation op = mlirOperationGetNextInBlock(conv); !mlirOperationEqual(op, call); op = mlirOperationGetNextInBlock(op))
    for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++) {
      int overwritten = ptr_map_get(&e->tied, mlirOperationGetResult(op, r).ptr);
      for (int i = 0; i < 2 && overwritten >= 0; i++) {
        MlirValue v = mlirOperationGetOperand(conv, i);
        if (mlirValueIsABlockArgument(v) && nn_value_index(v) == overwritten) return false;
      }
    }
  return true;
}

static int operand_number(MlirOperation op, MlirValue v) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (mlirValueEqual(mlirOperationGetOperand(op, i), v)) return (int)i;
  return -1;
}

static void replace(Epilogue *e, MlirOperation call, MlirOperation conv, const Made *m) {
  int n = (int)mlirOperationGetNumOperands(call), n_results = (int)mlirOperationGetNumResults(call), k = 0;
  MlirValue *operands = solver_allocate((size_t)n + 2, sizeof *operands);
  MlirType *types = solver_allocate((size_t)n_results + 1, sizeof *types);
  for (int i = 0; i < n; i++)
    if (i != m->argument) operands[k++] = mlirOperationGetOperand(call, i);
  for (int i = 0; i < 2; i++)
    if (m->same[i] < 0) operands[k++] = mlirOperationGetOperand(conv, i);
  for (int r = 0; r < n_results; r++) types[r] = mlirValueGetType(mlirOperationGetResult(call, r));
  types[n_results] = mlirValueGetType(mlirOperationGetResult(conv, 0));
  MlirOperationState state = mlirOperationStateGet(ref("func.call"), mlirOperationGetLocation(call));
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(call); i++) {
    MlirNamedAttribute a = mlirOperationGetAttribute(call, i);
    mlirOperationStateAddAttributes(&state, 1, &a);
  }
  mlirOperationStateAddOperands(&state, k, operands);
  mlirOperationStateAddResults(&state, n_results + m->keeps, types);
  MlirOperation fused = mlirOperationCreate(&state);
  mlirOperationSetAttributeByName(fused, ref("callee"), m->result);
  mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(call), call, fused);
  ptr_map_set(&e->position, fused.ptr, ptr_map_get(&e->position, call.ptr));
  for (int r = 0; r < n_results; r++) {
    MlirValue old = mlirOperationGetResult(call, r), now = mlirOperationGetResult(fused, r);
    int tied = ptr_map_get(&e->tied, old.ptr);
    if (tied >= 0) ptr_map_set(&e->tied, now.ptr, tied);
    mlirValueReplaceAllUsesOfWith(old, now);
  }
  mlirOperationDestroy(call);
  if (m->keeps) mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(conv, 0), mlirOperationGetResult(fused, n_results));
  mlirOperationDestroy(conv);
  free(operands);
  free(types);
}

static void consider(Epilogue *e, MlirOperation conv) {
  MlirValue y = mlirOperationGetResult(conv, 0);
  Made m = {.attributes = dictionary_of(conv).ptr, .same = {-1, -1}};
  MlirOperation call = first_reader(e, conv, &m.keeps);
  if (mlirOperationIsNull(call)) return;
  MlirOperation kernel = callee_of(e, call);
  m.argument = operand_number(call, y);
  if (mlirOperationIsNull(kernel) || !is_map_or_column(kernel) || !phases_fit(conv, call) || !can_wait(e, conv, call)) return;
  m.callee = attribute(call, "callee").ptr;
  for (int i = 0; i < 2; i++) {
    m.type[i] = mlirValueGetType(mlirOperationGetOperand(conv, i)).ptr;
    m.same[i] = operand_number(call, mlirOperationGetOperand(conv, i));
  }
  m.result = (MlirAttribute){NULL};
  m.result = function_for(e, kernel, conv, &m);
  if (!mlirAttributeIsNull(m.result)) replace(e, call, conv, &m);
}

static void run_function(Epilogue *e, MlirOperation func) {
  int n;
  MlirOperation *ops = rewrite_ops(nn_function_body(func), &n), end = nn_function_return(func);
  ptr_map_clear(&e->position);
  ptr_map_clear(&e->tied);
  for (int i = 0; i < n; i++) ptr_map_set(&e->position, ops[i].ptr, i);
  for (int r = 0; r < nn_function_n_results(func); r++) {
    int tied = (int)nn_result_i64(func, r, "nn.tied", -1);
    if (tied >= 0) ptr_map_set(&e->tied, mlirOperationGetOperand(end, r).ptr, tied);
  }
  // From the end: a call is replaced before the convolutions in front of it are looked at.
  for (int i = n - 1; i >= 0; i--) {
    NnOp kind = nn_op_of(ops[i]);
    if (kind == NN_OP_conv2d || kind == NN_OP_conv2d_input_grad) consider(e, ops[i]);
  }
  free(ops);
}

// Kernels whose last call is gone.
static void erase_uncalled(Epilogue *e) {
  PtrMap called = {0};
  for (MlirOperation func = mlirBlockGetFirstOperation(mlirModuleGetBody(e->module)); !mlirOperationIsNull(func); func = mlirOperationGetNextInBlock(func)) {
    if (!nn_is(func, "func.func") || nn_has_attr(func, "nn.kernel")) continue;
    for (MlirOperation op = mlirBlockGetFirstOperation(nn_function_body(func)); !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
      if (nn_is(op, "func.call")) ptr_map_set(&called, attribute(op, "callee").ptr, 1);
  }
  MlirContext ctx = mlirModuleGetContext(e->module);
  for (int i = 0; i < e->n_functions; i++) {
    MlirAttribute symbol = mlirFlatSymbolRefAttrGet(ctx, mlirStringAttrGetValue(attribute(e->function[i], "sym_name")));
    if (ptr_map_get(&called, symbol.ptr) < 0) mlirOperationDestroy(e->function[i]);
  }
  ptr_map_free(&called);
}

// Requires: `fuse` has run; calls and library ops stand in the entry blocks of public functions.
// Establishes: a kernel of kind `map` or `column` may begin with a convolution whose result it goes over (docs/internals.md, Kernels).
// Breaks: nothing.
bool nn_pass_epilogue(MlirModule module, const NnPassRun *run) {
  if (!run->target || !run->target->epilogue_ok) return true;
  Epilogue e = {.module = module, .target = run->target};
  for (MlirOperation op = mlirBlockGetFirstOperation(mlirModuleGetBody(module)); !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    if (nn_is(op, "func.func") && nn_has_attr(op, "nn.kernel") && !nn_has_attr(op, "nn.body")) add_function(&e, op);
  MlirOperation functions[16];
  int n = nn_public_functions(module, functions, 16);
  for (int i = 0; i < n; i++) run_function(&e, functions[i]);
  erase_uncalled(&e);
  free(e.function);
  free(e.made);
  ptr_map_free(&e.functions);
  ptr_map_free(&e.position);
  ptr_map_free(&e.tied);
  return true;
}
