// What `nnc --help-op NAME` prints about a built-in function of the language or an op of the nn dialect.
#ifndef NNC_COMPILER_LAYER_HELP_H
#define NNC_COMPILER_LAYER_HELP_H

#include <stdbool.h>
#include <stdio.h>

// The arguments of a function come from its row in layer.c; shapes, parameters, ops, gradient and FLOPs from building
// an example call. "nn.conv2d", or a name that only the dialect has, is looked up in ir/ops.def. False: there is
// neither, and nothing was written.
bool layer_help_print(FILE *out, const char *name);

#endif
