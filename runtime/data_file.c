// Reading a plain or gzip file, or an array of an archive, from front to back into the caller's memory; zlib's own
// buffers are all it needs besides.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/runtime.h"

struct DataFile {
  char *path;                              // Owned; of an archive with the name of the member
  gzFile stream;                           // NULL: of an archive
  ZipMember *member;                       // Owned; NULL: a file of its own
  int64_t at;                              // uncompressed bytes read
  int64_t record_bytes, first_record_at;   // 0 before the records
  int64_t size;                            // bytes of it as they are stored; -1: not a regular file
  int64_t past_records;                    // where records end that were not read; 0: they were
};

// A pipe's other end is waited for, but not for ever.
enum { PIPE_SECONDS = 5 };

int open_to_read(const char *path) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
    close(fd);
    errno = EISDIR;
    fd = -1;
  }
  if (fd < 0) {
    report_error("cannot open %s: %s", path, strerror(errno));
    return -1;
  }
  if (S_ISFIFO(st.st_mode) && poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, PIPE_SECONDS * 1000) == 0) {
    report_error("%s is a pipe into which nobody wrote for %d seconds", path, PIPE_SECONDS);
    close(fd);
    return -1;
  }
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  return fd;
}

DataFile *data_file_open(const char *path) {
  struct stat st;
  int fd = open_to_read(path);
  if (fd < 0) return NULL;
  gzFile stream = gzdopen(fd, "rb");
  if (!stream) {
    report_error("cannot open %s: out of memory", path);
    close(fd);
    return NULL;
  }
  gzbuffer(stream, 128 << 10);
  DataFile *f = xcalloc(1, sizeof *f);
  f->path = xstrdup(path);
  f->stream = stream;
  f->size = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? (int64_t)st.st_size : -1;
  return f;
}

DataFile *data_file_open_member(const char *path, const char *field) {
  ZipMember *m = zip_open(path, field);
  if (!m) return NULL;
  DataFile *f = xcalloc(1, sizeof *f);
  *f = (DataFile){.path = xstrdup(zip_name(m)), .member = m, .size = zip_packed_bytes(m)};
  return f;
}

const char *data_file_name(const DataFile *f) { return f->path; }

// Its bytes are those that are stored.
static bool is_plain(const DataFile *f) { return f->member ? zip_stored_at(f->member) >= 0 : gzdirect(f->stream); }

int64_t data_file_place(const DataFile *f) {
  return !f->member ? f->at : is_plain(f) ? zip_stored_at(f->member) + f->at : -1;
}

// ", in record 12" where the records have begun, else "".
static const char *in_record(const DataFile *f, char *buf, size_t size) {
  buf[0] = 0;
  if (f->record_bytes > 0)
    snprintf(buf, size, ", in record %lld", (long long)((f->at - f->first_record_at) / f->record_bytes));
  return buf;
}

// What zlib says, without the "<fd:3>: " that it puts in front.
static const char *without_place(const char *reason) {
  const char *end = strncmp(reason, "<fd:", 4) == 0 ? strstr(reason, ">: ") : NULL;
  return end ? end + 3 : reason;
}

bool data_file_read(DataFile *f, void *out, int64_t bytes, const char *what) {
  char *p = out, record[48];
  for (int64_t left = bytes; left > 0;) {
    unsigned want = left < (1 << 30) ? (unsigned)left : 1u << 30;
    int64_t n = f->member ? zip_read(f->member, p, want) : gzread(f->stream, p, want);
    if (n < 0 && f->member) return false;
    if (n <= 0) {
      int code = Z_OK;
      const char *reason = f->member ? "" : gzerror(f->stream, &code);
      if (code == Z_ERRNO) report_error("cannot read %s: %s", f->path, strerror(errno));
      else if (code == Z_DATA_ERROR)
        report_error("%s: damaged gzip data after %lld uncompressed bytes%s: %s", f->path, (long long)f->at,
                     in_record(f, record, sizeof record), without_place(reason));
      else
        report_error("%s: truncated: %s needs bytes %lld to %lld, the %sdata ends at %lld%s", f->path, what,
                     (long long)f->at, (long long)(f->at + left), is_plain(f) ? "" : "uncompressed ", (long long)f->at,
                     in_record(f, record, sizeof record));
      return false;
    }
    p += n, left -= n, f->at += n;
  }
  return true;
}

