// Which step of a program computed the first NaN, from the types of buffers and the places in the source that the
// tables hold.
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"
#include "runtime/training.h"

typedef struct Search {
  NanSearch *out;
  const NncFunction *f;
  const char *input;   // that came with a NaN; NULL: none did
} Search;

static const NncTensor *tensor_at(const NncTensor *t, int n, int64_t offset) {
  for (int i = 0; i < n; i++)
    if (t[i].offset == offset && !t[i].streamed) return &t[i];
  return NULL;
}

// " (layer.weight)": what has a name and lies there once the step is done. Owned.
static char *name_at(const NncFunction *f, int64_t offset) {
  const NncTensor *t = tensor_at(nnc_program.persistent, nnc_program.n_persistent, offset);
  if (!t) t = tensor_at(f->results, f->n_results, offset);
  return t ? xasprintf(" (%s)", t->name) : xstrdup("");
}

// Of a step that computes several operations.
static const char *advice(const NncStep *step) {
  bool several = step->kind == NNC_STEP_KERNEL && step->where && strchr(step->where, ',');
  return several ? "\n  nnc --fuse=none makes each operation a step of its own, so that it is told which" : "";
}

// A NaN, or where there is none an infinity, in a buffer that a step wrote. False: a NaN was reported.
static bool look_at(const Search *s, const NncStep *step, int buffer, int64_t offset, const char *iteration,
                    const Arena *arena) {
  int64_t values = step->buffer_values[buffer];
  NncDtype dtype = (NncDtype)(values & ~NNC_WRITTEN);
  if (values < 0 || !(values & NNC_WRITTEN) || !dtype_is_float(dtype)) return true;
  int64_t n = step->buffer_bytes[buffer] / dtype_bytes(dtype);
  const void *at = arena->base + offset;
  int64_t nan = find_not_finite(dtype, at, n, true), any = nan >= 0 ? nan : find_not_finite(dtype, at, n, false);
  if (any < 0 || (nan < 0 && s->out->infinity)) return true;
  char *name = name_at(s->f, offset);
  char *text = xasprintf("the first %s of step %lld: element %lld of the %lld%s that %s computes%s%s%s; %s%s",
                         nan >= 0 ? "NaN" : "infinity", (long long)s->out->step, (long long)any, (long long)n, name,
                         step->label, iteration, step->where ? ", at " : "", step->where ? step->where : "",
                         s->input ? "it came with the input " : "no input has one", s->input ? s->input : "");
  free(name);
  if (nan < 0) {
    s->out->infinity = xasprintf("%s%s", text, advice(step));
    free(text);
    return true;
  }
  if (s->out->infinity) report_error("%s\n  before it, %s", text, s->out->infinity);
  else report_error("%s%s", text, advice(step));
  free(text);
  s->out->found = true;
  return false;
}

// " in iteration 4 inside of iteration 0": of the loops around the step, the innermost first. Owned.
static char *iterations_of(const StepWatch *w) {
  char *text = xstrdup("");
  for (int i = w->depth - 1; i >= 0; i--) {
    char *shorter = text;
    if (i >= (int)(sizeof w->iterations / sizeof *w->iterations)) continue;
    text = xasprintf("%s in%s iteration %lld", shorter, *shorter ? "side of" : "", (long long)w->iterations[i]);
    free(shorter);
  }
  return text;
}

static bool after_step(StepWatch *w, const NncStep *step, const int64_t *offsets) {
  bool ok = true;
  char *text = iterations_of(w);
  for (int j = 0; ok && step->buffer_values && j < step->n_buffers; j++)
    ok = is_far_address(offsets[j]) || (arena_pull(w->arena, offsets[j], step->buffer_bytes[j]) &&
                                        look_at(w->context, step, j, offsets[j], text, w->arena));
  free(text);
  return ok;
}

// Before the first step: what the call was given.
static void look_at_given(Search *s, const Arena *arena) {
  for (int i = 0; i < s->f->n_args && !s->input; i++) {
    const NncTensor *t = &s->f->args[i];
    int64_t n = tensor_elements(t), at;
    if (t->role != NNC_INPUT || (at = find_not_finite(t->dtype, arena->base + t->offset, n, true)) < 0) continue;
    s->input = t->name;
    report_error("the batch of step %lld has a NaN: input %s, record %lld of the batch", (long long)s->out->step,
                 t->name, (long long)(t->rank && t->dim[0] ? at / (n / t->dim[0]) : 0));
  }
  const NncTensor *t;
  if (checkpoint_not_finite(arena, false, &t) && t)
    report_error("%s holds numbers that are not finite before step %lld", t->name, (long long)s->out->step);
}

bool find_nan(NanSearch *search, Executor *e, const Arena *arena) {
  Search s = {search, executor_function(e), NULL};
  look_at_given(&s, arena);
  return executor_run_each(e, &(StepWatch){.after = after_step, .context = &s});
}
