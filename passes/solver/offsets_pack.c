// offsets_pack.c: packs buffers below a capacity by depth-first search, in the offset allocator. It fills the arena from
// the bottom: in a section of time where the lowest free place is lowest of all, either one of the buffers that can lie
// exactly there does, or none, and then all of them are lifted. That loses no canonical placement (each buffer on the
// bottom or on another one). A section in which what is still to come no longer fits above its floor ends the branch.
#include "offsets_pack.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct Lift {
  int buffer;
  int32_t floor;  // before
} Lift;

typedef struct Choice {
  double key;
  int buffer;
} Choice;

typedef struct Frame {
  int section;
  int32_t floor;
  int candidates, n_candidates, next;  // range in `candidates`, and the choice to try next; n_candidates: lift all
  int place;                           // of the chosen buffer in the list of unplaced ones; -1: none chosen
  int n_lifts;                         // of the trail, before the choice
} Frame;

typedef struct Packer {
  const PackProblem *problem;  // Borrowed
  int n, n_sections;
  int64_t unit;
  int32_t capacity;
  int *lower, *upper;          // Owned; in the sections kept
  int32_t *size, *align;       // Owned; in units
  int32_t *floor;              // Owned; per buffer: it cannot lie lower
  int32_t *limit;              // Owned; per section: capacity minus the sizes still to place
  int32_t *section_floor;      // Owned; per section: least floor of the buffers to place
  int32_t *count;              // Owned; per section: buffers that can lie on that floor
  double *weight;              // Owned; per section: 1 + failures seen there
  double *priority;            // Owned; per buffer: higher is tried earlier
  int *unplaced;               // Owned
  int n_unplaced;
  int *candidates;             // Owned, grows
  int n_candidates, candidates_capacity;
  Lift *lifts;                 // Owned, grows; the trail
  int n_lifts, lifts_capacity;
  Lift *lifted;                // Owned, n; scratch of lift_all
  Choice *choices;             // Owned, n; scratch of push_frame
  Frame *frames;               // Owned
  int n_frames, max_frames;
  double lowest_first, slack_weight;  // of the choice of a section
  double noise;
  int64_t node_work;
  int64_t work;
  uint64_t random;
  struct timespec start;
} Packer;

enum { SECTION_FAILED = -1, SECTION_NONE = -2, FLOOR_NONE = INT_MAX / 2 };

static double seconds_since(struct timespec start) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)(now.tv_sec - start.tv_sec) + 1e-9 * (double)(now.tv_nsec - start.tv_nsec);
}

