// Convolutions against plain loops: every pass, layout, stride, padding, dilation and group, those of own loops, and
// with fewer threads than planned. Included by test_library.c, whose values, bounds and count of shapes they use.
// Position i in an image of this size.
static void unravel(int64_t i, int n, const int64_t *size, int64_t *at) {
  for (int a = n - 1; a >= 0; i /= size[a--]) at[a] = i % size[a];
}

static int64_t image_at(const NncConv *c, int64_t channels, int64_t pixels, int64_t n, int64_t ch, int64_t pixel) {
  return c->channels_last ? (n * pixels + pixel) * channels + ch : (n * channels + ch) * pixels + pixel;
}

// What the tap at k of the kernel takes from one pixel of image n to another, in all channels.
static void add_products(const NncConv *c, int64_t n, int64_t to, int64_t from, int64_t k, const double *a,
                         const double *b, double *out) {
  NncConvAxis size = nnc_conv_sizes(c);
  int64_t ci = c->c / c->groups, oi = c->o / c->groups, kernel = size.kernel, n_in = size.in;
  for (int64_t o = 0; o < c->o; o++) {
    int64_t yi = image_at(c, c->o, size.out, n, o, to);
    for (int64_t i = 0; i < ci; i++) {
      int64_t xi = image_at(c, c->c, n_in, n, o / oi * ci + i, from), wi = (o * ci + i) * kernel + k;
      if (c->pass == NNC_CONV_FORWARD) out[yi] += a[xi] * b[wi];
      if (c->pass == NNC_CONV_INPUT_GRAD) out[xi] += a[yi] * b[wi];
      if (c->pass == NNC_CONV_WEIGHT_GRAD) out[wi] += a[xi] * b[yi];
    }
  }
}

static void reference_conv(const NncConv *c, const double *a, const double *b, double *out, int64_t n_out) {
  memset(out, 0, sizeof *out * (size_t)n_out);
  NncConvAxis axes[NNC_CONV_AXES], size = nnc_conv_sizes(c);
  int n_axes = nnc_conv_axes(c, axes);
  int64_t outs[NNC_CONV_AXES], kernel[NNC_CONV_AXES], to[NNC_CONV_AXES], tap[NNC_CONV_AXES];
  for (int i = 0; i < n_axes; i++) outs[i] = axes[i].out, kernel[i] = axes[i].kernel;
  for (int64_t n = 0; n < c->n; n++)
    for (int64_t i = 0; i < size.out * size.kernel; i++) {
      int64_t pixel = i / size.kernel, k = i % size.kernel, from = 0;
      bool inside = true;
      unravel(pixel, n_axes, outs, to);
      unravel(k, n_axes, kernel, tap);
      for (int d = 0; d < n_axes; d++) {
        int64_t at = to[d] * axes[d].stride - axes[d].before + tap[d] * axes[d].dilation;
        inside = inside && at >= 0 && at < axes[d].in;
        from = from * axes[d].in + at;
      }
      if (inside) add_products(c, n, pixel, from, k, a, b, out);
    }
}

