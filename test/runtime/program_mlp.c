// The test program as it is; see mlp.inc.
#include "test/runtime/mlp.inc"
