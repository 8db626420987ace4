// Scores of a loss; see scores.h.
#include "passes/simplify/simplify.h"

#include <string.h>

int64_t scores_columns(MlirValue v) {
  NnType t = nn_value_type(v);
  return t.dim[t.rank - 1];
}

MlirValue scores_bias(MlirOperation add) { return nn_operand(nn_value_def(nn_operand(add, 1)), 0); }

// v is one number for each column.
static bool is_bias(MlirValue v) {
  MlirOperation broadcast = nn_value_def(v);
  if (nn_op_of(broadcast) != NN_OP_broadcast || nn_value_type(nn_operand(broadcast, 0)).rank != 1) return false;
  int64_t dims[NN_MAX_RANK];
  nn_attr_i64s(broadcast, "dims", dims, NN_MAX_RANK);
  return dims[0] == nn_value_type(v).rank - 1 && scores_columns(nn_operand(broadcast, 0)) == scores_columns(v);
}

bool scores_find(MlirValue v, Scores *s) {
  for (s->n = 0; s->n < SCORES_MAX_OPS;) {
    MlirOperation op = nn_value_def(v);
    NnOp kind = nn_op_of(op);
    memmove(s->op + 1, s->op, sizeof *s->op * (size_t)s->n++);
    s->op[0] = op;
    if (kind == NN_OP_matmul)
      return nn_value_type(nn_operand(op, 1)).rank == 2 && !nn_attr_bool(op, "transpose_a", false);
    if (kind != NN_OP_cast && !(kind == NN_OP_add && is_bias(nn_operand(op, 1)))) return false;
    v = nn_operand(op, 0);
  }
  return false;
}

// Apart from op itself only taps read v.
static bool is_read_only_by(MlirValue v, MlirOperation op) {
  NN_FOREACH_USE (use, v) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    if (!mlirOperationEqual(user, op) && nn_op_of(user) != NN_OP_tap) return false;
  }
  return true;
}

bool scores_are_private(const Scores *s, MlirOperation reader) {
  for (int i = 0; i < s->n; i++)
    if (!is_read_only_by(nn_result(s->op[i], 0), i + 1 < s->n ? s->op[i + 1] : reader)) return false;
  return true;
}

MlirValue scores_again(NnBuilder *b, const Scores *s, int i, MlirValue x, MlirValue parameter, const NnType *type) {
  MlirOperation op = s->op[i];
  NnType t = *type;
  t.dtype = nn_value_dtype(nn_result(op, 0));
  switch (nn_op_of(op)) {
  case NN_OP_cast: return nn_cast(b, x, t.dtype);
  case NN_OP_add: return nn_binary(b, NN_OP_add, x, nn_broadcast(b, parameter, t, &(int64_t){t.rank - 1}));
  default: return nn_build_like(b, NN_OP_matmul, op, 2, (MlirValue[]){x, parameter}, &t);
  }
}
