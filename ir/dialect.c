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

// The module that is being made. It is built, not parsed: a context is created by every compilation, and its text has
// 2,800 lines.
typedef struct Irdl {
  MlirContext ctx;
  MlirLocation loc;
  MlirType constraint;   // of the value that a constraint is
  MlirAttribute single;
} Irdl;

static MlirOperation make(const Irdl *d, MlirBlock block, const char *name, intptr_t n_operands,
                          const MlirValue *operands, intptr_t n_attrs, const MlirNamedAttribute *attrs) {
  MlirOperationState state = mlirOperationStateGet(nn_string_ref(name), d->loc);
  mlirOperationStateAddOperands(&state, n_operands, operands);
  mlirOperationStateAddAttributes(&state, n_attrs, attrs);
  if (!strcmp(name, "irdl.base")) mlirOperationStateAddResults(&state, 1, &d->constraint);
  MlirOperation made = mlirOperationCreate(&state);
  mlirBlockAppendOwnedOperation(block, made);
  return made;
}

static MlirNamedAttribute string_named(const Irdl *d, const char *name, const char *value) {
  return nn_attr_to_named(d->ctx, &NN_STR(name, value));
}

// An op with a symbol and a body, which is returned.
static MlirBlock make_scope(const Irdl *d, MlirBlock block, const char *name, const char *symbol) {
  MlirOperationState state = mlirOperationStateGet(nn_string_ref(name), d->loc);
  MlirRegion region = mlirRegionCreate();
  MlirBlock body = mlirBlockCreate(0, NULL, NULL);
  mlirRegionAppendOwnedBlock(region, body);
  mlirOperationStateAddOwnedRegions(&state, 1, &region);
  mlirOperationStateAddAttributes(&state, 1, (MlirNamedAttribute[]){string_named(d, "sym_name", symbol)});
  mlirBlockAppendOwnedOperation(block, mlirOperationCreate(&state));
  return body;
}

static MlirValue make_base(const Irdl *d, MlirBlock block, const char *base) {
  return mlirOperationGetResult(make(d, block, "irdl.base", 0, NULL, 1,
                                     (MlirNamedAttribute[]){string_named(d, "base_name", base)}),
                                0);
}

static MlirNamedAttribute named_array(const Irdl *d, const char *name, intptr_t n, const MlirAttribute *items) {
  return nn_named(d->ctx, name, mlirArrayAttrGet(d->ctx, n, items));
}

static const char *attribute_base(NnAttrKind kind) {
  switch (kind) {
  case NN_ATTR_I64:
  case NN_ATTR_BOOL: return "#builtin.integer";
  case NN_ATTR_I64S: return "#builtin.dense_array";
  case NN_ATTR_F64: return "#builtin.float";
  case NN_ATTR_STR: return "#builtin.string";
  }
  nn_bug("attribute of unknown kind %d", (int)kind);
}

// A value constraint of its own for each operand and result: one shared by two of them would force their types to be
// equal.
static void make_values(const Irdl *d, MlirBlock block, const char *what, int n) {
  if (n == 0) return;
  MlirValue base[NN_MAX_OPERANDS];
  MlirAttribute names[NN_MAX_OPERANDS], single[NN_MAX_OPERANDS];
  for (int i = 0; i < n; i++) {
    char name[16];
    snprintf(name, sizeof name, "%c%d", what[strlen("irdl.")], i);
    base[i] = make_base(d, block, "!builtin.tensor");
    names[i] = mlirStringAttrGet(d->ctx, nn_string_ref(name));
    single[i] = d->single;
  }
  MlirNamedAttribute attrs[] = {named_array(d, "names", n, names),
                                nn_named(d->ctx, "variadicity", mlirIRDLVariadicityArrayAttrGet(d->ctx, n, single))};
  make(d, block, what, n, base, 2, attrs);
}

