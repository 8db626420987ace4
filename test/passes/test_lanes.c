// Waits of random plans against brute force: every two steps that touch the same bytes are ordered, no wait is too
// many, every timing leaves the same bytes, and `check` finds exactly the plans for which that is not so.
#include <stdlib.h>
#include <string.h>

#include "passes/plan/plan.h"
#include "test/check.h"

enum { MOST = 40, BYTES = 24, TOUCHES = 4 };

typedef struct Plan {
  int n;
  LaneStep step[MOST];
  LaneTouch touch[MOST][TOUCHES];
} Plan;

static uint64_t state = 1;
static int draw(int n) {   // 0 … n - 1
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int)((state >> 33) % (uint64_t)n);
}

static void draw_plan(Plan *p) {
  int lanes = 1 + draw(NN_LANES), few = 1 + draw(4);
  p->n = 1 + draw(MOST);
  for (int i = 0; i < p->n; i++) {
    LaneStep *s = &p->step[i];
    *s = (LaneStep){.lane = (NnLane)(draw(few) ? 0 : draw(lanes)), .touches = p->touch[i]};
    s->n_touches = draw(TOUCHES + 1);
    for (int t = 0; t < s->n_touches; t++) {
      int begin = draw(BYTES);
      p->touch[i][t] = (LaneTouch){begin, begin + draw(BYTES - begin + 1), draw(3) == 0};
    }
  }
}

static bool conflict(const LaneStep *a, const LaneStep *b) {
  for (int i = 0; i < a->n_touches; i++)
    for (int j = 0; j < b->n_touches; j++) {
      const LaneTouch *x = &a->touches[i], *y = &b->touches[j];
      int64_t begin = x->begin > y->begin ? x->begin : y->begin, end = x->end < y->end ? x->end : y->end;
      if (begin < end && (x->written || y->written)) return true;
    }
  return false;
}

// before[i][j]: j is over when i starts.
static void close_order(const Plan *p, bool before[MOST][MOST]) {
  memset(before, 0, sizeof(bool[MOST][MOST]));
  for (int i = 0; i < p->n; i++)
    for (int j = 0; j < i; j++) {
      bool next = p->step[j].lane == p->step[i].lane || p->step[i].waits.at[p->step[j].lane] == j;
      for (int k = 0; k <= j && next; k++) before[i][k] |= before[j][k] || k == j;
    }
}

static bool is_race(const Plan *p, bool before[MOST][MOST], int i, int j) {
  return conflict(&p->step[i], &p->step[j]) && !before[i][j];
}

static bool has_race(const Plan *p) {
  bool before[MOST][MOST];
  close_order(p, before);
  for (int i = 0; i < p->n; i++)
    for (int j = 0; j < i; j++)
      if (is_race(p, before, i, j)) return true;
  return false;
}

// What `check` says of the plan is so, and of a race it names one.
static void check_verdict(const Plan *p, const char *what, int round) {
  LaneRace race = {0};
  bool ok = plan_check_lanes(p->n, p->step, &race);
  CHECK(ok == !has_race(p), "round %d, %s: found %s", round, what, ok ? "none" : "a race");
  if (ok) return;
  bool before[MOST][MOST];
  close_order(p, before);
  CHECK(race.kind == LANE_RACE && race.before < race.after && is_race(p, before, race.after, race.before),
        "round %d, %s: steps %d and %d", round, what, race.before, race.after);
  const LaneTouch *t = &p->touch[race.after][race.touch];
  CHECK(t->begin <= race.begin && race.begin < race.end && race.end <= t->end, "round %d, %s: bytes", round, what);
}

// Runs a step whose results are a function of its number and of all that it reads.
static void run(const Plan *p, int i, uint64_t *memory) {
  const LaneStep *s = &p->step[i];
  uint64_t value = (uint64_t)i + 1;
  for (int t = 0; t < s->n_touches; t++)
    for (int64_t b = s->touches[t].begin; b < s->touches[t].end && !s->touches[t].written; b++)
      value = (value ^ memory[b]) * 1099511628211u + (uint64_t)b;
  for (int t = 0; t < s->n_touches; t++)
    for (int64_t b = s->touches[t].begin; b < s->touches[t].end && s->touches[t].written; b++) memory[b] = value;
}

// In one of the orders that lanes and waits allow.
static void run_somehow(const Plan *p, uint64_t *memory) {
  bool done[MOST] = {false}, before[MOST][MOST];
  close_order(p, before);
  for (int left = p->n; left > 0; left--) {
    int can[MOST], n = 0;
    for (int i = 0; i < p->n; i++) {
      bool ready = !done[i];
      for (int j = 0; j < i && ready; j++) ready = !before[i][j] || done[j];
      if (ready) can[n++] = i;
    }
    int i = can[draw(n)];
    run(p, i, memory);
    done[i] = true;
  }
}

static void check_timings(const Plan *p, int round) {
  uint64_t expected[BYTES] = {0};
  for (int i = 0; i < p->n; i++) run(p, i, expected);
  for (int turn = 0; turn < 5; turn++) {
    uint64_t found[BYTES] = {0};
    run_somehow(p, found);
    CHECK(memcmp(found, expected, sizeof found) == 0, "round %d: another timing, other bytes", round);
  }
}

