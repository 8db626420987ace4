// Layers that make images larger: transposed convolution and resizing.
#include "compiler/layer.h"

#include <math.h>
#include <string.h>

static bool is_image(LayerCall *c, NnType t) {
  return t.rank == 4 || layer_arg_error(c, 0, "needs x[N, C, H, W], found %s", value_describe(c->e, c->arg[0]));
}

// The gradient of a convolution with respect to its input, as PyTorch's ConvTranspose2d: the weight is [C,
// channels/groups, KH, KW], and H' = (H - 1) stride - padding + kernel + output_padding.
bool layer_conv_transpose2d(LayerCall *c, Value *result) {
  enum { X, CHANNELS, KERNEL, STRIDE, PADDING, OUTPUT_PADDING, GROUPS, BIAS, INIT, BIAS_INIT };
  MlirValue x = layer_float_tensor(c, X);
  NnType t = nn_value_type(x), y = t;
  int64_t kernel[2], stride[2], padding[4], extra[2], channels = layer_int(c, CHANNELS), groups = layer_int(c, GROUPS);
  if (!is_image(c, t)) return false;
  layer_pair(c, KERNEL, kernel);
  layer_pair(c, STRIDE, stride);
  layer_pair(c, OUTPUT_PADDING, extra);
  layer_padding(c, PADDING, padding);
  if (channels < 1) return layer_arg_error(c, CHANNELS, "must be positive, found %lld", (long long)channels);
  if (groups < 1 || t.dim[1] % groups || channels % groups)
    return layer_arg_error(c, GROUPS, "%lld groups do not divide %lld input and %lld output channels",
                           (long long)groups, (long long)t.dim[1], (long long)channels);
  y.dim[1] = channels;
  for (int i = 0; i < 2; i++) {
    if (kernel[i] < 1 || kernel[i] > 1 << 20)
      return layer_arg_error(c, KERNEL, "must be from 1 to 2^20, found %lld", (long long)kernel[i]);
    if (stride[i] < 1 || stride[i] > 1 << 20)
      return layer_arg_error(c, STRIDE, "must be from 1 to 2^20, found %lld", (long long)stride[i]);
    if (extra[i] < 0 || extra[i] >= stride[i])
      return layer_arg_error(c, OUTPUT_PADDING, "must be at least 0 and below the stride, found %lld",
                             (long long)extra[i]);
    if (padding[2 * i] < 0 || padding[2 * i + 1] < 0 || padding[2 * i] > 1 << 20 || padding[2 * i + 1] > 1 << 20)
      return layer_arg_error(c, PADDING, "must be from 0 to 2^20, found %lld",
                             (long long)(padding[2 * i] < 0 || padding[2 * i] > 1 << 20 ? padding[2 * i]
                                                                                        : padding[2 * i + 1]));
    y.dim[2 + i] = (t.dim[2 + i] - 1) * stride[i] - padding[2 * i] - padding[2 * i + 1] + kernel[i] + extra[i];
    if (y.dim[2 + i] < 1) return layer_arg_error(c, PADDING, "leaves nothing of the image");
  }
  if (!nn_type_is_representable(&y)) return layer_error(c, "the result would have more than 2^40 elements");
  NnType w = nn_type(t.dtype, 4, (int64_t[]){t.dim[1], channels / groups, kernel[0], kernel[1]});
  if (!nn_type_is_representable(&w)) return layer_error(c, "the weights would have more than 2^40 elements");
  double bound = 1 / sqrt((double)(w.dim[1] * kernel[0] * kernel[1]));
  const char *init = elaborator_format(c->e, "uniform(%.17g,%.17g)", -bound, bound);
  MlirValue weight = elaborator_param(c->e, c->pos, "weight", w, layer_given(c, INIT) ? c->arg[INIT].s : init);
  if (nn_value_is_null(weight)) return false;
  NnAttr attrs[] = {NN_I64S("strides", stride, 2), NN_I64S("padding", padding, 4),
                    NN_I64S("dilation", ((int64_t[]){1, 1}), 2), NN_I64("groups", groups), NN_STR("layout", "nchw")};
  MlirOperation made = layer_build(c, NN_OP_conv2d_input_grad, 2, (MlirValue[]){x, weight}, 5, attrs, &y);
  if (mlirOperationIsNull(made)) return false;
  MlirValue out = mlirOperationGetResult(made, 0);
  if (layer_bool(c, BIAS)) {
    MlirValue bias = elaborator_param(c->e, c->pos, "bias", nn_type(t.dtype, 1, &channels),
                                      layer_given(c, BIAS_INIT) ? c->arg[BIAS_INIT].s : init);
    if (nn_value_is_null(bias)) return false;
    out = layer_add_along(c->b, out, bias, 1);
  }
  return layer_return(result, out);
}

