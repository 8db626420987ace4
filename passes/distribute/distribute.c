// The pass `distribute`: what the ranks of a distributed program exchange in a step. Gradients are summed in buckets, a
// bucket as soon as its last gradient is there, on the lane `comm`; states that the forward pass updates (running
// statistics) go from rank to rank, so that they are updated in the order of the micro-batches.
#include <stdlib.h>
#include <string.h>

#include "passes/distribute/distribute.h"
#include "passes/passes.h"
#include "passes/plan/plan.h"
#include "passes/rewrite.h"
#include "support/alloc.h"
#include "support/bytes.h"
#include "support/ptr_map.h"

// Of a bucket. Large beside what a message costs (25 MiB take 2.5 ms at 10 GB/s, the message itself some 10 us), small
// beside the gradients of a network for which that matters, so that most of them are exchanged while the backward pass
// still makes others.
#define BUCKET_BYTES "25MiB"

// The block's ops by number.
typedef struct Order {
  MlirOperation *ops;   // Owned
  int n;
  PtrMap number;
} Order;

static Order order_of(MlirOperation func) {
  Order o = {0};
  o.ops = rewrite_ops(nn_function_body(func), &o.n);
  for (int i = 0; i < o.n; i++) ptr_map_set(&o.number, o.ops[i].ptr, i);
  return o;
}

static void order_free(Order *o) {
  free(o->ops);
  ptr_map_free(&o->number);
}

// -1: an argument.
static int number_of(const Order *o, MlirValue v) {
  MlirOperation def = nn_value_def(v);
  return mlirOperationIsNull(def) ? -1 : ptr_map_get(&o->number, def.ptr);
}

MlirValue bucket_piece(NnBuilder *b, MlirValue bucket, NnType to, int64_t *at) {
  int64_t n = nn_type_elements(&to), start = *at;
  *at += n;
  if (nn_value_type(bucket).dim[0] == n && to.rank == 1) return bucket;
  return nn_reshape(b, nn_slice(b, bucket, &start, &n, NULL), to.rank, to.dim);
}

// All exchanges are on one lane: every rank makes them in the same order.
static MlirValue build(NnBuilder *b, NnOp op, int n, const MlirValue *operands) {
  return mlirOperationGetResult(nn_build(b, op, n, operands, 1, &NN_STR(ATTR_lane, "comm"), NULL), 0);
}

// Of n operands; ranks: that keep parts of it, 0: none does.
static MlirValue build_sum(NnBuilder *b, int n, const MlirValue *operands, int64_t ranks, bool adds, bool fast) {
  NnAttr attrs[4] = {NN_STR(ATTR_lane, "comm")};
  int n_attrs = 1;
  if (ranks) attrs[n_attrs++] = NN_I64("ranks", ranks);
  if (adds) attrs[n_attrs++] = NN_BOOL("adds", true);
  if (fast) attrs[n_attrs++] = NN_BOOL("fast", true);
  return mlirOperationGetResult(nn_build(b, ranks ? NN_OP_reduce_scatter : NN_OP_all_reduce, n, operands, n_attrs,
                                         attrs, NULL),
                                0);
}

// ---------------------------------------------------------------------------------------------------------------------
// Gradients

typedef struct Gradient {
  MlirOperation op;   // the all_reduce or the reduce_scatter that autodiff made of it
  MlirValue value;
  int ready, made;   // numbers of the ops that complete what autodiff found, and the value itself
} Gradient;

// A sum of micro-batches stands at the end: its last term was there before.
static int ready_at(const Order *o, MlirValue v) {
  MlirOperation def = nn_value_def(v);
  NnOp kind = nn_op_of(def);
  if (kind == NN_OP_optimization_barrier) return ready_at(o, mlirOperationGetOperand(def, 0));
  bool sum = kind == NN_OP_add && rewrite_phase_rank(rewrite_phase(def)) == 2;
  return sum ? ready_at(o, mlirOperationGetOperand(def, 1)) : number_of(o, v);
}

static int by_readiness(const void *x, const void *y) {
  const Gradient *a = x, *b = y;
  if (a->ready != b->ready) return a->ready < b->ready ? -1 : 1;
  return a->made < b->made ? -1 : a->made > b->made;
}

