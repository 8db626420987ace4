// The host target: kernels as object code, library steps, tables of the program.
#ifndef NNC_CODEGEN_HOST_HOST_H
#define NNC_CODEGEN_HOST_HOST_H

#include "codegen/codegen.h"
#include "codegen/kernel/emitted.h"
#include "runtime/program.h"
#include "support/text.h"
#include "llvm-c/Types.h"

// What the kernels must know of the processor.
typedef struct HostCpu {
  char *name, *features;   // Owned; LLVM's spelling
  int vector_bytes;        // 64 AVX-512, 32 AVX2, 16 SSE
} HostCpu;
// "native" or an LLVM CPU name. False: unknown; nothing is printed. host_cpu_free.
bool host_cpu_detect(const char *name, HostCpu *cpu);
void host_cpu_free(HostCpu *cpu);

struct KernelTarget kernel_target_host(const HostCpu *cpu);   // codegen/kernel/kernel.h
// Writes every private kernel of the module as MLIR text.
void host_kernels_emit(MlirModule module, const HostCpu *cpu, EmittedKernels *out);
int64_t host_kernel_workspace(MlirOperation func, const HostCpu *cpu);   // without emitting

typedef enum HostOutput { HOST_LLVM, HOST_ASM, HOST_OBJECT } HostOutput;
// Lowers MLIR text to LLVM IR, optimises it for the processor and writes LLVM IR, assembly or an object to path ("-":
// stdout). May run in several threads after host_lower_initialize. False and a message on stderr: a bug of ours, or the
// path cannot be written.
void host_lower_initialize(void);
bool host_lower(const char *mlir_text, const HostCpu *cpu, int opt_level, HostOutput what, const char *path,
                bool time_phases);

// What kernels that were written as text need of LLVM: the emitter has placed and vectorised everything already, so
// that the default pipeline finds little more to do in eight times the time (kernels of ResNet-50: 0.03 s against 0.25
// s for 43 of them, same speed).
#define KERNEL_PASSES                                                                                             \
  "function(early-cse,simplifycfg,instcombine<no-verify-fixpoint>,loop-mssa(loop-rotate,licm),early-cse<memssa>," \
  "instcombine<no-verify-fixpoint>,simplifycfg)"

// --time-passes: each lap prints the time since the last on stderr.
typedef struct PhaseTimer {
  bool wanted;
  double last;
} PhaseTimer;
PhaseTimer phase_timer(bool wanted);
void phase_lap(PhaseTimer *timer, const char *what);

// MLIR text as an LLVM module in `llvm`; NULL after MLIR has reported. Owned by the caller.
LLVMModuleRef kernels_translate(const char *mlir_text, LLVMContextRef llvm, bool time_phases);

// Library ops as step records.
bool host_conv_record(MlirOperation op, NncConv *out);       // false: not a convolution
bool host_matmul_record(MlirOperation op, NncMatmul *out);   // false: not a matrix product
NncAttention host_attention_record(MlirOperation op);        // of attention and its gradients, without scratch
bool host_is_attention(MlirOperation op);
int64_t host_library_scratch(MlirOperation op);   // bytes; cached

// The code of a GPU's kernels, which program.c points to.
typedef struct CudaImages {
  const char *arch;
  int ptx_version;
  bool tf32;                       // cuBLAS may round operands in f32 to tf32
  const char *ptx_path, *folder;   // a file; a folder with kernels_0.cubin and so on
  int n_cubins;
  bool emulated;   // the kernels are host code behind the table CUDA_TABLE_SYMBOL
} CudaImages;
#define CUDA_TABLE_SYMBOL "nnc_emulated_kernels"
// images.s: the bytes of those files between the symbols that program.c names; a C array of a megabyte would take the
// compiler seconds.
void host_images_write(const CudaImages *cuda, Text *out);
// program.c: the step tables. Which files cuda names does not matter. cuda NULL: for the host; cpu NULL: not for the
// host. folder: where the long arrays of numbers go, for program.c to include; NULL: they are part of the text.
bool host_tables_write(MlirModule module, const EmittedKernels *kernels, const HostCpu *cpu,
                       const CodegenOptions *options, const CudaImages *cuda, const char *folder, Text *out);

// Links in two steps, so that the C compiler works on the tables while the kernels are lowered. begin: NULL after
// reporting. end: links the tables, the kernels' objects and the runtime and renames the result to options->output;
// unless `wanted`, it only cleans up. Always frees; leaves nothing of its own in the folder.
typedef struct HostLink HostLink;
HostLink *host_link_begin(const char *tables_path, const char *folder, const CodegenOptions *options);
bool host_link_end(HostLink *link, int n_objects, const char *const *objects, bool wanted);

#endif
