// Bodies and statements.
//
//   body      := "{" { statement end } "}"
//   end       := newline | ";" | before "}"
//   statement := assign | param | state | update | for | repeat | if | checkpoint | assert | tuple, and in train:
//   setting
#include "compiler/elsewhere.h"
#include "compiler/parser.h"

#include <string.h>

static int larger(int x, int y) { return x > y ? x : y; }
static int depth_of(const AstExpr *e) { return e ? e->depth : 0; }

int parser_body_depth(const AstBody *body) {
  int depth = 0;
  for (int i = 0; i < body->n; i++) depth = larger(depth, body->stmts[i]->depth);
  return depth;
}

// --- Recovery

static bool starts_item(const Parser *p) {
  return p->token.starts_line && p->token.pos.column == 1 && p->token.kind >= TOKEN_DIM &&
         p->token.kind <= TOKEN_IMPORT;
}

// To where the next statement should begin: a line that is not inside a bracket, or not indented more than the broken
// statement.
static void skip_statement(Parser *p, AstPos start, int brackets, bool started) {
  int braces = 0;
  for (; !parser_at(p, TOKEN_END) && !starts_item(p); parser_advance(p), started = true) {
    if (braces == 0) {
      if (parser_at(p, TOKEN_RBRACE)) break;
      if (started && p->token.starts_line && (brackets <= 0 || p->token.pos.column <= start.column)) break;
      if (parser_at(p, TOKEN_SEMICOLON)) {
        parser_advance(p);
        break;
      }
    }
    switch (p->token.kind) {
    case TOKEN_LPAREN:
    case TOKEN_LBRACKET: brackets++; break;
    case TOKEN_RPAREN:
    case TOKEN_RBRACKET: brackets--; break;
    case TOKEN_LBRACE: braces++; break;
    case TOKEN_RBRACE: braces--; break;
    default: break;
    }
  }
  p->panic = p->token.kind == TOKEN_ERROR;
}

bool parser_skip_to_body(Parser *p) {
  while (!parser_at(p, TOKEN_LBRACE) && !parser_at(p, TOKEN_END) && !p->token.starts_line) parser_advance(p);
  if (!parser_at(p, TOKEN_LBRACE)) return false;
  p->panic = p->in_header = false;
  p->brackets = 0;
  return true;
}

// --- Statements

static void add_name(Parser *p, AstName **names, int *n, AstName name) {
  *names = pool_append(p->pool, *names, *n, sizeof **names);
  (*names)[(*n)++] = name;
}

// assign := NAME { "," NAME } "=" tuple        after the targets, which were read as an expression
static bool parse_assign(Parser *p, AstStmt *s, const AstExpr *targets) {
  s->kind = AST_ASSIGN;
  bool one = targets->kind != AST_TUPLE;
  for (int i = 0; i < (one ? 1 : targets->list.n); i++) {
    const AstExpr *target = one ? targets : targets->list.items[i];
    if (target->kind != AST_NAME) return parser_error(p, target->pos, "only names can be assigned to");
    add_name(p, &s->assign.targets, &s->assign.n, (AstName){.text = target->text, .pos = target->pos});
  }
  parser_advance(p);
  s->assign.value = parse_tuple(p);
  s->depth = 1 + depth_of(s->assign.value);
  return s->assign.value;
}

// param := "param" NAME ":" type [ "=" expr ]
static bool parse_param(Parser *p, AstStmt *s) {
  s->kind = AST_PARAM;
  parser_advance(p);
  if (!parser_name(p, &s->param.name, "the name of the parameter") || !parser_path(p, &s->param.label) ||
      !parser_expect(p, TOKEN_COLON, "':' and the type") || !parse_type(p, &s->param.type))
    return false;
  if (parser_accept(p, TOKEN_ASSIGN) && !(s->param.init = parse_expr(p))) return false;
  s->depth = 1 + depth_of(s->param.init);
  for (int i = 0; i < s->param.type.n_dims; i++) s->depth = larger(s->depth, 1 + s->param.type.dims[i]->depth);
  return true;
}

// One of the words that begin a statement only before a name, so that they can be names themselves: state, update,
// phase.
static bool starts_with_word(const Parser *p, const char *word) {
  if (!parser_at(p, TOKEN_NAME) || strcmp(p->token.text, word) != 0) return false;
  Parser ahead = *p;
  ahead.panic = true;
  parser_advance(&ahead);
  return parser_at(&ahead, TOKEN_NAME) && !ahead.token.starts_line;
}

// state := "state" NAME ":" type [ "=" expr ]
static bool parse_state(Parser *p, AstStmt *s) {
  bool ok = parse_param(p, s);
  s->kind = AST_STATE;
  return ok;
}

