// simulate.c: the definition of a legal schedule, its peak and its cost. The search has faster incremental versions
// of the same; this one is kept plain and shares nothing with them, so that it can judge them.
#include <math.h>
#include <stdlib.h>

#include "support/alloc.h"
#include "support/input_error.h"
#include "watch.h"

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
  if (!node->home) return true;
  if (!problem->far) return input_fail(error, "node %d '%.80s': a home, but there is no far tier", number, name);
  if (node->cost != 0 || node->workspace != 0 || node->n_inputs != 0 || node->recomputable)
    return input_fail(error, "node %d '%.80s': a home has no cost, workspace or inputs and is not recomputable", number,
                      name);
  int update = node->updated_by;
  if (update == 0) return true;
  if (update <= number || update >= problem->n_nodes || problem->nodes[update].role != REMAT_UPDATE)
    return input_fail(error, "node %d '%.80s': updated_by %d is no update behind it", number, name, update);
  for (int i = 0; i < problem->nodes[update].n_inputs; i++)
    if (problem->nodes[update].inputs[i] == number) return true;
  return input_fail(error, "node %d '%.80s': updated_by %d, which does not read it", number, name, update);
}

static bool check_tier(const RematTier *far, InputError *error) {
  if (!(far->out_rate > 0) || !(far->in_rate > 0)) return input_fail(error, "the far tier's rates must be above 0");
  if (!isfinite(far->latency) || far->latency < 0 || !isfinite(far->drag) || far->drag < 0)
    return input_fail(error, "the far tier's latency and drag must be finite numbers >= 0");
  if (far->workspace < 0) return input_fail(error, "the far tier's workspace must be >= 0");
  return far->budget >= 0 || input_fail(error, "the far tier's budget must be >= 0");
}

// Keeps sums of a few such totals away from overflow.
static bool add_bytes(int64_t *total, int64_t bytes) {
  if (bytes > INT64_MAX / 4 - *total) return false;
  *total += bytes;
  return true;
}

