// Convolutions as kernels of our own: forward, data gradient and weight gradient are matrix products over the same
// description of operands. Activations with the channels last are read along the channels, so the summed index runs
// over them first.
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/conv.h"
#include "codegen/cuda/nvptx.h"
#include "codegen/cuda/template/template.h"
#include "codegen/cuda/template/template_depthwise.h"
#include "support/alloc.h"
#include "support/integers.h"
#include "support/text.h"

typedef struct Image {
  int64_t n, c, y, x;
} Image;   // strides in elements

static Image image_strides(bool channels_last, int64_t c, int64_t h, int64_t w) {
  return channels_last ? (Image){h * w * c, 1, w * c, c} : (Image){c * h * w, h * w, w, 1};
}

static Digits linear(int64_t stride) { return (Digits){.size1 = 1, .size0 = 1, .stride = {0, 0, stride}}; }
static Digits pixels(Image s, int64_t h, int64_t w) {
  return (Digits){.size1 = h, .size0 = w, .stride = {s.x, s.y, s.n}};
}

// Enough blocks for a large GPU: the gradient of the weights sums over all pixels, and has few elements.
static void choose_splits(ConvProduct *p) {
  enum { BLOCKS = 264, LEAST = 256 };
  int64_t tiles = p->groups * ((p->m + 63) / 64) * ((p->n + 63) / 64), splits = BLOCKS / (tiles > 0 ? tiles : 1);
  if (splits > p->k / LEAST) splits = p->k / LEAST;
  if (splits < 1) splits = 1;
  p->split_size = divide_up(p->k, splits);
  p->split_size = (p->split_size + 15) / 16 * 16;
  p->splits = divide_up(p->k, p->split_size);
}

