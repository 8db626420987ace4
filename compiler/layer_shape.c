// Layers that rearrange, join and contract: reshape, slices, concat, gather, matmul, softmax over any axis, masks.
#include "compiler/layer.h"

#include <math.h>
#include <string.h>

static bool shape_result(LayerCall *c, MlirValue x, NnType t, Value *result) {
  return layer_return(result, nn_reshape(c->b, x, t.rank, t.dim));
}

// "[4, -1]", as argument i was given
static const char *shape_asked(const LayerCall *c, int i) {
  int64_t dims[NN_MAX_RANK];
  int n = layer_ints(c, i, dims, NN_MAX_RANK);
  const char *text = "[";
  for (int k = 0; k < n; k++) text = elaborator_format(c->e, "%s%s%lld", text, k ? ", " : "", (long long)dims[k]);
  return elaborator_format(c->e, "%s]", text);
}

bool layer_reshape(LayerCall *c, Value *result) {
  MlirValue x = layer_tensor(c, 0);
  NnType t = nn_value_type(x), to = t;
  int64_t known = 1, total = nn_type_elements(&t);
  int unknown = -1;
  to.rank = layer_ints(c, 1, to.dim, NN_MAX_RANK);
  if (to.rank < 0) return false;
  for (int i = 0; i < to.rank; i++) {
    if (to.dim[i] == -1 && unknown < 0) {
      unknown = i;
      continue;
    }
    if (to.dim[i] == -1) return layer_arg_error(c, 1, "only one size may be -1");
    if (to.dim[i] < 1 || to.dim[i] > total)
      return layer_arg_error(c, 1, "size %lld is not possible for %lld elements", (long long)to.dim[i],
                             (long long)total);
    known *= to.dim[i];
    if (known > total) break;
  }
  if (unknown >= 0 && total % known == 0) {
    to.dim[unknown] = total / known;
    known = total;
  }
  if (known != total)
    return layer_arg_error(c, 1, "%s has %lld elements, which do not fill the asked shape %s",
                           value_describe(c->e, c->arg[0]), (long long)total, shape_asked(c, 1));
  return shape_result(c, x, to, result);
}

bool layer_flatten(LayerCall *c, Value *result) {
  MlirValue x = layer_tensor(c, 0);
  NnType t = nn_value_type(x);
  int64_t start;
  if (!layer_axis(c, 1, t.rank, &start)) return false;
  for (int i = (int)start + 1; i < t.rank; i++) t.dim[start] *= t.dim[i];
  t.rank = (int)start + 1;
  return shape_result(c, x, t, result);
}

bool layer_transpose(LayerCall *c, Value *result) {
  MlirValue x = layer_tensor(c, 0);
  NnType t = nn_value_type(x);
  int64_t perm[NN_MAX_RANK];
  bool used[NN_MAX_RANK] = {false};
  if (!layer_given(c, 1)) {
    if (t.rank < 2) return layer_arg_error(c, 0, "needs at least two axes, found %s", value_describe(c->e, c->arg[0]));
    for (int i = 0; i < t.rank; i++) perm[i] = i;
    perm[t.rank - 2] = t.rank - 1;
    perm[t.rank - 1] = t.rank - 2;
  } else {
    int n = layer_ints(c, 1, perm, NN_MAX_RANK);
    bool valid = n == t.rank;
    for (int i = 0; valid && i < n; i++) {
      if (perm[i] < 0) perm[i] += t.rank;
      valid = perm[i] >= 0 && perm[i] < t.rank && !used[perm[i]];
      if (valid) used[perm[i]] = true;
    }
    if (!valid) return layer_arg_error(c, 1, "must name each of the %d axes once", t.rank);
  }
  return layer_return(result, nn_transpose(c->b, x, perm));
}

#define MAX_PARTS 10000

bool layer_split(LayerCall *c, Value *result) {
  MlirValue x = layer_tensor(c, 0);
  NnType t = nn_value_type(x);
  int64_t parts = layer_int(c, 1), axis, starts[NN_MAX_RANK] = {0};
  if (!layer_axis(c, 2, t.rank, &axis)) return false;
  if (parts < 1 || t.dim[axis] % parts)
    return layer_arg_error(c, 1, "%lld parts do not divide axis %lld of %s", (long long)parts, (long long)axis,
                           value_describe(c->e, c->arg[0]));
  if (parts > MAX_PARTS)
    return layer_arg_error(c, 1, "at most %d parts are possible, found %lld", MAX_PARTS, (long long)parts);
  Value *items = elaborator_alloc(c->e, sizeof *items * (size_t)parts);
  t.dim[axis] /= parts;
  for (int64_t i = 0; i < parts; i++) {
    starts[axis] = i * t.dim[axis];
    items[i] = value_tensor(nn_slice(c->b, x, starts, t.dim, NULL));
  }
  *result = (Value){.kind = VALUE_LIST, .list = {items, (int)parts}};
  return true;
}