bool remat_problem_check(const RematProblem *problem, InputError *error) {
  if (problem->fixed_bytes < 0) return input_fail(error, "fixed_bytes must be >= 0");
  if (problem->far && !check_tier(problem->far, error)) return false;
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
  for (int i = 0; i < problem->n_outputs; i++) {
    if (problem->outputs[i] < 0 || problem->outputs[i] >= problem->n_nodes)
      return input_fail(error, "output %d does not exist", problem->outputs[i]);
    if (problem->nodes[problem->outputs[i]].home) return input_fail(error, "output %d is a home", problem->outputs[i]);
  }
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

static bool is_updated_home(const RematProblem *problem, int update, int input) {
  return problem->nodes[input].home && problem->nodes[input].updated_by == update;
}

// What is known of a node after the items so far; positions are -1 when there is none.
typedef struct NodeTrace {
  int executed, made, stored;   // last execution; what made the latest near copy; store (of a value)
  bool is_far_home, is_dirty;   // dirty: updated and not stored yet
} NodeTrace;

typedef struct Trace {
  const RematProblem *problem;
  const int *exec;
  NodeTrace *nodes;   // Owned
  int *last_use;      // Owned by the simulation
} Trace;

static Trace trace_create(const RematProblem *problem, const int *exec, int *last_use) {
  Trace trace = {problem, exec, allocate_array((size_t)problem->n_nodes, sizeof(NodeTrace)), last_use};
  for (int v = 0; v < problem->n_nodes; v++) trace.nodes[v] = (NodeTrace){.executed = -1, .made = -1, .stored = -1};
  return trace;
}

static bool fail_item(const Trace *trace, int p, int v, const char *what, InputError *error) {
  return input_fail(error, "position %d: node %d '%.80s' %s", p, v, node_name(trace->problem, v), what);
}

static bool trace_use(const Trace *trace, int p, int v, int input, InputError *error) {
  const NodeTrace *from = &trace->nodes[input];
  bool is_home = trace->problem->nodes[input].home;
  if (is_home && !from->is_far_home) return true;
  if (from->made < 0)
    return input_fail(error, "position %d: node %d '%.60s' uses value %d '%.60s', which has not been %s", p, v,
                      node_name(trace->problem, v), input, node_name(trace->problem, input),
                      is_home ? "fetched" : "executed");
  trace->last_use[from->made] = p;
  return true;
}

static bool trace_execution(const Trace *trace, int p, int v, InputError *error) {
  const RematNode *node = &trace->problem->nodes[v];
  if (node->home) return fail_item(trace, p, v, "executes but is a home", error);
  for (int i = 0; i < node->n_inputs; i++) {
    int input = node->inputs[i];
    if (!trace_use(trace, p, v, input, error)) return false;
    if (is_updated_home(trace->problem, v, input)) trace->nodes[input].is_dirty = trace->nodes[input].is_far_home;
  }
  if (trace->nodes[v].executed >= 0 && !node->recomputable)
    return fail_item(trace, p, v, "executes again but is not recomputable", error);
  trace->nodes[v].executed = trace->nodes[v].made = p;
  return true;
}

static bool trace_store(const Trace *trace, int p, int v, InputError *error) {
  NodeTrace *node = &trace->nodes[v];
  if (trace->problem->nodes[v].home) {
    if (!node->is_dirty) return fail_item(trace, p, v, "is stored but is no far home that was updated", error);
    node->is_dirty = false;
    trace->last_use[node->made] = p;
    return true;
  }
  if (!trace->problem->nodes[v].movable) return fail_item(trace, p, v, "is stored but is not movable", error);
  if (node->made < 0) return fail_item(trace, p, v, "is stored before it executes", error);
  if (node->stored >= 0) return fail_item(trace, p, v, "is stored again", error);
  trace->last_use[node->made] = p;
  node->stored = p;
  return true;
}

static bool trace_fetch(const Trace *trace, int p, int v, InputError *error) {
  NodeTrace *node = &trace->nodes[v];
  if (node->is_dirty) return fail_item(trace, p, v, "is fetched before its update is stored", error);
  if (!node->is_far_home && node->stored < 0) return fail_item(trace, p, v, "is fetched but is not far", error);
  if (!node->is_far_home) trace->last_use[node->stored] = p;
  if (node->made >= 0 && remat_item_kind(trace->problem, trace->exec[node->made]) == REMAT_FETCH &&
      trace->last_use[node->made] == node->made)
    return fail_item(trace, node->made, v, "is fetched and not read", error);
  node->made = p;
  return true;
}

static bool trace_far_home(const Trace *trace, int p, int v, InputError *error) {
  if (!trace->problem->nodes[v].home) return fail_item(trace, p, v, "is a far home but no home", error);
  if (trace->nodes[v].is_far_home) return fail_item(trace, p, v, "is a far home twice", error);
  if (p > 0 && remat_item_kind(trace->problem, trace->exec[p - 1]) != REMAT_FAR_HOME)
    return fail_item(trace, p, v, "is a far home, which must be said first", error);
  trace->nodes[v].is_far_home = true;
  return true;
}

static bool trace_end(const Trace *trace, int n, InputError *error) {
  const RematProblem *problem = trace->problem;
  for (int v = 0; v < problem->n_nodes; v++) {
    const NodeTrace *node = &trace->nodes[v];
    if (node->executed < 0 && !problem->nodes[v].home)
      return input_fail(error, "node %d '%.80s' never executes", v, node_name(problem, v));
    if (node->is_dirty) return input_fail(error, "node %d '%.80s' is never stored", v, node_name(problem, v));
  }
  for (int i = 0; i < problem->n_anti; i++) {
    RematAnti anti = problem->anti[i];
    int before = trace->nodes[anti.before].executed;
    if (before > trace->nodes[anti.after].executed)
      return input_fail(error, "position %d: node %d '%.60s' executes after node %d '%.60s' overwrote what it reads",
                        before, anti.before, node_name(problem, anti.before), anti.after,
                        node_name(problem, anti.after));
  }
  for (int i = 0; i < problem->n_outputs; i++) trace->last_use[trace->nodes[problem->outputs[i]].made] = n;
  for (int v = 0; v < problem->n_nodes; v++) {
    int made = trace->nodes[v].made;
    if (made >= 0 && remat_item_kind(problem, trace->exec[made]) == REMAT_FETCH && trace->last_use[made] == made)
      return fail_item(trace, made, v, "is fetched and not read", error);
  }
  return true;
}

// Fills last_use for every item; false when the schedule is not legal.
static bool trace_items(const RematProblem *problem, const int *exec, int n, int *last_use, InputError *error) {
  Trace trace = trace_create(problem, exec, last_use);
  int limit = problem->n_nodes * (problem->far ? REMAT_FAR_HOME + 1 : 1);
  bool legal = true;
  for (int p = 0; p < n && legal; p++) {
    if (exec[p] < 0 || exec[p] >= limit) {
      legal = input_fail(error, "position %d: node %d does not exist", p, exec[p]);
      break;
    }
    int v = remat_item_node(problem, exec[p]);
    last_use[p] = p;
    switch (remat_item_kind(problem, exec[p])) {
    case REMAT_EXECUTE: legal = trace_execution(&trace, p, v, error); break;
    case REMAT_STORE: legal = trace_store(&trace, p, v, error); break;
    case REMAT_FETCH: legal = trace_fetch(&trace, p, v, error); break;
    case REMAT_FAR_HOME: legal = trace_far_home(&trace, p, v, error); break;
    }
  }
  legal = legal && trace_end(&trace, n, error);
  free(trace.nodes);
  return legal;
}

static bool is_activation(const RematNode *node) { return node->role == REMAT_FORWARD && node->recomputable; }

// Bytes near and far, position by position. `live` and `last_use` of the result are there.
static void count_bytes(const RematProblem *problem, const int *exec, int n, RematSimulation *result) {
  int64_t *freed = allocate_array((size_t)n + 1, sizeof *freed);   // near bytes freed after each position
  int64_t *freed_activations = allocate_array((size_t)n + 1, sizeof *freed_activations);
  int64_t *freed_far = allocate_array((size_t)n + 1, sizeof *freed_far);
  int64_t values = problem->fixed_bytes, activations = 0, far = 0;
  for (int v = 0; v < problem->n_nodes; v++)
    if (problem->nodes[v].home) values += problem->nodes[v].bytes;
  result->peak = values;
  result->peak_position = -1;
  for (int p = 0; p < n; p++) {
    int v = remat_item_node(problem, exec[p]), last = result->last_use[p];
    const RematNode *node = &problem->nodes[v];
    RematItemKind kind = remat_item_kind(problem, exec[p]);
    if (kind == REMAT_FAR_HOME) {
      far += node->bytes;
      values -= node->bytes;
      result->peak = values;   // nothing but homes yet
      result->live[p] = values;
      continue;
    }
    bool is_near = kind != REMAT_STORE;
    if (is_near) values += node->bytes, freed[last] += node->bytes;
    if (is_near && is_activation(node)) activations += node->bytes, freed_activations[last] += node->bytes;
    if (!is_near && !node->home) far += node->bytes, freed_far[last] += node->bytes;
    if (far > result->far_peak) result->far_peak = far;
    if (kind == REMAT_EXECUTE && node->role == REMAT_BACKWARD && activations > result->activations)
      result->activations = activations;
    activations -= freed_activations[p];
    result->live[p] = values + (kind == REMAT_EXECUTE ? node->workspace : problem->far->workspace);
    if (result->peak_position < 0 || result->live[p] > result->peak) {
      result->peak = result->live[p];
      result->peak_position = p;
    }
    values -= freed[p];
    far -= freed_far[p];
  }
  if (far > result->far_peak) result->far_peak = far;
  free(freed);
  free(freed_activations);
  free(freed_far);
}

// Three lanes, and what a store waits for when far bytes are short: the fetches that free them, oldest first.
typedef struct Lanes {
  double compute, out, in;   // when each is done with its items so far
  double *ready;             // Owned; per node, when its latest near copy is there
  int *stored;               // Owned; per node, position of its store
  int64_t far;               // bytes live far
  int64_t unsure;            // far bytes of values whose last fetch is before us and not waited for
  int waited;                // fetches before this position are waited for
} Lanes;

// Whether the item at `p` is the last fetch of a value, which frees its far bytes.
static bool frees_far(const RematProblem *problem, const int *exec, const RematSimulation *result, const Lanes *lanes,
                      int p) {
  int v = remat_item_node(problem, exec[p]);
  return remat_item_kind(problem, exec[p]) == REMAT_FETCH && !problem->nodes[v].home &&
         result->last_use[lanes->stored[v]] == p;
}

// When the fetches end that a store at `p` must wait for.
static double far_bytes_free(const RematProblem *problem, const int *exec, const RematSimulation *result, Lanes *lanes,
                             int p) {
  double end = 0;
  for (; lanes->far + lanes->unsure > problem->far->budget && lanes->waited < p; lanes->waited++) {
    if (!frees_far(problem, exec, result, lanes, lanes->waited)) continue;
    lanes->unsure -= problem->nodes[remat_item_node(problem, exec[lanes->waited])].bytes;
    end = result->end[lanes->waited];
  }
  return end;
}

static void run_execution(const RematProblem *problem, int v, Lanes *lanes, double *start, double *end) {
  const RematNode *node = &problem->nodes[v];
  *start = fmax(lanes->compute, lanes->out);
  for (int i = 0; i < node->n_inputs; i++) *start = fmax(*start, lanes->ready[node->inputs[i]]);
  *end = lanes->compute = lanes->ready[v] = *start + node->cost;
  for (int i = 0; i < node->n_inputs; i++)
    if (is_updated_home(problem, v, node->inputs[i])) lanes->ready[node->inputs[i]] = *end;
}

static void run_store(const RematProblem *problem, const int *exec, const RematSimulation *result, int p,
                      Lanes *lanes) {
  int v = remat_item_node(problem, exec[p]);
  const RematNode *node = &problem->nodes[v];
  const RematTier *far = problem->far;
  result->start[p] = fmax(lanes->out, lanes->ready[v]);
  if (!node->home) {
    lanes->stored[v] = p;
    lanes->far += node->bytes;
    result->start[p] = fmax(result->start[p], far_bytes_free(problem, exec, result, lanes, p));
    if (result->last_use[p] == p) lanes->far -= node->bytes;   // stored and never fetched
  }
  result->end[p] = lanes->out = result->start[p] + far->latency + (double)node->bytes / far->out_rate;
  lanes->compute += far->drag * (double)node->bytes;
}

static void run_fetch(const RematProblem *problem, const int *exec, const RematSimulation *result, int p,
                      Lanes *lanes) {
  int v = remat_item_node(problem, exec[p]);
  const RematNode *node = &problem->nodes[v];
  const RematTier *far = problem->far;
  result->start[p] = fmax(lanes->in, fmax(lanes->compute, lanes->out));
  result->end[p] = lanes->in = lanes->ready[v] = result->start[p] + far->latency + (double)node->bytes / far->in_rate;
  lanes->compute += far->drag * (double)node->bytes;
  if (!frees_far(problem, exec, result, lanes, p)) return;
  lanes->far -= node->bytes;
  lanes->unsure += node->bytes;
}

static void run_lanes(const RematProblem *problem, const int *exec, int n, RematSimulation *result) {
  size_t n_nodes = (size_t)problem->n_nodes;
  Lanes lanes = {.ready = allocate_array(n_nodes, sizeof(double)), .stored = allocate_array(n_nodes, sizeof(int))};
  for (int p = 0; p < n; p++) {
    int v = remat_item_node(problem, exec[p]);
    switch (remat_item_kind(problem, exec[p])) {
    case REMAT_EXECUTE: run_execution(problem, v, &lanes, &result->start[p], &result->end[p]); break;
    case REMAT_STORE: run_store(problem, exec, result, p, &lanes); break;
    case REMAT_FETCH: run_fetch(problem, exec, result, p, &lanes); break;
    case REMAT_FAR_HOME: lanes.far += problem->nodes[v].bytes; break;
    }
    if (remat_item_kind(problem, exec[p]) == REMAT_EXECUTE) result->cost += problem->nodes[v].cost;
  }
  result->makespan = fmax(lanes.compute, fmax(lanes.out, lanes.in));
  free(lanes.ready);
  free(lanes.stored);
}

bool remat_simulate(const RematProblem *problem, const int *exec, int n, RematSimulation *result, InputError *error) {
  enum { STEPS = 50 };
  size_t size = (size_t)n;
  watch_count(problem, STEPS * (int64_t)n);
  int *last_use = allocate_array(size, sizeof *last_use);
  if (!trace_items(problem, exec, n, last_use, error)) {
    free(last_use);
    return false;
  }
  *result = (RematSimulation){.last_use = last_use,
                              .live = allocate_array(size, sizeof(int64_t)),
                              .start = allocate_array(size, sizeof(double)),
                              .end = allocate_array(size, sizeof(double))};
  count_bytes(problem, exec, n, result);
  run_lanes(problem, exec, n, result);
  return true;
}

void remat_simulation_free(RematSimulation *simulation) {
  free(simulation->live);
  free(simulation->last_use);
  free(simulation->start);
  free(simulation->end);
  *simulation = (RematSimulation){0};
}

void remat_schedule_free(RematSchedule *schedule) {
  free(schedule->exec);
  *schedule = (RematSchedule){0};
}
