// The step as a problem for the solver: nodes, bytes, costs, what may run again, and what must come before what.
#include <stdlib.h>
#include <string.h>

#include "passes/remat/remat.h"
#include "support/alloc.h"
#include "support/bytes.h"
#include "support/input_error.h"

static double seconds_of(const NnTarget *target, MlirOperation op) {
  if (target && target->seconds) return target->seconds(target, op);
  double arithmetic = nn_op_flops(op) / 1e11, memory = nn_op_bytes(op) / 1e10;   // no target: any balanced machine
  return 1e-6 + (arithmetic > memory ? arithmetic : memory);
}

static bool is_library(const PlanStep *s) { return s->kernel < 0 && s->role == NN_STEP_RUN; }

static int node_of_value(const StepProblem *q, int value) {
  int root = q->p->values[value].root;
  int arg = q->p->values[root].arg;
  return arg >= 0 ? q->arg_node[arg] : q->value_node[root];
}

RematRole step_role(MlirOperation op) {
  char buf[16];
  const char *phase = nn_attr_str(op, ATTR_phase, buf, sizeof buf, "forward");
  return !strcmp(phase, "update") ? REMAT_UPDATE : !strcmp(phase, "backward") ? REMAT_BACKWARD : REMAT_FORWARD;
}

// Whether some step that reads no other step's result does not read all arguments that are nodes.
static bool steps_may_precede_arguments(const StepProblem *q) {
  PlanProgram *p = q->p;
  bool any = false, *read = allocate_array((size_t)q->n_arg_nodes, sizeof *read);
  for (int i = 0; i < p->n_steps && !any; i++) {
    bool begins = true;
    int n_read = 0;
    memset(read, 0, (size_t)q->n_arg_nodes * sizeof *read);
    for (int j = 0; j < p->steps[i].n_inputs; j++) {
      int arg = p->values[p->values[p->steps[i].inputs[j]].root].arg, node = arg < 0 ? -1 : q->arg_node[arg];
      begins &= arg >= 0;
      if (node >= q->n_homes && !read[node]) n_read += read[node] = true;
    }
    any = begins && n_read < q->n_arg_nodes - q->n_homes;
  }
  free(read);
  return any;
}

// The runtime fills the arguments before the first step, so that all are live then. Where the search could order it
// otherwise a node without bytes reads them all, and every step comes after it.
static void add_begin_node(StepProblem *q) {
  q->begin = -1;
  if (q->n_arg_nodes == q->n_homes || !steps_may_precede_arguments(q)) return;
  q->begin = q->n_arg_nodes++;
  q->first_step[q->begin] = -1;
  q->nodes[q->begin] = (RematNode){.inputs = q->pool, .n_inputs = q->begin - q->n_homes};
  for (int a = q->n_homes; a < q->begin; a++) q->pool[a - q->n_homes] = a;
}

// The least bytes of a copy: less is not worth one.
static int64_t least_copied(const StepProblem *q) { return q->small_bytes > FAR_BLOCK ? q->small_bytes : FAR_BLOCK; }

// Whether a persistent argument may be at home far away: what updates it, if anything does, computes the whole new
// value in its place, in an update.
static bool may_be_far(const StepProblem *q, const PlanLayout *l, const RematFar *far, int a, int *result) {
  const PlanProgram *p = q->p;
  if (!p->values[a].persistent || p->values[a].bytes < least_copied(q) || !remat_can_be_far(p, a, result)) return false;
  bool known = ptr_map_get(&far->near, plan_argument_key(p->func, a)) < 0;
  if (!known || *result < 0) return known;
  int value = p->result[*result];
  const PlanStep *s = &p->steps[p->values[value].def];
  bool reads = false;
  for (int j = 0; j < s->n_inputs; j++) reads |= p->values[s->inputs[j]].root == a;
  return reads && step_role(s->op) == REMAT_UPDATE &&
         l->instances[l->result_instance[*result]].buffer == l->instances[a].buffer;
}

static void add_homes(StepProblem *q, const PlanLayout *l, const RematFar *far) {
  PlanProgram *p = q->p;
  for (int a = 0; a < p->n_args && q->problem.far; a++) {
    int result;
    if (!may_be_far(q, l, far, a, &result)) continue;
    int node = q->arg_node[a] = q->n_arg_nodes++;
    q->nodes[node] = (RematNode){.bytes = plan_align(p, p->values[a].bytes), .home = true};
    q->node_value[node] = a;
    q->home_result[node] = result;
  }
  q->n_homes = q->n_arg_nodes;
}

