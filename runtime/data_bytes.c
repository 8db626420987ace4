// Text as tokens: record r is tokens [r T, (r+1) T), its targets are the same tokens one further. Both columns share
// one block. Any file is a text of bytes, tokens 0 to 255.
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

bool data_cut_text(const DataSource *s, Column *tokens, Column *targets) {
  int64_t n = tokens->records, element = tokens->record_bytes;
  if (n < s->sequence + 1) {
    report_error("%s: %lld %s are fewer than one record of %lld tokens and its target", s->path, (long long)n,
                 element == 1 ? "bytes" : "tokens", (long long)s->sequence);
    return false;
  }
  tokens->rank = 1;
  tokens->dim[0] = s->sequence;
  tokens->records = (n - 1) / s->sequence;
  tokens->record_bytes = s->sequence * element;
  tokens->first_record = 0;
  if (!targets) return true;
  *targets = *tokens;
  targets->path = xstrdup(s->path);
  targets->first_byte += element;
  targets->values += element;
  targets->block = NULL;
  targets->block_bytes = 0;
  return true;
}

bool data_read_raw(const DataSource *s, NncDtype dtype, Column *c) {
  int64_t bytes = 0, element = dtype_bytes(dtype), begin, end;
  char *values = data_file_read_whole(s->path, &bytes);
  *c = (Column){.path = xstrdup(s->path), .dtype = dtype, .record_bytes = element, .values = values, .block = values};
  if (!values) return false;
  if (bytes % element) {
    report_error("%s: %lld bytes are no whole number of %lld-bit tokens", s->path, (long long)bytes,
                 (long long)(8 * element));
    return false;
  }
  data_range(s, bytes / element, &begin, &end);
  c->records = end - begin;
  c->first_byte = begin * element;
  c->block_bytes = c->records * element;
  if (begin > 0) memmove(values, values + c->first_byte, (size_t)c->block_bytes);
  c->values = c->block = xrealloc(values, (size_t)c->block_bytes + 1);
  return true;
}

bool data_read_bytes(const DataSource *s, Column *tokens, Column *targets) {
  if (targets) memset(targets, 0, sizeof *targets);
  return data_read_raw(s, NNC_U8, tokens) && data_cut_text(s, tokens, targets);
}
