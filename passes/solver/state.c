// state.c: a schedule as a flat sequence with, per value, the sorted list of its executions and uses. An edit is priced
// from the lists of the few values it touches: their live ranges before and after differ in a few intervals, whose
// effect on the overflow is one pass over the positions they span. Only an accepted edit pays for rebuilding.
#include "state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Positions during an edit. An execution at position p has key (p, 0xFFFF); one inserted before it has (p, sequence).
typedef int64_t Key;

enum { KEY_BITS = 16, KEY_EXISTING = 0xFFFF };

static Key existing_key(int position) { return ((Key)position << KEY_BITS) | KEY_EXISTING; }

typedef struct Event {
  int value;
  bool executes;
  Key key;
} Event;

// `bytes` more (or fewer) live at every key in (after, last].
typedef struct Change {
  Key after, last;
  int64_t bytes;
} Change;

typedef struct Range {
  Key begin, end;
} Range;

struct StateScratch {
  Event *added;       // events of the insertions, by value and key
  int n_added, added_capacity;
  Change *changes;
  int n_changes, change_capacity;
  Range *before, *after;
  int range_capacity;
  int *touched;       // values
  int n_touched;
  int *stamp;         // per value, last edit that touched it
  bool *removed;      // per position
  int64_t *difference;  // per position
  int edit_number;
  int *sequence;      // for applying
  int sequence_capacity;
};

// Anti-dependences by node: with `reversed`, of the node that overwrites.
static void list_anti(const RematProblem *problem, bool reversed, int **start, int **list) {
  size_t n = (size_t)problem->n_nodes;
  *start = solver_allocate(n + 1, sizeof(int));
  *list = solver_allocate((size_t)problem->n_anti, sizeof(int));
  int *fill = solver_allocate(n + 1, sizeof(int));
  for (int i = 0; i < problem->n_anti; i++)
    (*start)[(reversed ? problem->anti[i].after : problem->anti[i].before) + 1]++;
  for (size_t v = 0; v < n; v++) fill[v + 1] = (*start)[v + 1] += (*start)[v];
  for (int i = 0; i < problem->n_anti; i++) {
    RematAnti anti = problem->anti[i];
    (*list)[fill[reversed ? anti.after : anti.before]++] = reversed ? anti.before : anti.after;
  }
  free(fill);
}

RematState remat_state_create(const RematGraph *graph, int64_t budget) {
  const RematProblem *problem = graph->problem;
  size_t n = (size_t)graph->n;
  RematState state = {.graph = graph, .budget = budget};
  state.event_start = solver_allocate(n + 1, sizeof(int));
  state.executions = solver_allocate(n, sizeof(int));
  state.first = solver_allocate(n, sizeof(int));
  list_anti(problem, false, &state.after_start, &state.after);
  list_anti(problem, true, &state.before_start, &state.before);
  state.scratch = solver_allocate(1, sizeof *state.scratch);
  state.scratch->touched = solver_allocate(n, sizeof(int));
  state.scratch->stamp = solver_allocate(n, sizeof(int));
  return state;
}

void remat_state_free(RematState *state) {
  struct StateScratch *scratch = state->scratch;
  void *owned[] = {state->exec,        state->last_use,      state->across,       state->occupied,
                   state->event_start, state->events,        state->executions,   state->first,
                   state->gaps,        state->gap_weight,    state->after,        state->after_start,
                   state->before,      state->before_start,  scratch->added,      scratch->changes,
                   scratch->before,    scratch->after,       scratch->touched,    scratch->stamp,
                   scratch->removed,   scratch->difference,  scratch->sequence,   scratch};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
  *state = (RematState){0};
}

