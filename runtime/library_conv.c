// Convolutions through oneDNN. The implementation is chosen with the weights' layout left open, since the fast ones
// want theirs blocked; a reorder into the workspace brings the plan's layout to it. Where no fast implementation takes
// the activations as they lie, they are reordered too; where there is none at all, the own loops run. Some 1x1
// convolutions run as matrix products. Volumes are images with one axis more.
#include "runtime/library_internal.h"

#include <string.h>

// With AVX2 (docs/performance.md).
enum {
  // of a 1x1 convolution: weights of one that is a product, its weight gradient or, with few pixels, any pass; and of a
  // weight gradient with fewer outputs than inputs, or with few pixels
  LEAST_WEIGHTS = 1 << 18,
  LEAST_WEIGHTS_GRADIENT = 1 << 12,
  FEW_PIXELS = 1024,   // of all images
  // of a larger kernel, as products whose packing picks pixels
  LEAST_GRADIENT_INPUTS = 16,   // weight gradients
  LEAST_GRADIENT_OUTPUTS = 32,
  MOST_KERNEL_GRADIENT = 64,
  MOST_KERNEL_STRIDED = 16,   // elements; forward with a stride
  LEAST_INPUTS_STRIDED = 64,
  LEAST_WEIGHTS_STRIDED = 1 << 16   // inputs times outputs; input gradients with a stride
};

// In bf16, with AMX (docs/performance.md).
enum {
  FEW_PIXELS_BF16 = 512,   // of a 1x1 convolution, in all images
  // weight gradients of larger kernels
  LEAST_OUTPUTS_BF16 = 64,
  MOST_WIDTH_BF16 = 15,
  MOST_INPUTS_BF16 = 7
};

bool library_conv_equal(const NncConv *a, const NncConv *b) {
  return a->pass == b->pass && a->dtype == b->dtype && a->result == b->result && a->channels_last == b->channels_last &&
         a->n == b->n && a->c == b->c && a->h == b->h && a->w == b->w && a->o == b->o && a->oh == b->oh &&
         a->ow == b->ow && a->kh == b->kh && a->kw == b->kw && memcmp(a->stride, b->stride, sizeof a->stride) == 0 &&
         memcmp(a->pad, b->pad, sizeof a->pad) == 0 && memcmp(a->dilation, b->dilation, sizeof a->dilation) == 0 &&
         a->groups == b->groups && memcmp(&a->depth, &b->depth, sizeof a->depth) == 0;
}

static bool is_consistent_axis(const NncConvAxis *a) {
  if (a->in < 1 || a->kernel < 1 || a->stride < 1 || a->dilation < 1 || a->before < 0 || a->after < 0) return false;
  int64_t room = a->in + a->before + a->after - (a->dilation * (a->kernel - 1) + 1);
  return room >= 0 && a->out == room / a->stride + 1;
}

static bool is_consistent(const NncConv *c) {
  if (c->n < 1 || c->c < 1 || c->o < 1 || c->groups < 1 || c->c % c->groups || c->o % c->groups) return false;
  NncConvAxis axes[NNC_CONV_AXES];
  int n = nnc_conv_axes(c, axes);
  for (int i = 0; i < n; i++)
    if (!is_consistent_axis(&axes[i])) return false;
  return true;
}

// The layouts of a convolution's operands, for the order of their memory or any that the implementation likes best.
static bool describe_image(OnednnLayout *layout, const NncConv *c, int64_t channels, bool out, bool any) {
  static const dnnl_format_tag_t tags[2][2] = {{dnnl_nchw, dnnl_nhwc}, {dnnl_ncdhw, dnnl_ndhwc}};
  dnnl_dims_t dims = {c->n, channels};
  NncConvAxis axes[NNC_CONV_AXES];
  int n = nnc_conv_axes(c, axes);
  for (int i = 0; i < n; i++) dims[2 + i] = out ? axes[i].out : axes[i].in;
  return onednn_layout_by_tag(layout, 2 + n, dims, c->dtype == NNC_BF16 ? dnnl_bf16 : dnnl_f32,
                              any ? dnnl_format_tag_any : tags[nnc_conv_is_3d(c)][c->channels_last]);
}

