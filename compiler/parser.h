// Private to parser*.c: recursive descent with one token of look-ahead. A function that fails has reported it and
// returns NULL or false; from there to the next statement the parser is in panic and reports nothing more.
#ifndef NNC_COMPILER_PARSER_H
#define NNC_COMPILER_PARSER_H

#include "compiler/ast.h"
#include "compiler/lexer.h"

typedef struct Parser {
  AstFile *file;
  Diagnostics *diagnostics;
  Pool *pool;
  Lexer lexer;
  Token token;                          // the next one, not yet consumed
  AstPos previous;                      // of the last consumed token
  const char *first_word, *last_word;   // of the statement, and the token before; NULL where that was no name
  bool piped;                           // a |> stood in the statement
  bool panic;
  bool gave_up;     // too deep: the rest of the file is not read
  int depth;        // of the recursion, at most AST_MAX_DEPTH
  int brackets;     // open ( and [ around here: inside them newlines mean nothing
  bool in_header;   // in the head of a loop, where `as` names the loop and not a call
  bool in_train;
} Parser;

void parser_advance(Parser *p);
bool parser_at(const Parser *p, TokenKind kind);
bool parser_accept(Parser *p, TokenKind kind);
// Consumes `kind` or reports "expected …, found …"; `what` replaces the spelling of the kind unless NULL.
bool parser_expect(Parser *p, TokenKind kind, const char *what);
bool parser_expected(Parser *p, const char *what);   // reports at the next token; false
// quiet in panic; false
bool parser_error(Parser *p, AstPos pos, const char *format, ...) __attribute__((format(printf, 3, 4)));
// one level deeper, false when that is too deep; parser_leave in any case
bool parser_enter(Parser *p, AstPos pos);
void parser_leave(Parser *p);
// what a word of other languages is here, to the error just reported; nothing in a panic that was there before it
void parser_hint_word(Parser *p, const char *word, bool was_quiet);
bool parser_same_line(const Parser *p);   // the next token continues this line (or a bracket is open)
bool parser_name(Parser *p, AstName *name, const char *what);
bool parser_label(Parser *p, AstName *label);   // [ "as" NAME ]
bool parser_path(Parser *p, AstName *label);    // [ "as" ( NAME | STRING ) ]

// parser_expr.c
AstExpr *parse_tuple(Parser *p);   // expr { "," expr }: one expression or a tuple
AstExpr *parse_expr(Parser *p);
AstExpr *parse_scan(Parser *p, AstPos pos);               // after the word, at its parenthesis
bool parse_arguments(Parser *p, AstArg **args, int *n);   // arg { "," arg }
bool parse_type(Parser *p, AstType *type);
AstExpr *parser_new_expr(Parser *p, AstExprKind kind, AstPos pos);
bool parser_set_depth(Parser *p, AstExpr *e, int below);   // below: the deepest child

// parser_stmt.c
bool parse_body(Parser *p, AstBody *body);
// A body that begins with something of its own behind its brace: head reads it, up to where the statements begin.
bool parse_body_with_head(Parser *p, AstBody *body, bool (*head)(Parser *p, void *context), void *context);
bool parse_assert(Parser *p, AstStmt *s);   // at its keyword
int parser_body_depth(const AstBody *body);
AstExpr *parse_if(Parser *p);
bool parser_skip_to_body(Parser *p);   // after a broken head: to its '{' on the same line

#endif
