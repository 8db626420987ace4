// Runs recorded kernels on a GPU through the runtime's table of driver functions: compares their results with those
// recorded (test/codegen/record.c), or times them (kernels.c). One JSON object per line on stdout, as soon as it is
// known.
//   replay [--device=N] [--seconds=S] copy BYTES | link BYTES | SUITE...
//   link: copies to page-locked memory and back. SUITE.cases, with SUITE.data and SUITE.cubin or .ptx beside it
//   (emulated: SUITE.so)
#include <dlfcn.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/cuda.h"

// The runtime's messages and its list of libraries ask the program; this one has no model, and wants cuBLAS.
static const NncMatmul any_product;
static const NncStep product = {.kind = NNC_STEP_MATMUL, .label = "gemm", .matmul = &any_product};
static const NncFunction function = {.name = "gemm", .n_steps = 1, .steps = &product};
#ifdef REPLAY_EMULATED
enum { EMULATED = 1 };
static const NncCuda cuda = {.arch = "any", .load = nnc_cuda_load_emulator};
#else
enum { EMULATED = 0 };
static const NncCuda cuda = {.arch = "any", .load = nnc_cuda_load};
#endif
const NncProgram nnc_program = {
    .model = "replay", .source = "replay.c", .target = "cuda", .cuda = &cuda, .n_functions = 1, .functions = &function};

// before, after: -1 random, -2 not compared
typedef struct Buffer {
  char type;
  double tolerance;
  int64_t bytes, before, after;
  int same;
  CUdeviceptr address;
  uint64_t scalar;
} Buffer;
// buffers: Owned
typedef struct Launch {
  CUfunction function;
  unsigned grid[3], block[3], shared;
  int n, *buffers;
} Launch;
typedef struct Gemm {
  int type, compute, m, n, k, op_a, op_b;
} Gemm;
// all Owned
typedef struct Case {
  char *name;
  double flops, bytes;
  bool timed;
  Buffer *buffers;
  int n_buffers;
  Launch *launches;
  int n_launches;
  Gemm gemm;
} Case;
typedef struct Suite {
  const char *path;
  FILE *data;
  CUmodule module;
  void *library;
} Suite;
typedef struct Replay {
  CudaMemory m;
  double seconds;
  int failures;
  CUdeviceptr workspace;
} Replay;

enum { WORKSPACE = 32 << 20 };   // cuBLAS's own choice for Hopper

static void *read_whole(const char *path) {
  FILE *f = fopen(path, "rb");
  char *text = NULL, part[65536];
  size_t size = 0, n;
  if (!f) return NULL;
  FILE *out = open_memstream(&text, &size);
  while ((n = fread(part, 1, sizeof part, f)) > 0) fwrite(part, 1, n, out);
  fclose(out);
  fclose(f);
  return text;
}

// ---------------------------------------------------------------------------------------------------------------------
// A suite's files

static bool load_library(Replay *r, Suite *s) {
  char *path = xasprintf("%s.so", s->path), *absolute = realpath(path, NULL);
  s->library = absolute ? dlopen(absolute, RTLD_NOW) : NULL;
  const void *module = s->library ? dlsym(s->library, "test_kernels") : NULL;
  if (!module) report_error("%s: %s", path, absolute ? dlerror() : "not found");
  bool ok = module && CUDA(&r->m, path, ModuleLoadDataEx, &s->module, module, 0, NULL, NULL);
  free(absolute);
  free(path);
  return ok;
}

static bool load_module(Replay *r, Suite *s) {
  if (EMULATED) return load_library(r, s);
  static const char *const suffixes[] = {"cubin", "ptx"};
  CUresult result = CUDA_ERROR_NO_BINARY_FOR_GPU;
  for (int i = 0; i < 2 && result != CUDA_SUCCESS; i++) {
    char *path = xasprintf("%s.%s", s->path, suffixes[i]);
    void *image = read_whole(path);
    if (image) result = r->m.api.driver.ModuleLoadDataEx(&s->module, image, 0, NULL, NULL);
    free(image);
    free(path);
  }
  return cuda_ok(&r->m, result, "cuModuleLoadDataEx", s->path);
}

