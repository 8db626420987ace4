// Learning rates that fall in steps: each `every` steps by gamma, from the end of the warm-up on, never below the
// floor. The cosine is in test_runtime.c.
#include <math.h>

#include "runtime/runtime.h"
#include "test/check.h"

static const NncGroup groups[] = {{.lr = 0.1, .beta1 = 0.9, .beta2 = 0.99}, {.lr = 0.4, .beta1 = 0.9, .beta2 = 0.99}};
const NncProgram nnc_program = {.model = "test",
                                .source = "test.nn",
                                .device = &nnc_device_host,
                                .schedule = "step",
                                .schedule_min = 0.02,
                                .schedule_warmup = 3,
                                .schedule_every = 10,
                                .schedule_gamma = 0.5,
                                .n_groups = 2,
                                .groups = groups};

int main(void) {
  CHECK(schedule_factor(0, 100) == 0.25 && schedule_factor(2, 100) == 0.75, "the warm-up");
  static const struct {
    int64_t step;
    double factor;
  } steps[] = {{3, 1}, {12, 1}, {13, 0.5}, {22, 0.5}, {23, 0.25}, {32, 0.25}, {33, 0.2}, {99, 0.2}, {100000, 0.2}};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    double found = schedule_factor(steps[i].step, 100);
    CHECK(fabs(found - steps[i].factor) < 1e-15, "step %lld: %g, not %g", (long long)steps[i].step, found,
          steps[i].factor);
  }
  CHECK(fabs(schedule_rate(&groups[0], 50, 100) - 0.02) < 1e-15, "the floor is a rate of the first group");
  CHECK(fabs(schedule_rate(&groups[1], 50, 100) - 0.08) < 1e-15, "which the others keep their ratio to");
  return check_report();
}
