// tiers_search.c: the shortest schedule within a near and a far budget. Schedules of one tier for this and larger
// budgets are brought within the budget by moving values; the best is improved by trying each recomputation as a move
// and each move as a recomputation, by ruin and recreate (Schrimpf et al. 2000), and by annealing. Counted in items
// looked at, not in seconds.
#include "support/alloc.h"
#include "tiers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search.h"
#include "support/integers.h"

bool tier_is_over(TierSearch *search) {
  if (search->has_best && search->best_makespan <= search->good_makespan) return true;
  if (search->work >= search->max_work) return true;
  // Asking for the time takes longer than pricing a small plan.
  static const double CLOCK_WORK = 3000;
  if (search->work >= search->clock_work) {
    search->clock_work = search->work + CLOCK_WORK;
    search->stopped = search->stopped || watch_seconds(&search->watch) > search->watch.limit;
  }
  if (search->stopped) return true;
  return search->options && search->options->interrupt && *search->options->interrupt;
}

// Remembers a plan that was just evaluated when it is the best.
static void tier_note(TierSearch *search, const TierPlan *plan, const TierCost *cost) {
  if (!cost->legal || cost->overflow > 0) return;
  if (search->has_best && cost->makespan >= search->best_makespan) return;
  tier_plan_copy(search, &search->best, plan);
  search->best_makespan = cost->makespan;
  search->has_best = true;
}

// What is searched for: a makespan, and among equal ones less copying.
static double value_of(const TierSearch *search, const TierCost *cost) {
  if (!cost->legal) return INFINITY;
  return cost->makespan + 1e-6 * cost->copies + search->price * cost->overflow;
}

// ---- recomputations as moves, moves as recomputations, and neither ----

typedef enum Change { CHANGE_TO_FETCH, CHANGE_TO_EXECUTION, CHANGE_REMOVE, CHANGES } Change;

// What a change may be made to: an item, known by which of its kind it is, since places move.
typedef struct Candidate {
  int item, occurrence;
  bool is_done;
} Candidate;

typedef struct Candidates {
  Candidate *list;   // Owned; in the order of the plan
  int n;
  int *count;          // Owned; per item: scratch
  int *first, *next;   // Owned; per item, those of the group being changed, as lists
  bool *is_pending;    // Owned; per node: to execute before it is read next
} Candidates;

static Candidates candidates_create(const TierSearch *search) {
  size_t items = (size_t)search->n * REMAT_FAR_HOME;
  return (Candidates){.count = allocate_array(items, sizeof(int)),
                      .first = allocate_array(items, sizeof(int)),
                      .is_pending = allocate_array((size_t)search->n, sizeof(bool))};
}

static void candidates_free(Candidates *candidates) {
  free(candidates->list);
  free(candidates->count);
  free(candidates->first);
  free(candidates->next);
  free(candidates->is_pending);
}

static bool may_change(const RematNode *node, RematItemKind kind, int occurrence, Change change) {
  bool is_again = kind == REMAT_EXECUTE && occurrence > 0;
  if (change == CHANGE_TO_FETCH) return is_again && node->movable;
  if (change == CHANGE_TO_EXECUTION) return kind == REMAT_FETCH && node->recomputable;
  return is_again || kind == REMAT_FETCH;
}

static void list_candidates(const TierSearch *search, const TierPlan *plan, Change change, Candidates *candidates) {
  candidates->list = reallocate_array(candidates->list, (size_t)plan->n + 1, sizeof(Candidate));
  candidates->next = reallocate_array(candidates->next, (size_t)plan->n + 1, sizeof(int));
  candidates->n = 0;
  memset(candidates->count, 0, (size_t)search->n * REMAT_FAR_HOME * sizeof(int));
  for (int p = 0; p < plan->n; p++) {
    int item = plan->items[p], occurrence = candidates->count[item]++;
    const RematNode *node = &search->problem->nodes[remat_item_node(search->problem, item)];
    if (may_change(node, remat_item_kind(search->problem, item), occurrence, change))
      candidates->list[candidates->n++] = (Candidate){item, occurrence, false};
  }
}

