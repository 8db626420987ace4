// The function of a call.
#include "ir/ir.h"

MlirOperation nn_callee(MlirOperation call) {
  MlirOperation top = call;
  for (MlirOperation up = call; !mlirOperationIsNull(up); up = mlirOperationGetParentOperation(up)) top = up;
  if (!nn_is(top, "builtin.module")) return nn_null_operation();
  MlirAttribute name = mlirOperationGetAttributeByName(call, mlirStringRefCreateFromCString("callee"));
  if (mlirAttributeIsNull(name)) return nn_null_operation();
  MlirStringRef wanted = mlirFlatSymbolRefAttrGetValue(name);
  MlirBlock body = mlirRegionGetFirstBlock(mlirOperationGetRegion(top, 0));
  for (MlirOperation op = mlirBlockGetFirstOperation(body); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op)) {
    if (!nn_is(op, "func.func")) continue;
    MlirAttribute symbol = mlirOperationGetAttributeByName(op, mlirStringRefCreateFromCString("sym_name"));
    if (mlirStringRefEqual(mlirStringAttrGetValue(symbol), wanted)) return op;
  }
  return nn_null_operation();
}
