// From groups to kernels and calls. Consumers first, each group is drafted: which values it must return, which ops that
// takes (its members, and clones), and what it reads. Then, producers first, drafts become calls; drafts of equal
// structure share a function.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passes/fuse/fuse.h"
#include "passes/rewrite.h"
#include "support/alloc.h"

typedef struct Words {
  int n;
  uint64_t *items;
} Words;   // Owned items
typedef struct Values {
  int n;
  MlirValue *items;
} Values;   // Owned items
typedef struct Ops {
  int n;
  MlirOperation *items;
} Ops;   // Owned items

// A kernel to be: everything about it that two equal kernels share is in `key`.
typedef struct Draft {
  Ops ops;                // operands before users
  Values args, results;   // values of the public function
  PtrMap ids;             // number of each value in the kernel
  int n_ids;
  Words key;
  uint32_t copies[(NN_OP_COUNT + 31) / 32];   // kinds of ops that other kernels compute as well
  const char *kind;                           // "map", "row", "column", "move"; NULL: nothing needs it
  NnType domain;
  uint32_t axes;
} Draft;

typedef struct Known {
  MlirAttribute callee;
  MlirOperation func;
} Known;
struct FuseKernels {
  MlirModule module;
  PtrMap ids;   // of a draft's key, as an attribute, which is unique: which of the items
  int n;
  Known *items;   // Owned
  int next_name;
};

typedef struct Emission {
  FuseGraph *g;
  FuseKernels *kernels;
  PtrMap needed;     // values that a call must return
  PtrMap replaced;   // value -> index into replacement
  Values replacement;
} Emission;

static void add_word(Words *w, uint64_t word) { *ARRAY_ADD(w->items, w->n) = word; }

static void draft_free(Draft *d) {
  free(d->ops.items);
  free(d->args.items);
  free(d->results.items);
  free(d->key.items);
  ptr_map_free(&d->ids);
}

// ---------------------------------------------------------------------------------------------------------------------
// Attributes of an op that are part of what it computes: all but the pass bookkeeping

static int op_attributes(MlirOperation op, MlirNamedAttribute *out, int max) {
  int n = 0;
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op); i++) {
    MlirNamedAttribute a = mlirOperationGetAttribute(op, i);
    if (nn_is_stage_attribute(mlirIdentifierStr(a.name))) continue;
    assert(n < max);
    if (n < max) out[n++] = a;
  }
  return n;
}

enum { MAX_ATTRIBUTES = 32 };

static MlirAttribute op_dictionary(MlirOperation op) {
  MlirNamedAttribute list[MAX_ATTRIBUTES];
  int n = op_attributes(op, list, MAX_ATTRIBUTES);
  return mlirDictionaryAttrGet(mlirOperationGetContext(op), n, list);
}

// ---------------------------------------------------------------------------------------------------------------------
// Drafting

// Whether the kernel of `root` computes op `def` itself, reached from an op whose group is `home`. Mirrors walk_cone in
// fuse_group.c.
static bool computes(FuseGraph *g, int root, int home, int def, bool direct) {
  const FuseOp *o = &g->ops[def];
  if (o->klass == FUSE_CLONED) return true;
  if (o->klass != FUSE_NODE) return false;
  int group = fuse_find(g, def);
  if (group == root) return true;
  if (!direct) return false;
  return o->inlined || (group == home && nn_op_info(o->kind)->kind == NN_KIND_MAP && !fuse_is_stored(g, def));
}

static int walk(FuseGraph *g, Draft *d, int root, int home, MlirValue v, bool direct);

// A value of another kernel that this one makes for itself, and numbers that the forward pass has drawn.
static void note_copy(FuseGraph *g, Draft *d, int root, int def) {
  const FuseOp *o = &g->ops[def];
  bool drawn_again = o->kind == NN_OP_random_uniform && g->groups[root].phases & FUSE_BACKWARD;
  if (drawn_again || (o->klass == FUSE_NODE && fuse_find(g, def) != root))
    d->copies[o->kind / 32] |= 1u << o->kind % 32;
}

