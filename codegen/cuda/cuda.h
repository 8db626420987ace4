// The CUDA target: kernels as LLVM IR for NVPTX (or, under the emulator, for the host), matrix products through cuBLAS.
//
// A kernel is read and its expressions are evaluated by the same code as on the host (codegen/kernel/kernel.h); what
// differs is the schedule: which thread computes which elements, and how threads of a block add up.
#ifndef NNC_CODEGEN_CUDA_CUDA_H
#define NNC_CODEGEN_CUDA_CUDA_H

#include "codegen/cost_model.h"
#include "codegen/kernel/gpu.h"
#include "codegen/op_records.h"
#include "codegen/target.h"
#include "support/text.h"
#include "llvm-c/TargetMachine.h"

// arch.c: the architectures there is code for.
typedef struct CudaArch {
  const char *name;   // "sm_90a", as --gpu-arch and ptxas spell it
  const char *ptx;    // LLVM's feature for the PTX version, "+ptx80"
  int ptx_version;    // 80
  int major, minor;   // compute capability
  // KiB of shared memory that a block may ask for, and of all blocks; the difference is taken from each block
  int block_shared, multiprocessor_shared;
} CudaArch;
const CudaArch *cuda_arch(const char *name);   // NULL: unknown

// The target as a value (target.c), and what of it kernels depend on (arch.c); base.tf32 is --math=tf32.
typedef struct CudaTarget {
  CodegenTarget base;
  const CudaArch *arch;   // Borrowed, static
  bool emulated;
  int64_t wide_blocks;   // see cuda_wide_blocks; tests lower it
} CudaTarget;
const CudaTarget *cuda_target(const NnTarget *facts);   // that these are the facts of
bool cuda_has_tensor_cores(const CudaTarget *target);   // mma of tf32 and bf16, asynchronous copies: 8.0 and later
bool cuda_has_wgmma(const CudaTarget *target);          // sm_90a alone
// From so many blocks on products of warpgroups may have 256 columns: all multiprocessors of a large GPU. 0: there are
// no such products.
int64_t cuda_wide_blocks(const CudaTarget *target);
GpuShared cuda_shared(const CudaTarget *target);

int64_t conv_workspace_bytes(const CudaTarget *target, const NncConv *c);   // conv.c: of its kernels
// conv_endings.c: finished kernels that are one product with different epilogues become one kernel with a number to
// choose by. Once, before their code is built.
void cuda_join_endings(EmittedKernels *kernels);

// The tensor cores' template serves it: *shape says how. cuda_add_template adds its launches and comments.
struct ConvShape;
bool conv_uses_template(const CudaTarget *target, const NncConv *c, struct ConvShape *shape);
void cuda_add_template(const struct ConvShape *shape, EmittedKernel *out);
// epilogue.c: there is code for a kernel that begins with a convolution.
bool cuda_epilogue_ok(const NnTarget *target, MlirOperation func);

// cost.c: what a step takes, of a call with the kernel that is called; and what a convolution adds to it.
void cuda_price_conv(const CudaTarget *target, const NncConv *c, CostWork *work);
CostWork cuda_work(const CudaTarget *target, MlirOperation op, MlirOperation kernel);

// kernels.c: every private kernel of the module, convolutions and attention.
void cuda_kernels_emit(const CudaTarget *target, MlirModule module, EmittedKernels *out);
int64_t cuda_kernel_workspace(const CudaTarget *target, MlirOperation func);   // bytes, without emitting

// A library op that is a kernel made for its shape.
typedef struct CudaLibrary {
  char *(*name)(const CudaTarget *target, MlirOperation op, const OpRecord *r);   // says all that it depends on. Owned
  int64_t (*workspace)(const CudaTarget *target, MlirOperation op, const OpRecord *r);
  void (*emit)(const CudaTarget *target, MlirOperation op, const OpRecord *r, const char *name, EmittedKernel *out);
  void (*price)(const CudaTarget *target, MlirOperation op, const OpRecord *r, CostWork *work);
} CudaLibrary;
// In the file of its family, where the record's row says KERNEL.
#define CUDA_LIBRARY(KIND, name, Record, gpu) extern const CudaLibrary cuda_library_##name;
NNC_LIBRARY_RECORDS(CUDA_LIBRARY)
#undef CUDA_LIBRARY
// library.c: those that have kernels; NULL: a call of cuBLAS, or no library op.
const CudaLibrary *cuda_library(NncStepKind kind);
// Scratch of library ops, and the name of the kernel that is one (NULL: it is cuBLAS's; Owned: free).
char *cuda_library_kernel(const CudaTarget *target, MlirOperation op);
int64_t cuda_library_workspace(const CudaTarget *target, MlirOperation op);

// collective.c: the kernel that a collective adds up or rounds with (NULL: it does not; Owned: free).
char *cuda_collective_kernel(const OpRecord *r);
void cuda_emit_collective(const OpRecord *r, const char *name, EmittedKernel *out);

// lower.c: LLVM IR after optimisation, or PTX, appended to out. Requires that a target of this family has been made,
// which sets LLVM up. False after reporting: a bug of ours. May run in several threads.
typedef enum CudaOutput { CUDA_LLVM, CUDA_PTX } CudaOutput;
bool cuda_lower(const EmittedKernels *kernels, const CudaArch *arch, CudaOutput what, bool time_phases, Text *out);
// parts.c: PTX of many kernels, on several threads. With a folder the parts are assembled there, too: kernels_0.cubin
// and so on, *n_cubins of them, or 0 where ptxas is missing or refuses one.
bool cuda_lower_ptx(const EmittedKernels *kernels, const CudaArch *arch, bool time_phases, Text *out);
bool cuda_build_ptx(const EmittedKernels *kernels, const CudaArch *arch, const char *folder,
                    const CodegenOptions *options, Text *out, int *n_cubins);

// The module that PTX is made from. NULL after reporting. Owned by the caller.
LLVMModuleRef cuda_module(const EmittedKernels *kernels, const CudaArch *arch, LLVMContextRef llvm);
// Optimises a module of kernels from templates as the compiler does: for measurements and tests of templates by
// themselves. False after reporting.
bool cuda_optimise_templates(LLVMModuleRef module, LLVMTargetMachineRef machine, bool attention);
// The PTX's counterpart: the emulator's object at `path`.
bool cuda_lower_emulated(const EmittedKernels *kernels, const CudaArch *arch, const char *path, bool time_phases);

// images.c: the kernels as files in the folder: PTX and, with ptxas, cubins, which images.s includes; or an object for
// the emulator. And the lines of program.c that name them.
#define EMULATED_TABLE_SYMBOL "nnc_emulated_kernels"
bool cuda_images_build(const CudaTarget *target, const EmittedKernels *kernels, const CodegenOptions *options,
                       const char *folder, TargetObjects *out);
void cuda_images_define(const CudaTarget *target, Text *out);

// assemble.c: ptxas from PATH. False: there is none, or it does not know the architecture; says so if verbose.
bool cuda_assemble(const char *ptx_path, const char *cubin_path, const CudaArch *arch, bool verbose);

#endif
