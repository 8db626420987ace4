// Private to the pass `check`.
#ifndef NNC_PASSES_PLAN_CHECK_H
#define NNC_PASSES_PLAN_CHECK_H

#include "ir/ir.h"

// Why result `result` of a step may not lie over the bytes of operand `operand`, or NULL: it may. Where other operands
// show the same bytes, each is asked for. kernel: the function that op calls, null: a library op.
const char *plan_check_over(MlirOperation op, MlirOperation kernel, int result, int operand);

#endif
