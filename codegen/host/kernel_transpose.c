// Maps that read operands along another axis than they write: a tile of as many rows as vectors have lanes is loaded
// along the axis that is read, exchanged in registers, and kept on the stack, where its points find vectors along the
// axis that is written. So memory is read and written in whole vectors.
#include <stdlib.h>

#include "codegen/host/host.h"
#include "codegen/kernel/transposed.h"
#include "support/alloc.h"
#include "support/integers.h"
#include "support/text.h"

enum { PANEL = 16 };   // tiles of an outer iteration

// Pairs, say, that are copied together: elements of the inner axis as one of a wider type.
typedef struct Tiles {
  Transposed t;
  Nest nest;
  int stack[MAX_TRANSPOSED];   // SSA ids
  int64_t run;                 // elements of a copy that are moved as one
  NnDtype dtype;               // and its type
  Access to;
} Tiles;

// ---------------------------------------------------------------------------------------------------------------------
// Copies

static const NnDtype wide_types[] = {NN_I32, NN_I64};

// A copy of an argument whose innermost axis is short and has no gaps on either side: its elements become one.
static bool join_runs(const Kernel *k, Tiles *tiles) {
  Nest *nest = &tiles->nest;
  int arg;
  Layout layout;
  IndexMap domain = index_map_domain(k);
  if (k->n_results != 1 || nest->n < 2 || !layout_of_argument(k->result[0], &arg, &layout)) return false;
  Access from = access_compose(&layout, &domain);
  Layout own = layout_row_major(&k->result_type[0]);
  tiles->to = access_compose(&own, &domain);
  int64_t run = nest->extent[nest->n - 1], bytes = run * nn_dtype_bytes(k->result_type[0].dtype);
  if (from.stride[nest->axis[nest->n - 1]] != 1 || from.offset % run) return false;
  for (int g = 0; g + 1 < nest->n; g++)
    if (from.stride[nest->axis[g]] % run) return false;
  for (size_t i = 0; i < sizeof wide_types / sizeof *wide_types; i++) {
    if (nn_dtype_bytes(wide_types[i]) != bytes) continue;
    tiles->run = run;
    tiles->dtype = wide_types[i];
    from.offset /= run;
    for (int a = 0; a < NN_MAX_RANK; a++) from.stride[a] /= run, tiles->to.stride[a] /= run;
    nest->n--;
    // The innermost axis is left out: elements are runs now.
    for (int g = 0; g < nest->n; g++)
      if (from.stride[nest->axis[g]] == 1) tiles->t.across = g;
    tiles->t.along = nest->n - 1;
    tiles->t.n = 1;
    tiles->t.leaf[0] = (TransposedLeaf){arg, tiles->dtype, from};
    return true;
  }
  return false;
}

// ---------------------------------------------------------------------------------------------------------------------
// A tile

static void bind_lanes(Emitter *e, int group, Value first) {
  e->vector_group = group;
  e->vector_index[0] = first.id;
  e->index_depth[group] = first.depth;
}

static void bind(Emitter *e, int group, Value index) {
  e->index_id[group] = index.id;
  e->index_depth[group] = index.depth;
}

// Exchanges the quarters of ever smaller squares (Eklundh, 1972).
static void transpose(Emitter *e, NnDtype dtype, Value *v) {
  TypeName type = vector_type(e, dtype);
  for (int d = e->lanes / 2; d > 0; d /= 2) {
    Text low = {0}, high = {0};
    for (int l = 0; l < e->lanes; l++) {
      text_add(&low, "%s%d", l ? ", " : "", l & d ? e->lanes + l - d : l);
      text_add(&high, "%s%d", l ? ", " : "", l & d ? e->lanes + l : l + d);
    }
    for (int i = 0; i < e->lanes; i++) {
      if (i & d) continue;
      Value a = v[i], b = v[i + d];
      v[i] = emit_of(e, "vector.shuffle", OF(a, b), "%%, %% [%s] : %s, %s", low.data, type.text, type.text);
      v[i + d] = emit_of(e, "vector.shuffle", OF(a, b), "%%, %% [%s] : %s, %s", high.data, type.text, type.text);
    }
    text_free(&low);
    text_free(&high);
  }
}

