// recursive.c: recursive bisection of the forward pass. To reach a value, walk down a tree of halves: entering a right
// half first makes the values that cross into it available, starting from the last cut that is still held; entering a
// left half holds nothing. Leaves are recomputed whole. The backward pass asks for values from the end to the start,
// so the walk is depth first, right to left, and only one path of the tree is held: O(log k) cuts.
#include <stdlib.h>
#include <string.h>

#include "internal.h"

typedef struct Level {
  int low, high;   // nodes [low, high) of the forward pass
  int first_made;  // values made[first_made ..] became available for this level
} Level;

typedef struct Bisection {
  const RematGraph *graph;
  RematBuilder *builder;
  int64_t leaf_bytes;
  Level *levels;       // Owned
  int n_levels;
  int *made;           // Owned; values made available, in the order of the levels
  int n_made;
  int *scratch;        // Owned
} Bisection;

static bool is_leaf(const Bisection *bisection, int low, int high) {
  if (high - low <= 1) return true;
  int64_t bytes = 0;
  for (int v = low; v < high && bytes <= bisection->leaf_bytes; v++)
    if (bisection->graph->used_backward[v]) bytes += bisection->graph->problem->nodes[v].bytes;
  return bytes <= bisection->leaf_bytes;
}

// The smallest cut of the middle half; the one nearest to the middle among equals.
static int choose_middle(const RematGraph *graph, int low, int high) {
  int middle = low + (high - low) / 2, reach = (high - low) / 4, best = middle;
  for (int d = 1; d <= reach; d++) {
    if (middle - d > low && graph->crossing[middle - d] < graph->crossing[best]) best = middle - d;
    if (middle + d < high && graph->crossing[middle + d] < graph->crossing[best]) best = middle + d;
  }
  return best;
}

static void push_level(Bisection *bisection, int low, int high) {
  bisection->levels[bisection->n_levels++] = (Level){low, high, bisection->n_made};
}

static void pop_level(Bisection *bisection) {
  Level level = bisection->levels[--bisection->n_levels];
  while (bisection->n_made > level.first_made) bisection->builder->available[bisection->made[--bisection->n_made]] = false;
}

// Makes the values crossing `cut` available and nothing else of what that takes.
static void hold_cut(Bisection *bisection, int low, int cut, int before) {
  const RematGraph *graph = bisection->graph;
  bool *available = bisection->builder->available;
  int n_scratch = 0;
  for (int v = low; v < cut; v++)
    if (graph->last_forward_use[v] >= cut && !available[v])
      remat_builder_recompute(bisection->builder, v, before, bisection->scratch, &n_scratch);
  for (int i = 0; i < n_scratch; i++) {
    int v = bisection->scratch[i];
    if (v < cut && graph->last_forward_use[v] >= cut)
      bisection->made[bisection->n_made++] = v;
    else
      available[v] = false;
  }
}

// Makes forward value `value` available for base node `before`.
static void demand(Bisection *bisection, int value, int before) {
  while (bisection->n_levels > 1) {
    Level top = bisection->levels[bisection->n_levels - 1];
    if (value >= top.low && value < top.high) break;
    pop_level(bisection);
  }
  Level top = bisection->levels[bisection->n_levels - 1];
  while (!is_leaf(bisection, top.low, top.high) && !bisection->builder->overflow) {
    int cut = choose_middle(bisection->graph, top.low, top.high);
    if (value >= cut) {
      push_level(bisection, cut, top.high);
      hold_cut(bisection, top.low, cut, before);
    } else {
      push_level(bisection, top.low, cut);
    }
    top = bisection->levels[bisection->n_levels - 1];
  }
  remat_builder_recompute(bisection->builder, value, before, bisection->made, &bisection->n_made);
}

// After the first forward pass everything is available: hold the cuts of the rightmost path and the last leaf.
static void hold_first_path(Bisection *bisection) {
  const RematGraph *graph = bisection->graph;
  bool *available = bisection->builder->available;
  for (int v = 0; v < graph->forward_end; v++)
    available[v] = bisection->builder->forced[v] || !graph->problem->nodes[v].recomputable;
  int low = 0, high = graph->forward_end;
  push_level(bisection, low, high);
  for (bool leaf = is_leaf(bisection, low, high);; leaf = is_leaf(bisection, low, high)) {
    int cut = leaf ? high : choose_middle(graph, low, high);
    if (!leaf) push_level(bisection, cut, high);
    for (int v = low; v < cut; v++)
      if (!available[v] && (leaf || graph->last_forward_use[v] >= cut)) {
        available[v] = true;
        bisection->made[bisection->n_made++] = v;
      }
    if (leaf) return;
    low = cut;
  }
}

static void build(Bisection *bisection) {
  const RematGraph *graph = bisection->graph;
  RematBuilder *builder = bisection->builder;
  remat_builder_clear(builder);
  bisection->n_levels = bisection->n_made = 0;
  for (int v = 0; v < graph->forward_end; v++) remat_builder_append(builder, v);
  hold_first_path(bisection);
  for (int v = graph->forward_end; v < graph->n && !builder->overflow; v++) {
    const RematNode *node = &graph->problem->nodes[v];
    // Demanding one input may give up another, of a different leaf; the second round makes both stay.
    for (int i = 0; i < node->n_inputs; i++)
      if (!builder->available[node->inputs[i]]) demand(bisection, node->inputs[i], v);
    for (int i = 0; i < node->n_inputs; i++)
      if (!builder->available[node->inputs[i]])
        remat_builder_recompute(builder, node->inputs[i], v, bisection->made, &bisection->n_made);
    remat_builder_append(builder, v);
  }
}

RematSchedule remat_policy_recursive(const RematProblem *problem) {
  RematGraph graph = remat_graph_create(problem);
  RematBuilder builder = remat_builder_create(&graph);
  Bisection bisection = {.graph = &graph, .builder = &builder};
  bisection.levels = solver_allocate((size_t)graph.n + 2, sizeof(Level));
  bisection.made = solver_allocate((size_t)graph.n + 1, sizeof(int));
  bisection.scratch = solver_allocate((size_t)graph.n + 1, sizeof(int));
  RematSchedule best = remat_baseline(problem);
  int64_t largest = 1;
  for (int v = 0; v < graph.forward_end; v++)
    if (problem->nodes[v].recomputable && problem->nodes[v].bytes > largest) largest = problem->nodes[v].bytes;
  for (int factor = 1; factor <= 8; factor *= 2) {
    bisection.leaf_bytes = largest * factor;
    // Beyond this the graph is not one that bisection suits, and time would be wasted.
    builder.limit = graph.n < 1000000 ? 64 + 24 * graph.n : graph.n;
    do build(&bisection);
    while (builder.retry && !builder.overflow);
    if (builder.overflow) continue;
    RematSchedule candidate = remat_schedule_measure(problem, builder.exec, builder.n);
    bool better = candidate.peak < best.peak || (candidate.peak == best.peak && candidate.cost < best.cost);
    if (better) {
      RematSchedule previous = best;
      best = candidate;
      candidate = previous;
    }
    remat_schedule_free(&candidate);
  }
  free(bisection.levels);
  free(bisection.made);
  free(bisection.scratch);
  remat_builder_free(&builder);
  remat_graph_free(&graph);
  return best;
}
