// ptxas, where there is one: PTX assembled at compile time starts without the driver's compiler. Nothing depends on it.
#include <stdio.h>
#include <stdlib.h>

#include "codegen/cuda/cuda.h"
#include "codegen/scratch.h"
#include "support/text.h"

static bool run(const char *const *argv, bool verbose) {
  pid_t pid;
  return scratch_start(argv, verbose ? NULL : "/dev/null", &pid) == 0 && scratch_wait(pid);
}

// On as many threads as there are cores, which ptxas before CUDA 12 cannot.
bool cuda_assemble(const char *ptx_path, const char *cubin_path, const CudaArch *arch, bool verbose) {
  char *name = text_format("-arch=%s", arch->name);
  const char *threads[] = {"ptxas", name, "--split-compile=0", "-o", cubin_path, ptx_path, NULL},
             *plain[] = {"ptxas", name, "-o", cubin_path, ptx_path, NULL};
  bool ok = run(threads, false) || run(plain, verbose);
  if (verbose)
    fprintf(stderr, "ptxas %s -o %s %s%s\n", name, cubin_path, ptx_path,
            ok ? "" : ": not used, the executable holds PTX only");
  free(name);
  return ok;
}
