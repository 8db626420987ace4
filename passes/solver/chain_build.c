// chain_build.c: the schedule of a dynamic program's table, walked from its first state. Each range makes what it
// holds, in the plain order, and gives it up when it is done; a backward node makes what it still misses.
#include <stdlib.h>

#include "chain.h"
#include "support/alloc.h"

typedef struct Build {
  const ChainTable *table;
  RematBuilder *builder;
  int executed;   // forward nodes executed at least once
  int *made;      // Owned; held values, those of inner ranges last
  int n_made;
  bool *wanted;   // Owned; by node, all false between uses
  int *pending;   // Owned; stack, then the nodes to execute
} Build;

static void note_made(Build *build, int v) { *ARRAY_ADD(build->made, build->n_made) = v; }

static void release(Build *build, int n_made) {
  while (build->n_made > n_made) build->builder->available[build->made[--build->n_made]] = false;
}

static int compare_int(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

// Makes the `n` values of `values` available, what they need as well, in the plain order, right before base node
// `before`; holds those that `holds` tells to hold, the others only meanwhile.
static void make(Build *build, const int *values, int n, int before) {
  RematBuilder *builder = build->builder;
  const RematGraph *graph = builder->graph;
  int count = 0, next = 0;
  for (int i = 0; i < n; i++)
    if (!builder->available[values[i]] && !build->wanted[values[i]]) {
      build->wanted[values[i]] = true;
      build->pending[count++] = values[i];
    }
  for (; next < count; next++) {
    const RematNode *node = &graph->problem->nodes[build->pending[next]];
    if (!node->recomputable || before > graph->deadline[build->pending[next]]) {
      builder->forced[build->pending[next]] = builder->retry = true;
      continue;
    }
    for (int i = 0; i < node->n_inputs; i++) {
      int input = node->inputs[i];
      if (builder->available[input] || build->wanted[input]) continue;
      build->wanted[input] = true;
      build->pending[count++] = input;
    }
  }
  qsort(build->pending, (size_t)count, sizeof(int), compare_int);
  for (int i = 0; i < count; i++) {
    remat_builder_append(builder, build->pending[i]);
    build->wanted[build->pending[i]] = builder->available[build->pending[i]] = false;
  }
  for (int i = 0; i < n; i++)
    if (!builder->available[values[i]]) {
      builder->available[values[i]] = true;
      note_made(build, values[i]);
    }
}

// The first visit of stages up to `end` executes every node.
static void run_first(Build *build, int end) {
  RematBuilder *builder = build->builder;
  for (; build->executed < end; build->executed++) {
    int v = build->executed;
    remat_builder_append(builder, v);
    builder->available[v] = builder->forced[v] || !build->table->chain->is_value[v];
  }
}

// Makes what crosses cut k for stages [k, j), and with o >= 0 (k == i + 1) what option o holds of stage i.
static void hold(Build *build, int i, int k, int j, int o) {
  const Chain *chain = build->table->chain;
  const ChainStage *stage = &chain->stages[k];
  bool first = build->executed < stage->begin;
  run_first(build, stage->begin);
  int own = o >= 0 ? chain->stages[i].end - chain->stages[i].begin : 0, n = 0;
  int *values = allocate_array((size_t)(stage->n_crossing + own), sizeof *values);
  for (int c = 0; c < stage->n_crossing; c++)
    if (stage->crossing[c].stage >= i && stage->crossing[c].next_use < j) values[n++] = stage->crossing[c].value;
  for (int v = chain->stages[i].begin; v < chain->stages[i].begin + own; v++)
    if (chain->options[v] >> o & 1) values[n++] = v;
  for (int c = 0; c < n && first; c++)
    if (!build->builder->available[values[c]]) {
      build->builder->available[values[c]] = true;
      note_made(build, values[c]);
    }
  make(build, values, n, chain->stages[j].backward_end);
  free(values);
}

static void run_backward(Build *build, int s) {
  const Chain *chain = build->table->chain;
  RematBuilder *builder = build->builder;
  const ChainStage *stage = &chain->stages[s];
  if (build->executed < stage->end) {
    run_first(build, stage->end);
    for (int v = stage->begin; v < stage->end; v++)
      if (!builder->available[v]) {
        builder->available[v] = true;
        note_made(build, v);
      }
  }
  for (int t = stage->backward_begin; t < stage->backward_end && !builder->overflow; t++) {
    const RematNode *node = &chain->graph->problem->nodes[t];
    make(build, node->inputs, node->n_inputs, t);
    remat_builder_append(builder, t);
  }
}

// After (k, j): gives up what was held at the cut, but for the values that the stage before it still uses if `stay`.
static void give_up(Build *build, int mark, int k, bool stay) {
  const Chain *chain = build->table->chain;
  int kept = mark;
  for (int m = mark; m < build->n_made; m++) {
    int v = build->made[m];
    if (stay && chain->stage_of[v] == k - 1 && chain_is_kept(chain, v)) build->made[kept++] = v;
    else build->builder->available[v] = false;
  }
  build->n_made = kept;
}

static void run_range(Build *build, int i, int j, int right, int memory) {
  const ChainTable *table = build->table;
  const Chain *chain = table->chain;
  if (build->builder->overflow) return;
  if (memory > table->units) memory = table->units;
  int choice = memory < 0 ? CHAIN_INFEASIBLE : table->choice[chain_state(table, i, j, right) + (size_t)memory];
  if (choice == CHAIN_INFEASIBLE && j > i + 1) choice = 2 * ((j - i) / 2);   // rounding; not met by the caller's test
  int mark = build->n_made;
  if (choice == CHAIN_LEAF || j == i + 1) {
    run_backward(build, i);
  } else if (choice <= CHAIN_HOLD) {
    int o = CHAIN_HOLD - choice;
    hold(build, i, i + 1, j, o);
    run_range(build, i + 1, j, right, memory - chain_units(table, chain_option_held(chain, i, j, o)));
    run_backward(build, i);
  } else {
    int k = i + choice / 2, stay = choice % 2, inner = build->n_made;
    hold(build, i, k, j, -1);
    run_range(build, k, j, right, memory - chain_units(table, chain_held(chain, i, k, j, NULL)));
    give_up(build, inner, k, stay);
    memory += chain_units(table, chain_gain(chain, i, k, j));
    if (right) memory += chain_units(table, chain->stages[j - 1].kept);
    if (stay) memory -= chain_units(table, chain->stages[k - 1].kept);
    run_range(build, i, k, stay, memory);
  }
  release(build, mark);
}

bool chain_build(const ChainTable *table, int memory, RematSchedule *schedule) {
  const Chain *chain = table->chain;
  const RematGraph *graph = chain->graph;
  if (table->choice[chain_state(table, 0, chain->n, 0) + (size_t)memory] == CHAIN_INFEASIBLE) return false;
  RematBuilder builder = remat_builder_create(graph);
  Build build = {.table = table, .builder = &builder};
  build.wanted = allocate_array((size_t)graph->n, sizeof(bool));
  build.pending = allocate_array((size_t)graph->n, sizeof(int));
  builder.limit = graph->n < 1000000 ? 64 + 24 * graph->n : graph->n;
  do {
    remat_builder_clear(&builder);
    build.executed = build.n_made = 0;
    // Nodes that read nothing of the chain may come before the last stage's.
    run_range(&build, 0, chain->n, 0, memory);
  } while (builder.retry && !builder.overflow);
  bool built = !builder.overflow;
  if (built) *schedule = remat_schedule_measure(graph->problem, builder.exec, builder.n);
  free(build.made);
  free(build.wanted);
  free(build.pending);
  remat_builder_free(&builder);
  return built;
}
