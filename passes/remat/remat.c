// The pass `remat`: rematerialization. Poses the step as a RematProblem (passes/solver), lets a policy or the search
// choose a sequence of executions, has it judged, and writes it into the function.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "passes/remat/remat.h"
#include "support/bytes.h"

typedef struct Rematter {
  MlirModule module;
  const NnTarget *target;   // Borrowed
  RematGoal goal;
  const char *policy_name;      // Borrowed
  const char *budget_text;      // Borrowed; as asked for, NULL: none
  const PlanPersistent *kept;   // Borrowed
  int64_t persistent;           // bytes
  int64_t need, bound;          // bytes: the largest arena found, and what it cannot go below
  double overhead;              // the largest
} Rematter;

static bool may_recompute(MlirOperation func) {
  char name[32];
  nn_attr_str(func, "sym_name", name, sizeof name, "");
  return !strcmp(name, "train") || !strcmp(name, "accumulate");
}

static int64_t function_arena(const Rematter *m, MlirOperation func) {
  PlanProgram p;
  PlanLayout l;
  plan_program_build(&p, m->module, func, m->target);
  plan_layout_build(&p, NULL, p.n_steps, PLAN_INPLACE_DECIDE, &l);
  plan_layout_place(&p, &l, 0, PLAN_EFFORT_LONG);   // as the pass plan does: a percentage is of what would be planned
  int64_t arena = plan_persistent_end(m->kept, func) + l.arena;
  plan_layout_free(&l);
  plan_program_free(&p);
  return arena;
}

static void add_need(Rematter *m, int64_t arena, int64_t bound) {
  if (arena > m->need) m->need = arena;
  if (bound > m->bound) m->bound = bound;
}

static double function_flops(const PlanProgram *p) {
  double flops = 0;
  for (int i = 0; i < p->n_steps; i++) flops += nn_op_flops(p->steps[i].op);
  return flops;
}

static void set_attributes(const Rematter *m, const RematForms *forms, int form, const RematPlan *plan, double overhead,
                           double bound) {
  MlirOperation func = forms->items[form].func;
  const StepProblem *q = &forms->items[0].q;
  bool changed = plan->exec || form;
  nn_set_attr(func, &NN_STR(ATTR_remat, changed ? m->policy_name : "none"));
  nn_set_attr(func, &NN_F64A(ATTR_overhead, overhead));
  if (m->goal.budget > 0 || changed)
    nn_set_attr(func, &NN_F64A(ATTR_overhead_bound, bound < overhead ? bound : overhead));
  if (form) nn_set_attr(func, &NN_I64(ATTR_segmented, forms->items[form].n_segmented));
  nn_set_attr(func, &NN_I64(ATTR_arena_none, q->arena_none));
  nn_set_attr(func, &NN_I64(ATTR_activations_none, q->activations_none));
  nn_set_attr(func, &NN_F64A(ATTR_seconds_none, q->seconds_none));
  nn_set_attr(func, &NN_F64A(ATTR_flops_none, function_flops(&forms->items[0].p)));
}

// Nothing is asked for, and there is no loop that can take other forms: each step once. The pass `plan` will tell the
// arena.
static void leave(const Rematter *m, MlirOperation func) {
  PlanProgram p;
  PlanLayout l;
  plan_program_build(&p, m->module, func, m->target);
  plan_layout_build(&p, NULL, p.n_steps, PLAN_INPLACE_DECIDE, &l);
  nn_set_attr(func, &NN_STR(ATTR_remat, "none"));
  nn_set_attr(func, &NN_F64A(ATTR_overhead, 0));
  nn_set_attr(func, &NN_I64(ATTR_activations_none, plan_layout_activations(&p, &l)));
  nn_set_attr(func, &NN_F64A(ATTR_flops_none, function_flops(&p)));
  plan_layout_free(&l);
  plan_program_free(&p);
}

static void rematerialize(Rematter *m, RematForms *forms) {
  RematPlan plan;
  int form = remat_forms_find(forms, &m->goal, &plan);
  double overhead = remat_forms_overhead(forms, form, &plan);
  bool fits = m->goal.budget == 0 || plan.arena <= m->goal.budget;
  add_need(m, plan.arena, remat_forms_bytes(forms));
  if (overhead > m->overhead) m->overhead = overhead;
  if (fits) {
    // Without a budget: what any plan adds whose arena is no larger than the one found.
    double least = overhead > 0 ? remat_forms_bound(forms, m->goal.budget > 0 ? m->goal.budget : plan.arena) : 0;
    set_attributes(m, forms, form, &plan, overhead, least);
    if (plan.exec) remat_rewrite(&forms->items[form].p, &plan, m->persistent);
  }
  remat_plan_free(&plan);
  remat_forms_end(forms, fits ? form : 0);
}

