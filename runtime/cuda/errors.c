// Failed calls of the driver and of cuBLAS: which call, what it was for, and what is likely to be the matter.
#include <stdlib.h>
#include <time.h>

#include "runtime/cuda/cuda.h"

const char *cuda_likely_cause(CUresult result) {
  switch (result) {
  case CUDA_ERROR_OUT_OF_MEMORY:
    return "another program holds the GPU's memory; or compile with a smaller --memory-budget or batch";
  case CUDA_ERROR_NOT_INITIALIZED:
    return "the driver has not started: look at nvidia-smi, and whether this user may open /dev/nvidia*";
  case CUDA_ERROR_NO_DEVICE: return "the driver finds no GPU: look at nvidia-smi and CUDA_VISIBLE_DEVICES";
  case CUDA_ERROR_INVALID_DEVICE: return "no GPU of that number: look at nvidia-smi and --device";
  case CUDA_ERROR_NO_BINARY_FOR_GPU:
    return "compiled for another architecture: compile with the --gpu-arch of this GPU";
  case CUDA_ERROR_INVALID_IMAGE:
  case CUDA_ERROR_INVALID_PTX: return "the kernels in this executable are damaged: build it again";
  case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    return "the driver is older than the kernels' PTX: update it, or compile with an older --gpu-arch";
  case CUDA_ERROR_STUB_LIBRARY:
    return "the library found is the CUDA toolkit's stub: take its folder out of LD_LIBRARY_PATH";
  case CUDA_ERROR_DEVICE_UNAVAILABLE:
    return "another process has the GPU for itself, or it has dropped off the bus: look at nvidia-smi and dmesg";
  case CUDA_ERROR_ECC_UNCORRECTABLE:
    return "the GPU's memory is faulty: look at nvidia-smi -q -d ECC, and reset or replace the GPU";
  case CUDA_ERROR_NVLINK_UNCORRECTABLE: return "a link between GPUs is faulty: look at nvidia-smi nvlink -e";
  case CUDA_ERROR_LAUNCH_TIMEOUT:
    return "the GPU drives a display, which stops kernels that run for seconds: use another GPU";
  case CUDA_ERROR_ILLEGAL_ADDRESS:
  case CUDA_ERROR_ILLEGAL_INSTRUCTION:
  case CUDA_ERROR_MISALIGNED_ADDRESS:
  case CUDA_ERROR_HARDWARE_STACK_ERROR:
  case CUDA_ERROR_LAUNCH_FAILED:
    return "a bug of a kernel (bench --profile runs them one by one, --target=cuda-emu checks each access), or a GPU "
           "in trouble: look at dmesg for Xid messages";
  case CUDA_ERROR_NOT_FOUND:
    return "the kernels in this executable are not those that its steps ask for: build it again";
  case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
    return "the kernel takes more registers or threads than this GPU has: compile with its --gpu-arch";
  case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
  case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    return "a step that cannot be captured as a graph, or that failed while it was: bench --profile runs steps one by "
           "one and names it";
  case CUDA_ERROR_SYSTEM_NOT_READY:
    return "the machine's GPUs are not set up yet: where they are joined by NVSwitch, nvidia-fabricmanager must run";
  case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
    return "the libcuda found is of the compatibility package, which this GPU does not take: take its folder out of "
           "LD_LIBRARY_PATH, or update the driver";
  case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    return "the driver's library and its kernel module differ: restart the machine";
  case CUDA_ERROR_UNKNOWN: return "the driver is in a bad state: look at dmesg";
  default: return "";
  }
}

bool cuda_ok(const CudaMemory *m, CUresult result, const char *call, const char *what) {
  return cuda_ok_or(m, result, call, what, cuda_likely_cause(result));
}

bool cuda_ok_or(const CudaMemory *m, CUresult result, const char *call, const char *what, const char *cause) {
  if (result == CUDA_SUCCESS) return true;
  const char *name = NULL, *text = NULL;
  m->api.driver.GetErrorName(result, &name);
  m->api.driver.GetErrorString(result, &text);
  report_error("%s: %s failed: %s (%s)%s%s", what, call, name ? name : "unknown error", text ? text : "",
               *cause ? "\n" : "", cause);
  return false;
}

