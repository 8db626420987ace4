// bound_moments.c: which moments to bound, and how far. First every moment is relaxed by a price on bytes; then the
// promising ones are solved in integers; then sequences of moments, each the descendant of the one before, add what
// must be recomputed between two of them.
#include "bound_moments.h"
#include "support/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// In large graphs moments whose relaxation stays below this part of the best are left relaxed.
static const double WORTH = 0.9;
enum { SMALL_GRAPH = 2000 };

// How many moments end windows: first few, then as many as there is time for in 0.1 s.
enum { FEW_ENDS = 24, ENDS_TIMES_NODES = 16000 };

typedef struct Moment {
  int node;
  double relaxed;      // bound of the relaxation, scaled cost
  double attainable;   // no integral bound of this moment is larger
  double price;
} Moment;

typedef struct MomentSearch {
  const BoundGraph *graph;
  BoundNetwork network;
  Moment *moments;   // Owned; per node in the order they are looked at
  double *after;     // Owned; per node: a bound on what is recomputed after its moment
  int *next;         // Owned; per node: the moment that ends the window which gave `after`, -1 for none
  double best;
} MomentSearch;

static int compare_relaxed(const void *left, const void *right) {
  const Moment *a = left, *b = right;
  if (a->relaxed != b->relaxed) return a->relaxed > b->relaxed ? -1 : 1;
  return a->node - b->node;
}

// All nodes, those at which the plain order holds most bytes first.
static Moment *list_moments(const RematProblem *problem) {
  int n = problem->n_nodes;
  Moment *moments = allocate_array((size_t)n, sizeof *moments);
  int *order = allocate_array((size_t)n, sizeof *order);
  for (int v = 0; v < n; v++) order[v] = v;
  RematSimulation plain;
  if (remat_simulate(problem, order, n, &plain, NULL)) {
    for (int v = 0; v < n; v++) moments[v] = (Moment){.node = v, .relaxed = (double)plain.live[v]};
    remat_simulation_free(&plain);
  }
  free(order);
  qsort(moments, (size_t)n, sizeof *moments, compare_relaxed);
  for (int i = 0; i < n; i++) moments[i].relaxed = 0;
  return moments;
}

// The window from the moment of `node` to that of `end`, to the end of the schedule when that is negative. False when
// nothing has to be recomputed in it.
static bool build_window(MomentSearch *search, int node, int end) {
  BoundNetwork *network = &search->network;
  bound_network_build(network, node, end);
  if (network->room >= 0 && network->most <= network->room) return false;
  bound_network_finish(network);
  return true;
}

static void note_bound(MomentSearch *search, int node, double bound, int next) {
  if (bound > search->after[node]) {
    search->after[node] = bound;
    search->next[node] = next;
  }
  if (bound > search->best) search->best = bound;
}

static void relax_moments(MomentSearch *search, double deadline) {
  double price = 0;
  bool is_small = search->graph->n <= SMALL_GRAPH;
  for (int i = 0; i < search->graph->n && (i == 0 || watch_counted(search->graph->problem) < deadline); i++) {
    Moment *moment = &search->moments[i];
    if (!build_window(search, moment->node, -1)) continue;
    double useless = is_small ? 0 : WORTH * search->best;
    PriceResult result = bound_price_search(&search->network, NULL, price, useless, INFINITY);
    moment->relaxed = result.bound;
    moment->attainable = result.attainable;
    if (result.price > 0) moment->price = price = result.price;
    note_bound(search, moment->node, result.bound, -1);
    if (isinf(result.bound)) return;
  }
  qsort(search->moments, (size_t)search->graph->n, sizeof *search->moments, compare_relaxed);
}

// Integral bounds, for each moment that may raise the best a part of the time that is left.
static void branch_moments(MomentSearch *search, double part, double deadline) {
  double needed = search->graph->n <= SMALL_GRAPH ? 0 : WORTH * search->best;
  for (int i = 0; i < search->graph->n && search->moments[i].relaxed > needed; i++) {
    Moment *moment = &search->moments[i];
    double start = watch_counted(search->graph->problem), end = start + part * (deadline - start);
    if (start >= deadline) return;
    if (moment->attainable <= search->best) continue;
    if (!build_window(search, moment->node, -1)) continue;
    PriceResult root = bound_price_search(&search->network, NULL, moment->price, 0, INFINITY);
    double best = search->best, bound = bound_branch(&search->network, &root, best, end);
    note_bound(search, moment->node, bound, -1);
    // In time means solved, or seen to be no better than the best.
    if (watch_counted(search->graph->problem) < end) moment->attainable = fmin(moment->attainable, fmax(bound, best));
  }
}

static void mark_ancestors(const BoundGraph *graph, int node, bool *ancestor) {
  memset(ancestor, 0, (size_t)graph->n * sizeof *ancestor);
  ancestor[node] = true;
  for (int v = node; v >= 0; v--) {
    if (!ancestor[v]) continue;
    const RematNode *n = &graph->problem->nodes[v];
    for (int i = 0; i < n->n_inputs; i++) ancestor[n->inputs[i]] = true;
    for (int i = graph->before_start[v]; i < graph->before_start[v + 1]; i++) ancestor[graph->befores[i]] = true;
  }
  ancestor[node] = false;
}

// What is recomputed between the moments of `node` and `end`, as far as it exceeds `wanted`; in integers for `part` of
// the time that is left.
static double bound_window(MomentSearch *search, int node, int end, double *price, double wanted, double part,
                           double deadline) {
  if (!build_window(search, node, end)) return 0;
  PriceResult result = bound_price_search(&search->network, NULL, *price, part > 0 ? 0 : wanted, INFINITY);
  if (result.price > 0) *price = result.price;
  if (!(part > 0) || result.attainable <= wanted) return result.bound;
  double start = watch_counted(search->graph->problem);
  return bound_branch(&search->network, &result, wanted, start + part * (deadline - start));
}

