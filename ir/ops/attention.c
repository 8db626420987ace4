// Attention: softmax(scale q k' + mask) v as one op, so that no target stores the scores. The gradient computes them
// again from q, k and each row's log-sum-exp (Dao et al., "FlashAttention", 2022; Dao, "FlashAttention-2", 2023). The
// log-sum-exp is a result for that alone and counts as a constant to differentiation.
#include <string.h>

#include "ir/ops/ops.h"

enum { FORWARD = 3, BACKWARD = 6 };   // operands before the optional ones: q, k, v; q, k, v, o, lse, do

// From operand types alone, without attributes but the layout and the heads of q where q, k and v are joined (0: they
// are not); false: operands behind the n_needed first that are neither mask, bias nor key.
static bool nn_attention_read(int n, const NnType *operand, int n_needed, bool heads_last, int64_t joined,
                              NnAttention *out) {
  int heads = heads_last ? 2 : 1, tokens = heads_last ? 1 : 2;
  const NnType *q = &operand[0], *k = &operand[1];
  *out = (NnAttention){.batch = q->dim[0],
                       .heads = joined ? joined : q->dim[heads],
                       .groups = joined ? (k->dim[heads] - joined) / 2 : k->dim[heads],
                       .joined = joined != 0,
                       .n_queries = q->dim[tokens],
                       .n_keys = k->dim[tokens],
                       .head_dim = q->dim[3],
                       .dtype = q->dtype,
                       .heads_last = heads_last,
                       .mask = -1,
                       .bias = -1,
                       .key = -1};
  int at = n_needed;
  if (at < n && operand[at].dtype == NN_I1) out->mask = at++;
  if (at < n && nn_dtype_is_float(operand[at].dtype)) out->bias = at++;
  if (at < n && operand[at].dtype == NN_I32) out->key = at++;
  return at == n;
}

NnAttention nn_attention_of(MlirOperation op) {
  NnType operand[NN_MAX_OPERANDS];
  int n = (int)mlirOperationGetNumOperands(op);
  for (int i = 0; i < n; i++) operand[i] = nn_operand_type(op, i);
  NnAttention a;
  char layout[8];
  bool packed = nn_op_of(op) == NN_OP_attention_grad_packed, backward = packed || nn_op_of(op) == NN_OP_attention_grad;
  nn_attention_read(n, operand, backward ? BACKWARD : FORWARD,
                    !strcmp(nn_attr_str(op, "layout", layout, sizeof layout, "bhtd"), "bthd"),
                    nn_attr_i64(op, "heads", 0), &a);
  a.backward = backward;
  a.packed = packed;
  a.causal = nn_attr_bool(op, "causal", false);
  a.scale = nn_attr_f64(op, "scale", 1);
  a.dropout = nn_attr_f64(op, "dropout", 0);
  a.window = nn_attr_i64(op, "window", 0);
  a.softcap = nn_attr_f64(op, "softcap", 0);
  return a;
}

int64_t nn_attention_first_head(const NnAttention *a, int operand) {
  return operand == 0 ? 0 : operand == 1 ? a->heads : a->heads + a->groups;
}

