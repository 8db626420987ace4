// state.h: the search's working form of a schedule. Executions stand in slots, with empty slots between them, so that
// one more or less moves no other; each value has its sorted list of events. A change is tried by making it in the
// lists, which notes by how much the memory in which slots would change, then pricing those notes, and then it is
// accepted or undone.
#ifndef NNC_SOLVER_STATE_H
#define NNC_SOLVER_STATE_H

#include "internal.h"

// What happens to one value: 2 * slot, plus 1 for an execution; 2 * slot for a use. Outputs have a last use in slot
// n_slots.
typedef struct ValueEvents {
  int *at;   // Owned; ascending
  int n, capacity;
  int executions;
} ValueEvents;

typedef enum OperationKind {
  OPERATION_INSERT,
  OPERATION_REMOVE,
  OPERATION_MOVE,   // of an execution to another slot with only empty ones between: no change of the schedule
} OperationKind;

typedef struct Operation {
  OperationKind kind;
  int node, slot, from;
} Operation;

// `bytes` more from `slot` on.
typedef struct MemoryStep {
  int slot;
  int64_t bytes;
} MemoryStep;

// The change being tried.
typedef struct Trial {
  Operation *operations;   // Owned
  int n_operations, operation_capacity;
  MemoryStep *steps;   // Owned; in any order until it is priced
  int n_steps, step_capacity;
  bool sorted;
  double cost;   // added
} Trial;

// What a trial would change. `overflow` sums, over the executions, the bytes above the budget.
typedef struct TrialPrice {
  int64_t overflow;
  int n_over;
} TrialPrice;

typedef struct RematState {
  const RematGraph *graph;   // Borrowed
  int n_nodes;
  // The problem, flat. Sizes are in units of 1 << shift bytes, rounded against the schedule, so that sums over slots
  // cannot overflow; shift is 0 below 2^44 bytes in all.
  int shift;
  int64_t budget;
  int64_t *bytes, *workspace;   // Owned
  double *cost_of;              // Owned
  int *input_start, *inputs;    // Owned; without repeats
  bool *recomputable;           // Owned
  int *after_start, *after;     // Owned; nodes that overwrite what a node reads
  int *before_start, *before;   // Owned; nodes that read what a node overwrites
  // The schedule.
  int n, n_slots;
  int *node_at;                // Owned, n_slots; -1 in an empty slot
  int64_t *over;               // Owned, n_slots + 1; bytes above the budget; in empty slots less by a huge number
  ValueEvents *events;         // Owned, n_nodes
  int *repeated, n_repeated;   // Owned; nodes that execute more than once, in no order
  int *repeated_index;         // Owned
  double cost;
  int64_t overflow;
  int n_over;   // executions above the budget: feasible when 0, an integer test
  int n_bad;    // values whose first event is a use: the schedule is not legal
  Trial trial;
  // What was accepted since remat_state_mark.
  Operation *journal;   // Owned
  int n_journal, journal_capacity;
  bool journaling;
  struct {
    int *exec;   // Owned
    int n, capacity;
    double cost;
    int64_t overflow;
    int n_over;
    bool is_stale;   // too much has changed for the journal: `exec` has the schedule
  } mark;
  int *scratch;   // Owned
  int scratch_capacity;
  void (*price_range)(const int64_t *over, int n, int64_t bytes, TrialPrice *price);
} RematState;

RematState remat_state_create(const RematGraph *graph, int64_t budget_bytes);
void remat_state_free(RematState *state);
void remat_state_load(RematState *state, const int *exec, int n);   // a legal sequence
void remat_state_set_budget(RematState *state, int64_t budget_bytes);
int remat_state_sequence(const RematState *state, int *exec);   // fills `exec` (room for state->n); returns n
int64_t remat_state_peak(const RematState *state);              // bytes

// Index of the first event of `value` at or after `slot`.
int remat_state_find(const RematState *state, int value, int slot);

// The first empty slot at or before `slot` that has at most `hops` executions between; -1 when there is none.
int remat_state_empty_before(const RematState *state, int slot, int hops);
int remat_state_empty_after(const RematState *state, int slot, int hops);

// Moves executions so that `count` empty slots come right before `slot`, which keeps its place, as do all after it.
// May rebuild everything with other slots instead. Not while a trial is open.
void remat_state_make_room(RematState *state, int slot, int count);

// A trial: begin, then any number of insertions and removals, then legality and price, then accept or reject.
void remat_trial_begin(RematState *state);
void remat_trial_insert(RematState *state, int node, int slot);   // an empty slot
void remat_trial_remove(RematState *state, int slot);             // a full one
bool remat_trial_legal(const RematState *state);
// False, and *price is not valid, when the overflow would certainly grow by more than `limit`.
bool remat_trial_price(RematState *state, int64_t limit, TrialPrice *price);
void remat_trial_accept(RematState *state, const TrialPrice *price);   // trial.operations stay readable until the next
void remat_trial_reject(RematState *state);

// Remembers the schedule; remat_state_rollback returns to it.
void remat_state_mark(RematState *state);
void remat_state_rollback(RematState *state);

#endif
