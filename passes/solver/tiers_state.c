// tiers_state.c: what a plan with two tiers costs, in one pass over its items. Shares no code with the simulator.
#include "support/alloc.h"
#include "tiers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void tier_plan_insert(TierPlan *plan, int position, int item) {
  if (plan->n == plan->capacity) {
    plan->capacity = 2 * plan->capacity + 64;
    plan->items = reallocate_array(plan->items, (size_t)plan->capacity, sizeof(int));
  }
  memmove(plan->items + position + 1, plan->items + position, (size_t)(plan->n - position) * sizeof(int));
  plan->items[position] = item;
  plan->n++;
}

void tier_plan_remove(TierPlan *plan, int position) {
  plan->n--;
  memmove(plan->items + position, plan->items + position + 1, (size_t)(plan->n - position) * sizeof(int));
}

TierPlan tier_plan_create(const TierSearch *search, const int *items, int n) {
  TierPlan plan = {.capacity = n + 64,
                   .items = allocate_array((size_t)n + 64, sizeof(int)),
                   .far_home = allocate_array((size_t)search->n, sizeof(bool))};
  for (int p = 0; p < n; p++) {
    int v = remat_item_node(search->problem, items[p]);
    RematItemKind kind = remat_item_kind(search->problem, items[p]);
    if (kind == REMAT_FAR_HOME) plan.far_home[v] = true;
    else if (kind != REMAT_EXECUTE || !search->problem->nodes[v].home) plan.items[plan.n++] = items[p];
  }
  return plan;
}

void tier_plan_copy(const TierSearch *search, TierPlan *to, const TierPlan *from) {
  if (to->capacity < from->n) {
    to->capacity = from->n + 64;
    to->items = reallocate_array(to->items, (size_t)to->capacity, sizeof(int));
  }
  if (!to->far_home) to->far_home = allocate_array((size_t)search->n, sizeof(bool));
  to->n = from->n;
  if (from->n) memcpy(to->items, from->items, (size_t)from->n * sizeof(int));
  if (search->n) memcpy(to->far_home, from->far_home, (size_t)search->n * sizeof(bool));
}

void tier_plan_free(TierPlan *plan) {
  free(plan->items);
  free(plan->far_home);
  *plan = (TierPlan){0};
}

static void reserve(TierSearch *search, int n) {
  if (n < search->capacity) return;
  search->capacity = 2 * n + 64;
  search->at = reallocate_array(search->at, (size_t)search->capacity, sizeof *search->at);
  search->stores = reallocate_array(search->stores, (size_t)search->capacity, sizeof(int));
}

// ---- legality, and who is live from where to where ----

static bool is_unread_fetch(const TierSearch *search, const TierPlan *plan, int made) {
  return made >= 0 && search->at[made].last_use == made && plan->items[made] >= REMAT_FETCH * search->n;
}

static bool trace_execution(TierSearch *search, const TierPlan *plan, int p, int v) {
  const RematNode *node = &search->problem->nodes[v];
  TierNode *now = &search->nodes[v];
  if (now->executed >= 0 && !node->recomputable) return false;
  for (int i = 0; i < node->n_inputs; i++) {
    int u = node->inputs[i];
    const RematNode *input = &search->problem->nodes[u];
    if (input->home && !plan->far_home[u]) continue;
    if (search->nodes[u].made < 0) return false;
    search->at[search->nodes[u].made].last_use = p;
    if (input->home && input->updated_by == v) search->nodes[u].is_dirty = true;
  }
  for (int i = search->after_start[v]; i < search->after_start[v + 1]; i++)
    if (search->nodes[search->afters[i]].executed >= 0) return false;
  for (int i = search->before_start[v]; i < search->before_start[v + 1]; i++)
    if (search->nodes[search->befores[i]].executed < 0) return false;
  now->executed = now->made = p;
  return true;
}

