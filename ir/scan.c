// Scans: loops that stay loops. The step of a loop is a function of its own, so that a thousand steps compile as one;
// the loop is a call of a declaration that says which arguments of the step are rows of which tensors. The one place
// that knows how this is written down.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/internal.h"
#include "support/alloc.h"
#include "support/text.h"

MlirModule nn_module_of(MlirOperation op) {
  MlirOperation root = op, parent;
  while (!mlirOperationIsNull(parent = mlirOperationGetParentOperation(root))) root = parent;
  return mlirModuleFromOperation(root);
}

char *nn_scan_name(const NnScan *scan, const char *suffix) {
  char *name = nn_string_copy(mlirStringAttrGetValue(nn_attribute(scan->body, "sym_name"))),
       *end = strstr(name, "_body");
  if (end) *end = 0;
  char *made = text_format("%s_%s", name, suffix);
  free(name);
  return made;
}

bool nn_is_scan_body(MlirOperation func) { return nn_has_attr(func, ATTR_scan_body); }

static MlirOperation function_named(MlirModule module, MlirStringRef wanted) {
  MlirBlock body = mlirModuleGetBody(module);
  NN_FOREACH_OP (f, body) {
    MlirAttribute symbol = nn_attribute(f, "sym_name");
    if (!mlirAttributeIsNull(symbol) && mlirStringRefEqual(mlirStringAttrGetValue(symbol), wanted)) return f;
  }
  return nn_null_operation();
}

static bool declared(MlirOperation op, NnScan *out) {
  if (mlirOperationIsNull(op) || !nn_has_attr(op, ATTR_body)) return false;
  int64_t counts[5];
  if (nn_attr_i64s(op, ATTR_counts, counts, 5) != 5) return false;
  MlirAttribute body = nn_attribute(op, ATTR_body);
  *out = (NnScan){.body = function_named(nn_module_of(op), mlirStringAttrGetValue(body)),
                  .length = nn_attr_i64(op, ATTR_length, 0),
                  .reverse = nn_attr_bool(op, ATTR_reverse, false),
                  .n_slices = (int)counts[0],
                  .n_stacked = (int)counts[1],
                  .n_tied = (int)counts[2],
                  .n_invariants = (int)counts[3],
                  .n_outputs = (int)counts[4]};
  return !mlirOperationIsNull(out->body);
}

bool nn_scan_of(MlirOperation op, NnScan *out) {
  if (mlirOperationIsNull(op) || nn_op_of(op) != NN_OP_NONE) return false;
  if (nn_is(op, "func.call")) return nn_has_attr(op, ATTR_scan) && nn_scan_called(nn_module_of(op), op, out);
  return declared(op, out);
}

bool nn_scan_called(MlirModule module, MlirOperation call, NnScan *out) {
  return declared(function_named(module, mlirFlatSymbolRefAttrGetValue(nn_attribute(call, "callee"))), out);
}

char *nn_free_symbol(MlirModule module, const char *name) {
  char *text = copy_string(name);
  for (int i = 2; !mlirOperationIsNull(nn_module_function(module, text)); i++) {
    free(text);
    text = text_format("%s_%d", name, i);
  }
  return text;
}

// The type of result r of the call: what the step gives, once per step; of a stacked carry also the value before the
// first.
static NnType result_type(const NnScan *s, int r) {
  NnType t = nn_value_type(mlirOperationGetOperand(nn_function_return(s->body), r));
  if (r >= s->n_stacked && r < s->n_stacked + s->n_tied) return t;
  int64_t dim[NN_MAX_RANK];
  assert(t.rank < NN_MAX_RANK);
  dim[0] = s->length + (r < s->n_stacked);
  for (int i = 0; i < t.rank; i++) dim[i + 1] = t.dim[i];
  return nn_type(t.dtype, t.rank + 1, dim);
}

