// The pass `check`: judges a planned module by replaying it. Walks each function in the order it runs, keeping for
// every byte of both arenas whose value it holds, and looks, before each step, whether every operand still lies where
// the plan says; where steps run on several lanes it proves that every timing gives the same. Knows nothing of
// lifetimes and shares no code with what chose the offsets, the waits and what is done in place. What it finds is a bug
// of ours: compilation ends with status 70.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mlir-c/BuiltinAttributes.h"

#include "passes/plan/plan.h"
#include "support/alloc.h"
#include "support/bytes.h"

typedef struct Segment {   // bytes at addresses [begin, end) hold `owner`: a value, SCRATCH, or packed_by() a step
  int64_t begin, end;
  int owner;
} Segment;

enum { SCRATCH = -1 };

typedef struct Replay {
  PlanProgram *p;    // Borrowed
  int64_t *offset;   // Owned; of each value, as it stands in the module
  int n_segments, capacity;
  Segment *segments;      // Owned; sorted, apart
  int64_t arena, far;     // bytes
  const char *function;   // Borrowed
  char *message;          // Owned; the first mistake, NULL: none
} Replay;

static void __attribute__((format(printf, 2, 3))) mistake(Replay *r, const char *format, ...) {
  va_list args;
  if (r->message) return;
  va_start(args, format);
  if (vasprintf(&r->message, format, args) < 0) abort();
  va_end(args);
}

