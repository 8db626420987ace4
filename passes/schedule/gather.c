// The pass `gather`: updates next to each other at the end of a step, and what is made of parameters alone (their
// copies in the type of the products) at its start, where a target makes one launch of them (codegen/kernel/groups.h).
// A gradient then lives until there, and a copy from there, so an update waits, and a copy is made early, only while
// that raises no peak, or while a budget has room; where memory is short they stay where `schedule` put them, but that
// copies go to the last one that stays before them, if there is room from there.
#include <stdlib.h>
#include <string.h>

#include "passes/plan/plan.h"
#include "passes/rewrite.h"
#include "support/alloc.h"
#include "support/bytes.h"
#include "support/ptr_map.h"

typedef struct Gather {
  PlanProgram *p;   // Borrowed
  int *exec;        // Owned; the order tried
  bool *waits;      // Owned, per step
  bool *early;      // Owned, per step
  int *beside;      // Owned, per step: the copy behind which this one is made, -1: it stays
  bool *needed;     // Owned, per step: one that does not wait reads what it makes
  bool *held;       // Owned, per buffer: an update that waits reads it
  bool *returned;   // Owned, per value: a result lies there
  int n_waiting, n_early, n_beside;
  int64_t old_peak, old_arena;   // of the order before; the arena 0: not known yet
  int64_t room;                  // bytes that the user grants anyway, without the persistent part; 0: no budget
} Gather;

static bool is_map(const PlanProgram *p, const PlanStep *s) {
  char kind[16];
  return s->role == NN_STEP_RUN && s->kernel >= 0 && !s->recomputed &&
         !strcmp(nn_attr_str(p->kernels[s->kernel].func, ATTR_kind, kind, sizeof kind, ""), "map");
}

static bool is_update(const PlanProgram *p, const PlanStep *s) {
  return is_map(p, s) && rewrite_phase_rank(rewrite_phase(s->op)) == 2;
}

// A map of parameters alone, of which no result takes the place of one.
static bool is_copy_of_parameters(const Gather *g, const PlanStep *s) {
  const PlanProgram *p = g->p;
  bool is = is_map(p, s) && s->n_inputs > 0 && rewrite_phase_rank(rewrite_phase(s->op)) < 2;
  for (int j = 0; is && j < s->n_inputs; j++) is = p->values[p->values[s->inputs[j]].root].persistent;
  for (int r = 0; is && r < s->n_results; r++) is = !g->returned[s->first_result + r];
  return is;
}

// Buffers that die with the step, or 0 where none is its last reader.
static int64_t bytes_freed(const Gather *g, const PlanLayout *l, int step) {
  const PlanStep *s = &g->p->steps[step];
  int64_t bytes = 0;
  for (int j = 0; j < s->n_inputs; j++) {
    int buffer = plan_layout_buffer(g->p, l, s->inputs[j]);
    bool again = g->held[buffer];
    for (int k = 0; k < j; k++) again |= plan_layout_buffer(g->p, l, s->inputs[k]) == buffer;
    if (!again && !l->buffers[buffer].persistent && l->buffers[buffer].upper == step + 1)
      bytes += plan_align(g->p, l->buffers[buffer].bytes);
  }
  return bytes;
}

// What live[from] to live[to] may grow by.
static bool has_room(int64_t *live, int from, int to, int64_t bytes, int64_t peak) {
  for (int k = from; k <= to; k++)
    if (live[k] + bytes > peak) return false;
  for (int k = from; k <= to; k++) live[k] += bytes;
  return true;
}

static void choose_early(Gather *g, int64_t *live, int64_t peak) {
  PlanProgram *p = g->p;
  int first = -1;   // of those that stay
  for (int i = 0; i < p->n_steps; i++) {
    const PlanStep *s = &p->steps[i];
    int64_t bytes = 0;
    g->beside[i] = -1;
    if (!is_copy_of_parameters(g, s)) continue;
    for (int r = 0; r < s->n_results; r++) bytes += plan_align(p, p->values[s->first_result + r].bytes);
    g->early[i] = has_room(live, 0, i, bytes, peak);
    g->n_early += g->early[i];
    if (g->early[i]) continue;
    if (first >= 0 && has_room(live, first, i - 1, bytes, peak)) g->beside[i] = first, g->n_beside++;
    else first = i;
  }
}

