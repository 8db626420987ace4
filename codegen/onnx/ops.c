// Which nodes of ONNX compute what an op of the dialect does (docs/ops.md; onnx.ai, Operators, opset 18).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/onnx/onnx.h"

typedef struct Place {
  OnnxGraph *g;
  MlirOperation op;
  NnType x, y;   // of the first operand, where there is one, and of the first result
} Place;

static OnnxName name_of_operand(const Place *p, int i) { return onnx_operand(p->g, p->op, i); }

static int list(const Place *p, const char *name, int64_t *out) { return nn_attr_i64s(p->op, name, out, NN_MAX_RANK); }

static bool is_used(MlirValue v) { return !mlirOpOperandIsNull(mlirValueGetFirstUse(v)); }

// Ops that are one node of the operands; NULL: it is none of these.
static const char *node_type(NnOp op) {
  switch (op) {
#define SAME(name, type) \
  case NN_OP_##name: return type;
    SAME(neg, "Neg")
    SAME(abs, "Abs")
    SAME(sign, "Sign")
    SAME(exp, "Exp")
    SAME(log, "Log")
    SAME(sqrt, "Sqrt")
    SAME(recip, "Reciprocal")
    SAME(sin, "Sin")
    SAME(cos, "Cos")
    SAME(tanh, "Tanh")
    SAME(erf, "Erf")
    SAME(sigmoid, "Sigmoid")
    SAME(relu, "Relu")
    SAME(floor, "Floor")
    SAME(not, "Not")
    SAME(add, "Add")
    SAME(sub, "Sub")
    SAME(mul, "Mul")
    SAME(pow, "Pow")
    SAME(max, "Max")
    SAME(min, "Min")
    SAME(and, "And")
    SAME(or, "Or")
    SAME(select, "Where")
    SAME(stop_gradient, "Identity")
    SAME(optimization_barrier, "Identity")
#undef SAME
  default: return NULL;
  }
}

static OnnxName compare(const Place *p) {
  static const char *const types[][2] = {{"eq", "Equal"},          {"lt", "Less"},    {"le", "LessOrEqual"},
                                         {"ge", "GreaterOrEqual"}, {"gt", "Greater"}, {"ne", "Equal"}};
  char predicate[8];
  nn_attr_str(p->op, "predicate", predicate, sizeof predicate, "");
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (strcmp(predicate, types[i][0]) != 0) continue;
    OnnxName y = onnx_binary(p->g, types[i][1], name_of_operand(p, 0), name_of_operand(p, 1));
    return strcmp(predicate, "ne") == 0 ? onnx_unary(p->g, "Not", y) : y;
  }
  return NULL;
}

static OnnxName iota(const Place *p) {
  int64_t axis = nn_attr_i64(p->op, "axis", 0), dim[NN_MAX_RANK];
  OnnxName x = onnx_range(p->g, p->y.dtype, 0, p->y.dim[axis]);
  for (int i = 0; i < p->y.rank; i++) dim[i] = i == axis ? p->y.dim[i] : 1;
  return onnx_expand(p->g, onnx_reshape(p->g, x, p->y.rank, dim), p->y.rank, p->y.dim);
}

static OnnxName broadcast(const Place *p) {
  int64_t dims[NN_MAX_RANK], one[NN_MAX_RANK];
  list(p, "dims", dims);
  for (int i = 0; i < p->y.rank; i++) one[i] = 1;
  for (int i = 0; i < p->x.rank; i++) one[dims[i]] = p->x.dim[i];
  return onnx_expand(p->g, onnx_reshape(p->g, name_of_operand(p, 0), p->y.rank, one), p->y.rank, p->y.dim);
}

