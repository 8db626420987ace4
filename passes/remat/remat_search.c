// A plan for a goal. The solver counts buffers of a model; what is promised is the arena: a schedule counts only with
// its real plan, in-place results and offsets included. Where the two differ the solver is asked again, for what the
// difference leaves.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "passes/remat/remat.h"
#include "support/alloc.h"
#include "support/clock.h"
#include "support/input_error.h"

typedef struct Search {
  const StepProblem *q;    // Borrowed
  const RematGoal *goal;   // Borrowed
  int64_t persistent;      // bytes, wherever they are at home
  int64_t budget;          // bytes; that of the goal, or a probe
  int64_t spare;           // bytes of it that are not given to the solver at first
  double max_seconds;      // of the step, 0: any
  bool lowers;             // bytes alone count, not what those that are left might save
  double deadline;         // by the clock, where goal->seconds asks for it
  RematProblem problem;    // that of q, with nodes of its own: see distrust
  RematNode *nodes;        // Owned
  bool *distrusted;        // Owned, per node
  int n_distrusted;
  RematPlan best;   // see is_better
  int *last;        // Owned; the sequence considered last, where considering it again finds nothing else
  int n_last;
  int64_t last_arena;   // bytes, of its plan
  int n_solved;
} Search;

void remat_plan_free(RematPlan *plan) {
  free(plan->exec);
  free(plan->offset);
  if (plan->moves) remat_moves_free(plan->moves);
  free(plan->moves);
  remat_schedule_free(&plan->schedule);
  *plan = (RematPlan){0};
}

static RematSchedule copy_schedule(const RematSchedule *s) {
  RematSchedule copy = *s;
  copy.exec = allocate_array((size_t)s->n, sizeof *copy.exec);
  if (s->n) memcpy(copy.exec, s->exec, (size_t)s->n * sizeof *copy.exec);
  return copy;
}

static bool fits(const Search *search, const RematPlan *plan) {
  bool far = !search->problem.far || plan->far_arena <= search->problem.far->budget;
  return far && plan->arena <= search->budget;
}

// With a budget: the cheapest that fits, else the smallest. Without: the smallest of those that are fast enough, else
// the fastest.
static bool is_better(const Search *search, const RematPlan *plan) {
  const RematPlan *best = &search->best;
  if (!best->exec) return true;
  if (search->max_seconds > 0) {
    bool fast = plan->seconds <= search->max_seconds, best_fast = best->seconds <= search->max_seconds;
    return fast != best_fast ? fast : fast ? plan->arena < best->arena : plan->seconds < best->seconds;
  }
  if (fits(search, plan) != fits(search, best)) return fits(search, plan);
  if (!fits(search, plan)) return plan->arena < best->arena;
  return plan->seconds < best->seconds || (plan->seconds == best->seconds && plan->arena < best->arena);
}

// A search that begins from a schedule often ends with it.
static bool was_last(const Search *search, const RematPlan *plan) {
  size_t bytes = (size_t)plan->n * sizeof *plan->exec;
  return !plan->moves && search->n_last > 0 && search->n_last == plan->n &&
         memcmp(search->last, plan->exec, bytes) == 0;
}

// `again`: considering it once more may find something.
static void remember(Search *search, const RematPlan *plan, bool again) {
  bool keep = !again && !plan->moves;   // numbers of copies are told by the plan alone
  search->n_last = keep ? plan->n : 0;
  if (!keep) return;
  search->last = reallocate_array(search->last, (size_t)plan->n + 1, sizeof *search->last);
  memcpy(search->last, plan->exec, (size_t)plan->n * sizeof *plan->exec);
  search->last_arena = plan->arena;
}

// Measures a placed plan: its arenas, and, where lanes run beside each other, its time.
static void measure(const Search *search, PlanLayout *l, const PlanBase *base, RematPlan *plan) {
  plan->arena = base->near + l->arena;
  plan->far_arena = base->far + l->far_arena;
  if (plan->moves)
    plan->seconds = remat_moves_seconds(plan->moves, l, base, search->q->step_seconds, &search->q->rates);
}

static double effort_of(const RematGoal *goal) { return goal->effort > 0 ? goal->effort : 1; }

