// Rewrites a module of CUDA kernels for the emulator. What the device does in one instruction becomes a call, shared
// variables become places in memory that the emulator owns, and before each access stands a check. The kernel's own
// arithmetic stays as it is.
#include "codegen/cuda/emulate/emulate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "codegen/cuda/emulate/emulate_internal.h"
#include "codegen/cuda/nvptx.h"
#include "codegen/kernel/emitted.h"
#include "support/alloc.h"
#include "support/text.h"
#include "llvm-c/Analysis.h"
#include "llvm-c/Transforms/PassBuilder.h"

void emulate_fail(Emulation *e, const char *format, ...) {
  if (e->error) return;
  va_list arguments;
  va_start(arguments, format);
  if (vasprintf(&e->error, format, arguments) < 0) abort();
  va_end(arguments);
}

static bool emulate_is_kernel(LLVMValueRef function) {
  return LLVMGetFunctionCallConv(function) == nvptx_family.kernel_convention && LLVMCountBasicBlocks(function) > 0;
}

LLVMValueRef emulate_helper(Emulation *e, const char *symbol, LLVMTypeRef result, int n, const LLVMTypeRef *parameters,
                            LLVMTypeRef *type) {
  *type = LLVMFunctionType(result, (LLVMTypeRef *)(uintptr_t)parameters, (unsigned)n, false);
  LLVMValueRef f = LLVMGetNamedFunction(e->module, symbol);
  return f ? f : LLVMAddFunction(e->module, symbol, *type);
}

LLVMValueRef emulate_element(Emulation *e, LLVMTypeRef type, LLVMValueRef array, uint64_t index) {
  LLVMValueRef i = LLVMConstInt(e->i64, index, false);
  return LLVMBuildGEP2(e->builder, type, array, &i, 1, "");
}

LLVMValueRef emulate_string(Emulation *e, const char *text) {
  LLVMValueRef value = LLVMConstStringInContext2(e->llvm, text, strlen(text), false);
  LLVMValueRef global = LLVMAddGlobal(e->module, LLVMTypeOf(value), "");
  LLVMSetInitializer(global, value);
  LLVMSetGlobalConstant(global, true);
  LLVMSetLinkage(global, LLVMPrivateLinkage);
  LLVMSetUnnamedAddress(global, LLVMGlobalUnnamedAddr);
  return global;
}

// Of the instructions of a function, whose text begins at line; the line behind the last.
static char *read_texts(Emulation *e, LLVMValueRef function, char *line) {
  for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(function); b; b = LLVMGetNextBasicBlock(b))
    for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
      // An instruction is a line indented by two; deeper ones continue it.
      while (*line && (strncmp(line, "  ", 2) != 0 || line[2] == ' ' || line[2] == ']'))
        line += strcspn(line, "\n") + 1;
      size_t length = strcspn(line, "\n");
      if (!length) return line;
      ptr_map_set(&e->lines, i, e->n_texts);
      if ((e->n_texts & (e->n_texts - 1)) == 0)
        e->texts = reallocate_array(e->texts, 2 * (size_t)e->n_texts + 1, sizeof *e->texts);
      e->texts[e->n_texts++] = text_format("%.*s", (int)length - 2, line + 2);
      line += length + 1;
    }
  return line;
}

// Printed at once: LLVM numbers the whole module each time it prints a function or an instruction.
void emulate_read_texts(Emulation *e) {
  char *printed = LLVMPrintModuleToString(e->module), *line = printed;
  for (LLVMValueRef f = LLVMGetFirstFunction(e->module); f; f = LLVMGetNextFunction(f)) line = read_texts(e, f, line);
  LLVMDisposeMessage(printed);
}

LLVMValueRef emulate_site(Emulation *e, LLVMValueRef instruction) {
  int index = ptr_map_get(&e->lines, instruction);
  const char *text = index < 0 ? "?" : e->texts[index];
  unsigned length = 0, line = LLVMGetDebugLocLine(instruction);
  const char *file = line ? LLVMGetDebugLocFilename(instruction, &length) : NULL;
  char *file_text = file ? text_format("%.*s", (int)length, file) : NULL;
  LLVMValueRef fields[] = {emulate_string(e, text),
                           file_text ? emulate_string(e, file_text) : LLVMConstNull(e->pointer),
                           LLVMConstInt(e->i64, line, false)};
  free(file_text);
  LLVMValueRef global = LLVMAddGlobal(e->module, e->site, "");
  LLVMSetInitializer(global, LLVMConstNamedStruct(e->site, fields, 3));
  LLVMSetGlobalConstant(global, true);
  LLVMSetLinkage(global, LLVMPrivateLinkage);
  return global;
}

// ---------------------------------------------------------------------------------------------------------------------

static void remove_attribute(LLVMValueRef function, const char *name) {
  LLVMRemoveStringAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, name,
                                   (unsigned)strlen(name));
}

static LLVMAttributeRef enum_attribute(Emulation *e, const char *name) {
  return LLVMCreateEnumAttribute(e->llvm, LLVMGetEnumAttributeKindForName(name, strlen(name)), 0);
}

