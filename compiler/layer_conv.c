// Convolutions over one, two or three axes, and transposed ones. One axis is two of which the first has size 1.
// Default initialisers are PyTorch's: weights and biases from U(-1/sqrt(fan_in), 1/sqrt(fan_in)).
#include "compiler/layer.h"

#include <math.h>
#include <string.h>

// Where a layer's arguments stand in its signature; -1: it has none.
typedef struct Places {
  int output_padding, groups, bias, init, bias_init, dilation, weight;
} Places;
enum { X, CHANNELS, KERNEL, STRIDE, PADDING, MAX_AXES = 3, LARGEST = 1 << 20 };

// A call, read and checked. Sizes have `axes` entries, padding two for each axis.
typedef struct Conv {
  LayerCall *c;
  Places at;
  int axes;
  bool transposed;
  MlirValue x, weight;   // weight: null if it is a parameter to be made
  NnType t;              // of x
  int64_t channels, groups, kernel[MAX_AXES], stride[MAX_AXES], dilation[MAX_AXES], padding[2 * MAX_AXES],
      extra[MAX_AXES];   // output_padding
} Conv;

static const char *const images[] = {"", "x[N, C, W]", "x[N, C, H, W]", "x[N, C, D, H, W]"};

static bool in_range(const LayerCall *c, int i, int64_t least, int64_t value) {
  if (value >= least && value <= LARGEST) return true;
  return layer_arg_error(c, i, "must be from %lld to 2^20, found %lld", (long long)least, (long long)value);
}

static bool read_sizes(const Conv *v, int i, int64_t least, int64_t otherwise, int64_t *out) {
  for (int k = 0; k < v->axes; k++) out[k] = otherwise;
  if (i < 0 || !layer_given(v->c, i)) return true;
  if (!layer_sizes(v->c, i, v->axes, out)) return false;
  for (int k = 0; k < v->axes; k++)
    if (!in_range(v->c, i, least, out[k])) return false;
  return true;
}

// "same" is what PyTorch has: as many results as elements, the odd one of the padding behind.
static bool read_padding(Conv *v) {
  const char *word = v->c->arg[PADDING].kind == VALUE_STRING ? layer_string(v->c, PADDING) : NULL;
  if (!word) {
    if (!layer_borders(v->c, PADDING, v->axes, v->padding)) return false;
    for (int i = 0; i < 2 * v->axes; i++)
      if (!in_range(v->c, PADDING, 0, v->padding[i])) return false;
    return true;
  }
  bool same = strcmp(word, "same") == 0;
  memset(v->padding, 0, sizeof v->padding);
  if (v->transposed || (!same && strcmp(word, "valid") != 0))
    return layer_arg_error(v->c, PADDING,
                           v->transposed ? "must be a number here, found \"%s\""
                                         : "must be \"same\" or \"valid\", found \"%s\"",
                           word);
  for (int i = 0; same && i < v->axes; i++) {
    if (v->stride[i] != 1) {
      layer_arg_error(v->c, PADDING, "\"same\" is for a stride of 1, found %lld", (long long)v->stride[i]);
      elaborator_hint(v->c->e, "give the numbers: padding=[top, bottom, left, right]");
      return false;
    }
    int64_t whole = v->dilation[i] * (v->kernel[i] - 1);
    v->padding[2 * i] = whole / 2;
    v->padding[2 * i + 1] = whole - whole / 2;
  }
  return true;
}

// The shape of the weight: [O, I/groups, kernel], transposed [I, O/groups, kernel].
static NnType weight_type(const Conv *v) {
  NnType w = nn_type(v->t.dtype, 2, (int64_t[]){v->channels, v->t.dim[1] / v->groups});
  if (v->transposed) w.dim[0] = v->t.dim[1], w.dim[1] = v->channels / v->groups;
  for (int i = 0; i < v->axes; i++) w.dim[w.rank++] = v->kernel[i];
  return w;
}

// What a weight that is given says of channels and kernel, where they are left out.
static bool read_weight(Conv *v) {
  LayerCall *c = v->c;
  bool given = layer_given(c, v->at.weight);
  v->weight = nn_null_value();
  if (!given && !layer_given(c, CHANNELS)) {
    layer_error(c, "needs 'channels', or a 'weight'");
    elaborator_hint(c->e, "%s(%s)", c->info->name, c->info->signature);
    return false;
  }
  v->channels = layer_given(c, CHANNELS) ? layer_int(c, CHANNELS) : 0;
  if (!read_sizes(v, KERNEL, 1, 1, v->kernel)) return false;
  if (!given) return true;
  v->weight = layer_float_tensor(c, v->at.weight);
  NnType w = nn_value_type(v->weight);
  if (w.rank != v->axes + 2)
    return layer_arg_error(c, v->at.weight, "must have %d axes, found %s", v->axes + 2,
                           value_describe(c->e, c->arg[v->at.weight]));
  if (!layer_given(c, CHANNELS)) v->channels = v->transposed ? w.dim[1] * v->groups : w.dim[0];
  for (int i = 0; i < v->axes && !layer_given(c, KERNEL); i++) v->kernel[i] = w.dim[2 + i];
  return true;
}

