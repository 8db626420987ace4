// offsets.c: greedy placement by an order, several orders, then a search over orders. A buffer goes into a gap between
// the buffers placed before it that live at the same time. Those are found in one of two ways, whichever is cheaper for
// the instance: a walk over all placed buffers, kept sorted by offset, or a list of the buffers alive together, sorted
// when needed. A changed order is placed again only from its first change.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "offsets_search.h"
#include "solver.h"
#include "support/alloc.h"
#include "support/clock.h"
#include "support/input_error.h"
#include "support/integers.h"

// A placed buffer, or one in the way.
typedef struct Span {
  int64_t offset, end;
  int buffer;
} Span;

typedef struct Allocator {
  const OffsetBuffer *buffers;   // Borrowed
  int n;
  int64_t *padded;            // Owned; sizes rounded up to the alignment
  int *lower, *upper;         // Owned; lifetimes, in ranks among the distinct times
  bool walks;                 // walk over `placed` rather than list neighbours
  int64_t *neighbour_start;   // Owned, n + 1, or NULL when there are too many pairs to list
  int *neighbours;            // Owned
  int64_t *offset;            // Owned; offset of each buffer in the placement being made, -1 when not yet placed
  int *rank;                  // Owned; place of each buffer in the order last placed
  int64_t *arena_after;       // Owned; arena after placing order[0 .. i]
  int n_ordered;              // order[0 .. n_ordered) are placed
  Span *placed;               // Owned; placed buffers that are not empty; sorted by offset when walking
  int *placed_lower, *placed_upper;   // Owned; their lifetimes
  int n_placed;
  Span *spans;            // Owned; neighbours of the buffer being placed
  int64_t *best_offset;   // Owned
  int *best_order;        // Owned
  int64_t best_arena;
  bool best_fit;   // of the best placement
  int64_t lower_bound;
  int64_t goal;               // stop at this arena size
  int64_t work, max_work;     // about nanoseconds
  int64_t pause_work;         // the search over orders goes no further for now
  double start, time_limit;   // by the clock, seconds; no limit: INFINITY
} Allocator;

static bool is_out_of_time(const void *context) {
  const Allocator *allocator = context;
  return !isinf(allocator->time_limit) && seconds_now() - allocator->start > allocator->time_limit;
}

static bool is_empty(const OffsetBuffer *buffer) { return buffer->size == 0 || buffer->lower == buffer->upper; }

static bool check_buffers(const OffsetBuffer *buffers, int n, InputError *error) {
  int64_t total = 0;
  for (int i = 0; i < n; i++) {
    const OffsetBuffer *b = &buffers[i];
    long long id = (long long)b->id;
    if (b->upper < b->lower) return input_fail(error, "buffer %lld: upper is before lower", id);
    if (b->size < 0) return input_fail(error, "buffer %lld: negative size", id);
    if (b->align < 0 || (b->align & (b->align - 1)) || b->align > (INT64_C(1) << 40))
      return input_fail(error, "buffer %lld: alignment must be a power of two", id);
    if (b->size > INT64_MAX / 4 - b->align - total) return input_fail(error, "the sum of all sizes is too large");
    total += aligned(b->size, b->align);
  }
  return true;
}

typedef struct Event {
  int64_t time;
  int buffer;
  bool begins;
} Event;

// Ends before beginnings at the same time, since lifetimes are half open.
static int compare_events(const void *left, const void *right) {
  const Event *a = left, *b = right;
  if (a->time != b->time) return a->time < b->time ? -1 : 1;
  if (a->begins != b->begins) return a->begins ? 1 : -1;
  return a->buffer - b->buffer;
}

static Event *create_events(const OffsetBuffer *buffers, int n, int *n_events) {
  Event *events = allocate_array(2 * (size_t)n, sizeof *events);
  int count = 0;
  for (int i = 0; i < n; i++)
    if (!is_empty(&buffers[i])) {
      events[count++] = (Event){buffers[i].lower, i, true};
      events[count++] = (Event){buffers[i].upper, i, false};
    }
  qsort(events, (size_t)count, sizeof *events, compare_events);
  *n_events = count;
  return events;
}

