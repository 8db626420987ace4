// Layers that make images larger or smaller, and windows side by side with their inverse.
#include "compiler/layer.h"

#include <math.h>
#include <string.h>

static bool is_image(LayerCall *c, NnType t) {
  return t.rank == 4 || layer_arg_error(c, 0, "needs x[N, C, H, W], found %s", value_describe(c->e, c->arg[0]));
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
  for (int i = 0; i < 2; i++)
    if (!layer_along_fits(c, 1, x, 2 + i, y.dim[2 + i])) return false;
  MlirValue wide = nn_matmul(c->b, x, hat(c->b, t.dtype, t.dim[3], factor[1]), false, true);
  MlirValue turned = nn_matmul(c->b, nn_transpose(c->b, wide, swap), hat(c->b, t.dtype, t.dim[2], factor[0]), false,
                               true);
  return layer_return(result, nn_transpose(c->b, turned, swap));
}

MlirValue layer_take(NnBuilder *b, MlirValue x, int axis, MlirValue indices) {
  int64_t perm[NN_MAX_RANK];
  int rank = nn_value_type(x).rank;
  for (int i = 0; i < rank; i++) perm[i] = i;
  perm[0] = axis, perm[axis] = 0;   // its own inverse
  return nn_transpose(b, nn_binary(b, NN_OP_gather, nn_transpose(b, x, perm), indices), perm);
}

MlirValue layer_along(NnBuilder *b, MlirValue x, int axis, MlirValue matrix) {
  int64_t perm[NN_MAX_RANK];
  int rank = nn_value_type(x).rank;
  for (int i = 0; i < rank; i++) perm[i] = i;
  perm[rank - 1] = axis, perm[axis] = rank - 1;
  MlirValue turned = axis == rank - 1 ? x : nn_transpose(b, x, perm);
  MlirValue y = nn_matmul(b, turned, matrix, false, true);
  return axis == rank - 1 ? y : nn_transpose(b, y, perm);
}

bool layer_along_fits(const LayerCall *c, int i, MlirValue x, int axis, int64_t o) {
  NnType y = nn_value_type(x), matrix = nn_type(y.dtype, 2, (int64_t[]){o, y.dim[axis]});
  y.dim[axis] = o;
  return layer_representable(c, i, &matrix) && layer_representable(c, i, &y);
}

// --- Interpolation ---------------------------------------------------------------------------------------------------
// One axis after the other, each as a product with a matrix of weights, whose gradient is a product too.

// One axis: n elements become o; `scale` elements lie between two results.
typedef struct Axis {
  int64_t n, o;
  double scale;
  bool align;
} Axis;

static MlirValue number(NnBuilder *b, NnType t, double x) { return nn_constant(b, t, x); }
static MlirValue times(NnBuilder *b, MlirValue x, double factor) { return layer_scale(b, x, factor); }
static MlirValue plus(NnBuilder *b, MlirValue x, double y) {
  return nn_binary(b, NN_OP_add, x, nn_constant_like(b, x, y));
}
static MlirValue minus(NnBuilder *b, MlirValue x, MlirValue y) { return nn_binary(b, NN_OP_sub, x, y); }
static MlirValue limited(NnBuilder *b, MlirValue x, double low, double high) {
  return nn_binary(b, NN_OP_min, nn_binary(b, NN_OP_max, x, nn_constant_like(b, x, low)), nn_constant_like(b, x, high));
}

// [o, n] in f64: where in x each result lies.
static MlirValue positions(NnBuilder *b, const Axis *a) {
  NnType t = nn_type(NN_F64, 2, (int64_t[]){a->o, a->n});
  MlirValue i = nn_iota(b, t, 0);
  return a->align ? times(b, i, a->scale) : plus(b, times(b, plus(b, i, 0.5), a->scale), -0.5);
}

static MlirValue triangle(NnBuilder *b, MlirValue distance) {
  return nn_unary(b, NN_OP_relu, plus(b, nn_unary(b, NN_OP_neg, distance), 1));
}

