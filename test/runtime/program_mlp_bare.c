// The test program as if it had no parameters and states; see mlp.inc.
#define PERSISTENT_VALUES 0
#include "test/runtime/mlp.inc"
