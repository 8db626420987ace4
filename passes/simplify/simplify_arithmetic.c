// Rules of the pass simplify for maps: folding of constants (every element equal), neutral elements, inverses and
// chains. Forward order makes operands canonical first, so that each rule looks one op deep.
#include <math.h>
#include <string.h>

#include "passes/rewrite.h"
#include "passes/simplify/simplify.h"

bool simplify_is(MlirValue v, NnOp kind, MlirOperation *def) {
  MlirOperation op = nn_value_def(v);
  if (nn_op_of(op) != kind) return false;
  *def = op;
  return true;
}

bool simplify_is_constant(MlirValue v, double *value) {
  MlirOperation def;
  if (!simplify_is(v, NN_OP_constant, &def)) return false;
  *value = nn_fill_value(def);
  return true;
}

static MlirValue none(void) { return nn_null_value(); }

// ---------------------------------------------------------------------------------------------------------------------
// Constant folding, in the arithmetic of the element type

// v as an element of type `dtype`; false where it has no exact meaning (out of range, NaN), and the op is left to run.
static bool to_element(NnDtype dtype, double v, double *out) {
  if (isnan(v)) return false;
  *out = v;
  switch (dtype) {
  case NN_F64: return true;
  case NN_F32:
  case NN_BF16:
  case NN_F16: *out = nn_dtype_round(dtype, v); return true;
  case NN_I32: return v == trunc(v) && v >= INT32_MIN && v <= INT32_MAX;
  case NN_I64: return v == trunc(v) && fabs(v) < 0x1p53;   // what is rounded comes out at 2^53 or above
  case NN_U8: return v == trunc(v) && v >= 0 && v <= 255;
  case NN_I1: return v == 0 || v == 1;
  default: return false;
  }
}

// As kernels do it (codegen/kernel/expr.c): none hides a NaN, and -0 is less than 0.
static double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }

static double larger(double x, double y) {
  if (isnan(x) || isnan(y)) return NAN;
  return x > y || (x == y && !signbit(x)) ? x : y;
}

static bool evaluate_compare(MlirOperation op, double x, double y, double *out) {
  char text[8];
  const char *p = nn_attr_str(op, "predicate", text, sizeof text, "");
  if (!strcmp(p, "eq")) *out = x == y;
  else if (!strcmp(p, "ne")) *out = x != y;
  else if (!strcmp(p, "lt")) *out = x < y;
  else if (!strcmp(p, "le")) *out = x <= y;
  else if (!strcmp(p, "gt")) *out = x > y;
  else if (!strcmp(p, "ge")) *out = x >= y;
  else return false;
  return true;
}

static bool evaluate(MlirOperation op, const double *x, bool is_float, double *out) {
  switch (nn_op_of(op)) {
  case NN_OP_neg: *out = -x[0]; return true;
  case NN_OP_abs: *out = fabs(x[0]); return true;
  case NN_OP_sign: *out = sign_of(x[0]); return true;
  case NN_OP_exp: *out = exp(x[0]); return true;
  case NN_OP_log: *out = log(x[0]); return x[0] > 0;
  case NN_OP_sqrt: *out = sqrt(x[0]); return x[0] >= 0;
  case NN_OP_rsqrt: *out = 1 / sqrt(x[0]); return x[0] > 0;
  case NN_OP_recip: *out = 1 / x[0]; return x[0] != 0;
  case NN_OP_sin: *out = sin(x[0]); return true;
  case NN_OP_cos: *out = cos(x[0]); return true;
  case NN_OP_tanh: *out = tanh(x[0]); return true;
  case NN_OP_erf: *out = erf(x[0]); return true;
  case NN_OP_sigmoid: *out = 1 / (1 + exp(-x[0])); return true;
  case NN_OP_relu: *out = x[0] < 0 ? 0 : x[0]; return true;
  case NN_OP_floor: *out = floor(x[0]); return true;
  case NN_OP_not: *out = x[0] == 0; return true;
  case NN_OP_add: *out = x[0] + x[1]; return true;
  case NN_OP_sub: *out = x[0] - x[1]; return true;
  case NN_OP_mul: *out = x[0] * x[1]; return true;
  case NN_OP_div:
    *out = is_float ? x[0] / x[1] : floor(x[0] / x[1]);
    return x[1] != 0 && (is_float || fabs(x[0]) <= INT32_MAX);
  case NN_OP_pow: *out = pow(x[0], x[1]); return is_float;
  case NN_OP_max: *out = larger(x[0], x[1]); return true;
  case NN_OP_min: *out = -larger(-x[0], -x[1]); return true;
  case NN_OP_and: *out = x[0] != 0 && x[1] != 0; return true;
  case NN_OP_or: *out = x[0] != 0 || x[1] != 0; return true;
  case NN_OP_compare: return evaluate_compare(op, x[0], x[1], out);
  case NN_OP_cast: *out = x[0]; return true;
  default: return false;
  }
}

