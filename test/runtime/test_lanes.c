// Steps of several lanes in threads: which run where, what waits, what a failure stops, and that kernels of all lanes
// share their work over the threads that were asked for.
#include <omp.h>
#include <stdatomic.h>
#include <string.h>

#include "runtime/runtime.h"
#include "test/check.h"

enum { STEPS = 6 };
static const int32_t after_0[] = {0}, after_1[] = {1}, after_2[] = {2}, after_3_4[] = {3, 4};
// 0 -> 1 (out) -> 2 (in) -> 4, and 3 beside them; 5 behind all.
static const NncStep steps[STEPS] = {{.label = "0"},
                                     {.label = "1", .lane = NNC_LANE_OUT, .n_waits = 1, .waits = after_0},
                                     {.label = "2", .lane = NNC_LANE_IN, .n_waits = 1, .waits = after_1},
                                     {.label = "3", .lane = NNC_LANE_OUT},
                                     {.label = "4", .n_waits = 1, .waits = after_2},
                                     {.label = "5", .lane = NNC_LANE_IN, .n_waits = 2, .waits = after_3_4}};
static const NncFunction function = {.name = "train", .n_steps = STEPS, .steps = steps};

typedef struct Run {
  int failing;
  atomic_int clock, began[STEPS], over[STEPS];   // of a run; 0: it did not
} Run;

static bool run_step(void *context, int step) {
  Run *r = context;
  r->began[step] = ++r->clock;
  r->over[step] = ++r->clock;
  return step != r->failing;
}

// All steps that run do so behind those that they wait for; of the failing one, no step that waits for it has run, nor
// one behind it on its lane.
static void check_run(const Run *r) {
  bool stopped[STEPS] = {false};
  for (int i = 0; i < STEPS; i++) {
    if (r->failing < 0) CHECK(r->began[i], "step %d did not run", i);
    for (int k = 0; k < steps[i].n_waits; k++) {
      int before = steps[i].waits[k];
      stopped[i] |= stopped[before] || before == r->failing;
      CHECK(!r->began[i] || (r->over[before] && r->over[before] < r->began[i]), "step %d waits for %d", i, before);
    }
    for (int k = 0; k < i; k++) stopped[i] |= steps[k].lane == steps[i].lane && (stopped[k] || k == r->failing);
    CHECK(!stopped[i] || !r->began[i], "step %d ran behind the failure of %d", i, r->failing);
  }
}

static void test_runs(void) {
  Run r;
  CHECK(lanes_wanted(&function), "three lanes");
  Lanes *l = lanes_create(&function, run_step, &r);
  CHECK(l != NULL, "no threads");
  // Each step fails once, and the run after it is a whole one.
  for (int failing = 0; l && failing < 2 * STEPS; failing++) {
    memset(&r, 0, sizeof r);
    r.failing = failing % 2 ? -1 : failing / 2;
    CHECK(lanes_run(l) == (r.failing < 0), "step %d", r.failing);
    check_run(&r);
  }
  lanes_destroy(l);
}

static atomic_int parts;

static void count_part(void *const *buffers, int64_t begin, int64_t end) {
  (void)buffers, (void)begin, (void)end;
  parts++;
}

// A kernel that is not on the lane compute has as many threads as one that is.
static void test_threads(int n) {
  static const NncStep kernels[] =
      {{.kind = NNC_STEP_KERNEL, .kernel = count_part, .extent = 1000, .grain = 1, .workspace = -1},
       {.kind = NNC_STEP_KERNEL, .kernel = count_part, .extent = 1000, .workspace = -1, .lane = NNC_LANE_COMM}};
  Arena arena = {.threads = n};
  CHECK(nnc_device_host.enter(&arena), "enter");
  for (int i = 0; i < 2; i++) {
    NncFunction f = {.name = "train", .n_steps = 1, .steps = &kernels[i]};
    Executor *e = executor_create(&f, &arena);
    CHECK(e != NULL, "lane %d", kernels[i].lane);
    parts = 0;
    CHECK(e && executor_run(e, NULL, NULL) && parts == n, "%d parts, not %d", (int)parts, n);
    executor_destroy(e);
  }
}

const NncProgram nnc_program = {.model = "test", .source = "test.nn", .device = &nnc_device_host};

int main(void) {
  static const NncFunction one = {.name = "eval", .n_steps = 1, .steps = steps};
  CHECK(!lanes_wanted(&one), "one lane");
  test_runs();
  int n = omp_get_max_threads() + 1;   // not what a thread has unasked
  int threads = 0;
  CHECK(nnc_device_host.check(&(DeviceOptions){.threads = n}, &threads) && threads == n, "%d threads", n);
  test_threads(n);
  return check_report();
}
