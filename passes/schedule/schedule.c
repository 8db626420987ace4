// The pass `schedule`: an order of the steps that frees memory early. The forward pass keeps the order of the source;
// an update runs as soon as its gradient is complete, one of several ranks when the exchange of the gradients behind it
// has begun; among backward steps that are ready and not far ahead, the one
// that frees most beyond what it allocates goes first; a step that makes a few numbers of what was just made (the norm
// of a gradient) follows it, while the caches hold that. Kept only where it needs no more memory than the order found,
// but for a thousandth that those numbers may take.
#include <stdlib.h>

#include "passes/plan/plan.h"
#include "passes/rewrite.h"
#include "support/alloc.h"

// How far a step may overtake the first one that still waits: keeps a step that only allocates from being put off for
// ever while it holds its operands. A step that frees more than it allocates may come from anywhere: a bias gradient
// that ends up behind all layers, beside the norm it feeds, would hold an activation gradient until then.
enum { WINDOW = NN_SCHEDULE_WINDOW };
enum { FEW_BYTES = 64 };   // of results

typedef struct Edge {
  int to, next;
} Edge;

typedef struct Scheduler {
  PlanProgram *p;    // Borrowed
  NnOp *op;          // Owned, per step
  int *phase;        // Owned, per step: 0 forward, 1 backward, 2 update
  int *waiting;      // Owned, per step: predecessors not yet run
  int *first_edge;   // Owned, per step
  int n_edges;
  Edge *edges;      // Owned
  int *reads;       // Owned, per value: steps not yet run that read its buffer
  bool *kept;       // Owned, per value: returned, or persistent
  bool *done;       // Owned
  uint64_t *open;   // Owned, a bit per step: not done, and waits for none
  bool *fetched;    // Owned, per step: of is_fetched, and stands in the order
  bool in_chain;    // a rank_receive has run whose rank_send has not: another exchange would wait for ranks that wait
  int n_sums, begun;   // sums over ranks: all, and those that have run
  int *behind;         // Owned, per step: sums begun with the last one that it reads; 0: it reads none
  int *order;          // Owned
} Scheduler;

static void set_open(Scheduler *s, int i, bool open) {
  uint64_t bit = UINT64_C(1) << i % 64;
  s->open[i / 64] = open ? s->open[i / 64] | bit : s->open[i / 64] & ~bit;
}

// The first open step from i on; n_steps or more: none.
static int next_open(const Scheduler *s, int i) {
  int n_words = s->p->n_steps / 64 + 1, word = i / 64;
  if (word >= n_words) return i;
  uint64_t bits = s->open[word] >> i % 64 << i % 64;
  while (!bits && ++word < n_words) bits = s->open[word];
  return bits ? 64 * word + __builtin_ctzll(bits) : s->p->n_steps;
}

static void add_edge(Scheduler *s, int from, int to) {
  *ARRAY_ADD(s->edges, s->n_edges) = (Edge){to, s->first_edge[from]};
  s->first_edge[from] = s->n_edges - 1;
  s->waiting[to]++;
}

// an earlier operand shows the same buffer
static bool reads_before(const PlanStep *step, const PlanProgram *p, int input) {
  for (int j = 0; j < input; j++)
    if (p->values[step->inputs[j]].root == p->values[step->inputs[input]].root) return true;
  return false;
}

// An update runs after every reader of what it overwrites, where the order found has them so.
static void add_order_edges(Scheduler *s) {
  PlanProgram *p = s->p;
  int *writer = allocate_array((size_t)p->n_args, sizeof *writer);
  for (int a = 0; a < p->n_args; a++) writer[a] = -1;
  for (int r = 0; r < p->n_results; r++)
    if (p->tied[r] >= 0) writer[p->tied[r]] = p->values[p->result[r]].def;
  for (int i = 0; i < p->n_steps; i++) {
    for (int j = 0; j < p->steps[i].n_inputs; j++) {
      int arg = p->values[p->values[p->steps[i].inputs[j]].root].arg;
      if (arg >= 0 && writer[arg] > i) add_edge(s, i, writer[arg]);
    }
  }
  free(writer);
}