// weight[i, j] of source row j in result row i: a hat of width one around the source position (i + 1/2)/factor - 1/2,
// held inside the image. Positions are counted in result rows, where they are exact; only the weight is rounded.
static MlirValue hat(NnBuilder *b, NnDtype dtype, int64_t size, int64_t factor) {
  NnType t = nn_type(dtype, 2, (int64_t[]){size * factor, size});
  MlirValue width = nn_constant(b, t, (double)factor);
  MlirValue at = nn_binary(b, NN_OP_add, nn_iota(b, t, 0), nn_constant(b, t, 0.5 - 0.5 * (double)factor));
  at = nn_binary(b, NN_OP_min, nn_binary(b, NN_OP_max, at, nn_constant(b, t, 0)),
                 nn_constant(b, t, (double)(factor * (size - 1))));
  MlirValue source = nn_binary(b, NN_OP_mul, nn_iota(b, t, 1), width);
  MlirValue distance = nn_unary(b, NN_OP_abs, nn_binary(b, NN_OP_sub, at, source));
  MlirValue part = nn_unary(b, NN_OP_relu, nn_binary(b, NN_OP_sub, width, distance));
  return nn_binary(b, NN_OP_div, part, width);
}

static MlirValue nearest(NnBuilder *b, MlirValue x, const int64_t factor[2]) {
  NnType t = nn_value_type(x);
  NnType wide = nn_type(t.dtype, 6, (int64_t[]){t.dim[0], t.dim[1], t.dim[2], factor[0], t.dim[3], factor[1]});
  MlirValue y = nn_broadcast(b, x, wide, (int64_t[]){0, 1, 2, 4});
  return nn_reshape(b, y, 4, (int64_t[]){t.dim[0], t.dim[1], t.dim[2] * factor[0], t.dim[3] * factor[1]});
}

// Bilinear as PyTorch's interpolate with align_corners=False: first along the width, then along the height.
bool layer_resize(LayerCall *c, Value *result) {
  MlirValue x = layer_float_tensor(c, 0);
  NnType t = nn_value_type(x), y = t;
  const char *mode = layer_string(c, 2);
  int64_t factor[2];
  if (!is_image(c, t)) return false;
  layer_pair(c, 1, factor);
  for (int i = 0; i < 2; i++) {
    if (factor[i] < 1 || factor[i] > 1024)
      return layer_arg_error(c, 1, "must be from 1 to 1024, found %lld", (long long)factor[i]);
    y.dim[2 + i] *= factor[i];
  }
  if (!nn_type_is_representable(&y)) return layer_error(c, "the result would have more than 2^40 elements");
  if (strcmp(mode, "nearest") == 0) return layer_return(result, nearest(c->b, x, factor));
  if (strcmp(mode, "bilinear") != 0)
    return layer_arg_error(c, 2, "must be \"nearest\" or \"bilinear\", found \"%s\"", mode);
  int64_t swap[4] = {0, 1, 3, 2};
  MlirValue wide = nn_matmul(c->b, x, hat(c->b, t.dtype, t.dim[3], factor[1]), false, true);
  MlirValue turned = nn_matmul(c->b, nn_transpose(c->b, wide, swap), hat(c->b, t.dtype, t.dim[2], factor[0]), false,
                               true);
  return layer_return(result, nn_transpose(c->b, turned, swap));
}
