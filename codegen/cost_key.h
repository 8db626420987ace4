// The name under which the time of a step is measured and looked up: what it computes, on what shapes. Equal work has
// equal keys, whatever its place in the program, so that a clone finds the time of its original, and a change of the
// model makes a new key.
#ifndef NNC_CODEGEN_COST_KEY_H
#define NNC_CODEGEN_COST_KEY_H

#include "ir/ir.h"

// "add+relu 128x28x28x6 0f3a…": for reading, then a hash (FNV-1a) of op, attributes, types and, for a call, of the
// kernel's body. `kernel` is the function that a func.call calls, else null. NULL for what does no work. Owned: free().
char *cost_key(MlirOperation op, MlirOperation kernel);

#endif
