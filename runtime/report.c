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

static bool line_open;   // what the terminal shows now
static _Thread_local Listener *listener;
static _Thread_local jmp_buf *escape;

bool report_line_opens(bool opens) {
  bool was = line_open;
  line_open = opens;
  return was;
}

void report_clear_line(void) {
  if (!report_line_opens(false)) return;
  fputs("\r\033[K", stdout);
  fflush(stdout);
}

Listener *report_listen(Listener *l) {
  Listener *before = listener;
  listener = l;
  return before;
}

Listener *report_listener(void) { return listener; }

jmp_buf *report_give_up_to(jmp_buf *to) {
  jmp_buf *before = escape;
  escape = to;
  return before;
}

static void report(const char *kind, nnc_status cause, const char *format, va_list args) {
  if (listener) {
    char text[2048];   // nothing is allocated: there may be no memory
    vsnprintf(text, sizeof text, format, args);
    if (cause && !listener->cause) listener->cause = cause;
    listener->hear(listener, strcmp(kind, "warning") != 0, text);
    return;
  }
  report_clear_line();
  fflush(stdout);
  char *text = NULL;
  if (vasprintf(&text, format, args) < 0) text = NULL;
  fprintf(stderr, "%s: %s: %s\n", name, kind, text ? text : format);   // one write: other ranks' go to the same place
  free(text);
}

#define REPORT(kind, cause)            \
  va_list args;                        \
  va_start(args, format);              \
  report(kind, (cause), format, args); \
  va_end(args)

void report_error(const char *format, ...) { REPORT("error", NNC_OK); }

void report_cause(nnc_status cause, const char *format, ...) { REPORT("error", cause); }

void report_warning(const char *format, ...) { REPORT("warning", NNC_OK); }

static _Noreturn void give_up(int status) {
  if (escape) longjmp(*escape, 1);
  exit(status);
}

void report_internal(const char *format, ...) {
  REPORT("internal error", NNC_ERROR_INTERNAL);
  give_up(EXIT_INTERNAL);
}

static void *need_memory(void *p, size_t bytes) {
  char text[32];
  if (p) return p;
  report_cause(NNC_ERROR_MEMORY, "out of memory: cannot get %s", print_bytes((int64_t)bytes, text, sizeof text));
  give_up(EXIT_DIAGNOSTIC);
}

void *xmalloc(size_t bytes) { return need_memory(malloc(bytes ? bytes : 1), bytes); }

void *xrealloc(void *p, size_t bytes) { return need_memory(realloc(p, bytes ? bytes : 1), bytes); }

void *xcalloc(size_t n, size_t bytes) { return need_memory(calloc(n ? n : 1, bytes), n * bytes); }

char *xstrdup(const char *s) { return strcpy(xmalloc(strlen(s) + 1), s); }

char *xasprintf(const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *out = NULL;
  if (vasprintf(&out, format, args) < 0) out = NULL;
  va_end(args);
  return need_memory(out, strlen(format));
}

// Letters that two names have in common at their starts and ends: "fc.weight" is near "fc1.weight".
static int likeness(const char *x, const char *y) {
  size_t n = strlen(x), m = strlen(y), shorter = n < m ? n : m, start = 0, end = 0;
  while (start < shorter && x[start] == y[start]) start++;
  while (end < shorter - start && x[n - 1 - end] == y[m - 1 - end]) end++;
  return (int)(start + end);
}

void report_absent(const char *path, const char *what, const char *name, const char *detail, int n_names,
                   const char *const *names) {
  enum { SHOWN = 8 };
  int nearest[SHOWN], n = 0;
  for (int i = 0; i < n_names; i++) {   // the nearest first, else in the order of the file
    int at = n < SHOWN ? n++ : SHOWN, like = likeness(name, names[i]);
    for (; at > 0 && likeness(name, names[nearest[at - 1]]) < like; at--)
      if (at < SHOWN) nearest[at] = nearest[at - 1];
    if (at < SHOWN) nearest[at] = i;
  }
  char *shown = xstrdup(n ? "" : "none");
  for (int i = 0; i < n; i++) {
    char *longer = xasprintf("%s%s%s", shown, i ? ", " : "", names[nearest[i]]);
    free(shown);
    shown = longer;
  }
  char *more = n_names > n ? xasprintf(" and %d more", n_names - n) : xstrdup("");
  report_error("%s has no %s %s%s; it has %s%s", path, what, name, detail, shown, more);
  free(more);
  free(shown);
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
