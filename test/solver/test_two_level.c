// test_two_level.c: chains with two levels of memory, whose optimal schedules are known where copies do not run beside
// computing (H-Revolve, disk-revolve): here copies that take no time on their lanes and cost time of the one that
// computes. Those algorithms move a state forward in place; here its successor stands beside it. So with room for two
// states more than there are slots the optimum lies between theirs for the slots and for one slot more.
#include <math.h>

#include "check.h"
#include "generate.h"
#include "passes/solver/solver.h"

static const struct {
  int steps, slots;
  double copy, known, with_one_more;
} chains[] = {
#include "two_level.h"
};

static Generated *make_chain(int steps, double copy) {
  Generated *g = generated_create(2 * steps);
  generated_add(g, 0, 1, REMAT_FORWARD, 0, NULL);
  g->nodes[0].recomputable = false;
  for (int i = 1; i < steps; i++) generated_add(g, 1, 1, REMAT_FORWARD, 1, (int[]){i - 1});
  for (int i = steps - 1, last = steps - 1; i >= 0; i--) {
    last = generated_add(g, 2, 0, REMAT_BACKWARD, i < steps - 1 ? 2 : 1, (int[]){i, last});
    g->nodes[last].recomputable = false;
  }
  for (int v = 0; v < steps; v++) g->nodes[v].movable = true;
  g->far = (RematTier){.out_rate = INFINITY, .in_rate = INFINITY, .drag = copy, .budget = 1000};
  g->problem.far = &g->far;
  g->problem.n_outputs = 1;
  g->output = 2 * steps - 1;
  return g;
}

int main(int argc, char **argv) {
  int equal = 0, lowest = 0;
  enum { CHAINS = sizeof chains / sizeof *chains };
  for (int i = 0; i < CHAINS; i++) {
    Generated *g = make_chain(chains[i].steps, chains[i].copy);
    RematOptions options = {.max_moves = argc > 1 ? atol(argv[1]) : 100000};
    RematResult result;
    remat_solve(&g->problem, chains[i].slots + 2, &options, &result);
    double found = result.feasible ? result.schedule.makespan : INFINITY;
    if (!check(found <= chains[i].known + 1e-9, "as good as the known optimum", i))
      printf("%d steps, %d slots, copy %g: %g, known %g\n", chains[i].steps, chains[i].slots, chains[i].copy, found,
             chains[i].known);
    check(found >= chains[i].with_one_more - 1e-9, "not better than with one slot more", i);
    check(result.lower_bound <= found, "the bound is not above", i);
    equal += fabs(found - chains[i].known) < 1e-9;
    lowest += fabs(found - chains[i].with_one_more) < 1e-9;
    remat_result_free(&result);
    generated_free(g);
  }
  printf("%d chains: %d at the optimum for the slots, %d at that for one more\n", CHAINS, equal, lowest);
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
