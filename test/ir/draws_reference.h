// Random numbers by their definition: a part of reference.c.
#ifndef NNC_TEST_IR_DRAWS_REFERENCE_H
#define NNC_TEST_IR_DRAWS_REFERENCE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "ir/ir.h"

// Philox 4x32-10 of a block of draws under key (seed low, seed high, micro-batch, row), straight from the paper.
static void philox(const double *key, uint64_t block, uint32_t c[4]) {
  c[0] = (uint32_t)block, c[1] = (uint32_t)(block >> 32), c[2] = (uint32_t)(int32_t)key[3],
  c[3] = (uint32_t)(int32_t)key[2];
  uint32_t k[2] = {(uint32_t)(int32_t)key[0], (uint32_t)(int32_t)key[1]};
  for (int round = 0; round < 10; round++) {
    uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k[1], (uint32_t)a};
    memcpy(c, next, sizeof next);
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
}

static double uniform_of(const double *key, uint64_t index, NnDtype dtype, bool second) {
  uint32_t upper[4], lower[4];
  uint64_t block = index / 4 | (second ? (uint64_t)1 << 63 : 0);
  philox(key, block, upper);
  philox(key, block | (uint64_t)1 << 62, lower);
  int digits = dtype == NN_F32 ? 24 : dtype == NN_BF16 ? 8 : 11;
  if (dtype != NN_F64) return ldexp((double)(upper[index % 4] >> (32 - digits)), -digits);
  return (double)((((uint64_t)upper[index % 4] << 32) | lower[index % 4]) >> 11) * 0x1p-53;
}

static double uniform(const double *key, uint64_t index, NnDtype dtype) { return uniform_of(key, index, dtype, false); }

#endif