bool layer_concat(LayerCall *c, Value *result) {
  Value *list = c->arg[0].list.items;
  int n = c->arg[0].list.n;
  int64_t axis;
  if (n == 0) return layer_arg_error(c, 0, "needs at least one tensor");
  for (int i = 0; i < n; i++)
    if (list[i].kind != VALUE_TENSOR)
      return layer_arg_error(c, 0, "must be a list of tensors, element %d is %s", i, value_describe(c->e, list[i]));
  if (!layer_axis(c, 1, nn_value_type(list[0].tensor).rank, &axis)) return false;
  MlirValue *operands = elaborator_alloc(c->e, sizeof *operands * (size_t)n);
  if (!value_promote(c->e, c->pos, n, list, value_common_dtype(c->e, n, list), operands)) return false;
  MlirOperation op = layer_build(c, NN_OP_concat, n, operands, 1, (NnAttr[]){NN_I64("axis", axis)}, NULL);
  return !mlirOperationIsNull(op) && layer_return(result, mlirOperationGetResult(op, 0));
}

bool layer_broadcast_to(LayerCall *c, Value *result) {
  MlirValue x = layer_tensor(c, 0);
  NnType t = nn_value_type(x), to = t;
  to.rank = layer_ints(c, 1, to.dim, NN_MAX_RANK);
  if (to.rank < 0) return false;
  bool fits = to.rank >= t.rank;
  for (int i = 0; fits && i < to.rank; i++) fits = to.dim[i] > 0;
  for (int i = 0; fits && i < t.rank; i++) {
    int64_t from = t.dim[i], target = to.dim[to.rank - t.rank + i];
    fits = from == target || from == 1;
  }
  if (fits && !layer_representable(c, 1, &to)) return false;
  if (!fits) return layer_arg_error(c, 1, "%s cannot be stretched to this shape", value_describe(c->e, c->arg[0]));
  return layer_return(result, nn_broadcast_trailing(c->b, x, to));
}

bool layer_iota(LayerCall *c, Value *result) {
  NnType t = nn_type(NN_I32, 1, &c->arg[0].i);
  if (layer_int(c, 0) < 1 || layer_int(c, 0) > INT32_MAX)
    return layer_arg_error(c, 0, "must be between 1 and 2^31-1, found %lld", (long long)layer_int(c, 0));
  return layer_return(result, nn_iota(c->b, t, 0));
}

bool layer_shape(const LayerCall *c, int i, NnDtype dtype, NnType *out) {
  *out = nn_scalar(dtype);
  out->rank = layer_ints(c, i, out->dim, NN_MAX_RANK);
  if (out->rank < 0) return false;
  for (int k = 0; k < out->rank; k++)
    if (out->dim[k] < 1) return layer_arg_error(c, i, "sizes must be positive, found %lld", (long long)out->dim[k]);
  return nn_type_is_representable(out) || layer_arg_error(c, i, "more than 2^40 elements");
}

// The sizes of nested lists; false where they differ or are too deep.
static bool list_shape(const Value *v, int rank, NnType *shape) {
  if (v->kind != VALUE_LIST) return rank == shape->rank;
  if (rank == NN_MAX_RANK || v->list.n == 0) return false;
  if (rank == shape->rank) shape->dim[shape->rank++] = v->list.n;
  bool ok = shape->dim[rank] == v->list.n;
  for (int i = 0; ok && i < v->list.n; i++) ok = list_shape(&v->list.items[i], rank + 1, shape);
  return ok;
}

static bool list_numbers(const Value *v, double *out, int *n, bool *whole) {
  if (v->kind != VALUE_LIST) {
    *whole &= v->kind == VALUE_INT;
    return v->kind != VALUE_BOOL && value_as_number(v, &out[(*n)++]);
  }
  bool ok = true;
  for (int i = 0; ok && i < v->list.n; i++) ok = list_numbers(&v->list.items[i], out, n, whole);
  return ok;
}