static bool is_in_group(const Candidates *candidates, int item, int occurrence) {
  for (int i = candidates->first[item]; i >= 0; i = candidates->next[i])
    if (candidates->list[i].occurrence == occurrence) return true;
  return false;
}

static void append(TierPlan *plan, int item) { tier_plan_insert(plan, plan->n, item); }

// Stores, behind what makes them first, for the fetches that have none.
static void add_stores(TierSearch *search, TierPlan *plan, Candidates *candidates) {
  const RematProblem *problem = search->problem;
  memset(candidates->count, 0, (size_t)search->n * REMAT_FAR_HOME * sizeof(int));
  for (int p = 0; p < plan->n; p++) candidates->count[plan->items[p]]++;
  TierPlan from = *plan;
  *plan = (TierPlan){.far_home = from.far_home};
  for (int p = 0; p < from.n; p++) {
    int v = remat_item_node(problem, from.items[p]), store = remat_item(problem, REMAT_STORE, v);
    append(plan, from.items[p]);
    if (remat_item_kind(problem, from.items[p]) != REMAT_EXECUTE || candidates->count[store] > 0) continue;
    if (candidates->count[remat_item(problem, REMAT_FETCH, v)] == 0) continue;
    append(plan, store);
    candidates->count[store] = 1;
  }
  free(from.items);
}

// `to` becomes `from` with the change made to candidates [begin, end).
static void change_group(TierSearch *search, const TierPlan *from, TierPlan *to, Candidates *candidates, int begin,
                         int end, Change change) {
  const RematProblem *problem = search->problem;
  size_t items = (size_t)search->n * REMAT_FAR_HOME;
  memset(candidates->first, -1, items * sizeof(int));
  memset(candidates->count, 0, items * sizeof(int));
  for (int i = begin; i < end; i++) {
    if (candidates->list[i].is_done) continue;
    candidates->next[i] = candidates->first[candidates->list[i].item];
    candidates->first[candidates->list[i].item] = i;
  }
  tier_plan_copy(search, to, from);
  to->n = 0;
  for (int p = 0; p < from->n; p++) {
    int item = from->items[p], v = remat_item_node(problem, item);
    bool is_changed = is_in_group(candidates, item, candidates->count[item]++);
    if (!is_changed && remat_item_kind(problem, item) == REMAT_EXECUTE)
      for (int i = 0; i < problem->nodes[v].n_inputs; i++) {
        int u = problem->nodes[v].inputs[i];
        if (!candidates->is_pending[u]) continue;
        candidates->is_pending[u] = false;
        append(to, u);
      }
    if (!is_changed) append(to, item);
    else if (change == CHANGE_TO_FETCH) append(to, remat_item(problem, REMAT_FETCH, v));
    else candidates->is_pending[v] = change == CHANGE_TO_EXECUTION;
  }
  memset(candidates->is_pending, 0, (size_t)search->n * sizeof(bool));
  if (change == CHANGE_TO_FETCH) add_stores(search, to, candidates);
  tier_prune(search, to);
  tier_place_fetches(search, to);
}

// Tries a change on groups of candidates, large ones first, and takes what is better at once.
static bool try_change(TierSearch *search, TierPlan *plan, TierCost *cost, TierPlan *trial, Candidates *candidates,
                       Change change) {
  bool any = false;
  list_candidates(search, plan, change, candidates);
  enum { GROUPS = 64 };   // one by one would take too long where there are many
  int size = 1;
  while (2 * size * GROUPS <= candidates->n) size *= 2;
  for (; size > 0; size /= 2)
    for (int end = candidates->n; end > 0 && !tier_is_over(search); end -= size) {
      int begin = end > size ? end - size : 0, open = 0;
      for (int i = begin; i < end; i++) open += !candidates->list[i].is_done;
      if (open == 0) continue;
      change_group(search, plan, trial, candidates, begin, end, change);
      TierCost changed = tier_evaluate(search, trial);
      if (value_of(search, &changed) >= value_of(search, cost) - 1e-12 * cost->makespan) continue;
      tier_plan_copy(search, plan, trial);
      *cost = changed;
      tier_note(search, plan, cost);
      for (int i = begin; i < end; i++) candidates->list[i].is_done = true;
      any = true;
    }
  return any;
}

