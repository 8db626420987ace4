// The search of nnc fit over an arena that is known: its answer, also where the process beside it ends by a mistake.
#include "compiler/fit.h"

#include <unistd.h>

#include "test/check.h"

typedef struct Model {
  int64_t stays, each, most;   // most: no program has more
  pid_t here;
  bool dies;   // the process beside
  int plans;
} Model;

static bool plan(void *context, FitPlan *p) {
  Model *m = context;
  m->plans++;
  if (m->dies && getpid() != m->here) _exit(1);
  p->stays = m->stays;
  p->arena = m->stays + m->each * p->value + (p->rough ? m->each / 2 : 0);
  return p->value <= m->most;
}

static void check_search(Model m, int64_t bytes, int64_t expected) {
  FitPlan best = {0}, next = {0};
  m.here = getpid();
  bool found = fit_search(bytes, 32, plan, &m, &best, &next);
  CHECK(found == (expected > 0), "%lld bytes", (long long)bytes);
  if (!found) return;
  CHECK(best.value == expected && next.value == expected + 1, "%lld, %lld instead of %lld", (long long)best.value,
        (long long)next.value, (long long)expected);
  CHECK(best.arena == m.stays + m.each * expected, "arena %lld", (long long)best.arena);
  CHECK(next.arena == (expected < m.most ? m.stays + m.each * next.value : 0), "next %lld", (long long)next.arena);
  CHECK(m.plans <= 12, "%d plans", m.plans);
}

int main(void) {
  for (int dies = 0; dies < 2; dies++) {
    check_search((Model){.stays = 1000, .each = 10, .most = 1000000, .dies = dies}, 2345, 134);
    check_search((Model){.stays = 1000, .each = 10, .most = 1000000, .dies = dies}, 1015, 1);
    check_search((Model){.stays = 1000, .each = 10, .most = 50, .dies = dies}, 2345, 50);
    check_search((Model){.stays = 1000, .each = 10, .most = 1000000, .dies = dies}, 1005, 0);
  }
  return check_report();
}
