// test_solver.c: the solver against the simulator, an exact search on small graphs, and closed forms on chains; the
// allocator against its verifier and packings known to be perfect.
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "exact.h"
#include "generate.h"
#include "passes/solver/solver.h"
#include "support/alloc.h"
#include "support/input_error.h"
#include "support/json.h"

static bool is_legal(const RematProblem *problem, const RematSchedule *schedule) {
  RematSimulation simulation;
  InputError error;
  if (!remat_simulate(problem, schedule->exec, schedule->n, &simulation, &error)) {
    printf("%s\n", error.message);
    return false;
  }
  bool same = simulation.peak == schedule->peak && simulation.cost == schedule->cost;
  remat_simulation_free(&simulation);
  return same;
}

static RematSchedule run_policy(const RematProblem *problem, RematPolicy policy) {
  RematSchedule schedule = remat_policy_run(problem, policy);
  check(is_legal(problem, &schedule), "a policy's schedule is legal", policy);
  return schedule;
}

// sqrt needs about sqrt(2 n) units at one extra forward pass, recursive about log2 n.
static void test_chain_policies(void) {
  static const struct {
    int n;
    bool residual;
    int64_t sqrt_peak, recursive_peak;
  } cases[] = {{100, false, 16, 10}, {500, false, 34, 12}, {1000, false, 47, 13}, {100, true, 22, 16}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Generated *g = generate_chain(cases[i].n, 1, cases[i].residual);
    check(remat_problem_check(&g->problem, NULL), "a chain is a problem", cases[i].n);
    RematSchedule none = run_policy(&g->problem, REMAT_POLICY_NONE);
    RematSchedule root = run_policy(&g->problem, REMAT_POLICY_SQRT);
    RematSchedule recursive = run_policy(&g->problem, REMAT_POLICY_RECURSIVE);
    check(none.peak == cases[i].n + 1, "the plain order keeps everything", none.peak);
    check(root.peak <= cases[i].sqrt_peak, "sqrt memory", root.peak);
    check(root.cost <= none.cost + cases[i].n, "sqrt: at most one extra forward pass", (long long)root.cost);
    check(recursive.peak <= cases[i].recursive_peak, "recursive memory", recursive.peak);
    remat_schedule_free(&none);
    remat_schedule_free(&root);
    remat_schedule_free(&recursive);
    generated_free(g);
  }
}

// A chain whose n weight gradients of `gradient` units wait for a common end, as clipping makes them, and whose last
// forward value is followed by one of `head` units that only its first backward node reads.
static Generated *generate_clipped_chain(int n, int64_t unit, int64_t gradient, int64_t head) {
  Generated *g = generated_create(3 * n + 3);
  for (int i = 0; i < n; i++) generated_add(g, 1, unit, REMAT_FORWARD, i > 0, (int[]){i - 1});
  int last = generated_add(g, 0, head, REMAT_FORWARD, 1, (int[]){n - 1});
  int *gradients = allocate_array((size_t)n, sizeof *gradients);
  for (int i = n - 1; i >= 0; i--) {
    last = generated_add(g, 1, unit, REMAT_BACKWARD, 2, (int[]){i, last});
    gradients[i] = generated_add(g, 1, gradient, REMAT_BACKWARD, 1, (int[]){last});
  }
  g->output = generated_add(g, 1, 1, REMAT_BACKWARD, n, gradients);
  g->problem.n_outputs = 1;
  free(gradients);
  return g;
}

// Where gradients accumulate, segments are long where few of them are held: the peak is hardly more than what the
// gradients take.
static void test_sqrt_beside_gradients(void) {
  Generated *g = generate_clipped_chain(64, 4, 3, 0);
  RematSchedule none = run_policy(&g->problem, REMAT_POLICY_NONE), root = run_policy(&g->problem, REMAT_POLICY_SQRT);
  printf("beside gradients: %lld of %lld\n", (long long)root.peak, (long long)none.peak);
  check(root.peak <= 64 * 3 + 5 * 4, "sqrt beside gradients", root.peak);
  check(root.cost <= none.cost + 64, "sqrt beside gradients: one extra forward pass", (long long)root.cost);
  remat_schedule_free(&none);
  remat_schedule_free(&root);
  generated_free(g);
}