static void append(FuseGraph *g, Draft *d, int root, int home, int def, bool direct) {
  const FuseOp *o = &g->ops[def];
  int n = (int)mlirOperationGetNumOperands(o->op), operands[NN_MAX_OPERANDS];
  assert(n <= NN_MAX_OPERANDS);
  if (o->klass == FUSE_NODE) home = fuse_find(g, def), direct = true;
  if (nn_op_info(o->kind)->kind == NN_KIND_VIEW || o->kind == NN_OP_random_uniform) direct = false;
  for (int i = 0; i < n; i++) operands[i] = walk(g, d, root, home, mlirOperationGetOperand(o->op, i), direct);
  *ARRAY_ADD(d->ops.items, d->ops.n) = o->op;
  note_copy(g, d, root, def);
  add_word(&d->key, (uint64_t)o->kind);
  add_word(&d->key, (uint64_t)(uintptr_t)op_dictionary(o->op).ptr);
  for (int i = 0; i < n; i++) add_word(&d->key, (uint64_t)operands[i]);
  for (intptr_t r = 0; r < mlirOperationGetNumResults(o->op); r++) {
    MlirValue result = mlirOperationGetResult(o->op, r);
    add_word(&d->key, (uint64_t)(uintptr_t)mlirValueGetType(result).ptr);
    ptr_map_set(&d->ids, result.ptr, d->n_ids++);
  }
}

// The number of v in the kernel, after drafting what computes it.
static int walk(FuseGraph *g, Draft *d, int root, int home, MlirValue v, bool direct) {
  int id = ptr_map_get(&d->ids, v.ptr);
  if (id >= 0) return id;
  int def = mlirValueIsABlockArgument(v) ? -1 : ptr_map_get(&g->op_ids, mlirOpResultGetOwner(v).ptr);
  bool alone = g->ops[root].klass == FUSE_MOVE;
  if (def >= 0 && (alone ? def == root : computes(g, root, home, def, direct))) {
    append(g, d, root, home, def, direct);
    return ptr_map_get(&d->ids, v.ptr);
  }
  *ARRAY_ADD(d->args.items, d->args.n) = v;
  add_word(&d->key, UINT64_MAX);   // an argument: no op has this number
  add_word(&d->key, (uint64_t)(uintptr_t)mlirValueGetType(v).ptr);
  ptr_map_set(&d->ids, v.ptr, d->n_ids);
  return d->n_ids++;
}

static int compare_ints(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

// Members in the order of the function, so that equal groups list their results alike.
static int sorted_members(FuseGraph *g, int root, int *members) {
  int n = 0;
  for (int m = g->groups[root].first; m >= 0; m = g->next[m]) members[n++] = m;
  qsort(members, (size_t)n, sizeof *members, compare_ints);
  return n;
}

static const char *kind_of_draft(FuseGraph *g, int root, Draft *d) {
  const FuseGroup *group = &g->groups[root];
  if (g->ops[root].klass == FUSE_MOVE) return "move";
  bool reduces = false;
  for (int i = 0; i < d->ops.n; i++) reduces |= nn_op_info(nn_op_of(d->ops.items[i]))->kind == NN_KIND_REDUCE;
  if (!reduces) return "map";
  d->axes = group->axes;
  d->domain = *group->shape;
  return fuse_group_is_row(group) ? "row" : "column";
}

static void draft_group(Emission *e, int root, Draft *d) {
  FuseGraph *g = e->g;
  int *members = allocate_array((size_t)g->groups[root].size, sizeof *members);
  int n = sorted_members(g, root, members);
  for (int i = 0; i < n; i++) {
    MlirOperation op = g->ops[members[i]].op;
    bool needed = false;
    for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++)
      needed |= ptr_map_get(&e->needed, mlirOperationGetResult(op, r).ptr) >= 0;
    // A move returns all its results; others return what is needed.
    for (intptr_t r = 0; r < mlirOperationGetNumResults(op) && needed; r++) {
      MlirValue v = mlirOperationGetResult(op, r);
      if (g->ops[root].klass == FUSE_MOVE || ptr_map_get(&e->needed, v.ptr) >= 0)
        *ARRAY_ADD(d->results.items, d->results.n) = v;
    }
  }
  free(members);
  if (d->results.n == 0) return;
  for (int i = 0; i < d->results.n; i++) walk(g, d, root, root, d->results.items[i], true);
  d->domain = nn_value_type(d->results.items[0]);
  d->kind = kind_of_draft(g, root, d);
  for (int i = 0; i < d->results.n; i++) add_word(&d->key, (uint64_t)ptr_map_get(&d->ids, d->results.items[i].ptr));
  add_word(&d->key, d->axes);
  add_word(&d->key, (uint64_t)d->kind[0]);
  for (int i = 0; i < d->args.n; i++) ptr_map_set(&e->needed, d->args.items[i].ptr, 1);
}

