// The test program with two micro-batches per step; see mlp.inc.
#define ACCUMULATE 2
#include "test/runtime/mlp.inc"