// update := "update" NAME "=" tuple
static bool parse_update(Parser *p, AstStmt *s) {
  AstName name;
  parser_advance(p);
  if (!parser_name(p, &name, "the name of a state")) return false;
  add_name(p, &s->assign.targets, &s->assign.n, name);
  s->kind = AST_UPDATE;
  if (!parser_expect(p, TOKEN_ASSIGN, NULL)) return false;
  s->assign.value = parse_expr(p);
  s->depth = 1 + depth_of(s->assign.value);
  return s->assign.value;
}

// item := expr [ ".." expr ]
static AstExpr *parse_for_item(Parser *p) {
  AstExpr *start = parse_expr(p);
  if (!start || !parser_at(p, TOKEN_RANGE)) return start;
  AstExpr *range = parser_new_expr(p, AST_RANGE, p->token.pos);
  parser_advance(p);
  range->range.start = start;
  range->range.stop = parse_expr(p);
  return range->range.stop && parser_set_depth(p, range, larger(start->depth, range->range.stop->depth)) ? range : NULL;
}

static bool parse_for_head(Parser *p, AstStmt *s) {
  do {
    AstName name;
    if (!parser_name(p, &name, "the name of the loop variable")) return false;
    add_name(p, &s->for_.names, &s->for_.n_names, name);
  } while (parser_accept(p, TOKEN_COMMA));
  if (!parser_expect(p, TOKEN_IN, NULL)) return false;
  do {
    AstExpr *item = parse_for_item(p);
    if (!item) return false;
    s->for_.items = pool_append(p->pool, s->for_.items, s->for_.n_items, sizeof *s->for_.items);
    s->for_.items[s->for_.n_items++] = item;
    s->depth = larger(s->depth, 1 + item->depth);
  } while (parser_accept(p, TOKEN_COMMA));
  return parser_label(p, &s->for_.label);
}

// for := "for" NAME { "," NAME } "in" item { "," item } label body
static bool parse_for(Parser *p, AstStmt *s) {
  s->kind = AST_FOR;
  parser_advance(p);
  p->in_header = true;
  bool ok = parse_for_head(p, s);
  p->in_header = false;
  if (!ok && !parser_skip_to_body(p)) return false;
  ok = parse_body(p, &s->for_.body) && ok;
  s->depth = larger(s->depth, 1 + parser_body_depth(&s->for_.body));
  return ok;
}

// repeat := "repeat" expr label body
static bool parse_repeat(Parser *p, AstStmt *s) {
  s->kind = AST_REPEAT;
  parser_advance(p);
  p->in_header = true;
  bool ok = (s->repeat.count = parse_expr(p)) && parser_label(p, &s->repeat.label);
  p->in_header = false;
  if (!ok && !parser_skip_to_body(p)) return false;
  ok = parse_body(p, &s->repeat.body) && ok;
  s->depth = 1 + larger(depth_of(s->repeat.count), parser_body_depth(&s->repeat.body));
  return ok;
}

// The `else if` of a chain is one statement in the body of the else, at its place.
static bool wrap_else_if(Parser *p, AstBody *body, AstExpr *next) {
  if (!next) return false;
  AstStmt *s = pool_alloc(p->pool, sizeof *s);
  *s = (AstStmt){.kind = AST_EXPR, .depth = next->depth + 1, .pos = next->pos};
  s->expr = next;
  body->stmts = pool_append(p->pool, NULL, 0, sizeof *body->stmts);
  body->stmts[body->n++] = s;
  body->pos = next->pos;
  body->end = p->previous;
  return true;
}

static AstExpr *parse_if_here(Parser *p) {
  AstExpr *e = parser_new_expr(p, AST_IF, p->token.pos);
  parser_advance(p);
  bool ok = (e->if_.condition = parse_expr(p)) || parser_skip_to_body(p);
  if (!ok) return NULL;
  ok = parse_body(p, &e->if_.then) && e->if_.condition;
  if (ok && parser_accept(p, TOKEN_ELSE)) {
    e->if_.has_else = true;
    if (parser_at(p, TOKEN_IF)) ok = wrap_else_if(p, &e->if_.otherwise, parse_if(p));
    else ok = parse_body(p, &e->if_.otherwise);
  }
  if (!ok) return NULL;
  int below = larger(e->if_.condition->depth,
                     larger(parser_body_depth(&e->if_.then), parser_body_depth(&e->if_.otherwise)));
  return parser_set_depth(p, e, below) ? e : NULL;
}

// if := "if" expr body [ "else" ( if | body ) ]
AstExpr *parse_if(Parser *p) {
  AstExpr *e = parser_enter(p, p->token.pos) ? parse_if_here(p) : NULL;
  parser_leave(p);
  return e;
}