static void add_argument_nodes(StepProblem *q, const PlanLayout *l, const RematFar *far) {
  PlanProgram *p = q->p;
  q->arg_node = allocate_array((size_t)p->n_args, sizeof *q->arg_node);
  for (int a = 0; a < p->n_args; a++) q->arg_node[a] = -1;
  add_homes(q, l, far);
  for (int a = 0; a < p->n_args; a++) {
    if (p->values[a].persistent) continue;
    q->arg_node[a] = q->n_arg_nodes++;
    q->nodes[q->arg_node[a]] = (RematNode){.bytes = plan_align(p, p->values[a].bytes)};
  }
  add_begin_node(q);
}

// ---------------------------------------------------------------------------------------------------------------------
// Nodes of steps

enum { MAX_PARTS = 32 };   // nodes of one step

static bool is_persistent(const PlanLayout *l, int instance) {
  return l->buffers[l->instances[instance].buffer].persistent;
}

// A step, or what remat_again.c finds of it, may run again unless it updates something or is a tap. What a step
// computes depends on its operands alone.
static bool may_run_again(const StepProblem *q, const PlanLayout *l, int i) {
  const PlanStep *s = &q->p->steps[i];
  bool again = s->role == NN_STEP_RUN && step_role(s->op) != REMAT_UPDATE;
  for (int r = 0; r < s->n_results; r++) again &= s->again || !is_persistent(l, l->first_instance[i] + r);
  return again;
}

// Gives the results of a step nodes of their own. Part 0 is the execution, and holds the one large result if there is
// just one, else a buffer as large as all large ones together, which the other parts read: they cost nothing and take
// their bytes over from it (see count_savings), so that each result may die, or be wanted again, alone. The small
// results together are a part that is never made again: keeping them costs little, and they must not hold the large one
// (a bias gradient that waits for the optimizer, a saved row statistic). A step of small results is one node.
static int split_results(StepProblem *q, const PlanLayout *l, int i) {
  const PlanProgram *p = q->p;
  const PlanStep *s = &p->steps[i];
  int parts = 1, n_large = 0, small = 0;
  int64_t most = 0;
  for (int r = 0; r < s->n_results; r++) {
    int64_t bytes = is_persistent(l, l->first_instance[i] + r) ? 0 : p->values[s->first_result + r].bytes;
    if (bytes > most) most = bytes;
  }
  int64_t limit = most / 8 > q->small_bytes ? most / 8 : q->small_bytes;
  for (int r = 0; r < s->n_results; r++)
    n_large += p->values[s->first_result + r].bytes > limit && !is_persistent(l, l->first_instance[i] + r);
  if (n_large > MAX_PARTS) n_large = 0;
  for (int r = 0; r < s->n_results; r++) {
    bool large = p->values[s->first_result + r].bytes > limit && !is_persistent(l, l->first_instance[i] + r);
    if (n_large > 0 && !large && !small) small = parts++;
    int part = n_large == 0 ? 0 : !large ? small : n_large > 1 ? parts++ : 0, node = q->problem.n_nodes + part;
    q->value_node[s->first_result + r] = node;
    q->large[node] = large && n_large > 1;
  }
  return parts;
}

// Links steps into chains: the result of i has one reader, which writes over it (so it is not returned), works in the
// same phase and needs nothing made after i.
static void link_chains(StepProblem *q, const PlanLayout *l) {
  PlanProgram *p = q->p;
  int *readers = allocate_array((size_t)p->n_values, sizeof *readers),
      *start = allocate_array((size_t)p->n_steps, sizeof *start);
  for (int i = 0; i < p->n_steps; i++)
    for (int j = 0; j < p->steps[i].n_inputs; j++) readers[p->values[p->steps[i].inputs[j]].root]++;
  for (int i = 0; i < p->n_steps; i++) q->next_step[i] = -1;
  for (int j = 0; j < p->n_steps; j++) {
    const PlanStep *s = &p->steps[j];
    const PlanInstance *made = s->n_results == 1 ? &l->instances[l->first_instance[j]] : NULL;
    start[j] = j;
    if (!made || made->inplace < 0 || l->buffers[made->buffer].persistent) continue;
    int root = p->values[s->inputs[made->inplace]].root, i = p->values[root].def;
    if (i < 0 || p->steps[i].n_results != 1 || p->steps[i].role != NN_STEP_RUN || readers[root] != 1 ||
        step_role(p->steps[i].op) != step_role(s->op))
      continue;
    bool ready = step_role(s->op) != REMAT_UPDATE;
    for (int k = 0; k < s->n_inputs; k++) {
      int def = p->values[s->inputs[k]].def;
      ready &= def == i || def < start[i];
    }
    if (!ready) continue;
    q->next_step[i] = j;
    start[j] = start[i];
  }
  for (int i = 0; i < p->n_steps; i++) {
    if (start[i] != i) continue;
    q->step_node[i] = q->problem.n_nodes;
    int parts = split_results(q, l, i);
    for (int part = 0; part < parts; part++) {
      int node = q->problem.n_nodes++;
      q->first_step[node] = i;
      q->n_parts[node] = parts;
      q->part[node] = part;
    }
    for (int k = q->next_step[i]; k >= 0; k = q->next_step[k]) {
      q->step_node[k] = q->step_node[i];
      for (int r = 0; r < p->steps[k].n_results; r++) q->value_node[p->steps[k].first_result + r] = q->step_node[i];
    }
  }
  free(start);
  free(readers);
}

