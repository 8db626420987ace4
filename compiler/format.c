// The one layout of .nn text. It is made from the tokens, not from the tree, so that comments, the spelling of numbers
// and the author's choice of lines stay; between two tokens of a line the pair alone decides the space, and brackets
// alone decide the indentation.
#include "compiler/format.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/ast.h"
#include "compiler/lexer.h"
#include "compiler/pool.h"

#define INDENT 4   // columns of a level, and of a line that goes on
#define SETTING_WIDTH \
  9   // of the first word of a line of train ("optimizer"), so that what follows stands in one column

// A token with what the layout needs to know of its surroundings.
typedef struct Piece {
  Token token;
  const char *text;   // Borrowed from the source
  size_t length;
  int match;     // of a bracket: the other one, -1: none
  int inside;    // the innermost open bracket, -1: none
  bool breaks;   // first of its line in the layout
  bool tall;     // of '{' and '}': the body has more than one line
  bool unary;    // '-' of one operand
  bool starts_statement, in_train;
  bool is_setting;   // the keyword of a setting
  bool tight;        // '=' without spaces
} Piece;

typedef struct Layout {
  const Source *source;
  Pool *pool;
  Piece *pieces;
  int n;
  FILE *out;
  int column;   // characters written in this line
} Layout;

// --- Tokens

static size_t offset_of(const Source *source, AstPos pos) {
  return source->line_start[pos.line - 1] + (size_t)pos.column - 1;
}

static void read_pieces(Layout *l, Diagnostics *d) {
  Lexer lexer;
  lexer_start(&lexer, l->source, d, l->pool);
  for (Token t = lexer_next(&lexer); t.kind != TOKEN_END; t = lexer_next(&lexer)) {
    l->pieces = pool_append(l->pool, l->pieces, l->n, sizeof *l->pieces);
    l->pieces[l->n++] = (Piece){.token = t,
                                .text = l->source->text + offset_of(l->source, t.pos),
                                .length = lexer.at - offset_of(l->source, t.pos),
                                .match = -1,
                                .inside = -1};
  }
}

static bool opens(TokenKind kind) { return kind == TOKEN_LPAREN || kind == TOKEN_LBRACKET || kind == TOKEN_LBRACE; }
static bool closes(TokenKind kind) { return kind == TOKEN_RPAREN || kind == TOKEN_RBRACKET || kind == TOKEN_RBRACE; }
static TokenKind kind_at(const Layout *l, int i) { return i >= 0 && i < l->n ? l->pieces[i].token.kind : TOKEN_END; }
static bool in_body(const Layout *l, int i) {
  return l->pieces[i].inside < 0 || kind_at(l, l->pieces[i].inside) == TOKEN_LBRACE;
}

// Whether an operand stands before: then '-' has two operands and '[' is an index.
static bool ends_operand(TokenKind kind) {
  return kind == TOKEN_NAME || kind == TOKEN_INT || kind == TOKEN_FLOAT || kind == TOKEN_STRING || kind == TOKEN_TRUE ||
         kind == TOKEN_FALSE || kind == TOKEN_RPAREN || kind == TOKEN_RBRACKET || kind == TOKEN_RBRACE;
}

// What lies between piece i-1 and piece i (i may be n): comments and blank lines.
static size_t gap(const Layout *l, int i, const char **text) {
  const char *start = i > 0 ? l->pieces[i - 1].text + l->pieces[i - 1].length : l->source->text;
  const char *end = i < l->n ? l->pieces[i].text : l->source->text + l->source->length;
  if (i == 0 && l->source->length >= 3 && memcmp(start, "\xef\xbb\xbf", 3) == 0) start += 3;
  *text = start;
  return (size_t)(end - start);
}

static bool has_comment(const Layout *l, int i) {
  const char *text;
  size_t length = gap(l, i, &text);
  return memchr(text, '#', length) != NULL;
}

// --- What the pieces are

static void match_brackets(Layout *l) {
  for (int i = 0, open = -1; i < l->n; i++) {
    Piece *p = &l->pieces[i];
    if (closes(p->token.kind) && open >= 0) {
      p->match = open;
      l->pieces[open].match = i;
      open = l->pieces[open].inside;
    }
    p->inside = open;
    if (opens(p->token.kind)) open = i;
  }
}

