// The CUDA driver and cuBLAS as the runtime sees them: one list of symbols, one table of function pointers. cuda_load
// fills the table from libcuda and libcublas with dlopen; an executable for cuda-emu fills it with the emulator's
// stand-ins. Nothing of CUDA is needed to build: the types below are our own declarations of the documented ABI (CUDA
// driver API and cuBLAS reference manuals, versions 11.4 and later).
#ifndef NNC_RUNTIME_CUDA_DRIVER_H
#define NNC_RUNTIME_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---------------------------------------------------------------------------------------------------------------------
// Types of the driver API

typedef int CUresult;                     // CUDA_SUCCESS or one of the codes below
typedef int CUdevice;                     // ordinal
typedef unsigned long long CUdeviceptr;   // address on the device
typedef struct CudaContext *CUcontext;
typedef struct CudaModule *CUmodule;
typedef struct CudaFunction *CUfunction;
typedef struct CudaStream *CUstream;   // NULL: the default stream
typedef struct CudaEvent *CUevent;
typedef struct CudaGraph *CUgraph;
typedef struct CudaGraphExec *CUgraphExec;

enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_STUB_LIBRARY = 34,
  CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_ECC_UNCORRECTABLE = 214,
  CUDA_ERROR_INVALID_PTX = 218,
  CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
  CUDA_ERROR_LAUNCH_TIMEOUT = 702,
  CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
  CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
  CUDA_ERROR_MISALIGNED_ADDRESS = 716,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CUDA_ERROR_SYSTEM_NOT_READY = 802,
  CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
  CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
  CUDA_ERROR_UNKNOWN = 999,
};

enum {   // CUdevice_attribute
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,   // bytes, without opting in
  CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
  CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,   // kHz
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,         // kHz
  CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,   // bits
  CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,             // bytes
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
};

enum {   // CUfunction_attribute
  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
  CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
  CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
  CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
};

enum {   // CUjit_option; values are passed as void * (numbers cast to a pointer)
  CU_JIT_INFO_LOG_BUFFER = 3,
  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4,
  CU_JIT_ERROR_LOG_BUFFER = 5,
  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
  CU_JIT_LOG_VERBOSE = 12,
};

enum { CU_STREAM_NON_BLOCKING = 1 };
enum { CU_EVENT_DEFAULT = 0, CU_EVENT_DISABLE_TIMING = 2 };
enum { CU_STREAM_CAPTURE_MODE_GLOBAL = 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1, CU_STREAM_CAPTURE_MODE_RELAXED = 2 };

// ---------------------------------------------------------------------------------------------------------------------
// Types of cuBLAS

typedef int cublasStatus_t;   // 0: success
typedef struct CublasContext *cublasHandle_t;

enum {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
};
enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_16BF = 14 };   // cudaDataType
enum {   // cublasComputeType_t: what products are accumulated in
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_32F_PEDANTIC = 69,
  CUBLAS_COMPUTE_64F = 70,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
};
enum { CUBLAS_GEMM_DEFAULT = -1 };
enum {   // cublasMath_t, a set of bits
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_PEDANTIC_MATH = 2,
  CUBLAS_TF32_TENSOR_OP_MATH = 3,
  CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16,
};
enum { MAJOR_VERSION = 0 };   // libraryPropertyType
enum { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 };
// With less, says the manual of cublasSetWorkspace, a product may fail with CUBLAS_STATUS_ALLOC_FAILED. Not the
// library's name.
#define CUBLAS_LEAST_WORKSPACE (16 << 10)

// ---------------------------------------------------------------------------------------------------------------------
// X(result type, field, exported name, parameters). Names carry the version suffix of the ABI declared here.

