// Products of matrices on the host: A is packed in tiles of rows that stay in a core's second cache, B in panels of
// two vectors' columns that stay in its first, and the sums of a panel in a buffer beside A until all of k is through.
// While a panel is used the next one is fetched. Threads take panels, or blocks of rows, as they get free; the blocks
// of k depend on k alone, and with them the order of each sum. What is packed is counted in words of 4 bytes: an f32,
// or two neighbours along k in bf16.
#include "runtime/gemm.h"

#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "runtime/library.h"
#include "support/integers.h"

// Tuned on a Xeon with AVX-512, 48 KiB of first and 2 MiB of second cache for a core (docs/performance.md).
enum {
  // of the machine (runtime/vector.inc)
  MOST_PANEL = 32,       // columns: two vectors
  MOST_TILE_ROWS = 32,   // a block is shared out evenly over its tiles
  TILE_ROWS_F32 = 14,    // the most in f32
  K_STEP = 8,            // words of the loop over k, unrolled; packed k is padded to it
  // of the caches
  K_BLOCK = 256,            // the most words of k at a time: a panel of B is 32 KiB then, two thirds of a first cache
  MOST_PACKED = 1 << 20,    // bytes of A that a thread packs at a time: half of a second cache
  LEAST_PACKED = 1 << 17,   // but no less where the operands are small
  MOST_ROWS = 73 * TILE_ROWS_F32,   // of a block, below which its sums of a panel (128 bytes a row) stay beside A
  ROWS_AHEAD = 16,                  // that packing fetches before it needs them
  // of the threads
  ROWS_OF_BLOCK = 256,              // that a block has where there are enough: one is a unit that a thread takes
  LEAST_ROWS = 8 * TILE_ROWS_F32,   // and no fewer than pay for packing a panel for them
  UNITS_OF_THREAD = 4,              // blocks for each thread, so that those that begin late or run slowly take fewer
  SPINS = 1000,                     // of a wait before the thread yields: a few microseconds
  // of what is worth it: with less, or little of one size, packing costs more than it saves
  LEAST_K = 64,
  LEAST_WORK = 1 << 21,     // m * n * k
  LEAST_SHARED = 1 << 16,   // of a small product, for more than one thread
  // of a product of few rows, whose elements are sums over neighbours of both operands
  FEW_ROWS = 16,
  DOT_ROWS = 3,
  DOT_COLUMNS = 4   // 12 sums at a time, of 16 registers with AVX2
};

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
typedef struct Tile {
  const float *a, *b;   // [k][rows], [k][PANEL]; k a multiple of K_STEP
  int64_t k;
  const float *in;   // added; NULL: nothing
  const char *c;     // where rows go at last, c_row bytes apart; NULL: not now, or not fetched
  int64_t c_row;
  float *out;
  int64_t in_row, out_row;
  const float *next;   // what is used next begins here; offsets of its lines in bytes, one for K_STEP of k
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
  void (*pack_pair)(const uint16_t *even, const uint16_t *odd, int lanes, float *to);   // bf16 alone; odd NULL: zeros
  void (*narrow)(const float *from, int n, uint16_t *to);
} Loops;

#define LOOPS "runtime/gemm_loops.inc"
#include "runtime/tile_loops.inc"

#include "runtime/gemm_amx.inc"   // of what is in the last

// NULL: none for this machine.
static const Loops *loops_of(const Gemm *g) {
  if (g->type == NNC_F32) return g->result == NNC_F32 ? loops_here() : NULL;
  return g->type == NNC_BF16 && strcmp(nnc_library_isa(), "avx512_core_amx") == 0 ? &loops_amx : NULL;
}

// How the product is cut.
typedef struct Blocking {
  const Loops *loops;
  int64_t words, k_block, chunk, chunks;   // of k, in words; a chunk is several blocks
  int64_t blocks, panels;                  // of rows; of columns
  int64_t rows;                            // of a block, at most
  bool by_rows;                            // threads take blocks of rows, else panels of a block that they share
  int64_t packed, floats;                  // of a block's packed rows; of what a thread has besides
  int64_t between;                         // floats of the sums between two chunks, where C has no room for them
  int64_t lines;                           // entries of `ahead` that differ
} Blocking;

static int size_of(const Gemm *g) { return g->type == NNC_F32 ? 4 : 2; }

