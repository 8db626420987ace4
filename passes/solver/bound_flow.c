// bound_flow.c: Dinic's algorithm over arrays: levels by breadth-first search from the sink, then augmenting along an
// explicit path, each node going on from the arc where it stopped.
#include "bound_flow.h"

#include <stdlib.h>
#include <string.h>

#include "support/alloc.h"

void flow_clear(FlowNetwork *network) {
  network->n_nodes = 2;
  network->n_edges = 0;
}

void flow_free(FlowNetwork *network) {
  free(network->tail);
  free(network->head);
  free(network->capacity);
  free(network->first);
  free(network->to);
  free(network->mate);
  free(network->arc_of_edge);
  free(network->residual);
  free(network->level);
  free(network->current);
  free(network->queue);
  free(network->path);
  *network = (FlowNetwork){0};
}

int flow_add_node(FlowNetwork *network) { return network->n_nodes++; }

int flow_add_edge(FlowNetwork *network, int tail, int head, int64_t capacity) {
  if (network->n_edges == network->capacity_edges) {
    size_t n = (size_t)network->capacity_edges * 2 + 1024;
    network->capacity_edges = (int)n;
    network->tail = reallocate_array(network->tail, n, sizeof(int));
    network->head = reallocate_array(network->head, n, sizeof(int));
    network->capacity = reallocate_array(network->capacity, n, sizeof(int64_t));
    network->arc_of_edge = reallocate_array(network->arc_of_edge, n, sizeof(int));
    network->to = reallocate_array(network->to, 2 * n, sizeof(int));
    network->mate = reallocate_array(network->mate, 2 * n, sizeof(int));
    network->residual = reallocate_array(network->residual, 2 * n, sizeof(int64_t));
  }
  int edge = network->n_edges++;
  network->tail[edge] = tail;
  network->head[edge] = head;
  network->capacity[edge] = capacity;
  return edge;
}

void flow_finish(FlowNetwork *network) {
  int n = network->n_nodes;
  if (n >= network->capacity_nodes) {
    size_t size = (size_t)n * 2 + 2;
    network->capacity_nodes = (int)size;
    network->first = reallocate_array(network->first, size + 1, sizeof(int));
    network->level = reallocate_array(network->level, size, sizeof(int));
    network->current = reallocate_array(network->current, size, sizeof(int));
    network->queue = reallocate_array(network->queue, size, sizeof(int));
    network->path = reallocate_array(network->path, size, sizeof(int));
  }
  memset(network->first, 0, (size_t)(n + 1) * sizeof(int));
  for (int e = 0; e < network->n_edges; e++) {
    network->first[network->tail[e] + 1]++;
    network->first[network->head[e] + 1]++;
  }
  for (int v = 0; v < n; v++) network->first[v + 1] += network->first[v];
  memcpy(network->current, network->first, (size_t)n * sizeof(int));
  for (int e = 0; e < network->n_edges; e++) {
    int forward = network->current[network->tail[e]]++, backward = network->current[network->head[e]]++;
    network->to[forward] = network->head[e];
    network->to[backward] = network->tail[e];
    network->mate[forward] = backward;
    network->mate[backward] = forward;
    network->arc_of_edge[e] = forward;
  }
}

// Distances to the sink, over arcs with room; -1 where there is no way. False when the source has none.
static bool find_levels(FlowNetwork *network) {
  for (int v = 0; v < network->n_nodes; v++) network->level[v] = -1;
  int head = 0, tail = 0;
  network->work += network->n_nodes + 2 * (int64_t)network->n_edges;
  network->queue[tail++] = FLOW_SINK;
  network->level[FLOW_SINK] = 0;
  while (head < tail) {
    int v = network->queue[head++];
    for (int a = network->first[v]; a < network->first[v + 1]; a++) {
      int u = network->to[a];
      if (network->level[u] >= 0 || network->residual[network->mate[a]] <= 0) continue;
      network->level[u] = network->level[v] + 1;
      network->queue[tail++] = u;
    }
  }
  return network->level[FLOW_SOURCE] >= 0;
}

// Pushes as much as the arcs on the path take and steps back to the tail of the first one that is full.
static int64_t augment(FlowNetwork *network, int *depth) {
  int64_t amount = FLOW_INFINITE;
  network->work += 3 * *depth;
  for (int i = 0; i < *depth; i++)
    if (network->residual[network->path[i]] < amount) amount = network->residual[network->path[i]];
  int full = *depth;
  for (int i = *depth - 1; i >= 0; i--) {
    int a = network->path[i];
    network->residual[a] -= amount;
    network->residual[network->mate[a]] += amount;
    if (network->residual[a] == 0) full = i;
  }
  *depth = full;
  return amount;
}

static int64_t push_blocking_flow(FlowNetwork *network) {
  int64_t total = 0;
  int depth = 0, v = FLOW_SOURCE;
  memcpy(network->current, network->first, (size_t)network->n_nodes * sizeof(int));
  for (;;) {
    if (v == FLOW_SINK) {
      total += augment(network, &depth);
      if (total >= FLOW_INFINITE) return FLOW_INFINITE;
      v = network->to[network->mate[network->path[depth]]];
      continue;
    }
    int a = network->current[v], end = network->first[v + 1], below = network->level[v] - 1;
    while (a < end && (network->residual[a] <= 0 || network->level[network->to[a]] != below)) a++;
    network->work += 4 + a - network->current[v];
    network->current[v] = a;
    if (a < end) {
      network->path[depth++] = a;
      v = network->to[a];
      continue;
    }
    if (v == FLOW_SOURCE) return total;
    v = network->to[network->mate[network->path[--depth]]];
    network->current[v]++;
  }
}

int64_t flow_solve(FlowNetwork *network) {
  for (int e = 0; e < network->n_edges; e++) {
    int a = network->arc_of_edge[e];
    network->residual[a] = network->capacity[e];
    network->residual[network->mate[a]] = 0;
  }
  int64_t total = 0;
  network->work = 0;
  while (total < FLOW_INFINITE && find_levels(network)) total += push_blocking_flow(network);
  return total < FLOW_INFINITE ? total : FLOW_INFINITE;
}

bool flow_is_source_side(const FlowNetwork *network, int node) { return network->level[node] < 0; }