void conv_product(const NncConv *c, ConvProduct *p) {
  int64_t ci = c->c / c->groups, oi = c->o / c->groups, taps = c->kh * c->kw;
  Image xs = image_strides(c->channels_last, c->c, c->h, c->w),
        ys = image_strides(c->channels_last, c->o, c->oh, c->ow);
  Digits window_position = {.size1 = c->oh,
                            .size0 = c->ow,
                            .stride = {0, 0, xs.n},
                            .y = {0, c->stride[0], 0},
                            .x = {c->stride[1], 0, 0},
                            .y0 = -c->pad[0],
                            .x0 = -c->pad[2]};
  // (kh, kw, channel)
  Digits window_tap = {.size1 = c->kw,
                       .size0 = ci,
                       .stride = {xs.c, 0, 0},
                       .y = {0, 0, c->dilation[0]},
                       .x = {0, c->dilation[1], 0}};
  ConvOperand window = {.group_stride = ci * xs.c,
                        .outer = window_position,
                        .inner = window_tap,
                        .is_window = true,
                        .step = {1, 1},
                        .height = c->h,
                        .width = c->w,
                        .y_stride = xs.y,
                        .x_stride = xs.x};
  Digits weight_tap = {.size1 = c->kw, .size0 = ci, .stride = {taps, 1, c->kw}};   // (kh, kw, channel) of w[o]
  *p = (ConvProduct){.groups = c->groups, .splits = 1, .dtype = (NnDtype)c->dtype, .result = (NnDtype)c->result};
  p->element = element_type(nn_dtype_wide(p->dtype));
  p->element_bytes = nn_dtype_bytes(nn_dtype_wide(p->dtype));
  switch (c->pass) {
  case NNC_CONV_FORWARD:   // m (n, oh, ow), n o, k (kh, kw, c)
    p->m = c->n * c->oh * c->ow, p->n = oi, p->k = ci * taps;
    p->a = window;
    p->b = (ConvOperand){.buffer = 1, .group_stride = oi * ci * taps, .outer = linear(ci * taps), .inner = weight_tap};
    p->c_group_stride = oi * ys.c, p->c_rows = pixels(ys, c->oh, c->ow), p->c_cols = linear(ys.c);
    break;
  case NNC_CONV_INPUT_GRAD:   // m (n, h, w), n c, k (kh, kw, o)
    p->m = c->n * c->h * c->w, p->n = ci, p->k = oi * taps;
    p->a = (ConvOperand){.group_stride = oi * ys.c,
                         .is_window = true,
                         .step = {c->stride[0], c->stride[1]},
                         .height = c->oh,
                         .width = c->ow,
                         .y_stride = ys.y,
                         .x_stride = ys.x};
    p->a.outer = (Digits){.size1 = c->h,
                          .size0 = c->w,
                          .stride = {0, 0, ys.n},
                          .y = {0, 1, 0},
                          .x = {1, 0, 0},
                          .y0 = c->pad[0],
                          .x0 = c->pad[2]};
    p->a.inner = (Digits){.size1 = c->kw,
                          .size0 = oi,
                          .stride = {ys.c, 0, 0},
                          .y = {0, 0, -c->dilation[0]},
                          .x = {0, -c->dilation[1], 0}};
    p->b = (ConvOperand){.buffer = 1,
                         .group_stride = oi * ci * taps,
                         .outer = linear(taps),
                         .inner = {.size1 = c->kw, .size0 = oi, .stride = {ci * taps, 1, c->kw}}};
    p->c_group_stride = ci * xs.c, p->c_rows = pixels(xs, c->h, c->w), p->c_cols = linear(xs.c);
    break;
  case NNC_CONV_WEIGHT_GRAD:   // m o, n (kh, kw, c), k (n, oh, ow)
    p->m = oi, p->n = ci * taps, p->k = c->n * c->oh * c->ow;
    p->a = (ConvOperand){.buffer = 1,
                         .group_stride = oi * ys.c,
                         .outer = linear(ys.c),
                         .inner = pixels(ys, c->oh, c->ow),
                         .outer_is_contiguous = c->channels_last};
    p->b = window, p->b.outer = window_tap, p->b.inner = window_position, p->b.outer_is_contiguous = c->channels_last;
    p->c_group_stride = oi * ci * taps, p->c_rows = linear(ci * taps), p->c_cols = weight_tap;
    break;
  }
  choose_splits(p);
  int64_t most = larger(larger(c->n * c->c * c->h * c->w, c->n * c->o * c->oh * c->ow), c->o * ci * taps);
  most = larger(most, larger(p->m, p->k) + 4096) * p->splits;
  p->index_bits = most < INT32_MAX / 2 ? 32 : 64;
}

// Tensor cores, where the channels fill a good part of a tile: bf16 and f16, f32 as three products of tf32 parts or as
// one of what tf32 keeps.
bool conv_uses_template(const CudaTarget *target, const NncConv *c, ConvShape *shape) {
  TileType type = c->dtype == NNC_BF16  ? TILE_BF16
                  : c->dtype == NNC_F16 ? TILE_F16
                  : target->base.tf32   ? TILE_TF32
                                        : TILE_F32;
  if (c->dtype == NNC_F64 || !cuda_has_tensor_cores(target) ||
      !conv_template_shape(c, type, cuda_wide_blocks(target), shape))
    return false;
  int64_t ci = c->c / c->groups, oi = c->o / c->groups;
  switch (c->pass) {
  case NNC_CONV_FORWARD: return oi >= 32 && ci >= 16;
  case NNC_CONV_INPUT_GRAD: return ci >= 32 && oi >= 16;
  case NNC_CONV_WEIGHT_GRAD: return oi >= 32 && ci * c->kh * c->kw >= 32;
  }
  return false;
}

int64_t conv_workspace_bytes(const CudaTarget *target, const NncConv *c) {
  ConvShape shape;
  if (depthwise_supported(c)) return (depthwise_workspace(c) + 63) / 64 * 64;
  if (conv_uses_template(target, c, &shape) || conv_grouped_shape(c, cuda_wide_blocks(target), &shape))
    return (conv_template_workspace(&shape) + 63) / 64 * 64;
  ConvProduct p;
  conv_product(c, &p);
  return p.splits > 1 ? (p.splits * p.groups * p.m * p.n * p.element_bytes + 63) / 64 * 64 : 0;
}

