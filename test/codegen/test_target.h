// The target that a test of the code generator makes kernels for.
#ifndef NNC_TEST_CODEGEN_TEST_TARGET_H
#define NNC_TEST_CODEGEN_TEST_TARGET_H

#include "codegen/cuda/cuda.h"

static CodegenTarget *test_target_now;   // Owned; NULL: none chosen

// Kernels are made for this architecture from here on.
static inline void test_target_choose(const char *arch, bool tf32) {
  codegen_target_destroy(test_target_now);
  test_target_now = codegen_target_create(&(CodegenTargetOptions){.name = "cuda", .gpu_arch = arch, .tf32 = tf32});
}

// The one that was chosen last, else sm_90.
static inline const CudaTarget *test_target(void) {
  if (!test_target_now) test_target_choose("sm_90", false);
  return cuda_target(codegen_target_facts(test_target_now));
}

#endif
