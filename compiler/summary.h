// What nnc says of a program that it has made: memory, work and what recomputation and memory far away cost.
#ifndef NNC_COMPILER_SUMMARY_H
#define NNC_COMPILER_SUMMARY_H

#include "compiler/options.h"
#include "ir/ir.h"

// A few lines on stderr, of a module that is planned.
void print_summary(const Options *options, MlirModule module);

#endif
