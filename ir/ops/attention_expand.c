// The gradient of attention in ops that can be differentiated again: the scores and their softmax are computed once
// more, as tensors, in the wide type. Made only where a gradient goes through attention_grad.
#include <math.h>

#include "ir/ops/ops.h"
#include "support/draws.h"

// [B, H, T, D] in the wide type; few heads are repeated for as many as the queries have.
static MlirValue heads_first(NnBuilder *b, const NnAttention *a, MlirValue x, bool repeat) {
  x = nn_cast(b, x, nn_dtype_wide(a->dtype));
  if (a->heads_last) x = nn_transpose(b, x, (int64_t[]){0, 2, 1, 3});
  if (!repeat || a->heads == a->groups) return x;
  NnType t = nn_value_type(x);
  int64_t dim[] = {a->batch, a->groups, a->heads / a->groups, t.dim[2], t.dim[3]};
  NnType all = nn_type(t.dtype, 5, dim);
  x = nn_broadcast(b, x, all, (int64_t[]){0, 1, 3, 4});
  return nn_reshape(b, x, 4, (int64_t[]){a->batch, a->heads, t.dim[2], t.dim[3]});
}

// Back to the op's layout and type; the shares of heads that were repeated are added up.
static MlirValue as_given(NnBuilder *b, const NnAttention *a, MlirValue x, bool repeated) {
  if (repeated && a->heads != a->groups) {
    NnType t = nn_value_type(x);
    int64_t dim[] = {a->batch, a->groups, a->heads / a->groups, t.dim[2], t.dim[3]}, axis = 2;
    x = nn_reduce(b, NN_OP_reduce_sum, nn_reshape(b, x, 5, dim), 1, &axis);
  }
  if (a->heads_last) x = nn_transpose(b, x, (int64_t[]){0, 2, 1, 3});
  return nn_cast(b, x, a->dtype);
}

// q, k or v of an attention or its gradient, heads first, those of keys and values for each head of queries.
static MlirValue operand_of(NnBuilder *b, const NnAttention *a, MlirOperation op, int operand) {
  MlirValue x = mlirOperationGetOperand(op, operand);
  if (a->joined) {
    NnType t = nn_value_type(x);
    t.dim[2] = operand == 0 ? a->heads : a->groups;
    x = nn_slice(b, x, (int64_t[]){0, 0, nn_attention_first_head(a, operand), 0}, t.dim, NULL);
  }
  return heads_first(b, a, x, operand > 0);
}

// i1 in the shape of the scores; null: all are seen.
static MlirValue seen(NnBuilder *b, const NnAttention *a, MlirOperation op, NnType scores) {
  MlirValue visible = nn_null_value();
  NnType index = scores, bits = scores;
  index.dtype = NN_I32;
  bits.dtype = NN_I1;
  if (a->causal) {
    MlirValue query = nn_iota(b, index, 2), key = nn_iota(b, index, 3);
    query = nn_binary(b, NN_OP_add, query, nn_constant_like(b, query, (double)(a->n_keys - a->n_queries)));
    visible = nn_compare(b, "le", key, query);
  }
  if (a->window > 0) {
    MlirValue away = nn_binary(b, NN_OP_sub, nn_iota(b, index, 2), nn_iota(b, index, 3));
    away = nn_binary(b, NN_OP_add, away, nn_constant_like(b, away, (double)(a->n_keys - a->n_queries)));
    MlirValue near = nn_compare(b, "lt", nn_unary(b, NN_OP_abs, away), nn_constant_like(b, away, (double)a->window));
    visible = nn_value_is_null(visible) ? near : nn_binary(b, NN_OP_and, visible, near);
  }
  if (a->mask < 0) return visible;
  MlirValue mask = nn_broadcast(b, mlirOperationGetOperand(op, a->mask), bits, (int64_t[]){0, 3});
  return nn_value_is_null(visible) ? mask : nn_binary(b, NN_OP_and, visible, mask);
}

// The scores' hyperbolic tangents, with softcap.
static MlirValue capped(NnBuilder *b, const NnAttention *a, MlirValue q, MlirValue k) {
  return nn_unary(b, NN_OP_tanh, nn_scale(b, nn_matmul(b, q, k, false, true), a->scale / a->softcap));
}

// The softmax of the scores; rows without a key that is seen are zeros.
static MlirValue weights_of(NnBuilder *b, const NnAttention *a, MlirOperation op, MlirValue q, MlirValue k) {
  const double hidden = -1e30;
  MlirValue scores = a->softcap > 0 ? nn_scale(b, capped(b, a, q, k), a->softcap)
                                    : nn_scale(b, nn_matmul(b, q, k, false, true), a->scale);
  MlirValue visible = seen(b, a, op, nn_value_type(scores));
  if (a->bias >= 0) {   // -infinity hides a key, too
    MlirValue bias = nn_broadcast(b, mlirOperationGetOperand(op, a->bias), nn_value_type(scores),
                                  (int64_t[]){0, 1, 2, 3});
    MlirValue shown = nn_compare(b, "gt", bias, nn_constant_like(b, bias, -INFINITY));
    visible = nn_value_is_null(visible) ? shown : nn_binary(b, NN_OP_and, visible, shown);
    scores = nn_binary(b, NN_OP_add, scores, bias);
  }
  if (nn_value_is_null(visible)) return nn_unary(b, NN_OP_softmax, scores);
  MlirValue p = nn_unary(b, NN_OP_softmax, nn_select(b, visible, scores, nn_constant_like(b, scores, hidden)));
  return nn_select(b, visible, p, nn_zeros_like(b, p));
}

