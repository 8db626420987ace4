// Other forms of a loop and its gradient, for the pass remat. With more memory the forward loop keeps what the library
// computes in each step, too, or what is made of it (scan_keep.c), and the gradient does not do that again. With less
// it keeps the carried values at the beginning of each segment only, and the gradient computes those of a segment again
// from there: T / s + s rows in place of T, at the time of one more forward loop, of two where it does not keep what
// the library computes meanwhile. Steps are the same ops in all forms, and sums have the same order (autodiff_scan.c),
// so the bits are the same.
#include <stdio.h>
#include <stdlib.h>

#include "passes/rewrite.h"
#include "passes/scan/scan.h"
#include "support/alloc.h"
#include "support/text.h"

static NnBuilder builder_of(MlirOperation op, MlirBlock block) {
  NnBuilder b = nn_builder_at_end(block, mlirOperationGetLocation(op));
  b.phase = rewrite_phase(op);
  return b;
}

// ---------------------------------------------------------------------------------------------------------------------
// Which loops have another form

// What a slice of the rows of a carried value is.
typedef enum Part { PART_BEFORE, PART_AFTER, PART_LAST, PART_INITIAL, PART_OTHER } Part;

static Part part_of(const NnScan *f, MlirOperation op) {
  if (nn_op_of(op) != NN_OP_slice || !nn_is_alias(op)) return PART_OTHER;
  int64_t first[NN_MAX_RANK] = {0};
  nn_attr_i64s(op, "starts", first, NN_MAX_RANK);
  NnType t = nn_value_type(mlirOperationGetResult(op, 0)), whole = nn_value_type(mlirOperationGetOperand(op, 0));
  for (int i = 1; i < t.rank; i++)
    if (t.dim[i] != whole.dim[i]) return PART_OTHER;
  if (t.dim[0] == f->length) return first[0] == f->reverse ? PART_BEFORE : PART_AFTER;
  if (t.dim[0] != 1) return PART_OTHER;
  if (first[0] == (f->reverse ? 0 : f->length)) return PART_LAST;
  return first[0] == (f->reverse ? f->length : 0) ? PART_INITIAL : PART_OTHER;
}

// The rows before each step are read by the gradient alone, cut into segments.
static bool only_in_segments(MlirValue rows, MlirOperation backward) {
  NN_FOREACH_USE (use, rows) {
    MlirOperation op = mlirOpOperandGetOwner(use);
    if (nn_op_of(op) != NN_OP_reshape) return false;
    NN_FOREACH_USE (inner, mlirOperationGetResult(op, 0))
      if (!mlirOperationEqual(mlirOpOperandGetOwner(inner), backward)) return false;
  }
  return true;
}

static bool has_segments(const ScanPair *p) {
  const NnScan *f = &p->f;
  if (f->n_tied || p->b.n_slices < f->n_slices + f->n_stacked || f->length % p->b.length || f->length == p->b.length)
    return false;
  for (int r = 0; r < f->n_stacked; r++) {
    NN_FOREACH_USE (use, mlirOperationGetResult(p->forward, r)) {
      MlirOperation op = mlirOpOperandGetOwner(use);
      Part part = part_of(f, op);
      if (part == PART_OTHER || (part == PART_BEFORE && !only_in_segments(mlirOperationGetResult(op, 0), p->backward)))
        return false;
    }
  }
  return true;
}

MlirOperation scan_segment_call(const ScanPair *p) {
  if (p->b.length == p->f.length) return p->backward;
  MlirOperation op = mlirBlockGetFirstOperation(nn_function_body(p->b.body));
  while (!nn_has_attr(op, ATTR_scan)) op = mlirOperationGetNextInBlock(op);
  return op;
}

