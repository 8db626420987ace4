// generate.h: problems for the solver's tests: chains, residual chains and random graphs.
#ifndef TEST_SOLVER_GENERATE_H
#define TEST_SOLVER_GENERATE_H

#include <stdlib.h>
#include <string.h>

#include "passes/solver/solver.h"
#include "support/alloc.h"

typedef struct Generated {
  RematProblem problem;
  RematNode *nodes;
  int *inputs;   // backing store of all input lists
  int n_inputs;
  int output;
  RematAnti anti[16];
  RematTier far;
} Generated;

static Generated *generated_create(int max_nodes) {
  Generated *g = allocate_array(1, sizeof *g);
  g->nodes = allocate_array((size_t)max_nodes, sizeof *g->nodes);
  g->inputs = allocate_array((size_t)max_nodes * 8, sizeof *g->inputs);
  g->problem.nodes = g->nodes;
  g->problem.outputs = &g->output;
  return g;
}

__attribute__((unused)) static void generated_free(Generated *g) {
  free(g->nodes);
  free(g->inputs);
  free(g);
}

static int generated_add(Generated *g, double cost, int64_t bytes, RematRole role, int n_inputs, const int *inputs) {
  int v = g->problem.n_nodes++;
  int *copy = g->inputs + g->n_inputs;
  for (int i = 0; i < n_inputs; i++) copy[i] = inputs[i];
  g->n_inputs += n_inputs;
  g->nodes[v] = (RematNode){.cost = cost,
                            .bytes = bytes,
                            .role = role,
                            .n_inputs = n_inputs,
                            .inputs = copy,
                            .recomputable = role != REMAT_UPDATE};
  return v;
}

// A chain of n nodes of `unit` bytes and cost 1, as tanh: its gradient needs its own output. With `residual`, node i
// also reads node i - 2, and gradients accumulate.
__attribute__((unused)) static Generated *generate_chain(int n, int64_t unit, bool residual) {
  Generated *g = generated_create(2 * n + 2);
  for (int i = 0; i < n; i++) {
    int inputs[2] = {i - 1, i - 2};
    generated_add(g, 1, unit, REMAT_FORWARD, i == 0 ? 0 : residual && i > 1 ? 2 : 1, inputs);
  }
  int last = n - 1;
  for (int i = n - 1; i >= 0; i--) {
    // The gradient of node i comes from that of node i + 1 and, over the skip, i + 2.
    int inputs[3] = {i, last, last - 1};
    int count = i == n - 1 ? 1 : residual && i < n - 2 ? 3 : 2;
    last = generated_add(g, 1, unit, REMAT_BACKWARD, count, inputs);
  }
  g->problem.n_outputs = 1;
  g->output = last;
  return g;
}

static int generate_number(uint64_t *state, int below) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int)((*state >> 33) % (uint64_t)below);
}

// A random graph of `n` nodes, the first half forward, with workspaces, zero-byte values, nodes that are not
// recomputable, and (when n is large enough) an update with an anti-dependence.
__attribute__((unused)) static Generated *generate_random(int n, uint64_t seed) {
  Generated *g = generated_create(n);
  uint64_t state = seed * 2 + 1;
  for (int i = 0; i < 8; i++) generate_number(&state, 2);
  g->problem.fixed_bytes = generate_number(&state, 3);
  for (int v = 0; v < n; v++) {
    int inputs[3], count = 0, wanted = v == 0 ? 0 : 1 + generate_number(&state, 3);
    for (int i = 0; i < wanted; i++) {
      int reach = generate_number(&state, 3) ? 3 : v;
      int input = v - 1 - generate_number(&state, reach < v ? reach : v);
      bool repeated = false;
      for (int k = 0; k < count; k++) repeated = repeated || inputs[k] == input;
      if (!repeated) inputs[count++] = input;
    }
    int64_t bytes = generate_number(&state, 8) ? 1 + generate_number(&state, 6) : 0;
    generated_add(g, 1 + generate_number(&state, 5), bytes, v < n / 2 ? REMAT_FORWARD : REMAT_BACKWARD, count, inputs);
    g->nodes[v].workspace = generate_number(&state, 5) ? 0 : generate_number(&state, 4);
    g->nodes[v].recomputable = generate_number(&state, 6) != 0;
    g->nodes[v].cost_class = generate_number(&state, 2) ? REMAT_EXPENSIVE : REMAT_CHEAP;
    g->nodes[v].checkpoint = generate_number(&state, 3) == 0;
  }
  if (n >= 4 && generate_number(&state, 2)) {
    int after = n / 2 + generate_number(&state, n - n / 2);
    g->nodes[after].role = REMAT_UPDATE;
    g->nodes[after].recomputable = false;
    g->anti[0] = (RematAnti){generate_number(&state, n / 2), after};
    g->problem.anti = g->anti;
    g->problem.n_anti = 1;
  }
  g->problem.n_outputs = 1;
  g->output = n - 1;
  return g;
}

