// Moves: pad, concat, gather, scatter_add, scatter_max, argmax. Each is a loop nest of its own in the generated code.
#include "ir/ops/ops.h"

bool nn_infer_pad(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  const NnType *x = &c->operand[0];
  int64_t low[NN_MAX_RANK], high[NN_MAX_RANK], interior[NN_MAX_RANK];
  if (!nn_need_i64s(c, "low", x->rank, 0, low) || !nn_need_i64s(c, "high", x->rank, 0, high) ||
      !nn_need_i64s(c, "interior", x->rank, 0, interior))
    return false;
  *result = *x;
  for (int i = 0; i < x->rank; i++) {
    if (x->dim[i] > 1 && interior[i] > NN_MAX_ELEMENTS / x->dim[i])
      return nn_fail(c, "interior padding of %lld is too large for %s", (long long)interior[i], nn_text(x).text);
    result->dim[i] = low[i] + x->dim[i] + (x->dim[i] - 1) * interior[i] + high[i];
  }
  return true;
}

void nn_vjp_pad(NnVjp *v) {
  if (!v->needed[0] || nn_value_is_null(v->cotangent[0])) return;
  NnType x = nn_value_type(v->operand[0]);
  int64_t low[NN_MAX_RANK], strides[NN_MAX_RANK];
  nn_attr_i64s(v->op, "low", low, NN_MAX_RANK);
  nn_attr_i64s(v->op, "interior", strides, NN_MAX_RANK);
  for (int i = 0; i < x.rank; i++) strides[i] = x.dim[i] > 1 ? strides[i] + 1 : 1;
  v->operand_cotangent[0] = nn_slice(v->b, v->cotangent[0], low, x.dim, strides);
}

bool nn_infer_concat(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  int64_t axis;
  if (!nn_need_axis(c, c->operand[0].rank, &axis)) return false;
  *result = c->operand[0];
  for (int i = 1; i < c->n_operands; i++) {
    const NnType *x = &c->operand[i];
    if (!nn_need_same_dtype(c, 0, i)) return false;
    bool fits = x->rank == result->rank;
    for (int k = 0; fits && k < x->rank; k++) fits = k == axis || x->dim[k] == result->dim[k];
    if (!fits)
      return nn_fail(c, "operands must agree but for axis %lld: %s and %s", (long long)axis,
                     nn_text(&c->operand[0]).text, nn_text(x).text);
    result->dim[axis] += x->dim[axis];
    // At most 2^40 each, and the check of the sum must not overflow.
    if (result->dim[axis] > NN_MAX_ELEMENTS) return nn_fail(c, "the result has more elements than any machine holds");
  }
  return true;
}

void nn_vjp_concat(NnVjp *v) {
  MlirValue g = v->cotangent[0];
  if (nn_value_is_null(g)) return;
  int64_t axis = nn_attr_i64(v->op, "axis", 0), starts[NN_MAX_RANK] = {0};
  for (int i = 0; i < v->n_operands; i++) {
    NnType x = nn_value_type(v->operand[i]);
    if (v->needed[i]) v->operand_cotangent[i] = nn_slice(v->b, g, starts, x.dim, NULL);
    starts[axis] += x.dim[axis];
  }
}

// table[R, rest…], indices[I…] to [I…, rest…]
bool nn_infer_gather(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  const NnType *table = &c->operand[0], *indices = &c->operand[1];
  if (!nn_need_min_rank(c, 0, 1) || !nn_need_integer(c, 1)) return false;
  if (indices->rank + table->rank - 1 > NN_MAX_RANK)
    return nn_fail(c, "%s at %s would have more than %d axes", nn_text(table).text, nn_text(indices).text, NN_MAX_RANK);
  *result = *indices;
  result->dtype = table->dtype;
  for (int i = 1; i < table->rank; i++) result->dim[result->rank++] = table->dim[i];
  return true;
}

// The sums of rows that share an index. Many small terms may meet in one place, so narrow types are added up in the
// wide one.
static MlirValue scatter_sum(NnBuilder *b, MlirValue updates, MlirValue indices, int64_t rows) {
  NnDtype dtype = nn_value_dtype(updates);
  updates = nn_cast(b, updates, nn_dtype_wide(dtype));
  MlirOperation op = nn_build(b, NN_OP_scatter_add, 2, (MlirValue[]){updates, indices}, 1, &NN_I64("rows", rows), NULL);
  return nn_cast(b, mlirOperationGetResult(op, 0), dtype);
}

void nn_vjp_gather(NnVjp *v) {
  if (!v->needed[0] || nn_value_is_null(v->cotangent[0])) return;
  int64_t rows = nn_value_type(v->operand[0]).dim[0];
  v->operand_cotangent[0] = scatter_sum(v->b, v->cotangent[0], nn_index_clamped(v->b, v->operand[1], rows), rows);
}

static bool wide_sum(NnOpCall *c) {
  return !nn_dtype_is_narrow(c->operand[0].dtype) ||
         nn_fail(c, "adds up in f32 or f64, found %s", nn_text(&c->operand[0]).text);
}

