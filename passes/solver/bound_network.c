// bound_network.c: the networks of the lower bound. Per moment and value there are two nodes, "needed after the moment"
// and "executes after the moment"; on the source's side they are true. An edge from the first to the second, priced by
// bytes, is cut when the value is needed and does not execute: it is live at the moment.
#include "bound_network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "support/alloc.h"

static const double SCALE_TOTAL = 0x1p46;   // all costs together, in capacity units

BoundGraph bound_graph_create(const RematProblem *problem, int64_t budget_bytes) {
  BoundGraph graph = {.problem = problem, .n = problem->n_nodes, .budget = budget_bytes};
  remat_list_users(problem, &graph.user_start, &graph.users);
  remat_list_anti(problem, true, &graph.after_start, &graph.afters);
  remat_list_anti(problem, false, &graph.before_start, &graph.befores);
  graph.is_output = allocate_array((size_t)graph.n, sizeof(bool));
  for (int i = 0; i < problem->n_outputs; i++) graph.is_output[problem->outputs[i]] = true;
  for (int v = 0; v < graph.n; v++) graph.base_cost += problem->nodes[v].cost;
  graph.scale = graph.base_cost > 0 ? SCALE_TOTAL / graph.base_cost : 0;
  if (!isfinite(graph.scale)) graph.scale = 0;
  graph.cost = allocate_array((size_t)graph.n, sizeof(int64_t));
  for (int v = 0; v < graph.n; v++) graph.cost[v] = (int64_t)(problem->nodes[v].cost * graph.scale);
  graph.all_costs = SCALE_TOTAL * 1.001;
  return graph;
}

void bound_graph_allow_moves(BoundGraph *graph) {
  graph->move = allocate_array((size_t)graph->n, sizeof(int64_t));
  for (int v = 0; v < graph->n; v++)
    if (!graph->problem->nodes[v].home && !graph->problem->nodes[v].movable) graph->move[v] = BOUND_NEVER;
}

void bound_graph_free(BoundGraph *graph) {
  free(graph->user_start);
  free(graph->users);
  free(graph->after_start);
  free(graph->afters);
  free(graph->before_start);
  free(graph->befores);
  free(graph->is_output);
  free(graph->cost);
  free(graph->move);
  *graph = (BoundGraph){0};
}

BoundNetwork bound_network_create(const BoundGraph *graph) {
  size_t n = (size_t)graph->n;
  BoundNetwork network = {.graph = graph, .relation = allocate_array(n, 1)};
  network.need_node = allocate_array(n, sizeof(int));
  network.run_node = allocate_array(n, sizeof(int));
  network.pending = allocate_array(n, sizeof(int));
  flow_clear(&network.flow);
  return network;
}

void bound_network_free(BoundNetwork *network) {
  flow_free(&network->flow);
  free(network->edge_bytes);
  free(network->edge_value);
  free(network->relation);
  free(network->need_node);
  free(network->run_node);
  free(network->pending);
  *network = (BoundNetwork){0};
}

// Every first execution of an ancestor comes before that of t, and of a descendant after; an anti-dependence orders
// first executions too.
static void mark_relations(const BoundGraph *graph, unsigned char *relation, int t) {
  memset(relation, BOUND_OTHER, (size_t)graph->n);
  relation[t] = BOUND_SELF;
  for (int v = t; v >= 0; v--) {
    if (relation[v] == BOUND_OTHER) continue;
    const RematNode *node = &graph->problem->nodes[v];
    for (int i = 0; i < node->n_inputs; i++) relation[node->inputs[i]] = BOUND_ANCESTOR;
    for (int i = graph->before_start[v]; i < graph->before_start[v + 1]; i++)
      relation[graph->befores[i]] = BOUND_ANCESTOR;
  }
  for (int v = t; v < graph->n; v++) {
    if (relation[v] != BOUND_SELF && relation[v] != BOUND_DESCENDANT) continue;
    for (int i = graph->user_start[v]; i < graph->user_start[v + 1]; i++) relation[graph->users[i]] = BOUND_DESCENDANT;
    for (int i = graph->after_start[v]; i < graph->after_start[v + 1]; i++)
      relation[graph->afters[i]] = BOUND_DESCENDANT;
  }
}

// Whether v, an ancestor, may execute once more after the moment.
static bool may_repeat(const BoundGraph *graph, const unsigned char *relation, int v) {
  if (!graph->problem->nodes[v].recomputable) return false;
  for (int i = graph->after_start[v]; i < graph->after_start[v + 1]; i++) {
    unsigned char overwriter = relation[graph->afters[i]];
    if (overwriter == BOUND_ANCESTOR || overwriter == BOUND_SELF) return false;
  }
  return true;
}

