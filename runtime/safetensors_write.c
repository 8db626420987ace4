// Writing safetensors files so that the path holds either the old file or the whole new one: a nameless or temporary
// file in the same folder, written, synced, and renamed over the path.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/checksum.h"
#include "runtime/output.h"
#include "runtime/runtime.h"

typedef struct Declared {
  char *name;
  NncDtype dtype;
  int rank;
  int64_t dim[NNC_MAX_RANK], offset, bytes;
  int64_t written;
  Checksum *sum;   // Owned; of what was written; NULL: nothing yet
} Declared;

struct SafetensorsWriter {
  char *name;               // Owned; as given, for messages
  char *path, *temporary;   // Owned; where links lead
  int fd;
  bool is_nameless;   // made with O_TMPFILE
  int n_tensors, capacity;
  Declared *tensors;   // Owned
  char *metadata;      // Owned; JSON members, or NULL
  char *header;        // Owned; from begin on, with zeros for the checksums
  int64_t data_offset, data_bytes;
  bool failed;
};

// Read by the signal handler that ends the process at once. A library has none, and its instances share nothing that is
// written.
static char *volatile pending;
static bool keeps_pending;

void safetensors_keep_pending(void) { keeps_pending = true; }

static void set_pending(char *path) {
  if (keeps_pending) pending = path;
}

void safetensors_unlink_pending(void) {
  char *path = pending;
  if (path) unlink(path);
}

static char *folder_of(const char *path) {
  const char *slash = strrchr(path, '/');
  if (!slash) return xstrdup(".");
  if (slash == path) return xstrdup("/");
  char *folder = xstrdup(path);
  folder[slash - path] = 0;
  return folder;
}

static bool spares_program(const char *path) {
  if (!output_is_same(path, "/proc/self/exe")) return true;
  report_error("cannot write %s: it is this program", path);
  return false;
}

bool output_spares(const char *path, const char *other) {
  if (!path) return true;
  if (!spares_program(path)) return false;
  if (!other || !output_is_same(path, other)) return true;
  report_error("cannot write %s: this run uses it for something else", path);
  return false;
}

bool output_path_check(const char *path) {
  char *real = output_real_name(path), *folder = folder_of(real);
  struct stat st;
  bool ok = true;
  if (stat(folder, &st) != 0) {
    report_error("cannot write %s: %s: %s", path, folder, strerror(errno));
    ok = false;
  } else if (!S_ISDIR(st.st_mode)) {
    report_error("cannot write %s: %s is not a folder", path, folder);
    ok = false;
  } else if (access(folder, W_OK | X_OK) != 0) {
    report_error("cannot write %s: folder %s: %s", path, folder, strerror(errno));
    ok = false;
  } else if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
    report_error("cannot write %s: it is a folder", path);
    ok = false;
  } else if (output_is_special(path)) {
    report_error("cannot write %s: it is not a regular file", path);
    ok = false;
  } else {
    ok = spares_program(path);
  }
  free(folder);
  free(real);
  return ok;
}

SafetensorsWriter *safetensors_create(const char *path) {
  SafetensorsWriter *w = xcalloc(1, sizeof *w);
  w->name = xstrdup(path);
  w->path = output_real_name(path);
  w->fd = -1;
  return w;
}

// JSON string with quotes; Owned.
static char *quote(const char *s) {
  char *out = xmalloc(strlen(s) * 6 + 3), *p = out;
  *p++ = '"';
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\') *p++ = '\\', *p++ = (char)c;
    else if (c < 0x20) p += sprintf(p, "\\u%04x", c);
    else *p++ = (char)c;
  }
  *p++ = '"';
  *p = 0;
  return out;
}

void safetensors_add_metadata(SafetensorsWriter *w, const char *key, const char *value) {
  char *k = quote(key), *v = quote(value), *before = w->metadata;
  w->metadata = xasprintf("%s%s%s:%s", before ? before : "", before ? "," : "", k, v);
  free(k), free(v), free(before);
}

int safetensors_declare(SafetensorsWriter *w, const char *name, NncDtype dtype, int rank, const int64_t *dim) {
  if (w->n_tensors == w->capacity) {
    w->capacity = w->capacity ? w->capacity * 2 : 64;
    w->tensors = xrealloc(w->tensors, sizeof *w->tensors * (size_t)w->capacity);
  }
  Declared *d = &w->tensors[w->n_tensors];
  memset(d, 0, sizeof *d);
  d->name = xstrdup(name);
  d->dtype = dtype;
  d->rank = rank;
  d->offset = w->data_bytes;
  d->bytes = dtype_bytes(dtype);
  for (int i = 0; i < rank; i++) d->bytes *= d->dim[i] = dim[i];
  w->data_bytes += d->bytes;
  return w->n_tensors++;
}