// Makes the real plan of a schedule and keeps it when it is the best so far. Returns the bytes it needs: at least what
// is live, and the arena where it matters. Offsets are looked for only when they can win.
static int64_t consider(Search *search, const RematSchedule *s) {
  const StepProblem *q = search->q;
  RematPlan plan = {0};
  PlanLayout l;
  RematMoves moves = {0};
  plan.exec = step_problem_expand(q, s, &moves, &plan.n, &plan.seconds);
  if (moves.near) {
    plan.moves = allocate_array(1, sizeof moves);
    *plan.moves = moves;
  }
  if (was_last(search, &plan)) {
    remat_plan_free(&plan);
    return search->last_arena;
  }
  PlanProgram *p = plan.moves ? &plan.moves->p : q->p;
  PlanBase base = remat_base(p, search->persistent);
  plan_layout_build(p, plan.exec, plan.n, PLAN_INPLACE_DECIDE, &l);
  plan.arena = base.near + plan_layout_peak(p, &l);
  bool may_win = is_better(search, &plan);
  int64_t capacity = search->budget > base.near ? search->budget - base.near : 0;
  // long only where short spoils it
  int64_t longest = (int64_t)fmax(1, PLAN_LONG * fmin(1, effort_of(search->goal))), work = PLAN_SHORT;
  for (; may_win; work = longest) {
    plan_layout_place(p, &l, capacity, work < longest ? work : longest);
    measure(search, &l, &base, &plan);
    if (is_better(search, &plan) || work >= longest) break;
  }
  if (may_win) {
    plan.offset = allocate_array((size_t)l.n_buffers, sizeof *plan.offset);
    for (int b = 0; b < l.n_buffers; b++) plan.offset[b] = l.buffers[b].offset;
  }
  plan_layout_free(&l);
  int64_t arena = plan.arena;
  bool wins = may_win && is_better(search, &plan);
  remember(search, &plan, wins && work < longest);
  if (wins) {
    plan.schedule = copy_schedule(s);
    remat_plan_free(&search->best);
    search->best = plan;
  } else {
    remat_plan_free(&plan);
  }
  return arena;
}

// Policies know of one memory alone.
static void consider_policy(Search *search, RematPolicy policy) {
  if (search->problem.far) return;
  RematSchedule s = remat_policy_run(&search->problem, policy);
  consider(search, &s);
  remat_schedule_free(&s);
}

// `part` of the usual moves or time.
static RematOptions search_options(Search *search, double part) {
  const RematGoal *goal = search->goal;
  double moves = part * effort_of(goal) * 500000000 / (200 + (double)search->problem.n_nodes);
  RematOptions options = {.seed = goal->seed + (uint64_t)search->n_solved++,
                          .max_moves = (int64_t)moves + 1,
                          .bound_seconds = 0.02};   // the bound that is reported is another: step_bound_build
  if (effort_of(goal) < 1) {   // what is made before the first move, and bounds, take their part, too
    options.counted = true;
    options.time_limit = REMAT_COUNTED_SECONDS * effort_of(goal);
    options.bound_seconds *= effort_of(goal);
  }
  if (goal->seconds > 0) {
    double left = search->deadline - seconds_now(), share = part * goal->seconds / 2;
    options.max_moves = INT64_MAX;
    options.counted = false;
    options.time_limit = fmax(0.01, fmin(share, left));
  }
  return options;
}

// One call of the solver, for a peak of `target` bytes. The result is considered and handed over. Owned by the caller.
// `start` may be NULL. Returns the bytes of the real plan.
static int64_t solve(Search *search, int64_t target, const RematSchedule *start, double part, RematSchedule *found) {
  RematOptions options = search_options(search, part);
  options.starts = start;
  options.n_starts = start ? 1 : 0;
  RematResult result;
  remat_solve(&search->problem, target, &options, &result);
  *found = copy_schedule(&result.schedule);
  remat_result_free(&result);
  return consider(search, found);
}

