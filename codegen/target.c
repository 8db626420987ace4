// What the passes must know of any target: the roofline of its machine or measured times. The targets' own folders give
// the rest.
#include "codegen/target.h"

#include <string.h>

#include "codegen/codegen.h"
#include "passes/plan/plan.h"
#include "runtime/program.h"

// The passes call back without a context, so the one target of this process lives here.
static NnTarget target;
static Machine machine;
static const CostTable *costs;   // Borrowed; NULL: none
static CostWork (*work_of)(MlirOperation op, MlirOperation kernel);

MlirOperation target_callee(MlirOperation call) {
  MlirOperation top = call;
  for (MlirOperation up = call; !mlirOperationIsNull(up); up = mlirOperationGetParentOperation(up)) top = up;
  MlirAttribute name = mlirOperationGetAttributeByName(call, mlirStringRefCreateFromCString("callee"));
  MlirStringRef wanted = mlirFlatSymbolRefAttrGetValue(name);
  MlirBlock body = mlirRegionGetFirstBlock(mlirOperationGetRegion(top, 0));
  for (MlirOperation op = mlirBlockGetFirstOperation(body); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op)) {
    if (!nn_is(op, "func.func")) continue;
    MlirAttribute symbol = mlirOperationGetAttributeByName(op, mlirStringRefCreateFromCString("sym_name"));
    if (mlirStringRefEqual(mlirStringAttrGetValue(symbol), wanted)) return op;
  }
  return nn_null_operation();
}

static MlirOperation kernel_of(MlirOperation op) {
  return nn_op_of(op) == NN_OP_NONE && nn_is(op, "func.call") ? target_callee(op) : nn_null_operation();
}

// One step after the other.
static double scan_seconds(const NnTarget *t, const NnScan *scan) {
  NnStepList steps = nn_flatten(scan->body);
  double sum = 0;
  for (int i = 0; i < steps.n; i++)
    if (steps.items[i].role == NN_STEP_RUN) sum += t->seconds(t, steps.items[i].op);
  nn_steps_free(&steps);
  return (double)scan->length * sum;
}

static double seconds(const NnTarget *t, MlirOperation op) {
  NnScan scan;
  if (nn_scan_of(op, &scan)) return scan_seconds(t, &scan);
  MlirOperation kernel = kernel_of(op);
  CostWork work = work_of(op, kernel);
  double roofline = machine_seconds(&machine, &work);
  return costs ? cost_table_seconds(costs, op, kernel, work.class, roofline) : roofline;
}

double target_seconds(MlirOperation op) { return seconds(&target, op); }

const NnTarget *target_set(const char *name, const Machine *m, CostWork (*work)(MlirOperation, MlirOperation),
                           int64_t (*workspace_bytes)(MlirOperation), bool (*inplace_ok)(MlirOperation, int, int),
                           bool (*epilogue_ok)(MlirOperation), bool groups_updates, int64_t row_bytes,
                           int64_t loss_rows) {
  work_of = work;
  target = (NnTarget){.name = name,
                      .alignment = NNC_ALIGN,
                      .workspace_bytes = workspace_bytes,
                      .seconds = seconds,
                      .channels_last = true,
                      .inplace_ok = inplace_ok,
                      .epilogue_ok = epilogue_ok,
                      .groups_updates = groups_updates,
                      .row_bytes = row_bytes,
                      .loss_rows = loss_rows,
                      .streams_results = groups_updates};
  nn_target_set_machine(m);
  return &target;
}

void nn_target_set_machine(const Machine *m) {
  machine = *m;
  target.flops_per_second = m->flops_per_second[NN_F32];
  target.bytes_per_second = m->bytes_per_second;
  target.launch_seconds = m->launch_seconds;
}

void nn_target_set_costs(const CostTable *table) { costs = table; }

int nn_target_match_costs(CostTable *table, MlirModule module, int *n_steps) {
  MlirOperation functions[16];
  int n = nn_public_functions(module, functions, 16), matched = 0;
  bool trains = !mlirOperationIsNull(nn_module_function(module, "train"));
  *n_steps = 0;
  for (int f = 0; f < n; f++) {
    char name[16];
    nn_attr_str(functions[f], "sym_name", name, sizeof name, "");
    if (trains && strcmp(name, "train") != 0 && strcmp(name, "accumulate") != 0) continue;   // what bench measures
    NnStepList list = nn_flatten(functions[f]);
    for (int i = 0; i < list.n; i++) {
      // of a loop no step is measured
      if (list.items[i].role != NN_STEP_RUN || nn_has_attr(list.items[i].op, "nn.scan")) continue;
      MlirOperation kernel = kernel_of(list.items[i].op);
      CostWork work = work_of(list.items[i].op, kernel);
      ++*n_steps;
      matched += cost_table_match(table, list.items[i].op, kernel, work.class, machine_seconds(&machine, &work));
    }
    nn_steps_free(&list);
  }
  return matched;
}
