// exp, log, sin, cos, tanh, erf and pow as arithmetic, because LLVM has none of them in f64 for a GPU and few in
// f32, and no library is linked. f32 within a few ulp, f64 within about ten; the same operations run in the emulator.
//
// Methods: exp in f32 is the hardware's 2^x with the rounding error of x log2 e put back; in f64 a Taylor series after
// reduction by ln 2 (Cody and Waite). log is the series of the inverse hyperbolic tangent around the nearest power of
// two. tanh for small arguments is in f32 a polynomial fitted to it, in f64 Lambert's continued fraction. erf in f32
// are polynomials fitted to it and to the logarithm of its complement, in f64 its series.
#include <math.h>
#include <string.h>

#include "codegen/gpu/schedule.h"
#include "support/alloc.h"

typedef struct Math {
  Emitter *e;
  NnDtype t;
  bool wide;   // f64
} Math;

static Value constant(Math *m, double c) { return emit_splat(m->e, m->t, c); }
static Value product(Math *m, Value a, Value b) { return emit_binary(m->e, NN_OP_mul, m->t, a, b); }
static Value sum(Math *m, Value a, Value b) { return emit_binary(m->e, NN_OP_add, m->t, a, b); }
static Value difference(Math *m, Value a, Value b) { return emit_binary(m->e, NN_OP_sub, m->t, a, b); }
static Value choose(Math *m, Value condition, Value a, Value b) { return emit_select(m->e, condition, a, b, m->t); }
static Value test(Math *m, const char *predicate, Value a, double b) {
  return emit_compare(m->e, predicate, a, constant(m, b), m->t);
}

static Value unary(Math *m, const char *op, Value x) {
  return emit_of(m->e, op, OF(x), "%% : %s", vector_type(m->e, m->t).text);
}

// A basic of f32 on each lane; y may be NULL.
static Value basic_lanes(Math *m, GpuBasic which, Value x, const Value *y) {
  Emitter *e = m->e;
  int depth = y ? depth_max(x, *y) : x.depth;
  Value v = emit(e, depth, "llvm.mlir.poison", NO_VALUES, ": vector<%dxf32>", e->lanes);
  for (int i = 0; i < e->lanes; i++) {
    Value a = emit(e, depth, "vector.extract", VALUES(x.id), "%%[%d] : f32 from vector<%dxf32>", i, e->lanes), b = a;
    if (y) b = emit(e, depth, "vector.extract", VALUES(y->id), "%%[%d] : f32 from vector<%dxf32>", i, e->lanes);
    Value q = schedule_basic(e, depth, which, VALUES(a.id, b.id));
    v = emit(e, depth, "vector.insert", VALUES(q.id, v.id), "%%, %% [%d] : f32 into vector<%dxf32>", i, e->lanes);
  }
  v.varies = x.varies || (y && y->varies);
  return v;
}

// In f32 by the reciprocal that the hardware approximates, within 2 units in the last place, for |b| in [2^-126, 2^126]
// (0 beyond): the rounded quotient of IEEE 754 takes some twenty instructions and a branch for each element.
static Value quotient(Math *m, Value a, Value b) {
  return m->wide ? emit_binary(m->e, NN_OP_div, m->t, a, b) : basic_lanes(m, GPU_DIVIDE, a, &b);
}

// a b + c, rounded once.
static Value fma3(Math *m, Value a, Value b, Value c) {
  return emit_of(m->e, "math.fma", OF(a, b, c), "%%, %%, %% : %s", vector_type(m->e, m->t).text);
}

// c[0] + c[1] x + …
static Value polynomial(Math *m, Value x, int n, const double *c) {
  Value y = constant(m, c[n - 1]);
  for (int i = n - 2; i >= 0; i--) y = fma3(m, y, x, constant(m, c[i]));
  return y;
}

static TypeName bits_type(const Math *m) { return vector_type(m->e, m->wide ? NN_I64 : NN_I32); }
static NnDtype bits_dtype(const Math *m) { return m->wide ? NN_I64 : NN_I32; }

static Value bitcast(Math *m, Value x, bool to_bits) {
  TypeName f = vector_type(m->e, m->t), i = bits_type(m);
  return emit_of(m->e, "arith.bitcast", OF(x), "%% : %s to %s", to_bits ? f.text : i.text, to_bits ? i.text : f.text);
}

