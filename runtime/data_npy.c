// NumPy's npy format, in a file of its own or as a member of an npz archive: versions 1 to 3, little-endian: a magic
// string, a Python dictionary with descr, fortran_order and shape, the values, whose records are gathered where the
// order is Fortran's.
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

// A header while it is read: what is wrong with it is told with the byte of the file.
typedef struct Header {
  const char *path, *text;
  int64_t first_byte;
} Header;

static bool malformed_at(const char *path, int64_t byte, const char *what) {
  report_error("%s: not a npy file this program reads: byte %lld: %s", path, (long long)byte, what);
  return false;
}

static bool malformed(const Header *h, const char *at, const char *what) {
  return malformed_at(h->path, h->first_byte + (at - h->text), what);
}

// The text after 'key': in the header, or NULL.
static const char *find_value(const char *header, const char *key) {
  const char *at = strstr(header, key);
  if (!at) return NULL;
  at = strchr(at, ':');
  if (!at) return NULL;
  for (at++; *at == ' ';) at++;
  return at;
}

static bool parse_dtype(const Header *h, const char *at, NncDtype *out) {
  static const struct {
    const char *descr;
    NncDtype dtype;
  } types[] = {
      {"'|u1'", NNC_U8},  {"'<u1'", NNC_U8},  {"'|i1'", NNC_I8},  {"'<i1'", NNC_I8},  {"'|b1'", NNC_I1},
      {"'<u2'", NNC_U16}, {"'<i2'", NNC_I16}, {"'<u4'", NNC_U32}, {"'<i4'", NNC_I32}, {"'<i8'", NNC_I64},
      {"'<f2'", NNC_F16}, {"'<f4'", NNC_F32}, {"'<f8'", NNC_F64},
  };
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strncmp(at, types[i].descr, strlen(types[i].descr)) == 0) {
      *out = types[i].dtype;
      return true;
    }
  report_error("%s: byte %lld: element type %.*s; supported are i1, u1, b1, and little-endian i2, u2, i4, u4, i8, f2, "
               "f4, f8",
               h->path, (long long)(h->first_byte + (at - h->text)), (int)strcspn(at, ",}"), at);
  return false;
}

static bool parse_shape(const Header *h, const char *at, Column *c) {
  if (*at++ != '(') return malformed(h, at - 1, "no shape");
  int rank = 0;
  c->record_bytes = dtype_bytes(c->dtype);
  while (*at != ')') {
    char *end;
    if (*at < '0' || *at > '9') return malformed(h, at, "bad shape");
    long long n = strtoll(at, &end, 10);
    if (rank == NNC_MAX_RANK || n > (1ll << 40) || (rank > 0 && (n == 0 || c->record_bytes > (1ll << 40) / n)))
      return malformed(h, at, "bad shape");
    if (rank == 0) c->records = n;
    else c->dim[rank - 1] = n, c->record_bytes *= n;
    rank++;
    for (at = end; *at == ',' || *at == ' ' || *at == 'L';) at++;
  }
  if (rank == 0) return malformed(h, at, "a single number, not records");
  c->rank = rank - 1;
  return true;
}

static bool parse_header(const Header *h, Column *c, bool *fortran) {
  const char *descr = find_value(h->text, "'descr'"), *order = find_value(h->text, "'fortran_order'"),
             *shape = find_value(h->text, "'shape'");
  if (!descr || !order || !shape) return malformed(h, h->text, "the header lacks descr, fortran_order or shape");
  *fortran = strncmp(order, "True", 4) == 0;
  if (!*fortran && strncmp(order, "False", 5) != 0) return malformed(h, order, "fortran_order is True or False");
  return parse_dtype(h, descr, &c->dtype) && parse_shape(h, shape, c);
}

static bool read_header(DataFile *f, Column *c, bool *fortran) {
  const char *path = data_file_name(f);
  unsigned char head[12];
  if (!data_file_read(f, head, 8, "the magic string")) return false;
  if (memcmp(head, "\x93NUMPY", 6) != 0) {
    report_error("%s: not a npy file: expected magic 93 4e 55 4d 50 59, found %02x %02x %02x %02x %02x %02x", path,
                 head[0], head[1], head[2], head[3], head[4], head[5]);
    return false;
  }
  int length_bytes = head[6] == 1 ? 2 : 4;
  if (head[6] < 1 || head[6] > 3) return malformed_at(path, 6, "unknown version");
  if (!data_file_read(f, head + 8, length_bytes, "the header length")) return false;
  int64_t length = head[8] | head[9] << 8;
  if (length_bytes == 4) length |= (int64_t)head[10] << 16 | (int64_t)head[11] << 24;
  if (length > 1 << 20) return malformed_at(path, 8, "header too long");
  char *header = xcalloc((size_t)length + 1, 1);
  bool ok = data_file_read(f, header, length, "the header") &&
            parse_header(&(Header){path, header, 8 + length_bytes}, c, fortran);
  free(header);
  c->first_byte = data_file_place(f);
  return ok;
}

// Element (r, i, j) lies at r + records * (i + dim[0] * j): the records [begin, begin + n) of all are gathered.
static void gather_records(const Column *c, int64_t all, int64_t begin, int64_t n, const char *from, char *to) {
  int64_t element = dtype_bytes(c->dtype), elements = c->record_bytes / element, index[NNC_MAX_RANK] = {0};
  for (int64_t k = 0; k < elements; k++) {
    int64_t at = 0;
    for (int d = c->rank - 1; d >= 0; d--) at = at * c->dim[d] + index[d];
    const char *row = from + (at * all + begin) * element;
    for (int64_t r = 0; r < n; r++) memcpy(to + (r * elements + k) * element, row + r * element, (size_t)element);
    for (int d = c->rank - 1; d >= 0 && ++index[d] == c->dim[d]; d--) index[d] = 0;
  }
}

static bool read_fortran(DataFile *f, const DataSource *s, Column *c) {
  DataSource whole = *s;
  if (s->in_place) {
    report_error("%s: in Fortran's order a record does not lie in one place: save it in C's order, or read it without "
                 "num_workers",
                 s->path);
    return false;
  }
  int64_t begin, end;
  whole.begin_permille = 0, whole.end_permille = 1000;
  if (!data_file_read_records(f, &whole, c)) return false;
  data_range(s, c->records, &begin, &end);
  char *records = xmalloc((size_t)((end - begin) * c->record_bytes) + 1);
  gather_records(c, c->records, begin, end - begin, c->values, records);
  free(c->block);
  c->values = c->block = records;
  c->first_record = begin;
  c->first_byte = -1;
  c->records = end - begin;
  c->block_bytes = c->records * c->record_bytes;
  return true;
}

static bool read_array(DataFile *f, const DataSource *s, Column *c) {
  memset(c, 0, sizeof *c);
  if (!f) return false;
  bool fortran = false, ok = read_header(f, c, &fortran);
  int64_t all = c->records;
  ok = ok && (fortran && c->rank > 0 ? read_fortran : data_file_read_records)(f, s, c) &&
       data_file_ends(f, all, c->record_bytes);
  data_file_close(f);
  return ok;
}

bool data_read_npy(const DataSource *s, Column *c) { return read_array(data_file_open(s->path), s, c); }

bool data_read_npz(const DataSource *s, Column *c) {
  return read_array(data_file_open_member(s->path, s->field), s, c);
}