static void case_free(Case *c) {
  for (int i = 0; i < c->n_launches; i++) free(c->launches[i].buffers);
  free(c->launches);
  free(c->buffers);
  free(c->name);
  memset(c, 0, sizeof *c);
}

static Buffer *add_buffer(Case *c) {
  c->buffers = xrealloc(c->buffers, ((size_t)c->n_buffers + 1) * sizeof *c->buffers);
  c->buffers[c->n_buffers] = (Buffer){.same = -1};
  return &c->buffers[c->n_buffers++];
}

static bool read_at(const Suite *s, int64_t at, void *out, int64_t bytes) {
  return fseek(s->data, (long)at, SEEK_SET) == 0 && fread(out, 1, (size_t)bytes, s->data) == (size_t)bytes;
}

static bool add_launch(Replay *r, Suite *s, Case *c, char *words) {
  Launch l = {0};
  int used = 0;
  char *symbol = words + strspn(words, " ");
  words = symbol + strcspn(symbol, " ");
  if (*words) *words++ = 0;
  if (sscanf(words, "%u %u %u %u %u %u %u %d%n", &l.grid[0], &l.grid[1], &l.grid[2], &l.block[0], &l.block[1],
             &l.block[2], &l.shared, &l.n, &used) != 8 ||
      l.n < 0 || l.n > 1000)
    return false;
  l.buffers = xcalloc((size_t)l.n + 1, sizeof *l.buffers);
  for (int i = 0; i < l.n; i++) {
    words += used;
    int number = 0;
    if (sscanf(words, " =%d%n", &number, &used) == 1) {   // a number of four bytes
      l.buffers[i] = c->n_buffers;
      memcpy(&add_buffer(c)->scalar, &number, sizeof number);
      continue;
    }
    if (sscanf(words, "%d%n", &l.buffers[i], &used) != 1 || l.buffers[i] < 0 || l.buffers[i] >= c->n_buffers) {
      free(l.buffers);
      return false;
    }
  }
  c->launches = xrealloc(c->launches, ((size_t)c->n_launches + 1) * sizeof *c->launches);
  c->launches[c->n_launches++] = l;
  Launch *last = &c->launches[c->n_launches - 1];
  if (!CUDA(&r->m, symbol, ModuleGetFunction, &last->function, s->module, symbol)) return false;
  int granted = 0;   // to another launch of the kernel
  if (l.shared == 0) return true;
  return CUDA(&r->m, symbol, FuncGetAttribute, &granted, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
              last->function) &&
         (granted >= (int)l.shared || CUDA(&r->m, symbol, FuncSetAttribute, last->function,
                                           CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)l.shared));
}

// One line of the case; false: malformed.
static bool read_line(Replay *r, Suite *s, Case *c, char *line) {
  long long a, b, d;
  char type;
  double tolerance;
  int used = 0;
  if (sscanf(line, "buffer %c %lf %lld %lld %lld", &type, &tolerance, &a, &b, &d) == 5) {
    Buffer *buffer = add_buffer(c);
    buffer->type = type, buffer->tolerance = tolerance, buffer->bytes = a, buffer->before = b, buffer->after = d;
    return a > 0;
  }
  if (sscanf(line, "scalar %lld %lld", &a, &b) == 2) {
    Buffer *buffer = add_buffer(c);
    return a <= 8 && read_at(s, b, &buffer->scalar, a);
  }
  if (sscanf(line, "same %lld", &a) == 1) {
    Buffer *buffer = add_buffer(c);
    buffer->same = (int)a;
    return a >= 0 && a < c->n_buffers - 1;
  }
  if (sscanf(line, "timed %lf %lf", &c->flops, &c->bytes) == 2) return c->timed = true;
  Gemm *g = &c->gemm;
  if (sscanf(line, "gemm %d %d %d %d %d %d %d", &g->type, &g->compute, &g->op_a, &g->op_b, &g->m, &g->n, &g->k) == 7)
    return c->n_buffers == 3;
  if (sscanf(line, "launch %n", &used) == 0 && used) return add_launch(r, s, c, line + used);
  return false;
}

// ---------------------------------------------------------------------------------------------------------------------
// Buffers

static int64_t element_bytes(char type) {
  return type == 'd' ? 8 : type == 'b' || type == 'h' ? 2 : type == 'f' ? 4 : 1;
}