static OnnxName slice(const Place *p) {
  int64_t starts[NN_MAX_RANK], sizes[NN_MAX_RANK], strides[NN_MAX_RANK], ends[NN_MAX_RANK], axes[NN_MAX_RANK];
  int n = list(p, "starts", starts);
  list(p, "sizes", sizes);
  list(p, "strides", strides);
  for (int i = 0; i < n; i++) {
    int64_t last = starts[i] + (sizes[i] - 1) * strides[i];
    axes[i] = i;
    ends[i] = strides[i] > 0 ? last + 1 : last > 0 ? last - 1 : INT64_MIN;
  }
  return onnx_node(p->g, "Slice", 5,
                   (OnnxName[]){name_of_operand(p, 0), onnx_ints(p->g, n, starts), onnx_ints(p->g, n, ends),
                                onnx_ints(p->g, n, axes), onnx_ints(p->g, n, strides)},
                   NULL);
}

static OnnxName reduce(const Place *p, const char *type, OnnxName x, bool keep) {
  int64_t axes[NN_MAX_RANK];
  int n = list(p, "axes", axes);
  Text attributes = {0};
  onnx_attribute_int(&attributes, "keepdims", keep);
  return onnx_node(p->g, type, 2, (OnnxName[]){x, onnx_ints(p->g, n, axes)}, &attributes);
}

static OnnxName variance(const Place *p) {
  OnnxName x = onnx_binary(p->g, "Sub", name_of_operand(p, 0), reduce(p, "ReduceMean", name_of_operand(p, 0), true));
  return reduce(p, "ReduceMean", onnx_binary(p->g, "Mul", x, x), false);
}

static OnnxName pad(const Place *p, const char **why) {
  int64_t pads[2 * NN_MAX_RANK], inside[NN_MAX_RANK];
  int n = list(p, "low", pads);
  nn_attr_i64s(p->op, "high", pads + n, NN_MAX_RANK);
  list(p, "interior", inside);
  for (int i = 0; i < n; i++)
    if (inside[i]) {
      *why = "padding between elements";
      return NULL;
    }
  return onnx_node(p->g, "Pad", 3,
                   (OnnxName[]){name_of_operand(p, 0), onnx_ints(p->g, 2 * n, pads),
                                onnx_number(p->g, p->x.dtype, nn_attr_f64(p->op, "value", 0))},
                   NULL);
}

static OnnxName with_axis(const Place *p, const char *type, int n, const OnnxName *inputs) {
  Text attributes = {0};
  onnx_attribute_int(&attributes, "axis", nn_attr_i64(p->op, "axis", -1));
  return onnx_node(p->g, type, n, inputs, &attributes);
}

static OnnxName concat(const Place *p) {
  int n = (int)mlirOperationGetNumOperands(p->op);
  OnnxName inputs[NN_MAX_OPERANDS];
  for (int i = 0; i < n; i++) inputs[i] = name_of_operand(p, i);
  return with_axis(p, "Concat", n, inputs);
}

static OnnxName argmax(const Place *p) {
  Text attributes = {0};
  onnx_attribute_int(&attributes, "axis", nn_attr_i64(p->op, "axis", 0));
  onnx_attribute_int(&attributes, "keepdims", 0);
  return onnx_cast(p->g, onnx_node(p->g, "ArgMax", 1, (OnnxName[]){name_of_operand(p, 0)}, &attributes), NN_I32);
}

// Indices in order, the lower one first where elements are equal, as in the program; ONNX leaves open where NaN goes.
static OnnxName argsort(const Place *p) {
  int64_t axis = nn_attr_i64(p->op, "axis", 0);
  Text attributes = {0};
  onnx_attribute_int(&attributes, "axis", axis);
  onnx_attribute_int(&attributes, "largest", nn_attr_bool(p->op, "descending", false));
  OnnxName count = onnx_ints(p->g, 1, &p->y.dim[axis]);
  return onnx_cast(p->g, onnx_node_second(p->g, "TopK", 2, (OnnxName[]){name_of_operand(p, 0), count}, &attributes),
                   NN_I32);
}

