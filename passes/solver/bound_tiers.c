// bound_tiers.c: a makespan that no schedule of a problem with a far tier goes below. At the time when a node executes
// first, what is needed later and not near is executed again later, or has been stored before and is fetched later. So
// that time, and the time that is left, are at least any weighted mean of what the three lanes do in them, and a
// minimum cut (bound_network.h) gives the least for all choices. The bound is the largest over moments and weights;
// docs/remat.md has the proof.
#include "bound_moments.h"
#include "support/alloc.h"

#include <math.h>
#include <stdlib.h>

// Weights of the lanes before and after a moment; of each the rest is the lane that computes.
typedef struct Shares {
  double out_before, in_before, out_after, in_after;
} Shares;

typedef struct Moment {
  int node;
  int64_t live;    // in the plain order
  double bound;    // as a makespan
  Shares shares;   // at which it was found
  double price;
} Moment;

typedef struct TierBound {
  BoundGraph graph;
  BoundNetwork network;
  Moment *moments;   // Owned; promising ones first
  int n_moments;
  double best;   // makespan
  double deadline;
} TierBound;

static int compare_live(const void *left, const void *right) {
  const Moment *a = left, *b = right;
  if (a->live != b->live) return a->live > b->live ? -1 : 1;
  return a->node - b->node;
}

static int compare_bounds(const void *left, const void *right) {
  const Moment *a = left, *b = right;
  if (a->bound != b->bound) return a->bound > b->bound ? -1 : 1;
  return a->node - b->node;
}

static void list_moments(TierBound *bound, const RematProblem *problem) {
  RematSchedule plain = remat_baseline(problem);
  RematSimulation simulation;
  bound->moments = allocate_array((size_t)plain.n, sizeof *bound->moments);
  if (remat_simulate(problem, plain.exec, plain.n, &simulation, NULL)) {
    for (int p = 0; p < plain.n; p++)
      bound->moments[p] = (Moment){plain.exec[p], simulation.live[p], 0, {0, 0, 0, 0}, 0};
    bound->n_moments = plain.n;
    remat_simulation_free(&simulation);
  }
  qsort(bound->moments, (size_t)bound->n_moments, sizeof *bound->moments, compare_live);
  remat_schedule_free(&plain);
}

static double compute_before(Shares shares) { return fmax(1 - shares.out_before - shares.in_before, 0); }
static double compute_after(Shares shares) { return fmax(1 - shares.out_after - shares.in_after, 0); }

static bool has_user(const TierBound *bound, int v, unsigned char relation) {
  const BoundGraph *graph = &bound->graph;
  for (int i = graph->user_start[v]; i < graph->user_start[v + 1]; i++)
    if (bound->network.relation[graph->users[i]] == relation) return true;
  return false;
}

// The least that the lanes do, weighted, when the value is not near at the moment but needed later, or when the home is
// far and not near at the moment.
static double move_cost(const TierBound *bound, int v, Shares shares) {
  const RematTier *far = bound->graph.problem->far;
  const RematNode *node = &bound->graph.problem->nodes[v];
  double bytes = (double)node->bytes, out = far->latency + bytes / far->out_rate,
         in = far->latency + bytes / far->in_rate;
  double before = compute_before(shares) * far->drag * bytes, after = compute_after(shares) * far->drag * bytes;
  double store_before = shares.out_before * out + before, fetch_after = shares.in_after * in + after;
  if (!node->home) return store_before + fetch_after;
  double cost = 0;
  if (has_user(bound, v, BOUND_ANCESTOR)) cost += shares.in_before * in + before;
  if (has_user(bound, v, BOUND_DESCENDANT)) cost += fetch_after;
  if (node->updated_by && bound->network.relation[node->updated_by] == BOUND_DESCENDANT)
    cost += shares.out_after * out + after;
  if (node->updated_by && bound->network.relation[node->updated_by] == BOUND_ANCESTOR) cost += store_before;
  return cost;
}

// What the lanes do anyway, weighted: a node that is neither before nor after counts where it weighs less.
static double certain_cost(const TierBound *bound, Shares shares) {
  double before = compute_before(shares), after = compute_after(shares), sum = 0;
  for (int v = 0; v < bound->graph.n; v++) {
    unsigned char relation = bound->network.relation[v];
    double weight = relation == BOUND_ANCESTOR ? before : relation == BOUND_OTHER ? fmin(before, after) : after;
    sum += weight * bound->graph.problem->nodes[v].cost;
  }
  return sum;
}

// Builds the moment's network for these shares. The shape does not depend on them.
static void build(TierBound *bound, const Moment *moment, Shares shares) {
  BoundGraph *graph = &bound->graph;
  for (int v = 0; v < graph->n; v++)
    graph->cost[v] = (int64_t)(compute_after(shares) * graph->problem->nodes[v].cost * graph->scale);
  bound_network_clear(graph, &bound->network);
  bound_network_add(graph, &bound->network, moment->node, -1, false);
  bound_network_finish(&bound->network);
  graph->all_costs = 0x1p46 * 1.001;
  for (int v = 0; v < graph->n; v++) {
    if (graph->move[v] == BOUND_NEVER) continue;
    graph->move[v] = (int64_t)fmin(move_cost(bound, v, shares) * graph->scale, 0x1p50);
    graph->all_costs += (double)graph->move[v];
  }
}

