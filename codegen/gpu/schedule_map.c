// Map kernels on a GPU: a thread makes 16 bytes of each result, neighbours in memory by neighbouring threads. What does
// not fill 16 bytes at the end is made one element a thread.
#include <stdlib.h>

#include "codegen/gpu/schedule.h"
#include "support/alloc.h"
#include "support/integers.h"
#include "support/text.h"

#define THREADS 256
#define SINGLES 4   // elements a thread makes one by one, in one go: a single one leaves too few loads on their way

// Rows that begin at no multiple of 16 bytes: a block makes SINGLES x THREADS neighbours of one row.
static void map_odd_rows(GpuModule *m, const Kernel *k, const Nest *nest, int64_t rows, int64_t extent,
                         EmittedKernel *out) {
  int64_t tile = SINGLES * THREADS, tiles = divide_up(extent, tile);
  int groups[NN_MAX_RANK];
  for (int g = 0; g + 1 < nest->n; g++) groups[g] = g;
  char *space = text_format("grid %lld x %d threads, %d x 1 elements a thread along %lld of %lld",
                            (long long)(rows * tiles), THREADS, SINGLES, (long long)extent, (long long)(rows * extent));
  kernel_comment(&m->m, k, space);
  free(space);
  Emitter e;
  schedule_begin(&e, m, k, k->name, k->n_args + k->n_results);
  schedule_forget(&e, 1);
  Value block = schedule_number(&e, GPU_BLOCK_X),
        begin = emit_index_with(&e, "muli", emit_index_with(&e, "remui", block, tiles), tile);
  Value at = emit_index(&e, "addi", begin, schedule_number(&e, GPU_THREAD_X));
  e.vector_group = nest->n - 1;
  emit_split_index(&e, emit_index_with(&e, "divui", block, tiles), nest->n - 1, groups);
  for (int j = 0; j < SINGLES; j++) e.vector_index[j] = j ? emit_index_with(&e, "addi", at, j * THREADS).id : at.id;
  Value whole = emit_index_compare_with(&e, "ule", begin, extent - tile);
  if_begin(&e, whole);
  e.index_depth[e.vector_group] = e.depth;   // nothing of these elements is read before it is known that there are any
  IndexMap domain = index_map_domain(k);
  for (e.tile = 0; e.tile < SINGLES; e.tile++)
    for (int i = 0; i < k->n_results; i++) expression(&e, k->result[i], &domain);
  for (e.tile = 0; e.tile < SINGLES; e.tile++) kernel_emit_point(&e);
  if_end(&e, 0, NULL, NULL, NULL, NULL);
  Value one = emit_constant(&e, "true"), rest = emit(&e, 0, "arith.xori", VALUES(whole.id, one.id), "%%, %% : i1");
  if_begin(&e, rest);
  for (e.tile = 0; e.tile < SINGLES; e.tile++) {
    if_begin(&e, emit_index_compare_with(&e, "ult", (Value){e.vector_index[e.tile], 0, false}, extent));
    e.index_depth[e.vector_group] = e.depth;
    kernel_emit_point(&e);
    if_end(&e, 0, NULL, NULL, NULL, NULL);
  }
  if_end(&e, 0, NULL, NULL, NULL, NULL);
  e.tile = 0;
  emitter_end(&e);
  schedule_launch(out, copy_string(k->name), rows * tiles, THREADS, 1);
}

void schedule_map(GpuModule *m, const Kernel *k, EmittedKernel *out) {
  Nest nest;
  nest_build(k, &nest);
  int lanes = schedule_map_lanes(k, &nest), groups[NN_MAX_RANK];
  int64_t outer = 1, extent = nest.n ? nest.extent[nest.n - 1] : 1, vectors = extent / lanes, rest = extent % lanes;
  for (int g = 0; g + 1 < nest.n; g++) {
    outer *= nest.extent[g];
    groups[g] = g;
  }
  if (lanes == 1 && outer > 1 && extent >= 2 * SINGLES * THREADS) {
    map_odd_rows(m, k, &nest, outer, extent, out);
    return;
  }
  int64_t whole = outer * vectors, threads = whole + rest, blocks = divide_up(threads, THREADS);
  char *space = text_format("grid %lld x %d threads, %d elements a thread along %lld of %lld", (long long)blocks,
                            THREADS, lanes, (long long)extent, (long long)(outer * extent));
  kernel_comment(&m->m, k, space);
  free(space);
  Emitter e;
  schedule_begin(&e, m, k, k->name, k->n_args + k->n_results);
  schedule_forget(&e, lanes);
  Value p = schedule_linear(&e, THREADS, threads);
  if_begin(&e, emit_index_compare_with(&e, "ult", p, whole));
  if (nest.n) {
    e.vector_group = nest.n - 1;
    Value row = p, at = p;
    if (outer > 1) {
      at = emit_index_with(&e, "remui", p, vectors);
      row = emit_index_with(&e, "divui", p, vectors);
    }
    emit_split_index(&e, row, nest.n - 1, groups);
    e.vector_index[0] = (lanes > 1 ? emit_index_with(&e, "muli", at, lanes) : at).id;
    e.index_depth[nest.n - 1] = e.depth;
  }
  kernel_emit_point(&e);
  if_end(&e, 0, NULL, NULL, NULL, NULL);
  if (rest) {
    schedule_forget(&e, 1);
    Value past = emit_index_with(&e, "subi", p, whole);
    if_begin(&e, emit_index_compare_with(&e, "ult", past, rest));
    e.vector_index[0] =
        emit(&e, e.depth, "arith.addi", VALUES(past.id, emit_i64(&e, extent - rest).id), "%%, %% : i64").id;
    e.index_depth[nest.n - 1] = e.depth;
    kernel_emit_point(&e);
    if_end(&e, 0, NULL, NULL, NULL, NULL);
  }
  emitter_end(&e);
  schedule_launch(out, copy_string(k->name), blocks, THREADS, 1);
}
