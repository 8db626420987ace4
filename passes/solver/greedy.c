// greedy.c: the start of the search. Descent: the recomputation that frees most overflow (bytes x duration) per cost,
// again and again. A value's best recomputation is priced anew only when it comes to the top of a heap, since what it
// frees can hardly grow while others are made (lazy evaluation, as for submodular functions: Minoux 1978).
#include <math.h>
#include <stdlib.h>

#include "search.h"
#include "support/alloc.h"

typedef struct Heap {
  int n;
  int *value;      // Owned; per place
  int *place;      // Owned; per value, -1 when absent
  double *score;   // Owned; per value
} Heap;

static void put(Heap *heap, int i, int value) {
  heap->value[i] = value;
  heap->place[value] = i;
}

static void sift_up(Heap *heap, int i, int value) {
  for (; i > 0 && heap->score[heap->value[(i - 1) / 2]] < heap->score[value]; i = (i - 1) / 2)
    put(heap, i, heap->value[(i - 1) / 2]);
  put(heap, i, value);
}

static void sift_down(Heap *heap, int i, int value) {
  for (;;) {
    int child = 2 * i + 1;
    if (child >= heap->n) break;
    if (child + 1 < heap->n && heap->score[heap->value[child + 1]] > heap->score[heap->value[child]]) child++;
    if (heap->score[heap->value[child]] <= heap->score[value]) break;
    put(heap, i, heap->value[child]);
    i = child;
  }
  put(heap, i, value);
}

// Changes the score of `value`, which may be absent. A score of 0 removes it.
static void heap_set(Heap *heap, int value, double score) {
  int i = heap->place[value];
  heap->score[value] = score;
  if (i < 0) {
    if (score > 0) sift_up(heap, heap->n++, value);
    return;
  }
  if (score <= 0) {
    heap->place[value] = -1;
    int last = heap->value[--heap->n];
    if (last == value) return;
    value = last;
  }
  put(heap, i, value);
  sift_up(heap, i, value);
  sift_down(heap, heap->place[value], value);
}

typedef struct Choice {
  int index;   // event
  DeadInputs dead;
  double score;
} Choice;

enum { LONGEST_GAPS = 6 };

// The longest gaps of `value`, which matter most: their last events. Returns how many.
static int list_gaps(const RematState *state, int value, int *indices) {
  const ValueEvents *list = &state->events[value];
  int lengths[LONGEST_GAPS], count = 0;
  for (int i = 1; i < list->n; i++) {
    int length = (list->at[i] >> 1) - (list->at[i - 1] >> 1);
    if ((list->at[i] & 1) || length < 2 || list->at[i] >> 1 >= state->n_slots) continue;
    int k = count < LONGEST_GAPS ? count++ : LONGEST_GAPS;
    if (k == LONGEST_GAPS && lengths[--k] >= length) continue;
    for (; k > 0 && lengths[k - 1] < length; k--) lengths[k] = lengths[k - 1], indices[k] = indices[k - 1];
    lengths[k] = length;
    indices[k] = i;
  }
  return count;
}

// Overflow that filling a gap frees, per cost; infinite where it costs nothing, 0 where it frees none or cannot be.
static double score_fill(RematSearch *search, int value, int index, DeadInputs dead) {
  RematState *state = &search->state;
  TrialPrice price;
  search->moves++;
  // A rejection may have spread the slots, but never changes what event `index` is.
  if (!remat_move_fill(search, value, index, dead) && !remat_move_fill(search, value, index, dead)) return 0;
  double cost = state->trial.cost;
  bool priced = remat_trial_price(state, INT64_MAX, &price);
  remat_trial_reject(state);
  if (!priced || price.overflow >= 0) return 0;
  return cost > 0 ? -(double)price.overflow / cost : INFINITY;
}

static Choice best_choice(RematSearch *search, int value) {
  Choice best = {0};
  int indices[LONGEST_GAPS], count = list_gaps(&search->state, value, indices);
  for (int k = 0; k < count; k++)
    for (DeadInputs dead = DEAD_HOLD; dead <= DEAD_RECOMPUTE; dead++) {
      double score = score_fill(search, value, indices[k], dead);
      if (score > best.score) best = (Choice){indices[k], dead, score};
    }
  return best;
}

