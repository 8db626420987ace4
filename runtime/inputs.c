// Inputs that do not come from a data set: tensors of a file for `step` and `predict`, made-up values for `bench`.
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

// What the train section calls the tensor of an input in its own files: the field of a data line. NULL: as the input is
// called.
static const char *field_of(const char *input) {
  for (int i = 0; i < nnc_program.n_data; i++) {
    const NncData *d = &nnc_program.data[i];
    if (strcmp(d->split, "train") != 0 || strcmp(d->reader, "safetensors") != 0) continue;
    for (int k = 0; k < d->n_names && k < d->n_fields; k++)
      if (!strcmp(d->names[k], input)) return d->fields[k];
  }
  return NULL;
}

const SafetensorsEntry *inputs_find(const Safetensors *s, const NncTensor *input) {
  const SafetensorsEntry *e = s ? safetensors_find(s, input->name) : NULL;
  const char *field = e || !s ? NULL : field_of(input->name);
  return field ? safetensors_find(s, field) : e;
}

void warn_of_rounding(const char *path, NncDtype dtype, const NncTensor *input) {
  if (dtype == NNC_F64 && dtype_is_float(input->dtype) && input->dtype != NNC_F64)
    report_warning("%s holds f64, input %s takes %s: its numbers are rounded; a program compiled with --dtype=f64 "
                   "keeps "
                   "them",
                   path, input->name, dtype_name(input->dtype));
}

// The tensor must have the input's shape but, unless it is whole, for the first dimension.
static const SafetensorsEntry *find_checked(const Safetensors *s, const NncTensor *input) {
  char found[128], expected[128];
  NncDtype dtype;
  const SafetensorsEntry *e = inputs_find(s, input);
  if (!e) {
    const char *field = field_of(input->name);
    bool other = field && strcmp(field, input->name) != 0;
    char *detail = other ? xasprintf(", and none with its name in the training data, %s", field) : xstrdup("");
    safetensors_report_missing(s, input->name, detail);
    free(detail);
    return NULL;
  }
  if (input->csr) return e;   // checked when it is read
  format_shape(e->rank, e->dim, found, sizeof found);
  format_shape(input->rank, input->dim, expected, sizeof expected);
  if (e->rank != input->rank || (e->rank > 0 && memcmp(e->dim + !input->whole, input->dim + !input->whole,
                                                       sizeof *e->dim * (size_t)(e->rank - !input->whole)) != 0)) {
    report_error("%s: tensor %s has shape %s, the model expects %s", s->path, e->name, found, expected);
    return NULL;
  }
  if (!safetensors_dtype(e->dtype, &dtype) || !dtype_convertible(dtype, input->dtype)) {
    report_error("%s: tensor %s is %s, the model expects %s", s->path, e->name, e->dtype, dtype_name(input->dtype));
    return NULL;
  }
  warn_of_rounding(s->path, dtype, input);
  return e;
}

static bool check_drawn(const NncTensor *input) {
  bool can = dtype_is_float(input->dtype) && !input->whole && !input->csr;
  if (!can)
    report_error("input %s, %s, is not drawn: give it with --inputs", input->name,
                 input->whole ? "which has no records" : dtype_name(input->dtype));
  return can;
}

bool inputs_check(const InputSource *in, const NncFunction *f, int64_t *records) {
  const Safetensors *s = in->file;
  *records = in->drawn > 0 ? in->drawn : -1;
  for (int i = 0; i < f->n_args; i++) {
    const NncTensor *input = &f->args[i];
    if (input->role != NNC_INPUT || input == in->written) continue;
    if (in->drawn && !inputs_find(s, input)) {
      if (!check_drawn(input)) return false;
      continue;
    }
    const SafetensorsEntry *e = find_checked(s, input);
    if (!e) return false;
    if (input->whole) continue;
    int64_t n = e->dim[0];
    if (*records >= 0 && n != *records) {
      report_error("%s: tensor %s has %lld records, %s %lld", s->path, e->name, (long long)n,
                   in->drawn ? "--draw says" : "others have", (long long)*records);
      return false;
    }
    *records = n;
  }
  if (*records < 0) *records = function_batch(f);
  if (*records > 0) return true;
  report_error("%s holds no records", s->path);
  return false;
}