// Rows that those of a block take up.
static int64_t places_of(const Loops *l, int64_t rows) { return l->whole ? round_up(rows, l->tile_rows) : rows; }

// Lines of memory that a thread fetches of a block of B.
static int64_t lines_of(const Gemm *g, const Blocking *b, int64_t *of_run) {
  int64_t k = b->k_block * b->loops->of_word, panel = b->loops->panel;
  *of_run = divide_up((g->b_col == 1 ? panel : k) * size_of(g), 64);
  return *of_run * (g->b_col == 1 ? k : panel);
}

static int64_t row_offset(const GemmRows *r, int64_t i) {
  if (!r->width) return i * r->pixel;
  int64_t line = i / r->width;
  return line / r->height * r->image + line % r->height * r->line + i % r->width * r->pixel;
}

static Blocking blocking_of(const Gemm *g, int threads) {
  const Loops *l = loops_of(g);
  Blocking b = {.loops = l, .panels = divide_up(g->n, l->panel), .by_rows = g->m > g->n};
  b.words = divide_up(g->k, l->of_word);
  b.k_block = round_up(divide_up(b.words, divide_up(b.words, l->k_most)), l->k_step);
  int64_t operands = 4 * (g->m * b.words + b.words * g->n + g->m * g->n);
  int64_t packed = larger(smaller(operands / (b.by_rows ? 2 * threads : 2), MOST_PACKED), LEAST_PACKED) / 4;
  // Few rows at a time would pack B too often, so that k is cut first.
  int64_t rows = b.by_rows
                     ? larger(smaller(g->m / (threads * UNITS_OF_THREAD), ROWS_OF_BLOCK), smaller(LEAST_ROWS, g->m))
                     : smaller(g->m, ROWS_OF_BLOCK);
  int64_t most_chunk = larger(packed / rows / b.k_block, 1) * b.k_block;
  // Sums are kept between chunks of k, unless all of a block's rows take less.
  if (g->result != NNC_F32 && g->n > b.words) most_chunk = b.words;
  b.chunks = divide_up(b.words, most_chunk);
  b.chunk = round_up(divide_up(b.words, b.chunks), b.k_block);
  b.chunks = divide_up(b.words, b.chunk);
  b.between = g->result != NNC_F32 && b.chunks > 1 ? round_up(g->m * g->n, NNC_ALIGN / 4) : 0;
  int64_t chunk = round_up(smaller(b.chunk, b.words), l->k_step);
  int64_t fit = larger(smaller(packed / chunk, MOST_ROWS), l->tile_rows);
  b.blocks = divide_up(g->m, fit);
  if (b.by_rows)
    b.blocks = larger(round_up(b.blocks, threads),
                      threads * larger(1, smaller(g->m / (threads * LEAST_ROWS), UNITS_OF_THREAD)));
  int64_t unit = places_of(l, 1);
  b.rows = divide_up(divide_up(g->m, unit), b.blocks) * unit;
  b.packed = round_up(b.rows * chunk, NNC_ALIGN / 4);
  int64_t of_run;
  b.lines = lines_of(g, &b, &of_run);
  b.floats = round_up(b.k_block * l->panel + b.rows * l->panel + b.lines + b.k_block / l->k_step * l->fetches,
                      NNC_ALIGN / 4);
  return b;
}

// Buffers of packed rows.
static int64_t buffers_of(const Blocking *b, int threads) {
  return b->by_rows ? threads : b->chunks * b->blocks > 1 ? 2 : 1;
}

static double work_of(const Gemm *g) { return (double)g->m * (double)g->n * (double)g->k; }

static bool picks_rows(const Gemm *g) {
  return g->a_rows.width || g->b_rows.width || g->c_rows.width || g->a_window || g->b_window;
}

static bool has_little_work(const Gemm *g) {
  const Loops *l = loops_of(g);
  return g->m < smaller(l->tile_rows, FEW_ROWS) || g->n < MOST_PANEL || g->k < LEAST_K || work_of(g) < LEAST_WORK;
}

// B lies transposed: to pack it for a few rows would take as long as the product.
static bool is_dots(const Gemm *g) {
  return g->type == NNC_F32 && g->m < FEW_ROWS && g->a_col == 1 && g->b_col != 1 && !picks_rows(g);
}

static bool is_small(const Gemm *g) {
  return g->type == NNC_F32 && has_little_work(g) && !picks_rows(g) && !is_dots(g);
}

