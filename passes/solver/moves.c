// moves.c: the moves of the search, as trials: execute a value again before one of its uses, its dead inputs first;
// remove an execution with the feeders it orphans; shift one; swap two that hold the same memory.

#include "search.h"
#include "support/integers.h"

double remat_random_unit(uint64_t *state) { return (double)(splitmix64(state) >> 11) * 0x1p-53; }

int remat_random_below(uint64_t *state, int limit) {
  return (int)(((splitmix64(state) >> 32) * (uint64_t)limit) >> 32);
}

static bool is_locked(const RematSearch *search, int node) { return search->locked[node] == search->kick; }

// ---- parts of moves: they change the open trial, and may fail halfway ----

static bool drop(RematSearch *search, int slot);

// Whether event i of a value is an execution whose value nobody uses.
static bool is_unused(const ValueEvents *list, int i) {
  return (list->at[i] & 1) && (i + 1 == list->n || (list->at[i + 1] & 1));
}

// Removes the execution at or before `slot` of `value` if it has become useless.
static bool drop_orphan(RematSearch *search, int value, int slot) {
  const ValueEvents *list = &search->state.events[value];
  if (list->executions < 2) return true;
  int i = remat_state_find(&search->state, value, slot) - 1;
  if (i < 0 || !is_unused(list, i)) return true;
  return drop(search, list->at[i] >> 1);
}

static bool drop(RematSearch *search, int slot) {
  RematState *state = &search->state;
  int node = state->node_at[slot];
  if (is_locked(search, node)) return false;
  remat_trial_remove(state, slot);
  for (int i = state->input_start[node]; i < state->input_start[node + 1]; i++)
    if (!drop_orphan(search, state->inputs[i], slot)) return false;
  return true;
}

static bool was_inserted(const Trial *trial, int slot) {
  for (int i = 0; i < trial->n_operations; i++)
    if (trial->operations[i].slot == slot && trial->operations[i].kind == OPERATION_INSERT) return true;
  return false;
}

enum { HOPS = 3 };   // executions that may stand between a recomputed input and its user

static bool execute(RematSearch *search, int node, int slot, DeadInputs dead, int depth);

// Sees to it that `input`, used by an execution just put into `slot`, is live there.
static bool supply(RematSearch *search, int input, int slot, DeadInputs dead, int depth) {
  RematState *state = &search->state;
  const ValueEvents *list = &state->events[input];
  int i = remat_state_find(state, input, slot);
  if (i > 0 && i + 1 < list->n && !(list->at[i + 1] & 1)) return true;   // used later, so live here
  int k = i + 1;   // the next execution: where the first one was taken away, uses may stand before it
  while (k < list->n && !(list->at[k] & 1)) k++;
  int next = k < list->n ? list->at[k] >> 1 : -1;
  if (i > 0) {
    if (state->bytes[input] == 0 || !state->recomputable[input] || dead == DEAD_HOLD) return true;
    if (dead == DEAD_MIXED && splitmix64(&search->random) % 8 < 5) return true;
  } else if (next < 0 || is_locked(search, input)) {
    return false;
  }
  int at = remat_state_empty_before(state, slot - 1, HOPS);
  if (at < 0) {
    search->wanted_room = slot;
    return false;
  }
  // A later execution is pulled forward to here rather than repeated.
  if (next >= 0 &&
      (i == 0 || was_inserted(&state->trial, next) || dead != DEAD_MIXED || (splitmix64(&search->random) & 1)))
    if (!drop(search, next)) return false;
  return execute(search, input, at, dead, depth + 1);
}

static bool execute(RematSearch *search, int node, int slot, DeadInputs dead, int depth) {
  RematState *state = &search->state;
  if (is_locked(search, node) || depth > search->insertion_limit ||
      state->trial.n_operations >= 2 * search->insertion_limit)
    return false;
  if (!state->recomputable[node] && state->events[node].executions > 0) return false;
  remat_trial_insert(state, node, slot);
  for (int i = state->input_start[node]; i < state->input_start[node + 1]; i++)
    if (!supply(search, state->inputs[i], slot, dead, depth)) return false;
  return true;
}

