// Rematerialization of a training step: the step as a problem for the solver, a sequence of executions as the function
// that runs it, and what the driver and the report ask of it: the problem as JSON, the curve of time over memory.
#ifndef NNC_PASSES_REMAT_H
#define NNC_PASSES_REMAT_H

#include "passes/plan/plan.h"
#include "passes/solver/solver.h"
#include "support/input_error.h"

// ---- remat_moves.c: a function's steps with copies to memory far away and back ----

// Values that the function has keep their numbers; behind them are those far away, and the near copies of arguments
// whose home is far, which all steps read in the place of the argument. Steps keep their numbers, too; behind them are
// the copies: `out` of a value, and `in`, which makes the value once more, as a second execution does.
typedef struct RematMoves {
  PlanProgram p;           // parts are Borrowed of the function's; its copies have no op
  int n_steps, n_values;   // of the function
  int capacity;            // of p.values
  int *near;               // Owned, per argument: its near copy, -1: its home is near
  int *fetched, *stored;   // Owned, per value: step that copies it, -1: none
  int *far;                // Owned, per value: where it is far, -1: nowhere
  int *from;               // Owned, per copy: its operand
} RematMoves;

// far_home: per argument; NULL: none. The function's program must outlive the moves.
void remat_moves_build(RematMoves *m, const PlanProgram *p, const bool *far_home);
// The step that copies: an argument with a far home, or a value that is stored; any value; the new value of an argument
// with a far home, which is then what the function returns for `result`. Each is made when it is first asked for.
int remat_moves_fetch(RematMoves *m, int value);
int remat_moves_store(RematMoves *m, int value);
int remat_moves_store_update(RematMoves *m, int result);
void remat_moves_end(RematMoves *m);   // no more are asked for: m->p can be used
void remat_moves_free(RematMoves *m);
// What persists, of both tiers: `persistent_bytes`, if all were near.
PlanBase remat_base(const PlanProgram *p, int64_t persistent_bytes);
// Seconds of the real plan of a sequence of steps of m->p, whose buffers have been placed behind `base`; those of its
// persistent arguments are placed here.
double remat_moves_seconds(const RematMoves *m, PlanLayout *l, const PlanBase *base, const double *step_seconds,
                           const NnFarRates *rates);

// ---- remat_far.c: who may be at home far away ----

typedef struct RematFar {
  int64_t budget;   // bytes
  PtrMap near;      // plan_argument_key of those that must stay near
} RematFar;

void remat_far_build(RematFar *far, MlirModule module, const NnTarget *target, int64_t budget);
void remat_far_free(RematFar *far);
// Whether an argument of one function may be: nothing but computing touches it, and what updates it is one whole value.
// Sets the result that is, -1: none.
bool remat_can_be_far(const PlanProgram *p, int argument, int *result);
// Its machine tells what copies take; NULL: any target.
static inline bool remat_has_far(const NnTarget *target) { return !target || target->far.out_bytes_per_second > 0; }
// False after reporting that a budget far away is given, bytes, and the target has no such memory.
bool nn_remat_check_far(MlirModule module, const NnTarget *target, int64_t budget);

// ---- remat_problem.c ----

