// Chunks of HDF5 files: what deflate (zlib, RFC 1950), shuffle and fletcher32 made of them is undone here rather than
// by the library, whose filters read and write past the ends of a chunk that is damaged.
#include <string.h>
#include <zlib.h>

#include "runtime/hdf5/hdf5.h"
#include "support/integers.h"

int64_t hdf5_chunk_bytes(const Hdf5Layout *l) {
  int64_t bytes = dtype_bytes(l->dtype);
  for (int i = 0; i < l->rank; i++) bytes *= l->side[i];
  return bytes;
}

int64_t hdf5_buffer_bytes(const Hdf5Layout *l) {
  int64_t bytes = hdf5_chunk_bytes(l) + 4 * HDF5_MAX_FILTERS;
  for (int64_t i = 0; i < l->n_chunks; i++)
    if (l->chunks[i].bytes > bytes) bytes = l->chunks[i].bytes;
  return round_up(bytes, NNC_ALIGN);
}

typedef struct Memory {
  char *at;
  size_t left;
} Memory;

static void *take_memory(void *context, unsigned n, unsigned bytes) {
  Memory *m = context;
  size_t all = ((size_t)n * bytes + 63) / 64 * 64;
  if (all > m->left) return NULL;
  char *p = m->at;
  m->at += all, m->left -= all;
  return p;
}

static void keep_memory(void *context, void *p) { (void)context, (void)p; }

// Exactly so many bytes come out.
static const char *inflate_chunk(char *from, int64_t n, char *to, int64_t bytes, char *memory) {
  Memory m = {memory, HDF5_ZLIB_BYTES};
  z_stream z = {.zalloc = take_memory, .zfree = keep_memory, .opaque = &m};
  z.next_in = (unsigned char *)from, z.avail_in = (unsigned)n;
  z.next_out = (unsigned char *)to, z.avail_out = (unsigned)bytes;
  int code = inflateInit(&z);
  if (code == Z_OK) code = inflate(&z, Z_FINISH);
  return code == Z_STREAM_END && z.avail_out == 0 ? NULL
         : code == Z_MEM_ERROR                    ? "needs more memory for zlib than was planned"
                                                  : "has damaged compressed data";
}

// Byte j of all elements, then byte j + 1 of them; what is no whole element stays at the end.
static void unshuffle(const char *from, char *to, int64_t bytes, int64_t element) {
  int64_t n = bytes / element;
  for (int64_t j = 0; j < element; j++)
    for (int64_t i = 0; i < n; i++) to[i * element + j] = from[j * n + i];
  memcpy(to + n * element, from + n * element, (size_t)(bytes - n * element));
}

static uint32_t fold(uint64_t sum) {
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return (uint32_t)sum;
}

// Fletcher (1982) of numbers of 16 bits, the higher byte first, modulo 65535; a byte that is left over is a higher one.
static uint32_t fletcher32(const unsigned char *p, int64_t bytes) {
  uint64_t first = 0, second = 0;
  for (int64_t i = 0; i < bytes; i += 2) {
    first += (unsigned)p[i] << 8 | (i + 1 < bytes ? p[i + 1] : 0);
    second += first;
    if (i % 4096 == 0) first = fold(first), second = fold(second);
  }
  return fold(second) << 16 | fold(first);
}

static bool has_checksum(const char *p, int64_t bytes) {
  const unsigned char *end = (const unsigned char *)p + bytes;
  return fletcher32((const unsigned char *)p, bytes) ==
         (end[0] | (uint32_t)end[1] << 8 | (uint32_t)end[2] << 16 | (uint32_t)end[3] << 24);
}

const char *hdf5_unpack(const Hdf5Layout *l, const Hdf5Chunk *c, char *from, char *other, char *memory, char **result) {
  int64_t n = c->bytes;
  for (int i = l->n_filters - 1; i >= 0; i--) {
    if (c->left_out >> i & 1) continue;
    const Hdf5Filter *f = &l->filters[i];
    char *to = other;
    if (f->kind == HDF5_FLETCHER32) {
      if ((n -= 4) < 0 || !has_checksum(from, n)) return "does not have its checksum (fletcher32)";
      continue;
    }
    if (f->kind == HDF5_SHUFFLE) unshuffle(from, to, n, f->element);
    else {
      int64_t bytes = hdf5_chunk_bytes(l);   // and the checksums that were taken before
      for (int k = 0; k < i; k++) bytes += l->filters[k].kind == HDF5_FLETCHER32 && !(c->left_out >> k & 1) ? 4 : 0;
      const char *wrong = inflate_chunk(from, n, to, bytes, memory);
      if (wrong) return wrong;
      n = bytes;
    }
    other = from;
    from = to;
  }
  *result = from;
  return n == hdf5_chunk_bytes(l) ? NULL : "has fewer bytes than its shape needs, or more";
}
