// The graph that `fuse` works on: one record per op of a public function, its class, and its dependences. A value that
// is cloned into its users (a broadcast, a constant) does not appear in the graph; its users depend on what it reads.
#include <stdlib.h>
#include <string.h>

#include "passes/fuse/fuse.h"
#include "passes/passes.h"
#include "passes/plan/plan.h"
#include "passes/rewrite.h"
#include "support/alloc.h"

static NnOpKind kind_of(const FuseOp *o) { return o->kind == NN_OP_NONE ? NN_KIND_LIBRARY : nn_op_info(o->kind)->kind; }

static int n_operands(MlirOperation op) { return (int)mlirOperationGetNumOperands(op); }

static int def_of(const FuseGraph *g, MlirValue v) {
  if (mlirValueIsABlockArgument(v)) return -1;
  return ptr_map_get(&g->op_ids, mlirOpResultGetOwner(v).ptr);
}

static FusePhase phase_of(MlirOperation op) { return (FusePhase)(1 << rewrite_phase_rank(rewrite_phase(op))); }

// ---------------------------------------------------------------------------------------------------------------------
// Absorbed views. A view that only another view reads need not exist in memory, as long as the chain is one strided
// load.

// The strides of what the view shows, from those of its operand. False: no strides show it.
static bool view_strides(const FuseOp *o, int64_t *stride) {
  NnType from = nn_value_type(nn_operand(o->op, 0)), to = nn_value_type(mlirOperationGetResult(o->op, 0));
  int64_t a[NN_MAX_RANK], in[NN_MAX_RANK];
  memcpy(in, stride, sizeof in);
  switch (o->kind) {
  case NN_OP_reshape: return nn_reshape_strides(&from, &to, in, stride);
  case NN_OP_transpose:
    nn_attr_i64s(o->op, "perm", a, NN_MAX_RANK);
    for (int i = 0; i < to.rank; i++) stride[i] = in[a[i]];
    return true;
  default:
    nn_attr_i64s(o->op, "strides", a, NN_MAX_RANK);
    for (int i = 0; i < to.rank; i++) stride[i] = in[i] * a[i];
    return true;
  }
}

static bool is_layout_view(const FuseOp *o) {
  return o->kind == NN_OP_transpose || o->kind == NN_OP_slice || o->kind == NN_OP_reshape;
}

static int only_user(const FuseGraph *g, MlirValue v) {
  MlirOpOperand use = mlirValueGetFirstUse(v);
  if (mlirOpOperandIsNull(use) || !mlirOpOperandIsNull(mlirOpOperandGetNextUse(use))) return -1;
  return ptr_map_get(&g->op_ids, mlirOpOperandGetOwner(use).ptr);
}

static bool is_absorbed_view(const FuseOp *o) { return is_layout_view(o) && o->klass == FUSE_CLONED; }

// A reshape as an alias after all, and so are the reshapes right before it; the view before these is computed.
static void settle_in_memory(FuseGraph *g, int reshape) {
  bool chained = true;
  for (int i = reshape; chained; i = def_of(g, nn_operand(g->ops[i].op, 0))) {
    chained = g->ops[i].kind == NN_OP_reshape;
    g->ops[i].klass = chained ? FUSE_FIXED : FUSE_NODE;
    int p = def_of(g, nn_operand(g->ops[i].op, 0));
    chained = chained && p >= 0 && is_absorbed_view(&g->ops[p]);
  }
}

// Views of what kernels compute for themselves: their index cannot be taken apart, as a reshape may ask for.
static void settle_computed(FuseGraph *g) {
  for (int i = 0; i < g->n; i++) {
    if (g->ops[i].kind != NN_OP_reshape || g->ops[i].klass != FUSE_CLONED) continue;
    int p = i;
    while (p >= 0 && is_absorbed_view(&g->ops[p])) p = def_of(g, nn_operand(g->ops[p].op, 0));
    if (p >= 0 && g->ops[p].klass == FUSE_CLONED) settle_in_memory(g, i);
  }
}

