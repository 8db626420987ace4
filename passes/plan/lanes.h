// Lanes: a step runs on one of them, behind the steps of its lane that stand before it and behind those of other lanes
// that it waits for; for the rest lanes run beside each other. The order of a function's steps stays total: run one by
// one in it they compute the right thing, and where each byte is free is told by it. Waits make every other timing
// give the same: whoever touches bytes that a step of another lane has touched before, one of them writing, waits for
// that step. So what the order needs at most is what every timing needs at most, whatever takes how long.
//
// Numbers alone; passes/plan/plan.c gives the steps of a planned function, plan_check_lanes.c judges the result.
#ifndef NNC_PASSES_PLAN_LANES_H
#define NNC_PASSES_PLAN_LANES_H

#include <stdbool.h>
#include <stdint.h>

// Order as NncLane in runtime/program.h. ORDER LANE
typedef enum NnLane {
  NN_LANE_COMPUTE,
  NN_LANE_OUT,    // to memory far away
  NN_LANE_IN,     // from there
  NN_LANE_COMM,   // between devices
  NN_LANES,
} NnLane;
const char *nn_lane_name(NnLane lane);      // "compute", "out", "in", "comm"
NnLane nn_lane_by_name(const char *name);   // NN_LANES: unknown

// Of each lane one step, by its number in the order, and with it all before it on that lane; -1: none.
typedef struct LaneClock {
  int at[NN_LANES];
} LaneClock;
extern const LaneClock lane_clock_none;

typedef struct LaneTouch {   // bytes [begin, end) are read, or written
  int64_t begin, end;
  bool written;
} LaneTouch;

typedef struct LaneStep {
  NnLane lane;
  LaneClock waits;   // nothing at its own lane
  int n_touches;
  const LaneTouch *touches;   // Borrowed
} LaneStep;

// Sets the waits of n steps in the order: for each two steps that touch the same bytes, one of them writing, that the
// first is over when the second starts, with no wait that the others imply.
void lanes_find_waits(int n, LaneStep *steps);

#endif
