// The step loop. Steps run in order on the program's device, those of several lanes beside each other where nobody
// looks at single ones; arguments go there before and results come back after.
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm.h"
#include "runtime/runtime.h"

typedef struct Timing {
  double seconds, least;
} Timing;   // summed over the profiled runs; of the quickest

struct Executor {
  const NncFunction *f;
  const Arena *arena;
  const NncDevice *device;
  void *prepared;   // Owned: the device's
  Lanes *lanes;     // Owned; NULL: the function has one, or the device does them itself
  Timing *steps;    // Owned
  bool profile;
  int64_t profiled_runs;
  int64_t max_samples;   // runs whose times are kept one by one
  float *samples;        // Owned, max_samples per step
  char *streamed;        // Owned: results that are fetched in parts; NULL: there are none
};

Executor *executor_create(const NncFunction *f, const Arena *arena) {
  Executor *e = xcalloc(1, sizeof *e);
  e->f = f;
  e->arena = arena;
  e->device = nnc_program.device;
  e->steps = xcalloc((size_t)f->n_steps, sizeof *e->steps);
  int64_t streamed = 0;
  for (int i = 0; i < f->n_results; i++)
    if (f->results[i].streamed) streamed = f->results[i].offset + f->results[i].bytes;
  if (streamed) e->streamed = xmalloc((size_t)streamed);
  e->prepared = e->device->prepare(f, arena);
  bool one_thread = ranks.comm && ranks.comm->takes_lane && !ranks.comm->takes_lane();
  bool threads = e->prepared && !e->device->start && !one_thread && lanes_wanted(f);
  if (threads) e->lanes = lanes_create(f, e->device->run_step, e->prepared);
  if (e->prepared && (e->lanes || !threads)) return e;
  executor_destroy(e);
  return NULL;
}

void executor_destroy(Executor *e) {
  if (!e) return;
  lanes_destroy(e->lanes);
  if (e->prepared) e->device->release(e->prepared);
  free(e->steps);
  free(e->samples);
  free(e->streamed);
  free(e);
}

const NncFunction *executor_function(const Executor *e) { return e->f; }

static bool push_arguments(const Executor *e) {
  for (int i = 0; i < e->f->n_args; i++)
    if (e->f->args[i].role != NNC_CACHE && !arena_push(e->arena, e->f->args[i].offset, e->f->args[i].bytes))
      return false;
  return true;
}

static bool pull_results(const Executor *e) {
  for (int i = 0; i < e->f->n_results; i++)
    if (!e->f->results[i].streamed && !arena_pull(e->arena, e->f->results[i].offset, e->f->results[i].bytes))
      return false;
  return true;
}

static void note_time(Executor *e, int step, double seconds) {
  Timing *t = &e->steps[step];
  t->seconds += seconds;
  if (e->profiled_runs < e->max_samples) e->samples[step * e->max_samples + e->profiled_runs] = (float)seconds;
  if (e->profiled_runs == 0 || seconds < t->least) t->least = seconds;
}

// The time of a step by the device's clock where it has one.
static bool time_step(const Executor *e, int step, double *seconds) {
  if (e->device->time_step) return e->device->time_step(e->prepared, step, seconds);
  double before = seconds_now();
  bool ok = e->device->run_step(e->prepared, step);
  *seconds = seconds_now() - before;
  return ok;
}

const char *executor_result(const Executor *e, const NncTensor *t) {
  return t->streamed ? e->streamed + t->offset : e->arena->base + t->offset;
}

// The result that a tap shows a part of; NULL: none.
static const NncTensor *streamed_result(const Executor *e, const NncTensor *tap) {
  for (int i = 0; e->streamed && i < e->f->n_results; i++)
    if (e->f->results[i].streamed && !strcmp(e->f->results[i].name, tap->name)) return &e->f->results[i];
  return NULL;
}

// A step that only shows a value.
static bool run_tap(const Executor *e, const NncTensor *tensor, TapFn tap, void *context) {
  const NncTensor *result = streamed_result(e, tensor);
  if (!result && !tap) return true;
  if (!arena_pull(e->arena, tensor->offset, tensor_span(tensor))) return false;
  if (result) tensor_from_arena(tensor, e->arena->base, e->streamed + result->offset);
  else tap(context, tensor, e->arena->base);
  return true;
}

static bool run_steps(Executor *e, TapFn tap, void *context) {
  if (e->lanes && !tap && !e->profile && !e->streamed) return lanes_run(e->lanes);
  for (int i = 0; i < e->f->n_steps; i++) {
    const NncStep *s = &e->f->steps[i];
    if (s->kind == NNC_STEP_TAP) {
      if (!run_tap(e, s->tap, tap, context)) return false;
    } else if (e->profile) {
      double seconds;
      if (!time_step(e, i, &seconds)) return false;
      note_time(e, i, seconds);
    } else if (!e->device->run_step(e->prepared, i)) {
      return false;
    }
  }
  if (e->profile) e->profiled_runs++;
  return true;
}

bool executor_run_each(Executor *e, StepWatch *w) {
  w->arena = e->arena;
  bool ok = push_arguments(e);
  for (int i = 0; ok && i < e->f->n_steps && !w->over; i++)
    ok = e->f->steps[i].kind == NNC_STEP_TAP || e->device->watch_step(e->prepared, i, w);
  return ok;
}

bool executor_can_stage(const Executor *e) { return e->device->start && !e->profile && !e->streamed; }

bool executor_stage(Executor *e) { return e->device->stage(e->prepared); }

bool executor_start(Executor *e) {
  if (executor_can_stage(e)) return e->device->start(e->prepared);
  return push_arguments(e) && run_steps(e, NULL, NULL) && pull_results(e);
}

bool executor_finish(Executor *e) { return !executor_can_stage(e) || e->device->finish(e->prepared); }

bool executor_run(Executor *e, TapFn tap, void *context) {
  if (!tap) return executor_start(e) && executor_finish(e);
  return push_arguments(e) && run_steps(e, tap, context) && pull_results(e);
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
  return e->device->implementation ? e->device->implementation(&e->f->steps[step]) : "";
}
