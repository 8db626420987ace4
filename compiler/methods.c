// What the train section names and the library has: see methods.h.
#include "compiler/methods.h"

#include <string.h>

#include "compiler/prelude.h"
#include "support/alloc.h"

typedef struct Method {
  const char *name, *text;
  size_t name_size;
  const AstItem *item;   // NULL: not parsed yet
} Method;

typedef struct Methods {   // live as long as the process
  const char *file;
  int n;
  Method *methods;
} Methods;

// Finds "optimizer" or "schedule" at the margin of a text.
static void read_names(Methods *m, const char *file, const char *keyword) {
  const PreludeText *in = prelude_texts;
  while (strcmp(in->file, file) != 0) in++;
  m->file = file;
  size_t n = strlen(keyword);
  for (const char *line = in->text; line; line = strchr(line, '\n')) {
    line += *line == '\n';
    if (strncmp(line, keyword, n) != 0) continue;
    *ARRAY_ADD(m->methods, m->n) = (Method){.name = line + n, .text = line, .name_size = strcspn(line + n, "(")};
  }
}

static Methods *methods_of(AstItemKind kind) {
  static Methods optimizers, schedules;
  if (!optimizers.n) {
    read_names(&optimizers, "optimizers.nn", "optimizer ");
    read_names(&schedules, "schedules.nn", "schedule ");
  }
  return kind == AST_OPTIMIZER ? &optimizers : &schedules;
}

const AstItem *method_at(AstItemKind kind, int i) {
  Methods *of = methods_of(kind);
  if (i >= of->n) return NULL;
  Method *m = &of->methods[i];
  const Source *source;
  if (!m->item) m->item = prelude_parse(of->file, m->text, prelude_item_end(strchr(m->text, '\n') + 1), &source);
  return m->item;
}

const AstItem *method_find(AstItemKind kind, const char *name) {
  const Methods *of = methods_of(kind);
  size_t n = strlen(name);
  for (int i = 0; i < of->n; i++)
    if (of->methods[i].name_size == n && memcmp(of->methods[i].name, name, n) == 0) return method_at(kind, i);
  return NULL;
}
