// Index maps, strides of leaves, and the loop nest they allow: axes are joined where every leaf runs through them in
// one stride.
#include <stdlib.h>
#include <string.h>

#include "codegen/kernel/kernel.h"
#include "support/alloc.h"

static const IndexTerm zero_term = {-1, 0, 0};

// An axis of size 1 is the constant 0 in every map, so that equal accesses have equal maps.
static IndexMap map_over_axes(const Kernel *k, bool with_reduced) {
  IndexMap map = {0};
  for (int a = 0; a < k->domain.rank; a++)
    if (with_reduced || !k->reduced[a]) map.term[map.rank++] = k->domain.dim[a] == 1 ? zero_term : (IndexTerm){a, 1, 0};
  return map;
}

IndexMap index_map_domain(const Kernel *k) { return map_over_axes(k, true); }
IndexMap index_map_kept(const Kernel *k) { return map_over_axes(k, false); }

bool access_equal(const Access *a, const Access *b) { return memcmp(a, b, sizeof *a) == 0; }

bool index_map_equal(const IndexMap *a, const IndexMap *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->term[i].axis != b->term[i].axis || a->term[i].scale != b->term[i].scale ||
        a->term[i].offset != b->term[i].offset)
      return false;
  return true;
}

static bool map_through_reshape(const NnType *from, const NnType *to, const IndexMap *result, IndexMap *operand) {
  int j = 0;
  for (int i = 0; i < from->rank; i++) {
    operand->term[i] = zero_term;
    if (from->dim[i] == 1) continue;
    while (j < to->rank && to->dim[j] == 1) j++;
    if (j == to->rank || to->dim[j] != from->dim[i]) return false;
    operand->term[i] = result->term[j++];
  }
  return true;
}

bool index_map_through_view(MlirOperation view, const IndexMap *result, IndexMap *operand) {
  NnType from = nn_value_type(mlirOperationGetOperand(view, 0)), to = nn_value_type(mlirOperationGetResult(view, 0));
  int64_t a[NN_MAX_RANK], b[NN_MAX_RANK];
  *operand = (IndexMap){.rank = from.rank};
  switch (nn_op_of(view)) {
  case NN_OP_broadcast:
    nn_attr_i64s(view, "dims", a, NN_MAX_RANK);
    for (int i = 0; i < from.rank; i++) operand->term[i] = from.dim[i] == 1 ? zero_term : result->term[a[i]];
    return true;
  case NN_OP_transpose:
    nn_attr_i64s(view, "perm", a, NN_MAX_RANK);
    for (int i = 0; i < from.rank; i++) operand->term[a[i]] = result->term[i];
    return true;
  case NN_OP_slice:
    nn_attr_i64s(view, "starts", a, NN_MAX_RANK);
    nn_attr_i64s(view, "strides", b, NN_MAX_RANK);
    for (int i = 0; i < from.rank; i++) {
      IndexTerm t = result->term[i];
      operand->term[i] = (IndexTerm){t.axis, t.scale * b[i], a[i] + t.offset * b[i]};
    }
    return true;
  case NN_OP_reshape: return map_through_reshape(&from, &to, result, operand);
  default: return false;
  }
}

Layout layout_row_major(const NnType *t) {
  Layout l = {.rank = t->rank};
  nn_row_major_strides(t, l.stride);
  return l;
}

static bool view_layout(MlirOperation op, const Layout *in, Layout *out) {
  NnType from = nn_value_type(mlirOperationGetOperand(op, 0)), to = nn_value_type(mlirOperationGetResult(op, 0));
  int64_t a[NN_MAX_RANK], b[NN_MAX_RANK];
  *out = (Layout){.rank = to.rank, .offset = in->offset};
  switch (nn_op_of(op)) {
  case NN_OP_broadcast:
    nn_attr_i64s(op, "dims", a, NN_MAX_RANK);
    for (int i = 0; i < from.rank; i++)
      if (from.dim[i] != 1) out->stride[a[i]] = in->stride[i];
    return true;
  case NN_OP_transpose:
    nn_attr_i64s(op, "perm", a, NN_MAX_RANK);
    for (int i = 0; i < to.rank; i++) out->stride[i] = in->stride[a[i]];
    return true;
  case NN_OP_slice:
    nn_attr_i64s(op, "starts", a, NN_MAX_RANK);
    nn_attr_i64s(op, "strides", b, NN_MAX_RANK);
    for (int i = 0; i < to.rank; i++) {
      out->offset += a[i] * in->stride[i];
      out->stride[i] = in->stride[i] * b[i];
    }
    return true;
  case NN_OP_reshape: return nn_reshape_strides(&from, &to, in->stride, out->stride);
  default: return false;
  }
}

bool layout_of_argument(MlirValue v, int *arg, Layout *layout) {
  if (mlirValueIsABlockArgument(v)) {
    NnType t = nn_value_type(v);
    *arg = nn_value_index(v);
    *layout = layout_row_major(&t);
    return true;
  }
  MlirOperation op = nn_value_def(v);
  NnOp kind = nn_op_of(op);
  if (kind == NN_OP_NONE || nn_op_info(kind)->kind != NN_KIND_VIEW) return false;
  Layout in;
  return layout_of_argument(mlirOperationGetOperand(op, 0), arg, &in) && view_layout(op, &in, layout);
}