// Where the peak is out of reach, inside a large value's life, the activations fall all the same.
static void test_sqrt_under_a_floor(void) {
  Generated *g = generate_clipped_chain(64, 4, 0, 5000);
  RematSchedule none = run_policy(&g->problem, REMAT_POLICY_NONE), root = run_policy(&g->problem, REMAT_POLICY_SQRT);
  check(none.activations == 64 * 4 + 5000, "everything is held as the backward pass begins", none.activations);
  check(root.peak < none.peak && root.activations - 5000 <= 64 * 4 / 2, "activations fall by half", root.activations);
  g->nodes[64].recomputable = false;
  RematSchedule fixed = run_policy(&g->problem, REMAT_POLICY_SQRT);
  check(fixed.activations <= 64 * 4 / 2, "without what cannot run again too", fixed.activations);
  remat_schedule_free(&none);
  remat_schedule_free(&root);
  remat_schedule_free(&fixed);
  generated_free(g);
}

typedef struct SeedCheck {
  const RematProblem *problem;
  int count;
  bool legal;
  RematSchedule cheapest;   // within `budget`
  int64_t budget;
} SeedCheck;

static void check_seed(void *context, const RematSchedule *schedule) {
  SeedCheck *seeds = context;
  seeds->count++;
  seeds->legal = seeds->legal && is_legal(seeds->problem, schedule);
  if (schedule->peak > seeds->budget || (seeds->cheapest.exec && schedule->cost >= seeds->cheapest.cost)) return;
  remat_schedule_free(&seeds->cheapest);
  seeds->cheapest = *schedule;
  seeds->cheapest.exec = allocate_array((size_t)schedule->n, sizeof(int));
  memcpy(seeds->cheapest.exec, schedule->exec, (size_t)schedule->n * sizeof(int));
}

// A search from a schedule that fits ends no higher, and for a smaller budget it still has that one to repair.
static void test_starts(void) {
  Generated *g = generate_clipped_chain(40, 4, 1, 0);
  RematSchedule none = remat_baseline(&g->problem);
  SeedCheck seeds = {.problem = &g->problem, .legal = true, .budget = none.peak * 7 / 10};
  remat_each_seed(&g->problem, check_seed, &seeds);
  check(seeds.legal && seeds.count >= 20 && seeds.cheapest.exec, "seeds are legal and some fit", seeds.count);
  for (int percent = 100; percent >= 95; percent -= 5) {
    RematOptions options = {.max_moves = 5000, .starts = &seeds.cheapest, .n_starts = 1};
    RematResult result;
    remat_solve(&g->problem, seeds.cheapest.peak * percent / 100, &options, &result);
    check(result.feasible && is_legal(&g->problem, &result.schedule), "a search from a start", percent);
    check(percent < 100 || result.schedule.cost <= seeds.cheapest.cost, "is no worse than it", percent);
    remat_result_free(&result);
  }
  remat_schedule_free(&seeds.cheapest);
  remat_schedule_free(&none);
  generated_free(g);
}

// On a uniform chain, each unit below the peak of the plain order costs one recomputation (two for the first: the
// last value is needed at once), as long as one pass suffices.
static void test_chain_budgets(void) {
  Generated *g = generate_chain(100, 1024, false);
  for (int units = 90; units >= 20; units -= 35) {
    RematOptions options = {.max_moves = 20000};
    RematResult result;
    remat_solve(&g->problem, units * 1024, &options, &result);
    check(result.feasible && is_legal(&g->problem, &result.schedule), "a chain fits its budget", units);
    check(result.schedule.cost <= 200 + 101 - units, "a chain at its least cost", (long long)result.schedule.cost);
    remat_result_free(&result);
  }
  generated_free(g);
}