static bool describe_weights(OnednnLayout *layout, const NncConv *c, NncDtype type, bool any) {
  static const dnnl_format_tag_t tags[2][2] = {{dnnl_oihw, dnnl_goihw}, {dnnl_oidhw, dnnl_goidhw}};
  int g = c->groups > 1;
  dnnl_dims_t dims = {c->groups};
  dims[g] = c->o / c->groups;
  dims[g + 1] = c->c / c->groups;
  NncConvAxis axes[NNC_CONV_AXES];
  int n = nnc_conv_axes(c, axes);
  for (int i = 0; i < n; i++) dims[g + 2 + i] = axes[i].kernel;
  return onednn_layout_by_tag(layout, g + 2 + n, dims, type == NNC_BF16 ? dnnl_bf16 : dnnl_f32,
                              any ? dnnl_format_tag_any : tags[nnc_conv_is_3d(c)][g]);
}

// The best implementation, or NULL: for any layout of the weights, and for the images as they lie or for any too. The
// forward pass that others begin with has weights of the images' type, also where their gradient is f32.
static dnnl_primitive_desc_t describe(Library *lib, const NncConv *c, bool any_image) {
  OnednnConv o = {0};
  NncConvAxis axes[NNC_CONV_AXES];
  int n = nnc_conv_axes(c, axes);
  for (int i = 0; i < n; i++) {
    o.stride[i] = axes[i].stride, o.dilation[i] = axes[i].dilation - 1;
    o.before[i] = axes[i].before, o.after[i] = axes[i].after;
  }
  dnnl_primitive_desc_t found = NULL;
  if (describe_image(&o.x, c, c->c, false, any_image) && describe_image(&o.y, c, c->o, true, any_image) &&
      describe_weights(&o.w, c, c->dtype, true))
    found = onednn_conv_forward(lib->engine, lib->attr, &o);
  if (found && c->pass != NNC_CONV_FORWARD) {
    dnnl_primitive_desc_t hint = found;
    found = NULL;
    if (c->pass == NNC_CONV_INPUT_GRAD) found = onednn_conv_input_grad(lib->engine, lib->attr, &o, hint);
    else if (describe_weights(&o.w, c, library_weights_type(c), true))
      found = onednn_conv_weight_grad(lib->engine, lib->attr, &o, hint);
    dnnl_primitive_desc_destroy(hint);
  }
  onednn_layout_drop(&o.x);
  onednn_layout_drop(&o.w);
  onednn_layout_drop(&o.y);
  return found;
}

// oneDNN's strided 1x1 kernels gather the pixels in scratch memory whole vectors of channels at a time: with a part of
// a vector left over they write past what they asked for, over the scratch of other threads and whatever lies behind.
static bool overruns_scratch(const NncConv *c, const char *implementation) {
  return strstr(implementation, "1x1") && (c->stride[0] > 1 || c->stride[1] > 1 || c->depth.stride > 1) &&
         c->c % 16 != 0;
}

// A stride that is larger than the kernel, or a first or last window of padding alone.
static bool skips(const NncConvAxis *a) {
  int64_t last = (a->out - 1) * a->stride - a->before;
  return a->stride > a->kernel || last >= a->in || a->before > a->dilation * (a->kernel - 1);
}

// oneDNN 2.6's kernels of that name go astray there: values that are wrong or not finite, not the same in each run, or
// a segmentation fault.
static bool goes_astray(const NncConv *c, const char *implementation) {
  NncConvAxis axes[NNC_CONV_AXES];
  bool skipping = false;
  for (int i = nnc_conv_axes(c, axes) - 1; i >= 0; i--) skipping |= skips(&axes[i]);
  return skipping && strncmp(implementation, "brgconv:avx512_core_amx", 23) == 0;
}

static bool adopt_onednn(Library *lib, NncOperation *op, bool any_image) {
  dnnl_primitive_desc_t found = describe(lib, &op->conv, any_image);
  if (!found) return false;
  const char *name = "ref";
  dnnl_primitive_desc_query(found, dnnl_query_impl_info_str, 0, &name);
  bool suits = !library_is_slow(name, op->conv.dtype) && !overruns_scratch(&op->conv, name) &&
               !goes_astray(&op->conv, name);
  if (suits && library_adopt(lib, op, found)) return true;
  dnnl_primitive_desc_destroy(found);
  return false;
}

