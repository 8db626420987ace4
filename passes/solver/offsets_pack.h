// offsets_pack.h: inside the offset allocator: does a set of buffers fit a given capacity? A depth-first search with
// restarts, complete when it is given the time.
#ifndef NNC_SOLVER_OFFSETS_PACK_H
#define NNC_SOLVER_OFFSETS_PACK_H

#include "offsets.h"

typedef struct PackProblem {
  int n;                     // buffers, none of them empty
  const int *lower, *upper;  // Borrowed; lifetimes as half-open ranges of sections, 0 .. n_sections
  int n_sections;
  const int64_t *size;       // Borrowed; bytes, > 0, multiples of the alignment
  const int64_t *align;      // Borrowed; bytes, powers of two >= 1
  int64_t capacity;          // bytes
  uint64_t seed;
  int64_t max_work;          // elementary steps, about nanoseconds
  double time_limit;         // seconds, a safety
} PackProblem;

typedef enum PackStatus {
  PACK_FOUND,
  PACK_IMPOSSIBLE,  // proved
  PACK_UNKNOWN,     // work or time is used up, or the numbers are too large for this search
} PackStatus;

// Searches offsets within the capacity; `offset` (n numbers of bytes) is written when they are found. Adds the
// elementary steps taken to *work. Canonical placements and the pruning by sections follow Moffitt, MiniMalloc
// (ASPLOS 2023); the branching on the tightest of the lowest sections and the restarts are ours. Deterministic for a
// seed and max_work.
PackStatus offsets_pack(const PackProblem *problem, int64_t *offset, int64_t *work);

// The unit of which all sizes and alignments above 1 are multiples; an optimal arena is a multiple of it too.
int64_t offsets_pack_unit(const PackProblem *problem);

#endif
