// Normalisations and attention parts that are built from other ops: rmsnorm, groupnorm, rope, swiglu.
#include "compiler/layer.h"

#include <math.h>

// Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019
bool layer_rmsnorm(LayerCall *c, Value *result) {
  MlirValue x = layer_float_tensor(c, 0);
  NnType t = nn_value_type(x);
  if (t.rank < 1) return layer_arg_error(c, 0, "needs at least one axis, found a scalar");
  if (!layer_not_negative(c, 1)) return false;
  int64_t last = t.rank - 1, dims[NN_MAX_RANK];
  MlirValue weight = layer_learnt(c, 2, "weight", nn_type(t.dtype, 1, &t.dim[last]), "ones", 1);
  if (nn_value_is_null(weight)) return false;
  for (int i = 0; i < last; i++) dims[i] = i;
  MlirValue mean = layer_mean_of(c->b, nn_binary(c->b, NN_OP_mul, x, x), 1, &last);
  MlirValue scale = nn_unary(c->b, NN_OP_rsqrt,
                             nn_binary(c->b, NN_OP_add, mean, nn_constant_like(c->b, mean, layer_float(c, 1))));
  MlirValue y = nn_binary(c->b, NN_OP_mul, x, nn_broadcast(c->b, scale, t, dims));
  return layer_return(result, nn_binary(c->b, NN_OP_mul, y, layer_broadcast_along(c->b, weight, t, last)));
}

// Wu and He, "Group Normalization", 2018: each record's channels are normalised in groups.
bool layer_groupnorm(LayerCall *c, Value *result) {
  MlirValue x = layer_float_tensor(c, 0);
  NnType t = nn_value_type(x);
  int64_t groups = layer_int(c, 1), axis = 2;
  if (t.rank < 2) return layer_arg_error(c, 0, "needs x[N, C, …], found %s", value_describe(c->e, c->arg[0]));
  if (groups < 1 || t.dim[1] % groups)
    return layer_arg_error(c, 1, "%lld groups do not divide the %lld channels of %s", (long long)groups,
                           (long long)t.dim[1], value_describe(c->e, c->arg[0]));
  if (!layer_not_negative(c, 2)) return false;
  MlirValue gamma = layer_learnt(c, 3, "weight", nn_type(t.dtype, 1, &t.dim[1]), "ones", 1);
  MlirValue beta = layer_learnt(c, 4, "bias", nn_type(t.dtype, 1, &t.dim[1]), "zeros", 0);
  if (nn_value_is_null(gamma) || nn_value_is_null(beta)) return false;
  NnType grouped = nn_type(t.dtype, 3, (int64_t[]){t.dim[0], groups, nn_type_elements(&t) / t.dim[0] / groups});
  MlirValue g = nn_reshape(c->b, x, 3, grouped.dim);
  MlirOperation moments = layer_build(c, NN_OP_moments, 1, &g, 1, (NnAttr[]){NN_I64S("axes", &axis, 1)}, NULL);
  if (mlirOperationIsNull(moments)) return false;
  MlirValue mean = mlirOperationGetResult(moments, 0), var = mlirOperationGetResult(moments, 1);
  MlirValue rstd = nn_unary(c->b, NN_OP_rsqrt,
                            nn_binary(c->b, NN_OP_add, var, nn_constant_like(c->b, var, layer_float(c, 2))));
  int64_t dims[2] = {0, 1};
  MlirValue centred = nn_binary(c->b, NN_OP_sub, g, nn_broadcast(c->b, mean, grouped, dims));
  MlirValue y = nn_reshape(c->b, nn_binary(c->b, NN_OP_mul, centred, nn_broadcast(c->b, rstd, grouped, dims)), t.rank,
                           t.dim);
  y = nn_binary(c->b, NN_OP_mul, y, layer_broadcast_along(c->b, gamma, t, 1));
  return layer_return(result, layer_add_along(c->b, y, beta, 1));
}

// Salimans and Kingma, "Weight Normalization", 2016
bool layer_weight_norm(LayerCall *c, Value *result) {
  MlirValue v = layer_float_tensor(c, 0);
  NnType t = nn_value_type(v);
  int64_t axis, others[NN_MAX_RANK];
  int n = 0;
  if (!layer_axis(c, 1, t.rank, &axis)) return false;
  for (int i = 0; i < t.rank; i++)
    if (i != axis) others[n++] = i;
  const char *of = elaborator_parameter_path(c->e, v),
             *init = of ? elaborator_format(c->e, "lengths(%d,%s)", (int)axis, of) : "ones";
  MlirValue g = elaborator_param(c->e, c->pos, "g", nn_type(t.dtype, 1, &t.dim[axis]), init);
  if (nn_value_is_null(g)) return false;
  MlirValue square = nn_binary(c->b, NN_OP_mul, v, v);
  if (n) square = nn_reduce(c->b, NN_OP_reduce_sum, square, n, others);
  MlirValue scale = nn_binary(c->b, NN_OP_div, g, nn_unary(c->b, NN_OP_sqrt, square));
  return layer_return(result, nn_binary(c->b, NN_OP_mul, v, layer_broadcast_along(c->b, scale, t, axis)));
}

