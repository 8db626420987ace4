// Text that another program has cut into tokens: numbers in a row, in a file of raw 16-bit numbers (.bin), a NumPy
// array or a tensor of a safetensors file. Records and targets are cut from it as from bytes.
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

static bool has_suffix(const char *path, const char *suffix) {
  size_t n = strlen(path), m = strlen(suffix);
  return n >= m && strcmp(path + n - m, suffix) == 0;
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
                                                  : data_read_raw(s, NNC_U16, tokens);
  return ok && check_row(tokens) && data_cut_text(s, tokens, targets);
}