int64_t step_problem_overlap(const StepProblem *q, const PlanLayout *l, int position) {
  int64_t bytes = 0;
  int step = l->exec ? l->exec[position] : position;
  for (int r = 0; r < q->p->steps[step].n_results; r++) {
    const PlanInstance *made = &l->instances[l->first_instance[position] + r];
    if (made->inplace >= 0 && !l->buffers[made->buffer].persistent)
      bytes += plan_align(q->p, q->p->values[made->value].bytes);
  }
  return bytes;
}

static void add_step(StepProblem *q, int n, int i, const PlanLayout *l) {
  PlanProgram *p = q->p;
  const PlanStep *s = &p->steps[i];
  RematNode *node = &q->nodes[n];
  int64_t workspace = plan_align(p, s->workspace);
  if (is_library(s)) node->cost_class = REMAT_EXPENSIVE;
  node->cost += q->step_seconds[i];
  node->recomputable &= may_run_again(q, l, i);
  node->bytes = 0;
  for (int r = 0; r < s->n_results; r++) {
    int64_t bytes = plan_align(p, p->values[s->first_result + r].bytes);
    int shown = q->value_node[s->first_result + r];
    if (is_persistent(l, l->first_instance[i] + r)) continue;   // an update written in place
    if (shown == n || q->large[shown]) node->bytes += bytes;
    else workspace += bytes;   // made at the same time, counted from then on by its own node
  }
  if (workspace > node->workspace) node->workspace = workspace;
}

static void find_seconds(StepProblem *q, const NnTarget *target) {
  PlanProgram *p = q->p;
  double *kernel_seconds = allocate_array((size_t)p->n_kernels, sizeof *kernel_seconds);
  for (int i = 0; i < p->n_steps; i++) {
    const PlanStep *s = &p->steps[i];
    if (s->role != NN_STEP_RUN) continue;
    double *known = s->kernel >= 0 ? &kernel_seconds[s->kernel] : &q->step_seconds[i];
    if (*known == 0) *known = seconds_of(target, s->op);
    q->step_seconds[i] = *known;
    q->seconds_none += *known;
  }
  free(kernel_seconds);
}

static void add_result(StepProblem *q, int n, const PlanLayout *l, int *pool) {
  const PlanProgram *p = q->p;
  RematNode *node = &q->nodes[n];
  const PlanStep *s = &p->steps[q->first_step[n]];
  node->recomputable = q->large[n] && may_run_again(q, l, q->first_step[n]);
  pool[node->n_inputs++] = n - q->part[n];
  for (int r = 0; r < s->n_results; r++)
    if (q->value_node[s->first_result + r] == n && !is_persistent(l, l->first_instance[q->first_step[n]] + r))
      node->bytes += plan_align(p, p->values[s->first_result + r].bytes);
}

// What reads the new value of a home reads that home, too: it may have to be fetched.
static void add_updated_home(StepProblem *q, int n, int value, int *pool) {
  for (int h = 0; h < q->n_homes; h++)
    if (q->home_result[h] >= 0 && q->p->values[value].root == q->p->result[q->home_result[h]] &&
        q->nodes[h].updated_by != n)
      pool[q->nodes[n].n_inputs++] = h;
}