// silu(a) b, a and b the halves of the last axis: Shazeer, "GLU Variants Improve Transformer", 2020
bool layer_swiglu(LayerCall *c, Value *result) {
  MlirValue x = layer_float_tensor(c, 0);
  NnType t = nn_value_type(x);
  int64_t starts[NN_MAX_RANK] = {0};
  if (t.rank < 1 || t.dim[t.rank - 1] % 2)
    return layer_arg_error(c, 0, "needs a last axis of even size, found %s", value_describe(c->e, c->arg[0]));
  t.dim[t.rank - 1] /= 2;
  MlirValue a = nn_slice(c->b, x, starts, t.dim, NULL);
  starts[t.rank - 1] = t.dim[t.rank - 1];
  MlirValue gate = nn_binary(c->b, NN_OP_mul, a, nn_unary(c->b, NN_OP_sigmoid, a));
  return layer_return(result, nn_binary(c->b, NN_OP_mul, gate, nn_slice(c->b, x, starts, t.dim, NULL)));
}

// Su et al., "RoFormer", 2021: the pair i of x[…, t, :] is turned by the angle t base^(-2i/D). A pair is elements i and
// i + D/2, as in Llama's published weights, or 2i and 2i + 1 when interleaved. With the elements of a pair along an
// axis of their own it is x cos + (x, that axis turned around) (-sin, sin): one kernel without a concatenation.
bool layer_rope(LayerCall *c, Value *result) {
  MlirValue x = layer_float_tensor(c, 0);
  NnType t = nn_value_type(x);
  if (t.rank < 2 || t.dim[t.rank - 1] % 2)
    return layer_arg_error(c, 0, "needs x[…, T, D] with an even D, found %s", value_describe(c->e, c->arg[0]));
  if (t.rank == NN_MAX_RANK) return layer_arg_error(c, 0, "needs at most %d axes", NN_MAX_RANK - 1);
  if (!(layer_float(c, 1) > 0)) return layer_arg_error(c, 1, "must be positive, found %g", layer_float(c, 1));
  bool interleaved = layer_bool(c, 2);
  int pair = t.rank - 1 + interleaved, other = t.rank - interleaved;   // axes of `pairs`
  int64_t d = t.dim[t.rank - 1], starts[NN_MAX_RANK] = {0}, strides[NN_MAX_RANK];
  NnType pairs = t;
  pairs.rank++;
  pairs.dim[pair] = 2;
  pairs.dim[other] = d / 2;
  for (int i = 0; i < pairs.rank; i++) strides[i] = i == pair ? -1 : 1;
  starts[pair] = 1;
  x = nn_reshape(c->b, x, pairs.rank, pairs.dim);
  MlirValue turned = nn_slice(c->b, x, starts, pairs.dim, strides);
  int first = t.rank - 2;   // axis of tokens
  NnType table = nn_type(t.dtype, 3, pairs.dim + first);
  MlirValue frequency = nn_unary(c->b, NN_OP_exp,
                                 layer_scale(c->b, nn_iota(c->b, table, other - first),
                                             -2 * log(layer_float(c, 1)) / (double)d));
  MlirValue angle = nn_binary(c->b, NN_OP_mul, nn_iota(c->b, table, 0), frequency);
  MlirValue sign = layer_scale(c->b, nn_iota(c->b, table, pair - first), 2);
  sign = nn_binary(c->b, NN_OP_sub, sign, nn_constant_like(c->b, sign, 1));
  MlirValue cosine = nn_unary(c->b, NN_OP_cos, angle),
            sine = nn_binary(c->b, NN_OP_mul, nn_unary(c->b, NN_OP_sin, angle), sign);
  MlirValue y = nn_binary(c->b, NN_OP_add, nn_binary(c->b, NN_OP_mul, x, nn_broadcast_trailing(c->b, cosine, pairs)),
                          nn_binary(c->b, NN_OP_mul, turned, nn_broadcast_trailing(c->b, sine, pairs)));
  return layer_return(result, nn_reshape(c->b, y, t.rank, t.dim));
}
