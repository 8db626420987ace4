// Maps: one result element from the operand elements at the same index. Gradients read the result where the derivative
// can be written in it (exp, sqrt, tanh, sigmoid, relu …), so that the operand need not be kept.
#include <math.h>
#include <string.h>

#include "ir/ops/ops.h"

// ---------------------------------------------------------------------------------------------------------------------
// Shape rules

static bool unary(NnOpCall *c, NnType *result) {
  *result = c->operand[0];
  return true;
}

static bool same_types(NnOpCall *c, int i, int j) {
  if (!nn_need_same_dtype(c, i, j)) return false;
  return nn_shape_equal(&c->operand[i], &c->operand[j]) ||
         nn_fail(c, "shapes differ: %s and %s", nn_text(&c->operand[i]).text, nn_text(&c->operand[j]).text);
}

static bool binary(NnOpCall *c, NnType *result) {
  *result = c->operand[0];
  return same_types(c, 0, 1);
}

#define INFER(op, rule)                                            \
  bool nn_infer_##op(NnOpCall *c, int n_results, NnType *result) { \
    (void)n_results;                                               \
    return rule;                                                   \
  }

INFER(neg, nn_need_number(c, 0) && unary(c, result))
INFER(abs, nn_need_number(c, 0) && unary(c, result))
INFER(sign, nn_need_number(c, 0) && unary(c, result))
INFER(relu, nn_need_number(c, 0) && unary(c, result))
INFER(floor, nn_need_number(c, 0) && unary(c, result))
INFER(exp, nn_need_float(c, 0) && unary(c, result))
INFER(log, nn_need_float(c, 0) && unary(c, result))
INFER(sqrt, nn_need_float(c, 0) && unary(c, result))
INFER(rsqrt, nn_need_float(c, 0) && unary(c, result))
INFER(recip, nn_need_float(c, 0) && unary(c, result))
INFER(sin, nn_need_float(c, 0) && unary(c, result))
INFER(cos, nn_need_float(c, 0) && unary(c, result))
INFER(tanh, nn_need_float(c, 0) && unary(c, result))
INFER(erf, nn_need_float(c, 0) && unary(c, result))
INFER(sigmoid, nn_need_float(c, 0) && unary(c, result))
INFER(not, nn_need_bool(c, 0) && unary(c, result))
INFER(add, nn_need_number(c, 0) && binary(c, result))
INFER(sub, nn_need_number(c, 0) && binary(c, result))
INFER(mul, nn_need_number(c, 0) && binary(c, result))
INFER(div, nn_need_number(c, 0) && binary(c, result))
INFER(pow, nn_need_number(c, 0) && binary(c, result))
INFER(max, nn_need_number(c, 0) && binary(c, result))
INFER(min, nn_need_number(c, 0) && binary(c, result))
INFER(and, nn_need_bool(c, 0) && binary(c, result))
INFER(or, nn_need_bool(c, 0) && binary(c, result))

bool nn_infer_compare(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  static const char *const known[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  char text[16];
  const char *predicate = nn_call_str(c, "predicate", text, sizeof text, "");
  bool found = false;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) found |= !strcmp(predicate, known[i]);
  if (!found) return nn_fail(c, "predicate must be eq, ne, lt, le, gt or ge, found '%s'", predicate);
  if (!binary(c, result)) return false;
  result->dtype = NN_I1;
  return true;
}

bool nn_infer_select(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  *result = c->operand[1];
  if (!nn_need_bool(c, 0) || !same_types(c, 1, 2)) return false;
  return nn_shape_equal(&c->operand[0], &c->operand[1]) ||
         nn_fail(c, "the condition %s and the values %s differ in shape", nn_text(&c->operand[0]).text,
                 nn_text(&c->operand[1]).text);
}

bool nn_infer_cast(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  if (!nn_need_asked(c, result)) return false;
  return nn_shape_equal(&c->operand[0], result) || nn_fail(c, "changes the element type only, but goes from %s to %s",
                                                           nn_text(&c->operand[0]).text, nn_text(result).text);
}

// ---------------------------------------------------------------------------------------------------------------------
// Gradient rules of one operand. x operand, y result, g cotangent of y.

#define ADD(p, q) nn_binary(b, NN_OP_add, p, q)
#define SUB(p, q) nn_binary(b, NN_OP_sub, p, q)
#define MUL(p, q) nn_binary(b, NN_OP_mul, p, q)
#define DIV(p, q) nn_binary(b, NN_OP_div, p, q)
#define CONSTANT(value) nn_constant_like(b, g, value)

#define UNARY_VJP(op, formula)                                                   \
  void nn_vjp_##op(NnVjp *v) {                                                   \
    NnBuilder *b = v->b;                                                         \
    MlirValue x = v->operand[0], y = v->result[0], g = v->cotangent[0];          \
    (void)x, (void)y;                                                            \
    if (v->needed[0] && !nn_value_is_null(g)) v->operand_cotangent[0] = formula; \
  }

