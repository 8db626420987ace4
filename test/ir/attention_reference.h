// Attention by its definition, rows of weights as a whole: a part of reference.c.
#ifndef NNC_TEST_IR_ATTENTION_REFERENCE_H
#define NNC_TEST_IR_ATTENTION_REFERENCE_H

#include <math.h>
#include <stdlib.h>

#include "test/ir/draws_reference.h"
#include "test/ir/reference.h"

// Of [batch, head, token] in q, o or, with few heads, k, v.
static int64_t attention_row(const NnAttention *a, bool keys, int64_t batch, int64_t head, int64_t token) {
  int64_t tokens = keys ? a->n_keys : a->n_queries, heads = keys ? a->groups : a->heads;
  if (keys) head /= a->heads / a->groups;
  return (a->heads_last ? (batch * tokens + token) * heads + head : (batch * heads + head) * tokens + token) *
         a->head_dim;
}

// Of q (which 0), k (1) or v (2): in a tensor of its own, or in one of all heads of each token.
static const double *attention_operand(const NnAttention *a, const Tensor *const *x, int which, int64_t batch,
                                       int64_t head, int64_t token) {
  if (!a->joined) return x[which]->data + attention_row(a, which > 0, batch, head, token);
  int64_t first = which == 0 ? 0 : which == 1 ? a->heads : a->heads + a->groups;
  if (which > 0) head /= a->heads / a->groups;
  int64_t tokens = which == 0 ? a->n_queries : a->n_keys;
  return x[which]->data + ((batch * tokens + token) * (a->heads + 2 * a->groups) + first + head) * a->head_dim;
}

// Of the gradient of q (which 0), k (1) or v (2), in a tensor of its own or with the others'.
static double *attention_gradient(const NnAttention *a, Tensor *y, int which, int64_t batch, int64_t head,
                                  int64_t token) {
  if (!a->packed) return y[which].data + attention_row(a, which > 0, batch, head, token);
  int64_t first = which == 0 ? 0 : which == 1 ? a->heads : a->heads + a->groups;
  if (which > 0) head /= a->heads / a->groups;
  return y->data + ((batch * a->n_queries + token) * (a->heads + 2 * a->groups) + first + head) * a->head_dim;
}

static double dot(const double *x, const double *y, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
  return sum;
}

// 1/(1-p) where the draw keeps the weight of key j, else 0: random_uniform of f32 or f64 of this row of [B, H, T of q],
// as long as the keys are many, rounded up to a multiple of four.
static double attention_kept(const NnAttention *a, const Tensor *key, int64_t row, int64_t j) {
  double u = uniform(key->data, (uint64_t)(row * ((a->n_keys + 3) / 4 * 4) + j), a->dtype == NN_F64 ? NN_F64 : NN_F32);
  return u >= a->dropout ? 1 / (1 - a->dropout) : 0;
}

static bool attention_sees(const NnAttention *a, const Tensor *const *x, int64_t b, int64_t i, int64_t j) {
  int64_t away = i + a->n_keys - a->n_queries - j;
  return (!a->causal || away >= 0) && (!a->window || llabs(away) < a->window) &&
         (a->mask < 0 || x[a->mask]->data[b * a->n_keys + j] != 0);
}

// What is added to a score; the first two axes of the bias may be 1.
static double attention_bias(const NnAttention *a, const Tensor *bias, int64_t b, int64_t h, int64_t i, int64_t j) {
  int64_t batch = bias->type.dim[0] > 1 ? b : 0, head = bias->type.dim[1] > 1 ? h : 0;
  return bias->data[((batch * bias->type.dim[1] + head) * a->n_queries + i) * a->n_keys + j];
}

// Weights of one row of queries, before dropout, and its log-sum-exp. slope: of each score as it is capped.
static double attention_weights(const NnAttention *a, const Tensor *const *x, int64_t b, int64_t h, int64_t i,
                                double *p, double *slope) {
  double most = -INFINITY, sum = 0;
  for (int64_t j = 0; j < a->n_keys; j++) {
    double score = a->scale *
                   dot(attention_operand(a, x, 0, b, h, i), attention_operand(a, x, 1, b, h, j), a->head_dim);
    double capped = a->softcap > 0 ? tanh(score / a->softcap) : 0;
    slope[j] = 1 - capped * capped;
    if (a->softcap > 0) score = a->softcap * capped;
    if (a->bias >= 0) score += attention_bias(a, x[a->bias], b, h, i, j);
    p[j] = attention_sees(a, x, b, i, j) ? score : -INFINITY;
    most = fmax(most, p[j]);
  }
  for (int64_t j = 0; j < a->n_keys; j++) sum += p[j] = most == -INFINITY ? 0 : exp(p[j] - most);
  for (int64_t j = 0; j < a->n_keys; j++) p[j] /= sum > 0 ? sum : 1;
  return sum > 0 ? most + log(sum) : INFINITY;
}

static void attention(MlirOperation op, const Tensor *const *x, Tensor *y) {
  NnAttention a = nn_attention_of(op);
  double *p = calloc((size_t)a.n_keys, sizeof *p), *slope = calloc((size_t)a.n_keys, sizeof *slope);
  for (int64_t row = 0; row < a.batch * a.heads * a.n_queries; row++) {
    int64_t i = row % a.n_queries, h = row / a.n_queries % a.heads, b = row / a.n_queries / a.heads,
            at = attention_row(&a, false, b, h, i);
    double lse = attention_weights(&a, x, b, h, i, p, slope),
           dp_p = a.backward ? dot(x[5]->data + at, x[3]->data + at, a.head_dim) : 0;
    if (!a.backward) y[1].data[row] = lse;
    for (int64_t j = 0; j < a.n_keys; j++) {
      double kept = a.key < 0 ? 1 : attention_kept(&a, x[a.key], row, j);
      double *to = a.backward ? attention_gradient(&a, y, 2, b, h, j) : y[0].data + at;
      const double *values = a.backward ? x[5]->data + at : attention_operand(&a, x, 2, b, h, j);
      for (int64_t d = 0; d < a.head_dim; d++) to[d] += p[j] * kept * values[d];
    }
    for (int64_t j = 0; j < a.n_keys && a.backward; j++) {
      const double *q = attention_operand(&a, x, 0, b, h, i), *k = attention_operand(&a, x, 1, b, h, j),
                   *v = attention_operand(&a, x, 2, b, h, j);
      double kept = a.key < 0 ? 1 : attention_kept(&a, x[a.key], row, j);
      double ds = a.scale * slope[j] * p[j] * (kept * dot(x[5]->data + at, v, a.head_dim) - dp_p);
      double *dq = attention_gradient(&a, y, 0, b, h, i), *dk = attention_gradient(&a, y, 1, b, h, j);
      for (int64_t d = 0; d < a.head_dim; d++) {
        dq[d] += ds * k[d];
        dk[d] += ds * q[d];
      }
    }
  }
  free(p);
  free(slope);
}

#endif
