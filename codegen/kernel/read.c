// Reads a private kernel function into a Kernel: kind, domain, reduced axes, types.
#include <stdlib.h>
#include <string.h>

#include "codegen/kernel/kernel.h"
#include "support/alloc.h"
#include "support/text.h"

static char *symbol_name(MlirOperation func) {
  MlirAttribute a = nn_attribute(func, "sym_name");
  require_promise(!mlirAttributeIsNull(a), "a function without a name");
  MlirStringRef s = mlirStringAttrGetValue(a);
  return text_format("%.*s", (int)s.length, s.data);
}

static KernelKind kind_of(MlirOperation func) {
  char buf[16];
  const char *kind = nn_attr_str(func, ATTR_kind, buf, sizeof buf, "");
  if (!strcmp(kind, "map")) return KERNEL_MAP;
  if (!strcmp(kind, "row")) return KERNEL_ROW;
  if (!strcmp(kind, "column")) return KERNEL_COLUMN;
  require_promise(!strcmp(kind, "move"), "a kernel of unknown kind");
  return KERNEL_MOVE;
}

void kernel_read(MlirOperation func, Kernel *k) {
  *k = (Kernel){.func = func, .name = symbol_name(func), .kind = kind_of(func)};
  int64_t axes[NN_MAX_RANK];
  k->domain.rank = nn_attr_i64s(func, ATTR_domain, k->domain.dim, NN_MAX_RANK);
  require_promise(k->domain.rank >= 0, "a kernel without nn.domain");
  int n = nn_attr_i64s(func, ATTR_axes, axes, NN_MAX_RANK);
  for (int i = 0; i < n; i++) {
    require_promise(axes[i] >= 0 && axes[i] < k->domain.rank, "axes outside of the domain");
    k->reduced[axes[i]] = true;
  }
  MlirBlock body = nn_function_body(func);
  k->library = nn_null_operation();
  NN_FOREACH_OP (op, body) {
    NnOp kind = nn_op_of(op);
    if (mlirOperationIsNull(k->library) && kind != NN_OP_NONE && nn_op_info(kind)->kind == NN_KIND_LIBRARY)
      k->library = op;
  }
  k->n_args = (int)mlirBlockGetNumArguments(body);
  k->arg = allocate_array((size_t)k->n_args, sizeof *k->arg);
  for (int i = 0; i < k->n_args; i++) k->arg[i] = nn_value_type(mlirBlockGetArgument(body, i));
  MlirOperation ret = nn_function_return(func);
  k->n_results = (int)mlirOperationGetNumOperands(ret);
  k->result = allocate_array((size_t)k->n_results, sizeof *k->result);
  k->result_type = allocate_array((size_t)k->n_results, sizeof *k->result_type);
  for (int i = 0; i < k->n_results; i++) {
    k->result[i] = mlirOperationGetOperand(ret, i);
    k->result_type[i] = nn_value_type(k->result[i]);
  }
}

void kernel_free(Kernel *k) {
  free(k->name);
  free(k->arg);
  free(k->result);
  free(k->result_type);
  *k = (Kernel){0};
}

// Type with the reduced axes dropped.
static NnType kernel_kept_type(const Kernel *k, NnDtype dtype) {
  NnType t = {.dtype = dtype};
  for (int a = 0; a < k->domain.rank; a++)
    if (!k->reduced[a]) t.dim[t.rank++] = k->domain.dim[a];
  return t;
}

bool kernel_is_kept_shaped(const Kernel *k, const NnType *t) {
  NnType kept = kernel_kept_type(k, t->dtype);
  return nn_shape_equal(t, &kept) && !nn_shape_equal(t, &k->domain);
}

char *kernel_summary(const Kernel *k) {
  bool seen[NN_OP_COUNT] = {false};
  Text t = {0};
  MlirBlock body = nn_function_body(k->func);
  NN_FOREACH_OP (op, body) {
    NnOp kind = nn_op_of(op);
    if (kind == NN_OP_NONE || seen[kind] || kind == NN_OP_constant) continue;
    seen[kind] = true;
    text_add(&t, "%s%s", t.size ? " " : "", nn_op_info(kind)->name);
  }
  if (!t.size) text_add(&t, "constant");
  return t.data;
}

static void add_shape(Text *t, const NnType *type) {
  char buf[160];
  text_add(t, "%s", nn_type_format(type, buf, sizeof buf));
}

static bool add_again(Text *t, MlirOperation func, const char *attribute, const char *before, const char *after) {
  MlirAttribute a = nn_attribute(func, attribute);
  if (mlirAttributeIsNull(a)) return false;
  MlirStringRef s = mlirStringAttrGetValue(a);
  text_add(t, "%s%.*s%s", before, (int)s.length, s.data, after);
  return true;
}

// "// recomputes relu.12, mul.40 of the forward pass; random_uniform, as other kernels do"
void kernel_comment_again(Text *t, MlirOperation func) {
  text_add(t, "// recomputes ");
  bool inside = add_again(t, func, ATTR_inside, "", " of the forward pass"),
       copies = add_again(t, func, ATTR_repeated, inside ? "; " : "", ", as other kernels do");
  text_add(t, inside || copies ? "\n" : "nothing\n");
}

void kernel_take(KernelModule *m, EmittedKernel *out) {
  text_append(&out->comment, m->comment.data, m->comment.size);
  text_free(&m->comment);
  functions_move(&m->functions, &out->functions);
}

// The comment above a generated kernel: what it computes, on what shapes, over which space, and what of it was computed
// before.
void kernel_comment(KernelModule *m, const Kernel *k, const char *space) {
  static const char *const kinds[] = {"map", "row", "column", "move"};
  char *summary = kernel_summary(k);
  Text *t = &m->comment;
  text_add(t, "// %s (%s): %s\n// reads ", k->name, kinds[k->kind], summary);
  for (int i = 0; i < k->n_args; i++) {
    if (i) text_add(t, ", ");
    add_shape(t, &k->arg[i]);
  }
  text_add(t, "%s; writes ", k->n_args ? "" : "nothing");
  for (int i = 0; i < k->n_results; i++) {
    if (i) text_add(t, ", ");
    add_shape(t, &k->result_type[i]);
  }
  text_add(t, "\n// %s\n", space);
  kernel_comment_again(t, k->func);
  free(summary);
}
