// offsets.h: places buffers with known lifetimes in one arena (dynamic storage allocation). The plan pass calls this
// after the order of execution is fixed; nnc-plan offsets calls it on a CSV.
#ifndef NNC_SOLVER_OFFSETS_H
#define NNC_SOLVER_OFFSETS_H

#include <stdint.h>
#include <stdio.h>

#include "support/alloc.h"
#include "support/input_error.h"

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
  double time_limit;   // seconds, a safety only; 0: 10
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
