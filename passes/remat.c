// The pass `remat`: rematerialization. Poses the step as a RematProblem (passes/solver), lets a policy or the search under a budget
// choose a sequence of executions, and writes the sequence into the function. The solver counts buffers; what is promised is the
// arena: a candidate counts only when the real plan of it, in-place results and offsets included, fits.
#include <stdlib.h>
#include <string.h>

#include "passes/remat.h"
#include "passes/solver/error.h"
#include "passes/solver/solver.h"

typedef struct Rematter {
  MlirModule module;
  const NnTarget *target;    // Borrowed
  RematPolicy policy;
  const char *policy_name;   // Borrowed
  int64_t budget;            // bytes, 0: none
  RematOptions options;
  int64_t persistent;        // bytes
} Rematter;

// ---------------------------------------------------------------------------------------------------------------------
// The problem of a function: a node per argument that the runtime fills, then one per chain of steps. A chain is a step and the step
// that alone reads its result and overwrites it in place: together they occupy one buffer, which the solver could not know of two.

typedef struct Problem {
  PlanProgram *p;            // Borrowed
  RematProblem problem;
  RematNode *nodes;          // Owned
  int *pool;                 // Owned; inputs
  int *outputs;              // Owned
  RematAnti *anti;           // Owned
  int n_arg_nodes;
  int *node_of_step;         // Owned
  int *first_step;           // Owned, per node; -1 for arguments
  int *next_step;            // Owned, per step: the next of its chain, -1 ends
  int *arg_node;             // Owned, per argument: node, -1 for persistent ones
  int64_t arena_none;        // bytes: the arena when every step runs once
} Problem;

static double seconds_of(const NnTarget *target, MlirOperation op) {
  if (target && target->seconds) return target->seconds(target, op);
  double arithmetic = nn_op_flops(op) / 1e11, memory = nn_op_bytes(op) / 1e10;   // no target: any balanced machine
  return 1e-6 + (arithmetic > memory ? arithmetic : memory);
}

static bool is_library(const PlanStep *s) { return s->kernel < 0 && s->role == NN_STEP_RUN; }

static int node_of_value(const Problem *q, int value) {
  const PlanValue *root = &q->p->values[q->p->values[value].root];
  return root->arg >= 0 ? q->arg_node[root->arg] : q->node_of_step[root->def];
}

static RematRole role_of(MlirOperation op) {
  char buf[16];
  const char *phase = nn_attr_str(op, "nn.phase", buf, sizeof buf, "forward");
  return !strcmp(phase, "update") ? REMAT_UPDATE : !strcmp(phase, "backward") ? REMAT_BACKWARD : REMAT_FORWARD;
}

static void add_argument_nodes(Problem *q) {
  PlanProgram *p = q->p;
  q->arg_node = solver_allocate((size_t)p->n_args, sizeof *q->arg_node);
  for (int a = 0; a < p->n_args; a++) {
    q->arg_node[a] = -1;
    if (p->values[a].persistent) continue;
    q->arg_node[a] = q->n_arg_nodes++;
    q->nodes[q->arg_node[a]] = (RematNode){.bytes = plan_align(p, p->values[a].bytes)};
  }
}

// Links steps into chains: the result of i has one reader, which writes over it, works in the same phase and needs nothing made after i.
static void link_chains(Problem *q, const PlanLayout *l) {
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
    int node = q->problem.n_nodes++;
    q->first_step[node] = i;
    for (int k = i; k >= 0; k = q->next_step[k]) q->node_of_step[k] = node;
  }
  free(inside);
  free(readers);
}

