// --report: the page about the memory plan (report/report.h), with the plan without recomputation beside the one that
// is compiled.
#ifndef NNC_COMPILER_REPORT_OUTPUT_H
#define NNC_COMPILER_REPORT_OUTPUT_H

#include "compiler/diagnostics.h"
#include "passes/passes.h"
#include "passes/remat/remat.h"

// The step as it was before `remat`.
typedef struct ReportCapture {
  MlirModule before;   // Owned
} ReportCapture;

// Keeps a copy of the module as it is before the pass `remat`.
void report_capture(ReportCapture *capture, MlirModule module);
void report_capture_free(ReportCapture *capture);
// Writes the page about the planned module to `path`, complete or not at all; "-" is standard output. The curve over
// budgets is that of nn_remat_sweep with `search`. Consumes what was captured. False: reported.
bool report_output(Diagnostics *d, const char *path, ReportCapture *capture, MlirModule module, const NnTarget *target,
                   const RematGoal *search);

#endif
