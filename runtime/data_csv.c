// Columns of a CSV file (RFC 4180) by the names in its first line: numbers, or categories of any text, which become
// numbers below `hash` by XXH3. The text is read through a window, as long as the longest cell and some more, whether
// its numbers are held in memory or are read record by record, from an index of where every eighth record begins.
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/checksum.h"
#include "runtime/runtime.h"

// Records from one entry of the index to the next; bytes of the window besides the longest cell, and of that.
enum { BLOCK_RECORDS = 8, WINDOW_BYTES = 8 << 10, MAX_CELL_BYTES = 16 << 20 };

typedef struct Csv {
  const char *path;
  DataFile *file;   // Borrowed; read from its front; NULL: bytes of fd
  int fd;
  int64_t begin, next;          // of the file: where reading began, and the byte behind the window's
  char *window;                 // with a byte more than its capacity
  int64_t capacity, most;       // of the window; that it may grow to
  char *at, *end;               // of the text that is still to be read
  bool failed;                  // that has been reported
  int64_t line, cell_line;      // from 1 where reading began: of `at`, and where the last cell began
  int64_t longest;              // of the cells so far
  int64_t blanks, blank_line;   // empty lines of a single column since the last other one, and the first of them
  char separator;
} Csv;

// What of each record becomes a record of a column.
typedef struct Wanted {
  DataSource source;   // without its path
  NncDtype dtype;
  int *fields;   // Owned; of each cell of a line the place in the record; -1: it is not in it
  int n;         // cells of a line
} Wanted;

// ---------------------------------------------------------------------------------------------------------------------
// The text

static int64_t read_text(const Csv *c, char *to, int64_t bytes) {
  if (c->file) return data_file_read_some(c->file, to, bytes);
  ssize_t n;
  while ((n = pread(c->fd, to, (size_t)bytes, c->next)) < 0 && errno == EINTR) continue;
  if (n < 0) report_error("cannot read %s: %s", c->path, strerror(errno));
  return n;
}

// The line in the file. Where reading began in the middle, those before are counted: only a message needs it.
static long long file_line(const Csv *c, int64_t line) {
  char buffer[4096];
  ssize_t n = 1;
  for (int64_t at = 0; at < c->begin && n > 0; at += n) {
    int64_t left = c->begin - at;
    n = pread(c->fd, buffer, (size_t)(left < (int64_t)sizeof buffer ? left : (int64_t)sizeof buffer), at);
    for (ssize_t i = 0; i < n; i++) line += buffer[i] == '\n';
  }
  return line;
}

static bool grow(Csv *c) {
  if (c->capacity >= c->most) {
    char most[32];
    c->failed = true;
    report_error("%s:%lld: a cell of more than %s: is a quotation mark before it not closed?", c->path,
                 file_line(c, c->cell_line), print_bytes(c->most, most, sizeof most));
    return false;
  }
  c->capacity = 2 * c->capacity < c->most ? 2 * c->capacity : c->most;
  c->window = xrealloc(c->window, (size_t)c->capacity + 1);
  return true;
}

// More text, behind what there is of the cell [*cell, *to). False at the end, or where it failed.
static bool more(Csv *c, char **cell, char **to) {
  int64_t done = *to - *cell, left = c->end - c->at;
  if (c->failed) return false;
  memmove(c->window, *cell, (size_t)done);
  memmove(c->window + done, c->at, (size_t)left);
  if (done + left == c->capacity && !grow(c)) left = 0;   // what is left does not matter any more
  *cell = c->window;
  *to = c->at = c->window + done;
  c->end = c->at + left;
  if (c->failed) return false;
  int64_t n = read_text(c, c->end, c->capacity - done - left);
  if (n < 0) c->failed = true;
  if (n <= 0) return false;
  c->next += n;
  c->end += n;
  return true;
}

static inline bool has(Csv *c, int64_t n, char **cell, char **to) {
  while (c->end - c->at < n)
    if (!more(c, cell, to)) return false;
  return true;
}

// At the start of a line: so many characters are there.
static bool has_more(Csv *c, int64_t n) {
  char *cell = c->at, *to = cell;
  return has(c, n, &cell, &to);
}

static int64_t place(const Csv *c) { return c->next - (c->end - c->at); }

// ---------------------------------------------------------------------------------------------------------------------
// Cells

