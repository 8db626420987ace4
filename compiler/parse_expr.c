// Expressions, by precedence from loose to tight: pipe, conditional, or, and, not, comparison, sum, product, sign, power, postfix, primary.
#include <string.h>

#include "compiler/parse.h"

static AstExpr *new_expression(Parser *p, AstExprKind kind, AstPos pos)
{
  AstExpr *e = ast_alloc(p->memory, sizeof *e);
  e->kind = kind;
  e->pos = pos;
  return e;
}

static void skip_line_ends(Parser *p)
{
  while (p->token.kind == TOKEN_NEWLINE) parser_advance(p);
}

// arguments = "(" [ [ name "=" ] expr { "," … } ] ")"
static void parse_arguments(Parser *p, AstExpr *call)
{
  int capacity = call->n_args;
  parser_expect(p, "(");
  while (!parser_is(p, ")") && p->token.kind != TOKEN_END && !p->panic) {
    AstArg arg = {0};
    arg.pos = p->token.pos;
    if (p->token.kind == TOKEN_NAME) {
      Parser saved = *p;
      const char *name = parser_name(p, NULL);
      if (parser_accept(p, "=")) arg.name = name;
      else *p = saved;
    }
    if (!arg.name) arg.pos = p->token.pos;
    arg.value = parse_expression(p);
    if (arg.value && !arg.name) arg.pos = arg.value->pos;
    if (arg.value) PARSER_PUSH(p, call->args, call->n_args, capacity, arg);
    if (!parser_accept(p, ",")) break;
  }
  parser_expect(p, ")");
}

// items = [ expr { "," expr } [ "," ] ] close
static void parse_items(Parser *p, AstExpr *list, const char *close)
{
  int capacity = list->n_items;
  while (!parser_is(p, close) && p->token.kind != TOKEN_END && !p->panic) {
    AstExpr *item = parse_expression(p);
    if (item) PARSER_PUSH(p, list->items, list->n_items, capacity, item);
    if (!parser_accept(p, ",")) break;
  }
  parser_expect(p, close);
}

// subscripts = "[" subscript { "," subscript } "]"      subscript = expr | [expr] ":" [expr] [ ":" [expr] ]
static AstExpr *parse_subscripts(Parser *p, AstExpr *left)
{
  AstExpr *e = new_expression(p, AST_INDEX, left->pos);
  int capacity = 0;
  e->left = left;
  parser_advance(p);
  while (!parser_is(p, "]") && p->token.kind != TOKEN_END && !p->panic) {
    AstSubscript s = {.pos = p->token.pos};
    if (!parser_is(p, ":")) s.start = parse_expression(p);
    if (parser_accept(p, ":")) {
      s.is_slice = true;
      if (!parser_is(p, ":") && !parser_is(p, ",") && !parser_is(p, "]")) s.stop = parse_expression(p);
      if (parser_accept(p, ":") && !parser_is(p, ",") && !parser_is(p, "]")) s.step = parse_expression(p);
    }
    PARSER_PUSH(p, e->subscripts, e->n_subscripts, capacity, s);
    if (!parser_accept(p, ",")) break;
  }
  if (e->n_subscripts == 0) parser_unexpected(p, "an index");
  parser_expect(p, "]");
  return e;
}

static AstExpr *parse_literal(Parser *p)
{
  Token t = p->token;
  AstExpr *e = NULL;
  if (t.kind == TOKEN_INT) { e = new_expression(p, AST_INT, t.pos); e->i = t.i; }
  else if (t.kind == TOKEN_FLOAT) { e = new_expression(p, AST_FLOAT, t.pos); e->f = t.f; }
  else if (t.kind == TOKEN_STRING) { e = new_expression(p, AST_STRING, t.pos); e->text = parser_string(p); return e; }
  else if (parser_is(p, "true") || parser_is(p, "false")) { e = new_expression(p, AST_BOOL, t.pos); e->b = parser_is(p, "true"); }
  if (e) parser_advance(p);
  return e;
}

// primary = number | string | "true" | "false" | name [ arguments ] | "(" items ")" | "[" items "]"
static AstExpr *parse_primary(Parser *p)
{
  AstPos pos = p->token.pos;
  AstExpr *e = parse_literal(p);
  if (e) return e;
  if (p->token.kind == TOKEN_NAME) {
    e = new_expression(p, AST_NAME, pos);
    e->text = parser_name(p, NULL);
    if (parser_is(p, "(")) {
      e->kind = AST_CALL;
      parse_arguments(p, e);
    }
    return e;
  }
  if (parser_accept(p, "(")) {
    AstExpr *tuple = new_expression(p, AST_TUPLE, pos);
    AstExpr *first = parser_is(p, ")") ? NULL : parse_expression(p);
    if (first && !parser_is(p, ",")) { parser_expect(p, ")"); return first; }
    int capacity = 0;
    if (first) PARSER_PUSH(p, tuple->items, tuple->n_items, capacity, first);
    if (first) parser_advance(p);
    parse_items(p, tuple, ")");
    return tuple;
  }
  if (parser_accept(p, "[")) {
    e = new_expression(p, AST_LIST, pos);
    parse_items(p, e, "]");
    return e;
  }
  parser_unexpected(p, "an expression");
  return NULL;
}

// postfix = primary { subscripts }
static AstExpr *parse_postfix(Parser *p)
{
  AstExpr *e = parse_primary(p);
  while (e && parser_is(p, "[") && !p->panic) e = parse_subscripts(p, e);
  return e;
}