bool gemm_fits(const Gemm *g) {
  bool a = g->a_col == 1 || (g->a_rows.pixel == 1 && !g->a_rows.width),
       b = g->b_col == 1 || (g->b_rows.pixel == 1 && !g->b_rows.width);
  if (!loops_of(g) || !a || !b || g->m > INT32_MAX || g->n > INT32_MAX || g->k > INT32_MAX) return false;
  if (g->type != NNC_F32 && (g->a_window || g->b_window || (g->adds && g->result != NNC_F32))) return false;
  return !has_little_work(g) || (g->type == NNC_F32 && !picks_rows(g));
}

const char *gemm_name(const Gemm *g) {
  return g->type != NNC_F32 ? "amx" : is_dots(g) ? "dots" : is_small(g) ? "plain" : "packed";
}

int64_t gemm_scratch(const Gemm *g, int threads) {
  if (is_dots(g)) return 0;
  if (is_small(g)) return g->b_col == 1 ? 0 : round_up(4 * threads * g->k * loops_here()->panel, NNC_ALIGN);
  int64_t bytes = 0;
  for (int t = 1; t <= threads; t++) {   // fewer threads have larger blocks
    Blocking b = blocking_of(g, t);
    bytes = larger(bytes, 4 * (b.packed * buffers_of(&b, t) + b.floats * t + b.between));
  }
  return bytes;
}

// Rows [row, end) of a small product's columns [column, column + columns); `packed`: these of B where they are no
// neighbours.
static void multiply_plain(const Gemm *g, int64_t row, int64_t end, int64_t column, int columns, const float *a,
                           const float *b, float *c, const float *packed) {
  const Loops *l = loops_here();
  int64_t b_step = packed ? l->panel : g->b_rows.pixel;
  for (; row < end; row += l->tile_rows)
    for (int64_t k = 0; k < g->k; k += K_BLOCK) {   // as packed ones: long sums are sums of sums
      Plain t = {.a = a + row * g->a_rows.pixel + k * g->a_col,
                 .b = (packed ? packed : b + column) + k * b_step,
                 .a_row = g->a_rows.pixel,
                 .a_step = g->a_col,
                 .b_step = b_step,
                 .k = smaller(K_BLOCK, g->k - k),
                 .c = c + row * g->c_rows.pixel + column,
                 .c_row = g->c_rows.pixel,
                 .columns = columns,
                 .adds = g->adds || k > 0};
      l->plain((int)smaller(l->tile_rows, end - row), &t);
    }
}

// A thread's share: whole tiles of rows or, where there are more columns, whole panels.
static void share_plain(const Gemm *g, int thread, int threads, const float *a, const float *b, float *c,
                        float *workspace) {
  const Loops *l = loops_here();
  bool by_rows = g->m > g->n, packs = g->b_col != 1;
  int64_t unit = by_rows ? l->tile_rows : l->panel, all = by_rows ? g->m : g->n, units = divide_up(all, unit),
          begin = units * thread / threads * unit, end = smaller(units * (thread + 1) / threads * unit, all),
          row = by_rows ? begin : 0, end_row = by_rows ? end : g->m, column = by_rows ? 0 : begin,
          end_column = by_rows ? g->n : end;
  if (begin >= end) return;
  float *packed = packs ? workspace + thread * g->k * l->panel : NULL;
  // Row by row where B lies as it is read, so that C is written along its rows.
  int64_t step = packs ? end_row - row : l->tile_rows;
  for (; row < end_row; row += step)
    for (int64_t at = column; at < end_column; at += l->panel) {
      int columns = (int)smaller(l->panel, end_column - at);
      int64_t offset[MOST_PANEL];
      for (int i = 0; i < columns; i++) offset[i] = (at + i) * g->b_col;
      if (packs) l->pack_runs[OF_B](b, offset, columns, g->k, packed, l->panel);
      multiply_plain(g, row, smaller(row + step, end_row), at, columns, a, b, c, packed);
    }
}

static void execute_plain(const Gemm *g, int threads, const float *a, const float *b, float *c, float *workspace) {
  if (threads == 1 || work_of(g) < LEAST_SHARED) {
    share_plain(g, 0, 1, a, b, c, workspace);
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int t = 0; t < threads; t++) share_plain(g, t, threads, a, b, c, workspace);
}

