// What is told of a program before it runs on several ranks (--emit=prediction).
#ifndef NNC_COMPILER_PREDICTION_H
#define NNC_COMPILER_PREDICTION_H

#include <stdio.h>

#include "codegen/codegen.h"

// Memory of a rank, time of a step and what of it the exchanges add, records and tokens a second, of a planned module.
// Of a step of all ranks: records, or tokens where a record has several.
double prediction_items(MlirModule module, int64_t ranks, bool *tokens);
double prediction_seconds(MlirModule module, const CodegenTarget *target, int64_t ranks);
void prediction_print(MlirModule module, const CodegenTarget *target, int64_t ranks, FILE *out);

#endif
