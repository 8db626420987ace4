// test_search.c: the search: its state against the simulator under random trials, and what it promises of its results
// on random graphs with anti-dependences, workspaces, empty values and nodes that execute once.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "generate.h"
#include "passes/solver/search.h"
#include "support/alloc.h"

// What the simulator says of a sequence, in the state's terms. False when it is not legal.
static bool measure(const RematProblem *problem, const int *exec, int n, int64_t budget, RematSimulation *simulation,
                    int64_t *overflow, int *n_over) {
  if (!remat_simulate(problem, exec, n, simulation, NULL)) return false;
  *overflow = *n_over = 0;
  for (int p = 0; p < n; p++)
    if (simulation->live[p] > budget) *overflow += simulation->live[p] - budget, ++*n_over;
  return true;
}

typedef struct Fixture {
  Generated *g;
  RematGraph graph;
  RematState state;
  int64_t budget;
  uint64_t random;
  int *exec;
  int legal;
} Fixture;

// Whether the state is what the simulator says of its own sequence.
static bool agrees(Fixture *f) {
  RematSimulation simulation;
  int64_t overflow;
  int n_over, n = remat_state_sequence(&f->state, f->exec);
  if (!measure(&f->g->problem, f->exec, n, f->budget, &simulation, &overflow, &n_over)) return false;
  bool same = n == f->state.n && f->state.overflow == overflow && f->state.n_over == n_over &&
              fabs(f->state.cost - simulation.cost) < 1e-6 && remat_state_peak(&f->state) == simulation.peak;
  remat_simulation_free(&simulation);
  return same;
}

// Inserts and removes at random; legal or not.
static void random_trial(Fixture *f) {
  RematState *state = &f->state;
  remat_trial_begin(state);
  int changes = 1 + generate_number(&f->random, 4);
  for (int i = 0; i < changes; i++) {
    int slot = generate_number(&f->random, state->n_slots - 1);
    if (state->node_at[slot] >= 0) {
      int node = state->node_at[slot];
      remat_trial_remove(state, slot);
      // As often a shift as a removal.
      int other = remat_state_empty_after(state, generate_number(&f->random, state->n_slots - 1), 4);
      if (other >= 0 && generate_number(&f->random, 2)) remat_trial_insert(state, node, other);
    } else {
      remat_trial_insert(state, generate_number(&f->random, state->n_nodes), slot);
    }
  }
}

// One trial, accepted or not: legality and price are the simulator's.
static bool one_trial(Fixture *f) {
  RematState *state = &f->state;
  random_trial(f);
  bool legal = remat_trial_legal(state);
  RematSimulation simulation;
  bool simulates = remat_simulate(&f->g->problem, f->exec, remat_state_sequence(state, f->exec), &simulation, NULL);
  if (simulates) remat_simulation_free(&simulation);
  if (legal != simulates) return false;
  TrialPrice price;
  if (!legal || generate_number(&f->random, 4) == 0 || !remat_trial_price(state, INT64_MAX, &price)) {
    remat_trial_reject(state);
    return true;
  }
  f->legal++;
  remat_trial_accept(state, &price);
  return agrees(f);
}

// Random trials, room made and schedules returned to in between.
static void test_state(void) {
  int legal = 0;
  for (uint64_t seed = 1; seed <= 40; seed++) {
    Fixture f = {.g = generate_random(12 + (int)(seed % 20), seed), .random = seed};
    f.exec = allocate_array(10000, sizeof(int));
    f.graph = remat_graph_create(&f.g->problem);
    RematSchedule none = remat_baseline(&f.g->problem);
    f.budget = none.peak * 2 / 3;
    f.state = remat_state_create(&f.graph, f.budget);
    remat_state_load(&f.state, none.exec, none.n);
    bool good = agrees(&f);
    for (int i = 0; i < 600 && good; i++) {
      int what = generate_number(&f.random, 20);
      if (what == 0) {
        remat_state_mark(&f.state);
      } else if (what == 1 && f.state.journaling) {
        remat_state_rollback(&f.state);
        good = agrees(&f);
      } else if (what <= 3) {
        remat_state_make_room(&f.state, 1 + generate_number(&f.random, f.state.n_slots - 2),
                              1 + generate_number(&f.random, 12));
        good = agrees(&f);
      } else {
        good = one_trial(&f);
      }
      if (f.state.n > 200) remat_state_load(&f.state, none.exec, none.n), remat_state_mark(&f.state);
    }
    check(good, "the state agrees with the simulator", (long long)seed);
    legal += f.legal;
    remat_schedule_free(&none);
    remat_state_free(&f.state);
    remat_graph_free(&f.graph);
    free(f.exec);
    generated_free(f.g);
  }
  check(legal > 2000, "enough random trials were legal", legal);
}

