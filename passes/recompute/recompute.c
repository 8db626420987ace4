// The pass `recompute`: between the forward and the backward pass only a minimum cut is kept. A cheap value (an
// activation function, a normalised value, a dropout mask, a cast) that backward ops read is computed again from what
// is kept, inside the kernels that need it; what a library op reads is one more result of such a kernel. Costs no step
// and no budget.
//
// Keeping a value costs its bytes, computing it again nothing, so the values to keep are a minimum vertex cut between
// what only an expensive op can make and what the backward pass reads (He & Yu, Transcending runtime-memory tradeoffs
// in checkpointing by being fusion aware, MLSys 2023).
#include "passes/recompute/recompute.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passes/passes.h"
#include "passes/plan/plan.h"
#include "passes/rewrite.h"
#include "support/alloc.h"

// What a kernel may do to compute one value again: ops, values it reads (large ones and any), and work in bytes of
// traffic (nn_op_traffic).
enum { MAX_OPS = 48, MAX_LEAVES = 12, MAX_LARGE = 2, MAX_WORK = 16 };

typedef struct Cone {
  bool over;   // beyond the limits: what reads the value is kept in its place
  int n_ops, n_leaves;
  int ops[MAX_OPS], leaves[MAX_LEAVES];   // values, each once
} Cone;

typedef struct Recompute {
  RecomputeGraph g;
  bool *again;                  // Owned, per value: computed again for the backward pass
  MlirValue *inside, *stored;   // Owned, per value: its clones; null: none yet
  RecomputePart *part;          // Owned, per value
} Recompute;

// ---------------------------------------------------------------------------------------------------------------------
// The cut

// Sixteenths of bytes: one more where the forward pass would have to write a value that it only needs inside a kernel.
static int64_t keeping_costs(const RecomputeGraph *g, int id) {
  const RecomputeValue *v = &g->values[id];
  bool broadcast = v->def >= 0 && g->kind[v->def] == NN_OP_broadcast;   // never stored: its operand is
  return broadcast ? RECOMPUTE_INFINITE : v->bytes * (v->in_memory ? 16 : 17);
}

static void cut(Recompute *r) {
  const RecomputeGraph *g = &r->g;
  size_t n = (size_t)g->n_values, n_edges = (size_t)g->first_operand[g->n_ops];
  int64_t *capacity = allocate_array(n, sizeof *capacity);
  bool *source = allocate_array(n, sizeof *source), *sink = allocate_array(n, sizeof *sink);
  int *from = allocate_array(n_edges, sizeof *from), *to = allocate_array(n_edges, sizeof *to), used = 0;
  for (int id = 0; id < g->n_values; id++) {
    const RecomputeValue *v = &g->values[id];
    if (v->available || (v->def >= 0 && g->backward[v->def])) continue;
    capacity[id] = keeping_costs(g, id);
    source[id] = !v->recomputable;
    sink[id] = v->read_inside || v->read_stored;
    if (!v->recomputable) continue;
    for (int j = g->first_operand[v->def]; j < g->first_operand[v->def + 1]; j++)
      if (!g->values[g->operands[j]].available) from[used] = g->operands[j], to[used++] = id;
  }
  recompute_min_cut(&(RecomputeNetwork){g->n_values, capacity, source, sink, used, from, to}, r->again);
  free(capacity);
  free(source);
  free(sink);
  free(from);
  free(to);
}

// ---------------------------------------------------------------------------------------------------------------------
// Limits: a value whose recomputation would be long, or would read more large values than it replaces, is kept after
// all.

static bool add_once(int *list, int *n, int max, int item) {
  for (int i = 0; i < *n; i++)
    if (list[i] == item) return true;
  if (*n == max) return false;
  list[(*n)++] = item;
  return true;
}

