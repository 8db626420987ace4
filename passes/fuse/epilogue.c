// The pass `epilogue`: the kernel that goes over a convolution's result becomes part of the convolution, on targets
// that can compute it where the result is still in registers. What was written and read again in between (or at least
// read again) is not, and the launch is saved: normalisation and activation in evaluation, statistics of a batch-norm,
// the sums of its gradient and the mask of the activation before it. Likewise the map that alone makes its first
// operand.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passes/passes.h"
#include "passes/plan/plan.h"
#include "passes/rewrite.h"
#include "support/alloc.h"
#include "support/ptr_map.h"

// What has been made of a kernel and a convolution in front of it.
typedef struct Made {
  // of the kernel's symbol; the convolution's dictionary without nn.*, its operand types
  const void *callee, *attributes, *type[2];
  // the kernel's argument that is the convolution's result; its argument that is the convolution's operand too, -1:
  // none
  int argument, same[2];
  bool keeps;             // returns the convolution's result, too
  MlirAttribute result;   // symbol of the function; null: the target cannot
} Made;

typedef struct Epilogue {
  MlirModule module;
  const NnTarget *target;   // Borrowed
  int n_made;
  Made *made;   // Owned
  int n_fed;
  struct Fed *fed;   // Owned
  PtrMap position;   // op of the current function -> number
  PtrMap tied;       // value that the current function returns -> argument it overwrites
} Epilogue;

// Of loops there is only a declaration.
static bool is_kernel(MlirOperation func) { return nn_has_attr(func, ATTR_kernel) && !nn_has_attr(func, ATTR_body); }

// The kernel that a call is of; null: it is no call, or of something else.
static MlirOperation kernel_of(MlirOperation call) {
  MlirOperation func = nn_is(call, "func.call") ? nn_callee(call) : nn_null_operation();
  return mlirOperationIsNull(func) || is_kernel(func) ? func : nn_null_operation();
}

static MlirAttribute symbol_of(MlirOperation func) {
  return mlirFlatSymbolRefAttrGet(mlirOperationGetContext(func),
                                  mlirStringAttrGetValue(nn_attribute(func, "sym_name")));
}

// ---------------------------------------------------------------------------------------------------------------------
// The function

static MlirAttribute dictionary_of(MlirOperation op) {
  MlirNamedAttribute list[16];
  int n = 0;
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op); i++) {
    MlirNamedAttribute a = mlirOperationGetAttribute(op, i);
    if (!nn_is_stage_attribute(mlirIdentifierStr(a.name)) && n < (int)(sizeof list / sizeof *list)) list[n++] = a;
  }
  return mlirDictionaryAttrGet(mlirOperationGetContext(op), n, list);
}

static void remove_pass_attributes(MlirOperation op) {
  static const char *const names[] = {ATTR_phase, ATTR_recompute, ATTR_stored};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    mlirOperationRemoveAttributeByName(op, nn_string_ref(names[i]));
}

// Named after `kernel`; its label tells of both.
static void set_names(Epilogue *e, MlirOperation func, MlirOperation kernel, const char *suffix, const char *first,
                      const char *second) {
  char name[128], text[200];
  nn_attr_str(kernel, "sym_name", name, sizeof name, "");
  snprintf(text, sizeof text, "%s%s", name, suffix);
  char *symbol = nn_free_symbol(e->module, text);
  nn_set_attr(func, &NN_STR("sym_name", symbol));
  free(symbol);
  snprintf(text, sizeof text, "%s+%s", first, second);
  nn_set_attr(func, &NN_STR(ATTR_label, text));
}

