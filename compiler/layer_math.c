// Elementwise functions, reductions and losses.
#include "compiler/layer.h"

#include <math.h>
#include <string.h>

// --- Functions of one number or tensor ------------------------------------------------------------------------------

static bool unary(LayerCall *c, NnOp op, double (*folded)(double), Value *result) {
  double x;
  if (folded && value_as_number(&c->arg[0], &x)) {
    *result = value_float(folded(x));
    return true;
  }
  return layer_return(result, nn_unary(c->b, op, layer_float_tensor(c, 0)));
}

static double inverse_sqrt(double x) { return 1 / sqrt(x); }

bool layer_sigmoid(LayerCall *c, Value *r) { return unary(c, NN_OP_sigmoid, NULL, r); }
bool layer_tanh(LayerCall *c, Value *r) { return unary(c, NN_OP_tanh, tanh, r); }
bool layer_exp(LayerCall *c, Value *r) { return unary(c, NN_OP_exp, exp, r); }
bool layer_log(LayerCall *c, Value *r) { return unary(c, NN_OP_log, log, r); }
bool layer_sqrt(LayerCall *c, Value *r) { return unary(c, NN_OP_sqrt, sqrt, r); }
bool layer_rsqrt(LayerCall *c, Value *r) { return unary(c, NN_OP_rsqrt, inverse_sqrt, r); }
bool layer_sin(LayerCall *c, Value *r) { return unary(c, NN_OP_sin, sin, r); }
bool layer_cos(LayerCall *c, Value *r) { return unary(c, NN_OP_cos, cos, r); }
bool layer_erf(LayerCall *c, Value *r) { return unary(c, NN_OP_erf, erf, r); }

// What keeps integers.
static bool keeping(LayerCall *c, NnOp op, double (*folded)(double), Value *result) {
  Value x = c->arg[0];
  bool integers = x.kind == VALUE_TENSOR && !nn_dtype_is_float(nn_value_dtype(x.tensor));
  if (integers) return layer_return(result, nn_unary(c->b, op, layer_number_tensor(c, 0)));
  if (x.kind != VALUE_INT) return unary(c, op, folded, result);
  *result = x;
  return x.i >= 0 || op != NN_OP_abs || value_unary(c->e, c->pos, "-", x, result);
}

bool layer_relu(LayerCall *c, Value *r) { return keeping(c, NN_OP_relu, NULL, r); }
bool layer_abs(LayerCall *c, Value *r) { return keeping(c, NN_OP_abs, fabs, r); }
bool layer_floor(LayerCall *c, Value *r) { return keeping(c, NN_OP_floor, floor, r); }

bool layer_square(LayerCall *c, Value *result) { return value_binary(c->e, c->pos, "*", c->arg[0], c->arg[0], result); }

static MlirValue multiply(NnBuilder *b, MlirValue x, MlirValue y) { return nn_binary(b, NN_OP_mul, x, y); }
static MlirValue plus(NnBuilder *b, MlirValue x, double v) {
  return nn_binary(b, NN_OP_add, x, nn_constant_like(b, x, v));
}

bool layer_gelu(LayerCall *c, Value *result) {
  MlirValue x = layer_float_tensor(c, 0), inner;
  if (layer_bool(c, 1)) {   // tanh(sqrt(2/pi) (x + 0.044715 x^3))
    MlirValue cubic = layer_scale(c->b, multiply(c->b, multiply(c->b, x, x), x), 0.044715);
    inner = nn_unary(c->b, NN_OP_tanh, layer_scale(c->b, nn_binary(c->b, NN_OP_add, x, cubic), sqrt(2 / M_PI)));
  } else {
    inner = nn_unary(c->b, NN_OP_erf, layer_scale(c->b, x, sqrt(0.5)));
  }
  return layer_return(result, multiply(c->b, layer_scale(c->b, x, 0.5), plus(c->b, inner, 1)));
}

bool layer_silu(LayerCall *c, Value *result) {
  MlirValue x = layer_float_tensor(c, 0);
  return layer_return(result, multiply(c->b, x, nn_unary(c->b, NN_OP_sigmoid, x)));
}

