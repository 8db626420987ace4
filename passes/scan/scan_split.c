// Loops whose number of steps has no good divisor: a part of the pass autodiff. The gradient goes by segments of one
// length (autodiff_scan.c), and where no length near the root of T divides T, as for a prime number of steps,
// checkpoints inside the loop would save nothing. Such a loop becomes two of the same step, one after the other: all
// steps but the last few, cut into segments as any other, then the rest.
#include <stdlib.h>

#include "passes/autodiff/autodiff.h"
#include "passes/rewrite.h"
#include "support/alloc.h"

// Steps of a segment: what is kept is the carried values at the beginning of each and those of one, so about the root
// of all steps is best. Only whole segments: of 4 steps at least, and 4 of them, else there is one.
enum { LEAST = 4 };

static int64_t segment_length(int64_t steps) {
  int64_t best = steps;
  for (int64_t n = LEAST; n * n <= steps; n++)
    if (steps % n == 0 && n + steps / n < best + steps / best) best = n;
  return best;
}

// Rows of segments have one axis more.
static bool can_be_cut(MlirOperation call, const NnScan *s) {
  bool room = true;
  for (int i = 0; i < s->n_slices; i++) room &= nn_value_type(mlirOperationGetOperand(call, i)).rank < NN_MAX_RANK;
  for (intptr_t r = 0; r < mlirOperationGetNumResults(call); r++)
    room &= nn_value_type(mlirOperationGetResult(call, r)).rank < NN_MAX_RANK;
  return room;
}

int64_t scan_segment_length(MlirOperation call, const NnScan *s) {
  return can_be_cut(call, s) ? segment_length(s->length) : s->length;
}

// Rows that are kept where `rest` steps are apart: between segments, of one, and of the rest.
static int64_t n_kept(int64_t steps, int64_t rest) {
  int64_t length = segment_length(steps - rest);
  return length + (steps - rest) / length + rest;
}

// How many of the last steps are better a loop of their own, so that those before can be cut; 0: none.
static int64_t scan_rest(int64_t steps) {
  enum { MOST = 256 };   // among so many numbers below any there is one with a divisor near its root
  int64_t best = 0;
  if (steps < LEAST * LEAST) return 0;
  for (int64_t rest = 1; rest <= MOST && rest < n_kept(steps, best) && steps - rest >= LEAST * LEAST; rest++)
    if (n_kept(steps, rest) < n_kept(steps, best)) best = rest;
  // two loops in place of one for a third less at least
  return 3 * n_kept(steps, best) <= 2 * n_kept(steps, 0) ? best : 0;
}

// Rows of both parts by their place in the whole. The parts of a stack of carried values share the row between them.
typedef struct Parts {
  MlirValue low, high;
  int64_t boundary;
  bool shared;
} Parts;

static int64_t n_rows(MlirValue v) { return nn_value_type(v).dim[0]; }

static MlirValue rows_of_parts(NnBuilder *b, const Parts *p, int64_t first, int64_t n) {
  int64_t end = first + n;
  if (end <= n_rows(p->low)) return nn_rows(b, p->low, first, n);
  if (first >= p->boundary) return nn_rows(b, p->high, first - p->boundary, n);
  MlirValue both[2] = {nn_rows(b, p->low, first, n_rows(p->low) - first),
                       nn_rows(b, p->high, p->shared, end - p->boundary - p->shared)};
  return nn_concat(b, 2, both, 0);
}

static bool is_slice_of_rows(MlirOperation op, int64_t *first, int64_t *n) {
  int64_t starts[NN_MAX_RANK] = {0}, strides[NN_MAX_RANK];
  if (nn_op_of(op) != NN_OP_slice) return false;
  int rank = nn_attr_i64s(op, "starts", starts, NN_MAX_RANK),
      n_strides = nn_attr_i64s(op, "strides", strides, NN_MAX_RANK);
  NnType t = nn_value_type(mlirOperationGetResult(op, 0)), whole = nn_value_type(mlirOperationGetOperand(op, 0));
  bool only = true;
  for (int i = 1; i < rank; i++) only &= t.dim[i] == whole.dim[i];
  for (int i = 0; i < n_strides; i++) only &= strides[i] == 1;
  *first = starts[0];
  *n = t.dim[0];
  return only;
}

