// search.h: what the parts of the search share: search.c (its plan), greedy.c (descent and trimming), kick.c (local
// search) and moves.c (what a move is).
#ifndef NNC_SOLVER_SEARCH_H
#define NNC_SOLVER_SEARCH_H

#include "state.h"

enum { PEAK_NODES = 4000 };   // above, descents at the peak would take too long
enum { BEAM_NODES = 600 };    // the same for beams

typedef struct RematSearch {
  const RematProblem *problem;   // Borrowed
  const RematOptions *options;   // Borrowed, may be NULL
  RematGraph graph;              // Owned
  RematState state;              // Owned
  int64_t budget;                // bytes; the state's budget may be another for a while
  uint64_t random;
  int64_t moves, max_moves;
  Watch watch;
  double descent_end;   // seconds since its start, for one descent
  double seeds_end;     // the same for making seeds for the budget
  bool stopped;
  int insertion_limit;   // a move that inserts more is given up
  int wanted_room;       // slot before which the last move found too few empty ones, -1
  int *locked;           // Owned; per node, the number of the kick that fixed it
  int kick;
  int *scratch;            // Owned, n_nodes
  int *plain;              // Owned, n_nodes; the plain order
  int64_t spent[4];        // moves of kicks by length class
  double *weight;          // Owned, n_nodes + 1; running sum of the bytes of what may execute again
  double step_cost;        // mean cost of an execution: the scale of temperatures
  double typical_price;    // where overflow_price begins
  double overflow_price;   // cost of a byte above the budget at one execution; adapts
  double anneal_price;     // the same during annealing
  int *best;               // Owned; cheapest sequence within `budget`
  int n_best, best_capacity;
  double best_cost;
  double base_cost;   // of every node once
  double good_cost;   // the search ends when the best costs no more
  bool is_lowering;   // the state's budget is above `budget`: what fits it is not a solution yet
  bool has_best;
  RematSchedule lowest;   // Owned; schedule of the smallest peak met
} RematSearch;

// ---- search.c ----

bool remat_search_out_of_time(RematSearch *search);   // or interrupted
bool remat_search_descent_ends(RematSearch *search);
// No schedule within the budget is known, or only one that adds more than a quarter: what is made again is needed for
// what is made again.
bool remat_search_is_deep(const RematSearch *search);
bool remat_search_is_done(const RematSearch *search);   // stopped, out of moves, or the best is proven optimal

// Remembers the state if it is the cheapest within the budget or has the smallest peak.
void remat_search_note(RematSearch *search);

// ---- moves.c ----
// Each fills a trial of search->state, which is then either priced or rejected. False: there is none (the trial is
// already rejected).

typedef enum DeadInputs {
  DEAD_HOLD,        // keep the input live up to the new use
  DEAD_RECOMPUTE,   // execute it again as well, and its dead inputs in turn
  DEAD_MIXED,       // either, at random
} DeadInputs;

double remat_random_unit(uint64_t *state);            // in [0, 1)
int remat_random_below(uint64_t *state, int limit);   // in [0, limit)

// Executes `value` again right before the use that is its event `index`.
bool remat_move_fill(RematSearch *search, int value, int index, DeadInputs dead);

// Removes the execution in `slot`, with the feeders it orphans.
bool remat_move_drop(RematSearch *search, int slot);

// A random move of the local search.
bool remat_move_propose(RematSearch *search);

// A random move of a kick: locks the value it is about.
bool remat_move_toggle(RematSearch *search);

// ---- greedy.c ----

// Brings the state under the budget if it can, by the executions that free most bytes x duration per cost, until it
// costs more than `cost_limit`.
void remat_greedy_descend(RematSearch *search, double cost_limit);

// The same by another order: always at the execution that exceeds the budget most. Neither way is always better; this
// one takes time for each step that grows with the number of values. Scores are multiplied by a random factor between
// exp(-noise) and exp(noise).
void remat_greedy_lower_peak(RematSearch *search, double cost_limit, double noise);

// Removes executions, dearest first, while the state stays within the budget.
void remat_greedy_trim(RematSearch *search);

// ---- beam.c ----

// Makes the state a schedule within its budget, from beginning to end, by a beam search of that width, in which nodes
// execute first in this order. Scores are multiplied by a random factor between exp(-noise) and exp(noise). False, and
// the state is as it was, when it finds none, or not before descent_end.
bool remat_beam_build(RematSearch *search, const int *order, int width, double noise);

// ---- late.c ----

// Fills `nodes` (room for `most`) with nodes that may execute later than in the plain order, those first that read much
// and may wait for long. Returns how many.
int remat_list_late(const RematSearch *search, int most, int *nodes);

// Fills `order` (room for all nodes) with the plain order, but that node as late as may be: at the end together with
// the nodes that follow it, where these are few, otherwise right before the first of them.
void remat_order_late(const RematSearch *search, int node, int *order);

// ---- kick.c ----

// Tries one random move and accepts what adds no more to cost + price_of_overflow x overflow than chance at this
// temperature (a cost) allows.
void remat_search_step(RematSearch *search, double temperature, double price_of_overflow);

// Improves the state until the search is done or `moves` are spent; one that is over the budget only until it fits.
// Notes what it finds.
void remat_kick_improve(RematSearch *search, int64_t moves);

// ---- anneal.c ----

// Anneals from the state on, from the temperature `heat` (in mean costs of an execution) down to zero, then brings what
// came out under the budget. Notes what it finds on the way. There must be a best schedule.
void remat_anneal_round(RematSearch *search, int64_t moves, double heat);

// ---- tournament.c ----

// Improves the best schedule, and others beside it, until the search is done. There must be a best schedule.
void remat_tournament(RematSearch *search);

#endif
