// test_tiers.c: problems with a far tier: what a schedule means, by cases computed by hand.
#include <math.h>
#include <string.h>

#include "check.h"
#include "generate.h"
#include "passes/solver/bound_moments.h"
#include "support/input_error.h"

// Half a unit of time for a copy, 2 more for 10 bytes out, 1 more for 10 bytes in.
static const RematTier half_second = {.out_rate = 5, .in_rate = 10, .latency = 0.5, .budget = 1000};

// The sequence, as node numbers with a letter before: x executes, s stores, f fetches, h is a far home.
static int read_items(const RematProblem *problem, const char *text, int *items) {
  int n = 0;
  for (; *text; text++) {
    const char *kind = strchr("xsfh", *text);
    if (!kind) continue;
    items[n++] = remat_item(problem, (RematItemKind)(kind - strchr("xsfh", 'x')), text[1] - '0');
  }
  return n;
}

static void check_schedule(const RematProblem *problem, const char *text, double makespan, int64_t peak,
                           int64_t far_peak) {
  int items[64], n = read_items(problem, text, items);
  RematSimulation simulation;
  InputError error;
  if (!check(remat_problem_check(problem, &error), text, 0)) printf("%s\n", error.message);
  if (!check(remat_simulate(problem, items, n, &simulation, &error), text, 0)) {
    printf("%s\n", error.message);
    return;
  }
  check(simulation.makespan == makespan, text, (long long)(1000 * simulation.makespan));
  check(simulation.peak == peak, text, simulation.peak);
  check(simulation.far_peak == far_peak, text, simulation.far_peak);
  remat_simulation_free(&simulation);
}

static void check_refused(const RematProblem *problem, const char *text, const char *why) {
  int items[64], n = read_items(problem, text, items);
  RematSimulation simulation;
  InputError error = {0};
  check(!remat_simulate(problem, items, n, &simulation, &error), text, n);
  if (!check(strstr(error.message, why) != NULL, text, n)) printf("%s\n", error.message);
}

// a -> b -> c -> d, and d reads a again.
static Generated *make_diamond(const RematTier *far) {
  Generated *g = generated_create(4);
  generated_add(g, 2, 10, REMAT_FORWARD, 0, NULL);
  generated_add(g, 3, 10, REMAT_FORWARD, 1, (int[]){0});
  generated_add(g, 4, 10, REMAT_FORWARD, 1, (int[]){1});
  generated_add(g, 5, 10, REMAT_BACKWARD, 2, (int[]){2, 0});
  for (int v = 0; v < 4; v++) g->nodes[v].movable = v < 2;
  g->problem.far = far;
  g->problem.n_outputs = 1;
  g->output = 3;
  return g;
}

static void test_lanes(void) {
  Generated *g = make_diamond(&half_second);
  check_schedule(&g->problem, "x0 x1 x2 x3", 14, 30, 0);
  check_schedule(&g->problem, "x0 x1 x2 x0 x3", 16, 30, 0);
  // Stored from 2 to 4.5, beside b; fetched from 9, behind c, to 10.5.
  check_schedule(&g->problem, "x0 x1 s0 x2 f0 x3", 15.5, 30, 10);
  // Fetched from 5 on, beside c.
  check_schedule(&g->problem, "x0 x1 s0 f0 x2 x3", 14, 30, 10);
  // What stands behind a store waits for it: b from 4.5 on.
  check_schedule(&g->problem, "x0 s0 x1 x2 f0 x3", 18, 30, 10);
  // Never fetched; and a store as the last item ends the schedule.
  check_schedule(&g->problem, "x0 x1 x2 x3 s1 s0", 14, 40, 10);
  g->nodes[3].cost = 0.5;
  check_schedule(&g->problem, "x0 x1 x2 x3 s0 s1", 9.5, 40, 10);
  g->nodes[3].cost = 0;
  check_schedule(&g->problem, "x0 x1 x2 x3 s1 s0", 10, 40, 10);   // b 5 to 7.5, a to 10
  generated_free(g);

  RematTier drag = half_second;
  drag.drag = 0.1;
  g = make_diamond(&drag);
  // c from 6, since the store costs 1; fetched from 10 to 11.5.
  check_schedule(&g->problem, "x0 x1 s0 x2 f0 x3", 16.5, 30, 10);
  generated_free(g);
}

