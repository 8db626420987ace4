// policies.c: schedules made without a budget. All of them rest on one picture of the forward pass: a cut at position
// b is crossed by the values defined before b and used at or after it; where a single small value crosses we have an
// articulation point of a chain, but any cut serves, so U-shaped and dense graphs need no special case.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

RematSchedule remat_baseline(const RematProblem *problem) {
  int *exec = solver_allocate((size_t)problem->n_nodes, sizeof *exec);
  for (int v = 0; v < problem->n_nodes; v++) exec[v] = v;
  RematSchedule schedule = remat_schedule_measure(problem, exec, problem->n_nodes);
  free(exec);
  return schedule;
}

// By peak, then activations, then cost.
static bool is_better(const RematSchedule *a, const RematSchedule *b) {
  if (a->peak != b->peak) return a->peak < b->peak;
  if (a->activations != b->activations) return a->activations < b->activations;
  return a->cost < b->cost;
}

// Keeps `*best` the better schedule; takes ownership of `candidate`. Returns whether the candidate won.
static bool take_better(RematSchedule *best, RematSchedule candidate) {
  bool better = !best->exec || is_better(&candidate, best);
  if (better) {
    remat_schedule_free(best);
    *best = candidate;
  } else {
    remat_schedule_free(&candidate);
  }
  return better;
}

// The cut in (start, end] with the fewest crossing bytes, or the last one within `slack` times that: a small cut keeps
// little, a late one makes the segment long.
static int choose_cut(const RematGraph *graph, int start, int end, double slack) {
  int64_t least = INT64_MAX;
  for (int b = start + 1; b <= end; b++)
    if (graph->crossing[b] < least) least = graph->crossing[b];
  for (int b = end; b > start; b--)
    if ((double)graph->crossing[b] <= slack * (double)least) return b;
  return end;
}

// Marks the values that cross the cut at `b` and were defined at or after `start`, the previous cut (a value from
// before that and crossing b also crosses `start`). Returns the bytes newly kept.
static int64_t keep_crossing(const RematGraph *graph, int start, int b, bool *keep) {
  int64_t bytes = 0;
  for (int v = start; v < b; v++)
    if (graph->last_forward_use[v] >= b && !keep[v]) {
      keep[v] = true;
      if (graph->problem->nodes[v].recomputable) bytes += graph->problem->nodes[v].bytes;
    }
  return bytes;
}

// Segments the forward pass so that, for each, the values kept before it, what the backward pass needs inside it and
// `weight` times what else is live by then stay within `threshold` bytes. The last segment is kept whole: its backward
// pass follows at once.
static void segment_by_bytes(const RematGraph *graph, double threshold, double weight, double slack, bool *keep) {
  memset(keep, 0, (size_t)graph->n * sizeof *keep);
  int64_t kept = 0, inside = 0, pressure = 0;
  int start = 0;
  for (int v = 0; v < graph->forward_end; v++) {
    const RematNode *node = &graph->problem->nodes[v];
    int64_t bytes = graph->used_backward[v] && node->recomputable ? node->bytes : 0;
    if (bytes > 0 && graph->pressure[v] > pressure) pressure = graph->pressure[v];
    if (v > start && (double)(kept + inside + bytes) + weight * (double)pressure > threshold) {
      int cut = choose_cut(graph, start, v, slack);
      kept += keep_crossing(graph, start, cut, keep);
      start = cut;
      inside = pressure = 0;
      v = cut - 1;
    } else {
      inside += bytes;
    }
  }
  for (int v = start; v < graph->forward_end; v++) keep[v] = true;
}

typedef struct SegmentSearch {
  const RematGraph *graph;
  RematBuilder builder;
  bool *keep;
  RematSchedule best;
  double best_threshold, best_weight;
} SegmentSearch;

static void try_threshold(SegmentSearch *search, double threshold, double weight) {
  static const double slacks[] = {1.0, 1.5, 1e30};
  for (size_t i = 0; i < sizeof slacks / sizeof *slacks; i++) {
    segment_by_bytes(search->graph, threshold, weight, slacks[i], search->keep);
    if (take_better(&search->best, remat_build_keep(&search->builder, search->keep))) {
      search->best_threshold = threshold;
      search->best_weight = weight;
    }
  }
}

// The smallest and the largest threshold worth trying.
static void threshold_range(const RematGraph *graph, double weight, double *low, double *high) {
  double pressure = 0;
  *low = 1;
  *high = 1;
  for (int v = 0; v < graph->forward_end; v++) {
    const RematNode *node = &graph->problem->nodes[v];
    if (!node->recomputable || !graph->used_backward[v]) continue;
    pressure = fmax(pressure, weight * (double)graph->pressure[v]);
    *low = fmax(*low, (double)node->bytes + weight * (double)graph->pressure[v]);
    *high += (double)node->bytes;
  }
  *high += pressure;
}