// A budget between the lowest possible and what the plain order takes.
static int64_t some_budget(const RematProblem *problem, int percent) {
  RematSchedule none = remat_baseline(problem);
  int64_t low = remat_min_budget_bound(problem), budget = low + (none.peak - low) * percent / 100;
  remat_schedule_free(&none);
  return budget;
}

static bool is_as_told(const RematProblem *problem, const RematResult *result, int64_t budget) {
  RematSimulation simulation;
  const RematSchedule *schedule = &result->schedule;
  if (!remat_simulate(problem, schedule->exec, schedule->n, &simulation, NULL)) return false;
  bool same = simulation.peak == schedule->peak && fabs(simulation.cost - schedule->cost) <= 1e-9 * simulation.cost;
  double once = 0;
  for (int v = 0; v < problem->n_nodes; v++) once += problem->nodes[v].cost;
  remat_simulation_free(&simulation);
  return same && result->base_cost == once && result->feasible == (schedule->peak <= budget) &&
         result->min_budget_found <= schedule->peak &&
         (!result->feasible || schedule->cost >= result->lower_bound * (1 - 1e-9));
}

typedef struct SeedCost {
  int64_t budget;
  double cost;      // of the cheapest seed within the budget
  int64_t lowest;   // peak
} SeedCost;

static bool note_seed(void *context, const RematSchedule *seed) {
  SeedCost *best = context;
  if (seed->peak <= best->budget && seed->cost < best->cost) best->cost = seed->cost;
  if (seed->peak < best->lowest) best->lowest = seed->peak;
  return true;
}

static void note_policy(void *context, const RematSchedule *seed) { note_seed(context, seed); }

// Legal, as reported, no worse than any seed, the same again, and no worse with more moves.
static void test_results(void) {
  for (uint64_t seed = 1; seed <= 60; seed++) {
    Generated *g = generate_random(8 + (int)(seed % 50), seed);
    const RematProblem *problem = &g->problem;
    int64_t budget = some_budget(problem, 10 + (int)(seed * 7 % 80));
    RematOptions options = {.seed = seed, .max_moves = 4000};
    RematResult first, second;
    remat_solve(problem, budget, &options, &first);
    check(is_as_told(problem, &first, budget), "a result is as it is told", (long long)seed);
    SeedCost best = {budget, INFINITY, INT64_MAX};
    RematGraph graph = remat_graph_create(problem);
    remat_each_seed(problem, note_policy, &best);
    remat_each_budget_seed(&graph, budget, note_seed, NULL, &best);
    remat_graph_free(&graph);
    check(first.feasible ? first.schedule.cost <= best.cost * (1 + 1e-9)
                         : best.cost == INFINITY && first.min_budget_found <= best.lowest,
          "a result is no worse than any seed", (long long)seed);
    remat_solve(problem, budget, &options, &second);
    check(first.schedule.n == second.schedule.n &&
              memcmp(first.schedule.exec, second.schedule.exec, (size_t)first.schedule.n * sizeof(int)) == 0,
          "the same again", (long long)seed);
    remat_result_free(&first);
    remat_result_free(&second);
    generated_free(g);
  }
}