// `rows` of a tile, of `columns` elements where they are read; along and across are the indices of its first element.
static void fill(Emitter *e, const Tiles *tiles, int leaf, Value along, Value across, int rows, int columns) {
  const TransposedLeaf *from = &tiles->t.leaf[leaf];
  TypeName type = vector_type(e, from->dtype);
  Value *v = allocate_array((size_t)e->lanes, sizeof *v);
  bool vary;
  int64_t stride;
  bind(e, tiles->t.along, along);
  bind_lanes(e, tiles->t.across, across);
  Value offset = emit_offset(e, &from->access, &vary, &stride);
  emit_set_mask(e, columns);
  for (int i = 0; i < e->lanes; i++) {
    Value at = emit_index_with(e, "addi", offset, i * from->access.stride[tiles->nest.axis[tiles->t.along]]);
    v[i] = i < rows ? emit_load_at(e, from->arg, from->dtype, at) : emit_splat(e, from->dtype, 0);
  }
  emit_set_mask(e, e->lanes);
  transpose(e, from->dtype, v);
  for (int j = 0; j < columns; j++) {
    Value to = emit(e, e->depth, "llvm.getelementptr", VALUES(tiles->stack[leaf]), "%%[%d] : (!buffer) -> !buffer, %s",
                    j, type.text);
    emit_effect(e, "llvm.store", VALUES(v[j].id, to.id), "%%, %% {alignment = %d : i64} : %s, !buffer",
                e->lanes * (int)nn_dtype_bytes(nn_dtype_wide(from->dtype)), type.text);
  }
  free(v);
}

static Value take(Emitter *e, const Tiles *tiles, int leaf) {
  NnDtype dtype = tiles->t.leaf[leaf].dtype;
  TypeName type = vector_type(e, dtype);
  Value from = emit(e, e->depth, "llvm.getelementptr", VALUES(tiles->stack[leaf], tiles->t.place.id),
                    "%%[%%] : (!buffer, i64) -> !buffer, %s", type.text);
  Value v = emit(e, e->depth, "llvm.load", VALUES(from.id), "%% {alignment = %d : i64} : !buffer -> %s",
                 e->lanes * (int)nn_dtype_bytes(nn_dtype_wide(dtype)), type.text);
  v.varies = true;
  return v;
}

// Emitter.load_tiled
static bool load_tile(Emitter *e, int buffer, const Access *a, Value *out) {
  const Tiles *tiles = e->tiled;
  int leaf = transposed_leaf(&tiles->t, buffer, a);
  if (leaf >= 0) *out = take(e, tiles, leaf);
  return leaf >= 0;
}

static void emit_tile(Emitter *e, Tiles *tiles, Value along, Value across, int rows, int columns) {
  for (int i = 0; i < tiles->t.n; i++) fill(e, tiles, i, along, across, rows, columns);
  Value j = for_begin(e, emit_i64(e, 0), emit_i64(e, columns), 1, 0, NULL, NULL, NULL);
  tiles->t.place = j;
  bind(e, tiles->t.across, emit_index(e, "addi", across, j));
  bind_lanes(e, tiles->t.along, along);
  emit_set_mask(e, rows);
  if (tiles->run > 1) {
    emit_store(e, e->k->n_args, tiles->dtype, &tiles->to, take(e, tiles, 0));
  } else {
    e->tiled = tiles;
    e->load_tiled = load_tile;
    kernel_emit_point(e);
    e->load_tiled = NULL;
  }
  emit_set_mask(e, e->lanes);
  for_end(e, 0, NULL, NULL, NULL);
}

// ---------------------------------------------------------------------------------------------------------------------

// Known in this scope only: nothing is hoisted out of the test for what is left over.
static Value here(Emitter *e, Value v) { return (Value){v.id, e->depth, false}; }

// The tiles of a panel.
static void emit_panel(Emitter *e, Tiles *tiles, Value along, Value panel, int rows) {
  int64_t extent = tiles->nest.extent[tiles->t.across], rest = extent % e->lanes, whole = extent - rest;
  Value first = emit_index_with(e, "muli", panel, PANEL * e->lanes);
  if (whole) {
    Value end = emit_index_with(e, "minsi", emit_index_with(e, "addi", first, PANEL * e->lanes), whole);
    Value across = for_begin(e, first, end, e->lanes, 0, NULL, NULL, NULL);
    emit_tile(e, tiles, here(e, along), across, rows, e->lanes);
    for_end(e, 0, NULL, NULL, NULL);
  }
  if (!rest) return;
  if_begin(e, emit_index_compare_with(e, "eq", panel, extent / (PANEL * e->lanes)));
  emit_tile(e, tiles, here(e, along), here(e, emit_i64(e, whole)), rows, (int)rest);
  if_end(e, 0, NULL, NULL, NULL, NULL);
}

