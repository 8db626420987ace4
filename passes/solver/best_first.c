#include "best_first.h"

#include <stdbool.h>
#include <stddef.h>

#include "support/alloc.h"

static bool comes_before(const OpenState *a, const OpenState *b) {
  if (a->estimate != b->estimate) return a->estimate < b->estimate;
  if (a->executed != b->executed) return a->executed > b->executed;
  return a->state > b->state;
}

void open_states_push(OpenStates *open, OpenState state) {
  int at = open->n;
  ARRAY_ADD(open->states, open->n);
  for (int up; at > 0 && comes_before(&state, &open->states[up = (at - 1) / 2]); at = up)
    open->states[at] = open->states[up];
  open->states[at] = state;
}

int open_states_pop(OpenStates *open) {
  int best = open->states[0].state, at = 0;
  OpenState last = open->states[--open->n];
  for (int down; (down = 2 * at + 1) < open->n; at = down) {
    if (down + 1 < open->n && comes_before(&open->states[down + 1], &open->states[down])) down++;
    if (!comes_before(&open->states[down], &last)) break;
    open->states[at] = open->states[down];
  }
  open->states[at] = last;
  return best;
}
