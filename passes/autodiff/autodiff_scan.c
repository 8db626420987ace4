// The gradient of a scan is a scan in the other direction: back-propagation through time (Werbos, "Backpropagation
// through time: what it does and how to do it", 1990). Of the forward loop only the carried values are kept, a row per
// step; each backward step computes its forward step again from them, which is the checkpointed form: memory for T
// carried values, at the time of one more forward loop. The gradient of a matrix of weights is a sum of products over
// the rows of steps. A long loop is cut into segments, a loop of loops: the products are made after each segment, in
// one product, so that only its rows are kept; and the pass remat may compute the carried values of a segment again
// from those at its beginning (scan_forms.c). Segments do not depend on the budget, so neither do sums. Loops of a
// number of steps that cannot be cut so have been made two before (scan_split.c). Part of the pass autodiff. Requires:
// a forward scan whose step is a function of its own, and gradients of its results. Establishes: a reversed scan with a
// step function of its own, whose call has nn.forward, the name of the forward scan; nn.kept on library ops of both
// steps that have the same result. Breaks: nothing else.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "passes/autodiff/autodiff.h"
#include "passes/rewrite.h"
#include "support/alloc.h"

typedef struct Values {
  MlirValue *items;
  int n;
} Values;   // Owned

static void add(Values *list, MlirValue v) { *ARRAY_ADD(list->items, list->n) = v; }

// The rows of all steps of a value of the block: a slice of the scan, or the output-th of its outputs. One of them is
// -1.
typedef struct Row {
  int slice, output;
} Row;
// A gradient made after the loop: matmul_rows of two, or reduce_sum of one.
typedef struct Later {
  int operand;
  Row row[2];
  NnOp kind;
  int n_axes;
  int64_t axes[NN_MAX_RANK];
} Later;

// The backward scan while it is built. Arguments of its block, in order: the forward slices, the carried values before
// the step, cotangents of the outputs and of the carried values after the step where there are any; then, carried
// itself, the cotangents of the carried values and sums of those of the invariants.
typedef struct Backward {
  NnVjp *v;
  NnScan forward;
  int64_t length;   // steps of a segment; all of them where there is one segment
  // of segments: in the step of the loop over them, whose arguments are like those of `block`; else where the gradient
  // goes
  NnBuilder outer;
  MlirBlock block;
  Sweep sweep;                // in the block
  PtrMap ids;                 // value of the forward body -> now
  Values now;                 // what stands for it in the block
  Values operands, results;   // of the backward scan, of one segment
  Values stacks;              // what its slices are cut from, then the initial values
  int n_slices;               // the first of the operands
  Values outputs;             // the last of the results: rows
  Row *slice_gradient;        // Owned, per slice of the forward scan; both -1: none
  int n_later;
  Later *later;          // Owned
  MlirValue *incoming;   // Owned, per result of the forward scan: the step's row of its cotangent, null: none
  // Owned, per stacked carry: the cotangents of the rows after the last step and before the first, null: none
  MlirValue *last, *initial;
  MlirValue *carried;   // Owned, per carry: the cotangent carried in, null: no float
} Backward;

static NnType row_type(MlirValue stack) {
  NnType t = nn_value_type(stack);
  for (int i = 1; i < t.rank; i++) t.dim[i - 1] = t.dim[i];
  t.rank--;
  return t;
}

static bool has_segments(const Backward *w) { return w->length < w->forward.length; }

static MlirValue add_argument(const Backward *w, MlirBlock block, NnType type) {
  return mlirBlockAddArgument(block, nn_type_to_mlir(w->v->b->ctx, &type), w->v->b->loc);
}

// [T, ...] as [T / length, length, ...]
static MlirValue cut(Backward *w, MlirValue stack) {
  NnType t = nn_value_type(stack);
  for (int i = t.rank++; i > 1; i--) t.dim[i] = t.dim[i - 1];
  t.dim[0] /= t.dim[1] = w->length;
  return nn_reshape(w->v->b, stack, t.rank, t.dim);
}