// values[i], i from `first` on: constants chosen by halves of the index.
static MlirValue choose(NnBuilder *b, NnType t, MlirValue index, const double *values, int64_t first, int64_t n) {
  bool same = true;
  for (int64_t i = 1; i < n; i++) same &= values[first + i] == values[first];
  if (same) return nn_constant(b, t, values[first]);
  int64_t half = n / 2;
  MlirValue low = nn_compare(b, "lt", index, nn_constant_like(b, index, (double)(first + half)));
  return nn_select(b, low, choose(b, t, index, values, first, half),
                   choose(b, t, index, values, first + half, n - half));
}

bool layer_tensor_(LayerCall *c, Value *result) {
  enum { MOST = 4096 };
  NnType t = {.rank = 0}, flat = nn_type(NN_I32, 1, (int64_t[]){0});
  double values[MOST];
  bool whole = true;
  int n = 0;
  if (!list_shape(&c->arg[0], 0, &t)) return layer_arg_error(c, 0, "must be lists of equal length");
  int64_t count = flat.dim[0] = nn_type_elements(&t);
  if (count > MOST) return layer_arg_error(c, 0, "has %lld numbers, at most %d are possible", (long long)count, MOST);
  if (!list_numbers(&c->arg[0], values, &n, &whole)) return layer_arg_error(c, 0, "must hold nothing but numbers");
  t.dtype = whole ? NN_I32 : elaborator_dtype(c->e);
  if (layer_given(c, 1)) {
    if (!nn_dtype_parse(layer_string(c, 1), &t.dtype) || t.dtype == NN_I1)
      return layer_arg_error(c, 1, "must be an element type such as \"f32\", found \"%s\"", layer_string(c, 1));
    t.dtype = elaborator_element_type(c->e, t.dtype);
  }
  double most = t.dtype == NN_U8    ? UINT8_MAX
                : t.dtype == NN_I32 ? INT32_MAX
                                    : 0x1p53,
         least = t.dtype == NN_U8    ? 0
                 : t.dtype == NN_I32 ? INT32_MIN
                                     : -0x1p53;
  for (int i = 0; i < n; i++)
    if (!nn_dtype_is_float(t.dtype) && !(values[i] == floor(values[i]) && values[i] >= least && values[i] <= most))
      return layer_arg_error(c, 0, "%g does not fit in %s", values[i], nn_dtype_name(t.dtype));
  NnType made = flat;
  made.dtype = t.dtype;
  MlirValue y = choose(c->b, made, nn_iota(c->b, flat, 0), values, 0, count);
  return layer_return(result, nn_reshape(c->b, y, t.rank, t.dim));
}

bool layer_full(LayerCall *c, Value *result) {
  NnType t;
  if (!layer_shape(c, 0, elaborator_dtype(c->e), &t)) return false;
  return layer_return(result, nn_constant(c->b, t, layer_float(c, 1)));
}

bool layer_len(LayerCall *c, Value *result) {
  const Value *v = &c->arg[0];
  if (v->kind == VALUE_LIST) {
    *result = value_int(v->list.n);
    return true;
  }
  if (v->kind != VALUE_TENSOR)
    return layer_arg_error(c, 0, "must be a list or a tensor, found %s", value_describe(c->e, *v));
  NnType t = nn_value_type(v->tensor);
  if (t.rank == 0) return layer_arg_error(c, 0, "a scalar has no length");
  *result = value_int(t.dim[0]);
  return true;
}

bool layer_dims(LayerCall *c, Value *result) {
  NnType t = nn_value_type(layer_tensor(c, 0));
  Value *items = elaborator_alloc(c->e, sizeof *items * (size_t)(t.rank + 1));
  for (int i = 0; i < t.rank; i++) items[i] = value_int(t.dim[i]);
  *result = (Value){.kind = VALUE_LIST, .list = {items, t.rank}};
  return true;
}

bool layer_axes_of(LayerCall *c, Value *result) {
  NnType t = nn_value_type(layer_tensor(c, 0));
  int64_t axes[NN_MAX_RANK];
  int n = layer_axes(c, 1, &t, axes);
  Value *items = elaborator_alloc(c->e, sizeof *items * (size_t)(NN_MAX_RANK + 1));
  for (int i = 0; i < n; i++) items[i] = value_int(axes[i]);
  *result = (Value){.kind = VALUE_LIST, .list = {items, n}};
  return n >= 0;
}

