// The pass `decode`: of the text of a causal model, which computes all positions of a sequence at once, a function
// @decode that computes the next one. What attention reads of earlier positions, their keys and values, it finds in
// caches; everything else is computed at one position. (Shazeer, "Fast Transformer Decoding", 2019, section 2.4, by
// hand; here it follows from the text.)
//
// A value that depends on the tokens has one axis of positions, of T elements, which is followed from op to op; in
// @decode that axis has one element. A value that does not depend on them is computed as it was, or, where it meets
// positions, at the one position: an iota along that axis becomes the number of the position, a table its row. What
// follows from other inputs alone, the text that an encoder reads, @predict computes once, and @decode is given.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passes/decode/decode.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "support/alloc.h"
#include "support/ptr_map.h"

enum { MAX_DEPTH = 64 };   // of what is followed back for its value at a position

typedef struct Cache {
  MlirValue argument, updated;   // in @decode; the same where it is not changed
  MlirValue whole;               // in @predict: the keys or values of all positions, or what other inputs decide
} Cache;

// Where a value has the records of the batch: along an axis, all of them `before` times, one after the other.
typedef struct Records {
  int axis;   // -1: nowhere that is known
  int64_t before;
} Records;

typedef struct Decode {
  MlirModule module;
  MlirOperation predict, decode;   // the functions
  NnBuilder b;                     // at the end of @decode
  int text;                        // the argument of @predict that is the tokens
  MlirValue tokens, position;      // arguments of @decode: [B, 1] of tokens, [1] of i32
  int64_t batch, length;           // B, T
  PtrMap axes;                     // of @predict's values that depend on the tokens: their axis of positions
  PtrMap places;                   // of the same values, in `records`
  int n_records;
  Records *records;   // Owned
  PtrMap given;       // @predict's values that other inputs decide, but not the tokens
  PtrMap made;        // @predict's values: what computes them in @decode, by place in `values`
  int n_values;
  MlirValue *values;        // Owned
  PtrMap at[NN_MAX_RANK];   // values that do not depend on the tokens, at the position along an axis
  int n_caches;
  Cache *caches;   // Owned
  char why[256];
  MlirOperation refused;   // the op that mixes positions; null: none
} Decode;

static bool refuse(Decode *d, MlirOperation op, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(d->why, sizeof d->why, format, args);
  va_end(args);
  d->refused = op;
  return false;
}

// -1: it does not depend on the tokens.
static int axis_of(const Decode *d, MlirValue v) { return ptr_map_get(&d->axes, v.ptr); }

static void note(Decode *d, PtrMap *map, MlirValue of, MlirValue made) {
  ptr_map_set(map, of.ptr, d->n_values);
  *ARRAY_ADD(d->values, d->n_values) = made;
}

static Records records_of(const Decode *d, MlirValue v) {
  int place = ptr_map_get(&d->places, v.ptr);
  return place < 0 ? (Records){-1, 1} : d->records[place];
}

static void note_records(Decode *d, MlirValue v, Records r) {
  ptr_map_set(&d->places, v.ptr, d->n_records);
  *ARRAY_ADD(d->records, d->n_records) = r;
}

// Those of the operands that depend on the tokens, where all have them alike.
static Records common_records(const Decode *d, MlirOperation op) {
  Records common = {-1, 1};
  bool any = false;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    if (axis_of(d, nn_operand(op, i)) < 0) continue;
    Records r = records_of(d, nn_operand(op, i));
    if (any && (r.axis != common.axis || r.before != common.before)) return (Records){-1, 1};
    common = r, any = true;
  }
  return common;
}

static bool is_given(const Decode *d, MlirValue v) { return ptr_map_get(&d->given, v.ptr) >= 0; }

static MlirValue add_cache(Decode *d, NnType type, MlirValue whole, bool fixed) {
  char name[32];
  snprintf(name, sizeof name, "cache.%d", d->n_caches);
  NnAttr attrs[] = {NN_STR(ATTR_role, "cache"), NN_STR(ATTR_name, name), NN_BOOL(ATTR_whole, true)};
  MlirValue argument = nn_function_add_arg(d->decode, type, d->b.loc, fixed ? 3 : 2, attrs);
  *ARRAY_ADD(d->caches, d->n_caches) = (Cache){argument, argument, whole};
  return argument;
}