static MlirValue add_slice(Backward *w, MlirValue stack) {
  NnType row = row_type(stack);
  if (has_segments(w)) stack = cut(w, stack);
  add(&w->stacks, stack);
  add(&w->operands, has_segments(w) ? add_argument(w, w->outer.block, row_type(stack)) : stack);
  return add_argument(w, w->block, row);
}

// A value that each step overwrites, beginning with `first`, or with zeros of `type`.
static MlirValue add_tied(Backward *w, MlirValue first, NnType type) {
  if (nn_value_is_null(first)) first = nn_constant(w->v->b, type, 0);
  add(&w->stacks, first);
  add(&w->operands, has_segments(w) ? add_argument(w, w->outer.block, nn_value_type(first)) : first);
  return add_argument(w, w->block, nn_value_type(first));
}

static void stand_for(Backward *w, MlirValue forward, MlirValue now) {
  ptr_map_set(&w->ids, forward.ptr, w->now.n);
  add(&w->now, now);
}

static MlirValue current(const Backward *w, MlirValue forward) {
  return w->now.items[ptr_map_get(&w->ids, forward.ptr)];
}

static MlirValue body_arg(const Backward *w, int i) {
  return mlirBlockGetArgument(nn_function_body(w->forward.body), i);
}

static bool is_float(MlirValue v) { return nn_dtype_is_float(nn_value_dtype(v)); }

// What reaches rows of a stack by slices comes as a sum of pads. The rows are told apart: those after each step, after
// the last, before the first.
typedef struct Reaching {
  MlirValue after, last, initial;
} Reaching;

static void add_to(Backward *w, MlirValue *sum, MlirValue more) {
  *sum = nn_value_is_null(*sum) ? more : nn_binary(w->v->b, NN_OP_add, *sum, more);
}

static bool is_pad_of_rows(MlirOperation op, int64_t *first) {
  int64_t low[NN_MAX_RANK], high[NN_MAX_RANK], interior[NN_MAX_RANK];
  if (mlirOperationIsNull(op) || nn_op_of(op) != NN_OP_pad || nn_fill_value(op) != 0) return false;
  int n = nn_attr_i64s(op, "low", low, NN_MAX_RANK);
  nn_attr_i64s(op, "high", high, NN_MAX_RANK);
  nn_attr_i64s(op, "interior", interior, NN_MAX_RANK);
  bool rows = interior[0] == 0;
  for (int i = 1; i < n; i++) rows &= !low[i] && !high[i] && !interior[i];
  *first = low[0];
  return rows;
}

static MlirValue row_alone(Backward *w, MlirValue row) {
  NnType t = row_type(row);
  return nn_reshape(w->v->b, row, t.rank, t.dim);
}

static void tell_apart(Backward *w, MlirValue cotangent, Reaching *r) {
  const NnScan *f = &w->forward;
  MlirOperation def = nn_value_def(cotangent);
  int64_t first = 0;
  if (!mlirOperationIsNull(def) && nn_op_of(def) == NN_OP_add) {
    tell_apart(w, mlirOperationGetOperand(def, 0), r);
    tell_apart(w, mlirOperationGetOperand(def, 1), r);
    return;
  }
  bool pad = is_pad_of_rows(def, &first);
  MlirValue padded = pad ? mlirOperationGetOperand(def, 0) : cotangent;
  int64_t n = pad ? nn_value_type(padded).dim[0] : 0;
  if (n == 1 && (first == 0 || first == f->length)) {
    add_to(w, (first == 0) == f->reverse ? &r->last : &r->initial, row_alone(w, padded));
    return;
  }
  if (n == f->length && first == !f->reverse) {
    add_to(w, &r->after, padded);
    return;
  }
  add_to(w, &r->after, nn_rows(w->v->b, cotangent, !f->reverse, f->length));
  add_to(w, &r->initial, row_alone(w, nn_rows(w->v->b, cotangent, f->reverse ? f->length : 0, 1)));
}

