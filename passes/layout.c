// Convolutions and pools in the layout the target wants. The language says NCHW; oneDNN's convolutions and our kernels, which vectorise over
// channels, are at their best on NHWC, where batch-norm statistics are column sums and a 1x1 convolution is a plain matrix product.
//
// One walk in program order builds, beside an NCHW value v, its NHWC *twin* wherever that costs nothing: convolutions and pools start twins; maps,
// batchnorm, reductions, pad, slice and concat carry them on. What still needs v itself reads a transpose of the twin. So a residual network has one
// transpose, at its input, and none between its convolutions.
//
// Requires: forward functions as the frontend builds them (before autodiff).
// Establishes: every conv2d, maxpool2d and avgpool2d has layout "nhwc" if the target is channels-last.
// Breaks: nothing. A random_uniform that moves draws by its NHWC index: the pass always runs, so a program's draws are still its own.
#include <stdlib.h>
#include <string.h>

#include "passes/passes.h"
#include "passes/ptr_map.h"
#include "passes/rewrite.h"

static const int64_t to_nhwc[4] = {0, 2, 3, 1};     // NHWC axis i is NCHW axis to_nhwc[i]
static const int64_t to_nchw[4] = {0, 3, 1, 2};     // NCHW axis i is NHWC axis to_nchw[i]; also: where NCHW axis i goes

typedef struct Twins { PtrMap index; MlirValue *original, *twin; int n, capacity; } Twins;

static void twins_add(Twins *t, MlirValue original, MlirValue twin)
{
  if (t->n == t->capacity) {
    t->capacity = t->capacity ? 2 * t->capacity : 64;
    t->original = realloc(t->original, sizeof *t->original * (size_t)t->capacity);
    t->twin = realloc(t->twin, sizeof *t->twin * (size_t)t->capacity);
  }
  t->original[t->n] = original;
  t->twin[t->n] = twin;
  ptr_map_set(&t->index, original.ptr, t->n++);
}

static MlirValue twins_find(const Twins *t, MlirValue v)
{
  int i = ptr_map_get(&t->index, v.ptr);
  return i < 0 ? nn_null_value() : t->twin[i];
}

static NnType permuted(NnType t, const int64_t perm[4])
{
  NnType out = t;
  for (int i = 0; i < 4; i++) out.dim[i] = t.dim[perm[i]];
  return out;
}

// A transpose that moves only axes of size 1 past others is a reshape, which costs nothing.
static MlirValue transposed(NnBuilder *b, MlirValue x, const int64_t perm[4])
{
  NnType t = nn_value_type(x), to = permuted(t, perm);
  int64_t last = -1;
  bool in_order = true;
  for (int i = 0; i < 4; i++) {
    if (to.dim[i] == 1) continue;
    in_order = in_order && perm[i] > last;
    last = perm[i];
  }
  return in_order ? nn_reshape(b, x, 4, to.dim) : nn_transpose(b, x, perm);
}

// A copy of op on other operands, with the attributes changed as given and results of the asked types.
static MlirOperation rebuild(NnBuilder *b, MlirOperation op, const MlirValue *operands, int n_attrs, const NnAttr *attrs, const NnType *asked)
{
  int n = (int)mlirOperationGetNumOperands(op);
  MlirOperation made = nn_build(b, nn_op_of(op), n, operands, n_attrs, attrs, asked);
  if (mlirOperationIsNull(made)) nn_error(op, "layout: %s", b->error);
  return made;
}

// --- Values that a twin costs nothing for ------------------------------------------------------------------------------------

static bool is_cheap(MlirValue v)
{
  MlirOperation def = nn_value_def(v);
  if (mlirOperationIsNull(def)) return false;
  NnOp op = nn_op_of(def);
  return op == NN_OP_broadcast || (op != NN_OP_NONE && nn_op_info(op)->kind == NN_KIND_SOURCE);
}

static MlirValue cheap_twin(NnBuilder *b, MlirValue v)
{
  MlirOperation def = nn_value_def(v);
  NnType to = permuted(nn_value_type(v), to_nhwc);
  switch (nn_op_of(def)) {
    case NN_OP_constant: return nn_constant(b, to, nn_attr_f64(def, "value", 0));
    case NN_OP_iota: return nn_iota(b, to, to_nchw[nn_attr_i64(def, "axis", 0)]);
    case NN_OP_random_uniform: {
      MlirValue key = mlirOperationGetOperand(def, 0);
      return mlirOperationGetResult(nn_build(b, NN_OP_random_uniform, 1, &key, 0, NULL, &to), 0);
    }
    default: break;
  }
  // A broadcast: the operand's axes go elsewhere; where their order changes the small operand is transposed.
  MlirValue x = mlirOperationGetOperand(def, 0);
  NnType t = nn_value_type(x);
  int64_t dims[NN_MAX_RANK], perm[NN_MAX_RANK], sorted[NN_MAX_RANK];
  nn_attr_i64s(def, "dims", dims, NN_MAX_RANK);
  int n = 0;
  bool moved = false;
  for (int axis = 0; axis < 4; axis++)
    for (int i = 0; i < t.rank; i++)
      if (to_nchw[dims[i]] == axis) { moved = moved || i != n; perm[n] = i; sorted[n++] = axis; }
  return nn_broadcast(b, moved ? nn_transpose(b, x, perm) : x, to, sorted);
}

