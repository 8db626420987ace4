// Sizes of memory as people write and read them.
#ifndef NNC_SUPPORT_BYTES_H
#define NNC_SUPPORT_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/integers.h"

// "512MiB", "4 GB", "1000": *bytes, and *percent is 0. "50%": *percent is 50 and *bytes -50; refused when percent is
// NULL. K, M, G and T alone are binary (1K = 1024). False if malformed.
bool parse_bytes(const char *text, int64_t *bytes, double *percent);
// "3.98 GiB", written to buf, which is returned.
const char *print_bytes(int64_t bytes, char *buf, size_t size);

// An address of a plan: below FAR_ADDRESS an offset in the arena, from there on FAR_ADDRESS plus an offset in the far
// arena, which lies in other memory: a file, the host's memory beside a GPU. What lies there takes whole blocks.
#define FAR_ADDRESS (INT64_C(1) << 60)
enum { FAR_BLOCK = 4096 };
static inline bool is_far_address(int64_t address) { return address >= FAR_ADDRESS; }
static inline int64_t far_blocks(int64_t bytes) { return round_up(bytes, FAR_BLOCK); }

// Of `elements` of `size` bytes that are shared out over ranks, how many each gets: whole lines of 64 bytes, so that
// the last ranks may get fewer, or none. What is stored is as long on all of them.
enum { MAX_RANKS = 4096, PART_LINE = 64 };
static inline int64_t elements_per_rank(int64_t elements, int64_t size, int64_t ranks) {
  return round_up(divide_up(elements, ranks), PART_LINE / size);
}

#endif