static void check_conv(NncConv c) {
  c.oh = (c.h + c.pad[0] + c.pad[1] - c.dilation[0] * (c.kh - 1) - 1) / c.stride[0] + 1;
  c.ow = (c.w + c.pad[2] + c.pad[3] - c.dilation[1] * (c.kw - 1) - 1) / c.stride[1] + 1;
  NncConvAxis *d = &c.depth;
  bool deep = nnc_conv_is_3d(&c);
  if (deep) d->out = (d->in + d->before + d->after - d->dilation * (d->kernel - 1) - 1) / d->stride + 1;
  static const NnOp passes[2][3] = {{[NNC_CONV_FORWARD] = NN_OP_conv2d,
                                     [NNC_CONV_INPUT_GRAD] = NN_OP_conv2d_input_grad,
                                     [NNC_CONV_WEIGHT_GRAD] = NN_OP_conv2d_weight_grad},
                                    {[NNC_CONV_FORWARD] = NN_OP_conv3d,
                                     [NNC_CONV_INPUT_GRAD] = NN_OP_conv3d_input_grad,
                                     [NNC_CONV_WEIGHT_GRAD] = NN_OP_conv3d_weight_grad}};
  note_shape(passes[deep][c.pass], deep ? 9 : 7,
             (int64_t[]){c.n, c.c, c.h, c.w, c.o, c.kh, c.kw, c.depth.in, c.depth.kernel});
  NncConvAxis all = nnc_conv_sizes(&c);
  int64_t nx = c.n * c.c * all.in, ny = c.n * c.o * all.out, nw = c.o * (c.c / c.groups) * all.kernel;
  int64_t sizes[3][3] = {{nx, nw, ny}, {ny, nw, nx}, {nx, ny, nw}}, *size = sizes[c.pass];
  double *a = random_values(size[0], 1, c.dtype), *b = random_values(size[1], 2, c.dtype),
         *want = malloc(sizeof *want * (size_t)size[2]);
  reference_conv(&c, a, b, want, size[2]);
  void *buffers[3] = {to_type(a, size[0], c.dtype), to_type(b, size[1], c.dtype), to_type(NULL, size[2], c.result)};

  c.scratch_bytes = nnc_conv_scratch(&c);
  CHECK(c.scratch_bytes >= 0 && c.scratch_bytes % NNC_ALIGN == 0, "%lld", (long long)c.scratch_bytes);
  char error[200] = "";
  NncLibrary *library = nnc_library_open(nnc_library_threads());
  const NncOperation *op = nnc_conv_prepare(library, &c, error, sizeof error);
  run_operation(op, error, buffers, c.scratch_bytes, 2);

  double worst = 0, scale = 1e-30;
  for (int64_t i = 0; i < size[2]; i++) {
    double d = fabs(value_at(buffers[2], i, c.result) - want[i]);
    if (!(d <= worst) && !isnan(worst)) worst = d;
    if (fabs(want[i]) > scale) scale = fabs(want[i]);
  }
  // it rounds about twice as far, docs/performance.md
  bool is_winograd = strcmp(nnc_conv_implementation(&c), "winograd") == 0;
  CHECK(worst / scale < bound(c.result, is_winograd ? 4e-6 : 2e-6),
        "pass %d n%d c%d %dx%dx%d o%d k%dx%dx%d s%d,%d p%d,%d,%d,%d d%d g%d %s (%s): %g", c.pass, (int)c.n, (int)c.c,
        (int)c.depth.in, (int)c.h, (int)c.w, (int)c.o, (int)c.depth.kernel, (int)c.kh, (int)c.kw, (int)c.stride[0],
        (int)c.stride[1], (int)c.pad[0], (int)c.pad[1], (int)c.pad[2], (int)c.pad[3], (int)c.dilation[0], (int)c.groups,
        c.channels_last ? "nhwc" : "nchw", nnc_conv_implementation(&c), worst / scale);
  for (int i = 0; i < 3; i++) free(buffers[i]);
  free(a), free(b), free(want);
  nnc_library_close(library);
}