#define NNC_CUDA_DRIVER_SYMBOLS(X)                                                                                  \
  X(CUresult, Init, "cuInit", (unsigned flags))                                                                     \
  X(CUresult, DriverGetVersion, "cuDriverGetVersion", (int *version))                                               \
  X(CUresult, GetErrorName, "cuGetErrorName", (CUresult error, const char **name))                                  \
  X(CUresult, GetErrorString, "cuGetErrorString", (CUresult error, const char **text))                              \
  X(CUresult, DeviceGetCount, "cuDeviceGetCount", (int *count))                                                     \
  X(CUresult, DeviceGet, "cuDeviceGet", (CUdevice * device, int ordinal))                                           \
  X(CUresult, DeviceGetName, "cuDeviceGetName", (char *name, int size, CUdevice device))                            \
  X(CUresult, DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t * bytes, CUdevice device))                             \
  X(CUresult, DeviceGetAttribute, "cuDeviceGetAttribute", (int *value, int attribute, CUdevice device))             \
  X(CUresult, DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext * context, CUdevice device))           \
  X(CUresult, DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice device))                           \
  X(CUresult, CtxSetCurrent, "cuCtxSetCurrent", (CUcontext context))                                                \
  X(CUresult, CtxSynchronize, "cuCtxSynchronize", (void))                                                           \
  X(CUresult, MemGetInfo, "cuMemGetInfo_v2", (size_t * free_bytes, size_t * total_bytes))                           \
  X(CUresult, MemAlloc, "cuMemAlloc_v2", (CUdeviceptr * address, size_t bytes))                                     \
  X(CUresult, MemFree, "cuMemFree_v2", (CUdeviceptr address))                                                       \
  X(CUresult, MemAllocHost, "cuMemAllocHost_v2", (void **address, size_t bytes))                                    \
  X(CUresult, MemFreeHost, "cuMemFreeHost", (void *address))                                                        \
  X(CUresult, MemcpyHtoD, "cuMemcpyHtoD_v2", (CUdeviceptr to, const void *from, size_t bytes))                      \
  X(CUresult, MemcpyDtoH, "cuMemcpyDtoH_v2", (void *to, CUdeviceptr from, size_t bytes))                            \
  X(CUresult, MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",                                                              \
    (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))                                              \
  X(CUresult, MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *to, CUdeviceptr from, size_t bytes, CUstream stream)) \
  X(CUresult, MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2",                                                              \
    (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                                              \
  X(CUresult, MemsetD8Async, "cuMemsetD8Async", (CUdeviceptr to, unsigned char value, size_t n, CUstream stream))   \
  X(CUresult, MemsetD32Async, "cuMemsetD32Async", (CUdeviceptr to, unsigned value, size_t n, CUstream stream))      \
  X(CUresult, ModuleLoadDataEx, "cuModuleLoadDataEx",                                                               \
    (CUmodule * module, const void *image, unsigned n, const int *options, void **values))                          \
  X(CUresult, ModuleUnload, "cuModuleUnload", (CUmodule module))                                                    \
  X(CUresult, ModuleGetFunction, "cuModuleGetFunction", (CUfunction * function, CUmodule module, const char *name)) \
  X(CUresult, FuncSetAttribute, "cuFuncSetAttribute", (CUfunction function, int attribute, int value))              \
  X(CUresult, FuncGetAttribute, "cuFuncGetAttribute", (int *value, int attribute, CUfunction function))             \
  X(CUresult, LaunchKernel, "cuLaunchKernel",                                                                       \
    (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,    \
     unsigned block_z, unsigned shared_bytes, CUstream stream, void **arguments, void **extra))                     \
  X(CUresult, StreamCreate, "cuStreamCreate", (CUstream * stream, unsigned flags))                                  \
  X(CUresult, StreamDestroy, "cuStreamDestroy_v2", (CUstream stream))                                               \
  X(CUresult, StreamSynchronize, "cuStreamSynchronize", (CUstream stream))                                          \
  X(CUresult, StreamQuery, "cuStreamQuery", (CUstream stream))                                                      \
  X(CUresult, StreamWaitEvent, "cuStreamWaitEvent", (CUstream stream, CUevent event, unsigned flags))               \
  X(CUresult, EventCreate, "cuEventCreate", (CUevent * event, unsigned flags))                                      \
  X(CUresult, EventDestroy, "cuEventDestroy_v2", (CUevent event))                                                   \
  X(CUresult, EventRecord, "cuEventRecord", (CUevent event, CUstream stream))                                       \
  X(CUresult, EventSynchronize, "cuEventSynchronize", (CUevent event))                                              \
  X(CUresult, EventQuery, "cuEventQuery", (CUevent event))                                                          \
  X(CUresult, EventElapsedTime, "cuEventElapsedTime", (float *milliseconds, CUevent from, CUevent to))              \
  X(CUresult, StreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream stream, int mode))                           \
  X(CUresult, StreamEndCapture, "cuStreamEndCapture", (CUstream stream, CUgraph * graph))                           \
  X(CUresult, GraphInstantiate, "cuGraphInstantiateWithFlags",                                                      \
    (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                                                  \
  X(CUresult, GraphLaunch, "cuGraphLaunch", (CUgraphExec exec, CUstream stream))                                    \
  X(CUresult, GraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec exec))                                           \
  X(CUresult, GraphDestroy, "cuGraphDestroy", (CUgraph graph))

// Column-major throughout, as cuBLAS is. alpha and beta are of the compute type, in host memory unless the pointer mode
// says otherwise.
#define NNC_CUBLAS_SYMBOLS(X)                                                                                        \
  X(cublasStatus_t, Create, "cublasCreate_v2", (cublasHandle_t * handle))                                            \
  X(cublasStatus_t, Destroy, "cublasDestroy_v2", (cublasHandle_t handle))                                            \
  X(cublasStatus_t, GetVersion, "cublasGetVersion_v2", (cublasHandle_t handle, int *version))                        \
  X(cublasStatus_t, GetProperty, "cublasGetProperty", (int property, int *value))                                    \
  X(const char *, GetStatusName, "cublasGetStatusName", (cublasStatus_t status))                                     \
  X(cublasStatus_t, SetStream, "cublasSetStream_v2", (cublasHandle_t handle, CUstream stream))                       \
  X(cublasStatus_t, SetWorkspace, "cublasSetWorkspace_v2", (cublasHandle_t handle, void *workspace, size_t bytes))   \
  X(cublasStatus_t, SetMathMode, "cublasSetMathMode", (cublasHandle_t handle, int mode))                             \
  X(cublasStatus_t, SetPointerMode, "cublasSetPointerMode_v2", (cublasHandle_t handle, int mode))                    \
  X(cublasStatus_t, GemmEx, "cublasGemmEx",                                                                          \
    (cublasHandle_t handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a, int type_a,   \
     int lda, const void *b, int type_b, int ldb, const void *beta, void *c, int type_c, int ldc, int compute,       \
     int algorithm))                                                                                                 \
  X(cublasStatus_t, GemmStridedBatchedEx, "cublasGemmStridedBatchedEx",                                              \
    (cublasHandle_t handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a, int type_a,   \
     int lda, long long stride_a, const void *b, int type_b, int ldb, long long stride_b, const void *beta, void *c, \
     int type_c, int ldc, long long stride_c, int batch, int compute, int algorithm))

// A live tensor, for the emulator's bounds check.
typedef struct CudaRange {
  const char *name;   // Borrowed until the launch (with a graph: until the graph is destroyed)
  CUdeviceptr address;
  size_t bytes;
  bool read_only;   // nothing there is written
} CudaRange;

// The one table. Fields are called as api->driver.MemAlloc(...), api->cublas.GemmEx(...).
typedef struct CudaDriver {
#define NNC_FIELD(type, field, name, parameters) type(*field) parameters;
  NNC_CUDA_DRIVER_SYMBOLS(NNC_FIELD)
} CudaDriver;
typedef struct CudaBlas {
  NNC_CUBLAS_SYMBOLS(NNC_FIELD)
#undef NNC_FIELD
} CudaBlas;
typedef struct CudaApi {
  CudaDriver driver;
  CudaBlas cublas;
  struct CudaNccl *nccl;   // Static; runtime/cuda/nccl.h. NULL: there is one rank
  // Only in the emulator, else NULL. Tells which tensors the next launch or cuBLAS call on this stream may touch: an
  // access anywhere else, inside of the same allocation too, is reported. ranges is copied. Without it every allocation
  // may be touched in full.
  void (*expect_ranges)(CUstream stream, int n, const CudaRange *ranges);
} CudaApi;

// Fills the table with the emulator's stand-ins (runtime/cuda/emulator). A module image is then the address of the
// table that cuda_emulate_module wrote into the kernels' object (NncEmuModule in runtime/cuda/emulator/emulator.h).
void nnc_emu_bind(CudaApi *api);
void nnc_emu_bind_nccl(CudaApi *api);   // for a program of several ranks, after that

#endif