// Bytes that a copy takes at its place count there and nowhere else: a and b live at the store of a, c and a at its
// fetch.
static void test_workspace(void) {
  RematTier far = half_second;
  far.workspace = 10;
  Generated *g = make_diamond(&far);
  check_schedule(&g->problem, "x0 x1 x2 x3", 14, 30, 0);
  check_schedule(&g->problem, "x0 x1 s0 x2 f0 x3", 15.5, 30, 10);
  far.workspace = 11;
  check_schedule(&g->problem, "x0 x1 s0 x2 f0 x3", 15.5, 31, 10);
  InputError error;
  far.workspace = -1;
  check(!remat_problem_check(&g->problem, &error), "bytes of a copy's place are not negative", 0);
  generated_free(g);
}

static void test_far_bytes(void) {
  RematTier far = {.out_rate = 5, .in_rate = 10, .budget = 10};
  Generated *g = generated_create(4);
  generated_add(g, 1, 10, REMAT_FORWARD, 0, NULL);
  generated_add(g, 1, 10, REMAT_FORWARD, 0, NULL);
  generated_add(g, 1, 0, REMAT_BACKWARD, 1, (int[]){0});
  generated_add(g, 1, 0, REMAT_BACKWARD, 1, (int[]){1});
  g->nodes[0].movable = g->nodes[1].movable = true;
  g->problem.far = &far;
  // The store of b waits for the fetch of a, which ends at 5: it ends at 7.
  check_schedule(&g->problem, "x0 s0 x1 f0 s1 x2 f1 x3", 10, 20, 10);
  far.budget = 20;
  check_schedule(&g->problem, "x0 s0 x1 f0 s1 x2 f1 x3", 9, 20, 10);
  generated_free(g);
}

// A home, what reads it, and its update.
static Generated *make_home(void) {
  Generated *g = generated_create(3);
  generated_add(g, 0, 10, REMAT_FORWARD, 0, NULL);
  generated_add(g, 3, 4, REMAT_BACKWARD, 1, (int[]){0});
  generated_add(g, 1, 0, REMAT_UPDATE, 2, (int[]){0, 1});
  g->nodes[0].home = true;
  g->nodes[0].recomputable = false;
  g->nodes[0].updated_by = 2;
  g->problem.far = &half_second;
  return g;
}

static void test_homes(void) {
  Generated *g = make_home();
  check_schedule(&g->problem, "x1 x2", 4, 14, 0);
  check_schedule(&g->problem, "h0 f0 x1 x2 s0", 8, 14, 10);
  // Dropped between, and fetched from 4.5 to 6.
  check_schedule(&g->problem, "h0 f0 x1 f0 x2 s0", 9.5, 14, 10);
  check_refused(&g->problem, "x1 f0 x2", "is fetched but is not far");
  check_refused(&g->problem, "h0 x1 x2", "uses value 0 '', which has not been fetched");
  check_refused(&g->problem, "h0 f0 x1 x2", "is never stored");
  check_refused(&g->problem, "h0 f0 x1 x2 f0 s0", "is fetched before its update is stored");
  check_refused(&g->problem, "h0 f0 x1 s0 x2", "is stored but is no far home that was updated");
  check_refused(&g->problem, "h0 f0 x0 x1 x2 s0", "executes but is a home");
  check_refused(&g->problem, "f0 h0 x1 x2 s0", "is fetched but is not far");
  check_refused(&g->problem, "x1 h0 x2", "must be said first");
  check_refused(&g->problem, "h0 h0 f0 x1 x2 s0", "is a far home twice");
  check_refused(&g->problem, "h1 x1 x2", "is a far home but no home");
  InputError error;
  g->nodes[0].updated_by = 1;
  check(!remat_problem_check(&g->problem, &error), "an update is one", 0);
  g->nodes[0].updated_by = 2;
  g->nodes[2].n_inputs = 0;
  check(!remat_problem_check(&g->problem, &error), "an update reads its home", 0);
  g->nodes[2].n_inputs = 2;
  g->nodes[0].recomputable = true;
  check(!remat_problem_check(&g->problem, &error), "a home is not recomputable", 0);
  g->nodes[0].recomputable = false;
  g->problem.n_outputs = 1;
  check(!remat_problem_check(&g->problem, &error), "a home is no output", 0);
  g->problem.n_outputs = 0;
  g->problem.far = NULL;
  check(!remat_problem_check(&g->problem, &error), "a home needs a far tier", 0);
  generated_free(g);
}