// Columns [column, end): a few of them at a time, which stay in the first cache while all rows go over them.
static void share_dots(const Gemm *g, int64_t column, int64_t end, const float *a, const float *b, float *c) {
  for (; column < end; column += DOT_COLUMNS)
    for (int64_t row = 0; row < g->m; row += DOT_ROWS) {
      Dots t = {.a = a + row * g->a_rows.pixel,
                .b = b + column * g->b_col,
                .a_row = g->a_rows.pixel,
                .b_row = g->b_col,
                .k = g->k,
                .c = c + row * g->c_rows.pixel + column,
                .c_row = g->c_rows.pixel,
                .adds = g->adds};
      loops_here()->dots((int)smaller(DOT_ROWS, g->m - row), (int)smaller(DOT_COLUMNS, end - column), &t);
    }
}

static void execute_dots(const Gemm *g, int threads, const float *a, const float *b, float *c) {
  if (threads == 1 || work_of(g) < LEAST_SHARED) {
    share_dots(g, 0, g->n, a, b, c);
    return;
  }
  int64_t tiles = divide_up(g->n, DOT_COLUMNS);
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int t = 0; t < threads; t++)
    share_dots(g, tiles * t / threads * DOT_COLUMNS, smaller(tiles * (t + 1) / threads * DOT_COLUMNS, g->n), a, b, c);
}

// What one thread works with.
typedef struct Worker {
  const Gemm *g;
  const Blocking *blocking;
  const void *a, *b;
  void *c;
  float *packed, *panel, *sums;
  float *between;   // NULL: C has room for sums between chunks
  GemmRows between_rows;
  int32_t *ahead;
  int64_t block, chunk;   // that `packed` holds
} Worker;

// What the threads of a product share.
typedef struct Team {
  int threads;
  atomic_int arrived, turn;
  atomic_llong tile, unit;   // taken so far
} Team;

typedef struct Rows {
  int64_t first, count, tiles;
} Rows;

static Rows rows_of_block(const Worker *w) {
  const Loops *l = w->blocking->loops;
  int64_t unit = places_of(l, 1), units = divide_up(w->g->m, unit), blocks = w->blocking->blocks;
  Rows r = {.first = units * w->block / blocks * unit};
  r.count = smaller(units * (w->block + 1) / blocks * unit, w->g->m) - r.first;
  r.tiles = divide_up(r.count, l->tile_rows);
  return r;
}

// The first row of a block's tile.
static int64_t row_of_tile(const Loops *l, const Rows *r, int64_t tile) {
  return l->whole ? smaller(tile * l->tile_rows, r->count) : r->count * tile / r->tiles;
}

// Behind k numbers.
static void zero_tail(const Loops *l, float *to, int64_t k, int64_t width) {
  int64_t words = divide_up(k, l->of_word);
  memset(to + words * width, 0, (size_t)((round_up(words, l->k_step) - words) * width) * sizeof *to);
}

static const void *numbers_at(const Gemm *g, const void *base, int64_t i) {
  return (const char *)base + i * size_of(g);
}

// Where the window stands for the i-th time: its first pixel's offset in elements, and its position in the image.
typedef struct Stand {
  int64_t offset, y, x;
} Stand;

static Stand stand_of(const GemmWindow *w, int64_t i) {
  int64_t line = i / w->places, image = line / w->lines;
  Stand s = {.y = line % w->lines * w->step[0], .x = i % w->places * w->step[1]};
  s.offset = ((image * w->height + s.y) * w->width + s.x) * w->channels;
  return s;
}

// A lane of [k][width] packed numbers from a run that lies outside of the image in part.
static void pack_part(const GemmWindow *w, const Stand *s, const GemmTap *tap, int64_t first, int64_t k,
                      const float *from, float *to, int64_t width) {
  const int64_t x = s->x + tap->x, c = w->channels;
  bool outside = s->y + tap->y < 0 || s->y + tap->y >= w->height;
  int64_t begin = outside ? k : smaller(larger(-x * c - first, 0), k),
          end = larger(smaller((w->width - x) * c - first, k), begin);
  const int64_t at = s->offset + (tap->y * w->width + tap->x) * c + first;   // perhaps outside of all images
  for (int64_t i = 0; i < k; i++) to[i * width] = i >= begin && i < end ? from[at + i] : 0;
}

