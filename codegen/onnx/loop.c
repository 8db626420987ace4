// Loops: ONNX's Scan, whose body is a graph of its own that reads what it needs from around (onnx.ai, Operators, Scan).
#include <stdlib.h>
#include <string.h>

#include "codegen/onnx/onnx.h"
#include "support/alloc.h"

// Scan takes the first value of each carry, then the tensors gone over; it gives the last value of each carry, then
// what is kept of each step. All that is gone over and kept lies along one axis.
typedef struct Loop {
  int n_carries, n_rows, n_kept;
  int64_t axis;
  bool reverse;
} Loop;

static void repeat_int(Text *attributes, const char *name, int n, int64_t value) {
  int64_t *values = allocate_array((size_t)n + 1, sizeof *values);
  for (int i = 0; i < n; i++) values[i] = value;
  if (n) onnx_attribute_ints(attributes, name, n, values);
  free(values);
}

// The node; attributes: with the body, taken. results: the carries, then what is kept.
static void add_scan(OnnxGraph *g, const Loop *loop, const OnnxName *inputs, const OnnxName *results,
                     Text *attributes) {
  onnx_attribute_int(attributes, "num_scan_inputs", loop->n_rows);
  repeat_int(attributes, "scan_input_axes", loop->n_rows, loop->axis);
  repeat_int(attributes, "scan_input_directions", loop->n_rows, loop->reverse);
  repeat_int(attributes, "scan_output_axes", loop->n_kept, loop->axis);
  repeat_int(attributes, "scan_output_directions", loop->n_kept, loop->reverse);
  onnx_nodes(g, "Scan", loop->n_carries + loop->n_rows, inputs, loop->n_carries + loop->n_kept, results, attributes);
}

// ---------------------------------------------------------------------------------------------------------------------
// Scans of the program

static bool add_body(OnnxGraph *g, MlirOperation call, const NnScan *s, Text *attributes) {
  int n_carries = s->n_stacked + s->n_tied, first_invariant = s->n_slices + n_carries;
  MlirBlock body = nn_function_body(s->body);
  MlirOperation ret = nn_function_return(s->body);
  OnnxParts around = onnx_begin_body(g);
  for (int i = 0; i < first_invariant; i++) {
    MlirValue v = mlirBlockGetArgument(body, i < n_carries ? s->n_slices + i : i - n_carries);
    NnType type = nn_value_type(v);
    onnx_set_name(g, v, onnx_body_input(g, &type));
  }
  for (int i = 0; i < s->n_invariants; i++)
    onnx_set_name(g, mlirBlockGetArgument(body, first_invariant + i), onnx_operand(g, call, first_invariant + i));
  bool ok = onnx_ops(g, s->body);
  for (int i = 0; ok && i < n_carries + s->n_stacked + s->n_outputs; i++) {   // stacked ones twice: also kept
    int from = i < n_carries ? i : i < n_carries + s->n_stacked ? i - n_carries : i - s->n_stacked;
    MlirValue v = mlirOperationGetOperand(ret, from);
    NnType type = nn_value_type(v);
    onnx_body_output(g, onnx_name_of(g, v), &type);
  }
  onnx_end_body(g, &around, attributes);
  return ok;
}

// A stacked carry: its value before the first step, and behind each one.
static OnnxName stack(OnnxGraph *g, OnnxName first, OnnxName rows, MlirValue result, bool reverse) {
  NnType type = nn_value_type(result);
  Text attributes = {0};
  type.dim[0] = 1;
  first = onnx_reshape(g, first, type.rank, type.dim);
  onnx_attribute_int(&attributes, "axis", 0);
  return onnx_node(g, "Concat", 2, reverse ? (OnnxName[]){rows, first} : (OnnxName[]){first, rows}, &attributes);
}

bool onnx_loop(OnnxGraph *g, MlirOperation call, const NnScan *s) {
  int n_carries = s->n_stacked + s->n_tied;
  Loop loop = {n_carries, s->n_slices, s->n_stacked + s->n_outputs, 0, s->reverse};
  Text attributes = {0};
  bool ok = add_body(g, call, s, &attributes);
  OnnxName *inputs = allocate_array((size_t)(n_carries + loop.n_rows), sizeof *inputs),
           *results = allocate_array((size_t)(n_carries + loop.n_kept), sizeof *results);
  for (int i = 0; i < n_carries + s->n_slices; i++)
    inputs[i] = onnx_operand(g, call, i < n_carries ? s->n_slices + i : i - n_carries);
  for (int i = 0; i < n_carries + loop.n_kept; i++) results[i] = onnx_new_name(g);
  add_scan(g, &loop, inputs, results, &attributes);
  for (int r = 0; r < n_carries + s->n_outputs; r++) {
    MlirValue v = nn_result(call, r);
    OnnxName name = r < n_carries ? results[r] : results[s->n_stacked + r];
    if (r < s->n_stacked && !mlirOpOperandIsNull(mlirValueGetFirstUse(v)))
      name = stack(g, inputs[r], results[n_carries + r], v, s->reverse);
    onnx_set_name(g, v, name);
  }
  free(inputs);
  free(results);
  return ok;
}

