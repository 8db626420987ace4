// The host as the device of a program: steps work on the arena itself. Kernels and library operations share their own
// work over the threads.
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm.h"
#include "runtime/runtime.h"

typedef struct Prepared {
  void **buffers;                  // addresses; Borrowed from HostFunction.addresses
  const NncOperation *operation;   // of a library op
  void *workspace;
  int threads;              // KERNEL
  struct Prepared *inner;   // SCAN: Borrowed from HostFunction.steps
} Prepared;

typedef struct HostFunction {
  const NncFunction *f;
  NncLibrary *library;   // Owned
  const Arena *arena;    // Borrowed
  Prepared *steps;       // Owned; the function's, then those inside of scans
  void **addresses;      // Owned
} HostFunction;

static int thread_count(int asked) {
  int n = asked > 0 ? asked : omp_get_max_threads();
  int planned = nnc_program.threads;
  if (planned > 0 && n > planned) {
    if (asked > 0)
      report_warning("the workspaces were planned for %d threads: using %d, not %d; compile on this machine for more",
                     planned, planned, asked);
    n = planned;
  }
  return n;
}

static bool check_machine(const DeviceOptions *o, int *threads) {
  const char *isa = nnc_program.isa;
  if (isa && *isa && !nnc_library_set_isa(isa)) {
    report_error("compiled for %s (%s), but this machine offers %s: compile %s on this machine", isa,
                 nnc_program.cpu ? nnc_program.cpu : "unknown cpu", nnc_library_isa(), nnc_program.source);
    return false;
  }
  *threads = thread_count(o->threads);
  return true;
}

// OpenMP keeps its settings for each thread.
static bool enter(const Arena *a) {
  omp_set_dynamic(0);
  omp_set_num_threads(a->threads);
  return true;
}

static const NncOperation *operation_of(NncLibrary *library, const NncStep *s, char *error, size_t size) {
  switch (s->kind) {
#define PREPARE(KIND, name, Record, gpu) \
  case NNC_STEP_##KIND: return nnc_##name##_prepare(library, s->name, error, size);
    NNC_LIBRARY_RECORDS(PREPARE)
#undef PREPARE
  default: return NULL;
  }
}

static bool prepare_operation(const HostFunction *h, const NncStep *s, Prepared *p) {
  const NncFunction *f = h->f;
  char error[256];
  p->operation = operation_of(h->library, s, error, sizeof error);
  if (p->operation && step_scratch_bytes(s) > 0 && s->workspace < 0)
    report_internal("step %s of %s has no workspace", s->label, f->name);
  if (!p->operation)
    report_error("%s in %s: %s; this machine differs from the one it was compiled on: compile %s here", s->label,
                 f->name, error, nnc_program.source);
  return p->operation != NULL;
}

static void release(void *prepared) {
  HostFunction *h = prepared;
  nnc_library_close(h->library);
  free(h->steps);
  free(h->addresses);
  free(h);
}

// `n` counts the addresses given out so far, `inner` is where the prepared steps of the next scan go.
static bool prepare_step(HostFunction *h, const Arena *arena, const NncStep *s, Prepared *p, size_t *n,
                         Prepared **inner) {
  p->buffers = h->addresses + *n;
  for (int j = 0; j < s->n_buffers; j++)
    h->addresses[(*n)++] = is_far_address(s->buffers[j]) ? NULL : arena->base + s->buffers[j];
  p->workspace = s->workspace < 0 ? NULL : arena->base + s->workspace;
  int max_threads = arena->threads;
  int64_t worth = s->grain > 0 ? s->extent / s->grain : s->extent;
  p->threads = worth < 1 ? 1 : worth < max_threads ? (int)worth : max_threads;
  if (step_scratch_bytes(s) >= 0 && s->kind != NNC_STEP_COLLECTIVE) return prepare_operation(h, s, p);
  if (s->kind != NNC_STEP_SCAN) return true;
  p->inner = *inner;
  *inner += s->scan->n_steps;
  for (int i = 0; i < s->scan->n_steps; i++)
    if (!prepare_step(h, arena, &s->scan->steps[i], &p->inner[i], n, inner)) return false;
  return true;
}

// Steps inside of a scan, and all buffers.
static void count_step(const NncStep *s, size_t *n_inside, size_t *n_buffers) {
  *n_buffers += (size_t)s->n_buffers;
  if (s->scan) *n_inside += (size_t)s->scan->n_steps;
  for (int i = 0; s->scan && i < s->scan->n_steps; i++) count_step(&s->scan->steps[i], n_inside, n_buffers);
}

static void *prepare(const NncFunction *f, const Arena *arena) {
  HostFunction *h = xcalloc(1, sizeof *h);
  h->f = f;
  h->arena = arena;
  h->library = nnc_library_open(arena->threads);
  size_t n = 0, n_steps = (size_t)f->n_steps;
  for (int i = 0; i < f->n_steps; i++) count_step(&f->steps[i], &n_steps, &n);
  h->steps = xcalloc(n_steps, sizeof *h->steps);
  h->addresses = xcalloc(n, sizeof *h->addresses);
  Prepared *inner = h->steps + f->n_steps;
  n = 0;
  for (int i = 0; i < f->n_steps; i++) {
    if (prepare_step(h, arena, &f->steps[i], &h->steps[i], &n, &inner)) continue;
    release(h);
    return NULL;
  }
  return h;
}