// Sets which operand is which for the pass; returns by role.
static void assign_operands(NncOperation *op, LibraryOperand **x, LibraryOperand **w, LibraryOperand **y) {
  static const int args[3][3] = {
      {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
      {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC},
      {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS},
  };
  static const int role[3][3] = {{0, 1, 2}, {2, 1, 0}, {0, 2, 1}};   // per pass the operand that is x, w, y
  for (int i = 0; i < 3; i++) op->operand[i].arg = args[op->conv.pass][i];
  op->operand[2].is_output = true;
  *x = &op->operand[role[op->conv.pass][0]];
  *w = &op->operand[role[op->conv.pass][1]];
  *y = &op->operand[role[op->conv.pass][2]];
}

static bool is_avx2(void) { return strcmp(nnc_library_isa(), "avx2") == 0; }

static bool is_worth_product_avx2(const NncConv *c, int64_t pixels) {
  const int64_t weights = c->c * c->o;
  if (c->pass != NNC_CONV_WEIGHT_GRAD) return weights >= LEAST_WEIGHTS && pixels <= FEW_PIXELS;
  return weights >= (c->o < c->c || pixels <= FEW_PIXELS ? LEAST_WEIGHTS_GRADIENT : LEAST_WEIGHTS);
}

// oneDNN's kernels for AMX are slow where pixels are few, their input gradients where pixels are apart, and their
// weight gradients everywhere.
static bool is_worth_product_bf16(const NncConv *c, int64_t pixels) {
  bool strided = c->stride[0] > 1 || c->stride[1] > 1;
  return c->pass == NNC_CONV_WEIGHT_GRAD || pixels <= FEW_PIXELS_BF16 || (c->pass == NNC_CONV_INPUT_GRAD && strided);
}

// A 1x1 convolution of channels-last images is one product over all pixels that it reads: by library_adopt_product, or
// of own loops that pick the pixels of a strided one while packing. oneDNN's 1x1 kernels read the weights once per
// image and reorder them, which costs up to half of the time on small images with many channels, and copy the pixels of
// strided ones; on large dense ones they are ahead, but for weight gradients with more columns than rows. With AVX2
// they are ahead but for weight gradients, and for few pixels of many channels; in bf16 the rule is
// is_worth_product_bf16. Figures: docs/performance.md.
static bool adopt_product_of(Library *lib, NncOperation *op) {
  const NncConv *c = &op->conv;
  NncConvAxis axes[NNC_CONV_AXES];
  int64_t pixels = c->n * nnc_conv_sizes(c).out;
  if (c->dtype == NNC_F32 && is_avx2() && !is_worth_product_avx2(c, pixels)) return false;
  if (c->dtype == NNC_BF16 && !is_worth_product_bf16(c, pixels)) return false;
  bool pointwise = c->groups == 1, dense = true, narrows = c->o < c->c,
       is_weight_grad = c->pass == NNC_CONV_WEIGHT_GRAD;
  for (int i = nnc_conv_axes(c, axes) - 1; i >= 0; i--) {
    pointwise &= axes[i].kernel == 1 && axes[i].before == 0 && axes[i].after == 0;
    dense &= axes[i].stride == 1;
  }
  if (!pointwise || !c->channels_last) return false;
  NncMatmul m = {.dtype = c->dtype, .result = c->result, .batch = 1};
  switch (c->pass) {
  case NNC_CONV_FORWARD:
    m.m = pixels, m.n = c->o, m.k = c->c, m.a_row = c->c, m.a_col = 1, m.b_row = 1, m.b_col = c->c;
    break;
  case NNC_CONV_INPUT_GRAD:
    m.m = pixels, m.n = c->c, m.k = c->o, m.a_row = c->o, m.a_col = 1, m.b_row = c->c, m.b_col = 1;
    break;
  case NNC_CONV_WEIGHT_GRAD:
    m.m = c->o, m.n = c->c, m.k = pixels, m.a_row = 1, m.a_col = c->o, m.b_row = c->c, m.b_col = 1;
    break;
  }
  m.c_row = m.n;
  Gemm gemm = library_gemm_of(&m);
  if (!dense) {
    if (nnc_conv_is_3d(c)) return false;
    GemmRows picked = {.pixel = c->stride[1] * c->c,
                       .line = c->stride[0] * c->w * c->c,
                       .image = c->h * c->w * c->c,
                       .width = c->ow,
                       .height = c->oh};
    if (c->pass == NNC_CONV_FORWARD) gemm.a_rows = picked;
    else if (is_weight_grad) gemm.b_rows = picked;
    else gemm.c_rows = picked, gemm.clears_c = true, gemm.c_elements = c->n * c->h * c->w * c->c;
    return gemm_fits(&gemm) && library_adopt_packed(lib, op, &gemm);
  }
  const bool own_gradient = is_weight_grad && (c->o <= c->c || is_avx2());
  bool few = pixels <= 1024 || (pixels <= 2048 && !(narrows && c->pass == NNC_CONV_FORWARD) && gemm_fits(&gemm));
  return (few || own_gradient || c->dtype == NNC_BF16) && library_product_fits(&m) &&
         library_adopt_product(lib, op, &m);
}

// oneDNN's kernels for AVX2 lose half of their rate to the caches where pixels are apart by a stride, and weight
// gradients of channels-last images are slow there in any case. With AVX-512 oneDNN's are ahead, with a stride too.
static bool is_worth_packed_avx2(const NncConv *c) {
  bool strided = c->stride[0] > 1 || c->stride[1] > 1;
  if (c->kh * c->kw == 1) return false;
  switch (c->pass) {
  case NNC_CONV_FORWARD: return strided && c->kh * c->kw <= MOST_KERNEL_STRIDED && c->c >= LEAST_INPUTS_STRIDED;
  case NNC_CONV_INPUT_GRAD: return strided && c->c * c->o >= LEAST_WEIGHTS_STRIDED;
  case NNC_CONV_WEIGHT_GRAD:
    return c->kh * c->kw <= MOST_KERNEL_GRADIENT && c->c >= LEAST_GRADIENT_INPUTS && c->o >= LEAST_GRADIENT_OUTPUTS;
  }
  return false;
}

// oneDNN's weight gradients for AMX are slow where lines of pixels are short or channels few.
static bool is_worth_packed_bf16(const NncConv *c) {
  return c->pass == NNC_CONV_WEIGHT_GRAD && c->kh * c->kw > 1 && c->o >= LEAST_OUTPUTS_BF16 &&
         (c->ow <= MOST_WIDTH_BF16 || c->c <= MOST_INPUTS_BF16);
}

// Fewer threads than were planned for may filter what more of them do directly, for which the plan has no room.
static bool has_room_to_filter(const Library *lib, const NncOperation *op) {
  return lib == library_of_questions() || winograd_scratch(&op->conv, op->threads) <= op->conv.scratch_bytes;
}

static bool describe_converted(Library *lib, NncOperation *op) {
  NncConv f = op->conv;
  bool converts = f.result != NNC_F32;
  f.dtype = f.result = NNC_F32;
  NncConvAxis size = nnc_conv_sizes(&f);
  const int64_t x = f.n * f.c * size.in, w = f.o * (f.c / f.groups) * size.kernel, y = f.n * f.o * size.out;
  const int64_t sizes[3][3] = {{x, w, y}, {y, w, x}, {x, y, w}};   // by pass, in the order of the buffers
  for (int i = 0; i < (converts ? 3 : 2); i++) op->copy[i] = (LibraryCopy){.count = {1, 1, sizes[f.pass][i]}};
  f.scratch_bytes -= library_place_copies(op);   // of what was planned
  const NncOperation *inner = library_find(lib, &f, NULL, op->threads);
  if (!inner) return false;
  library_adopt_converted(op, inner);
  return true;
}

bool library_describe_conv(Library *lib, NncOperation *op) {
  const NncConv *c = &op->conv;
  if (!is_consistent(c) || !library_result_fits(c->dtype, c->result)) return false;
  LibraryOperand *x, *w, *y;
  assign_operands(op, &x, &w, &y);
  bool narrow = c->dtype == NNC_BF16 || c->dtype == NNC_F16;
  if (c->dtype == NNC_F16 || (narrow && !library_has_bf16())) return describe_converted(lib, op);
  if (!narrow && c->dtype != NNC_F32) return c->dtype == NNC_F64 && library_adopt_direct(lib, op);

  if (!describe_image(&x->given, c, c->c, false, false) || !describe_image(&y->given, c, c->o, true, false) ||
      !describe_weights(&w->given, c, library_weights_type(c), false))
    return false;
  // oneDNN 2.6 keeps some sizes in 32 bits.
  NncConvAxis size = nnc_conv_sizes(c);
  int64_t pixels = size.in > size.out ? size.in : size.out, channels = c->c > c->o ? c->c : c->o;
  bool fits = pixels <= INT32_MAX && channels <= INT32_MAX / pixels && c->n <= INT32_MAX / pixels;
  if (fits && adopt_product_of(lib, op)) return true;
  if (fits && !narrow && winograd_fits(c, op->threads) && has_room_to_filter(lib, op))
    return library_adopt_winograd(lib, op);
  bool packed = narrow ? is_worth_packed_bf16(c) : is_avx2() && is_worth_packed_avx2(c);
  if (fits && packed && packed_conv_fits(c) && library_adopt_packed_conv(lib, op)) return true;
  if (fits && (adopt_onednn(lib, op, false) || adopt_onednn(lib, op, true))) return true;
  return narrow ? describe_converted(lib, op) : library_adopt_direct(lib, op);
}
