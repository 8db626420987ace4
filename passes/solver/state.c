// state.c: slots, event lists and occupied memory of the schedule under search, and trials: the invariant is that the
// lists are those of the schedule with the open trial, `over` is that of the schedule without it.
#include "state.h"
#include "support/alloc.h"

#include <stdlib.h>
#include <string.h>

// Subtracted from the bytes of empty slots, so that none is ever above the budget and pricing need not look.
static const int64_t EMPTY = INT64_C(1) << 60;

enum { STEPS_LOAD = 25 };   // of a slot, when a schedule is loaded

// ---- pricing ----

// Adds what `bytes` more in n slots do to the overflow. Vectors of four where the machine has them.
typedef int64_t Lanes __attribute__((vector_size(32), aligned(8)));

#define PRICE_RANGE_BODY                                                     \
  Lanes overflow = {0}, count = {0}, more = {bytes, bytes, bytes, bytes};    \
  int p = 0;                                                                 \
  for (; p + 4 <= n; p += 4) {                                               \
    Lanes now = *(const Lanes *)(const void *)(over + p), then = now + more; \
    Lanes was = now > 0, will = then > 0;                                    \
    overflow += (then & will) - (now & was);                                 \
    count += was - will;                                                     \
  }                                                                          \
  int64_t sum = overflow[0] + overflow[1] + overflow[2] + overflow[3];       \
  int64_t counted = count[0] + count[1] + count[2] + count[3];               \
  for (; p < n; p++) {                                                       \
    int64_t now = over[p], then = now + bytes;                               \
    sum += (then > 0 ? then : 0) - (now > 0 ? now : 0);                      \
    counted += (then > 0) - (now > 0);                                       \
  }                                                                          \
  price->overflow += sum;                                                    \
  price->n_over += (int)counted;

static void price_range_portable(const int64_t *over, int n, int64_t bytes, TrialPrice *price) { PRICE_RANGE_BODY }

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2"))) static void price_range_avx2(const int64_t *over, int n, int64_t bytes,
                                                             TrialPrice *price) {
  PRICE_RANGE_BODY
}
#endif

static void choose_price_range(RematState *state) {
  state->price_range = price_range_portable;
#if defined(__x86_64__) && defined(__GNUC__)
  if (__builtin_cpu_supports("avx2")) state->price_range = price_range_avx2;
#endif
}

static int compare_steps(const void *left, const void *right) {
  const MemoryStep *a = left, *b = right;
  return (a->slot > b->slot) - (a->slot < b->slot);
}

static void sort_steps(Trial *trial) {
  if (trial->sorted) return;
  trial->sorted = true;
  if (trial->n_steps > 256) {
    qsort(trial->steps, (size_t)trial->n_steps, sizeof(MemoryStep), compare_steps);
    return;
  }
  MemoryStep *steps = trial->steps;
  for (int i = 1; i < trial->n_steps; i++) {
    MemoryStep step = steps[i];
    int j = i;
    for (; j > 0 && steps[j - 1].slot > step.slot; j--) steps[j] = steps[j - 1];
    steps[j] = step;
  }
}

bool remat_trial_price(RematState *state, int64_t limit, TrialPrice *price) {
  Trial *trial = &state->trial;
  *price = (TrialPrice){0};
  sort_steps(trial);
  const MemoryStep *steps = trial->steps;
  const RematProblem *problem = state->graph->problem;
  int64_t more = 0;
  bool only_rises = state->n_over == 0;   // where nothing is above the budget, memory that is freed is worth nothing
  for (int i = 0; i + 1 < trial->n_steps; i++) {
    more += steps[i].bytes;
    int begin = steps[i].slot, n = steps[i + 1].slot - begin;
    if (n == 0 || more == 0 || (only_rises && more < 0)) continue;
    watch_count(problem, 10 + n / 2);
    state->price_range(state->over + begin, n, more, price);
    if (only_rises && price->overflow > limit) return false;
  }
  return price->overflow <= limit;
}

// ---- events ----

static void add_range(Trial *trial, int begin, int end, int64_t bytes) {
  if (begin >= end) return;
  if (trial->n_steps + 2 > trial->step_capacity) {
    trial->step_capacity = 2 * trial->step_capacity + 64;
    trial->steps = reallocate_array(trial->steps, (size_t)trial->step_capacity, sizeof(MemoryStep));
  }
  trial->steps[trial->n_steps++] = (MemoryStep){begin, bytes};
  trial->steps[trial->n_steps++] = (MemoryStep){end, -bytes};
}