static AstExpr *parse_unary(Parser *p);

// power = postfix [ "**" unary ]
static AstExpr *parse_power(Parser *p)
{
  AstExpr *left = parse_postfix(p);
  if (!left || !parser_is(p, "**")) return left;
  AstExpr *e = new_expression(p, AST_BINARY, p->token.pos);
  e->text = "**";
  e->left = left;
  parser_advance(p);
  skip_line_ends(p);
  e->right = parse_unary(p);
  return e->right ? e : NULL;
}

// unary = ( "-" | "not" ) unary | power
static AstExpr *parse_unary(Parser *p)
{
  bool negate = parser_is(p, "-");
  if (!negate && !parser_is(p, "not")) return parse_power(p);
  if (!parser_deeper(p)) return NULL;
  AstExpr *e = new_expression(p, AST_UNARY, p->token.pos);
  e->text = negate ? "-" : "not";
  parser_advance(p);
  e->left = negate ? parse_unary(p) : parse_expression(p);
  p->depth--;
  return e->left ? e : NULL;
}

// The binary levels, loose to tight. "not" binds looser than comparison, as in Python.
static const char *const levels[][7] = {{"or"}, {"and"}, {"==", "!=", "<=", ">=", "<", ">"}, {"+", "-"}, {"*", "/", "//", "%"}};
enum { LEVELS = 5 };

static const char *operator_at(const Parser *p, int level)
{
  for (int i = 0; i < 7 && levels[level][i]; i++)
    if (parser_is(p, levels[level][i])) return levels[level][i];
  return NULL;
}

// binary(level) = binary(level+1) { operator(level) binary(level+1) }
static AstExpr *parse_binary(Parser *p, int level)
{
  if (level == LEVELS) return parse_unary(p);
  AstExpr *left = parse_binary(p, level + 1);
  const char *text;
  while (left && !p->panic && (text = operator_at(p, level))) {
    AstExpr *e = new_expression(p, AST_BINARY, p->token.pos);
    e->text = text;
    e->left = left;
    parser_advance(p);
    skip_line_ends(p);
    e->right = parse_binary(p, level + 1);
    left = e->right ? e : NULL;
  }
  return left;
}

// conditional = binary [ "if" binary "else" conditional ]
static AstExpr *parse_conditional(Parser *p)
{
  AstExpr *e = parse_binary(p, 0);
  if (!e || !parser_is(p, "if")) return e;
  AstExpr *c = new_expression(p, AST_CONDITIONAL, e->pos);
  c->left = e;
  parser_advance(p);
  c->middle = parse_binary(p, 0);
  if (!c->middle || !parser_expect(p, "else") || !parser_deeper(p)) return NULL;
  c->right = parse_conditional(p);
  p->depth--;
  return c->right ? c : NULL;
}

// A pipe may open the next line.
static bool pipe_follows(Parser *p)
{
  if (parser_is(p, "|>")) return true;
  if (p->token.kind != TOKEN_NEWLINE) return false;
  Parser saved = *p;
  skip_line_ends(p);
  if (parser_is(p, "|>")) return true;
  *p = saved;
  return false;
}

// expr = conditional { "|>" name [ arguments ] }
AstExpr *parse_expression(Parser *p)
{
  if (!parser_deeper(p)) return NULL;
  AstExpr *e = parse_conditional(p);
  while (e && !p->panic && pipe_follows(p)) {
    parser_advance(p);
    skip_line_ends(p);
    AstExpr *call = new_expression(p, AST_CALL, p->token.pos);
    call->piped = true;
    call->text = parser_name(p, NULL);
    if (!call->text) { e = NULL; break; }
    call->args = ast_alloc(p->memory, sizeof *call->args);
    call->args[0] = (AstArg){NULL, e, e->pos};
    call->n_args = 1;
    if (parser_is(p, "(")) parse_arguments(p, call);
    e = call;
  }
  p->depth--;
  return e;
}

// exprs = expr { "," expr }
AstExpr *parse_expression_list(Parser *p)
{
  AstExpr *first = parse_expression(p);
  if (!first || !parser_is(p, ",")) return first;
  AstExpr *tuple = new_expression(p, AST_TUPLE, first->pos);
  int capacity = 0;
  PARSER_PUSH(p, tuple->items, tuple->n_items, capacity, first);
  while (parser_accept(p, ",")) {
    AstExpr *item = parse_expression(p);
    if (!item) return NULL;
    PARSER_PUSH(p, tuple->items, tuple->n_items, capacity, item);
  }
  return tuple;
}

// type = [ name ] [ "[" [ expr { "," expr } ] "]" ]
AstType *parse_type(Parser *p)
{
  AstType *t = ast_alloc(p->memory, sizeof *t);
  int capacity = 0;
  t->pos = p->token.pos;
  if (p->token.kind == TOKEN_NAME) t->dtype = parser_name(p, NULL);
  else if (!parser_is(p, "[")) { parser_unexpected(p, "a type such as f32[N, 10] or [N, C]"); return t; }
  if (!parser_accept(p, "[")) return t;
  t->has_shape = true;
  while (!parser_is(p, "]") && p->token.kind != TOKEN_END && !p->panic) {
    AstExpr *dim = parse_expression(p);
    if (dim) PARSER_PUSH(p, t->dims, t->n_dims, capacity, dim);
    if (!parser_accept(p, ",")) break;
  }
  parser_expect(p, "]");
  return t;
}
