// A graph in compressed sparse rows (CSR): edge k leads to the row i with start[i] <= k < start[i+1]. Programs see
// edges as two lists of node numbers, so the starts are written out as the row of each edge when they are read.
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

static int64_t start_at(NncDtype t, const void *starts, int64_t i) {
  int64_t v;
  convert_elements(t, (const char *)starts + i * dtype_bytes(t), NNC_I64, &v, 1);
  return v;
}

static bool csr_expand(const SafetensorsEntry *e, const char *path, const NncTensor *input, NncDtype dtype,
                       const void *starts, int32_t *rows) {
  int64_t n = e->dim[0], edges = tensor_elements(input), element = dtype_bytes(dtype), from = 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t v = start_at(dtype, starts, i);
    const char *fault = i == 0 && v != 0 ? "the first row starts at edge"
                        : v < from       ? "a row starts before the one above, at edge"
                        : v > edges      ? "a row starts after the last edge, at"
                                         : NULL;
    if (fault) {
      report_error("%s: tensor %s, row %lld (byte %lld): %s %lld of %lld", path, e->name, (long long)i,
                   (long long)(e->offset + i * element), fault, (long long)v, (long long)edges);
      return false;
    }
    for (int64_t k = from; k < v; k++) rows[k] = (int32_t)(i - 1);
    from = v;
  }
  if (from == edges) return true;
  report_error("%s: tensor %s ends at edge %lld, input %s has %lld", path, e->name, (long long)from, input->name,
               (long long)edges);
  return false;
}

static bool csr_check(const SafetensorsEntry *e, const char *path, const NncTensor *input, NncDtype *dtype) {
  char shape[128];
  if (e->rank != 1 || !safetensors_dtype(e->dtype, dtype) || (*dtype != NNC_I32 && *dtype != NNC_I64)) {
    report_error("%s: tensor %s is %s%s; row starts are one row of I32 or I64", path, e->name, e->dtype,
                 format_shape(e->rank, e->dim, shape, sizeof shape));
    return false;
  }
  if (e->dim[0] >= 2 && (input->limit <= 0 || e->dim[0] == input->limit + 1) && e->dim[0] <= INT32_MAX) return true;
  if (input->limit > 0)
    report_error("%s: tensor %s has %lld row starts, expected %lld, one more than nodes", path, e->name,
                 (long long)e->dim[0], (long long)(input->limit + 1));
  else report_error("%s: tensor %s has %lld row starts", path, e->name, (long long)e->dim[0]);
  return false;
}

bool csr_read(const Safetensors *s, const SafetensorsEntry *e, const NncTensor *input, int32_t *rows) {
  NncDtype dtype;
  if (!csr_check(e, s->path, input, &dtype)) return false;
  char *starts = xmalloc((size_t)e->bytes);
  bool ok = safetensors_read(s, e, 0, e->bytes, starts) && csr_expand(e, s->path, input, dtype, starts, rows);
  free(starts);
  return ok;
}
