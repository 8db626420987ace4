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

typedef struct RematNeed {
  int64_t need, bound, far_need, far_budget;   // as in Rematter and its goal
} RematNeed;

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
  RematNeed with_far;           // where no plan with memory far away was met, and it is done without
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
  plan_layout_place(&p, &l, 0, PLAN_LONG);   // as the pass plan does: a percentage is of what would be planned
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

// others_far: see Planned.
static void set_attributes(const Rematter *m, const RematForms *forms, int form, const RematPlan *plan, double overhead,
                           double bound, int64_t others_far) {
  MlirOperation func = forms->items[form].func;
  const StepProblem *q = &forms->items[0].q;
  bool changed = plan->exec || form;
  nn_set_attr(func, &NN_STR(ATTR_remat, changed ? m->policy_name : "none"));
  nn_set_attr(func, &NN_F64A(ATTR_overhead, overhead));
  if (m->goal.budget > 0 || changed)
    nn_set_attr(func, &NN_F64A(ATTR_overhead_bound, bound < overhead ? bound : overhead));
  if (form) nn_set_attr(func, &NN_I64(ATTR_segmented, forms->items[form].n_segmented));
  nn_set_attr(func, &NN_I64(ATTR_arena_none, q->arena_none + others_far));
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

static bool is_noted(const Rematter *m, const void *key) {
  for (int i = 0; i < m->n_far; i++)
    if (m->far[i] == key) return true;
  return false;
}

static void note(Rematter *m, const void *key) {
  if (!is_noted(m, key)) *ARRAY_ADD(m->far, m->n_far) = key;
}

static void note_far(Rematter *m, MlirOperation func, const RematPlan *plan) {
  for (int a = 0; plan->moves && a < plan->moves->p.n_args; a++)
    if (plan->moves->near[a] >= 0) note(m, plan_argument_key(func, a));
}

// Per argument. Owned: free().
static bool *far_homes(const Rematter *m, MlirOperation func) {
  int n = nn_function_n_args(func);
  bool *far = allocate_array((size_t)n + 1, sizeof *far);
  for (int a = 0; a < n && m->n_far; a++) far[a] = is_noted(m, plan_argument_key(func, a));
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

// The plan of a step, or of one of its phases.
typedef struct Planned {
  int function;        // of m->functions
  RematForms *forms;   // Borrowed
  int form;
  RematPlan plan;
  int64_t others_far;    // bytes of homes far away that other phases have, without which it was planned
  int64_t others_near;   // bytes of those that could be far, too
} Planned;

typedef struct Home {
  const void *key;   // plan_argument_key
  bool read;         // by functions beside @train, perhaps
  int64_t bytes;
  int number;
} Home;
static int by_gain(const void *x, const void *y) {
  const Home *a = x, *b = y;
  if (a->read != b->read) return a->read - b->read;
  return a->bytes != b->bytes ? (a->bytes < b->bytes) - (a->bytes > b->bytes) : a->number - b->number;
}

static bool has_argument(MlirOperation func, const void *key) {
  for (int a = 0; a < nn_function_n_args(func); a++)
    if (plan_argument_key(func, a) == key) return true;
  return false;
}

// What may be at home far away and is not noted, that first whose going far helps the functions beside @train most.
// Owned.
static Home *near_homes(const Rematter *m, const Planned *planned, int n_planned, int *n) {
  int all = 0;
  for (int k = 0; k < n_planned; k++) all += planned[k].forms->items[planned[k].form].q.n_homes;
  Home *list = allocate_array((size_t)all + 1, sizeof *list);
  *n = 0;
  for (int k = 0; k < n_planned; k++) {
    const StepProblem *q = &planned[k].forms->items[planned[k].form].q;
    for (int h = 0; h < q->n_homes; h++) {
      char role[16];
      int a = q->node_value[h];
      const void *key = plan_argument_key(q->p->func, a);
      bool known = is_noted(m, key);
      for (int i = 0; i < *n && !known; i++) known = list[i].key == key;
      if (known) continue;
      nn_arg_str(q->p->func, a, ATTR_role, role, sizeof role, "");
      list[*n] = (Home){key, strcmp(role, "opt") != 0, q->nodes[h].bytes, *n};
      ++*n;
    }
  }
  qsort(list, (size_t)*n, sizeof *list, by_gain);
  return list;
}

// Of what only other phases touch, all that could be far.
static int64_t others_bytes(const Rematter *m, const Planned *p, const Planned *planned, int n_planned) {
  Rematter none = *m;
  none.n_far = 0;
  int n;
  int64_t bytes = 0;
  Home *list = near_homes(&none, planned, n_planned, &n);
  for (int i = 0; i < n; i++)
    if (!has_argument(m->functions[p->function], list[i].key)) bytes += list[i].bytes;
  free(list);
  return bytes;
}

// Of what only other phases touch, so much goes far that this one fits the budget with each step once, or all of it:
// to this one that is no work. What those before have sent away already is no longer there.
static void leave_to_others(Rematter *m, Planned *p, const Planned *planned, int n_planned) {
  MlirOperation func = m->functions[p->function];
  PlanBase base = base_of(m, func);
  int64_t own = 0;
  for (int a = 0; a < nn_function_n_args(func); a++) {
    int64_t bytes;
    if (!is_noted(m, plan_argument_key(func, a))) continue;
    plan_persistent_find(m->kept, plan_argument_key(func, a), &bytes);
    own += round_up(bytes, nn_alignment(m->target));
  }
  p->others_far = m->persistent - base.near - own;
  int64_t over = p->forms->items[0].q.arena_none - p->others_far - m->goal.budget;
  int n;
  Home *list = near_homes(m, planned, n_planned, &n);
  for (int i = 0; i < n; i++) {
    if (m->goal.budget == 0 || over <= 0 || has_argument(func, list[i].key)) continue;
    note(m, list[i].key);
    p->others_far += list[i].bytes;
    over -= list[i].bytes;
  }
  free(list);
  p->forms->split = -1;   // all homes that a phase can have are known from the start
  if (!p->others_far) return;
  remat_forms_end(p->forms, -1);
  remat_forms_build(p->forms, m->module, func, m->target, m->persistent - p->others_far, &m->kept_near);
  p->forms->split = -1;
}

// Makes the plan one that has all noted homes, as far as they are arguments of the phase.
static void send_noted(const Rematter *m, Planned *p) {
  const StepProblem *q = &p->forms->items[p->form].q;
  bool *more = allocate_array((size_t)q->p->n_args + 1, sizeof *more), any = false;
  for (int h = 0; h < q->n_homes; h++) {
    int a = q->node_value[h];
    more[a] = (!p->plan.moves || p->plan.moves->near[a] < 0) && is_noted(m, plan_argument_key(q->p->func, a));
    any |= more[a];
  }
  if (any) remat_plan_send_home(q, &m->goal, p->forms->persistent, more, &p->plan);
  free(more);
}

// What the noted homes of other phases make of the plan's arenas, which count what it was planned with.
static PlanBase beside_others(const Rematter *m, const Planned *p) {
  PlanBase base = base_of(m, m->functions[p->function]);
  const PlanProgram *own = p->plan.moves ? &p->plan.moves->p : &p->forms->items[p->form].p;
  PlanBase planned = remat_base(own, p->forms->persistent);
  return (PlanBase){p->plan.arena + base.near - planned.near, p->plan.far_arena + base.far - planned.far};
}

// To the homes of the plans as many more as the other functions need to fit the budget; the plans become those of all
// these.
static void choose_homes(Rematter *m, Planned *planned, int n_planned) {
  int n, low = 0;
  Home *list = near_homes(m, planned, n_planned, &n);
  int noted = m->n_far, high = n;
  // one does not fit: all of them, whatever the budget, so that what then is the smallest can be met
  for (int k = 0; k < n_planned; k++)
    if (m->goal.budget > 0 && planned[k].plan.arena > m->goal.budget) low = n;
  while (low < high && m->goal.budget > 0) {   // the fewest with which they fit
    int middle = low + (high - low) / 2;
    for (int i = 0; i < middle; i++) note(m, list[i].key);
    if (others_need(m) > m->goal.budget) low = middle + 1;
    else high = middle;
    m->n_far = noted;
  }
  for (int i = 0; i < low; i++) note(m, list[i].key);
  for (int k = 0; k < n_planned; k++) {
    send_noted(m, &planned[k]);
    PlanBase ends = beside_others(m, &planned[k]);
    planned[k].plan.arena = ends.near;
    planned[k].plan.far_arena = ends.far;
  }
  add_need(m, others_need(m), 0);
  free(list);
}

static void find_plan(Rematter *m, Planned *p) { p->form = remat_forms_find(p->forms, &m->goal, &p->plan); }

// A phase: each step once, where that fits with the homes that those before it have sent away; else as much as others
// can spare, then a search.
static void find_plan_of_phase(Rematter *m, Planned *p, const Planned *planned, int n_planned) {
  const StepProblem *q = &p->forms->items[0].q;
  p->plan = (RematPlan){.arena = q->arena_none, .seconds = q->seconds_none};
  p->others_near = others_bytes(m, p, planned, n_planned);
  send_noted(m, p);
  if (m->goal.policy == REMAT_POLICY_SOLVE && m->goal.budget > 0 && beside_others(m, p).near <= m->goal.budget) return;
  remat_plan_free(&p->plan);
  leave_to_others(m, p, planned, n_planned);
  p->others_near -= p->others_far;
  find_plan(m, p);
}

static bool far_fits(const Rematter *m, const RematPlan *plan) {
  return !m->goal.far_budget || plan->far_arena <= m->goal.far_budget;
}

static bool plan_fits(const Rematter *m, const RematPlan *plan) {
  return far_fits(m, plan) && (m->goal.budget == 0 || plan->arena <= m->goal.budget);
}

// Writes the plan into the function, unless a budget cannot be met. Returns the function, which may be another than
// before.
static MlirOperation use_plan(Rematter *m, Planned *p, bool fits) {
  RematForms *forms = p->forms;
  RematPlan *plan = &p->plan;
  double overhead = remat_forms_overhead(forms, p->form, plan);
  add_need(m, plan->arena, remat_forms_bytes(forms) - p->others_near);
  if (!far_fits(m, plan)) m->far_need = plan->far_arena;
  if (overhead > m->overhead) m->overhead = overhead;
  if (fits) {
    // Without a budget: what any plan adds whose arena is no larger than the one found.
    int64_t bytes = (m->goal.budget > 0 ? m->goal.budget : plan->arena) + p->others_near;
    double least = overhead > 0 ? remat_forms_bound(forms, bytes) : 0;
    set_attributes(m, forms, p->form, plan, overhead, least, p->others_far);
    if (plan->exec) {
      PlanBase base = base_of(m, m->functions[p->function]);
      remat_rewrite(&forms->items[p->form].p, plan, &base);
    }
  }
  remat_plan_free(plan);
  return remat_forms_end(forms, fits ? p->form : 0);
}

static void rematerialize(Rematter *m, int function, RematForms *forms) {
  Planned p = {.function = function, .forms = forms};
  find_plan(m, &p);
  m->functions[function] = use_plan(m, &p, plan_fits(m, &p.plan));
}

// Of @train, or of all phases: what persists has one home in all. Returns how many there are.
static int find_plans_of_steps(Rematter *m, RematForms *forms, Planned *planned) {
  int n = 0;
  for (int f = 0; f < m->n_functions; f++)
    if (forms[f].n && nn_is_train(m->functions[f])) planned[n++] = (Planned){.function = f, .forms = &forms[f]};
  for (int k = 0; k < n; k++) {
    if (m->goal.far_budget && n > 1) find_plan_of_phase(m, &planned[k], planned, n);
    else find_plan(m, &planned[k]);
    if (m->goal.far_budget) note_far(m, m->functions[planned[k].function], &planned[k].plan);
  }
  if (m->goal.far_budget && n) choose_homes(m, planned, n);
  return n;
}

static bool steps_fit(const Rematter *m, const Planned *planned, int n) {
  bool fit = true;
  for (int k = 0; k < n; k++) fit &= plan_fits(m, &planned[k].plan);
  return fit;
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

static void build_forms(const Rematter *m, RematForms *forms) {
  bool nothing_asked = m->goal.policy == REMAT_POLICY_NONE && !m->budget_text;
  for (int f = 0; f < m->n_functions; f++) {
    if (!may_recompute(m->functions[f])) continue;
    if (nothing_asked && !remat_has_loops(m->functions[f])) leave(m, m->functions[f]);
    else
      remat_forms_build(&forms[f], m->module, m->functions[f], m->target, m->persistent,
                        m->goal.far_budget ? &m->kept_near : NULL);
  }
}

// With homes far away the functions beside @train recompute nothing. So where the budget is not met it may be without
// them, and what is found in vain with them, if it is more than what persists, may not be the smallest.
static bool may_do_near(const Rematter *m, const Planned *planned, int n) {
  int64_t need = m->need;
  for (int k = 0; k < n; k++) need = larger(need, planned[k].plan.arena);
  bool fit = need <= m->goal.budget && steps_fit(m, planned, n);
  return m->goal.budget > 0 && !fit && larger(need, m->goal.budget) > m->persistent;
}

// Plans for the near memory alone, in place of those that do not fit. Returns how many there are.
static int plan_near(Rematter *m, RematForms *forms, Planned *planned, int n) {
  for (int k = 0; k < n; k++) {
    add_need(m, planned[k].plan.arena, remat_forms_bytes(planned[k].forms) - planned[k].others_near);
    if (!far_fits(m, &planned[k].plan)) m->far_need = planned[k].plan.far_arena;
    remat_plan_free(&planned[k].plan);
  }
  m->with_far = (RematNeed){m->need, m->bound, m->far_need, m->goal.far_budget};
  for (int f = 0; f < m->n_functions; f++)
    if (forms[f].n) remat_forms_end(&forms[f], -1);
  m->need = m->bound = m->far_need = m->goal.far_budget = 0;
  m->n_far = 0;
  build_forms(m, forms);
  find_budget(m, m->functions, forms, m->n_functions);
  return find_plans_of_steps(m, forms, planned);
}

// Where a budget cannot be met: what memory far away would make of it, which ranks do not have. Writes and returns
// text.
static const char *tell_far(const Rematter *m, char *text, size_t size) {
  *text = 0;
  if (m->goal.far_budget || m->with_far.far_budget || !m->target || !remat_has_far(m->target) ||
      m->goal.policy != REMAT_POLICY_SOLVE || nn_has_attr(mlirModuleGetOperation(m->module), ATTR_shard))
    return text;
  Rematter far = {.module = m->module,
                  .target = m->target,
                  .goal = m->goal,
                  .kept = m->kept,
                  .persistent = m->persistent,
                  .n_functions = m->n_functions,
                  .functions = m->functions};
  far.goal.far_budget = ANY_BUDGET;
  far.goal.effort = HINT_EFFORT * (m->goal.effort > 0 ? m->goal.effort : 1);
  far.goal.seconds *= HINT_EFFORT;
  remat_far_build(&far.kept_near, m->module, m->target, ANY_BUDGET);
  RematForms forms[NN_MAX_FUNCTIONS] = {0};
  for (int f = 0; f < m->n_functions; f++)
    if (nn_is_train(m->functions[f]))
      remat_forms_build(&forms[f], m->module, m->functions[f], m->target, m->persistent, &far.kept_near);
  Planned planned[NN_MAX_FUNCTIONS];
  int n = find_plans_of_steps(&far, forms, planned);
  for (int k = 0; k < n; k++) {
    Planned *p = &planned[k];
    double overhead = remat_forms_overhead(p->forms, p->form, &p->plan);
    if (overhead > far.overhead) far.overhead = overhead;
    add_need(&far, p->plan.arena, 0);
    remat_plan_free(&p->plan);
    remat_forms_end(p->forms, -1);
  }
  const char *option = m->target->far_place;
  char least[32];
  if (n && far.need <= m->goal.budget)
    snprintf(text, size, "; with --far=%s it can, at %+.1f %% time", option, 100 * far.overhead);
  else if (n && far.need < m->need)
    snprintf(text, size, "; with --far=%s the smallest found is %lld bytes (%s)", option, (long long)far.need,
             print_bytes(far.need, least, sizeof least));
  free(far.far);
  remat_far_free(&far.kept_near);
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
  read_options(&m, run);
  if (!nn_remat_check_far(module, run->target, m.goal.far_budget)) return false;
  PlanPersistent persistent;
  plan_persistent_build(&persistent, module, run->target);
  m.kept = &persistent;
  m.persistent = persistent.total;
  NnFunctions functions = nn_public_functions(module);
  m.n_functions = functions.n;
  m.functions = functions.items;
  RematForms forms[NN_MAX_FUNCTIONS] = {0};
  remat_far_build(&m.kept_near, module, run->target, m.goal.far_budget);
  build_forms(&m, forms);
  find_budget(&m, functions.items, forms, functions.n);
  Planned planned[NN_MAX_FUNCTIONS];
  int n = find_plans_of_steps(&m, forms, planned);
  if (m.goal.far_budget && may_do_near(&m, planned, n)) n = plan_near(&m, forms, planned, n);
  bool fit = steps_fit(&m, planned, n);
  for (int k = 0; k < n; k++) functions.items[planned[k].function] = use_plan(&m, &planned[k], fit);
  for (int f = 0; f < functions.n; f++) {
    if (!forms[f].n || nn_is_train(functions.items[f])) continue;
    if (m.n_far) functions.items[f] = remat_forms_end(&forms[f], 0);
    else rematerialize(&m, f, &forms[f]);
  }
  stream_others(&m);
  if (m.goal.budget > 0) nn_set_attr(mlirModuleGetOperation(module), &NN_I64(ATTR_budget, m.goal.budget));
  if (m.with_far.far_budget && m.need > m.goal.budget) {   // neither way: what was asked for tells
    m.need = smaller(m.need, m.with_far.need);
    m.bound = m.with_far.bound, m.far_need = m.with_far.far_need, m.goal.far_budget = m.with_far.far_budget;
  }
  bool ok = report(&m);
  free(m.far);
  remat_far_free(&m.kept_near);
  plan_persistent_free(&persistent);
  return ok;
}
