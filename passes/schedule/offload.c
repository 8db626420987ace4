// The pass `offload`: values that are not read for long are copied to the far arena and back, on the lanes `out` and
// `in`. For tests: it makes real programs of several lanes and two arenas, and does not ask what a copy costs.
#include <stdlib.h>
#include <string.h>

#include "passes/plan/plan.h"
#include "support/alloc.h"

typedef struct Offload {
  int far;           // a value goes that is not read for so many ops
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

static bool can_move(MlirOperation op) {
  NnOp kind = nn_op_of(op);
  return nn_is_alias(op) || nn_is(op, "func.call") || (kind != NN_OP_NONE && nn_op_info(kind)->kind == NN_KIND_LIBRARY);
}

static void offload_function(Offload *o, MlirOperation func) {
  o->n = 0;
  NN_FOREACH_OP (op, nn_function_body(func)) {
    o->ops = reallocate_array(o->ops, (size_t)o->n + 1, sizeof *o->ops);
    o->ops[o->n] = op;
    ptr_map_set(&o->place, op.ptr, o->n++);
  }
  for (int i = 0; i < o->n; i++)
    for (intptr_t r = 0; can_move(o->ops[i]) && r < mlirOperationGetNumResults(o->ops[i]); r++)
      move(o, mlirOperationGetResult(o->ops[i], r), i);
  // places that remat has found are those of another function now
  mlirOperationRemoveAttributeByName(func, mlirStringRefCreateFromCString(ATTR_placed));
}

static int option(const NnPassRun *run, const char *key, int otherwise) {
  const char *text = nn_pass_option(run, key, NULL);
  long n = text ? strtol(text, NULL, 10) : otherwise;
  return n > 1000000 ? 1000000 : (int)n;
}

// Requires: a final order. Establishes: copies with nn.lane; `plan` finds what waits for what. Breaks: offsets that
// remat has found.
bool nn_pass_offload(MlirModule module, const NnPassRun *run) {
  Offload o = {.far = option(run, "far", 0), .late = option(run, "late", 2), .early = option(run, "early", 2)};
  MlirOperation functions[16];
  int n = o.far > 0 ? nn_public_functions(module, functions, 16) : 0;
  for (int f = 0; f < n; f++) offload_function(&o, functions[f]);
  free(o.ops);
  ptr_map_free(&o.place);
  return true;
}
