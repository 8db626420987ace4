// The minimum vertex cut against all 2^n sets of vertices, on small random graphs: of least capacity, and nearest to
// the sinks.
#include <stdio.h>
#include <stdlib.h>

#include "passes/recompute/recompute.h"

enum { N = 9, EDGES = 16, ROUNDS = 3000 };

static unsigned long long state = 20240607;

static int draw(int n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int)((state >> 33) % (unsigned)n);
}

typedef struct Graph {
  int64_t capacity[N];
  bool source[N], sink[N];
  int from[EDGES], to[EDGES];
} Graph;

// Vertices that reach a sink without a vertex of the set; the set's own vertices are not among them.
static unsigned reach_sinks(const Graph *g, unsigned set) {
  unsigned reached = 0;
  for (int v = N - 1; v >= 0; v--) {   // edges go from smaller to larger numbers
    bool reaches = g->sink[v];
    for (int e = 0; e < EDGES; e++) reaches |= g->from[e] == v && reached >> g->to[e] & 1;
    if (reaches && !(set >> v & 1)) reached |= 1u << v;
  }
  return reached;
}

static bool is_cut(const Graph *g, unsigned set) {
  unsigned reached = reach_sinks(g, set);
  for (int v = 0; v < N; v++)
    if (g->source[v] && reached >> v & 1) return false;
  return true;
}

static int64_t weight(const Graph *g, unsigned set) {
  int64_t sum = 0;
  for (int v = 0; v < N; v++) sum += set >> v & 1 && sum < RECOMPUTE_INFINITE ? g->capacity[v] : 0;
  return sum < RECOMPUTE_INFINITE ? sum : RECOMPUTE_INFINITE;
}

static int count(unsigned set) {
  int n = 0;
  for (; set; set &= set - 1) n++;
  return n;
}

static bool check(const Graph *g) {
  bool beyond[N];
  recompute_min_cut(&(RecomputeNetwork){N, g->capacity, g->source, g->sink, EDGES, g->from, g->to}, beyond);
  int64_t least = RECOMPUTE_INFINITE;
  int fewest = N + 1;   // vertices between a minimum cut and the sinks
  for (unsigned set = 0; set < 1u << N; set++) {
    if (!is_cut(g, set) || weight(g, set) > least) continue;
    int behind = count(reach_sinks(g, set));
    if (weight(g, set) < least || behind < fewest) fewest = behind;
    least = weight(g, set);
  }
  unsigned found = 0;
  for (int v = 0; v < N; v++) found |= (unsigned)beyond[v] << v;
  unsigned cut = 0;   // what stands right before `found`
  for (int v = 0; v < N; v++) {
    bool feeds = g->sink[v];
    for (int e = 0; e < EDGES; e++) feeds |= g->from[e] == v && found >> g->to[e] & 1;
    if (feeds && !(found >> v & 1)) cut |= 1u << v;
  }
  if (least >= RECOMPUTE_INFINITE) return true;   // no finite cut: nothing is promised
  if (is_cut(g, cut) && weight(g, cut) == least && count(found) == fewest) return true;
  printf("FAILED: cut %#x of %lld with %d behind it; the least is %lld with %d\n", cut, (long long)weight(g, cut),
         count(found), (long long)least, fewest);
  return false;
}

int main(void) {
  for (int round = 0; round < ROUNDS; round++) {
    Graph g;
    for (int v = 0; v < N; v++) {
      g.capacity[v] = draw(12) ? 1 + draw(4) : RECOMPUTE_INFINITE;
      g.source[v] = draw(3) == 0;
      g.sink[v] = draw(3) == 0;
    }
    for (int e = 0; e < EDGES; e++) {
      g.from[e] = draw(N - 1);
      g.to[e] = g.from[e] + 1 + draw(N - 1 - g.from[e]);
    }
    if (!check(&g)) return 1;
  }
  return 0;
}
