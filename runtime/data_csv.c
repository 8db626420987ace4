// Columns of a CSV file (RFC 4180) by the names in its first line: numbers, or categories of any text, which become
// numbers below `hash` by XXH3.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/checksum.h"
#include "runtime/runtime.h"

typedef struct Csv {
  const char *path;
  char *at, *end;            // of the text that is still to be read
  int64_t line, cell_line;   // from 1: of `at`, and where the last cell began
  char separator;
} Csv;

// Takes one cell, without its quotes, and ends it with a 0 in the text; *last: it ends its line. NULL after reporting.
static char *take_cell(Csv *c, int64_t *length, bool *last) {
  char *cell = c->at, *to = cell;
  bool quoted = c->at < c->end && *c->at == '"';
  c->cell_line = c->line;
  if (quoted) {
    for (c->at++; c->at < c->end && !(*c->at == '"' && (c->at + 1 == c->end || c->at[1] != '"')); *to++ = *c->at++) {
      if (*c->at == '"') c->at++;
      if (*c->at == '\n') c->line++;
    }
    if (c->at++ == c->end) {
      report_error("%s:%lld: a quotation mark that is not closed", c->path, (long long)c->cell_line);
      return NULL;
    }
    if (c->at < c->end && *c->at != c->separator && *c->at != '\n' && *c->at != '\r') {
      report_error("%s:%lld: text after a closing quotation mark", c->path, (long long)c->line);
      return NULL;
    }
  }
  while (c->at < c->end && *c->at != c->separator && *c->at != '\n') *to++ = *c->at++;
  *last = c->at >= c->end || *c->at == '\n';
  if (*last && to > cell && to[-1] == '\r') to--;
  *to = 0;   // the text has a byte more than it holds
  *length = to - cell;
  if (c->at < c->end) c->at++;
  return cell;
}

// The places of the wanted fields in the first line: wanted[k] is that of cell k, or -1. *n: cells of a line.
static bool read_header(Csv *c, const DataSource *s, int **wanted, int *n) {
  bool last = c->at >= c->end, ok = !last;
  int found = 0;
  if (c->end - c->at >= 3 && memcmp(c->at, "\xef\xbb\xbf", 3) == 0) c->at += 3;   // a byte order mark of UTF-8
  if (last) report_error("%s is empty: expected a line with the names of the columns", c->path);
  for (*n = 0; ok && !last; ++*n) {
    int64_t length;
    char *name = take_cell(c, &length, &last);
    ok = name != NULL;
    *wanted = xrealloc(*wanted, sizeof **wanted * (size_t)(*n + 1));
    (*wanted)[*n] = -1;
    for (int i = 0; ok && i < s->n_columns; i++)
      if (strcmp(s->columns[i], name) == 0) (*wanted)[*n] = i, found++;
  }
  for (int i = 0; ok && i < s->n_columns; i++) {
    int times = 0;
    for (int k = 0; k < *n; k++) times += (*wanted)[k] == i;
    if (times == 1) continue;
    report_error("%s has %s column %s in its first line", c->path, times ? "more than one" : "no", s->columns[i]);
    ok = false;
  }
  return ok;
}

static bool put_number(const Csv *c, const DataSource *s, int field, const char *cell, int64_t length, Column *out,
                       char *to) {
  char *end = (char *)cell;
  bool finite = true;
  errno = 0;
  if (s->hash) {
    int64_t bucket = (int64_t)(checksum_of(cell, (size_t)length) % (uint64_t)s->hash);
    memcpy(to, &bucket, sizeof bucket);
    return true;
  }
  if (out->dtype == NNC_I64) {
    long long v = strtoll(cell, &end, 10);
    memcpy(to, &v, sizeof v);
    if (s->input && s->input->dtype == NNC_I32 && (v < INT32_MIN || v > INT32_MAX)) errno = ERANGE;
  } else {
    double v = strtod(cell, &end);
    float f = (float)v;
    memcpy(to, out->dtype == NNC_F64 ? (void *)&v : &f, (size_t)dtype_bytes(out->dtype));
    finite = isfinite(out->dtype == NNC_F64 ? v : (double)f);
    if (strpbrk(cell, "xX")) end = (char *)cell;   // strtod reads hexadecimal, too
    errno = 0;                                     // too small: as near as there is
  }
  while (*end == ' ') end++;
  if (length > 0 && end > cell && end == cell + length && finite && !errno) return true;
  report_error("%s:%lld: column %s: expected %s, found '%.40s'", c->path, (long long)c->cell_line, s->columns[field],
               out->dtype == NNC_I64 ? "an integer that the input can hold"
               : finite              ? "a number"
                                     : "a finite number",
               cell);
  return false;
}

static bool read_record(Csv *c, const DataSource *s, const int *wanted, int n, Column *out, char *to) {
  bool last = false;
  int k = 0;
  int64_t line = c->line, length, element = dtype_bytes(out->dtype);
  for (; !last; k++) {
    char *cell = take_cell(c, &length, &last);
    if (!cell) return false;
    if (k < n && wanted[k] >= 0 && !put_number(c, s, wanted[k], cell, length, out, to + element * wanted[k]))
      return false;
  }
  if (k == n) return true;
  report_error("%s:%lld: %d cells, the first line has %d", c->path, (long long)line, k, n);
  return false;
}

// Empty lines are no records, but of a single column they are records without their number, unless they end the file.
static bool read_records(Csv *c, const DataSource *s, const int *wanted, int n, Column *out) {
  int64_t capacity = 0;
  while (n == 1 && c->end > c->at && (c->end[-1] == '\n' || c->end[-1] == '\r')) c->end--;
  for (c->line++; c->at < c->end; c->line++) {
    if (n > 1 && (*c->at == '\n' || (*c->at == '\r' && c->at + 1 < c->end && c->at[1] == '\n'))) {
      c->at += 1 + (*c->at == '\r');
      continue;
    }
    if (out->records == capacity) {
      capacity = capacity ? capacity + capacity / 2 : 1024;
      out->block = xrealloc(out->block, (size_t)(capacity * out->record_bytes));
    }
    if (!read_record(c, s, wanted, n, out, (char *)out->block + out->records * out->record_bytes)) return false;
    out->records++;
  }
  return true;
}

bool data_read_csv(const DataSource *s, Column *out) {
  int64_t bytes = 0, begin, end;
  bool is_float = !s->input || dtype_is_float(s->input->dtype);
  *out = (Column){.path = xstrdup(s->path),
                  .dtype = s->hash || !is_float                     ? NNC_I64
                           : s->input && s->input->dtype == NNC_F64 ? NNC_F64
                                                                    : NNC_F32,
                  .rank = s->n_columns > 1,
                  .dim = {s->n_columns}};
  out->record_bytes = dtype_bytes(out->dtype) * s->n_columns;
  char *text = data_file_read_whole(s->path, &bytes);
  if (!text) return false;
  text = xrealloc(text, (size_t)bytes + 1);
  text[bytes] = 0;
  Csv c = {.path = s->path, .at = text, .end = text + bytes, .line = 1, .separator = s->separator};
  int *wanted = NULL, n = 0;
  bool ok = read_header(&c, s, &wanted, &n) && read_records(&c, s, wanted, n, out);
  free(wanted);
  free(text);
  if (!ok) return false;
  data_range(s, out->records, &begin, &end);
  out->values = out->block;
  out->first_record = begin;
  if (out->records) data_take(out, begin * out->record_bytes, (end - begin) * out->record_bytes);
  out->first_byte = -1;
  return true;
}
