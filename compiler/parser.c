// Recursive descent: statements, bodies, declarations and the train section; expressions are in parse_expr.c. After an error the parser
// skips to the end of the line or of the enclosing body and goes on, so that one run reports several mistakes.
#include <stdlib.h>
#include <string.h>

#include "compiler/parse.h"

// --- Memory --------------------------------------------------------------------------------------------------------------

typedef struct Chunk { struct Chunk *next; size_t used, size; } Chunk;
struct AstMemory { Chunk *chunks; };

struct AstMemory *ast_memory_create(void)
{
  struct AstMemory *m = calloc(1, sizeof *m);
  if (!m) abort();
  return m;
}

void *ast_alloc(struct AstMemory *m, size_t size)
{
  size = (size + 15) & ~(size_t)15;
  if (!m->chunks || m->chunks->size - m->chunks->used < size) {
    size_t room = size > 65536 ? size : 65536;
    Chunk *c = calloc(1, sizeof *c + 16 + room);
    if (!c) abort();
    *c = (Chunk){m->chunks, 0, room};
    m->chunks = c;
  }
  void *p = (char *)m->chunks + ((sizeof(Chunk) + 15) & ~(size_t)15) + m->chunks->used;
  m->chunks->used += size;
  return p;
}

char *ast_string(struct AstMemory *m, const char *text, size_t length)
{
  char *s = ast_alloc(m, length + 1);
  memcpy(s, text, length);
  return s;
}

void ast_memory_free(struct AstMemory *m)
{
  for (Chunk *c = m->chunks, *next; c; c = next) {
    next = c->next;
    free(c);
  }
  free(m);
}

// --- Tokens --------------------------------------------------------------------------------------------------------------

void parser_advance(Parser *p)
{
  p->end_of_last = p->token.pos;
  do p->token = lexer_next(&p->lexer);
  while (p->token.kind == TOKEN_BAD);
}

bool parser_is(const Parser *p, const char *symbol)
{
  return p->token.kind == TOKEN_SYMBOL && strlen(symbol) == (size_t)p->token.length && memcmp(p->token.start, symbol, (size_t)p->token.length) == 0;
}

bool parser_accept(Parser *p, const char *symbol)
{
  if (!parser_is(p, symbol)) return false;
  parser_advance(p);
  return true;
}

static const char *describe(Parser *p)
{
  switch (p->token.kind) {
    case TOKEN_END: return "the end of the file";
    case TOKEN_NEWLINE: return "the end of the line";
    default: {
      char *text = ast_alloc(p->memory, (size_t)p->token.length + 3);
      snprintf(text, (size_t)p->token.length + 3, "'%.*s'", p->token.length > 40 ? 40 : p->token.length, p->token.start);
      return text;
    }
  }
}

void parser_unexpected(Parser *p, const char *expected)
{
  if (!p->panic) diag_error(p->token.pos, "expected %s, found %s", expected, describe(p));
  p->panic = true;
}

bool parser_expect(Parser *p, const char *symbol)
{
  if (parser_accept(p, symbol)) return true;
  char text[32];
  snprintf(text, sizeof text, "'%s'", symbol);
  parser_unexpected(p, text);
  return false;
}

bool parser_deeper(Parser *p)
{
  if (p->depth < PARSER_MAX_DEPTH) { p->depth++; return true; }
  if (!p->panic) diag_error(p->token.pos, "nested more than %d deep", PARSER_MAX_DEPTH);
  p->panic = p->too_deep = true;
  return false;
}

const char *parser_name(Parser *p, AstPos *pos)
{
  if (pos) *pos = p->token.pos;
  if (p->token.kind != TOKEN_NAME) { parser_unexpected(p, "a name"); return NULL; }
  const char *name = ast_string(p->memory, p->token.start, (size_t)p->token.length);
  parser_advance(p);
  return name;
}

const char *parser_string(Parser *p)
{
  if (p->token.kind != TOKEN_STRING) { parser_unexpected(p, "a string"); return NULL; }
  size_t n = p->token.length >= 2 ? (size_t)p->token.length - 2 : 0;
  const char *s = ast_string(p->memory, p->token.start + 1, n);
  parser_advance(p);
  return s;
}

static void skip_newlines(Parser *p)
{
  while (p->token.kind == TOKEN_NEWLINE || parser_is(p, ";")) parser_advance(p);
}

