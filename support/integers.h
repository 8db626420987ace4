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

// The next number of a sequence (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
static inline uint64_t splitmix64(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

#endif
