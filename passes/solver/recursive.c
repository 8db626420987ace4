// recursive.c: schedules that recompute recursively. To reach a value, walk down a tree of ranges of the forward pass:
// entering a right part first makes the values that cross into it available, starting from the last cut still held;
// entering a left part holds nothing. Leaves are recomputed whole. The backward pass asks for values from the end to
// the start, so the walk is depth first, right to left, and only one path of the tree is held. Where to cut is a rule:
// bisection here, binomial in baselines.c.
#include <stdlib.h>

#include "internal.h"
#include "support/alloc.h"

typedef struct Walk {
  const RematGraph *graph;
  const WalkRule *rule;
  RematBuilder *builder;
  WalkLevel *levels;   // Owned
  int n_levels;
  int *made;   // Owned; values made available, in the order of the levels
  int n_made;
  int *scratch;   // Owned
} Walk;

static void push_level(Walk *walk, int low, int high, int64_t memory) {
  walk->levels[walk->n_levels++] = (WalkLevel){low, high, walk->n_made, memory};
}

static void pop_level(Walk *walk) {
  WalkLevel level = walk->levels[--walk->n_levels];
  while (walk->n_made > level.first_made) walk->builder->available[walk->made[--walk->n_made]] = false;
}

// Whether a step holds `value`, which lies in [low, step.at).
static bool is_held(const RematGraph *graph, const WalkStep *step, int value) {
  return graph->last_forward_use[value] >= step->at;
}

// Makes the values that the step holds available, and nothing else of what that takes.
static void hold(Walk *walk, int low, const WalkStep *step, int before) {
  bool *available = walk->builder->available;
  int n_scratch = 0;
  for (int v = low; v < step->at; v++)
    if (!available[v] && is_held(walk->graph, step, v))
      remat_builder_recompute(walk->builder, v, before, walk->scratch, &n_scratch);
  for (int i = 0; i < n_scratch; i++) {
    int v = walk->scratch[i];
    if (v >= low && v < step->at && is_held(walk->graph, step, v)) walk->made[walk->n_made++] = v;
    else available[v] = false;
  }
}

// Makes forward value `value` available for base node `before`.
static void demand(Walk *walk, int value, int before) {
  while (walk->n_levels > 1) {
    WalkLevel top = walk->levels[walk->n_levels - 1];
    if (value >= top.low && value < top.high) break;
    pop_level(walk);
  }
  for (;;) {
    WalkLevel top = walk->levels[walk->n_levels - 1];
    WalkStep step = walk->rule->choose(walk->rule->context, &top);
    if (step.at >= top.high || walk->builder->overflow) break;
    if (value < step.at) {
      push_level(walk, top.low, step.at, top.memory);
      continue;
    }
    push_level(walk, step.at, top.high, step.right_memory);
    hold(walk, top.low, &step, before);
  }
  remat_builder_recompute(walk->builder, value, before, walk->made, &walk->n_made);
}

// After the first forward pass everything is available: hold what the rightmost path holds, and the last leaf.
static void hold_first_path(Walk *walk) {
  const RematGraph *graph = walk->graph;
  bool *available = walk->builder->available;
  for (int v = 0; v < graph->forward_end; v++)
    available[v] = walk->builder->forced[v] || !graph->problem->nodes[v].recomputable;
  push_level(walk, 0, graph->forward_end, walk->rule->memory);
  for (;;) {
    WalkLevel top = walk->levels[walk->n_levels - 1];
    WalkStep step = walk->rule->choose(walk->rule->context, &top);
    bool leaf = step.at >= top.high;
    if (!leaf) push_level(walk, step.at, top.high, step.right_memory);
    for (int v = top.low; v < step.at; v++)
      if (!available[v] && (leaf || is_held(graph, &step, v))) {
        available[v] = true;
        walk->made[walk->n_made++] = v;
      }
    if (leaf) return;
  }
}

