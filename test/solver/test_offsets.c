// The allocator against what is known: the least arena of tiny instances by trying every order, rectangles that fill
// the arena without a gap, alignments, and the proof that a capacity is too small.
#include <stdlib.h>
#include <string.h>

#include "passes/solver/offsets_search.h"
#include "passes/solver/solver.h"
#include "support/input_error.h"
#include "test/check.h"

static uint64_t random_state = 7;

static int64_t draw(int64_t n) {
  uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (int64_t)((z ^ (z >> 31)) % (uint64_t)n);
}

// The least arena: in some order, placing each buffer at the lowest place where it fits gives it.
static int64_t least_arena(const OffsetBuffer *b, int n, int *order, int placed, int64_t *offset, int64_t arena,
                           int64_t best) {
  if (arena >= best || placed == n) return arena < best ? arena : best;
  for (int k = placed; k < n; k++) {
    int i = order[k];
    order[k] = order[placed], order[placed] = i;
    int64_t at = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (int p = 0; p < placed; p++) {
        const OffsetBuffer *other = &b[order[p]];
        int64_t low = offset[order[p]];
        if (other->lower < b[i].upper && b[i].lower < other->upper && low < at + b[i].size && at < low + other->size)
          at = low + other->size, moved = true;
      }
    }
    offset[i] = at;
    best = least_arena(b, n, order, placed + 1, offset, at + b[i].size > arena ? at + b[i].size : arena, best);
    order[placed] = order[k], order[k] = i;
  }
  return best;
}

static void test_tiny(void) {
  for (int round = 0; round < 200; round++) {
    int n = 3 + (int)draw(5), order[8];
    int64_t offset[8];
    OffsetBuffer b[8] = {0};
    for (int i = 0; i < n; i++) {
      int64_t lower = draw(6);
      b[i] = (OffsetBuffer){.id = i, .lower = lower, .upper = lower + 1 + draw(4), .size = 1 + draw(9)};
      order[i] = i;
    }
    int64_t least = least_arena(b, n, order, 0, offset, 0, INT64_MAX);
    OffsetResult result;
    InputError error;
    CHECK(offsets_assign(b, n, NULL, &result, &error), "%s", error.message);
    CHECK(result.arena_bytes == least, "round %d: %lld instead of %lld", round, (long long)result.arena_bytes,
          (long long)least);
    CHECK(offsets_verify(b, n, result.arena_bytes, &error), "%s", error.message);
  }
}

static bool never(const void *context) {
  (void)context;
  return false;
}

// The complete search on tiny instances, whole and in parts: finds what there is, and proves that a byte less is too
// little.
static void test_complete(void) {
  enum { TIMES = 12, MOST = 8 };
  for (int round = 0; round < 200; round++) {
    int n = 5 + (int)draw(MOST - 4), order[MOST];
    int stretch = 1 + round % 3 * 20;   // times that fill more than one word of bits
    int64_t offset[MOST];
    OffsetBuffer b[MOST] = {0};
    CanonicalItem items[MOST];
    for (int i = 0; i < n; i++) {
      int lower = (int)draw(TIMES - 4), upper = lower + 1 + (int)draw(4);
      if (round % 2 && i == 0) lower = 0, upper = TIMES;   // what crosses all others, which then come apart
      b[i] = (OffsetBuffer){.id = i, .lower = lower, .upper = upper, .size = 1 + draw(9)};
      items[i] = (CanonicalItem){lower * stretch, upper * stretch, b[i].size, 1};
      order[i] = i;
    }
    int64_t least = least_arena(b, n, order, 0, offset, 0, INT64_MAX);
    for (int less = 0; less < 2; less++) {
      CanonicalSearch *s = canonical_create(items, n, TIMES * stretch, least - less, (uint64_t)round);
      CanonicalAnswer answer = canonical_run(s, 1000000000, never, NULL);
      CHECK(answer == (less ? CANONICAL_IMPOSSIBLE : CANONICAL_FOUND), "round %d: answer %d for %d less than %lld",
            round, (int)answer, less, (long long)least);
      InputError error;
      for (int i = 0; i < n; i++) b[i].offset = canonical_offsets(s)[i];
      if (!less) CHECK(offsets_verify(b, n, least, &error), "round %d: %s", round, error.message);
      canonical_free(s);
    }
  }
}

