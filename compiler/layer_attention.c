// Attention as one layer: its arguments brought into the shape of the op, which never stores the scores.
#include "compiler/layer.h"

#include <math.h>

enum { Q, K, V, HEADS, CAUSAL, MASK, SCALE, DROPOUT };

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
  NnDtype type = nn_value_type(x[Q]).dtype;
  for (int i = K; i <= V; i++) {
    NnDtype other = nn_value_type(x[i]).dtype;
    if (other != type) type = type == NN_F64 || other == NN_F64 ? NN_F64 : NN_F32;
  }
  return type;
}

bool layer_attention(LayerCall *c, Value *result) {
  MlirValue operand[5];
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
  if (layer_given(c, MASK)) {
    MlirValue mask = layer_tensor(c, MASK);
    operand[n++] = nn_value_type(mask).dtype == NN_I1 ? mask
                                                      : nn_compare(c->b, "ne", mask, nn_constant_like(c->b, mask, 0));
  }
  bool drops = p > 0 && elaborator_training(c->e);
  if (drops) operand[n++] = elaborator_random_key(c->e);
  NnAttr attrs[] = {NN_F64A("scale", scale), NN_BOOL("causal", layer_bool(c, CAUSAL)),
                    NN_F64A("dropout", drops ? p : 0), NN_STR("layout", head_dim ? "bthd" : "bhtd")};
  MlirOperation op = layer_build(c, NN_OP_attention, n, operand, 4, attrs, NULL);
  if (mlirOperationIsNull(op)) return false;
  return layer_return(result, nn_reshape(c->b, mlirOperationGetResult(op, 0), given.rank, given.dim));
}
