// Which results of a kernel may be written over an argument.
#include <string.h>

#include "codegen/kernel/kernel.h"

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

bool kernel_inplace_ok(MlirOperation func, int result, int arg) {
  Kernel k;
  kernel_read(func, &k);
  const NnType *r = &k.result_type[result], *a = &k.arg[arg];
  bool ok = nn_shape_equal(r, a) && nn_dtype_bytes(r->dtype) == nn_dtype_bytes(a->dtype);
  if (ok && k.kind == KERNEL_MOVE) {
    MlirOperation op = mlirBlockGetFirstOperation(nn_function_body(func));
    ok = nn_op_of(op) == NN_OP_scatter_add_to && nn_value_index(mlirOperationGetOperand(op, 2)) == arg &&
         nn_value_index(mlirOperationGetOperand(op, 0)) != arg;
  } else if (ok && is_operand_of_library(&k, arg)) {
    ok = false;
  } else if (ok) {
    // Every access to the argument must be the result's own: same strides over the domain. Axes of size 1 have no
    // stride to speak of.
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
