// The expression `scan`: a loop over an axis of tensors with carried values.
//
//   scan   := "scan" "(" input { "," input } { "," option } ")" label "{" names "->" { statement end } "}"
//   input  := expr "over" expr
//   option := ( "init" | "axis" | "reverse" ) "=" expr
//   names  := name { "," name };  name := NAME | "(" names ")"
#include <string.h>

#include "compiler/parser.h"

static int larger(int x, int y) { return x > y ? x : y; }

static bool parse_option(Parser *p, AstScan *s, const AstExpr *name, int *below) {
  AstExpr **place = strcmp(name->text, "init") == 0      ? &s->init
                    : strcmp(name->text, "axis") == 0    ? &s->axis
                    : strcmp(name->text, "reverse") == 0 ? &s->reverse
                                                         : NULL;
  if (!place) {
    bool quiet = p->panic;
    parser_error(p, name->pos, "scan has no argument '%s'", name->text);
    if (!quiet) diag_hint(p->diagnostics, "scan(x over T, init=(h0, c0), axis=0, reverse=false) { step, (h, c) -> … }");
    return false;
  }
  if (*place) return parser_error(p, name->pos, "'%s' is given twice", name->text);
  parser_advance(p);
  *place = parse_expr(p);
  if (*place) *below = larger(*below, (*place)->depth);
  return *place;
}

static bool parse_item(Parser *p, AstScan *s, int *below) {
  AstExpr *x = parse_expr(p);
  if (!x) return false;
  *below = larger(*below, x->depth);
  if (x->kind == AST_NAME && parser_at(p, TOKEN_ASSIGN)) return parse_option(p, s, x, below);
  bool over_next = parser_at(p, TOKEN_NAME) && strcmp(p->token.text, "over") == 0;
  if (!over_next && x->kind == AST_NAME && strcmp(x->text, "over") == 0) {
    bool quiet = p->panic;
    parser_error(p, x->pos, "scan goes over a tensor, which stands before 'over'");
    if (!quiet) diag_hint(p->diagnostics, "scan(iota(3) over 3, …) takes three steps and counts them");
    return false;
  }
  if (!over_next) return parser_expected(p, "'over' and the length of the axis");
  parser_advance(p);
  AstExpr *over = parse_expr(p);
  if (!over) return false;
  *below = larger(*below, over->depth);
  s->inputs = pool_append(p->pool, s->inputs, s->n_inputs, sizeof *s->inputs);
  s->over = pool_append(p->pool, s->over, s->n_inputs, sizeof *s->over);
  s->inputs[s->n_inputs] = x;
  s->over[s->n_inputs++] = over;
  return true;
}

static bool parse_names(Parser *p, AstScan *s, int depth) {
  do {
    if (depth == 0 && parser_accept(p, TOKEN_LPAREN)) {
      if (!parse_names(p, s, 1) || !parser_expect(p, TOKEN_RPAREN, "',' or ')'")) return false;
      continue;
    }
    AstName name;
    if (!parser_name(p, &name, "a name for a step or a carried value")) return false;
    for (int i = 0; i < s->n_names; i++)
      if (strcmp(s->names[i].text, name.text) == 0 && strcmp(name.text, "_") != 0)
        return parser_error(p, name.pos, "'%s' is the name of two values of a step", name.text);
    s->names = pool_append(p->pool, s->names, s->n_names, sizeof *s->names);
    s->names[s->n_names++] = name;
  } while (parser_accept(p, TOKEN_COMMA));
  return true;
}

static bool parse_head(Parser *p, void *scan) {
  return parse_names(p, scan, 0) && parser_expect(p, TOKEN_ARROW, "',' or '->'");
}

AstExpr *parse_scan(Parser *p, AstPos pos) {
  AstExpr *e = parser_new_expr(p, AST_SCAN, pos);
  AstScan *s = e->scan = pool_alloc(p->pool, sizeof *s);
  bool in_header = p->in_header;
  int below = 0;
  *s = (AstScan){0};
  p->in_header = false;
  p->brackets++;
  parser_advance(p);
  do {
    if (!parse_item(p, s, &below)) return NULL;
  } while (parser_accept(p, TOKEN_COMMA) && !parser_at(p, TOKEN_RPAREN));
  p->brackets--;
  p->in_header = in_header;
  if (!parser_expect(p, TOKEN_RPAREN, "',' or ')'")) return NULL;
  if (!s->n_inputs || !s->init) {
    bool quiet = p->panic;
    parser_error(p, pos,
                 s->n_inputs ? "scan needs 'init', the carried values before the first step"
                             : "scan needs something to go over");
    if (!quiet) diag_hint(p->diagnostics, "scan(x over T, init=(h0, c0)) { step, (h, c) -> … }");
    return NULL;
  }
  bool in_train = p->in_train, ok = parser_label(p, &s->label);
  p->in_train = false;   // the body computes, and has no settings
  ok = ok && parse_body_with_head(p, &s->body, parse_head, s);
  p->in_train = in_train;
  if (!ok) return NULL;
  return parser_set_depth(p, e, larger(below, parser_body_depth(&s->body))) ? e : NULL;
}
