// Files and their items; the tokens under all of the parser.
//
//   file := { item }
//   item := dim | let | assert | block | model | train | import | precision
#include "compiler/parser.h"
#include "compiler/elsewhere.h"
#include "compiler/kinds.h"
#include "support/names.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MAX_IMPORT_DEPTH 64

// --- Tokens

void parser_advance(Parser *p) {
  p->previous = p->token.pos;
  p->last_word = p->token.kind == TOKEN_NAME ? p->token.text : NULL;
  bool quiet = p->panic;
  p->token = lexer_next(&p->lexer);
  if (p->token.kind != TOKEN_ERROR) return;
  p->panic = true;   // the lexer has reported it
  if (!quiet && p->last_word && p->lexer.source->text[p->lexer.at - 1] == '.')
    diag_hint(p->diagnostics, "%s", elsewhere_module(p->last_word));
}

void parser_hint_word(Parser *p, const char *word, bool was_quiet) {
  const char *hint = word ? elsewhere_word(word) : NULL;
  if (hint && !was_quiet) diag_hint(p->diagnostics, "%s", hint);
}

bool parser_at(const Parser *p, TokenKind kind) { return p->token.kind == kind; }

bool parser_accept(Parser *p, TokenKind kind) {
  if (p->token.kind != kind) return false;
  parser_advance(p);
  return true;
}

bool parser_error(Parser *p, AstPos pos, const char *format, ...) {
  if (p->panic || p->gave_up) return false;
  p->panic = true;
  char *text = NULL;
  va_list args;
  va_start(args, format);
  if (vasprintf(&text, format, args) < 0) text = NULL;
  va_end(args);
  diag_error(p->diagnostics, pos, "%s", text ? text : format);
  free(text);
  return false;
}

bool parser_expected(Parser *p, const char *what) {
  const Token *t = &p->token;
  // What is missing at the end of a line is missing there, not at the start of the next.
  bool line_ended = (t->starts_line || t->kind == TOKEN_END) && p->previous.source;
  AstPos pos = t->pos;
  if (line_ended) pos = (AstPos){p->previous.source, p->previous.line, p->previous.column + p->previous.length, 1};
  if (line_ended && t->kind != TOKEN_END) return parser_error(p, pos, "expected %s before the end of the line", what);
  if (t->kind == TOKEN_NAME) return parser_error(p, pos, "expected %s, found '%.60s'", what, t->text);
  if (token_is_keyword(t->kind))
    return parser_error(p, pos, "expected %s, found the keyword %s", what, token_spelling(t->kind));
  return parser_error(p, pos, "expected %s, found %s", what, token_spelling(t->kind));
}

bool parser_expect(Parser *p, TokenKind kind, const char *what) {
  return parser_accept(p, kind) || parser_expected(p, what ? what : token_spelling(kind));
}

bool parser_enter(Parser *p, AstPos pos) {
  if (++p->depth <= AST_MAX_DEPTH) return true;
  parser_error(p, pos, "nested more than %d deep", AST_MAX_DEPTH);
  p->gave_up = true;
  p->lexer.at = p->lexer.source->length;
  p->token.kind = TOKEN_END;
  return false;
}

void parser_leave(Parser *p) { p->depth--; }

bool parser_same_line(const Parser *p) { return p->brackets > 0 || !p->token.starts_line; }

bool parser_name(Parser *p, AstName *name, const char *what) {
  *name = (AstName){.text = p->token.text, .pos = p->token.pos};
  bool keyword = token_is_keyword(p->token.kind) && !p->panic && !p->token.starts_line;
  bool found = parser_expect(p, TOKEN_NAME, what);
  if (keyword) diag_hint(p->diagnostics, "keywords cannot be used as names");
  return found;
}

// label := [ "as" NAME ]
bool parser_label(Parser *p, AstName *label) {
  if (!parser_at(p, TOKEN_AS) || !parser_same_line(p)) return true;
  parser_advance(p);
  return parser_name(p, label, "a name after 'as'");
}

