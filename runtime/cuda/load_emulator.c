// The emulator in place of the driver: in a file of its own, so that only executables for cuda-emu contain it.
#include <string.h>

#include "runtime/comm/comm.h"
#include "runtime/cuda/cuda.h"

bool nnc_cuda_load_emulator(CudaApi *api) {
  memset(api, 0, sizeof *api);
  nnc_emu_bind(api);
  if (ranks.size > 1) nnc_emu_bind_nccl(api);
  return true;
}