// What the values of v are below, where v is an input whose values are checked; 0: nothing is known.
static int64_t limit_of(MlirValue v) {
  while (!mlirValueIsABlockArgument(v)) {
    MlirOperation op = mlirOpResultGetOwner(v);
    NnOp kind = nn_op_of(op);
    if (kind != NN_OP_cast && kind != NN_OP_reshape && kind != NN_OP_transpose && kind != NN_OP_broadcast) return 0;
    v = nn_operand(op, 0);
    if (nn_dtype_is_float(nn_value_dtype(v))) return 0;
  }
  MlirOperation func = mlirBlockGetParentOperation(mlirBlockArgumentGetOwner(v));
  int arg = (int)mlirBlockArgumentGetArgNumber(v);
  return nn_arg_i64(func, arg, ATTR_besides, 0) ? 0 : nn_arg_i64(func, arg, ATTR_limit, 0);
}

// Operand 1: indices, of a type that ONNX has them of.
static OnnxName indices(const Place *p) {
  NnDtype dtype = nn_value_dtype(nn_operand(p->op, 1));
  return dtype == NN_I32 || dtype == NN_I64 ? name_of_operand(p, 1) : onnx_cast(p->g, name_of_operand(p, 1), NN_I64);
}

// `at` among n places: what is outside becomes the nearest, as in the program. ONNX counts negative ones from the end
// and fails at the others.
static OnnxName nearest(const Place *p, OnnxName at, int64_t n) {
  int64_t limit = limit_of(nn_operand(p->op, 1));
  NnDtype dtype = nn_value_dtype(nn_operand(p->op, 1));
  if (limit && limit <= n) return at;
  if (dtype != NN_I32) dtype = NN_I64;
  return onnx_node(p->g, "Clip", 3,
                   (OnnxName[]){at, onnx_number(p->g, dtype, 0), onnx_number(p->g, dtype, (double)(n - 1))}, NULL);
}

static OnnxName gather(const Place *p) {
  return onnx_binary(p->g, "Gather", name_of_operand(p, 0), nearest(p, indices(p), p->x.dim[0]));
}

static OnnxName take_along(const Place *p) {
  int64_t n = p->x.dim[nn_attr_i64(p->op, "axis", -1)];
  return with_axis(p, "GatherElements", 2, (OnnxName[]){name_of_operand(p, 0), nearest(p, indices(p), n)});
}

// Rows that are brought together at their indices, in a table of one value or in operand 2.
static OnnxName scatter(const Place *p, const char *reduction, double neutral, bool has_table) {
  NnType type = nn_value_type(nn_operand(p->op, 1)), rows = p->x;
  OnnxName nothing = onnx_number(p->g, p->y.dtype, neutral),
           table = has_table ? name_of_operand(p, 2) : onnx_expand(p->g, nothing, p->y.rank, p->y.dim),
           given = indices(p), at = nearest(p, given, p->y.dim[0]), source = name_of_operand(p, 0);
  if (at != given) {   // rows of no place are left out
    for (int i = type.rank; i < rows.rank; i++) type.dim[i] = 1;
    OnnxName within = onnx_reshape(p->g, onnx_binary(p->g, "Equal", at, given), rows.rank, type.dim);
    source = onnx_node(p->g, "Where", 3, (OnnxName[]){within, source, nothing}, NULL);
  }
  int64_t one_index[NN_MAX_RANK + 1];   // each in a vector of its own
  memcpy(one_index, type.dim, sizeof type.dim);
  one_index[type.rank] = 1;
  at = onnx_reshape(p->g, onnx_cast(p->g, at, NN_I64), type.rank + 1, one_index);
  Text attributes = {0};
  onnx_attribute_string(&attributes, "reduction", reduction);
  return onnx_node(p->g, "ScatterND", 3, (OnnxName[]){table, at, source}, &attributes);
}