// ---------------------------------------------------------------------------------------------------------------------
// Kernels

FuseKernels *fuse_kernels_create(MlirModule module) {
  FuseKernels *k = allocate_array(1, sizeof *k);
  k->module = module;
  NN_FOREACH_OP (op, mlirModuleGetBody(module)) k->next_name += nn_has_attr(op, ATTR_kernel);
  return k;
}

void fuse_kernels_destroy(FuseKernels *k) {
  ptr_map_free(&k->ids);
  free(k->items);
  free(k);
}

// "sub+mul+relu": the arithmetic, each op once.
static void label_of(const Draft *d, char *buf, size_t size) {
  bool seen[NN_OP_COUNT] = {false};
  size_t used = 0;
  buf[0] = 0;
  for (int pass = 0; pass < 2 && !used; pass++) {
    for (int i = 0; i < d->ops.n; i++) {
      NnOp op = nn_op_of(d->ops.items[i]);
      bool plumbing = op == NN_OP_constant || op == NN_OP_broadcast || op == NN_OP_iota || op == NN_OP_reshape;
      if (seen[op] || (plumbing && pass == 0)) continue;
      seen[op] = true;
      const char *name = nn_op_info(op)->name;
      if (used + strlen(name) + sizeof "+" + sizeof "+.." > size) {
        memcpy(buf + used, "+..", 4);
        return;
      }
      used += (size_t)snprintf(buf + used, size - used, "%s%s", used ? "+" : "", name);
    }
  }
}

static MlirOperation copy_op(MlirOperation op, const MlirValue *operands) {
  MlirNamedAttribute attrs[MAX_ATTRIBUTES];
  int n_attrs = op_attributes(op, attrs, MAX_ATTRIBUTES), n_results = (int)mlirOperationGetNumResults(op);
  MlirType types[NN_MAX_RESULTS];
  assert(n_results <= NN_MAX_RESULTS);
  for (int r = 0; r < n_results; r++) types[r] = mlirValueGetType(mlirOperationGetResult(op, r));
  MlirOperationState state = mlirOperationStateGet(mlirIdentifierStr(mlirOperationGetName(op)),
                                                   mlirOperationGetLocation(op));
  mlirOperationStateAddAttributes(&state, n_attrs, attrs);
  mlirOperationStateAddOperands(&state, mlirOperationGetNumOperands(op), operands);
  mlirOperationStateAddResults(&state, n_results, types);
  return mlirOperationCreate(&state);
}

static void fill_body(MlirOperation func, const Draft *d, MlirLocation loc) {
  MlirValue *values = allocate_array((size_t)d->n_ids, sizeof *values);
  for (int i = 0; i < d->args.n; i++)
    values[ptr_map_get(&d->ids, d->args.items[i].ptr)] = nn_function_add_arg(func, nn_value_type(d->args.items[i]), loc,
                                                                             0, NULL);
  MlirBlock body = nn_function_body(func);
  for (int i = 0; i < d->ops.n; i++) {
    MlirOperation op = d->ops.items[i];
    int n = (int)mlirOperationGetNumOperands(op);
    MlirValue *operands = allocate_array((size_t)n, sizeof *operands);
    for (int j = 0; j < n; j++) operands[j] = values[ptr_map_get(&d->ids, mlirOperationGetOperand(op, j).ptr)];
    MlirOperation copy = copy_op(op, operands);
    mlirBlockAppendOwnedOperation(body, copy);
    for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++)
      values[ptr_map_get(&d->ids, mlirOperationGetResult(op, r).ptr)] = mlirOperationGetResult(copy, r);
    free(operands);
  }
  MlirValue *results = allocate_array((size_t)d->results.n, sizeof *results);
  for (int i = 0; i < d->results.n; i++) results[i] = values[ptr_map_get(&d->ids, d->results.items[i].ptr)];
  nn_function_set_results(func, d->results.n, results, 0);
  free(results);
  free(values);
}

// "add relu": for the comment of the kernel.
static void write_copies(MlirOperation func, const Draft *d) {
  size_t length = 0, room = 1;
  for (int pass = 0; pass < 2; pass++) {
    char *text = pass ? allocate_array(room, 1) : NULL;
    for (int op = 0; op < NN_OP_COUNT; op++) {
      if (!(d->copies[op / 32] >> op % 32 & 1)) continue;
      if (pass)
        length += (size_t)snprintf(text + length, room - length, "%s%s", length ? " " : "", nn_op_info((NnOp)op)->name);
      else room += strlen(nn_op_info((NnOp)op)->name) + 1;
    }
    if (length) nn_set_attr(func, &NN_STR(ATTR_repeated, text));
    free(text);
  }
}

