// Learning rate of a step, and the table of hyper-parameters that a step reads.
#include <math.h>
#include <string.h>

#include "runtime/comm/comm.h"
#include "runtime/runtime.h"

// Warm-up rises linearly and reaches the full rate at step `warmup`; the rest falls from 1 to the floor. The schedule's
// `min` is a learning rate of group 0; other groups keep their ratio to it.
double schedule_factor(int64_t step, int64_t total) {
  const NncProgram *p = &nnc_program;
  int64_t warmup = p->schedule_warmup;
  if (step < warmup) return (double)(step + 1) / (double)(warmup + 1);
  const char *kind = p->schedule ? p->schedule : "constant";
  double base = p->n_groups > 0 ? p->groups[0].lr : 0, floor_factor = base > 0 ? p->schedule_min / base : 0;
  int64_t span = total - warmup;
  double t = span > 0 ? (double)(step - warmup) / (double)span : 1;
  if (t > 1) t = 1;
  if (strcmp(kind, "cosine") == 0) return floor_factor + (1 - floor_factor) * 0.5 * (1 + cos(3.141592653589793 * t));
  if (strcmp(kind, "linear") == 0) return floor_factor + (1 - floor_factor) * (1 - t);
  if (strcmp(kind, "step") == 0 && p->schedule_every > 0) {
    double f = pow(p->schedule_gamma, (double)((step - warmup) / p->schedule_every));
    return f > floor_factor ? f : floor_factor;
  }
  return 1;
}

double schedule_rate(const NncGroup *g, int64_t step, int64_t total) { return g->lr * schedule_factor(step, total); }

void schedule_fill(double *hyper, int64_t n, int64_t step, int64_t total) {
  for (int i = 0; i < nnc_program.n_groups; i++) {
    const NncGroup *g = &nnc_program.groups[i];
    hyper[3 * i] = schedule_rate(g, step, total);
    hyper[3 * i + 1] = 1 - pow(g->beta1, (double)(step + 1));
    hyper[3 * i + 2] = 1 - pow(g->beta2, (double)(step + 1));
  }
  double micro_batches = (double)(nnc_program.accumulate > 1 ? nnc_program.accumulate : 1) * ranks.size;
  if (n > 3 * nnc_program.n_groups) hyper[3 * nnc_program.n_groups] = 1 / micro_batches;
  if (n > 3 * nnc_program.n_groups + 1) hyper[3 * nnc_program.n_groups + 1] = ranks.rank == ranks.size - 1;
  if (n > 3 * nnc_program.n_groups + 2) hyper[3 * nnc_program.n_groups + 2] = (double)(step + 1);
}

void schedule_set_rate(double *hyper, double rate) {
  const NncGroup *g = nnc_program.groups;
  for (int i = 0; i < nnc_program.n_groups; i++) hyper[3 * i] = i && g[0].lr > 0 ? rate * (g[i].lr / g[0].lr) : rate;
}
