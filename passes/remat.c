// The pass `remat`: rematerialization. Poses the step as a RematProblem (passes/solver), lets a policy or the search under a budget
// choose a sequence of executions, and writes the sequence into the function. The solver counts buffers; what is promised is the
// arena: a candidate counts only when the real plan of it, in-place results and offsets included, fits.
#include <stdlib.h>
#include <string.h>

#include "passes/remat.h"
#include "passes/solver/error.h"
#include "passes/solver/solver.h"

typedef struct Rematter {
  MlirModule module;
  const NnTarget *target;    // Borrowed
  RematPolicy policy;
  const char *policy_name;   // Borrowed
  int64_t budget;            // bytes, 0: none
  RematOptions options;
  int64_t persistent;        // bytes
} Rematter;

// ---------------------------------------------------------------------------------------------------------------------
// Candidates

typedef struct Candidate {
  int n;
  int *exec;        // Owned; steps
  double cost;      // seconds
  int64_t arena;    // bytes, of the real plan
} Candidate;

static void candidate_free(Candidate *c) {
  free(c->exec);
  *c = (Candidate){0};
}

// The real plan of a schedule. capacity: enough to know that it fits.
static Candidate evaluate(const StepProblem *q, const Rematter *m, const RematSchedule *s) {
  Candidate c = {0};
  c.exec = step_problem_expand(q, s, &c.n, &c.cost);
  PlanLayout l;
  plan_layout_build(q->p, c.exec, c.n, PLAN_INPLACE_DECIDE, &l);
  plan_layout_place(q->p, &l, m->budget > m->persistent ? m->budget - m->persistent : 0, PLAN_EFFORT_SHORT);
  c.arena = m->persistent + l.arena;
  plan_layout_free(&l);
  return c;
}

// Keeps the better of two candidates: fitting before not, then cheaper among those that fit, smaller among those that do not.
static void keep_better(Candidate *best, Candidate *c, int64_t budget) {
  bool fits = c->arena <= budget, best_fits = best->exec && best->arena <= budget;
  bool better = !best->exec || (fits && !best_fits) || (fits && c->cost < best->cost) || (!fits && !best_fits && c->arena < best->arena);
  if (better) {
    candidate_free(best);
    *best = *c;
    *c = (Candidate){0};
  }
  candidate_free(c);
}

// Solves for a peak of `target` bytes and keeps the result if it is the best so far. Returns its arena.
static int64_t solve_for(const StepProblem *q, const Rematter *m, int64_t target, int64_t max_moves, Candidate *best) {
  RematOptions options = m->options;
  options.max_moves = max_moves;
  RematResult result;
  remat_solve(&q->problem, target, &options, &result);
  Candidate c = evaluate(q, m, &result.schedule);
  int64_t arena = c.arena;
  remat_result_free(&result);
  keep_better(best, &c, m->budget);
  return arena;
}

// The solver knows no in-place results and no gaps between buffers, so its peak is not the arena. Quick solutions find the target whose
// schedules just fit in truth; the long search then runs there.
static void solve_under_budget(const StepProblem *q, const Rematter *m, Candidate *best) {
  enum { QUICK = -1, FULL = 0, ROUNDS = 6 };
  RematSchedule none = remat_baseline(&q->problem);
  int64_t target = m->budget + (none.peak > q->arena_none ? none.peak - q->arena_none : 0), fits = 0, over = 0, grain = m->budget / 128 + 1;
  int64_t highest = none.peak;
  remat_schedule_free(&none);
  for (int round = 0; round < ROUNDS && target > m->persistent; round++) {
    int64_t arena = solve_for(q, m, target, QUICK, best);
    int64_t error = arena - m->budget;
    if (error <= 0) fits = target;
    else over = target;
    if (fits && (over ? over - fits <= grain : error > -grain || target >= highest)) break;
    if (fits && over) target = fits + (over - fits) / 2;
    else if (fits) target -= error;
    else target -= error > grain ? error : grain;
  }
  if (!fits) return;
  if (solve_for(q, m, fits, FULL, best) > m->budget) solve_for(q, m, fits - grain, FULL, best);
}

static void try_policies(const StepProblem *q, const Rematter *m, Candidate *best) {
  static const RematPolicy policies[] = {REMAT_POLICY_SPEED, REMAT_POLICY_SQRT, REMAT_POLICY_MANUAL, REMAT_POLICY_RECURSIVE};
  for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
    RematSchedule s = remat_policy_run(&q->problem, policies[i]);
    Candidate c = evaluate(q, m, &s);
    remat_schedule_free(&s);
    keep_better(best, &c, m->budget);
  }
}