// What the presence of event i of `value` changes, `bytes` being negative when it is about to go. A value is live in
// the slots of its events and between an event and a use that follows it.
static void note_event(Trial *trial, const ValueEvents *list, int i, int64_t bytes) {
  int slot = list->at[i] >> 1;
  bool next_uses = i + 1 < list->n && !(list->at[i + 1] & 1);
  if (i == 0) {
    add_range(trial, slot, next_uses ? list->at[1] >> 1 : slot + 1, bytes);
    return;
  }
  int previous = list->at[i - 1] >> 1;
  if (list->at[i] & 1) {
    if (next_uses) add_range(trial, previous + 1, slot, -bytes);
    else add_range(trial, slot, slot + 1, bytes);
  } else if (!next_uses) {
    add_range(trial, previous + 1, slot + 1, bytes);
  }
}

static int lower_bound(const ValueEvents *list, int at) {
  int low = 0, high = list->n;
  while (high - low > 8) {
    int middle = (low + high) / 2;
    if (list->at[middle] < at) low = middle + 1;
    else high = middle;
  }
  while (low < high && list->at[low] < at) low++;
  return low;
}

int remat_state_find(const RematState *state, int value, int slot) {
  return lower_bound(&state->events[value], 2 * slot);
}

static bool is_bad(const ValueEvents *list) { return list->n == 0 || !(list->at[0] & 1); }

static void add_event(RematState *state, int value, int at, bool note) {
  ValueEvents *list = &state->events[value];
  if (list->n == list->capacity) {
    list->capacity = 2 * list->capacity + 4;
    list->at = reallocate_array(list->at, (size_t)list->capacity, sizeof(int));
  }
  int i = list->n;
  state->n_bad -= is_bad(list);
  if (i > 0 && list->at[i - 1] > at) {
    i = lower_bound(list, at);
    memmove(list->at + i + 1, list->at + i, (size_t)(list->n - i) * sizeof(int));
  }
  list->at[i] = at;
  list->n++;
  state->n_bad += is_bad(list);
  if (note && state->bytes[value]) note_event(&state->trial, list, i, state->bytes[value]);
}

static void remove_event(RematState *state, int value, int at, bool note) {
  ValueEvents *list = &state->events[value];
  int i = lower_bound(list, at);
  if (note && state->bytes[value]) note_event(&state->trial, list, i, -state->bytes[value]);
  state->n_bad -= is_bad(list);
  list->n--;
  memmove(list->at + i, list->at + i + 1, (size_t)(list->n - i) * sizeof(int));
  state->n_bad += is_bad(list);
}

static void set_repeated(RematState *state, int node, bool repeats) {
  if (repeats) {
    state->repeated_index[node] = state->n_repeated;
    state->repeated[state->n_repeated++] = node;
    return;
  }
  int i = state->repeated_index[node], last = state->repeated[--state->n_repeated];
  state->repeated[i] = last;
  state->repeated_index[last] = i;
}

static void insert_execution(RematState *state, int node, int slot, bool note) {
  state->node_at[slot] = node;
  state->n++;
  if (++state->events[node].executions == 2) set_repeated(state, node, true);
  add_event(state, node, 2 * slot + 1, note);
  for (int i = state->input_start[node]; i < state->input_start[node + 1]; i++)
    add_event(state, state->inputs[i], 2 * slot, note);
  if (note) add_range(&state->trial, slot, slot + 1, EMPTY + state->workspace[node]);
}

static void remove_execution(RematState *state, int slot, bool note) {
  int node = state->node_at[slot];
  state->node_at[slot] = -1;
  state->n--;
  if (--state->events[node].executions == 1) set_repeated(state, node, false);
  remove_event(state, node, 2 * slot + 1, note);
  for (int i = state->input_start[node]; i < state->input_start[node + 1]; i++)
    remove_event(state, state->inputs[i], 2 * slot, note);
  if (note) add_range(&state->trial, slot, slot + 1, -EMPTY - state->workspace[node]);
}

// ---- trials ----

void remat_trial_begin(RematState *state) {
  state->trial.n_operations = state->trial.n_steps = 0;
  state->trial.sorted = false;
  state->trial.cost = 0;
}

static void push_operation(Operation **list, int *n, int *capacity, Operation operation) {
  if (*n == *capacity) {
    *capacity = 2 * *capacity + 64;
    *list = reallocate_array(*list, (size_t)*capacity, sizeof(Operation));
  }
  (*list)[(*n)++] = operation;
}

static void note_operation(RematState *state, Operation operation) {
  Trial *trial = &state->trial;
  push_operation(&trial->operations, &trial->n_operations, &trial->operation_capacity, operation);
  trial->sorted = false;
}

