// The curve of time over memory: plans of @train for falling budgets, for `nnc --sweep` and for the report.
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "passes/remat/remat.h"
#include "support/alloc.h"
#include "support/clock.h"

static RematSweepPoint *add_point(RematSweep *sweep) {
  sweep->points = reallocate_array(sweep->points, (size_t)sweep->n + 1, sizeof *sweep->points);
  return &sweep->points[sweep->n++];
}

// Executions beyond the first of each of the steps. Copies, which have numbers behind theirs, are none.
static int count_again(const RematPlan *plan, int n_steps) {
  int again = 0;
  for (int i = 0; plan->exec && i < plan->n; i++) again += plan->exec[i] < n_steps;
  return plan->exec ? again - n_steps : 0;
}

// Plans one budget; false when it cannot be met.
static bool plan_budget(RematSweep *sweep, RematForms *forms, const RematGoal *goal) {
  RematPlan plan;
  int form = remat_forms_find(forms, goal, &plan);
  double overhead = remat_forms_overhead(forms, form, &plan), least = remat_forms_bound(forms, goal->budget);
  bool fits = plan.arena <= goal->budget;
  *add_point(sweep) = (RematSweepPoint){.budget_bytes = goal->budget,
                                        .arena_bytes = plan.arena,
                                        .overhead = overhead,
                                        .lower_bound = fits ? fmin(least, overhead) : least,
                                        .recomputed = count_again(&plan, forms->items[form].p.n_steps),
                                        .feasible = fits,
                                        .far_bytes = plan.far_arena};
  remat_plan_free(&plan);
  return fits;
}

bool nn_remat_sweep(MlirModule module, const NnTarget *target, const RematGoal *search, RematSweep *out) {
  *out = (RematSweep){0};
  MlirOperation train = nn_module_train(module);
  if (mlirOperationIsNull(train)) return false;
  PlanPersistent persistent;
  RematForms forms;
  RematFar far;
  remat_far_build(&far, module, target, search->far_budget);
  plan_persistent_build(&persistent, module, target);
  remat_forms_build(&forms, module, train, target, persistent.total, search->far_budget ? &far : NULL);
  out->arena_none = forms.items[0].q.arena_none;
  out->seconds_none = forms.items[0].q.seconds_none;
  RematGoal goal = *search;
  goal.policy = REMAT_POLICY_SOLVE;
  goal.max_overhead = -1;
  const double step = 0.05;
  bool fits = true;
  for (int i = 0; fits && 1 - i * step > 0; i++) {
    double percent = round(1e6 * (100 - 100 * i * step)) / 1e6;   // as it would be written
    goal.budget = (int64_t)(percent / 100 * (double)out->arena_none);
    fits = plan_budget(out, &forms, &goal);
  }
  // the first that does not fit names the smallest budget that does
  if (!fits && out->points[out->n - 1].arena_bytes > 0) {
    goal.budget = out->points[out->n - 1].arena_bytes;
    plan_budget(out, &forms, &goal);
  }
  remat_forms_end(&forms, -1);
  remat_far_free(&far);
  plan_persistent_free(&persistent);
  return true;
}

void nn_remat_sweep_free(RematSweep *sweep) {
  free(sweep->points);
  *sweep = (RematSweep){0};
}

void nn_remat_sweep_print(const RematSweep *sweep, FILE *out) {
  fputs("budget_bytes,arena_bytes,overhead,lower_bound,recomputed,feasible,far_bytes\n", out);
  for (int i = 0; i < sweep->n; i++) {
    const RematSweepPoint *p = &sweep->points[i];
    fprintf(out, "%lld,%lld,%.6f,%.6f,%d,%d,%lld\n", (long long)p->budget_bytes, (long long)p->arena_bytes, p->overhead,
            p->lower_bound, p->recomputed, p->feasible, (long long)p->far_bytes);
  }
}
