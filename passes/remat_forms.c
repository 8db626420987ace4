// The forms of a function: each loop that is differentiated keeps all of its carried values, or those between segments (scan_forms.c). To the
// search a form is another function, whose steps have other memory and time; the forms are searched one by one, and the best plan wins.
#include <math.h>
#include <stdlib.h>

#include "passes/remat.h"
#include "passes/scan_forms.h"
#include "passes/simplify.h"
#include "passes/solver/error.h"

// Of up to ALL loops every choice is a form; of more, each alone and all together.
enum { PAIRS = 8, ALL = 3, FORMS = PAIRS + 2 };

static void add_form(RematForms *f, MlirOperation func, int n_segmented) {
  RematForm *form = &f->items[f->n++];
  form->func = func;
  form->n_segmented = n_segmented;
  plan_program_build(&form->p, f->module, func, f->target);
  step_problem_build(&form->q, &form->p, f->persistent, f->target);
  step_bound_build(&form->bound, &form->p, f->persistent, form->q.step_seconds);
}

void remat_forms_build(RematForms *f, MlirModule module, MlirOperation func, const NnTarget *target, int64_t persistent_bytes) {
  *f = (RematForms){.module = module, .target = target, .persistent = persistent_bytes, .items = solver_allocate(FORMS, sizeof *f->items)};
  add_form(f, func, 0);
}

// With the loops of which `mask` has a bit in segments.
static void make_form(RematForms *f, int mask) {
  char name[128];
  MlirOperation func = mlirOperationClone(f->items[0].func);
  mlirBlockInsertOwnedOperationAfter(mlirModuleGetBody(f->module), f->items[0].func, func);
  nn_attr_str(func, "sym_name", name, sizeof name, "");
  char *symbol = nn_free_symbol(f->module, name);
  nn_set_attr(func, &NN_STR("sym_name", symbol));
  free(symbol);
  ScanPair pairs[PAIRS];
  int n = scan_pairs_find(func, pairs, PAIRS), n_segmented = 0;
  for (int i = 0; i < n; i++) {
    if (!(mask >> i & 1)) continue;
    scan_pair_rewrite(f->module, &pairs[i], f->target);
    n_segmented++;
  }
  add_form(f, func, n_segmented);
}

static void make_forms(RematForms *f) {
  ScanPair pairs[PAIRS];
  if (f->n > 1) return;
  int n = f->n_loops = scan_pairs_find(f->items[0].func, pairs, PAIRS);
  for (int mask = 1; n <= ALL && mask < 1 << n; mask++) make_form(f, mask);
  for (int i = 0; n > ALL && i < n; i++) make_form(f, 1 << i);
  if (n > ALL) make_form(f, (1 << n) - 1);
}

static bool is_better(const RematGoal *goal, const RematPlan *plan, const RematPlan *best) {
  if (goal->budget == 0) return plan->arena < best->arena;
  bool fits = plan->arena <= goal->budget, best_fits = best->arena <= goal->budget;
  if (fits != best_fits) return fits;
  if (!fits) return plan->arena < best->arena;
  return plan->seconds < best->seconds;
}

int remat_forms_find(RematForms *f, const RematGoal *goal, RematPlan *plan) {
  int best = 0;
  remat_find(&f->items[0].q, goal, f->persistent, plan);
  remat_check_plan(&f->items[0].q, plan);
  if (goal->policy != REMAT_POLICY_SOLVE || !plan->exec) return 0;
  make_forms(f);
  for (int i = 1; i < f->n; i++) {
    RematGoal own = *goal;   // time is allowed in terms of the first form's
    if (goal->budget == 0) own.max_overhead = (1 + goal->max_overhead) * f->items[0].q.seconds_none / f->items[i].q.seconds_none - 1;
    if (goal->budget == 0 && own.max_overhead < 0) continue;
    RematPlan other;
    remat_find(&f->items[i].q, &own, f->persistent, &other);
    remat_check_plan(&f->items[i].q, &other);
    if (is_better(goal, &other, plan)) {
      RematPlan worse = *plan;
      *plan = other;
      other = worse;
      best = i;
    }
    remat_plan_free(&other);
  }
  return best;
}

double remat_forms_overhead(const RematForms *f, int form, const RematPlan *plan) {
  double none = f->items[0].q.seconds_none;
  return (plan->exec || form) && none > 0 ? fmax(0, plan->seconds / none - 1) : 0;
}

// Every plan is one of a form, and none adds less than the bound of its form. Where not all forms were made nothing is certain.
double remat_forms_bound(const RematForms *f, int64_t bytes) {
  double least = INFINITY, none = f->items[0].q.seconds_none;
  for (int i = 0; i < f->n && none > 0; i++) {
    double own = step_bound_overhead(&f->items[i].bound, bytes, 0);
    least = fmin(least, (1 + own) * f->items[i].q.seconds_none / none - 1);
  }
  return f->n > 1 && f->n_loops > ALL ? 0 : fmax(least, 0);
}

int64_t remat_forms_bytes(const RematForms *f) {
  int64_t least = step_bound_bytes(&f->items[0].bound);
  for (int i = 1; i < f->n; i++) {
    int64_t own = step_bound_bytes(&f->items[i].bound);
    if (own < least) least = own;
  }
  return least;
}

MlirOperation remat_forms_end(RematForms *f, int keep) {
  char name[128];
  bool several = f->n > 1;
  MlirOperation kept = f->items[keep].func;
  nn_attr_str(f->items[0].func, "sym_name", name, sizeof name, "");
  for (int i = 0; i < f->n; i++) {
    step_bound_free(&f->items[i].bound);
    step_problem_free(&f->items[i].q);
    plan_program_free(&f->items[i].p);
    if (i != keep) mlirOperationDestroy(f->items[i].func);
  }
  if (keep) nn_set_attr(kept, &NN_STR("sym_name", name));
  if (several) simplify_erase_uncalled(f->module);
  free(f->items);
  *f = (RematForms){0};
  return kept;
}