static bool trace_store(TierSearch *search, const TierPlan *plan, int p, int v) {
  TierNode *now = &search->nodes[v];
  const RematNode *node = &search->problem->nodes[v];
  if (node->home ? !now->is_dirty || !plan->far_home[v] : !node->movable || now->stored >= 0 || now->made < 0)
    return false;
  now->is_dirty = false;
  now->stored = p;
  search->at[p].copy = now->made;
  search->at[now->made].last_use = p;
  return true;
}

static bool trace_fetch(TierSearch *search, const TierPlan *plan, int p, int v) {
  TierNode *now = &search->nodes[v];
  bool is_home = search->problem->nodes[v].home;
  if (now->is_dirty || (is_home ? !plan->far_home[v] : now->stored < 0)) return false;
  if (is_unread_fetch(search, plan, now->made)) return false;
  if (!is_home) search->at[now->stored].far_last = p;
  now->made = p;
  return true;
}

static bool trace(TierSearch *search, const TierPlan *plan) {
  int executed = 0;
  for (int v = 0; v < search->n; v++) search->nodes[v] = (TierNode){-1, -1, -1, -1, false, 0};
  for (int p = 0; p < plan->n; p++) {
    int kind = remat_item_kind(search->problem, plan->items[p]), v = plan->items[p] - kind * search->n;
    search->at[p] = (TierPosition){.last_use = p, .waiter = -1, .dead = -1, .next = -1, .far_last = p};
    if (kind == REMAT_EXECUTE) {
      executed += search->nodes[v].executed < 0;
      if (!trace_execution(search, plan, p, v)) return false;
    } else if (kind == REMAT_STORE ? !trace_store(search, plan, p, v) : !trace_fetch(search, plan, p, v)) {
      return false;
    }
  }
  if (executed != search->n_executed) return false;
  search->at[plan->n] = (TierPosition){.dead = -1};
  for (int i = 0; i < search->problem->n_outputs; i++)
    search->at[search->nodes[search->problem->outputs[i]].made].last_use = plan->n;
  for (int v = 0; v < search->n; v++)
    if (search->nodes[v].is_dirty || is_unread_fetch(search, plan, search->nodes[v].made)) return false;
  return true;
}

// ---- time ----

typedef struct Timeline {
  TierSearch *search;
  const TierPlan *plan;
  double compute, out, in;
  int64_t values;    // near, by order
  int64_t pending;   // near bytes of dead copies of stores that nobody has waited for
  int n_stores, waited;
  double barrier;   // end of the stores that have been waited for, by whatever item: all behind it wait, too
  int64_t far, far_peak, unsure;
  int far_waited;
  TierCost cost;
} Timeline;

static void wait_for_next_store(Timeline *line, int p) {
  const TierSearch *search = line->search;
  TierPosition *store = &line->search->at[search->stores[line->waited++]];
  store->waiter = p;
  line->barrier = tier_later(line->barrier, store->end);
  if (!store->is_pending) return;
  store->is_pending = false;
  line->pending -=
      search->problem->nodes[remat_item_node(search->problem, line->plan->items[store - search->at])].bytes;
}

// Near bytes behind position `p` that stores hold whose copies die there, as long as nobody waits for them.
static int64_t dying_bytes(const Timeline *line, int p) {
  const TierSearch *search = line->search;
  int64_t bytes = 0;
  for (int s = search->at[p].dead; s >= 0; s = search->at[s].next)
    if (line->waited < line->n_stores && s >= search->stores[line->waited])
      bytes += search->problem->nodes[remat_item_node(search->problem, line->plan->items[s])].bytes;
  return bytes;
}

// When the item at `p`, about `v`, may begin, as far as stores are concerned: the last one of v is over, and so many
// that its bytes fit, with `bytes` live by order, and that behind it there is room for the place of one more. What is
// above the budget by order waits for none of these.
static double wait_for_stores(Timeline *line, int p, int v, int64_t bytes) {
  TierSearch *search = line->search;
  int64_t behind = line->values - search->at[p].freed + search->problem->far->workspace, budget = search->budget;
  bool fits = bytes <= budget, fits_behind = behind <= budget;
  while (line->waited < line->n_stores &&
         (search->stores[line->waited] <= search->nodes[v].last_store || (fits && bytes + line->pending > budget) ||
          (fits_behind && behind + line->pending + dying_bytes(line, p) > budget)))
    wait_for_next_store(line, p);
  if (!fits) line->cost.overflow += (double)(bytes - budget);
  return line->barrier;
}

