// The pass `chunk`: a loss over a large vocabulary, a part of its rows at a time. The scores of a language model and their gradient are the largest tensors of a step, each needed for a moment.
// In chunks of rows, each with its gradient made right behind its loss, only a chunk of them lives at once; gradients of the weights are added up over the chunks. (The same is
// done by hand in Liger Kernel, Hsu et al., 2024, and in Cut Cross-Entropy, Wijmans et al., 2024, within one kernel.)
#include <stdlib.h>
#include <string.h>

#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/scores.h"

enum { MAX_CHUNKS = 16, TILE_ROWS = 128 };
static const int64_t least_bytes = 32 << 20;   // of a chunk of the scores

static MlirValue operand(MlirOperation op, int i) { return mlirOperationGetOperand(op, i); }
static MlirValue result(MlirOperation op, int i) { return mlirOperationGetResult(op, i); }
static int64_t rows_of(MlirValue scores) {
  NnType t = nn_value_type(scores);
  return nn_type_elements(&t) / scores_columns(scores);
}

// How many chunks the rows are best cut into: each takes the products `least` rows, so that going over the gradient of the weights once more costs little beside them.
static int64_t chunks(const Scores *s, int64_t least) {
  MlirValue product = result(s->op[0], 0);
  NnType t = nn_value_type(product);
  int64_t row_bytes = scores_columns(product) * nn_dtype_bytes(t.dtype), n = rows_of(product) / least;
  while (n > 1 && rows_of(product) / n * row_bytes < least_bytes) n--;
  return n < 1 ? 1 : n > MAX_CHUNKS ? MAX_CHUNKS : n;
}

static MlirValue rows_from(NnBuilder *b, MlirValue x, int64_t first, int64_t rows) {
  NnType t = nn_value_type(x);
  int64_t starts[NN_MAX_RANK] = {first}, sizes[NN_MAX_RANK];
  for (int i = 0; i < t.rank; i++) sizes[i] = i == 0 ? rows : t.dim[i];
  return nn_slice(b, x, starts, sizes, NULL);
}

// The taps of v show the rows of a chunk of it.
static void tap_chunk(NnBuilder *b, MlirValue v, MlirValue chunk, int64_t first) {
  NnType t = nn_value_type(v);
  for (MlirOpOperand use = mlirValueGetFirstUse(v); !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation tap = mlirOpOperandGetOwner(use);
    if (nn_op_of(tap) != NN_OP_tap) continue;
    MlirStringRef name = mlirStringAttrGetValue(mlirOperationGetAttributeByName(tap, mlirStringRefCreateFromCString("name")));
    char *copy = strndup(name.data, name.length);
    if (!copy) abort();
    NnAttr attrs[] = {NN_STR("name", copy), NN_I64("columns", nn_attr_i64(tap, "columns", scores_columns(v))), NN_I64("first", first), NN_I64S("shape", t.dim, t.rank)};
    nn_build(b, NN_OP_tap, 1, &chunk, 4, attrs, NULL);
    free(copy);
  }
}

static void erase_with_taps(MlirOperation op) {
  for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++) {
    MlirOpOperand use;
    while (!mlirOpOperandIsNull(use = mlirValueGetFirstUse(result(op, (int)r)))) mlirOperationDestroy(mlirOpOperandGetOwner(use));
  }
  mlirOperationDestroy(op);
}

// One chunk: its scores, and what the loss makes of them.
static MlirOperation build_chunk(NnBuilder *b, const Scores *s, MlirOperation loss, MlirValue x, MlirValue labels, int64_t first, int64_t rows) {
  MlirValue v = rows_from(b, x, first, rows);
  NnType type = {.rank = 2, .dim = {rows, scores_columns(result(s->op[0], 0))}};
  for (int i = 0; i < s->n; i++) {
    NnOp kind = nn_op_of(s->op[i]);
    v = scores_again(b, s, i, v, kind == NN_OP_add ? scores_bias(s->op[i]) : kind == NN_OP_matmul ? operand(s->op[i], 1) : nn_null_value(), &type);
    tap_chunk(b, result(s->op[i], 0), v, first);
  }
  MlirValue operands[] = {v, rows_from(b, labels, first, rows)};
  int64_t classes = nn_attr_i64(loss, "classes", 0);
  return nn_build(b, NN_OP_cross_entropy, 2, operands, classes ? 1 : 0, &NN_I64("classes", classes), NULL);
}

