// Reading JSON from memory, just enough for the header of a safetensors file: a cursor that takes one token at a time.
// Not support/json.h, which makes a tree of values with lines and columns: a header may have 100 MB and is one line,
// its checksum needs the byte at which a value stands, and nothing of it has to stay behind the token that is read.
#ifndef NNC_RUNTIME_JSON_H
#define NNC_RUNTIME_JSON_H

#include <stdbool.h>
#include <stdint.h>

typedef struct JsonCursor {
  const char *at, *end;
  const char *error;   // the first thing that was wrong, a static string; NULL: none
} JsonCursor;

bool json_take(JsonCursor *j, char c);            // skips blanks; true and moves on if the next character is c
bool json_expect(JsonCursor *j, char c);          // the same, but anything else is an error
char *json_string(JsonCursor *j);                 // Owned; NULL on error. Escapes are decoded to UTF-8
bool json_integer(JsonCursor *j, int64_t *out);   // a non-negative integer below 2^62
bool json_skip(JsonCursor *j, int depth);         // any value, nested at most depth deep

#endif