// x between two numbers. No gradient at the limits, as in PyTorch. A NaN stays one.
static bool limit(LayerCall *c, Value x, Value low, Value high, Value *result) {
  Value all[3] = {x, low, high};
  MlirValue v[3];
  if (!value_promote(c->e, c->pos, 3, all, value_common_dtype(c->e, 3, all), v)) return false;
  NnType t = nn_value_type(v[0]);
  MlirValue lowest = nn_broadcast_trailing(c->b, v[1], t), highest = nn_broadcast_trailing(c->b, v[2], t);
  MlirValue below = nn_select(c->b, nn_compare(c->b, "ge", v[0], highest), highest, v[0]);
  return layer_return(result, nn_select(c->b, nn_compare(c->b, "le", v[0], lowest), lowest, below));
}

bool layer_relu6(LayerCall *c, Value *result) {
  return limit(c, value_tensor(layer_float_tensor(c, 0)), value_int(0), value_int(6), result);
}

bool layer_clamp(LayerCall *c, Value *result) {
  if (layer_number(c, 1) > layer_number(c, 2))
    return layer_arg_error(c, 1, "low %g is above high %g", layer_number(c, 1), layer_number(c, 2));
  return limit(c, value_tensor(layer_number_tensor(c, 0)), c->arg[1], c->arg[2], result);
}

bool layer_leaky_relu(LayerCall *c, Value *result) {
  MlirValue x = layer_float_tensor(c, 0);
  MlirValue positive = nn_compare(c->b, "gt", x, nn_constant_like(c->b, x, 0));
  return layer_return(result, nn_select(c->b, positive, x, layer_scale(c->b, x, layer_float(c, 1))));
}

// log(1 + x) for x >= 0. With u = 1 + x rounded, it is log u + log((1 + x) / u), of which the second is (x - (u - 1)) /
// u but for less than a rounding; it changes no gradient.
static MlirValue log_of_one_and(NnBuilder *b, MlirValue x) {
  MlirValue u = plus(b, x, 1), lost = nn_binary(b, NN_OP_sub, x, plus(b, u, -1));
  MlirValue rest = nn_unary(b, NN_OP_stop_gradient, nn_binary(b, NN_OP_div, lost, u));
  return nn_binary(b, NN_OP_add, nn_unary(b, NN_OP_log, u), rest);
}

// max(x, 0) + log(1 + e^-|x|), written with the same choice in both, so that at 0 all derivatives are those of the
// positive side, which are softplus's.
static MlirValue softplus(NnBuilder *b, MlirValue x) {
  MlirValue zero = nn_constant_like(b, x, 0), negative = nn_compare(b, "lt", x, zero),
            minus = nn_unary(b, NN_OP_neg, x);
  MlirValue small = nn_unary(b, NN_OP_exp, nn_select(b, negative, x, minus));
  return nn_binary(b, NN_OP_add, nn_select(b, negative, zero, x), log_of_one_and(b, small));
}

bool layer_softplus(LayerCall *c, Value *result) {
  return layer_return(result, softplus(c->b, layer_float_tensor(c, 0)));
}
bool layer_maximum(LayerCall *c, Value *result) {
  return value_binary(c->e, c->pos, "max", c->arg[0], c->arg[1], result);
}
bool layer_minimum(LayerCall *c, Value *result) {
  return value_binary(c->e, c->pos, "min", c->arg[0], c->arg[1], result);
}