// Rows of no index, and those of nothing but -infinity, are zero.
static OnnxName scatter_max(const Place *p) {
  OnnxName y = scatter(p, "max", -INFINITY, false),
           none = onnx_binary(p->g, "Equal", y, onnx_number(p->g, p->y.dtype, -INFINITY));
  return onnx_node(p->g, "Where", 3, (OnnxName[]){none, onnx_number(p->g, p->y.dtype, 0), y}, NULL);
}

// Of several elements at one place the last: which that is, is the largest of their places.
static OnnxName scatter_last(const Place *p, int64_t axis, OnnxName at, OnnxName given) {
  NnType one = p->x;
  OnnxName none = onnx_number(p->g, NN_I64, -1), zero = onnx_number(p->g, NN_I64, 0);
  Text scattered = {0}, gathered = {0};
  for (int i = 0; i < one.rank; i++) one.dim[i] = i == axis ? p->x.dim[i] : 1;
  OnnxName place = onnx_reshape(p->g, onnx_range(p->g, NN_I64, 0, p->x.dim[axis]), one.rank, one.dim);
  place = onnx_expand(p->g, place, p->x.rank, p->x.dim);
  if (at != given)
    place = onnx_node(p->g, "Where", 3, (OnnxName[]){onnx_binary(p->g, "Equal", at, given), place, none}, NULL);
  onnx_attribute_int(&scattered, "axis", axis);
  onnx_attribute_string(&scattered, "reduction", "max");
  OnnxName winner = onnx_node(p->g, "ScatterElements", 3,
                              (OnnxName[]){onnx_expand(p->g, none, p->y.rank, p->y.dim), at, place}, &scattered);
  onnx_attribute_int(&gathered, "axis", axis);
  OnnxName y = onnx_node(p->g, "GatherElements", 2,
                         (OnnxName[]){name_of_operand(p, 0), onnx_binary(p->g, "Max", winner, zero)}, &gathered);
  OnnxName found = onnx_binary(p->g, "GreaterOrEqual", winner, zero);
  return onnx_node(p->g, "Where", 3, (OnnxName[]){found, y, onnx_number(p->g, p->y.dtype, 0)}, NULL);
}

// Elements added up at their indices along an axis.
static OnnxName scatter_along(const Place *p) {
  int64_t axis = nn_attr_i64(p->op, "axis", -1);
  OnnxName nothing = onnx_number(p->g, p->y.dtype, 0), given = indices(p), source = name_of_operand(p, 0),
           at = nearest(p, given, p->y.dim[axis]);
  Text attributes = {0};
  if (nn_attr_bool(p->op, "last", false)) return scatter_last(p, axis, at, given);
  if (at != given)   // those of no place are left out
    source = onnx_node(p->g, "Where", 3, (OnnxName[]){onnx_binary(p->g, "Equal", at, given), source, nothing}, NULL);
  onnx_attribute_int(&attributes, "axis", axis);
  onnx_attribute_string(&attributes, "reduction", "add");
  OnnxName zeros = onnx_expand(p->g, nothing, p->y.rank, p->y.dim);
  return onnx_node(p->g, "ScatterElements", 3, (OnnxName[]){zeros, at, source}, &attributes);
}

static OnnxName turned(const Place *p, int i, const char *attribute) {
  NnType t = nn_value_type(nn_operand(p->op, i));
  int64_t perm[NN_MAX_RANK];
  if (!nn_attr_bool(p->op, attribute, false)) return name_of_operand(p, i);
  for (int k = 0; k < t.rank; k++) perm[k] = k < t.rank - 2 ? k : 2 * t.rank - 3 - k;
  return onnx_transpose(p->g, name_of_operand(p, i), t.rank, perm);
}

// The number that all elements of v are, where v is a constant; 0: it is none.
static double constant_of(MlirValue v) {
  MlirOperation op = nn_value_def(v);
  if (nn_op_of(op) == NN_OP_broadcast) op = nn_value_def(nn_operand(op, 0));
  return nn_op_of(op) == NN_OP_constant ? nn_fill_value(op) : 0;
}

