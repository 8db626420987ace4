// watch.c: what a search takes, by the clock or counted.
#include "watch.h"

#include "support/clock.h"

static double now(const RematProblem *problem) { return problem ? watch_counted(problem) : seconds_now(); }

Watch watch_start(const RematProblem *problem, const RematOptions *options) {
  bool limited = options && options->time_limit > 0;
  if (limited && !options->counted) problem = NULL;
  return (Watch){problem, now(problem), limited ? options->time_limit : REMAT_COUNTED_SECONDS};
}

double watch_seconds(const Watch *watch) { return now(watch->problem) - watch->start; }