// assert := "assert" expr [ "," STRING ]
bool parse_assert(Parser *p, AstStmt *s) {
  s->kind = AST_ASSERT;
  parser_advance(p);
  if (!(s->assert_.condition = parse_expr(p))) return false;
  s->depth = 1 + s->assert_.condition->depth;
  if (!parser_accept(p, TOKEN_COMMA)) return true;
  s->assert_.message = p->token.text;
  return parser_expect(p, TOKEN_STRING, "a message in double quotes");
}

// setting := NAME [ arg { "," arg } ]        and for the keywords data and eval: NAME NAME { "," NAME } "=" expr
static bool parse_setting(Parser *p, AstStmt *s, AstName keyword) {
  s->kind = AST_SETTING;
  s->setting.keyword = keyword;
  bool reads_data = strcmp(keyword.text, "data") == 0 || strcmp(keyword.text, "eval") == 0;
  if (reads_data) {
    do {
      AstName name;
      if (!parser_name(p, &name, "the name of an input")) return false;
      add_name(p, &s->setting.targets, &s->setting.n_targets, name);
    } while (parser_accept(p, TOKEN_COMMA));
    if (!parser_expect(p, TOKEN_ASSIGN, NULL)) return false;
  }
  bool empty = p->token.starts_line || parser_at(p, TOKEN_RBRACE) || parser_at(p, TOKEN_SEMICOLON) ||
               parser_at(p, TOKEN_END);
  if ((reads_data || !empty) && !parse_arguments(p, &s->setting.args, &s->setting.n_args)) return false;
  for (int i = 0; i < s->setting.n_args; i++) s->depth = larger(s->depth, 1 + s->setting.args[i].value->depth);
  return true;
}

// phase := "phase" NAME body [ "every" expr ]
static bool parse_phase(Parser *p, AstStmt *s) {
  s->kind = AST_PHASE;
  parser_advance(p);
  if (!parser_name(p, &s->phase.name, "the name of the phase")) return false;
  bool ok = parse_body(p, &s->phase.body), every = parser_at(p, TOKEN_NAME) && strcmp(p->token.text, "every") == 0;
  s->depth = 1 + parser_body_depth(&s->phase.body);
  if (!ok || !every || p->token.starts_line) return ok;
  parser_advance(p);
  s->phase.every = parse_expr(p);
  s->depth = larger(s->depth, 1 + depth_of(s->phase.every));
  return s->phase.every;
}

// In train a line that starts with a name is an assignment when '=' or ',' follows, else a setting.
static bool parse_train_line(Parser *p, AstStmt *s) {
  AstName name = {.text = p->token.text, .pos = p->token.pos};
  parser_advance(p);
  bool assigns = (parser_at(p, TOKEN_ASSIGN) || parser_at(p, TOKEN_COMMA)) && !p->token.starts_line;
  if (!assigns) return parse_setting(p, s, name);
  AstExpr *targets = parser_new_expr(p, AST_TUPLE, name.pos);
  for (;;) {
    AstExpr *target = parser_new_expr(p, AST_NAME, name.pos);
    target->text = name.text;
    targets->list.items = pool_append(p->pool, targets->list.items, targets->list.n, sizeof *targets->list.items);
    targets->list.items[targets->list.n++] = target;
    if (!parser_accept(p, TOKEN_COMMA)) break;
    if (!parser_name(p, &name, "a name")) return false;
  }
  return parser_at(p, TOKEN_ASSIGN) ? parse_assign(p, s, targets) : parser_expected(p, "'='");
}

