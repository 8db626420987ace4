// Arithmetic on sizes and counts: not negative, and far from overflowing.
#ifndef NNC_SUPPORT_INTEGERS_H
#define NNC_SUPPORT_INTEGERS_H

#include <stdint.h>

// The smallest integer that is not below a / b; b > 0.
static inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
// The smallest multiple of `step` > 0 that is not below n.
static inline int64_t round_up(int64_t n, int64_t step) { return divide_up(n, step) * step; }
static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