static void try_changes(TierSearch *search, TierPlan *plan, TierCost *cost) {
  TierPlan trial = {0};
  Candidates candidates = candidates_create(search);
  bool any = true;
  for (int round = 0; round < 3 && any; round++) {
    any = false;
    for (Change change = CHANGE_TO_FETCH; change < CHANGES; change++)
      any = try_change(search, plan, cost, &trial, &candidates, change) || any;
  }
  candidates_free(&candidates);
  tier_plan_free(&trial);
}

// ---- executions searched again ----

enum { MOVES = 50000 };   // of a search for one tier

// Searches the plan's executions again, as a problem of one tier. The plan is legal, maybe above the budget. False, and
// the plan as it was, when nothing within the budget is found.
static bool search_again(TierSearch *search, TierPlan *plan) {
  static const double SHARE = 0.05;   // of the time, most
  enum { STEPS = 25 };                // that a unit of work is, as in tier_evaluate
  tier_evaluate(search, plan);        // which tier_again_create reads
  double from = watch_counted(search->problem);
  TierAgain again = tier_again_create(search, plan);
  RematSchedule start = tier_again_start(&again);
  RematOptions options = {.seed = splitmix64(&search->random),
                          .max_moves = MOVES,
                          .time_limit = SHARE * search->watch.limit,
                          .counted = true,
                          .starts = &start,
                          .n_starts = 1,
                          .bound_seconds = 0.002,
                          .interrupt = search->options ? search->options->interrupt : NULL};
  RematResult result;
  remat_solve(&again.problem, search->budget, &options, &result);
  search->work += 1e9 / STEPS * (watch_counted(search->problem) - from);
  bool found = result.feasible;
  if (found) {
    tier_again_read(&again, &result.schedule, plan);
    tier_prune(search, plan);
    tier_place_fetches(search, plan);
  }
  remat_result_free(&result);
  remat_schedule_free(&start);
  tier_again_free(&again);
  return found;
}

// ---- seeds ----

// The problem with one tier: homes are near.
static RematProblem near_problem(const TierSearch *search, RematNode **nodes) {
  RematProblem problem = *search->problem;
  problem.far = NULL;
  problem.fixed_bytes += search->homes;
  *nodes = allocate_array((size_t)search->n, sizeof **nodes);
  if (search->n) memcpy(*nodes, search->problem->nodes, (size_t)search->n * sizeof **nodes);
  for (int v = 0; v < search->n; v++)
    if ((*nodes)[v].home) (*nodes)[v] = (RematNode){.name = (*nodes)[v].name};
  problem.nodes = *nodes;
  return problem;
}

// The best few plans that seeds gave.
enum { KEPT = 4 };
typedef struct Kept {
  TierPlan plans[KEPT];   // Owned; best first
  double values[KEPT];
  int n;
} Kept;

static void keep_plan(TierSearch *search, Kept *kept, const TierPlan *plan, double value) {
  int at = kept->n;
  while (at > 0 && kept->values[at - 1] > value) at--;
  if (at == KEPT || (at > 0 && kept->values[at - 1] == value)) return;
  if (kept->n < KEPT) kept->n++;
  TierPlan last = kept->plans[kept->n - 1];
  for (int i = kept->n - 1; i > at; i--) kept->plans[i] = kept->plans[i - 1], kept->values[i] = kept->values[i - 1];
  kept->plans[at] = last;
  tier_plan_copy(search, &kept->plans[at], plan);
  kept->values[at] = value;
}

