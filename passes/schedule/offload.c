// The pass `offload`: values that are not read for long are copied to the far arena and back, on the lanes `out` and
// `in`, and persistent tensors have their homes there. For tests: it makes real programs of several lanes and two
// arenas, and does not ask what a copy costs.
#include <stdlib.h>
#include <string.h>

#include "passes/plan/plan.h"
#include "support/alloc.h"

typedef struct Offload {
  int far;           // a value goes that is not read for so many ops
  int homes;         // persistent tensors of so many bytes have their homes far away; 0: none
  int late, early;   // a copy away stands so many ops behind the last near reader, one back before the first far one
  PtrMap place;      // op of the function's block -> its place there
  int n;
  MlirOperation *ops;   // Owned; of the block, as they stood
} Offload;

// The place of an op, or of the op of the block that it is inside of; -1: not of this block.
static int place_of(const Offload *o, MlirOperation op) {
  for (; !mlirOperationIsNull(op); op = mlirOperationGetParentOperation(op)) {
    int place = ptr_map_get(&o->place, op.ptr);
    if (place >= 0) return place;
  }
  return -1;
}

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

// The places where v is read, rising. Owned. *n -1: it is returned.
static int *readers_of(const Offload *o, MlirValue v, int *n) {
  int *places = NULL, count = 0;
  NN_FOREACH_USE (use, v) {
    places = reallocate_array(places, (size_t)count + 1, sizeof *places);
    places[count] = place_of(o, mlirOpOperandGetOwner(use));
    if (places[count] < 0 || places[count++] == o->n - 1) {
      *n = -1;
      return places;
    }
  }
  if (count) qsort(places, (size_t)count, sizeof *places, by_number);
  *n = count;
  return places;
}

static MlirValue add_copy(MlirValue v, MlirOperation before, const char *lane) {
  NnBuilder b = nn_builder_before(before);
  MlirOperation op = nn_build(&b, NN_OP_copy, 1, &v, 1, &NN_STR(ATTR_lane, lane), NULL);
  require_promise(!mlirOperationIsNull(op), "a copy of a value");
  return mlirOperationGetResult(op, 0);
}

static void replace_uses_from(const Offload *o, MlirValue v, MlirValue by, int place) {
  MlirOpOperand next;
  for (MlirOpOperand use = mlirValueGetFirstUse(v); !mlirOpOperandIsNull(use); use = next) {
    next = mlirOpOperandGetNextUse(use);
    MlirOperation owner = mlirOpOperandGetOwner(use);
    if (place_of(o, owner) >= place) mlirOperationSetOperand(owner, mlirOpOperandGetOperandNumber(use), by);
  }
}

// The longest time that v, made at `made`, is not read, if it is long enough.
static void move(const Offload *o, MlirValue v, int made) {
  int n, *readers = readers_of(o, v, &n), from = made, to = -1;
  for (int i = 0, last = made; i < n; last = readers[i++])
    if (readers[i] - last >= o->far && (to < 0 || readers[i] - last > to - from)) from = last, to = readers[i];
  free(readers);
  if (to < 0) return;
  int away = from + 1 + o->late, back = to - o->early;
  if (back < away + 1) back = to, away = from + 1;
  MlirValue gone = add_copy(v, o->ops[away], "out");
  replace_uses_from(o, v, add_copy(gone, o->ops[back], "in"), to);
}

// ---------------------------------------------------------------------------------------------------------------------
// Homes

static bool has_home_far(const Offload *o, MlirOperation func, int arg) {
  char role[16];
  NnType t = nn_value_type(mlirBlockGetArgument(nn_function_body(func), arg));
  return o->homes > 0 && nn_is_persistent_role(nn_arg_str(func, arg, ATTR_role, role, sizeof role, "input")) &&
         mlirAttributeIsNull(nn_arg_attr(func, arg, ATTR_shape)) && nn_type_bytes(&t) >= o->homes;
}

