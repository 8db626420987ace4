// Kernel text to LLVM IR for NVPTX and to PTX. MLIR does the same as for the host; what makes functions kernels
// (calling convention, launch bounds) is set here, and each entry of the PTX opens with the comment of its kernel.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/cuda.h"
#include "codegen/cuda/emulate/emulate.h"
#include "codegen/cuda/nvptx.h"
#include "codegen/cuda/template/template.h"
#include "codegen/cuda/template/template_depthwise.h"
#include "codegen/kernel/translate.h"
#include "codegen/tables.h"
#include "support/alloc.h"
#include "support/text.h"
#include "llvm-c/Core.h"
#include "llvm-c/Linker.h"
#include "llvm-c/Target.h"
#include "llvm-c/TargetMachine.h"
#include "llvm-c/Transforms/PassBuilder.h"

static void set_attribute(LLVMContextRef llvm, LLVMValueRef function, const char *name, const char *value) {
  LLVMAttributeRef a = LLVMCreateStringAttribute(llvm, name, (unsigned)strlen(name), value, (unsigned)strlen(value));
  LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

// How many of its launches are from a template: the first.
static int template_launches(const EmittedKernel *k) {
  const ConvShape *conv = template_conv_of(k);
  return conv ? conv_template_launches(conv) : k->template ? k->n_launches : 0;
}

// Templates are convolutions, depthwise ones included, and what is small, or attention.
static bool takes_part(const EmittedKernel *k, bool attention) {
  return template_launches(k) && (template_attention_of(k) != NULL) == attention;
}

static void build_template(LLVMModuleRef module, const CudaTemplate *t, int launch, const char *symbol) {
  TemplateLaunch ignored;
  switch (t->kind) {
  case TEMPLATE_CONV: conv_template_build(module, &t->conv, launch, symbol); break;
  case TEMPLATE_DEPTHWISE: depthwise_build(module, &t->depthwise, launch, symbol); break;
  case TEMPLATE_ATTENTION: attention_build(module, &t->attention, launch, symbol, &ignored); break;
  case TEMPLATE_COLLECTIVE: collective_build(module, &t->collective, symbol); break;
  case TEMPLATE_ROWS: rows_template_build(module, &t->rows, symbol); break;
  }
}

static void add_templates(LLVMModuleRef module, const EmittedKernels *kernels, bool attention) {
  for (int i = 0; i < kernels->n; i++) {
    const EmittedKernel *k = &kernels->items[i];
    for (int j = 0; takes_part(k, attention) && j < template_launches(k); j++) {
      const char *symbol = k->launches[j].symbol;   // many shapes share it
      if (!LLVMGetNamedFunction(module, symbol)) build_template(module, k->template, j, symbol);
    }
  }
}

static void make_kernels(LLVMModuleRef module, LLVMContextRef llvm, const EmittedKernels *kernels, bool templates,
                         bool attention) {
  for (int i = 0; i < kernels->n; i++)
    for (int j = 0; j < kernels->items[i].n_launches; j++) {
      if ((j < template_launches(&kernels->items[i])) != templates ||
          (templates && !takes_part(&kernels->items[i], attention)))
        continue;
      const KernelLaunch *l = &kernels->items[i].launches[j];
      LLVMValueRef function = LLVMGetNamedFunction(module, l->symbol);
      require_promise(function != NULL, "a launch of a function that was not written");
      char threads[64];
      snprintf(threads, sizeof threads, "%d,%d,%d", (int)l->block[0], (int)l->block[1], (int)l->block[2]);
      LLVMSetFunctionCallConv(function, nvptx_family.kernel_convention);
      set_attribute(llvm, function, nvptx_family.threads, threads);
      // Left to itself, ptxas would rather keep a few values in local memory than lose a fifth or sixth block of a
      // multiprocessor.
      if (!templates) set_attribute(llvm, function, nvptx_family.blocks, l->alone ? "1" : "2");
    }
}

// Arithmetic on vectors becomes arithmetic on their elements; loads and stores of 16 bytes stay.
#define SCALARS "function(scalarizer<no-load-store>),"
// Kernels that were written as text need little of LLVM, and ptxas does most of it again: the default pipeline takes
// five times as long for code of the same speed. So it does for convolutions, whose templates are unrolled as they are
// built: what they need besides is their variables in registers and their epilogues inlined (the same number of
// instructions, as many registers or fewer). Attention relies on it.
#define TEXT_PASSES SCALARS KERNEL_PASSES
#define CONV_PASSES \
  "always-inline,function(scalarizer<no-load-store>,sroa)," KERNEL_PASSES ",function(early-cse<memssa>),globaldce"
#define ATTENTION_PASSES SCALARS "default<O2>"

// ---------------------------------------------------------------------------------------------------------------------

static bool launches(const EmittedKernel *k, const char *symbol, size_t length) {
  for (int j = 0; j < k->n_launches; j++) {
    const char *s = k->launches[j].symbol;
    if (strlen(s) == length && !memcmp(s, symbol, length)) return true;
  }
  return false;
}

static void annotate(const char *ptx, const EmittedKernels *kernels, Text *out) {
  static const char entry[] = ".visible .entry ";
  while (*ptx) {
    const char *end = strchr(ptx, '\n'), *next = end ? end + 1 : ptx + strlen(ptx);
    if (!strncmp(ptx, entry, sizeof entry - 1)) {
      const char *symbol = ptx + sizeof entry - 1;
      // A template's kernel has the comments of all shapes that it serves.
      for (int i = 0; i < kernels->n; i++)
        if (launches(&kernels->items[i], symbol, strcspn(symbol, "( \n")))
          text_append(out, kernels->items[i].comment.data, kernels->items[i].comment.size);
    }
    text_append(out, ptx, (size_t)(next - ptx));
    ptx = next;
  }
}

static bool write_ptx(LLVMModuleRef module, LLVMTargetMachineRef machine, const EmittedKernels *kernels, Text *out) {
  Text ptx = {0};
  bool ok = kernels_append_code(module, machine, false, &ptx);
  if (ok) annotate(text_c_string(&ptx), kernels, out);
  text_free(&ptx);
  return ok;
}

// A module of what the templates call.
static LLVMModuleRef templates_begin(const EmittedKernels *kernels, LLVMContextRef llvm, bool attention) {
  Text text = {0};
  for (int i = 0; i < kernels->n && !attention; i++) functions_print(&kernels->items[i].called, &text);
  LLVMModuleRef module = text.size ? kernels_translate(text_c_string(&text), llvm, false)
                                   : LLVMModuleCreateWithNameInContext("templates", llvm);
  text_free(&text);
  return module;
}

// What kernels call is inlined and gone.
static void hide_called(LLVMModuleRef module) {
  for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
    if (!LLVMIsDeclaration(f) && LLVMGetFunctionCallConv(f) != nvptx_family.kernel_convention)
      LLVMSetLinkage(f, LLVMInternalLinkage);
}

bool cuda_optimise_templates(LLVMModuleRef module, LLVMTargetMachineRef machine, bool attention) {
  return kernels_optimise(module, machine, attention ? ATTENTION_PASSES : CONV_PASSES);
}

// Kernels from templates as optimised IR, linked into the module of the others.
static bool link_templates(LLVMModuleRef module, LLVMTargetMachineRef machine, const EmittedKernels *kernels,
                           const CudaArch *arch, LLVMContextRef llvm, bool attention) {
  bool any = false;
  for (int i = 0; i < kernels->n; i++) any |= takes_part(&kernels->items[i], attention);
  if (!any) return true;
  LLVMModuleRef templates = templates_begin(kernels, llvm, attention);
  if (!templates) return false;
  kernels_set_target(templates, machine);
  add_templates(templates, kernels, attention);
  if (arch->major < 8) template_expand_bf16(templates);
  make_kernels(templates, llvm, kernels, true, attention);
  hide_called(templates);
  // which disposes of the templates
  if (cuda_optimise_templates(templates, machine, attention)) return !LLVMLinkModules2(module, templates);
  LLVMDisposeModule(templates);
  return false;
}

// The kernels as optimised IR for NVPTX. NULL after reporting; *machine is Owned by the caller where the module is.
static LLVMModuleRef build_module(const EmittedKernels *kernels, const CudaArch *arch, bool time_phases,
                                  LLVMContextRef llvm, LLVMTargetMachineRef *machine) {
  Text text = {0};
  text_append(&text, kernels->declarations.data, kernels->declarations.size);
  for (int i = 0; i < kernels->n; i++) emitted_kernel_text(&kernels->items[i], &text);
  LLVMModuleRef module = kernels_translate(text_c_string(&text), llvm, time_phases);
  text_free(&text);
  *machine = module ? kernels_machine(nvptx_family.triple, arch->name, arch->ptx, LLVMCodeGenLevelDefault,
                                      LLVMRelocDefault)
                    : NULL;
  if (*machine) {
    PhaseTimer timer = phase_timer(time_phases);
    kernels_set_target(module, *machine);
    make_kernels(module, llvm, kernels, false, false);
    bool ok = kernels_optimise(module, *machine, TEXT_PASSES);
    phase_lap(&timer, "kernels: LLVM passes");
    ok = ok && link_templates(module, *machine, kernels, arch, llvm, false) &&
         link_templates(module, *machine, kernels, arch, llvm, true);
    phase_lap(&timer, "kernels: LLVM passes, templates");
    if (ok) return module;
    LLVMDisposeTargetMachine(*machine);
  }
  if (module) LLVMDisposeModule(module);
  return NULL;
}

LLVMModuleRef cuda_module(const EmittedKernels *kernels, const CudaArch *arch, LLVMContextRef llvm) {
  LLVMTargetMachineRef machine;
  LLVMModuleRef module = build_module(kernels, arch, false, llvm, &machine);
  if (module) LLVMDisposeTargetMachine(machine);
  return module;
}

bool cuda_lower(const EmittedKernels *kernels, const CudaArch *arch, CudaOutput what, bool time_phases, Text *out) {
  LLVMContextRef llvm = LLVMContextCreate();
  LLVMTargetMachineRef machine;
  LLVMModuleRef module = build_module(kernels, arch, time_phases, llvm, &machine);
  bool ok = module != NULL;
  if (ok) template_expand_assembly(module);
  if (ok && what == CUDA_LLVM) kernels_append_llvm(module, out);
  else if (ok) {
    PhaseTimer timer = phase_timer(time_phases);
    ok = write_ptx(module, machine, kernels, out);
    phase_lap(&timer, "kernels: code generation");
  }
  if (module) {
    LLVMDisposeTargetMachine(machine);
    LLVMDisposeModule(module);
  }
  LLVMContextDispose(llvm);
  return ok;
}

// ---------------------------------------------------------------------------------------------------------------------
// The emulator: the IR that would go to the NVPTX back end, for the machine that runs the compiler

// A program for the emulator is compiled more often than it takes steps, and most of a step goes into the emulator's
// checks: instructions are selected one by one, the IR made smaller first.
#define EMULATED_PASSES "function(early-cse,simplifycfg,instcombine<no-verify-fixpoint>,loop-mssa(licm),simplifycfg)"

static LLVMTargetMachineRef machine_for_host(void) {
  char *triple = LLVMGetDefaultTargetTriple(), *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
  translate_initialize_x86();
  LLVMTargetMachineRef machine = kernels_machine(triple, cpu, features, LLVMCodeGenLevelNone, LLVMRelocPIC);
  LLVMDisposeMessage(triple);
  LLVMDisposeMessage(cpu);
  LLVMDisposeMessage(features);
  return machine;
}

static bool write_emulated(LLVMModuleRef module, LLVMTargetMachineRef host, const char *path) {
  char *error = NULL;
  if (!cuda_emulate_module(module, host, EMULATED_TABLE_SYMBOL, &error)) {
    fprintf(stderr, "nnc: error: the emulator cannot run these kernels: %s\n", error);
    free(error);
    return false;
  }
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef failed = LLVMRunPasses(module, EMULATED_PASSES, host, options);
  LLVMDisposePassBuilderOptions(options);
  if (failed) error = LLVMGetErrorMessage(failed);
  bool ok = !failed && !LLVMTargetMachineEmitToFile(host, module, path, LLVMObjectFile, &error);
  if (!ok) fprintf(stderr, "nnc: compiling the kernels for the emulator: %s\n", error);
  if (failed) LLVMDisposeErrorMessage(error);
  else if (!ok) LLVMDisposeMessage(error);
  return ok;
}

bool cuda_lower_emulated(const EmittedKernels *kernels, const CudaArch *arch, const char *path, bool time_phases) {
  LLVMContextRef llvm = LLVMContextCreate();
  LLVMTargetMachineRef machine, host = machine_for_host();
  LLVMModuleRef module = host ? build_module(kernels, arch, time_phases, llvm, &machine) : NULL;
  bool ok = module && write_emulated(module, host, path);
  if (module) {
    LLVMDisposeTargetMachine(machine);
    LLVMDisposeModule(module);
  }
  if (host) LLVMDisposeTargetMachine(host);
  LLVMContextDispose(llvm);
  return ok;
}