// Rows of A under a window, tap by tap.
static void pack_windows(const Gemm *g, const Loops *l, const float *a, int64_t row, int rows, int64_t k0, int64_t k,
                         float *to) {
  const GemmWindow *w = g->a_window;
  Stand stand[MOST_TILE_ROWS];
  for (int r = 0; r < rows; r++) stand[r] = stand_of(w, row + r);
  for (int64_t i = 0, n; i < k; i += n, to += n * rows) {
    const GemmTap *tap = &w->tap[(k0 + i) / w->run];
    const int64_t first = (k0 + i) % w->run, pixels = w->run / w->channels;
    n = smaller(w->run - first, k - i);
    int64_t offset[MOST_TILE_ROWS];
    unsigned parts = 0;   // rows that are not whole
    for (int r = 0; r < rows; r++) {
      int64_t y = stand[r].y + tap->y, x = stand[r].x + tap->x;
      bool whole = y >= 0 && y < w->height && x >= 0 && x + pixels <= w->width;
      offset[r] = whole ? stand[r].offset + (tap->y * w->width + tap->x) * w->channels + first : 0;
      if (!whole) parts |= 1u << r;
    }
    if (parts != (1u << rows) - 1) l->pack_runs[OF_A](a, offset, rows, n, to, rows);
    for (int r = 0; parts; r++, parts >>= 1)
      if (parts & 1) pack_part(w, &stand[r], tap, first, n, a, to + r, rows);
  }
}

static void pack_tile(const Gemm *g, const Loops *l, const void *a, int64_t row, int rows, int64_t k0, int64_t k,
                      float *to) {
  if (g->a_window) {
    pack_windows(g, l, a, row, rows, k0, k, to);
  } else if (g->a_col == 1) {
    int64_t offset[MOST_TILE_ROWS];
    for (int r = 0; r < rows; r++) offset[r] = row_offset(&g->a_rows, row + r);
    l->pack_runs[OF_A](numbers_at(g, a, k0), offset, rows, k, to, rows);
  } else {
    l->pack_rows[OF_A](numbers_at(g, a, row + k0 * g->a_col), g->a_col, rows, k, to, rows);
  }
  if (!l->whole) zero_tail(l, to, k, rows);
}

// The lines of a block of B in the order in which they are fetched, as offsets from its first.
static void lay_out_ahead(Worker *w) {
  const Gemm *g = w->g;
  const Blocking *b = w->blocking;
  const Loops *l = b->loops;
  int64_t of_run, lines = lines_of(g, b, &of_run), step = size_of(g) * (g->b_col == 1 ? g->b_rows.pixel : g->b_col);
  bool known = !g->b_rows.width && !g->b_window && !g->a_window && step < INT32_MAX / larger(lines, MOST_PANEL);
  for (int64_t i = 0; i < lines + b->k_block / l->k_step * l->fetches; i++) {
    int64_t at = smaller(i, lines - 1);
    w->ahead[i] = known ? (int32_t)(at / of_run * step + at % of_run * 64) : 0;
  }
}

// Tiles [from, to) of the worker's block and chunk.
static void pack_tiles(const Worker *w, int64_t from, int64_t to) {
  const Gemm *g = w->g;
  const Blocking *b = w->blocking;
  const Loops *l = b->loops;
  Rows rows = rows_of_block(w);
  int64_t end = smaller((w->chunk + 1) * b->chunk, b->words);
  float *of_block = w->packed;
  for (int64_t k0 = w->chunk * b->chunk; k0 < end; k0 += b->k_block) {
    int64_t words = smaller(b->k_block, end - k0), padded = round_up(words, l->k_step), first_k = k0 * l->of_word,
            k = smaller(words * l->of_word, g->k - first_k);
    for (int64_t t = from; t < to; t++) {
      int64_t first = row_of_tile(l, &rows, t), height = row_of_tile(l, &rows, t + 1) - first;
      pack_tile(g, l, w->a, rows.first + first, (int)height, first_k, k, of_block + first * padded);
    }
    of_block += places_of(l, rows.count) * padded;
  }
}

static void zero_lanes(float *to, int64_t width, int lanes, int64_t k) {
  for (int64_t i = 0; i < k; i++) memset(to + i * width, 0, (size_t)lanes * sizeof *to);
}

