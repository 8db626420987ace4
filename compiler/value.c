// Values of the language at compile time, and its operators on any mix of numbers and tensors.
#include "compiler/elaborate_internal.h"

#include <float.h>
#include <math.h>
#include <string.h>

Value value_tensor(MlirValue t) { return (Value){.kind = VALUE_TENSOR, .tensor = t}; }
Value value_int(int64_t i) { return (Value){.kind = VALUE_INT, .i = i}; }
Value value_float(double f) { return (Value){.kind = VALUE_FLOAT, .f = f}; }
Value value_bool(bool b) { return (Value){.kind = VALUE_BOOL, .b = b}; }
Value value_string(const char *s) { return (Value){.kind = VALUE_STRING, .s = s}; }

bool value_as_number(const Value *v, double *out) {
  switch (v->kind) {
  case VALUE_INT: *out = (double)v->i; return true;
  case VALUE_FLOAT: *out = v->f; return true;
  case VALUE_BOOL: *out = v->b; return true;
  default: return false;
  }
}

const char *value_describe(Elaborator *e, Value v) {
  char type[256];
  switch (v.kind) {
  case VALUE_NONE: return "nothing";
  case VALUE_INT: return elaborator_format(e, "the integer %lld", (long long)v.i);
  case VALUE_FLOAT: return elaborator_format(e, "the number %g", v.f);
  case VALUE_BOOL: return v.b ? "true" : "false";
  case VALUE_STRING: return elaborator_format(e, "the string \"%.60s\"", v.s);
  case VALUE_INIT: return elaborator_format(e, "the initialiser %s", v.s);
  case VALUE_LIST: return elaborator_format(e, "a list of %d", v.list.n);
  case VALUE_TENSOR: {
    NnType t = nn_value_type(v.tensor);
    return elaborator_format(e, "%s", nn_type_format(&t, type, sizeof type));
  }
  }
  return "an unknown value";
}

const char *value_text(Elaborator *e, Value v) {
  switch (v.kind) {
  case VALUE_NONE: return "none";
  case VALUE_INT: return elaborator_format(e, "%lld", (long long)v.i);
  case VALUE_FLOAT: return elaborator_format(e, "%g", v.f);
  case VALUE_STRING: return elaborator_format(e, "\"%.60s\"", v.s);
  case VALUE_LIST: {
    const char *text = "[";
    for (int i = 0; i < v.list.n && i < 20; i++)
      text = elaborator_format(e, "%s%s%s", text, i ? ", " : "", value_text(e, v.list.items[i]));
    return elaborator_format(e, "%s%s]", text, v.list.n > 20 ? ", …" : "");
  }
  default: return value_describe(e, v);
  }
}

// --- Numbers

typedef enum Operator {
  ADD,
  SUB,
  MUL,
  DIV,
  FLOORDIV,
  MOD,
  POW,
  MAX,
  MIN,
  EQ,
  NE,
  LT,
  LE,
  GT,
  GE,
  AND,
  OR,
  OPERATORS
} Operator;
static const struct {
  const char *text;
  NnOp op;
  const char *predicate;
} operators[OPERATORS] = {
    [ADD] = {"+", NN_OP_add, NULL},     [SUB] = {"-", NN_OP_sub, NULL},        [MUL] = {"*", NN_OP_mul, NULL},
    [DIV] = {"/", NN_OP_div, NULL},     [FLOORDIV] = {"//", NN_OP_NONE, NULL}, [MOD] = {"%", NN_OP_NONE, NULL},
    [POW] = {"**", NN_OP_pow, NULL},    [MAX] = {"max", NN_OP_max, NULL},      [MIN] = {"min", NN_OP_min, NULL},
    [EQ] = {"==", NN_OP_compare, "eq"}, [NE] = {"!=", NN_OP_compare, "ne"},    [LT] = {"<", NN_OP_compare, "lt"},
    [LE] = {"<=", NN_OP_compare, "le"}, [GT] = {">", NN_OP_compare, "gt"},     [GE] = {">=", NN_OP_compare, "ge"},
    [AND] = {"and", NN_OP_and, NULL},   [OR] = {"or", NN_OP_or, NULL},
};

static bool overflow(Elaborator *e, AstPos pos) {
  return elaborator_error(e, pos, "integer arithmetic overflows 64 bits");
}

