// Any bytes as a .nn file: parsed, formatted where they are a program (which must stay the same program), and
// elaborated.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "compiler/compiler.h"
#include "compiler/diagnostics.h"
#include "compiler/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// One context for all inputs: making one costs more than an input. What MLIR keeps (types, attributes) is bounded by
// what is tried.
static MlirContext context(void) {
  static MlirContext ctx;
  if (mlirContextIsNull(ctx)) ctx = nn_context_create();
  return ctx;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static FILE *nowhere;
  if (!nowhere) nowhere = fopen("/dev/null", "w");
  Diagnostics *d = diag_create(nowhere, DIAG_COLOR_NEVER, 20);
  const Source *source = diag_add_source(d, source_from_text("input.nn", (const char *)data, size));
  AstFile *file = ast_parse_source(d, source, false);
  if (diag_error_count(d) == 0) {
    size_t length;
    char *text = format_source(d, source, &length);
    Source *after = text ? source_from_text("input.nn", text, length) : NULL;
    if (!after || !format_same_program(source, after)) abort();
    source_free(after);
    free(text);
    MlirModule module = file->n_items > 0 ? elaborate(context(), file, NULL, 0, NULL, false) : (MlirModule){NULL};
    if (!mlirModuleIsNull(module)) {
      if (!nn_verify_module(module)) abort();
      mlirModuleDestroy(module);
    }
  }
  ast_free(file);
  diag_free(d);
  return 0;
}