// Where the real plan of a schedule needs more than `limit`, because an operand lives on that was to be written over,
// that saving is not counted any more. Returns whether there was one.
static bool distrust(Search *search, const RematSchedule *s, int64_t limit) {
  const StepProblem *q = search->q;
  int n, count = 0, position = 0;
  double seconds;
  RematMoves moves = {0};
  int *exec = step_problem_expand(q, s, &moves, &n, &seconds);
  bool copies = moves.near != NULL;
  PlanProgram *p = copies ? &moves.p : q->p;
  PlanBase base = remat_base(p, search->persistent);
  PlanLayout l;
  plan_layout_build(p, exec, n, PLAN_INPLACE_DECIDE, &l);
  int64_t *live = plan_layout_live(p, &l);
  for (int i = 0; i < s->n; i++) {
    RematItemKind kind = remat_item_kind(&q->problem, s->exec[i]);
    int node = remat_item_node(&q->problem, s->exec[i]);
    position += kind == REMAT_STORE || kind == REMAT_FETCH;
    if (kind != REMAT_EXECUTE || node < q->n_arg_nodes || q->part[node] > 0) continue;
    if (!search->distrusted[node] && base.near + live[position] > limit &&
        step_problem_overlap(q, &l, position) < q->saved[node]) {
      search->distrusted[node] = true;
      search->nodes[node].workspace += q->saved[node];
      count++;
    }
    for (int k = q->first_step[node]; k >= 0; k = q->next_step[k]) position++;
  }
  free(live);
  free(exec);
  plan_layout_free(&l);
  if (copies) remat_moves_free(&moves);
  search->n_distrusted += count;
  return count > 0;
}

// Rounds of something: fewer where each takes seconds.
static int rounds(const Search *search, int usual) {
  enum { LARGE = 4000 };   // nodes
  return search->problem.n_nodes < LARGE ? usual : (usual + 2) / 3;
}

// Repairs a schedule whose real plan needs `excess` bytes too much, starting from itself, until one fits: by correcting
// the problem, or for smaller and smaller peaks. Where not even the problem's peak is within the budget, only by
// correcting it.
static void repair(Search *search, const RematSchedule *first, int64_t excess, bool correct) {
  enum { REPAIRS = 6 };
  int64_t budget = search->budget + search->q->slack, target = budget;
  RematSchedule last = copy_schedule(first);
  for (int i = 0; i < rounds(search, REPAIRS) && excess > 0 && target > 0; i++) {
    bool within = last.peak <= budget;
    bool corrected = correct && distrust(search, &last, (within ? budget : last.peak) - search->q->slack);
    if (!within && !corrected) break;
    if (!corrected) target = (last.peak < target ? last.peak : target) - excess;
    RematSchedule next;
    excess = solve(search, target, &last, 0.25, &next) - search->budget;
    bool lower = next.peak < last.peak;
    remat_schedule_free(&last);
    last = next;
    if (!lower && !corrected) break;
  }
  remat_schedule_free(&last);
}

// What the best leaves free is given back.
static void use_what_is_left(Search *search) {
  enum { ROUNDS = 2 };
  for (int i = 0; i < ROUNDS && fits(search, &search->best); i++) {
    int64_t unused = search->budget - search->best.arena;
    if (unused < search->budget / 256 || search->best.seconds <= search->q->seconds_none) break;
    RematSchedule start = copy_schedule(&search->best.schedule), next;
    solve(search, start.peak + unused, &start, 0.25, &next);
    remat_schedule_free(&start);
    remat_schedule_free(&next);
  }
}

// No arena is smaller that is looked for.
static int64_t least_arena(const StepProblem *q) {
  return q->problem.far ? q->bound_bytes : remat_min_budget_bound(&q->problem) - q->slack;
}

static bool may_fit(const Search *search, int64_t budget) { return budget >= least_arena(search->q); }

// The least time within the budget, from `start`, which may be NULL, with `part` of the usual moves. Without a start
// the problem, where it had to be corrected, is solved anew: what was found for the other may lie in a valley.
static void solve_under_budget(Search *search, const RematSchedule *start, double part) {
  enum { PROBLEMS = 3 };
  int64_t target = search->budget + search->q->slack - (start ? 0 : search->spare);
  for (int i = 0; i < (start ? 1 : rounds(search, PROBLEMS)); i++) {
    RematSchedule first;
    int64_t excess = solve(search, target, start, part, &first) - search->budget;
    int corrected = search->n_distrusted;
    if (excess > 0) {
      repair(search, &first, excess, false);
      repair(search, &first, excess, true);
    }
    remat_schedule_free(&first);
    if (search->n_distrusted == corrected) break;
  }
  if (!search->lowers) use_what_is_left(search);
}