// Nothing fits yet: the schedule of the smallest peak is the answer until something does.
static void note_lowest(TierSearch *search, const TierPlan *plan) {
  if (search->has_best || !tier_evaluate(search, plan).legal) return;
  RematSchedule schedule = tier_schedule(search, plan);
  bool is_lowest = !search->lowest.exec || schedule.peak < search->lowest.peak;
  if (is_lowest) {
    remat_schedule_free(&search->lowest);
    search->lowest = schedule;
  } else {
    remat_schedule_free(&schedule);
  }
}

// A plan of a seed: remembered, and returned with its value.
static double take_plan(TierSearch *search, Kept *kept, const TierPlan *plan) {
  TierCost cost = tier_evaluate(search, plan);
  tier_note(search, plan, &cost);
  note_lowest(search, plan);
  double value = value_of(search, &cost);
  keep_plan(search, kept, plan, value);
  return value;
}

// Of what computes everything once: a plan that is waited for longer waits for its moves.
static const double WAIT = 0.001;

// The seed brought within the budget by moves and, where these are waited for, also by as many as nobody waits for and
// recomputations.
static double take_seed(TierSearch *search, Kept *kept, const int *items, int n) {
  TierPlan plan = tier_plan_create(search, items, n), filled = {0};
  TierCost cost = tier_evaluate(search, &plan);
  bool fill = cost.overflow > 0 && search->carried > 0;
  if (fill) tier_plan_copy(search, &filled, &plan);
  if (cost.overflow > 0) {
    tier_note(search, &plan, &cost);
    note_lowest(search, &plan);
    tier_descend(search, &plan, 0);
  }
  double value = take_plan(search, kept, &plan);
  if (fill && value > cost.makespan + WAIT * search->base_cost) {
    tier_fill(search, &filled, 0);
    if (search_again(search, &filled)) value = fmin(value, take_plan(search, kept, &filled));
  }
  tier_plan_free(&filled);
  tier_plan_free(&plan);
  return value;
}

// A schedule that was there before the search; the result is never worse.
static void note_given(TierSearch *search, const int *items, int n) {
  TierPlan plan = tier_plan_create(search, items, n);
  int *all = allocate_array((size_t)(plan.n + search->n), sizeof *all), count = 0;
  for (int v = 0; v < search->n; v++)
    if (plan.far_home[v]) all[count++] = remat_item(search->problem, REMAT_FAR_HOME, v);
  for (int p = 0; p < plan.n; p++) all[count++] = plan.items[p];
  RematSchedule schedule = remat_schedule_measure(search->problem, all, count);
  bool fits = schedule.peak <= search->budget && schedule.far_peak <= search->problem->far->budget;
  if (fits && (!search->given.exec || schedule.makespan < search->given.makespan)) {
    remat_schedule_free(&search->given);
    search->given = schedule;
  } else {
    remat_schedule_free(&schedule);
  }
  free(all);
  tier_plan_free(&plan);
}

// Bytes that the lanes can carry away before the plain order is fullest, and back behind that, without a wait.
static double carried_bytes(const RematProblem *near, const RematTier *far, const RematSchedule *plain) {
  RematSimulation simulation;
  double bytes = 0;
  if (!remat_simulate(near, plain->exec, plain->n, &simulation, NULL)) return 0;
  if (simulation.peak_position >= 0) {
    double before = simulation.start[simulation.peak_position], after = simulation.cost - before;
    bytes = fmin(before * far->out_rate, after * far->in_rate);
  }
  remat_simulation_free(&simulation);
  return bytes;
}

// A schedule of one tier for some bytes above the budget, which moves are to make room for.
typedef struct Seed {
  double excess, value;
} Seed;

typedef struct Seeds {
  RematProblem problem;   // of one tier; parts are Borrowed
  RematSchedule plain;    // Owned
  double limit;           // seconds
  int64_t low, moves;
  double cost, value;   // of the last one: before and after its excess is moved
  Seed *list;           // Owned; by excess
  int n;
} Seeds;

