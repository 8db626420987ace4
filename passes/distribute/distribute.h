// Private to the passes `distribute` and `fetch`.
#ifndef NNC_PASSES_DISTRIBUTE_H
#define NNC_PASSES_DISTRIBUTE_H

#include "ir/ir.h"

// parameters.c: of each parameter, and its moving average, the functions get this rank's part; what reads the tensor
// reads an all_gather of it, at the function's begin.
void distribute_parameters(MlirModule module);

// The piece of a bucket, of type `to`, that begins at element *at, which becomes its end: a view.
MlirValue bucket_piece(NnBuilder *b, MlirValue bucket, NnType to, int64_t *at);

#endif
