// search.h: the moves, the greedy descent and the local search, shared by search.c (the plan of the search) and
// moves.c (what a move is).
#ifndef NNC_SOLVER_SEARCH_H
#define NNC_SOLVER_SEARCH_H

#include <time.h>

#include "state.h"

typedef struct RematSearch {
  const RematProblem *problem;  // Borrowed
  RematGraph graph;             // Owned
  RematState state;             // Owned
  Edit edit, best_edit;         // Owned
  int insertion_limit;          // a move that inserts more is given up
  uint64_t random;
  int64_t moves, max_moves;
  struct timespec start;
  double time_limit;
  int *best;                    // Owned; cheapest feasible sequence
  int n_best, best_capacity;
  double best_cost;
  bool has_best;
  RematSchedule lowest;         // Owned; schedule of the smallest peak met
} RematSearch;

// ---- moves.c: fill search->edit with a candidate; false when there is none ----

typedef enum DeadInputs {
  DEAD_HOLD,       // keep the input live up to the new use
  DEAD_RECOMPUTE,  // execute it again as well, and its dead inputs in turn
  DEAD_MIXED,      // either, at random; a later execution may be pulled forward instead
} DeadInputs;

uint64_t remat_random(uint64_t *state);
double remat_random_unit(uint64_t *state);  // in [0, 1)

bool move_fill_gap(RematSearch *search, const Gap *gap, DeadInputs dead);
bool move_remove(RematSearch *search, int position);  // with the feeders it orphans
bool move_shift(RematSearch *search, int position);   // to a random legal place

#endif