bool layer_where(LayerCall *c, Value *result) {
  MlirValue cond = layer_tensor(c, 0);
  NnType t = nn_value_type(cond);
  if (t.dtype != NN_I1) return layer_arg_error(c, 0, "must be a comparison, found %s", value_describe(c->e, c->arg[0]));
  MlirValue side[2];
  NnType all = t;
  if (!value_promote(c->e, c->pos, 2, c->arg + 1, value_common_dtype(c->e, 2, c->arg + 1), side)) return false;
  for (int i = 0; i < 2; i++) {
    NnType so_far = all, other = nn_value_type(side[i]);
    if (!value_broadcast_shape(&so_far, &other, &all))
      return shapes_do_not_fit(c->e, c->arg_pos[1 + i], "where", &so_far, &other);
  }
  all.dtype = NN_I1;
  cond = nn_broadcast_trailing(c->b, cond, all);
  all.dtype = nn_value_dtype(side[0]);
  for (int i = 0; i < 2; i++) side[i] = nn_broadcast_trailing(c->b, side[i], all);
  return layer_return(result, nn_select(c->b, cond, side[0], side[1]));
}

bool layer_stop_gradient(LayerCall *c, Value *result) {
  if (c->arg[0].kind != VALUE_TENSOR) {
    *result = c->arg[0];
    return true;
  }
  return layer_return(result, nn_unary(c->b, NN_OP_stop_gradient, c->arg[0].tensor));
}

// One mark per tensor, side by side: the pass gradients resolves them together.
static bool gradient_of(LayerCall *c, Value x, Value *result) {
  if (x.kind == VALUE_LIST) {
    Value *items = elaborator_alloc(c->e, sizeof *items * (size_t)(x.list.n + 1));
    for (int i = 0; i < x.list.n; i++)
      if (!gradient_of(c, x.list.items[i], &items[i])) return false;
    *result = (Value){.kind = VALUE_LIST, .list = {items, x.list.n}};
    return true;
  }
  if (x.kind != VALUE_TENSOR || !nn_dtype_is_float(nn_value_dtype(x.tensor)))
    return layer_arg_error(c, 1, "must be a tensor of floats or a list of them, found %s", value_describe(c->e, x));
  return layer_return(result, nn_binary(c->b, NN_OP_gradient, c->arg[0].tensor, x.tensor));
}

bool layer_grad(LayerCall *c, Value *result) {
  if (!nn_dtype_is_float(nn_value_dtype(layer_tensor(c, 0))))
    return layer_arg_error(c, 0, "must be a tensor of floats, found %s", value_describe(c->e, c->arg[0]));
  return gradient_of(c, c->arg[1], result);
}

bool layer_parameters(LayerCall *c, Value *result) {
  return elaborator_parameters(c->e, c->arg_pos[0], layer_string(c, 0), result);
}

bool layer_cast(LayerCall *c, Value *result) {
  NnDtype dtype;
  if (!nn_dtype_parse(layer_string(c, 1), &dtype))
    return layer_arg_error(c, 1, "unknown element type \"%s\"; known are f32, f64, bf16, f16, i32, i64, u8",
                           layer_string(c, 1));
  return layer_return(result, nn_cast(c->b, layer_tensor(c, 0), elaborator_element_type(c->e, dtype)));
}

// --- Reductions

static MlirValue keep_dims(LayerCall *c, MlirValue y, NnType t, int n, const int64_t *axes) {
  if (!layer_bool(c, 2)) return y;
  for (int i = 0; i < n; i++) t.dim[axes[i]] = 1;
  return nn_reshape(c->b, y, t.rank, t.dim);
}

// The order of the elements turned round: -x, of integers all bits, which overflows in none of their types.
static MlirValue turned(NnBuilder *b, MlirValue x) {
  NnDtype dtype = nn_value_dtype(x);
  if (nn_dtype_is_float(dtype)) return nn_unary(b, NN_OP_neg, x);
  return nn_binary(b, NN_OP_sub, nn_constant_like(b, x, dtype == NN_U8 ? 255 : -1), x);
}

static bool reduce(LayerCall *c, NnOp op, bool turn, Value *result) {
  MlirValue x = layer_number_tensor(c, 0);
  NnType t = nn_value_type(x);
  int64_t axes[NN_MAX_RANK];
  int n = layer_axes(c, 1, &t, axes);
  if (n < 0) return false;
  if (op == NN_OP_reduce_sum && !nn_dtype_is_float(t.dtype)) x = nn_cast(c->b, x, t.dtype = NN_I64);
  if (turn) x = turned(c->b, x);
  MlirValue y = n ? nn_reduce(c->b, op, x, n, axes) : x;
  if (turn) y = turned(c->b, y);
  return layer_return(result, keep_dims(c, y, t, n, axes));
}