static void test_refused(void) {
  Generated *g = make_diamond(&half_second);
  check_refused(&g->problem, "x0 x1 f0 x2 x3", "is fetched but is not far");
  check_refused(&g->problem, "s0 x0 x1 x2 x3", "is stored before it executes");
  check_refused(&g->problem, "x0 x1 s0 x2 s0 x3", "is stored again");
  check_refused(&g->problem, "x0 x1 x2 s2 x3", "is stored but is not movable");
  check_refused(&g->problem, "x0 x1 s0 f0 x2 f0 x3", "is fetched and not read");
  check_refused(&g->problem, "x0 s0 x1 x2 x3 f0", "is fetched and not read");
  g->problem.far = NULL;
  check_refused(&g->problem, "x0 s0 x1 x2 x3", "does not exist");
  RematTier bad = half_second;
  InputError error;
  g->problem.far = &bad;
  bad.in_rate = 0;
  check(!remat_problem_check(&g->problem, &error), "a rate is above 0", 0);
  bad = half_second;
  bad.drag = -1;
  check(!remat_problem_check(&g->problem, &error), "a drag is not negative", 0);
  bad = half_second;
  bad.budget = -1;
  check(!remat_problem_check(&g->problem, &error), "a budget is not negative", 0);
  generated_free(g);
}

// The same problem without its far tier, whose homes are near.
static double solve_near(const Generated *g, int64_t budget) {
  RematProblem problem = g->problem;
  RematNode nodes[64];
  problem.far = NULL;
  problem.nodes = nodes;
  for (int v = 0; v < problem.n_nodes; v++) {
    nodes[v] = g->nodes[v];
    if (!nodes[v].home) continue;
    problem.fixed_bytes += nodes[v].bytes;
    nodes[v] = (RematNode){0};
  }
  RematResult result;
  RematOptions options = {.max_moves = 2000};
  remat_solve(&problem, budget, &options, &result);
  double cost = result.feasible ? result.schedule.cost : INFINITY;
  remat_result_free(&result);
  return cost;
}

// Within both budgets, what it says it is, and never slower than without a far tier.
static void test_search(void) {
  enum { GRAPHS = 60 };
  for (int seed = 0; seed < GRAPHS; seed++) {
    Generated *g = generate_tiers(6 + seed % 20, (uint64_t)seed);
    InputError error;
    if (!check(remat_problem_check(&g->problem, &error), "a generated problem", seed)) printf("%s\n", error.message);
    RematSchedule plain = remat_baseline(&g->problem);
    for (int64_t budget = plain.peak; budget > 0; budget -= 1 + plain.peak / 5) {
      RematOptions options = {.max_moves = 2000};
      RematResult result;
      RematSimulation simulation;
      remat_solve(&g->problem, budget, &options, &result);
      const RematSchedule *found = &result.schedule;
      if (!check(remat_simulate(&g->problem, found->exec, found->n, &simulation, &error), "legal", seed)) continue;
      check(simulation.makespan == found->makespan && simulation.peak == found->peak, "as told", seed);
      check(result.feasible == (found->peak <= budget && found->far_peak <= g->far.budget), "feasible", seed);
      check(found->makespan >= result.base_cost - 1e-9, "no sooner than all is computed", seed);
      if (g->problem.n_nodes <= 16) {   // the optimum without a far tier
        double near = solve_near(g, budget);
        check(isinf(near) || (result.feasible && found->makespan <= near + 1e-9), "not slower than without", seed);
      }
      remat_simulation_free(&simulation);
      remat_result_free(&result);
    }
    remat_schedule_free(&plain);
    generated_free(g);
  }
}

// 500 random graphs of 5 to 10 nodes, from the smallest budget that one execution allows up to the peak of the plain
// order: the search finds what the exact solver proves, all but 1 % of the time, and nothing better.
static void test_against_exact(void) {
  enum { GRAPHS = 500 };
  int solved = 0, optimal = 0, tight = 0;
  for (int seed = 0; seed < GRAPHS; seed++) {
    Generated *g = generate_tiers(5 + seed % 6, (uint64_t)seed);
    RematSchedule plain = remat_baseline(&g->problem), best;
    int64_t low = remat_min_budget_bound(&g->problem), budget = low + (plain.peak - low) * (seed % 4) / 4;
    RematExact outcome = remat_exact(&g->problem, budget, 1000000, &best);
    RematOptions options = {.max_moves = 60000};
    RematResult result;
    remat_solve(&g->problem, budget, &options, &result);
    check(outcome != REMAT_EXACT_UNKNOWN, "the exact solver decides", seed);
    if (outcome == REMAT_EXACT_OPTIMAL) {
      check(best.peak <= budget && best.far_peak <= g->far.budget, "the optimum is within the budgets", seed);
      double found = result.feasible ? result.schedule.makespan : INFINITY;
      check(found >= best.makespan - 1e-9, "nothing is better than the optimum", seed);
      double bound = bound_by_tiers(&g->problem, budget, 0.01);
      check(bound <= best.makespan, "the bound is not above the optimum", seed);
      tight += bound >= best.makespan * (1 - 1e-6);
      solved++;
      optimal += found <= best.makespan + 1e-9;
    } else {
      check(!result.feasible, "nothing fits", seed);
    }
    remat_result_free(&result);
    remat_schedule_free(&best);
    remat_schedule_free(&plain);
    generated_free(g);
  }
  printf("random graphs: %d of %d optimal, the bound equals %d\n", optimal, solved, tight);
  check(tight * 2 > solved, "the bound is tight on half of them", tight);
  check(optimal * 100 >= solved * 99 && solved > GRAPHS * 9 / 10, "99 % are optimal", optimal);
}