// From the end on, so that what waits shortest is asked first; copies from the start on.
static void choose(Gather *g) {
  PlanProgram *p = g->p;
  PlanLayout l;
  plan_layout_build(p, NULL, p->n_steps, PLAN_INPLACE_DECIDE, &l);
  int64_t *live = plan_layout_live(p, &l), peak = plan_layout_peak(p, &l);
  if (peak < g->room - g->room / 64) peak = g->room - g->room / 64;   // offsets leave gaps
  g->held = allocate_array((size_t)l.n_buffers + 1, sizeof *g->held);
  for (int i = p->n_steps - 1; i >= 0; i--) {
    const PlanStep *s = &p->steps[i];
    if (is_update(p, s) && !g->needed[i]) {
      g->waits[i] = has_room(live, i + 1, p->n_steps, bytes_freed(g, &l, i), peak);
    }
    for (int j = 0; j < s->n_inputs; j++) {
      int def = p->values[s->inputs[j]].def;
      if (g->waits[i]) g->held[plan_layout_buffer(p, &l, s->inputs[j])] = true;
      else if (def >= 0) g->needed[def] = true;
    }
    g->n_waiting += g->waits[i];
  }
  choose_early(g, live, peak);
  free(live);
  plan_layout_free(&l);
}

// Whether others may be made beside this step: a copy that stays.
static bool has_others(const Gather *g, int i) {
  return g->n_beside && !g->early[i] && is_copy_of_parameters(g, &g->p->steps[i]);
}

static void write_order(Gather *g) {
  int n = 0;
  for (int part = 0; part < 3; part++)
    for (int i = 0; i < g->p->n_steps; i++) {
      if ((g->early[i] && g->n_early > 1 ? 0 : g->waits[i] && g->n_waiting > 1 ? 2 : 1) != part) continue;
      if (g->n_beside && g->beside[i] >= 0) continue;
      g->exec[n++] = i;
      if (!has_others(g, i)) continue;
      for (int k = i + 1; k < g->p->n_steps; k++)
        if (g->beside[k] == i) g->exec[n++] = k;
    }
}

static int64_t arena(const Gather *g, const int *exec, int64_t work, int64_t *peak) {
  PlanProgram *p = g->p;
  PlanLayout l;
  plan_layout_build(p, exec, p->n_steps, PLAN_INPLACE_DECIDE, &l);
  plan_layout_place(p, &l, g->room, work);
  int64_t bytes = l.arena;
  *peak = plan_layout_peak(p, &l);
  plan_layout_free(&l);
  return bytes;
}

static int64_t peak(PlanProgram *p) {
  PlanLayout l;
  plan_layout_build(p, NULL, p->n_steps, PLAN_INPLACE_DECIDE, &l);
  int64_t bytes = plan_layout_peak(p, &l);
  plan_layout_free(&l);
  return bytes;
}

// By short searches, the plan's own one comes later, but where a budget says what is enough. A long one gains a
// hundredth or so: of 27 models with three sets of options each none that was more than 0.8 % above what is enough came
// below it.
static bool fits(Gather *g) {
  int64_t new_peak, new = arena(g, g->exec, PLAN_SHORT, &new_peak), ignored;
  if (g->room > 0)
    return new <= g->room ||
           (new_peak <= g->room && new <= g->room + g->room / 50 && arena(g, g->exec, PLAN_LONG, &ignored) <= g->room);
  if (new_peak > g->old_peak) return false;
  // So near to the peak, which no arena is below, the plan's search ends.
  int64_t enough = g->old_peak + g->old_peak / 1000;
  if (new <= enough) return true;
  if (!g->old_arena) g->old_arena = arena(g, NULL, PLAN_SHORT, &ignored);
  if (new <= g->old_arena) return true;
  return new <= enough + enough / 100 && arena(g, g->exec, PLAN_LONG, &ignored) <= enough;
}

// What shows its results, too.
static void move_to_end(MlirOperation op, MlirOperation end) {
  mlirOperationMoveBefore(op, end);
  for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++)
    NN_FOREACH_USE (use, mlirOperationGetResult(op, r))
      if (nn_is_alias(mlirOpOperandGetOwner(use))) move_to_end(mlirOpOperandGetOwner(use), end);
}

