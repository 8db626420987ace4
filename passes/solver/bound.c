// bound.c: costs and budgets that no schedule can go below.
#include <math.h>

#include "solver.h"

double remat_lower_bound(const RematProblem *problem, int64_t budget_bytes, double time_limit) {
  (void)time_limit;
  double cost = 0;
  for (int v = 0; v < problem->n_nodes; v++) {
    const RematNode *node = &problem->nodes[v];
    int64_t bytes = problem->fixed_bytes + node->bytes + node->workspace;
    for (int i = 0; i < node->n_inputs; i++) {
      bool repeated = false;
      for (int k = 0; k < i; k++) repeated = repeated || node->inputs[k] == node->inputs[i];
      if (!repeated) bytes += problem->nodes[node->inputs[i]].bytes;
    }
    if (bytes > budget_bytes) return INFINITY;
    cost += node->cost;
  }
  return problem->fixed_bytes > budget_bytes ? INFINITY : cost;
}

int64_t remat_min_budget_bound(const RematProblem *problem) {
  int64_t least = problem->fixed_bytes;
  for (int v = 0; v < problem->n_nodes; v++) {
    const RematNode *node = &problem->nodes[v];
    int64_t bytes = problem->fixed_bytes + node->bytes + node->workspace;
    for (int i = 0; i < node->n_inputs; i++) {
      bool repeated = false;
      for (int k = 0; k < i; k++) repeated = repeated || node->inputs[k] == node->inputs[i];
      if (!repeated) bytes += problem->nodes[node->inputs[i]].bytes;
    }
    if (bytes > least) least = bytes;
  }
  return least;
}
