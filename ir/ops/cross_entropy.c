// Cross-entropy of integer labels: (logits[…, K], labels[…]) to (loss[…], log-sum-exp[…]). The log-sum-exp is a result
// so that the gradient can rebuild the softmax from the logits with one exponential. A label outside 0..K-1 (padding,
// by custom -100 or -1) counts for nothing. The pass `align` makes rows longer than there are classes: what lies behind
// those counts for nothing, either.
#include <math.h>

#include "ir/ops/ops.h"

bool nn_infer_cross_entropy(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  const NnType *logits = &c->operand[0], *labels = &c->operand[1];
  if (!nn_need_float(c, 0) || !nn_need_min_rank(c, 0, 1)) return false;
  if (labels->dtype != NN_I32 && labels->dtype != NN_I64)
    return nn_fail(c, "labels must be i32 or i64, found %s", nn_text(labels).text);
  NnType row = *logits;
  row.rank--;
  if (!nn_shape_equal(&row, labels))
    return nn_fail(c, "labels must have the shape of the logits without the last axis: logits %s, labels %s",
                   nn_text(logits).text, nn_text(labels).text);
  int64_t columns = logits->dim[row.rank], classes = nn_call_i64(c, "classes", columns);
  if (classes < 1 || classes > columns)
    return nn_fail(c, "classes must be 1 to %lld, found %lld", (long long)columns, (long long)classes);
  result[0] = result[1] = row;
  return true;
}

static int64_t classes_of(MlirOperation op) {
  NnType t = nn_operand_type(op, 0);
  return nn_attr_i64(op, "classes", t.dim[t.rank - 1]);
}

// v where the column is a class, else `otherwise`.
static MlirValue in_classes(NnBuilder *b, MlirOperation op, MlirValue v, double otherwise) {
  NnType t = nn_value_type(v);
  int64_t classes = classes_of(op);
  if (classes == t.dim[t.rank - 1]) return v;
  t.dtype = NN_I32;
  MlirValue iota = nn_iota(b, t, t.rank - 1);
  return nn_select(b, nn_compare(b, "lt", iota, nn_constant_like(b, iota, (double)classes)), v,
                   nn_constant_like(b, v, otherwise));
}

// True where the class index along the last axis equals the label.
static MlirValue at_label(NnBuilder *b, MlirValue logits, MlirValue labels) {
  NnType classes = nn_value_type(logits);
  classes.dtype = nn_value_dtype(labels);
  MlirValue iota = nn_iota(b, classes, classes.rank - 1);
  return nn_compare(b, "eq", iota, nn_along_rows(b, labels, iota));
}

// v where the label is one of the classes, else 0.
static MlirValue where_labelled(NnBuilder *b, int64_t classes, MlirValue labels, MlirValue v) {
  MlirValue low = nn_compare(b, "ge", labels, nn_constant_like(b, labels, 0)),
            high = nn_compare(b, "lt", labels, nn_constant_like(b, labels, (double)classes));
  return nn_select(b, nn_binary(b, NN_OP_and, low, high), v, nn_zeros_like(b, v));
}

void nn_expand_cross_entropy(NnBuilder *b, MlirOperation op, MlirValue *results) {
  MlirValue logits = mlirOperationGetOperand(op, 0), labels = mlirOperationGetOperand(op, 1);
  int64_t last = nn_value_type(logits).rank - 1;
  MlirValue scores = in_classes(b, op, logits, -INFINITY), max = nn_reduce(b, NN_OP_reduce_max, scores, 1, &last);
  MlirValue e = nn_unary(b, NN_OP_exp, nn_binary(b, NN_OP_sub, scores, nn_along_rows(b, max, logits)));
  MlirValue lse = nn_binary(b, NN_OP_add, nn_unary(b, NN_OP_log, nn_sum_last(b, e)), max);
  MlirValue picked = nn_sum_last(b, nn_select(b, at_label(b, logits, labels), logits, nn_zeros_like(b, logits)));
  results[0] = where_labelled(b, classes_of(op), labels, nn_binary(b, NN_OP_sub, lse, picked));
  results[1] = lse;
}

// p = exp(logits - lse); dlogits = p (g + h) - [label] g, with g the cotangent of the loss (0 for no label) and h that
// of the log-sum-exp.
void nn_vjp_cross_entropy(NnVjp *v) {
  MlirValue g = v->cotangent[0], h = v->cotangent[1], logits = v->operand[0], labels = v->operand[1];
  if (!v->needed[0] || (nn_value_is_null(g) && nn_value_is_null(h))) return;
  NnBuilder *b = v->b;
  MlirValue p = in_classes(b, v->op,
                           nn_unary(b, NN_OP_exp,
                                    nn_binary(b, NN_OP_sub, logits, nn_along_rows(b, v->result[1], logits))),
                           0);
  if (nn_value_is_null(g)) {
    v->operand_cotangent[0] = nn_binary(b, NN_OP_mul, p, nn_along_rows(b, h, logits));
    return;
  }
  MlirValue hit = at_label(b, logits, labels);
  g = where_labelled(b, classes_of(v->op), labels, g);
  if (nn_value_is_null(h)) {
    MlirValue minus_one = nn_binary(b, NN_OP_sub, p, nn_constant_like(b, p, 1));
    v->operand_cotangent[0] = nn_binary(b, NN_OP_mul, nn_select(b, hit, minus_one, p), nn_along_rows(b, g, logits));
    return;
  }
  MlirValue spread = nn_binary(b, NN_OP_mul, p, nn_along_rows(b, nn_binary(b, NN_OP_add, g, h), logits));
  MlirValue taken = nn_select(b, hit, nn_along_rows(b, g, logits), nn_zeros_like(b, logits));
  v->operand_cotangent[0] = nn_binary(b, NN_OP_sub, spread, taken);
}

// As softmax, and the comparison and sum that pick the label's logit.
double nn_flops_cross_entropy(MlirOperation op) {
  NnType x = nn_operand_type(op, 0);
  return 6.0 * (double)nn_type_elements(&x);
}
