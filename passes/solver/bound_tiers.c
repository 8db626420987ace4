// bound_tiers.c: a makespan that no schedule of a problem with a far tier goes below. At the time when a node executes
// first, what is needed later and not near is executed again later, or has been stored before and is fetched later. So
// that time, and the time that is left, are at least any weighted mean of what the three lanes do in them, and a
// minimum cut (bound_network.h) gives the least for all choices. The bound is the largest over moments and weights;
// docs/remat.md has the proof.
#include "bound_moments.h"
#include "search.h"
#include "support/alloc.h"

#include <math.h>
#include <stdlib.h>

// Weights of the lanes before a moment, after it, and, where there is a late node, after that; of each the rest is the
// lane that computes.
typedef struct Shares {
  double out_before, in_before, out_after, in_after, out_late, in_late;
} Shares;

typedef struct Moment {
  int node;
  int64_t live;    // in the plain order
  bool early;      // it comes before the late node
  double bound;    // as a makespan
  Shares shares;   // at which it was found
  double price;
} Moment;

typedef struct TierBound {
  BoundGraph graph;
  BoundNetwork network;
  Moment *moments;   // Owned; promising ones first
  int n_moments;
  int late;                // node that updates of homes wait for, -1: none
  bool *before, *behind;   // Owned; per node: what comes before the late one, it and what comes behind it
  bool split;              // in the network the time after the moment ends where the late node executes
  double best;             // makespan
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
    for (int p = 0; p < plain.n; p++) bound->moments[p] = (Moment){.node = plain.exec[p], .live = simulation.live[p]};
    bound->n_moments = plain.n;
    remat_simulation_free(&simulation);
  }
  qsort(bound->moments, (size_t)bound->n_moments, sizeof *bound->moments, compare_live);
  remat_schedule_free(&plain);
}

static double rest(double out, double in) { return fmax(1 - out - in, 0); }

// Where something happens that certainly comes before the late node, or certainly behind it, or neither.
typedef enum Side { SOON, LATE, EITHER } Side;

static Side side_of(const TierBound *bound, int v) {
  return !bound->split || bound->before[v] ? SOON : bound->behind[v] ? LATE : EITHER;
}

// The less of the weighted times after the moment, where it is not certain on which side.
static double after(Side side, double soon, double late) {
  return side == SOON ? soon : side == LATE ? late : fmin(soon, late);
}

// What the lanes do for a home that is far and not near at the moment, in it and behind it.
static double home_cost(const TierBound *bound, int v, const double *before, const double *soon, const double *late) {
  const BoundGraph *graph = &bound->graph;
  int update = graph->problem->nodes[v].updated_by;
  bool read_before = false, read_after = false, read_soon = false;
  for (int i = graph->user_start[v]; i < graph->user_start[v + 1]; i++) {
    unsigned char relation = bound->network.relation[graph->users[i]];
    read_before |= relation == BOUND_ANCESTOR;
    read_after |= relation == BOUND_DESCENDANT;
    read_soon |= relation == BOUND_DESCENDANT && side_of(bound, graph->users[i]) == SOON;
  }
  double cost = read_before ? before[REMAT_FETCH] : 0;
  if (read_after) cost += after(read_soon ? SOON : EITHER, soon[REMAT_FETCH], late[REMAT_FETCH]);
  if (update && bound->network.relation[update] == BOUND_ANCESTOR) cost += before[REMAT_STORE];
  if (update && bound->network.relation[update] == BOUND_DESCENDANT)
    cost += after(side_of(bound, update), soon[REMAT_STORE], late[REMAT_STORE]);
  return cost;
}

// Weighted times of a store and a fetch of so many bytes, each with its drag.
static void price_copies(const RematTier *far, double bytes, double out, double in, double *costs) {
  double drag = rest(out, in) * far->drag * bytes;
  costs[REMAT_STORE] = out * (far->latency + bytes / far->out_rate) + drag;
  costs[REMAT_FETCH] = in * (far->latency + bytes / far->in_rate) + drag;
}

// The least that the lanes do, weighted, when the value is not near at the moment but needed later, or when the home is
// far and not near at the moment.
static double move_cost(const TierBound *bound, int v, Shares shares) {
  const RematTier *far = bound->graph.problem->far;
  const RematNode *node = &bound->graph.problem->nodes[v];
  double bytes = (double)node->bytes, before[REMAT_FETCH + 1], soon[REMAT_FETCH + 1], late[REMAT_FETCH + 1];
  price_copies(far, bytes, shares.out_before, shares.in_before, before);
  price_copies(far, bytes, shares.out_after, shares.in_after, soon);
  price_copies(far, bytes, shares.out_late, shares.in_late, late);
  return node->home ? home_cost(bound, v, before, soon, late) : before[REMAT_STORE] + soon[REMAT_FETCH];
}

