// The gradient of a scan is a scan in the other direction: back-propagation through time (Werbos, "Backpropagation through time: what it does
// and how to do it", 1990). Of the forward loop only the carried values are kept, a row per step; each backward step computes its forward
// step again from them, which is the checkpointed form: memory for T carried values, at the time of one more forward loop.
// The gradient of a matrix of weights is a sum of products over the rows of all steps: it is made after the loop, in one large product.
// Part of the pass autodiff. Requires: a forward scan whose step is a function of its own, and gradients of its results. Establishes: a reversed scan with a step function
// of its own, the carried values of the forward loop as one more result. Breaks: nothing else.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "passes/autodiff.h"
#include "passes/rewrite.h"

typedef struct Values { MlirValue *items; int n; } Values;   // Owned

static void add(Values *list, MlirValue v) {
  if ((list->n & (list->n + 1)) == 0) {
    list->items = realloc(list->items, sizeof *list->items * 2 * (size_t)(list->n + 1));
    if (!list->items) abort();
  }
  list->items[list->n++] = v;
}

// The rows of all steps of a value of the block: a slice of the scan, or the output-th of its outputs. One of them is -1.
typedef struct Row { int slice, output; } Row;
// A gradient made after the loop: matmul_rows of two, or reduce_sum of one.
typedef struct Later { int operand; Row row[2]; NnOp kind; int n_axes; int64_t axes[NN_MAX_RANK]; } Later;

// The backward scan while it is built. Arguments of its block, in order: the forward slices, the carried values before the step, cotangents of
// the outputs and of the carried values after the step where there are any; then, carried itself, the cotangents of the carried values
// and sums of those of the invariants.
typedef struct Backward {
  NnVjp *v;
  NnScan forward;
  MlirBlock block;
  Sweep sweep;                // in the block
  PtrMap ids;                 // value of the forward body -> now
  Values now;                 // what stands for it in the block
  Values operands, results;   // of the backward scan
  int n_slices;               // the first of the operands
  Values outputs;             // the last of the results: rows
  Row *slice_gradient;        // Owned, per slice of the forward scan; both -1: none
  int n_later;
  Later *later;               // Owned
  MlirValue *incoming;        // Owned, per result of the forward scan: the step's row of its cotangent, null: none
  MlirValue *carried;         // Owned, per carry: the cotangent carried in, null: no float
} Backward;

static NnType row_type(MlirValue stack) {
  NnType t = nn_value_type(stack);
  for (int i = 1; i < t.rank; i++) t.dim[i - 1] = t.dim[i];
  t.rank--;
  return t;
}

static MlirValue add_argument(Backward *w, NnType type) { return mlirBlockAddArgument(w->block, nn_type_to_mlir(w->v->b->ctx, &type), w->v->b->loc); }

// Rows first ... first + n - 1.
static MlirValue rows(Backward *w, MlirValue x, int64_t first, int64_t n) {
  NnType t = nn_value_type(x);
  int64_t starts[NN_MAX_RANK] = {first}, sizes[NN_MAX_RANK];
  memcpy(sizes, t.dim, sizeof sizes);
  sizes[0] = n;
  return nn_slice(w->v->b, x, starts, sizes, NULL);
}

static MlirValue add_slice(Backward *w, MlirValue stack) {
  add(&w->operands, stack);
  return add_argument(w, row_type(stack));
}

static void stand_for(Backward *w, MlirValue forward, MlirValue now) {
  ptr_map_set(&w->ids, forward.ptr, w->now.n);
  add(&w->now, now);
}

static MlirValue current(const Backward *w, MlirValue forward) { return w->now.items[ptr_map_get(&w->ids, forward.ptr)]; }

static MlirValue body_arg(const Backward *w, int i) { return mlirBlockGetArgument(nn_function_body(w->forward.body), i); }

static bool is_float(MlirValue v) { return nn_dtype_is_float(nn_value_type(v).dtype); }

