// watch.h: time as the solver sees it. A limit that only keeps a search from taking too long is counted in elementary
// steps, about a nanosecond each, so that a problem, its options and a seed give the same result on every machine, idle
// or busy. A limit that the user asks for in seconds is one of the clock.
#ifndef NNC_SOLVER_WATCH_H
#define NNC_SOLVER_WATCH_H

#include "solver.h"

extern _Thread_local int64_t watch_steps;   // of this thread so far

static inline void watch_count(int64_t steps) { watch_steps += steps; }
static inline double watch_counted(void) { return 1e-9 * (double)watch_steps; }   // seconds

typedef struct Watch {
  bool by_clock;
  double start;
  double limit;   // seconds since then
} Watch;

// With the limit of the options, which may be NULL, by the clock; with that of a counted search, or the default of 10,
// counted.
Watch watch_start(const RematOptions *options);
double watch_seconds(const Watch *watch);   // since the start

#endif