// Also in place of a given one: the schedule at the budget, so that the result is never worse than without a far tier.
static void make_seed(TierSearch *search, Kept *kept, Seeds *seeds, double excess) {
  static const double SHARE = 0.5;   // of the work, most
  enum { MOST = 300000 };
  bool at_budget = excess <= 0;
  double work = (double)search->n * 1000;
  if (!at_budget && search->work + work > SHARE * search->max_work) return;
  if (tier_is_over(search) || watch_seconds(&search->watch) > 0.5 * seeds->limit ||
      (!at_budget && seeds->plain.peak <= seeds->low))
    return;
  RematOptions options = {.seed = search->options ? search->options->seed : 0,
                          .max_moves = search->carried > 0 ? fmin(seeds->moves, MOST)
                                                           : (at_budget ? 3 : 1) * seeds->moves / 10 + 1,
                          .time_limit = (at_budget ? 0.25 : 0.08) * seeds->limit,
                          .counted = search->watch.problem != NULL,
                          .bound_seconds = 0.01,
                          .interrupt = search->options ? search->options->interrupt : NULL};
  RematResult result;
  remat_solve(&seeds->problem, seeds->low + (int64_t)excess, &options, &result);
  search->work += work;
  seeds->cost = result.schedule.cost;
  double value = seeds->value = take_seed(search, kept, result.schedule.exec, result.schedule.n);
  if (at_budget) note_given(search, result.schedule.exec, result.schedule.n);
  if (at_budget && !result.feasible) seeds->low = result.schedule.peak;
  remat_result_free(&result);
  int at = seeds->n++;
  seeds->list = reallocate_array(seeds->list, (size_t)seeds->n, sizeof *seeds->list);
  for (; at > 0 && seeds->list[at - 1].excess > excess; at--) seeds->list[at] = seeds->list[at - 1];
  seeds->list[at] = (Seed){excess, value};
}

// About as many bytes as the lanes carry, so that nobody waits for them.
static void search_carried(TierSearch *search, Kept *kept, Seeds *seeds, double whole, int n_seeds) {
  static const double FIRST = 0.9, MORE = 1.3;
  double excess = FIRST * search->carried, low = 0, high = INFINITY;
  for (int i = 0; i < n_seeds && excess < whole; i++) {
    int made = seeds->n;
    make_seed(search, kept, seeds, excess);
    if (seeds->n == made) return;
    if (seeds->value <= seeds->cost + WAIT * search->base_cost) low = excess;
    else high = excess;
    excess = isinf(high) ? MORE * excess : (low + high) / 2;
  }
}

// Between the best one and those beside it.
static void refine_seeds(TierSearch *search, Kept *kept, Seeds *seeds) {
  int best = 0;
  for (int i = 1; i < seeds->n; i++)
    if (seeds->list[i].value < seeds->list[best].value) best = i;
  if (seeds->n == 0) return;
  double here = seeds->list[best].excess, below = best > 0 ? seeds->list[best - 1].excess : here,
         above = best + 1 < seeds->n ? seeds->list[best + 1].excess : here;
  if (above > here) make_seed(search, kept, seeds, (here + above) / 2);
  if (below < here) make_seed(search, kept, seeds, (here + below) / 2);
}