// A semicolon at either end of a line, or before '}', says nothing.
static void drop_semicolons(Layout *l) {
  int n = 0;
  for (int i = 0; i < l->n; i++) {
    bool last = i + 1 == l->n || l->pieces[i + 1].token.starts_line || kind_at(l, i + 1) == TOKEN_RBRACE ||
                kind_at(l, i + 1) == TOKEN_SEMICOLON;
    bool first = l->pieces[i].token.starts_line || (n > 0 ? l->pieces[n - 1].token.kind == TOKEN_LBRACE : true);
    if (kind_at(l, i) == TOKEN_SEMICOLON && (first || last)) {
      if (i + 1 < l->n && l->pieces[i].token.starts_line) l->pieces[i + 1].token.starts_line = true;
    } else {
      l->pieces[n++] = l->pieces[i];
    }
  }
  l->n = n;
}

// The last piece of what stands on the line of '{': itself, or the names of a scan up to '->'.
static int end_of_head(const Layout *l, int open) {
  int i = open + 1;
  while (kind_at(l, i) == TOKEN_NAME || kind_at(l, i) == TOKEN_COMMA || kind_at(l, i) == TOKEN_LPAREN ||
         kind_at(l, i) == TOKEN_RPAREN)
    i++;
  return kind_at(l, i) == TOKEN_ARROW ? i : open;
}

static void find_lines(Layout *l) {
  for (int i = 0; i < l->n; i++) l->pieces[i].breaks = i == 0 || l->pieces[i].token.starts_line;
  // '{' and 'else' stand on the line of what they belong to.
  for (int i = 1; i < l->n; i++) {
    bool joins = kind_at(l, i) == TOKEN_LBRACE || (kind_at(l, i) == TOKEN_ELSE && kind_at(l, i - 1) == TOKEN_RBRACE);
    if (joins && !has_comment(l, i)) l->pieces[i].breaks = false;
  }
  // A body with a line break has its braces at the ends of lines of their own. From the inside out: an inner body makes
  // the outer one tall.
  for (int i = l->n - 1; i >= 0; i--) {
    Piece *open = &l->pieces[i];
    if (open->token.kind != TOKEN_LBRACE) continue;
    bool tall = has_comment(l, open->match);
    int first = end_of_head(l, i) + 1;
    for (int k = i + 1; k < first; k++) l->pieces[k].breaks = has_comment(l, k);
    for (int k = i + 1; k <= open->match && !tall; k++) tall = l->pieces[k].breaks || has_comment(l, k);
    if (open->match == i + 1 && !has_comment(l, i + 1)) tall = false;
    open->tall = l->pieces[open->match].tall = tall;
    if (tall) l->pieces[first].breaks = l->pieces[open->match].breaks = true;
    else l->pieces[open->match].breaks = false;
  }
}

// `phase critic {`
static bool is_phase(const Layout *l, int i) {
  return strcmp(l->pieces[i].token.text, "phase") == 0 && kind_at(l, i + 1) == TOKEN_NAME &&
         kind_at(l, i + 2) == TOKEN_LBRACE;
}

// Whether the lines in these braces are those of train: its own, and those of statements in it that have bodies. The
// bodies of a scan, and of an if that is a value, compute.
static bool has_settings(const Layout *l, int brace) {
  int i = brace - 1, outside = l->pieces[brace].inside;
  if (outside < 0) return kind_at(l, i) == TOKEN_TRAIN;
  while (i > outside && !l->pieces[i].starts_statement && kind_at(l, i) != TOKEN_ELSE)
    i = closes(kind_at(l, i)) && l->pieces[i].match >= 0 ? l->pieces[i].match - 1 : i - 1;
  if (kind_at(l, i) == TOKEN_ELSE) return l->pieces[i - 1].match >= 0 && has_settings(l, l->pieces[i - 1].match);
  bool of_statement = kind_at(l, i) == TOKEN_IF || kind_at(l, i) == TOKEN_FOR || kind_at(l, i) == TOKEN_REPEAT;
  return l->pieces[i].in_train && (of_statement || is_phase(l, i));
}

