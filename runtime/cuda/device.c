// A GPU as the device of a program: driver, context, kernels, one arena of the planned size, another in page-locked
// memory of the host, copies between the first and its mirror on the host.
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm.h"
#include "runtime/cuda/cuda.h"

// ---------------------------------------------------------------------------------------------------------------------
// Opening

static bool open_context(CudaMemory *m) {
  int count = 0;
  if (!CUDA(m, "starting the driver", Init, 0) || !CUDA(m, "looking for a GPU", DeviceGetCount, &count)) return false;
  // A machine's ranks have a GPU each, but where each is shown its own alone.
  if (m->ordinal < 0) m->ordinal = ranks.size > 1 && count > 1 ? ranks.local : 0;
  if (m->ordinal >= count && ranks.size > 1) {
    report_error("this is rank %d of %d, number %d of its machine, which has %d GPU%s: start as many ranks on a "
                 "machine "
                 "as it has GPUs",
                 ranks.rank, ranks.size, ranks.local, count, count == 1 ? "" : "s");
    return false;
  }
  if (m->ordinal >= count) {
    report_error("--device=%d, but the driver shows %d GPU%s, numbered from 0%s", m->ordinal, count,
                 count == 1 ? "" : "s", count ? "" : ": look at nvidia-smi and CUDA_VISIBLE_DEVICES");
    return false;
  }
  if (!CUDA(m, "looking for the GPU", DeviceGet, &m->device, m->ordinal)) return false;
  m->api.driver.DeviceGetName(m->name, (int)sizeof m->name - 1, m->device);
  return CUDA(m, "making a context on the GPU", DevicePrimaryCtxRetain, &m->context, m->device) &&
         CUDA(m, "making a context on the GPU", CtxSetCurrent, m->context) &&
         CUDA(m, "making a stream", StreamCreate, &m->compute, CU_STREAM_NON_BLOCKING) &&
         CUDA(m, "making a stream", StreamCreate, &m->copy, CU_STREAM_NON_BLOCKING) &&
         CUDA(m, "making an event", EventCreate, &m->copied, CU_EVENT_DISABLE_TIMING) &&
         CUDA(m, "making an event", EventCreate, &m->done, CU_EVENT_DISABLE_TIMING) &&
         CUDA(m, "making an event", EventCreate, &m->before, CU_EVENT_DEFAULT) &&
         CUDA(m, "making an event", EventCreate, &m->after, CU_EVENT_DEFAULT) &&
         CUDA(m, "asking for the GPU's memory", MemGetInfo, &m->free_at_start, &(size_t){0});
}

static void dump_ptx(void) {
  const char *path = getenv("NNC_PTX_DUMP");
  if (!path || !*path) return;
  if (!nnc_program.cuda->ptx) {
    report_warning("NNC_PTX_DUMP: this executable holds no PTX, its kernels run in the emulator: nnc --target=cuda-emu "
                   "--emit=ptx shows it");
    return;
  }
  size_t size = (size_t)(nnc_program.cuda->ptx_end - nnc_program.cuda->ptx);
  FILE *f = fopen(path, "w");
  bool ok = f && fwrite(nnc_program.cuda->ptx, 1, size, f) == size;
  if (f && fclose(f) != 0) ok = false;
  if (!ok) report_warning("NNC_PTX_DUMP: cannot write %s", path);
}

static CUresult load_image(const CudaMemory *m, const void *image, CUmodule *module, char *log, int size) {
  int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)(intptr_t)size};
  *log = 0;
  return m->api.driver.ModuleLoadDataEx(module, image, 2, options, values);
}

static void unload(CudaMemory *m) {
  while (m->n_modules > 0) m->api.driver.ModuleUnload(m->modules[--m->n_modules]);
}

