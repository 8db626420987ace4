// Merging ops into groups. Groups are kept in a topological order (positions); merging two looks for a path between
// them through a third, which can only run over positions in between, so that a merge costs what lies between and not
// the whole graph.
#include <stdlib.h>

#include "passes/fuse/fuse.h"
#include "support/alloc.h"

enum { SEARCH_LIMIT = 4000, ROW_MIN_ROWS = 64, ROW_MAX_SERIAL = 8192 };

int fuse_find(FuseGraph *g, int op) {
  while (g->groups[op].parent != op) {
    g->groups[op].parent = g->groups[g->groups[op].parent].parent;
    op = g->groups[op].parent;
  }
  return op;
}

static NnType kept_shape(const FuseGroup *group) {
  NnType t = {.dtype = group->shape->dtype};
  for (int a = 0; a < group->shape->rank; a++)
    if (!(group->axes >> a & 1)) t.dim[t.rank++] = group->shape->dim[a];
  return t;
}

// Row kernels go through one row at a time: they need enough rows to share out, or rows short enough to be no burden to
// one thread.
bool fuse_group_is_row(const FuseGroup *group) {
  int64_t rows = 1, length = 1;
  bool inside = false;
  for (int a = 0; a < group->shape->rank; a++) {
    bool reduced = group->axes >> a & 1;
    if (inside && !reduced) return false;
    inside |= reduced;
    if (reduced) length *= group->shape->dim[a];
    else rows *= group->shape->dim[a];
  }
  return inside && (rows >= ROW_MIN_ROWS || length <= ROW_MAX_SERIAL);
}

// ---------------------------------------------------------------------------------------------------------------------
// Legality

// The shape, axes and phases of the union; false when no kind of kernel takes both.
static bool combine(const FuseGroup *a, const FuseGroup *b, bool connected, FuseGroup *out) {
  *out = *a;
  out->has_view = a->has_view || b->has_view;
  out->phases = a->phases | b->phases;
  bool same = nn_shape_equal(a->shape, b->shape);
  if (a->axes && b->axes) {
    if (!same || a->axes != b->axes) return false;
  } else if (a->axes || b->axes) {
    const FuseGroup *reduce = a->axes ? a : b, *map = a->axes ? b : a;
    NnType kept = kept_shape(reduce);
    if (!nn_shape_equal(reduce->shape, map->shape) && !nn_shape_equal(&kept, map->shape)) return false;
    out->shape = reduce->shape;
    out->axes = reduce->axes;
    // An optimizer's update joins the kernel that reduces its gradient, but never delays a big forward value.
    if ((map->phases & FUSE_UPDATE) && same) return false;
  } else if (!same) {
    return false;
  }
  if (out->axes && out->has_view) return false;
  if (a->size + b->size > FUSE_MEMBERS) return false;
  if (a->phases == b->phases && (connected || !(a->phases & FUSE_UPDATE))) return true;
  if (!connected || !(out->phases & FUSE_UPDATE)) return false;
  if (out->phases & FUSE_FORWARD) return out->axes && !(out->phases & FUSE_BACKWARD);   // running statistics
  return true;
}

// A reader of what an update overwrites spreads it over the domain of the kernel that both would be in: the update
// could not be done in place, and would be copied there in a launch of its own.
static bool is_spread(const FuseEdge *order, const FuseGraph *g, const FuseGroup *merged) {
  const FuseOp *reader = &g->ops[order->from];
  return merged->axes && !reader->axes && nn_shape_equal(reader->shape, merged->shape);
}

static bool edge_is_fusible(const FuseEdge *e, const FuseGraph *g, const FuseGroup *merged) {
  if (e->via == FUSE_ORDER) return !g->few_launches || !is_spread(e, g, merged);
  if (e->via == FUSE_DIRECT) return true;
  if (e->via == FUSE_VIEW || e->via == FUSE_PART || !merged->axes || !fuse_group_is_row(merged)) return false;
  NnType kept = kept_shape(merged);
  if (!nn_shape_equal(g->value_types[e->value], &kept)) return false;
  for (int i = 0, a = 0; a < merged->shape->rank; a++)
    if (!(merged->axes >> a & 1) && e->dims[i++] != a) return false;
  return true;
}

