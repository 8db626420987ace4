// What the passes behind `fuse` share: the steps of a function in the order they run, what each reads and writes, which
// values are one buffer, and the arena that a sequence of executions needs. Used by schedule, remat, inplace, plan,
// plan_print and by codegen.
//
//   NnStepList    the ops of a function, flattened               (plan_steps.c)
//   PlanProgram   the same as numbers: values, buffers, steps    (plan_model.c)
//   PlanLayout    lifetimes and offsets for one sequence         (plan_layout.c, plan_buckets.c)
//   LaneStep      a step as its lane and the bytes it touches    (lanes.c)
#ifndef NNC_PASSES_PLAN_H
#define NNC_PASSES_PLAN_H

#include <stdio.h>

#include "passes/passes.h"
#include "support/ptr_map.h"

// ---------------------------------------------------------------------------------------------------------------------
// Lanes: a step runs on one of them, behind the steps of its lane that stand before it and behind those of other lanes
// that it waits for; for the rest lanes run beside each other. The order of a function's steps stays total: run one by
// one in it they compute the right thing, and where each byte is free is told by it. Waits make every other timing
// give the same: whoever touches bytes that a step of another lane has touched before, one of them writing, waits for
// that step. So what the order needs at most is what every timing needs at most, whatever takes how long.
// Numbers alone; plan_lanes.c gives the steps of a planned function, plan_check_lanes.c judges the result.

// Order as NncLane in runtime/program.h. ORDER LANE
typedef enum NnLane {
  NN_LANE_COMPUTE,
  NN_LANE_OUT,    // to memory far away
  NN_LANE_IN,     // from there
  NN_LANE_COMM,   // between devices
  NN_LANES,
} NnLane;
const char *nn_lane_name(NnLane lane);      // "compute", "out", "in", "comm"
NnLane nn_lane_by_name(const char *name);   // NN_LANES: unknown
NnLane nn_lane_of(MlirOperation step);      // NN_LANE_COMPUTE where none is named

// Of each lane one step, by its number in the order, and with it all before it on that lane; -1: none.
typedef struct LaneClock {
  int at[NN_LANES];
} LaneClock;
extern const LaneClock lane_clock_none;

typedef struct LaneTouch {   // bytes at addresses [begin, end), of either arena, are read, or written
  int64_t begin, end;
  bool written;
} LaneTouch;

typedef struct LaneStep {
  NnLane lane;
  LaneClock waits;   // nothing at its own lane
  int n_touches;
  const LaneTouch *touches;   // Borrowed
} LaneStep;

// Seconds from the begin of n steps with waits, all lanes idle, to the end of all. over: when each is, may be NULL.
double lanes_makespan(int n, const LaneStep *steps, const double *seconds, double *over);
// Those of `need` that are not known and that no other implies; `known` gets them and what they imply. after: of each
// step, who is over when it is.
LaneClock lanes_waits(const LaneClock *need, LaneClock *known, const LaneClock *after);
// Sets the waits of n steps in the order: for each two steps that touch the same bytes, one of them writing, that the
// first is over when the second starts, with no wait that the others imply.
void lanes_find_waits(int n, LaneStep *steps);

// ---------------------------------------------------------------------------------------------------------------------
// Steps

typedef enum NnStepRole {
  NN_STEP_RUN,      // does work: a call to a kernel, a library op
  NN_STEP_ALIAS,    // no work: its result is its operand's buffer (reshape, contiguous slice)
  NN_STEP_REGION,   // scf.execute_region, listed after the ops inside it: its results are the buffers of what it yields
  NN_STEP_TAP,      // reads its operand when the program is asked for taps
  NN_STEP_MARK,     // checkpoint: nothing
} NnStepRole;

typedef struct NnStep {
  MlirOperation op;
  NnStepRole role;
  bool recomputed;   // inside a region with nn.recompute
} NnStep;

