// The CUDA target as the passes see it: costs, workspaces, which results may lie in an argument's buffer.
#include <stdlib.h>

#include "codegen/cuda/cuda.h"
#include "codegen/gpu/schedule.h"
#include "support/alloc.h"
#include "llvm-c/Target.h"

// An H100's rates where no machine is given (machines/h100.json; published peaks): only ratios matter to the passes.
static const Machine generic = {
    .flops_per_second = {[NN_F32] = 67e12, [NN_F64] = 34e12, [NN_F16] = 989e12, [NN_BF16] = 989e12},
    .tf32_flops_per_second = 495e12,
    .bytes_per_second = 3.35e12,
    .launch_seconds = 3e-6,
    .far = {50e9, 50e9, 1e-5, 0},
    .share = {[COST_matmul] = {0.8, 0.85, 128},
              [COST_conv] = {0.7, 0.85, 64},
              [COST_elementwise] = {0.4, 0.85, 0},
              [COST_reduction] = {0.3, 0.8, 0},
              [COST_move] = {0.2, 0.6, 0}},
};

// The products of so many rows take 15 times as long as reading and writing their weights' gradient in f32 (on an H200:
// 3 x 2 x 4096 flops for 8 bytes, at 206 flops a byte).
enum { LOSS_ROWS = 4096 };
enum { WIDE_BLOCKS = 132 };   // multiprocessors of an H100

static const CudaTarget *cuda_of(const CodegenTarget *target) { return (const CudaTarget *)target; }

static void emit_kernels(const CodegenTarget *target, MlirModule module, EmittedKernels *out) {
  cuda_kernels_emit(cuda_of(target), module, out);
  gpu_share_kernels(out, SHARE_MANY, SHARE_ALIKE);
}

static int64_t library_workspace(const CodegenTarget *target, MlirOperation op) {
  return cuda_library_workspace(cuda_of(target), op);
}

static char *library_kernel(const CodegenTarget *target, MlirOperation op) {
  return cuda_library_kernel(cuda_of(target), op);
}

static char *collective_kernel(const CodegenTarget *target, MlirOperation op) {
  (void)target;
  OpRecord r = op_record(op);
  return cuda_collective_kernel(&r);
}

static int64_t kernel_workspace(const CodegenTarget *target, MlirOperation kernel) {
  return cuda_kernel_workspace(cuda_of(target), kernel);
}

static CostWork work(const CodegenTarget *target, MlirOperation op, MlirOperation kernel) {
  return cuda_work(cuda_of(target), op, kernel);
}

static bool lower_text(const CodegenTarget *target, const EmittedKernels *kernels, CodegenEmit what,
                       const CodegenOptions *options, Text *out) {
  const CudaArch *arch = cuda_of(target)->arch;
  return what == CODEGEN_PTX ? cuda_lower_ptx(kernels, arch, options->time_phases, out)
                             : cuda_lower(kernels, arch, CUDA_LLVM, options->time_phases, out);
}

static void write_definitions(const CodegenTarget *target, Text *out) { cuda_images_define(cuda_of(target), out); }

static void write_cpu(const CodegenTarget *target, Text *out) { text_quoted(out, cuda_of(target)->arch->name); }

static void write_device(const CodegenTarget *target, MlirModule module, Text *out) {
  (void)target, (void)module;
  text_add(out, ",.isa=\"\",.device=&nnc_device_cuda,.cuda=&cuda,\n");
}

static void destroy(CodegenTarget *target) { free(target); }

static bool lower_objects(const CodegenTarget *target, const EmittedKernels *kernels, const CodegenOptions *options,
                          const char *folder, TargetObjects *out) {
  return cuda_images_build(cuda_of(target), kernels, options, folder, out);
}

static const CodegenTarget functions = {
    .emit_kernels = emit_kernels,
    .library_workspace = library_workspace,
    .library_kernel = library_kernel,
    .collective_kernel = collective_kernel,
    .kernel_workspace = kernel_workspace,
    .work = work,
    .lower_text = lower_text,
    .lower_objects = lower_objects,
    .write_definitions = write_definitions,
    .write_cpu = write_cpu,
    .write_device = write_device,
    .destroy = destroy,
};

static CodegenTarget *create(const CodegenTargetOptions *options, bool emulated) {
  CudaTarget *target = allocate_array(1, sizeof *target);
  *target = (CudaTarget){.base = functions,
                         .arch = cuda_arch(options->gpu_arch),
                         .emulated = emulated,
                         .wide_blocks = WIDE_BLOCKS};
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  NnTarget *facts = &target->base.facts;
  target->base.tf32 = options->tf32;
  facts->far_place = "host";
  facts->row_bytes = 16;
  facts->block_channels = cuda_has_tensor_cores(target) ? 16 : 0;
  facts->loss_rows = LOSS_ROWS;
  facts->groups_updates = facts->streams_results = true;
  facts->epilogue_ok = cuda_epilogue_ok;
  target_initialize(&target->base, options->name, &generic);
  return &target->base;
}

CodegenTarget *codegen_target_cuda(const CodegenTargetOptions *options) { return create(options, false); }

CodegenTarget *codegen_target_cuda_emu(const CodegenTargetOptions *options) { return create(options, true); }
