// Messages, memory that cannot fail quietly, and how shapes and times are written.
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

static const char *name = "nnc-program";

void report_set_name(const char *argv0) {
  const char *slash = strrchr(argv0, '/');
  name = slash ? slash + 1 : argv0;
}

const char *report_name(void) { return name; }

void report_set_rank(int rank) { name = xasprintf("%s[%d]", name, rank); }

static void report(const char *kind, const char *format, va_list args) {
  progress_clear();
  fflush(stdout);
  char *text = NULL;
  if (vasprintf(&text, format, args) < 0) text = NULL;
  fprintf(stderr, "%s: %s: %s\n", name, kind, text ? text : format);   // one write: other ranks' go to the same place
  free(text);
}

void report_error(const char *format, ...) {
  va_list args;
  va_start(args, format);
  report("error", format, args);
  va_end(args);
}

void report_warning(const char *format, ...) {
  va_list args;
  va_start(args, format);
  report("warning", format, args);
  va_end(args);
}

void report_internal(const char *format, ...) {
  va_list args;
  va_start(args, format);
  report("internal error", format, args);
  va_end(args);
  exit(EXIT_INTERNAL);
}

void *xmalloc(size_t bytes) {
  void *p = malloc(bytes ? bytes : 1);
  if (!p) {
    char text[32];
    report_error("out of memory: cannot get %s", print_bytes((int64_t)bytes, text, sizeof text));
    exit(EXIT_DIAGNOSTIC);
  }
  return p;
}

void *xrealloc(void *p, size_t bytes) {
  void *q = realloc(p, bytes ? bytes : 1);
  if (!q) {
    char text[32];
    report_error("out of memory: cannot get %s", print_bytes((int64_t)bytes, text, sizeof text));
    exit(EXIT_DIAGNOSTIC);
  }
  return q;
}

void *xcalloc(size_t n, size_t bytes) {
  void *p = calloc(n ? n : 1, bytes);
  if (!p) {
    report_error("out of memory");
    exit(EXIT_DIAGNOSTIC);
  }
  return p;
}

char *xstrdup(const char *s) { return strcpy(xmalloc(strlen(s) + 1), s); }

char *xasprintf(const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *out = NULL;
  if (vasprintf(&out, format, args) < 0) {
    report_error("out of memory");
    exit(EXIT_DIAGNOSTIC);
  }
  va_end(args);
  return out;
}

const char *format_shape(int rank, const int64_t *dim, char *buf, size_t size) {
  size_t at = 0;
  at += (size_t)snprintf(buf, size, "[");
  for (int i = 0; i < rank && at < size; i++)
    at += (size_t)snprintf(buf + at, size - at, "%s%lld", i ? ", " : "", (long long)dim[i]);
  if (at < size) snprintf(buf + at, size - at, "]");
  return buf;
}

const char *format_seconds(double seconds, char *buf, size_t size) {
  long long s = seconds < 0 || seconds > 1e9 ? 0 : (long long)(seconds + 0.5);
  if (s >= 3600) snprintf(buf, size, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  else snprintf(buf, size, "%lld:%02lld", s / 60, s % 60);
  return buf;
}

int64_t resident_peak_bytes(void) {
  FILE *f = fopen("/proc/self/status", "r");
  if (!f) return -1;
  char *line = NULL;
  size_t size = 0;
  long long kib = -1;
  while (getline(&line, &size, f) >= 0)
    if (sscanf(line, "VmHWM: %lld kB", &kib) == 1) break;
  free(line);
  fclose(f);
  return kib < 0 ? -1 : kib * 1024;
}
