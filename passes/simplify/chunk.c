// The pass `chunk`: a loss over a large vocabulary, a part of its rows at a time. The scores of a language model and
// their gradient are the largest tensors of a step, each needed for a moment. In chunks of rows, each with its gradient
// made right behind its loss, only a chunk of them lives at once; gradients of the weights are added up over the
// chunks. (The same is done by hand in Liger Kernel, Hsu et al., 2024, and in Cut Cross-Entropy, Wijmans et al., 2024,
// within one kernel.)
#include <stdlib.h>
#include <string.h>

#include "passes/autodiff/autodiff.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/simplify/simplify.h"
#include "support/bytes.h"
#include "support/integers.h"

enum {
  TILE_ROWS = 128,           // of a GPU's product: the rows of a chunk are whole tiles
  LEAST_SCORES = 32 << 20,   // bytes of scores that are cut, and of a chunk: fewer are no part of a step's memory
};

typedef struct Least {
  int64_t rows, bytes;
} Least;   // of a chunk of the scores

static int64_t rows_of(MlirValue scores) {
  NnType t = nn_value_type(scores);
  return nn_type_elements(&t) / scores_columns(scores);
}

// How many chunks the rows are best cut into: each takes so many rows that going over the gradient of the weights once
// more costs little beside the products. 0: the scores are too few to care.
static int64_t chunks(const Scores *s, const Least *least) {
  MlirValue product = nn_result(s->op[0], 0);
  NnType t = nn_value_type(product);
  int64_t row_bytes = scores_columns(product) * nn_dtype_bytes(t.dtype), n = rows_of(product) / least->rows;
  if (nn_type_bytes(&t) < least->bytes) return 0;
  while (n > 1 && rows_of(product) / n * row_bytes < least->bytes) n--;
  return n < 1 ? 1 : n > NN_MAX_CHUNKS ? NN_MAX_CHUNKS : n;
}

static void tap_rows(NnBuilder *b, MlirValue chunk, MlirStringRef name, const char *role, int64_t columns,
                     int64_t first, const NnType *whole) {
  char *copy = nn_string_copy(name);
  NnAttr attrs[] = {NN_STR("name", copy), NN_I64("columns", columns), NN_I64("first", first),
                    NN_I64S("shape", whole->dim, whole->rank), NN_STR("role", role)};
  nn_build(b, NN_OP_tap, 1, &chunk, role ? 5 : 4, attrs, NULL);
  free(copy);
}

// The taps of v show the rows of a chunk of it.
static void tap_chunk(NnBuilder *b, MlirValue v, MlirValue chunk, int64_t first) {
  NnType t = nn_value_type(v);
  NN_FOREACH_USE (use, v) {
    MlirOperation tap = mlirOpOperandGetOwner(use);
    if (nn_op_of(tap) != NN_OP_tap) continue;
    MlirStringRef name = mlirStringAttrGetValue(nn_attribute(tap, "name"));
    tap_rows(b, chunk, name, NULL, nn_attr_i64(tap, "columns", scores_columns(v)), first, &t);
  }
}

static void erase_with_taps(MlirOperation op) {
  for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++) {
    MlirOpOperand use;
    while (!mlirOpOperandIsNull(use = mlirValueGetFirstUse(nn_result(op, (int)r))))
      mlirOperationDestroy(mlirOpOperandGetOwner(use));
  }
  mlirOperationDestroy(op);
}

// The scores of a chunk. Only the product is in memory by itself, so that only its taps are kept.
static MlirValue build_chunk(NnBuilder *b, const Scores *s, MlirValue x, int64_t first, int64_t rows) {
  MlirValue v = nn_rows(b, x, first, rows);
  NnType type = {.rank = 2, .dim = {rows, scores_columns(nn_result(s->op[0], 0))}};
  for (int i = 0; i < s->n; i++) {
    NnOp kind = nn_op_of(s->op[i]);
    v = scores_again(b, s, i, v,
                     kind == NN_OP_add      ? scores_bias(s->op[i])
                     : kind == NN_OP_matmul ? nn_operand(s->op[i], 1)
                                            : nn_null_value(),
                     &type);
    if (i == 0) tap_chunk(b, nn_result(s->op[i], 0), v, first);
  }
  return v;
}

// the product's first operand as a matrix; rows of a chunk
typedef struct Rows {
  MlirValue x;
  int64_t n, each;
} Rows;

static Rows cut(NnBuilder *b, const Scores *s, int64_t n) {
  NnType x = nn_value_type(nn_operand(s->op[0], 0));
  Rows r = {.n = rows_of(nn_result(s->op[0], 0))};
  r.x = nn_reshape(b, nn_operand(s->op[0], 0), 2, (int64_t[]){r.n, x.dim[x.rank - 1]});
  r.each = divide_up(divide_up(r.n, TILE_ROWS), n) * TILE_ROWS;
  return r;
}

static void split_loss(const Scores *s, MlirOperation loss, int64_t n, const char *phase) {
  NnBuilder b = rewrite_builder(loss);
  if (phase) b.phase = phase;
  Rows rows = cut(&b, s, n);
  MlirValue part[2][NN_MAX_CHUNKS + 1], whole[2], labels = nn_reshape(&b, nn_operand(loss, 1), 1, &rows.n);
  NnType loss_type = nn_value_type(nn_result(loss, 0));
  int64_t classes = nn_attr_i64(loss, "classes", 0);
  int made = 0;
  for (int64_t first = 0; first < rows.n; first += rows.each, made++) {
    int64_t each = first + rows.each < rows.n ? rows.each : rows.n - first;
    MlirValue operands[] = {build_chunk(&b, s, rows.x, first, each), nn_rows(&b, labels, first, each)};
    MlirOperation chunk = nn_build(&b, NN_OP_cross_entropy, 2, operands, classes ? 1 : 0, &NN_I64("classes", classes),
                                   NULL);
    for (int r = 0; r < 2; r++) part[r][made] = nn_result(chunk, r);
  }
  for (int r = 0; r < 2; r++) whole[r] = nn_reshape(&b, nn_concat(&b, made, part[r], 0), loss_type.rank, loss_type.dim);
  rewrite_replace(loss, whole);
  for (int i = s->n - 1; i >= 0; i--) erase_with_taps(s->op[i]);
}