// Schedules of one tier, at the budget and for as many bytes more as moves may make room for: what the lanes carry
// without a wait, and shares of what the plain order needs. Few where the search begins from schedules it was given,
// and none where these move something.
static void make_seeds(TierSearch *search, Kept *kept, bool given) {
  static const double of_carried[] = {0.9, 0.7, 0.5, 1.1, 0.25}, of_whole[] = {0.5, 0.25, 0.75};
  enum { FEW = 2, CARRIED = sizeof of_carried / sizeof *of_carried, WHOLE = sizeof of_whole / sizeof *of_whole };
  RematNode *nodes;
  Seeds seeds = {.problem = near_problem(search, &nodes), .limit = search->watch.limit, .low = search->budget};
  seeds.plain = remat_baseline(&seeds.problem);
  seeds.moves = search->options ? search->options->max_moves : 0;
  if (seeds.moves <= 0 || seeds.moves > 1000000) seeds.moves = 1000000;
  double whole = (double)(seeds.plain.peak - seeds.low);
  double carried = carried_bytes(&seeds.problem, search->problem->far, &seeds.plain);
  if (tier_is_middling(search) && !search->is_quick) search->carried = carried;
  bool moves = false;
  for (int i = 0; given && i < search->options->n_starts; i++) moves |= search->options->starts[i].far_peak > 0;
  int n_carried = !given ? CARRIED : moves ? 0 : FEW;
  if (!given) {
    take_seed(search, kept, seeds.plain.exec, seeds.plain.n);
    make_seed(search, kept, &seeds, 0);
  }
  if (search->carried > 0) search_carried(search, kept, &seeds, whole, n_carried);
  for (int i = 0; i < n_carried && search->carried == 0; i++)
    if (of_carried[i] * carried < whole) make_seed(search, kept, &seeds, of_carried[i] * carried);
  for (int i = 0; i < WHOLE && !given; i++) make_seed(search, kept, &seeds, of_whole[i] * whole);
  for (int i = 0; i < 2; i++) refine_seeds(search, kept, &seeds);
  remat_schedule_free(&seeds.plain);
  free(seeds.list);
  free(nodes);
}

// ---- ruin and recreate, annealing ----

static bool is_repeated(const TierPlan *plan, int p) {
  for (int q = 0; q < p; q++)
    if (plan->items[q] == plan->items[p]) return true;
  return false;
}

static void ruin(TierSearch *search, TierPlan *plan) {
  const RematProblem *problem = search->problem;
  int width = 2 + remat_random_below(&search->random, plan->n / (1 + remat_random_below(&search->random, 8)) + 1);
  int begin = remat_random_below(&search->random, plan->n), end = begin + width;
  double share = 0.2 + 0.8 * remat_random_unit(&search->random);
  bool homes = splitmix64(&search->random) % 4 == 0;
  for (int p = (end < plan->n ? end : plan->n) - 1; p >= begin; p--) {
    if (p >= plan->n || remat_random_unit(&search->random) > share) continue;
    int v = remat_item_node(problem, plan->items[p]);
    RematItemKind kind = remat_item_kind(problem, plan->items[p]);
    if (kind == REMAT_FETCH && problem->nodes[v].home) {
      if (!homes) continue;
      plan->far_home[v] = false;
      int n = 0;
      for (int q = 0; q < plan->n; q++) {
        bool of_home = plan->items[q] >= search->n && remat_item_node(problem, plan->items[q]) == v;
        if (!of_home) plan->items[n++] = plan->items[q];
      }
      plan->n = n;
    } else if (kind == REMAT_FETCH ||
               (kind == REMAT_EXECUTE && problem->nodes[v].recomputable && is_repeated(plan, p))) {
      tier_plan_remove(plan, p);
    }
  }
  tier_prune(search, plan);
}

static void kick(TierSearch *search, TierPlan *current, TierCost *cost, TierPlan *trial) {
  tier_plan_copy(search, trial, current);
  ruin(search, trial);
  tier_descend(search, trial, 0.7);
  TierCost changed = tier_evaluate(search, trial);
  tier_note(search, trial, &changed);
  if (value_of(search, &changed) > value_of(search, cost)) return;
  tier_plan_copy(search, current, trial);
  *cost = changed;
}

