// What no plan can go below: the step as a problem in which every real plan has a counterpart that costs no more and
// needs no more memory, so that a bound for the problem is a bound for all plans, whatever their order, recomputations
// and offsets.
//
// The problem of remat_problem.c is made for finding plans: it merges chains, and forbids to make small results again.
// This one:
// - has a node for every result, none merged. An execution of a step is one of each of its nodes; they share its time
// in
//   proportion to their bytes, and each may run alone, which no plan can do.
// - counts for a step what it needs when every operand that it may write over dies there: an operand that lives on
// costs a plan more.
// - counts nothing for updates and running statistics, which a plan may have to keep beside the old value, and lets
// them run any time.
// - lets inputs of the step appear when they are first read.
// - with memory far away: lets every value and all that persists go there; of the latter stores what an update makes.
// Gaps between buffers, and workspaces beside several results, only add to what a plan needs.
#include <math.h>
#include <stdlib.h>

#include "passes/remat/remat.h"
#include "support/alloc.h"
#include "support/input_error.h"

static bool is_tied(const StepBound *b, int value) { return b->tied[value]; }

// The most that step i saves by writing results over operands.
static int64_t largest_overlap(StepBound *b, int i) {
  PlanProgram *p = b->p;
  const PlanStep *s = &p->steps[i];
  int64_t bytes = 0;
  for (int r = 0; r < s->n_results; r++) {
    const PlanValue *made = &p->values[s->first_result + r];
    bool possible = false;
    for (int o = 0; o < s->n_inputs && !possible && !is_tied(b, s->first_result + r); o++) {
      const PlanValue *operand = &p->values[p->values[s->inputs[o]].root];
      bool stays = operand->persistent && !b->problem.far;   // a copy of what is at home far away may be written over
      possible = !stays && operand->bytes == made->bytes && plan_inplace_allowed(p, i, r, o);
    }
    if (possible) bytes += plan_align(p, made->bytes);
  }
  return bytes;
}

// The nodes of step i: one per result, or one for a step without results.
static void add_nodes(StepBound *b, int i, double seconds, int **pool) {
  PlanProgram *p = b->p;
  const PlanStep *s = &p->steps[i];
  int first = b->problem.n_nodes, n = s->n_results > 0 ? s->n_results : 1, *inputs = *pool, n_inputs = 0;
  for (int j = 0; j < s->n_inputs; j++) {
    int node = b->value_node[p->values[s->inputs[j]].root];
    if (node >= 0) inputs[n_inputs++] = node;
  }
  *pool += n_inputs;
  int64_t total = 0;
  bool again = s->role == NN_STEP_RUN && step_role(s->op) != REMAT_UPDATE;
  for (int r = 0; r < s->n_results; r++) {
    again &= s->again || !is_tied(b, s->first_result + r);
    if (!is_tied(b, s->first_result + r)) total += plan_align(p, p->values[s->first_result + r].bytes);
  }
  for (int r = 0; r < n; r++) {
    int64_t bytes = s->n_results > 0 && !is_tied(b, s->first_result + r)
                        ? plan_align(p, p->values[s->first_result + r].bytes)
                        : 0;
    double share = total > 0 ? (double)bytes / (double)total : r == 0;
    b->nodes[first + r] = (RematNode){.cost = seconds * share,
                                      .bytes = bytes,
                                      .inputs = inputs,
                                      .n_inputs = n_inputs,
                                      .recomputable = again,
                                      .movable = b->problem.far != NULL,
                                      .role = step_role(s->op)};
    b->nodes[first + r].workspace = r == 0 ? total - bytes + plan_align(p, s->workspace) : 0;
    b->saved[first + r] = largest_overlap(b, i);
    if (s->n_results > 0) b->value_node[s->first_result + r] = first + r;
  }
  b->problem.n_nodes += n;
}

static void add_outputs(StepBound *b) {
  PlanProgram *p = b->p;
  bool *seen = allocate_array((size_t)b->problem.n_nodes, sizeof *seen);
  for (int r = 0; r < p->n_results; r++) {
    int root = p->values[p->result[r]].root, node = b->value_node[root];
    if (node < 0 || b->nodes[node].home || p->tied[r] >= 0 || seen[node]) continue;   // a home may be returned as it is
    seen[node] = true;
    b->outputs[b->problem.n_outputs++] = node;
  }
  free(seen);
}