static Value bits_op(Math *m, const char *op, Value a, int64_t b) {
  Value c = emit_constant(m->e, "dense<%lld> : %s", (long long)b, bits_type(m).text);
  return emit_of(m->e, op, OF(a, c), "%%, %% : %s", bits_type(m).text);
}

// 2^n for an integer n in the float x, as long as it is a normal number.
static Value power_of_two(Math *m, Value n) {
  Value i = emit_cast(m->e, n, m->t, bits_dtype(m));
  return bitcast(m, bits_op(m, "arith.shli", bits_op(m, "arith.addi", i, m->wide ? 1023 : 127), m->wide ? 52 : 23),
                 false);
}

// ---------------------------------------------------------------------------------------------------------------------

static const double log2e = 0x1.715476p+0;   // as an f32

// By the hardware: 0 where the result would be subnormal.
static Value two_to(Math *m, Value t) { return basic_lanes(m, GPU_EXP2, t, NULL); }

Value gpu_exp_of_sum(Emitter *e, Value x) {
  Math m = {e, NN_F32, false};
  return two_to(&m, product(&m, x, constant(&m, log2e)));
}

// x log2 e = t + e exactly enough: 2^t (1 + e ln 2).
static Value exp_f32(Math *m, Value x) {
  const double rest = 0x1.4ae0bf85ddf44p-26;   // what the f32 next to log2 e lacks
  x = choose(m, test(m, "gt", x, 89), constant(m, 89), x);
  x = choose(m, test(m, "lt", x, -88), constant(m, -88), x);
  TypeName type = vector_type(m->e, m->t);
  Value l = constant(m, log2e), t = emit_of(m->e, "arith.mulf", OF(x, l), "%%, %% : %s", type.text);
  Value error = fma3(m, x, constant(m, rest), fma3(m, x, l, unary(m, "arith.negf", t)));
  return product(m, two_to(m, t), fma3(m, error, constant(m, M_LN2), constant(m, 1)));
}

static Value exp_f64(Math *m, Value x) {
  double c[14], f = 1;
  for (int i = 0; i < 14; i++) {
    c[i] = 1 / f;
    f *= i + 1;
  }
  x = choose(m, test(m, "gt", x, 710), constant(m, 710), x);
  x = choose(m, test(m, "lt", x, -746), constant(m, -746), x);
  Value n = unary(m, "math.roundeven", product(m, x, constant(m, M_LOG2E))), minus = unary(m, "arith.negf", n);
  // ln 2 in two parts, the first with 20 bits to spare.
  Value r = fma3(m, minus, constant(m, 0x1.62e42fee00000p-1), x);
  r = fma3(m, minus, constant(m, 0x1.a39ef35793c76p-33), r);
  // In two factors, since 2^1024 is no number.
  Value half = unary(m, "math.floor", product(m, n, constant(m, 0.5)));
  Value is_nan = emit_compare(m->e, "ne", x, x, m->t);
  Value scaled = product(m, product(m, polynomial(m, r, 14, c), power_of_two(m, half)),
                         power_of_two(m, difference(m, n, half)));
  return choose(m, is_nan, x, scaled);
}

static Value exponential(Math *m, Value x) { return m->wide ? exp_f64(m, x) : exp_f32(m, x); }

