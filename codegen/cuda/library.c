// Convolutions and matrix products on the GPU: what scratch they need.
#include "codegen/cuda/cuda.h"

char *cuda_library_kernel(MlirOperation op) {
  NncConv conv;
  return host_conv_record(op, &conv) ? cuda_conv_name(&conv) : NULL;
}

int64_t cuda_library_workspace(MlirOperation op) {
  NncConv conv;
  NncMatmul m;
  if (host_conv_record(op, &conv)) return conv_workspace_bytes(&conv);
  if (!host_matmul_record(op, &m)) return 0;
  // cuBLAS splits a long sum over few results; room for eight partial results, at most what it recommends for the largest GPUs.
  int64_t bytes = 8 * m.batch * m.m * m.n * nn_dtype_bytes((NnDtype)m.dtype);
  bytes = bytes > 32 << 20 ? 32 << 20 : (bytes + 255) / 256 * 256;
  return bytes + 256 - NNC_ALIGN;   // so that the runtime can align it to 256 bytes
}
