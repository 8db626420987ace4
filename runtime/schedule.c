// Learning rate of a step, and the table of hyper-parameters that a step reads.
#include <math.h>

#include "runtime/comm/comm.h"
#include "runtime/runtime.h"

// A phase counts the steps that it is run in.
static double factor(const NncPhase *p, int64_t step, int64_t total) {
  int64_t runs = total / p->every;
  return p->schedule ? p->schedule((double)(step / p->every + 1), (double)(runs > 0 ? runs : 1)) : 1;
}

double schedule_rate(int phase, int64_t step, int64_t total) {
  NncPhase p = program_phase(phase);
  return nnc_program.groups[p.first_group].lr * factor(&p, step, total);
}

void schedule_fill(double *hyper, int64_t n, int phase, int64_t step, int64_t total) {
  NncPhase p = program_phase(phase);
  double number = (double)(step / p.every + 1), rate = factor(&p, step, total);
  for (int i = 0; i < nnc_program.n_groups; i++) {
    const NncGroup *g = &nnc_program.groups[i];
    hyper[3 * i] = g->lr * rate;
    hyper[3 * i + 1] = 1 - pow(g->beta1, number);
    hyper[3 * i + 2] = 1 - pow(g->beta2, number);
  }
  double micro_batches = (double)(nnc_program.accumulate > 1 ? nnc_program.accumulate : 1) * ranks.size;
  if (n > 3 * nnc_program.n_groups) hyper[3 * nnc_program.n_groups] = 1 / micro_batches;
  if (n > 3 * nnc_program.n_groups + 1) hyper[3 * nnc_program.n_groups + 1] = ranks.rank == ranks.size - 1;
  if (n > 3 * nnc_program.n_groups + 2) hyper[3 * nnc_program.n_groups + 2] = number;
}

void schedule_set_rate(double *hyper, double rate) {
  const NncGroup *g = nnc_program.groups;
  for (int i = 0; i < nnc_program.n_groups; i++) hyper[3 * i] = i && g[0].lr > 0 ? rate * (g[i].lr / g[0].lr) : rate;
}
