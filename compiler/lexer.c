// Characters to tokens. Keywords are symbols, so that the parser compares text in one way.
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/parser.h"

Lexer lexer_start(const Source *source)
{
  return (Lexer){source, source->text, source->text + source->size, source->text, 1, 0};
}

static AstPos here(const Lexer *l, const char *at, int length)
{
  return (AstPos){l->source, l->line, (int)(at - l->line_start) + 1, length};
}

static Token token(const Lexer *l, TokenKind kind, const char *start, const char *end)
{
  return (Token){kind, start, (int)(end - start), here(l, start, (int)(end - start)), 0, 0};
}

static bool is_name_start(char c) { return isalpha((unsigned char)c) || c == '_'; }
static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool is_keyword(const char *s, size_t n)
{
  static const char *const keywords[] = {"dim", "model", "block", "train", "param", "if", "else", "for", "in", "repeat", "checkpoint",
                                         "assert", "import", "true", "false", "and", "or", "not", NULL};
  for (int i = 0; keywords[i]; i++)
    if (strlen(keywords[i]) == n && memcmp(keywords[i], s, n) == 0) return true;
  return false;
}

// number: digits ["." digits] [("e" | "E") ["+" | "-"] digits], with _ between digits
static Token lex_number(Lexer *l)
{
  const char *start = l->at, *s = start;
  char digits[128];
  size_t n = 0;
  bool is_float = false;
  while (s < l->end) {
    bool exponent = (*s == 'e' || *s == 'E') && s + 1 < l->end && (isdigit((unsigned char)s[1]) || ((s[1] == '+' || s[1] == '-') && s + 2 < l->end && isdigit((unsigned char)s[2])));
    bool point = *s == '.' && !is_float && s + 1 < l->end && isdigit((unsigned char)s[1]);
    if (!isdigit((unsigned char)*s) && *s != '_' && !exponent && !point) break;
    if (exponent || point) is_float = true;
    if (*s != '_' && n < sizeof digits - 2) digits[n++] = *s;
    if (exponent && n < sizeof digits - 2) digits[n++] = *++s;
    s++;
  }
  digits[n] = 0;
  Token t = token(l, is_float ? TOKEN_FLOAT : TOKEN_INT, start, s);
  l->at = s;
  errno = 0;
  if (is_float) t.f = strtod(digits, NULL);
  else t.i = strtoll(digits, NULL, 10);
  if (errno == ERANGE || n >= sizeof digits - 2) {
    diag_error(t.pos, "number is too large");
    t.i = 0;
    t.f = 0;
  }
  if (l->at < l->end && is_name_start(*l->at)) {
    diag_error(here(l, l->at, 1), "a number cannot be followed by '%c'", *l->at);
    while (l->at < l->end && is_name(*l->at)) l->at++;
  }
  return t;
}

static Token lex_string(Lexer *l)
{
  const char *start = l->at++;
  while (l->at < l->end && *l->at != '"' && *l->at != '\n') l->at++;
  Token t = token(l, TOKEN_STRING, start, l->at);
  if (l->at >= l->end || *l->at != '"') {
    diag_error(here(l, start, 1), "string is not closed on its line");
    return t;
  }
  l->at++;
  t.length = t.pos.length = (int)(l->at - start);
  return t;
}

// The spaces, comments and (inside brackets) newlines before the next token.
static void skip_space(Lexer *l)
{
  while (l->at < l->end) {
    if (*l->at == '#') {
      while (l->at < l->end && *l->at != '\n') l->at++;
    } else if (*l->at == '\n' && l->brackets > 0) {
      l->line++;
      l->line_start = ++l->at;
    } else if (*l->at == ' ' || *l->at == '\t' || *l->at == '\r') {
      l->at++;
    } else {
      return;
    }
  }
}

static Token lex_symbol(Lexer *l)
{
  static const char *const symbols[] = {"|>", "->", "**", "//", "==", "!=", "<=", ">=", "..", "(", ")", "[", "]", "{", "}", ",", ":", ";", "=",
                                        "+", "-", "*", "/", "%", "<", ">", NULL};
  for (int i = 0; symbols[i]; i++) {
    size_t n = strlen(symbols[i]);
    if ((size_t)(l->end - l->at) < n || memcmp(l->at, symbols[i], n) != 0) continue;
    Token t = token(l, TOKEN_SYMBOL, l->at, l->at + n);
    l->at += n;
    char c = *t.start;
    if (n == 1 && (c == '(' || c == '[')) l->brackets++;
    if (n == 1 && (c == ')' || c == ']') && l->brackets > 0) l->brackets--;
    // A brace is never inside a bracket: recover there from one left open.
    if (c == '{' || c == '}') l->brackets = 0;
    return t;
  }
  unsigned char c = (unsigned char)*l->at;
  Token t = token(l, TOKEN_BAD, l->at, l->at + 1);
  if (c >= 32 && c < 127) diag_error(t.pos, "unexpected character '%c'", c);
  else diag_error(t.pos, "unexpected byte 0x%02x", c);
  // One message for a run of such bytes.
  while (l->at < l->end && ((unsigned char)*l->at >= 127 || ((unsigned char)*l->at < 32 && !isspace((unsigned char)*l->at)))) l->at++;
  if (l->at == t.start) l->at++;
  return t;
}

Token lexer_next(Lexer *l)
{
  skip_space(l);
  if (l->at >= l->end) return token(l, TOKEN_END, l->end, l->end);
  if (*l->at == '\n') {
    Token t = token(l, TOKEN_NEWLINE, l->at, l->at + 1);
    l->line++;
    l->line_start = ++l->at;
    return t;
  }
  if (isdigit((unsigned char)*l->at)) return lex_number(l);
  if (*l->at == '"') return lex_string(l);
  if (is_name_start(*l->at)) {
    const char *start = l->at;
    while (l->at < l->end && is_name(*l->at)) l->at++;
    bool keyword = is_keyword(start, (size_t)(l->at - start));
    return token(l, keyword ? TOKEN_SYMBOL : TOKEN_NAME, start, l->at);
  }
  return lex_symbol(l);
}
