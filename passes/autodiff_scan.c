// The gradient of a scan is a scan in the other direction: back-propagation through time (Werbos, "Backpropagation through time: what it does
// and how to do it", 1990). Of the forward loop only the carried values are kept, a row per step; each backward step computes its forward
// step again from them, which is the checkpointed form: memory for T carried values, at the time of one more forward loop.
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

// What the step returns, and which operand of the forward scan each result of the backward one belongs to. Owned: free().
static int *add_results(Backward *w, NnScan *out) {
  const NnScan *f = &w->forward;
  int n_args = f->n_slices + f->n_stacked, *owner = malloc(sizeof *owner * (size_t)(n_args + f->n_invariants + 1)), n = 0;
  if (!owner) abort();
  for (int i = 0; i < f->n_stacked; i++) {
    if (nn_value_is_null(w->carried[i])) continue;
    add(&w->results, or_zero(w, sweep_cotangent(&w->sweep, current(w, body_arg(w, f->n_slices + i))), w->carried[i]));
    owner[n++] = f->n_slices + i;
  }
  for (int i = n_args; i < n_args + f->n_invariants; i++) {
    MlirValue cotangent = is_needed(w, i) ? sweep_cotangent(&w->sweep, current(w, body_arg(w, i))) : nn_null_value();
    if (nn_value_is_null(cotangent)) continue;
    MlirValue sum = add_argument(w, nn_value_type(cotangent));
    add(&w->operands, nn_constant_like(w->v->b, w->v->operand[i], 0));
    add(&w->results, nn_binary(&w->sweep.b, NN_OP_add, sum, cotangent));
    owner[n++] = i;
  }
  out->n_tied = n;
  for (int i = 0; i < f->n_slices; i++) {
    if (!is_needed(w, i)) continue;
    MlirValue x = current(w, body_arg(w, i));
    add(&w->results, or_zero(w, sweep_cotangent(&w->sweep, x), x));
    owner[n++] = i;
  }
  out->n_outputs = n - out->n_tied;
  out->n_slices = w->operands.n - out->n_tied;
  return owner;
}

static void give_back(Backward *w, MlirOperation call, const NnScan *backward, const int *owner) {
  const NnScan *f = &w->forward;
  for (int r = 0; r < backward->n_tied + backward->n_outputs; r++) {
    MlirValue cotangent = mlirOperationGetResult(call, r);
    int carry = owner[r] - f->n_slices;
    if (carry >= 0 && carry < f->n_stacked && !nn_value_is_null(w->v->cotangent[carry])) {   // the row of the initial value
      NnType t = nn_value_type(cotangent);
      MlirValue row = rows(w, w->v->cotangent[carry], f->reverse ? f->length : 0, 1);
      cotangent = nn_binary(w->v->b, NN_OP_add, cotangent, nn_reshape(w->v->b, row, t.rank, t.dim));
    }
    w->v->operand_cotangent[owner[r]] = cotangent;
  }
}

void scan_vjp(MlirModule module, NnVjp *v) {
  Backward w = {.v = v, .block = mlirBlockCreate(0, NULL, NULL)};
  bool found = nn_scan_of(v->op, &w.forward);
  assert(found && w.forward.n_tied == 0);   // the frontend stacks what it may have to differentiate
  (void)found;
  w.incoming = calloc((size_t)v->n_results + 1, sizeof *w.incoming);
  w.carried = calloc((size_t)w.forward.n_stacked + 1, sizeof *w.carried);
  if (!w.incoming || !w.carried) abort();
  w.sweep = (Sweep){.module = module, .func = nn_null_operation(), .b = nn_builder_at_end(w.block, v->b->loc)};
  w.sweep.b.ctx = v->b->ctx;
  w.sweep.b.phase = "backward";
  add_arguments(&w);
  sweep_step(&w);
  NnScan backward = {.length = w.forward.length, .reverse = !w.forward.reverse};
  int *owner = add_results(&w, &backward);
  char name[128];
  nn_attr_str(w.forward.body, "sym_name", name, sizeof name - 16, "scan");
  char *end = strstr(name, "_body");
  strcpy(end ? end : name + strlen(name), "_backward");
  give_back(&w, nn_scan_outline(v->b, module, name, w.block, &backward, w.operands.items, w.results.items), &backward, owner);
  free(owner);
  free(w.incoming);
  free(w.carried);
  free(w.now.items);
  free(w.operands.items);
  free(w.results.items);
  ptr_map_free(&w.ids);
  sweep_free(&w.sweep);
}