// path := [ "as" ( NAME | STRING ) ]
bool parser_path(Parser *p, AstName *label) {
  if (!parser_at(p, TOKEN_AS) || !parser_same_line(p)) return true;
  Parser ahead = *p;
  ahead.panic = true;
  parser_advance(&ahead);
  if (!parser_at(&ahead, TOKEN_STRING)) return parser_label(p, label);
  parser_advance(p);
  *label = (AstName){.text = p->token.text, .pos = p->token.pos, .is_path = true};
  return parser_accept(p, TOKEN_STRING);
}

// --- Items

static bool starts_item(const Parser *p) {
  TokenKind kind = p->token.kind;
  return kind == TOKEN_DIM || kind == TOKEN_LET || kind == TOKEN_BLOCK || kind == TOKEN_MODEL || kind == TOKEN_TRAIN ||
         kind == TOKEN_IMPORT || kind == TOKEN_ASSERT;
}

// To the next item: its keyword at the start of a line, or a word at the margin that may be a misspelt one. An assert
// elsewhere is one of a body.
static void skip_to_item(Parser *p, AstPos start) {
  for (; !parser_at(p, TOKEN_END); parser_advance(p)) {
    bool moved = p->token.pos.line != start.line || p->token.pos.column != start.column;
    bool margin = p->token.pos.column == 1, word = parser_at(p, TOKEN_NAME) || parser_at(p, TOKEN_ASSERT);
    if (moved && p->token.starts_line && (word ? margin : starts_item(p))) break;
  }
  p->panic = false;
  p->depth = p->brackets = 0;
}

static bool end_of_line(Parser *p) {
  if (parser_accept(p, TOKEN_SEMICOLON) || p->token.starts_line || parser_at(p, TOKEN_END)) return true;
  return parser_expected(p, "the end of the line");
}

// parameter := NAME [ ":" ( type | KIND ) ] [ "=" expr ]
static bool parse_parameter(Parser *p, AstParameter *parameter) {
  *parameter = (AstParameter){0};
  if (!parser_name(p, &parameter->name, "a parameter name")) return false;
  if (parser_accept(p, TOKEN_COLON)) {
    const char *behind = p->lexer.source->text + p->lexer.at;
    bool word = parser_at(p, TOKEN_NAME) && behind[strspn(behind, " ")] != '[';
    parameter->kind = word ? kind_find(p->token.text) : NULL;
    parameter->has_type = !parameter->kind;
    if (parameter->kind) parser_advance(p);
    else if (!parse_type(p, &parameter->type)) return false;
  }
  return !parser_accept(p, TOKEN_ASSIGN) || (parameter->otherwise = parse_expr(p));
}

// signature := "(" [ parameter { "," parameter } [ "," ] ] ")"
static bool parse_signature(Parser *p, AstItem *item) {
  if (!parser_expect(p, TOKEN_LPAREN, NULL)) return false;
  p->brackets++;
  while (!parser_at(p, TOKEN_RPAREN)) {
    item->parameters = pool_append(p->pool, item->parameters, item->n_parameters, sizeof *item->parameters);
    if (!parse_parameter(p, &item->parameters[item->n_parameters])) return false;
    item->n_parameters++;
    if (!parser_accept(p, TOKEN_COMMA)) break;
  }
  p->brackets--;
  return parser_expect(p, TOKEN_RPAREN, "',' or ')'");
}

// dim := "dim" NAME "=" expr         let := "let" NAME "=" expr
static bool parse_constant(Parser *p, AstItem *item) {
  return parser_name(p, &item->name, "a name") && parser_expect(p, TOKEN_ASSIGN, NULL) &&
         (item->value = parse_expr(p)) && end_of_line(p);
}

static bool at_word(const Parser *p, const char *word) {
  return parser_at(p, TOKEN_NAME) && strcmp(p->token.text, word) == 0;
}

static bool at_precision(const Parser *p) { return at_word(p, "precision"); }

// precision := "precision" NAME       a name like any other elsewhere
static bool parse_precision(Parser *p, AstName *precision) {
  parser_advance(p);
  return parser_name(p, precision, "f32, bf16 or f16 after 'precision'");
}

