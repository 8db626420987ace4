// What goes along an axis: cumulative functions, sorting, elements taken and put by indices. Values of sorted and of
// largest elements are taken by their indices, which gives them their gradient.
#include "compiler/layer.h"

#include <string.h>

// Of a narrow float f32, of bytes and booleans i32.
static MlirValue widened(const LayerCall *c, MlirValue x) {
  NnDtype t = nn_value_dtype(x);
  return nn_cast(c->b, x, nn_dtype_is_float(t) ? nn_dtype_wide(t) : t == NN_I64 ? NN_I64 : NN_I32);
}

static MlirValue one_of(MlirOperation op) {
  return mlirOperationIsNull(op) ? nn_null_value() : mlirOperationGetResult(op, 0);
}

static bool return_two(const LayerCall *c, Value *result, MlirValue first, MlirValue second) {
  if (nn_value_is_null(first) || nn_value_is_null(second)) return false;
  Value *items = elaborator_alloc(c->e, sizeof *items * 2);
  items[0] = value_tensor(first), items[1] = value_tensor(second);
  *result = (Value){.kind = VALUE_LIST, .list = {items, 2}};
  return true;
}

static MlirValue take(const LayerCall *c, MlirValue x, MlirValue indices, int64_t axis, bool unique) {
  NnAttr attrs[] = {NN_I64("axis", axis), NN_BOOL("unique", unique)};
  return one_of(layer_build(c, NN_OP_take_along, 2, (MlirValue[]){x, indices}, 2, attrs, NULL));
}

// --- Cumulative functions
// ----------------------------------------------------------------------------------------------

static MlirValue cumulative(const LayerCall *c, MlirValue x, int64_t axis, const char *kind) {
  NnAttr attrs[] = {NN_I64("axis", axis), NN_STR("kind", kind)};
  return one_of(layer_build(c, NN_OP_cumulative, 1, &x, 2, attrs, NULL));
}

// Of integers in i64, as sum.
static bool accumulated(LayerCall *c, const char *kind, Value *result) {
  MlirValue x = layer_tensor(c, 0);
  int64_t axis;
  if (!layer_axis(c, 1, nn_value_type(x).rank, &axis)) return false;
  if (!nn_dtype_is_float(nn_value_dtype(x))) x = nn_cast(c->b, x, NN_I64);
  MlirValue y = cumulative(c, x, axis, kind);
  return !nn_value_is_null(y) && layer_return(result, y);
}

bool layer_cumsum(LayerCall *c, Value *result) { return accumulated(c, "sum", result); }
bool layer_cumprod(LayerCall *c, Value *result) { return accumulated(c, "product", result); }

static bool extreme(LayerCall *c, const char *kind, Value *result) {
  MlirValue x = layer_tensor(c, 0);
  int64_t axis;
  if (!layer_axis(c, 1, nn_value_type(x).rank, &axis)) return false;
  MlirValue indices = cumulative(c, widened(c, x), axis, kind);
  return !nn_value_is_null(indices) && return_two(c, result, take(c, x, indices, axis, false), indices);
}

bool layer_cummax(LayerCall *c, Value *result) { return extreme(c, "argmax", result); }
bool layer_cummin(LayerCall *c, Value *result) { return extreme(c, "argmin", result); }

bool layer_linear_recurrence(LayerCall *c, Value *result) {
  enum { A, X, AXIS, REVERSE };
  MlirValue operands[] = {layer_float_tensor(c, A), layer_float_tensor(c, X)};
  NnType a = nn_value_type(operands[A]), x = nn_value_type(operands[X]);
  int64_t axis;
  if (!layer_axis(c, AXIS, x.rank, &axis)) return false;
  if (!nn_shape_equal(&a, &x))
    return layer_arg_error(c, A, "must have the shape of x, %s, found %s", value_describe(c->e, c->arg[X]),
                           value_describe(c->e, c->arg[A]));
  for (int i = A; i <= X; i++) operands[i] = nn_cast(c->b, operands[i], a.dtype == NN_F64 ? NN_F64 : x.dtype);
  NnAttr attrs[] = {NN_I64("axis", axis), NN_BOOL("reverse", layer_bool(c, REVERSE))};
  MlirValue y = one_of(layer_build(c, NN_OP_recurrence, 2, operands, 2, attrs, NULL));
  return !nn_value_is_null(y) && layer_return(result, y);
}