// Fills `best`; its exec is NULL when every step is to run once, in order.
static void choose(const StepProblem *q, const Rematter *m, Candidate *best) {
  *best = (Candidate){.arena = q->arena_none};
  if (m->policy == REMAT_POLICY_NONE) return;
  if (m->policy != REMAT_POLICY_SOLVE) {
    RematSchedule s = remat_policy_run(&q->problem, m->policy);
    *best = evaluate(q, m, &s);
    remat_schedule_free(&s);
    return;
  }
  if (m->budget == 0 || q->arena_none <= m->budget) return;
  try_policies(q, m, best);
  solve_under_budget(q, m, best);
}

// ---------------------------------------------------------------------------------------------------------------------

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
  plan_layout_place(&p, &l, 0, PLAN_EFFORT_SHORT);
  int64_t arena = m->persistent + l.arena;
  plan_layout_free(&l);
  plan_program_free(&p);
  return arena;
}

// Rewrites the function and returns its arena.
static int64_t rematerialize(const Rematter *m, MlirOperation func) {
  PlanProgram p;
  StepProblem q;
  Candidate best;
  plan_program_build(&p, m->module, func, m->target);
  step_problem_build(&q, &p, m->persistent, m->target);
  choose(&q, m, &best);
  int64_t arena = best.arena;
  if (m->budget == 0 || arena <= m->budget) {
    if (best.exec) remat_rewrite(&p, best.exec, best.n);
    nn_set_attr(func, &NN_STR("nn.remat", best.exec ? m->policy_name : "none"));
    nn_set_attr(func, &NN_F64A("nn.overhead", best.exec && q.seconds_none > 0 ? best.cost / q.seconds_none - 1 : 0));
    nn_set_attr(func, &NN_I64("nn.arena_none", q.arena_none));
  }
  candidate_free(&best);
  step_problem_free(&q);
  plan_program_free(&p);
  return arena;
}

static bool read_options(Rematter *m, const NnPassRun *run, int64_t largest, MlirOperation where) {
  m->policy_name = nn_pass_option(run, "policy", "auto");
  const char *budget = nn_pass_option(run, "budget", NULL), *seed = nn_pass_option(run, "seed", NULL), *limit = nn_pass_option(run, "time-limit", NULL);
  double percent = 0;
  if (!remat_policy_parse(m->policy_name, &m->policy)) {
    nn_error(where, "'%s' is not a rematerialization policy", m->policy_name);
    return false;
  }
  if (budget && !nn_parse_size(budget, &m->budget, &percent)) {
    nn_error(where, "'%s' is not a memory budget: expected a size like 512MiB or a percentage of what the step needs without recomputation", budget);
    return false;
  }
  if (percent > 0) m->budget = (int64_t)(percent / 100 * (double)largest);
  if (seed) m->options.seed = strtoull(seed, NULL, 10);
  if (limit) m->options.time_limit = strtod(limit, NULL);
  return true;
}

// Requires: kernels (fuse); schedule's order is what the search starts from.
// Establishes: docs/internals.md, "Remat in the IR"; nn.remat, nn.overhead, nn.arena_none on the functions, nn.budget on the module. With a budget, the arena that
// inplace and plan find fits it.
// Breaks: nn.inplace, nn.offset; checkpoint marks are gone from rewritten functions.
bool nn_pass_remat(MlirModule module, const NnPassRun *run) {
  Rematter m = {.module = module, .target = run->target};
  PlanPersistent persistent;
  plan_persistent_build(&persistent, module, run->target && run->target->alignment > 0 ? run->target->alignment : 64);
  m.persistent = persistent.total;
  plan_persistent_free(&persistent);
  MlirOperation functions[16];
  int n = nn_public_functions(module, functions, 16);
  const char *budget = nn_pass_option(run, "budget", NULL);
  int64_t largest = 0, need = 0;
  for (int f = 0; f < n && budget; f++) {
    int64_t arena = function_arena(&m, functions[f]);
    if (arena > largest) largest = arena;
    if (!may_recompute(functions[f]) && arena > need) need = arena;
  }
  if (!read_options(&m, run, largest, mlirModuleGetOperation(module))) return false;
  for (int f = 0; f < n; f++) {
    if (!may_recompute(functions[f])) continue;
    int64_t arena = rematerialize(&m, functions[f]);
    if (arena > need) need = arena;
  }
  if (m.budget > 0) nn_set_attr(mlirModuleGetOperation(module), &NN_I64("nn.budget", m.budget));
  if (m.budget == 0 || need <= m.budget) return true;
  char want[32], have[32];
  nn_error(mlirModuleGetOperation(module), "memory budget %s cannot be met: the smallest budget found is %s",
           nn_format_bytes(m.budget, want, sizeof want), nn_format_bytes(need, have, sizeof have));
  return false;
}
