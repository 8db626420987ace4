// The memory report: one HTML page that shows a plan, self-contained (styles, drawings and a little script inside it),
// legible without the script, light and dark.
#ifndef NNC_PASSES_REPORT_H
#define NNC_PASSES_REPORT_H

#include <stdio.h>

#include "passes/remat/remat.h"

typedef struct NnReport {
  MlirModule before;         // the module planned without recomputation; null: not to be shown
  MlirModule after;          // the planned module
  const NnTarget *target;    // Borrowed; for the predicted times
  const RematSweep *sweep;   // Borrowed; the curve of time over memory of nn_report_function; NULL: none
} NnReport;

// The training step, of phases the one with the largest arena, else the first public function; null: there is none.
MlirOperation nn_report_function(MlirModule after);
// Writes the page about that function to `out`. Names are escaped. Large
// plans are drawn coarser, so that the page stays below about 2 MB. Requires: both modules have passed `plan`.
void nn_report_write(const NnReport *report, FILE *out);

#endif
