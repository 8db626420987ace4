// search.c: the cheapest schedule within a budget. Each seed is brought under the budget by a greedy descent and
// trimmed (greedy.c); the best then goes through kicks and quenches (kick.c). Counted in moves, not in seconds, so that
// a seed gives the same schedule everywhere as long as no time limit strikes.
#include "search.h"
#include "support/alloc.h"
#include "tiers.h"

#include <math.h>
#include <stdlib.h>

static double seconds_of(const RematSearch *search) { return watch_seconds(&search->watch); }

bool remat_search_out_of_time(RematSearch *search) {
  const RematOptions *options = search->options;
  if (!search->stopped)
    search->stopped = seconds_of(search) > search->watch.limit ||
                      (options && options->interrupt && *options->interrupt);
  return search->stopped;
}

bool remat_search_descent_ends(RematSearch *search) {
  return remat_search_out_of_time(search) || seconds_of(search) > search->descent_end;
}

// Nothing more to find, or no time to.
static bool is_over(RematSearch *search) {
  return (search->has_best && search->best_cost <= search->good_cost) || remat_search_out_of_time(search);
}

bool remat_search_is_done(const RematSearch *search) {
  return search->stopped || search->moves >= search->max_moves ||
         (search->has_best && search->best_cost <= search->good_cost);
}

void remat_search_note(RematSearch *search) {
  const RematState *state = &search->state;
  bool is_best = false;
  if (state->n_over == 0 && state->budget >= 0 && !search->is_lowering &&
      (!search->has_best || state->cost < search->best_cost))
    is_best = true;
  if (!search->has_best && !is_best) {
    int64_t peak = remat_state_peak(state);
    if (search->lowest.exec && peak >= search->lowest.peak) return;
    remat_schedule_free(&search->lowest);
    int *exec = allocate_array((size_t)state->n, sizeof *exec);
    search->lowest =
        (RematSchedule){.n = remat_state_sequence(state, exec), .exec = exec, .cost = state->cost, .peak = peak};
  }
  if (!is_best) return;
  if (state->n > search->best_capacity) {
    search->best_capacity = 2 * state->n;
    search->best = reallocate_array(search->best, (size_t)search->best_capacity, sizeof(int));
  }
  search->n_best = remat_state_sequence(state, search->best);
  search->best_cost = state->cost;
  search->has_best = true;
}

// A seed as it is.
static void take_seed(RematSearch *search, const RematSchedule *seed) {
  if (search->has_best ? seed->peak > search->budget || seed->cost >= search->best_cost
                       : seed->peak >= search->lowest.peak)
    return;
  remat_state_load(&search->state, seed->exec, seed->n);
  remat_search_note(search);
}

static void lower_peak_greedily(RematSearch *search, double cost_limit) {
  remat_greedy_lower_peak(search, cost_limit, 0);
}

static void descend_and_trim(RematSearch *search, void (*descend)(RematSearch *search, double cost_limit)) {
  // Trimming takes back a few percent at most.
  search->descent_end = fmin(search->watch.limit,
                             seconds_of(search) + (search->has_best ? 0.2 : 0.5) * search->watch.limit);
  descend(search, search->has_best ? search->best_cost * 1.05 : INFINITY);
  remat_search_note(search);
  remat_greedy_trim(search);
  remat_search_note(search);
}

static void improve_seed(void *context, const RematSchedule *seed) {
  RematSearch *search = context;
  if (is_over(search)) return;
  remat_state_load(&search->state, seed->exec, seed->n);
  remat_search_note(search);
  if (remat_search_is_done(search)) return;
  // A seed that costs more than the best, before anything is done about its overflow, will hardly become cheaper.
  if (search->has_best && seed->cost >= search->best_cost * 1.5) return;
  descend_and_trim(search, remat_greedy_descend);
  if (search->graph.n > PEAK_NODES || is_over(search)) return;
  remat_state_load(&search->state, seed->exec, seed->n);
  descend_and_trim(search, lower_peak_greedily);
}

// Seeds made for the budget come most promising first, and may take long to make.
static bool budget_seeds_end(void *context) {
  RematSearch *search = context;
  return remat_search_out_of_time(search) || seconds_of(search) > search->seeds_end;
}

static bool improve_budget_seed(void *context, const RematSchedule *seed) {
  RematSearch *search = context;
  improve_seed(search, seed);
  return !remat_search_out_of_time(search) &&
         seconds_of(search) < (search->has_best ? 0.15 : 0.4) * search->watch.limit;
}

