// test_again.c: a plan of two tiers as a problem of one, there and back.
#include <math.h>
#include <string.h>

#include "check.h"
#include "generate.h"
#include "passes/solver/tiers.h"

static const RematTier half_second = {.out_rate = 5, .in_rate = 10, .latency = 0.5, .budget = 1000};

static TierSearch search_create(RematProblem *problem, int64_t budget) {
  static int64_t steps;
  problem->steps = &steps;
  TierSearch search = {.problem = problem, .n = problem->n_nodes, .budget = budget, .max_work = INFINITY};
  search.watch = watch_start(problem, NULL);
  for (int v = 0; v < search.n; v++)
    if (problem->nodes[v].home) search.homes += problem->nodes[v].bytes;
    else search.n_executed++;
  remat_list_anti(problem, true, &search.after_start, &search.afters);
  remat_list_anti(problem, false, &search.before_start, &search.befores);
  search.nodes = allocate_array((size_t)search.n, sizeof *search.nodes);
  return search;
}

static void search_free(TierSearch *search) {
  free(search->after_start);
  free(search->afters);
  free(search->before_start);
  free(search->befores);
  free(search->nodes);
  free(search->at);
  free(search->stores);
}

// A plan that is legal becomes a schedule that is legal, with the executions and fetches of the plan, and the plan
// again. Returns its number of fetches.
static int there_and_back(TierSearch *search, const TierPlan *plan, bool same, long long seed) {
  const RematProblem *problem = search->problem;
  check(tier_evaluate(search, plan).legal, "the plan is legal", seed);
  TierAgain again = tier_again_create(search, plan);
  RematSchedule start = tier_again_start(&again);
  RematSimulation simulation;
  bool legal = remat_simulate(&again.problem, start.exec, start.n, &simulation, NULL);
  check(legal, "its schedule is legal", seed);
  if (legal) remat_simulation_free(&simulation);

  int executions[2] = {0}, fetches[2] = {0};
  TierPlan back = {0};
  tier_plan_copy(search, &back, plan);
  tier_again_read(&again, &start, &back);
  if (same)
    check(back.n == plan->n && memcmp(back.items, plan->items, (size_t)plan->n * sizeof(int)) == 0, "the same items",
          seed);
  check(tier_evaluate(search, &back).legal, "what is read back is legal", seed);
  for (int which = 0; which < 2; which++) {
    const TierPlan *one = which ? &back : plan;
    for (int p = 0; p < one->n; p++) {
      executions[which] += remat_item_kind(problem, one->items[p]) == REMAT_EXECUTE;
      fetches[which] += remat_item_kind(problem, one->items[p]) == REMAT_FETCH;
    }
  }
  check(executions[0] == executions[1], "as many executions", seed);
  check(fetches[0] == fetches[1], "as many fetches", seed);
  check(memcmp(back.far_home, plan->far_home, (size_t)search->n * sizeof(bool)) == 0, "the same far homes", seed);
  tier_plan_free(&back);
  remat_schedule_free(&start);
  tier_again_free(&again);
  return fetches[0];
}

// a is stored, b and c are made, and a is fetched for d.
static Generated *make_moved(double cost, bool b_reads_a) {
  Generated *g = generated_create(4);
  generated_add(g, 2, 10, REMAT_FORWARD, 0, NULL);
  generated_add(g, cost, 10, REMAT_FORWARD, b_reads_a, (int[]){0});
  generated_add(g, 4, 10, REMAT_FORWARD, 1, (int[]){1});
  generated_add(g, 5, 10, REMAT_BACKWARD, 2, (int[]){2, 0});
  g->nodes[0].movable = true;
  g->problem.far = &half_second;
  g->problem.n_outputs = 1;
  g->output = 3;
  return g;
}

// The store of a lasts from 2 to 4.5.
static void test_by_hand(double cost, bool b_reads_a, int64_t pending_b, int64_t pending_c, int64_t peak) {
  Generated *g = make_moved(cost, b_reads_a);
  RematProblem *problem = &g->problem;
  int store = remat_item(problem, REMAT_STORE, 0), fetch = remat_item(problem, REMAT_FETCH, 0);
  TierSearch search = search_create(problem, 1000);
  TierPlan plan = tier_plan_create(&search, (int[]){0, store, 1, 2, fetch, 3}, 6);
  there_and_back(&search, &plan, true, (long long)cost);

  tier_evaluate(&search, &plan);
  TierAgain again = tier_again_create(&search, &plan);
  check(again.problem.n_nodes == 5, "a node for each, and one for the copies of a", again.problem.n_nodes);
  check(again.nodes[0].bytes == 0 && again.nodes[0].workspace == 10, "what is stored occupies its execution alone", 0);
  check(!again.nodes[0].recomputable && again.nodes[1].recomputable, "it is made once, its copies at will", 0);
  check(again.nodes[2].workspace == pending_b, "bytes that are being stored while b executes",
        again.nodes[2].workspace);
  check(again.nodes[3].workspace == pending_c, "and while c does", again.nodes[3].workspace);
  RematSchedule start = tier_again_start(&again);
  static const int expected[] = {0, 1, 2, 3, 1, 4};
  check(start.n == 6 && memcmp(start.exec, expected, sizeof expected) == 0, "its copy, and again before d", start.n);
  check(start.peak == peak, "near bytes as the plan has them", start.peak);
  remat_schedule_free(&start);
  tier_again_free(&again);
  tier_plan_free(&plan);
  search_free(&search);
  generated_free(g);
}

