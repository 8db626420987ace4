// Products of f32 matrices by own loops (gemm.c), for AVX2 and AVX-512: what linear layers and some 1x1 convolutions
// are computed by. Operands are packed where that is worth it, else read where they lie.
#ifndef NNC_RUNTIME_GEMM_H
#define NNC_RUNTIME_GEMM_H

#include <stdbool.h>
#include <stdint.h>

// Where the i-th of many rows begins: of an image's pixels those that a strided convolution reads, else every one,
// `pixel` elements apart.
typedef struct GemmRows {
  int64_t pixel;           // elements from a row to the next
  int64_t line, image;     // elements from a line of pixels to the next, from an image to the next
  int64_t width, height;   // pixels of a line, lines of an image; width 0: rows are `pixel` apart throughout
} GemmRows;

// C (m x n, row-major) = A (m x k) B (k x n), or with `adds` C + A B. Of A's two strides one is 1, and of B's.
typedef struct Gemm {
  int64_t m, n, k;
  GemmRows a_rows, b_rows, c_rows;   // by m, k, m
  int64_t a_col, b_col;
  bool adds;            // not with clears_c
  bool clears_c;        // c_rows leaves rows out: they become 0
  int64_t c_elements;   // of the whole of C, where clears_c
} Gemm;

// Whether gemm_execute can compute it here; of small products not those that pick rows.
bool gemm_fits(const Gemm *g);
const char *gemm_name(const Gemm *g);   // "packed", "plain" or "dots", of one that fits
// Bytes of workspace for `threads` threads, or fewer.
int64_t gemm_scratch(const Gemm *g, int threads);
// Each element of C is a sum in one order, whatever the number of threads. workspace: gemm_scratch bytes, aligned to
// NNC_ALIGN. Source of the scheme: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).
void gemm_execute(const Gemm *g, int threads, const float *a, const float *b, float *c, void *workspace);

#endif