// An update reads what it overwrites, as the problem has it, whether the step does or not: a part of it does not.
static void add_overwritten_homes(StepProblem *q, int n, int *pool) {
  RematNode *node = &q->nodes[n];
  for (int h = 0; h < q->n_homes; h++) {
    bool reads = q->home_result[h] < 0 || q->nodes[h].updated_by != n;
    for (int i = 0; i < node->n_inputs && !reads; i++) reads = pool[i] == h;
    if (!reads) pool[node->n_inputs++] = h;
  }
}

static void add_step_nodes(StepProblem *q, const PlanLayout *l) {
  PlanProgram *p = q->p;
  int *pool = q->pool + q->n_arg_nodes;
  for (int n = q->n_arg_nodes; n < q->problem.n_nodes; n++) {
    RematNode *node = &q->nodes[n];
    *node = (RematNode){.inputs = pool,
                        .role = step_role(p->steps[q->first_step[n]].op),
                        .cost_class = REMAT_CHEAP,
                        .recomputable = true};
    for (int i = q->first_step[n]; i >= 0 && q->part[n] == 0; i = q->next_step[i]) {
      add_step(q, n, i, l);
      for (int j = 0; j < p->steps[i].n_inputs; j++) {
        int from = node_of_value(q, p->steps[i].inputs[j]);
        if (from >= 0 && from != n) pool[node->n_inputs++] = from;
        if (q->problem.far) add_updated_home(q, n, p->steps[i].inputs[j], pool);
      }
    }
    if (q->part[n] > 0) add_result(q, n, l, pool);
    if (q->problem.far) add_overwritten_homes(q, n, pool);
    bool begins = q->begin >= 0;
    for (int k = 0; k < node->n_inputs; k++) begins &= pool[k] < q->begin;
    if (begins) pool[node->n_inputs++] = q->begin;
    pool += node->n_inputs;
  }
}

// Whether part 0 of the step's node holds the bytes of several large results until their own nodes take them over.
static bool is_shared(const StepProblem *q, int node) {
  bool any = false;
  for (int part = 0; part < q->n_parts[node]; part++) any |= q->large[node - q->part[node] + part];
  return any;
}

// The home that a value is, or the update of, -1: none.
static int home_of(const StepProblem *q, int value) {
  int root = q->p->values[value].root;
  for (int h = 0; h < q->n_homes; h++)
    if (q->node_value[h] == root || (q->home_result[h] >= 0 && q->p->result[q->home_result[h]] == root)) return h;
  return -1;
}

// Bytes of results that an update can write over near copies of homes that nobody reads behind it: where those are at
// home near there are no such copies, which is found out as below.
static int64_t overlap_of_copies(const StepProblem *q, const PlanLayout *l, int i) {
  PlanProgram *p = q->p;
  const PlanStep *s = &p->steps[i];
  int64_t bytes = 0;
  for (int r = 0; r < s->n_results && step_role(s->op) == REMAT_UPDATE; r++) {
    const PlanInstance *made = &l->instances[l->first_instance[i] + r];
    bool over = made->inplace >= 0 || is_persistent(l, l->first_instance[i] + r);
    for (int o = 0; o < s->n_inputs && !over; o++) {
      int root = p->values[s->inputs[o]].root;
      if (home_of(q, root) < 0 || p->values[root].bytes != p->values[made->value].bytes) continue;
      bool last = true;
      for (int j = i + 1; j < p->n_steps && last; j++)
        for (int k = 0; k < p->steps[j].n_inputs; k++) last &= p->values[p->steps[j].inputs[k]].root != root;
      over = last && plan_inplace_allowed(p, i, r, o);
      if (over) bytes += plan_align(p, p->values[root].bytes);
    }
  }
  return bytes;
}

// A step that writes over an operand needs less than its operands and results together; so does a part while part 0
// still holds its bytes. The solver adds them up, and has no negative workspace: every node gets a workspace larger by
// the largest saving, less its own, and the difference is taken off what is fixed, or, where that is too little, added
// to the budget: `slack`. Right as long as the operand dies where it did when nothing ran twice; where it lives on, the
// real plan needs more than the problem says, which is found out when a schedule is laid out.
static void count_savings(StepProblem *q, const PlanLayout *l, int64_t persistent_bytes) {
  int n = q->problem.n_nodes;
  int64_t most = 0;
  q->saved = allocate_array((size_t)n, sizeof *q->saved);
  for (int v = q->n_arg_nodes; v < n; v++) {
    if (q->part[v] == 0)
      q->saved[v] = step_problem_overlap(q, l, q->first_step[v]) + overlap_of_copies(q, l, q->first_step[v]);
    int64_t saved = q->part[v] > 0 && is_shared(q, v) ? q->nodes[v - q->part[v]].bytes : q->saved[v];
    q->nodes[v].workspace -= saved;
    if (-q->nodes[v].workspace > most) most = -q->nodes[v].workspace;
  }
  int64_t fixed = persistent_bytes;
  for (int h = 0; h < q->n_homes; h++) fixed -= q->nodes[h].bytes;
  q->slack = most > fixed ? most - fixed : 0;
  q->problem.fixed_bytes = fixed + q->slack - most;
  for (int v = q->n_homes; v < n; v++) q->nodes[v].workspace += most;
  q->tier.workspace = most;
}