// --- Sorting

static MlirValue argsort(const LayerCall *c, MlirValue x, int64_t axis, int64_t count, bool descending) {
  NnAttr attrs[] = {NN_I64("axis", axis), NN_I64("count", count), NN_BOOL("descending", descending)};
  MlirValue wide = widened(c, x);
  return one_of(layer_build(c, NN_OP_argsort, 1, &wide, 3, attrs, NULL));
}

static bool sorted(LayerCall *c, int count_arg, int axis_arg, bool descending, bool values, Value *result) {
  MlirValue x = layer_tensor(c, 0);
  NnType t = nn_value_type(x);
  int64_t axis;
  if (!layer_axis(c, axis_arg, t.rank, &axis)) return false;
  int64_t count = count_arg < 0 ? t.dim[axis] : layer_int(c, count_arg);
  if (count < 1 || count > t.dim[axis])
    return layer_arg_error(c, count_arg, "must be from 1 to the %lld elements of axis %lld, found %lld",
                           (long long)t.dim[axis], (long long)axis, (long long)count);
  MlirValue indices = argsort(c, x, axis, count, descending);
  if (nn_value_is_null(indices)) return false;
  if (!values) return layer_return(result, indices);
  return return_two(c, result, take(c, x, indices, axis, true), indices);
}

bool layer_sort(LayerCall *c, Value *result) { return sorted(c, -1, 1, layer_bool(c, 2), true, result); }
bool layer_argsort(LayerCall *c, Value *result) { return sorted(c, -1, 1, layer_bool(c, 2), false, result); }
bool layer_topk(LayerCall *c, Value *result) { return sorted(c, 1, 2, layer_bool(c, 3), true, result); }

// Element `at` of an axis that the result does not have.
static MlirValue element(const LayerCall *c, MlirValue x, int64_t axis, int64_t at) {
  NnType t = nn_value_type(x);
  int64_t starts[NN_MAX_RANK] = {0}, dims[NN_MAX_RANK];
  int n = 0;
  for (int i = 0; i < t.rank; i++)
    if (i != axis) dims[n++] = t.dim[i];
  t.dim[axis] = 1;
  starts[axis] = at;
  return nn_reshape(c->b, nn_slice(c->b, x, starts, t.dim, NULL), n, dims);
}

// Indices of the first NaN of each row, of the middle element where there is none: the median of numbers and a NaN is
// NaN, as in PyTorch.
static MlirValue nan_or(const LayerCall *c, MlirValue x, int64_t axis, MlirValue middle) {
  NnType t = nn_value_type(middle);
  MlirValue top = one_of(layer_build(c, NN_OP_argmax, 1, &x, 1, (NnAttr[]){NN_I64("axis", axis)}, NULL));
  if (nn_value_is_null(top)) return top;
  top = nn_reshape(c->b, top, t.rank, t.dim);
  MlirValue largest = take(c, x, top, axis, true);
  if (nn_value_is_null(largest)) return largest;
  return nn_select(c->b, nn_compare(c->b, "ne", largest, largest), top, middle);
}

static bool kth(LayerCall *c, int64_t k, int axis_arg, Value *result) {
  MlirValue x = layer_tensor(c, 0);
  int64_t axis;
  if (!layer_axis(c, axis_arg, nn_value_type(x).rank, &axis)) return false;
  int64_t length = nn_value_type(x).dim[axis];
  bool middle = k == 0;
  if (middle) k = (length + 1) / 2;
  if (k < 1 || k > length)
    return layer_arg_error(c, 1, "must be from 1 to the %lld elements of axis %lld, found %lld", (long long)length,
                           (long long)axis, (long long)k);
  MlirValue indices = argsort(c, x, axis, k, false);
  if (nn_value_is_null(indices)) return false;
  NnType one = nn_value_type(indices);
  int64_t starts[NN_MAX_RANK] = {0};
  starts[axis] = k - 1, one.dim[axis] = 1;
  MlirValue index = nn_slice(c->b, indices, starts, one.dim, NULL);
  if (middle && nn_dtype_is_float(nn_value_dtype(x))) index = nan_or(c, x, axis, index);
  if (nn_value_is_null(index)) return false;
  MlirValue value = take(c, x, index, axis, true);
  if (nn_value_is_null(value)) return false;
  return return_two(c, result, element(c, value, axis, 0), element(c, index, axis, 0));
}

