// From text to tokens, one at a time. Newlines are not tokens: each token knows whether it starts a line, and the
// parser decides what that means (docs/language.md, "Lines").
#ifndef NNC_COMPILER_LEXER_H
#define NNC_COMPILER_LEXER_H

#include <stdbool.h>
#include <stdint.h>

#include "compiler/diagnostics.h"
#include "compiler/pool.h"

// TOKEN(name, spelling): keywords and punctuation, longest spellings first among those that share a beginning.
// clang-format off
#define LEXER_KEYWORDS(TOKEN) \
  TOKEN(DIM, "dim") TOKEN(LET, "let") TOKEN(BLOCK, "block") TOKEN(MODEL, "model") TOKEN(TRAIN, "train") \
  TOKEN(IMPORT, "import") TOKEN(PARAM, "param") TOKEN(FOR, "for") TOKEN(IN, "in") TOKEN(REPEAT, "repeat") \
  TOKEN(IF, "if") TOKEN(ELSE, "else") TOKEN(CHECKPOINT, "checkpoint") TOKEN(ASSERT, "assert") TOKEN(AND, "and") \
  TOKEN(OR, "or") TOKEN(NOT, "not") TOKEN(TRUE, "true") TOKEN(FALSE, "false") TOKEN(AS, "as")
#define LEXER_PUNCTUATION(TOKEN) \
  TOKEN(PIPE, "|>") TOKEN(ARROW, "->") TOKEN(ELLIPSIS, "...") TOKEN(RANGE, "..") TOKEN(POWER, "**") \
  TOKEN(FLOORDIV, "//") TOKEN(EQ, "==") TOKEN(NE, "!=") TOKEN(LE, "<=") TOKEN(GE, ">=") TOKEN(LPAREN, "(") \
  TOKEN(RPAREN, ")") TOKEN(LBRACKET, "[") TOKEN(RBRACKET, "]") TOKEN(LBRACE, "{") TOKEN(RBRACE, "}") \
  TOKEN(COMMA, ",") TOKEN(COLON, ":") TOKEN(SEMICOLON, ";") TOKEN(ASSIGN, "=") TOKEN(PLUS, "+") TOKEN(MINUS, "-") \
  TOKEN(STAR, "*") TOKEN(SLASH, "/") TOKEN(PERCENT, "%") TOKEN(LT, "<") TOKEN(GT, ">")
// clang-format on

typedef enum TokenKind {
  TOKEN_END,     // of the file, or after too many errors
  TOKEN_ERROR,   // something already reported; the parser stays quiet about it
  TOKEN_NAME,
  TOKEN_INT,
  TOKEN_FLOAT,
  TOKEN_STRING,
#define TOKEN(name, spelling) TOKEN_##name,
  LEXER_KEYWORDS(TOKEN) LEXER_PUNCTUATION(TOKEN)
#undef TOKEN
} TokenKind;

typedef struct Token {
  TokenKind kind;
  bool starts_line;   // first of its line, or of the file
  AstPos pos;
  const char *text;   // NAME and keywords: the word; STRING: its value
  int64_t integer;    // INT
  double number;      // FLOAT
} Token;

typedef struct Lexer {
  const Source *source;
  Diagnostics *diagnostics;
  Pool *pool;   // holds the texts of tokens
  size_t at;    // next byte
  int line;
  size_t line_start;
  bool starts_line;
} Lexer;

void lexer_start(Lexer *lexer, const Source *source, Diagnostics *diagnostics, Pool *pool);
Token lexer_next(Lexer *lexer);
const char *token_spelling(TokenKind kind);   // "'|>'", "a name": for "expected …"
bool token_is_keyword(TokenKind kind);

#endif
