// A growable text buffer: kernels, tables and diagnostics are written into it piece by piece.
#ifndef NNC_SUPPORT_TEXT_H
#define NNC_SUPPORT_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Text {
  char *data;   // Owned; NUL-terminated; NULL while empty
  size_t size, capacity;
} Text;

void text_add(Text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_addv(Text *t, const char *format, va_list args);
void text_append(Text *t, const char *data, size_t size);
void text_add_integer(Text *t, int64_t number);   // as %lld, where there are many
// A C string literal, quoted and escaped.
void text_quoted(Text *t, const char *s);
const char *text_c_string(const Text *t);   // "" while empty
void text_free(Text *t);
// Bytes of the UTF-8 character at text, 0 when there is no valid one in the `left` bytes.
int utf8_length(const char *text, size_t left);
// The formatted text as a string of its own. Owned: free().
char *text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
