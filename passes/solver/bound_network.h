// bound_network.h: the relaxation behind the lower bound. A moment is the first execution of a node t. Whatever the
// schedule, at that moment the ancestors of t have executed and its descendants have not, and every value that an
// execution after the moment reads is live at the moment or executes after it. docs/remat.md has the proofs.
#ifndef NNC_SOLVER_BOUND_NETWORK_H
#define NNC_SOLVER_BOUND_NETWORK_H

#include "bound_flow.h"
#include "solver.h"

// A price at which any byte costs more than all costs of a problem together.
#define BOUND_HIGHEST_PRICE 0x1p47

typedef struct BoundGraph {
  const RematProblem *problem;   // Borrowed
  int n;
  int *user_start, *users;       // Owned; users of v are users[user_start[v] .. user_start[v + 1])
  int *after_start, *afters;     // Owned; anti-dependences by their `before`
  int *before_start, *befores;   // Owned; by their `after`
  bool *is_output;               // Owned
  int64_t budget;
  double scale;    // integer capacity of one unit of cost
  int64_t *cost;   // Owned; scaled, rounded down
  double base_cost;
  double all_costs;   // scaled; those of moves included
  int64_t *move;      // Owned; with a far tier, scaled: what it costs to move the value, or to have the home far;
                      // BOUND_NEVER where it cannot be. NULL without one
} BoundGraph;

#define BOUND_NEVER INT64_MAX

BoundGraph bound_graph_create(const RematProblem *problem, int64_t budget_bytes);

// For problems with a far tier: values may be moved. What that costs is the caller's to set, before it solves.
void bound_graph_allow_moves(BoundGraph *graph);

void bound_graph_free(BoundGraph *graph);

typedef enum BoundRelation { BOUND_OTHER, BOUND_ANCESTOR, BOUND_DESCENDANT, BOUND_SELF } BoundRelation;

// The minimum cut of one moment, when t executes first: cost of values that execute again plus price times live bytes.
typedef struct BoundNetwork {
  const BoundGraph *graph;   // Borrowed
  FlowNetwork flow;
  int64_t room;          // bytes for values that are neither t's own, nor its inputs, nor certainly live; < 0: no
                         // schedule fits
  int64_t most;          // bytes if all that is needed stays live
  int64_t *edge_bytes;   // Owned; per edge: bytes of a priced edge, -1 for others
  int *edge_value;       // Owned; per priced edge: the value
  int edge_capacity;
  // Scratch, per node of the problem.
  unsigned char *relation;
  int *need_node, *run_node;   // Owned; network nodes, 0 when there is none
  int *pending;
} BoundNetwork;

BoundNetwork bound_network_create(const BoundGraph *graph);
void bound_network_free(BoundNetwork *network);

// Makes it that of t. Needs arise from executions before the first execution of `end` and from that one; from all when
// `end` < 0.
void bound_network_build(BoundNetwork *network, int t, int end);

// Fixes the shape; then the functions below may be called.
void bound_network_finish(BoundNetwork *network);

// What a branch has settled about the value of a priced edge.
typedef enum BoundDecision { BOUND_OPEN, BOUND_LIVE, BOUND_NOT_LIVE } BoundDecision;

// The minimum cut for one price (scaled cost per byte).
typedef struct BoundCut {
  double value;   // scaled cost that executions after the moments certainly add; infinite when nothing fits
  double cost;    // of the executions in the cut, scaled
} BoundCut;

// `decisions` (per edge) may be NULL. *excess: the live bytes in the cut beyond the room, which is the derivative of
// the value by the price.
BoundCut bound_network_solve(BoundNetwork *network, double price, const unsigned char *decisions, double *excess);

// Whether the value of priced edge `edge` is live, and not moved, in the last cut, which was for this price.
bool bound_network_is_kept(const BoundNetwork *network, int edge, double price);

#endif
