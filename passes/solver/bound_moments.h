// bound_moments.h: the best bound over moments, and over sequences of them.
#ifndef NNC_SOLVER_BOUND_MOMENTS_H
#define NNC_SOLVER_BOUND_MOMENTS_H

#include "bound_price.h"

// A scaled cost that executions beyond the first of each node certainly add; infinite when nothing fits the budget of
// the graph. Ends at `start` + `limit` (counted seconds) with its best so far.
double bound_moments_search(const BoundGraph *graph, double start, double limit);

// Bytes that every schedule has live at once, when more than `least`; otherwise `least`. The graph's budget and costs
// must be 0.
int64_t bound_moments_peak(const BoundGraph *graph, int64_t least, double deadline);

// remat_lower_bound without the exact solver; `limit` in seconds. In bound.c.
double bound_by_moments(const RematProblem *problem, int64_t budget_bytes, double limit);

// The same for problems with a far tier: a makespan. In bound_tiers.c.
double bound_by_tiers(const RematProblem *problem, int64_t budget_bytes, double limit);

#endif