// The argument is fetched before it is read, anew where it was not read for long. Returns the place of the last fetch.
static int fetch(const Offload *o, MlirValue arg) {
  int n = 0, last = -1, *places = NULL;
  NN_FOREACH_USE (use, arg) {
    places = reallocate_array(places, (size_t)n + 1, sizeof *places);
    places[n++] = place_of(o, mlirOpOperandGetOwner(use));
  }
  if (n) qsort(places, (size_t)n, sizeof *places, by_number);
  for (int i = n - 1; i >= 0; i--) {   // backwards: each takes the readers from its first one on
    if (i > 0 && (o->far == 0 || places[i] - places[i - 1] < o->far)) continue;
    int before = places[i] < o->early ? 0 : places[i] - o->early;
    replace_uses_from(o, arg, add_copy(arg, o->ops[before], "in"), places[i]);
    if (last < 0) last = before;
  }
  free(places);
  return last;
}

// The update of an argument goes home, behind the last fetch of the old value.
static void store(const Offload *o, MlirOperation func, int arg, int last_fetch) {
  MlirOperation ret = nn_function_return(func);
  for (int r = 0; r < nn_function_n_results(func); r++) {
    MlirValue v = mlirOperationGetOperand(ret, r);
    if (nn_result_i64(func, r, ATTR_tied, -1) != arg) continue;
    bool fetched = nn_op_of(nn_value_def(v)) == NN_OP_copy;   // it is not updated
    if (fetched) mlirOperationSetOperand(ret, r, mlirOperationGetOperand(nn_value_def(v), 0));
    if (fetched) continue;
    int at = place_of(o, nn_value_def(v)) + 1 + o->late;
    if (at > o->n - 1) at = o->n - 1;
    mlirOperationSetOperand(ret, r, add_copy(v, o->ops[at < last_fetch ? last_fetch : at], "out"));
  }
}

static void move_homes(const Offload *o, MlirOperation func) {
  MlirBlock body = nn_function_body(func);
  for (int a = 0; a < nn_function_n_args(func); a++) {
    if (!has_home_far(o, func, a)) continue;
    nn_set_arg_attr(func, a, &NN_BOOL(ATTR_far, true));
    store(o, func, a, fetch(o, mlirBlockGetArgument(body, a)));
  }
}

// ---------------------------------------------------------------------------------------------------------------------

static bool can_move(MlirOperation op) {
  NnOp kind = nn_op_of(op);
  return nn_is_alias(op) || nn_is(op, "func.call") || (kind != NN_OP_NONE && nn_op_info(kind)->kind == NN_KIND_LIBRARY);
}

static void list_ops(Offload *o, MlirOperation func) {
  o->n = 0;
  NN_FOREACH_OP (op, nn_function_body(func)) {
    o->ops = reallocate_array(o->ops, (size_t)o->n + 1, sizeof *o->ops);
    o->ops[o->n] = op;
    ptr_map_set(&o->place, op.ptr, o->n++);
  }
}

static void offload_function(Offload *o, MlirOperation func) {
  list_ops(o, func);
  move_homes(o, func);
  list_ops(o, func);
  for (int i = 0; i < o->n && o->far > 0; i++)
    for (intptr_t r = 0; can_move(o->ops[i]) && r < mlirOperationGetNumResults(o->ops[i]); r++)
      move(o, mlirOperationGetResult(o->ops[i], r), i);
  // places that remat has found are those of another function now
  mlirOperationRemoveAttributeByName(func, nn_string_ref(ATTR_placed));
}

static int option(const NnPassRun *run, const char *key, int otherwise) {
  const char *text = nn_pass_option(run, key, NULL);
  long n = text ? strtol(text, NULL, 10) : otherwise;
  return n > 1000000 ? 1000000 : (int)n;
}

// Requires: a final order. Establishes: copies with nn.lane; `plan` finds what waits for what. Breaks: offsets that
// remat has found.
bool nn_pass_offload(MlirModule module, const NnPassRun *run) {
  Offload o = {.far = option(run, "far", 0),
               .homes = option(run, "homes", 0),
               .late = option(run, "late", 2),
               .early = option(run, "early", 2)};
  NnFunctions functions = nn_public_functions(module);
  for (int f = 0; f < functions.n && (o.far > 0 || o.homes > 0); f++) offload_function(&o, functions.items[f]);
  free(o.ops);
  ptr_map_free(&o.place);
  return true;
}
