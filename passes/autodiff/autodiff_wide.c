// Gradients of parameters that a step uses in a narrow type. A parameter is kept in f32 and cast to bf16 or f16 where
// it is used; its gradient is formed in f32 from the narrow operands, never rounded to their type, and the shares of
// several uses are added up in f32 (mixed precision with master weights: Micikevicius et al., "Mixed precision
// training", 2018, section 3.1).
#include "passes/autodiff/autodiff.h"
#include "passes/rewrite.h"

#define MAX_DEPTH 64   // of views and sums between a product and the parameter

MlirValue sweep_master(const Sweep *s, MlirValue v) {
  MlirOperation cast = nn_value_def(v);
  if (nn_op_of(cast) != NN_OP_cast) return nn_null_value();
  MlirValue master = mlirOperationGetOperand(cast, 0);
  bool is_master = nn_value_dtype(master) == nn_dtype_wide(nn_value_dtype(v)) && mlirValueIsABlockArgument(master);
  return is_master && ptr_map_get(&s->active, master.ptr) >= 0 ? master : nn_null_value();
}

static MlirValue again(NnBuilder *b, MlirOperation op, MlirValue x, MlirValue y, NnDtype dtype) {
  NnType type = nn_value_type(mlirOperationGetResult(op, 0));
  type.dtype = dtype;
  return nn_build_like(b, nn_op_of(op), op, nn_value_is_null(y) ? 1 : 2, (MlirValue[]){x, y}, &type);
}

// What makes v is built anew with a wide result; the narrow one is then dead. Where others read it too, it stays and is
// cast.
static MlirValue widened(NnBuilder *b, MlirValue v, NnDtype wide, int depth) {
  MlirOperation def = nn_value_def(v);
  bool is_read = !mlirOpOperandIsNull(mlirValueGetFirstUse(v)),
       is_ours = depth == 0 ? !is_read : rewrite_has_one_use(v);
  NnOp kind = is_ours && depth < MAX_DEPTH ? nn_op_of(def) : NN_OP_NONE;
  if (kind == NN_OP_NONE) return nn_cast(b, v, wide);
  MlirValue x = mlirOperationGetNumOperands(def) > 0 ? mlirOperationGetOperand(def, 0) : nn_null_value();
  switch (kind) {
  case NN_OP_cast:   // a sum that was formed in the wide type
    return nn_value_dtype(x) == wide ? x : nn_cast(b, v, wide);
  case NN_OP_matmul:
  case NN_OP_matmul_rows:
  case NN_OP_conv2d_weight_grad:
  case NN_OP_conv3d_weight_grad: return again(b, def, x, mlirOperationGetOperand(def, 1), wide);
  case NN_OP_reshape:
  case NN_OP_transpose:
  case NN_OP_slice: return again(b, def, widened(b, x, wide, depth + 1), nn_null_value(), wide);
  case NN_OP_reduce_sum:   // what it sums is the cotangent of an activation, which goes on as it is
    return again(b, def, nn_cast(b, x, wide), nn_null_value(), wide);
  case NN_OP_add:
    return nn_binary(b, NN_OP_add, widened(b, x, wide, depth + 1),
                     widened(b, mlirOperationGetOperand(def, 1), wide, depth + 1));
  default: return nn_cast(b, v, wide);
  }
}

MlirValue sweep_widen(NnBuilder *b, MlirValue cotangent, NnDtype dtype) {
  return nn_value_dtype(cotangent) == dtype ? cotangent : widened(b, cotangent, dtype, 0);
}
