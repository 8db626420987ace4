// Fourier transforms of rows as one op, and as products of short transforms for targets that have no loops for it.
// Three kinds: n real numbers to the half of their spectrum, that half back to numbers (the adjoint of the former), and
// complex numbers to complex ones. Complex numbers are a last axis of two.
#include <math.h>
#include <string.h>

#include "ir/ops/ops.h"

typedef enum Kind { REAL, HALF, COMPLEX, KINDS } Kind;

static Kind kind_of(const char *text) {
  static const char *const names[] = {"real", "half", "complex"};
  int k = 0;
  while (k < KINDS && strcmp(text, names[k]) != 0) k++;
  return (Kind)k;
}

bool nn_infer_fourier(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  char text[16];
  int64_t n = nn_call_i64(c, "length", 0);
  const char *name = nn_call_str(c, "kind", text, sizeof text, "");
  Kind kind = kind_of(name);
  const NnType *x = &c->operand[0];
  if (kind == KINDS) return nn_fail(c, "kind must be real, half or complex, found '%s'", name);
  if (!nn_need_float(c, 0) || !nn_need_min_rank(c, 0, kind == REAL ? 1 : 2)) return false;
  if (x->dtype != NN_F32 && x->dtype != NN_F64)
    return nn_fail(c, "operand 0 must be of f32 or f64, found %s", nn_text(x).text);
  int rows = x->rank - (kind == REAL ? 1 : 2);
  int64_t given = kind == HALF ? n / 2 + 1 : n;
  if (n < 1 || x->dim[rows] != given || (kind != REAL && x->dim[rows + 1] != 2))
    return nn_fail(c, "length %lld is not that of %s", (long long)n, nn_text(x).text);
  *result = *x;
  result->rank = rows + (kind == HALF ? 1 : 2);
  result->dim[rows] = kind == REAL ? n / 2 + 1 : n, result->dim[rows + 1] = 2;
  return true;
}

// The adjoint: of the complex transform that in the other direction, the other two are each other's.
void nn_vjp_fourier(NnVjp *v) {
  char text[16];
  MlirValue g = v->cotangent[0];
  Kind kind = kind_of(nn_attr_str(v->op, "kind", text, sizeof text, ""));
  if (nn_value_is_null(g) || !v->needed[0]) return;
  NnAttr attrs[] = {NN_I64("length", nn_attr_i64(v->op, "length", 0)),
                    NN_STR("kind", kind == REAL   ? "half"
                                   : kind == HALF ? "real"
                                                  : "complex"),
                    NN_BOOL("inverse", kind == COMPLEX && !nn_attr_bool(v->op, "inverse", false))};
  v->operand_cotangent[0] = nn_result(nn_build(v->b, NN_OP_fourier, 1, &g, 3, attrs, NULL), 0);
}

double nn_flops_fourier(MlirOperation op) {
  NnType x = nn_value_type(mlirOperationGetOperand(op, 0)), y = nn_value_type(mlirOperationGetResult(op, 0));
  double n = (double)nn_attr_i64(op, "length", 1);
  return 2.5 * (double)(nn_type_elements(&x) + nn_type_elements(&y)) / 2 * log2(n + 1);
}

// ---------------------------------------------------------------------------------------------------------------------
// As products: rows of n = n1 n2 elements are transformed in steps (Gentleman and Sande, 1966; Bailey, 1990), by
// transforms of length n1, products with roots of unity, and transforms of length n2. Short rows are multiplied by a
// matrix of sines and cosines.

typedef struct Transform {
  NnBuilder *b;
  NnDtype dtype;
  int64_t parts;   // of the results
  double sign;     // -1: of the inverse transform, times n
} Transform;

static MlirValue reshaped(NnBuilder *b, MlirValue x, int64_t i, int64_t j, int64_t k, int64_t l) {
  int64_t dim[4] = {i, j, k, l};
  return nn_reshape(b, x, l > 0 ? 4 : k > 0 ? 3 : 2, dim);
}

// 2 pi j k / n for j < rows and k < columns, from the remainder of j k, so that long rows lose no digits.
static MlirValue turns(const Transform *f, int64_t rows, int64_t columns, int64_t n) {
  NnBuilder *b = f->b;
  int64_t dim[] = {rows, columns};
  NnType t = nn_type(NN_I32, 2, dim);
  MlirValue product = nn_binary(b, NN_OP_mul, nn_iota(b, t, 0), nn_iota(b, t, 1)), size = nn_constant(b, t, (double)n);
  MlirValue whole = nn_binary(b, NN_OP_mul, nn_binary(b, NN_OP_div, product, size), size);
  MlirValue rest = nn_cast(b, nn_binary(b, NN_OP_sub, product, whole), f->dtype);
  return nn_scale(b, rest, 6.283185307179586 / (double)n);
}

// Side by side on a new axis.
static MlirValue stacked(NnBuilder *b, MlirValue x, MlirValue y, int axis) {
  NnType t = nn_value_type(x);
  int64_t dim[3] = {t.dim[0], t.dim[1], 1};
  if (axis == 1) dim[1] = 1, dim[2] = t.dim[1];
  MlirValue both[] = {nn_reshape(b, x, 3, dim), nn_reshape(b, y, 3, dim)};
  return nn_concat(b, 2, both, axis);
}

