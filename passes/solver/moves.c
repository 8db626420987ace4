// moves.c: candidate edits: execute a value again at the end of one of its gaps, remove an execution, shift one.
#include <stdlib.h>

#include "search.h"

uint64_t remat_random(uint64_t *state) {  // splitmix64
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

double remat_random_unit(uint64_t *state) { return (double)(remat_random(state) >> 11) * 0x1p-53; }

static bool is_inserted(const Edit *edit, int node, int before) {
  for (int i = 0; i < edit->n_insertions; i++)
    if (edit->insertions[i].node == node && edit->insertions[i].before == before) return true;
  return false;
}

// Whether a dead input is better executed again than held.
static bool prefers_recompute(RematSearch *search, int value, DeadInputs dead) {
  if (dead == DEAD_HOLD || search->problem->nodes[value].bytes == 0) return false;
  return dead == DEAD_RECOMPUTE || (remat_random(&search->random) & 1);
}

// Inserts an execution of `value` before `position`, its dead inputs treated as `dead` says. A later execution of a
// dead input is pulled forward to here rather than repeated.
static bool insert_with_inputs(RematSearch *search, int value, int position, DeadInputs dead, int depth) {
  const RematState *state = &search->state;
  const RematNode *nodes = search->problem->nodes;
  const RematNode *node = &nodes[value];
  for (int i = 0; i < node->n_inputs; i++) {
    int input = node->inputs[i];
    if (nodes[input].bytes == 0 || !nodes[input].recomputable || is_inserted(&search->edit, input, position)) continue;
    int before = remat_state_event_before(state, input, position);
    if (before < 0) return false;
    int next = before + 1, end = state->event_start[input + 1];
    if (state->graph->is_output[input] && next == end) continue;  // live to the end
    if (next < end && !(state->events[next] & 1)) continue;       // used later, so live here
    if (!prefers_recompute(search, input, dead) ) continue;
    if (depth >= search->insertion_limit) return false;
    if (next < end && dead == DEAD_MIXED && !edit_remove(&search->edit, state->events[next] / 2)) return false;
    if (!insert_with_inputs(search, input, position, dead, depth + 1)) return false;
  }
  return search->edit.n_insertions < search->insertion_limit && edit_insert(&search->edit, value, position);
}

bool move_fill_gap(RematSearch *search, const Gap *gap, DeadInputs dead) {
  edit_clear(&search->edit);
  return insert_with_inputs(search, gap->value, gap->to, dead, 0);
}

// Removes the execution at `position`; then every input's execution that served only this, when another remains.
static bool remove_with_feeders(RematSearch *search, int position, int depth) {
  const RematState *state = &search->state;
  const RematNode *node = &search->problem->nodes[state->exec[position]];
  if (!edit_remove(&search->edit, position)) return false;
  for (int i = 0; i < node->n_inputs && depth < 200; i++) {
    int input = node->inputs[i];
    if (state->executions[input] < 2) continue;
    int use = remat_state_event_before(state, input, position + 1), serving = use;
    // Walk back over uses that are being removed to the execution that served them.
    while (serving >= state->event_start[input] && !(state->events[serving] & 1)) {
      int p = state->events[serving] / 2;
      bool going = false;
      for (int k = 0; k < search->edit.n_removals && !going; k++) going = search->edit.removals[k] == p;
      if (!going) break;
      serving--;
    }
    if (serving < state->event_start[input] || !(state->events[serving] & 1)) continue;
    int next = use + 1, end = state->event_start[input + 1];
    bool served_last = next == end, served_more = !served_last && !(state->events[next] & 1);
    if (served_more || (served_last && state->graph->is_output[input])) continue;
    if (!remove_with_feeders(search, state->events[serving] / 2, depth + 1)) return false;
  }
  return true;
}

bool move_remove(RematSearch *search, int position) {
  if (search->state.executions[search->state.exec[position]] < 2) return false;
  edit_clear(&search->edit);
  return remove_with_feeders(search, position, 0);
}

bool move_shift(RematSearch *search, int position) {
  const RematState *state = &search->state;
  int v = state->exec[position];
  const RematNode *node = &search->problem->nodes[v];
  int low = 0, high = state->n;
  for (int i = 0; i < node->n_inputs; i++) {
    int serving = remat_state_event_before(state, node->inputs[i], position);
    while (!(state->events[serving] & 1)) serving--;
    if (state->events[serving] / 2 + 1 > low) low = state->events[serving] / 2 + 1;
  }
  int next = remat_state_event_before(state, v, position + 1) + 1;  // the event after this execution
  if (next < state->event_start[v + 1]) high = state->events[next] / 2;
  if (high <= low) return false;
  uint64_t r = remat_random(&search->random);
  int target = r % 4 == 0 ? high : r % 4 == 1 ? low : low + (int)((r >> 2) % (uint64_t)(high - low + 1));
  if (target == position || target == position + 1) return false;
  edit_clear(&search->edit);
  return edit_remove(&search->edit, position) && edit_insert(&search->edit, v, target);
}