// The ops of a function's body in the order they run, walking into scf.execute_region; yields and the return are left
// out.
typedef struct NnStepList {
  int n;
  NnStep *items;
} NnStepList;   // Owned: nn_steps_free
NnStepList nn_flatten(MlirOperation func);
void nn_steps_free(NnStepList *list);

bool nn_is_alias(MlirOperation op);             // a reshape, a barrier, or a slice that is one contiguous part
int64_t nn_alias_shift(MlirOperation op);       // bytes from the operand's first element to the result's
enum { PLAN_SUMS_AHEAD = 2 };                   // sums over ranks that begin before one is read, if there are more
bool nn_is_persistent_role(const char *role);   // param, state, opt, accum

// ---------------------------------------------------------------------------------------------------------------------
// The model of a function

typedef struct PlanValue {
  MlirValue value;
  int64_t bytes;
  int root;          // the value whose buffer this is; itself for most
  int64_t shift;     // bytes from the start of that buffer
  int def;           // step that makes it; -1: an argument
  int arg;           // argument number, -1: none
  bool persistent;   // argument that outlives the call
  bool far;          // lies in the far arena: the argument says so, it is copied out on a lane, or a part of such
  int inplace;       // operand whose buffer nn.inplace on its op gives it, -1: none
} PlanValue;

typedef struct PlanStep {
  MlirOperation op;
  NnStepRole role;               // NN_STEP_RUN or NN_STEP_TAP; aliases, regions and marks are resolved away
  int n_inputs, *inputs;         // Owned by the program; values as the op names them
  int n_results, first_result;   // values first_result … first_result + n_results - 1
  int64_t workspace;             // bytes
  bool packs_once;               // the workspace keeps what it packs through all iterations: no other step uses it
  bool recomputed;
  NnLane lane;         // NN_LANES: nn.lane is none
  int kernel;          // into PlanProgram.kernels, -1: no kernel
  bool *again;         // Owned, per result: a second execution makes it; NULL: all of them (remat_again.c)
  bool *reads_again;   // Owned, per input: a second execution reads it; NULL: all of them
} PlanStep;

// Which result of a kernel may be written over which argument.
typedef struct PlanKernel {
  MlirOperation func;
  int n_args, n_results;
  int8_t *allowed;     // Owned, n_results x n_args; -1: not asked yet
  int64_t workspace;   // bytes; -1: not asked yet
} PlanKernel;

typedef struct PlanProgram {
  MlirOperation func;
  const NnTarget *target;   // Borrowed; NULL: workspaces are as nn.workspace_bytes on the ops says
  int64_t alignment;
  int n_values;
  PlanValue *values;   // Owned; arguments first
  PtrMap ids;          // MlirValue -> value
  int n_args;
  int n_steps;
  PlanStep *steps;   // Owned
  int *input_pool;   // Owned
  int n_results;
  int *result;   // Owned; value returned
  int *tied;     // Owned; argument overwritten by it, -1: none
  int n_kernels;
  PlanKernel *kernels;   // Owned
  PtrMap kernel_ids;     // callee attribute -> kernel
} PlanProgram;

bool plan_is_sum_over_ranks(const PlanStep *s);   // of gradients: an exchange that others are computed beside
bool plan_is_fetch(MlirOperation op);             // gathers a parameter of which each rank keeps a part
void plan_program_build(PlanProgram *p, MlirModule module, MlirOperation func, const NnTarget *target);
void plan_program_free(PlanProgram *p);
int64_t plan_align(const PlanProgram *p, int64_t bytes);
// Result r of a step may be written over operand o: element by element, nothing of o is read after it is overwritten.
// Where several operands show one buffer, each of them has to be asked for.
bool plan_inplace_allowed(PlanProgram *p, int step, int result, int operand);

// ---------------------------------------------------------------------------------------------------------------------
// Lifetimes and offsets of one sequence