static void find_statements(Layout *l) {
  for (int i = 0; i < l->n; i++) {
    Piece *p = &l->pieces[i];
    TokenKind before = kind_at(l, i - 1);
    int open = p->inside;
    p->in_train = open >= 0 && kind_at(l, open) == TOKEN_LBRACE && has_settings(l, open);
    bool after_end = ends_operand(before) || before == TOKEN_SEMICOLON || before == TOKEN_LBRACE ||
                     before == TOKEN_ARROW || before == TOKEN_END;
    // The parser's rule (docs/language.md, "Lines"): after an operator a line goes on, as it does before |>.
    bool setting_alone = i > 0 && l->pieces[i - 1].is_setting;
    p->starts_statement = in_body(l, i) && p->token.kind != TOKEN_RBRACE && p->token.kind != TOKEN_PIPE &&
                          p->token.kind != TOKEN_LBRACE && p->token.kind != TOKEN_ELSE &&
                          (before == TOKEN_SEMICOLON || before == TOKEN_LBRACE || before == TOKEN_ARROW ||
                           before == TOKEN_END || (p->token.starts_line && (after_end || setting_alone)));
    if (p->starts_statement && p->in_train && p->token.kind == TOKEN_NAME)
      p->is_setting = kind_at(l, i + 1) != TOKEN_ASSIGN && kind_at(l, i + 1) != TOKEN_COMMA && !is_phase(l, i);
    if (p->token.kind == TOKEN_MINUS) p->unary = !ends_operand(before) || setting_alone || p->starts_statement;
  }
}

// '=' binds tightly in arguments: inside brackets, and after the first comma of a setting that reads no data.
static void find_assignments(Layout *l) {
  int statement = -1;
  bool comma = false;
  for (int i = 0; i < l->n; i++) {
    Piece *p = &l->pieces[i];
    if (p->starts_statement) {
      statement = i;
      comma = false;
    }
    if (!in_body(l, i)) {
      p->tight = true;
      continue;
    }
    if (p->token.kind == TOKEN_COMMA) comma = true;
    if (p->token.kind != TOKEN_ASSIGN || statement < 0 || !l->pieces[statement].is_setting) continue;
    const char *keyword = l->pieces[statement].token.text;
    p->tight = comma && strcmp(keyword, "data") != 0 && strcmp(keyword, "eval") != 0;
  }
}

// --- Spaces

static bool is_product(TokenKind kind) {
  return kind == TOKEN_STAR || kind == TOKEN_SLASH || kind == TOKEN_FLOORDIV || kind == TOKEN_PERCENT ||
         kind == TOKEN_POWER;
}

// 4*width, but sum(x) * y: products of names and numbers read as one word.
static bool product_is_tight(const Layout *l, int i) {
  TokenKind x = kind_at(l, i - 1), y = kind_at(l, i + 1), after = kind_at(l, i + 2);
  bool simple = (x == TOKEN_NAME || x == TOKEN_INT || x == TOKEN_FLOAT) &&
                (y == TOKEN_NAME || y == TOKEN_INT || y == TOKEN_FLOAT);
  return simple && (y != TOKEN_NAME || (after != TOKEN_LPAREN && after != TOKEN_LBRACKET));
}

// Whether a space stands between piece i-1 and piece i when both are on one line.
static bool space_before(const Layout *l, int i) {
  const Piece *p = &l->pieces[i], *q = &l->pieces[i - 1];
  TokenKind x = q->token.kind, y = p->token.kind;
  if (x == TOKEN_LBRACE || y == TOKEN_RBRACE || y == TOKEN_LBRACE) return true;
  if (y == TOKEN_COMMA || y == TOKEN_SEMICOLON || y == TOKEN_RPAREN || y == TOKEN_RBRACKET || x == TOKEN_LPAREN ||
      x == TOKEN_LBRACKET)
    return false;
  if (x == TOKEN_COMMA || x == TOKEN_SEMICOLON) return true;
  if (q->is_setting) return true;
  if (y == TOKEN_COLON) return false;
  if (x == TOKEN_COLON) return q->inside < 0 || kind_at(l, q->inside) != TOKEN_LBRACKET;   // a type, not a slice
  if (x == TOKEN_RANGE || y == TOKEN_RANGE) return false;
  if (x == TOKEN_MINUS && q->unary) return false;
  if (x == TOKEN_ASSIGN) return !q->tight;
  if (y == TOKEN_ASSIGN) return !p->tight;
  if (is_product(x)) return !product_is_tight(l, i - 1);
  if (is_product(y)) return !product_is_tight(l, i);
  if (y == TOKEN_LPAREN) return x != TOKEN_NAME;
  if (y == TOKEN_LBRACKET) return !ends_operand(x) || x == TOKEN_RBRACE;
  return true;
}

// --- Writing

static int characters(const char *text, size_t length) {
  int n = 0;
  for (size_t i = 0; i < length; i++) n += (text[i] & 0xc0) != 0x80;
  return n;
}

