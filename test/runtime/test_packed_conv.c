// Convolutions as products whose packing picks pixels (runtime/packed_conv.c) against sums in f64: random kernels,
// strides, dilations, paddings and channels, wherever the products fit, whether they are worth it or not. The same bits
// on one, two and three threads; what lies around the operands is not a number.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/library_internal.h"
#include "runtime/narrow.h"
#include "test/check.h"

enum { GUARD = 256, SHAPES = 60 };

static uint64_t state = 1;

static int64_t draw(int64_t low, int64_t high) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return low + (int64_t)((state >> 33) % (uint64_t)(high - low + 1));
}

static float *guarded(int64_t n, bool filled) {
  float *p = aligned_alloc(NNC_ALIGN, (size_t)round_up(4 * (n + 2 * GUARD), NNC_ALIGN));
  if (!p) abort();
  memset(p, 0xff, (size_t)(4 * (n + 2 * GUARD)));
  for (int64_t i = 0; filled && i < n; i++) p[GUARD + i] = (float)draw(-1000, 1000) / 1000;
  return p + GUARD;
}

// What they are in this type, and as such; NULL: they stay.
static uint16_t *narrowed(float *p, int64_t n, NncDtype type) {
  if (type == NNC_F32) return NULL;
  uint16_t *narrow = malloc((size_t)(n + 2 * GUARD) * sizeof *narrow);
  if (!narrow) abort();
  memset(narrow, 0xff, (size_t)(n + 2 * GUARD) * sizeof *narrow);
  narrow += GUARD;
  for (int64_t i = 0; i < n; i++) narrow[i] = float_to_bf16(p[i]), p[i] = bf16_to_float(narrow[i]);
  return narrow;
}

static bool is_guarded(const float *p, int64_t n) {
  for (int i = 0; i < GUARD; i++)
    if (!isnan(p[-1 - i]) || !isnan(p[n + i])) return false;
  return true;
}

static NncConv random_conv(NncConvPass pass) {
  NncConv c = {.pass = pass, .channels_last = true, .groups = 1, .n = draw(1, 4)};
  static const int64_t channels[] = {1, 3, 8, 16, 20, 32, 33, 48, 64, 70};
  c.c = channels[draw(0, 9)], c.o = channels[draw(0, 9)];
  c.h = draw(5, 30), c.w = draw(5, 30), c.kh = draw(1, 5), c.kw = draw(1, 5);
  for (int i = 0; i < 2; i++) c.stride[i] = draw(1, 3), c.dilation[i] = draw(1, 2);
  for (int i = 0; i < 4; i++) c.pad[i] = draw(0, 3);
  c.oh = (c.h + c.pad[0] + c.pad[1] - c.dilation[0] * (c.kh - 1) - 1) / c.stride[0] + 1;
  c.ow = (c.w + c.pad[2] + c.pad[3] - c.dilation[1] * (c.kw - 1) - 1) / c.stride[1] + 1;
  return c;
}

// out and, for the error, the sums of the absolute values. w is (o, c, kh, kw) for this.
static void reference(const NncConv *c, const float *x, const float *w, const float *y, double *out, double *size) {
  for (int64_t n = 0; n < c->n; n++)
    for (int64_t p = 0; p < c->oh * c->ow * c->kh * c->kw; p++) {
      int64_t j = p % c->kw, i = p / c->kw % c->kh, ox = p / c->kw / c->kh % c->ow, oy = p / c->kw / c->kh / c->ow,
              h = oy * c->stride[0] - c->pad[0] + i * c->dilation[0],
              v = ox * c->stride[1] - c->pad[2] + j * c->dilation[1];
      if (h < 0 || h >= c->h || v < 0 || v >= c->w) continue;
      for (int64_t o = 0; o < c->o; o++)
        for (int64_t k = 0; k < c->c; k++) {
          int64_t at_x = ((n * c->h + h) * c->w + v) * c->c + k, at_y = ((n * c->oh + oy) * c->ow + ox) * c->o + o,
                  at_w = ((o * c->c + k) * c->kh + i) * c->kw + j;
          double of[3] = {x ? x[at_x] : 1, w ? w[at_w] : 1, y ? y[at_y] : 1}, product = of[0] * of[1] * of[2];
          int64_t to = !y ? at_y : !w ? at_w : at_x;
          out[to] += product, size[to] += fabs(product);
        }
    }
}

