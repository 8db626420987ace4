// What a training owns beside its checkpoint: the lock that keeps a second one away, also of its log and events, and
// the checkpoints of earlier steps (--keep).
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "runtime/output.h"
#include "runtime/runtime.h"

// ---------------------------------------------------------------------------------------------------------------------
// The lock: a file of its own, since the checkpoint is a new one after each save. It is removed while its lock is held,
// so that whoever gets the lock looks whether the path still leads to the same file. An empty one that was there before
// may be anybody's: it serves as the lock, as it is, and stays.

static const char OTHER_SAVE[] = "give this one another --save", OTHER_FILE[] = "write another file";

static bool is_same_file(int fd, const char *path) {
  struct stat held, found;
  return fstat(fd, &held) == 0 && stat(path, &found) == 0 && held.st_dev == found.st_dev && held.st_ino == found.st_ino;
}

// The process that has the file's lock, as Linux lists them: "1: FLOCK  ADVISORY  WRITE 3055 fe:00:11092594 0 EOF". 0:
// not found.
static long long holder_of(const struct stat *st) {
  FILE *f = fopen("/proc/locks", "re");
  char line[256];
  long long pid, found = 0;
  unsigned major, minor;
  unsigned long long inode;
  while (f && !found && fgets(line, sizeof line, f))
    if (sscanf(line, "%*d: FLOCK %*s WRITE %lld %x:%x:%llu", &pid, &major, &minor, &inode) == 4 &&
        inode == (unsigned long long)st->st_ino && makedev(major, minor) == st->st_dev)
      found = pid;
  if (f) fclose(f);
  return found;
}

static void report_holder(const char *path, int fd, const char *instead) {
  struct stat st;
  char text[32];
  ssize_t n = pread(fd, text, sizeof text - 1, 0);
  text[n > 0 ? n : 0] = 0;
  long long pid = *text || fstat(fd, &st) != 0 ? 0 : holder_of(&st);
  if (pid > 0) snprintf(text, sizeof text, "%lld", pid);
  report_error("%s belongs to a training that is running: process %s; %s", path, *text ? strtok(text, "\n") : "unknown",
               instead);
}

// A training's, also of one that was killed: the number of its process, or nothing where the disk was full.
static bool is_lock(int fd) {
  struct stat st;
  char text[64] = "";
  ssize_t n = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? pread(fd, text, sizeof text - 1, 0) : -1;
  return n >= 0 && n < (ssize_t)sizeof text - 1 && (size_t)n == strspn(text, "0123456789\n");
}

static bool is_empty(int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 && st.st_size == 0;
}

static int open_lock(const char *path, bool *made) {
  for (;;) {
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    *made = fd >= 0;
    if (fd >= 0 || errno != EEXIST) return fd;
    fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 || errno != ENOENT) return fd;
  }
}

char *checkpoint_lock_path(const char *path) {
  char *real = output_real_name(path), *lock = xasprintf("%s.lock", real);
  free(real);
  return lock;
}