void remat_trial_insert(RematState *state, int node, int slot) {
  insert_execution(state, node, slot, true);
  state->trial.cost += state->cost_of[node];
  note_operation(state, (Operation){OPERATION_INSERT, node, slot, 0});
}

void remat_trial_remove(RematState *state, int slot) {
  int node = state->node_at[slot];
  remove_execution(state, slot, true);
  state->trial.cost -= state->cost_of[node];
  note_operation(state, (Operation){OPERATION_REMOVE, node, slot, 0});
}

static int first_execution(const ValueEvents *list) { return list->at[0] >> 1; }

static int last_execution(const ValueEvents *list) {
  int i = list->n - 1;
  while (!(list->at[i] & 1)) i--;
  return list->at[i] >> 1;
}

bool remat_trial_legal(const RematState *state) {
  if (state->n_bad > 0) return false;
  for (int i = 0; i < state->trial.n_operations; i++) {
    const Operation *operation = &state->trial.operations[i];
    int node = operation->node;
    const ValueEvents *list = &state->events[node];
    if (list->executions > 1 && !state->recomputable[node]) return false;
    if (operation->kind != OPERATION_INSERT) continue;
    for (int a = state->after_start[node]; a < state->after_start[node + 1]; a++)
      if (last_execution(list) > first_execution(&state->events[state->after[a]])) return false;
    for (int b = state->before_start[node]; b < state->before_start[node + 1]; b++)
      if (last_execution(&state->events[state->before[b]]) > first_execution(list)) return false;
  }
  return true;
}

static void apply_steps(RematState *state) {
  Trial *trial = &state->trial;
  sort_steps(trial);
  int64_t more = 0;
  for (int i = 0; i + 1 < trial->n_steps; i++) {
    more += trial->steps[i].bytes;
    if (more == 0) continue;
    for (int p = trial->steps[i].slot; p < trial->steps[i + 1].slot; p++) state->over[p] += more;
  }
  trial->n_steps = 0;
}

void remat_trial_accept(RematState *state, const TrialPrice *price) {
  Trial *trial = &state->trial;
  apply_steps(state);
  state->cost += trial->cost;
  state->overflow += price->overflow;
  state->n_over += price->n_over;
  if (state->journaling)
    for (int i = 0; i < trial->n_operations; i++)
      push_operation(&state->journal, &state->n_journal, &state->journal_capacity, trial->operations[i]);
}

void remat_trial_reject(RematState *state) {
  Trial *trial = &state->trial;
  for (int i = trial->n_operations - 1; i >= 0; i--) {
    const Operation *operation = &trial->operations[i];
    if (operation->kind == OPERATION_INSERT) remove_execution(state, operation->slot, false);
    else insert_execution(state, operation->node, operation->slot, false);
  }
  trial->n_operations = trial->n_steps = 0;
}

// ---- slots ----

static void replace_event(RematState *state, int value, int at, int by) {
  ValueEvents *list = &state->events[value];
  list->at[lower_bound(list, at)] = by;
}

// Moves an execution over empty slots. What is live in a slot just passed is what is live across the boundary there.
static void move_execution(RematState *state, int from, int to) {
  int node = state->node_at[from];
  int64_t own = state->bytes[node] + state->workspace[node], *over = state->over;
  int64_t here = over[from];
  if (to < from) {
    // Live after the execution: as in the next slot, less what only lives in that.
    int64_t next = over[from + 1];
    int beside = state->node_at[from + 1];
    if (beside >= 0) next -= state->bytes[beside] + state->workspace[beside] + EMPTY;
    for (int p = to + 1; p <= from; p++) over[p] = next;
  } else {
    for (int p = from; p < to; p++) over[p] = here - own - EMPTY;
  }
  over[to] = here;
  state->node_at[from] = -1;
  state->node_at[to] = node;
  replace_event(state, node, 2 * from + 1, 2 * to + 1);
  for (int i = state->input_start[node]; i < state->input_start[node + 1]; i++)
    replace_event(state, state->inputs[i], 2 * from, 2 * to);
}

enum { ROOM_REACH = 256 };   // beyond that many slots it is time to spread all executions again

