// Row and column kernels: tiles, direct or chunked, and the direct form.
#include <math.h>
#include <stdlib.h>

#include "codegen/host/kernel_reduce.h"
#include "support/alloc.h"
#include "support/integers.h"
#include "support/text.h"

static int count_ops(const Kernel *k) {
  int n = 0;
  MlirBlock body = nn_function_body(k->func);
  NN_FOREACH_OP (op, body) {
    NnOp kind = nn_op_of(op);
    n += kind != NN_OP_NONE && nn_op_info(kind)->kind != NN_KIND_VIEW && kind != NN_OP_constant;
  }
  return n;
}

// Several vectors side by side hide the latency of the additions; more text costs compile time.
static int choose_tile(const Reduce *r) {
  int64_t vectors = r->vector_extent / r->lanes;
  int most = count_ops(r->k) > 12 ? 2 : 4;
  if (r->lanes_on_reduced) return vectors >= 8 ? most : vectors >= 4 ? 2 : 1;
  for (int t = most; t > 1; t--)
    if (vectors % t == 0 && vectors) return t;
  return 1;
}

#define MAX_CHUNKS 512
#define STREAM_VECTORS 4     // a row of at least so many vectors is streamed
#define BLOCK_VECTORS 64     // of it, at most so many at a time: a page
#define CHUNK_VECTORS 4096   // and so many in a chunk

static void plan_stream(Reduce *r) {
  int64_t vectors = divide_up(r->vector_extent, r->lanes), blocks = divide_up(vectors, BLOCK_VECTORS);
  vectors = divide_up(vectors, blocks);
  r->stream = true;
  r->block = vectors * r->lanes;
  int64_t rows = CHUNK_VECTORS / vectors, parts = r->outer_extent * blocks, chunks = divide_up(r->row_extent, rows);
  // Enough parts for the threads of a larger machine, if their chunks stay worth the combining.
  if (parts * chunks < 32) chunks = divide_up(32, parts);
  if (chunks > r->row_extent / 16) chunks = r->row_extent / 16;
  if (chunks > MAX_CHUNKS) chunks = MAX_CHUNKS;
  if (chunks < 1) chunks = 1;
  r->chunk_size = round_up(divide_up(r->row_extent, chunks), STREAM_ROWS);
  r->n_chunks = divide_up(r->row_extent, r->chunk_size);
}

static void plan_chunks(Reduce *r) {
  int64_t step = (int64_t)r->tile * r->lanes;
  bool chunk = false;
  if (r->k->kind == KERNEL_COLUMN && r->lanes_on_reduced) {
    chunk = r->row_extent * r->vector_extent > 8192;
    r->chunk_vector = r->row_extent == 1;
    int64_t per_row = r->chunk_vector ? 1 : r->vector_extent,
            total = r->chunk_vector ? r->vector_extent : r->row_extent;
    r->chunk_size = divide_up(4096, per_row);
    if (total / r->chunk_size > MAX_CHUNKS) r->chunk_size = divide_up(total, MAX_CHUNKS);
    if (r->chunk_vector) r->chunk_size = round_up(r->chunk_size, step);
    r->n_chunks = divide_up(total, r->chunk_size);
  } else if (r->k->kind == KERNEL_COLUMN && r->n_units && r->row_extent >= 16 &&
             r->vector_extent >= STREAM_VECTORS * r->lanes) {
    plan_stream(r);
    chunk = true;
  } else if (r->k->kind == KERNEL_COLUMN) {
    int64_t tiles = r->outer_extent * reduce_tiles(r, r->tile);
    chunk = r->row_extent > 4096 || (r->row_extent >= 256 && tiles < 16);
    r->chunk_size = 64;
    if (r->row_extent / r->chunk_size > MAX_CHUNKS) r->chunk_size = divide_up(r->row_extent, MAX_CHUNKS);
    r->n_chunks = divide_up(r->row_extent, r->chunk_size);
  }
  if (!chunk || (r->n_chunks < 2 && !r->stream)) {
    r->n_stages = 0;
    return;
  }
  int64_t kept = r->outer_extent * (r->lanes_on_reduced ? 1 : r->vector_extent), at = 0;
  for (int i = 0; i < r->n_units; i++) {
    Unit *u = &r->units[i];
    int64_t bytes = kept * nn_dtype_bytes(u->dtype);
    u->partial = at;
    at += round_up(bytes * r->n_chunks, 64);
    u->pilot = at;
    if (r->stream && u->kind == UNIT_MEAN) at += round_up(bytes * r->n_chunks, 64);
    u->combined = at;
    if (r->n_stages > 1) at += round_up(bytes, 64);
  }
  r->workspace_bytes = at;
}

static void reduce_plan(const Kernel *k, int lanes, Reduce *r) {
  reduce_plan_values(k, lanes, r);
  r->tile = choose_tile(r);
  plan_chunks(r);
}

int64_t reduce_workspace_bytes(const Kernel *k, int lanes) {
  Reduce r;
  reduce_plan(k, lanes, &r);
  return r.workspace_bytes;
}

// ---------------------------------------------------------------------------------------------------------------------
// Pieces shared with the chunked form

int64_t reduce_tiles(const Reduce *r, int tile) {
  int64_t vectors = r->vector_extent / r->lanes;
  return vectors / tile + (r->vector_extent % r->lanes != 0);
}

