// From a planned module to an executable. codegen/kernel: what kernels of all targets share. codegen/host: kernels as
// MLIR text, LLVM, object code; the step tables as C; the link. codegen/cuda: the same kernels scheduled for a GPU,
// PTX.
#ifndef NNC_CODEGEN_CODEGEN_H
#define NNC_CODEGEN_CODEGEN_H

#include "codegen/cost_model.h"
#include "codegen/cost_table.h"
#include "passes/passes.h"

typedef struct CodegenOptions {
  const char *cpu;           // "native" or an LLVM CPU name
  const char *gpu_arch;      // "sm_90a" …: for a GPU; NULL: for the host
  bool emulate;              // gpu_arch: on the host, under the emulator
  const char *output;        // path of the executable, object or text
  const char *source_name;   // .nn file, for the tables
  int opt_level;             // 0..3
  bool verbose, time_phases;
  bool keep_temporaries;
} CodegenOptions;

const NnTarget *nn_target_host(const char *cpu);   // NULL and a message on stderr: unknown CPU
// a known one; tf32: products of f32 operands keep 11 bits of each
const NnTarget *nn_target_cuda(const char *gpu_arch, bool tf32);
bool nn_gpu_arch_has_tf32(const char *name);
bool nn_gpu_arch_known(const char *name);   // a name that --gpu-arch takes
const char *nn_gpu_arch_names(void);        // "sm_80, sm_89, …". Static
// After one of these: what its predicted times are made from. The table is Borrowed while passes run; NULL: none.
void nn_target_set_machine(const Machine *machine);
void nn_target_set_costs(const CostTable *table);
// Compares the steps of the training functions (of all, if there are none) with the table, so that those it does not
// have are predicted to scale with those it has. Returns how many steps have a time; *n_steps: of how many.
int nn_target_match_costs(CostTable *table, MlirModule module, int *n_steps);

typedef enum CodegenEmit {
  CODEGEN_KERNELS,
  CODEGEN_LLVM,
  CODEGEN_ASM,
  CODEGEN_PTX,
  CODEGEN_TABLES,
  CODEGEN_EXE
} CodegenEmit;
// Requires a module after `plan`. Text goes to `output` ("-": stdout); an executable is written beside it and renamed
// into place, so that a failure leaves no half-written file. Returns false after reporting.
bool codegen_emit(MlirModule module, CodegenEmit what, const CodegenOptions *options);

#endif
