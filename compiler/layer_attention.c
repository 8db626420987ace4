// Attention as one layer: its arguments brought into the shape of the op, which never stores the scores.
#include "compiler/layer.h"

#include <math.h>

enum { Q, K, V, HEADS, CAUSAL, MASK, SCALE, DROPOUT, BIAS, WINDOW, SOFTCAP };

// [B, T, H D] as [B, T, H, D].
static MlirValue split_heads(const LayerCall *c, MlirValue x, int64_t head_dim) {
  NnType t = nn_value_type(x);
  return nn_reshape(c->b, x, 4, (int64_t[]){t.dim[0], t.dim[1], t.dim[2] / head_dim, head_dim});
}

// True with head_dim 0 where heads are an axis already.
static bool find_head_dim(const LayerCall *c, const MlirValue *x, int64_t *head_dim) {
  NnType q = nn_value_type(x[Q]);
  *head_dim = 0;
  for (int i = Q; i <= V; i++) {
    int rank = nn_value_type(x[i]).rank;
    if (rank != 3 && rank != 4)
      return layer_arg_error(c, i, "must be [B, H, T, D], or [B, T, H D] with 'heads', found %s",
                             value_describe(c->e, c->arg[i]));
    if (rank != q.rank)
      return layer_arg_error(c, i, "has other axes than the queries %s: %s", value_describe(c->e, c->arg[Q]),
                             value_describe(c->e, c->arg[i]));
  }
  if (q.rank == 4)
    return !layer_given(c, HEADS) ||
           layer_arg_error(c, HEADS, "'heads' is for [B, T, H D]; %s has its heads as an axis",
                           value_describe(c->e, c->arg[Q]));
  if (!layer_given(c, HEADS)) {
    layer_error(c, "queries of three axes, %s, need 'heads'", value_describe(c->e, c->arg[Q]));
    elaborator_hint(c->e, "attention(q, k, v, heads=8)");
    return false;
  }
  int64_t heads = layer_int(c, HEADS);
  if (heads < 1 || q.dim[2] % heads)
    return layer_arg_error(c, HEADS, "%lld heads do not divide the %lld features of %s", (long long)heads,
                           (long long)q.dim[2], value_describe(c->e, c->arg[Q]));
  *head_dim = q.dim[2] / heads;
  for (int i = K; i <= V; i++)
    if (nn_value_type(x[i]).dim[2] % *head_dim)
      return layer_arg_error(c, i, "heads of %lld features do not divide %s", (long long)*head_dim,
                             value_describe(c->e, c->arg[i]));
  return true;
}

// The type of all three or, where they differ, the wide one, as of an operator.
static NnDtype common_type(const MlirValue *x) {
  NnDtype type = nn_value_dtype(x[Q]);
  for (int i = K; i <= V; i++) {
    NnDtype other = nn_value_dtype(x[i]);
    if (other != type) type = type == NN_F64 || other == NN_F64 ? NN_F64 : NN_F32;
  }
  return type;
}

// [B or 1, H or 1, queries or 1, keys] stretched over queries and keys; null after reporting.
static MlirValue over_pairs(const LayerCall *c, int i, const NnType *all) {
  MlirValue x = layer_tensor(c, i);
  NnType t = nn_value_type(x), to = t;
  bool fits = t.rank == 4;
  for (int k = 0; fits && k < 4; k++) fits = t.dim[k] == all->dim[k] || (t.dim[k] == 1 && k < 3);
  if (!fits) {
    layer_arg_error(c, i, "must be [%lld or 1, %lld or 1, %lld or 1, %lld]%s, found %s", (long long)all->dim[0],
                    (long long)all->dim[1], (long long)all->dim[2], (long long)all->dim[3],
                    i == MASK ? ", or one for each key of each record" : "", value_describe(c->e, c->arg[i]));
    return nn_null_value();
  }
  to.dim[2] = all->dim[2];
  if (!layer_representable(c, i, &to)) return nn_null_value();
  return nn_broadcast(c->b, x, to, (int64_t[]){0, 1, 2, 3});
}

static MlirValue as_bits(const LayerCall *c, MlirValue x) {
  return nn_value_dtype(x) == NN_I1 ? x : nn_compare(c->b, "ne", x, nn_constant_like(c->b, x, 0));
}

