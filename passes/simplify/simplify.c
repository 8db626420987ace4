// Common subexpressions, dead code, constant folding and algebra on the nn dialect. MLIR's own passes leave IRDL ops
// alone (they carry no traits), so this one does it all: one forward walk per function folds and merges, repeated until
// nothing changes.
#include "passes/simplify/simplify.h"

#include <stdint.h>
#include <stdlib.h>

#include "passes/passes.h"
#include "passes/rewrite.h"
#include "support/alloc.h"
#include "support/ptr_map.h"

#define MAX_ROUNDS 10

// ---------------------------------------------------------------------------------------------------------------------
// Common subexpressions: a hash set of the ops seen so far in a block

typedef struct Seen {
  MlirOperation *slot;   // Owned; null ops are free slots
  size_t capacity;       // a power of two
  MlirIdentifier phase;
} Seen;

static uint64_t mix(uint64_t hash, const void *p) { return (hash ^ (uint64_t)(uintptr_t)p) * 0x9E3779B97F4A7C15u; }

static bool is_commutative(NnOp kind) {
  return kind == NN_OP_add || kind == NN_OP_mul || kind == NN_OP_max || kind == NN_OP_min || kind == NN_OP_and ||
         kind == NN_OP_or;
}

static uint64_t hash_of(const Seen *seen, MlirOperation op, NnOp kind) {
  uint64_t hash = mix(0x51ED270B, mlirOperationGetName(op).ptr), operands = 0;
  bool commutes = is_commutative(kind);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    const void *v = mlirOperationGetOperand(op, i).ptr;
    operands = commutes ? operands + mix(1, v) : mix(operands + 1, v);
  }
  hash ^= operands;
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    hash = mix(hash, mlirValueGetType(mlirOperationGetResult(op, i)).ptr);
  for (intptr_t i = 0, n = mlirOperationGetNumAttributes(op); i < n; i++) {
    MlirNamedAttribute a = mlirOperationGetAttribute(op, i);
    if (!mlirIdentifierEqual(a.name, seen->phase)) hash = mix(mix(hash, a.name.ptr), a.attribute.ptr);
  }
  return hash ^ hash >> 29;
}

static bool same_operands(MlirOperation x, MlirOperation y) {
  intptr_t n = mlirOperationGetNumOperands(x);
  if (n != mlirOperationGetNumOperands(y)) return false;
  bool same = true;
  for (intptr_t i = 0; i < n && same; i++)
    same = mlirValueEqual(mlirOperationGetOperand(x, i), mlirOperationGetOperand(y, i));
  if (same || n != 2 || !is_commutative(nn_op_of(x))) return same;
  return mlirValueEqual(mlirOperationGetOperand(x, 0), mlirOperationGetOperand(y, 1)) &&
         mlirValueEqual(mlirOperationGetOperand(x, 1), mlirOperationGetOperand(y, 0));
}

// Attributes are uniqued in the context and sorted by name, so that equal lists have equal handles.
static bool same_attributes(const Seen *seen, MlirOperation x, MlirOperation y) {
  intptr_t nx = mlirOperationGetNumAttributes(x), ny = mlirOperationGetNumAttributes(y), i = 0, j = 0;
  for (;;) {
    if (i < nx && mlirIdentifierEqual(mlirOperationGetAttribute(x, i).name, seen->phase)) i++;
    if (j < ny && mlirIdentifierEqual(mlirOperationGetAttribute(y, j).name, seen->phase)) j++;
    if (i == nx || j == ny) return i == nx && j == ny;
    MlirNamedAttribute a = mlirOperationGetAttribute(x, i++), b = mlirOperationGetAttribute(y, j++);
    if (!mlirIdentifierEqual(a.name, b.name) || !mlirAttributeEqual(a.attribute, b.attribute)) return false;
  }
}

static bool is_same(const Seen *seen, MlirOperation x, MlirOperation y) {
  if (!mlirIdentifierEqual(mlirOperationGetName(x), mlirOperationGetName(y)) || !same_operands(x, y)) return false;
  intptr_t n = mlirOperationGetNumResults(x);
  if (n != mlirOperationGetNumResults(y)) return false;
  for (intptr_t i = 0; i < n; i++)
    if (!mlirTypeEqual(mlirValueGetType(mlirOperationGetResult(x, i)), mlirValueGetType(mlirOperationGetResult(y, i))))
      return false;
  return same_attributes(seen, x, y);
}

// The equal op seen before, or null after remembering this one.
static MlirOperation find_or_add(Seen *seen, MlirOperation op, NnOp kind) {
  size_t at = hash_of(seen, op, kind) & (seen->capacity - 1);
  for (; !mlirOperationIsNull(seen->slot[at]); at = (at + 1) & (seen->capacity - 1))
    if (is_same(seen, seen->slot[at], op)) return seen->slot[at];
  seen->slot[at] = op;
  return nn_null_operation();
}

static void merge_into(MlirOperation first, MlirOperation op) {
  const char *phase = rewrite_phase(op), *kept = rewrite_phase(first);
  if (phase && kept && rewrite_phase_rank(phase) < rewrite_phase_rank(kept))
    nn_set_attr(first, &NN_STR(ATTR_phase, phase));
  MlirValue values[NN_MAX_RESULTS];
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) values[i] = mlirOperationGetResult(first, i);
  rewrite_replace(op, values);
}

