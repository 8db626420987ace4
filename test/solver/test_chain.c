// test_chain.c: the dynamic program over stages against closed forms and the exact solver on chains, its schedules on
// random graphs, and the policies on chains.
#include <math.h>
#include <stdio.h>

#include "generate.h"
#include "passes/solver/chain.h"
#include "passes/solver/internal.h"
#include "support/input_error.h"

static int failures;

static void check(bool good, const char *what, long long number) {
  if (good) return;
  printf("FAIL: %s (%lld)\n", what, number);
  failures++;
}

// What the backward node of layer i reads beside the gradient after it.
typedef enum Reads { READS_OUTPUT, READS_INPUT, READS_BOTH } Reads;

// n forward nodes, a loss, n backward nodes; everything is one unit, but a backward node costs `backward_cost`.
static Generated *generate_reading(int n, Reads reads, double backward_cost) {
  Generated *g = generated_create(2 * n + 1);
  for (int i = 0; i < n; i++) {
    int input = i - 1;
    generated_add(g, 1, 1, REMAT_FORWARD, i > 0, &input);
  }
  int last = generated_add(g, 1, 1, REMAT_FORWARD, 1, (int[]){n - 1});
  for (int i = n - 1; i >= 0; i--) {
    int inputs[3] = {last}, count = 1;
    if (reads != READS_INPUT) inputs[count++] = i;
    if ((reads == READS_INPUT || reads == READS_BOTH) && i > 0) inputs[count++] = i - 1;
    last = generated_add(g, backward_cost, 1, REMAT_BACKWARD, count, inputs);
  }
  g->problem.n_outputs = 1;
  g->output = last;
  return g;
}

// A residual chain of `n` forward nodes, by turns tanh(x) and x + tanh(x): the gradient of tanh reads its value, that
// of the sum goes on as it is.
static Generated *generate_residual(int n) {
  Generated *g = generated_create(3 * n);
  for (int i = 0; i < n; i++) generated_add(g, 1, 1, REMAT_FORWARD, i == 0 ? 0 : i % 2 ? 1 : 2, (int[]){i - 1, i - 2});
  int last = generated_add(g, 1, 1, REMAT_FORWARD, 1, (int[]){n - 1});
  for (int i = n - 1; i >= 0; i--) {
    if (i % 2 == 0) continue;
    int inner = generated_add(g, 1, 1, REMAT_BACKWARD, 2, (int[]){i, last});
    last = i == n - 1 ? inner : generated_add(g, 1, 1, REMAT_BACKWARD, 2, (int[]){inner, last});
  }
  g->problem.n_outputs = 1;
  g->output = last;
  return g;
}

// The policy sqrt: at most one forward pass more.
static void test_policies(void) {
  Generated *chains[] = {generate_reading(100, READS_OUTPUT, 1), generate_reading(100, READS_INPUT, 1),
                         generate_reading(100, READS_BOTH, 1), generate_residual(100)};
  for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
    RematSchedule plain = remat_baseline(&chains[i]->problem);
    RematSchedule root = remat_policy_sqrt(&chains[i]->problem);
    check(root.peak <= 16, "sqrt on a chain of 100", root.peak);
    check(root.cost <= plain.cost + 100, "sqrt: at most one extra forward pass", (long long)root.cost);
    remat_schedule_free(&plain);
    remat_schedule_free(&root);
    generated_free(chains[i]);
  }
  for (int n = 16; n <= 4096; n *= 4) {
    int bits = 0;
    while (1 << bits < n) bits++;
    for (int reads = READS_OUTPUT; reads <= READS_BOTH; reads++) {
      Generated *g = generate_reading(n, (Reads)reads, 1);
      RematSchedule schedule = remat_policy_recursive(&g->problem);
      check(schedule.peak <= bits + 5, "recursive: log2 n and a few units", n);
      check(schedule.cost <= 2 * n + 1 + (double)n * bits, "recursive: n log2 n executions", n);
      remat_schedule_free(&schedule);
      generated_free(g);
    }
  }
}