static void check_convs(void) {
#define PADDED(...)                                                                                     \
  {                                                                                                     \
    .n = 1, .c = 16, .h = 6, .w = 5, .o = 16, .kh = 1, .kw = 1, .stride = {1, 1}, .pad = {__VA_ARGS__}, \
    .dilation = {1, 1}, .groups = 1                                                                     \
  }
  static const NncConv shapes[] = {
      {.n = 2,
       .c = 1,
       .h = 28,
       .w = 28,
       .o = 6,
       .kh = 5,
       .kw = 5,
       .stride = {1, 1},
       .pad = {2, 2, 2, 2},
       .dilation = {1, 1},
       .groups = 1},
      {.n = 2, .c = 6, .h = 14, .w = 14, .o = 16, .kh = 5, .kw = 5, .stride = {1, 1}, .dilation = {1, 1}, .groups = 1},
      {.n = 2,
       .c = 3,
       .h = 33,
       .w = 31,
       .o = 64,
       .kh = 7,
       .kw = 7,
       .stride = {2, 2},
       .pad = {3, 3, 3, 3},
       .dilation = {1, 1},
       .groups = 1},
      {.n = 3,
       .c = 64,
       .h = 14,
       .w = 14,
       .o = 32,
       .kh = 3,
       .kw = 3,
       .stride = {1, 1},
       .pad = {1, 1, 1, 1},
       .dilation = {1, 1},
       .groups = 1},
      {.n = 2,
       .c = 32,
       .h = 15,
       .w = 14,
       .o = 64,
       .kh = 3,
       .kw = 3,
       .stride = {2, 2},
       .pad = {1, 1, 1, 1},
       .dilation = {1, 1},
       .groups = 1},
      {.n = 2, .c = 64, .h = 9, .w = 9, .o = 128, .kh = 1, .kw = 1, .stride = {1, 1}, .dilation = {1, 1}, .groups = 1},
      {.n = 2, .c = 64, .h = 9, .w = 9, .o = 128, .kh = 1, .kw = 1, .stride = {2, 2}, .dilation = {1, 1}, .groups = 1},
      {.n = 5, .c = 8, .h = 32, .w = 32, .o = 16, .kh = 1, .kw = 1, .stride = {2, 2}, .dilation = {1, 1}, .groups = 1},
      // padded on one side: no product over the pixels
      PADDED(1),
      PADDED(0, 1),
      PADDED(0, 0, 1),
      PADDED(0, 0, 0, 1),
      {.n = 2,
       .c = 16,
       .h = 12,
       .w = 12,
       .o = 16,
       .kh = 3,
       .kw = 3,
       .stride = {1, 1},
       .pad = {2, 2, 2, 2},
       .dilation = {2, 2},
       .groups = 1},
      {.n = 2,
       .c = 32,
       .h = 10,
       .w = 10,
       .o = 32,
       .kh = 3,
       .kw = 3,
       .stride = {1, 1},
       .pad = {1, 1, 1, 1},
       .dilation = {1, 1},
       .groups = 32},
      {.n = 2,
       .c = 32,
       .h = 10,
       .w = 10,
       .o = 64,
       .kh = 3,
       .kw = 3,
       .stride = {2, 2},
       .pad = {1, 1, 1, 1},
       .dilation = {1, 1},
       .groups = 2},
      {.n = 1,
       .c = 4,
       .h = 7,
       .w = 9,
       .o = 6,
       .kh = 2,
       .kw = 3,
       .stride = {3, 1},
       .pad = {0, 1, 2, 0},
       .dilation = {1, 2},
       .groups = 2},
      {.n = 1, .c = 1, .h = 1, .w = 1, .o = 1, .kh = 1, .kw = 1, .stride = {1, 1}, .dilation = {1, 1}, .groups = 1},
      {.n = 1,
       .c = 5,
       .h = 40,
       .w = 3,
       .o = 130,
       .kh = 3,
       .kw = 1,
       .stride = {1, 1},
       .pad = {1, 1, 0, 0},
       .dilation = {1, 1},
       .groups = 1},
#define VOLUME(n_, c_, o_, h_, k_, s_, p_, g_, ...)                                                                  \
  {                                                                                                                  \
    .n = n_, .c = c_, .h = h_, .w = h_ + 1, .o = o_, .kh = k_, .kw = k_, .stride = {s_, s_}, .pad = {p_, p_, p_, 0}, \
    .dilation = {1, 1}, .groups = g_, .depth = {                                                                     \
      __VA_ARGS__                                                                                                    \
    }                                                                                                                \
  }
      VOLUME(2, 1, 16, 8, 3, 1, 1, 1, .in = 5, .kernel = 3, .stride = 1, .dilation = 1, .before = 1, .after = 1),
      VOLUME(1, 32, 64, 7, 3, 1, 1, 1, .in = 4, .kernel = 3, .stride = 1, .dilation = 1, .before = 1, .after = 1),
      VOLUME(2, 16, 32, 9, 3, 2, 1, 1, .in = 7, .kernel = 3, .stride = 2, .dilation = 1, .before = 0, .after = 1),
      VOLUME(1, 64, 32, 6, 2, 2, 0, 1, .in = 6, .kernel = 2, .stride = 2, .dilation = 1),
      VOLUME(2, 32, 16, 5, 1, 1, 0, 1, .in = 3, .kernel = 1, .stride = 1, .dilation = 1),
      VOLUME(2, 24, 16, 5, 1, 2, 0, 1, .in = 3, .kernel = 1, .stride = 3, .dilation = 1),
      VOLUME(1, 6, 9, 5, 3, 1, 2, 3, .in = 9, .kernel = 2, .stride = 2, .dilation = 3, .before = 2),
      VOLUME(1, 16, 16, 5, 3, 1, 1, 16, .in = 4, .kernel = 3, .stride = 1, .dilation = 1, .before = 1, .after = 1),
      VOLUME(1, 32, 32, 4, 1, 1, 0, 1, .in = 9, .kernel = 5, .stride = 1, .dilation = 2, .before = 1),
  };
#undef PADDED
#undef VOLUME
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int pass = 0; pass < 3; pass++)
      for (int last = 0; last < 2; last++) {
        NncConv c = shapes[i];
        c.pass = (NncConvPass)pass;
        c.channels_last = last;
        static const NncDtype types[] = {NNC_F32, NNC_BF16, NNC_F16, NNC_F64};
        for (int t = 0; t < 4; t++) {
          bool narrow = types[t] == NNC_BF16 || types[t] == NNC_F16;
          c.dtype = c.result = types[t];
          if (narrow && !last) continue;   // the compiler makes them all channels-last
          check_conv(c);
          if (!narrow || pass != NNC_CONV_WEIGHT_GRAD) continue;
          c.result = NNC_F32;   // the gradient of weights that are kept in f32
          check_conv(c);
        }
      }
}