// The kernel with the convolution in front: its arguments without the one that is computed now, then the convolution's
// operands that it lacks.
static MlirOperation make_function(Epilogue *e, MlirOperation kernel, MlirOperation conv, const Made *m) {
  MlirOperation func = mlirOperationClone(kernel);
  char label[96];
  set_names(e, func, kernel, "_conv", nn_op_info(nn_op_of(conv))->name,
            nn_attr_str(kernel, ATTR_label, label, sizeof label, ""));
  mlirBlockInsertOwnedOperationAfter(mlirModuleGetBody(e->module), kernel, func);
  MlirBlock body = nn_function_body(func);
  MlirOperation copy = mlirOperationClone(conv);
  remove_pass_attributes(copy);
  for (int i = 0; i < 2; i++) {
    MlirValue operand = m->same[i] >= 0 ? mlirBlockGetArgument(body, m->same[i])
                                        : nn_function_add_arg(func, nn_value_type(mlirOperationGetOperand(conv, i)),
                                                              mlirOperationGetLocation(conv), 0, NULL);
    mlirOperationSetOperand(copy, i, operand);
  }
  mlirBlockInsertOwnedOperation(body, 0, copy);
  MlirValue y = mlirOperationGetResult(copy, 0);
  mlirValueReplaceAllUsesOfWith(mlirBlockGetArgument(body, m->argument), y);
  nn_function_remove_arg(func, m->argument);
  if (!m->keeps) return func;
  int n = nn_function_n_results(func);
  MlirValue *results = allocate_array((size_t)n + 1, sizeof *results);
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
  if (e->target->epilogue_ok(e->target, func)) m->result = symbol_of(func);
  else mlirOperationDestroy(func);
  *ARRAY_ADD(e->made, e->n_made) = *m;
  return m->result;
}

// ---------------------------------------------------------------------------------------------------------------------
// Where

static bool is_map_or_column(MlirOperation func) {
  char kind[16];
  nn_attr_str(func, ATTR_kind, kind, sizeof kind, "");
  return !strcmp(kind, "map") || !strcmp(kind, "column");
}

// The first op that reads the result, if it is a call that might take it; *keeps: others read it, too.
static MlirOperation first_reader(const Epilogue *e, MlirOperation conv, bool *keeps) {
  MlirOperation first = nn_null_operation();
  int at = -1, n = 0;
  NN_FOREACH_USE (use, mlirOperationGetResult(conv, 0)) {
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

// Nothing between the two overwrites an argument that the first, which is to run later, reads.
static bool can_wait(const Epilogue *e, MlirOperation first, MlirOperation call) {
  for (MlirOperation op = mlirOperationGetNextInBlock(first); !mlirOperationEqual(op, call);
       op = mlirOperationGetNextInBlock(op))
    for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++) {
      int overwritten = ptr_map_get(&e->tied, mlirOperationGetResult(op, r).ptr);
      for (intptr_t i = 0; i < mlirOperationGetNumOperands(first) && overwritten >= 0; i++) {
        MlirValue v = mlirOperationGetOperand(first, i);
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
  MlirValue *operands = allocate_array((size_t)n + 2, sizeof *operands);
  MlirType *types = allocate_array((size_t)n_results + 1, sizeof *types);
  for (int i = 0; i < n; i++)
    if (i != m->argument) operands[k++] = mlirOperationGetOperand(call, i);
  for (int i = 0; i < 2; i++)
    if (m->same[i] < 0) operands[k++] = mlirOperationGetOperand(conv, i);
  for (int r = 0; r < n_results; r++) types[r] = mlirValueGetType(mlirOperationGetResult(call, r));
  types[n_results] = mlirValueGetType(mlirOperationGetResult(conv, 0));
  MlirOperationState state = mlirOperationStateGet(nn_string_ref("func.call"), mlirOperationGetLocation(call));
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(call); i++) {
    MlirNamedAttribute a = mlirOperationGetAttribute(call, i);
    mlirOperationStateAddAttributes(&state, 1, &a);
  }
  mlirOperationStateAddOperands(&state, k, operands);
  mlirOperationStateAddResults(&state, n_results + m->keeps, types);
  MlirOperation fused = mlirOperationCreate(&state);
  nn_set_attribute(fused, "callee", m->result);
  mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(call), call, fused);
  ptr_map_set(&e->position, fused.ptr, ptr_map_get(&e->position, call.ptr));
  for (int r = 0; r < n_results; r++) {
    MlirValue old = mlirOperationGetResult(call, r), now = mlirOperationGetResult(fused, r);
    int tied = ptr_map_get(&e->tied, old.ptr);
    if (tied >= 0) ptr_map_set(&e->tied, now.ptr, tied);
    mlirValueReplaceAllUsesOfWith(old, now);
  }
  mlirOperationDestroy(call);
  if (m->keeps)
    mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(conv, 0), mlirOperationGetResult(fused, n_results));
  mlirOperationDestroy(conv);
  free(operands);
  free(types);
}