static const char *cublas_likely_cause(cublasStatus_t status) {
  switch (status) {
  case CUBLAS_STATUS_NOT_INITIALIZED:
    return "cuBLAS could not start: it is newer than the driver, or another program holds the GPU's memory: look at "
           "nvidia-smi";
  case CUBLAS_STATUS_ALLOC_FAILED:
    return "cuBLAS needs some memory of its own: another program holds the GPU's, or compile with a smaller "
           "--memory-budget";
  case CUBLAS_STATUS_ARCH_MISMATCH:
    return "this cuBLAS does not know the GPU, or the GPU lacks the type: install a cuBLAS for it, or compile with "
           "--dtype=f32";
  case CUBLAS_STATUS_EXECUTION_FAILED:
    return "a kernel of cuBLAS, or one before it, failed (bench --profile runs them one by one): look at dmesg for Xid "
           "messages";
  case CUBLAS_STATUS_NOT_SUPPORTED:
    return "this cuBLAS lacks a product of these types: install a newer one, or compile with --dtype=f32";
  default: return "";
  }
}

bool cublas_ok(const CudaMemory *m, cublasStatus_t status, const char *call, const char *what) {
  if (status == CUBLAS_STATUS_SUCCESS) return true;
  const char *cause = cublas_likely_cause(status);
  report_error("%s: %s failed: %s%s%s", what, call, m->api.cublas.GetStatusName(status), *cause ? "\n" : "", cause);
  return false;
}

bool cuda_allocate_pinned(const CudaMemory *m, const char *what, size_t bytes, char **out) {
  void *memory = NULL;
  CUresult result = m->api.driver.MemAllocHost(&memory, bytes);
  char *cause = result != CUDA_ERROR_OUT_OF_MEMORY
                    ? NULL
                    : xasprintf("%zu bytes of the machine's memory, not of the GPU's, could not be page-locked: look "
                                "at ulimit -l, a container's limit, and free memory%s",
                                bytes, nnc_program.far_bytes ? "; or compile with a smaller --far-budget" : "");
  bool ok = cuda_ok_or(m, result, "cuMemAllocHost", what, cause ? cause : cuda_likely_cause(result));
  free(cause);
  *out = ok ? memory : NULL;
  return ok;
}

bool nccl_ok(const CudaMemory *m, ncclResult_t result, const char *call, const char *what) {
  if (result == ncclSuccess || result == ncclInProgress) return true;
  report_error("%s: %s failed: %s\n%s", what, call, m->api.nccl->GetErrorString(result),
               result == ncclInvalidUsage ? "do two ranks have the same GPU? NCCL_DEBUG=WARN tells more"
               : result == ncclRemoteError || result == ncclSystemError
                   ? "another rank has ended, or the network between the GPUs is in trouble: NCCL_DEBUG=WARN tells more"
                   : "NCCL_DEBUG=WARN tells more");
  return false;
}

// Work of NCCL that has failed, or whose other end is gone, never ends: who waits asks for both.
static bool poll_until_done(const CudaMemory *m, CUstream stream, CUevent event, const char *what) {
  enum { QUICK = 2000 };
  for (int tries = 0;; tries++) {
    CUresult result = event ? m->api.driver.EventQuery(event) : m->api.driver.StreamQuery(stream);
    if (result != CUDA_ERROR_NOT_READY) return cuda_ok(m, result, event ? "cuEventQuery" : "cuStreamQuery", what);
    if (tries < QUICK) continue;
    ncclResult_t error = ncclSuccess;
    if (!NCCL(m, what, CommGetAsyncError, m->nccl, &error) || !nccl_ok(m, error, "a message of NCCL", what))
      return false;
    nanosleep(&(struct timespec){0, 20000}, NULL);
  }
}

bool cuda_wait(const CudaMemory *m, const char *what) {
  return m->nccl ? poll_until_done(m, m->compute, NULL, what) : CUDA(m, what, StreamSynchronize, m->compute);
}

bool cuda_wait_event(const CudaMemory *m, CUevent event, const char *what) {
  return m->nccl ? poll_until_done(m, NULL, event, what) : CUDA(m, what, EventSynchronize, event);
}
