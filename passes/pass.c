// What a pass asks of its run and what it reports: apart from the pipeline, which knows all passes.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mlir-c/Diagnostics.h"
#include "passes/passes.h"

const char *nn_pass_option(const NnPassRun *run, const char *key, const char *otherwise) {
  for (int i = 0; i < run->n_options; i++)
    if (strcmp(run->options[i].key, key) == 0) return run->options[i].value;
  return otherwise;
}

static void report(MlirLocation loc, const char *format, va_list args) {
  char *message;
  if (vasprintf(&message, format, args) < 0) abort();
  mlirEmitError(loc, message);
  free(message);
}

void nn_error_at(MlirLocation loc, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report(loc, format, args);
  va_end(args);
}

void nn_error(MlirOperation op, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report(mlirOperationGetLocation(op), format, args);
  va_end(args);
}