bool layer_kthvalue(LayerCall *c, Value *result) {
  if (layer_int(c, 1) < 1) return layer_arg_error(c, 1, "must be at least 1, found %lld", (long long)layer_int(c, 1));
  return kth(c, layer_int(c, 1), 2, result);
}
bool layer_median(LayerCall *c, Value *result) { return kth(c, 0, 1, result); }

// Numbers of 53 bits, of which no two are equal, or if so, in their order.
bool layer_permutation(LayerCall *c, Value *result) {
  int64_t n = layer_int(c, 0);
  if (n < 1 || n > INT32_MAX) return layer_arg_error(c, 0, "must be between 1 and 2^31-1, found %lld", (long long)n);
  MlirValue drawn = layer_draw(c, nn_type(NN_F64, 1, &n));
  MlirValue order = nn_value_is_null(drawn) ? drawn : argsort(c, drawn, 0, n, false);
  return !nn_value_is_null(order) && layer_return(result, order);
}

// --- By indices

// i32 or i64, of `rank` axes.
static bool indices_of(const LayerCall *c, int arg, int rank, MlirValue *out) {
  NnType t = nn_value_type(layer_tensor(c, arg));
  if (nn_dtype_is_float(t.dtype) || t.dtype == NN_I1)
    return layer_arg_error(c, arg, "must be integers, found %s", value_describe(c->e, c->arg[arg]));
  if (t.rank != rank)
    return layer_arg_error(c, arg, rank == 1 ? "must have %d axis, found %s" : "must have %d axes, found %s", rank,
                           value_describe(c->e, c->arg[arg]));
  *out = widened(c, layer_tensor(c, arg));
  return true;
}

bool layer_take_along(LayerCall *c, Value *result) {
  enum { X, INDICES, AXIS };
  MlirValue x = layer_tensor(c, X), indices;
  int64_t axis;
  if (!layer_axis(c, AXIS, nn_value_type(x).rank, &axis) || !indices_of(c, INDICES, nn_value_type(x).rank, &indices))
    return false;
  MlirValue y = take(c, x, indices, axis, false);
  return !nn_value_is_null(y) && layer_return(result, y);
}

static MlirValue put(const LayerCall *c, MlirValue x, MlirValue indices, int64_t axis, int64_t size, bool last) {
  NnAttr attrs[] = {NN_I64("axis", axis), NN_I64("size", size), NN_BOOL("last", last)};
  return one_of(layer_build(c, NN_OP_scatter_along, 2, (MlirValue[]){x, indices}, 3, attrs, NULL));
}

typedef struct Scatter {
  MlirValue x, indices, source;
  int64_t axis, size;
  NnDtype dtype;   // of x, and of the result
} Scatter;

static bool read_scatter(const LayerCall *c, Scatter *s) {
  enum { X, INDICES, SOURCE, AXIS };
  NnType x = nn_value_type(layer_tensor(c, X)), source = nn_value_type(layer_tensor(c, SOURCE));
  if (!layer_axis(c, AXIS, x.rank, &s->axis) || !indices_of(c, INDICES, x.rank, &s->indices)) return false;
  NnType indices = nn_value_type(s->indices);
  if (!nn_shape_equal(&indices, &source))
    return layer_arg_error(c, SOURCE, "must have the shape of the indices, %s, found %s",
                           value_describe(c->e, c->arg[INDICES]), value_describe(c->e, c->arg[SOURCE]));
  for (int i = 0; i < x.rank; i++)
    if (i != s->axis && x.dim[i] != source.dim[i])
      return layer_arg_error(c, SOURCE, "%s and %s differ in axis %d", value_describe(c->e, c->arg[X]),
                             value_describe(c->e, c->arg[SOURCE]), i);
  s->dtype = x.dtype;
  s->size = x.dim[s->axis];
  s->x = widened(c, layer_tensor(c, X));
  s->source = nn_cast(c->b, layer_tensor(c, SOURCE), nn_value_dtype(s->x));
  return true;
}

