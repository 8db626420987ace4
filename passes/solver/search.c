// search.c: the cheapest schedule within a budget. Each seed is brought under the budget by a greedy descent and
// trimmed by removing executions that have become useless; the best then goes through a local search on
// cost + price * overflow, in rounds that start from the best schedule so far and cool down. Counted in moves, not in
// seconds, so that a seed gives the same schedule everywhere.
#include "search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double seconds_since(struct timespec start) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)(now.tv_sec - start.tv_sec) + 1e-9 * (double)(now.tv_nsec - start.tv_nsec);
}

static bool out_of_time(const RematSearch *search) { return seconds_since(search->start) > search->time_limit; }

static bool is_feasible(const RematState *state) { return state->n_over == 0 && state->peak <= state->budget; }

// Remembers the state if it is the cheapest within the budget or has the smallest peak.
static void note_state(RematSearch *search) {
  const RematState *state = &search->state;
  if (!search->lowest.exec || state->peak < search->lowest.peak) {
    remat_schedule_free(&search->lowest);
    int *exec = solver_allocate((size_t)state->n, sizeof *exec);
    search->lowest = (RematSchedule){.n = state->n, .exec = exec, .cost = state->cost, .peak = state->peak};
    if (state->n) memcpy(search->lowest.exec, state->exec, (size_t)state->n * sizeof(int));
  }
  if (!is_feasible(state) || (search->has_best && state->cost >= search->best_cost)) return;
  if (state->n > search->best_capacity) {
    search->best_capacity = 2 * state->n;
    search->best = solver_reallocate(search->best, (size_t)search->best_capacity, sizeof(int));
  }
  if (state->n) memcpy(search->best, state->exec, (size_t)state->n * sizeof(int));
  search->n_best = state->n;
  search->best_cost = state->cost;
  search->has_best = true;
}

static void swap_edits(Edit *left, Edit *right) {
  Edit kept = *left;
  *left = *right;
  *right = kept;
}

enum { GREEDY_CANDIDATES = 24 };

// The gaps across the position that exceeds the budget most, best guesses first: bytes x positions over budget that
// the gap spans / cost.
static int list_candidates(const RematSearch *search, const double *over_before, int *candidates) {
  const RematState *state = &search->state;
  double scores[GREEDY_CANDIDATES];
  int count = 0, worst = 0;
  for (int p = 0; p < state->n; p++)
    if (state->occupied[p] > state->occupied[worst]) worst = p;
  for (int g = 0; g < state->n_gaps; g++) {
    const Gap *gap = &state->gaps[g];
    if (gap->from >= worst || gap->to <= worst) continue;
    const RematNode *node = &search->problem->nodes[gap->value];
    double relief = (double)node->bytes * (over_before[gap->to] - over_before[gap->from + 1]);
    double score = relief / (node->cost + 1e-9 * relief + 1e-30);
    int i = count < GREEDY_CANDIDATES ? count++ : count;
    if (i == GREEDY_CANDIDATES && score <= scores[i - 1]) continue;
    if (i == GREEDY_CANDIDATES) i--;
    for (; i > 0 && scores[i - 1] < score; i--) scores[i] = scores[i - 1], candidates[i] = candidates[i - 1];
    scores[i] = score;
    candidates[i] = g;
  }
  return count;
}

// One greedy step: the candidate that frees most overflow per cost. False when none frees any.
static bool take_greedy_step(RematSearch *search, double *over_before) {
  RematState *state = &search->state;
  int candidates[GREEDY_CANDIDATES];
  over_before[0] = 0;
  for (int p = 0; p < state->n; p++) over_before[p + 1] = over_before[p] + (state->occupied[p] > state->budget);
  int count = list_candidates(search, over_before, candidates);
  double best_score = 0;
  for (int i = 0; i < count; i++)
    for (DeadInputs dead = DEAD_HOLD; dead <= DEAD_RECOMPUTE; dead++) {
      EditPrice price;
      if (!move_fill_gap(search, &state->gaps[candidates[i]], dead)) continue;
      search->moves++;
      if (!remat_state_price(state, &search->edit, &price) || price.overflow >= 0) continue;
      double score = -price.overflow / (price.cost + 1e-30);
      if (price.cost <= 0) score = INFINITY;
      if (score <= best_score) continue;
      best_score = score;
      swap_edits(&search->edit, &search->best_edit);
    }
  if (best_score <= 0) return false;
  remat_state_apply(state, &search->best_edit);
  return true;
}

