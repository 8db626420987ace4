// best_first.h: the open states of a best-first search, least estimate first, in a binary heap.
#ifndef NNC_SOLVER_BEST_FIRST_H
#define NNC_SOLVER_BEST_FIRST_H

typedef struct OpenState {
  double estimate;   // cost so far plus what is certainly still to come
  int executed;      // number of nodes executed: the larger first among equals
  int state;         // its number; the larger first among equals
} OpenState;

// Begins as {0}; the caller frees `states`.
typedef struct OpenStates {
  OpenState *states;   // Owned
  int n;
} OpenStates;

void open_states_push(OpenStates *open, OpenState state);

// Takes the best state out and returns its number; there must be one.
int open_states_pop(OpenStates *open);

#endif