static double element(char type, const void *p, int64_t i) {
  if (type == 'd') return ((const double *)p)[i];
  if (type == 'f') return (double)((const float *)p)[i];
  uint16_t bits = ((const uint16_t *)p)[i];
  if (type == 'b') {
    uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, 4);
    return (double)x;
  }
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double x = exponent == 31 ? (fraction ? NAN : INFINITY)
             : exponent     ? ldexp(1024 + fraction, exponent - 25)
                            : ldexp(fraction, -24);
  return bits >> 15 ? -x : x;
}

// Values in (-1, 1); the same bits serve both 16 bit types and f32 (as pairs), whose exponents they keep in range.
static void fill_random(char type, void *p, int64_t bytes) {
  uint32_t state = 1;
  for (int64_t i = 0; i < bytes / element_bytes(type); i++) {
    state = state * 1664525u + 1013904223u;
    float x = (float)(state >> 8) / (1 << 23) - 1;
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if (type == 'f') ((float *)p)[i] = x;
    else if (type == 'd') ((double *)p)[i] = (double)x;
    else if (type == 'b') ((uint16_t *)p)[i] = (uint16_t)(bits >> 16);
    else if (type == 'h') ((uint16_t *)p)[i] = (uint16_t)((bits >> 16 & 0x8000) | 0x3400 | (bits >> 13 & 0x3ff));
    else ((uint8_t *)p)[i] = (uint8_t)(state >> 24);
  }
}

static bool upload(Replay *r, const Suite *s, Case *c) {
  for (int i = 0; i < c->n_buffers; i++) {
    Buffer *b = &c->buffers[i];
    if (b->same >= 0) b->address = c->buffers[b->same].address;
    if (!b->bytes) continue;
    if (!CUDA(&r->m, c->name, MemAlloc, &b->address, (size_t)b->bytes)) return false;
    void *host = xmalloc((size_t)b->bytes);
    bool ok = true;
    if (b->before == -1) fill_random(b->type, host, b->bytes);
    else ok = read_at(s, b->before, host, b->bytes);
    if (!ok) report_error("%s.data ends too early", s->path);
    ok = ok && CUDA(&r->m, c->name, MemcpyHtoDAsync, b->address, host, (size_t)b->bytes, r->m.compute) &&
         cuda_wait(&r->m, c->name);
    free(host);
    if (!ok) return false;
  }
  return true;
}

static void release(Replay *r, Case *c) {
  for (int i = 0; i < c->n_buffers; i++)
    if (c->buffers[i].bytes && c->buffers[i].address) r->m.api.driver.MemFree(c->buffers[i].address);
}

// Largest difference relative to the largest value; INFINITY where one is no number or infinite and the other is not
// the same.
static double difference(const Buffer *b, const void *found, const void *expected) {
  if (b->type == 'i') return memcmp(found, expected, (size_t)b->bytes) ? INFINITY : 0;
  double most = 0, worst = 0;
  for (int64_t i = 0; i < b->bytes / element_bytes(b->type); i++) {
    double x = element(b->type, found, i), y = element(b->type, expected, i);
    if ((isnan(x) && isnan(y)) || x == y) x = y = isfinite(y) ? y : 0;
    if (!isfinite(x) || !isfinite(y)) return INFINITY;
    most = fmax(most, fabs(y));
    worst = fmax(worst, fabs(x - y));
  }
  return worst == 0 ? 0 : worst / most;
}

static double tolerance(const Buffer *b) {
  return b->tolerance > 0 ? b->tolerance : b->type == 'f' ? 1e-5 : b->type == 'd' ? 1e-12 : b->type == 'i' ? 0 : 1e-2;
}

static const char *name_of(const Suite *s) { return strrchr(s->path, '/') ? strrchr(s->path, '/') + 1 : s->path; }

