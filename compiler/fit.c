// See fit.h. The secant method, between a value that fits and one that does not as soon as there are both. A search is
// over values a step apart, offset + step, offset + 2 step, ...: all values below are such numbers of steps.
#include "compiler/fit.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/integers.h"

enum { FIT_MOST = 1 << 30, SECANTS = 16, AHEAD = 4 };

// What is known: `low` fits (value 0: none yet), `high` does not (value 0: none yet; arena 0: it cannot be planned).
// Programs are looked for behind `under`, the largest value below `start` that is none, where `start` is one. `base` is
// another plan, far enough from the last one for the line through both.
typedef struct Search {
  FitPlanFn plan;
  void *context;
  int64_t step, offset, most, start, under;
  FitPlan low, high, base, last;
  int plans;
  bool holes;   // some value was no program
} Search;

static int64_t bottom(const Search *s) { return s->low.value > s->under ? s->low.value : s->under; }

// The largest value that the line through two plans puts within the bytes: that of what is alive, or, where offsets
// alone kept one from fitting, that of the arenas between which the answer lies.
static double secant(const Search *s, int64_t bytes) {
  bool packed = s->high.arena && s->high.live <= bytes;
  if (packed && s->low.value)
    return (double)s->low.value + (double)(bytes - s->low.arena) * (double)(s->high.value - s->low.value) /
                                      (double)(s->high.arena - s->low.arena);
  int64_t aim = packed ? bytes - (s->high.arena - s->high.live) : bytes;
  double slope = (double)(s->last.live - s->base.live) / (double)(s->last.value - s->base.value);
  return slope > 0 ? (double)s->last.value + (double)(aim - s->last.live) / slope
                   : 2 * (double)larger(s->low.value, s->last.value);
}

static int64_t next_value(const Search *s, int64_t bytes) {
  bool straight = s->base.value && s->last.value != s->base.value && s->plans < SECANTS;
  // as if all that does not stay grew with the value
  double at = straight ? secant(s, bytes) : 2 * (double)s->low.value;
  if (s->plans == 1 && s->last.arena) {
    double each = (double)(s->last.live - s->last.stays) / (double)s->last.value;
    at = each > 0 ? (double)(bytes - s->last.stays) / each : 2 * (double)s->last.value;
  }
  int64_t low = bottom(s), top = s->high.value ? s->high.value : s->under ? s->start + 1 : 0;
  double middle = top ? (double)low + (double)(top - low) / 2 : (double)s->most;
  if (s->high.value && (!straight || (!s->high.arena && at > middle))) at = middle;
  if (at > (double)s->most) at = (double)s->most;
  int64_t value = (int64_t)at;
  if (value <= low && s->under > s->low.value) value = (int64_t)middle;
  if (value <= low) return low + 1;
  return s->high.value && value >= s->high.value ? s->high.value - 1 : value;
}

// Two plans side by side tell no slope: the base stays until there is one a sixteenth away.
static void learn(Search *s, const FitPlan *p, bool fits) {
  int64_t apart = p->value > s->last.value ? p->value - s->last.value : s->last.value - p->value;
  if (p->arena && 16 * apart > p->value) s->base = s->last;
  if (p->arena) s->last = *p;
  if (fits) s->low = *p;
  else if (!p->arena && p->value < s->start) s->under = p->value;
  else s->high = *p;
  s->holes |= !p->arena;
  s->plans++;
}

// An arena of 0 where it cannot be planned.
static void plan_one(const Search *s, FitPlan *p) {
  int64_t value = p->value;
  p->value = s->offset + s->step * value;
  if (!s->plan(s->context, p)) p->arena = 0;
  p->value = value;
}

