// The pass `remat`: rematerialization. Poses the step as a RematProblem (passes/solver), lets a policy or the search
// choose a sequence of executions, has it judged, and writes it into the function.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "passes/remat/remat.h"
#include "support/alloc.h"
#include "support/bytes.h"
#include "support/integers.h"

static const int64_t ANY_BUDGET = INT64_MAX / 4;   // of memory far away, in bytes
static const double HINT_EFFORT = 0.1;             // of the search for what an error says of memory far away

typedef struct Rematter {
  MlirModule module;
  const NnTarget *target;   // Borrowed
  RematGoal goal;
  const char *policy_name;      // Borrowed
  const char *budget_text;      // Borrowed; as asked for, NULL: none
  const PlanPersistent *kept;   // Borrowed
  int64_t persistent;           // bytes
  int64_t need, bound;          // bytes: the largest arena found, and what it cannot go below
  int64_t far_need;             // bytes of a plan that takes more far away than is allowed, else 0
  double overhead;              // the largest
  RematFar kept_near;           // who is not at home far away
  int n_functions;
  MlirOperation *functions;   // Borrowed; all public ones
  int n_far;
  const void **far;   // Owned; plan_argument_key of those whose home is far, in all functions
} Rematter;

static bool may_recompute(MlirOperation func) { return nn_is_train(func) || nn_is_accumulate(func); }

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
  for (int i = 0; i < p->n_steps; i++) {
    const PlanStep *s = &p->steps[i];
    bool is_call = s->kernel >= 0 && !nn_has_attr(s->op, ATTR_scan);
    flops += nn_op_flops(is_call ? p->kernels[s->kernel].func : s->op);
  }
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

// ---------------------------------------------------------------------------------------------------------------------
// Homes far away

static void note_home(Rematter *m, MlirOperation func, int arg) {
  *ARRAY_ADD(m->far, m->n_far) = plan_argument_key(func, arg);
}

static void note_far(Rematter *m, MlirOperation func, const RematPlan *plan) {
  for (int a = 0; plan->moves && a < plan->moves->p.n_args; a++)
    if (plan->moves->near[a] >= 0) note_home(m, func, a);
}

// Per argument. Owned: free().
static bool *far_homes(const Rematter *m, MlirOperation func) {
  int n = nn_function_n_args(func);
  bool *far = allocate_array((size_t)n + 1, sizeof *far);
  for (int a = 0; a < n && m->n_far; a++) {
    const void *key = plan_argument_key(func, a);
    for (int i = 0; i < m->n_far && !far[a]; i++) far[a] = m->far[i] == key;
  }
  return far;
}

static bool is_streamed(MlirOperation func, const bool *far) {
  for (int a = 0; a < nn_function_n_args(func); a++)
    if (far[a]) return true;
  return false;
}

// What lies before the buffers of a function, with the homes that are noted.
static PlanBase base_of(const Rematter *m, MlirOperation func) {
  PlanBase base = {plan_persistent_end(m->kept, func), 0};
  int64_t end = base.near;
  for (int i = 0; i < m->n_far; i++) {
    int64_t bytes, address = plan_persistent_find(m->kept, m->far[i], &bytes);
    base.far += far_blocks(bytes);
    if (address < end) base.near -= round_up(bytes, nn_alignment(m->target));
  }
  return base;
}

// The largest arena of the functions beside @train, with the homes that are noted.
static int64_t others_need(const Rematter *m) {
  int64_t need = 0;
  for (int f = 0; f < m->n_functions; f++) {
    MlirOperation func = m->functions[f];
    if (nn_is_train(func)) continue;
    bool *far = far_homes(m, func);
    PlanBase base = base_of(m, func);
    int64_t bytes = remat_stream_bytes(m->module, func, m->target, far, &base);
    free(far);
    if (bytes > need) need = bytes;
  }
  return need;
}

// All functions have the homes that @train has.
static void stream_others(Rematter *m) {
  for (int f = 0; f < m->n_functions && m->n_far; f++) {
    MlirOperation func = m->functions[f];
    bool *far = far_homes(m, func);
    PlanBase base = base_of(m, func);
    if (!nn_is_train(func) && is_streamed(func, far)) remat_stream(m->module, func, m->target, far, &base);
    for (int a = 0; a < nn_function_n_args(func); a++)
      if (far[a]) nn_set_arg_attr(func, a, &NN_BOOL(ATTR_far, true));
    free(far);
  }
}

typedef struct Home {
  int arg;
  bool read;   // by functions beside @train, perhaps
  int64_t bytes;
} Home;
static int by_gain(const void *x, const void *y) {
  const Home *a = x, *b = y;
  if (a->read != b->read) return a->read - b->read;
  return a->bytes != b->bytes ? (a->bytes < b->bytes) - (a->bytes > b->bytes) : a->arg - b->arg;
}