// Executes `value` right before `slot`; the execution that served it may thereby become useless.
static bool fill_before(RematSearch *search, int value, int slot, DeadInputs dead) {
  RematState *state = &search->state;
  int at = remat_state_empty_before(state, slot - 1, 1);
  if (at < 0) {
    search->wanted_room = slot;
    return false;
  }
  return execute(search, value, at, dead, 0) && drop_orphan(search, value, at);
}

static bool finish_move(RematSearch *search, bool made) {
  if (made && remat_trial_legal(&search->state)) return true;
  remat_trial_reject(&search->state);
  if (search->wanted_room >= 0) {
    remat_state_make_room(&search->state, search->wanted_room, 8);
    search->wanted_room = -1;
  }
  return false;
}

static void begin_move(RematSearch *search) {
  enum { STEPS = 150 };
  watch_count(search->problem, STEPS);
  search->wanted_room = -1;
  remat_trial_begin(&search->state);
}

bool remat_move_fill(RematSearch *search, int value, int index, DeadInputs dead) {
  begin_move(search);
  return finish_move(search, fill_before(search, value, search->state.events[value].at[index] >> 1, dead));
}

bool remat_move_drop(RematSearch *search, int slot) {
  begin_move(search);
  return finish_move(search, drop(search, slot));
}

// ---- random choices ----

static int random_execution(RematSearch *search) {
  RematState *state = &search->state;
  for (;;) {
    int slot = remat_random_below(&search->random, state->n_slots);
    if (state->node_at[slot] >= 0) return slot;
  }
}

// A random recomputed value's execution, -1 when there is none.
static int random_repeated(RematSearch *search) {
  RematState *state = &search->state;
  if (state->n_repeated == 0) return -1;
  int node = state->repeated[remat_random_below(&search->random, state->n_repeated)];
  const ValueEvents *list = &state->events[node];
  int which = remat_random_below(&search->random, list->executions);
  for (int i = 0; i < list->n; i++)
    if ((list->at[i] & 1) && which-- == 0) return list->at[i] >> 1;
  return -1;
}

typedef struct Gap {
  int value, index;   // the use that ends it; value < 0: none
} Gap;

static bool is_gap(const RematState *state, int value, int index) {
  const ValueEvents *list = &state->events[value];
  return index > 0 && index < list->n && !(list->at[index] & 1) && (list->at[index] >> 1) < state->n_slots &&
         state->bytes[value] > 0 && state->recomputable[value] &&
         (list->at[index] >> 1) - (list->at[index - 1] >> 1) > 1;
}

// A gap of a random value, chosen by bytes.
static Gap random_heavy_gap(RematSearch *search) {
  RematState *state = &search->state;
  double at = search->weight[state->n_nodes] * remat_random_unit(&search->random);
  int low = 0, high = state->n_nodes - 1;
  while (low < high) {
    int middle = (low + high) / 2;
    if (search->weight[middle + 1] <= at) low = middle + 1;
    else high = middle;
  }
  int longest = -1, length = 1;
  const ValueEvents *list = &state->events[low];
  if (splitmix64(&search->random) & 1) {
    int index = 1 + remat_random_below(&search->random, list->n);
    if (is_gap(state, low, index)) return (Gap){low, index};
  }
  int first = 1, last = list->n;
  if (list->n > 24) {
    first = 1 + remat_random_below(&search->random, list->n - 20);
    last = first + 20;
  }
  for (int i = first; i < last; i++)
    if (is_gap(state, low, i) && (list->at[i] - list->at[i - 1]) / 2 > length)
      longest = i, length = (list->at[i] - list->at[i - 1]) / 2;
  return longest < 0 ? (Gap){-1, 0} : (Gap){low, longest};
}

// A gap that ends at the execution in `slot`.
static Gap random_gap_at(RematSearch *search, int slot) {
  RematState *state = &search->state;
  int node = state->node_at[slot], count = state->input_start[node + 1] - state->input_start[node];
  if (count == 0) return (Gap){-1, 0};
  int value = state->inputs[state->input_start[node] + remat_random_below(&search->random, count)];
  int index = remat_state_find(state, value, slot);
  return is_gap(state, value, index) ? (Gap){value, index} : (Gap){-1, 0};
}