// To the end of the line, stepping over whole { } bodies.
static void recover(Parser *p)
{
  int braces = 0;
  while (p->token.kind != TOKEN_END) {
    if (braces == 0 && (p->token.kind == TOKEN_NEWLINE || parser_is(p, "}"))) break;
    if (parser_is(p, "{")) braces++;
    if (parser_is(p, "}")) braces--;
    parser_advance(p);
  }
  p->panic = false;
}

static void end_of_statement(Parser *p)
{
  if (!p->panic && p->token.kind != TOKEN_NEWLINE && p->token.kind != TOKEN_END && !parser_is(p, "}") && !parser_is(p, ";"))
    parser_unexpected(p, "the end of the line");
  if (p->panic) recover(p);
}

// --- Statements ----------------------------------------------------------------------------------------------------------

static AstStmt *parse_statement(Parser *p);

// body = "{" { statement newline } "}"
static AstBody parse_body(Parser *p)
{
  AstBody body = {0};
  int capacity = 0;
  AstPos open = p->token.pos;
  if (!parser_expect(p, "{")) return body;
  if (!parser_deeper(p)) return body;
  skip_newlines(p);
  while (!parser_is(p, "}") && p->token.kind != TOKEN_END && !p->too_deep) {
    AstStmt *s = parse_statement(p);
    end_of_statement(p);
    if (s) PARSER_PUSH(p, body.stmt, body.n, capacity, s);
    skip_newlines(p);
  }
  p->depth--;
  if (!parser_accept(p, "}") && !p->panic && !p->too_deep) {
    parser_unexpected(p, "'}'");
    diag_note(open, "to close this '{'");
  }
  return body;
}

static AstStmt *new_statement(Parser *p, AstStmtKind kind, AstPos pos)
{
  AstStmt *s = ast_alloc(p->memory, sizeof *s);
  s->kind = kind;
  s->pos = pos;
  return s;
}

// if = "if" expr body [ "else" ( if | body ) ]
static AstStmt *parse_if(Parser *p)
{
  AstStmt *s = new_statement(p, AST_IF, p->token.pos);
  parser_advance(p);
  s->expr = parse_expression(p);
  s->body = parse_body(p);
  // "else" may stand on the line after the closing brace.
  Parser saved = *p;
  skip_newlines(p);
  if (!parser_accept(p, "else")) { *p = saved; return s; }
  if (!parser_is(p, "if")) { s->otherwise = parse_body(p); return s; }
  if (!parser_deeper(p)) return s;
  AstStmt **only = ast_alloc(p->memory, sizeof *only);
  *only = parse_if(p);
  s->otherwise = (AstBody){1, only};
  p->depth--;
  return s;
}

// names = name { "," name }
static void parse_names(Parser *p, AstStmt *s)
{
  int names = 0, places = 0, n = 0;
  do {
    AstPos pos;
    const char *name = parser_name(p, &pos);
    if (!name) return;
    n = s->n_names;
    PARSER_PUSH(p, s->names, s->n_names, names, name);
    PARSER_PUSH(p, s->name_pos, n, places, pos);
  } while (parser_accept(p, ","));
}

// for = "for" names "in" expr [ ".." expr | { "," expr } ] body
static AstStmt *parse_for(Parser *p)
{
  AstStmt *s = new_statement(p, AST_FOR, p->token.pos);
  parser_advance(p);
  parse_names(p, s);
  parser_expect(p, "in");
  s->expr = parse_expression_list(p);
  if (parser_accept(p, "..")) s->expr2 = parse_expression(p);
  s->body = parse_body(p);
  return s;
}

// param = "param" name ":" type [ "=" expr ]
static AstStmt *parse_param(Parser *p)
{
  AstStmt *s = new_statement(p, AST_PARAM, p->token.pos);
  parser_advance(p);
  parse_names(p, s);
  if (parser_expect(p, ":")) s->type = parse_type(p);
  if (parser_accept(p, "=")) s->expr = parse_expression(p);
  return s;
}

// assert = "assert" expr [ "," string ]
static AstStmt *parse_assert(Parser *p)
{
  AstStmt *s = new_statement(p, AST_ASSERT, p->token.pos);
  parser_advance(p);
  s->expr = parse_expression(p);
  if (parser_accept(p, ",")) s->message = parser_string(p);
  return s;
}