typedef struct PlanInstance {   // one execution's result, or an argument
  int value;
  int position, last_use;   // in the sequence; arguments start at 0, what is returned ends at n
  int first_use;            // by a step that waits for it: not on the lane comm, no tap; n: none
  int buffer;
  int inplace;   // operand whose buffer it takes, -1: none
  bool read;     // somebody uses it
} PlanInstance;

typedef struct PlanBuffer {
  int64_t bytes, offset;   // offset from the end of the persistent part, or in it when persistent
  int lower, upper;        // positions [lower, upper)
  bool persistent, far;
  int within;      // the buffer of which it is a part, -1: none
  int64_t shift;   // in that, bytes
} PlanBuffer;

// Bytes of each arena that lie before a function's own buffers.
typedef struct PlanBase {
  int64_t near, far;
} PlanBase;
int64_t plan_buffer_address(const PlanBuffer *b, const PlanBase *base);   // support/bytes.h

typedef struct PlanPart {   // a buffer that may be a part of a bucket's
  int buffer, bucket;
} PlanPart;

typedef struct PlanLayout {
  int n;             // positions
  const int *exec;   // Borrowed; step at each position, NULL: in order
  int n_instances, n_buffers;
  PlanInstance *instances;   // Owned; arguments first, then results by position
  int *first_instance;       // Owned, per position
  bool *again;               // Owned, per position: not the first execution of its step
  PlanBuffer *buffers;       // Owned
  int *workspace;            // Owned, per position: buffer or -1
  int n_parts;
  PlanPart *parts;         // Owned; by bucket
  int *result_instance;    // Owned, per returned value: its instance
  int64_t *result_shift;   // Owned
  bool *copy_back;         // Owned, per returned value
  int64_t arena, live;     // bytes, without the persistent part
  int64_t far_arena, far_live;
} PlanLayout;

// READ: as nn.inplace on the ops says
typedef enum PlanInplace { PLAN_INPLACE_DECIDE, PLAN_INPLACE_READ } PlanInplace;

// Lifetimes, buffers shared in place, tied results. `exec` (n steps, may repeat) or NULL for the function's own order.
void plan_layout_build(PlanProgram *p, const int *exec, int n, PlanInplace mode, PlanLayout *out);
// Offsets and arena, within 0.1 % of the peak where the search finds it. capacity > 0: bytes that it must not exceed,
// where possible. `work` bounds the search (OffsetOptions): PLAN_SHORT takes about 0.1 s at most, PLAN_LONG 0.5 s.
enum { PLAN_SHORT = 40000000, PLAN_LONG = 500000000 };
void plan_layout_place(const PlanProgram *p, PlanLayout *l, int64_t capacity, int64_t work);
// The addresses that remat has written on the function (nn.placed), which begin behind `base`. False where
// there are none or the layout is another than the one that they were found for; offsets are undefined then. The
// layout: of the function's own order.
bool plan_layout_take_places(const PlanProgram *p, PlanLayout *l, const PlanBase *base);
// Bytes of the arena's buffers live at each position, n + 1 of them, without the persistent part and what is far.
// Owned: free().
int64_t *plan_layout_live(const PlanProgram *p, const PlanLayout *l);
// The largest sum of live buffers at one position, without the persistent part: no offsets can do better.
int64_t plan_layout_peak(const PlanProgram *p, const PlanLayout *l);
// Activations: the most bytes of buffers that hold results of forward steps, first or recomputed, while a backward step
// runs.
int64_t plan_layout_activations(const PlanProgram *p, const PlanLayout *l);
int plan_layout_buffer(const PlanProgram *p, const PlanLayout *l, int value);   // in which it lies
void plan_layout_free(PlanLayout *l);

// plan_buckets.c: of the sum over ranks at a position, its operands' buffers can be parts of its result's, in which
// they are laid one behind the other, if nothing reads them behind it. `operands`: their instances, `n` of them.
void plan_buckets_gather(const PlanProgram *p, PlanLayout *l, int position, int n, const int *operands);
// Makes them so where the most live bytes get no more: a bucket is there as a whole from its first operand on.
void plan_buckets_settle(const PlanProgram *p, PlanLayout *l);

