// What a target has written for each private kernel function: its code, and how the step tables launch it.
#ifndef NNC_CODEGEN_KERNEL_EMITTED_H
#define NNC_CODEGEN_KERNEL_EMITTED_H

#include "codegen/kernel/operations.h"
#include "ir/ir.h"
#include "runtime/program.h"
#include "support/alloc.h"
#include "support/text.h"

// One C symbol per launch; the launches of a kernel run one after the other.
typedef struct KernelLaunch {
  char *symbol;                              // Owned
  int64_t extent, grain;                     // host: iterations of the outer loop; fewest worth a thread
  int64_t grid[3], block[3], shared_bytes;   // GPU; grid[0] 0: not set
  bool alone;                                // GPU: a multiprocessor has room for one block of it
  int n_numbers;
  int32_t *numbers;          // Owned; GPU: arguments after the buffers
  int n_buffers, *buffers;   // Owned; GPU: which of the kernel's buffers it gets, in order; NULL: all
} KernelLaunch;
typedef struct EmittedKernel {
  char *name, *summary;   // Owned; the private function's name, the ops in it
  int n_launches;
  KernelLaunch *launches;      // Owned
  int64_t workspace_bytes;     // the buffer after arguments and results, if > 0
  Text comment;                // lines of //, which its functions stand under
  KernelFunctions functions;   // one per launch, but for those from a template and those that are other kernels', too
  KernelFunctions called;      // what its template calls; another kernel's template may call them, too
  void *template;   // Owned, one allocation; what the target builds other functions from. NULL: there are none
} EmittedKernel;
typedef struct EmittedKernels {
  int n;
  EmittedKernel *items;          // Owned
  Text declarations;             // what the text of all of them opens with: aliases, functions that kernels call
  struct KernelGroups *groups;   // Owned; calls that are made one launch (codegen/kernel/groups.h). NULL: none
} EmittedKernels;

// All kernels as one module of MLIR text.
void emitted_kernels_text(const EmittedKernels *kernels, Text *out);
void emitted_kernel_text(const EmittedKernel *k, Text *out);   // one of them, without what its template calls
void emitted_kernels_free(EmittedKernels *kernels);
const EmittedKernel *emitted_kernel_find(const EmittedKernels *kernels, const char *name);   // NULL if absent

#endif