// Columns of a B under a window: some channels of one pixel at a time, line by line.
static void pack_window_columns(const GemmWindow *w, const Loops *l, const float *b, int64_t column, int columns,
                                int64_t k0, int64_t k, float *to) {
  for (int at = 0, lanes; at < columns; at += lanes) {
    const GemmTap *tap = &w->tap[(column + at) / w->run];
    const int64_t within = (column + at) % w->run, dx = tap->x + within / w->channels, channel = within % w->channels;
    lanes = (int)smaller(w->channels - channel, columns - at);
    for (int64_t i = 0, run; i < k; i += run) {
      const Stand s = stand_of(w, k0 + i);
      run = smaller(w->places - (k0 + i) % w->places, k - i);
      float *line = to + i * l->panel + at;
      // of the places of this run, those whose pixel lies in the image
      bool outside = s.y + tap->y < 0 || s.y + tap->y >= w->height;
      int64_t x = s.x + dx,
              begin = outside ? run
                      : x < 0 ? smaller(divide_up(-x, w->step[1]), run)
                              : 0,
              end = larger(smaller(x < w->width ? divide_up(w->width - x, w->step[1]) : 0, run), begin);
      zero_lanes(line, l->panel, lanes, begin);
      const int64_t offset = s.offset + (tap->y * w->width + dx + begin * w->step[1]) * w->channels + channel;
      if (begin < end)
        l->pack_rows[OF_B](b + offset, w->step[1] * w->channels, lanes, end - begin, line + begin * l->panel, l->panel);
      zero_lanes(line + end * l->panel, l->panel, lanes, run - end);
    }
  }
}

// Rows of a B that an A under a window is multiplied by, tap by tap.
static void pack_rows_of_taps(const Gemm *g, const Loops *l, const float *b, int64_t column, int columns, int64_t k0,
                              int64_t k, float *to) {
  const GemmWindow *w = g->a_window;
  for (int64_t i = 0, n; i < k; i += n) {
    int64_t first = (k0 + i) % w->run, row = w->tap[(k0 + i) / w->run].row + first;
    n = smaller(w->run - first, k - i);
    l->pack_rows[OF_B](b + column + row * g->b_rows.pixel, g->b_rows.pixel, columns, n, to + i * l->panel, l->panel);
  }
}

// Rows of B that are picked from an image, line by line.
static void pack_picked_rows(const Gemm *g, const Loops *l, const void *b, int64_t column, int columns, int64_t k0,
                             int64_t k, float *to) {
  for (int64_t i = 0, run; i < k; i += run, to += divide_up(run, l->of_word) * l->panel) {
    const int64_t left = smaller(g->b_rows.width - (k0 + i) % g->b_rows.width, k - i);
    const void *line = numbers_at(g, b, column + row_offset(&g->b_rows, k0 + i));
    run = left == k - i ? left : larger(left / l->of_word * l->of_word, l->of_word);
    if (run <= left) l->pack_rows[OF_B](line, g->b_rows.pixel, columns, run, to, l->panel);
    else l->pack_pair(line, numbers_at(g, b, column + row_offset(&g->b_rows, k0 + i + 1)), columns, to);
  }
}

// k0: of numbers.
static void pack_panel(const Worker *w, int64_t column, int columns, int64_t k0, int64_t k) {
  const Gemm *g = w->g;
  const Loops *l = w->blocking->loops;
  float *to = w->panel;
  if (g->b_window) {
    pack_window_columns(g->b_window, l, w->b, column, columns, k0, k, to);
  } else if (g->a_window) {
    pack_rows_of_taps(g, l, w->b, column, columns, k0, k, to);
  } else if (g->b_col != 1) {
    int64_t offset[MOST_PANEL];
    for (int i = 0; i < columns; i++) offset[i] = (column + i) * g->b_col;
    l->pack_runs[OF_B](numbers_at(g, w->b, k0), offset, columns, k, to, l->panel);
  } else if (!g->b_rows.width) {
    l->pack_rows[OF_B](numbers_at(g, w->b, column + k0 * g->b_rows.pixel), g->b_rows.pixel, columns, k, to, l->panel);
  } else {
    pack_picked_rows(g, l, w->b, column, columns, k0, k, to);
  }
  zero_tail(l, to, k, l->panel);
}

// Where rows of a panel's sums lie between chunks of k, or at last.
typedef struct Sums {
  char *first;
  const GemmRows *rows;
  int64_t row, size;   // of the first; bytes of a number
} Sums;

