// tiers_greedy.c: brings a plan within its budget by moving values, and says when each is fetched.
#include "support/alloc.h"
#include "tiers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search.h"

enum { NONE = -1, NOT_ABSENT = -2, AT_END = -3 };

// A value that could be away at the peak: its touches around the peak and, of a home, the first and last of all.
typedef struct Absence {
  int made;             // position of what made the copy that is live at the peak; NONE for a near home
  int previous, next;   // touches around the peak; NONE: there is none; NOT_ABSENT: it is touched at the peak
  int first, last;
  int stored, updated;   // positions, NONE
} Absence;

typedef struct Insertion {
  int position, item;
} Insertion;

typedef struct Descent {
  TierSearch *search;
  TierPlan *plan;
  int peak;                // position that is looked at: the highest or, where lanes are looked at, the first too high
  int64_t excess;          // bytes above the budget at the highest
  Absence *values;         // Owned; per node
  int *over;               // Owned; number of positions before this one that exceed the budget
  int64_t *far;            // Owned; far bytes by position
  double *time;            // Owned; when the lane that computes is at the position
  double *idle[2];         // Owned; for how long the lanes out and in have been idle until then
  double *delay;           // Owned; for how long a store there may delay those behind it, so that nobody waits longer
  bool fills;              // only values, and only what nobody waits for
  bool in_time;            // the lanes can carry about what is too much at the peak: chosen by what is waited for
  Insertion *insertions;   // Owned
  int n_insertions;
  double noise;
} Descent;

static void touch(Descent *descent, int v, int p, bool is_making) {
  Absence *value = &descent->values[v];
  if (value->first == NONE) value->first = p;
  value->last = p;
  if (p < descent->peak) {
    value->previous = p;
    if (is_making) value->made = p;
  } else if (p == descent->peak) {
    value->next = NOT_ABSENT;
  } else if (value->next == NONE) {
    value->next = is_making ? NOT_ABSENT : p;
  }
}

static void list_touches(Descent *descent) {
  const RematProblem *problem = descent->search->problem;
  const TierPlan *plan = descent->plan;
  for (int v = 0; v < problem->n_nodes; v++) descent->values[v] = (Absence){NONE, NONE, NONE, NONE, NONE, NONE, NONE};
  for (int p = 0; p < plan->n; p++) {
    int v = remat_item_node(problem, plan->items[p]);
    RematItemKind kind = remat_item_kind(problem, plan->items[p]);
    if (kind == REMAT_EXECUTE)
      for (int i = 0; i < problem->nodes[v].n_inputs; i++) {
        int u = problem->nodes[v].inputs[i];
        touch(descent, u, p, false);
        if (problem->nodes[u].home && problem->nodes[u].updated_by == v) descent->values[u].updated = p;
      }
    if (kind == REMAT_STORE) descent->values[v].stored = p;
    touch(descent, v, p, kind != REMAT_STORE);
  }
}

static double copy_time(const RematTier *far, double rate, int64_t bytes) {
  return far->latency + (double)bytes / rate;
}

// Positions above the budget in [from, to).
static int count_over(const Descent *descent, int from, int to) {
  return from < to ? descent->over[to] - descent->over[from] : 0;
}

enum { OUT, IN };

static const double UNSEEN = 0.02;   // share of a copy that nobody waits for: it is in the way of others

// What a copy of a lane takes when it has to be made between two positions: what it adds to the makespan, and a little
// in any case, more where there is little time for it.
static double lane_time(const Descent *descent, int lane, int from, int to, double length) {
  static const double SCARCE = 0.25;   // of the idle time of the lane
  if (!descent->in_time) return UNSEEN * length;
  double idle = fmax(0, descent->idle[lane][to] - descent->idle[lane][from]);
  if (lane == OUT) idle = fmin(idle, descent->delay[from]);
  double scarce = fmax(SCARCE * descent->idle[lane][descent->plan->n], 1e-9 * length);
  if (descent->fills && length > idle) return INFINITY;
  return fmax(0, length - idle) + UNSEEN * length * (1 + scarce / (idle + 0.1 * scarce));
}

