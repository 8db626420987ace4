// tiers_moves.c: random changes of a plan with two tiers. What a change breaks, tier_evaluate finds.
#include "support/alloc.h"
#include "tiers.h"

#include <stdlib.h>

#include "search.h"

static int below(TierSearch *search, int limit) { return limit > 1 ? remat_random_below(&search->random, limit) : 0; }

// 1 half of the time, 2 a quarter, and so on, at most `most`.
static int geometric(TierSearch *search, int most) {
  int distance = 1;
  while (distance < most && below(search, 4)) distance += 1 + distance / 3;
  return distance < most ? distance : most;
}

static RematItemKind kind_at(const TierSearch *search, const TierPlan *plan, int p) {
  return remat_item_kind(search->problem, plan->items[p]);
}

static int node_at(const TierSearch *search, const TierPlan *plan, int p) {
  return remat_item_node(search->problem, plan->items[p]);
}

static bool reads(const TierSearch *search, const TierPlan *plan, int p, int v) {
  if (kind_at(search, plan, p) != REMAT_EXECUTE) return false;
  const RematNode *node = &search->problem->nodes[node_at(search, plan, p)];
  for (int i = 0; i < node->n_inputs; i++)
    if (node->inputs[i] == v) return true;
  return false;
}

static int find_item(const TierPlan *plan, int item, int from) {
  for (int p = from; p < plan->n; p++)
    if (plan->items[p] == item) return p;
  return -1;
}

static void remove_items(TierPlan *plan, int item) {
  int n = 0;
  for (int p = 0; p < plan->n; p++)
    if (plan->items[p] != item) plan->items[n++] = plan->items[p];
  plan->n = n;
}

void tier_prune(TierSearch *search, TierPlan *plan) {
  const RematProblem *problem = search->problem;
  bool *read = allocate_array((size_t)search->n, sizeof *read);   // behind here, before it is made again
  bool *fetched = allocate_array((size_t)search->n, sizeof *fetched);
  int *executions = allocate_array((size_t)search->n, sizeof *executions);
  for (int i = 0; i < problem->n_outputs; i++) read[problem->outputs[i]] = true;
  for (int p = 0; p < plan->n; p++)
    if (kind_at(search, plan, p) == REMAT_EXECUTE) executions[node_at(search, plan, p)]++;
  int to = plan->n;
  for (int p = plan->n - 1; p >= 0; p--) {
    int v = node_at(search, plan, p);
    const RematNode *node = &problem->nodes[v];
    RematItemKind kind = kind_at(search, plan, p);
    if (kind == REMAT_EXECUTE) {
      if (!read[v] && executions[v] > 1) {
        executions[v]--;
        continue;
      }
      read[v] = false;
      for (int i = 0; i < node->n_inputs; i++) read[node->inputs[i]] = true;
    } else if (kind == REMAT_FETCH) {
      if (!read[v]) continue;
      read[v] = false;
      fetched[v] = true;
    } else {
      if (!node->home && !fetched[v]) continue;
      read[v] = true;
    }
    plan->items[--to] = plan->items[p];
  }
  for (int p = to; p < plan->n; p++) plan->items[p - to] = plan->items[p];
  plan->n -= to;
  free(read);
  free(fetched);
  free(executions);
}

static void shift_item(TierSearch *search, TierPlan *plan) {
  int p = below(search, plan->n), item = plan->items[p], to;
  if (below(search, 3)) {
    int distance = geometric(search, plan->n);
    to = below(search, 2) ? p + distance : p - distance;
  } else {
    to = below(search, plan->n);
  }
  if (to < 0) to = 0;
  if (to > plan->n - 1) to = plan->n - 1;
  tier_plan_remove(plan, p);
  tier_plan_insert(plan, to, item);
}

// A random execution and one of its inputs; false when there is none.
static bool choose_use(TierSearch *search, const TierPlan *plan, int *position, int *value) {
  for (int tries = 0; tries < 8; tries++) {
    int p = below(search, plan->n);
    if (kind_at(search, plan, p) != REMAT_EXECUTE) continue;
    const RematNode *node = &search->problem->nodes[node_at(search, plan, p)];
    if (node->n_inputs == 0) continue;
    *position = p;
    *value = node->inputs[below(search, node->n_inputs)];
    return true;
  }
  return false;
}

// Whether the copy of `v` is read behind position `p` before it is made again.
static bool is_read_behind(const TierSearch *search, const TierPlan *plan, int p, int v) {
  enum { FAR_ENOUGH = 400 };
  for (int q = p; q < plan->n && q < p + FAR_ENOUGH; q++) {
    if (reads(search, plan, q, v)) return true;
    if (node_at(search, plan, q) == v && kind_at(search, plan, q) != REMAT_STORE) return false;
  }
  return false;
}

