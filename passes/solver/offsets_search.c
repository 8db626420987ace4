// offsets_search.c: depth-first search over canonical placements (Moffitt, "MiniMalloc", ASPLOS 2023): in every
// solution the buffers can be pushed down until each rests on the floor or on another, so placing them in order of
// offset, each at the lowest place that what is placed already leaves it, meets a solution if there is one. Four things
// prune:
//   - order: a buffer may only be placed at or above the one before it, and at the same height only in order of rank;
//   - dominance: not above a place where another buffer fits completely, since that or one in its way comes first;
//   - sections: at each time, the lowest place of a waiting buffer plus the bytes of all waiting ones must fit;
//   - decomposition: waiting buffers that no longer share a time are independent problems.
// What could have come before the last buffer and did not must rest on one still to come, which lifts it in the
// sections. A bad decision near the root costs more than a lifetime, so the search starts again after a number of nodes
// (Luby, Sinclair & Zuckerman 1993) with another ranking, in which buffers from sections that failed come earlier.
// Parts that have come apart start again each by itself: else all would have to succeed at once.
#include "offsets_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/alloc.h"
#include "support/integers.h"

struct CanonicalSearch {
  const CanonicalItem *items;   // Borrowed
  int n;
  int64_t capacity;
  int64_t *lowest;         // Owned; lowest place of each waiting item above what is placed
  int64_t *waiting;        // Owned; per time, bytes of the waiting items
  uint64_t *open;          // Owned; a bit per time: no waiting item has been met there yet
  int *rank;               // Owned; a permutation
  double *failures;        // Owned; per item, how often a section with it failed
  int64_t *offset;         // Owned
  int *by_start;           // Owned; items by lower
  int *by_low;             // Owned; items by lowest place
  int *moved;              // Owned; scratch: items
  int *part, *filled;      // Owned; scratch of split: per item its part, per part its items so far
  struct Ranked *ranked;   // Owned
  uint64_t random;
  int restarts;
  int64_t nodes_left;   // of the run
  int64_t run_nodes;    // given to the run
  int64_t unit;         // of runs
  int64_t work, work_limit;
  bool aborted;
  bool (*stop)(const void *context);
  const void *context;
};

typedef struct Ranked {
  double key;
  int item;
} Ranked;

typedef struct Candidate {
  int64_t offset;
  int rank, item;
} Candidate;

static int compare_ranked(const void *left, const void *right) {
  const Ranked *a = left, *b = right;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  return a->item - b->item;
}

// Exchanges the first of the `n` candidates with the lowest, of those the one that ranks first. Mostly the first that
// is tried is taken: the others need no order.
static void bring_first(Candidate *candidates, int n) {
  Candidate *first = candidates;
  for (Candidate *c = candidates; c < candidates + n; c++)
    if (c->offset < first->offset || (c->offset == first->offset && c->rank < first->rank)) first = c;
  Candidate found = *first;
  *first = *candidates;
  *candidates = found;
}

CanonicalSearch *canonical_create(const CanonicalItem *items, int n, int n_times, int64_t capacity, uint64_t seed) {
  CanonicalSearch *s = allocate_array(1, sizeof *s);
  size_t count = (size_t)n;
  *s = (CanonicalSearch){.items = items, .n = n, .capacity = capacity, .random = seed};
  s->lowest = allocate_array(count, sizeof *s->lowest);
  s->waiting = allocate_array((size_t)n_times + 1, sizeof *s->waiting);
  s->open = allocate_array((size_t)n_times / 64 + 1, sizeof *s->open);
  s->rank = allocate_array(count, sizeof *s->rank);
  s->failures = allocate_array(count, sizeof *s->failures);
  s->offset = allocate_array(count, sizeof *s->offset);
  s->by_start = allocate_array(count, sizeof *s->by_start);
  s->by_low = allocate_array(count, sizeof *s->by_low);
  s->moved = allocate_array(count, sizeof *s->moved);
  s->part = allocate_array(count, sizeof *s->part);
  s->filled = allocate_array(count, sizeof *s->filled);
  s->ranked = allocate_array(count, sizeof *s->ranked);
  for (int i = 0; i < n; i++) {
    for (int t = items[i].lower; t < items[i].upper; t++) s->waiting[t] += items[i].size;
    s->ranked[i] = (Ranked){items[i].lower, i};
  }
  qsort(s->ranked, count, sizeof *s->ranked, compare_ranked);
  for (int i = 0; i < n; i++) s->by_start[i] = s->ranked[i].item;
  return s;
}

void canonical_free(CanonicalSearch *s) {
  if (!s) return;
  void *owned[] = {s->lowest, s->waiting, s->open, s->rank,   s->failures, s->offset, s->by_start,
                   s->by_low, s->moved,   s->part, s->filled, s->ranked,   s};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
}

