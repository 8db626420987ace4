// The host target: kernels as object code, library steps, tables of the program.
#ifndef NNC_CODEGEN_HOST_HOST_H
#define NNC_CODEGEN_HOST_HOST_H

#include "codegen/kernel/kernel.h"
#include "codegen/target.h"
#include "runtime/program.h"
#include "support/text.h"

// What the kernels must know of the processor.
typedef struct HostCpu {
  char *name, *features;   // Owned; LLVM's spelling
  int vector_bytes;        // 64 AVX-512, 32 AVX2, 16 SSE
} HostCpu;
// "native" or an LLVM CPU name. False: unknown; nothing is printed. host_cpu_free.
bool host_cpu_detect(const char *name, HostCpu *cpu);
void host_cpu_free(HostCpu *cpu);

KernelTarget kernel_target_host(const HostCpu *cpu);
// Kinds of kernels. Each appends its functions to the module and adds its launches to `out`.
void kernel_emit_map(KernelModule *m, const Kernel *k, EmittedKernel *out);
// False: nothing is read along another axis than is written, and nothing was done.
bool kernel_emit_transposed(KernelModule *m, const Kernel *k, const Nest *nest, EmittedKernel *out);
void kernel_emit_reduce(KernelModule *m, const Kernel *k, EmittedKernel *out);   // row and column
void kernel_emit_move(KernelModule *m, const Kernel *k, EmittedKernel *out);
void kernel_emit_pool(KernelModule *m, const Kernel *k, MlirOperation op, EmittedKernel *out);   // a move, too
void kernel_emit_argmax(KernelModule *m, const Kernel *k, MlirOperation op, EmittedKernel *out);
void kernel_add_launch(EmittedKernel *out, char *symbol, int64_t extent, double work_per_iteration);   // takes symbol
int64_t reduce_workspace_bytes(const Kernel *k, int lanes);
// Writes every private kernel of the module as MLIR text.
void host_kernels_emit(MlirModule module, const HostCpu *cpu, EmittedKernels *out);
int64_t host_kernel_workspace(MlirOperation func, const HostCpu *cpu);   // without emitting

typedef enum HostOutput { HOST_LLVM, HOST_ASM, HOST_OBJECT } HostOutput;
// Lowers MLIR text to LLVM IR, optimises it for the processor and appends LLVM IR, assembly or an object to out. May
// run in several threads after translate_initialize_x86. False and a message on stderr: a bug of ours.
bool host_lower(const char *mlir_text, const HostCpu *cpu, int opt_level, HostOutput what, bool time_phases, Text *out);
// Object files of all kernels in the folder, made on several threads. False after reporting.
bool host_lower_objects(const EmittedKernels *kernels, const HostCpu *cpu, const CodegenOptions *options,
                        const char *folder, TargetObjects *out);

int64_t host_library_scratch(MlirOperation op);   // bytes; cached

#endif
