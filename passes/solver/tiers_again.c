// tiers_again.c: the executions of a plan searched again, with what it moves as it is. For that the plan becomes a
// schedule of one tier: a value that is stored is made once, by a node that occupies nothing from then on, and each
// copy of it, the first one and those that are fetched, is an execution of another node, which costs next to nothing
// and needs nothing. The search for one tier prices a change in a small part of the time that tier_evaluate takes.
#include "support/alloc.h"
#include "tiers.h"

#include <math.h>
#include <stdlib.h>

// A far home that nothing reads, as of a parameter that no loss depends on, is never fetched.
static void list_moved(TierAgain *again) {
  const RematProblem *problem = again->search->problem;
  const TierPlan *plan = again->plan;
  for (int v = 0; v < problem->n_nodes; v++)
    for (int i = 0; i < problem->nodes[v].n_inputs; i++) {
      int u = problem->nodes[v].inputs[i];
      again->moved[u] |= plan->far_home[u];
    }
  for (int p = 0; p < plan->n; p++)
    if (remat_item_kind(problem, plan->items[p]) == REMAT_STORE)
      again->moved[remat_item_node(problem, plan->items[p])] = true;
}

// A store that has not ended keeps the bytes of its copy. What executes more than once may do so when none is under
// way.
static void measure_pending(TierAgain *again) {
  TierSearch *search = again->search;
  const RematProblem *problem = search->problem;
  const RematTier *far = problem->far;
  const TierPlan *plan = again->plan;
  int *executions = allocate_array((size_t)search->n, sizeof *executions);
  int *under_way = allocate_array((size_t)plan->n, sizeof *under_way);   // positions of stores, oldest first
  double *end = allocate_array((size_t)plan->n, sizeof *end);
  double now = 0, out = 0;
  int first = 0, last = 0;
  for (int p = 0; p < plan->n; p++) {
    int v = remat_item_node(problem, plan->items[p]);
    double bytes = (double)problem->nodes[v].bytes;
    RematItemKind kind = remat_item_kind(problem, plan->items[p]);
    if (kind == REMAT_FETCH) continue;
    if (kind == REMAT_STORE) {
      out = fmax(out, now) + far->latency + bytes / far->out_rate;
      now += far->drag * bytes;
      end[last] = out;
      under_way[last++] = p;
      continue;
    }
    while (first < last && end[first] <= now) first++;
    int64_t dead = 0;
    for (int i = first; i < last; i++)
      if (search->at[search->at[under_way[i]].copy].last_use < p)
        dead += problem->nodes[remat_item_node(problem, plan->items[under_way[i]])].bytes;
    again->pending[v] = executions[v]++ ? 0 : dead;
    now += problem->nodes[v].cost;
  }
  free(executions);
  free(under_way);
  free(end);
}

static int add_node(TierAgain *again, RematNode node, int from, bool is_copy) {
  int number = again->problem.n_nodes++;
  again->nodes[number] = node;
  again->from[number] = from;
  again->is_copy[number] = is_copy;
  return number;
}

// What a fetch is worth: it is not to be had for nothing, since the lane is.
static double fetch_cost(const RematTier *far, const RematNode *node) {
  static const double SHARE = 0.001;
  return SHARE * (far->latency + (double)node->bytes / far->in_rate);
}

static void build_nodes(TierAgain *again) {
  const RematProblem *problem = again->search->problem;
  int *inputs = again->inputs;
  for (int v = 0; v < problem->n_nodes; v++) {
    RematNode node = problem->nodes[v];
    RematNode copy = {.name = node.name,
                      .bytes = node.bytes,
                      .cost = fetch_cost(problem->far, &node),
                      .recomputable = true,
                      .role = node.role};
    node.inputs = inputs;
    for (int i = 0; i < node.n_inputs; i++) *inputs++ = again->of[problem->nodes[v].inputs[i]];
    node.workspace += again->pending[v];
    if (node.home) {
      again->of[v] = add_node(again, again->moved[v] ? copy : (RematNode){.name = node.name}, v, true);
      continue;
    }
    if (again->moved[v]) {
      node.workspace += node.bytes;
      node.bytes = 0;
      node.recomputable = false;
    }
    again->of[v] = add_node(again, node, v, false);
    if (!again->moved[v]) continue;
    copy.inputs = inputs;
    copy.n_inputs = 1;
    *inputs++ = again->of[v];
    again->of[v] = add_node(again, copy, v, true);
  }
}

// Of an anti-dependence it is the execution that counts, not a copy of the value.
static int executed(const TierAgain *again, int v) {
  bool is_value = again->moved[v] && !again->search->problem->nodes[v].home;
  return is_value ? again->of[v] - 1 : again->of[v];
}

