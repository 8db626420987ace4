// How random numbers are laid out: shared by the gradients' formulas, the kernels and the runtime.
#ifndef NNC_SUPPORT_DRAWS_H
#define NNC_SUPPORT_DRAWS_H

#include <stdint.h>

#include "support/integers.h"

// Words that one evaluation of Philox 4x32 gives. Draw i is word i % 4 of block i / 4; of f64 that is the upper half,
// so that all types draw the same but for digits, and the lower one is the same word of the block with DRAW_LOWER_HALF.
enum { DRAW_BLOCK = 4 };
// Bits of a block's high word.
#define DRAW_LOWER_HALF 0x40000000u
#define DRAW_SECOND 0x80000000u   // of another draw of the same key

// The draws that attention keeps for a query: of its keys, and of as many more as fill the last block.
static inline int64_t attention_row_draws(int64_t n_keys) { return round_up(n_keys, DRAW_BLOCK); }

#endif
