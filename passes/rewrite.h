// Small steps that the rewriting passes share: builders that keep location and phase, replacing and erasing ops,
// gathering a block's ops.
#ifndef NNC_PASSES_REWRITE_H
#define NNC_PASSES_REWRITE_H

#include "ir/ir.h"

// Before op, with its location and phase.
NnBuilder rewrite_builder(MlirOperation op);
// nn.phase of op as a string that lives for ever: "forward", "backward", "update"; NULL when it has none.
const char *rewrite_phase(MlirOperation op);
int rewrite_phase_rank(const char *phase);   // forward 0, backward 1, update 2; none 0
bool rewrite_is_unused(MlirOperation op);    // no result has a use
bool rewrite_has_one_use(MlirValue v);
// Every use of the results becomes values[i] (of the same type); op is erased.
void rewrite_replace(MlirOperation op, const MlirValue *values);
// The ops of a block in order, also the terminator. Owned: free(). The count goes to *n.
MlirOperation *rewrite_ops(MlirBlock block, int *n);
// No element moves when the axes are permuted: those that hold more than one keep their order.
bool rewrite_moves_only_ones(const NnType *x, const int64_t *perm);
// x with its axes permuted (result axis i is x's axis perm[i]): x itself, a reshape where only axes of size 1 move,
// else a transpose.
MlirValue rewrite_transpose(NnBuilder *b, MlirValue x, const int64_t *perm);
bool rewrite_is_private(MlirOperation func);
// Those that rewrite_erase_dead leaves, after it. Owned: free(). How many it erased goes to *erased.
MlirOperation *rewrite_live_ops(MlirBlock block, int *n, int *erased);
// Erases ops of the block without uses, marks and ops of other dialects but scans excepted. Returns how many.
int rewrite_erase_dead(MlirBlock block);

#endif
