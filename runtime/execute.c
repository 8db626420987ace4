// The step loop. Steps run in order; kernels and library operations share their own work over the threads.
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

typedef struct Prepared {
  void **buffers;                      // addresses; Borrowed from Executor.addresses
  const NncOperation *operation;       // CONV, MATMUL
  void *workspace;
  int threads;                         // KERNEL
  double seconds, least;               // summed over the profiled runs; of the quickest
} Prepared;

struct Executor {
  const NncFunction *f;
  const Arena *arena;
  Prepared *steps;                     // Owned
  void **addresses;                    // Owned
  bool profile;
  int64_t profiled_runs;
  int64_t max_samples;                 // runs whose times are kept one by one
  float *samples;                      // Owned, max_samples per step
};

static bool prepare_operation(const NncFunction *f, const NncStep *s, Prepared *p) {
  char error[256];
  if (s->kind == NNC_STEP_CONV) p->operation = nnc_conv_prepare(s->conv, error, sizeof error);
  else p->operation = nnc_matmul_prepare(s->matmul, error, sizeof error);
  int64_t scratch = s->kind == NNC_STEP_CONV ? s->conv->scratch_bytes : s->matmul->scratch_bytes;
  if (p->operation && scratch > 0 && s->workspace < 0) report_internal("step %s of %s has no workspace", s->label, f->name);
  if (!p->operation)
    report_error("%s in %s: %s; this machine differs from the one it was compiled on: compile %s here", s->label, f->name, error,
                 nnc_program.source);
  return p->operation != NULL;
}

Executor *executor_create(const NncFunction *f, const Arena *arena) {
  Executor *e = xcalloc(1, sizeof *e);
  e->f = f;
  e->arena = arena;
  e->steps = xcalloc((size_t)f->n_steps, sizeof *e->steps);
  size_t n = 0;
  for (int i = 0; i < f->n_steps; i++) n += (size_t)f->steps[i].n_buffers;
  e->addresses = xcalloc(n, sizeof *e->addresses);
  int max_threads = omp_get_max_threads();
  n = 0;
  for (int i = 0; i < f->n_steps; i++) {
    const NncStep *s = &f->steps[i];
    Prepared *p = &e->steps[i];
    p->buffers = e->addresses + n;
    for (int j = 0; j < s->n_buffers; j++) e->addresses[n++] = arena->base + s->buffers[j];
    p->workspace = s->workspace < 0 ? NULL : arena->base + s->workspace;
    int64_t worth = s->grain > 0 ? s->extent / s->grain : s->extent;
    p->threads = worth < 1 ? 1 : worth < max_threads ? (int)worth : max_threads;
    if ((s->kind == NNC_STEP_CONV || s->kind == NNC_STEP_MATMUL) && !prepare_operation(f, s, p)) {
      executor_destroy(e);
      return NULL;
    }
  }
  return e;
}

void executor_destroy(Executor *e) {
  if (!e) return;
  free(e->steps);
  free(e->addresses);
  free(e->samples);
  free(e);
}

const NncFunction *executor_function(const Executor *e) { return e->f; }

// Contiguous chunks; the team always has all threads, since a team that changes its size costs more than an idle thread.
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

bool executor_run(Executor *e, TapFn tap, void *context) {
  double before = e->profile ? now_seconds() : 0;
  for (int i = 0; i < e->f->n_steps; i++) {
    const NncStep *s = &e->f->steps[i];
    Prepared *p = &e->steps[i];
    switch (s->kind) {
    case NNC_STEP_KERNEL: run_kernel(s, p); break;
    case NNC_STEP_CONV:
    case NNC_STEP_MATMUL:
      if (!nnc_operation_execute(p->operation, p->buffers, p->workspace)) report_internal("%s failed in the library", s->label);
      break;
    case NNC_STEP_COPY: memmove(p->buffers[1], p->buffers[0], (size_t)s->copy_bytes); break;
    case NNC_STEP_TAP:
      if (tap) tap(context, s->tap, e->arena->base);
      break;
    }
    if (e->profile) {
      double now = now_seconds();
      p->seconds += now - before;
      if (e->profiled_runs < e->max_samples) e->samples[i * e->max_samples + e->profiled_runs] = (float)(now - before);
      if (e->profiled_runs == 0 || now - before < p->least) p->least = now - before;
      before = now;
    }
  }
  if (e->profile) e->profiled_runs++;
  return true;
}

void executor_profile(Executor *e, bool on) { e->profile = on; }

void executor_keep_samples(Executor *e, int64_t runs) {
  free(e->samples);
  e->samples = xcalloc((size_t)e->f->n_steps * (size_t)runs + 1, sizeof *e->samples);
  e->max_samples = runs;
}

int64_t executor_samples(const Executor *e, int step, const float **samples) {
  *samples = e->samples + step * e->max_samples;
  return e->profiled_runs < e->max_samples ? e->profiled_runs : e->max_samples;
}

double executor_step_seconds(const Executor *e, int step, int64_t *runs) {
  if (runs) *runs = e->profiled_runs;
  return e->steps[step].seconds;
}

double executor_step_least(const Executor *e, int step) { return e->steps[step].least; }

const char *executor_step_implementation(const Executor *e, int step) {
  const NncStep *s = &e->f->steps[step];
  if (s->kind == NNC_STEP_CONV) return nnc_conv_implementation(s->conv);
  if (s->kind == NNC_STEP_MATMUL) return nnc_matmul_implementation(s->matmul);
  return "";
}