static void scheduler_create(Scheduler *s, PlanProgram *p) {
  size_t n = (size_t)p->n_steps, v = (size_t)p->n_values;
  *s = (Scheduler){.p = p};
  s->op = allocate_array(n, sizeof *s->op);
  s->phase = allocate_array(n, sizeof *s->phase);
  s->waiting = allocate_array(n, sizeof *s->waiting);
  s->first_edge = allocate_array(n, sizeof *s->first_edge);
  s->reads = allocate_array(v, sizeof *s->reads);
  s->kept = allocate_array(v, sizeof *s->kept);
  s->done = allocate_array(n, sizeof *s->done);
  s->open = allocate_array(n / 64 + 1, sizeof *s->open);
  s->behind = allocate_array(n, sizeof *s->behind);
  s->fetched = allocate_array(n, sizeof *s->fetched);
  s->order = allocate_array(n, sizeof *s->order);
  for (int i = 0; i < p->n_values; i++) s->kept[i] = p->values[i].persistent;
  for (int r = 0; r < p->n_results; r++) s->kept[p->values[p->result[r]].root] = true;
  for (int i = 0; i < p->n_steps; i++) {
    s->op[i] = nn_op_of(p->steps[i].op);
    s->phase[i] = rewrite_phase_rank(rewrite_phase(p->steps[i].op));
    s->first_edge[i] = -1;
  }
  for (int i = 0; i < p->n_steps; i++) {
    const PlanStep *step = &p->steps[i];
    for (int j = 0; j < step->n_inputs; j++) {
      const PlanValue *input = &p->values[step->inputs[j]];
      if (reads_before(step, p, j)) continue;
      s->reads[input->root]++;
      if (input->def >= 0) add_edge(s, input->def, i);
    }
  }
  add_order_edges(s);
  for (int i = 0; i < p->n_steps; i++) set_open(s, i, s->waiting[i] == 0);
  for (int i = 0; i < p->n_steps; i++) s->n_sums += plan_is_sum_over_ranks(&p->steps[i]);
}

static void scheduler_free(Scheduler *s) {
  free(s->op);
  free(s->phase);
  free(s->waiting);
  free(s->first_edge);
  free(s->edges);
  free(s->reads);
  free(s->kept);
  free(s->done);
  free(s->open);
  free(s->behind);
  free(s->fetched);
  free(s->order);
}

// All that the users of a step's results still wait for is the step itself, and they are updates: the results die at
// once.
static bool feeds_ready_updates(const Scheduler *s, int step) {
  bool any = false;
  for (int e = s->first_edge[step]; e >= 0; e = s->edges[e].next) {
    int to = s->edges[e].to;
    if (s->phase[to] != 2 || s->waiting[to] != 1) return false;
    any = true;
  }
  return any;
}

// Bytes that running the step frees beyond what it allocates.
static int64_t gain(const Scheduler *s, int i) {
  const PlanProgram *p = s->p;
  const PlanStep *step = &p->steps[i];
  int64_t bytes = 0;
  for (int j = 0; j < step->n_inputs; j++) {
    int root = p->values[step->inputs[j]].root;
    if (s->reads[root] == 1 && !s->kept[root] && !reads_before(step, p, j)) bytes += p->values[root].bytes;
  }
  if (feeds_ready_updates(s, i)) return bytes;
  for (int r = 0; r < step->n_results; r++) bytes -= p->values[step->first_result + r].bytes;
  return bytes;
}

// Who reads a sum over ranks waits for it. So readers stand behind the begin of the next sums, which are made
// meanwhile: waiting costs time where there is something else to compute, sums that nobody has read yet cost their
// bytes.
static bool is_early(const Scheduler *s, int i) {
  if (s->p->steps[i].lane == NN_LANE_COMM) return false;
  int wanted = s->behind[i] + PLAN_SUMS_AHEAD;
  return s->behind[i] && s->begun < (wanted < s->n_sums ? wanted : s->n_sums);
}

