// All kernels of a module for the CUDA target.
#include <stdlib.h>

#include "codegen/cuda/conv.h"
#include "codegen/cuda/nvptx.h"
#include "passes/plan/plan.h"
#include "support/alloc.h"
#include "support/text.h"

static KernelTarget kernel_target(const CudaTarget *target) {
  KernelTarget t = schedule_target(&nvptx_family);
  t.math = gpu_math;
  t.approximates = true;
  t.round_bf16 = cuda_has_tensor_cores(target) ? gpu_round_bf16 : NULL;
  return t;
}

static void emit_one(CudaModule *cuda, const Kernel *k, EmittedKernel *out) {
  GpuModule *m = &cuda->gpu;
  *out = (EmittedKernel){.name = copy_string(k->name), .summary = kernel_summary(k)};
  if (!mlirOperationIsNull(k->library)) {
    conv_kernel_emit(cuda, k, out);
    return;
  }
  switch (k->kind) {
  case KERNEL_MAP:
    if (!schedule_transpose(m, k, out)) schedule_map(m, k, out);
    break;
  case KERNEL_ROW:
  case KERNEL_COLUMN: schedule_reduce(m, k, out); break;
  case KERNEL_MOVE: schedule_move(m, k, out); break;
  }
  kernel_take(&m->m, out);
}

// ---------------------------------------------------------------------------------------------------------------------

static EmittedKernel *add_item(EmittedKernels *out) { return ARRAY_ADD(out->items, out->n); }

static void emit_library_kernels(const CudaTarget *target, MlirBlock block, EmittedKernels *out) {
  NN_FOREACH_OP (op, block) {
    NnScan scan;
    if (nn_is(op, "scf.execute_region"))
      emit_library_kernels(target, mlirRegionGetFirstBlock(mlirOperationGetRegion(op, 0)), out);
    if (nn_scan_of(op, &scan)) emit_library_kernels(target, nn_function_body(scan.body), out);
    OpRecord r = op_record(op);
    char *exchanged = cuda_collective_kernel(&r);
    if (exchanged && !emitted_kernel_find(out, exchanged)) cuda_emit_collective(&r, exchanged, add_item(out));
    free(exchanged);
    const CudaLibrary *kernel = cuda_library(r.kind);
    if (!kernel) continue;
    char *name = kernel->name(target, op, &r);
    if (!emitted_kernel_find(out, name)) kernel->emit(target, op, &r, name, add_item(out));
    free(name);
  }
}

static void emit_groups(GpuModule *m, EmittedKernels *out) {
  for (int b = 0; b < out->groups->n_bodies; b++) {
    if (!out->groups->bodies[b].n_rows) continue;
    Kernel k;
    kernel_read(out->groups->bodies[b].kernel, &k);
    EmittedKernel *item = add_item(out);
    *item = (EmittedKernel){.name = copy_string(out->groups->bodies[b].name), .summary = kernel_summary(&k)};
    schedule_group(m, out->groups, b, &k, item);
    kernel_take(&m->m, item);
    kernel_free(&k);
  }
}

void cuda_kernels_emit(const CudaTarget *target, MlirModule module, EmittedKernels *out) {
  CudaModule m = {.target = target, .gpu = {.m = {.target = kernel_target(target)}, .shared = cuda_shared(target)}};
  *out = (EmittedKernels){.groups = gpu_groups_build(module)};
  text_add(&m.gpu.m.declarations, "!buffer = %s\n", m.gpu.m.target.pointer);
  GpuAlignment *alignment = gpu_alignment_build(module);
  MlirBlock body = mlirModuleGetBody(module);
  NN_FOREACH_OP (op, body) {
    if (!nn_is(op, "func.func") || !nn_has_attr(op, ATTR_kernel) || nn_has_attr(op, ATTR_body) ||
        ptr_map_get(&out->groups->only_grouped, op.ptr) > 0)
      continue;
    Kernel k;
    kernel_read(op, &k);
    bool *aligned = gpu_aligned_buffers(alignment, op, k.n_args + k.n_results + 1);   // the workspace is
    m.gpu.aligned = aligned;
    emit_one(&m, &k, add_item(out));
    free(aligned);
    kernel_free(&k);
  }
  gpu_alignment_free(alignment);
  emit_groups(&m.gpu, out);
  for (int i = 0; i < m.n_epilogues; i++) free(m.epilogues[i]);
  free(m.epilogues);
  out->declarations = m.gpu.m.declarations;
  NnFunctions functions = nn_public_functions(module);
  for (int i = 0; i < functions.n; i++) emit_library_kernels(target, nn_function_body(functions.items[i]), out);
  cuda_join_endings(out);
}

int64_t cuda_kernel_workspace(const CudaTarget *target, MlirOperation func) {
  Kernel k;
  kernel_read(func, &k);
  int64_t bytes = !mlirOperationIsNull(k.library) ? conv_kernel_workspace(target, &k)
                  : k.kind == KERNEL_COLUMN       ? schedule_reduce_workspace(&k)
                  : k.kind == KERNEL_MOVE         ? schedule_move_workspace(&k)
                                                  : 0;
  kernel_free(&k);
  return bytes;
}
