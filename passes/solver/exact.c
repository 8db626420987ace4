// exact.c: the optimum of a small problem, over all orders and recomputations: A* (Hart, Nilsson, Raphael 1968) over
// states (nodes executed so far, values in memory). Values stay until room is needed, so a state's memory is never
// smaller than that of the schedule it stands for; what nobody can want any more goes at once.
#include <stdlib.h>

#include "best_first.h"
#include "internal.h"
#include "support/alloc.h"

enum { MAX_NODES = 60, DEFAULT_STATES = 100000 };

typedef uint64_t NodeSet;

typedef struct State {
  NodeSet executed, memory;
  double extra;    // cost of the executions beyond the first of each node
  int parent;      // state before the execution that led here; -1 for the first
  int executing;   // node executed to come here
  bool closed;
  int next;   // in its hash bucket; -1 at the end
} State;

typedef struct Exact {
  const RematProblem *problem;
  int n;
  NodeSet all, outputs, once;   // once: not recomputable
  NodeSet inputs[MAX_NODES], users[MAX_NODES];
  NodeSet before[MAX_NODES];        // anti-dependences: must have executed before this node, and never after it
  NodeSet overwriters[MAX_NODES];   // anti-dependences: once one of these has executed, this node cannot
  int64_t bytes[MAX_NODES], workspace[MAX_NODES];
  double cost[MAX_NODES];
  int64_t room;    // budget less fixed bytes
  State *states;   // Owned
  int n_states;
  int64_t max_states;
  int *buckets;   // Owned; first state of each, -1 when empty
  unsigned bucket_mask;
  OpenStates open;
  bool full;   // max_states reached
} Exact;

static int lowest(NodeSet set) { return __builtin_ctzll(set); }

static bool is_blocked(const Exact *exact, int v, NodeSet executed) {
  return (executed & exact->overwriters[v]) || (exact->once >> v & executed >> v & 1);
}

static int64_t bytes_of(const Exact *exact, NodeSet set) {
  int64_t sum = 0;
  for (; set; set &= set - 1) sum += exact->bytes[lowest(set)];
  return sum;
}

// The values of `memory` that some continuation can still read, or that are outputs.
static NodeSet useful(const Exact *exact, NodeSet executed, NodeSet memory) {
  NodeSet wanted = 0;   // executed values that a continuation may want
  for (int v = exact->n - 1; v >= 0; v--) {
    NodeSet bit = (NodeSet)1 << v;
    if (!(executed & bit)) continue;
    NodeSet again = exact->users[v] & executed & wanted & ~exact->once;
    if ((exact->outputs & bit) || (exact->users[v] & ~executed) || again) wanted |= bit;
  }
  return memory & wanted;
}

// Cost of the executions that must still come although the node has executed: values that a node to come needs and
// that are not in memory, and recursively what those need. Negative when one of them cannot execute again. Never more
// than the truth, and it drops by at most the cost of an execution: A* needs to open no state twice.
static double certain_extra(const Exact *exact, NodeSet executed, NodeSet memory) {
  NodeSet missing = executed & ~memory, pending = exact->all & ~executed;
  NodeSet again = exact->outputs & missing;
  for (NodeSet rest = pending; rest; rest &= rest - 1) again |= exact->inputs[lowest(rest)] & missing;
  double extra = 0;
  for (NodeSet rest = again; rest;) {
    int v = 63 - __builtin_clzll(rest);
    rest &= ~((NodeSet)1 << v);
    if (is_blocked(exact, v, executed)) return -1;
    extra += exact->cost[v];
    rest |= exact->inputs[v] & missing & ~again;
    again |= exact->inputs[v] & missing;
  }
  return extra;
}

static unsigned hash_state(NodeSet executed, NodeSet memory) {
  uint64_t key = executed * UINT64_C(0x9e3779b97f4a7c15) ^ memory * UINT64_C(0xc2b2ae3d27d4eb4f);
  key ^= key >> 29;
  key *= UINT64_C(0xbf58476d1ce4e5b9);
  return (unsigned)(key >> 32);
}

// Notes that (executed, memory) is reached from `parent` by executing `v` with `extra` cost in all.
static void reach(Exact *exact, NodeSet executed, NodeSet memory, double extra, int parent, int v) {
  memory = useful(exact, executed, memory);
  unsigned bucket = hash_state(executed, memory) & exact->bucket_mask;
  int found = exact->buckets[bucket];
  while (found >= 0 && (exact->states[found].executed != executed || exact->states[found].memory != memory))
    found = exact->states[found].next;
  if (found >= 0 && (exact->states[found].closed || exact->states[found].extra <= extra)) return;
  double rest = certain_extra(exact, executed, memory);
  if (rest < 0) return;
  if (found < 0) {
    if (exact->n_states >= exact->max_states) {
      exact->full = true;
      return;
    }
    found = exact->n_states;
    *ARRAY_ADD(exact->states,
               exact->n_states) = (State){.executed = executed, .memory = memory, .next = exact->buckets[bucket]};
    exact->buckets[bucket] = found;
  }
  exact->states[found].extra = extra;
  exact->states[found].parent = parent;
  exact->states[found].executing = v;
  open_states_push(&exact->open, (OpenState){extra + rest, __builtin_popcountll(executed), found});
}

typedef struct Eviction {
  Exact *exact;
  int state, v;
  NodeSet executed;
  double extra;
} Eviction;

