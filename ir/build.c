// Building operations: nn_build checks a call against the table before making it, so that an op that exists is an op
// whose shapes fit; the short forms below it are what gradient rules, layers and passes are written in.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/internal.h"
#include "ir/ops/ops.h"
#include "support/alloc.h"
#include "support/integers.h"

NnBuilder nn_builder_at_end(MlirBlock block, MlirLocation loc) {
  return (NnBuilder){.ctx = mlirLocationGetContext(loc), .block = block, .before = nn_null_operation(), .loc = loc};
}

NnBuilder nn_builder_before(MlirOperation op) {
  return (NnBuilder){.ctx = mlirOperationGetContext(op),
                     .block = mlirOperationGetBlock(op),
                     .before = op,
                     .loc = mlirOperationGetLocation(op)};
}

// nn.phase of what is built: made once for all ops between two changes of b->phase.
static MlirNamedAttribute phase_of(NnBuilder *b) {
  if (b->phase_made != b->phase) b->phase_entry = nn_attr_to_named(b->ctx, &NN_STR(ATTR_phase, b->phase));
  b->phase_made = b->phase;
  return b->phase_entry;
}

static MlirOperation create(NnBuilder *b, NnOp op, int n_operands, const MlirValue *operands, MlirAttribute attrs,
                            int n_results, const NnType *result) {
  char name[64];
  nn_op_mlir_name(op, n_operands, name, sizeof name);
  MlirOperationState state = mlirOperationStateGet(nn_string_ref(name), b->loc);
  mlirOperationStateAddOperands(&state, n_operands, operands);
  MlirType types[NN_MAX_RESULTS];
  for (int i = 0; i < n_results; i++) types[i] = nn_type_to_mlir(b->ctx, &result[i]);
  mlirOperationStateAddResults(&state, n_results, types);
  MlirNamedAttribute entries[NN_MAX_ATTRIBUTES + 1];
  intptr_t n = mlirDictionaryAttrGetNumElements(attrs);
  for (intptr_t i = 0; i < n; i++) entries[i] = mlirDictionaryAttrGetElement(attrs, i);
  if (b->phase) entries[n++] = phase_of(b);
  mlirOperationStateAddAttributes(&state, n, entries);
  MlirOperation made = mlirOperationCreate(&state);
  if (mlirOperationIsNull(b->before)) mlirBlockAppendOwnedOperation(b->block, made);
  else mlirBlockInsertOwnedOperationBefore(b->block, b->before, made);
  return made;
}

static MlirOperation build(NnBuilder *b, NnOp op, int n_operands, const MlirValue *operands, MlirAttribute attrs,
                           const NnType *asked);

// A variadic op of more operands than an operation may have, as a tree of it. The operands are known to fit.
static MlirOperation build_nested(NnBuilder *b, NnOp op, int n_operands, const MlirValue *operands,
                                  MlirAttribute attrs) {
  int n = (int)divide_up(n_operands, NN_MAX_OPERANDS);
  MlirValue *part = allocate_array((size_t)n, sizeof *part);
  for (int i = 0; i < n; i++) {
    int first = i * NN_MAX_OPERANDS,
        count = n_operands - first < NN_MAX_OPERANDS ? n_operands - first : NN_MAX_OPERANDS;
    part[i] = count == 1 ? operands[first]
                         : mlirOperationGetResult(build(b, op, count, operands + first, attrs, NULL), 0);
  }
  MlirOperation whole = build(b, op, n, part, attrs, NULL);
  free(part);
  return whole;
}

static MlirOperation build(NnBuilder *b, NnOp op, int n_operands, const MlirValue *operands, MlirAttribute attrs,
                           const NnType *asked) {
  int n_results = nn_op_info(op)->n_results;
  NnType few[NN_MAX_OPERANDS], result[NN_MAX_RESULTS];
  NnType *types = n_operands > NN_MAX_OPERANDS ? allocate_array((size_t)n_operands, sizeof *types) : few;
  for (int i = 0; i < n_operands; i++) types[i] = nn_value_type(operands[i]);
  for (int i = 0; i < n_results; i++) result[i] = asked ? asked[i] : (NnType){.rank = -1};
  NnOpCall call = {.op = op, .n_operands = n_operands, .operand = types, .attrs = attrs, .error = b->error};
  b->error[0] = 0;
  bool ok = nn_infer(&call, n_results, result);
  if (types != few) free(types);
  if (!ok) return nn_null_operation();
  if (n_operands > NN_MAX_OPERANDS) return build_nested(b, op, n_operands, operands, attrs);
  return create(b, op, n_operands, operands, attrs, n_results, result);
}

