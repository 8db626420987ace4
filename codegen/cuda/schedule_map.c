// Map kernels on a GPU: a thread makes 16 bytes of each result, neighbours in memory by neighbouring threads. What does not fill 16 bytes at the
// end is made one element a thread.
#include <stdlib.h>

#include "codegen/cuda/schedule.h"

#define THREADS 256

void schedule_map(CudaModule *m, const Kernel *k, EmittedKernel *out) {
  Nest nest;
  nest_build(k, &nest);
  int lanes = schedule_map_lanes(k, &nest), groups[NN_MAX_RANK];
  int64_t outer = 1, extent = nest.n ? nest.extent[nest.n - 1] : 1, vectors = extent / lanes, rest = extent % lanes;
  for (int g = 0; g + 1 < nest.n; g++) {
    outer *= nest.extent[g];
    groups[g] = g;
  }
  int64_t whole = outer * vectors, threads = whole + rest, blocks = (threads + THREADS - 1) / THREADS;
  char *space = text_format("grid %lld x %d threads, %d elements a thread along %lld of %lld", (long long)blocks, THREADS, lanes, (long long)extent, (long long)(outer * extent));
  kernel_comment(&m->m, k, space);
  free(space);
  Emitter e;
  schedule_begin(&e, m, k, k->name, k->n_args + k->n_results);
  schedule_forget(&e, lanes);
  Value p = schedule_linear(&e, THREADS, threads);
  if_begin(&e, schedule_compare(&e, "ult", p, whole));
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
    if_begin(&e, schedule_compare(&e, "ult", past, rest));
    e.vector_index[0] = emit(&e, e.depth, "arith.addi %%v%d, %%v%d : i64", past.id, emit_i64(&e, extent - rest).id).id;
    e.index_depth[nest.n - 1] = e.depth;
    kernel_emit_point(&e);
    if_end(&e, 0, NULL, NULL, NULL, NULL);
  }
  emitter_end(&e);
  schedule_launch(out, host_strdup(k->name), blocks, THREADS, 1);
}
