// late.c: orders of first executions other than the plain one. A node that hardly anything follows, as the gradient of
// a weight, may wait until memory is free again, for the price of making again what it reads.
#include <stdlib.h>
#include <string.h>

#include "search.h"
#include "support/alloc.h"

enum { MOST_FOLLOWERS = 4 };   // of a node that waits to the end

// Nodes that execute late together, in the plain order, and the place of the one before which they then stand.
typedef struct LateGroup {
  int nodes[MOST_FOLLOWERS + 1];
  int n, place;
} LateGroup;

// The first node of the plain order behind `last` that must follow one of the group; n_nodes when there is none.
static int next_follower(const RematSearch *search, const LateGroup *group, int last) {
  const RematState *state = &search->state;
  const RematGraph *graph = &search->graph;
  int first = state->n_nodes;
  for (int g = 0; g < group->n; g++) {
    int node = group->nodes[g], i = graph->user_start[node], end = graph->user_start[node + 1];
    while (i < end && graph->users[i] <= last) i++;
    if (i < end && graph->users[i] < first) first = graph->users[i];
    for (i = state->after_start[node]; i < state->after_start[node + 1]; i++)
      if (state->after[i] > last && state->after[i] < first) first = state->after[i];
  }
  return first;
}

// As late as may be: with all that follow it, at the end, where these are few; else alone, before the first of them.
static LateGroup group_of(const RematSearch *search, int node) {
  LateGroup group = {.nodes = {node}, .n = 1, .place = search->state.n_nodes};
  int first = next_follower(search, &group, node);
  for (int next = first; next < group.place; next = next_follower(search, &group, next)) {
    if (group.n > MOST_FOLLOWERS) return (LateGroup){.nodes = {node}, .n = 1, .place = first};
    group.nodes[group.n++] = next;
  }
  return group;
}

typedef struct LateNode {
  int node;
  double weight;
} LateNode;

static int compare_weights(const void *left, const void *right) {
  const LateNode *a = left, *b = right;
  if (a->weight != b->weight) return a->weight > b->weight ? -1 : 1;
  return a->node - b->node;
}

int remat_list_late(const RematSearch *search, int most, int *nodes) {
  enum { STEPS_NODE = 50 };
  const RematState *state = &search->state;
  LateNode *late = allocate_array((size_t)state->n_nodes, sizeof *late);
  int n = 0;
  for (int v = search->graph.forward_end; v < state->n_nodes; v++) {
    LateGroup group = group_of(search, v);
    double bytes = 0, wait = group.place - group.n - v;
    for (int i = state->input_start[v]; i < state->input_start[v + 1]; i++)
      bytes += (double)state->bytes[state->inputs[i]];
    if (bytes > 0 && wait > 0) late[n++] = (LateNode){v, bytes * bytes * wait};
  }
  qsort(late, (size_t)n, sizeof *late, compare_weights);
  if (n > most) n = most;
  for (int i = 0; i < n; i++) nodes[i] = late[i].node;
  free(late);
  watch_count(state->graph->problem, STEPS_NODE * (int64_t)(state->n_nodes - search->graph.forward_end));
  return n;
}

void remat_order_late(const RematSearch *search, int node, int *order) {
  LateGroup group = group_of(search, node);
  int at = 0, next = 0;
  for (int v = 0; v < search->state.n_nodes; v++) {
    if (v == group.place) {
      memcpy(order + at, group.nodes, (size_t)group.n * sizeof *order);
      at += group.n;
    }
    if (next < group.n && group.nodes[next] == v) next++;
    else order[at++] = v;
  }
  if (group.place == search->state.n_nodes) memcpy(order + at, group.nodes, (size_t)group.n * sizeof *order);
}
