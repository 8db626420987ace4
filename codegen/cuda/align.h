// Buffers that wide accesses may rely on (align.c).
#ifndef NNC_CODEGEN_CUDA_ALIGN_H
#define NNC_CODEGEN_CUDA_ALIGN_H

#include "codegen/cuda/cuda.h"

typedef struct CudaAlignment CudaAlignment;
// Of all calls of the module, the bodies of scans included; the plan has been made. Owned: cuda_alignment_free.
CudaAlignment *cuda_alignment_build(MlirModule module);
// By buffer of the kernel (arguments, results, what follows them, `n` in all): every call has it at a multiple of 16
// bytes. Owned: free.
bool *cuda_aligned_buffers(const CudaAlignment *a, MlirOperation kernel, int n);
void cuda_alignment_free(CudaAlignment *a);

#endif