static void add_arguments(Backward *w) {
  const NnScan *f = &w->forward;
  int n_args = f->n_slices + f->n_stacked;
  for (int i = 0; i < f->n_slices; i++) stand_for(w, body_arg(w, i), add_slice(w, w->v->operand[i]));
  for (int i = 0; i < f->n_stacked; i++)
    stand_for(w, body_arg(w, f->n_slices + i), add_slice(w, nn_rows(w->v->b, w->v->result[i], f->reverse, f->length)));
  for (int i = 0; i < f->n_invariants; i++) stand_for(w, body_arg(w, n_args + i), w->v->operand[n_args + i]);
  for (int r = 0; r < f->n_stacked + f->n_outputs; r++) {
    MlirValue cotangent = w->v->cotangent[r];
    if (nn_value_is_null(cotangent)) continue;
    if (r < f->n_stacked) {
      Reaching reaching = {nn_null_value(), nn_null_value(), nn_null_value()};
      tell_apart(w, cotangent, &reaching);
      cotangent = reaching.after;
      w->last[r] = reaching.last;
      w->initial[r] = reaching.initial;
    }
    if (!nn_value_is_null(cotangent)) w->incoming[r] = add_slice(w, cotangent);
  }
  w->n_slices = w->operands.n;
  for (int i = 0; i < f->n_stacked; i++) {
    MlirValue init = w->v->operand[f->n_slices + i];
    if (!is_float(init)) continue;
    w->carried[i] = add_tied(w, w->last[i], nn_value_type(init));
  }
}

// Else the gradient is a part of the program's own (gradients.c), and to others a loop like any.
static bool is_of_loss(const Backward *w) { return strcmp(w->v->b->phase, "backward") == 0; }

// The forward step once more.
static MlirOperation *clone_step(Backward *w, int *n) {
  MlirOperation *ops = rewrite_ops(nn_function_body(w->forward.body), n);
  --*n;   // the return
  for (int i = 0; i < *n; i++) {
    MlirOperation copy = mlirOperationClone(ops[i]);
    for (intptr_t k = 0; k < mlirOperationGetNumOperands(copy); k++)
      mlirOperationSetOperand(copy, k, current(w, mlirOperationGetOperand(ops[i], k)));
    if (w->v->b->phase) nn_set_attr(copy, &NN_STR(ATTR_phase, w->v->b->phase));
    NnOp kind = nn_op_of(copy);
    // what memory allows may be kept instead (scan_forms.c)
    if (is_of_loss(w) && kind != NN_OP_NONE && nn_op_info(kind)->kind == NN_KIND_LIBRARY) {
      nn_set_attr(ops[i], &NN_I64(ATTR_kept, i));
      nn_set_attr(copy, &NN_I64(ATTR_kept, i));
    }
    mlirBlockAppendOwnedOperation(w->block, copy);
    for (intptr_t r = 0; r < mlirOperationGetNumResults(copy); r++)
      stand_for(w, mlirOperationGetResult(ops[i], r), mlirOperationGetResult(copy, r));
    ops[i] = copy;
  }
  return ops;
}

static bool is_needed(const Backward *w, int operand) {
  return w->v->needed[operand] && is_float(w->v->operand[operand]);
}

static void sweep_step(Backward *w) {
  const NnScan *f = &w->forward;
  int n, n_args = f->n_slices + f->n_stacked;
  MlirOperation *ops = clone_step(w, &n), end = nn_function_return(f->body);
  for (int i = 0; i < n_args + f->n_invariants; i++) {
    bool carry = i >= f->n_slices && i < n_args;
    if (carry ? !nn_value_is_null(w->carried[i - f->n_slices]) : is_needed(w, i))
      sweep_activate(&w->sweep, current(w, body_arg(w, i)));
  }
  sweep_mark_active(&w->sweep, w->block, nn_null_operation());
  for (int r = 0; r < f->n_stacked + f->n_outputs; r++) {
    MlirValue value = current(w, mlirOperationGetOperand(end, r));
    if (r < f->n_stacked) sweep_contribute(&w->sweep, value, w->carried[r]);
    sweep_contribute(&w->sweep, value, w->incoming[r]);
  }
  for (int i = n - 1; i >= 0; i--) sweep_differentiate(&w->sweep, ops[i]);
  free(ops);
}

static MlirValue or_zero(Backward *w, MlirValue cotangent, MlirValue like) {
  return nn_value_is_null(cotangent) ? nn_constant_like(&w->sweep.b, like, 0) : cotangent;
}