// One function of the passes schedule and inplace; the passes do all public ones, scan the bodies of scans.
void schedule_function(MlirModule module, MlirOperation func, const NnTarget *target);
void inplace_function(MlirModule module, MlirOperation func, const NnTarget *target);
// Offsets of one step of a scan: its own buffers from 0 to nn.copies, copies of carried values up to nn.arena, which
// the loop needs as its workspace; behind that up to nn.bound the arguments, which are in truth rows of other buffers:
// an offset there says which.
void plan_scan_body(MlirModule module, MlirOperation body, const NnTarget *target);

// scan.c: the plan of a scan's step, if it has none yet, and of the scans inside of it.
void plan_scan(MlirModule module, const NnScan *scan, const NnTarget *target);

// Persistent arguments of all public functions by name: the same address everywhere, in order of first occurrence.
typedef struct PlanPlace {
  int64_t address, bytes;
} PlanPlace;
typedef struct PlanPersistent {   // Owned
  PtrMap ids;                     // of plan_argument_key: which of the places
  int n;
  PlanPlace *places;
  int64_t total, far_total;   // bytes in each arena
  int64_t kept_end;   // behind the last that @predict leaves alone: that is no optimizer state, of a library all
} PlanPersistent;
void plan_persistent_build(PlanPersistent *p, MlirModule module, const NnTarget *target);
// The address and the bytes of plan_argument_key; -1 and 0: not one of them.
int64_t plan_persistent_find(const PlanPersistent *p, const void *key, int64_t *bytes);
// Where the other buffers of func begin: behind all persistent ones; in @predict, which runs in a process that does
// nothing else, behind all but the optimizer's state.
int64_t plan_persistent_end(const PlanPersistent *p, MlirOperation func);
char *plan_argument_name(MlirOperation func, int arg);        // nn.name in full, or "arg3". Owned: free()
const void *plan_argument_key(MlirOperation func, int arg);   // one pointer for each name, in all functions
void plan_persistent_free(PlanPersistent *p);

// plan_lanes.c: what the steps of a planned function wait for (nn.waits), from their lanes and the bytes that they
// touch. False after reporting a lane that is none.
bool plan_write_waits(const PlanProgram *p, const PlanLayout *l, const PlanBase *base);   // of the function's order
// Seconds from the begin of all steps of a layout that has its offsets to their end, by what they wait for. `seconds`:
// per position.
double plan_layout_makespan(const PlanProgram *p, const PlanLayout *l, const PlanBase *base, const double *seconds);

// plan_print.c: the table behind --emit=plan, of a planned module.
void nn_plan_print(MlirModule module, FILE *out);

// ---------------------------------------------------------------------------------------------------------------------
// What the pass `check` looks at (plan_check_inplace.c, plan_check_lanes.c), by rules of its own

// Why result `result` of a step may not lie over the bytes of operand `operand`, or NULL: it may. Where other operands
// show the same bytes, each is asked for. kernel: the function that op calls, null: a library op.
const char *plan_check_over(MlirOperation op, MlirOperation kernel, int result, int operand);

// What is wrong with the waits of a function's steps.
typedef struct LaneRace {
  enum { LANE_RACE, LANE_WAIT_FOR_NONE } kind;
  int before, after;    // steps: nothing says that the first is over when the second starts; or it waits for none such
  int touch;            // of the second: which of its touches meets what the first touched
  bool before_writes;   // else it reads
  int64_t begin, end;   // bytes that both touch, or some of them
} LaneRace;
// True if each two of n steps that touch the same bytes, one of them writing, are ordered by lanes and waits.
bool plan_check_lanes(int n, const LaneStep *steps, LaneRace *race);

#endif