static void test_random_plans(void) {
  int n_waits = 0;
  for (int round = 0; round < 4000; round++) {
    Plan p;
    draw_plan(&p);
    lanes_find_waits(p.n, p.step);
    CHECK(!has_race(&p), "round %d: two steps are not ordered", round);
    check_verdict(&p, "all waits", round);
    if (round % 10 == 0) check_timings(&p, round);
    for (int i = 0; i < p.n; i++)
      for (int lane = 0; lane < NN_LANES; lane++) {
        int wait = p.step[i].waits.at[lane];
        if (wait < 0) continue;
        n_waits++;
        CHECK(wait < i && (int)p.step[wait].lane == lane && p.step[i].lane != (NnLane)lane, "round %d: wait", round);
        p.step[i].waits.at[lane] = -1;
        CHECK(has_race(&p), "round %d: step %d need not wait for step %d", round, i, wait);
        check_verdict(&p, "one wait less", round);
        p.step[i].waits.at[lane] = wait;
      }
    for (int i = 0; i < p.n; i++)   // waits that nobody has looked for
      for (int lane = 0; lane < NN_LANES; lane++) {
        p.step[i].waits.at[lane] = -1;
        for (int j = 0; j < i; j++)
          if ((int)p.step[j].lane == lane && p.step[i].lane != (NnLane)lane && draw(4)) p.step[i].waits.at[lane] = j;
      }
    check_verdict(&p, "random waits", round);
  }
  CHECK(n_waits > 4000, "only %d waits", n_waits);
}

static void test_wrong_waits(void) {
  LaneTouch t = {0, 8, true};
  LaneStep s[3] = {{NN_LANE_COMPUTE, lane_clock_none, 1, &t},
                   {NN_LANE_OUT, lane_clock_none, 0, NULL},
                   {NN_LANE_IN, lane_clock_none, 1, &t}};
  LaneRace race;
  lanes_find_waits(3, s);
  CHECK(s[2].waits.at[NN_LANE_COMPUTE] == 0 && plan_check_lanes(3, s, &race), "one wait");
  s[2].waits.at[NN_LANE_COMPUTE] = 1;
  CHECK(!plan_check_lanes(3, s, &race) && race.kind == LANE_WAIT_FOR_NONE && race.after == 2, "of another lane");
  s[2].waits.at[NN_LANE_COMPUTE] = 2;
  CHECK(!plan_check_lanes(3, s, &race) && race.kind == LANE_WAIT_FOR_NONE, "for itself");
  CHECK(plan_check_lanes(0, NULL, &race), "no steps");
  for (int lane = 0; lane < NN_LANES; lane++)
    CHECK(nn_lane_by_name(nn_lane_name((NnLane)lane)) == (NnLane)lane, "name %d", lane);
  CHECK(nn_lane_by_name("") == NN_LANES, "no name");
}

// Against the definition: a step starts as soon as all that are ordered before it are over.
static void test_makespan(void) {
  for (int round = 0; round < 500; round++) {
    Plan p;
    draw_plan(&p);
    lanes_find_waits(p.n, p.step);
    bool before[MOST][MOST];
    close_order(&p, before);
    double seconds[MOST], over[MOST], expected[MOST], end = 0;
    for (int i = 0; i < p.n; i++) {
      seconds[i] = draw(100);
      expected[i] = 0;
      for (int j = 0; j < i; j++)
        if (before[i][j] && expected[j] > expected[i]) expected[i] = expected[j];
      expected[i] += seconds[i];
      if (expected[i] > end) end = expected[i];
    }
    CHECK(lanes_makespan(p.n, p.step, seconds, over) == end, "round %d: the end of all", round);
    CHECK(memcmp(over, expected, (size_t)p.n * sizeof *over) == 0, "round %d: the end of each", round);
    CHECK(lanes_makespan(p.n, p.step, seconds, NULL) == end, "round %d: without the ends", round);
  }
}

// As many steps as large models have, most buffers live for long.
static void test_long_plan(void) {
  enum { N = 10000, PARTS = 3 };
  LaneTouch *touches = malloc(N * PARTS * sizeof *touches);
  LaneStep *steps = malloc(N * sizeof *steps);
  if (!touches || !steps) abort();
  for (int i = 0; i < N; i++) {
    for (int t = 0; t < PARTS; t++) {
      int64_t begin = 64 * draw(2000);
      touches[i * PARTS + t] = (LaneTouch){begin, begin + 64 * (1 + draw(20)), t == 0};
    }
    steps[i] = (LaneStep){.lane = (NnLane)(draw(5) ? 0 : draw(3)), .n_touches = PARTS, .touches = touches + i * PARTS};
  }
  lanes_find_waits(N, steps);
  LaneRace race;
  CHECK(plan_check_lanes(N, steps, &race), "steps %d and %d", race.before, race.after);
  int dropped = 0;
  for (int i = N - 1; i > 0 && dropped < 20; i -= 97)
    for (int lane = 0; lane < NN_LANES; lane++) {
      int wait = steps[i].waits.at[lane];
      if (wait < 0) continue;
      steps[i].waits.at[lane] = -1;
      CHECK(!plan_check_lanes(N, steps, &race), "step %d need not wait for step %d", i, wait);
      steps[i].waits.at[lane] = wait;
      dropped++;
    }
  CHECK(dropped > 10, "%d waits", dropped);
  free(touches);
  free(steps);
}

int main(void) {
  test_random_plans();
  test_wrong_waits();
  test_makespan();
  test_long_plan();
  return check_report();
}
