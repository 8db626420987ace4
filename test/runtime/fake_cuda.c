// A stand-in for libcuda.so.1, libcublas.so.13 and libcublas.so.12, built as each, with which tests plant failures
// under the cuda target's own dlopen, symbol list and errors. Memory of the device is the host's, copies are copies,
// kernels and products do nothing. The environment says what the device is and what fails:
//   FAKE_CUDA_FAIL=CALL:N:CODE   the Nth call of CALL (from 1) returns CODE; after an error that ends a context all
//   later calls do, too FAKE_CUDA_DEVICES=N          how many there are (1) FAKE_CUDA_FREE=BYTES         free memory (8
//   GiB of 16) FAKE_CUDA_ARCH=NUMBER        compute capability (80); a cubin is refused unless FAKE_CUDA_CUBIN is set
//   FAKE_CUDA_VERSION=NUMBER     the driver's version of CUDA (13000)
//   FAKE_CUDA_PTX=NUMBER         the newest version of PTX that the driver knows (99)
//   FAKE_CUDA_LOG=FILE           names of modules' images and of failed calls are appended to it
//   FAKE_CUBLAS_LOG=FILE         the version of the cuBLAS that is started is appended to it
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/emulator/errors.h"

#define EXPORT __attribute__((visibility("default")))

static void note_in(const char *variable, const char *text) {
  const char *path = getenv(variable);
  FILE *f = path ? fopen(path, "a") : NULL;
  if (!f) return;
  fprintf(f, "%s\n", text);
  fclose(f);
}

static void note(const char *text) { note_in("FAKE_CUDA_LOG", text); }

// What the call must return: 0, what was planted for it, or what broke the context earlier.
static int enter(const char *call) {
  static int count, broken;   // of the planted call; its code once it has failed
  if (broken) return broken;
  const char *plan = getenv("FAKE_CUDA_FAIL");
  size_t length = strlen(call);
  int nth = 1, code = CUDA_ERROR_UNKNOWN;
  if (!plan || strncmp(plan, call, length) || plan[length] != ':' ||
      sscanf(plan + length, ":%d:%d", &nth, &code) != 2 || ++count != nth)
    return 0;
  note(call);
  if (code == 46 || code == 214 || code >= CUDA_ERROR_ILLEGAL_ADDRESS) broken = code;
  return code;
}

#ifndef FAKE_CUBLAS
static int number(const char *name, int fallback) {
  const char *text = getenv(name);
  return text ? atoi(text) : fallback;
}

typedef struct Object {
  int unused;
} Object;   // what handles point to
static Object object;

#define CALL(name, parameters, body) \
  EXPORT CUresult name parameters;   \
  EXPORT CUresult name parameters {  \
    CUresult result = enter(#name);  \
    if (result) return result;       \
    body;                            \
    return CUDA_SUCCESS;             \
  }

// Memory goes back whatever has failed, so that what a program leaks shows.
#define RELEASE(name, parameters, body) \
  EXPORT CUresult name parameters;      \
  EXPORT CUresult name parameters {     \
    body;                               \
    return enter(#name);                \
  }

EXPORT CUresult cuGetErrorName(CUresult error, const char **name);
EXPORT CUresult cuGetErrorName(CUresult error, const char **name) {
  const CudaErrorText *e = cuda_error_text(error);
  if (e) *name = e->name;
  return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuGetErrorString(CUresult error, const char **text);
EXPORT CUresult cuGetErrorString(CUresult error, const char **text) {
  const CudaErrorText *e = cuda_error_text(error);
  if (e) *text = e->text;
  return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static size_t allocated;
static size_t total_bytes(void) { return (size_t)16 << 30; }
static size_t free_bytes(void) {
  const char *text = getenv("FAKE_CUDA_FREE");
  return (text ? (size_t)strtoull(text, NULL, 10) : (size_t)8 << 30) - allocated;
}
static void *at(CUdeviceptr p) { return (void *)(uintptr_t)p; }

CALL(cuInit, (unsigned flags), if (number("FAKE_CUDA_DEVICES", 1) < 1) return CUDA_ERROR_NO_DEVICE)
CALL(cuDriverGetVersion, (int *version), *version = number("FAKE_CUDA_VERSION", 13000))
CALL(cuDeviceGetCount, (int *count), *count = number("FAKE_CUDA_DEVICES", 1))
CALL(cuDeviceGet, (CUdevice * device, int ordinal), *device = ordinal;
     if (ordinal >= number("FAKE_CUDA_DEVICES", 1)) return CUDA_ERROR_INVALID_DEVICE)
CALL(cuDeviceGetName, (char *name, int size, CUdevice device), snprintf(name, (size_t)size, "Fake GPU %d", device))
CALL(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device), *bytes = total_bytes())
CALL(cuDeviceGetAttribute, (int *value, int attribute, CUdevice device), int arch = number("FAKE_CUDA_ARCH", 80);
     *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? arch / 10
              : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? arch % 10
                                                                          : 1)
CALL(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device), *context = (CUcontext)(void *)&object)
CALL(cuDevicePrimaryCtxRelease_v2, (CUdevice device), )
CALL(cuCtxSetCurrent, (CUcontext context), )
CALL(cuCtxSynchronize, (void), )
CALL(cuMemGetInfo_v2, (size_t * available, size_t *total), *available = free_bytes(); *total = total_bytes())
CALL(cuMemAlloc_v2, (CUdeviceptr * address, size_t bytes), if (bytes > free_bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
     *address = (CUdeviceptr)(uintptr_t)calloc(1, bytes); allocated += bytes)
RELEASE(cuMemFree_v2, (CUdeviceptr address), free(at(address)))
CALL(cuMemAllocHost_v2, (void **address, size_t bytes), *address = calloc(1, bytes))
RELEASE(cuMemFreeHost, (void *address), free(address))
CALL(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes), memcpy(at(to), from, bytes))
CALL(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes), memcpy(to, at(from), bytes))
CALL(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream),
     memcpy(at(to), from, bytes))
