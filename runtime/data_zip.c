// Members of a zip archive (PKWARE's APPNOTE 6.3), stored or deflated, also of more than 4 GiB (zip64). What the
// central directory says of a member is checked against its local header, the file's size and, at its end, its CRC-32.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/runtime.h"

enum { LOCAL_BYTES = 30, ENTRY_BYTES = 46, END_BYTES = 22, END64_BYTES = 56, LOCATOR_BYTES = 20, MAX_COMMENT = 0xffff };
enum { LOCAL_MAGIC = 0x04034b50, ENTRY_MAGIC = 0x02014b50, END_MAGIC = 0x06054b50, END64_MAGIC = 0x06064b50 };
enum { LOCATOR_MAGIC = 0x07064b50, STORED = 0, DEFLATED = 8, ENCRYPTED = 1 };

struct ZipMember {
  char *name;   // Owned; file and member, for messages
  int fd;
  bool deflated, inflating;    // inflating: `stream` is to be ended
  uint32_t crc, expected;      // of what was read so far; of all
  int64_t at, packed, bytes;   // where the data lie in the file; bytes of them there, and unpacked
  int64_t taken, read;         // of them, so far
  z_stream stream;
  unsigned char buffer[64 << 10];
};

typedef struct Entry {   // of the central directory
  const char *name;      // Borrowed, without a 0 at its end
  int name_bytes, flags, method;
  uint32_t crc;
  uint64_t packed, bytes, at;   // at: of its local header
} Entry;

typedef struct Directory {
  const char *path;
  int fd;
  int64_t size, at, bytes, n;   // of the file; where the directory lies
  char *data;                   // Owned
} Directory;

static uint64_t number(const void *at, int bytes) {
  uint64_t v = 0;
  for (int i = bytes - 1; i >= 0; i--) v = v << 8 | ((const unsigned char *)at)[i];
  return v;
}

static bool damaged(const char *name, const char *what) {
  report_error("%s: damaged: %s", name, what);
  return false;
}