// ---------------------------------------------------------------------------------------------------------------------
// The rest

static void add_outputs(StepProblem *q, const PlanLayout *l) {
  PlanProgram *p = q->p;
  q->outputs = allocate_array((size_t)p->n_results, sizeof *q->outputs);
  int n = 0;
  for (int r = 0; r < p->n_results; r++) {
    int node = node_of_value(q, p->result[r]);
    if (node < 0) continue;
    int first = node - q->part[node];
    bool once = p->tied[r] >= 0 && (node < q->n_arg_nodes || !p->steps[q->first_step[node]].again);
    for (int part = 0; part < q->n_parts[node] && once; part++) q->nodes[first + part].recomputable = false;
    if (l->buffers[l->instances[l->result_instance[r]].buffer].persistent) continue;
    bool seen = false;
    for (int k = 0; k < n; k++) seen |= q->outputs[k] == node;
    if (!seen) q->outputs[n++] = node;
  }
  q->problem.n_outputs = n;
  q->problem.outputs = q->outputs;
}

static void add_anti_pair(StepProblem *q, int before, int after, int *capacity) {
  if (q->problem.n_anti == *capacity) {
    *capacity = *capacity ? 2 * *capacity : 64;
    q->anti = reallocate_array(q->anti, (size_t)*capacity, sizeof *q->anti);
  }
  q->anti[q->problem.n_anti++] = (RematAnti){before, after};
}

// `after` stands behind `before`, as in the order found; then it does not run again.
static void keep_order(StepProblem *q, int before, int after, int *capacity) {
  if (before >= after) return;
  q->nodes[after].recomputable = false;
  add_anti_pair(q, before, after, capacity);
}

// Sums over ranks stay where the pass schedule has put them: each begins before what the next one is of is complete,
// and is read behind the begin of others.
static void add_sum_order(StepProblem *q, int *capacity) {
  PlanProgram *p = q->p;
  int *sums = allocate_array((size_t)p->n_steps, sizeof *sums), n = 0;
  int *number = allocate_array((size_t)p->n_values, sizeof *number);   // of the sum that a value is, from 1
  for (int i = 0; i < p->n_steps; i++)
    if (plan_is_sum_over_ranks(&p->steps[i])) sums[n++] = i;
  for (int k = 0; k < n; k++) {
    const PlanStep *s = &p->steps[sums[k]];
    number[s->first_result] = k + 1;
    int last = -1;
    for (int j = 0; j < s->n_inputs; j++)
      if (p->values[s->inputs[j]].def > last) last = p->values[s->inputs[j]].def;
    if (k > 0 && last >= 0) keep_order(q, q->step_node[sums[k - 1]], q->step_node[last], capacity);
  }
  for (int i = 0; i < p->n_steps; i++)
    for (int j = 0; j < p->steps[i].n_inputs; j++) {
      int k = number[p->values[p->steps[i].inputs[j]].root] - 1, behind = k + PLAN_SUMS_AHEAD;
      if (k >= 0) keep_order(q, q->step_node[sums[behind < n ? behind : n - 1]], q->step_node[i], capacity);
    }
  free(sums);
  free(number);
}

// Between what a rank receives from the one before it and what it sends to the next, no other exchange: that would wait
// for ranks that wait for this one.
static void add_chain_order(StepProblem *q, int *capacity) {
  PlanProgram *p = q->p;
  for (int i = 0; i < p->n_steps; i++) {
    bool receives = nn_op_of(p->steps[i].op) == NN_OP_rank_receive, sends = nn_op_of(p->steps[i].op) == NN_OP_rank_send;
    for (int k = 0; k < p->n_steps && (receives || sends); k++) {
      if (p->steps[k].lane != NN_LANE_COMM) continue;
      if (receives && k < i) keep_order(q, q->step_node[k], q->step_node[i], capacity);
      if (sends && k > i) keep_order(q, q->step_node[i], q->step_node[k], capacity);
    }
  }
}

