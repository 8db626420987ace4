// Between the files that rewrite kernels for the emulator: emulate.c calls them in this order.
#ifndef NNC_CODEGEN_CUDA_EMULATE_INTERNAL_H
#define NNC_CODEGEN_CUDA_EMULATE_INTERNAL_H

#include "codegen/cuda/emulate/emulate.h"
#include "runtime/cuda/emulator/emulator.h"
#include "support/alloc.h"
#include "support/ptr_map.h"
#include "support/text.h"

enum { SPACE_GENERIC = 0, SPACE_GLOBAL = 1, SPACE_SHARED = 3, SPACE_CONSTANT = 4, SPACE_LOCAL = 5 };

typedef struct Emulation {
  LLVMModuleRef module;
  LLVMContextRef llvm;
  LLVMTargetDataRef layout;
  LLVMBuilderRef builder;
  LLVMTypeRef i8, i32, i64, pointer, nothing, site;   // site: NncEmuSite
  char *error;                                        // Owned; the first
  int64_t dynamic_align;                              // of the module's dynamic shared arrays, the largest; 1: none
  PtrMap lines;                                       // instruction → index in texts
  int n_texts;
  char **texts;   // Owned
} Emulation;

typedef struct SharedVariable {
  LLVMValueRef global;   // Borrowed; NULL: dynamic shared memory
  char *name;            // Owned
  int64_t offset, bytes;
} SharedVariable;
typedef struct EmulatedKernel {
  LLVMValueRef function, entry;
  char *name;                  // Owned
  SharedVariable *variables;   // Owned
  int n_variables;
  int64_t static_bytes, layout_bytes, granule;
} EmulatedKernel;

void emulate_fail(Emulation *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
LLVMValueRef emulate_helper(Emulation *e, const char *symbol, LLVMTypeRef result, int n, const LLVMTypeRef *parameters,
                            LLVMTypeRef *type);
void emulate_read_texts(Emulation *e);                               // of all instructions, for emulate_site
LLVMValueRef emulate_site(Emulation *e, LLVMValueRef instruction);   // a constant NncEmuSite
LLVMValueRef emulate_element(Emulation *e, LLVMTypeRef type, LLVMValueRef array, uint64_t index);   // its address
LLVMValueRef emulate_string(Emulation *e, const char *text);

void emulate_intrinsics(Emulation *e);     // emulate_intrinsics.c
void emulate_read_dynamic(Emulation *e);   // emulate_shared.c: dynamic_align, before a variable is replaced
// emulate_shared.c: variables become places in the block's shared memory
void emulate_shared(Emulation *e, EmulatedKernel *k);
void emulate_checks(Emulation *e, EmulatedKernel *k);   // emulate_checks.c: a check before each access
void emulate_table(Emulation *e, const char *symbol, int n, EmulatedKernel *kernels);   // emulate_table.c

#endif
