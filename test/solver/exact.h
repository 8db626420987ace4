// exact.h: the true optimum of a small problem by Dijkstra's algorithm over (nodes executed so far, values in memory).
// Deliberately naive: values are freed one at a time, whenever one likes.
#ifndef TEST_SOLVER_EXACT_H
#define TEST_SOLVER_EXACT_H

#include <stdlib.h>

#include "passes/solver/solver.h"
#include "support/alloc.h"

enum { EXACT_MAX_COST = 4000 };

typedef struct ExactQueue {
  int *head;   // per cost, most recent entry
  int *state, *next;
  int n, capacity;
} ExactQueue;

static void exact_push(ExactQueue *queue, int cost, int state) {
  if (queue->n == queue->capacity) {
    queue->capacity = 2 * queue->capacity + 1024;
    queue->state = reallocate_array(queue->state, (size_t)queue->capacity, sizeof(int));
    queue->next = reallocate_array(queue->next, (size_t)queue->capacity, sizeof(int));
  }
  queue->state[queue->n] = state;
  queue->next[queue->n] = queue->head[cost];
  queue->head[cost] = queue->n++;
}

static bool exact_may_execute(const RematProblem *problem, int v, int executed, int memory, int64_t budget) {
  const RematNode *node = &problem->nodes[v];
  if ((memory >> v & 1) || ((executed >> v & 1) && !node->recomputable)) return false;
  int64_t bytes = problem->fixed_bytes + node->bytes + node->workspace;
  for (int u = 0; u < problem->n_nodes; u++)
    if (memory >> u & 1) bytes += problem->nodes[u].bytes;
  if (bytes > budget) return false;
  for (int i = 0; i < node->n_inputs; i++)
    if (!(memory >> node->inputs[i] & 1)) return false;
  for (int i = 0; i < problem->n_anti; i++) {
    if (problem->anti[i].before == v && (executed >> problem->anti[i].after & 1)) return false;
    if (problem->anti[i].after == v && !(executed >> problem->anti[i].before & 1)) return false;
  }
  return true;
}

static void exact_reach(ExactQueue *queue, int *best, int cost, int state) {
  if (cost >= EXACT_MAX_COST || best[state] <= cost) return;
  best[state] = cost;
  exact_push(queue, cost, state);
}

// The least cost of a schedule with a peak of at most `budget`, or -1 when there is none. Costs must be small
// integers above 0, n_nodes at most 10.
static int exact_solve(const RematProblem *problem, int64_t budget) {
  int n = problem->n_nodes, all = (1 << n) - 1, outputs = 0, found = -1;
  size_t states = (size_t)1 << (2 * n);
  int *best = allocate_array(states, sizeof *best);
  ExactQueue queue = {.head = allocate_array(EXACT_MAX_COST, sizeof(int))};
  for (size_t s = 0; s < states; s++) best[s] = EXACT_MAX_COST;
  for (int c = 0; c < EXACT_MAX_COST; c++) queue.head[c] = -1;
  for (int i = 0; i < problem->n_outputs; i++) outputs |= 1 << problem->outputs[i];
  if (problem->fixed_bytes <= budget) exact_reach(&queue, best, 0, 0);
  for (int cost = 0; cost < EXACT_MAX_COST && found < 0; cost++)
    while (queue.head[cost] >= 0 && found < 0) {
      int entry = queue.head[cost], state = queue.state[entry], executed = state >> n, memory = state & all;
      queue.head[cost] = queue.next[entry];
      if (best[state] < cost) continue;
      if (executed == all && (memory & outputs) == outputs) found = cost;
      for (int v = 0; v < n; v++) {
        if (memory >> v & 1) exact_reach(&queue, best, cost, executed << n | (memory & ~(1 << v)));
        if (exact_may_execute(problem, v, executed, memory, budget))
          exact_reach(&queue, best, cost + (int)problem->nodes[v].cost, (executed | 1 << v) << n | memory | 1 << v);
      }
    }
  free(best);
  free(queue.head);
  free(queue.state);
  free(queue.next);
  return found;
}

#endif