// Fills lower and upper with ranks of the distinct times, so that comparing lifetimes is comparing small integers.
static void rank_times(Allocator *allocator, const Event *events, int n_events) {
  int rank = 0;
  for (int e = 0; e < n_events; e++) {
    if (e > 0 && events[e].time != events[e - 1].time) rank++;
    if (events[e].begins) allocator->lower[events[e].buffer] = rank;
    else allocator->upper[events[e].buffer] = rank;
  }
}

// The number of pairs that live at the same time, and into counts[b + 1] in how many of them b is: those that begin
// before b ends, but for those that end before b begins, and itself.
static int64_t count_pairs(const Event *events, int n_events, int64_t *counts) {
  int64_t begun = 0, ended = 0, pairs = 0;
  for (int e = 0; e < n_events; e++) {
    int64_t *count = &counts[events[e].buffer + 1];
    if (events[e].begins) {
      *count = -ended - 1;
      pairs += begun++ - ended;
    } else {
      *count += begun;
      ended++;
    }
  }
  return pairs;
}

// Lists the pairs that live at the same time, those of b from fill[b] on.
static void list_pairs(Allocator *allocator, const Event *events, int n_events, int64_t *fill) {
  int n_live = 0;
  int *live = allocator->rank, *place = allocate_array((size_t)allocator->n, sizeof *place);
  for (int e = 0; e < n_events; e++) {
    int b = events[e].buffer;
    if (!events[e].begins) {
      int last = live[--n_live];
      live[place[b]] = last;
      place[last] = place[b];
      continue;
    }
    for (int i = 0; i < n_live; i++) {
      allocator->neighbours[fill[b]++] = live[i];
      allocator->neighbours[fill[live[i]]++] = b;
    }
    place[b] = n_live;
    live[n_live++] = b;
  }
  free(place);
}

// Decides between walking and listing, and lists.
static void list_neighbours(Allocator *allocator, const Event *events, int n_events) {
  enum { PAIR_LIMIT = 20000000 };
  int64_t n = allocator->n;
  allocator->neighbour_start = allocate_array((size_t)n + 1, sizeof(int64_t));
  int64_t pairs = count_pairs(events, n_events, allocator->neighbour_start);
  // Sorting a neighbour takes about 16 times as long as stepping over a placed buffer.
  allocator->walks = pairs > PAIR_LIMIT || pairs * 16 > n * n / 2;
  if (allocator->walks) {
    free(allocator->neighbour_start);
    allocator->neighbour_start = NULL;
    return;
  }
  for (int64_t i = 0; i < n; i++) allocator->neighbour_start[i + 1] += allocator->neighbour_start[i];
  allocator->neighbours = allocate_array((size_t)pairs * 2, sizeof(int));
  int64_t *fill = allocate_array((size_t)n + 1, sizeof *fill);
  memcpy(fill, allocator->neighbour_start, (size_t)n * sizeof *fill);
  list_pairs(allocator, events, n_events, fill);
  free(fill);
}

static int64_t find_max_live(const Allocator *allocator, const Event *events, int n_events) {
  int64_t live = 0, most = 0;
  for (int e = 0; e < n_events; e++) {
    int64_t size = allocator->padded[events[e].buffer];
    live += events[e].begins ? size : -size;
    if (live > most) most = live;
  }
  return most;
}

// Shell sort by offset with Ciura's gaps: the lists are short, and a call per comparison would dominate.
static void sort_spans(Span *spans, int n) {
  static const int gaps[] = {4193, 1750, 701, 301, 132, 57, 23, 10, 4, 1};
  for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++)
    for (int gap = gaps[g], i = gap; i < n; i++) {
      Span span = spans[i];
      int j = i;
      for (; j >= gap && spans[j - gap].offset > span.offset; j -= gap) spans[j] = spans[j - gap];
      spans[j] = span;
    }
}

// The placed buffers that live together with `b`, sorted by offset, into spans. Returns their number.
static int gather_spans(Allocator *allocator, int b) {
  int count = 0;
  int64_t end = allocator->neighbour_start[b + 1];
  for (int64_t i = allocator->neighbour_start[b]; i < end; i++) {
    int other = allocator->neighbours[i];
    int64_t offset = allocator->offset[other];
    if (offset >= 0) allocator->spans[count++] = (Span){.offset = offset, .end = offset + allocator->padded[other]};
  }
  sort_spans(allocator->spans, count);
  allocator->work += end - allocator->neighbour_start[b] + 16 * count;
  return count;
}