// The first position behind the peak where so many bytes have room once the peak is within the budget.
static int first_room(const Descent *descent, int to, int64_t bytes) {
  const TierPosition *at = descent->search->at;
  int64_t most = at[descent->peak].live - bytes;
  int p = descent->peak;
  while (descent->in_time && p < to && at[p].live > most) p++;
  return p;
}

// Time that the absence takes: mostly what it adds to the makespan, as the lanes are now, a little for each copy.
static double absence_time(const Descent *descent, int v) {
  const RematNode *node = &descent->search->problem->nodes[v];
  const RematTier *far = descent->search->problem->far;
  const Absence *value = &descent->values[v];
  double out = copy_time(far, far->out_rate, node->bytes), in = copy_time(far, far->in_rate, node->bytes);
  double time = 0;
  int n = descent->plan->n, peak = descent->peak;
  if (node->home && !descent->plan->far_home[v]) {
    bool is_between = value->previous != NONE && value->next != NONE;
    if (value->first == NONE) return UNSEEN * in;
    time += lane_time(descent, IN, is_between || value->first < peak ? 0 : peak, value->first, in);
    if (is_between) time += lane_time(descent, IN, peak, value->next, in);
    if (value->updated != NONE) time += lane_time(descent, OUT, value->updated, n, out);
    return time;
  }
  time += lane_time(descent, IN, first_room(descent, value->next, node->bytes), value->next, in);
  if (!node->home && value->stored == NONE) time += lane_time(descent, OUT, value->made, peak, out);
  return time;
}

// Bytes over the budget that the absence saves, over all positions, per time that it takes; 0 when it cannot be.
static double score_absence(const Descent *descent, int v) {
  const RematNode *node = &descent->search->problem->nodes[v];
  const Absence *value = &descent->values[v];
  bool is_near_home = node->home && !descent->plan->far_home[v];
  int n = descent->plan->n, saved = 0;
  if (node->bytes == 0 || value->next == NOT_ABSENT) return 0;
  if (is_near_home && descent->fills) return 0;
  if (is_near_home) {
    if (value->first == NONE) saved = descent->over[n];   // nobody reads it
    else saved = count_over(descent, 0, value->first) + count_over(descent, value->last + 1, n);
    if (value->previous != NONE && value->next != NONE) saved += count_over(descent, value->previous + 1, value->next);
  } else {
    if ((!node->home && !node->movable) || value->made == NONE || value->next < 0) return 0;
    if (remat_item_kind(descent->search->problem, descent->plan->items[value->next]) != REMAT_EXECUTE) return 0;
    if (value->stored > descent->peak) return 0;
    if (node->home && value->updated > descent->peak && value->updated < value->next) return 0;
    saved = count_over(descent, value->previous + 1, value->next);
  }
  double bytes = (double)(node->bytes < descent->excess ? node->bytes : descent->excess);
  double random = descent->noise > 0 ? exp(descent->noise * (2 * remat_random_unit(&descent->search->random) - 1)) : 1;
  return bytes * saved * random / (absence_time(descent, v) + 1e-30);
}

static void insert(Descent *descent, int position, RematItemKind kind, int v) {
  Insertion insertion = {position, remat_item(descent->search->problem, kind, v)};
  *ARRAY_ADD(descent->insertions, descent->n_insertions) = insertion;
}

static bool far_has_room(Descent *descent, int from, int to, int64_t bytes) {
  for (int p = from; p <= to && p < descent->plan->n; p++)
    if (descent->far[p] + bytes > descent->search->problem->far->budget) return false;
  for (int p = from; p <= to && p < descent->plan->n; p++) descent->far[p] += bytes;
  return true;
}

// False when the far tier has no room.
static bool make_absent(Descent *descent, int v) {
  const RematNode *node = &descent->search->problem->nodes[v];
  Absence *value = &descent->values[v];
  if (node->home && !descent->plan->far_home[v]) {
    if (!far_has_room(descent, 0, descent->plan->n, node->bytes)) return false;
    descent->plan->far_home[v] = true;
    if (value->first != NONE) insert(descent, value->first, REMAT_FETCH, v);
    if (value->previous != NONE && value->next >= 0) insert(descent, value->next, REMAT_FETCH, v);
    if (value->updated != NONE) insert(descent, value->updated + 1, REMAT_STORE, v);
    return true;
  }
  int from = value->stored != NONE ? descent->search->at[value->stored].far_last + 1 : value->made;
  if (!node->home && !far_has_room(descent, from, value->next, node->bytes)) return false;
  if (!node->home && value->stored == NONE) insert(descent, value->made + 1, REMAT_STORE, v);
  insert(descent, value->next, REMAT_FETCH, v);
  return true;
}