static void execute_again(TierSearch *search, TierPlan *plan, int p, int v, int depth) {
  const RematNode *node = &search->problem->nodes[v];
  if (!node->recomputable) return;
  tier_plan_insert(plan, p, v);
  if (depth == 0) return;
  for (int i = 0; i < node->n_inputs; i++) {
    int u = node->inputs[i];
    if (!search->problem->nodes[u].home && below(search, 2) && !is_read_behind(search, plan, p + 1, u))
      execute_again(search, plan, p, u, depth - 1);
  }
}

// Makes sure that the value can be fetched at `p`, which it returns as it is then.
static int make_far(TierSearch *search, TierPlan *plan, int p, int v) {
  const RematProblem *problem = search->problem;
  if (problem->nodes[v].home) {
    if (plan->far_home[v]) return p;
    plan->far_home[v] = true;
    int first = 0;
    while (first < plan->n && !reads(search, plan, first, v)) first++;
    if (first < p) tier_plan_insert(plan, first, remat_item(problem, REMAT_FETCH, v)), p++;
    int update = problem->nodes[v].updated_by ? find_item(plan, problem->nodes[v].updated_by, 0) : -1;
    if (update >= 0) tier_plan_insert(plan, update + 1, remat_item(problem, REMAT_STORE, v)), p += update < p;
    return p;
  }
  if (find_item(plan, remat_item(problem, REMAT_STORE, v), 0) >= 0) return p;
  int made = find_item(plan, v, 0);
  if (made < 0 || made >= p) return p;
  tier_plan_insert(plan, made + 1, remat_item(problem, REMAT_STORE, v));
  return p + 1;
}

static void fetch_value(TierSearch *search, TierPlan *plan, int p, int v) {
  const RematNode *node = &search->problem->nodes[v];
  if (!node->home && !node->movable) return;
  p = make_far(search, plan, p, v);
  if (below(search, 3)) {
    int distance = geometric(search, plan->n);
    while (distance-- > 0 && p > 0 && node_at(search, plan, p - 1) != v && !reads(search, plan, p - 1, v)) p--;
  }
  tier_plan_insert(plan, p, remat_item(search->problem, REMAT_FETCH, v));
}

// A random fetch, or execution of a node that executes elsewhere, too; -1 when none is found.
static int choose_item(TierSearch *search, const TierPlan *plan) {
  for (int tries = 0; tries < 16; tries++) {
    int p = below(search, plan->n);
    RematItemKind kind = kind_at(search, plan, p);
    if (kind == REMAT_FETCH) return p;
    if (kind == REMAT_EXECUTE && search->problem->nodes[node_at(search, plan, p)].recomputable &&
        search->nodes[node_at(search, plan, p)].executed >= 0 &&
        (find_item(plan, plan->items[p], p + 1) >= 0 || find_item(plan, plan->items[p], 0) < p))
      return p;
  }
  return -1;
}

static void swap_way(TierSearch *search, TierPlan *plan) {
  int p = choose_item(search, plan);
  if (p < 0) return;
  int v = node_at(search, plan, p);
  bool was_fetch = kind_at(search, plan, p) == REMAT_FETCH;
  tier_plan_remove(plan, p);
  if (was_fetch) {
    while (p < plan->n && !reads(search, plan, p, v)) p++;
    execute_again(search, plan, p, v, 2);
  } else {
    fetch_value(search, plan, p, v);
  }
  tier_prune(search, plan);
}

static void bring_home(TierSearch *search, TierPlan *plan) {
  int v = below(search, search->n);
  for (int tries = 0; tries < search->n && !plan->far_home[v]; tries++) v = (v + 1) % search->n;
  if (!plan->far_home[v]) return;
  plan->far_home[v] = false;
  remove_items(plan, remat_item(search->problem, REMAT_FETCH, v));
  remove_items(plan, remat_item(search->problem, REMAT_STORE, v));
}

static void move_once(TierSearch *search, TierPlan *plan) {
  int p, v, kind = below(search, 16);
  if (kind < 6) {
    shift_item(search, plan);
  } else if (kind < 8) {
    if (choose_use(search, plan, &p, &v)) execute_again(search, plan, p, v, 2);
  } else if (kind < 11) {
    if (choose_use(search, plan, &p, &v)) fetch_value(search, plan, p, v);
  } else if (kind < 13) {
    if ((p = choose_item(search, plan)) >= 0) tier_plan_remove(plan, p), tier_prune(search, plan);
  } else if (kind < 15) {
    swap_way(search, plan);
  } else {
    bring_home(search, plan);
  }
}

void tier_move(TierSearch *search, TierPlan *plan) {
  if (plan->n == 0) return;
  move_once(search, plan);
  while (below(search, 4) == 0) move_once(search, plan);
}