TierAgain tier_again_create(TierSearch *search, const TierPlan *plan) {
  const RematProblem *problem = search->problem;
  size_t n = (size_t)problem->n_nodes, edges = n;
  for (int v = 0; v < problem->n_nodes; v++) edges += (size_t)problem->nodes[v].n_inputs;
  TierAgain again = {.search = search,
                     .plan = plan,
                     .nodes = allocate_array(2 * n, sizeof(RematNode)),
                     .inputs = allocate_array(edges, sizeof(int)),
                     .outputs = allocate_array((size_t)problem->n_outputs, sizeof(int)),
                     .anti = allocate_array((size_t)problem->n_anti, sizeof(RematAnti)),
                     .moved = allocate_array(n, sizeof(bool)),
                     .of = allocate_array(n, sizeof(int)),
                     .from = allocate_array(2 * n, sizeof(int)),
                     .is_copy = allocate_array(2 * n, sizeof(bool)),
                     .pending = allocate_array(n, sizeof(int64_t))};
  list_moved(&again);
  measure_pending(&again);
  build_nodes(&again);
  for (int i = 0; i < problem->n_outputs; i++) again.outputs[i] = again.of[problem->outputs[i]];
  for (int i = 0; i < problem->n_anti; i++)
    again.anti[i] = (RematAnti){executed(&again, problem->anti[i].before), executed(&again, problem->anti[i].after)};
  again.problem.nodes = again.nodes;
  again.problem.steps = problem->steps;
  again.problem.fixed_bytes = problem->fixed_bytes;
  for (int v = 0; v < problem->n_nodes; v++)
    if (problem->nodes[v].home && !plan->far_home[v]) again.problem.fixed_bytes += problem->nodes[v].bytes;
  again.problem.n_outputs = problem->n_outputs;
  again.problem.outputs = again.outputs;
  again.problem.n_anti = problem->n_anti;
  again.problem.anti = again.anti;
  return again;
}

void tier_again_free(TierAgain *again) {
  free(again->nodes);
  free(again->inputs);
  free(again->outputs);
  free(again->anti);
  free(again->moved);
  free(again->of);
  free(again->from);
  free(again->is_copy);
  free(again->pending);
}

RematSchedule tier_again_start(const TierAgain *again) {
  const RematProblem *problem = again->search->problem;
  const TierPlan *plan = again->plan;
  bool *fetched = allocate_array((size_t)problem->n_nodes, sizeof *fetched);
  bool *is_made = allocate_array((size_t)problem->n_nodes, sizeof *is_made);
  int *items = allocate_array(2 * (size_t)(plan->n + problem->n_nodes), sizeof *items), n = 0;
  for (int v = 0; v < problem->n_nodes; v++)
    if (problem->nodes[v].home && !again->moved[v]) items[n++] = again->of[v];
  for (int p = 0; p < plan->n; p++) {
    int v = remat_item_node(problem, plan->items[p]);
    RematItemKind kind = remat_item_kind(problem, plan->items[p]);
    if (kind == REMAT_FETCH) fetched[v] = true;
    if (kind != REMAT_EXECUTE) continue;
    for (int i = 0; i < problem->nodes[v].n_inputs; i++) {
      int u = problem->nodes[v].inputs[i];
      if (fetched[u]) items[n++] = again->of[u];
      fetched[u] = false;
    }
    if (!is_made[v] || !again->moved[v]) items[n++] = executed(again, v);
    if (again->moved[v]) items[n++] = again->of[v];   // also where it is made again
    is_made[v] = true;
  }
  free(fetched);
  free(is_made);
  RematSchedule start = remat_schedule_measure(&again->problem, items, n);
  free(items);
  return start;
}

void tier_again_read(const TierAgain *again, const RematSchedule *found, TierPlan *plan) {
  const RematProblem *problem = again->search->problem;
  bool *is_there = allocate_array((size_t)problem->n_nodes, sizeof *is_there);
  plan->n = 0;
  for (int i = 0; i < found->n; i++) {
    int v = again->from[found->exec[i]];
    const RematNode *node = &problem->nodes[v];
    if (again->is_copy[found->exec[i]]) {
      if (node->home ? again->moved[v] : is_there[v])
        tier_plan_insert(plan, plan->n, remat_item(problem, REMAT_FETCH, v));
      is_there[v] = true;
      continue;
    }
    tier_plan_insert(plan, plan->n, v);
    if (again->moved[v]) tier_plan_insert(plan, plan->n, remat_item(problem, REMAT_STORE, v));
    for (int k = 0; k < node->n_inputs && node->role == REMAT_UPDATE; k++) {
      int h = node->inputs[k];
      if (problem->nodes[h].home && again->plan->far_home[h] && problem->nodes[h].updated_by == v)
        tier_plan_insert(plan, plan->n, remat_item(problem, REMAT_STORE, h));
    }
  }
  free(is_there);
}