// Integers stay integers; `/` is exact division where it comes out even and rounds down otherwise, so that
// padding=kernel/2 reads as in a paper.
static bool integer_binary(Elaborator *e, AstPos pos, Operator op, int64_t x, int64_t y, Value *result) {
  int64_t r = 0;
  switch (op) {
  case ADD:
    if (__builtin_add_overflow(x, y, &r)) return overflow(e, pos);
    break;
  case SUB:
    if (__builtin_sub_overflow(x, y, &r)) return overflow(e, pos);
    break;
  case MUL:
    if (__builtin_mul_overflow(x, y, &r)) return overflow(e, pos);
    break;
  case DIV:
  case FLOORDIV:
  case MOD:
    if (y == 0) return elaborator_error(e, pos, "division by zero");
    if (y == -1) {
      if (__builtin_sub_overflow((int64_t)0, x, &r)) return overflow(e, pos);
      if (op == MOD) r = 0;
      break;
    }
    r = x / y - (x % y != 0 && (x < 0) != (y < 0));
    if (op == MOD) r = x - r * y;
    break;
  case POW: {
    if (y < 0) {
      *result = value_float(pow((double)x, (double)y));
      return true;
    }
    r = 1;
    for (int64_t i = 0; i < y && r != 0 && !(x == 1); i++) {
      if (i > 64 && (x == -1)) {
        r = y % 2 ? -1 : 1;
        break;
      }
      if (__builtin_mul_overflow(r, x, &r)) return overflow(e, pos);
    }
    break;
  }
  case MAX: r = x > y ? x : y; break;
  case MIN: r = x < y ? x : y; break;
  case EQ: *result = value_bool(x == y); return true;
  case NE: *result = value_bool(x != y); return true;
  case LT: *result = value_bool(x < y); return true;
  case LE: *result = value_bool(x <= y); return true;
  case GT: *result = value_bool(x > y); return true;
  case GE: *result = value_bool(x >= y); return true;
  default: return elaborator_error(e, pos, "'%s' needs true or false on both sides", operators[op].text);
  }
  *result = value_int(r);
  return true;
}

static bool float_binary(Elaborator *e, AstPos pos, Operator op, double x, double y, Value *result) {
  switch (op) {
  case ADD: *result = value_float(x + y); return true;
  case SUB: *result = value_float(x - y); return true;
  case MUL: *result = value_float(x * y); return true;
  case DIV:
    if (y == 0) return elaborator_error(e, pos, "division by zero");
    *result = value_float(x / y);
    return true;
  case FLOORDIV:
  case MOD:
    if (y == 0) return elaborator_error(e, pos, "division by zero");
    *result = value_float(op == MOD ? x - floor(x / y) * y : floor(x / y));
    return true;
  case POW: *result = value_float(pow(x, y)); return true;
  case MAX: *result = value_float(fmax(x, y)); return true;
  case MIN: *result = value_float(fmin(x, y)); return true;
  case EQ: *result = value_bool(x == y); return true;
  case NE: *result = value_bool(x != y); return true;
  case LT: *result = value_bool(x < y); return true;
  case LE: *result = value_bool(x <= y); return true;
  case GT: *result = value_bool(x > y); return true;
  case GE: *result = value_bool(x >= y); return true;
  default: return elaborator_error(e, pos, "'%s' needs true or false on both sides", operators[op].text);
  }
}

// --- Tensors

// The numpy rule: trailing axes align, 1 stretches.
bool value_broadcast_shape(const NnType *x, const NnType *y, NnType *out) {
  *out = x->rank >= y->rank ? *x : *y;
  for (int i = 1; i <= out->rank; i++) {
    int64_t a = i <= x->rank ? x->dim[x->rank - i] : 1, b = i <= y->rank ? y->dim[y->rank - i] : 1;
    if (a != b && a != 1 && b != 1) return false;
    out->dim[out->rank - i] = a == 1 ? b : a;
  }
  return nn_type_is_representable(out);
}