// In @decode: as it was or, where it depends on the tokens, with one position.
static MlirValue made_of(Decode *d, MlirValue v) {
  if (ptr_map_get(&d->made, v.ptr) < 0) note(d, &d->made, v, add_cache(d, nn_value_type(v), v, true));   // given
  return d->values[ptr_map_get(&d->made, v.ptr)];
}

static NnType with_one(NnType t, int axis) {
  if (axis >= 0) t.dim[axis] = 1;
  return t;
}

// ---------------------------------------------------------------------------------------------------------------------
// Values that do not depend on the tokens, at the position

static MlirValue at_position(Decode *d, MlirValue v, int axis, int depth);

// The row of a whole value along an axis.
static MlirValue row_at_position(Decode *d, MlirValue v, int axis) {
  MlirValue whole = made_of(d, v);
  NnType t = nn_value_type(whole);
  int64_t front[NN_MAX_RANK], back[NN_MAX_RANK];
  for (int i = 0; i < t.rank; i++) front[i] = i == 0 ? axis : i <= axis ? i - 1 : i;
  for (int i = 0; i < t.rank; i++) back[front[i]] = i;
  return nn_transpose(&d->b, nn_binary(&d->b, NN_OP_gather, nn_transpose(&d->b, whole, front), d->position), back);
}

// Axis of the operand that a reshape makes `axis` of; -1: it splits or joins that one.
static int reshaped_axis(const NnType *from, const NnType *to, int axis) {
  int64_t before = 1, count = 1;
  for (int i = 0; i < axis; i++) before *= to->dim[i];
  for (int i = 0; i < from->rank; count *= from->dim[i++])
    if (count == before && from->dim[i] == to->dim[axis]) return i;
  return -1;
}

// The axis of its first operand that is `axis` of the result of a view; -1: none is.
static int axis_under_view(MlirOperation op, int axis) {
  int64_t list[NN_MAX_RANK], starts[NN_MAX_RANK], strides[NN_MAX_RANK];
  NnType from = nn_value_type(nn_operand(op, 0)), to = nn_value_type(nn_result(op, 0));
  switch (nn_op_of(op)) {
  case NN_OP_broadcast:
    nn_attr_i64s(op, "dims", list, NN_MAX_RANK);
    for (int i = 0; i < from.rank; i++)
      if (list[i] == axis) return from.dim[i] == to.dim[axis] ? i : -1;
    return -1;
  case NN_OP_transpose: nn_attr_i64s(op, "perm", list, NN_MAX_RANK); return (int)list[axis];
  case NN_OP_reshape: return reshaped_axis(&from, &to, axis);
  case NN_OP_slice:
    nn_attr_i64s(op, "starts", starts, NN_MAX_RANK);
    nn_attr_i64s(op, "strides", strides, NN_MAX_RANK);
    return starts[axis] == 0 && strides[axis] == 1 && from.dim[axis] == to.dim[axis] ? axis : -1;
  default: return -1;
  }
}

static MlirValue slice_like(Decode *d, MlirOperation op, MlirValue x, int axis) {
  int64_t starts[NN_MAX_RANK], sizes[NN_MAX_RANK], strides[NN_MAX_RANK];
  nn_attr_i64s(op, "starts", starts, NN_MAX_RANK);
  nn_attr_i64s(op, "sizes", sizes, NN_MAX_RANK);
  nn_attr_i64s(op, "strides", strides, NN_MAX_RANK);
  sizes[axis] = 1;
  return nn_slice(&d->b, x, starts, sizes, strides);
}

// A view of the operand that has one position.
static MlirValue view_like(Decode *d, MlirOperation op, MlirValue x, int axis) {
  if (nn_op_of(op) == NN_OP_slice) return slice_like(d, op, x, axis);
  NnType type = with_one(nn_value_type(nn_result(op, 0)), axis);
  return nn_build_like(&d->b, nn_op_of(op), op, 1, &x, &type);
}

static MlirValue source_at_position(Decode *d, MlirOperation op, const NnType *type, int axis) {
  bool counts = nn_op_of(op) == NN_OP_iota && nn_attr_i64(op, "axis", -1) == axis;
  if (!counts) return nn_build_like(&d->b, nn_op_of(op), op, 0, NULL, type);
  return nn_broadcast(&d->b, nn_cast(&d->b, d->position, type->dtype), *type, (int64_t[]){axis});
}