Access access_compose(const Layout *layout, const IndexMap *map) {
  require_promise(layout->rank == map->rank, "an index map of another rank than its value");
  Access a = {.offset = layout->offset};
  for (int i = 0; i < map->rank; i++) {
    a.offset += layout->stride[i] * map->term[i].offset;
    if (map->term[i].axis >= 0) a.stride[map->term[i].axis] += layout->stride[i] * map->term[i].scale;
  }
  return a;
}

// ---------------------------------------------------------------------------------------------------------------------

typedef struct Visited {
  const void *value;
  IndexMap map;
} Visited;
typedef struct Walk {
  LeafFn fn;
  void *user;
  int n;
  Visited *visited;   // Owned
} Walk;

static bool visit_once(Walk *w, MlirValue v, const IndexMap *map) {
  for (int i = 0; i < w->n; i++)
    if (w->visited[i].value == v.ptr && index_map_equal(&w->visited[i].map, map)) return false;
  *ARRAY_ADD(w->visited, w->n) = (Visited){v.ptr, *map};
  return true;
}

static void walk(Walk *w, MlirValue v, const IndexMap *map) {
  if (!visit_once(w, v, map)) return;
  int arg;
  Layout layout;
  if (layout_of_argument(v, &arg, &layout)) {
    Access a = access_compose(&layout, map);
    w->fn(w->user, arg, v, &a);
    return;
  }
  MlirOperation op = nn_value_def(v);
  NnOp kind = nn_op_of(op);
  NnOpKind family = nn_op_info(kind)->kind;
  if (family == NN_KIND_VIEW) {
    IndexMap inner;
    bool ok = index_map_through_view(op, map, &inner);
    require_promise(ok, "a reshape of a computed value inside a kernel");
    walk(w, mlirOperationGetOperand(op, 0), &inner);
    return;
  }
  if (kind == NN_OP_iota || kind == NN_OP_random_uniform || family == NN_KIND_REDUCE || family == NN_KIND_LIBRARY) {
    NnType type = nn_value_type(v);
    Layout own = layout_row_major(&type);
    if (kind == NN_OP_iota)
      for (int i = 0; i < own.rank; i++) own.stride[i] = i == nn_attr_i64(op, "axis", 0);
    Access a = access_compose(&own, map);
    w->fn(w->user, -1, v, &a);
  }
  if (kind == NN_OP_random_uniform) {
    IndexMap key = {.rank = 1, .term = {{-1, 0, 0}}};
    walk(w, mlirOperationGetOperand(op, 0), &key);
  } else if (family == NN_KIND_MAP) {
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) walk(w, mlirOperationGetOperand(op, i), map);
  }
}

void kernel_walk_leaves(const Kernel *k, MlirValue v, const IndexMap *map, LeafFn fn, void *user) {
  (void)k;
  Walk w = {.fn = fn, .user = user};
  walk(&w, v, map);
  free(w.visited);
}

void kernel_walk_all_leaves(const Kernel *k, LeafFn fn, void *user) {
  Walk w = {.fn = fn, .user = user};
  IndexMap domain = index_map_domain(k), kept = index_map_kept(k);
  MlirBlock body = nn_function_body(k->func);
  NN_FOREACH_OP (op, body) {
    NnOp kind = nn_op_of(op);
    if (kind != NN_OP_NONE && nn_op_info(kind)->kind == NN_KIND_REDUCE)
      walk(&w, mlirOperationGetOperand(op, 0), &domain);
  }
  for (int i = 0; i < k->n_results; i++) {
    const IndexMap *map = kernel_is_kept_shaped(k, &k->result_type[i]) ? &kept : &domain;
    walk(&w, k->result[i], map);
    Layout own = layout_row_major(&k->result_type[i]);
    Access a = access_compose(&own, map);
    fn(user, -1, k->result[i], &a);
  }
  free(w.visited);
}

// ---------------------------------------------------------------------------------------------------------------------

static void collect_access(void *user, int arg, MlirValue value, const Access *a) {
  (void)arg, (void)value;
  AccessList *list = user;
  *ARRAY_ADD(list->items, list->n) = *a;
}

static AxisClass axis_class(const Kernel *k, int axis) {
  if (k->reduced[axis]) return AXIS_REDUCED;
  for (int a = 0; a < axis; a++)
    if (k->reduced[a]) return AXIS_INNER;
  return AXIS_KEPT;
}

void nest_build(const Kernel *k, Nest *nest) {
  AccessList list = {0};
  kernel_walk_all_leaves(k, collect_access, &list);
  *nest = (Nest){0};
  for (int a = 0; a < k->domain.rank; a++) {
    int64_t extent = k->domain.dim[a];
    if (extent == 1) continue;
    AxisClass klass = axis_class(k, a);
    int last = nest->n - 1;
    bool join = last >= 0 && nest->klass[last] == klass;
    for (int i = 0; i < list.n && join; i++)
      join = list.items[i].stride[nest->axis[last]] == list.items[i].stride[a] * extent;
    if (!join) {
      last = nest->n++;
      nest->extent[last] = 1;
      nest->klass[last] = klass;
    }
    nest->extent[last] *= extent;
    nest->axis[last] = a;
  }
  free(list.items);
}
