// Own convolutions and matrix products: for f64, which oneDNN lacks, and where oneDNN has nothing better than its
// reference. All are one blocked product C[m, n] = sum over k of A[m, k] B[k, n] whose operands are read through index
// maps into packed panels (an im2col that never exists as a whole). One thread makes one tile of C from the first k to
// the last, so that the order of additions, and with it every bit of the result, is the same for any number of threads.
#include <string.h>

#include "runtime/library_internal.h"
#include "support/integers.h"

enum { TILE_M = 64, TILE_N = 64, TILE_K = 64, STRIP = 16 };

// A position in a volume; an image is one of depth 1.
enum { DEPTH, HEIGHT, WIDTH, AXES };

typedef struct Place {
  int64_t at[AXES], offset;
} Place;

// An index over (anything, size[DEPTH], size[HEIGHT], size[WIDTH]), and where it leads: an offset in elements by the
// strides, the first axis' in front, and a position, first + step * the index along each axis.
typedef struct Map {
  int64_t size[AXES], stride[1 + AXES];
  int64_t first[AXES], step[AXES];
} Map;

typedef struct Operand {
  const void *base;
  int64_t group_stride;
  Map outer, inner;     // of m (or n) and of k; places add up
  bool is_window;       // the place is a pixel that may lie outside the image
  int64_t step[AXES];   // transposed convolution: only every step-th position exists; 1 otherwise
  int64_t size[AXES], stride[AXES];
} Operand;

typedef struct Product {
  int64_t groups, m, n, k;
  Operand a, b;
  void *c;
  int64_t c_group_stride;
  Map c_rows, c_cols;
} Product;

static inline Place map_place(const Map *map, int64_t i) {
  Place p;
  p.offset = 0;
  for (int a = WIDTH; a >= 0; a--) {
    int64_t along = 0;
    if (map->size[a] > 1) along = i % map->size[a], i /= map->size[a];
    p.at[a] = map->first[a] + along * map->step[a];
    p.offset += along * map->stride[1 + a];
  }
  p.offset += i * map->stride[0];
  return p;
}

// Offset of a pixel, or -1 outside the image and between the positions of a transposed convolution.
static inline int64_t window_pixel(const Operand *o, const Place *outer, const Place *inner) {
  int64_t offset = 0;
  for (int a = 0; a < AXES; a++) {
    int64_t at = outer->at[a] + inner->at[a];
    if (at < 0) return -1;
    if (o->step[a] > 1) {
      if (at % o->step[a]) return -1;
      at /= o->step[a];
    }
    if (at >= o->size[a]) return -1;
    offset += at * o->stride[a];
  }
  return offset;
}

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
  int64_t tiles = p->groups * divide_up(p->m, TILE_M) * divide_up(p->n, TILE_N);
#pragma omp parallel for schedule(dynamic)
  for (int64_t t = 0; t < tiles; t++) {
    if (dtype == NNC_F64) make_tile_f64(p, t);
    else make_tile_f32(p, t);
  }
}

static Map map_linear(int64_t stride) { return (Map){.size = {1, 1, 1}, .stride = {stride}}; }

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
  int64_t n, c, at[AXES];
} Image;

static Image image_strides(bool channels_last, int64_t channels, const int64_t size[AXES]) {
  int64_t pixel = channels_last ? channels : 1, row = size[WIDTH] * pixel, plane = size[HEIGHT] * row,
          volume = size[DEPTH] * plane;
  return (Image){channels_last ? volume : channels * volume, channels_last ? 1 : volume, {plane, row, pixel}};
}

// Index (n, pixel) of an image, as offsets only.
static Map map_pixels(const Image *s, const int64_t size[AXES]) {
  Map m = {.stride = {s->n}};
  for (int a = 0; a < AXES; a++) m.size[a] = size[a], m.stride[1 + a] = s->at[a];
  return m;
}

// The axes of a convolution by what they have.
typedef struct Window {
  int64_t in[AXES], out[AXES], kernel[AXES], stride[AXES], dilation[AXES], before[AXES];
} Window;