// All or none.
static CUresult load_cubins(CudaMemory *m, const void *const *cubins, char *log, int size) {
  CUresult result = CUDA_ERROR_NO_BINARY_FOR_GPU;
  int n = 0;
  while (cubins[n]) n++;
  if (!n) return result;
  m->modules = xrealloc(m->modules, (size_t)n * sizeof(CUmodule));
  for (int i = 0; i < n; i++) {
    result = load_image(m, cubins[i], &m->modules[i], log, size);
    if (result != CUDA_SUCCESS) break;
    m->n_modules++;
  }
  if (result != CUDA_SUCCESS) unload(m);
  return result;
}

// Why the kernels were refused, as far as their architecture and the GPU's (10 major + minor) tell; the driver says the
// same of both with several codes.
static const char *refusal(const char *arch, int gpu, CUresult result) {
  int compiled = atoi(arch + strlen("sm_"));
  if (gpu < compiled) return "the GPU is older than the kernels: compile with its --gpu-arch";
  if (gpu != compiled && strchr(arch, 'a'))
    return "kernels for an architecture with an 'a' run on no other: compile with the --gpu-arch of this GPU, or "
           "without the 'a'";
  return cuda_likely_cause(result);
}

// The assembled kernels where they fit this GPU, else PTX, which the driver assembles.
static bool load_module(CudaMemory *m) {
  const NncCuda *c = nnc_program.cuda;
  char *log = xcalloc(1, 8192);
  CUresult result = CUDA_ERROR_NO_BINARY_FOR_GPU;
  m->modules = xcalloc(1, sizeof(CUmodule));
  if (c->cubins) result = load_cubins(m, c->cubins, log, 8191);
  CUresult refused = c->cubins && c->cubins[0] ? result : CUDA_SUCCESS;
  if (result != CUDA_SUCCESS) {
    result = load_image(m, c->module ? c->module : c->ptx, &m->modules[0], log, 8191);
    m->n_modules = result == CUDA_SUCCESS;
  }
  int major = 0, minor = 0, version = 0;
  m->api.driver.DeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, m->device);
  m->api.driver.DeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, m->device);
  m->api.driver.DriverGetVersion(&version);
  if (!cuda_ok_or(m, result, "cuModuleLoadDataEx", "loading the kernels",
                  refusal(c->arch, 10 * major + minor, result))) {
    fprintf(stderr, "%s: compiled for %s (PTX %d.%d); this GPU, %s, is sm_%d%d, its driver is for CUDA %d.%d\n",
            report_name(), c->arch, c->ptx_version / 10, c->ptx_version % 10, m->name, major, minor, version / 1000,
            version % 1000 / 10);
    if (*log) fprintf(stderr, "%s: the driver's log: %s\n", report_name(), log);
  } else if (refused != CUDA_SUCCESS) {
    const char *name = NULL;
    m->api.driver.GetErrorName(refused, &name);
    report_warning("the kernels assembled for %s do not run on this GPU, %s (sm_%d%d): %s; the driver has assembled "
                   "their PTX, which takes time at every start",
                   c->arch, m->name, major, minor, name ? name : "unknown error");
  }
  free(log);
  return result == CUDA_SUCCESS;
}

static int64_t largest_arguments(void) {
  int64_t most = 0;
  for (int i = 0; i < nnc_program.n_functions; i++) {
    const NncFunction *f = &nnc_program.functions[i];
    int64_t sum = 0;
    for (int a = 0; a < f->n_args; a++) sum += (f->args[a].bytes + NNC_ALIGN - 1) / NNC_ALIGN * NNC_ALIGN;
    if (sum > most) most = sum;
  }
  return most;
}

// What is needed and what is free, in bytes, and why that may be. Owned.
static char *shortage(const CudaMemory *m, int64_t bytes, size_t available, size_t total) {
  char need[32], have[32], all[32];
  return xasprintf("the program needs an arena of %s (%lld bytes), but %s has %s (%lld bytes) free of %s\n%s",
                   print_bytes(bytes, need, sizeof need), (long long)bytes, m->name,
                   print_bytes((int64_t)available, have, sizeof have), (long long)available,
                   print_bytes((int64_t)total, all, sizeof all), cuda_likely_cause(CUDA_ERROR_OUT_OF_MEMORY));
}

