// internal.h: what the files of the solver share and callers do not see.
#ifndef NNC_SOLVER_INTERNAL_H
#define NNC_SOLVER_INTERNAL_H

#include "solver.h"
#include "watch.h"

// Facts about a problem that every policy and the search need, computed once.
typedef struct RematGraph {
  const RematProblem *problem;   // Borrowed
  int n;                         // number of nodes
  int forward_end;               // first backward node; nodes before it are "the forward pass"
  int *user_start;               // Owned, n + 1; users of v are users[user_start[v] .. user_start[v + 1])
  int *users;                    // Owned; ascending, without repeats
  int *last_forward_use;         // Owned; last user below forward_end, or v itself
  bool *used_backward;           // Owned; has a user at or above forward_end, or is an output
  int64_t *pressure;             // Owned; bytes beside recomputable forward values that the plain order holds when v is
                                 // first used at or above forward_end; 0 for values that are not
  bool *is_output;               // Owned
  int *deadline;                 // Owned; v may execute again only before this node, n when there is none
  int64_t *crossing;   // Owned, n + 1; bytes of recomputable forward values defined before b, used in [b, end)
} RematGraph;

// What belongs to each node, as list[start[v] .. start[v + 1]); both Owned: the users of its value, ascending, without
// repeats; the other sides of its anti-dependences, of those that have it as `before` or as `after`.
void remat_list_users(const RematProblem *problem, int **start, int **users);
void remat_list_anti(const RematProblem *problem, bool by_before, int **start, int **list);

RematGraph remat_graph_create(const RematProblem *problem);
void remat_graph_free(RematGraph *graph);

// A growing list of executions together with which values a backward node may use as they are.
typedef struct RematBuilder {
  const RematGraph *graph;   // Borrowed
  int n, capacity;
  int *exec;         // Owned
  bool *available;   // Owned; per value
  int *stack;        // Owned; pending recomputations
  int stack_capacity;
  bool *forced;   // Owned; values that must be kept because recomputing them proved illegal
  bool retry;     // forced has grown: what has been built is not legal, build again
  int limit;      // give up (retry stays false, overflow becomes true) beyond this many executions
  bool overflow;
} RematBuilder;

RematBuilder remat_builder_create(const RematGraph *graph);
void remat_builder_free(RematBuilder *builder);
void remat_builder_clear(RematBuilder *builder);
void remat_builder_append(RematBuilder *builder, int node);

// Makes `value` available by executing it again, its unavailable inputs first, right before base node `before`.
// Values executed are appended to `made` when that is not NULL (room for as many as there are nodes).
void remat_builder_recompute(RematBuilder *builder, int value, int before, int *made, int *n_made);

// The schedule in which forward values with keep[v] stay, and others are recomputed once, before their first backward
// use. `keep` grows by what must be kept. Owned by the caller.
RematSchedule remat_build_keep(RematBuilder *builder, bool *keep);

// Wraps a legal sequence with its cost and peak; copies it.
RematSchedule remat_schedule_measure(const RematProblem *problem, const int *exec, int n);

// Schedules of the family of remat_policy_sqrt, from few kept bytes to many: `visit` gets each, and owns none.
void remat_each_segmentation(const RematGraph *graph, int n_limits,
                             void (*visit)(void *context, const RematSchedule *schedule), void *context);

// ---- recursive.c: the backward pass as a walk over a tree of ranges of the forward pass ----

// A range [low, high) of forward nodes whose values are reachable from what is held at `low`.
typedef struct WalkLevel {
  int low, high;
  int first_made;   // for the walk: values made available from here on belong to this level
  int64_t memory;   // for the rule: what may still be held inside the range
} WalkLevel;

// How to go on inside a level: hold what crosses `at` and enter [at, high) when the value wanted lies there, enter
// [low, at) otherwise. `at` == high makes the level a leaf.
typedef struct WalkStep {
  int at;
  int64_t right_memory;   // memory of the level [at, high)
} WalkStep;

typedef struct WalkRule {
  WalkStep (*choose)(const void *context, const WalkLevel *level);
  const void *context;
  int64_t memory;   // of the whole forward pass
} WalkRule;

// Builds the schedule of a rule into `builder`. False when it grew beyond builder->limit.
bool remat_build_walk(RematBuilder *builder, const WalkRule *rule);

// ---- exact_tiers.c ----

// remat_exact for problems with a far tier of up to 12 nodes; shares no code with the search. `max_labels` 0: a
// default.
RematExact remat_exact_tiers(const RematProblem *problem, int64_t budget_bytes, int64_t max_labels,
                             RematSchedule *schedule);

// ---- seeds.c ----

// Schedules made for a peak of `budget_bytes`, most promising first; they may miss it. `visit` gets each, owns none,
// and returns false when it has seen enough; `ends` (may be NULL) is asked now and then whether to give up making one.
void remat_each_budget_seed(const RematGraph *graph, int64_t budget_bytes,
                            bool (*visit)(void *context, const RematSchedule *schedule), bool (*ends)(void *context),
                            void *context);

// The schedule of lowest peak among those of the dynamic program that cost at most `most_cost`; Owned by the caller.
// False when there is none.
bool remat_build_within_cost(const RematGraph *graph, double most_cost, RematSchedule *schedule);

#endif