static const Known *kernel_for(FuseKernels *k, Draft *d) {
  MlirContext ctx = mlirModuleGetContext(k->module);
  const void *key = mlirDenseI64ArrayGet(ctx, d->key.n, (const int64_t *)d->key.items).ptr;
  int found = ptr_map_get(&k->ids, key);
  if (found >= 0) return &k->items[found];
  char name[32], label[48];
  snprintf(name, sizeof name, "kernel_%d", k->next_name++);
  MlirLocation loc = mlirOperationGetLocation(d->ops.items[d->ops.n - 1]);
  MlirOperation func = nn_function_create(k->module, name, true, loc);
  fill_body(func, d, loc);
  nn_set_unit(func, ATTR_kernel);
  nn_set_attr(func, &NN_STR(ATTR_kind, d->kind));
  nn_set_attr(func, &NN_I64S(ATTR_domain, d->domain.dim, d->domain.rank));
  int64_t axes[NN_MAX_RANK];
  int n_axes = 0;
  for (int a = 0; a < d->domain.rank; a++)
    if (d->axes >> a & 1) axes[n_axes++] = a;
  if (n_axes) nn_set_attr(func, &NN_I64S(ATTR_axes, axes, n_axes));
  label_of(d, label, sizeof label);
  nn_set_attr(func, &NN_STR(ATTR_label, label));
  write_copies(func, d);
  ptr_map_set(&k->ids, key, k->n);
  Known *known = ARRAY_ADD(k->items, k->n);
  *known = (Known){mlirFlatSymbolRefAttrGet(ctx, nn_string_ref(name)), func};
  return known;
}

// ---------------------------------------------------------------------------------------------------------------------
// Calls

static MlirValue current(Emission *e, MlirValue v) {
  int i = ptr_map_get(&e->replaced, v.ptr);
  return i < 0 ? v : e->replacement.items[i];
}

// The last of its ops'. Not all that the group took is in the draft: its reader may compute an op again, and a
// reduction with which a part of an update was for a while is no update.
static const char *phase_name(const Draft *d) {
  const char *last = "forward";
  for (int i = 0; i < d->ops.n; i++) {
    const char *phase = rewrite_phase(d->ops.items[i]);
    if (rewrite_phase_rank(phase) > rewrite_phase_rank(last)) last = phase;
  }
  return last;
}

// Whether something else than a further recomputation reads it: its value is wanted for itself.
static bool is_wanted(MlirOperation op) {
  NN_FOREACH_USE (use, mlirOperationGetResult(op, 0))
    if (!nn_has_attr(mlirOpOperandGetOwner(use), ATTR_recompute)) return true;
  return false;
}

// The forward values that a backward kernel computes again, by name: "relu.12, mul.40"; empty: none.
static MlirAttribute recomputed_names(MlirContext ctx, const Draft *d) {
  Words names = {0};
  for (int i = 0; i < d->ops.n; i++) {
    MlirAttribute name = nn_attribute(d->ops.items[i], ATTR_recompute);
    NnOp op = nn_op_of(d->ops.items[i]);   // a slice is what is read where it lies, and not computed
    bool known = mlirAttributeIsNull(name) || op == NN_OP_broadcast || op == NN_OP_slice || !is_wanted(d->ops.items[i]);
    for (int j = 0; j < names.n && !known; j++) known = names.items[j] == (uint64_t)(uintptr_t)name.ptr;
    if (!known) add_word(&names, (uint64_t)(uintptr_t)name.ptr);
  }
  size_t length = 0, room = 1;
  for (int i = 0; i < names.n; i++)
    room += mlirStringAttrGetValue((MlirAttribute){(void *)(uintptr_t)names.items[i]}).length + 2;
  char *text = allocate_array(room, 1);
  for (int i = 0; i < names.n; i++) {
    MlirStringRef name = mlirStringAttrGetValue((MlirAttribute){(void *)(uintptr_t)names.items[i]});
    length += (size_t)snprintf(text + length, room - length, "%s%.*s", i ? ", " : "", (int)name.length, name.data);
  }
  MlirAttribute joined = mlirStringAttrGet(ctx, nn_string_ref(text));
  free(text);
  free(names.items);
  return joined;
}