static void time_execution(Timeline *line, int p, int v) {
  TierSearch *search = line->search;
  const RematNode *node = &search->problem->nodes[v];
  double start = line->compute;
  for (int i = 0; i < node->n_inputs; i++) start = tier_later(start, search->nodes[node->inputs[i]].ready);
  line->values += node->bytes;
  search->at[p].live = line->values + node->workspace;
  start = tier_later(start, wait_for_stores(line, p, v, search->at[p].live));
  search->at[p].start = start;
  search->at[p].end = line->compute = search->nodes[v].ready = start + node->cost;
  if (node->role != REMAT_UPDATE) return;
  for (int i = 0; i < node->n_inputs; i++) {
    const RematNode *input = &search->problem->nodes[node->inputs[i]];
    if (input->home && input->updated_by == v) search->nodes[node->inputs[i]].ready = line->compute;
  }
}

static bool frees_far(const TierSearch *search, const TierPlan *plan, int p) {
  int item = plan->items[p], v = remat_item_node(search->problem, item);
  return remat_item_kind(search->problem, item) == REMAT_FETCH && !search->problem->nodes[v].home &&
         search->at[search->nodes[v].stored].far_last == p;
}

static void time_store(Timeline *line, int p, int v) {
  TierSearch *search = line->search;
  const RematNode *node = &search->problem->nodes[v];
  const RematTier *far = search->problem->far;
  double start = tier_later(line->out, search->nodes[v].ready);
  if (!node->home) {
    line->far += node->bytes;
    if (line->far > line->far_peak) line->far_peak = line->far;
    for (; line->unsure > 0 && line->far + line->unsure > far->budget && line->far_waited < p; line->far_waited++) {
      if (!frees_far(search, line->plan, line->far_waited)) continue;
      line->unsure -=
          search->problem->nodes[remat_item_node(search->problem, line->plan->items[line->far_waited])].bytes;
      start = tier_later(start, search->at[line->far_waited].end);
    }
    if (search->at[p].far_last == p) line->far -= node->bytes;
  }
  double length = far->latency + (double)node->bytes / far->out_rate;
  search->at[p].live = line->values + far->workspace;
  if (search->at[p].live > search->budget) line->cost.overflow += (double)(search->at[p].live - search->budget);
  search->at[p].start = start;
  search->at[p].end = line->out = start + length;
  line->cost.copies += length;
  line->compute += far->drag * (double)node->bytes;
  search->stores[line->n_stores++] = p;
  search->nodes[v].last_store = p;
  TierPosition *dead = &search->at[search->at[search->at[p].copy].last_use];
  search->at[p].next = dead->dead;
  dead->dead = p;
}

static void time_fetch(Timeline *line, int p, int v) {
  TierSearch *search = line->search;
  const RematNode *node = &search->problem->nodes[v];
  const RematTier *far = search->problem->far;
  double start = tier_later(line->in, line->compute);
  double length = far->latency + (double)node->bytes / far->in_rate;
  line->values += node->bytes;
  search->at[p].live = line->values + far->workspace;
  start = tier_later(start, wait_for_stores(line, p, v, search->at[p].live));
  search->at[p].start = start;
  search->at[p].end = line->in = search->nodes[v].ready = start + length;
  line->cost.copies += length;
  line->compute += far->drag * (double)node->bytes;
  if (!frees_far(search, line->plan, p)) return;
  line->far -= node->bytes;
  line->unsure += node->bytes;
}

// Behind position `p`: frees what is dead, noting what stores still read.
static void free_dead(Timeline *line, int p) {
  TierSearch *search = line->search;
  line->values -= search->at[p].freed;
  for (int s = search->at[p].dead; s >= 0; s = search->at[s].next) {
    if (line->waited > 0 && search->stores[line->waited - 1] >= s) continue;
    search->at[s].is_pending = true;
    line->pending += search->problem->nodes[remat_item_node(search->problem, line->plan->items[s])].bytes;
  }
}

