// The idx format (MNIST and its relatives): two zero bytes, a type byte, a rank byte, big-endian sizes, the values in
// row-major order.
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

typedef struct IdxType {
  int code;
  NncDtype dtype;
} IdxType;
static const IdxType idx_types[] = {{0x08, NNC_U8},  {0x09, NNC_I8},  {0x0B, NNC_I16},
                                    {0x0C, NNC_I32}, {0x0D, NNC_F32}, {0x0E, NNC_F64}};

static bool read_header(DataFile *f, const char *path, Column *c) {
  unsigned char magic[4], size[4];
  if (!data_file_read(f, magic, 4, "the magic number")) return false;
  const IdxType *type = NULL;
  for (size_t i = 0; i < sizeof idx_types / sizeof *idx_types; i++)
    if (magic[2] == idx_types[i].code) type = &idx_types[i];
  if (magic[0] || magic[1] || !type || magic[3] < 1 || magic[3] > NNC_MAX_RANK) {
    report_error("%s: not an idx file: expected magic number 00 00 TT RR (TT the type: 08, 09, 0b, 0c, 0d or 0e; RR "
                 "the rank: "
                 "1 to %d), found "
                 "%02x %02x %02x %02x",
                 path, NNC_MAX_RANK, magic[0], magic[1], magic[2], magic[3]);
    return false;
  }
  c->dtype = type->dtype;
  c->rank = magic[3] - 1;
  c->record_bytes = dtype_bytes(c->dtype);
  for (int i = 0; i < magic[3]; i++) {
    if (!data_file_read(f, size, 4, "the sizes in the header")) return false;
    int64_t n = (int64_t)size[0] << 24 | size[1] << 16 | size[2] << 8 | size[3];
    if (i == 0) {
      c->records = n;
      continue;
    }
    c->dim[i - 1] = n;
    if (n == 0 || c->record_bytes > ((int64_t)1 << 40) / n) {
      report_error("%s: the header gives dimension %d (byte %d) as %lld", path, i, 4 + 4 * i, (long long)n);
      return false;
    }
    c->record_bytes *= n;
  }
  c->first_byte = 4 + 4 * magic[3];
  return true;
}

static void swap_bytes(char *p, int64_t elements, int64_t element_bytes) {
  for (int64_t i = 0; i < elements; i++, p += element_bytes)
    for (int64_t k = 0; k < element_bytes / 2; k++) {
      char t = p[k];
      p[k] = p[element_bytes - 1 - k];
      p[element_bytes - 1 - k] = t;
    }
}

bool data_read_idx(const DataSource *s, Column *c) {
  memset(c, 0, sizeof *c);
  DataFile *f = data_file_open(s->path);
  if (!f) return false;
  bool ok = read_header(f, s->path, c);
  if (ok) {
    int64_t all = c->records;
    ok = data_file_read_records(f, s, c) && data_file_ends(f, all, c->record_bytes);
    if (ok && s->in_place && dtype_bytes(c->dtype) > 1) {
      report_error("%s: %s numbers of an idx file lie the other way round, and are read without num_workers", s->path,
                   dtype_name(c->dtype));
      ok = false;
    }
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (ok && c->values) swap_bytes(c->values, c->block_bytes / dtype_bytes(c->dtype), dtype_bytes(c->dtype));
#endif
  }
  data_file_close(f);
  return ok;
}