// ---------------------------------------------------------------------------------------------------------------------

static bool fold(MlirOperation op, NnOp kind) {
  if (mlirOperationGetNumResults(op) != 1) return false;
  MlirValue value = simplify_arithmetic(op, kind);
  if (nn_value_is_null(value)) value = simplify_view(op, kind);
  if (nn_value_is_null(value)) value = simplify_loop_input(op, kind);
  if (nn_value_is_null(value)) value = simplify_attention_layout(op, kind);
  if (nn_value_is_null(value)) return false;
  rewrite_replace(op, &value);
  return true;
}

// One forward walk; returns whether anything changed. Ops that a rule builds stand before the op it replaces, so this
// walk does not see them: they may still fold or be merged, which the next round does.
static bool simplify_block(MlirBlock block) {
  int n, erased;
  MlirOperation *ops = rewrite_live_ops(block, &n, &erased);
  bool changed = erased > 0;
  MlirContext ctx = mlirOperationGetContext(mlirBlockGetParentOperation(block));
  Seen seen = {.capacity = 64, .phase = mlirIdentifierGet(ctx, nn_string_ref(ATTR_phase))};
  while (seen.capacity < 2 * (size_t)n) seen.capacity *= 2;
  seen.slot = allocate_array(seen.capacity, sizeof *seen.slot);
  for (int i = 0; i < n; i++) {
    NnOp kind = nn_op_of(ops[i]);
    if (kind == NN_OP_NONE || nn_op_info(kind)->kind == NN_KIND_MARK) continue;
    if (fold(ops[i], kind)) {
      changed = true;
      continue;
    }
    if (simplify_pool_of_relu(ops[i], kind)) changed = true;
    MlirOperation first = find_or_add(&seen, ops[i], kind);
    if (mlirOperationIsNull(first)) continue;
    merge_into(first, ops[i]);
    changed = true;
  }
  free(seen.slot);
  free(ops);
  return changed;
}

// ---------------------------------------------------------------------------------------------------------------------
// Private functions and steps of scans that nothing calls

static MlirWalkResult note_callee(MlirOperation op, void *callees) {
  MlirAttribute callee = nn_is(op, "func.call") ? nn_attribute(op, "callee") : mlirAttributeGetNull();
  // A symbol's name is a uniqued string in the context, so its address stands for it.
  if (!mlirAttributeIsNull(callee)) ptr_map_set(callees, mlirFlatSymbolRefAttrGetValue(callee).data, 1);
  MlirAttribute body = nn_attribute(op, ATTR_body);
  if (!mlirAttributeIsNull(body)) {   // a scan calls its step
    MlirAttribute symbol = mlirFlatSymbolRefAttrGet(mlirOperationGetContext(op), mlirStringAttrGetValue(body));
    ptr_map_set(callees, mlirFlatSymbolRefAttrGetValue(symbol).data, 1);
  }
  return MlirWalkResultAdvance;
}

static bool is_called(const PtrMap *callees, MlirOperation func) {
  MlirAttribute name = nn_attribute(func, "sym_name");
  MlirAttribute symbol = mlirFlatSymbolRefAttrGet(mlirOperationGetContext(func), mlirStringAttrGetValue(name));
  return ptr_map_get(callees, mlirFlatSymbolRefAttrGetValue(symbol).data) >= 0;
}

// It goes when nothing calls it.
static bool wants_caller(MlirOperation op) {
  return nn_is(op, "func.func") && (rewrite_is_private(op) || nn_is_scan_body(op));
}

void simplify_erase_uncalled(MlirModule module) {
  bool any = false;
  NN_FOREACH_OP (op, mlirModuleGetBody(module)) any |= wants_caller(op);
  for (bool changed = any; changed;) {
    changed = false;
    PtrMap callees = {0};
    mlirOperationWalk(mlirModuleGetOperation(module), note_callee, &callees, MlirWalkPreOrder);
    for (MlirOperation op = mlirBlockGetFirstOperation(mlirModuleGetBody(module)), next; !mlirOperationIsNull(op);
         op = next) {
      next = mlirOperationGetNextInBlock(op);
      if (!wants_caller(op) || is_called(&callees, op)) continue;
      mlirOperationDestroy(op);
      changed = true;
    }
    ptr_map_free(&callees);
  }
}

// Requires: nothing; runs at any point of the pipeline (recompute regions are left as they are).
// Establishes: no two equal ops in a function, no op without uses but marks, no private function without calls, no
// foldable constant. Breaks: nothing. Locations and phases stay; of merged ops the earlier phase wins. Arithmetic on
// floats is changed only where the result is the same but for the sign of a zero or, for chained constant factors, one
// rounding.
bool nn_pass_simplify(MlirModule module, const NnPassRun *run) {
  (void)run;
  NN_FOREACH_OP (op, mlirModuleGetBody(module)) {
    if (!nn_is(op, "func.func") || mlirBlockIsNull(nn_function_body(op))) continue;
    int round = 0;
    while (round < MAX_ROUNDS && simplify_block(nn_function_body(op))) round++;
    if (round == MAX_ROUNDS) rewrite_erase_dead(nn_function_body(op));
  }
  simplify_erase_uncalled(module);
  return true;
}