// Classes of views, users first: a view whose only user is a view of the chain is absorbed, and so is a reshape between
// such a view and an op that can load through it. Then, operands first, a reshape that breaks the stride is put back
// into memory.
static void classify_views(FuseGraph *g) {
  for (int i = g->n - 1; i >= 0; i--) {
    FuseOp *o = &g->ops[i];
    if (!is_layout_view(o)) continue;
    bool alias = o->alias;
    o->klass = alias ? FUSE_FIXED : FUSE_NODE;
    int producer = def_of(g, nn_operand(o->op, 0));
    bool after_view = producer >= 0 && is_layout_view(&g->ops[producer]) && !g->ops[producer].alias;
    if (producer >= 0 && g->ops[producer].kind == NN_OP_reshape) after_view = true;   // settled below, operands first
    int user = only_user(g, mlirOperationGetResult(o->op, 0));
    if (user < 0) continue;
    const FuseOp *u = &g->ops[user];
    bool view_user = is_layout_view(u) && (!u->alias || u->klass == FUSE_CLONED);
    if (alias && o->kind == NN_OP_reshape && after_view && (view_user || kind_of(u) == NN_KIND_MAP))
      o->klass = FUSE_CLONED;
    if (!alias && view_user) o->klass = FUSE_CLONED;
  }
  int64_t(*stride)[NN_MAX_RANK] = allocate_array((size_t)g->n, sizeof *stride);
  for (int i = 0; i < g->n; i++) {
    FuseOp *o = &g->ops[i];
    if (!is_layout_view(o)) continue;
    int p = def_of(g, nn_operand(o->op, 0));
    NnType from = nn_value_type(nn_operand(o->op, 0));
    bool chained = p >= 0 && is_absorbed_view(&g->ops[p]);
    if (chained) memcpy(stride[i], stride[p], sizeof *stride);
    else nn_row_major_strides(&from, stride[i]);
    bool ok = view_strides(o, stride[i]);
    if (o->klass == FUSE_FIXED || (chained && ok)) continue;
    if (o->kind != NN_OP_reshape) continue;
    settle_in_memory(g, i);   // nothing to absorb, or no single stride
  }
  free(stride);
}

// ---------------------------------------------------------------------------------------------------------------------
// Classes

static bool is_tiny_base(const FuseGraph *g, MlirValue v) {
  int def = def_of(g, v);
  if (def < 0) return true;   // the alias below takes a few elements of it
  if (!g->ops[def].tiny) return false;
  NnType t = nn_value_type(v);
  return nn_type_elements(&t) <= FUSE_TINY;
}

// What the pass `recompute` made is computed in every kernel that reads it, but for what something reads from memory
// (nn.stored).
static bool classify_recomputed(FuseOp *o) {
  if (!nn_has_attr(o->op, ATTR_recompute)) return false;
  o->recomputed = true;
  o->klass = nn_has_attr(o->op, ATTR_stored) ? FUSE_NODE : FUSE_CLONED;
  o->chain = 1;
  return true;
}

// What a library op or the caller left in memory is cast to a wider type where it is read: kernels that go over it
// along different axes have nothing in common but that tensor.
static bool is_widening(const FuseGraph *g, const FuseOp *o) {
  if (o->kind != NN_OP_cast) return false;
  MlirValue x = nn_operand(o->op, 0);
  int def = def_of(g, x);
  while (def >= 0 && g->ops[def].klass == FUSE_FIXED && g->ops[def].alias)
    def = def_of(g, nn_operand(g->ops[def].op, 0));
  return nn_dtype_bytes(nn_value_dtype(x)) < nn_dtype_bytes(o->shape->dtype) &&
         (def < 0 || g->ops[def].klass == FUSE_FIXED);
}

// A table (of sines of rotary positions, say) that is repeated many times: reading it costs less than computing it at
// each place where it stands.
static bool is_table(MlirValue v, double work) {
  enum { DEAR = 1, MANY = 16 };   // byte of traffic: a sine; times
  if (work < DEAR) return false;
  NnType t = nn_value_type(v);
  int64_t places = 0;
  NN_FOREACH_USE (use, v) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    if (nn_op_of(user) != NN_OP_broadcast) return false;
    NnType to = nn_value_type(mlirOperationGetResult(user, 0));
    places += nn_type_elements(&to);
  }
  return places >= MANY * nn_type_elements(&t);
}

