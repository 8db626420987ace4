// Stand-in for libcuda: a device of compute capability 9.0 in host memory. Work runs when it is submitted, which is one
// of the orders that streams allow. After a fault in a kernel every call fails, as a real context does.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/emulator/device.h"
#include "runtime/cuda/emulator/errors.h"
#include "runtime/cuda/emulator/internal.h"

enum { POISON = 0xff, PROCESSORS = 132 };
#define DEFAULT_MEMORY (8ull << 30)

static Device device = {.total = DEFAULT_MEMORY,   // a driver has no handle for this either
                        .memory = {.name = "device memory", .alignment = 512},
                        .pinned = {.name = "page-locked memory", .alignment = 4096},
                        .threads = 1};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct CudaContext {
  int unused;
};
static struct CudaContext context;
struct CudaModule {
  const NncEmuModule *module;
  struct CudaFunction *functions;   // Owned
};

Device *emu_device(void) { return &device; }

// ---------------------------------------------------------------------------------------------------------------------
// Errors

static CUresult get_error(CUresult code, const char **name, const char **text) {
  const CudaErrorText *e = cuda_error_text(code);
  if (name) *name = e ? e->name : "CUDA_ERROR_UNKNOWN";
  if (text) *text = e ? e->text : "unknown error";
  return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
static CUresult get_error_name(CUresult code, const char **name) { return get_error(code, name, NULL); }
static CUresult get_error_string(CUresult code, const char **text) { return get_error(code, NULL, text); }

CUresult emu_fault(EmuFault fault, const char *message) {
  if (fault == EMU_OK) return CUDA_SUCCESS;
  snprintf(device.error, sizeof device.error, "%s", message);
  fprintf(stderr, "cuda-emu: %s\n", message);
  if (fault == EMU_BAD_LAUNCH) return CUDA_ERROR_INVALID_VALUE;
  device.broken = fault == EMU_OUT_OF_BOUNDS ? CUDA_ERROR_ILLEGAL_ADDRESS
                  : fault == EMU_MISALIGNED  ? CUDA_ERROR_MISALIGNED_ADDRESS
                                             : CUDA_ERROR_LAUNCH_FAILED;
  return device.broken;
}

const char *nnc_emu_last_error(void) { return device.error; }
void nnc_emu_reset(void) {
  device.broken = CUDA_SUCCESS;
  device.error[0] = 0;
}
void nnc_emu_set_late(unsigned streams) { device.late = streams; }
void nnc_emu_set_lanes(uint64_t lanes) { device.lanes = lanes; }
void nnc_emu_set_drop(uint64_t n) { device.drop = n; }
void nnc_emu_set_memory(uint64_t bytes) { device.total = bytes; }
int64_t nnc_emu_allocated_bytes(void) { return (int64_t)device.memory.used; }

// ---------------------------------------------------------------------------------------------------------------------
// Device

// A number in the environment, *out as it is where there is none.
static bool read_setting(const char *name, uint64_t least, uint64_t most, uint64_t *out) {
  const char *text = getenv(name);
  if (!text) return true;
  char *end;
  errno = 0;
  unsigned long long v = strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end || errno || v < least || v > most) {
    fprintf(stderr, "cuda-emu: %s expects an integer of %llu to %llu, not \"%s\"\n", name, (unsigned long long)least,
            (unsigned long long)most, text);
    return false;
  }
  *out = v;
  return true;
}

