// Expressions, types and arguments.
//
//   tuple   := expr { "," expr }
//   expr    := or { "|>" call }                        a pipe binds weakest: a + b |> f is f(a + b)
//   or      := and { "or" and }
//   and     := not { "and" not }
//   not     := "not" not | compare
//   compare := sum [ ("==" | "!=" | "<" | "<=" | ">" | ">=") sum ]
//   sum     := product { ("+" | "-") product }
//   product := unary { ("*" | "/" | "//" | "%") unary }
//   unary   := "-" unary | power
//   power   := postfix [ "**" unary ]                  -x**2 is -(x**2)
//   postfix := primary { index }
//   scan    := "scan" "(" input { "," input } { "," NAME "=" expr } ")" label "{" names "->" statements "}"
#include "compiler/parser.h"
#include "ir/ir.h"

#include <string.h>

static int larger(int x, int y) { return x > y ? x : y; }
static int depth_of(const AstExpr *e) { return e ? e->depth : 0; }

AstExpr *parser_new_expr(Parser *p, AstExprKind kind, AstPos pos) {
  AstExpr *e = pool_alloc(p->pool, sizeof *e);
  e->kind = kind;
  e->pos = pos;
  e->depth = 1;
  return e;
}

bool parser_set_depth(Parser *p, AstExpr *e, int below) {
  e->depth = below + 1;
  if (e->depth <= AST_MAX_DEPTH) return true;
  bool quiet = p->panic;
  parser_error(p, e->pos, "the expression has more than %d levels", AST_MAX_DEPTH);
  if (!quiet) diag_hint(p->diagnostics, "give parts of it a name of their own");
  return false;
}

// --- Arguments and calls
// -------------------------------------------------------------------------------------------------

// arg := [ NAME "=" ] expr
static bool parse_argument(Parser *p, AstArg *arg) {
  *arg = (AstArg){0};
  AstExpr *e = parse_expr(p);
  if (e && e->kind == AST_NAME && parser_at(p, TOKEN_ASSIGN)) {
    parser_advance(p);
    arg->name = (AstName){.text = e->text, .pos = e->pos};
    e = parse_expr(p);
  }
  arg->value = e;
  return e;
}

bool parse_arguments(Parser *p, AstArg **args, int *n) {
  do {
    *args = pool_append(p->pool, *args, *n, sizeof **args);
    if (!parse_argument(p, &(*args)[*n])) return false;
    ++*n;
  } while (parser_accept(p, TOKEN_COMMA) && !parser_at(p, TOKEN_RPAREN));
  return true;
}

// call := NAME [ "(" [ arg { "," arg } [ "," ] ] ")" ] label       after |> the parentheses may be left out; `piped`
// NULL: not after one
static AstExpr *parse_call(Parser *p, AstName callee, AstExpr *piped) {
  AstExpr *e = parser_new_expr(p, AST_CALL, callee.pos);
  e->call.callee = callee.text;
  int below = depth_of(piped);
  if (piped) {
    e->call.piped = true;
    e->call.args = pool_append(p->pool, NULL, 0, sizeof *e->call.args);
    e->call.args[e->call.n_args++] = (AstArg){.value = piped};
  }
  if (parser_at(p, TOKEN_LPAREN) && parser_same_line(p)) {
    bool in_header = p->in_header;
    p->in_header = false;
    p->brackets++;
    parser_advance(p);
    if (!parser_at(p, TOKEN_RPAREN) && !parse_arguments(p, &e->call.args, &e->call.n_args)) return NULL;
    p->brackets--;
    p->in_header = in_header;
    if (!parser_expect(p, TOKEN_RPAREN, "',' or ')'")) return NULL;
    for (int i = 0; i < e->call.n_args; i++) below = larger(below, depth_of(e->call.args[i].value));
  }
  if (!p->in_header && !parser_path(p, &e->call.label)) return NULL;
  return parser_set_depth(p, e, below) ? e : NULL;
}