static MlirValue twin_of(Twins *t, NnBuilder *b, MlirValue v)
{
  MlirValue twin = twins_find(t, v);
  if (!nn_value_is_null(twin)) return twin;
  twin = is_cheap(v) ? cheap_twin(b, v) : transposed(b, v, to_nhwc);
  if (!is_cheap(v)) twins_add(t, v, twin);
  return twin;
}

// --- Ops that carry twins on --------------------------------------------------------------------------------------------------

static void carry_window(Twins *t, MlirOperation op)
{
  NnBuilder b = rewrite_builder(op);
  static const char *const lists[] = {"kernel", "strides", "padding", "dilation"};
  int64_t values[4][4];
  NnAttr attrs[8];
  int n = 0;
  for (int i = 0; i < 4; i++) {
    int count = nn_attr_i64s(op, lists[i], values[i], 4);
    if (count > 0) attrs[n++] = NN_I64S(lists[i], values[i], count);
  }
  if (nn_has_attr(op, "groups")) attrs[n++] = NN_I64("groups", nn_attr_i64(op, "groups", 1));
  if (nn_has_attr(op, "include_pad")) attrs[n++] = NN_BOOL("include_pad", nn_attr_bool(op, "include_pad", true));
  attrs[n++] = NN_STR("layout", "nhwc");
  MlirValue operands[2];
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) operands[i] = mlirOperationGetOperand(op, i);
  operands[0] = twin_of(t, &b, operands[0]);
  MlirOperation made = rebuild(&b, op, operands, n, attrs, NULL);
  if (mlirOperationIsNull(made)) return;
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) twins_add(t, mlirOperationGetResult(op, i), mlirOperationGetResult(made, i));
}

static bool carry_map(Twins *t, MlirOperation op)
{
  MlirValue operands[3];
  int n = (int)mlirOperationGetNumOperands(op), have = 0, lack = 0;
  for (int i = 0; i < n; i++) {
    operands[i] = mlirOperationGetOperand(op, i);
    if (!nn_value_is_null(twins_find(t, operands[i]))) have++;
    else if (!is_cheap(operands[i])) lack++;
  }
  if (!have || lack >= have) return false;
  NnBuilder b = rewrite_builder(op);
  for (int i = 0; i < n; i++) operands[i] = twin_of(t, &b, operands[i]);
  NnType to = permuted(nn_value_type(mlirOperationGetResult(op, 0)), to_nhwc);
  char predicate[8];
  NnAttr attr = NN_STR("predicate", nn_attr_str(op, "predicate", predicate, sizeof predicate, ""));
  MlirOperation made = rebuild(&b, op, operands, nn_op_of(op) == NN_OP_compare, &attr, &to);
  if (mlirOperationIsNull(made)) return false;
  twins_add(t, mlirOperationGetResult(op, 0), mlirOperationGetResult(made, 0));
  return true;
}

static void carry_batchnorm(Twins *t, MlirOperation op)
{
  NnBuilder b = rewrite_builder(op);
  MlirValue operands[3] = {twin_of(t, &b, mlirOperationGetOperand(op, 0)), mlirOperationGetOperand(op, 1), mlirOperationGetOperand(op, 2)};
  NnAttr attrs[] = {NN_F64A("eps", nn_attr_f64(op, "eps", 1e-5)), NN_I64("axis", to_nchw[nn_attr_i64(op, "axis", 1)])};
  MlirOperation made = rebuild(&b, op, operands, 2, attrs, NULL);
  if (mlirOperationIsNull(made)) return;
  twins_add(t, mlirOperationGetResult(op, 0), mlirOperationGetResult(made, 0));
  for (int i = 1; i < 3; i++) mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(op, i), mlirOperationGetResult(made, i));
}

// Only where the axes that stay keep their order: then the result is the same tensor.
static void carry_reduce(Twins *t, MlirOperation op)
{
  int64_t axes[4], kept = -1;
  bool reduced[4] = {false};
  int n = nn_attr_i64s(op, "axes", axes, 4);
  for (int i = 0; i < n; i++) reduced[axes[i]] = true;
  for (int i = 0; i < 4; i++) {
    if (reduced[i]) continue;
    if (to_nchw[i] < kept) return;
    kept = to_nchw[i];
  }
  n = 0;
  for (int i = 0; i < 4; i++)
    if (reduced[to_nhwc[i]]) axes[n++] = i;
  NnBuilder b = rewrite_builder(op);
  MlirValue x = twins_find(t, mlirOperationGetOperand(op, 0));
  NnAttr attr = NN_I64S("axes", axes, n);
  MlirOperation made = rebuild(&b, op, &x, 1, &attr, NULL);
  for (intptr_t i = 0; !mlirOperationIsNull(made) && i < mlirOperationGetNumResults(op); i++)
    mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(op, i), mlirOperationGetResult(made, i));
}