// The smallest peak: within the cost, no better than the bound, no worse than the schedule the cost was taken from.
static void test_minimize_peak(void) {
  for (uint64_t seed = 1; seed <= 12; seed++) {
    RematOptions options = {.max_moves = 20000};
    Generated *g = generate_random(20 + (int)seed, seed);
    const RematProblem *problem = &g->problem;
    RematResult at_budget, lowest, any;
    remat_solve(problem, some_budget(problem, 50), &options, &at_budget);
    options = (RematOptions){.max_moves = 20000, .starts = &at_budget.schedule, .n_starts = 1};
    remat_minimize_peak(problem, at_budget.schedule.cost, &options, &lowest);
    RematOptions from_lowest = {.max_moves = 20000, .starts = &lowest.schedule, .n_starts = 1};
    remat_minimize_peak(problem, INFINITY, &from_lowest, &any);
    check(lowest.feasible && is_as_told(problem, &lowest, lowest.schedule.peak), "smallest peak: as told",
          (long long)seed);
    check(lowest.schedule.cost <= at_budget.schedule.cost * (1 + 1e-9), "smallest peak: within the cost",
          (long long)seed);
    check(lowest.schedule.peak <= at_budget.schedule.peak, "smallest peak: not above a known one", (long long)seed);
    check(any.schedule.peak <= lowest.schedule.peak && any.schedule.peak >= remat_min_budget_bound(problem),
          "smallest peak of all", (long long)seed);
    remat_result_free(&lowest);
    remat_minimize_peak(problem, at_budget.base_cost * 0.5, &options, &lowest);
    check(!lowest.feasible, "a cost below the base cost is not feasible", (long long)seed);
    remat_result_free(&at_budget);
    remat_result_free(&lowest);
    remat_result_free(&any);
    generated_free(g);
  }
}

// Deep recomputation: chains above the size that the search asks the exact solver for, of random costs, at the smallest
// budget and one byte more.
static void test_deep(void) {
  enum { LAYERS = 10, STATES = 1000000 };
  uint64_t draws = 1;
  for (int round = 0; round < 10; round++) {
    Generated *g = generate_chain(LAYERS, 1, round % 2);
    for (int v = 0; v < g->problem.n_nodes; v++) g->nodes[v].cost = 1 + generate_number(&draws, 5);
    RematSchedule none = remat_baseline(&g->problem), optimum = {0};
    int64_t budget = remat_min_budget_bound(&g->problem);
    while (remat_exact(&g->problem, budget, STATES, &optimum) == REMAT_EXACT_INFEASIBLE) budget++;
    check(optimum.cost > 1.25 * none.cost, "deep: the optimum adds more than a quarter", round);
    for (int more = 0; more < 2; more++) {
      remat_schedule_free(&optimum);
      check(remat_exact(&g->problem, budget + more, STATES, &optimum) == REMAT_EXACT_OPTIMAL, "deep: decided", round);
      RematOptions options = {.seed = (uint64_t)round, .max_moves = 200000};
      RematResult result;
      remat_solve(&g->problem, budget + more, &options, &result);
      check(is_as_told(&g->problem, &result, budget + more) && result.feasible, "deep: feasible", round);
      check(result.schedule.cost < optimum.cost * (1 + 1e-9), "deep: the optimum", round);
      remat_result_free(&result);
    }
    remat_schedule_free(&optimum);
    remat_schedule_free(&none);
    generated_free(g);
  }
}

// Whether inputs that are made again for a node come in the order asked for.
static bool makes_inputs_in_order(const RematProblem *problem, const int *order, const int *exec, int n) {
  int nodes = problem->n_nodes, from = 0;   // behind the latest first execution
  bool ascend = true;
  int *place = allocate_array((size_t)nodes, sizeof *place), *made = allocate_array((size_t)nodes, sizeof *made);
  for (int at = 0; at < nodes; at++) place[order[at]] = at, made[at] = -1;
  for (int i = 0; i < n; i++) {
    const RematNode *node = &problem->nodes[exec[i]];
    bool first = made[exec[i]] < 0;
    for (int a = 0; a < node->n_inputs && first; a++)
      for (int b = 0; b < node->n_inputs; b++) {
        int x = node->inputs[a], y = node->inputs[b];
        if (made[x] >= from && made[y] >= from && place[x] < place[y]) ascend &= made[x] < made[y];
      }
    made[exec[i]] = i;
    if (first) from = i + 1;
  }
  free(place);
  free(made);
  return ascend;
}