// Whoever reads an argument that is updated does so before the update, which may then be made in place and is not made
// again, nor is what is made beside it. A step that reads it after the update, whose result is copied at the end
// because of that, does not run again.
static void add_anti(StepProblem *q) {
  PlanProgram *p = q->p;
  int *writer = allocate_array((size_t)p->n_args, sizeof *writer), capacity = 0;
  for (int a = 0; a < p->n_args; a++) writer[a] = -1;
  for (int r = 0; r < p->n_results; r++)
    if (p->tied[r] >= 0) writer[p->tied[r]] = p->values[p->values[p->result[r]].root].def;
  for (int i = 0; i < p->n_steps; i++) {
    for (int j = 0; j < p->steps[i].n_inputs; j++) {
      int arg = p->values[p->values[p->steps[i].inputs[j]].root].arg, node = q->step_node[i];
      if (arg < 0 || writer[arg] < 0 || q->step_node[writer[arg]] == node) continue;
      int update = q->step_node[writer[arg]];
      keep_order(q, node, update, &capacity);
      for (int part = 1; part < q->n_parts[update] && node < update; part++)
        q->nodes[update + part].recomputable = false;
      if (node > update) q->nodes[node].recomputable = false;
    }
  }
  add_sum_order(q, &capacity);
  add_chain_order(q, &capacity);
  q->problem.anti = q->anti;
  free(writer);
}

static void mark_checkpoints(StepProblem *q) {
  NnStepList list = nn_flatten(q->p->func);
  for (int i = 0; i < list.n; i++) {
    if (list.items[i].role != NN_STEP_MARK) continue;
    int node = node_of_value(q, ptr_map_get(&q->p->ids, mlirOperationGetOperand(list.items[i].op, 0).ptr));
    if (node < 0) continue;
    // The whole step is kept: its other results cannot be had from the marked one, only from what came before.
    int first = node - q->part[node], parts = node < q->n_arg_nodes ? 1 : q->n_parts[node];
    for (int part = 0; part < parts; part++) q->nodes[first + part].checkpoint = true;
  }
  nn_steps_free(&list);
}

// Of homes the steps that update them; of other nodes whether they are one large value that no exchange has.
static void mark_moved(StepProblem *q, const PlanLayout *l) {
  PlanProgram *p = q->p;
  bool *exchanged = allocate_array((size_t)p->n_values, sizeof *exchanged);
  int *count = allocate_array((size_t)q->problem.n_nodes, sizeof *count);
  for (int i = 0; i < p->n_steps; i++) {
    const PlanStep *s = &p->steps[i];
    for (int j = 0; j < s->n_inputs; j++) exchanged[p->values[s->inputs[j]].root] |= s->lane != NN_LANE_COMPUTE;
    for (int r = 0; r < s->n_results; r++) exchanged[s->first_result + r] |= s->lane != NN_LANE_COMPUTE;
  }
  for (int r = 0; r < p->n_results; r++) exchanged[p->values[p->result[r]].root] |= p->tied[r] >= 0;
  for (int i = 0; i < p->n_steps; i++)
    for (int r = 0; r < p->steps[i].n_results; r++) {
      int v = p->steps[i].first_result + r, node = q->value_node[v];
      bool last = q->next_step[i] < 0 && !is_persistent(l, l->first_instance[i] + r);
      if (!last) continue;
      count[node]++;
      q->node_value[node] = v;
    }
  for (int n = q->n_arg_nodes; n < q->problem.n_nodes; n++) {
    int v = q->node_value[n];
    bool hub = q->n_parts[n] > 1 && q->part[n] == 0 && is_shared(q, n);
    if (count[n] != 1 || hub || exchanged[v] || p->values[v].bytes < least_copied(q)) q->node_value[n] = -1;
    q->nodes[n].movable = q->node_value[n] >= 0;
  }
  free(exchanged);
  free(count);
}

static void set_tier(StepProblem *q, const NnTarget *target, int64_t budget) {
  static const NnFarRates usual = {1e9, 1e9, 1e-4, 0};   // no target: any disk
  q->rates = target ? target->far : usual;
  q->tier = (RematTier){.out_rate = q->rates.out_bytes_per_second,
                        .in_rate = q->rates.in_bytes_per_second,
                        .latency = q->rates.copy_seconds,
                        .drag = q->rates.drag_seconds_per_byte,
                        .budget = budget};
  q->problem.far = &q->tier;
}

