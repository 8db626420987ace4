// Own convolutions and matrix products: for f64, which oneDNN lacks, and where oneDNN has nothing better than its
// reference. All are one blocked product C[m, n] = sum over k of A[m, k] B[k, n] whose operands are read through index
// maps into packed panels (an im2col that never exists as a whole). One thread makes one tile of C from the first k to
// the last, so that the order of additions, and with it every bit of the result, is the same for any number of threads.
#include <string.h>

#include "runtime/library_internal.h"

enum { TILE_M = 64, TILE_N = 64, TILE_K = 64, STRIP = 16 };

typedef struct Place {
  int64_t y, x, offset;
} Place;

// An index i = (i2 * size1 + i1) * size0 + i0, and where it leads: an offset in elements and a position in an image.
typedef struct Map {
  int64_t size1, size0;
  int64_t stride2, stride1, stride0;
  int64_t y, y_step, x, x_step;   // y + i1 * y_step, x + i0 * x_step
} Map;

typedef struct Operand {
  const void *base;
  int64_t group_stride;
  Map outer, inner;   // of m (or n) and of k; places add up
  bool is_window;     // the place is a pixel that may lie outside the image
  int64_t step[2];    // transposed convolution: only every step-th position exists; 1 otherwise
  int64_t height, width, y_stride, x_stride;
} Operand;

typedef struct Product {
  int64_t groups, m, n, k;
  Operand a, b;
  void *c;
  int64_t c_group_stride;
  Map c_rows, c_cols;
} Product;

static inline Place map_place(const Map *map, int64_t i) {
  int64_t i0 = i % map->size0, rest = i / map->size0, i1 = rest % map->size1, i2 = rest / map->size1;
  return (Place){map->y + i1 * map->y_step, map->x + i0 * map->x_step,
                 i2 * map->stride2 + i1 * map->stride1 + i0 * map->stride0};
}

// Offset of a pixel, or -1 outside the image and between the positions of a transposed convolution.
static inline int64_t window_pixel(const Operand *o, int64_t y, int64_t x) {
  if (y < 0 || x < 0) return -1;
  if (o->step[0] > 1 || o->step[1] > 1) {
    if (y % o->step[0] || x % o->step[1]) return -1;
    y /= o->step[0];
    x /= o->step[1];
  }
  return y < o->height && x < o->width ? y * o->y_stride + x * o->x_stride : -1;
}

static inline int64_t tile_count(int64_t n, int64_t tile) { return (n + tile - 1) / tile; }
static inline int64_t tile_size(int64_t n, int64_t first, int64_t tile) { return n - first < tile ? n - first : tile; }

// The library is built for the baseline processor; this one loop is worth its own versions. Sanitizers run before the
// choice could be made.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define CLONES __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define CLONES
#endif

#define T float
#define NAME(x) x##_f32
#include "runtime/direct_loops.inc"
#undef T
#undef NAME
#define T double
#define NAME(x) x##_f64
#include "runtime/direct_loops.inc"

static void multiply(const Product *p, NncDtype dtype) {
  int64_t tiles = p->groups * tile_count(p->m, TILE_M) * tile_count(p->n, TILE_N);
#pragma omp parallel for schedule(dynamic)
  for (int64_t t = 0; t < tiles; t++) {
    if (dtype == NNC_F64) make_tile_f64(p, t);
    else make_tile_f32(p, t);
  }
}

static Map map_linear(int64_t stride) { return (Map){.size1 = 1, .size0 = 1, .stride2 = stride}; }

void direct_matmul(const NncMatmul *m, void *const buffers[3]) {
  Product p = {.groups = m->batch,
               .m = m->m,
               .n = m->n,
               .k = m->k,
               .c = buffers[2],
               .c_group_stride = m->c_batch,
               .c_rows = map_linear(m->c_row),
               .c_cols = map_linear(1)};
  p.a = (Operand){.base = buffers[0],
                  .group_stride = m->a_batch,
                  .outer = map_linear(m->a_row),
                  .inner = map_linear(m->a_col)};
  p.b = (Operand){.base = buffers[1],
                  .group_stride = m->b_batch,
                  .outer = map_linear(m->b_col),
                  .inner = map_linear(m->b_row)};
  multiply(&p, m->dtype);
}

// Strides of an activation in elements.
typedef struct Image {
  int64_t n, c, y, x;
} Image;

