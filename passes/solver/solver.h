// solver.h: rematerialization under a memory budget, as a problem over plain structs. The budget pass builds a
// RematProblem from the training step, picks or searches a RematSchedule, and rewrites the step to match; nnc-plan
// does the same from JSON; at the end, the placing of buffers, which the pass plan and nnc-plan offsets call. Nothing
// here knows of MLIR. The other headers of the folder are private to it and its tests.
//
// The model. Nodes are in a valid execution order. A schedule is a sequence of executions in which a node may appear
// more than once. A use is served by the latest earlier execution of its value; a value is freed after its last use
// before its next execution, or at the end for the last execution of an output. The peak is the maximum, over the
// executed positions, of fixed bytes + live values + the value being produced + the workspace of the executing node.
// So any schedule in which an execution precedes every use is legal, and memory is the only constraint.
//
// With a second tier of memory, far and large, values may be stored there and fetched again, each on a lane of its own
// beside the one that computes, and persistent tensors may have their home there. Memory, near and far, is counted in
// the order of the schedule; time by what may run beside what. docs/remat.md, "Two tiers of memory".
#ifndef NNC_SOLVER_H
#define NNC_SOLVER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "support/alloc.h"
#include "support/input_error.h"

typedef enum RematRole {
  REMAT_FORWARD,
  REMAT_BACKWARD,
  REMAT_UPDATE,   // an optimizer's or a running statistic's in-place write; executes exactly once
} RematRole;

// What the `speed` policy of Salimans & Bulatov distinguishes.
typedef enum RematCostClass {
  REMAT_CHEAP,
  REMAT_EXPENSIVE,   // convolutions, matrix products
} RematCostClass;

typedef struct RematNode {
  const char *name;    // Borrowed; may be NULL
  double cost;         // time of one execution, any unit, finite and >= 0
  int64_t bytes;       // what the value occupies from the start of its execution until it is freed
  int64_t workspace;   // bytes occupied only while the node executes
  int n_inputs;
  const int *inputs;   // Borrowed; node numbers, each below this node's own; repeats are allowed
  bool recomputable;   // false: executes exactly once (inputs, in-place writes, anything with an effect)
  RematRole role;
  RematCostClass cost_class;
  bool checkpoint;   // marked by the user, for the manual policy
  // The rest is for problems with a far tier.
  bool movable;   // the value may be stored far and fetched
  bool home;      // a persistent tensor: never executes, has no inputs, cost or workspace. Near it takes its bytes all
                  // the time (they are not in fixed_bytes), or all its bytes are far and it is fetched before use
  int updated_by;   // of a home: the update node that overwrites it in place, and has it among its inputs; if the home
                    // is far, it is stored afterwards. 0 for none. What reads the new content lists the update and the
                    // home as inputs; what reads the old one is ordered before the update by anti-dependences
} RematNode;

// The second tier, and the lanes that copy: out from near to far, in from far to near, each one copy at a time, in the
// order of the schedule, beside each other and beside what computes. Time is in the unit of RematNode.cost.
typedef struct RematTier {
  double out_rate, in_rate;   // bytes per unit of time; > 0
  double latency;             // time of a copy beside its bytes
  double drag;                // time that the lane that computes loses for each byte copied
  int64_t workspace;          // near bytes occupied only at the place of a copy, as a node's workspace is
  int64_t budget;             // bytes
} RematTier;

// An anti-dependence: every execution of `before`, recomputations too, must precede the only execution of `after`,
// because `after` overwrites in place something that `before` reads. `after` must not be recomputable.
typedef struct RematAnti {
  int before, after;
} RematAnti;

typedef struct RematProblem {
  int64_t fixed_bytes;   // always occupied: parameters, optimizer state
  int n_nodes;
  const RematNode *nodes;   // Borrowed
  int n_outputs;
  const int *outputs;   // Borrowed; values that stay live to the end
  int n_anti;
  const RematAnti *anti;   // Borrowed
  const RematTier *far;    // Borrowed; NULL: there is one tier, no homes, and a schedule has executions alone
  int64_t *steps;          // Borrowed; where searches count what they take (watch.h); NULL: in a place of their own
} RematProblem;

