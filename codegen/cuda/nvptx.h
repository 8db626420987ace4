// The GPUs that codegen/cuda makes code for, as a family (codegen/kernel/gpu.h).
#ifndef NNC_CODEGEN_CUDA_NVPTX_H
#define NNC_CODEGEN_CUDA_NVPTX_H

#include "codegen/kernel/gpu.h"

extern const GpuFamily nvptx_family;

#endif