MlirOperation nn_build(NnBuilder *b, NnOp op, int n_operands, const MlirValue *operands, int n_attrs,
                       const NnAttr *attrs, const NnType *asked) {
  MlirNamedAttribute named[NN_MAX_ATTRIBUTES] = {{{0}, {0}}};
  if (n_attrs > NN_MAX_ATTRIBUTES) nn_bug("nn.%s with %d attributes", nn_op_info(op)->name, n_attrs);
  for (int i = 0; i < n_attrs; i++) named[i] = nn_attr_to_named(b->ctx, &attrs[i]);
  return build(b, op, n_operands, operands, mlirDictionaryAttrGet(b->ctx, n_attrs, named), asked);
}

static MlirValue first_result(NnBuilder *b, NnOp op, MlirOperation made) {
  if (mlirOperationIsNull(made)) nn_bug("nn.%s was built wrongly: %s", nn_op_info(op)->name, b->error);
  return mlirOperationGetResult(made, 0);
}

MlirValue nn_build_like(NnBuilder *b, NnOp op, MlirOperation from, int n_operands, const MlirValue *operands,
                        const NnType *asked) {
  MlirNamedAttribute kept[NN_MAX_ATTRIBUTES];
  const NnAttrSpec *specs;
  int n_specs = nn_attr_specs(op, &specs), n = 0;
  for (int i = 0; i < n_specs; i++) {
    MlirAttribute a = nn_attribute(from, specs[i].name);
    if (!mlirAttributeIsNull(a)) kept[n++] = nn_named(b->ctx, specs[i].name, a);
  }
  return first_result(b, op, build(b, op, n_operands, operands, mlirDictionaryAttrGet(b->ctx, n, kept), asked));
}

// ---------------------------------------------------------------------------------------------------------------------
// Short forms

static MlirValue one(NnBuilder *b, NnOp op, int n_operands, const MlirValue *operands, int n_attrs, const NnAttr *attrs,
                     const NnType *asked) {
  return first_result(b, op, nn_build(b, op, n_operands, operands, n_attrs, attrs, asked));
}

MlirValue nn_unary(NnBuilder *b, NnOp op, MlirValue x) { return one(b, op, 1, &x, 0, NULL, NULL); }

MlirValue nn_binary(NnBuilder *b, NnOp op, MlirValue x, MlirValue y) {
  return one(b, op, 2, (MlirValue[]){x, y}, 0, NULL, NULL);
}

MlirValue nn_compare(NnBuilder *b, const char *predicate, MlirValue x, MlirValue y) {
  return one(b, NN_OP_compare, 2, (MlirValue[]){x, y}, 1, &NN_STR("predicate", predicate), NULL);
}

MlirValue nn_select(NnBuilder *b, MlirValue cond, MlirValue x, MlirValue y) {
  return one(b, NN_OP_select, 3, (MlirValue[]){cond, x, y}, 0, NULL, NULL);
}

MlirValue nn_cast(NnBuilder *b, MlirValue x, NnDtype dtype) {
  NnType t = nn_value_type(x);
  if (t.dtype == dtype) return x;
  t.dtype = dtype;
  return one(b, NN_OP_cast, 1, &x, 0, NULL, &t);
}

MlirValue nn_constant(NnBuilder *b, NnType type, double value) {
  return one(b, NN_OP_constant, 0, NULL, 1, &NN_F64A("value", value), &type);
}

MlirValue nn_constant_like(NnBuilder *b, MlirValue like, double value) {
  return nn_constant(b, nn_value_type(like), value);
}

MlirValue nn_iota(NnBuilder *b, NnType type, int64_t axis) {
  return one(b, NN_OP_iota, 0, NULL, 1, &NN_I64("axis", axis), &type);
}

MlirValue nn_broadcast(NnBuilder *b, MlirValue x, NnType to, const int64_t *dims) {
  NnType t = nn_value_type(x);
  to.dtype = t.dtype;
  if (nn_type_equal(&t, &to)) return x;
  return one(b, NN_OP_broadcast, 1, &x, 1, &NN_I64S("dims", dims, t.rank), &to);
}

MlirValue nn_broadcast_trailing(NnBuilder *b, MlirValue x, NnType to) {
  NnType t = nn_value_type(x);
  if (t.rank > to.rank) nn_bug("broadcast of %s to %s", nn_text(&t).text, nn_text(&to).text);
  int64_t dims[NN_MAX_RANK];
  for (int i = 0; i < t.rank; i++) dims[i] = to.rank - t.rank + i;
  return nn_broadcast(b, x, to, dims);
}

MlirValue nn_reshape(NnBuilder *b, MlirValue x, int rank, const int64_t *dim) {
  NnType t = nn_value_type(x), to = nn_type(t.dtype, rank, dim);
  return nn_type_equal(&t, &to) ? x : one(b, NN_OP_reshape, 1, &x, 0, NULL, &to);
}

