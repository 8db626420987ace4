// watch.c: what a search takes, by the clock or counted.
#include "watch.h"

#include "support/clock.h"

_Thread_local int64_t watch_steps;

static const double DEFAULT_LIMIT = 10;

static double now(bool by_clock) { return by_clock ? seconds_now() : watch_counted(); }

Watch watch_start(const RematOptions *options) {
  bool limited = options && options->time_limit > 0, by_clock = limited && !options->counted;
  return (Watch){by_clock, now(by_clock), limited ? options->time_limit : DEFAULT_LIMIT};
}

double watch_seconds(const Watch *watch) { return now(watch->by_clock) - watch->start; }