static void add_step(Problem *q, RematNode *node, int i, const PlanLayout *l, double seconds) {
  PlanProgram *p = q->p;
  const PlanStep *s = &p->steps[i];
  int64_t workspace = plan_align(p, s->workspace);
  if (workspace > node->workspace) node->workspace = workspace;
  if (is_library(s)) node->cost_class = REMAT_EXPENSIVE;
  node->cost += seconds;
  node->recomputable &= s->role == NN_STEP_RUN && role_of(s->op) == REMAT_FORWARD;
  node->bytes = 0;
  for (int r = 0; r < s->n_results; r++) {
    const PlanInstance *made = &l->instances[l->first_instance[i] + r];
    if (l->buffers[made->buffer].persistent) node->recomputable = false;   // an update written in place
    else node->bytes += plan_align(p, p->values[made->value].bytes);
  }
}

static void add_step_nodes(Problem *q, const PlanLayout *l, const NnTarget *target) {
  PlanProgram *p = q->p;
  int *pool = q->pool;
  double *kernel_seconds = solver_allocate((size_t)p->n_kernels, sizeof *kernel_seconds);
  for (int n = q->n_arg_nodes; n < q->problem.n_nodes; n++) {
    RematNode *node = &q->nodes[n];
    *node = (RematNode){.inputs = pool, .role = role_of(p->steps[q->first_step[n]].op), .cost_class = REMAT_CHEAP, .recomputable = true};
    for (int i = q->first_step[n]; i >= 0; i = q->next_step[i]) {
      const PlanStep *s = &p->steps[i];
      double seconds = 0;
      if (s->kernel >= 0) {
        double *known = &kernel_seconds[s->kernel];
        if (*known == 0) *known = seconds_of(target, s->op);
        seconds = *known;
      } else if (s->role == NN_STEP_RUN) {
        seconds = seconds_of(target, s->op);
      }
      add_step(q, node, i, l, seconds);
      for (int j = 0; j < s->n_inputs; j++) {
        int from = node_of_value(q, s->inputs[j]);
        if (from >= 0 && from != n) pool[node->n_inputs++] = from;
      }
    }
    pool += node->n_inputs;
  }
  free(kernel_seconds);
}

static void add_outputs(Problem *q, const PlanLayout *l) {
  PlanProgram *p = q->p;
  q->outputs = solver_allocate((size_t)p->n_results, sizeof *q->outputs);
  int n = 0;
  for (int r = 0; r < p->n_results; r++) {
    int node = node_of_value(q, p->result[r]);
    if (node < 0) continue;
    if (p->tied[r] >= 0) q->nodes[node].recomputable = false;
    if (l->buffers[l->instances[l->result_instance[r]].buffer].persistent) continue;
    bool seen = false;
    for (int k = 0; k < n; k++) seen |= q->outputs[k] == node;
    if (!seen) q->outputs[n++] = node;
  }
  q->problem.n_outputs = n;
  q->problem.outputs = q->outputs;
}

// Whoever reads an argument that is updated in place does so before the update.
static void add_anti(Problem *q, const PlanLayout *l) {
  PlanProgram *p = q->p;
  int *writer = solver_allocate((size_t)p->n_args, sizeof *writer), capacity = 0;
  for (int a = 0; a < p->n_args; a++) writer[a] = -1;
  for (int r = 0; r < p->n_results; r++)
    if (p->tied[r] >= 0 && !l->copy_back[r]) writer[p->tied[r]] = p->values[p->result[r]].def;
  for (int i = 0; i < p->n_steps; i++) {
    for (int j = 0; j < p->steps[i].n_inputs; j++) {
      int arg = p->values[p->values[p->steps[i].inputs[j]].root].arg;
      if (arg < 0 || writer[arg] < 0 || q->node_of_step[writer[arg]] == q->node_of_step[i]) continue;
      if (q->problem.n_anti == capacity) {
        capacity = capacity ? 2 * capacity : 64;
        q->anti = solver_reallocate(q->anti, (size_t)capacity, sizeof *q->anti);
      }
      q->anti[q->problem.n_anti++] = (RematAnti){q->node_of_step[i], q->node_of_step[writer[arg]]};
    }
  }
  q->problem.anti = q->anti;
  free(writer);
}

