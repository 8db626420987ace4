// Evaluates a value of a kernel's body at the current point, one vector at a time: views rewrite the index map, maps
// become arith and math operations, leaves become loads. Transcendental functions are the target's.
//
// No rewriting of floating point, and no contraction of a product and a sum to one fused operation: a value is the same
// bits in whatever kernel it is computed, stored by one or computed again inside of another.
#include <math.h>
#include <string.h>

#include "codegen/kernel/kernel.h"
#include "support/alloc.h"
#include "support/text.h"

void expression_bind(Emitter *e, MlirValue v, const IndexMap *map, Value value) {
  *ARRAY_ADD(e->memo, e->n_memo) = (Memo){v.ptr, *map, e->tile, value};
}

static bool memo_find(const Emitter *e, MlirValue v, const IndexMap *map, Value *out) {
  for (int i = e->n_memo - 1; i >= 0; i--) {
    const Memo *m = &e->memo[i];
    if (m->value != v.ptr || (m->result.varies && m->tile != e->tile) || !index_map_equal(&m->map, map)) continue;
    *out = m->result;
    return true;
  }
  return false;
}

static Value unary(Emitter *e, const char *op, Value x, TypeName type) {
  return emit_of(e, op, OF(x), "%% : %s", type.text);
}

static Value convert(Emitter *e, const char *op, Value x, TypeName from, TypeName to) {
  return emit_of(e, op, OF(x), "%% : %s to %s", from.text, to.text);
}

static Value binary(Emitter *e, const char *op, Value a, Value b, TypeName type) {
  return emit_of(e, op, OF(a, b), "%%, %% : %s", type.text);
}

Value emit_select(Emitter *e, Value c, Value a, Value b, NnDtype dtype) {
  return emit_of(e, "arith.select", OF(c, a, b), "%%, %%, %% : %s, %s", vector_type(e, NN_I1).text,
                 vector_type(e, dtype).text);
}

static bool is_signed_int(NnDtype d) { return d == NN_I32 || d == NN_I64; }

// A comparison with NaN is false, but for `ne`.
Value emit_compare(Emitter *e, const char *predicate, Value a, Value b, NnDtype dtype) {
  bool equality = !strcmp(predicate, "eq") || !strcmp(predicate, "ne"), f = nn_dtype_is_float(dtype);
  const char *kind = f && *predicate == 'u' ? ""
                     : f                    ? (strcmp(predicate, "ne") ? "o" : "u")
                     : equality             ? ""
                     : is_signed_int(dtype) ? "s"
                                            : "u";
  return emit_of(e, f ? "arith.cmpf" : "arith.cmpi", OF(a, b), "%s%s, %%, %% : %s", kind, predicate,
                 vector_type(e, dtype).text);
}

// Integers round toward minus infinity; a zero divisor gives the dividend (the lanes of a tail divide by zero too).
static Value divide_integers(Emitter *e, NnDtype dtype, Value a, Value b) {
  TypeName type = vector_type(e, dtype);
  Value zero = emit_splat(e, dtype, 0), one = emit_splat(e, dtype, 1);
  b = emit_select(e, emit_compare(e, "eq", b, zero, dtype), one, b, dtype);
  if (!is_signed_int(dtype)) return binary(e, "arith.divui", a, b, type);
  Value negated = binary(e, "arith.subi", zero, a, type),
        by_minus_one = emit_compare(e, "eq", b, emit_splat(e, dtype, -1), dtype);
  b = emit_select(e, by_minus_one, one, b, dtype);
  Value q = binary(e, "arith.divsi", a, b, type), r = binary(e, "arith.remsi", a, b, type);
  Value inexact = emit_compare(e, "ne", r, zero, dtype);
  Value differ = emit_compare(e, "lt", binary(e, "arith.xori", r, b, type), zero, dtype);
  Value adjust = binary(e, "arith.andi", inexact, differ, vector_type(e, NN_I1));
  q = emit_select(e, adjust, binary(e, "arith.subi", q, one, type), q, dtype);
  return emit_select(e, by_minus_one, negated, q, dtype);
}

