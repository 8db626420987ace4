// Updates that read less at once. An optimizer's step for one parameter is one kernel, which reads the parameter, its
// gradient and all of its state: of the largest parameter they are often what no budget can go below, however far away
// they are at home. Here it becomes several kernels, each of which reads two tensors of the parameter's size: what lies
// between them is written over what is not needed any more. More bytes are read and written, and the same bits
// computed.
#include <stdlib.h>
#include <string.h>

#include "passes/remat/remat.h"
#include "passes/rewrite.h"
#include "support/alloc.h"

enum { MAX_READ = 2, MAX_LEAVES = 63 };   // large tensors that a kernel reads; of all of a kernel and its parts

// A kernel to be split. A leaf is an argument as large as what it computes, a result, or a value between two parts.
typedef struct Split {
  MlirOperation call, func;
  MlirOperation *ops;   // Owned; the return is the last
  int n_ops;
  NnType whole;
  PtrMap leaf_of;   // value -> leaf
  int n_leaves;
  MlirValue leaf[MAX_LEAVES];
  uint64_t made_of[MAX_LEAVES];   // leaves; 0 for arguments and what is made of none
  PtrMap reads;                   // large value -> place in `sets`
  uint64_t *sets;                 // Owned; leaves that it is made of
  int n_sets;
} Split;

static bool is_large(const Split *s, MlirValue v) {
  NnType t = nn_value_type(v);
  return nn_shape_equal(&t, &s->whole);
}

static uint64_t set_of(const Split *s, MlirValue v) {
  int leaf = ptr_map_get(&s->leaf_of, v.ptr), at = ptr_map_get(&s->reads, v.ptr);
  return leaf >= 0 ? (uint64_t)1 << leaf : at >= 0 ? s->sets[at] : 0;
}

static bool add_leaf(Split *s, MlirValue v) {
  NnType t = nn_value_type(v);
  if (s->n_leaves == MAX_LEAVES || t.dtype == NN_I1) return false;
  s->made_of[s->n_leaves] = set_of(s, v);
  s->leaf[s->n_leaves] = v;
  ptr_map_set(&s->leaf_of, v.ptr, s->n_leaves++);
  return true;
}

static int count(uint64_t set) { return __builtin_popcountll(set); }

// Which leaves an op's result is made of. Where they would be too many the operand made of most becomes one.
static bool read_operands(Split *s, MlirOperation op, uint64_t *set) {
  for (;;) {
    MlirValue most = {NULL};
    *set = 0;
    for (intptr_t o = 0; o < mlirOperationGetNumOperands(op); o++) {
      MlirValue v = mlirOperationGetOperand(op, o);
      uint64_t own = set_of(s, v);
      *set |= own;
      if (count(own) > (most.ptr ? count(set_of(s, most)) : 1)) most = v;
    }
    if (count(*set) <= MAX_READ || !most.ptr) return true;
    if (!add_leaf(s, most)) return false;
  }
}

static bool is_result(const Split *s, MlirValue v) {
  for (intptr_t r = 0; r < mlirOperationGetNumOperands(s->ops[s->n_ops - 1]); r++)
    if (mlirValueEqual(mlirOperationGetOperand(s->ops[s->n_ops - 1], r), v)) return true;
  return false;
}

// Chooses the leaves. False: the kernel stays as it is.
static bool choose_leaves(Split *s) {
  MlirBlock body = nn_function_body(s->func);
  for (int a = 0; a < nn_function_n_args(s->func); a++)
    if (is_large(s, mlirBlockGetArgument(body, a)) && !add_leaf(s, mlirBlockGetArgument(body, a))) return false;
  if (s->n_leaves <= MAX_READ) return false;
  s->sets = allocate_array((size_t)s->n_ops, sizeof *s->sets);
  for (int i = 0; i < s->n_ops - 1; i++) {
    uint64_t set;
    if (mlirOperationGetNumResults(s->ops[i]) != 1) return false;
    MlirValue v = mlirOperationGetResult(s->ops[i], 0);
    if (is_large(s, v) && !remat_is_exact(nn_op_of(s->ops[i]))) return false;
    if (!read_operands(s, s->ops[i], &set) || (set && !is_large(s, v))) return false;
    s->sets[s->n_sets] = set;
    ptr_map_set(&s->reads, v.ptr, s->n_sets++);
    if (is_result(s, v) && (!is_large(s, v) || !add_leaf(s, v))) return false;
  }
  for (int r = 0; r < nn_function_n_results(s->func); r++)
    if (ptr_map_get(&s->leaf_of, mlirOperationGetOperand(s->ops[s->n_ops - 1], r).ptr) < 0) return false;
  return true;
}

// The function's argument that a result of the call is the update of, -1: none.
static int updated_argument(MlirOperation func, MlirValue result) {
  MlirOperation end = nn_function_return(func);
  for (int r = 0; r < nn_function_n_results(func); r++)
    if (mlirValueEqual(mlirOperationGetOperand(end, r), result)) return (int)nn_result_i64(func, r, ATTR_tied, -1);
  return -1;
}

