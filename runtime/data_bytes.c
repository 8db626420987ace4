// Any file as tokens 0..255: record r is bytes [r T, (r+1) T), its targets are the same bytes one further. Both columns share one block.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/runtime.h"

// The whole file, plain or gzip, grown as it is read since a gzip file does not tell its size.
static char *read_whole(const char *path, int64_t *bytes) {
  struct stat st;
  DataFile *f = data_file_open(path);
  if (!f) return NULL;
  size_t capacity = stat(path, &st) == 0 && st.st_size > 0 ? (size_t)st.st_size : 1 << 16, n = 0;
  char *text = xmalloc(capacity);
  int64_t got;
  while ((got = data_file_read_some(f, text + n, (int64_t)(capacity - n))) > 0) {
    n += (size_t)got;
    if (n < capacity) continue;
    if (data_file_at_end(f)) break;
    capacity += capacity / 4 + (1 << 16);
    text = xrealloc(text, capacity);
  }
  data_file_close(f);
  if (got < 0) {
    free(text);
    return NULL;
  }
  *bytes = (int64_t)n;
  return text;
}

bool data_read_bytes(const DataSource *s, Column *tokens, Column *targets) {
  memset(tokens, 0, sizeof *tokens);
  if (targets) memset(targets, 0, sizeof *targets);
  int64_t bytes = 0, begin, end;
  char *text = read_whole(s->path, &bytes);
  if (!text) return false;
  data_range(s, bytes, &begin, &end);
  if (begin > 0) memmove(text, text + begin, (size_t)(end - begin));
  text = xrealloc(text, (size_t)(end - begin) + 1);
  *tokens = (Column){.path = xstrdup(s->path), .dtype = NNC_U8, .rank = 1, .dim = {s->sequence}, .records = (end - begin - 1) / s->sequence,
                     .record_bytes = s->sequence, .first_record = 0, .first_byte = begin, .values = text, .block = text, .block_bytes = end - begin};
  if (end - begin < s->sequence + 1) {
    report_error("%s: %lld bytes are fewer than one record of %lld tokens and its target", s->path, (long long)(end - begin), (long long)s->sequence);
    return false;
  }
  if (targets) {
    *targets = *tokens;
    targets->path = xstrdup(s->path);
    targets->first_byte++;
    targets->values = text + 1;
    targets->block = NULL;
    targets->block_bytes = 0;
  }
  return true;
}