// The search for a gap, from the lowest span on: the first that is large enough, or the tightest.
typedef struct Gap {
  int64_t size, align;
  bool best_fit;
  int64_t end;            // of all spans so far
  int64_t found, slack;   // -1: none
} Gap;

// Whether the next span ends the search.
static inline bool end_gap(Gap *gap, const Span *span) {
  if (span->offset - gap->end >= gap->size) {
    int64_t offset = aligned(gap->end, gap->align), room = span->offset - offset - gap->size;
    if (room >= 0 && room < gap->slack) {
      gap->found = offset;
      gap->slack = room;
      if (!gap->best_fit || room == 0) return true;
    }
  }
  if (span->end > gap->end) gap->end = span->end;
  return false;
}

// Over those of the `n` spans, sorted by offset, whose lifetimes overlap [lower, upper). Most do not: they are told in
// blocks, of which a compiler makes vector code.
static int walk_gaps(Gap *gap, const Allocator *allocator, int n, int lower, int upper) {
  enum { BLOCK = 64 };
  for (int first = 0; first < n; first += BLOCK) {
    const int *lowers = allocator->placed_lower + first, *uppers = allocator->placed_upper + first;
    unsigned char overlaps[BLOCK];
    for (int k = 0; k < BLOCK; k++) overlaps[k] = (lowers[k] < upper) & (lower < uppers[k]);
    for (int word = 0; word < BLOCK; word += 8) {
      uint64_t any;
      memcpy(&any, overlaps + word, sizeof any);
      for (int k = word; any && k < word + 8; k++)
        if (overlaps[k] && first + k < n && end_gap(gap, &allocator->placed[first + k])) return first + k;
    }
  }
  return n;
}

// The lowest gap that holds buffer `b`, or with `best_fit` the tightest, between the placed buffers that live at the
// same time; above all of them when there is none.
static int64_t find_gap(Allocator *allocator, int b, bool best_fit) {
  Gap gap = {.size = allocator->padded[b],
             .align = allocator->buffers[b].align,
             .best_fit = best_fit,
             .found = -1,
             .slack = INT64_MAX};
  int n, seen = 0;
  if (allocator->walks) {
    n = allocator->n_placed;
    seen = walk_gaps(&gap, allocator, n, allocator->lower[b], allocator->upper[b]);
  } else {
    n = gather_spans(allocator, b);
    while (seen < n && !end_gap(&gap, &allocator->spans[seen])) seen++;
  }
  allocator->work += seen;
  return gap.found >= 0 ? gap.found : aligned(gap.end, gap.align);
}

static void move_placed(Allocator *allocator, int to, int from, int n) {
  memmove(allocator->placed + to, allocator->placed + from, (size_t)n * sizeof *allocator->placed);
  memmove(allocator->placed_lower + to, allocator->placed_lower + from, (size_t)n * sizeof(int));
  memmove(allocator->placed_upper + to, allocator->placed_upper + from, (size_t)n * sizeof(int));
}

static void insert_placed(Allocator *allocator, int b, int64_t offset) {
  int low = allocator->n_placed;
  if (allocator->walks) {
    int high = low;
    for (low = 0; low < high;) {
      int middle = low + (high - low) / 2;
      if (allocator->placed[middle].offset < offset) low = middle + 1;
      else high = middle;
    }
    move_placed(allocator, low + 1, low, allocator->n_placed - low);
    allocator->work += (allocator->n_placed - low) / 2;
  }
  allocator->placed[low] = (Span){offset, offset + allocator->padded[b], b};
  allocator->placed_lower[low] = allocator->lower[b];
  allocator->placed_upper[low] = allocator->upper[b];
  allocator->n_placed++;
}

// Takes back the placement of order[kept ..].
static void unplace(Allocator *allocator, int kept) {
  int count = 0;
  for (int i = 0; i < allocator->n_placed; i++) {
    int b = allocator->placed[i].buffer;
    if (allocator->rank[b] < kept) move_placed(allocator, count++, i, 1);
    else allocator->offset[b] = -1;
  }
  allocator->work += allocator->n_placed;
  allocator->n_placed = count;
  allocator->n_ordered = kept;
}

