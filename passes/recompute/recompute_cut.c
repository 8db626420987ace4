// Minimum vertex cut by maximum flow: each vertex becomes an arc from its entry 2v to its exit 2v+1 with the vertex'
// capacity, every edge an arc without bound.
#include <stdlib.h>

#include "passes/recompute/recompute.h"
#include "support/alloc.h"

typedef struct Arc {
  int to, next;
  int64_t room;
} Arc;   // arc a and its reverse a ^ 1

typedef struct Flow {
  int n, source, sink;
  int n_arcs;
  Arc *arcs;      // Owned
  int *first;     // Owned, per vertex
  int *level;     // Owned, per vertex; -1: not reached
  int *current;   // Owned, per vertex: arc to try next
  int *queue;     // Owned
  int *path;      // Owned; arcs from the source
} Flow;

static void add_arc(Flow *f, int from, int to, int64_t capacity) {
  f->arcs[f->n_arcs] = (Arc){to, f->first[from], capacity};
  f->first[from] = f->n_arcs++;
  f->arcs[f->n_arcs] = (Arc){from, f->first[to], 0};
  f->first[to] = f->n_arcs++;
}

static void flow_create(Flow *f, const RecomputeNetwork *net) {
  *f = (Flow){.n = 2 * net->n + 2, .source = 2 * net->n, .sink = 2 * net->n + 1};
  f->arcs = allocate_array(2 * (3 * (size_t)net->n + (size_t)net->n_edges), sizeof *f->arcs);
  f->first = allocate_array((size_t)f->n, sizeof *f->first);
  f->level = allocate_array((size_t)f->n, sizeof *f->level);
  f->current = allocate_array((size_t)f->n, sizeof *f->current);
  f->queue = allocate_array((size_t)f->n, sizeof *f->queue);
  f->path = allocate_array((size_t)f->n, sizeof *f->path);
  for (int v = 0; v < f->n; v++) f->first[v] = -1;
  for (int v = 0; v < net->n; v++) {
    add_arc(f, 2 * v, 2 * v + 1, net->capacity[v]);
    if (net->source[v]) add_arc(f, f->source, 2 * v, RECOMPUTE_INFINITE);
    if (net->sink[v]) add_arc(f, 2 * v + 1, f->sink, RECOMPUTE_INFINITE);
  }
  for (int e = 0; e < net->n_edges; e++) add_arc(f, 2 * net->from[e] + 1, 2 * net->to[e], RECOMPUTE_INFINITE);
}

static void flow_free(Flow *f) {
  free(f->arcs);
  free(f->first);
  free(f->level);
  free(f->current);
  free(f->queue);
  free(f->path);
}

// Levels of a breadth-first search from `root` over arcs with room, or against them; stops behind the level of `goal`
// (-1: none).
static bool search(Flow *f, int root, bool against, int goal) {
  int head = 0, tail = 0;
  for (int v = 0; v < f->n; v++) f->level[v] = -1;
  f->level[root] = 0;
  f->queue[tail++] = root;
  while (head < tail) {
    int v = f->queue[head++];
    if (v == goal) return true;
    for (int a = f->first[v]; a >= 0; a = f->arcs[a].next) {
      if (f->arcs[against ? a ^ 1 : a].room <= 0 || f->level[f->arcs[a].to] >= 0) continue;
      f->level[f->arcs[a].to] = f->level[v] + 1;
      f->queue[tail++] = f->arcs[a].to;
    }
  }
  return false;
}

// Sends what the path of `length` arcs takes; returns how much of the path is left, up to the first arc that is full.
static int augment(Flow *f, int length) {
  int64_t least = RECOMPUTE_INFINITE;
  int keep = 0;
  for (int i = 0; i < length; i++)
    if (f->arcs[f->path[i]].room < least) least = f->arcs[f->path[i]].room;
  for (int i = length - 1; i >= 0; i--) {
    f->arcs[f->path[i]].room -= least;
    f->arcs[f->path[i] ^ 1].room += least;
    if (f->arcs[f->path[i]].room == 0) keep = i;
  }
  return keep;
}

// Blocks the level graph: depth first, without recursion, since a residual chain is as long as the network is deep.
static void block(Flow *f) {
  for (int v = 0; v < f->n; v++) f->current[v] = f->first[v];
  int v = f->source, length = 0;
  for (;;) {
    if (v == f->sink) {
      length = augment(f, length);
      v = length ? f->arcs[f->path[length - 1]].to : f->source;
    }
    int a = f->current[v];
    while (a >= 0 && (f->arcs[a].room <= 0 || f->level[f->arcs[a].to] != f->level[v] + 1)) a = f->arcs[a].next;
    f->current[v] = a;
    if (a >= 0) {
      f->path[length++] = a;
      v = f->arcs[a].to;
      continue;
    }
    if (length == 0) return;
    f->level[v] = -1;   // a dead end
    v = f->arcs[f->path[--length] ^ 1].to;
  }
}

void recompute_min_cut(const RecomputeNetwork *net, bool *beyond) {
  Flow f;
  flow_create(&f, net);
  while (search(&f, f.source, false, f.sink)) block(&f);
  search(&f, f.sink, true, -1);   // what can still send to the sink is on its side
  for (int v = 0; v < net->n; v++) beyond[v] = f.level[2 * v] >= 0;
  flow_free(&f);
}