// The smallest arena within max_seconds, or at any price.
static void shrink(Search *search) {
  enum { REPAIRS = 3 };
  for (int i = 0; i < rounds(search, REPAIRS); i++) {
    RematOptions options = search_options(search, i ? 0.15 : 0.3);
    RematResult result;
    remat_minimize_peak(&search->problem, search->max_seconds > 0 ? search->max_seconds : INFINITY, &options, &result);
    int64_t said = result.schedule.peak - search->q->slack, arena = consider(search, &result.schedule);
    bool again = arena > said && distrust(search, &result.schedule, said);
    remat_result_free(&result);
    if (!again) break;
  }
}

static Search begin_search(const StepProblem *q, const RematGoal *goal, int64_t persistent_bytes, int64_t budget) {
  Search search = {.q = q,
                   .goal = goal,
                   .persistent = persistent_bytes,
                   .budget = budget,
                   .problem = q->problem,
                   .deadline = seconds_now() + goal->seconds};
  size_t n = (size_t)q->problem.n_nodes;
  search.nodes = allocate_array(n, sizeof *search.nodes);
  if (n) memcpy(search.nodes, q->problem.nodes, n * sizeof *search.nodes);
  search.problem.nodes = search.nodes;
  search.distrusted = allocate_array(n, sizeof *search.distrusted);
  return search;
}

static void measure_schedule(const RematProblem *problem, RematSchedule *s) {
  RematSimulation simulation;
  InputError error;
  if (!remat_simulate(problem, s->exec, s->n, &simulation, &error)) return;
  s->peak = simulation.peak;
  s->cost = simulation.cost;
  s->makespan = simulation.makespan;
  remat_simulation_free(&simulation);
}

// Hands the best over and frees the rest.
static RematPlan end(Search *search) {
  free(search->nodes);
  free(search->distrusted);
  free(search->last);
  // in the terms of the problem as it was given
  if (search->best.exec) measure_schedule(&search->q->problem, &search->best.schedule);
  return search->best;
}

static void consider_policies(Search *search) {
  static const RematPolicy policies[] = {REMAT_POLICY_SQRT, REMAT_POLICY_SPEED, REMAT_POLICY_RECURSIVE};
  for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) consider_policy(search, policies[i]);
}

// Makes `plan`, where there is one and it is smaller, the best; frees the other. Returns whether it was.
static bool keep_smaller(RematPlan *best, RematPlan *plan) {
  bool smaller = plan->exec && plan->arena < best->arena;
  if (smaller) {
    RematPlan worse = *best;
    *best = *plan;
    *plan = worse;
  }
  remat_plan_free(plan);
  return smaller;
}

// Of an arena: the part by which a search aims below it at first, and the one that is not worth one.
enum { WIDEST = 32, NARROWEST = 256 };

static bool is_least(const RematPlan *plan, int64_t low) { return plan->arena - low < plan->arena / NARROWEST; }

// Searches `attempts` times below the best, each from the best so far, with `part` of the usual moves: by the widest
// part, and where that fails by finer ones.
static void descend(const StepProblem *q, const RematGoal *goal, int64_t persistent_bytes, int attempts, double part,
                    RematPlan *best) {
  enum { FINER = 3 };
  int64_t fraction = WIDEST, low = least_arena(q);
  for (int i = 0; i < attempts && !is_least(best, low); i++) {
    Search below = begin_search(q, goal, persistent_bytes, best->arena - best->arena / fraction);
    below.lowers = true;
    if (may_fit(&below, below.budget)) solve_under_budget(&below, &best->schedule, part);
    RematPlan plan = end(&below);
    if (!keep_smaller(best, &plan)) fraction *= FINER;
  }
}

