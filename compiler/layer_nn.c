// Layers with parameters, and those that differ between training and evaluation.
// Default initialisers are PyTorch's: weights and biases of linear and conv2d from U(-1/sqrt(fan_in), 1/sqrt(fan_in)).
#include "compiler/layer.h"

#include <math.h>
#include <string.h>

static const char *init_or(const LayerCall *c, int arg, const char *otherwise) {
  return layer_given(c, arg) ? c->arg[arg].s : otherwise;
}

static bool positive(const LayerCall *c, int arg, int64_t value) {
  return value > 0 || layer_arg_error(c, arg, "must be positive, found %lld", (long long)value);
}

bool layer_linear(LayerCall *c, Value *result) {
  enum { X, FEATURES, BIAS, INIT, BIAS_INIT, WEIGHT };
  MlirValue x = layer_float_tensor(c, X);
  NnType t = nn_value_type(x);
  int64_t features = layer_int(c, FEATURES);
  if (!positive(c, FEATURES, features)) return false;
  if (t.rank < 2) {
    layer_arg_error(c, X, "needs at least two axes (batch and features), found %s", value_describe(c->e, c->arg[X]));
    elaborator_hint(c->e, "use flatten or reshape first");
    return false;
  }
  int64_t inputs = t.dim[t.rank - 1];
  MlirValue weight;
  if (layer_given(c, WEIGHT)) {
    weight = layer_tensor(c, WEIGHT);
    NnType w = nn_value_type(weight);
    if (w.rank != 2 || w.dim[0] != features || w.dim[1] != inputs)
      return layer_arg_error(c, WEIGHT, "must be [%lld, %lld], found %s", (long long)features, (long long)inputs,
                             value_describe(c->e, c->arg[WEIGHT]));
  } else {
    NnType w = nn_type(t.dtype, 2, (int64_t[]){features, inputs});
    weight = elaborator_param(c->e, c->pos, "weight", w, layer_init_or_fan_in(c, INIT, inputs));
  }
  if (nn_value_is_null(weight)) return false;
  MlirValue y = layer_product(c, x, weight);
  if (nn_value_is_null(y)) return false;
  if (layer_is_false(c, BIAS)) return layer_return(result, y);
  MlirValue bias = layer_bias(c, BIAS, t.dtype, features, layer_init_or_fan_in(c, BIAS_INIT, inputs));
  return !nn_value_is_null(bias) && layer_return(result, layer_add_along(c->b, y, bias, t.rank - 1));
}

// In training the batch's statistics, and running <- (1 - momentum) running + momentum batch, with the unbiased
// variance as PyTorch has it.
static MlirValue batchnorm_train(LayerCall *c, MlirValue x, int64_t axis, MlirValue gamma, MlirValue beta,
                                 MlirValue mean, MlirValue var) {
  double momentum = layer_float(c, 1);
  NnType t = nn_value_type(x);
  MlirOperation op = layer_build(c, NN_OP_batchnorm, 3, (MlirValue[]){x, gamma, beta}, 2,
                                 (NnAttr[]){NN_F64A("eps", layer_float(c, 2)), NN_I64("axis", axis)}, NULL);
  if (mlirOperationIsNull(op)) return nn_null_value();
  double count = (double)nn_type_elements(&t) / (double)t.dim[axis];
  double unbias = count > 1 ? count / (count - 1) : 1;
  MlirValue batch[2] = {mlirOperationGetResult(op, 1), mlirOperationGetResult(op, 2)};
  MlirValue running[2] = {mean, var};
  const char *name[2] = {"running_mean", "running_var"};
  for (int i = 0; i < 2; i++) {
    MlirValue kept = layer_scale(c->b, running[i], 1 - momentum);
    MlirValue added = layer_scale(c->b, batch[i], i ? momentum * unbias : momentum);
    elaborator_update_state(c->e, name[i], nn_binary(c->b, NN_OP_add, kept, added));
  }
  return mlirOperationGetResult(op, 0);
}

bool layer_batchnorm(LayerCall *c, Value *result) {
  MlirValue x = layer_float_tensor(c, 0);
  NnType t = nn_value_type(x);
  int64_t axis;
  if (!layer_axis(c, 3, t.rank, &axis)) return false;
  if (t.rank < 2) return layer_arg_error(c, 0, "needs at least two axes, found %s", value_describe(c->e, c->arg[0]));
  if (!(layer_float(c, 1) >= 0 && layer_float(c, 1) <= 1))
    return layer_arg_error(c, 1, "must be from 0 to 1, found %g", layer_float(c, 1));
  if (!layer_not_negative(c, 2)) return false;
  NnType s = nn_type(t.dtype, 1, &t.dim[axis]);
  MlirValue gamma = layer_learnt(c, 4, "weight", s, "ones", 1);
  MlirValue beta = layer_learnt(c, 5, "bias", s, "zeros", 0);
  MlirValue mean = elaborator_state(c->e, c->pos, "running_mean", s, "zeros");
  MlirValue var = elaborator_state(c->e, c->pos, "running_var", s, "ones");
  if (nn_value_is_null(gamma) || nn_value_is_null(beta) || nn_value_is_null(mean) || nn_value_is_null(var))
    return false;
  if (elaborator_training(c->e)) {
    MlirValue y = batchnorm_train(c, x, axis, gamma, beta, mean, var);
    return !nn_value_is_null(y) && layer_return(result, y);
  }
  MlirValue rstd = nn_unary(c->b, NN_OP_rsqrt,
                            nn_binary(c->b, NN_OP_add, var, nn_constant_like(c->b, var, layer_float(c, 2))));
  MlirValue scale = nn_binary(c->b, NN_OP_mul, gamma, rstd);
  MlirValue shift = nn_binary(c->b, NN_OP_sub, beta, nn_binary(c->b, NN_OP_mul, mean, scale));
  MlirValue scaled = nn_binary(c->b, NN_OP_mul, x, layer_broadcast_along(c->b, scale, t, axis));
  return layer_return(result, layer_add_along(c->b, scaled, shift, axis));
}

