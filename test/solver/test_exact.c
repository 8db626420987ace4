// test_exact.c: the exact solver against a naive one, and the bound and the search against the exact solver, on 500
// random graphs of up to 14 nodes.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "exact.h"
#include "generate.h"
#include "passes/solver/bound_moments.h"

// The exact solver and Dijkstra without any of its ideas agree.
static void test_exact_against_naive(void) {
  for (uint64_t seed = 1; seed <= 150; seed++) {
    Generated *g = generate_random(seed % 50 == 0 ? 9 : 3 + (int)(seed % 6), seed);
    RematSchedule plain = remat_baseline(&g->problem);
    for (int percent = 100; percent >= 40; percent -= 12) {
      int64_t budget = plain.peak * percent / 100;
      int best = exact_solve(&g->problem, budget);
      RematSchedule schedule;
      RematExact outcome = remat_exact(&g->problem, budget, 0, &schedule);
      check(outcome == (best >= 0 ? REMAT_EXACT_OPTIMAL : REMAT_EXACT_INFEASIBLE), "both agree on what is feasible",
            (long long)seed);
      if (outcome != REMAT_EXACT_OPTIMAL) continue;
      check(schedule.peak <= budget, "the optimum fits", (long long)seed);
      check(schedule.cost == best, "both agree on the optimum", (long long)seed);
      remat_schedule_free(&schedule);
    }
    remat_schedule_free(&plain);
    generated_free(g);
  }
}

typedef struct Tally {
  int total, optimal, missed, tight, proved, infeasible;
} Tally;

static void compare(const Generated *g, int64_t budget, uint64_t seed, Tally *tally) {
  RematSchedule best;
  RematExact outcome = remat_exact(&g->problem, budget, 2000000, &best);
  if (!check(outcome != REMAT_EXACT_UNKNOWN, "the exact solver ends", (long long)seed)) return;
  double bound = bound_by_moments(&g->problem, budget, 0.1), told = remat_lower_bound(&g->problem, budget, 0);
  int64_t least = remat_min_budget_bound(&g->problem);
  if (outcome == REMAT_EXACT_OPTIMAL) {
    check(bound <= best.cost * (1 + 1e-12), "the bound is at most the optimum", (long long)seed);
    check(told >= bound && told <= best.cost * (1 + 1e-12), "so is the one that is told", (long long)seed);
    check(least <= budget, "no smaller budget than the bound on budgets is feasible", (long long)seed);
  }
  RematOptions options = {.seed = seed, .max_moves = 3000};
  RematResult result;
  remat_solve(&g->problem, budget, &options, &result);
  if (outcome == REMAT_EXACT_OPTIMAL) {
    tally->total++;
    tally->missed += !result.feasible;
    tally->optimal += result.feasible && result.schedule.cost <= best.cost * (1 + 1e-12);
    tally->tight += bound >= best.cost * (1 - 1e-9);
    check(!result.feasible || result.schedule.cost >= best.cost * (1 - 1e-12), "nothing beats the optimum",
          (long long)seed);
  } else {
    tally->infeasible++;
    tally->proved += isinf(bound) || least > budget;
    check(!result.feasible, "what has no schedule is not solved", (long long)seed);
  }
  remat_result_free(&result);
  remat_schedule_free(&best);
}

// The smallest budget that has a schedule.
static int64_t smallest_budget(const RematProblem *problem, int64_t peak) {
  int64_t low = remat_min_budget_bound(problem), high = peak;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    RematSchedule schedule;
    if (remat_exact(problem, middle, 2000000, &schedule) == REMAT_EXACT_OPTIMAL) high = middle;
    else low = middle + 1;
    remat_schedule_free(&schedule);
  }
  return low;
}

// Budgets from the smallest that has a schedule towards the peak of the plain order, and one below.
static void test_random_graphs(void) {
  Tally tally = {0};
  for (uint64_t seed = 1; seed <= 500; seed++) {
    Generated *g = generate_random(8 + (int)(seed % 7), seed + 1000);
    if (seed % 2 == 0)   // coarser bytes and finer costs, so that optima are seldom ties
      for (int v = 0; v < g->problem.n_nodes; v++) {
        g->nodes[v].cost = g->nodes[v].cost * 7 + v;
        g->nodes[v].bytes = g->nodes[v].bytes * 11 + v % 3;
      }
    RematSchedule plain = remat_baseline(&g->problem);
    int64_t least = smallest_budget(&g->problem, plain.peak);
    compare(g, least + (plain.peak - least) * (int64_t)(seed % 3) / 3, seed, &tally);
    compare(g, least - 1, seed, &tally);
    remat_schedule_free(&plain);
    generated_free(g);
  }
  printf("%d feasible problems: %d solved to the optimum, %d missed, bound exact on %d\n", tally.total, tally.optimal,
         tally.missed, tally.tight);
  printf("%d infeasible problems: %d proved so by the bound\n", tally.infeasible, tally.proved);
  check(tally.total == 500, "the smallest budget found by halving is feasible", tally.total);
  check(tally.missed == 0, "what is feasible is solved", tally.missed);
  check(tally.optimal * 100 >= tally.total * 95, "nearly all are solved to the optimum", tally.optimal);
}

int main(void) {
  test_exact_against_naive();
  test_random_graphs();
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