// The first segment that ends behind `at`.
static int find_segment(const Replay *r, int64_t at) {
  int low = 0, high = r->n_segments;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (r->segments[middle].end <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Far away whole blocks are written.
static void write_bytes(Replay *r, int64_t begin, int64_t bytes, int owner) {
  bool far = is_far_address(begin);
  int64_t at = begin - (far ? FAR_ADDRESS : 0), size = far ? far_blocks(bytes) : bytes, end;
  bool wraps = __builtin_add_overflow(begin, size, &end);
  if (at < 0 || wraps || at + size > (far ? r->far : r->arena))
    mistake(r, "bytes %lld to %lld are outside the %sarena", (long long)at, (long long)(at + size), far ? "far " : "");
  if (far && begin % FAR_BLOCK) mistake(r, "far byte %lld begins no block", (long long)(begin - FAR_ADDRESS));
  if (bytes <= 0 || begin < 0 || wraps) return;
  if (r->n_segments + 2 > r->capacity) {
    r->capacity = r->capacity ? 2 * r->capacity : 256;
    r->segments = reallocate_array(r->segments, (size_t)r->capacity, sizeof *r->segments);
  }
  int first = find_segment(r, begin), last = first, n = 0;   // segments [first, last) meet the range
  while (last < r->n_segments && r->segments[last].begin < end) last++;
  Segment put[3];
  if (first < last && r->segments[first].begin < begin)
    put[n++] = (Segment){r->segments[first].begin, begin, r->segments[first].owner};
  put[n++] = (Segment){begin, end, owner};
  if (first < last && r->segments[last - 1].end > end)
    put[n++] = (Segment){end, r->segments[last - 1].end, r->segments[last - 1].owner};
  memmove(r->segments + first + n, r->segments + last, (size_t)(r->n_segments - last) * sizeof *r->segments);
  memcpy(r->segments + first, put, (size_t)n * sizeof *put);
  r->n_segments += n - (last - first);
}

static bool holds(const Replay *r, int64_t begin, int64_t bytes, int owner) {
  for (int i = find_segment(r, begin); bytes > 0; i++) {
    if (i == r->n_segments || r->segments[i].begin > begin || r->segments[i].owner != owner) return false;
    bytes -= r->segments[i].end - begin;
    begin = r->segments[i].end;
  }
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Offsets as they stand in the module

static int64_t offset_of(const Replay *r, int value) { return r->offset[value]; }

static int64_t read_offset(const PlanProgram *p, int value) {
  const PlanValue *v = &p->values[value];
  if (v->arg >= 0) return nn_arg_i64(p->func, v->arg, ATTR_offset, -1);
  intptr_t at = mlirOpResultGetResultNumber(v->value);
  MlirAttribute list = nn_attribute(mlirOpResultGetOwner(v->value), ATTR_offset);
  return !mlirAttributeIsNull(list) && mlirAttributeIsADenseI64Array(list) && at < mlirDenseArrayGetNumElements(list)
             ? mlirDenseI64ArrayGetElement(list, at)
             : -1;
}

static bool meet(int64_t a, int64_t a_bytes, int64_t b, int64_t b_bytes) {
  return a_bytes > 0 && b_bytes > 0 && a < b + b_bytes && b < a + a_bytes;
}

// An operand of a sum over ranks lies where the result has it.
static bool is_in_its_bucket(const Replay *r, const PlanStep *s, int operand) {
  int64_t at = offset_of(r, s->first_result);
  for (int o = 0; o < operand; o++) at += r->p->values[s->inputs[o]].bytes;
  return nn_op_of(s->op) == NN_OP_all_reduce && offset_of(r, s->inputs[operand]) == at;
}

// Why a result may not lie over an operand, or NULL: inplace said so, or it is the update of that argument, both are at
// the same place, and the step can do it; or it is a bucket of which the operand is a part.
static const char *why_not_over(const Replay *r, int step, int result, int operand) {
  const PlanProgram *p = r->p;
  const PlanStep *s = &p->steps[step];
  int value = s->first_result + result, told_over = p->values[value].inplace;
  int root = p->values[s->inputs[operand]].root;
  if (is_in_its_bucket(r, s, operand)) return NULL;
  bool told = told_over >= 0 && p->values[s->inputs[told_over]].root == root;
  for (int q = 0; q < p->n_results && !told; q++) told = p->tied[q] == root && p->result[q] == value;
  if (!told) return "the attribute inplace does not say so";
  if (offset_of(r, value) != offset_of(r, s->inputs[operand])) return "it begins elsewhere";
  return plan_check_over(s->op, s->kernel >= 0 ? p->kernels[s->kernel].func : nn_null_operation(), result, operand);
}

// Only copies on the lanes out and in touch what lies far away, the first write it, the others read it.
static void check_tiers(Replay *r, int step) {
  const PlanProgram *p = r->p;
  const PlanStep *s = &p->steps[step];
  bool copy = nn_op_of(s->op) == NN_OP_copy, out = copy && s->lane == NN_LANE_OUT, in = copy && s->lane == NN_LANE_IN;
  for (int j = 0; j < s->n_inputs; j++)
    if (is_far_address(offset_of(r, s->inputs[j])) != in)
      mistake(r, "step %d: operand %d lies %s, which %s", step, j, in ? "in the arena" : "far away",
              in ? "a copy on the lane in does not read" : "only a copy on the lane in reads");
  for (int q = 0; q < s->n_results; q++)
    if (is_far_address(offset_of(r, s->first_result + q)) != out)
      mistake(r, "step %d: result %d lies %s, which %s", step, q, out ? "in the arena" : "far away",
              out ? "a copy on the lane out does not write" : "only a copy on the lane out writes");
  if (is_far_address(nn_attr_i64(s->op, ATTR_workspace, 0))) mistake(r, "step %d: the workspace lies far away", step);
}

static void check_results_over(Replay *r, int step, int operand) {
  const PlanStep *s = &r->p->steps[step];
  int64_t offset = offset_of(r, s->inputs[operand]), bytes = r->p->values[s->inputs[operand]].bytes;
  for (int q = 0; q < s->n_results; q++) {
    int value = s->first_result + q;
    if (!meet(offset_of(r, value), r->p->values[value].bytes, offset, bytes)) continue;
    const char *why = why_not_over(r, step, q, operand);
    if (why) mistake(r, "step %d: result %d lies over operand %d: %s", step, q, operand, why);
  }
}

// The bytes that a step touches: its operands, its workspace, its results, in that order. A tap is looked at only where
// steps run one by one, as they are replayed.
static int touches_of(const Replay *r, int step, LaneTouch *out) {
  const PlanStep *s = &r->p->steps[step];
  int n = 0;
  if (s->role == NN_STEP_TAP) return 0;
  for (int j = 0; j < s->n_inputs; j++) {
    int64_t at = offset_of(r, s->inputs[j]);
    out[n++] = (LaneTouch){at, at + r->p->values[s->inputs[j]].bytes, false};
  }
  int64_t scratch = nn_attr_i64(s->op, ATTR_workspace, 0);
  out[n++] = (LaneTouch){scratch, scratch + nn_attr_i64(s->op, ATTR_workspace_bytes, 0), true};
  for (int q = 0; q < s->n_results; q++) {
    int64_t at = offset_of(r, s->first_result + q);
    out[n++] = (LaneTouch){at, at + r->p->values[s->first_result + q].bytes, true};
  }
  return n;
}

static void tell_race(Replay *r, const LaneRace *race) {
  const PlanStep *s = &r->p->steps[race->after];
  int touch = race->touch - s->n_inputs;
  bool far = is_far_address(race->begin);
  int64_t base = far ? FAR_ADDRESS : 0;
  char what[48];
  if (race->kind == LANE_WAIT_FOR_NONE) {
    mistake(r, "step %d: it waits for step %d, which is none of another lane before it", race->after, race->before);
    return;
  }
  if (touch < 0) snprintf(what, sizeof what, "reads operand %d", race->touch);
  else if (touch == 0) snprintf(what, sizeof what, "writes its workspace");
  else snprintf(what, sizeof what, "writes result %d", touch - 1);
  mistake(r, "step %d on lane %s %s in %sbytes %lld to %lld, which step %d on lane %s %s, without a wait in between",
          race->after, nn_lane_name(s->lane), what, far ? "far " : "", (long long)(race->begin - base),
          (long long)(race->end - base), race->before, nn_lane_name(r->p->steps[race->before].lane),
          race->before_writes ? "writes" : "reads");
}

// The waits of a step, the last of each lane; those for steps that are not there are told.
static LaneClock waits_of(Replay *r, int step) {
  const PlanProgram *p = r->p;
  LaneClock waits = lane_clock_none;
  MlirAttribute list = nn_attribute(p->steps[step].op, ATTR_waits);
  bool known = !mlirAttributeIsNull(list) && mlirAttributeIsADenseI64Array(list);
  for (intptr_t i = 0; known && i < mlirDenseArrayGetNumElements(list); i++) {
    int64_t before = mlirDenseI64ArrayGetElement(list, i);
    if (before < 0 || before >= step || p->steps[before].lane == p->steps[step].lane)
      mistake(r, "step %d: it waits for step %lld, which is none of another lane before it", step, (long long)before);
    else if (waits.at[p->steps[before].lane] < before) waits.at[p->steps[before].lane] = (int)before;
  }
  return waits;
}

// That what the replay sees is so for every timing: the end of the function waits for all lanes.
static void check_lanes(Replay *r) {
  const PlanProgram *p = r->p;
  bool several = false;
  size_t n_touches = 0;
  for (int i = 0; i < p->n_steps; i++) {
    several |= p->steps[i].lane != NN_LANE_COMPUTE;
    n_touches += (size_t)(p->steps[i].n_inputs + p->steps[i].n_results) + 1;
    if (p->steps[i].lane == NN_LANES) mistake(r, "step %d: it is on no lane that there is", i);
  }
  if (!several || r->message) return;
  if (nn_is_scan_body(p->func)) mistake(r, "a step of a loop on another lane than compute");
  LaneTouch *touches = allocate_array(n_touches, sizeof *touches), *next = touches;
  LaneStep *steps = allocate_array((size_t)p->n_steps, sizeof *steps);
  for (int i = 0; i < p->n_steps; i++) {
    int n = touches_of(r, i, next);
    steps[i] = (LaneStep){p->steps[i].lane, waits_of(r, i), n, next};
    next += n;
  }
  LaneRace race;
  if (!r->message && !plan_check_lanes(p->n_steps, steps, &race)) tell_race(r, &race);
  free(touches);
  free(steps);
}

// The owner of what the step packs in the first iteration of a loop and reads in all others.
static int packed_by(const Replay *r, int step) { return r->p->n_values + step; }

static void write_packed(Replay *r) {
  for (int i = 0; i < r->p->n_steps; i++) {
    MlirOperation op = r->p->steps[i].op;
    if (r->p->steps[i].packs_once)
      write_bytes(r, nn_attr_i64(op, ATTR_workspace, 0), nn_attr_i64(op, ATTR_workspace_bytes, 0), packed_by(r, i));
  }
}

static void check_packed(Replay *r) {
  for (int i = 0; i < r->p->n_steps; i++) {
    MlirOperation op = r->p->steps[i].op;
    if (r->p->steps[i].packs_once &&
        !holds(r, nn_attr_i64(op, ATTR_workspace, 0), nn_attr_i64(op, ATTR_workspace_bytes, 0), packed_by(r, i)))
      mistake(r, "what step %d packs once is overwritten", i);
  }
}

static void check_step(Replay *r, int step) {
  const PlanProgram *p = r->p;
  const PlanStep *s = &p->steps[step];
  int64_t scratch = nn_attr_i64(s->op, ATTR_workspace, 0), scratch_bytes = nn_attr_i64(s->op, ATTR_workspace_bytes, 0);
  check_tiers(r, step);
  if (scratch_bytes < s->workspace)
    mistake(r, "step %d: a workspace of %lld bytes, it needs %lld", step, (long long)scratch_bytes,
            (long long)s->workspace);
  for (int j = 0; j < s->n_inputs; j++) {
    const PlanValue *v = &p->values[s->inputs[j]];
    int64_t offset = offset_of(r, s->inputs[j]);
    if (offset < 0 || !holds(r, offset, v->bytes, v->root))
      mistake(r, "step %d: operand %d is not at offset %lld", step, j, (long long)offset);
    if (meet(scratch, scratch_bytes, offset, v->bytes))
      mistake(r, "step %d: the workspace lies over operand %d", step, j);
    check_results_over(r, step, j);
  }
  if (s->packs_once) {
    if (!holds(r, scratch, scratch_bytes, packed_by(r, step)))
      mistake(r, "step %d: another step has overwritten what it packs once", step);
  } else if (scratch_bytes > 0) {
    write_bytes(r, scratch, scratch_bytes, SCRATCH);
  }
  for (int q = 0; q < s->n_results; q++)
    write_bytes(r, offset_of(r, s->first_result + q), p->values[s->first_result + q].bytes, s->first_result + q);
  for (int q = 0; q < s->n_results; q++)
    if (!holds(r, offset_of(r, s->first_result + q), p->values[s->first_result + q].bytes, s->first_result + q))
      mistake(r, "step %d: result %d lies over another", step, q);
}

// At the end every result is where the plan says, an update in its argument's place or marked to be copied there, and
// what is not updated is untouched.
static void check_end(Replay *r) {
  const PlanProgram *p = r->p;
  bool *updated = allocate_array((size_t)p->n_args, sizeof *updated);
  for (int i = 0; i < p->n_results; i++) {
    const PlanValue *v = &p->values[p->result[i]];
    int64_t offset = offset_of(r, p->result[i]);
    if (!holds(r, offset, v->bytes, v->root))
      mistake(r, "result %d is not at offset %lld at the end", i, (long long)offset);
    if (is_far_address(offset) != (p->tied[i] >= 0 && is_far_address(offset_of(r, p->tied[i]))))
      mistake(r, "result %d lies %s", i, is_far_address(offset) ? "far away" : "in the arena, its argument far away");
    if (p->tied[i] < 0) continue;
    updated[p->tied[i]] = true;
    if (is_far_address(offset) && offset != offset_of(r, p->tied[i]))
      mistake(r, "result %d is not stored in the far bytes of argument %d", i, p->tied[i]);
    if (offset != offset_of(r, p->tied[i]) && mlirAttributeIsNull(nn_result_attr(p->func, i, ATTR_copy_back)))
      mistake(r, "result %d is neither in the place of argument %d nor copied there", i, p->tied[i]);
  }
  for (int a = 0; a < p->n_args; a++)
    if (p->values[a].persistent && !updated[a] && !holds(r, offset_of(r, a), p->values[a].bytes, a))
      mistake(r, "argument %d is overwritten", a);
  free(updated);
}

static bool check_function(MlirModule module, MlirOperation func, const NnTarget *target, char **message) {
  PlanProgram p;
  plan_program_build(&p, module, func, target);
  bool body = nn_is_scan_body(func);
  Replay r = {.p = &p,
              .arena = nn_attr_i64(body ? func : mlirModuleGetOperation(module), body ? ATTR_bound : ATTR_arena, 0),
              .far = body ? 0 : nn_attr_i64(mlirModuleGetOperation(module), ATTR_far_arena, 0)};
  r.offset = allocate_array((size_t)p.n_values, sizeof *r.offset);
  for (int v = 0; v < p.n_values; v++) r.offset[v] = read_offset(&p, v);
  for (int a = 0; a < p.n_args; a++) write_bytes(&r, offset_of(&r, a), p.values[a].bytes, a);
  for (int a = 0; a < p.n_args; a++) {
    if (!holds(&r, offset_of(&r, a), p.values[a].bytes, a)) mistake(&r, "argument %d lies over another", a);
    bool far = !mlirAttributeIsNull(nn_arg_attr(func, a, ATTR_far));
    if (far && !p.values[a].persistent) mistake(&r, "argument %d has its home far away and does not outlive a step", a);
    if (far != is_far_address(offset_of(&r, a))) mistake(&r, "argument %d is not where its home is", a);
  }
  for (int v = p.n_args; v < p.n_values; v++)
    if (p.values[v].root != v && offset_of(&r, v) != offset_of(&r, p.values[v].root) + p.values[v].shift)
      mistake(&r, "an alias is not where its operand is");
  write_packed(&r);
  for (int i = 0; i < p.n_steps && !r.message; i++) check_step(&r, i);
  if (!r.message) check_packed(&r);
  if (!r.message) check_end(&r);
  if (!r.message) check_lanes(&r);
  free(r.segments);
  free(r.offset);
  plan_program_free(&p);
  *message = r.message;
  return !r.message;
}

// Requires: plan.
// Establishes: nothing new. A module that passes runs every step on operands that nothing has overwritten, whatever
// runs how long on which lane, inside an
// arena that is within the budget, if there is one. Breaks: nothing.
bool nn_pass_check(MlirModule module, const NnPassRun *run) {
  MlirOperation top = mlirModuleGetOperation(module);
  int64_t budget = nn_attr_i64(top, ATTR_budget, 0), arena = nn_attr_i64(top, ATTR_arena, 0);
  char *message = NULL, name[64];
  bool ok = budget == 0 || arena <= budget;
  if (!ok)
    fprintf(stderr, "internal error: memory plan: an arena of %lld bytes under a budget of %lld\n", (long long)arena,
            (long long)budget);
  NN_FOREACH_OP (func, mlirModuleGetBody(module)) {
    if (!ok || !nn_is(func, "func.func") || nn_has_attr(func, ATTR_kernel)) continue;
    ok = check_function(module, func, run->target, &message);
    if (!ok)
      fprintf(stderr, "internal error: memory plan: @%s: %s\n", nn_attr_str(func, "sym_name", name, sizeof name, ""),
              message);
  }
  free(message);
  if (!ok) exit(70);
  return true;
}