static void note_baseline(RematSearch *search) {
  RematSchedule plain = remat_baseline(search->problem);
  remat_state_load(&search->state, plain.exec, plain.n);
  remat_search_note(search);
  remat_schedule_free(&plain);
}

static const RematPolicy policies[] = {REMAT_POLICY_SQRT, REMAT_POLICY_SPEED, REMAT_POLICY_MANUAL,
                                       REMAT_POLICY_RECURSIVE};
enum { POLICIES = sizeof policies / sizeof *policies };

static void run_budget_seeds(RematSearch *search) {
  if (is_over(search)) return;
  if (search->has_best && seconds_of(search) > 0.25 * search->watch.limit) return;
  double left = search->watch.limit - seconds_of(search);
  search->seeds_end = search->watch.limit - (search->has_best ? 0.7 : 0.4) * left;
  remat_each_budget_seed(&search->graph, search->budget, improve_budget_seed, budget_seeds_end, search);
}

static void run_seeds(RematSearch *search) {
  RematSchedule seeds[POLICIES] = {0}, plain = remat_baseline(search->problem);
  // As they are; then with what the descent makes of them.
  for (int i = 0; i < POLICIES && !is_over(search); i++) {
    seeds[i] = remat_policy_run(search->problem, policies[i]);
    take_seed(search, &seeds[i]);
  }
  // Where segments save much the graph is like a chain, and seeds made for the budget come first: deep recomputation
  // needs them. Elsewhere they take long and give little.
  int64_t fixed = search->problem->fixed_bytes;
  bool is_chain = seeds[0].exec && (seeds[0].peak - fixed) * 2 <= plain.peak - fixed;
  if (is_chain) run_budget_seeds(search);
  improve_seed(search, &plain);
  if (!is_chain && !search->has_best && !is_over(search)) {
    // Often only a little is missing.
    remat_kick_improve(search, 20000 + 4 * (int64_t)search->graph.n);
    remat_greedy_trim(search);
    remat_search_note(search);
  }
  if (!is_chain) run_budget_seeds(search);
  for (int i = 0; i < POLICIES; i++)
    if (seeds[i].exec) improve_seed(search, &seeds[i]);
  for (int i = 0; i < POLICIES; i++) remat_schedule_free(&seeds[i]);
  remat_schedule_free(&plain);
  if (!is_over(search) && seconds_of(search) < 0.25 * search->watch.limit)
    remat_each_segmentation(&search->graph, search->graph.n < 1200 ? 8 : 3, improve_seed, search);
}

// What is near the schedules given is wanted, so that none is made without them.
static bool begins_from_starts(const RematSearch *search) { return search->options && search->options->n_starts > 0; }

bool remat_search_is_deep(const RematSearch *search) {
  static const double DEEP = 0.25;
  return !search->has_best || search->best_cost > (1 + DEEP) * search->base_cost;
}

// Where recomputation is deep, descents end at dear schedules, if they come within the budget at all. Wider beams only
// where there is time: each takes four times as long as the one before.
static void run_beams(RematSearch *search) {
  static const int widths[] = {1, 4, 16};
  int64_t last = 0;
  search->descent_end = 0.5 * (seconds_of(search) + search->watch.limit);
  for (size_t i = 0; i < sizeof widths / sizeof *widths && remat_search_is_deep(search) && !is_over(search); i++) {
    int64_t before = search->moves;
    if (before + 4 * last > search->max_moves / 2) return;
    if (remat_beam_build(search, search->plain, widths[i], 0)) {
      remat_search_note(search);
      remat_greedy_trim(search);
      remat_search_note(search);
    }
    last = search->moves - before;
  }
}

enum { EXACT_NODES = 16 };

// Small problems: the optimum, after which there is nothing to search.
static void run_exact(RematSearch *search) {
  RematSchedule optimum = {0};
  if (remat_search_is_done(search) || remat_exact(search->problem, search->budget, 0, &optimum) != REMAT_EXACT_OPTIMAL)
    return;
  remat_state_load(&search->state, optimum.exec, optimum.n);
  remat_search_note(search);
  search->good_cost = fmax(search->good_cost, optimum.cost * (1 + 1e-9));
  remat_schedule_free(&optimum);
}

static void run_starts(RematSearch *search) {
  for (int i = 0; i < search->options->n_starts; i++) improve_seed(search, &search->options->starts[i]);
}

