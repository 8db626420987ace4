// The tables of the program: finding functions and tensors, checking at start that every buffer lies where the plan
// allows.
#include <string.h>

#include "runtime/runtime.h"
#include "support/integers.h"

const NncFunction *program_function(const char *name) {
  for (int i = 0; i < nnc_program.n_functions; i++)
    if (strcmp(nnc_program.functions[i].name, name) == 0) return &nnc_program.functions[i];
  return NULL;
}

bool program_predicts(const NncFunction *f) {
  return strncmp(f->name, "predict", 7) == 0 && (!f->name[7] || f->name[7] == '.');
}

const NncFunction *program_prediction(const char *model) {
  if (!model || strcmp(model, nnc_program.model) == 0) return program_function("predict");
  for (int i = 0; i < nnc_program.n_functions; i++) {
    const NncFunction *f = &nnc_program.functions[i];
    if (program_predicts(f) && f->name[7] && strcmp(f->name + 8, model) == 0) return f;
  }
  return NULL;
}

bool program_is_persistent_role(NncRole role) {
  return role == NNC_PARAM || role == NNC_STATE || role == NNC_OPT || role == NNC_ACCUM;
}

const char *lane_name(NncLane lane) {
  static const char *const names[NNC_LANES] = {"compute", "out", "in", "comm"};   // ORDER LANE
  return names[lane];
}

// ---------------------------------------------------------------------------------------------------------------------
// Bytes used

int64_t step_scratch_bytes(const NncStep *s) {
  switch (s->kind) {
#define SCRATCH(KIND, name, Record, gpu) \
  case NNC_STEP_##KIND: return s->name->scratch_bytes;
    NNC_LIBRARY_RECORDS(SCRATCH)
#undef SCRATCH
  case NNC_STEP_COLLECTIVE: return s->collective->scratch_bytes;
  default: return -1;
  }
}

static int64_t step_end(const NncStep *s);

static int64_t buffers_end(const NncStep *s) {
  int64_t end = 0;
  for (int i = 0; i < s->n_buffers; i++) end = larger(end, s->buffers[i] + s->buffer_bytes[i]);
  return end;
}

// The loops around a step, the innermost first.
typedef struct Loop {
  const NncScan *scan;
  const struct Loop *around;
} Loop;

// The bytes that buffer j of step i reaches into in all iterations of the loops: it moves evenly, so the first and the
// last of each tell.
static void buffer_span(const Loop *loop, int i, int j, int64_t *begin, int64_t *end) {
  const NncStep *step = &loop->scan->steps[i];
  const int64_t *stride = loop->scan->strides[i] + (ptrdiff_t)j * loop->scan->depth;
  *begin = step->buffers[j];
  *end = step->buffers[j] + step->buffer_bytes[j];
  for (const Loop *l = loop; l; l = l->around, stride++) {
    int64_t move = *stride * (l->scan->iterations - 1);
    *begin += move < 0 ? move : 0;
    *end += larger(0, move);
  }
}

static int64_t scan_end(const NncScan *scan, const Loop *around) {
  Loop loop = {scan, around};
  int64_t end = 0;
  for (int i = 0; i < scan->n_steps; i++) {
    const NncStep *step = &scan->steps[i];
    int64_t e = step->kind == NNC_STEP_SCAN ? scan_end(step->scan, &loop) : step_end(step);
    if (e < 0 || (step->n_buffers && !step->buffer_bytes)) return -1;
    end = larger(end, e);
    for (int j = 0; j < step->n_buffers; j++) {
      int64_t from, to;
      buffer_span(&loop, i, j, &from, &to);
      end = larger(end, to);
    }
  }
  return end;
}

// No buffer lies before the arena in any iteration.
static bool scan_begins(const NncScan *scan, const Loop *around) {
  Loop loop = {scan, around};
  bool ok = true;
  for (int i = 0; i < scan->n_steps; i++) {
    const NncStep *step = &scan->steps[i];
    for (int j = 0; j < step->n_buffers; j++) {
      int64_t from, to;
      buffer_span(&loop, i, j, &from, &to);
      ok &= step->buffers[j] >= 0 && from >= 0;
    }
    if (step->kind == NNC_STEP_SCAN) ok &= scan_begins(step->scan, &loop);
  }
  return ok;
}