static MlirValue constant(MlirOperation op, double value) {
  NnBuilder b = rewrite_builder(op);
  return nn_constant(&b, nn_value_type(mlirOperationGetResult(op, 0)), value);
}

static MlirValue fold_constants(MlirOperation op) {
  double x[2], value;
  intptr_t n = mlirOperationGetNumOperands(op);
  if (n < 1 || n > 2) return none();
  for (intptr_t i = 0; i < n; i++)
    if (!simplify_is_constant(nn_operand(op, (int)i), &x[i])) return none();
  bool is_float = nn_dtype_is_float(nn_value_dtype(nn_operand(op, 0)));
  if (!evaluate(op, x, is_float, &value)) return none();
  NnDtype dtype = nn_value_dtype(mlirOperationGetResult(op, 0));
  if (nn_op_of(op) == NN_OP_cast && is_float && !nn_dtype_is_float(dtype) && dtype != NN_I1) value = trunc(value);
  return to_element(dtype, value, &value) ? constant(op, value) : none();
}

// ---------------------------------------------------------------------------------------------------------------------
// Rules per op; x and y are operands, of_x and of_y what computes them, c the constant value of y where has_c

typedef struct Rule {
  MlirOperation op;
  NnOp kind;
  MlirValue x, y;
  NnOp of_x, of_y;   // NN_OP_NONE: no op of the table
  bool has_c, is_float;
  double c;
} Rule;

static MlirValue rebuilt(const Rule *r, NnOp kind, MlirValue x, MlirValue y) {
  NnBuilder b = rewrite_builder(r->op);
  return nn_value_is_null(y) ? nn_unary(&b, kind, x) : nn_binary(&b, kind, x, y);
}

static MlirValue negated(MlirValue v, NnOp of_v) { return of_v == NN_OP_neg ? nn_operand(nn_value_def(v), 0) : none(); }

// Rows scattered into a table of zeros and that added to another table: the rows go to the other table itself. The
// gradient of an embedding that is also the last layer is such a sum, and both tables are among the largest values of
// the step.
static MlirValue scattered_to(const Rule *r, MlirValue scattered, MlirValue table) {
  MlirOperation def;
  if (!simplify_is(scattered, NN_OP_scatter_add, &def)) return none();
  if (!mlirOpOperandIsNull(mlirOpOperandGetNextUse(mlirValueGetFirstUse(scattered)))) return none();
  NnBuilder b = rewrite_builder(r->op);
  MlirOperation op = nn_build(&b, NN_OP_scatter_add_to, 3, (MlirValue[]){nn_operand(def, 0), nn_operand(def, 1), table},
                              0, NULL, NULL);
  return mlirOperationGetResult(op, 0);
}

static bool is_product_of_rows(NnOp op) { return op == NN_OP_matmul_rows || op == NN_OP_matmul_rows_to; }

// The sum of two gradients of a weight, each used once: the product adds to what the other one left.
static MlirValue product_added_to(const Rule *r, MlirValue product, MlirValue sum) {
  MlirOperation def;
  if (!simplify_is(product, NN_OP_matmul_rows, &def) || !rewrite_has_one_use(product) || !rewrite_has_one_use(sum))
    return none();
  if (nn_dtype_is_narrow(nn_value_dtype(sum))) return none();
  NnBuilder b = rewrite_builder(r->op);
  return mlirOperationGetResult(nn_build(&b, NN_OP_matmul_rows_to, 3,
                                         (MlirValue[]){nn_operand(def, 0), nn_operand(def, 1), sum}, 0, NULL, NULL),
                                0);
}

typedef struct Padding {
  int64_t low[NN_MAX_RANK], high[NN_MAX_RANK], interior[NN_MAX_RANK];
} Padding;