static void reserve(RematState *state, int n, int n_events) {
  struct StateScratch *scratch = state->scratch;
  if (n >= state->capacity) {
    size_t capacity = (size_t)n + (size_t)n / 2 + 64;
    state->capacity = (int)capacity;
    state->exec = solver_reallocate(state->exec, capacity, sizeof(int));
    state->last_use = solver_reallocate(state->last_use, capacity, sizeof(int));
    state->across = solver_reallocate(state->across, capacity + 1, sizeof(int64_t));
    state->occupied = solver_reallocate(state->occupied, capacity + 1, sizeof(int64_t));
    scratch->removed = solver_reallocate(scratch->removed, capacity + 1, sizeof(bool));
    memset(scratch->removed, 0, (capacity + 1) * sizeof(bool));
    scratch->difference = solver_reallocate(scratch->difference, capacity + 2, sizeof(int64_t));
    memset(scratch->difference, 0, (capacity + 2) * sizeof(int64_t));
  }
  if (n_events > state->event_capacity) {
    size_t capacity = (size_t)n_events + (size_t)n_events / 2;
    state->event_capacity = (int)capacity;
    state->events = solver_reallocate(state->events, capacity, sizeof(int));
    state->gaps = solver_reallocate(state->gaps, capacity, sizeof(Gap));
    state->gap_weight = solver_reallocate(state->gap_weight, capacity, sizeof(double));
  }
}

// Lists the events of each value, in order of position; a repeated input gives a repeated use, which is harmless.
static void list_events(RematState *state) {
  const RematNode *nodes = state->graph->problem->nodes;
  int n_nodes = state->graph->n, total = 0;
  int *start = state->event_start;
  for (int v = 0; v <= n_nodes; v++) start[v] = 0;
  for (int v = 0; v < n_nodes; v++) state->executions[v] = 0;
  for (int p = 0; p < state->n; p++) state->executions[state->exec[p]]++;
  for (int v = 0; v < n_nodes; v++) {
    start[v] += state->executions[v];
    for (int i = 0; i < nodes[v].n_inputs; i++) start[nodes[v].inputs[i]] += state->executions[v];
  }
  for (int v = 0; v < n_nodes; v++) {
    int count = start[v];
    start[v] = total;
    total += count;
  }
  reserve(state, state->n, total + 1);
  for (int p = 0; p < state->n; p++) {
    const RematNode *node = &nodes[state->exec[p]];
    for (int i = 0; i < node->n_inputs; i++) state->events[start[node->inputs[i]]++] = 2 * p;
    state->events[start[state->exec[p]]++] = 2 * p + 1;
  }
  for (int v = n_nodes; v > 0; v--) start[v] = start[v - 1];
  start[0] = 0;
}

static void measure(RematState *state) {
  const RematNode *nodes = state->graph->problem->nodes;
  int n = state->n;
  int64_t *freed = state->scratch->difference;  // zero between uses
  for (int v = 0; v < state->graph->n; v++) {
    int execution = -1;
    for (int e = state->event_start[v]; e < state->event_start[v + 1]; e++) {
      int position = state->events[e] / 2;
      if (state->events[e] & 1) {
        if (execution < 0) state->first[v] = position;
        execution = position;
      }
      assert(execution >= 0);
      state->last_use[execution] = position;
    }
  }
  for (int v = 0; v < state->graph->n; v++) {
    if (!state->graph->is_output[v]) continue;
    for (int e = state->event_start[v + 1] - 1; e >= state->event_start[v]; e--)
      if (state->events[e] & 1) {
        state->last_use[state->events[e] / 2] = n;
        break;
      }
  }
  for (int p = 0; p < n; p++) freed[state->last_use[p]] += nodes[state->exec[p]].bytes;
  int64_t live = state->graph->problem->fixed_bytes;
  state->cost = state->overflow = 0;
  state->n_over = 0;
  state->peak = live;
  for (int p = 0; p < n; p++) {
    const RematNode *node = &nodes[state->exec[p]];
    state->across[p] = live;
    live += node->bytes;
    int64_t occupied = state->occupied[p] = live + node->workspace;
    if (occupied > state->peak) state->peak = occupied;
    if (occupied > state->budget) {
      state->overflow += (double)(occupied - state->budget);
      state->n_over++;
    }
    state->cost += node->cost;
    live -= freed[p];
    freed[p] = 0;
  }
  state->across[n] = live;
  freed[n] = 0;
}

