// Private to schedule_reduce*.c: how the threads of a GPU share the work of a row or column kernel.
#ifndef NNC_CODEGEN_CUDA_SCHEDULE_REDUCE_H
#define NNC_CODEGEN_CUDA_SCHEDULE_REDUCE_H

#include "codegen/cuda/schedule/schedule.h"
#include "codegen/kernel/reduce.h"
#include "support/text.h"

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
  // partial means are differences from an element, which is where the combined mean will be
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
void plan_stash(const CudaTarget *target, Plan *p);   // last of the plan: a larger team, and loops that load more at
                                                      // once
// Around what one turn of a pass computes of `count` vectors: their loads, from memory in the first pass, and the
// places where later ones find them.
void stash_turn_begin(Emitter *e, Stash *s, int count);
void stash_turn_end(Emitter *e);

#endif