static double next_random(uint64_t *state) {  // splitmix64, to [0, 1)
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static int64_t greatest_common_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

int64_t offsets_pack_unit(const PackProblem *problem) {
  int64_t unit = 0;
  for (int b = 0; b < problem->n; b++) {
    unit = greatest_common_divisor(unit, problem->size[b]);
    if (problem->align[b] > 1) unit = greatest_common_divisor(unit, problem->align[b]);
  }
  return unit > 0 ? unit : 1;
}

// Only sections of which no neighbour holds the same buffers and more: those where a buffer begins since the last one
// kept and one ends at once. Fills lower and upper in these sections and returns their number.
static int keep_sections(const PackProblem *problem, int *lower, int *upper) {
  int n = problem->n_sections, kept = 0;
  int *kept_before = solver_allocate((size_t)n + 1, sizeof *kept_before);
  bool *begins = solver_allocate((size_t)n + 1, sizeof *begins), *ends = solver_allocate((size_t)n + 1, sizeof *ends);
  for (int b = 0; b < problem->n; b++) begins[problem->lower[b]] = ends[problem->upper[b]] = true;
  bool begun = false;
  for (int s = 0; s < n; s++) {
    begun |= begins[s];
    kept_before[s] = kept;
    if (!begun || !ends[s + 1]) continue;
    kept++;
    begun = false;
  }
  kept_before[n] = kept;
  for (int b = 0; b < problem->n; b++) {
    lower[b] = kept_before[problem->lower[b]];
    upper[b] = kept_before[problem->upper[b]];
  }
  free(kept_before);
  free(begins);
  free(ends);
  return kept;
}

static void packer_free(Packer *packer) {
  void *owned[] = {packer->lower, packer->upper, packer->size, packer->align, packer->floor, packer->limit,
                   packer->section_floor, packer->count, packer->weight, packer->priority, packer->unplaced,
                   packer->candidates, packer->lifts, packer->lifted, packer->choices, packer->frames};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
}

static Packer packer_create(const PackProblem *problem, int64_t unit) {
  size_t n = (size_t)problem->n, n_sections = (size_t)problem->n_sections;
  Packer packer = {.problem = problem, .n = problem->n, .unit = unit};
  clock_gettime(CLOCK_MONOTONIC, &packer.start);
  packer.capacity = (int32_t)(problem->capacity / unit);
  packer.random = problem->seed;
  packer.lower = solver_allocate(n, sizeof(int));
  packer.upper = solver_allocate(n, sizeof(int));
  packer.size = solver_allocate(n, sizeof(int32_t));
  packer.align = solver_allocate(n, sizeof(int32_t));
  packer.floor = solver_allocate(n, sizeof(int32_t));
  packer.limit = solver_allocate(n_sections, sizeof(int32_t));
  packer.section_floor = solver_allocate(n_sections, sizeof(int32_t));
  packer.count = solver_allocate(n_sections, sizeof(int32_t));
  packer.weight = solver_allocate(n_sections, sizeof(double));
  packer.priority = solver_allocate(n, sizeof(double));
  packer.unplaced = solver_allocate(n, sizeof(int));
  packer.lifted = solver_allocate(n, sizeof(Lift));
  packer.choices = solver_allocate(n, sizeof(Choice));
  packer.max_frames = 4 * problem->n + 16;
  packer.frames = solver_allocate((size_t)packer.max_frames, sizeof(Frame));
  packer.n_sections = keep_sections(problem, packer.lower, packer.upper);
  packer.node_work = 100 + problem->n / 2 + packer.n_sections;
  for (int b = 0; b < problem->n; b++) {
    packer.size[b] = (int32_t)(problem->size[b] / unit);
    packer.align[b] = problem->align[b] > unit ? (int32_t)(problem->align[b] / unit) : 1;
    for (int s = packer.lower[b]; s < packer.upper[b]; s++) packer.limit[s] += packer.size[b];
  }
  for (int s = 0; s < packer.n_sections; s++) packer.weight[s] = 1;
  return packer;
}

static int32_t align_floor(int32_t floor, int32_t align) { return (floor + align - 1) & -align; }

static void push_lift(Packer *packer, int buffer, int32_t floor) {
  if (packer->n_lifts == packer->lifts_capacity) {
    packer->lifts_capacity = packer->lifts_capacity ? 2 * packer->lifts_capacity : 1024;
    packer->lifts = solver_reallocate(packer->lifts, (size_t)packer->lifts_capacity, sizeof *packer->lifts);
  }
  packer->lifts[packer->n_lifts++] = (Lift){buffer, packer->floor[buffer]};
  packer->floor[buffer] = floor;
}

static bool live_together(const Packer *packer, int a, int b) {
  return packer->lower[a] < packer->upper[b] && packer->lower[b] < packer->upper[a];
}

// Floors and counts of all sections, and the section to branch on: one with the lowest floor, there the one with
// fewest choices and least slack for the failures it has caused.
static int choose_section(Packer *packer) {
  int32_t *restrict floors = packer->section_floor, *restrict count = packer->count;
  int n_sections = packer->n_sections;
  int64_t steps = 0;
  for (int s = 0; s < n_sections; s++) floors[s] = FLOOR_NONE;
  for (int i = 0; i < packer->n_unplaced; i++) {
    int b = packer->unplaced[i], upper = packer->upper[b];
    int32_t floor = packer->floor[b];
    for (int s = packer->lower[b]; s < upper; s++) floors[s] = floors[s] < floor ? floors[s] : floor;
    steps += upper - packer->lower[b];
  }
  packer->work += packer->node_work + steps / 2;
  for (int s = 0; s < n_sections; s++) {
    count[s] = 0;
    if (floors[s] == FLOOR_NONE || floors[s] <= packer->limit[s]) continue;
    packer->weight[s] += 1;
    return SECTION_FAILED;
  }
  for (int i = 0; i < packer->n_unplaced; i++) {
    int b = packer->unplaced[i], upper = packer->upper[b];
    int32_t floor = packer->floor[b];
    for (int s = packer->lower[b]; s < upper; s++) count[s] += floor == floors[s];
  }
  int best = SECTION_NONE;
  double least = 0, scale = 1 / (double)packer->capacity;
  for (int s = 0; s < n_sections; s++) {
    if (floors[s] == FLOOR_NONE) continue;
    double slack = (double)(packer->limit[s] - floors[s]) * scale;
    double value = (count[s] + packer->slack_weight * slack) / packer->weight[s];
    value += packer->lowest_first * floors[s] * scale;
    if (best >= 0 && value >= least) continue;
    best = s;
    least = value;
  }
  return best;
}

static int compare_choices(const void *left, const void *right) {
  const Choice *a = left, *b = right;
  if (a->key != b->key) return a->key > b->key ? -1 : 1;
  return (a->buffer > b->buffer) - (a->buffer < b->buffer);
}

static bool is_twin(const Packer *packer, const Choice *chosen, int n, int b) {
  for (int i = 0; i < n; i++) {
    int a = chosen[i].buffer;
    if (packer->lower[a] == packer->lower[b] && packer->upper[a] == packer->upper[b] &&
        packer->size[a] == packer->size[b] && packer->align[a] == packer->align[b])
      return true;
  }
  return false;
}

// Opens a frame with the buffers that can lie on the floor of the section, the best first, equal ones once.
static void push_frame(Packer *packer, int section) {
  int n = 0;
  Choice *choices = packer->choices;
  for (int i = 0; i < packer->n_unplaced; i++) {
    int b = packer->unplaced[i];
    if (packer->floor[b] != packer->section_floor[section] || packer->lower[b] > section || packer->upper[b] <= section)
      continue;
    if (is_twin(packer, choices, n, b)) continue;
    choices[n++] = (Choice){packer->priority[b] + packer->noise * next_random(&packer->random), b};
  }
  qsort(choices, (size_t)n, sizeof *choices, compare_choices);
  if (packer->n_candidates + n > packer->candidates_capacity) {
    packer->candidates_capacity = 2 * (packer->n_candidates + n);
    packer->candidates =
        solver_reallocate(packer->candidates, (size_t)packer->candidates_capacity, sizeof *packer->candidates);
  }
  packer->frames[packer->n_frames++] = (Frame){.section = section,
                                               .floor = packer->section_floor[section],
                                               .candidates = packer->n_candidates,
                                               .n_candidates = n,
                                               .place = -1,
                                               .n_lifts = packer->n_lifts};
  for (int i = 0; i < n; i++) packer->candidates[packer->n_candidates++] = choices[i].buffer;
}

static void place(Packer *packer, Frame *frame, int b) {
  int32_t top = packer->floor[b] + packer->size[b];
  for (int i = 0; i < packer->n_unplaced; i++) {
    int other = packer->unplaced[i];
    if (other == b)
      frame->place = i;
    else if (packer->floor[other] < top && live_together(packer, b, other))
      push_lift(packer, other, align_floor(top, packer->align[other]));
  }
  packer->unplaced[frame->place] = packer->unplaced[--packer->n_unplaced];
  for (int s = packer->lower[b]; s < packer->upper[b]; s++) packer->limit[s] += packer->size[b];
}

// Decides that no buffer lies on the frame's floor in its section: each that could rests on one still to be placed.
static void lift_all(Packer *packer, const Frame *frame) {
  int n_lifted = 0;
  for (int i = 0; i < packer->n_unplaced; i++) {
    int b = packer->unplaced[i];
    int32_t lifted = FLOOR_NONE - 1, floor = packer->floor[b];
    if (floor != frame->floor || packer->lower[b] > frame->section || packer->upper[b] <= frame->section) continue;
    for (int j = 0; j < packer->n_unplaced; j++) {
      int under = packer->unplaced[j];
      int32_t top = align_floor(packer->floor[under] + packer->size[under], packer->align[b]);
      if (under != b && top < lifted && top > floor && live_together(packer, b, under)) lifted = top;
    }
    packer->lifted[n_lifted++] = (Lift){b, lifted};
  }
  // Only now, since the floors before count.
  for (int i = 0; i < n_lifted; i++) push_lift(packer, packer->lifted[i].buffer, packer->lifted[i].floor);
  packer->work += (int64_t)n_lifted * packer->n_unplaced;
}

static void take_back(Packer *packer, Frame *frame) {
  while (packer->n_lifts > frame->n_lifts) {
    Lift lift = packer->lifts[--packer->n_lifts];
    packer->floor[lift.buffer] = lift.floor;
  }
  if (frame->place < 0) return;
  int b = packer->candidates[frame->candidates + frame->next - 1];
  packer->unplaced[packer->n_unplaced++] = packer->unplaced[frame->place];
  packer->unplaced[frame->place] = b;
  for (int s = packer->lower[b]; s < packer->upper[b]; s++) packer->limit[s] -= packer->size[b];
  frame->place = -1;
}

// Takes the next choice that is open, closing frames that have none left. False when all are closed.
static bool advance(Packer *packer) {
  while (packer->n_frames > 0) {
    Frame *frame = &packer->frames[packer->n_frames - 1];
    take_back(packer, frame);
    if (frame->next < frame->n_candidates) {
      place(packer, frame, packer->candidates[frame->candidates + frame->next++]);
      return true;
    }
    if (frame->next++ == frame->n_candidates) {
      lift_all(packer, frame);
      return true;
    }
    packer->n_candidates = frame->candidates;
    packer->n_frames--;
  }
  return false;
}

// One search of at most `max_nodes` nodes.
static PackStatus dive(Packer *packer, int64_t max_nodes) {
  int section;
  packer->n_frames = packer->n_candidates = packer->n_lifts = 0;
  bool cut = false;
  for (int64_t nodes = 0; nodes < max_nodes; nodes++) {
    section = choose_section(packer);
    if (section == SECTION_NONE) return PACK_FOUND;
    if (section != SECTION_FAILED && packer->n_frames == packer->max_frames) {
      cut = true;
      section = SECTION_FAILED;
    }
    if (section != SECTION_FAILED) push_frame(packer, section);
    if (!advance(packer)) return cut ? PACK_UNKNOWN : PACK_IMPOSSIBLE;
  }
  return PACK_UNKNOWN;
}

// Everything unplaced on the bottom, and new random preferences; the first ones are fixed.
static void restart(Packer *packer, int round) {
  packer->n_unplaced = packer->n;
  bool first = round == 1;
  packer->lowest_first = first || next_random(&packer->random) < 0.5 ? 1000 : 30 * next_random(&packer->random);
  packer->slack_weight = first ? 10 : 60 * next_random(&packer->random);
  packer->noise = first ? 0 : 0.3 * next_random(&packer->random);
  double by_area = first ? 0.5 : next_random(&packer->random), by_size = first ? 0.5 : next_random(&packer->random);
  double by_width = first ? 0.5 : next_random(&packer->random);
  for (int s = 0; s < packer->n_sections; s++) {
    packer->limit[s] = packer->capacity;
    packer->weight[s] = 1 + 0.9 * (packer->weight[s] - 1);
  }
  for (int b = 0; b < packer->n; b++) {
    packer->unplaced[b] = b;
    packer->floor[b] = 0;
    double width = (double)(packer->upper[b] - packer->lower[b]) / packer->n_sections;
    double size = (double)packer->size[b] / packer->capacity;
    packer->priority[b] = by_width * width + by_size * size + 4 * by_area * width * size;
    for (int s = packer->lower[b]; s < packer->upper[b]; s++) packer->limit[s] -= packer->size[b];
  }
}

// The offsets found: a placed buffer's floor stays as it was when it was placed.
static void report_offsets(const Packer *packer, int64_t *offset) {
  for (int b = 0; b < packer->n; b++) offset[b] = packer->floor[b] * packer->unit;
}

PackStatus offsets_pack(const PackProblem *problem, int64_t *offset, int64_t *work) {
  int64_t unit = offsets_pack_unit(problem), total = 0;
  // Below this, sums of a floor, a size and an alignment stay in 32 bits.
  if (problem->capacity / unit >= INT_MAX / 8) return PACK_UNKNOWN;
  for (int b = 0; b < problem->n; b++) {
    if (problem->align[b] / unit >= INT_MAX / 8) return PACK_UNKNOWN;
    if (problem->size[b] > problem->capacity) return PACK_IMPOSSIBLE;
    total += problem->size[b] / unit;
  }
  if (total >= INT_MAX / 8) return PACK_UNKNOWN;
  Packer packer = packer_create(problem, unit);
  PackStatus status = PACK_UNKNOWN;
  for (int round = 1; status == PACK_UNKNOWN; round++) {
    restart(&packer, round);
    // Luby-like lengths: the lowest set bit of the round.
    status = dive(&packer, (packer.n + 100) * (int64_t)(round & -round));
    if (status == PACK_UNKNOWN &&
        (packer.work > problem->max_work || seconds_since(packer.start) > problem->time_limit))
      break;
  }
  if (status == PACK_FOUND) report_offsets(&packer, offset);
  *work += packer.work;
  packer_free(&packer);
  return status;
}