// The arguments that are at home near, those first whose going far helps the functions beside @train most. Owned.
static Home *near_homes(const StepProblem *q, const RematPlan *plan, int *n) {
  Home *list = allocate_array((size_t)q->n_homes + 1, sizeof *list);
  *n = 0;
  for (int h = 0; h < q->n_homes; h++) {
    char role[16];
    int a = q->node_value[h];
    if (plan->moves && plan->moves->near[a] >= 0) continue;
    nn_arg_str(q->p->func, a, ATTR_role, role, sizeof role, "");
    list[(*n)++] = (Home){a, strcmp(role, "opt") != 0, q->nodes[h].bytes};
  }
  qsort(list, (size_t)*n, sizeof *list, by_gain);
  return list;
}

// Notes the homes of the plan, and as many more as the other functions need to fit the budget; the plan becomes one of
// all those.
static void choose_homes(Rematter *m, const StepProblem *q, RematPlan *plan) {
  int n, low = 0;
  Home *list = near_homes(q, plan, &n);
  note_far(m, q->p->func, plan);
  int noted = m->n_far, high = n;
  bool *more = allocate_array((size_t)q->p->n_args + 1, sizeof *more);
  // @train does not fit: all of them, whatever the budget, so that what then is the smallest can be met
  if (m->goal.budget > 0 && plan->arena > m->goal.budget) low = n;
  while (low < high && m->goal.budget > 0) {   // the fewest with which they fit
    int middle = low + (high - low) / 2;
    for (int i = 0; i < middle; i++) note_home(m, q->p->func, list[i].arg);
    if (others_need(m) > m->goal.budget) low = middle + 1;
    else high = middle;
    m->n_far = noted;
  }
  for (int i = 0; i < low; i++) {
    more[list[i].arg] = true;
    note_home(m, q->p->func, list[i].arg);
  }
  if (low) remat_plan_send_home(q, &m->goal, m->persistent, more, plan);
  add_need(m, plan->arena, 0);
  add_need(m, others_need(m), 0);
  free(more);
  free(list);
}

// Returns the function, which may be another than before.
static MlirOperation rematerialize(Rematter *m, RematForms *forms) {
  RematPlan plan;
  int form = remat_forms_find(forms, &m->goal, &plan);
  bool homes = m->goal.far_budget && nn_is_train(forms->origin);
  if (homes) choose_homes(m, &forms->items[form].q, &plan);
  double overhead = remat_forms_overhead(forms, form, &plan);
  bool far_fits = !m->goal.far_budget || plan.far_arena <= m->goal.far_budget;
  bool fits = far_fits && (m->goal.budget == 0 || plan.arena <= m->goal.budget);
  add_need(m, plan.arena, remat_forms_bytes(forms));
  if (!far_fits) m->far_need = plan.far_arena;
  if (overhead > m->overhead) m->overhead = overhead;
  if (fits) {
    // Without a budget: what any plan adds whose arena is no larger than the one found.
    double least = overhead > 0 ? remat_forms_bound(forms, m->goal.budget > 0 ? m->goal.budget : plan.arena) : 0;
    set_attributes(m, forms, form, &plan, overhead, least);
    if (plan.exec) {
      PlanProgram *p = &forms->items[form].p;
      PlanBase base = remat_base(plan.moves ? &plan.moves->p : p, m->persistent);
      remat_rewrite(p, &plan, &base);
    }
  }
  remat_plan_free(&plan);
  return remat_forms_end(forms, fits ? form : 0);
}

// The table of options (passes.def) has been checked against the text.
static void read_options(Rematter *m, const NnPassRun *run) {
  const char *overhead = nn_pass_option(run, "max-overhead", NULL), *seed = nn_pass_option(run, "seed", NULL),
             *limit = nn_pass_option(run, "time-limit", NULL), *effort = nn_pass_option(run, "effort", NULL),
             *far = nn_pass_option(run, "far", NULL);
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
  if (far && !parse_bytes(far, &m->goal.far_budget, &percent)) m->goal.far_budget = ANY_BUDGET;
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
    if (!may_recompute(functions[f]) && !m->goal.far_budget)
      add_need(m, arena, plan_persistent_end(m->kept, functions[f]));
  }
  parse_bytes(m->budget_text, &m->goal.budget, &percent);
  if (percent > 0) m->goal.budget = (int64_t)fmin(percent / 100 * (double)largest, 0x1p62);
  if (m->goal.budget < 1) m->goal.budget = 1;   // 0 means none
}

// The largest arena beside @train where all is at home far away that may be.
static int64_t others_need_at_least(const Rematter *m, const StepProblem *q) {
  Rematter all = *m;
  all.n_far = 0;
  all.far = NULL;
  for (int h = 0; h < q->n_homes; h++) note_home(&all, q->p->func, q->node_value[h]);
  int64_t need = others_need(&all);
  free(all.far);
  return need;
}