static bool cone_of(const Recompute *r, const Cone *cones, int id, Cone *cone) {
  const RecomputeGraph *g = &r->g;
  int def = g->values[id].def;
  *cone = (Cone){.n_ops = 1, .ops = {id}};
  for (int j = g->first_operand[def]; j < g->first_operand[def + 1]; j++) {
    int x = g->operands[j];
    const RecomputeValue *v = &g->values[x];
    if (v->source_only) continue;
    if (!r->again[x] || v->library) {
      if (!add_once(cone->leaves, &cone->n_leaves, MAX_LEAVES, x)) return false;
      continue;
    }
    if (cones[x].over) return false;
    for (int i = 0; i < cones[x].n_ops; i++)
      if (!add_once(cone->ops, &cone->n_ops, MAX_OPS, cones[x].ops[i])) return false;
    for (int i = 0; i < cones[x].n_leaves; i++)
      if (!add_once(cone->leaves, &cone->n_leaves, MAX_LEAVES, cones[x].leaves[i])) return false;
  }
  int large = 0;
  double work = 0;
  for (int i = 0; i < cone->n_leaves; i++) large += 2 * g->values[cone->leaves[i]].elements > g->values[id].elements;
  for (int i = 0; i < cone->n_ops; i++) work += nn_op_traffic(g->kind[g->values[cone->ops[i]].def]);
  return large <= MAX_LARGE && work <= MAX_WORK;
}

// The only reader that matters of each value, a recomputed one: its number; -1: none, or several.
static int *only_readers(const Recompute *r) {
  const RecomputeGraph *g = &r->g;
  int *reader = allocate_array((size_t)g->n_values, sizeof *reader);
  for (int id = 0; id < g->n_values; id++) reader[id] = -1;
  for (int id = g->n_args; id < g->n_values; id++) {
    if (!r->again[id]) continue;
    int def = g->values[id].def;
    for (int j = g->first_operand[def]; j < g->first_operand[def + 1]; j++) {
      int *x = &reader[g->operands[j]];
      *x = *x == -1 || *x == id ? id : -2;
    }
  }
  for (int id = 0; id < g->n_values; id++) {
    const RecomputeValue *v = &g->values[id];
    if (reader[id] < 0 || v->read_inside || v->read_stored || g->values[reader[id]].bytes > v->bytes) reader[id] = -1;
  }
  return reader;
}

// What is too long to compute again is kept, or rather what is computed from it alone: that is more often in memory
// anyway.
static void limit(Recompute *r) {
  Cone *cones = allocate_array((size_t)r->g.n_values, sizeof *cones);
  int *reader = only_readers(r);
  for (int id = r->g.n_args; id < r->g.n_values; id++) {
    if (!r->again[id] || r->g.values[id].library || cone_of(r, cones, id, &cones[id])) continue;
    if (reader[id] >= 0) cones[id].over = true;
    else r->again[id] = false;
  }
  free(reader);
  free(cones);
}

// ---------------------------------------------------------------------------------------------------------------------
// Clones

static MlirValue clone(Recompute *r, int id, bool stored, MlirOperation before);

static void name_of(const RecomputeGraph *g, int id, char *buf, size_t size) {
  int def = g->values[id].def;
  snprintf(buf, size, "%s.%d", nn_op_info(g->kind[def])->name, def);
}

// The value for a backward op to read in place of value `id`: itself, or what computes it again before the op `before`.
// A library op reads memory, so it gets an op of its own (nn.stored), which fuse turns into a result of a kernel.
static MlirValue make_clone(Recompute *r, int id, bool stored, MlirOperation before) {
  RecomputeGraph *g = &r->g;
  const RecomputeValue *v = &g->values[id];
  MlirOperation copy = mlirOperationClone(g->ops[v->def]);
  char name[64];
  bool alias = v->root != id;
  int first = g->first_operand[v->def], end = g->first_operand[v->def + 1];
  for (int j = first; j < end; j++) mlirOperationSetOperand(copy, j - first, clone(r, g->operands[j], alias, before));
  mlirBlockInsertOwnedOperationBefore(nn_function_body(g->func), before, copy);
  nn_set_attr(copy, &NN_STR(ATTR_phase, "backward"));
  name_of(g, id, name, sizeof name);
  if (!alias) nn_set_attr(copy, &NN_STR(ATTR_recompute, name));
  if (!alias && stored) nn_set_unit(copy, ATTR_stored);
  return mlirOperationGetResult(copy, 0);
}

// A kept value where it lies in another one: a slice, which fuse computes in every kernel that reads it.
static MlirValue read_part(const RecomputeGraph *g, int id, const RecomputePart *part, MlirOperation before) {
  const RecomputeValue *v = &g->values[id], *whole = &g->values[part->whole];
  int64_t starts[NN_MAX_RANK] = {0};
  char name[64];
  NnBuilder b = nn_builder_before(before);
  b.phase = "backward";
  starts[part->axis] = part->start;
  MlirValue slice = nn_slice(&b, whole->value, starts, nn_type_of(v->value)->dim, NULL);
  name_of(g, id, name, sizeof name);
  nn_set_attr(mlirOpResultGetOwner(slice), &NN_STR(ATTR_recompute, name));
  return slice;
}