static void consider(Epilogue *e, MlirOperation conv) {
  MlirValue y = mlirOperationGetResult(conv, 0);
  Made m = {.attributes = dictionary_of(conv).ptr, .same = {-1, -1}};
  MlirOperation call = first_reader(e, conv, &m.keeps);
  if (mlirOperationIsNull(call)) return;
  MlirOperation kernel = kernel_of(call);
  m.argument = operand_number(call, y);
  if (mlirOperationIsNull(kernel) || !is_map_or_column(kernel) || !phases_fit(conv, call) || !can_wait(e, conv, call))
    return;
  m.callee = nn_attribute(call, "callee").ptr;
  for (int i = 0; i < 2; i++) {
    m.type[i] = mlirValueGetType(mlirOperationGetOperand(conv, i)).ptr;
    m.same[i] = operand_number(call, mlirOperationGetOperand(conv, i));
  }
  m.result = (MlirAttribute){NULL};
  m.result = function_for(e, kernel, conv, &m);
  if (!mlirAttributeIsNull(m.result)) replace(e, call, conv, &m);
}

// ---------------------------------------------------------------------------------------------------------------------
// Prologues: the map that alone makes a convolution's first operand, which nothing else reads

enum { MOST_OPERANDS = 16 };   // of such a map

// What has been made of a map in front of a convolution, or of a kernel that has one.
typedef struct Fed {
  // symbols; of a convolution by itself its dictionary and operand types
  const void *map, *callee, *attributes, *type[2];
  // operand of the call, or of the convolution, that an operand of the map is, too; -1: none
  int same[MOST_OPERANDS];
  MlirAttribute result;
} Fed;

static bool has_library_op(MlirOperation func) {
  NN_FOREACH_OP (op, nn_function_body(func))
    if (nn_op_of(op) != NN_OP_NONE && nn_op_info(nn_op_of(op))->kind == NN_KIND_LIBRARY) return true;
  return false;
}

static MlirOperation convolution_in(MlirOperation func) {
  NN_FOREACH_OP (op, nn_function_body(func))
    if (nn_op_of(op) == NN_OP_conv2d) return op;
  return nn_null_operation();
}

// The convolution by itself as a kernel.
static MlirOperation wrap(Epilogue *e, MlirOperation conv) {
  MlirLocation loc = mlirOperationGetLocation(conv);
  MlirOperation func = nn_function_create(e->module, "conv", true, loc), copy = mlirOperationClone(conv);
  remove_pass_attributes(copy);
  for (int i = 0; i < 2; i++)
    mlirOperationSetOperand(copy, i,
                            nn_function_add_arg(func, nn_value_type(mlirOperationGetOperand(conv, i)), loc, 0, NULL));
  mlirBlockAppendOwnedOperation(nn_function_body(func), copy);
  MlirValue y = mlirOperationGetResult(copy, 0);
  NnType type = nn_value_type(y);
  nn_function_set_results(func, 1, &y, 0);
  nn_set_unit(func, ATTR_kernel);
  nn_set_attr(func, &NN_STR(ATTR_kind, "map"));
  nn_set_attr(func, &NN_I64S(ATTR_domain, type.dim, type.rank));
  nn_set_attr(func, &NN_STR(ATTR_label, "conv2d"));
  return func;
}

// `func` with the body of `map` in front of its convolution; argument `at` goes, the map's that are not there come
// last.
static void put_in_front(MlirOperation func, MlirOperation map, const int *same, int at) {
  MlirBlock body = nn_function_body(func), from = nn_function_body(map);
  MlirOperation first = mlirBlockGetFirstOperation(body), end = nn_function_return(map);
  int n = 0, n_args = nn_function_n_args(map);
  PtrMap ids = {0};
  MlirValue *values = allocate_array((size_t)n_args, sizeof *values);
  for (; n < n_args; n++) {
    MlirValue arg = mlirBlockGetArgument(from, n);
    values[n] = same[n] >= 0 ? mlirBlockGetArgument(body, same[n])
                             : nn_function_add_arg(func, nn_value_type(arg), mlirOperationGetLocation(map), 0, NULL);
    ptr_map_set(&ids, arg.ptr, n);
  }
  for (MlirOperation op = mlirBlockGetFirstOperation(from); !mlirOperationEqual(op, end);
       op = mlirOperationGetNextInBlock(op)) {
    MlirOperation copy = mlirOperationClone(op);
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
      mlirOperationSetOperand(copy, i, values[ptr_map_get(&ids, mlirOperationGetOperand(op, i).ptr)]);
    mlirBlockInsertOwnedOperationBefore(body, first, copy);
    for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++) {
      values = reallocate_array(values, (size_t)n + 1, sizeof *values);
      values[n] = mlirOperationGetResult(copy, r);
      ptr_map_set(&ids, mlirOperationGetResult(op, r).ptr, n++);
    }
  }
  mlirValueReplaceAllUsesOfWith(mlirBlockGetArgument(body, at),
                                values[ptr_map_get(&ids, mlirOperationGetOperand(end, 0).ptr)]);
  nn_function_remove_arg(func, at);
  free(values);
  ptr_map_free(&ids);
}