// floor(x / y), or what that leaves of x: of an infinite y, for which x - 0 y is NaN, x, and y more where the signs
// differ.
static MlirValue divided(NnBuilder *b, bool rest, MlirValue x, MlirValue y, bool may_be_infinite) {
  bool is_float = nn_dtype_is_float(nn_value_dtype(x));
  MlirValue quotient = nn_binary(b, NN_OP_div, x, y), inside, differ;
  if (is_float) quotient = nn_unary(b, NN_OP_floor, quotient);
  MlirValue left = rest ? nn_binary(b, NN_OP_sub, x, nn_binary(b, NN_OP_mul, quotient, y)) : quotient;
  if (!is_float || !may_be_infinite) return left;
  NnDtype t = nn_value_dtype(x);   // the largest number, as a schedule has no infinities
  double most = t == NN_F64 ? DBL_MAX : t == NN_F32 ? FLT_MAX : t == NN_BF16 ? 0x1.fep127 : 65504;
  MlirValue largest = nn_constant_like(b, y, most);
  inside = nn_binary(b, NN_OP_and, nn_compare(b, "gt", nn_unary(b, NN_OP_abs, y), largest),
                     nn_compare(b, "le", nn_unary(b, NN_OP_abs, x), largest));
  differ = nn_compare(b, "lt", nn_binary(b, NN_OP_mul, nn_unary(b, NN_OP_sign, x), nn_unary(b, NN_OP_sign, y)),
                      nn_constant_like(b, x, 0));
  MlirValue more = nn_select(b, differ, y, nn_constant_like(b, y, 0));
  if (rest) return nn_select(b, inside, nn_binary(b, NN_OP_add, x, more), left);
  return nn_select(b, nn_binary(b, NN_OP_and, inside, differ), nn_constant_like(b, x, -1), left);
}

// A power of integers whose exponent is known: products of squares, in place of those for all bits that it might have.
static MlirValue power_of_integers(NnBuilder *b, MlirValue x, int64_t exponent) {
  MlirValue power = nn_null_value();
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2) power = nn_value_is_null(power) ? x : nn_binary(b, NN_OP_mul, power, x);
    if (exponent > 1) x = nn_binary(b, NN_OP_mul, x, x);
  }
  return power;
}

static bool tensor_binary(Elaborator *e, AstPos pos, Operator op, Value x, Value y, Value *result) {
  NnBuilder *b = elaborator_builder(e);
  bool logical = op == AND || op == OR;
  Value both[2] = {x, y};
  bool truths = value_common_dtype(e, 2, both) == NN_I1;
  if (logical && !truths) return elaborator_error(e, pos, "'%s' needs comparisons on both sides", operators[op].text);
  NnDtype dtype = logical ? NN_I1 : value_arithmetic_dtype(e, &x, &y, op == DIV);
  MlirValue side[2];
  if (!value_promote(e, pos, 2, both, dtype, side)) return false;
  NnType t[2] = {nn_value_type(side[0]), nn_value_type(side[1])}, to;
  if (!value_broadcast_shape(&t[0], &t[1], &to)) return shapes_do_not_fit(e, pos, operators[op].text, &t[0], &t[1]);
  to.dtype = dtype;
  for (int s = 0; s < 2; s++) side[s] = nn_broadcast_trailing(b, side[s], to);
  if (operators[op].predicate) {
    *result = value_tensor(nn_compare(b, operators[op].predicate, side[0], side[1]));
    return true;
  }
  if (op == FLOORDIV || op == MOD) {
    *result = value_tensor(divided(b, op == MOD, side[0], side[1], y.kind == VALUE_TENSOR));
    return true;
  }
  if (op == POW && !nn_dtype_is_float(dtype) && y.kind == VALUE_INT && y.i > 0) {
    *result = value_tensor(power_of_integers(b, side[0], y.i));
    return true;
  }
  *result = value_tensor(nn_binary(b, operators[op].op, side[0], side[1]));
  return true;
}

// --- Lists

static bool same_value(Elaborator *e, Value x, Value y) {
  double a, b;
  if (x.kind == VALUE_LIST && y.kind == VALUE_LIST && x.list.n == y.list.n) {
    bool same = true;
    for (int i = 0; same && i < x.list.n; i++) same = same_value(e, x.list.items[i], y.list.items[i]);
    return same;
  }
  if (value_as_number(&x, &a) && value_as_number(&y, &b)) return a == b;
  return x.kind == y.kind && x.kind != VALUE_LIST && x.kind != VALUE_TENSOR &&
         strcmp(value_text(e, x), value_text(e, y)) == 0;
}

