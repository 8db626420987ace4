// offsets_io.c: buffers as MiniMalloc's CSV, `id,lower,upper,size[,offset]` or `buffer,start,end,size`.
#include <stdlib.h>
#include <string.h>

#include "solver.h"
#include "support/alloc.h"
#include "support/input_error.h"

enum { COLUMN_ID, COLUMN_LOWER, COLUMN_UPPER, COLUMN_SIZE, COLUMN_OFFSET, N_COLUMNS, MAX_FIELDS = 32 };

static const char *const column_names[N_COLUMNS] = {"id", "lower", "upper", "size", "offset"};
// As in the benchmarks that come with MiniMalloc.
static const char *const other_names[N_COLUMNS] = {"buffer", "start", "end", "size", "offset"};

static bool is_name(const char *name, const char *field, size_t length) {
  return strlen(name) == length && memcmp(name, field, length) == 0;
}

typedef struct Line {
  const char *text;
  size_t length;
  int number;
} Line;

static bool next_line(const char *text, size_t length, size_t *at, Line *line) {
  if (*at >= length) return false;
  const char *start = text + *at, *newline = memchr(start, '\n', length - *at);
  size_t taken = newline ? (size_t)(newline - start) : length - *at;
  *at += taken + 1;
  *line = (Line){start, taken > 0 && start[taken - 1] == '\r' ? taken - 1 : taken, line->number + 1};
  return true;
}

// Splits off the field at *at. False at the end of the line.
static bool next_field(const Line *line, size_t *at, const char **field, size_t *field_length) {
  if (*at > line->length) return false;
  size_t end = *at;
  while (end < line->length && line->text[end] != ',') end++;
  *field = line->text + *at;
  *field_length = end - *at;
  *at = end + 1;
  while (*field_length && **field == ' ') ++*field, --*field_length;
  while (*field_length && (*field)[*field_length - 1] == ' ') --*field_length;
  return true;
}

static bool read_integer(const Line *line, const char *field, size_t length, int64_t *value, InputError *error) {
  int column = (int)(field - line->text) + 1;
  bool negative = length > 0 && field[0] == '-';
  uint64_t magnitude = 0;
  if (length == (size_t)negative) return input_fail_at(error, line->number, column, "expected an integer");
  for (size_t i = negative; i < length; i++) {
    if (field[i] < '0' || field[i] > '9') return input_fail_at(error, line->number, column, "expected an integer");
    uint64_t digit = (uint64_t)(field[i] - '0');
    if (magnitude > ((uint64_t)INT64_MAX - digit) / 10)
      return input_fail_at(error, line->number, column, "integer too large");
    magnitude = magnitude * 10 + digit;
  }
  *value = negative ? -(int64_t)magnitude : (int64_t)magnitude;
  return true;
}

// Reads the header: which column each field is, or -1 for one that is not ours.
static bool read_header(const Line *line, int *columns, int *n_columns, InputError *error) {
  bool seen[N_COLUMNS] = {false};
  const char *field;
  size_t length, at = 0;
  for (*n_columns = 0; next_field(line, &at, &field, &length); ++*n_columns) {
    int column = (int)(field - line->text) + 1;
    if (*n_columns == MAX_FIELDS) return input_fail_at(error, line->number, column, "too many columns");
    columns[*n_columns] = -1;
    for (int c = 0; c < N_COLUMNS; c++) {
      if (!is_name(column_names[c], field, length) && !is_name(other_names[c], field, length)) continue;
      if (seen[c]) return input_fail_at(error, line->number, column, "column '%s' repeats", column_names[c]);
      seen[c] = true;
      columns[*n_columns] = c;
    }
  }
  for (int c = 0; c < COLUMN_OFFSET; c++)
    if (!seen[c])
      return input_fail_at(error, line->number, 1, "the header lacks '%s': expected id,lower,upper,size",
                           column_names[c]);
  return true;
}

static bool read_buffer(const Line *line, const int *columns, int n_columns, OffsetBuffer *buffer, InputError *error) {
  int64_t values[N_COLUMNS] = {0};
  const char *field;
  size_t length, at = 0;
  int count = 0;
  for (; next_field(line, &at, &field, &length); count++) {
    if (count == n_columns)
      return input_fail_at(error, line->number, (int)(field - line->text) + 1, "more fields than the header has");
    if (columns[count] >= 0 && !read_integer(line, field, length, &values[columns[count]], error)) return false;
  }
  if (count < n_columns) return input_fail_at(error, line->number, (int)line->length + 1, "a field is missing");
  if (values[COLUMN_UPPER] < values[COLUMN_LOWER])
    return input_fail_at(error, line->number, 1, "upper is before lower");
  if (values[COLUMN_SIZE] < 0) return input_fail_at(error, line->number, 1, "negative size");
  *buffer = (OffsetBuffer){values[COLUMN_ID],    values[COLUMN_LOWER], values[COLUMN_UPPER], values[COLUMN_SIZE], 1,
                           values[COLUMN_OFFSET]};
  return true;
}

OffsetBuffer *offsets_read_csv(const char *text, size_t length, int *n, InputError *error) {
  int columns[MAX_FIELDS], n_columns = 0, capacity = 64;
  size_t at = 0;
  Line line = {0};
  *n = 0;
  if (!next_line(text, length, &at, &line)) {
    input_fail_at(error, 1, 1, "empty: expected the header id,lower,upper,size");
    return NULL;
  }
  if (!read_header(&line, columns, &n_columns, error)) return NULL;
  OffsetBuffer *buffers = allocate_array((size_t)capacity, sizeof *buffers);
  while (next_line(text, length, &at, &line)) {
    if (line.length == 0) continue;
    if (*n == capacity) {
      capacity *= 2;
      buffers = reallocate_array(buffers, (size_t)capacity, sizeof *buffers);
    }
    if (!read_buffer(&line, columns, n_columns, &buffers[*n], error)) {
      free(buffers);
      return NULL;
    }
    ++*n;
  }
  return buffers;
}

void offsets_write_csv(FILE *file, const OffsetBuffer *buffers, int n) {
  fputs("id,lower,upper,size,offset\n", file);
  for (int i = 0; i < n; i++)
    fprintf(file, "%lld,%lld,%lld,%lld,%lld\n", (long long)buffers[i].id, (long long)buffers[i].lower,
            (long long)buffers[i].upper, (long long)buffers[i].size, (long long)buffers[i].offset);
}
