// The architectures that kernels can be made for. The oldest PTX version that knows each is asked for, so that the
// oldest driver will do.
#include <string.h>

#include "codegen/cuda/cuda.h"

static const CudaArch archs[] = {
    {"sm_75", "+ptx70", 70, 7, 5, 64, 64},     {"sm_80", "+ptx70", 70, 8, 0, 163, 164},
    {"sm_86", "+ptx71", 71, 8, 6, 99, 100},    {"sm_89", "+ptx78", 78, 8, 9, 99, 100},
    {"sm_90", "+ptx80", 80, 9, 0, 227, 228},   {"sm_90a", "+ptx80", 80, 9, 0, 227, 228},
    {"sm_100", "+ptx86", 86, 10, 0, 227, 228}, {"sm_120", "+ptx87", 87, 12, 0, 99, 100},
};

const CudaArch *cuda_arch(const char *name) {
  for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
    if (!strcmp(archs[i].name, name)) return &archs[i];
  return NULL;
}

const CudaTarget *cuda_target(const NnTarget *facts) { return (const CudaTarget *)facts; }

bool cuda_has_tensor_cores(const CudaTarget *target) { return target->arch->major >= 8; }

bool cuda_has_wgmma(const CudaTarget *target) { return !strcmp(target->arch->name, "sm_90a"); }

int64_t cuda_wide_blocks(const CudaTarget *target) { return cuda_has_wgmma(target) ? target->wide_blocks : 0; }

GpuShared cuda_shared(const CudaTarget *target) {
  int all = target->arch->multiprocessor_shared, taken = all - target->arch->block_shared;
  return (GpuShared){(all - taken) * INT64_C(1024), (all / 2 - taken) * INT64_C(1024)};
}

bool nn_gpu_arch_known(const char *name) { return cuda_arch(name) != NULL; }

bool nn_gpu_arch_has_tf32(const char *name) { return cuda_arch(name)->major >= 8; }

const char *nn_gpu_arch_names(void) { return "sm_75, sm_80, sm_86, sm_89, sm_90, sm_90a, sm_100, sm_120"; }