// The cubic convolution kernel (Keys, 1981) at a distance of at least 0.
static MlirValue cubic(NnBuilder *b, MlirValue d, double a) {
  MlirValue d2 = nn_binary(b, NN_OP_mul, d, d), d3 = nn_binary(b, NN_OP_mul, d2, d);
  MlirValue near = plus(b, nn_binary(b, NN_OP_add, times(b, d3, a + 2), times(b, d2, -(a + 3))), 1);
  MlirValue far = nn_binary(b, NN_OP_add, nn_binary(b, NN_OP_add, times(b, d3, a), times(b, d2, -5 * a)),
                            plus(b, times(b, d, 8 * a), -4 * a));
  MlirValue is_near = nn_compare(b, "le", d, nn_constant_like(b, d, 1)),
            is_far = nn_compare(b, "lt", d, nn_constant_like(b, d, 2));
  return nn_select(b, is_near, near, nn_select(b, is_far, far, nn_constant_like(b, d, 0)));
}

// Weights of a smaller image whose results average all that they cover, as Pillow has it.
static MlirValue smoothing(NnBuilder *b, const Axis *a, bool is_cubic) {
  MlirValue at = positions(b, a), j = nn_iota(b, nn_value_type(at), 1);
  double reach = a->scale > 1 ? a->scale : 1;
  if (a->align) at = plus(b, times(b, plus(b, nn_iota(b, nn_value_type(at), 0), 0.5), a->scale), -0.5);
  MlirValue d = times(b, nn_unary(b, NN_OP_abs, minus(b, j, at)), 1 / reach);
  MlirValue w = is_cubic ? cubic(b, d, -0.5) : triangle(b, d);
  MlirValue sum = nn_reduce(b, NN_OP_reduce_sum, w, 1, (int64_t[]){1});
  return nn_binary(b, NN_OP_div, w, nn_broadcast(b, sum, nn_value_type(w), (int64_t[]){0}));
}

static MlirValue linear_weights(NnBuilder *b, const Axis *a) {
  MlirValue at = limited(b, positions(b, a), 0, (double)(a->n - 1));
  return triangle(b, nn_unary(b, NN_OP_abs, minus(b, nn_iota(b, nn_value_type(at), 1), at)));
}

// Four elements around a position, of which those outside of the image are its first or last.
static MlirValue cubic_weights(NnBuilder *b, const Axis *a) {
  MlirValue at = positions(b, a), first = nn_unary(b, NN_OP_floor, at), sum = nn_null_value();
  NnType t = nn_value_type(at);
  MlirValue j = nn_iota(b, t, 1);
  for (int k = -1; k <= 2; k++) {
    MlirValue tap = plus(b, first, k), d = nn_unary(b, NN_OP_abs, minus(b, at, tap));
    MlirValue here = nn_compare(b, "eq", limited(b, tap, 0, (double)(a->n - 1)), j);
    MlirValue w = nn_select(b, here, cubic(b, d, -0.75), number(b, t, 0));
    sum = k < 0 ? w : nn_binary(b, NN_OP_add, sum, w);
  }
  return sum;
}

// Nearest elements are picked, not multiplied: infinities stay where they are. The index is computed in f32, as in
// PyTorch.
static MlirValue pick_nearest(NnBuilder *b, MlirValue x, int axis, const Axis *a, bool exact) {
  NnType t = nn_type(NN_F32, 1, &a->o), to = nn_value_type(x);
  if (a->o % a->n == 0 && a->scale == (double)a->n / (double)a->o) {   // each element so many times
    NnType wide = to;
    int64_t dims[NN_MAX_RANK];
    for (int i = 0; i < to.rank; i++) dims[i] = i + (i > axis);
    wide.rank++;
    for (int i = to.rank; i > axis + 1; i--) wide.dim[i] = to.dim[i - 1];
    wide.dim[axis + 1] = a->o / a->n;
    to.dim[axis] = a->o;
    return nn_reshape(b, nn_broadcast(b, x, wide, dims), to.rank, to.dim);
  }
  MlirValue i = plus(b, nn_iota(b, t, 0), exact ? 0.5 : 0);
  MlirValue at = nn_unary(b, NN_OP_floor, times(b, i, (double)(float)a->scale));
  return layer_take(b, x, axis, nn_cast(b, limited(b, at, 0, (double)(a->n - 1)), NN_I32));
}