void step_problem_build(StepProblem *q, PlanProgram *p, int64_t persistent_bytes, const NnTarget *target,
                        const RematFar *far) {
  enum { SMALL = 1024 };   // a step whose results are smaller than the largest value by this factor is not split
  *q = (StepProblem){.p = p};
  if (far) set_tier(q, target, far->budget);
  for (int v = 0; v < p->n_values; v++)
    if (!p->values[v].persistent && p->values[v].bytes / SMALL > q->small_bytes)
      q->small_bytes = p->values[v].bytes / SMALL;
  remat_find_again(p, q->small_bytes);
  PlanLayout l;
  plan_layout_build(p, NULL, p->n_steps, PLAN_INPLACE_DECIDE, &l);
  size_t n_inputs = (size_t)(2 * p->n_args + 1 + p->n_steps),
         max_nodes = (size_t)(p->n_args + 1 + p->n_steps + p->n_values), n_steps = (size_t)p->n_steps;
  for (int i = 0; i < p->n_steps; i++)
    n_inputs += (size_t)((q->problem.far ? 2 : 1) * p->steps[i].n_inputs + 1) *
                (size_t)(p->steps[i].n_results > 1 ? p->steps[i].n_results : 1);
  q->nodes = allocate_array(max_nodes, sizeof *q->nodes);
  q->first_step = allocate_array(max_nodes, sizeof *q->first_step);
  q->large = allocate_array(max_nodes, sizeof *q->large);
  q->n_parts = allocate_array(max_nodes, sizeof *q->n_parts);
  q->part = allocate_array(max_nodes, sizeof *q->part);
  q->pool = allocate_array(n_inputs, sizeof *q->pool);
  q->value_node = allocate_array((size_t)p->n_values, sizeof *q->value_node);
  q->step_node = allocate_array(n_steps, sizeof *q->step_node);
  q->next_step = allocate_array(n_steps, sizeof *q->next_step);
  q->step_seconds = allocate_array(n_steps, sizeof *q->step_seconds);
  q->node_value = allocate_array(max_nodes, sizeof *q->node_value);
  q->home_result = allocate_array(max_nodes, sizeof *q->home_result);
  for (size_t i = 0; i < max_nodes; i++) q->node_value[i] = q->home_result[i] = -1;
  add_argument_nodes(q, &l, far);
  q->problem.n_nodes = q->n_arg_nodes;
  link_chains(q, &l);
  find_seconds(q, target);
  for (int h = 0; h < q->n_homes; h++)
    if (q->home_result[h] >= 0) q->nodes[h].updated_by = q->value_node[p->result[q->home_result[h]]];
  add_step_nodes(q, &l);
  add_outputs(q, &l);
  add_anti(q);
  mark_checkpoints(q);
  if (q->problem.far) mark_moved(q, &l);
  count_savings(q, &l, persistent_bytes);
  q->problem.nodes = q->nodes;
  plan_layout_place(p, &l, 0, PLAN_LONG);   // as the pass plan does
  q->arena_none = persistent_bytes + l.arena;
  q->activations_none = plan_layout_activations(p, &l);
  plan_layout_free(&l);
  if (far) {
    q->alone = allocate_array(1, sizeof *q->alone);
    step_problem_build(q->alone, p, persistent_bytes, target, NULL);
  }
  InputError error;
  if (remat_problem_check(&q->problem, &error)) return;
  fprintf(stderr, "internal error: remat: %s\n", error.message);
  abort();
}

void step_problem_free(StepProblem *q) {
  if (q->alone) step_problem_free(q->alone);
  free(q->alone);
  free(q->nodes);
  free(q->arg_node);
  free(q->value_node);
  free(q->first_step);
  free(q->n_parts);
  free(q->part);
  free(q->large);
  free(q->saved);
  free(q->next_step);
  free(q->step_node);
  free(q->step_seconds);
  free(q->pool);
  free(q->outputs);
  free(q->anti);
  free(q->node_value);
  free(q->home_result);
}

