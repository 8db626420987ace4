// Private to the pass layout: which values have a twin, the same elements with permuted axes. layout.c decides, op by
// op; layout_ops.c builds.
#ifndef NNC_PASSES_LAYOUT_H
#define NNC_PASSES_LAYOUT_H

#include "ir/ir.h"
#include "passes/ptr_map.h"

// twin axis i is axis[i] of the original
typedef struct Permutation {
  int rank;
  int64_t axis[NN_MAX_RANK];
} Permutation;
Permutation permutation_inverse(const Permutation *p);
bool permutation_equal(const Permutation *p, const Permutation *q);
NnType permutation_apply(const Permutation *p, NnType type);

typedef struct Twin {
  MlirValue value;
  Permutation perm;
  bool replaces;    // computed instead of the original, which goes; else a copy beside it
  MlirValue back;   // with `replaces`: the original order, built when an op needs it; null until then
} Twin;

typedef struct Layout {
  PtrMap id;
  Twin *twin;   // Owned
  int n, capacity;
} Layout;

bool layout_twin(const Layout *l, MlirValue v, Twin *out);
bool layout_replaced(const Layout *l, MlirValue v, Twin *out);   // a twin that replaces v
void layout_set_twin(Layout *l, MlirValue v, MlirValue twin, const Permutation *perm, bool replaces);
// Gives v in the order p before op without a transpose of data in memory (a twin that exists, a source or a broadcast
// of something smaller).
bool layout_is_free(const Layout *l, MlirValue v, const Permutation *p);
// v in the order p, built before op where it does not exist. The transpose it may cost moves up through maps with one
// use.
MlirValue layout_demand(Layout *l, MlirOperation op, MlirValue v, const Permutation *p);
// Gives op its operands from number `first` on in the original order.
void layout_restore_operands(Layout *l, MlirOperation op, int first);
// A copy of op before `at` with other operands, result types and attributes.
MlirOperation layout_clone(MlirOperation op, MlirOperation at, const MlirValue *operands, const NnType *results,
                           int n_attrs, const NnAttr *attrs);

#endif
