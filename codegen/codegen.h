// From a planned module to an executable. codegen/kernel: what kernels of all targets share. codegen/host: kernels as
// MLIR text, LLVM, object code; the step tables as C; the link. codegen/cuda: the same kernels scheduled for a GPU,
// PTX.
#ifndef NNC_CODEGEN_CODEGEN_H
#define NNC_CODEGEN_CODEGEN_H

#include "codegen/cost_model.h"
#include "codegen/cost_table.h"
#include "passes/passes.h"

typedef struct CodegenOptions {
  const char *output;        // path of the executable, library or text
  bool library;              // what is linked: else an executable; set by codegen_emit
  const char *source_name;   // .nn file, for the tables
  uint64_t source_id;        // tells it from other files of that name; 0: not known
  const char *far_path;      // of the file of the far arena, for the program; NULL: the folder where it runs
  unsigned readers;          // of codegen_readers that the program's data needs: a bit for each; set by codegen_emit
  const char *flags;         // for the linker of an executable, of the target; NULL: none; set by codegen_emit
  bool ranks;                // for several processes
  const char *mpi;           // linked with that MPI, of codegen_mpi; NULL: with none
  int opt_level;             // 0..3
  bool verbose, time_phases;
  bool keep_temporaries;
} CodegenOptions;

// What code is made for, and what the passes ask about it (codegen/target.h).
typedef struct CodegenTarget CodegenTarget;
typedef struct CodegenTargetOptions {
  const char *name;       // of a row of codegen/targets.def
  const char *cpu;        // host: "native" or an LLVM CPU name; NULL: native
  const char *gpu_arch;   // cuda, cuda-emu: a known one, "sm_90a"
  bool tf32;              // cuda, cuda-emu: products of f32 operands keep 11 bits of each
  bool saves_memory;      // memory is asked for: none is given for time alone
} CodegenTargetOptions;
// Owned: codegen_target_destroy. NULL and a message on stderr: unknown CPU.
CodegenTarget *codegen_target_create(const CodegenTargetOptions *options);
void codegen_target_destroy(CodegenTarget *target);                  // NULL allowed
const NnTarget *codegen_target_facts(const CodegenTarget *target);   // Borrowed
// What its predicted times are made from. The machine is copied; the table is Borrowed, NULL: none.
void codegen_target_set_machine(CodegenTarget *target, const Machine *machine);
void codegen_target_set_costs(CodegenTarget *target, const CostTable *table);
// Compares the steps of the training functions (of all, if there are none) with the table, so that those it does not
// have are predicted to scale with those it has. Returns how many steps have a time; *n_steps: of how many.
int codegen_target_match_costs(const CodegenTarget *target, CostTable *table, MlirModule module, int *n_steps);

// Readers of data that have libraries of their own: linked with programs that need them alone. NULL: no such one.
const char *codegen_reader(int i);
// The MPIs that executables can be linked with, "openmpi"; the first is the one that CMake prefers. NULL: no such one.
const char *codegen_mpi(int i);
// What the lanes of a step of several ranks are predicted to take: they run beside each other, but for their waits.
typedef struct StepTimes {
  double seconds;                 // of the step
  double computing, exchanging;   // of the steps of lane compute, and of comm
  double moving_out, moving_in;   // of those of out and in
  double bytes_sent;              // by each rank
} StepTimes;
bool codegen_knows_links(const CodegenTarget *target, int64_t ranks);   // the machine's description tells them
StepTimes codegen_step_times(const CodegenTarget *target, MlirOperation func, int64_t ranks);

bool nn_gpu_arch_has_tf32(const char *name);
bool nn_gpu_arch_known(const char *name);   // a name that --gpu-arch takes
const char *nn_gpu_arch_names(void);        // "sm_80, sm_89, …". Static

typedef enum CodegenEmit {
  CODEGEN_KERNELS,
  CODEGEN_LLVM,
  CODEGEN_ASM,
  CODEGEN_PTX,
  CODEGEN_TABLES,
  CODEGEN_EXE,
  CODEGEN_LIBRARY   // of codegen_is_static: an archive, else a shared one; and its header
} CodegenEmit;
// Requires a module after `plan`. Text goes to `output` ("-": stdout); an executable is written beside it and renamed
// into place, so that a failure leaves no half-written file. Returns false after reporting.
bool codegen_emit(const CodegenTarget *target, MlirModule module, CodegenEmit what, const CodegenOptions *options);

#endif
