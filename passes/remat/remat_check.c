// Judges what the search hands over before it is written into the function, sharing no code with it: the schedule by
// the solver's simulator, the sequence of steps by rules of its own. What it finds is a bug of ours: compilation ends
// with status 70.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "passes/remat/remat.h"
#include "support/alloc.h"
#include "support/input_error.h"

void remat_bug(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("internal error: remat: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  exit(70);
}

bool remat_check_sequence(const PlanProgram *p, const int *exec, int n, InputError *error) {
  int *runs = allocate_array((size_t)p->n_steps, sizeof *runs),
      *writer = allocate_array((size_t)p->n_args, sizeof *writer);
  bool *once = allocate_array((size_t)p->n_steps, sizeof *once), ok = true;
  for (int a = 0; a < p->n_args; a++) writer[a] = -1;
  for (int i = 0; i < p->n_steps; i++)
    once[i] = p->steps[i].role != NN_STEP_RUN || p->steps[i].lane == NN_LANE_OUT ||
              (!mlirOperationIsNull(p->steps[i].op) && step_role(p->steps[i].op) == REMAT_UPDATE);
  for (int r = 0; r < p->n_results; r++) {
    int def = p->values[p->values[p->result[r]].root].def;
    if (p->tied[r] < 0 || def < 0) continue;
    if (p->values[p->tied[r]].far != p->values[p->result[r]].far)
      ok = input_fail(error, "result %d is not where argument %d is at home", r, p->tied[r]);
    once[def] |= !p->steps[def].again;
    writer[p->tied[r]] = def;
  }
  for (int i = 0; i < n && ok; i++) {
    if (exec[i] < 0 || exec[i] >= p->n_steps) {
      ok = input_fail(error, "position %d: there is no step %d", i, exec[i]);
      break;
    }
    const PlanStep *s = &p->steps[exec[i]];
    if (runs[exec[i]]++ && once[exec[i]]) ok = input_fail(error, "position %d: step %d may run only once", i, exec[i]);
    for (int j = 0; j < s->n_inputs && ok; j++) {
      if (runs[exec[i]] > 1 && s->reads_again && !s->reads_again[j]) continue;
      const PlanValue *root = &p->values[p->values[s->inputs[j]].root];
      if (root->def >= 0 && !runs[root->def])
        ok = input_fail(error, "position %d: step %d reads what step %d has not made yet", i, exec[i], root->def);
      bool overwritten = root->arg >= 0 && writer[root->arg] >= 0 && runs[writer[root->arg]];
      if (root->far != (s->lane == NN_LANE_IN))
        ok = input_fail(error, "position %d: step %d reads a value that is %s", i, exec[i],
                        root->far ? "far away" : "not far away");
      if (overwritten && s->lane == NN_LANE_IN)
        ok = input_fail(error, "position %d: argument %d is fetched when its update has been stored", i, root->arg);
      if (overwritten && runs[exec[i]] > 1)
        ok = input_fail(error, "position %d: step %d runs again and reads argument %d after its update", i, exec[i],
                        root->arg);
    }
  }
  for (int i = 0; i < p->n_steps && ok; i++)
    if (!runs[i]) ok = input_fail(error, "step %d never runs", i);
  free(runs);
  free(writer);
  free(once);
  return ok;
}

void remat_check_plan(const StepProblem *q, const RematPlan *plan) {
  InputError error;
  if (!plan->exec) return;
  RematSimulation simulation;
  if (!remat_simulate(&q->problem, plan->schedule.exec, plan->schedule.n, &simulation, &error))
    remat_bug("%s", error.message);
  if (simulation.peak != plan->schedule.peak ||
      fabs(simulation.cost - plan->schedule.cost) > 1e-9 * (1 + simulation.cost))
    remat_bug("a schedule of %lld bytes is said to need %lld", (long long)simulation.peak,
              (long long)plan->schedule.peak);
  remat_simulation_free(&simulation);
  if (!remat_check_sequence(plan->moves ? &plan->moves->p : q->p, plan->exec, plan->n, &error))
    remat_bug("%s", error.message);
}