static void add_edge(BoundNetwork *network, int tail, int head, int64_t capacity, int64_t bytes) {
  int edge = flow_add_edge(&network->flow, tail, head, capacity);
  if (edge >= network->edge_capacity) {
    network->edge_capacity = 2 * edge + 1024;
    network->edge_bytes = reallocate_array(network->edge_bytes, (size_t)network->edge_capacity, sizeof(int64_t));
    network->edge_value = reallocate_array(network->edge_value, (size_t)network->edge_capacity, sizeof(int));
  }
  network->edge_bytes[edge] = bytes;
}

// An edge that is cut when `value` is there at the moment.
static void add_priced_edge(BoundNetwork *network, int tail, int head, int value) {
  add_edge(network, tail, head, 0, network->graph->problem->nodes[value].bytes);
  network->edge_value[network->flow.n_edges - 1] = value;
}

static bool is_movable(const BoundGraph *graph, int value) { return graph->move && graph->move[value] != BOUND_NEVER; }

// The network node "v executes after the moment", made when missing. The first time, where it may be, adds no cost.
static int make_run_node(BoundNetwork *network, int v, int *n_pending) {
  if (network->run_node[v]) return network->run_node[v];
  int run = network->run_node[v] = flow_add_node(&network->flow);
  network->pending[(*n_pending)++] = v;
  if (network->relation[v] == BOUND_ANCESTOR) add_edge(network, run, FLOW_SINK, network->graph->cost[v], -1);
  return run;
}

// States that u is needed once `from` (the source: certainly) is true.
static void add_need(BoundNetwork *network, int u, int from, int *n_pending) {
  const BoundGraph *graph = network->graph;
  // Values that are certainly there: t's own and its inputs, marked by need_node < 0; and those that take no room.
  int64_t bytes = graph->problem->nodes[u].bytes;
  if (network->need_node[u] < 0 || bytes == 0 || network->relation[u] == BOUND_DESCENDANT) return;
  if (graph->problem->nodes[u].home) return;   // add_homes
  bool repeats = network->relation[u] != BOUND_ANCESTOR || may_repeat(graph, network->relation, u);
  if (from == FLOW_SOURCE) {
    network->need_node[u] = -1;
    if (!repeats && !is_movable(graph, u)) {
      network->room -= bytes;
      return;
    }
    network->most += bytes;
    int run = repeats ? make_run_node(network, u, n_pending) : FLOW_SINK;
    add_priced_edge(network, FLOW_SOURCE, run, u);
    return;
  }
  if (!network->need_node[u]) {
    network->need_node[u] = flow_add_node(&network->flow);
    int run = repeats ? make_run_node(network, u, n_pending) : FLOW_SINK;
    add_priced_edge(network, network->need_node[u], run, u);
  }
  add_edge(network, from, network->need_node[u], FLOW_INFINITE, -1);
}

static void add_certain_needs(BoundNetwork *network, int end, int *n_pending) {
  const BoundGraph *graph = network->graph;
  bool *wanted = NULL;
  if (end >= 0) {   // executions that certainly come before that of `end`
    wanted = allocate_array((size_t)graph->n, sizeof(bool));
    wanted[end] = true;
    for (int v = end; v >= 0; v--) {
      const RematNode *node = &graph->problem->nodes[v];
      for (int i = 0; wanted[v] && i < node->n_inputs; i++) wanted[node->inputs[i]] = true;
      for (int i = graph->before_start[v]; wanted[v] && i < graph->before_start[v + 1]; i++)
        wanted[graph->befores[i]] = true;
    }
  }
  for (int v = 0; v < graph->n; v++) {
    const RematNode *node = &graph->problem->nodes[v];
    if (network->relation[v] == BOUND_DESCENDANT && (!wanted || wanted[v]))
      for (int i = 0; i < node->n_inputs; i++) add_need(network, node->inputs[i], FLOW_SOURCE, n_pending);
    if (!wanted && graph->is_output[v]) add_need(network, v, FLOW_SOURCE, n_pending);
  }
  free(wanted);
}