static int compare_insertions(const void *left, const void *right) {
  const Insertion *a = left, *b = right;
  if (a->position != b->position) return a->position - b->position;
  return a->item - b->item;
}

// All insertions in one pass.
static void apply_insertions(Descent *descent) {
  if (descent->n_insertions == 0) return;
  TierPlan *plan = descent->plan;
  int n = plan->n + descent->n_insertions, next = descent->n_insertions - 1;
  qsort(descent->insertions, (size_t)descent->n_insertions, sizeof(Insertion), compare_insertions);
  if (plan->capacity < n) {
    plan->capacity = 2 * n;
    plan->items = reallocate_array(plan->items, (size_t)plan->capacity, sizeof(int));
  }
  for (int from = plan->n, to = n - 1; next >= 0; to--) {
    if (descent->insertions[next].position >= from) plan->items[to] = descent->insertions[next--].item;
    else plan->items[to] = plan->items[--from];
  }
  plan->n = n;
  descent->n_insertions = 0;
}

// When each position is reached, and for how long the lanes of copies have been idle then.
static void measure_lanes(Descent *descent) {
  TierSearch *search = descent->search;
  const TierPlan *plan = descent->plan;
  const RematProblem *problem = search->problem;
  size_t n = (size_t)plan->n + 1;
  descent->time = reallocate_array(descent->time, n, sizeof(double));
  for (int lane = OUT; lane <= IN; lane++)
    descent->idle[lane] = reallocate_array(descent->idle[lane], n, sizeof(double));
  double now = 0, end = 0;
  for (int p = 0; p < plan->n; p++) {
    bool computes = remat_item_kind(problem, plan->items[p]) == REMAT_EXECUTE;
    descent->time[p] = now = computes ? fmax(now, search->at[p].start) : now;
    if (computes) now = search->at[p].end;
    end = fmax(end, search->at[p].end);
  }
  descent->time[plan->n] = fmax(now, end);
  for (int lane = OUT; lane <= IN; lane++) {
    RematItemKind kind = lane == OUT ? REMAT_STORE : REMAT_FETCH;
    double busy = 0;   // by copies that are over
    for (int p = 0, q = 0; p <= plan->n; p++) {
      double under_way = 0;
      for (; q < plan->n; q++) {
        if (remat_item_kind(problem, plan->items[q]) != kind) continue;
        under_way = fmax(0, descent->time[p] - search->at[q].start);
        if (search->at[q].end > descent->time[p]) break;
        busy += search->at[q].end - search->at[q].start;
        under_way = 0;
      }
      descent->idle[lane][p] = descent->time[p] - busy - (q < plan->n ? under_way : 0);
    }
  }
}

static void measure_delays(Descent *descent, double makespan) {
  TierSearch *search = descent->search;
  const TierPlan *plan = descent->plan;
  descent->delay = reallocate_array(descent->delay, (size_t)plan->n + 1, sizeof(double));
  const double *idle = descent->idle[OUT];
  double most = INFINITY;   // of the next store, which is at `next`
  int next = plan->n;
  for (int p = plan->n; p >= 0; p--) {
    descent->delay[p] = most + idle[next] - idle[p];
    if (p == 0 || remat_item_kind(search->problem, plan->items[p - 1]) != REMAT_STORE) continue;
    const TierPosition *store = &search->at[p - 1];
    double due = store->waiter >= 0 ? search->at[store->waiter].start : makespan;
    most = fmin(due - store->end, descent->delay[p]);
    next = p - 1;
  }
}