static bool weight_fits(const Conv *v) {
  NnType w = nn_value_type(v->weight), wanted = weight_type(v);
  wanted.dtype = w.dtype;
  return nn_type_equal(&w, &wanted) ||
         layer_arg_error(v->c, v->at.weight, "must be %s, found %s", layer_type_text(v->c, wanted),
                         value_describe(v->c->e, v->c->arg[v->at.weight]));
}

static bool read(LayerCall *c, Places at, int axes, bool transposed, Conv *v) {
  *v = (Conv){.c = c, .at = at, .axes = axes, .transposed = transposed, .x = layer_float_tensor(c, X)};
  v->t = nn_value_type(v->x);
  v->groups = layer_int(c, at.groups);
  if (v->t.rank != axes + 2)
    return layer_arg_error(c, X, "needs %s, found %s", images[axes], value_describe(c->e, c->arg[X]));
  if (!read_weight(v)) return false;
  if (v->channels < 1) return layer_arg_error(c, CHANNELS, "must be positive, found %lld", (long long)v->channels);
  if (v->groups < 1 || v->t.dim[1] % v->groups || v->channels % v->groups)
    return layer_arg_error(c, at.groups, "%lld groups do not divide %lld input and %lld output channels",
                           (long long)v->groups, (long long)v->t.dim[1], (long long)v->channels);
  return read_sizes(v, STRIDE, 1, 1, v->stride) && read_sizes(v, at.dilation, 1, 1, v->dilation) &&
         read_sizes(v, at.output_padding, 0, 0, v->extra) && read_padding(v) &&
         (nn_value_is_null(v->weight) || weight_fits(v));
}

// Weights that make one result, as PyTorch counts them, for transposed convolutions too.
static int64_t fan_in(const NnType *w) {
  int64_t n = 1;
  for (int i = 1; i < w->rank; i++) n *= w->dim[i];
  return n;
}

// The weight, given or a parameter, in one type with x.
static bool make_weight(Conv *v) {
  LayerCall *c = v->c;
  NnType w = weight_type(v);
  if (!nn_type_is_representable(&w)) return layer_error(c, "the weights would have more than 2^40 elements");
  if (nn_value_is_null(v->weight)) {
    v->weight = elaborator_param(c->e, c->pos, "weight", w, layer_init_or_fan_in(c, v->at.init, fan_in(&w)));
    return !nn_value_is_null(v->weight);
  }
  Value both[2] = {value_tensor(v->x), value_tensor(v->weight)};
  MlirValue made[2];
  if (!value_promote(c->e, c->pos, 2, both, value_common_dtype(c->e, 2, both), made)) return false;
  v->x = made[0], v->weight = made[1];
  v->t = nn_value_type(v->x);
  return true;
}

// Attributes of an op over two axes at least: of one axis, the first of two has size 1. They live as long as `v`.
enum { N_ATTRS = 5 };
static int attributes(Conv *v, NnAttr *attrs) {
  if (v->axes == 1) {
    v->stride[1] = v->stride[0], v->dilation[1] = v->dilation[0], v->extra[1] = v->extra[0];
    v->padding[2] = v->padding[0], v->padding[3] = v->padding[1];
    v->stride[0] = v->dilation[0] = 1, v->extra[0] = v->padding[0] = v->padding[1] = 0;
  }
  int n = v->axes == 1 ? 2 : v->axes;
  const NnAttr made[N_ATTRS] = {NN_I64S("strides", v->stride, n), NN_I64S("padding", v->padding, 2 * n),
                                NN_I64S("dilation", v->dilation, n), NN_I64("groups", v->groups),
                                NN_STR("layout", n == 3 ? "ncdhw" : "nchw")};
  memcpy(attrs, made, sizeof made);
  return N_ATTRS;
}

// [N, C, W] as [N, C, 1, W].
static MlirValue as_image(const Conv *v, MlirValue x) {
  NnType t = nn_value_type(x);
  return v->axes == 1 ? nn_reshape(v->c->b, x, 4, (int64_t[]){t.dim[0], t.dim[1], 1, t.dim[2]}) : x;
}

static MlirValue as_rows(const Conv *v, MlirValue x) {
  NnType t = nn_value_type(x);
  return v->axes == 1 ? nn_reshape(v->c->b, x, 3, (int64_t[]){t.dim[0], t.dim[1], t.dim[3]}) : x;
}