CALL(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream), memcpy(to, at(from), bytes))
CALL(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
     memmove(at(to), at(from), bytes))
CALL(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t n, CUstream stream), memset(at(to), value, n))
CALL(cuMemsetD32Async, (CUdeviceptr to, unsigned value, size_t n, CUstream stream),
     for (size_t i = 0; i < n; i++)((unsigned *)at(to))[i] = value)

static CUresult refuse(CUresult code, const char *why, unsigned n, const int *options, void **values) {
  for (unsigned i = 0; i + 1 < n; i++)
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER && options[i + 1] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
      snprintf(values[i], (size_t)(uintptr_t)values[i + 1], "%s", why);
  return code;
}

// As the driver's assembler would: `.version A.B` and `.target sm_N` come first.
static CUresult load(const char *image, unsigned n, const int *options, void **values) {
  if (!memcmp(image, "\177ELF", 4)) {
    note("cubin");
    return getenv("FAKE_CUDA_CUBIN") ? CUDA_SUCCESS : refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, "", n, options, values);
  }
  note("ptx");
  const char *version = strstr(image, "\n.version "), *target = strstr(image, "\n.target sm_");
  int major, minor, arch, gpu = number("FAKE_CUDA_ARCH", 80);
  char suffix;
  if (!version || !target || sscanf(version, "\n.version %d.%d", &major, &minor) != 2 ||
      sscanf(target, "\n.target sm_%d%c", &arch, &suffix) != 2)
    return refuse(CUDA_ERROR_INVALID_PTX,
                  "ptxas application ptx input, line 1; fatal   : Missing .version directive at start of file", n,
                  options, values);
  if (10 * major + minor > number("FAKE_CUDA_PTX", 99))
    return refuse(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                  "ptxas application ptx input, line 9; fatal   : Unsupported .version", n, options, values);
  if (arch > gpu || (suffix == 'a' && arch != gpu))
    return refuse(CUDA_ERROR_INVALID_PTX,
                  "ptxas application ptx input, line 10; fatal   : SM version specified by .target is higher than "
                  "default SM version assumed",
                  n, options, values);
  return CUDA_SUCCESS;
}

// Of a cubin: whether it has the kernel's section. PTX has all kernels.
static CUresult find_kernel(const char *image, const char *name) {
  if (memcmp(image, "\177ELF", 4)) return CUDA_SUCCESS;
  const Elf64_Ehdr *elf = (const void *)image;
  const Elf64_Shdr *sections = (const void *)(image + elf->e_shoff);
  for (int i = 0; i < elf->e_shnum; i++) {
    const char *section = image + sections[elf->e_shstrndx].sh_offset + sections[i].sh_name;
    if (!strncmp(section, ".text.", 6) && !strcmp(section + 6, name)) return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}

CALL(cuModuleLoadDataEx, (CUmodule * module, const void *image, unsigned n, const int *options, void **values),
     *module = (CUmodule)(uintptr_t)image;
     return load(image, n, options, values))
CALL(cuModuleUnload, (CUmodule module), )
CALL(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name),
     *function = (CUfunction)(void *)&object;
     return find_kernel((const char *)module, name))