static void test_random_against_exact(void) {
  int optimal = 0, missed = 0, total = 0;
  for (uint64_t seed = 1; seed <= 60; seed++) {
    int n = seed % 20 == 0 ? 9 : 4 + (int)(seed % 5);
    Generated *g = generate_random(n, seed);
    InputError error = {0};
    if (!check(remat_problem_check(&g->problem, &error), error.message, (long long)seed)) continue;
    RematSchedule none = remat_baseline(&g->problem);
    for (int percent = 100; percent >= 55; percent -= 15) {
      int64_t budget = none.peak * percent / 100;
      int best = exact_solve(&g->problem, budget);
      RematOptions options = {.seed = seed, .max_moves = 3000};
      RematResult result;
      remat_solve(&g->problem, budget, &options, &result);
      check(is_legal(&g->problem, &result.schedule), "the search's schedule is legal", (long long)seed);
      check(result.feasible == (result.schedule.peak <= budget), "feasible means within the budget", (long long)seed);
      check(!result.feasible || (best >= 0 && result.schedule.cost >= best), "nothing beats the optimum",
            (long long)seed);
      check(best < 0 || result.lower_bound <= best, "the lower bound is one", (long long)seed);
      check(result.min_budget_found >= 0 && exact_solve(&g->problem, result.min_budget_found) >= 0,
            "the smallest budget found can be met", (long long)seed);
      if (best >= 0) {
        total++;
        missed += !result.feasible;
        optimal += result.feasible && result.schedule.cost == best;
      }
      remat_result_free(&result);
    }
    remat_schedule_free(&none);
    generated_free(g);
  }
  printf("random graphs: %d of %d optimal, %d feasible ones missed\n", optimal, total, missed);
  check(optimal * 100 >= total * 95, "nearly all small graphs are solved to the optimum", optimal);
}

static void test_policies_on_random_graphs(void) {
  for (uint64_t seed = 100; seed < 400; seed++) {
    Generated *g = generate_random(4 + (int)(seed % 60), seed);
    for (RematPolicy policy = REMAT_POLICY_NONE; policy <= REMAT_POLICY_RECURSIVE; policy++) {
      RematSchedule schedule = run_policy(&g->problem, policy);
      remat_schedule_free(&schedule);
    }
    generated_free(g);
  }
}

// No nodes, and a single node that neither costs nor takes anything.
static void test_counts(void) {
  InputError error;
  check(remat_problem_check(&(RematProblem){0}, &error), "nothing is a problem", 0);
  check(!remat_problem_check(&(RematProblem){.n_nodes = -1}, &error), "nodes are counted", 0);
  check(!remat_problem_check(&(RematProblem){.n_outputs = -1}, &error), "outputs are counted", 0);
  check(!remat_problem_check(&(RematProblem){.n_anti = -1}, &error), "pairs are counted", 0);
}

static void test_degenerate(void) {
  Generated *g = generated_create(2);
  for (int n = 0; n < 2; n++) {
    RematResult result;
    RematOptions options = {.max_moves = 1000};
    g->problem.fixed_bytes = 5;
    for (int64_t budget = 4; budget <= 5; budget++) {
      remat_solve(&g->problem, budget, &options, &result);
      check(result.feasible == (budget == 5) && result.schedule.n == n, "fixed bytes alone decide", budget);
      check(result.min_budget_found == 5, "and are the smallest budget", result.min_budget_found);
      remat_result_free(&result);
    }
    for (RematPolicy policy = REMAT_POLICY_NONE; policy <= REMAT_POLICY_RECURSIVE; policy++) {
      RematSchedule schedule = run_policy(&g->problem, policy);
      remat_schedule_free(&schedule);
    }
    generated_add(g, 0, 0, REMAT_FORWARD, 0, NULL);
  }
  generated_free(g);
}

static void test_determinism(void) {
  Generated *g = generate_random(60, 7);
  RematSchedule none = remat_baseline(&g->problem);
  RematOptions options = {.seed = 3, .max_moves = 20000};
  RematResult first, second;
  remat_solve(&g->problem, none.peak * 3 / 4, &options, &first);
  remat_solve(&g->problem, none.peak * 3 / 4, &options, &second);
  check(first.schedule.n == second.schedule.n &&
            memcmp(first.schedule.exec, second.schedule.exec, (size_t)first.schedule.n * sizeof(int)) == 0,
        "the same seed gives the same schedule", first.schedule.n);
  remat_result_free(&first);
  remat_result_free(&second);
  remat_schedule_free(&none);
  generated_free(g);
}

