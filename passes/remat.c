#include "passes/plan.h"
bool nn_pass_remat(MlirModule module, const NnPassRun *run) {
  (void)module, (void)run;
  return true;
}
