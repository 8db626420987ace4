// What the train section names and the library has: see methods.h.
#include "compiler/methods.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/diagnostics.h"
#include "compiler/prelude.h"

static AstFile *parse(const char *name) {
  const PreludeText *text = prelude_texts;
  while (strcmp(text->file, name) != 0) text++;
  Diagnostics *diagnostics = diag_create(stderr, DIAG_COLOR_AUTO, 0);   // lives as long as the process
  Source *source = source_from_text(text->file, text->text, text->length);
  source->is_prelude = true;
  AstFile *file = ast_parse_source(diagnostics, diag_add_source(diagnostics, source), false);
  if (diag_error_count(diagnostics)) {
    fprintf(stderr, "nnc: %s of the library does not parse\n", name);
    exit(NNC_EXIT_BUG);
  }
  return file;
}

static const AstFile *file_of(AstItemKind kind) {
  static AstFile *optimizers, *schedules;
  AstFile **file = kind == AST_OPTIMIZER ? &optimizers : &schedules;
  if (!*file) *file = parse(kind == AST_OPTIMIZER ? "optimizers.nn" : "schedules.nn");
  return *file;
}

const AstItem *method_at(AstItemKind kind, int i) {
  const AstFile *file = file_of(kind);
  return i < file->n_items ? file->items[i] : NULL;
}

const AstItem *method_find(AstItemKind kind, const char *name) {
  const AstFile *file = file_of(kind);
  for (int i = 0; i < file->n_items; i++)
    if (strcmp(file->items[i]->name.text, name) == 0) return file->items[i];
  return NULL;
}
