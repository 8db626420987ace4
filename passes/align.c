// Rows of a loss's scores. A product whose result has an odd number of columns, such as a vocabulary of 50257, has rows that begin anywhere: no library multiplies such a
// matrix at the rate of its tensor cores, and no kernel reads it 16 bytes at a time. Where only the loss reads it, some columns are added, whose weights are zeros and which
// the loss takes for no classes.
#include <stdlib.h>
#include <string.h>

#include "passes/passes.h"
#include "passes/rewrite.h"

enum { MAX_OPS = 4, SPARE = 16 };   // at most a sixteenth more columns

static MlirValue operand(MlirOperation op, int i) { return mlirOperationGetOperand(op, i); }
static MlirValue result(MlirOperation op) { return mlirOperationGetResult(op, 0); }
static int64_t columns_of(MlirValue v) {
  NnType t = nn_value_type(v);
  return t.dim[t.rank - 1];
}

// From the product on: the product, then a bias or a cast or both, up to what the loss reads.
typedef struct Scores { int n; MlirOperation op[MAX_OPS]; } Scores;

// v is one number for each column.
static bool is_bias(MlirValue v) {
  MlirOperation broadcast = nn_value_def(v);
  if (nn_op_of(broadcast) != NN_OP_broadcast || nn_value_type(operand(broadcast, 0)).rank != 1) return false;
  int64_t dims[NN_MAX_RANK];
  nn_attr_i64s(broadcast, "dims", dims, NN_MAX_RANK);
  return dims[0] == nn_value_type(v).rank - 1 && columns_of(operand(broadcast, 0)) == columns_of(v);
}

static bool find_scores(MlirValue v, Scores *s) {
  for (s->n = 0; s->n < MAX_OPS;) {
    MlirOperation op = nn_value_def(v);
    NnOp kind = nn_op_of(op);
    memmove(s->op + 1, s->op, sizeof *s->op * (size_t)s->n++);
    s->op[0] = op;
    if (kind == NN_OP_matmul) return nn_value_type(operand(op, 1)).rank == 2 && !nn_attr_bool(op, "transpose_a", false);
    if (kind != NN_OP_cast && !(kind == NN_OP_add && is_bias(operand(op, 1)))) return false;
    v = operand(op, 0);
  }
  return false;
}

// Apart from op itself only taps read v.
static bool is_read_only_by(MlirValue v, MlirOperation op) {
  for (MlirOpOperand use = mlirValueGetFirstUse(v); !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    if (!mlirOperationEqual(user, op) && nn_op_of(user) != NN_OP_tap) return false;
  }
  return true;
}

// The least multiple of whole lines of 8 x bytes, or else of `bytes`, that costs little; n if none does.
static int64_t aligned_columns(int64_t n, NnDtype dtype, int64_t bytes) {
  int64_t least = bytes / nn_dtype_bytes(dtype);
  if (least <= 1 || n % least == 0) return n;
  for (int64_t step = 8 * least; step >= least; step /= 8) {
    int64_t more = (n + step - 1) / step * step;
    if ((more - n) * SPARE <= n) return more;
  }
  return n;
}

static MlirValue padded(NnBuilder *b, MlirValue x, int axis, int64_t more) {
  int64_t none[NN_MAX_RANK] = {0}, high[NN_MAX_RANK] = {0};
  high[axis] = more;
  return nn_pad(b, x, none, high, none, 0);
}

// op with `more` columns; x takes the place of its first operand.
static MlirValue widened(MlirOperation op, MlirValue x, int64_t more) {
  NnBuilder b = rewrite_builder(op);
  NnType type = nn_value_type(result(op));
  type.dim[type.rank - 1] += more;
  if (nn_op_of(op) == NN_OP_cast) return nn_cast(&b, x, type.dtype);
  if (nn_op_of(op) == NN_OP_add) {
    NnType bias = type;
    bias.dtype = nn_value_type(operand(op, 1)).dtype;
    return nn_binary(&b, NN_OP_add, x, nn_broadcast(&b, padded(&b, operand(nn_value_def(operand(op, 1)), 0), 0, more), bias, &(int64_t){type.rank - 1}));
  }
  bool transposed = nn_attr_bool(op, "transpose_b", false);
  return nn_build_like(&b, NN_OP_matmul, op, 2, (MlirValue[]){operand(op, 0), padded(&b, operand(op, 1), transposed ? 0 : 1, more)}, &type);
}

