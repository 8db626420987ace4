// From text to tokens. Whatever bytes the file holds, the lexer moves on by at least one and reports what is no token.
#include "compiler/lexer.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *spelling;
  TokenKind kind;
} keywords[] =
    {
#define TOKEN(name, spelling) {spelling, TOKEN_##name},
        LEXER_KEYWORDS(TOKEN)},
  punctuation[] = {LEXER_PUNCTUATION(TOKEN)
#undef TOKEN
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

const char *token_spelling(TokenKind kind) {
  switch (kind) {
  case TOKEN_END: return "the end of the file";
  case TOKEN_ERROR: return "an invalid token";
  case TOKEN_NAME: return "a name";
  case TOKEN_INT: return "an integer";
  case TOKEN_FLOAT: return "a number";
  case TOKEN_STRING: return "a string";
#define TOKEN(name, spelling) \
  case TOKEN_##name: return "'" spelling "'";
    LEXER_KEYWORDS(TOKEN) LEXER_PUNCTUATION(TOKEN)
#undef TOKEN
  }
  return "a token";
}

bool token_is_keyword(TokenKind kind) { return kind >= TOKEN_DIM && kind <= TOKEN_AS; }

void lexer_start(Lexer *lexer, const Source *source, Diagnostics *diagnostics, Pool *pool) {
  bool byte_order_mark = source->length >= 3 && memcmp(source->text, "\xef\xbb\xbf", 3) == 0;
  *lexer = (Lexer){.source = source,
                   .diagnostics = diagnostics,
                   .pool = pool,
                   .at = byte_order_mark ? 3 : 0,
                   .line = 1,
                   .starts_line = true};
}

// --- Characters

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_name(char c) { return is_name_start(c) || is_digit(c); }

// The final NUL makes one byte past the end readable.
static const char *here(const Lexer *lexer) { return lexer->source->text + lexer->at; }
static bool at_end(const Lexer *lexer) { return lexer->at >= lexer->source->length; }

static AstPos position(const Lexer *lexer, size_t start, size_t length) {
  return (AstPos){lexer->source, lexer->line, (int)(start - lexer->line_start) + 1, (int)length};
}

// Bytes of the well-formed UTF-8 character at text (RFC 3629: no overlong forms, no surrogates), 0 when there is none.
static size_t utf8_character(const char *text, size_t left) {
  const unsigned char *u = (const unsigned char *)text;
  if (u[0] < 0x80) return 1;
  size_t n = u[0] >= 0xc2 && u[0] <= 0xdf ? 2 : (u[0] & 0xf0) == 0xe0 ? 3 : u[0] >= 0xf0 && u[0] <= 0xf4 ? 4 : 0;
  if (n == 0 || n > left) return 0;
  for (size_t i = 1; i < n; i++)
    if ((u[i] & 0xc0) != 0x80) return 0;
  if ((u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] > 0x9f) || (u[0] == 0xf0 && u[1] < 0x90) ||
      (u[0] == 0xf4 && u[1] > 0x8f))
    return 0;
  return n;
}

// What editors and papers put in the place of an ASCII character.
static const struct {
  const char *found, *meant;
} lookalikes[] = {
    {"\u201c", "\""}, {"\u201d", "\""}, {"\u2018", "\""}, {"\u2019", "\""}, {"\u2212", "-"},
    {"\u2013", "-"},  {"\u2014", "-"},  {"\u00d7", "*"},  {"\u00b7", "*"},  {"\u2215", "/"},
    {"\u2264", "<="}, {"\u2265", ">="}, {"\u2260", "!="}, {"\u25b7", "|>"}, {"\u00a0", " "},
};

// A string in other quotes, to its end on this line: one mistake, not two. n: bytes of the opening one.
static bool report_quoted(Lexer *lexer, const char *c, size_t n) {
  bool single = *c == '\'', typographic = n == 3 && (memcmp(c, "\u201c", 3) == 0 || memcmp(c, "\u2018", 3) == 0);
  if (!single && !typographic) return false;
  size_t left = lexer->source->length - lexer->at, end = n;
  for (; end < left && c[end] != '\n'; end++) {
    if (single && c[end] == '\'') break;
    if (typographic && end + 3 <= left && (memcmp(c + end, "\u201d", 3) == 0 || memcmp(c + end, "\u2019", 3) == 0))
      break;
  }
  if (end >= left || c[end] == '\n') return false;
  diag_error(lexer->diagnostics, position(lexer, lexer->at, end + n), "strings are written with double quotes");
  size_t inside = end - n;
  bool plain = inside <= 40 && !memchr(c + n, '"', inside) && !memchr(c + n, '\\', inside);
  for (size_t i = n; plain && i < end; i++) plain = (unsigned char)c[i] >= 0x20 && (unsigned char)c[i] < 0x7f;
  if (plain) diag_hint(lexer->diagnostics, "write \"%.*s\"", (int)inside, c + n);
  lexer->at += end + n;
  return true;
}