// Scales of costs and bytes, for temperatures and prices.
static void measure_scales(RematSearch *search) {
  const RematState *state = &search->state;
  int n = state->n_nodes, counted = 0;
  double bytes = 0, cost = 0;
  search->weight = allocate_array((size_t)n + 1, sizeof(double));
  for (int v = 0; v < n; v++) {
    double weight = state->recomputable[v] ? (double)state->bytes[v] : 0;
    search->weight[v + 1] = search->weight[v] + weight;
    if (weight <= 0) continue;
    counted++;
    bytes += weight;
    cost += state->cost_of[v];
  }
  if (counted == 0) counted = 1;
  search->step_cost = cost / counted;
  if (search->step_cost <= 0) search->step_cost = 1;
  if (bytes <= 0) bytes = 1;
  // A gap of typical bytes over the whole span is worth about one execution.
  search->typical_price = search->overflow_price = search->step_cost / (bytes / counted) / 10;
}

// In place, since the state points to the graph.
static void search_create(RematSearch *search, const RematProblem *problem, int64_t budget,
                          const RematOptions *options) {
  *search =
      (RematSearch){.problem = problem, .options = options, .budget = budget, .watch = watch_start(problem, options)};
  search->random = options ? options->seed : 0;
  search->max_moves = options ? options->max_moves : 0;
  if (search->max_moves == 0) search->max_moves = 1000000;
  search->graph = remat_graph_create(problem);
  search->state = remat_state_create(&search->graph, budget);
  search->plain = allocate_array((size_t)problem->n_nodes, sizeof(int));
  for (int v = 0; v < problem->n_nodes; v++) search->plain[v] = v;
  search->scratch = allocate_array((size_t)problem->n_nodes, sizeof(int));
  search->locked = allocate_array((size_t)problem->n_nodes, sizeof(int));
  search->kick = 1;
  measure_scales(search);
}

static void search_free(RematSearch *search) {
  free(search->best);
  free(search->locked);
  free(search->plain);
  free(search->scratch);
  free(search->weight);
  remat_schedule_free(&search->lowest);
  remat_state_free(&search->state);
  remat_graph_free(&search->graph);
}

// Nothing fits yet: aims at budgets a little below the lowest peak known, one after the other, down to the budget.
static void lower_peak(RematSearch *search) {
  RematState *state = &search->state;
  double fraction = 0.04;
  int64_t hopeless = 0;   // the largest aim at which a beam has found nothing
  while (!remat_search_is_done(search)) {
    int64_t peak = search->lowest.peak,
            aim = peak - 1 - (int64_t)(fraction * (double)(peak - search->problem->fixed_bytes));
    if (aim <= search->budget) aim = search->budget;
    search->is_lowering = aim > search->budget;
    remat_state_set_budget(state, aim);
    remat_state_load(state, search->lowest.exec, search->lowest.n);
    search->descent_end = search->watch.limit;
    bool built = aim > hopeless && !begins_from_starts(search) && remat_beam_build(search, search->plain, 1, 0);
    if (!built) {
      hopeless = aim > hopeless ? aim : hopeless;
      remat_greedy_descend(search, INFINITY);
    }
    remat_search_note(search);
    if (state->n_over > 0) remat_kick_improve(search, 20000 + 20 * (int64_t)state->n_nodes);
    remat_search_note(search);
    if (search->has_best) break;
    fraction = search->lowest.peak < peak ? fmin(fraction * 1.5, 0.1) : fraction / 2;
    if (fraction < 1e-4) fraction = 0.02;
  }
  search->is_lowering = false;
  remat_state_set_budget(state, search->budget);
}

static void local_search(RematSearch *search) {
  if (search->state.n_nodes == 0) return;
  if (!search->has_best) lower_peak(search);
  if (!search->has_best || remat_search_is_done(search)) return;
  remat_greedy_trim(search);
  remat_search_note(search);
  search->anneal_price = search->overflow_price;
  remat_state_load(&search->state, search->best, search->n_best);
  if (search->graph.n <= PEAK_NODES) remat_tournament(search);
  else remat_kick_improve(search, INT64_MAX);
}

static double time_for_bound(const RematOptions *options, double time_limit) {
  if (options && options->bound_seconds > 0) return options->bound_seconds;
  return time_limit < 1 ? time_limit / 10 : 0;
}

