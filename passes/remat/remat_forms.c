// The forms of a function: each loop that is differentiated keeps what the library computes in its steps, or its
// carried values, or those between segments (scan_forms.c). To the search a form is another function, whose steps have
// other memory and time; the forms are searched one by one, and the best plan wins. The first form is the fastest: all
// loops keep what they can.
#include <math.h>
#include <stdlib.h>

#include "passes/remat/remat.h"
#include "passes/scan/scan.h"
#include "passes/simplify/simplify.h"
#include "support/alloc.h"

// Where all choices together are no more than ALL they are the forms; else those in which all loops do the same.
enum { PAIRS = 8, ALL = 16 };

static void add_form(RematForms *f, MlirOperation func, int n_segmented) {
  RematForm *form = &f->items[f->n++];
  form->func = func;
  form->n_segmented = n_segmented;
  plan_program_build(&form->p, f->module, func, f->target);
  step_problem_build(&form->q, &form->p, f->persistent, f->target, f->far);
  step_bound_build(&form->bound, &form->p, f->persistent, &form->q);
  if (f->far) form->q.bound_bytes = step_bound_bytes(&form->bound);
}

// The form that a loop takes for a choice: the choice, or the nearest that it has.
static ScanForm form_of(const ScanPair *p, ScanForm choice) {
  if (choice == SCAN_SEGMENT_PRODUCTS && !p->has[choice]) choice = SCAN_SEGMENTS;
  return p->has[choice] ? choice : SCAN_ROWS;
}

static MlirOperation clone_of(RematForms *f, MlirOperation from) {
  char name[128];
  MlirOperation func = mlirOperationClone(from);
  mlirBlockInsertOwnedOperationAfter(mlirModuleGetBody(f->module), f->origin, func);
  nn_attr_str(func, "sym_name", name, sizeof name, "");
  char *symbol = nn_free_symbol(f->module, name);
  nn_set_attr(func, &NN_STR("sym_name", symbol));
  free(symbol);
  return func;
}

static void make_form(RematForms *f, const ScanForm *choice) {
  MlirOperation func = clone_of(f, f->origin);
  ScanPair pairs[PAIRS];
  int n = scan_pairs_find(func, pairs, PAIRS), n_segmented = 0;
  for (int i = 0; i < n; i++) {
    ScanForm form = form_of(&pairs[i], choice[i]);
    scan_pair_rewrite(f->module, &pairs[i], form, f->target);
    n_segmented += form == SCAN_SEGMENTS || form == SCAN_SEGMENT_PRODUCTS;
  }
  add_form(f, func, n_segmented);
}

static const ScanForm fastest_first[SCAN_FORMS] = {SCAN_PRODUCTS, SCAN_ROWS, SCAN_SEGMENT_PRODUCTS, SCAN_SEGMENTS};

bool remat_has_loops(MlirOperation func) {
  ScanPair pairs[PAIRS];
  return scan_pairs_find(func, pairs, PAIRS) > 0;
}

void remat_forms_build(RematForms *f, MlirModule module, MlirOperation func, const NnTarget *target,
                       int64_t persistent_bytes, const RematFar *far) {
  ScanPair pairs[PAIRS];
  ScanForm choice[PAIRS];
  *f = (RematForms){.module = module,
                    .target = target,
                    .persistent = persistent_bytes,
                    .far = far,
                    .origin = func,
                    .items = allocate_array(ALL + 1, sizeof *f->items)};
  f->n_loops = scan_pairs_find(func, pairs, PAIRS);
  for (int i = 0; i < PAIRS; i++) choice[i] = SCAN_PRODUCTS;
  if (f->n_loops) make_form(f, choice);
  else add_form(f, func, 0);
}

static void make_forms(RematForms *f) {
  ScanPair pairs[PAIRS];
  ScanForm choice[PAIRS];
  if (f->n > 1) return;
  scan_pairs_find(f->origin, pairs, PAIRS);
  int n = 1;
  for (int i = 0; i < f->n_loops && n <= ALL; i++) n *= SCAN_FORMS;
  f->some = n > ALL;
  for (int k = 1; k < (f->some ? SCAN_FORMS : n); k++) {
    bool known = false;   // as another, where a loop lacks a form
    for (int i = 0, digits = k; i < f->n_loops; i++, digits /= f->some ? 1 : SCAN_FORMS) {
      choice[i] = fastest_first[digits % SCAN_FORMS];
      known |= !f->some && form_of(&pairs[i], choice[i]) != choice[i];
    }
    if (!known) make_form(f, choice);
  }
}

