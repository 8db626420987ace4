// What of a function is at home far away, where nothing is searched: each step's is fetched before it and dropped
// behind it, so that least is near.
#include <stdlib.h>

#include "passes/remat/remat.h"
#include "support/alloc.h"

typedef struct Stream {
  RematMoves moves;
  RematPlan plan;
  int *update;    // Owned, per value: the result that is the new value of a home, -1: none
  bool *stored;   // Owned, per value: that is done
  int *near;      // Owned, per value: the last step before which it was near
  int capacity;
} Stream;

static void add(Stream *s, int step) {
  if (s->plan.n == s->capacity)
    s->plan.exec = reallocate_array(s->plan.exec, (size_t)(s->capacity = 2 * s->capacity + 64), sizeof(int));
  s->plan.exec[s->plan.n++] = step;
}

// The value that is fetched for an operand, -1: it is near anyway.
static int fetched_for(const Stream *s, const PlanProgram *p, int operand) {
  int root = p->values[operand].root;
  if (root < p->n_args) return s->moves.near[root] >= 0 ? root : -1;
  return s->stored[root] ? root : -1;
}

static void add_step(Stream *s, const PlanProgram *p, int i) {
  const PlanStep *step = &p->steps[i];
  for (int j = 0; j < step->n_inputs; j++) {
    int value = fetched_for(s, p, step->inputs[j]);
    if (value >= 0 && s->near[value] < i - 1) add(s, remat_moves_fetch(&s->moves, value));
    if (value >= 0) s->near[value] = i;
  }
  add(s, i);
  for (int r = step->first_result; r < step->first_result + step->n_results; r++) {
    if (s->update[r] < 0) continue;
    add(s, remat_moves_store_update(&s->moves, s->update[r]));
    s->stored[r] = true;
    s->near[r] = i;
  }
}

static void free_stream(Stream *s) {
  remat_plan_free(&s->plan);
  if (s->moves.near) remat_moves_free(&s->moves);
  free(s->update);
  free(s->stored);
  free(s->near);
}

static Stream build(const PlanProgram *p, const bool *far_home) {
  Stream s = {0};
  remat_moves_build(&s.moves, p, far_home);
  size_t values = (size_t)p->n_values;
  s.update = allocate_array(values, sizeof *s.update);
  s.stored = allocate_array(values, sizeof *s.stored);
  s.near = allocate_array(values, sizeof *s.near);
  for (int v = 0; v < p->n_values; v++) s.update[v] = s.near[v] = -2;
  for (int r = 0; r < p->n_results; r++) {
    int root = p->values[p->result[r]].root;
    if (p->tied[r] >= 0 && far_home[p->tied[r]] && root != p->tied[r]) s.update[root] = r;
  }
  for (int i = 0; i < p->n_steps; i++) add_step(&s, p, i);
  remat_moves_end(&s.moves);
  return s;
}

int64_t remat_stream_bytes(MlirModule module, MlirOperation func, const NnTarget *target, const bool *far_home,
                           const PlanBase *base) {
  PlanProgram p;
  PlanLayout l;
  plan_program_build(&p, module, func, target);
  Stream s = build(&p, far_home);
  plan_layout_build(&s.moves.p, s.plan.exec, s.plan.n, PLAN_INPLACE_DECIDE, &l);
  plan_layout_place(&s.moves.p, &l, 0, PLAN_LONG);
  int64_t arena = base->near + l.arena;
  plan_layout_free(&l);
  free_stream(&s);
  plan_program_free(&p);
  return arena;
}

void remat_stream(MlirModule module, MlirOperation func, const NnTarget *target, const bool *far_home,
                  const PlanBase *base) {
  PlanProgram p;
  PlanLayout l;
  InputError error;
  plan_program_build(&p, module, func, target);
  Stream s = build(&p, far_home);
  if (!remat_check_sequence(&s.moves.p, s.plan.exec, s.plan.n, &error)) remat_bug("%s", error.message);
  plan_layout_build(&s.moves.p, s.plan.exec, s.plan.n, PLAN_INPLACE_DECIDE, &l);
  plan_layout_place(&s.moves.p, &l, 0, PLAN_LONG);
  s.plan.offset = allocate_array((size_t)l.n_buffers, sizeof *s.plan.offset);
  for (int b = 0; b < l.n_buffers; b++) s.plan.offset[b] = l.buffers[b].offset;
  plan_layout_free(&l);
  s.plan.moves = allocate_array(1, sizeof s.moves);
  *s.plan.moves = s.moves;
  s.moves = (RematMoves){0};
  remat_rewrite(&p, &s.plan, base);
  free_stream(&s);
  plan_program_free(&p);
}
