// Move kernels, one op each: how they are read, and what all targets compute at a point of pad, concat, gather and
// scatter_add.

#include "codegen/kernel/move.h"
#include "support/alloc.h"

int64_t move_product(const int64_t *dim, int from, int to) {
  int64_t n = 1;
  for (int i = from; i < to; i++) n *= dim[i];
  return n;
}

MlirOperation move_op(const Kernel *k) {
  MlirBlock body = nn_function_body(k->func);
  NN_FOREACH_OP (op, body) {
    NnOp kind = nn_op_of(op);
    if (kind != NN_OP_NONE && nn_op_info(kind)->kind == NN_KIND_MOVE) return op;
  }
  require_promise(false, "a move kernel without its op");
  return nn_null_operation();
}

// ---------------------------------------------------------------------------------------------------------------------
// pad: one outer iteration per row, a row being the last padded axis and everything inside it

Pad pad_read(const Kernel *k, MlirOperation op) {
  Pad p = {.x = &k->arg[nn_value_index(mlirOperationGetOperand(op, 0))], .y = &k->result_type[0]};
  nn_attr_i64s(op, "low", p.low, NN_MAX_RANK);
  nn_attr_i64s(op, "high", p.high, NN_MAX_RANK);
  nn_attr_i64s(op, "interior", p.interior, NN_MAX_RANK);
  p.axis = p.y->rank - 1;
  while (p.axis > 0 && !p.low[p.axis] && !p.high[p.axis] && !p.interior[p.axis]) p.axis--;
  p.inner = move_product(p.y->dim, p.axis + 1, p.y->rank);
  return p;
}

Value pad_source_row(Emitter *e, const Pad *pad, Value p, Value *valid) {
  int64_t stride = pad->x->dim[pad->axis] * pad->inner;
  Value offset = emit_i64(e, 0), rest = p;
  *valid = emit_constant(e, "true");
  for (int a = pad->axis - 1; a >= 0; a--) {
    Value index = a ? emit_index_with(e, "remui", rest, pad->y->dim[a]) : rest;
    if (a) rest = emit_index_with(e, "divui", rest, pad->y->dim[a]);
    Value at = emit_index_with(e, "subi", index, pad->low[a]);
    *valid = emit_and(e, *valid, emit_index_compare_with(e, "sge", at, 0));
    if (pad->interior[a]) {
      *valid = emit_and(e, *valid,
                        emit_index_compare_with(e, "eq", emit_index_with(e, "remsi", at, pad->interior[a] + 1), 0));
      at = emit_index_with(e, "divsi", at, pad->interior[a] + 1);
    }
    *valid = emit_and(e, *valid, emit_index_compare_with(e, "slt", at, pad->x->dim[a]));
    offset = emit_index(e, "addi", offset, emit_index_with(e, "muli", at, stride));
    stride *= pad->x->dim[a];
  }
  return offset;
}

Value move_load_index(Emitter *e, int buffer, NnDtype dtype, Value offset) {
  Value address = emit_address(e, buffer, dtype, offset);
  Value raw = emit(e, address.depth, "llvm.load", VALUES(address.id), "%% {alignment = %d : i64} : !buffer -> %s",
                   (int)nn_dtype_bytes(dtype), element_type(dtype));
  if (dtype == NN_I64) return raw;
  return emit(e, raw.depth, dtype == NN_I32 ? "arith.extsi" : "arith.extui", VALUES(raw.id), "%% : %s to i64",
              element_type(dtype));
}

Value row_value(Emitter *e, RowStep step, int source, NnDtype dtype, Value to, Value from) {
  Value lowest = emit_lowest(e, dtype);
  if (step == ROW_LOWEST) return lowest;
  Value old = emit_load_at(e, e->k->n_args, dtype, to);
  if (step == ROW_LOWEST_TO_ZERO)
    return emit_select(e, emit_compare(e, "eq", old, lowest, dtype), emit_splat(e, dtype, 0), old, dtype);
  return emit_binary(e, step == ROW_ADD ? NN_OP_add : NN_OP_max, dtype, old, emit_load_at(e, source, dtype, from));
}