// Skips a run of bytes that begin no token, with one message.
static void report_unexpected(Lexer *lexer) {
  const char *c = here(lexer);
  size_t left = lexer->source->length - lexer->at, n = utf8_character(c, left);
  if (n == 0 || (unsigned char)*c < 0x20 || *c == 0x7f) {
    size_t run = 1;
    while (run < left && c[run] != '\n' && c[run] != '\t' &&
           ((unsigned char)c[run] < 0x20 || utf8_character(c + run, left - run) == 0))
      run++;
    AstPos pos = position(lexer, lexer->at, run);
    if (n == 0) diag_error(lexer->diagnostics, pos, "the byte 0x%02x is not UTF-8 text", (unsigned char)*c);
    else diag_error(lexer->diagnostics, pos, "unexpected control character 0x%02x", (unsigned char)*c);
    lexer->at += run;
    return;
  }
  if (report_quoted(lexer, c, n)) return;
  while ((*c == '&' || *c == '|') && n < left && c[n] == *c) n++;   // && and || are one mistake
  diag_error(lexer->diagnostics, position(lexer, lexer->at, n), "unexpected '%.*s'", n > 40 ? 40 : (int)n, c);
  for (size_t i = 0; i < COUNT(lookalikes); i++)
    if (strlen(lookalikes[i].found) == n && memcmp(lookalikes[i].found, c, n) == 0)
      diag_hint(lexer->diagnostics, "write %s", lookalikes[i].meant);
  if (*c == '\'') diag_hint(lexer->diagnostics, "strings are written with double quotes");
  if (*c == '!') diag_hint(lexer->diagnostics, "write 'not' for the negation of a condition");
  if (*c == '&' || *c == '|') diag_hint(lexer->diagnostics, "conditions are joined with 'and' and 'or'");
  lexer->at += n;
}

