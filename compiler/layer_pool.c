// Pooling over the axes behind the channels: one, two or three. The ops pool over two: one axis is two of which the
// first has size 1, and of three the last two are pooled, then the first.
#include "compiler/layer.h"

#include <math.h>
#include <string.h>

enum { X, KERNEL, SIZE = KERNEL, STRIDE, PADDING, MAX_AXES = 3, MOST_PLACES = 256, LARGEST = 1 << 20 };

typedef struct Pool {
  LayerCall *c;
  NnOp op;
  int axes;
  bool include_pad;   // avgpool: padding counts, but not what ceil_mode adds
  int64_t kernel[MAX_AXES], stride[MAX_AXES], padding[2 * MAX_AXES], dilation[MAX_AXES],
      more[MAX_AXES];   // behind the padding, for the last window of ceil_mode
} Pool;

// The axes behind the channels, 0 after reporting.
static int pooled_axes(const LayerCall *c, const NnType *t) {
  if (t->rank >= 3 && t->rank <= 5) return t->rank - 2;
  layer_arg_error(c, X, "needs x[N, C, H, W], or one or three axes behind the channels, found %s",
                  value_describe(c->e, c->arg[X]));
  return 0;
}

static bool in_range(const LayerCall *c, int i, int64_t least, int n, const int64_t *value) {
  for (int k = 0; k < n; k++)
    if (value[k] < least || value[k] > LARGEST)
      return layer_arg_error(c, i, "must be from %lld to 2^20, found %lld", (long long)least, (long long)value[k]);
  return true;
}

// One more window begins inside of the image or its padding before, but does not end there.
static void read_ceil(Pool *p, const NnType *t) {
  for (int i = 0; i < p->axes; i++) {
    int64_t inside = t->dim[2 + i] + p->padding[2 * i], whole = inside + p->padding[2 * i + 1],
            reach = p->dilation[i] * (p->kernel[i] - 1) + 1,
            windows = whole < reach ? 0 : (whole - reach) / p->stride[i] + 1;
    if (whole + p->stride[i] <= reach || (whole - reach) % p->stride[i] == 0 || windows * p->stride[i] >= inside)
      continue;
    p->more[i] = windows * p->stride[i] + reach - whole;
  }
}

static bool pool_read(LayerCall *c, NnOp op, int dilation, int include_pad, int ceil_mode, Pool *p) {
  NnType t = nn_value_type(layer_tensor(c, X));
  *p = (Pool){.c = c, .op = op, .axes = pooled_axes(c, &t), .dilation = {1, 1, 1}};
  if (!p->axes || !layer_sizes(c, KERNEL, p->axes, p->kernel)) return false;
  memcpy(p->stride, p->kernel, sizeof p->stride);
  if ((layer_given(c, STRIDE) && !layer_sizes(c, STRIDE, p->axes, p->stride)) ||
      !layer_borders(c, PADDING, p->axes, p->padding) ||
      (dilation >= 0 && !layer_sizes(c, dilation, p->axes, p->dilation)))
    return false;
  p->include_pad = include_pad >= 0 && layer_bool(c, include_pad);
  if (!in_range(c, KERNEL, 1, p->axes, p->kernel) || !in_range(c, STRIDE, 1, p->axes, p->stride) ||
      !in_range(c, PADDING, 0, 2 * p->axes, p->padding) ||
      (dilation >= 0 && !in_range(c, dilation, 1, p->axes, p->dilation)))
    return false;
  if (layer_bool(c, ceil_mode)) read_ceil(p, &t);
  return true;
}

// Over two axes of four, by the op: of a volume, whose channels stand last, 1 and 2, else 2 and 3. a and b say which of
// the pool's axes these are, -1: none. Null after reporting.
static MlirValue pool_two(const Pool *p, MlirValue x, int a, int b) {
  const int of[2] = {a, b}, first = p->axes == 3 ? 1 : 2;
  int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, padding[4] = {0}, low[4] = {0}, high[4] = {0}, none[4] = {0};
  bool counts = p->include_pad && ((a >= 0 && p->more[a]) || (b >= 0 && p->more[b]));
  for (int i = 0; i < 2; i++) {
    if (of[i] < 0) continue;
    kernel[i] = p->kernel[of[i]], stride[i] = p->stride[of[i]];
    for (int side = 0; side < 2; side++) {
      int64_t pad = p->padding[2 * of[i] + side];
      if (counts) (side ? high : low)[first + i] = pad;
      padding[2 * i + side] = (counts ? 0 : pad) + (side ? p->more[of[i]] : 0);
    }
  }
  if (counts) {   // what counts is part of the image then
    NnType t = nn_value_type(x);
    for (int i = 0; i < 4; i++) t.dim[i] += low[i] + high[i];
    if (!layer_representable(p->c, PADDING, &t)) return nn_null_value();
    x = nn_pad(p->c->b, x, low, high, none, 0);
  }
  NnAttr attrs[5] = {NN_I64S("kernel", kernel, 2), NN_I64S("strides", stride, 2), NN_I64S("padding", padding, 4),
                     NN_STR("layout", first == 1 ? "nhwc" : "nchw"), NN_BOOL("include_pad", p->include_pad && !counts)};
  MlirOperation made = layer_build(p->c, p->op, 1, &x, p->op == NN_OP_avgpool2d ? 5 : 4, attrs, NULL);
  return mlirOperationIsNull(made) ? nn_null_value() : mlirOperationGetResult(made, 0);
}

