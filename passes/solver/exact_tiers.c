// exact_tiers.c: the shortest schedule of a small problem with a far tier, over all orders, recomputations and moves:
// A* over labels (what has executed, is near, is far; when each lane is done and each near copy ready). Of labels with
// the same sets one that is nowhere later than another makes that one useless (Pareto dominance). Near copies stay
// until room is needed; then every smallest set of evictions is tried.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "best_first.h"
#include "internal.h"
#include "support/alloc.h"

enum { MAX_NODES = 12, DEFAULT_LABELS = 200000 };

typedef uint16_t NodeSet;

typedef struct Sets {
  NodeSet executed, near, far;   // far: values that have been stored and may be fetched
  NodeSet gone;                  // stored and, behind their last fetch, no longer far
  NodeSet away, dirty, unread;   // far homes; of them updated and not stored; fetched and not read yet
} Sets;

typedef struct Label {
  Sets sets;
  double compute, out, in;
  double ready[MAX_NODES];   // of near copies
  int n_unsure;              // fetches that free far bytes and that no store has waited for, oldest first
  unsigned char unsure[MAX_NODES];
  double unsure_end[MAX_NODES];
  int parent, item;
  int next;   // in its hash bucket
  bool is_dead;
} Label;

typedef struct Exact {
  const RematProblem *problem;
  int n;
  NodeSet computed, homes, outputs, once, movable;
  NodeSet inputs[MAX_NODES], users[MAX_NODES], before[MAX_NODES], overwriters[MAX_NODES];
  NodeSet updates[MAX_NODES];   // homes that a node updates
  int64_t budget;
  bool far_is_short;
  Label *labels;   // Owned
  int n_labels, max_labels;
  int *buckets;   // Owned
  unsigned mask;
  OpenStates open;
  bool full;
} Exact;

static int lowest(NodeSet set) { return __builtin_ctz(set); }
static NodeSet bit_of(int v) { return (NodeSet)(1u << v); }

static int64_t bytes_of(const Exact *exact, NodeSet set) {
  int64_t sum = 0;
  for (; set; set &= (NodeSet)(set - 1)) sum += exact->problem->nodes[lowest(set)].bytes;
  return sum;
}

static bool is_blocked(const Exact *exact, int v, NodeSet executed) {
  return (executed & exact->overwriters[v]) || ((exact->once & executed) >> v & 1);
}

// ---- what must still come ----

static double in_time(const Exact *exact, int v) {
  return exact->problem->far->latency + (double)exact->problem->nodes[v].bytes / exact->problem->far->in_rate;
}

static double out_time(const Exact *exact, int v) {
  return exact->problem->far->latency + (double)exact->problem->nodes[v].bytes / exact->problem->far->out_rate;
}

// A makespan that no continuation goes below; infinite when there is none.
static double estimate(const Exact *exact, const Label *label) {
  const Sets *sets = &label->sets;
  double compute = fmax(label->compute, label->out), out = label->out, in = label->in;
  NodeSet pending = exact->computed & (NodeSet)~sets->executed, needed = exact->outputs & sets->executed;
  for (NodeSet rest = pending; rest; rest &= (NodeSet)(rest - 1)) {
    compute += exact->problem->nodes[lowest(rest)].cost;
    needed |= exact->inputs[lowest(rest)];
  }
  needed &= (NodeSet)(~sets->near & ~pending);
  for (NodeSet rest = needed & sets->away; rest; rest &= (NodeSet)(rest - 1)) in += in_time(exact, lowest(rest));
  for (NodeSet rest = sets->away; rest; rest &= (NodeSet)(rest - 1)) {
    int update = exact->problem->nodes[lowest(rest)].updated_by;
    if (update && ((sets->dirty >> lowest(rest) & 1) || (pending >> update & 1))) out += out_time(exact, lowest(rest));
  }
  // Values that are nowhere execute again, and so does what they need.
  NodeSet lost = needed & (NodeSet)~exact->homes & (NodeSet)~sets->far;
  for (NodeSet rest = lost; rest;) {
    int v = 31 - __builtin_clz(rest);
    rest &= (NodeSet)~bit_of(v);
    if (is_blocked(exact, v, sets->executed)) return INFINITY;
    compute += exact->problem->nodes[v].cost;
    NodeSet more = exact->inputs[v] & (NodeSet)~exact->homes & (NodeSet)(~sets->near & ~sets->far & ~pending & ~lost);
    rest |= more;
    lost |= more;
  }
  return fmax(compute, fmax(out, in));
}