// There are own loops for this instruction set (gemm.c, winograd.c).
static bool has_own_loops(void) {
  return strncmp(nnc_library_isa(), "avx512_core", 11) == 0 || strcmp(nnc_library_isa(), "avx2") == 0;
}

// Convolutions that Winograd's filtering takes: every edge that a tile can have, unequal channels.
static void check_winograd(void) {
  if (!has_own_loops()) return;
  static const NncConv shapes[] = {
      {.n = 16, .c = 32, .h = 16, .w = 16, .o = 64, .pad = {1, 1, 1, 1}},
      {.n = 24, .c = 64, .h = 14, .w = 15, .o = 32},
      {.n = 9, .c = 96, .h = 22, .w = 27, .o = 32, .pad = {2, 0, 0, 1}},
      {.n = 17, .c = 32, .h = 15, .w = 17, .o = 96, .pad = {2, 2, 2, 2}},
      {.n = 4, .c = 128, .h = 15, .w = 15, .o = 256, .pad = {1, 1, 1, 1}},   // only the weight gradient, which takes
                                                                             // some outputs at a time
      {.n = 40, .c = 48, .h = 31, .w = 26, .o = 16, .pad = {1, 1, 1, 1}},    // panels of AVX2 alone
  };
  bool narrow = strcmp(nnc_library_isa(), "avx2") == 0;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int pass = shapes[i].o == 256 ? NNC_CONV_WEIGHT_GRAD : 0; pass < 3; pass++) {
      NncConv c = shapes[i];
      if (c.o == 16 && !narrow) continue;
      c.pass = (NncConvPass)pass;
      c.kh = c.kw = 3, c.groups = c.channels_last = 1, c.stride[0] = c.stride[1] = c.dilation[0] = c.dilation[1] = 1;
      c.dtype = c.result = NNC_F32;
      c.oh = c.h + c.pad[0] + c.pad[1] - 2, c.ow = c.w + c.pad[2] + c.pad[3] - 2;
      CHECK(strcmp(nnc_conv_implementation(&c), "winograd") == 0, "pass %d of shape %d is %s", pass, (int)i,
            nnc_conv_implementation(&c));
      check_conv(c);
      c.n = 1;
      if (c.o < 256)
        CHECK(strcmp(nnc_conv_implementation(&c), "winograd") != 0,
              "pass %d of shape %d with one image takes a workspace larger than its tensors", pass, (int)i);
    }
}

// The weight gradient of a 3 x 3 convolution of n images of 24 x 24.
static NncConv weights_3x3(int64_t n, int64_t c, int64_t o) {
  return (NncConv){.pass = NNC_CONV_WEIGHT_GRAD,
                   .channels_last = true,
                   .n = n,
                   .c = c,
                   .h = 24,
                   .w = 24,
                   .o = o,
                   .oh = 24,
                   .ow = 24,
                   .kh = 3,
                   .kw = 3,
                   .stride = {1, 1},
                   .pad = {1, 1, 1, 1},
                   .dilation = {1, 1},
                   .groups = 1};
}