// The product of a's squares of squares that b's bits choose, which wraps around as all products do. Where b is
// negative 0, but of 1 and -1.
static Value power_of_integers(Emitter *e, NnDtype dtype, Value a, Value b) {
  TypeName type = vector_type(e, dtype);
  Value zero = emit_splat(e, dtype, 0), one = emit_splat(e, dtype, 1), square = a, power = one;
  int bits = 8 * nn_dtype_bytes(dtype) - is_signed_int(dtype);
  for (int i = 0; i < bits; i++) {
    Value bit = binary(e, "arith.andi", b, emit_splat(e, dtype, ldexp(1, i)), type);
    power = emit_select(e, emit_compare(e, "ne", bit, zero, dtype), binary(e, "arith.muli", power, square, type), power,
                        dtype);
    square = binary(e, "arith.muli", square, square, type);
  }
  if (!is_signed_int(dtype)) return power;
  Value minus_one = emit_splat(e, dtype, -1), odd = binary(e, "arith.andi", b, one, type);
  Value of_minus_one = emit_select(e, emit_compare(e, "ne", odd, zero, dtype), minus_one, one, dtype);
  Value below = emit_select(e, emit_compare(e, "eq", a, minus_one, dtype), of_minus_one, zero, dtype);
  below = emit_select(e, emit_compare(e, "eq", a, one, dtype), one, below, dtype);
  return emit_select(e, emit_compare(e, "lt", b, zero, dtype), below, power, dtype);
}

Value emit_binary(Emitter *e, NnOp op, NnDtype dtype, Value a, Value b) {
  TypeName type = vector_type(e, dtype);
  bool f = nn_dtype_is_float(dtype);
  switch (op) {
  case NN_OP_add: return binary(e, f ? "arith.addf" : "arith.addi", a, b, type);
  case NN_OP_sub: return binary(e, f ? "arith.subf" : "arith.subi", a, b, type);
  case NN_OP_mul: return binary(e, f ? "arith.mulf" : "arith.muli", a, b, type);
  case NN_OP_div: return f ? binary(e, "arith.divf", a, b, type) : divide_integers(e, dtype, a, b);
  case NN_OP_max:
    return binary(e, f ? "arith.maximumf" : is_signed_int(dtype) ? "arith.maxsi" : "arith.maxui", a, b, type);
  case NN_OP_min:
    return binary(e, f ? "arith.minimumf" : is_signed_int(dtype) ? "arith.minsi" : "arith.minui", a, b, type);
  case NN_OP_and: return binary(e, "arith.andi", a, b, type);
  case NN_OP_or: return binary(e, "arith.ori", a, b, type);
  case NN_OP_pow:
    return f ? e->module->target.math(e, "pow", 2, (Value[]){a, b}, dtype) : power_of_integers(e, dtype, a, b);
  default: require_promise(false, "an op in a kernel that is no map of two operands"); return a;
  }
}

Value emit_cast(Emitter *e, Value x, NnDtype from, NnDtype to) {
  if (nn_dtype_is_narrow(to)) return from == to ? x : emit_round(e, to, emit_cast(e, x, from, NN_F32));
  from = nn_dtype_wide(from);
  TypeName a = vector_type(e, from), b = vector_type(e, to);
  if (from == to) return x;
  bool from_float = nn_dtype_is_float(from), to_float = nn_dtype_is_float(to);
  if (to == NN_I1) return emit_compare(e, "ne", x, emit_splat(e, from, 0), from);
  if (from_float && to_float) return convert(e, to == NN_F64 ? "arith.extf" : "arith.truncf", x, a, b);
  if (to_float) return convert(e, is_signed_int(from) ? "arith.sitofp" : "arith.uitofp", x, a, b);
  if (from_float) {
    if (to != NN_U8) return convert(e, "arith.fptosi", x, a, b);
    Value wide = convert(e, "arith.fptosi", x, a, vector_type(e, NN_I32));
    return convert(e, "arith.trunci", wide, vector_type(e, NN_I32), b);
  }
  if (nn_dtype_bytes(to) < nn_dtype_bytes(from)) return convert(e, "arith.trunci", x, a, b);
  return convert(e, is_signed_int(from) ? "arith.extsi" : "arith.extui", x, a, b);
}

// ---------------------------------------------------------------------------------------------------------------------

Value emit_take_lanes(Emitter *e, Value x, const char *element, int lanes, int first, int count, int width) {
  Text t = {0};
  for (int i = 0; i < width; i++) text_add(&t, "%s%d", i ? ", " : "", first + i % count);
  Value v = emit_of(e, "vector.shuffle", OF(x, x), "%%, %% [%s] : vector<%dx%s>, vector<%dx%s>", t.data, lanes, element,
                    lanes, element);
  text_free(&t);
  return v;
}

static Value math1(Emitter *e, const char *name, Value x, NnDtype dtype) {
  return e->module->target.math(e, name, 1, &x, dtype);
}

Value emit_lowest(Emitter *e, NnDtype dtype) {
  switch (dtype) {
  case NN_F32:
  case NN_F64:
  case NN_BF16:
  case NN_F16: return emit_splat(e, dtype, -INFINITY);
  case NN_I32: return emit_splat(e, dtype, INT32_MIN);
  case NN_I64: return emit_splat(e, dtype, (double)INT64_MIN);
  default: return emit_splat(e, dtype, 0);
  }
}

