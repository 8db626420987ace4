// Column kernels in chunks: one launch leaves a partial result per chunk of the reduced elements in the workspace, the
// next combines them in order of the chunks and goes on: to the results, or, where a reduction depends on another one,
// to a second such pair. Partial moments are combined by the formula of Chan, Golub and LeVeque (Updating formulae and
// a pairwise algorithm for computing sample variances, 1979); inside a chunk the mean is taken first and the squared
// differences in a second pass, out of the cache, but for streamed chunks (kernel_reduce_stream.c).
#include <stdlib.h>

#include "codegen/host/kernel_reduce.h"
#include "support/alloc.h"
#include "support/integers.h"
#include "support/text.h"

typedef struct Launch {
  int stage;
  bool is_last_stage;
  Value outer, chunk;   // linear indices
  Range range;
  Value count;   // i64: elements in this chunk
} Launch;

// Index of a partial result: ((outer * chunks) + chunk) * vector extent + index of the kept vector axis.
Value reduce_partial_index(Emitter *e, const Reduce *r, Value outer, Value chunk, int tile) {
  Value at = emit_index(e, "addi", emit_index_with(e, "muli", outer, r->n_chunks), chunk);
  if (r->lanes_on_reduced) return at;
  Value lane = {e->vector_index[tile], e->index_depth[r->vector_group], true};
  return emit_index(e, "addi", emit_index_with(e, "muli", at, r->vector_extent), lane);
}

static Value combined_index(Emitter *e, const Reduce *r, Value outer) {
  if (r->lanes_on_reduced) return outer;
  Value lane = {e->vector_index[0], e->index_depth[r->vector_group], true};
  return emit_index(e, "addi", emit_index_with(e, "muli", outer, r->vector_extent), lane);
}

static void set_range(Emitter *e, const Reduce *r, Launch *l) {
  int64_t step = (int64_t)r->tile * r->lanes, whole = r->vector_extent / step * step;
  Value start = emit_index_with(e, "muli", l->chunk, r->chunk_size),
        end = emit_index_with(e, "addi", start, r->chunk_size);
  int64_t total = r->chunk_vector ? r->vector_extent : r->row_extent;
  l->count = emit_index(e, "subi", emit_index_with(e, "minsi", end, total), start);
  l->range = (Range){.low = emit_i64(e, 0),
                     .high = emit_i64(e, r->row_extent),
                     .from = emit_i64(e, 0),
                     .to = emit_i64(e, whole)};
  if (r->chunk_vector) {
    l->range.from = start;
    l->range.to = emit_index_with(e, "minsi", end, whole);
    l->range.conditional = r->vector_extent % step != 0;
    if (l->range.conditional) l->range.is_last = emit_index_compare_with(e, "eq", l->chunk, r->n_chunks - 1);
  } else {
    l->range.low = start;
    l->range.high = emit_index_with(e, "minsi", end, total);
    if (r->lanes_on_reduced) l->count = emit_index_with(e, "muli", l->count, r->vector_extent);
  }
}

// The units of a stage: those of the first pass over the chunk and, M2, those of the second. True if there are any of
// the latter.
static bool units_of_stage(const Reduce *r, int stage, bool *sums, bool *squares) {
  bool any = false;
  for (int u = 0; u < r->n_units; u++) {
    bool here = r->units[u].stage == stage, m2 = r->units[u].kind == UNIT_M2;
    sums[u] = here && !m2;
    squares[u] = here && m2;
    any |= squares[u];
  }
  return any;
}

static void partial_body(Emitter *e, const Reduce *r, int tile, void *user) {
  Launch *l = user;
  bool sums[MAX_UNITS], squares[MAX_UNITS], any_squares = units_of_stage(r, l->stage, sums, squares);
  int values = r->lanes_on_reduced ? 1 : tile;
  bool write = l->is_last_stage && r->has_domain_result;
  PassValues v;
  reduce_emit_pass(e, r, &l->range, tile, sums, write && !any_squares, &v);
  for (int u = 0; u < r->n_units; u++) {
    if (!sums[u] || r->units[u].kind != UNIT_MEAN) continue;
    Value count = reduce_splat_count(e, r->units[u].dtype, l->count);
    for (int j = 0; j < values; j++) v.value[u][j] = emit_binary(e, NN_OP_div, r->units[u].dtype, v.value[u][j], count);
  }
  if (any_squares) reduce_emit_pass(e, r, &l->range, tile, squares, write, &v);
  for (int j = 0; j < values; j++) {
    e->tile = j;
    Value at = reduce_partial_index(e, r, l->outer, l->chunk, j);
    for (int u = 0; u < r->n_units; u++)
      if (sums[u] || squares[u])
        emit_store_workspace(e, r->units[u].dtype, r->units[u].partial, at, v.value[u][j], r->lanes_on_reduced);
  }
  e->tile = 0;
}