static void measure(Descent *descent) {
  TierSearch *search = descent->search;
  const TierPlan *plan = descent->plan;
  const RematProblem *problem = search->problem;
  size_t n = (size_t)plan->n + 1;
  descent->over = reallocate_array(descent->over, n, sizeof(int));
  descent->far = reallocate_array(descent->far, n + 1, sizeof(int64_t));
  memset(descent->far, 0, (n + 1) * sizeof(int64_t));
  descent->over[0] = 0;
  for (int v = 0; v < search->n; v++)
    if (plan->far_home[v]) descent->far[0] += problem->nodes[v].bytes;
  int64_t most = search->budget;
  for (int p = 0; p < plan->n; p++) {
    int v = remat_item_node(problem, plan->items[p]);
    if (remat_item_kind(problem, plan->items[p]) == REMAT_STORE && !problem->nodes[v].home) {
      descent->far[p] += problem->nodes[v].bytes;
      descent->far[search->at[p].far_last + 1] -= problem->nodes[v].bytes;
    }
    int64_t live = search->at[p].live;
    descent->over[p + 1] = descent->over[p] + (live > search->budget);
    if (live > most) most = live, descent->peak = p;
  }
  for (int p = 1; p < plan->n; p++) descent->far[p] += descent->far[p - 1];
  measure_lanes(descent);
  measure_delays(descent, descent->time[plan->n]);
}

// A copy takes the first idle time of its lane behind its position, or the last before it.
static void take_idle(Descent *descent, int lane, int position, double length) {
  double *idle = descent->idle[lane];
  int n = descent->plan->n;
  if (lane == OUT) {
    double begin = idle[position];
    for (int p = position; p <= n; p++) idle[p] = fmax(begin, idle[p] - length);
  } else {
    double end = idle[position] - length;
    for (int p = 0; p < position; p++) idle[p] = fmin(idle[p], end);
    for (int p = position; p <= n; p++) idle[p] -= length;
  }
}

// What the copies of an absence leave of the lanes to what is chosen next; of a home, where it becomes far.
static void take_time(Descent *descent, int v, bool becomes_far) {
  const RematNode *node = &descent->search->problem->nodes[v];
  const RematTier *far = descent->search->problem->far;
  const Absence *value = &descent->values[v];
  double out = copy_time(far, far->out_rate, node->bytes), in = copy_time(far, far->in_rate, node->bytes);
  if (becomes_far) {
    if (value->updated != NONE) take_idle(descent, OUT, value->updated, out);
    if (value->first != NONE && value->first < descent->peak) take_idle(descent, IN, value->first, in);
  } else if (!node->home && value->stored == NONE) {
    take_idle(descent, OUT, value->made, out);
  }
  if (value->next >= 0) take_idle(descent, IN, value->next, in);
}

// Where the lanes are far from carrying so many bytes, whatever is chosen is waited for: least copies are best.
static bool can_carry(const Descent *descent) {
  const RematTier *far = descent->search->problem->far;
  double out = descent->idle[OUT][descent->peak] * far->out_rate,
         in = (descent->idle[IN][descent->plan->n] - descent->idle[IN][descent->peak]) * far->in_rate;
  return (double)descent->excess < 2 * fmin(out, in);
}

// Makes values absent at the peak until it is within the budget, best score first. False when that cannot be.
static bool lower_peak(Descent *descent) {
  enum { AT_ONCE = 16 };   // then the lanes are looked at again; in middling problems after each
  TierSearch *search = descent->search;
  int64_t excess = search->at[descent->peak].live - search->budget;
  double *score = allocate_array((size_t)search->n, sizeof *score);
  int chosen = 0, at_once = tier_is_middling(search) ? 1 : AT_ONCE;
  for (int v = 0; v < search->n; v++) score[v] = score_absence(descent, v);
  while (excess > 0 && (!descent->in_time || chosen < at_once)) {
    int best = NONE;
    for (int v = 0; v < search->n; v++)
      if (score[v] > 0 && (best < 0 || score[v] > score[best])) best = v;
    if (best < 0) break;
    score[best] = 0;
    bool becomes_far = search->problem->nodes[best].home && !descent->plan->far_home[best];
    if (!make_absent(descent, best)) continue;
    excess -= search->problem->nodes[best].bytes;
    descent->excess -= search->problem->nodes[best].bytes;
    chosen++;
    if (!descent->in_time || excess <= 0) continue;
    take_time(descent, best, becomes_far);
    for (int v = 0; v < search->n; v++)
      if (score[v] > 0) score[v] = score_absence(descent, v);
  }
  free(score);
  apply_insertions(descent);
  return chosen > 0;
}

