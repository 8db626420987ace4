// The graph of the pass `recompute`: forward values, how the backward pass reads each, and what may be computed again.
#include <stdlib.h>
#include <string.h>

#include "passes/plan/plan.h"
#include "passes/recompute/recompute.h"
#include "passes/rewrite.h"
#include "support/alloc.h"

// SMALL: a value that is broadcast to something this many times larger is kept: computing it at every element would
// cost more than it saves. NEAR: how many library ops may lie between one that reads a value and the kernel that makes
// the value again: until that kernel has run the op waits, and what else it reads is kept. ANCHOR_SEARCH: ops looked at
// to find such a kernel.
enum { SMALL = 16, NEAR = 12, ANCHOR_SEARCH = 40 };

static NnOpKind kind_of(const RecomputeGraph *g, int op) {
  return g->kind[op] == NN_OP_NONE ? NN_KIND_LIBRARY : nn_op_info(g->kind[op])->kind;
}

static bool is_backward(MlirOperation op) { return rewrite_phase_rank(rewrite_phase(op)) > 0; }

bool recompute_reads_elements(NnOp op) {
  return op != NN_OP_NONE && (nn_op_info(op)->kind == NN_KIND_MAP || nn_op_info(op)->kind == NN_KIND_REDUCE);
}

// ---------------------------------------------------------------------------------------------------------------------
// Values

static int add_value(RecomputeGraph *g, MlirValue v, int def) {
  const NnType *t = nn_type_of(v);
  int id = g->n_values++;
  g->values[id] =
      (RecomputeValue){.value = v, .def = def, .root = id, .bytes = nn_type_bytes(t), .elements = nn_type_elements(t)};
  g->values[id].span = g->values[id].elements;
  ptr_map_set(&g->ids, v.ptr, id);
  return id;
}

static void add_arguments(RecomputeGraph *g) {
  MlirBlock body = nn_function_body(g->func);
  for (int a = 0; a < g->n_args; a++) {
    char role[16];
    int id = add_value(g, mlirBlockGetArgument(body, a), -1);
    nn_arg_str(g->func, a, ATTR_role, role, sizeof role, "");
    g->values[id].available = nn_is_persistent_role(role) || !strcmp(role, "rng") || !strcmp(role, "hyper");
  }
}

static void add_results(RecomputeGraph *g, int i) {
  MlirOperation op = g->ops[i];
  NnOpKind kind = kind_of(g, i);
  g->first_result[i] = g->n_values;
  bool sources = kind == NN_KIND_SOURCE || kind == NN_KIND_MAP, random = g->kind[i] == NN_OP_random_uniform;
  for (int j = g->first_operand[i]; j < g->first_operand[i + 1] && kind == NN_KIND_MAP; j++) {
    const RecomputeValue *v = &g->values[g->operands[j]];
    sources &= v->source_only;
    random |= v->random;
  }
  for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++) {
    RecomputeValue *v = &g->values[add_value(g, mlirOperationGetResult(op, r), i)];
    v->source_only = sources;
    // A parameter in parts counts as the argument it is on one rank, or the two programs' kernels would differ, and
    // with them the order of sums: `fetch` gathers it again for whoever reads it.
    v->available = sources || plan_is_fetch(op);
    v->random = sources && random;
    if (kind == NN_KIND_VIEW && nn_is_alias(op)) {
      const RecomputeValue *x = &g->values[g->operands[g->first_operand[i]]];
      v->root = x->root;
      v->available = g->values[x->root].available;
    }
  }
}

// Spans, users before operands.
static void find_spans(RecomputeGraph *g) {
  for (int i = g->n_ops - 1; i >= 0; i--) {
    NnOp kind = g->kind[i];
    if (g->backward[i] || kind == NN_OP_NONE || (nn_op_info(kind)->kind != NN_KIND_MAP && kind != NN_OP_broadcast))
      continue;
    int64_t span = g->values[g->first_result[i]].span;
    for (int j = g->first_operand[i]; j < g->first_operand[i + 1]; j++) {
      RecomputeValue *v = &g->values[g->operands[j]];
      if (v->span < span) v->span = span;
    }
  }
}

// What is no map, what something else than a map or reduction reads, and what is read again after another library op.
static void find_in_memory(RecomputeGraph *g) {
  int *made_after = allocate_array((size_t)g->n_values, sizeof *made_after), library_ops = 0;
  for (int i = 0; i < g->n_ops; i++) {
    NnOp kind = g->kind[i];
    bool scan = kind == NN_OP_NONE && nn_has_attr(g->ops[i], ATTR_scan);
    if (g->backward[i] || (kind == NN_OP_NONE && !scan) || (!scan && nn_op_info(kind)->kind == NN_KIND_MARK)) continue;
    bool map = !scan && nn_op_info(kind)->kind == NN_KIND_MAP,
         fused = recompute_reads_elements(kind) || kind == NN_OP_broadcast;
    library_ops += scan || nn_op_info(kind)->kind == NN_KIND_LIBRARY;
    for (int j = g->first_operand[i]; j < g->first_operand[i + 1]; j++) {
      int x = g->operands[j];
      if (!fused || made_after[x] != library_ops) g->values[g->values[x].root].in_memory = true;
    }
    for (int id = g->first_result[i]; id < g->first_result[i + 1]; id++) {
      made_after[id] = library_ops;
      g->values[id].in_memory |= !map;
    }
  }
  free(made_after);
}

