// Products of matrices by own loops (gemm.c): of f32 with AVX2 and AVX-512, of bf16 with AMX. What linear layers and
// some convolutions are computed by. Operands are packed where that is worth it, else read where they lie.
#ifndef NNC_RUNTIME_GEMM_H
#define NNC_RUNTIME_GEMM_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/program.h"

// Where the i-th of many rows begins: of an image's pixels those that a strided convolution reads, else every one,
// `pixel` elements apart.
typedef struct GemmRows {
  int64_t pixel;           // elements from a row to the next
  int64_t line, image;     // elements from a line of pixels to the next, from an image to the next
  int64_t width, height;   // pixels of a line, lines of an image; width 0: rows are `pixel` apart throughout
} GemmRows;

// An image under a window: row i of the matrix is what the window covers where it stands for the i-th time, the columns
// are its taps, `run` neighbours each. What it covers outside of the image is 0.
typedef struct GemmTap {
  int64_t y, x;   // pixels from where the window stands to the tap's first
  int64_t row;    // of B that the tap's first element is multiplied by; where A is under the window
} GemmTap;
enum { GEMM_MOST_TAPS = 64 };
typedef struct GemmWindow {
  int64_t height, width, channels;   // of an image; images lie one after another
  int64_t lines, places;             // of an image, on which it stands; of a line
  int64_t step[2];                   // pixels from a line of places to the next, from a place to the next
  int64_t run;                       // whole pixels, neighbours in a line
  int n_taps;
  GemmTap tap[GEMM_MOST_TAPS];
} GemmWindow;

// C (m x n, row-major) = A (m x k) B (k x n), or with `adds` C + A B. Of A's two strides one is 1, and of B's.
typedef struct Gemm {
  NncDtype type, result;   // of A and B, of C: f32, or bf16 with sums in f32 and either
  int64_t m, n, k;
  GemmRows a_rows, b_rows, c_rows;   // by m, k, m
  int64_t a_col, b_col;
  bool adds;            // not with clears_c, nor to bf16
  bool clears_c;        // c_rows leaves rows out: they become 0
  int64_t c_elements;   // of the whole of C, where clears_c
  // B stays the same from one execution to the next, packed in the workspace. Where gemm_keeps_b alone.
  bool keeps_b;
  // A, or B, is read through it, not by its rows and columns. b_col is 1 then, with a_window a_col, too. a_window: f32
  // alone.
  const GemmWindow *a_window, *b_window;   // Borrowed
} Gemm;

// Whether gemm_execute can compute it here; of small products not those that pick rows, nor those of bf16.
bool gemm_fits(const Gemm *g);
const char *gemm_name(const Gemm *g);          // "packed", "plain", "dots" or "amx", of one that fits
const char *gemm_packed_name(NncDtype type);   // of those that are packed
// Whether B can stay packed: of a packed product whose threads take panels of columns.
bool gemm_keeps_b(const Gemm *g);
// Bytes of workspace for `threads` threads, or fewer.
int64_t gemm_scratch(const Gemm *g, int threads);
// Each element of C is a sum in one order, whatever the number of threads. workspace: gemm_scratch bytes, aligned to
// NNC_ALIGN; with keeps_b and `again` as the last execution with this B left it. Source of the scheme: Goto and van de
// Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).
void gemm_execute(const Gemm *g, int threads, const void *a, const void *b, void *c, void *workspace, bool again);

#endif