static void mark_checkpoints(Problem *q) {
  NnStepList list = nn_flatten(q->p->func);
  for (int i = 0; i < list.n; i++) {
    if (list.items[i].role != NN_STEP_MARK) continue;
    int node = node_of_value(q, ptr_map_get(&q->p->ids, mlirOperationGetOperand(list.items[i].op, 0).ptr));
    if (node >= 0) q->nodes[node].checkpoint = true;
  }
  nn_steps_free(&list);
}

static void problem_build(Problem *q, PlanProgram *p, const Rematter *m) {
  *q = (Problem){.p = p};
  PlanLayout l;
  plan_layout_build(p, NULL, p->n_steps, PLAN_INPLACE_DECIDE, &l);
  int n_inputs = 0;
  for (int i = 0; i < p->n_steps; i++) n_inputs += p->steps[i].n_inputs;
  q->nodes = solver_allocate((size_t)(p->n_args + p->n_steps), sizeof *q->nodes);
  q->pool = solver_allocate((size_t)n_inputs, sizeof *q->pool);
  q->node_of_step = solver_allocate((size_t)p->n_steps, sizeof *q->node_of_step);
  q->next_step = solver_allocate((size_t)p->n_steps, sizeof *q->next_step);
  q->first_step = solver_allocate((size_t)(p->n_args + p->n_steps), sizeof *q->first_step);
  add_argument_nodes(q);
  q->problem.n_nodes = q->n_arg_nodes;
  link_chains(q, &l);
  add_step_nodes(q, &l, m->target);
  add_outputs(q, &l);
  add_anti(q, &l);
  mark_checkpoints(q);
  q->problem.fixed_bytes = m->persistent;
  q->problem.nodes = q->nodes;
  plan_layout_place(p, &l, 0, PLAN_EFFORT_SHORT);
  q->arena_none = m->persistent + l.arena;
  plan_layout_free(&l);
  SolverError error;
  if (remat_problem_check(&q->problem, &error)) return;
  fprintf(stderr, "internal error: remat: %s\n", error.message);
  abort();
}

static void problem_free(Problem *q) {
  free(q->nodes);
  free(q->pool);
  free(q->outputs);
  free(q->anti);
  free(q->arg_node);
  free(q->node_of_step);
  free(q->first_step);
  free(q->next_step);
}

// ---------------------------------------------------------------------------------------------------------------------
// Candidates

typedef struct Candidate {
  int n;
  int *exec;        // Owned; steps
  double cost;      // seconds
  int64_t arena;    // bytes, of the real plan
} Candidate;

static void candidate_free(Candidate *c) {
  free(c->exec);
  *c = (Candidate){0};
}

// The real plan of a schedule. capacity: enough to know that it fits.
static Candidate evaluate(const Problem *q, const Rematter *m, const RematSchedule *s) {
  Candidate c = {.cost = s->cost};
  int capacity = 0;
  for (int i = 0; i < s->n; i++)
    for (int k = s->exec[i] < q->n_arg_nodes ? -1 : q->first_step[s->exec[i]]; k >= 0; k = q->next_step[k]) capacity++;
  c.exec = solver_allocate((size_t)capacity, sizeof *c.exec);
  for (int i = 0; i < s->n; i++)
    for (int k = s->exec[i] < q->n_arg_nodes ? -1 : q->first_step[s->exec[i]]; k >= 0; k = q->next_step[k]) c.exec[c.n++] = k;
  PlanLayout l;
  plan_layout_build(q->p, c.exec, c.n, PLAN_INPLACE_DECIDE, &l);
  plan_layout_place(q->p, &l, m->budget > m->persistent ? m->budget - m->persistent : 0, PLAN_EFFORT_SHORT);
  c.arena = m->persistent + l.arena;
  plan_layout_free(&l);
  return c;
}

// Keeps the better of two candidates: fitting before not, then cheaper among those that fit, smaller among those that do not.
static void keep_better(Candidate *best, Candidate *c, int64_t budget) {
  bool fits = c->arena <= budget, best_fits = best->exec && best->arena <= budget;
  bool better = !best->exec || (fits && !best_fits) || (fits && c->cost < best->cost) || (!fits && !best_fits && c->arena < best->arena);
  if (better) {
    candidate_free(best);
    *best = *c;
    *c = (Candidate){0};
  }
  candidate_free(c);
}

