// Convolutions of channels-last images, in f32 or, weight gradients, bf16, as products of own packed loops (gemm.c)
// whose packing picks what the kernel covers: forward the pixels under it, in the weight gradient the same as columns,
// in the input gradient, for each remainder of a pixel's position by the stride, the results that it reached. Nothing
// is copied but the weights, brought to the order of the products in the workspace.
#include "runtime/library_internal.h"
#include "support/integers.h"

// The products that a convolution comes to: one, or one for each remainder by the strides.
static int64_t n_products(const NncConv *c) { return c->pass == NNC_CONV_INPUT_GRAD ? c->stride[0] * c->stride[1] : 1; }

// What the kernel covers of x: a line of pixels is one tap where they are neighbours.
static void covered(const NncConv *c, GemmWindow *w) {
  bool neighbours = c->dilation[1] == 1;
  *w = (GemmWindow){.height = c->h,
                    .width = c->w,
                    .channels = c->c,
                    .lines = c->oh,
                    .places = c->ow,
                    .step = {c->stride[0], c->stride[1]},
                    .run = neighbours ? c->kw * c->c : c->c};
  for (int64_t y = 0; y < c->kh; y++)
    for (int64_t x = 0; x < (neighbours ? 1 : c->kw); x++) {
      w->tap[w->n_taps] = (GemmTap){.y = y * c->dilation[0] - c->pad[0],
                                    .x = x * c->dilation[1] - c->pad[2],
                                    .row = w->n_taps * w->run};
      w->n_taps++;
    }
}

// The results that pixels (y, x) + multiples of the stride reached, by the kernel's elements that led there.
static void reached(const NncConv *c, int64_t y, int64_t x, GemmWindow *w) {
  *w = (GemmWindow){.height = c->oh,
                    .width = c->ow,
                    .channels = c->o,
                    .lines = divide_up(c->h - y, c->stride[0]),
                    .places = divide_up(c->w - x, c->stride[1]),
                    .step = {1, 1},
                    .run = c->o};
  for (int64_t i = 0; i < c->kh; i++)
    for (int64_t j = 0; j < c->kw; j++) {
      int64_t dy = y + c->pad[0] - i * c->dilation[0], dx = x + c->pad[2] - j * c->dilation[1];
      if (dy % c->stride[0] || dx % c->stride[1]) continue;
      w->tap[w->n_taps++] = (GemmTap){.y = dy / c->stride[0], .x = dx / c->stride[1], .row = (i * c->kw + j) * c->o};
    }
}

// The product number `i`, and where it begins in C. A k of 0: no element of the kernel leads there.
static Gemm product_in_f32(const NncConv *c, int64_t i, GemmWindow *w, int64_t *first) {
  const int64_t y = i / c->stride[1], x = i % c->stride[1], window = c->kh * c->kw * c->c;
  *first = 0;
  if (c->pass == NNC_CONV_INPUT_GRAD) reached(c, y, x, w);
  else covered(c, w);
  const int64_t places = c->n * w->lines * w->places;
  switch (c->pass) {
  case NNC_CONV_FORWARD:
    return (Gemm){.m = places,
                  .n = c->o,
                  .k = window,
                  .a_col = 1,
                  .b_rows.pixel = c->o,
                  .b_col = 1,
                  .c_rows.pixel = c->o,
                  .a_window = w};
  case NNC_CONV_WEIGHT_GRAD:
    return (Gemm){.m = c->o,
                  .n = window,
                  .k = places,
                  .a_rows.pixel = 1,
                  .a_col = c->o,
                  .b_col = 1,
                  .c_rows.pixel = window,
                  .b_window = w};
  case NNC_CONV_INPUT_GRAD: break;
  }
  *first = (y * c->w + x) * c->c;
  Gemm g = {.m = places,
            .n = c->c,
            .k = w->n_taps * c->o,
            .a_col = 1,
            .b_rows.pixel = c->c,
            .b_col = 1,
            .c_rows.pixel = c->c,
            .a_window = w};
  if (n_products(c) > 1)
    g.c_rows = (GemmRows){.pixel = c->stride[1] * c->c,
                          .line = c->stride[0] * c->w * c->c,
                          .image = c->h * c->w * c->c,
                          .width = w->places,
                          .height = w->lines};
  return g;
}

static Gemm product_of(const NncConv *c, int64_t i, GemmWindow *w, int64_t *first) {
  Gemm g = product_in_f32(c, i, w, first);
  g.type = c->dtype, g.result = c->result;
  return g;
}

bool packed_conv_fits(const NncConv *c) {
  if (!c->channels_last || (c->dtype != NNC_F32 && c->dtype != NNC_BF16) || c->groups != 1 || nnc_conv_is_3d(c) ||
      c->kh * (c->dilation[1] == 1 && c->pass != NNC_CONV_INPUT_GRAD ? 1 : c->kw) > GEMM_MOST_TAPS || c->kw > c->w ||
      c->stride[0] > c->h || c->stride[1] > c->w)
    return false;
  for (int64_t i = 0, first; i < n_products(c); i++) {
    GemmWindow w;
    Gemm g = product_of(c, i, &w, &first);
    if (g.k > 0 && !gemm_fits(&g)) return false;
  }
  return true;
}

// As B forward and in the input gradient, by rows: (kh, kw, c, o) and (kh, kw, o, c); as C: (o, kh, kw, c).
void packed_conv_weight_strides(const NncConv *c, dnnl_dims_t strides) {
  bool is_c = c->pass == NNC_CONV_WEIGHT_GRAD, forward = c->pass == NNC_CONV_FORWARD;
  int64_t pixel = is_c ? c->c : c->c * c->o;
  strides[0] = is_c ? c->kh * c->kw * c->c : forward ? 1 : c->c;
  strides[1] = forward ? c->o : 1;
  strides[2] = c->kw * pixel, strides[3] = pixel;
}

int64_t packed_conv_scratch(const NncConv *c, int threads) {
  int64_t bytes = 0;
  for (int64_t i = 0, first; i < n_products(c); i++) {
    GemmWindow w;
    Gemm g = product_of(c, i, &w, &first);
    if (g.k > 0) bytes = larger(bytes, gemm_scratch(&g, threads));
  }
  return bytes;
}

void packed_conv_execute(const NncConv *c, int threads, void *const buffers[3], void *workspace) {
  const bool swapped = c->pass == NNC_CONV_WEIGHT_GRAD;   // dw = dy' x
  const void *a = buffers[swapped], *b = buffers[!swapped];
  float *out = buffers[2];   // f32 but for weight gradients, which begin there
  const int64_t elements = c->n * c->h * c->w * c->c;
  // Where the kernel is smaller than the stride some pixels reach nothing.
  if (c->pass == NNC_CONV_INPUT_GRAD &&
      (c->kh < c->stride[0] || c->kw < c->stride[1] || c->dilation[0] > 1 || c->dilation[1] > 1)) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < elements; i++) out[i] = 0;
  }
  for (int64_t i = 0, first; i < n_products(c); i++) {
    GemmWindow w;
    Gemm g = product_of(c, i, &w, &first);
    if (g.k > 0) gemm_execute(&g, threads, a, b, out + first, workspace, false);
  }
}