// pad and slice: the per-axis lists move with the axes.
static void carry_lists(Twins *t, MlirOperation op, const char *const *names)
{
  NnBuilder b = rewrite_builder(op);
  MlirValue x = twins_find(t, mlirOperationGetOperand(op, 0));
  int64_t given[4], moved[3][4];
  NnAttr attrs[4];
  int n = 0;
  for (; n < 3; n++) {
    nn_attr_i64s(op, names[n], given, 4);
    for (int i = 0; i < 4; i++) moved[n][i] = given[to_nhwc[i]];
    attrs[n] = NN_I64S(names[n], moved[n], 4);
  }
  if (nn_op_of(op) == NN_OP_pad) attrs[n++] = NN_F64A("value", nn_attr_f64(op, "value", 0));
  MlirOperation made = rebuild(&b, op, &x, n, attrs, NULL);
  if (!mlirOperationIsNull(made)) twins_add(t, mlirOperationGetResult(op, 0), mlirOperationGetResult(made, 0));
}

static void carry_concat(Twins *t, MlirOperation op)
{
  int n = (int)mlirOperationGetNumOperands(op), have = 0;
  for (int i = 0; i < n; i++) have += !nn_value_is_null(twins_find(t, mlirOperationGetOperand(op, i)));
  if (2 * have <= n) return;
  NnBuilder b = rewrite_builder(op);
  if (n < 1) return;
  MlirValue *operands = malloc(sizeof *operands * (size_t)n);
  for (int i = 0; i < n; i++) operands[i] = twin_of(t, &b, mlirOperationGetOperand(op, i));
  NnAttr attr = NN_I64("axis", to_nchw[nn_attr_i64(op, "axis", 0)]);
  MlirOperation made = rebuild(&b, op, operands, 1, &attr, NULL);
  if (!mlirOperationIsNull(made)) twins_add(t, mlirOperationGetResult(op, 0), mlirOperationGetResult(made, 0));
  free(operands);
}

static void visit(Twins *t, MlirOperation op)
{
  static const char *const pads[] = {"low", "high", "interior"}, *const slices[] = {"starts", "sizes", "strides"};
  NnOp kind = nn_op_of(op);
  if (kind == NN_OP_NONE || mlirOperationGetNumOperands(op) == 0) return;
  MlirValue first = mlirOperationGetOperand(op, 0);
  if (kind == NN_OP_conv2d || kind == NN_OP_maxpool2d || kind == NN_OP_avgpool2d) {
    char layout[8];
    if (strcmp(nn_attr_str(op, "layout", layout, sizeof layout, "nchw"), "nchw") == 0) carry_window(t, op);
    return;
  }
  if (nn_op_info(kind)->kind == NN_KIND_MAP) {
    if (nn_value_type(mlirOperationGetResult(op, 0)).rank == 4) carry_map(t, op);
    return;
  }
  if (kind == NN_OP_concat) { if (nn_value_type(first).rank == 4) carry_concat(t, op); return; }
  if (nn_value_is_null(twins_find(t, first))) return;
  switch (kind) {
    case NN_OP_batchnorm: carry_batchnorm(t, op); break;
    case NN_OP_reduce_sum: case NN_OP_reduce_max: case NN_OP_moments: carry_reduce(t, op); break;
    case NN_OP_pad: carry_lists(t, op, pads); break;
    case NN_OP_slice: carry_lists(t, op, slices); break;
    case NN_OP_checkpoint: mlirOperationSetOperand(op, 0, twins_find(t, first)); break;
    default: break;
  }
}

// --- The pass -------------------------------------------------------------------------------------------------------------------

// Every twin that was computed takes over the remaining uses of its original, through one transpose; the originals are then dead.
static void settle(Twins *t)
{
  for (int i = 0; i < t->n; i++) {
    MlirOperation def = nn_value_def(t->twin[i]);
    NnOp op = nn_op_of(def);
    bool from_original = (op == NN_OP_transpose || op == NN_OP_reshape) && rewrite_same_value(mlirOperationGetOperand(def, 0), t->original[i]);
    if (from_original || mlirOpOperandIsNull(mlirValueGetFirstUse(t->original[i]))) continue;
    NnBuilder b = rewrite_builder(nn_value_def(t->original[i]));
    mlirValueReplaceAllUsesOfWith(t->original[i], transposed(&b, t->twin[i], to_nchw));
  }
}

static void convert_function(MlirOperation func)
{
  Twins t = {0};
  int n;
  MlirBlock body = nn_function_body(func);
  MlirOperation *ops = rewrite_ops(body, &n);
  for (int i = 0; i < n; i++) visit(&t, ops[i]);
  settle(&t);
  rewrite_erase_dead(body);
  free(ops);
  free(t.original);
  free(t.twin);
  ptr_map_free(&t.index);
}

bool nn_pass_layout(MlirModule module, const NnPassRun *run)
{
  if (run->target && !run->target->channels_last) return true;
  MlirBlock block = mlirModuleGetBody(module);
  for (MlirOperation op = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    if (nn_is(op, "func.func") && !rewrite_is_private(op)) convert_function(op);
  return true;
}