static MlirAttribute fed_function(Epilogue *e, MlirOperation map, MlirOperation kernel, MlirOperation op, int at,
                                  Fed *f) {
  for (int i = 0; i < e->n_fed; i++) {
    f->result = e->fed[i].result;
    if (!memcmp(f, &e->fed[i], sizeof *f)) return f->result;
  }
  bool alone = mlirOperationIsNull(kernel);
  MlirOperation func = alone ? wrap(e, op) : mlirOperationClone(kernel);
  if (!alone) mlirBlockInsertOwnedOperationAfter(mlirModuleGetBody(e->module), kernel, func);
  char first[96], second[96];
  nn_attr_str(map, ATTR_label, first, sizeof first, "");
  nn_attr_str(func, ATTR_label, second, sizeof second, "");
  set_names(e, func, alone ? map : kernel, alone ? "_conv" : "_fed", first, second);
  put_in_front(func, map, f->same, at);
  f->result = (MlirAttribute){NULL};
  if (e->target->epilogue_ok(e->target, func)) f->result = symbol_of(func);
  else mlirOperationDestroy(func);
  *ARRAY_ADD(e->fed, e->n_fed) = *f;
  return f->result;
}

static void replace_fed(MlirOperation op, MlirOperation call, int at, const Fed *f) {
  int n = (int)mlirOperationGetNumOperands(op), n_results = (int)mlirOperationGetNumResults(op), k = 0;
  MlirValue *operands = allocate_array((size_t)n + MOST_OPERANDS, sizeof *operands);
  MlirType *types = allocate_array((size_t)n_results, sizeof *types);
  for (int i = 0; i < n; i++)
    if (i != at) operands[k++] = mlirOperationGetOperand(op, i);
  for (int i = 0; i < (int)mlirOperationGetNumOperands(call); i++)
    if (f->same[i] < 0) operands[k++] = mlirOperationGetOperand(call, i);
  for (int r = 0; r < n_results; r++) types[r] = mlirValueGetType(mlirOperationGetResult(op, r));
  MlirOperationState state = mlirOperationStateGet(nn_string_ref("func.call"), mlirOperationGetLocation(op));
  mlirOperationStateAddOperands(&state, k, operands);
  mlirOperationStateAddResults(&state, n_results, types);
  MlirContext ctx = mlirOperationGetContext(op);
  MlirNamedAttribute callee = nn_named(ctx, "callee", f->result);
  mlirOperationStateAddAttributes(&state, 1, &callee);
  MlirOperation fed = mlirOperationCreate(&state);
  static const char *const kept[] = {ATTR_phase, ATTR_inside};
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
    if (nn_has_attr(op, kept[i])) nn_set_attribute(fed, kept[i], nn_attribute(op, kept[i]));
  mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(op), op, fed);
  for (int r = 0; r < n_results; r++)
    mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(op, r), mlirOperationGetResult(fed, r));
  mlirOperationDestroy(op);
  mlirOperationDestroy(call);
  free(operands);
  free(types);
}

