// The pass `inplace`: which result may be written over which operand, and where an update cannot be computed in its
// argument's buffer. A kernel allows it where each element of the operand is read at the index that is written, and
// nothing reads it otherwise.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "passes/plan/plan.h"
#include "support/alloc.h"

// ---------------------------------------------------------------------------------------------------------------------
// What a kernel's body allows

static bool same_extent(const NnType *t, const int64_t *domain, int rank) {
  if (t->rank != rank) return false;
  for (int a = 0; a < rank; a++)
    if (t->dim[a] != domain[a]) return false;
  return true;
}

// The value, and what is made of it element by element, is used by element-wise ops and reductions only: nothing looks
// at it through a view.
static bool read_at_own_index(MlirOperation func, MlirValue v) {
  PtrMap own = {0};
  bool holds = true;
  ptr_map_set(&own, v.ptr, 0);
  for (MlirOperation op = mlirBlockGetFirstOperation(nn_function_body(func)); holds && !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op)) {
    bool reads = false;
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
      reads |= ptr_map_get(&own, mlirOperationGetOperand(op, i).ptr) >= 0;
    NnOp kind = nn_op_of(op);
    if (!reads || kind == NN_OP_NONE) continue;   // or returned
    NnOpKind family = nn_op_info(kind)->kind;
    holds = family == NN_KIND_MAP || family == NN_KIND_REDUCE;
    if (family == NN_KIND_MAP) ptr_map_set(&own, mlirOperationGetResult(op, 0).ptr, 0);
  }
  ptr_map_free(&own);
  return holds;
}

// The value, and what is computed from it, is used by element-wise ops only, and not spread out again: chains of at
// most 64. Ops stand behind what they read, so one walk sees each once, however often chains part and meet.
static bool never_spread(MlirOperation func, MlirValue v) {
  enum { LONGEST = 64 };
  PtrMap length = {0};   // of the longest chain from v to a value that is computed from it
  bool holds = true;
  ptr_map_set(&length, v.ptr, 0);
  for (MlirOperation op = mlirBlockGetFirstOperation(nn_function_body(func)); holds && !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op)) {
    int longest = -1;
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
      int n = ptr_map_get(&length, mlirOperationGetOperand(op, i).ptr);
      if (n > longest) longest = n;
    }
    NnOp kind = nn_op_of(op);
    if (longest < 0 || kind == NN_OP_NONE) continue;   // or returned
    holds = nn_op_info(kind)->kind == NN_KIND_MAP && longest < LONGEST;
    if (holds) ptr_map_set(&length, mlirOperationGetResult(op, 0).ptr, longest + 1);
  }
  ptr_map_free(&length);
  return holds;
}

// Sums and maxima take one pass over the domain, in which domain-shaped results are written; moments take a second.
static bool reads_once(MlirOperation func) {
  NN_FOREACH_OP (op, nn_function_body(func))
    if (nn_op_of(op) == NN_OP_moments) return false;
  return true;
}

// A move whose result is its argument but for some elements, which nothing else of the move reads.
static bool moves_into(MlirOperation func, int a) {
  MlirOperation op = mlirBlockGetFirstOperation(nn_function_body(func));
  MlirValue arg = mlirBlockGetArgument(nn_function_body(func), a);
  return nn_op_of(op) == NN_OP_scatter_add_to && mlirValueEqual(mlirOperationGetOperand(op, 2), arg) &&
         !mlirValueEqual(mlirOperationGetOperand(op, 0), arg);
}

// The last value of a tied carry over its first: the loop works on it in place.
static bool scan_allows(const NnScan *s, int r, int a) {
  return r >= s->n_stacked && r < s->n_stacked + s->n_tied && a == s->n_slices + r;
}

