// Lanes in the step tables: what a step of the plan waits for (nn.waits) as steps of the table, which has several for
// some ops, one for the calls of a group, and copies that the plan does not count.
#include <stdlib.h>

#include "codegen/tables.h"
#include "support/alloc.h"
#include "support/text.h"

static const char *const names[NN_LANES] = {"NNC_LANE_COMPUTE", "NNC_LANE_OUT", "NNC_LANE_IN", "NNC_LANE_COMM"};

void tables_begin_lanes(Tables *w, const NnStepList *steps) {
  TableLanes *l = &w->lanes;
  *l = (TableLanes){0};
  bool several = false;
  for (int i = 0; i < steps->n; i++) several |= nn_has_attr(steps->items[i].op, ATTR_lane);
  if (!several) return;
  l->lane_of = allocate_array((size_t)steps->n, sizeof *l->lane_of);
  l->last = allocate_array((size_t)steps->n, sizeof *l->last);
  for (int lane = 0; lane < NN_LANES; lane++) {
    l->waiting[lane] = l->known[lane] = lane_clock_none;
  }
  l->end = l->settled = lane_clock_none;
}

static void raise(int *at, int step) {
  if (step > *at) *at = step;
}

// The last step of the table that does work of the plan's steps up to `step`, on its lane. A call of a group is done
// where the group is, which is before any step that waits, or that is of another lane: groups end there.
static int table_step(TableLanes *l, int step) {
  for (; l->n_settled <= step; l->n_settled++) {
    int *settled = &l->settled.at[l->lane_of[l->n_settled]], *last = &l->last[l->n_settled];
    raise(settled, *last);
    *last = *settled;
  }
  return l->last[step];
}

void tables_next_lane(Tables *w, const NnStep *s) {
  TableLanes *l = &w->lanes;
  if (!l->lane_of || (s->role != NN_STEP_RUN && s->role != NN_STEP_TAP)) return;
  l->lane = nn_lane_of(s->op);
  l->lane_of[l->n] = l->lane;
  l->last[l->n] = -1;
  ptr_map_set(&l->of_op, s->op.ptr, l->n++);
  int64_t waits[NN_LANES];
  int n = nn_attr_i64s(s->op, ATTR_waits, waits, NN_LANES);
  for (int i = 0; i < n; i++) {
    NnLane other = l->lane_of[waits[i]];
    raise(&l->waiting[l->lane].at[other], table_step(l, (int)waits[i]));
  }
}

void tables_lane_written(Tables *w, const NnStep *s) {
  TableLanes *l = &w->lanes;
  if (!l->lane_of || (s->role != NN_STEP_RUN && s->role != NN_STEP_TAP)) return;
  const KernelGroup *g = s->role == NN_STEP_RUN ? kernel_group_of(w->kernels->groups, s->op) : NULL;
  if (!g) l->last[l->n - 1] = l->end.at[l->lane];
  else if (g->calls[g->n - 1].ptr == s->op.ptr)
    for (int i = 0; i < g->n; i++) l->last[ptr_map_get(&l->of_op, g->calls[i].ptr)] = l->end.at[l->lane];
}

void tables_join_lanes(Tables *w) {
  TableLanes *l = &w->lanes;
  l->lane = NN_LANE_COMPUTE;
  for (int lane = NN_LANE_COMPUTE + 1; l->lane_of && lane < NN_LANES; lane++)
    raise(&l->waiting[NN_LANE_COMPUTE].at[lane], l->end.at[lane]);
}

// Of several calls that one group does, a later wait may follow from an earlier one.
static LaneClock take_waits(TableLanes *l, int step) {
  LaneClock *waiting = &l->waiting[l->lane], *known = &l->known[l->lane];
  while (l->n_after <= step) *ARRAY_ADD(l->after, l->n_after) = lane_clock_none;
  LaneClock waits = lanes_waits(waiting, known, l->after);
  *waiting = lane_clock_none;
  known->at[l->lane] = l->end.at[l->lane] = step;
  l->after[step] = *known;
  return waits;
}

void tables_add_lane(Tables *w) {
  TableLanes *l = &w->lanes;
  if (!l->lane_of || w->place) return;
  int n = 0;
  Text list = {0};
  LaneClock waits = take_waits(l, w->n_steps);
  for (int lane = 0; lane < NN_LANES; lane++)
    if (waits.at[lane] >= 0) text_add(&list, "%s%d", n++ ? "," : "", waits.at[lane]);
  if (l->lane != NN_LANE_COMPUTE) text_add(&w->steps, ",.lane=%s", names[l->lane]);
  if (n) text_add(&w->steps, ",.n_waits=%d,.waits=(const int32_t[]){%s}", n, text_c_string(&list));
  text_free(&list);
}

void tables_end_lanes(Tables *w) {
  free(w->lanes.lane_of);
  free(w->lanes.last);
  free(w->lanes.after);
  ptr_map_free(&w->lanes.of_op);
  w->lanes = (TableLanes){0};
}
