// Which operation of a program computed the first NaN, from the types of buffers, the places in the source and the
// expressions of kernels that the tables hold.
#include <stdlib.h>
#include <string.h>

#include "runtime/expression.h"
#include "runtime/runtime.h"
#include "runtime/training.h"

// One of the calls of kernels that the step at hand makes, of several operations.
typedef struct Told {
  const int64_t *buffers;   // addresses in the first iteration of its operands, then of its results
  Expression x;
  int64_t *at;   // Owned; arena offsets of its operands, -1: not known
  char **copy;   // Owned; of operands that the step writes over; NULL: they stay
} Told;

typedef struct Search {
  NanSearch *out;
  const NncFunction *f;
  const char *input;   // that came with a NaN; NULL: none did
  int n_told;
  Told *told;   // Owned; of the step at hand
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

// ---------------------------------------------------------------------------------------------------------------------
// The operations inside of a kernel

static void forget(Search *s) {
  for (int i = 0; i < s->n_told; i++) {
    Told *t = &s->told[i];
    for (int a = 0; a < t->x.n_arguments; a++) free(t->copy[a]);
    free(t->copy);
    free(t->at);
    expression_free(&t->x);
  }
  free(s->told);
  s->told = NULL;
  s->n_told = 0;
}

// Where what has that address in the first iteration lies now; -1: not known.
static int64_t place_now(const StepWatch *w, const NncStep *step, const int64_t *offsets, int64_t address) {
  for (int j = 0; j < step->n_buffers; j++)
    if (step->buffers[j] == address) return offsets[j];
  return w->depth ? -1 : address;
}

static bool is_written(const NncStep *step, int j) {
  return step->buffer_values[j] >= 0 && step->buffer_values[j] & NNC_WRITTEN;
}

static bool writes_over(const NncStep *step, const int64_t *offsets, int64_t at, int64_t bytes) {
  for (int j = 0; j < step->n_buffers; j++)
    if (is_written(step, j) && offsets[j] < at + bytes && at < offsets[j] + step->buffer_bytes[j]) return true;
  return false;
}

static bool keep_operands(Told *t, const StepWatch *w, const NncStep *step, const int64_t *offsets) {
  t->at = xcalloc((size_t)t->x.n_arguments + 1, sizeof *t->at);
  t->copy = xcalloc((size_t)t->x.n_arguments + 1, sizeof *t->copy);
  for (int a = 0; a < t->x.n_arguments; a++) {
    int64_t bytes = expression_argument_bytes(&t->x, a);
    t->at[a] = place_now(w, step, offsets, t->buffers[a]);
    if (t->at[a] < 0 || !writes_over(step, offsets, t->at[a], bytes)) continue;
    if (!arena_pull(w->arena, t->at[a], bytes)) return false;
    t->copy[a] = xmalloc((size_t)bytes + 1);
    memcpy(t->copy[a], w->arena->base + t->at[a], (size_t)bytes);
  }
  return true;
}

static bool before_step(StepWatch *w, const NncStep *step, const int64_t *offsets) {
  Search *s = w->context;
  int n = step->n_parts ? step->n_parts : 1;
  bool ok = true;
  forget(s);
  s->told = xcalloc((size_t)n, sizeof *s->told);
  for (int i = 0; ok && step->buffer_values && i < n; i++) {
    Told *t = &s->told[s->n_told];
    NncExpression of = step->n_parts ? step->parts[i].expression : step->expression;
    if (!of.text || !expression_read(&t->x, nnc_program.expressions[of.text - 1])) continue;
    t->buffers = step->buffers + of.operands;
    s->n_told++;
    ok = keep_operands(t, w, step, offsets);
  }
  return ok;
}

// Of the element of what the step wrote there. False: not known.
static bool find_operation(const Search *s, int64_t address, int64_t element, bool nan, const Arena *arena,
                           ExpressionPlace *out) {
  for (int i = 0; i < s->n_told; i++) {
    const Told *t = &s->told[i];
    Expression x = t->x;
    bool known = true;
    for (int a = 0; known && a < x.n_arguments; a++) {
      x.arguments[a] = t->copy[a] ? t->copy[a] : arena->base + t->at[a];
      known = t->copy[a] || (t->at[a] >= 0 && arena_pull(arena, t->at[a], expression_argument_bytes(&x, a)));
    }
    for (int r = 0; known && r < x.n_results; r++)
      if (t->buffers[x.n_arguments + r] == address) return expression_find(&x, r, element, nan, out);
  }
  return false;
}

// ---------------------------------------------------------------------------------------------------------------------
// Looking at what a step wrote

// "element 3 of the 64 that sqrt of kernel_0: add sqrt computes in iteration 4, at model.nn:5:9": of one operation, or
// else of the step with all its places, and *advice. Owned.
static char *describe(const Search *s, const NncStep *step, int buffer, int64_t offset, int64_t element, int64_t n,
                      bool nan, const char *iteration, const Arena *arena, const char **advice) {
  ExpressionPlace p;
  char *name = name_at(s->f, offset), *text;
  if (find_operation(s, step->buffers[buffer], element, nan, arena, &p)) {
    text = xasprintf("element %lld of the %lld that %s of %s%s computes%s%s%.*s%.*s", (long long)p.element,
                     (long long)p.elements, p.operation, step->label, name, iteration, p.line ? ", at " : "",
                     p.file_bytes, p.file ? p.file : "", p.line_bytes, p.line ? p.line : "");
  } else {
    text = xasprintf("element %lld of the %lld%s that %s computes%s%s%s", (long long)element, (long long)n, name,
                     step->label, iteration, step->where ? ", at " : "", step->where ? step->where : "");
    if (step->kind == NNC_STEP_KERNEL && step->where && strchr(step->where, ','))
      *advice = "\n  nnc --fuse=none makes each operation a step of its own, so that it is told which";
  }
  free(name);
  return text;
}

// A NaN, or where there is none an infinity, in a buffer that a step wrote. False: a NaN was reported.
static bool look_at(const Search *s, const NncStep *step, int buffer, int64_t offset, const char *iteration,
                    const Arena *arena) {
  if (!is_written(step, buffer)) return true;
  NncDtype dtype = (NncDtype)(step->buffer_values[buffer] & ~NNC_WRITTEN);
  if (!dtype_is_float(dtype)) return true;
  int64_t n = step->buffer_bytes[buffer] / dtype_bytes(dtype);
  const void *at = arena->base + offset;
  int64_t nan = find_not_finite(dtype, at, n, true), any = nan >= 0 ? nan : find_not_finite(dtype, at, n, false);
  if (any < 0 || (nan < 0 && s->out->infinity)) return true;
  const char *advice = "";
  char *what = describe(s, step, buffer, offset, any, n, nan >= 0, iteration, arena, &advice);
  char *text = xasprintf("the first %s of step %lld: %s; %s%s%s", nan >= 0 ? "NaN" : "infinity",
                         (long long)s->out->step, what, s->input ? "it came with the input " : "no input has one",
                         s->input ? s->input : "", advice);
  free(what);
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
  Search s = {.out = search, .f = executor_function(e)};
  look_at_given(&s, arena);
  bool ok = executor_run_each(e, &(StepWatch){.before = before_step, .after = after_step, .context = &s});
  forget(&s);
  return ok;
}
