// Private to schedule_reduce*.c: how the threads of a GPU share the work of a row or column kernel.
#ifndef NNC_CODEGEN_GPU_SCHEDULE_REDUCE_H
#define NNC_CODEGEN_GPU_SCHEDULE_REDUCE_H

#include "codegen/gpu/schedule.h"
#include "codegen/kernel/reduce.h"

// four blocks for each multiprocessor of an H200
enum { BLOCK = 256, WARP = 32, MAX_RESIDENT = 8, MAX_RESIDENT_ELEMENTS = 32, ENOUGH_BLOCKS = 528 };
// threads of a multiprocessor, bytes that each has on their way
enum { MAX_STASHED = 4, STASH_PASSES = 8, STASH_THREADS = 1024, STASH_AHEAD = 64 };

// An operand whose row stays in shared memory from the first pass that reads it on.
typedef struct Stashed {
  int arg;
  NnDtype dtype;
  Access access;
  int first, last;   // passes that read it
  int64_t offset;    // bytes, in dynamic shared memory
} Stashed;

typedef struct Plan {
  Reduce r;
  int lanes;
  bool columns;          // teams along threadIdx.y
  int team, per_block;   // threads of a team, teams of a block
  int resident;          // vectors of a row that a thread keeps; 0: loops
  int unroll;            // of those loops: vectors whose loads are on their way together
  int64_t unrolled;      // elements of a row that all threads go through in whole turns of as many
  int64_t width;         // vectors of the kept axis (columns), else 1
  int64_t teams;         // outer x width
  bool chunked, chunk_vector;
  int64_t n_chunks, chunk_size;   // of rows, or of elements of the vector axis
  int64_t bytes;                  // of the workspace
  // partial means are differences from the first element, which every block knows
  bool relative;
  int n_stashed;
  Stashed stashed[MAX_STASHED];
  int64_t stash_bytes;            // dynamic shared memory of the block, which is one team
  bool alone;                     // two of which are more than a multiprocessor has
  int stash_turn[STASH_PASSES];   // of each pass: vectors of a turn of its loop
  // the unit of the pass before whose loop computes it as well: M2 with its mean, a sum of exponentials with its
  // maximum; -1: its own
  int joined[MAX_UNITS];
} Plan;

// schedule_reduce_plan.c
void plan_reduce(const Kernel *k, Plan *p);
int plan_companion(const Plan *p, int unit);   // the unit that is computed along with this one, -1: none
int plan_power_of_two(int64_t n, int most);    // the least that is no smaller, at most `most`

// schedule_reduce_stash.c: what of a row is in shared memory, and which pass the code is in.
typedef struct Stash {
  const Plan *p;   // Borrowed
  int pass;
  Value loaded[MAX_STASHED][MAX_TILE];   // in memory's type; by the first pass, of the current turn
} Stash;
void plan_stash(GpuShared shared, Plan *p);   // last of the plan: a larger team, and loops that load more at
                                              // once
// Around what one turn of a pass computes of `count` vectors: their loads, from memory in the first pass, and the
// places where later ones find them.
void stash_turn_begin(Emitter *e, Stash *s, int count);
void stash_turn_end(Emitter *e);

// schedule_reduce.c: one launch, of all of a kernel or of its chunks.
typedef struct Launch {
  Emitter *e;
  const Plan *p;
  char *symbol;                // Owned by the kernel's launch
  Value rank;                  // of the thread in its team
  Value column;                // columns: which of the block's
  Value outer, chunk;          // linear; chunk only where chunked
  Value active;                // i1: this team has an element; {-1}: all do
  Value low, high;             // of rows
  Value from, to;              // of the reduced vector axis
  Value valid[MAX_RESIDENT];   // resident: i1; id -1: always
  Value value[MAX_UNITS];      // combined, of the current stage; means are final, but in a launch of partial results
  Value origin[MAX_UNITS];     // of a mean: an element of the team's, from which differences are summed
  Stash stash;
} Launch;
// The function's beginning, for `chunks` blocks to a team; index: of the kernel's launches. `what` is for the comment.
void launch_begin(Launch *l, Emitter *e, GpuModule *m, const Plan *p, const char *what, int index, int64_t chunks,
                  EmittedKernel *out);
void launch_whole_range(Launch *l);   // the launch goes over all reduced elements
// One pass over the elements, for the active units (n_units of them), or that writes domain-shaped results; count: of
// the elements that the launch's team sees.
void launch_pass(Launch *l, const bool *active, bool write, Value (*count)(Launch *l, NnDtype dtype));
Value launch_combine(Launch *l, const Unit *u, Value x);   // over the threads of the team
void launch_if_first(Launch *l);   // opens an if: the first thread of each team, where it has something to do
void launch_write_kept_results(Launch *l);

// schedule_reduce_chunks.c: partial results and their combination, a launch for each stage.
void schedule_reduce_chunks(GpuModule *m, const Plan *p, EmittedKernel *out);

#endif
