// baselines.c: published checkpointing heuristics, to compare with. They share the graph facts and the builders of the
// policies, but none of their improvements: cuts by count or by bytes alone, every segment recomputed once, or binomial
// over steps taken to be equal.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "support/alloc.h"

const char *remat_baseline_name(RematBaselineKind kind) {
  static const char *const names[] = {"chen-sqrt", "chen-greedy", "revolve", "memory", "speed"};
  return kind >= 0 && kind < REMAT_BASELINES ? names[kind] : "unknown";
}

// Keeps what crosses the cut at `b`.
static void keep_cut(const RematGraph *graph, int b, bool *keep) {
  for (int v = 0; v < b; v++)
    if (graph->last_forward_use[v] >= b) keep[v] = true;
}

static RematSchedule build_and_free(const RematGraph *graph, bool *keep) {
  RematBuilder builder = remat_builder_create(graph);
  RematSchedule schedule = remat_build_keep(&builder, keep);
  remat_builder_free(&builder);
  free(keep);
  return schedule;
}

static RematSchedule run_chen_sqrt(const RematGraph *graph) {
  bool *keep = allocate_array((size_t)graph->n, sizeof *keep);
  int end = graph->forward_end, segments = (int)ceil(sqrt((double)end));
  for (int s = 1; s < segments; s++) keep_cut(graph, (int)((int64_t)end * s / segments), keep);
  return build_and_free(graph, keep);
}

static RematSchedule run_chen_greedy(const RematGraph *graph) {
  enum { TRIALS = 40 };
  int64_t total = 0;
  for (int v = 0; v < graph->forward_end; v++) total += graph->problem->nodes[v].bytes;
  RematSchedule best = {0};
  for (int i = 1; i <= TRIALS; i++) {
    bool *keep = allocate_array((size_t)graph->n, sizeof *keep);
    double limit = (double)total * i * i / (TRIALS * TRIALS);
    int64_t inside = 0;
    for (int v = 0; v < graph->forward_end; v++) {
      inside += graph->problem->nodes[v].bytes;
      if ((double)inside <= limit) continue;
      keep_cut(graph, v + 1, keep);
      inside = 0;
    }
    RematSchedule schedule = build_and_free(graph, keep);
    if (!best.exec || schedule.peak < best.peak || (schedule.peak == best.peak && schedule.cost < best.cost)) {
      remat_schedule_free(&best);
      best = schedule;
    } else {
      remat_schedule_free(&schedule);
    }
  }
  return best;
}

// Positions of the forward pass that a single value crosses, ascending; Owned.
static int *list_articulations(const RematGraph *graph, int *count) {
  int end = graph->forward_end;
  int *crossing = allocate_array((size_t)end + 2, sizeof *crossing);
  int *list = allocate_array((size_t)end + 1, sizeof *list);
  for (int v = 0; v < end; v++)
    if (graph->problem->nodes[v].recomputable && graph->last_forward_use[v] > v) {
      crossing[v + 1]++;
      crossing[graph->last_forward_use[v] + 1]--;
    }
  *count = 0;
  for (int b = 1; b < end; b++) {
    crossing[b] += crossing[b - 1];
    if (crossing[b] == 1) list[(*count)++] = b;
  }
  free(crossing);
  return list;
}

static RematSchedule run_memory(const RematGraph *graph) {
  bool *keep = allocate_array((size_t)graph->n, sizeof *keep);
  int count, wanted = (int)ceil(sqrt((double)graph->forward_end));
  int *list = list_articulations(graph, &count);
  int step = count <= wanted ? 1 : count / wanted;
  if (count == 0) memset(keep, true, (size_t)graph->n * sizeof *keep);
  for (int i = step - 1; i < count; i += step) keep_cut(graph, list[i], keep);
  free(list);
  return build_and_free(graph, keep);
}