static MlirValue compute_at_position(Decode *d, MlirValue v, int axis, int depth) {
  MlirOperation op = nn_value_def(v);
  NnOp kind = mlirOperationIsNull(op) ? NN_OP_NONE : nn_op_of(op);
  NnType type = with_one(nn_value_type(v), axis);
  if (kind == NN_OP_NONE || depth == MAX_DEPTH) return row_at_position(d, v, axis);
  if (kind == NN_OP_iota || kind == NN_OP_constant) return source_at_position(d, op, &type, axis);
  if (nn_op_info(kind)->kind == NN_KIND_MAP) {
    MlirValue operand[3];
    int n = (int)mlirOperationGetNumOperands(op);
    for (int i = 0; i < n; i++) operand[i] = at_position(d, nn_operand(op, i), axis, depth + 1);
    return nn_build_like(&d->b, kind, op, n, operand, &type);
  }
  if (nn_op_info(kind)->kind == NN_KIND_VIEW) {
    int under = axis_under_view(op, axis);
    if (under >= 0) return view_like(d, op, at_position(d, nn_operand(op, 0), under, depth + 1), axis);
    if (kind == NN_OP_broadcast)   // stretched along the axis
      return nn_build_like(&d->b, kind, op, 1, (MlirValue[]){made_of(d, nn_operand(op, 0))}, &type);
  }
  if (kind == NN_OP_gather && axis < nn_value_type(nn_operand(op, 1)).rank)
    return nn_binary(&d->b, NN_OP_gather, made_of(d, nn_operand(op, 0)),
                     at_position(d, nn_operand(op, 1), axis, depth + 1));
  return row_at_position(d, v, axis);
}

static MlirValue at_position(Decode *d, MlirValue v, int axis, int depth) {
  int known = ptr_map_get(&d->at[axis], v.ptr);
  if (known >= 0) return d->values[known];
  MlirValue made = compute_at_position(d, v, axis, depth);
  note(d, &d->at[axis], v, made);
  return made;
}

// ---------------------------------------------------------------------------------------------------------------------
// Attention

// The keys that position p sees, as a mask [B, T].
static MlirValue seen_keys(Decode *d, const NnAttention *a) {
  NnBuilder *b = &d->b;
  NnType row = nn_type(NN_I32, 1, &d->length), all = nn_type(NN_I1, 2, (int64_t[]){a->batch, d->length});
  MlirValue key = nn_iota(b, row, 0), position = nn_broadcast(b, d->position, row, (int64_t[]){0});
  MlirValue seen = nn_compare(b, "le", key, position);
  if (a->window > 0) {
    MlirValue last = nn_binary(b, NN_OP_add, key, nn_constant_like(b, key, (double)a->window));
    seen = nn_binary(b, NN_OP_and, seen, nn_compare(b, "gt", last, position));
  }
  return nn_broadcast(b, seen, all, (int64_t[]){1});
}

static MlirValue operand_at(Decode *d, MlirValue v, int axis) {
  return axis_of(d, v) >= 0 ? made_of(d, v) : at_position(d, v, axis, 0);
}

// Writes the position's row of keys or values, [B, T, G, D] or [B, G, T, D], into a cache; the whole cache, with the
// same axes. Rows that were not written are zero, so that adding to them writes, and touches nothing else.
static MlirValue cached(Decode *d, MlirValue whole, int axis) {
  MlirValue x = operand_at(d, whole, axis);
  NnType t = nn_value_type(whole), *type = &t;
  NnBuilder *b = &d->b;
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < type->rank; i++) *(i < axis ? &outer : &inner) *= i == axis ? 1 : type->dim[i];
  NnType table = nn_type(nn_dtype_wide(type->dtype), 2, (int64_t[]){outer * d->length, inner}),
         indices = nn_type(NN_I32, 1, &outer);
  int place = d->n_caches;
  MlirValue argument = add_cache(d, table, whole, false), row = nn_iota(b, indices, 0);
  row = nn_binary(b, NN_OP_mul, row, nn_constant(b, indices, (double)d->length));
  row = nn_binary(b, NN_OP_add, row, nn_broadcast(b, d->position, indices, (int64_t[]){0}));
  MlirValue operand[] = {nn_reshape(b, nn_cast(b, x, table.dtype), 2, (int64_t[]){outer, inner}), row, argument};
  MlirValue updated = nn_result(nn_build(b, NN_OP_scatter_add_to, 3, operand, 0, NULL, NULL), 0);
  d->caches[place].updated = updated;
  return nn_cast(b, nn_reshape(b, updated, type->rank, type->dim), type->dtype);
}

