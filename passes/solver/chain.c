// chain.c: cuts the forward pass into stages and measures them for the dynamic program: what crosses each cut and who
// uses it, peaks of the forward and backward parts, costs, and ways to hold a part of a stage.
#include "chain.h"
#include "support/alloc.h"

#include <stdlib.h>
#include <string.h>

// ---- cuts ----

// Lists the positions where cuts are worth while, and returns their number; the last is the end. A value that only the
// forward pass uses would be held at a cut for nothing, when a cut just before or after it holds what the backward pass
// needs anyway; so such cuts are left out, as long as others are near.
static int list_cuts(const RematGraph *graph, bool everywhere, int *cuts) {
  enum { FARTHEST = 12 };
  int end = graph->forward_end, n = 0, previous = 0, best = 0;
  int64_t *waste = allocate_array((size_t)end + 2, sizeof *waste);
  for (int v = 0; v < end; v++)
    if (graph->problem->nodes[v].recomputable && !graph->used_backward[v]) {
      waste[v + 1] += graph->problem->nodes[v].bytes;
      waste[graph->last_forward_use[v] + 1] -= graph->problem->nodes[v].bytes;
    }
  for (int b = 1; b <= end; b++) waste[b] += waste[b - 1];
  for (int b = 1; b <= end; b++) {   // goes back at times
    if (best <= previous || waste[b] <= waste[best]) best = b;
    bool good = everywhere || waste[b] <= graph->crossing[b] / 50;
    if (b == end) best = end;
    if (!good && b < end && b - previous < FARTHEST) continue;
    cuts[n++] = previous = good ? b : best;
    b = best = previous;
  }
  free(waste);
  return n;
}

static void cut_stages(Chain *chain, int limit, bool everywhere) {
  const RematGraph *graph = chain->graph;
  int end = graph->forward_end, begin = 0;
  int *cuts = allocate_array((size_t)end, sizeof *cuts), n_cuts = list_cuts(graph, everywhere, cuts);
  int count = n_cuts < limit ? n_cuts : limit;
  chain->stages = allocate_array((size_t)count + 1, sizeof *chain->stages);
  for (int s = 1; s <= count; s++) {
    int low = (int)((int64_t)n_cuts * (s - 1) / count), high = (int)((int64_t)n_cuts * s / count) - 1, best = high;
    for (int c = high; c >= low && s < count; c--)
      if (graph->crossing[cuts[c]] < graph->crossing[cuts[best]]) best = c;
    chain->stages[chain->n++] = (ChainStage){.begin = begin, .end = cuts[best]};
    begin = cuts[best];
  }
  chain->stages[chain->n] = (ChainStage){.begin = end, .end = end};
  chain->stage_of = allocate_array((size_t)end, sizeof(int));
  for (int s = 0; s < chain->n; s++)
    for (int v = chain->stages[s].begin; v < chain->stages[s].end; v++) chain->stage_of[v] = s;
  free(cuts);
}

// ---- the stage of each backward node ----

// The first stage at whose beginning all values that node `t` reads are at hand, since they cross its cut; when no cut
// has them all, the stage that makes the last of them. -1 when it reads none.
static int stage_of_reads(const Chain *chain, int t) {
  const RematGraph *graph = chain->graph;
  const RematNode *node = &graph->problem->nodes[t];
  int made = -1, used = CHAIN_NEVER;
  for (int i = 0; i < node->n_inputs; i++) {
    int v = node->inputs[i];
    if (!chain->is_value[v]) continue;
    int stage = chain->stage_of[v], last = chain->stage_of[graph->last_forward_use[v]];
    if (stage > made) made = stage;
    if (last < used) used = last;
  }
  return made >= 0 && used > made ? made + 1 : made;
}

static void assign_backward(Chain *chain) {
  const RematGraph *graph = chain->graph;
  int s = 0, end = graph->n;
  for (int t = graph->n - 1; t >= graph->forward_end; t--) {
    int stage = stage_of_reads(chain, t);
    for (; s < stage; s++) {
      chain->stages[s].backward_begin = t + 1;
      chain->stages[s].backward_end = end;
      end = t + 1;
    }
  }
  for (; s <= chain->n; s++) {
    chain->stages[s].backward_begin = graph->forward_end;
    chain->stages[s].backward_end = end;
    end = graph->forward_end;
  }
}

static int backward_stage(const Chain *chain, int t) {
  int low = 0, high = chain->n;   // backward_begin falls with the stage
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (chain->stages[middle].backward_begin <= t) high = middle;
    else low = middle + 1;
  }
  return low;
}

