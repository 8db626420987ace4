// The search of nnc fit over an arena that is known: its answer, also where the process beside it ends by a mistake.
#include "compiler/fit.h"

#include <unistd.h>

#include "test/check.h"

typedef struct Model {
  int64_t stays, each, most;   // most: no program has more
  int64_t apart;               // bytes that stay, too, which a plan does not tell
  int64_t step, all;           // only multiples are programs, and what is at most `all`; 0: all values
  int64_t rest, least;         // instead of multiples those with this rest; no program has less
  int64_t gap, behind;         // what offsets add to the arena of more than `behind`
  int64_t part;                // what they add to all, one of so many bytes; 0: nothing
  pid_t here;
  bool dies;   // the process beside
  int plans;
} Model;

static bool plan(void *context, FitPlan *p) {
  Model *m = context;
  m->plans++;
  if (m->dies && getpid() != m->here) _exit(1);
  p->stays = m->stays;
  p->arena = m->stays + m->apart + m->each * p->value + (p->rough ? m->each / 2 : 0);
  p->live = p->arena;
  if (!p->rough && p->value > m->behind) p->arena += m->gap;
  if (!p->rough && m->part) p->arena += p->live / m->part;
  return p->value <= m->most && p->value >= m->least &&
         (!m->step || p->value % m->step == m->rest || p->value <= m->all);
}

static void check_search(Model m, int64_t bytes, int64_t expected, int plans) {
  FitPlan best = {0}, next = {0};
  m.here = getpid();
  bool found = fit_search(bytes, 32, plan, &m, &best, &next);
  CHECK(found == (expected > 0), "%lld bytes", (long long)bytes);
  CHECK(m.plans <= plans, "%d plans", m.plans);
  if (!found)
    CHECK(best.value == (m.least  ? m.least
                         : m.rest ? m.rest
                         : m.step ? m.step
                                  : 1),
          "%lld does not fit", (long long)best.value);
  if (!found) return;
  CHECK(best.value == expected && next.value == expected + (m.step && !m.all ? m.step : 1),
        "%lld, %lld instead of %lld", (long long)best.value, (long long)next.value, (long long)expected);
  CHECK(best.arena == m.stays + m.apart + m.each * expected, "arena %lld", (long long)best.arena);
  CHECK(next.arena == (expected < m.most ? m.stays + m.apart + m.gap + m.each * next.value : 0), "next %lld",
        (long long)next.arena);
}

static void check_value(Model m, int64_t bytes, int64_t start, int64_t expected, int plans) {
  FitPlan best = {0}, next = {0};
  m.here = getpid();
  CHECK(fit_search(bytes, start, plan, &m, &best, &next) && best.value == expected, "%lld instead of %lld",
        (long long)best.value, (long long)expected);
  CHECK(m.plans <= plans, "%d plans", m.plans);
}

int main(void) {
  for (int dies = 0; dies < 2; dies++) {
    check_search((Model){.stays = 1000, .each = 10, .most = 1000000, .dies = dies}, 2345, 134, 12 + dies);
    check_search((Model){.stays = 1000, .each = 10, .most = 1000000, .dies = dies}, 1015, 1, 12 + dies);
    check_search((Model){.stays = 1000, .each = 10, .most = 50, .dies = dies}, 2345, 50, 12 + dies);
    check_search((Model){.stays = 1000, .each = 10, .most = 1000000, .dies = dies}, 1005, 0, 12 + dies);
  }
  // a line that two plans tell, also where it rises by a byte; and an arena that does not grow
  check_search((Model){.stays = 1000, .apart = 50000, .each = 10, .most = 1000000}, 200000, 14900, 5);
  check_search((Model){.stays = 1000, .apart = 5000, .each = 1, .most = 1000000}, 200000, 194000, 4);
  check_search((Model){.stays = 1000, .each = 0, .most = 700}, 2000, 700, 20);   // three to see that 31 is a program
  // offsets of those that cannot fit are not looked for long
  check_search((Model){.stays = 1000, .each = 10, .most = 1000000, .gap = 20000, .behind = 19900}, 200000, 19900, 5);
  // offsets that never reach what is alive
  check_value((Model){.stays = 1000, .each = 10, .most = 1000000, .part = 100}, 200000, 32, 19702, 10);
  check_value((Model){.stays = 1000, .each = 10, .most = 1000000, .part = 20}, 200000, 32, 18947, 10);
  // a value beside which there is no other to begin with
  check_value((Model){.stays = 1000, .each = 10, .most = INT64_MAX}, 200000, 1 << 29, 19900, 60);
  // programs that lie apart
  check_search((Model){.stays = 1000, .each = 10, .most = 1000000, .step = 2}, 2345, 134, 32);
  check_search((Model){.stays = 1000, .each = 10, .most = 1000000, .step = 8}, 2345, 128, 32);
  check_search((Model){.stays = 1000, .each = 10, .most = 1000000, .step = 32}, 1300, 0, 60);
  check_search((Model){.stays = 1000, .each = 10, .most = 64, .step = 4}, 2345, 64, 32);
  check_search((Model){.stays = 1000, .each = 10, .most = 8, .step = 32, .all = 8}, 1320, 8, 60);
  check_search((Model){.stays = 1000, .each = 10, .most = 1000000, .step = 16, .rest = 0}, 2345, 128, 60);
  check_search((Model){.stays = 1000, .each = 10, .most = 1000000, .step = 6, .rest = 2}, 2345, 134, 60);
  check_search((Model){.stays = 1000, .each = 10, .most = 1000000, .step = 6, .rest = 2}, 1015, 0, 60);
  // a hole below the file's value, and programs below it
  check_value((Model){.stays = 1000, .apart = 100, .each = 10, .most = 1000000, .step = 16, .all = 16}, 1250, 32, 15,
              60);
  check_value((Model){.stays = 1000, .apart = 300, .each = 10, .most = 1000000, .step = 32, .all = 30}, 1590, 32, 29,
              60);
  // none has less than some
  check_search((Model){.stays = 1000, .each = 10, .most = 1000000, .least = 4}, 1005, 0, 30);
  check_search((Model){.stays = 1000, .each = 10, .most = 1000000, .least = 4}, 1045, 4, 30);
  check_search((Model){.stays = 1000, .apart = 5000, .each = 10, .most = 1000000, .least = 31}, 6315, 31, 30);
  check_search((Model){.stays = 1000, .each = 10, .most = 1000000, .least = 32}, 2345, 134, 12);
  return check_report();
}
