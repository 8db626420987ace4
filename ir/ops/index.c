// Which integers indices may be. What reads rows clamps an index outside of them, and what adds rows leaves it out;
// their gradients must do the same, and cost nothing more where an index cannot be outside: inputs, which the runtime
// checks, positions, draws, and what is computed of those by arithmetic.
#include <math.h>
#include <string.h>

#include "ir/ops/ops.h"

typedef struct Range {
  double low, high;   // of a float that may be anything, NaN too: the infinities
} Range;

// What a condition says of a value, in the arm of `select` that is looked at: of each element by itself, so that
// nothing is known of what moves elements or joins them.
typedef struct Known {
  MlirValue value;
  Range range;
  const struct Known *outer;
} Known;

static Range range_of(MlirValue v, const Known *known, int *left);

static Range all_of(NnDtype t) {
  if (t == NN_I1) return (Range){0, 1};
  if (t == NN_U8) return (Range){0, UINT8_MAX};
  if (t == NN_I32) return (Range){INT32_MIN, INT32_MAX};
  return (Range){-INFINITY, INFINITY};
}

// As t rounds. Integers that do not fit wrap around, and are then any.
static Range in_type(NnDtype t, double low, double high) {
  Range all = all_of(t);
  if (t == NN_F32) return (Range){(float)low, (float)high};
  if (nn_dtype_is_narrow(t) || !(low >= all.low && high <= all.high)) return all;
  bool counted = t != NN_I64 || (low >= -(double)NN_MAX_ELEMENTS && high <= (double)NN_MAX_ELEMENTS);
  return counted ? (Range){low, high} : all;
}

static Range either(Range x, Range y) { return (Range){fmin(x.low, y.low), fmax(x.high, y.high)}; }
static Range both(Range x, Range y) { return (Range){fmax(x.low, y.low), fmin(x.high, y.high)}; }
static bool is_bounded(Range r) { return isfinite(r.low) && isfinite(r.high); }

// x - x / y * y, where integers are divided towards minus infinity
static bool is_remainder(MlirOperation sub, double *of) {
  MlirOperation product = nn_value_def(nn_operand(sub, 1));
  if (nn_op_of(product) != NN_OP_mul) return false;
  MlirOperation quotient = nn_value_def(nn_operand(product, 0));
  double factor;
  return nn_op_of(quotient) == NN_OP_div && mlirValueEqual(nn_operand(quotient, 0), nn_operand(sub, 0)) &&
         nn_splat_value(nn_operand(quotient, 1), of) && *of >= 1 && nn_splat_value(nn_operand(product, 1), &factor) &&
         factor == *of && !nn_dtype_is_float(nn_value_dtype(nn_operand(sub, 0)));
}

static Range of_binary(NnOp kind, NnDtype t, Range x, Range y) {
  bool is_float = nn_dtype_is_float(t), bounded = is_bounded(x) && is_bounded(y);
  if (!bounded && (is_float || (kind != NN_OP_max && kind != NN_OP_min))) return all_of(t);
  switch (kind) {
  case NN_OP_max: return (Range){fmax(x.low, y.low), fmax(x.high, y.high)};
  case NN_OP_min: return (Range){fmin(x.low, y.low), fmin(x.high, y.high)};
  case NN_OP_add: return in_type(t, x.low + y.low, x.high + y.high);
  case NN_OP_sub: return in_type(t, x.low - y.high, x.high - y.low);
  case NN_OP_mul: {
    double p = x.low * y.low, q = x.low * y.high, r = x.high * y.low, s = x.high * y.high;
    return in_type(t, fmin(fmin(p, q), fmin(r, s)), fmax(fmax(p, q), fmax(r, s)));
  }
  case NN_OP_div:
    if (is_float || y.low != y.high || y.low < 1) return all_of(t);
    return (Range){floor(x.low / y.low), floor(x.high / y.low)};
  default: return all_of(t);
  }
}

