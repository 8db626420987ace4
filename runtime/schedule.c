// Learning rate of a step, and the table of hyper-parameters that a step reads.
#include <math.h>

#include "runtime/comm/comm.h"
#include "runtime/runtime.h"

double schedule_factor(int64_t step, int64_t total) {
  return nnc_program.schedule ? nnc_program.schedule((double)(step + 1), (double)total) : 1;
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
