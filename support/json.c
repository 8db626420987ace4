// json.c: recursive descent over the text, one function per production of the grammar; values and strings are carved
// from blocks that the document owns.
#include "support/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/text.h"

enum { MAX_DEPTH = 200, BLOCK_BYTES = 65536 };

typedef struct Block {
  struct Block *next;
  size_t used, capacity;
  _Alignas(16) char bytes[];
} Block;

struct JsonDocument {
  Block *blocks;
  JsonValue root;
};

typedef struct Parser {
  const char *text;
  size_t length, at;
  size_t line_start;      // offset of the first byte of the current line
  size_t continuations;   // UTF-8 continuation bytes since line_start, which take no column
  int line;
  int depth;
  JsonDocument *document;
  InputError *error;
} Parser;

static void *carve(JsonDocument *document, size_t bytes) {
  bytes = (bytes + 15) & ~(size_t)15;
  Block *block = document->blocks;
  if (!block || block->capacity - block->used < bytes) {
    size_t capacity = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    block = allocate_array(1, sizeof *block + capacity);
    block->capacity = capacity;
    block->next = document->blocks;
    document->blocks = block;
  }
  void *memory = block->bytes + block->used;
  block->used += bytes;
  return memory;
}

static int column_here(const Parser *parser) {
  return (int)(parser->at - parser->line_start - parser->continuations) + 1;
}

static bool fail_here(Parser *parser, const char *message) {
  return input_fail_at(parser->error, parser->line, column_here(parser), "%s", message);
}