// x = 2^n (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); log(1 + f) = 2 atanh(f / (2 + f)).
static Value logarithm(Math *m, Value x) {
  double c[11];
  for (int i = 0; i < 11; i++) c[i] = 2.0 / (2 * i + 3);
  double least = m->wide ? 0x1p-1022 : 0x1p-126, up = m->wide ? 0x1p54 : 0x1p25;
  Value small = test(m, "lt", x, least), y = choose(m, small, product(m, x, constant(m, up)), x);
  int64_t half_root = m->wide ? 0x3fe6a09e667f3bcd : 0x3f3504f3, mantissa = m->wide ? 0xfffffffffffff : 0x7fffff;
  Value i = bits_op(m, "arith.subi", bitcast(m, y, true), half_root);
  Value n = emit_cast(m->e, bits_op(m, "arith.shrsi", i, m->wide ? 52 : 23), bits_dtype(m), m->t);
  n = choose(m, small, difference(m, n, constant(m, m->wide ? 54 : 25)), n);
  Value f = difference(m, bitcast(m, bits_op(m, "arith.addi", bits_op(m, "arith.andi", i, mantissa), half_root), false),
                       constant(m, 1));
  Value s = quotient(m, f, sum(m, f, constant(m, 2))), z = product(m, s, s);
  Value tail = product(m, product(m, s, z), polynomial(m, z, m->wide ? 11 : 4, c));
  tail = fma3(m, n, constant(m, m->wide ? 0x1.a39ef35793c76p-33 : 0x1.7f7d1cp-20), tail);
  Value high = product(m, n, constant(m, m->wide ? 0x1.62e42fee00000p-1 : 0x1.62e4p-1));
  Value result = sum(m, high, fma3(m, s, constant(m, 2), tail));
  result = choose(m, test(m, "eq", x, INFINITY), x, result);
  result = choose(m, test(m, "eq", x, 0), constant(m, -INFINITY), result);
  Value fine = test(m, "ge", x, 0);   // false for NaN
  return choose(m, fine, result, constant(m, NAN));
}

// x / (1 + x²/(3 + x²/(5 + …))), the fraction cut after `levels` terms, as a quotient of polynomials in x².
static void fraction_tanh(Math *m, Value x, int levels, Value *top, Value *bottom) {
  double p[16] = {1}, q[16] = {2.0 * levels + 1};   // the innermost: q = 2 levels + 1
  for (int k = levels - 1; k >= 0; k--) {
    double next[16] = {0};   // (2k + 1) + x² p / q, with p / q the inner fraction's reciprocal
    for (int i = 0; i < 16; i++) next[i] = (2 * k + 1) * q[i] + (i ? p[i - 1] : 0);
    memcpy(p, q, sizeof p);
    memcpy(q, next, sizeof q);
  }
  int n = levels / 2 + 1;
  double scale = q[0];
  for (int i = 0; i <= n; i++) p[i] /= scale, q[i] /= scale;
  Value z = product(m, x, x);
  *top = product(m, x, polynomial(m, z, n + 1, p));
  *bottom = polynomial(m, z, n + 1, q);
}

static Value copy_sign(Math *m, Value size, Value x) {
  return emit_of(m->e, "math.copysign", OF(size, x), "%%, %% : %s", vector_type(m->e, m->t).text);
}

// 1 - 2 / (e^(2|x|) + 1): what the hardware's approximations are off by is little beside 1. Small numbers by a
// polynomial, at most 1.3 units in the last place off.
static Value hyperbolic_tangent_f32(Math *m, Value x) {
  static const double near[] = {-0.333329466, 0.133207248, -0.0526718022, 0.0164375624};
  Value size = unary(m, "math.absf", x), z = product(m, x, x), one = constant(m, 1);
  Value e = two_to(m, product(m, size, constant(m, 2 * M_LOG2E)));
  Value far = fma3(m, basic_lanes(m, GPU_RECIPROCAL, sum(m, e, one), NULL), constant(m, -2), one);
  Value small = fma3(m, product(m, size, z), polynomial(m, z, 4, near), size);
  return copy_sign(m, choose(m, test(m, "gt", size, 0.55), far, small), x);
}

static Value hyperbolic_tangent(Math *m, Value x) {
  if (!m->wide) return hyperbolic_tangent_f32(m, x);
  Value size = unary(m, "math.absf", x), large = test(m, "gt", size, 0.55), one = constant(m, 1), top, bottom;
  Value e = exponential(m, product(m, choose(m, test(m, "gt", size, 20), constant(m, 20), size), constant(m, 2)));
  fraction_tanh(m, x, 9, &top, &bottom);
  // (e - 1) / (e + 1) or the fraction: one division for both.
  return quotient(m, choose(m, large, copy_sign(m, difference(m, e, one), x), top),
                  choose(m, large, sum(m, e, one), bottom));
}

// The reciprocal of a number from 1 on: 0 from 2^126 on.
static Value sigmoid_f32(Math *m, Value x) {
  return basic_lanes(m, GPU_RECIPROCAL, sum(m, constant(m, 1), exp_f32(m, unary(m, "arith.negf", x))), NULL);
}

