// graph.c: users, forward end, cut sizes and deadlines of a problem, and the builder that turns "which values are
// available" into a sequence of executions.
#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "support/alloc.h"
#include "support/input_error.h"

// Without roles, the backward pass is taken to begin where the plain order holds the most bytes: that is where a
// training step turns around.
static int find_forward_end(const RematProblem *problem) {
  for (int v = 0; v < problem->n_nodes; v++)
    if (problem->nodes[v].role == REMAT_BACKWARD) return v;
  RematSchedule baseline = remat_baseline(problem);
  RematSimulation simulation;
  int end = problem->n_nodes;
  if (remat_simulate(problem, baseline.exec, baseline.n, &simulation, NULL)) {
    if (simulation.peak_position >= 0) end = simulation.peak_position;
    remat_simulation_free(&simulation);
  }
  remat_schedule_free(&baseline);
  return end;
}

void remat_list_users(const RematProblem *problem, int **start, int **users) {
  int n = problem->n_nodes, *seen = allocate_array((size_t)n, sizeof *seen), total = 0;   // last user, plus one
  *start = allocate_array((size_t)n + 2, sizeof(int));
  *users = NULL;
  for (int pass = 0; pass < 2; pass++) {
    memset(seen, 0, (size_t)n * sizeof *seen);
    for (int v = 0; v < n; v++)
      for (int i = 0; i < problem->nodes[v].n_inputs; i++) {
        int u = problem->nodes[v].inputs[i];
        if (seen[u] == v + 1) continue;
        seen[u] = v + 1;
        if (pass) (*users)[(*start)[u + 1]++] = v;
        else (*start)[u + 2]++, total++;
      }
    if (pass) break;
    for (int v = 0; v < n; v++) (*start)[v + 2] += (*start)[v + 1];
    *users = allocate_array((size_t)total, sizeof(int));
  }
  free(seen);
}

void remat_list_anti(const RematProblem *problem, bool by_before, int **start, int **list) {
  *start = allocate_array((size_t)problem->n_nodes + 2, sizeof(int));
  *list = allocate_array((size_t)problem->n_anti, sizeof(int));
  for (int i = 0; i < problem->n_anti; i++)
    (*start)[(by_before ? problem->anti[i].before : problem->anti[i].after) + 2]++;
  for (int v = 0; v < problem->n_nodes; v++) (*start)[v + 2] += (*start)[v + 1];
  for (int i = 0; i < problem->n_anti; i++) {
    RematAnti anti = problem->anti[i];
    (*list)[(*start)[(by_before ? anti.before : anti.after) + 1]++] = by_before ? anti.after : anti.before;
  }
}

// Fixed bytes are left out: they are the same everywhere.
static void find_pressure(RematGraph *graph) {
  const RematProblem *problem = graph->problem;
  graph->pressure = allocate_array((size_t)graph->n, sizeof(int64_t));
  RematSchedule plain = remat_baseline(problem);
  RematSimulation simulation;
  if (remat_simulate(problem, plain.exec, plain.n, &simulation, NULL)) {
    // recomputable forward ones, live at each node
    int64_t *values = allocate_array((size_t)graph->n + 2, sizeof *values);
    for (int v = 0; v < graph->forward_end; v++)
      if (problem->nodes[v].recomputable) {
        values[v] += problem->nodes[v].bytes;
        values[simulation.last_use[v] + 1] -= problem->nodes[v].bytes;
      }
    for (int v = 0; v < graph->n; v++) values[v + 1] += values[v];
    for (int v = 0; v < graph->forward_end; v++)
      for (int i = graph->user_start[v]; i < graph->user_start[v + 1]; i++)
        if (graph->users[i] >= graph->forward_end) {
          int user = graph->users[i];
          graph->pressure[v] = simulation.live[user] - values[user] - problem->fixed_bytes;
          break;
        }
    free(values);
    remat_simulation_free(&simulation);
  }
  remat_schedule_free(&plain);
}

RematGraph remat_graph_create(const RematProblem *problem) {
  int n = problem->n_nodes;
  RematGraph graph = {.problem = problem, .n = n, .forward_end = find_forward_end(problem)};
  remat_list_users(problem, &graph.user_start, &graph.users);
  graph.last_forward_use = allocate_array((size_t)n, sizeof(int));
  graph.used_backward = allocate_array((size_t)n, sizeof(bool));
  graph.deadline = allocate_array((size_t)n, sizeof(int));
  graph.crossing = allocate_array((size_t)n + 2, sizeof(int64_t));
  for (int v = 0; v < n; v++) {
    graph.last_forward_use[v] = v;
    graph.deadline[v] = n;
    for (int i = graph.user_start[v]; i < graph.user_start[v + 1]; i++) {
      if (graph.users[i] < graph.forward_end) graph.last_forward_use[v] = graph.users[i];
      else graph.used_backward[v] = true;
    }
  }
  graph.is_output = allocate_array((size_t)n, sizeof(bool));
  for (int i = 0; i < problem->n_outputs; i++)
    graph.used_backward[problem->outputs[i]] = graph.is_output[problem->outputs[i]] = true;
  for (int i = 0; i < problem->n_anti; i++) {
    RematAnti anti = problem->anti[i];
    if (anti.after < graph.deadline[anti.before]) graph.deadline[anti.before] = anti.after;
  }
  for (int v = 0; v < graph.forward_end; v++)
    if (problem->nodes[v].recomputable && graph.last_forward_use[v] > v) {
      graph.crossing[v + 1] += problem->nodes[v].bytes;
      graph.crossing[graph.last_forward_use[v] + 1] -= problem->nodes[v].bytes;
    }
  for (int b = 0; b <= n; b++) graph.crossing[b + 1] += graph.crossing[b];
  find_pressure(&graph);
  return graph;
}