static void add_arguments(StepBound *b) {
  PlanProgram *p = b->p;
  for (int a = 0; a < p->n_args; a++) {
    bool home = p->values[a].persistent;
    if (home && !b->problem.far) continue;
    int64_t bytes = plan_align(p, p->values[a].bytes);
    b->value_node[a] = b->problem.n_nodes;
    b->nodes[b->problem.n_nodes++] = (RematNode){.bytes = bytes, .home = home, .movable = b->problem.far && !home};
    if (home) b->home_bytes += bytes;
  }
}

// What is at home far away is stored when it has been updated.
static void add_stores(StepBound *b) {
  PlanProgram *p = b->p;
  for (int r = 0; r < p->n_results && b->problem.far; r++) {
    int argument = p->tied[r], home = argument >= 0 ? b->value_node[argument] : -1;
    int update = b->value_node[p->values[p->result[r]].root];
    if (home < 0 || update < 0 || !b->nodes[home].home || b->nodes[update].role != REMAT_UPDATE) continue;
    bool reads = false;
    for (int i = 0; i < b->nodes[update].n_inputs; i++) reads |= b->nodes[update].inputs[i] == home;
    if (reads) b->nodes[home].updated_by = update;
  }
}

void step_bound_build(StepBound *b, PlanProgram *p, int64_t persistent_bytes, const StepProblem *q) {
  const double *step_seconds = q->step_seconds;
  *b = (StepBound){.p = p, .tier = q->tier};
  if (q->problem.far) b->problem.far = &b->tier;
  size_t max_nodes = (size_t)(p->n_args + p->n_values + p->n_steps), n_inputs = 0;
  for (int i = 0; i < p->n_steps; i++) n_inputs += (size_t)p->steps[i].n_inputs;
  b->nodes = allocate_array(max_nodes, sizeof *b->nodes);
  b->saved = allocate_array(max_nodes, sizeof *b->saved);
  b->pool = allocate_array(n_inputs, sizeof *b->pool);
  b->outputs = allocate_array((size_t)p->n_results, sizeof *b->outputs);
  b->value_node = allocate_array((size_t)p->n_values, sizeof *b->value_node);
  b->tied = allocate_array((size_t)p->n_values, sizeof *b->tied);
  for (int v = 0; v < p->n_values; v++) b->value_node[v] = -1;
  for (int r = 0; r < p->n_results; r++)
    if (p->tied[r] >= 0) b->tied[p->values[p->result[r]].root] = true;
  add_arguments(b);
  int *pool = b->pool;
  for (int i = 0; i < p->n_steps; i++) {
    add_nodes(b, i, step_seconds[i], &pool);
    b->seconds_none += step_seconds[i];
  }
  add_outputs(b);
  add_stores(b);
  int64_t most = 0;   // as in remat_problem.c: no workspace may be negative
  for (int n = 0; n < b->problem.n_nodes; n++)
    if (b->saved[n] - b->nodes[n].workspace > most) most = b->saved[n] - b->nodes[n].workspace;
  for (int n = 0; n < b->problem.n_nodes; n++)
    if (!b->nodes[n].home) b->nodes[n].workspace += most - b->saved[n];
  b->tier.workspace = most;
  b->slack = most;
  b->problem.fixed_bytes = persistent_bytes - b->home_bytes;
  b->problem.nodes = b->nodes;
  b->problem.outputs = b->outputs;
  InputError error;
  if (!remat_problem_check(&b->problem, &error)) remat_bug("bound: %s", error.message);
}

void step_bound_free(StepBound *b) {
  free(b->nodes);
  free(b->saved);
  free(b->pool);
  free(b->outputs);
  free(b->value_node);
  free(b->tied);
  *b = (StepBound){0};
}

double step_bound_overhead(const StepBound *b, int64_t budget, double time_limit) {
  double cost = remat_lower_bound(&b->problem, budget + b->slack, time_limit);
  if (isinf(cost)) return INFINITY;
  return b->seconds_none > 0 && cost > b->seconds_none ? cost / b->seconds_none - 1 : 0;
}

int64_t step_bound_bytes(const StepBound *b) { return remat_min_budget_bound(&b->problem) - b->slack; }