// What stands in quotation marks; their line ends are the text's.
static bool take_quoted(Csv *c, char **cell, char **to) {
  for (c->at++; has(c, 1, cell, to); *(*to)++ = *c->at++) {
    if (*c->at == '"' && (!has(c, 2, cell, to) || c->at[1] != '"')) break;
    if (*c->at == '"') c->at++;
    if (*c->at == '\n') c->line++;
  }
  if (c->failed) return false;
  if (c->at == c->end) {
    report_error("%s:%lld: a quotation mark that is not closed", c->path, file_line(c, c->cell_line));
    return false;
  }
  c->at++;
  if (!has(c, 1, cell, to) || *c->at == c->separator || *c->at == '\n' || *c->at == '\r') return true;
  report_error("%s:%lld: text after a closing quotation mark", c->path, file_line(c, c->line));
  return false;
}

// Takes one cell, without its quotes, and ends it with a 0 in the text; *last: it ends its line. NULL after reporting.
static char *take_cell(Csv *c, int64_t *length, bool *last) {
  char *cell = c->at, *to = cell;
  c->cell_line = c->line;
  if (has(c, 1, &cell, &to) && *c->at == '"' && !take_quoted(c, &cell, &to)) return NULL;
  while (has(c, 1, &cell, &to) && *c->at != c->separator && *c->at != '\n') *to++ = *c->at++;
  if (c->failed) return NULL;
  *last = c->at == c->end || *c->at == '\n';
  if (to - cell > c->longest) c->longest = to - cell;
  if (*last && to > cell && to[-1] == '\r') to--;
  *to = 0;
  *length = to - cell;
  if (c->at < c->end) c->at++;
  return cell;
}

static bool check_wanted(const Csv *c, const Wanted *w, char *const *names) {
  for (int i = 0; i < w->source.n_columns; i++) {
    const char *name = w->source.columns[i];
    int times = 0;
    for (int k = 0; k < w->n; k++) times += w->fields[k] == i;
    if (times == 1) continue;
    if (times) report_error("%s has more than one column %s in its first line", c->path, name);
    else report_absent(c->path, "column", name, " in its first line", w->n, (const char *const *)names);
    return false;
  }
  return true;
}

// The places of the wanted columns in the first line.
static bool read_header(Csv *c, Wanted *w) {
  const DataSource *s = &w->source;
  char **names = NULL;
  bool last = !has_more(c, 1), ok = !last;
  if (last && !c->failed) report_error("%s is empty: expected a line with the names of the columns", c->path);
  if (has_more(c, 3) && memcmp(c->at, "\xef\xbb\xbf", 3) == 0) c->at += 3;   // a byte order mark of UTF-8
  while (ok && !last) {
    int64_t length;
    char *name = take_cell(c, &length, &last);
    ok = name != NULL;
    if (!ok) break;
    w->fields = xrealloc(w->fields, sizeof *w->fields * (size_t)(w->n + 1));
    names = xrealloc(names, sizeof *names * (size_t)(w->n + 1));
    names[w->n] = xstrdup(name);
    w->fields[w->n] = -1;
    for (int i = 0; i < s->n_columns; i++)
      if (strcmp(s->columns[i], name) == 0) w->fields[w->n] = i;
    w->n++;
  }
  ok = ok && check_wanted(c, w, names);
  for (int i = 0; i < w->n; i++) free(names[i]);
  free(names);
  c->line++;
  return ok;
}

static bool is_inside(const Csv *c, const DataSource *s, int field, int64_t value) {
  char bounds[96];
  int64_t outside;
  if (!s->input || s->input->limit <= 0 || tensor_find_outside(s->input, NNC_I64, &value, 1, &outside) < 0) return true;
  report_error("%s:%lld: column %s: %lld is outside of %s", c->path, file_line(c, c->cell_line), s->columns[field],
               (long long)value, tensor_bounds_text(s->input, bounds, sizeof bounds));
  return false;
}