// v is x with zeros around it along one axis, and serves nothing else; gives x and the axis.
static bool is_padded(MlirValue v, MlirValue *x, int64_t *axis, Padding *p) {
  MlirOperation def;
  int axes = 0;
  if (!simplify_is(v, NN_OP_pad, &def) || nn_fill_value(def) != 0 ||
      !mlirOpOperandIsNull(mlirOpOperandGetNextUse(mlirValueGetFirstUse(v))))
    return false;
  *x = nn_operand(def, 0);
  int rank = nn_attr_i64s(def, "low", p->low, NN_MAX_RANK);
  nn_attr_i64s(def, "high", p->high, NN_MAX_RANK);
  nn_attr_i64s(def, "interior", p->interior, NN_MAX_RANK);
  for (int i = 0; i < rank; i++) {
    if (p->interior[i]) return false;
    if (p->low[i] || p->high[i]) *axis = i, axes++;
  }
  return axes == 1;
}

// The parts of v along an axis, into `parts`: those of a concatenation along it that serves nothing else, else v
// itself. Returns how many.
static int parts_along(MlirValue v, int64_t axis, int most, MlirValue *parts) {
  MlirOperation def;
  bool whole = !simplify_is(v, NN_OP_concat, &def) || nn_attr_i64(def, "axis", 0) != axis ||
               mlirOperationGetNumOperands(def) > most ||
               !mlirOpOperandIsNull(mlirOpOperandGetNextUse(mlirValueGetFirstUse(v)));
  int n = whole ? 1 : (int)mlirOperationGetNumOperands(def);
  for (int i = 0; i < n; i++) parts[i] = whole ? v : nn_operand(def, i);
  return n;
}

// Two neighbours along an axis, each among zeros, added: their concatenation, among the zeros that remain. The gradient
// of a value that was taken apart in slices is such a sum: the queries, keys and values of attention.
static MlirValue joined(const Rule *r, MlirValue left, MlirValue right) {
  enum { MOST = 8 };
  MlirValue x, y, parts[2 * MOST];
  int64_t axis = 0, other = 0;
  Padding p, q;
  if (!is_padded(left, &x, &axis, &p) || !is_padded(right, &y, &other, &q) || axis != other) return none();
  NnType xt = nn_value_type(x);
  if (q.low[axis] != p.low[axis] + xt.dim[axis]) return none();
  NnBuilder b = rewrite_builder(r->op);
  int n = parts_along(x, axis, MOST, parts);
  n += parts_along(y, axis, MOST, parts + n);
  return nn_pad(&b, nn_concat(&b, n, parts, axis), p.low, q.high, p.interior, 0);
}

// Of one order of the operands of a sum.
static MlirValue added_to(const Rule *r, MlirValue x, MlirValue y, NnOp of_x, NnOp of_y) {
  if (of_x == NN_OP_pad && of_y == NN_OP_pad) return joined(r, x, y);
  if (of_x == NN_OP_scatter_add) return scattered_to(r, x, y);
  return is_product_of_rows(of_x) && is_product_of_rows(of_y) ? product_added_to(r, y, x) : none();
}

static MlirValue rule_add(const Rule *r) {
  if (r->has_c && r->c == 0) return r->x;
  MlirValue sum = added_to(r, r->x, r->y, r->of_x, r->of_y);
  if (nn_value_is_null(sum)) sum = added_to(r, r->y, r->x, r->of_y, r->of_x);
  if (!nn_value_is_null(sum)) return sum;
  MlirValue nx = negated(r->x, r->of_x), ny = negated(r->y, r->of_y);
  if (!nn_value_is_null(ny)) return rebuilt(r, NN_OP_sub, r->x, ny);
  if (!nn_value_is_null(nx)) return rebuilt(r, NN_OP_sub, r->y, nx);
  return none();
}

static MlirValue rule_sub(const Rule *r) {
  double left;
  if (r->has_c && r->c == 0) return r->x;
  if (simplify_is_constant(r->x, &left) && left == 0) return rebuilt(r, NN_OP_neg, r->y, none());
  if (!r->is_float && mlirValueEqual(r->x, r->y)) return constant(r->op, 0);
  MlirValue ny = negated(r->y, r->of_y);
  return nn_value_is_null(ny) ? none() : rebuilt(r, NN_OP_add, r->x, ny);
}

static double least_normal(NnDtype dtype) { return dtype == NN_F64 ? 0x1p-1022 : dtype == NN_F16 ? 0x1p-14 : 0x1p-126; }

// (x a) c = x (a c), when the inner product serves nothing else and a c neither overflows nor underflows.
static MlirValue chained_factor(const Rule *r) {
  MlirOperation inner;
  double a, product;
  if (!r->has_c || !simplify_is(r->x, NN_OP_mul, &inner) || !rewrite_has_one_use(r->x) ||
      !simplify_is_constant(nn_operand(inner, 1), &a))
    return none();
  NnDtype dtype = nn_value_dtype(r->x);
  if (!to_element(dtype, a * r->c, &product)) return none();
  if (r->is_float && (!isfinite(product) || fabs(product) < least_normal(dtype))) return none();
  NnBuilder b = rewrite_builder(r->op);
  return nn_binary(&b, NN_OP_mul, nn_operand(inner, 0), nn_constant_like(&b, r->x, product));
}

