// What goes along an axis: cumulative sums and products, linear recurrences, sorting, elements taken and added by
// indices. Gradients of the sequential ones are recurrences in the other direction.
#include <math.h>
#include <string.h>

#include "ir/ops/ops.h"

// Types that these ops compute in; narrower ones are cast before.
static bool need_wide(NnOpCall *c, int i) {
  NnDtype t = c->operand[i].dtype;
  return t == NN_F32 || t == NN_F64 || t == NN_I32 || t == NN_I64 ||
         nn_fail(c, "operand %d must be of f32, f64, i32 or i64, found %s", i, nn_text(&c->operand[i]).text);
}

// Indices are i32, and kernels count in it.
static bool need_length(NnOpCall *c, int64_t n) {
  return n <= INT32_MAX || nn_fail(c, "an axis of %lld elements is longer than 2^31-1", (long long)n);
}

static bool need_row(NnOpCall *c, int64_t *axis) {
  return nn_need_axis(c, c->operand[0].rank, axis) && need_length(c, c->operand[0].dim[*axis]);
}

bool nn_infer_cumulative(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  int64_t axis;
  char text[16];
  const char *kind = nn_call_str(c, "kind", text, sizeof text, "");
  bool index = !strcmp(kind, "argmax") || !strcmp(kind, "argmin");
  if (!index && strcmp(kind, "sum") && strcmp(kind, "product"))
    return nn_fail(c, "kind must be sum, product, argmax or argmin, found '%s'", kind);
  if (!need_wide(c, 0) || !need_row(c, &axis)) return false;
  *result = c->operand[0];
  if (index) result->dtype = NN_I32;
  return true;
}

bool nn_infer_recurrence(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  int64_t axis;
  if (!need_wide(c, 0) || !nn_need_float(c, 0) || !need_row(c, &axis)) return false;
  *result = c->operand[0];
  return nn_type_equal(&c->operand[0], &c->operand[1]) ||
         nn_fail(c, "operands differ: %s and %s", nn_text(&c->operand[0]).text, nn_text(&c->operand[1]).text);
}

bool nn_infer_argsort(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  int64_t axis, count = nn_call_i64(c, "count", 0);
  if (!need_wide(c, 0) || !need_row(c, &axis)) return false;
  *result = c->operand[0];
  result->dtype = NN_I32;
  if (count < 1 || count > result->dim[axis])
    return nn_fail(c, "'count' must be from 1 to the %lld elements of axis %lld, found %lld",
                   (long long)result->dim[axis], (long long)axis, (long long)count);
  result->dim[axis] = count;
  return true;
}

// Operand 1, indices: as operand 0 but along the axis, or altogether.
static bool need_indices(NnOpCall *c, int64_t axis, bool alike) {
  const NnType *x = &c->operand[0], *indices = &c->operand[1];
  NnType wanted = *x;
  if (indices->dtype != NN_I32 && indices->dtype != NN_I64)
    return nn_fail(c, "indices must be i32 or i64, found %s", nn_text(indices).text);
  if (!nn_need_rank(c, 1, x->rank) || !need_length(c, indices->dim[axis])) return false;
  if (!alike) wanted.dim[axis] = indices->dim[axis];
  return nn_shape_equal(&wanted, indices) ||
         nn_fail(c, "%s and indices %s differ%s", nn_text(x).text, nn_text(indices).text,
                 alike ? "" : " in another axis than the one gone along");
}

bool nn_infer_take_along(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  int64_t axis;
  if (!need_row(c, &axis) || !need_indices(c, axis, false)) return false;
  *result = c->operand[1];
  result->dtype = c->operand[0].dtype;
  return true;
}

bool nn_infer_scatter_along(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  int64_t axis, size = nn_call_i64(c, "size", 0);
  if (!need_wide(c, 0) || !need_row(c, &axis) || !need_indices(c, axis, true)) return false;
  *result = c->operand[0];
  result->dim[axis] = size;
  return need_length(c, size);
}

// ---------------------------------------------------------------------------------------------------------------------
// Gradients

static MlirValue recurrence(NnBuilder *b, MlirValue a, MlirValue x, int64_t axis, bool reverse) {
  NnAttr attrs[] = {NN_I64("axis", axis), NN_BOOL("reverse", reverse)};
  return nn_result(nn_build(b, NN_OP_recurrence, 2, (MlirValue[]){a, x}, 2, attrs, NULL), 0);
}

// y[t] = x[t + 1], or x[t - 1] with back; `value` where there is none.
static MlirValue shifted(NnBuilder *b, MlirValue x, int64_t axis, bool back, double value) {
  NnType t = nn_value_type(x);
  int64_t starts[NN_MAX_RANK] = {0}, low[NN_MAX_RANK] = {0}, high[NN_MAX_RANK] = {0}, interior[NN_MAX_RANK] = {0};
  if (t.dim[axis] == 1) return nn_constant_like(b, x, value);
  t.dim[axis]--;
  starts[axis] = !back, low[axis] = back, high[axis] = !back;
  return nn_pad(b, nn_slice(b, x, starts, t.dim, NULL), low, high, interior, value);
}