// All edges between a and b, in either direction, can be inside one kernel; reports whether there is one.
static bool edges_are_fusible(FuseGraph *g, int a, int b, const FuseGroup *merged) {
  if (g->groups[a].size > g->groups[b].size) {
    int t = a;
    a = b, b = t;
  }
  for (int m = g->groups[a].first; m >= 0; m = g->next[m]) {
    const FuseOp *o = &g->ops[m];
    for (int e = o->first_in; e < o->first_in + o->n_in; e++)
      if (g->edges[e].from >= 0 && fuse_find(g, g->edges[e].from) == b && !edge_is_fusible(&g->edges[e], g, merged))
        return false;
    for (int s = o->first_out; s < o->first_out + o->n_out; s++)
      if (fuse_find(g, g->edges[g->out[s]].to) == b && !edge_is_fusible(&g->edges[g->out[s]], g, merged)) return false;
  }
  return true;
}

// b reads a value of a's, element by element.
static bool reads_elements(FuseGraph *g, int a, int b) {
  for (int m = g->groups[b].first; m >= 0; m = g->next[m]) {
    const FuseOp *o = &g->ops[m];
    for (int e = o->first_in; e < o->first_in + o->n_in; e++) {
      const FuseEdge *edge = &g->edges[e];
      if (edge->value >= 0 && edge->from >= 0 && edge->via == FUSE_DIRECT && fuse_find(g, edge->from) == a &&
          nn_shape_equal(g->value_types[edge->value], g->groups[a].shape))
        return true;
    }
  }
  return false;
}

// More where launches cost, but not for sums that have no elements in common (of one parameter's gradient, where a
// layer is used twice) nor in the forward pass: running statistics would bring moments of several layers together.
static int most_buffers(FuseGraph *g, int a, int b, bool connected) {
  const FuseGroup *ga = &g->groups[a], *gb = &g->groups[b];
  bool forward = (ga->phases | gb->phases) & FUSE_FORWARD;
  bool apart = connected && ga->axes && gb->axes && !reads_elements(g, a, b);
  return g->few_launches && !forward && !apart ? FUSE_MOST_BUFFERS : FUSE_BUFFERS;
}

// Distinct values that the kernel of a and b would read and write.
static int count_buffers(FuseGraph *g, int a, int b) {
  int count = 0, roots[2] = {a, b};
  int stamp = ++g->value_stamp_now;
  for (int k = 0; k < 2; k++) {
    for (int m = g->groups[roots[k]].first; m >= 0; m = g->next[m]) {
      const FuseOp *o = &g->ops[m];
      for (int e = o->first_in; e < o->first_in + o->n_in; e++) {
        const FuseEdge *edge = &g->edges[e];
        if (edge->value < 0 || g->value_stamp[edge->value] == stamp) continue;
        int from = edge->from < 0 ? -1 : fuse_find(g, edge->from);
        if (from == a || from == b) continue;
        g->value_stamp[edge->value] = stamp;
        count++;
      }
      for (int s = o->first_out; s < o->first_out + o->n_out; s++) {
        const FuseEdge *edge = &g->edges[g->out[s]];
        if (edge->value < 0 || g->value_stamp[edge->value] == stamp) continue;
        int to = fuse_find(g, edge->to);
        if (to == a || to == b) continue;
        g->value_stamp[edge->value] = stamp;
        count++;
      }
    }
  }
  return count;
}

// Marks (stamp) the groups that `a` reaches without the edges straight to `b`, up to the position of `b`. False when
// `b` is among them, or when the search grows too long.
static bool reach(FuseGraph *g, int a, int b, int **found, int *n_found) {
  int stamp = ++g->stamp_now, limit = g->groups[b].position;
  *n_found = 0;
  for (int k = -1; k < *n_found; k++) {
    int root = k < 0 ? a : (*found)[k];
    for (int m = g->groups[root].first; m >= 0; m = g->next[m]) {
      const FuseOp *o = &g->ops[m];
      for (int s = o->first_out; s < o->first_out + o->n_out; s++) {
        int to = fuse_find(g, g->edges[g->out[s]].to);
        if (to == root || g->stamp[to] == stamp || g->groups[to].position > limit) continue;
        if (to == b) {
          if (k < 0) continue;
          return false;
        }
        if (*n_found >= SEARCH_LIMIT) return false;
        g->stamp[to] = stamp;
        *ARRAY_ADD(*found, *n_found) = to;
      }
    }
  }
  return true;
}

