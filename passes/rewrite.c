// Shared by the rewriting passes; see rewrite.h.
#include "passes/rewrite.h"

#include <stdlib.h>
#include <string.h>

#include "support/alloc.h"

static const char *const phases[] = {"forward", "backward", "update"};

const char *rewrite_phase(MlirOperation op) {
  MlirAttribute a = mlirOperationGetDiscardableAttributeByName(op, mlirStringRefCreate(ATTR_phase, strlen(ATTR_phase)));
  if (mlirAttributeIsNull(a) || !mlirAttributeIsAString(a)) return NULL;
  MlirStringRef phase = mlirStringAttrGetValue(a);
  switch (phase.length) {   // each has its own
  case sizeof "update" - 1: return memcmp(phase.data, "update", 6) ? NULL : phases[2];
  case sizeof "forward" - 1: return memcmp(phase.data, "forward", 7) ? NULL : phases[0];
  case sizeof "backward" - 1: return memcmp(phase.data, "backward", 8) ? NULL : phases[1];
  default: return NULL;
  }
}

int rewrite_phase_rank(const char *phase) {
  for (int i = 0; phase && i < 3; i++)   // most often from rewrite_phase
    if (phase == phases[i]) return i;
  for (int i = 0; phase && i < 3; i++)
    if (strcmp(phase, phases[i]) == 0) return i;
  return 0;
}

NnBuilder rewrite_builder(MlirOperation op) {
  NnBuilder b = nn_builder_before(op);
  b.phase = rewrite_phase(op);
  return b;
}

bool rewrite_is_unused(MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    if (!mlirOpOperandIsNull(mlirValueGetFirstUse(mlirOperationGetResult(op, i)))) return false;
  return true;
}

bool rewrite_has_one_use(MlirValue v) {
  MlirOpOperand use = mlirValueGetFirstUse(v);
  return !mlirOpOperandIsNull(use) && mlirOpOperandIsNull(mlirOpOperandGetNextUse(use));
}

void rewrite_replace(MlirOperation op, const MlirValue *values) {
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(op, i), values[i]);
  mlirOperationDestroy(op);
}

MlirOperation *rewrite_ops(MlirBlock block, int *n) {
  MlirOperation *ops = NULL;
  *n = 0;
  NN_FOREACH_OP (op, block) *ARRAY_ADD(ops, *n) = op;
  return ops;
}

bool rewrite_moves_only_ones(const NnType *x, const int64_t *perm) {
  int64_t last = -1;
  for (int i = 0; i < x->rank; i++) {
    if (x->dim[perm[i]] == 1) continue;
    if (perm[i] < last) return false;
    last = perm[i];
  }
  return true;
}

MlirValue rewrite_transpose(NnBuilder *b, MlirValue x, const int64_t *perm) {
  NnType from = nn_value_type(x);
  int64_t dim[NN_MAX_RANK];
  if (!rewrite_moves_only_ones(&from, perm)) return nn_transpose(b, x, perm);
  for (int i = 0; i < from.rank; i++) dim[i] = from.dim[perm[i]];
  return nn_reshape(b, x, from.rank, dim);
}

bool rewrite_is_private(MlirOperation func) {
  char buf[16];
  return strcmp(nn_attr_str(func, "sym_visibility", buf, sizeof buf, ""), "private") == 0;
}

static bool is_dead(MlirOperation op) {
  if (!rewrite_is_unused(op)) return false;
  NnOp kind = nn_op_of(op);
  return kind == NN_OP_NONE ? nn_has_attr(op, ATTR_scan) : nn_op_info(kind)->kind != NN_KIND_MARK;
}

MlirOperation *rewrite_live_ops(MlirBlock block, int *n, int *erased) {
  int n_all;
  MlirOperation *ops = rewrite_ops(block, &n_all);
  int first = n_all;   // of those that stay, at the end
  for (int i = n_all - 1; i >= 0; i--) {
    if (is_dead(ops[i])) mlirOperationDestroy(ops[i]);
    else ops[--first] = ops[i];
  }
  *n = n_all - first;
  *erased = first;
  if (first) memmove(ops, ops + first, (size_t)*n * sizeof *ops);
  return ops;
}

int rewrite_erase_dead(MlirBlock block) {
  int n, erased;
  free(rewrite_live_ops(block, &n, &erased));
  return erased;
}