// updates[I…, rest…], indices[I…] to [rows, rest…]
static bool scattered(NnOpCall *c, NnType *result) {
  const NnType *updates = &c->operand[0], *indices = &c->operand[1];
  int64_t rows = nn_call_i64(c, "rows", 0);
  if (!nn_need_number(c, 0) || !nn_need_integer(c, 1)) return false;
  if (rows < 1) return nn_fail(c, "'rows' must be at least 1, found %lld", (long long)rows);
  bool fits = updates->rank >= indices->rank && updates->rank - indices->rank < NN_MAX_RANK;
  for (int i = 0; fits && i < indices->rank; i++) fits = updates->dim[i] == indices->dim[i];
  if (!fits)
    return nn_fail(c, "the leading axes of %s must be those of the indices %s", nn_text(updates).text,
                   nn_text(indices).text);
  *result = (NnType){.dtype = updates->dtype, .rank = 1, .dim = {rows}};
  for (int i = indices->rank; i < updates->rank; i++) result->dim[result->rank++] = updates->dim[i];
  return true;
}

bool nn_infer_scatter_add(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  return wide_sum(c) && scattered(c, result);
}

// The rows of a table at indices, zeros where an index is outside.
static MlirValue rows_inside(NnBuilder *b, MlirValue table, MlirValue indices) {
  MlirValue rows = nn_binary(b, NN_OP_gather, table, indices);
  MlirValue inside = nn_index_inside(b, indices, nn_value_type(table).dim[0]);
  if (nn_value_is_null(inside)) return rows;
  int64_t axes[NN_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
  return nn_select(b, nn_broadcast(b, inside, nn_value_type(rows), axes), rows, nn_zeros_like(b, rows));
}

void nn_vjp_scatter_add(NnVjp *v) {
  if (!v->needed[0] || nn_value_is_null(v->cotangent[0])) return;
  v->operand_cotangent[0] = rows_inside(v->b, v->cotangent[0], v->operand[1]);
}

double nn_flops_scatter_add(MlirOperation op) {
  NnType updates = nn_operand_type(op, 0);
  return (double)nn_type_elements(&updates);
}

bool nn_infer_scatter_max(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  return nn_need_float(c, 0) && scattered(c, result);
}

// Elements equal to the maximum share the cotangent equally, as with reduce_max.
void nn_vjp_scatter_max(NnVjp *v) {
  MlirValue g = v->cotangent[0], x = v->operand[0], indices = v->operand[1];
  if (!v->needed[0] || nn_value_is_null(g)) return;
  NnBuilder *b = v->b;
  MlirValue is_max = nn_compare(b, "eq", x, nn_binary(b, NN_OP_gather, v->result[0], indices));
  MlirValue counted = nn_select(b, is_max, nn_constant_like(b, x, 1), nn_zeros_like(b, x));
  MlirValue sum = scatter_sum(b, counted, indices, nn_value_type(g).dim[0]);
  MlirValue count = nn_binary(b, NN_OP_max, sum, nn_constant_like(b, g, 1));
  MlirValue share = rows_inside(b, nn_binary(b, NN_OP_div, g, count), indices);
  v->operand_cotangent[0] = nn_select(b, is_max, share, nn_zeros_like(b, x));
}

double nn_flops_scatter_max(MlirOperation op) { return nn_flops_scatter_add(op); }

// updates[I…, rest…], indices[I…], table[rows, rest…] to [rows, rest…]
bool nn_infer_scatter_add_to(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  const NnType *updates = &c->operand[0], *indices = &c->operand[1], *table = &c->operand[2];
  if (!nn_need_number(c, 0) || !wide_sum(c) || !nn_need_integer(c, 1) || !nn_need_min_rank(c, 2, 1)) return false;
  bool fits = updates->dtype == table->dtype && updates->rank == indices->rank + table->rank - 1;
  for (int i = 0; fits && i < indices->rank; i++) fits = updates->dim[i] == indices->dim[i];
  for (int i = 1; fits && i < table->rank; i++) fits = updates->dim[indices->rank + i - 1] == table->dim[i];
  if (!fits)
    return nn_fail(c, "%s are not rows of %s at the indices %s", nn_text(updates).text, nn_text(table).text,
                   nn_text(indices).text);
  *result = *table;
  return true;
}

void nn_vjp_scatter_add_to(NnVjp *v) {
  nn_vjp_scatter_add(v);
  v->operand_cotangent[2] = v->cotangent[0];
}

double nn_flops_scatter_add_to(MlirOperation op) { return nn_flops_scatter_add(op); }

bool nn_infer_argmax(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  const NnType *x = &c->operand[0];
  int64_t axis;
  if (!nn_need_number(c, 0) || !nn_need_axis(c, x->rank, &axis)) return false;
  if (x->dim[axis] > INT32_MAX)
    return nn_fail(c, "the index along axis %lld of %s does not fit an i32", (long long)axis, nn_text(x).text);
  *result = (NnType){.dtype = NN_I32};
  for (int i = 0; i < x->rank; i++)
    if (i != axis) result->dim[result->rank++] = x->dim[i];
  return true;
}

double nn_flops_argmax(MlirOperation op) {
  NnType x = nn_operand_type(op, 0);
  return (double)nn_type_elements(&x);
}
