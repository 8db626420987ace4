// Convolutions and matrix products on the GPU: what scratch they need.
#include "codegen/cuda/cuda.h"

int64_t cuda_library_workspace(MlirOperation op) {
  (void)op;
  return 0;
}
