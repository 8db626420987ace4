// test_bound.c: maximum flow against all cuts of small networks; the lower bound on chains whose optimum is known, and
// below the cost of every schedule that can be made for random graphs. test_exact.c holds it against true optima.
#include <math.h>
#include <stdio.h>

#include "check.h"
#include "generate.h"
#include "passes/solver/bound_moments.h"

// ---- maximum flow ----

static int64_t cut_capacity(const FlowNetwork *network, unsigned source_side) {
  int64_t sum = 0;
  for (int e = 0; e < network->n_edges; e++)
    if ((source_side >> network->tail[e] & 1) && !(source_side >> network->head[e] & 1)) sum += network->capacity[e];
  return sum;
}

static int64_t smallest_cut(const FlowNetwork *network) {
  int64_t least = INT64_MAX;
  for (unsigned set = 0; set < 1u << network->n_nodes; set++) {
    if (!(set >> FLOW_SOURCE & 1) || (set >> FLOW_SINK & 1)) continue;
    int64_t capacity = cut_capacity(network, set);
    if (capacity < least) least = capacity;
  }
  return least;
}

static void test_flow(void) {
  uint64_t random = 11;
  FlowNetwork network = {0};
  for (int round = 0; round < 400; round++) {
    flow_clear(&network);
    int n = 2 + generate_number(&random, 8), edges = generate_number(&random, 4 * n + 1);
    while (network.n_nodes < n) flow_add_node(&network);
    for (int e = 0; e < edges; e++) {
      int tail = generate_number(&random, n), head = generate_number(&random, n);
      if (tail != head) flow_add_edge(&network, tail, head, generate_number(&random, 20));
    }
    flow_finish(&network);
    for (int again = 0; again < 3; again++) {
      int64_t value = flow_solve(&network);
      check(value == smallest_cut(&network), "the maximum flow is the minimum cut", round);
      unsigned set = 0;
      for (int v = 0; v < n; v++) set |= (unsigned)flow_is_source_side(&network, v) << v;
      check(cut_capacity(&network, set) == value, "the cut told is one of least capacity", round);
      for (int e = 0; e < network.n_edges; e++) network.capacity[e] = generate_number(&random, 9);
    }
  }
  flow_clear(&network);
  int middle = flow_add_node(&network);
  flow_add_edge(&network, FLOW_SOURCE, middle, FLOW_INFINITE);
  flow_add_edge(&network, middle, FLOW_SINK, FLOW_INFINITE);
  flow_finish(&network);
  check(flow_solve(&network) == FLOW_INFINITE, "an endless flow", 0);
  flow_free(&network);
}

// ---- the bound ----

// Each unit below the peak of the plain order costs one recomputation, two for the first.
static void test_chains(void) {
  static const int lengths[] = {10, 100, 1000};
  for (int i = 0; i < 3; i++) {
    int n = lengths[i];
    Generated *g = generate_chain(n, 1024, false);
    for (int units = n + 2; units > n / 2; units -= n / 5) {
      double bound = remat_lower_bound(&g->problem, units * 1024, 0);
      int extra = units > n ? 0 : n + 1 - units;
      check(bound <= 2 * n + extra, "the bound of a chain is below its optimum", n);
      check(bound >= 2 * n + extra - 1, "and at most one below", n);
    }
    check(isinf(remat_lower_bound(&g->problem, 2 * 1024, 0)), "a gradient and its two inputs take three units", n);
    check(remat_min_budget_bound(&g->problem) == 3 * 1024, "so three units are the least", n);
    generated_free(g);
  }
}

typedef struct Context {
  const RematProblem *problem;
  int64_t least;
  int n_raised;
} Context;

static void check_schedule(void *data, const RematSchedule *schedule) {
  Context *context = data;
  double bound = remat_lower_bound(context->problem, schedule->peak, 0.02), plain = 0;
  for (int v = 0; v < context->problem->n_nodes; v++) plain += context->problem->nodes[v].cost;
  check(bound <= schedule->cost * (1 + 1e-12), "no schedule is cheaper than the bound at its peak", schedule->n);
  check(bound >= plain, "the bound counts every node once", schedule->n);
  check(context->least <= schedule->peak, "no schedule's peak is below the bound on budgets", schedule->n);
  context->n_raised += bound > plain;
}

static void test_schedules(void) {
  Context context = {0};
  for (uint64_t seed = 1; seed <= 60; seed++) {
    Generated *g = seed % 5 ? generate_random(20 + (int)(seed * 7 % 120), seed)
                            : generate_chain((int)seed, 64, seed % 2);
    context.problem = &g->problem;
    context.least = remat_min_budget_bound(&g->problem);
    remat_each_seed(&g->problem, check_schedule, &context);
    generated_free(g);
  }
  check(context.n_raised > 20, "some bounds tell more than the plain cost", context.n_raised);
}

// A smaller budget cannot cost less, whatever the bound makes of it in the same time; costs in another unit change
// nothing else.
static void test_budgets_and_units(void) {
  Generated *g = generate_random(40, 7);
  RematSchedule plain = remat_baseline(&g->problem);
  double last = plain.cost;
  for (int percent = 100; percent > 30; percent -= 5) {
    double bound = remat_lower_bound(&g->problem, plain.peak * percent / 100, 1);
    check(bound >= last * (1 - 1e-9), "the bound grows as the budget shrinks", percent);
    last = bound;
  }
  int64_t budget = plain.peak * 7 / 10;
  double before = remat_lower_bound(&g->problem, budget, 1);
  for (int v = 0; v < g->problem.n_nodes; v++) g->nodes[v].cost *= 1e-7;
  double after = remat_lower_bound(&g->problem, budget, 1);
  check(isinf(before) ? isinf(after) : fabs(after * 1e7 - before) <= 1e-6 * before, "the unit of costs is free", 0);
  for (int v = 0; v < g->problem.n_nodes; v++) g->nodes[v].cost = 0;
  after = remat_lower_bound(&g->problem, budget, 1);
  check(isinf(before) ? isinf(after) : after == 0, "costs of 0 bound nothing", 0);
  remat_schedule_free(&plain);
  generated_free(g);
}

static void test_degenerate(void) {
  RematProblem none = {.fixed_bytes = 5};
  check(remat_lower_bound(&none, 5, 0) == 0 && isinf(remat_lower_bound(&none, 4, 0)), "no nodes", 0);
  check(remat_min_budget_bound(&none) == 5, "the fixed bytes are always there", 0);
  // b cannot execute again and is read last, so it stays while c, with its workspace, executes.
  int first[] = {0}, both[] = {1, 2};
  RematNode nodes[] =
      {{.cost = 1, .bytes = 100, .recomputable = true},
       {.cost = 1, .bytes = 10, .n_inputs = 1, .inputs = first},
       {.cost = 1, .bytes = 1, .workspace = 1000, .n_inputs = 1, .inputs = &both[0], .recomputable = true},
       {.cost = 1, .bytes = 1, .n_inputs = 2, .inputs = both, .recomputable = true}};
  RematProblem problem = {.n_nodes = 4, .nodes = nodes, .n_outputs = 1, .outputs = (int[]){0}};
  nodes[0].recomputable = false;
  check(remat_min_budget_bound(&problem) == 100 + 10 + 1 + 1000, "what cannot execute again stays", 0);
  check(isinf(remat_lower_bound(&problem, 1110, 0)) && remat_lower_bound(&problem, 1111, 0) == 4, "to the byte", 0);
}

int main(void) {
  test_flow();
  test_chains();
  test_schedules();
  test_budgets_and_units();
  test_degenerate();
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
