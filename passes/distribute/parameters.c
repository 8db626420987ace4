// Parameters in parts (nnc --shard=parameters): each rank holds and updates a part of each, and what reads one gathers
// it first. Where and how often is told by the pass `fetch`, once the order of the steps is known.
#include <stdlib.h>
#include <string.h>

#include "passes/autodiff/autodiff.h"
#include "passes/distribute/distribute.h"
#include "passes/plan/plan.h"
#include "passes/rewrite.h"
#include "support/alloc.h"
#include "support/bytes.h"

// A parameter, or its moving average, that is still whole.
static bool is_kept_in_parts(MlirOperation func, int arg) {
  char role[16];
  const char *is_a = nn_arg_str(func, arg, ATTR_role, role, sizeof role, "");
  if (!mlirAttributeIsNull(nn_arg_attr(func, arg, ATTR_shape))) return false;
  return strcmp(is_a, "param") == 0 || !mlirAttributeIsNull(nn_arg_attr(func, arg, ATTR_average));
}

static NnType part_type(NnType whole, int64_t ranks) {
  int64_t n = elements_per_rank(nn_type_elements(&whole), nn_dtype_bytes(whole.dtype), ranks);
  return nn_type(whole.dtype, 1, &n);
}

static void return_part(Signature *s, int arg) {
  for (int r = 0; r < s->n_results; r++) {
    MlirOperation gather = nn_value_def(s->results[r]);
    bool updates = (int)nn_result_i64(s->func, r, ATTR_tied, -1) == arg;
    if (updates && !mlirOperationIsNull(gather) && nn_op_of(gather) == NN_OP_all_gather)
      s->results[r] = mlirOperationGetOperand(gather, 0);
  }
}

// autodiff took a part of the parameter to update it, and gathered what came of that: now it is one already. All others
// read the whole.
static void keep_part(Signature *s, int arg, int64_t ranks) {
  enum { MOST = 4 };
  MlirValue v = mlirBlockGetArgument(nn_function_body(s->func), arg);
  MlirOperation parts[MOST + 1];
  int n_parts = 0;
  for (MlirOpOperand use = mlirValueGetFirstUse(v); !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use))
    if (nn_op_of(mlirOpOperandGetOwner(use)) == NN_OP_rank_part) {
      require_promise(n_parts < MOST, "one update of a parameter");
      parts[n_parts++] = mlirOpOperandGetOwner(use);
    }
  NnType whole = nn_value_type(v), part = part_type(whole, ranks);
  NnBuilder b = nn_builder_before(mlirBlockGetFirstOperation(nn_function_body(s->func)));
  b.phase = "forward";
  NnAttr attrs[] = {NN_STR(ATTR_lane, "comm"), NN_I64("ranks", ranks)};
  mlirValueSetType(v, nn_type_to_mlir(mlirOperationGetContext(s->func), &part));
  parts[n_parts] = nn_build(&b, NN_OP_all_gather, 1, &v, 2, attrs, &whole);
  mlirValueReplaceAllUsesExcept(v, mlirOperationGetResult(parts[n_parts], 0), n_parts + 1, parts);
  for (int i = 0; i < n_parts; i++) {
    mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(parts[i], 0), v);
    mlirOperationDestroy(parts[i]);
  }
  return_part(s, arg);
}

// A parameter that is read in bf16 or f16 alone travels so.
static void gather_narrow(MlirOperation gather) {
  enum { MOST_CASTS = 64 };
  MlirValue all = mlirOperationGetResult(gather, 0);
  MlirOperation casts[MOST_CASTS];
  int n = 0;
  for (MlirOpOperand use = mlirValueGetFirstUse(all); !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation op = mlirOpOperandGetOwner(use);
    if (nn_op_of(op) != NN_OP_cast || n == MOST_CASTS) return;
    casts[n++] = op;
  }
  NnType type = n ? nn_value_type(mlirOperationGetResult(casts[0], 0)) : nn_value_type(all);
  for (int i = 0; i < n; i++)
    if (nn_value_dtype(mlirOperationGetResult(casts[i], 0)) != type.dtype) return;
  if (!nn_dtype_is_narrow(type.dtype) || nn_value_dtype(all) != NN_F32) return;
  mlirValueSetType(all, nn_type_to_mlir(mlirOperationGetContext(gather), &type));
  for (int i = 0; i < n; i++) {
    mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(casts[i], 0), all);
    mlirOperationDestroy(casts[i]);
  }
}

static void improve_gathers(MlirOperation func) {
  int n;
  MlirOperation *ops = rewrite_ops(nn_function_body(func), &n);
  for (int i = n - 1; i >= 0; i--)
    if (nn_op_of(ops[i]) == NN_OP_all_gather && rewrite_is_unused(ops[i])) mlirOperationDestroy(ops[i]);
    else if (plan_is_fetch(ops[i])) gather_narrow(ops[i]);
  free(ops);
}

static void keep_parts(MlirOperation func, int64_t ranks) {
  Signature s = signature_of(func);
  int n_args = s.n_args;
  NnType *whole = allocate_array((size_t)n_args + 1, sizeof *whole);   // rank -1: not in parts
  for (int a = 0; a < n_args; a++) {
    whole[a] = nn_value_type(mlirBlockGetArgument(nn_function_body(func), a));
    if (is_kept_in_parts(func, a)) keep_part(&s, a, ranks);
    else whole[a].rank = -1;
  }
  signature_finish(&s);
  for (int a = 0; a < n_args; a++)
    if (whole[a].rank >= 0) nn_set_arg_attr(func, a, &NN_I64S(ATTR_shape, whole[a].dim, whole[a].rank));
  free(whole);
  improve_gathers(func);
}

void distribute_parameters(MlirModule module) {
  NnFunctions functions = nn_public_functions(module);
  int64_t ranks = nn_attr_i64(mlirModuleGetOperation(module), ATTR_ranks, 1);
  for (int f = 0; f < functions.n; f++) keep_parts(functions.items[f], ranks);
}
