// Kernel text to LLVM IR: parsed by MLIR, lowered to the LLVM dialect, translated.
#include "codegen/kernel/translate.h"

#include <stdio.h>
#include <string.h>

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
#include "support/clock.h"
#include "llvm-c/Support.h"
#include "llvm-c/Target.h"
#include "llvm-c/Transforms/PassBuilder.h"

PhaseTimer phase_timer(bool wanted) { return (PhaseTimer){wanted, seconds_now()}; }

void phase_lap(PhaseTimer *timer, const char *what) {
  double t = seconds_now();
  if (timer->wanted) fprintf(stderr, "%9.1f ms  %s\n", 1e3 * (t - timer->last), what);
  timer->last = t;
}

void translate_initialize_x86(void) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  // Loop strength reduction takes a third of code generation and gains nothing: addresses are a base and one index
  // already.
  LLVMParseCommandLineOptions(2, (const char *const[]){"nnc", "-disable-lsr"}, NULL);
}

static MlirContext context_create(void) {
  MlirContext ctx = mlirContextCreateWithThreading(false);
  MlirDialectHandle handles[] = {mlirGetDialectHandle__func__(),  mlirGetDialectHandle__scf__(),
                                 mlirGetDialectHandle__arith__(), mlirGetDialectHandle__math__(),
                                 mlirGetDialectHandle__cf__(),    mlirGetDialectHandle__llvm__(),
                                 mlirGetDialectHandle__vector__()};
  for (size_t i = 0; i < sizeof handles / sizeof *handles; i++) {
    mlirDialectHandleRegisterDialect(handles[i], ctx);
    mlirDialectHandleLoadDialect(handles[i], ctx);
  }
  mlirRegisterAllLLVMTranslations(ctx);
  return ctx;
}

static bool lower_to_llvm_dialect(MlirContext ctx, MlirModule module) {
  MlirPassManager pm = mlirPassManagerCreate(ctx);
  mlirPassManagerEnableVerifier(pm, false);
  MlirPass passes[] = {mlirCreateConversionSCFToControlFlowPass(),
                       mlirCreateConversionConvertVectorToLLVMPass(),
                       mlirCreateConversionConvertMathToLLVMPass(),
                       mlirCreateConversionArithToLLVMConversionPass(),
                       mlirCreateConversionConvertControlFlowToLLVMPass(),
                       mlirCreateConversionConvertFuncToLLVMPass(),
                       mlirCreateConversionReconcileUnrealizedCastsPass()};
  for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) mlirPassManagerAddOwnedPass(pm, passes[i]);
  MlirLogicalResult result = mlirPassManagerRunOnOp(pm, mlirModuleGetOperation(module));
  mlirPassManagerDestroy(pm);
  return mlirLogicalResultIsSuccess(result);
}

LLVMModuleRef kernels_translate(const char *text, LLVMContextRef llvm, bool time_phases) {
  PhaseTimer started = phase_timer(time_phases), *timer = &started;
  MlirContext ctx = context_create();
  LLVMModuleRef out = NULL;
  MlirModule module = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text));
  phase_lap(timer, "kernels: parse");
  if (!mlirModuleIsNull(module)) {
    if (lower_to_llvm_dialect(ctx, module)) {
      phase_lap(timer, "kernels: to the LLVM dialect");
      out = mlirTranslateModuleToLLVMIR(mlirModuleGetOperation(module), llvm);
    }
    mlirModuleDestroy(module);
  }
  mlirContextDestroy(ctx);
  phase_lap(timer, "kernels: to LLVM IR");
  return out;
}

bool kernels_optimise(LLVMModuleRef module, LLVMTargetMachineRef machine, const char *passes) {
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMPassBuilderOptionsSetLoopVectorization(options, false);
  LLVMPassBuilderOptionsSetSLPVectorization(options, false);
  LLVMErrorRef error = LLVMRunPasses(module, passes, machine, options);
  LLVMDisposePassBuilderOptions(options);
  if (!error) return true;
  char *message = LLVMGetErrorMessage(error);
  fprintf(stderr, "nnc: optimising the kernels: %s\n", message);
  LLVMDisposeErrorMessage(message);
  return false;
}

LLVMTargetMachineRef kernels_machine(const char *triple, const char *cpu, const char *features,
                                     LLVMCodeGenOptLevel level, LLVMRelocMode relocation) {
  char *message = NULL;
  LLVMTargetRef target;
  if (LLVMGetTargetFromTriple(triple, &target, &message)) {
    fprintf(stderr, "nnc: LLVM has no back end for %s: %s\n", triple, message);
    LLVMDisposeMessage(message);
    return NULL;
  }
  return LLVMCreateTargetMachine(target, triple, cpu, features, level, relocation, LLVMCodeModelDefault);
}

void kernels_set_target(LLVMModuleRef module, LLVMTargetMachineRef machine) {
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
  char *triple = LLVMGetTargetMachineTriple(machine);
  LLVMSetTarget(module, triple);
  LLVMSetModuleDataLayout(module, layout);
  LLVMDisposeMessage(triple);
  LLVMDisposeTargetData(layout);
}

void kernels_append_llvm(LLVMModuleRef module, Text *out) {
  char *text = LLVMPrintModuleToString(module);
  text_append(out, text, strlen(text));
  LLVMDisposeMessage(text);
}

bool kernels_append_code(LLVMModuleRef module, LLVMTargetMachineRef machine, bool object, Text *out) {
  char *message = NULL;
  LLVMMemoryBufferRef buffer = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, object ? LLVMObjectFile : LLVMAssemblyFile, &message,
                                          &buffer)) {
    fprintf(stderr, "nnc: generating code for the kernels: %s\n", message);
    LLVMDisposeMessage(message);
    return false;
  }
  text_append(out, LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer));
  LLVMDisposeMemoryBuffer(buffer);
  return true;
}