// The smallest arena that is found with that goal's effort.
static RematPlan find_least(const StepProblem *q, const RematGoal *goal, int64_t persistent_bytes) {
  enum { ANEW = 3, ATTEMPTS = 6, HALVES = 4 };
  Search least = begin_search(q, goal, persistent_bytes, 0);
  consider_policy(&least, REMAT_POLICY_NONE);
  consider_policies(&least);
  shrink(&least);
  RematPlan best = end(&least);
  int64_t low = least_arena(q);
  if (is_least(&best, low)) return best;
  // of schedules with one peak some can be placed in less
  Search tight = begin_search(q, goal, persistent_bytes, best.arena - 1);
  RematSchedule found;
  solve(&tight, best.schedule.peak, NULL, 1, &found);
  remat_schedule_free(&found);
  RematPlan plan = end(&tight);
  keep_smaller(&best, &plan);
  // the usual moves are fewer where nodes are more; lowering many takes many
  double moves = fmin(fmax(q->problem.n_nodes / 1000.0, 0.3), 2);
  // with copies plans of far less need others than those of the smallest peak found: between that and what none can be
  for (int i = 0; i < rounds(&least, HALVES) && q->problem.far && !is_least(&best, low); i++) {
    Search between = begin_search(q, goal, persistent_bytes, low + (best.arena - low) / 2);
    between.lowers = true;
    solve_under_budget(&between, NULL, moves);
    plan = end(&between);
    int64_t tried = between.budget;
    if (!keep_smaller(&best, &plan) || best.arena > tried) low = tried;
  }
  int attempts = rounds(&least, ATTEMPTS), anew = 0;
  descend(q, goal, persistent_bytes, attempts, moves, &best);
  // That may end in a valley, where a search for less from its own beginnings ends lower.
  for (bool lower = true; lower && anew < rounds(&least, ANEW) && best.arena - best.arena / WIDEST >= low;) {
    Search below = begin_search(q, goal, persistent_bytes, best.arena - best.arena / WIDEST);
    below.lowers = true;
    if (may_fit(&below, below.budget)) solve_under_budget(&below, NULL, moves);
    plan = end(&below);
    lower = keep_smaller(&best, &plan);
    anew += lower;
  }
  if (anew) descend(q, goal, persistent_bytes, attempts, moves, &best);
  return best;
}

// What a tenth of the effort finds is found, too, down to a tenth of the usual.
static RematPlan find_least_of_efforts(const StepProblem *q, RematGoal goal, int64_t persistent_bytes) {
  const double quickest = 0.1;
  if (goal.effort <= 0) goal.effort = 1;
  RematPlan best = find_least(q, &goal, persistent_bytes);
  bool ends = goal.seconds > 0 || is_least(&best, least_arena(q));
  for (goal.effort /= 10; !ends && goal.effort >= quickest; goal.effort /= 10) {
    RematPlan plan = find_least(q, &goal, persistent_bytes);
    keep_smaller(&best, &plan);
  }
  return best;
}

// Tells a plan of q->alone in the terms of q, which has homes before its other nodes.
static void number_with_homes(const Search *search, RematPlan *plan) {
  for (int i = 0; i < plan->schedule.n; i++) plan->schedule.exec[i] += search->q->n_homes;
  measure_schedule(&search->problem, &plan->schedule);
}

// Nothing was found that fits: the smallest arena there is, never larger with memory far away than without. The search
// for it does not depend on the budget, so that a budget of what it finds can be met.
static void find_smallest(Search *search) {
  const StepProblem *q = search->q;
  RematGoal goal = *search->goal;
  RematPlan best = find_least_of_efforts(q, goal, search->persistent);
  if (q->alone && least_arena(q->alone) < best.arena) {
    goal.far_budget = 0;
    RematPlan plan = find_least_of_efforts(q->alone, goal, search->persistent);
    number_with_homes(search, &plan);
    keep_smaller(&best, &plan);
  }
  remat_plan_free(&search->best);
  search->best = best;
}

// The plan without memory far away, where there is one within the budget: what is found with it is never slower.
static void take_plan_alone(Search *search) {
  const StepProblem *alone = search->q->alone;
  RematGoal goal = *search->goal;
  goal.far_budget = 0;
  goal.seconds /= 3;
  Search one = begin_search(alone, &goal, search->persistent, search->budget);
  consider_policies(&one);
  if (may_fit(&one, search->budget)) solve_under_budget(&one, NULL, 1);
  bool within = one.best.exec && fits(&one, &one.best);
  RematPlan plan = end(&one);
  if (!within) {
    remat_plan_free(&plan);
    return;
  }
  number_with_homes(search, &plan);
  remat_plan_free(&search->best);
  search->best = plan;
}