// --- Primary and postfix

// "..." in front of dimension n of a type.
static bool parse_rest(Parser *p, AstType *type, int n) {
  if (type->has_rest) return parser_error(p, p->token.pos, "'...' can stand once in a type");
  type->has_rest = true;
  type->rest = n;
  return parser_accept(p, TOKEN_ELLIPSIS);
}

// Items up to the closing bracket: expr { "," expr } [ "," ]. trailing: the last one was followed by a comma. type:
// whose dimensions they are, of which one may be "...", NULL: none.
static bool parse_items(Parser *p, TokenKind close, AstExpr *list, bool *trailing, AstType *type) {
  int below = 0;
  bool in_header = p->in_header;
  p->in_header = false;
  p->brackets++;
  parser_advance(p);
  *trailing = false;
  while (!parser_at(p, close)) {
    if (type && parser_at(p, TOKEN_ELLIPSIS)) {
      if (!parse_rest(p, type, list->list.n)) return false;
    } else {
      AstExpr *item = parse_expr(p);
      if (!item) return false;
      list->list.items = pool_append(p->pool, list->list.items, list->list.n, sizeof *list->list.items);
      list->list.items[list->list.n++] = item;
      below = larger(below, item->depth);
    }
    *trailing = parser_accept(p, TOKEN_COMMA);
    if (!*trailing) break;
  }
  p->brackets--;
  p->in_header = in_header;
  return parser_expect(p, close, close == TOKEN_RPAREN ? "',' or ')'" : "',' or ']'") &&
         parser_set_depth(p, list, below);
}

// "(" expr ")" | "(" [ expr "," { expr "," } [ expr ] ] ")"
static AstExpr *parse_parentheses(Parser *p) {
  AstExpr *tuple = parser_new_expr(p, AST_TUPLE, p->token.pos);
  bool trailing;
  if (!parse_items(p, TOKEN_RPAREN, tuple, &trailing, NULL)) return NULL;
  return tuple->list.n == 1 && !trailing ? tuple->list.items[0] : tuple;
}

// list := "[" [ expr { "," expr } [ "," ] ] "]"
static AstExpr *parse_list(Parser *p) {
  AstExpr *list = parser_new_expr(p, AST_LIST, p->token.pos);
  bool trailing;
  return parse_items(p, TOKEN_RBRACKET, list, &trailing, NULL) ? list : NULL;
}

// y += 1, y++ and y-- of other languages, where the '=' or the second sign is no expression.
static void hint_assignment(Parser *p) {
  bool increment = parser_at(p, TOKEN_PLUS) || parser_at(p, TOKEN_MINUS);
  AstPos sign = p->previous, here = p->token.pos;
  if (!p->first_word || !(increment || parser_at(p, TOKEN_ASSIGN)) || sign.line != here.line ||
      sign.column + sign.length != here.column)
    return;
  const char *start = p->lexer.source->text, *text = start + p->lexer.at - here.length - sign.length, *end = text;
  size_t length = strlen(p->first_word);
  while (end > start && end[-1] == ' ') end--;
  if (!strchr("+-*/%", *text) || (size_t)(end - start) < length || memcmp(end - length, p->first_word, length) != 0)
    return;
  diag_hint(p->diagnostics, "write %.60s = %.60s %.*s %s", p->first_word, p->first_word, sign.length, text,
            increment ? "1" : "…");
}

// ++y of other languages, at its first sign.
static void hint_increment(Parser *p) {
  const char *text = p->lexer.source->text + p->lexer.at - p->token.pos.length, *name = text + 2;
  if (text[0] != '+' || text[1] != '+' || (*name >= '0' && *name <= '9')) return;
  int length = (int)strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
  if (length > 0 && length <= 60) diag_hint(p->diagnostics, "write %.*s = %.*s + 1", length, name, length, name);
}

// An if that is a value: its bodies compute, and have no settings, in train too.
static AstExpr *parse_value_of_if(Parser *p) {
  bool in_train = p->in_train;
  p->in_train = false;
  AstExpr *e = parse_if(p);
  p->in_train = in_train;
  return e;
}

