// Attention in the parts that ONNX has: products, a mask, a softmax.
#include <math.h>

#include "codegen/onnx/onnx.h"
#include "support/alloc.h"

// [B, H, T, D] of an operand.
static OnnxName heads_first(OnnxGraph *g, MlirOperation op, int i, const NnAttention *a) {
  OnnxName x = onnx_operand(g, op, i);
  return a->heads_last ? onnx_transpose(g, x, 4, (int64_t[]){0, 2, 1, 3}) : x;
}

// Heads of keys or values for each head of queries.
static OnnxName for_each_head(OnnxGraph *g, OnnxName x, const NnAttention *a) {
  int64_t times = a->heads / a->groups, each[] = {a->batch, a->groups, 1, a->n_keys, a->head_dim},
          all[] = {a->batch, a->groups, times, a->n_keys, a->head_dim};
  if (times == 1) return x;
  x = onnx_expand(g, onnx_reshape(g, x, 5, each), 5, all);
  return onnx_reshape(g, x, 4, (int64_t[]){a->batch, a->heads, a->n_keys, a->head_dim});
}

// Which keys [queries, keys] are seen by the causal rule and a window, one of which there is.
static OnnxName seen_keys(OnnxGraph *g, const NnAttention *a) {
  OnnxName query = onnx_range(g, NN_I64, a->n_keys - a->n_queries, a->n_queries),
           key = onnx_range(g, NN_I64, 0, a->n_keys);
  query = onnx_reshape(g, query, 2, (int64_t[]){a->n_queries, 1});
  OnnxName seen = a->causal ? onnx_binary(g, "LessOrEqual", key, query) : NULL;
  if (a->window <= 0) return seen;
  OnnxName distance = onnx_unary(g, "Abs", onnx_binary(g, "Sub", query, key)),
           near = onnx_binary(g, "Less", distance, onnx_number(g, NN_I64, (double)a->window));
  return seen ? onnx_binary(g, "And", seen, near) : near;
}

// Scores of keys that are not seen become -infinity.
static OnnxName hide(OnnxGraph *g, OnnxName scores, OnnxName seen, const NnAttention *a) {
  return onnx_node(g, "Where", 3, (OnnxName[]){seen, scores, onnx_number(g, a->dtype, -INFINITY)}, NULL);
}

// The softmax of the scores, and zeros where a query sees no key, of which Softmax makes NaN.
static OnnxName weights_of(OnnxGraph *g, OnnxName scores, const NnAttention *a) {
  Text attributes = {0};
  onnx_attribute_int(&attributes, "axis", -1);
  OnnxName weights = onnx_node(g, "Softmax", 1, &scores, &attributes);
  bool sees_itself = a->n_queries <= a->n_keys;   // whatever the causal rule and the window hide
  if (a->mask < 0 && a->bias < 0 && (sees_itself || (!a->causal && a->window <= 0))) return weights;
  OnnxName hidden = onnx_binary(g, "Equal", scores, onnx_number(g, a->dtype, -INFINITY));
  return onnx_node(g, "Where", 3, (OnnxName[]){hidden, onnx_number(g, a->dtype, 0), weights}, NULL);
}

OnnxName onnx_attention(OnnxGraph *g, MlirOperation op) {
  NnAttention a = nn_attention_of(op);
  require_promise(!a.joined, "attention after fuse");
  OnnxName q = heads_first(g, op, 0, &a), k = for_each_head(g, heads_first(g, op, 1, &a), &a),
           v = for_each_head(g, heads_first(g, op, 2, &a), &a);
  OnnxName scores = onnx_binary(g, "MatMul", q, onnx_transpose(g, k, 4, (int64_t[]){0, 1, 3, 2}));
  scores = onnx_binary(g, "Mul", scores, onnx_number(g, a.dtype, a.scale));
  if (a.softcap > 0) {
    OnnxName cap = onnx_number(g, a.dtype, a.softcap);
    scores = onnx_binary(g, "Mul", onnx_unary(g, "Tanh", onnx_binary(g, "Div", scores, cap)), cap);
  }
  if (a.bias >= 0) scores = onnx_binary(g, "Add", scores, onnx_operand(g, op, a.bias));
  if (a.causal || a.window > 0) scores = hide(g, scores, seen_keys(g, &a), &a);
  if (a.mask >= 0)
    scores = hide(g, scores, onnx_reshape(g, onnx_operand(g, op, a.mask), 4, (int64_t[]){a.batch, 1, 1, a.n_keys}), &a);
  OnnxName o = onnx_binary(g, "MatMul", weights_of(g, scores, &a), v);
  return a.heads_last ? onnx_transpose(g, o, 4, (int64_t[]){0, 2, 1, 3}) : o;
}