// Beams move rows of a cache: the records must be the first of its axes.
static bool begins_with_records(const Decode *d, MlirValue v) {
  Records r = records_of(d, v);
  NnType t = nn_value_type(v);
  bool first = r.axis >= 0 && r.before == 1;
  for (int i = 0; i < r.axis; i++) first &= t.dim[i] == 1;
  return first || d->batch == 1;
}

static bool attention_at_position(Decode *d, MlirOperation op) {
  NnAttention a = nn_attention_of(op);
  require_promise(!a.joined, "attention after fuse");
  NnBuilder *b = &d->b;
  int axis = a.heads_last ? 1 : 2, n = 3;
  for (int i = 0; i < 3; i++) {
    int has = axis_of(d, nn_operand(op, i));
    if (has >= 0 && has != axis) return refuse(d, op, "attention is over another axis than that of the positions");
  }
  bool all = !a.causal && axis_of(d, nn_operand(op, 1)) < 0 && axis_of(d, nn_operand(op, 2)) < 0;
  if (!a.causal && !all) return refuse(d, op, "attention sees the positions behind its own: causal=true is not given");
  if (a.n_queries != d->length || (!all && a.n_keys != d->length) || (all && a.window > 0))
    return refuse(d, op, "attention has other queries or keys than the positions");
  if (a.dropout > 0) return refuse(d, op, "attention drops at random");
  if (!all && (!begins_with_records(d, nn_operand(op, 1)) || !begins_with_records(d, nn_operand(op, 2))))
    return refuse(d, op, "the batch is not the first axis of the keys and values of attention");
  for (int i = 3; i < (int)mlirOperationGetNumOperands(op); i++)
    if (axis_of(d, nn_operand(op, i)) >= 0) return refuse(d, op, "the mask or bias of attention depends on the tokens");
  MlirValue operand[5] = {operand_at(d, nn_operand(op, 0), axis)}, seen = all ? nn_null_value() : seen_keys(d, &a);
  for (int i = 1; i < 3; i++) operand[i] = all ? made_of(d, nn_operand(op, i)) : cached(d, nn_operand(op, i), axis);
  if (a.mask >= 0) {
    MlirValue mask = made_of(d, nn_operand(op, a.mask));
    seen = all ? mask : nn_binary(b, NN_OP_and, seen, mask);
  }
  if (!nn_value_is_null(seen)) operand[n++] = seen;
  if (a.bias >= 0) operand[n++] = at_position(d, nn_operand(op, a.bias), 2, 0);
  NnAttr attrs[] = {NN_F64A("scale", a.scale), NN_STR("layout", a.heads_last ? "bthd" : "bhtd"),
                    NN_F64A("softcap", a.softcap)};
  MlirOperation made = nn_build(b, NN_OP_attention, n, operand, a.softcap > 0 ? 3 : 2, attrs, NULL);
  if (mlirOperationIsNull(made)) return refuse(d, op, "%s", b->error);
  const int axes[] = {axis, 2};   // of the result, and of the log-sum-exp [B, H, T]
  for (int r = 0; r < 2; r++) {
    note(d, &d->made, nn_result(op, r), nn_result(made, r));
    ptr_map_set(&d->axes, nn_result(op, r).ptr, axes[r]);
    note_records(d, nn_result(op, r), common_records(d, op));
  }
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Other ops

static bool is_among(int axis, int n, const int64_t *axes) {
  for (int i = 0; i < n; i++)
    if (axes[i] == axis) return true;
  return false;
}

// Axis of the result of an op that goes along an axis of its own, and keeps or drops it.
static int axis_beside(int axis, int n, const int64_t *axes, bool drops) {
  int before = 0;
  if (is_among(axis, n, axes)) return -1;
  for (int i = 0; i < n; i++) before += axes[i] < axis;
  return drops ? axis - before : axis;
}

// x, y: of the operands; -1: it has none.
static int product_axis(MlirOperation op, int x, int y) {
  int rank = nn_value_type(nn_operand(op, 0)).rank, other = nn_value_type(nn_operand(op, 1)).rank;
  bool turned = nn_attr_bool(op, "transpose_a", false), leading = x >= 0 && x < rank - 2;
  if (y >= 0) return x == y && leading && other == rank ? x : -1;   // products of each position by itself
  return leading ? x : x == (turned ? rank - 1 : rank - 2) ? rank - 2 : -1;
}

// The axis of positions of the first result, of an op whose first operand that depends on the tokens has `axis`; -1: it
// mixes positions.
static int result_axis(const Decode *d, MlirOperation op, int axis) {
  char kind[16];
  int64_t list[NN_MAX_RANK], other[NN_MAX_RANK], inside[NN_MAX_RANK];
  NnType from = nn_value_type(nn_operand(op, 0)), to = nn_value_type(nn_result(op, 0));
  int n;
  switch (nn_op_of(op)) {
  case NN_OP_broadcast: nn_attr_i64s(op, "dims", list, NN_MAX_RANK); return (int)list[axis];
  case NN_OP_reshape: return reshaped_axis(&to, &from, axis);
  case NN_OP_transpose:
    n = nn_attr_i64s(op, "perm", list, NN_MAX_RANK);
    for (int i = 0; i < n; i++)
      if (list[i] == axis) return i;
    return -1;
  case NN_OP_slice: return axis_under_view(op, axis) == axis ? axis : -1;
  case NN_OP_softmax:
  case NN_OP_log_softmax:
  case NN_OP_layernorm: return axis < from.rank - 1 ? axis : -1;
  case NN_OP_stop_gradient: return axis;
  case NN_OP_fourier:   // of rows, which are complex but for the "real" kind
    nn_attr_str(op, "kind", kind, sizeof kind, "");
    return axis < from.rank - (strcmp(kind, "real") == 0 ? 1 : 2) ? axis : -1;
  case NN_OP_reduce_sum:
  case NN_OP_reduce_max:
  case NN_OP_moments: n = nn_attr_i64s(op, "axes", list, NN_MAX_RANK); return axis_beside(axis, n, list, true);
  case NN_OP_argmax:
  case NN_OP_concat:
  case NN_OP_cumulative:
  case NN_OP_argsort:
  case NN_OP_recurrence:
  case NN_OP_take_along:
  case NN_OP_scatter_along:
    list[0] = nn_attr_i64(op, "axis", -1);
    return axis_beside(axis, 1, list, nn_op_of(op) == NN_OP_argmax);
  case NN_OP_pad:
    nn_attr_i64s(op, "low", list, NN_MAX_RANK);
    nn_attr_i64s(op, "high", other, NN_MAX_RANK);
    nn_attr_i64s(op, "interior", inside, NN_MAX_RANK);
    return list[axis] || other[axis] || inside[axis] ? -1 : axis;
  case NN_OP_gather: return axis_of(d, nn_operand(op, 0)) >= 0 ? -1 : axis;
  case NN_OP_matmul: return product_axis(op, axis_of(d, nn_operand(op, 0)), axis_of(d, nn_operand(op, 1)));
  default: return nn_op_info(nn_op_of(op))->kind == NN_KIND_MAP ? axis : -1;
  }
}

static Records result_records(const Decode *d, MlirOperation op) {
  Records r = common_records(d, op);
  if (r.axis < 0) return r;
  if (nn_op_of(op) == NN_OP_reshape) {
    NnType from = nn_value_type(nn_operand(op, 0)), to = nn_value_type(nn_result(op, 0));
    int64_t before = r.before, count = 1;
    for (int i = 0; i < r.axis; i++) before *= from.dim[i];
    for (int i = 0; i < to.rank; count *= to.dim[i++])
      if (before % count == 0 && count * to.dim[i] % (before * d->batch) == 0) return (Records){i, before / count};
    return (Records){-1, 1};
  }
  bool depends[2] = {axis_of(d, nn_operand(op, 0)) >= 0};
  if (nn_op_of(op) == NN_OP_matmul) depends[1] = axis_of(d, nn_operand(op, 1)) >= 0;
  r.axis = nn_op_of(op) == NN_OP_matmul ? product_axis(op, depends[0] ? r.axis : -1, depends[1] ? r.axis : -1)
                                        : result_axis(d, op, r.axis);
  return r;
}

// Whether an operand that does not depend on the tokens stands for all positions: it is taken at the one.
static bool has_positions(MlirOperation op, int operand, int axis) {
  switch (nn_op_of(op)) {
  case NN_OP_layernorm:
  case NN_OP_gather: return false;
  case NN_OP_matmul: return operand == 1 && axis < nn_value_type(nn_operand(op, 1)).rank - 2;
  default: return true;
  }
}

static bool compute_one(Decode *d, MlirOperation op, int axis) {
  NnOp kind = nn_op_of(op);
  int n = (int)mlirOperationGetNumOperands(op), n_results = nn_op_info(kind)->n_results, to = result_axis(d, op, axis);
  if (to < 0) return refuse(d, op, "%s computes across positions", nn_op_info(kind)->name);
  for (int i = 0; i < n; i++) {
    int has = axis_of(d, nn_operand(op, i));
    bool other = has >= 0 && has != axis && kind != NN_OP_matmul;
    if (other || (has >= 0 && kind == NN_OP_layernorm && i > 0))
      return refuse(d, op, "%s takes operands whose positions lie along different axes", nn_op_info(kind)->name);
  }
  MlirValue first;
  if (nn_op_info(kind)->kind == NN_KIND_VIEW) {
    first = view_like(d, op, made_of(d, nn_operand(op, 0)), to);
  } else {
    MlirValue *operand = allocate_array((size_t)n + 1, sizeof *operand);
    NnType type[NN_MAX_RESULTS];
    for (int i = 0; i < n; i++)
      operand[i] = has_positions(op, i, axis) ? operand_at(d, nn_operand(op, i), axis) : made_of(d, nn_operand(op, i));
    for (int r = 0; r < n_results; r++) type[r] = with_one(nn_value_type(nn_result(op, r)), to);
    first = nn_build_like(&d->b, kind, op, n, operand, type);
    free(operand);
  }
  for (int r = 0; r < n_results; r++) {
    note(d, &d->made, nn_result(op, r), r ? nn_result(nn_value_def(first), r) : first);
    ptr_map_set(&d->axes, nn_result(op, r).ptr, to);
    note_records(d, nn_result(op, r), result_records(d, op));
  }
  return true;
}

static void copy_op(Decode *d, MlirOperation op) {
  MlirOperation copy = mlirOperationClone(op);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    mlirOperationSetOperand(copy, i, made_of(d, nn_operand(op, i)));
  mlirBlockAppendOwnedOperation(d->b.block, copy);
  for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++) note(d, &d->made, nn_result(op, r), nn_result(copy, r));
}