// Between (o, c, kh, kw) and the order of the strides.
static void reorder(const NncConv *c, const float *from, float *to, bool back) {
  dnnl_dims_t s;
  packed_conv_weight_strides(c, s);
  for (int64_t i = 0; i < c->o * c->c * c->kh * c->kw; i++) {
    int64_t v = i % c->kw, h = i / c->kw % c->kh, k = i / c->kw / c->kh % c->c, o = i / c->kw / c->kh / c->c,
            packed = o * s[0] + k * s[1] + h * s[2] + v * s[3];
    to[back ? i : packed] = from[back ? packed : i];
  }
}

static void check_conv(const NncConv *c) {
  int64_t nx = c->n * c->h * c->w * c->c, ny = c->n * c->oh * c->ow * c->o, nw = c->o * c->c * c->kh * c->kw;
  int64_t sizes[3][3] = {{nx, nw, ny}, {ny, nw, nx}, {nx, ny, nw}}, *size = sizes[c->pass];
  bool gradient = c->pass == NNC_CONV_WEIGHT_GRAD;
  float *a = guarded(size[0], true), *b = guarded(size[1], true), *packed = guarded(size[1], false),
        *first = guarded(size[2], false), *out = guarded(size[2], false), *plain = guarded(size[2], false);
  uint16_t *narrow_a = narrowed(a, size[0], c->dtype), *narrow_b = narrowed(b, size[1], c->dtype);
  double *want = calloc((size_t)size[2], sizeof *want), *of = calloc((size_t)size[2], sizeof *of), worst = 0;
  if (!want || !of) abort();
  reference(c, c->pass == NNC_CONV_INPUT_GRAD ? NULL : a, gradient ? NULL : b,
            c->pass == NNC_CONV_FORWARD ? NULL
            : gradient                  ? b
                                        : a,
            want, of);
  if (gradient) memcpy(packed, b, (size_t)size[1] * sizeof *b);
  else reorder(c, b, packed, false);
  int64_t bytes = packed_conv_scratch(c, 3);   // planned for three
  for (int threads = 1; threads <= 3; threads++) {
    char *workspace = aligned_alloc(NNC_ALIGN, (size_t)bytes + NNC_ALIGN);
    if (!workspace) abort();
    memset(workspace, 0xff, (size_t)bytes + NNC_ALIGN);
    float *to = threads == 1 ? first : out;
    void *as_a = narrow_a ? (void *)narrow_a : a, *as_b = narrow_b ? (void *)narrow_b : packed;
    packed_conv_execute(c, threads, (void *[]){as_a, as_b, to}, workspace);
    bool whole = is_guarded(to, size[2]);
    for (int i = 0; i < NNC_ALIGN; i++) whole &= workspace[bytes + i] == (char)0xff;
    CHECK(whole, "pass %d writes outside on %d threads", c->pass, threads);
    if (threads > 1) CHECK(!memcmp(first, out, (size_t)size[2] * sizeof *out), "%d threads: other bits", threads);
    free(workspace);
  }
  if (gradient) reorder(c, first, plain, true);
  else memcpy(plain, first, (size_t)size[2] * sizeof *first);
  for (int64_t i = 0; i < size[2]; i++) {
    double error = of[i] > 0 ? fabs(plain[i] - want[i]) / of[i] : fabs(plain[i]);
    if (!(error <= worst) && !isnan(worst)) worst = error;   // also what is not a number
  }
  CHECK(worst <= 1e-6, "pass %d n%d %dx%dx%d to %d, %dx%d, stride %d,%d dilation %d,%d pad %d,%d,%d,%d: %g", c->pass,
        (int)c->n, (int)c->h, (int)c->w, (int)c->c, (int)c->o, (int)c->kh, (int)c->kw, (int)c->stride[0],
        (int)c->stride[1], (int)c->dilation[0], (int)c->dilation[1], (int)c->pad[0], (int)c->pad[1], (int)c->pad[2],
        (int)c->pad[3], worst);
  float *buffers[] = {a, b, packed, first, out, plain};
  for (int i = 0; i < 6; i++) free(buffers[i] - GUARD);
  free(want), free(of);
  if (narrow_a) free(narrow_a - GUARD), free(narrow_b - GUARD);
}

