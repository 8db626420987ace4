// Which persistent arguments may be at home far away: those of which all functions of the module can do with a copy.
#include "passes/remat/remat.h"

bool remat_can_be_far(const PlanProgram *p, int argument, int *result) {
  *result = -1;
  for (int i = 0; i < p->n_steps; i++)
    for (int j = 0; j < p->steps[i].n_inputs && p->steps[i].lane != NN_LANE_COMPUTE; j++)
      if (p->values[p->steps[i].inputs[j]].root == argument) return false;
  for (int r = 0; r < p->n_results; r++) {
    int value = p->result[r], root = p->values[value].root;
    if (root == argument && (value != argument || p->tied[r] != argument)) return false;
    if (p->tied[r] != argument || root == argument) continue;
    if (*result >= 0 || value != root || p->values[root].def < 0 || p->values[root].bytes != p->values[argument].bytes)
      return false;
    for (int other = 0; other < p->n_results; other++)
      if (other != r && p->values[p->result[other]].root == root) return false;
    *result = r;
  }
  return true;
}

bool nn_remat_check_far(MlirModule module, const NnTarget *target, int64_t budget) {
  if (budget == 0 || remat_has_far(target)) return true;
  nn_error_at(mlirLocationUnknownGet(mlirModuleGetContext(module)), "the target '%s' has no memory far away",
              target->name);
  return false;
}

void remat_far_build(RematFar *far, MlirModule module, const NnTarget *target, int64_t budget) {
  NnFunctions functions = nn_public_functions(module);
  int unused;
  *far = (RematFar){.budget = budget};
  for (int f = 0; f < functions.n && budget > 0; f++) {
    PlanProgram p;
    plan_program_build(&p, module, functions.items[f], target);
    for (int a = 0; a < p.n_args; a++) {
      if (!p.values[a].persistent || remat_can_be_far(&p, a, &unused)) continue;
      ptr_map_set(&far->near, plan_argument_key(functions.items[f], a), 1);
    }
    plan_program_free(&p);
  }
}

void remat_far_free(RematFar *far) { ptr_map_free(&far->near); }