// A map of sources only, or of a few elements of arguments (a learning rate, a bias correction), is cloned like a
// source.
static void classify_map(const FuseGraph *g, FuseOp *o) {
  o->klass = FUSE_NODE;
  if (classify_recomputed(o)) return;
  int chain = 1;
  o->work = nn_op_traffic(o->kind);
  bool sources = true, tiny = nn_type_elements(o->shape) <= FUSE_TINY;
  for (int i = 0; i < n_operands(o->op); i++) {
    MlirValue v = nn_operand(o->op, i);
    int def = def_of(g, v);
    const FuseOp *p = def < 0 ? NULL : &g->ops[def];
    sources &= p && p->klass == FUSE_CLONED && p->source_only;
    tiny &= (p && p->klass == FUSE_CLONED && p->source_only) || is_tiny_base(g, v);
    if (p && p->klass == FUSE_CLONED) chain += p->chain, o->work += p->work;
  }
  if (sources && is_table(mlirOperationGetResult(o->op, 0), o->work)) return;
  bool cheap = !g->alone && (tiny || is_widening(g, o));
  if ((!sources && !cheap) || chain > FUSE_CHAIN) return;
  o->klass = FUSE_CLONED;
  o->chain = chain;
  o->source_only = sources;
  o->tiny = tiny;
}

static void classify_broadcast(const FuseGraph *g, FuseOp *o) {
  o->klass = FUSE_CLONED;
  int def = def_of(g, nn_operand(o->op, 0));
  const FuseOp *p = def < 0 ? NULL : &g->ops[def];
  bool cloned = p && p->klass == FUSE_CLONED;
  o->chain = 1 + (cloned ? p->chain : 0);
  o->source_only = cloned && (p->source_only || p->tiny);
  if (p && p->tiny) {
    NnType t = nn_value_type(nn_operand(o->op, 0));
    o->source_only |= nn_type_elements(&t) <= FUSE_TINY;
  }
}

static bool classify(FuseGraph *g) {
  classify_views(g);
  for (int i = 0; i < g->n; i++) {
    FuseOp *o = &g->ops[i];
    switch (kind_of(o)) {
    case NN_KIND_SOURCE:
      o->klass = FUSE_CLONED;
      o->source_only = true;
      o->chain = 1;
      break;
    case NN_KIND_MAP: classify_map(g, o); break;
    case NN_KIND_REDUCE: o->klass = FUSE_NODE; break;
    case NN_KIND_MOVE: o->klass = FUSE_MOVE; break;
    case NN_KIND_VIEW:
      if (o->kind == NN_OP_broadcast) {
        classify_broadcast(g, o);
      } else if (o->klass == FUSE_NODE) {
        classify_recomputed(o);
      } else if (o->klass == FUSE_FIXED) {
        MlirValue v = nn_operand(o->op, 0);
        int def = def_of(g, v);
        o->tiny = nn_type_elements(o->shape) <= FUSE_TINY &&
                  (def < 0 || (g->ops[def].klass == FUSE_FIXED && g->ops[def].tiny));
      }
      break;
    case NN_KIND_COMPOSITE:
      nn_error(o->op, "'nn.%s' reaches fuse: it must be decomposed first", nn_op_info(o->kind)->name);
      return false;
    default: o->klass = FUSE_FIXED;
    }
  }
  settle_computed(g);
  return true;
}

// What stays in the function, and moves, read memory: a cloned op they use is also a kernel.
static void mark_materialised(FuseGraph *g) {
  for (int i = 0; i < g->n; i++) {
    if (g->ops[i].klass != FUSE_FIXED && g->ops[i].klass != FUSE_MOVE) continue;
    for (int j = 0; j < n_operands(g->ops[i].op); j++) {
      int def = def_of(g, nn_operand(g->ops[i].op, j));
      if (def >= 0 && g->ops[def].klass == FUSE_CLONED) g->ops[def].materialised = true;
    }
  }
}

// It has a group of its own.
static bool fuse_is_node(const FuseGraph *g, int op) {
  return g->ops[op].klass != FUSE_CLONED || g->ops[op].materialised;
}

// ---------------------------------------------------------------------------------------------------------------------
// Edges

