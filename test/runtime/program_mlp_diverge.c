// The test program with a learning rate that makes the loss overflow; see mlp.inc.
#define LEARNING_RATE 3e38
#include "test/runtime/mlp.inc"
