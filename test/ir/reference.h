// A reference interpreter of the nn dialect: every op in plain loops over doubles, written from the ops' definitions
// and not from the rules or kernels it is compared with. Slow and simple. A test program is one source: it includes
// reference.c.
#ifndef NNC_TEST_IR_REFERENCE_H
#define NNC_TEST_IR_REFERENCE_H

#include "ir/ir.h"

// Elements of any dtype as doubles, row-major. f32 results are not rounded: the reference is better than what it
// judges. A bf16, an f16 or an integer is one wherever it stands, and so is a constant.
typedef struct Tensor {
  NnType type;
  double *data;   // Owned: tensor_free
} Tensor;

Tensor tensor_create(NnType type);   // zeros
void tensor_free(Tensor *t);

// Evaluates one nn op: result[i] are created. False if the op is not known here.
bool reference_op(MlirOperation op, const Tensor *const *operand, Tensor *result);
// Runs a function of nn ops, scans and func.return on its arguments. Returns the number of results, -1 on an op it does
// not know.
int reference_run(MlirOperation func, const Tensor *args, Tensor *results, int max_results);
// The same, and calls tap on each nn.tap with what it marks.
int reference_run_tapped(MlirOperation func, const Tensor *args, Tensor *results, int max_results,
                         void (*tap)(void *data, MlirOperation op, const Tensor *value), void *data);

#endif