// Contiguous chunks; the team always has all threads, since a team that changes its size costs more than an idle
// thread.
static void run_kernel(const NncStep *s, const Prepared *p) {
  if (p->threads == 1) {
    s->kernel(p->buffers, 0, s->extent);
    return;
  }
#pragma omp parallel
  {
    int64_t t = omp_get_thread_num(), n = p->threads < omp_get_num_threads() ? p->threads : omp_get_num_threads();
    if (t < n) {
      int64_t begin = s->extent / n * t + (s->extent % n < t ? s->extent % n : t);
      int64_t end = begin + s->extent / n + (t < s->extent % n);
      if (begin < end) s->kernel(p->buffers, begin, end);
    }
  }
}

static void run_scan(const NncScan *scan, const Prepared *p, StepWatch *w);

typedef bool (*LookFn)(StepWatch *w, const NncStep *s, const int64_t *offsets);

static void look(StepWatch *w, LookFn look_at, const NncStep *s, const Prepared *p) {
  int64_t *offsets = xmalloc(sizeof *offsets * ((size_t)s->n_buffers + 1));
  for (int j = 0; j < s->n_buffers; j++) offsets[j] = (char *)p->buffers[j] - w->arena->base;
  w->over = !look_at(w, s, offsets);
  free(offsets);
}

// w may be NULL. again: in an iteration of a loop behind the first.
static void run_one(const NncStep *s, const Prepared *p, StepWatch *w, bool again) {
  if (w && !s->scan) look(w, w->before, s, p);
  if (w && w->over) return;
  switch (s->kind) {
  case NNC_STEP_KERNEL: run_kernel(s, p); break;
  case NNC_STEP_COLLECTIVE:
    collective_run(s->collective, s->n_buffers, s->buffer_bytes, p->buffers, p->workspace);
    break;
  case NNC_STEP_COPY: memmove(p->buffers[1], p->buffers[0], (size_t)s->copy_bytes); break;
  case NNC_STEP_SCAN: run_scan(s->scan, p, w); break;
  case NNC_STEP_TAP: break;
  default:
    if (!nnc_operation_execute(p->operation, p->buffers, p->workspace, again))
      report_internal("%s failed in the library", s->label);
  }
  if (w && !s->scan) look(w, w->after, s, p);
}

// Moves step i of a scan, and what is inside of it, by so many iterations of the loop that is `level` loops around that
// scan.
static void move_step(const NncScan *scan, int i, const Prepared *p, int level, int64_t by) {
  const NncStep *s = &scan->steps[i];
  for (int j = 0; j < s->n_buffers; j++)
    p->buffers[j] = (char *)p->buffers[j] + by * scan->strides[i][j * scan->depth + level];
  for (int k = 0; s->scan && k < s->scan->n_steps; k++) move_step(s->scan, k, &p->inner[k], level + 1, by);
}

// The addresses of a step move on after it has run, and back to the start after the last iteration.
static void run_scan(const NncScan *scan, const Prepared *p, StepWatch *w) {
  int level = w ? w->depth++ : 0;
  for (int64_t t = 1; t <= scan->iterations; t++) {
    if (w && level < (int)(sizeof w->iterations / sizeof *w->iterations)) w->iterations[level] = t - 1;
    for (int i = 0; i < scan->n_steps; i++) {
      if (!w || !w->over) run_one(&scan->steps[i], &p->inner[i], w, t > 1);
      move_step(scan, i, &p->inner[i], 0, t < scan->iterations ? 1 : 1 - t);
    }
  }
  if (w) w->depth--;
}

// A lane's thread has not told OpenMP yet.
static bool watch_step(void *prepared, int step, StepWatch *w) {
  const HostFunction *h = prepared;
  const NncStep *s = &h->f->steps[step];
  if (s->kind == NNC_STEP_COPY && is_far_address(s->buffers[0]))
    return arena_read(h->arena, s->buffers[0], h->steps[step].buffers[1], s->copy_bytes);
  if (s->kind == NNC_STEP_COPY && is_far_address(s->buffers[1]))
    return arena_write(h->arena, s->buffers[1], h->steps[step].buffers[0], s->copy_bytes);
  omp_set_num_threads(h->arena->threads);
  run_one(s, &h->steps[step], w, false);
  return true;
}

static bool run_step(void *prepared, int step) { return watch_step(prepared, step, NULL); }

static const char *implementation(const NncStep *s) {
  switch (s->kind) {
#define IMPLEMENTATION(KIND, name, Record, gpu) \
  case NNC_STEP_##KIND: return nnc_##name##_implementation(s->name);
    NNC_LIBRARY_RECORDS(IMPLEMENTATION)
#undef IMPLEMENTATION
  default: return "";
  }
}

static void describe(char *text, size_t size) {
  snprintf(text, size, "%d threads, %s", omp_get_max_threads(), nnc_library_isa());
}

const NncDevice nnc_device_host = {.name = "host",
                                   .check = check_machine,
                                   .enter = enter,
                                   .prepare = prepare,
                                   .release = release,
                                   .run_step = run_step,
                                   .watch_step = watch_step,
                                   .implementation = implementation,
                                   .describe = describe};
