// bound_price.c: Lagrangian dual of one moment and branch and bound on which values are live at it. A branch settles
// the value that the two cuts around the best price disagree about most; the branch with the least bound goes first.
#include "bound_price.h"
#include "support/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROUNDS = 60 };

// A line above the value as a function of the price: that of one cut.
typedef struct Line {
  bool known;
  double cost, slope;
} Line;

static int choose_branch(const BoundNetwork *network, const unsigned char *decisions, const unsigned char *low,
                         const unsigned char *high) {
  int best = -1;
  for (int e = 0; e < network->flow.n_edges; e++) {
    if (network->edge_bytes[e] < 0 || (decisions && decisions[e] != BOUND_OPEN)) continue;
    if (low[e] == high[e]) continue;
    if (best < 0 || network->edge_bytes[e] > network->edge_bytes[best]) best = e;
  }
  return best;
}

static void record_live(const BoundNetwork *network, double price, unsigned char *live) {
  for (int e = 0; e < network->flow.n_edges; e++)
    live[e] = network->edge_bytes[e] >= 0 && bound_network_is_kept(network, e, price);
}

PriceResult bound_price_search(BoundNetwork *network, const unsigned char *decisions, double first_price,
                               double useless, double enough) {
  PriceResult result = {.bound = 0, .attainable = INFINITY, .branch_edge = -1};
  if (network->room < 0) return (PriceResult){.bound = INFINITY, .attainable = INFINITY, .branch_edge = -1};
  size_t n_edges = (size_t)network->flow.n_edges;
  unsigned char *live = allocate_array(2 * n_edges, 1), *low_live = live, *high_live = live + n_edges;
  Line low = {0}, high = {0};   // of cuts whose bytes exceed the room, and fit
  double price = first_price;
  for (int round = 0; round < MAX_ROUNDS; round++) {
    double excess, limit = INFINITY;
    BoundCut cut = bound_network_solve(network, price, decisions, &excess);
    if (cut.value > result.bound) result.bound = cut.value, result.price = price;
    if (cut.value > network->graph->all_costs) result.bound = INFINITY;   // what fits costs less
    if (isinf(result.bound) || result.bound >= enough) break;
    if (excess > 0) {
      low = (Line){true, cut.cost, excess};
      record_live(network, price, low_live);
    } else {
      high = (Line){true, cut.cost, excess};
      record_live(network, price, high_live);
      if (cut.cost < result.attainable) result.attainable = cut.cost;
      if (price == 0) break;   // free of charge
    }
    double next = 0;
    if (low.known && high.known) {
      next = (high.cost - low.cost) / (low.slope - high.slope);
      limit = low.cost + low.slope * next;
    } else if (low.known) {
      // Nothing that fits is known yet: as if executing everything again did, then ever higher.
      next = price > 0 ? 4 * price : (network->graph->all_costs - low.cost) / (low.slope + (double)network->room);
      if (price > BOUND_HIGHEST_PRICE) break;
    }
    if (limit <= useless || result.bound >= limit * (1 - 1e-9) - 1) {
      if (result.bound >= limit * (1 - 1e-9) - 1 && low.known)
        result.branch_edge = choose_branch(network, decisions, low_live, high_live);
      break;
    }
    if (!(next >= 0)) break;
    price = next;
  }
  free(live);
  return result;
}

// A branch: what its ancestors have settled and one edge more.
typedef struct Branch {
  int parent;   // -1 for the root
  int edge;
  BoundDecision decision;
  double bound, price;
  int branch_edge;
} Branch;

typedef struct BranchHeap {
  Branch *branches;   // Owned; all of them
  int n, capacity;
  int *open;   // Owned; heap of those to split, least bound first
  int n_open;
} BranchHeap;

static bool goes_first(const BranchHeap *heap, int a, int b) {
  double left = heap->branches[a].bound, right = heap->branches[b].bound;
  return left != right ? left < right : a > b;
}

static void open_branch(BranchHeap *heap, Branch branch) {
  if (heap->n == heap->capacity) {
    heap->capacity = 2 * heap->capacity + 256;
    heap->branches = reallocate_array(heap->branches, (size_t)heap->capacity, sizeof *heap->branches);
    heap->open = reallocate_array(heap->open, (size_t)heap->capacity, sizeof *heap->open);
  }
  int number = heap->n++, at = heap->n_open++;
  heap->branches[number] = branch;
  for (int up; at > 0 && goes_first(heap, number, heap->open[up = (at - 1) / 2]); at = up)
    heap->open[at] = heap->open[up];
  heap->open[at] = number;
}

static int take_branch(BranchHeap *heap) {
  int top = heap->open[0], last = heap->open[--heap->n_open], at = 0;
  for (int down; (down = 2 * at + 1) < heap->n_open; at = down) {
    if (down + 1 < heap->n_open && goes_first(heap, heap->open[down + 1], heap->open[down])) down++;
    if (!goes_first(heap, heap->open[down], last)) break;
    heap->open[at] = heap->open[down];
  }
  heap->open[at] = last;
  return top;
}

static double split_branches(BoundNetwork *network, BranchHeap *heap, double attainable, double useless,
                             double deadline) {
  unsigned char *decisions = allocate_array((size_t)network->flow.n_edges, 1);
  double closed = INFINITY;   // least bound of the branches that need no split
  while (heap->n_open > 0 && attainable > useless && watch_counted(network->graph->problem) < deadline) {
    if (heap->branches[heap->open[0]].bound >= attainable) break;
    int number = take_branch(heap);
    Branch branch = heap->branches[number];
    if (branch.branch_edge < 0) {
      closed = fmin(closed, branch.bound);
      continue;
    }
    for (int b = number; b >= 0; b = heap->branches[b].parent)
      if (heap->branches[b].edge >= 0) decisions[heap->branches[b].edge] = (unsigned char)heap->branches[b].decision;
    for (BoundDecision decision = BOUND_LIVE; decision <= BOUND_NOT_LIVE; decision++) {
      decisions[branch.branch_edge] = (unsigned char)decision;
      PriceResult result = bound_price_search(network, decisions, branch.price, 0, attainable);
      attainable = fmin(attainable, result.attainable);
      double bound = fmax(result.bound, branch.bound);
      if (bound < attainable)
        open_branch(heap, (Branch){number, branch.branch_edge, decision, bound, result.price, result.branch_edge});
    }
    memset(decisions, 0, (size_t)network->flow.n_edges);
  }
  free(decisions);
  if (heap->n_open > 0) closed = fmin(closed, heap->branches[heap->open[0]].bound);
  return fmin(closed, attainable);
}

double bound_branch(BoundNetwork *network, const PriceResult *root, double useless, double deadline) {
  if (root->branch_edge < 0) return root->bound;
  BranchHeap heap = {0};
  open_branch(&heap, (Branch){-1, -1, BOUND_OPEN, root->bound, root->price, root->branch_edge});
  double bound = split_branches(network, &heap, root->attainable, useless, deadline);
  free(heap.branches);
  free(heap.open);
  return bound;
}