// ---- labels ----

// When a near copy is ready, as far as that matters to what may come.
static double ready_for_more(const Exact *exact, const Label *label, int v) {
  bool may_be_stored = (label->sets.dirty >> v & 1) ||
                       ((exact->movable & (NodeSet) ~(label->sets.far | label->sets.gone)) >> v & 1);
  double begin = may_be_stored ? label->out : fmax(label->out, label->compute);
  return fmax(label->ready[v], begin);
}

static bool is_dominated(const Exact *exact, const Label *label, const Label *by) {
  if (by->compute > label->compute || by->out > label->out || by->n_unsure != label->n_unsure) return false;
  if (by->in > fmax(label->in, fmax(label->compute, label->out))) return false;
  for (int i = 0; i < by->n_unsure; i++)
    if (by->unsure[i] != label->unsure[i] || by->unsure_end[i] > label->unsure_end[i]) return false;
  for (NodeSet rest = label->sets.near; rest; rest &= (NodeSet)(rest - 1))
    if (by->ready[lowest(rest)] > ready_for_more(exact, label, lowest(rest))) return false;
  return true;
}

static unsigned hash_sets(const Sets *sets) {
  uint64_t a = (uint64_t)sets->executed | (uint64_t)sets->near << 16 | (uint64_t)sets->far << 32 |
               (uint64_t)sets->away << 48;
  uint64_t key = a * UINT64_C(0x9e3779b97f4a7c15) ^
                 (((uint64_t)sets->dirty << 16 | sets->unread) + 1) * UINT64_C(0xc2b2ae3d27d4eb4f);
  key += sets->gone;
  key ^= key >> 29;
  key *= UINT64_C(0xbf58476d1ce4e5b9);
  return (unsigned)(key >> 32);
}

// The near copies that some continuation can still read, or that must stay.
static NodeSet useful(const Exact *exact, const Sets *sets) {
  NodeSet wanted = 0;
  for (int v = exact->n - 1; v >= 0; v--) {
    NodeSet users = exact->users[v];
    bool again = users & sets->executed & wanted & (NodeSet)~exact->once;
    bool is_user_to_come = users & exact->computed & (NodeSet)~sets->executed;
    if ((exact->outputs >> v & 1) || is_user_to_come || again) wanted |= bit_of(v);
  }
  return sets->near & (wanted | sets->dirty | sets->unread);
}

static void reach(Exact *exact, Label *label, int parent, int item) {
  label->sets.near = useful(exact, &label->sets);
  label->parent = parent;
  label->item = item;
  label->is_dead = false;
  double rest = estimate(exact, label);
  if (isinf(rest) || exact->full) return;
  unsigned bucket = hash_sets(&label->sets) & exact->mask;
  for (int i = exact->buckets[bucket]; i >= 0; i = exact->labels[i].next) {
    Label *other = &exact->labels[i];
    if (other->is_dead || memcmp(&other->sets, &label->sets, sizeof(Sets)) != 0) continue;
    if (is_dominated(exact, label, other)) return;
    if (is_dominated(exact, other, label)) other->is_dead = true;
  }
  if (exact->n_labels >= exact->max_labels) {
    exact->full = true;
    return;
  }
  label->next = exact->buckets[bucket];
  exact->buckets[bucket] = exact->n_labels;
  open_states_push(&exact->open, (OpenState){rest, __builtin_popcount(label->sets.executed), exact->n_labels});
  *ARRAY_ADD(exact->labels, exact->n_labels) = *label;
}

// ---- what may come next ----