// ---------------------------------------------------------------------------------------------------------------------
// What the products are written with

void code_begin(Code *c, KernelModule *m, const ConvProduct *p, const char *symbol, int buffers) {
  emitter_begin(&c->e, m, NULL, symbol, buffers);
  c->e.index_bits = p->index_bits;
  c->p = p;
}

int code(Code *c, const char *name, Values operands, const char *rest, ...) {
  va_list args;
  va_start(args, rest);
  Value v = emitv(&c->e, c->e.depth, name, operands, rest, args);
  va_end(args);
  return v.id;
}

int code_index(Code *c, int64_t value) { return emit_integer(&c->e, c->p->index_bits, value).id; }
int code_op(Code *c, const char *op, int a, int b) {
  return emit_index(&c->e, op, (Value){.id = a, .depth = c->e.depth}, (Value){.id = b}).id;
}
int code_op_with(Code *c, const char *op, int a, int64_t b) { return code_op(c, op, a, code_index(c, b)); }

int code_number(Code *c, GpuBasic which) {
  return (c->p->index_bits == 32 ? schedule_number32(&c->e, which) : schedule_number(&c->e, which)).id;
}

int code_and(Code *c, int a, int b) {
  return a < 0 ? b : b < 0 ? a : code(c, "arith.andi", VALUES(a, b), "%%, %% : i1");
}

// start + digit[0] step[0] + …; -1: constantly zero.
static int weighted(Code *c, const int digit[3], const int64_t step[3], int64_t start) {
  int sum = start ? code_index(c, start) : -1;
  for (int i = 0; i < 3; i++) {
    if (!step[i] || digit[i] < 0) continue;
    int term = step[i] == 1 ? digit[i] : code_op_with(c, "muli", digit[i], step[i]);
    sum = sum < 0 ? term : code_op(c, "addi", sum, term);
  }
  return sum;
}

CodePlace code_place(Code *c, const Digits *d, int index) {
  int digit[3] = {-1, -1, index};
  if (d->size0 > 1) {
    digit[0] = code_op_with(c, "remui", index, d->size0);
    digit[2] = code_op_with(c, "divui", index, d->size0);
  }
  if (d->size1 > 1) {
    digit[1] = code_op_with(c, "remui", digit[2], d->size1);
    digit[2] = code_op_with(c, "divui", digit[2], d->size1);
  }
  return (CodePlace){weighted(c, digit, d->y, d->y0), weighted(c, digit, d->x, d->x0),
                     weighted(c, digit, d->stride, 0)};
}

int code_result_offset(Code *c, int group, int m, int n) {
  const ConvProduct *p = c->p;
  int offset = code_op_with(c, "muli", group, p->c_group_stride);
  CodePlace row = code_place(c, &p->c_rows, m), column = code_place(c, &p->c_cols, n);
  if (row.offset >= 0) offset = code_op(c, "addi", offset, row.offset);
  return column.offset >= 0 ? code_op(c, "addi", offset, column.offset) : offset;
}

static int add_maybe(Code *c, int a, int b) { return a < 0 ? b : b < 0 ? a : code_op(c, "addi", a, b); }

// The coordinate of a pixel in its image; narrows `valid`.
static int coordinate(Code *c, int at, int64_t step, int64_t extent, int *valid) {
  if (at < 0) return -1;   // constant 0 lies inside
  if (step > 1) {
    int sign = code(c, "arith.cmpi", VALUES(at, code_index(c, 0)), "sge, %%, %% : i%d", c->p->index_bits);
    int rest = code_op_with(c, "remui", at, step);
    *valid = code_and(c, code_and(c, *valid, sign),
                      code(c, "arith.cmpi", VALUES(rest, code_index(c, 0)), "eq, %%, %% : i%d", c->p->index_bits));
    at = code_op_with(c, "divui", at, step);
  }
  *valid = code_and(c, *valid,
                    code(c, "arith.cmpi", VALUES(at, code_index(c, extent)), "ult, %%, %% : i%d", c->p->index_bits));
  return at;
}