// ---------------------------------------------------------------------------------------------------------------------
// What is made after the loop

static bool is_inside(const Backward *w, MlirValue v) {
  MlirOperation def = nn_value_def(v);
  return mlirBlockEqual(mlirOperationIsNull(def) ? mlirBlockArgumentGetOwner(v) : mlirOperationGetBlock(def), w->block);
}

// Where the rows of a value of the block are; both -1 when nowhere yet.
static Row find_row(const Backward *w, MlirValue v) {
  if (is_inside(w, v) && mlirOperationIsNull(nn_value_def(v)) && nn_value_index(v) < w->n_slices)
    return (Row){nn_value_index(v), -1};
  for (int i = 0; i < w->outputs.n; i++)
    if (mlirValueEqual(w->outputs.items[i], v)) return (Row){-1, i};
  return (Row){-1, -1};
}

static bool is_row(Row r) { return r.slice >= 0 || r.output >= 0; }

static Row make_row(Backward *w, MlirValue v) {
  Row found = find_row(w, v);
  if (is_row(found)) return found;
  add(&w->outputs, v);
  return (Row){-1, w->outputs.n - 1};
}

static void add_later(Backward *w, Later later) { *ARRAY_ADD(w->later, w->n_later) = later; }

// The gradient of an invariant that sums over rows can do so over those of all steps: always where it is a product;
// where it is a plain sum only if its rows are kept in any case.
static bool put_off(Backward *w, int operand, MlirValue cotangent, NnOp kind) {
  MlirOperation def = nn_value_def(cotangent);
  if (mlirOperationIsNull(def) || nn_op_of(def) != kind) return false;
  int n = (int)mlirOperationGetNumOperands(def);
  Later later = {.operand = operand, .kind = kind};
  for (int i = 0; i < n; i++)
    if (!is_inside(w, mlirOperationGetOperand(def, i)) ||
        nn_value_type(mlirOperationGetOperand(def, i)).rank >= NN_MAX_RANK)
      return false;
  if (kind == NN_OP_reduce_sum) {
    later.n_axes = 1 + nn_attr_i64s(def, "axes", later.axes + 1, NN_MAX_RANK - 1);
    if (!is_row(find_row(w, mlirOperationGetOperand(def, 0)))) return false;
    for (int i = 1; i < later.n_axes; i++) later.axes[i]++;
  }
  for (int i = 0; i < n; i++) later.row[i] = make_row(w, mlirOperationGetOperand(def, i));
  add_later(w, later);
  return true;
}

// Cotangents of the invariants: put off, or summed from step to step. `owner` has room for them from *n on.
static void add_invariants(Backward *w, int *owner, int *n) {
  const NnScan *f = &w->forward;
  int first = f->n_slices + f->n_stacked;
  MlirValue *cotangent = allocate_array((size_t)f->n_invariants + 1, sizeof *cotangent);
  for (int i = 0; i < f->n_invariants; i++) {
    if (is_needed(w, first + i)) cotangent[i] = sweep_cotangent(&w->sweep, current(w, body_arg(w, first + i)));
    if (!nn_value_is_null(cotangent[i]) && put_off(w, first + i, cotangent[i], NN_OP_matmul_rows))
      cotangent[i] = nn_null_value();
  }
  for (int i = 0; i < f->n_invariants; i++) {
    if (nn_value_is_null(cotangent[i]) || put_off(w, first + i, cotangent[i], NN_OP_reduce_sum)) continue;
    NnType type = nn_value_type(cotangent[i]);
    type.dtype = nn_dtype_wide(type.dtype);
    MlirValue sum = add_tied(w, nn_null_value(), type);
    add(&w->results, nn_binary(&w->sweep.b, NN_OP_add, sum, sweep_widen(&w->sweep.b, cotangent[i], type.dtype)));
    owner[(*n)++] = first + i;
  }
  free(cotangent);
}