static void build(Walk *walk) {
  const RematGraph *graph = walk->graph;
  RematBuilder *builder = walk->builder;
  remat_builder_clear(builder);
  walk->n_levels = walk->n_made = 0;
  for (int v = 0; v < graph->forward_end; v++) remat_builder_append(builder, v);
  hold_first_path(walk);
  for (int v = graph->forward_end; v < graph->n && !builder->overflow; v++) {
    const RematNode *node = &graph->problem->nodes[v];
    // Demanding one input may give up another, of a different leaf; the second round makes both stay.
    for (int i = 0; i < node->n_inputs; i++)
      if (!builder->available[node->inputs[i]]) demand(walk, node->inputs[i], v);
    for (int i = 0; i < node->n_inputs; i++)
      if (!builder->available[node->inputs[i]])
        remat_builder_recompute(builder, node->inputs[i], v, walk->made, &walk->n_made);
    remat_builder_append(builder, v);
  }
}

bool remat_build_walk(RematBuilder *builder, const WalkRule *rule) {
  size_t n = (size_t)builder->graph->n;
  Walk walk = {.graph = builder->graph, .rule = rule, .builder = builder};
  walk.levels = allocate_array(n + 2, sizeof(WalkLevel));
  walk.made = allocate_array(n + 1, sizeof(int));
  walk.scratch = allocate_array(n + 1, sizeof(int));
  // Beyond this the graph is not one that the rule suits, and time would be wasted.
  builder->limit = n < 1000000 ? 64 + 24 * (int)n : (int)n;
  do build(&walk);
  while (builder->retry && !builder->overflow);
  free(walk.levels);
  free(walk.made);
  free(walk.scratch);
  return !builder->overflow;
}

typedef struct Bisection {
  const RematGraph *graph;
  int64_t leaf_bytes;
} Bisection;

// The smallest cut of the middle half, the one nearest to the middle among equals; a leaf when little is inside.
static WalkStep bisect(const void *context, const WalkLevel *level) {
  const Bisection *bisection = context;
  const RematGraph *graph = bisection->graph;
  int low = level->low, high = level->high, middle = low + (high - low) / 2, reach = (high - low) / 4;
  int64_t bytes = 0;
  for (int v = low; v < high && bytes <= bisection->leaf_bytes; v++)
    if (graph->used_backward[v]) bytes += graph->problem->nodes[v].bytes;
  if (high - low <= 1 || bytes <= bisection->leaf_bytes) return (WalkStep){.at = high};
  int best = middle;
  for (int d = 1; d <= reach; d++) {   // between low and high
    if (graph->crossing[middle - d] < graph->crossing[best]) best = middle - d;
    if (graph->crossing[middle + d] < graph->crossing[best]) best = middle + d;
  }
  return (WalkStep){.at = best};
}

RematSchedule remat_policy_recursive(const RematProblem *problem) {
  RematGraph graph = remat_graph_create(problem);
  RematBuilder builder = remat_builder_create(&graph);
  Bisection bisection = {.graph = &graph};
  WalkRule rule = {.choose = bisect, .context = &bisection};
  RematSchedule best = remat_baseline(problem);
  int64_t largest = 1;
  for (int v = 0; v < graph.forward_end; v++)
    if (problem->nodes[v].recomputable && problem->nodes[v].bytes > largest) largest = problem->nodes[v].bytes;
  for (int factor = 1; factor <= 8; factor *= 2) {
    bisection.leaf_bytes = largest * factor;
    if (!remat_build_walk(&builder, &rule)) continue;
    RematSchedule candidate = remat_schedule_measure(problem, builder.exec, builder.n);
    if (candidate.peak < best.peak || (candidate.peak == best.peak && candidate.cost < best.cost)) {
      RematSchedule previous = best;
      best = candidate;
      candidate = previous;
    }
    remat_schedule_free(&candidate);
  }
  remat_builder_free(&builder);
  remat_graph_free(&graph);
  return best;
}