// A gap in which [low, high] lies, or that at least overlaps it.
static Gap random_gap_across(RematSearch *search, int low, int high) {
  RematState *state = &search->state;
  for (int tries = 0; tries < 12; tries++) {
    int slot = low + 1 + remat_random_below(&search->random, state->n_slots - low - 1);
    if (state->node_at[slot] < 0) continue;
    Gap gap = random_gap_at(search, slot);
    if (gap.value < 0) continue;
    if ((state->events[gap.value].at[gap.index - 1] >> 1) < high) return gap;
  }
  return (Gap){-1, 0};
}

// An execution above the budget, searched from a random slot on; -1 when there is none.
static int random_overfull(RematSearch *search) {
  RematState *state = &search->state;
  int start = remat_random_below(&search->random, state->n_slots);
  for (int p = start; p < state->n_slots; p++)
    if (state->over[p] > 0) return p;
  for (int p = 0; p < start; p++)
    if (state->over[p] > 0) return p;
  return -1;
}

static Gap random_gap(RematSearch *search) {
  if (search->state.n_over > 0 && splitmix64(&search->random) % 4 != 0) {
    int slot = random_overfull(search);
    if (slot >= 0) return random_gap_across(search, slot, slot);
  }
  if (splitmix64(&search->random) & 1) return random_heavy_gap(search);
  return random_gap_at(search, random_execution(search));
}

// ---- moves ----

static bool propose_fill(RematSearch *search) {
  Gap gap = random_gap(search);
  if (gap.value < 0 || is_locked(search, gap.value)) return false;
  RematState *state = &search->state;
  const int *at = state->events[gap.value].at;
  int from = at[gap.index - 1] >> 1, slot = at[gap.index] >> 1;
  // Mostly right before the use; else anywhere in the gap.
  if (splitmix64(&search->random) % 8 == 0) slot = from + 2 + remat_random_below(&search->random, slot - from - 1);
  begin_move(search);
  return finish_move(search, fill_before(search, gap.value, slot, (DeadInputs)(splitmix64(&search->random) % 3)));
}

static bool propose_drop(RematSearch *search) {
  int slot = random_repeated(search);
  if (slot < 0 || is_locked(search, search->state.node_at[slot])) return false;
  return remat_move_drop(search, slot);
}

// The last execution before `slot` of a random input; -1 when there are none.
static int input_event_before(RematSearch *search, int node, int slot, bool executions_only) {
  RematState *state = &search->state;
  int latest = -1;
  for (int k = state->input_start[node]; k < state->input_start[node + 1]; k++) {
    const ValueEvents *list = &state->events[state->inputs[k]];
    int i = remat_state_find(state, state->inputs[k], slot) - 1;
    while (executions_only && i >= 0 && !(list->at[i] & 1)) i--;
    if (i >= 0 && (list->at[i] >> 1) > latest) latest = list->at[i] >> 1;
  }
  return latest;
}

// Where else the execution in `slot` might go: before its next use, right after its inputs are there or were last
// used, or in between.
static int shift_target(RematSearch *search, int slot) {
  RematState *state = &search->state;
  int node = state->node_at[slot];
  const ValueEvents *list = &state->events[node];
  int i = remat_state_find(state, node, slot) + 1;
  int high = i < list->n ? list->at[i] >> 1 : state->n_slots - 1;
  if (high > state->n_slots - 1) high = state->n_slots - 1;
  switch (splitmix64(&search->random) % 5) {
  case 0: return remat_state_empty_before(state, high - 1, 1);
  case 1: {
    int low = input_event_before(search, node, slot, true);
    return remat_state_empty_after(state, low + 1, 1);
  }
  case 2: {
    int low = input_event_before(search, node, slot, false);
    return remat_state_empty_after(state, low + 1, 1);
  }
  case 3: {   // a few places
    int target = slot - 16 + remat_random_below(&search->random, 33);
    if (target < 0 || target >= high) return -1;
    return remat_state_empty_after(state, target, 1);
  }
  default: {
    int low = input_event_before(search, node, slot, true);
    if (high - low < 2) return -1;
    return remat_state_empty_after(state, low + 1 + remat_random_below(&search->random, high - low - 1), 1);
  }
  }
}