// libmvec leaves its fast path, a hundred times slower, where the result would be subnormal; masked scores of attention
// are such. Those results are 0 here.
Value emit_exponential(Emitter *e, Value x, NnDtype dtype) {
  if (e->module->target.approximates && dtype == NN_F32) return math1(e, "exp", x, dtype);
  // log of the least normal number
  Value zero = emit_splat(e, dtype, 0),
        least = emit_splat(e, dtype, dtype == NN_F32 ? -0x1.5d589ep6 : -0x1.6232bdd7abcd2p9);
  Value vanishes = emit_compare(e, "lt", x, least, dtype);
  return emit_select(e, vanishes, zero, math1(e, "exp", emit_select(e, vanishes, zero, x, dtype), dtype), dtype);
}

static Value negate(Emitter *e, NnDtype dtype, Value x) {
  if (nn_dtype_is_float(dtype)) return unary(e, "arith.negf", x, vector_type(e, dtype));
  return emit_binary(e, NN_OP_sub, dtype, emit_splat(e, dtype, 0), x);
}

static Value sign_of(Emitter *e, NnDtype dtype, Value x) {
  Value zero = emit_splat(e, dtype, 0);
  Value v = emit_select(e, emit_compare(e, "gt", x, zero, dtype), emit_splat(e, dtype, 1), x, dtype);
  if (dtype == NN_U8 || dtype == NN_I1) return v;
  return emit_select(e, emit_compare(e, "lt", x, zero, dtype), emit_splat(e, dtype, -1), v, dtype);
}

static Value emit_unary(Emitter *e, NnOp op, NnDtype dtype, Value x) {
  bool f = nn_dtype_is_float(dtype);
  TypeName type = vector_type(e, dtype);
  Value zero = emit_splat(e, dtype, 0), one = emit_splat(e, dtype, 1);
  switch (op) {
  case NN_OP_neg: return negate(e, dtype, x);
  case NN_OP_abs:
    if (f) return unary(e, "math.absf", x, type);
    return is_signed_int(dtype) ? emit_select(e, emit_compare(e, "lt", x, zero, dtype), negate(e, dtype, x), x, dtype)
                                : x;
  case NN_OP_sign: return sign_of(e, dtype, x);
  case NN_OP_sqrt: return unary(e, "math.sqrt", x, type);
  case NN_OP_rsqrt: return emit_binary(e, NN_OP_div, dtype, one, unary(e, "math.sqrt", x, type));
  case NN_OP_recip: return emit_binary(e, NN_OP_div, dtype, one, x);
  case NN_OP_exp: return emit_exponential(e, x, dtype);
  case NN_OP_log: return math1(e, "log", x, dtype);
  case NN_OP_sin: return math1(e, "sin", x, dtype);
  case NN_OP_cos: return math1(e, "cos", x, dtype);
  case NN_OP_tanh: return math1(e, "tanh", x, dtype);
  case NN_OP_erf: return math1(e, "erf", x, dtype);
  case NN_OP_sigmoid:
    if (e->module->target.approximates && dtype == NN_F32) return math1(e, "sigmoid", x, dtype);
    return emit_binary(e, NN_OP_div, dtype, one,
                       emit_binary(e, NN_OP_add, dtype, one, emit_exponential(e, negate(e, dtype, x), dtype)));
  // 0 > x ? 0 : x keeps a NaN, so that a diverging run is seen.
  case NN_OP_relu: return emit_select(e, emit_compare(e, "gt", zero, x, dtype), zero, x, dtype);
  case NN_OP_floor: return f ? unary(e, "math.floor", x, type) : x;
  case NN_OP_not: return binary(e, "arith.xori", x, one, type);
  default: require_promise(false, "an op in a kernel that is no map of one operand"); return x;
  }
}

Value emit_horizontal(Emitter *e, NnOp op, NnDtype dtype, Value x) {
  dtype = nn_dtype_wide(dtype);
  int lanes = e->lanes;
  const char *element = element_type(dtype);
  for (int width = lanes; width > 1; width /= 2) {
    Value low = emit_take_lanes(e, x, element, width, 0, width / 2, width / 2),
          high = emit_take_lanes(e, x, element, width, width / 2, width / 2, width / 2);
    e->lanes = width / 2;
    x = emit_binary(e, op, dtype, low, high);
    e->lanes = lanes;
  }
  Value scalar = emit(e, x.depth, "vector.extract", VALUES(x.id), "%%[0] : %s from vector<1x%s>", element, element);
  return emit(e, x.depth, "vector.broadcast", VALUES(scalar.id), "%% : %s to %s", element, vector_type(e, dtype).text);
}