// As remat_solve; ends as soon as the cost is at most `enough`.
static void solve(const RematProblem *problem, int64_t budget, const RematOptions *options, double enough,
                  RematResult *result) {
  if (problem->far) {
    tier_solve(problem, budget, options, enough, result);
    return;
  }
  RematSearch search;
  search_create(&search, problem, budget, options);
  *result = (RematResult){0};
  for (int v = 0; v < problem->n_nodes; v++) result->base_cost += problem->nodes[v].cost;
  if (!isinf(enough))
    result->lower_bound = remat_lower_bound(problem, budget, time_for_bound(options, search.watch.limit));
  search.base_cost = result->base_cost;
  search.good_cost = fmax(result->lower_bound * (1 + 1e-7), enough);
  note_baseline(&search);
  if (problem->n_nodes <= EXACT_NODES) run_exact(&search);
  if (begins_from_starts(&search)) run_starts(&search);
  else run_seeds(&search), run_beams(&search);
  if (!remat_search_is_done(&search)) local_search(&search);
  result->feasible = search.has_best;
  const RematSchedule *lowest = &search.lowest;
  result->schedule = search.has_best ? remat_schedule_measure(problem, search.best, search.n_best)
                                     : remat_schedule_measure(problem, lowest->exec, lowest->n);
  result->min_budget_found = result->schedule.peak;
  result->moves = search.moves;
  result->seconds = seconds_of(&search);
  search_free(&search);
}

void remat_solve(const RematProblem *problem, int64_t budget_bytes, const RematOptions *options, RematResult *result) {
  int64_t steps = 0;
  RematProblem counted = watch_problem(problem, &steps);
  solve(&counted, budget_bytes, options, 0, result);
}

void remat_result_free(RematResult *result) { remat_schedule_free(&result->schedule); }

enum { BISECTIONS = 12 };

static double time_of(const RematProblem *problem, const RematSchedule *schedule) {
  return problem->far ? schedule->makespan : schedule->cost;
}

void remat_minimize_peak(const RematProblem *problem, double max_cost, const RematOptions *options,
                         RematResult *result) {
  int64_t steps = 0;
  RematProblem counted = watch_problem(problem, &steps);
  problem = &counted;
  Watch watch = watch_start(problem, options);
  RematSchedule best = remat_baseline(problem);
  double enough = max_cost * (1 + 1e-12);
  *result = (RematResult){.feasible = best.cost <= enough, .base_cost = best.cost};
  int64_t low = remat_min_budget_bound(problem);
  RematOptions part = options ? *options : (RematOptions){0};
  part.counted = watch.problem != NULL;
  for (int i = 0; i < part.n_starts; i++)
    if (time_of(problem, &part.starts[i]) <= enough && part.starts[i].peak < best.peak) {
      remat_schedule_free(&best);
      best = remat_schedule_measure(problem, part.starts[i].exec, part.starts[i].n);
    }
  if (part.bound_seconds == 0) part.bound_seconds = 0.02;   // only to end early
  part.max_moves = part.max_moves == 0           ? 200000
                   : part.max_moves == INT64_MAX ? INT64_MAX
                                                 : part.max_moves / BISECTIONS - 1;
  for (int step = 0; result->feasible && low < best.peak; step++) {
    double left = watch.limit - watch_seconds(&watch);
    if (left < 1e-3 || step == 3 * BISECTIONS || (options && options->interrupt && *options->interrupt)) break;
    part.time_limit = left / 5;
    // Every second search may begin from the best so far.
    part.starts = step % 2 ? &best : options ? options->starts : NULL;
    part.n_starts = step % 2 ? 1 : options ? options->n_starts : 0;
    part.seed++;
    int64_t aim = low + (best.peak - low) / 2;
    RematResult found;
    solve(problem, aim, &part, enough, &found);
    result->moves += found.moves;
    bool better = found.schedule.peak < best.peak && time_of(problem, &found.schedule) <= enough;
    if (found.schedule.peak > aim || time_of(problem, &found.schedule) > enough) low = aim + 1;
    if (better) {
      remat_schedule_free(&best);
      best = found.schedule;
    } else {
      remat_result_free(&found);
    }
  }
  result->schedule = best;
  result->min_budget_found = best.peak;
  result->lower_bound = remat_lower_bound(problem, best.peak, time_for_bound(options, watch.limit));
  result->seconds = watch_seconds(&watch);
}