// A node per argument that the runtime fills, all of which execute before the first step, then the steps. What the
// solver does not know is told in the shape of the nodes: a chain of steps, each of which alone reads the one before
// and overwrites it in place, is one node, because it occupies one buffer; a step with several results is a node per
// result, because each may die or be wanted again alone; what else is written in place is told in the workspaces.
// Forward and backward steps may run again, updates and taps may not.
typedef struct StepProblem {
  PlanProgram *p;   // Borrowed
  RematProblem problem;
  int64_t slack;   // bytes: a plan of `budget` bytes is a schedule whose peak is at most budget + slack
  int64_t small_bytes;
  int64_t arena_none;         // bytes: the arena when every step runs once
  int64_t bound_bytes;        // with memory far away: no plan needs less (StepBound); 0: not known
  int64_t activations_none;   // bytes: plan_layout_activations then
  double seconds_none;        // predicted time of that
  RematNode *nodes;           // Owned
  int n_arg_nodes;            // the one at `begin` included
  int begin;                  // node that reads all arguments, before the first step; -1: none
  int *arg_node;              // Owned, per argument: node, -1 for persistent ones
  int *value_node;            // Owned, per value made by a step: node
  int *first_step;            // Owned, per node; -1 for arguments
  int *n_parts, *part;        // Owned, per node: nodes of its step, and which of them this is
  bool *large;                // Owned, per node: a result that takes its bytes over from part 0
  // Owned, per node: bytes that its workspace is smaller by, because results are written over operands
  int64_t *saved;
  int *next_step;         // Owned, per step: the next of its chain, -1 ends
  int *step_node;         // Owned, per step: its first node
  double *step_seconds;   // Owned
  int *pool, *outputs;    // Owned
  RematAnti *anti;        // Owned
  // With memory far away:
  RematTier tier;
  NnFarRates rates;
  int n_homes;        // the first nodes are arguments that may be at home far away
  int *node_value;    // Owned, per node: the one value that it is, a home's argument; -1: it is not moved
  int *home_result;   // Owned, per node: of a home: the result that updates it, -1: none
  // Owned; the same without memory far away: the same nodes but for homes, in the same order; NULL: this one is
  struct StepProblem *alone;
} StepProblem;

// far: NULL: there is no such memory.
void step_problem_build(StepProblem *q, PlanProgram *p, int64_t persistent_bytes, const NnTarget *target,
                        const RematFar *far);
void step_problem_free(StepProblem *q);
// Writes the problem of @train, which must exist, in the format of remat_problem_write, for nnc-plan. The module:
// kernels, scheduled, before remat.
void nn_remat_problem_print(MlirModule module, const NnTarget *target, int64_t far_budget, FILE *out);
// The steps that a schedule of the problem runs. Owned: free(). Sets their number and predicted time, one after the
// other. Where it copies, the steps are those of `moves`, which is made; else that stays as it is.
int *step_problem_expand(const StepProblem *q, const RematSchedule *s, RematMoves *moves, int *n, double *seconds);

// Bytes of results that the layout writes over operands at a position.
int64_t step_problem_overlap(const StepProblem *q, const PlanLayout *l, int position);

RematRole step_role(MlirOperation op);   // from nn.phase

// ---- remat_bound.c: what no plan can go below ----

typedef struct StepBound {
  PlanProgram *p;   // Borrowed
  RematTier tier;
  int64_t home_bytes;     // that may be far
  RematProblem problem;   // relaxed: see remat_bound.c
  int64_t slack;          // bytes: a plan of `budget` bytes is a schedule whose peak is at most budget + slack
  double seconds_none;
  RematNode *nodes;      // Owned
  int64_t *saved;        // Owned, per node: bytes written in place at most
  int *pool, *outputs;   // Owned
  int *value_node;       // Owned, per value: node, -1: counts for nothing
  bool *tied;            // Owned, per value: an update's
} StepBound;

void step_bound_build(StepBound *b, PlanProgram *p, int64_t persistent_bytes, const StepProblem *q);
void step_bound_free(StepBound *b);
// Added time, 0.07 = 7 %, below which no plan with an arena of `budget` bytes can be; INFINITY: certain that none fits.
// `time_limit` as in remat_lower_bound.
double step_bound_overhead(const StepBound *b, int64_t budget, double time_limit);
int64_t step_bound_bytes(const StepBound *b);   // no arena can be smaller

// ---- remat_search.c: a plan for a goal ----

typedef struct RematGoal {
  RematPolicy policy;
  int64_t budget;        // bytes of the arena, 0: none
  double max_overhead;   // 0.2 = 20 %; < 0: none
  uint64_t seed;
  double seconds;       // for the search, 0: as many moves as take about a second
  double effort;        // moves, as a fraction of the default; 0: 1
  int64_t far_budget;   // bytes; 0: there is no memory far away
} RematGoal;