static void skip_blanks(Lexer *lexer) {
  for (; !at_end(lexer); lexer->at++) {
    char c = *here(lexer);
    if (c == '#') {
      const char *newline = memchr(here(lexer), '\n', lexer->source->length - lexer->at);
      lexer->at = newline ? (size_t)(newline - lexer->source->text) : lexer->source->length;
      if (!newline) return;
      c = '\n';
    }
    if (c == '\n') {
      lexer->line++;
      lexer->line_start = lexer->at + 1;
      lexer->starts_line = true;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
  }
}

// --- Tokens

// digits := [0-9] { [0-9_] }
static const char *skip_digits(const char *c) {
  while (is_digit(*c) || *c == '_') c++;
  return c;
}

// number := digits [ "." digits ] [ ("e" | "E") [ "+" | "-" ] digits ]
static void read_number(Lexer *lexer, Token *token) {
  const char *start = here(lexer), *c = skip_digits(start);
  bool is_float = false;
  if (*c == '.' && is_digit(c[1])) {
    c = skip_digits(c + 1);
    is_float = true;
  }
  if ((*c == 'e' || *c == 'E') && (is_digit(c[1]) || ((c[1] == '+' || c[1] == '-') && is_digit(c[2])))) {
    c = skip_digits(c + 2);
    is_float = true;
  }
  size_t length = (size_t)(c - start);
  token->kind = is_float ? TOKEN_FLOAT : TOKEN_INT;
  if (is_name(*c)) {
    while (is_name(*c)) c++;
    length = (size_t)(c - start);
    diag_error(lexer->diagnostics, position(lexer, lexer->at, length), "invalid number '%.*s'",
               length > 40 ? 40 : (int)length, start);
    token->kind = TOKEN_ERROR;
  } else if (*c == '.' && c[1] != '.' && !is_name_start(c[1])) {
    diag_error(lexer->diagnostics, position(lexer, lexer->at, length + 1), "a number does not end in '.'");
    diag_hint(lexer->diagnostics, "write %.*s.0", length > 40 ? 40 : (int)length, start);
    token->kind = TOKEN_ERROR;
    length++;
  }
  lexer->at += length;
  token->pos.length = (int)length;
  if (token->kind == TOKEN_ERROR) return;

  char *digits = pool_string(lexer->pool, start, length), *out = digits;
  for (const char *in = digits; *in; in++)
    if (*in != '_') *out++ = *in;
  *out = 0;
  errno = 0;
  if (is_float) token->number = strtod(digits, NULL);
  else token->integer = strtoll(digits, NULL, 10);
  // A denormal result also sets ERANGE; only overflow is a mistake.
  if (is_float ? isinf(token->number) : errno == ERANGE) {
    diag_error(lexer->diagnostics, token->pos,
               is_float ? "the number is too large for 64-bit floating point" : "the integer does not fit in 64 bits");
    token->kind = TOKEN_ERROR;
  }
}

// string := '"' { any character but '"', '\' and newline | "\" ( '"' | "\" | "n" | "t" ) } '"'
static void read_string(Lexer *lexer, Token *token) {
  size_t start = lexer->at, end = start + 1, length = 0;
  const char *text = lexer->source->text;
  while (end < lexer->source->length && text[end] != '"' && text[end] != '\n')
    end += text[end] == '\\' && end + 1 < lexer->source->length && text[end + 1] != '\n' ? 2 : 1;
  char *value = pool_alloc(lexer->pool, end - start);
  token->kind = TOKEN_STRING;
  token->text = value;
  for (size_t i = start + 1; i < end;) {
    size_t n = utf8_character(text + i, lexer->source->length - i);
    if (n == 0 || ((unsigned char)text[i] < 0x20 && text[i] != '\t' && text[i] != '\r') || text[i] == 0x7f) {
      diag_error(lexer->diagnostics, position(lexer, i, 1), "the byte 0x%02x cannot stand in a string",
                 (unsigned char)text[i]);
      token->kind = TOKEN_ERROR;
      break;
    }
    if (text[i] == '\\' && i + 1 < end) {
      static const char codes[] = "\"\\nt", meanings[] = "\"\\\n\t";
      const char *code = text[i + 1] ? strchr(codes, text[i + 1]) : NULL;
      if (!code) {
        diag_error(lexer->diagnostics, position(lexer, i, 2), "unknown escape in a string");
        diag_hint(lexer->diagnostics, "the escapes are \\\" \\\\ \\n \\t");
        token->kind = TOKEN_ERROR;
        break;
      }
      value[length++] = meanings[code - codes];
      i += 2;
      continue;
    }
    memcpy(value + length, text + i, n);
    length += n;
    i += n;
  }
  bool closed = end < lexer->source->length && text[end] == '"';
  if (!closed && token->kind == TOKEN_STRING) {
    diag_error(lexer->diagnostics, position(lexer, start, 1), "the string is not closed on its line");
    token->kind = TOKEN_ERROR;
  }
  lexer->at = closed ? end + 1 : end;
  token->pos.length = (int)(lexer->at - start);
}

// Names of functions, states and files are made of names, in buffers of a few hundred characters.
enum { MAX_NAME = 100 };

static void read_word(Lexer *lexer, Token *token) {
  const char *start = here(lexer);
  size_t length = 1;
  while (is_name(start[length])) length++;
  token->kind = TOKEN_NAME;
  token->text = pool_string(lexer->pool, start, length);
  token->pos.length = (int)length;
  for (size_t i = 0; i < COUNT(keywords); i++)
    if (strcmp(keywords[i].spelling, token->text) == 0) token->kind = keywords[i].kind;
  if (length > MAX_NAME) {
    diag_error(lexer->diagnostics, token->pos, "a name has at most %d characters, found %zu", MAX_NAME, length);
    token->kind = TOKEN_ERROR;
  }
  lexer->at += length;
}

static void read_punctuation(Lexer *lexer, Token *token) {
  for (size_t i = 0; i < COUNT(punctuation); i++) {
    size_t length = strlen(punctuation[i].spelling);
    if (strncmp(punctuation[i].spelling, here(lexer), length) != 0) continue;
    token->kind = punctuation[i].kind;
    token->pos.length = (int)length;
    lexer->at += length;
    return;
  }
  report_unexpected(lexer);
  token->kind = TOKEN_ERROR;
}

Token lexer_next(Lexer *lexer) {
  skip_blanks(lexer);
  Token token = {.kind = TOKEN_END, .starts_line = lexer->starts_line, .pos = position(lexer, lexer->at, 1)};
  lexer->starts_line = false;
  if (at_end(lexer) || diag_is_full(lexer->diagnostics)) return token;
  char c = *here(lexer);
  if (is_name_start(c)) read_word(lexer, &token);
  else if (is_digit(c)) read_number(lexer, &token);
  else if (c == '"') read_string(lexer, &token);
  else read_punctuation(lexer, &token);
  return token;
}
