// What the pass `check` proves of lanes: every two steps that touch the same bytes, one of them writing, are ordered by
// lanes and waits. Then each timing that those allow gives each step the bytes that the plan's order gives it, which is
// the one that is replayed. Detects races as FastTrack does (Flanagan and Freund, PLDI 2009), with a clock for each
// step. Shares no code with what found the waits (lanes.c).
#include <stdlib.h>
#include <string.h>

#include "passes/plan/plan.h"
#include "support/alloc.h"

typedef struct Span {   // bytes [begin, end), touched alike so far
  int64_t begin, end;
  int writer;           // step, -1: none
  int read[NN_LANES];   // since then: the last step of each lane, -1: none
} Span;

typedef struct Spans {
  int n;
  Span *items;   // Owned; sorted, apart
} Spans;

typedef struct Judge {
  const LaneStep *steps;   // Borrowed
  LaneClock *over;         // Owned, per step: who is over when it starts
  Spans memory;
} Judge;

static bool is_over(const Judge *j, int step, int before) {
  NnLane lane = j->steps[before].lane;
  return before <= j->over[step].at[lane] || (lane == j->steps[step].lane && before < step);
}

// What is over when a step starts: what was when those started that it comes behind, and they themselves. False: it
// waits for no step of that lane before it.
static bool find_over(Judge *j, int n, LaneRace *race) {
  int previous[NN_LANES];
  for (int lane = 0; lane < NN_LANES; lane++) previous[lane] = -1;
  for (int i = 0; i < n; i++) {
    const LaneStep *s = &j->steps[i];
    LaneClock *over = &j->over[i];
    *over = lane_clock_none;
    for (int lane = 0; lane < NN_LANES; lane++) {
      int behind = lane == (int)s->lane ? previous[lane] : s->waits.at[lane];
      if (behind < 0) continue;
      if (behind >= i || (int)j->steps[behind].lane != lane) {
        *race = (LaneRace){.kind = LANE_WAIT_FOR_NONE, .before = behind, .after = i};
        return false;
      }
      for (int other = 0; other < NN_LANES; other++)
        if (j->over[behind].at[other] > over->at[other]) over->at[other] = j->over[behind].at[other];
      if (behind > over->at[lane]) over->at[lane] = behind;
    }
    previous[s->lane] = i;
  }
  return true;
}

// The first span that ends behind `at`.
static int find_span(const Spans *m, int64_t at) {
  int low = 0, high = m->n;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (m->items[middle].end <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}

static void insert_span(Spans *m, int at, Span span) {
  ARRAY_ADD(m->items, m->n);
  memmove(m->items + at + 1, m->items + at, (size_t)(m->n - 1 - at) * sizeof *m->items);
  m->items[at] = span;
}

static void cut_at(Spans *m, int64_t at) {
  int i = find_span(m, at);
  if (i == m->n || m->items[i].begin >= at) return;
  Span front = m->items[i];
  front.end = at;
  m->items[i].begin = at;
  insert_span(m, i, front);
}

// No span lies in the touch in part.
static void cut(Spans *m, const LaneTouch *t) {
  cut_at(m, t->begin);
  cut_at(m, t->end);
}

static bool judge_span(const Judge *j, const Span *span, int step, int touch, LaneRace *race) {
  bool writes = j->steps[step].touches[touch].written;
  *race = (LaneRace){LANE_RACE, span->writer, step, touch, true, span->begin, span->end};
  if (span->writer >= 0 && !is_over(j, step, span->writer)) return false;
  race->before_writes = false;
  for (int lane = 0; lane < NN_LANES && writes; lane++) {
    race->before = span->read[lane];
    if (race->before >= 0 && !is_over(j, step, race->before)) return false;
  }
  return true;
}

static bool judge_touch(Judge *j, int step, int touch, LaneRace *race) {
  const LaneTouch *t = &j->steps[step].touches[touch];
  Spans *m = &j->memory;
  if (t->begin >= t->end) return true;
  cut(m, t);
  for (int i = find_span(m, t->begin); i < m->n && m->items[i].begin < t->end; i++)
    if (!judge_span(j, &m->items[i], step, touch, race)) return false;
  return true;
}

static void note_write(Spans *m, const LaneTouch *t, int step) {
  cut(m, t);
  int first = find_span(m, t->begin), last = first;
  while (last < m->n && m->items[last].begin < t->end) last++;
  if (last > first) memmove(m->items + first, m->items + last, (size_t)(m->n - last) * sizeof *m->items);
  m->n -= last - first;
  Span span = {t->begin, t->end, step, {0}};
  memset(span.read, -1, sizeof span.read);
  insert_span(m, first, span);
}

static void note_read(Spans *m, const LaneTouch *t, NnLane lane, int step) {
  int64_t at = t->begin;   // bytes before it are done
  cut(m, t);
  for (int i = find_span(m, at); at < t->end; i++) {
    if (i == m->n || m->items[i].begin > at) {   // nobody has touched these
      Span span = {at, i == m->n || m->items[i].begin > t->end ? t->end : m->items[i].begin, -1, {0}};
      memset(span.read, -1, sizeof span.read);
      insert_span(m, i, span);
    }
    m->items[i].read[lane] = step;
    at = m->items[i].end;
  }
}

bool plan_check_lanes(int n, const LaneStep *steps, LaneRace *race) {
  Judge j = {.steps = steps, .over = allocate_array((size_t)n + 1, sizeof *j.over)};
  bool ok = find_over(&j, n, race);
  for (int i = 0; i < n && ok; i++) {
    const LaneStep *s = &steps[i];
    for (int t = 0; t < s->n_touches && ok; t++) ok = judge_touch(&j, i, t, race);
    for (int t = 0; t < s->n_touches && ok; t++)
      if (!s->touches[t].written && s->touches[t].begin < s->touches[t].end)
        note_read(&j.memory, &s->touches[t], s->lane, i);
    for (int t = 0; t < s->n_touches && ok; t++)
      if (s->touches[t].written && s->touches[t].begin < s->touches[t].end) note_write(&j.memory, &s->touches[t], i);
  }
  free(j.over);
  free(j.memory.items);
  return ok;
}