typedef struct RematPlan {
  int n;
  int *exec;                // Owned; steps, NULL: each once, in order
  RematMoves *moves;        // Owned; NULL: it copies nothing. Else exec names its steps
  double seconds;           // predicted
  int64_t arena;            // bytes, of the real plan: in-place results and offsets included
  int64_t far_arena;        // bytes
  int64_t *offset;          // Owned, per buffer of the layout of exec: from the end of the persistent part
  RematSchedule schedule;   // Owned; the schedule of the problem behind exec
} RematPlan;

// With a policy that is no search: its plan. Else, with a budget, the least time found within it, or, where nothing
// fits, the smallest arena found, which then fits when it is asked for; without, the smallest arena within
// max_overhead; with neither, each step once.
void remat_find(const StepProblem *q, const RematGoal *goal, int64_t persistent_bytes, RematPlan *plan);
void remat_plan_free(RematPlan *plan);
// Makes the plan one in which more arguments are at home far away (per argument): each is fetched before its first
// reader, and its update is stored where it is made, so that no more is near than before.
void remat_plan_send_home(const StepProblem *q, const RematGoal *goal, int64_t persistent_bytes, const bool *far_home,
                          RematPlan *plan);

// ---- remat_forms.c: the forms of a function's loops ----

typedef struct RematForm {
  MlirOperation func;   // in the module
  int n_segmented;      // loops that keep their carried values between segments only
  PlanProgram p;
  StepProblem q;
  StepBound bound;
} RematForm;

typedef struct RematForms {
  MlirModule module;
  const NnTarget *target;   // Borrowed
  int64_t persistent;       // bytes
  const RematFar *far;      // Borrowed; NULL: there is no such memory
  MlirOperation origin;     // the function; its forms are clones of it, where it has loops that are differentiated
  int n, n_loops;
  bool some;          // not all forms there are
  int split;          // the form whose largest updates are split, 0: none was made, -1: there is none
  RematForm *items;   // Owned; the first is the fastest when nothing runs again
} RematForms;

bool remat_has_loops(MlirOperation func);   // that are differentiated
void remat_forms_build(RematForms *f, MlirModule module, MlirOperation func, const NnTarget *target,
                       int64_t persistent_bytes, const RematFar *far);
// As remat_find, for all forms, which are made when they are first needed. Returns the form that the plan is for; the
// plan is judged.
int remat_forms_find(RematForms *f, const RematGoal *goal, RematPlan *plan);
// added time, over that of the first form when nothing runs again
double remat_forms_overhead(const RematForms *f, int form, const RematPlan *plan);
// what no plan of the forms made adds less than, in an arena of so many bytes
double remat_forms_bound(const RematForms *f, int64_t bytes);
int64_t remat_forms_bytes(const RematForms *f);   // no arena of theirs can be smaller
// Keeps one form under the function's name, and returns it, or, with -1, the function as it was; the others, and what
// only they call, are erased.
MlirOperation remat_forms_end(RematForms *f, int keep);

// ---- remat_again.c: steps that update something and make an activation ----

typedef struct AgainKernel {
  int step;
  MlirOperation func;
} AgainKernel;
typedef struct AgainKernels {
  int n;
  AgainKernel *items;
} AgainKernels;   // Owned: free(items)

// Sets PlanStep.again and reads_again of kernels that update something besides making results larger than
// `small_bytes`, which can be made again without what is updated.
void remat_find_again(PlanProgram *p, int64_t small_bytes);
// A call that makes those results of the step, in their order. `operands`: one per input, null for those not read. The
// kernel is made when it is first needed.
MlirOperation remat_call_again(AgainKernels *kernels, const PlanProgram *p, int step, const MlirValue *operands);