static char *launch_symbol(const Reduce *r, int index) {
  return index ? text_format("%s_launch%d", r->k->name, index) : copy_string(r->k->name);
}

static void begin_launch(Emitter *e, KernelModule *m, const Reduce *r, const char *symbol) {
  const Kernel *k = r->k;
  emitter_begin(e, m, k, symbol, k->n_args + k->n_results + 1);
  e->nest = r->nest;
  e->vector_group = r->vector_group;
}

static void emit_partials(KernelModule *m, const Reduce *r, int stage, EmittedKernel *out) {
  char *symbol = launch_symbol(r, 2 * stage);
  int64_t tiles = r->lanes_on_reduced ? 1
                  : r->stream         ? divide_up(r->vector_extent, r->block)
                                      : reduce_tiles(r, r->tile);
  text_add(&m->comment,
           "// launch %d: %lld rows x %lld chunks of %lld x %lld tiles, partial results to the workspace\n", 2 * stage,
           (long long)r->outer_extent, (long long)r->n_chunks, (long long)r->chunk_size, (long long)tiles);
  Emitter e;
  WorkspaceValue known[MAX_UNITS];
  begin_launch(&e, m, r, symbol);
  e.fetch_ahead = true;
  e.workspace = known;
  e.n_workspace = reduce_workspace_values(r, stage, known);
  Value p = for_begin(&e, (Value){1, 0, false}, (Value){2, 0, false}, 1, 0, NULL, NULL, NULL);
  // The tiles of a chunk follow each other, so that the pages of its rows are used while they are mapped.
  Value tile = emit_index_with(&e, "remui", p, tiles), rest = emit_index_with(&e, "divui", p, tiles);
  Launch l = {.stage = stage, .is_last_stage = stage == r->n_stages - 1};
  l.chunk = emit_index_with(&e, "remui", rest, r->n_chunks);
  l.outer = emit_index_with(&e, "divui", rest, r->n_chunks);
  emit_split_index(&e, l.outer, r->n_outer, r->outer);
  set_range(&e, r, &l);
  if (r->stream) {
    bool units[MAX_UNITS];
    for (int u = 0; u < r->n_units; u++) units[u] = r->units[u].stage == stage;
    StreamChunk c = {.outer = l.outer,
                     .chunk = l.chunk,
                     .block = tile,
                     .low = l.range.low,
                     .high = l.range.high,
                     .count = l.count,
                     .units = units,
                     .write = l.is_last_stage && r->has_domain_result};
    reduce_emit_stream(&e, r, &c);
  } else if (r->lanes_on_reduced) {
    partial_body(&e, r, r->tile, &l);
  } else {
    reduce_for_tiles(&e, r, tile, r->tile, partial_body, &l);
  }
  for_end(&e, 0, NULL, NULL, NULL);
  emitter_end(&e);
  double per_chunk = (double)r->chunk_size * (double)(r->stream              ? r->block
                                                      : !r->lanes_on_reduced ? (int64_t)r->tile * r->lanes
                                                      : r->chunk_vector      ? 1
                                                                             : r->vector_extent);
  kernel_add_launch(out, symbol, r->outer_extent * r->n_chunks * tiles, per_chunk);
}

// ---------------------------------------------------------------------------------------------------------------------

// (mean, M2) of a and of chunk b joined: n_a and n_b elements.
static void join_moments(Emitter *e, NnDtype t, Value *mean, Value *m2, Value mean_b, Value m2_b, Value n_a,
                         Value n_b) {
  Value total = emit_binary(e, NN_OP_add, t, n_a, n_b), share = emit_binary(e, NN_OP_div, t, n_b, total);
  Value delta = emit_binary(e, NN_OP_sub, t, mean_b, *mean);
  *mean = emit_binary(e, NN_OP_add, t, *mean, emit_binary(e, NN_OP_mul, t, delta, share));
  Value spread = emit_binary(e, NN_OP_mul, t, emit_binary(e, NN_OP_mul, t, delta, delta),
                             emit_binary(e, NN_OP_mul, t, n_a, share));
  *m2 = emit_binary(e, NN_OP_add, t, *m2, emit_binary(e, NN_OP_add, t, m2_b, spread));
}