// What a schedule consists of. An item is a number: kind x n_nodes + node, so that an execution is its node's number.
typedef enum RematItemKind {
  REMAT_EXECUTE,
  REMAT_STORE,   // near to far: of a value once at most; of a far home once, after its update. The value's near bytes
                 // are free behind it at the latest, but it begins as soon as the value is made and the lane is idle.
                 // All items behind it but stores wait for its end
  REMAT_FETCH,   // far to near: takes near bytes from its place on; waits for all executions and stores before it
  REMAT_FAR_HOME,   // a home is far: before all items of other kinds. No copy and no time
} RematItemKind;

static inline int remat_item(const RematProblem *problem, RematItemKind kind, int node) {
  return (int)kind * problem->n_nodes + node;
}
// Compared rather than divided, which takes longer.
static inline RematItemKind remat_item_kind(const RematProblem *problem, int item) {
  int n = problem->n_nodes;
  return (RematItemKind)((item >= REMAT_STORE * n) + (item >= REMAT_FETCH * n) + (item >= REMAT_FAR_HOME * n));
}
static inline int remat_item_node(const RematProblem *problem, int item) {
  return item - (int)remat_item_kind(problem, item) * problem->n_nodes;
}

typedef struct RematSchedule {
  int n;                 // number of items
  int *exec;             // Owned; items, without a far tier node numbers
  double cost;           // sum of the costs of the executions
  int64_t peak;          // near bytes, fixed bytes and near homes included
  int64_t activations;   // bytes; the most that recomputable forward values occupy while a backward node executes
  int64_t far_peak;      // bytes, far homes included
  double makespan;       // time from the begin to the end of all lanes; without copies the cost
} RematSchedule;

// ---- simulate.c: what a problem and a schedule mean; deliberately shares no code with the search ----

// True when `problem` is well formed: inputs precede their users (so the graph has no cycle), numbers are in range,
// sums of bytes cannot overflow, update nodes and the `after` side of anti-dependences are not recomputable, and the
// given order satisfies the anti-dependences; with a far tier, that rates are above 0 and homes are as RematNode says.
// Otherwise false and `error` names the node. Every other function of
// this header requires a problem that passed this check.
bool remat_problem_check(const RematProblem *problem, InputError *error);

typedef struct RematSimulation {
  double cost;
  int64_t peak;          // bytes
  int peak_position;     // first position that reaches the peak; -1 when there are none
  int64_t activations;   // bytes; as in RematSchedule
  int64_t *live;         // Owned; bytes occupied at each position, fixed bytes and workspace included
  int *last_use;         // Owned; last position at which the copy is live that the item makes: near of executions and
                         // fetches, far of stores; `n` for "to the end"
  int64_t far_peak;      // bytes
  double makespan;
  double *start, *end;   // Owned; of each item on its lane; 0 for far homes
} RematSimulation;

// Replays `exec` (n items) against the definition above. Returns false, with the position in the message, for a
// schedule that is not legal: a use before any execution, a node missing, a second execution of a node that is not
// recomputable, a broken anti-dependence, a fetch of what is not far or that nobody reads, an update that never
// reaches its far home. Budgets are the caller's to compare; only a store waits, when bytes of the far tier are short,
// for fetches before it. On success fills `result`, to be released with remat_simulation_free.
bool remat_simulate(const RematProblem *problem, const int *exec, int n, RematSimulation *result, InputError *error);
void remat_simulation_free(RematSimulation *simulation);

// Frees what the schedule owns and zeroes it. Safe on a zeroed schedule.
void remat_schedule_free(RematSchedule *schedule);

// ---- policies.c, recursive.c: schedules made without a budget, in milliseconds for thousands of nodes ----
// Each returns a legal schedule, Owned by the caller. None fails: what cannot be recomputed (not recomputable, or an
// anti-dependence has passed) is kept. "Forward" below means the nodes before the first backward node.

