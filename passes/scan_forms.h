// The forms of a loop and its gradient (scan_forms.c).
#ifndef NNC_PASSES_SCAN_FORMS_H
#define NNC_PASSES_SCAN_FORMS_H

#include "passes/plan.h"

typedef enum ScanForm {
  SCAN_ROWS,       // as it is: the carried values of all steps are kept, and each step is computed again
  SCAN_PRODUCTS,   // so are the results of the step's library ops, which are not computed again
  SCAN_SEGMENTS,   // the carried values between segments are kept, and those of a segment computed again from there
  SCAN_SEGMENT_PRODUCTS,   // the same, and with those of a segment the results of its library ops, so that each step is computed again once
  SCAN_FORMS,
} ScanForm;

// The call of a forward scan, and that of its gradient, which goes over f.length / b.length steps at a time. steps: those of a segment,
// which is b itself where all steps are one.
typedef struct ScanPair {
  MlirOperation forward, backward;
  NnScan f, b, steps;
  bool has[SCAN_FORMS];
} ScanPair;

// The pairs of a function that have more than one form, in order; at most `max`. Returns the number. Scans have plans (the pass scan has run).
int scan_pairs_find(MlirOperation func, ScanPair *out, int max);
// Rewrites the pair to a form that it has. Other pairs stay valid. What is not called any more stays in the module.
void scan_pair_rewrite(MlirModule module, ScanPair *pair, ScanForm form, const NnTarget *target);

#endif