enum { SIZE = 1, SCALE_FACTOR, MODE, ALIGN_CORNERS, ANTIALIAS };

// Factors, one or one for each axis. False after reporting.
static bool read_factors(const LayerCall *c, int axes, double *out) {
  const Value *v = &c->arg[SCALE_FACTOR];
  int n = v->kind == VALUE_LIST ? v->list.n : 1;
  bool ok = n == 1 || n == axes;
  for (int i = 0; ok && i < n; i++)
    ok = value_as_number(v->kind == VALUE_LIST ? &v->list.items[i] : v, &out[i]) && out[i] > 0 && out[i] <= 1 << 20;
  for (int i = n; ok && i < axes; i++) out[i] = out[0];
  return ok || layer_arg_error(c, SCALE_FACTOR, "must be a positive number, or one for each of %d axes, found %s", axes,
                               value_describe(c->e, *v));
}

static bool read_axes(const LayerCall *c, const NnType *t, int axes, bool align, Axis *out) {
  int64_t size[3];
  double factor[3] = {0};
  if (layer_given(c, SIZE) == layer_given(c, SCALE_FACTOR)) return layer_error(c, "needs 'size' or 'scale_factor'");
  if (layer_given(c, SIZE) ? !layer_sizes(c, SIZE, axes, size) : !read_factors(c, axes, factor)) return false;
  for (int i = 0; i < axes; i++) {
    double n = (double)t->dim[2 + i];
    if (!layer_given(c, SIZE)) size[i] = (int64_t)fmin(floor(n * factor[i]), 1 << 30);
    if (size[i] < 1 || size[i] > 1 << 20)
      return layer_arg_error(c, layer_given(c, SIZE) ? SIZE : SCALE_FACTOR, "a size must be from 1 to 2^20, found %lld",
                             (long long)size[i]);
    out[i] = (Axis){.n = t->dim[2 + i], .o = size[i], .align = align};
    double o = (double)size[i];
    out[i].scale = align ? (size[i] > 1 ? (n - 1) / (o - 1) : 0) : factor[i] > 0 ? 1 / factor[i] : n / o;
  }
  return true;
}

typedef enum Filter { NEAREST, NEAREST_EXACT, LINEAR, CUBIC, AREA, NO_FILTER } Filter;

static Filter read_filter(const LayerCall *c, int axes) {
  static const struct {
    const char *name;
    Filter filter;
    int axes;
  } known[] = {{"nearest", NEAREST, 0},  {"nearest-exact", NEAREST_EXACT, 0},
               {"linear", LINEAR, 0},    {"bilinear", LINEAR, 2},
               {"trilinear", LINEAR, 3}, {"bicubic", CUBIC, 2},
               {"area", AREA, 0}};
  const char *mode = layer_string(c, MODE);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(known[i].name, mode) != 0) continue;
    if (known[i].axes == 0 || known[i].axes == axes) return known[i].filter;
    layer_arg_error(c, MODE, "\"%s\" is for %d axes behind the channels, found %s", mode, known[i].axes,
                    value_describe(c->e, c->arg[0]));
    return NO_FILTER;
  }
  layer_arg_error(c, MODE,
                  "must be \"nearest\", \"nearest-exact\", \"linear\", \"bilinear\", \"trilinear\", \"bicubic\" or "
                  "\"area\", found \"%s\"",
                  mode);
  return NO_FILTER;
}