// Result r over argument a of a kernel. A row kernel writes its domain-shaped results in its last loop over the row,
// and reads before it writes; values of the kept shape are written once per row or channel, so they may only meet
// others of that shape.
static bool kernel_allows(MlirOperation func, int r, int a) {
  char kind[16];
  nn_attr_str(func, ATTR_kind, kind, sizeof kind, "");
  if (!strcmp(kind, "move")) return moves_into(func, a);
  int64_t domain[NN_MAX_RANK];
  int rank = nn_attr_i64s(func, ATTR_domain, domain, NN_MAX_RANK);
  MlirValue arg = mlirBlockGetArgument(nn_function_body(func), a);
  NnType result = nn_value_type(mlirOperationGetOperand(nn_function_return(func), r)), t = nn_value_type(arg);
  if (!nn_shape_equal(&result, &t) || nn_dtype_bytes(result.dtype) != nn_dtype_bytes(t.dtype)) return false;
  bool whole = same_extent(&t, domain, rank);
  if (whole && !strcmp(kind, "column") && !reads_once(func)) return false;
  return whole ? read_at_own_index(func, arg) : never_spread(func, arg);
}

// A product that is added to an operand (that operand as a factor is asked for by itself); ranks' sums over the one
// tensor that they are of.
static bool library_allows(MlirOperation op, int r, int a) {
  if (nn_op_of(op) == NN_OP_all_reduce) return mlirOperationGetNumOperands(op) == 1;
  return r == 0 && a == nn_op_adds_to(nn_op_of(op));
}

bool plan_inplace_allowed(PlanProgram *p, int step, int result, int operand) {
  const PlanStep *s = &p->steps[step];
  if (result < 0 || result >= s->n_results) return false;
  if (s->kernel < 0) return s->role == NN_STEP_RUN && library_allows(s->op, result, operand);
  PlanKernel *k = &p->kernels[s->kernel];
  assert(operand < k->n_args);
  int8_t *answer = &k->allowed[result * k->n_args + operand];
  if (*answer < 0) {
    NnScan scan;
    bool is_scan = nn_scan_of(k->func, &scan);
    *answer = is_scan ? scan_allows(&scan, result, operand) : kernel_allows(k->func, result, operand);
    if (*answer && !is_scan && p->target && p->target->inplace_ok)
      *answer = p->target->inplace_ok(p->target, k->func, result, operand);
  }
  return *answer;
}

// ---------------------------------------------------------------------------------------------------------------------

static void write_pairs(const PlanProgram *p, const PlanLayout *l, int position) {
  const PlanStep *s = &p->steps[position];
  int64_t *pairs = allocate_array(2 * (size_t)s->n_results, sizeof *pairs);
  int n = 0;
  for (int r = 0; r < s->n_results; r++) {
    int operand = l->instances[l->first_instance[position] + r].inplace;
    if (operand < 0) continue;
    pairs[n++] = r;
    pairs[n++] = operand;
  }
  if (n) nn_set_attr(s->op, &NN_I64S(ATTR_inplace, pairs, n));
  else mlirOperationRemoveAttributeByName(s->op, nn_string_ref(ATTR_inplace));
  free(pairs);
}

void inplace_function(MlirModule module, MlirOperation func, const NnTarget *target) {
  PlanProgram p;
  PlanLayout l;
  plan_program_build(&p, module, func, target);
  // placed: remat has decided
  plan_layout_build(&p, NULL, p.n_steps, nn_has_attr(func, ATTR_placed) ? PLAN_INPLACE_READ : PLAN_INPLACE_DECIDE, &l);
  for (int i = 0; i < p.n_steps; i++) write_pairs(&p, &l, i);
  nn_set_result_attr_where(func, l.copy_back, &NN_BOOL(ATTR_copy_back, true));
  plan_layout_free(&l);
  plan_program_free(&p);
}

// Requires: the order is final (schedule, remat have run).
// Establishes: `nn.inplace` on ops; `nn.copy_back` on the results of public functions that must be copied to their
// argument at the end. Breaks: reordering, unless the attributes are computed again.
bool nn_pass_inplace(MlirModule module, const NnPassRun *run) {
  NnFunctions functions = nn_public_functions(module);
  for (int f = 0; f < functions.n; f++) inplace_function(module, functions.items[f], run->target);
  return true;
}
