// The waits of a planned function: the one place where they come from. Whatever moves steps to lanes says only on which
// lane a step runs (nn.lane) and where in the order it stands; how steps that share bytes follow from each other, and
// who may have bytes of whom, is told by the order, and the waits are what makes it hold beside each other. So a budget
// is met by the order alone, and moving a step in the order is the way to trade memory for freedom: a copy to memory
// far away stands where its bytes are to be free at the latest, one from there where its bytes are needed first.
#include <stdlib.h>

#include "passes/plan/plan.h"
#include "support/alloc.h"

static void add_touch(LaneStep *s, LaneTouch *touches, int64_t address, int64_t bytes, bool written) {
  touches[s->n_touches++] = (LaneTouch){address, address + bytes, written};
}

static LaneStep lane_step(const PlanProgram *p, const int64_t *address, int step, LaneTouch *touches) {
  const PlanStep *from = &p->steps[step];
  LaneStep s = {.lane = from->lane, .waits = lane_clock_none, .touches = touches};
  if (from->role == NN_STEP_TAP) return s;   // it is looked at only where steps run one by one, in their order
  for (int j = 0; j < from->n_inputs; j++)
    add_touch(&s, touches, address[from->inputs[j]], p->values[from->inputs[j]].bytes, false);
  if (from->workspace > 0) add_touch(&s, touches, nn_attr_i64(from->op, ATTR_workspace, 0), from->workspace, true);
  for (int r = from->first_result; r < from->first_result + from->n_results; r++)
    add_touch(&s, touches, address[r], p->values[r].bytes, true);
  return s;
}

static void write_waits(MlirOperation op, const LaneClock *waits) {
  int64_t list[NN_LANES];
  int n = 0;
  for (int lane = 0; lane < NN_LANES; lane++)
    if (waits->at[lane] >= 0) list[n++] = waits->at[lane];
  if (n) nn_set_attr(op, &NN_I64S(ATTR_waits, list, n));
  else mlirOperationRemoveAttributeByName(op, mlirStringRefCreateFromCString(ATTR_waits));
}

static bool check_lane(const PlanStep *s) {
  char name[32];
  if (s->lane < NN_LANES) return true;
  nn_error(s->op, "'%s' is no lane: expected compute, out, in or comm",
           nn_attr_str(s->op, ATTR_lane, name, sizeof name, "?"));
  return false;
}

bool plan_write_waits(const PlanProgram *p, const int64_t *address) {
  size_t n_touches = 0;
  bool several = false;
  for (int i = 0; i < p->n_steps; i++) {
    const PlanStep *s = &p->steps[i];
    if (!check_lane(s)) return false;
    several |= s->lane != NN_LANE_COMPUTE || nn_has_attr(s->op, ATTR_waits);
    n_touches += (size_t)(s->n_inputs + s->n_results) + 1;
  }
  if (!several) return true;
  LaneTouch *touches = allocate_array(n_touches, sizeof *touches), *next = touches;
  LaneStep *steps = allocate_array((size_t)p->n_steps, sizeof *steps);
  for (int i = 0; i < p->n_steps; i++) {
    steps[i] = lane_step(p, address, i, next);
    next += steps[i].n_touches;
  }
  lanes_find_waits(p->n_steps, steps);
  for (int i = 0; i < p->n_steps; i++) write_waits(p->steps[i].op, &steps[i].waits);
  free(touches);
  free(steps);
  return true;
}