static bool fail(SafetensorsWriter *w) {
  if (!w->failed) report_error("cannot write %s: %s", w->name, strerror(errno));
  w->failed = true;
  return false;
}

static bool write_all(SafetensorsWriter *w, const void *data, int64_t bytes, int64_t at) {
  const char *p = data;
  while (bytes > 0) {
    ssize_t n = pwrite(w->fd, p, (size_t)(bytes < (1 << 30) ? bytes : 1 << 30), at);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = ENOSPC;
    if (n <= 0) return fail(w);
    p += n, at += n, bytes -= n;
  }
  return true;
}

// The name of a temporary file: what it is to become, 16 digits that nobody can foresee, ".tmp".
enum { TEMPORARY_DIGITS = 16 };

static void name_temporary(SafetensorsWriter *w) {
  uint64_t number;
  if (getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number)
    number = (uint64_t)(seconds_now() * 1e9) ^ (uint64_t)getpid() << 32;
  free(w->temporary);
  w->temporary = xasprintf("%s.%0*llx.tmp", w->path, TEMPORARY_DIGITS, (unsigned long long)number);
}

static bool is_temporary_of(const char *name, const char *base) {
  size_t n = strlen(base),
         digits = strspn(name + (strncmp(name, base, n) == 0 ? n + (name[n] == '.') : 0), "0123456789abcdef");
  return strncmp(name, base, n) == 0 && name[n] == '.' && digits == TEMPORARY_DIGITS &&
         strcmp(name + n + 1 + digits, ".tmp") == 0;
}

