// What all targets have in common: prices from the roofline of a machine or measured times, and the passes' questions.
#include "codegen/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/kernel/kernel.h"
#include "passes/plan/plan.h"
#include "runtime/program.h"
#include "support/alloc.h"

static MlirOperation kernel_of(MlirOperation op) {
  return nn_op_of(op) == NN_OP_NONE && nn_is(op, "func.call") ? nn_callee(op) : nn_null_operation();
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

double target_kernel_seconds(const CodegenTarget *target, MlirOperation op, MlirOperation kernel) {
  CostWork work = target->work(target, op, kernel);
  double roofline = machine_seconds(&target->machine, &work);
  return target->costs ? cost_table_seconds(target->costs, op, kernel, work.class, roofline) : roofline;
}

static double seconds(const NnTarget *facts, MlirOperation op) {
  NnScan scan;
  if (nn_scan_of(op, &scan)) return scan_seconds(facts, &scan);
  return target_kernel_seconds((const CodegenTarget *)facts, op, kernel_of(op));
}

double target_seconds(const CodegenTarget *target, MlirOperation op) { return seconds(&target->facts, op); }

static int64_t workspace_bytes(const NnTarget *facts, MlirOperation op) {
  const CodegenTarget *target = (const CodegenTarget *)facts;
  if (nn_op_of(op) != NN_OP_NONE) return target->library_workspace(target, op);
  return nn_has_attr(op, ATTR_kernel) && !nn_has_attr(op, ATTR_body) ? target->kernel_workspace(target, op) : 0;
}

static bool inplace_ok(const NnTarget *facts, MlirOperation kernel, int result, int arg) {
  (void)facts;
  return kernel_inplace_ok(kernel, result, arg);
}

void target_initialize(CodegenTarget *target, const char *name, const Machine *machine) {
  require_promise(target->emit_kernels && target->library_workspace && target->library_kernel &&
                      target->kernel_workspace && target->work && target->lower_text && target->lower_objects &&
                      target->write_definitions && target->write_cpu && target->write_device && target->destroy,
                  "a target without one of its functions");
  target->facts.name = name;
  target->facts.alignment = NNC_ALIGN;
  target->facts.channels_last = true;
  target->facts.workspace_bytes = workspace_bytes;
  target->facts.seconds = seconds;
  target->facts.inplace_ok = inplace_ok;
  codegen_target_set_machine(target, machine);
}

void target_objects_free(TargetObjects *objects) {
  for (int i = 0; i < objects->n; i++) free(objects->path[i]);
  objects->n = 0;
}

// ---------------------------------------------------------------------------------------------------------------------
// For the compiler

CodegenTarget *codegen_target_create(const CodegenTargetOptions *options) {
#define CODEGEN_TARGET(target, spelling, doc) \
  if (!strcmp(options->name, spelling)) return codegen_target_##target(options);
#include "codegen/targets.def"
#undef CODEGEN_TARGET
  fprintf(stderr, "nnc: error: there is no target '%s'\n", options->name);
  return NULL;
}

void codegen_target_destroy(CodegenTarget *target) {
  if (target) target->destroy(target);
}

const NnTarget *codegen_target_facts(const CodegenTarget *target) { return &target->facts; }

void codegen_target_set_machine(CodegenTarget *target, const Machine *machine) {
  NnFarRates usual = target->machine.far;   // of the target's kind, where the machine tells none
  target->machine = *machine;
  if (machine->far.out_bytes_per_second <= 0) target->machine.far = usual;
  target->facts.flops_per_second = machine->flops_per_second[NN_F32];
  target->facts.bytes_per_second = machine->bytes_per_second;
  target->facts.launch_seconds = machine->launch_seconds;
  target->facts.far = target->machine.far;
}

void codegen_target_set_costs(CodegenTarget *target, const CostTable *table) { target->costs = table; }

int codegen_target_match_costs(const CodegenTarget *target, CostTable *table, MlirModule module, int *n_steps) {
  NnFunctions functions = nn_public_functions(module);
  int matched = 0;
  bool trains = !mlirOperationIsNull(nn_module_train(module));
  *n_steps = 0;
  for (int f = 0; f < functions.n; f++) {
    if (trains && !nn_is_train(functions.items[f]) && !nn_is_accumulate(functions.items[f]))
      continue;   // what bench measures
    NnStepList list = nn_flatten(functions.items[f]);
    for (int i = 0; i < list.n; i++) {
      // of a loop no step is measured
      if (list.items[i].role != NN_STEP_RUN || nn_has_attr(list.items[i].op, ATTR_scan)) continue;
      MlirOperation kernel = kernel_of(list.items[i].op);
      CostWork work = target->work(target, list.items[i].op, kernel);
      ++*n_steps;
      matched += cost_table_match(table, list.items[i].op, kernel, work.class,
                                  machine_seconds(&target->machine, &work));
    }
    nn_steps_free(&list);
  }
  return matched;
}