// The bias in the wide type, -infinity where a mask of pairs hides a key; null without both. False after reporting.
static bool make_bias(const LayerCall *c, const NnType *all, bool masks_pairs, MlirValue *bias) {
  *bias = nn_null_value();
  if (layer_given(c, BIAS)) {
    *bias = over_pairs(c, BIAS, all);
    if (nn_value_is_null(*bias)) return false;
    *bias = nn_cast(c->b, *bias, all->dtype);
  }
  if (!masks_pairs) return true;
  MlirValue mask = over_pairs(c, MASK, all);
  if (nn_value_is_null(mask)) return false;
  mask = as_bits(c, mask);
  NnType t = nn_value_type(mask);
  t.dtype = all->dtype;
  if (!nn_value_is_null(*bias)) {
    NnType other = nn_value_type(*bias), bits;
    for (int i = 0; i < 2; i++) t.dim[i] = other.dim[i] > t.dim[i] ? other.dim[i] : t.dim[i];
    if (!layer_representable(c, MASK, &t)) return false;
    bits = t, bits.dtype = NN_I1;
    mask = nn_broadcast(c->b, mask, bits, (int64_t[]){0, 1, 2, 3});
    *bias = nn_broadcast(c->b, *bias, t, (int64_t[]){0, 1, 2, 3});
  } else {
    *bias = nn_constant(c->b, t, 0);
  }
  *bias = nn_select(c->b, mask, *bias, nn_constant(c->b, t, -INFINITY));
  return true;
}

bool layer_attention(LayerCall *c, Value *result) {
  MlirValue operand[6], bias;
  int64_t head_dim;
  int n = 3;
  for (int i = Q; i <= V; i++) operand[i] = layer_float_tensor(c, i);
  if (!find_head_dim(c, operand, &head_dim)) return false;
  NnType given = nn_value_type(operand[Q]);
  NnDtype type = common_type(operand);
  for (int i = Q; i <= V; i++) operand[i] = nn_cast(c->b, operand[i], type);
  for (int i = Q; i <= V && head_dim; i++) operand[i] = split_heads(c, operand[i], head_dim);
  double p = layer_float(c, DROPOUT),
         scale = layer_given(c, SCALE) ? layer_float(c, SCALE) : 1 / sqrt((double)nn_value_type(operand[Q]).dim[3]);
  if (!(p >= 0 && p < 1)) return layer_arg_error(c, DROPOUT, "'dropout' must be at least 0 and below 1, found %g", p);
  if (layer_given(c, WINDOW) && layer_int(c, WINDOW) < 1)
    return layer_arg_error(c, WINDOW, "must be positive, found %lld", (long long)layer_int(c, WINDOW));
  if (layer_given(c, SOFTCAP) && !(layer_float(c, SOFTCAP) > 0))
    return layer_arg_error(c, SOFTCAP, "must be positive, found %g", layer_float(c, SOFTCAP));
  NnType queries = nn_value_type(operand[Q]), keys = nn_value_type(operand[K]);
  int heads = head_dim ? 2 : 1, tokens = head_dim ? 1 : 2;
  NnType all = nn_type(nn_dtype_wide(type), 4,
                       (int64_t[]){queries.dim[0], queries.dim[heads], queries.dim[tokens], keys.dim[tokens]});
  bool masks_pairs = layer_given(c, MASK) && nn_value_type(layer_tensor(c, MASK)).rank > 2;
  if (!make_bias(c, &all, masks_pairs, &bias)) return false;
  if (layer_given(c, MASK) && !masks_pairs) operand[n++] = as_bits(c, layer_tensor(c, MASK));
  if (!nn_value_is_null(bias)) operand[n++] = bias;
  bool drops = p > 0 && elaborator_training(c->e);
  if (drops) operand[n++] = elaborator_random_key(c->e);
  NnAttr attrs[6] = {NN_F64A("scale", scale), NN_BOOL("causal", layer_bool(c, CAUSAL)),
                     NN_F64A("dropout", drops ? p : 0), NN_STR("layout", head_dim ? "bthd" : "bhtd")};
  int n_attrs = 4;
  if (layer_given(c, WINDOW)) attrs[n_attrs++] = NN_I64("window", layer_int(c, WINDOW));
  if (layer_given(c, SOFTCAP)) attrs[n_attrs++] = NN_F64A("softcap", layer_float(c, SOFTCAP));
  MlirOperation op = layer_build(c, NN_OP_attention, n, operand, n_attrs, attrs, NULL);
  if (mlirOperationIsNull(op)) return false;
  return layer_return(result, nn_reshape(c->b, mlirOperationGetResult(op, 0), given.rank, given.dim));
}