// Brings the state under the budget if it can. Bounded, since deep recomputation may add executions without end.
static void descend(RematSearch *search) {
  search->insertion_limit = 512;
  RematState *state = &search->state;
  int limit = 64 + 30 * search->graph.n;
  double *over_before = NULL;
  int capacity = 0;
  while (state->n_over > 0 && state->n < limit && !out_of_time(search)) {
    // Trimming takes back a few percent at most.
    if (search->has_best && state->cost > search->best_cost * 1.05) break;
    if (state->n + 1 > capacity) {
      capacity = 2 * state->n + 1;
      over_before = solver_reallocate(over_before, (size_t)capacity, sizeof *over_before);
    }
    if (!take_greedy_step(search, over_before)) break;
  }
  free(over_before);
}

// Removes executions, dearest first, as long as the overflow does not grow.
static void trim(RematSearch *search) {
  RematState *state = &search->state;
  bool changed = true;
  while (changed && !out_of_time(search)) {
    changed = false;
    for (int p = state->n - 1; p >= 0; p--) {
      EditPrice price;
      if (p >= state->n) continue;
      if (!move_remove(search, p)) continue;
      search->moves++;
      if (!remat_state_price(state, &search->edit, &price)) continue;
      if (price.overflow > 0 || price.n_over > 0 || price.cost > 0) continue;
      remat_state_apply(state, &search->edit);
      changed = true;
    }
  }
}

static bool propose(RematSearch *search) {
  RematState *state = &search->state;
  uint64_t kind = remat_random(&search->random) % 100;
  if (kind < 40 && state->n > search->graph.n) {
    for (int tries = 0; tries < 16; tries++) {
      int p = (int)(remat_random(&search->random) % (uint64_t)state->n);
      if (state->executions[state->exec[p]] > 1) return move_remove(search, p);
    }
    return false;
  }
  if (kind < 80 && state->n_gaps > 0) {
    double total = state->gap_weight[state->n_gaps - 1], at = total * remat_random_unit(&search->random);
    int low = 0, high = state->n_gaps - 1;
    while (low < high) {
      int middle = low + (high - low) / 2;
      if (state->gap_weight[middle] <= at)
        low = middle + 1;
      else
        high = middle;
    }
    return move_fill_gap(search, &state->gaps[low], (DeadInputs)(remat_random(&search->random) % 3));
  }
  return state->n > 0 && move_shift(search, (int)(remat_random(&search->random) % (uint64_t)state->n));
}

// One round: from the best schedule, accept worse ones with a probability that falls to zero. `price` is what a byte
// over budget at one position costs; it rises while the state is over budget and falls while it is not.
static void anneal_round(RematSearch *search, int64_t moves, double heat, double *price_of_overflow) {
  RematState *state = &search->state;
  double base = state->cost / (state->n + 1);  // mean cost of an execution
  search->insertion_limit = 24;
  for (int64_t i = 0; i < moves; i++) {
    if ((i & 255) == 0 && out_of_time(search)) return;
    double left = 1 - (double)i / (double)moves, temperature = heat * base * left * left;
    double factor = 1.0 / 1024;
    *price_of_overflow *= state->n_over > 0 ? 1 + factor : 1 - factor / 2;
    search->moves++;
    EditPrice price;
    if (!propose(search) || !remat_state_price(state, &search->edit, &price)) continue;
    double change = price.cost + *price_of_overflow * price.overflow;
    bool was_over = state->n_over > 0, is_over = state->n_over + price.n_over > 0;
    change += base * 0.5 * ((int)is_over - (int)was_over);
    if (change > 0 && (temperature <= 0 || change >= -temperature * log(1 - remat_random_unit(&search->random))))
      continue;
    remat_state_apply(state, &search->edit);
    if (state->n_over == 0) note_state(search);
  }
}

static void local_search(RematSearch *search) {
  static const double heats[] = {0.3, 1.0, 0.1, 0.5};
  RematState *state = &search->state;
  int64_t round_moves = 2000 + 60 * (int64_t)search->graph.n;
  // A gap of typical bytes over the whole span is worth about one execution.
  double bytes = 1;
  for (int v = 0; v < search->graph.n; v++) bytes += (double)search->problem->nodes[v].bytes / search->graph.n;
  double price = state->cost / (state->n + 1) / bytes / 10;
  for (int round = 0; search->moves < search->max_moves && !out_of_time(search); round++) {
    if (search->has_best) remat_state_load(state, search->best, search->n_best);
    int64_t moves = search->max_moves - search->moves;
    anneal_round(search, moves < round_moves ? moves : round_moves, heats[round % 4], &price);
    if (state->n_over > 0) descend(search);
    trim(search);
    note_state(search);
  }
}

