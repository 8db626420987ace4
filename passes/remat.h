// Private to the pass `remat`: the step as a problem for the solver, and a sequence of executions as the function that runs it.
#ifndef NNC_PASSES_REMAT_H
#define NNC_PASSES_REMAT_H

#include "passes/plan.h"
#include "passes/solver/solver.h"

// ---- remat_problem.c ----

// A node per argument that the runtime fills, then the steps. Two things the solver does not know are told in the shape of the nodes:
// a chain of steps, each of which alone reads the one before and overwrites it in place, is one node, because it occupies one
// buffer; a step with several large results is a node per result, because each may die or be wanted again alone.
typedef struct StepProblem {
  PlanProgram *p;            // Borrowed
  RematProblem problem;
  int64_t arena_none;        // bytes: the arena when every step runs once
  int64_t activations_none;  // bytes: plan_layout_activations then
  double seconds_none;       // predicted time of that
  RematNode *nodes;          // Owned
  int n_arg_nodes;
  int *arg_node;             // Owned, per argument: node, -1 for persistent ones
  int *value_node;           // Owned, per value made by a step: node
  int *first_step;           // Owned, per node; -1 for arguments
  int *n_parts, *part;       // Owned, per node: nodes of its step, and which of them this is
  int *next_step;            // Owned, per step: the next of its chain, -1 ends
  int *step_node;            // Owned, per step: its first node
  double *step_seconds;      // Owned
  int *pool, *outputs;       // Owned
  RematAnti *anti;           // Owned
} StepProblem;

void step_problem_build(StepProblem *q, PlanProgram *p, int64_t persistent_bytes, const NnTarget *target);
void step_problem_free(StepProblem *q);
// The steps that a schedule of the problem runs. Owned: free(). Sets their number and predicted time.
int *step_problem_expand(const StepProblem *q, const RematSchedule *s, int *n, double *seconds);

// ---- remat_rewrite.c ----

// Rewrites the function so that its steps run as `exec` says (n step numbers of p; each first occurrence is the op itself, the others
// are clones in regions). p describes the function before and is stale after. Checkpoint marks are erased: they have been heard.
void remat_rewrite(PlanProgram *p, const int *exec, int n);

#endif