static bool decode_op(Decode *d, MlirOperation op) {
  NnOp kind = nn_op_of(op);
  int axis = -1;
  bool given = false;
  if (kind != NN_OP_NONE && nn_op_info(kind)->kind == NN_KIND_MARK) return true;
  d->b.loc = mlirOperationGetLocation(op);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op) && axis < 0; i++) axis = axis_of(d, nn_operand(op, i));
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op) && axis < 0; i++) given |= is_given(d, nn_operand(op, i));
  for (intptr_t r = 0; given && r < mlirOperationGetNumResults(op); r++)
    ptr_map_set(&d->given, nn_result(op, r).ptr, 1);
  if (given) return true;
  if (kind == NN_OP_NONE) return refuse(d, op, "a loop over the sequence");
  if (axis >= 0) return kind == NN_OP_attention ? attention_at_position(d, op) : compute_one(d, op, axis);
  copy_op(d, op);
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// The function

static bool is_input(MlirOperation func, int a) {
  char role[16];
  return !strcmp(nn_arg_str(func, a, ATTR_role, role, sizeof role, ""), "input");
}

// The arguments of @predict, of the tokens one position and of other inputs none, then which position that is.
static bool add_arguments(Decode *d) {
  MlirContext ctx = mlirModuleGetContext(d->module);
  MlirBlock from = nn_function_body(d->predict), to = nn_function_body(d->decode);
  int n = (int)mlirBlockGetNumArguments(from), kept = 0;
  MlirAttribute all = nn_attribute(d->predict, "arg_attrs"),
                *dictionaries = allocate_array((size_t)n + 1, sizeof *dictionaries);
  for (int a = 0; a < n; a++) {
    char role[16];
    MlirValue v = mlirBlockGetArgument(from, a);
    NnType t = nn_value_type(v);
    bool tokens = a == d->text;
    if (!strcmp(nn_arg_str(d->predict, a, ATTR_role, role, sizeof role, ""), "rng")) {
      free(dictionaries);
      return refuse(d, d->predict, "it draws random numbers");
    }
    if (!tokens && is_input(d->predict, a)) {
      ptr_map_set(&d->given, v.ptr, 1);
      continue;
    }
    NnType type = with_one(t, tokens ? 1 : -1);
    MlirValue made = mlirBlockAddArgument(to, nn_type_to_mlir(ctx, &type), mlirOperationGetLocation(d->predict));
    note(d, &d->made, v, made);
    dictionaries[kept++] = mlirArrayAttrGetElement(all, a);
    if (!tokens) continue;
    d->tokens = made, d->batch = t.dim[0], d->length = t.dim[1];
    ptr_map_set(&d->axes, v.ptr, 1);
    note_records(d, v, (Records){0, 1});
  }
  int64_t one = 1;
  NnType type = nn_type(NN_I32, 1, &one);
  d->position = mlirBlockAddArgument(to, nn_type_to_mlir(ctx, &type), mlirOperationGetLocation(d->predict));
  MlirNamedAttribute attrs[] = {nn_named(ctx, ATTR_name, mlirStringAttrGet(ctx, nn_string_ref("position"))),
                                nn_named(ctx, ATTR_role, mlirStringAttrGet(ctx, nn_string_ref("input"))),
                                nn_named(ctx, ATTR_whole, mlirBoolAttrGet(ctx, true))};
  dictionaries[kept] = mlirDictionaryAttrGet(ctx, 3, attrs);
  nn_function_set_arg_attrs(d->decode, kept + 1, dictionaries);
  free(dictionaries);
  return true;
}