// What the lanes do anyway, weighted: a node that is neither before nor after counts where it weighs less.
static double certain_cost(const TierBound *bound, Shares shares) {
  double before = rest(shares.out_before, shares.in_before), soon = rest(shares.out_after, shares.in_after);
  double late = rest(shares.out_late, shares.in_late), sum = 0;
  for (int v = 0; v < bound->graph.n; v++) {
    unsigned char relation = bound->network.relation[v];
    double behind = after(side_of(bound, v), soon, late);
    double weight = relation == BOUND_ANCESTOR ? before : relation == BOUND_OTHER ? fmin(before, behind) : behind;
    sum += weight * bound->graph.problem->nodes[v].cost;
  }
  return sum;
}

// Builds the moment's network for these shares. The shape does not depend on them.
static void build(TierBound *bound, const Moment *moment, Shares shares) {
  BoundGraph *graph = &bound->graph;
  double soon = rest(shares.out_after, shares.in_after);
  for (int v = 0; v < graph->n; v++) graph->cost[v] = (int64_t)(soon * graph->problem->nodes[v].cost * graph->scale);
  bound->split = moment->early;
  bound_network_build(&bound->network, moment->node, moment->early ? bound->late : -1);
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

static bool is_late(const TierBound *bound) { return watch_counted(bound->graph.problem) > bound->deadline; }

static bool are_weights(Shares shares) {
  return fmin(shares.out_before, shares.in_before) >= 0 && fmin(shares.out_after, shares.in_after) >= 0 &&
         fmin(shares.out_late, shares.in_late) >= 0 && shares.out_before + shares.in_before <= 1 &&
         shares.out_after + shares.in_after <= 1 && shares.out_late + shares.in_late <= 1;
}

// Some of the shares a little more or less, by a factor of 1 + 3 width at most, or more than none.
static Shares vary(Shares shares, double width, uint64_t *random) {
  double *all[] = {&shares.out_before, &shares.in_before, &shares.out_after,
                   &shares.in_after,   &shares.out_late,  &shares.in_late};
  enum { ALL = sizeof all / sizeof *all, SOME = 3, RARELY = 7 };
  double most = 0;
  for (int i = 0; i < ALL; i++) most = fmax(most, *all[i]);
  for (int i = 0; i < ALL; i++) {
    if (remat_random_below(random, SOME)) continue;
    double by = remat_random_unit(random) - 0.5;
    *all[i] *= by < 0 ? 1 / (1 - 6 * width * by) : 1 + 6 * width * by;
    if (!remat_random_below(random, RARELY)) *all[i] = fmax(0, *all[i] + most * width * by);
  }
  return shares;
}

// The value is concave in the shares, with ridges along which only several of them together lead up: a coarse look,
// then random steps from the best, which become ever smaller.
static void choose_shares(TierBound *bound, Moment *moment) {
  static const Shares coarse[] =
      {{0.03, 0, 0, 0.003, 0.03, 0.003}, {0.01, 0, 0, 0.01, 0.01, 0.01}, {0.1, 0, 0, 0.1, 0.1, 0.1},
       {0.03, 0, 0, 0.03, 0.03, 0.03},   {0.3, 0, 0, 0.3, 0.3, 0.3},     {0.6, 0, 0, 0, 0, 0},
       {0, 0, 0, 0.6, 0, 0.6},           {0.7, 0, 0, 0.7, 0, 0.7},       {0.003, 0, 0, 0.003, 0.003, 0.003},
       {0.1, 0.1, 0.1, 0.1, 0.1, 0.1},   {0.3, 0.3, 0.3, 0.3, 0.3, 0.3}, {0, 0, 0, 0, 1, 0}};
  enum { COARSE = sizeof coarse / sizeof *coarse, TRIES = 300, HALVING = 60 };
  for (int i = 0; i < COARSE && !is_late(bound); i++) price_shares(bound, moment, coarse[i]);
  if (moment->bound <= bound->graph.base_cost) return;
  uint64_t random = 1;
  double width = 1;
  for (int i = 1; i <= TRIES && !is_late(bound); i++) {
    Shares next = vary(moment->shares, width, &random);
    if (are_weights(next)) price_shares(bound, moment, next);
    if (i % HALVING == 0) width /= 2;
  }
}

// The node that updates of homes wait for, all of which are stored behind it: such as the norm of all gradients, that
// they are scaled by. What is copied then has little else beside it. Of what comes behind the fullest moment the one
// whose users update most bytes, where little is computed behind it.
static void find_late(TierBound *bound) {
  const BoundGraph *graph = &bound->graph;
  const RematProblem *problem = graph->problem;
  int64_t most = 0;
  bound->late = -1;
  bound->before = allocate_array(2 * (size_t)graph->n, sizeof *bound->before);
  bound->behind = bound->before + graph->n;
  if (bound->n_moments == 0) return;
  int64_t *updates = allocate_array((size_t)graph->n, sizeof *updates);   // bytes of homes, per node
  bool *after_moment = allocate_array((size_t)graph->n, sizeof *after_moment);
  for (int h = 0; h < graph->n; h++)
    if (problem->nodes[h].home && problem->nodes[h].updated_by)
      updates[problem->nodes[h].updated_by] += problem->nodes[h].bytes;
  after_moment[bound->moments[0].node] = true;
  for (int v = 0; v < graph->n; v++) {
    int64_t bytes = 0;
    for (int i = graph->user_start[v]; i < graph->user_start[v + 1]; i++) {
      after_moment[graph->users[i]] |= after_moment[v];
      bytes += updates[graph->users[i]];
    }
    if (!after_moment[v] || v == bound->moments[0].node || bytes <= most) continue;
    most = bytes;
    bound->late = v;
  }
  free(updates);
  free(after_moment);
}

// What comes before and behind the late node; where much is computed behind it, no moment is early.
static void mark_late(TierBound *bound) {
  enum { PART = 10 };
  const BoundGraph *graph = &bound->graph;
  double cost = 0;
  if (bound->late < 0) return;
  bound->behind[bound->late] = true;
  for (int v = bound->late; v < graph->n; v++) {
    if (!bound->behind[v]) continue;
    cost += graph->problem->nodes[v].cost;
    for (int i = graph->user_start[v]; i < graph->user_start[v + 1]; i++) bound->behind[graph->users[i]] = true;
    for (int i = graph->after_start[v]; i < graph->after_start[v + 1]; i++) bound->behind[graph->afters[i]] = true;
  }
  if (cost > graph->base_cost / PART) return;
  bound->before[bound->late] = true;
  for (int v = bound->late; v >= 0; v--) {
    const RematNode *node = &graph->problem->nodes[v];
    if (!bound->before[v]) continue;
    for (int i = 0; i < node->n_inputs; i++) bound->before[node->inputs[i]] = true;
    for (int i = graph->before_start[v]; i < graph->before_start[v + 1]; i++) bound->before[graph->befores[i]] = true;
  }
  bound->before[bound->late] = false;
  for (int i = 0; i < bound->n_moments; i++) bound->moments[i].early = bound->before[bound->moments[i].node];
}

double bound_by_tiers(const RematProblem *problem, int64_t budget_bytes, double limit) {
  int64_t steps = 0;
  RematProblem counted = watch_problem(problem, &steps);
  problem = &counted;
  TierBound bound = {.graph = bound_graph_create(problem, budget_bytes), .deadline = watch_counted(problem) + limit};
  bound.best = bound.graph.base_cost;
  bound_graph_allow_moves(&bound.graph);
  bound.network = bound_network_create(&bound.graph);
  list_moments(&bound, problem);
  find_late(&bound);
  mark_late(&bound);
  double end = bound.deadline, start = watch_counted(problem);
  // Shares for the fullest moment that adds something; others begin from those; then shares for the best few, and
  // integers.
  int first = 0;
  bound.deadline = start + 0.3 * (end - start);
  for (bool adds = false; !adds && first < bound.n_moments && !is_late(&bound); first++) {
    choose_shares(&bound, &bound.moments[first]);
    adds = bound.moments[first].bound > bound.graph.base_cost;
  }
  if (first > 0) {
    Shares shares = bound.moments[first - 1].shares;
    double price = bound.moments[first - 1].price;
    bound.deadline = start + 0.6 * (end - start);
    for (int i = first; i < bound.n_moments && !is_late(&bound); i++) {
      bound.moments[i].price = price;
      price_shares(&bound, &bound.moments[i], shares);
    }
    qsort(bound.moments, (size_t)bound.n_moments, sizeof *bound.moments, compare_bounds);
  }
  for (int i = 0; i < bound.n_moments && watch_counted(problem) < end; i++) {
    bound.deadline = fmin(end, watch_counted(problem) + 0.5 * (end - watch_counted(problem)));
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
  free(bound.before);
  free(bound.moments);
  return best;
}
