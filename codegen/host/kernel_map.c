// Map kernels: every result element from the operands at the same index. The innermost joined axis runs over the lanes;
// the others, and blocks of a long innermost axis, are one flat outer loop that the runtime shares out over the
// threads.
#include <stdlib.h>

#include "codegen/host/host.h"
#include "support/alloc.h"
#include "support/integers.h"
#include "support/text.h"

#define BLOCK 4096   // elements of the innermost axis per outer iteration

static void count_read(void *user, int arg, MlirValue value, const Access *a) {
  (void)value;
  bool strided = false;
  for (int i = 0; i < NN_MAX_RANK; i++) strided |= a->stride[i] != 0;
  *(int *)user += strided && arg >= 0;
}

void kernel_add_launch(EmittedKernel *out, char *symbol, int64_t extent, double work_per_iteration) {
  // About 10 µs of one thread: below that, waking a second one costs more than it saves.
  double grain = 16384 / (work_per_iteration > 1 ? work_per_iteration : 1);
  *ARRAY_ADD(out->launches, out->n_launches) = (KernelLaunch){.symbol = symbol,
                                                              .extent = extent,
                                                              .grain = grain < 1 ? 1 : (int64_t)grain};
}

// The innermost axis from `low` to `high`, whole vectors, then the masked rest if this is the last block.
static void emit_inner(Emitter *e, Value low, Value high, int64_t extent, const Value *is_last) {
  int g = e->vector_group, rest = (int)(extent % e->lanes);
  if (extent >= e->lanes) {
    Value i = for_begin(e, low, high, e->lanes, 0, NULL, NULL, NULL);
    e->vector_index[0] = i.id;
    e->index_depth[g] = i.depth;
    kernel_emit_point(e);
    for_end(e, 0, NULL, NULL, NULL);
  }
  if (!rest) return;
  if (is_last) if_begin(e, *is_last);
  else block_begin(e);
  emit_set_mask(e, rest);
  Value start = emit(e, e->depth, "arith.constant", NO_VALUES, "%lld : i64", (long long)(extent - rest));
  e->vector_index[0] = start.id;
  e->index_depth[g] = start.depth;
  kernel_emit_point(e);
  emit_set_mask(e, e->lanes);
  if (is_last) if_end(e, 0, NULL, NULL, NULL, NULL);
  else block_end(e);
}

static char *describe(const Nest *nest, int64_t blocks, int64_t outer) {
  Text t = {0};
  text_add(&t, "outer loop: %lld iterations; innermost axis %lld", (long long)(outer * blocks),
           nest->n ? (long long)nest->extent[nest->n - 1] : 1LL);
  if (blocks > 1) text_add(&t, " in blocks of %d", BLOCK);
  return t.data;
}

void kernel_emit_map(KernelModule *m, const Kernel *k, EmittedKernel *out) {
  Nest nest;
  nest_build(k, &nest);
  if (kernel_emit_transposed(m, k, &nest, out)) return;
  int64_t outer = 1, extent = nest.n ? nest.extent[nest.n - 1] : 1;
  int groups[NN_MAX_RANK];
  for (int g = 0; g + 1 < nest.n; g++) {
    outer *= nest.extent[g];
    groups[g] = g;
  }
  int64_t blocks = extent > 2 * BLOCK ? divide_up(extent, BLOCK) : 1;
  char *space = describe(&nest, blocks, outer);
  kernel_comment(m, k, space);
  free(space);

  Emitter e;
  emitter_begin(&e, m, k, k->name, k->n_args + k->n_results);
  e.fetch_ahead = true;
  Value p = for_begin(&e, (Value){1, 0, false}, (Value){2, 0, false}, 1, 0, NULL, NULL, NULL);
  if (!nest.n) {
    kernel_emit_point(&e);
  } else {
    e.vector_group = nest.n - 1;
    int64_t whole = extent - extent % e.lanes;
    Value low = emit_i64(&e, 0), high = emit_i64(&e, whole), is_last = {0};
    Value row = p;
    if (blocks > 1) {
      Value n = emit_i64(&e, blocks), block = outer > 1 ? emit_index(&e, "remui", p, n) : p;
      if (outer > 1) row = emit_index(&e, "divui", p, n);
      low = emit_index(&e, "muli", block, emit_i64(&e, BLOCK));
      Value end = emit_index(&e, "addi", low, emit_i64(&e, BLOCK));
      high = emit_index(&e, "minsi", end, high);
      if (extent % e.lanes) is_last = emit_index_compare_with(&e, "eq", block, blocks - 1);
    }
    emit_split_index(&e, row, nest.n - 1, groups);
    emit_inner(&e, low, high, extent, blocks > 1 ? &is_last : NULL);
  }
  for_end(&e, 0, NULL, NULL, NULL);
  emitter_end(&e);
  int reads = 0;
  kernel_walk_all_leaves(k, count_read, &reads);
  double per_row = (double)(blocks > 1 ? BLOCK : extent) * (double)(reads + k->n_results) / 2;
  kernel_add_launch(out, copy_string(k->name), outer * blocks, per_row);
}
