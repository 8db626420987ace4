// tiers.h: the search for problems with a far tier: its form of a schedule and what its files share. docs/remat.md,
// "Two tiers of memory".
#ifndef NNC_SOLVER_TIERS_H
#define NNC_SOLVER_TIERS_H

#include "internal.h"

// Nodes: up to so many annealing finds what there is; above so many lanes measured after each choice, and executions
// searched again, take too long.
enum { TIERS_SMALL = 100, TIERS_LARGE = 4000 };

// A schedule as the search changes it: items without REMAT_FAR_HOME, which homes are far beside them. Stores stand
// anywhere behind what makes their value: how long what follows waits for them is a matter of bytes (TierCost), and
// tier_schedule puts them where the schedule's meaning agrees.
typedef struct TierPlan {
  int n, capacity;
  int *items;       // Owned
  bool *far_home;   // Owned; per node
} TierPlan;

// What a plan costs. Of the stores before it in the order an item waits for as many, oldest first, as must be over for
// its near bytes to fit, and for those that an item before it waits for.
typedef struct TierCost {
  bool legal;
  double makespan;
  double copies;     // time that both lanes copy
  double overflow;   // near bytes above the budget, over all items, and far bytes above theirs
} TierCost;

typedef struct TierNode {
  int executed, made, stored;   // positions, -1
  int last_store;               // of those that the timeline has passed
  bool is_dirty;
  double ready;
} TierNode;

// What tier_evaluate leaves of the plan it saw last, by position.
typedef struct TierPosition {
  int last_use;     // of the near copy made here
  int copy;         // of a store: position that made what it stores
  int waiter;       // of a store: the first item that waits for it, -1
  int dead, next;   // list of the stores whose copies are dead behind this position; -1
  int far_last;     // of a store of a value: its last fetch, or the store's own position
  int64_t freed;    // near bytes free behind this position
  int64_t live;     // near bytes by order, workspace included
  double start, end;
  bool is_pending;   // of a store: its copy is dead and nobody has waited for it
} TierPosition;

typedef struct TierSearch {
  const RematProblem *problem;   // Borrowed
  const RematOptions *options;   // Borrowed, may be NULL
  int n;                         // nodes
  int n_executed;                // of them no homes
  int64_t budget, homes;         // near; bytes of all homes
  int *after_start, *afters;     // Owned; anti-dependences by their `before`
  int *before_start, *befores;   // Owned; by their `after`
  TierNode *nodes;               // Owned; scratch of tier_evaluate
  TierPosition *at;              // Owned
  int *stores;                   // Owned; positions of the stores
  int capacity;                  // of `at` and `stores`
  uint64_t random;
  double price;            // of a byte of overflow
  double work, max_work;   // items looked at
  Watch watch;
  double clock_work;   // when to look at it again
  bool stopped;        // out of time
  double carried;      // bytes: see carried_bytes; 0: plans are not searched again
  bool is_quick;       // too little work, or too far to go, for looking at the lanes before each choice
  bool has_best;
  TierPlan best;   // Owned
  double base_cost, best_makespan, good_makespan;
  RematSchedule lowest;   // Owned; of the smallest peak met
  RematSchedule given;    // Owned; the best start, or the best without a far tier, when one is within the budgets
} TierSearch;

// The later of two times, none of which is NaN; fmax, which minds that, is a call.
static inline double tier_later(double a, double b) { return a > b ? a : b; }

static inline bool tier_is_middling(const TierSearch *search) {
  return search->n_executed > TIERS_SMALL && search->n_executed <= TIERS_LARGE;
}

// ---- tiers_state.c ----

TierCost tier_evaluate(TierSearch *search, const TierPlan *plan);

TierPlan tier_plan_create(const TierSearch *search, const int *items, int n);   // REMAT_FAR_HOME among them
void tier_plan_copy(const TierSearch *search, TierPlan *to, const TierPlan *from);
void tier_plan_insert(TierPlan *plan, int position, int item);
void tier_plan_remove(TierPlan *plan, int position);
void tier_plan_free(TierPlan *plan);

// The plan as a schedule of at most its peak and makespan. The plan must be legal and within the budget.
RematSchedule tier_schedule(TierSearch *search, const TierPlan *plan);

// ---- tiers_greedy.c ----

// Brings the plan within the budget, if it can, by storing and fetching values at the peak, homes among them, then
// places the fetches. Sources: Belady 1966 (the value whose next use is farthest away).
// Scores are multiplied by a random factor between exp(-noise) and exp(noise).
void tier_descend(TierSearch *search, TierPlan *plan, double noise);

// Moves values up to the highest peak, as far as nobody waits for them; the rest stays above the budget.
void tier_fill(TierSearch *search, TierPlan *plan, double noise);

// Moves each fetch to where it ends when its value is read, or as near to that as bytes allow.
void tier_place_fetches(TierSearch *search, TierPlan *plan);

// ---- tiers_moves.c ----

// Changes the plan at random; the result may be illegal.
void tier_move(TierSearch *search, TierPlan *plan);

// Drops executions that nothing reads, and fetches, with their stores.
void tier_prune(TierSearch *search, TierPlan *plan);

// ---- tiers_again.c ----

// A plan as a schedule of one tier, with what it stores and fetches as it is.
typedef struct TierAgain {
  TierSearch *search;     // Borrowed
  const TierPlan *plan;   // Borrowed
  RematProblem problem;   // of one tier; its parts follow
  RematNode *nodes;       // Owned
  int *inputs;            // Owned; of all nodes
  int *outputs;           // Owned
  RematAnti *anti;        // Owned
  bool *moved;            // Owned; per node of the search: stored and fetched, or a far home
  int *of;                // Owned; per node of the search: what its value is here
  int *from;              // Owned; per node here: node of the search
  bool *is_copy;          // Owned; per node here: executing it is no execution there
  int64_t *pending;       // Owned; per node of the search: bytes of dead copies not yet stored when it executes
} TierAgain;

// The plan must be the one that was evaluated last, and legal; it may be above the budget.
TierAgain tier_again_create(TierSearch *search, const TierPlan *plan);
void tier_again_free(TierAgain *again);

// The plan as a schedule of the problem, with each fetch right before it is read. Owned by the caller.
RematSchedule tier_again_start(const TierAgain *again);

// The other way, into a plan with the same far homes: the first copy of a value is what its execution made.
void tier_again_read(const TierAgain *again, const RematSchedule *found, TierPlan *plan);

// ---- tiers_search.c ----

// remat_solve for problems with a far tier.
void tier_solve(const RematProblem *problem, int64_t budget_bytes, const RematOptions *options, double enough,
                RematResult *result);

bool tier_is_over(TierSearch *search);

#endif