static int load(Code *c, int buffer, int offset) {
  const char *memory = element_type(c->p->dtype);
  int address = code(c, "llvm.getelementptr", VALUES(c->e.buffer[buffer], offset),
                     "%%[%%] : (!buffer, i%d) -> !buffer, %s", c->p->index_bits, memory);
  int v = code(c, "llvm.load", VALUES(address), "%% {alignment = %d : i64} : !buffer -> %s",
               (int)nn_dtype_bytes(c->p->dtype), memory);
  if (c->p->dtype == NN_F16) return code(c, "arith.extf", VALUES(v), "%% : f16 to f32");
  if (c->p->dtype != NN_BF16) return v;
  int half = emit_i32(&c->e, 16).id, word = code(c, "arith.extui", VALUES(v), "%% : i16 to i32");
  return code(c, "arith.bitcast", VALUES(code(c, "arith.shli", VALUES(word, half), "%%, %% : i32")), "%% : i32 to f32");
}

// An f32 to the nearest bf16, ties to even, as i16.
static int round_to_bf16(Code *c, int value) {
  int half = emit_i32(&c->e, 16).id, one = emit_i32(&c->e, 1).id, most = emit_i32(&c->e, 32767).id,
      quiet = emit_constant(&c->e, "32704 : i16").id;
  int word = code(c, "arith.bitcast", VALUES(value), "%% : f32 to i32");
  int odd = code(c, "arith.andi", VALUES(code(c, "arith.shrui", VALUES(word, half), "%%, %% : i32"), one),
                 "%%, %% : i32");
  int sum = code(c, "arith.addi", VALUES(code(c, "arith.addi", VALUES(word, most), "%%, %% : i32"), odd),
                 "%%, %% : i32");
  int rounded = code(c, "arith.trunci", VALUES(code(c, "arith.shrui", VALUES(sum, half), "%%, %% : i32")),
                     "%% : i32 to i16");
  int nan = code(c, "arith.cmpf", VALUES(value, value), "uno, %%, %% : f32");
  return code(c, "arith.select", VALUES(nan, quiet, rounded), "%%, %%, %% : i16");
}

void code_store(Code *c, int buffer, int offset, int value) {
  NnDtype dtype = buffer == 2 ? c->p->result : nn_dtype_wide(c->p->dtype);
  if (dtype == NN_BF16) value = round_to_bf16(c, value);
  if (dtype == NN_F16) value = code(c, "arith.truncf", VALUES(value), "%% : f32 to f16");
  int address = code(c, "llvm.getelementptr", VALUES(c->e.buffer[buffer], offset),
                     "%%[%%] : (!buffer, i%d) -> !buffer, %s", c->p->index_bits, element_type(dtype));
  emit_effect(&c->e, "llvm.store", VALUES(value, address), "%%, %% {alignment = %d : i64} : %s, !buffer",
              (int)nn_dtype_bytes(dtype), element_type(dtype));
}

