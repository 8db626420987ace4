// Records from a tensor of a safetensors file; the first dimension counts records.
#include <string.h>

#include "runtime/runtime.h"

static bool read_field(const Safetensors *file, const DataSource *s, Column *c) {
  const SafetensorsEntry *e = safetensors_find(file, s->field);
  if (!e) {
    safetensors_report_missing(file, s->field, "");
    return false;
  }
  if (s->input && s->input->csr) {
    int64_t edges = tensor_elements(s->input);
    *c = (Column){.path = xstrdup(s->path),
                  .dtype = NNC_I32,
                  .rank = 1,
                  .dim = {edges},
                  .records = 1,
                  .record_bytes = 4 * edges,
                  .first_byte = e->offset,
                  .block_bytes = 4 * edges};
    c->values = c->block = xmalloc((size_t)c->block_bytes);
    return csr_read(file, e, s->input, c->block);
  }
  if (!safetensors_dtype(e->dtype, &c->dtype)) {
    report_error("%s: tensor %s is %s; supported are F32, F64, BF16, F16, I8, I16, I32, I64, U8, U16, U32, BOOL",
                 s->path, s->field, e->dtype);
    return false;
  }
  if (s->whole) {
    *c = (Column){.path = xstrdup(s->path),
                  .dtype = c->dtype,
                  .rank = e->rank,
                  .records = 1,
                  .record_bytes = e->bytes,
                  .first_byte = e->offset,
                  .block_bytes = e->bytes};
    memcpy(c->dim, e->dim, sizeof *e->dim * (size_t)e->rank);
    c->values = c->block = xmalloc((size_t)e->bytes);
    return safetensors_read(file, e, 0, e->bytes, c->values);
  }
  if (e->rank < 1 || e->dim[0] == 0) {
    report_error("%s: tensor %s holds no records", s->path, s->field);
    return false;
  }
  int64_t begin, end;
  data_range(s, e->dim[0], &begin, &end);
  c->path = xstrdup(s->path);
  c->rank = e->rank - 1;
  memcpy(c->dim, e->dim + 1, sizeof *e->dim * (size_t)c->rank);
  c->record_bytes = e->bytes / e->dim[0];
  c->records = end - begin;
  c->first_record = begin;
  c->first_byte = e->offset + begin * c->record_bytes;
  if (s->in_place) return true;
  c->block_bytes = c->records * c->record_bytes;
  c->values = c->block = xmalloc((size_t)c->block_bytes);
  return safetensors_read(file, e, begin * c->record_bytes, c->block_bytes, c->values);
}

bool data_read_safetensors(const DataSource *s, Column *c) {
  memset(c, 0, sizeof *c);
  Safetensors file;
  if (!safetensors_open(s->path, &file)) return false;
  bool ok = read_field(&file, s, c);
  safetensors_close(&file);
  return ok;
}