// Of large numbers 1 - 2^polynomial, where the polynomial falls without end.
static Value error_function_f32(Math *m, Value x) {
  static const double near[] = {1.12837917,    -0.376126267,   0.112835947,   -0.026854212,
                                0.00518908744, -0.00080168644, 7.87587544e-05};
  static const double tail[] = {-0.00076589777 * M_LOG2E, -1.12589365 * M_LOG2E,    -0.639141258 * M_LOG2E,
                                -0.103281118 * M_LOG2E,   0.0226047723 * M_LOG2E,   -0.00343235139 * M_LOG2E,
                                0.000316937023 * M_LOG2E, -1.32723619e-05 * M_LOG2E};
  Value size = unary(m, "math.absf", x), far = difference(m, constant(m, 1), two_to(m, polynomial(m, size, 8, tail)));
  Value small = product(m, size, polynomial(m, product(m, x, x), 7, near));
  return copy_sign(m, choose(m, test(m, "gt", size, 1), far, small), x);
}

// 2/sqrt(pi) x e^(-x²) sum of (2 x²)^k / (1 3 5 … (2k+1)): no term is negative. 1 from 6 on.
static Value error_function_f64(Math *m, Value x) {
  Value size = unary(m, "math.absf", x), far = test(m, "gt", size, 6), y = choose(m, far, constant(m, 6), size);
  Value z = product(m, y, y), s = constant(m, 1);
  for (int k = 130; k > 0; k--) s = fma3(m, product(m, s, z), constant(m, 2.0 / (2 * k + 1)), constant(m, 1));
  Value e = exponential(m, unary(m, "arith.negf", z));
  Value near = product(m, product(m, y, constant(m, M_2_SQRTPI)), product(m, e, s));
  Value is_nan = emit_compare(m->e, "ne", x, x, m->t);
  return choose(m, is_nan, x, copy_sign(m, choose(m, far, constant(m, 1), near), x));
}

// With x = n pi/2 + r, |r| <= pi/4: sin or cos of r, by n modulo 4. shift 1: cosine. r is found in f64, with pi/2 in
// three parts, which is exact enough as long as n is an integer of 53 bits; the sine of a number beyond that is NaN.
static Value sine(Math *m, Value x, int shift) {
  double s[10], c[10], f = 1;
  for (int i = 0; i < 10; i++) {
    double sign = i % 2 ? -1 : 1;
    c[i] = sign / f;
    s[i] = sign / (f * (2 * i + 1));
    f *= (2 * i + 1) * (2 * i + 2);
  }
  static const double parts[3] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110};
  Math wide = {m->e, NN_F64, true}, *w = &wide;
  Value y = emit_cast(m->e, x, m->t, NN_F64);
  Value fits = emit_compare(m->e, "lt", unary(w, "math.absf", y), constant(w, 0x1p52), NN_F64);
  y = choose(w, fits, y, constant(w, 0));
  Value n = unary(w, "math.roundeven", product(w, y, constant(w, M_2_PI))), minus = unary(w, "arith.negf", n);
  for (int i = 0; i < 3; i++) y = fma3(w, minus, constant(w, parts[i]), y);
  int terms = m->wide ? 10 : 6;
  Value r = emit_cast(m->e, y, NN_F64, m->t), z = product(m, r, r), sin_r = product(m, r, polynomial(m, z, terms, s)),
        cos_r = polynomial(m, z, terms, c);
  Value quadrant = bits_op(w, "arith.addi", emit_cast(m->e, n, NN_F64, NN_I64), shift),
        zero = emit_splat(m->e, NN_I64, 0);
  Value odd = emit_compare(m->e, "ne", bits_op(w, "arith.andi", quadrant, 1), zero, NN_I64);
  Value down = emit_compare(m->e, "ne", bits_op(w, "arith.andi", quadrant, 2), zero, NN_I64);
  Value result = choose(m, odd, cos_r, sin_r);
  result = choose(m, down, unary(m, "arith.negf", result), result);
  return choose(m, fits, result, constant(m, NAN));
}

