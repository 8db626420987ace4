// Where the files of a data line are: names and patterns, in the folder that was given or in the default places.
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/runtime.h"

// Where the Debian package dataset-fashion-mnist puts its files.
static const char fashion_mnist_folder[] = "/usr/share/datasets/fashion-mnist";

static char *join(const char *folder, const char *file) {
  return file[0] == '/' ? xstrdup(file) : xasprintf("%s/%s", folder, file);
}

// The folders to look in, in order. places: room for 3.
static int list_places(const char *folder, const char *places[3]) {
  const char *environment = getenv("NNC_DATA");
  int n = 0;
  if (folder) {
    places[n++] = folder;
    return n;
  }
  if (environment && *environment) places[n++] = environment;
  places[n++] = ".";
  places[n++] = fashion_mnist_folder;
  return n;
}

static void add(DataPaths *p, const char *path) {
  p->paths = xrealloc(p->paths, sizeof *p->paths * (size_t)(p->n + 1));
  p->paths[p->n++] = xstrdup(path);
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

// The characters of a pattern stand for themselves in the folder, which is none of it.
static char *escaped(const char *folder) {
  char *text = xmalloc(2 * strlen(folder) + 1), *to = text;
  for (; *folder; folder++) {
    if (strchr("*?[\\", *folder)) *to++ = '\\';
    *to++ = *folder;
  }
  *to = 0;
  return text;
}

static bool add_matches(const char *folder, const char *pattern, DataPaths *out) {
  glob_t found = {0};
  char *plain = escaped(folder), *whole = join(plain, pattern);
  int first = out->n;
  if (glob(whole, GLOB_NOSORT, NULL, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc; i++) add(out, found.gl_pathv[i]);
  globfree(&found);
  free(plain);
  free(whole);
  if (out->n > first) qsort(out->paths + first, (size_t)(out->n - first), sizeof *out->paths, by_bytes);
  return out->n > first;
}

bool data_find(const char *pattern, const char *folder, DataPaths *out) {
  const char *places[3];
  int n = list_places(folder, places);
  for (int i = 0; i < n; i++) {
    char *path = join(places[i], pattern);
    bool there = access(path, F_OK) == 0;
    if (there) add(out, path);
    free(path);
    if (there || (strpbrk(pattern, "*?[") && add_matches(places[i], pattern, out))) return true;
  }
  return false;
}

void data_report_missing(const char *file, const char *folder) {
  const char *places[3], *what = strpbrk(file, "*?[") ? "file like" : "file";
  int n = list_places(folder, places);
  if (file[0] == '/') report_error("no %s %s", what, file);
  else if (folder) report_error("no %s %s in %s", what, file, folder);
  else if (n == 3)
    report_error("no %s %s in %s (NNC_DATA), the current folder or %s; name its folder with --data", what, file,
                 places[0], places[2]);
  else report_error("no %s %s in the current folder or %s; name its folder with --data", what, file, places[1]);
}

void data_paths_free(DataPaths *p) {
  for (int i = 0; i < p->n; i++) free(p->paths[i]);
  free(p->paths);
  *p = (DataPaths){0};
}