// What a beam makes: legal, never above the budget, and in that order of first executions. True when it makes one.
static bool one_beam(RematSearch *search, const int *order, int64_t budget, int width, long long seed) {
  RematSimulation simulation;
  int *exec = allocate_array(10000, sizeof *exec);
  remat_state_set_budget(&search->state, budget);
  bool found = remat_beam_build(search, order, width, width > 1 ? 0.5 : 0);
  int n = remat_state_sequence(&search->state, exec);
  bool legal = remat_simulate(search->problem, exec, n, &simulation, NULL);
  check(legal, "a beam is legal", seed);
  if (legal) check(!found || simulation.peak <= budget, "a beam is within the budget", seed);
  if (legal) remat_simulation_free(&simulation);
  int next = 0;
  for (int i = 0; i < n && next < search->graph.n; i++) next += exec[i] == order[next];
  check(!found || next == search->graph.n, "a beam has the order asked for", seed);
  check(!found || makes_inputs_in_order(search->problem, order, exec, n), "what is made again, too", seed);
  free(exec);
  return found;
}

// Late nodes: each order is one of the problem's, with that node, and at most four others, later than in the plain one.
static int late_beams(RematSearch *search, const RematSchedule *none, long long seed) {
  enum { MOST = 5 };
  const RematProblem *problem = search->problem;
  int late[MOST], n = problem->n_nodes, found = 0, n_late = remat_list_late(search, MOST, late);
  int *order = allocate_array((size_t)n, sizeof *order), *place = allocate_array((size_t)n, sizeof *place);
  for (int k = 0; k < n_late; k++) {
    remat_order_late(search, late[k], order);
    for (int v = 0; v < n; v++) place[v] = -1;
    for (int at = 0; at < n; at++) place[order[at]] = at;
    int later = 0;
    for (int v = 0; v < n; v++) {
      check(place[v] >= 0, "all nodes are in the order", seed);
      for (int i = 0; i < problem->nodes[v].n_inputs; i++)
        check(place[problem->nodes[v].inputs[i]] < place[v], "inputs come first", seed);
      later += place[v] > v;
    }
    for (int i = 0; i < problem->n_anti; i++)
      check(place[problem->anti[i].before] < place[problem->anti[i].after], "readers come first", seed);
    check(place[late[k]] > late[k] && later <= 5, "late, with few others", seed);
    check(one_beam(search, order, INT64_MAX / 8, 1, seed), "everything is kept", seed);
    found += one_beam(search, order, (none->peak + remat_min_budget_bound(problem)) / 2, 2, seed);
  }
  free(order);
  free(place);
  return found;
}

static void test_beams(void) {
  int found = 0, found_late = 0, *plain = allocate_array(1000, sizeof *plain);
  for (int v = 0; v < 1000; v++) plain[v] = v;
  for (uint64_t seed = 1; seed <= 200; seed++) {
    Generated *g = seed % 4 ? generate_random(8 + (int)(seed % 70), seed)
                            : generate_chain(3 + (int)(seed % 30), 64, seed % 8 == 0);
    if (seed % 3 == 0) g->output = g->problem.n_nodes / 2;   // not the last value made
    RematSchedule none = remat_baseline(&g->problem);
    int64_t steps = 0;
    g->problem.steps = &steps;
    RematSearch search = {.problem = &g->problem,
                          .watch = watch_start(&g->problem, NULL),
                          .descent_end = 100,
                          .random = seed};
    search.graph = remat_graph_create(&g->problem);
    search.state = remat_state_create(&search.graph, none.peak);
    remat_state_load(&search.state, none.exec, none.n);
    check(!one_beam(&search, plain, remat_min_budget_bound(&g->problem) - 1, 2, (long long)seed),
          "no beam below the least", (long long)seed);
    check(one_beam(&search, plain, none.peak, 1, (long long)seed) && search.state.n == none.n, "nothing to make again",
          (long long)seed);
    for (int percent = 20; percent <= 80; percent += 30)
      found += one_beam(&search, plain, some_budget(&g->problem, percent), 1 + (int)(seed % 5), (long long)seed);
    found_late += late_beams(&search, &none, (long long)seed);
    remat_state_free(&search.state);
    remat_graph_free(&search.graph);
    remat_schedule_free(&none);
    generated_free(g);
  }
  check(found > 300, "most budgets are met", found);
  check(found_late > 100, "budgets are met with late nodes", found_late);
  free(plain);
}

