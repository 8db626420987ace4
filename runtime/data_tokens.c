// Text that another program has cut into tokens: numbers in a row, in a file of raw 16-bit numbers (.bin), a NumPy
// array or a tensor of a safetensors file. Records and targets are cut from it as from bytes.
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

static bool has_suffix(const char *path, const char *suffix) {
  size_t n = strlen(path), m = strlen(suffix);
  return n >= m && strcmp(path + n - m, suffix) == 0;
}

// Little-endian, as the machines that this runs on.
static bool read_raw(const DataSource *s, Column *c) {
  int64_t bytes = 0, begin, end;
  char *values = data_file_read_whole(s->path, &bytes);
  *c = (Column){.path = xstrdup(s->path), .dtype = NNC_U16, .record_bytes = 2, .values = values, .block = values};
  if (!values) return false;
  if (bytes % 2) {
    report_error("%s: %lld bytes are no whole number of 16-bit tokens", s->path, (long long)bytes);
    return false;
  }
  data_range(s, bytes / 2, &begin, &end);
  c->records = end - begin;
  c->first_byte = 2 * begin;
  c->block_bytes = 2 * c->records;
  if (begin > 0) memmove(values, values + 2 * begin, (size_t)c->block_bytes);
  c->values = c->block = xrealloc(values, (size_t)c->block_bytes + 1);
  return true;
}

// The tensor of that name; without one there must be no other.
static bool read_tensor(const DataSource *s, Column *c) {
  DataSource named = *s;
  Safetensors file;
  if (!safetensors_open(s->path, &file)) return false;
  bool ok = s->field || file.n_entries == 1;
  if (!ok)
    report_error("%s has %d tensors: the program must name that of the tokens, fields=[\"…\"]", s->path,
                 file.n_entries);
  char *field = ok && !s->field ? xstrdup(file.entries[0].name) : NULL;
  if (field) named.field = field;
  safetensors_close(&file);
  ok = ok && data_read_safetensors(&named, c);
  free(field);
  return ok;
}

static bool check_row(const Column *c) {
  char shape[128];
  if (c->rank != 0) {
    report_error("%s: tokens are one row of numbers, not records of shape %s", c->path,
                 format_shape(c->rank, c->dim, shape, sizeof shape));
    return false;
  }
  if (!dtype_is_float(c->dtype) && c->dtype != NNC_I1) return true;
  report_error("%s: tokens are integers, not %s", c->path, dtype_name(c->dtype));
  return false;
}

bool data_read_tokens(const DataSource *s, Column *tokens, Column *targets) {
  memset(tokens, 0, sizeof *tokens);
  if (targets) memset(targets, 0, sizeof *targets);
  bool ok = has_suffix(s->path, ".npy")           ? data_read_npy(s, tokens)
            : has_suffix(s->path, ".safetensors") ? read_tensor(s, tokens)
                                                  : read_raw(s, tokens);
  return ok && check_row(tokens) && data_cut_text(s, tokens, targets);
}
