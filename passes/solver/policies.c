// policies.c: schedules made without a budget. All of them rest on one picture of the forward pass: a cut at position
// b is crossed by the values defined before b and used at or after it; where a single small value crosses we have an
// articulation point of a chain, but any cut serves, so U-shaped and dense graphs need no special case.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "support/alloc.h"

RematSchedule remat_baseline(const RematProblem *problem) {
  int *exec = allocate_array((size_t)problem->n_nodes, sizeof *exec);
  int n = 0;
  for (int v = 0; v < problem->n_nodes; v++)
    if (!problem->nodes[v].home) exec[n++] = v;
  RematSchedule schedule = remat_schedule_measure(problem, exec, n);
  free(exec);
  return schedule;
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

// When a segment ends.
typedef struct SegmentLimits {
  double values;   // bytes: what is kept before the segment and what the backward pass needs inside it
  double all;      // bytes: the same, with what else is live by then
  double slack;    // see choose_cut
} SegmentLimits;

// Segments the forward pass as long as the limits allow. The last segment is kept whole: its backward pass follows at
// once.
static void segment_by_bytes(const RematGraph *graph, const SegmentLimits *limits, bool *keep) {
  memset(keep, 0, (size_t)graph->n * sizeof *keep);
  int64_t kept = 0, inside = 0, pressure = 0;
  int start = 0;
  for (int v = 0; v < graph->forward_end; v++) {
    const RematNode *node = &graph->problem->nodes[v];
    int64_t bytes = graph->used_backward[v] && node->recomputable ? node->bytes : 0;
    if (bytes > 0 && graph->pressure[v] > pressure) pressure = graph->pressure[v];
    double values = (double)(kept + inside + bytes);
    if (v > start && (values > limits->values || values + (double)pressure > limits->all)) {
      int cut = choose_cut(graph, start, v, limits->slack);
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

// The smallest and the largest limits worth trying.
typedef struct LimitRange {
  SegmentLimits low, high;
} LimitRange;

static LimitRange limit_range(const RematGraph *graph) {
  LimitRange range = {.low = {1, 1, 0}, .high = {1, 1, 0}};
  double pressure = 0;
  for (int v = 0; v < graph->forward_end; v++) {
    const RematNode *node = &graph->problem->nodes[v];
    if (!node->recomputable || !graph->used_backward[v]) continue;
    pressure = fmax(pressure, (double)graph->pressure[v]);
    range.low.values = fmax(range.low.values, (double)node->bytes);
    range.low.all = fmax(range.low.all, (double)(node->bytes + graph->pressure[v]));
    range.high.values += (double)node->bytes;
  }
  range.high.all = range.high.values + pressure;
  return range;
}

// Cubic spacing: small limits matter most, and multiplication gives the same bits everywhere, unlike pow.
static double spread(double low, double high, int i, int n) {
  double fraction = (double)i / n;
  return low + (high - low) * fraction * fraction * fraction;
}

typedef struct SegmentSearch {
  const RematGraph *graph;
  RematBuilder builder;
  bool *keep;
  int64_t base_peak, base_activations;   // of the plain order
  double base_cost;
  RematSchedule best;
  SegmentLimits best_limits;
} SegmentSearch;

static bool halves(const SegmentSearch *search, const RematSchedule *schedule) {
  return schedule->activations <= search->base_activations / 2 && schedule->peak <= search->base_peak;
}

// What halves the activations comes first; then by peak, activations, cost.
static bool is_better(const SegmentSearch *search, const RematSchedule *a, const RematSchedule *b) {
  if (halves(search, a) != halves(search, b)) return halves(search, a);
  if (a->peak != b->peak) return a->peak < b->peak;
  if (a->activations != b->activations) return a->activations < b->activations;
  return a->cost < b->cost;
}

static void try_limits(SegmentSearch *search, double values, double all) {
  static const double slacks[] = {1.0, 1.5, 1e30};
  for (size_t i = 0; i < sizeof slacks / sizeof *slacks; i++) {
    SegmentLimits limits = {values, all, slacks[i]};
    segment_by_bytes(search->graph, &limits, search->keep);
    RematSchedule candidate = remat_build_keep(&search->builder, search->keep);
    if (is_better(search, &candidate, &search->best)) {
      remat_schedule_free(&search->best);
      search->best = candidate;
      search->best_limits = limits;
    } else {
      remat_schedule_free(&candidate);
    }
  }
}

// The dynamic program knows more than segments that are recomputed once: at most one forward pass more, in any way.
static void try_chain(SegmentSearch *search) {
  const RematGraph *graph = search->graph;
  double most = search->base_cost;
  for (int v = 0; v < graph->forward_end; v++)
    if (graph->problem->nodes[v].recomputable) most += graph->problem->nodes[v].cost;
  RematSchedule candidate;
  if (!remat_build_within_cost(graph, most, &candidate)) return;
  if (is_better(search, &candidate, &search->best)) {
    remat_schedule_free(&search->best);
    search->best = candidate;
  } else {
    remat_schedule_free(&candidate);
  }
}

RematSchedule remat_policy_sqrt(const RematProblem *problem) {
  enum { COARSE = 40, FINE = 12 };
  RematGraph graph = remat_graph_create(problem);
  SegmentSearch search = {.graph = &graph, .builder = remat_builder_create(&graph), .best = remat_baseline(problem)};
  search.best_limits = (SegmentLimits){INFINITY, INFINITY, 1};
  search.base_peak = search.best.peak;
  search.base_activations = search.best.activations;
  search.base_cost = search.best.cost;
  search.keep = allocate_array((size_t)graph.n, sizeof(bool));
  LimitRange range = limit_range(&graph);
  bool any = range.high.values > range.low.values;
  for (int i = 1; i <= COARSE && any; i++)
    try_limits(&search, spread(range.low.values, range.high.values, i, COARSE), INFINITY);
  for (int i = 1; i <= COARSE && any; i++)
    try_limits(&search, INFINITY, spread(range.low.all, range.high.all, i, COARSE));
  SegmentLimits center = search.best_limits;
  for (int i = -FINE; i <= FINE && any; i++)
    try_limits(&search, center.values * (1 + 0.02 * i), center.all * (1 + 0.02 * i));
  // Segments near the output may be shorter than the peak asks for.
  center = search.best_limits;
  for (int i = 1; i <= COARSE && any && isinf(center.values); i++)
    try_limits(&search, spread(range.low.values, range.high.values, i, COARSE), center.all);
  try_chain(&search);
  RematSchedule best = search.best;
  free(search.keep);
  remat_builder_free(&search.builder);
  remat_graph_free(&graph);
  return best;
}

void remat_each_segmentation(const RematGraph *graph, int n_limits,
                             void (*visit)(void *context, const RematSchedule *schedule), void *context) {
  RematBuilder builder = remat_builder_create(graph);
  bool *keep = allocate_array((size_t)graph->n, sizeof *keep);
  LimitRange range = limit_range(graph);
  for (int i = 1; i <= n_limits && range.high.values > range.low.values; i++) {
    for (int wide = 0; wide < 2; wide++) {
      SegmentLimits limits = {INFINITY, spread(range.low.all, range.high.all, i, n_limits), wide ? 1e30 : 1.2};
      segment_by_bytes(graph, &limits, keep);
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
  bool *keep = allocate_array((size_t)graph.n, sizeof *keep);
  for (int v = 0; v < graph.forward_end; v++) keep[v] = keeps(&problem->nodes[v]);
  RematSchedule schedule = remat_build_keep(&builder, keep);
  free(keep);
  remat_builder_free(&builder);
  remat_graph_free(&graph);
  return schedule;
}

// Salimans & Bulatov's `speed`: keeps expensive values, recomputes cheap ones once, before their first backward use.
static bool is_expensive(const RematNode *node) { return node->cost_class == REMAT_EXPENSIVE; }
// `manual`: keeps the forward values marked `checkpoint`, recomputes the others likewise.
static bool is_checkpoint(const RematNode *node) { return node->checkpoint; }

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
  case REMAT_POLICY_SPEED: return run_keep_policy(problem, is_expensive);
  case REMAT_POLICY_MANUAL: return run_keep_policy(problem, is_checkpoint);
  case REMAT_POLICY_RECURSIVE: return remat_policy_recursive(problem);
  case REMAT_POLICY_NONE:
  case REMAT_POLICY_SOLVE: break;
  }
  return remat_baseline(problem);
}
