// json.h: a small strict reader of JSON (RFC 8259) into a tree, for problems, schedules and whatever else the project
// reads. Any input ends in a tree or in an error with line and column; nesting is limited.
#ifndef NNC_SOLVER_JSON_H
#define NNC_SOLVER_JSON_H

#include <stdint.h>
#include <stdio.h>

#include "support/alloc.h"
#include "support/input_error.h"

typedef enum JsonType { JSON_NULL, JSON_BOOLEAN, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } JsonType;

// A value inside a document. All pointers are Borrowed from the document.
typedef struct JsonValue {
  JsonType type;
  int line, column;   // where it starts, 1-based; columns count characters
  bool boolean;       // JSON_BOOLEAN
  bool is_integer;    // JSON_NUMBER without fraction or exponent that fits `integer`
  double number;      // JSON_NUMBER, always finite
  int64_t integer;
  const char *string;        // JSON_STRING, UTF-8, NUL-terminated (may also contain NULs: see length)
  size_t length;             // bytes of `string`
  const char *key;           // name of this member when the parent is an object, else NULL
  int n;                     // number of elements or members
  struct JsonValue *first;   // first element or member
  struct JsonValue *next;    // next element or member of the parent
} JsonValue;

typedef struct JsonDocument JsonDocument;   // owns every value and string of a tree

// Parses all of `text` (`length` bytes, not retained). Owned by the caller (json_destroy); NULL and `error` on bad
// input.
JsonDocument *json_parse(const char *text, size_t length, InputError *error);
void json_destroy(JsonDocument *document);

// The value the text consists of.
const JsonValue *json_root(const JsonDocument *document);

// The member of `object` named `key`; the last one when the name repeats; NULL when missing or not an object.
const JsonValue *json_get(const JsonValue *object, const char *key);

// A member of `object` whose name an earlier member has too; NULL when there is none or it is not an object.
const JsonValue *json_find_repeat(const JsonValue *object);

// "null", "a boolean", "a number", "a string", "an array", "an object": for messages.
const char *json_type_name(JsonType type);

// Writes `string` (NUL-terminated) in quotes with escapes; what is not UTF-8 becomes U+FFFD.
void json_write_string(FILE *file, const char *string);

#endif
