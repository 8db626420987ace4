// The function of a call.
#include "ir/ir.h"

MlirStringRef nn_callee_name(MlirOperation call) {
  MlirAttribute name = nn_attribute(call, "callee");
  return mlirAttributeIsNull(name) ? (MlirStringRef){0} : mlirFlatSymbolRefAttrGetValue(name);
}

MlirOperation nn_callee(MlirOperation call) {
  MlirOperation top = call;
  for (MlirOperation up = call; !mlirOperationIsNull(up); up = mlirOperationGetParentOperation(up)) top = up;
  if (!nn_is(top, "builtin.module")) return nn_null_operation();
  MlirStringRef wanted = nn_callee_name(call);
  if (!wanted.length) return nn_null_operation();
  MlirBlock body = mlirRegionGetFirstBlock(mlirOperationGetRegion(top, 0));
  MlirStringRef key = nn_string_ref("sym_name");
  NN_FOREACH_OP (op, body) {
    MlirAttribute symbol = mlirOperationGetAttributeByName(op, key);
    if (!mlirAttributeIsNull(symbol) && mlirStringRefEqual(mlirStringAttrGetValue(symbol), wanted) &&
        nn_is(op, "func.func"))
      return op;
  }
  return nn_null_operation();
}