static bool check_results(Decode *d) {
  MlirOperation ret = nn_function_return(d->predict);
  for (int r = 0; r < (int)mlirOperationGetNumOperands(ret); r++) {
    char role[16];
    if (strcmp(nn_result_str(d->predict, r, ATTR_role, role, sizeof role, ""), "output") != 0)
      return refuse(d, d->predict, "its states go on with a text already");
    if (axis_of(d, mlirOperationGetOperand(ret, r)) != 1)
      return refuse(d, d->predict, "its output has no row for each position");
  }
  return true;
}

// The outputs of @predict, then the caches. @predict itself gives keys and values of all positions: for the beginning
// of a text, which is known at once.
static void set_results(Decode *d, MlirOperation func) {
  bool whole = mlirOperationEqual(func, d->predict);
  MlirOperation ret = nn_function_return(d->predict);
  int n = (int)mlirOperationGetNumOperands(ret), all = n + d->n_caches;
  MlirValue *values = allocate_array((size_t)all, sizeof *values);
  MlirAttribute *dictionaries = allocate_array((size_t)all, sizeof *dictionaries);
  MlirAttribute theirs = nn_attribute(d->predict, "res_attrs");
  NnBuilder b = rewrite_builder(ret);
  b.phase = "forward";
  for (int r = 0; r < n; r++) {
    MlirValue v = mlirOperationGetOperand(ret, r);
    values[r] = whole ? v : made_of(d, v);
    dictionaries[r] = mlirArrayAttrGetElement(theirs, r);
  }
  for (int i = 0; i < d->n_caches; i++) {
    const Cache *c = &d->caches[i];
    NnType t = nn_value_type(c->argument);
    char name[32];
    snprintf(name, sizeof name, "cache.%d", i);
    NnAttr given[] = {NN_STR(ATTR_role, "cache"), NN_STR(ATTR_name, name)},
           updated[] = {NN_STR(ATTR_role, "update"), NN_I64(ATTR_tied, nn_value_index(c->argument))};
    values[n + i] = whole ? nn_reshape(&b, nn_cast(&b, c->whole, t.dtype), t.rank, t.dim) : c->updated;
    dictionaries[n + i] = nn_attr_dictionary(b.ctx, 2, whole ? given : updated);
  }
  nn_function_set_results(func, all, values, 0);
  nn_function_set_result_attrs(func, all, dictionaries);
  free(values);
  free(dictionaries);
}

