// The model of a function behind the memory plan: values, the buffers they stand for, steps. Aliases and regions are
// resolved to the buffer they show, so that everything after this works on numbers.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "passes/plan/plan.h"
#include "support/alloc.h"
#include "support/integers.h"

int64_t plan_align(const PlanProgram *p, int64_t bytes) { return round_up(bytes, p->alignment); }

bool plan_is_sum_over_ranks(const PlanStep *s) {
  return nn_op_of(s->op) == NN_OP_all_reduce || nn_op_of(s->op) == NN_OP_reduce_scatter;
}

bool plan_is_fetch(MlirOperation op) {
  return nn_op_of(op) == NN_OP_all_gather && mlirValueIsABlockArgument(mlirOperationGetOperand(op, 0));
}

static int add_value(PlanProgram *p, MlirValue v, int def, int root, int64_t shift) {
  int id = p->n_values;
  PlanValue *value = ARRAY_ADD(p->values, p->n_values);
  *value = (PlanValue){.value = v,
                       .bytes = nn_type_bytes(nn_type_of(v)),
                       .root = root < 0 ? id : root,
                       .shift = shift,
                       .def = def,
                       .arg = -1,
                       .far = root >= 0 && p->values[root].far,
                       .inplace = -1};
  ptr_map_set(&p->ids, v.ptr, id);
  return id;
}

static int value_of(const PlanProgram *p, MlirValue v) {
  int id = ptr_map_get(&p->ids, v.ptr);
  assert(id >= 0);
  return id;
}

static void add_arguments(PlanProgram *p) {
  MlirBlock body = nn_function_body(p->func);
  p->n_args = (int)mlirBlockGetNumArguments(body);
  for (int a = 0; a < p->n_args; a++) {
    char role[16];
    int id = add_value(p, mlirBlockGetArgument(body, a), -1, -1, 0);
    p->values[id].arg = a;
    p->values[id].persistent = nn_is_persistent_role(nn_arg_str(p->func, a, ATTR_role, role, sizeof role, "input"));
    p->values[id].far = !mlirAttributeIsNull(nn_arg_attr(p->func, a, ATTR_far));
  }
}

static int kernel_of(const PlanProgram *p, MlirOperation op) {
  if (nn_op_of(op) != NN_OP_NONE || !nn_is(op, "func.call")) return -1;
  return ptr_map_get(&p->kernel_ids, nn_attribute(op, "callee").ptr);
}

static int64_t workspace_of(PlanProgram *p, MlirOperation op, int kernel) {
  NnScan scan;
  // what one step needs
  if (kernel >= 0 && nn_scan_of(p->kernels[kernel].func, &scan)) return nn_attr_i64(scan.body, ATTR_arena, 0);
  if (!p->target || !p->target->workspace_bytes) return nn_attr_i64(op, ATTR_workspace_bytes, 0);
  if (kernel < 0) return p->target->workspace_bytes(p->target, op);
  PlanKernel *k = &p->kernels[kernel];
  if (k->workspace < 0) k->workspace = p->target->workspace_bytes(p->target, k->func);
  return k->workspace;
}

static void read_inplace(PlanProgram *p, const PlanStep *s) {
  int64_t pairs[2 * NN_MAX_RESULTS + 64];
  int n = nn_attr_i64s(s->op, ATTR_inplace, pairs, (int)(sizeof pairs / sizeof *pairs));
  for (int i = 0; i + 1 < n; i += 2)
    if (pairs[i] >= 0 && pairs[i] < s->n_results && pairs[i + 1] >= 0 && pairs[i + 1] < s->n_inputs)
      p->values[s->first_result + pairs[i]].inplace = (int)pairs[i + 1];
}

static void add_step(PlanProgram *p, const NnStep *from, int **pool) {
  PlanStep *s = &p->steps[p->n_steps];
  *s = (PlanStep){.op = from->op,
                  .role = from->role,
                  .recomputed = from->recomputed,
                  .lane = nn_lane_of(from->op),
                  .kernel = kernel_of(p, from->op),
                  .inputs = *pool};
  s->n_inputs = (int)mlirOperationGetNumOperands(from->op);
  for (int i = 0; i < s->n_inputs; i++) s->inputs[i] = value_of(p, mlirOperationGetOperand(from->op, i));
  *pool += s->n_inputs;
  s->n_results = (int)mlirOperationGetNumResults(from->op);
  s->first_result = p->n_values;
  bool far = s->lane == NN_LANE_OUT && nn_op_of(from->op) == NN_OP_copy;
  for (int r = 0; r < s->n_results; r++) {
    int id = add_value(p, mlirOperationGetResult(from->op, r), p->n_steps, -1, 0);
    p->values[id].far = far;
  }
  if (from->role == NN_STEP_RUN) s->workspace = workspace_of(p, from->op, s->kernel);
  s->packs_once = nn_has_attr(from->op, ATTR_packs_once);
  read_inplace(p, s);
  p->n_steps++;
}

