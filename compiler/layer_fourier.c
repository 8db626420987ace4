// Fourier transforms along the last axis. A complex number is a last axis of two, its real and its imaginary part.
#include "compiler/layer.h"

#include <string.h>

static MlirValue transform(const LayerCall *c, MlirValue x, int64_t length, const char *kind, bool inverse) {
  enum { LONGEST_PRODUCT = 16384, LONGEST = 1 << 28 };
  int64_t rest = length;
  while (nn_fourier_factor(rest) < rest) rest /= nn_fourier_factor(rest);
  if (rest > LONGEST_PRODUCT || length > LONGEST) {
    layer_error(c, "rows with a prime factor of %lld are too long, at most %d is possible", (long long)rest,
                LONGEST_PRODUCT);
    return nn_null_value();
  }
  NnAttr attrs[] = {NN_I64("length", length), NN_STR("kind", kind), NN_BOOL("inverse", inverse)};
  MlirOperation op = layer_build(c, NN_OP_fourier, 1, &x, 3, attrs, NULL);
  return mlirOperationIsNull(op) ? nn_null_value() : mlirOperationGetResult(op, 0);
}

// x of complex numbers, and how many there are in a row.
static bool complex_rows(const LayerCall *c, MlirValue *x, int64_t *n) {
  *x = layer_float_tensor(c, 0);
  NnType t = nn_value_type(*x);
  if (t.rank < 2 || t.dim[t.rank - 1] != 2)
    return layer_arg_error(c, 0, "must have a last axis of two, real and imaginary part, found %s",
                           value_describe(c->e, c->arg[0]));
  *n = t.dim[t.rank - 2];
  return true;
}

bool layer_rfft(LayerCall *c, Value *result) {
  MlirValue x = layer_float_tensor(c, 0);
  NnType t = nn_value_type(x);
  if (t.rank < 1) return layer_arg_error(c, 0, "must have at least one axis, found a scalar");
  MlirValue y = transform(c, x, t.dim[t.rank - 1], "real", false);
  return !nn_value_is_null(y) && layer_return(result, y);
}

bool layer_irfft(LayerCall *c, Value *result) {
  enum { X, N };
  MlirValue x;
  NnBuilder *b = c->b;
  int64_t half;
  if (!complex_rows(c, &x, &half)) return false;
  int64_t n = c->arg[N].kind == VALUE_NONE ? 2 * (half - 1) : layer_int(c, N);
  if (half == 1 && c->arg[N].kind == VALUE_NONE)
    return layer_arg_error(c, X, "has one number, the spectrum of one element: say n=1; found %s",
                           value_describe(c->e, c->arg[X]));
  if (n < 1 || n / 2 + 1 != half)
    return layer_error(c, "%lld elements have a spectrum of %lld numbers, found %s", (long long)n,
                       (long long)(n < 0 ? 0 : n / 2 + 1), value_describe(c->e, c->arg[X]));
  NnType t = nn_value_type(x);
  int64_t row = 2 * half, dim[NN_MAX_RANK];
  memcpy(dim, t.dim, sizeof dim);
  dim[t.rank - 2] = row;
  NnType flat = nn_type(t.dtype, t.rank - 1, dim), place = nn_type(NN_I32, 1, &row), weight = place;
  weight.dtype = t.dtype;
  // numbers that stand for their mirror images too count twice: all but the first and, of even n, the last
  MlirValue i = nn_iota(b, place, 0), alone = nn_compare(b, "lt", i, nn_constant(b, place, 2));
  if (n % 2 == 0) alone = nn_binary(b, NN_OP_or, alone, nn_compare(b, "ge", i, nn_constant(b, place, (double)n)));
  double once = 1.0 / (double)n;
  MlirValue by = nn_select(b, alone, nn_constant(b, weight, once), nn_constant(b, weight, 2 * once));
  // their imaginary parts do not count: their gradient is 0, not what rounding makes of it
  MlirValue ignored = nn_compare(b, "eq", i, nn_constant(b, place, 1));
  if (n % 2 == 0)
    ignored = nn_binary(b, NN_OP_or, ignored, nn_compare(b, "eq", i, nn_constant(b, place, (double)(n + 1))));
  by = nn_select(b, ignored, nn_constant(b, weight, 0), by);
  x = nn_binary(b, NN_OP_mul, nn_reshape(b, x, flat.rank, flat.dim), nn_broadcast_trailing(b, by, flat));
  x = nn_reshape(b, x, t.rank, t.dim);
  MlirValue y = transform(c, x, n, "half", false);
  return !nn_value_is_null(y) && layer_return(result, y);
}

bool layer_fft(LayerCall *c, Value *result) {
  MlirValue x;
  int64_t n;
  bool inverse = layer_bool(c, 1);
  if (!complex_rows(c, &x, &n)) return false;
  MlirValue y = transform(c, x, n, "complex", inverse);
  if (nn_value_is_null(y)) return false;
  if (inverse) y = nn_binary(c->b, NN_OP_mul, y, nn_constant_like(c->b, y, 1.0 / (double)n));
  return layer_return(result, y);
}