// With s[t] = g[t] + x[t+1] s[t+1] the product's gradient is the product in front of t, times s[t]: no division, so
// that zeros are numbers like others.
void nn_vjp_cumulative(NnVjp *v) {
  NnBuilder *b = v->b;
  MlirValue g = v->cotangent[0];
  char kind[16];
  int64_t axis = nn_attr_i64(v->op, "axis", 0);
  bool reverse = nn_attr_bool(v->op, "reverse", false);
  nn_attr_str(v->op, "kind", kind, sizeof kind, "");
  if (nn_value_is_null(g) || !v->needed[0]) return;
  if (!strcmp(kind, "sum")) {
    NnAttr attrs[] = {NN_I64("axis", axis), NN_STR("kind", "sum"), NN_BOOL("reverse", !reverse)};
    v->operand_cotangent[0] = nn_result(nn_build(b, NN_OP_cumulative, 1, &g, 3, attrs, NULL), 0);
  } else if (!strcmp(kind, "product")) {
    MlirValue s = recurrence(b, shifted(b, v->operand[0], axis, reverse, 0), g, axis, !reverse);
    v->operand_cotangent[0] = nn_binary(b, NN_OP_mul, s, shifted(b, v->result[0], axis, !reverse, 1));
  }
}

void nn_vjp_recurrence(NnVjp *v) {
  int64_t axis = nn_attr_i64(v->op, "axis", 0);
  bool reverse = nn_attr_bool(v->op, "reverse", false);
  if (nn_value_is_null(v->cotangent[0])) return;
  MlirValue s = recurrence(v->b, shifted(v->b, v->operand[0], axis, reverse, 0), v->cotangent[0], axis, !reverse);
  if (v->needed[0])
    v->operand_cotangent[0] = nn_binary(v->b, NN_OP_mul, s, shifted(v->b, v->result[0], axis, !reverse, 0));
  if (v->needed[1]) v->operand_cotangent[1] = s;
}

// Sums of narrow types are formed in f32.
void nn_vjp_take_along(NnVjp *v) {
  MlirValue g = v->cotangent[0];
  if (nn_value_is_null(g) || !v->needed[0]) return;
  NnType x = nn_value_type(v->operand[0]);
  int64_t axis = nn_attr_i64(v->op, "axis", 0);
  NnAttr attrs[] = {NN_I64("axis", axis), NN_I64("size", x.dim[axis]),
                    NN_BOOL("unique", nn_attr_bool(v->op, "unique", false))};
  MlirValue operands[] = {nn_cast(v->b, g, nn_dtype_wide(x.dtype)), nn_index_clamped(v->b, v->operand[1], x.dim[axis])};
  MlirValue sum = nn_result(nn_build(v->b, NN_OP_scatter_along, 2, operands, 3, attrs, NULL), 0);
  v->operand_cotangent[0] = nn_cast(v->b, sum, x.dtype);
}

void nn_vjp_scatter_along(NnVjp *v) {
  MlirValue g = v->cotangent[0];
  if (nn_value_is_null(g) || !v->needed[0] || nn_attr_bool(v->op, "last", false)) return;
  int64_t axis = nn_attr_i64(v->op, "axis", 0);
  NnAttr attrs[] = {NN_I64("axis", axis), NN_BOOL("unique", nn_attr_bool(v->op, "unique", false))};
  MlirOperation take = nn_build(v->b, NN_OP_take_along, 2, (MlirValue[]){g, v->operand[1]}, 2, attrs, NULL);
  MlirValue taken = nn_result(take, 0), inside = nn_index_inside(v->b, v->operand[1], nn_value_type(g).dim[axis]);
  if (!nn_value_is_null(inside)) taken = nn_select(v->b, inside, taken, nn_zeros_like(v->b, taken));
  v->operand_cotangent[0] = taken;
}

// ---------------------------------------------------------------------------------------------------------------------

static double elements(MlirOperation op) {
  NnType t = nn_value_type(mlirOperationGetOperand(op, 0));
  return (double)nn_type_elements(&t);
}

double nn_flops_cumulative(MlirOperation op) { return elements(op); }
double nn_flops_recurrence(MlirOperation op) { return 2 * elements(op); }
double nn_flops_take_along(MlirOperation op) { return elements(op); }
double nn_flops_scatter_along(MlirOperation op) { return elements(op); }
// Comparisons.
double nn_flops_argsort(MlirOperation op) {
  NnType t = nn_value_type(mlirOperationGetOperand(op, 0));
  return elements(op) * log2((double)t.dim[nn_attr_i64(op, "axis", 0)] + 1);
}