typedef struct Best {
  const RematProblem *problem;
  int64_t budget;
  double cost;
  int seeds;
} Best;

static bool note(void *context, const RematSchedule *schedule) {
  Best *best = context;
  RematSimulation simulation;
  InputError error;
  bool legal = remat_simulate(best->problem, schedule->exec, schedule->n, &simulation, &error);
  check(legal, "a seed is legal", schedule->n);
  if (!legal) return false;
  check(simulation.peak == schedule->peak && simulation.cost == schedule->cost, "a seed is measured", schedule->n);
  if (simulation.peak <= best->budget && simulation.cost < best->cost) best->cost = simulation.cost;
  best->seeds++;
  remat_simulation_free(&simulation);
  return true;
}

// Cost of the best seed; infinity when none fits.
static double best_seed(const RematProblem *problem, int64_t budget) {
  Best best = {.problem = problem, .budget = budget, .cost = INFINITY};
  RematGraph graph = remat_graph_create(problem);
  remat_each_budget_seed(&graph, budget, note, NULL, &best);
  remat_graph_free(&graph);
  return best.cost;
}

static double choose(int n, int k) {
  double product = 1;
  for (int i = 1; i <= k; i++) product = product * (n - k + i) / i;
  return floor(product + 0.5);
}

// Griewank & Walther 2000, theorem 1: least number of forward steps to reverse `steps` steps with `slots` checkpoints.
static double revolve_count(int steps, int slots) {
  int r = 0;
  while (choose(slots + r, slots) < steps) r++;
  return r * (double)steps - choose(slots + r, r - 1);
}

// With n layers there are n + 1 states, of which the first is not stored; a step holds two values more than its
// checkpoints: the state it reads is one of them or free, the one it makes, and the gradient.
static void test_revolve(void) {
  static const int lengths[] = {10, 57, 100, 500};
  static const int budgets[] = {4, 5, 7, 12, 14, 25};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    int n = lengths[i];
    Generated *g = generate_reading(n, READS_OUTPUT, 2);
    Generated *h = generate_reading(n, READS_INPUT, 2);
    for (size_t b = 0; b < sizeof budgets / sizeof *budgets; b++) {
      if (budgets[b] > n) continue;
      double base = 3 * n + 1;
      check(best_seed(&g->problem, budgets[b]) == base + revolve_count(n + 1, budgets[b] - 2) - n, "Revolve, outputs",
            n * 100 + budgets[b]);
      // The last layer's output is made once, for the loss alone.
      check(best_seed(&h->problem, budgets[b]) == base + revolve_count(n, budgets[b] - 2) - (n - 1), "Revolve, inputs",
            n * 100 + budgets[b]);
    }
    generated_free(g);
    generated_free(h);
  }
}

// The optimum of short chains is reached whatever the backward nodes read, as long as one value crosses each cut.
static void test_exact(void) {
  for (int reads = READS_OUTPUT; reads <= READS_BOTH; reads++)
    for (int n = 3; n <= 7; n++) {
      Generated *g = generate_reading(n, (Reads)reads, 2);
      for (int budget = 3; budget <= n + 2; budget++) {
        RematSchedule schedule = {0};
        RematExact outcome = remat_exact(&g->problem, budget, 1000000, &schedule);
        double cost = best_seed(&g->problem, budget);
        check(outcome != REMAT_EXACT_UNKNOWN, "the exact solver finishes", n * 100 + budget);
        if (outcome == REMAT_EXACT_OPTIMAL)
          check(cost == schedule.cost, "a short chain at its optimum", n * 100 + budget);
        remat_schedule_free(&schedule);
      }
      generated_free(g);
    }
}

