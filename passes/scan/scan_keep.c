// What of a loop's steps is kept for its gradient where there is memory for it. The gradient's step begins with the
// forward step once more; what of that is the same computation of the same values (a library op with the same nn.kept,
// a call of the same kernel on such values) may be kept instead. What the library computes is not to run again, and a
// slice of the loop that the gradient does not read need not live until then: of all sets of values that cut both off
// from what the gradient reads the smallest is kept, a minimum cut. So of x W + h U, where x W comes as a slice, the
// sum is kept and not both its terms.
#include <stdlib.h>

#include "passes/recompute/recompute.h"
#include "passes/rewrite.h"
#include "passes/scan/scan.h"
#include "support/alloc.h"

static MlirValue argument_of(MlirOperation func, int i) { return mlirBlockGetArgument(nn_function_body(func), i); }
static bool is_library(MlirOperation op) {
  return nn_op_of(op) != NN_OP_NONE && nn_op_info(nn_op_of(op))->kind == NN_KIND_LIBRARY;
}

// The values of the gradient's step, numbered: those that the forward step has, too.
typedef struct Twin {
  MlirValue back, forward;
} Twin;
typedef struct Twins {
  const ScanPair *pair;
  PtrMap ids;   // value of the gradient's step -> number
  int n;
  Twin *twin;   // Owned, per number
} Twins;

static void add_twins(Twins *t, MlirValue back, MlirValue forward) {
  ptr_map_set(&t->ids, back.ptr, t->n);
  *ARRAY_ADD(t->twin, t->n) = (Twin){back, forward};
}

// ---------------------------------------------------------------------------------------------------------------------
// The same values

// What the step's argument i is outside of both loops of the gradient; null: nothing that stays through all steps.
static MlirValue outside(const ScanPair *p, int i) {
  int first = p->b.n_slices + p->b.n_stacked + p->b.n_tied;
  if (p->b.length == p->f.length) return mlirOperationGetOperand(p->backward, i);
  MlirValue v = mlirOperationGetOperand(scan_segment_call(p), i);
  bool argument = mlirOperationIsNull(nn_value_def(v)) && nn_value_index(v) >= first;
  return argument ? mlirOperationGetOperand(p->backward, nn_value_index(v)) : nn_null_value();
}

static void match_arguments(Twins *t) {
  const ScanPair *p = t->pair;
  int n_rows = p->f.n_slices + p->f.n_stacked, first = p->steps.n_slices + p->steps.n_stacked + p->steps.n_tied;
  for (int i = 0; i < n_rows; i++) add_twins(t, argument_of(p->steps.body, i), argument_of(p->f.body, i));
  for (int i = first; i < first + p->steps.n_invariants; i++) {
    MlirValue v = outside(p, i);
    for (int k = n_rows + p->f.n_tied; !nn_value_is_null(v) && k < n_rows + p->f.n_tied + p->f.n_invariants; k++) {
      if (!mlirValueEqual(mlirOperationGetOperand(p->forward, k), v)) continue;
      add_twins(t, argument_of(p->steps.body, i), argument_of(p->f.body, k));
      break;
    }
  }
}

static bool has_all_of(MlirOperation a, MlirOperation b) {
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(a); i++) {
    MlirNamedAttribute item = mlirOperationGetAttribute(a, i);
    MlirStringRef name = mlirIdentifierStr(item.name);
    if (!nn_is_stage_attribute(name) && !mlirAttributeEqual(item.attribute, mlirOperationGetAttributeByName(b, name)))
      return false;
  }
  return true;
}