static void bind_tile_indices(Emitter *e, const Reduce *r, Value first, int tile) {
  for (int j = 0; j < tile; j++) {
    Value index = j ? emit_index(e, "addi", first, emit_i64(e, (int64_t)j * r->lanes)) : first;
    // Known in the tile's own scope only, so that nothing that depends on it is hoisted above the test for the last
    // tile.
    e->vector_index[j] = index.id;
  }
  e->index_depth[r->vector_group] = e->depth;
}

void reduce_for_tiles(Emitter *e, const Reduce *r, Value tile_index, int tile, TileFn body, void *user) {
  int64_t whole = r->vector_extent / r->lanes / tile;
  int rest = (int)(r->vector_extent % r->lanes);
  Value limit = emit_i64(e, whole);
  for (int part = 0; part < 2; part++) {
    if (part ? !rest : !whole) continue;
    bool both = whole && rest;
    if (both) {
      if_begin(e, emit_index_compare(e, part ? "eq" : "ne", tile_index, limit));
    } else {
      block_begin(e);
    }
    Value first;
    if (part) {
      emit_set_mask(e, rest);
      first = emit(e, e->depth, "arith.constant", NO_VALUES, "%lld : i64", (long long)(r->vector_extent - rest));
    } else {
      first = emit(e, e->depth, "arith.muli", VALUES(tile_index.id, emit_i64(e, (int64_t)tile * r->lanes).id),
                   "%%, %% : i64");
    }
    bind_tile_indices(e, r, first, part ? 1 : tile);
    body(e, r, part ? 1 : tile, user);
    emit_set_mask(e, e->lanes);
    if (both) if_end(e, 0, NULL, NULL, NULL, NULL);
    else block_end(e);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Direct

static void direct_body(Emitter *e, const Reduce *r, int tile, void *user) {
  (void)user;
  IndexMap kept = index_map_kept(r->k);
  int64_t count = r->row_extent * (r->lanes_on_reduced ? r->vector_extent : 1), step = (int64_t)r->tile * r->lanes;
  Range range = {.low = emit_i64(e, 0),
                 .high = emit_i64(e, r->row_extent),
                 .from = emit_i64(e, 0),
                 .to = emit_i64(e, r->vector_extent / step * step)};
  PassValues values;
  for (int pass = 0; pass < r->n_passes; pass++) {
    bool active[MAX_UNITS] = {false};
    for (int u = 0; u < r->n_units; u++) active[u] = r->units[u].level == pass;
    reduce_emit_pass(e, r, &range, tile, active, pass == r->write_pass, &values);
    for (int u = 0; u < r->n_units; u++) {
      if (!active[u]) continue;
      const Unit *unit = &r->units[u];
      for (int j = 0; j < (r->lanes_on_reduced ? 1 : tile); j++) {
        e->tile = j;
        if (unit->kind == UNIT_MEAN || unit->kind == UNIT_M2)
          values.value[u][j] = reduce_divide(e, unit, values.value[u][j], count);
        reduce_bind(e, unit, &kept, values.value[u][j]);
      }
      e->tile = 0;
    }
  }
  kernel_emit_kept_results(e, r->lanes_on_reduced ? 1 : tile);
}

static void emit_direct(KernelModule *m, const Reduce *r, EmittedKernel *out) {
  const Kernel *k = r->k;
  int64_t tiles = r->lanes_on_reduced ? 1 : reduce_tiles(r, r->tile);
  char *space =
      text_format("outer loop: %lld rows x %lld tiles; %d passes over %lld x %lld elements, lanes on the %s axis",
                  (long long)r->outer_extent, (long long)tiles, r->n_passes, (long long)r->row_extent,
                  (long long)r->vector_extent, r->lanes_on_reduced ? "reduced" : "kept");
  kernel_comment(m, k, space);
  free(space);
  Emitter e;
  emitter_begin(&e, m, k, k->name, k->n_args + k->n_results);
  e.nest = r->nest;
  e.vector_group = r->vector_group;
  Value p = for_begin(&e, (Value){1, 0, false}, (Value){2, 0, false}, 1, 0, NULL, NULL, NULL);
  Value row = p, tile = p;
  if (tiles > 1 && r->outer_extent > 1) {
    tile = emit_index(&e, "remui", p, emit_i64(&e, tiles));
    row = emit_index(&e, "divui", p, emit_i64(&e, tiles));
  } else if (tiles == 1) {
    tile = emit_i64(&e, 0);
  }
  emit_split_index(&e, row, r->n_outer, r->outer);
  if (r->lanes_on_reduced) direct_body(&e, r, r->tile, NULL);
  else reduce_for_tiles(&e, r, tile, r->tile, direct_body, NULL);
  for_end(&e, 0, NULL, NULL, NULL);
  emitter_end(&e);
  double elements = (double)r->row_extent *
                    (double)(r->lanes_on_reduced ? r->vector_extent : (int64_t)r->tile * r->lanes);
  kernel_add_launch(out, copy_string(k->name), r->outer_extent * tiles, elements * r->n_passes);
}

void kernel_emit_reduce(KernelModule *m, const Kernel *k, EmittedKernel *out) {
  Reduce r;
  reduce_plan(k, kernel_lanes(m, k), &r);
  out->workspace_bytes = r.workspace_bytes;
  if (r.n_stages) reduce_emit_chunked(m, &r, out);
  else emit_direct(m, &r, out);
}
