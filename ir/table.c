// The table of ops: the rows of ir/ops.def tied to their rules in ir/ops/. Autodiff, verification, costs, the dialect's
// IRDL text and the reference page all read this one table.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/internal.h"
#include "ir/ops/ops.h"

// A rule that is missing must be said to be missing here, else the program does not link.

// Without gradient: no tensor operand, a result that is an integer or a step function of the operands, one that is to
// have none, or an op that is made behind autodiff.
#define nn_vjp_constant NULL
#define nn_vjp_iota NULL
#define nn_vjp_random_uniform NULL
#define nn_vjp_sign NULL
#define nn_vjp_floor NULL
#define nn_vjp_not NULL
#define nn_vjp_and NULL
#define nn_vjp_or NULL
#define nn_vjp_compare NULL
#define nn_vjp_argmax NULL
#define nn_vjp_argsort NULL
#define nn_vjp_attention_grad NULL
#define nn_vjp_attention_grad_packed NULL
#define nn_vjp_stop_gradient NULL
#define nn_vjp_gradient NULL
#define nn_vjp_copy NULL
#define nn_vjp_optimization_barrier NULL
#define nn_vjp_all_reduce NULL
#define nn_vjp_reduce_scatter NULL
#define nn_vjp_all_gather NULL
#define nn_vjp_rank_part NULL
#define nn_vjp_rank_receive NULL
#define nn_vjp_rank_send NULL
#define nn_vjp_tap NULL
#define nn_vjp_checkpoint NULL

// Costs and expansions by kind: nn_op_flops knows what NULL means for each.
#define FLOPS_SOURCE(op) NULL
#define FLOPS_MAP(op) NULL
#define FLOPS_VIEW(op) NULL
#define FLOPS_REDUCE(op) nn_flops_##op
#define FLOPS_MOVE(op) nn_flops_##op
#define FLOPS_LIBRARY(op) nn_flops_##op
#define FLOPS_TRANSFER(op) NULL
#define FLOPS_COMPOSITE(op) nn_flops_##op
#define FLOPS_MARK(op) NULL
#define nn_flops_stop_gradient NULL
#define nn_flops_gradient NULL
#define nn_flops_pad NULL
#define nn_flops_concat NULL
#define nn_flops_gather NULL
#define nn_flops_maxpool2d_grad NULL

#define EXPAND_SOURCE(op) NULL
#define EXPAND_MAP(op) NULL
#define EXPAND_VIEW(op) NULL
#define EXPAND_REDUCE(op) NULL
#define EXPAND_MOVE(op) NULL
#define EXPAND_LIBRARY(op) NULL   // nn_expand knows the one that has an expansion
#define EXPAND_TRANSFER(op) NULL
#define EXPAND_COMPOSITE(op) nn_expand_##op
#define EXPAND_MARK(op) NULL
#define nn_expand_gradient NULL   // a pass of its own