// Solves for a peak of `target` bytes and keeps the result if it is the best so far. Returns its arena.
static int64_t solve_for(const Problem *q, const Rematter *m, int64_t target, int64_t max_moves, Candidate *best) {
  RematOptions options = m->options;
  options.max_moves = max_moves;
  RematResult result;
  remat_solve(&q->problem, target, &options, &result);
  Candidate c = evaluate(q, m, &result.schedule);
  int64_t arena = c.arena;
  remat_result_free(&result);
  keep_better(best, &c, m->budget);
  return arena;
}

// The solver knows no in-place results and no gaps between buffers, so its peak is not the arena. Quick solutions find the target whose
// schedules just fit in truth; the long search then runs there.
static void solve_under_budget(const Problem *q, const Rematter *m, Candidate *best) {
  enum { QUICK = -1, FULL = 0, ROUNDS = 9 };
  RematSchedule none = remat_baseline(&q->problem);
  int64_t target = m->budget + (none.peak > q->arena_none ? none.peak - q->arena_none : 0), fits = 0, over = 0, grain = m->budget / 256 + 1;
  int64_t highest = none.peak;
  remat_schedule_free(&none);
  for (int round = 0; round < ROUNDS && target > m->persistent; round++) {
    int64_t arena = solve_for(q, m, target, QUICK, best);
    int64_t error = arena - m->budget;
    if (error <= 0) fits = target;
    else over = target;
    if (fits && (over ? over - fits <= grain : error > -grain || target >= highest)) break;
    if (fits && over) target = fits + (over - fits) / 2;
    else if (fits) target -= error;
    else target -= error > grain ? error : grain;
  }
  if (!fits) return;
  if (solve_for(q, m, fits, FULL, best) > m->budget) solve_for(q, m, fits - grain, FULL, best);
}

static void try_policies(const Problem *q, const Rematter *m, Candidate *best) {
  static const RematPolicy policies[] = {REMAT_POLICY_SQRT, REMAT_POLICY_SPEED, REMAT_POLICY_RECURSIVE};
  for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
    RematSchedule s = remat_policy_run(&q->problem, policies[i]);
    Candidate c = evaluate(q, m, &s);
    remat_schedule_free(&s);
    keep_better(best, &c, m->budget);
  }
}

// Fills `best`; its exec is NULL when every step is to run once, in order.
static void choose(const Problem *q, const Rematter *m, Candidate *best) {
  *best = (Candidate){.arena = q->arena_none};
  if (m->policy == REMAT_POLICY_NONE) return;
  if (m->policy != REMAT_POLICY_SOLVE) {
    RematSchedule s = remat_policy_run(&q->problem, m->policy);
    *best = evaluate(q, m, &s);
    remat_schedule_free(&s);
    return;
  }
  if (m->budget == 0 || q->arena_none <= m->budget) return;
  solve_under_budget(q, m, best);
  if (best->arena > m->budget) try_policies(q, m, best);
}

// ---------------------------------------------------------------------------------------------------------------------

static bool may_recompute(MlirOperation func) {
  char name[32];
  nn_attr_str(func, "sym_name", name, sizeof name, "");
  return !strcmp(name, "train") || !strcmp(name, "accumulate");
}

static int64_t function_arena(const Rematter *m, MlirOperation func) {
  PlanProgram p;
  PlanLayout l;
  plan_program_build(&p, m->module, func, m->target);
  plan_layout_build(&p, NULL, p.n_steps, PLAN_INPLACE_DECIDE, &l);
  plan_layout_place(&p, &l, 0, PLAN_EFFORT_SHORT);
  int64_t arena = m->persistent + l.arena;
  plan_layout_free(&l);
  plan_program_free(&p);
  return arena;
}