const int64_t *canonical_offsets(const CanonicalSearch *s) { return s->offset; }
int64_t canonical_work(const CanonicalSearch *s) { return s->work; }

// Whether an item may come next: what could have been placed before the last one must rest on something still to come.
static bool may_be_next(const CanonicalSearch *s, int item, int64_t floor, int last_rank) {
  int64_t low = s->lowest[item];
  return low > floor || (low == floor && s->rank[item] >= last_rank);
}

// The lowest height at which one of the `n` items that may come next would end, INT64_MAX: none may.
static int64_t find_lowest_end(const CanonicalSearch *s, const int *by_low, int n, int64_t floor, int last_rank) {
  int64_t lowest_end = INT64_MAX;
  for (int k = 0; k < n && s->lowest[by_low[k]] < lowest_end; k++) {
    int64_t top = s->lowest[by_low[k]] + s->items[by_low[k]].size;
    if (top < lowest_end && may_be_next(s, by_low[k], floor, last_rank)) lowest_end = top;
  }
  return lowest_end;
}

// The times of the item that no lower one has met: what waits there must fit above `low`. Returns their number, and
// into *failed the first where it does not, if it is before *failed.
static int meet_item(CanonicalSearch *s, const CanonicalItem *item, int64_t low, int *failed) {
  int met = 0;
  for (int w = item->lower / 64; w <= (item->upper - 1) / 64; w++) {
    uint64_t bits = s->open[w];
    if (w == item->lower / 64) bits &= ~UINT64_C(0) << item->lower % 64;
    if (w == (item->upper - 1) / 64) bits &= ~UINT64_C(0) >> (63 - (item->upper - 1) % 64);
    s->open[w] ^= bits;
    for (; bits; bits &= bits - 1, met++) {
      int t = w * 64 + __builtin_ctzll(bits);
      if (low > s->capacity - s->waiting[t] && t < *failed) *failed = t;
    }
  }
  return met;
}

// The section bound for the `n` waiting items, which leave no time of [begin, end) free. What may not be next will rest
// on another waiting item, so it is at `lowest_end` or above. Charges the items of a section that fails.
static bool sections_fit(CanonicalSearch *s, const int *by_low, int n, int64_t floor, int last_rank, int begin, int end,
                         int64_t lowest_end) {
  int open = end - begin, failed = end, first = 0, k = 0;
  for (int w = begin / 64; w <= (end - 1) / 64; w++) s->open[w] = ~UINT64_C(0);
  for (; k < n && s->lowest[by_low[k]] < lowest_end; k++)
    if (may_be_next(s, by_low[k], floor, last_rank))
      open -= meet_item(s, &s->items[by_low[k]], s->lowest[by_low[k]], &failed);
  for (; first < k && open > 0; first++)
    if (!may_be_next(s, by_low[first], floor, last_rank))
      open -= meet_item(s, &s->items[by_low[first]], lowest_end, &failed);
  for (; k < n && open > 0; k++) open -= meet_item(s, &s->items[by_low[k]], s->lowest[by_low[k]], &failed);
  s->work += 2 * (k + first) + (end - begin);
  if (failed == end) return true;
  for (k = 0; k < n; k++) {
    const CanonicalItem *item = &s->items[by_low[k]];
    if (item->lower <= failed && failed < item->upper) s->failures[by_low[k]] += 1.0 / n;
  }
  return false;
}

// Waiting items in two orders: by start, and by lowest place.
typedef struct Waiting {
  int *by_start, *by_low;
} Waiting;

// An item that was raised, and where it was.
typedef struct Raised {
  int64_t lowest;
  int item;
} Raised;

// Places `item` at its lowest place and raises what waits above it. `rest` gets the others, `raised` what moved and
// *n_raised their number. False when one of them no longer fits.
static bool place(CanonicalSearch *s, int item, Waiting from, int n, Waiting rest, Raised *raised, int *n_raised) {
  const CanonicalItem *placed = &s->items[item];
  int64_t top = s->lowest[item] + placed->size;
  bool fits = true;
  int at = 0;
  while (from.by_start[at] != item) at++;
  memcpy(rest.by_start, from.by_start, (size_t)at * sizeof(int));
  memcpy(rest.by_start + at, from.by_start + at + 1, (size_t)(n - 1 - at) * sizeof(int));
  // Those below `top` that move end up at `top` or, for the sake of their alignment, little above.
  int kept = 0, moved = 0, k = 0;
  for (; k < n && s->lowest[from.by_low[k]] < top; k++) {
    int other = from.by_low[k];
    const CanonicalItem *o = &s->items[other];
    if (other == item) continue;
    if (o->lower >= placed->upper || placed->lower >= o->upper) {
      rest.by_low[kept++] = other;
      continue;
    }
    raised[moved] = (Raised){s->lowest[other], other};
    s->lowest[other] = aligned(top, o->align);
    fits = fits && s->lowest[other] <= s->capacity - o->size;
    s->moved[moved++] = other;
  }
  *n_raised = moved;
  memcpy(rest.by_low + kept, s->moved, (size_t)moved * sizeof(int));
  memcpy(rest.by_low + kept + moved, from.by_low + k, (size_t)(n - k) * sizeof(int));
  for (int m = kept + 1; m < n - 1; m++) {
    int other = rest.by_low[m], to = m;
    for (; to > kept && s->lowest[rest.by_low[to - 1]] > s->lowest[other]; to--) rest.by_low[to] = rest.by_low[to - 1];
    rest.by_low[to] = other;
    if (to == m && m >= kept + moved) break;
  }
  for (int t = placed->lower; t < placed->upper; t++) s->waiting[t] -= placed->size;
  s->work += 4 * n;
  return fits;
}

