// The driver, cuBLAS and NCCL by dlopen: an executable needs neither to be linked nor to start.
#include <dlfcn.h>
#include <string.h>

#include "runtime/comm/comm.h"
#include "runtime/cuda/cuda.h"

static void *open_library(const char *const *names, char *reason, size_t size) {
  for (int i = 0; names[i]; i++) {
    void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (library) return library;
    const char *error = dlerror();
    if (i == 0) snprintf(reason, size, "%s", error ? error : "unknown reason");
  }
  return NULL;
}

// A function pointer by way of memcpy: ISO C has no cast from an object pointer to it.
static bool find(void *library, const char *name, void *field) {
  void *address = dlsym(library, name);
  memcpy(field, &address, sizeof address);
  return address != NULL;
}

static bool load_driver(CudaApi *api) {
  static const char *const names[] = {"libcuda.so.1", "libcuda.so", NULL};
  char reason[512];
  void *library = open_library(names, reason, sizeof reason);
  if (!library) {
    report_error("%s was compiled for an NVIDIA GPU (%s), but there is no driver here: %s\n"
                 "install the driver of the GPU, or compile %s with --target=host",
                 nnc_program.model, nnc_program.cuda->arch, reason, nnc_program.source);
    return false;
  }
#define FIND(type, field, name, parameters)                                                                        \
  if (!find(library, name, &api->driver.field)) {                                                                  \
    report_error("the NVIDIA driver is too old: it has no %s; this program needs driver 470 (CUDA 11.4) or later", \
                 name);                                                                                            \
    return false;                                                                                                  \
  }
  NNC_CUDA_DRIVER_SYMBOLS(FIND)
#undef FIND
  return true;
}

// Its major version; 0: unknown.
static int cublas_major(void *library) {
  cublasStatus_t (*get)(int property, int *value);
  int major = 0;
  return find(library, "cublasGetProperty", &get) && get(MAJOR_VERSION, &major) == CUBLAS_STATUS_SUCCESS ? major : 0;
}

// The newest that the driver is new enough for: a library of CUDA 13 starts with no driver for CUDA 12, but those of
// one major version go together. NULL after reporting.
static void *open_cublas(const CudaApi *api) {
  static const char *const names[] = {"libcublas.so.13",
                                      "libcublas.so.12",
                                      "libcublas.so.11",
                                      "libcublas.so",
                                      "/usr/local/cuda/lib64/libcublas.so",
                                      NULL};
  char reason[512] = "";
  int version = 0;
  api->driver.DriverGetVersion(&version);
  for (int i = 0, too_new = 0; names[i]; i++) {
    char why[512];
    void *library = open_library((const char *const[]){names[i], NULL}, why, sizeof why);
    int major = library ? cublas_major(library) : 0;
    if (library && (!version || major <= version / 1000)) return library;
    if (library) {
      dlclose(library);
      if (!too_new++)
        snprintf(reason, sizeof reason, "%s is of CUDA %d, and the driver is for CUDA %d.%d", names[i], major,
                 version / 1000, version % 1000 / 10);
    } else if (i == 0) {
      snprintf(reason, sizeof reason, "%s", why);
    }
  }
  report_error("%s needs cuBLAS for its matrix products: %s\ninstall libcublas 11 to 13 (part of the CUDA toolkit)%s, "
               "or "
               "put its folder into LD_LIBRARY_PATH",
               nnc_program.model, reason, version ? " that is no newer than the driver" : "");
  return NULL;
}

static bool load_cublas(CudaApi *api) {
  void *library = open_cublas(api);
  if (!library) return false;
#define FIND(type, field, name, parameters)                                       \
  if (!find(library, name, &api->cublas.field)) {                                 \
    report_error("cuBLAS is too old: it has no %s; version 11.4 or later", name); \
    return false;                                                                 \
  }
  NNC_CUBLAS_SYMBOLS(FIND)
#undef FIND
  return true;
}

static bool calls_cublas(const NncStep *steps, int n) {
  for (int s = 0; s < n; s++)
    if (cuda_library_call(steps[s].kind) ||
        (steps[s].scan && calls_cublas(steps[s].scan->steps, steps[s].scan->n_steps)))
      return true;
  return false;
}

bool cuda_needs_cublas(void) {
  for (int i = 0; i < nnc_program.n_functions; i++)
    if (calls_cublas(nnc_program.functions[i].steps, nnc_program.functions[i].n_steps)) return true;
  return false;
}

static bool load_nccl(CudaApi *api) {
  static const char *const names[] = {"libnccl.so.2", "libnccl.so", NULL};
  static CudaNccl nccl;
  char reason[512];
  void *library = open_library(names, reason, sizeof reason);
  if (!library) {
    report_error("%s needs NCCL, which moves bytes between the GPUs of several ranks: %s\ninstall libnccl2 (NCCL 2.10 "
                 "or "
                 "later), or put its folder into LD_LIBRARY_PATH",
                 nnc_program.model, reason);
    return false;
  }
#define FIND(type, field, name, parameters)                                     \
  if (!find(library, name, &nccl.field)) {                                      \
    report_error("NCCL is too old: it has no %s; version 2.10 or later", name); \
    return false;                                                               \
  }
  NNC_NCCL_SYMBOLS(FIND)
#undef FIND
  api->nccl = &nccl;
  return true;
}

bool nnc_cuda_load(CudaApi *api) {
  memset(api, 0, sizeof *api);
  return load_driver(api) && (!cuda_needs_cublas() || load_cublas(api)) && (ranks.size == 1 || load_nccl(api));
}
