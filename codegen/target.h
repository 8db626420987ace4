// A target as a value: what the passes ask of it, its prices, and how it makes code. targets.def has a row for each;
// host/ and cuda/ make them and never name each other, and nothing above or beside them names either.
#ifndef NNC_CODEGEN_TARGET_H
#define NNC_CODEGEN_TARGET_H

#include "codegen/codegen.h"
#include "codegen/kernel/emitted.h"
#include "support/text.h"

#define MAX_OBJECTS 8

// The files that a target has made of kernels, for the linker.
typedef struct TargetObjects {
  int n;
  char *path[MAX_OBJECTS];   // Owned: target_objects_free
} TargetObjects;
void target_objects_free(TargetObjects *objects);

struct CodegenTarget {
  NnTarget facts;   // what the passes ask; first, so that it is found from what they are given
  Machine machine;
  const CostTable *costs;   // Borrowed; NULL: none
  const char *flags;        // for the linker of an executable; NULL: none
  bool tf32;                // products of f32 operands may round them to tf32: they run at the machine's rate for that

  // All kernels of a planned module. Owned: emitted_kernels_free.
  void (*emit_kernels)(const CodegenTarget *target, MlirModule module, EmittedKernels *out);
  // Scratch of a library op, bytes; the name of the emitted kernel that it is (Owned), or NULL: a call of a library.
  int64_t (*library_workspace)(const CodegenTarget *target, MlirOperation op);
  char *(*library_kernel)(const CodegenTarget *target, MlirOperation op);
  // The name of the kernel that a collective's step launches to add up what came from other ranks (Owned), or NULL:
  // the runtime does that itself. May be NULL: of all.
  char *(*collective_kernel)(const CodegenTarget *target, MlirOperation op);
  int64_t (*kernel_workspace)(const CodegenTarget *target, MlirOperation kernel);
  // What a step takes, of a call with the kernel that is called.
  CostWork (*work)(const CodegenTarget *target, MlirOperation op, MlirOperation kernel);
  // LLVM IR, assembly or PTX, appended to out. False after reporting.
  bool (*lower_text)(const CodegenTarget *target, const EmittedKernels *kernels, CodegenEmit what,
                     const CodegenOptions *options, Text *out);
  // Object code in the folder, on a thread of its own. False after reporting.
  bool (*lower_objects)(const CodegenTarget *target, const EmittedKernels *kernels, const CodegenOptions *options,
                        const char *folder, TargetObjects *out);
  // tables_program.c: definitions that stand before nnc_program, and its fields from .cpu's value to .device.
  void (*write_definitions)(const CodegenTarget *target, Text *out);
  void (*write_cpu)(const CodegenTarget *target, Text *out);
  void (*write_device)(const CodegenTarget *target, MlirModule module, Text *out);
  void (*destroy)(CodegenTarget *target);   // frees it and what it owns
};

// One for each row of targets.def. NULL after reporting on stderr.
#define CODEGEN_TARGET(name, spelling, doc) CodegenTarget *codegen_target_##name(const CodegenTargetOptions *options);
#include "codegen/targets.def"
#undef CODEGEN_TARGET

// Requires all functions above. Fills what all targets have in common: facts that follow from the functions above,
// prices from the machine.
void target_initialize(CodegenTarget *target, const char *name, const Machine *machine);
double target_seconds(const CodegenTarget *target, MlirOperation op);   // predicted, of one step
// The same where it is known which kernel it calls, null: of a library op.
double target_kernel_seconds(const CodegenTarget *target, MlirOperation op, MlirOperation kernel);

#endif
