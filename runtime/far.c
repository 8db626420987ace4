// The far arena of a program for the host: a file without a name, so that nothing is left of it however the process
// ends. Its room is taken before the first step. What is read and written passes the page cache by where the file
// system can (O_DIRECT), else it is dropped from there at once: the memory that is saved is not used by the kernel.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/runtime.h"

enum { PIECE = 4 << 20 };   // smaller ones are slower where each takes a round trip, as on virtual disks

struct FarFile {
  int fd;
  char *where;       // Owned; for messages
  bool direct;       // whole blocks only, past the page cache
  bool any_memory;   // that too from and to addresses that begin no block
  char *pieces[2];   // Owned; PIECE bytes that begin a block: of who reads, of who writes
  int64_t end;       // one past the last byte written
};

static int open_in_folder(const char *folder) {
  int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
  char *path = xasprintf("%s/.%s.far.XXXXXX", folder, nnc_program.model);
  fd = mkostemp(path, O_CLOEXEC);
  if (fd >= 0) unlink(path);
  free(path);
  return fd;
}

static int open_named(const char *path) {
  int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) unlink(path);
  return fd;
}

static bool take_room(const FarFile *f, int64_t bytes) {
  char text[32];
  int error;
  do error = posix_fallocate(f->fd, 0, bytes);
  while (error == EINTR);
  if (error)
    report_cause(NNC_ERROR_FILE,
                 "no room for the far arena of %s (%lld bytes) in %s: %s; --far=PATH names another folder",
                 print_bytes(bytes, text, sizeof text), (long long)bytes, f->where, strerror(error));
  return !error;
}

// Where memory may begin differs from device to device; that a block is written tells.
static void pass_cache_by(FarFile *f) {
  int flags = fcntl(f->fd, F_GETFL);
  memset(f->pieces[1], 0, 2 * FAR_BLOCK);
  f->direct = flags >= 0 && fcntl(f->fd, F_SETFL, flags | O_DIRECT) == 0;
  if (f->direct && pwrite(f->fd, f->pieces[1], FAR_BLOCK, 0) != FAR_BLOCK)
    f->direct = fcntl(f->fd, F_SETFL, flags) != 0;
  f->any_memory = f->direct && pwrite(f->fd, f->pieces[1] + NNC_ALIGN, FAR_BLOCK, 0) == FAR_BLOCK;
}

FarFile *far_open(const char *path, int64_t bytes) {
  struct stat s;
  FarFile *f = xcalloc(1, sizeof *f);
  bool there = stat(path, &s) == 0;
  if (there && !S_ISDIR(s.st_mode)) errno = EEXIST;
  f->where = xstrdup(path);
  f->fd = !there ? open_named(path) : S_ISDIR(s.st_mode) ? open_in_folder(path) : -1;
  if (f->fd < 0) {
    report_cause(NNC_ERROR_FILE,
                 "cannot make a file for the far arena %s %s: %s; --far=PATH names another folder, or a file that is "
                 "not there",
                 there && S_ISDIR(s.st_mode) ? "in" : "at", path, strerror(errno));
    far_close(f);
    return NULL;
  }
  for (int i = 0; i < 2; i++)
    if (posix_memalign((void **)&f->pieces[i], FAR_BLOCK, PIECE)) f->pieces[i] = NULL;
  if (!f->pieces[0] || !f->pieces[1]) report_cause(NNC_ERROR_MEMORY, "no memory to read and write the far arena");
  if (!f->pieces[0] || !f->pieces[1] || !take_room(f, bytes)) {
    far_close(f);
    return NULL;
  }
  pass_cache_by(f);
  return f;
}

void far_close(FarFile *f) {
  if (!f) return;
  if (f->fd >= 0) close(f->fd);
  free(f->pieces[0]);
  free(f->pieces[1]);
  free(f->where);
  free(f);
}

// Exactly `bytes`, of whole blocks where the file asks for that.
static bool move_bytes(const FarFile *f, bool writes, int64_t offset, char *memory, int64_t bytes) {
  for (int64_t done = 0; done < bytes;) {
    size_t rest = (size_t)(bytes - done);
    ssize_t n = writes ? pwrite(f->fd, memory + done, rest, offset + done)
                       : pread(f->fd, memory + done, rest, offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n > 0 && f->direct && n < (ssize_t)rest) n = n / FAR_BLOCK * FAR_BLOCK;
    if (n <= 0) {
      report_error("far arena: cannot %s %lld bytes at byte %lld of the file in %s: %s", writes ? "write" : "read",
                   (long long)(bytes - done), (long long)(offset + done), f->where,
                   n < 0 ? strerror(errno) : "no more bytes are there");
      return false;
    }
    done += n;
  }
  if (f->direct) return true;
  if (writes)
    sync_file_range(f->fd, offset, bytes,
                    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  posix_fadvise(f->fd, offset, bytes, POSIX_FADV_DONTNEED);
  return true;
}

// Through a piece of its own, from the block that `offset` is in. Returns the bytes moved, -1 after reporting.
static int64_t move_piece(const FarFile *f, bool writes, int64_t offset, char *memory, int64_t bytes) {
  char *piece = f->pieces[writes];
  int64_t skip = offset % FAR_BLOCK, n = bytes < PIECE - skip ? bytes : PIECE - skip, all = far_blocks(skip + n);
  if (writes) {
    memcpy(piece, memory, (size_t)n);
    memset(piece + n, 0, (size_t)(all - n));
  }
  if (!move_bytes(f, writes, offset - skip, piece, all)) return -1;
  if (!writes) memcpy(memory, piece + skip, (size_t)n);
  return n;
}

static bool move_all(const FarFile *f, bool writes, int64_t offset, char *memory, int64_t bytes) {
  while (bytes > 0) {
    bool aligned = offset % FAR_BLOCK == 0 && (f->any_memory || (uintptr_t)memory % FAR_BLOCK == 0);
    int64_t n = !f->direct ? bytes : aligned ? bytes / FAR_BLOCK * FAR_BLOCK : 0;
    if (n > 0 && !move_bytes(f, writes, offset, memory, n)) return false;
    if (n == 0) n = move_piece(f, writes, offset, memory, bytes);
    if (n < 0) return false;
    offset += n, memory += n, bytes -= n;
  }
  return true;
}

bool far_read(const FarFile *f, int64_t offset, void *to, int64_t bytes) {
  return move_all(f, false, offset, to, bytes);
}

bool far_write(FarFile *f, int64_t offset, const void *from, int64_t bytes) {
  if (offset % FAR_BLOCK) report_internal("the far arena is written at byte %lld", (long long)offset);
  if (!move_all(f, true, offset, (char *)(uintptr_t)from, bytes)) return false;   // only read
  if (offset + bytes > f->end) f->end = offset + bytes;
  return true;
}

int64_t far_written_end(const FarFile *f) { return far_blocks(f->end); }
