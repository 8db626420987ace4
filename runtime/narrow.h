// bf16 and f16 as they lie in memory, and f32, in which all arithmetic on them is done. Rounding is to the nearest,
// ties to even. In plain integer code, so that it gives the same bits on machines with and without instructions for it,
// and compilers turn loops of it into vectors.
#ifndef NNC_RUNTIME_NARROW_H
#define NNC_RUNTIME_NARROW_H

#include <stdint.h>
#include <string.h>

static inline uint32_t float_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float float_from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline float bf16_to_float(uint16_t h) { return float_from_bits((uint32_t)h << 16); }

static inline uint16_t float_to_bf16(float x) {
  uint32_t bits = float_bits(x), quiet = (bits & 0x7fffffff) > 0x7f800000;
  uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return (uint16_t)(quiet ? bits >> 16 | 0x40 : rounded);
}

// Subnormal numbers are multiples of 2^-24, others get another exponent.
static inline float f16_to_float(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
  uint32_t subnormal = float_bits((float)(int32_t)(h & 0x7fff) * 0x1p-24f), normal = rest + (112u << 23),
           other = rest | 0x7f800000;
  return float_from_bits(sign | (rest >= 31u << 23 ? other : rest < 1u << 23 ? subnormal : normal));
}

// Below 2^-14 the last digit is worth 2^-24: that of a sum with one half, which the addition rounds.
static inline uint16_t float_to_f16(float x) {
  uint32_t bits = float_bits(x), size = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
  uint32_t normal = (size + 0xfff + (size >> 13 & 1) - (112u << 23)) >> 13;
  uint32_t subnormal = float_bits(float_from_bits(size) + 0.5f) - float_bits(0.5f);
  uint32_t half = size < 0x38800000 ? subnormal : size >= 0x477ff000 ? 0x7c00 : normal;
  return (uint16_t)(sign | (size > 0x7f800000 ? 0x7e00 | (size >> 13 & 0x3ff) : half));
}

#endif