// The device's triple and features go; functions that are not kernels are inlined into them, where their shared
// variables have a place.
static void prepare(Emulation *e, LLVMTargetMachineRef host) {
  char *triple = LLVMGetTargetMachineTriple(host);
  LLVMSetTarget(e->module, triple);
  LLVMDisposeMessage(triple);
  LLVMSetModuleDataLayout(e->module, e->layout);
  for (LLVMValueRef f = LLVMGetFirstFunction(e->module); f; f = LLVMGetNextFunction(f)) {
    remove_attribute(f, "target-cpu");
    remove_attribute(f, "target-features");
    if (!LLVMCountBasicBlocks(f) || emulate_is_kernel(f)) continue;
    static const char *const against[] = {"noinline", "optnone"};
    for (size_t i = 0; i < sizeof against / sizeof *against; i++)
      LLVMRemoveEnumAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                                     LLVMGetEnumAttributeKindForName(against[i], strlen(against[i])));
    LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, enum_attribute(e, "alwaysinline"));
    LLVMSetLinkage(f, LLVMInternalLinkage);
  }
}

// Accesses to variables in registers go, what the kernel's author wrote as loads and stores stays.
static void run_passes(Emulation *e) {
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef error = LLVMRunPasses(e->module, "always-inline,globaldce,function(scalarize-masked-mem-intrin,sroa)",
                                     NULL, options);
  LLVMDisposePassBuilderOptions(options);
  if (!error) return;
  char *message = LLVMGetErrorMessage(error);
  emulate_fail(e, "%s", message);
  LLVMDisposeErrorMessage(message);
}

static void check_leftovers(Emulation *e) {
  for (LLVMValueRef f = LLVMGetFirstFunction(e->module); f; f = LLVMGetNextFunction(f)) {
    if (LLVMCountBasicBlocks(f) && !emulate_is_kernel(f))
      emulate_fail(e, "function '%s' cannot be inlined into the kernels that call it", LLVMGetValueName(f));
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
      for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
        if (LLVMIsACallInst(i) && LLVMIsAInlineAsm(LLVMGetCalledValue(i)))
          emulate_fail(e, "inline assembly outside of a function 'nnc.asm.…' in '%s'", LLVMGetValueName(f));
  }
}

static EmulatedKernel *find_kernels(Emulation *e, int *n) {
  EmulatedKernel *kernels = NULL;
  *n = 0;
  for (LLVMValueRef f = LLVMGetFirstFunction(e->module); f; f = LLVMGetNextFunction(f)) {
    if (!emulate_is_kernel(f)) continue;
    *ARRAY_ADD(kernels, *n) = (EmulatedKernel){.function = f, .name = copy_string(LLVMGetValueName(f)), .granule = 4};
  }
  return kernels;
}

bool cuda_emulate_module(LLVMModuleRef module, LLVMTargetMachineRef host, const char *table_symbol, char **error) {
  LLVMContextRef llvm = LLVMGetModuleContext(module);
  Emulation e = {.module = module,
                 .llvm = llvm,
                 .layout = LLVMCreateTargetDataLayout(host),
                 .builder = LLVMCreateBuilderInContext(llvm),
                 .i8 = LLVMInt8TypeInContext(llvm),
                 .i32 = LLVMInt32TypeInContext(llvm),
                 .i64 = LLVMInt64TypeInContext(llvm),
                 .pointer = LLVMPointerTypeInContext(llvm, 0),
                 .nothing = LLVMVoidTypeInContext(llvm)};
  e.site = LLVMStructCreateNamed(llvm, "NncEmuSite");
  LLVMStructSetBody(e.site, (LLVMTypeRef[]){e.pointer, e.pointer, e.i64}, 3, false);
  int n = 0;
  EmulatedKernel *kernels = NULL;
  emulate_intrinsics(&e);
  if (!e.error) prepare(&e, host);
  if (!e.error) run_passes(&e);
  if (!e.error) check_leftovers(&e);
  if (!e.error) kernels = find_kernels(&e, &n);
  emulate_read_dynamic(&e);
  emulate_read_texts(&e);
  for (int i = 0; i < n && !e.error; i++) {
    emulate_shared(&e, &kernels[i]);
    emulate_checks(&e, &kernels[i]);
  }
  if (!e.error) emulate_table(&e, table_symbol, n, kernels);
  if (!e.error) {
    char *message = NULL;
    if (LLVMVerifyModule(module, LLVMReturnStatusAction, &message))
      emulate_fail(&e, "the rewritten module is invalid: %s", message);
    LLVMDisposeMessage(message);
  }
  for (int i = 0; i < n; i++) {
    for (int v = 0; v < kernels[i].n_variables; v++) free(kernels[i].variables[v].name);
    free(kernels[i].variables);
    free(kernels[i].name);
  }
  free(kernels);
  for (int i = 0; i < e.n_texts; i++) free(e.texts[i]);
  free(e.texts);
  ptr_map_free(&e.lines);
  LLVMDisposeBuilder(e.builder);
  LLVMDisposeTargetData(e.layout);
  *error = e.error;
  return !e.error;
}
