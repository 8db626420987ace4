// The nn dialect inside MLIR: its IRDL definition is generated from the table of ops and loaded when a context is
// created. IRDL checks counts and that attributes are of the right class; what it cannot say (relations between shapes,
// optional attributes) ir/verify.c adds.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/internal.h"
#include "mlir-c/Dialect/Func.h"
#include "mlir-c/Dialect/IRDL.h"
#include "mlir-c/Dialect/SCF.h"

static const char *attribute_constraint(const char *type) {
  if (!strcmp(type, "i64")) return "irdl.base \"#builtin.integer\"";
  if (!strcmp(type, "i64s")) return "irdl.base \"#builtin.dense_array\"";
  if (!strcmp(type, "f64")) return "irdl.base \"#builtin.float\"";
  if (!strcmp(type, "str")) return "irdl.base \"#builtin.string\"";
  if (!strcmp(type, "bool")) return "irdl.base \"#builtin.integer\"";
  nn_bug("attribute type '%s' in the table of ops", type);
}

// A value constraint of its own for each operand and result: one shared by two of them would force their types to be
// equal.
static void write_values(FILE *out, const char *what, int n) {
  if (n == 0) return;
  for (int i = 0; i < n; i++) fprintf(out, "    %%%s%d = irdl.base \"!builtin.tensor\"\n", what, i);
  fprintf(out, "    irdl.%s(", what);
  for (int i = 0; i < n; i++) fprintf(out, "%s%c%d: %%%s%d", i ? ", " : "", what[0], i, what, i);
  fprintf(out, ")\n");
}

static void write_attributes(FILE *out, const char *attrs) {
  NnAttrSpec spec;
  int n = 0;
  for (const char *cursor = attrs; nn_attr_spec_next(&cursor, &spec);)
    if (!spec.optional) fprintf(out, "    %%a%d = %s\n", n++, attribute_constraint(spec.type));
  if (n == 0) return;
  fprintf(out, "    irdl.attributes {");
  n = 0;
  for (const char *cursor = attrs; nn_attr_spec_next(&cursor, &spec);) {
    if (spec.optional) continue;
    fprintf(out, "%s\"%s\" = %%a%d", n ? ", " : "", spec.name, n);
    n++;
  }
  fprintf(out, "}\n");
}

static void write_operation(FILE *out, NnOp op, int n_operands) {
  const NnOpInfo *info = nn_op_info(op);
  char name[64];
  nn_op_mlir_name(op, n_operands, name, sizeof name);
  fprintf(out, "  irdl.operation @%s {\n", name + strlen("nn."));
  write_values(out, "operands", n_operands);
  write_values(out, "results", info->n_results);
  write_attributes(out, info->attrs);
  fprintf(out, "  }\n");
}

char *nn_irdl_text(void) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) nn_bug("out of memory");
  fprintf(out, "irdl.dialect @nn {\n");
  for (int i = 0; i < NN_OP_COUNT; i++) {
    const NnOpInfo *info = nn_op_info((NnOp)i);
    fprintf(out, "  // %s\n", info->doc);
    if (info->n_operands >= 0) write_operation(out, (NnOp)i, info->n_operands);
    else
      for (int n = 1; n <= NN_MAX_OPERANDS; n++) write_operation(out, (NnOp)i, n);
  }
  fprintf(out, "}\n");
  fclose(out);
  return text;
}

static void load_nn(MlirContext ctx) {
  char *text = nn_irdl_text();
  MlirModule irdl = mlirModuleCreateParse(ctx, nn_string_ref(text));
  if (mlirModuleIsNull(irdl) || mlirLogicalResultIsFailure(mlirLoadIRDLDialects(irdl)))
    nn_bug("the IRDL text of the nn dialect was refused");
  mlirModuleDestroy(irdl);
  free(text);
}

MlirContext nn_context_create(void) {
  // Printing IR between passes aborts with threads on, and the passes of this compiler work on the whole module anyway.
  MlirContext ctx = mlirContextCreateWithThreading(false);
  mlirDialectHandleLoadDialect(mlirGetDialectHandle__func__(), ctx);
  mlirDialectHandleLoadDialect(mlirGetDialectHandle__scf__(), ctx);
  mlirDialectHandleLoadDialect(mlirGetDialectHandle__irdl__(), ctx);
  load_nn(ctx);
  return ctx;
}