static void compare(Replay *r, const Suite *s, const Case *c) {
  double worst = 0;
  int failed = -1;
  for (int i = 0; i < c->n_buffers; i++) {
    const Buffer *b = &c->buffers[i];
    if (!b->bytes || b->type == '-' || b->after < 0) continue;
    void *found = xmalloc((size_t)b->bytes), *expected = xmalloc((size_t)b->bytes);
    bool ok = CUDA(&r->m, c->name, MemcpyDtoH, found, b->address, (size_t)b->bytes) &&
              read_at(s, b->after, expected, b->bytes);
    double d = ok ? difference(b, found, expected) : INFINITY;
    if (d > tolerance(b) && failed < 0) failed = i;
    if (d > worst) worst = d;
    free(found);
    free(expected);
  }
  if (failed >= 0) r->failures++;
  printf("{\"kind\": \"check\", \"suite\": \"%s\", \"name\": \"%s\", \"ok\": %s, \"difference\": %.3g", name_of(s),
         c->name, failed < 0 ? "true" : "false", isfinite(worst) ? worst : 1e300);
  if (failed >= 0) printf(", \"buffer\": %d, \"bound\": %.3g", failed, tolerance(&c->buffers[failed]));
  printf("}\n");
}

// ---------------------------------------------------------------------------------------------------------------------
// Running

static bool run_gemm(Replay *r, const Case *c) {
  const Gemm *g = &c->gemm;
  const float one = 1, zero = 0;
  const double one_d = 1, zero_d = 0;
  bool wide = g->compute == CUBLAS_COMPUTE_64F;
  return CUBLAS(&r->m, c->name, GemmEx, r->m.cublas, g->op_a, g->op_b, g->m, g->n, g->k,
                wide ? (const void *)&one_d : &one, (const void *)(uintptr_t)c->buffers[0].address, g->type,
                g->op_a ? g->k : g->m, (const void *)(uintptr_t)c->buffers[1].address, g->type, g->op_b ? g->n : g->k,
                wide ? (const void *)&zero_d : &zero, (void *)(uintptr_t)c->buffers[2].address, g->type, g->m,
                g->compute, CUBLAS_GEMM_DEFAULT);
}

