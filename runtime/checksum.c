#include "runtime/checksum.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/runtime.h"

struct Checksum {
  XXH3_state_t *state;   // Owned
};

Checksum *checksum_begin(void) {
  Checksum *c = xmalloc(sizeof *c);
  c->state = XXH3_createState();
  if (!c->state) report_internal("out of memory");
  XXH3_64bits_reset(c->state);
  return c;
}

void checksum_add(Checksum *c, const void *data, int64_t bytes) { XXH3_64bits_update(c->state, data, (size_t)bytes); }

uint64_t checksum_end(Checksum *c) {
  if (!c) return checksum_of("", 0);
  uint64_t sum = XXH3_64bits_digest(c->state);
  XXH3_freeState(c->state);
  free(c);
  return sum;
}

uint64_t checksum_of(const void *data, int64_t bytes) { return XXH3_64bits(data, (size_t)bytes); }

void checksum_print(uint64_t sum, char *out) {
  for (int i = 0; i < CHECKSUM_DIGITS; i++) out[i] = "0123456789abcdef"[sum >> (60 - 4 * i) & 15];
}
