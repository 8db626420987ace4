// See offsets.h.
#include "codegen/offsets.h"

#include <stdlib.h>

#include "support/alloc.h"

static void offset_set(Offsets *o, MlirValue v, int64_t offset) {
  ptr_map_set(&o->ids, v.ptr, o->n);
  *ARRAY_ADD(o->at, o->n) = offset;
}

int64_t offsets_of(const Offsets *o, MlirValue v) {
  int id = ptr_map_get(&o->ids, v.ptr);
  require_promise(id >= 0, "a value without a place in the arena");
  return o->at[id];
}

// The plan's offsets; an alias is its operand's buffer, a region's result is what it yields.
static void offsets_of_step(Offsets *o, const NnStep *s) {
  int64_t planned[NN_MAX_RESULTS + 64];
  int n = nn_attr_i64s(s->op, ATTR_offset, planned, (int)(sizeof planned / sizeof *planned));
  MlirOperation yield = s->role == NN_STEP_REGION
                            ? mlirBlockGetTerminator(mlirRegionGetFirstBlock(mlirOperationGetRegion(s->op, 0)))
                            : s->op;
  for (intptr_t r = 0; r < mlirOperationGetNumResults(s->op); r++) {
    MlirValue v = mlirOperationGetResult(s->op, r);
    if (s->role == NN_STEP_ALIAS)
      offset_set(o, v, offsets_of(o, mlirOperationGetOperand(s->op, 0)) + nn_alias_shift(s->op));
    else if (s->role == NN_STEP_REGION) offset_set(o, v, offsets_of(o, mlirOperationGetOperand(yield, r)));
    else {
      require_promise(r < n, "an op without nn.offset: the pass `plan` has not run");
      offset_set(o, v, planned[r]);
    }
  }
}

void offsets_build(Offsets *o, MlirOperation func, const NnStepList *steps) {
  MlirBlock body = nn_function_body(func);
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(body); i++)
    offset_set(o, mlirBlockGetArgument(body, i), nn_arg_i64(func, (int)i, ATTR_offset, 0));
  for (int i = 0; i < steps->n; i++)
    if (steps->items[i].role != NN_STEP_TAP && steps->items[i].role != NN_STEP_MARK)
      offsets_of_step(o, &steps->items[i]);
}

void offsets_free(Offsets *o) {
  ptr_map_free(&o->ids);
  free(o->at);
}

// ---------------------------------------------------------------------------------------------------------------------
// Inside of scans

int64_t scan_place(const ScanPlace *p, int64_t offset, int64_t *stride) {
  *stride = 0;
  if (offset < p->arena) return p->workspace + offset;
  for (int a = 0; a < p->n; a++) {
    if (offset < p->from[a] || offset >= p->from[a] + p->bytes[a]) continue;
    *stride = p->stride[a];
    return p->to[a] + offset - p->from[a];
  }
  require_promise(false, "a buffer of a scan's step that is no argument");
  return 0;
}

// Argument `arg` stands for the row `row` of what is at `to`, and moves by `stride` rows.
static void bind(ScanPlace *p, int arg, int64_t to, int64_t row, int64_t stride) {
  p->to[arg] = to + row * p->bytes[arg];
  p->stride[arg] = stride * p->bytes[arg];
}

// The rows of a stack of carried values: 0 ... T, read at one end of the step and written at the other.
static void bind_all(const Offsets *o, ScanPlace *p, const NnScan *s, MlirOperation call) {
  int64_t last = s->length - 1, step = s->reverse ? -1 : 1, first = s->reverse ? last : 0;
  int n_carries = s->n_stacked + s->n_tied, n_args = s->n_slices + n_carries + s->n_invariants, slot = n_args;
  for (int i = 0; i < s->n_slices; i++) bind(p, i, offsets_of(o, mlirOperationGetOperand(call, i)), first, step);
  for (int i = 0; i < s->n_invariants; i++) {
    int arg = s->n_slices + n_carries + i;
    bind(p, arg, offsets_of(o, mlirOperationGetOperand(call, arg)), 0, 0);
  }
  for (int r = 0; r < n_carries + s->n_outputs; r++) {
    int64_t at = offsets_of(o, mlirOperationGetResult(call, r));
    if (r < s->n_stacked) {
      bind(p, s->n_slices + r, at, s->reverse ? s->length : 0, step);
      bind(p, slot++, at, s->reverse ? last : 1, step);
    } else if (r < n_carries) {
      bind(p, s->n_slices + r, at, 0, 0);
    } else {
      bind(p, slot++, at, first, step);
    }
  }
  require_promise(slot == p->n, "a scan's step with other arguments than its call");
}

ScanPlace scan_place_create(const Offsets *offsets, const ScanPlace *around, const NnScan *s, MlirOperation call) {
  ScanPlace p = {.around = around,
                 .workspace = nn_attr_i64(call, ATTR_workspace, 0),
                 .arena = nn_attr_i64(s->body, ATTR_arena, -1),
                 .n = nn_function_n_args(s->body)};
  require_promise(p.arena >= 0, "a scan without a plan: the pass `scan` has not run");
  p.from = allocate_array((size_t)p.n + 1, sizeof *p.from);
  p.bytes = allocate_array((size_t)p.n + 1, sizeof *p.bytes);
  p.to = allocate_array((size_t)p.n + 1, sizeof *p.to);
  p.stride = allocate_array((size_t)p.n + 1, sizeof *p.stride);
  for (int a = 0; a < p.n; a++) {
    NnType t = nn_value_type(mlirBlockGetArgument(nn_function_body(s->body), a));
    p.from[a] = nn_arg_i64(s->body, a, ATTR_offset, 0);
    p.bytes[a] = nn_type_bytes(&t);
  }
  bind_all(offsets, &p, s, call);
  return p;
}

void scan_place_free(ScanPlace *p) {
  free(p->from);
  free(p->bytes);
  free(p->to);
  free(p->stride);
}
