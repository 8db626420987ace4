// Values on the command line.
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "runtime/runtime.h"

bool option_integer(const char *name, const char *text, int64_t least, int64_t *out) {
  char *end;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  if (end == text || *end || errno || v < least) {
    report_error("--%s expects an integer of at least %lld, not \"%s\"", name, (long long)least, text);
    return false;
  }
  *out = v;
  return true;
}

bool option_count(const char *name, const char *text, int least, int *out) {
  int64_t v;
  if (!option_integer(name, text, least, &v)) return false;
  if (v > INT_MAX) {
    report_error("--%s expects an integer of at most %d, not \"%s\"", name, INT_MAX, text);
    return false;
  }
  *out = (int)v;
  return true;
}

bool option_number(const char *name, const char *text, double *out) {
  char *end;
  double v = strtod(text, &end);
  if (end == text || *end || !isfinite(v) || v <= 0) {
    report_error("--%s expects a positive number, not \"%s\"", name, text);
    return false;
  }
  *out = v;
  return true;
}

int option_unknown(const char *command) {
  fprintf(stderr, "Try '%s %s --help' for more information.\n", report_name(), command);
  return EXIT_USAGE;
}
