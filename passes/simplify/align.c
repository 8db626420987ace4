// Rows of a loss's scores. A product whose result has an odd number of columns, such as a vocabulary of 50257, has rows
// that begin anywhere: no library multiplies such a matrix at the rate of its tensor cores, and no kernel reads it 16
// bytes at a time. Where only the loss reads it, some columns are added, whose weights are zeros and which the loss
// takes for no classes.
#include <stdlib.h>

#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/simplify/simplify.h"
#include "support/bytes.h"
#include "support/integers.h"

enum { SPARE = 16 };   // at most a sixteenth more columns

// The least multiple of whole lines of 8 x bytes, or else of `bytes`, that costs little; n if none does.
static int64_t aligned_columns(int64_t n, NnDtype dtype, int64_t bytes) {
  int64_t least = bytes / nn_dtype_bytes(dtype);
  if (least <= 1 || n % least == 0) return n;
  for (int64_t step = 8 * least; step >= least; step /= 8) {
    int64_t more = round_up(n, step);
    if ((more - n) * SPARE <= n) return more;
  }
  return n;
}

static MlirValue padded(NnBuilder *b, MlirValue x, int axis, int64_t more) {
  int64_t none[NN_MAX_RANK] = {0}, high[NN_MAX_RANK] = {0};
  high[axis] = more;
  return nn_pad(b, x, none, high, none, 0);
}

// Op i with `more` columns; x takes the place of its first operand.
static MlirValue widened(const Scores *s, int i, MlirValue x, int64_t more) {
  MlirOperation op = s->op[i];
  NnBuilder b = rewrite_builder(op);
  NnType type = nn_value_type(nn_result(op, 0));
  type.dim[type.rank - 1] += more;
  MlirValue parameter = nn_null_value();
  if (nn_op_of(op) == NN_OP_add) parameter = padded(&b, scores_bias(op), 0, more);
  if (nn_op_of(op) == NN_OP_matmul)
    parameter = padded(&b, nn_operand(op, 1), nn_attr_bool(op, "transpose_b", false) ? 0 : 1, more);
  return scores_again(&b, s, i, x, parameter, &type);
}

static void move_taps(MlirValue from, MlirValue to) {
  MlirOpOperand next;
  for (MlirOpOperand use = mlirValueGetFirstUse(from); !mlirOpOperandIsNull(use); use = next) {
    next = mlirOpOperandGetNextUse(use);
    MlirOperation tap = mlirOpOperandGetOwner(use);
    if (nn_op_of(tap) != NN_OP_tap) continue;
    mlirOperationSetOperand(tap, 0, to);
    nn_set_attr(tap, &NN_I64("columns", scores_columns(from)));
  }
}

// The wider copy of the weights is no larger than the scores: of few rows they are not what takes time and memory.
static bool pays(MlirOperation product) {
  NnType scores = nn_value_type(nn_result(product, 0));
  return nn_type_elements(&scores) / scores_columns(nn_result(product, 0)) >= scores_columns(nn_operand(product, 0));
}

static void align_scores(MlirOperation loss, int64_t bytes) {
  Scores s;
  if (!scores_find(nn_operand(loss, 0), &s) || nn_has_attr(loss, "classes") || !pays(s.op[0])) return;
  int64_t n = scores_columns(nn_operand(loss, 0)),
          more = aligned_columns(n, nn_value_dtype(nn_result(s.op[0], 0)), bytes) - n;
  if (more == 0 || !scores_are_private(&s, loss)) return;
  MlirValue x = nn_operand(s.op[0], 0);
  for (int i = 0; i < s.n; i++) {
    x = widened(&s, i, x, more);
    move_taps(nn_result(s.op[i], 0), x);
  }
  NnBuilder b = rewrite_builder(loss);
  MlirOperation made = nn_build(&b, NN_OP_cross_entropy, 2, (MlirValue[]){x, nn_operand(loss, 1)}, 1,
                                &NN_I64("classes", n), NULL);
  rewrite_replace(loss, (MlirValue[]){nn_result(made, 0), mlirOperationGetResult(made, 1)});
  for (int i = s.n - 1; i >= 0; i--) mlirOperationDestroy(s.op[i]);
}

// Requires: composites as the frontend builds them.
// Establishes: scores that a product makes for a cross-entropy, and that nothing else but taps reads, have rows of a
// multiple of the target's bytes, where that takes few more columns and there are at least as many rows as the product
// is deep; the loss knows how many are classes ("classes"), taps how many to show ("columns"). Breaks: nothing. Sums
// over the columns are in another order than before.
bool nn_pass_align(MlirModule module, const NnPassRun *run) {
  const char *option = nn_pass_option(run, "bytes", NULL);
  int64_t bytes = run->target->row_bytes;
  if (option) parse_bytes(option, &bytes, NULL);
  if (bytes <= 1) return true;
  NN_FOREACH_OP (func, mlirModuleGetBody(module)) {
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
