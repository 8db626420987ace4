// The forms of a loop and its gradient (scan_forms.c).
#ifndef NNC_PASSES_SCAN_H
#define NNC_PASSES_SCAN_H

#include "passes/plan/plan.h"

typedef enum ScanForm {
  SCAN_ROWS,       // as it is: the carried values of all steps are kept, and each step is computed again
  SCAN_PRODUCTS,   // so is what the step's library ops compute, or what is made of it (scan_find_kept), and no library
                   // op runs again
  SCAN_SEGMENTS,   // the carried values between segments are kept, and those of a segment computed again from there
  SCAN_SEGMENT_PRODUCTS,   // the same, and with those of a segment what its library ops compute, so that each step is
                           // computed again once
  SCAN_FORMS,
} ScanForm;

// The call of a forward scan, and that of its gradient, which goes over f.length / b.length steps at a time. steps:
// those of a segment, which is b itself where all steps are one.
typedef struct ScanPair {
  MlirOperation forward, backward;
  NnScan f, b, steps;
  bool has[SCAN_FORMS];
} ScanPair;

// Values of the forward step, and the same ones in the step of the gradient, that SCAN_PRODUCTS and
// SCAN_SEGMENT_PRODUCTS keep.
typedef struct ScanKept {
  int n;
  MlirValue *forward, *back;   // Owned
} ScanKept;

// The smallest set of values that keeps the library ops of the forward step from running again, slices that the
// gradient then still reads counted in; none where there are no such ops. segments: slices are there in any case. Free
// with scan_kept_free.
ScanKept scan_find_kept(const ScanPair *p, bool segments);
void scan_kept_free(ScanKept *k);
// The call of the scan over one segment in the gradient's loop over segments; the gradient's call itself where all
// steps are one.
MlirOperation scan_segment_call(const ScanPair *p);

// The pairs of a function that have more than one form, in order; at most `max`. Returns the number. Scans have plans
// (the pass scan has run).
int scan_pairs_find(MlirOperation func, ScanPair *out, int max);
// Rewrites the pair to a form that it has. Other pairs stay valid. What is not called any more stays in the module.
void scan_pair_rewrite(MlirModule module, ScanPair *pair, ScanForm form, const NnTarget *target);

#endif
