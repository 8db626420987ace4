// What an op costs: floating-point operations from its row, bytes from its types. The input of the roofline by which
// the rematerialization pass weighs recomputing against keeping.
#include "ir/internal.h"
#include "ir/ops/ops.h"

const char *const cost_class_names[COST_CLASSES] = {
#define COST(name) #name,
    COST_CLASS_LIST(COST)
#undef COST
};

// Additions for each byte, of machines on which an exponential costs little beside a value's four bytes.
#define ADDITIONS_A_BYTE 30

double nn_op_traffic(NnOp op) { return nn_op_info(op)->additions[COST_CPU] / ADDITIONS_A_BYTE; }

NnType nn_operand_type(MlirOperation op, int i) { return nn_value_type(mlirOperationGetOperand(op, i)); }
NnType nn_result_type(MlirOperation op, int i) { return nn_value_type(mlirOperationGetResult(op, i)); }

static double block_flops(MlirBlock block) {
  double sum = 0;
  NN_FOREACH_OP (op, block) sum += nn_op_flops(op);
  return sum;
}

double nn_op_flops(MlirOperation op) {
  NnOp kind = nn_op_of(op);
  if (kind != NN_OP_NONE) {
    const NnOpInfo *info = nn_op_info(kind);
    if (info->flops) return info->flops(op);
    if (info->kind != NN_KIND_MAP) return 0;
    NnType t = nn_result_type(op, 0);
    return (double)nn_type_elements(&t);
  }
  if (nn_is(op, "func.call")) {
    NnScan scan;
    if (nn_scan_of(op, &scan)) return (double)scan.length * nn_op_flops(scan.body);
    MlirOperation callee = nn_callee(op);
    return mlirOperationIsNull(callee) ? 0 : nn_op_flops(callee);
  }
  double sum = 0;
  for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++)
    for (MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(op, r)); !mlirBlockIsNull(block);
         block = mlirBlockGetNextInRegion(block))
      sum += block_flops(block);
  return sum;
}

double nn_op_bytes(MlirOperation op) {
  double sum = 0;
  NnType t;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    bool before = false;   // what is given twice is read once
    for (intptr_t k = 0; k < i; k++)
      before |= mlirValueEqual(mlirOperationGetOperand(op, i), mlirOperationGetOperand(op, k));
    if (before) continue;
    if (nn_type_from_mlir(mlirValueGetType(mlirOperationGetOperand(op, i)), &t)) sum += (double)nn_type_bytes(&t);
  }
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    if (nn_type_from_mlir(mlirValueGetType(mlirOperationGetResult(op, i)), &t)) sum += (double)nn_type_bytes(&t);
  return sum;
}