static void free_descent(Descent *descent) {
  free(descent->values);
  free(descent->over);
  free(descent->far);
  free(descent->time);
  free(descent->delay);
  free(descent->idle[OUT]);
  free(descent->idle[IN]);
  free(descent->insertions);
}

// The highest peak above the budget, and by how much; false where there is none or the plan is not legal.
static bool find_peak(Descent *descent, TierCost *cost) {
  *cost = tier_evaluate(descent->search, descent->plan);
  if (!cost->legal || cost->overflow <= 0) return false;
  descent->peak = -1;
  measure(descent);
  if (descent->peak < 0) return false;
  descent->excess = descent->search->at[descent->peak].live - descent->search->budget;
  return true;
}

void tier_descend(TierSearch *search, TierPlan *plan, double noise) {
  Descent descent = {.search = search, .plan = plan, .noise = noise};
  descent.values = allocate_array((size_t)search->n, sizeof *descent.values);
  bool in_order = tier_is_middling(search) && (noise == 0 || remat_random_below(&search->random, 2) == 0);
  TierCost cost;
  while (!tier_is_over(search) && find_peak(&descent, &cost)) {
    descent.in_time = !search->is_quick && can_carry(&descent);
    // In the order in which bytes are short, so that each copy is over when its bytes are needed.
    if (descent.in_time && in_order)
      for (descent.peak = 0; search->at[descent.peak].live <= search->budget;) descent.peak++;
    list_touches(&descent);
    if (!lower_peak(&descent)) break;
    // Where they are not in the way of what is chosen next.
    if (descent.in_time && tier_is_middling(search)) tier_place_fetches(search, plan);
  }
  free_descent(&descent);
  tier_place_fetches(search, plan);
}

// The first position from `time` on that is above the budget, -1.
static int find_over(const Descent *descent, double time) {
  for (int p = 0; p < descent->plan->n; p++)
    if (descent->time[p] >= time && descent->search->at[p].live > descent->search->budget) return p;
  return -1;
}

void tier_fill(TierSearch *search, TierPlan *plan, double noise) {
  static const double STEP = 1.0 / 64;   // of the makespan: where nothing is left to move, look again so much later
  Descent descent = {.search = search, .plan = plan, .noise = noise, .fills = true, .in_time = true};
  descent.values = allocate_array((size_t)search->n, sizeof *descent.values);
  double from = 0, to = -1;
  TierCost cost;
  while (!tier_is_over(search) && find_peak(&descent, &cost)) {
    if (to < 0) to = descent.time[descent.peak];
    if ((descent.peak = find_over(&descent, from)) < 0 || descent.time[descent.peak] > to) break;
    list_touches(&descent);
    if (lower_peak(&descent)) tier_place_fetches(search, plan);
    else from = descent.time[descent.peak] + STEP * cost.makespan;
  }
  free_descent(&descent);
  tier_place_fetches(search, plan);
}

// ---- when to fetch ----

typedef struct Fetch {
  int node;
  int use;        // first item, fetches aside, that reads it
  int earliest;   // behind what touched the value before
  int at;         // where it is placed: before this item
} Fetch;

typedef struct Placing {
  int *items, *touched;   // Owned; items but fetches; per node: behind its last touch so far
  double *time;           // Owned; that computing takes before the item
  int64_t *live;          // Owned; when fetches are as late as can be
  Fetch *fetches;         // Owned; by use
  int *waiting;           // Owned; per node, number of the fetch that has not been read yet, -1
  int n, n_fetches;
} Placing;

static void read_value(Placing *placing, int v, int p) {
  int number = placing->waiting[v];
  if (number >= 0) placing->fetches[number].use = p;
  placing->waiting[v] = -1;
  placing->touched[v] = p + 1;
}

