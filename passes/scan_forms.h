// Two forms of a loop and its gradient (scan_forms.c): all carried values are kept, or those between segments.
#ifndef NNC_PASSES_SCAN_FORMS_H
#define NNC_PASSES_SCAN_FORMS_H

#include "passes/plan.h"

// The call of a forward scan, and that of its gradient, which goes over f.length / b.length steps at a time.
typedef struct ScanPair { MlirOperation forward, backward; NnScan f, b; } ScanPair;

// The pairs of a function that have the other form, in order; at most `max`. Returns the number. Scans have plans (the pass scan has run).
int scan_pairs_find(MlirOperation func, ScanPair *out, int max);
// Rewrites the pair so that it keeps the carried values between segments only. Other pairs stay valid. What is not called any more stays in
// the module.
void scan_pair_rewrite(MlirModule module, ScanPair *pair, const NnTarget *target);

#endif