UNARY_VJP(neg, nn_unary(b, NN_OP_neg, g))
UNARY_VJP(abs, MUL(g, nn_unary(b, NN_OP_sign, x)))
UNARY_VJP(exp, MUL(g, y))
UNARY_VJP(log, DIV(g, x))
UNARY_VJP(sqrt, DIV(nn_scale(b, g, 0.5), y))
UNARY_VJP(rsqrt, MUL(nn_scale(b, g, -0.5), MUL(MUL(y, y), y)))   // -x^(-3/2)/2 = -y^3/2
UNARY_VJP(recip, nn_unary(b, NN_OP_neg, MUL(g, MUL(y, y))))
UNARY_VJP(sin, MUL(g, nn_unary(b, NN_OP_cos, x)))
UNARY_VJP(cos, nn_unary(b, NN_OP_neg, MUL(g, nn_unary(b, NN_OP_sin, x))))
UNARY_VJP(tanh, MUL(g, SUB(CONSTANT(1), MUL(y, y))))
UNARY_VJP(erf, MUL(nn_scale(b, g, M_2_SQRTPI), nn_unary(b, NN_OP_exp, nn_unary(b, NN_OP_neg, MUL(x, x)))))
UNARY_VJP(sigmoid, MUL(g, MUL(y, SUB(CONSTANT(1), y))))
UNARY_VJP(relu, nn_select(b, nn_compare(b, "le", y, CONSTANT(0)), CONSTANT(0), g))   // 0 at 0

void nn_vjp_cast(NnVjp *v) {
  NnType from = nn_value_type(v->operand[0]), to = nn_value_type(v->result[0]);
  if (!v->needed[0] || nn_value_is_null(v->cotangent[0]) || !nn_dtype_is_float(from.dtype) ||
      !nn_dtype_is_float(to.dtype))
    return;
  v->operand_cotangent[0] = nn_cast(v->b, v->cotangent[0], from.dtype);
}

// ---------------------------------------------------------------------------------------------------------------------
// Gradient rules of two or three operands

#define VJP_BEGIN                \
  NnBuilder *b = v->b;           \
  MlirValue g = v->cotangent[0]; \
  if (nn_value_is_null(g)) return;

void nn_vjp_add(NnVjp *v) {
  MlirValue g = v->cotangent[0];
  for (int i = 0; i < 2; i++)
    if (v->needed[i]) v->operand_cotangent[i] = g;
}

void nn_vjp_sub(NnVjp *v) {
  VJP_BEGIN
  if (v->needed[0]) v->operand_cotangent[0] = g;
  if (v->needed[1]) v->operand_cotangent[1] = nn_unary(b, NN_OP_neg, g);
}

void nn_vjp_mul(NnVjp *v) {
  VJP_BEGIN
  if (v->needed[0]) v->operand_cotangent[0] = MUL(g, v->operand[1]);
  if (v->needed[1]) v->operand_cotangent[1] = MUL(g, v->operand[0]);
}

// d(x/d) = 1/d and -x/d² = -(x/d)/d: the result stands in for x.
void nn_vjp_div(NnVjp *v) {
  VJP_BEGIN
  MlirValue quotient = DIV(g, v->operand[1]);
  if (v->needed[0]) v->operand_cotangent[0] = quotient;
  if (v->needed[1]) v->operand_cotangent[1] = nn_unary(b, NN_OP_neg, MUL(quotient, v->result[0]));
}

// p x^(p-1), which is 0 for p = 0 even at x = 0.
static MlirValue pow_base_gradient(NnVjp *v, MlirValue g) {
  NnBuilder *b = v->b;
  MlirValue x = v->operand[0], p = v->operand[1];
  double exponent;
  if (!nn_splat_value(p, &exponent)) {
    MlirValue zero = CONSTANT(0);
    MlirValue slope = MUL(p, nn_binary(b, NN_OP_pow, x, SUB(p, CONSTANT(1))));
    return MUL(g, nn_select(b, nn_compare(b, "eq", p, zero), zero, slope));
  }
  if (exponent == 0) return nn_null_value();
  if (exponent == 1) return g;
  MlirValue power = exponent == 2 ? x : nn_binary(b, NN_OP_pow, x, CONSTANT(exponent - 1));
  return MUL(g, nn_scale(b, power, exponent));
}

// x^p log x, which is 0 at x = 0 where p is not negative.
static MlirValue pow_exponent_gradient(NnVjp *v, MlirValue g) {
  NnBuilder *b = v->b;
  MlirValue x = v->operand[0], p = v->operand[1], zero = CONSTANT(0);
  MlirValue vanishes = nn_binary(b, NN_OP_and, nn_compare(b, "eq", x, zero), nn_compare(b, "ge", p, zero));
  MlirValue log = nn_select(b, vanishes, zero, nn_unary(b, NN_OP_log, x));
  return MUL(g, MUL(v->result[0], log));
}

void nn_vjp_pow(NnVjp *v) {
  MlirValue g = v->cotangent[0];
  if (nn_value_is_null(g)) return;
  if (v->needed[0]) v->operand_cotangent[0] = pow_base_gradient(v, g);
  if (v->needed[1]) v->operand_cotangent[1] = pow_exponent_gradient(v, g);
}

// The winner takes the cotangent; equals take half of it each, and beside a NaN both take all.
static void extremum(NnVjp *v, const char *loses) {
  VJP_BEGIN
  if (!v->needed[0] && !v->needed[1]) return;
  MlirValue equal = nn_compare(b, "eq", v->operand[0], v->operand[1]), zero = CONSTANT(0);
  MlirValue won = nn_select(b, equal, nn_scale(b, g, 0.5), g);
  for (int i = 0; i < 2; i++) {
    if (!v->needed[i]) continue;
    MlirValue lost = nn_compare(b, loses, v->operand[i], v->operand[1 - i]);
    v->operand_cotangent[i] = nn_select(b, lost, zero, won);
  }
}

void nn_vjp_max(NnVjp *v) { extremum(v, "lt"); }
void nn_vjp_min(NnVjp *v) { extremum(v, "gt"); }

void nn_vjp_select(NnVjp *v) {
  VJP_BEGIN
  if (v->needed[1]) v->operand_cotangent[1] = nn_select(b, v->operand[0], g, CONSTANT(0));
  if (v->needed[2]) v->operand_cotangent[2] = nn_select(b, v->operand[0], CONSTANT(0), g);
}