static bool check_limit(const Safetensors *s, const NncTensor *input, NncDtype dtype, const void *values, int64_t n,
                        int64_t record) {
  int64_t value;
  char bounds[96];
  if (tensor_find_outside(input, dtype, values, n, &value) < 0) return true;
  report_error("%s: record %lld: %s %lld is outside of %s", s->path, (long long)record, input->name, (long long)value,
               tensor_bounds_text(input, bounds, sizeof bounds));
  return false;
}

static bool read_rows(const Safetensors *s, const SafetensorsEntry *e, const NncTensor *input, char *arena) {
  int64_t n = tensor_elements(input);
  int32_t *rows = xmalloc((size_t)n * sizeof *rows);
  bool ok = csr_read(s, e, input, rows);
  if (ok) convert_elements(NNC_I32, rows, input->dtype, arena + input->offset, n);
  free(rows);
  return ok;
}

static bool draw_rows(const NncTensor *input, uint64_t seed, int64_t first, char *arena) {
  int64_t n = tensor_elements(input);
  return init_input(input, seed, first * (n / input->dim[0]), n, arena + input->offset);
}

bool inputs_read(const InputSource *in, const NncFunction *f, int64_t first, char *arena) {
  const Safetensors *s = in->file;
  for (int i = 0; i < f->n_args; i++) {
    const NncTensor *input = &f->args[i];
    if (input->role != NNC_INPUT || input == in->written) continue;
    const SafetensorsEntry *e = inputs_find(s, input);
    NncDtype dtype = NNC_F32;
    if (!e) {
      if (!draw_rows(input, in->seed, first, arena)) return false;
      continue;
    }
    if (input->csr) {
      if (!read_rows(s, e, input, arena)) return false;
      continue;
    }
    safetensors_dtype(e->dtype, &dtype);
    int64_t records = input->whole ? 1 : e->dim[0], batch = input->whole ? 1 : input->dim[0];
    int64_t from_bytes = e->bytes / records, to_bytes = input->bytes / batch, n = to_bytes / dtype_bytes(input->dtype);
    char *record = xmalloc((size_t)from_bytes);
    bool ok = true;
    for (int64_t r = 0; r < batch && ok; r++) {
      int64_t row = in->alike ? first : first + r, at = row < records ? row : records - 1;
      ok = safetensors_read(s, e, at * from_bytes, from_bytes, record);
      ok = ok && check_limit(s, input, dtype, record, n, at);
      if (ok) stage_record(input, dtype, record, arena + input->offset + r * to_bytes, n);
    }
    free(record);
    if (!ok) return false;
  }
  return true;
}

// Labels and indices stay below their limit; other integers but bytes are 0.
void inputs_make(const NncFunction *f, uint64_t seed, char *arena) {
  for (int i = 0; i < f->n_args; i++) {
    const NncTensor *input = &f->args[i];
    if (input->role != NNC_INPUT) continue;
    int64_t n = tensor_elements(input), element = dtype_bytes(input->dtype), limit = input->limit ? input->limit : 256;
    if (input->dtype == NNC_U8 && limit > 256) limit = 256;
    if (input->dtype != NNC_U8 && !input->limit) limit = 1;
    bool is_float = dtype_is_float(input->dtype);
    uint64_t stream = philox_stream(input->name);
    for (int64_t k = 0; k < n; k++) {
      double v = philox_uniform(seed, stream, (uint64_t)k);
      if (!is_float) v = (double)(int64_t)(v * (double)limit);
      convert_elements(NNC_F64, &v, input->dtype, arena + input->offset + k * element, 1);
    }
  }
}
