// A library for LD_PRELOAD that makes calls on the files a program writes go wrong, or writes down what they do, so
// that the state after a loss of power at any moment can be made from it (tools/torture). Set by the environment:
//
//   FAULT_CALL=NAME   open, tmpfile, proc, allocate, read, write, sync, sync_folder, link, rename, chmod, or any: the
//                     calls that count; truncate, by its name alone
//   FAULT_PATH=TEXT   of open to write, those alone whose path has this in it, and the files that they open
//   FAULT_AT=N        the first of them that goes wrong, from 1
//   FAULT_TIMES=N     how many do (default 1; 0: all from there on)
//   FAULT_ERROR=N     the errno they end with; "kill": the process is killed there, a write after half of its bytes
//   FAULT_ROOM=N      bytes that may be written in all; then the disk is full: writes are cut short and fail
//   FAULT_NAMED=1     files without a name cannot be opened
//   FAULT_LINK=FILE   where the first file that must be new is opened, a link to FILE has been put
//   FAULT_LOG=FILE    one line for each call that succeeded: its name, the number of its file (order of opening), what
//                     it was about; data in hexadecimal
//
// Files are those opened for writing but by stdio.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FDS = 1024 };

static struct {
  bool read, linked;
  const char *call, *error, *path;
  long at, times, seen;
  long long room;
  int log;
  int files;
  int file_of[MAX_FDS];                          // 0: not followed
  bool is_folder[MAX_FDS], is_spared[MAX_FDS];   // spared: not at FAULT_PATH
} s;

#define REAL(name) (__extension__(__typeof__(&name)) dlsym(RTLD_NEXT, #name))