// Cubic spacing: small thresholds matter most, and multiplication gives the same bits everywhere, unlike pow.
static double spread(double low, double high, int i, int n) {
  double fraction = (double)i / n;
  return low + (high - low) * fraction * fraction * fraction;
}

RematSchedule remat_policy_sqrt(const RematProblem *problem) {
  enum { COARSE = 40, FINE = 12 };
  RematGraph graph = remat_graph_create(problem);
  SegmentSearch search = {.graph = &graph, .builder = remat_builder_create(&graph), .best = remat_baseline(problem)};
  search.keep = solver_allocate((size_t)graph.n, sizeof(bool));
  for (int weight = 0; weight <= 1; weight++) {
    double low, high;
    threshold_range(&graph, weight, &low, &high);
    for (int i = 1; i <= COARSE && high > low; i++) try_threshold(&search, spread(low, high, i, COARSE), weight);
  }
  double center = search.best_threshold;
  for (int i = -FINE; i <= FINE && center > 0; i++)
    try_threshold(&search, center * (1 + 0.02 * i), search.best_weight);
  RematSchedule best = search.best;
  free(search.keep);
  remat_builder_free(&search.builder);
  remat_graph_free(&graph);
  return best;
}

void remat_each_segmentation(const RematGraph *graph, int n_thresholds,
                             void (*visit)(void *context, const RematSchedule *schedule), void *context) {
  RematBuilder builder = remat_builder_create(graph);
  bool *keep = solver_allocate((size_t)graph->n, sizeof *keep);
  double low, high;
  threshold_range(graph, 1, &low, &high);
  for (int i = 1; i <= n_thresholds && high > low; i++) {
    for (int wide = 0; wide < 2; wide++) {
      segment_by_bytes(graph, spread(low, high, i, n_thresholds), 1, wide ? 1e30 : 1.2, keep);
      RematSchedule schedule = remat_build_keep(&builder, keep);
      visit(context, &schedule);
      remat_schedule_free(&schedule);
    }
  }
  free(keep);
  remat_builder_free(&builder);
}

// A schedule that keeps the forward values `keeps` says to and recomputes the others once.
static RematSchedule run_keep_policy(const RematProblem *problem, bool (*keeps)(const RematNode *)) {
  RematGraph graph = remat_graph_create(problem);
  RematBuilder builder = remat_builder_create(&graph);
  bool *keep = solver_allocate((size_t)graph.n, sizeof *keep);
  for (int v = 0; v < graph.forward_end; v++) keep[v] = keeps(&problem->nodes[v]);
  RematSchedule schedule = remat_build_keep(&builder, keep);
  free(keep);
  remat_builder_free(&builder);
  remat_graph_free(&graph);
  return schedule;
}

static bool is_expensive(const RematNode *node) { return node->cost_class == REMAT_EXPENSIVE; }
static bool is_checkpoint(const RematNode *node) { return node->checkpoint; }

RematSchedule remat_policy_speed(const RematProblem *problem) { return run_keep_policy(problem, is_expensive); }
RematSchedule remat_policy_manual(const RematProblem *problem) { return run_keep_policy(problem, is_checkpoint); }

void remat_each_seed(const RematProblem *problem, void (*visit)(void *context, const RematSchedule *schedule),
                     void *context) {
  enum { THRESHOLDS = 24 };
  for (RematPolicy policy = REMAT_POLICY_NONE; policy <= REMAT_POLICY_RECURSIVE; policy++) {
    RematSchedule schedule = remat_policy_run(problem, policy);
    visit(context, &schedule);
    remat_schedule_free(&schedule);
  }
  RematGraph graph = remat_graph_create(problem);
  remat_each_segmentation(&graph, THRESHOLDS, visit, context);
  remat_graph_free(&graph);
}

bool remat_policy_parse(const char *name, RematPolicy *policy) {
  static const struct {
    const char *name;
    RematPolicy policy;
  } table[] = {{"none", REMAT_POLICY_NONE},     {"sqrt", REMAT_POLICY_SQRT},           {"speed", REMAT_POLICY_SPEED},
               {"manual", REMAT_POLICY_MANUAL}, {"recursive", REMAT_POLICY_RECURSIVE}, {"solve", REMAT_POLICY_SOLVE},
               {"auto", REMAT_POLICY_SOLVE}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (strcmp(name, table[i].name) == 0) {
      *policy = table[i].policy;
      return true;
    }
  return false;
}

RematSchedule remat_policy_run(const RematProblem *problem, RematPolicy policy) {
  switch (policy) {
    case REMAT_POLICY_SQRT: return remat_policy_sqrt(problem);
    case REMAT_POLICY_SPEED: return remat_policy_speed(problem);
    case REMAT_POLICY_MANUAL: return remat_policy_manual(problem);
    case REMAT_POLICY_RECURSIVE: return remat_policy_recursive(problem);
    case REMAT_POLICY_NONE:
    case REMAT_POLICY_SOLVE: break;
  }
  return remat_baseline(problem);
}