static void make_attributes(const Irdl *d, MlirBlock block, NnOp op) {
  MlirValue base[NN_MAX_ATTRIBUTES];
  MlirAttribute names[NN_MAX_ATTRIBUTES];
  const NnAttrSpec *specs;
  int n_specs = nn_attr_specs(op, &specs), n = 0;
  for (int i = 0; i < n_specs; i++) {
    if (specs[i].optional) continue;
    base[n] = make_base(d, block, attribute_base(specs[i].kind));
    names[n++] = mlirStringAttrGet(d->ctx, nn_string_ref(specs[i].name));
  }
  MlirNamedAttribute values = named_array(d, "attributeValueNames", n, names);
  if (n) make(d, block, "irdl.attributes", n, base, 1, &values);
}

static void make_operation(const Irdl *d, MlirBlock dialect, NnOp op, int n_operands) {
  const NnOpInfo *info = nn_op_info(op);
  char name[64];
  nn_op_mlir_name(op, n_operands, name, sizeof name);
  MlirBlock block = make_scope(d, dialect, "irdl.operation", name + strlen("nn."));
  make_values(d, block, "irdl.operands", n_operands);
  make_values(d, block, "irdl.results", info->n_results);
  make_attributes(d, block, op);
}

// Owned: mlirModuleDestroy
static MlirModule make_module(MlirContext ctx, bool ranks) {
  MlirLocation loc = mlirLocationUnknownGet(ctx);
  MlirModule module = mlirModuleCreateEmpty(loc);
  Irdl d = {ctx, loc, mlirTypeParseGet(ctx, nn_string_ref("!irdl.attribute")),
            mlirIRDLVariadicityAttrGet(ctx, nn_string_ref("single"))};
  MlirBlock dialect = make_scope(&d, mlirModuleGetBody(module), "irdl.dialect", "nn");
  for (int i = 0; i < NN_OP_COUNT; i++) {
    const NnOpInfo *info = nn_op_info((NnOp)i);
    if (info->n_operands >= 0) make_operation(&d, dialect, (NnOp)i, info->n_operands);
    for (int n = 1; n <= -info->n_operands && (ranks || info->kind != NN_KIND_TRANSFER); n++)
      make_operation(&d, dialect, (NnOp)i, n);
  }
  return module;
}

static void add_chunk(MlirStringRef chunk, void *out) { fwrite(chunk.data, 1, chunk.length, out); }

char *nn_irdl_text(void) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) nn_bug("out of memory");
  MlirContext ctx = mlirContextCreateWithThreading(false);
  mlirDialectHandleLoadDialect(mlirGetDialectHandle__irdl__(), ctx);
  MlirModule module = make_module(ctx, true);
  mlirOperationPrint(mlirModuleGetOperation(module), add_chunk, out);
  mlirModuleDestroy(module);
  nn_names_forget();   // those of this context, if any
  mlirContextDestroy(ctx);
  fclose(out);
  return text;
}

static void load_nn(MlirContext ctx, bool ranks) {
  MlirModule module = make_module(ctx, ranks);
  if (mlirLogicalResultIsFailure(mlirLoadIRDLDialects(module))) nn_bug("the IRDL module of the nn dialect was refused");
  mlirModuleDestroy(module);
}

static MlirContext create(bool ranks) {
  // Printing IR between passes aborts with threads on, and the passes of this compiler work on the whole module anyway.
  MlirContext ctx = mlirContextCreateWithThreading(false);
  mlirDialectHandleLoadDialect(mlirGetDialectHandle__func__(), ctx);
  mlirDialectHandleLoadDialect(mlirGetDialectHandle__scf__(), ctx);
  mlirDialectHandleLoadDialect(mlirGetDialectHandle__irdl__(), ctx);
  load_nn(ctx, ranks);
  return ctx;
}

MlirContext nn_context_create(void) { return create(true); }
MlirContext nn_context_create_alone(void) { return create(false); }

void nn_context_destroy(MlirContext ctx) {
  nn_types_forget();
  nn_ops_forget();
  nn_names_forget();
  mlirContextDestroy(ctx);
}
