// bound.c: costs and budgets that no schedule can go below, whatever its order: the optimum of small graphs; for others
// the largest execution, then the moments of bound_moments.h, on scaled costs.
#include <math.h>
#include <stdlib.h>

#include "bound_moments.h"
#include "support/alloc.h"

static const double DEFAULT_TIME = 0.1;   // seconds

// From here on the time is for few moments, and none is spent on proving that nothing fits.
enum { LARGE_GRAPH = 20000 };

// Up to here the optimum itself is tried for, which takes about 20 ms at most.
enum { SMALL_GRAPH = 28, SMALL_STATES = 10000 };

// Fixed bytes, the inputs of v, its value and its workspace: live together whenever v executes. `seen` (per node, any
// number but v + 1) is scratch.
static int64_t bytes_of_execution(const RematProblem *problem, int v, int *seen) {
  const RematNode *node = &problem->nodes[v];
  int64_t bytes = problem->fixed_bytes + node->bytes + node->workspace;
  for (int i = 0; i < node->n_inputs; i++) {
    if (seen[node->inputs[i]] != v + 1) bytes += problem->nodes[node->inputs[i]].bytes;
    seen[node->inputs[i]] = v + 1;
  }
  return bytes;
}

static int64_t largest_execution(const RematProblem *problem) {
  int64_t most = problem->fixed_bytes;
  int *seen = allocate_array((size_t)problem->n_nodes, sizeof *seen);
  for (int v = 0; v < problem->n_nodes; v++) {
    if (problem->nodes[v].home) continue;
    int64_t bytes = bytes_of_execution(problem, v, seen);
    if (bytes > most) most = bytes;
  }
  free(seen);
  return most;
}

// The greatest common divisor of all costs when they are whole numbers that sum exactly, else 0.
static double common_divisor(const RematProblem *problem, double base_cost) {
  uint64_t divisor = 0;
  if (base_cost >= 0x1p50) return 0;
  for (int v = 0; v < problem->n_nodes; v++) {
    double cost = problem->nodes[v].cost;
    if (cost != floor(cost)) return 0;
    uint64_t a = (uint64_t)cost;
    while (a != 0) {
      uint64_t rest = divisor % a;
      divisor = a;
      a = rest;
    }
  }
  return (double)divisor;
}

// A scaled bound on added cost as a cost, base cost included. Scaling rounded down, and so does this; where costs are
// whole numbers, so are their sums.
static double unscale(const BoundGraph *graph, double bound) {
  if (!(bound > 0) || graph->scale <= 0) return graph->base_cost;
  double added = fmax(bound - 64, 0) / graph->scale * (1 - 1e-9);
  double divisor = common_divisor(graph->problem, graph->base_cost);
  double error = ((double)graph->n + 1) / graph->scale + 1e-6;
  if (divisor > 0) {
    double whole = ceil(added / divisor - error / divisor) * divisor;
    if (whole > added) added = whole;
  }
  return graph->base_cost + added;
}

// Bytes that every schedule has live at once, when more than `least`; otherwise `least`.
static int64_t largest_moment(const RematProblem *problem, int64_t least, double deadline) {
  BoundGraph graph = bound_graph_create(problem, 0);
  for (int v = 0; v < graph.n; v++) graph.cost[v] = 0;   // bytes alone count
  least = bound_moments_peak(&graph, least, deadline);
  bound_graph_free(&graph);
  return least;
}

double bound_by_moments(const RematProblem *problem, int64_t budget_bytes, double limit) {
  int64_t steps = 0;
  RematProblem counted = watch_problem(problem, &steps);
  problem = &counted;
  double start = watch_counted(problem);
  if (largest_execution(problem) > budget_bytes) return INFINITY;
  bool is_large = problem->n_nodes > LARGE_GRAPH;
  if (!is_large && largest_moment(problem, budget_bytes, start + 0.2 * limit) > budget_bytes) return INFINITY;
  BoundGraph graph = bound_graph_create(problem, budget_bytes);
  double best = bound_moments_search(&graph, start, 0.95 * limit), bound = unscale(&graph, best);
  bound_graph_free(&graph);
  return isinf(best) ? INFINITY : bound;
}

double remat_lower_bound(const RematProblem *problem, int64_t budget_bytes, double time_limit) {
  double limit = time_limit > 0 ? time_limit : DEFAULT_TIME;
  if (problem->n_nodes <= SMALL_GRAPH) {
    RematSchedule best;
    RematExact outcome = remat_exact(problem, budget_bytes, SMALL_STATES, &best);
    double cost = outcome != REMAT_EXACT_OPTIMAL ? INFINITY : problem->far ? best.makespan * (1 - 1e-9) : best.cost;
    remat_schedule_free(&best);
    if (outcome != REMAT_EXACT_UNKNOWN) return cost;
  }
  if (problem->far)
    return largest_execution(problem) > budget_bytes ? INFINITY : bound_by_tiers(problem, budget_bytes, limit);
  return bound_by_moments(problem, budget_bytes, limit);
}

int64_t remat_min_budget_bound(const RematProblem *problem) {
  if (problem->far) return largest_execution(problem);
  int64_t steps = 0;
  RematProblem counted = watch_problem(problem, &steps);
  double safety = watch_counted(&counted) + 10 * DEFAULT_TIME;
  return largest_moment(&counted, largest_execution(problem), safety);
}