static void take_back(CanonicalSearch *s, int item, const Raised *raised, int n) {
  for (int k = 0; k < n; k++) s->lowest[raised[k].item] = raised[k].lowest;
  for (int t = s->items[item].lower; t < s->items[item].upper; t++) s->waiting[t] += s->items[item].size;
}

static bool is_spent(CanonicalSearch *s) {
  if (--s->nodes_left < 0 || s->work > s->work_limit) s->aborted = true;
  else if ((s->nodes_left & 255) == 0 && s->stop(s->context)) s->aborted = true, s->work_limit = 0;
  return s->aborted;
}

static bool solve(CanonicalSearch *s, Waiting from, int n, int64_t floor, int last_rank);

// Branches on what comes next among the `n` waiting items, which are connected.
static bool branch(CanonicalSearch *s, Waiting from, int n, int64_t floor, int last_rank, int end) {
  if (is_spent(s)) return false;
  int64_t lowest_end = find_lowest_end(s, from.by_low, n, floor, last_rank);
  int begin = s->items[from.by_start[0]].lower;
  if (lowest_end == INT64_MAX || !sections_fit(s, from.by_low, n, floor, last_rank, begin, end, lowest_end))
    return false;
  size_t count = (size_t)n;
  Raised *raised = reallocate_array(NULL, count, sizeof *raised + sizeof(Candidate) + 2 * sizeof(int));
  Candidate *candidates = (Candidate *)(raised + count);
  Waiting rest = {(int *)(candidates + count), (int *)(candidates + count) + count};
  int n_candidates = 0, n_raised;
  for (int k = 0; k < n && s->lowest[from.by_low[k]] < lowest_end; k++) {
    int i = from.by_low[k];
    if (may_be_next(s, i, floor, last_rank)) candidates[n_candidates++] = (Candidate){s->lowest[i], s->rank[i], i};
  }
  bool found = false;
  for (int c = 0; c < n_candidates && !found && !s->aborted; c++) {
    bring_first(candidates + c, n_candidates - c);
    int i = candidates[c].item;
    s->offset[i] = candidates[c].offset;
    if (place(s, i, from, n, rest, raised, &n_raised))
      found = solve(s, rest, n - 1, candidates[c].offset, candidates[c].rank);
    else s->failures[i] += 0.1 / n;
    take_back(s, i, raised, n_raised);
  }
  free(raised);
  return found;
}

// 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 …, from 1.
static int64_t luby(int64_t i) {
  for (;;) {
    int64_t power = 1;
    while (2 * power - 1 < i) power *= 2;
    if (2 * power - 1 == i) return power;
    i -= power - 1;
  }
}

// A new ranking of some items: half of the time the longest first, which soon leaves independent parts; else by size,
// or both in a random proportion; with random noise, those that failed often earlier.
static void rank_items(CanonicalSearch *s, const int *items, int n) {
  uint64_t r = splitmix64(&s->random);
  double trust = 0.5 * (double)(r % 3), time_power = 0.5 + 0.25 * (double)(r >> 8 & 3),
         size_power = 0.5 + 0.25 * (double)(r >> 16 & 3);
  int kind = (int)(r >> 24 & 7);
  static const double noises[] = {0, 0.1, 0.3, 1};
  double noise = noises[r >> 32 & 3];
  for (int k = 0; k < n; k++) {
    const CanonicalItem *item = &s->items[items[k]];
    double time = item->upper - item->lower, size = (double)item->size;
    double key = kind <= 3   ? time * 1e6 + size
                 : kind == 4 ? size * 1e3 + time
                             : pow(time, time_power) * pow(size, size_power);
    double chance = (double)(splitmix64(&s->random) >> 11) * 0x1p-53;
    s->ranked[k] = (Ranked){-key * (1 + trust * s->failures[items[k]]) * (1 + noise * chance), items[k]};
  }
  qsort(s->ranked, (size_t)n, sizeof *s->ranked, compare_ranked);
  for (int k = 0; k < n; k++) s->rank[s->ranked[k].item] = k;
  s->work += 100 * (int64_t)n;
}

