// Convolutions of volumes for targets that have none: a sum over the places of the kernel along the depth, each a
// convolution of all slices of depth as images. With the depth first, the slices of one place are one piece of memory.
#include <stdlib.h>

#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/simplify/simplify.h"

// Along the depth; and the attributes of the convolutions of height and width.
typedef struct Slices {
  NnBuilder b;
  MlirOperation op;
  int64_t stride, before, behind, dilation, kernel;
  int64_t strides[3], padding[6], dilations[3];   // of all axes
} Slices;

static Slices slices_of(MlirOperation op, const NnType *w) {
  Slices s = {.b = rewrite_builder(op), .op = op, .kernel = w->dim[2], .dilations = {1, 1, 1}};
  nn_attr_i64s(op, "strides", s.strides, 3);
  nn_attr_i64s(op, "padding", s.padding, 6);
  nn_attr_i64s(op, "dilation", s.dilations, 3);
  s.stride = s.strides[0], s.before = s.padding[0], s.behind = s.padding[1], s.dilation = s.dilations[0];
  return s;
}

static MlirValue convolution(Slices *s, NnOp op, MlirValue first, MlirValue second, const NnType *asked) {
  const NnAttr attrs[] = {NN_I64S("strides", s->strides + 1, 2), NN_I64S("padding", s->padding + 2, 4),
                          NN_I64S("dilation", s->dilations + 1, 2), NN_I64("groups", nn_attr_i64(s->op, "groups", 1)),
                          NN_STR("layout", "nchw")};
  MlirOperation made = nn_build(&s->b, op, 2, (MlirValue[]){first, second}, 5, attrs, asked);
  return mlirOperationGetResult(made, 0);
}

static MlirValue swap_depth(NnBuilder *b, MlirValue x) {   // [N, C, D, H, W] to [D, N, C, H, W]
  return nn_transpose(b, x, (int64_t[]){2, 0, 1, 3, 4});
}
static MlirValue swap_back(NnBuilder *b, MlirValue x) { return nn_transpose(b, x, (int64_t[]){1, 2, 0, 3, 4}); }

// Of x[D, N, C, H, W] `count` slices from `start` on as images.
static MlirValue images_of(NnBuilder *b, MlirValue x, int64_t start, int64_t stride, int64_t count) {
  NnType t = nn_value_type(x);
  const int64_t starts[5] = {start}, strides[5] = {count > 1 ? stride : 1, 1, 1, 1, 1};
  const int64_t sizes[5] = {count, t.dim[1], t.dim[2], t.dim[3], t.dim[4]};
  return nn_reshape(b, nn_slice(b, x, starts, sizes, strides), 4,
                    (int64_t[]){count * t.dim[1], t.dim[2], t.dim[3], t.dim[4]});
}

static MlirValue all_images(NnBuilder *b, MlirValue x) {   // of [N, C, D, H, W]
  return images_of(b, swap_depth(b, x), 0, 1, nn_value_type(x).dim[2]);
}

static MlirValue pad_depth(NnBuilder *b, MlirValue x, int64_t before, int64_t behind, int64_t between) {
  const int64_t low[5] = {before}, high[5] = {behind}, interior[5] = {between};
  return nn_pad(b, x, low, high, interior, 0);
}

static MlirValue padded(Slices *s, MlirValue x) {
  return pad_depth(&s->b, swap_depth(&s->b, x), s->before, s->behind, 0);
}

static MlirValue weight_at(NnBuilder *b, MlirValue weight, int64_t place) {
  NnType w = nn_value_type(weight);
  const int64_t starts[5] = {0, 0, place}, sizes[5] = {w.dim[0], w.dim[1], 1, w.dim[3], w.dim[4]};
  return nn_reshape(b, nn_slice(b, weight, starts, sizes, NULL), 4,
                    (int64_t[]){w.dim[0], w.dim[1], w.dim[3], w.dim[4]});
}

static MlirValue add(NnBuilder *b, MlirValue sum, MlirValue part) {
  return nn_value_is_null(sum) ? part : nn_binary(b, NN_OP_add, sum, part);
}