// Tries every smallest way to free `need` bytes of near copies among `candidates`, then does `item`.
typedef struct Step {
  Exact *exact;
  Label from;   // a copy: labels move
  int parent, item;
  void (*run)(const struct Step *step, Label *label);
} Step;

static void evict(const Step *step, NodeSet candidates, NodeSet gone, int64_t need) {
  const Exact *exact = step->exact;
  if (need <= 0) {
    for (NodeSet rest = gone; rest; rest &= (NodeSet)(rest - 1))
      if (exact->problem->nodes[lowest(rest)].bytes <= -need) return;
    Label label = step->from;
    label.sets.near &= (NodeSet)~gone;
    step->run(step, &label);
    return;
  }
  if (!candidates || bytes_of(exact, candidates) < need) return;
  int u = lowest(candidates);
  candidates &= (NodeSet)~bit_of(u);
  evict(step, candidates, gone | bit_of(u), need - exact->problem->nodes[u].bytes);
  evict(step, candidates, gone, need);
}

static int64_t near_bytes(const Exact *exact, const Sets *sets) {
  return exact->problem->fixed_bytes + bytes_of(exact, exact->homes & (NodeSet)~sets->away) +
         bytes_of(exact, sets->near);
}

// The near copies that may go, but `kept`.
static NodeSet evictable(const Exact *exact, const Sets *sets, NodeSet kept) {
  NodeSet candidates = sets->near & (NodeSet) ~(kept | sets->dirty | sets->unread);
  for (NodeSet rest = candidates; rest; rest &= (NodeSet)(rest - 1))
    if (exact->problem->nodes[lowest(rest)].bytes == 0) candidates &= (NodeSet)~bit_of(lowest(rest));
  return candidates;
}

static void run_execution(const Step *step, Label *label) {
  const Exact *exact = step->exact;
  int v = step->item;
  double start = fmax(label->compute, label->out);
  for (NodeSet rest = exact->inputs[v] & label->sets.near; rest; rest &= (NodeSet)(rest - 1))
    start = fmax(start, label->ready[lowest(rest)]);
  label->compute = label->ready[v] = start + exact->problem->nodes[v].cost;
  label->sets.executed |= bit_of(v);
  label->sets.near |= bit_of(v);
  label->sets.unread &= (NodeSet)~exact->inputs[v];
  for (NodeSet rest = exact->updates[v] & label->sets.away; rest; rest &= (NodeSet)(rest - 1)) {
    label->ready[lowest(rest)] = label->compute;
    label->sets.dirty |= bit_of(lowest(rest));
  }
  reach(step->exact, label, step->parent, step->item);
}

static void expand_executions(Exact *exact, const Label *label, int parent) {
  for (int v = 0; v < exact->n; v++) {
    const Sets *sets = &label->sets;
    if ((exact->homes | sets->near) >> v & 1 || is_blocked(exact, v, sets->executed)) continue;
    if (exact->before[v] & (NodeSet)~sets->executed) continue;
    NodeSet reads = exact->inputs[v] & (NodeSet)(~exact->homes | sets->away);
    if (reads & (NodeSet)~sets->near) continue;
    const RematNode *node = &exact->problem->nodes[v];
    NodeSet candidates = sets->near & (NodeSet) ~(reads | sets->dirty | sets->unread);
    for (NodeSet rest = candidates; rest; rest &= (NodeSet)(rest - 1))
      if (exact->problem->nodes[lowest(rest)].bytes == 0) candidates &= (NodeSet)~bit_of(lowest(rest));
    Step step = {exact, *label, parent, v, run_execution};
    evict(&step, candidates, 0, near_bytes(exact, sets) + node->bytes + node->workspace - exact->budget);
  }
}

// With `last` the value's far bytes are free behind the fetch.
static void fetch(const Step *step, Label *label, bool last) {
  const Exact *exact = step->exact;
  int v = remat_item_node(exact->problem, step->item);
  label->in = fmax(label->in, fmax(label->compute, label->out)) + in_time(exact, v);
  label->compute += exact->problem->far->drag * (double)exact->problem->nodes[v].bytes;
  label->ready[v] = label->in;
  label->sets.near |= bit_of(v);
  label->sets.unread |= bit_of(v);
  if (last) {
    label->sets.far &= (NodeSet)~bit_of(v);
    label->sets.gone |= bit_of(v);
    label->unsure[label->n_unsure] = (unsigned char)v;
    label->unsure_end[label->n_unsure++] = label->in;
  }
  reach(step->exact, label, step->parent, step->item);
}

