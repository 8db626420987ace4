// Private to the pass `check`.
#ifndef NNC_PASSES_PLAN_CHECK_H
#define NNC_PASSES_PLAN_CHECK_H

#include "ir/ir.h"
#include "passes/plan/lanes.h"

// Why result `result` of a step may not lie over the bytes of operand `operand`, or NULL: it may. Where other operands
// show the same bytes, each is asked for. kernel: the function that op calls, null: a library op.
const char *plan_check_over(MlirOperation op, MlirOperation kernel, int result, int operand);

// What is wrong with the waits of a function's steps.
typedef struct LaneRace {
  enum { LANE_RACE, LANE_WAIT_FOR_NONE } kind;
  int before, after;    // steps: nothing says that the first is over when the second starts; or it waits for none such
  int touch;            // of the second: which of its touches meets what the first touched
  bool before_writes;   // else it reads
  int64_t begin, end;   // bytes that both touch, or some of them
} LaneRace;
// True if each two of n steps that touch the same bytes, one of them writing, are ordered by lanes and waits.
bool plan_check_lanes(int n, const LaneStep *steps, LaneRace *race);

#endif