// Whether no part reads what a part before it has updated; parts are made in the order of their leaves.
static bool order_holds(const Split *s, MlirOperation func) {
  for (int leaf = 0; leaf < s->n_leaves; leaf++) {
    if (mlirValueIsABlockArgument(s->leaf[leaf])) continue;
    for (int r = 0; r < nn_function_n_results(s->func); r++) {
      if (!mlirValueEqual(mlirOperationGetOperand(s->ops[s->n_ops - 1], r), s->leaf[leaf])) continue;
      int updated = updated_argument(func, mlirOperationGetResult(s->call, r));
      for (int a = 0; a < nn_function_n_args(s->func) && updated >= 0; a++) {
        MlirValue operand = mlirOperationGetOperand(s->call, a);
        if (!mlirValueEqual(operand, mlirBlockGetArgument(nn_function_body(func), updated))) continue;
        int old = ptr_map_get(&s->leaf_of, mlirBlockGetArgument(nn_function_body(s->func), a).ptr);
        for (int later = leaf + 1; later < s->n_leaves && old >= 0; later++)
          if (s->made_of[later] >> old & 1) return false;
      }
    }
  }
  return true;
}

// The kernel that computes a leaf from others; sets the values of the call's operands.
static MlirOperation make_part(const Split *s, MlirModule module, int leaf, const MlirValue *known, MlirValue *operands,
                               int *n) {
  char base[128];
  MlirOperation part = mlirOperationClone(s->func);
  mlirBlockInsertOwnedOperationAfter(mlirOperationGetBlock(s->func), s->func, part);
  char *name = nn_free_symbol(module, nn_attr_str(s->func, "sym_name", base, sizeof base, "kernel"));
  nn_set_attr(part, &NN_STR("sym_name", name));
  free(name);
  int n_ops, n_args = nn_function_n_args(part);
  MlirOperation *ops = rewrite_ops(nn_function_body(part), &n_ops);
  MlirValue made = {NULL};
  for (int a = 0; a < n_args; a++) operands[(*n)++] = mlirOperationGetOperand(s->call, a);
  for (int i = 0; i < n_ops - 1; i++) {
    int own = ptr_map_get(&s->leaf_of, mlirOperationGetResult(s->ops[i], 0).ptr);
    MlirValue v = mlirOperationGetResult(ops[i], 0);
    if (own == leaf) made = v;
    if (own < 0 || !(s->made_of[leaf] >> own & 1)) continue;
    MlirValue argument = nn_function_add_arg(part, nn_value_type(v), mlirOperationGetLocation(part), 0, NULL);
    mlirValueReplaceAllUsesOfWith(v, argument);
    operands[(*n)++] = known[own];
  }
  nn_function_set_results(part, 1, &made, 0);
  while (rewrite_erase_dead(nn_function_body(part)) > 0) continue;
  for (int a = *n - 1; a >= 0; a--) {
    if (!mlirOpOperandIsNull(mlirValueGetFirstUse(mlirBlockGetArgument(nn_function_body(part), a)))) continue;
    nn_function_remove_arg(part, a);
    for (int k = a; k + 1 < *n; k++) operands[k] = operands[k + 1];
    (*n)--;
  }
  free(ops);
  return part;
}

static void split(const Split *s, MlirModule module) {
  MlirValue known[MAX_LEAVES] = {{NULL}};
  size_t most = (size_t)nn_function_n_args(s->func) + (size_t)s->n_leaves;
  MlirValue *operands = allocate_array(most, sizeof *operands);
  for (int leaf = 0; leaf < s->n_leaves; leaf++) {
    if (mlirValueIsABlockArgument(s->leaf[leaf])) continue;
    int n = 0;
    MlirOperation part = make_part(s, module, leaf, known, operands, &n);
    MlirOperation call = remat_build_call(s->call, part, n, operands);
    mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(s->call), s->call, call);
    known[leaf] = mlirOperationGetResult(call, 0);
  }
  for (int r = 0; r < nn_function_n_results(s->func); r++) {
    int leaf = ptr_map_get(&s->leaf_of, mlirOperationGetOperand(s->ops[s->n_ops - 1], r).ptr);
    mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(s->call, r), known[leaf]);
  }
  mlirOperationDestroy(s->call);
  free(operands);
}

static bool try_split(MlirModule module, MlirOperation func, MlirOperation call) {
  char kind[16];
  int64_t domain[NN_MAX_RANK];
  Split s = {.call = call, .func = nn_callee(call)};
  if (mlirOperationIsNull(s.func) || strcmp(nn_attr_str(s.func, ATTR_kind, kind, sizeof kind, ""), "map")) return false;
  s.whole = nn_type(NN_F32, nn_attr_i64s(s.func, ATTR_domain, domain, NN_MAX_RANK), domain);
  s.ops = rewrite_ops(nn_function_body(s.func), &s.n_ops);
  bool fine = choose_leaves(&s) && order_holds(&s, func);
  if (fine) split(&s, module);
  free(s.ops);
  free(s.sets);
  ptr_map_free(&s.leaf_of);
  ptr_map_free(&s.reads);
  return fine;
}

static int64_t bytes_read(MlirOperation op) {
  int64_t bytes = 0;
  for (intptr_t o = 0; o < mlirOperationGetNumOperands(op); o++) {
    NnType t = nn_value_type(mlirOperationGetOperand(op, o));
    bytes += nn_type_bytes(&t);
  }
  return bytes;
}

int remat_split_updates(MlirModule module, MlirOperation func, int64_t least) {
  int n, n_split = 0;
  MlirOperation *ops = rewrite_ops(nn_function_body(func), &n);
  for (int i = 0; i < n; i++)
    if (nn_is(ops[i], "func.call") && step_role(ops[i]) == REMAT_UPDATE && bytes_read(ops[i]) >= least)
      n_split += try_split(module, func, ops[i]);
  free(ops);
  return n_split;
}