static void move_taps(MlirValue from, MlirValue to) {
  MlirOpOperand next;
  for (MlirOpOperand use = mlirValueGetFirstUse(from); !mlirOpOperandIsNull(use); use = next) {
    next = mlirOpOperandGetNextUse(use);
    MlirOperation tap = mlirOpOperandGetOwner(use);
    if (nn_op_of(tap) != NN_OP_tap) continue;
    mlirOperationSetOperand(tap, 0, to);
    nn_set_attr(tap, &NN_I64("columns", columns_of(from)));
  }
}

// The wider copy of the weights is no larger than the scores: of few rows they are not what takes time and memory.
static bool pays(MlirOperation product) {
  NnType scores = nn_value_type(result(product));
  return nn_type_elements(&scores) / columns_of(result(product)) >= columns_of(operand(product, 0));
}

static void align_scores(MlirOperation loss, int64_t bytes) {
  Scores s;
  if (!find_scores(operand(loss, 0), &s) || nn_has_attr(loss, "classes") || !pays(s.op[0])) return;
  int64_t n = columns_of(operand(loss, 0)), more = aligned_columns(n, nn_value_type(result(s.op[0])).dtype, bytes) - n;
  for (int i = 0; i < s.n; i++)
    if (more == 0 || !is_read_only_by(result(s.op[i]), i + 1 < s.n ? s.op[i + 1] : loss)) return;
  MlirValue x = nn_null_value();
  for (int i = 0; i < s.n; i++) {
    x = widened(s.op[i], x, more);
    move_taps(result(s.op[i]), x);
  }
  NnBuilder b = rewrite_builder(loss);
  MlirOperation made = nn_build(&b, NN_OP_cross_entropy, 2, (MlirValue[]){x, operand(loss, 1)}, 1, &NN_I64("classes", n), NULL);
  rewrite_replace(loss, (MlirValue[]){result(made), mlirOperationGetResult(made, 1)});
  for (int i = s.n - 1; i >= 0; i--) mlirOperationDestroy(s.op[i]);
}

// Requires: composites as the frontend builds them.
// Establishes: scores that a product makes for a cross-entropy, and that nothing else but taps reads, have rows of a multiple of the target's bytes, where that takes few more
// columns and there are at least as many rows as the product is deep; the loss knows how many are classes ("classes"), taps how many to show ("columns").
// Breaks: nothing. Sums over the columns are in another order than before.
bool nn_pass_align(MlirModule module, const NnPassRun *run) {
  const char *option = nn_pass_option(run, "bytes", NULL);
  int64_t bytes = run->target->row_bytes;
  if (option) nn_parse_size(option, &bytes, NULL);
  if (bytes <= 1) return true;
  for (MlirOperation func = mlirBlockGetFirstOperation(mlirModuleGetBody(module)); !mlirOperationIsNull(func); func = mlirOperationGetNextInBlock(func)) {
    if (!nn_is(func, "func.func") || mlirBlockIsNull(nn_function_body(func))) continue;
    int n;
    MlirOperation *ops = rewrite_ops(nn_function_body(func), &n);
    int n_losses = 0;   // the products, biases and casts among the ops end with those of their loss
    for (int i = 0; i < n; i++)
      if (nn_op_of(ops[i]) == NN_OP_cross_entropy) ops[n_losses++] = ops[i];
    for (int i = 0; i < n_losses; i++) align_scores(ops[i], bytes);
    free(ops);
  }
  return true;
}