// A file has one; that of an imported file is left out, as its train section.
static bool parse_file_precision(Parser *p, int import_depth) {
  AstPos pos = p->token.pos;
  AstName precision, *of_file = &p->file->precision;
  if (!parse_precision(p, &precision) || !end_of_line(p)) return false;
  if (import_depth > 0) return true;
  if (of_file->text) {
    parser_error(p, pos, "a second precision of the file");
    diag_note(p->diagnostics, of_file->pos, "the first is here");
    return false;
  }
  *of_file = precision;
  return true;
}

// head := NAME signature [ precision ]
static bool parse_head(Parser *p, AstItem *item) {
  static const char *const names[] = {[AST_BLOCK] = "the name of the block",
                                      [AST_MODEL] = "the name of the model",
                                      [AST_OPTIMIZER] = "the name of the optimizer",
                                      [AST_SCHEDULE] = "the name of the schedule"};
  if (!parser_name(p, &item->name, names[item->kind]) || !parse_signature(p, item)) return false;
  return !at_precision(p) || parse_precision(p, &item->precision);
}

// The same statement as in a body, about what the file declares above it.
static bool parse_requirement(Parser *p, AstItem *item) {
  AstStmt *s = pool_alloc(p->pool, sizeof *s);
  s->pos = item->pos;
  item->body.stmts = pool_append(p->pool, item->body.stmts, 0, sizeof *item->body.stmts);
  item->body.stmts[item->body.n++] = s;
  return parse_assert(p, s) && end_of_line(p);
}

// block := "block" head body     model := "model" head body     optimizer := "optimizer" head body
// schedule := "schedule" head body     train := "train" body
static bool parse_definition(Parser *p, AstItem *item) {
  bool ok = item->kind == AST_TRAIN || parse_head(p, item);
  // The body of a broken head is still read for its own mistakes.
  if (!ok && !parser_skip_to_body(p)) return false;
  p->in_train = item->kind == AST_TRAIN;
  bool body_ok = parse_body(p, &item->body);
  p->in_train = false;
  return ok && body_ok;
}

static void parse_source(AstFile *file, const Source *source, int import_depth);

// import := "import" STRING       the path is relative to the folder of the importing file
static bool parse_import(Parser *p, AstPos keyword, int import_depth) {
  const char *name = p->token.text;
  AstPos pos = p->token.pos;
  bool quiet = p->panic, word = parser_at(p, TOKEN_NAME);
  if (!parser_expect(p, TOKEN_STRING, "the name of a file in double quotes")) {
    parser_hint_word(p, word ? "import" : NULL, quiet);
    return false;
  }
  if (!end_of_line(p)) return false;
  if (p->file->without_imports) return true;
  const char *slash = p->lexer.source->name[0] == '<' ? NULL : strrchr(p->lexer.source->name, '/');
  size_t folder = slash && name[0] != '/' ? (size_t)(slash - p->lexer.source->name) + 1 : 0;
  char *written = pool_alloc(p->pool, folder + strlen(name) + 1);
  memcpy(written, p->lexer.source->name, folder);
  strcpy(written + folder, name);

  AstFile *file = p->file;
  for (int i = 0; i < file->n_sources; i++)
    if (source_is_file(file->sources[i], written)) return true;
  char *tidy = source_tidy_path(written);
  const char *path = pool_string(p->pool, tidy, strlen(tidy));
  free(tidy);
  if (import_depth >= MAX_IMPORT_DEPTH)
    return parser_error(p, keyword, "imports are nested more than %d deep", MAX_IMPORT_DEPTH);
  const char *error;
  Source *source = strcmp(name, "-") == 0 ? (error = "standard input cannot be imported", NULL)
                                          : source_read(path, &error);
  if (!source) return parser_error(p, pos, "cannot read '%s': %s", path, error);
  parse_source(file, diag_add_source(p->diagnostics, source), import_depth + 1);
  return true;
}

static AstItemKind item_kind(TokenKind keyword, const char *text) {
  switch (keyword) {
  case TOKEN_NAME: return strcmp(text, "schedule") == 0 ? AST_SCHEDULE : AST_OPTIMIZER;
  case TOKEN_DIM: return AST_DIM;
  case TOKEN_LET: return AST_LET;
  case TOKEN_BLOCK: return AST_BLOCK;
  case TOKEN_MODEL: return AST_MODEL;
  case TOKEN_ASSERT: return AST_REQUIRE;
  default: return AST_TRAIN;
  }
}