static void test_illegal_schedules(void) {
  Generated *g = generate_chain(3, 1, false);
  g->anti[0] = (RematAnti){0, 5};
  g->problem.anti = g->anti;
  g->problem.n_anti = 1;
  g->nodes[5].recomputable = false;
  static const struct {
    const char *message;
    int n;
    int exec[8];
  } cases[] = {{"has not been executed", 6, {1, 0, 2, 3, 4, 5}},
               {"never executes", 5, {0, 1, 2, 3, 4}},
               {"not recomputable", 7, {0, 1, 2, 3, 4, 5, 5}},
               {"overwrote", 7, {0, 1, 2, 3, 4, 5, 0}},
               {"does not exist", 6, {0, 1, 2, 3, 4, 6}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    RematSimulation simulation;
    InputError error = {0};
    bool legal = remat_simulate(&g->problem, cases[i].exec, cases[i].n, &simulation, &error);
    check(!legal && strstr(error.message, cases[i].message), cases[i].message, (long long)i);
  }
  // What has run at position 0 has run.
  g->nodes[0].recomputable = false;
  RematSimulation simulation;
  InputError error = {0};
  bool legal = remat_simulate(&g->problem, (int[]){0, 1, 0, 2, 3, 4, 5}, 7, &simulation, &error);
  check(!legal && strstr(error.message, "not recomputable"), "the first node again", 0);
  generated_free(g);
}

static bool parses(const char *text) {
  InputError error;
  JsonDocument *document = json_parse(text, strlen(text), &error);
  json_destroy(document);
  return document != NULL;
}

static void test_json(void) {
  static const char *const good[] =
      {"0", "-1.5e3", "[]", "{}", " [1, {\"a\": [null]}] ", "\"a\\u00e9\\ud83d\\ude00\\n\""};
  static const char *const bad[] = {"",           "[1,]",    "{\"a\"}",     "{a:1}",  "01",    "1.",     "-",
                                    "1e999",      "\"\\x\"", "\"\\ud800\"", "\"\n\"", "\"abc", "tru",    "[1 2]",
                                    "{\"a\":1,}", "1 2",     "\"\\u12\"",   "\"\\",   "[\"\\", "{\"a\":"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) check(parses(good[i]), "good JSON is read", (long long)i);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) check(!parses(bad[i]), "bad JSON is refused", (long long)i);
  char deep[5000];
  memset(deep, '[', sizeof deep - 1);
  deep[sizeof deep - 1] = '\0';
  check(!parses(deep), "deep nesting is refused", 0);
}

// Every prefix of, and many one-byte changes to, a problem text end in a problem or an error.
static void test_problem_text(void) {
  static const char text[] =
      "{\"fixed_bytes\":1,\"nodes\":[{\"name\":\"a\",\"cost\":1.5,\"bytes\":10,\"workspace\":2,\"recomputable\":false},"
      "{\"cost\":2,\"bytes\":4,\"inputs\":[0],\"role\":\"backward\"},{\"cost\":0,\"bytes\":0,\"inputs\":[1,0],"
      "\"role\":\"update\"}],\"outputs\":[1],\"anti\":[[1,2]]}";
  InputError error;
  size_t length = sizeof text - 1;
  RematProblem *problem = remat_problem_read(text, length, &error);
  if (check(problem != NULL, "a problem is read", 0)) {
    check(problem->n_nodes == 3 && problem->nodes[0].bytes == 10 && problem->anti[0].after == 2, "as written", 0);
    char *copy = NULL;
    size_t size;
    FILE *file = open_memstream(&copy, &size);
    remat_problem_write(file, problem);
    fclose(file);
    RematProblem *again = remat_problem_read(copy, size, &error);
    check(again && again->n_nodes == 3 && again->nodes[2].role == REMAT_UPDATE, "what is written is read again", 0);
    remat_problem_destroy(again);
    free(copy);
  }
  remat_problem_destroy(problem);
  int refused = 0;
  for (size_t i = 0; i < length; i++) {
    problem = remat_problem_read(text, i, &error);
    refused += problem == NULL;
    remat_problem_destroy(problem);
  }
  check(refused == (int)length, "no prefix of a problem is one", refused);
  uint64_t random = 5;
  char changed[sizeof text];
  for (int i = 0; i < 20000; i++) {
    memcpy(changed, text, sizeof text);
    changed[generate_number(&random, (int)length)] = "{}[]\",:0-9e.\\ax"[generate_number(&random, 15)];
    remat_problem_destroy(remat_problem_read(changed, length, &error));
  }
  check(true, "changed problems do not crash", 0);
}

