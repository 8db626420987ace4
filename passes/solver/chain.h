// chain.h: the forward pass as a chain of stages, with what a dynamic program needs to know of each. Used by chain.c
// (measures the stages), chain_solve.c (the program), chain_build.c (schedules from its table).
//
// The stages are ranges of the forward nodes between cuts; any number of values may cross a cut. Each backward node
// belongs to the stage at which everything it reads is at hand, and the stages' backward parts follow each other from
// the last stage to the first. "Values" below are recomputable forward values only; whatever else is live is counted
// where it is live in the plain order, since it executes once.
#ifndef NNC_SOLVER_CHAIN_H
#define NNC_SOLVER_CHAIN_H

#include "internal.h"

enum { CHAIN_OPTIONS = 4, CHAIN_NEVER = INT32_MAX };

// A value that is made before a cut and used at or after it.
typedef struct ChainCrossing {
  int value, stage;   // the value and the stage that makes it
  int next_forward;   // first stage at or after the cut whose forward part uses it, or CHAIN_NEVER
  int next_use;       // first such stage whose forward or backward part uses it
  bool early;         // a stage between the one that makes it and the cut uses it as well
  unsigned options;   // bit o: option o of its stage holds it anyway
  int64_t bytes;
} ChainCrossing;

// One way to run a stage that is not left behind: which of the values that its backward part uses are held meanwhile.
typedef struct ChainOption {
  int64_t held;      // bytes
  int64_t forward;   // bytes; peak of the stage's forward part beside what came before
  double make;       // cost of making what is held and what crosses out of the stage
  double remake;     // cost of making the rest when the backward part begins
} ChainOption;

typedef struct ChainStage {
  int begin, end;                     // forward nodes
  int backward_begin, backward_end;   // backward nodes
  int64_t run;                        // bytes; peak of the forward part when only what crosses is held
  int64_t leaf;                       // the same when all that the backward part uses is made
  int64_t backward;                   // bytes; peak of the backward part, with the stage's own values
  int64_t other;                      // bytes of other values live when the backward part ends
  int64_t kept;                       // bytes the backward part uses of what the next stage's forward part uses too
  double run_cost;                    // cost of making what crosses out of the stage
  double leaf_cost[2];                // of making what the backward part uses; [1]: when `kept` is there already
  int n_options;                      // the first holds everything the backward part uses
  ChainOption options[CHAIN_OPTIONS];
  int n_crossing;            // of the cut at `begin`
  ChainCrossing *crossing;   // Owned; by the stage that makes the value, ascending
} ChainStage;

typedef struct Chain {
  const RematGraph *graph;   // Borrowed
  int n;                     // stages
  ChainStage *stages;        // Owned, n + 1; the last one is the end: empty, `other` is what is live there
  int *stage_of;             // Owned; by forward node
  unsigned char *options;    // Owned; by forward node: bit o is set when option o of its stage holds it
  bool *is_value;            // Owned; by node
} Chain;

// At most `limit` stages, cut where few bytes cross and few of them are of no use to the backward pass; with
// `everywhere` any cut will do. Some forward nodes are required.
Chain chain_create(const RematGraph *graph, int limit, bool everywhere);
void chain_free(Chain *chain);

// Whether the backward part of the stage that makes v and the forward part of the next stage use it, so that it may
// stay when the next stage is done.
bool chain_is_kept(const Chain *chain, int v);

// ---- chain_solve.c ----

enum { CHAIN_INFEASIBLE = -1, CHAIN_LEAF = -2, CHAIN_HOLD = -3 };   // CHAIN_HOLD - o: option o

typedef struct ChainTable {
  const Chain *chain;   // Borrowed
  int units;            // the table is for memories 0 .. units
  double unit_bytes;
  int *slot;   // Owned; [i * (n + 1) + j]: where the states of stages i .. j - 1 are
  int n_slots;
  float *cost;       // Owned; [(slot * 2 + right) * (units + 1) + memory]
  int16_t *choice;   // Owned; a CHAIN_ choice, or 2 * (cut - i) + whether the cut's `kept` stays
} ChainTable;

// Rotor's program for every memory up to units * unit_bytes.
// Asks `ends` (may be NULL) now and then whether to give up; every state is infeasible then.
ChainTable chain_solve(const Chain *chain, int units, double unit_bytes, bool (*ends)(void *context), void *context);
void chain_table_free(ChainTable *table);

// Multiply-adds that chain_solve would take, about.
double chain_work(const Chain *chain, int units);

int chain_units(const ChainTable *table, int64_t bytes);

// Bytes of the values made in stages [i, k) that stages [k, j) use; in *forward, which may be NULL, of those that their
// forward parts use.
int64_t chain_held(const Chain *chain, int i, int k, int j, int64_t *forward);
// Bytes of the values made before stage i that only stages [k, j) use, so that they go when those are done.
int64_t chain_gain(const Chain *chain, int i, int k, int j);
// Bytes held by option o of stage i while stages [i + 1, j) run.
int64_t chain_option_held(const Chain *chain, int i, int j, int o);

static inline size_t chain_state(const ChainTable *table, int i, int j, int right) {
  return ((size_t)table->slot[i * (table->chain->n + 1) + j] * 2 + (size_t)right) * (size_t)(table->units + 1);
}

// ---- chain_build.c ----

// The schedule of the table for `memory` units at the start. False when the table has none.
bool chain_build(const ChainTable *table, int memory, RematSchedule *schedule);

#endif
