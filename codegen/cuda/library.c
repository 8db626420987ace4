// Convolutions, matrix products and attention on the GPU: their kernels and what scratch they need.
#include "codegen/cuda/cuda.h"
#include "codegen/op_records.h"
#include "runtime/cuda/driver.h"
#include "support/alloc.h"
#include "support/text.h"

void cuda_add_launch(EmittedKernel *out, const char *symbol, int64_t x, int64_t y, int64_t z, int64_t threads) {
  out->launches = reallocate_array(out->launches, (size_t)out->n_launches + 1, sizeof *out->launches);
  out->launches[out->n_launches++] = (KernelLaunch){.symbol = copy_string(symbol),
                                                    .grid = {x, y, z},
                                                    .block = {threads, 1, 1}};
}

void cuda_comment_launches(const EmittedKernel *k, Text *t) {
  for (int i = 0; i < k->n_launches; i++) {
    const KernelLaunch *l = &k->launches[i];
    text_add(t, "// launch %d: %s, grid %lld x %lld x %lld, %lld threads a block\n", i, l->symbol,
             (long long)l->grid[0], (long long)l->grid[1], (long long)l->grid[2], (long long)l->block[0]);
  }
}

char *cuda_library_kernel(MlirOperation op) {
  NncConv conv;
  if (op_is_attention(op)) return cuda_attention_name(op);
  return op_conv_record(op, &conv) ? cuda_conv_name(&conv) : NULL;
}

int64_t cuda_library_workspace(MlirOperation op) {
  NncConv conv;
  NncMatmul m;
  if (op_conv_record(op, &conv)) return conv_workspace_bytes(&conv);
  if (op_is_attention(op)) return cuda_attention_workspace(op);
  if (!op_matmul_record(op, &m)) return 0;
  // cuBLAS splits a long sum over few results; room for eight partial results, at most what it recommends for the
  // largest GPUs.
  int64_t bytes = 8 * m.batch * m.m * m.n * nn_dtype_bytes(nn_dtype_wide((NnDtype)m.dtype));
  bytes = bytes > 32 << 20                 ? 32 << 20
          : bytes < CUBLAS_LEAST_WORKSPACE ? CUBLAS_LEAST_WORKSPACE
                                           : (bytes + 255) / 256 * 256;
  return bytes + 256 - NNC_ALIGN;   // so that the runtime can align it to 256 bytes
}