// Tries every smallest way to free `need` bytes among `candidates`, largest node first; `kept` stays.
static void evict(const Eviction *eviction, NodeSet candidates, NodeSet kept, NodeSet gone, int64_t need) {
  Exact *exact = eviction->exact;
  if (need <= 0) {
    // Not smallest when one of those gone could have stayed.
    for (NodeSet rest = gone; rest; rest &= rest - 1)
      if (exact->bytes[lowest(rest)] <= -need) return;
    NodeSet memory = kept | candidates | (NodeSet)1 << eviction->v;
    reach(exact, eviction->executed, memory, eviction->extra, eviction->state, eviction->v);
    return;
  }
  if (!candidates || bytes_of(exact, candidates) < need) return;
  int u = lowest(candidates);
  NodeSet bit = (NodeSet)1 << u;
  evict(eviction, candidates & ~bit, kept, gone | bit, need - exact->bytes[u]);
  evict(eviction, candidates & ~bit, kept | bit, gone, need);
}

static void expand(Exact *exact, int number) {
  State state = exact->states[number];
  for (int v = 0; v < exact->n && !exact->full; v++) {
    NodeSet bit = (NodeSet)1 << v;
    if ((state.memory & bit) || is_blocked(exact, v, state.executed)) continue;
    if ((exact->inputs[v] & ~state.memory) || (exact->before[v] & ~state.executed)) continue;
    NodeSet candidates = 0, memory = state.memory;
    for (NodeSet rest = memory & ~exact->inputs[v]; rest; rest &= rest - 1)
      if (exact->bytes[lowest(rest)] > 0) candidates |= rest & -rest;
    int64_t need = bytes_of(exact, memory) + exact->bytes[v] + exact->workspace[v] - exact->room;
    Eviction eviction = {exact, number, v, state.executed | bit, state.extra};
    if (state.executed & bit) eviction.extra += exact->cost[v];
    evict(&eviction, candidates, memory & ~candidates, 0, need);
  }
}

static void prepare(Exact *exact, const RematProblem *problem, int64_t budget_bytes) {
  exact->problem = problem;
  exact->n = problem->n_nodes;
  exact->all = ((NodeSet)1 << problem->n_nodes) - 1;
  exact->room = budget_bytes - problem->fixed_bytes;
  for (int v = 0; v < problem->n_nodes; v++) {
    const RematNode *node = &problem->nodes[v];
    exact->cost[v] = node->cost;
    exact->bytes[v] = node->bytes;
    exact->workspace[v] = node->workspace;
    if (!node->recomputable) exact->once |= (NodeSet)1 << v;
    for (int i = 0; i < node->n_inputs; i++) {
      exact->inputs[v] |= (NodeSet)1 << node->inputs[i];
      exact->users[node->inputs[i]] |= (NodeSet)1 << v;
    }
  }
  for (int i = 0; i < problem->n_outputs; i++) exact->outputs |= (NodeSet)1 << problem->outputs[i];
  for (int i = 0; i < problem->n_anti; i++) {
    exact->before[problem->anti[i].after] |= (NodeSet)1 << problem->anti[i].before;
    exact->overwriters[problem->anti[i].before] |= (NodeSet)1 << problem->anti[i].after;
  }
}

static RematSchedule trace_schedule(const Exact *exact, int goal) {
  int n = 0;
  for (int s = goal; exact->states[s].parent >= 0; s = exact->states[s].parent) n++;
  int *exec = allocate_array((size_t)n, sizeof *exec);
  int at = n;
  for (int s = goal; exact->states[s].parent >= 0; s = exact->states[s].parent) exec[--at] = exact->states[s].executing;
  RematSchedule schedule = remat_schedule_measure(exact->problem, exec, n);
  free(exec);
  return schedule;
}

RematExact remat_exact(const RematProblem *problem, int64_t budget_bytes, int64_t max_states, RematSchedule *schedule) {
  if (problem->far) return remat_exact_tiers(problem, budget_bytes, max_states, schedule);
  *schedule = (RematSchedule){0};
  if (problem->n_nodes > MAX_NODES) return REMAT_EXACT_UNKNOWN;
  if (problem->fixed_bytes > budget_bytes) return REMAT_EXACT_INFEASIBLE;
  Exact *exact = allocate_array(1, sizeof *exact);
  exact->max_states = max_states > 0 ? max_states : DEFAULT_STATES;
  if (exact->max_states > INT32_MAX / 2) exact->max_states = INT32_MAX / 2;
  unsigned buckets = 1024;
  while (buckets < exact->max_states && buckets < 1u << 22) buckets *= 2;
  exact->bucket_mask = buckets - 1;
  exact->buckets = allocate_array(buckets, sizeof *exact->buckets);
  for (unsigned i = 0; i < buckets; i++) exact->buckets[i] = -1;
  prepare(exact, problem, budget_bytes);
  reach(exact, 0, 0, 0, -1, -1);
  RematExact outcome = REMAT_EXACT_INFEASIBLE;
  while (exact->open.n > 0 && !exact->full) {
    int number = open_states_pop(&exact->open);
    if (exact->states[number].closed) continue;
    exact->states[number].closed = true;
    // Nothing is missing at the end: certain_extra is 0 there only when every output is in memory.
    if (exact->states[number].executed == exact->all && !(exact->outputs & ~exact->states[number].memory)) {
      outcome = REMAT_EXACT_OPTIMAL;
      *schedule = trace_schedule(exact, number);
      break;
    }
    expand(exact, number);
  }
  if (exact->full) outcome = REMAT_EXACT_UNKNOWN;
  free(exact->states);
  free(exact->buckets);
  free(exact->open.states);
  free(exact);
  return outcome;
}
