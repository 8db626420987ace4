// Counting checks for the unit tests: CHECK prints what failed and goes on; check_report prints "N passed, N failed".
#ifndef NNC_TEST_CHECK_H
#define NNC_TEST_CHECK_H

#include <stdio.h>

static int checks_passed, checks_failed;

#define CHECK(condition, ...)                                        \
  do {                                                               \
    if (condition) {                                                 \
      checks_passed++;                                               \
    } else {                                                         \
      checks_failed++;                                               \
      printf("%s:%d: failed: %s: ", __FILE__, __LINE__, #condition); \
      printf(__VA_ARGS__);                                           \
      printf("\n");                                                  \
    }                                                                \
  } while (0)

static inline int check_report(void) {
  printf("%d passed, %d failed\n", checks_passed, checks_failed);
  return checks_failed != 0;
}

#endif