// Removes what writers of this file left that were killed. A writer that lives holds the lock of its temporary file.
static void remove_leftovers(const SafetensorsWriter *w, const char *folder) {
  const char *slash = strrchr(w->path, '/'), *base = slash ? slash + 1 : w->path;
  DIR *d = opendir(folder);
  for (struct dirent *entry; d && (entry = readdir(d));) {
    if (!is_temporary_of(entry->d_name, base)) continue;
    int fd = openat(dirfd(d), entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlinkat(dirfd(d), entry->d_name, 0);
    close(fd);
  }
  if (d) closedir(d);
}

// A file without a name disappears with its process; giving it one takes /proc.
static int open_nameless(const char *folder) {
#ifdef O_TMPFILE
  int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (fd < 0 || access(link, F_OK) == 0) return fd;
  close(fd);
#endif
  (void)folder;
  return -1;
}

static bool open_temporary(SafetensorsWriter *w) {
  char *folder = folder_of(w->path);
  struct stat st;
  remove_leftovers(w, folder);
  name_temporary(w);
  w->fd = open_nameless(folder);
  w->is_nameless = w->fd >= 0;
  free(folder);
  for (int tries = 0; !w->is_nameless && tries < 100; tries++, name_temporary(w)) {
    w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (w->fd < 0 && errno == EEXIST) continue;
    if (w->fd < 0) return fail(w);
    set_pending(w->temporary);
    // Another writer that cleans up may have been quicker than the lock.
    if (flock(w->fd, LOCK_EX) != 0 || fstat(w->fd, &st) != 0 || st.st_nlink > 0) break;
    close(w->fd);
    w->fd = -1;
  }
  if (w->fd < 0) return fail(w);
  if (w->is_nameless) flock(w->fd, LOCK_EX);
  // The new file is as open to others as the old one.
  if (stat(w->path, &st) == 0 && S_ISREG(st.st_mode) && fchmod(w->fd, st.st_mode & 0777) != 0 && errno != EPERM)
    return fail(w);
  return true;
}

#define SUMS_BEGIN \
  "{\"__metadata__\":{\"" SAFETENSORS_SUM_KIND "\":\"" SAFETENSORS_SUMS "\",\"" SAFETENSORS_SUMS "\":\""

static char *build_header(const SafetensorsWriter *w, size_t *length) {
  char *text = NULL;
  FILE *f = open_memstream(&text, length);
  if (!f) report_internal("out of memory");
  fputs(SUMS_BEGIN, f);
  for (int i = 0; i <= w->n_tensors; i++) fprintf(f, "%s%0*d", i ? " " : "", CHECKSUM_DIGITS, 0);
  fprintf(f, "\"%s%s}%s", w->metadata ? "," : "", w->metadata ? w->metadata : "", w->n_tensors ? "," : "");
  static const char *const names[] = {"F32", "F64", "BF16", "F16", "I32", "I64", "U8", "BOOL"};   // ORDER DTYPE
  for (int i = 0; i < w->n_tensors; i++) {
    const Declared *d = &w->tensors[i];
    char *name = quote(d->name);
    fprintf(f, "%s%s:{\"dtype\":\"%s\",\"shape\":[", i ? "," : "", name, names[d->dtype]);
    for (int k = 0; k < d->rank; k++) fprintf(f, "%s%lld", k ? "," : "", (long long)d->dim[k]);
    fprintf(f, "],\"data_offsets\":[%lld,%lld]}", (long long)d->offset, (long long)(d->offset + d->bytes));
    free(name);
  }
  fputc('}', f);
  while ((ftell(f) + 8) % 64) fputc(' ', f);   // the data starts aligned
  fclose(f);
  return text;
}

bool safetensors_begin(SafetensorsWriter *w) {
  if (!output_path_check(w->name)) {
    w->failed = true;
    return false;
  }
  if (!open_temporary(w)) return false;
  size_t length;
  w->header = build_header(w, &length);
  w->data_offset = 8 + (int64_t)length;
  bool ok = true;
  // Reserving the room tells a full disk before the data is computed or copied.
  int status = posix_fallocate(w->fd, 0, w->data_offset + w->data_bytes);
  if (status == ENOSPC || status == EFBIG || status == EDQUOT) {
    errno = status;
    ok = fail(w);
  }
  return ok;
}

bool safetensors_put(SafetensorsWriter *w, int index, int64_t from, const void *data, int64_t bytes) {
  Declared *d = &w->tensors[index];
  if (w->failed) return false;
  if (bytes > d->bytes - from) report_internal("writing beyond tensor %s", d->name);
  if (from != d->written) report_internal("writing tensor %s out of order", d->name);
  d->written += bytes;
  if (!d->sum) d->sum = checksum_begin();
  checksum_add(d->sum, data, bytes);
  return write_all(w, data, bytes, w->data_offset + d->offset + from);
}

static void free_writer(SafetensorsWriter *w) {
  if (w->fd >= 0) close(w->fd);
  for (int i = 0; i < w->n_tensors; i++) {
    free(w->tensors[i].name);
    if (w->tensors[i].sum) checksum_end(w->tensors[i].sum);
  }
  set_pending(NULL);
  free(w->tensors), free(w->metadata), free(w->header), free(w->name), free(w->path), free(w->temporary), free(w);
}

void safetensors_abandon(SafetensorsWriter *w) {
  if (w->fd >= 0 && !w->is_nameless) unlink(w->temporary);
  free_writer(w);
}

static bool give_name(SafetensorsWriter *w) {
  if (!w->is_nameless) return true;
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", w->fd);
  set_pending(w->temporary);
  if (linkat(AT_FDCWD, link, AT_FDCWD, w->temporary, AT_SYMLINK_FOLLOW) != 0) {
    set_pending(NULL);
    return fail(w);
  }
  w->is_nameless = false;
  return true;
}

// With all checksums in it; its own last, of the text with zeros in their place.
static bool write_header(SafetensorsWriter *w) {
  char *sums = w->header + strlen(SUMS_BEGIN);
  int64_t length = w->data_offset - 8;
  for (int i = 0; i < w->n_tensors; i++) {
    Declared *d = &w->tensors[i];
    if (d->written != d->bytes) report_internal("tensor %s was not written completely", d->name);
    checksum_print(checksum_end(d->sum), sums + (i + 1) * (CHECKSUM_DIGITS + 1));
    d->sum = NULL;
  }
  checksum_print(checksum_of(w->header, length), sums);
  unsigned char head[8];
  for (int i = 0; i < 8; i++) head[i] = (unsigned char)((uint64_t)length >> (8 * i));
  return write_all(w, head, 8, 0) && write_all(w, w->header, length, 8);
}

bool safetensors_commit(SafetensorsWriter *w) {
  if (!w->failed) write_header(w);
  if (!w->failed && fsync(w->fd) != 0) fail(w);
  if (!w->failed && give_name(w) && rename(w->temporary, w->path) != 0) fail(w);
  if (w->failed) {
    safetensors_abandon(w);
    return false;
  }
  set_pending(NULL);
  char *folder = folder_of(w->path);
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // The new name too; a file system that cannot do it is no reason to fail.
  if (fd >= 0 && fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP) fail(w);
  if (fd >= 0) close(fd);
  free(folder);
  bool ok = !w->failed;
  free_writer(w);
  return ok;
}
