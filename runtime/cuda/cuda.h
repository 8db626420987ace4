// Private to runtime/cuda: a program on a GPU. load.c fills the table of the driver's functions, errors.c reports their
// failures, device.c opens the GPU (context, module, arena, staging), library.c calls cuBLAS, collective.c NCCL,
// execute.c turns a function's steps into launches and captures them as a graph.
#ifndef NNC_RUNTIME_CUDA_CUDA_H
#define NNC_RUNTIME_CUDA_CUDA_H

#include "runtime/cuda/nccl.h"
#include "runtime/runtime.h"

// What stands behind Arena.memory.
typedef struct CudaMemory {
  CudaApi api;
  int ordinal;
  CUdevice device;
  CUcontext context;   // the device's primary one, retained
  CUmodule *modules;   // Owned; the parts of the kernels, or all of them
  int n_modules;
  CUstream compute, copy;
  CUstream lanes[NNC_LANES];   // those but compute's; NULL: no function has been prepared that has steps there
  CUevent copied;              // what copy has done last; compute waits for it
  CUevent done;                // the last started run has left its results
  const void *uploaded;        // the prepared function whose staged arguments lie in the arena; NULL: none
  CUevent before, after;       // around a step that is timed
  size_t free_at_start;        // bytes of the GPU's memory, before anything but the context was made
  cublasHandle_t cublas;       // NULL: no calls of it
  ncclComm_t nccl;             // NULL: there is one rank, or cuda_join has not been called
  CUdeviceptr arena;
  char *far;       // the far arena: page-locked memory of the host; Owned; NULL: none
  char *staging;   // page-locked, too; Owned
  int64_t staging_bytes, staging_used;
  char name[128];   // of the GPU
} CudaMemory;

const char *cuda_likely_cause(CUresult result);   // "" where nothing is known
// True if the call succeeded; else reports the call, what it was for, and the likely cause. `what`: "loading the
// kernels".
bool cuda_ok(const CudaMemory *m, CUresult result, const char *call, const char *what);
bool cuda_ok_or(const CudaMemory *m, CUresult result, const char *call, const char *what,
                const char *cause);   // with a likely cause of one's own, "" for none
#define CUDA(m, what, call, ...) cuda_ok((m), (m)->api.driver.call(__VA_ARGS__), "cu" #call, (what))
bool cublas_ok(const CudaMemory *m, cublasStatus_t status, const char *call, const char *what);
#define CUBLAS(m, what, call, ...) cublas_ok((m), (m)->api.cublas.call(__VA_ARGS__), "cublas" #call, (what))
// library.c: issues a library op's step on m->compute, with its buffers and workspace (0: none). NULL: steps of this
// kind are no calls of cuBLAS.
typedef bool (*CudaLibraryCall)(const CudaMemory *m, const NncStep *s, const CUdeviceptr *addresses,
                                CUdeviceptr workspace);
CudaLibraryCall cuda_library_call(NncStepKind kind);
bool cuda_needs_cublas(void);           // any step of the program is such a call
bool cuda_open_cublas(CudaMemory *m);   // device.c: sets m->cublas, for products on m->compute
// Page-locked memory of the host; *out NULL after a failure. Whoever asks for it frees it (MemFreeHost).
bool cuda_allocate_pinned(const CudaMemory *m, const char *what, size_t bytes, char **out);
bool cuda_open_lane(CudaMemory *m, NncLane lane);   // its stream, if there is none yet
// For the compute stream; for an event. With several ranks NCCL is asked meanwhile whether it has failed: then its work
// never ends.
bool cuda_wait(const CudaMemory *m, const char *what);
bool cuda_wait_event(const CudaMemory *m, CUevent event, const char *what);

bool nccl_ok(const CudaMemory *m, ncclResult_t result, const char *call, const char *what);
#define NCCL(m, what, call, ...) nccl_ok((m), (m)->api.nccl->call(__VA_ARGS__), "nccl" #call, (what))
// collective.c: a member of nnc_device_cuda; and the step on the stream, with the kernel of its launch, if any.
bool cuda_join(const Arena *arena);
bool cuda_run_collective(const CudaMemory *m, const NncStep *s, const CUdeviceptr *addresses, CUdeviceptr workspace,
                         CUfunction kernel, CUstream stream);

// execute.c: members of nnc_device_cuda.
void *cuda_prepare(const NncFunction *f, const Arena *arena);
void cuda_release(void *prepared);
bool cuda_stage(void *prepared);
bool cuda_start(void *prepared);
bool cuda_finish(void *prepared);
bool cuda_run_step(void *prepared, int step);
bool cuda_watch_step(void *prepared, int step, StepWatch *w);
bool cuda_time_step(void *prepared, int step, double *seconds);   // the same, with the GPU's own clock

#endif