static void write_text(Layout *l, const char *text, size_t length) {
  fwrite(text, 1, length, l->out);
  l->column += characters(text, length);
}

static void write_spaces(Layout *l, int n) {
  for (int i = 0; i < n; i++) putc(' ', l->out);
  l->column += n > 0 ? n : 0;
}

static void end_line(Layout *l) {
  putc('\n', l->out);
  l->column = 0;
}

// Indentation of the line that begins with piece i. inner[b]: that of the lines inside bracket b; outer[b]: that of its
// closing line.
static int indent_of(const Layout *l, int i, const int *inner, const int *outer) {
  const Piece *p = &l->pieces[i];
  if (closes(p->token.kind) && p->match >= 0) return outer[p->match];
  int base = p->inside >= 0 ? inner[p->inside] : 0;
  bool goes_on = in_body(l, i) && !p->starts_statement && p->token.kind != TOKEN_ELSE && p->token.kind != TOKEN_LBRACE;
  return goes_on ? base + INDENT : base;
}

// The comments before piece i, and one blank line where there were some. A comment after code stays on its line.
static void write_gap(Layout *l, int i, int indent) {
  const char *text;
  size_t length = gap(l, i, &text);
  const char *end = text + length;
  bool first_of_body = i == 0 || (l->pieces[i - 1].token.kind == TOKEN_LBRACE && l->pieces[i - 1].tall);
  int newlines = i == 0;
  while (text < end) {
    const char *hash = memchr(text, '#', (size_t)(end - text)), *stop = hash ? hash : end;
    for (const char *c = text; c < stop; c++) newlines += *c == '\n';
    if (!hash) break;
    const char *close = memchr(hash, '\n', (size_t)(end - hash));
    if (!close) close = end;
    const char *last = close;
    while (last > hash && (last[-1] == ' ' || last[-1] == '\t' || last[-1] == '\r')) last--;
    if (newlines == 0) {
      write_text(l, "  ", 2);
    } else {
      if (l->column > 0) end_line(l);
      if (newlines > 1 && !first_of_body) end_line(l);
      write_spaces(l, indent);
    }
    write_text(l, hash, (size_t)(last - hash));
    end_line(l);
    first_of_body = false;
    newlines = close < end;
    text = close < end ? close + 1 : end;
  }
  if (i == l->n) {
    if (l->column > 0) end_line(l);
    return;
  }
  if (!l->pieces[i].breaks && l->column > 0) return;
  if (l->column > 0) end_line(l);
  bool last_of_body = l->pieces[i].token.kind == TOKEN_RBRACE;
  if (newlines > 1 && !first_of_body && !last_of_body) end_line(l);
}

static void write_pieces(Layout *l) {
  int *inner = pool_alloc(l->pool, sizeof *inner * (size_t)(l->n + 1)),
      *outer = pool_alloc(l->pool, sizeof *outer * (size_t)(l->n + 1));
  int line_indent = 0, statement_indent = 0;
  for (int i = 0; i < l->n; i++) {
    const Piece *p = &l->pieces[i];
    int indent = indent_of(l, i, inner, outer);
    // Comments before a closing bracket belong to what is inside.
    write_gap(l, i, closes(p->token.kind) && p->match >= 0 ? inner[p->match] : indent);
    if (l->column == 0) {
      write_spaces(l, line_indent = indent);
    } else if (space_before(l, i)) {
      const Piece *q = &l->pieces[i - 1];
      bool aligned = q->starts_statement && q->breaks && q->in_train && q->token.kind == TOKEN_NAME &&
                     (q->is_setting || p->token.kind == TOKEN_ASSIGN);
      int width = characters(q->text, q->length);
      write_spaces(l, aligned && width < SETTING_WIDTH ? SETTING_WIDTH - width + 1 : 1);
    }
    if (p->starts_statement) statement_indent = line_indent;
    write_text(l, p->text, p->length);
    if (!opens(p->token.kind)) continue;
    outer[i] = p->token.kind == TOKEN_LBRACE ? (in_body(l, i) ? statement_indent : line_indent) : line_indent;
    inner[i] = outer[i] + INDENT;
  }
  write_gap(l, l->n, 0);
}

// --- Comments in columns