// A far home, fetched, dropped, fetched and stored behind its update.
static void test_home(void) {
  Generated *g = generated_create(3);
  generated_add(g, 0, 10, REMAT_FORWARD, 0, NULL);
  generated_add(g, 3, 4, REMAT_BACKWARD, 1, (int[]){0});
  generated_add(g, 1, 0, REMAT_UPDATE, 2, (int[]){0, 1});
  g->nodes[0].home = true;
  g->nodes[0].recomputable = false;
  g->nodes[0].updated_by = 2;
  RematProblem *problem = &g->problem;
  problem->far = &half_second;
  int store = remat_item(problem, REMAT_STORE, 0), fetch = remat_item(problem, REMAT_FETCH, 0);
  TierSearch search = search_create(problem, 1000);
  int items[] = {remat_item(problem, REMAT_FAR_HOME, 0), fetch, 1, fetch, 2, store};
  TierPlan plan = tier_plan_create(&search, items, 6);
  check(there_and_back(&search, &plan, true, 0) == 2, "two fetches", 0);
  tier_plan_free(&plan);
  search_free(&search);
  generated_free(g);
}

// What is not recomputable executes once, also at the very beginning.
static void test_once(void) {
  Generated *g = make_moved(3, true);
  TierSearch search = search_create(&g->problem, 1000);
  for (int kept = 0; kept < 4; kept++) {
    for (int v = 0; v < 4; v++) g->nodes[v].recomputable = v != kept;
    TierPlan plan = tier_plan_create(&search, (int[]){0, 1, 0, 1, 2, 3}, 6);
    check(tier_evaluate(&search, &plan).legal == (kept > 1), "a second execution", kept);
    tier_plan_free(&plan);
  }
  search_free(&search);
  generated_free(g);
}

// A home that is first read behind the peak is fetched once, and needs no store: less than a value that is away there.
static void test_first_read_late(bool is_quick) {
  const RematTier far = {.out_rate = 20, .in_rate = 4, .budget = 1000};
  Generated *g = generated_create(6);
  generated_add(g, 0, 10, REMAT_FORWARD, 0, NULL);
  generated_add(g, 5, 10, REMAT_FORWARD, 0, NULL);
  generated_add(g, 5, 10, REMAT_FORWARD, 0, NULL);
  generated_add(g, 5, 10, REMAT_FORWARD, 1, (int[]){2});
  generated_add(g, 5, 0, REMAT_BACKWARD, 2, (int[]){1, 3});
  generated_add(g, 5, 5, REMAT_BACKWARD, 2, (int[]){0, 4});
  g->nodes[0].home = true;
  g->nodes[0].recomputable = false;
  g->nodes[1].movable = true;
  g->problem.far = &far;
  g->problem.n_outputs = 1;
  g->output = 5;
  TierSearch search = search_create(&g->problem, 30);
  search.is_quick = is_quick;
  TierPlan plan = tier_plan_create(&search, (int[]){1, 2, 3, 4, 5}, 5);
  check(tier_evaluate(&search, &plan).overflow == 10, "too much at one place", is_quick);
  tier_descend(&search, &plan, 0);
  TierCost cost = tier_evaluate(&search, &plan);
  check(cost.legal && cost.overflow == 0, "within the budget", plan.n);
  check(plan.n == 6 && plan.far_home[0], "the home is fetched", plan.n);
  tier_plan_free(&plan);
  search_free(&search);
  generated_free(g);
}

// Plans that the descent makes.
static void test_random(void) {
  int fetches = 0;
  for (uint64_t seed = 1; seed <= 200; seed++) {
    Generated *g = generate_random(8 + (int)(seed % 60), seed);
    for (int v = 0; v < g->problem.n_nodes; v++) g->nodes[v].movable = (seed + (uint64_t)v) % 3 != 0;
    g->far = (RematTier){.out_rate = 2, .in_rate = 3, .latency = 0.1, .budget = 1 << 30};
    g->problem.far = &g->far;
    RematSchedule plain = remat_baseline(&g->problem);
    TierSearch search = search_create(&g->problem, plain.peak * 2 / 3);
    TierPlan plan = tier_plan_create(&search, plain.exec, plain.n);
    tier_descend(&search, &plan, 0);
    tier_prune(&search, &plan);
    fetches += there_and_back(&search, &plan, false, (long long)seed);
    tier_plan_free(&plan);
    search_free(&search);
    remat_schedule_free(&plain);
    generated_free(g);
  }
  check(fetches > 500, "values are moved", fetches);
}

int main(void) {
  test_by_hand(3, true, 0, 0, 30);   // b reads a until 5
  test_by_hand(1, false, 10, 10, 30);
  test_by_hand(3, false, 10, 0, 30);
  test_home();
  test_once();
  test_first_read_late(true);
  test_first_read_late(false);
  test_random();
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
