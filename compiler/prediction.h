// What is told of a program before it runs on several ranks (--emit=prediction).
#ifndef NNC_COMPILER_PREDICTION_H
#define NNC_COMPILER_PREDICTION_H

#include <stdio.h>

#include "codegen/codegen.h"

// Memory of a rank, time of a step and what of it the exchanges add, records and tokens a second, of a planned module.
void prediction_print(MlirModule module, const CodegenTarget *target, int64_t ranks, FILE *out);

#endif