static void consider_map(Epilogue *e, MlirOperation op, MlirOperation *ops) {
  bool alone = nn_op_of(op) == NN_OP_conv2d;
  MlirOperation kernel = alone ? nn_null_operation() : kernel_of(op), conv = alone ? op
                                                                             : mlirOperationIsNull(kernel)
                                                                                 ? kernel
                                                                                 : convolution_in(kernel);
  if (mlirOperationIsNull(conv)) return;
  MlirValue own = mlirOperationGetOperand(conv, 0);
  int at = alone ? 0 : nn_value_index(own);
  if (!alone && (!mlirValueIsABlockArgument(own) || !rewrite_has_one_use(own))) return;
  MlirValue x = mlirOperationGetOperand(op, at);
  MlirOperation call = nn_value_def(x), map = mlirOperationIsNull(call) ? call : kernel_of(call);
  char kind[16];
  if (mlirOperationIsNull(map) || !rewrite_has_one_use(x) ||
      strcmp(nn_attr_str(map, ATTR_kind, kind, sizeof kind, ""), "map") != 0 || nn_function_n_results(map) != 1)
    return;
  if (has_library_op(map) || nn_function_n_args(map) > MOST_OPERANDS || nn_has_attr(call, ATTR_inside)) return;
  if (rewrite_phase_rank(rewrite_phase(call)) != rewrite_phase_rank(rewrite_phase(op)) || !can_wait(e, call, op))
    return;
  Fed f;
  memset(&f, 0, sizeof f);   // compared as bytes
  f.map = nn_attribute(call, "callee").ptr;
  f.callee = alone ? NULL : nn_attribute(op, "callee").ptr;
  if (alone) f.attributes = dictionary_of(op).ptr;
  for (int i = 0; i < 2 && alone; i++) f.type[i] = mlirValueGetType(mlirOperationGetOperand(op, i)).ptr;
  for (int i = 0; i < nn_function_n_args(map); i++) f.same[i] = operand_number(op, mlirOperationGetOperand(call, i));
  f.result = fed_function(e, map, kernel, op, at, &f);
  if (mlirAttributeIsNull(f.result)) return;
  ops[ptr_map_get(&e->position, call.ptr)] = nn_null_operation();
  replace_fed(op, call, at, &f);
}

// ---------------------------------------------------------------------------------------------------------------------

static MlirOperation *number_ops(Epilogue *e, MlirOperation func, int *n) {
  MlirOperation *ops = rewrite_ops(nn_function_body(func), n), end = nn_function_return(func);
  ptr_map_clear(&e->position);
  ptr_map_clear(&e->tied);
  for (int i = 0; i < *n; i++) ptr_map_set(&e->position, ops[i].ptr, i);
  for (int r = 0; r < nn_function_n_results(func); r++) {
    int tied = (int)nn_result_i64(func, r, ATTR_tied, -1);
    if (tied >= 0) ptr_map_set(&e->tied, mlirOperationGetOperand(end, r).ptr, tied);
  }
  return ops;
}

// From the end: a call is replaced before the ops in front of it are looked at.
static void run_function(Epilogue *e, MlirOperation func) {
  int n;
  MlirOperation *ops = number_ops(e, func, &n);
  for (int i = n - 1; i >= 0; i--) {
    NnOp kind = nn_op_of(ops[i]);
    if (kind == NN_OP_conv2d || kind == NN_OP_conv2d_input_grad) consider(e, ops[i]);
  }
  free(ops);
  // Only now: a convolution that is part of a kernel already takes its map there.
  ops = number_ops(e, func, &n);
  for (int i = n - 1; i >= 0; i--)
    if (!mlirOperationIsNull(ops[i])) consider_map(e, ops[i], ops);
  free(ops);
}

// Kernels whose last call is gone.
static void erase_uncalled(Epilogue *e) {
  PtrMap called = {0};
  NN_FOREACH_OP (func, mlirModuleGetBody(e->module)) {
    if (!nn_is(func, "func.func") || nn_has_attr(func, ATTR_kernel)) continue;
    NN_FOREACH_OP (op, nn_function_body(func))
      if (nn_is(op, "func.call")) ptr_map_set(&called, nn_attribute(op, "callee").ptr, 1);
  }
  for (MlirOperation func = mlirBlockGetFirstOperation(mlirModuleGetBody(e->module)), next; !mlirOperationIsNull(func);
       func = next) {
    next = mlirOperationGetNextInBlock(func);
    if (nn_is(func, "func.func") && is_kernel(func) && ptr_map_get(&called, symbol_of(func).ptr) < 0)
      mlirOperationDestroy(func);
  }
  ptr_map_free(&called);
}

// Requires: `fuse` has run; calls and library ops stand in the entry blocks of public functions.
// Establishes: a kernel of kind `map` or `column` may contain a convolution whose result it goes over, with a map on
// its operand in front (docs/internals.md, Kernels). Breaks: nothing.
bool nn_pass_epilogue(MlirModule module, const NnPassRun *run) {
  if (!run->target || !run->target->epilogue_ok) return true;
  Epilogue e = {.module = module, .target = run->target};
  NnFunctions functions = nn_public_functions(module);
  for (int i = 0; i < functions.n; i++) run_function(&e, functions.items[i]);
  erase_uncalled(&e);
  free(e.made);
  free(e.fed);
  ptr_map_free(&e.position);
  ptr_map_free(&e.tied);
  return true;
}