// Many items, all of them connected, with room to spare: the first run places them.
static void test_many_items(void) {
  enum { N = 1200, WORK = 20000000 };
  CanonicalItem items[N];
  OffsetBuffer b[N] = {0};
  int64_t live[N + 40] = {0}, most = 0;
  for (int i = 0; i < N; i++) {
    int64_t align = 1 + 63 * draw(2), size = align * (1 + draw(200));
    items[i] = (CanonicalItem){i, i + 2 + (int)draw(38), size, align};
    b[i] = (OffsetBuffer){i, items[i].lower, items[i].upper, size, align, 0};
    for (int t = items[i].lower; t < items[i].upper; t++)
      if ((live[t] += size) > most) most = live[t];
  }
  InputError error;
  CanonicalSearch *s = canonical_create(items, N, N + 40, most + most / 5, 1);
  CanonicalAnswer answer = canonical_run(s, WORK, never, NULL);
  CHECK(answer == CANONICAL_FOUND, "answer %d after %lld", (int)answer, (long long)canonical_work(s));
  for (int i = 0; i < N; i++) b[i].offset = canonical_offsets(s)[i];
  CHECK(offsets_verify(b, N, most + most / 5, &error), "%s", error.message);
  canonical_free(s);
}

// Cuts time x capacity into n rectangles; sizes of `least` or less stay whole.
static OffsetBuffer *plant(int n, int64_t times, int64_t capacity, int64_t least) {
  OffsetBuffer *b = calloc((size_t)n, sizeof *b);
  b[0] = (OffsetBuffer){.upper = times, .size = capacity};
  for (int count = 1; count < n;) {
    OffsetBuffer *part = &b[draw(count)], *more = &b[count];
    *more = *part;
    if (draw(2) && part->upper - part->lower > 1) {
      more->lower = part->upper = part->lower + 1 + draw(part->upper - part->lower - 1);
    } else if (part->size > least) {
      part->size = 1 + draw(part->size - 1);
      more->size -= part->size;
    } else {
      continue;
    }
    count++;
  }
  for (int i = 0; i < n; i++) b[i].id = i;
  return b;
}

static void test_planted(void) {
  enum { N = 90, CAPACITY = 65536 };
  for (int round = 0; round < 6; round++) {
    OffsetBuffer *b = plant(N, N / 2, CAPACITY, 64), *again = calloc(N, sizeof *b);
    memcpy(again, b, N * sizeof *b);
    OffsetResult result;
    InputError error;
    OffsetOptions options = {.capacity = CAPACITY, .max_work = 4000000000, .time_limit = 100};
    CHECK(offsets_assign(b, N, &options, &result, &error), "%s", error.message);
    CHECK(result.arena_bytes == CAPACITY && result.lower_bound == CAPACITY, "round %d: %lld", round,
          (long long)result.arena_bytes);
    CHECK(offsets_verify(b, N, CAPACITY, &error), "%s", error.message);
    offsets_assign(again, N, &options, &result, &error);
    CHECK(!memcmp(b, again, N * sizeof *b), "round %d: another answer the second time", round);
    free(b);
    free(again);
  }
}

static void test_alignment(void) {
  OffsetBuffer b[60];
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < 60; i++) {
      int64_t lower = draw(40);
      b[i] = (OffsetBuffer){.id = i,
                            .lower = lower,
                            .upper = lower + draw(20),
                            .size = draw(5000),
                            .align = INT64_C(1) << draw(9)};
    }
    OffsetResult result;
    InputError error;
    CHECK(offsets_assign(b, 60, NULL, &result, &error), "%s", error.message);
    CHECK(offsets_verify(b, 60, result.arena_bytes, &error), "round %d: %s", round, error.message);
    CHECK((double)result.arena_bytes <= 1.1 * (double)result.lower_bound, "round %d: %lld of %lld", round,
          (long long)result.arena_bytes, (long long)result.lower_bound);
  }
}

