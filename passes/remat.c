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

typedef struct Search {
  const StepProblem *q;      // Borrowed
  const Rematter *m;         // Borrowed
  Candidate best;            // the cheapest that fits, else the one of the smallest arena
  RematSchedule schedule;    // Owned; that of best
  bool fits;
} Search;

static int64_t place(const StepProblem *q, const Rematter *m, PlanLayout *l) {
  plan_layout_place(q->p, l, m->budget > m->persistent ? m->budget - m->persistent : 0, PLAN_EFFORT_SHORT);
  return m->persistent + l->arena;
}

// The real plan of a schedule.
static Candidate evaluate(const StepProblem *q, const Rematter *m, const RematSchedule *s) {
  Candidate c = {0};
  c.exec = step_problem_expand(q, s, &c.n, &c.cost);
  PlanLayout l;
  plan_layout_build(q->p, c.exec, c.n, PLAN_INPLACE_DECIDE, &l);
  c.arena = place(q, m, &l);
  plan_layout_free(&l);
  return c;
}

static RematSchedule copy_schedule(const RematSchedule *s) {
  RematSchedule copy = *s;
  copy.exec = solver_allocate((size_t)s->n, sizeof *copy.exec);
  if (s->n) memcpy(copy.exec, s->exec, (size_t)s->n * sizeof *copy.exec);
  return copy;
}

// Keeps a schedule when it is the best so far. Returns the bytes that its real plan needs: at least what is live, and the arena where it
// matters. Offsets are looked for only when they can win.
static int64_t consider(Search *search, const RematSchedule *s) {
  const StepProblem *q = search->q;
  const Rematter *m = search->m;
  Candidate c = {0};
  PlanLayout l;
  c.exec = step_problem_expand(q, s, &c.n, &c.cost);
  plan_layout_build(q->p, c.exec, c.n, PLAN_INPLACE_DECIDE, &l);
  c.arena = m->persistent + plan_layout_peak(q->p, &l);
  bool may_fit = c.arena <= m->budget;
  bool may_win = !search->best.exec || (search->fits ? may_fit && c.cost < search->best.cost : may_fit || c.arena < search->best.arena);
  if (may_win) c.arena = place(q, m, &l);
  plan_layout_free(&l);
  bool fits = c.arena <= m->budget;
  bool wins = may_win && (!search->best.exec || (fits && !search->fits) || (fits ? c.cost < search->best.cost : !search->fits && c.arena < search->best.arena));
  int64_t arena = c.arena;
  if (wins) {
    candidate_free(&search->best);
    remat_schedule_free(&search->schedule);
    search->best = c;
    search->schedule = copy_schedule(s);
    search->fits = fits;
  } else {
    candidate_free(&c);
  }
  return arena;
}

static void consider_seed(void *context, const RematSchedule *s) { consider(context, s); }

// Solves from `start` or the solver's own seeds, for a peak that would give an arena of the budget if the two differed as they do in
// the best schedule so far, and again from the result for smaller peaks until the real plan fits: the solver knows few in-place
// results and no gaps between buffers. `number` makes the random numbers of one call different from those of another.
static void solve_for(Search *search, int number, const RematSchedule *start, int64_t max_moves) {
  enum { ROUNDS = 5 };
  const Rematter *m = search->m;
  RematSchedule last = {0};
  int64_t target = m->budget + search->schedule.peak - search->best.arena;
  for (int round = 0; round < ROUNDS && target > m->persistent; round++) {
    RematOptions options = m->options;
    options.max_moves = round && max_moves > 0 ? max_moves / 4 : max_moves;
    options.seed += (uint64_t)(number * ROUNDS + round);
    options.starts = round ? &last : start;
    options.n_starts = options.starts ? 1 : 0;
    RematResult result;
    remat_solve(&search->q->problem, target, &options, &result);
    remat_schedule_free(&last);
    last = copy_schedule(&result.schedule);
    remat_result_free(&result);
    int64_t error = consider(search, &last) - m->budget;
    if (error <= 0) break;
    target = (last.peak < target ? last.peak : target) - error - m->budget / 2048;
  }
  remat_schedule_free(&last);
}

// Every seed is tried on the real plan, so the result is never worse than one of them. The best tells how far the solver's peak is from
// the arena; then the solver improves its own seeds, and a longer search the best of all.
static void solve_under_budget(Search *search) {
  enum { SEEDS_ONLY = -1, SEARCHES = 3 };
  int64_t moves = 120000000 / (200 + (int64_t)search->q->problem.n_nodes);   // about 0.5 s
  remat_each_seed(&search->q->problem, consider_seed, search);
  solve_for(search, 0, NULL, SEEDS_ONLY);
  for (int i = 1; i <= (search->fits ? SEARCHES : 1); i++) {
    RematSchedule start = copy_schedule(&search->schedule);
    solve_for(search, i, &start, moves);
    remat_schedule_free(&start);
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
  Search search = {.q = q, .m = m};
  solve_under_budget(&search);
  *best = search.best;
  remat_schedule_free(&search.schedule);
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
    nn_set_attr(func, &NN_I64("nn.activations_none", q.activations_none));
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
// Establishes: docs/internals.md, "Remat in the IR"; nn.remat, nn.overhead, nn.arena_none on the functions, nn.budget on the module.
// With a budget, the arena that inplace and plan find fits it. A policy that saves nothing leaves the function as it was.
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
  nn_error(mlirModuleGetOperation(module), "memory budget %s cannot be met: the smallest budget found is %s", nn_format_bytes(m.budget, want, sizeof want),
           nn_format_bytes(need, have, sizeof have));
  return false;
}