static MlirValue rule_mul(const Rule *r) {
  if (r->has_c && r->c == 1) return r->x;
  if (r->has_c && r->c == 0 && !r->is_float) return r->y;   // on floats 0 x is not 0 for infinities and NaN
  if (r->has_c && r->c == -1 && nn_value_dtype(r->x) != NN_U8) return rebuilt(r, NN_OP_neg, r->x, none());
  MlirValue nx = negated(r->x, r->of_x), ny = negated(r->y, r->of_y);
  if (!nn_value_is_null(nx) && !nn_value_is_null(ny)) return rebuilt(r, NN_OP_mul, nx, ny);
  return chained_factor(r);
}

// A power of two whose inverse is a normal number of the type: a quotient by it is the product with its inverse, bit
// for bit.
static bool has_inverse(NnDtype dtype, double c) {
  int exponent;
  double inverse = 1 / c;
  return frexp(fabs(c), &exponent) == 0.5 && isfinite(nn_dtype_round(dtype, inverse)) &&
         fabs(inverse) >= least_normal(dtype);
}

static MlirValue rule_div(const Rule *r) {
  if (!r->has_c) return none();
  if (r->c == 1) return r->x;
  if (!r->is_float || !has_inverse(nn_value_dtype(r->x), r->c)) return none();
  NnBuilder b = rewrite_builder(r->op);
  return nn_binary(&b, NN_OP_mul, r->x, nn_constant_like(&b, r->x, 1 / r->c));
}

static MlirValue rule_pow(const Rule *r) {
  if (!r->has_c) return none();
  if (r->c == 0) return constant(r->op, 1);
  if (r->c == 1) return r->x;
  if (r->c == 2) return rebuilt(r, NN_OP_mul, r->x, r->x);
  return none();
}

static MlirValue rule_unary(const Rule *r) {
  MlirOperation def;
  if (r->kind == NN_OP_neg && simplify_is(r->x, NN_OP_neg, &def)) return nn_operand(def, 0);
  if (r->kind == NN_OP_not && simplify_is(r->x, NN_OP_not, &def)) return nn_operand(def, 0);
  if (r->kind == NN_OP_abs && simplify_is(r->x, NN_OP_neg, &def))
    return rebuilt(r, NN_OP_abs, nn_operand(def, 0), none());
  if (r->kind == NN_OP_abs && simplify_is(r->x, NN_OP_abs, &def)) return r->x;
  if (r->kind == NN_OP_relu && simplify_is(r->x, NN_OP_relu, &def)) return r->x;
  if (r->kind == NN_OP_floor && (!r->is_float || simplify_is(r->x, NN_OP_floor, &def))) return r->x;
  return none();
}

static MlirValue rule_logic(const Rule *r) {
  if (mlirValueEqual(r->x, r->y)) return r->x;
  if (!r->has_c || r->kind == NN_OP_max || r->kind == NN_OP_min) return none();
  bool neutral = (r->kind == NN_OP_and) == (r->c != 0);
  return neutral ? r->x : r->y;
}

static MlirValue rule_select(MlirOperation op) {
  double condition;
  MlirOperation def;
  if (simplify_is_constant(nn_operand(op, 0), &condition)) return nn_operand(op, condition != 0 ? 1 : 2);
  if (mlirValueEqual(nn_operand(op, 1), nn_operand(op, 2))) return nn_operand(op, 1);
  if (!simplify_is(nn_operand(op, 0), NN_OP_not, &def)) return none();
  NnBuilder b = rewrite_builder(op);
  return nn_select(&b, nn_operand(def, 0), nn_operand(op, 2), nn_operand(op, 1));
}

// Every value of `from` is one of `to`, and the cast changes none.
static bool cast_is_exact(NnDtype from, NnDtype to) {
  static const unsigned exact[NN_DTYPE_COUNT] = {
      [NN_F32] = 1u << NN_F64,
      [NN_BF16] = 1u << NN_F32 | 1u << NN_F64,
      [NN_F16] = 1u << NN_F32 | 1u << NN_F64,
      [NN_I32] = 1u << NN_I64 | 1u << NN_F64,
      [NN_U8] = 1u << NN_BF16 | 1u << NN_F16 | 1u << NN_F32 | 1u << NN_F64 | 1u << NN_I32 | 1u << NN_I64,
      [NN_I1] = 1u << NN_BF16 | 1u << NN_F16 | 1u << NN_F32 | 1u << NN_F64 | 1u << NN_I32 | 1u << NN_I64 | 1u << NN_U8,
  };
  return exact[from] >> to & 1;
}

