// kick.c: the local search. A kick forces one to three changes onto the schedule, chosen by bytes, and locks the values
// concerned, or tears down the recomputations of a neighbourhood and builds them anew; a short quench on cost + price x
// overflow then lets the rest of the schedule follow, the locks opening halfway. What is not better, or as good as
// that, is taken back.
#include <math.h>

#include "search.h"

typedef struct Quench {
  int64_t moves;
  double heat;   // temperature at the beginning, in mean costs of an execution
} Quench;

static const double PRICE_RISE = 30;   // of overflow, from the beginning of a quench to its end

// Tries one random move at temperature `temperature`.
void remat_search_step(RematSearch *search, double temperature, double price_of_overflow) {
  enum { STEPS = 50 };
  RematState *state = &search->state;
  search->moves++;
  watch_count(search->problem, STEPS);
  if (!remat_move_propose(search)) return;
  double limit = temperature > 0 ? -temperature * log(1 - remat_random_unit(&search->random)) : 0;
  double cost = state->trial.cost;
  double entry = 0.5 * search->step_cost;   // of being over the budget at all
  TrialPrice price;
  bool was_over = state->n_over > 0;
  if (!was_over && cost > limit) {
    remat_trial_reject(state);
    return;
  }
  double most = (limit - cost) / price_of_overflow;
  int64_t overflow_limit = was_over || most > 0x1p60 ? INT64_MAX : (int64_t)most;
  if (!remat_trial_price(state, overflow_limit, &price)) {
    remat_trial_reject(state);
    return;
  }
  bool is_over = state->n_over + price.n_over > 0;
  double change = cost + price_of_overflow * (double)price.overflow + entry * ((int)is_over - (int)was_over);
  if (change > limit) remat_trial_reject(state);
  else remat_trial_accept(state, &price);
}

static bool is_better(const RematState *state) {
  if (state->mark.n_over == 0) return state->n_over == 0 && state->cost < state->mark.cost * (1 - 1e-12);
  return state->n_over == 0 || state->overflow < state->mark.overflow;
}

static void quench(RematSearch *search, const Quench *plan) {
  RematState *state = &search->state;
  double price = search->overflow_price, growth = pow(PRICE_RISE, 1.0 / (double)plan->moves);
  for (int64_t i = 0; i < plan->moves; i++) {
    if ((i & 255) == 255 && remat_search_out_of_time(search)) return;
    if (2 * i >= plan->moves) {
      if (2 * i == plan->moves || 2 * i == plan->moves + 1) search->kick++;   // opens the locks
      if (state->n_over == 0 && is_better(state)) return;
    }
    double left = 1 - (double)i / (double)plan->moves;
    remat_search_step(search, plan->heat * search->step_cost * left * left, price);
    price *= growth;
  }
}

// Whether to go on from a schedule that is not better: as good ones always, slightly dearer ones sometimes.
static bool drifts(RematSearch *search) {
  const RematState *state = &search->state;
  if (state->mark.n_over > 0 || state->n_over > 0) return false;
  double drift = 0.02 * search->step_cost, dearer = state->cost - state->mark.cost;
  if (dearer <= 1e-12 * state->cost) return true;
  return dearer < -drift * log(1 - remat_random_unit(&search->random)) && state->cost < search->best_cost + 30 * drift;
}

enum { LENGTHS = 4 };

// Moves of the next quench. Which lengths pay differs from graph to graph, so each gets the same share of all moves.
static int64_t choose_length(RematSearch *search) {
  static const int64_t lengths[LENGTHS] = {300, 1000, 4000, 16000};
  int least = 0;
  for (int i = 1; i < LENGTHS; i++)
    if (search->spent[i] < search->spent[least]) least = i;
  int64_t moves = (int64_t)((double)lengths[least] * (0.5 + remat_random_unit(&search->random)));
  search->spent[least] += moves;
  return moves;
}

static void accept(RematState *state) {
  TrialPrice price;
  remat_trial_price(state, INT64_MAX, &price);
  remat_trial_accept(state, &price);
}

// One to three changes, chosen by bytes, the values concerned locked.
static void toggle(RematSearch *search) {
  search->insertion_limit = 24;
  int wanted = 1 + remat_random_below(&search->random, 3), made = 0;
  for (int tries = 0; made < wanted && tries < 32; tries++) {
    search->moves++;
    if (!remat_move_toggle(search)) continue;
    accept(&search->state);
    made++;
  }
}

// Takes all recomputations away in a neighbourhood of the graph and has them made anew by the greedy descent at the
// peak, with some chance in its choices (Schrimpf et al. 2000, ruin and recreate).
static void ruin_and_recreate(RematSearch *search) {
  enum { MOST = 100 };   // values
  RematState *state = &search->state;
  const RematGraph *graph = state->graph;
  int wanted = 4 + remat_random_below(&search->random, state->n_nodes / 3 < MOST ? state->n_nodes / 3 + 1 : MOST),
      n = 0;
  int *queue = search->scratch;
  search->kick++;
  int start = state->n_repeated ? state->repeated[remat_random_below(&search->random, state->n_repeated)]
                                : remat_random_below(&search->random, state->n_nodes);
  queue[n++] = start;
  search->locked[start] = search->kick;
  for (int head = 0; head < n && n < wanted; head++) {
    int node = queue[head], inputs = state->input_start[node + 1] - state->input_start[node];
    int users = graph->user_start[node + 1] - graph->user_start[node];
    for (int i = 0; i < inputs + users && n < wanted; i++) {
      int next = i < inputs ? state->inputs[state->input_start[node] + i]
                            : graph->users[graph->user_start[node] + i - inputs];
      if (search->locked[next] == search->kick) continue;
      search->locked[next] = search->kick;
      queue[n++] = next;
    }
  }
  search->kick++;
  for (int i = 0; i < n; i++) {
    const ValueEvents *list = &state->events[queue[i]];
    for (int e = list->n - 1; e > 0; e--) {
      if (e >= list->n || !(list->at[e] & 1) || list->executions < 2) continue;
      search->moves++;
      if (remat_move_drop(search, list->at[e] >> 1)) accept(state);
    }
  }
  search->descent_end = search->watch.limit;
  remat_greedy_lower_peak(search, state->mark.cost * 1.1, remat_random_unit(&search->random));
  search->insertion_limit = 24;
}

static const double RUIN_SHARE = 0.4;

static void kick(RematSearch *search) {
  RematState *state = &search->state;
  remat_state_mark(state);
  search->kick++;
  if (state->n_nodes <= PEAK_NODES && remat_random_unit(&search->random) < RUIN_SHARE) ruin_and_recreate(search);
  else toggle(search);
  static const double heats[] = {0, 0.03, 0.1, 0.3};
  Quench plan = {.moves = choose_length(search), .heat = heats[remat_random_below(&search->random, 4)]};
  quench(search, &plan);
  if (is_better(state)) {
    remat_search_note(search);
  } else if (!drifts(search)) {
    search->overflow_price *= state->n_over > 0 ? 1.05 : 0.98;
    search->overflow_price = fmin(fmax(search->overflow_price, search->typical_price * 1e-3),
                                  search->typical_price * 1e3);
    remat_state_rollback(state);
  }
}

void remat_kick_improve(RematSearch *search, int64_t moves) {
  int64_t end = moves < INT64_MAX - search->moves ? search->moves + moves : INT64_MAX;
  bool began_over = search->state.n_over > 0;
  while (search->moves < end && !remat_search_is_done(search) && !remat_search_out_of_time(search)) {
    if (began_over && search->state.n_over == 0) return;
    kick(search);
  }
}
