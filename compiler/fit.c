// See fit.h. Regula falsi between a value that fits and one that does not, each at least doubled before there is one.
#include "compiler/fit.h"

enum { FIT_MOST = 1 << 30 };

// Where the line through both arenas comes to the bytes, strictly between them; `high` may have no plan.
static int64_t between(const FitPlan *low, const FitPlan *high, int64_t bytes) {
  double middle = (double)low->value + (double)(high->value - low->value) / 2, at = middle;
  if (high->arena > low->arena)
    at = (double)low->value +
         (double)(high->value - low->value) * (double)(bytes - low->arena) / (double)(high->arena - low->arena);
  int64_t value = (int64_t)at;
  if (value <= low->value) value = low->value + 1;
  return value >= high->value ? high->value - 1 : value;
}

bool fit_search(int64_t bytes, FitPlanFn plan, void *context, FitPlan *best, FitPlan *next) {
  *best = (FitPlan){.value = 1};
  *next = (FitPlan){0};
  if (!plan(context, best) || best->arena > bytes) return false;
  FitPlan low = *best, high = {0};
  while (!high.value && low.value < FIT_MOST) {   // until one does not fit
    FitPlan p = {.value = 2 * low.value};
    if (low.value > 1 && low.arena > best->arena) {   // a little behind where the line comes to the bytes
      double slope = (double)(low.arena - best->arena) / (double)(low.value - best->value);
      double at = (double)low.value + (double)(bytes - low.arena) / slope + 1;
      if (at < FIT_MOST && (int64_t)at > low.value) p.value = (int64_t)at;
    }
    bool planned = plan(context, &p);
    if (planned && p.arena <= bytes) {
      low = p;
      continue;
    }
    if (!planned) p.arena = 0;
    high = p;
  }
  for (bool halve = false; high.value - low.value > 1; halve = !halve) {   // else one side may stay where it is for
                                                                           // long
    FitPlan p = {.value = halve ? low.value + (high.value - low.value) / 2 : between(&low, &high, bytes)};
    bool planned = plan(context, &p);
    if (planned && p.arena <= bytes) low = p;
    else high = planned ? p : (FitPlan){.value = p.value};
  }
  *best = low;
  *next = high;
  return true;
}