// In front of the first op, with the views of parameters that it reads, several of which may be of one; in the order of
// the calls.
static void move_to_start(MlirOperation op, PtrMap *moved, MlirOperation *last, MlirBlock block) {
  if (ptr_map_get(moved, op.ptr) >= 0) return;
  ptr_map_set(moved, op.ptr, 1);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue v = mlirOperationGetOperand(op, i);
    if (!mlirValueIsABlockArgument(v)) move_to_start(nn_value_def(v), moved, last, block);
  }
  if (mlirOperationIsNull(*last)) {
    MlirOperation first = mlirBlockGetFirstOperation(block);
    if (!mlirOperationEqual(first, op)) mlirOperationMoveBefore(op, first);
  } else {
    mlirOperationMoveAfter(op, *last);
  }
  *last = op;
}

// With the views that it reads, of which some may stand before that anyway.
static void move_behind(MlirOperation op, MlirOperation first) {
  mlirOperationMoveAfter(op, first);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue v = mlirOperationGetOperand(op, i);
    if (!mlirValueIsABlockArgument(v) && mlirOperationIsBeforeInBlock(op, nn_value_def(v)))
      move_behind(nn_value_def(v), first);
  }
}

static void move_steps(const Gather *g) {
  MlirOperation end = nn_function_return(g->p->func), last = nn_null_operation();
  PtrMap moved = {0};
  for (int i = 0; i < g->p->n_steps && g->n_early > 1; i++)
    if (g->early[i]) move_to_start(g->p->steps[i].op, &moved, &last, nn_function_body(g->p->func));
  for (int i = g->p->n_steps - 1; i >= 0 && g->n_beside; i--)   // each comes in front of those before
    if (g->beside[i] >= 0) move_behind(g->p->steps[i].op, g->p->steps[g->beside[i]].op);
  for (int i = 0; i < g->p->n_steps && g->n_waiting > 1; i++)
    if (g->waits[i]) move_to_end(g->p->steps[i].op, end);
  ptr_map_free(&moved);
}

static void gather_function(MlirModule module, MlirOperation func, const NnTarget *target, int64_t room) {
  PlanProgram p;
  plan_program_build(&p, module, func, target);
  size_t n = (size_t)p.n_steps;
  Gather g = {.p = &p,
              .room = room,
              .old_peak = peak(&p),
              .exec = allocate_array(n, sizeof *g.exec),
              .waits = allocate_array(n, sizeof *g.waits),
              .early = allocate_array(n, sizeof *g.early),
              .beside = allocate_array(n, sizeof *g.beside),
              .needed = allocate_array(n, sizeof *g.needed),
              .returned = allocate_array((size_t)p.n_values + 1, sizeof *g.returned)};
  for (int i = 0; i < p.n_results; i++) g.returned[p.values[p.result[i]].root] = true;
  choose(&g);
  int n_waiting = g.n_waiting, n_early = g.n_early, n_beside = g.n_beside;
  bool moved = false;
  for (int try = 0; try < 4 && !moved; try++) {   // all, else without the copies that others are made beside, else one
    g.n_waiting = try == 2 ? 0 : n_waiting;
    g.n_early = try == 3 ? 0 : n_early;
    g.n_beside = try ? 0 : n_beside;
    if (try == 1 && !n_beside) continue;
    write_order(&g);
    moved = (g.n_waiting > 1 || g.n_early > 1 || g.n_beside) && fits(&g);
  }
  if (moved) move_steps(&g);
  free(g.exec);
  free(g.waits);
  free(g.early);
  free(g.beside);
  free(g.needed);
  free(g.held);
  free(g.returned);
  plan_program_free(&p);
}

// Requires: kernels (fuse); a final order but for the updates and the copies. Where remat has placed the buffers, their
// order is its own. Establishes: another such order, which needs no more memory than the old one, but for what the
// search for places may leave (a thousandth of the peak), or than the budget. Breaks: nn.inplace, nn.offset.
bool nn_pass_gather(MlirModule module, const NnPassRun *run) {
  NnFunctions functions = nn_public_functions(module);
  bool together = (run->target && run->target->groups_updates) ||
                  !strcmp(nn_pass_option(run, "mode", "target"), "always");
  int64_t budget = nn_attr_i64(mlirModuleGetOperation(module), ATTR_budget, 0);   // the one that remat kept to
  const char *text = nn_pass_option(run, "budget", NULL);
  double percent;
  if (text) parse_bytes(text, &budget, &percent);
  PlanPersistent persistent;
  plan_persistent_build(&persistent, module, run->target);
  for (int f = 0; f < functions.n && together; f++)
    if (!nn_has_attr(functions.items[f], ATTR_placed))
      gather_function(module, functions.items[f], run->target,
                      budget > persistent.total ? budget - persistent.total : 0);
  plan_persistent_free(&persistent);
  return true;
}