// ---------------------------------------------------------------------------------------------------------------------
// Ops that are loops in ONNX

// Over the rows of an op's operands along its axis, of which the result is kept.
static Loop rows_of(MlirOperation op, int n_carries, int n_rows, NnType *row) {
  NnType x = nn_value_type(nn_operand(op, 0));
  int64_t axis = nn_attr_i64(op, "axis", 0);
  *row = (NnType){.dtype = x.dtype};
  for (int i = 0; i < x.rank; i++)
    if (i != axis) row->dim[row->rank++] = x.dim[i];
  return (Loop){n_carries, n_rows, 1, axis, nn_attr_bool(op, "reverse", false)};
}

static OnnxName filled(OnnxGraph *g, const NnType *type, double value) {
  return onnx_expand(g, onnx_number(g, type->dtype, value), type->rank, type->dim);
}

// y a of each row a, from y = first; where the op has a second operand x, y a + x.
static OnnxName products(OnnxGraph *g, MlirOperation op, double first) {
  int n = (int)mlirOperationGetNumOperands(op);
  NnType row;
  Loop loop = rows_of(op, 1, n, &row);
  Text attributes = {0};
  OnnxParts around = onnx_begin_body(g);
  OnnxName y = onnx_body_input(g, &row);
  y = onnx_binary(g, "Mul", onnx_body_input(g, &row), y);
  if (n > 1) y = onnx_binary(g, "Add", y, onnx_body_input(g, &row));
  onnx_body_output(g, y, &row);
  onnx_body_output(g, y, &row);
  onnx_end_body(g, &around, &attributes);
  OnnxName inputs[3] = {filled(g, &row, first), onnx_operand(g, op, 0), n > 1 ? onnx_operand(g, op, 1) : NULL},
           results[] = {onnx_new_name(g), onnx_new_name(g)};
  add_scan(g, &loop, inputs, results, &attributes);
  return results[1];
}

OnnxName onnx_recurrence(OnnxGraph *g, MlirOperation op) { return products(g, op, 0); }

// Carries are the extreme so far, its index, and that of the row. It is the last of equal ones, and a NaN where one
// was.
static OnnxName last_extreme(OnnxGraph *g, MlirOperation op, const char *comparison) {
  NnType row, index, scalar = {.dtype = NN_I32};
  Loop loop = rows_of(op, 3, 1, &row);
  int64_t first = loop.reverse ? nn_value_type(nn_operand(op, 0)).dim[loop.axis] - 1 : 0;
  Text attributes = {0}, gathered = {0};
  index = row;
  index.dtype = NN_I32;
  OnnxParts around = onnx_begin_body(g);
  OnnxName best = onnx_body_input(g, &row), at = onnx_body_input(g, &index), i = onnx_body_input(g, &scalar),
           x = onnx_body_input(g, &row), is = onnx_binary(g, comparison, x, best);
  if (nn_dtype_is_float(row.dtype)) is = onnx_binary(g, "Or", is, onnx_unary(g, "IsNaN", x));
  at = onnx_node(g, "Where", 3, (OnnxName[]){is, i, at}, NULL);
  onnx_body_output(g, onnx_node(g, "Where", 3, (OnnxName[]){is, x, best}, NULL), &row);
  onnx_body_output(g, at, &index);
  onnx_body_output(g, onnx_binary(g, "Add", i, onnx_number(g, NN_I32, loop.reverse ? -1 : 1)), &scalar);
  onnx_body_output(g, at, &index);
  onnx_end_body(g, &around, &attributes);
  onnx_attribute_int(&gathered, "axis", loop.axis);
  OnnxName begin = onnx_number(g, NN_I32, (double)first), of = onnx_operand(g, op, 0),
           inputs[] = {onnx_node(g, "Gather", 2, (OnnxName[]){of, begin}, &gathered), filled(g, &index, 0), begin, of},
           results[] = {onnx_new_name(g), onnx_new_name(g), onnx_new_name(g), onnx_new_name(g)};
  add_scan(g, &loop, inputs, results, &attributes);
  return results[3];
}

OnnxName onnx_cumulative(OnnxGraph *g, MlirOperation op) {
  char kind[16];
  nn_attr_str(op, "kind", kind, sizeof kind, "");
  if (strcmp(kind, "product") == 0) return products(g, op, 1);
  return last_extreme(g, op, strcmp(kind, "argmax") == 0 ? "GreaterOrEqual" : "LessOrEqual");
}
