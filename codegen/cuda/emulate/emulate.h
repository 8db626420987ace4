// Kernels of the CUDA target as host code for the emulator (runtime/cuda/emulator): the same LLVM IR that goes to the
// NVPTX back end, rewritten.
#ifndef NNC_CODEGEN_CUDA_EMULATE_H
#define NNC_CODEGEN_CUDA_EMULATE_H

#include <stdbool.h>

#include "llvm-c/Core.h"
#include "llvm-c/TargetMachine.h"

// Rewrites a module of CUDA kernels in place. Afterwards it is an ordinary module for `host` (whose triple and data
// layout it has) that defines the NncEmuModule `table_symbol` and, beside that, only internal symbols; the caller
// optimises it and writes the object.
//
// Requires: kernels have the calling convention ptx_kernel; pointers to global memory are in address space 1 or 0,
// shared memory in 3; inline assembly stands only in functions named "nnc.asm.NAME", which become calls of the
// emulator's "asm.NAME", so that the module must not be inlined yet where there are such functions with a body.
// Everything else is inlined here: a kernel may not call recursive functions. Value names appear in the emulator's
// messages. False: an intrinsic or construct that the emulator lacks; *error (Owned by the caller: free) says which.
// The module is then of no use.
bool cuda_emulate_module(LLVMModuleRef module, LLVMTargetMachineRef host, const char *table_symbol, char **error);

#endif