// Which homes a schedule has far away. Owned, per argument; NULL: it copies nothing.
static bool *far_homes(const StepProblem *q, const RematSchedule *s) {
  bool any = false, *far = allocate_array((size_t)q->p->n_args, sizeof *far);
  for (int i = 0; i < s->n && q->problem.far; i++) {
    RematItemKind kind = remat_item_kind(&q->problem, s->exec[i]);
    any |= kind != REMAT_EXECUTE;
    if (kind == REMAT_FAR_HOME) far[q->node_value[remat_item_node(&q->problem, s->exec[i])]] = true;
  }
  if (any) return far;
  free(far);
  return NULL;
}

// The copy that an item is. `updated`: whether the home's update has run.
static int step_of_copy(const StepProblem *q, RematMoves *moves, RematItemKind kind, int node, bool updated) {
  int value = q->node_value[node], result = node < q->n_homes ? q->home_result[node] : -1;
  if (kind == REMAT_STORE)
    return result < 0 ? remat_moves_store(moves, value) : remat_moves_store_update(moves, result);
  return remat_moves_fetch(moves, updated ? q->p->result[result] : value);
}

int *step_problem_expand(const StepProblem *q, const RematSchedule *s, RematMoves *moves, int *n, double *seconds) {
  int capacity = q->p->n_steps + s->n, *exec = allocate_array((size_t)capacity, sizeof *exec);
  bool *far = far_homes(q, s), *run = allocate_array((size_t)q->problem.n_nodes, sizeof *run);
  if (far) remat_moves_build(moves, q->p, far);
  *n = 0;
  *seconds = 0;
  for (int i = 0; i < s->n; i++) {
    RematItemKind kind = remat_item_kind(&q->problem, s->exec[i]);
    int node = remat_item_node(&q->problem, s->exec[i]), update = q->nodes[node].updated_by;
    run[node] |= kind == REMAT_EXECUTE;
    if (kind == REMAT_FAR_HOME || (kind == REMAT_EXECUTE && (node < q->n_arg_nodes || q->part[node] > 0))) continue;
    int first = kind == REMAT_EXECUTE ? q->first_step[node] : step_of_copy(q, moves, kind, node, update && run[update]);
    for (int k = first; k >= 0; k = kind == REMAT_EXECUTE ? q->next_step[k] : -1) {
      if (*n == capacity) exec = reallocate_array(exec, (size_t)(capacity *= 2), sizeof *exec);
      exec[(*n)++] = k;
      if (kind == REMAT_EXECUTE) *seconds += q->step_seconds[k];
    }
  }
  if (far) remat_moves_end(moves);
  free(far);
  free(run);
  return exec;
}

// ---------------------------------------------------------------------------------------------------------------------
// As JSON

static char *node_name(const StepProblem *q, int node) {
  PlanProgram *p = q->p;
  for (int a = 0; a < p->n_args; a++)
    if (q->arg_node[a] == node) return plan_argument_name(p->func, a);
  if (node == q->begin) return copy_string("begin");
  char *text = NULL, label[96] = "";
  size_t length;
  FILE *out = open_memstream(&text, &length);
  if (!out) abort();
  for (int i = q->first_step[node]; i >= 0; i = q->next_step[i]) {
    const PlanStep *s = &p->steps[i];
    NnOp kind = nn_op_of(s->op);
    if (s->kernel >= 0) nn_attr_str(p->kernels[s->kernel].func, ATTR_label, label, sizeof label, "kernel");
    else snprintf(label, sizeof label, "%s", kind == NN_OP_NONE ? "op" : nn_op_info(kind)->name);
    fprintf(out, "%s%s.%d", i == q->first_step[node] ? "" : " ", label, i);
  }
  if (q->n_parts[node] > 1) fprintf(out, " part %d", q->part[node]);
  fclose(out);
  return text;
}

void nn_remat_problem_print(MlirModule module, const NnTarget *target, int64_t far_budget, FILE *out) {
  PlanPersistent persistent;
  RematForms forms;
  RematFar far;
  remat_far_build(&far, module, target, far_budget);
  plan_persistent_build(&persistent, module, target);
  remat_forms_build(&forms, module, nn_module_train(module), target, persistent.total, far_budget ? &far : NULL);
  StepProblem *q = &forms.items[0].q;
  char **names = allocate_array((size_t)q->problem.n_nodes, sizeof *names);
  for (int n = 0; n < q->problem.n_nodes; n++) q->nodes[n].name = names[n] = node_name(q, n);
  remat_problem_write(out, &q->problem);
  for (int n = 0; n < q->problem.n_nodes; n++) free(names[n]);
  free(names);
  remat_forms_end(&forms, -1);
  remat_far_free(&far);
  plan_persistent_free(&persistent);
}