static Sums sums_at(const Worker *w, int64_t row, int64_t column, bool last) {
  const Gemm *g = w->g;
  bool between = w->between && !last;
  Sums s = {.rows = between ? &w->between_rows : &g->c_rows,
            .row = row,
            .size = g->result == NNC_F32 || between ? 4 : 2};
  s.first = (char *)(between ? w->between : w->c) + (row_offset(s.rows, row) + column) * s.size;
  return s;
}

static void *row_of_sums(const Sums *s, int64_t i) {
  int64_t apart = s->rows->width ? row_offset(s->rows, s->row + i) - row_offset(s->rows, s->row) : i * s->rows->pixel;
  return s->first + apart * s->size;
}

// `rows` rows from there into the buffer of sums or back, where tiles cannot write there themselves.
static void move_sums(const Loops *l, const Sums *s, float *sums, int64_t rows, int columns, bool out) {
  for (int64_t r = 0; r < rows; r++, sums += l->panel) {
    void *there = row_of_sums(s, r);
    if (s->size == 2) l->narrow(sums, columns, there);
    else memcpy(out ? there : sums, out ? sums : there, (size_t)columns * sizeof *sums);
  }
}

// The packed block of rows times one panel.
static void multiply_panel(const Worker *w, int64_t panel, int64_t next_panel) {
  const Gemm *g = w->g;
  const Blocking *b = w->blocking;
  const Loops *l = b->loops;
  Rows rows = rows_of_block(w);
  int64_t begin = w->chunk * b->chunk, end = smaller(begin + b->chunk, b->words), width = l->panel,
          column = panel * width;
  int columns = (int)smaller(width, g->n - column);
  bool whole_columns = columns == width && !g->c_rows.width && g->result == NNC_F32, ends = end == b->words;
  bool adds = begin > 0 || g->adds;   // to what lies in C
  const float *a = w->packed;
  for (int64_t k0 = begin; k0 < end; k0 += b->k_block) {
    int64_t words = smaller(b->k_block, end - k0), steps = divide_up(words, l->k_step), first_k = k0 * l->of_word;
    bool first = k0 == begin, last = k0 + b->k_block >= end;
    pack_panel(w, column, columns, first_k, smaller(words * l->of_word, g->k - first_k));
    int64_t first_next = last ? begin * l->of_word : first_k + b->k_block * l->of_word,
            ahead = (last ? next_panel : panel) * width * g->b_col + first_next * g->b_rows.pixel;
    for (int64_t t = 0; t < rows.tiles; t++) {
      int64_t from = row_of_tile(l, &rows, t), to = row_of_tile(l, &rows, t + 1), height = to - from;
      float *sums = w->sums + from * width;
      bool in_place = whole_columns && (!l->whole || height == l->tile_rows);
      float *of_c = in_place ? (float *)w->c + (rows.first + from) * g->c_rows.pixel + column : NULL;
      Sums before = sums_at(w, rows.first + from, column, false), after = sums_at(w, rows.first + from, column, ends);
      if (first && adds && !in_place) move_sums(l, &before, sums, height, columns, false);
      Tile tile = {.a = a,
                   .b = w->panel,
                   .k = steps * l->k_step,
                   .in = first && !adds      ? NULL
                         : first && in_place ? of_c
                                             : sums,
                   .in_row = first && in_place ? g->c_rows.pixel : width,
                   .out = last && in_place ? of_c : sums,
                   .out_row = last && in_place ? g->c_rows.pixel : width,
                   .next = numbers_at(g, w->b, g->b_window ? 0 : ahead),
                   .c = last && !after.rows->width ? after.first : NULL,
                   .c_row = after.rows->pixel * after.size,
                   .ahead = w->ahead + smaller(t * steps * l->fetches, b->lines)};
      l->tile((int)height, &tile);
      if (last && !in_place) move_sums(l, &after, sums, height, columns, true);
      a += places_of(l, height) * steps * l->k_step;
    }
  }
}

// Of a count that all threads draw from, the next number if it lies in [begin, end); a number beyond is kept for later.
// -1: none.
static int64_t take(atomic_llong *next, int64_t *held, int64_t begin, int64_t end) {
  if (*held < begin) *held = atomic_fetch_add_explicit(next, 1, memory_order_relaxed);
  if (*held >= end) return -1;
  int64_t number = *held - begin;
  *held = -1;
  return number;
}