static bool uses_in_backward(const Chain *chain, int v, int s) {
  const RematGraph *graph = chain->graph;
  const ChainStage *stage = &chain->stages[s];
  for (int i = graph->user_start[v + 1] - 1; i >= graph->user_start[v]; i--)
    if (graph->users[i] >= stage->backward_begin && graph->users[i] < stage->backward_end) return true;
  return false;
}

// ---- crossings ----

static int compare_int(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

// Adds value v to the cuts between the stage that makes it and the last one that uses it. With `fill` false only
// counts.
static void add_crossings(Chain *chain, int v, int *uses, bool fill) {
  const RematGraph *graph = chain->graph;
  int n = 0, made = chain->stage_of[v], last_forward = -1;
  for (int i = graph->user_start[v]; i < graph->user_start[v + 1]; i++) {
    int user = graph->users[i];
    bool forward = user < graph->forward_end;
    int s = forward ? chain->stage_of[user] : backward_stage(chain, user);
    if (s <= made || s >= chain->n) continue;
    uses[n++] = 2 * s + !forward;
    if (forward) last_forward = s;
  }
  if (n == 0) return;
  qsort(uses, (size_t)n, sizeof *uses, compare_int);
  int next = 0, next_forward = 0, last = uses[n - 1] / 2;
  for (int k = made + 1; k <= last; k++) {
    ChainStage *stage = &chain->stages[k];
    while (uses[next] / 2 < k) next++;
    while (next_forward < n && (uses[next_forward] / 2 < k || uses[next_forward] % 2)) next_forward++;
    if (fill)
      stage->crossing[stage->n_crossing] = (ChainCrossing){.value = v,
                                                           .stage = made,
                                                           .next_use = uses[next] / 2,
                                                           .early = uses[0] / 2 < k,
                                                           .next_forward = k <= last_forward ? uses[next_forward] / 2
                                                                                             : CHAIN_NEVER,
                                                           .options = chain->options[v],
                                                           .bytes = graph->problem->nodes[v].bytes};
    stage->n_crossing++;
  }
}

static void collect_crossings(Chain *chain) {
  const RematGraph *graph = chain->graph;
  int most = 1;
  for (int v = 0; v < graph->forward_end; v++)
    if (graph->user_start[v + 1] - graph->user_start[v] > most) most = graph->user_start[v + 1] - graph->user_start[v];
  int *uses = allocate_array((size_t)most, sizeof *uses);
  for (int fill = 0; fill < 2; fill++) {
    for (int s = 0; s <= chain->n && fill; s++) {
      ChainStage *stage = &chain->stages[s];
      stage->crossing = allocate_array((size_t)stage->n_crossing, sizeof *stage->crossing);
      stage->n_crossing = 0;
    }
    for (int v = 0; v < graph->forward_end; v++)
      if (chain->is_value[v]) add_crossings(chain, v, uses, fill);
  }
  free(uses);
}

// ---- other values ----

// Bytes of what is live at each node but is no value of the chain, with the node's own result and workspace; and what
// of it is live before the node.
typedef struct Others {
  int64_t *at, *before;   // Owned, n + 1
} Others;

static Others measure_others(const Chain *chain) {
  const RematGraph *graph = chain->graph;
  int n = graph->n;
  Others others = {allocate_array((size_t)n + 2, sizeof(int64_t)), allocate_array((size_t)n + 2, sizeof(int64_t))};
  for (int v = 0; v < n; v++) {
    if (chain->is_value[v]) continue;
    int last = v;
    for (int i = graph->user_start[v]; i < graph->user_start[v + 1]; i++) {
      int user = graph->users[i];
      if (user > last) last = user;
      // A value may be made again until its stage's backward part begins.
      if (user < graph->forward_end && chain->is_value[user]) {
        int begin = chain->stages[chain->stage_of[user]].backward_begin;
        if (begin - 1 > last && begin > graph->forward_end) last = begin - 1;
      }
    }
    if (graph->is_output[v]) last = n - 1;
    int64_t bytes = graph->problem->nodes[v].bytes;
    others.at[v] += bytes;
    others.at[last + 1] -= bytes;
    others.before[v + 1] += bytes;
    others.before[last + 1] -= bytes;
  }
  for (int t = 0; t < n; t++) {
    others.at[t + 1] += others.at[t];
    others.before[t + 1] += others.before[t];
  }
  for (int t = 0; t < n; t++) others.at[t] += graph->problem->nodes[t].workspace;
  return others;
}

// ---- costs and peaks of a stage ----

typedef struct StageMarks {
  bool *marked;    // Owned; by node: wanted, or needed for what is wanted
  bool *at_hand;   // Owned; by node
} StageMarks;

// Peak of the stage's forward part in the plain order when `at_hand` marks what is held to its end.
static int64_t forward_peak(const Chain *chain, int s, const bool *held) {
  const RematGraph *graph = chain->graph;
  const ChainStage *stage = &chain->stages[s];
  int count = stage->end - stage->begin;
  int64_t *live = allocate_array((size_t)count + 1, sizeof *live), peak = 0;
  for (int v = stage->begin; v < stage->end; v++) {
    if (!chain->is_value[v]) continue;
    int last = graph->last_forward_use[v];
    if (last >= stage->end || held[v]) last = stage->end - 1;
    live[v - stage->begin] += graph->problem->nodes[v].bytes;
    live[last + 1 - stage->begin] -= graph->problem->nodes[v].bytes;
  }
  for (int p = 0; p < count; p++) {
    int64_t bytes = live[p] + graph->problem->nodes[stage->begin + p].workspace;
    if (bytes > peak) peak = bytes;
    live[p + 1] += live[p];
  }
  free(live);
  return peak;
}

// Peak of the stage's backward part: other values, and the stage's own until their last use in it.
static int64_t backward_peak(const Chain *chain, int s, const Others *others) {
  const RematGraph *graph = chain->graph;
  const ChainStage *stage = &chain->stages[s];
  int count = stage->backward_end - stage->backward_begin;
  int64_t *live = allocate_array((size_t)count + 1, sizeof *live), peak = 0;
  for (int v = stage->begin; v < stage->end; v++) {
    if (!chain->is_value[v]) continue;
    for (int i = graph->user_start[v + 1] - 1; i >= graph->user_start[v]; i--) {
      int user = graph->users[i];
      if (user >= stage->backward_end) continue;
      if (user < stage->backward_begin) break;
      live[0] += graph->problem->nodes[v].bytes;
      live[user + 1 - stage->backward_begin] -= graph->problem->nodes[v].bytes;
      break;
    }
  }
  for (int p = 0; p < count; p++) {
    int64_t bytes = live[p] + others->at[stage->backward_begin + p];
    if (bytes > peak) peak = bytes;
    live[p + 1] += live[p];
  }
  free(live);
  return peak;
}

// Cost of making the wanted values of stage s, and those that cross its end, from what enters it and what is at hand.
static double closure_of(const Chain *chain, int s, const bool *wanted, bool crossing, StageMarks *marks) {
  const ChainStage *stage = &chain->stages[s];
  double cost = 0;
  for (int v = stage->begin; v < stage->end; v++)
    marks->marked[v] = (wanted && wanted[v]) || (crossing && chain->graph->last_forward_use[v] >= stage->end);
  for (int v = stage->end - 1; v >= stage->begin; v--) {
    const RematNode *node = &chain->graph->problem->nodes[v];
    if (!marks->marked[v] || marks->at_hand[v] || !chain->is_value[v]) continue;
    cost += node->cost;
    for (int i = 0; i < node->n_inputs; i++)
      if (node->inputs[i] >= stage->begin) marks->marked[node->inputs[i]] = true;
  }
  return cost;
}

static void add_option(Chain *chain, int s, const bool *used, const bool *held, StageMarks *marks) {
  ChainStage *stage = &chain->stages[s];
  ChainOption *option = &stage->options[stage->n_options];
  *option = (ChainOption){.forward = forward_peak(chain, s, held), .make = closure_of(chain, s, held, true, marks)};
  for (int v = stage->begin; v < stage->end; v++)
    if (held[v]) {
      option->held += chain->graph->problem->nodes[v].bytes;
      chain->options[v] |= (unsigned char)(1u << stage->n_options);
      marks->at_hand[v] = true;
    }
  option->remake = closure_of(chain, s, used, false, marks);
  for (int v = stage->begin; v < stage->end; v++) marks->at_hand[v] = false;
  stage->n_options++;
}

// Options that hold less and less: values leave in the order of bytes per cost of making them again, and a few steps
// of that are taken as options.
static void find_options(Chain *chain, int s, const bool *used, StageMarks *marks) {
  enum { LARGEST = 48 };
  ChainStage *stage = &chain->stages[s];
  const RematNode *nodes = chain->graph->problem->nodes;
  bool *held = allocate_array((size_t)chain->graph->n, sizeof *held);
  int64_t all = 0, left = 0;
  for (int v = stage->begin; v < stage->end; v++)
    if (used[v]) held[v] = true, all += nodes[v].bytes;
  add_option(chain, s, used, held, marks);
  left = all;
  double before = 0;
  while (stage->n_options < CHAIN_OPTIONS && stage->end - stage->begin <= LARGEST) {
    int best = -1;
    double best_score = -1, best_cost = 0;
    for (int v = stage->begin; v < stage->end; v++) {
      if (!held[v]) continue;
      for (int u = stage->begin; u < stage->end; u++) marks->at_hand[u] = held[u] && u != v;
      double cost = closure_of(chain, s, used, false, marks);
      double score = (double)nodes[v].bytes / (cost - before + 1e-9 * cost + 1e-300);
      if (score > best_score) best = v, best_score = score, best_cost = cost;
    }
    memset(marks->at_hand + stage->begin, 0, (size_t)(stage->end - stage->begin));
    if (best < 0) break;
    held[best] = false;
    left -= nodes[best].bytes;
    before = best_cost;
    int64_t next = all / CHAIN_OPTIONS * (CHAIN_OPTIONS - stage->n_options);   // dividing first cannot overflow
    if (left <= next && left > 0) add_option(chain, s, used, held, marks);
  }
  free(held);
}

static void measure_stage(Chain *chain, int s, bool *used, StageMarks *marks, const Others *others) {
  ChainStage *stage = &chain->stages[s];
  const RematGraph *graph = chain->graph;
  for (int v = stage->begin; v < stage->end; v++) used[v] = chain->is_value[v] && uses_in_backward(chain, v, s);
  stage->run = forward_peak(chain, s, marks->at_hand);
  stage->run_cost = closure_of(chain, s, NULL, true, marks);
  stage->leaf = forward_peak(chain, s, used);
  stage->backward = backward_peak(chain, s, others);
  stage->other = others->before[stage->backward_end];
  stage->leaf_cost[0] = closure_of(chain, s, used, false, marks);
  for (int v = stage->begin; v < stage->end; v++)
    if (used[v] && chain_is_kept(chain, v)) {
      stage->kept += graph->problem->nodes[v].bytes;
      marks->at_hand[v] = true;
    }
  stage->leaf_cost[1] = closure_of(chain, s, used, false, marks);
  memset(marks->at_hand + stage->begin, 0, (size_t)(stage->end - stage->begin));
  find_options(chain, s, used, marks);
}

bool chain_is_kept(const Chain *chain, int v) {
  const RematGraph *graph = chain->graph;
  int s = chain->stage_of[v];
  bool next = false;
  for (int i = graph->user_start[v]; i < graph->user_start[v + 1] && graph->users[i] < graph->forward_end; i++)
    next = next || chain->stage_of[graph->users[i]] == s + 1;
  return next && uses_in_backward(chain, v, s);
}

// Whether v is what the backward pass begins with, the loss or its like: it is gone before anything is made again.
static bool starts_backward(const RematGraph *graph, int v) {
  return v == graph->forward_end - 1 && graph->user_start[v + 1] - graph->user_start[v] == 1 &&
         graph->users[graph->user_start[v]] == graph->forward_end;
}

Chain chain_create(const RematGraph *graph, int limit, bool everywhere) {
  Chain chain = {.graph = graph};
  size_t n = (size_t)graph->n;
  chain.is_value = allocate_array(n, sizeof(bool));
  chain.options = allocate_array(n, 1);
  for (int v = 0; v < graph->forward_end; v++)
    chain.is_value[v] = graph->problem->nodes[v].recomputable && !graph->is_output[v] && !starts_backward(graph, v);
  cut_stages(&chain, limit, everywhere);
  assign_backward(&chain);
  Others others = measure_others(&chain);
  StageMarks marks = {allocate_array(n, sizeof(bool)), allocate_array(n, sizeof(bool))};
  bool *used = allocate_array(n, sizeof *used);
  for (int s = 0; s < chain.n; s++) measure_stage(&chain, s, used, &marks, &others);
  chain.stages[chain.n].other = others.before[graph->forward_end];
  collect_crossings(&chain);
  free(used);
  free(marks.marked);
  free(marks.at_hand);
  free(others.at);
  free(others.before);
  return chain;
}

void chain_free(Chain *chain) {
  for (int s = 0; s <= chain->n && chain->stages; s++) free(chain->stages[s].crossing);
  free(chain->stages);
  free(chain->stage_of);
  free(chain->options);
  free(chain->is_value);
  *chain = (Chain){0};
}