// The table of options (passes.def) has been checked against the text.
static void read_options(Rematter *m, const NnPassRun *run) {
  const char *overhead = nn_pass_option(run, "max-overhead", NULL), *seed = nn_pass_option(run, "seed", NULL),
             *limit = nn_pass_option(run, "time-limit", NULL), *effort = nn_pass_option(run, "effort", NULL);
  m->policy_name = nn_pass_option(run, "policy", "auto");
  m->budget_text = nn_pass_option(run, "budget", NULL);
  if (!remat_policy_parse(m->policy_name, &m->goal.policy)) remat_bug("unknown policy '%s'", m->policy_name);
  m->goal.max_overhead = -1;
  int64_t unused;
  double percent;
  if (overhead && parse_bytes(overhead, &unused, &percent)) m->goal.max_overhead = percent / 100;
  if (seed) m->goal.seed = strtoull(seed, NULL, 10);
  if (limit) m->goal.seconds = strtod(limit, NULL);
  if (effort) m->goal.effort = strtod(effort, NULL);
}

// The budget in bytes; a percentage is of the largest arena without recomputation. Adds what the functions need in
// which nothing runs again.
static void find_budget(Rematter *m, const MlirOperation *functions, const RematForms *forms, int n) {
  int64_t largest = 0;
  double percent = 0;
  if (!m->budget_text) return;
  for (int f = 0; f < n; f++) {
    int64_t arena = forms[f].n ? forms[f].items[0].q.arena_none : function_arena(m, functions[f]);
    if (arena > largest) largest = arena;
    if (!may_recompute(functions[f])) add_need(m, arena, plan_persistent_end(m->kept, functions[f]));
  }
  parse_bytes(m->budget_text, &m->goal.budget, &percent);
  if (percent > 0) m->goal.budget = (int64_t)fmin(percent / 100 * (double)largest, 0x1p62);
  if (m->goal.budget < 1) m->goal.budget = 1;   // 0 means none
}

// The error belongs to the option, not to a place in the source.
static bool report(const Rematter *m) {
  MlirLocation nowhere = mlirLocationUnknownGet(mlirModuleGetContext(m->module));
  char want[32], have[32], least[32];
  if (m->goal.budget > 0 && m->need > m->goal.budget) {
    nn_error_at(nowhere,
                "memory budget %s%s%s%s cannot be met: the smallest budget found is %s (%lld bytes); no plan needs "
                "less than %s",
                m->budget_text, strchr(m->budget_text, '%') ? " (" : "",
                strchr(m->budget_text, '%') ? print_bytes(m->goal.budget, want, sizeof want) : "",
                strchr(m->budget_text, '%') ? ")" : "", print_bytes(m->need, have, sizeof have), (long long)m->need,
                print_bytes(m->bound, least, sizeof least));
    return false;
  }
  if (m->goal.max_overhead < 0 || m->overhead <= m->goal.max_overhead) return true;
  if (m->goal.budget > 0)
    nn_error_at(nowhere,
                "memory budget %s needs at least %.2f %% more time in the plans found, more than the %.2f %% allowed",
                m->budget_text, 100 * m->overhead, 100 * m->goal.max_overhead);
  else
    nn_error_at(nowhere, "policy '%s' takes %.2f %% more time, more than the %.2f %% allowed", m->policy_name,
                100 * m->overhead, 100 * m->goal.max_overhead);
  return false;
}

// Requires: kernels (fuse); schedule's order is what the search starts from.
// Establishes: docs/internals.md, "Remat in the IR"; nn.remat, nn.overhead, nn.arena_none on the functions, nn.budget
// on the module. With a budget, the arena that inplace and plan find fits it: they keep to the places that are written
// on rewritten functions (nn.placed). A policy that saves nothing leaves the function as it was. Breaks: checkpoint
// marks are gone from rewritten functions.
bool nn_pass_remat(MlirModule module, const NnPassRun *run) {
  Rematter m = {.module = module, .target = run->target};
  PlanPersistent persistent;
  plan_persistent_build(&persistent, module, run->target && run->target->alignment > 0 ? run->target->alignment : 64);
  m.kept = &persistent;
  m.persistent = persistent.total;
  MlirOperation functions[16];
  int n = nn_public_functions(module, functions, 16);
  RematForms forms[16] = {0};
  read_options(&m, run);
  bool nothing_asked = m.goal.policy == REMAT_POLICY_NONE && !m.budget_text;
  for (int f = 0; f < n; f++) {
    if (!may_recompute(functions[f])) continue;
    if (nothing_asked && !remat_has_loops(functions[f])) leave(&m, functions[f]);
    else remat_forms_build(&forms[f], module, functions[f], run->target, m.persistent);
  }
  find_budget(&m, functions, forms, n);
  for (int f = 0; f < n; f++)
    if (forms[f].n) rematerialize(&m, &forms[f]);
  if (m.goal.budget > 0) nn_set_attr(mlirModuleGetOperation(module), &NN_I64(ATTR_budget, m.goal.budget));
  bool ok = report(&m);
  plan_persistent_free(&persistent);
  return ok;
}