static bool propose_shift(RematSearch *search) {
  RematState *state = &search->state;
  int slot = random_execution(search), node = state->node_at[slot];
  if (is_locked(search, node)) return false;
  int target = shift_target(search, slot);
  if (target < 0) return false;
  begin_move(search);
  remat_trial_remove(state, slot);
  DeadInputs dead = splitmix64(&search->random) % 4 ? DEAD_HOLD : DEAD_MIXED;
  return finish_move(search, execute(search, node, target, dead, 0));
}

// Removes one recomputation and makes another in memory that the first had freed.
static bool propose_swap(RematSearch *search) {
  RematState *state = &search->state;
  int slot = random_repeated(search);
  if (slot < 0) return false;
  int node = state->node_at[slot];
  int i = remat_state_find(state, node, slot);
  if (i == 0 || is_locked(search, node)) return false;
  Gap gap = random_gap_across(search, state->events[node].at[i - 1] >> 1, slot);
  if (gap.value < 0 || gap.value == node || is_locked(search, gap.value)) return false;
  int use = state->events[gap.value].at[gap.index] >> 1;
  begin_move(search);
  bool made = drop(search, slot);
  // Dropping may have taken the user away.
  made = made && state->node_at[use] >= 0 &&
         fill_before(search, gap.value, use, (DeadInputs)(splitmix64(&search->random) % 3));
  return finish_move(search, made);
}

// Recomputes a neighbour of a recomputed value instead: what is held moves along the graph.
static bool propose_neighbour(RematSearch *search) {
  RematState *state = &search->state;
  int slot = random_repeated(search);
  if (slot < 0) return false;
  int node = state->node_at[slot];
  const RematGraph *graph = state->graph;
  int inputs = state->input_start[node + 1] - state->input_start[node];
  int users = graph->user_start[node + 1] - graph->user_start[node];
  int which = inputs + users ? remat_random_below(&search->random, inputs + users) : -1;
  if (which < 0) return false;
  int value = which < inputs ? state->inputs[state->input_start[node] + which]
                             : graph->users[graph->user_start[node] + which - inputs];
  if (is_locked(search, node) || is_locked(search, value)) return false;
  const ValueEvents *list = &state->events[value];
  // The use that follows, or the last before.
  int i = remat_state_find(state, value, slot);
  while (i < list->n && !is_gap(state, value, i)) i++;
  if (i >= list->n) return false;
  int use = list->at[i] >> 1;
  begin_move(search);
  bool fill_first = splitmix64(&search->random) & 1, made = true;
  DeadInputs dead = (DeadInputs)(splitmix64(&search->random) % 3);
  if (fill_first) made = fill_before(search, value, use, dead);
  made = made && state->node_at[slot] == node && drop(search, slot);
  if (!fill_first) made = made && state->node_at[use] >= 0 && fill_before(search, value, use, dead);
  return finish_move(search, made);
}

bool remat_move_propose(RematSearch *search) {
  int kind = (int)(splitmix64(&search->random) % 100);
  bool is_over = search->state.n_over > 0;
  if (kind < (is_over ? 40 : 20)) return propose_fill(search);
  if (kind < (is_over ? 50 : 45)) return propose_drop(search);
  if (kind < 65) return propose_swap(search);
  if (kind < 75) return propose_neighbour(search);
  return propose_shift(search);
}

bool remat_move_toggle(RematSearch *search) {
  RematState *state = &search->state;
  int node;
  if (state->n_repeated && splitmix64(&search->random) % 2) {
    int slot = random_repeated(search);
    node = state->node_at[slot];
    if (!remat_move_drop(search, slot)) return false;
  } else {
    Gap gap = random_heavy_gap(search);
    if (gap.value < 0 || is_locked(search, gap.value)) return false;
    node = gap.value;
    if (!remat_move_fill(search, gap.value, gap.index, (DeadInputs)(splitmix64(&search->random) % 3))) return false;
  }
  search->locked[node] = search->kick;
  return true;
}
