// What the runtime's emulator finds in the object: for each kernel a function that takes its arguments as
// cuLaunchKernel does, and the NncEmuModule. ORDER EMULATE: the structs have the fields of
// runtime/cuda/emulator/emulator.h.
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "codegen/cuda/emulate/emulate_internal.h"
#include "codegen/kernel/emitted.h"
#include "support/alloc.h"
#include "support/text.h"

// void NAME.emu(ptr arguments): loads each argument and calls the kernel.
static void add_entry(Emulation *e, EmulatedKernel *k) {
  LLVMSetFunctionCallConv(k->function, LLVMCCallConv);
  LLVMSetLinkage(k->function, LLVMInternalLinkage);
  char *name = text_format("%s.emu", k->name);
  LLVMTypeRef type = LLVMFunctionType(e->nothing, &e->pointer, 1, false);
  k->entry = LLVMAddFunction(e->module, name, type);
  LLVMSetLinkage(k->entry, LLVMInternalLinkage);
  free(name);
  LLVMPositionBuilderAtEnd(e->builder, LLVMAppendBasicBlockInContext(e->llvm, k->entry, ""));
  unsigned n = LLVMCountParams(k->function);
  LLVMValueRef *arguments = allocate_array(n + 1, sizeof *arguments);
  unsigned byval = LLVMGetEnumAttributeKindForName("byval", 5);
  for (unsigned i = 0; i < n; i++) {
    if (LLVMGetEnumAttributeAtIndex(k->function, i + 1, byval))
      emulate_fail(e, "kernel '%s': parameter %u is passed by value in memory", k->name, i);
    LLVMValueRef place = emulate_element(e, e->pointer, LLVMGetParam(k->entry, 0), i);
    LLVMValueRef address = LLVMBuildLoad2(e->builder, e->pointer, place, "");
    arguments[i] = LLVMBuildLoad2(e->builder, LLVMTypeOf(LLVMGetParam(k->function, i)), address, "");
  }
  LLVMBuildCall2(e->builder, LLVMGlobalGetValueType(k->function), k->function, arguments, n, "");
  LLVMBuildRetVoid(e->builder);
  free(arguments);
}

// nvvm.maxntid or nvvm.reqntid: "x", "x,y" or "x,y,z".
static int64_t max_threads(LLVMValueRef function) {
  static const char *const names[] = {"nvvm.maxntid", "nvvm.reqntid"};
  int64_t least = 0;
  for (int i = 0; i < 2; i++) {
    LLVMAttributeRef a = LLVMGetStringAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                                                       names[i], (unsigned)strlen(names[i]));
    if (!a) continue;
    unsigned length = 0;
    const char *value = LLVMGetStringAttributeValue(a, &length);
    char *text = text_format("%.*s", (int)length, value), *at = text;
    int64_t product = 1;
    while (*at) {
      product *= strtoll(at, &at, 10);
      if (*at == ',') at++;
      else break;
    }
    free(text);
    if (!least || product < least) least = product;
  }
  return least;
}

static LLVMValueRef number(Emulation *e, int64_t x) { return LLVMConstInt(e->i64, (uint64_t)x, true); }

static LLVMValueRef constant_array(Emulation *e, LLVMTypeRef element, LLVMValueRef *values, int n) {
  if (!n) return LLVMConstNull(e->pointer);
  LLVMValueRef array = LLVMConstArray2(element, values, (uint64_t)n);
  LLVMValueRef global = LLVMAddGlobal(e->module, LLVMTypeOf(array), "");
  LLVMSetInitializer(global, array);
  LLVMSetGlobalConstant(global, true);
  LLVMSetLinkage(global, LLVMPrivateLinkage);
  return global;
}

static LLVMTypeRef structure(Emulation *e, const char *name, LLVMTypeRef *fields, unsigned n) {
  LLVMTypeRef t = LLVMStructCreateNamed(e->llvm, name);
  LLVMStructSetBody(t, fields, n, false);
  return t;
}

void emulate_table(Emulation *e, const char *symbol, int n, EmulatedKernel *kernels) {
  LLVMTypeRef p = e->pointer, l = e->i64;
  LLVMTypeRef variable = structure(e, "NncEmuVariable", (LLVMTypeRef[]){p, l, l}, 3);
  LLVMTypeRef kernel = structure(e, "NncEmuKernel", (LLVMTypeRef[]){p, p, p, l, l, l, l, l, l, p}, 10);
  LLVMTypeRef table = structure(e, "NncEmuModule", (LLVMTypeRef[]){LLVMArrayType2(e->i8, 8), l, p}, 3);
  LLVMValueRef *rows = allocate_array((size_t)n + 1, sizeof *rows);
  for (int i = 0; i < n; i++) {
    EmulatedKernel *k = &kernels[i];
    int64_t threads = max_threads(k->function);
    add_entry(e, k);
    LLVMValueRef *variables = allocate_array((size_t)k->n_variables + 1, sizeof *variables);
    for (int v = 0; v < k->n_variables; v++)
      variables[v] = LLVMConstNamedStruct(variable,
                                          (LLVMValueRef[]){emulate_string(e, k->variables[v].name),
                                                           number(e, k->variables[v].offset),
                                                           number(e, k->variables[v].bytes)},
                                          3);
    int n_parameters = (int)LLVMCountParams(k->function);
    LLVMValueRef *sizes = allocate_array((size_t)n_parameters + 1, sizeof *sizes);
    for (int j = 0; j < n_parameters; j++)
      sizes[j] = number(e, (int64_t)LLVMStoreSizeOfType(e->layout, LLVMTypeOf(LLVMGetParam(k->function, (unsigned)j))));
    LLVMValueRef fields[] = {emulate_string(e, k->name),
                             k->entry,
                             constant_array(e, variable, variables, k->n_variables),
                             number(e, k->n_variables),
                             number(e, k->static_bytes),
                             number(e, k->layout_bytes),
                             number(e, k->granule),
                             number(e, threads),
                             number(e, n_parameters),
                             constant_array(e, l, sizes, n_parameters)};
    rows[i] = LLVMConstNamedStruct(kernel, fields, 10);
    free(sizes);
    free(variables);
  }
  LLVMValueRef fields[] = {LLVMConstStringInContext2(e->llvm, NNC_EMU_MAGIC, 8, true), number(e, n),
                           constant_array(e, kernel, rows, n)};
  LLVMValueRef global = LLVMAddGlobal(e->module, table, symbol);
  LLVMSetInitializer(global, LLVMConstNamedStruct(table, fields, 3));
  LLVMSetGlobalConstant(global, true);
  free(rows);
}
