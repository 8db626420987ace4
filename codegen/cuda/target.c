// The CUDA target as the passes see it: costs, workspaces, which results may lie in an argument's buffer.
#include <string.h>

#include "codegen/cuda/cuda.h"
#include "codegen/kernel/kernel.h"
#include "codegen/target.h"

// An H100's rates where no machine is given (machines/h100.json; published peaks): only ratios matter to the passes.
static const Machine generic = {
    .flops_per_second = {[NN_F32] = 67e12, [NN_F64] = 34e12, [NN_F16] = 989e12, [NN_BF16] = 989e12},
    .tf32_flops_per_second = 495e12,
    .bytes_per_second = 3.35e12,
    .launch_seconds = 3e-6,
    .share = {[COST_matmul] = {0.8, 0.85, 128},
              [COST_conv] = {0.7, 0.85, 64},
              [COST_elementwise] = {0.4, 0.85, 0},
              [COST_reduction] = {0.3, 0.8, 0},
              [COST_move] = {0.2, 0.6, 0}},
};

static int64_t workspace_bytes(MlirOperation op) {
  if (nn_op_of(op) != NN_OP_NONE) return cuda_library_workspace(op);
  if (!nn_is(op, "func.call")) return 0;
  MlirOperation func = target_callee(op);
  return mlirOperationIsNull(func) || !nn_has_attr(func, "nn.kernel") || nn_has_attr(func, "nn.body")
             ? 0
             : cuda_kernel_workspace(func);
}

static const CudaArch *target_arch;   // as the target itself: one per process
static bool target_tf32;

bool cuda_has_tensor_cores(void) { return !target_arch || target_arch->major >= 8; }

bool cuda_has_wgmma(void) { return target_arch && !strcmp(target_arch->name, "sm_90a"); }

bool cuda_uses_tf32(void) { return target_tf32; }

int64_t cuda_shared_bytes(int blocks) {
  const CudaArch *arch = target_arch ? target_arch : cuda_arch("sm_90");
  int taken = arch->multiprocessor_shared - arch->block_shared;
  return (arch->multiprocessor_shared / blocks - taken) * INT64_C(1024);
}

// A product of so many rows takes 30 times as long as reading and writing its weights' gradient in f32 (on an H200: 3 x
// 2 x 8192 flops for 8 bytes, at 206 flops a byte).
enum { LOSS_ROWS = 8192 };

const NnTarget *nn_target_cuda(const char *gpu_arch, bool tf32) {
  target_arch = cuda_arch(gpu_arch);
  target_tf32 = tf32;
  return target_set("cuda", &generic, cuda_work, workspace_bytes, kernel_inplace_ok, cuda_epilogue_ok, true, 16,
                    LOSS_ROWS);
}
