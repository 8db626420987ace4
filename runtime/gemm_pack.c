// Packs tiles of A and panels of B (gemm.c), from matrices as they lie, rows picked from images, and images under a
// window.
#include <string.h>

#include "runtime/gemm_internal.h"

// Behind k numbers.
static void zero_tail(const Loops *l, float *to, int64_t k, int64_t width) {
  int64_t words = divide_up(k, l->of_word);
  memset(to + words * width, 0, (size_t)((round_up(words, l->k_step) - words) * width) * sizeof *to);
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

void gemm_pack_tile(const Gemm *g, const Loops *l, const void *a, int64_t row, int rows, int64_t k0, int64_t k,
                    float *to) {
  if (g->a_window) {
    pack_windows(g, l, a, row, rows, k0, k, to);
  } else if (g->a_col == 1) {
    int64_t offset[MOST_TILE_ROWS];
    for (int r = 0; r < rows; r++) offset[r] = gemm_row(&g->a_rows, row + r);
    l->pack_runs[OF_A](gemm_at(g, a, k0), offset, rows, k, to, rows);
  } else {
    l->pack_rows[OF_A](gemm_at(g, a, row + k0 * g->a_col), g->a_col, rows, k, to, rows);
  }
  if (!l->whole) zero_tail(l, to, k, rows);
}

// Lanes of `k` rows that lie `width` numbers apart.
static void zero_lanes(const Gemm *g, char *to, int64_t width, int lanes, int64_t k) {
  const int64_t size = gemm_size(g);
  for (int64_t i = 0; i < k; i++) memset(to + i * width * size, 0, (size_t)(lanes * size));
}

// Columns of a B under a window, k rows of l->panel numbers: some channels of one pixel at a time, line by line.
static void copy_window_columns(const Gemm *g, const Loops *l, const void *b, int64_t column, int columns, int64_t k0,
                                int64_t k, char *to) {
  const GemmWindow *w = g->b_window;
  const int64_t row = l->panel * gemm_size(g);
  for (int at = 0, lanes; at < columns; at += lanes) {
    const GemmTap *tap = &w->tap[(column + at) / w->run];
    const int64_t within = (column + at) % w->run, dx = tap->x + within / w->channels, channel = within % w->channels;
    lanes = (int)smaller(w->channels - channel, columns - at);
    for (int64_t i = 0, run; i < k; i += run) {
      const Stand s = stand_of(w, k0 + i);
      run = smaller(w->places - (k0 + i) % w->places, k - i);
      char *line = to + i * row + at * gemm_size(g);
      // of the places of this run, those whose pixel lies in the image
      bool outside = s.y + tap->y < 0 || s.y + tap->y >= w->height;
      int64_t x = s.x + dx,
              begin = outside ? run
                      : x < 0 ? smaller(divide_up(-x, w->step[1]), run)
                              : 0,
              end = larger(smaller(x < w->width ? divide_up(w->width - x, w->step[1]) : 0, run), begin);
      zero_lanes(g, line, l->panel, lanes, begin);
      const int64_t offset = s.offset + (tap->y * w->width + dx + begin * w->step[1]) * w->channels + channel;
      if (begin < end)
        l->copy_rows(gemm_at(g, b, offset), w->step[1] * w->channels, lanes, end - begin, line + begin * row, l->panel);
      zero_lanes(g, line + end * row, l->panel, lanes, run - end);
    }
  }
}

// The same packed: pairs by way of a strip that stays in the first cache.
static void pack_window_columns(const Gemm *g, const Loops *l, const void *b, int64_t column, int columns, int64_t k0,
                                int64_t k, float *to) {
  if (l->of_word == 1) {
    copy_window_columns(g, l, b, column, columns, k0, k, (char *)to);
    return;
  }
  enum { STRIP = 128 };
  uint16_t strip[STRIP * MOST_PANEL];
  for (int64_t i = 0, n; i < k; i += n, to += n / l->of_word * l->panel) {
    n = smaller(STRIP, k - i);
    copy_window_columns(g, l, b, column, columns, k0 + i, n, (char *)strip);
    l->pack_rows[OF_B](strip, l->panel, columns, n, to, l->panel);
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
    const void *line = gemm_at(g, b, column + gemm_row(&g->b_rows, k0 + i));
    run = left == k - i ? left : larger(left / l->of_word * l->of_word, l->of_word);
    if (run <= left) l->pack_rows[OF_B](line, g->b_rows.pixel, columns, run, to, l->panel);
    else l->pack_pair(line, gemm_at(g, b, column + gemm_row(&g->b_rows, k0 + i + 1)), columns, to);
  }
}

void gemm_pack_panel(const Gemm *g, const Loops *l, const void *b, int64_t column, int columns, int64_t k0, int64_t k,
                     float *to) {
  if (g->b_window) {
    pack_window_columns(g, l, b, column, columns, k0, k, to);
  } else if (g->a_window) {
    pack_rows_of_taps(g, l, b, column, columns, k0, k, to);
  } else if (g->b_col != 1) {
    int64_t offset[MOST_PANEL];
    for (int i = 0; i < columns; i++) offset[i] = (column + i) * g->b_col;
    l->pack_runs[OF_B](gemm_at(g, b, k0), offset, columns, k, to, l->panel);
  } else if (!g->b_rows.width) {
    l->pack_rows[OF_B](gemm_at(g, b, column + k0 * g->b_rows.pixel), g->b_rows.pixel, columns, k, to, l->panel);
  } else {
    pack_picked_rows(g, l, b, column, columns, k0, k, to);
  }
  zero_tail(l, to, k, l->panel);
}
