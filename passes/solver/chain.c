// chain.c: the forward pass as a chain of segments, checkpointed by dynamic programming for a given memory (Rotor,
// Beaumont et al. 2019, after Griewank's revolve). State (i, j, m): run the backward pass of segments i .. j - 1 when
// the values entering segment i are held and m units are free. Either run ahead to a cut k, hold what crosses it, do
// (k, j) and then (i, k) again from the start; or hold all of segment i at once and do (i + 1, j).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { MAX_UNITS = 128, RUN_ALL = -1, INFEASIBLE = -2 };

typedef struct Chain {
  const RematGraph *graph;
  int n;              // segments
  int units;          // memory in units
  double unit_bytes;
  int *begin;         // Owned, n + 1; first forward node of each segment
  int *segment_of;    // Owned; per forward node
  double *forward;    // Owned, n + 1; cost of segments before each
  int *inside;        // Owned; units of what the backward pass uses of a segment
  int *crossing;      // Owned, (n + 1)^2; [i][k] units that cross into segment k and were made in segments i .. k - 1
  float *cost;        // Owned; by state
  short *choice;      // Owned; by state: a cut, RUN_ALL or INFEASIBLE
} Chain;

static size_t state_index(const Chain *chain, int i, int j, int m) {
  return ((size_t)i * (size_t)(chain->n + 1) + (size_t)j) * (size_t)(chain->units + 1) + (size_t)m;
}

static int to_units(const Chain *chain, int64_t bytes) {
  return (int)fmin(ceil((double)bytes / chain->unit_bytes), 1e6);
}

// Cuts the forward pass into at most `limit` segments of about equally many nodes, at the smallest cut near each bound.
static void cut_segments(Chain *chain, int limit) {
  const RematGraph *graph = chain->graph;
  int end = graph->forward_end, count = end < limit ? end : limit;
  chain->begin = solver_allocate((size_t)count + 1, sizeof(int));
  chain->segment_of = solver_allocate((size_t)end, sizeof(int));
  chain->n = 0;
  for (int s = 1; s <= count; s++) {
    int low = (int)((int64_t)end * (s - 1) / count) + 1, high = (int)((int64_t)end * s / count), best = high;
    for (int b = high; b >= low && s < count; b--)
      if (graph->crossing[b] < graph->crossing[best]) best = b;
    chain->begin[++chain->n] = best;
  }
  for (int s = 0; s < chain->n; s++)
    for (int v = chain->begin[s]; v < chain->begin[s + 1]; v++) chain->segment_of[v] = s;
}

static void size_segments(Chain *chain) {
  const RematGraph *graph = chain->graph;
  size_t side = (size_t)chain->n + 1;
  int64_t *bytes = solver_allocate(side * side, sizeof *bytes), *inside = solver_allocate(side, sizeof *inside);
  chain->forward = solver_allocate(side, sizeof(double));
  chain->inside = solver_allocate(side, sizeof(int));
  chain->crossing = solver_allocate(side * side, sizeof(int));
  for (int v = 0; v < graph->forward_end; v++) {
    const RematNode *node = &graph->problem->nodes[v];
    int s = chain->segment_of[v], last = chain->segment_of[graph->last_forward_use[v]];
    chain->forward[s + 1] += node->cost;
    if (!node->recomputable) continue;
    if (graph->used_backward[v] || last > s) inside[s] += node->bytes;
    for (int k = s + 1; k <= last; k++) bytes[(size_t)s * side + (size_t)k] += node->bytes;
  }
  for (int s = chain->n - 1; s >= 0; s--)
    for (size_t k = 0; k < side; k++) bytes[(size_t)s * side + k] += bytes[((size_t)s + 1) * side + k];
  for (size_t i = 0; i < side * side; i++) chain->crossing[i] = to_units(chain, bytes[i]);
  for (int s = 0; s < chain->n; s++) {
    chain->forward[s + 1] += chain->forward[s];
    chain->inside[s] = to_units(chain, inside[s]);
  }
  free(bytes);
  free(inside);
}