// What the step returns: carried cotangents, sums for what is not put off, rows. The result tells the owner of each
// tied one, the operand of the forward scan whose cotangent it is. Owned: free().
static int *add_results(Backward *w, NnScan *out) {
  const NnScan *f = &w->forward;
  int *owner = allocate_array((size_t)(f->n_slices + f->n_stacked + f->n_invariants + 1), sizeof *owner), n = 0;
  for (int i = 0; i < f->n_stacked; i++) {
    if (nn_value_is_null(w->carried[i])) continue;
    add(&w->results, or_zero(w, sweep_cotangent(&w->sweep, current(w, body_arg(w, f->n_slices + i))), w->carried[i]));
    owner[n++] = f->n_slices + i;
  }
  for (int i = 0; i < f->n_slices; i++) {
    if (!is_needed(w, i)) continue;
    MlirValue x = current(w, body_arg(w, i));
    w->slice_gradient[i] = make_row(w, or_zero(w, sweep_cotangent(&w->sweep, x), x));
  }
  add_invariants(w, owner, &n);
  for (int i = 0; i < w->outputs.n; i++) add(&w->results, w->outputs.items[i]);
  *out = (NnScan){.length = w->length,
                  .reverse = !f->reverse,
                  .n_slices = w->n_slices,
                  .n_tied = n,
                  .n_outputs = w->outputs.n};
  return owner;
}

static MlirValue stack_of(const Backward *w, MlirOperation call, const NnScan *backward, Row r) {
  return r.slice >= 0 ? w->operands.items[r.slice] : mlirOperationGetResult(call, backward->n_tied + r.output);
}

// Where the step casts the invariant itself, its gradient is that of the wide one; sums over segments are wide in any
// case.
static MlirValue make_later(Backward *w, MlirOperation call, const NnScan *backward, const Later *l) {
  MlirValue x = stack_of(w, call, backward, l->row[0]);
  MlirValue sum = l->kind == NN_OP_reduce_sum
                      ? nn_reduce(&w->outer, l->kind, x, l->n_axes, l->axes)
                      : nn_binary(&w->outer, l->kind, x, stack_of(w, call, backward, l->row[1]));
  NnDtype given = nn_value_dtype(w->v->operand[l->operand]);
  return sweep_widen(&w->outer, sum, has_segments(w) ? nn_dtype_wide(given) : given);
}

// The loop over the segments, around the call of a segment. Its results: those tied of a segment, sums of what is made
// after each segment, and the gradients of slices.
static MlirOperation add_segments(Backward *w, MlirModule module, const char *name, MlirOperation call,
                                  const NnScan *backward) {
  const NnScan *f = &w->forward;
  Values values = {0};
  NnScan outer = {.length = f->length / w->length,
                  .reverse = backward->reverse,
                  .n_slices = w->n_slices,
                  .n_tied = backward->n_tied + w->n_later};
  for (int r = 0; r < backward->n_tied; r++) add(&values, mlirOperationGetResult(call, r));
  for (int i = 0; i < w->n_later; i++) {
    MlirValue more = make_later(w, call, backward, &w->later[i]),
              sum = add_argument(w, w->outer.block, nn_value_type(more));
    add(&w->stacks, nn_constant(w->v->b, nn_value_type(more), 0));
    add(&values, nn_binary(&w->outer, NN_OP_add, sum, more));
  }
  for (int i = 0; i < f->n_slices; i++) {
    if (w->slice_gradient[i].output < 0) continue;
    add(&values, mlirOperationGetResult(call, backward->n_tied + w->slice_gradient[i].output));
    w->slice_gradient[i].output = outer.n_outputs++;
  }
  MlirOperation all = nn_scan_outline(w->v->b, module, name, w->outer.block, &outer, w->stacks.items, values.items);
  free(values.items);
  return all;
}

// The gradient of slice i, of all steps.
static MlirValue slice_gradient(Backward *w, MlirOperation call, int n_tied, int i) {
  Row r = w->slice_gradient[i];
  MlirValue stack = r.slice >= 0 ? w->stacks.items[r.slice] : mlirOperationGetResult(call, n_tied + r.output);
  NnType t = nn_value_type(w->v->operand[i]);
  return has_segments(w) ? nn_reshape(w->v->b, stack, t.rank, t.dim) : stack;
}

