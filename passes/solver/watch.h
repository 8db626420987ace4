// watch.h: time as the solver sees it. A limit that only keeps a search from taking too long is counted in elementary
// steps, about a nanosecond each, so that a problem, its options and a seed give the same result on every machine, idle
// or busy. A limit that the user asks for in seconds is one of the clock.
#ifndef NNC_SOLVER_WATCH_H
#define NNC_SOLVER_WATCH_H

#include "solver.h"

static inline void watch_count(const RematProblem *problem, int64_t steps) {
  if (problem->steps) *problem->steps += steps;
}
static inline double watch_counted(const RematProblem *problem) { return 1e-9 * (double)*problem->steps; }   // seconds

// The problem, counted: in `own`, which is 0, where nobody counts yet.
static inline RematProblem watch_problem(const RematProblem *problem, int64_t *own) {
  RematProblem counted = *problem;
  if (!counted.steps) counted.steps = own;
  return counted;
}

typedef struct Watch {
  const RematProblem *problem;   // Borrowed; NULL: by the clock
  double start;
  double limit;   // seconds since then
} Watch;

// With the limit of the options, which may be NULL, by the clock; with that of a counted search, or the default of 10,
// counted.
Watch watch_start(const RematProblem *problem, const RematOptions *options);
double watch_seconds(const Watch *watch);   // since the start

#endif