static bool read_at(int fd, const char *name, void *out, int64_t bytes, int64_t at) {
  for (char *p = out; bytes > 0;) {
    ssize_t n = pread(fd, p, (size_t)(bytes < 1 << 30 ? bytes : 1 << 30), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      report_error("cannot read %s: %s", name, n < 0 ? strerror(errno) : "the file has become shorter");
      return false;
    }
    p += n, at += n, bytes -= n;
  }
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// The directory, which stands at the end of the file

// Of a large archive the numbers stand in a record of their own, which a locator before the end points to. end: the
// bytes before END_MAGIC, at byte `at` of the file; *at becomes where the directory ends.
static bool read_end64(Directory *d, int64_t *at) {
  unsigned char locator[LOCATOR_BYTES], end[END64_BYTES];
  int64_t place = *at - LOCATOR_BYTES;
  if (place < 0) return true;
  if (!read_at(d->fd, d->path, locator, sizeof locator, place)) return false;
  if (number(locator, 4) != LOCATOR_MAGIC) return true;
  uint64_t from = number(locator + 8, 8);
  if (place < END64_BYTES || from > (uint64_t)(place - END64_BYTES))
    return damaged(d->path, "the zip64 locator points out of the file");
  if (!read_at(d->fd, d->path, end, sizeof end, (int64_t)from)) return false;
  if (number(end, 4) != END64_MAGIC || number(end + 4, 8) != (uint64_t)place - from - 12)
    return damaged(d->path, "no zip64 record where the locator points to");
  d->n = (int64_t)number(end + 32, 8);
  d->bytes = (int64_t)number(end + 40, 8);
  d->at = (int64_t)number(end + 48, 8);
  *at = (int64_t)from;
  return true;
}

// The last record, behind which only a comment may stand.
static bool read_end(Directory *d) {
  int64_t bytes = d->size < END_BYTES + MAX_COMMENT ? d->size : END_BYTES + MAX_COMMENT, i = bytes - END_BYTES;
  unsigned char *tail = xmalloc((size_t)bytes);
  bool ok = read_at(d->fd, d->path, tail, bytes, d->size - bytes);
  while (ok && i >= 0 &&
         (number(tail + i, 4) != END_MAGIC || (int64_t)number(tail + i + 20, 2) != bytes - END_BYTES - i))
    i--;
  int64_t at = d->size - bytes + i;
  if (ok && i < 0)
    report_error("%s: not a zip archive, or truncated: its last record, the end of the central directory, is missing",
                 d->path);
  ok = ok && i >= 0;
  if (ok) {
    d->n = (int64_t)number(tail + i + 10, 2);
    d->bytes = (int64_t)number(tail + i + 12, 4);
    d->at = (int64_t)number(tail + i + 16, 4);
    ok = read_end64(d, &at);
  }
  free(tail);
  if (ok && (d->at < 0 || d->bytes < 0 || d->bytes > at || d->at != at - d->bytes))
    ok = damaged(d->path, "the central directory does not lie before its end");
  return ok;
}

// A number that does not fit in 4 bytes stands among the extra fields, behind those before it that do not.
static bool widen(uint64_t *v, const char *extra, int64_t bytes, int64_t *at) {
  if (*v != UINT32_MAX) return true;
  if (!extra || bytes - *at < 8) return false;
  *v = number(extra + *at, 8);
  *at += 8;
  return true;
}

static bool read_sizes(Entry *e, const char *extra, int64_t bytes) {
  int64_t at = 0, wide = 0;
  const char *found = NULL;
  while (bytes - at >= 4) {
    int64_t n = (int64_t)number(extra + at + 2, 2);
    if (n > bytes - at - 4) return false;
    if (number(extra + at, 2) == 1) found = extra + at + 4, wide = n;
    at += 4 + n;
  }
  at = 0;
  return widen(&e->bytes, found, wide, &at) && widen(&e->packed, found, wide, &at) && widen(&e->at, found, wide, &at);
}

// The entry at *at, behind which it goes.
static bool take_entry(const Directory *d, int64_t *at, Entry *e) {
  const char *p = d->data + *at;
  if (d->bytes - *at < ENTRY_BYTES || number(p, 4) != ENTRY_MAGIC)
    return damaged(d->path, "an entry of the central directory is missing");
  int64_t name = (int64_t)number(p + 28, 2), extra = (int64_t)number(p + 30, 2), comment = (int64_t)number(p + 32, 2);
  if (d->bytes - *at - ENTRY_BYTES < name + extra + comment)
    return damaged(d->path, "the central directory ends within an entry");
  *e = (Entry){.name = p + ENTRY_BYTES,
               .name_bytes = (int)name,
               .flags = (int)number(p + 8, 2),
               .method = (int)number(p + 10, 2),
               .crc = (uint32_t)number(p + 16, 4),
               .packed = number(p + 20, 4),
               .bytes = number(p + 24, 4),
               .at = number(p + 42, 4)};
  *at += ENTRY_BYTES + name + extra + comment;
  return read_sizes(e, p + ENTRY_BYTES + name, extra) ||
         damaged(d->path, "an entry of the central directory lacks its sizes");
}

static bool is_member(const Entry *e, const char *field) {
  size_t n = strlen(field);
  return (size_t)e->name_bytes == n + 4 && memcmp(e->name, field, n) == 0 && memcmp(e->name + n, ".npy", 4) == 0;
}

static void report_no_member(const Directory *d, const char *field) {
  char **names = xcalloc((size_t)d->n, sizeof *names);
  int n = 0;
  bool bare = false;
  Entry e;
  for (int64_t at = 0, i = 0; i < d->n && take_entry(d, &at, &e); i++) {
    int length = e.name_bytes - 4;
    bool array = length > 0 && memcmp(e.name + length, ".npy", 4) == 0;
    if (array) names[n++] = xasprintf("%.*s", length, e.name);
    bare |= (size_t)e.name_bytes == strlen(field) && memcmp(e.name, field, strlen(field)) == 0;
  }
  if (bare) report_error("%s: %s is no array: its name in the archive does not end with .npy", d->path, field);
  else report_absent(d->path, "array", field, "", n, (const char *const *)names);
  for (int i = 0; i < n; i++) free(names[i]);
  free(names);
}

static bool find_entry(Directory *d, const char *field, Entry *out) {
  Entry e;
  int found = 0;
  if (d->n < 0 || d->n > d->bytes / ENTRY_BYTES)
    return damaged(d->path, "more entries than the central directory has room for");
  d->data = xmalloc((size_t)d->bytes);
  if (!read_at(d->fd, d->path, d->data, d->bytes, d->at)) return false;
  int64_t at = 0;
  for (int64_t i = 0; i < d->n; i++) {
    if (!take_entry(d, &at, &e)) return false;
    if (is_member(&e, field)) *out = e, found++;
  }
  if (at != d->bytes) return damaged(d->path, "something follows the entries of the central directory");
  if (found == 0) report_no_member(d, field);
  if (found > 1) report_error("%s: array %s is there twice", d->path, field);
  return found == 1;
}

// ---------------------------------------------------------------------------------------------------------------------
// A member

static bool check_entry(const ZipMember *m, const Entry *e) {
  if (e->flags & ENCRYPTED) {
    report_error("%s is encrypted", m->name);
    return false;
  }
  if (e->method != STORED && e->method != DEFLATED) {
    report_error("%s: compressed by method %d; supported are 0 (stored) and 8 (deflated)", m->name, e->method);
    return false;
  }
  return e->method == DEFLATED || e->packed == e->bytes || damaged(m->name, "it is stored, but has two sizes");
}

// The local header repeats the entry; behind it lie the data.
static bool find_data(ZipMember *m, const Directory *d, const Entry *e) {
  unsigned char local[LOCAL_BYTES];
  char name[0x10000];
  uint64_t end = (uint64_t)d->at;
  if (e->at > end || end - e->at < LOCAL_BYTES) return damaged(m->name, "its header lies outside of the file");
  if (!read_at(m->fd, m->name, local, sizeof local, (int64_t)e->at)) return false;
  uint64_t name_bytes = number(local + 26, 2), header = LOCAL_BYTES + name_bytes + number(local + 28, 2);
  if (number(local, 4) != LOCAL_MAGIC || (int)number(local + 8, 2) != e->method ||
      name_bytes != (uint64_t)e->name_bytes)
    return damaged(m->name, "its header is not the one that the central directory names");
  if (header > end - e->at || e->packed > end - e->at - header || e->bytes > INT64_MAX)
    return damaged(m->name, "its data lie outside of the file");
  if (!read_at(m->fd, m->name, name, (int64_t)name_bytes, (int64_t)e->at + LOCAL_BYTES)) return false;
  if (memcmp(name, e->name, (size_t)name_bytes) != 0)
    return damaged(m->name, "its header is not the one that the central directory names");
  m->at = (int64_t)(e->at + header);
  m->packed = (int64_t)e->packed, m->bytes = (int64_t)e->bytes;
  m->expected = e->crc;
  m->deflated = e->method == DEFLATED;
  m->inflating = m->deflated && inflateInit2(&m->stream, -MAX_WBITS) == Z_OK;
  if (m->inflating == m->deflated) return true;
  report_error("cannot open %s: out of memory", m->name);
  return false;
}

ZipMember *zip_open(const char *path, const char *field) {
  Directory d = {.path = path, .fd = open_to_read(path)};
  struct stat st;
  Entry e;
  if (d.fd < 0) return NULL;
  ZipMember *m = xcalloc(1, sizeof *m);
  m->fd = d.fd;
  m->name = xasprintf("%s: %s.npy", path, field);
  bool ok = fstat(d.fd, &st) == 0 && S_ISREG(st.st_mode);
  if (!ok) report_error("%s is not a regular file", path);
  d.size = ok ? st.st_size : 0;
  ok = ok && read_end(&d) && find_entry(&d, field, &e) && check_entry(m, &e) && find_data(m, &d, &e);
  free(d.data);
  if (ok) return m;
  zip_close(m);
  return NULL;
}

const char *zip_name(const ZipMember *m) { return m->name; }
int64_t zip_packed_bytes(const ZipMember *m) { return m->packed; }
int64_t zip_stored_at(const ZipMember *m) { return m->deflated ? -1 : m->at; }
bool zip_at_end(const ZipMember *m) { return m->read == m->bytes; }

static bool fill_buffer(ZipMember *m) {
  int64_t left = m->packed - m->taken, n = left < (int64_t)sizeof m->buffer ? left : (int64_t)sizeof m->buffer;
  if (!read_at(m->fd, m->name, m->buffer, n, m->at + m->taken)) return false;
  m->taken += n;
  m->stream.next_in = m->buffer, m->stream.avail_in = (unsigned)n;
  return true;
}

// Until so many bytes are there or none come any more; *code: what zlib said last. zlib may hold some when all that was
// packed is taken.
static bool inflate_to(ZipMember *m, void *out, unsigned bytes, int *code) {
  m->stream.next_out = out, m->stream.avail_out = bytes;
  for (*code = Z_OK; *code == Z_OK && m->stream.avail_out > 0;) {
    *code = inflate(&m->stream, Z_NO_FLUSH);
    if (*code != Z_BUF_ERROR || m->stream.avail_in > 0 || m->taken == m->packed) continue;
    if (!fill_buffer(m)) return false;
    *code = Z_OK;
  }
  return true;
}

static bool unpack(ZipMember *m, void *out, int64_t bytes) {
  int code;
  if (!inflate_to(m, out, (unsigned)bytes, &code)) return false;
  return m->stream.avail_out == 0 ||
         damaged(m->name, code == Z_STREAM_END || code == Z_BUF_ERROR ? "its compressed data end before all is there"
                          : code == Z_MEM_ERROR                       ? "there is no memory to unpack it"
                                                                      : "its compressed data cannot be unpacked");
}

// The deflated data end with the last byte: nothing comes out, and nothing is left to take.
static bool ends_there(ZipMember *m) {
  unsigned char more;
  int code;
  if (!m->deflated) return true;
  if (!inflate_to(m, &more, 1, &code)) return false;
  return (code == Z_STREAM_END && m->stream.avail_out == 1 && m->stream.avail_in == 0 && m->taken == m->packed) ||
         damaged(m->name, "its compressed data do not end where its size says");
}

int64_t zip_read(ZipMember *m, void *out, int64_t bytes) {
  if (bytes > m->bytes - m->read) bytes = m->bytes - m->read;
  if (bytes == 0) return 0;
  if (!(m->deflated ? unpack(m, out, bytes) : read_at(m->fd, m->name, out, bytes, m->at + m->read))) return -1;
  m->crc = (uint32_t)crc32(m->crc, out, (unsigned)bytes);
  m->read += bytes;
  if (m->read < m->bytes) return bytes;
  if (!ends_there(m)) return -1;
  return m->crc == m->expected || damaged(m->name, "it does not have its CRC-32") ? bytes : -1;
}

void zip_close(ZipMember *m) {
  if (!m) return;
  if (m->inflating) inflateEnd(&m->stream);
  close(m->fd);
  free(m->name);
  free(m);
}