static void declare(NnBuilder *b, MlirModule module, const char *name, const NnScan *s, int n_operands,
                    const MlirType *operands, int n_results, const MlirType *results) {
  MlirContext ctx = b->ctx;
  MlirRegion region = mlirRegionCreate();
  MlirNamedAttribute attrs[] = {
      nn_named(ctx, "sym_name", mlirStringAttrGet(ctx, nn_string_ref(name))),
      nn_named(ctx, "function_type",
               mlirTypeAttrGet(mlirFunctionTypeGet(ctx, n_operands, operands, n_results, results))),
      nn_named(ctx, "sym_visibility", mlirStringAttrGet(ctx, nn_string_ref("private"))),
  };
  MlirOperationState state = mlirOperationStateGet(nn_string_ref("func.func"), b->loc);
  mlirOperationStateAddAttributes(&state, 3, attrs);
  mlirOperationStateAddOwnedRegions(&state, 1, &region);
  MlirOperation func = mlirOperationCreate(&state);
  mlirBlockAppendOwnedOperation(mlirModuleGetBody(module), func);
  char body[256];
  nn_attr_str(s->body, "sym_name", body, sizeof body, "");
  int64_t counts[] = {s->n_slices, s->n_stacked, s->n_tied, s->n_invariants, s->n_outputs};
  nn_set_unit(func, ATTR_kernel);
  const NnAttr own[] = {NN_STR(ATTR_kind, "scan"), NN_STR(ATTR_label, "scan"), NN_STR(ATTR_body, body),
                        NN_I64(ATTR_length, s->length), NN_I64S(ATTR_counts, counts, 5)};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) nn_set_attr(func, &own[i]);
  if (s->reverse) nn_set_attr(func, &NN_BOOL(ATTR_reverse, true));
}

MlirOperation nn_scan_build(NnBuilder *b, MlirModule module, const char *name, const NnScan *s,
                            const MlirValue *operands) {
  int n_operands = s->n_slices + s->n_stacked + s->n_tied + s->n_invariants,
      n_results = s->n_stacked + s->n_tied + s->n_outputs;
  MlirType *types = allocate_array((size_t)(n_operands + n_results) + 1, sizeof *types);
  for (int i = 0; i < n_operands; i++) types[i] = mlirValueGetType(operands[i]);
  for (int r = 0; r < n_results; r++) {
    NnType t = result_type(s, r);
    types[n_operands + r] = nn_type_to_mlir(b->ctx, &t);
  }
  declare(b, module, name, s, n_operands, types, n_results, types + n_operands);
  MlirNamedAttribute attrs[] = {
      nn_named(b->ctx, "callee", mlirFlatSymbolRefAttrGet(b->ctx, nn_string_ref(name))),
      nn_named(b->ctx, ATTR_scan, mlirUnitAttrGet(b->ctx)),
      nn_named(b->ctx, ATTR_phase, mlirStringAttrGet(b->ctx, nn_string_ref(b->phase ? b->phase : "forward"))),
  };
  MlirOperationState state = mlirOperationStateGet(nn_string_ref("func.call"), b->loc);
  mlirOperationStateAddAttributes(&state, 3, attrs);
  mlirOperationStateAddOperands(&state, n_operands, operands);
  mlirOperationStateAddResults(&state, n_results, types + n_operands);
  MlirOperation call = mlirOperationCreate(&state);
  if (mlirOperationIsNull(b->before)) mlirBlockAppendOwnedOperation(b->block, call);
  else mlirBlockInsertOwnedOperationBefore(b->block, b->before, call);
  free(types);
  return call;
}

// ---------------------------------------------------------------------------------------------------------------------
// From a block to a function

typedef struct Outline {
  MlirOperation func;
  MlirBlock body;
  int n;
  MlirValue *outside, *inside;   // Owned; captured values and what stands for them in the body
} Outline;

