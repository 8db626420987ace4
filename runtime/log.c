// The training log: one JSON object a line, written and flushed as it happens, so that another program can follow it.
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/runtime.h"
#include "runtime/training.h"

static bool cut_at(const char *path, int fd, off_t bytes) {
  if (ftruncate(fd, bytes) == 0) return true;
  report_error("cannot write %s: %s", path, strerror(errno));
  return false;
}

// Cuts off the records of steps after `last`, and a line that was not written to its end.
static bool cut_log(const char *path, int fd, int64_t last) {
  FILE *f = fopen(path, "r");
  struct stat st;
  if (!f || fstat(fileno(f), &st) != 0 || !S_ISREG(st.st_mode)) {
    if (f) fclose(f);
    return true;   // none yet, or nothing that can be cut
  }
  static const char begin[] = "{\"kind\":\"", step[] = "\"step\":";
  char *line = NULL;
  size_t size = 0;
  off_t keep = 0;
  bool ok = true;
  for (ssize_t n; (n = getline(&line, &size, f)) > 0; keep += n) {
    const char *number = strstr(line, step);
    size_t compared = (size_t)n < strlen(begin) ? (size_t)n : strlen(begin);   // perhaps the line was cut short
    ok = strncmp(line, begin, compared) == 0;
    if (!ok || line[n - 1] != '\n' || !number || strtoll(number + strlen(step), NULL, 10) > last) break;
  }
  free(line);
  fclose(f);
  if (!ok) report_error("%s holds something else than a training log: give another --log", path);
  return ok && (keep == st.st_size || cut_at(path, fd, keep));
}

bool log_open(Log *log, const char *path, int64_t resumed) {
  *log = (Log){0};
  if (!path) return true;
  if (strcmp(path, "-") == 0) {
    log->file = stdout;
    return true;
  }
  struct stat st;
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  log->file = fd >= 0 ? fdopen(fd, "a") : NULL;
  if (!log->file) {
    report_error("cannot write %s: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    return false;
  }
  bool regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
  if (file_hold(fd, path, "--log") && (resumed >= 0 ? cut_log(path, fd, resumed) : !regular || cut_at(path, fd, 0)))
    return true;
  fclose(log->file);
  log->file = NULL;
  return false;
}

// JSON has no NaN and no infinity.
static void put_number(FILE *f, const char *key, double v) {
  if (isfinite(v)) fprintf(f, ",\"%s\":%.9g", key, v);
  else fprintf(f, ",\"%s\":null", key);
}

static void put_metrics(FILE *out, const Metrics *m) {
  for (int i = 0; i < m->n; i++)
    if (m->weights[i] != 0) put_number(out, m->names[i], m->values[i]);
}

void log_evaluation(FILE *out, const Metrics *m, int64_t records) {
  fputs("{\"kind\":\"eval\"", out);
  put_metrics(out, m);
  fprintf(out, ",\"records\":%lld}\n", (long long)records);
}

void log_record(Log *log, const char *kind, int64_t step, double epoch, const Metrics *m, const double *rates,
                double seconds) {
  if (!log->file) return;
  fprintf(log->file, "{\"kind\":\"%s\",\"step\":%lld", kind, (long long)step);
  put_number(log->file, "epoch", epoch);
  put_metrics(log->file, m);
  for (int i = 0; rates && i < program_phases(); i++) {
    const char *phase = program_phase(i).name;
    char *key = xasprintf("%s%slr", phase, *phase ? "." : "");
    if (rates[i] > -1) put_number(log->file, key, rates[i]);
    free(key);
  }
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