static CUresult init(unsigned flags) {
  uint64_t memory = device.total, threads = (uint64_t)device.threads, late = device.late, order = device.order,
           lanes = device.lanes, drop = device.drop;
  if (!read_setting("NNC_EMU_MEMORY", 0, INT64_MAX, &memory) || !read_setting("NNC_EMU_THREADS", 1, 1024, &threads) ||
      !read_setting("NNC_EMU_LATE", 0, UINT32_MAX, &late) || !read_setting("NNC_EMU_ORDER", 0, UINT32_MAX, &order) ||
      !read_setting("NNC_EMU_LANES", 0, UINT32_MAX, &lanes) || !read_setting("NNC_EMU_DROP", 0, UINT32_MAX, &drop) ||
      !read_setting("NNC_EMU_NCCL_FAIL", 0, UINT32_MAX, &device.nccl_fail) ||
      !read_setting("NNC_EMU_NCCL_LOSE", 0, UINT32_MAX, &device.nccl_lose))
    return CUDA_ERROR_INVALID_VALUE;
  if (!device.initialised) device.total = memory, device.threads = (int)threads;
  device.late = (unsigned)late;
  device.order = order;
  device.lanes = lanes;
  device.drop = drop;
  device.initialised = true;
  return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult driver_get_version(int *version) {
  *version = 13000;
  return CUDA_SUCCESS;
}

static CUresult device_get_count(int *count) {
  *count = 1;
  return device.initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

static CUresult device_get(CUdevice *d, int ordinal) {
  *d = ordinal;
  return !device.initialised ? CUDA_ERROR_NOT_INITIALIZED : ordinal != 0 ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

static CUresult device_get_name(char *name, int size, CUdevice d) {
  (void)d;
  snprintf(name, (size_t)size, "emulated device");
  return CUDA_SUCCESS;
}

static CUresult device_total_mem(size_t *bytes, CUdevice d) {
  (void)d;
  *bytes = device.total;
  return CUDA_SUCCESS;
}

static CUresult device_get_attribute(int *value, int attribute, CUdevice d) {
  (void)d;
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = EMU_MAX_THREADS; break;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = EMU_SHARED_DEFAULT; break;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = EMU_SHARED_OPTIN; break;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: *value = EMU_SHARED_OPTIN + 1024; break;
  case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = EMU_LANES; break;
  case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = 1980000; break;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = PROCESSORS; break;
  case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = 3201000; break;
  case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = 6144; break;
  case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 60 << 20; break;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 0; break;
  default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

static CUresult primary_context_retain(CUcontext *c, CUdevice d) {
  *c = &context;
  return d ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}
static CUresult primary_context_release(CUdevice d) { return d ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS; }
static CUresult context_set_current(CUcontext c) {
  return !c || c == &context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

// ---------------------------------------------------------------------------------------------------------------------
// Memory

static CUresult mem_get_info(size_t *free_bytes, size_t *total_bytes) {
  *free_bytes = device.total > device.memory.used ? device.total - device.memory.used : 0;
  *total_bytes = device.total;
  return CUDA_SUCCESS;
}

static bool make_room(Memory *m) {
  if (m->n < m->capacity) return true;
  int larger = m->capacity ? 2 * m->capacity : 16;
  Allocation *more = realloc(m->allocations, (size_t)larger * sizeof *more);
  if (!more) return false;
  m->allocations = more;
  m->capacity = larger;
  return true;
}

static size_t round_up(const Memory *m, size_t bytes) {
  return (bytes + m->alignment - 1) / m->alignment * m->alignment;
}

// Fresh memory is NaN. NULL: there is none, or not so much within the limit.
static char *allocate(Memory *m, size_t bytes, uint64_t limit) {
  pthread_mutex_lock(&lock);
  size_t rounded = round_up(m, bytes);
  bool fits = rounded >= bytes && rounded <= limit - m->used && make_room(m);
  char *p = fits ? aligned_alloc(m->alignment, rounded) : NULL;
  if (p) {
    memset(p, POISON, rounded);
    int at = m->n++;
    for (; at > 0 && m->allocations[at - 1].base > p; at--) m->allocations[at] = m->allocations[at - 1];
    m->allocations[at] = (Allocation){p, bytes};
    m->used += rounded;
  }
  pthread_mutex_unlock(&lock);
  return p;
}

static CUresult release(Memory *m, uintptr_t address) {
  if (!address) return CUDA_SUCCESS;
  emu_drain_all();
  pthread_mutex_lock(&lock);
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  for (int i = 0; i < m->n; i++) {
    if ((uintptr_t)m->allocations[i].base != address) continue;
    m->used -= round_up(m, m->allocations[i].bytes);
    free(m->allocations[i].base);
    memmove(&m->allocations[i], &m->allocations[i + 1], (size_t)(--m->n - i) * sizeof *m->allocations);
    result = CUDA_SUCCESS;
    break;
  }
  pthread_mutex_unlock(&lock);
  return result;
}

static CUresult mem_alloc(CUdeviceptr *address, size_t bytes) {
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  char *p = allocate(&device.memory, bytes, device.total);
  *address = (CUdeviceptr)(uintptr_t)p;
  return p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
static CUresult mem_free(CUdeviceptr address) { return release(&device.memory, (uintptr_t)address); }

static CUresult mem_alloc_host(void **address, size_t bytes) {
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  *address = allocate(&device.pinned, bytes, UINT64_MAX);
  return *address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
static CUresult mem_free_host(void *address) { return release(&device.pinned, (uintptr_t)address); }

static CUresult copy(CUstream stream, CUdeviceptr to, bool to_device, CUdeviceptr from, bool from_device,
                     size_t bytes) {
  return emu_submit(stream, &(Command){.kind = COMMAND_COPY,
                                       .to = (char *)(uintptr_t)to,
                                       .to_device = to_device,
                                       .from = (const char *)(uintptr_t)from,
                                       .from_device = from_device,
                                       .bytes = bytes});
}
// From pageable memory: what was there is read before it returns, but may arrive later. Streams that do not block,
// which all are here, do not wait for it.
static CUresult memcpy_htod(CUdeviceptr to, const void *from, size_t n) {
  CUstream s = &device.null_stream;
  if (!(device.late >> EMU_LATE_PAGEABLE & 1)) return copy(NULL, to, true, (uintptr_t)from, false, n);
  pthread_mutex_lock(&lock);
  CUresult result = emu_drain(s);
  Command c = {.kind = COMMAND_COPY, .to = (char *)(uintptr_t)to, .to_device = true, .bytes = n};
  s->late = true;
  c.arguments = malloc(n + 1);
  if (c.arguments) c.from = memcpy(c.arguments, from, n);
  if (!result && (!c.arguments || !emu_queue(s, &c))) result = CUDA_ERROR_OUT_OF_MEMORY;
  if (result) emu_command_free(&c);
  pthread_mutex_unlock(&lock);
  return result;
}
static CUresult memcpy_dtoh(void *to, CUdeviceptr from, size_t n) {
  return copy(NULL, (uintptr_t)to, false, from, true, n);
}
static CUresult memcpy_htod_async(CUdeviceptr to, const void *from, size_t n, CUstream s) {
  return copy(s, to, true, (uintptr_t)from, false, n);
}
static CUresult memcpy_dtoh_async(void *to, CUdeviceptr from, size_t n, CUstream s) {
  return copy(s, (uintptr_t)to, false, from, true, n);
}
static CUresult memcpy_dtod_async(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
  return copy(s, to, true, from, true, n);
}

static CUresult memset_d8_async(CUdeviceptr to, unsigned char value, size_t n, CUstream s) {
  return emu_submit(
      s, &(Command){.kind = COMMAND_SET, .to = (char *)(uintptr_t)to, .value = value, .value_bytes = 1, .bytes = n});
}
static CUresult memset_d32_async(CUdeviceptr to, unsigned value, size_t n, CUstream s) {
  if (to % 4) return CUDA_ERROR_INVALID_VALUE;
  return emu_submit(s, &(Command){.kind = COMMAND_SET,
                                  .to = (char *)(uintptr_t)to,
                                  .value = value,
                                  .value_bytes = 4,
                                  .bytes = n * 4});
}

// ---------------------------------------------------------------------------------------------------------------------
// Modules and launches

static CUresult module_load(CUmodule *module, const void *image, unsigned n, const int *options, void **values) {
  const NncEmuModule *m = image;
  if (memcmp(m->magic, NNC_EMU_MAGIC, sizeof m->magic) != 0) {
    for (unsigned i = 0; i + 1 < n; i++)
      if (options[i] == CU_JIT_ERROR_LOG_BUFFER && options[i + 1] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
        snprintf(values[i], (size_t)(uintptr_t)values[i + 1], "not a module of the emulator");
    return CUDA_ERROR_INVALID_IMAGE;
  }
  *module = calloc(1, sizeof **module);
  if (!*module) return CUDA_ERROR_OUT_OF_MEMORY;
  (*module)->module = m;
  return CUDA_SUCCESS;
}

static CUresult module_unload(CUmodule module) {
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  emu_drain_all();
  for (CUfunction f = module->functions, next; f; f = next) {
    next = f->next;
    free(f);
  }
  free(module);
  return CUDA_SUCCESS;
}

static CUresult module_get_function(CUfunction *function, CUmodule module, const char *name) {
  for (int64_t i = 0; i < module->module->n_kernels; i++) {
    const NncEmuKernel *kernel = &module->module->kernels[i];
    if (strcmp(kernel->name, name) != 0) continue;
    CUfunction f = module->functions;
    while (f && f->kernel != kernel) f = f->next;
    if (!f && !(f = calloc(1, sizeof *f))) return CUDA_ERROR_OUT_OF_MEMORY;
    *function = f;
    if (f->kernel) return CUDA_SUCCESS;
    *f = (struct CudaFunction){.kernel = kernel, .next = module->functions};
    if (kernel->static_bytes < EMU_SHARED_DEFAULT)
      f->max_dynamic_bytes = EMU_SHARED_DEFAULT - (int)kernel->static_bytes;
    module->functions = f;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}

static CUresult func_set_attribute(CUfunction f, int attribute, int value) {
  if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) return CUDA_SUCCESS;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
      value + f->kernel->static_bytes > EMU_SHARED_OPTIN)
    return CUDA_ERROR_INVALID_VALUE;
  f->max_dynamic_bytes = value;
  return CUDA_SUCCESS;
}

static CUresult func_get_attribute(int *value, int attribute, CUfunction f) {
  switch (attribute) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    *value = f->kernel->max_threads ? (int)f->kernel->max_threads : EMU_MAX_THREADS;
    break;
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = (int)f->kernel->static_bytes; break;
  case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = 0; break;
  case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 32; break;
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = f->max_dynamic_bytes; break;
  default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

// A copy of the argument values in one block of memory.
static void **copy_arguments(const NncEmuKernel *k, void **arguments) {
  size_t bytes = ((size_t)k->n_parameters + 1) * sizeof(void *);
  for (int64_t i = 0; i < k->n_parameters; i++) bytes += ((size_t)k->parameter_bytes[i] + 15) / 16 * 16;
  void **copies = malloc(bytes + 16);
  if (!copies) return NULL;
  char *at = (char *)(copies + k->n_parameters + 1);
  at += -(uintptr_t)at % 16;
  for (int64_t i = 0; i < k->n_parameters; i++) {
    copies[i] = memcpy(at, arguments[i], (size_t)k->parameter_bytes[i]);
    at += (k->parameter_bytes[i] + 15) / 16 * 16;
  }
  return copies;
}

static CUresult launch_kernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                              unsigned bz, unsigned shared_bytes, CUstream stream, void **arguments, void **extra) {
  if (!f || extra || (f->kernel->n_parameters && !arguments)) return CUDA_ERROR_INVALID_VALUE;
  if (shared_bytes > (unsigned)f->max_dynamic_bytes) {
    char message[512];
    snprintf(message, sizeof message,
             "kernel '%s': %u bytes of dynamic shared memory, %d are allowed (cuFuncSetAttribute)", f->kernel->name,
             shared_bytes, f->max_dynamic_bytes);
    return emu_fault(EMU_BAD_LAUNCH, message);
  }
  Command c = {.kind = COMMAND_LAUNCH,
               .kernel = f->kernel,
               .grid = {gx, gy, gz},
               .block = {bx, by, bz},
               .dynamic_bytes = shared_bytes,
               .arguments = copy_arguments(f->kernel, arguments)};
  return c.arguments ? emu_submit(stream, &c) : CUDA_ERROR_OUT_OF_MEMORY;
}

// ---------------------------------------------------------------------------------------------------------------------
// Execution

EmuRange *emu_ranges(const Command *c, int *n) {
  const Memory *m = &device.memory;
  *n = c->n_ranges ? c->n_ranges : m->n;
  EmuRange *ranges = malloc(((size_t)*n + 1) * sizeof *ranges);
  if (!ranges) return NULL;
  for (int i = 0; i < *n; i++)
    ranges[i] = c->n_ranges ? c->ranges[i]
                            : (EmuRange){.name = m->name,
                                         .address = (uintptr_t)m->allocations[i].base,
                                         .bytes = m->allocations[i].bytes};
  return ranges;
}

bool emu_ranges_contain(const EmuRange *ranges, int n, const void *p, size_t bytes) {
  uintptr_t address = (uintptr_t)p;
  for (int i = 0; i < n; i++)
    if (address >= ranges[i].address && address - ranges[i].address <= ranges[i].bytes &&
        bytes <= ranges[i].bytes - (address - ranges[i].address))
      return true;
  return bytes == 0;
}

static CUresult execute_launch(const Command *c) {
  int n;
  EmuRange *ranges = emu_ranges(c, &n);
  if (!ranges) return CUDA_ERROR_OUT_OF_MEMORY;
  EmuLaunch launch = {.kernel = c->kernel,
                      .dynamic_bytes = c->dynamic_bytes,
                      .arguments = c->arguments,
                      .ranges = ranges,
                      .n_ranges = n,
                      .order = device.order,
                      .threads = device.threads};
  memcpy(launch.grid, c->grid, sizeof c->grid);
  memcpy(launch.block, c->block, sizeof c->block);
  char message[4096] = "";
  EmuFault fault = emu_launch(&launch, message, sizeof message);
  free(ranges);
  return emu_fault(fault, message);
}

const Allocation *emu_find(const Memory *m, const void *p, size_t bytes) {
  const char *at = p;
  for (int i = 0; i < m->n; i++) {
    const Allocation *a = &m->allocations[i];
    if (at >= a->base && at <= a->base + a->bytes && bytes <= (size_t)(a->base + a->bytes - at)) return a;
  }
  return NULL;
}

// What lies in [p, p + bytes) belongs to one allocation.
static CUresult check_memory(const Memory *m, const char *what, const char *p, size_t bytes) {
  if (!bytes || emu_find(m, p, bytes)) return CUDA_SUCCESS;
  char message[256];
  snprintf(message, sizeof message, "out of bounds: %s of %zu bytes at %p, which is not inside one allocation of %s",
           what, bytes, (const void *)p, m->name);
  return emu_fault(EMU_OUT_OF_BOUNDS, message);
}

// Of the host's side only what begins in page-locked memory is known, unless all of it must lie there: a graph copies
// when it runs, and pageable memory need not be what it was then.
static CUresult check_copy(const Command *c, bool captured) {
  const Memory *host = &device.pinned, *own = &device.memory;
  bool to_known = captured || emu_find(host, c->to, 1), from_known = captured || emu_find(host, c->from, 1);
  CUresult result = CUDA_SUCCESS;
  if (c->to_device || to_known)
    result = check_memory(c->to_device ? own : host, c->to_device ? "copy to device memory" : "copy to the host", c->to,
                          c->bytes);
  if (!result && (c->from_device || from_known))
    result = check_memory(c->from_device ? own : host,
                          c->from_device ? "copy from device memory" : "copy from the host", c->from, c->bytes);
  return result;
}

CUresult emu_execute(const Command *c) {
  CUresult result = device.broken;
  if (result || device.stuck) return result;
  char message[4096] = "";
  switch (c->kind) {
  case COMMAND_LAUNCH: return execute_launch(c);
  case COMMAND_COPY:
    result = check_copy(c, false);
    if (!result) memmove(c->to, c->from, c->bytes);
    return result;
  case COMMAND_SET:
    result = check_memory(&device.memory, "memset", c->to, c->bytes);
    for (size_t i = 0; i < c->bytes && !result; i += (size_t)c->value_bytes)
      memcpy(c->to + i, &c->value, (size_t)c->value_bytes);
    return result;
  case COMMAND_GEMM: return emu_fault(emu_gemm(c, message, sizeof message), message);
  case COMMAND_NCCL: return device.pass_messages(c);
  case COMMAND_RECORD:
  case COMMAND_WAIT:
  case COMMAND_GRAPH: break;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

void emu_command_free(Command *c) {
  free(c->arguments);
  free(c->ranges);
  free(c->messages);
}

CUresult emu_submit(CUstream stream, Command *c) {
  CUstream s = stream ? stream : &device.null_stream;
  pthread_mutex_lock(&lock);
  c->ranges = s->ranges;   // taken over
  c->n_ranges = s->n_ranges;
  s->ranges = NULL;
  s->n_ranges = 0;
  CUresult result;
  bool kept = false;
  if (s->capture) {
    result = c->kind == COMMAND_COPY ? check_copy(c, true) : CUDA_SUCCESS;
    kept = !result && emu_capture(s, c);
    if (!result && !kept) result = CUDA_ERROR_OUT_OF_MEMORY;
  } else if (device.late && stream) {
    kept = emu_queue(stream, c);
    result = kept ? device.broken : CUDA_ERROR_OUT_OF_MEMORY;
  } else {
    if (!stream) emu_drain(s);
    result = emu_execute(c);
  }
  if (!kept) emu_command_free(c);
  pthread_mutex_unlock(&lock);
  return result;
}

static int by_address(const void *a, const void *b) {
  uintptr_t x = ((const EmuRange *)a)->address, y = ((const EmuRange *)b)->address;
  return (x > y) - (x < y);
}

static void expect_ranges(CUstream stream, int n, const CudaRange *ranges) {
  CUstream s = stream ? stream : &device.null_stream;
  free(s->ranges);
  s->n_ranges = 0;
  s->ranges = malloc(((size_t)n + 1) * sizeof *s->ranges);
  if (!s->ranges) return;
  for (int i = 0; i < n; i++)
    s->ranges[i] = (EmuRange){ranges[i].name, (uintptr_t)ranges[i].address, ranges[i].bytes, ranges[i].read_only};
  qsort(s->ranges, (size_t)n, sizeof *s->ranges, by_address);
  for (int i = 0; i < n; i++) {   // tensors that share memory count as one
    EmuRange *last = s->n_ranges ? &s->ranges[s->n_ranges - 1] : NULL;
    if (last && s->ranges[i].address < last->address + last->bytes) {
      uint64_t end = s->ranges[i].address + s->ranges[i].bytes - last->address;
      if (end > last->bytes) last->bytes = end;
      last->read_only &= s->ranges[i].read_only;
    } else {
      s->ranges[s->n_ranges++] = s->ranges[i];
    }
  }
}

void nnc_emu_bind(CudaApi *api) {
  *api = (CudaApi){
      .driver = {.Init = init,
                 .DriverGetVersion = driver_get_version,
                 .GetErrorName = get_error_name,
                 .GetErrorString = get_error_string,
                 .DeviceGetCount = device_get_count,
                 .DeviceGet = device_get,
                 .DeviceGetName = device_get_name,
                 .DeviceTotalMem = device_total_mem,
                 .DeviceGetAttribute = device_get_attribute,
                 .DevicePrimaryCtxRetain = primary_context_retain,
                 .DevicePrimaryCtxRelease = primary_context_release,
                 .CtxSetCurrent = context_set_current,
                 .MemGetInfo = mem_get_info,
                 .MemAlloc = mem_alloc,
                 .MemFree = mem_free,
                 .MemAllocHost = mem_alloc_host,
                 .MemFreeHost = mem_free_host,
                 .MemcpyHtoD = memcpy_htod,
                 .MemcpyDtoH = memcpy_dtoh,
                 .MemcpyHtoDAsync = memcpy_htod_async,
                 .MemcpyDtoHAsync = memcpy_dtoh_async,
                 .MemcpyDtoDAsync = memcpy_dtod_async,
                 .MemsetD8Async = memset_d8_async,
                 .MemsetD32Async = memset_d32_async,
                 .ModuleLoadDataEx = module_load,
                 .ModuleUnload = module_unload,
                 .ModuleGetFunction = module_get_function,
                 .FuncSetAttribute = func_set_attribute,
                 .FuncGetAttribute = func_get_attribute,
                 .LaunchKernel = launch_kernel},
      .expect_ranges = expect_ranges,
  };
  emu_bind_graphs(api);
  emu_bind_blas(api);
}