// Deflate (RFC 1951) makes at most 258 bytes of two bits, so about 1032 of a byte.
static bool data_file_can_hold(const DataFile *f, int64_t records, int64_t record_bytes, const char *what) {
  int64_t ratio = is_plain(f) ? 1 : 1032, bytes;
  if (__builtin_mul_overflow(records, record_bytes, &bytes)) {
    report_error("%s: %s is more than 2^63 bytes", f->path, what);
    return false;
  }
  if (bytes <= 1 << 20 || f->size < 0 || (bytes - 1) / ratio <= f->size) return true;
  report_error("%s: truncated: %s needs %lld bytes, more than a file of %lld bytes can hold", f->path, what,
               (long long)bytes, (long long)f->size);
  return false;
}

// After a call that read n bytes. False after reporting: it found an error, perhaps behind them.
static bool stream_is_fine(const DataFile *f, int n) {
  int code = Z_OK;
  const char *reason = gzerror(f->stream, &code);
  if (n >= 0 && code != Z_BUF_ERROR) return true;
  if (code == Z_ERRNO) report_error("cannot read %s: %s", f->path, strerror(errno));
  else
    report_error("%s: %s gzip data after %lld uncompressed bytes%s%s", f->path,
                 code == Z_BUF_ERROR ? "truncated" : "damaged", (long long)f->at, code == Z_BUF_ERROR ? "" : ": ",
                 code == Z_BUF_ERROR ? "" : without_place(reason));
  return false;
}

int64_t data_file_read_some(DataFile *f, void *out, int64_t bytes) {
  int n = gzread(f->stream, out, bytes < (1 << 30) ? (unsigned)bytes : 1u << 30);
  if (!stream_is_fine(f, n)) return -1;
  f->at += n;
  return n;
}

static bool data_file_skip(DataFile *f, int64_t bytes, const char *what) {
  char buffer[16384];
  for (; bytes > 0; bytes -= (int64_t)sizeof buffer)
    if (!data_file_read(f, buffer, bytes < (int64_t)sizeof buffer ? bytes : (int64_t)sizeof buffer, what)) return false;
  return true;
}

// Of a gzip file what stands behind the data, their CRC-32 and length, is compared only when more is asked for. -1:
// after reporting.
static int data_file_at_end(DataFile *f) {
  char next;
  if (f->member) return zip_at_end(f->member);
  int n = gzread(f->stream, &next, 1);
  if (!stream_is_fine(f, n)) return -1;
  if (n == 1) gzungetc((unsigned char)next, f->stream);
  return n == 0;
}

bool data_file_ends(DataFile *f, int64_t records, int64_t record_bytes) {
  int at_end = f->past_records ? f->past_records == f->size : data_file_at_end(f);
  if (at_end) return at_end > 0;
  report_error("%s: more data than the %lld records of %lld bytes its header gives, from byte %lld on", f->path,
               (long long)records, (long long)record_bytes, (long long)(f->past_records ? f->past_records : f->at));
  return false;
}

void data_file_close(DataFile *f) {
  if (!f) return;
  if (f->stream) gzclose_r(f->stream);
  zip_close(f->member);
  free(f->path);
  free(f);
}

void data_range(const DataSource *s, int64_t n, int64_t *begin, int64_t *end) {
  // n * permille stays far below 2^63 for any file.
  *begin = n * s->begin_permille / 1000;
  *end = n * s->end_permille / 1000;
}

void data_take(Column *c, int64_t from, int64_t records) {
  int64_t bytes = records * c->record_bytes;
  if (from > 0) memmove(c->values, c->values + from, (size_t)bytes);
  c->values = c->block = xrealloc(c->block, (size_t)bytes + 1);
  c->block_bytes = bytes;
  c->records = records;
}