static const NnOpInfo rows[NN_OP_COUNT] = {
#define NN_OP(op, op_kind, operands, op_results, attributes, class, cpu, gpu, text) \
  [NN_OP_##op] = {.name = #op,                                                      \
                  .kind = NN_KIND_##op_kind,                                        \
                  .n_operands = operands,                                           \
                  .n_results = op_results,                                          \
                  .attrs = attributes,                                              \
                  .cost_class = COST_##class,                                       \
                  .additions = {cpu, gpu},                                          \
                  .doc = text,                                                      \
                  .infer = nn_infer_##op,                                           \
                  .vjp = nn_vjp_##op,                                               \
                  .flops = FLOPS_##op_kind(op),                                     \
                  .expand = EXPAND_##op_kind(op)},
#include "ir/ops.def"
#undef NN_OP
};

static const unsigned char name_length[NN_OP_COUNT] = {
#define NN_OP(op, kind, operands, results, attrs, class, cpu, gpu, doc) [NN_OP_##op] = sizeof #op - 1,
#include "ir/ops.def"
#undef NN_OP
};

const NnOpInfo *nn_op_info(NnOp op) {
  if (op < 0 || op >= NN_OP_COUNT) nn_bug("row %d of the table of ops", (int)op);
  return &rows[op];
}

static NnOp find(const char *name, size_t length) {
  for (int i = 0; i < NN_OP_COUNT; i++)
    if (name_length[i] == length && memcmp(rows[i].name, name, length) == 0) return (NnOp)i;
  return NN_OP_NONE;
}

int nn_op_adds_to(NnOp op) {
  enum { NONE = -1 };
  switch (op) {
#define NN_LIBRARY_OP(name, record, operand, ...) \
  case NN_OP_##name:                              \
    return operand;
#include "ir/library.def"
#undef NN_LIBRARY_OP
  default: return NONE;
  }
}

NnOp nn_op_by_name(const char *name) { return find(name, strlen(name)); }

static NnOp op_named(MlirStringRef name) {
  if (name.length <= 3 || memcmp(name.data, "nn.", 3)) return NN_OP_NONE;
  NnOp found = find(name.data + 3, name.length - 3);
  if (found != NN_OP_NONE) return found;
  size_t length = name.length - 3;   // concat_3
  while (length > 0 && name.data[3 + length - 1] >= '0' && name.data[3 + length - 1] <= '9') length--;
  found = length > 1 ? find(name.data + 3, length - 1) : NN_OP_NONE;
  return found != NN_OP_NONE && rows[found].n_operands < 0 ? found : NN_OP_NONE;
}

// Passes ask for the kind of an op more often than for anything else: each name is looked up once, by the address of
// what MLIR has of it, which stays as long as the context. The row + 1; 0: none.
static PtrMap known_names;

void nn_ops_forget(void) { ptr_map_free(&known_names); }

NnOp nn_op_of(MlirOperation op) {
  if (mlirOperationIsNull(op)) return NN_OP_NONE;
  MlirIdentifier name = mlirOperationGetName(op);
  int row = ptr_map_get(&known_names, name.ptr);
  if (row < 0) ptr_map_set(&known_names, name.ptr, row = (int)op_named(mlirIdentifierStr(name)) + 1);
  return (NnOp)(row - 1);
}

void nn_op_mlir_name(NnOp op, int n_operands, char *buf, size_t size) {
  const NnOpInfo *info = nn_op_info(op);
  size_t length = name_length[op];
  if (size < sizeof "nn." + length) nn_bug("no room for the name of nn.%s", info->name);
  memcpy(buf, "nn.", 3);
  memcpy(buf + 3, info->name, length + 1);
  if (info->n_operands < 0 && n_operands != 2) snprintf(buf + 3 + length, size - 3 - length, "_%d", n_operands);
}

static const char *const kind_names[] = {[NN_ATTR_I64] = "i64",
                                         [NN_ATTR_I64S] = "i64s",
                                         [NN_ATTR_F64] = "f64",
                                         [NN_ATTR_BOOL] = "bool",
                                         [NN_ATTR_STR] = "str"};

// as in ops.def: "i64s"
static const char *nn_attr_kind_name(NnAttrKind kind) { return kind_names[kind]; }

// Steps *cursor through the text; false at its end.
static bool next_spec(const char **cursor, NnAttrSpec *out) {
  const char *s = *cursor + strspn(*cursor, " ");
  if (!*s) return false;
  size_t name = strcspn(s, ":"), type = strcspn(s + name + 1, " ?"), kind = 0,
         n_kinds = sizeof kind_names / sizeof *kind_names;
  while (kind < n_kinds && (strlen(kind_names[kind]) != type || strncmp(kind_names[kind], s + name + 1, type) != 0))
    kind++;
  if (name >= sizeof out->name || kind == n_kinds) nn_bug("attribute '%s' in the table of ops", s);
  memcpy(out->name, s, name);
  out->name[name] = 0;
  out->kind = (NnAttrKind)kind;
  s += name + 1 + type;
  out->optional = *s == '?';
  *cursor = s + out->optional;
  return true;
}

int nn_attr_specs(NnOp op, const NnAttrSpec **specs) {
  static struct {
    bool read;
    int n;
    NnAttrSpec items[NN_MAX_ATTRIBUTES];
  } known[NN_OP_COUNT];
  const char *cursor = nn_op_info(op)->attrs;
  NnAttrSpec spec;
  while (!known[op].read && next_spec(&cursor, &spec)) {
    if (known[op].n == NN_MAX_ATTRIBUTES) nn_bug("nn.%s has too many attributes", rows[op].name);
    known[op].items[known[op].n++] = spec;
  }
  known[op].read = true;
  *specs = known[op].items;
  return known[op].n;
}

// ---------------------------------------------------------------------------------------------------------------------
// The reference page

static const struct {
  NnOpKind kind;
  const char *title, *text;
} sections[] = {
    {NN_KIND_SOURCE, "Sources",
     "Read no tensor data; the result type says what to make. Always cloned into the kernels that use them."},
    {NN_KIND_MAP, "Maps",
     "One result element from the operand elements at the same index. Operands have equal shapes: broadcasting is "
     "explicit."},
    {NN_KIND_VIEW, "Views", "Another index map over the same data."},
    {NN_KIND_REDUCE, "Reductions", "The reduced axes are dropped."},
    {NN_KIND_MOVE, "Moves", "Loop nests of their own, never fused with others."},
    {NN_KIND_LIBRARY, "Library", "Done by the target's library."},
    {NN_KIND_TRANSFER, "Transfers", "Bytes from one place to another, as steps of any lane; never part of a kernel."},
    {NN_KIND_COMPOSITE, "Composites", "Expanded into the ops above by the pass `decompose`, after autodiff."},
    {NN_KIND_MARK, "Marks", "Mark a value; no results."},
};

// A bar would end the cell of the table.
static void write_cell(FILE *out, const char *text) {
  for (; *text; text++) {
    if (*text == '|') fputc('\\', out);
    fputc(*text, out);
  }
}

static void write_row(FILE *out, const NnOpInfo *op) {
  fprintf(out, "| `%s` | ", op->name);
  if (op->n_operands < 0) fprintf(out, "n (`%s_n` unless 2)", op->name);
  else fprintf(out, "%d", op->n_operands);
  fprintf(out, " | %d | ", op->n_results);
  const NnAttrSpec *specs;
  int n = nn_attr_specs((NnOp)(op - rows), &specs);
  for (int i = 0; i < n; i++)
    fprintf(out, "%s`%s`: %s%s", i ? ", " : "", specs[i].name, nn_attr_kind_name(specs[i].kind),
            specs[i].optional ? " (optional)" : "");
  fprintf(out, " | %s | ", op->vjp ? "yes" : "");
  write_cell(out, op->doc);
  fprintf(out, " |\n");
}

char *nn_op_table_markdown(void) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) nn_bug("out of memory");
  fprintf(out, "# The ops of the `nn` dialect\n\nGenerated from `ir/ops.def`. "
               "Attribute types: `i64` (`1 : i64`), `i64s` (`array<i64: 1, 2>`), `f64`, `bool`, `str`.\n"
               "Absent optional attributes mean `false`, a `dilation` and `groups` of 1, and the `layout` \"nchw\".\n"
               "The column *gradient* says which ops autodiff can go through.\n");
  for (size_t s = 0; s < sizeof sections / sizeof *sections; s++) {
    fprintf(out, "\n## %s\n%s\n\n", sections[s].title, sections[s].text);
    fprintf(out, "| op | operands | results | attributes | gradient | meaning |\n|---|---|---|---|---|---|\n");
    for (int i = 0; i < NN_OP_COUNT; i++)
      if (rows[i].kind == sections[s].kind) write_row(out, &rows[i]);
  }
  fclose(out);
  return text;
}
