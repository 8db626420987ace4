// tournament.c: many beginnings. Near the smallest feasible budget schedules lie in valleys that moves and kicks hardly
// leave, so a few schedules, the best so far and others made by a randomised greedy descent, are improved side by side;
// the worse half drops out again and again (successive halving: Jamieson, Talwalkar 2016), then others join.
#include <math.h>
#include <stdlib.h>

#include "search.h"
#include "support/alloc.h"

enum { MEMBERS = 4, MOST_MEMBERS = 8 };
enum { LATE_NODES = 16 };   // so many are tried, the most promising

typedef struct Member {
  int *exec;   // Owned
  int n, capacity;
  double cost;
  int64_t overflow;
  int late;   // the node that was late in the order that it began from, -1: none
} Member;

typedef struct Tournament {
  Member members[MOST_MEMBERS];
  int late[LATE_NODES], n_late;
  int *order;              // Owned; scratch
  int64_t moves_of_beam;   // of the last beam
  int paying;              // the late node that last led to a new best, -1: none yet
} Tournament;

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

static void begin_anew(RematSearch *search, Member *member, const int *order) {
  remat_state_load(&search->state, order, search->state.n_nodes);
  search->descent_end = search->watch.limit;
  remat_greedy_lower_peak(search, search->best_cost * 1.1, 1.5 * remat_random_unit(&search->random));
  remat_search_note(search);
  if (search->state.overflow == 0) remat_greedy_trim(search);
  remat_search_note(search);
  save(search, member);
}

static void begin_with_beam(RematSearch *search, Member *member, const int *order, double noise) {
  remat_state_load(&search->state, search->best, search->n_best);
  search->descent_end = search->watch.limit;
  if (remat_beam_build(search, order, 1 + remat_random_below(&search->random, 4),
                       noise * remat_random_unit(&search->random))) {
    remat_search_note(search);
    remat_greedy_trim(search);
    remat_search_note(search);
  }
  save(search, member);
}

static void begin_with_best(RematSearch *search, Member *member) {
  remat_state_load(&search->state, search->best, search->n_best);
  save(search, member);
  member->late = -1;
}

// Each round gives all who are left together `moves`.
static void compete(RematSearch *search, Tournament *tournament, int n_members, int64_t moves) {
  Member *members = tournament->members;
  for (int left = n_members; left > 0; left /= 2) {
    for (int i = 0; i < left && !is_over(search); i++) {
      double best = search->best_cost;
      improve(search, &members[i], moves / left);
      if (members[i].late >= 0 && search->best_cost < best) tournament->paying = members[i].late;
    }
    qsort(members, (size_t)left, sizeof *members, compare_members);
  }
}

// The best so far beside schedules in which one node executes late. Moves do not lead from one order to the other: what
// the late node reads must be held or made again at the end, what was made again for it early no longer.
static void run_late(RematSearch *search, Tournament *tournament, int64_t moves) {
  int64_t before = search->moves;
  int n = 1;
  begin_with_best(search, &tournament->members[0]);
  for (; n < MOST_MEMBERS && n <= tournament->n_late && !is_over(search); n++) {
    if (search->moves - before + tournament->moves_of_beam > search->max_moves / 10) break;
    int64_t begin = search->moves;
    remat_order_late(search, tournament->late[n - 1], tournament->order);
    begin_with_beam(search, &tournament->members[n], tournament->order, 0.5);
    tournament->members[n].late = tournament->late[n - 1];
    tournament->moves_of_beam = search->moves - begin;
  }
  if (n > 1) compete(search, tournament, n, moves * n);
}

// A schedule made anew, from the plain order or from one with a late node.
static void join(RematSearch *search, Tournament *tournament, Member *member, int64_t moves) {
  bool beam = remat_search_is_deep(search) && search->graph.n <= BEAM_NODES;
  const int *order = search->plain;
  member->late = -1;
  if (tournament->n_late > 0 && remat_random_unit(&search->random) < (tournament->paying >= 0 ? 0.6 : 0.1)) {
    bool again = tournament->paying >= 0 && remat_random_below(&search->random, 2) == 0;
    member->late = again ? tournament->paying
                         : tournament->late[remat_random_below(&search->random, tournament->n_late)];
    remat_order_late(search, member->late, tournament->order);
    order = tournament->order;
    beam = beam || (search->graph.n <= BEAM_NODES && tournament->moves_of_beam < moves);
  }
  if (beam) begin_with_beam(search, member, order, 1);
  else begin_anew(search, member, order);
}

static void run_cycle(RematSearch *search, Tournament *tournament, int64_t moves) {
  begin_with_best(search, &tournament->members[0]);
  for (int i = 1; i < MEMBERS && !is_over(search); i++) join(search, tournament, &tournament->members[i], moves);
  compete(search, tournament, MEMBERS, moves * MEMBERS);
}

void remat_tournament(RematSearch *search) {
  Tournament tournament = {.order = allocate_array((size_t)search->state.n_nodes, sizeof(int)), .paying = -1};
  tournament.n_late = remat_list_late(search, LATE_NODES, tournament.late);
  int64_t moves = 1000 + 20 * (int64_t)search->state.n_nodes;
  if (search->graph.n <= BEAM_NODES) run_late(search, &tournament, moves);
  for (; !is_over(search); moves += moves / 2) {
    int64_t before = search->moves;
    run_cycle(search, &tournament, moves);
    // The best alone gets as much as all others did.
    remat_state_load(&search->state, search->best, search->n_best);
    if (!is_over(search)) remat_kick_improve(search, search->moves - before);
  }
  for (int i = 0; i < MOST_MEMBERS; i++) free(tournament.members[i].exec);
  free(tournament.order);
}