bool layer_scatter_add(LayerCall *c, Value *result) {
  Scatter s;
  if (!read_scatter(c, &s)) return false;
  MlirValue sum = put(c, s.source, s.indices, s.axis, s.size, false);
  if (nn_value_is_null(sum)) return false;
  return layer_return(result, nn_cast(c->b, nn_binary(c->b, NN_OP_add, s.x, sum), s.dtype));
}

// The last of those that name a place is there: which one that is, is found first, so that only it has a gradient.
bool layer_scatter(LayerCall *c, Value *result) {
  Scatter s;
  if (!read_scatter(c, &s)) return false;
  NnBuilder *b = c->b;
  NnType type = nn_value_type(s.source), number = type;
  number.dtype = NN_I32;
  MlirValue own = nn_iota(b, number, s.axis), last = put(c, own, s.indices, s.axis, s.size, true);
  MlirValue winner = nn_value_is_null(last) ? last : take(c, last, s.indices, s.axis, false);
  if (nn_value_is_null(winner)) return false;
  MlirValue wins = nn_compare(b, "eq", winner, own);
  MlirValue value = put(c, nn_select(b, wins, s.source, nn_constant(b, type, 0)), s.indices, s.axis, s.size, false),
            named = put(c, nn_cast(b, wins, NN_I32), s.indices, s.axis, s.size, false);
  if (nn_value_is_null(value) || nn_value_is_null(named)) return false;
  MlirValue hit = nn_compare(b, "gt", named, nn_constant_like(b, named, 0));
  return layer_return(result, nn_cast(b, nn_select(b, hit, value, s.x), s.dtype));
}

bool layer_index_select(LayerCall *c, Value *result) {
  enum { X, INDICES, AXIS };
  MlirValue x = layer_tensor(c, X), indices;
  int rank = nn_value_type(x).rank;
  int64_t axis;
  if (!layer_axis(c, AXIS, rank, &axis) || !indices_of(c, INDICES, 1, &indices)) return false;
  return layer_return(result, layer_take(c->b, x, (int)axis, indices));
}

// By halves: the place grows by steps of powers of two where the element in front of the new place is still below.
bool layer_searchsorted(LayerCall *c, Value *result) {
  enum { SORTED, VALUES, RIGHT };
  NnBuilder *b = c->b;
  MlirValue row = layer_tensor(c, SORTED), x = layer_tensor(c, VALUES);
  NnType r = nn_value_type(row), given = nn_value_type(x);
  if (r.rank < 1) return layer_arg_error(c, SORTED, "must have at least one axis, found a scalar");
  int64_t length = r.dim[r.rank - 1], step = 1;
  bool one_row = r.rank == 1 && given.rank != 1;
  if (one_row) x = nn_reshape(b, x, 1, (int64_t[]){nn_type_elements(&given)});
  NnType t = nn_value_type(x);
  for (int i = 0; i < r.rank - 1 || t.rank != r.rank; i++)
    if (t.rank != r.rank || r.dim[i] != t.dim[i])
      return layer_arg_error(c, VALUES, "must have the axes of %s but the last, found %s",
                             value_describe(c->e, c->arg[SORTED]), value_describe(c->e, c->arg[VALUES]));
  NnDtype dtype = value_common_dtype(c->e, 2, c->arg);
  row = nn_cast(b, row, dtype), x = nn_cast(b, x, dtype);
  t.dtype = NN_I32;
  MlirValue place = nn_constant(b, t, 0);
  while (2 * step <= length) step *= 2;
  for (; step > 0; step /= 2) {
    MlirValue next = nn_binary(b, NN_OP_add, place, nn_constant(b, t, (double)step));
    MlirValue inside = nn_compare(b, "le", next, nn_constant(b, t, (double)length));
    MlirValue before = nn_binary(b, NN_OP_min, nn_constant(b, t, (double)length - 1),
                                 nn_binary(b, NN_OP_sub, next, nn_constant(b, t, 1)));
    MlirValue value = take(c, row, before, r.rank - 1, false);
    if (nn_value_is_null(value)) return false;
    MlirValue not_below = nn_compare(b, layer_bool(c, RIGHT) ? "gt" : "ge", value, x),
              below = nn_unary(b, NN_OP_not, not_below);   // all are below a NaN
    place = nn_select(b, nn_binary(b, NN_OP_and, inside, below), next, place);
  }
  return layer_return(result, one_row ? nn_reshape(b, place, given.rank, given.dim) : place);
}