// What was free when it was asked for need not be any more, or lies in pieces.
static bool allocate_arena(CudaMemory *m, int64_t bytes) {
  size_t available = 0, total = 0;
  if (!CUDA(m, "asking for the GPU's memory", MemGetInfo, &available, &total)) return false;
  if ((size_t)bytes > available) {
    char *text = shortage(m, bytes, available, total);
    report_error("%s", text);
    free(text);
    return false;
  }
  CUresult result = m->api.driver.MemAlloc(&m->arena, (size_t)bytes);
  char *text = result == CUDA_ERROR_OUT_OF_MEMORY && m->api.driver.MemGetInfo(&available, &total) == CUDA_SUCCESS
                   ? shortage(m, bytes, available, total)
                   : NULL;
  bool ok = cuda_ok_or(m, result, "cuMemAlloc", "allocating the arena", text ? text : cuda_likely_cause(result));
  free(text);
  return ok;
}

// One allocation of the planned size, as the arena is one.
static bool allocate_far(CudaMemory *m, int64_t bytes) {
  if (!bytes) return true;
  if (!cuda_allocate_pinned(m, "allocating the far arena", (size_t)bytes, &m->far)) return false;
  memset(m->far, 0, (size_t)bytes);
  return true;
}

static bool open_memory(CudaMemory *m, int64_t bytes, int64_t far_bytes) {
  m->staging_bytes = largest_arguments();
  return allocate_arena(m, bytes) && allocate_far(m, far_bytes) &&
         CUDA(m, "clearing the arena", MemsetD8Async, m->arena, 0, (size_t)bytes, m->compute) &&
         cuda_wait(m, "clearing the arena") &&
         cuda_allocate_pinned(m, "allocating the staging buffer", (size_t)(m->staging_bytes ? m->staging_bytes : 1),
                              &m->staging);
}

static void close_device(Arena *a) {
  CudaMemory *m = a->memory;
  const CudaDriver *d = &m->api.driver;
  if (m->nccl) m->api.nccl->CommDestroy(m->nccl);
  if (m->cublas) m->api.cublas.Destroy(m->cublas);
  if (m->staging) d->MemFreeHost(m->staging);
  if (m->far) d->MemFreeHost(m->far);
  a->far_memory = NULL;
  if (m->arena) d->MemFree(m->arena);
  unload(m);
  free(m->modules);
  CUevent events[] = {m->copied, m->done, m->before, m->after};
  for (size_t i = 0; i < sizeof events / sizeof *events; i++)
    if (events[i]) d->EventDestroy(events[i]);
  for (int lane = 0; lane < NNC_LANES; lane++)
    if (m->lanes[lane]) d->StreamDestroy(m->lanes[lane]);
  if (m->copy) d->StreamDestroy(m->copy);
  if (m->compute) d->StreamDestroy(m->compute);
  if (m->context) d->DevicePrimaryCtxRelease(m->device);
  free(m);
  a->memory = NULL;
}