// What all three ops check: q, k, v, what is optional, attributes.
static bool check(NnOpCall *c, int n_needed, NnAttention *a) {
  char text[8];
  const char *layout = nn_call_str(c, "layout", text, sizeof text, "bhtd");
  if (strcmp(layout, "bhtd") && strcmp(layout, "bthd"))
    return nn_fail(c, "layout must be bhtd or bthd, found '%s'", layout);
  if (c->n_operands < n_needed) return nn_fail(c, "takes at least %d operands, found %d", n_needed, c->n_operands);
  for (int i = 0; i < 3; i++)
    if (!nn_need_float(c, i) || !nn_need_rank(c, i, 4) || !nn_need_same_dtype(c, 0, i)) return false;
  const NnType *q = &c->operand[0], *k = &c->operand[1], *v = &c->operand[2];
  int64_t joined = nn_call_i64(c, "heads", 0);
  if (joined && strcmp(layout, "bthd")) return nn_fail(c, "heads goes with layout bthd, found %s", layout);
  if (joined < 0 || (joined && (joined > q->dim[2] - 2 || (q->dim[2] - joined) % 2 || !nn_type_equal(q, k))))
    return nn_fail(c, "%lld heads of queries are no part of q %s and k %s, which have those of keys and values, too",
                   (long long)joined, nn_text(q).text, nn_text(k).text);
  bool complete = nn_attention_read(c->n_operands, c->operand, n_needed, !strcmp(layout, "bthd"), joined, a);
  if (!nn_type_equal(k, v)) return nn_fail(c, "keys and values differ: k %s, v %s", nn_text(k).text, nn_text(v).text);
  if (q->dim[0] != k->dim[0] || q->dim[3] != k->dim[3])
    return nn_fail(c, "queries and keys differ in batch or head dimension: q %s, k %s", nn_text(q).text,
                   nn_text(k).text);
  if (a->heads % a->groups)
    return nn_fail(c, "%lld heads of keys and values do not divide the %lld heads of queries", (long long)a->groups,
                   (long long)a->heads);
  if (!complete)
    return nn_fail(c, "after operand %d come a mask of i1, a bias of floats and a key of i32, all optional",
                   n_needed - 1);
  NnType mask = {.dtype = NN_I1, .rank = 2, .dim = {a->batch, a->n_keys}},
         key = {.dtype = NN_I32, .rank = 1, .dim = {4}};
  if (a->mask >= 0 && !nn_type_equal(&c->operand[a->mask], &mask))
    return nn_fail(c, "the mask must be %s for keys %s, found %s", nn_text(&mask).text, nn_text(k).text,
                   nn_text(&c->operand[a->mask]).text);
  if (a->key >= 0 && !nn_type_equal(&c->operand[a->key], &key))
    return nn_fail(c, "the key must be %s, found %s", nn_text(&key).text, nn_text(&c->operand[a->key]).text);
  if (a->bias >= 0) {
    const NnType *bias = &c->operand[a->bias];
    bool fits = bias->dtype == nn_dtype_wide(a->dtype) && bias->rank == 4 &&
                (bias->dim[0] == 1 || bias->dim[0] == a->batch) && (bias->dim[1] == 1 || bias->dim[1] == a->heads) &&
                bias->dim[2] == a->n_queries && bias->dim[3] == a->n_keys;
    if (!fits)
      return nn_fail(c, "the bias must be %s[1 or %lld, 1 or %lld, %lld, %lld], found %s",
                     nn_dtype_name(nn_dtype_wide(a->dtype)), (long long)a->batch, (long long)a->heads,
                     (long long)a->n_queries, (long long)a->n_keys, nn_text(bias).text);
  }
  if (nn_call_i64(c, "window", 0) < 0 || !(nn_call_f64(c, "softcap", 0) >= 0))
    return nn_fail(c, "window and softcap must not be negative");
  double p = nn_call_f64(c, "dropout", 0);
  if (!(p >= 0 && p < 1)) return nn_fail(c, "dropout must be at least 0 and below 1, found %g", p);
  return (p > 0) == (a->key >= 0) || nn_fail(c, "dropout and a key go together");
}

// q, k or v alone.
static NnType type_alone(const NnOpCall *c, const NnAttention *a, int operand) {
  NnType t = c->operand[operand];
  if (a->joined) t.dim[2] = operand == 0 ? a->heads : a->groups;
  return t;
}

// Statistics and sums are of the wide type.
static NnType statistics_type(const NnAttention *a) {
  return (NnType){.dtype = nn_dtype_wide(a->dtype), .rank = 3, .dim = {a->batch, a->heads, a->n_queries}};
}

bool nn_infer_attention(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  NnAttention a;
  if (!check(c, FORWARD, &a)) return false;
  result[0] = type_alone(c, &a, 0);
  result[1] = statistics_type(&a);
  return true;
}