// One sum for n gradients, behind the op that makes the last of them.
static void build_bucket(const Order *o, const Gradient *g, int n, bool fast) {
  MlirValue values[NN_MAX_OPERANDS];
  int last = -1;
  bool adds = nn_attr_bool(g[0].op, "adds", false);
  int64_t ranks = nn_attr_i64(g[0].op, "ranks", 0), at = 0;
  for (int i = 0; i < n; i++) {
    values[i] = g[i].value;
    if (adds) values[n + i] = mlirOperationGetOperand(g[i].op, 1);
    if (g[i].made > last) last = g[i].made;
  }
  NnBuilder b = nn_builder_before(o->ops[last + 1]);
  b.phase = "update";
  b.loc = mlirOperationGetLocation(g[n - 1].op);
  MlirValue bucket = build_sum(&b, adds ? 2 * n : n, values, ranks, adds, fast);
  for (int i = 0; i < n; i++) {
    MlirValue old = mlirOperationGetResult(g[i].op, 0);
    mlirValueReplaceAllUsesOfWith(old, bucket_piece(&b, bucket, nn_value_type(old), &at));
  }
}

static bool is_sum(MlirOperation op) {
  return nn_op_of(op) == NN_OP_all_reduce || nn_op_of(op) == NN_OP_reduce_scatter;
}

static void build_buckets(MlirOperation func, int64_t most, bool fast) {
  Order o = order_of(func);
  Gradient *g = allocate_array((size_t)o.n + 1, sizeof *g);
  int n = 0;
  for (int i = 0; i < o.n; i++) {
    if (!is_sum(o.ops[i])) continue;
    MlirValue value = mlirOperationGetOperand(o.ops[i], 0);
    g[n++] = (Gradient){o.ops[i], value, ready_at(&o, value), number_of(&o, value)};
  }
  qsort(g, (size_t)n, sizeof *g, by_readiness);
  for (int first = 0, end; first < n; first = end) {
    NnType type = nn_value_type(g[first].value);
    int64_t bytes = nn_type_bytes(&type), operands = mlirOperationGetNumOperands(g[first].op);
    for (end = first + 1; end < n && (end - first + 1) * operands <= NN_MAX_OPERANDS; end++) {
      NnType next = nn_value_type(g[end].value);
      bytes += nn_type_bytes(&next);
      if (next.dtype != type.dtype || bytes > most) break;
    }
    build_bucket(&o, g + first, end - first, fast);
  }
  for (int i = 0; i < n; i++) mlirOperationDestroy(g[i].op);
  free(g);
  order_free(&o);
}

// ---------------------------------------------------------------------------------------------------------------------
// States that the forward pass updates

typedef struct State {
  int arg, result;
  NnType type;
} State;

static int find_states(MlirOperation func, State *out) {
  int n = 0;
  for (int r = 0; r < nn_function_n_results(func); r++) {
    char role[16];
    int arg = (int)nn_result_i64(func, r, ATTR_tied, -1);
    if (arg < 0 || strcmp(nn_arg_str(func, arg, ATTR_role, role, sizeof role, ""), "state") != 0) continue;
    // moving averages of parameters follow from what is the same on all ranks
    if (!mlirAttributeIsNull(nn_arg_attr(func, arg, ATTR_average))) continue;
    out[n++] = (State){arg, r, nn_value_type(mlirBlockGetArgument(nn_function_body(func), arg))};
  }
  return n;
}

// Marks what is computed from the states. False: something other than their new values is.
static bool mark_updates(MlirOperation func, const Order *o, const State *states, int n, bool *update) {
  PtrMap of_state = {0};
  bool *is_state = allocate_array((size_t)nn_function_n_results(func) + 1, sizeof *is_state), alone = true;
  for (int i = 0; i < n; i++) {
    ptr_map_set(&of_state, mlirBlockGetArgument(nn_function_body(func), states[i].arg).ptr, 1);
    is_state[states[i].result] = true;
  }
  for (int i = 0; i < o->n - 1; i++) {
    for (intptr_t k = 0; k < mlirOperationGetNumOperands(o->ops[i]); k++)
      update[i] |= ptr_map_get(&of_state, mlirOperationGetOperand(o->ops[i], k).ptr) > 0;
    for (intptr_t r = 0; update[i] && r < mlirOperationGetNumResults(o->ops[i]); r++)
      ptr_map_set(&of_state, mlirOperationGetResult(o->ops[i], r).ptr, 1);
  }
  for (int r = 0; r < nn_function_n_results(func); r++)
    alone &= is_state[r] || ptr_map_get(&of_state, mlirOperationGetOperand(o->ops[o->n - 1], r).ptr) <= 0;
  free(is_state);
  ptr_map_free(&of_state);
  return alone;
}