// |x|^y as e^(y log |x|) in f64; a negative number needs an integer y, and an odd one keeps the sign, that of zero and
// infinity too.
static Value power_f64(Math *m, Value x, Value y) {
  Value size = unary(m, "math.absf", x), l = logarithm(m, size), p = exp_f64(m, product(m, y, l));
  p = choose(m, test(m, "eq", size, 1), constant(m, 1), p);   // also of infinite y
  Value half = product(m, y, constant(m, 0.5));
  Value integer = emit_compare(m->e, "eq", unary(m, "math.floor", y), y, m->t),
        even = emit_compare(m->e, "eq", unary(m, "math.floor", half), half, m->t);
  Value minus = emit_compare(m->e, "lt", bitcast(m, x, true), emit_splat(m->e, NN_I64, 0), NN_I64);
  Value odd_p = choose(m, even, p, unary(m, "arith.negf", p));
  Value broken_p = choose(m, test(m, "lt", size, INFINITY), choose(m, test(m, "eq", x, 0), p, constant(m, NAN)), p);
  p = choose(m, minus, choose(m, integer, odd_p, broken_p), p);
  p = choose(m, test(m, "eq", x, 1), constant(m, 1), p);
  return choose(m, test(m, "eq", y, 0), constant(m, 1), p);
}

static Value power(Math *m, Value x, Value y) {
  Math wide = {m->e, NN_F64, true};
  if (m->wide) return power_f64(m, x, y);
  return emit_cast(m->e, power_f64(&wide, emit_cast(m->e, x, m->t, NN_F64), emit_cast(m->e, y, m->t, NN_F64)), NN_F64,
                   m->t);
}

Value gpu_math(Emitter *e, const char *name, int n, const Value *x, NnDtype dtype) {
  Math m = {e, dtype, dtype == NN_F64};
  (void)n;
  if (!strcmp(name, "exp")) return exponential(&m, x[0]);
  if (!strcmp(name, "log")) return logarithm(&m, x[0]);
  if (!strcmp(name, "sin")) return sine(&m, x[0], 0);
  if (!strcmp(name, "cos")) return sine(&m, x[0], 1);
  if (!strcmp(name, "sigmoid")) return sigmoid_f32(&m, x[0]);
  if (!strcmp(name, "tanh")) return hyperbolic_tangent(&m, x[0]);
  if (!strcmp(name, "erf")) return m.wide ? error_function_f64(&m, x[0]) : error_function_f32(&m, x[0]);
  require_promise(!strcmp(name, "pow"), "a function that GPUs do not know");
  return power(&m, x[0], x[1]);
}

// ---------------------------------------------------------------------------------------------------------------------

static Value lane(Emitter *e, Value x, int i) {
  return emit(e, x.depth, "vector.extract", VALUES(x.id), "%%[%d] : f32 from vector<%dxf32>", i, e->lanes);
}

static Value insert(Emitter *e, Value x, Value word, int i) {
  Value f = emit(e, word.depth, "arith.bitcast", VALUES(word.id), "%% : i32 to f32");
  return emit(e, f.depth, "vector.insert", VALUES(f.id, x.id), "%%, %% [%d] : f32 into vector<%dxf32>", i, e->lanes);
}

// Two lanes by one instruction: the first becomes the lower half of a word.
Value gpu_round_bf16(Emitter *e, Value x) {
  Value y = x, sixteen = emit_i32(e, 16), upper = emit_i32(e, -65536);
  int depth = x.depth;
  for (int i = 0; i + 1 < e->lanes; i += 2) {
    Value low = lane(e, x, i), high = lane(e, x, i + 1);
    Value pair = schedule_basic(e, depth, GPU_ROUND_TWO_BF16, VALUES(high.id, low.id));
    Value word = emit(e, depth, "llvm.bitcast", VALUES(pair.id), "%% : vector<2xbf16> to i32");
    y = insert(e, y, emit(e, depth, "arith.shli", VALUES(word.id, sixteen.id), "%%, %% : i32"), i);
    y = insert(e, y, emit(e, depth, "arith.andi", VALUES(word.id, upper.id), "%%, %% : i32"), i + 1);
  }
  if (e->lanes % 2) {
    Value half = schedule_basic(e, depth, GPU_ROUND_BF16, VALUES(lane(e, x, e->lanes - 1).id));
    Value word = emit(e, depth, "arith.extui",
                      VALUES(emit(e, depth, "llvm.bitcast", VALUES(half.id), "%% : bf16 to i16").id),
                      "%% : i16 to i32");
    y = insert(e, y, emit(e, depth, "arith.shli", VALUES(word.id, sixteen.id), "%%, %% : i32"), e->lanes - 1);
  }
  y.varies = x.varies;
  return y;
}