// A home that is near is there at every moment, whoever reads it; what t reads is counted already.
static void add_homes(BoundNetwork *network) {
  const BoundGraph *graph = network->graph;
  for (int h = 0; h < graph->n; h++) {
    const RematNode *home = &graph->problem->nodes[h];
    if (!home->home || network->need_node[h] < 0 || home->bytes == 0) continue;
    if (graph->user_start[h] == graph->user_start[h + 1]) continue;   // may be far at no cost
    network->most += home->bytes;
    add_priced_edge(network, FLOW_SOURCE, FLOW_SINK, h);
  }
}

void bound_network_build(BoundNetwork *network, int t, int end) {
  const BoundGraph *graph = network->graph;
  const RematNode *node = &graph->problem->nodes[t];
  flow_clear(&network->flow);
  network->most = 0;
  network->room = graph->budget - graph->problem->fixed_bytes - node->bytes - node->workspace;
  mark_relations(graph, network->relation, t);
  memset(network->need_node, 0, (size_t)graph->n * sizeof(int));
  memset(network->run_node, 0, (size_t)graph->n * sizeof(int));
  network->need_node[t] = -1;
  for (int i = 0; i < node->n_inputs; i++) {
    int u = node->inputs[i];
    if (network->need_node[u] == 0) network->room -= graph->problem->nodes[u].bytes;
    network->need_node[u] = -1;
  }
  int n_pending = 0;
  if (graph->move) add_homes(network);
  add_certain_needs(network, end, &n_pending);
  while (n_pending > 0) {
    int v = network->pending[--n_pending];
    const RematNode *run = &graph->problem->nodes[v];
    for (int i = 0; i < run->n_inputs; i++) add_need(network, run->inputs[i], network->run_node[v], &n_pending);
  }
  watch_count(graph->problem, 4 * (int64_t)graph->n + 12 * (int64_t)network->flow.n_edges);
}

void bound_network_finish(BoundNetwork *network) { flow_finish(&network->flow); }

// Whether the value of a priced edge is live or moved in the last cut.
static bool is_live(const BoundNetwork *network, int edge) {
  const FlowNetwork *flow = &network->flow;
  return flow_is_source_side(flow, flow->tail[edge]) && !flow_is_source_side(flow, flow->head[edge]);
}

// What a priced edge may cost instead of its bytes.
static double move_cost(const BoundGraph *graph, const BoundNetwork *network, int edge) {
  return is_movable(graph, network->edge_value[edge]) ? (double)graph->move[network->edge_value[edge]] : INFINITY;
}

bool bound_network_is_kept(const BoundNetwork *network, int edge, double price) {
  double keep = price * (double)network->edge_bytes[edge];
  return is_live(network, edge) && keep <= move_cost(network->graph, network, edge);
}

BoundCut bound_network_solve(BoundNetwork *network, double price, const unsigned char *decisions, double *excess) {
  const BoundGraph *graph = network->graph;
  FlowNetwork *flow = &network->flow;
  // Less capacity only lowers the bound; finite edges together must stay below an infinite one.
  double most = fmin(2 * SCALE_TOTAL, (double)(FLOW_INFINITE / 2) / (flow->n_edges + 1));
  for (int e = 0; e < flow->n_edges; e++) {
    if (network->edge_bytes[e] < 0) continue;
    double move = fmin(move_cost(graph, network, e), most);
    BoundDecision decision = decisions ? (BoundDecision)decisions[e] : BOUND_OPEN;
    if (decision == BOUND_OPEN) flow->capacity[e] = (int64_t)fmin(price * (double)network->edge_bytes[e], move);
    else
      flow->capacity[e] = decision == BOUND_LIVE                      ? 0
                          : is_movable(graph, network->edge_value[e]) ? (int64_t)move
                                                                      : FLOW_INFINITE;
  }
  int64_t value = flow_solve(flow);
  watch_count(graph->problem, 6 * (int64_t)flow->n_edges + flow->work);
  if (value >= FLOW_INFINITE) return (BoundCut){INFINITY, INFINITY};
  double bytes = 0, settled = 0;
  for (int e = 0; e < flow->n_edges; e++) {
    if (network->edge_bytes[e] < 0) continue;
    double length = (double)network->edge_bytes[e];
    BoundDecision decision = decisions ? (BoundDecision)decisions[e] : BOUND_OPEN;
    if (decision == BOUND_LIVE) settled += length;
    else if (decision == BOUND_OPEN && bound_network_is_kept(network, e, price)) bytes += length;
  }
  *excess = bytes + settled - (double)network->room;
  double priced = price * bytes;
  return (BoundCut){.value = (double)value + price * (settled - (double)network->room),
                    .cost = (double)value - priced > 0 ? (double)value - priced : 0};
}