static bool put_number(const Csv *c, const Wanted *w, int field, const char *cell, int64_t length, char *to) {
  const DataSource *s = &w->source;
  char *end = (char *)cell;
  bool finite = true;
  int64_t value = 0;
  errno = 0;
  if (s->hash) {
    value = (int64_t)(checksum_of(cell, (size_t)length) % (uint64_t)s->hash);
    memcpy(to, &value, sizeof value);
    return is_inside(c, s, field, value);
  }
  if (w->dtype == NNC_I64) {
    value = strtoll(cell, &end, 10);
    memcpy(to, &value, sizeof value);
    if (s->input && s->input->dtype == NNC_I32 && (value < INT32_MIN || value > INT32_MAX)) errno = ERANGE;
  } else {
    double v = strtod(cell, &end);
    float f = (float)v;
    memcpy(to, w->dtype == NNC_F64 ? (void *)&v : &f, (size_t)dtype_bytes(w->dtype));
    finite = isfinite(w->dtype == NNC_F64 ? v : (double)f);
    if (strpbrk(cell, "xX")) end = (char *)cell;   // strtod reads hexadecimal, too
    errno = 0;                                     // too small: as near as there is
  }
  while (*end == ' ') end++;
  if (length > 0 && end > cell && end == cell + length && finite && !errno)
    return w->dtype != NNC_I64 || is_inside(c, s, field, value);
  errno = 0;   // the file was read
  report_error("%s:%lld: column %s: expected %s, found '%.40s'", c->path, file_line(c, c->cell_line), s->columns[field],
               w->dtype == NNC_I64 ? "an integer that the input can hold"
               : finite            ? "a number"
                                   : "a finite number",
               cell);
  return false;
}

// ---------------------------------------------------------------------------------------------------------------------
// Records

static bool read_cells(Csv *c, const Wanted *w, char *to) {
  bool last = false;
  int k = 0;
  int64_t line = c->line, length, element = dtype_bytes(w->dtype);
  for (; !last; k++) {
    char *cell = take_cell(c, &length, &last);
    if (!cell) return false;
    if (to && k < w->n && w->fields[k] >= 0 &&
        !put_number(c, w, w->fields[k], cell, length, to + element * w->fields[k]))
      return false;
  }
  c->line++;
  if (k == w->n) return true;
  report_error("%s:%lld: %d cells, the first line has %d", c->path, file_line(c, line), k, w->n);
  return false;
}

// Empty lines are no records, but of a single column they are records without their number, unless they end the file.
static bool is_blank(Csv *c) {
  return has_more(c, 1) && (*c->at == '\n' || (*c->at == '\r' && has_more(c, 2) && c->at[1] == '\n'));
}

static bool refuse_blank(Csv *c, const Wanted *w) {
  char none[8];
  c->cell_line = c->blank_line;
  return put_number(c, w, w->fields[0], "", 0, none);
}

// The next record; to NULL: it is passed by. Of a single column an empty line is one, but those that nothing else
// follows, which c->blanks counts, are none. 1: there is one; 0: the text is at its end; -1 after reporting.
static int next_record(Csv *c, const Wanted *w, char *to) {
  while (w->n > 1 && is_blank(c)) c->at += 1 + (*c->at == '\r'), c->line++;
  bool blank = w->n == 1 && is_blank(c);
  if (!has_more(c, 1)) return c->failed ? -1 : 0;
  if (blank && c->blanks++ == 0) c->blank_line = c->line;
  if (!blank && c->blanks > 0 && !w->source.hash && !refuse_blank(c, w)) return -1;
  if (!blank) c->blanks = 0;
  return read_cells(c, w, blank && !w->source.hash ? NULL : to) ? 1 : -1;
}

static bool read_records(Csv *c, const Wanted *w, Column *out) {
  int64_t capacity = 0;
  int got;
  for (;; out->records++) {
    if (out->records == capacity) {
      capacity += capacity / 2 + 1024;
      out->block = xrealloc(out->block, (size_t)(capacity * out->record_bytes));
    }
    if ((got = next_record(c, w, (char *)out->block + out->records * out->record_bytes)) != 1) break;
  }
  out->records -= c->blanks;
  return got == 0;
}

static bool open_text(Csv *c, const DataSource *s, DataFile *file, int fd) {
  *c = (Csv){.path = s->path, .file = file, .fd = fd, .line = 1, .separator = s->separator};
  c->capacity = WINDOW_BYTES, c->most = MAX_CELL_BYTES;
  c->at = c->end = c->window = xmalloc(WINDOW_BYTES + 1);
  return file || fd >= 0;
}