// Strings end on their line, so that the first '#' outside of one begins the comment. length when there is none.
static size_t code_length(const char *text, size_t length) {
  bool in_string = false;
  for (size_t i = 0; i < length; i++) {
    if (in_string && text[i] == '\\') {
      i++;
      continue;
    }
    if (text[i] == '"') in_string = !in_string;
    if (text[i] == '#' && !in_string) return i;
  }
  return length;
}

// One line: all of it, what is before its comment, and that without the spaces at its end. Comments may hold any byte
// but a newline.
typedef struct Line {
  size_t length, code, own;
} Line;

static Line line_at(const char *text, size_t left) {
  const char *newline = memchr(text, '\n', left);
  Line line = {.length = newline ? (size_t)(newline - text) : left};
  line.own = line.code = code_length(text, line.length);
  while (line.own > 0 && text[line.own - 1] == ' ') line.own--;
  return line;
}

// Comments after code on lines that follow each other stand below each other.
static char *align_comments(const char *text, size_t length, size_t *aligned) {
  char *result = NULL;
  FILE *out = open_memstream(&result, aligned);
  if (!out) abort();
  for (size_t at = 0; at < length;) {
    size_t end = at;
    int widest = 0;
    while (end < length) {
      Line line = line_at(text + end, length - end);
      if (line.code == line.length || line.own == 0) break;
      int width = characters(text + end, line.own);
      widest = width > widest ? width : widest;
      end += line.length + 1;
    }
    bool alone = end == at;
    while (alone || at < end) {
      Line line = line_at(text + at, length - at);
      fwrite(text + at, 1, alone ? line.length : line.own, out);
      if (!alone) fprintf(out, "%*s", widest - characters(text + at, line.own) + 2, "");
      if (!alone) fwrite(text + at + line.code, 1, line.length - line.code, out);
      putc('\n', out);
      at += line.length + 1;
      if (alone) break;
    }
  }
  fclose(out);
  return result;
}

// --- Entry

char *format_source(Diagnostics *d, const Source *source, size_t *length) {
  AstFile *file = ast_parse_source(d, source, false);
  bool ok = diag_error_count(d) == 0;
  ast_free(file);
  if (!ok) return NULL;
  Layout l = {.source = source, .pool = pool_create()};
  read_pieces(&l, d);
  drop_semicolons(&l);
  match_brackets(&l);
  find_lines(&l);
  find_statements(&l);
  find_assignments(&l);
  char *text = NULL;
  size_t size;
  l.out = open_memstream(&text, &size);
  if (!l.out) abort();
  write_pieces(&l);
  fclose(l.out);
  pool_free(l.pool);
  char *aligned = align_comments(text, size, length);
  free(text);
  return aligned;
}

// The tokens one by one, without semicolons.
static bool same_tokens(const Source *before, const Source *after, Diagnostics *d) {
  Pool *pool = pool_create();
  Lexer x, y;
  lexer_start(&x, before, d, pool);
  lexer_start(&y, after, d, pool);
  bool same = true;
  for (bool more = true; more && same;) {
    Token s = lexer_next(&x), t = lexer_next(&y);
    while (s.kind == TOKEN_SEMICOLON) s = lexer_next(&x);
    while (t.kind == TOKEN_SEMICOLON) t = lexer_next(&y);
    size_t n = x.at - offset_of(before, s.pos);
    same = s.kind == t.kind && (s.kind == TOKEN_END || (n == y.at - offset_of(after, t.pos) &&
                                                        memcmp(before->text + offset_of(before, s.pos),
                                                               after->text + offset_of(after, t.pos), n) == 0));
    more = s.kind != TOKEN_END;
  }
  pool_free(pool);
  return same;
}

static char *tree_text(const Source *source, Diagnostics *d) {
  char *text = NULL;
  size_t length;
  FILE *out = open_memstream(&text, &length);
  if (!out) abort();
  AstFile *file = ast_parse_source(d, source, false);
  ast_print(out, file, false);
  ast_free(file);
  fclose(out);
  return text;
}

bool format_same_program(const Source *before, const Source *after) {
  char *said = NULL;
  size_t length;
  FILE *nowhere = open_memstream(&said, &length);
  if (!nowhere) abort();
  Diagnostics *d = diag_create(nowhere, DIAG_COLOR_NEVER, 0);
  char *x = tree_text(before, d), *y = tree_text(after, d);
  bool same = diag_error_count(d) == 0 && strcmp(x, y) == 0 && same_tokens(before, after, d);
  free(x);
  free(y);
  diag_free(d);
  fclose(nowhere);
  free(said);
  return same;
}