// The byte at the cursor; NUL at the end of the text (a NUL inside the text is no token either).
static char peek(const Parser *parser) { return parser->at < parser->length ? parser->text[parser->at] : '\0'; }

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static void skip_space(Parser *parser) {
  for (; parser->at < parser->length; parser->at++) {
    char c = parser->text[parser->at];
    if (c == '\n') {
      parser->line++;
      parser->line_start = parser->at + 1;
      parser->continuations = 0;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
  }
}

static bool parse_value(Parser *parser, JsonValue *value);

// literal = "null" | "true" | "false"
static bool parse_literal(Parser *parser, JsonValue *value) {
  static const struct {
    const char *word;
    JsonType type;
    bool boolean;
  } words[] = {{"null", JSON_NULL, false}, {"true", JSON_BOOLEAN, true}, {"false", JSON_BOOLEAN, false}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    size_t length = strlen(words[i].word);
    if (parser->length - parser->at >= length && memcmp(parser->text + parser->at, words[i].word, length) == 0) {
      parser->at += length;
      value->type = words[i].type;
      value->boolean = words[i].boolean;
      return true;
    }
  }
  return fail_here(parser, parser->at < parser->length ? "expected a value" : "unexpected end of text");
}

// number = [ "-" ] ( "0" | digit1-9 *digit ) [ "." 1*digit ] [ ("e" | "E") [ "+" | "-" ] 1*digit ]
static bool parse_number(Parser *parser, JsonValue *value) {
  size_t start = parser->at;
  bool whole = true;
  if (peek(parser) == '-') parser->at++;
  if (!is_digit(peek(parser))) return fail_here(parser, "expected a digit");
  if (peek(parser) == '0' && parser->at + 1 < parser->length && is_digit(parser->text[parser->at + 1]))
    return fail_here(parser, "a number must not begin with 0");
  while (is_digit(peek(parser))) parser->at++;
  if (peek(parser) == '.') {
    whole = false;
    parser->at++;
    if (!is_digit(peek(parser))) return fail_here(parser, "expected a digit");
    while (is_digit(peek(parser))) parser->at++;
  }
  if (peek(parser) == 'e' || peek(parser) == 'E') {
    whole = false;
    parser->at++;
    if (peek(parser) == '+' || peek(parser) == '-') parser->at++;
    if (!is_digit(peek(parser))) return fail_here(parser, "expected a digit");
    while (is_digit(peek(parser))) parser->at++;
  }
  size_t length = parser->at - start;
  char *copy = allocate_array(length + 1, 1);
  memcpy(copy, parser->text + start, length);
  value->type = JSON_NUMBER;
  value->number = strtod(copy, NULL);
  free(copy);
  if (!isfinite(value->number)) {
    parser->at = start;
    return fail_here(parser, "number too large");
  }
  bool negative = parser->text[start] == '-';
  uint64_t magnitude = 0;
  for (size_t i = start + negative; whole && i < parser->at; i++) {
    uint64_t digit = (uint64_t)(parser->text[i] - '0');
    if (magnitude > ((uint64_t)INT64_MAX - digit) / 10) whole = false;
    magnitude = magnitude * 10 + digit;
  }
  value->is_integer = whole;
  if (whole) value->integer = negative ? -(int64_t)magnitude : (int64_t)magnitude;
  return true;
}

static bool parse_hex4(Parser *parser, unsigned *code) {
  *code = 0;
  for (int i = 0; i < 4; i++, parser->at++) {
    char c = peek(parser);
    unsigned digit;
    if (is_digit(c)) digit = (unsigned)(c - '0');
    else if (c >= 'a' && c <= 'f') digit = (unsigned)(c - 'a') + 10;
    else if (c >= 'A' && c <= 'F') digit = (unsigned)(c - 'A') + 10;
    else return fail_here(parser, "expected four hexadecimal digits");
    *code = *code * 16 + digit;
  }
  return true;
}

static size_t encode_utf8(unsigned code, char *out) {
  if (code < 0x80) {
    out[0] = (char)code;
    return 1;
  }
  if (code < 0x800) {
    out[0] = (char)(0xc0 | code >> 6);
    out[1] = (char)(0x80 | (code & 0x3f));
    return 2;
  }
  if (code < 0x10000) {
    out[0] = (char)(0xe0 | code >> 12);
    out[1] = (char)(0x80 | (code >> 6 & 0x3f));
    out[2] = (char)(0x80 | (code & 0x3f));
    return 3;
  }
  out[0] = (char)(0xf0 | code >> 18);
  out[1] = (char)(0x80 | (code >> 12 & 0x3f));
  out[2] = (char)(0x80 | (code >> 6 & 0x3f));
  out[3] = (char)(0x80 | (code & 0x3f));
  return 4;
}

// escape = "\" ( one of "\/bfnrt and the quote | "u" 4hex ), with surrogate pairs joined
static bool parse_escape(Parser *parser, char *out, size_t *used) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  parser->at++;
  char c = peek(parser);
  const char *found = c ? strchr(from, c) : NULL;
  if (found) {
    parser->at++;
    out[(*used)++] = to[found - from];
    return true;
  }
  if (c != 'u') return fail_here(parser, "unknown escape");
  parser->at++;
  unsigned code, low;
  if (!parse_hex4(parser, &code)) return false;
  if (code >= 0xd800 && code < 0xdc00) {
    if (parser->length - parser->at < 2 || memcmp(parser->text + parser->at, "\\u", 2) != 0)
      return fail_here(parser, "unpaired surrogate");
    parser->at += 2;
    if (!parse_hex4(parser, &low)) return false;
    if (low < 0xdc00 || low > 0xdfff) return fail_here(parser, "unpaired surrogate");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  } else if (code >= 0xdc00 && code <= 0xdfff) {
    return fail_here(parser, "unpaired surrogate");
  }
  *used += encode_utf8(code, out + *used);
  return true;
}

// string = quote *( character | escape ) quote
static bool parse_string(Parser *parser, const char **string, size_t *length) {
  size_t end = ++parser->at;
  while (end < parser->length && parser->text[end] != '"') end += parser->text[end] == '\\' ? 2 : 1;
  if (end >= parser->length) return fail_here(parser, "string without end");
  char *out = carve(parser->document, end - parser->at + 1);   // an escape is never shorter than what it stands for
  size_t used = 0;
  while (peek(parser) != '"') {
    char c = peek(parser);
    if ((unsigned char)c < 0x20) return fail_here(parser, "control character in a string");
    if (c == '\\') {
      if (!parse_escape(parser, out, &used)) return false;
      continue;
    }
    if (((unsigned char)c & 0xc0) == 0x80) parser->continuations++;
    out[used++] = c;
    parser->at++;
  }
  parser->at++;
  out[used] = '\0';
  *string = out;
  *length = used;
  return true;
}

