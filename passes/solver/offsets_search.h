// offsets_search.h: a complete search for offsets within a capacity, for offsets.c.
#ifndef NNC_SOLVER_OFFSETS_SEARCH_H
#define NNC_SOLVER_OFFSETS_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

// The first multiple of an alignment, a power of two or 0, from `value` on.
static inline int64_t aligned(int64_t value, int64_t align) {
  return align <= 1 ? value : (value + align - 1) & -align;
}

typedef struct CanonicalItem {
  int lower, upper;   // lifetime [lower, upper) in ranks of the distinct times, upper > lower
  int64_t size;       // bytes, > 0, a multiple of the alignment
  int64_t align;      // bytes, a power of two or 0
} CanonicalItem;

typedef enum CanonicalAnswer { CANONICAL_FOUND, CANONICAL_IMPOSSIBLE, CANONICAL_UNKNOWN } CanonicalAnswer;

typedef struct CanonicalSearch CanonicalSearch;

// A search for offsets of the `n` items (Borrowed) with every end at most `capacity`. Owned: canonical_free.
CanonicalSearch *canonical_create(const CanonicalItem *items, int n, int n_times, int64_t capacity, uint64_t seed);
void canonical_free(CanonicalSearch *search);

// Goes on for about `work` elementary steps (about a nanosecond each) or until `stop` says so. CANONICAL_IMPOSSIBLE is
// a proof only when all alignments are equal. What it learnt is kept for the next call.
CanonicalAnswer canonical_run(CanonicalSearch *search, int64_t work, bool (*stop)(const void *context),
                              const void *context);
const int64_t *canonical_offsets(const CanonicalSearch *search);   // Borrowed, per item; after CANONICAL_FOUND
int64_t canonical_work(const CanonicalSearch *search);             // elementary steps so far

#endif