// Whether a training has the lock at `lock`; then that is told of its file `path`. lock: Owned, which is freed.
static bool is_held(char *lock, const char *path, const char *instead) {
  int fd = open(lock, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  bool held = fd >= 0 && is_lock(fd) && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (held) report_holder(path, fd, instead);
  if (fd >= 0) close(fd);
  free(lock);
  return held;
}

static const char *name_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

// Whether the training of that checkpoint may write the path beside it.
static bool is_beside(const char *checkpoint, const char *path) {
  char *best = path_beside(checkpoint, ".best"), *nan = path_beside(checkpoint, ".nan");
  bool beside = strcmp(path, best) == 0 || strcmp(path, nan) == 0 || kept_step(name_of(checkpoint), name_of(path)) >= 0;
  free(best);
  free(nan);
  return beside;
}

// Of "m.best.safetensors" the checkpoints "m.safetensors" and "m", of "m.safetensors.lock" the lock itself. given: how
// the user calls the path.
static bool beside_is_held(const char *path, const char *given, const char *instead) {
  const char *name = name_of(path), *end = strrchr(name, '.');
  if (end && strcmp(end, ".lock") == 0) return is_held(xstrdup(path), given, instead);
  if (!end || strcmp(end, ".safetensors") != 0) return false;
  while (end > name && *--end != '.') continue;
  if (end == name) return false;
  bool held = false;
  for (int i = 0; i < 2 && !held; i++) {
    char *checkpoint = xasprintf("%.*s%s", (int)(end - path), path, i ? "" : ".safetensors");
    held = is_beside(checkpoint, path) && is_held(checkpoint_lock_path(checkpoint), given, instead);
    free(checkpoint);
  }
  return held;
}

// Whether it lies beside the checkpoint of a training that is running, or leads there.
static bool is_companion(const char *path, const char *instead) {
  char *real = output_real_name(path);
  bool held = beside_is_held(real, path, instead) || (strcmp(real, path) != 0 && beside_is_held(path, path, instead));
  free(real);
  return held;
}

bool checkpoint_lock(const char *path, CheckpointLock *lock) {
  char pid[32];
  bool made;
  if (is_companion(path, OTHER_SAVE)) return false;
  lock->path = checkpoint_lock_path(path);
  for (;;) {
    lock->fd = open_lock(lock->path, &made);
    if (lock->fd < 0) {
      report_error("cannot write %s: %s", lock->path, strerror(errno));
      break;
    }
    if (!is_lock(lock->fd)) {
      report_error("%s is in the way of the lock of %s and is none: it is left alone; move it, or write another file",
                   lock->path, path);
      break;
    }
    bool locked = flock(lock->fd, LOCK_EX | LOCK_NB) == 0;
    int error = errno;
    lock->stays = !made && is_empty(lock->fd);
    if (!locked) {
      if (error != EWOULDBLOCK) return true;   // a file system without locks
      report_holder(path, lock->fd, OTHER_SAVE);
      break;
    }
    if (is_same_file(lock->fd, lock->path)) {
      if (lock->stays) return true;
      int n = snprintf(pid, sizeof pid, "%lld\n", (long long)getpid());
      // on a full disk it stays empty, and the holder unknown
      bool named = ftruncate(lock->fd, 0) == 0 && pwrite(lock->fd, pid, (size_t)n, 0) == n;
      (void)named;
      return true;
    }
    close(lock->fd);
  }
  if (lock->fd >= 0) close(lock->fd);
  free(lock->path);
  *lock = (CheckpointLock){.fd = -1};
  return false;
}

bool checkpoint_unused(const char *path) { return !is_held(checkpoint_lock_path(path), path, OTHER_SAVE); }

bool checkpoint_spared(const char *path) {
  return !path || !(is_held(checkpoint_lock_path(path), path, OTHER_FILE) || is_companion(path, OTHER_FILE));
}

void checkpoint_unlock(CheckpointLock *lock) {
  if (!lock->path) return;
  if (!lock->stays) unlink(lock->path);
  close(lock->fd);
  free(lock->path);
  *lock = (CheckpointLock){.fd = -1};
}

bool file_hold(int fd, const char *path, const char *option) {
  struct stat st;
  char process[32] = "";
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
    return true;
  long long pid = holder_of(&st);
  if (pid > 0) snprintf(process, sizeof process, ": process %lld", pid);
  report_error("%s is written by a training that is running%s; give this one another %s", path, process, option);
  return false;
}

// ---------------------------------------------------------------------------------------------------------------------
// Checkpoints of earlier steps

char *path_beside(const char *path, const char *what) {
  size_t n = strlen(path), suffix = strlen(".safetensors");
  bool has_suffix = n > suffix && strcmp(path + n - suffix, ".safetensors") == 0;
  return xasprintf("%.*s%s.safetensors", (int)(has_suffix ? n - suffix : n), path, what);
}

char *kept_beside(const char *path) {
  struct stat st;
  return lstat(path, &st) == 0 && S_ISLNK(st.st_mode) ? output_real_name(path) : xstrdup(path);
}

char *kept_path(const char *path, int64_t step) {
  char what[40];
  snprintf(what, sizeof what, ".step%lld", (long long)step);
  return path_beside(path, what);
}

int64_t kept_step(const char *path, const char *name) {
  const char *digits = NULL;   // behind the last one: the checkpoint's own name may have another
  for (const char *p = name; (p = strstr(p, ".step")); digits = p) p += strlen(".step");
  int64_t step = digits ? strtoll(digits, NULL, 10) : -1;
  char *expected = kept_path(name_of(path), step);
  bool same = step >= 0 && strcmp(expected, name) == 0;
  free(expected);
  return same ? step : -1;
}

static int by_step(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static void append(KeptCheckpoints *k, int64_t step) {
  k->steps = xrealloc(k->steps, sizeof *k->steps * (size_t)(k->n + 1));
  k->steps[k->n++] = step;
}

void kept_find(KeptCheckpoints *k, const char *path, int64_t last, bool is_last) {
  const char *slash = strrchr(path, '/');
  char *folder = slash ? xasprintf("%.*s", (int)(slash - path) + 1, path) : xstrdup("./");
  DIR *d = opendir(folder);
  for (struct dirent *entry; d && (entry = readdir(d));) {
    int64_t step = kept_step(path, entry->d_name);
    if (step >= 0 && step <= last) append(k, step);
  }
  if (d) closedir(d);
  if (k->n) qsort(k->steps, (size_t)k->n, sizeof *k->steps, by_step);
  free(folder);
  // The last one has no second name where its training was killed before it gave it one.
  if (is_last && (!k->n || k->steps[k->n - 1] != last)) kept_add(k, path, last, INT_MAX);
}

bool kept_add(KeptCheckpoints *k, const char *path, int64_t step, int64_t most) {
  char *kept = kept_path(path, step);
  bool ok = (unlink(kept) == 0 || errno == ENOENT) && linkat(AT_FDCWD, path, AT_FDCWD, kept, AT_SYMLINK_FOLLOW) == 0;
  if (!ok) report_error("cannot link %s to %s: %s", kept, path, strerror(errno));
  free(kept);
  if (!ok) return false;
  if (!k->n || k->steps[k->n - 1] != step) append(k, step);
  int drop = k->n > most ? k->n - (int)most : 0;
  for (int i = 0; i < drop; i++) {
    char *old = kept_path(path, k->steps[i]);
    unlink(old);
    free(old);
  }
  memmove(k->steps, k->steps + drop, sizeof *k->steps * (size_t)(k->n - drop));
  k->n -= drop;
  return true;
}