// primary := INT | FLOAT | STRING | "true" | "false" | NAME | call | "(" … ")" | list | if
static AstExpr *parse_primary(Parser *p) {
  Token t = p->token;
  AstExpr *e = NULL;
  switch (t.kind) {
  case TOKEN_INT:
    e = parser_new_expr(p, AST_INT, t.pos);
    e->integer = t.integer;
    break;
  case TOKEN_FLOAT:
    e = parser_new_expr(p, AST_FLOAT, t.pos);
    e->number = t.number;
    break;
  case TOKEN_STRING:
    e = parser_new_expr(p, AST_STRING, t.pos);
    e->text = t.text;
    break;
  case TOKEN_TRUE:
  case TOKEN_FALSE:
    e = parser_new_expr(p, AST_BOOL, t.pos);
    e->boolean = t.kind == TOKEN_TRUE;
    break;
  case TOKEN_NAME:
    parser_advance(p);
    if (strcmp(t.text, "scan") == 0 && parser_at(p, TOKEN_LPAREN) && parser_same_line(p)) return parse_scan(p, t.pos);
    if (parser_at(p, TOKEN_LPAREN) && parser_same_line(p))
      return parse_call(p, (AstName){.text = t.text, .pos = t.pos}, NULL);
    e = parser_new_expr(p, AST_NAME, t.pos);
    e->text = t.text;
    return e;
  case TOKEN_LPAREN: return parse_parentheses(p);
  case TOKEN_LBRACKET: return parse_list(p);
  case TOKEN_IF: return parse_value_of_if(p);
  default: {
    bool quiet = p->panic;
    parser_expected(p, "an expression");
    if (!quiet) hint_assignment(p), hint_increment(p);
    return NULL;
  }
  }
  parser_advance(p);
  return e;
}

// slice := expr | [ expr ] ":" [ expr ] [ ":" [ expr ] ]
static bool parse_slice(Parser *p, AstSlice *slice, int *below) {
  *slice = (AstSlice){.pos = p->token.pos};
  slice->is_rest = parser_accept(p, TOKEN_ELLIPSIS);
  if (slice->is_rest) return true;
  if (!parser_at(p, TOKEN_COLON) && !(slice->start = parse_expr(p))) return false;
  slice->is_index = !parser_at(p, TOKEN_COLON);
  AstExpr **part[] = {&slice->stop, &slice->step};
  for (int i = 0; i < 2 && parser_accept(p, TOKEN_COLON); i++) {
    if (parser_at(p, TOKEN_COLON) || parser_at(p, TOKEN_COMMA) || parser_at(p, TOKEN_RBRACKET)) continue;
    if (!(*part[i] = parse_expr(p))) return false;
  }
  *below = larger(larger(*below, depth_of(slice->start)), larger(depth_of(slice->stop), depth_of(slice->step)));
  return true;
}

// A name of an element type, where [] is a scalar's type.
static bool is_element_type(const AstExpr *x) {
  NnDtype dtype;
  return x->kind == AST_NAME && nn_dtype_parse(x->text, &dtype);
}

// index := "[" slice { "," slice } [ "," ] "]"
static AstExpr *parse_index(Parser *p, AstExpr *x) {
  AstExpr *e = parser_new_expr(p, AST_INDEX, p->token.pos);
  int below = x->depth;
  bool in_header = p->in_header;
  p->in_header = false;
  e->index.x = x;
  p->brackets++;
  parser_advance(p);
  if (!(is_element_type(x) && parser_at(p, TOKEN_RBRACKET))) do {
      e->index.slices = pool_append(p->pool, e->index.slices, e->index.n, sizeof *e->index.slices);
      if (!parse_slice(p, &e->index.slices[e->index.n], &below)) return NULL;
      e->index.n++;
    } while (parser_accept(p, TOKEN_COMMA) && !parser_at(p, TOKEN_RBRACKET));
  p->brackets--;
  p->in_header = in_header;
  return parser_expect(p, TOKEN_RBRACKET, "',' or ']'") && parser_set_depth(p, e, below) ? e : NULL;
}

