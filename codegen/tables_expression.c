// What a kernel of several operations computes, as a text from which the runtime evaluates single elements
// (runtime/expression.h), so that train --find-nan can name the one of them that a NaN begins at.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/tables.h"
#include "support/alloc.h"
#include "support/text.h"

static void add_numbers(MlirOperation op, const char *attribute, Text *out) {
  int64_t x[NN_MAX_RANK];
  int n = nn_attr_i64s(op, attribute, x, NN_MAX_RANK);
  for (int i = 0; i < n; i++) text_add(out, " %lld", (long long)x[i]);
}

static void add_attributes(MlirOperation op, NnOp kind, Text *out) {
  switch (kind) {
  case NN_OP_constant: text_add(out, " = %.17g", nn_attr_f64(op, "value", 0)); break;
  case NN_OP_iota: text_add(out, " / %lld", (long long)nn_attr_i64(op, "axis", 0)); break;
  case NN_OP_random_uniform: text_add(out, " / %d", nn_attr_bool(op, "second", false)); break;
  case NN_OP_broadcast: text_add(out, " /"), add_numbers(op, "dims", out); break;
  case NN_OP_transpose: text_add(out, " /"), add_numbers(op, "perm", out); break;
  case NN_OP_slice: text_add(out, " /"), add_numbers(op, "starts", out), add_numbers(op, "strides", out); break;
  default:
    if (nn_op_info(kind)->kind == NN_KIND_REDUCE) text_add(out, " /"), add_numbers(op, "axes", out);
  }
}

// The place of an op, where it is not that of the one before: without the file where that is the same. *file: its
// length in *last.
static void add_place(MlirOperation op, char **last, size_t *file, Text *out) {
  Text all = {0};
  tables_places(mlirOperationGetLocation(op), &all);
  char *place = copy_string(text_c_string(&all));
  text_free(&all);
  char *end = strchr(place, ',');
  if (end) *end = 0;
  if (*place && (!*last || strcmp(place, *last) != 0)) {
    char *column = strrchr(place, ':'), *line = column;
    while (line > place && *--line != ':') continue;
    size_t bytes = (size_t)(line - place);
    bool same = *last && bytes == *file && !strncmp(place, *last, bytes);
    text_add(out, "@%s", same ? line : place);
    free(*last);
    *last = place;
    *file = bytes;
  } else {
    free(place);
  }
}

// The type is written where it is not *before.
static void add_node(const char *name, MlirValue v, MlirOperation op, const PtrMap *ids, NnType *before, Text *out) {
  NnType type = nn_value_type(v);
  text_add(out, "%s", name);
  if (type.dtype != before->dtype || !nn_shape_equal(&type, before)) {
    text_add(out, " %d", (int)type.dtype);
    for (int i = 0; i < type.rank; i++) text_add(out, " %lld", (long long)type.dim[i]);
  }
  *before = type;
  if (mlirOperationIsNull(op)) return;
  text_add(out, " :");
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    text_add(out, " %d", ptr_map_get(ids, mlirOperationGetOperand(op, i).ptr));
}

// As the runtime knows it.
static void name_of(MlirOperation op, NnOp kind, intptr_t result, char name[32]) {
  char predicate[8];
  if (kind == NN_OP_compare) nn_attr_str(op, "predicate", predicate, sizeof predicate, "eq");
  snprintf(name, 32, "%s",
           kind == NN_OP_compare   ? predicate
           : kind != NN_OP_moments ? nn_op_info(kind)->name
           : result                ? "variance"
                                   : "mean");
}

// Whether single elements of it can be evaluated, and it is more than one operation.
static bool is_told(MlirOperation func) {
  int n = 0;
  MlirBlock body = nn_function_body(func);
  NN_FOREACH_OP (op, body) {
    NnOp kind = nn_op_of(op);
    if (nn_is(op, "func.return")) continue;
    if (kind == NN_OP_NONE) return false;
    NnOpKind k = nn_op_info(kind)->kind;
    if (k != NN_KIND_SOURCE && k != NN_KIND_MAP && k != NN_KIND_VIEW && k != NN_KIND_REDUCE) return false;
    n += (k == NN_KIND_MAP || k == NN_KIND_REDUCE) && kind != NN_OP_cast;
  }
  return n > 1;
}

bool tables_expression(MlirOperation func, Text *out) {
  if (!is_told(func)) return false;
  PtrMap ids = {0};
  int n = 0;
  char *last = NULL;
  size_t file = 0;
  NnType type = {.rank = -1};
  MlirBlock body = nn_function_body(func);
  for (intptr_t a = 0; a < mlirBlockGetNumArguments(body); a++) {
    MlirValue v = mlirBlockGetArgument(body, a);
    add_node("argument", v, nn_null_operation(), &ids, &type, out);
    text_add(out, "\n");
    ptr_map_set(&ids, v.ptr, n++);
  }
  NN_FOREACH_OP (op, body) {
    if (nn_is(op, "func.return")) {
      text_add(out, "return :");
      for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
        text_add(out, " %d", ptr_map_get(&ids, mlirOperationGetOperand(op, i).ptr));
      continue;
    }
    for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++) {
      char name[32];
      MlirValue v = mlirOperationGetResult(op, r);
      name_of(op, nn_op_of(op), r, name);
      add_node(name, v, op, &ids, &type, out);
      add_attributes(op, nn_op_of(op), out);
      add_place(op, &last, &file, out);
      text_add(out, "\n");
      ptr_map_set(&ids, v.ptr, n++);
    }
  }
  free(last);
  ptr_map_free(&ids);
  return true;
}