// Every node once, in the given order: policy `none`.
RematSchedule remat_baseline(const RematProblem *problem);

// Chen et al. 2016, for any graph: cuts the forward pass into segments, keeps the values that cross a cut, and
// recomputes each segment once, right before the first backward node that needs it. The cuts are chosen by bytes: what
// is kept before a segment, what is inside it, and what else is live when its backward pass begins (gradients that
// wait for a common update) together stay below a limit. So segments grow toward the input where values alone count,
// about sqrt(2 k) of k equal ones, and shrink where gradients accumulate. Halves the activations where it can without
// raising the peak; among such schedules minimises the peak, then the activations, then the cost. At most one extra
// forward pass. The dynamic program over stages (chain.h), held to that cost, is tried as well.
RematSchedule remat_policy_sqrt(const RematProblem *problem);

// Recursive bisection over the same cuts (Griewank 1992; Chen et al. 2016, section 4.4): O(log k) memory for
// O(k log k) executions.
RematSchedule remat_policy_recursive(const RematProblem *problem);

// All of the policies above, the plain order first, then segmentations from few kept bytes to many: `visit` gets each,
// and owns none.
void remat_each_seed(const RematProblem *problem, void (*visit)(void *context, const RematSchedule *schedule),
                     void *context);

typedef enum RematPolicy {
  REMAT_POLICY_NONE,
  REMAT_POLICY_SQRT,
  REMAT_POLICY_SPEED,
  REMAT_POLICY_MANUAL,
  REMAT_POLICY_RECURSIVE,
  REMAT_POLICY_SOLVE,
} RematPolicy;

// "none", "sqrt", "speed", "manual", "recursive", "solve" or "auto" (the same as solve). False when unknown.
bool remat_policy_parse(const char *name, RematPolicy *policy);

// Runs one of the policies above. Not REMAT_POLICY_SOLVE, which needs a budget.
RematSchedule remat_policy_run(const RematProblem *problem, RematPolicy policy);

// ---- baselines.c: published heuristics, as published, to compare with ----

typedef enum RematBaselineKind {
  REMAT_BASELINE_CHEN_SQRT,   // Chen et al. 2016, section 4.2: sqrt(k) segments of equally many nodes, each recomputed
                              // once
  REMAT_BASELINE_CHEN_GREEDY,   // the same, algorithm 3: a segment ends when its bytes exceed b; of 40 values of b the
                                // one with the lowest peak
  REMAT_BASELINE_REVOLVE,   // Griewank & Walther 2000: binomial checkpointing, over the articulation points as steps
  REMAT_BASELINE_MEMORY,    // Salimans & Bulatov 2017: about sqrt(k) articulation points are kept
  REMAT_BASELINE_SPEED,     // the same authors: convolutions' and matrix products' values are kept
  REMAT_BASELINES,          // how many there are
} RematBaselineKind;

// "chen-sqrt", "chen-greedy", "revolve", "memory", "speed".
const char *remat_baseline_name(RematBaselineKind kind);

// A legal schedule, Owned by the caller. `slots` is the number of checkpoints of Revolve (0: the square root of the
// number of steps); the others ignore it. A heuristic that finds nothing to do gives the plain order.
RematSchedule remat_baseline_policy(const RematProblem *problem, RematBaselineKind kind, int slots);

// ---- search.c: the cheapest schedule within a budget ----

enum { REMAT_COUNTED_SECONDS = 10 };   // what a search takes at most, where no limit is given

typedef struct RematOptions {
  uint64_t seed;       // same problem, budget and options: same schedule
  double time_limit;   // seconds of the clock, where results vary with the machine; 0: counted ones, see watch.h
  bool counted;        // the limit is counted, too
  int64_t max_moves;   // moves tried, seeds included; 0: a default that takes about 1 s, < 0: seeds only
  const RematSchedule *starts;   // Borrowed; legal schedules to begin from, within the budget or not
  int n_starts;                  // > 0: the search makes no seeds of its own
  double bound_seconds;          // counted; for the lower bound, which ends the search when it is met; 0: a default of
                                 // 0.1 at most
  const volatile sig_atomic_t *interrupt;   // Borrowed, may be NULL. Once it is not 0 the search ends with its best so
                                            // far, within milliseconds; a signal handler may set it
} RematOptions;