// A weight gradient that has room for all tiles, but not for the sums of all pairs of channels between chunks of them.
static void check_winograd_groups(void) {
  if (!has_own_loops()) return;
  NncConv c = weights_3x3(1, 1024, 64);
  for (int threads = 1; threads < 5; threads++) {
    nnc_library_set_threads(threads);
    CHECK(strcmp(nnc_conv_implementation(&c), "winograd") == 0, "%d threads: %s", threads, nnc_conv_implementation(&c));
    int64_t scratch = nnc_conv_scratch(&c), operands = 4 * (c.h * c.w * (c.c + c.o) + 9 * c.c * c.o);
    CHECK(2 * scratch <= 3 * operands, "%lld bytes of workspace for %lld", (long long)scratch, (long long)operands);
    if (threads == 4) check_conv(c);
  }
  nnc_library_set_threads(0);
}

// Planned for two threads it runs with one.
static void check_planned_for_two(NncConv c) {
  char error[200] = "";
  nnc_library_set_threads(2);
  c.scratch_bytes = nnc_conv_scratch(&c);
  NncLibrary *library = nnc_library_open(1);
  CHECK(nnc_conv_prepare(library, &c, error, sizeof error) != NULL, "%s", error);
  nnc_library_close(library);
  nnc_library_set_threads(0);
}

// A weight gradient of one panel is filtered by one thread and direct with two; that of bf16 where it is one of f32.
static void check_fewer_threads(void) {
  if (!has_own_loops()) return;
  NncConv c = weights_3x3(100, 32, strcmp(nnc_library_isa(), "avx2") == 0 ? 16 : 32);   // a panel
  nnc_library_set_threads(1);
  CHECK(strcmp(nnc_conv_implementation(&c), "winograd") == 0, "one thread: %s", nnc_conv_implementation(&c));
  nnc_library_set_threads(2);
  CHECK(strcmp(nnc_conv_implementation(&c), "winograd") != 0, "two threads: %s", nnc_conv_implementation(&c));
  check_planned_for_two(c);
  c.dtype = c.result = NNC_BF16;
  check_planned_for_two(c);
  // with one thread oneDNN's need more workspace
  NncConv narrow =
      {.pass = NNC_CONV_WEIGHT_GRAD, .dtype = NNC_BF16, .result = NNC_F32, .n = 1, .c = 1, .h = 23, .w = 31};
  narrow.o = 2, narrow.kh = narrow.kw = narrow.groups = narrow.channels_last = 1;
  narrow.stride[0] = narrow.stride[1] = 2, narrow.dilation[0] = narrow.dilation[1] = 1, narrow.oh = 12, narrow.ow = 16;
  check_planned_for_two(narrow);
  nnc_library_set_threads(0);
}

// In bf16: with AMX products of own loops where pixels are few or apart, and all weight gradients.
static void check_packed_bf16(NncConv c, int shape) {
  c.dtype = NNC_BF16, c.result = c.pass == NNC_CONV_WEIGHT_GRAD ? NNC_F32 : NNC_BF16;
  bool few = c.n * c.oh * c.ow <= 512, apart = c.stride[0] > 1 && c.pass == NNC_CONV_INPUT_GRAD,
       amx = strcmp(nnc_library_isa(), "avx512_core_amx") == 0;
  CHECK((strcmp(nnc_conv_implementation(&c), "amx") == 0) == (amx && (few || apart || c.pass == NNC_CONV_WEIGHT_GRAD)),
        "pass %d of shape %d in bf16 is %s", (int)c.pass, shape, nnc_conv_implementation(&c));
  check_conv(c);
}

// The weight gradient that is f32 is multiplied in bf16 where the processor can.
static void check_wide_gradient(void) {
  NncConv c = weights_3x3(4, 64, 64);
  c.dtype = NNC_BF16, c.result = NNC_F32;
  const char *by = nnc_conv_implementation(&c), *isa = nnc_library_isa();
  bool multiplies = !strcmp(isa, "avx512_core_amx") || !strcmp(isa, "avx512_core_bf16");
  CHECK((strstr(by, "bf16") != NULL) == multiplies, "%s", by);
}