// array = "[" [ value *( "," value ) ] "]"        object = "{" [ string ":" value *( "," string ":" value ) ] "}"
static bool parse_container(Parser *parser, JsonValue *value, bool is_object) {
  char close = is_object ? '}' : ']';
  value->type = is_object ? JSON_OBJECT : JSON_ARRAY;
  if (++parser->depth > MAX_DEPTH) return fail_here(parser, "nested too deeply");
  parser->at++;
  skip_space(parser);
  JsonValue **tail = &value->first;
  bool more = peek(parser) != close;
  while (more) {
    JsonValue *item = carve(parser->document, sizeof *item);
    size_t key_length;
    skip_space(parser);
    if (is_object) {
      if (peek(parser) != '"') return fail_here(parser, "expected a member name in quotes");
      if (!parse_string(parser, &item->key, &key_length)) return false;
      skip_space(parser);
      if (peek(parser) != ':') return fail_here(parser, "expected ':'");
      parser->at++;
    }
    if (!parse_value(parser, item)) return false;
    *tail = item;
    tail = &item->next;
    value->n++;
    skip_space(parser);
    more = peek(parser) == ',';
    if (!more && peek(parser) != close)
      return fail_here(parser, is_object ? "expected ',' or '}'" : "expected ',' or ']'");
    if (more) parser->at++;
  }
  parser->at++;
  parser->depth--;
  return true;
}

// value = literal | number | string | array | object
static bool parse_value(Parser *parser, JsonValue *value) {
  skip_space(parser);
  value->line = parser->line;
  value->column = column_here(parser);
  char c = peek(parser);
  if (c == '{' || c == '[') return parse_container(parser, value, c == '{');
  if (c == '"') {
    value->type = JSON_STRING;
    return parse_string(parser, &value->string, &value->length);
  }
  if (c == '-' || is_digit(c)) return parse_number(parser, value);
  return parse_literal(parser, value);
}

JsonDocument *json_parse(const char *text, size_t length, InputError *error) {
  JsonDocument *document = allocate_array(1, sizeof *document);
  Parser parser = {.text = text, .length = length, .line = 1, .document = document, .error = error};
  bool valid = parse_value(&parser, &document->root);
  if (valid) {
    skip_space(&parser);
    if (parser.at < length) valid = fail_here(&parser, "unexpected text after the value");
  }
  if (valid) return document;
  json_destroy(document);
  return NULL;
}

void json_destroy(JsonDocument *document) {
  if (!document) return;
  for (Block *block = document->blocks, *next; block; block = next) {
    next = block->next;
    free(block);
  }
  free(document);
}

const JsonValue *json_root(const JsonDocument *document) { return &document->root; }

const JsonValue *json_get(const JsonValue *object, const char *key) {
  const JsonValue *found = NULL;
  if (!object || object->type != JSON_OBJECT) return NULL;
  for (const JsonValue *member = object->first; member; member = member->next)
    if (strcmp(member->key, key) == 0) found = member;
  return found;
}

static int compare_members(const void *left, const void *right) {
  const JsonValue *a = *(const JsonValue *const *)left, *b = *(const JsonValue *const *)right;
  int order = strcmp(a->key, b->key);
  if (order != 0) return order;
  return a->line != b->line ? a->line - b->line : a->column - b->column;
}

const JsonValue *json_find_repeat(const JsonValue *object) {
  const JsonValue *found = NULL;
  if (!object || object->type != JSON_OBJECT) return NULL;
  if (object->n <= 16) {
    for (const JsonValue *a = object->first; a && !found; a = a->next)
      for (const JsonValue *b = a->next; b && !found; b = b->next)
        if (strcmp(a->key, b->key) == 0) found = b;
    return found;
  }
  const JsonValue **members = allocate_array((size_t)object->n, sizeof *members);
  int n = 0;
  for (const JsonValue *member = object->first; member; member = member->next) members[n++] = member;
  qsort(members, (size_t)n, sizeof *members, compare_members);
  for (int i = 1; i < n && !found; i++)
    if (strcmp(members[i - 1]->key, members[i]->key) == 0) found = members[i];
  free(members);
  return found;
}

const char *json_type_name(JsonType type) {
  static const char *const names[] = {"null", "a boolean", "a number", "a string", "an array", "an object"};
  return names[type];
}

void json_write_string(FILE *file, const char *string) {
  size_t left = strlen(string);
  putc('"', file);
  for (int n; left > 0; string += n, left -= (size_t)n) {
    int bytes = utf8_length(string, left);
    n = bytes ? bytes : 1;
    if (bytes == 0) fputs("\\ufffd", file);
    else if (*string == '"' || *string == '\\') fprintf(file, "\\%c", *string);
    else if ((unsigned char)*string < 0x20 || *string == 0x7f) fprintf(file, "\\u%04x", (unsigned char)*string);
    else fwrite(string, 1, (size_t)n, file);
  }
  putc('"', file);
}