static void list_gaps(RematState *state) {
  const RematNode *nodes = state->graph->problem->nodes;
  state->n_gaps = 0;
  double sum = 0;
  for (int v = 0; v < state->graph->n; v++) {
    if (!nodes[v].recomputable || nodes[v].bytes == 0) continue;
    for (int e = state->event_start[v] + 1; e < state->event_start[v + 1]; e++) {
      int from = state->events[e - 1] / 2, to = state->events[e] / 2;
      if ((state->events[e] & 1) || to - from < 2) continue;
      state->gaps[state->n_gaps] = (Gap){v, from, to};
      sum += (double)nodes[v].bytes;
      state->gap_weight[state->n_gaps++] = sum;
    }
  }
}

static void rebuild(RematState *state) {
  list_events(state);
  measure(state);
  list_gaps(state);
}

void remat_state_load(RematState *state, const int *exec, int n) {
  reserve(state, n, 1);
  if (n) memcpy(state->exec, exec, (size_t)n * sizeof(int));
  state->n = n;
  rebuild(state);
}

Edit edit_create(void) {
  return (Edit){solver_allocate(EDIT_LIMIT, sizeof(Insertion)), solver_allocate(EDIT_LIMIT, sizeof(int)), 0, 0};
}

void edit_free(Edit *edit) {
  free(edit->insertions);
  free(edit->removals);
}

void edit_clear(Edit *edit) { edit->n_insertions = edit->n_removals = 0; }

bool edit_insert(Edit *edit, int node, int before) {
  if (edit->n_insertions == EDIT_LIMIT) return false;
  edit->insertions[edit->n_insertions] = (Insertion){node, before, edit->n_insertions + 1};
  edit->n_insertions++;
  return true;
}

bool edit_remove(Edit *edit, int position) {
  for (int i = 0; i < edit->n_removals; i++)
    if (edit->removals[i] == position) return true;
  if (edit->n_removals == EDIT_LIMIT) return false;
  edit->removals[edit->n_removals++] = position;
  return true;
}

int remat_state_event_before(const RematState *state, int value, int position) {
  int low = state->event_start[value], high = state->event_start[value + 1], start = low;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (state->events[middle] / 2 < position)
      low = middle + 1;
    else
      high = middle;
  }
  return low > start ? low - 1 : -1;
}

static int compare_insertions(const void *left, const void *right) {
  const Insertion *a = left, *b = right;
  if (a->before != b->before) return a->before < b->before ? -1 : 1;
  return a->sequence - b->sequence;
}

static int compare_events(const void *left, const void *right) {
  const Event *a = left, *b = right;
  if (a->value != b->value) return a->value < b->value ? -1 : 1;
  return (a->key > b->key) - (a->key < b->key);
}

// Most edits are so small that calling qsort would cost more than pricing them.
static void sort_insertions(Edit *edit) {
  if (edit->n_insertions > 32) {
    qsort(edit->insertions, (size_t)edit->n_insertions, sizeof(Insertion), compare_insertions);
    return;
  }
  for (int i = 1; i < edit->n_insertions; i++) {
    Insertion insertion = edit->insertions[i];
    int j = i;
    for (; j > 0 && compare_insertions(&edit->insertions[j - 1], &insertion) > 0; j--)
      edit->insertions[j] = edit->insertions[j - 1];
    edit->insertions[j] = insertion;
  }
}

static void sort_events(Event *events, int n) {
  if (n > 32) {
    qsort(events, (size_t)n, sizeof(Event), compare_events);
    return;
  }
  for (int i = 1; i < n; i++) {
    Event event = events[i];
    int j = i;
    for (; j > 0 && compare_events(&events[j - 1], &event) > 0; j--) events[j] = events[j - 1];
    events[j] = event;
  }
}

static void touch(struct StateScratch *scratch, int value) {
  if (scratch->stamp[value] == scratch->edit_number) return;
  scratch->stamp[value] = scratch->edit_number;
  scratch->touched[scratch->n_touched++] = value;
}

