// seeds.c: schedules made for one budget, from which the search begins: the dynamic program over stages, at several
// numbers of stages. One table serves every memory up to the budget and somewhat beyond, so that the memory whose
// schedule, measured by the simulator, fits best is found by bisection; rounding in the table does no harm that way.
#include <math.h>

#include "chain.h"

enum { EXACT_UNITS = 600, ROUNDED_UNITS = 160 };

// The greatest common divisor of the sizes of forward values; ones a hundred times below the largest do not count. 0
// when there is none.
static int64_t common_divisor(const RematGraph *graph) {
  const RematNode *nodes = graph->problem->nodes;
  int64_t divisor = 0, largest = 0;
  for (int v = 0; v < graph->forward_end; v++)
    if (nodes[v].recomputable && nodes[v].bytes > largest) largest = nodes[v].bytes;
  for (int v = 0; v < graph->forward_end; v++)
    for (int64_t a = nodes[v].recomputable && nodes[v].bytes > largest / 100 ? nodes[v].bytes : 0; a != 0;) {
      int64_t rest = divisor % a;
      divisor = a;
      a = rest;
    }
  return divisor;
}

// What is looked for in a table.
typedef struct Bisection {
  const ChainTable *table;
  int64_t budget;
  RematSchedule fits, exceeds;   // Owned; the cheapest within the budget, the lowest above it
} Bisection;

// Builds for `memory` and keeps what is better than before. Tells whether it fits.
static bool try_memory(Bisection *search, int memory) {
  RematSchedule schedule;
  if (!chain_build(search->table, memory, &schedule)) return false;
  bool fits = schedule.peak <= search->budget;
  RematSchedule *best = fits ? &search->fits : &search->exceeds;
  bool lower = schedule.peak < best->peak, cheaper = schedule.cost < best->cost;
  bool better = !best->exec || (fits ? cheaper || (schedule.cost == best->cost && lower) : lower);
  if (better) {
    remat_schedule_free(best);
    *best = schedule;
  } else {
    remat_schedule_free(&schedule);
  }
  return fits;
}

static void bisect(Bisection *search) {
  const ChainTable *table = search->table;
  size_t start = chain_state(table, 0, table->chain->n, 0);
  int least = 0;
  while (least <= table->units && table->choice[start + (size_t)least] == CHAIN_INFEASIBLE) least++;
  if (least > table->units) return;
  int low = least, high = table->units;
  while (low < high) {
    int middle = low + (high - low + 1) / 2;
    if (try_memory(search, middle)) low = middle;
    else high = middle - 1;
  }
  try_memory(search, low);
  // The measured peak need not grow with the memory.
  for (int m = low + 2; m <= low + 5 && m <= table->units; m++) try_memory(search, m);
}

typedef struct Seeding {
  const RematGraph *graph;
  int64_t budget;
  bool (*visit)(void *context, const RematSchedule *schedule);
  bool (*ends)(void *context);
  void *context;
  bool fits;       // some schedule visited does
  int stages[4];   // of the chains tried
  int n_stages;
} Seeding;

static bool visit_schedule(Seeding *seeding, RematSchedule *schedule) {
  bool more = !schedule->exec || seeding->visit(seeding->context, schedule);
  remat_schedule_free(schedule);
  return more;
}

// How a chain is made, and how much work its table may be.
typedef struct Level {
  int limit;         // stages
  bool everywhere;   // see chain_create
  double work;
} Level;

static Chain create_within(const RematGraph *graph, Level level, int units) {
  for (;;) {
    Chain chain = chain_create(graph, level.limit, level.everywhere);
    if (chain.n <= 8 || chain_work(&chain, units) <= level.work) return chain;
    level.limit = chain.n * 4 / 5;
    chain_free(&chain);
  }
}

static bool tried(const Seeding *seeding, int stages) {
  for (int i = 0; i < seeding->n_stages; i++)
    if (seeding->stages[i] == stages) return true;
  return false;
}