void remat_state_make_room(RematState *state, int slot, int count) {
  int empty = 0, p = slot - 1;
  for (; p >= 0 && slot - p < ROOM_REACH; p--)
    if (state->node_at[p] < 0 && ++empty == count) break;
  if (empty < count) {
    state->scratch = state->scratch_capacity < state->n
                         ? reallocate_array(state->scratch, (size_t)(state->scratch_capacity = 2 * state->n),
                                            sizeof(int))
                         : state->scratch;
    int n = remat_state_sequence(state, state->scratch);
    double cost = state->cost;
    remat_state_load(state, state->scratch, n);
    state->cost = cost;
    return;
  }
  int to = p;
  for (int from = p; from < slot; from++) {
    if (state->node_at[from] < 0) continue;
    if (from != to) {
      move_execution(state, from, to);
      if (state->journaling)
        push_operation(&state->journal, &state->n_journal, &state->journal_capacity,
                       (Operation){OPERATION_MOVE, 0, to, from});
    }
    to++;
  }
}

// The last slot is never used, so that every execution has one after it.
int remat_state_empty_before(const RematState *state, int slot, int hops) {
  if (slot > state->n_slots - 2) slot = state->n_slots - 2;
  for (; slot >= 0; slot--) {
    if (state->node_at[slot] < 0) return slot;
    if (hops-- == 0) return -1;
  }
  return -1;
}

int remat_state_empty_after(const RematState *state, int slot, int hops) {
  for (; slot < state->n_slots - 1; slot++) {
    if (state->node_at[slot] < 0) return slot;
    if (hops-- == 0) return -1;
  }
  return -1;
}

int remat_state_sequence(const RematState *state, int *exec) {
  int n = 0;
  for (int p = 0; p < state->n_slots; p++)
    if (state->node_at[p] >= 0) exec[n++] = state->node_at[p];
  return n;
}

int64_t remat_state_peak(const RematState *state) {
  int64_t fixed = state->graph->problem->fixed_bytes, most = -state->budget;
  for (int p = 0; p < state->n_slots; p++)
    if (state->node_at[p] >= 0 && state->over[p] > most) most = state->over[p];
  return fixed + ((most + state->budget) << state->shift);
}

// ---- mark and rollback ----

void remat_state_mark(RematState *state) {
  if (state->journaling && state->n_journal == 0 && !state->mark.is_stale) return;   // nothing has changed since
  if (state->n > state->mark.capacity) {
    state->mark.capacity = 2 * state->n;
    state->mark.exec = reallocate_array(state->mark.exec, (size_t)state->mark.capacity, sizeof(int));
  }
  state->mark.n = remat_state_sequence(state, state->mark.exec);
  state->mark.cost = state->cost;
  state->mark.overflow = state->overflow;
  state->mark.n_over = state->n_over;
  state->mark.is_stale = false;
  state->journaling = true;
  state->n_journal = 0;
}

void remat_state_rollback(RematState *state) {
  if (state->mark.is_stale || state->n_journal > state->n) {
    remat_state_load(state, state->mark.exec, state->mark.n);
  } else {
    remat_trial_begin(state);
    for (int i = state->n_journal - 1; i >= 0; i--) {
      const Operation *operation = &state->journal[i];
      if (operation->kind == OPERATION_INSERT) {
        remove_execution(state, operation->slot, true);
      } else if (operation->kind == OPERATION_REMOVE) {
        insert_execution(state, operation->node, operation->slot, true);
      } else {
        apply_steps(state);
        remat_trial_begin(state);
        move_execution(state, operation->slot, operation->from);
      }
    }
    state->trial.sorted = false;
    apply_steps(state);
  }
  state->cost = state->mark.cost;
  state->overflow = state->mark.overflow;
  state->n_over = state->mark.n_over;
  state->mark.is_stale = false;
  state->n_journal = 0;
}

// ---- whole schedules ----

static void measure(RematState *state) {
  int64_t now = 0;
  watch_count(state->graph->problem, STEPS_LOAD * (int64_t)state->n_slots);
  memset(state->over, 0, ((size_t)state->n_slots + 1) * sizeof *state->over);
  for (int v = 0; v < state->n_nodes; v++) {
    const ValueEvents *list = &state->events[v];
    for (int i = 0; i < list->n; i++) {
      if (!(list->at[i] & 1)) continue;
      int begin = list->at[i] >> 1;
      while (i + 1 < list->n && !(list->at[i + 1] & 1)) i++;
      int end = list->at[i] >> 1;
      state->over[begin] += state->bytes[v];
      if (end < state->n_slots) state->over[end + 1] -= state->bytes[v];
    }
  }
  state->overflow = 0;
  state->n_over = 0;
  state->cost = 0;
  for (int p = 0; p < state->n_slots; p++) {
    int node = state->node_at[p];
    now += state->over[p];
    state->over[p] = now - state->budget + (node < 0 ? -EMPTY : state->workspace[node]);
    if (node >= 0) state->cost += state->cost_of[node];
    if (state->over[p] <= 0) continue;
    state->overflow += state->over[p];
    state->n_over++;
  }
  state->over[state->n_slots] = -EMPTY;
}

