// A large window with a stride of two over an image of few channels, the first layer of a residual network: the tensor
// cores multiply channels, of which there are three. Blocks of 2 x 2 pixels are channels of an image of half the size,
// of which a window of half the size with a stride of one computes the same. (The stem of ResNet-50 in MLPerf's
// submissions: "space to depth".)
#include "passes/rewrite.h"
#include "passes/simplify/simplify.h"
#include "support/integers.h"

enum { FEW = 4, LEAST_WINDOW = 5, LEAST_RESULTS = 32 };   // channels; pixels of the window's sides; channels

// Along height or width. The window begins `front` pixels into a block.
typedef struct Side {
  int64_t blocks, front, window, before, behind;   // of the image, pixels, blocks of the window, of padding
} Side;

static bool side_of(int64_t size, int64_t results, int64_t kernel, int64_t before, Side *s) {
  s->blocks = size / 2;
  s->front = before % 2;
  s->before = (before + s->front) / 2;
  s->window = divide_up(kernel + s->front, 2);
  s->behind = results - 1 - s->blocks - s->before + s->window;
  return size % 2 == 0 && s->behind >= 0;
}

static bool sides_of(MlirOperation op, Side side[2]) {
  NnType x = nn_value_type(nn_operand(op, 0)), w = nn_value_type(nn_operand(op, 1)),
         y = nn_value_type(nn_result(op, 0));
  int64_t strides[2], padding[4], dilation[2] = {1, 1};
  nn_attr_i64s(op, "strides", strides, 2);
  nn_attr_i64s(op, "padding", padding, 4);
  nn_attr_i64s(op, "dilation", dilation, 2);
  if (nn_dtype_bytes(x.dtype) != 2 || x.dim[1] > FEW || w.dim[0] < LEAST_RESULTS || nn_attr_i64(op, "groups", 1) != 1)
    return false;
  for (int i = 0; i < 2; i++)
    if (strides[i] != 2 || dilation[i] != 1 || w.dim[2 + i] < LEAST_WINDOW ||
        !side_of(x.dim[2 + i], y.dim[2 + i], w.dim[2 + i], padding[2 * i], &side[i]))
      return false;
  return true;
}

// [N, H, W, C] to [N, H/2, W/2, 4 `each`], the channels of a block's pixels one behind the other, of each with zeros.
static MlirValue blocks_of_image(NnBuilder *b, MlirValue x, int64_t each) {
  NnType t = nn_value_type(x);
  int64_t n = t.dim[0], h = t.dim[1] / 2, w = t.dim[2] / 2, none[4] = {0}, high[4] = {0, 0, 0, each - t.dim[3]};
  MlirValue v = nn_reshape(b, nn_pad(b, x, none, high, none, 0), 6, (int64_t[]){n, h, 2, w, 2, each});
  return nn_reshape(b, nn_transpose(b, v, (int64_t[]){0, 1, 3, 2, 4, 5}), 4, (int64_t[]){n, h, w, 4 * each});
}

// [O, C, KH, KW] to [O, 4 each, …] likewise, by views and a pad alone: their gradient is formed in f32
// (autodiff_wide.c).
static MlirValue blocks_of_weights(NnBuilder *b, MlirValue w, const Side side[2], int64_t each) {
  NnType t = nn_value_type(w);
  int64_t low[4] = {0, 0, side[0].front, side[1].front}, high[4] = {0, each - t.dim[1]}, none[4] = {0};
  for (int i = 0; i < 2; i++) high[2 + i] = 2 * side[i].window - t.dim[2 + i] - side[i].front;
  int64_t o = t.dim[0], h = side[0].window, k = side[1].window;
  MlirValue v = nn_reshape(b, nn_pad(b, w, low, high, none, 0), 6, (int64_t[]){o, each, h, 2, k, 2});
  return nn_reshape(b, nn_transpose(b, v, (int64_t[]){0, 3, 5, 1, 2, 4}), 4, (int64_t[]){o, 4 * each, h, k});
}

MlirValue layout_halve_stride(Layout *l, MlirOperation op, MlirValue x) {
  Side side[2];
  if (l->block_channels == 0 || nn_op_of(op) != NN_OP_conv2d || !sides_of(op, side)) return nn_null_value();
  NnBuilder b = rewrite_builder(op);
  int64_t each = divide_up(4 * nn_value_type(x).dim[3], l->block_channels) * l->block_channels / 4, strides[2] = {1, 1},
          padding[4] = {side[0].before, side[0].behind, side[1].before, side[1].behind};
  MlirValue operands[] = {blocks_of_image(&b, x, each), blocks_of_weights(&b, nn_operand(op, 1), side, each)};
  const NnAttr attrs[] = {NN_I64S("strides", strides, 2), NN_I64S("padding", padding, 4), NN_STR("layout", "nhwc")};
  return nn_result(nn_build(&b, NN_OP_conv2d, 2, operands, 3, attrs, NULL), 0);
}