static int value_number(FuseGraph *g, MlirValue v) {
  int id = ptr_map_get(&g->value_ids, v.ptr);
  if (id >= 0) return id;
  int n = g->n_values;
  *ARRAY_ADD(g->value_types, n) = nn_type_of(v);
  *ARRAY_ADD(g->values, g->n_values) = v;
  ptr_map_set(&g->value_ids, v.ptr, g->n_values - 1);
  return g->n_values - 1;
}

int64_t fuse_value_bytes(const FuseGraph *g, int value) { return nn_type_bytes(g->value_types[value]); }

static void add_edge(FuseGraph *g, FuseEdge edge) {
  bool merge = g->ops[edge.to].klass != FUSE_FIXED;   // the return may have thousands of operands, each once
  for (int e = g->ops[edge.to].first_in; merge && e < g->n_edges; e++) {
    const FuseEdge *old = &g->edges[e];
    if (old->from == edge.from && old->value == edge.value && old->via == edge.via &&
        !memcmp(old->dims, edge.dims, sizeof old->dims))
      return;
  }
  *ARRAY_ADD(g->edges, g->n_edges) = edge;
}

// How the consumer sees the value at the current place of the walk below.
typedef struct Seen {
  FuseVia via;
  int rank;
  int8_t dims[NN_MAX_RANK];
} Seen;

// An op that one consumer sees twice the same way (x * x, and so on) is walked once.
static bool walked_before(FuseGraph *g, int to, int def, const Seen *seen) {
  FuseOp *o = &g->ops[def];
  bool before = o->walked_by == to + 1 && o->walked_via == seen->via &&
                (seen->via != FUSE_BROADCAST || !memcmp(o->walked_dims, seen->dims, sizeof seen->dims));
  o->walked_by = to + 1;
  o->walked_via = seen->via;
  memcpy(o->walked_dims, seen->dims, sizeof seen->dims);
  return before;
}

static void add_dependences(FuseGraph *g, int to, MlirValue v, Seen seen) {
  int def = def_of(g, v);
  if (def < 0 || g->ops[def].klass != FUSE_CLONED) {
    FuseEdge edge = {.from = def, .to = to, .value = value_number(g, v), .via = seen.via};
    if (seen.via == FUSE_BROADCAST) memcpy(edge.dims, seen.dims, sizeof edge.dims);
    add_edge(g, edge);
    return;
  }
  const FuseOp *o = &g->ops[def];
  if (walked_before(g, to, def, &seen)) return;
  if (o->recomputed && o->kind == NN_OP_slice && seen.via == FUSE_DIRECT) {
    add_edge(g, (FuseEdge){.from = def_of(g, nn_operand(o->op, 0)),
                           .to = to,
                           .value = value_number(g, v),
                           .via = FUSE_PART});
    return;
  }
  if (o->kind == NN_OP_broadcast) {
    int64_t dims[NN_MAX_RANK];
    int n = nn_attr_i64s(o->op, "dims", dims, NN_MAX_RANK);
    Seen inner = {.via = seen.via == FUSE_VIEW ? FUSE_VIEW : FUSE_BROADCAST, .rank = n};
    for (int i = 0; i < n; i++) inner.dims[i] = seen.via == FUSE_BROADCAST ? seen.dims[dims[i]] : (int8_t)dims[i];
    seen = inner;
  } else if (is_layout_view(o)) {
    seen = (Seen){.via = FUSE_VIEW};
  } else if (o->kind == NN_OP_random_uniform) {
    seen = (Seen){.via = FUSE_VIEW};   // the key row is read from memory
  }
  for (int i = 0; i < n_operands(o->op); i++) add_dependences(g, to, nn_operand(o->op, i), seen);
}

static void add_op_edges(FuseGraph *g, int i) {
  FuseOp *o = &g->ops[i];
  o->first_in = g->n_edges;
  if (!fuse_is_node(g, i)) return;
  bool view = is_layout_view(o) && o->klass != FUSE_FIXED;
  Seen seen = {.via = view || o->kind == NN_OP_random_uniform ? FUSE_VIEW : FUSE_DIRECT};
  if (o->klass == FUSE_CLONED) {   // a materialised clone stands alone: how it reads does not matter
    seen.via = FUSE_VIEW;
    for (int j = 0; j < n_operands(o->op); j++) add_dependences(g, i, nn_operand(o->op, j), seen);
    return;
  }
  for (int j = 0; j < n_operands(o->op); j++) {
    MlirValue v = nn_operand(o->op, j);
    if (o->klass == FUSE_NODE) add_dependences(g, i, v, seen);
    else add_edge(g, (FuseEdge){.from = def_of(g, v), .to = i, .value = value_number(g, v), .via = FUSE_VIEW});
  }
}

