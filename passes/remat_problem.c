// The step as a problem for the solver: nodes, bytes, costs, what may run again, and what must come before what.
#include <stdlib.h>
#include <string.h>

#include "passes/remat.h"
#include "passes/solver/error.h"

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

static RematRole role_of(MlirOperation op) {
  char buf[16];
  const char *phase = nn_attr_str(op, "nn.phase", buf, sizeof buf, "forward");
  return !strcmp(phase, "update") ? REMAT_UPDATE : !strcmp(phase, "backward") ? REMAT_BACKWARD : REMAT_FORWARD;
}

static void add_argument_nodes(StepProblem *q) {
  PlanProgram *p = q->p;
  q->arg_node = solver_allocate((size_t)p->n_args, sizeof *q->arg_node);
  for (int a = 0; a < p->n_args; a++) {
    q->arg_node[a] = -1;
    if (p->values[a].persistent) continue;
    q->arg_node[a] = q->n_arg_nodes++;
    q->nodes[q->arg_node[a]] = (RematNode){.bytes = plan_align(p, p->values[a].bytes)};
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Nodes of steps

enum { MAX_PARTS = 32 };   // nodes of one step

static bool is_persistent(const PlanLayout *l, int instance) { return l->buffers[l->instances[instance].buffer].persistent; }

// Result r of a step that never runs again: a node each, the largest result first. The others cost nothing and read it. A bias
// gradient kept to the end must not hold the activation gradient that the same kernel makes.
static int split_lasting_results(StepProblem *q, const PlanStep *s) {
  int lead = 0, n = s->n_results < MAX_PARTS ? s->n_results : MAX_PARTS;
  for (int r = 1; r < n; r++)
    if (q->p->values[s->first_result + r].bytes > q->p->values[s->first_result + lead].bytes) lead = r;
  for (int r = 0; r < s->n_results; r++)
    q->value_node[s->first_result + r] = q->problem.n_nodes + (r == lead || r >= n ? 0 : r < lead ? r + 1 : r);
  return n > 1 ? n : 1;
}

// Gives each large result of a step that may run again a node of its own; the small ones go with the first. Returns the number.
static int split_results(StepProblem *q, const PlanLayout *l, int i) {
  const PlanStep *s = &q->p->steps[i];
  int64_t total = 0;
  bool again = s->role == NN_STEP_RUN && role_of(s->op) == REMAT_FORWARD;
  for (int r = 0; r < s->n_results; r++) {
    total += q->p->values[s->first_result + r].bytes;
    again &= !is_persistent(l, l->first_instance[i] + r);
  }
  if (!again) return split_lasting_results(q, s);
  int parts = 0;
  for (int r = 0; r < s->n_results; r++) {
    bool large = q->p->values[s->first_result + r].bytes > total / 8;
    q->value_node[s->first_result + r] = q->problem.n_nodes + (large ? parts : 0);
    parts += large;
  }
  return parts > 0 ? parts : 1;
}

// Links steps into chains: the result of i has one reader, which writes over it, works in the same phase and needs nothing made after i.
static void link_chains(StepProblem *q, const PlanLayout *l) {
  PlanProgram *p = q->p;
  int *readers = solver_allocate((size_t)p->n_values, sizeof *readers);
  for (int i = 0; i < p->n_steps; i++)
    for (int j = 0; j < p->steps[i].n_inputs; j++) readers[p->values[p->steps[i].inputs[j]].root]++;
  for (int r = 0; r < p->n_results; r++) readers[p->values[p->result[r]].root] += 2;
  bool *inside = solver_allocate((size_t)p->n_steps, sizeof *inside);
  for (int i = 0; i < p->n_steps; i++) q->next_step[i] = -1;
  for (int j = 0; j < p->n_steps; j++) {
    const PlanStep *s = &p->steps[j];
    const PlanInstance *made = s->n_results == 1 ? &l->instances[l->first_instance[j]] : NULL;
    if (!made || made->inplace < 0 || l->buffers[made->buffer].persistent) continue;
    int root = p->values[s->inputs[made->inplace]].root, i = p->values[root].def;
    if (i < 0 || p->steps[i].n_results != 1 || p->steps[i].role != NN_STEP_RUN || readers[root] != 1 || role_of(p->steps[i].op) != role_of(s->op)) continue;
    int start = i;   // of the chain that i ends
    while (inside[start]) start = p->values[p->values[p->steps[start].inputs[l->instances[l->first_instance[start]].inplace]].root].def;
    bool ready = role_of(s->op) != REMAT_UPDATE;
    for (int k = 0; k < s->n_inputs; k++) {
      int def = p->values[s->inputs[k]].def;
      ready &= def == i || def < start;
    }
    if (!ready) continue;
    q->next_step[i] = j;
    inside[j] = true;
  }
  for (int i = 0; i < p->n_steps; i++) {
    if (inside[i]) continue;
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
  free(inside);
  free(readers);
}

static void add_step(StepProblem *q, int n, int i, const PlanLayout *l) {
  PlanProgram *p = q->p;
  const PlanStep *s = &p->steps[i];
  RematNode *node = &q->nodes[n];
  int64_t workspace = plan_align(p, s->workspace);
  if (is_library(s)) node->cost_class = REMAT_EXPENSIVE;
  node->cost += q->step_seconds[i];
  node->recomputable &= s->role == NN_STEP_RUN && role_of(s->op) == REMAT_FORWARD;
  node->bytes = 0;
  for (int r = 0; r < s->n_results; r++) {
    int64_t bytes = plan_align(p, p->values[s->first_result + r].bytes);
    if (is_persistent(l, l->first_instance[i] + r)) node->recomputable = false;   // an update written in place
    else if (q->value_node[s->first_result + r] == n) node->bytes += bytes;
    else if (q->part[n] == 0) workspace += bytes;   // made at the same time, counted from then on by its own node
  }
  if (workspace > node->workspace) node->workspace = workspace;
  if (node->recomputable || q->part[n] == 0) return;
  node->cost = 0;
  node->workspace = 0;
}

static void find_seconds(StepProblem *q, const NnTarget *target) {
  PlanProgram *p = q->p;
  double *kernel_seconds = solver_allocate((size_t)p->n_kernels, sizeof *kernel_seconds);
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

static void add_step_nodes(StepProblem *q, const PlanLayout *l) {
  PlanProgram *p = q->p;
  int *pool = q->pool;
  for (int n = q->n_arg_nodes; n < q->problem.n_nodes; n++) {
    RematNode *node = &q->nodes[n];
    *node = (RematNode){.inputs = pool, .role = role_of(p->steps[q->first_step[n]].op), .cost_class = REMAT_CHEAP, .recomputable = true};
    for (int i = q->first_step[n]; i >= 0; i = q->next_step[i]) {
      add_step(q, n, i, l);
      if (q->part[n] > 0 && !node->recomputable) {   // comes with part 0
        pool[node->n_inputs++] = n - q->part[n];
        continue;
      }
      for (int j = 0; j < p->steps[i].n_inputs; j++) {
        int from = node_of_value(q, p->steps[i].inputs[j]);
        if (from >= 0 && from != n) pool[node->n_inputs++] = from;
      }
    }
    pool += node->n_inputs;
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// The rest

static void add_outputs(StepProblem *q, const PlanLayout *l) {
  PlanProgram *p = q->p;
  q->outputs = solver_allocate((size_t)p->n_results, sizeof *q->outputs);
  int n = 0;
  for (int r = 0; r < p->n_results; r++) {
    int node = node_of_value(q, p->result[r]);
    if (node < 0) continue;
    int first = node - q->part[node];
    for (int part = 0; part < q->n_parts[node] && p->tied[r] >= 0; part++) q->nodes[first + part].recomputable = false;
    if (l->buffers[l->instances[l->result_instance[r]].buffer].persistent) continue;
    bool seen = false;
    for (int k = 0; k < n; k++) seen |= q->outputs[k] == node;
    if (!seen) q->outputs[n++] = node;
  }
  q->problem.n_outputs = n;
  q->problem.outputs = q->outputs;
}

// Whoever reads an argument that is updated in place does so before the update.
static void add_anti(StepProblem *q, const PlanLayout *l) {
  PlanProgram *p = q->p;
  int *writer = solver_allocate((size_t)p->n_args, sizeof *writer), capacity = 0;
  for (int a = 0; a < p->n_args; a++) writer[a] = -1;
  for (int r = 0; r < p->n_results; r++)
    if (p->tied[r] >= 0 && !l->copy_back[r]) writer[p->tied[r]] = p->values[p->result[r]].def;
  for (int i = 0; i < p->n_steps; i++) {
    for (int j = 0; j < p->steps[i].n_inputs; j++) {
      int arg = p->values[p->values[p->steps[i].inputs[j]].root].arg, node = q->step_node[i];
      if (arg < 0 || writer[arg] < 0 || q->step_node[writer[arg]] == node) continue;
      for (int part = 0; part < q->n_parts[node]; part++) {
        if (q->problem.n_anti == capacity) {
          capacity = capacity ? 2 * capacity : 64;
          q->anti = solver_reallocate(q->anti, (size_t)capacity, sizeof *q->anti);
        }
        q->anti[q->problem.n_anti++] = (RematAnti){node + part, q->step_node[writer[arg]]};
      }
    }
  }
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

void step_problem_build(StepProblem *q, PlanProgram *p, int64_t persistent_bytes, const NnTarget *target) {
  *q = (StepProblem){.p = p};
  PlanLayout l;
  plan_layout_build(p, NULL, p->n_steps, PLAN_INPLACE_DECIDE, &l);
  size_t n_inputs = 0, max_nodes = (size_t)(p->n_args + p->n_steps + p->n_values), n_steps = (size_t)p->n_steps;
  for (int i = 0; i < p->n_steps; i++) n_inputs += (size_t)p->steps[i].n_inputs * (size_t)(p->steps[i].n_results > 1 ? p->steps[i].n_results : 1);
  q->nodes = solver_allocate(max_nodes, sizeof *q->nodes);
  q->first_step = solver_allocate(max_nodes, sizeof *q->first_step);
  q->n_parts = solver_allocate(max_nodes, sizeof *q->n_parts);
  q->part = solver_allocate(max_nodes, sizeof *q->part);
  q->pool = solver_allocate(n_inputs, sizeof *q->pool);
  q->value_node = solver_allocate((size_t)p->n_values, sizeof *q->value_node);
  q->step_node = solver_allocate(n_steps, sizeof *q->step_node);
  q->next_step = solver_allocate(n_steps, sizeof *q->next_step);
  q->step_seconds = solver_allocate(n_steps, sizeof *q->step_seconds);
  add_argument_nodes(q);
  q->problem.n_nodes = q->n_arg_nodes;
  link_chains(q, &l);
  find_seconds(q, target);
  add_step_nodes(q, &l);
  add_outputs(q, &l);
  add_anti(q, &l);
  mark_checkpoints(q);
  q->problem.fixed_bytes = persistent_bytes;
  q->problem.nodes = q->nodes;
  plan_layout_place(p, &l, 0, PLAN_EFFORT_SHORT);
  q->arena_none = persistent_bytes + l.arena;
  q->activations_none = plan_layout_activations(p, &l);
  plan_layout_free(&l);
  SolverError error;
  if (remat_problem_check(&q->problem, &error)) return;
  fprintf(stderr, "internal error: remat: %s\n", error.message);
  abort();
}

void step_problem_free(StepProblem *q) {
  free(q->nodes);
  free(q->arg_node);
  free(q->value_node);
  free(q->first_step);
  free(q->n_parts);
  free(q->part);
  free(q->next_step);
  free(q->step_node);
  free(q->step_seconds);
  free(q->pool);
  free(q->outputs);
  free(q->anti);
}

// Nodes of one step that follow each other closely are one execution.
int *step_problem_expand(const StepProblem *q, const RematSchedule *s, int *n, double *seconds) {
  enum { CLOSE = 4 };
  int capacity = q->p->n_steps + s->n, *exec = NULL, *last = solver_allocate((size_t)q->p->n_steps, sizeof *last);
  unsigned *made = solver_allocate((size_t)q->p->n_steps, sizeof *made);   // parts that the last execution has been used for
  exec = solver_allocate((size_t)capacity, sizeof *exec);
  for (int i = 0; i < q->p->n_steps; i++) last[i] = -1;
  *n = 0;
  *seconds = 0;
  for (int i = 0; i < s->n; i++) {
    int node = s->exec[i];
    if (node < q->n_arg_nodes) continue;
    int step = q->first_step[node];
    unsigned bit = 1u << q->part[node];
    if (last[step] >= 0 && !q->nodes[node].recomputable) continue;
    if (last[step] >= 0 && *n - last[step] <= CLOSE && !(made[step] & bit)) {
      made[step] |= bit;
      continue;
    }
    last[step] = *n;
    made[step] = bit;
    for (int k = step; k >= 0; k = q->next_step[k]) {
      if (*n == capacity) exec = solver_reallocate(exec, (size_t)(capacity *= 2), sizeof *exec);
      exec[(*n)++] = k;
      *seconds += q->step_seconds[k];
    }
  }
  free(last);
  free(made);
  return exec;
}