static bool is_better(const RematGoal *goal, const RematPlan *plan, const RematPlan *best) {
  if (goal->budget == 0) return plan->arena < best->arena;
  bool fits = plan->arena <= goal->budget, best_fits = best->arena <= goal->budget;
  if (fits != best_fits) return fits;
  if (!fits) return plan->arena < best->arena;
  return plan->seconds < best->seconds;
}

// The plan of one form, if it is better than the best, takes its place.
static void try_form(RematForms *f, int form, const RematGoal *goal, double effort, RematPlan *best, int *best_form) {
  RematForm *own = &f->items[form];
  RematGoal part = *goal;
  part.effort = effort * (goal->effort > 0 ? goal->effort : 1);
  // time is allowed in terms of the first form's
  if (goal->budget == 0)
    part.max_overhead = (1 + goal->max_overhead) * f->items[0].q.seconds_none / own->q.seconds_none - 1;
  if (goal->budget == 0 && part.max_overhead < 0) return;
  RematPlan plan;
  remat_find(&own->q, &part, f->persistent, &plan);
  remat_check_plan(&own->q, &plan);
  if (*best_form < 0 || is_better(goal, &plan, best)) {
    RematPlan worse = *best;
    *best = plan;
    plan = worse;
    *best_form = form;
  }
  remat_plan_free(&plan);
}

// Nothing fits, for all the memory far away: one more form, the best with its largest updates split. What a form takes
// to be large does not depend on the budget, so that a budget of what is found then can be met.
static void try_split(RematForms *f, const RematGoal *goal, RematPlan *best, int *best_form) {
  enum { PART = 3 };   // of the arena that is read by an update worth splitting
  if (!f->far || goal->budget == 0 || best->arena <= goal->budget || f->split < 0) return;
  if (!f->split) {
    MlirOperation func = clone_of(f, f->items[*best_form].func);
    f->split = remat_split_updates(f->module, func, best->arena / PART) > 0 ? f->n : -1;
    if (f->split < 0) mlirOperationDestroy(func);
    else add_form(f, func, f->items[*best_form].n_segmented);
  }
  if (f->split > 0) try_form(f, f->split, goal, 1, best, best_form);
}

int remat_forms_find(RematForms *f, const RematGoal *goal, RematPlan *plan) {
  static const double quick = 0.15;
  bool solves = goal->policy == REMAT_POLICY_SOLVE &&
                (goal->budget > 0 ? f->items[0].q.arena_none > goal->budget : goal->max_overhead >= 0);
  int best = -1;
  *plan = (RematPlan){0};
  if (!solves || !f->n_loops) {
    best = 0;
    remat_find(&f->items[0].q, goal, f->persistent, plan);
    remat_check_plan(&f->items[0].q, plan);
  } else {
    make_forms(f);
    for (int i = 0; i < f->n; i++)
      if (i != f->split) try_form(f, i, goal, quick, plan, &best);
    try_form(f, best, goal, 1, plan, &best);
  }
  if (solves) try_split(f, goal, plan, &best);
  return best;
}

double remat_forms_overhead(const RematForms *f, int form, const RematPlan *plan) {
  double none = f->items[0].q.seconds_none;
  return (plan->exec || form) && none > 0 ? fmax(0, plan->seconds / none - 1) : 0;
}

// Every plan is one of a form, and none adds less than the bound of its form. Where not all forms were made nothing is
// certain.
double remat_forms_bound(const RematForms *f, int64_t bytes) {
  const double far_seconds = 0.3;   // counted; weights of the lanes are looked for, too
  double least = INFINITY, none = f->items[0].q.seconds_none;
  for (int i = 0; i < f->n && none > 0; i++) {
    double own = step_bound_overhead(&f->items[i].bound, bytes, f->far ? far_seconds : 0);
    least = fmin(least, (1 + own) * f->items[i].q.seconds_none / none - 1);
  }
  return f->some ? 0 : fmax(least, 0);
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
  bool cloned = f->n_loops > 0 || f->split > 0;
  MlirOperation kept = keep >= 0 ? f->items[keep].func : f->origin;
  nn_attr_str(f->origin, "sym_name", name, sizeof name, "");
  for (int i = 0; i < f->n; i++) {
    step_bound_free(&f->items[i].bound);
    step_problem_free(&f->items[i].q);
    plan_program_free(&f->items[i].p);
    if (i != keep && !mlirOperationEqual(f->items[i].func, f->origin)) mlirOperationDestroy(f->items[i].func);
  }
  if (!mlirOperationEqual(kept, f->origin)) {
    mlirOperationDestroy(f->origin);
    nn_set_attr(kept, &NN_STR("sym_name", name));
  }
  if (cloned) simplify_erase_uncalled(f->module);
  free(f->items);
  *f = (RematForms){0};
  return kept;
}
