// The test program with a result that lies behind the arena; see mlp.inc.
#define LOSS_RESULT ARENA
#include "test/runtime/mlp.inc"