bool layer_interpolate(LayerCall *c, Value *result) {
  MlirValue x = layer_float_tensor(c, 0);
  NnType t = nn_value_type(x);
  Axis axis[3];
  int axes = t.rank - 2;
  bool align = layer_bool(c, ALIGN_CORNERS), smooth = layer_bool(c, ANTIALIAS);
  if (axes < 1 || axes > 3)
    return layer_arg_error(c, 0, "needs x[N, C, H, W], or one or three axes behind the channels, found %s",
                           value_describe(c->e, c->arg[0]));
  Filter filter = read_filter(c, axes);
  if (filter == NO_FILTER || !read_axes(c, &t, axes, align, axis)) return false;
  bool weighs = filter == LINEAR || filter == CUBIC;
  if (!weighs && align) return layer_arg_error(c, ALIGN_CORNERS, "is for \"linear\" and \"bicubic\"");
  if (smooth && (!weighs || axes != 2)) return layer_arg_error(c, ANTIALIAS, "is for \"bilinear\" and \"bicubic\"");
  NnType y = t;
  for (int i = 0; i < axes; i++) y.dim[2 + i] = axis[i].o;
  if (!nn_type_is_representable(&y)) return layer_error(c, "the result would have more than 2^40 elements");
  for (int i = axes - 1; i >= 0; i--) {
    Axis *a = &axis[i];
    int named = layer_given(c, SIZE) ? SIZE : SCALE_FACTOR;
    if (filter == NEAREST || filter == NEAREST_EXACT) {
      NnType next = nn_value_type(x);
      next.dim[2 + i] = a->o;
      if (!layer_representable(c, named, &next)) return false;
      if (a->n != a->o || a->scale != 1) x = pick_nearest(c->b, x, 2 + i, a, filter == NEAREST_EXACT);
      continue;
    }
    if (a->n == a->o && a->scale == 1) continue;
    if (!layer_along_fits(c, named, x, 2 + i, a->o)) return false;
    MlirValue w = filter == AREA     ? layer_window_means(c->b, NN_F64, a->n, a->o)
                  : smooth           ? smoothing(c->b, a, filter == CUBIC)
                  : filter == LINEAR ? linear_weights(c->b, a)
                                     : cubic_weights(c->b, a);
    x = layer_along(c->b, x, 2 + i, nn_cast(c->b, w, t.dtype));
  }
  return layer_return(result, x);
}

// --- Windows side by side --------------------------------------------------------------------------------------------

typedef struct Windows {
  int64_t kernel[2], dilation[2], padding[4], stride[2], height, width, rows, columns;
} Windows;

static bool read_windows(const LayerCall *c, int first, int64_t height, int64_t width, Windows *w) {
  *w = (Windows){.height = height, .width = width};
  layer_pair(c, first, w->kernel);
  layer_pair(c, first + 1, w->dilation);
  layer_padding(c, first + 2, w->padding);
  layer_pair(c, first + 3, w->stride);
  for (int i = 0; i < 2; i++) {
    const int64_t at_least_1[3] = {w->kernel[i], w->dilation[i], w->stride[i]};
    static const int place[3] = {0, 1, 3};
    for (int k = 0; k < 3; k++)
      if (at_least_1[k] < 1 || at_least_1[k] > 1 << 20)
        return layer_arg_error(c, first + place[k], "must be from 1 to 2^20, found %lld", (long long)at_least_1[k]);
    for (int side = 0; side < 2; side++)
      if (w->padding[2 * i + side] < 0 || w->padding[2 * i + side] > 1 << 20)
        return layer_arg_error(c, first + 2, "must be from 0 to 2^20, found %lld", (long long)w->padding[2 * i + side]);
    int64_t whole = (i ? width : height) + w->padding[2 * i] + w->padding[2 * i + 1],
            reach = w->dilation[i] * (w->kernel[i] - 1) + 1;
    if (reach > whole)
      return layer_arg_error(c, first, "a window of %lld does not fit %lld elements, padding included",
                             (long long)reach, (long long)whole);
    *(i ? &w->columns : &w->rows) = (whole - reach) / w->stride[i] + 1;
  }
  if (w->kernel[0] * w->kernel[1] > 1024) return layer_arg_error(c, first, "has more than 1024 places");
  return true;
}

// The place (i, j) of all windows in the padded image.
static void place_of(const Windows *w, int64_t i, int64_t j, int64_t *starts, int64_t *strides) {
  starts[0] = starts[1] = 0, starts[2] = i * w->dilation[0], starts[3] = j * w->dilation[1];
  strides[0] = strides[1] = 1;
  strides[2] = w->rows > 1 ? w->stride[0] : 1, strides[3] = w->columns > 1 ? w->stride[1] : 1;
}