typedef struct RematResult {
  bool feasible;              // the schedule's peak is at most the budget
  RematSchedule schedule;     // Owned. The cheapest found within the budget; when infeasible, the lowest peak found
  int64_t min_budget_found;   // smallest peak of any schedule met; a budget of that many bytes can be satisfied
  double base_cost;           // cost of every node once
  double lower_bound;         // no schedule within the budget costs less; see remat_lower_bound
  double seconds;             // counted, where no limit by the clock was given
  int64_t moves;              // moves tried
} RematResult;

// Seeds from the policies and from dynamic programs over the forward pass as a chain (Rotor), a greedy descent (bytes x
// duration / cost) with a removal pass, then a local search that adds, removes and shifts executions. `options` may be
// NULL. Always fills `result`; free it with remat_result_free. A budget nothing fits gives feasible == false, no error.
// With a far tier, where `budget_bytes` is for near bytes, "cheapest" is the least makespan, here and below, and what
// is found without copies is never better: such schedules are seeds, to which moves are added.
void remat_solve(const RematProblem *problem, int64_t budget_bytes, const RematOptions *options, RematResult *result);
void remat_result_free(RematResult *result);

// The smallest peak whose cost is at most `max_cost` (an absolute cost: base cost x 1.2 for 20 % overhead; INFINITY:
// the smallest budget there is any schedule for). Bisects over budgets, each search warm-started from the best schedule
// of the last. `options` as for remat_solve, the time and the moves being those of all searches together; may be NULL.
// Always fills `result`: feasible is false only when max_cost is below the base cost, else schedule is the lowest peak
// found and min_budget_found its peak; lower_bound is the cost bound at that peak. Free it with remat_result_free.
void remat_minimize_peak(const RematProblem *problem, double max_cost, const RematOptions *options,
                         RematResult *result);

// ---- bound.c ----

// A cost that no schedule with a peak of at most `budget_bytes` can go below, whatever its order: at least the cost of
// every node once; infinity when it is certain that nothing fits. A schedule whose cost is within 1e-9 of it,
// relatively, is optimal. `time_limit` in counted seconds, 0: a default of 0.1; a longer one can only raise the bound.
double remat_lower_bound(const RematProblem *problem, int64_t budget_bytes, double time_limit);

// A peak in bytes that no schedule can go below.
int64_t remat_min_budget_bound(const RematProblem *problem);

// ---- exact.c ----

typedef enum RematExact {
  REMAT_EXACT_OPTIMAL,      // *schedule, Owned, is the cheapest there is within the budget
  REMAT_EXACT_INFEASIBLE,   // no schedule has a peak within the budget
  REMAT_EXACT_UNKNOWN,      // given up: the problem is too large
} RematExact;

// The optimum of a small problem (about 24 nodes, never more than 60), over all orders and recomputations, within
// `max_states` states visited (0: a default that takes about 0.2 s). With a far tier up to 12 nodes, and the shortest
// makespan over all moves and homes, too.
RematExact remat_exact(const RematProblem *problem, int64_t budget_bytes, int64_t max_states, RematSchedule *schedule);

// ---- problem_io.c: JSON ----