// The first maximum of dilated windows along one axis: of shifted parts, one after the other. Null after reporting.
static MlirValue max_dilated(const Pool *p, MlirValue x, int i) {
  NnBuilder *b = p->c->b;
  NnType t = nn_value_type(x);
  int64_t low[NN_MAX_RANK] = {0}, high[NN_MAX_RANK] = {0}, none[NN_MAX_RANK] = {0}, starts[NN_MAX_RANK] = {0},
          strides[NN_MAX_RANK], axis = 2 + i, reach = p->dilation[i] * (p->kernel[i] - 1) + 1;
  low[axis] = p->padding[2 * i], high[axis] = p->padding[2 * i + 1] + p->more[i];
  int64_t padded = t.dim[axis] + low[axis] + high[axis];
  if (padded < reach || low[axis] >= reach || p->padding[2 * i + 1] >= reach) {
    layer_error(p->c, "a window of %lld does not fit %lld elements and their padding", (long long)reach,
                (long long)t.dim[axis]);
    return nn_null_value();
  }
  NnType whole = t;
  whole.dim[axis] = padded;
  if (!layer_representable(p->c, PADDING, &whole)) return nn_null_value();
  x = nn_pad(b, x, low, high, none, -INFINITY);
  for (int k = 0; k < t.rank; k++) strides[k] = 1;
  strides[axis] = p->stride[i];
  t.dim[axis] = (padded - reach) / p->stride[i] + 1;
  MlirValue best = nn_slice(b, x, starts, t.dim, strides);
  for (int64_t k = 1; k < p->kernel[i]; k++) {
    starts[axis] = k * p->dilation[i];
    MlirValue next = nn_slice(b, x, starts, t.dim, strides);
    MlirValue better = nn_binary(b, NN_OP_or, nn_compare(b, "gt", next, best), nn_compare(b, "ne", next, next));
    best = nn_select(b, better, next, best);
  }
  return best;
}

static MlirValue as_four(NnBuilder *b, MlirValue x, int64_t n, int64_t c, int64_t h, int64_t w) {
  return nn_reshape(b, x, 4, (int64_t[]){n, c, h, w});
}

static bool pool_build(const Pool *p, MlirValue x, Value *result) {
  NnBuilder *b = p->c->b;
  NnType t = nn_value_type(x);
  const int64_t *d = t.dim;
  int first = p->axes - 2, second = p->axes - 1;
  bool dilated = false, apart = false;
  for (int i = 0; i < p->axes; i++) dilated = dilated || p->dilation[i] > 1;
  for (int i = second; dilated && i >= 0 && !nn_value_is_null(x); i--) x = max_dilated(p, x, i);
  if (dilated) return !nn_value_is_null(x) && layer_return(result, x);
  if (p->axes == 1) x = as_four(b, x, d[0], d[1], 1, d[2]);
  // Channels last, what joins axes moves nothing between convolutions.
  if (p->axes == 3) x = as_four(b, nn_transpose(b, x, (int64_t[]){0, 2, 3, 4, 1}), d[0] * d[2], d[3], d[4], d[1]);
  // The op has a byte for the place of the maximum. Of rows first, then of columns, is the same place.
  if (p->op == NN_OP_maxpool2d && p->axes > 1) apart = p->kernel[second] > MOST_PLACES / p->kernel[first];
  if (apart) x = pool_two(p, x, -1, second);
  if (!nn_value_is_null(x)) x = pool_two(p, x, p->axes > 1 ? first : -1, apart ? -1 : second);
  if (nn_value_is_null(x)) return false;
  NnType y = nn_value_type(x);
  if (p->axes == 1) return layer_return(result, nn_reshape(b, x, 3, (int64_t[]){d[0], d[1], y.dim[3]}));
  if (p->axes == 2) return layer_return(result, x);
  x = pool_two(p, as_four(b, x, d[0], d[2], y.dim[1] * y.dim[2], d[1]), 0, -1);
  if (nn_value_is_null(x)) return false;
  x = nn_reshape(b, x, 5, (int64_t[]){d[0], nn_value_type(x).dim[1], y.dim[1], y.dim[2], d[1]});
  return layer_return(result, nn_transpose(b, x, (int64_t[]){0, 4, 1, 2, 3}));
}