// All its operands are there, and it comes between no two exchanges that belong together.
static bool is_ready(const Scheduler *s, int i) {
  if (s->done[i] || s->waiting[i] > 0) return false;
  if (s->op[i] == NN_OP_rank_receive && s->begun < s->n_sums) return false;
  return !s->in_chain || s->p->steps[i].lane != NN_LANE_COMM || s->op[i] == NN_OP_rank_send;
}

// A step that reads the results of `last`, which has just run, to make a few numbers; -1: none.
static int digest(const Scheduler *s, int last) {
  for (int e = s->first_edge[last]; e >= 0; e = s->edges[e].next) {
    const PlanStep *step = &s->p->steps[s->edges[e].to];
    int64_t bytes = 0;
    for (int r = 0; r < step->n_results; r++) bytes += s->p->values[step->first_result + r].bytes;
    bool may_run = is_ready(s, s->edges[e].to) && !is_early(s, s->edges[e].to);
    if (may_run && bytes <= FEW_BYTES) return s->edges[e].to;
  }
  return -1;
}

static int choose(const Scheduler *s, int first) {
  int best = -1, any = -1, end = first + WINDOW < s->p->n_steps ? first + WINDOW : s->p->n_steps;
  for (int i = next_open(s, first); i < end; i = next_open(s, i + 1))
    if (is_ready(s, i) && s->p->steps[i].role == NN_STEP_TAP && !is_early(s, i))
      return i;   // so that it keeps nothing alive
  if (s->phase[first] == 0 && is_ready(s, first)) return first;
  int64_t best_gain = 0;
  for (int i = next_open(s, first); i < s->p->n_steps; i = next_open(s, i + 1)) {
    if (!is_ready(s, i)) continue;
    if (any < 0) any = i;
    if (is_early(s, i)) continue;
    if (s->behind[i] || s->p->steps[i].lane == NN_LANE_COMM || (s->phase[i] == 2 && i < end)) return i;
    int64_t g = gain(s, i);
    if (i >= end && g <= 0) continue;
    if (best < 0 || g > best_gain) best = i, best_gain = g;
  }
  return best < 0 ? any : best;
}

static void run_step(Scheduler *s, int i) {
  const PlanStep *step = &s->p->steps[i];
  s->done[i] = true;
  set_open(s, i, false);
  NnOp op = s->op[i];
  bool sum = plan_is_sum_over_ranks(step), gathers = op == NN_OP_all_gather && !plan_is_fetch(step->op);
  s->begun += sum;
  if (op == NN_OP_rank_receive || op == NN_OP_rank_send) s->in_chain = op == NN_OP_rank_receive;
  for (int j = 0; j < step->n_inputs; j++)
    if (!reads_before(step, s->p, j)) s->reads[s->p->values[step->inputs[j]].root]--;
  for (int e = s->first_edge[i]; e >= 0; e = s->edges[e].next) {
    if (--s->waiting[s->edges[e].to] == 0) set_open(s, s->edges[e].to, !s->done[s->edges[e].to]);
    if (sum || gathers) s->behind[s->edges[e].to] = s->begun;
  }
}

// What stands in front of its first reader, whenever that runs: parameters that are gathered, and this rank's part of
// one, which its update reads. Nothing but an argument is needed for them.
static bool is_fetched(MlirOperation op) {
  return plan_is_fetch(op) ||
         (nn_op_of(op) == NN_OP_rank_part && mlirValueIsABlockArgument(mlirOperationGetOperand(op, 0)));
}

static void begin_fetches(Scheduler *s) {
  for (int i = 0; i < s->p->n_steps; i++) {
    if (!is_fetched(s->p->steps[i].op)) continue;
    s->kept[s->p->steps[i].first_result] = true;
    run_step(s, i);
  }
}

static void fetch_operands(Scheduler *s, int i, int *k) {
  for (int j = 0; j < s->p->steps[i].n_inputs; j++) {
    int def = s->p->values[s->p->values[s->p->steps[i].inputs[j]].root].def;
    if (def < 0 || s->fetched[def] || !is_fetched(s->p->steps[def].op)) continue;
    s->fetched[def] = true;
    s->order[(*k)++] = def;
  }
}