// The stream comes first: setting it takes the workspace away again. Sums stay in the compute type: by default cuBLAS
// may add the parts of a long sum in bf16 or f16 where the result has that type.
bool cuda_open_cublas(CudaMemory *m) {
  return CUBLAS(m, "starting cuBLAS", Create, &m->cublas) &&
         CUBLAS(m, "starting cuBLAS", SetStream, m->cublas, m->compute) &&
         CUBLAS(m, "starting cuBLAS", SetMathMode, m->cublas,
                CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
}

bool cuda_open_lane(CudaMemory *m, NncLane lane) {
  return lane == NNC_LANE_COMPUTE || m->lanes[lane] ||
         CUDA(m, "making a stream", StreamCreate, &m->lanes[lane], CU_STREAM_NON_BLOCKING);
}

static bool open_device(Arena *a, const DeviceOptions *o) {
  CudaMemory *m = xcalloc(1, sizeof *m);
  m->ordinal = o->device;
  if (!nnc_program.cuda->load(&m->api)) {
    free(m);
    return false;
  }
  a->memory = m;   // closed by arena_destroy
  dump_ptx();
  bool ok = open_context(m) && load_module(m) && open_memory(m, a->bytes, a->far_bytes) &&
            (!cuda_needs_cublas() || cuda_open_cublas(m));
  a->far_memory = m->far;
  return ok;
}

// ---------------------------------------------------------------------------------------------------------------------
// Copies

// Arguments go through page-locked memory on a stream of their own. The arena is at rest then: results of the last run
// have been fetched.
static bool push(const Arena *a, int64_t offset, int64_t bytes) {
  CudaMemory *m = a->memory;
  const char *what = "copying to the GPU";
  int64_t room = (bytes + NNC_ALIGN - 1) / NNC_ALIGN * NNC_ALIGN;
  m->uploaded = NULL;
  // What does not fit is copied from where it is, and has arrived when this returns: cuMemcpyHtoD would only have read
  // it then, and the compute stream does not wait for the default one.
  if (room > m->staging_bytes) {
    return cuda_wait(m, what) &&
           CUDA(m, what, MemcpyHtoDAsync, m->arena + (CUdeviceptr)offset, a->base + offset, (size_t)bytes, m->copy) &&
           CUDA(m, what, StreamSynchronize, m->copy);
  }
  if (m->staging_used + room > m->staging_bytes) {
    if (!CUDA(m, what, StreamSynchronize, m->copy)) return false;
    m->staging_used = 0;
  }
  char *at = m->staging + m->staging_used;
  m->staging_used += room;
  memcpy(at, a->base + offset, (size_t)bytes);
  return CUDA(m, what, MemcpyHtoDAsync, m->arena + (CUdeviceptr)offset, at, (size_t)bytes, m->copy) &&
         CUDA(m, what, EventRecord, m->copied, m->copy) && CUDA(m, what, StreamWaitEvent, m->compute, m->copied, 0);
}

static bool pull(const Arena *a, int64_t offset, int64_t bytes) {
  CudaMemory *m = a->memory;
  const char *what = "fetching results from the GPU";
  return CUDA(m, what, MemcpyDtoHAsync, a->base + offset, m->arena + (CUdeviceptr)offset, (size_t)bytes, m->compute) &&
         cuda_wait(m, what);
}

// What the machine must have is asked for when the device is opened.
static bool check(const DeviceOptions *o, int *threads) {
  *threads = 0;
  if (o->far)
    report_error("--far=%s: the far arena of a program for a GPU is page-locked memory of the host, no file", o->far);
  return !o->far;
}

static int64_t taken(const Arena *a) {
  CudaMemory *m = a->memory;
  size_t now = 0, total = 0;
  return CUDA(m, "asking for the GPU's memory", MemGetInfo, &now, &total) ? (int64_t)m->free_at_start - (int64_t)now
                                                                          : -1;
}

static const char *implementation(const NncStep *s) { return cuda_library_call(s->kind) ? "cuBLAS" : ""; }

static void describe(char *text, size_t size) {
  snprintf(text, size, "%s, %s", nnc_program.target, nnc_program.cuda->arch);
}

// The driver has a context for each thread.
static bool enter(const Arena *a) {
  const CudaMemory *m = a->memory;
  return CUDA(m, "going on with the context", CtxSetCurrent, m->context);
}

const NncDevice nnc_device_cuda = {.name = "cuda",
                                   .check = check,
                                   .enter = enter,
                                   .open = open_device,
                                   .close = close_device,
                                   .join = cuda_join,
                                   .push = push,
                                   .pull = pull,
                                   .prepare = cuda_prepare,
                                   .release = cuda_release,
                                   .stage = cuda_stage,
                                   .start = cuda_start,
                                   .finish = cuda_finish,
                                   .run_step = cuda_run_step,
                                   .watch_step = cuda_watch_step,
                                   .time_step = cuda_time_step,
                                   .taken = taken,
                                   .implementation = implementation,
                                   .describe = describe};