static bool check_grad(NnOpCall *c, NnAttention *a) {
  if (!check(c, BACKWARD, a)) return false;
  NnType statistics = statistics_type(a), o = type_alone(c, a, 0);
  for (int i = 3; i < BACKWARD; i++) {
    const NnType *wanted = i == 4 ? &statistics : &o;
    if (!nn_type_equal(&c->operand[i], wanted))
      return nn_fail(c, "operand %d must be %s, found %s", i, nn_text(wanted).text, nn_text(&c->operand[i]).text);
  }
  return true;
}

bool nn_infer_attention_grad(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  NnAttention a;
  if (!check_grad(c, &a)) return false;
  for (int i = 0; i < 3; i++) result[i] = type_alone(c, &a, i);
  return true;
}

bool nn_infer_attention_grad_packed(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  NnAttention a;
  if (!check_grad(c, &a)) return false;
  if (a.n_queries != a.n_keys)
    return nn_fail(c, "%lld queries and %lld keys: their gradients have no common rows", (long long)a.n_queries,
                   (long long)a.n_keys);
  result[0] = (NnType){.dtype = a.dtype,
                       .rank = 3,
                       .dim = {a.batch, a.n_queries, (a.heads + 2 * a.groups) * a.head_dim}};
  return true;
}

// The gradient of operand 0, 1 or 2 from that of q, k or v alone.
static MlirValue gradient_of_operand(NnVjp *v, const NnAttention *a, int operand, MlirValue d) {
  if (!a->joined) return d;
  int64_t low[4] = {0}, high[4] = {0}, none[4] = {0}, heads = operand == 0 ? a->heads : a->groups;
  low[2] = nn_attention_first_head(a, operand);
  high[2] = a->heads + 2 * a->groups - low[2] - heads;
  return nn_pad(v->b, d, low, high, none, 0);
}

void nn_vjp_attention(NnVjp *v) {
  if (nn_value_is_null(v->cotangent[0])) return;
  MlirValue operand[NN_MAX_OPERANDS] = {v->operand[0], v->operand[1], v->operand[2],
                                        v->result[0],  v->result[1],  v->cotangent[0]};
  for (int i = FORWARD; i < v->n_operands; i++) operand[BACKWARD - FORWARD + i] = v->operand[i];
  MlirValue dq = nn_build_like(v->b, NN_OP_attention_grad, v->op, BACKWARD - FORWARD + v->n_operands, operand, NULL);
  NnAttention a = nn_attention_of(v->op);
  for (int i = 0; i < 3; i++)
    if (v->needed[i])
      v->operand_cotangent[i] = gradient_of_operand(v, &a, i, mlirOperationGetResult(nn_value_def(dq), i));
  if (a.bias >= 0 && v->needed[a.bias]) v->operand_cotangent[a.bias] = nn_attention_bias_grad(v->b, v->op, operand[5]);
}

double nn_attention_pairs(const NnAttention *a) {
  double pairs = (double)a->n_queries * (double)a->n_keys;
  if (a->causal) {
    // Query i sees keys 0 .. i + n_keys - n_queries: the last min(n_queries, n_keys) queries see 1, 2, ... keys more
    // than those that see none.
    double rows = (double)(a->n_queries < a->n_keys ? a->n_queries : a->n_keys), most = (double)a->n_keys;
    pairs = rows * (most + most - rows + 1) / 2;
  }
  if (a->window > 0) {
    double near = (double)a->n_queries * (double)a->window * (a->causal ? 1 : 2);
    if (near < pairs) pairs = near;
  }
  return pairs * (double)a->batch * (double)a->heads;
}

// Two products per pair of query and key, and of the softmax maximum, difference, exponential, sum and scale.
double nn_flops_attention(MlirOperation op) {
  NnAttention a = nn_attention_of(op);
  return nn_attention_pairs(&a) * (4.0 * (double)a.head_dim + 5);
}

// Five products, the scores among them once more; exponential, difference, two products of elements.
double nn_flops_attention_grad(MlirOperation op) {
  NnAttention a = nn_attention_of(op);
  return nn_attention_pairs(&a) * (10.0 * (double)a.head_dim + 5);
}

double nn_flops_attention_grad_packed(MlirOperation op) { return nn_flops_attention_grad(op); }