// Integers that compare with c as the predicate says, or as it does not.
static bool condition(MlirOperation compare, bool holds, Range *range) {
  double c;
  char text[4];
  const char *predicate = nn_attr_str(compare, "predicate", text, sizeof text, "");
  if (nn_dtype_is_float(nn_value_dtype(nn_operand(compare, 0))) || !nn_splat_value(nn_operand(compare, 1), &c))
    return false;
  bool less = predicate[0] == 'l' ? holds : !holds, equal = (predicate[1] == 'e') == holds;
  if (!strcmp(predicate, "eq") || !strcmp(predicate, "ne")) {
    *range = (Range){c, c};
    return !strcmp(predicate, "eq") == holds;
  }
  *range = less ? (Range){-INFINITY, equal ? c : c - 1} : (Range){equal ? c : c + 1, INFINITY};
  return true;
}

static Range of_select(MlirOperation op, const Known *known, int *left) {
  MlirOperation compare = nn_value_def(nn_operand(op, 0));
  Range arm[2];
  for (int i = 0; i < 2; i++) {
    Known here = {.outer = known};
    bool told = nn_op_of(compare) == NN_OP_compare && condition(compare, i == 0, &here.range);
    if (told) here.value = nn_operand(compare, 0);
    arm[i] = range_of(nn_operand(op, 1 + i), told ? &here : known, left);
    if (arm[i].low > arm[i].high) return range_of(nn_operand(op, 2 - i), known, left);   // never taken
  }
  return either(arm[0], arm[1]);
}

// An argument: an input that is checked; of a loop's step what the call gives, a row of it or all.
static Range of_argument(MlirValue v, int *left) {
  Range all = all_of(nn_value_dtype(v));
  MlirOperation func = mlirBlockGetParentOperation(mlirBlockArgumentGetOwner(v));
  int arg = nn_value_index(v);
  if (mlirOperationIsNull(func)) return all;   // of a block that is being made
  int64_t limit = nn_arg_i64(func, arg, ATTR_limit, 0);
  double besides = (double)nn_arg_i64(func, arg, ATTR_besides, 0);
  if (limit > 0) return both(all, (Range){fmin(0, besides), fmax((double)limit - 1, besides)});
  if (!nn_is_scan_body(func)) return all;
  MlirBlock functions = mlirModuleGetBody(nn_module_of(func));
  NN_FOREACH_OP (f, functions) {
    if (!nn_is(f, "func.func") || mlirRegionIsNull(mlirOperationGetRegion(f, 0)) ||
        mlirBlockIsNull(mlirRegionGetFirstBlock(mlirOperationGetRegion(f, 0))))
      continue;
    NN_FOREACH_OP (op, nn_function_body(f)) {
      NnScan scan;
      if (!nn_is(op, "func.call") || !nn_scan_of(op, &scan) || !mlirOperationEqual(scan.body, func)) continue;
      bool carried = arg >= scan.n_slices && arg < scan.n_slices + scan.n_stacked + scan.n_tied;
      return carried ? all : range_of(nn_operand(op, arg), NULL, left);
    }
  }
  return all;
}

static Range below(MlirOperation op, NnDtype t) {
  int64_t n = nn_operand_type(op, 0).dim[nn_attr_i64(op, "axis", 0)];
  return in_type(t, 0, (double)n - 1);
}

