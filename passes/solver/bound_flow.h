// bound_flow.h: maximum flow on networks of a few thousand nodes with integer capacities, built once and solved for
// many capacities.
#ifndef NNC_SOLVER_BOUND_FLOW_H
#define NNC_SOLVER_BOUND_FLOW_H

#include <stdbool.h>
#include <stdint.h>

// Larger than any sum of capacities that matters; stands for an edge that no minimum cut may contain.
#define FLOW_INFINITE (INT64_MAX / 8)

enum { FLOW_SOURCE = 0, FLOW_SINK = 1 };

typedef struct FlowNetwork {
  int n_nodes;   // source and sink included
  int n_edges;   // edge e goes from tail[e] to head[e]
  int capacity_nodes, capacity_edges;
  int *tail, *head;    // Owned
  int64_t *capacity;   // Owned; may be changed between solutions
  // Made by flow_finish: arcs in order of their tails; arc `a` has its reverse at mate[a].
  int *first;                            // Owned; n_nodes + 1
  int *to, *mate;                        // Owned; 2 * n_edges
  int *arc_of_edge;                      // Owned
  int64_t *residual;                     // Owned
  int *level, *current, *queue, *path;   // Owned; scratch
  int64_t work;                          // steps that the last flow_solve took (watch.h)
} FlowNetwork;

// An empty network with source and sink. Safe to free at any time.
void flow_clear(FlowNetwork *network);
void flow_free(FlowNetwork *network);

// Both return the number of what they add.
int flow_add_node(FlowNetwork *network);
int flow_add_edge(FlowNetwork *network, int tail, int head, int64_t capacity);

// Fixes the shape; capacities may still change.
void flow_finish(FlowNetwork *network);

// The value of a maximum flow for the present capacities (Dinic 1970), at most FLOW_INFINITE. Afterwards
// flow_is_source_side tells the minimum cut with the most nodes on the source's side.
int64_t flow_solve(FlowNetwork *network);
bool flow_is_source_side(const FlowNetwork *network, int node);

#endif
