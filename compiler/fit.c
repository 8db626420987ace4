// See fit.h. The secant method, between a value that fits and one that does not as soon as there are both.
#include "compiler/fit.h"

enum { FIT_MOST = 1 << 30, SECANTS = 8 };

// What is known: `low` fits (value 0: none yet), `high` does not (value 0: none yet; arena 0: it cannot be planned).
// `base` is another plan, far enough from the last one for the line through both.
typedef struct Search {
  FitPlan low, high, base, last;
  int plans;
} Search;

// The largest value that the line through two plans puts within the bytes.
static double secant(const Search *s, int64_t bytes) {
  double slope = (double)(s->last.arena - s->base.arena) / (double)(s->last.value - s->base.value);
  return slope > 0 ? (double)s->last.value + (double)(bytes - s->last.arena) / slope : 2 * (double)s->low.value;
}

static int64_t next_value(const Search *s, int64_t bytes) {
  bool straight = s->base.value && s->last.value != s->base.value && s->plans < SECANTS;
  // as if all that does not stay grew with the value
  double at = straight ? secant(s, bytes) : 2 * (double)s->low.value;
  if (s->plans == 1 && s->last.arena) {
    double each = (double)(s->last.arena - s->last.stays) / (double)s->last.value;
    at = each > 0 ? (double)(bytes - s->last.stays) / each : 2 * (double)s->last.value;
  }
  double middle = s->high.value ? (double)s->low.value + (double)(s->high.value - s->low.value) / 2 : (double)FIT_MOST;
  if (s->high.value && (!straight || (!s->high.arena && at > middle))) at = middle;
  if (at > FIT_MOST) at = FIT_MOST;
  int64_t value = (int64_t)at;
  if (value <= s->low.value) return s->low.value + 1;
  return s->high.value && value >= s->high.value ? s->high.value - 1 : value;
}

// Two plans side by side tell no slope: the base stays until there is one a sixteenth away.
static void learn(Search *s, const FitPlan *p, bool fits) {
  int64_t apart = p->value > s->last.value ? p->value - s->last.value : s->last.value - p->value;
  if (p->arena && 16 * apart > p->value) s->base = s->last;
  if (p->arena) s->last = *p;
  if (fits) s->low = *p;
  else s->high = *p;
  s->plans++;
}

bool fit_search(int64_t bytes, int64_t start, FitPlanFn plan, void *context, FitPlan *best, FitPlan *next) {
  Search s = {0};
  for (int64_t value = start; s.low.value < FIT_MOST && s.high.value - s.low.value != 1;
       value = next_value(&s, bytes)) {
    FitPlan p = {.value = value};
    bool planned = plan(context, &p);
    if (!planned) p.arena = 0;
    learn(&s, &p, planned && p.arena <= bytes);
  }
  *best = s.low.value ? s.low : s.high;
  *next = s.high;
  return s.low.value > 0;
}