static bool accept_choice(RematSearch *search, int value, const Choice *choice) {
  TrialPrice price;
  if (!remat_move_fill(search, value, choice->index, choice->dead) &&
      !remat_move_fill(search, value, choice->index, choice->dead))
    return false;
  if (!remat_trial_price(&search->state, INT64_MAX, &price)) {
    remat_trial_reject(&search->state);
    return false;
  }
  remat_trial_accept(&search->state, &price);
  return true;
}

// Values that an accepted trial may have made worth more: they are priced again when they come up, which is at once.
static void refresh(RematSearch *search, Heap *heap, const Operation *operations, int n) {
  const RematState *state = &search->state;
  for (int i = 0; i < n; i++) {
    int node = operations[i].node;
    for (int k = state->input_start[node] - 1; k < state->input_start[node + 1]; k++) {
      int value = k < state->input_start[node] ? node : state->inputs[k];
      if (state->recomputable[value] && state->bytes[value] > 0) heap_set(heap, value, INFINITY);
    }
  }
}

static void descend(RematSearch *search, Heap *heap, double cost_limit) {
  RematState *state = &search->state;
  int limit = 64 + 30 * state->n_nodes;   // deep recomputation may add executions without end
  for (int v = 0; v < state->n_nodes; v++)
    if (state->recomputable[v] && state->bytes[v] > 0) heap_set(heap, v, INFINITY);
  double tolerance = state->n_nodes < 2000 ? 1 : 0.95;
  int64_t steps = 0;
  while (state->n_over > 0 && heap->n > 0 && state->n < limit && state->cost <= cost_limit) {
    if ((steps++ & 15) == 0 && remat_search_descent_ends(search)) break;
    int value = heap->value[0];
    Choice choice = best_choice(search, value);
    if (choice.score <= 0) {
      heap_set(heap, value, 0);
      continue;
    }
    heap_set(heap, value, choice.score == INFINITY ? 1e300 : choice.score);
    // Nearly the best will do, or where many values are alike each step would price them all.
    if (heap->value[0] != value && choice.score < tolerance * heap->score[heap->value[0]]) continue;
    if (!accept_choice(search, value, &choice)) {
      heap_set(heap, value, 0);
      continue;
    }
    refresh(search, heap, state->trial.operations, state->trial.n_operations);
  }
}

void remat_greedy_descend(RematSearch *search, double cost_limit) {
  size_t n = (size_t)search->state.n_nodes;
  Heap heap = {0, allocate_array(n, sizeof(int)), allocate_array(n, sizeof(int)), allocate_array(n, sizeof(double))};
  for (size_t v = 0; v < n; v++) heap.place[v] = -1;
  search->insertion_limit = 512;
  descend(search, &heap, cost_limit);
  free(heap.value);
  free(heap.place);
  free(heap.score);
}

enum { PEAK_CANDIDATES = 24 };

// A gap across the peak, and a guess at what recomputing after it is worth.
typedef struct PeakGap {
  int value, index;
  double score;
} PeakGap;

// The gaps across `slot`, best guesses first: bytes x executions above the budget that the gap spans, per cost.
// over_before[p] counts those in slots below p.
static int list_peak_gaps(const RematState *state, int slot, const int *over_before, PeakGap *gaps) {
  int count = 0;
  for (int value = 0; value < state->n_nodes; value++) {
    if (!state->recomputable[value] || state->bytes[value] == 0) continue;
    const ValueEvents *list = &state->events[value];
    int i = remat_state_find(state, value, slot);
    if (i == 0 || i == list->n || (list->at[i] & 1) || (list->at[i] >> 1) == slot ||
        (list->at[i] >> 1) >= state->n_slots)
      continue;
    double relief = (double)state->bytes[value] *
                    (over_before[list->at[i] >> 1] - over_before[(list->at[i - 1] >> 1) + 1]);
    double score = relief / (state->cost_of[value] + 1e-9 * relief + 1e-30);
    if (count == PEAK_CANDIDATES && score <= gaps[count - 1].score) continue;
    int k = count < PEAK_CANDIDATES ? count++ : count - 1;
    for (; k > 0 && gaps[k - 1].score < score; k--) gaps[k] = gaps[k - 1];
    gaps[k] = (PeakGap){value, i, score};
  }
  return count;
}

