// tournament.c: many beginnings. Near the smallest feasible budget schedules lie in valleys that moves and kicks hardly
// leave, so a few schedules, the best so far and others made by a randomised greedy descent, are improved side by side;
// the worse half drops out again and again (successive halving: Jamieson, Talwalkar 2016), then others join.
#include <math.h>
#include <stdlib.h>

#include "search.h"
#include "support/alloc.h"

enum { MEMBERS = 4 };

typedef struct Member {
  int *exec;   // Owned
  int n, capacity;
  double cost;
  int64_t overflow;
} Member;

static void save(const RematSearch *search, Member *member) {
  const RematState *state = &search->state;
  if (state->n > member->capacity) {
    member->capacity = 2 * state->n;
    member->exec = reallocate_array(member->exec, (size_t)member->capacity, sizeof(int));
  }
  member->n = remat_state_sequence(state, member->exec);
  member->cost = state->cost;
  member->overflow = state->overflow;
}

static int compare_members(const void *left, const void *right) {
  const Member *a = left, *b = right;
  if (a->overflow != b->overflow) return a->overflow < b->overflow ? -1 : 1;
  return (a->cost > b->cost) - (a->cost < b->cost);
}

static bool is_over(RematSearch *search) { return remat_search_is_done(search) || remat_search_out_of_time(search); }

static void anneal(RematSearch *search, Member *member, int64_t moves) {
  static const double heats[] = {0.1, 0.3, 0.5, 1};
  remat_anneal_round(search, moves, heats[remat_random_below(&search->random, 4)]);
  if (search->state.overflow == 0 && search->state.cost < member->cost) save(search, member);
  else remat_state_load(&search->state, member->exec, member->n);
}

static void improve(RematSearch *search, Member *member, int64_t moves) {
  int64_t end = search->moves + moves;
  remat_state_load(&search->state, member->exec, member->n);
  if (member->overflow == 0) anneal(search, member, moves / 4);
  while (search->moves < end && !is_over(search)) {
    bool fits = search->state.overflow == 0;
    remat_kick_improve(search, end - search->moves);
    if (!fits && search->state.overflow == 0) {
      remat_greedy_trim(search);
      remat_search_note(search);
    }
  }
  save(search, member);
}

static void begin_anew(RematSearch *search, Member *member, const RematSchedule *plain) {
  remat_state_load(&search->state, plain->exec, plain->n);
  search->descent_end = search->watch.limit;
  remat_greedy_lower_peak(search, search->best_cost * 1.1, 1.5 * remat_random_unit(&search->random));
  remat_search_note(search);
  if (search->state.overflow == 0) remat_greedy_trim(search);
  remat_search_note(search);
  save(search, member);
}

static void begin_with_beam(RematSearch *search, Member *member) {
  remat_state_load(&search->state, search->best, search->n_best);
  search->descent_end = search->watch.limit;
  if (remat_beam_build(search, 1 + remat_random_below(&search->random, 4), remat_random_unit(&search->random))) {
    remat_search_note(search);
    remat_greedy_trim(search);
    remat_search_note(search);
  }
  save(search, member);
}

static void run_cycle(RematSearch *search, Member *members, const RematSchedule *plain, int64_t moves) {
  remat_state_load(&search->state, search->best, search->n_best);
  save(search, &members[0]);
  bool beams = remat_search_is_deep(search) && search->graph.n <= BEAM_NODES;
  for (int i = 1; i < MEMBERS && !is_over(search); i++) {
    if (beams) begin_with_beam(search, &members[i]);
    else begin_anew(search, &members[i], plain);
  }
  for (int left = MEMBERS; left > 0; left /= 2) {
    for (int i = 0; i < left && !is_over(search); i++) improve(search, &members[i], moves * MEMBERS / left);
    qsort(members, (size_t)left, sizeof *members, compare_members);
  }
}

void remat_tournament(RematSearch *search) {
  Member members[MEMBERS] = {0};
  RematSchedule plain = remat_baseline(search->problem);
  int64_t moves = 1000 + 20 * (int64_t)search->state.n_nodes;
  for (; !is_over(search); moves += moves / 2) {
    int64_t before = search->moves;
    run_cycle(search, members, &plain, moves);
    // The best alone gets as much as all others did.
    remat_state_load(&search->state, search->best, search->n_best);
    if (!is_over(search)) remat_kick_improve(search, search->moves - before);
  }
  for (int i = 0; i < MEMBERS; i++) free(members[i].exec);
  remat_schedule_free(&plain);
}
