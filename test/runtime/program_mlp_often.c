// The test program with an evaluation after every second step; see mlp.inc.
#define EVAL_EVERY 2
#include "test/runtime/mlp.inc"
