// See plan.h. Who is known to be over is kept as a vector clock (Fidge 1988, Mattern 1989): per lane the last step.
// Steps of a lane are ordered, so one number a lane says it of all of them.
#include "passes/plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "support/alloc.h"

const LaneClock lane_clock_none = {{-1, -1, -1, -1}};
_Static_assert(NN_LANES == 4, "a name and a -1 for each lane");
static const char *const names[NN_LANES] = {"compute", "out", "in", "comm"};

const char *nn_lane_name(NnLane lane) { return names[lane]; }

NnLane nn_lane_by_name(const char *name) {
  int lane = 0;
  while (lane < NN_LANES && strcmp(names[lane], name) != 0) lane++;
  return (NnLane)lane;
}

NnLane nn_lane_of(MlirOperation op) {
  char name[16];
  return nn_lane_by_name(nn_attr_str(op, ATTR_lane, name, sizeof name, "compute"));
}

// ---------------------------------------------------------------------------------------------------------------------
// Who has touched which bytes last

typedef struct Cell {   // bytes from begin to the next cell's
  int64_t begin;
  int writer;          // -1: none
  LaneClock readers;   // since then
} Cell;
typedef struct Memory {   // all bytes, in cells
  int n;
  Cell *cells;   // Owned; sorted
} Memory;

// The cell that begins at `at`; made of a part of the one around it, if need be.
static int cell_at(Memory *m, int64_t at) {
  int low = 0, high = m->n;   // the first that begins at or behind it
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (m->cells[middle].begin < at) low = middle + 1;
    else high = middle;
  }
  if (low < m->n && m->cells[low].begin == at) return low;
  ARRAY_ADD(m->cells, m->n);
  memmove(m->cells + low + 1, m->cells + low, (size_t)(m->n - 1 - low) * sizeof *m->cells);
  m->cells[low] = low ? m->cells[low - 1] : (Cell){.writer = -1, .readers = lane_clock_none};
  m->cells[low].begin = at;
  return low;
}

static void raise(int *at, int step) {
  if (step > *at) *at = step;
}

static void join(LaneClock *a, const LaneClock *b) {
  for (int lane = 0; lane < NN_LANES; lane++) raise(&a->at[lane], b->at[lane]);
}

// Who must be over before these bytes are touched, added to `need`.
static void add_needed(Memory *m, const LaneTouch *t, const LaneStep *steps, LaneClock *need) {
  int first = cell_at(m, t->begin), end = cell_at(m, t->end);
  for (int i = first; i < end; i++) {
    const Cell *c = &m->cells[i];
    if (c->writer >= 0) raise(&need->at[steps[c->writer].lane], c->writer);
    if (t->written) join(need, &c->readers);
  }
}

static void note_touch(Memory *m, const LaneTouch *t, NnLane lane, int step) {
  int first = cell_at(m, t->begin), end = cell_at(m, t->end);
  if (!t->written) {
    for (int i = first; i < end; i++) m->cells[i].readers.at[lane] = step;
    return;
  }
  m->cells[first] = (Cell){t->begin, step, lane_clock_none};
  memmove(m->cells + first + 1, m->cells + end, (size_t)(m->n - end) * sizeof *m->cells);
  m->n -= end - first - 1;
}

// ---------------------------------------------------------------------------------------------------------------------

static bool use_one_lane(int n, const LaneStep *steps) {
  for (int i = 1; i < n; i++)
    if (steps[i].lane != steps[0].lane) return false;
  return true;
}

// The lane of the last one in the order that is needed and not known, -1: none.
static int last_unknown(const LaneClock *need, const LaneClock *known) {
  int last = -1;
  for (int lane = 0; lane < NN_LANES; lane++)
    if (need->at[lane] > known->at[lane] && (last < 0 || need->at[lane] > need->at[last])) last = lane;
  return last;
}

// The last in the order comes first: what stands before it may follow from it, not the other way round.
LaneClock lanes_waits(const LaneClock *need, LaneClock *known, const LaneClock *after) {
  LaneClock waits = lane_clock_none;
  for (int lane; (lane = last_unknown(need, known)) >= 0; join(known, &after[need->at[lane]]))
    waits.at[lane] = need->at[lane];
  return waits;
}

void lanes_find_waits(int n, LaneStep *steps) {
  for (int i = 0; i < n; i++) steps[i].waits = lane_clock_none;
  if (use_one_lane(n, steps)) return;
  Memory m = {0};
  LaneClock *after = allocate_array((size_t)n, sizeof *after);   // per step: who is over when it is
  LaneClock of_lane[NN_LANES];                                   // the same of the last step of each lane so far
  for (int lane = 0; lane < NN_LANES; lane++) of_lane[lane] = lane_clock_none;
  for (int i = 0; i < n; i++) {
    LaneStep *s = &steps[i];
    LaneClock need = lane_clock_none, known = of_lane[s->lane];
    for (int t = 0; t < s->n_touches; t++)
      if (s->touches[t].begin < s->touches[t].end) add_needed(&m, &s->touches[t], steps, &need);
    s->waits = lanes_waits(&need, &known, after);
    known.at[s->lane] = i;
    after[i] = of_lane[s->lane] = known;
    for (int written = 0; written < 2; written++)
      for (int t = 0; t < s->n_touches; t++)
        if (s->touches[t].written == written && s->touches[t].begin < s->touches[t].end)
          note_touch(&m, &s->touches[t], s->lane, i);
  }
  free(after);
  free(m.cells);
}

// A step starts when its lane is idle and those that it waits for are over.
double lanes_makespan(int n, const LaneStep *steps, const double *seconds, double *over) {
  double idle[NN_LANES] = {0}, end = 0, *ends = over ? over : allocate_array((size_t)n + 1, sizeof *ends);
  for (int i = 0; i < n; i++) {
    double start = idle[steps[i].lane];
    for (int lane = 0; lane < NN_LANES; lane++)
      if (steps[i].waits.at[lane] >= 0 && ends[steps[i].waits.at[lane]] > start) start = ends[steps[i].waits.at[lane]];
    ends[i] = idle[steps[i].lane] = start + seconds[i];
    if (ends[i] > end) end = ends[i];
  }
  if (!over) free(ends);
  return end;
}