CALL(cuFuncSetAttribute, (CUfunction function, int attribute, int value), )
CALL(cuFuncGetAttribute, (int *value, int attribute, CUfunction function), *value = 0)
CALL(cuLaunchKernel,
     (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
      unsigned shared, CUstream stream, void **arguments, void **extra), )
CALL(cuStreamCreate, (CUstream * stream, unsigned flags), *stream = (CUstream)(void *)&object)
CALL(cuStreamDestroy_v2, (CUstream stream), )
CALL(cuStreamSynchronize, (CUstream stream), )
CALL(cuStreamQuery, (CUstream stream), )
CALL(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags), )
CALL(cuEventCreate, (CUevent * event, unsigned flags), *event = (CUevent)(void *)&object)
CALL(cuEventDestroy_v2, (CUevent event), )
CALL(cuEventRecord, (CUevent event, CUstream stream), )
CALL(cuEventSynchronize, (CUevent event), )
CALL(cuEventQuery, (CUevent event), )
CALL(cuEventElapsedTime, (float *milliseconds, CUevent from, CUevent to), *milliseconds = 1)
CALL(cuStreamBeginCapture_v2, (CUstream stream, int mode), )
CALL(cuStreamEndCapture, (CUstream stream, CUgraph *graph), *graph = (CUgraph)(void *)&object)
#ifndef FAKE_CUDA_OLD   // a driver that lacks one
CALL(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags),
     *exec = (CUgraphExec)(void *)&object)
#endif
CALL(cuGraphLaunch, (CUgraphExec exec, CUstream stream), )
CALL(cuGraphExecDestroy, (CUgraphExec exec), )
CALL(cuGraphDestroy, (CUgraph graph), )

#else

#define CALL(name, parameters, body)      \
  EXPORT cublasStatus_t name parameters;  \
  EXPORT cublasStatus_t name parameters { \
    cublasStatus_t status = enter(#name); \
    if (status) return status;            \
    body;                                 \
    return CUBLAS_STATUS_SUCCESS;         \
  }

EXPORT const char *cublasGetStatusName(cublasStatus_t status);
EXPORT const char *cublasGetStatusName(cublasStatus_t status) {
  static const struct {
    cublasStatus_t status;
    const char *name;
  } names[] = {
      {1, "CUBLAS_STATUS_NOT_INITIALIZED"},   {3, "CUBLAS_STATUS_ALLOC_FAILED"},   {8, "CUBLAS_STATUS_ARCH_MISMATCH"},
      {13, "CUBLAS_STATUS_EXECUTION_FAILED"}, {15, "CUBLAS_STATUS_NOT_SUPPORTED"},
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].status == status) return names[i].name;
  return "CUBLAS_STATUS_UNKNOWN";
}

CALL(cublasCreate_v2, (cublasHandle_t * handle), note_in("FAKE_CUBLAS_LOG", FAKE_CUBLAS == 13 ? "13" : "12");
     *handle = malloc(1))
CALL(cublasDestroy_v2, (cublasHandle_t handle), free(handle))
CALL(cublasGetVersion_v2, (cublasHandle_t handle, int *version), *version = 10000 * FAKE_CUBLAS)
CALL(cublasGetProperty, (int property, int *value), *value = property == MAJOR_VERSION ? FAKE_CUBLAS : 0)
CALL(cublasSetStream_v2, (cublasHandle_t handle, CUstream stream), )
CALL(cublasSetWorkspace_v2, (cublasHandle_t handle, void *workspace, size_t bytes), )
CALL(cublasSetMathMode, (cublasHandle_t handle, int mode), )
CALL(cublasSetPointerMode_v2, (cublasHandle_t handle, int mode), )
CALL(cublasGemmEx,
     (cublasHandle_t handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a, int type_a,
      int lda, const void *b, int type_b, int ldb, const void *beta, void *c, int type_c, int ldc, int compute,
      int algorithm), )
CALL(cublasGemmStridedBatchedEx,
     (cublasHandle_t handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a, int type_a,
      int lda, long long stride_a, const void *b, int type_b, int ldb, long long stride_b, const void *beta, void *c,
      int type_c, int ldc, long long stride_c, int batch, int compute, int algorithm), )
#endif