// Of a few gaps across the peak, the one that frees most overflow per cost. False when none frees any.
static bool lower_peak_once(RematSearch *search, double noise, int *over_before) {
  RematState *state = &search->state;
  PeakGap gaps[PEAK_CANDIDATES], chosen = {-1, 0, 0};
  Choice best = {0};
  int worst = 0;
  over_before[0] = 0;
  watch_count(search->problem, state->n_slots + 8 * (int64_t)state->n_nodes);
  for (int p = 0; p < state->n_slots; p++) {
    over_before[p + 1] = over_before[p] + (state->over[p] > 0);
    if (state->over[p] > state->over[worst]) worst = p;
  }
  int count = list_peak_gaps(state, worst, over_before, gaps);
  for (int i = 0; i < count; i++)
    for (DeadInputs dead = DEAD_HOLD; dead <= DEAD_RECOMPUTE; dead++) {
      double score = score_fill(search, gaps[i].value, gaps[i].index, dead);
      if (score > 0 && noise > 0) score *= exp(noise * (2 * remat_random_unit(&search->random) - 1));
      if (score > best.score) best = (Choice){gaps[i].index, dead, score}, chosen = gaps[i];
    }
  return chosen.value >= 0 && accept_choice(search, chosen.value, &best);
}

void remat_greedy_lower_peak(RematSearch *search, double cost_limit, double noise) {
  RematState *state = &search->state;
  int limit = 64 + 30 * state->n_nodes, capacity = 0, *over_before = NULL;
  search->insertion_limit = 512;
  while (state->n_over > 0 && state->n < limit && state->cost <= cost_limit && !remat_search_descent_ends(search)) {
    if (state->n_slots + 1 > capacity) {
      capacity = 2 * state->n_slots + 2;
      over_before = reallocate_array(over_before, (size_t)capacity, sizeof *over_before);
    }
    if (!lower_peak_once(search, noise, over_before)) break;
  }
  free(over_before);
}

typedef struct Candidate {
  double cost;
  int node;
} Candidate;

static int compare_candidates(const void *left, const void *right) {
  const Candidate *a = left, *b = right;
  if (a->cost != b->cost) return a->cost < b->cost ? 1 : -1;
  return a->node - b->node;
}

// Tries every execution of `node`. True when one went.
static bool trim_node(RematSearch *search, int node) {
  RematState *state = &search->state;
  const ValueEvents *list = &state->events[node];
  bool changed = false;
  for (int i = list->n - 1; i >= 0; i--) {
    if (i >= list->n) continue;
    if (!(list->at[i] & 1) || list->executions < 2) continue;
    TrialPrice price;
    search->moves++;
    if (!remat_move_drop(search, list->at[i] >> 1)) continue;
    if (state->trial.cost > 0 || !remat_trial_price(state, 0, &price)) {
      remat_trial_reject(state);
      continue;
    }
    remat_trial_accept(state, &price);
    changed = true;
  }
  return changed;
}

void remat_greedy_trim(RematSearch *search) {
  RematState *state = &search->state;
  Candidate *candidates = allocate_array((size_t)state->n_nodes, sizeof *candidates);
  bool changed = true;
  for (int round = 0; changed && round < 8; round++) {
    int n = state->n_repeated;
    for (int i = 0; i < n; i++) candidates[i] = (Candidate){state->cost_of[state->repeated[i]], state->repeated[i]};
    qsort(candidates, (size_t)n, sizeof *candidates, compare_candidates);
    changed = false;
    for (int i = 0; i < n; i++) {
      if ((i & 63) == 0 && remat_search_out_of_time(search)) break;
      changed |= trim_node(search, candidates[i].node);
    }
    if (search->stopped) break;
  }
  free(candidates);
}