// The op's result depends on nothing but its operands, wherever it is compiled: it is exact, or rounded once.
bool remat_is_exact(NnOp kind);
// A call of the kernel with the location and phase of `like`, in no block yet.
MlirOperation remat_build_call(MlirOperation like, MlirOperation func, int n, const MlirValue *operands);

// ---- remat_split.c: updates that read less at once ----

// Makes of each update of the function that reads `least` bytes or more, where it can, several kernels that read two
// tensors of the parameter's size at most. Returns how many were split.
int remat_split_updates(MlirModule module, MlirOperation func, int64_t least);

// ---- remat_check.c ----

// "internal error: remat: …" and exit status 70.
void remat_bug(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
// True when every step runs, updates and taps once, nothing is read before it is made, and nothing that runs again
// reads an argument after its tied update has run; with copies, when only those touch what is far away, nothing is
// fetched before it is stored, and updates of what is at home far away are stored. `exec` holds n steps of p.
bool remat_check_sequence(const PlanProgram *p, const int *exec, int n, InputError *error);
// Ends the compilation when the plan's schedule or sequence is not legal, or not what it says.
void remat_check_plan(const StepProblem *q, const RematPlan *plan);

// ---- remat_rewrite.c ----

// Rewrites the function so that its steps run as the plan says, which is not "each once" (of a step the first
// occurrence is the op itself, the others are clones in regions), and writes down where the plan has placed their
// results: nn.inplace, nn.offset, nn.workspace, and nn.placed on the function. p describes the function before and is
// stale after. Checkpoint marks are erased: they have been heard.
void remat_rewrite(PlanProgram *p, const RematPlan *plan, const PlanBase *base);

// ---- remat_stream.c: functions that are not searched ----

// Rewrites a function so that arguments whose home is far (per argument) are fetched for each step that reads them, and
// dropped behind it, and stored where they are updated.
void remat_stream(MlirModule module, MlirOperation func, const NnTarget *target, const bool *far_home,
                  const PlanBase *base);
// The bytes of its arena then; the function stays as it is.
int64_t remat_stream_bytes(MlirModule module, MlirOperation func, const NnTarget *target, const bool *far_home,
                           const PlanBase *base);

// ---- remat_sweep.c: the curve of time over memory ----

typedef struct RematSweepPoint {
  int64_t budget_bytes;   // asked for, the whole arena: parameters, optimizer state, everything
  int64_t arena_bytes;    // of the plan found; the smallest found where none fits
  double overhead;        // predicted added time of that plan, 0.07 = 7 %
  double lower_bound;     // added time that no plan within the budget can go below; INFINITY: certain that none fits
  int recomputed;         // executions beyond the first of each step
  bool feasible;          // arena_bytes <= budget_bytes
  int64_t far_bytes;      // of the second arena
} RematSweepPoint;

typedef struct RematSweep {
  int64_t arena_none;    // bytes: every step once
  double seconds_none;   // predicted time of that
  int n;
  // Owned; budgets fall from 100 % of arena_none in steps of 5 %, then the smallest that was found
  RematSweepPoint *points;
} RematSweep;

// Plans @train for budgets of 100 %, 95 %, … of its arena without recomputation, down to the smallest budget that can
// be met, which is the last point. Each point is what the pass `remat` finds for that budget with the seed, the seconds
// and the effort of `search`. Of a training in phases: each is planned, the largest arena counts, and the time is that
// of a step, of which a phase that is run every few has its share; `function`: of this phase alone, NULL: all; memory
// far away is for one. The module (kernels, scheduled, before remat) stays as it is. False, and an empty sweep, when it
// has no such function.
bool nn_remat_sweep(MlirModule module, const NnTarget *target, const RematGoal *search, const char *function,
                    RematSweep *out);
void nn_remat_sweep_free(RematSweep *sweep);
// "budget_bytes,arena_bytes,overhead,lower_bound,recomputed,feasible,far_bytes" and a line per point.
void nn_remat_sweep_print(const RematSweep *sweep, FILE *out);

#endif
