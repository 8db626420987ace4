// What of a step runs again. A kernel that makes an activation and updates a running statistic on the way cannot run
// twice as it is: the statistic would be updated twice. A part of it can: a kernel of its own that computes the large
// results alone and reads only what they are made from. Only where its values are certain to be the same bits: exact
// ops, on each element alone.
#include <stdlib.h>
#include <string.h>

#include "passes/remat/remat.h"
#include "passes/rewrite.h"
#include "support/alloc.h"

// A call of a vector math function may differ in the last bit between a vector and the rest of a row, a reduction in
// its order.
bool remat_is_exact(NnOp kind) {
  static const NnOp exact[] = {NN_OP_constant, NN_OP_iota,  NN_OP_random_uniform,
                               NN_OP_neg,      NN_OP_abs,   NN_OP_sign,
                               NN_OP_relu,     NN_OP_floor, NN_OP_not,
                               NN_OP_add,      NN_OP_sub,   NN_OP_mul,
                               NN_OP_div,      NN_OP_max,   NN_OP_min,
                               NN_OP_and,      NN_OP_or,    NN_OP_compare,
                               NN_OP_select,   NN_OP_cast,  NN_OP_sqrt,
                               NN_OP_broadcast};
  for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
    if (exact[i] == kind) return true;
  return false;
}

// Marks in `needed` (n_args) the arguments that the results with keep[r] are made from. False when a kernel of these
// results alone might give other bits, or is no map.
static bool find_needed(MlirOperation func, const bool *keep, bool *needed) {
  PtrMap wanted = {0};
  MlirBlock body = nn_function_body(func);
  MlirOperation end = nn_function_return(func);
  int64_t domain[NN_MAX_RANK];
  NnType whole = nn_type(NN_F32, nn_attr_i64s(func, ATTR_domain, domain, NN_MAX_RANK), domain);
  bool fine = true;
  int n;
  MlirOperation *ops = rewrite_ops(body, &n);
  for (int r = 0; r < nn_function_n_results(func); r++) {
    NnType t = nn_value_type(mlirOperationGetOperand(end, r));
    if (!keep[r]) continue;
    ptr_map_set(&wanted, mlirOperationGetOperand(end, r).ptr, 1);
    fine &= nn_shape_equal(&t, &whole);
  }
  for (int i = n - 2; i >= 0; i--) {   // the last is the return
    bool is_wanted = false;
    for (intptr_t r = 0; r < mlirOperationGetNumResults(ops[i]); r++)
      is_wanted |= ptr_map_get(&wanted, mlirOperationGetResult(ops[i], r).ptr) > 0;
    for (intptr_t o = 0; is_wanted && o < mlirOperationGetNumOperands(ops[i]); o++)
      ptr_map_set(&wanted, mlirOperationGetOperand(ops[i], o).ptr, 1);
    NnOp kind = nn_op_of(ops[i]);
    // the same code whatever follows it
    bool library = kind != NN_OP_NONE && nn_op_info(kind)->kind == NN_KIND_LIBRARY;
    fine &= !is_wanted || library || remat_is_exact(kind);
  }
  for (int a = 0; a < nn_function_n_args(func); a++)
    needed[a] = ptr_map_get(&wanted, mlirBlockGetArgument(body, a).ptr) > 0;
  free(ops);
  ptr_map_free(&wanted);
  return fine;
}

void remat_find_again(PlanProgram *p, int64_t small_bytes) {
  bool *is_tied = allocate_array((size_t)p->n_values, sizeof *is_tied);
  int *writer = allocate_array((size_t)p->n_args, sizeof *writer);
  for (int a = 0; a < p->n_args; a++) writer[a] = -1;
  for (int r = 0; r < p->n_results; r++) {
    const PlanValue *root = &p->values[p->values[p->result[r]].root];
    if (p->tied[r] < 0) continue;
    is_tied[p->values[p->result[r]].root] = true;
    writer[p->tied[r]] = root->def;
  }
  for (int i = 0; i < p->n_steps; i++) {
    PlanStep *s = &p->steps[i];
    int n_tied = 0, n_kept = 0;
    for (int r = 0; r < s->n_results; r++) n_tied += is_tied[s->first_result + r];
    if (s->again || s->kernel < 0 || n_tied == 0 || step_role(s->op) == REMAT_UPDATE) continue;
    bool *keep = allocate_array((size_t)s->n_results, sizeof *keep),
         *needed = allocate_array((size_t)s->n_inputs, sizeof *needed), reads_updated = false;
    for (int r = 0; r < s->n_results; r++)
      n_kept += keep[r] = !is_tied[s->first_result + r] && p->values[s->first_result + r].bytes > small_bytes;
    bool fine = n_kept > 0 && !nn_has_attr(p->kernels[s->kernel].func, ATTR_body) &&
                find_needed(p->kernels[s->kernel].func, keep, needed);
    for (int o = 0; fine && o < s->n_inputs; o++) {
      int arg = p->values[p->values[s->inputs[o]].root].arg;
      reads_updated |= needed[o] && arg >= 0 && writer[arg] == i;
    }
    if (fine && !reads_updated) {
      s->again = keep;
      s->reads_again = needed;
      continue;
    }
    free(keep);
    free(needed);
  }
  free(is_tied);
  free(writer);
}

