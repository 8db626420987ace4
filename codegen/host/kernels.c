// All private kernels of a module as one MLIR module text, and what the step tables must know of each.
#include <stdlib.h>

#include "codegen/host/host.h"
#include "codegen/kernel/kernel.h"
#include "support/alloc.h"
#include "support/text.h"

static void emit_one(KernelModule *m, const Kernel *k, EmittedKernel *out) {
  *out = (EmittedKernel){.name = copy_string(k->name), .summary = kernel_summary(k)};
  switch (k->kind) {
  case KERNEL_MAP: kernel_emit_map(m, k, out); break;
  case KERNEL_ROW:
  case KERNEL_COLUMN: kernel_emit_reduce(m, k, out); break;
  case KERNEL_MOVE: kernel_emit_move(m, k, out); break;
  }
  kernel_take(m, out);
}

void host_kernels_emit(MlirModule module, const HostCpu *cpu, EmittedKernels *out) {
  KernelModule m = {.target = kernel_target_host(cpu)};
  *out = (EmittedKernels){0};
  text_add(&m.declarations, "!buffer = %s\n", m.target.pointer);
  MlirBlock body = mlirModuleGetBody(module);
  NN_FOREACH_OP (op, body) {
    if (!nn_is(op, "func.func") || !nn_has_attr(op, ATTR_kernel) || nn_has_attr(op, ATTR_body)) continue;
    Kernel k;
    kernel_read(op, &k);
    emit_one(&m, &k, ARRAY_ADD(out->items, out->n));
    kernel_free(&k);
  }
  out->declarations = m.declarations;
  for (int i = 0; i < m.n_externals; i++) free(m.externals[i]);
  free(m.externals);
}

int64_t host_kernel_workspace(MlirOperation func, const HostCpu *cpu) {
  Kernel k;
  KernelModule m = {.target = kernel_target_host(cpu)};
  kernel_read(func, &k);
  int64_t bytes = k.kind == KERNEL_COLUMN ? reduce_workspace_bytes(&k, kernel_lanes(&m, &k)) : 0;
  kernel_free(&k);
  return bytes;
}
