// The steps of a function: its ops in the order they run, regions flattened, and which of them are aliases that cost
// nothing.
#include <stdlib.h>
#include <string.h>

#include "passes/plan/plan.h"
#include "support/alloc.h"

static void add_step(NnStepList *list, MlirOperation op, NnStepRole role, bool recomputed) {
  *ARRAY_ADD(list->items, list->n) = (NnStep){op, role, recomputed};
}

static void flatten_block(NnStepList *list, MlirBlock block, bool recomputed) {
  NN_FOREACH_OP (op, block) {
    NnOp kind = nn_op_of(op);
    if (kind == NN_OP_NONE && nn_is(op, "scf.execute_region")) {
      bool inner = recomputed || nn_has_attr(op, ATTR_recompute);
      flatten_block(list, mlirRegionGetFirstBlock(mlirOperationGetRegion(op, 0)), inner);
      add_step(list, op, NN_STEP_REGION, inner);
    } else if (kind == NN_OP_NONE && (nn_is(op, "scf.yield") || nn_is(op, "func.return"))) {
      continue;
    } else if (kind == NN_OP_tap || kind == NN_OP_checkpoint) {
      add_step(list, op, kind == NN_OP_tap ? NN_STEP_TAP : NN_STEP_MARK, recomputed);
    } else {
      add_step(list, op, nn_is_alias(op) ? NN_STEP_ALIAS : NN_STEP_RUN, recomputed);
    }
  }
}

NnStepList nn_flatten(MlirOperation func) {
  NnStepList list = {0};
  flatten_block(&list, nn_function_body(func), false);
  return list;
}

void nn_steps_free(NnStepList *list) {
  free(list->items);
  *list = (NnStepList){0};
}

// The first element of a slice that is one contiguous part of its operand, -1: it is not.
static int64_t contiguous_slice(MlirOperation op) {
  NnType from = nn_value_type(mlirOperationGetOperand(op, 0)), to = nn_value_type(mlirOperationGetResult(op, 0));
  int64_t starts[NN_MAX_RANK], strides[NN_MAX_RANK], offset = 0;
  nn_attr_i64s(op, "starts", starts, NN_MAX_RANK);
  nn_attr_i64s(op, "strides", strides, NN_MAX_RANK);
  bool whole = true;   // the axes after this one are whole
  for (int a = from.rank - 1; a >= 0; a--) {
    if (to.dim[a] != 1 && strides[a] != 1) return -1;
    if (to.dim[a] != 1 && !whole) return -1;
    if (to.dim[a] != from.dim[a]) whole = false;
  }
  for (int a = 0; a < from.rank; a++) offset = offset * from.dim[a] + starts[a];
  return offset;
}

bool nn_is_alias(MlirOperation op) {
  NnOp kind = nn_op_of(op);
  return kind == NN_OP_reshape || kind == NN_OP_optimization_barrier ||
         (kind == NN_OP_slice && contiguous_slice(op) >= 0);
}

int64_t nn_alias_shift(MlirOperation op) {
  if (nn_op_of(op) != NN_OP_slice) return 0;
  NnType t = nn_value_type(mlirOperationGetResult(op, 0));
  return contiguous_slice(op) * nn_dtype_bytes(t.dtype);
}

bool nn_is_persistent_role(const char *role) {
  return !strcmp(role, "param") || !strcmp(role, "state") || !strcmp(role, "opt") || !strcmp(role, "accum");
}