static bool parse_item(Parser *p, int import_depth) {
  if (at_precision(p) && !p->panic) return parse_file_precision(p, import_depth);
  if (!starts_item(p) && !at_word(p, "optimizer") && !at_word(p, "schedule")) {
    AstPos pos = p->token.pos;
    bool word = parser_at(p, TOKEN_NAME) && !p->panic;
    const char *text = p->token.text;
    p->previous = (AstPos){0};
    parser_expected(p, "dim, let, assert, block, model, optimizer, schedule, train, import or precision");
    if (!word) return false;
    NameSearch search = name_search(text);
    static const char *const words[] = {"dim",   "let",    "assert",    "block",    "model",
                                        "train", "import", "optimizer", "schedule", "precision"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) name_consider(&search, words[i]);
    parser_advance(p);
    if (elsewhere_word(text)) diag_hint(p->diagnostics, "%s", elsewhere_word(text));
    else if (search.best) diag_hint(p->diagnostics, "did you mean '%s'?", search.best);
    else if (parser_at(p, TOKEN_ASSIGN) && p->token.pos.line == pos.line)
      diag_hint(p->diagnostics, "a constant is declared with 'dim %.60s = …' or 'let %.60s = …'", text, text);
    return false;
  }
  Token keyword = p->token;
  if (keyword.kind != TOKEN_ASSERT) parser_advance(p);
  if (keyword.kind == TOKEN_IMPORT) return parse_import(p, keyword.pos, import_depth);
  AstItem *item = pool_alloc(p->pool, sizeof *item);
  item->kind = item_kind(keyword.kind, keyword.text);
  item->pos = keyword.pos;
  bool constant = item->kind == AST_DIM || item->kind == AST_LET;
  if (!(constant                    ? parse_constant(p, item)
        : item->kind == AST_REQUIRE ? parse_requirement(p, item)
                                    : parse_definition(p, item)))
    return false;
  if (item->kind == AST_TRAIN && import_depth > 0) return true;
  AstFile *file = p->file;
  file->items = pool_append(p->pool, file->items, file->n_items, sizeof *file->items);
  file->items[file->n_items++] = item;
  return true;
}

static void parse_source(AstFile *file, const Source *source, int import_depth) {
  file->sources = pool_append(file->pool, file->sources, file->n_sources, sizeof *file->sources);
  file->sources[file->n_sources++] = source;
  Parser p = {.file = file, .diagnostics = file->diagnostics, .pool = file->pool};
  lexer_start(&p.lexer, source, file->diagnostics, file->pool);
  parser_advance(&p);
  while (!parser_at(&p, TOKEN_END)) {
    AstPos start = p.token.pos;
    if (p.panic || !parse_item(&p, import_depth) || p.panic) skip_to_item(&p, start);
  }
}

AstFile *ast_parse(Diagnostics *diagnostics, const char *path) {
  const char *error;
  Source *source = source_read(path, &error);
  if (!source) {
    diag_error(diagnostics, DIAG_COMMAND_LINE, "cannot read '%s': %s", path, error);
    return NULL;
  }
  return ast_parse_source(diagnostics, diag_add_source(diagnostics, source), true);
}

AstFile *ast_parse_source(Diagnostics *diagnostics, const Source *source, bool imports) {
  Pool *pool = pool_create();
  AstFile *file = pool_alloc(pool, sizeof *file);
  *file = (AstFile){.source = source, .diagnostics = diagnostics, .without_imports = !imports, .pool = pool};
  parse_source(file, file->source, 0);
  if (file->n_items == 0 && imports && diag_error_count(diagnostics) == 0)
    diag_error(diagnostics, (AstPos){file->source, 1, 1, 0}, "the file is empty: expected a model");
  return file;
}

void ast_free(AstFile *file) {
  if (file) pool_free(file->pool);   // which holds the file itself
}