static void add_event(struct StateScratch *scratch, int value, Key key, bool executes) {
  if (scratch->n_added == scratch->added_capacity) {
    scratch->added_capacity = 2 * scratch->added_capacity + 64;
    scratch->added = solver_reallocate(scratch->added, (size_t)scratch->added_capacity, sizeof(Event));
  }
  scratch->added[scratch->n_added++] = (Event){value, executes, key};
}

static Key insertion_key(const Insertion *insertion) {
  return ((Key)insertion->before << KEY_BITS) | insertion->sequence;
}

// Collects the touched values and the events that the insertions bring.
static void collect_events(RematState *state, Edit *edit) {
  struct StateScratch *scratch = state->scratch;
  const RematNode *nodes = state->graph->problem->nodes;
  scratch->edit_number++;
  scratch->n_touched = scratch->n_added = scratch->n_changes = 0;
  sort_insertions(edit);
  for (int i = 0; i < edit->n_insertions; i++) {
    const Insertion *insertion = &edit->insertions[i];
    const RematNode *node = &nodes[insertion->node];
    Key key = insertion_key(insertion);
    touch(scratch, insertion->node);
    add_event(scratch, insertion->node, key, true);
    for (int k = 0; k < node->n_inputs; k++) {
      touch(scratch, node->inputs[k]);
      add_event(scratch, node->inputs[k], key, false);
    }
  }
  for (int i = 0; i < edit->n_removals; i++) {
    int v = state->exec[edit->removals[i]];
    scratch->removed[edit->removals[i]] = true;
    touch(scratch, v);
    for (int k = 0; k < nodes[v].n_inputs; k++) touch(scratch, nodes[v].inputs[k]);
  }
  sort_events(scratch->added, scratch->n_added);
}

static void add_change(struct StateScratch *scratch, Key after, Key last, int64_t bytes) {
  if (after >= last || bytes == 0) return;
  if (scratch->n_changes == scratch->change_capacity) {
    scratch->change_capacity = 2 * scratch->change_capacity + 64;
    scratch->changes = solver_reallocate(scratch->changes, (size_t)scratch->change_capacity, sizeof(Change));
  }
  scratch->changes[scratch->n_changes++] = (Change){after, last, bytes};
}

// Live ranges of `value` as things are. Returns their number.
static int ranges_before(const RematState *state, int value, Range *ranges) {
  int count = 0;
  for (int e = state->event_start[value]; e < state->event_start[value + 1]; e++) {
    Key key = existing_key(state->events[e] / 2);
    if (state->events[e] & 1) ranges[count++].begin = key;
    ranges[count - 1].end = key;
  }
  return count;
}

// Live ranges of `value` after the edit, from the old events that stay merged with the `n_added` new ones; -1 when
// some use comes before any execution.
static int ranges_after(const RematState *state, int value, const Event *added, int n_added, Range *ranges) {
  const bool *removed = state->scratch->removed;
  int count = 0, a = 0, e = state->event_start[value], end = state->event_start[value + 1];
  while (e < end || a < n_added) {
    Key key = e < end ? existing_key(state->events[e] / 2) : INT64_MAX;
    bool executes;
    if (a < n_added && added[a].key < key) {
      key = added[a].key;
      executes = added[a++].executes;
    } else {
      int event = state->events[e++];
      if (removed[event / 2]) continue;
      executes = event & 1;
    }
    if (executes) ranges[count++].begin = key;
    if (count == 0) return -1;
    ranges[count - 1].end = key;
  }
  return count;
}