// From the best, which does not move anything yet.
static void add_moves(Search *search) {
  if (!search->best.exec || search->best.moves || !fits(search, &search->best)) return;
  RematSchedule start = copy_schedule(&search->best.schedule), next;
  solve(search, search->budget + search->q->slack, &start, 0.5, &next);
  remat_schedule_free(&start);
  remat_schedule_free(&next);
}

void remat_find(const StepProblem *q, const RematGoal *goal, int64_t persistent_bytes, RematPlan *plan) {
  *plan = (RematPlan){.arena = q->arena_none, .seconds = q->seconds_none};
  if (goal->policy == REMAT_POLICY_NONE) return;
  bool solved = goal->policy == REMAT_POLICY_SOLVE;
  if (solved && (goal->budget > 0 ? q->arena_none <= goal->budget : goal->max_overhead < 0)) return;
  Search search = begin_search(q, goal, persistent_bytes, goal->budget);
  consider_policy(&search, solved ? REMAT_POLICY_NONE : goal->policy);
  if (solved && goal->budget == 0) {
    search.max_seconds = (1 + goal->max_overhead) * q->seconds_none;
    consider_policies(&search);
    shrink(&search);
  } else if (solved) {
    consider_policies(&search);
    if (q->alone) take_plan_alone(&search);
    // With copies a real plan needs a little more than the problem says, and a repair costs more time than the bytes.
    enum { SPARE = 512, MANY = 200 };   // where there are many values, some are small enough
    search.spare = q->problem.far && q->problem.n_nodes > MANY ? goal->budget / SPARE : 0;
    if (may_fit(&search, goal->budget)) solve_under_budget(&search, NULL, 1);
    if (q->alone) add_moves(&search);
    if (!search.best.exec || !fits(&search, &search.best)) {
      find_smallest(&search);
      use_what_is_left(&search);
    }
  }
  *plan = end(&search);
}

static bool reads(const RematProblem *problem, int node, int input) {
  for (int i = 0; i < problem->nodes[node].n_inputs; i++)
    if (problem->nodes[node].inputs[i] == input) return true;
  return false;
}

// A schedule in which the nodes with more[h] are far homes, too.
static RematSchedule send_home(const RematProblem *problem, const RematSchedule *s, const bool *more) {
  RematSchedule out = {.exec = allocate_array((size_t)(s->n + 3 * problem->n_nodes), sizeof *out.exec)};
  bool *fetched = allocate_array((size_t)problem->n_nodes, sizeof *fetched);
  for (int h = 0; h < problem->n_nodes; h++)
    if (more[h]) out.exec[out.n++] = remat_item(problem, REMAT_FAR_HOME, h);
  for (int i = 0; i < s->n; i++) {
    bool runs = remat_item_kind(problem, s->exec[i]) == REMAT_EXECUTE;
    int node = s->exec[i];
    for (int h = 0; h < problem->n_nodes && runs; h++) {
      if (!more[h] || fetched[h] || !reads(problem, node, h)) continue;
      fetched[h] = true;
      out.exec[out.n++] = remat_item(problem, REMAT_FETCH, h);
    }
    out.exec[out.n++] = node;
    for (int h = 0; h < problem->n_nodes && runs; h++)
      if (more[h] && problem->nodes[h].updated_by == node) out.exec[out.n++] = remat_item(problem, REMAT_STORE, h);
  }
  free(fetched);
  return out;
}

void remat_plan_send_home(const StepProblem *q, const RematGoal *goal, int64_t persistent_bytes, const bool *far_home,
                          RematPlan *plan) {
  Search search = begin_search(q, goal, persistent_bytes, goal->budget);
  RematSchedule now = plan->exec ? copy_schedule(&plan->schedule) : remat_baseline(&q->problem);
  bool *more = allocate_array((size_t)q->problem.n_nodes, sizeof *more);
  for (int h = 0; h < q->n_homes; h++) more[h] = far_home[q->node_value[h]];
  for (int i = 0; i < now.n; i++)
    if (remat_item_kind(&q->problem, now.exec[i]) == REMAT_FAR_HOME)
      more[remat_item_node(&q->problem, now.exec[i])] = false;
  RematSchedule schedule = send_home(&q->problem, &now, more);
  consider(&search, &schedule);
  remat_schedule_free(&now);
  remat_schedule_free(&schedule);
  free(more);
  remat_plan_free(plan);
  *plan = end(&search);
}