int main(int argc, char **argv) {
  if (argc > 1) nnc_library_set_isa(argv[1]);   // "avx2": these loops on a machine that has more
  NncConv plain = {.pass = NNC_CONV_FORWARD,
                   .channels_last = true,
                   .groups = 1,
                   .n = 4,
                   .c = 64,
                   .o = 64,
                   .h = 28,
                   .w = 28,
                   .kh = 3,
                   .kw = 3,
                   .stride = {2, 2},
                   .pad = {1, 1, 1, 1},
                   .dilation = {1, 1},
                   .oh = 14,
                   .ow = 14};
  if (!packed_conv_fits(&plain)) return check_report();   // another machine: nothing uses these loops
  NncConv other = plain;
  other.groups = 2;
  CHECK(!packed_conv_fits(&other), "groups");
  other = plain, other.channels_last = false;
  CHECK(!packed_conv_fits(&other), "channels in front");
  other = plain, other.kh = 1, other.kw = 29, other.pad[2] = 2;   // a run would be longer than a line
  CHECK(!packed_conv_fits(&other), "a kernel wider than the image");
  other = plain, other.pass = NNC_CONV_INPUT_GRAD, other.kh = other.kw = 9,
  other.pad[0] = other.pad[1] = other.pad[2] = other.pad[3] = 4;
  CHECK(!packed_conv_fits(&other), "more elements of the kernel than taps");
  for (int i = 0; i < 2; i++) {   // a line of the kernel is a tap
    other.pass = i ? NNC_CONV_WEIGHT_GRAD : NNC_CONV_FORWARD;
    CHECK(packed_conv_fits(&other), "9 taps");
    check_conv(&other);
  }
  other.dilation[1] = 2, other.pad[2] = other.pad[3] = 8;
  CHECK(!packed_conv_fits(&other), "more elements than taps where they are no neighbours");
  // Pixels that no element of the kernel leads from, along each axis.
  for (int axis = 0; axis < 2; axis++) {
    NncConv gaps = plain;
    gaps.pass = NNC_CONV_INPUT_GRAD, gaps.n = 8;
    *(axis ? &gaps.kw : &gaps.kh) = 2, gaps.stride[axis] = 3;
    *(axis ? &gaps.ow : &gaps.oh) = 10;
    CHECK(packed_conv_fits(&gaps), "a kernel of 2 with a stride of 3");
    check_conv(&gaps);
  }
  int shapes = 0;
  for (int tries = 0; shapes < SHAPES && tries < 100 * SHAPES; tries++) {
    NncConv c = random_conv((NncConvPass)(shapes % 3));
    if (c.oh < 1 || c.ow < 1 || !packed_conv_fits(&c)) continue;
    check_conv(&c);
    shapes++;
  }
  CHECK(shapes == SHAPES, "%d shapes of %d that fit", shapes, SHAPES);
  // Weight gradients of bf16 images, which are f32.
  plain.pass = NNC_CONV_WEIGHT_GRAD, plain.dtype = NNC_BF16;
  bool amx = !strcmp(nnc_library_isa(), "avx512_core_amx");
  CHECK(packed_conv_fits(&plain) == amx, "products of bf16");
  for (int tries = shapes = 0; amx && shapes < SHAPES / 2 && tries < 100 * SHAPES; tries++) {
    NncConv c = random_conv(NNC_CONV_WEIGHT_GRAD);
    c.dtype = NNC_BF16;
    if (c.oh < 1 || c.ow < 1 || !packed_conv_fits(&c)) continue;
    check_conv(&c);
    shapes++;
  }
  CHECK(shapes == (amx ? SHAPES / 2 : 0), "%d shapes of bf16 that fit", shapes);
  return check_report();
}
