// --report; report_output.h.
#include "compiler/report_output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/output.h"
#include "report/report.h"

void report_capture(ReportCapture *capture, MlirModule module) {
  if (mlirModuleIsNull(capture->before))
    capture->before = mlirModuleFromOperation(mlirOperationClone(mlirModuleGetOperation(module)));
}

void report_capture_free(ReportCapture *capture) {
  if (!mlirModuleIsNull(capture->before)) mlirModuleDestroy(capture->before);
  *capture = (ReportCapture){0};
}

// The captured step, planned as it is.
static bool plan_before(MlirModule module, const NnTarget *target) {
  NnPipeline pipeline;
  char error[NN_ERROR_SIZE];
  bool ok = nn_pipeline_parse("inplace,plan", target, &pipeline, error) && nn_pipeline_run(&pipeline, module, NULL);
  nn_pipeline_free(&pipeline);
  return ok;
}

bool report_output(Diagnostics *d, const char *path, ReportCapture *capture, MlirModule module, const NnTarget *target,
                   const RematGoal *search) {
  NnReport report = {.after = module, .target = target};
  RematSweep sweep = {0};
  // memory far away is shared by all phases: a curve of one alone would show other plans
  bool alone = !search->far_budget || !nn_has_attr(mlirModuleGetOperation(module), ATTR_phases);
  char name[128];
  MlirOperation shown = nn_report_function(module);
  if (!mlirOperationIsNull(shown)) nn_attr_str(shown, "sym_name", name, sizeof name, "");
  if (!mlirModuleIsNull(capture->before) && !mlirOperationIsNull(shown) && alone &&
      nn_remat_sweep(capture->before, target, search, name, &sweep))
    report.sweep = &sweep;
  if (!mlirModuleIsNull(capture->before) && plan_before(capture->before, target)) report.before = capture->before;
  char *text = NULL;
  size_t length;
  FILE *out = open_memstream(&text, &length);
  if (!out) abort();
  nn_report_write(&report, out);
  fclose(out);
  bool ok = output_write(path, text, length);
  if (!ok) diag_error(d, DIAG_COMMAND_LINE, "cannot write '%s': %s", path, strerror(errno));
  free(text);
  nn_remat_sweep_free(&sweep);
  report_capture_free(capture);
  return ok;
}