static RematSchedule run_speed(const RematGraph *graph) {
  bool *keep = allocate_array((size_t)graph->n, sizeof *keep);
  for (int v = 0; v < graph->forward_end; v++) keep[v] = graph->problem->nodes[v].cost_class == REMAT_EXPENSIVE;
  return build_and_free(graph, keep);
}

// ---- Revolve ----

typedef struct Steps {
  int n;
  int *begin;     // Owned, n + 1; forward node at which each step begins
  int *step_of;   // Owned; by forward node
} Steps;

// Large enough for any number of steps; does not overflow.
static int64_t binomial(int n, int k) {
  double value = 1;
  if (k < 0 || k > n) return 0;
  for (int i = 1; i <= k && value < 1e15; i++) value = value * (n - k + i) / i;
  return value < 1e15 ? (int64_t)(value + 0.5) : INT64_C(1000000000000000);
}

// Steps to run ahead before the next checkpoint, with `slots` of them left for `steps` steps: the least number of
// repetitions r with steps <= C(slots + r, slots) bounds it from both sides.
static int binomial_split(int steps, int slots) {
  int r = 1;
  while (binomial(slots + r, slots) < steps) r++;
  int64_t least = binomial(slots + r - 2, slots), rest = steps - binomial(slots + r - 1, slots - 1);
  int64_t split = rest > least ? rest : least;
  if (split < 1) split = 1;
  return split < steps ? (int)split : steps - 1;
}

static WalkStep choose_revolve(const void *context, const WalkLevel *level) {
  const Steps *steps = context;
  int low = steps->step_of[level->low], high = steps->step_of[level->high - 1] + 1, slots = (int)level->memory;
  if (high - low <= 1) return (WalkStep){.at = level->high};
  if (slots <= 0) return (WalkStep){.at = steps->begin[high - 1]};
  return (WalkStep){.at = steps->begin[low + binomial_split(high - low, slots)], .right_memory = slots - 1};
}

static RematSchedule run_revolve(const RematGraph *graph, int slots) {
  int count, *list = list_articulations(graph, &count);
  Steps steps = {.begin = allocate_array((size_t)count + 2, sizeof(int)),
                 .step_of = allocate_array((size_t)graph->forward_end, sizeof(int))};
  for (int i = 0; i < count; i++) steps.begin[++steps.n] = list[i];
  steps.begin[++steps.n] = graph->forward_end;
  for (int s = 0; s < steps.n; s++)
    for (int v = steps.begin[s]; v < steps.begin[s + 1]; v++) steps.step_of[v] = s;
  if (slots <= 0) slots = (int)ceil(sqrt((double)steps.n));
  RematBuilder builder = remat_builder_create(graph);
  WalkRule rule = {.choose = choose_revolve, .context = &steps, .memory = slots};
  bool built = graph->forward_end > 0 && remat_build_walk(&builder, &rule);
  RematSchedule schedule = built ? remat_schedule_measure(graph->problem, builder.exec, builder.n)
                                 : remat_baseline(graph->problem);
  remat_builder_free(&builder);
  free(list);
  free(steps.begin);
  free(steps.step_of);
  return schedule;
}

RematSchedule remat_baseline_policy(const RematProblem *problem, RematBaselineKind kind, int slots) {
  RematGraph graph = remat_graph_create(problem);
  RematSchedule schedule = {0};
  switch (kind) {
  case REMAT_BASELINE_CHEN_SQRT: schedule = run_chen_sqrt(&graph); break;
  case REMAT_BASELINE_CHEN_GREEDY: schedule = run_chen_greedy(&graph); break;
  case REMAT_BASELINE_REVOLVE: schedule = run_revolve(&graph, slots); break;
  case REMAT_BASELINE_MEMORY: schedule = run_memory(&graph); break;
  case REMAT_BASELINE_SPEED: schedule = run_speed(&graph); break;
  case REMAT_BASELINES: schedule = remat_baseline(problem); break;
  }
  remat_graph_free(&graph);
  return schedule;
}