// Reads a problem from `text` (`length` bytes, need not end in NUL). Returns an Owned problem that passed
// remat_problem_check (release with remat_problem_destroy), or NULL and `error` with line and column. Format:
//   { "fixed_bytes": 0, "nodes": [ { "name": "conv1", "cost": 123, "bytes": 4096, "workspace": 0, "inputs": [0, 4],
//     "role": "forward" | "backward" | "update", "recomputable": true, "class": "cheap" | "expensive",
//     "checkpoint": false } ], "outputs": [17, 42], "anti": [[3, 40]] }
// and with a far tier "far": { "out_rate": 25e9, "in_rate": 25e9, "latency": 1e-5, "drag": 0, "budget": 1000000 }, and
// "workspace", of which the rates and the budget are required, and in nodes "movable": true, "home": true,
// "updated_by": 17. Only "nodes" is required, and in a node only "cost" and "bytes". Defaults: 0, no inputs, forward,
// recomputable (updates and homes: not), cheap, no checkpoint, not movable, no home. Unknown keys are ignored.
RematProblem *remat_problem_read(const char *text, size_t length, InputError *error);
void remat_problem_destroy(RematProblem *problem);

// Writes the problem in the same format.
void remat_problem_write(FILE *file, const RematProblem *problem);

// Writes {"cost":…,"peak":…,"steps":[{"execute":0},{"execute":1},{"free":0},…]}: the executions in order with the
// frees of near bytes between them; with a far tier "makespan" and "far_peak", too, and steps {"store":n}, {"fetch":n},
// {"far_home":n}. The schedule must be legal.
void remat_schedule_write(FILE *file, const RematProblem *problem, const RematSchedule *schedule);

// Reads such a file into an Owned schedule. The frees are checked to be those that the executions imply, the recorded
// figures against the simulator's, so what is read is legal.
bool remat_schedule_read(const char *text, size_t length, const RematProblem *problem, RematSchedule *schedule,
                         InputError *error);

// ---- offsets.c: places for buffers with known lifetimes in one arena (dynamic storage allocation) ----

typedef struct OffsetBuffer {
  int64_t id;             // carried along, not interpreted
  int64_t lower, upper;   // lives in [lower, upper), any unit of time; empty when upper == lower
  int64_t size;           // bytes, >= 0; occupies size rounded up to align
  int64_t align;          // bytes, a power of two; 0 means 1
  int64_t offset;         // result: bytes from the start of the arena, a multiple of align
} OffsetBuffer;

typedef struct OffsetOptions {
  uint64_t seed;
  int64_t capacity;    // stop as soon as the arena is at most this; 0: aim for the lower bound
  int64_t max_work;    // elementary steps of about 1 ns; 0: a default of 0.2 to 0.4 s; < 0: the first order only
  double time_limit;   // seconds of the clock; 0: none
} OffsetOptions;

typedef struct OffsetResult {
  int64_t arena_bytes;   // max over buffers of offset + size rounded up to align
  int64_t lower_bound;   // max live: the largest sum of sizes, each rounded up to its alignment, live at one time
  int64_t work;          // elementary steps taken
  double seconds;
} OffsetResult;

// Assigns `offset` to each of the `n` buffers so that no two that live at the same time overlap. Greedy placement in
// several orders (size, area, lifetime, start), first and best fit, then a search that moves the buffers at the top of
// the arena forward in the order. Deterministic for a seed. False with `error` when a buffer is malformed (upper <
// lower, negative size, bad alignment, sum of sizes too large). Never fails for lack of space: compare arena_bytes.
bool offsets_assign(OffsetBuffer *buffers, int n, const OffsetOptions *options, OffsetResult *result,
                    InputError *error);

// Checks, independently, lifetimes, alignment, that each buffer lies in [0, arena_bytes), and that no two overlap in
// both time and space. False with `error` naming the buffers.
bool offsets_verify(const OffsetBuffer *buffers, int n, int64_t arena_bytes, InputError *error);

// ---- offsets_io.c: MiniMalloc's CSV ----

// Reads `id,lower,upper,size[,offset]`, or `buffer,start,end,size[,offset]`, with a header line naming the columns in
// any order (ids need not be numbers in order, but must be integers). Returns an Owned array (free) of *n buffers with
// align 1, or NULL and `error` with line and column.
OffsetBuffer *offsets_read_csv(const char *text, size_t length, int *n, InputError *error);

// Writes `id,lower,upper,size,offset`, in the order of the array.
void offsets_write_csv(FILE *file, const OffsetBuffer *buffers, int n);

#endif
