// Optimizers and schedules by their names: the program's own, then those of the library (methods.h).
#include <string.h>

#include "compiler/elaborate_internal.h"
#include "compiler/methods.h"

const AstItem *method_of(const Elaborator *e, AstItemKind kind, const char *name) {
  for (int i = 0; i < e->file->n_items && !e->frame->is_prelude; i++)
    if (e->file->items[i]->kind == kind && strcmp(e->file->items[i]->name.text, name) == 0) return e->file->items[i];
  return *name == '_' && !e->frame->is_prelude ? NULL : method_find(kind, name);
}

const AstItem *method_nth(const Elaborator *e, AstItemKind kind, int i) {
  for (int k = 0; k < e->file->n_items; k++)
    if (e->file->items[k]->kind == kind && i-- == 0) return e->file->items[k];
  return method_at(kind, i);
}

const AstItem *method_named(Elaborator *e, AstItemKind kind, AstPos pos, const char *name) {
  const char *what = kind == AST_OPTIMIZER ? "optimizer" : "schedule", *all = NULL;
  const AstItem *found = *name == '_' ? NULL : method_of(e, kind, name), *item;
  NameSearch nearest = name_search(name);
  if (found) return found;
  for (int i = 0; (item = method_nth(e, kind, i)); i++) {
    const char *other = item->name.text, *joint = method_nth(e, kind, i + 1) ? "," : " and";
    if (*other == '_') continue;   // a part of others, not for programs
    name_consider(&nearest, other);
    all = all ? elaborator_format(e, "%s%s %s", all, joint, other) : other;
  }
  elaborator_error(e, pos, "unknown %s '%s'", what, name);
  if (nearest.best) elaborator_hint(e, "did you mean '%s'?", nearest.best);
  else elaborator_hint(e, "the %ss are %s", what, all);
  return NULL;
}