// The second one in a process of its own, at the same time, which tells by memory of both: a pipe would take files that
// planning may need. What it does not tell, where there can be none or it ends by a mistake of ours, is planned here.
static void plan_both(const Search *s, FitPlan *p, FitPlan *q) {
  FitPlan *told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t beside = told != MAP_FAILED ? fork() : -1;
  int status = -1;
  if (beside == 0) {
    plan_one(s, q);
    *told = *q;
    _exit(0);
  }
  plan_one(s, p);
  if (beside > 0 && waitpid(beside, &status, 0) == beside && status == 0) *q = *told;
  else plan_one(s, q);
  if (told != MAP_FAILED) munmap(told, sizeof *told);
}

// Where all so far could be planned the value is where a line meets the bytes: it fits, most likely, and the next one
// does not. Behind one that fits it is itself that next one.
static bool ends_here(const Search *s, int64_t value) {
  bool behind = s->low.value && value == s->low.value + 1;
  return s->plans > 0 && value < s->most && !behind && !s->under && value + 1 != s->high.value &&
         (!s->high.value || s->high.arena);
}

// *all: every value that was tried is a program. `behind`: those below `start` that are none are below all that are.
static bool search_apart(int64_t step, int64_t bytes, int64_t start, bool behind, FitPlanFn plan, void *context,
                         FitPlan *best, FitPlan *next, bool *all) {
  Search s = {.plan = plan, .context = context, .step = step, .offset = start % step ? start % step - step : 0};
  s.most = (FIT_MOST - s.offset) / step;
  int64_t from = (start - s.offset) / step;
  FitPlan first = {.rough = true, .value = from}, other = {.rough = true};
  if (from <= s.most / AHEAD) {
    other.value = AHEAD * from;
    plan_both(&s, &first, &other);
  } else plan_one(&s, &first);
  // they say where to look, that this is a program, and nothing of what fits
  if (first.arena) s.last = first, s.plans = 1, s.start = behind ? from : 0;
  if (first.arena && other.arena) s.base = first, s.last = other, s.plans = 2;
  for (int64_t value = first.arena ? next_value(&s, bytes) : from;
       s.low.value < s.most && s.high.value - bottom(&s) != 1; value = next_value(&s, bytes)) {
    FitPlan p = {.value = value}, q = {.value = value + 1};
    bool both = ends_here(&s, value);
    if (both) plan_both(&s, &p, &q);
    else plan_one(&s, &p);
    bool fits = p.arena && p.arena <= bytes;
    learn(&s, &p, fits);
    if (both && fits) learn(&s, &q, q.arena && q.arena <= bytes);
  }
  *best = s.low.value ? s.low : s.high;
  *next = s.high;
  best->value = s.offset + step * best->value;
  if (next->value) next->value = s.offset + step * next->value;
  *all = !s.holes;
  return s.low.value > 0;
}

static bool is_program(FitPlanFn plan, void *context, int64_t value) {
  return value > 0 && value <= FIT_MOST && plan(context, &(FitPlan){.rough = true, .value = value});
}

// How far apart the programs around one lie: a divisor of its value, or a small number.
static int64_t step_of_programs(FitPlanFn plan, void *context, int64_t value) {
  enum { SMALL = 16 };
  if (!is_program(plan, context, value)) return 1;
  for (int64_t d = 1; d <= value || d <= SMALL; d++)
    if ((value % d == 0 || d <= SMALL) &&
        (is_program(plan, context, value - d) || is_program(plan, context, value + d)))
      return d;
  return 1;
}

bool fit_search(int64_t bytes, int64_t start, FitPlanFn plan, void *context, FitPlan *best, FitPlan *next) {
  bool all, found = search_apart(1, bytes, start, true, plan, context, best, next, &all);
  if (all) return found;
  int64_t step = step_of_programs(plan, context, start);
  FitPlan other = {0}, other_next = {0};
  bool found_other = step > 1 && search_apart(step, bytes, start, true, plan, context, &other, &other_next, &all);
  if (found_other ? !found || other.value >= best->value : !found && step > 1) *best = other, *next = other_next;
  if (found || found_other || !best->arena) return found || found_other;
  // below a hole there may be programs, too
  found = search_apart(1, bytes, start, false, plan, context, &other, &other_next, &all);
  if (found) *best = other, *next = other_next;
  return found;
}