// Integers are divided towards minus infinity, ONNX's towards zero: those quotients are one too large whose remainder
// is not that of Mod, which has the sign of the divisor.
static OnnxName floor_divide(const Place *p, OnnxName x, OnnxName y) {
  OnnxName quotient = onnx_binary(p->g, "Div", x, y),
           rest = onnx_binary(p->g, "Sub", x, onnx_binary(p->g, "Mul", quotient, y)),
           same = onnx_binary(p->g, "Equal", rest, onnx_binary(p->g, "Mod", x, y));
  return onnx_binary(p->g, "Sub", quotient, onnx_cast(p->g, onnx_unary(p->g, "Not", same), p->y.dtype));
}

// ONNX leaves open what division by 0 is, and by -1 of the least number: here x and -x.
static OnnxName divide(const Place *p) {
  OnnxName x = name_of_operand(p, 0), y = name_of_operand(p, 1);
  if (nn_dtype_is_float(p->x.dtype)) return onnx_binary(p->g, "Div", x, y);
  double by = constant_of(nn_operand(p->op, 1));
  if (by != 0 && by != -1) return floor_divide(p, x, y);
  OnnxName one = onnx_number(p->g, p->x.dtype, 1), zero = onnx_number(p->g, p->x.dtype, 0),
           turns = onnx_binary(p->g, "Equal", y, onnx_number(p->g, p->x.dtype, -1)),
           open = onnx_binary(p->g, "Or", turns, onnx_binary(p->g, "Equal", y, zero)),
           safe = onnx_node(p->g, "Where", 3, (OnnxName[]){open, one, y}, NULL);
  return onnx_node(p->g, "Where", 3, (OnnxName[]){turns, onnx_unary(p->g, "Neg", x), floor_divide(p, x, safe)}, NULL);
}

static OnnxName cumulative(const Place *p) {
  char kind[16];
  Text attributes = {0};
  if (strcmp(nn_attr_str(p->op, "kind", kind, sizeof kind, ""), "sum") != 0) return onnx_cumulative(p->g, p->op);
  onnx_attribute_int(&attributes, "reverse", nn_attr_bool(p->op, "reverse", false));
  return onnx_node(p->g, "CumSum", 2,
                   (OnnxName[]){name_of_operand(p, 0),
                                onnx_number(p->g, NN_I64, (double)nn_attr_i64(p->op, "axis", 0))},
                   &attributes);
}

// ---------------------------------------------------------------------------------------------------------------------
// Images: [N, C, H, W], volumes with a depth in front of H

// padding is top, bottom, left, right; ONNX has what is before all axes first.
static void add_window(const Place *p, Text *attributes, const int64_t *kernel) {
  int64_t strides[NN_MAX_RANK], padding[2 * NN_MAX_RANK], dilation[NN_MAX_RANK], pads[2 * NN_MAX_RANK];
  int n = list(p, "strides", strides);
  nn_attr_i64s(p->op, "padding", padding, 2 * NN_MAX_RANK);
  for (int i = 0; i < 2 * n; i++) pads[i % 2 * n + i / 2] = padding[i];
  onnx_attribute_ints(attributes, "kernel_shape", n, kernel);
  onnx_attribute_ints(attributes, "strides", n, strides);
  onnx_attribute_ints(attributes, "pads", 2 * n, pads);
  if (list(p, "dilation", dilation) == n) onnx_attribute_ints(attributes, "dilations", n, dilation);
}

static OnnxName pool(const Place *p, const char *type, const char **why) {
  int64_t kernel[2];
  Text attributes = {0};
  list(p, "kernel", kernel);
  if (nn_op_of(p->op) == NN_OP_maxpool2d && is_used(nn_result(p->op, 1))) {
    *why = "the places of the maxima";
    return NULL;
  }
  add_window(p, &attributes, kernel);
  if (nn_op_of(p->op) == NN_OP_avgpool2d)
    onnx_attribute_int(&attributes, "count_include_pad", nn_attr_bool(p->op, "include_pad", false));
  char layout[8];
  bool last = !strcmp(nn_attr_str(p->op, "layout", layout, sizeof layout, "nchw"), "nhwc");
  OnnxName x = name_of_operand(p, 0);
  if (last) x = onnx_transpose(p->g, x, 4, (int64_t[]){0, 3, 1, 2});
  x = onnx_node(p->g, type, 1, &x, &attributes);
  return last ? onnx_transpose(p->g, x, 4, (int64_t[]){0, 2, 3, 1}) : x;
}

