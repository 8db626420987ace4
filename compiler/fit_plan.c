// See fit_plan.h.
#include "compiler/fit_plan.h"

#include "support/integers.h"

void fit_plan_estimate(MlirModule module, const NnTarget *target, FitPlan *plan) {
  PlanPersistent persistent;
  plan_persistent_build(&persistent, module, target);
  plan->stays = persistent.total;
  NnFunctions functions = nn_public_functions(module);
  for (int f = 0; f < functions.n; f++) {
    PlanProgram p;
    PlanLayout l;
    plan_program_build(&p, module, functions.items[f], target);
    plan_layout_build(&p, NULL, p.n_steps, PLAN_INPLACE_DECIDE, &l);
    plan->arena = larger(plan->arena, plan_persistent_end(&persistent, functions.items[f]) + plan_layout_peak(&p, &l));
    plan_layout_free(&l);
    plan_program_free(&p);
  }
  plan->live = plan->arena;
  plan_persistent_free(&persistent);
}

void fit_plan_read(MlirModule module, FitPlan *plan) {
  plan->arena = nn_attr_i64(mlirModuleGetOperation(module), ATTR_arena, 0);
  plan->stays = nn_attr_i64(mlirModuleGetOperation(module), ATTR_persistent, 0);
  NnFunctions functions = nn_public_functions(module);
  for (int f = 0; f < functions.n; f++) plan->live = larger(plan->live, nn_attr_i64(functions.items[f], ATTR_live, 0));
  plan->planned = true;
}
