// state.h: the search's working form of a schedule, and edits to it that are priced before they are made.
#ifndef NNC_SOLVER_STATE_H
#define NNC_SOLVER_STATE_H

#include "internal.h"

// A stretch in which a value is live but not touched: after event `from`, before use `to`. Executing the value again
// right before `to` frees its bytes in between.
typedef struct Gap {
  int value, from, to;  // positions
} Gap;

typedef struct RematState {
  const RematGraph *graph;  // Borrowed
  int64_t budget;           // bytes
  int n, capacity;          // executions
  int *exec;                // Owned; node at each position
  int *last_use;            // Owned; per position, n for "to the end"
  int64_t *across;          // Owned; n + 1; bytes live across the boundary before each position
  int64_t *occupied;        // Owned; bytes occupied at each position
  int *event_start;         // Owned, n_nodes + 1
  int *events;              // Owned; per value, ascending: 2 * position, plus 1 when it is an execution
  int *executions;          // Owned; per node, how many
  int *first;               // Owned; per node, position of its first execution
  Gap *gaps;                // Owned
  double *gap_weight;       // Owned; running sum of the weights of gaps
  int n_gaps, event_capacity, gap_capacity;
  double cost;
  double overflow;          // sum over positions of bytes above the budget
  int n_over;               // positions above the budget: feasible when 0, an integer test
  int64_t peak;
  // anti-dependences by node
  int *after_start, *after;    // Owned; nodes that overwrite what a node reads
  int *before_start, *before;  // Owned; nodes that read what a node overwrites
  struct StateScratch *scratch;  // Owned
} RematState;

typedef struct Insertion {
  int node;
  int before;    // position; the new execution goes right before it
  int sequence;  // order among the insertions before the same position
} Insertion;

// Executions to add and to remove at once.
typedef struct Edit {
  Insertion *insertions;  // Owned
  int *removals;          // Owned; positions
  int n_insertions, n_removals;
} Edit;

enum { EDIT_LIMIT = 2048 };  // insertions, and removals, in one edit

// What an edit would change.
typedef struct EditPrice {
  double cost, overflow;
  int n_over;
} EditPrice;

RematState remat_state_create(const RematGraph *graph, int64_t budget);
void remat_state_free(RematState *state);
void remat_state_load(RematState *state, const int *exec, int n);  // a legal sequence

Edit edit_create(void);
void edit_free(Edit *edit);
void edit_clear(Edit *edit);
bool edit_insert(Edit *edit, int node, int before);  // false when full
bool edit_remove(Edit *edit, int position);          // false when full; removing twice is the same as once

// False when the edit would leave a use without an execution, a node without one, repeat one that must not be
// repeated, or break an anti-dependence.
bool remat_state_price(RematState *state, Edit *edit, EditPrice *price);
void remat_state_apply(RematState *state, const Edit *edit);  // an edit that was priced

// The event of `value` that is the last before `position`: index into events, or -1.
int remat_state_event_before(const RematState *state, int value, int position);

#endif
