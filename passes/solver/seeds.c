// seeds.c: schedules made for one budget, from which the search begins.
#include "internal.h"

void remat_each_budget_seed(const RematGraph *graph, int64_t budget_bytes, bool (*visit)(void *context, const RematSchedule *schedule), void *context) {
  int64_t free_bytes = budget_bytes - graph->problem->fixed_bytes, largest = 0;
  for (int v = 0; v < graph->n; v++)
    if (graph->problem->nodes[v].bytes > largest) largest = graph->problem->nodes[v].bytes;
  // Memories a little smaller as well: what the backward pass needs beside the held values is not known beforehand.
  for (int i = 0; i < 4 && free_bytes > i * largest; i++) {
    RematSchedule seed;
    if (!remat_build_chain(graph, free_bytes - i * largest, &seed)) continue;
    bool more = visit(context, &seed);
    remat_schedule_free(&seed);
    if (!more) return;
  }
}