static Window window_of(const NncConv *c) {
  NncConvAxis axes[NNC_CONV_AXES] = {0}, one = {.in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1};
  int skipped = AXES - nnc_conv_axes(c, axes);
  Window w;
  for (int a = 0; a < AXES; a++) {
    const NncConvAxis *from = a < skipped ? &one : &axes[a - skipped];
    w.in[a] = from->in, w.out[a] = from->out, w.kernel[a] = from->kernel, w.stride[a] = from->stride;
    w.dilation[a] = from->dilation, w.before[a] = from->before;
  }
  return w;
}

// An operand of pixels that a window goes over: the places of its two maps add up to one.
static Operand windowed(const Image *image, const int64_t *size, int64_t channels) {
  Operand o = {.group_stride = channels * image->c, .is_window = true, .step = {1, 1, 1}};
  for (int a = 0; a < AXES; a++) o.size[a] = size[a], o.stride[a] = image->at[a];
  return o;
}

static Map map_positions(int64_t stride, const int64_t size[AXES]) {
  Map m = {.stride = {stride}};
  for (int a = 0; a < AXES; a++) m.size[a] = size[a];
  return m;
}

void direct_conv(const NncConv *c, void *const buffers[3]) {
  Window v = window_of(c);
  int64_t ci = c->c / c->groups, oi = c->o / c->groups, taps = nnc_conv_sizes(c).kernel, per_output = ci * taps;
  Image xs = image_strides(c->channels_last, c->c, v.in), ys = image_strides(c->channels_last, c->o, v.out);
  Map out_pixels = map_pixels(&ys, v.out), in_pixels = map_pixels(&xs, v.in);
  // Reading x through the window: output position (n, pixel) and tap (c, place) add up to a pixel of x.
  Map window_position = map_positions(xs.n, v.out), window_tap = map_positions(xs.c, v.kernel);
  for (int a = 0; a < AXES; a++) {
    window_position.first[a] = -v.before[a], window_position.step[a] = v.stride[a];
    window_tap.step[a] = v.dilation[a];
  }
  Operand window = windowed(&xs, v.in, ci);
  window.outer = window_position, window.inner = window_tap;
  Product p = {.groups = c->groups, .c = buffers[2]};

  switch (c->pass) {
  case NNC_CONV_FORWARD:   // m (n, output pixel), n o, k (c, tap)
    p.m = c->n * nnc_conv_sizes(c).out, p.n = oi, p.k = per_output;
    p.a = window, p.a.base = buffers[0];
    p.b = (Operand){.base = buffers[1],
                    .group_stride = oi * per_output,
                    .outer = map_linear(per_output),
                    .inner = map_linear(1)};
    p.c_group_stride = oi * ys.c, p.c_rows = out_pixels, p.c_cols = map_linear(ys.c);
    break;
  case NNC_CONV_INPUT_GRAD:   // m (n, pixel), n c, k (o, tap)
    p.m = c->n * nnc_conv_sizes(c).in, p.n = ci, p.k = oi * taps;
    p.a = windowed(&ys, v.out, oi);
    p.a.base = buffers[0], p.a.outer = map_positions(ys.n, v.in), p.a.inner = map_positions(ys.c, v.kernel);
    p.b = (Operand){.base = buffers[1], .group_stride = oi * per_output, .outer = map_linear(taps)};
    p.b.inner = map_positions(per_output, v.kernel);
    int64_t inside = 1;
    for (int a = WIDTH; a >= 0; inside *= v.kernel[a--]) {
      p.a.step[a] = v.stride[a], p.a.outer.first[a] = v.before[a], p.a.outer.step[a] = 1;
      p.a.inner.step[a] = -v.dilation[a];
      p.b.inner.stride[1 + a] = inside;
    }
    p.c_group_stride = ci * xs.c, p.c_rows = in_pixels, p.c_cols = map_linear(xs.c);
    break;
  case NNC_CONV_WEIGHT_GRAD:   // m o, n (c, tap), k (n, output pixel)
    p.m = oi, p.n = per_output, p.k = c->n * nnc_conv_sizes(c).out;
    p.a = (Operand){.base = buffers[1], .group_stride = oi * ys.c, .outer = map_linear(ys.c), .inner = out_pixels};
    p.b = window, p.b.base = buffers[0], p.b.outer = window_tap, p.b.inner = window_position;
    p.c_group_stride = oi * per_output, p.c_rows = map_linear(per_output), p.c_cols = map_linear(1);
    break;
  }
  multiply(&p, c->dtype);
}
