// Convolutions by products of warpgroups, on Hopper: the stages are those of the other kernels, multiplied as they lie
// in shared memory while the next copies are begun.
#include <stddef.h>

#include "codegen/cuda/template/template_conv.h"

static int flat(const ConvAccumulators *sums, Val *c, Build *b) {
  for (int t = 0; t < sums->n_tiles; t++)
    for (int i = 0; i < 4; i++) c[4 * t + i] = build_get(b, sums->c[0][t][i]);
  return 4 * sums->n_tiles;
}

static void keep(const ConvAccumulators *sums, Val *c, Build *b) {
  for (int t = 0; t < sums->n_tiles; t++)
    for (int i = 0; i < 4; i++) build_set(b, sums->c[0][t][i], c[4 * t + i]);
}

void conv_wgmma(Build *b, const Wgmma *form, const ConvAccumulators *sums, int steps, Val a, Val w) {
  Val c[4 * CONV_MOST_N_TILES];
  flat(sums, c, b);
  build_wgmma_fence(b);
  for (int s = 0; s < steps; s++) {
    Val of_step = build_descriptor_on(b, a, build_i32(b, s * (form->a_transposed ? 2048 : 32)));
    build_wgmma(b, form, c, &of_step, build_descriptor_on(b, w, build_i32(b, s * (form->b_transposed ? 2048 : 32))),
                NULL);
  }
  build_wgmma_commit(b);
  keep(sums, c, b);
}

void conv_wgmma_finish(Build *b, const ConvAccumulators *sums) {
  Val c[4 * CONV_MOST_N_TILES];
  int n = flat(sums, c, b);
  build_wgmma_wait(b, 0, n, c);
  keep(sums, c, b);
}

void conv_wgmma_meet(Build *b, const ConvShape *c) {
  build_async_fence(b);
  build_wgmma_wait(b, conv_lag(c), 0, NULL);
}
