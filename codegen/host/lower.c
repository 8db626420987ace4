// Kernel text to LLVM IR, assembly or an object: parsed by MLIR, lowered to the LLVM dialect, translated, optimised for
// the processor. The kernels are vectorised already, so LLVM's own vectorisers stay off.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codegen/host/host.h"
#include "codegen/kernel/translate.h"
#include "compiler/output.h"
#include "mlir-c/Conversion.h"
#include "mlir-c/Dialect/Arith.h"
#include "mlir-c/Dialect/ControlFlow.h"
#include "mlir-c/Dialect/Func.h"
#include "mlir-c/Dialect/LLVM.h"
#include "mlir-c/Dialect/Math.h"
#include "mlir-c/Dialect/SCF.h"
#include "mlir-c/Dialect/Vector.h"
#include "mlir-c/Pass.h"
#include "mlir-c/RegisterEverything.h"
#include "mlir-c/Target/LLVMIR.h"
#include "llvm-c/Core.h"
#include "llvm-c/Support.h"
#include "llvm-c/Target.h"
#include "llvm-c/TargetMachine.h"
#include "llvm-c/Transforms/PassBuilder.h"

#define TRIPLE "x86_64-unknown-linux-gnu"

static bool fail(const char *what, char *message) {
  fprintf(stderr, "nnc: %s%s%s\n", what, message ? ": " : "", message ? message : "");
  LLVMDisposeMessage(message);
  return false;
}

static bool optimise(LLVMModuleRef module, LLVMTargetMachineRef machine, int opt_level) {
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMPassBuilderOptionsSetLoopVectorization(options, false);
  LLVMPassBuilderOptionsSetSLPVectorization(options, false);
  const char *passes = opt_level >= 3 ? "default<O3>" : opt_level >= 1 ? KERNEL_PASSES : "default<O0>";
  LLVMErrorRef error = LLVMRunPasses(module, passes, machine, options);
  LLVMDisposePassBuilderOptions(options);
  if (!error) return true;
  char *message = LLVMGetErrorMessage(error);
  fprintf(stderr, "nnc: optimising the kernels: %s\n", message);
  LLVMDisposeErrorMessage(message);
  return false;
}

static bool write_file(const char *path, const char *data, size_t size) {
  if (output_write(path, data, size)) return true;
  fprintf(stderr, "nnc: error: cannot write '%s': %s\n", path, strerror(errno));
  return false;
}

static bool write_output(LLVMModuleRef module, LLVMTargetMachineRef machine, HostOutput what, const char *path) {
  if (what == HOST_LLVM) {
    char *text = LLVMPrintModuleToString(module);
    bool ok = write_file(path, text, strlen(text));
    LLVMDisposeMessage(text);
    return ok;
  }
  char *message = NULL;
  LLVMMemoryBufferRef buffer = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, what == HOST_ASM ? LLVMAssemblyFile : LLVMObjectFile,
                                          &message, &buffer))
    return fail("generating code for the kernels", message);
  bool ok = write_file(path, LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer));
  LLVMDisposeMemoryBuffer(buffer);
  return ok;
}

static LLVMTargetMachineRef machine_create(const HostCpu *cpu, int opt_level) {
  char *message = NULL;
  LLVMTargetRef target;
  if (LLVMGetTargetFromTriple(TRIPLE, &target, &message)) {
    fail("no x86-64 back end", message);
    return NULL;
  }
  LLVMCodeGenOptLevel level = opt_level == 0   ? LLVMCodeGenLevelNone
                              : opt_level == 1 ? LLVMCodeGenLevelLess
                                               : LLVMCodeGenLevelDefault;
  return LLVMCreateTargetMachine(target, TRIPLE, cpu->name, cpu->features, level, LLVMRelocPIC, LLVMCodeModelDefault);
}

bool host_lower(const char *mlir_text, const HostCpu *cpu, int opt_level, HostOutput what, const char *path,
                bool time_phases) {
  PhaseTimer timer = phase_timer(time_phases);
  LLVMContextRef llvm = LLVMContextCreate();
  LLVMModuleRef module = kernels_translate(mlir_text, llvm, time_phases);
  timer = phase_timer(time_phases);
  LLVMTargetMachineRef machine = module ? machine_create(cpu, opt_level) : NULL;
  bool ok = machine != NULL;
  if (ok) {
    LLVMSetTarget(module, TRIPLE);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetModuleDataLayout(module, layout);
    LLVMDisposeTargetData(layout);
    ok = optimise(module, machine, opt_level);
    phase_lap(&timer, "kernels: LLVM passes");
    ok = ok && write_output(module, machine, what, path);
    phase_lap(&timer, "kernels: code generation");
    LLVMDisposeTargetMachine(machine);
  }
  if (module) LLVMDisposeModule(module);
  LLVMContextDispose(llvm);
  return ok;
}
