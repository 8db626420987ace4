// A rule of the pass simplify: what a loop goes over along an axis that is not the first is transposed for it. The
// transpose moves up, through what is computed for each step by itself, to a smaller tensor or to a transpose that it
// takes away: from a linear layer's result of 4 H columns to its input, from embedded tokens to the tokens, and between
// two loops it vanishes.
#include <stdlib.h>

#include "passes/rewrite.h"
#include "passes/simplify/simplify.h"
#include "support/alloc.h"

static bool feeds_loops_only(MlirValue v) {
  MlirOpOperand use = mlirValueGetFirstUse(v);
  bool any = !mlirOpOperandIsNull(use);
  for (; !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use))
    any &= nn_has_attr(mlirOpOperandGetOwner(use), ATTR_scan);
  return any;
}

static bool is_small(MlirValue v) {
  MlirOperation def = nn_value_def(v);
  if (mlirOperationIsNull(def)) return false;
  if (nn_op_of(def) == NN_OP_constant) return true;
  if (nn_op_of(def) != NN_OP_broadcast) return false;
  NnType from = nn_value_type(nn_operand(def, 0)), to = nn_value_type(v);
  return nn_type_elements(&from) < nn_type_elements(&to);
}

static bool undoes(MlirOperation transpose, const int64_t *perm, int rank) {
  int64_t first[NN_MAX_RANK];
  nn_attr_i64s(transpose, "perm", first, NN_MAX_RANK);
  bool identity = true;
  for (int i = 0; i < rank; i++) identity &= first[perm[i]] == i;
  return identity;
}

// The operand whose elements an element-wise op takes one by one, where all others are constants or repeat something
// smaller; -1: there are more.
static int full_operand(MlirOperation op) {
  int full = -1;
  for (int i = 0; i < (int)mlirOperationGetNumOperands(op); i++) {
    if (is_small(nn_operand(op, i))) continue;
    if (full >= 0) return -1;
    full = i;
  }
  return full;
}

// Whether less is moved where x is computed from something transposed. The last axis of x stays where it is.
static bool can_move(MlirValue x, const int64_t *perm) {
  MlirOperation op = nn_value_def(x);
  NnType t = nn_value_type(x);
  if (nn_op_of(op) == NN_OP_NONE) return false;
  if (nn_op_of(op) == NN_OP_transpose) return undoes(op, perm, t.rank);
  if (!rewrite_has_one_use(x) || mlirOperationGetNumResults(op) != 1) return false;
  if (nn_op_of(op) == NN_OP_gather) return nn_value_type(nn_operand(op, 0)).rank == 2;
  if (nn_op_of(op) == NN_OP_matmul) {
    NnType in = nn_value_type(nn_operand(op, 0)), weight = nn_value_type(nn_operand(op, 1));
    bool rows = in.rank == t.rank && weight.rank == 2 && !nn_attr_bool(op, "transpose_a", false);
    return rows && (in.dim[in.rank - 1] <= t.dim[t.rank - 1] || can_move(nn_operand(op, 0), perm));
  }
  int full = nn_op_info(nn_op_of(op))->kind == NN_KIND_MAP ? full_operand(op) : -1;
  return full >= 0 && can_move(nn_operand(op, full), perm);
}

static NnType permuted(NnType t, const int64_t *perm) {
  NnType to = t;
  for (int i = 0; i < t.rank; i++) to.dim[i] = t.dim[perm[i]];
  return to;
}

// transpose(x) of what can_move has allowed.
static MlirValue move(NnBuilder *b, MlirValue x, const int64_t *perm) {
  MlirOperation op = nn_value_def(x);
  NnType t = nn_value_type(x), type = permuted(t, perm);
  if (!can_move(x, perm)) return nn_transpose(b, x, perm);
  if (nn_op_of(op) == NN_OP_transpose) return nn_operand(op, 0);
  if (nn_op_of(op) == NN_OP_gather)
    return nn_binary(b, NN_OP_gather, nn_operand(op, 0), nn_transpose(b, nn_operand(op, 1), perm));
  if (nn_op_of(op) == NN_OP_matmul)
    return nn_build_like(b, NN_OP_matmul, op, 2, (MlirValue[]){move(b, nn_operand(op, 0), perm), nn_operand(op, 1)},
                         &type);
  int n = (int)mlirOperationGetNumOperands(op), full = full_operand(op);
  MlirValue *operands = allocate_array((size_t)n, sizeof *operands);
  for (int i = 0; i < n; i++)
    operands[i] = i == full ? move(b, nn_operand(op, i), perm) : nn_transpose(b, nn_operand(op, i), perm);
  MlirValue made = nn_build_like(b, nn_op_of(op), op, n, operands, &type);
  free(operands);
  return made;
}

MlirValue simplify_loop_input(MlirOperation op, NnOp kind) {
  int64_t perm[NN_MAX_RANK];
  if (kind != NN_OP_transpose || !feeds_loops_only(mlirOperationGetResult(op, 0))) return nn_null_value();
  int rank = nn_attr_i64s(op, "perm", perm, NN_MAX_RANK);
  MlirValue x = nn_operand(op, 0);
  if (rank < 2 || perm[rank - 1] != rank - 1 || nn_op_of(nn_value_def(x)) == NN_OP_transpose || !can_move(x, perm))
    return nn_null_value();
  NnBuilder b = rewrite_builder(op);
  return move(&b, x, perm);
}