// Adds the changes that turn `before` into `after`, leaving out what they share.
static void diff_ranges(struct StateScratch *scratch, const Range *before, int n_before, const Range *after,
                        int n_after, int64_t bytes) {
  while (n_before && n_after && before->begin == after->begin && before->end == after->end)
    before++, after++, n_before--, n_after--;
  while (n_before && n_after && before[n_before - 1].begin == after[n_after - 1].begin &&
         before[n_before - 1].end == after[n_after - 1].end)
    n_before--, n_after--;
  if (!n_before && !n_after) return;
  Range first = n_before ? *before : (Range){0, 0};
  if (n_before && n_after && before->begin == after->begin) {
    // Same beginning, so only the tails differ.
    add_change(scratch, after->end, before->end, -bytes);
    add_change(scratch, before->end, after->end, bytes);
    before++, after++, n_before--, n_after--;
    // A split: the piece freed in the middle ends where the second new range begins, and both end alike.
    if (n_before == 0 && n_after == 1 && after->end == first.end && scratch->n_changes &&
        scratch->changes[scratch->n_changes - 1].bytes == -bytes &&
        scratch->changes[scratch->n_changes - 1].last == first.end) {
      scratch->changes[scratch->n_changes - 1].last = after->begin - 1;
      return;
    }
  }
  for (int i = 0; i < n_before; i++) add_change(scratch, before[i].begin - 1, before[i].end, -bytes);
  for (int i = 0; i < n_after; i++) add_change(scratch, after[i].begin - 1, after[i].end, bytes);
}

static void reserve_ranges(struct StateScratch *scratch, int count) {
  if (count <= scratch->range_capacity) return;
  scratch->range_capacity = 2 * count + 64;
  scratch->before = solver_reallocate(scratch->before, (size_t)scratch->range_capacity, sizeof(Range));
  scratch->after = solver_reallocate(scratch->after, (size_t)scratch->range_capacity, sizeof(Range));
}

// Compares the live ranges of one touched value before and after. False when the edit is illegal.
static bool compare_value(RematState *state, int value) {
  struct StateScratch *scratch = state->scratch;
  const RematNode *node = &state->graph->problem->nodes[value];
  int low = 0, high = scratch->n_added;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (scratch->added[middle].value < value)
      low = middle + 1;
    else
      high = middle;
  }
  for (high = low; high < scratch->n_added && scratch->added[high].value == value;) high++;
  reserve_ranges(scratch, state->event_start[value + 1] - state->event_start[value] + high - low);
  int n_before = ranges_before(state, value, scratch->before);
  int n_after = ranges_after(state, value, scratch->added + low, high - low, scratch->after);
  if (n_after <= 0 || (n_after > 1 && !node->recomputable)) return false;
  if (node->bytes == 0) return true;
  if (state->graph->is_output[value]) {
    scratch->before[n_before - 1].end = existing_key(state->n);
    scratch->after[n_after - 1].end = existing_key(state->n);
  }
  diff_ranges(scratch, scratch->before, n_before, scratch->after, n_after, node->bytes);
  return true;
}

static int64_t change_at(const struct StateScratch *scratch, Key key) {
  int64_t bytes = 0;
  for (int i = 0; i < scratch->n_changes; i++)
    if (scratch->changes[i].after < key && key <= scratch->changes[i].last) bytes += scratch->changes[i].bytes;
  return bytes;
}

static void count_over(const RematState *state, int64_t occupied, int sign, EditPrice *price) {
  if (occupied <= state->budget) return;
  price->overflow += sign * (double)(occupied - state->budget);
  price->n_over += sign;
}

// What the changes do to positions that exist.
static void price_existing(RematState *state, EditPrice *price) {
  struct StateScratch *scratch = state->scratch;
  int64_t *difference = scratch->difference;
  int low = state->n, high = -1;
  for (int i = 0; i < scratch->n_changes; i++) {
    const Change *change = &scratch->changes[i];
    int begin = (int)((change->after + 1) >> KEY_BITS);
    int end = (int)((change->last + 1) >> KEY_BITS);  // one past the last existing position covered
    if (end > state->n) end = state->n;
    if (begin >= end) continue;
    difference[begin] += change->bytes;
    difference[end] -= change->bytes;
    if (begin < low) low = begin;
    if (end > high) high = end;
  }
  int64_t now = 0, budget = state->budget;
  for (int p = low; p < high; p++) {
    now += difference[p];
    difference[p] = 0;
    int64_t old_over = state->occupied[p] - budget, new_over = old_over + now;
    if (now == 0 || (old_over <= 0 && new_over <= 0)) continue;
    price->overflow += (double)((new_over > 0 ? new_over : 0) - (old_over > 0 ? old_over : 0));
    price->n_over += (new_over > 0) - (old_over > 0);
  }
  if (high >= 0) difference[high] = 0;
}

