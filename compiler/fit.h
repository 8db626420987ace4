// nnc fit: the largest value of a dimension, such as the batch, whose plan fits some memory.
#ifndef NNC_COMPILER_FIT_H
#define NNC_COMPILER_FIT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct FitPlan {
  bool rough;                    // asked for: about the arena of training, to look from
  int64_t value, arena, stays;   // bytes; stays: of parameters and optimizer state
  int64_t live;                  // bytes that are alive at once at most, which grow evenly; of a rough plan the arena
  bool planned;                  // the arena is known; whoever plans again wants the time
  double seconds;                // of a step, predicted; 0: not asked for
  double items;                  // records, or tokens, of a step of all ranks
  bool tokens;
} FitPlan;
// Plans a program with the dimension at plan->value and fills the rest. False: such a program cannot be.
typedef bool (*FitPlanFn)(void *context, FitPlan *plan);

// The largest value whose arena takes at most `bytes`, and the next one, whose does not, or has no plan (arena 0), or
// is past the largest that is tried (value 0). Where only some are programs, such as an even number of records, it is
// among those as far from `start`, by a divisor of it or at most 16, as programs around it lie apart. Requires that
// more of the dimension never takes less. Begins with rough plans of `start` (at least 1) and of four times as much,
// and plans as few as it can, two at a time in two processes: what is alive is nearly linear. False: not even the
// smallest value can be planned, or fits; then *best is that plan, its arena 0 where there is none.
bool fit_search(int64_t bytes, int64_t start, FitPlanFn plan, void *context, FitPlan *best, FitPlan *next);

#endif