// An assignment looks like an expression list up to the "=": its parts must then be names.
static AstStmt *parse_assignment_or_value(Parser *p)
{
  AstStmt *s = new_statement(p, AST_EXPR, p->token.pos);
  s->expr = parse_expression_list(p);
  if (!parser_is(p, "=")) return s;
  AstExpr *left = s->expr;
  int n = left && left->kind == AST_TUPLE ? left->n_items : 1;
  s->kind = AST_ASSIGN;
  s->names = ast_alloc(p->memory, sizeof *s->names * (size_t)n);
  s->name_pos = ast_alloc(p->memory, sizeof *s->name_pos * (size_t)n);
  for (int i = 0; left && i < n; i++) {
    AstExpr *item = left->kind == AST_TUPLE ? left->items[i] : left;
    if (item->kind != AST_NAME) {
      if (!p->panic) diag_error(item->pos, "only a name can stand on the left of '='");
      p->panic = true;
      return NULL;
    }
    s->names[i] = item->text;
    s->name_pos[i] = item->pos;
  }
  s->n_names = left ? n : 0;
  parser_advance(p);
  s->expr = parse_expression_list(p);
  return s;
}

// statement = param | if | for | "repeat" expr body | "checkpoint" expr | assert | names "=" exprs | exprs
static AstStmt *parse_statement(Parser *p)
{
  if (parser_is(p, "if")) return parse_if(p);
  if (parser_is(p, "for")) return parse_for(p);
  if (parser_is(p, "param")) return parse_param(p);
  if (parser_is(p, "assert")) return parse_assert(p);
  bool repeat = parser_is(p, "repeat");
  if (repeat || parser_is(p, "checkpoint")) {
    AstStmt *s = new_statement(p, repeat ? AST_REPEAT : AST_CHECKPOINT, p->token.pos);
    parser_advance(p);
    s->expr = parse_expression(p);
    if (repeat) s->body = parse_body(p);
    return s;
  }
  return parse_assignment_or_value(p);
}

// --- Declarations --------------------------------------------------------------------------------------------------------

// parameters = "(" [ name [ ":" type ] [ "=" expr ] { "," … } ] ")"
static void parse_parameters(Parser *p, AstBlock *b)
{
  int capacity = 0;
  if (!parser_expect(p, "(")) return;
  while (!parser_is(p, ")") && p->token.kind != TOKEN_END && !p->panic) {
    AstParameter parameter = {0};
    parameter.name = parser_name(p, &parameter.pos);
    if (!parameter.name) break;
    if (parser_accept(p, ":")) parameter.type = parse_type(p);
    if (parser_accept(p, "=")) parameter.fallback = parse_expression(p);
    PARSER_PUSH(p, b->parameters, b->n_parameters, capacity, parameter);
    if (!parser_accept(p, ",")) break;
  }
  parser_expect(p, ")");
}

// block = ( "block" | "model" ) name parameters body
static AstBlock *parse_block(Parser *p, bool is_model)
{
  AstBlock *b = ast_alloc(p->memory, sizeof *b);
  b->is_model = is_model;
  parser_advance(p);
  b->name = parser_name(p, &b->pos);
  parse_parameters(p, b);
  if (p->panic) {   // find the body all the same, so that its mistakes are reported too
    while (p->token.kind != TOKEN_END && !parser_is(p, "{") && p->token.kind != TOKEN_NEWLINE) parser_advance(p);
    p->panic = false;
  }
  b->body = parse_body(p);
  return b;
}

// setting = keyword [ names [":" type] "=" ] [ string ] expr
static AstSetting parse_setting(Parser *p)
{
  AstSetting s = {0};
  s.keyword = parser_name(p, &s.pos);
  if (!s.keyword) return s;
  if (p->token.kind == TOKEN_STRING && strcmp(s.keyword, "group") == 0) s.pattern = parser_string(p);
  Parser saved = *p;
  int names = 0, places = 0, types = 0, n;
  // Names with an optional type, then "=": else it was an expression.
  bool named = p->token.kind == TOKEN_NAME;
  while (named) {
    if (p->token.kind != TOKEN_NAME) { named = false; break; }
    AstPos pos;
    const char *name = parser_name(p, &pos);
    AstType *type = parser_accept(p, ":") ? parse_type(p) : NULL;
    n = s.n_names;
    PARSER_PUSH(p, s.names, s.n_names, names, name);
    PARSER_PUSH(p, s.name_pos, n, places, pos);
    n = s.n_names - 1;
    PARSER_PUSH(p, s.name_type, n, types, type);
    if (parser_accept(p, ",")) continue;
    named = parser_accept(p, "=");
    break;
  }
  if (!named && !p->panic) {
    *p = saved;
    s.n_names = 0;
  }
  s.expr = parse_expression(p);
  return s;
}