bool layer_unfold(LayerCall *c, Value *result) {
  MlirValue x = layer_tensor(c, 0);
  NnType t = nn_value_type(x);
  Windows w;
  if (!is_image(c, t) || !read_windows(c, 1, t.dim[2], t.dim[3], &w)) return false;
  int64_t none[4] = {0}, low[4] = {0, 0, w.padding[0], w.padding[2]}, high[4] = {0, 0, w.padding[1], w.padding[3]},
          places = w.kernel[0] * w.kernel[1], sizes[4] = {t.dim[0], t.dim[1], w.rows, w.columns}, starts[4], strides[4];
  MlirValue *part = elaborator_alloc(c->e, sizeof *part * (size_t)places);
  NnType padded = t;
  for (int i = 2; i < 4; i++) padded.dim[i] += low[i] + high[i];
  if (!layer_representable(c, 3, &padded)) return false;
  x = nn_pad(c->b, x, low, high, none, 0);
  for (int64_t k = 0; k < places; k++) {
    place_of(&w, k / w.kernel[1], k % w.kernel[1], starts, strides);
    part[k] = nn_reshape(c->b, nn_slice(c->b, x, starts, sizes, strides), 4,
                         (int64_t[]){t.dim[0], t.dim[1], 1, w.rows * w.columns});
  }
  MlirOperation whole = layer_build(c, NN_OP_concat, (int)places, part, 1, (NnAttr[]){NN_I64("axis", 2)}, NULL);
  if (mlirOperationIsNull(whole)) return false;
  return layer_return(result, nn_reshape(c->b, mlirOperationGetResult(whole, 0), 3,
                                         (int64_t[]){t.dim[0], t.dim[1] * places, w.rows * w.columns}));
}

bool layer_fold(LayerCall *c, Value *result) {
  MlirValue x = layer_tensor(c, 0), sum = nn_null_value();
  NnType t = nn_value_type(x);
  int64_t size[2], starts[4], strides[4], low[4], high[4], interior[4];
  Windows w;
  layer_pair(c, 1, size);
  for (int i = 0; i < 2; i++)
    if (size[i] < 1 || size[i] > 1 << 20)
      return layer_arg_error(c, 1, "must be from 1 to 2^20, found %lld", (long long)size[i]);
  if (!read_windows(c, 2, size[0], size[1], &w)) return false;
  int64_t places = w.kernel[0] * w.kernel[1],
          whole[4] = {0, 0, size[0] + w.padding[0] + w.padding[1], size[1] + w.padding[2] + w.padding[3]};
  if (t.rank != 3 || t.dim[1] % places || t.dim[2] != w.rows * w.columns)
    return layer_arg_error(c, 0, "needs x[N, C %lld, %lld] for these windows, found %s", (long long)places,
                           (long long)(w.rows * w.columns), value_describe(c->e, c->arg[0]));
  int64_t channels = t.dim[1] / places;
  NnType made = nn_type(t.dtype, 4, (int64_t[]){t.dim[0], channels, whole[2], whole[3]});
  if (!layer_representable(c, 1, &made)) return false;
  x = nn_reshape(c->b, x, 5, (int64_t[]){t.dim[0], channels, places, w.rows, w.columns});
  for (int64_t k = 0; k < places; k++) {
    place_of(&w, k / w.kernel[1], k % w.kernel[1], starts, strides);
    MlirValue part = nn_slice(c->b, x, (int64_t[]){0, 0, k, 0, 0},
                              (int64_t[]){t.dim[0], channels, 1, w.rows, w.columns}, NULL);
    part = nn_reshape(c->b, part, 4, (int64_t[]){t.dim[0], channels, w.rows, w.columns});
    for (int i = 0; i < 4; i++) {
      int64_t n = i == 2 ? w.rows : i == 3 ? w.columns : 1;
      low[i] = starts[i], interior[i] = strides[i] - 1;
      high[i] = i < 2 ? 0 : whole[i] - starts[i] - ((n - 1) * strides[i] + 1);
    }
    part = nn_pad(c->b, part, low, high, interior, 0);
    sum = k == 0 ? part : nn_binary(c->b, NN_OP_add, sum, part);
  }
  return layer_return(result, nn_slice(c->b, sum, (int64_t[]){0, 0, w.padding[0], w.padding[2]},
                                       (int64_t[]){t.dim[0], channels, size[0], size[1]}, NULL));
}