// Places order[n_ordered ..]. Returns the arena, or a number above `give_up_above` as soon as it is passed.
static int64_t place_in_order(Allocator *allocator, const int *order, bool best_fit, int64_t give_up_above) {
  int i = allocator->n_ordered;
  int64_t arena = i > 0 ? allocator->arena_after[i - 1] : 0;
  for (; i < allocator->n && arena <= give_up_above; i++) {
    int b = order[i];
    allocator->rank[b] = i;
    if (is_empty(&allocator->buffers[b])) {
      allocator->offset[b] = 0;
    } else {
      int64_t offset = find_gap(allocator, b, best_fit);
      allocator->offset[b] = offset;
      insert_placed(allocator, b, offset);
      if (offset + allocator->padded[b] > arena) arena = offset + allocator->padded[b];
    }
    allocator->arena_after[i] = arena;
  }
  allocator->n_ordered = i;
  return arena;
}

static void take_if_better(Allocator *allocator, const int *order, int64_t arena, bool best_fit) {
  if (arena >= allocator->best_arena) return;
  allocator->best_arena = arena;
  allocator->best_fit = best_fit;
  memcpy(allocator->best_offset, allocator->offset, (size_t)allocator->n * sizeof(int64_t));
  memcpy(allocator->best_order, order, (size_t)allocator->n * sizeof(int));
}

static bool is_done(const Allocator *allocator) {
  return allocator->best_arena <= allocator->goal || allocator->work > allocator->max_work || is_out_of_time(allocator);
}

typedef struct Keyed {
  double first, second;
  int buffer;
} Keyed;

static int compare_keyed(const void *left, const void *right) {
  const Keyed *a = left, *b = right;
  if (a->first != b->first) return a->first < b->first ? -1 : 1;
  if (a->second != b->second) return a->second < b->second ? -1 : 1;
  return a->buffer - b->buffer;
}

typedef enum Order { BY_SIZE, BY_AREA, BY_LIFETIME, BY_START, BY_END, N_ORDERS } Order;

static void sort_order(const Allocator *allocator, Order kind, Keyed *keyed, int *order) {
  for (int i = 0; i < allocator->n; i++) {
    const OffsetBuffer *b = &allocator->buffers[i];
    double size = (double)b->size, lifetime = (double)b->upper - (double)b->lower;
    Keyed key = {.buffer = i};
    switch (kind) {
    case BY_AREA: key.first = -size * lifetime, key.second = -size; break;
    case BY_LIFETIME: key.first = -lifetime, key.second = -size; break;
    case BY_START: key.first = (double)b->lower, key.second = -size; break;
    case BY_END: key.first = -(double)b->upper, key.second = -size; break;
    case BY_SIZE:
    case N_ORDERS: key.first = -size, key.second = -lifetime; break;
    }
    keyed[i] = key;
  }
  qsort(keyed, (size_t)allocator->n, sizeof *keyed, compare_keyed);
  for (int i = 0; i < allocator->n; i++) order[i] = keyed[i].buffer;
}

static void try_orders(Allocator *allocator, int *order) {
  Keyed *keyed = allocate_array((size_t)allocator->n, sizeof *keyed);
  bool first = true;
  for (int best_fit = 0; best_fit < 2; best_fit++)
    for (Order kind = BY_SIZE; kind < N_ORDERS; kind++) {
      if (!first && is_done(allocator)) break;
      first = false;
      sort_order(allocator, kind, keyed, order);
      unplace(allocator, 0);
      int64_t arena = place_in_order(allocator, order, best_fit, allocator->best_arena - 1);
      take_if_better(allocator, order, arena, best_fit);
    }
  free(keyed);
}

// Moves order[from] to the earlier place `to` and takes back what was placed from there on.
static void move_forward(Allocator *allocator, int *order, int from, int to) {
  int b = order[from];
  if (to < allocator->n_ordered) unplace(allocator, to);
  memmove(order + to + 1, order + to, (size_t)(from - to) * sizeof *order);
  order[to] = b;
}

