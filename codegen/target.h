// Private to codegen/: what the targets share as the passes see them.
#ifndef NNC_CODEGEN_TARGET_H
#define NNC_CODEGEN_TARGET_H

#include "codegen/cost_model.h"
#include "passes/passes.h"

// The function that a func.call calls; null if the module has none of that name.
MlirOperation target_callee(MlirOperation call);
// Makes the one target of this process. The machine is copied. Static storage.
// work: what a step takes on this target, of a call with the kernel that is called.
const NnTarget *target_set(const char *name, const Machine *machine,
                           CostWork (*work)(MlirOperation op, MlirOperation kernel),
                           int64_t (*workspace_bytes)(MlirOperation op),
                           bool (*inplace_ok)(MlirOperation kernel, int result, int arg),
                           bool (*epilogue_ok)(MlirOperation kernel), bool groups_updates, int64_t row_bytes,
                           int64_t loss_rows);
double target_seconds(MlirOperation op);   // predicted, of one step

#endif