// The argument whose memory a value is, through aliases; -1: none.
static int argument_of(const FuseGraph *g, MlirValue v) {
  for (;;) {
    if (mlirValueIsABlockArgument(v)) return nn_value_index(v);
    int def = def_of(g, v);
    if (def < 0 || !g->ops[def].alias) return -1;
    v = nn_operand(g->ops[def].op, 0);
  }
}

// Who reads each argument, and which update overwrites it.
typedef struct Access {
  int *readers, n_readers;   // Owned; ops, in order
  int next_written;          // the next argument that the same op overwrites, -1 ends
} Access;

// An update overwrites its argument, so who reads the argument comes first. Appended to the edges of the writer while
// its slice is the last one.
static void add_order_edges(FuseGraph *g, int i, const Access *access, int first_written) {
  for (int a = first_written; a >= 0; a = access[a].next_written)
    for (int r = 0; r < access[a].n_readers; r++)
      if (access[a].readers[r] < i)
        add_edge(g, (FuseEdge){.from = access[a].readers[r], .to = i, .value = -1, .via = FUSE_ORDER});
}

// First argument that each op overwrites, or -1; the others follow in next_written. Owned: free().
static int *find_writers(FuseGraph *g, Access *access, int n_args) {
  int *first = allocate_array((size_t)g->n, sizeof *first);
  for (int i = 0; i < g->n; i++) first[i] = -1;
  MlirOperation ret = nn_function_return(g->func);
  for (int r = 0; r < nn_function_n_results(g->func); r++) {
    int64_t tied = nn_result_i64(g->func, r, ATTR_tied, -1);
    if (tied < 0 || tied >= n_args) continue;
    MlirValue v = nn_operand(ret, r);
    int def = def_of(g, v);
    while (def >= 0 && g->ops[def].alias) {
      v = nn_operand(g->ops[def].op, 0);
      def = def_of(g, v);
    }
    g->writer[tied] = def < 0 ? FUSE_OTHER_WRITER : def;
    if (def < 0) continue;
    access[tied].next_written = first[def];
    first[def] = (int)tied;
  }
  return first;
}

// @accumulate has the kernels of @train, so that a micro-batch's gradients are the same bits in both: what only @train
// updates counts as overwritten in it, too.
static void mark_updated_by_train(FuseGraph *g, int n_args) {
  if (!nn_is_accumulate(g->func)) return;
  MlirOperation train = nn_train_of(nn_module_of(g->func), g->func);
  PtrMap updated = {0};
  for (int r = 0; !mlirOperationIsNull(train) && r < nn_function_n_results(train); r++) {
    int tied = (int)nn_result_i64(train, r, ATTR_tied, -1);
    if (tied >= 0) ptr_map_set(&updated, nn_arg_attr(train, tied, ATTR_name).ptr, 1);
  }
  for (int a = 0; a < n_args; a++)
    if (g->writer[a] == FUSE_NO_WRITER && ptr_map_get(&updated, nn_arg_attr(g->func, a, ATTR_name).ptr) > 0)
      g->writer[a] = FUSE_OTHER_WRITER;
  ptr_map_free(&updated);
}

static void build_edges(FuseGraph *g) {
  int n_args = nn_function_n_args(g->func);
  Access *access = allocate_array((size_t)n_args, sizeof *access);
  g->writer = allocate_array((size_t)n_args, sizeof *g->writer);
  for (int a = 0; a < n_args; a++) g->writer[a] = FUSE_NO_WRITER;
  int *first_written = find_writers(g, access, n_args);
  mark_updated_by_train(g, n_args);
  for (int i = 0; i < g->n; i++) {
    add_op_edges(g, i);
    for (int e = g->ops[i].first_in; e < g->n_edges; e++) {
      int arg = argument_of(g, g->values[g->edges[e].value]);
      if (arg < 0 || g->ops[i].alias) continue;
      Access *a = &access[arg];
      *ARRAY_ADD(a->readers, a->n_readers) = i;
    }
    if (fuse_is_node(g, i) && g->ops[i].phase != FUSE_FORWARD) add_order_edges(g, i, access, first_written[i]);
    g->ops[i].n_in = g->n_edges - g->ops[i].first_in;
  }
  for (int a = 0; a < n_args; a++) free(access[a].readers);
  free(access);
  free(first_written);
}

