// All private kernels of a module as one MLIR module text, and what the step tables must know of each.
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/group.h"
#include "codegen/kernel/kernel.h"

static void emit_one(KernelModule *m, const Kernel *k, HostKernel *out) {
  *out = (HostKernel){.name = host_strdup(k->name), .summary = kernel_summary(k)};
  switch (k->kind) {
    case KERNEL_MAP: kernel_emit_map(m, k, out); break;
    case KERNEL_ROW:
    case KERNEL_COLUMN: kernel_emit_reduce(m, k, out); break;
    case KERNEL_MOVE: kernel_emit_move(m, k, out); break;
  }
  out->text = m->text;
  m->text = (Text){0};
}

void host_kernels_emit(MlirModule module, const HostCpu *cpu, HostKernels *out) {
  KernelModule m = {.target = kernel_target_host(cpu)};
  *out = (HostKernels){0};
  text_add(&m.declarations, "!buffer = %s\n", m.target.pointer);
  MlirBlock body = mlirModuleGetBody(module);
  for (MlirOperation op = mlirBlockGetFirstOperation(body); !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    if (!nn_is(op, "func.func") || !nn_has_attr(op, "nn.kernel") || nn_has_attr(op, "nn.body")) continue;
    Kernel k;
    kernel_read(op, &k);
    out->items = host_grow(out->items, (size_t)out->n + 1, sizeof *out->items);
    emit_one(&m, &k, &out->items[out->n++]);
    kernel_free(&k);
  }
  out->declarations = m.declarations;
  for (int i = 0; i < m.n_externals; i++) free(m.externals[i]);
  free(m.externals);
}

void host_kernels_free(HostKernels *kernels) {
  for (int i = 0; i < kernels->n; i++) {
    HostKernel *k = &kernels->items[i];
    for (int j = 0; j < k->n_launches; j++) {
      free(k->launches[j].symbol);
      free(k->launches[j].numbers);
      free(k->launches[j].buffers);
    }
    free(k->launches);
    free(k->name);
    free(k->summary);
    free(k->conv);
    free(k->attention);
    free(k->depthwise);
    text_free(&k->text);
    text_free(&k->called);
  }
  free(kernels->items);
  text_free(&kernels->declarations);
  cuda_groups_free(kernels->groups);
  *kernels = (HostKernels){0};
}

const HostKernel *host_kernel_find(const HostKernels *kernels, const char *name) {
  for (int i = 0; i < kernels->n; i++)
    if (!strcmp(kernels->items[i].name, name)) return &kernels->items[i];
  return NULL;
}

int64_t host_kernel_workspace(MlirOperation func, const HostCpu *cpu) {
  Kernel k;
  KernelModule m = {.target = kernel_target_host(cpu)};
  kernel_read(func, &k);
  int64_t bytes = k.kind == KERNEL_COLUMN ? reduce_workspace_bytes(&k, kernel_lanes(&m, &k)) : 0;
  kernel_free(&k);
  return bytes;
}

typedef struct InplaceCheck {
  const Kernel *k;
  int arg;
  bool ok;
  Access wanted;
} InplaceCheck;

static void check_leaf(void *user, int arg, MlirValue value, const Access *a) {
  (void)value;
  InplaceCheck *c = user;
  if (arg == c->arg && memcmp(a, &c->wanted, sizeof *a) != 0) c->ok = false;
}

static bool depends_on(MlirValue v, int arg) {
  if (mlirValueIsABlockArgument(v)) return nn_value_index(v) == arg;
  MlirOperation op = nn_value_def(v);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (depends_on(mlirOperationGetOperand(op, i), arg)) return true;
  return false;
}

// A convolution reads its operands while others write.
static bool is_operand_of_library(const Kernel *k, int arg) {
  for (intptr_t i = 0; !mlirOperationIsNull(k->library) && i < mlirOperationGetNumOperands(k->library); i++)
    if (depends_on(mlirOperationGetOperand(k->library, i), arg)) return true;
  return false;
}

bool host_kernel_inplace_ok(MlirOperation func, int result, int arg) {
  Kernel k;
  kernel_read(func, &k);
  const NnType *r = &k.result_type[result], *a = &k.arg[arg];
  bool ok = nn_shape_equal(r, a) && nn_dtype_bytes(r->dtype) == nn_dtype_bytes(a->dtype);
  if (ok && k.kind == KERNEL_MOVE) {
    MlirOperation op = mlirBlockGetFirstOperation(nn_function_body(func));
    ok = nn_op_of(op) == NN_OP_scatter_add_to && nn_value_index(mlirOperationGetOperand(op, 2)) == arg && nn_value_index(mlirOperationGetOperand(op, 0)) != arg;
  } else if (ok && is_operand_of_library(&k, arg)) {
    ok = false;
  } else if (ok) {
    // Every access to the argument must be the result's own: same strides over the domain. Axes of size 1 have no stride to speak of.
    bool kept = kernel_is_kept_shaped(&k, r);
    IndexMap map = kept ? index_map_kept(&k) : index_map_domain(&k);
    Layout own = layout_row_major(r);
    InplaceCheck check = {.k = &k, .arg = arg, .ok = true, .wanted = access_compose(&own, &map)};
    kernel_walk_all_leaves(&k, check_leaf, &check);
    ok = check.ok;
  }
  kernel_free(&k);
  return ok;
}
