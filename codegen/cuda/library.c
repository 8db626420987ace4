// Convolutions, matrix products and attention on the GPU: their kernels and what scratch they need.
#include "codegen/cuda/cuda.h"
#include "codegen/op_records.h"
#include "runtime/cuda/driver.h"
#include "support/alloc.h"
#include "support/text.h"

char *cuda_library_kernel(const CudaTarget *target, MlirOperation op) {
  NncConv conv;
  if (op_is_attention(op)) return cuda_attention_name(target, op);
  return op_conv_record(op, &conv) ? cuda_conv_name(&conv) : NULL;
}

int64_t cuda_library_workspace(const CudaTarget *target, MlirOperation op) {
  NncConv conv;
  NncMatmul m;
  if (op_conv_record(op, &conv)) return conv_workspace_bytes(target, &conv);
  if (op_is_attention(op)) return cuda_attention_workspace(target, op);
  if (!op_matmul_record(op, &m)) return 0;
  // cuBLAS splits a long sum over few results; room for eight partial results, at most what it recommends for the
  // largest GPUs.
  int64_t bytes = 8 * m.batch * m.m * m.n * nn_dtype_bytes(nn_dtype_wide((NnDtype)m.dtype));
  bytes = bytes > 32 << 20                 ? 32 << 20
          : bytes < CUBLAS_LEAST_WORKSPACE ? CUBLAS_LEAST_WORKSPACE
                                           : (bytes + 255) / 256 * 256;
  return bytes + 256 - NNC_ALIGN;   // so that the runtime can align it to 256 bytes
}