static bool report_packed(const char *name, const char *what) {
  report_error("%s: records cannot be read one by one out of a %s: unpack it, or read it without num_workers", name,
               what);
  return false;
}

static bool stays_in_place(DataFile *f, const DataSource *s, Column *c, int64_t all, int64_t begin, int64_t end) {
  int64_t needed = f->at + all * c->record_bytes;
  if (!is_plain(f) || f->size < 0)
    return report_packed(f->path, f->member ? "compressed member" : f->size >= 0 ? "gzip file" : "pipe");
  if (f->size < needed) {
    report_error("%s: truncated: %lld records of %lld bytes end at byte %lld, the file has %lld", f->path,
                 (long long)all, (long long)c->record_bytes, (long long)needed, (long long)f->size);
    return false;
  }
  c->path = xstrdup(s->path);
  c->records = end - begin;
  c->first_record = begin;
  c->first_byte += begin * c->record_bytes;
  if (f->member) return data_file_skip(f, all * c->record_bytes, "comparing its CRC-32");   // now, not in some step
  f->past_records = needed;
  return true;
}

bool data_file_is_plain(const char *path, int64_t *bytes) {
  struct stat st;
  unsigned char magic[2] = {0};
  int fd = open_to_read(path);
  if (fd < 0) return false;
  bool plain = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
  bool packed = plain && pread(fd, magic, 2, 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
  close(fd);
  *bytes = st.st_size;
  return (plain && !packed) || report_packed(path, packed ? "gzip file" : "pipe");
}

bool data_raw_in_place(const DataSource *s, int64_t first, Column *c) {
  int64_t element = c->record_bytes, bytes, begin, end;
  if (!data_file_is_plain(s->path, &bytes)) return false;
  if ((bytes - first) % element) {
    report_error("%s: %lld bytes are no whole number of %lld-bit tokens", s->path, (long long)bytes,
                 (long long)(8 * element));
    return false;
  }
  data_range(s, (bytes - first) / element, &begin, &end);
  c->first_byte = first + begin * element;
  c->records = end - begin;
  return true;
}

bool data_file_read_records(DataFile *f, const DataSource *s, Column *c) {
  int64_t all = c->records, begin, end;
  char what[64];
  data_range(s, all, &begin, &end);
  snprintf(what, sizeof what, "reading %lld records of %lld bytes", (long long)all, (long long)c->record_bytes);
  if (!data_file_can_hold(f, all, c->record_bytes, what)) return false;
  if (s->in_place) return stays_in_place(f, s, c, all, begin, end);
  f->record_bytes = c->record_bytes;
  f->first_record_at = f->at;
  c->path = xstrdup(s->path);
  c->records = end - begin;
  c->first_record = begin;
  if (c->first_byte >= 0) c->first_byte += begin * c->record_bytes;
  c->block_bytes = c->records * c->record_bytes;
  c->values = c->block = xmalloc((size_t)c->block_bytes);
  return data_file_skip(f, begin * c->record_bytes, what) && data_file_read(f, c->values, c->block_bytes, what) &&
         data_file_skip(f, (all - end) * c->record_bytes, what);
}

// Grown as it is read, since a gzip file does not tell its size.
char *data_file_read_whole(const char *path, int64_t *bytes) {
  struct stat st;
  DataFile *f = data_file_open(path);
  if (!f) return NULL;
  size_t capacity = stat(path, &st) == 0 && st.st_size > 0 ? (size_t)st.st_size : 1 << 16, n = 0;
  char *text = xmalloc(capacity);
  int64_t got;
  while ((got = data_file_read_some(f, text + n, (int64_t)(capacity - n))) > 0) {
    n += (size_t)got;
    if (n < capacity) continue;
    int at_end = data_file_at_end(f);
    if (at_end < 0) got = -1;
    if (at_end) break;
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