static void improve_seed(void *context, const RematSchedule *seed) {
  RematSearch *search = context;
  if (out_of_time(search)) return;
  remat_state_load(&search->state, seed->exec, seed->n);
  note_state(search);
  // A seed that costs more than the best, before anything is done about its overflow, will hardly become cheaper.
  if (search->has_best && seed->cost >= search->best_cost * 1.5) return;
  descend(search);
  note_state(search);
  trim(search);
  note_state(search);
}

static bool improve_budget_seed(void *context, const RematSchedule *seed) {
  improve_seed(context, seed);
  return !out_of_time(context);
}

static void run_seeds(RematSearch *search) {
  static const RematPolicy policies[] = {REMAT_POLICY_NONE, REMAT_POLICY_SQRT, REMAT_POLICY_SPEED,
                                         REMAT_POLICY_MANUAL, REMAT_POLICY_RECURSIVE};
  for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
    RematSchedule seed = remat_policy_run(search->problem, policies[i]);
    improve_seed(search, &seed);
    remat_schedule_free(&seed);
    if (i == 0 && search->has_best && search->best_cost <= seed.cost) return;  // fits as it is
  }
  remat_each_segmentation(&search->graph, search->graph.n < 1200 ? 8 : 3, improve_seed, search);
  remat_each_budget_seed(&search->graph, search->state.budget, improve_budget_seed, search);
}

static void run_starts(RematSearch *search, const RematOptions *options) {
  for (int i = 0; i < options->n_starts; i++) improve_seed(search, &options->starts[i]);
}

static RematSearch search_create(const RematProblem *problem, const RematOptions *options) {
  RematSearch search = {.problem = problem, .time_limit = 10};
  clock_gettime(CLOCK_MONOTONIC, &search.start);
  if (options && options->time_limit > 0) search.time_limit = options->time_limit;
  search.random = options ? options->seed : 0;
  search.graph = remat_graph_create(problem);
  search.edit = edit_create();
  search.best_edit = edit_create();
  search.max_moves = options ? options->max_moves : 0;
  if (search.max_moves == 0) search.max_moves = 150000000 / (200 + (int64_t)problem->n_nodes);
  return search;
}

void remat_solve(const RematProblem *problem, int64_t budget_bytes, const RematOptions *options, RematResult *result) {
  RematSearch search = search_create(problem, options);
  search.state = remat_state_create(&search.graph, budget_bytes);
  *result = (RematResult){.lower_bound = remat_lower_bound(problem, budget_bytes, 0)};
  for (int v = 0; v < problem->n_nodes; v++) result->base_cost += problem->nodes[v].cost;
  if (options && options->n_starts > 0) run_starts(&search, options);
  else run_seeds(&search);
  if (!search.has_best || search.best_cost > result->lower_bound) local_search(&search);
  result->feasible = search.has_best;
  result->min_budget_found = search.lowest.peak;
  if (search.has_best) {
    result->schedule = remat_schedule_measure(problem, search.best, search.n_best);
    remat_schedule_free(&search.lowest);
  } else {
    result->schedule = search.lowest;
  }
  result->moves = search.moves;
  result->seconds = seconds_since(search.start);
  free(search.best);
  edit_free(&search.edit);
  edit_free(&search.best_edit);
  remat_state_free(&search.state);
  remat_graph_free(&search.graph);
}

void remat_result_free(RematResult *result) { remat_schedule_free(&result->schedule); }

void remat_minimize_peak(const RematProblem *problem, double max_cost, const RematOptions *options,
                         RematResult *result) {
  // The first version: a bisection without warm starts.
  RematSchedule plain = remat_baseline(problem);
  int64_t low = remat_min_budget_bound(problem), high = plain.peak;
  RematOptions part = options ? *options : (RematOptions){0};
  part.time_limit = (part.time_limit > 0 ? part.time_limit : 10) / 10;
  *result = (RematResult){.feasible = plain.cost <= max_cost * (1 + 1e-12), .schedule = plain};
  for (int step = 0; step < 10 && low < high; step++) {
    RematResult found;
    int64_t middle = low + (high - low) / 2;
    remat_solve(problem, middle, &part, &found);
    result->moves += found.moves;
    result->seconds += found.seconds;
    if (found.feasible && found.schedule.cost <= max_cost * (1 + 1e-12)) {
      remat_schedule_free(&result->schedule);
      result->schedule = found.schedule;
      high = found.schedule.peak;
    } else {
      remat_result_free(&found);
      low = middle + 1;
    }
  }
  for (int v = 0; v < problem->n_nodes; v++) result->base_cost += problem->nodes[v].cost;
  result->min_budget_found = result->schedule.peak;
  result->lower_bound = remat_lower_bound(problem, result->schedule.peak, 0);
}