// Several axes are one for the op; the parameters have their shape.
bool layer_layernorm(LayerCall *c, Value *result) {
  enum { X, EPS, AXES, WEIGHT, BIAS };
  MlirValue x = layer_float_tensor(c, X);
  NnType t = nn_value_type(x);
  int64_t axes[NN_MAX_RANK];
  if (t.rank < 1) return layer_arg_error(c, X, "needs at least one axis, found a scalar");
  int n = layer_axes(c, AXES, &t, axes), rows = t.rank - n;
  if (n < 0 || !layer_not_negative(c, EPS)) return false;
  if (n == 0 || axes[0] != rows) return layer_arg_error(c, AXES, "must be the last axes of %s", layer_type_text(c, t));
  NnType s = nn_type(t.dtype, n, t.dim + rows), flat = nn_type(t.dtype, rows + 1, t.dim);
  flat.dim[rows] = nn_type_elements(&s);
  MlirValue gamma = layer_learnt(c, WEIGHT, "weight", s, "ones", 1);
  MlirValue beta = nn_value_is_null(gamma) ? gamma : layer_learnt(c, BIAS, "bias", s, "zeros", 0);
  if (nn_value_is_null(beta)) return false;
  if (n > 1) {
    x = nn_reshape(c->b, x, flat.rank, flat.dim);
    gamma = nn_reshape(c->b, gamma, 1, &flat.dim[rows]);
    beta = nn_reshape(c->b, beta, 1, &flat.dim[rows]);
  }
  MlirOperation op = layer_build(c, NN_OP_layernorm, 3, (MlirValue[]){x, gamma, beta}, 1,
                                 (NnAttr[]){NN_F64A("eps", layer_float(c, EPS))}, NULL);
  if (mlirOperationIsNull(op)) return false;
  MlirValue y = mlirOperationGetResult(op, 0);
  return layer_return(result, n > 1 ? nn_reshape(c->b, y, t.rank, t.dim) : y);
}

bool layer_embedding(LayerCall *c, Value *result) {
  enum { INDICES, ROWS, FEATURES, INIT, WEIGHT };
  NnType indices = nn_value_type(layer_tensor(c, INDICES));
  if (nn_dtype_is_float(indices.dtype))
    return layer_arg_error(c, 0, "indices must be integers, found %s", value_describe(c->e, c->arg[0]));
  bool given = layer_given(c, WEIGHT);
  NnType w = given ? nn_value_type(layer_tensor(c, WEIGHT)) : nn_type(elaborator_dtype(c->e), 2, (int64_t[]){0, 0});
  if (w.rank != 2 || !nn_dtype_is_float(w.dtype))
    return layer_arg_error(c, WEIGHT, "must be a float tensor [rows, features], found %s",
                           value_describe(c->e, c->arg[WEIGHT]));
  for (int i = 0; i < 2; i++) {
    if (!layer_given(c, ROWS + i) && !given) return layer_error(c, "needs '%s', or a weight", i ? "features" : "rows");
    if (layer_given(c, ROWS + i)) w.dim[i] = layer_int(c, ROWS + i);
    if (!positive(c, ROWS + i, w.dim[i])) return false;
  }
  if (!nn_type_is_representable(&w)) return layer_error(c, "the table would have more than 2^40 elements");
  MlirValue table = layer_learnt(c, WEIGHT, "weight", w, init_or(c, INIT, "normal(1)"), 0);
  if (nn_value_is_null(table)) return false;
  MlirOperation op = layer_build(c, NN_OP_gather, 2, (MlirValue[]){table, layer_tensor(c, 0)}, 0, NULL, NULL);
  return !mlirOperationIsNull(op) && layer_return(result, mlirOperationGetResult(op, 0));
}

// The mask is a function of (seed, step, op, element) alone, so that a recomputed dropout is the same dropout.
bool layer_dropout(LayerCall *c, Value *result) {
  MlirValue x = layer_float_tensor(c, 0);
  double p = layer_float(c, 1);
  if (!(p >= 0 && p < 1)) return layer_arg_error(c, 1, "'p' must be at least 0 and below 1, found %g", p);
  if (!elaborator_training(c->e) || p == 0) return layer_return(result, x);
  NnType t = nn_value_type(x), u = t;
  u.dtype = nn_dtype_wide(t.dtype);   // the same mask in every precision
  MlirValue key = elaborator_random_key(c->e);
  MlirOperation draw = layer_build(c, NN_OP_random_uniform, 1, &key, 0, NULL, &u);
  if (mlirOperationIsNull(draw)) return false;
  MlirValue keep = nn_compare(c->b, "ge", mlirOperationGetResult(draw, 0), nn_constant(c->b, u, p));
  return layer_return(result, nn_select(c->b, keep, layer_scale(c->b, x, 1 / (1 - p)), nn_constant(c->b, t, 0)));
}

bool layer_none(LayerCall *c, Value *result) {
  (void)c;
  *result = (Value){.kind = VALUE_NONE};
  return true;
}

bool layer_training(LayerCall *c, Value *result) {
  *result = value_bool(elaborator_training(c->e));
  return true;
}