int code_element(Code *c, const ConvOperand *o, int group_offset, const CodePlace *outer, const CodePlace *inner,
                 int valid) {
  const char *element = c->p->element;
  int offset = add_maybe(c, group_offset, add_maybe(c, outer->offset, inner->offset));
  if (o->is_window) {
    int y = coordinate(c, add_maybe(c, outer->y, inner->y), o->step[0], o->height, &valid),
        x = coordinate(c, add_maybe(c, outer->x, inner->x), o->step[1], o->width, &valid);
    if (y >= 0) offset = add_maybe(c, offset, code_op_with(c, "muli", y, o->y_stride));
    if (x >= 0) offset = add_maybe(c, offset, code_op_with(c, "muli", x, o->x_stride));
  }
  int zero = code_index(c, 0);
  if (offset < 0) offset = zero;
  // the first element can always be read
  if (valid >= 0) offset = code(c, "arith.select", VALUES(valid, offset, zero), "%%, %%, %% : i%d", c->p->index_bits);
  int v = load(c, o->buffer, offset);
  if (valid < 0) return v;
  int none = emit_constant(&c->e, "0.0 : %s", element).id;
  return code(c, "arith.select", VALUES(valid, v, none), "%%, %%, %% : %s", element);
}

// ---------------------------------------------------------------------------------------------------------------------

static void comment(const NncConv *c, const char *name, Text *t) {
  static const char *const passes[] = {"forward", "data gradient", "weight gradient"};
  text_add(t, "// %s: convolution, %s, %s\n", name, passes[c->pass], nn_dtype_name((NnDtype)c->dtype));
  text_add(t,
           "// x [%lld, %lld, %lld, %lld] (%s), w [%lld, %lld, %lld, %lld], stride %lldx%lld, padding %lld %lld %lld "
           "%lld, dilation %lldx%lld, groups %lld\n",
           (long long)c->n, (long long)(c->channels_last ? c->h : c->c), (long long)(c->channels_last ? c->w : c->h),
           (long long)(c->channels_last ? c->c : c->w), c->channels_last ? "nhwc" : "nchw", (long long)c->o,
           (long long)(c->c / c->groups), (long long)c->kh, (long long)c->kw, (long long)c->stride[0],
           (long long)c->stride[1], (long long)c->pad[0], (long long)c->pad[1], (long long)c->pad[2],
           (long long)c->pad[3], (long long)c->dilation[0], (long long)c->dilation[1], (long long)c->groups);
  text_add(t, "// recomputes nothing\n");
}

static void comment_product(const ConvProduct *p, Text *t) {
  text_add(t, "// product of %lld x %lld by %lld x %lld, k in %lld parts\n", (long long)p->m, (long long)p->k,
           (long long)p->k, (long long)p->n, (long long)p->splits);
}

static char *name_of(const CudaTarget *target, MlirOperation op, const OpRecord *r) {
  (void)target, (void)op;
  const NncConv *c = &r->conv;
  static const char *const passes[] = {"forward", "input_grad", "weight_grad"};
  const char *result = c->result == c->dtype ? "" : "_to_f32";
  return text_format(
      "conv_%s_%s%s_%lldx%lldx%lldx%lld_%lldx%lldx%lld_s%lldx%lld_p%lld_%lld_%lld_%lld_d%lldx%lld_g%lld_%s",
      passes[c->pass], nn_dtype_name((NnDtype)c->dtype), result, (long long)c->n, (long long)c->h, (long long)c->w,
      (long long)c->c, (long long)c->kh, (long long)c->kw, (long long)c->o, (long long)c->stride[0],
      (long long)c->stride[1], (long long)c->pad[0], (long long)c->pad[1], (long long)c->pad[2], (long long)c->pad[3],
      (long long)c->dilation[0], (long long)c->dilation[1], (long long)c->groups, c->channels_last ? "nhwc" : "nchw");
}

static void add_template_launch(EmittedKernel *out, char *symbol, const TemplateLaunch *l) {   // takes symbol
  gpu_add_launch(out, symbol, l->grid[0], l->grid[1], l->grid[2], l->threads);
  KernelLaunch *launch = &out->launches[out->n_launches - 1];
  launch->shared_bytes = l->shared_bytes;
  launch->n_numbers = l->n_numbers;
  launch->numbers = allocate_array((size_t)l->n_numbers, sizeof *launch->numbers);
  memcpy(launch->numbers, l->numbers, (size_t)l->n_numbers * sizeof *l->numbers);
  free(symbol);
}