static void solve_state(Chain *chain, int i, int j, int m) {
  float best = INFINITY;
  int choice = INFEASIBLE;
  if (chain->inside[i] <= m) {
    float rest = j == i + 1 ? 0 : chain->cost[state_index(chain, i + 1, j, m - chain->inside[i])];
    best = (float)(chain->forward[i + 1] - chain->forward[i]) + rest;
    if (best < INFINITY) choice = RUN_ALL;
  }
  const int *crossing = chain->crossing + (size_t)i * (size_t)(chain->n + 1);
  for (int k = i + 1; k < j; k++) {
    if (crossing[k] > m) continue;
    float cost = (float)(chain->forward[k] - chain->forward[i]) +
                 chain->cost[state_index(chain, k, j, m - crossing[k])] + chain->cost[state_index(chain, i, k, m)];
    if (cost < best) {
      best = cost;
      choice = k;
    }
  }
  chain->cost[state_index(chain, i, j, m)] = best;
  chain->choice[state_index(chain, i, j, m)] = (short)choice;
}

static WalkStep choose_step(const void *context, const WalkLevel *level) {
  const Chain *chain = context;
  WalkStep step = {.at = level->high};
  if (level->high <= level->low + 1) return step;
  int i = chain->segment_of[level->low], m = (int)level->memory;
  int j = level->high == chain->graph->forward_end ? chain->n : chain->segment_of[level->high];
  if (j <= i + 1 || m < 0) return step;
  int choice = chain->choice[state_index(chain, i, j, m)];
  if (choice == INFEASIBLE) return step;
  step.hold_all = choice == RUN_ALL;
  int cut = step.hold_all ? i + 1 : choice;
  step.at = chain->begin[cut];
  step.right_memory =
      m - (step.hold_all ? chain->inside[i] : chain->crossing[(size_t)i * (size_t)(chain->n + 1) + (size_t)cut]);
  return step;
}

// Greatest common divisor of the sizes, so that a chain of equal values is solved without rounding.
static int64_t common_divisor(const RematGraph *graph) {
  int64_t divisor = 0;
  for (int v = 0; v < graph->forward_end; v++)
    for (int64_t a = graph->problem->nodes[v].bytes; a != 0;) {
      int64_t rest = divisor % a;
      divisor = a;
      a = rest;
    }
  return divisor;
}

static void chain_free(Chain *chain) {
  free(chain->begin);
  free(chain->segment_of);
  free(chain->forward);
  free(chain->inside);
  free(chain->crossing);
  free(chain->cost);
  free(chain->choice);
}

bool remat_build_chain(const RematGraph *graph, int64_t memory, RematSchedule *schedule) {
  if (graph->forward_end < 2 || memory <= 0) return false;
  Chain chain = {.graph = graph};
  int64_t divisor = common_divisor(graph);
  bool exact = divisor > 0 && memory / divisor <= MAX_UNITS;
  chain.units = exact ? (int)(memory / divisor) : MAX_UNITS;
  chain.unit_bytes = exact ? (double)divisor : (double)memory / MAX_UNITS;
  // The work grows with the cube of the number of segments; this keeps it well below a tenth of a second.
  cut_segments(&chain, (int)cbrt(2e8 / (chain.units + 1)));
  size_segments(&chain);
  size_t states = (size_t)(chain.n + 1) * (size_t)(chain.n + 1) * (size_t)(chain.units + 1);
  chain.cost = solver_allocate(states, sizeof(float));
  chain.choice = solver_allocate(states, sizeof(short));
  for (int length = 1; length <= chain.n; length++)
    for (int i = 0; i + length <= chain.n; i++)
      for (int m = 0; m <= chain.units; m++) solve_state(&chain, i, i + length, m);
  bool found = chain.choice[state_index(&chain, 0, chain.n, chain.units)] != INFEASIBLE;
  if (found) {
    RematBuilder builder = remat_builder_create(graph);
    WalkRule rule = {.choose = choose_step, .context = &chain, .memory = chain.units};
    found = remat_build_walk(&builder, &rule);
    if (found) *schedule = remat_schedule_measure(graph->problem, builder.exec, builder.n);
    remat_builder_free(&builder);
  }
  chain_free(&chain);
  return found;
}