static bool seed_at(Seeding *seeding, Level level) {
  int64_t free_bytes = seeding->budget - seeding->graph->problem->fixed_bytes;
  int64_t divisor = common_divisor(seeding->graph);
  bool exact = divisor > 0 && free_bytes / divisor <= EXACT_UNITS;
  int units = exact ? (int)(free_bytes / divisor) : ROUNDED_UNITS;
  double unit_bytes = exact ? (double)divisor : 1.3 * (double)free_bytes / ROUNDED_UNITS;
  Chain chain = create_within(seeding->graph, level, units);
  bool more = true;
  if (!tried(seeding, chain.n)) {
    ChainTable table = chain_solve(&chain, units, unit_bytes, seeding->ends, seeding->context);
    Bisection search = {.table = &table, .budget = seeding->budget};
    bisect(&search);
    seeding->stages[seeding->n_stages++] = chain.n;
    if (search.fits.exec) seeding->fits = true;
    more = visit_schedule(seeding, &search.fits);
    if (more) more = visit_schedule(seeding, &search.exceeds);
    else remat_schedule_free(&search.exceeds);
    chain_table_free(&table);
  }
  chain_free(&chain);
  return more;
}

void remat_each_budget_seed(const RematGraph *graph, int64_t budget_bytes,
                            bool (*visit)(void *context, const RematSchedule *schedule), bool (*ends)(void *context),
                            void *context) {
  // A repeating chain costs little at full length. Otherwise the first table takes a tenth of a second, fine stages
  // some more; stages cut anywhere are for the lowest peaks.
  static const Level levels[] = {{1200, false, 2e8}, {40, false, 2e8}, {300, false, 1e9}, {300, true, 1e9}};
  Seeding seeding = {.graph = graph, .budget = budget_bytes, .visit = visit, .ends = ends, .context = context};
  if (graph->forward_end < 2 || budget_bytes <= graph->problem->fixed_bytes) return;
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    if (levels[i].everywhere && seeding.fits) break;
    if (!seed_at(&seeding, levels[i])) return;
  }
}

// The schedule of lowest peak in one table whose cost, measured, is at most `most_cost`; better than *schedule or not.
static void build_within(const RematGraph *graph, Level level, int64_t memory, double most_cost,
                         RematSchedule *schedule) {
  int64_t divisor = common_divisor(graph);
  bool exact = divisor > 0 && memory / divisor <= EXACT_UNITS / 2;
  int units = exact ? (int)(memory / divisor) : 2 * ROUNDED_UNITS;
  Chain chain = create_within(graph, level, units);
  ChainTable table = chain_solve(&chain, units, exact ? (double)divisor : (double)memory / units, NULL, NULL);
  const float *cost = table.cost + chain_state(&table, 0, chain.n, 0);
  int low = 0, high = units + 1;
  while (low < units && isinf(cost[low])) low++;
  while (low < high) {
    int middle = low + (high - low) / 2;
    RematSchedule candidate = {0};
    bool good = middle <= units && chain_build(&table, middle, &candidate) && candidate.cost <= most_cost;
    if (good && (!schedule->exec || candidate.peak < schedule->peak)) {
      remat_schedule_free(schedule);
      *schedule = candidate;
    } else {
      remat_schedule_free(&candidate);
    }
    if (good || middle > units) high = middle;
    else low = middle + 1;
  }
  chain_table_free(&table);
  chain_free(&chain);
}

bool remat_build_within_cost(const RematGraph *graph, double most_cost, RematSchedule *schedule) {
  *schedule = (RematSchedule){0};
  RematSchedule plain = remat_baseline(graph->problem);
  int64_t memory = plain.peak - graph->problem->fixed_bytes;
  remat_schedule_free(&plain);
  if (graph->forward_end < 2 || memory <= 0) return false;
  build_within(graph, (Level){1200, false, 2e8}, memory, most_cost, schedule);
  if (graph->forward_end > 40) build_within(graph, (Level){40, false, 2e8}, memory, most_cost, schedule);
  return schedule->exec != NULL;
}