// A random graph of `n` >= 5 nodes with a far tier: up to two homes, which some nodes read and, mostly, updates at the
// end overwrite; few values are not movable.
__attribute__((unused)) static Generated *generate_tiers(int n, uint64_t seed) {
  Generated *g = generated_create(n);
  uint64_t state = seed * 2 + 1;
  for (int i = 0; i < 8; i++) generate_number(&state, 2);
  int n_homes = generate_number(&state, 3), n_updates = n_homes ? generate_number(&state, n_homes + 1) : 0;
  int last = n - n_updates;   // of what computes
  g->problem.fixed_bytes = generate_number(&state, 3);
  g->problem.anti = g->anti;
  for (int h = 0; h < n_homes; h++) {
    generated_add(g, 0, 1 + generate_number(&state, 6), REMAT_FORWARD, 0, NULL);
    g->nodes[h].home = true;
    g->nodes[h].recomputable = false;
    if (h < n_updates) g->nodes[h].updated_by = last + h;
  }
  for (int v = n_homes; v < last; v++) {
    int inputs[3], count = 0, made = v - n_homes;
    for (int i = generate_number(&state, 3); made > 0 && i >= 0 && count < 2; i--) {
      int reach = generate_number(&state, 3) ? 3 : made;
      int input = v - 1 - generate_number(&state, reach < made ? reach : made);
      if (count == 0 || inputs[0] != input) inputs[count++] = input;
    }
    if (n_homes && generate_number(&state, 2)) inputs[count++] = generate_number(&state, n_homes);
    int64_t bytes = generate_number(&state, 8) ? 1 + generate_number(&state, 6) : 0;
    RematRole role = v < n / 2 ? REMAT_FORWARD : REMAT_BACKWARD;
    generated_add(g, 1 + generate_number(&state, 5), bytes, role, count, inputs);
    g->nodes[v].workspace = generate_number(&state, 5) ? 0 : generate_number(&state, 4);
    g->nodes[v].recomputable = generate_number(&state, 6) != 0;
    g->nodes[v].movable = generate_number(&state, 6) != 0;
    for (int i = 0; i < count; i++)
      if (g->nodes[inputs[i]].updated_by) g->anti[g->problem.n_anti++] = (RematAnti){v, g->nodes[inputs[i]].updated_by};
  }
  for (int h = 0; h < n_updates; h++)
    generated_add(g, 1, 0, REMAT_UPDATE, 2, (int[]){h, last - 1 - generate_number(&state, last > n_homes + 1 ? 2 : 1)});
  g->far = (RematTier){.out_rate = 0.5 * (1 + generate_number(&state, 6)),
                       .in_rate = 0.5 * (1 + generate_number(&state, 6)),
                       .latency = 0.5 * generate_number(&state, 2),
                       .drag = generate_number(&state, 4) ? 0 : 0.125,
                       .workspace = generate_number(&state, 4) ? 0 : 2,
                       .budget = generate_number(&state, 4) ? 100 : 6};
  g->problem.far = &g->far;
  g->problem.n_outputs = 1;
  g->output = last - 1;
  return g;
}

#endif