// Where a budget cannot be met: what memory far away would make of it, which ranks do not have. Writes and returns
// text.
static const char *tell_far(const Rematter *m, char *text, size_t size) {
  MlirOperation train = nn_module_train(m->module);
  *text = 0;
  bool ranks = nn_has_attr(mlirModuleGetOperation(m->module), ATTR_shard);
  if (m->goal.far_budget || !m->target || mlirOperationIsNull(train) || m->goal.policy != REMAT_POLICY_SOLVE || ranks)
    return text;
  RematForms forms;
  RematPlan plan;
  RematGoal goal = m->goal;
  goal.far_budget = ANY_BUDGET;
  goal.effort = HINT_EFFORT * (goal.effort > 0 ? goal.effort : 1);
  goal.seconds *= HINT_EFFORT;
  RematFar far;
  remat_far_build(&far, m->module, m->target, goal.far_budget);
  remat_forms_build(&forms, m->module, train, m->target, m->persistent, &far);
  int form = remat_forms_find(&forms, &goal, &plan);
  double overhead = remat_forms_overhead(&forms, form, &plan);
  const char *option = m->target->far_place;
  char least[32];
  int64_t others = others_need_at_least(m, &forms.items[0].q), need = plan.arena > others ? plan.arena : others;
  if (need <= goal.budget) snprintf(text, size, "; with --far=%s it can, at %+.1f %% time", option, 100 * overhead);
  else if (need < m->need)
    snprintf(text, size, "; with --far=%s the smallest found is %lld bytes (%s)", option, (long long)need,
             print_bytes(need, least, sizeof least));
  remat_plan_free(&plan);
  remat_forms_end(&forms, -1);
  remat_far_free(&far);
  return text;
}

// The error belongs to the option, not to a place in the source.
static bool report(const Rematter *m) {
  MlirLocation nowhere = mlirLocationUnknownGet(mlirModuleGetContext(m->module));
  char want[32], have[32], least[32], far[128];
  if (m->goal.budget > 0 && m->need > m->goal.budget) {
    nn_error_at(nowhere,
                "memory budget %s%s%s%s cannot be met: the smallest budget found is %s (%lld bytes); no plan needs "
                "less than %s%s",
                m->budget_text, strchr(m->budget_text, '%') ? " (" : "",
                strchr(m->budget_text, '%') ? print_bytes(m->goal.budget, want, sizeof want) : "",
                strchr(m->budget_text, '%') ? ")" : "", print_bytes(m->need, have, sizeof have), (long long)m->need,
                print_bytes(m->bound, least, sizeof least), tell_far(m, far, sizeof far));
    return false;
  }
  if (m->far_need > 0) {
    nn_error_at(nowhere, "memory budget %s cannot be met with %s far away: the plan found needs %s there",
                m->budget_text, print_bytes(m->goal.far_budget, want, sizeof want),
                print_bytes(m->far_need, have, sizeof have));
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
  plan_persistent_build(&persistent, module, run->target);
  m.kept = &persistent;
  m.persistent = persistent.total;
  NnFunctions functions = nn_public_functions(module);
  m.n_functions = functions.n;
  m.functions = functions.items;
  RematForms forms[NN_MAX_FUNCTIONS] = {0};
  read_options(&m, run);
  remat_far_build(&m.kept_near, module, run->target, m.goal.far_budget);
  bool nothing_asked = m.goal.policy == REMAT_POLICY_NONE && !m.budget_text;
  for (int f = 0; f < functions.n; f++) {
    if (!may_recompute(functions.items[f])) continue;
    if (nothing_asked && !remat_has_loops(functions.items[f])) leave(&m, functions.items[f]);
    else
      remat_forms_build(&forms[f], module, functions.items[f], run->target, m.persistent,
                        m.goal.far_budget ? &m.kept_near : NULL);
  }
  find_budget(&m, functions.items, forms, functions.n);
  for (int f = 0; f < functions.n; f++)
    if (forms[f].n && nn_is_train(functions.items[f])) functions.items[f] = rematerialize(&m, &forms[f]);
  for (int f = 0; f < functions.n; f++) {
    if (!forms[f].n || nn_is_train(functions.items[f])) continue;
    functions.items[f] = m.n_far ? remat_forms_end(&forms[f], 0) : rematerialize(&m, &forms[f]);
  }
  stream_others(&m);
  if (m.goal.budget > 0) nn_set_attr(mlirModuleGetOperation(module), &NN_I64(ATTR_budget, m.goal.budget));
  bool ok = report(&m);
  free(m.far);
  remat_far_free(&m.kept_near);
  plan_persistent_free(&persistent);
  return ok;
}