// train = "train" "{" { setting newline } "}"
static void parse_train(Parser *p, AstFile *file)
{
  int capacity = file->n_settings;
  if (file->has_train) {
    diag_error(p->token.pos, "a second train section");
    diag_note(file->train_pos, "the first is here");
  }
  file->has_train = true;
  file->train_pos = p->token.pos;
  parser_advance(p);
  if (!parser_expect(p, "{")) return;
  skip_newlines(p);
  while (!parser_is(p, "}") && p->token.kind != TOKEN_END) {
    AstSetting s = parse_setting(p);
    end_of_statement(p);
    if (s.keyword) PARSER_PUSH(p, file->settings, file->n_settings, capacity, s);
    skip_newlines(p);
  }
  parser_expect(p, "}");
}

static void parse_source(const Source *source, AstFile *file, int depth);

// import = "import" string: the declarations of another file, found beside this one
static void parse_import(Parser *p, AstFile *file, int depth)
{
  AstPos pos = p->token.pos;
  parser_advance(p);
  AstPos name_pos = p->token.pos;
  const char *name = parser_string(p);
  if (!name) return;
  const char *slash = strrchr(pos.source->name, '/');
  size_t folder = name[0] != '/' && slash ? (size_t)(slash - pos.source->name) + 1 : 0;
  char *path = ast_alloc(p->memory, folder + strlen(name) + 1);
  memcpy(path, pos.source->name, folder);
  memcpy(path + folder, name, strlen(name));
  if (depth >= 16) { diag_error(name_pos, "imports nested more than 16 deep; does a file import itself?"); return; }
  const Source *known = source_find(path);
  if (known) return;    // once is enough
  const Source *source = source_read(path);
  if (!source) { diag_note(name_pos, "imported here"); return; }
  parse_source(source, file, depth + 1);
}

// file = { "dim" name "=" expr | block | train | import }
static void parse_source(const Source *source, AstFile *file, int depth)
{
  Parser parser = {.lexer = lexer_start(source), .memory = file->memory}, *p = &parser;
  int dims = file->n_dims, blocks = file->n_blocks;
  parser_advance(p);
  for (skip_newlines(p); p->token.kind != TOKEN_END && !p->too_deep; skip_newlines(p)) {
    if (parser_is(p, "dim")) {
      AstDim dim = {0};
      parser_advance(p);
      dim.name = parser_name(p, &dim.pos);
      if (parser_accept(p, "=")) dim.value = parse_expression(p);
      if (dim.name) PARSER_PUSH(p, file->dims, file->n_dims, dims, dim);
    } else if (parser_is(p, "block") || parser_is(p, "model")) {
      AstBlock *b = parse_block(p, parser_is(p, "model"));
      if (b->name) PARSER_PUSH(p, file->blocks, file->n_blocks, blocks, b);
    } else if (parser_is(p, "train")) {
      parse_train(p, file);
    } else if (parser_is(p, "import")) {
      int before_dims = file->n_dims, before_blocks = file->n_blocks;
      parse_import(p, file, depth);
      if (file->n_dims != before_dims) dims = file->n_dims;
      if (file->n_blocks != before_blocks) blocks = file->n_blocks;
    } else {
      parser_unexpected(p, "'dim', 'block', 'model', 'train' or 'import'");
      if (parser_is(p, "}")) parser_advance(p);
    }
    end_of_statement(p);
    if (parser_is(p, "}")) {
      diag_error(p->token.pos, "'}' without its '{'");
      parser_advance(p);
    }
  }
}

AstFile *parse_file(const Source *source)
{
  struct AstMemory *memory = ast_memory_create();
  AstFile *file = ast_alloc(memory, sizeof *file);
  file->source = source;
  file->memory = memory;
  parse_source(source, file, 0);
  return file;
}

void ast_free(AstFile *file)
{
  if (file) ast_memory_free(file->memory);
}