static void run_fetch(const Step *step, Label *label) {
  const Exact *exact = step->exact;
  Label copy = *label;
  fetch(step, label, false);
  int v = remat_item_node(exact->problem, step->item);
  if (exact->far_is_short && !(exact->homes >> v & 1)) fetch(step, &copy, true);
}

// When the fetches are over that a store of so many far bytes in all must wait for; forgets those.
static double wait_for_far_bytes(const Exact *exact, Label *label, int64_t bytes) {
  int64_t unsure = 0;
  double end = 0;
  int waited = 0;
  for (int i = 0; i < label->n_unsure; i++) unsure += exact->problem->nodes[label->unsure[i]].bytes;
  for (; bytes + unsure > exact->problem->far->budget && waited < label->n_unsure; waited++) {
    unsure -= exact->problem->nodes[label->unsure[waited]].bytes;
    end = label->unsure_end[waited];
  }
  label->n_unsure -= waited;
  for (int i = 0; i < label->n_unsure; i++) {
    label->unsure[i] = label->unsure[i + waited];
    label->unsure_end[i] = label->unsure_end[i + waited];
  }
  return end;
}

static void run_store(const Step *step, Label *label) {
  const Exact *exact = step->exact;
  int v = remat_item_node(exact->problem, step->item);
  double start = fmax(label->out, label->ready[v]);
  if (!(exact->homes >> v & 1)) {
    label->sets.far |= bit_of(v);
    int64_t bytes = bytes_of(exact, label->sets.far | label->sets.away);
    if (bytes > exact->problem->far->budget) return;
    start = fmax(start, wait_for_far_bytes(exact, label, bytes));
  }
  label->sets.dirty &= (NodeSet)~bit_of(v);
  label->out = start + out_time(exact, v);
  label->compute += exact->problem->far->drag * (double)exact->problem->nodes[v].bytes;
  reach(step->exact, label, step->parent, step->item);
}

static void expand_copies(Exact *exact, const Label *label, int parent) {
  const RematTier *far = exact->problem->far;
  for (int v = 0; v < exact->n; v++) {
    const Sets *sets = &label->sets;
    const RematNode *node = &exact->problem->nodes[v];
    bool is_far = ((sets->far | (sets->away & (NodeSet)~sets->dirty)) >> v & 1);
    if (is_far && !(sets->near >> v & 1)) {
      NodeSet candidates = sets->near & (NodeSet) ~(sets->dirty | sets->unread);
      for (NodeSet rest = candidates; rest; rest &= (NodeSet)(rest - 1))
        if (exact->problem->nodes[lowest(rest)].bytes == 0) candidates &= (NodeSet)~bit_of(lowest(rest));
      Step step = {exact, *label, parent, remat_item(exact->problem, REMAT_FETCH, v), run_fetch};
      evict(&step, candidates, 0, near_bytes(exact, sets) + node->bytes + far->workspace - exact->budget);
    }
    bool is_home = exact->homes >> v & 1;
    if (is_home ? !(sets->dirty >> v & 1)
                : !((exact->movable & sets->near & (NodeSet) ~(sets->far | sets->gone)) >> v & 1))
      continue;
    NodeSet candidates = evictable(exact, sets, bit_of(v));
    Step step = {exact, *label, parent, remat_item(exact->problem, REMAT_STORE, v), run_store};
    evict(&step, candidates, 0, near_bytes(exact, sets) + far->workspace - exact->budget);
  }
}