bool layer_maxpool(LayerCall *c, Value *result) {
  Pool p;
  enum { DILATION = 4, CEIL_MODE };
  return pool_read(c, NN_OP_maxpool2d, DILATION, -1, CEIL_MODE, &p) && pool_build(&p, layer_float_tensor(c, X), result);
}

bool layer_avgpool(LayerCall *c, Value *result) {
  Pool p;
  enum { INCLUDE_PAD = 4, CEIL_MODE };
  return pool_read(c, NN_OP_avgpool2d, -1, INCLUDE_PAD, CEIL_MODE, &p) &&
         pool_build(&p, layer_float_tensor(c, X), result);
}

// --- To any size: window i of o over n elements begins at floor(i n / o) and ends before ceil((i + 1) n / o) --------

// i n / o, rounded down, or with `end` the end of window i; i along `axis`.
static MlirValue window_edge(NnBuilder *b, NnType t, int64_t axis, int64_t n, int64_t o, bool end) {
  MlirValue at = nn_binary(b, NN_OP_mul, nn_iota(b, t, axis), nn_constant(b, t, (double)n));
  if (end) at = nn_binary(b, NN_OP_add, at, nn_constant(b, t, (double)(n + o - 1)));
  return nn_binary(b, NN_OP_div, at, nn_constant(b, t, (double)o));
}

MlirValue layer_window_means(NnBuilder *b, NnDtype dtype, int64_t n, int64_t o) {
  NnType t = nn_type(NN_I64, 2, (int64_t[]){o, n}), m = t;
  m.dtype = dtype;
  MlirValue first = window_edge(b, t, 0, n, o, false), end = window_edge(b, t, 0, n, o, true), at = nn_iota(b, t, 1);
  MlirValue inside = nn_binary(b, NN_OP_and, nn_compare(b, "ge", at, first), nn_compare(b, "lt", at, end));
  MlirValue length = nn_cast(b, nn_binary(b, NN_OP_sub, end, first), dtype);
  return nn_select(b, inside, nn_unary(b, NN_OP_recip, length), nn_constant(b, m, 0));
}

// The elements of all windows along an axis, each of the longest one's length: shorter ones repeat their last. Null
// after reporting.
static MlirValue spread_windows(const LayerCall *c, MlirValue x, int axis, int64_t o, int64_t *longest) {
  NnBuilder *b = c->b;
  NnType all = nn_value_type(x);
  int64_t n = all.dim[axis];
  *longest = 0;
  for (int64_t i = 0; i < o; i++) {
    int64_t length = ((i + 1) * n + o - 1) / o - i * n / o;
    if (length > *longest) *longest = length;
  }
  all.dim[axis] = o * *longest;
  if (!layer_representable(c, SIZE, &all)) return nn_null_value();
  NnType t = nn_type(NN_I64, 2, (int64_t[]){o, *longest});
  MlirValue at = nn_binary(b, NN_OP_add, window_edge(b, t, 0, n, o, false), nn_iota(b, t, 1));
  MlirValue last = nn_binary(b, NN_OP_sub, window_edge(b, t, 0, n, o, true), nn_constant(b, t, 1));
  at = nn_cast(b, nn_binary(b, NN_OP_min, at, last), NN_I32);
  return layer_take(b, x, axis, nn_reshape(b, at, 1, (int64_t[]){o * *longest}));
}

static bool adaptive(LayerCall *c, NnOp op, Value *result) {
  MlirValue x = layer_float_tensor(c, X);
  NnType t = nn_value_type(x);
  Pool p = {.c = c, .op = op, .axes = pooled_axes(c, &t), .dilation = {1, 1, 1}};
  int64_t size[MAX_AXES];
  if (!p.axes || !layer_sizes(c, SIZE, p.axes, size) || !in_range(c, SIZE, 1, p.axes, size)) return false;
  for (int i = 0; i < p.axes; i++) {
    int64_t n = t.dim[2 + i], o = size[i];
    p.kernel[i] = p.stride[i] = n % o == 0 ? n / o : 1;
    if (n % o == 0) continue;
    if (op == NN_OP_maxpool2d) x = spread_windows(c, x, 2 + i, o, &p.kernel[i]);
    else if (layer_along_fits(c, SIZE, x, 2 + i, o))
      x = layer_along(c->b, x, 2 + i, layer_window_means(c->b, t.dtype, n, o));
    else return false;
    if (nn_value_is_null(x)) return false;
    p.stride[i] = p.kernel[i];
  }
  return pool_build(&p, x, result);
}

bool layer_adaptive_avgpool(LayerCall *c, Value *result) { return adaptive(c, NN_OP_avgpool2d, result); }
bool layer_adaptive_maxpool(LayerCall *c, Value *result) { return adaptive(c, NN_OP_maxpool2d, result); }