void remat_state_load(RematState *state, const int *exec, int n) {
  int n_slots = 2 * n + 64;
  state->node_at = reallocate_array(state->node_at, (size_t)n_slots, sizeof(int));
  state->over = reallocate_array(state->over, (size_t)n_slots + 1, sizeof(int64_t));
  for (int v = 0; v < state->n_nodes; v++) state->events[v].n = state->events[v].executions = 0;
  for (int p = 0; p < n_slots; p++) state->node_at[p] = -1;
  state->n_slots = n_slots;
  state->n = state->n_repeated = 0;
  state->n_bad = state->n_nodes;
  state->trial.n_operations = state->trial.n_steps = 0;
  if (state->journaling) state->mark.is_stale = true;
  for (int i = 0; i < n; i++) insert_execution(state, exec[i], 2 * i + 32, false);
  for (int i = 0; i < state->graph->problem->n_outputs; i++) {
    int value = state->graph->problem->outputs[i];
    ValueEvents *list = &state->events[value];
    if (list->at[list->n - 1] != 2 * n_slots) add_event(state, value, 2 * n_slots, false);
  }
  measure(state);
}

void remat_state_set_budget(RematState *state, int64_t budget_bytes) {
  state->budget = (budget_bytes - state->graph->problem->fixed_bytes) >> state->shift;
  if (state->n == 0) return;
  double cost = state->cost;
  measure(state);
  state->cost = cost;
}

// ---- the problem ----

static void copy_nodes(RematState *state) {
  const RematProblem *problem = state->graph->problem;
  size_t n = (size_t)state->n_nodes;
  double total = 0;
  for (size_t v = 0; v < n; v++) total += (double)problem->nodes[v].bytes + (double)problem->nodes[v].workspace;
  while (total > 0x1p44) total /= 2, state->shift++;
  int64_t round = (INT64_C(1) << state->shift) - 1;
  state->bytes = allocate_array(n, sizeof(int64_t));
  state->workspace = allocate_array(n, sizeof(int64_t));
  state->cost_of = allocate_array(n, sizeof(double));
  state->recomputable = allocate_array(n, sizeof(bool));
  state->input_start = allocate_array(n + 1, sizeof(int));
  int *seen = allocate_array(n, sizeof *seen), capacity = 0;
  for (size_t v = 0; v < n; v++) capacity += problem->nodes[v].n_inputs;
  state->inputs = allocate_array((size_t)capacity, sizeof(int));
  int count = 0;
  for (size_t v = 0; v < n; v++) {
    const RematNode *node = &problem->nodes[v];
    state->bytes[v] = (node->bytes >> state->shift) + ((node->bytes & round) != 0);
    state->workspace[v] = (node->workspace >> state->shift) + ((node->workspace & round) != 0);
    state->cost_of[v] = node->cost;
    state->recomputable[v] = node->recomputable;
    state->input_start[v] = count;
    for (int i = 0; i < node->n_inputs; i++) {
      int input = node->inputs[i];
      if (seen[input] == (int)v + 1) continue;
      seen[input] = (int)v + 1;
      state->inputs[count++] = input;
    }
  }
  state->input_start[n] = count;
  free(seen);
}

RematState remat_state_create(const RematGraph *graph, int64_t budget_bytes) {
  RematState state = {.graph = graph, .n_nodes = graph->n};
  choose_price_range(&state);
  copy_nodes(&state);
  remat_list_anti(graph->problem, true, &state.after_start, &state.after);
  remat_list_anti(graph->problem, false, &state.before_start, &state.before);
  remat_state_set_budget(&state, budget_bytes);
  state.events = allocate_array((size_t)graph->n, sizeof(ValueEvents));
  state.repeated = allocate_array((size_t)graph->n, sizeof(int));
  state.repeated_index = allocate_array((size_t)graph->n, sizeof(int));
  return state;
}

void remat_state_free(RematState *state) {
  for (int v = 0; v < state->n_nodes; v++) free(state->events[v].at);
  free(state->events);
  free(state->repeated);
  free(state->repeated_index);
  free(state->bytes);
  free(state->workspace);
  free(state->cost_of);
  free(state->recomputable);
  free(state->input_start);
  free(state->inputs);
  free(state->after_start);
  free(state->after);
  free(state->before_start);
  free(state->before);
  free(state->node_at);
  free(state->over);
  free(state->trial.operations);
  free(state->trial.steps);
  free(state->journal);
  free(state->mark.exec);
  free(state->scratch);
}