MlirValue nn_transpose(NnBuilder *b, MlirValue x, const int64_t *perm) {
  NnType t = nn_value_type(x);
  bool moves = false;
  for (int i = 0; i < t.rank; i++) moves |= perm[i] != i;
  return moves ? one(b, NN_OP_transpose, 1, &x, 1, &NN_I64S("perm", perm, t.rank), NULL) : x;
}

MlirValue nn_slice(NnBuilder *b, MlirValue x, const int64_t *starts, const int64_t *sizes, const int64_t *strides) {
  NnType t = nn_value_type(x);
  int64_t ones[NN_MAX_RANK];
  for (int i = 0; i < t.rank; i++) ones[i] = 1;
  if (!strides) strides = ones;
  bool whole = true;
  for (int i = 0; i < t.rank; i++) whole &= starts[i] == 0 && sizes[i] == t.dim[i];
  if (whole) return x;
  NnAttr attrs[] = {NN_I64S("starts", starts, t.rank), NN_I64S("sizes", sizes, t.rank),
                    NN_I64S("strides", strides, t.rank)};
  return one(b, NN_OP_slice, 1, &x, 3, attrs, NULL);
}

MlirValue nn_rows(NnBuilder *b, MlirValue x, int64_t first, int64_t n) {
  NnType t = nn_value_type(x);
  int64_t starts[NN_MAX_RANK] = {first};
  t.dim[0] = n;
  return nn_slice(b, x, starts, t.dim, NULL);
}

MlirValue nn_pad(NnBuilder *b, MlirValue x, const int64_t *low, const int64_t *high, const int64_t *interior,
                 double value) {
  NnType t = nn_value_type(x);
  bool pads = false;
  for (int i = 0; i < t.rank; i++) pads |= low[i] || high[i] || (interior[i] && t.dim[i] > 1);
  if (!pads) return x;
  NnAttr attrs[] = {NN_I64S("low", low, t.rank), NN_I64S("high", high, t.rank), NN_I64S("interior", interior, t.rank),
                    NN_F64A("value", value)};
  return one(b, NN_OP_pad, 1, &x, 4, attrs, NULL);
}

MlirValue nn_concat(NnBuilder *b, int n, const MlirValue *x, int64_t axis) {
  return n == 1 ? x[0] : one(b, NN_OP_concat, n, x, 1, &NN_I64("axis", axis), NULL);
}

MlirValue nn_reduce(NnBuilder *b, NnOp op, MlirValue x, int n_axes, const int64_t *axes) {
  if (n_axes == 0) return x;
  int64_t sorted[NN_MAX_RANK];
  if (n_axes > NN_MAX_RANK) nn_bug("a reduction over %d axes", n_axes);
  for (int i = 0; i < n_axes; i++) {
    int k = i;
    for (; k > 0 && sorted[k - 1] > axes[i]; k--) sorted[k] = sorted[k - 1];
    sorted[k] = axes[i];
  }
  return one(b, op, 1, &x, 1, &NN_I64S("axes", sorted, n_axes), NULL);
}

MlirValue nn_matmul(NnBuilder *b, MlirValue x, MlirValue y, bool transpose_x, bool transpose_y) {
  NnAttr attrs[] = {NN_BOOL("transpose_a", transpose_x), NN_BOOL("transpose_b", transpose_y)};
  return one(b, NN_OP_matmul, 2, (MlirValue[]){x, y}, 2, attrs, NULL);
}

static void mark(NnBuilder *b, NnOp op, MlirValue x, int n_attrs, const NnAttr *attrs) {
  if (mlirOperationIsNull(nn_build(b, op, 1, &x, n_attrs, attrs, NULL)))
    nn_bug("nn.%s: %s", nn_op_info(op)->name, b->error);
}

void nn_tap(NnBuilder *b, MlirValue x, const char *name) { mark(b, NN_OP_tap, x, 1, &NN_STR("name", name)); }
void nn_checkpoint(NnBuilder *b, MlirValue x) { mark(b, NN_OP_checkpoint, x, 0, NULL); }

bool nn_expand_differentiable(NnBuilder *b, MlirOperation op, MlirValue *results) {
  switch (nn_op_of(op)) {
  case NN_OP_attention_grad:
  case NN_OP_attention_grad_packed: nn_differentiable_attention_grad(b, op, results); return true;
  default: return false;
  }
}

void nn_expand(NnBuilder *b, MlirOperation composite, MlirValue *results) {
  NnOp op = nn_op_of(composite);
  if (op == NN_OP_fourier) {
    nn_expand_fourier(b, composite, results);
    return;
  }
  if (op == NN_OP_NONE || !nn_op_info(op)->expand) nn_bug("expansion of an op that has none");
  nn_op_info(op)->expand(b, composite, results);
}