static bool is_inside(const Outline *o, MlirValue v) {
  MlirOperation def = nn_value_def(v);
  return mlirBlockEqual(mlirOperationIsNull(def) ? mlirBlockArgumentGetOwner(v) : mlirOperationGetBlock(def), o->body);
}

static MlirValue known(const Outline *o, MlirValue v) {
  for (int i = 0; i < o->n; i++)
    if (mlirValueEqual(o->outside[i], v)) return o->inside[i];
  return nn_null_value();
}

static void remember(Outline *o, MlirValue outside, MlirValue inside) {
  o->inside = array_with_room(o->inside, (size_t)o->n, sizeof *o->inside);
  o->inside[o->n] = inside;
  *ARRAY_ADD(o->outside, o->n) = outside;
}

static MlirValue capture(Outline *o, MlirValue v) {
  if (is_inside(o, v)) return v;
  MlirValue inside = known(o, v);
  if (!nn_value_is_null(inside)) return inside;
  MlirOperation def = nn_value_def(v);
  if (!mlirOperationIsNull(def) && nn_op_of(def) == NN_OP_constant) {
    MlirOperation copy = mlirOperationClone(def);
    mlirBlockInsertOwnedOperation(o->body, 0, copy);
    inside = mlirOperationGetResult(copy, 0);
  } else {
    inside = nn_function_add_arg(o->func, nn_value_type(v), mlirOperationGetLocation(o->func), 0, NULL);
  }
  remember(o, v, inside);
  return inside;
}

MlirOperation nn_scan_outline(NnBuilder *b, MlirModule module, const char *name, MlirBlock block, NnScan *s,
                              const MlirValue *operands, const MlirValue *values) {
  char *symbol = nn_free_symbol(module, name), *body_name = text_format("%s_body", symbol);
  Outline o = {.func = nn_function_create(module, body_name, false, b->loc)};
  o.body = nn_function_body(o.func);
  nn_set_unit(o.func, ATTR_scan_body);
  int n_args = (int)mlirBlockGetNumArguments(block), n_results = s->n_stacked + s->n_tied + s->n_outputs;
  for (int i = 0; i < n_args; i++) {
    MlirValue old = mlirBlockGetArgument(block, i),
              arg = nn_function_add_arg(o.func, nn_value_type(old), b->loc, 0, NULL);
    remember(&o, old, arg);
    mlirValueReplaceAllUsesOfWith(old, arg);
  }
  for (MlirOperation op; !mlirOperationIsNull(op = mlirBlockGetFirstOperation(block));) {
    mlirOperationRemoveFromParent(op);
    mlirBlockAppendOwnedOperation(o.body, op);
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
      MlirValue v = mlirOperationGetOperand(op, i), inside = capture(&o, v);
      if (!mlirValueEqual(v, inside)) mlirOperationSetOperand(op, i, inside);
    }
  }
  MlirValue *results = allocate_array((size_t)n_results + 1, sizeof *results);
  for (int r = 0; r < n_results; r++) results[r] = capture(&o, values[r]);
  nn_function_set_results(o.func, n_results, results, 0);
  for (int i = 0; i < s->n_tied; i++)
    nn_set_result_attr(o.func, s->n_stacked + i, &NN_I64(ATTR_tied, s->n_slices + s->n_stacked + i));
  s->body = o.func;
  s->n_invariants = nn_function_n_args(o.func) - n_args;
  MlirValue *all = allocate_array((size_t)(n_args + s->n_invariants) + 1, sizeof *all);
  for (int i = 0; i < n_args; i++) all[i] = operands[i];
  for (int i = n_args; i < o.n; i++)
    if (mlirOperationIsNull(nn_value_def(o.inside[i]))) all[nn_value_index(o.inside[i])] = o.outside[i];
  MlirOperation call = nn_scan_build(b, module, symbol, s, all);
  mlirBlockDestroy(block);
  free(o.outside);
  free(o.inside);
  free(results);
  free(all);
  free(symbol);
  free(body_name);
  return call;
}