bool layer_is_list(LayerCall *c, Value *result) {
  *result = value_bool(c->arg[0].kind == VALUE_LIST);
  return true;
}

bool layer_contains(LayerCall *c, Value *result) {
  const Value *list = &c->arg[0];
  *result = value_bool(false);
  for (int i = 0; i < list->list.n && !result->b; i++)
    if (!value_binary(c->e, c->pos, "==", list->list.items[i], c->arg[1], result) || result->kind != VALUE_BOOL)
      return layer_error(c, "only numbers and strings can be looked for");
  return true;
}

bool layer_narrow(LayerCall *c, Value *result) {
  enum { X, AXIS, START, LENGTH, STEP };
  MlirValue x = layer_tensor(c, X);
  NnType t = nn_value_type(x);
  int64_t axis, start = layer_int(c, START), length = layer_int(c, LENGTH), step = layer_int(c, STEP);
  int64_t starts[NN_MAX_RANK] = {0}, stops[NN_MAX_RANK], steps[NN_MAX_RANK];
  bool drop[NN_MAX_RANK] = {false};
  if (!layer_axis(c, AXIS, t.rank, &axis)) return false;
  for (int i = 0; i < t.rank; i++) stops[i] = t.dim[i], steps[i] = 1;
  if (start < 0) start += t.dim[axis];
  bool fits = start >= 0 && start < t.dim[axis] && length >= 1 && length <= t.dim[axis] && step != 0 &&
              step >= -t.dim[axis] && step <= t.dim[axis];
  int64_t last = fits ? start + (length - 1) * step : 0;
  if (!fits || last < 0 || last >= t.dim[axis])
    return layer_error(c, "%lld elements from %lld in steps of %lld are not on axis %lld of %s", (long long)length,
                       (long long)layer_int(c, START), (long long)step, (long long)axis,
                       value_describe(c->e, c->arg[X]));
  starts[axis] = start;
  stops[axis] = last + (step > 0 ? 1 : -1);
  steps[axis] = step;
  return value_slice(c->e, c->pos, x, t.rank, starts, stops, steps, drop, result);
}

bool layer_dtype(LayerCall *c, Value *result) {
  *result = value_string(nn_dtype_name(nn_value_dtype(layer_tensor(c, 0))));
  return true;
}

bool layer_gather(LayerCall *c, Value *result) {
  if (nn_dtype_is_float(nn_value_dtype(layer_tensor(c, 1))))
    return layer_arg_error(c, 1, "indices must be integers, found %s", value_describe(c->e, c->arg[1]));
  MlirOperation op = layer_build(c, NN_OP_gather, 2, (MlirValue[]){layer_tensor(c, 0), layer_tensor(c, 1)}, 0, NULL,
                                 NULL);
  return !mlirOperationIsNull(op) && layer_return(result, mlirOperationGetResult(op, 0));
}

// Stretches the leading axes of two products' operands to each other's, where they are of size 1 or missing. A right
// side of two axes stays one matrix for all.
static void stretch_leading_axes(LayerCall *c, MlirValue *x) {
  NnType t[2] = {nn_value_type(x[0]), nn_value_type(x[1])}, to[2] = {t[0], t[1]};
  int rank = t[0].rank > t[1].rank ? t[0].rank : t[1].rank;
  if (t[0].rank < 2 || t[1].rank <= 2) return;
  for (int i = 0; i < rank - 2; i++) {
    int at[2] = {i - (rank - t[0].rank), i - (rank - t[1].rank)};
    int64_t size[2] = {at[0] < 0 ? 1 : t[0].dim[at[0]], at[1] < 0 ? 1 : t[1].dim[at[1]]};
    if (size[0] != size[1] && size[0] != 1 && size[1] != 1) return;   // the op says what is wrong
    for (int k = 0; k < 2; k++) to[k].dim[i] = size[0] == 1 ? size[1] : size[0];
  }
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < 2; i++) to[k].dim[rank - 2 + i] = t[k].dim[t[k].rank - 2 + i];
    to[k].rank = rank;
    x[k] = nn_broadcast_trailing(c->b, x[k], to[k]);
  }
}

bool layer_matmul(LayerCall *c, Value *result) {
  MlirValue x[2] = {layer_float_tensor(c, 0), layer_float_tensor(c, 1)};
  stretch_leading_axes(c, x);
  MlirOperation op = layer_build(c, NN_OP_matmul, 2, x, 2,
                                 (NnAttr[]){NN_BOOL("transpose_a", false), NN_BOOL("transpose_b", false)}, NULL);
  return !mlirOperationIsNull(op) && layer_return(result, mlirOperationGetResult(op, 0));
}