// And element-wise ops that nothing else reads, so that all of an update is in one kernel and nothing is kept for it.
static void mark_feeders(const Order *o, bool *update) {
  for (int i = o->n - 2; i >= 0; i--) {
    NnOp kind = nn_op_of(o->ops[i]);
    if (update[i] || kind == NN_OP_NONE || rewrite_is_unused(o->ops[i])) continue;
    NnOpKind family = nn_op_info(kind)->kind;
    if (family != NN_KIND_MAP && family != NN_KIND_SOURCE && kind != NN_OP_broadcast) continue;
    bool only = true;
    NN_FOREACH_USE (use, mlirOperationGetResult(o->ops[i], 0))
      only &= update[ptr_map_get(&o->number, mlirOpOperandGetOwner(use).ptr)];
    update[i] = only;
  }
}

static void use_instead(const Order *o, const bool *update, MlirValue old, MlirValue new) {
  for (int i = 0; i < o->n - 1; i++)
    for (intptr_t k = 0; update[i] && k < mlirOperationGetNumOperands(o->ops[i]); k++)
      if (mlirValueEqual(mlirOperationGetOperand(o->ops[i], k), old)) mlirOperationSetOperand(o->ops[i], k, new);
}

// What stands behind all gradients, so that no rank waits for another before its own are made.
static MlirValue last_gradient(MlirOperation func) {
  int n;
  MlirOperation *ops = rewrite_ops(nn_function_body(func), &n);
  MlirValue last = nn_null_value();
  for (int i = 0; i < n; i++)
    if (is_sum(ops[i]) || nn_op_of(ops[i]) == NN_OP_optimization_barrier) last = mlirOperationGetResult(ops[i], 0);
  free(ops);
  return last;
}

// States from `first` on that one chain takes: of one type.
static int chain_length(const State *states, int n) {
  int length = 1;
  while (length < n && length < NN_MAX_OPERANDS - 1 && states[length].type.dtype == states[0].type.dtype) length++;
  return length;
}

// The chain of some states: taken over from the rank before, updated, handed on. Returns what the next chain waits for.
static MlirValue build_chain(MlirOperation func, const Order *o, const bool *update, const State *states, int n,
                             MlirValue after, MlirOperation begin) {
  MlirValue values[NN_MAX_OPERANDS] = {after};
  MlirOperation end = o->ops[o->n - 1];
  MlirBlock body = nn_function_body(func);
  int64_t at = 0;
  for (int i = 0; i < n; i++) values[i + 1] = mlirBlockGetArgument(body, states[i].arg);
  NnBuilder b = nn_builder_before(begin);
  b.phase = "update";
  MlirValue received = build(&b, NN_OP_rank_receive, n + 1, values);
  for (int i = 0; i < n; i++) use_instead(o, update, values[i + 1], bucket_piece(&b, received, states[i].type, &at));
  for (int i = 0; i < n; i++) values[i] = mlirOperationGetOperand(end, states[i].result);
  NnBuilder e = nn_builder_before(end);
  e.phase = "update";
  MlirValue sent = build(&e, NN_OP_rank_send, n, values);
  at = 0;
  for (int i = 0; i < n; i++)
    mlirOperationSetOperand(end, states[i].result, bucket_piece(&e, sent, states[i].type, &at));
  return sent;
}

// The ops that update some of the states alone, in order, behind all else.
static MlirOperation move_updates(const Order *o, const bool *update) {
  MlirOperation first = nn_null_operation();
  for (int i = 0; i < o->n - 1; i++) {
    if (!update[i]) continue;
    mlirOperationMoveBefore(o->ops[i], o->ops[o->n - 1]);
    nn_set_attr(o->ops[i], &NN_STR(ATTR_phase, "update"));
    if (mlirOperationIsNull(first)) first = o->ops[i];
  }
  return first;
}

