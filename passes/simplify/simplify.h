// Private to this folder: the rules of the pass simplify, the twins of layout, the scores that align and chunk find.
#ifndef NNC_PASSES_SIMPLIFY_H
#define NNC_PASSES_SIMPLIFY_H

#include "ir/ir.h"
#include "support/ptr_map.h"

// ---------------------------------------------------------------------------------------------------------------------
// The rewrite rules of simplify for an op of that kind. Each returns the value that replaces op's only result, which
// may be new (built before op), or the null value when no rule applies.

MlirValue simplify_arithmetic(MlirOperation op, NnOp kind);   // maps: constants folded, neutral elements, chains
MlirValue simplify_view(MlirOperation op, NnOp kind);         // views, reductions, moves, operands of products

// The transpose of what loops go over, moved up to something smaller (simplify_loop.c).
MlirValue simplify_loop_input(MlirOperation op, NnOp kind);

// The transpose back of an attention's result: tokens before heads throughout (simplify_attention.c).
MlirValue simplify_attention_layout(MlirOperation op, NnOp kind);

// Moves a ReLU behind the max-pooling that alone reads it; op is the pooling. Changes the IR itself; false when it does
// not apply.
bool simplify_pool_of_relu(MlirOperation op, NnOp kind);

// v is an nn.constant: every element is *value.
bool simplify_is_constant(MlirValue v, double *value);
// v is the first result of `kind`; gives the op.
bool simplify_is(MlirValue v, NnOp kind, MlirOperation *def);
// Private functions and steps of scans that nothing calls go; remat wants that, too.
void simplify_erase_uncalled(MlirModule module);

// ---------------------------------------------------------------------------------------------------------------------
// layout: which values have a twin, the same elements with permuted axes. layout.c decides, op by
// op; layout_ops.c builds.

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
  int n;
  int64_t block_channels;   // NnTarget.block_channels
} Layout;

bool layout_replaced(const Layout *l, MlirValue v, Twin *out);   // a twin that replaces v
void layout_set_twin(Layout *l, MlirValue v, MlirValue twin, const Permutation *perm, bool replaces);
// Gives v in the order p before op without a transpose of data in memory (a twin that exists, a source or a broadcast
// of something smaller).
bool layout_is_free(const Layout *l, MlirValue v, const Permutation *p);
// v in the order p, built before op where it does not exist. The transpose it may cost moves up through maps with one
// use.
MlirValue layout_demand(Layout *l, MlirOperation op, MlirValue v, const Permutation *p);
// The result, channels last, of a conv2d that is built on x, channels last, with half its stride; null where it would
// not pay (layout_stride.c).
MlirValue layout_halve_stride(Layout *l, MlirOperation op, MlirValue x);
// conv3d and its gradients as convolutions of slices (layout_volume.c).
void layout_expand_volumes(MlirBlock block);
// Gives op its operands from number `first` on in the original order.
void layout_restore_operands(Layout *l, MlirOperation op, int first);
// A copy of op before `at` with other operands, result types and attributes.
MlirOperation layout_clone(MlirOperation op, MlirOperation at, const MlirValue *operands, const NnType *results,
                           int n_attrs, const NnAttr *attrs);

// ---------------------------------------------------------------------------------------------------------------------
// The scores of a loss: a product, then a bias or a cast or both, which a cross-entropy reads, or which are what a
// model gives. Shared by the passes align and chunk.

enum { SCORES_MAX_OPS = 4 };

// From the product on, up to what is read elsewhere.
typedef struct Scores {
  int n;
  MlirOperation op[SCORES_MAX_OPS];
} Scores;

// Whether v is such scores, of rows of leading axes by one matrix.
bool scores_find(MlirValue v, Scores *s);
// Nothing reads them but each other, `reader`, and taps.
bool scores_are_private(const Scores *s, MlirOperation reader);
// The operand of the broadcast that adds the bias, one number for each column. add is one of the ops.
MlirValue scores_bias(MlirOperation add);
int64_t scores_columns(MlirValue v);   // extent of the last axis
// The casts, bias and product of s again at b, of other rows or columns: x in place of the first operand of s->op[i],
// whose result has the type `type`, but for its element type.
MlirValue scores_again(NnBuilder *b, const Scores *s, int i, MlirValue x, MlirValue parameter, const NnType *type);

#endif