// Convolutions that run as products of own packed loops: pixels picked by strides, which leave the last ones out, and
// few pixels.
static void check_packed(void) {
  if (!has_own_loops()) return;
  bool avx2 = strcmp(nnc_library_isa(), "avx2") == 0;   // weight gradients, and few pixels of many channels
  static const NncConv shapes[] = {
      {.n = 3, .c = 128, .h = 17, .w = 18, .o = 96, .stride = {2, 2}},
      {.n = 2, .c = 80, .h = 32, .w = 30, .o = 104, .stride = {3, 2}},
      {.n = 2, .c = 144, .h = 13, .w = 15, .o = 80, .stride = {1, 1}},
      {.n = 5, .c = 72, .h = 21, .w = 19, .o = 65, .stride = {1, 1}},
      {.n = 2, .c = 512, .h = 13, .w = 14, .o = 520, .stride = {2, 2}},
      {.n = 7, .c = 520, .h = 13, .w = 14, .o = 130, .stride = {1, 1}},
      {.n = 2, .c = 80, .h = 31, .w = 30, .o = 104, .stride = {1, 1}},   // with AVX2 more outputs and pixels than pay
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int pass = 0; pass < 3; pass++) {
      NncConv c = shapes[i];
      c.pass = (NncConvPass)pass;
      c.kh = c.kw = 1, c.groups = c.channels_last = 1, c.dilation[0] = c.dilation[1] = 1;
      c.dtype = c.result = NNC_F32;
      c.oh = (c.h - 1) / c.stride[0] + 1, c.ow = (c.w - 1) / c.stride[1] + 1;
      bool narrows = (i == 3 || i == 5) && pass == NNC_CONV_FORWARD,   // left to oneDNN
          product = avx2 ? i == 4 || (i != 6 && pass == NNC_CONV_WEIGHT_GRAD) : !narrows;
      CHECK((strcmp(nnc_conv_implementation(&c), "packed") == 0) == product, "pass %d of shape %d is %s", pass, (int)i,
            nnc_conv_implementation(&c));
      check_conv(c);
      check_packed_bf16(c, (int)i);
    }
}

// Larger kernels that are products of packed pixels with AVX2: with a stride, or weight gradients. Half of the shapes
// have too few channels for one pass or another.
static void check_packed_windows(void) {
  if (strcmp(nnc_library_isa(), "avx2") != 0) return;
  static const struct {
    NncConv conv;
    bool packed[3];   // forward, input gradient, weight gradient
  } shapes[] = {
      {{.n = 4, .c = 256, .h = 9, .w = 10, .o = 256, .kh = 3, .kw = 3, .stride = {2, 2}, .pad = {1, 1, 1, 1}},
       {1, 1, 1}},
      {{.n = 2, .c = 72, .h = 19, .w = 18, .o = 100, .kh = 3, .kw = 3, .stride = {2, 2}, .pad = {1, 1, 1, 1}},
       {1, 0, 1}},
      {{.n = 3, .c = 32, .h = 21, .w = 20, .o = 48, .kh = 4, .kw = 4, .stride = {2, 2}, .pad = {1, 1, 1, 1}},
       {0, 0, 1}},
      {{.n = 3, .c = 64, .h = 21, .w = 20, .o = 48, .kh = 5, .kw = 5, .stride = {2, 2}, .pad = {2, 2, 2, 2}},
       {0, 0, 1}},
      {{.n = 2, .c = 40, .h = 16, .w = 15, .o = 64, .kh = 5, .kw = 5, .stride = {1, 1}, .pad = {2, 2, 2, 2}},
       {0, 0, 1}},
      {{.n = 4, .c = 8, .h = 30, .w = 30, .o = 32, .kh = 3, .kw = 3, .stride = {2, 2}, .pad = {1, 1, 1, 1}}, {0, 0, 0}},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int pass = 0; pass < 3; pass++) {
      NncConv c = shapes[i].conv;
      c.pass = (NncConvPass)pass;
      c.groups = c.channels_last = 1, c.dilation[0] = c.dilation[1] = 1;
      c.dtype = c.result = NNC_F32;
      c.oh = (c.h + 2 * c.pad[0] - c.kh) / c.stride[0] + 1, c.ow = (c.w + 2 * c.pad[2] - c.kw) / c.stride[1] + 1;
      CHECK((strcmp(nnc_conv_implementation(&c), "packed") == 0) == shapes[i].packed[pass], "pass %d of shape %d is %s",
            pass, (int)i, nnc_conv_implementation(&c));
      check_conv(c);
      check_planned_for_two(c);
    }
}

