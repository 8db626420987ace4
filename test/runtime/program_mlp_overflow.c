// The test program with a learning rate that is infinite in f32: the first step has a good loss and leaves no good
// parameter; see mlp.inc.
#define LEARNING_RATE 1e40
#include "test/runtime/mlp.inc"
