// From kernels as MLIR text to LLVM IR, for all targets.
#ifndef NNC_CODEGEN_KERNEL_TRANSLATE_H
#define NNC_CODEGEN_KERNEL_TRANSLATE_H

#include <stdbool.h>

#include "support/text.h"
#include "llvm-c/TargetMachine.h"

// What kernels that were written as text need of LLVM: the emitter has placed and vectorised everything already, so
// that the default pipeline finds little more to do in eight times the time (kernels of ResNet-50: 0.03 s against 0.25
// s for 43 of them, same speed).
#define KERNEL_PASSES                                                                                             \
  "function(early-cse,simplifycfg,instcombine<no-verify-fixpoint>,loop-mssa(loop-rotate,licm),early-cse<memssa>," \
  "instcombine<no-verify-fixpoint>,simplifycfg)"

// --time-passes: each lap prints the time since the last on stderr.
typedef struct PhaseTimer {
  bool wanted;
  double last;
} PhaseTimer;
PhaseTimer phase_timer(bool wanted);
void phase_lap(PhaseTimer *timer, const char *what);

// MLIR text as an LLVM module in `llvm`; NULL after MLIR has reported. Owned by the caller.
LLVMModuleRef kernels_translate(const char *mlir_text, LLVMContextRef llvm, bool time_phases);
// How code is made for a triple of LLVM's; NULL after reporting. Owned by the caller.
LLVMTargetMachineRef kernels_machine(const char *triple, const char *cpu, const char *features,
                                     LLVMCodeGenOptLevel level, LLVMRelocMode relocation);
void kernels_set_target(LLVMModuleRef module, LLVMTargetMachineRef machine);   // its triple and layout of data
// LLVM's passes, without its vectorisers: the emitter has done that. False after reporting.
bool kernels_optimise(LLVMModuleRef module, LLVMTargetMachineRef machine, const char *passes);
void kernels_append_llvm(LLVMModuleRef module, Text *out);   // as text
// Assembly or an object. False after reporting.
bool kernels_append_code(LLVMModuleRef module, LLVMTargetMachineRef machine, bool object, Text *out);
// Makes LLVM ready for code of x86-64, once in a process, before any of it is made.
void translate_initialize_x86(void);

#endif