// Weight gradients of larger kernels in bf16: short lines, and few channels.
static void check_windows_bf16(void) {
  bool amx = strcmp(nnc_library_isa(), "avx512_core_amx") == 0;
  static const struct {
    NncConv conv;
    bool own;
  } shapes[] = {
      {{.n = 4, .c = 64, .h = 28, .w = 28, .o = 72, .kh = 3, .kw = 3, .stride = {2, 2}, .pad = {1, 1, 1, 1}}, true},
      {{.n = 3, .c = 48, .h = 16, .w = 16, .o = 64, .kh = 3, .kw = 3, .stride = {1, 1}, .pad = {1, 1, 1, 1}}, false},
      {{.n = 6, .c = 64, .h = 7, .w = 7, .o = 32, .kh = 3, .kw = 3, .stride = {1, 1}, .pad = {1, 1, 1, 1}}, false},
      {{.n = 2, .c = 3, .h = 64, .w = 64, .o = 64, .kh = 16, .kw = 16, .stride = {16, 16}}, false},   // little work
      {{.n = 16, .c = 3, .h = 64, .w = 64, .o = 64, .kh = 16, .kw = 16, .stride = {16, 16}}, true},
      {{.n = 4, .c = 3, .h = 80, .w = 80, .o = 96, .kh = 4, .kw = 4, .stride = {4, 4}}, true},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    NncConv c = shapes[i].conv;
    c.pass = NNC_CONV_WEIGHT_GRAD;
    c.groups = c.channels_last = 1, c.dilation[0] = c.dilation[1] = 1;
    c.dtype = NNC_BF16, c.result = NNC_F32;
    c.oh = (c.h + 2 * c.pad[0] - c.kh) / c.stride[0] + 1, c.ow = (c.w + 2 * c.pad[2] - c.kw) / c.stride[1] + 1;
    CHECK((strcmp(nnc_conv_implementation(&c), "amx") == 0) == (amx && shapes[i].own), "shape %d is %s", (int)i,
          nnc_conv_implementation(&c));
    check_conv(c);
    check_planned_for_two(c);
    if (!shapes[i].own) continue;
    c.result = NNC_BF16;   // nothing but the rounding differs
    check_conv(c);
  }
}

// Pixels that no window reads, and windows of padding alone: where oneDNN's kernels for AMX go astray.
static void check_skipped(void) {
  static const NncConv shapes[] = {
      {.n = 2, .c = 64, .h = 64, .w = 64, .o = 64, .kh = 2, .kw = 2, .stride = {4, 4}},
      {.n = 5, .c = 16, .h = 48, .w = 37, .o = 97, .kh = 3, .kw = 3, .stride = {4, 4}, .pad = {1, 1, 1, 1}},
      {.n = 1, .c = 16, .h = 8, .w = 8, .o = 16, .kh = 1, .kw = 1, .stride = {2, 2}, .pad = {0, 1, 0, 0}},
      {.n = 1, .c = 16, .h = 8, .w = 8, .o = 32, .kh = 3, .kw = 3, .stride = {2, 2}, .pad = {0, 5, 0, 0}},
      {.n = 1, .c = 32, .h = 8, .w = 8, .o = 16, .kh = 3, .kw = 3, .stride = {1, 1}, .pad = {4, 0, 0, 5}},
      {.n = 1,
       .c = 64,
       .h = 16,
       .w = 16,
       .o = 64,
       .kh = 2,
       .kw = 2,
       .stride = {4, 4},
       .depth = {.in = 16, .kernel = 2, .stride = 4, .dilation = 1}},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int k = 0; k < 6; k++) {
      NncConv c = shapes[i];
      c.pass = (NncConvPass)(k / 2), c.channels_last = k % 2;
      c.groups = 1, c.dilation[0] = c.dilation[1] = 1;
      c.dtype = c.result = NNC_BF16;
      check_conv(c);   // makes oh and ow for itself
      c.oh = (c.h + c.pad[0] + c.pad[1] - c.kh) / c.stride[0] + 1,
      c.ow = (c.w + c.pad[2] + c.pad[3] - c.kw) / c.stride[1] + 1;
      c.depth.out = c.depth.in ? (c.depth.in - c.depth.kernel) / c.depth.stride + 1 : 0;
      CHECK(strncmp(nnc_conv_implementation(&c), "brgconv:avx512_core_amx", 23) != 0, "shape %d, pass %d", (int)i,
            k / 2);
    }
}