// ---------------------------------------------------------------------------------------------------------------------
// Readers in the backward pass

static void note_range(int *first, int *last, bool *seen, int at) {
  if (!*seen) *first = at;
  *last = at;
  *seen = true;
}

static bool is_forward_value(const RecomputeGraph *g, int v) {
  return g->values[v].def < 0 || !g->backward[g->values[v].def];
}

// What is in memory for the backward pass in any case: what it reads otherwise than element by element, and what the
// function returns.
static void find_readers(RecomputeGraph *g) {
  int library_ops = 0;
  for (int i = 0; i < g->n_ops; i++) {
    MlirOperation op = g->ops[i];
    NnOpKind kind = kind_of(g, i);
    bool table = g->kind[i] != NN_OP_NONE, returns = !table && nn_is(op, "func.return");
    if (kind == NN_KIND_MARK || (!g->backward[i] && !returns)) continue;
    bool library = table ? kind == NN_KIND_LIBRARY : nn_has_attr(op, ATTR_scan);
    library_ops += library;
    for (int j = g->first_operand[i]; j < g->first_operand[i + 1]; j++) {
      int id = g->operands[j];
      if (!is_forward_value(g, id)) continue;
      RecomputeValue *v = &g->values[id], *root = &g->values[v->root];
      bool inside = recompute_reads_elements(g->kind[i]) && v == root;
      if (inside) note_range(&v->first_inside, &v->last_inside, &v->read_inside, library_ops);
      else if (library) note_range(&root->first_stored, &root->last_stored, &root->read_stored, library_ops);
      else root->available = true;
      if (v->def < 0) v->available = true;
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// What may be computed again

static bool is_near(const RecomputeValue *reader, const RecomputeValue *kernel) {
  int near = NEAR;
  bool starts = reader->first_stored >= kernel->first_inside - near &&
                reader->first_stored <= kernel->last_inside + near;
  return starts && reader->last_stored >= kernel->first_inside - near &&
         reader->last_stored <= kernel->last_inside + near;
}

// A kernel near the library ops that read v also reads what v is computed from: it can make v on the way.
static bool has_anchor(const RecomputeGraph *g, int v) {
  int stack[ANCHOR_SEARCH], n = 0, seen = 0;
  stack[n++] = v;
  while (n > 0 && seen++ < ANCHOR_SEARCH) {
    const RecomputeValue *w = &g->values[stack[--n]];
    if (w->source_only || 2 * w->elements < g->values[v].elements) continue;
    if (w->read_inside && is_near(&g->values[v], w)) return true;
    if (!w->recomputable || w->library) continue;
    for (int j = g->first_operand[w->def]; j < g->first_operand[w->def + 1] && n < ANCHOR_SEARCH; j++)
      stack[n++] = g->operands[j];
  }
  return false;
}

// The scores of attention: a product of two values that are kept anyway, larger than both together, with a short
// contraction.
static bool is_short_product(const RecomputeGraph *g, int v) {
  int def = g->values[v].def;
  if (g->kind[def] != NN_OP_matmul) return false;
  int64_t read = 0;
  for (int j = 0; j < 2; j++) {
    const RecomputeValue *x = &g->values[g->operands[g->first_operand[def] + j]];
    NnType t = nn_value_type(x->value);
    if (!g->values[x->root].available || t.rank < 3) return false;
    read += x->bytes;
  }
  return g->values[v].bytes >= read && !g->values[v].available && !g->values[v].read_stored;
}

static void classify(RecomputeGraph *g) {
  for (int id = g->n_args; id < g->n_values; id++) {
    RecomputeValue *v = &g->values[id];
    NnOp kind = g->kind[v->def];
    int n_results = g->first_result[v->def + 1] - g->first_result[v->def];
    if (g->backward[v->def] || v->available || kind == NN_OP_NONE || n_results != 1) continue;
    bool map = nn_op_info(kind)->kind == NN_KIND_MAP;
    v->recomputable = (map && v->elements * SMALL > v->span) || kind == NN_OP_broadcast;
  }
  // Stored values: without a kernel to make them again they are kept, which may make an attention's operands available.
  for (int id = 0; id < g->n_values; id++) {
    RecomputeValue *v = &g->values[id];
    if (!v->read_stored || v->available) continue;
    bool again = g->mode == RECOMPUTE_ALL && v->recomputable && g->kind[v->def] != NN_OP_broadcast && has_anchor(g, id);
    if (!again) v->available = true, v->recomputable = false;
  }
  for (int id = g->n_args; id < g->n_values && g->mode == RECOMPUTE_ALL; id++) {
    RecomputeValue *v = &g->values[id];
    if (!g->backward[v->def] && is_short_product(g, id)) v->recomputable = v->library = true;
  }
  for (int id = g->n_args; id < g->n_values; id++)
    if (g->values[id].root != id) g->values[id].available = g->values[g->values[id].root].available;
}

// ---------------------------------------------------------------------------------------------------------------------

void recompute_graph_build(RecomputeGraph *g, MlirOperation func, RecomputeMode mode) {
  *g = (RecomputeGraph){.func = func, .mode = mode, .n_args = nn_function_n_args(func)};
  g->ops = rewrite_ops(nn_function_body(func), &g->n_ops);
  size_t n = (size_t)g->n_ops, n_values = (size_t)g->n_args;
  g->kind = allocate_array(n, sizeof *g->kind);
  g->first_operand = allocate_array(n + 1, sizeof *g->first_operand);
  g->first_result = allocate_array(n + 1, sizeof *g->first_result);
  g->backward = allocate_array(n, sizeof *g->backward);
  for (int i = 0; i < g->n_ops; i++) {
    g->kind[i] = nn_op_of(g->ops[i]);
    g->backward[i] = is_backward(g->ops[i]);
    g->first_operand[i + 1] = g->first_operand[i] + (int)mlirOperationGetNumOperands(g->ops[i]);
    n_values += (size_t)mlirOperationGetNumResults(g->ops[i]);
  }
  g->operands = allocate_array((size_t)g->first_operand[g->n_ops], sizeof *g->operands);
  g->values = allocate_array(n_values, sizeof *g->values);
  add_arguments(g);
  for (int i = 0; i < g->n_ops; i++) {
    for (int j = g->first_operand[i]; j < g->first_operand[i + 1]; j++)
      g->operands[j] = ptr_map_get(&g->ids, mlirOperationGetOperand(g->ops[i], j - g->first_operand[i]).ptr);
    add_results(g, i);
  }
  g->first_result[g->n_ops] = g->n_values;
}

void recompute_graph_classify(RecomputeGraph *g) {
  find_spans(g);
  find_in_memory(g);
  find_readers(g);
  classify(g);
}

void recompute_graph_free(RecomputeGraph *g) {
  free(g->ops);
  free(g->kind);
  free(g->first_operand);
  free(g->operands);
  free(g->first_result);
  free(g->backward);
  free(g->values);
  ptr_map_free(&g->ids);
  *g = (RecomputeGraph){0};
}

typedef struct Crossing {
  const RecomputeGraph *g;
  const bool *again;           // Borrowed
  const RecomputePart *part;   // Borrowed
  bool draws;
  bool *counted, *followed;   // Owned, per value
  int64_t bytes;
} Crossing;

static void count_kept(Crossing *c, int id) {
  const RecomputeGraph *g = c->g;
  id = g->values[id].root;
  if (c->part && c->part[id].whole >= 0) id = c->part[id].whole;
  // A broadcast is made by each kernel from its operand.
  while (g->values[id].def >= 0 && g->kind[g->values[id].def] == NN_OP_broadcast)
    id = g->values[g->operands[g->first_operand[g->values[id].def]]].root;
  const RecomputeValue *v = &g->values[id];
  if (v->def < 0 || g->backward[v->def] || c->counted[id] || (v->source_only && !(c->draws && v->random))) return;
  c->counted[id] = true;
  c->bytes += v->bytes;
}

// Of what is computed again its operands are read.
static void count_read(Crossing *c, int id) {
  const RecomputeGraph *g = c->g;
  if (!c->again[g->values[id].root]) {
    count_kept(c, id);
    return;
  }
  if (c->followed[id]) return;
  c->followed[id] = true;
  int def = g->values[id].def;
  for (int j = g->first_operand[def]; j < g->first_operand[def + 1]; j++) count_read(c, g->operands[j]);
}

int64_t recompute_crossing_bytes(const RecomputeGraph *g, const bool *again, const RecomputePart *part, bool draws) {
  Crossing c = {.g = g, .again = again, .part = part, .draws = draws};
  c.counted = allocate_array((size_t)g->n_values, sizeof *c.counted);
  c.followed = allocate_array((size_t)g->n_values, sizeof *c.followed);
  for (int i = 0; i < g->n_ops; i++) {
    if (!g->backward[i] || kind_of(g, i) == NN_KIND_MARK) continue;
    for (int j = g->first_operand[i]; j < g->first_operand[i + 1]; j++) {
      if (again && g->kind[i] != NN_OP_NONE) count_read(&c, g->operands[j]);
      else count_kept(&c, g->operands[j]);
    }
  }
  free(c.counted);
  free(c.followed);
  return c.bytes;
}