static void index_successors(FuseGraph *g) {
  for (int e = 0; e < g->n_edges; e++)
    if (g->edges[e].from >= 0) g->ops[g->edges[e].from].n_out++;
  int sum = 0;
  for (int i = 0; i < g->n; i++) {
    g->ops[i].first_out = sum;
    sum += g->ops[i].n_out;
    g->ops[i].n_out = 0;
  }
  g->out = allocate_array((size_t)sum, sizeof *g->out);
  for (int e = 0; e < g->n_edges; e++) {
    if (g->edges[e].from < 0) continue;
    FuseOp *from = &g->ops[g->edges[e].from];
    g->out[from->first_out + from->n_out++] = e;
  }
}

// ---------------------------------------------------------------------------------------------------------------------

static void read_op(FuseGraph *g, int i, MlirOperation op) {
  FuseOp *o = &g->ops[i];
  static const NnType none = {0};
  *o = (FuseOp){.op = op, .kind = nn_op_of(op), .phase = phase_of(op), .shape = &none};
  ptr_map_set(&g->op_ids, op.ptr, i);
  NnOpKind kind = kind_of(o);
  o->alias = (kind == NN_KIND_VIEW || kind == NN_KIND_TRANSFER) && nn_is_alias(op);
  if (kind == NN_KIND_REDUCE) {
    int64_t axes[NN_MAX_RANK];
    int n = nn_attr_i64s(op, "axes", axes, NN_MAX_RANK);
    for (int a = 0; a < n; a++) o->axes |= 1u << axes[a];
    o->shape = nn_type_of(nn_operand(op, 0));
  } else if (mlirOperationGetNumResults(op) > 0) {
    o->shape = nn_type_of(mlirOperationGetResult(op, 0));
  }
}

bool fuse_graph_build(FuseGraph *g, MlirOperation func, bool alone, bool few_launches) {
  *g = (FuseGraph){.alone = alone, .few_launches = few_launches, .func = func, .block = nn_function_body(func)};
  NN_FOREACH_OP (op, g->block) g->n++;
  g->ops = allocate_array((size_t)g->n, sizeof *g->ops);
  int i = 0;
  NN_FOREACH_OP (op, g->block) read_op(g, i++, op);
  if (!classify(g)) return false;
  mark_materialised(g);
  build_edges(g);
  index_successors(g);
  g->groups = allocate_array((size_t)g->n, sizeof *g->groups);
  g->next = allocate_array((size_t)g->n, sizeof *g->next);
  g->at = allocate_array((size_t)g->n, sizeof *g->at);
  g->stamp = allocate_array((size_t)g->n, sizeof *g->stamp);
  g->value_stamp = allocate_array((size_t)g->n_values, sizeof *g->value_stamp);
  for (i = 0; i < g->n; i++) {
    const FuseOp *o = &g->ops[i];
    g->next[i] = -1;
    g->at[i] = fuse_is_node(g, i) ? i : -1;
    g->groups[i] = (FuseGroup){.parent = i,
                               .first = i,
                               .last = i,
                               .size = 1,
                               .shape = o->shape,
                               .axes = o->axes,
                               .phases = o->phase,
                               .position = i,
                               .has_view = o->kind == NN_OP_transpose && o->klass == FUSE_NODE};
  }
  return true;
}

void fuse_graph_free(FuseGraph *g) {
  free(g->ops);
  free(g->groups);
  free(g->next);
  free(g->edges);
  free(g->out);
  free(g->values);
  free(g->value_types);
  free(g->at);
  free(g->stamp);
  free(g->value_stamp);
  free(g->writer);
  ptr_map_free(&g->value_ids);
  ptr_map_free(&g->op_ids);
  *g = (FuseGraph){0};
}
