// simulate.c: the definition of a legal schedule, its peak and its cost. The search has faster incremental versions
// of the same; this one is kept plain and shares nothing with them, so that it can judge them.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "solver.h"
#include "support/alloc.h"
#include "support/input_error.h"

static const char *node_name(const RematProblem *problem, int node) {
  const char *name = problem->nodes[node].name;
  return name ? name : "";
}

static bool check_node(const RematProblem *problem, int number, InputError *error) {
  const RematNode *node = &problem->nodes[number];
  const char *name = node_name(problem, number);
  if (!isfinite(node->cost) || node->cost < 0)
    return input_fail(error, "node %d '%.80s': cost must be a finite number >= 0", number, name);
  if (node->bytes < 0 || node->workspace < 0)
    return input_fail(error, "node %d '%.80s': bytes and workspace must be >= 0", number, name);
  if (node->n_inputs < 0) return input_fail(error, "node %d '%.80s': negative number of inputs", number, name);
  for (int i = 0; i < node->n_inputs; i++) {
    int input = node->inputs[i];
    if (input < 0 || input >= problem->n_nodes)
      return input_fail(error, "node %d '%.80s': input %d does not exist", number, name, input);
    if (input >= number)
      return input_fail(error, "node %d '%.80s': input %d comes later: a cycle, or not an execution order", number,
                        name, input);
  }
  if (node->role < REMAT_FORWARD || node->role > REMAT_UPDATE)
    return input_fail(error, "node %d '%.80s': unknown role", number, name);
  if (node->role == REMAT_UPDATE && node->recomputable)
    return input_fail(error, "node %d '%.80s': an update must not be recomputable", number, name);
  return true;
}

// Keeps sums of a few such totals away from overflow.
static bool add_bytes(int64_t *total, int64_t bytes) {
  if (bytes > INT64_MAX / 4 - *total) return false;
  *total += bytes;
  return true;
}

bool remat_problem_check(const RematProblem *problem, InputError *error) {
  if (problem->fixed_bytes < 0) return input_fail(error, "fixed_bytes must be >= 0");
  if (problem->n_nodes < 0 || problem->n_outputs < 0 || problem->n_anti < 0)
    return input_fail(error, "negative number of nodes, outputs or anti-dependences");
  int64_t total = 0;
  bool fits = add_bytes(&total, problem->fixed_bytes);
  double cost = 0;
  for (int v = 0; v < problem->n_nodes; v++) {
    if (!check_node(problem, v, error)) return false;
    fits = fits && add_bytes(&total, problem->nodes[v].bytes) && add_bytes(&total, problem->nodes[v].workspace);
    cost += problem->nodes[v].cost;
  }
  if (!fits) return input_fail(error, "the sum of all bytes is too large");
  if (!isfinite(cost)) return input_fail(error, "the sum of all costs is too large");
  for (int i = 0; i < problem->n_outputs; i++)
    if (problem->outputs[i] < 0 || problem->outputs[i] >= problem->n_nodes)
      return input_fail(error, "output %d does not exist", problem->outputs[i]);
  for (int i = 0; i < problem->n_anti; i++) {
    RematAnti anti = problem->anti[i];
    if (anti.before < 0 || anti.before >= problem->n_nodes || anti.after < 0 || anti.after >= problem->n_nodes)
      return input_fail(error, "anti-dependence %d -> %d: no such node", anti.before, anti.after);
    if (anti.before >= anti.after)
      return input_fail(error, "anti-dependence %d -> %d: not satisfied by the given order", anti.before, anti.after);
    if (problem->nodes[anti.after].recomputable)
      return input_fail(error, "anti-dependence %d -> %d: node %d must not be recomputable", anti.before, anti.after,
                        anti.after);
  }
  return true;
}

// Fills last_use for every execution; false when a use has no earlier execution or a node executes too often.
static bool trace_uses(const RematProblem *problem, const int *exec, int n, int *latest, int *last_use,
                       InputError *error) {
  for (int v = 0; v < problem->n_nodes; v++) latest[v] = -1;
  for (int p = 0; p < n; p++) {
    int v = exec[p];
    if (v < 0 || v >= problem->n_nodes) return input_fail(error, "position %d: node %d does not exist", p, v);
    const RematNode *node = &problem->nodes[v];
    for (int i = 0; i < node->n_inputs; i++) {
      int input = node->inputs[i];
      if (latest[input] < 0)
        return input_fail(error, "position %d: node %d '%.60s' uses value %d '%.60s', which has not been executed", p,
                          v, node_name(problem, v), input, node_name(problem, input));
      last_use[latest[input]] = p;
    }
    if (latest[v] >= 0 && !node->recomputable)
      return input_fail(error, "position %d: node %d '%.80s' executes again but is not recomputable", p, v,
                        node_name(problem, v));
    latest[v] = p;
    last_use[p] = p;
  }
  for (int v = 0; v < problem->n_nodes; v++)
    if (latest[v] < 0) return input_fail(error, "node %d '%.80s' never executes", v, node_name(problem, v));
  for (int i = 0; i < problem->n_anti; i++) {
    RematAnti anti = problem->anti[i];
    if (latest[anti.before] > latest[anti.after])
      return input_fail(error, "position %d: node %d '%.60s' executes after node %d '%.60s' overwrote what it reads",
                        latest[anti.before], anti.before, node_name(problem, anti.before), anti.after,
                        node_name(problem, anti.after));
  }
  for (int i = 0; i < problem->n_outputs; i++) last_use[latest[problem->outputs[i]]] = n;
  return true;
}

static bool is_activation(const RematNode *node) { return node->role == REMAT_FORWARD && node->recomputable; }

bool remat_simulate(const RematProblem *problem, const int *exec, int n, RematSimulation *result, InputError *error) {
  int *latest = allocate_array((size_t)problem->n_nodes, sizeof *latest);
  int *last_use = allocate_array((size_t)n, sizeof *last_use);
  bool legal = trace_uses(problem, exec, n, latest, last_use, error);
  free(latest);
  if (!legal) {
    free(last_use);
    return false;
  }
  int64_t *live = allocate_array((size_t)n, sizeof *live);
  int64_t *freed = allocate_array((size_t)n + 1, sizeof *freed);   // bytes freed after each position
  int64_t *freed_activations = allocate_array((size_t)n + 1, sizeof *freed_activations);
  for (int p = 0; p < n; p++) {
    const RematNode *node = &problem->nodes[exec[p]];
    freed[last_use[p]] += node->bytes;
    if (is_activation(node)) freed_activations[last_use[p]] += node->bytes;
  }
  *result = (RematSimulation){.peak = problem->fixed_bytes, .peak_position = -1, .live = live, .last_use = last_use};
  int64_t values = problem->fixed_bytes, activations = 0;
  for (int p = 0; p < n; p++) {
    const RematNode *node = &problem->nodes[exec[p]];
    values += node->bytes;
    if (is_activation(node)) activations += node->bytes;
    if (node->role == REMAT_BACKWARD && activations > result->activations) result->activations = activations;
    activations -= freed_activations[p];
    live[p] = values + node->workspace;
    if (result->peak_position < 0 || live[p] > result->peak) {
      result->peak = live[p];
      result->peak_position = p;
    }
    result->cost += node->cost;
    values -= freed[p];
  }
  free(freed);
  free(freed_activations);
  return true;
}

void remat_simulation_free(RematSimulation *simulation) {
  free(simulation->live);
  free(simulation->last_use);
  *simulation = (RematSimulation){0};
}

void remat_schedule_free(RematSchedule *schedule) {
  free(schedule->exec);
  *schedule = (RematSchedule){0};
}