// With what a cut costs, in scaled costs. Those were rounded down, and so is this.
static double as_makespan(const TierBound *bound, Shares shares, double cut) {
  if (isinf(cut)) return INFINITY;
  double added = bound->graph.scale > 0 ? fmax(cut - 64, 0) / bound->graph.scale : 0;
  return (certain_cost(bound, shares) + added) * (1 - 1e-9);
}

static double price_shares(TierBound *bound, Moment *moment, Shares shares) {
  build(bound, moment, shares);
  PriceResult result = bound_price_search(&bound->network, NULL, moment->price, 0, INFINITY);
  if (result.price > 0) moment->price = result.price;
  double makespan = as_makespan(bound, shares, result.bound);
  if (makespan > moment->bound) {
    moment->bound = makespan;
    moment->shares = shares;
  }
  if (makespan > bound->best) bound->best = makespan;
  return makespan;
}

static bool is_late(const TierBound *bound) { return watch_counted() > bound->deadline; }

static bool are_weights(Shares shares) {
  return shares.out_before >= 0 && shares.in_before >= 0 && shares.out_after >= 0 && shares.in_after >= 0 &&
         shares.out_before + shares.in_before <= 1 && shares.out_after + shares.in_after <= 1;
}

// The value is concave in the shares: a coarse look, then ever smaller steps from the best.
static void choose_shares(TierBound *bound, Moment *moment) {
  static const Shares coarse[] = {{0.1, 0, 0, 0.1},     {0.01, 0, 0, 0.01},  {0.3, 0, 0, 0.3}, {0.03, 0, 0, 0.03},
                                  {0.6, 0, 0, 0},       {0, 0, 0, 0.6},      {0.7, 0, 0, 0.7}, {0.003, 0, 0, 0.003},
                                  {0.1, 0.1, 0.1, 0.1}, {0.3, 0.3, 0.3, 0.3}};
  static const Shares directions[] = {{1, 0, 0, 0},   {-1, 0, 0, 0}, {0, 0, 0, 1},  {0, 0, 0, -1}, {1, 0, 0, 1},
                                      {-1, 0, 0, -1}, {0, 1, 0, 0},  {0, -1, 0, 0}, {0, 0, 1, 0},  {0, 0, -1, 0}};
  enum { COARSE = sizeof coarse / sizeof *coarse, DIRECTIONS = sizeof directions / sizeof *directions };
  for (int i = 0; i < COARSE && !is_late(bound); i++) price_shares(bound, moment, coarse[i]);
  Shares at = moment->shares;
  double most = fmax(fmax(at.out_before, at.in_before), fmax(at.out_after, at.in_after));
  for (double step = most / 2; step > most / 80 && !is_late(bound); step /= 2) {
    for (int i = 0; i < DIRECTIONS && !is_late(bound); i++) {
      Shares by = directions[i];
      at = moment->shares;
      Shares next = {at.out_before + step * by.out_before, at.in_before + step * by.in_before,
                     at.out_after + step * by.out_after, at.in_after + step * by.in_after};
      if (!are_weights(next)) continue;
      double before = moment->bound;
      if (price_shares(bound, moment, next) > before) i--;   // once more in this direction
    }
  }
}

double bound_by_tiers(const RematProblem *problem, int64_t budget_bytes, double limit) {
  TierBound bound = {.graph = bound_graph_create(problem, budget_bytes), .deadline = watch_counted() + limit};
  bound.best = bound.graph.base_cost;
  bound_graph_allow_moves(&bound.graph);
  bound.network = bound_network_create(&bound.graph);
  list_moments(&bound, problem);
  double end = bound.deadline, start = watch_counted();
  // Shares for the fullest moment; others begin from those; then shares for the best few, and integers.
  if (bound.n_moments > 0) {
    bound.deadline = start + 0.3 * (end - start);
    choose_shares(&bound, &bound.moments[0]);
    Shares shares = bound.moments[0].shares;
    double price = bound.moments[0].price;
    bound.deadline = start + 0.6 * (end - start);
    for (int i = 1; i < bound.n_moments && !is_late(&bound); i++) {
      bound.moments[i].price = price;
      price_shares(&bound, &bound.moments[i], shares);
    }
    qsort(bound.moments, (size_t)bound.n_moments, sizeof *bound.moments, compare_bounds);
  }
  for (int i = 0; i < bound.n_moments && watch_counted() < end; i++) {
    bound.deadline = fmin(end, watch_counted() + 0.5 * (end - watch_counted()));
    choose_shares(&bound, &bound.moments[i]);
    Moment *moment = &bound.moments[i];
    build(&bound, moment, moment->shares);
    PriceResult root = bound_price_search(&bound.network, NULL, moment->price, 0, INFINITY);
    double whole = bound_branch(&bound.network, &root, 0, bound.deadline);
    bound.best = fmax(bound.best, as_makespan(&bound, moment->shares, whole));
  }
  double best = bound.best;
  bound_network_free(&bound.network);
  bound_graph_free(&bound.graph);
  free(bound.moments);
  return best;
}
