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

// The step at a position. `current` holds, per value, the latest instance of its buffer.
static LaneStep lane_step(const PlanProgram *p, const PlanLayout *l, const PlanBase *base, int position, int *current,
                          LaneTouch *touches) {
  const PlanStep *from = &p->steps[l->exec ? l->exec[position] : position];
  LaneStep s = {.lane = from->lane, .waits = lane_clock_none, .touches = touches};
  bool again = l->again[position];
  if (from->role == NN_STEP_TAP) return s;   // it is looked at only where steps run one by one, in their order
  for (int j = 0; j < from->n_inputs; j++) {
    const PlanValue *v = &p->values[from->inputs[j]];
    if (again && from->reads_again && !from->reads_again[j]) continue;
    int buffer = l->instances[current[v->root]].buffer;
    add_touch(&s, touches, plan_buffer_address(&l->buffers[buffer], base) + v->shift, v->bytes, false);
  }
  if (l->workspace[position] >= 0)
    add_touch(&s, touches, plan_buffer_address(&l->buffers[l->workspace[position]], base), from->workspace, true);
  for (int r = 0; r < from->n_results; r++) {
    int instance = l->first_instance[position] + r, value = from->first_result + r;
    if (again && from->again && !from->again[r]) continue;
    add_touch(&s, touches, plan_buffer_address(&l->buffers[l->instances[instance].buffer], base),
              p->values[value].bytes, true);
    current[value] = instance;
  }
  return s;
}

// The steps of a layout that has its offsets, with what they wait for. Owned: free(), also *touches.
static LaneStep *lane_steps(const PlanProgram *p, const PlanLayout *l, const PlanBase *base, LaneTouch **touches) {
  size_t n_touches = 0;
  for (int i = 0; i < l->n; i++) {
    const PlanStep *s = &p->steps[l->exec ? l->exec[i] : i];
    n_touches += (size_t)(s->n_inputs + s->n_results) + 1;
  }
  LaneTouch *next = *touches = allocate_array(n_touches, sizeof *next);
  LaneStep *steps = allocate_array((size_t)l->n, sizeof *steps);
  int *current = allocate_array((size_t)p->n_values, sizeof *current);
  for (int a = 0; a < p->n_args; a++) current[a] = a;
  for (int i = 0; i < l->n; i++) {
    steps[i] = lane_step(p, l, base, i, current, next);
    next += steps[i].n_touches;
  }
  free(current);
  lanes_find_waits(l->n, steps);
  return steps;
}

double plan_layout_makespan(const PlanProgram *p, const PlanLayout *l, const PlanBase *base, const double *seconds) {
  LaneTouch *touches;
  LaneStep *steps = lane_steps(p, l, base, &touches);
  double end = lanes_makespan(l->n, steps, seconds, NULL);
  free(touches);
  free(steps);
  return end;
}

static void write_waits(MlirOperation op, const LaneClock *waits) {
  int64_t list[NN_LANES];
  int n = 0;
  for (int lane = 0; lane < NN_LANES; lane++)
    if (waits->at[lane] >= 0) list[n++] = waits->at[lane];
  if (n) nn_set_attr(op, &NN_I64S(ATTR_waits, list, n));
  else mlirOperationRemoveAttributeByName(op, nn_string_ref(ATTR_waits));
}

static bool check_lane(const PlanStep *s) {
  char name[32];
  if (s->lane < NN_LANES) return true;
  nn_error(s->op, "'%s' is no lane: expected compute, out, in or comm",
           nn_attr_str(s->op, ATTR_lane, name, sizeof name, "?"));
  return false;
}

bool plan_write_waits(const PlanProgram *p, const PlanLayout *l, const PlanBase *base) {
  bool several = false;
  for (int i = 0; i < p->n_steps; i++) {
    if (!check_lane(&p->steps[i])) return false;
    several |= p->steps[i].lane != NN_LANE_COMPUTE || nn_has_attr(p->steps[i].op, ATTR_waits);
  }
  if (!several) return true;
  LaneTouch *touches;
  LaneStep *steps = lane_steps(p, l, base, &touches);
  for (int i = 0; i < p->n_steps; i++) write_waits(p->steps[i].op, &steps[i].waits);
  free(touches);
  free(steps);
  return true;
}