bool layer_sum(LayerCall *c, Value *r) { return reduce(c, NN_OP_reduce_sum, false, r); }
bool layer_amax(LayerCall *c, Value *r) { return reduce(c, NN_OP_reduce_max, false, r); }
bool layer_amin(LayerCall *c, Value *r) { return reduce(c, NN_OP_reduce_max, true, r); }

bool layer_mean(LayerCall *c, Value *result) {
  MlirValue x = layer_float_tensor(c, 0);
  NnType t = nn_value_type(x);
  int64_t axes[NN_MAX_RANK];
  int n = layer_axes(c, 1, &t, axes);
  if (n < 0) return false;
  return layer_return(result, keep_dims(c, n ? layer_mean_of(c->b, x, n, axes) : x, t, n, axes));
}

bool layer_var(LayerCall *c, Value *result) {
  MlirValue x = layer_float_tensor(c, 0);
  NnType t = nn_value_type(x);
  int64_t axes[NN_MAX_RANK];
  int n = layer_axes(c, 1, &t, axes);
  if (n < 0) return false;
  if (n == 0) return layer_return(result, nn_constant_like(c->b, x, 0));
  MlirOperation op = layer_build(c, NN_OP_moments, 1, &x, 1, (NnAttr[]){NN_I64S("axes", axes, n)}, NULL);
  if (mlirOperationIsNull(op)) return false;
  double count = 1;
  for (int i = 0; i < n; i++) count *= (double)t.dim[axes[i]];
  if (count - layer_float(c, 3) <= 0)
    return layer_arg_error(c, 3, "must be less than the %g elements, found %g", count, layer_float(c, 3));
  MlirValue v = mlirOperationGetResult(op, 1);
  if (layer_float(c, 3) != 0) v = layer_scale(c->b, v, count / (count - layer_float(c, 3)));
  return layer_return(result, keep_dims(c, v, t, n, axes));
}

bool layer_argmax(LayerCall *c, Value *result) {
  MlirValue x = layer_tensor(c, 0);
  int64_t axis;
  if (!layer_axis(c, 1, nn_value_type(x).rank, &axis)) return false;
  MlirOperation op = layer_build(c, NN_OP_argmax, 1, &x, 1, (NnAttr[]){NN_I64("axis", axis)}, NULL);
  return !mlirOperationIsNull(op) && layer_return(result, mlirOperationGetResult(op, 0));
}

// --- Losses and metrics: means over everything but the class axis ---------------------------------------------------

static MlirValue mean_of_all(NnBuilder *b, MlirValue x) {
  int64_t axes[NN_MAX_RANK];
  int rank = nn_value_type(x).rank;
  for (int i = 0; i < rank; i++) axes[i] = i;
  return rank ? layer_mean_of(b, x, rank, axes) : x;
}

static MlirValue sum_of_all(NnBuilder *b, MlirValue x) {
  int64_t axes[NN_MAX_RANK];
  int rank = nn_value_type(x).rank;
  for (int i = 0; i < rank; i++) axes[i] = i;
  return rank ? nn_reduce(b, NN_OP_reduce_sum, x, rank, axes) : x;
}

// x weight; either may be null, a weight of 1.
static MlirValue weighted(NnBuilder *b, MlirValue x, MlirValue weight) {
  return nn_value_is_null(x) ? weight : nn_value_is_null(weight) ? x : multiply(b, x, weight);
}

// sum(weighted) / sum(weight), where weights that are all zero give zero; the mean where the weight is null.
static bool weighted_mean(LayerCall *c, MlirValue weight, MlirValue weighted, Value *result) {
  if (nn_value_is_null(weight)) return layer_return(result, mean_of_all(c->b, weighted));
  MlirValue sum = sum_of_all(c->b, weighted), total = sum_of_all(c->b, weight);
  MlirValue none = nn_compare(c->b, "eq", total, nn_constant_like(c->b, total, 0));
  return layer_return(result,
                      nn_binary(c->b, NN_OP_div, sum, nn_select(c->b, none, nn_constant_like(c->b, total, 1), total)));
}