// What dropout makes of x, with the draws of the op itself: those of rows whose length is a multiple of four, so that
// the words of a block of draws belong to neighbouring keys of one query.
static MlirValue dropped(NnBuilder *b, const NnAttention *a, MlirOperation op, MlirValue x) {
  if (a->key < 0) return x;
  MlirValue key = mlirOperationGetOperand(op, a->key);
  NnType type = nn_value_type(x), drawn = type;
  drawn.dim[3] = attention_row_draws(a->n_keys);
  MlirValue draw = mlirOperationGetResult(nn_build(b, NN_OP_random_uniform, 1, &key, 0, NULL, &drawn), 0);
  if (drawn.dim[3] > type.dim[3]) draw = nn_slice(b, draw, (const int64_t[4]){0}, type.dim, NULL);
  MlirValue kept = nn_compare(b, "ge", draw, nn_constant_like(b, x, a->dropout));
  return nn_select(b, kept, nn_scale(b, x, 1 / (1 - a->dropout)), nn_zeros_like(b, x));
}

// p = softmax(scale q k'), dp = do v', ds = p (dp - sum(dp p)): the gradient of what the softmax is taken of.
static MlirValue score_gradient(NnBuilder *b, const NnAttention *a, MlirOperation op, MlirValue p, MlirValue v,
                                MlirValue g) {
  MlirValue dp = dropped(b, a, op, nn_matmul(b, g, v, false, true));
  MlirValue sum = nn_along_rows(b, nn_sum_last(b, nn_binary(b, NN_OP_mul, dp, p)), dp);
  return nn_binary(b, NN_OP_mul, p, nn_binary(b, NN_OP_sub, dp, sum));
}

NnType nn_attention_scores(MlirOperation op) {
  NnAttention a = nn_attention_of(op);
  return nn_type(nn_dtype_wide(a.dtype), 4, (int64_t[]){a.batch, a.heads, a.n_queries, a.n_keys});
}

MlirValue nn_attention_bias_grad(NnBuilder *b, MlirOperation op, MlirValue dy) {
  NnAttention a = nn_attention_of(op);
  MlirValue q = operand_of(b, &a, op, 0), k = operand_of(b, &a, op, 1), v = operand_of(b, &a, op, 2),
            g = heads_first(b, &a, dy, false);
  MlirValue ds = score_gradient(b, &a, op, weights_of(b, &a, op, q, k), v, g);
  NnType bias = nn_operand_type(op, a.bias), all = nn_value_type(ds);
  int64_t axes[2];
  int n = 0;
  for (int i = 0; i < 2; i++)
    if (bias.dim[i] != all.dim[i]) axes[n++] = i;
  if (n > 0) ds = nn_reduce(b, NN_OP_reduce_sum, ds, n, axes);
  return nn_reshape(b, ds, 4, bias.dim);
}

// dq = scale ds k, dk = scale ds' q, dv = p' do; ds through softcap times 1 - tanh^2.
void nn_differentiable_attention_grad(NnBuilder *b, MlirOperation op, MlirValue *results) {
  enum { DO = 5 };
  NnAttention a = nn_attention_of(op);
  MlirValue q = operand_of(b, &a, op, 0), k = operand_of(b, &a, op, 1), v = operand_of(b, &a, op, 2),
            g = heads_first(b, &a, mlirOperationGetOperand(op, DO), false);
  MlirValue p = weights_of(b, &a, op, q, k), ds = nn_scale(b, score_gradient(b, &a, op, p, v, g), a.scale);
  if (a.softcap > 0) {
    MlirValue t = capped(b, &a, q, k);
    ds = nn_binary(b, NN_OP_mul, ds, nn_binary(b, NN_OP_sub, nn_constant_like(b, t, 1), nn_binary(b, NN_OP_mul, t, t)));
  }
  MlirValue d[3] = {as_given(b, &a, nn_matmul(b, ds, k, false, false), false),
                    as_given(b, &a, nn_matmul(b, ds, q, true, false), true),
                    as_given(b, &a, nn_matmul(b, dropped(b, &a, op, p), g, true, false), true)};
  for (int i = 0; i < 3; i++) {
    if (!a.packed) {
      results[i] = d[i];
      continue;
    }
    if (!a.heads_last) d[i] = nn_transpose(b, d[i], (int64_t[]){0, 2, 1, 3});
    d[i] = nn_reshape(b, d[i], 3, (int64_t[]){a.batch, a.n_queries, (i ? a.groups : a.heads) * a.head_dim});
  }
  if (a.packed) results[0] = nn_concat(b, 3, d, 2);
}