static bool build(Decode *d) {
  if (!add_arguments(d)) return false;
  d->b = nn_builder_at_end(nn_function_body(d->decode), mlirOperationGetLocation(d->predict));
  d->b.ctx = mlirModuleGetContext(d->module);
  d->b.phase = "forward";
  MlirOperation ret = nn_function_return(d->predict);
  NN_FOREACH_OP (op, nn_function_body(d->predict))
    if (!mlirOperationEqual(op, ret) && !decode_op(d, op)) return false;
  if (d->n_caches == 0) return refuse(d, d->predict, "it has no attention whose keys and values could be kept");
  if (!check_results(d)) return false;
  set_results(d, d->decode);
  return true;
}

static void note_refusal(Decode *d) {
  MlirOperation top = mlirModuleGetOperation(d->module);
  nn_set_attr(top, &NN_STR(ATTR_uncached, d->why));
  nn_set_attribute(top, ATTR_uncached_at, mlirLocationGetAttribute(mlirOperationGetLocation(d->refused)));
}

int64_t decode_cache_bytes(MlirModule module) {
  MlirOperation func = nn_module_function(module, "decode");
  int64_t bytes = 0;
  for (int a = 0; !mlirOperationIsNull(func) && a < nn_function_n_args(func); a++) {
    char role[16];
    if (strcmp(nn_arg_str(func, a, ATTR_role, role, sizeof role, ""), "cache") != 0) continue;
    NnType t = nn_value_type(mlirBlockGetArgument(nn_function_body(func), a));
    bytes += nn_type_bytes(&t);
  }
  return bytes;
}