static void split(const Scores *s, MlirOperation loss, int64_t n, const char *phase) {
  NnBuilder b = rewrite_builder(loss);
  if (phase) b.phase = phase;
  MlirValue x = operand(s->op[0], 0), part[2][MAX_CHUNKS], whole[2];
  NnType x_type = nn_value_type(x), loss_type = nn_value_type(result(loss, 0));
  int64_t rows = rows_of(result(s->op[0], 0)), each = (rows / n + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
  x = nn_reshape(&b, x, 2, (int64_t[]){rows, x_type.dim[x_type.rank - 1]});
  MlirValue labels = nn_reshape(&b, operand(loss, 1), 1, &rows);
  int made = 0;
  for (int64_t first = 0; first < rows; first += each, made++) {
    MlirOperation chunk = build_chunk(&b, s, loss, x, labels, first, first + each < rows ? each : rows - first);
    for (int r = 0; r < 2; r++) part[r][made] = result(chunk, r);
  }
  for (int r = 0; r < 2; r++) whole[r] = nn_reshape(&b, nn_concat(&b, made, part[r], 0), loss_type.rank, loss_type.dim);
  rewrite_replace(loss, whole);
  for (int i = s->n - 1; i >= 0; i--) erase_with_taps(s->op[i]);
}

// Made where its gradient is: a kernel then makes both.
static void mark(const Scores *s, MlirOperation loss, const char *phase) {
  nn_set_attr(loss, &NN_STR("nn.phase", phase));
  for (int i = 0; i < s->n; i++) {
    nn_set_attr(s->op[i], &NN_STR("nn.phase", phase));
    for (MlirOpOperand use = mlirValueGetFirstUse(result(s->op[i], 0)); !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use))
      if (nn_op_of(mlirOpOperandGetOwner(use)) == NN_OP_tap) nn_set_attr(mlirOpOperandGetOwner(use), &NN_STR("nn.phase", phase));
  }
}

// Requires: losses as the frontend builds them (with the columns of align).
// Establishes: private scores of a cross-entropy of 32 MiB and more are made in chunks of rows, whose number follows from the sizes alone. In @train they and the loss have the
// phase "backward": autodiff moves each chunk to where its gradient is made.
// Breaks: nothing. Sums over rows, of the loss and of the gradient of the weights, are in another order than before.
bool nn_pass_chunk(MlirModule module, const NnPassRun *run) {
  const char *option = nn_pass_option(run, "rows", NULL);
  int64_t least = option ? strtoll(option, NULL, 10) : run->target->loss_rows;
  if (least <= 0) return true;
  MlirOperation train = nn_module_function(module, "train");
  for (MlirOperation func = mlirBlockGetFirstOperation(mlirModuleGetBody(module)); !mlirOperationIsNull(func); func = mlirOperationGetNextInBlock(func)) {
    if (!nn_is(func, "func.func") || mlirBlockIsNull(nn_function_body(func))) continue;
    const char *phase = !mlirOperationIsNull(train) && mlirOperationEqual(func, train) ? "backward" : NULL;
    int n;
    MlirOperation *ops = rewrite_ops(nn_function_body(func), &n);
    int n_losses = 0;   // the others end with those of their loss
    for (int i = 0; i < n; i++)
      if (nn_op_of(ops[i]) == NN_OP_cross_entropy) ops[n_losses++] = ops[i];
    for (int i = 0; i < n_losses; i++) {
      Scores s;
      if (!scores_find(ops[i], &s) || !scores_are_private(&s, ops[i])) continue;
      NnType t = nn_value_type(result(s.op[0], 0));
      if (nn_type_bytes(&t) < least_bytes) continue;
      int64_t parts = chunks(&s, least);
      if (parts > 1) split(&s, ops[i], parts, phase);
      else if (phase) mark(&s, ops[i], phase);
    }
    free(ops);
  }
  return true;
}