static MlirValue clone(Recompute *r, int id, bool stored, MlirOperation before) {
  const RecomputeValue *v = &r->g.values[id];
  bool part = r->part[id].whole >= 0;
  if (!r->again[v->root] && !part) return v->value;
  MlirValue *memo = stored || v->library ? &r->stored[id] : &r->inside[id];
  if (nn_value_is_null(*memo))
    *memo = part ? read_part(&r->g, id, &r->part[id], before) : make_clone(r, id, stored || v->library, before);
  return *memo;
}

static void rewrite(Recompute *r) {
  const RecomputeGraph *g = &r->g;
  for (int i = 0; i < g->n_ops; i++) {
    MlirOperation op = g->ops[i];
    NnOp kind = g->kind[i];
    if (!g->backward[i] || kind == NN_OP_NONE || nn_op_info(kind)->kind == NN_KIND_MARK) continue;
    for (int j = g->first_operand[i]; j < g->first_operand[i + 1]; j++) {
      int x = g->operands[j];
      MlirValue y = clone(r, x, !recompute_reads_elements(kind), op);
      if (!mlirValueEqual(g->values[x].value, y)) mlirOperationSetOperand(op, j - g->first_operand[i], y);
    }
  }
}

static bool has_backward_pass(MlirOperation func) {
  MlirOperation op = mlirBlockGetFirstOperation(nn_function_body(func));
  while (!mlirOperationIsNull(op) && rewrite_phase_rank(rewrite_phase(op)) != 1) op = mlirOperationGetNextInBlock(op);
  return !mlirOperationIsNull(op);
}

static void recompute_function(MlirOperation func, RecomputeMode mode) {
  if (!has_backward_pass(func)) return;
  Recompute r = {0};
  recompute_graph_build(&r.g, func, mode);
  int64_t before = recompute_crossing_bytes(&r.g, NULL, NULL, true);
  if (before == 0) {
    recompute_graph_free(&r.g);
    return;
  }
  recompute_graph_classify(&r.g);
  r.again = allocate_array((size_t)r.g.n_values, sizeof *r.again);
  r.inside = allocate_array((size_t)r.g.n_values, sizeof *r.inside);
  r.stored = allocate_array((size_t)r.g.n_values, sizeof *r.stored);
  r.part = allocate_array((size_t)r.g.n_values, sizeof *r.part);
  if (mode != RECOMPUTE_NONE) {
    cut(&r);
    limit(&r);
    recompute_find_parts(&r.g, r.again, r.part);
    rewrite(&r);
    rewrite_erase_dead(nn_function_body(func));
  }
  int64_t after = recompute_crossing_bytes(&r.g, r.again, mode != RECOMPUTE_NONE ? r.part : NULL, false);
  nn_set_attr(func, &NN_I64(ATTR_checkpoint_kept, after));
  // less: a mean kept beside what it centres
  nn_set_attr(func, &NN_I64(ATTR_checkpoint_saved, before > after ? before - after : 0));
  free(r.again);
  free(r.inside);
  free(r.stored);
  free(r.part);
  recompute_graph_free(&r.g);
}

// Requires: no COMPOSITE ops; phases on the ops of a public function, all in its entry block.
// Establishes: backward ops read kept values, and slices and clones of such (nn.phase "backward", nn.recompute) only;
// nn.checkpoint_saved and nn.checkpoint_kept on each function with a backward pass. Breaks: nothing. A later `simplify`
// leaves slices and clones alone: they differ from the originals in nn.recompute.
bool nn_pass_recompute(MlirModule module, const NnPassRun *run) {
  const char *text = nn_pass_option(run, "mode", "all");
  RecomputeMode mode = !strcmp(text, "none")      ? RECOMPUTE_NONE
                       : !strcmp(text, "kernels") ? RECOMPUTE_KERNELS
                                                  : RECOMPUTE_ALL;
  NnFunctions functions = nn_public_functions(module);
  for (int f = 0; f < functions.n; f++) recompute_function(functions.items[f], mode);
  return true;
}