// The op of the forward step that `op` repeats on the same values; null if there is none.
static MlirOperation find_repeated(const Twins *t, MlirOperation op) {
  int n = (int)mlirOperationGetNumOperands(op),
      first = n > 0 ? ptr_map_get(&t->ids, mlirOperationGetOperand(op, 0).ptr) : -1;
  if (first < 0 || nn_has_attr(op, ATTR_scan)) return nn_null_operation();
  NN_FOREACH_USE (use, t->twin[first].forward) {
    MlirOperation other = mlirOpOperandGetOwner(use);
    bool same = mlirIdentifierEqual(mlirOperationGetName(op), mlirOperationGetName(other)) &&
                mlirOperationGetNumOperands(other) == n &&
                mlirOperationGetNumResults(other) == mlirOperationGetNumResults(op) && has_all_of(op, other) &&
                has_all_of(other, op);
    for (int i = 0; same && i < n; i++) {
      int twin = ptr_map_get(&t->ids, mlirOperationGetOperand(op, i).ptr);
      same = twin >= 0 && mlirValueEqual(t->twin[twin].forward, mlirOperationGetOperand(other, i));
    }
    for (intptr_t r = 0; same && r < mlirOperationGetNumResults(op); r++)
      same = mlirTypeEqual(mlirValueGetType(mlirOperationGetResult(op, r)),
                           mlirValueGetType(mlirOperationGetResult(other, r)));
    if (same) return other;
  }
  return nn_null_operation();
}

static bool can_be_row(MlirValue v) { return nn_value_type(v).rank + 1 < NN_MAX_RANK; }

// The library op of the forward step that has the same result; null if there is none that can be kept.
static MlirOperation find_marked(const Twins *t, MlirOperation op) {
  int64_t number = nn_attr_i64(op, ATTR_kept, -1);
  MlirOperation o = mlirBlockGetFirstOperation(nn_function_body(t->pair->f.body));
  while (number >= 0 && !mlirOperationIsNull(o) && nn_attr_i64(o, ATTR_kept, -1) != number)
    o = mlirOperationGetNextInBlock(o);
  if (number < 0 || mlirOperationIsNull(o) || mlirOperationGetNumResults(op) != 1 || mlirOperationGetNumResults(o) != 1)
    return nn_null_operation();
  NnType mine = nn_value_type(mlirOperationGetResult(op, 0)), other = nn_value_type(mlirOperationGetResult(o, 0));
  return nn_type_equal(&mine, &other) && can_be_row(mlirOperationGetResult(op, 0)) ? o : nn_null_operation();
}