TierCost tier_evaluate(TierSearch *search, const TierPlan *plan) {
  const RematProblem *problem = search->problem;
  enum { STEPS = 25 };
  search->work += plan->n + 8;
  watch_count(problem, STEPS * (plan->n + INT64_C(8)));
  reserve(search, plan->n);
  if (!trace(search, plan)) return (TierCost){.legal = false, .makespan = INFINITY, .overflow = INFINITY};
  Timeline line = {.search = search, .plan = plan, .values = problem->fixed_bytes + search->homes, .cost.legal = true};
  for (int v = 0; v < search->n; v++)
    if (plan->far_home[v]) line.values -= problem->nodes[v].bytes, line.far += problem->nodes[v].bytes;
  line.far_peak = line.far;
  if (line.values > search->budget) line.cost.overflow += (double)(line.values - search->budget);
  for (int p = 0; p < plan->n; p++)
    if (plan->items[p] < search->n || plan->items[p] >= REMAT_FETCH * search->n)
      search->at[search->at[p].last_use].freed += problem->nodes[remat_item_node(problem, plan->items[p])].bytes;
  for (int p = 0; p < plan->n; p++) {
    int kind = remat_item_kind(search->problem, plan->items[p]), v = plan->items[p] - kind * search->n;
    if (kind == REMAT_EXECUTE) time_execution(&line, p, v);
    else if (kind == REMAT_STORE) time_store(&line, p, v);
    else time_fetch(&line, p, v);
    free_dead(&line, p);
  }
  line.cost.makespan = tier_later(line.compute, tier_later(line.out, line.in));
  if (line.far_peak > problem->far->budget) line.cost.overflow += (double)(line.far_peak - problem->far->budget);
  return line.cost;
}

// ---- as a schedule ----

// Stores where they are, or, when `late`, as late as nobody waits for them longer.
static RematSchedule write_schedule(TierSearch *search, const TierPlan *plan, bool late) {
  const RematProblem *problem = search->problem;
  tier_evaluate(search, plan);
  int *items = allocate_array((size_t)(plan->n + search->n), sizeof *items), n = 0;
  int *due = allocate_array((size_t)plan->n, sizeof *due);                    // stores not yet written, oldest first
  double *earliest = allocate_array((size_t)plan->n + 1, sizeof *earliest);   // begin of what is not stored from here
                                                                              // on
  int first = 0, last = 0;
  earliest[plan->n] = INFINITY;
  for (int p = plan->n - 1; p >= 0; p--) {
    bool is_store = remat_item_kind(problem, plan->items[p]) == REMAT_STORE;
    earliest[p] = is_store ? earliest[p + 1] : fmin(earliest[p + 1], search->at[p].start);
  }
  for (int v = 0; v < search->n; v++)
    if (plan->far_home[v]) items[n++] = remat_item(problem, REMAT_FAR_HOME, v);
  for (int p = 0; p < plan->n; p++) {
    if (late && remat_item_kind(problem, plan->items[p]) == REMAT_STORE) {
      due[last++] = p;
      continue;
    }
    // What begins behind a store's end, from here on, may as well wait for it.
    while (first < last && search->at[due[first]].end <= earliest[p]) items[n++] = plan->items[due[first++]];
    items[n++] = plan->items[p];
  }
  while (first < last) items[n++] = plan->items[due[first++]];
  RematSchedule schedule = remat_schedule_measure(problem, items, n);
  free(items);
  free(due);
  free(earliest);
  return schedule;
}

RematSchedule tier_schedule(TierSearch *search, const TierPlan *plan) {
  RematSchedule late = write_schedule(search, plan, true);
  if (late.peak <= search->budget) return late;
  // Workspaces of copies may be in the way.
  RematSchedule early = write_schedule(search, plan, false);
  bool is_lower = early.peak < late.peak;
  remat_schedule_free(is_lower ? &late : &early);
  return is_lower ? early : late;
}
