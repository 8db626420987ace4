// Text that another program has cut into tokens: numbers in a row, in a file of raw numbers (.bin), of 16 bits where
// the program does not say otherwise, with llm.c's header or without one; a NumPy array, alone or in an archive, or a
// tensor of a safetensors file. Records and targets are cut from it as from bytes.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static bool read_member(const DataSource *s, Column *c) {
  if (s->field) return data_read_npz(s, c);
  report_error("%s: the program must name the array of the tokens, fields=[\"…\"]", s->path);
  return false;
}

// Files of other kinds would be read as numbers that they do not hold.
static bool is_raw(const char *path, const char *head, int64_t bytes) {
  static const struct {
    const char *magic;
    int n;
    const char *what;
  } kinds[] = {{"\x89HDF\r\n\x1a\n", 8, "an HDF5 file: save its dataset as a .npy file"},
               {"PK\3\4", 4, "a zip archive: arrays are read out of files named .npz"},
               {"\x93NUMPY", 6, "a NumPy array: name it .npy"}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (bytes < kinds[i].n || memcmp(head, kinds[i].magic, (size_t)kinds[i].n) != 0) continue;
    report_error("%s: not raw tokens but %s", path, kinds[i].what);
    return false;
  }
  return true;
}

enum { HEADER_BYTES = 1024 };   // llm.c: 256 numbers, of which the first are a magic number, a version, the tokens

// The element type that the header of an llm.c file says; false: there is no such header.
static bool find_header(const char *values, int64_t bytes, NncDtype *dtype, int64_t *tokens) {
  static const struct {
    uint32_t magic, version;
    NncDtype dtype;
  } kinds[] = {{20240520, 1, NNC_U16}, {20240801, 7, NNC_U32}};   // of GPT-2's and of Llama 3's tokens
  uint32_t head[3];
  if (bytes < HEADER_BYTES) return false;
  memcpy(head, values, sizeof head);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (head[0] != kinds[i].magic || head[1] != kinds[i].version) continue;
    *dtype = kinds[i].dtype;
    *tokens = head[2];
    return true;
  }
  return false;
}

static bool check_count(const DataSource *s, int64_t tokens, int64_t element, int64_t bytes) {
  if (tokens * element == bytes) return true;
  report_error("%s: the header gives %lld tokens of %lld bits, the file holds %lld bytes of them", s->path,
               (long long)tokens, (long long)(8 * element), (long long)bytes);
  return false;
}

static bool raw_in_place(const DataSource *s, Column *c) {
  DataSource all = *s;
  char head[HEADER_BYTES];
  int64_t tokens;
  int fd = open_to_read(s->path);
  if (fd < 0) return false;
  ssize_t n = pread(fd, head, sizeof head, 0);
  close(fd);
  *c = (Column){.path = xstrdup(s->path), .dtype = s->dtype};
  if (!is_raw(s->path, head, n)) return false;
  bool header = find_header(head, n, &c->dtype, &tokens);
  c->record_bytes = dtype_bytes(c->dtype);
  all.begin_permille = 0, all.end_permille = 1000;
  if (header && (!data_raw_in_place(&all, HEADER_BYTES, c) ||
                 !check_count(s, tokens, c->record_bytes, c->records * c->record_bytes)))
    return false;
  return data_raw_in_place(s, header ? HEADER_BYTES : 0, c);
}

static bool read_raw(const DataSource *s, Column *c) {
  int64_t bytes = 0, begin, end, tokens;
  if (s->in_place) return raw_in_place(s, c);
  char *values = data_file_read_whole(s->path, &bytes);
  *c = (Column){.path = xstrdup(s->path), .dtype = s->dtype, .values = values, .block = values};
  if (!values || !is_raw(s->path, values, bytes)) return false;
  bool header = find_header(values, bytes, &c->dtype, &tokens);
  int64_t first = header ? HEADER_BYTES : 0, element = c->record_bytes = dtype_bytes(c->dtype);
  if (header && !check_count(s, tokens, element, bytes - first)) return false;
  if (bytes % element) {
    report_error("%s: %lld bytes are no whole number of %lld-bit tokens", s->path, (long long)bytes,
                 (long long)(8 * element));
    return false;
  }
  data_range(s, (bytes - first) / element, &begin, &end);
  c->first_byte = first + begin * element;
  data_take(c, c->first_byte, end - begin);
  return true;
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

bool data_read_tokens(const DataSource *s, Column *c) {
  memset(c, 0, sizeof *c);
  bool ok = has_suffix(s->path, ".npy")           ? data_read_npy(s, c)
            : has_suffix(s->path, ".npz")         ? read_member(s, c)
            : has_suffix(s->path, ".safetensors") ? read_tensor(s, c)
                                                  : read_raw(s, c);
  return ok && check_row(c);
}
