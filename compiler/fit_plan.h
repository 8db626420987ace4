// What nnc fit reads from a module for its search.
#ifndef NNC_COMPILER_FIT_PLAN_H
#define NNC_COMPILER_FIT_PLAN_H

#include "compiler/fit.h"
#include "passes/plan/plan.h"

// Of a module with a final order but no plan: what is alive at once, in bytes, which is all but what offsets, and
// overwriting operands in the end, make of the arena.
void fit_plan_estimate(MlirModule module, const NnTarget *target, FitPlan *plan);

// Of a planned module: what `plan` has told, but for the time.
void fit_plan_read(MlirModule module, FitPlan *plan);

#endif