int scan_pairs_find(MlirOperation func, ScanPair *out, int max) {
  NnStepList list = nn_flatten(func);
  int n = 0;
  for (int i = 0; i < list.n && n < max; i++) {
    MlirAttribute forward = list.items[i].role == NN_STEP_RUN ? nn_attribute(list.items[i].op, ATTR_forward)
                                                              : mlirAttributeGetNull();
    ScanPair p = {.backward = list.items[i].op};
    int calls = 0;
    for (int k = 0; k < i && !mlirAttributeIsNull(forward); k++) {
      MlirAttribute callee = list.items[k].role == NN_STEP_RUN && nn_has_attr(list.items[k].op, ATTR_scan)
                                 ? nn_attribute(list.items[k].op, "callee")
                                 : mlirAttributeGetNull();
      if (mlirAttributeIsNull(callee) ||
          !mlirStringRefEqual(mlirFlatSymbolRefAttrGetValue(callee), mlirStringAttrGetValue(forward)))
        continue;
      p.forward = list.items[k].op;
      calls++;
    }
    if (calls != 1 || !nn_scan_of(p.forward, &p.f) || !nn_scan_of(p.backward, &p.b)) continue;
    if (nn_has_attr(p.forward, ATTR_rest)) continue;   // a few steps
    nn_scan_of(scan_segment_call(&p), &p.steps);
    p.has[SCAN_ROWS] = true;
    p.has[SCAN_SEGMENTS] = has_segments(&p);
    ScanKept kept = scan_find_kept(&p, false);
    p.has[SCAN_PRODUCTS] = kept.n > 0;
    scan_kept_free(&kept);
    p.has[SCAN_SEGMENT_PRODUCTS] = p.has[SCAN_SEGMENTS] && p.has[SCAN_PRODUCTS];
    if (p.has[SCAN_SEGMENTS] || p.has[SCAN_PRODUCTS]) out[n++] = p;
  }
  nn_steps_free(&list);
  return n;
}

// ---------------------------------------------------------------------------------------------------------------------
// Functions

// A function made of the ops of another: what stands for its values.
typedef struct Copy {
  MlirOperation func;
  MlirBlock block;
  PtrMap ids;   // value of the old function -> now
  int n;
  MlirValue *now;   // Owned
} Copy;

static Copy copy_begin(MlirModule module, const char *name, MlirOperation like) {
  char *symbol = nn_free_symbol(module, name);
  Copy c = {.func = nn_function_create(module, symbol, false, mlirOperationGetLocation(like))};
  c.block = nn_function_body(c.func);
  nn_set_unit(c.func, ATTR_scan_body);
  free(symbol);
  return c;
}

static void stand_for(Copy *c, MlirValue old, MlirValue now) {
  ptr_map_set(&c->ids, old.ptr, c->n);
  *ARRAY_ADD(c->now, c->n) = now;
}

static MlirValue current(const Copy *c, MlirValue old) { return c->now[ptr_map_get(&c->ids, old.ptr)]; }

static MlirValue argument_of(MlirOperation func, int i) { return mlirBlockGetArgument(nn_function_body(func), i); }

static MlirValue add_arg(Copy *c, NnType type) {
  return nn_function_add_arg(c->func, type, mlirOperationGetLocation(c->func), 0, NULL);
}

static void copy_args(Copy *c, MlirOperation from, int first, int n) {
  for (int i = first; i < first + n; i++)
    stand_for(c, argument_of(from, i), add_arg(c, nn_value_type(argument_of(from, i))));
}

static bool is_known(const Copy *c, MlirOperation op) {
  return mlirOperationGetNumResults(op) > 0 && ptr_map_get(&c->ids, mlirOperationGetResult(op, 0).ptr) >= 0;
}

// The ops for which nothing stands yet, without what a plan has said about them; up to `end`, the return.
static void copy_ops(Copy *c, MlirOperation first, MlirOperation end) {
  static const char *const plan[] = {ATTR_offset, ATTR_inplace, ATTR_workspace, ATTR_workspace_bytes};
  for (MlirOperation from = first; !mlirOperationEqual(from, end); from = mlirOperationGetNextInBlock(from)) {
    if (is_known(c, from)) continue;
    MlirOperation op = mlirOperationClone(from);
    for (intptr_t k = 0; k < mlirOperationGetNumOperands(op); k++)
      mlirOperationSetOperand(op, k, current(c, mlirOperationGetOperand(from, k)));
    for (size_t k = 0; k < sizeof plan / sizeof *plan; k++)
      mlirOperationRemoveAttributeByName(op, nn_string_ref(plan[k]));
    mlirBlockAppendOwnedOperation(c->block, op);
    for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++)
      stand_for(c, mlirOperationGetResult(from, r), mlirOperationGetResult(op, r));
  }
}