static void take_apart(TierSearch *search, const TierPlan *plan, Placing *placing) {
  const RematProblem *problem = search->problem;
  double time = 0;
  for (int v = 0; v < search->n; v++) placing->waiting[v] = -1;
  for (int p = 0; p < plan->n; p++) {
    int v = remat_item_node(problem, plan->items[p]);
    RematItemKind kind = remat_item_kind(problem, plan->items[p]);
    if (kind == REMAT_FETCH) {
      placing->waiting[v] = placing->n_fetches;
      placing->fetches[placing->n_fetches++] = (Fetch){v, 0, placing->touched[v], 0};
      continue;
    }
    int q = placing->n++;
    placing->items[q] = plan->items[p];
    placing->time[q] = time;
    if (kind == REMAT_EXECUTE) {
      time += problem->nodes[v].cost;
      for (int i = 0; i < problem->nodes[v].n_inputs; i++) read_value(placing, problem->nodes[v].inputs[i], q);
    } else {
      time += problem->far->drag * (double)problem->nodes[v].bytes;
    }
    placing->touched[v] = q + 1;
  }
}

static int compare_uses(const void *left, const void *right) {
  const Fetch *a = left, *b = right;
  if (a->use != b->use) return a->use - b->use;
  return a->node - b->node;
}

// The plan with each fetch before the item that it is at.
static void put_together(TierSearch *search, TierPlan *plan, const Placing *placing) {
  // Counting sort by place, stable, so that what is read first is fetched first.
  int *count = allocate_array((size_t)placing->n + 1, sizeof *count);
  int *order = allocate_array((size_t)placing->n_fetches, sizeof *order);
  for (int i = 0; i < placing->n_fetches; i++) count[placing->fetches[i].at]++;
  for (int q = 0, sum = 0; q <= placing->n; q++) {
    int here = count[q];
    count[q] = sum;
    sum += here;
  }
  for (int i = 0; i < placing->n_fetches; i++) order[count[placing->fetches[i].at]++] = i;
  plan->n = 0;
  for (int q = 0, next = 0; q < placing->n; q++) {
    for (; next < placing->n_fetches && placing->fetches[order[next]].at == q; next++)
      plan->items[plan->n++] = remat_item(search->problem, REMAT_FETCH, placing->fetches[order[next]].node);
    plan->items[plan->n++] = placing->items[q];
  }
  free(count);
  free(order);
}

// From the last to the first: each begins so that it ends when its value is read or when the next fetch begins.
static void place_backwards(TierSearch *search, Placing *placing) {
  const RematTier *far = search->problem->far;
  double latest = INFINITY;
  for (int i = placing->n_fetches - 1; i >= 0; i--) {
    Fetch *fetch = &placing->fetches[i];
    int64_t bytes = search->problem->nodes[fetch->node].bytes;
    double begin = fmin(placing->time[fetch->use], latest) - copy_time(far, far->in_rate, bytes);
    int q = fetch->use;
    for (; q > fetch->earliest && placing->time[q] > begin && placing->live[q - 1] + bytes <= search->budget; q--)
      placing->live[q - 1] += bytes;
    fetch->at = q;
    latest = fmax(begin, placing->time[q]);
  }
}

void tier_place_fetches(TierSearch *search, TierPlan *plan) {
  size_t n = (size_t)plan->n + 1, nodes = (size_t)search->n;
  Placing placing = {.items = allocate_array(n, sizeof(int)),
                     .time = allocate_array(n, sizeof(double)),
                     .live = allocate_array(n, sizeof(int64_t)),
                     .fetches = allocate_array(n, sizeof(Fetch)),
                     .waiting = allocate_array(nodes, sizeof(int)),
                     .touched = allocate_array(nodes, sizeof(int))};
  take_apart(search, plan, &placing);
  qsort(placing.fetches, (size_t)placing.n_fetches, sizeof(Fetch), compare_uses);
  for (int i = 0; i < placing.n_fetches; i++) placing.fetches[i].at = placing.fetches[i].use;
  put_together(search, plan, &placing);
  TierCost cost = tier_evaluate(search, plan);
  if (cost.legal && placing.n_fetches > 0) {
    for (int p = 0, q = 0; p < plan->n; p++)
      if (remat_item_kind(search->problem, plan->items[p]) != REMAT_FETCH) placing.live[q++] = search->at[p].live;
    place_backwards(search, &placing);
    put_together(search, plan, &placing);
  }
  free(placing.items);
  free(placing.time);
  free(placing.live);
  free(placing.fetches);
  free(placing.waiting);
  free(placing.touched);
}