// An earlier place in the order for order[culprit]: that of a buffer alive at the same time, since swapping with others
// changes nothing.
static int choose_place(const Allocator *allocator, const int *order, int culprit, uint64_t *random) {
  int b = order[culprit], to = culprit;
  for (int tries = 0; tries < 32; tries++) {
    to = (int)(splitmix64(random) % (uint64_t)culprit);
    int other = order[to];
    if (allocator->lower[other] < allocator->upper[b] && allocator->lower[b] < allocator->upper[other]) break;
  }
  return to;
}

static void restart_from_best(Allocator *allocator, int *order, uint64_t *random) {
  unplace(allocator, 0);
  memcpy(order, allocator->best_order, (size_t)allocator->n * sizeof *order);
  int kicks = 1 + (int)(splitmix64(random) % 4);
  for (int k = 0; k < kicks; k++) {
    int from = (int)(splitmix64(random) % (uint64_t)allocator->n);
    if (from > 0) move_forward(allocator, order, from, choose_place(allocator, order, from, random));
  }
}

// Iterated priority bump: the first buffer that does not fit below the target goes to an earlier place in the order,
// and the rest is placed again. Without success for a while, back to the best order with a few random moves.
static void search_orders(Allocator *allocator, int *order, uint64_t seed) {
  enum { PATIENCE = 100 };
  uint64_t random = seed;
  int since_success = 0, n = allocator->n;
  bool best_fit = allocator->best_fit;
  unplace(allocator, 0);
  memcpy(order, allocator->best_order, (size_t)n * sizeof *order);
  while (!is_done(allocator) && allocator->work < allocator->pause_work) {
    int64_t target = allocator->best_arena - 1;
    // Now and then aim well below, since a record lowered byte by byte takes long.
    if (since_success % 4 == 1) target = allocator->goal + (target - allocator->goal) / 2;
    int culprit = 0;
    while (culprit < allocator->n_ordered && allocator->arena_after[culprit] <= target) culprit++;
    allocator->work += culprit / 4;
    if (culprit == allocator->n_ordered) {
      int64_t arena = place_in_order(allocator, order, best_fit, target);
      if (arena <= target) {
        take_if_better(allocator, order, arena, best_fit);
        since_success = 0;
        continue;
      }
      culprit = allocator->n_ordered - 1;
    }
    allocator->work += 100;
    if (++since_success > PATIENCE || culprit == 0) {
      since_success = 0;
      best_fit = splitmix64(&random) % 4 == 0 ? !allocator->best_fit : allocator->best_fit;
      restart_from_best(allocator, order, &random);
      continue;
    }
    move_forward(allocator, order, culprit, choose_place(allocator, order, culprit, &random));
  }
}

// The buffers that occupy anything, for the search over canonical placements. Owned by the caller.
static CanonicalItem *list_items(const Allocator *allocator, int *n_items, int *buffer_of) {
  CanonicalItem *items = allocate_array((size_t)allocator->n, sizeof *items);
  *n_items = 0;
  for (int i = 0; i < allocator->n; i++) {
    if (is_empty(&allocator->buffers[i])) continue;
    buffer_of[*n_items] = i;
    items[(*n_items)++] = (CanonicalItem){allocator->lower[i], allocator->upper[i], allocator->padded[i],
                                          allocator->buffers[i].align};
  }
  return items;
}

static void take_items(Allocator *allocator, const int64_t *offsets, const int *buffer_of, int n_items) {
  int64_t arena = 0;
  for (int i = 0; i < allocator->n; i++) allocator->best_offset[i] = 0;
  for (int k = 0; k < n_items; k++) {
    int b = buffer_of[k];
    allocator->best_offset[b] = offsets[k];
    if (offsets[k] + allocator->padded[b] > arena) arena = offsets[k] + allocator->padded[b];
  }
  allocator->best_arena = arena;
}