static AstExpr *parse_indices(Parser *p, AstExpr *e) {
  while (e && parser_at(p, TOKEN_LBRACKET) && parser_same_line(p)) e = parse_index(p, e);
  if (e && parser_at(p, TOKEN_LPAREN) && parser_same_line(p)) {
    parser_error(p, p->token.pos, "only a name can be called");
    return NULL;
  }
  return e;
}

// --- Operators

enum { PREC_OR = 1, PREC_AND, PREC_NOT, PREC_COMPARE, PREC_SUM, PREC_PRODUCT };

static const char *binary_operator(TokenKind kind, int *precedence) {
  switch (kind) {
  case TOKEN_OR: *precedence = PREC_OR; return "or";
  case TOKEN_AND: *precedence = PREC_AND; return "and";
  case TOKEN_EQ: *precedence = PREC_COMPARE; return "==";
  case TOKEN_NE: *precedence = PREC_COMPARE; return "!=";
  case TOKEN_LT: *precedence = PREC_COMPARE; return "<";
  case TOKEN_LE: *precedence = PREC_COMPARE; return "<=";
  case TOKEN_GT: *precedence = PREC_COMPARE; return ">";
  case TOKEN_GE: *precedence = PREC_COMPARE; return ">=";
  case TOKEN_PLUS: *precedence = PREC_SUM; return "+";
  case TOKEN_MINUS: *precedence = PREC_SUM; return "-";
  case TOKEN_STAR: *precedence = PREC_PRODUCT; return "*";
  case TOKEN_SLASH: *precedence = PREC_PRODUCT; return "/";
  case TOKEN_FLOORDIV: *precedence = PREC_PRODUCT; return "//";
  case TOKEN_PERCENT: *precedence = PREC_PRODUCT; return "%";
  default: *precedence = 0; return NULL;
  }
}

static AstExpr *new_binary(Parser *p, const char *op, AstPos pos, AstExpr *x, AstExpr *y) {
  if (!x || !y) return NULL;
  AstExpr *e = parser_new_expr(p, AST_BINARY, pos);
  e->binary.op = op;
  e->binary.x = x;
  e->binary.y = y;
  return parser_set_depth(p, e, larger(x->depth, y->depth)) ? e : NULL;
}

static AstExpr *new_unary(Parser *p, const char *op, AstPos pos, AstExpr *x) {
  if (!x) return NULL;
  AstExpr *e = parser_new_expr(p, AST_UNARY, pos);
  e->unary.op = op;
  e->unary.x = x;
  return parser_set_depth(p, e, x->depth) ? e : NULL;
}

// A '-' right behind another, and nothing on the line that it could be the sign of.
static bool at_decrement(const Parser *p) {
  AstPos sign = p->previous, here = p->token.pos;
  if (!parser_at(p, TOKEN_MINUS) || sign.line != here.line || sign.column + sign.length != here.column) return false;
  const char *end = p->lexer.source->text + p->lexer.at, *rest = end + strspn(end, " \t\r");
  return end[-here.length - 1] == '-' && (*rest == '\0' || strchr(p->brackets ? "*/%)],=" : "\n#*/%)],=}", *rest));
}

static AstExpr *parse_unary(Parser *p) {
  AstPos pos = p->token.pos;
  AstExpr *e = NULL;
  if (at_decrement(p)) {
    bool quiet = p->panic;
    parser_expected(p, "an expression");
    if (!quiet) hint_assignment(p);
    return NULL;
  }
  if (!parser_enter(p, pos)) {
    parser_leave(p);
    return NULL;
  }
  if (parser_accept(p, TOKEN_MINUS)) {
    e = new_unary(p, "-", pos, parse_unary(p));
  } else {
    e = parse_indices(p, parse_primary(p));
    pos = p->token.pos;
    if (e && parser_at(p, TOKEN_POWER) && parser_same_line(p)) {
      parser_advance(p);
      e = new_binary(p, "**", pos, e, parse_unary(p));
    }
  }
  parser_leave(p);
  return e;
}

