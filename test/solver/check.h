// check.h: what the tests of the solver count.
#ifndef NNC_TEST_SOLVER_CHECK_H
#define NNC_TEST_SOLVER_CHECK_H

#include <stdbool.h>
#include <stdio.h>

static int passed, failed;

// Counts; says what failed, and for which case. Returns the condition.
static bool check(bool condition, const char *what, long long detail) {
  if (condition) {
    passed++;
  } else {
    failed++;
    printf("FAILED: %s (%lld)\n", what, detail);
  }
  return condition;
}

#endif
