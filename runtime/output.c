// Names of files that are renamed into place when they are complete; output.h. A rename over a symbolic link would
// replace the link, one over a device the device.
#include "runtime/output.h"
#include "runtime/runtime.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_LINKS 40   // as Linux follows

// Where one link leads, seen from where its own path is. Owned; NULL for what is no link.
static char *follow(const char *path) {
  char target[PATH_MAX];
  ssize_t n = readlink(path, target, sizeof target - 1);
  if (n <= 0) return NULL;
  target[n] = 0;
  const char *slash = strrchr(path, '/');
  int folder = slash && target[0] != '/' ? (int)(slash - path) + 1 : 0;
  return xasprintf("%.*s%s", folder, path, target);
}

char *output_real_name(const char *path) {
  char *name = xstrdup(path);
  for (int i = 0; i < MAX_LINKS; i++) {
    char *real = realpath(name, NULL), *next = real ? real : follow(name);
    if (!next) break;
    free(name);
    name = next;
    if (real) break;
  }
  return name;
}

// Of a file that need not be there: its folder's own name and its name there. Owned; NULL: there is no such folder.
static char *place_of(const char *path) {
  char *name = output_real_name(path), *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
  char *folder = realpath(slash == name ? "/"
                          : slash       ? (*slash = 0, name)
                                        : ".",
                          NULL),
       *place = folder ? xasprintf("%s/%s", folder, last) : NULL;
  free(folder);
  free(name);
  return place;
}

bool output_is_same(const char *path, const char *other) {
  struct stat a, b;
  bool here = stat(path, &a) == 0, there = stat(other, &b) == 0;
  if (here && there) return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
  if (here || there) return false;
  char *place = place_of(path), *other_place = place_of(other);
  bool same = place && other_place && strcmp(place, other_place) == 0;
  free(place);
  free(other_place);
  return same;
}

bool output_is_special(const char *path) {
  struct stat found;
  return stat(path, &found) == 0 && !S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode);
}
