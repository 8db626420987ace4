// Which step of a program computed the first NaN, from the types of buffers and the places in the source that the
// tables hold.
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

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
    s->out->infinity = text;
    return true;
  }
  if (s->out->infinity) report_error("%s\n  before it, %s", text, s->out->infinity);
  else report_error("%s", text);
  free(text);
  s->out->found = true;
  return false;
}

static bool look_at_step(const Search *s, const NncStep *step, const int64_t *strides, int64_t iteration,
                         const Arena *arena) {
  char text[48] = "";
  if (strides) snprintf(text, sizeof text, " in iteration %lld", (long long)iteration);
  for (int j = 0; step->buffer_values && j < step->n_buffers; j++) {
    int64_t offset = step->buffers[j] + (strides ? iteration * strides[j] : 0);
    if (!arena_pull(arena, offset, step->buffer_bytes[j]) || !look_at(s, step, j, offset, text, arena)) return false;
  }
  return true;
}

// Of a loop what is left after it: the rows of each iteration, and what only the last one left. Loops in it count as
// one of its steps whose buffers are not looked at.
static bool look_at_scan(const Search *s, const NncScan *scan, const Arena *arena) {
  for (int64_t t = 0; t < scan->iterations; t++)
    for (int i = 0; i < scan->n_steps; i++) {
      const NncStep *step = &scan->steps[i];
      int64_t *strides = xmalloc(sizeof *strides * ((size_t)step->n_buffers + 1));
      bool all_move = true, ok = true;
      for (int j = 0; j < step->n_buffers; j++) {
        strides[j] = scan->strides[i][(int64_t)j * scan->depth];
        if (step->buffer_values && (step->buffer_values[j] & NNC_WRITTEN) && !strides[j]) all_move = false;
      }
      if (all_move || t == scan->iterations - 1) ok = look_at_step(s, step, strides, t, arena);
      free(strides);
      if (!ok) return false;
    }
  return true;
}

static bool after_step(void *context, const NncStep *step, const Arena *arena) {
  return step->scan ? look_at_scan(context, step->scan, arena) : look_at_step(context, step, NULL, 0, arena);
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
  const NncTensor *t = checkpoint_not_finite(arena->base, false);
  if (t) report_error("%s holds numbers that are not finite before step %lld", t->name, (long long)s->out->step);
}

bool find_nan(NanSearch *search, Executor *e, const Arena *arena) {
  Search s = {search, executor_function(e), NULL};
  look_at_given(&s, arena);
  return executor_run_each(e, after_step, &s);
}