static void add_arguments(Backward *w) {
  const NnScan *f = &w->forward;
  int n_args = f->n_slices + f->n_stacked;
  for (int i = 0; i < f->n_slices; i++) stand_for(w, body_arg(w, i), add_slice(w, w->v->operand[i]));
  for (int i = 0; i < f->n_stacked; i++) stand_for(w, body_arg(w, f->n_slices + i), add_slice(w, rows(w, w->v->result[i], f->reverse, f->length)));
  for (int i = 0; i < f->n_invariants; i++) stand_for(w, body_arg(w, n_args + i), w->v->operand[n_args + i]);
  for (int r = 0; r < f->n_stacked + f->n_outputs; r++) {
    MlirValue cotangent = w->v->cotangent[r];
    if (nn_value_is_null(cotangent)) continue;
    w->incoming[r] = add_slice(w, r < f->n_stacked ? rows(w, cotangent, !f->reverse, f->length) : cotangent);
  }
  w->n_slices = w->operands.n;
  for (int i = 0; i < f->n_stacked; i++) {
    MlirValue init = w->v->operand[f->n_slices + i];
    if (!is_float(init)) continue;
    w->carried[i] = add_argument(w, nn_value_type(init));
    add(&w->operands, nn_constant_like(w->v->b, init, 0));
  }
}

// The forward step once more.
static MlirOperation *clone_step(Backward *w, int *n) {
  MlirOperation *ops = rewrite_ops(nn_function_body(w->forward.body), n);
  --*n;   // the return
  for (int i = 0; i < *n; i++) {
    MlirOperation copy = mlirOperationClone(ops[i]);
    for (intptr_t k = 0; k < mlirOperationGetNumOperands(copy); k++) mlirOperationSetOperand(copy, k, current(w, mlirOperationGetOperand(ops[i], k)));
    nn_set_attr(copy, &NN_STR("nn.phase", "backward"));
    mlirBlockAppendOwnedOperation(w->block, copy);
    for (intptr_t r = 0; r < mlirOperationGetNumResults(copy); r++) stand_for(w, mlirOperationGetResult(ops[i], r), mlirOperationGetResult(copy, r));
    ops[i] = copy;
  }
  return ops;
}

static bool is_needed(const Backward *w, int operand) { return w->v->needed[operand] && is_float(w->v->operand[operand]); }

