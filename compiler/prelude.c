// A function of the library is a block at the margin of its file, below a comment that tells its meaning and ends with
// a line "# example(x: f32[8, 64]): f(x)". It becomes a row like those of layer.c: arguments are bound, converted and
// reported alike. `precision f32` says that it computes narrow tensors in f32; losses (losses.nn) stay f32.
#include "compiler/prelude.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/lexer.h"
#include "compiler/name_table.h"
#include "compiler/pool.h"

typedef struct Entry {
  const PreludeText *in;
  const char *comment, *text, *end;   // comment: its first line
  const char *name;
  enum { UNREAD, READING, READ } progress;
  LayerInfo info;
} Entry;

static struct {
  Pool *pool;   // lives as long as the process
  Diagnostics *diagnostics;
  int n, n_listed;
  Entry *entries;
  int *listed;   // those that are not parts of others, whose names begin with '_'
  NameTable places;
} prelude;

static bool starts(const char *text, const char *end, const char *with) {
  size_t n = strlen(with);
  return (size_t)(end - text) >= n && memcmp(text, with, n) == 0;
}

const char *prelude_item_end(const char *next) {
  return next[-2] == '}' ? next : strstr(next, "\n}\n") + strlen("\n}\n");
}

// Finds the blocks of one text.
static void read_text(const PreludeText *in) {
  const char *end = in->text + in->length, *comment = NULL;
  for (const char *line = in->text, *next; line < end; line = next) {
    next = memchr(line, '\n', (size_t)(end - line));
    next = next ? next + 1 : end;
    if (*line == '#' && !comment) comment = line;
    if (*line == '#') continue;
    if (starts(line, end, "block ")) {
      const char *name = line + strlen("block ");
      Entry entry = {.in = in, .comment = comment ? comment : line, .text = line};
      entry.name = pool_string(prelude.pool, name, strcspn(name, "("));
      entry.end = next = prelude_item_end(next);
      prelude.entries = pool_append(prelude.pool, prelude.entries, prelude.n, sizeof entry);
      prelude.entries[prelude.n] = entry;
      name_table_set(prelude.pool, &prelude.places, entry.name, prelude.n);
      prelude.listed = pool_append(prelude.pool, prelude.listed, prelude.n_listed, sizeof *prelude.listed);
      if (*entry.name != '_') prelude.listed[prelude.n_listed++] = prelude.n;
      prelude.n++;
    }
    comment = NULL;
  }
}

static void read_names(void) {
  if (prelude.pool) return;
  prelude.pool = pool_create();
  for (const PreludeText *in = prelude_texts; in->file; in++) read_text(in);
}

// The meaning, its lines joined, and the example.
static void read_comment(Entry *entry) {
  static const char example[] = "example";
  char *doc = pool_alloc(prelude.pool, (size_t)(entry->text - entry->comment) + 1), *to = doc;
  for (const char *line = entry->comment, *next; line < entry->text; line = next) {
    next = (const char *)memchr(line, '\n', (size_t)(entry->text - line)) + 1;
    line += 1 + (line[1] == ' ');
    if (starts(line, next, "example(")) {
      entry->info.example = pool_string(prelude.pool, line + strlen(example),
                                        (size_t)(next - 1 - line) - strlen(example));
      continue;
    }
    if (to > doc) *to++ = ' ';
    memcpy(to, line, (size_t)(next - 1 - line));
    to += next - 1 - line;
  }
  entry->info.doc = doc;
}

// "x:tensor, delta:float=1.0", as in layer.c
static const char *signature_of(const AstItem *block) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  for (int i = 0; i < block->n_parameters; i++) {
    const AstParameter *p = &block->parameters[i];
    fprintf(out, "%s%s:%s", i ? ", " : "", p->name.text, p->kind ? p->kind : p->has_type ? "tensor" : "any");
    char *value = p->otherwise ? ast_spell(p->otherwise) : NULL;
    if (value) fprintf(out, "=%s", p->otherwise->kind == AST_STRING ? p->otherwise->text : value);
    free(value);
  }
  fclose(out);
  const char *kept = pool_string(prelude.pool, text, size);
  free(text);
  return kept;
}

// Whether the text has a `param` or a `state`, or calls a function that has some.
static bool makes_parameters(const Source *source) {
  Lexer lexer;
  bool found = false;
  lexer_start(&lexer, source, prelude.diagnostics, prelude.pool);
  for (Token t = lexer_next(&lexer); t.kind != TOKEN_END && !found; t = lexer_next(&lexer)) {
    const LayerInfo *called = t.kind == TOKEN_NAME ? layer_find(t.text) : NULL;
    found = t.kind == TOKEN_PARAM || (called && called->has_parameters) ||
            (t.kind == TOKEN_NAME && strcmp(t.text, "state") == 0);
  }
  return found;
}

const AstItem *prelude_parse(const char *name, const char *text, const char *end, const Source **made) {
  if (!prelude.diagnostics) prelude.diagnostics = diag_create(stderr, DIAG_COLOR_AUTO, 0);
  Source *source = source_from_text(name, text, (size_t)(end - text));
  source->is_prelude = true;
  AstFile *file = ast_parse_source(prelude.diagnostics, diag_add_source(prelude.diagnostics, source), false);
  if (diag_error_count(prelude.diagnostics) || file->n_items != 1) {
    fprintf(stderr, "nnc: the library does not parse: %.*s\n", (int)strcspn(text, "{"), text);
    exit(NNC_EXIT_BUG);
  }
  *made = source;
  return file->items[0];
}

static void read_function(Entry *entry) {
  entry->progress = READING;
  const Source *source;
  const AstItem *block = prelude_parse(entry->in->file, entry->text, entry->end, &source);
  bool wide = block->precision.text, loss = strcmp(entry->in->file, "losses.nn") == 0;
  entry->info.name = entry->name;
  entry->info.block = block;
  entry->info.signature = signature_of(block);
  entry->info.fn = call_prelude;
  entry->info.arithmetic = !wide ? LAYER_AS_GIVEN : loss ? LAYER_TO_F32 : LAYER_IN_F32;
  entry->info.has_parameters = makes_parameters(source);
  read_comment(entry);
  entry->progress = READ;
}

int prelude_count(void) {
  read_names();
  return prelude.n_listed;
}

static const LayerInfo *read_entry(int i) {
  if (prelude.entries[i].progress == UNREAD) read_function(&prelude.entries[i]);
  return &prelude.entries[i].info;
}

const LayerInfo *prelude_at(int i) { return read_entry(prelude.listed[i]); }

const LayerInfo *prelude_find(const char *name) {
  read_names();
  int place = name_table_get(&prelude.places, name);
  return place < 0 ? NULL : read_entry(place);
}
