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

bool data_read_bytes(const DataSource *s, Column *tokens, Column *targets) {
  memset(tokens, 0, sizeof *tokens);
  if (targets) memset(targets, 0, sizeof *targets);
  int64_t bytes = 0, begin, end;
  char *text = data_file_read_whole(s->path, &bytes);
  if (!text) return false;
  data_range(s, bytes, &begin, &end);
  if (begin > 0) memmove(text, text + begin, (size_t)(end - begin));
  text = xrealloc(text, (size_t)(end - begin) + 1);
  *tokens = (Column){.path = xstrdup(s->path),
                     .dtype = NNC_U8,
                     .records = end - begin,
                     .record_bytes = 1,
                     .first_byte = begin,
                     .values = text,
                     .block = text,
                     .block_bytes = end - begin};
  return data_cut_text(s, tokens, targets);
}