static void copy_all_ops(Copy *c, MlirOperation func) {
  copy_ops(c, mlirBlockGetFirstOperation(nn_function_body(func)), nn_function_return(func));
}

static void erase_unused(MlirBlock block) {
  int n;
  MlirOperation *ops = rewrite_ops(block, &n);
  for (int i = n - 2; i >= 0; i--)   // the return aside
    if (rewrite_is_unused(ops[i])) mlirOperationDestroy(ops[i]);
  free(ops);
}

// Takes the slices that the step of `s` does not read out of its arguments; unread[i]: i was one of them.
static void drop_unread(MlirOperation func, NnScan *s, bool *unread) {
  for (int i = s->n_slices - 1; i >= 0; i--) {
    unread[i] = mlirOpOperandIsNull(mlirValueGetFirstUse(argument_of(func, i)));
    if (!unread[i]) continue;
    nn_function_remove_arg(func, i);
    s->n_slices--;
  }
}

// `all` without the operands for slices that are not read; of n.
static void read_operands(MlirValue *all, int n, const bool *unread, int n_slices) {
  int left = 0;
  for (int i = 0; i < n; i++)
    if (i >= n_slices || !unread[i]) all[left++] = all[i];
}

// Ends the step of `s`, whose results are `values`, with a plan. `unread`: per slice, NULL: slices stay whether they
// are read or not.
static MlirOperation copy_end(Copy *c, MlirModule module, NnScan *s, const MlirValue *values, bool *unread,
                              const NnTarget *target) {
  nn_function_set_results(c->func, s->n_stacked + s->n_tied + s->n_outputs, values, 0);
  erase_unused(c->block);
  if (unread) drop_unread(c->func, s, unread);
  for (int i = 0; i < s->n_tied; i++)
    nn_set_result_attr(c->func, s->n_stacked + i, &NN_I64(ATTR_tied, s->n_slices + s->n_stacked + i));
  s->body = c->func;
  plan_scan(module, s, target);
  ptr_map_free(&c->ids);
  free(c->now);
  return c->func;
}

static NnType segment_type(NnType row, int64_t length) {
  for (int i = row.rank++; i > 0; i--) row.dim[i] = row.dim[i - 1];
  row.dim[0] = length;
  return row;
}

// ---------------------------------------------------------------------------------------------------------------------
// The forward loop

static bool has_rows_after(const ScanPair *p, int r) {
  NN_FOREACH_USE (use, mlirOperationGetResult(p->forward, r))
    if (part_of(&p->f, mlirOpOperandGetOwner(use)) == PART_AFTER) return true;
  return false;
}

// The step, with carried values that it overwrites; those of whose rows somebody reads are outputs, too.
static NnScan make_steps(MlirModule module, const ScanPair *p, int64_t length, const NnTarget *target) {
  const NnScan *f = &p->f;
  NnScan s = {.length = length,
              .reverse = f->reverse,
              .n_slices = f->n_slices,
              .n_tied = f->n_stacked,
              .n_invariants = f->n_invariants,
              .n_outputs = f->n_outputs};
  char *name = nn_scan_name(f, "steps_body");
  Copy c = copy_begin(module, name, f->body);
  copy_args(&c, f->body, 0, f->n_slices + f->n_stacked + f->n_invariants);
  copy_all_ops(&c, f->body);
  MlirOperation end = nn_function_return(f->body);
  MlirValue *values = allocate_array((size_t)(2 * f->n_stacked + f->n_outputs), sizeof *values);
  int n = 0;
  for (int r = 0; r < f->n_stacked; r++) values[n++] = current(&c, mlirOperationGetOperand(end, r));
  for (int r = 0; r < f->n_stacked; r++) {
    if (!has_rows_after(p, r)) continue;
    values[n++] = values[r];
    s.n_outputs++;
  }
  for (int r = 0; r < f->n_outputs; r++) values[n++] = current(&c, mlirOperationGetOperand(end, f->n_stacked + r));
  copy_end(&c, module, &s, values, NULL, target);
  free(values);
  free(name);
  return s;
}

// A loop inside of another's step: `steps`, in a function named after the loop and the suffix.
static MlirOperation build_inner(NnBuilder *b, MlirModule module, const NnScan *f, const char *suffix,
                                 const NnScan *steps, const MlirValue *operands) {
  char *name = nn_scan_name(f, suffix), *symbol = nn_free_symbol(module, name);
  MlirOperation call = nn_scan_build(b, module, symbol, steps, operands);
  free(symbol);
  free(name);
  return call;
}