// The plain order above its budget, with what a step of the local search reads.
static void start_steps(RematSearch *search, Generated *g, uint64_t seed) {
  int n = g->problem.n_nodes;
  RematSchedule none = remat_baseline(&g->problem);
  *search = (RematSearch){.problem = &g->problem,
                          .watch = watch_start(&g->problem, NULL),
                          .random = seed,
                          .insertion_limit = 24,
                          .kick = 1,
                          .step_cost = none.cost / n};
  search->graph = remat_graph_create(&g->problem);
  search->state = remat_state_create(&search->graph, some_budget(&g->problem, 60));
  search->locked = allocate_array((size_t)n, sizeof *search->locked);
  search->weight = allocate_array((size_t)n + 1, sizeof *search->weight);
  for (int v = 0; v < n; v++)
    search->weight[v + 1] = search->weight[v] + (search->state.recomputable[v] ? (double)search->state.bytes[v] : 0);
  remat_state_load(&search->state, none.exec, none.n);
  remat_schedule_free(&none);
}

static double value_of(const RematSearch *search, double price) {
  const RematState *state = &search->state;
  return state->cost + price * (double)state->overflow + 0.5 * search->step_cost * (state->n_over > 0);
}

// Without heat no step makes a schedule dearer; and many of the moves that are proposed are legal.
static void test_steps(void) {
  enum { PROPOSALS = 400, STEPS = 400 };
  int legal = 0, taken = 0;
  for (uint64_t seed = 1; seed <= 30; seed++) {
    int64_t steps = 0;
    Generated *g = generate_random(30 + (int)seed, seed);
    RematSearch search;
    g->problem.steps = &steps;
    start_steps(&search, g, seed);
    for (int i = 0; i < PROPOSALS; i++) {
      if (!remat_move_propose(&search)) continue;
      legal++;
      remat_trial_reject(&search.state);
    }
    double price = search.step_cost / 10, value = value_of(&search, price);
    for (int i = 0; i < STEPS; i++) {
      remat_search_step(&search, 0, price);
      double now = value_of(&search, price);
      check(now <= value + 1e-9 * value, "a step without heat", (long long)seed);
      taken += now < value;
      value = now;
    }
    free(search.locked);
    free(search.weight);
    remat_state_free(&search.state);
    remat_graph_free(&search.graph);
    generated_free(g);
  }
  check(legal > 3200, "of 12000 moves so many are legal", legal);
  check(taken > 100, "steps that make it cheaper", taken);
}

// A time limit is kept, set-up included, and what is found by then is returned.
static void test_interrupt(void) {
  Generated *g = generate_chain(300, 64, true);
  volatile sig_atomic_t interrupted = 1;
  RematOptions options = {.max_moves = INT64_MAX, .interrupt = &interrupted};
  RematResult result;
  RematSchedule none = remat_baseline(&g->problem);
  int64_t budget = none.peak / 3;
  remat_solve(&g->problem, budget, &options, &result);
  check(is_as_told(&g->problem, &result, budget) && result.moves < 100000, "an interrupted search returns at once",
        result.moves);
  remat_schedule_free(&none);
  remat_result_free(&result);
  generated_free(g);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  test_state();
  test_results();
  test_minimize_peak();
  test_deep();
  test_beams();
  test_steps();
  test_interrupt();
  printf("%d passed, %d failed\n", passed, failed);
  return failed ? 1 : 0;
}