void remat_graph_free(RematGraph *graph) {
  free(graph->user_start);
  free(graph->users);
  free(graph->last_forward_use);
  free(graph->used_backward);
  free(graph->pressure);
  free(graph->is_output);
  free(graph->deadline);
  free(graph->crossing);
  *graph = (RematGraph){0};
}

RematBuilder remat_builder_create(const RematGraph *graph) {
  RematBuilder builder = {.graph = graph, .limit = INT_MAX};
  builder.available = allocate_array((size_t)graph->n, sizeof(bool));
  builder.forced = allocate_array((size_t)graph->n, sizeof(bool));
  return builder;
}

void remat_builder_free(RematBuilder *builder) {
  free(builder->exec);
  free(builder->available);
  free(builder->stack);
  free(builder->forced);
  *builder = (RematBuilder){0};
}

void remat_builder_clear(RematBuilder *builder) {
  builder->n = 0;
  builder->retry = builder->overflow = false;
  memset(builder->available, 0, (size_t)builder->graph->n * sizeof(bool));
}

void remat_builder_append(RematBuilder *builder, int node) {
  if (builder->n >= builder->limit) {
    builder->overflow = true;
    return;
  }
  if (builder->n == builder->capacity) {
    builder->capacity = builder->capacity ? 2 * builder->capacity : 2 * builder->graph->n + 16;
    builder->exec = reallocate_array(builder->exec, (size_t)builder->capacity, sizeof(int));
  }
  builder->exec[builder->n++] = node;
  builder->available[node] = true;
}

static void push(RematBuilder *builder, int *depth, int value) {
  if (*depth == builder->stack_capacity) {
    builder->stack_capacity = builder->stack_capacity ? 2 * builder->stack_capacity : 256;
    builder->stack = reallocate_array(builder->stack, (size_t)builder->stack_capacity, sizeof(int));
  }
  builder->stack[(*depth)++] = value;
}

// Depth-first over unavailable inputs with an explicit stack, since a chain is as deep as it is long. A value on the
// stack is expanded once (stored as ~value) and executed when it is met again.
void remat_builder_recompute(RematBuilder *builder, int value, int before, int *made, int *n_made) {
  const RematGraph *graph = builder->graph;
  int depth = 0;
  push(builder, &depth, value);
  while (depth > 0 && !builder->overflow) {
    int top = builder->stack[depth - 1];
    int v = top < 0 ? ~top : top;
    watch_count(graph->problem, 8);
    if (builder->available[v]) {
      depth--;
      continue;
    }
    const RematNode *node = &graph->problem->nodes[v];
    if (!node->recomputable || before > graph->deadline[v]) {
      builder->forced[v] = builder->retry = true;
      builder->available[v] = true;
      depth--;
      continue;
    }
    if (top < 0) {
      remat_builder_append(builder, v);
      if (made) made[(*n_made)++] = v;
      depth--;
      continue;
    }
    builder->stack[depth - 1] = ~v;
    for (int i = node->n_inputs - 1; i >= 0; i--)
      if (!builder->available[node->inputs[i]]) push(builder, &depth, node->inputs[i]);
  }
}

RematSchedule remat_build_keep(RematBuilder *builder, bool *keep) {
  const RematGraph *graph = builder->graph;
  do {
    remat_builder_clear(builder);
    for (int v = 0; v < graph->forward_end; v++) remat_builder_append(builder, v);
    for (int v = 0; v < graph->forward_end; v++) {
      keep[v] = keep[v] || builder->forced[v] || !graph->problem->nodes[v].recomputable;
      builder->available[v] = keep[v];
    }
    for (int v = graph->forward_end; v < graph->n; v++) {
      const RematNode *node = &graph->problem->nodes[v];
      for (int i = 0; i < node->n_inputs; i++)
        if (!builder->available[node->inputs[i]]) remat_builder_recompute(builder, node->inputs[i], v, NULL, NULL);
      remat_builder_append(builder, v);
    }
  } while (builder->retry);
  return remat_schedule_measure(graph->problem, builder->exec, builder->n);
}

RematSchedule remat_schedule_measure(const RematProblem *problem, const int *exec, int n) {
  RematSchedule schedule = {.n = n, .exec = allocate_array((size_t)n, sizeof(int))};
  if (n) memcpy(schedule.exec, exec, (size_t)n * sizeof(int));
  RematSimulation simulation;
  InputError error;
  bool legal = remat_simulate(problem, exec, n, &simulation, &error);
  assert(legal && "a schedule of ours must be legal");
  if (legal) {
    schedule.cost = simulation.cost;
    schedule.far_peak = simulation.far_peak;
    schedule.makespan = simulation.makespan;
    schedule.peak = simulation.peak;
    schedule.activations = simulation.activations;
    remat_simulation_free(&simulation);
  }
  return schedule;
}