static bool run_once(Replay *r, Case *c) {
  for (int i = 0; i < c->n_launches; i++) {
    const Launch *l = &c->launches[i];
    void **arguments = xcalloc((size_t)l->n + 1, sizeof *arguments);
    for (int a = 0; a < l->n; a++) {
      Buffer *b = &c->buffers[l->buffers[a]];
      arguments[a] = b->bytes || b->same >= 0 ? (void *)&b->address : &b->scalar;
    }
    bool ok = CUDA(&r->m, c->name, LaunchKernel, l->function, l->grid[0], l->grid[1], l->grid[2], l->block[0],
                   l->block[1], l->block[2], l->shared, r->m.compute, arguments, NULL);
    free(arguments);
    if (!ok) return false;
  }
  return !c->gemm.m || run_gemm(r, c);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// Median and least milliseconds of single runs between events, for about `seconds`. `once` with its context is what is
// timed.
static bool measure(Replay *r, const char *name, bool once(Replay *r, void *context), void *context, double *median,
                    double *least) {
  enum { MOST = 200 };
  CUevent from, to;
  double times[MOST], start = seconds_now();
  int n = 0;
  if (!CUDA(&r->m, name, EventCreate, &from, CU_EVENT_DEFAULT) ||
      !CUDA(&r->m, name, EventCreate, &to, CU_EVENT_DEFAULT))
    return false;
  bool ok = true;
  for (int i = 0; ok && i < (EMULATED ? 1 : 3); i++) ok = once(r, context);
  while (ok && n < MOST && (n < (EMULATED ? 1 : 5) || seconds_now() - start < r->seconds)) {
    float ms = 0;
    ok = CUDA(&r->m, name, EventRecord, from, r->m.compute) && once(r, context) &&
         CUDA(&r->m, name, EventRecord, to, r->m.compute) && cuda_wait(&r->m, name) &&
         CUDA(&r->m, name, EventElapsedTime, &ms, from, to);
    times[n++] = (double)ms;
  }
  qsort(times, (size_t)n, sizeof *times, by_value);
  if (n) *median = times[n / 2], *least = times[0];
  r->m.api.driver.EventDestroy(from);
  r->m.api.driver.EventDestroy(to);
  return ok;
}

static bool once_case(Replay *r, void *c) { return run_once(r, c); }

static void print_time(const char *name, double median, double least, double flops, double bytes) {
  printf("{\"kind\": \"time\", \"name\": \"%s\", \"median_ms\": %.6g, \"least_ms\": %.6g, \"flops\": %.6g, \"bytes\": "
         "%.6g}\n",
         name, median, least, flops, bytes);
}

static bool run_case(Replay *r, Suite *s, Case *c) {
  double median = 0, least = 0;
  bool ok = upload(r, s, c);
  if (ok && c->timed) {
    ok = measure(r, c->name, once_case, c, &median, &least);
    if (ok) print_time(c->name, median, least, c->flops, c->bytes);
  } else if (ok) {
    ok = run_once(r, c) && cuda_wait(&r->m, c->name);
    if (ok) compare(r, s, c);
  }
  if (!ok) printf("{\"kind\": \"failed\", \"name\": \"%s\"}\n", c->name);
  fflush(stdout);
  release(r, c);
  return ok;
}

static bool run_suite(Replay *r, const char *path) {
  Suite s = {.path = path};
  printf("{\"kind\": \"suite\", \"name\": \"%s\"}\n", name_of(&s));
  fflush(stdout);
  char *cases = xasprintf("%s.cases", path), *data = xasprintf("%s.data", path), *line = NULL;
  FILE *f = fopen(cases, "r");
  size_t room = 0;
  bool ok = f != NULL, ready = false;
  Case c = {0};
  int number = 0;
  if (!f) report_error("%s: cannot be read", cases);
  s.data = fopen(data, "rb");
  ok = ok && load_module(r, &s);
  while (ok) {
    bool more = getline(&line, &room, f) > 0;
    number++;
    if (more) line[strcspn(line, "\n")] = 0;
    if (!more || !strncmp(line, "case ", 5)) {
      if (ready) ok = run_case(r, &s, &c);
      case_free(&c);
      if (!more) break;
      c.name = xstrdup(line + 5);
      ready = true;
    } else if (!read_line(r, &s, &c, line)) {
      report_error("%s:%d: not a line of a case", cases, number);
      ok = false;
    }
  }
  case_free(&c);
  free(line);
  if (f) fclose(f);
  if (s.data) fclose(s.data);
  if (s.module) r->m.api.driver.ModuleUnload(s.module);
  if (s.library) dlclose(s.library);
  free(cases);
  free(data);
  return ok;
}

// ---------------------------------------------------------------------------------------------------------------------

typedef struct Copy {
  CUdeviceptr from, to;
  size_t bytes;
} Copy;
static bool once_copy(Replay *r, void *context) {
  const Copy *c = context;
  return CUDA(&r->m, "copy", MemcpyDtoDAsync, c->to, c->from, c->bytes, r->m.compute);
}

static bool run_copy(Replay *r, const char *bytes) {
  Copy c = {.bytes = strtoull(bytes, NULL, 10)};
  double median, least;
  if (!c.bytes || !CUDA(&r->m, "copy", MemAlloc, &c.from, c.bytes) || !CUDA(&r->m, "copy", MemAlloc, &c.to, c.bytes) ||
      !measure(r, "copy", once_copy, &c, &median, &least))
    return false;
  print_time("copy", median, least, 0, 2 * (double)c.bytes);
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Between the device and page-locked memory, beside compute: what a machine file says of a far tier

typedef struct Link {
  bool out, in;               // copies of `bytes` to the host, from it
  bool joins;                 // what is timed ends with them; else compute goes on and they run beside it
  int64_t pieces;             // of a copy
  int n_products, n_copies;   // what compute does meanwhile
  Case product;
  Copy copy;          // on the device
  CUdeviceptr near;   // 2 x bytes
  char *far;          // Owned, page-locked; the same
  int64_t bytes;
  CUevent begun, over[NNC_LANES];
} Link;

static bool copy_on_lane(const Replay *r, const Link *l, NncLane lane) {
  CUstream stream = r->m.lanes[lane];
  bool out = lane == NNC_LANE_OUT, ok = CUDA(&r->m, "link", StreamWaitEvent, stream, l->begun, 0);
  int64_t piece = l->bytes / l->pieces, base = out ? 0 : l->bytes;
  for (int64_t at = 0; ok && at < piece * l->pieces; at += piece) {
    CUdeviceptr near = l->near + (CUdeviceptr)(base + at);
    ok = out ? CUDA(&r->m, "link", MemcpyDtoHAsync, l->far + base + at, near, (size_t)piece, stream)
             : CUDA(&r->m, "link", MemcpyHtoDAsync, near, l->far + base + at, (size_t)piece, stream);
  }
  ok = ok && CUDA(&r->m, "link", EventRecord, l->over[lane], stream);
  return ok && (!l->joins || CUDA(&r->m, "link", StreamWaitEvent, r->m.compute, l->over[lane], 0));
}

static bool once_link(Replay *r, void *context) {
  Link *l = context;
  bool ok = CUDA(&r->m, "link", EventRecord, l->begun, r->m.compute);
  for (int i = 0; ok && i < l->n_products; i++) ok = run_gemm(r, &l->product);
  for (int i = 0; ok && i < l->n_copies; i++) ok = once_copy(r, &l->copy);
  return ok && (!l->out || copy_on_lane(r, l, NNC_LANE_OUT)) && (!l->in || copy_on_lane(r, l, NNC_LANE_IN));
}

// Milliseconds, 0 after a failure. `moved` of both directions together.
static double time_link(Replay *r, Link *l, const char *name, double moved) {
  double median = 0, least = 0;
  bool ok = measure(r, name, once_link, l, &median, &least);
  for (int lane = NNC_LANE_OUT; lane <= NNC_LANE_IN; lane++)
    ok = ok && CUDA(&r->m, name, StreamSynchronize, r->m.lanes[lane]);
  if (ok) print_time(name, median, least, l->n_products * l->product.flops, moved);
  fflush(stdout);
  return ok ? median : 0;
}

// As many turns as take most of the time of the copies that go on beside them.
static int turns_within(double milliseconds, double one) {
  return one > 0 && one < milliseconds ? (int)(milliseconds / one) : 1;
}

static bool time_beside(Replay *r, Link *l, const char *what, int *n, double milliseconds) {
  char name[64];
  Link alone = *l;
  int *turns = n == &l->n_products ? &alone.n_products : &alone.n_copies;
  alone.out = alone.in = false;
  *turns = 1;
  double one = 0, least;
  if (!measure(r, what, once_link, &alone, &one, &least)) return false;
  *turns = *n = turns_within(0.8 * milliseconds, one);
  snprintf(name, sizeof name, "%s alone", what);
  bool ok = time_link(r, &alone, name, 0) > 0;
  snprintf(name, sizeof name, "%s beside copies", what);
  l->joins = false;
  ok = ok && time_link(r, l, name, 2 * (double)l->bytes) > 0;
  *n = 0;
  return ok;
}

static bool open_link(Replay *r, Link *l) {
  int side = EMULATED ? 64 : 4096;
  int64_t product = (int64_t)side * side * 2;
  l->product = (Case){.name = "product", .flops = 2 * pow(side, 3), .n_buffers = 3};
  l->product.gemm = (Gemm){CUDA_R_16BF, CUBLAS_COMPUTE_32F, side, side, side, CUBLAS_OP_T, CUBLAS_OP_N};
  l->product.buffers = xcalloc(3, sizeof(Buffer));
  for (int i = 0; i < 3; i++) l->product.buffers[i] = (Buffer){.type = 'b', .bytes = product, .before = -1, .same = -1};
  l->copy.bytes = (size_t)l->bytes / 4;
  bool ok = upload(r, NULL, &l->product) && CUDA(&r->m, "link", MemAlloc, &l->near, 2 * (size_t)l->bytes) &&
            CUDA(&r->m, "link", MemsetD8Async, l->near, 0, 2 * (size_t)l->bytes, r->m.compute) &&
            cuda_wait(&r->m, "link") && cuda_allocate_pinned(&r->m, "link", 2 * (size_t)l->bytes, &l->far) &&
            CUDA(&r->m, "link", EventCreate, &l->begun, CU_EVENT_DISABLE_TIMING) &&
            CUDA(&r->m, "link", MemAlloc, &l->copy.from, l->copy.bytes) &&
            CUDA(&r->m, "link", MemAlloc, &l->copy.to, l->copy.bytes);
  for (int lane = NNC_LANE_OUT; ok && lane <= NNC_LANE_IN; lane++)
    ok = cuda_open_lane(&r->m, (NncLane)lane) &&
         CUDA(&r->m, "link", EventCreate, &l->over[lane], CU_EVENT_DISABLE_TIMING);
  if (ok) memset(l->far, 0, 2 * (size_t)l->bytes);
  return ok;
}

// Each direction alone and both at once, in one piece and in pieces of 4 KiB, and what compute loses beside both.
static bool run_link(Replay *r, const char *bytes) {
  enum { SMALL = 4096, PIECES = 100 };
  Link l = {.bytes = strtoll(bytes, NULL, 10) / SMALL * SMALL, .pieces = 1, .joins = true};
  if (l.bytes < PIECES * SMALL || !open_link(r, &l)) return false;
  l.out = true;
  bool ok = time_link(r, &l, "out", (double)l.bytes) > 0;
  l.out = false, l.in = true;
  ok = ok && time_link(r, &l, "in", (double)l.bytes) > 0;
  l.out = true;
  double both = ok ? time_link(r, &l, "both", 2 * (double)l.bytes) : 0;
  Link small = l;
  small.bytes = PIECES * SMALL, small.pieces = PIECES;
  small.in = false;
  ok = both > 0 && time_link(r, &small, "out, 100 of 4 KiB", (double)small.bytes) > 0;
  small.in = true, small.out = false;
  ok = ok && time_link(r, &small, "in, 100 of 4 KiB", (double)small.bytes) > 0;
  return ok && time_beside(r, &l, "product", &l.n_products, both) &&
         time_beside(r, &l, "copy on the device", &l.n_copies, both);
}

static bool open_gpu(Replay *r) {
  CudaMemory *m = &r->m;
  int version = 0, cublas = 0;
  if (!cuda.load(&m->api)) return false;
  if (!CUDA(m, "starting the driver", Init, 0) || !CUDA(m, "looking for the GPU", DeviceGet, &m->device, m->ordinal) ||
      !CUDA(m, "making a context", DevicePrimaryCtxRetain, &m->context, m->device) ||
      !CUDA(m, "making a context", CtxSetCurrent, m->context) ||
      !CUDA(m, "making a stream", StreamCreate, &m->compute, CU_STREAM_NON_BLOCKING) || !cuda_open_cublas(m) ||
      !CUDA(m, "workspace of cuBLAS", MemAlloc, &r->workspace, (size_t)WORKSPACE) ||
      !CUBLAS(m, "workspace of cuBLAS", SetWorkspace, m->cublas, (void *)(uintptr_t)r->workspace, (size_t)WORKSPACE))
    return false;
  m->api.driver.DeviceGetName(m->name, (int)sizeof m->name - 1, m->device);
  m->api.driver.DriverGetVersion(&version);
  m->api.cublas.GetVersion(m->cublas, &cublas);
  printf("{\"kind\": \"device\", \"name\": \"%s\", \"cuda\": \"%d.%d\", \"cublas\": %d}\n", m->name, version / 1000,
         version % 1000 / 10, cublas);
  return true;
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"device", required_argument, NULL, 'd'},
                                          {"seconds", required_argument, NULL, 's'},
                                          {0}};
  Replay r = {.seconds = 0.3};
  report_set_name(argv[0]);
  for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) switch (c) {
    case 'd': r.m.ordinal = atoi(optarg); break;
    case 's': r.seconds = atof(optarg); break;
    default: return EXIT_USAGE;
    }
  if (optind == argc) {
    fprintf(stderr, "usage: replay [--device=N] [--seconds=S] copy BYTES | link BYTES | SUITE...\n");
    return EXIT_USAGE;
  }
  bool ok = open_gpu(&r);
  fflush(stdout);
  if (ok && !strcmp(argv[optind], "copy")) ok = optind + 1 < argc && run_copy(&r, argv[optind + 1]);
  else if (ok && !strcmp(argv[optind], "link")) ok = optind + 1 < argc && run_link(&r, argv[optind + 1]);
  else
    for (int i = optind; ok && i < argc; i++)
      ok = run_suite(&r, argv[i]);   // after a failed launch the context is of no use
  if (r.m.cublas) r.m.api.cublas.Destroy(r.m.cublas);
  return !ok || r.failures ? EXIT_DIAGNOSTIC : EXIT_DONE;
}