// Also a transposed convolution, which is the gradient of one by its input.
static OnnxName convolution(const Place *p, bool transposed) {
  NnType w = nn_value_type(nn_operand(p->op, 1));
  int64_t strides[NN_MAX_RANK], padding[2 * NN_MAX_RANK], dilation[NN_MAX_RANK] = {1, 1, 1}, more[NN_MAX_RANK];
  Text attributes = {0};
  int n = list(p, "strides", strides);
  nn_attr_i64s(p->op, "padding", padding, 2 * NN_MAX_RANK);
  list(p, "dilation", dilation);
  add_window(p, &attributes, w.dim + 2);
  onnx_attribute_int(&attributes, "group", nn_attr_i64(p->op, "groups", 1));
  for (int i = 0; i < n; i++)
    more[i] = p->y.dim[2 + i] - ((p->x.dim[2 + i] - 1) * strides[i] + (w.dim[2 + i] - 1) * dilation[i] + 1 -
                                 padding[2 * i] - padding[2 * i + 1]);
  if (transposed) onnx_attribute_ints(&attributes, "output_padding", n, more);
  return onnx_node(p->g, transposed ? "ConvTranspose" : "Conv", 2,
                   (OnnxName[]){name_of_operand(p, 0), name_of_operand(p, 1)}, &attributes);
}

// ---------------------------------------------------------------------------------------------------------------------

static OnnxName softmax(const Place *p, const char *type) {
  Text attributes = {0};
  onnx_attribute_int(&attributes, "axis", -1);
  return onnx_node(p->g, type, 1, (OnnxName[]){name_of_operand(p, 0)}, &attributes);
}

// LayerNormalization computes mean and variance in f32, and need not know more: of f64 they are nodes of their own.
static OnnxName layernorm_wide(const Place *p) {
  OnnxName x = name_of_operand(p, 0), last = onnx_ints(p->g, 1, (int64_t[]){-1});
  OnnxName off = onnx_binary(p->g, "Sub", x, onnx_binary(p->g, "ReduceMean", x, last));
  OnnxName var = onnx_binary(p->g, "ReduceMean", onnx_binary(p->g, "Mul", off, off), last);
  var = onnx_binary(p->g, "Add", var, onnx_number(p->g, NN_F64, nn_attr_f64(p->op, "eps", 1e-5)));
  OnnxName y = onnx_binary(p->g, "Div", off, onnx_unary(p->g, "Sqrt", var));
  return onnx_binary(p->g, "Add", onnx_binary(p->g, "Mul", y, name_of_operand(p, 1)), name_of_operand(p, 2));
}

static OnnxName layernorm(const Place *p) {
  if (p->y.dtype == NN_F64) return layernorm_wide(p);
  Text attributes = {0};
  onnx_attribute_int(&attributes, "axis", -1);
  onnx_attribute_float(&attributes, "epsilon", nn_attr_f64(p->op, "eps", 1e-5));
  return onnx_node(p->g, "LayerNormalization", 3,
                   (OnnxName[]){name_of_operand(p, 0), name_of_operand(p, 1), name_of_operand(p, 2)}, &attributes);
}

