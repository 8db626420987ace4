// Learning rate of a step, and the table of hyper-parameters that a step reads.
#include <math.h>

#include "runtime/comm/comm.h"
#include "runtime/runtime.h"

// A phase counts the steps that it is run in.
static double rate_of(const NncPhase *p, const NncGroup *g, int64_t step, int64_t total) {
  int64_t runs = total / p->every;
  double now = (double)(step / p->every + 1), all = (double)(runs > 0 ? runs : 1);
  return g->rate ? g->rate(now, all) : g->lr * (p->schedule ? p->schedule(now, all) : 1);
}

double schedule_rate(int phase, int64_t step, int64_t total) {
  NncPhase p = program_phase(phase);
  return rate_of(&p, &nnc_program.groups[p.first_group], step, total);
}

bool schedule_check(int phase, int64_t step, int64_t total) {
  static const double ROUNDING = 1e-12;   // of what comes down to 0
  NncPhase p = program_phase(phase);
  for (int i = p.first_group; i < p.first_group + p.n_groups; i++) {
    double rate = rate_of(&p, &nnc_program.groups[i], step, total);
    if (isfinite(rate) && rate >= -ROUNDING) continue;
    report_error("%s: the learning rate of step %lld is %g: it must be a finite number of at least 0",
                 nnc_program.source, (long long)(step + 1), rate);
    return false;
  }
  return true;
}

void schedule_fill(double *hyper, int64_t n, int phase, int64_t step, int64_t total) {
  NncPhase p = program_phase(phase);
  double number = (double)(step / p.every + 1);
  for (int i = 0; i < nnc_program.n_groups; i++) {
    const NncGroup *g = &nnc_program.groups[i];
    hyper[3 * i] = rate_of(&p, g, step, total);
    hyper[3 * i + 1] = 1 - pow(g->beta1, number);
    hyper[3 * i + 2] = 1 - pow(g->beta2, number);
  }
  double micro_batches = (double)(nnc_program.accumulate > 1 ? nnc_program.accumulate : 1) * ranks.size;
  if (n > 3 * nnc_program.n_groups) hyper[3 * nnc_program.n_groups] = 1 / micro_batches;
  if (n > 3 * nnc_program.n_groups + 1) hyper[3 * nnc_program.n_groups + 1] = ranks.rank == ranks.size - 1;
  if (n > 3 * nnc_program.n_groups + 2) hyper[3 * nnc_program.n_groups + 2] = number;
}

// Of the first group; the others keep what they are beside it.
void schedule_set_rate(double *hyper, double rate) {
  const NncGroup *g = nnc_program.groups;
  double first = hyper[0];
  for (int i = 0; i < nnc_program.n_groups; i++) {
    bool by_hand = g[0].rate || g[i].rate;
    double part = by_hand ? hyper[3 * i] : g[i].lr, whole = by_hand ? first : g[0].lr;
    hyper[3 * i] = i && whole > 0 ? rate * (part / whole) : rate;
  }
}
