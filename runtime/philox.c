// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): the number is a function of
// key and counter, so that a draw depends on seed, name and element only, never on order or threads.
#include <math.h>

#include "runtime/runtime.h"

__extension__ typedef unsigned __int128 uint128;

void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)p1;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

static void draw(uint64_t seed, uint64_t stream, uint64_t index, uint64_t out[2]) {
  uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)};
  uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, r[4];
  philox4x32(counter, key, r);
  out[0] = (uint64_t)r[1] << 32 | r[0];
  out[1] = (uint64_t)r[3] << 32 | r[2];
}

static double unit(uint64_t bits) { return (double)(bits >> 11) * 0x1p-53; }

uint64_t philox_u64(uint64_t seed, uint64_t stream, uint64_t index) {
  uint64_t r[2];
  draw(seed, stream, index, r);
  return r[0];
}

double philox_uniform(uint64_t seed, uint64_t stream, uint64_t index) { return unit(philox_u64(seed, stream, index)); }

double philox_normal(uint64_t seed, uint64_t stream, uint64_t index) {
  uint64_t r[2];
  draw(seed, stream, index, r);
  // 1 - u lies in (0, 1], where the logarithm is finite.
  return sqrt(-2 * log(1 - unit(r[0]))) * cos(6.283185307179586 * unit(r[1]));
}

uint64_t philox_stream(const char *name) {
  uint64_t h = 0xcbf29ce484222325u;
  for (; *name; name++) h = (h ^ (unsigned char)*name) * 0x100000001b3u;
  return h;
}

void philox_permutation(uint64_t seed, uint64_t stream, uint32_t *perm, int64_t n) {
  for (int64_t i = 0; i < n; i++) perm[i] = (uint32_t)i;
  for (int64_t i = n - 1; i > 0; i--) {
    // The high half of a 64 by 64 bit product maps 64 random bits to [0, i]; its bias is below 2^-32.
    int64_t j = (int64_t)((uint128)philox_u64(seed, stream, (uint64_t)i) * (uint64_t)(i + 1) >> 64);
    uint32_t t = perm[i];
    perm[i] = perm[j];
    perm[j] = t;
  }
}