// What reads slices of rows reads those of a part where it can, so that no copy is made of the first, the last and what
// lies between.
static void replace_result(NnBuilder *b, MlirValue old, const Parts *p) {
  for (MlirOpOperand use = mlirValueGetFirstUse(old), next; !mlirOpOperandIsNull(use); use = next) {
    next = mlirOpOperandGetNextUse(use);
    MlirOperation op = mlirOpOperandGetOwner(use);
    int64_t first, n;
    if (!is_slice_of_rows(op, &first, &n)) continue;
    MlirValue now = rows_of_parts(b, p, first, n);
    rewrite_replace(op, &now);
  }
  if (!mlirOpOperandIsNull(mlirValueGetFirstUse(old)))
    mlirValueReplaceAllUsesOfWith(old, rows_of_parts(b, p, 0, n_rows(old)));
}

// The first steps of the loop, or the last: a call of n of them. `before` is that of those before, null: there are
// none.
static MlirOperation call_part(NnBuilder *b, MlirOperation call, NnScan s, int64_t n, MlirOperation before) {
  int n_operands = (int)mlirOperationGetNumOperands(call);
  int64_t first = s.reverse == mlirOperationIsNull(before) ? s.length - n : 0;
  MlirValue *operands = allocate_array((size_t)(n_operands + 1), sizeof *operands);
  for (int i = 0; i < n_operands; i++) {
    operands[i] = mlirOperationGetOperand(call, i);
    int carry = i - s.n_slices;
    if (carry < 0) operands[i] = nn_rows(b, operands[i], first, n);
    if (carry < 0 || carry >= s.n_stacked || mlirOperationIsNull(before)) continue;
    NnType t = nn_value_type(operands[i]);
    MlirValue stack = mlirOperationGetResult(before, carry);
    operands[i] = nn_reshape(b, nn_rows(b, stack, s.reverse ? 0 : n_rows(stack) - 1, 1), t.rank, t.dim);
  }
  MlirModule module = nn_module_of(call);
  char *name = nn_scan_name(&s, mlirOperationIsNull(before) ? "first" : "rest"), *symbol = nn_free_symbol(module, name);
  s.length = n;
  MlirOperation part = nn_scan_build(b, module, symbol, &s, operands);
  if (!mlirOperationIsNull(before)) nn_set_unit(part, ATTR_rest);
  free(name);
  free(symbol);
  free(operands);
  return part;
}

static void split(MlirOperation call, const NnScan *s, int64_t rest) {
  NnBuilder b = rewrite_builder(call);
  MlirOperation first = call_part(&b, call, *s, s->length - rest, nn_null_operation()),
                last = call_part(&b, call, *s, rest, first);
  for (int r = 0; r < s->n_stacked + s->n_outputs; r++) {
    bool shared = r < s->n_stacked;
    MlirValue parts[2] = {mlirOperationGetResult(first, r), mlirOperationGetResult(last, r)};
    Parts p = {.low = parts[s->reverse], .high = parts[!s->reverse], .shared = shared};
    p.boundary = n_rows(p.low) - shared;
    replace_result(&b, mlirOperationGetResult(call, r), &p);
  }
  mlirOperationDestroy(call);
}

void scan_split(MlirModule module) {
  int n_functions;
  MlirOperation *functions = rewrite_ops(mlirModuleGetBody(module), &n_functions);
  for (int f = 0; f < n_functions; f++) {
    if (!nn_is(functions[f], "func.func") || nn_has_attr(functions[f], ATTR_kernel)) continue;
    int n, n_calls = 0;
    MlirOperation *ops = rewrite_ops(nn_function_body(functions[f]), &n);
    NnScan s;
    for (int i = 0; i < n; i++)   // a split ends slices of what the loop gives, which stand in the list
      if (nn_scan_of(ops[i], &s) && s.n_tied == 0 && scan_rest(s.length) && can_be_cut(ops[i], &s))
        ops[n_calls++] = ops[i];
    for (int i = 0; i < n_calls; i++)
      if (nn_scan_of(ops[i], &s)) split(ops[i], &s, scan_rest(s.length));
    free(ops);
  }
  free(functions);
}
