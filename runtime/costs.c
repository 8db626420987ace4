// Measured costs: what each distinct piece of work (NncStep.cost_key) takes, as JSON that `nnc --costs` reads. The time
// of a key is the mean over its steps of their medians over the runs: medians, because other programs disturb; the
// mean, because it is their sum that a plan adds up.
#include <errno.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/output.h"
#include "runtime/runtime.h"

typedef struct Cost {
  const char *key, *label;          // Borrowed
  double seconds, least;            // summed over the calls; median and quickest run
  double flops, bytes, predicted;   // of one
  int calls;
} Cost;

static int compare_floats(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

static int by_key(const void *a, const void *b) { return strcmp(((const Cost *)a)->key, ((const Cost *)b)->key); }

// The time of steps [begin, end), the launches of one call, over the runs.
static void add_times(Cost *cost, const Executor *e, int begin, int end) {
  const float *samples;
  int64_t n = executor_samples(e, begin, &samples);
  if (n == 0) return;
  float *sums = xcalloc((size_t)n, sizeof *sums);
  for (int s = begin; s < end; s++) {
    executor_samples(e, s, &samples);
    for (int64_t i = 0; i < n; i++) sums[i] += samples[i];
  }
  qsort(sums, (size_t)n, sizeof *sums, compare_floats);
  cost->seconds += n % 2 ? sums[n / 2] : ((double)sums[n / 2 - 1] + sums[n / 2]) / 2;
  cost->least += sums[0];
  free(sums);
}

// A launch for several calls: its time is divided as their predicted seconds are.
static int add_parts(Cost *costs, int n, const Executor *e, int step, int end) {
  const NncStep *s = &executor_function(e)->steps[step];
  Cost whole = {0};
  if (s->n_parts) add_times(&whole, e, step, end);
  for (int i = 0; i < s->n_parts; i++) {
    const NncPart *p = &s->parts[i];
    double share = s->seconds > 0 ? p->seconds / s->seconds : 1.0 / s->n_parts;
    costs[n++] = (Cost){.key = p->cost_key,
                        .label = s->label,
                        .flops = p->flops,
                        .bytes = p->bytes,
                        .predicted = p->seconds,
                        .calls = 1,
                        .seconds = share * whole.seconds,
                        .least = share * whole.least};
  }
  return n;
}

static int add_calls(Cost *costs, int n, const Executor *e) {
  const NncFunction *f = executor_function(e);
  for (int i = 0, end; i < f->n_steps; i = end) {
    const NncStep *s = &f->steps[i];
    for (end = i + 1; end < f->n_steps && (s->cost_key || s->n_parts) && f->steps[end].buffers == s->buffers; end++) {}
    n = add_parts(costs, n, e, i, end);
    if (!s->cost_key) continue;
    costs[n] = (Cost){.key = s->cost_key,
                      .label = s->label,
                      .flops = s->flops,
                      .bytes = s->bytes,
                      .predicted = s->seconds,
                      .calls = 1};
    add_times(&costs[n++], e, i, end);
  }
  return n;
}

static int merge(Cost *costs, int n) {
  int kept = 0;
  qsort(costs, (size_t)n, sizeof *costs, by_key);
  for (int i = 0; i < n; i++) {
    if (kept > 0 && !strcmp(costs[kept - 1].key, costs[i].key)) {
      costs[kept - 1].seconds += costs[i].seconds;
      costs[kept - 1].least += costs[i].least;
      costs[kept - 1].calls++;
    } else {
      costs[kept++] = costs[i];
    }
  }
  return kept;
}

static void write_string(FILE *out, const char *s) {
  fputc('"', out);
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') fprintf(out, "\\%c", *s);
    else if ((unsigned char)*s < 0x20) fprintf(out, "\\u%04x", *s);
    else fputc(*s, out);
  }
  fputc('"', out);
}

static void write_costs(FILE *out, const Cost *costs, int n) {
  fputs("{ \"format\": \"nnc-costs 1\",\n  \"model\": ", out);
  write_string(out, nnc_program.model);
  fputs(", \"compiler\": ", out);
  write_string(out, nnc_program.compiler);
  fputs(", \"target\": ", out);
  write_string(out, nnc_program.target);
  fputs(", \"cpu\": ", out);
  write_string(out, nnc_program.cpu);
  fprintf(out, ", \"threads\": %d,\n  \"costs\": [", omp_get_max_threads());
  for (int i = 0; i < n; i++) {
    fputs(i ? ",\n    {\"key\": " : "\n    {\"key\": ", out);
    write_string(out, costs[i].key);
    fprintf(out,
            ", \"seconds\": %.6g, \"least\": %.6g, \"predicted\": %.6g, \"calls\": %d, \"flops\": %.6g, \"bytes\": "
            "%.6g, \"label\": ",
            costs[i].seconds / costs[i].calls, costs[i].least / costs[i].calls, costs[i].predicted, costs[i].calls,
            costs[i].flops, costs[i].bytes);
    write_string(out, costs[i].label ? costs[i].label : "");
    fputs("}", out);
  }
  fputs("\n  ] }\n", out);
}

static bool write_file(const char *path, const Cost *costs, int n) {
  bool special = output_is_special(path);   // a terminal or a pipe behind /dev/stdout: nothing to rename over
  char *real = output_real_name(path),
       *temporary = special ? xstrdup(path) : xasprintf("%s.%ld.tmp", real, (long)getpid());
  FILE *out = fopen(temporary, "w");
  bool ok = out != NULL;
  if (out) {
    write_costs(out, costs, n);
    ok = !ferror(out);
    ok &= fclose(out) == 0;
    ok = ok && (special || rename(temporary, real) == 0);
  }
  if (!ok) report_error("cannot write '%s': %s", path, strerror(errno));
  if (!ok && out && !special) unlink(temporary);
  free(temporary);
  free(real);
  return ok;
}

static size_t calls_of(const NncFunction *f) {
  size_t n = (size_t)f->n_steps;
  for (int i = 0; i < f->n_steps; i++) n += (size_t)f->steps[i].n_parts;
  return n;
}

bool costs_write(const char *path, int n, Executor *const *executors) {
  size_t total = 0;
  for (int i = 0; i < n; i++) total += calls_of(executor_function(executors[i]));
  Cost *costs = xcalloc(total, sizeof *costs);
  int used = 0;
  for (int i = 0; i < n; i++) used = add_calls(costs, used, executors[i]);
  used = merge(costs, used);
  bool ok = write_file(path, costs, used);
  if (ok) printf("costs           %d kernels and library operations in %s\n", used, path);
  free(costs);
  return ok;
}