static void read_settings(void) {
  if (s.read) return;
  s.read = true;
  s.call = getenv("FAULT_CALL"), s.error = getenv("FAULT_ERROR"), s.path = getenv("FAULT_PATH");
  s.at = getenv("FAULT_AT") ? atol(getenv("FAULT_AT")) : 1;
  s.times = getenv("FAULT_TIMES") ? atol(getenv("FAULT_TIMES")) : 1;
  s.room = getenv("FAULT_ROOM") ? atoll(getenv("FAULT_ROOM")) : -1;
  s.log = getenv("FAULT_LOG") ? REAL(open)(getenv("FAULT_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
}

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...) {
  int before = errno;
  if (s.log < 0) return;
  char line[8192];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(line, sizeof line, format, args);
  va_end(args);
  if (n >= (int)sizeof line || write(s.log, line, (size_t)n) != n) abort();
  errno = before;
}

// Whether this call goes wrong; errno is set then.
static bool strikes(const char *call) {
  read_settings();
  if (!s.call || !s.error || (strcmp(s.call, call) != 0 && strcmp(s.call, "any") != 0)) return false;
  s.seen++;
  if (s.seen < s.at || (s.times && s.seen >= s.at + s.times)) return false;
  if (strcmp(s.error, "kill") == 0 && strcmp(call, "write") != 0) raise(SIGKILL);
  errno = atoi(s.error);
  return true;
}

static bool spares(const char *path) {
  read_settings();
  return s.path && !strstr(path, s.path);
}

static bool strikes_file(const char *call, int fd) {
  return (fd < 0 || fd >= MAX_FDS || !s.is_spared[fd]) && strikes(call);
}

static bool followed(int fd) { return fd >= 0 && fd < MAX_FDS && s.file_of[fd]; }

static int follow(int fd, const char *path, int flags) {
  if (fd < 0 || fd >= MAX_FDS) return fd;
  s.file_of[fd] = 0;
  s.is_spared[fd] = spares(path);
  s.is_folder[fd] = (flags & O_DIRECTORY) && (flags & O_ACCMODE) == O_RDONLY;
  if ((flags & O_ACCMODE) == O_RDONLY && !s.is_folder[fd]) return fd;
  s.file_of[fd] = ++s.files;
  if (!s.is_folder[fd]) note("open %d %s\n", s.files, (flags & O_TMPFILE) == O_TMPFILE ? "-" : path);
  return fd;
}

int open(const char *path, int flags, ...) {
  va_list args;
  va_start(args, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
  va_end(args);
  bool nameless = (flags & O_TMPFILE) == O_TMPFILE, written = (flags & O_ACCMODE) != O_RDONLY;
  if (written && !spares(path) && strikes(nameless ? "tmpfile" : "open")) return -1;
  if (nameless && getenv("FAULT_NAMED")) {
    errno = EOPNOTSUPP;
    return -1;
  }
  if ((flags & O_EXCL) && getenv("FAULT_LINK") && !s.linked) s.linked = symlink(getenv("FAULT_LINK"), path) == 0;
  int fd = REAL(open)(path, flags, mode);
  read_settings();
  return follow(fd, path, flags);
}

int close(int fd) {
  if (fd >= 0 && fd < MAX_FDS) s.file_of[fd] = 0;
  return REAL(close)(fd);
}

int access(const char *path, int mode) {
  if (strncmp(path, "/proc/self/fd/", 14) == 0 && strikes("proc")) return -1;
  return REAL(access)(path, mode);
}

ssize_t pread(int fd, void *data, size_t n, off_t at) {
  return followed(fd) && strikes_file("read", fd) ? -1 : REAL(pread)(fd, data, n, at);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at) {
  if (!followed(fd)) return REAL(pwrite)(fd, data, n, at);
  bool bad = strikes_file("write", fd);
  if (bad && strcmp(s.error, "kill") == 0) {
    if (REAL(pwrite)(fd, data, n / 2, at) < 0) abort();
    raise(SIGKILL);
  }
  if (bad) return -1;
  if (s.room >= 0 && (long long)n > s.room) n = (size_t)s.room;
  if (s.room == 0 && n == 0) {
    errno = ENOSPC;
    return -1;
  }
  ssize_t done = REAL(pwrite)(fd, data, n, at);
  if (done > 0 && s.room >= 0) s.room -= done;
  char text[4097];
  for (ssize_t i = 0; i < done; i += 2048) {
    int part = done - i < 2048 ? (int)(done - i) : 2048;
    for (int k = 0; k < part; k++) sprintf(text + 2 * k, "%02x", ((const unsigned char *)data)[i + k]);
    note("write %d %lld %s\n", s.file_of[fd], (long long)(at + i), text);
  }
  return done;
}

int posix_fallocate(int fd, off_t at, off_t n) {
  if (strikes_file("allocate", fd)) return errno;
  if (s.room >= 0) return EOPNOTSUPP;   // else the full disk would be told here already
  int status = REAL(posix_fallocate)(fd, at, n);
  if (!status && followed(fd)) note("size %d %lld\n", s.file_of[fd], (long long)(at + n));
  return status;
}

int ftruncate(int fd, off_t n) {
  read_settings();
  if (s.call && strcmp(s.call, "truncate") == 0 && strikes_file("truncate", fd)) return -1;
  int status = REAL(ftruncate)(fd, n);
  if (!status && followed(fd)) note("size %d %lld\n", s.file_of[fd], (long long)n);
  return status;
}

int fsync(int fd) {
  bool folder = fd >= 0 && fd < MAX_FDS && s.is_folder[fd];
  if (strikes(folder ? "sync_folder" : "sync")) return -1;
  int status = REAL(fsync)(fd);
  if (!status && folder) note("sync_folder\n");
  else if (!status && followed(fd)) note("sync %d\n", s.file_of[fd]);
  return status;
}

int fchmod(int fd, mode_t mode) { return strikes("chmod") ? -1 : REAL(fchmod)(fd, mode); }

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
  if (strikes("link")) return -1;
  int status = REAL(linkat)(from_folder, from, to_folder, to, flags);
  bool nameless = strncmp(from, "/proc/self/fd/", 14) == 0;
  if (!status && nameless) note("link_file %d %s\n", s.file_of[atoi(from + 14)], to);
  else if (!status) note("link %s %s\n", from, to);
  return status;
}

int rename(const char *from, const char *to) {
  if (strikes("rename")) return -1;
  int status = REAL(rename)(from, to);
  if (!status) note("rename %s %s\n", from, to);
  return status;
}

int unlink(const char *path) {
  int status = REAL(unlink)(path);
  if (!status) note("unlink %s\n", path);
  return status;
}
