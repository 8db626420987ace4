// Private to the pass simplify: its rewrite rules. Each returns the value that replaces op's only result, which may be
// new (built before op), or the null value when no rule applies.
#ifndef NNC_PASSES_SIMPLIFY_H
#define NNC_PASSES_SIMPLIFY_H

#include "ir/ir.h"

MlirValue simplify_arithmetic(MlirOperation op);   // maps: constants folded, neutral elements, chains
MlirValue simplify_view(MlirOperation op);         // views, reductions, moves, operands of products

// The transpose of what loops go over, moved up to something smaller (simplify_loop.c).
MlirValue simplify_loop_input(MlirOperation op);

// Moves a ReLU behind the max-pooling that alone reads it; op is the pooling. Changes the IR itself; false when it does
// not apply.
bool simplify_pool_of_relu(MlirOperation op);

// v is an nn.constant: every element is *value.
bool simplify_is_constant(MlirValue v, double *value);
// v is the first result of `kind`; gives the op.
bool simplify_is(MlirValue v, NnOp kind, MlirOperation *def);
// Private functions and steps of scans that nothing calls go; remat wants that, too.
void simplify_erase_uncalled(MlirModule module);

#endif
