// Text as tokens: record r is tokens [r T, (r+1) T), its targets are the same tokens one further. Both columns share
// one block. Any file is a text of bytes, tokens 0 to 255.
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

bool data_cut_text(int64_t sequence, Column *tokens, Column *targets) {
  int64_t n = tokens->records, element = tokens->record_bytes;
  if (n < sequence + 1) {
    report_error("%s: %lld %s are fewer than one record of %lld tokens and its target", tokens->path, (long long)n,
                 element == 1 ? "bytes" : "tokens", (long long)sequence);
    return false;
  }
  tokens->rank = 1;
  tokens->dim[0] = sequence;
  tokens->records = (n - 1) / sequence;
  tokens->record_bytes = sequence * element;
  tokens->first_record = 0;
  if (!targets) return true;
  *targets = *tokens;
  targets->path = xstrdup(tokens->path);
  targets->start += element;
  if (targets->values) targets->values += element;
  targets->borrows = true;
  targets->block_bytes = 0;
  return true;
}

bool data_read_bytes(const DataSource *s, Column *c) {
  int64_t bytes = 0, begin, end;
  if (s->in_place) {
    *c = (Column){.path = xstrdup(s->path), .dtype = NNC_U8, .record_bytes = 1};
    return data_raw_in_place(s, 0, c);
  }
  char *values = data_file_read_whole(s->path, &bytes);
  *c = (Column){.path = xstrdup(s->path), .dtype = NNC_U8, .record_bytes = 1, .values = values, .block = values};
  if (!values) return false;
  data_range(s, bytes, &begin, &end);
  c->first_byte = begin;
  data_take(c, begin, end - begin);
  return true;
}