// Two live at each time and need 8, but the middle one cannot lie beside both neighbours in the same 8.
static void test_impossible(void) {
  const CanonicalItem items[] = {{0, 2, 3, 1}, {0, 1, 5, 1}, {1, 3, 4, 1}, {2, 4, 4, 1}, {3, 5, 3, 1}, {4, 5, 5, 1}};
  CanonicalSearch *s = canonical_create(items, 6, 5, 8, 1);
  CHECK(canonical_run(s, 1000000, never, NULL) == CANONICAL_FOUND, "fits in 8");
  canonical_free(s);
  const CanonicalItem odd[] = {{0, 2, 3, 1}, {1, 3, 3, 1}, {2, 4, 3, 1}, {0, 1, 4, 1},
                               {3, 4, 4, 1}, {1, 2, 1, 1}, {2, 3, 1, 1}, {0, 4, 0 + 1, 1}};
  s = canonical_create(odd, 8, 4, 7, 1);
  CHECK(canonical_run(s, 1000000, never, NULL) == CANONICAL_IMPOSSIBLE, "8 are live at once");
  canonical_free(s);
}

// Buffers that are alike lie in their order, whatever sorts them.
static void test_alike(void) {
  OffsetBuffer b[9] = {0};
  OffsetResult result;
  InputError error;
  for (int i = 0; i < 9; i++) b[i] = (OffsetBuffer){.id = i, .lower = 0, .upper = 2, .size = 8};
  CHECK(offsets_assign(b, 9, NULL, &result, &error), "%s", error.message);
  for (int i = 0; i < 9; i++) CHECK(b[i].offset == INT64_C(8) * i, "buffer %d at %lld", i, (long long)b[i].offset);
}

// Of the first order only the lowest gap is taken, though the one above it is tighter.
static void test_first_fit(void) {
  OffsetBuffer b[] = {{.lower = 0, .upper = 1, .size = 10}, {.lower = 0, .upper = 1, .size = 9},
                      {.lower = 0, .upper = 2, .size = 8},  {.lower = 0, .upper = 1, .size = 7},
                      {.lower = 0, .upper = 2, .size = 6},  {.lower = 1, .upper = 2, .size = 5}};
  OffsetOptions first = {.max_work = -1};
  OffsetResult result;
  InputError error;
  CHECK(offsets_assign(b, 6, &first, &result, &error), "%s", error.message);
  CHECK(b[4].offset == 34 && b[5].offset == 0, "at %lld, %lld", (long long)b[4].offset, (long long)b[5].offset);
}

// What fits is never taken for impossible. Sizes are small: many items lie at one height, where their ranks decide,
// also in parts that have come apart and are ranked anew.
static void test_parts(void) {
  enum { LEAST = 10, MOST = 16, TIMES = 20, CAPACITY = 4, WORK = 100000000 };
  for (int round = 0; round < 5000; round++) {
    int n = LEAST + (int)draw(MOST - LEAST + 1);
    OffsetBuffer *b = plant(n, TIMES, CAPACITY, 1);
    CanonicalItem items[MOST];
    for (int i = 0; i < n; i++) items[i] = (CanonicalItem){(int)b[i].lower, (int)b[i].upper, b[i].size, 1};
    CanonicalSearch *s = canonical_create(items, n, TIMES, CAPACITY, (uint64_t)round);
    CHECK(canonical_run(s, WORK, never, NULL) == CANONICAL_FOUND, "round %d: %d items", round, n);
    canonical_free(s);
    free(b);
  }
}

static bool always(const void *context) {
  (void)context;
  return true;
}

// A search that is told to stop does so, also within a part that has come apart.
static void test_stop(void) {
  enum { N = 90, CAPACITY = 65536, LITTLE = 1000000 };
  int stopped = 0;
  for (int round = 0; round < 100; round++) {
    OffsetBuffer *b = plant(N, N / 2, CAPACITY, 1);
    CanonicalItem items[N];
    for (int i = 0; i < N; i++) items[i] = (CanonicalItem){(int)b[i].lower, (int)b[i].upper, b[i].size, 1};
    CanonicalSearch *s = canonical_create(items, N, N / 2, CAPACITY, (uint64_t)round);
    stopped += canonical_run(s, 1000 * (int64_t)LITTLE, always, NULL) == CANONICAL_UNKNOWN;
    CHECK(canonical_work(s) < LITTLE, "round %d: %lld", round, (long long)canonical_work(s));
    canonical_free(s);
    free(b);
  }
  CHECK(stopped > 10, "%d searches had something to stop", stopped);
}

int main(void) {
  test_tiny();
  test_complete();
  test_many_items();
  test_planted();
  test_alignment();
  test_impossible();
  test_alike();
  test_first_fit();
  test_parts();
  test_stop();
  return check_report();
}
