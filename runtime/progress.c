// Progress of training: one line that is rewritten on a terminal, plain lines elsewhere.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/runtime.h"
#include "runtime/training.h"

void progress_start(Progress *p, int64_t step, int64_t total, int64_t every, bool quiet) {
  const char *term = getenv("TERM");
  memset(p, 0, sizeof *p);
  p->is_terminal = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
  p->is_quiet = quiet;
  p->start = p->last = seconds_now();
  p->first_step = step;
  p->total_steps = total;
  p->every = every;
  metrics_init_train(&p->sum);
}

static void print_line(Progress *p, int64_t step, double epoch, double epochs, double items_per_step, double now) {
  char left[32];
  double rate = (double)(step - p->first_step) / (now - p->start);
  if (p->is_terminal) fputs("\r\033[K", stdout);
  if (epochs > 0) printf("epoch %.2f/%.4g  ", epoch, epochs);
  printf("step %lld/%lld", (long long)step, (long long)p->total_steps);
  for (int i = 0; i < p->sum.n; i++)
    if (p->sum.weights[i] != 0) printf("  %s %.4f", p->sum.names[i], p->sum.values[i] / p->sum.weights[i]);
  printf("  %.*f items/s  %s left", rate * items_per_step < 100 ? 1 : 0, rate * items_per_step,
         format_seconds((double)(p->total_steps - step) / rate, left, sizeof left));
  if (!p->is_terminal) fputc('\n', stdout);
  report_line_opens(p->is_terminal);
  fflush(stdout);
}

void progress_step(Progress *p, int64_t step, double epoch, double epochs, const Metrics *m, double items_per_step,
                   bool must_print) {
  if (p->is_quiet) return;
  double now = seconds_now();
  metrics_add(&p->sum, m, 1);
  p->weight++;
  bool due = p->is_terminal ? now - p->last > 0.1 : step % p->every == 0;
  if (!due && !must_print) return;
  print_line(p, step, epoch, epochs, items_per_step, now);
  p->last = now;
  // A terminal line shows about the last second; a plain line all since the one before.
  if (!p->is_terminal || p->weight > 20) {
    metrics_reset(&p->sum);
    p->weight = 0;
  }
}

void progress_exclude(Progress *p, double seconds) { p->start += seconds; }

void progress_end(Progress *p) {
  if (report_line_opens(false)) fputc('\n', stdout);
  fflush(stdout);
  metrics_free(&p->sum);
}