static MlirValue forward(MlirOperation op, MlirValue x, MlirValue weight) {
  NnType w = nn_value_type(weight), y = nn_value_type(nn_result(op, 0));
  Slices s = slices_of(op, &w);
  MlirValue from = padded(&s, x), sum = nn_null_value();
  for (int64_t k = 0; k < s.kernel; k++)
    sum = add(&s.b, sum,
              convolution(&s, NN_OP_conv2d, images_of(&s.b, from, k * s.dilation, s.stride, y.dim[2]),
                          weight_at(&s.b, weight, k), NULL));
  return swap_back(&s.b, nn_reshape(&s.b, sum, 5, (int64_t[]){y.dim[2], y.dim[0], y.dim[1], y.dim[3], y.dim[4]}));
}

// Each place writes to depths that are a stride apart, `dilation` behind those of the place before.
static MlirValue input_grad(MlirOperation op, MlirValue dy, MlirValue weight) {
  NnType w = nn_value_type(weight), x = nn_value_type(nn_result(op, 0)), y = nn_value_type(dy);
  Slices s = slices_of(op, &w);
  int64_t n = x.dim[0], c = x.dim[1], depth = y.dim[2], spread = (depth - 1) * s.stride + 1,
          whole = spread + s.dilation * (s.kernel - 1), more = s.before + x.dim[2] - whole;
  NnType slice = nn_type(x.dtype, 4, (int64_t[]){depth * n, c, x.dim[3], x.dim[4]});
  MlirValue images = all_images(&s.b, dy), sum = nn_null_value();
  for (int64_t k = 0; k < s.kernel; k++) {
    int64_t first = k * s.dilation;
    MlirValue part = convolution(&s, NN_OP_conv2d_input_grad, images, weight_at(&s.b, weight, k), &slice);
    part = nn_reshape(&s.b, part, 5, (int64_t[]){depth, n, c, x.dim[3], x.dim[4]});
    sum = add(&s.b, sum, pad_depth(&s.b, part, first, whole - spread - first + (more > 0 ? more : 0), s.stride - 1));
  }
  const int64_t starts[5] = {s.before}, sizes[5] = {x.dim[2], n, c, x.dim[3], x.dim[4]};
  return swap_back(&s.b, nn_slice(&s.b, sum, starts, sizes, NULL));
}

static MlirValue weight_grad(MlirOperation op, MlirValue x, MlirValue dy) {
  NnType w = nn_value_type(nn_result(op, 0)), y = nn_value_type(dy),
         image = nn_type(w.dtype, 4, (int64_t[]){w.dim[0], w.dim[1], w.dim[3], w.dim[4]});
  Slices s = slices_of(op, &w);
  MlirValue from = padded(&s, x), images = all_images(&s.b, dy), sum = nn_null_value();
  for (int64_t k = 0; k < s.kernel; k++) {
    MlirValue part = convolution(&s, NN_OP_conv2d_weight_grad,
                                 images_of(&s.b, from, k * s.dilation, s.stride, y.dim[2]), images, &image);
    part = nn_reshape(&s.b, part, 5, (int64_t[]){w.dim[0], w.dim[1], 1, w.dim[3], w.dim[4]});
    const int64_t low[5] = {0, 0, k}, high[5] = {0, 0, s.kernel - 1 - k}, none[5] = {0};
    sum = add(&s.b, sum, nn_pad(&s.b, part, low, high, none, 0));
  }
  return sum;
}

void layout_expand_volumes(MlirBlock block) {
  int n;
  MlirOperation *ops = rewrite_ops(block, &n);
  for (int i = 0; i < n; i++) {
    MlirOperation op = ops[i];
    MlirValue result = nn_null_value();
    switch (nn_op_of(op)) {
    case NN_OP_conv3d: result = forward(op, nn_operand(op, 0), nn_operand(op, 1)); break;
    case NN_OP_conv3d_input_grad: result = input_grad(op, nn_operand(op, 0), nn_operand(op, 1)); break;
    case NN_OP_conv3d_weight_grad: result = weight_grad(op, nn_operand(op, 0), nn_operand(op, 1)); break;
    default: continue;
    }
    rewrite_replace(op, &result);
  }
  free(ops);
}