// The first result of ops that are more than one node of their operands; NULL: there is no counterpart.
static OnnxName other_op(const Place *p, const char **why) {
  int64_t perm[NN_MAX_RANK];
  switch (nn_op_of(p->op)) {
  case NN_OP_constant:
    return onnx_expand(p->g, onnx_number(p->g, p->y.dtype, nn_attr_f64(p->op, "value", 0)), p->y.rank, p->y.dim);
  case NN_OP_iota: return iota(p);
  case NN_OP_rsqrt: return onnx_unary(p->g, "Reciprocal", onnx_unary(p->g, "Sqrt", name_of_operand(p, 0)));
  case NN_OP_div: return divide(p);
  case NN_OP_compare: return compare(p);
  case NN_OP_cast: return onnx_cast(p->g, name_of_operand(p, 0), p->y.dtype);
  case NN_OP_broadcast: return broadcast(p);
  case NN_OP_reshape: return onnx_reshape(p->g, name_of_operand(p, 0), p->y.rank, p->y.dim);
  case NN_OP_transpose: return onnx_transpose(p->g, name_of_operand(p, 0), list(p, "perm", perm), perm);
  case NN_OP_slice: return slice(p);
  case NN_OP_reduce_sum: return reduce(p, "ReduceSum", name_of_operand(p, 0), false);
  case NN_OP_reduce_max: return reduce(p, "ReduceMax", name_of_operand(p, 0), false);
  case NN_OP_moments: return reduce(p, "ReduceMean", name_of_operand(p, 0), false);
  case NN_OP_pad: return pad(p, why);
  case NN_OP_concat: return concat(p);
  case NN_OP_gather: return gather(p);
  case NN_OP_scatter_add: return scatter(p, "add", 0, false);
  case NN_OP_scatter_add_to: return scatter(p, "add", 0, true);
  case NN_OP_scatter_max: return scatter_max(p);
  case NN_OP_scatter_along: return scatter_along(p);
  case NN_OP_argmax: return argmax(p);
  case NN_OP_argsort: return argsort(p);
  case NN_OP_cumulative: return cumulative(p);
  case NN_OP_recurrence: return onnx_recurrence(p->g, p->op);
  case NN_OP_take_along: return take_along(p);
  case NN_OP_maxpool2d: return pool(p, "MaxPool", why);
  case NN_OP_avgpool2d: return pool(p, "AveragePool", why);
  case NN_OP_matmul: return onnx_binary(p->g, "MatMul", turned(p, 0, "transpose_a"), turned(p, 1, "transpose_b"));
  case NN_OP_conv2d:
  case NN_OP_conv3d: return convolution(p, false);
  case NN_OP_conv2d_input_grad:
  case NN_OP_conv3d_input_grad: return convolution(p, true);
  case NN_OP_attention: return onnx_attention(p->g, p->op);
  case NN_OP_softmax: return softmax(p, "Softmax");
  case NN_OP_log_softmax: return softmax(p, "LogSoftmax");
  case NN_OP_layernorm: return layernorm(p);
  default: return NULL;
  }
}

bool onnx_op(OnnxGraph *g, MlirOperation op, OnnxName *results, const char **why) {
  Place p = {.g = g, .op = op, .y = nn_value_type(nn_result(op, 0))};
  int n = (int)mlirOperationGetNumOperands(op);
  if (n) p.x = nn_value_type(nn_operand(op, 0));
  const char *type = node_type(nn_op_of(op));
  if (nn_op_of(op) == NN_OP_relu && p.x.dtype == NN_U8) type = "Identity";   // Relu has no bytes
  if (type) {
    OnnxName inputs[3];
    for (int i = 0; i < n; i++) inputs[i] = name_of_operand(&p, i);
    results[0] = onnx_node(g, type, n, inputs, NULL);
    return true;
  }
  results[0] = other_op(&p, why);
  if (!results[0]) return false;
  *why = NULL;
  if (nn_op_of(op) == NN_OP_moments) results[1] = variance(&p);
  for (intptr_t r = 1; r < mlirOperationGetNumResults(op); r++)
    if (!results[r] && is_used(nn_result(op, r))) {
      *why = "a result besides the first is read";
      return false;
    }
  return true;
}