// [1] + [2, 3], [1] * 3, and comparisons. *made false: there is no such operator.
static bool list_binary(Elaborator *e, AstPos pos, Operator op, Value x, Value y, Value *result, bool *made) {
  bool join = op == ADD && y.kind == VALUE_LIST, repeat = op == MUL && y.kind == VALUE_INT;
  *made = join || repeat || ((op == EQ || op == NE) && y.kind == VALUE_LIST);
  if (!*made) return true;
  if (op == EQ || op == NE) {
    *result = value_bool(same_value(e, x, y) == (op == EQ));
    return true;
  }
  int64_t times = repeat ? y.i : 1, n;
  if (times < 0) return elaborator_error(e, pos, "a list cannot be repeated %lld times", (long long)times);
  if (__builtin_mul_overflow(times, x.list.n, &n) || n > MAX_EVALUATIONS)
    return elaborator_error(e, pos, "a list of %d, repeated %lld times, has more than %d elements", x.list.n,
                            (long long)times, MAX_EVALUATIONS);
  if (join) n += y.list.n;
  for (int64_t i = 0; i < n; i++)
    if (!function_charge(e, pos)) return false;
  Value *items = elaborator_alloc(e, sizeof *items * (size_t)(n + 1));
  for (int64_t i = 0; i < times * x.list.n; i++) items[i] = x.list.items[i % x.list.n];
  for (int i = 0; join && i < y.list.n; i++) items[x.list.n + i] = y.list.items[i];
  *result = (Value){.kind = VALUE_LIST, .list = {items, (int)n}};
  return true;
}

// --- Entry points

bool value_binary(Elaborator *e, AstPos pos, const char *text, Value x, Value y, Value *result) {
  Operator op = 0;
  while (op < OPERATORS && strcmp(operators[op].text, text) != 0) op++;
  if (op == OPERATORS) return elaborator_error(e, pos, "unknown operator '%s'", text);
  if ((x.kind == VALUE_NONE || y.kind == VALUE_NONE) && (op == EQ || op == NE)) {
    *result = value_bool((x.kind == y.kind) == (op == EQ));
    return true;
  }
  if (x.kind == VALUE_TENSOR || y.kind == VALUE_TENSOR) return tensor_binary(e, pos, op, x, y, result);
  if (x.kind == VALUE_BOOL && y.kind == VALUE_BOOL) {
    if (op == AND || op == OR || op == EQ || op == NE) {
      *result = value_bool(op == AND ? x.b && y.b : op == OR ? x.b || y.b : op == EQ ? x.b == y.b : x.b != y.b);
      return true;
    }
    return elaborator_error(e, pos, "'%s' does not work on true and false", text);
  }
  if ((x.kind == VALUE_STRING || y.kind == VALUE_STRING) && (op == EQ || op == NE)) {   // a number is no string
    *result = value_bool((x.kind == y.kind && strcmp(x.s, y.s) == 0) == (op == EQ));
    return true;
  }
  if (x.kind == VALUE_INT && y.kind == VALUE_INT) return integer_binary(e, pos, op, x.i, y.i, result);
  if (x.kind == VALUE_LIST) {
    bool made = false;
    if (!list_binary(e, pos, op, x, y, result, &made)) return false;
    if (made) return true;
  }
  double a, c;
  bool numbers = x.kind != VALUE_BOOL && y.kind != VALUE_BOOL && value_as_number(&x, &a) && value_as_number(&y, &c);
  if (!numbers)
    return elaborator_error(e, pos, "'%s' does not work on %s and %s", text, value_describe(e, x),
                            value_describe(e, y));
  return float_binary(e, pos, op, a, c, result);
}

bool value_unary(Elaborator *e, AstPos pos, const char *op, Value x, Value *result) {
  bool negate = strcmp(op, "-") == 0;
  if (x.kind == VALUE_TENSOR) {
    NnDtype dtype = nn_value_dtype(x.tensor);
    if (negate == (dtype == NN_I1))
      return elaborator_error(e, pos, "'%s' does not work on %s", op, value_describe(e, x));
    NnBuilder *b = elaborator_builder(e);
    if (dtype == NN_U8) x.tensor = nn_cast(b, x.tensor, NN_I32);   // as all operators: -1 is no byte
    *result = value_tensor(nn_unary(b, negate ? NN_OP_neg : NN_OP_not, x.tensor));
    return true;
  }
  if (!negate && x.kind == VALUE_BOOL) {
    *result = value_bool(!x.b);
    return true;
  }
  if (negate && x.kind == VALUE_INT && x.i != INT64_MIN) {
    *result = value_int(-x.i);
    return true;
  }
  if (negate && x.kind == VALUE_FLOAT) {
    *result = value_float(-x.f);
    return true;
  }
  return elaborator_error(e, pos, "'%s' does not work on %s", op, value_describe(e, x));
}