static void match_ops(Twins *t) {
  NN_FOREACH_OP (op, nn_function_body(t->pair->steps.body)) {
    MlirOperation other = is_library(op) ? find_marked(t, op) : find_repeated(t, op);
    for (intptr_t r = 0; !mlirOperationIsNull(other) && r < mlirOperationGetNumResults(op); r++)
      add_twins(t, mlirOperationGetResult(op, r), mlirOperationGetResult(other, r));
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// The cut

// The rows of a slice of the forward loop live through the backward pass whatever the gradient of this loop reads.
static bool is_read_later(const ScanPair *p, MlirValue stack) {
  NN_FOREACH_USE (use, stack) {
    MlirOperation op = mlirOpOperandGetOwner(use);
    if (mlirOperationEqual(op, p->backward)) continue;
    if (nn_is_alias(op) ? is_read_later(p, mlirOperationGetResult(op, 0))
                        : rewrite_phase_rank(rewrite_phase(op)) > 0 || nn_is(op, "func.return"))
      return true;
  }
  return false;
}

static bool lives_on(const ScanPair *p, MlirValue stack) {
  MlirOperation def = nn_value_def(stack);
  for (; !mlirOperationIsNull(def) && nn_is_alias(def); def = nn_value_def(stack))
    stack = mlirOperationGetOperand(def, 0);
  return mlirOperationIsNull(def) || is_read_later(p, stack);
}

static MlirOperation step_op(const Twins *t, int v) { return nn_value_def(t->twin[v].back); }

static bool is_source(const Twins *t, int v, bool segments) {
  if (!mlirOperationIsNull(step_op(t, v))) return is_library(step_op(t, v));
  return v < t->pair->f.n_slices && !segments && !lives_on(t->pair, mlirOperationGetOperand(t->pair->forward, v));
}

// Read by what is no part of the forward step.
static bool is_sink(const Twins *t, int v) {
  NN_FOREACH_USE (use, t->twin[v].back) {
    MlirOperation op = mlirOpOperandGetOwner(use);
    if (mlirOperationGetNumResults(op) == 0 || ptr_map_get(&t->ids, mlirOperationGetResult(op, 0).ptr) < 0) return true;
  }
  return false;
}

// Edges from what a twin that is computed again is made of; to: NULL only counts.
static int find_edges(const Twins *t, int *from, int *to) {
  int n = 0;
  for (int v = 0; v < t->n; v++) {
    MlirOperation op = step_op(t, v);
    if (mlirOperationIsNull(op) || is_library(op)) continue;
    for (intptr_t k = 0; k < mlirOperationGetNumOperands(op); k++, n++) {
      if (!to) continue;
      from[n] = ptr_map_get(&t->ids, mlirOperationGetOperand(op, k).ptr);
      to[n] = v;
    }
  }
  return n;
}

static int64_t keeping_costs(const Twins *t, int v) {
  NnType type = nn_value_type(t->twin[v].back);
  MlirOperation op = step_op(t, v);
  if (mlirOperationIsNull(op)) return nn_type_bytes(&type);
  // what it is an alias of is kept
  return nn_is_alias(op) || !can_be_row(t->twin[v].back) ? RECOMPUTE_INFINITE : nn_type_bytes(&type);
}

// cut[v]: on the way from a source to a sink, and the last such value.
static void find_cut(const Twins *t, bool segments, bool *cut) {
  size_t n = (size_t)t->n;
  int n_edges = find_edges(t, NULL, NULL);
  int64_t *capacity = allocate_array(n, sizeof *capacity);
  bool *source = allocate_array(n, sizeof *source), *sink = allocate_array(n, sizeof *sink),
       *beyond = allocate_array(n, sizeof *beyond);
  int *from = allocate_array((size_t)n_edges, sizeof *from), *to = allocate_array((size_t)n_edges, sizeof *to);
  find_edges(t, from, to);
  for (int v = 0; v < t->n; v++) {
    capacity[v] = keeping_costs(t, v);
    source[v] = is_source(t, v, segments);
    sink[v] = is_sink(t, v);
  }
  recompute_min_cut(&(RecomputeNetwork){t->n, capacity, source, sink, n_edges, from, to}, beyond);
  for (int v = 0; v < t->n; v++) cut[v] = sink[v] && !beyond[v];
  for (int e = 0; e < n_edges; e++) cut[from[e]] |= !beyond[from[e]] && beyond[to[e]];
  free(capacity);
  free(source);
  free(sink);
  free(beyond);
  free(from);
  free(to);
}

ScanKept scan_find_kept(const ScanPair *p, bool segments) {
  Twins t = {.pair = p};
  match_arguments(&t);
  match_ops(&t);
  ScanKept k = {.forward = allocate_array((size_t)t.n, sizeof *k.forward),
                .back = allocate_array((size_t)t.n, sizeof *k.back)};
  bool *cut = allocate_array((size_t)t.n + 1, sizeof *cut), library = false;
  for (int v = 0; v < t.n; v++) library |= !mlirOperationIsNull(step_op(&t, v)) && is_library(step_op(&t, v));
  if (library) find_cut(&t, segments, cut);
  for (int v = 0; v < t.n; v++) {
    if (!cut[v] || mlirOperationIsNull(step_op(&t, v))) continue;
    k.forward[k.n] = t.twin[v].forward;
    k.back[k.n++] = t.twin[v].back;
  }
  ptr_map_free(&t.ids);
  free(t.twin);
  free(cut);
  return k;
}

void scan_kept_free(ScanKept *k) {
  free(k->forward);
  free(k->back);
  *k = (ScanKept){0};
}
