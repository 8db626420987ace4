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
  for (int i = 0; i < 3; i++)
    if (phase.length == strlen(phases[i]) && memcmp(phase.data, phases[i], phase.length) == 0) return phases[i];
  return NULL;
}

int rewrite_phase_rank(const char *phase) {
  for (int i = 0; phase && i < 3; i++)
    if (phase == phases[i] || strcmp(phase, phases[i]) == 0) return i;
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

int rewrite_erase_dead(MlirBlock block) {
  int n, erased = 0;
  MlirOperation *ops = rewrite_ops(block, &n);
  for (int i = n - 1; i >= 0; i--) {
    if (!rewrite_is_unused(ops[i])) continue;
    NnOp kind = nn_op_of(ops[i]);
    if (kind == NN_OP_NONE ? !nn_has_attr(ops[i], ATTR_scan) : nn_op_info(kind)->kind == NN_KIND_MARK) continue;
    mlirOperationDestroy(ops[i]);
    erased++;
  }
  free(ops);
  return erased;
}