static void combine_chunk(Emitter *e, const Reduce *r, const Launch *l, Value chunk, int n, const int *units,
                          Value *acc) {
  Value at = reduce_partial_index(e, r, l->outer, chunk, 0), before = emit_index_with(e, "muli", chunk, r->chunk_size);
  int64_t total = r->chunk_vector ? r->vector_extent : r->row_extent,
          per_row = r->lanes_on_reduced && !r->chunk_vector ? r->vector_extent : 1;
  Value end = emit_index_with(e, "minsi", emit_index_with(e, "addi", before, r->chunk_size), total),
        count = emit_index(e, "subi", end, before);
  Value n_a = emit_index_with(e, "muli", before, per_row), n_b = emit_index_with(e, "muli", count, per_row);
  for (int i = 0; i < n; i++) {
    const Unit *u = &r->units[units[i]];
    Value x = emit_load_workspace(e, u->dtype, u->partial, at, r->lanes_on_reduced);
    if (u->kind != UNIT_MEAN) {
      acc[i] = reduce_combine(e, u, acc[i], x);
      continue;
    }
    const Unit *square = &r->units[units[i + 1]];
    Value m2 = emit_load_workspace(e, square->dtype, square->partial, at, r->lanes_on_reduced);
    join_moments(e, u->dtype, &acc[i], &acc[i + 1], x, m2, reduce_splat_count(e, u->dtype, n_a),
                 reduce_splat_count(e, u->dtype, n_b));
    i++;
  }
}

static void combine_body(Emitter *e, const Reduce *r, int tile, void *user) {
  const Launch *l = user;
  (void)tile;   // one vector at a time
  int n = 0, units[MAX_UNITS];
  Value init[MAX_UNITS], acc[MAX_UNITS], result[MAX_UNITS];
  TypeName types[MAX_UNITS];
  for (int u = 0; u < r->n_units; u++) {
    if (r->units[u].stage != l->stage) continue;
    units[n] = u;
    init[n] = reduce_identity(e, &r->units[u]);
    init[n].varies = !r->lanes_on_reduced;
    types[n++] = vector_type(e, r->units[u].dtype);
  }
  Value chunk = for_begin(e, emit_i64(e, 0), emit_i64(e, r->n_chunks), 1, n, init, types, acc);
  combine_chunk(e, r, l, chunk, n, units, acc);
  for_end(e, n, acc, types, result);
  IndexMap kept = index_map_kept(r->k);
  int64_t count = r->row_extent * (r->lanes_on_reduced ? r->vector_extent : 1);
  Value at = combined_index(e, r, l->outer);
  for (int i = 0; i < n; i++) {
    const Unit *u = &r->units[units[i]];
    if (u->kind == UNIT_M2) result[i] = reduce_divide(e, u, result[i], count);
    if (l->is_last_stage) reduce_bind(e, u, &kept, result[i]);
    else emit_store_workspace(e, u->dtype, u->combined, at, result[i], r->lanes_on_reduced);
  }
  if (l->is_last_stage) kernel_emit_kept_results(e, 1);
}

static void emit_combination(KernelModule *m, const Reduce *r, int stage, EmittedKernel *out) {
  char *symbol = launch_symbol(r, 2 * stage + 1);
  int64_t tiles = r->lanes_on_reduced ? 1 : reduce_tiles(r, 1);
  text_add(&m->comment, "// launch %d: combines %lld chunks for %lld rows x %lld vectors%s\n", 2 * stage + 1,
           (long long)r->n_chunks, (long long)r->outer_extent, (long long)tiles,
           stage == r->n_stages - 1 ? "; results" : "");
  Emitter e;
  WorkspaceValue known[MAX_UNITS];
  begin_launch(&e, m, r, symbol);
  e.workspace = known;
  e.n_workspace = reduce_workspace_values(r, stage, known);
  Value p = for_begin(&e, (Value){1, 0, false}, (Value){2, 0, false}, 1, 0, NULL, NULL, NULL);
  Launch l = {.stage = stage, .is_last_stage = stage == r->n_stages - 1};
  Value tile = emit_index_with(&e, "remui", p, tiles);
  l.outer = emit_index_with(&e, "divui", p, tiles);
  emit_split_index(&e, l.outer, r->n_outer, r->outer);
  if (r->lanes_on_reduced) combine_body(&e, r, 1, &l);
  else reduce_for_tiles(&e, r, tile, 1, combine_body, &l);
  for_end(&e, 0, NULL, NULL, NULL);
  emitter_end(&e);
  kernel_add_launch(out, symbol, r->outer_extent * tiles, (double)r->n_chunks * r->lanes);
}

void reduce_emit_chunked(KernelModule *m, const Reduce *r, EmittedKernel *out) {
  char *space =
      text_format("reduces %lld x %lld elements for each of %lld x %lld, in %lld chunks, lanes on the %s axis",
                  (long long)r->row_extent, r->lanes_on_reduced ? (long long)r->vector_extent : 1LL,
                  (long long)r->outer_extent, r->lanes_on_reduced ? 1LL : (long long)r->vector_extent,
                  (long long)r->n_chunks, r->lanes_on_reduced ? "reduced" : "kept");
  kernel_comment(m, r->k, space);
  free(space);
  for (int stage = 0; stage < r->n_stages; stage++) {
    emit_partials(m, r, stage, out);
    emit_combination(m, r, stage, out);
  }
}