// The op works on the last axis; another one is moved there and back.
static bool over_axis(LayerCall *c, NnOp op, Value *result) {
  MlirValue x = layer_float_tensor(c, 0);
  int rank = nn_value_type(x).rank;
  int64_t axis, perm[NN_MAX_RANK];
  if (!layer_axis(c, 1, rank, &axis)) return false;
  for (int i = 0; i < rank; i++) perm[i] = i;
  perm[axis] = rank - 1;
  perm[rank - 1] = axis;
  bool moved = axis != rank - 1;
  if (moved) x = nn_transpose(c->b, x, perm);
  MlirOperation made = layer_build(c, op, 1, &x, 0, NULL, NULL);
  if (mlirOperationIsNull(made)) return false;
  MlirValue y = mlirOperationGetResult(made, 0);
  return layer_return(result, moved ? nn_transpose(c->b, y, perm) : y);
}

bool layer_softmax(LayerCall *c, Value *result) { return over_axis(c, NN_OP_softmax, result); }
bool layer_log_softmax(LayerCall *c, Value *result) { return over_axis(c, NN_OP_log_softmax, result); }

// Finite, so that no arithmetic on it makes a NaN; e^(mask - max) is exactly zero all the same.
#define MASKED (-1e30)

bool layer_causal_mask(LayerCall *c, Value *result) {
  MlirValue x = layer_float_tensor(c, 0);
  NnType t = nn_value_type(x), index = t;
  if (t.rank < 2) return layer_arg_error(c, 0, "needs at least two axes, found %s", value_describe(c->e, c->arg[0]));
  index.dtype = NN_I32;
  MlirValue row = nn_iota(c->b, index, t.rank - 2), column = nn_iota(c->b, index, t.rank - 1);
  return layer_return(result, nn_select(c->b, nn_compare(c->b, "le", column, row), x, nn_constant(c->b, t, MASKED)));
}

// What counts from the end has had the size added.
static int64_t as_written(int64_t place, int64_t size) { return place < 0 ? place - size : place; }

bool value_slice(Elaborator *e, AstPos pos, MlirValue x, int n, const int64_t *start, const int64_t *stop,
                 const int64_t *step, const bool *drop, Value *result) {
  NnType t = nn_value_type(x), kept = t;
  NnBuilder *b = elaborator_builder(e);
  int64_t starts[NN_MAX_RANK] = {0}, sizes[NN_MAX_RANK], strides[NN_MAX_RANK];
  if (n > t.rank) return elaborator_error(e, pos, "%d indices for %s", n, value_describe(e, value_tensor(x)));
  kept.rank = 0;
  for (int i = 0; i < t.rank; i++) {
    sizes[i] = t.dim[i];
    strides[i] = 1;
    if (i < n) {
      starts[i] = start[i];
      strides[i] = step[i];
      if (step[i] == 0) return elaborator_error(e, pos, "the step of a slice must not be 0");
      bool inside = step[i] > 0 ? start[i] >= 0 && stop[i] <= t.dim[i] && start[i] < stop[i]
                                : stop[i] >= -1 && start[i] < t.dim[i] && stop[i] < start[i];
      if (!inside) {
        bool empty = start[i] >= 0 && start[i] <= t.dim[i] && stop[i] >= 0 && stop[i] <= t.dim[i];
        return elaborator_error(e, pos,
                                empty ? "slice %lld:%lld of axis %d of %s is empty"
                                      : "slice %lld:%lld is outside axis %d of %s",
                                (long long)as_written(start[i], t.dim[i]), (long long)as_written(stop[i], t.dim[i]), i,
                                value_describe(e, value_tensor(x)));
      }
      sizes[i] = 1 + (step[i] > 0 ? (stop[i] - start[i] - 1) / step[i] : (start[i] - stop[i] - 1) / -step[i]);
      if (sizes[i] == 1) strides[i] = 1;   // however large the step
    }
    if (i >= n || !drop[i]) kept.dim[kept.rank++] = sizes[i];
  }
  MlirValue part = nn_slice(b, x, starts, sizes, strides);
  *result = value_tensor(kept.rank == t.rank ? part : nn_reshape(b, part, kept.rank, kept.dim));
  return true;
}
