// test_watch.c: what the solver finds does not depend on how fast the machine is. The clocks of this program are its
// own: they stand still, or go a thousand seconds at each look.
#include <math.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "generate.h"
#include "passes/solver/watch.h"

static double seconds, speed;   // by the clock; of one look at it
static int looks;

int clock_gettime(clockid_t clock, struct timespec *now) {
  (void)clock;
  looks++;
  seconds += speed;
  now->tv_sec = (time_t)seconds;
  now->tv_nsec = (long)(1e9 * (seconds - floor(seconds)));
  return 0;
}

static const double speeds[] = {0, 1000};

// A step of `n` nodes, forward and backward with skips, whose values may move.
static Generated *make_step(int n, bool far) {
  Generated *g = generated_create(n);
  uint64_t state = 5;
  for (int v = 0; v < n; v++) {
    int inputs[3], count = 0;
    if (v > 0) inputs[count++] = v - 1;
    if (v >= n / 2) inputs[count++] = n - 1 - v;
    if (v > 8 && v < n / 2 && generate_number(&state, 3) == 0) inputs[count++] = v - 2 - generate_number(&state, 6);
    generated_add(g, 1 + generate_number(&state, 9), 1 + generate_number(&state, 30),
                  v < n / 2 ? REMAT_FORWARD : REMAT_BACKWARD, count, inputs);
    g->nodes[v].movable = true;
  }
  g->far = (RematTier){.out_rate = 1, .in_rate = 1, .latency = 0.5, .budget = 1 << 20};
  if (far) g->problem.far = &g->far;
  g->problem.n_outputs = 1;
  g->output = n - 1;
  return g;
}

static bool is_same(const RematResult *a, const RematResult *b) {
  return a->schedule.n == b->schedule.n && a->moves == b->moves && a->lower_bound == b->lower_bound &&
         memcmp(a->schedule.exec, b->schedule.exec, (size_t)a->schedule.n * sizeof(int)) == 0;
}

static void test_search(int n, bool far, int64_t moves) {
  Generated *g = make_step(n, far);
  RematSchedule plain = remat_baseline(&g->problem);
  RematOptions options = {.seed = 3, .max_moves = moves};
  RematResult found[2];
  for (int i = 0; i < 2; i++) {
    speed = speeds[i];
    remat_solve(&g->problem, plain.peak / 3, &options, &found[i]);
  }
  check(is_same(&found[0], &found[1]), far ? "the same schedule, two tiers" : "the same schedule", n);
  for (int i = 0; i < 2; i++) remat_result_free(&found[i]);
  for (int i = 0; i < 2; i++) {
    speed = speeds[i];
    remat_minimize_peak(&g->problem, INFINITY, &options, &found[i]);
  }
  check(is_same(&found[0], &found[1]), far ? "the same least peak, two tiers" : "the same least peak", n);
  for (int i = 0; i < 2; i++) remat_result_free(&found[i]);
  remat_schedule_free(&plain);
  generated_free(g);
}

// A limit in seconds is one of the clock.
static void test_limit(bool far) {
  Generated *g = make_step(400, far);
  RematSchedule plain = remat_baseline(&g->problem);
  RematOptions options = {.time_limit = 5000, .max_moves = INT64_MAX};
  RematResult found;
  speed = 1000;
  int64_t steps = 0;
  g->problem.steps = &steps;
  remat_solve(&g->problem, plain.peak / 3, &options, &found);
  check(steps > 0 && 1e-9 * (double)steps < 2, "a limit by the clock ends the search", far);
  remat_result_free(&found);
  remat_schedule_free(&plain);
  generated_free(g);
}

static void test_offsets(void) {
  enum { N = 300 };
  OffsetBuffer buffers[2][N];
  InputError error;
  OffsetResult found[2];
  for (int i = 0; i < 2; i++) {
    uint64_t state = 7;
    speed = speeds[i];
    for (int b = 0; b < N; b++) {
      int lower = generate_number(&state, 100);
      buffers[i][b] = (OffsetBuffer){.id = b,
                                     .lower = lower,
                                     .upper = lower + 1 + generate_number(&state, 30),
                                     .size = 1 + generate_number(&state, 1000)};
    }
    OffsetOptions options = {.max_work = 20000000};
    check(offsets_assign(buffers[i], N, &options, &found[i], &error), "offsets are found", i);
  }
  bool same = found[0].arena_bytes == found[1].arena_bytes && found[0].work == found[1].work;
  check(found[0].arena_bytes > found[0].lower_bound, "the search for offsets ends at its limit", 0);
  for (int b = 0; b < N; b++) same &= buffers[0][b].offset == buffers[1][b].offset;
  check(same, "the same offsets", 0);
}

int main(void) {
  test_search(120, false, 5000);
  test_search(120, true, 5000);
  test_search(600, true, 20000);
  test_limit(false);
  test_limit(true);
  test_offsets();
  check(looks > 0, "this program's clock is looked at", looks);
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