void cuda_add_template(const ConvShape *shape, EmittedKernel *out) {
  TemplateLaunch l;
  for (int i = 0; i < conv_template_launches(shape); i++) {
    conv_template_launch(shape, i, &l);
    add_template_launch(out, conv_template_symbol(shape, i), &l);
  }
  gpu_comment_launches(out, &out->comment);
  CudaTemplate *template = out->template = allocate_array(1, sizeof *template);
  *template = (CudaTemplate){.kind = TEMPLATE_CONV, .conv = *shape};
  if (shape->pass != NNC_CONV_WEIGHT_GRAD && conv_template_launches(shape) > 1)
    text_add(&out->comment, "// every call puts the weights into another order\n");
  if (shape->grouped && shape->pass == NNC_CONV_WEIGHT_GRAD)
    text_add(&out->comment,
             "// groups: a thread makes the products of a vector of outputs and one of inputs for one tap\n");
  else if (shape->grouped) text_add(&out->comment, "// groups: a thread makes 16 bytes of channels of four pixels\n");
  else
    text_add(&out->comment, "// tensor cores: %stiles of up to 128 x 128 results\n",
             shape->type == TILE_TF32  ? "each f32 product as one of tf32, "
             : shape->type == TILE_F32 ? "each f32 product as three of tf32 parts, "
                                       : "");
}

static void emit_depthwise(const NncConv *c, EmittedKernel *out) {
  TemplateLaunch l;
  for (int i = 0; i < depthwise_launches(c); i++) {
    depthwise_launch(c, i, &l);
    add_template_launch(out, depthwise_symbol(c, i), &l);
  }
  gpu_comment_launches(out, &out->comment);
  CudaTemplate *template = out->template = allocate_array(1, sizeof *template);
  *template = (CudaTemplate){.kind = TEMPLATE_DEPTHWISE, .depthwise = *c};
  text_add(&out->comment,
           "// depthwise: a thread makes a strip of results with the weights of its channels in registers\n");
}

static void emit_product(const NncConv *c, const char *name, EmittedKernel *out) {
  KernelModule m = {.target = schedule_target(&nvptx_family)};
  ConvProduct p;
  conv_product(c, &p);
  // A tile of 64 columns for a handful of them wastes the rest: depthwise convolutions and those of few channels.
  if (p.n < 8 || p.m < 8) conv_emit_direct(&m, &p, name, out);
  else conv_emit_tiled(&m, &p, name, out);
  if (p.splits > 1) {
    char *symbol = text_format("%s_sum", name);
    conv_emit_sum(&m, &p, symbol, out);
    free(symbol);
  }
  kernel_take(&m, out);
  comment_product(&p, &out->comment);
  gpu_comment_launches(out, &out->comment);
}

static void emit_kernel(const CudaTarget *target, MlirOperation op, const OpRecord *r, const char *name,
                        EmittedKernel *out) {
  (void)op;
  const NncConv *c = &r->conv;
  ConvShape shape;
  *out = (EmittedKernel){.name = copy_string(name),
                         .summary = copy_string("convolution"),
                         .workspace_bytes = conv_workspace_bytes(target, c)};
  comment(c, name, &out->comment);
  if (depthwise_supported(c)) {
    emit_depthwise(c, out);
    return;
  }
  if (conv_uses_template(target, c, &shape) || conv_grouped_shape(c, cuda_wide_blocks(target), &shape)) {
    cuda_add_template(&shape, out);
    return;
  }
  emit_product(c, name, out);
}

static int64_t workspace(const CudaTarget *target, MlirOperation op, const OpRecord *r) {
  (void)op;
  return conv_workspace_bytes(target, &r->conv);
}

static void price(const CudaTarget *target, MlirOperation op, const OpRecord *r, CostWork *work) {
  (void)op;
  cuda_price_conv(target, &r->conv, work);
}

const CudaLibrary cuda_library_conv = {name_of, workspace, emit_kernel, price};