static void anneal(TierSearch *search, TierPlan *current, TierCost *cost, TierPlan *trial, int moves, double heat) {
  for (int i = 0; i < moves && !tier_is_over(search); i++) {
    double left = 1 - (double)i / moves, temperature = heat * left * left;
    tier_plan_copy(search, trial, current);
    tier_move(search, trial);
    TierCost changed = tier_evaluate(search, trial);
    if (!changed.legal) continue;
    double worse = value_of(search, &changed) - value_of(search, cost);
    if (worse > 0 && worse > -temperature * log(remat_random_unit(&search->random) + 1e-300)) continue;
    tier_note(search, trial, &changed);
    TierPlan swap = *current;
    *current = *trial;
    *trial = swap;
    *cost = changed;
  }
  search->price *= cost->overflow > 0 ? 1.6 : 0.8;
}

// Without some of the copies of values, or all of them.
static void ruin_copies(TierSearch *search, TierPlan *plan) {
  double share = remat_random_unit(&search->random);
  if (splitmix64(&search->random) % 4 == 0) share = 1;
  bool *gone = allocate_array((size_t)search->n, sizeof *gone);
  for (int v = 0; v < search->n; v++)
    gone[v] = !search->problem->nodes[v].home && remat_random_unit(&search->random) < share;
  int n = 0;
  for (int p = 0; p < plan->n; p++)
    if (plan->items[p] < search->n || !gone[remat_item_node(search->problem, plan->items[p])])
      plan->items[n++] = plan->items[p];
  plan->n = n;
  free(gone);
}

// Other copies than the best has, a little more of them than it needs, and then the executions searched again.
static void kick_again(TierSearch *search, TierPlan *trial) {
  static const double MORE = 0.3, NOISE = 0.5;
  tier_plan_copy(search, trial, &search->best);
  ruin_copies(search, trial);
  int64_t less = (int64_t)(MORE * search->carried * remat_random_unit(&search->random));
  search->budget -= less;
  tier_fill(search, trial, NOISE);
  search->budget += less;
  if (!search_again(search, trial)) return;
  TierCost cost = tier_evaluate(search, trial);
  tier_note(search, trial, &cost);
  if (cost.legal) try_changes(search, trial, &cost);
}

static void improve(TierSearch *search, Kept *kept) {
  static const double AGAIN = 0.75;   // of the work
  enum { FEW = 2 };                   // where plans are searched again that pays more
  TierPlan current = {0}, trial = {0};
  double step = search->base_cost / (search->n_executed > 0 ? search->n_executed : 1);
  int tried = search->carried > 0 && kept->n > FEW ? FEW : kept->n;
  for (int i = 0; i < tried && !tier_is_over(search); i++) {
    TierCost cost = tier_evaluate(search, &kept->plans[i]);
    try_changes(search, &kept->plans[i], &cost);
  }
  double again = 0, start = search->work;   // work on plans searched again, and where it all began
  for (int round = 0; !tier_is_over(search);) {
    if (search->carried > 0 && search->has_best && again <= AGAIN * (search->work - start)) {
      double from = search->work;
      kick_again(search, &trial);
      again += search->work - from;
      continue;
    }
    // Mostly from the best; from a seed now and then.
    bool from_best = search->has_best && round % 4 != 3;
    const TierPlan *from = from_best ? &search->best : &kept->plans[remat_random_below(&search->random, kept->n)];
    tier_plan_copy(search, &current, from);
    TierCost cost = tier_evaluate(search, &current);
    if (search->n_executed > TIERS_SMALL || round % 3 == 1)
      for (int i = 0; i < 20 && !tier_is_over(search); i++) kick(search, &current, &cost, &trial);
    if (search->n_executed <= TIERS_SMALL || round % 2 == 1) {
      double heat = step * exp2(-4 * remat_random_unit(&search->random));
      int length = 1000 << remat_random_below(&search->random, 4);
      anneal(search, &current, &cost, &trial, length, round % 2 ? heat : 2 * heat);
    }
    try_changes(search, &current, &cost);
    round++;
  }
  tier_plan_free(&current);
  tier_plan_free(&trial);
}

// ---- all of it ----

static double default_work(int n) {
  double size = n < 1000 ? 1 : (double)n / 1000;
  return 2.5e7 * fmin(size, 10);
}

