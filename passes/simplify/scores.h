// The scores of a loss: a product, then a bias or a cast or both, which a cross-entropy reads, or which are what a
// model gives. Shared by the passes align and chunk.
#ifndef NNC_PASSES_SCORES_H
#define NNC_PASSES_SCORES_H

#include "ir/ir.h"

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
