// Maps that read operands along another axis than they write: which, for the targets, each of which has tiles of its
// own.
#ifndef NNC_CODEGEN_KERNEL_TRANSPOSED_H
#define NNC_CODEGEN_KERNEL_TRANSPOSED_H

#include "codegen/kernel/kernel.h"

#define MAX_TRANSPOSED 5

typedef struct TransposedLeaf {
  int arg;
  NnDtype dtype;
  Access access;
} TransposedLeaf;

typedef struct Transposed {
  int along, across;   // groups of the nest: written along, read along
  const Nest *nest;    // Borrowed
  int n;
  TransposedLeaf leaf[MAX_TRANSPOSED];
  Value place;   // of the point's elements in a tile; the target's
} Transposed;

// False: there are none, or the groups have fewer elements than those. The nest is borrowed.
bool transposed_find(const Kernel *k, const Nest *nest, int64_t least_along, int64_t least_across, Transposed *t);
int transposed_leaf(const Transposed *t, int arg, const Access *a);   // -1: not one of them

#endif