static bool read_into_memory(const DataSource *s, Wanted *w, Column *out) {
  Csv c;
  int64_t begin, end;
  DataFile *file = data_file_open(s->path);
  bool ok = open_text(&c, s, file, -1) && read_header(&c, w) && read_records(&c, w, out);
  data_file_close(file);
  free(c.window);
  if (!ok) return false;
  data_range(s, out->records, &begin, &end);
  out->values = out->block;
  out->first_record = begin;
  data_take(out, begin * out->record_bytes, end - begin);
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Record by record

typedef struct Index {   // of a file; the columns that are read from it share it
  int users, fd;         // fd: Owned
  int64_t records, longest, capacity;
  int64_t *at;   // Owned; where every record lies whose number is a multiple of BLOCK_RECORDS
} Index;

typedef struct Store {
  DataStore store;
  Index *index;    // Shared
  Wanted wanted;   // Owned
  int64_t first;   // record of the file that the column begins with
} Store;

static void leave_index(Index *x) {
  if (--x->users > 0) return;
  if (x->fd >= 0) close(x->fd);
  free(x->at);
  free(x);
}

static void close_store(DataStore *s) {
  Store *f = (Store *)s;
  leave_index(f->index);
  free(f->wanted.fields);
  free(f);
}

static bool build_index(Index *x, Csv *c, const Wanted *w) {
  int got = 1;
  for (int64_t at; at = place(c), (got = next_record(c, w, NULL)) == 1; x->records++) {
    if (x->records % BLOCK_RECORDS) continue;
    int64_t n = x->records / BLOCK_RECORDS;
    if (n == x->capacity) x->at = xrealloc(x->at, sizeof *x->at * (size_t)(x->capacity += x->capacity / 2 + 512));
    x->at[n] = at;
  }
  x->records -= c->blanks;
  x->longest = c->longest;
  return got == 0;
}

// That of the line's first column; NULL: this is the first.
static Index *shared_index(const DataSource *s) {
  for (int i = 0; s->line && i < s->line->n_pieces; i++)
    if (strcmp(s->line->pieces[i].path, s->path) == 0) return ((Store *)s->line->pieces[i].store)->index;
  return NULL;
}

static bool fetch_record(const Column *c, int64_t record, void *room, char *to) {
  int64_t in_piece;
  const DataPiece *p = data_piece(c, record, &in_piece);
  const Store *f = (const Store *)p->store;
  const Index *x = f->index;
  int64_t r = f->first + in_piece / c->record_bytes, at = x->at[r / BLOCK_RECORDS];
  Csv text =
      {.path = p->path, .fd = x->fd, .line = 1, .begin = at, .next = at, .separator = f->wanted.source.separator};
  text.window = text.at = text.end = room;
  text.capacity = text.most = x->longest + WINDOW_BYTES;
  int got = 1;
  for (int64_t k = r % BLOCK_RECORDS; k >= 0 && got == 1; k--) got = next_record(&text, &f->wanted, k ? NULL : to);
  if (got == 1 && text.blanks && !f->wanted.source.hash && !refuse_blank(&text, &f->wanted)) return false;
  if (got == 0)
    report_error("%s: record %lld is not there any more: the file has become shorter", p->path, (long long)r);
  return got == 1;
}

static bool keep_in_file(const DataSource *s, Wanted *w, Column *out) {
  int64_t begin, end, bytes;
  if (!data_file_is_plain(s->path, &bytes)) return false;
  Index *x = shared_index(s), *made = NULL;
  if (!x) {
    x = made = xcalloc(1, sizeof *x);
    x->fd = open_to_read(s->path);
  }
  Csv c;
  x->users++;
  bool ok = open_text(&c, s, NULL, x->fd) && read_header(&c, w) && (!made || build_index(x, &c, w));
  free(c.window);
  if (!ok) {
    leave_index(x);
    return false;
  }
  data_range(s, x->records, &begin, &end);
  Store *f = xcalloc(1, sizeof *f);
  *f = (Store){.store = {.close = close_store, .bytes = made ? (int64_t)sizeof *x->at * x->capacity : 0},
               .index = x,
               .wanted = *w,
               .first = begin};
  *w = (Wanted){0};
  out->store = &f->store;
  out->fetch = fetch_record;
  out->room_bytes = x->longest + WINDOW_BYTES + 1;
  out->records = end - begin;
  out->first_record = begin;
  return true;
}

bool data_read_csv(const DataSource *s, Column *out) {
  bool is_float = !s->input || dtype_is_float(s->input->dtype);
  *out = (Column){.path = xstrdup(s->path),
                  .dtype = s->hash || !is_float                     ? NNC_I64
                           : s->input && s->input->dtype == NNC_F64 ? NNC_F64
                                                                    : NNC_F32,
                  .rank = s->n_columns > 1,
                  .dim = {s->n_columns},
                  .first_byte = -1};
  out->record_bytes = dtype_bytes(out->dtype) * s->n_columns;
  Wanted w = {.source = *s, .dtype = out->dtype};
  w.source.path = NULL, w.source.line = NULL;
  bool ok = (s->in_place ? keep_in_file : read_into_memory)(s, &w, out);
  free(w.fields);
  return ok;
}