static bool is_text(MlirOperation func, int a) {
  NnType t = nn_value_type(mlirBlockGetArgument(nn_function_body(func), a));
  return is_input(func, a) && t.rank == 2 && !nn_dtype_is_float(t.dtype);
}

// With the argument `text` of @predict as the tokens; d tells why not.
static bool attempt(Decode *d, int text) {
  d->text = text;
  d->decode = nn_function_create(d->module, "decode", false, mlirOperationGetLocation(d->predict));
  bool ok = build(d);
  if (ok) {
    while (rewrite_erase_dead(nn_function_body(d->decode)) > 0) continue;
    set_results(d, d->predict);
  } else {
    mlirOperationDestroy(d->decode);
  }
  ptr_map_free(&d->axes);
  ptr_map_free(&d->places);
  free(d->records);
  ptr_map_free(&d->given);
  ptr_map_free(&d->made);
  for (int i = 0; i < NN_MAX_RANK; i++) ptr_map_free(&d->at[i]);
  free(d->values);
  free(d->caches);
  return ok;
}

// Requires: functions as the frontend makes them, simplified or not; before `layout`, so that positions are an axis.
// Establishes: @decode, where @predict is a causal model of tokens [B, T], of the first of its inputs that it is causal
// in: arguments tokens [B, 1], position i32[1], what persists as in @predict, and caches with the role `cache`, which
// are updated, or with `nn.whole` kept; its output is that of @predict at the position, where it was called for all
// positions before, and rows of the caches that were not written are zero. @predict has results with that role, too:
// what the caches hold after all positions.
// Otherwise `nn.uncached` and `nn.uncached_at` on the module say why not. Breaks: nothing.
bool nn_pass_decode(MlirModule module, const NnPassRun *run) {
  (void)run;
  Decode d = {.module = module, .predict = nn_module_function(module, "predict"), .refused = nn_null_operation()};
  if (mlirOperationIsNull(d.predict)) {
    nn_set_attr(mlirModuleGetOperation(module), &NN_STR(ATTR_uncached, "there is no model"));
    return true;
  }
  refuse(&d, d.predict, "it has no input of tokens [batch, length]");
  for (int a = 0, n = nn_function_n_args(d.predict); a < n; a++) {
    if (!is_text(d.predict, a)) continue;
    d = (Decode){.module = module, .predict = d.predict};
    if (attempt(&d, a)) return true;
  }
  note_refusal(&d);   // of the last, which a decoder writes
  return true;
}