static void run_conv(NncConv c, void *a, void *b, void *out) {
  char error[200] = "";
  c.scratch_bytes = nnc_conv_scratch(&c);
  NncLibrary *library = nnc_library_open(nnc_library_threads());
  const NncOperation *op = nnc_conv_prepare(library, &c, error, sizeof error);
  run_operation(op, error, (void *[3]){a, b, out}, c.scratch_bytes, 1);
  nnc_library_close(library);
}

// Many images: the same bits on any number of threads, and what each image gives alone, although its tiles lie in other
// chunks then.
static void check_winograd_parts(void) {
  enum { IMAGES = 7 };
  for (int pass = 0; pass < 3; pass++) {
    NncConv c = {.pass = (NncConvPass)pass,
                 .dtype = NNC_F32,
                 .result = NNC_F32,
                 .channels_last = true,
                 .n = IMAGES,
                 .c = 64,
                 .h = 56,
                 .w = 56,
                 .o = 96,
                 .oh = 56,
                 .ow = 56,
                 .kh = 3,
                 .kw = 3,
                 .stride = {1, 1},
                 .pad = {1, 1, 1, 1},
                 .dilation = {1, 1},
                 .groups = 1},
            one = c;
    one.n = 1;
    bool gradient = pass == NNC_CONV_WEIGHT_GRAD;
    int64_t x = c.c * c.h * c.w, y = c.o * c.oh * c.ow, nw = c.o * c.c * 9;
    int64_t image[3][3] = {{x, 0, y}, {y, 0, x}, {x, y, 0}}, size[3];   // floats of an image in the three buffers
    for (int i = 0; i < 3; i++) size[i] = image[pass][i] ? IMAGES * image[pass][i] : nw;
    double *a = random_values(size[0], 1, NNC_F32), *b = random_values(size[1], 2, NNC_F32),
           *sum = calloc((size_t)nw, sizeof *sum), worst = 0, scale = 0;
    float *in = to_type(a, size[0], NNC_F32), *other = to_type(b, size[1], NNC_F32),
          *out = to_type(NULL, size[2], NNC_F32), *again = to_type(NULL, size[2], NNC_F32);
    run_conv(c, in, other, out);
    for (int threads = 1; threads < 5; threads++) {
      nnc_library_set_threads(threads);
      run_conv(c, in, other, again);
      CHECK(memcmp(out, again, (size_t)size[2] * sizeof *out) == 0, "pass %d (%s): %d threads give other bits", pass,
            nnc_conv_implementation(&c), threads);
    }
    nnc_library_set_threads(0);
    for (int i = 0; i < IMAGES; i++) {
      run_conv(one, in + i * image[pass][0], other + i * image[pass][1], again);
      if (!gradient)
        CHECK(memcmp(out + i * image[pass][2], again, (size_t)image[pass][2] * sizeof *out) == 0, "pass %d: image %d",
              pass, i);
      for (int64_t k = 0; gradient && k < nw; k++) sum[k] += (double)again[k];
    }
    for (int64_t k = 0; gradient && k < nw; k++)
      worst = fmax(worst, fabs(sum[k] - (double)out[k])), scale = fmax(scale, fabs(sum[k]));
    CHECK(worst <= 1e-5 * scale, "the gradient is not the sum over images: %g of %g", worst, scale);
    free(in), free(other), free(out), free(again), free(a), free(b), free(sum);
  }
}
