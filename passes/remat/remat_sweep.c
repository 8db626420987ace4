// The curve of time over memory: plans of @train, or of all phases, for falling budgets, for `nnc --sweep` and for the
// report.
#include <math.h>
#include <stdlib.h>
#include <string.h>
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

// A step, or a phase of it, which counts with its share where it is run every few steps.
typedef struct Swept {
  RematForms forms;
  double share;
} Swept;

static double share_of(MlirModule module, MlirOperation func) {
  NnOpCall entry = {.attrs = nn_phase_entry(module, func)};
  return mlirAttributeIsNull(entry.attrs) ? 1 : 1 / (double)nn_call_i64(&entry, "every", 1);
}

// Plans one budget; false when it cannot be met.
static bool plan_budget(RematSweep *sweep, Swept *parts, int n, const RematGoal *goal) {
  RematSweepPoint point = {.budget_bytes = goal->budget};
  double least = 0;
  for (int k = 0; k < n; k++) {
    RematForms *forms = &parts[k].forms;
    RematPlan plan;
    int form = remat_forms_find(forms, goal, &plan);
    double part = n == 1 ? 1 : parts[k].share * forms->items[0].q.seconds_none / sweep->seconds_none;
    point.overhead += part * remat_forms_overhead(forms, form, &plan);
    least += part * remat_forms_bound(forms, goal->budget);
    point.recomputed += count_again(&plan, forms->items[form].p.n_steps);
    if (plan.arena > point.arena_bytes) point.arena_bytes = plan.arena;
    if (plan.far_arena > point.far_bytes) point.far_bytes = plan.far_arena;
    remat_plan_free(&plan);
  }
  point.feasible = point.arena_bytes <= goal->budget;
  point.lower_bound = point.feasible ? fmin(least, point.overhead) : least;
  *add_point(sweep) = point;
  return point.feasible;
}

// Budgets from 100 % down.
static void sweep_budgets(RematSweep *out, Swept *parts, int n, const RematGoal *search) {
  RematGoal goal = *search;
  goal.policy = REMAT_POLICY_SOLVE;
  goal.max_overhead = -1;
  const double step = 0.05;
  bool fits = true;
  for (int i = 0; fits && 1 - i * step > 0; i++) {
    double percent = round(1e6 * (100 - 100 * i * step)) / 1e6;   // as it would be written
    goal.budget = (int64_t)(percent / 100 * (double)out->arena_none);
    fits = plan_budget(out, parts, n, &goal);
  }
  // the first that does not fit names the smallest budget that does
  if (!fits && out->points[out->n - 1].arena_bytes > 0) {
    goal.budget = out->points[out->n - 1].arena_bytes;
    plan_budget(out, parts, n, &goal);
  }
}

bool nn_remat_sweep(MlirModule module, const NnTarget *target, const RematGoal *search, const char *function,
                    RematSweep *out) {
  *out = (RematSweep){0};
  Swept parts[NN_MAX_FUNCTIONS];
  int n = 0;
  PlanPersistent persistent;
  RematFar far;
  NnFunctions functions = nn_public_functions(module);
  remat_far_build(&far, module, target, search->far_budget);
  plan_persistent_build(&persistent, module, target);
  for (int f = 0; f < functions.n; f++) {
    char name[128];
    MlirOperation func = functions.items[f];
    nn_attr_str(func, "sym_name", name, sizeof name, "");
    if (!nn_is_train(func) || (function && strcmp(name, function) != 0)) continue;
    Swept *part = &parts[n++];
    part->share = share_of(module, func);
    remat_forms_build(&part->forms, module, func, target, persistent.total, search->far_budget ? &far : NULL);
    const StepProblem *q = &part->forms.items[0].q;
    out->seconds_none += part->share * q->seconds_none;
    if (q->arena_none > out->arena_none) out->arena_none = q->arena_none;
  }
  if (n > 0) sweep_budgets(out, parts, n, search);
  for (int k = 0; k < n; k++) remat_forms_end(&parts[k].forms, -1);
  remat_far_free(&far);
  plan_persistent_free(&persistent);
  return n > 0;
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
