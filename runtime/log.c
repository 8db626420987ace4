// The training log: one JSON object a line, written and flushed as it happens, so that another program can follow it.
#include <errno.h>
#include <math.h>
#include <string.h>

#include "runtime/runtime.h"

bool log_open(Log *log, const char *path, bool append) {
  *log = (Log){0};
  if (!path) return true;
  log->file = strcmp(path, "-") == 0 ? stdout : fopen(path, append ? "a" : "w");
  if (!log->file) report_error("cannot write %s: %s", path, strerror(errno));
  return log->file != NULL;
}

// JSON has no NaN and no infinity.
static void put_number(FILE *f, const char *key, double v) {
  if (isfinite(v)) fprintf(f, ",\"%s\":%.9g", key, v);
  else fprintf(f, ",\"%s\":null", key);
}

void log_record(Log *log, const char *kind, int64_t step, double epoch, const Metrics *m, double rate, double seconds) {
  if (!log->file) return;
  fprintf(log->file, "{\"kind\":\"%s\",\"step\":%lld", kind, (long long)step);
  put_number(log->file, "epoch", epoch);
  for (int i = 0; i < m->n; i++) put_number(log->file, m->names[i], m->values[i]);
  if (rate >= 0) put_number(log->file, "lr", rate);
  put_number(log->file, "seconds", seconds);
  fputs("}\n", log->file);
  if (fflush(log->file) != 0 && !log->error) log->error = errno;
}

bool log_close(Log *log) {
  if (!log->file) return true;
  if (log->file != stdout && fclose(log->file) != 0 && !log->error) log->error = errno;
  log->file = NULL;
  if (log->error) report_error("the log could not be written completely: %s", strerror(log->error));
  return !log->error;
}