// The loop over segments: its carried values are stacked.
static NnScan make_segments(MlirModule module, const ScanPair *p, int64_t length, const NnTarget *target) {
  const NnScan *f = &p->f;
  NnScan steps = make_steps(module, p, length, target);
  NnScan s = {.length = f->length / length,
              .reverse = f->reverse,
              .n_slices = f->n_slices,
              .n_stacked = f->n_stacked,
              .n_invariants = f->n_invariants,
              .n_outputs = steps.n_outputs};
  char *name = nn_scan_name(f, "segments_body");
  Copy c = copy_begin(module, name, f->body);
  int n_args = f->n_slices + f->n_stacked + f->n_invariants;
  MlirValue *operands = allocate_array((size_t)n_args, sizeof *operands);
  for (int i = 0; i < n_args; i++) {
    NnType row = nn_value_type(argument_of(f->body, i));
    operands[i] = add_arg(&c, i < f->n_slices ? segment_type(row, length) : row);
  }
  NnBuilder b = builder_of(p->forward, c.block);
  MlirOperation call = build_inner(&b, module, f, "steps", &steps, operands);
  int n = (int)mlirOperationGetNumResults(call);
  MlirValue *values = allocate_array((size_t)n, sizeof *values);
  for (int r = 0; r < n; r++) values[r] = mlirOperationGetResult(call, r);
  copy_end(&c, module, &s, values, NULL, target);
  free(values);
  free(operands);
  free(name);
  return s;
}

static MlirValue cut(NnBuilder *b, MlirValue stack, int64_t length) {
  NnType t = nn_value_type(stack);
  for (int i = t.rank++; i > 1; i--) t.dim[i] = t.dim[i - 1];
  t.dim[0] /= t.dim[1] = length;
  return nn_reshape(b, stack, t.rank, t.dim);
}

static MlirValue whole(NnBuilder *b, MlirValue segments) {
  NnType t = nn_value_type(segments);
  t.dim[1] *= t.dim[0];
  for (int i = 1; i < t.rank; i++) t.dim[i - 1] = t.dim[i];
  return nn_reshape(b, segments, t.rank - 1, t.dim);
}