// The exact solver where the answer is plain: what is copied beside computing costs nothing, what is not costs its
// time.
static void test_exact_by_hand(void) {
  static const struct {
    int64_t budget;
    double makespan;
  } cases[] = {{40, 14}, {30, 14}, {29, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Generated *g = make_diamond(&half_second);
    RematSchedule best;
    RematExact outcome = remat_exact(&g->problem, cases[i].budget, 0, &best);
    check((outcome == REMAT_EXACT_OPTIMAL) == (cases[i].makespan > 0), "feasible as it should be", (long long)i);
    if (outcome == REMAT_EXACT_OPTIMAL) check(best.makespan == cases[i].makespan, "the optimum", (long long)i);
    remat_schedule_free(&best);
    generated_free(g);
  }
  // A home of 10 bytes beside a budget that has room for it only while it is read.
  Generated *g = make_home();
  g->nodes[1].workspace = 6;
  RematSchedule best;
  check(remat_exact(&g->problem, 20, 0, &best) == REMAT_EXACT_OPTIMAL && best.makespan == 4, "a near home", 0);
  remat_schedule_free(&best);
  g->nodes[1].n_inputs = 0;
  check(remat_exact(&g->problem, 19, 0, &best) == REMAT_EXACT_OPTIMAL && best.makespan == 8, "a far home", 0);
  remat_schedule_free(&best);
  generated_free(g);
}

// Two homes of 20 bytes, one of which is far while b executes, whose updates wait for what stands for the norm of all
// gradients: its store has nothing beside it. The bound sees that.
static void test_late_stores(void) {
  static const RematTier slow_out = {.out_rate = 1, .in_rate = 100, .budget = 1000};
  Generated *g = generated_create(7);
  for (int h = 0; h < 2; h++) {
    generated_add(g, 0, 20, REMAT_FORWARD, 0, NULL);
    g->nodes[h].home = true;
    g->nodes[h].recomputable = false;
    g->nodes[h].updated_by = 5 + h;
  }
  generated_add(g, 100, 30, REMAT_FORWARD, 0, NULL);
  generated_add(g, 100, 1, REMAT_BACKWARD, 1, (int[]){2});
  generated_add(g, 1, 1, REMAT_BACKWARD, 1, (int[]){3});
  for (int h = 0; h < 2; h++) generated_add(g, 1, 0, REMAT_UPDATE, 2, (int[]){h, 4});
  for (int v = 2; v < 5; v++) g->nodes[v].movable = false;
  g->problem.far = &slow_out;
  RematSchedule best;
  check(remat_exact(&g->problem, 60, 0, &best) == REMAT_EXACT_OPTIMAL, "a late store", 0);
  double bound = bound_by_tiers(&g->problem, 60, 0.1);
  check(best.makespan >= 220 && best.makespan <= 225, "the optimum waits for the store", (long long)best.makespan);
  check(bound > 219 && bound <= best.makespan, "the bound does, too", (long long)bound);
  remat_schedule_free(&best);
  generated_free(g);
}

// Homes of 20 bytes, one of which is far while 3 executes. Home 0 is updated by 9, which waits for 7, behind much that
// is computed; home 1 by 10, which waits for its reader 8, and that for 7 or not: then its store is beside what is
// computed. 5 reads what 7 overwrites, and comes before it; 6 reads what 8 overwrites, and may be beside a store.
static Generated *make_readers(bool late) {
  static const RematTier slow_out = {.out_rate = 1, .in_rate = 100, .budget = 1000};
  static const RematAnti anti[] = {{5, 7}, {6, 8}, {8, 10}};
  Generated *g = generated_create(11);
  for (int h = 0; h < 2; h++) {
    generated_add(g, 0, 20, REMAT_FORWARD, 0, NULL);
    g->nodes[h].home = true;
    g->nodes[h].updated_by = 9 + h;
  }
  generated_add(g, 100, 30, REMAT_FORWARD, 0, NULL);
  generated_add(g, 100, 1, REMAT_BACKWARD, 1, (int[]){2});
  generated_add(g, 100, 1, REMAT_BACKWARD, 1, (int[]){3});
  generated_add(g, 10, 1, REMAT_BACKWARD, 1, (int[]){3});
  generated_add(g, 6, 1, REMAT_BACKWARD, 1, (int[]){3});
  generated_add(g, 1, 1, REMAT_BACKWARD, 1, (int[]){4});
  generated_add(g, 1, 1, REMAT_BACKWARD, 3, (int[]){6, 1, late ? 7 : 3});
  generated_add(g, 1, 0, REMAT_UPDATE, 2, (int[]){0, 7});
  generated_add(g, 1, 0, REMAT_UPDATE, 2, (int[]){1, late ? 3 : 8});
  for (int v = 0; v < 11; v++) g->nodes[v].recomputable = v == 2;
  g->problem.far = &slow_out;
  g->problem.anti = anti;
  g->problem.n_anti = sizeof anti / sizeof *anti;
  return g;
}

// The bound knows what certainly comes before 7 and what behind it, also by what is overwritten, and of nothing else.
static void test_late_readers(void) {
  static const double least[] = {320, 330}, most[] = {320, 332};
  for (int late = 0; late < 2; late++) {
    Generated *g = make_readers(late);
    RematSchedule best;
    check(remat_exact(&g->problem, 60, 0, &best) == REMAT_EXACT_OPTIMAL, "late readers", late);
    double bound = bound_by_tiers(&g->problem, 60, 0.1);
    check(best.makespan == most[late] && bound <= most[late], "no bound is above the optimum", (long long)bound);
    check(bound > least[late] - 0.1, "the bound waits for what the store waits for", (long long)bound);
    remat_schedule_free(&best);
    generated_free(g);
  }
}

// Values of a chain, and homes that are updated one after the other at the end; the values behind `last_kept` need as
// much again as all others while they are made.
static Generated *make_training(int n, int homes, const RematTier *far) {
  Generated *g = generated_create(2 * n + 2 * homes + 2);
  for (int h = 0; h < homes; h++) {
    int v = generated_add(g, 0, 10, REMAT_FORWARD, 0, NULL);
    g->nodes[v].home = true;
    g->nodes[v].recomputable = false;
  }
  for (int i = 0; i < n; i++) {
    int v = generated_add(g, 1, 10, REMAT_FORWARD, i ? 1 : 0, (int[]){homes + i - 1});
    g->nodes[v].movable = true;
  }
  int last = generated_add(g, 1, 10 * n, REMAT_FORWARD, 1, (int[]){homes + n - 1});
  for (int i = n - 1; i >= 0; i--) last = generated_add(g, 2, 1, REMAT_BACKWARD, 2, (int[]){last, homes + i});
  for (int h = 0; h < homes; h++) {
    g->nodes[h].updated_by = g->problem.n_nodes;
    int update = generated_add(g, 0.25, 0, REMAT_UPDATE, 2, (int[]){last, h});
    g->nodes[update].recomputable = false;
  }
  g->far = *far;
  g->problem.far = &g->far;
  g->output = last;
  g->problem.n_outputs = 1;
  return g;
}

// What the lanes can carry before the fullest moment is moved at no cost: homes, which would all be stored at the end,
// stay near.
static void test_carried(void) {
  enum { VALUES = 80, HOMES = 30 };
  // A copy of a value takes 4 units of time: 20 can be stored before the last is made.
  RematTier far = {.out_rate = 2.5, .in_rate = 2.5, .budget = 100000};
  Generated *g = make_training(VALUES, HOMES, &far);
  InputError error;
  if (!check(remat_problem_check(&g->problem, &error), "a problem", 0)) printf("%s\n", error.message);
  RematSchedule plain = remat_baseline(&g->problem);
  for (int moved = 2; moved <= 18; moved += 4) {
    RematOptions options = {.max_moves = -1};   // as begun
    RematResult result;
    remat_solve(&g->problem, plain.peak - 10 * moved, &options, &result);
    check(result.feasible && result.schedule.makespan <= result.base_cost + 1e-9, "moved at no cost", moved);
    remat_result_free(&result);
  }
  remat_schedule_free(&plain);
  generated_free(g);
}

int main(void) {
  test_search();
  test_late_stores();
  test_late_readers();
  test_carried();
  test_exact_by_hand();
  test_against_exact();
  test_lanes();
  test_workspace();
  test_far_bytes();
  test_homes();
  test_refused();
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