// Names the first of the states that something but its own update reads.
static bool refuse_read_state(MlirOperation func, const Order *o, const State *states, int n) {
  bool *update = allocate_array((size_t)o->n, sizeof *update);
  int found = 0;
  while (found < n - 1 && mark_updates(func, o, states + found, 1, update)) {
    memset(update, 0, (size_t)o->n * sizeof *update);
    found++;
  }
  free(update);
  char text[256];
  nn_error(func,
           "with --shard ranks have micro-batches side by side: a state such as '%s' may be read by its own update "
           "alone, not by the model",
           nn_arg_str(func, states[found].arg, ATTR_name, text, sizeof text, ""));
  return false;
}

static bool chain_states(MlirOperation func) {
  State *states = allocate_array((size_t)nn_function_n_results(func) + 1, sizeof *states);
  int n = find_states(func, states);
  bool ok = true;
  for (int first = 0, length; ok && first < n; first += length) {
    length = chain_length(states + first, n - first);
    MlirValue after = last_gradient(func);   // or what the chain before has sent
    Order o = order_of(func);
    for (int i = 0; i < o.n; i++)
      if (nn_op_of(o.ops[i]) == NN_OP_rank_send) after = mlirOperationGetResult(o.ops[i], 0);
    bool *update = allocate_array((size_t)o.n, sizeof *update);
    ok = mark_updates(func, &o, states + first, length, update) || refuse_read_state(func, &o, states + first, length);
    if (ok) {
      mark_feeders(&o, update);
      MlirOperation begin = move_updates(&o, update);
      if (!mlirOperationIsNull(begin)) build_chain(func, &o, update, states + first, length, after, begin);
    }
    free(update);
    order_free(&o);
  }
  free(states);
  return ok;
}

// ---------------------------------------------------------------------------------------------------------------------

// Updated parameters are gathered there, too, and what a norm is made of.
static void put_on_lane(MlirOperation func) {
  int n;
  MlirOperation *ops = rewrite_ops(nn_function_body(func), &n);
  for (int i = 0; i < n; i++)
    if (nn_op_of(ops[i]) == NN_OP_all_gather) nn_set_attr(ops[i], &NN_STR(ATTR_lane, "comm"));
  free(ops);
}

// What cannot be done by several ranks at once. False after reporting.
static bool can_be_distributed(MlirOperation train) {
  for (int a = 0; a < nn_function_n_args(train); a++)
    if (!mlirAttributeIsNull(nn_arg_attr(train, a, ATTR_carried))) {
      nn_error(train,
               "--shard: states that go on with a text (continued=true) are one micro-batch's after the other's: "
               "several ranks cannot train on them at once");
      return false;
    }
  return true;
}

// Requires: autodiff has run; on a module with nn.shard it has made an all_reduce or a reduce_scatter of each gradient,
// of which only ops at the function's end read the result. Without nn.shard nothing is done. Establishes: one of them
// per bucket, behind its last gradient; in @train and @accumulate a rank_receive and a rank_send around what updates
// states, behind all gradients; where parameters are kept in parts, an all_gather of each at the function's begin; all
// of them on the lane `comm`. Breaks: nothing.
bool nn_pass_distribute(MlirModule module, const NnPassRun *run) {
  int64_t bucket = 0;
  double percent;
  parse_bytes(nn_pass_option(run, "bucket", BUCKET_BYTES), &bucket, &percent);
  bool fast = strcmp(nn_pass_option(run, "fast", "0"), "1") == 0;
  MlirOperation top = mlirModuleGetOperation(module);
  NnFunctions functions = nn_public_functions(module);
  if (mlirOperationIsNull(nn_module_train(module)) || !nn_has_attr(top, ATTR_shard)) return true;
  for (int i = 0; i < functions.n; i++) {
    if (nn_is_train(functions.items[i]) && !can_be_distributed(functions.items[i])) return false;
    if (!nn_is_train(functions.items[i]) && !nn_is_accumulate(functions.items[i])) continue;
    build_buckets(functions.items[i], bucket, fast);
    if (!chain_states(functions.items[i])) return false;
  }
  char shard[16];
  if (strcmp(nn_attr_str(top, ATTR_shard, shard, sizeof shard, ""), "parameters") == 0) distribute_parameters(module);
  for (int i = 0; i < functions.n; i++)
    if (nn_is_train(functions.items[i])) put_on_lane(functions.items[i]);
  return true;
}
