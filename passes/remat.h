// Private to the pass `remat`: from a sequence of executions to the function that runs it.
#ifndef NNC_PASSES_REMAT_H
#define NNC_PASSES_REMAT_H

#include "passes/plan.h"

// Rewrites the function so that its steps run as `exec` says (n step numbers of p; each first occurrence is the op itself, the others
// are clones in regions). p describes the function before and is stale after. Checkpoint marks are erased: they have been heard.
void remat_rewrite(PlanProgram *p, const int *exec, int n);

#endif