// What reads slices of the rows of carry r reads the same of `stack`, the values between segments, or of `after`.
static void replace_slices(NnBuilder *b, const ScanPair *p, int r, MlirValue stack, MlirValue after) {
  MlirValue old = mlirOperationGetResult(p->forward, r);
  for (MlirOpOperand use = mlirValueGetFirstUse(old); !mlirOpOperandIsNull(use); use = mlirValueGetFirstUse(old)) {
    MlirOperation op = mlirOpOperandGetOwner(use);
    Part part = part_of(&p->f, op);
    MlirValue now = part == PART_AFTER ? after
                                       : nn_rows(b, stack, (part == PART_LAST) == p->f.reverse ? 0 : p->b.length, 1);
    rewrite_replace(op, &now);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// What is not computed again

// The forward step with the kept results as outputs.
static NnScan keep_in_step(MlirModule module, const ScanPair *p, const ScanKept *k, const NnTarget *target) {
  NnScan s = p->f;
  int n = s.n_stacked + s.n_outputs, n_args = s.n_slices + s.n_stacked + s.n_invariants;
  s.n_outputs += k->n;
  char *name = nn_scan_name(&p->f, "keeping_body");
  Copy c = copy_begin(module, name, p->f.body);
  copy_args(&c, p->f.body, 0, n_args);
  copy_all_ops(&c, p->f.body);
  MlirValue *values = allocate_array((size_t)(n + k->n), sizeof *values);
  for (int r = 0; r < n; r++) values[r] = current(&c, mlirOperationGetOperand(nn_function_return(p->f.body), r));
  for (int i = 0; i < k->n; i++) values[n + i] = current(&c, k->forward[i]);
  copy_end(&c, module, &s, values, NULL, target);
  free(values);
  free(name);
  return s;
}

static void copy_results(Copy *c, MlirModule module, NnScan *s, MlirOperation from, bool *unread,
                         const NnTarget *target) {
  int n = s->n_tied + s->n_outputs;
  MlirValue *values = allocate_array((size_t)n, sizeof *values);
  for (int r = 0; r < n; r++) values[r] = current(c, mlirOperationGetOperand(nn_function_return(from), r));
  copy_end(c, module, s, values, unread, target);
  free(values);
}

// A step of the gradient that reads them: as slices behind its own. unread: of all of these, those that it does
// without.
static NnScan read_in_step(MlirModule module, const ScanPair *p, const ScanKept *k, bool *unread,
                           const NnTarget *target) {
  NnScan s = p->steps;
  int n_args = s.n_slices + s.n_tied + s.n_invariants;
  char *name = nn_scan_name(&p->f, "reading_body");
  Copy c = copy_begin(module, name, s.body);
  MlirOperation from = s.body;
  copy_args(&c, from, 0, s.n_slices);
  for (int i = 0; i < k->n; i++) stand_for(&c, k->back[i], add_arg(&c, nn_value_type(k->back[i])));
  copy_args(&c, from, s.n_slices, n_args - s.n_slices);
  copy_all_ops(&c, from);
  s.n_slices += k->n;
  copy_results(&c, module, &s, from, unread, target);
  free(name);
  return s;
}

// The ops of a segment, the step of the gradient's loop over segments, around a call of such steps: rows[i] are those
// of the i-th value that is kept.
static void copy_segment(Copy *c, MlirModule module, const ScanPair *p, const ScanKept *k, const NnScan *steps,
                         const bool *unread, const MlirValue *rows) {
  MlirOperation from = p->b.body, old = scan_segment_call(p);
  int n_old = (int)mlirOperationGetNumOperands(old);
  MlirValue *operands = allocate_array((size_t)(n_old + k->n), sizeof *operands);
  copy_ops(c, mlirBlockGetFirstOperation(nn_function_body(from)), old);
  for (int i = 0; i < n_old; i++)
    operands[i < p->steps.n_slices ? i : i + k->n] = current(c, mlirOperationGetOperand(old, i));
  for (int i = 0; i < k->n; i++) operands[p->steps.n_slices + i] = rows[i];
  read_operands(operands, n_old + k->n, unread, p->steps.n_slices + k->n);
  NnBuilder b = builder_of(p->backward, c->block);
  MlirOperation call = build_inner(&b, module, &p->f, "reading", steps, operands);
  for (intptr_t r = 0; r < mlirOperationGetNumResults(old); r++)
    stand_for(c, mlirOperationGetResult(old, r), mlirOperationGetResult(call, r));
  copy_ops(c, mlirOperationGetNextInBlock(old), nn_function_return(from));
  free(operands);
}

// A segment of such steps, whose rows come from outside. unread: what the steps do without, then what the segment does.
static NnScan read_in_segment(MlirModule module, const ScanPair *p, const ScanKept *k, const NnScan *steps,
                              bool *unread, const NnTarget *target) {
  NnScan s = p->b;
  int n_args = s.n_slices + s.n_tied + s.n_invariants;
  char *name = nn_scan_name(&p->f, "reading_segment_body");
  Copy c = copy_begin(module, name, s.body);
  MlirOperation from = s.body;
  MlirValue *rows = allocate_array((size_t)k->n, sizeof *rows);
  copy_args(&c, from, 0, s.n_slices);
  for (int i = 0; i < k->n; i++) rows[i] = add_arg(&c, segment_type(nn_value_type(k->forward[i]), p->steps.length));
  copy_args(&c, from, s.n_slices, n_args - s.n_slices);
  copy_segment(&c, module, p, k, steps, unread, rows);
  s.n_slices += k->n;
  copy_results(&c, module, &s, from, unread, target);
  free(rows);
  free(name);
  return s;
}

// ---------------------------------------------------------------------------------------------------------------------
// The gradient

// A segment: its carried values again, with what the library computes in each step where `k` is given, then what it
// was.
static NnScan make_again(MlirModule module, const ScanPair *p, const ScanKept *k, int64_t length,
                         const NnTarget *target) {
  const NnScan *f = &p->f;
  NnScan again = k ? keep_in_step(module, p, k, target) : *f, s = p->b;
  again.length = length;
  s.n_invariants += f->n_invariants;
  char *name = nn_scan_name(f, "again_body");
  Copy c = copy_begin(module, name, p->b.body);
  int n_carries = f->n_slices + f->n_stacked, n_own = p->b.n_slices + p->b.n_tied + p->b.n_invariants,
      n_operands = n_carries + f->n_invariants;
  MlirValue *operands = allocate_array((size_t)n_operands, sizeof *operands);
  copy_args(&c, p->b.body, 0, f->n_slices);
  for (int r = 0; r < f->n_stacked; r++)
    operands[f->n_slices + r] = add_arg(&c, nn_value_type(argument_of(f->body, f->n_slices + r)));
  copy_args(&c, p->b.body, n_carries, n_own - n_carries);
  for (int i = 0; i < f->n_slices; i++) operands[i] = current(&c, argument_of(p->b.body, i));
  for (int i = n_carries; i < n_operands; i++) operands[i] = add_arg(&c, nn_value_type(argument_of(f->body, i)));
  NnBuilder b = builder_of(p->backward, c.block);
  MlirOperation call = build_inner(&b, module, f, "again", &again, operands);
  for (int r = 0; r < f->n_stacked; r++)
    stand_for(&c, argument_of(p->b.body, f->n_slices + r),
              nn_rows(&b, mlirOperationGetResult(call, r), f->reverse, length));
  if (k) {
    bool *unread = allocate_array((size_t)(p->steps.n_slices + k->n), sizeof *unread);
    NnScan steps = read_in_step(module, p, k, unread, target);
    MlirValue *rows = allocate_array((size_t)k->n, sizeof *rows);
    for (int i = 0; i < k->n; i++) rows[i] = mlirOperationGetResult(call, f->n_stacked + f->n_outputs + i);
    copy_segment(&c, module, p, k, &steps, unread, rows);
    free(unread);
    free(rows);
  } else {
    copy_all_ops(&c, p->b.body);
  }
  copy_results(&c, module, &s, p->b.body, NULL, target);
  free(operands);
  free(name);
  return s;
}

// `label` says in tables what the loop does.
static MlirOperation call_scan(NnBuilder *b, MlirModule module, const ScanPair *p, const NnScan *s, const char *suffix,
                               const MlirValue *operands, const char *label) {
  char *name = nn_scan_name(&p->f, suffix), *symbol = nn_free_symbol(module, name);
  MlirOperation call = nn_scan_build(b, module, symbol, s, operands);
  nn_set_attr(nn_module_function(module, symbol), &NN_STR(ATTR_label, label));
  free(symbol);
  free(name);
  return call;
}

// The first results of `call` are those of `old`.
static void replace_call(MlirOperation old, MlirOperation call) {
  int n = (int)mlirOperationGetNumResults(old);
  MlirValue *results = allocate_array((size_t)n, sizeof *results);
  for (int r = 0; r < n; r++) results[r] = mlirOperationGetResult(call, r);
  rewrite_replace(old, results);
  free(results);
}

static void replace_backward(MlirModule module, const ScanPair *p, const NnScan *s, MlirOperation segments) {
  const NnScan *f = &p->f;
  NnBuilder b = rewrite_builder(p->backward);
  int n_own = p->b.n_slices + p->b.n_tied + p->b.n_invariants, n = n_own + f->n_invariants;
  MlirValue *operands = allocate_array((size_t)n, sizeof *operands);
  for (int i = 0; i < n_own; i++) operands[i] = mlirOperationGetOperand(p->backward, i);
  for (int r = 0; r < f->n_stacked; r++)
    operands[f->n_slices + r] = nn_rows(&b, mlirOperationGetResult(segments, r), f->reverse, p->b.length);
  for (int i = 0; i < f->n_invariants; i++)
    operands[n_own + i] = mlirOperationGetOperand(p->forward, f->n_slices + f->n_stacked + i);
  char label[64];
  snprintf(label, sizeof label, "scan, again from every %lld", (long long)(f->length / p->b.length));
  MlirOperation call = call_scan(&b, module, p, s, "backward_again", operands, label);
  replace_call(p->backward, call);
  free(operands);
}

static MlirOperation call_segments(NnBuilder *b, MlirModule module, const ScanPair *p, const NnScan *s,
                                   int64_t length) {
  int n = (int)mlirOperationGetNumOperands(p->forward);
  MlirValue *operands = allocate_array((size_t)n, sizeof *operands);
  for (int i = 0; i < n; i++) {
    operands[i] = mlirOperationGetOperand(p->forward, i);
    if (i < p->f.n_slices) operands[i] = cut(b, operands[i], length);
  }
  char label[64];
  snprintf(label, sizeof label, "scan, kept at every %lld", (long long)length);
  MlirOperation call = call_scan(b, module, p, s, "segments", operands, label);
  free(operands);
  return call;
}

static void rewrite_segments(MlirModule module, const ScanPair *p, const ScanKept *k, const NnTarget *target) {
  const NnScan *f = &p->f;
  int64_t length = f->length / p->b.length;
  MlirBlock block = mlirOperationGetBlock(p->forward);
  NnScan forward = make_segments(module, p, length, target), backward = make_again(module, p, k, length, target);
  NnBuilder b = rewrite_builder(p->forward);
  MlirOperation segments = call_segments(&b, module, p, &forward, length);
  bool *after = allocate_array((size_t)f->n_stacked, sizeof *after);
  for (int r = 0; r < f->n_stacked; r++) after[r] = has_rows_after(p, r);
  replace_backward(module, p, &backward, segments);
  rewrite_erase_dead(block);   // the rows that only the gradient has read
  int output = f->n_stacked;
  for (int r = 0; r < f->n_stacked; r++) {
    MlirValue rows = after[r] ? whole(&b, mlirOperationGetResult(segments, output++)) : nn_null_value();
    replace_slices(&b, p, r, mlirOperationGetResult(segments, r), rows);
  }
  for (int r = 0; r < f->n_outputs; r++) {
    MlirValue rows = whole(&b, mlirOperationGetResult(segments, output++));
    mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(p->forward, f->n_stacked + r), rows);
  }
  mlirOperationDestroy(p->forward);
  free(after);
}

static void rewrite_products(MlirModule module, const ScanPair *p, const NnTarget *target) {
  ScanKept k = scan_find_kept(p, false);
  int n_slices = p->b.n_slices + k.n;
  bool segments = p->b.length < p->f.length, *unread = allocate_array((size_t)n_slices, sizeof *unread);
  NnScan forward = keep_in_step(module, p, &k, target), backward = read_in_step(module, p, &k, unread, target);
  if (segments) backward = read_in_segment(module, p, &k, &backward, unread, target);
  int n_forward = (int)mlirOperationGetNumOperands(p->forward),
      n_backward = (int)mlirOperationGetNumOperands(p->backward), first = p->f.n_stacked + p->f.n_outputs;
  MlirValue *operands = allocate_array((size_t)(n_forward + n_backward + k.n), sizeof *operands);
  for (int i = 0; i < n_forward; i++) operands[i] = mlirOperationGetOperand(p->forward, i);
  NnBuilder b = rewrite_builder(p->forward);
  MlirOperation call = call_scan(&b, module, p, &forward, "keeping", operands, "scan, products kept");
  b = rewrite_builder(p->backward);
  for (int i = 0; i < n_backward; i++)
    operands[i < p->b.n_slices ? i : i + k.n] = mlirOperationGetOperand(p->backward, i);
  for (int i = 0; i < k.n; i++) {
    MlirValue rows = mlirOperationGetResult(call, first + i);
    operands[p->b.n_slices + i] = segments ? cut(&b, rows, p->steps.length) : rows;
  }
  read_operands(operands, n_backward + k.n, unread, n_slices);
  replace_call(p->backward, call_scan(&b, module, p, &backward, "backward_reading", operands, "scan, products read"));
  replace_call(p->forward, call);
  rewrite_erase_dead(mlirOperationGetBlock(call));   // slices cut into segments that are not read
  free(unread);
  free(operands);
  scan_kept_free(&k);
}

void scan_pair_rewrite(MlirModule module, ScanPair *p, ScanForm form, const NnTarget *target) {
  if (form == SCAN_SEGMENTS) rewrite_segments(module, p, NULL, target);
  if (form == SCAN_SEGMENT_PRODUCTS) {
    ScanKept k = scan_find_kept(p, true);
    rewrite_segments(module, p, &k, target);
    scan_kept_free(&k);
  }
  if (form == SCAN_PRODUCTS) rewrite_products(module, p, target);
}