static void emit_call(Emission *e, Draft *d, MlirOperation before) {
  FuseGraph *g = e->g;
  MlirContext ctx = mlirModuleGetContext(e->kernels->module);
  const Known *kernel = kernel_for(e->kernels, d);
  MlirAttribute recomputes = recomputed_names(ctx, d);
  MlirNamedAttribute attrs[3] = {
      nn_named(ctx, "callee", kernel->callee),
      nn_named(ctx, ATTR_phase, mlirStringAttrGet(ctx, nn_string_ref(phase_name(d)))),
      nn_named(ctx, ATTR_inside, recomputes),
  };
  bool any = mlirStringAttrGetValue(recomputes).length > 0;
  // of its first such call
  if (any && !nn_has_attr(kernel->func, ATTR_inside)) nn_set_attribute(kernel->func, ATTR_inside, recomputes);
  MlirValue *operands = allocate_array((size_t)d->args.n, sizeof *operands);
  MlirType *types = allocate_array((size_t)d->results.n, sizeof *types);
  for (int i = 0; i < d->args.n; i++) operands[i] = current(e, d->args.items[i]);
  for (int i = 0; i < d->results.n; i++) types[i] = mlirValueGetType(d->results.items[i]);
  MlirLocation *places = allocate_array((size_t)d->ops.n, sizeof *places);
  for (int i = 0; i < d->ops.n; i++) places[i] = mlirOperationGetLocation(d->ops.items[i]);
  MlirOperationState state = mlirOperationStateGet(nn_string_ref("func.call"),
                                                   mlirLocationFusedGet(ctx, d->ops.n, places, mlirAttributeGetNull()));
  free(places);
  mlirOperationStateAddAttributes(&state, any ? 3 : 2, attrs);
  mlirOperationStateAddOperands(&state, d->args.n, operands);
  mlirOperationStateAddResults(&state, d->results.n, types);
  MlirOperation call = mlirOperationCreate(&state);
  mlirBlockInsertOwnedOperationBefore(g->block, before, call);
  for (int i = 0; i < d->results.n; i++) {
    ptr_map_set(&e->replaced, d->results.items[i].ptr, e->replacement.n);
    *ARRAY_ADD(e->replacement.items, e->replacement.n) = mlirOperationGetResult(call, i);
  }
  free(operands);
  free(types);
}

static void emit_fixed(Emission *e, int i, MlirOperation end) {
  MlirOperation op = e->g->ops[i].op;
  for (intptr_t j = 0; j < mlirOperationGetNumOperands(op); j++) {
    MlirValue old = mlirOperationGetOperand(op, j), now = current(e, old);
    if (!mlirValueEqual(old, now)) mlirOperationSetOperand(op, j, now);
  }
  if (!mlirOperationEqual(op, end)) mlirOperationMoveBefore(op, end);
}

void fuse_emit(FuseGraph *g, FuseKernels *kernels) {
  Emission e = {.g = g, .kernels = kernels};
  int n = 0;
  for (int p = 0; p < g->n; p++) n += g->at[p] >= 0;
  Draft *drafts = allocate_array((size_t)n, sizeof *drafts), *draft = drafts + n;
  for (int p = g->n - 1; p >= 0; p--) {
    int root = g->at[p];
    if (root < 0) continue;
    draft--;
    if (g->ops[root].klass != FUSE_FIXED) {
      draft_group(&e, root, draft);
      continue;
    }
    MlirOperation op = g->ops[root].op;
    for (intptr_t j = 0; j < mlirOperationGetNumOperands(op); j++)
      ptr_map_set(&e.needed, mlirOperationGetOperand(op, j).ptr, 1);
  }
  MlirOperation end = mlirBlockGetTerminator(g->block);
  for (int p = 0; p < g->n; p++) {
    int root = g->at[p];
    if (root < 0) continue;
    if (g->ops[root].klass == FUSE_FIXED) emit_fixed(&e, root, end);
    else if (draft->kind) emit_call(&e, draft, end);
    draft_free(draft++);
  }
  for (int i = g->n - 1; i >= 0; i--)
    if (g->ops[i].klass != FUSE_FIXED) mlirOperationDestroy(g->ops[i].op);
  free(drafts);
  ptr_map_free(&e.needed);
  ptr_map_free(&e.replaced);
  free(e.replacement.items);
}