static void wait_for_all(Team *team) {
  int turn = atomic_load_explicit(&team->turn, memory_order_acquire);
  if (atomic_fetch_add_explicit(&team->arrived, 1, memory_order_acq_rel) + 1 == team->threads) {
    atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
    atomic_store_explicit(&team->turn, turn + 1, memory_order_release);
    return;
  }
  for (int spins = 0; atomic_load_explicit(&team->turn, memory_order_acquire) == turn; spins++) {
    if (spins < SPINS) __builtin_ia32_pause();
    else sched_yield();
  }
}

// Threads share the packed rows and take panels. Who has no panel left packs for the next phase, into the other of two
// buffers.
static void by_columns(Worker *w, Team *team, float *packed) {
  const Blocking *b = w->blocking;
  int64_t phases = b->chunks * b->blocks, tiles = divide_up(b->rows, b->loops->tile_rows), held_tile = -1,
          held_panel = -1, i;
  for (int64_t phase = 0; phase < phases; phase++) {
    w->chunk = phase / b->blocks;
    w->block = phase % b->blocks;
    w->packed = packed + phase % 2 * b->packed;
    int64_t of_block = rows_of_block(w).tiles;
    while ((i = take(&team->tile, &held_tile, phase * tiles, (phase + 1) * tiles)) >= 0)
      if (i < of_block) pack_tiles(w, i, i + 1);
    wait_for_all(team);
    while ((i = take(&team->unit, &held_panel, phase * b->panels, (phase + 1) * b->panels)) >= 0)
      multiply_panel(w, i, (i + team->threads) % b->panels);
  }
}

// Threads take blocks of rows.
static void by_rows(Worker *w, Team *team) {
  const Blocking *b = w->blocking;
  int64_t held = -1;
  while ((w->block = take(&team->unit, &held, 0, b->blocks)) >= 0)
    for (w->chunk = 0; w->chunk < b->chunks; w->chunk++) {
      pack_tiles(w, 0, rows_of_block(w).tiles);
      for (int64_t panel = 0; panel < b->panels; panel++) multiply_panel(w, panel, (panel + 1) % b->panels);
    }
}

void gemm_execute(const Gemm *g, int threads, const void *a, const void *b, void *c, void *workspace) {
  if (is_dots(g)) {
    execute_dots(g, threads, a, b, c);
    return;
  }
  if (is_small(g)) {
    execute_plain(g, threads, a, b, c, workspace);
    return;
  }
  Blocking blocking = blocking_of(g, threads);
  Team team = {.threads = threads};
#pragma omp parallel num_threads(threads)
  {
#pragma omp single
    team.threads = omp_get_num_threads();
    int thread = omp_get_thread_num();
    float *packed = workspace,
          *own = packed + blocking.packed * buffers_of(&blocking, threads) + thread * blocking.floats;
    Worker w = {.g = g,
                .blocking = &blocking,
                .a = a,
                .b = b,
                .c = c,
                .packed = packed + (blocking.by_rows ? thread * blocking.packed : 0),
                .panel = own};
    w.between_rows.pixel = g->n;
    if (blocking.between)
      w.between = packed + blocking.packed * buffers_of(&blocking, threads) + threads * blocking.floats;
    w.sums = w.panel + blocking.k_block * blocking.loops->panel;
    w.ahead = (int32_t *)(void *)(w.sums + blocking.rows * blocking.loops->panel);
    lay_out_ahead(&w);
    if (g->clears_c) {
#pragma omp for schedule(static)
      for (int64_t i = 0; i < g->c_elements; i++) {
        if (g->result == NNC_F32) ((float *)c)[i] = 0;
        else ((uint16_t *)c)[i] = 0;
      }
    }
    if (blocking.loops->start) blocking.loops->start();
    if (blocking.by_rows) by_rows(&w, &team);
    else by_columns(&w, &team, packed);
    if (blocking.loops->stop) blocking.loops->stop();
  }
}
#else
bool gemm_fits(const Gemm *g) { return (void)g, false; }
const char *gemm_name(const Gemm *g) { return (void)g, "none"; }
int64_t gemm_scratch(const Gemm *g, int threads) { return (void)g, (void)threads, 0; }
void gemm_execute(const Gemm *g, int threads, const void *a, const void *b, void *c, void *workspace) {
  (void)g, (void)threads, (void)a, (void)b, (void)c, (void)workspace;
}
#endif
