// Launches of kernels that are made of a template or for a library op.
#include "codegen/gpu/schedule.h"
#include "support/alloc.h"

void gpu_add_launch(EmittedKernel *out, const char *symbol, int64_t x, int64_t y, int64_t z, int64_t threads) {
  *ARRAY_ADD(out->launches, out->n_launches) = (KernelLaunch){.symbol = copy_string(symbol),
                                                              .grid = {x, y, z},
                                                              .block = {threads, 1, 1}};
}

void gpu_comment_launches(const EmittedKernel *k, Text *t) {
  for (int i = 0; i < k->n_launches; i++) {
    const KernelLaunch *l = &k->launches[i];
    text_add(t, "// launch %d: %s, grid %lld x %lld x %lld, %lld threads a block\n", i, l->symbol,
             (long long)l->grid[0], (long long)l->grid[1], (long long)l->grid[2], (long long)l->block[0]);
  }
}