static void list_schedule(Scheduler *s, bool digests) {
  int first = 0;   // the first step that has not run: its predecessors come before it
  begin_fetches(s);
  for (int k = 0, last = -1; k < s->p->n_steps; k++) {
    while (s->done[first]) first++;
    int next = digests && last >= 0 && s->phase[last] > 0 ? digest(s, last) : -1;
    last = next >= 0 ? next : choose(s, first);
    fetch_operands(s, last, &k);
    s->order[k] = last;
    run_step(s, last);
  }
}

// ---------------------------------------------------------------------------------------------------------------------

static int64_t live_bytes(PlanProgram *p, const int *order) {
  PlanLayout l;
  plan_layout_build(p, order, p->n_steps, PLAN_INPLACE_DECIDE, &l);
  int64_t live = plan_layout_peak(p, &l);
  plan_layout_free(&l);
  return live;
}

// Moves the ops into the order; an alias or a mark goes right behind what makes its value.
static void apply_order(PlanProgram *p, const int *order) {
  NnStepList list = nn_flatten(p->func);
  MlirOperation end = nn_function_return(p->func);
  int *first = allocate_array((size_t)p->n_steps + 1, sizeof *first),
      *next = allocate_array((size_t)list.n, sizeof *next);
  for (int i = 0; i <= p->n_steps; i++) first[i] = -1;
  for (int i = list.n - 1; i >= 0; i--) {
    if (list.items[i].role != NN_STEP_ALIAS && list.items[i].role != NN_STEP_MARK) continue;
    // 0: an argument
    int def = p->values[ptr_map_get(&p->ids, mlirOperationGetOperand(list.items[i].op, 0).ptr)].def + 1;
    next[i] = first[def];
    first[def] = i;
  }
  for (int k = -1; k < p->n_steps; k++) {
    if (k >= 0) mlirOperationMoveBefore(p->steps[order[k]].op, end);
    for (int i = first[k < 0 ? 0 : order[k] + 1]; i >= 0; i = next[i]) mlirOperationMoveBefore(list.items[i].op, end);
  }
  free(first);
  free(next);
  nn_steps_free(&list);
}

static bool has_regions(MlirOperation func) {
  NnStepList list = nn_flatten(func);
  bool any = false;
  for (int i = 0; i < list.n; i++) any |= list.items[i].role == NN_STEP_REGION;
  nn_steps_free(&list);
  return any;
}

// The pass `fetch` gathers a parameter for each stretch of steps that reads it, so in no order does one wait from its
// first reader to its last: what gathers take then is much the same in all.
static void leave_out_fetches(PlanProgram *p) {
  for (int i = 0; i < p->n_steps; i++)
    if (plan_is_fetch(p->steps[i].op)) p->values[p->steps[i].first_result].bytes = 0;
}

void schedule_function(MlirModule module, MlirOperation func, const NnTarget *target) {
  PlanProgram p;
  plan_program_build(&p, module, func, target);
  leave_out_fetches(&p);
  int64_t found = live_bytes(&p, NULL);
  bool applied = false;
  for (int digests = 1; digests >= 0 && !applied; digests--) {
    Scheduler s;
    scheduler_create(&s, &p);
    list_schedule(&s, digests);
    // numbers that are made earlier take their few bytes
    applied = live_bytes(&p, s.order) <= found + (digests ? found / 1000 : 0);
    if (applied) apply_order(&p, s.order);
    scheduler_free(&s);
  }
  plan_program_free(&p);
}

// Requires: kernels (fuse); an order in which operands precede users.
// Establishes: another such order. Readers of an argument stay before the update tied to it.
// Breaks: nn.inplace, nn.offset.
bool nn_pass_schedule(MlirModule module, const NnPassRun *run) {
  NnFunctions functions = nn_public_functions(module);
  for (int f = 0; f < functions.n; f++)
    if (!has_regions(functions.items[f]))
      schedule_function(module, functions.items[f], run->target);   // after remat the order is its business
  return true;
}