// What is concatenated or takes another shape is cast first, where that makes it smaller: by what computes it, and
// fewer bytes are moved. Not a few numbers, which kernels cast where they read them.
static MlirValue cast_of_parts(MlirOperation op, NnDtype to) {
  enum { FEW = 16 };
  MlirOperation concat, reshape;
  MlirValue x = nn_operand(op, 0), part[NN_MAX_OPERANDS];
  if (nn_dtype_bytes(to) >= nn_dtype_bytes(nn_value_dtype(x)) || !rewrite_has_one_use(x)) return none();
  NnBuilder b = rewrite_builder(op);
  NnType type = nn_value_type(x);
  if (simplify_is(x, NN_OP_reshape, &reshape)) {
    if (nn_type_elements(&type) <= FEW || nn_has_attr(op, ATTR_recompute)) return none();
    return nn_reshape(&b, nn_cast(&b, nn_operand(reshape, 0), to), type.rank, type.dim);
  }
  if (!simplify_is(x, NN_OP_concat, &concat)) return none();
  int n = (int)mlirOperationGetNumOperands(concat);
  for (int i = 0; i < n; i++) part[i] = nn_cast(&b, nn_operand(concat, i), to);
  return nn_concat(&b, n, part, nn_attr_i64(concat, "axis", 0));
}

static MlirValue rule_cast(MlirOperation op) {
  MlirValue x = nn_operand(op, 0);
  MlirOperation inner;
  NnDtype to = nn_value_dtype(mlirOperationGetResult(op, 0));
  if (nn_value_dtype(x) == to) return x;
  if (!simplify_is(x, NN_OP_cast, &inner)) return cast_of_parts(op, to);
  if (!cast_is_exact(nn_value_dtype(nn_operand(inner, 0)), nn_value_dtype(x))) return none();
  NnBuilder b = rewrite_builder(op);
  return nn_cast(&b, nn_operand(inner, 0), to);
}

// Constants stand on the right of commutative ops.
static void order_operands(Rule *r) {
  MlirValue x = r->x;
  if (r->of_x != NN_OP_constant || r->of_y == NN_OP_constant) return;
  mlirOperationSetOperand(r->op, 0, r->y);
  mlirOperationSetOperand(r->op, 1, x);
  r->x = r->y, r->of_x = r->of_y;
  r->y = x, r->of_y = NN_OP_constant;
}

MlirValue simplify_arithmetic(MlirOperation op, NnOp kind) {
  if (nn_op_info(kind)->kind != NN_KIND_MAP) return none();
  Rule r = {.op = op, .kind = kind, .x = nn_operand(op, 0)};
  r.of_x = nn_op_of(nn_value_def(r.x));
  if (mlirOperationGetNumOperands(op) > 1) r.y = nn_operand(op, 1), r.of_y = nn_op_of(nn_value_def(r.y));
  else r.of_y = NN_OP_NONE;
  MlirValue folded = r.of_x == NN_OP_constant ? fold_constants(op) : none();
  if (!nn_value_is_null(folded)) return folded;
  switch (kind) {
  case NN_OP_add:
  case NN_OP_mul:
  case NN_OP_max:
  case NN_OP_min:
  case NN_OP_and:
  case NN_OP_or: order_operands(&r); break;
  default: break;
  }
  r.is_float = nn_dtype_is_float(nn_value_dtype(r.x));
  if (r.of_y == NN_OP_constant) r.has_c = simplify_is_constant(r.y, &r.c);
  switch (kind) {
  case NN_OP_add: return rule_add(&r);
  case NN_OP_sub: return rule_sub(&r);
  case NN_OP_mul: return rule_mul(&r);
  case NN_OP_div: return rule_div(&r);
  case NN_OP_pow: return rule_pow(&r);
  case NN_OP_max:
  case NN_OP_min:
  case NN_OP_and:
  case NN_OP_or: return rule_logic(&r);
  case NN_OP_neg:
  case NN_OP_not:
  case NN_OP_abs:
  case NN_OP_relu:
  case NN_OP_floor: return rule_unary(&r);
  case NN_OP_select: return rule_select(op);
  case NN_OP_cast: return rule_cast(op);
  default: return none();
  }
}