// Operators of at least `lowest` precedence, by precedence climbing over the rules from `or` to `product`.
static AstExpr *parse_binary(Parser *p, int lowest) {
  AstPos pos = p->token.pos;
  AstExpr *x = NULL;
  int precedence;
  if (!parser_enter(p, pos)) {
    parser_leave(p);
    return NULL;
  }
  if (lowest <= PREC_NOT && parser_accept(p, TOKEN_NOT)) x = new_unary(p, "not", pos, parse_binary(p, PREC_NOT));
  else x = parse_unary(p);
  for (const char *op;
       x && (op = binary_operator(p->token.kind, &precedence)) && precedence >= lowest && parser_same_line(p);) {
    pos = p->token.pos;
    parser_advance(p);
    x = new_binary(p, op, pos, x, parse_binary(p, precedence + 1));
    int next;
    if (x && precedence == PREC_COMPARE && binary_operator(p->token.kind, &next) && next == PREC_COMPARE &&
        parser_same_line(p)) {
      bool quiet = p->panic;
      parser_error(p, p->token.pos, "comparisons cannot be chained");
      if (!quiet) diag_hint(p->diagnostics, "join them with 'and': a < b and b < c");
      x = NULL;
    }
  }
  parser_leave(p);
  return x;
}

AstExpr *parse_expr(Parser *p) {
  AstExpr *e = parse_binary(p, PREC_OR);
  // The one operator that may begin a line, so that a chain of layers can be written one below the other.
  while (e && parser_accept(p, TOKEN_PIPE)) {
    p->piped = true;
    AstName callee;
    if (!parser_name(p, &callee, "the name of a layer or block after '|>'")) return NULL;
    e = parse_indices(p, parse_call(p, callee, e));
  }
  return e;
}

AstExpr *parse_tuple(Parser *p) {
  AstExpr *first = parse_expr(p);
  if (!first || !parser_at(p, TOKEN_COMMA) || !parser_same_line(p)) return first;
  AstExpr *tuple = parser_new_expr(p, AST_TUPLE, first->pos);
  int below = 0;
  for (AstExpr *item = first;; item = parse_expr(p)) {
    if (!item) return NULL;
    tuple->list.items = pool_append(p->pool, tuple->list.items, tuple->list.n, sizeof *tuple->list.items);
    tuple->list.items[tuple->list.n++] = item;
    below = larger(below, item->depth);
    if (!parser_at(p, TOKEN_COMMA) || !parser_same_line(p)) break;
    parser_advance(p);
  }
  return parser_set_depth(p, tuple, below) ? tuple : NULL;
}

// type := [ NAME ] "[" [ dimension { "," dimension } [ "," ] ] "]"
// dimension := expr | "..."
bool parse_type(Parser *p, AstType *type) {
  *type = (AstType){.pos = p->token.pos};
  if (parser_at(p, TOKEN_NAME)) {
    type->dtype = p->token.text;
    parser_advance(p);
  }
  if (!parser_at(p, TOKEN_LBRACKET)) {
    bool quiet = p->panic;
    parser_expected(p, type->dtype ? "'[' and the dimensions" : "a type such as f32[N, 10]");
    if (type->dtype && !quiet)
      diag_hint(p->diagnostics, "one number is %.60s[], ten are %.60s[10]", type->dtype, type->dtype);
    return false;
  }
  AstExpr *dims = parser_new_expr(p, AST_LIST, p->token.pos);
  bool trailing;
  if (!parse_items(p, TOKEN_RBRACKET, dims, &trailing, type)) return false;
  type->dims = dims->list.items;
  type->n_dims = dims->list.n;
  return true;
}