// The result is one of the operands' values, up to the sign, or a small integer: no narrow type needs to round it.
static bool is_exact(NnOp op) {
  switch (op) {
  case NN_OP_neg:
  case NN_OP_abs:
  case NN_OP_sign:
  case NN_OP_relu:
  case NN_OP_floor:
  case NN_OP_max:
  case NN_OP_min: return true;
  default: return false;
  }
}

static Value map_op(Emitter *e, MlirOperation op, NnDtype result, const IndexMap *map) {
  NnOp kind = nn_op_of(op);
  int n = (int)mlirOperationGetNumOperands(op);
  require_promise(n >= 1 && n <= 3, "an op in a kernel that is no map");
  Value x[3];
  for (int i = 0; i < n; i++) x[i] = expression(e, mlirOperationGetOperand(op, i), map);
  NnDtype dtype = nn_value_dtype(mlirOperationGetOperand(op, 0));
  if (kind == NN_OP_select) return emit_select(e, x[0], x[1], x[2], result);
  if (kind == NN_OP_cast) return emit_cast(e, x[0], dtype, result);
  if (kind == NN_OP_compare) {
    char predicate[8];
    return emit_compare(e, nn_attr_str(op, "predicate", predicate, sizeof predicate, "eq"), x[0], x[1], dtype);
  }
  NnDtype wide = nn_dtype_wide(dtype);
  Value y = n == 1 ? emit_unary(e, kind, wide, x[0]) : emit_binary(e, kind, wide, x[0], x[1]);
  return is_exact(kind) ? y : emit_round(e, dtype, y);
}

static Value iota(Emitter *e, MlirOperation op, const NnType *type, const IndexMap *map) {
  IndexTerm term = map->term[nn_attr_i64(op, "axis", 0)];
  Access a = {.offset = term.offset};
  if (term.axis >= 0) a.stride[term.axis] = term.scale;
  bool vary;
  int64_t stride;
  Value first = emit_offset(e, &a, &vary, &stride);
  if (type->dtype == NN_F64 || type->dtype == NN_I64)
    return emit_cast(e, emit_lane_indices(e, first, stride, true), NN_I64, type->dtype);
  return emit_cast(e, emit_lane_indices(e, first, stride, false), NN_I32, type->dtype);
}

static const WorkspaceValue *workspace_find(const Emitter *e, MlirValue v) {
  for (int i = 0; i < e->n_workspace; i++)
    if (e->workspace[i].value == v.ptr) return &e->workspace[i];
  return NULL;
}

// A combined reduction in the workspace, laid out as the kept shape.
static Value load_reduced(Emitter *e, MlirValue v, const NnType *type, const IndexMap *map) {
  const WorkspaceValue *w = workspace_find(e, v);
  require_promise(w != NULL, "a reduction is used before it is complete, or at another row");
  Layout own = layout_row_major(type);
  Access a = access_compose(&own, map);
  // The workspace is the buffer after arguments and results; its values start at multiples of eight bytes. They are of
  // the type summed in.
  a.offset += w->byte_offset / nn_dtype_bytes(w->dtype);
  return emit_round(e, type->dtype, emit_load(e, e->k->n_args + e->k->n_results, w->dtype, &a));
}

static Value evaluate(Emitter *e, MlirValue v, const IndexMap *map) {
  int arg;
  Layout layout;
  NnType type = nn_value_type(v);
  if (layout_of_argument(v, &arg, &layout)) {
    Access a = access_compose(&layout, map);
    return e->argument ? e->argument(e, arg, type.dtype, &a) : emit_load(e, arg, type.dtype, &a);
  }
  MlirOperation op = nn_value_def(v);
  NnOp kind = nn_op_of(op);
  switch (nn_op_info(kind)->kind) {
  case NN_KIND_VIEW: {
    IndexMap inner;
    bool ok = index_map_through_view(op, map, &inner);
    require_promise(ok, "a reshape of a computed value inside a kernel");
    return expression(e, mlirOperationGetOperand(op, 0), &inner);
  }
  case NN_KIND_LIBRARY: require_promise(false, "the result of a library op that nobody bound"); return (Value){0};
  case NN_KIND_REDUCE: return load_reduced(e, v, &type, map);
  case NN_KIND_SOURCE:
    if (kind == NN_OP_constant) return emit_splat(e, type.dtype, nn_attr_f64(op, "value", 0));
    if (kind == NN_OP_iota) return iota(e, op, &type, map);
    return emit_random(e, op, type, map);
  default: return map_op(e, op, type.dtype, map);
  }
}

Value expression(Emitter *e, MlirValue v, const IndexMap *map) {
  Value found;
  if (memo_find(e, v, map, &found)) return found;
  Value value = evaluate(e, v, map);
  expression_bind(e, v, map, value);
  return value;
}
