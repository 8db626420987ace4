// Small products of f32 (gemm.h), whose operands are read where they lie, and those of a few rows.
#include <stddef.h>

#include "runtime/gemm_internal.h"

enum { LEAST_SHARED = 1 << 16 };   // m * n * k, for more than one thread

static bool is_shared(const Gemm *g, int threads) {
  return threads > 1 && (double)g->m * (double)g->n * (double)g->k >= LEAST_SHARED;
}

int64_t gemm_plain_scratch(const Gemm *g, int threads) {
  return g->b_col == 1 ? 0 : round_up(4 * threads * g->k * gemm_loops(g)->panel, NNC_ALIGN);
}

// Rows [row, end) of a small product's columns [column, column + columns); `packed`: these of B where they are no
// neighbours.
static void multiply_plain(const Gemm *g, int64_t row, int64_t end, int64_t column, int columns, const float *a,
                           const float *b, float *c, const float *packed) {
  const Loops *l = gemm_loops(g);
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
  const Loops *l = gemm_loops(g);
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

void gemm_plain(const Gemm *g, int threads, const float *a, const float *b, float *c, float *workspace) {
  if (!is_shared(g, threads)) {
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
      gemm_loops(g)->dots((int)smaller(DOT_ROWS, g->m - row), (int)smaller(DOT_COLUMNS, end - column), &t);
    }
}

void gemm_dots(const Gemm *g, int threads, const float *a, const float *b, float *c) {
  if (!is_shared(g, threads)) {
    share_dots(g, 0, g->n, a, b, c);
    return;
  }
  int64_t tiles = divide_up(g->n, DOT_COLUMNS);
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int t = 0; t < threads; t++)
    share_dots(g, tiles * t / threads * DOT_COLUMNS, smaller(tiles * (t + 1) / threads * DOT_COLUMNS, g->n), a, b, c);
}