// logits[..., K] and labels[...] of integers.
static bool check_labels(LayerCall *c, MlirValue *labels) {
  NnType logits = nn_value_type(layer_tensor(c, 0)), t = nn_value_type(layer_tensor(c, 1));
  bool match = logits.rank == t.rank + 1 && !nn_dtype_is_float(t.dtype);
  for (int i = 0; match && i < t.rank; i++) match = logits.dim[i] == t.dim[i];
  bool turned = t.rank == logits.rank + 1 && nn_dtype_is_float(t.dtype) && !nn_dtype_is_float(logits.dtype);
  for (int i = 0; turned && i < logits.rank; i++) turned = logits.dim[i] == t.dim[i];
  if (turned) {
    layer_arg_error(c, 0, "the scores come first, then the labels: %s(scores, labels)", c->info->name);
    return false;
  }
  if (!match) {
    layer_arg_error(
        c, 1, "labels must be integers with the shape of the logits without the class axis: logits are %s, labels %s",
        value_describe(c->e, c->arg[0]), value_describe(c->e, c->arg[1]));
    return false;
  }
  *labels = nn_cast(c->b, layer_tensor(c, 1), NN_I32);
  return true;
}

enum { LOGITS, LABELS, SMOOTHING, WEIGHTS, CLASS_WEIGHTS, IGNORE_INDEX, REDUCTION };   // of cross_entropy

// What the loss of each label counts: *own its weight and 0 where it is ignored, *of_class the weight of its class.
// Null: each counts 1. False after reporting.
static bool weigh_labels(LayerCall *c, NnType logits, MlirValue labels, MlirValue ignored, MlirValue *own,
                         MlirValue *of_class) {
  NnType t = nn_value_type(labels);
  NnBuilder *b = c->b;
  t.dtype = logits.dtype;
  *own = *of_class = nn_null_value();
  if (layer_given(c, WEIGHTS)) {
    NnType w = nn_value_type(layer_tensor(c, WEIGHTS));
    if (!nn_shape_equal(&t, &w))
      return layer_arg_error(c, WEIGHTS, "must be one weight per label, found %s for labels %s",
                             value_describe(c->e, c->arg[WEIGHTS]), value_describe(c->e, c->arg[LABELS]));
    *own = nn_cast(b, layer_tensor(c, WEIGHTS), t.dtype);
  }
  if (!nn_value_is_null(ignored))
    *own = weighted(b, *own, nn_select(b, ignored, nn_constant(b, t, 0), nn_constant(b, t, 1)));
  if (layer_given(c, CLASS_WEIGHTS)) {
    NnType w = nn_value_type(layer_tensor(c, CLASS_WEIGHTS));
    if (w.rank != 1 || w.dim[0] != logits.dim[logits.rank - 1])
      return layer_arg_error(c, CLASS_WEIGHTS, "must be one weight for each of the %lld classes, found %s",
                             (long long)logits.dim[logits.rank - 1], value_describe(c->e, c->arg[CLASS_WEIGHTS]));
    MlirValue table = nn_cast(b, layer_tensor(c, CLASS_WEIGHTS), t.dtype);
    MlirOperation op = layer_build(c, NN_OP_gather, 2, (MlirValue[]){table, labels}, 0, NULL, NULL);
    if (mlirOperationIsNull(op)) return false;
    *of_class = mlirOperationGetResult(op, 0);
  }
  return true;
}