static void sweep_step(Backward *w) {
  const NnScan *f = &w->forward;
  int n, n_args = f->n_slices + f->n_stacked;
  MlirOperation *ops = clone_step(w, &n), end = nn_function_return(f->body);
  for (int i = 0; i < n_args + f->n_invariants; i++) {
    bool carry = i >= f->n_slices && i < n_args;
    if (carry ? !nn_value_is_null(w->carried[i - f->n_slices]) : is_needed(w, i)) sweep_activate(&w->sweep, current(w, body_arg(w, i)));
  }
  sweep_mark_active(&w->sweep, ops, n);
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
  if (is_inside(w, v) && mlirOperationIsNull(nn_value_def(v)) && nn_value_index(v) < w->n_slices) return (Row){nn_value_index(v), -1};
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

static void add_later(Backward *w, Later later) {
  w->later = realloc(w->later, sizeof *w->later * (size_t)(w->n_later + 1));
  if (!w->later) abort();
  w->later[w->n_later++] = later;
}

// The gradient of an invariant that sums over rows can do so over those of all steps: always where it is a product; where it is a plain sum
// only if its rows are kept in any case.
static bool put_off(Backward *w, int operand, MlirValue cotangent, NnOp kind) {
  MlirOperation def = nn_value_def(cotangent);
  if (mlirOperationIsNull(def) || nn_op_of(def) != kind) return false;
  int n = (int)mlirOperationGetNumOperands(def);
  Later later = {.operand = operand, .kind = kind};
  for (int i = 0; i < n; i++)
    if (!is_inside(w, mlirOperationGetOperand(def, i)) || nn_value_type(mlirOperationGetOperand(def, i)).rank >= NN_MAX_RANK) return false;
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
  MlirValue *cotangent = calloc((size_t)f->n_invariants + 1, sizeof *cotangent);
  if (!cotangent) abort();
  for (int i = 0; i < f->n_invariants; i++) {
    if (is_needed(w, first + i)) cotangent[i] = sweep_cotangent(&w->sweep, current(w, body_arg(w, first + i)));
    if (!nn_value_is_null(cotangent[i]) && put_off(w, first + i, cotangent[i], NN_OP_matmul_rows)) cotangent[i] = nn_null_value();
  }
  for (int i = 0; i < f->n_invariants; i++) {
    if (nn_value_is_null(cotangent[i]) || put_off(w, first + i, cotangent[i], NN_OP_reduce_sum)) continue;
    NnType type = nn_value_type(cotangent[i]);
    type.dtype = nn_dtype_wide(type.dtype);
    MlirValue sum = add_argument(w, type);
    add(&w->operands, nn_constant(w->v->b, type, 0));
    add(&w->results, nn_binary(&w->sweep.b, NN_OP_add, sum, sweep_widen(&w->sweep.b, cotangent[i], type.dtype)));
    owner[(*n)++] = first + i;
  }
  free(cotangent);
}

// What the step returns: carried cotangents, sums for what is not put off, rows. The result tells the owner of each tied one, the operand of
// the forward scan whose cotangent it is. Owned: free().
static int *add_results(Backward *w, NnScan *out) {
  const NnScan *f = &w->forward;
  int *owner = malloc(sizeof *owner * (size_t)(f->n_slices + f->n_stacked + f->n_invariants + 1)), n = 0;
  if (!owner) abort();
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
  *out = (NnScan){.length = f->length, .reverse = !f->reverse, .n_slices = w->n_slices, .n_tied = n, .n_outputs = w->outputs.n};
  return owner;
}

static MlirValue stack_of(const Backward *w, MlirOperation call, const NnScan *backward, Row r) {
  return r.slice >= 0 ? w->operands.items[r.slice] : mlirOperationGetResult(call, backward->n_tied + r.output);
}

static void give_back(Backward *w, MlirOperation call, const NnScan *backward, const int *owner) {
  const NnScan *f = &w->forward;
  NnBuilder *b = w->v->b;
  for (int r = 0; r < backward->n_tied; r++) {
    MlirValue cotangent = mlirOperationGetResult(call, r);
    int carry = owner[r] - f->n_slices;
    if (carry < f->n_stacked && !nn_value_is_null(w->v->cotangent[carry])) {   // the row of the initial value
      NnType t = nn_value_type(cotangent);
      MlirValue row = rows(w, w->v->cotangent[carry], f->reverse ? f->length : 0, 1);
      cotangent = nn_binary(b, NN_OP_add, cotangent, nn_reshape(b, row, t.rank, t.dim));
    }
    w->v->operand_cotangent[owner[r]] = cotangent;
  }
  for (int i = 0; i < f->n_slices; i++)
    if (is_row(w->slice_gradient[i])) w->v->operand_cotangent[i] = stack_of(w, call, backward, w->slice_gradient[i]);
  for (int i = 0; i < w->n_later; i++) {
    const Later *l = &w->later[i];
    MlirValue x = stack_of(w, call, backward, l->row[0]);
    if (l->kind == NN_OP_reduce_sum) w->v->operand_cotangent[l->operand] = nn_reduce(b, l->kind, x, l->n_axes, l->axes);
    else w->v->operand_cotangent[l->operand] = nn_binary(b, l->kind, x, stack_of(w, call, backward, l->row[1]));
    // Where the step casts the invariant itself, its gradient is that of the wide one.
    w->v->operand_cotangent[l->operand] = sweep_widen(b, w->v->operand_cotangent[l->operand], nn_value_type(w->v->operand[l->operand]).dtype);
  }
}

void scan_vjp(MlirModule module, NnVjp *v) {
  Backward w = {.v = v, .block = mlirBlockCreate(0, NULL, NULL)};
  bool found = nn_scan_called(module, v->op, &w.forward);
  assert(found && w.forward.n_tied == 0);   // the frontend stacks what it may have to differentiate
  (void)found;
  w.incoming = calloc((size_t)v->n_results + 1, sizeof *w.incoming);
  w.carried = calloc((size_t)w.forward.n_stacked + 1, sizeof *w.carried);
  w.slice_gradient = malloc(sizeof *w.slice_gradient * (size_t)(w.forward.n_slices + 1));
  if (!w.incoming || !w.carried || !w.slice_gradient) abort();
  for (int i = 0; i < w.forward.n_slices; i++) w.slice_gradient[i] = (Row){-1, -1};
  w.sweep = (Sweep){.module = module, .func = nn_null_operation(), .b = nn_builder_at_end(w.block, v->b->loc)};
  w.sweep.b.ctx = v->b->ctx;
  w.sweep.b.phase = "backward";
  add_arguments(&w);
  sweep_step(&w);
  NnScan backward;
  int *owner = add_results(&w, &backward);
  char name[128];
  nn_attr_str(w.forward.body, "sym_name", name, sizeof name - 16, "scan");
  char *end = strstr(name, "_body");
  strcpy(end ? end : name + strlen(name), "_backward");
  give_back(&w, nn_scan_outline(v->b, module, name, w.block, &backward, w.operands.items, w.results.items), &backward, owner);
  free(owner);
  free(w.incoming);
  free(w.carried);
  free(w.slice_gradient);
  free(w.outputs.items);
  free(w.later);
  free(w.now.items);
  free(w.operands.items);
  free(w.results.items);
  ptr_map_free(&w.ids);
  sweep_free(&w.sweep);
}
