// The test program as if compiled for a machine that does not exist; see mlp.inc.
#define ISA "avx4096"
#include "test/runtime/mlp.inc"
