// Values that are parts of a concatenation which is kept as well: the backward pass reads them there.
//
// In a dense block each layer reads a concatenation of what came before and appends its own to it. All of them are read
// again by the backward pass, but each lies, element by element, in the last one.
#include <stdlib.h>

#include "passes/recompute/recompute.h"
#include "support/alloc.h"

typedef struct Parts {
  const RecomputeGraph *g;
  const bool *again;        // Borrowed
  bool *visited;            // Owned, per value: computed again, and its operands have been looked at
  bool *kept, *elsewhere;   // Owned, per value: the backward pass reads it; otherwise than element by element
  RecomputePart *part;      // Borrowed
} Parts;

static void note_read(Parts *p, int id, bool by_elements) {
  const RecomputeGraph *g = p->g;
  int root = g->values[id].root;
  if (!p->again[root]) {
    p->kept[root] = true;
    p->elsewhere[root] |= !by_elements || root != id;
    return;
  }
  if (p->visited[id]) return;
  p->visited[id] = true;
  int def = g->values[id].def;
  bool inside = recompute_reads_elements(g->kind[def]);
  for (int j = g->first_operand[def]; j < g->first_operand[def + 1]; j++) note_read(p, g->operands[j], inside);
}

static void find_kept(Parts *p) {
  const RecomputeGraph *g = p->g;
  for (int i = 0; i < g->n_ops; i++) {
    NnOp kind = g->kind[i];
    if (!g->backward[i] || (kind != NN_OP_NONE && nn_op_info(kind)->kind == NN_KIND_MARK)) continue;
    for (int j = g->first_operand[i]; j < g->first_operand[i + 1]; j++)
      note_read(p, g->operands[j], recompute_reads_elements(kind));
  }
}

// The operands of a concatenation, which is kept or itself a part of one that is. Returns in total[] the bytes that
// parts of a whole would take.
static void find_in_concat(const Parts *p, int op, int64_t *total) {
  const RecomputeGraph *g = p->g;
  int whole = g->first_result[op], axis = (int)nn_attr_i64(g->ops[op], "axis", 0);
  int64_t start = p->part[whole].start;
  bool is_part = p->part[whole].whole >= 0;
  if (g->first_operand[op + 1] - g->first_operand[op] < 2) return;   // the operand itself
  if (!p->kept[whole] || p->again[whole] || (is_part && p->part[whole].axis != axis)) return;
  if (is_part) whole = p->part[whole].whole;
  for (int j = g->first_operand[op]; j < g->first_operand[op + 1]; j++) {
    int id = g->operands[j];
    const RecomputeValue *v = &g->values[id];
    bool reads = p->kept[id] && !p->elsewhere[id] && !p->again[id] && !v->available && v->root == id && v->def >= 0;
    if (reads && p->part[id].whole < 0) {
      p->part[id] = (RecomputePart){.whole = whole, .axis = axis, .start = start};
      total[whole] += v->bytes;
    }
    start += nn_type_of(v->value)->dim[axis];
  }
}

void recompute_find_parts(const RecomputeGraph *g, const bool *again, RecomputePart *part) {
  size_t n = (size_t)g->n_values;
  Parts p = {.g = g, .again = again, .part = part};
  p.visited = allocate_array(n, sizeof *p.visited);
  p.kept = allocate_array(n, sizeof *p.kept);
  p.elsewhere = allocate_array(n, sizeof *p.elsewhere);
  int64_t *total = allocate_array(n, sizeof *total);
  for (int id = 0; id < g->n_values; id++) part[id].whole = -1;
  find_kept(&p);
  for (int i = g->n_ops - 1; i >= 0; i--)
    if (g->kind[i] == NN_OP_concat && !g->backward[i]) find_in_concat(&p, i, total);
  for (int id = 0; id < g->n_values; id++)
    if (part[id].whole >= 0 && total[part[id].whole] < g->values[part[id].whole].bytes) part[id].whole = -1;
  free(p.visited);
  free(p.kept);
  free(p.elsewhere);
  free(total);
}