// `call`: of all steps, with n_tied tied results. `owner`: of those of a segment.
static void give_back(Backward *w, MlirOperation call, int n_tied, const NnScan *backward, const int *owner) {
  const NnScan *f = &w->forward;
  NnBuilder *b = w->v->b;
  for (int r = 0; r < backward->n_tied; r++) {
    MlirValue cotangent = mlirOperationGetResult(call, r);
    int carry = owner[r] - f->n_slices;
    if (carry < f->n_stacked && !nn_value_is_null(w->initial[carry]))
      cotangent = nn_binary(b, NN_OP_add, cotangent, w->initial[carry]);
    w->v->operand_cotangent[owner[r]] = cotangent;
  }
  for (int i = 0; i < f->n_slices; i++)
    if (is_row(w->slice_gradient[i])) w->v->operand_cotangent[i] = slice_gradient(w, call, n_tied, i);
  for (int i = 0; i < w->n_later; i++)
    w->v->operand_cotangent[w->later[i].operand] = has_segments(w) ? mlirOperationGetResult(call, backward->n_tied + i)
                                                                   : make_later(w, call, backward, &w->later[i]);
}

static void scan_backward(Backward *w, MlirModule module) {
  add_arguments(w);
  sweep_step(w);
  NnScan backward;
  int *owner = add_results(w, &backward), n_tied = backward.n_tied;
  char *name = nn_scan_name(&w->forward, has_segments(w) ? "segment" : "backward");
  MlirOperation call = nn_scan_outline(&w->outer, module, name, w->block, &backward, w->operands.items,
                                       w->results.items);
  if (has_segments(w)) {
    n_tied += w->n_later;
    free(name);
    name = nn_scan_name(&w->forward, "backward");
    call = add_segments(w, module, name, call, &backward);
  }
  MlirAttribute callee = nn_attribute(w->v->op, "callee");
  if (is_of_loss(w))
    nn_set_attribute(call, ATTR_forward, mlirStringAttrGet(w->v->b->ctx, mlirFlatSymbolRefAttrGetValue(callee)));
  give_back(w, call, n_tied, &backward, owner);
  free(name);
  free(owner);
}

static NnBuilder builder_in(const Backward *w, MlirBlock block) {
  NnBuilder b = nn_builder_at_end(block, w->v->b->loc);
  b.ctx = w->v->b->ctx;
  b.phase = w->v->b->phase;
  return b;
}

void scan_vjp(MlirModule module, NnVjp *v) {
  Backward w = {.v = v, .block = mlirBlockCreate(0, NULL, NULL)};
  bool found = nn_scan_called(module, v->op, &w.forward);
  assert(found && w.forward.n_tied == 0);   // the frontend stacks what it may have to differentiate
  (void)found;
  scan_prepare(module, nn_function_body(w.forward.body));
  w.incoming = allocate_array((size_t)v->n_results + 1, sizeof *w.incoming);
  w.carried = allocate_array((size_t)w.forward.n_stacked + 1, sizeof *w.carried);
  w.slice_gradient = allocate_array((size_t)(w.forward.n_slices + 1), sizeof *w.slice_gradient);
  w.last = allocate_array((size_t)w.forward.n_stacked + 1, sizeof *w.last);
  w.initial = allocate_array((size_t)w.forward.n_stacked + 1, sizeof *w.initial);
  for (int i = 0; i < w.forward.n_slices; i++) w.slice_gradient[i] = (Row){-1, -1};
  w.length = scan_segment_length(v->op, &w.forward);
  w.outer = has_segments(&w) ? builder_in(&w, mlirBlockCreate(0, NULL, NULL)) : *v->b;
  w.sweep = (Sweep){.module = module, .func = nn_null_operation(), .b = builder_in(&w, w.block)};
  scan_backward(&w, module);
  free(w.incoming);
  free(w.carried);
  free(w.last);
  free(w.initial);
  free(w.slice_gradient);
  free(w.outputs.items);
  free(w.later);
  free(w.now.items);
  free(w.operands.items);
  free(w.stacks.items);
  free(w.results.items);
  ptr_map_free(&w.ids);
  sweep_free(&w.sweep);
}