// The one result of a function leaves it as taps of its chunks.
static void split_result(MlirOperation func, const Least *least) {
  Scores s;
  MlirOperation end = nn_function_return(func);
  char role[16];
  if (nn_function_n_results(func) != 1 || mlirAttributeIsNull(nn_result_attr(func, 0, ATTR_name)) ||
      strcmp(nn_result_str(func, 0, ATTR_role, role, sizeof role, ""), "output") != 0 ||
      !scores_find(nn_operand(end, 0), &s) || !scores_are_private(&s, end))
    return;
  int64_t n = chunks(&s, least);
  if (n < 2) return;
  MlirValue scores = nn_operand(end, 0);
  NnType whole = nn_value_type(scores);
  MlirStringRef name = mlirStringAttrGetValue(nn_result_attr(func, 0, ATTR_name));
  NnBuilder b = rewrite_builder(end);
  b.phase = rewrite_phase(s.op[0]);
  Rows rows = cut(&b, &s, n);
  for (int64_t first = 0; first < rows.n; first += rows.each)
    tap_rows(&b, build_chunk(&b, &s, rows.x, first, first + rows.each < rows.n ? rows.each : rows.n - first), name,
             "output", scores_columns(scores), first, &whole);
  Signature signature = signature_of(func);
  signature.n_results = 0;
  signature_finish(&signature);
  for (int i = s.n - 1; i >= 0; i--) erase_with_taps(s.op[i]);
}

// Made where its gradient is: a kernel then makes both.
static void mark(const Scores *s, MlirOperation loss, const char *phase) {
  nn_set_attr(loss, &NN_STR(ATTR_phase, phase));
  for (int i = 0; i < s->n; i++) {
    nn_set_attr(s->op[i], &NN_STR(ATTR_phase, phase));
    MlirOpOperand next;
    for (MlirOpOperand use = mlirValueGetFirstUse(nn_result(s->op[i], 0)); !mlirOpOperandIsNull(use); use = next) {
      next = mlirOpOperandGetNextUse(use);
      MlirOperation tap = mlirOpOperandGetOwner(use);
      if (nn_op_of(tap) != NN_OP_tap) continue;
      if (i == 0) nn_set_attr(tap, &NN_STR(ATTR_phase, phase));
      else mlirOperationDestroy(tap);
    }
  }
}

static bool has_bias(const Scores *s) {
  for (int i = 0; i < s->n; i++)
    if (nn_op_of(s->op[i]) == NN_OP_add) return true;
  return false;
}

static void chunk_losses(MlirOperation func, const Least *least, const char *phase) {
  int n, n_losses = 0;
  MlirOperation *ops = rewrite_ops(nn_function_body(func), &n);
  for (int i = 0; i < n; i++)   // the others end with those of their loss
    if (nn_op_of(ops[i]) == NN_OP_cross_entropy) ops[n_losses++] = ops[i];
  for (int i = 0; i < n_losses; i++) {
    Scores s;
    if (!scores_find(nn_operand(ops[i], 0), &s) || !scores_are_private(&s, ops[i])) continue;
    int64_t parts = chunks(&s, least);
    // The gradient of a bias is a sum over all rows, made with its update: the chunks would wait for each other.
    if (phase && has_bias(&s) && parts > 1) parts = 1;
    if (parts > 1) split_loss(&s, ops[i], parts, phase);
    else if (parts == 1 && phase) mark(&s, ops[i], phase);
  }
  free(ops);
}

// Requires: losses as the frontend builds them (with the columns of align).
// Establishes: private scores of a cross-entropy of 32 MiB and more are made in chunks of rows, whose number follows
// from the sizes alone. In @train they and the loss have the phase "backward": autodiff moves each chunk to where its
// gradient is made. Where the target's programs fetch results while they run, the scores that are the one result of
// @predict are chunks, too, each a tap with the role "output", and the function returns nothing.
// Breaks: nothing. Sums over rows, of the loss and of the gradient of the weights, are in another order than before.
bool nn_pass_chunk(MlirModule module, const NnPassRun *run) {
  const char *rows = nn_pass_option(run, "rows", NULL), *bytes = nn_pass_option(run, "bytes", NULL);
  Least least = {.rows = rows ? strtoll(rows, NULL, 10) : run->target->loss_rows, .bytes = LEAST_SCORES};
  if (bytes) parse_bytes(bytes, &least.bytes, NULL);
  if (least.rows <= 0) return true;
  NN_FOREACH_OP (func, mlirModuleGetBody(module)) {
    if (!nn_is(func, "func.func") || mlirBlockIsNull(nn_function_body(func))) continue;
    bool trains = nn_is_train(func) && nn_has_attr(mlirModuleGetOperation(module), ATTR_optimizer);
    chunk_losses(func, &least, trains ? "backward" : NULL);
    if (nn_is_predict(func) && run->target->streams_results) split_result(func, &least);
  }
  return true;
}