static void add_alias(PlanProgram *p, MlirValue result, MlirValue of, int64_t shift) {
  const PlanValue *base = &p->values[value_of(p, of)];
  add_value(p, result, base->def, base->root, base->shift + shift);
}

static void add_region(PlanProgram *p, MlirOperation region) {
  MlirOperation yield = mlirBlockGetTerminator(mlirRegionGetFirstBlock(mlirOperationGetRegion(region, 0)));
  for (intptr_t r = 0; r < mlirOperationGetNumResults(region); r++)
    add_alias(p, mlirOperationGetResult(region, r), mlirOperationGetOperand(yield, r), 0);
}

static void add_kernels(PlanProgram *p, MlirModule module) {
  MlirContext ctx = mlirModuleGetContext(module);
  NN_FOREACH_OP (op, mlirModuleGetBody(module)) {
    if (!nn_has_attr(op, ATTR_kernel)) continue;
    PlanKernel *k = ARRAY_ADD(p->kernels, p->n_kernels);
    *k = (PlanKernel){.func = op,
                      .n_args = nn_function_n_args(op),
                      .n_results = nn_function_n_results(op),
                      .workspace = -1};
    size_t pairs = (size_t)k->n_args * (size_t)k->n_results;
    k->allowed = allocate_array(pairs, 1);
    memset(k->allowed, -1, pairs);
    MlirAttribute name = nn_attribute(op, "sym_name");
    ptr_map_set(&p->kernel_ids, mlirFlatSymbolRefAttrGet(ctx, mlirStringAttrGetValue(name)).ptr, p->n_kernels - 1);
  }
}

void plan_program_build(PlanProgram *p, MlirModule module, MlirOperation func, const NnTarget *target) {
  *p = (PlanProgram){.func = func, .target = target, .alignment = nn_alignment(target)};
  add_kernels(p, module);
  add_arguments(p);
  NnStepList list = nn_flatten(func);
  int n_inputs = 0;
  for (int i = 0; i < list.n; i++) n_inputs += (int)mlirOperationGetNumOperands(list.items[i].op);
  p->steps = allocate_array((size_t)list.n, sizeof *p->steps);
  p->input_pool = allocate_array((size_t)n_inputs, sizeof *p->input_pool);
  int *pool = p->input_pool;
  for (int i = 0; i < list.n; i++) {
    const NnStep *s = &list.items[i];
    switch (s->role) {
    case NN_STEP_ALIAS:
      add_alias(p, mlirOperationGetResult(s->op, 0), mlirOperationGetOperand(s->op, 0), nn_alias_shift(s->op));
      break;
    case NN_STEP_REGION: add_region(p, s->op); break;
    case NN_STEP_MARK: break;
    default: add_step(p, s, &pool);
    }
  }
  nn_steps_free(&list);
  MlirOperation ret = nn_function_return(func);
  p->n_results = (int)mlirOperationGetNumOperands(ret);
  p->result = allocate_array((size_t)p->n_results, sizeof *p->result);
  p->tied = allocate_array((size_t)p->n_results, sizeof *p->tied);
  for (int r = 0; r < p->n_results; r++) {
    p->result[r] = value_of(p, mlirOperationGetOperand(ret, r));
    p->tied[r] = (int)nn_result_i64(func, r, ATTR_tied, -1);
  }
}

void plan_program_free(PlanProgram *p) {
  for (int i = 0; i < p->n_kernels; i++) free(p->kernels[i].allowed);
  free(p->kernels);
  for (int i = 0; i < p->n_steps; i++) {
    free(p->steps[i].again);
    free(p->steps[i].reads_again);
  }
  free(p->values);
  free(p->steps);
  free(p->input_pool);
  free(p->result);
  free(p->tied);
  ptr_map_free(&p->ids);
  ptr_map_free(&p->kernel_ids);
  *p = (PlanProgram){0};
}