// Roles missing, anti-dependences, nodes that execute once: whatever the graph, seeds are legal.
static void test_random(void) {
  for (uint64_t seed = 0; seed < 300; seed++) {
    int n = 2 + (int)(seed % 60);
    Generated *g = generate_random(n, seed);
    if (seed % 5 == 0)
      for (int v = 0; v < n; v++)
        if (g->nodes[v].role == REMAT_BACKWARD) g->nodes[v].role = REMAT_FORWARD;
    RematSchedule plain = remat_baseline(&g->problem);
    for (int percent = 100; percent > 0; percent -= 15) best_seed(&g->problem, plain.peak * percent / 100);
    remat_schedule_free(&plain);
    generated_free(g);
  }
}

// Whether the ranges of the first and of the second of three stages have one slot. `bytes` or `cost`, where there
// is one, is a number of the second stage, and one more than in the others.
static bool is_slot_shared(ChainStage stages[4], int64_t *bytes, double *cost) {
  for (int i = 0; i < 3; i++) {
    stages[i] = (ChainStage){.n_options = 2, .run = 1, .leaf = 1, .backward = 1, .run_cost = 1, .leaf_cost = {1, 1}};
    for (int o = 0; o < 2; o++) stages[i].options[o] = (ChainOption){.held = 1, .forward = 1, .make = 1, .remake = 1};
  }
  if (bytes) *bytes += 1;
  if (cost) *cost += 1;
  RematGraph graph = {.problem = &(RematProblem){0}};
  Chain chain = {.graph = &graph, .n = 3, .stages = stages};
  ChainTable table = chain_solve(&chain, 8, 1, NULL, NULL);
  bool shared = table.slot[1] == table.slot[4 + 2];
  chain_table_free(&table);
  return shared;
}

// Stages that differ in anything the program reads have costs of their own.
static void test_slots(void) {
  ChainStage stages[4] = {0}, *second = &stages[1];
  ChainOption *option = &second->options[1];
  int64_t *bytes[] = {&second->run,   &second->leaf, &second->backward, &second->kept,
                      &second->other, &option->held, &option->forward};
  double *costs[] = {&second->run_cost, &second->leaf_cost[0], &second->leaf_cost[1], &option->make, &option->remake};
  check(is_slot_shared(stages, NULL, NULL), "equal stages share a slot", 0);
  for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
    check(!is_slot_shared(stages, bytes[i], NULL), "stages of other bytes have slots of their own", (long long)i);
  for (size_t i = 0; i < sizeof costs / sizeof *costs; i++)
    check(!is_slot_shared(stages, NULL, costs[i]), "stages of other costs have slots of their own", (long long)i);
}

// Three stages that are run for 4 and made again for 4: holding what costs 3 of that, a unit each, saves it for all but
// the last, whose backward part comes at once.
static void test_hold(void) {
  ChainStage stages[4] = {0};
  for (int i = 0; i < 3; i++) {
    stages[i] = (ChainStage){.n_options = 1, .run = 1, .leaf = 2, .backward = 2, .run_cost = 4, .leaf_cost = {4, 4}};
    stages[i].options[0] = (ChainOption){.held = 1, .forward = 1, .make = 4, .remake = 1};
  }
  RematGraph graph = {.problem = &(RematProblem){0}};
  Chain chain = {.graph = &graph, .n = 3, .stages = stages};
  ChainTable table = chain_solve(&chain, 8, 1, NULL, NULL);
  const float *cost = table.cost + chain_state(&table, 0, 3, 0);
  for (int m = 0; m <= 8; m++)
    check(m < 2 ? isinf(cost[m]) : cost[m] == (float)(20 - 3 * (m < 4 ? m - 2 : 2)), "what is held saves time", m);
  chain_table_free(&table);
}

int main(void) {
  test_policies();
  test_revolve();
  test_exact();
  test_slots();
  test_hold();
  test_random();
  if (failures == 0) printf("ok\n");
  return failures != 0;
}