// The two searches in turns, in growing shares: the one over orders approaches a goal step by step and is at home with
// many buffers, the one over canonical placements finds tight packings of a few hundred.
static void search_in_turns(Allocator *allocator, int *order, uint64_t seed) {
  enum { CANONICAL_LIMIT = 5000 };
  int *buffer_of = allocate_array((size_t)allocator->n, sizeof *buffer_of), n_items;
  CanonicalItem *items = list_items(allocator, &n_items, buffer_of);
  bool canonical = n_items > 1 && n_items <= CANONICAL_LIMIT;
  CanonicalSearch *search = canonical ? canonical_create(items, n_items, 2 * n_items, allocator->goal, seed) : NULL;
  for (int64_t share = 10000000, turn = 0; !is_done(allocator); turn++, share += share / 2) {
    allocator->pause_work = search && allocator->work < allocator->max_work - share ? allocator->work + share
                                                                                    : allocator->max_work;
    search_orders(allocator, order, seed + (uint64_t)turn);
    if (!search || is_done(allocator)) continue;
    int64_t before = canonical_work(search), left = allocator->max_work - allocator->work;
    CanonicalAnswer answer = canonical_run(search, 20 * share < left ? 20 * share : left, is_out_of_time, allocator);
    allocator->work += canonical_work(search) - before;
    if (answer == CANONICAL_FOUND) {
      take_items(allocator, canonical_offsets(search), buffer_of, n_items);
      break;
    }
    if (answer == CANONICAL_IMPOSSIBLE) {
      canonical_free(search);
      search = NULL;
    }
  }
  canonical_free(search);
  free(items);
  free(buffer_of);
}

static void allocator_free(Allocator *allocator) {
  void *owned[] = {allocator->padded,       allocator->lower,       allocator->upper,       allocator->neighbour_start,
                   allocator->neighbours,   allocator->offset,      allocator->rank,        allocator->arena_after,
                   allocator->placed,       allocator->spans,       allocator->best_offset, allocator->best_order,
                   allocator->placed_lower, allocator->placed_upper};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
}

static Allocator allocator_create(const OffsetBuffer *buffers, int n, const OffsetOptions *options) {
  size_t count = (size_t)n;
  Allocator allocator = {.buffers = buffers, .n = n, .best_arena = INT64_MAX};
  allocator.start = seconds_now();
  allocator.time_limit = options && options->time_limit > 0 ? options->time_limit : INFINITY;
  allocator.max_work = options ? options->max_work : 0;
  if (allocator.max_work == 0) allocator.max_work = 140000000;
  allocator.padded = allocate_array(count, sizeof(int64_t));
  allocator.lower = allocate_array(count, sizeof(int));
  allocator.upper = allocate_array(count, sizeof(int));
  allocator.offset = allocate_array(count, sizeof(int64_t));
  allocator.rank = allocate_array(count, sizeof(int));
  allocator.arena_after = allocate_array(count, sizeof(int64_t));
  allocator.placed = allocate_array(count, sizeof(Span));
  allocator.placed_lower = allocate_array(count + 64, sizeof(int));   // whole blocks are read
  allocator.placed_upper = allocate_array(count + 64, sizeof(int));
  allocator.spans = allocate_array(count, sizeof(Span));
  allocator.best_offset = allocate_array(count, sizeof(int64_t));
  allocator.best_order = allocate_array(count, sizeof(int));
  for (int i = 0; i < n; i++) {
    allocator.padded[i] = aligned(buffers[i].size, buffers[i].align);
    allocator.offset[i] = -1;
  }
  int n_events;
  Event *events = create_events(buffers, n, &n_events);
  rank_times(&allocator, events, n_events);
  allocator.lower_bound = find_max_live(&allocator, events, n_events);
  list_neighbours(&allocator, events, n_events);
  free(events);
  allocator.goal = allocator.lower_bound;
  if (options && options->capacity > allocator.goal) allocator.goal = options->capacity;
  return allocator;
}

bool offsets_assign(OffsetBuffer *buffers, int n, const OffsetOptions *options, OffsetResult *result,
                    InputError *error) {
  if (!check_buffers(buffers, n, error)) return false;
  Allocator allocator = allocator_create(buffers, n, options);
  int *order = allocate_array((size_t)n, sizeof *order);
  try_orders(&allocator, order);
  if (n > 1 && !is_done(&allocator)) search_in_turns(&allocator, order, options ? options->seed : 0);
  for (int i = 0; i < n; i++) buffers[i].offset = allocator.best_offset[i];
  *result = (OffsetResult){.arena_bytes = n ? allocator.best_arena : 0,
                           .lower_bound = allocator.lower_bound,
                           .work = allocator.work,
                           .seconds = seconds_now() - allocator.start};
  free(order);
  allocator_free(&allocator);
  return true;
}