// The mean over classes k of weight[k] (lse - x[k]), where the weights may be none.
static MlirValue mean_over_classes(LayerCall *c, MlirValue logits, MlirValue lse) {
  NnBuilder *b = c->b;
  NnType t = nn_value_type(logits);
  int64_t classes = t.rank - 1, all = 0;
  if (layer_given(c, CLASS_WEIGHTS)) {
    MlirValue table = nn_cast(b, layer_tensor(c, CLASS_WEIGHTS), t.dtype);
    logits = multiply(b, logits, nn_broadcast_trailing(b, table, t));
    lse = multiply(b, lse, nn_broadcast_trailing(b, layer_mean_of(b, table, 1, &all), nn_value_type(lse)));
  }
  return nn_binary(b, NN_OP_sub, lse, layer_mean_of(b, logits, 1, &classes));
}

// With smoothing s: (1 - s) weight[label] (lse - x[label]) + s mean(weight (lse - x)), lse = log sum exp(x).
bool layer_cross_entropy(LayerCall *c, Value *result) {
  MlirValue labels, own, of_class, ignored = nn_null_value(), logits = layer_float_tensor(c, LOGITS);
  NnType t = nn_value_type(logits);
  double s = layer_float(c, SMOOTHING);
  const char *reduction = layer_string(c, REDUCTION);
  bool total = strcmp(reduction, "sum") == 0, each = strcmp(reduction, "none") == 0;
  if (!check_labels(c, &labels)) return false;
  if (!(s >= 0 && s < 1)) return layer_arg_error(c, SMOOTHING, "must be at least 0 and below 1, found %g", s);
  if (!total && !each && strcmp(reduction, "mean") != 0)
    return layer_arg_error(c, REDUCTION, "must be \"mean\", \"sum\" or \"none\", found \"%s\"", reduction);
  if (layer_given(c, IGNORE_INDEX)) {
    ignored = nn_compare(c->b, "eq", labels, nn_constant_like(c->b, labels, (double)layer_int(c, IGNORE_INDEX)));
    labels = nn_select(c->b, ignored, nn_constant_like(c->b, labels, 0), labels);
  }
  MlirOperation op = layer_build(c, NN_OP_cross_entropy, 2, (MlirValue[]){logits, labels}, 0, NULL, NULL);
  if (mlirOperationIsNull(op)) return false;
  MlirValue loss = mlirOperationGetResult(op, 0);
  if (!weigh_labels(c, t, labels, ignored, &own, &of_class)) return false;
  MlirValue weight = weighted(c->b, own, of_class);
  if (s > 0) {
    MlirValue rest = mean_over_classes(c, logits, mlirOperationGetResult(op, 1));
    loss = nn_binary(c->b, NN_OP_add, layer_scale(c->b, weighted(c->b, loss, of_class), 1 - s),
                     layer_scale(c->b, rest, s));
  }
  loss = weighted(c->b, loss, s > 0 ? own : weight);
  if (!each && !total) return weighted_mean(c, weight, loss, result);
  return layer_return(result, total ? sum_of_all(c->b, loss) : loss);
}

bool layer_accuracy(LayerCall *c, Value *result) {
  MlirValue labels, logits = layer_tensor(c, 0);
  if (!check_labels(c, &labels)) return false;
  MlirOperation op = layer_build(c, NN_OP_argmax, 1, &logits, 1,
                                 (NnAttr[]){NN_I64("axis", nn_value_type(logits).rank - 1)}, NULL);
  if (mlirOperationIsNull(op)) return false;
  MlirValue hit = nn_compare(c->b, "eq", mlirOperationGetResult(op, 0), labels);
  MlirValue x = nn_cast(c->b, hit, elaborator_dtype(c->e)), weight = nn_null_value();
  NnType t = nn_value_type(x), w = layer_given(c, 2) ? nn_value_type(layer_tensor(c, 2)) : t;
  if (!nn_shape_equal(&t, &w))
    return layer_arg_error(c, 2, "must be one weight per label, found %s for labels %s",
                           value_describe(c->e, c->arg[2]), value_describe(c->e, c->arg[1]));
  if (layer_given(c, 2)) weight = nn_cast(c->b, layer_tensor(c, 2), t.dtype);
  return weighted_mean(c, weight, weighted(c->b, x, weight), result);
}
