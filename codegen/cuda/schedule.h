// Private to codegen/cuda: which thread of a GPU computes which elements of a kernel.
#ifndef NNC_CODEGEN_CUDA_SCHEDULE_H
#define NNC_CODEGEN_CUDA_SCHEDULE_H

#include "codegen/cuda/cuda.h"
#include "codegen/host/kernel.h"

// math.c: KernelTarget.math
Value cuda_math(Emitter *e, const char *name, int n, const Value *x, NnDtype dtype);

#endif