// Nodes of a run are a unit times a number of Luby's; a part of it may take PART_RUNS such runs times that number.
// Which unit is better differs between instances, so every fourth is long, and with many items, whose first placement
// alone takes a node for each, all of them.
enum { SHORT_RUN = 200, LONG_RUN = 1500, PART_RUNS = 4, PART_ITEMS = 5, MANY_ITEMS = 500 };

// Solves a part by itself, in runs with rankings of their own, `allowance` nodes together.
static bool solve_part(CanonicalSearch *s, Waiting part, int n, int64_t floor, int end, int64_t allowance) {
  int64_t outer_left = s->nodes_left, outer_run = s->run_nodes, used = 0;
  int *ranks = allocate_array((size_t)n, sizeof *ranks);   // the decisions before go by them
  for (int k = 0; k < n; k++) ranks[k] = s->rank[part.by_start[k]];
  bool found = false;
  for (int64_t run = 1; !found && used < allowance; run++) {
    s->run_nodes = s->unit * luby(run);
    int64_t given = s->run_nodes < allowance - used ? s->run_nodes : allowance - used;
    s->nodes_left = given;
    s->aborted = false;
    rank_items(s, part.by_start, n);
    found = branch(s, part, n, floor, -1, end);
    used += given - s->nodes_left;
    if (!s->aborted || s->work > s->work_limit) break;
  }
  for (int k = 0; k < n; k++) s->rank[part.by_start[k]] = ranks[k];
  free(ranks);
  s->nodes_left = outer_left - used / PART_RUNS;
  s->run_nodes = outer_run;
  return found;
}

// How many of the `n` items, sorted by start, come before a time that no lifetime crosses. *end: that time.
static int count_connected(const CanonicalSearch *s, const int *by_start, int n, int *end) {
  int k = 0;
  for (*end = s->items[by_start[0]].upper; k < n && s->items[by_start[k]].lower < *end; k++)
    if (s->items[by_start[k]].upper > *end) *end = s->items[by_start[k]].upper;
  return k;
}

// Puts the items of each connected part into by_low where they are in by_start; within it they keep their order.
static void split(CanonicalSearch *s, Waiting all, int n) {
  for (int first = 0, n_part, end; first < n; first += n_part) {
    n_part = count_connected(s, all.by_start + first, n - first, &end);
    s->filled[first] = first;
    for (int k = first; k < first + n_part; k++) s->part[all.by_start[k]] = first;
  }
  memcpy(s->moved, all.by_low, (size_t)n * sizeof(int));
  for (int k = 0; k < n; k++) all.by_low[s->filled[s->part[s->moved[k]]]++] = s->moved[k];
  s->work += 4 * n;
}

// Splits the waiting items where no lifetime crosses, and solves the parts one after the other.
static bool solve(CanonicalSearch *s, Waiting all, int n, int64_t floor, int last_rank) {
  for (int first = 0, n_part, end; first < n; first += n_part) {
    n_part = count_connected(s, all.by_start + first, n - first, &end);
    if (n_part == n) return branch(s, all, n, floor, last_rank, end);
    if (first == 0) split(s, all, n);
    Waiting part = {all.by_start + first, all.by_low + first};
    int64_t allowance = PART_RUNS * s->run_nodes * (s->run_nodes / s->unit);
    if (!(n_part < PART_ITEMS ? branch(s, part, n_part, floor, last_rank, end)
                              : solve_part(s, part, n_part, floor, end, allowance)))
      return false;
  }
  return true;
}

static void start_run(CanonicalSearch *s) {
  int run = ++s->restarts, long_runs = run / 4;
  bool many = s->n > MANY_ITEMS, is_long = many || run % 4 == 0;
  s->unit = is_long ? LONG_RUN : SHORT_RUN;
  s->run_nodes = s->nodes_left = s->unit * luby(many ? run : is_long ? long_runs : run - long_runs);
  s->aborted = false;
  for (int i = 0; i < s->n; i++) s->lowest[i] = 0, s->by_low[i] = s->by_start[i];
  rank_items(s, s->by_start, s->n);
}

CanonicalAnswer canonical_run(CanonicalSearch *s, int64_t work, bool (*stop)(const void *context),
                              const void *context) {
  s->work_limit = s->work + work;
  s->stop = stop;
  s->context = context;
  while (s->work <= s->work_limit) {
    start_run(s);
    if (solve(s, (Waiting){s->by_start, s->by_low}, s->n, 0, -1)) return CANONICAL_FOUND;
    if (!s->aborted) return CANONICAL_IMPOSSIBLE;
  }
  return CANONICAL_UNKNOWN;
}
