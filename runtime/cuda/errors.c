// Failed calls of the driver and of cuBLAS: which call, what it was for, and what is likely to be the matter.
#include "runtime/cuda/cuda.h"

const char *cuda_likely_cause(CUresult result) {
  switch (result) {
  case CUDA_ERROR_OUT_OF_MEMORY: return "another program holds the GPU's memory; or compile with a smaller --memory-budget or batch";
  case CUDA_ERROR_NO_DEVICE: return "the driver finds no GPU: look at nvidia-smi and CUDA_VISIBLE_DEVICES";
  case CUDA_ERROR_INVALID_DEVICE: return "no GPU of that number: look at nvidia-smi and --device";
  case CUDA_ERROR_NO_BINARY_FOR_GPU: return "compiled for another architecture: compile with the --gpu-arch of this GPU";
  case CUDA_ERROR_INVALID_IMAGE: return "the kernels in this executable are damaged";
  case CUDA_ERROR_INVALID_PTX:
  case CUDA_ERROR_UNSUPPORTED_PTX_VERSION: return "the driver is older than the kernels' PTX: update it, or compile with an older --gpu-arch";
  case CUDA_ERROR_ILLEGAL_ADDRESS:
  case CUDA_ERROR_MISALIGNED_ADDRESS:
  case CUDA_ERROR_LAUNCH_FAILED: return "a bug of a kernel, or a GPU in trouble: try --target=cuda-emu, and look at dmesg for Xid messages";
  case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: return "the driver's library and its kernel module differ: restart the machine";
  case CUDA_ERROR_UNKNOWN: return "the driver is in a bad state: look at dmesg";
  default: return "";
  }
}

bool cuda_ok(const CudaMemory *m, CUresult result, const char *call, const char *what) {
  if (result == CUDA_SUCCESS) return true;
  const char *name = NULL, *text = NULL, *cause = cuda_likely_cause(result);
  m->api.driver.GetErrorName(result, &name);
  m->api.driver.GetErrorString(result, &text);
  report_error("%s: %s failed: %s (%s)%s%s", what, call, name ? name : "unknown error", text ? text : "", *cause ? "\n" : "", cause);
  return false;
}

bool cublas_ok(const CudaMemory *m, cublasStatus_t status, const char *call, const char *what) {
  if (status == CUBLAS_STATUS_SUCCESS) return true;
  report_error("%s: %s failed: %s", what, call, m->api.cublas.GetStatusName(status));
  return false;
}

bool cuda_wait(const CudaMemory *m, const char *what) { return CUDA(m, what, StreamSynchronize, m->compute); }