// Windows end at the moments of `ends`, last ones first, so that what comes after each is known.
static void chain_windows(MomentSearch *search, const Moment *ends, int n_ends, double part, double deadline) {
  const BoundGraph *graph = search->graph;
  bool *ancestor = allocate_array((size_t)graph->n, sizeof *ancestor);
  int *of_node = allocate_array((size_t)graph->n, sizeof *of_node);
  for (int i = 0; i < graph->n; i++) of_node[search->moments[i].node] = i;
  for (int e = 0; e < n_ends; e++) {
    int end = ends[e].node;
    double start = watch_counted(search->graph->problem), share = start + 2 * (deadline - start) / (n_ends - e + 1),
           price = 0;
    mark_ancestors(graph, end, ancestor);
    for (int a = end - 1; a >= 0 && watch_counted(search->graph->problem) < share; a--) {
      if (!ancestor[a]) continue;
      const Moment *moment = &search->moments[of_node[a]];
      double wanted = fmax(search->after[a], search->after[end]) - search->after[end];
      if (moment->relaxed <= 0 || moment->attainable <= wanted) continue;
      double bound = bound_window(search, a, end, &price, wanted, part, share);
      if (bound > 0) note_bound(search, a, bound + search->after[end], end);
    }
  }
  free(ancestor);
  free(of_node);
}

static int compare_nodes_down(const void *left, const void *right) {
  const Moment *a = left, *b = right;
  return b->node - a->node;
}

// Moments worth ending a window, `most` of them: those with most to come after them.
static Moment *choose_ends(const MomentSearch *search, int most, int *n_ends) {
  int n = search->graph->n;
  Moment *ends = allocate_array((size_t)n, sizeof *ends);
  *n_ends = 0;
  for (int i = 0; i < n; i++) {
    Moment moment = search->moments[i];
    moment.relaxed = search->after[moment.node];
    if (moment.relaxed > 0) ends[(*n_ends)++] = moment;
  }
  qsort(ends, (size_t)*n_ends, sizeof *ends, compare_relaxed);
  if (*n_ends > most) *n_ends = most;
  qsort(ends, (size_t)*n_ends, sizeof *ends, compare_nodes_down);
  return ends;
}

// The windows of the best sequence, in integers.
static void branch_sequence(MomentSearch *search, double deadline) {
  int head = 0;
  for (int v = 0; v < search->graph->n; v++)
    if (search->after[v] > search->after[head]) head = v;
  double total = 0;
  for (int v = head; v >= 0; v = search->next[v]) {
    int end = search->next[v];
    double window = search->after[v] - (end >= 0 ? search->after[end] : 0), price = 0;
    if (end >= 0) window = fmax(window, bound_window(search, v, end, &price, window, 0.5, deadline));
    total += window;
  }
  search->best = fmax(search->best, total);
}

double bound_moments_search(const BoundGraph *graph, double start, double limit) {
  size_t n = (size_t)graph->n;
  MomentSearch search = {.graph = graph, .network = bound_network_create(graph)};
  search.moments = list_moments(graph->problem);
  search.after = allocate_array(n, sizeof *search.after);
  search.next = allocate_array(n, sizeof *search.next);
  for (int v = 0; v < graph->n; v++) search.next[v] = -1;
  relax_moments(&search, start + 0.45 * limit);
  if (search.best > 0 && isfinite(search.best)) {
    branch_moments(&search, 0.25, start + 0.55 * limit);
    int few, many;
    Moment *ends = choose_ends(&search, FEW_ENDS, &few);
    Moment *more_ends = choose_ends(&search, (int)fmax(ENDS_TIMES_NODES / (double)graph->n, FEW_ENDS), &many);
    chain_windows(&search, ends, few, 0, start + 0.65 * limit);
    branch_sequence(&search, start + 0.7 * limit);
    if (many > few) chain_windows(&search, more_ends, many, 0, start + 0.75 * limit);
    chain_windows(&search, more_ends, many, 0.125, start + 0.9 * limit);
    branch_sequence(&search, start + 0.95 * limit);
    free(ends);
    free(more_ends);
    branch_moments(&search, 1, start + limit);
  }
  free(search.moments);
  free(search.after);
  free(search.next);
  bound_network_free(&search.network);
  return search.best;
}

// So many moments, the fullest first, and not until a time: what it gives decides where searches aim, and they are to
// give the same each time.
int64_t bound_moments_peak(const BoundGraph *graph, int64_t least, double deadline) {
  enum { WORK = 40000, FEWEST = 4 };
  int most = (int)fmax(WORK / fmax(graph->n, 1), FEWEST);
  MomentSearch search = {.graph = graph, .network = bound_network_create(graph)};
  search.moments = list_moments(graph->problem);
  for (int i = 0; i < graph->n && i < most && watch_counted(graph->problem) < deadline; i++) {
    BoundNetwork *network = &search.network;
    bound_network_build(network, search.moments[i].node, -1);
    bound_network_finish(network);
    int64_t certain = -network->room;   // the budget is 0
    if (certain + network->most <= least) continue;
    // Executions are free and a byte costs one: the cut has the fewest bytes, the certain ones included.
    double excess, bytes = bound_network_solve(network, 1, NULL, &excess).value;
    if (bytes < 0x1p53 && (int64_t)bytes > least) least = (int64_t)bytes;
  }
  free(search.moments);
  bound_network_free(&search.network);
  return least;
}
