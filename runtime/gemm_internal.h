// What the files of gemm.h share: gemm.c (blocks and threads), gemm_pack.c, gemm_small.c and gemm_loops.c.
#ifndef NNC_RUNTIME_GEMM_INTERNAL_H
#define NNC_RUNTIME_GEMM_INTERNAL_H

#include "runtime/gemm.h"
#include "support/integers.h"

// Tuned on a Xeon with AVX-512, 48 KiB of first and 2 MiB of second cache for a core (docs/performance.md).
enum {
  // of the machine (runtime/vector.inc)
  MOST_PANEL = 32,       // columns: two vectors
  MOST_TILE_ROWS = 32,   // a block of f32 is shared out evenly over its tiles
  K_STEP = 8,            // words of the loop over k of f32, unrolled
  // of the caches
  K_BLOCK = 256,     // the most numbers of k at a time in f32: a panel of B is 32 KiB then, two thirds of a first cache
  ROWS_AHEAD = 16,   // that packing fetches before it needs them
  // of a product of few rows, whose elements are sums over neighbours of both operands
  FEW_ROWS = 16,
  DOT_ROWS = 3,
  DOT_COLUMNS = 4   // 12 sums at a time, of 16 registers with AVX2
};

typedef struct Tile {
  const float *a, *b;   // [k][rows] (AMX: gemm_amx.inc), [k][PANEL]
  int64_t k;            // words, a multiple of k_step, to which packing pads it
  const float *in;      // added; NULL: nothing
  const char *c;        // where rows go at last, c_row bytes apart; NULL: not now, or not fetched
  int64_t c_row;
  float *out;
  int64_t in_row, out_row;
  const float *next;   // what is used next begins here; offsets of its lines in bytes, `fetches` for each k_step
  const int32_t *ahead;
} Tile;

// A tile of a small product, whose operands are read where they lie.
typedef struct Plain {
  const float *a, *b;   // of columns that are no neighbours a packed copy
  int64_t a_row, a_step, b_step, k;
  float *c;
  int64_t c_row;
  int columns;
  bool adds;
} Plain;

// A tile of a product of few rows: c[r][j] = sum over k of a[r][k] b[j][k].
typedef struct Dots {
  const float *a, *b;
  int64_t a_row, b_row, k;
  float *c;
  int64_t c_row;
  bool adds;
} Dots;

// Packs k numbers of each of `lanes` rows or columns: lane i is a run of neighbours that begins at from + offset[i];
// or each of k is a run of neighbouring lanes, `step` apart. Both count numbers, not words.
typedef void (*PackRuns)(const void *from, const int64_t *offset, int lanes, int64_t k, float *to, int64_t width);
typedef void (*PackRows)(const void *from, int64_t step, int lanes, int64_t k, float *to, int64_t width);
enum { OF_A, OF_B };

// The loops for one instruction set.
typedef struct Loops {
  int panel, tile_rows, k_step, k_most;   // words of k in a step of the loop, in a block
  int of_word;                            // numbers
  int fetches;                            // lines of what is used next, for each k_step
  bool whole;                           // a tile takes up tile_rows rows of A and of the sums, also where it has fewer
  void (*start)(void), (*stop)(void);   // of each thread; NULL: nothing to be done
  void (*tile)(int rows, const Tile *t);
  void (*plain)(int rows, const Plain *t);   // f32 alone, as dots
  void (*dots)(int rows, int columns, const Dots *t);
  PackRuns pack_runs[2];
  PackRows pack_rows[2];
  // k rows of `lanes` numbers as they are, `step` and `width` apart
  void (*copy_rows)(const void *from, int64_t step, int lanes, int64_t k, void *to, int64_t width);
  void (*pack_pair)(const uint16_t *even, const uint16_t *odd, int lanes, float *to);   // bf16 alone; odd NULL: zeros
  void (*narrow)(const float *from, int n, uint16_t *to);
} Loops;

// Of the product's type; NULL: none for this machine.
const Loops *gemm_loops(const Gemm *g);

static inline int gemm_size(const Gemm *g) { return g->type == NNC_F32 ? 4 : 2; }   // bytes of a number of A or B
static inline const void *gemm_at(const Gemm *g, const void *base, int64_t i) {
  return (const char *)base + i * gemm_size(g);
}

static inline int64_t gemm_row(const GemmRows *r, int64_t i) {
  if (!r->width) return i * r->pixel;
  int64_t line = i / r->width;
  return line / r->height * r->image + line % r->height * r->line + i % r->width * r->pixel;
}

// In gemm_pack.c. k0 and k count numbers.
void gemm_pack_tile(const Gemm *g, const Loops *l, const void *a, int64_t row, int rows, int64_t k0, int64_t k,
                    float *to);
void gemm_pack_panel(const Gemm *g, const Loops *l, const void *b, int64_t column, int columns, int64_t k0, int64_t k,
                     float *to);

// In gemm_small.c: operands read where they lie.
int64_t gemm_plain_scratch(const Gemm *g, int threads);
void gemm_plain(const Gemm *g, int threads, const float *a, const float *b, float *c, float *workspace);
void gemm_dots(const Gemm *g, int threads, const float *a, const float *b, float *c);

#endif