static Range of_result(MlirOperation op, NnDtype t, const Known *known, int *left) {
  Range all = all_of(t), x = all;
  double c;
  char kind[16];
  switch (nn_op_of(op)) {
  case NN_OP_constant: return isfinite(c = nn_fill_value(op)) ? in_type(t, c, c) : all;
  case NN_OP_iota: return in_type(t, 0, (double)nn_result_type(op, 0).dim[nn_attr_i64(op, "axis", 0)] - 1);
  case NN_OP_random_uniform:
    if (nn_dtype_is_narrow(t)) return all;
    return (Range){0, t == NN_F64 ? nextafter(1, 0) : (double)nextafterf(1, 0)};
  case NN_OP_argmax:
  case NN_OP_argsort: return below(op, t);
  case NN_OP_cumulative:
    nn_attr_str(op, "kind", kind, sizeof kind, "");
    if (!strncmp(kind, "arg", 3)) return below(op, t);
    x = range_of(nn_operand(op, 0), NULL, left);
    c = (double)nn_result_type(op, 0).dim[nn_attr_i64(op, "axis", 0)];
    if (strcmp(kind, "sum") || nn_dtype_is_float(t) || !is_bounded(x)) return all;
    return in_type(t, fmin(x.low, c * x.low), fmax(x.high, c * x.high));
  case NN_OP_broadcast:
  case NN_OP_reshape:
  case NN_OP_transpose:
  case NN_OP_slice:
  case NN_OP_reduce_max:
  case NN_OP_gather:
  case NN_OP_take_along: return range_of(nn_operand(op, 0), NULL, left);
  case NN_OP_concat:
    x = range_of(nn_operand(op, 0), NULL, left);
    for (int i = 1; i < (int)mlirOperationGetNumOperands(op); i++)
      x = either(x, range_of(nn_operand(op, i), NULL, left));
    return x;
  case NN_OP_pad:
    c = nn_fill_value(op);
    return either(range_of(nn_operand(op, 0), NULL, left), isfinite(c) ? in_type(t, c, c) : all);
  case NN_OP_stop_gradient: return range_of(nn_operand(op, 0), known, left);
  case NN_OP_floor: x = range_of(nn_operand(op, 0), known, left); return in_type(t, floor(x.low), floor(x.high));
  case NN_OP_cast:
    x = range_of(nn_operand(op, 0), known, left);
    if (!is_bounded(x) || t == NN_I1) return all;
    return nn_dtype_is_float(t) ? in_type(t, x.low, x.high) : in_type(t, trunc(x.low), trunc(x.high));
  case NN_OP_select: return of_select(op, known, left);
  case NN_OP_sub:
  case NN_OP_add:
  case NN_OP_mul:
  case NN_OP_div:
  case NN_OP_max:
  case NN_OP_min:
    if (nn_op_of(op) == NN_OP_sub && is_remainder(op, &c)) return (Range){0, c - 1};
    x = range_of(nn_operand(op, 0), known, left);
    return of_binary(nn_op_of(op), t, x, range_of(nn_operand(op, 1), known, left));
  default: return all;
  }
}

// `left`: how many more values are looked at, so that it takes no time in a large program.
static Range range_of(MlirValue v, const Known *known, int *left) {
  NnDtype t = nn_value_dtype(v);
  if (--*left < 0) return all_of(t);
  MlirOperation op = nn_value_def(v);
  Range r = mlirOperationIsNull(op) ? of_argument(v, left) : of_result(op, t, known, left);
  for (; known; known = known->outer)
    if (mlirValueEqual(known->value, v)) r = both(r, known->range);
  return r;
}

static Range range_of_indices(MlirValue indices) {
  int left = 2000;
  return range_of(indices, NULL, &left);
}

MlirValue nn_index_inside(NnBuilder *b, MlirValue indices, int64_t rows) {
  Range r = range_of_indices(indices);
  MlirValue low = nn_null_value(), high = low;
  if (r.low < 0) low = nn_compare(b, "ge", indices, nn_constant_like(b, indices, 0));
  if (r.high >= (double)rows) high = nn_compare(b, "lt", indices, nn_constant_like(b, indices, (double)rows));
  if (nn_value_is_null(low)) return high;
  return nn_value_is_null(high) ? low : nn_binary(b, NN_OP_and, low, high);
}

MlirValue nn_index_clamped(NnBuilder *b, MlirValue indices, int64_t rows) {
  Range r = range_of_indices(indices);
  double last = (double)rows - 1;
  if (r.high > last) indices = nn_binary(b, NN_OP_min, indices, nn_constant_like(b, indices, last));
  return r.low < 0 ? nn_binary(b, NN_OP_max, indices, nn_constant_like(b, indices, 0)) : indices;
}