// What a transform multiplies rows of `given` numbers of `P` parts by; the parts of its results lie on axis 1 or 2,
// before or behind their numbers.
static MlirValue matrix(const Transform *f, int64_t n, int64_t given, int64_t P, int64_t wanted, int64_t parts,
                        int axis) {
  NnBuilder *b = f->b;
  MlirValue angle = turns(f, given, wanted, n), c = nn_unary(b, NN_OP_cos, angle),
            s = nn_scale(b, nn_unary(b, NN_OP_sin, angle), f->sign), real = c, imaginary = s;
  if (parts == 2) {
    real = reshaped(b, stacked(b, c, nn_unary(b, NN_OP_neg, s), axis), given, 2 * wanted, 0, 0);
    imaginary = reshaped(b, stacked(b, s, c, axis), given, 2 * wanted, 0, 0);
  }
  return P == 1 ? real : reshaped(b, stacked(b, real, imaginary, 1), 2 * given, parts * wanted, 0, 0);
}

int64_t nn_fourier_factor(int64_t n) {
  int64_t factor = n;
  for (int64_t d = 2; n > 64 && d <= 64 && d * d <= n; d++)
    if (n % d == 0) factor = d;
  return factor;
}

// y times the roots of unity of exponents j k, y[rows, n2, 2, n1].
static MlirValue rotated(const Transform *f, MlirValue y, int64_t n1, int64_t n2, int64_t n) {
  NnBuilder *b = f->b;
  NnType t = nn_value_type(y);
  int64_t starts[] = {0, 0, 1, 0}, strides[] = {1, 1, -1, 1}, pair[] = {n2, 2, n1};
  NnType both = nn_type(f->dtype, 3, pair), index = both;
  index.dtype = NN_I32;
  MlirValue angle = turns(f, n2, n1, n), first = nn_compare(b, "lt", nn_iota(b, index, 1), nn_constant(b, index, 1));
  MlirValue sign = nn_select(b, first, nn_constant(b, both, f->sign), nn_constant(b, both, -f->sign));
  MlirValue c = nn_broadcast(b, nn_unary(b, NN_OP_cos, angle), both, (int64_t[]){0, 2});
  MlirValue s = nn_broadcast(b, nn_unary(b, NN_OP_sin, angle), both, (int64_t[]){0, 2});
  MlirValue by_sine = nn_broadcast_trailing(b, nn_binary(b, NN_OP_mul, s, sign), t);
  MlirValue exchanged = nn_binary(b, NN_OP_mul, nn_slice(b, y, starts, t.dim, strides), by_sine);
  return nn_binary(b, NN_OP_add, nn_binary(b, NN_OP_mul, y, nn_broadcast_trailing(b, c, t)), exchanged);
}

// The first `wanted` numbers of the transforms of length n of x[R, given, 1 or 2], whose other elements are 0. Element
// n2 t1 + t2 goes into number k1 + n1 k2.
static MlirValue transformed(const Transform *f, MlirValue x, int64_t n, int64_t wanted) {
  NnBuilder *b = f->b;
  NnType t = nn_value_type(x);
  int64_t R = t.dim[0], given = t.dim[1], P = t.dim[2], n1 = nn_fourier_factor(n), n2 = n / n1;
  if (n1 == n) {
    MlirValue by = matrix(f, n, given, P, wanted, f->parts, 2);
    return reshaped(b, nn_matmul(b, reshaped(b, x, R, given * P, 0, 0), by, false, false), R, wanted, f->parts, 0);
  }
  int64_t given1 = (given + n2 - 1) / n2, wanted2 = (wanted + n1 - 1) / n1, none[3] = {0};
  if (given1 * n2 > given) x = nn_pad(b, x, none, (int64_t[]){0, given1 * n2 - given, 0}, none, 0);
  x = nn_transpose(b, reshaped(b, x, R, given1, n2, P), (int64_t[]){0, 2, 1, 3});
  x = nn_matmul(b, reshaped(b, x, R, n2, given1 * P, 0), matrix(f, n1, given1, P, n1, 2, 1), false, false);
  x = rotated(f, reshaped(b, x, R, n2, 2, n1), n1, n2, n);
  x = reshaped(b, nn_transpose(b, x, (int64_t[]){0, 3, 1, 2}), R * n1, n2, 2, 0);
  x = nn_transpose(b, reshaped(b, transformed(f, x, n2, wanted2), R, n1, wanted2, f->parts), (int64_t[]){0, 2, 1, 3});
  x = reshaped(b, x, R, wanted2 * n1, f->parts, 0);
  return nn_slice(b, x, none, (int64_t[]){R, wanted, f->parts}, NULL);
}

void nn_expand_fourier(NnBuilder *b, MlirOperation op, MlirValue *results) {
  char text[16];
  MlirValue x = mlirOperationGetOperand(op, 0);
  NnType from = nn_value_type(x), to = nn_value_type(mlirOperationGetResult(op, 0));
  int64_t n = nn_attr_i64(op, "length", 1), given, P, wanted;
  Kind kind = kind_of(nn_attr_str(op, "kind", text, sizeof text, ""));
  bool back = kind == HALF || nn_attr_bool(op, "inverse", false);
  Transform f = {.b = b, .dtype = from.dtype, .parts = kind == HALF ? 1 : 2, .sign = back ? -1 : 1};
  P = kind == REAL ? 1 : 2, given = kind == HALF ? n / 2 + 1 : n, wanted = kind == REAL ? n / 2 + 1 : n;
  x = reshaped(b, x, nn_type_elements(&from) / (given * P), given, P, 0);
  results[0] = nn_reshape(b, transformed(&f, x, n, wanted), to.rank, to.dim);
}
