// Library ops on the GPU: which are kernels, and what scratch cuBLAS has for the others.
#include "runtime/library.h"
#include "codegen/cuda/cuda.h"
#include "runtime/cuda/driver.h"
#include "support/integers.h"

#define LIBRARY_KERNEL(name) &cuda_library_##name
#define LIBRARY_CUBLAS(name) NULL
static const CudaLibrary *const kernels[] = {
#define ROW(KIND, name, Record, gpu) [NNC_STEP_##KIND] = LIBRARY_##gpu(name),
    NNC_LIBRARY_RECORDS(ROW)
#undef ROW
};

const CudaLibrary *cuda_library(NncStepKind kind) {
  return (size_t)kind < sizeof kernels / sizeof *kernels ? kernels[kind] : NULL;
}

char *cuda_library_kernel(const CudaTarget *target, MlirOperation op) {
  OpRecord r = op_record(op);
  const CudaLibrary *kernel = cuda_library(r.kind);
  return kernel ? kernel->name(target, op, &r) : NULL;
}

// cuBLAS splits a long sum over few results; room for eight partial results, at most what it recommends for the largest
// GPUs, and so that the runtime can align it to 256 bytes.
static int64_t cublas_workspace(MlirOperation op) {
  enum { PARTS = 8, MOST = 32 << 20, ALIGNMENT = 256 };
  NnType t = nn_value_type(mlirOperationGetResult(op, 0));
  NnDtype dtype = nn_dtype_wide(nn_value_dtype(mlirOperationGetOperand(op, 0)));
  int64_t bytes = PARTS * nn_type_elements(&t) * nn_dtype_bytes(dtype);
  bytes = bytes > MOST ? MOST : bytes < CUBLAS_LEAST_WORKSPACE ? CUBLAS_LEAST_WORKSPACE : round_up(bytes, ALIGNMENT);
  return bytes + ALIGNMENT - NNC_ALIGN;
}

int64_t cuda_library_workspace(const CudaTarget *target, MlirOperation op) {
  OpRecord r = op_record(op);
  if (r.kind == NNC_STEP_KERNEL) return 0;
  if (r.kind == NNC_STEP_COLLECTIVE)
    return nnc_collective_scratch(&r.collective,
                                  r.collective.kind == NNC_REDUCE_SCATTER ? NNC_SCATTER_PIECE : NNC_COLLECTIVE_PIECE);
  const CudaLibrary *kernel = cuda_library(r.kind);
  return kernel ? kernel->workspace(target, op, &r) : cublas_workspace(op);
}