static void prepare(Exact *exact, const RematProblem *problem, int64_t budget_bytes) {
  exact->problem = problem;
  exact->n = problem->n_nodes;
  exact->budget = budget_bytes;
  int64_t movable = 0;
  for (int v = 0; v < problem->n_nodes; v++) {
    const RematNode *node = &problem->nodes[v];
    if (node->home) exact->homes |= bit_of(v);
    else exact->computed |= bit_of(v);
    if (!node->recomputable) exact->once |= bit_of(v);
    if (node->movable && !node->home) exact->movable |= bit_of(v);
    if (node->movable || node->home) movable += node->bytes;
    if (node->home && node->updated_by) exact->updates[node->updated_by] |= bit_of(v);
    for (int i = 0; i < node->n_inputs; i++) {
      exact->inputs[v] |= bit_of(node->inputs[i]);
      exact->users[node->inputs[i]] |= bit_of(v);
    }
  }
  exact->far_is_short = movable > problem->far->budget;
  for (int i = 0; i < problem->n_outputs; i++) exact->outputs |= bit_of(problem->outputs[i]);
  for (int i = 0; i < problem->n_anti; i++) {
    exact->before[problem->anti[i].after] |= bit_of(problem->anti[i].before);
    exact->overwriters[problem->anti[i].before] |= bit_of(problem->anti[i].after);
  }
}

// A label for each choice of far homes.
static void begin_labels(Exact *exact) {
  for (NodeSet away = exact->homes;; away = (NodeSet)(away - 1) & exact->homes) {
    Label label = {.sets.away = away};
    if (bytes_of(exact, away) <= exact->problem->far->budget && near_bytes(exact, &label.sets) <= exact->budget)
      reach(exact, &label, -1, -1);
    if (away == 0) return;
  }
}

static RematSchedule trace_schedule(const Exact *exact, int goal) {
  int n = 0, homes = 0;
  int *items = NULL;
  for (int i = goal; exact->labels[i].parent >= 0; i = exact->labels[i].parent) n++;
  NodeSet away = exact->labels[goal].sets.away;
  items = allocate_array((size_t)(n + exact->n), sizeof *items);
  for (NodeSet rest = away; rest; rest &= (NodeSet)(rest - 1))
    items[homes++] = remat_item(exact->problem, REMAT_FAR_HOME, lowest(rest));
  int at = homes + n;
  for (int i = goal; exact->labels[i].parent >= 0; i = exact->labels[i].parent) items[--at] = exact->labels[i].item;
  RematSchedule schedule = remat_schedule_measure(exact->problem, items, homes + n);
  free(items);
  return schedule;
}

RematExact remat_exact_tiers(const RematProblem *problem, int64_t budget_bytes, int64_t max_labels,
                             RematSchedule *schedule) {
  *schedule = (RematSchedule){0};
  if (problem->n_nodes > MAX_NODES) return REMAT_EXACT_UNKNOWN;
  Exact *exact = allocate_array(1, sizeof *exact);
  exact->max_labels = max_labels > 0 && max_labels < INT32_MAX / 2 ? (int)max_labels : DEFAULT_LABELS;
  exact->mask = (1u << 13) - 1;
  exact->buckets = allocate_array((size_t)exact->mask + 1, sizeof *exact->buckets);
  for (unsigned i = 0; i <= exact->mask; i++) exact->buckets[i] = -1;
  prepare(exact, problem, budget_bytes);
  begin_labels(exact);
  RematExact outcome = REMAT_EXACT_INFEASIBLE;
  while (exact->open.n > 0 && !exact->full) {
    int number = open_states_pop(&exact->open);
    if (exact->labels[number].is_dead) continue;
    Label label = exact->labels[number];
    bool is_done = label.sets.executed == exact->computed && !(exact->outputs & (NodeSet)~label.sets.near);
    if (is_done && !label.sets.dirty && !label.sets.unread) {
      outcome = REMAT_EXACT_OPTIMAL;
      *schedule = trace_schedule(exact, number);
      break;
    }
    expand_executions(exact, &label, number);
    expand_copies(exact, &label, number);
  }
  if (exact->full) outcome = REMAT_EXACT_UNKNOWN;
  free(exact->labels);
  free(exact->buckets);
  free(exact->open.states);
  free(exact);
  return outcome;
}
