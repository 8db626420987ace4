// When a result may lie over an operand, as the pass `check` sees it: from what the body computes, and in what order a
// kernel may go over its points (docs/internals.md, Kernels). Shares no code with the passes and targets that choose
// (inplace.c, kernel_inplace_ok), which it judges.
#include <stdlib.h>
#include <string.h>

#include "passes/plan/plan.h"
#include "support/ptr_map.h"

// What a value of a kernel's body has read of one argument when its element at some index is made. A bit set.
enum {
  READS_OWN = 1,    // the argument's element at the value's own index
  READS_LINE = 2,   // through a reduction: elements that have the value's index in all axes that are kept
  READS_PAIR = 4,   // through a reduction that goes over its elements twice: else as LINE
  READS_ANY = 8,    // others: transposed, shifted, repeated over axes, or by a library op
};

typedef struct Reads {
  PtrMap of;   // MlirValue -> bit set
  MlirOperation func;
  int64_t domain[NN_MAX_RANK], axes[NN_MAX_RANK];
  int rank, n_axes;
} Reads;

static int reads_of(const Reads *r, MlirValue v) {
  int found = ptr_map_get(&r->of, v.ptr);
  return found < 0 ? 0 : found;
}

static bool has_shape(NnType t, const int64_t *dim, int rank) {
  return t.rank == rank && memcmp(t.dim, dim, (size_t)rank * sizeof *dim) == 0;
}

static bool is_reduced(const Reads *r, int axis) {
  for (int i = 0; i < r->n_axes; i++)
    if (r->axes[i] == axis) return true;
  return false;
}

static bool has_same_list(MlirOperation op, const char *name, const int64_t *list, int n) {
  int64_t found[NN_MAX_RANK];
  return nn_attr_i64s(op, name, found, NN_MAX_RANK) == n && memcmp(found, list, (size_t)n * sizeof *list) == 0;
}

// A value of the kept shape beside each element of the domain that it belongs to.
static bool repeats_along_reduced(const Reads *r, MlirOperation broadcast) {
  int64_t kept[NN_MAX_RANK];
  int n = 0;
  for (int i = 0; i < r->rank; i++)
    if (!is_reduced(r, i)) kept[n++] = i;
  return has_shape(nn_value_type(mlirOperationGetResult(broadcast, 0)), r->domain, r->rank) &&
         has_same_list(broadcast, "dims", kept, n);
}

static int reads_of_result(const Reads *r, MlirOperation op) {
  NnOp kind = nn_op_of(op);
  int reads = 0;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) reads |= reads_of(r, mlirOperationGetOperand(op, i));
  if (reads == 0) return 0;
  switch (nn_op_info(kind)->kind) {
  case NN_KIND_MAP: return reads;
  case NN_KIND_REDUCE: {
    NnType from = nn_value_type(mlirOperationGetOperand(op, 0));
    if (!has_shape(from, r->domain, r->rank) || !has_same_list(op, "axes", r->axes, r->n_axes)) return READS_ANY;
    return (reads & ~READS_OWN) | READS_LINE | (kind == NN_OP_moments ? READS_PAIR : 0);
  }
  case NN_KIND_VIEW:
    if (kind == NN_OP_broadcast && !(reads & READS_OWN) && repeats_along_reduced(r, op)) return reads;
    return READS_ANY;
  default: return READS_ANY;
  }
}

// What all results of the kernel together have read of argument a, each at its own index.
static int reads_of_results(Reads *r, int a, int *domain_shaped) {
  MlirOperation ret = nn_function_return(r->func);
  ptr_map_set(&r->of, mlirBlockGetArgument(nn_function_body(r->func), a).ptr, READS_OWN);
  for (MlirOperation op = mlirBlockGetFirstOperation(nn_function_body(r->func)); !mlirOperationEqual(op, ret);
       op = mlirOperationGetNextInBlock(op)) {
    int reads = reads_of_result(r, op);
    for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
      ptr_map_set(&r->of, mlirOperationGetResult(op, i).ptr, reads);
  }
  int all = 0;
  *domain_shaped = 0;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(ret); i++) {
    MlirValue v = mlirOperationGetOperand(ret, i);
    all |= reads_of(r, v);
    if (has_shape(nn_value_type(v), r->domain, r->rank)) *domain_shaped |= reads_of(r, v);
  }
  return all;
}

// Points of a map, rows and columns are gone through in any order and at the same time; at a point everything is read
// before anything is written.
static const char *kernel_forbids(MlirOperation func, int result, int a) {
  char kind[16];
  nn_attr_str(func, ATTR_kind, kind, sizeof kind, "");
  MlirOperation ret = nn_function_return(func);
  MlirValue written = mlirOperationGetOperand(ret, result), arg = mlirBlockGetArgument(nn_function_body(func), a);
  NnType to = nn_value_type(written), from = nn_value_type(arg);
  if (nn_dtype_bytes(to.dtype) != nn_dtype_bytes(from.dtype)) return "elements of another size";
  if (!has_shape(to, from.dim, from.rank)) return "another shape";
  MlirOperation move = nn_value_def(written);
  if (!strcmp(kind, "move")) {   // rows are added to the table; they and the indices are read in any order
    if (nn_op_of(move) != NN_OP_scatter_add_to) return "it is moved";
    for (int i = 0; i < 2; i++)
      if (mlirValueEqual(mlirOperationGetOperand(move, i), arg)) return "it is moved";
    return NULL;
  }
  Reads r = {.func = func};
  r.rank = nn_attr_i64s(func, ATTR_domain, r.domain, NN_MAX_RANK);
  if (nn_has_attr(func, ATTR_axes)) r.n_axes = nn_attr_i64s(func, ATTR_axes, r.axes, NN_MAX_RANK);
  int domain_shaped, reads = reads_of_results(&r, a, &domain_shaped);
  ptr_map_free(&r.of);
  if (reads & READS_ANY) return "it is read at other indices";
  if (!has_shape(to, r.domain, r.rank)) return NULL;   // written once per row or column, which alone has read it
  // Results of the domain's shape are written in the last pass: of a row when its reductions are complete, of a column
  // while they are not, in the only pass or with a second one still to come over a part of it.
  if (!strcmp(kind, "column") && (domain_shaped & READS_LINE)) return "it is reduced first";
  if (!strcmp(kind, "column") && (reads & READS_PAIR)) return "it is read in two passes";
  return NULL;
}

const char *plan_check_over(MlirOperation op, MlirOperation kernel, int result, int operand) {
  NnScan scan;
  if (mlirOperationIsNull(kernel)) {   // a product is added to what is there; sums over ranks begin with a copy
    bool fine = operand == nn_op_adds_to(nn_op_of(op)) ||
                (nn_op_of(op) == NN_OP_all_reduce && mlirOperationGetNumOperands(op) == 1);
    return fine ? NULL : "a library op reads it while it writes";
  }
  if (!nn_scan_of(kernel, &scan)) return kernel_forbids(kernel, result, operand);
  // Of a tied carry the loop has one copy, first and last value in one; everything else is read in all steps.
  int carry = result - scan.n_stacked;
  bool tied = carry >= 0 && carry < scan.n_tied && operand == scan.n_slices + scan.n_stacked + carry;
  return tied ? NULL : "a loop reads it while it writes";
}