// What `a` reaches moves behind the union, which takes the place after everything else in between.
static void reorder(FuseGraph *g, int a, int b) {
  int low = g->groups[a].position, high = g->groups[b].position, w = low, n = 0;
  int *after = allocate_array((size_t)(high - low + 1), sizeof *after);
  for (int p = low; p <= high; p++) {
    int root = g->at[p];
    if (root < 0 || root == a || root == b) continue;
    if (g->stamp[root] == g->stamp_now) {
      after[n++] = root;
    } else {
      g->at[w] = root;
      g->groups[root].position = w++;
    }
  }
  g->at[w] = a;
  g->groups[a].position = w++;
  for (int i = 0; i < n; i++) {
    g->at[w] = after[i];
    g->groups[after[i]].position = w++;
  }
  while (w <= high) g->at[w++] = -1;
  free(after);
}

// max_buffers: 0 for what most_buffers says.
static bool try_merge(FuseGraph *g, int a, int b, bool connected, int max_buffers) {
  a = fuse_find(g, a);
  b = fuse_find(g, b);
  if (a == b || g->ops[a].klass != FUSE_NODE || g->ops[b].klass != FUSE_NODE) return false;
  if (g->groups[a].position > g->groups[b].position) {
    int t = a;
    a = b, b = t;
  }
  FuseGroup merged;
  if (!combine(&g->groups[a], &g->groups[b], connected, &merged)) return false;
  if (!max_buffers) max_buffers = most_buffers(g, a, b, connected);
  if (!edges_are_fusible(g, a, b, &merged) || count_buffers(g, a, b) > max_buffers) return false;
  int *found = NULL, n_found;
  bool ok = reach(g, a, b, &found, &n_found);
  free(found);
  if (!ok) return false;
  reorder(g, a, b);
  FuseGroup *ga = &g->groups[a], *gb = &g->groups[b];
  g->next[ga->last] = gb->first;
  ga->last = gb->last;
  ga->size += gb->size;
  ga->shape = merged.shape;
  ga->axes = merged.axes;
  ga->phases = merged.phases;
  ga->has_view = merged.has_view;
  ga->joined |= gb->joined;
  gb->parent = a;
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Greedy fusion

static bool merge_with_producers(FuseGraph *g) {
  bool changed = false;
  for (int i = 0; i < g->n; i++) {
    const FuseOp *o = &g->ops[i];
    if (o->klass != FUSE_NODE) continue;
    bool tried[64] = {false};
    int n = o->n_in < 64 ? o->n_in : 64;
    for (;;) {   // the largest value first
      int best = -1;
      int64_t best_bytes = -1;
      for (int e = 0; e < n; e++) {
        const FuseEdge *edge = &g->edges[o->first_in + e];
        if (tried[e] || edge->from < 0 || edge->value < 0 || edge->via == FUSE_VIEW || edge->via == FUSE_PART) continue;
        int64_t bytes = fuse_value_bytes(g, edge->value);
        if (bytes > best_bytes) best = e, best_bytes = bytes;
      }
      if (best < 0) break;
      tried[best] = true;
      changed |= try_merge(g, g->edges[o->first_in + best].from, i, true, 0);
    }
  }
  return changed;
}

static bool by_elements(const FuseEdge *e) { return e->via == FUSE_DIRECT || e->via == FUSE_PART; }

// Reductions of the same space that read a common value share one pass over it.
static bool merge_siblings(FuseGraph *g) {
  bool changed = false;
  // last group with a reduction that reads the value
  int *latest = allocate_array((size_t)g->n_values, sizeof *latest);
  for (int v = 0; v < g->n_values; v++) latest[v] = -1;
  for (int i = 0; i < g->n; i++) {
    const FuseOp *o = &g->ops[i];
    if (o->klass != FUSE_NODE) continue;
    if (!g->groups[fuse_find(g, i)].axes) continue;
    for (int e = o->first_in; e < o->first_in + o->n_in; e++) {
      const FuseEdge *edge = &g->edges[e];
      if (edge->value < 0 || !by_elements(edge)) continue;
      if (!nn_shape_equal(g->value_types[edge->value], g->groups[fuse_find(g, i)].shape)) continue;
      if (latest[edge->value] >= 0) changed |= try_merge(g, latest[edge->value], i, false, 0);
      latest[edge->value] = i;
    }
  }
  free(latest);
  return changed;
}

// The first backward kernel, in the order of groups, that goes over the elements of what op reads; `after`: the next
// one behind it.
static int find_host(FuseGraph *g, int op, int after) {
  const FuseOp *o = &g->ops[op];
  int best = -1;
  for (int e = o->first_in; e < o->first_in + o->n_in; e++) {
    int from = g->edges[e].from;
    if (from < 0 || !by_elements(&g->edges[e])) continue;
    for (int s = g->ops[from].first_out; s < g->ops[from].first_out + g->ops[from].n_out; s++) {
      const FuseEdge *edge = &g->edges[g->out[s]];
      int to = fuse_find(g, edge->to);
      if (edge->value != g->edges[e].value || !by_elements(edge)) continue;   // only nodes read directly
      if (to == fuse_find(g, op) || !(g->groups[to].phases & FUSE_BACKWARD) ||
          !nn_shape_equal(g->groups[to].shape, o->shape))
        continue;
      if (g->groups[to].position > after && (best < 0 || g->groups[to].position < g->groups[best].position)) best = to;
    }
  }
  return best;
}

// A group that adds up along the columns of a space of this shape, or -1.
static int sum_of_columns(FuseGraph *g, int op, const NnType *shape) {
  int root = fuse_find(g, op);
  const FuseGroup *group = &g->groups[root];
  if (g->ops[root].klass != FUSE_NODE || !group->axes || fuse_group_is_row(group)) return -1;
  return nn_shape_equal(group->shape, shape) ? root : -1;
}

static bool group_reads(FuseGraph *g, int root, int value) {
  for (int m = g->groups[root].first; m >= 0; m = g->next[m]) {
    const FuseOp *o = &g->ops[m];
    for (int e = o->first_in; e < o->first_in + o->n_in; e++)
      if (g->edges[e].value == value && g->edges[e].via != FUSE_VIEW) return true;
  }
  return false;
}

// How many values of that shape both groups read.
static int count_read_by_both(FuseGraph *g, int a, int b, const NnType *shape) {
  int count = 0, stamp = ++g->value_stamp_now;
  for (int m = g->groups[a].first; m >= 0; m = g->next[m]) {
    for (int e = g->ops[m].first_in; e < g->ops[m].first_in + g->ops[m].n_in; e++) {
      const FuseEdge *read = &g->edges[e];
      if (read->value < 0 || !by_elements(read) || g->value_stamp[read->value] == stamp) continue;
      g->value_stamp[read->value] = stamp;
      count += nn_shape_equal(g->value_types[read->value], shape) && group_reads(g, b, read->value);
    }
  }
  return count;
}

// The group of columns' sums, `sum` and joined ones aside, that has the most operands in common with the kernel `root`.
static int sums_of_operands(FuseGraph *g, int root, int sum) {
  const NnType *shape = g->groups[sum].shape;
  int best = -1, best_count = 0;
  for (int m = g->groups[root].first; m >= 0; m = g->next[m]) {
    for (int e = g->ops[m].first_in; e < g->ops[m].first_in + g->ops[m].n_in; e++) {
      const FuseEdge *read = &g->edges[e];
      if (read->from < 0 || read->via != FUSE_DIRECT || !nn_shape_equal(g->value_types[read->value], shape)) continue;
      const FuseOp *from = &g->ops[read->from];
      for (int s = from->first_out; s < from->first_out + from->n_out; s++) {
        const FuseEdge *other = &g->edges[g->out[s]];
        int a = other->value == read->value && other->via == FUSE_DIRECT ? sum_of_columns(g, other->to, shape) : -1;
        if (a < 0 || a == sum || a == best || g->groups[a].joined) continue;
        int count = count_read_by_both(g, a, root, shape);
        if (count > best_count) best = a, best_count = count;
      }
    }
  }
  return best;
}

static bool is_map(FuseGraph *g, int root, unsigned phases) {
  return g->ops[root].klass == FUSE_NODE && !g->groups[root].axes && g->groups[root].phases == phases;
}

// Maps of the backward pass that read two large values or more in common (the gradients of a gate and of what it lets
// through) go over them once.
static bool merge_maps(FuseGraph *g) {
  bool changed = false;
  int *latest = allocate_array((size_t)g->n_values, sizeof *latest);
  for (int v = 0; v < g->n_values; v++) latest[v] = -1;
  for (int i = 0; i < g->n; i++) {
    const FuseOp *o = &g->ops[i];
    if (o->klass != FUSE_NODE || !is_map(g, fuse_find(g, i), FUSE_BACKWARD)) continue;
    for (int e = o->first_in; e < o->first_in + o->n_in; e++) {
      const FuseEdge *edge = &g->edges[e];
      int root = fuse_find(g, i);
      if (edge->value < 0 || !by_elements(edge)) continue;
      const NnType *shape = g->groups[root].shape;
      if (!nn_shape_equal(g->value_types[edge->value], shape)) continue;
      int other = latest[edge->value] >= 0 ? fuse_find(g, latest[edge->value]) : -1;
      latest[edge->value] = i;
      if (other < 0 || other == root || !is_map(g, other, FUSE_BACKWARD) ||
          !nn_shape_equal(g->groups[other].shape, shape) || count_read_by_both(g, other, root, shape) < 2)
        continue;
      changed |= try_merge(g, other, root, false, 0);
    }
  }
  free(latest);
  return changed;
}

// Sums over the columns of what a kernel reads and of what it writes (a layer norm's gradient: those of its scale and
// shift, and the bias's before it) are one launch: both can be had as soon as the kernel has run, and no value lives
// longer than until then. Once for each: in a row of kernels, each of which reads what the last one wrote, all sums
// would become one, and all values would live until then.
static bool merge_sums_around(FuseGraph *g) {
  bool changed = false;
  for (int i = 0; i < g->n; i++) {
    const FuseOp *o = &g->ops[i];
    if (o->klass != FUSE_NODE) continue;
    for (int s = o->first_out; s < o->first_out + o->n_out; s++) {
      const FuseEdge *edge = &g->edges[g->out[s]];
      if (edge->value < 0 || edge->via != FUSE_DIRECT || fuse_find(g, edge->to) == fuse_find(g, i)) continue;
      int sum = sum_of_columns(g, edge->to, g->value_types[edge->value]);
      if (sum < 0 || g->groups[sum].joined || g->groups[sum].phases != g->groups[fuse_find(g, i)].phases) continue;
      int other = sums_of_operands(g, fuse_find(g, i), sum);
      if (other < 0 || !try_merge(g, other, sum, false, 0)) continue;
      g->groups[fuse_find(g, sum)].joined = true;
      changed = true;
    }
  }
  return changed;
}

// What `recompute` makes for a library op to read becomes a result of a kernel that reads the same values anyway.
static void place_recomputed(FuseGraph *g) {
  for (int i = 0; i < g->n; i++) {
    if (g->ops[i].klass != FUSE_NODE || !g->ops[i].recomputed) continue;
    int after = -1;
    for (int tries = 0; tries < 4; tries++) {
      int host = find_host(g, i, after);
      if (host < 0 || try_merge(g, i, host, true, FUSE_MOST_BUFFERS)) break;
      after = g->groups[host].position;
    }
  }
}

void fuse_groups_merge(FuseGraph *g) {
  for (int round = 0; round < 3; round++) {
    bool changed = merge_with_producers(g);
    changed |= merge_siblings(g);
    changed |= merge_maps(g);
    if (g->few_launches) changed |= merge_sums_around(g);
    if (!changed) break;
  }
  place_recomputed(g);
}

// ---------------------------------------------------------------------------------------------------------------------
// Recomputing inside a kernel instead of storing. A value that several kernels need is stored once (written, and read
// by each) or computed in each from what it was computed from; the second wins when it moves fewer bytes and keeps no
// more alive.

typedef struct Cone {
  int n;
  int leaf[16];
  double work;
  bool legal;
} Cone;   // leaves: value numbers

bool fuse_is_stored(FuseGraph *g, int op) {
  const FuseOp *o = &g->ops[op];
  if (o->inlined) return false;
  if (o->kept) return true;
  for (int s = o->first_out; s < o->first_out + o->n_out; s++) {
    const FuseEdge *edge = &g->edges[g->out[s]];
    if (edge->value >= 0 && fuse_find(g, edge->to) != fuse_find(g, op)) return true;
  }
  return false;
}

// A value that is used twice is walked twice: what costs more than storing a value of 8 bytes (three times at most, for
// one reader) is never worth it, and ends the walk before it takes time exponential in the depth.
static void walk_cone(FuseGraph *g, int op, int root, Cone *cone) {
  const FuseOp *o = &g->ops[op];
  cone->work += nn_op_traffic(o->kind);
  if (nn_op_info(o->kind)->kind != NN_KIND_MAP || cone->work >= 3 * 8) cone->legal = false;
  for (int e = o->first_in; e < o->first_in + o->n_in && cone->legal; e++) {
    const FuseEdge *edge = &g->edges[e];
    if (edge->value < 0) continue;
    int from = edge->from;
    bool inside = from >= 0 && g->ops[from].klass == FUSE_NODE && edge->via == FUSE_DIRECT &&
                  (g->ops[from].inlined ||
                   (fuse_find(g, from) == root && nn_op_info(g->ops[from].kind)->kind == NN_KIND_MAP &&
                    !fuse_is_stored(g, from)));
    if (inside) {
      walk_cone(g, from, root, cone);
      continue;
    }
    bool seen = false;
    for (int i = 0; i < cone->n; i++) seen |= cone->leaf[i] == edge->value;
    if (seen) continue;
    if (cone->n == 16 || cone->work > 8) cone->legal = false;
    else cone->leaf[cone->n++] = edge->value;
  }
}

// A part of another value (FUSE_PART), which is what lies in memory.
static bool is_part(const FuseGraph *g, MlirValue v) {
  if (mlirValueIsABlockArgument(v)) return false;
  const FuseOp *o = &g->ops[ptr_map_get(&g->op_ids, mlirOpResultGetOwner(v).ptr)];
  return o->recomputed && o->kind == NN_OP_slice && o->klass == FUSE_CLONED;
}

static FusePhase last_phase_of_value(FuseGraph *g, int value) {
  MlirValue v = g->values[value];
  bool part = is_part(g, v);
  if (part) v = nn_operand(mlirOpResultGetOwner(v), 0);
  if (mlirValueIsABlockArgument(v)) return FUSE_UPDATE;
  int def = ptr_map_get(&g->op_ids, mlirOpResultGetOwner(v).ptr);
  FusePhase last = FUSE_FORWARD;
  const FuseOp *o = &g->ops[def];
  for (int s = o->first_out; s < o->first_out + o->n_out; s++) {
    const FuseEdge *edge = &g->edges[g->out[s]];
    if ((part || edge->value == value) && g->ops[edge->to].phase > last) last = g->ops[edge->to].phase;
  }
  return last;
}

// Storing costs only the write where it goes over a leaf that nobody reads after this group.
static bool overwrites_leaf(FuseGraph *g, int root, const Cone *cone, int64_t bytes) {
  const FuseGroup *group = &g->groups[root];
  if (group->axes && !fuse_group_is_row(group)) return false;
  for (int i = 0; i < cone->n; i++) {
    MlirValue v = g->values[cone->leaf[i]];
    if (mlirValueIsABlockArgument(v) || is_part(g, v) || fuse_value_bytes(g, cone->leaf[i]) != bytes) continue;
    const FuseOp *o = &g->ops[ptr_map_get(&g->op_ids, mlirOpResultGetOwner(v).ptr)];
    bool dies = true;
    for (int s = o->first_out; s < o->first_out + o->n_out; s++) {
      const FuseEdge *edge = &g->edges[g->out[s]];
      dies &= edge->value != cone->leaf[i] || g->groups[fuse_find(g, edge->to)].position <= group->position;
    }
    if (dies) return true;
  }
  return false;
}

// Of a cast to a wider type what is stored is its operand, which other kernels cast again: bf16 in place of f32 is half
// the bytes to write and to read. -1: op is no such cast of a value that this kernel computes.
static int narrower_operand(FuseGraph *g, int op) {
  const FuseOp *o = &g->ops[op];
  if (o->kind != NN_OP_cast) return -1;
  MlirValue x = mlirOperationGetOperand(o->op, 0);
  if (nn_dtype_bytes(nn_value_dtype(x)) >= nn_dtype_bytes(o->shape->dtype) || mlirValueIsABlockArgument(x)) return -1;
  int def = ptr_map_get(&g->op_ids, mlirOpResultGetOwner(x).ptr);
  return def >= 0 && g->ops[def].klass == FUSE_NODE && fuse_find(g, def) == fuse_find(g, op) ? def : -1;
}

enum { MAX_READERS = 16 };

// The other kernels that read op's value.
typedef struct Readers {
  bool by_point;                // all of them can compute it at their own points
  int n, groups[MAX_READERS];   // n: MAX_READERS + 1 for any that are more
  FusePhase last;
} Readers;

static Readers readers_of(FuseGraph *g, int op) {
  const FuseOp *o = &g->ops[op];
  Readers r = {.by_point = true, .last = FUSE_FORWARD};
  for (int s = o->first_out; s < o->first_out + o->n_out && r.by_point; s++) {
    const FuseEdge *edge = &g->edges[g->out[s]];
    int to = fuse_find(g, edge->to);
    if (edge->value < 0 || to == fuse_find(g, op)) continue;
    r.by_point = g->ops[to].klass == FUSE_NODE && edge->via == FUSE_DIRECT &&
                 nn_shape_equal(g->groups[to].shape, o->shape);
    if (g->ops[edge->to].phase > r.last) r.last = g->ops[edge->to].phase;
    bool seen = false;
    for (int i = 0; i < r.n && i < MAX_READERS; i++) seen |= r.groups[i] == to;
    if (seen || r.n > MAX_READERS) continue;
    if (r.n < MAX_READERS) r.groups[r.n] = to;
    r.n++;
  }
  return r;
}

// Whether reading v, an argument, in another kernel than `root` would keep its update from being done in place. A few
// numbers (the weight of a norm, whose sums this kernel makes) may be read later where their update is a kernel of its
// own: that waits. In @accumulate, which has none, as in @train, where with sums over micro-batches each is one.
static bool is_overwritten_by(FuseGraph *g, int root, MlirValue v, bool few) {
  int writer = mlirValueIsABlockArgument(v) ? g->writer[nn_value_index(v)] : FUSE_NO_WRITER;
  if (writer == FUSE_NO_WRITER || !few) return writer != FUSE_NO_WRITER;
  return writer != FUSE_OTHER_WRITER && fuse_find(g, writer) == root;
}

// narrower: what would be stored in place of op's value, or -1.
static bool worth_inlining(FuseGraph *g, int op, int narrower) {
  const FuseOp *o = &g->ops[op];
  if (nn_op_info(o->kind)->kind != NN_KIND_MAP) return false;
  Readers readers = readers_of(g, op);
  if (!readers.by_point || readers.n == 0 || readers.n > MAX_READERS) return false;
  int root = fuse_find(g, op);
  Cone cone = {.legal = true};
  walk_cone(g, op, root, &cone);
  if (!cone.legal) return false;
  NnType stored = nn_value_type(mlirOperationGetResult(narrower < 0 ? o->op : g->ops[narrower].op, 0));
  int64_t size = nn_type_bytes(&stored);
  double bytes = (double)size;
  double elements = (double)nn_type_elements(o->shape);
  // A write also reads the line it fills, unless that has just been read.
  double store = bytes * ((overwrites_leaf(g, root, &cone, size) ? 1 : 2) + readers.n),
         again = readers.n * cone.work * elements;
  double kept = 0;
  for (int i = 0; i < cone.n; i++) {
    double leaf = (double)fuse_value_bytes(g, cone.leaf[i]);
    MlirValue v = g->values[cone.leaf[i]];
    bool overwritten = readers.last > FUSE_FORWARD && is_overwritten_by(g, root, v, leaf <= bytes / 16);
    for (int u = 0; u < readers.n; u++) {
      if (group_reads(g, readers.groups[u], cone.leaf[i])) continue;
      if (overwritten) return false;   // a later reader would keep the update from being done in place
      again += leaf;
    }
    // means and variances are small change
    if (leaf > bytes / 16 && last_phase_of_value(g, cone.leaf[i]) < readers.last) kept += leaf;
  }
  if (again >= store || kept > bytes) return false;
  for (int u = 0; u < readers.n; u++)
    if (count_buffers(g, readers.groups[u], readers.groups[u]) + cone.n > FUSE_BUFFERS) return false;
  return true;
}

void fuse_choose_inlined(FuseGraph *g) {
  for (int i = 0; i < g->n; i++) {
    FuseOp *o = &g->ops[i];
    if (o->klass != FUSE_NODE) continue;
    int narrower = narrower_operand(g, i);
    o->inlined = worth_inlining(g, i, narrower);
    if (o->inlined || narrower < 0) continue;
    Readers readers = readers_of(g, i);
    if (!readers.by_point || readers.n == 0) continue;
    o->inlined = true;
    g->ops[narrower].kept = !g->ops[narrower].inlined;
  }
}