// Rewrites the function and returns its arena.
static int64_t rematerialize(const Rematter *m, MlirOperation func) {
  PlanProgram p;
  Problem q;
  Candidate best;
  plan_program_build(&p, m->module, func, m->target);
  problem_build(&q, &p, m);
  choose(&q, m, &best);
  double base = 0;
  for (int i = 0; i < q.problem.n_nodes; i++) base += q.nodes[i].cost;
  int64_t arena = best.arena;
  if (m->budget == 0 || arena <= m->budget) {
    if (best.exec) remat_rewrite(&p, best.exec, best.n);
    nn_set_attr(func, &NN_STR("nn.remat", best.exec ? m->policy_name : "none"));
    nn_set_attr(func, &NN_F64A("nn.overhead", best.exec && base > 0 ? best.cost / base - 1 : 0));
    nn_set_attr(func, &NN_I64("nn.arena_none", q.arena_none));
  }
  candidate_free(&best);
  problem_free(&q);
  plan_program_free(&p);
  return arena;
}

static bool read_options(Rematter *m, const NnPassRun *run, int64_t largest, MlirOperation where) {
  m->policy_name = nn_pass_option(run, "policy", "auto");
  const char *budget = nn_pass_option(run, "budget", NULL), *seed = nn_pass_option(run, "seed", NULL), *limit = nn_pass_option(run, "time-limit", NULL);
  double percent = 0;
  if (!remat_policy_parse(m->policy_name, &m->policy)) {
    nn_error(where, "'%s' is not a rematerialization policy", m->policy_name);
    return false;
  }
  if (budget && !nn_parse_size(budget, &m->budget, &percent)) {
    nn_error(where, "'%s' is not a memory budget: expected a size like 512MiB or a percentage of what the step needs without recomputation", budget);
    return false;
  }
  if (percent > 0) m->budget = (int64_t)(percent / 100 * (double)largest);
  if (seed) m->options.seed = strtoull(seed, NULL, 10);
  if (limit) m->options.time_limit = strtod(limit, NULL);
  return true;
}

// Requires: kernels (fuse); schedule's order is what the search starts from.
// Establishes: docs/internals.md, "Remat in the IR"; nn.remat, nn.overhead, nn.arena_none on the functions, nn.budget on the module. With a budget, the arena that
// inplace and plan find fits it.
// Breaks: nn.inplace, nn.offset; checkpoint marks are gone from rewritten functions.
bool nn_pass_remat(MlirModule module, const NnPassRun *run) {
  Rematter m = {.module = module, .target = run->target};
  PlanPersistent persistent;
  plan_persistent_build(&persistent, module, run->target && run->target->alignment > 0 ? run->target->alignment : 64);
  m.persistent = persistent.total;
  plan_persistent_free(&persistent);
  MlirOperation functions[16];
  int n = nn_public_functions(module, functions, 16);
  const char *budget = nn_pass_option(run, "budget", NULL);
  int64_t largest = 0, need = 0;
  for (int f = 0; f < n && budget; f++) {
    int64_t arena = function_arena(&m, functions[f]);
    if (arena > largest) largest = arena;
    if (!may_recompute(functions[f]) && arena > need) need = arena;
  }
  if (!read_options(&m, run, largest, mlirModuleGetOperation(module))) return false;
  for (int f = 0; f < n; f++) {
    if (!may_recompute(functions[f])) continue;
    int64_t arena = rematerialize(&m, functions[f]);
    if (arena > need) need = arena;
  }
  if (m.budget > 0) nn_set_attr(mlirModuleGetOperation(module), &NN_I64("nn.budget", m.budget));
  if (m.budget == 0 || need <= m.budget) return true;
  char want[32], have[32];
  nn_error(mlirModuleGetOperation(module), "memory budget %s cannot be met: the smallest budget found is %s",
           nn_format_bytes(m.budget, want, sizeof want), nn_format_bytes(need, have, sizeof have));
  return false;
}