// ---------------------------------------------------------------------------------------------------------------------
// The kernel of the part

static MlirOperation make_kernel(MlirOperation func, const PlanStep *s, const char *name) {
  MlirOperation part = mlirOperationClone(func);
  mlirBlockInsertOwnedOperationAfter(mlirOperationGetBlock(func), func, part);
  nn_set_attr(part, &NN_STR("sym_name", name));
  MlirValue *results = allocate_array((size_t)s->n_results, sizeof *results);
  int n = 0;
  for (int r = 0; r < s->n_results; r++)
    if (s->again[r]) results[n++] = mlirOperationGetOperand(nn_function_return(part), r);
  nn_function_set_results(part, n, results, 0);
  free(results);
  while (rewrite_erase_dead(nn_function_body(part)) > 0) continue;
  for (int o = s->n_inputs - 1; o >= 0; o--)
    if (!s->reads_again[o]) nn_function_remove_arg(part, o);
  nn_set_attr(part, &NN_STR(ATTR_kind, "map"));
  mlirOperationRemoveAttributeByName(part, nn_string_ref(ATTR_axes));
  return part;
}

MlirOperation remat_build_call(MlirOperation like, MlirOperation func, int n, const MlirValue *operands) {
  char name[160], phase[16];
  nn_attr_str(func, "sym_name", name, sizeof name, "");
  MlirContext ctx = mlirOperationGetContext(func);
  MlirOperationState state = mlirOperationStateGet(nn_string_ref("func.call"), mlirOperationGetLocation(like));
  MlirOperation end = nn_function_return(func);
  mlirOperationStateAddOperands(&state, n, operands);
  for (int r = 0; r < nn_function_n_results(func); r++)
    mlirOperationStateAddResults(&state, 1, (MlirType[]){mlirValueGetType(mlirOperationGetOperand(end, r))});
  MlirNamedAttribute callee = nn_named(ctx, "callee", mlirFlatSymbolRefAttrGet(ctx, nn_string_ref(name)));
  mlirOperationStateAddAttributes(&state, 1, &callee);
  MlirOperation call = mlirOperationCreate(&state);
  nn_set_attr(call, &NN_STR(ATTR_phase, nn_attr_str(like, ATTR_phase, phase, sizeof phase, "forward")));
  return call;
}

MlirOperation remat_call_again(AgainKernels *kernels, const PlanProgram *p, int step, const MlirValue *operands) {
  const PlanStep *s = &p->steps[step];
  MlirOperation func = p->kernels[s->kernel].func, part = {NULL};
  for (int i = 0; i < kernels->n && mlirOperationIsNull(part); i++) {
    const PlanStep *other = &p->steps[kernels->items[i].step];
    if (other->kernel == s->kernel && !memcmp(other->again, s->again, (size_t)s->n_results * sizeof *s->again))
      part = kernels->items[i].func;
  }
  char name[160], base[128];
  if (mlirOperationIsNull(part)) {
    snprintf(name, sizeof name, "%s_again_%d", nn_attr_str(func, "sym_name", base, sizeof base, "kernel"), kernels->n);
    part = make_kernel(func, s, name);
    kernels->items = reallocate_array(kernels->items, (size_t)kernels->n + 1, sizeof *kernels->items);
    kernels->items[kernels->n++] = (AgainKernel){step, part};
  }
  MlirValue *read = allocate_array((size_t)s->n_inputs, sizeof *read);
  int n = 0;
  for (int o = 0; o < s->n_inputs; o++)
    if (s->reads_again[o]) read[n++] = operands[o];
  MlirOperation call = remat_build_call(s->op, part, n, read);
  free(read);
  return call;
}