// The insertion of `node`, which executes once, or NULL.
static const Insertion *find_insertion(const Edit *edit, int node) {
  for (int i = 0; i < edit->n_insertions; i++)
    if (edit->insertions[i].node == node) return &edit->insertions[i];
  return NULL;
}

// Every execution of what `moved` overwrites the input of must stay before it.
static bool may_move(const RematState *state, const Edit *edit, const Insertion *moved) {
  for (int b = state->before_start[moved->node]; b < state->before_start[moved->node + 1]; b++) {
    int reader = state->before[b], e = state->event_start[reader + 1] - 1;
    while (!(state->events[e] & 1)) e--;
    if (state->events[e] / 2 >= moved->before) return false;
    for (int i = 0; i < edit->n_insertions; i++)
      if (edit->insertions[i].node == reader && insertion_key(&edit->insertions[i]) > insertion_key(moved))
        return false;
  }
  return true;
}

static bool respects_anti(const RematState *state, const Edit *edit) {
  for (int i = 0; i < edit->n_insertions; i++) {
    const Insertion *insertion = &edit->insertions[i];
    if (!may_move(state, edit, insertion)) return false;
    for (int a = state->after_start[insertion->node]; a < state->after_start[insertion->node + 1]; a++)
      if (!find_insertion(edit, state->after[a]) && insertion->before > state->first[state->after[a]]) return false;
  }
  return true;
}

bool remat_state_price(RematState *state, Edit *edit, EditPrice *price) {
  struct StateScratch *scratch = state->scratch;
  const RematNode *nodes = state->graph->problem->nodes;
  *price = (EditPrice){0};
  if (!respects_anti(state, edit)) return false;
  collect_events(state, edit);
  bool legal = true;
  for (int i = 0; i < scratch->n_touched && legal; i++) legal = compare_value(state, scratch->touched[i]);
  for (int i = 0; i < edit->n_removals; i++) scratch->removed[edit->removals[i]] = false;
  if (!legal) return false;
  price_existing(state, price);
  for (int i = 0; i < edit->n_insertions; i++) {
    const Insertion *insertion = &edit->insertions[i];
    int64_t live = state->across[insertion->before] + change_at(scratch, insertion_key(insertion));
    int64_t occupied = live + nodes[insertion->node].workspace;
    count_over(state, occupied, 1, price);
    price->cost += nodes[insertion->node].cost;
  }
  for (int i = 0; i < edit->n_removals; i++) {
    int p = edit->removals[i];
    count_over(state, state->occupied[p] + change_at(scratch, existing_key(p)), -1, price);
    price->cost -= nodes[state->exec[p]].cost;
  }
  return true;
}

void remat_state_apply(RematState *state, const Edit *edit) {
  struct StateScratch *scratch = state->scratch;
  int total = state->n + edit->n_insertions, count = 0, next = 0;
  if (total > scratch->sequence_capacity) {
    scratch->sequence_capacity = 2 * total + 64;
    scratch->sequence = solver_reallocate(scratch->sequence, (size_t)scratch->sequence_capacity, sizeof(int));
  }
  for (int i = 0; i < edit->n_removals; i++) scratch->removed[edit->removals[i]] = true;
  for (int p = 0; p <= state->n; p++) {
    for (; next < edit->n_insertions && edit->insertions[next].before == p; next++)
      scratch->sequence[count++] = edit->insertions[next].node;
    if (p < state->n && !scratch->removed[p]) scratch->sequence[count++] = state->exec[p];
  }
  for (int i = 0; i < edit->n_removals; i++) scratch->removed[edit->removals[i]] = false;
  remat_state_load(state, scratch->sequence, count);
}