static bool parse_statement(Parser *p, AstStmt *s) {
  switch (p->token.kind) {
  case TOKEN_PARAM: return parse_param(p, s);
  case TOKEN_FOR: return parse_for(p, s);
  case TOKEN_REPEAT: return parse_repeat(p, s);
  case TOKEN_ASSERT: return parse_assert(p, s);
  case TOKEN_CHECKPOINT:
  case TOKEN_IF:
    s->kind = p->token.kind == TOKEN_IF ? AST_EXPR : AST_CHECKPOINT;
    if (s->kind == AST_CHECKPOINT) parser_advance(p);
    // an if at the start of a line ends with its bodies
    s->expr = s->kind == AST_EXPR ? parse_if(p) : parse_expr(p);
    s->depth = 1 + depth_of(s->expr);
    return s->expr;
  case TOKEN_DIM:
  case TOKEN_LET:
  case TOKEN_BLOCK:
  case TOKEN_MODEL:
  case TOKEN_TRAIN:
  case TOKEN_IMPORT:
    return parser_error(p, p->token.pos, "%s can only stand at the top of a file, outside of every body",
                        token_spelling(p->token.kind));
  case TOKEN_ELSE: return parser_error(p, p->token.pos, "'else' stands only after the body of an 'if'");
  case TOKEN_NAME:
    if (p->in_train && starts_with_word(p, "phase")) return parse_phase(p, s);
    if (p->in_train && (starts_with_word(p, "state") || starts_with_word(p, "update")))
      return parser_error(p, p->token.pos, "'%s' can only stand in a block or a model", p->token.text);
    if (p->in_train) return parse_train_line(p, s);
    if (starts_with_word(p, "state")) return parse_state(p, s);
    if (starts_with_word(p, "update")) return parse_update(p, s);
    break;
  default: break;
  }
  AstExpr *e = parse_tuple(p);
  if (e && parser_at(p, TOKEN_ASSIGN) && !p->token.starts_line) return parse_assign(p, s, e);
  s->kind = AST_EXPR;
  s->expr = e;
  s->depth = 1 + depth_of(e);
  return e;
}

static bool is_operator(TokenKind kind) { return kind >= TOKEN_PLUS || (kind >= TOKEN_POWER && kind <= TOKEN_GE); }

static bool parse_end(Parser *p, const AstStmt *s) {
  if (parser_accept(p, TOKEN_SEMICOLON) || p->token.starts_line || parser_at(p, TOKEN_RBRACE) ||
      parser_at(p, TOKEN_END))
    return true;
  bool quiet = p->panic, known = parser_at(p, TOKEN_NAME) && elsewhere_word(p->token.text);
  parser_expected(p, "the end of the line");
  parser_hint_word(p, known ? p->token.text : p->first_word, quiet);
  if (p->piped && is_operator(p->token.kind) && !quiet)
    diag_hint(p->diagnostics, "a call behind |> ends there: write (x |> f(1)) + b for the sum of the two");
  else if (s->kind == AST_EXPR && s->expr->kind == AST_IF && !quiet)
    diag_hint(p->diagnostics,
              "an if at the start of a line ends with its bodies: put it in parentheses to go on behind it");
  return false;
}

static void parse_statements(Parser *p, AstBody *body) {
  while (!parser_at(p, TOKEN_RBRACE) && !parser_at(p, TOKEN_END) && !starts_item(p)) {
    if (parser_accept(p, TOKEN_SEMICOLON)) continue;
    AstPos start = p->token.pos;
    AstStmt *s = pool_alloc(p->pool, sizeof *s);
    *s = (AstStmt){.pos = start, .depth = 1};
    p->first_word = parser_at(p, TOKEN_NAME) ? p->token.text : NULL;
    p->piped = false;
    p->previous = (AstPos){0};   // what is missing here is missing here, not at the end of the line before
    bool ok = parse_statement(p, s) && parse_end(p, s) && !p->panic;
    if (ok && s->depth > AST_MAX_DEPTH) ok = parser_error(p, start, "nested more than %d deep", AST_MAX_DEPTH);
    if (ok) {
      body->stmts = pool_append(p->pool, body->stmts, body->n, sizeof *body->stmts);
      body->stmts[body->n++] = s;
      continue;
    }
    bool started = p->token.pos.line != start.line || p->token.pos.column != start.column;
    skip_statement(p, start, p->brackets, started);
    p->brackets = 0;
    p->in_header = false;
  }
}

bool parse_body(Parser *p, AstBody *body) { return parse_body_with_head(p, body, NULL, NULL); }

bool parse_body_with_head(Parser *p, AstBody *body, bool (*head)(Parser *p, void *context), void *context) {
  int brackets = p->brackets, depth = p->depth;
  bool in_header = p->in_header, ok = false;
  AstPos open = p->token.pos;
  if (parser_enter(p, open) && parser_expect(p, TOKEN_LBRACE, NULL)) {
    p->brackets = 0;
    p->in_header = false;
    body->pos = open;
    bool headed = !head || head(p, context);
    if (!headed) skip_statement(p, open, 0, true);
    parse_statements(p, body);
    body->end = p->token.pos;
    bool quiet = p->panic;
    ok = parser_at(p, TOKEN_RBRACE);
    if (ok) {
      parser_advance(p);
      ok = headed;
    } else {
      parser_error(p, p->token.pos, "expected '}', found %s",
                   parser_at(p, TOKEN_END) ? "the end of the file" : token_spelling(p->token.kind));
      if (!quiet && !p->gave_up) diag_note(p->diagnostics, open, "to close the body opened here");
    }
  }
  p->depth = depth;
  p->brackets = brackets;
  p->in_header = in_header;
  return ok;
}