static void add_head(KernelModule *m, const Kernel *k, const Tiles *tiles, int lanes, int64_t outer) {
  char *space = text_format("outer loop: %lld iterations; tiles of %d x %d: %d operand%s read along an axis of %lld, "
                            "results written along one of %lld",
                            (long long)outer, lanes, lanes, tiles->t.n, tiles->t.n == 1 ? "" : "s",
                            (long long)tiles->nest.extent[tiles->t.across],
                            (long long)tiles->nest.extent[tiles->t.along]);
  kernel_comment(m, k, space);
  free(space);
}

static bool find_tiles(const KernelModule *m, const Kernel *k, const Nest *nest, Tiles *tiles, int *lanes) {
  *tiles = (Tiles){.nest = *nest, .run = 1};
  *lanes = kernel_lanes(m, k);
  tiles->t.across = -1;
  if (join_runs(k, tiles)) {
    *lanes = m->target.vector_bytes / (int)nn_dtype_bytes(tiles->dtype);
    return tiles->t.across >= 0 && *lanes > 1 && tiles->nest.extent[tiles->t.across] >= *lanes / 2;
  }
  bool found = *lanes > 1 && transposed_find(k, &tiles->nest, 2, *lanes / 2, &tiles->t);
  for (int i = 0; i < tiles->t.n; i++) found = found && tiles->t.leaf[i].dtype != NN_I1;
  return found;
}

bool kernel_emit_transposed(KernelModule *m, const Kernel *k, const Nest *nest, EmittedKernel *out) {
  Tiles tiles;
  Emitter e;
  int lanes, groups[NN_MAX_RANK], n = 0;
  if (!find_tiles(m, k, nest, &tiles, &lanes)) return false;
  int along = tiles.t.along, across = tiles.t.across;
  int64_t extent = tiles.nest.extent[along], blocks = divide_up(extent, lanes),
          panels = divide_up(tiles.nest.extent[across], (int64_t)PANEL * lanes), outer = 1;
  for (int g = 0; g < tiles.nest.n; g++)
    if (g != along && g != across) groups[n++] = g, outer *= tiles.nest.extent[g];
  outer *= blocks * panels;
  add_head(m, k, &tiles, lanes, outer);
  emitter_begin(&e, m, k, k->name, k->n_args + k->n_results);
  e.nest = tiles.nest;
  e.valid = e.lanes = lanes;
  for (int i = 0; i < tiles.t.n; i++)
    tiles.stack[i] = emit(&e, 0, "llvm.alloca", VALUES(emit_i64(&e, lanes).id),
                          "%% x %s {alignment = %d : i64} : (i64) -> !buffer",
                          vector_type(&e, tiles.t.leaf[i].dtype).text, m->target.vector_bytes)
                         .id;
  Value p = for_begin(&e, (Value){1, 0, false}, (Value){2, 0, false}, 1, 0, NULL, NULL, NULL);
  Value block = emit_index_with(&e, "remui", p, blocks), rest = emit_index_with(&e, "divui", p, blocks);
  Value panel = emit_index_with(&e, "remui", rest, panels);
  if (n) emit_split_index(&e, emit_index_with(&e, "divui", rest, panels), n, groups);
  Value first = emit_index_with(&e, "muli", block, lanes);
  for (int part = 0; part < 2; part++) {
    int rows = part ? (int)(extent % lanes) : lanes;
    if (part ? !rows : extent < lanes) continue;
    if_begin(&e, emit_index_compare_with(&e, part ? "eq" : "ne", block, extent % lanes ? extent / lanes : blocks));
    emit_panel(&e, &tiles, first, panel, rows);
    if_end(&e, 0, NULL, NULL, NULL, NULL);
  }
  for_end(&e, 0, NULL, NULL, NULL);
  emitter_end(&e);
  kernel_add_launch(out, copy_string(k->name), outer, (double)lanes * PANEL * lanes * (tiles.t.n + k->n_results) / 2);
  return true;
}