static void search_create(TierSearch *search, const RematProblem *problem, int64_t budget,
                          const RematOptions *options) {
  *search = (TierSearch){.problem = problem, .options = options, .n = problem->n_nodes, .budget = budget};
  search->watch = watch_start(problem, options);
  search->random = options ? options->seed : 0;
  int64_t moves = options ? options->max_moves : 0;
  double bytes = 0;
  for (int v = 0; v < search->n; v++) {
    search->base_cost += problem->nodes[v].cost;
    bytes += (double)problem->nodes[v].bytes;
    if (problem->nodes[v].home) search->homes += problem->nodes[v].bytes;
    else search->n_executed++;
  }
  // Changes of large plans hardly come back from above the budget, and each takes longer.
  enum { PER_MOVE = 60, PER_MOVE_OF_MANY = 120, PRICE_OF_MANY = 10 };
  bool many = tier_is_middling(search);
  double per_move = many ? PER_MOVE_OF_MANY : PER_MOVE;
  search->max_work = moves == INT64_MAX ? INFINITY : moves > 0 ? per_move * (double)moves : default_work(search->n);
  search->price = (many ? PRICE_OF_MANY : 1) * search->base_cost / (bytes > 0 ? bytes : 1);
  remat_list_anti(problem, true, &search->after_start, &search->afters);
  remat_list_anti(problem, false, &search->before_start, &search->befores);
  search->nodes = allocate_array((size_t)search->n, sizeof *search->nodes);
}

// Whether what the search begins from is nearly within the budget, and there is work for more than one seed.
static void decide_pace(TierSearch *search) {
  const RematOptions *options = search->options;
  search->is_quick = search->max_work < 3700.0 * search->n;
  for (int i = 0; options && i < options->n_starts; i++)
    search->is_quick |= (double)options->starts[i].peak > 1.003 * (double)search->budget;
}

static void search_free(TierSearch *search) {
  free(search->after_start);
  free(search->afters);
  free(search->before_start);
  free(search->befores);
  free(search->nodes);
  free(search->at);
  free(search->stores);
  tier_plan_free(&search->best);
  remat_schedule_free(&search->lowest);
  remat_schedule_free(&search->given);
}

void tier_solve(const RematProblem *problem, int64_t budget, const RematOptions *options, double enough,
                RematResult *result) {
  TierSearch search;
  Kept kept = {0};
  search_create(&search, problem, budget, options);
  *result = (RematResult){.base_cost = search.base_cost};
  result->lower_bound = remat_lower_bound(problem, budget, options ? options->bound_seconds : 0);
  search.good_makespan = fmax(result->lower_bound * (1 + 1e-7), enough);
  decide_pace(&search);
  bool given = options && options->n_starts > 0;
  if (given)
    for (int i = 0; i < options->n_starts; i++) {
      note_given(&search, options->starts[i].exec, options->starts[i].n);
      take_seed(&search, &kept, options->starts[i].exec, options->starts[i].n);
    }
  if (!given || !search.is_quick) make_seeds(&search, &kept, given);
  if (search.n > 0 && (!options || options->max_moves >= 0)) improve(&search, &kept);
  result->feasible = search.has_best;
  if (search.has_best) {
    result->schedule = tier_schedule(&search, &search.best);
    // Where copies cost compute time the schedule may differ a little from the plan.
    if (search.given.exec && search.given.makespan < result->schedule.makespan) {
      remat_schedule_free(&result->schedule);
      result->schedule = search.given;
      search.given = (RematSchedule){0};
    }
  } else {
    result->schedule = search.lowest;
    search.lowest = (RematSchedule){0};
  }
  result->min_budget_found = result->schedule.peak;
  result->moves = (int64_t)fmin(search.work / 60, 1e18);
  result->seconds = watch_seconds(&search.watch);
  for (int i = 0; i < KEPT; i++) tier_plan_free(&kept.plans[i]);
  search_free(&search);
}