static Image image_strides(bool channels_last, int64_t c, int64_t h, int64_t w) {
  return channels_last ? (Image){h * w * c, 1, w * c, c} : (Image){c * h * w, h * w, w, 1};
}

// Index (n, y, x) of an h by w image, as offsets only.
static Map map_pixels(Image s, int64_t h, int64_t w) {
  return (Map){.size1 = h, .size0 = w, .stride2 = s.n, .stride1 = s.y, .stride0 = s.x};
}

void direct_conv(const NncConv *c, void *const buffers[3]) {
  int64_t ci = c->c / c->groups, oi = c->o / c->groups, taps = c->kh * c->kw, per_output = ci * taps;
  Image xs = image_strides(c->channels_last, c->c, c->h, c->w),
        ys = image_strides(c->channels_last, c->o, c->oh, c->ow);
  Map out_pixels = map_pixels(ys, c->oh, c->ow), in_pixels = map_pixels(xs, c->h, c->w);
  // Reading x through the window: output position (n, oh, ow) and tap (c, kh, kw) add up to a pixel of x.
  Map window_position = {.size1 = c->oh,
                         .size0 = c->ow,
                         .stride2 = xs.n,
                         .y = -c->pad[0],
                         .y_step = c->stride[0],
                         .x = -c->pad[2],
                         .x_step = c->stride[1]};
  Map window_tap = {.size1 = c->kh,
                    .size0 = c->kw,
                    .stride2 = xs.c,
                    .y_step = c->dilation[0],
                    .x_step = c->dilation[1]};
  Operand window = {.group_stride = ci * xs.c,
                    .outer = window_position,
                    .inner = window_tap,
                    .is_window = true,
                    .step = {1, 1},
                    .height = c->h,
                    .width = c->w,
                    .y_stride = xs.y,
                    .x_stride = xs.x};
  Product p = {.groups = c->groups, .c = buffers[2]};

  switch (c->pass) {
  case NNC_CONV_FORWARD:   // m (n, oh, ow), n o, k (c, kh, kw)
    p.m = c->n * c->oh * c->ow, p.n = oi, p.k = per_output;
    p.a = window, p.a.base = buffers[0];
    p.b = (Operand){.base = buffers[1],
                    .group_stride = oi * per_output,
                    .outer = map_linear(per_output),
                    .inner = map_linear(1)};
    p.c_group_stride = oi * ys.c, p.c_rows = out_pixels, p.c_cols = map_linear(ys.c);
    break;
  case NNC_CONV_INPUT_GRAD:   // m (n, h, w), n c, k (o, kh, kw)
    p.m = c->n * c->h * c->w, p.n = ci, p.k = oi * taps;
    p.a = (Operand){.base = buffers[0],
                    .group_stride = oi * ys.c,
                    .is_window = true,
                    .step = {c->stride[0], c->stride[1]},
                    .height = c->oh,
                    .width = c->ow,
                    .y_stride = ys.y,
                    .x_stride = ys.x};
    p.a.outer =
        (Map){.size1 = c->h, .size0 = c->w, .stride2 = ys.n, .y = c->pad[0], .y_step = 1, .x = c->pad[2], .x_step = 1};
    p.a.inner =
        (Map){.size1 = c->kh, .size0 = c->kw, .stride2 = ys.c, .y_step = -c->dilation[0], .x_step = -c->dilation[1]};
    p.b = (Operand){.base = buffers[1], .group_stride = oi * per_output, .outer = map_linear(taps)};
    p.b.inner = (Map){.size1 = c->kh, .size0 = c->kw, .stride2 = per_output, .stride1 = c->kw, .stride0 = 1};
    p.c_group_stride = ci * xs.c, p.c_rows = in_pixels, p.c_cols = map_linear(xs.c);
    break;
  case NNC_CONV_WEIGHT_GRAD:   // m o, n (c, kh, kw), k (n, oh, ow)
    p.m = oi, p.n = per_output, p.k = c->n * c->oh * c->ow;
    p.a = (Operand){.base = buffers[1], .group_stride = oi * ys.c, .outer = map_linear(ys.c), .inner = out_pixels};
    p.b = window, p.b.base = buffers[0], p.b.outer = window_tap, p.b.inner = window_position;
    p.c_group_stride = oi * per_output, p.c_rows = map_linear(per_output), p.c_cols = map_linear(1);
    break;
  }
  multiply(&p, c->dtype);
}