static bool finish(Conv *v, MlirValue y, Value *result) {
  LayerCall *c = v->c;
  NnType w = weight_type(v);
  y = as_rows(v, y);
  if (layer_is_false(c, v->at.bias)) return layer_return(result, y);
  MlirValue b = layer_bias(c, v->at.bias, nn_value_dtype(y), v->channels,
                           layer_init_or_fan_in(c, v->at.bias_init, fan_in(&w)));
  return !nn_value_is_null(b) && layer_return(result, layer_add_along(c->b, y, b, 1));
}

// Where a target has no convolution of volumes, each place of the depth is an op of its own.
static bool few_places(const Conv *v) {
  return v->axes < 3 || v->kernel[0] <= 64 ||
         layer_arg_error(v->c, KERNEL, "must be at most 64 deep, found %lld", (long long)v->kernel[0]);
}

static bool forward(LayerCall *c, Places at, int axes, Value *result) {
  Conv v;
  NnAttr attrs[N_ATTRS];
  if (!read(c, at, axes, false, &v) || !few_places(&v) || !make_weight(&v)) return false;
  int n = attributes(&v, attrs);
  MlirOperation made = layer_build(c, axes == 3 ? NN_OP_conv3d : NN_OP_conv2d, 2,
                                   (MlirValue[]){as_image(&v, v.x), as_image(&v, v.weight)}, n, attrs, NULL);
  return !mlirOperationIsNull(made) && finish(&v, mlirOperationGetResult(made, 0), result);
}

// H' = (H - 1) stride - padding + dilation (kernel - 1) + output_padding + 1. An output_padding of a stride or more,
// which a large dilation allows, takes from the padding behind.
static bool transposed_type(Conv *v, NnType *y) {
  LayerCall *c = v->c;
  *y = v->t;
  y->dim[1] = v->channels;
  for (int i = 0; i < v->axes; i++) {
    int64_t *behind = &v->padding[2 * i + 1], reach = v->dilation[i] * (v->kernel[i] - 1) + 1;
    if (v->extra[i] >= v->stride[i] && v->extra[i] >= v->dilation[i])
      return layer_arg_error(c, v->at.output_padding, "must be below the stride or the dilation, found %lld",
                             (long long)v->extra[i]);
    if (v->extra[i] >= v->stride[i] && v->extra[i] > *behind)
      return layer_arg_error(c, v->at.output_padding, "must be below the stride, or at most the padding, found %lld",
                             (long long)v->extra[i]);
    if (v->extra[i] >= v->stride[i]) *behind -= v->extra[i], v->extra[i] = 0;
    y->dim[2 + i] = (v->t.dim[2 + i] - 1) * v->stride[i] - v->padding[2 * i] - *behind + reach + v->extra[i];
    if (y->dim[2 + i] < 1) return layer_arg_error(c, PADDING, "leaves nothing of the image");
  }
  return nn_type_is_representable(y) || layer_error(c, "the result would have more than 2^40 elements");
}

// The gradient of a convolution with respect to its input.
static bool transposed(LayerCall *c, Places at, int axes, Value *result) {
  Conv v;
  NnAttr attrs[N_ATTRS];
  NnType y;
  if (!read(c, at, axes, true, &v) || !few_places(&v) || !transposed_type(&v, &y) || !make_weight(&v)) return false;
  y.dtype = v.t.dtype;
  if (axes == 1) y = nn_type(y.dtype, 4, (int64_t[]){y.dim[0], y.dim[1], 1, y.dim[2]});
  int n = attributes(&v, attrs);
  MlirOperation made = layer_build(c, axes == 3 ? NN_OP_conv3d_input_grad : NN_OP_conv2d_input_grad, 2,
                                   (MlirValue[]){as_image(&v, v.x), as_image(&v, v.weight)}, n, attrs, &y);
  return !mlirOperationIsNull(made) && finish(&v, mlirOperationGetResult(made, 0), result);
}

static const Places
    of_conv = {.output_padding = -1, .dilation = 5, .groups = 6, .bias = 7, .init = 8, .bias_init = 9, .weight = 10},
    of_transposed =
        {.output_padding = 5, .groups = 6, .bias = 7, .init = 8, .bias_init = 9, .dilation = 10, .weight = 11};

bool layer_conv1d(LayerCall *c, Value *result) { return forward(c, of_conv, 1, result); }
bool layer_conv2d(LayerCall *c, Value *result) { return forward(c, of_conv, 2, result); }
bool layer_conv3d(LayerCall *c, Value *result) { return forward(c, of_conv, 3, result); }
bool layer_conv_transpose1d(LayerCall *c, Value *result) { return transposed(c, of_transposed, 1, result); }
bool layer_conv_transpose2d(LayerCall *c, Value *result) { return transposed(c, of_transposed, 2, result); }
bool layer_conv_transpose3d(LayerCall *c, Value *result) { return transposed(c, of_transposed, 3, result); }