// One past the last byte that a copy touches of an arena.
static int64_t copy_end(const NncStep *s, bool far) {
  int64_t end = 0;
  for (int i = 0; i < 2; i++)
    if (is_far_address(s->buffers[i]) == far)
      end = larger(end, s->buffers[i] - (far ? FAR_ADDRESS : 0) + s->copy_bytes);
  return end;
}

// One past the last byte a step touches of the arena; -1 if its tables do not say.
static int64_t step_end(const NncStep *s) {
  switch (s->kind) {
  case NNC_STEP_COPY: return copy_end(s, false);
  case NNC_STEP_SCAN: return scan_end(s->scan, NULL);
  case NNC_STEP_TAP: return s->tap->offset + tensor_span(s->tap);
  default:   // kernels and the library's
    if (!s->buffer_bytes) return s->n_buffers ? -1 : 0;
    return larger(buffers_end(s), s->workspace < 0 ? 0 : s->workspace + larger(0, step_scratch_bytes(s)));
  }
}

int64_t function_used_bytes(const NncFunction *f) {
  int64_t end = nnc_program.persistent_bytes;
  for (int i = 0; i < f->n_args; i++) end = larger(end, f->args[i].offset + f->args[i].bytes);
  for (int i = 0; i < f->n_results; i++)
    if (!f->results[i].streamed) end = larger(end, f->results[i].offset + f->results[i].bytes);
  for (int i = 0; i < f->n_steps; i++) {
    int64_t e = step_end(&f->steps[i]);
    if (e < 0) return -1;
    end = larger(end, e);
  }
  return round_up(end, NNC_ALIGN);   // a buffer occupies whole units of the alignment
}

int64_t function_far_used_bytes(const NncFunction *f) {
  int64_t end = nnc_program.far_persistent_bytes;
  for (int i = 0; i < f->n_steps; i++)
    if (f->steps[i].kind == NNC_STEP_COPY) end = larger(end, copy_end(&f->steps[i], true));
  return far_blocks(end);
}

static bool verify_tensor(const NncTensor *t, int64_t alignment, int64_t limit, const char *where) {
  bool ok = t->offset >= 0 && t->offset % alignment == 0 && t->offset + tensor_arena_bytes(t) <= limit &&
            tensor_elements(t) * dtype_bytes(t->dtype) == t->bytes;
  if (!ok)
    report_cause(NNC_ERROR_INTERNAL, "damaged program: %s lies at %lld, %lld bytes, outside of %s", t->name,
                 (long long)t->offset, (long long)t->bytes, where);
  return ok;
}

static bool verify_step(const NncFunction *f, const NncStep *s) {
  bool ok = step_end(s) <= f->arena_bytes && (s->kind != NNC_STEP_COPY || copy_end(s, true) <= f->far_bytes);
  if (ok && s->scan) ok = scan_begins(s->scan, NULL);
  // A buffer may be a slice of another: aligned to its elements only.
  for (int i = 0; i < s->n_buffers; i++) {
    bool far = s->kind == NNC_STEP_COPY && is_far_address(s->buffers[i]);
    ok &= s->buffers[i] >= 0 && (far || s->buffers[i] <= f->arena_bytes);
  }
  if (!ok)
    report_cause(NNC_ERROR_INTERNAL, "damaged program: step %s of %s reaches beyond the arena", s->label, f->name);
  return ok;
}

bool program_verify(void) {
  bool ok = true;
  for (int i = 0; i < nnc_program.n_persistent; i++) {
    const NncTensor *t = &nnc_program.persistent[i];
    bool far = is_far_address(t->offset);
    ok &= verify_tensor(t, far ? FAR_BLOCK : NNC_ALIGN,
                        far ? FAR_ADDRESS + nnc_program.far_persistent_bytes : nnc_program.persistent_bytes,
                        "the persistent part");
  }
  for (int k = 0; k < nnc_program.n_functions; k++) {
    const NncFunction *f = &nnc_program.functions[k];
    ok &= f->arena_bytes <= nnc_program.arena_bytes && f->far_bytes <= nnc_program.far_bytes;
    for (int i = 0; i < f->n_args; i++) ok &= verify_tensor(&f->args[i], NNC_ALIGN, f->arena_bytes, f->name);
    for (int i = 0; i < f->n_results; i++) {   // a result may be a slice of a buffer, too
      const NncTensor *t = &f->results[i];
      ok &= t->streamed || verify_tensor(t, dtype_bytes(t->dtype), f->arena_bytes, f->name);
    }
    for (int i = 0; i < f->n_steps; i++) ok &= verify_step(f, &f->steps[i]);
  }
  return ok;
}
