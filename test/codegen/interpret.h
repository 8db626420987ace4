// A plain interpreter of kernel functions: every op of the body on whole tensors of doubles, one element after the other. Slow and
// simple on purpose; test_kernels compares the generated code with it.
#ifndef NNC_TEST_CODEGEN_INTERPRET_H
#define NNC_TEST_CODEGEN_INTERPRET_H

#include "ir/ir.h"

typedef struct Tensor {
  NnType type;
  double *data;   // Owned
} Tensor;

// Runs the body of a private function; args are its arguments, results (n_results of them) are allocated.
void interpret(MlirOperation func, const Tensor *args, Tensor *results);
void tensor_free(Tensor *t);

#endif
