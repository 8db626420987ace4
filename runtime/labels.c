// Names of classes and tokens: from the program's `labels`, or a file with one on each line. With them scores become
// words: the likeliest classes of a record, the text of a token.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/runtime.h"
#include "runtime/training.h"

// \n, \t and \\ of a line, in place: a token may be the end of a line.
static void unescape(char *s) {
  char *to = s;
  for (; *s; s++) {
    if (*s == '\\' && s[1] && strchr("nt\\", s[1])) *to++ = s[1] == 'n' ? '\n' : s[1] == 't' ? '\t' : '\\', s++;
    else *to++ = *s;
  }
  *to = 0;
}

static bool read_lines(FILE *f, Labels *l) {
  char *line = NULL;
  size_t size = 0;
  int capacity = 0;
  for (ssize_t n; (n = getline(&line, &size, f)) >= 0;) {
    if (n > 0 && line[n - 1] == '\n') line[--n] = 0;
    if (n > 0 && line[n - 1] == '\r') line[--n] = 0;
    unescape(line);
    if (l->n == capacity) {
      capacity = capacity ? 2 * capacity : 64;
      l->names = xrealloc(l->names, sizeof *l->names * (size_t)capacity);
    }
    l->names[l->n++] = xstrdup(line);
  }
  free(line);
  return !ferror(f);
}

bool labels_open(Labels *l, const char *path) {
  memset(l, 0, sizeof *l);
  if (!path) {
    l->n = nnc_program.n_labels;
    l->names = xcalloc((size_t)l->n, sizeof *l->names);
    for (int i = 0; i < l->n; i++) l->names[i] = xstrdup(nnc_program.labels[i]);
    return true;
  }
  int fd = open_to_read(path);
  if (fd < 0) return false;
  FILE *f = fdopen(fd, "r");
  bool ok = f && read_lines(f, l);
  if (!ok) report_error("cannot read %s: %s", path, strerror(errno));
  if (f) fclose(f);
  else close(fd);
  if (ok && l->n == 0) {
    report_error("%s names nothing: expected a name on each line", path);
    ok = false;
  }
  if (!ok) labels_close(l);
  return ok;
}

void labels_close(Labels *l) {
  for (int i = 0; i < l->n; i++) free(l->names[i]);
  free(l->names);
  memset(l, 0, sizeof *l);
}

bool labels_check(const Labels *l, int64_t classes) {
  if (l->n == 0 || l->n == classes) return true;
  report_error("%d labels, the model has %lld classes", l->n, (long long)classes);
  return false;
}

void softmax_in_place(double *p, int64_t n, double temperature) {
  double top = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; i++) top = p[i] > top ? p[i] : top;
  for (int64_t i = 0; i < n; i++) sum += p[i] = exp((p[i] - top) / temperature);
  for (int64_t i = 0; i < n; i++) p[i] /= sum;
}

// The largest that comes after `last` in the order of falling probability, equal ones by number; last -1: the first.
// -1: there is none, or they are no numbers.
int64_t next_likeliest(const double *p, int64_t n, int64_t last) {
  int64_t best = -1;
  for (int64_t i = 0; i < n; i++) {
    bool after = last < 0 || p[i] < p[last] || (p[i] == p[last] && i > last);
    if (after && !isnan(p[i]) && (best < 0 || p[i] > p[best])) best = i;
  }
  return best;
}

void print_classes(const Labels *l, int64_t record, double *scores, int64_t classes, int64_t count) {
  softmax_in_place(scores, classes, 1);
  printf("%lld:", (long long)record);
  for (int64_t k = 0, class = -1; k < count && k < classes; k++) {
    class = next_likeliest(scores, classes, class);
    if (class < 0 && k == 0) printf(" the scores are not finite numbers");
    if (class < 0) break;
    printf("%s %lld%s%s %.4f", k ? "," : "", (long long)class, l->n ? " " : "", l->n ? l->names[class] : "",
           scores[class]);
  }
  putchar('\n');
}
