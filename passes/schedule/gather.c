// The pass `gather`: updates next to each other at the end of a step, where a target makes one launch of them
// (codegen/kernel/groups.h). A gradient then lives until there, so an update waits only while that raises no peak, or
// while a budget has room; where memory is short it stays where `schedule` put it, behind its gradient.
#include <stdlib.h>
#include <string.h>

#include "passes/plan/plan.h"
#include "passes/rewrite.h"
#include "support/alloc.h"

typedef struct Gather {
  PlanProgram *p;   // Borrowed
  int *exec;        // Owned; the order tried
  bool *waits;      // Owned, per step
  bool *needed;     // Owned, per step: one that does not wait reads what it makes
  bool *held;       // Owned, per buffer: an update that waits reads it
  int n_waiting;
  int64_t room;   // bytes that the user grants anyway, without the persistent part; 0: no budget
} Gather;

static bool is_update(const PlanProgram *p, const PlanStep *s) {
  char kind[16];
  if (s->role != NN_STEP_RUN || s->kernel < 0 || s->recomputed || rewrite_phase_rank(rewrite_phase(s->op)) != 2)
    return false;
  return !strcmp(nn_attr_str(p->kernels[s->kernel].func, ATTR_kind, kind, sizeof kind, ""), "map");
}

static int buffer_of(const PlanProgram *p, const PlanLayout *l, int value) {
  const PlanValue *root = &p->values[p->values[value].root];
  int instance = root->arg >= 0
                     ? root->arg
                     : l->first_instance[root->def] + p->values[value].root - p->steps[root->def].first_result;
  return l->instances[instance].buffer;
}

// Buffers that die with the step, or 0 where none is its last reader.
static int64_t bytes_freed(const Gather *g, const PlanLayout *l, int step) {
  const PlanStep *s = &g->p->steps[step];
  int64_t bytes = 0;
  for (int j = 0; j < s->n_inputs; j++) {
    int buffer = buffer_of(g->p, l, s->inputs[j]);
    bool again = g->held[buffer];
    for (int k = 0; k < j; k++) again |= buffer_of(g->p, l, s->inputs[k]) == buffer;
    if (!again && !l->buffers[buffer].persistent && l->buffers[buffer].upper == step + 1)
      bytes += plan_align(g->p, l->buffers[buffer].bytes);
  }
  return bytes;
}

// From the end on, so that what waits shortest is asked first.
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
      int64_t bytes = bytes_freed(g, &l, i), most = 0;
      for (int k = i + 1; k <= p->n_steps; k++)
        if (live[k] > most) most = live[k];
      g->waits[i] = most + bytes <= peak;
      for (int k = i + 1; g->waits[i] && k <= p->n_steps; k++) live[k] += bytes;
    }
    for (int j = 0; j < s->n_inputs; j++) {
      int def = p->values[s->inputs[j]].def;
      if (g->waits[i]) g->held[buffer_of(p, &l, s->inputs[j])] = true;
      else if (def >= 0) g->needed[def] = true;
    }
    g->n_waiting += g->waits[i];
  }
  free(live);
  plan_layout_free(&l);
}

static void write_order(Gather *g) {
  int n = 0;
  for (int last = 0; last < 2; last++)
    for (int i = 0; i < g->p->n_steps; i++)
      if (g->waits[i] == (last == 1)) g->exec[n++] = i;
}

static int64_t arena(PlanProgram *p, const int *exec, int64_t *peak) {
  PlanLayout l;
  plan_layout_build(p, exec, p->n_steps, PLAN_INPLACE_DECIDE, &l);
  plan_layout_place(p, &l, 0, PLAN_EFFORT_SHORT);
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

static bool fits(const Gather *g) {
  int64_t old_peak = peak(g->p), new_peak, new = arena(g->p, g->exec, &new_peak);
  if (new <= g->room) return true;
  if (new_peak > old_peak) return false;
  return new <= old_peak || new <= arena(g->p, NULL, &old_peak);   // no arena is smaller than its peak
}

// What shows its results, too.
static void move_to_end(MlirOperation op, MlirOperation end) {
  mlirOperationMoveBefore(op, end);
  for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++)
    NN_FOREACH_USE (use, mlirOperationGetResult(op, r))
      if (nn_is_alias(mlirOpOperandGetOwner(use))) move_to_end(mlirOpOperandGetOwner(use), end);
}

static void gather_function(MlirModule module, MlirOperation func, const NnTarget *target, int64_t room) {
  PlanProgram p;
  plan_program_build(&p, module, func, target);
  size_t n = (size_t)p.n_steps;
  Gather g = {.p = &p,
              .room = room,
              .exec = allocate_array(n, sizeof *g.exec),
              .waits = allocate_array(n, sizeof *g.waits),
              .needed = allocate_array(n, sizeof *g.needed)};
  choose(&g);
  write_order(&g);
  if (g.n_waiting > 1 && fits(&g))
    for (int i = 0; i < p.n_steps; i++)
      if (g.waits[i]) move_to_end(p.steps[i].op, nn_function_return(func));
  free(g.exec);
  free(g.waits);
  free(g.needed);
  free(g.held);
  plan_program_free(&p);
}

// Requires: kernels (fuse); a final order but for the updates. Where remat has placed the buffers, their order is its
// own. Establishes: another such order, which needs no more memory than the old one, or than the budget. Breaks:
// nn.inplace, nn.offset.
bool nn_pass_gather(MlirModule module, const NnPassRun *run) {
  NnFunctions functions = nn_public_functions(module);
  bool together = (run->target && run->target->groups_updates) ||
                  !strcmp(nn_pass_option(run, "mode", "target"), "always");
  int64_t budget = nn_attr_i64(mlirModuleGetOperation(module), ATTR_budget, 0);
  PlanPersistent persistent;
  plan_persistent_build(&persistent, module, run->target);
  for (int f = 0; f < functions.n && together; f++)
    if (!nn_has_attr(functions.items[f], ATTR_placed))
      gather_function(module, functions.items[f], run->target,
                      budget > persistent.total ? budget - persistent.total : 0);
  plan_persistent_free(&persistent);
  return true;
}