static OffsetResult place(OffsetBuffer *buffers, int n, int64_t align) {
  OffsetResult result = {0};
  InputError error = {0};
  check(offsets_assign(buffers, n, NULL, &result, &error), error.message, n);
  check(offsets_verify(buffers, n, result.arena_bytes, &error), error.message, n);
  check(result.arena_bytes >= result.lower_bound, "the arena holds what is live", n);
  for (int i = 0; i < n; i++)
    if (buffers[i].offset % align != 0) check(false, "aligned", i);
  return result;
}

static void test_offsets_random(void) {
  uint64_t random = 11;
  for (int trial = 0; trial < 30; trial++) {
    int n = generate_number(&random, 300);
    int64_t align = trial % 2 ? 256 : 1;
    OffsetBuffer *buffers = allocate_array((size_t)n, sizeof *buffers);
    for (int i = 0; i < n; i++) {
      int lower = generate_number(&random, 400), length = generate_number(&random, trial % 3 ? 12 : 200);
      buffers[i] = (OffsetBuffer){i, lower, lower + length, generate_number(&random, 5000), align, 0};
    }
    OffsetResult result = place(buffers, n, align);
    check((double)result.arena_bytes <= 1.12 * (double)result.lower_bound, "near the lower bound", trial);
    free(buffers);
  }
}

// A last-in first-out stack, as forward and backward make it, has a perfect placement.
static void test_offsets_stack(void) {
  enum { N = 1000 };
  OffsetBuffer buffers[2 * N];
  uint64_t random = 3;
  for (int i = 0; i < N; i++) {
    buffers[i] = (OffsetBuffer){i, i, 2 * N - i, 1 + generate_number(&random, 1000), 1, 0};
    buffers[N + i] = (OffsetBuffer){N + i, 2 * N - i - 1, 2 * N - i, 1 + generate_number(&random, 50), 1, 0};
  }
  OffsetResult result = place(buffers, 2 * N, 1);
  check(result.arena_bytes == result.lower_bound, "a stack is placed perfectly", result.arena_bytes);
}

static void test_offsets_refuse(void) {
  OffsetBuffer overlap[] = {{0, 0, 2, 10, 1, 0}, {1, 1, 3, 10, 1, 5}}, backward[] = {{0, 2, 1, 10, 1, 0}};
  OffsetBuffer crooked[] = {{0, 0, 1, 10, 3, 0}}, adjacent[] = {{0, 0, 2, 10, 1, 0}, {1, 2, 3, 10, 1, 5}};
  OffsetResult result;
  InputError error;
  check(!offsets_verify(overlap, 2, 15, &error), "an overlap is found", 0);
  check(offsets_verify(adjacent, 2, 15, &error), "lifetimes are half open", 0);
  check(!offsets_verify(adjacent, 2, 14, &error), "an arena too small is found", 0);
  check(!offsets_assign(backward, 1, NULL, &result, &error), "upper before lower is refused", 0);
  check(!offsets_assign(crooked, 1, NULL, &result, &error), "a bad alignment is refused", 0);
}

static void test_offsets_csv(void) {
  static const char good[] = "id,lower,upper,size\r\n1,0,3,4\n2,3,9,4\n\n",
                    *bad[] = {"",
                              "id,lower,upper\n",
                              "id,lower,upper,size\n1,2,3\n",
                              "id,lower,upper,size\n1,2,3,4,5\n",
                              "id,lower,upper,size\n1,2,x,4\n",
                              "id,lower,upper,size\n1,5,3,4\n",
                              "id,lower,upper,size\n1,2,3,-4\n",
                              "id,lower,upper,size\n1,2,3,99999999999999999999\n",
                              "id,id,lower,upper,size\n"};
  InputError error;
  int n;
  OffsetBuffer *buffers = offsets_read_csv(good, sizeof good - 1, &n, &error);
  check(buffers && n == 2 && buffers[1].upper == 9, "a CSV is read", n);
  free(buffers);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    check(!offsets_read_csv(bad[i], strlen(bad[i]), &n, &error), "a bad CSV is refused", (long long)i);
}

int main(void) {
  test_chain_policies();
  test_sqrt_beside_gradients();
  test_sqrt_under_a_floor();
  test_starts();
  test_chain_budgets();
  test_policies_on_random_graphs();
  test_random_against_exact();
  test_counts();
  test_degenerate();
  test_determinism();
  test_illegal_schedules();
  test_json();
  test_problem_text();
  test_offsets_random();
  test_offsets_stack();
  test_offsets_refuse();
  test_offsets_csv();
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
