// Kernel text to LLVM IR, assembly or an object: parsed by MLIR, lowered to the LLVM dialect, translated, optimised for
// the processor. The kernels are vectorised already, so LLVM's own vectorisers stay off.
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/host/host.h"
#include "codegen/kernel/translate.h"
#include "codegen/output.h"
#include "codegen/parallel.h"
#include "llvm-c/Core.h"
#include "llvm-c/Target.h"
#include "llvm-c/TargetMachine.h"

#define TRIPLE "x86_64-unknown-linux-gnu"

bool host_lower(const char *mlir_text, const HostCpu *cpu, int opt_level, HostOutput what, bool time_phases,
                Text *out) {
  PhaseTimer timer = phase_timer(time_phases);
  LLVMContextRef llvm = LLVMContextCreate();
  LLVMModuleRef module = kernels_translate(mlir_text, llvm, time_phases);
  timer = phase_timer(time_phases);
  LLVMCodeGenOptLevel level = opt_level == 0   ? LLVMCodeGenLevelNone
                              : opt_level == 1 ? LLVMCodeGenLevelLess
                                               : LLVMCodeGenLevelDefault;
  LLVMTargetMachineRef machine = module ? kernels_machine(TRIPLE, cpu->name, cpu->features, level, LLVMRelocPIC) : NULL;
  bool ok = machine != NULL;
  if (ok) {
    kernels_set_target(module, machine);
    ok = kernels_optimise(module, machine,
                          opt_level >= 3   ? "default<O3>"
                          : opt_level >= 1 ? KERNEL_PASSES
                                           : "default<O0>");
    phase_lap(&timer, "kernels: LLVM passes");
    if (ok && what == HOST_LLVM) kernels_append_llvm(module, out);
    else ok = ok && kernels_append_code(module, machine, what == HOST_OBJECT, out);
    phase_lap(&timer, "kernels: code generation");
    LLVMDisposeTargetMachine(machine);
  }
  if (module) LLVMDisposeModule(module);
  LLVMContextDispose(llvm);
  return ok;
}

// ---------------------------------------------------------------------------------------------------------------------
// Object files, on several threads

typedef struct Part {
  Text text;      // Owned
  char *object;   // Borrowed
  const HostCpu *cpu;
  const CodegenOptions *options;
  bool time, ok;
} Part;

static void lower_part(void *p) {
  Part *part = p;
  Text object = {0};
  part->ok = host_lower(text_c_string(&part->text), part->cpu, part->options->opt_level, HOST_OBJECT, part->time,
                        &object);
  part->ok = part->ok && output_write_text(part->object, &object);
  text_free(&object);
}

bool host_lower_objects(const EmittedKernels *kernels, const HostCpu *cpu, const CodegenOptions *options,
                        const char *folder, TargetObjects *out) {
  static_assert(MAX_PARTS <= MAX_OBJECTS, "an object for each part");
  Part parts[MAX_PARTS];
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int n = cores < 1 ? 1 : cores > MAX_PARTS ? MAX_PARTS : (int)cores;
  if (n > (kernels->n + 3) / 4) n = (kernels->n + 3) / 4;
  if (n < 1) n = 1;
  for (int i = 0; i < n; i++) {
    out->path[out->n++] = text_format("%s/kernels_%d.o", folder, i);
    parts[i] = (Part){.object = out->path[i], .cpu = cpu, .options = options, .time = options->time_phases && i == 0};
    text_append(&parts[i].text, kernels->declarations.data, kernels->declarations.size);
  }
  // Kernels go to the part with the least text so far: their compile times follow their sizes.
  for (int k = 0; k < kernels->n; k++) {
    int least = 0;
    for (int i = 1; i < n; i++)
      if (parts[i].text.size < parts[least].text.size) least = i;
    emitted_kernel_text(&kernels->items[k], &parts[least].text);
  }
  translate_initialize_x86();
  codegen_parallel(n, lower_part, parts, sizeof *parts);
  bool ok = true;
  for (int i = 0; i < n; i++) {
    ok = ok && parts[i].ok;
    text_free(&parts[i].text);
  }
  return ok;
}
