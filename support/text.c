// See text.h.
#include "support/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/alloc.h"

static void text_reserve(Text *t, size_t more) {
  if (t->capacity - t->size > more) return;
  size_t capacity = t->capacity ? t->capacity : 256;
  while (capacity - t->size <= more) capacity *= 2;
  t->data = reallocate_array(t->data, capacity, 1);
  t->capacity = capacity;
}

void text_append(Text *t, const char *data, size_t size) {
  if (!size) return;
  text_reserve(t, size);
  memcpy(t->data + t->size, data, size);
  t->size += size;
  t->data[t->size] = 0;
}

void text_addv(Text *t, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  text_reserve(t, 128);
  int n = vsnprintf(t->data + t->size, t->capacity - t->size, format, args);
  require_promise(n >= 0, "a format that printf does not take");
  if ((size_t)n >= t->capacity - t->size) {
    text_reserve(t, (size_t)n);
    vsnprintf(t->data + t->size, t->capacity - t->size, format, again);
  }
  va_end(again);
  t->size += (size_t)n;
}

void text_add(Text *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  text_addv(t, format, args);
  va_end(args);
}

void text_add_integer(Text *t, int64_t number) {
  char digits[20], *end = digits + sizeof digits, *s = end;
  uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
  do *--s = (char)('0' + rest % 10);
  while (rest /= 10);
  if (number < 0) *--s = '-';
  text_append(t, s, (size_t)(end - s));
}

void text_quoted(Text *t, const char *s) {
  text_add(t, "\"");
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\') text_add(t, "\\%c", c);
    else if (c < 32 || c >= 127 || c == '?') text_add(t, "\\%03o", c);
    else text_append(t, s, 1);
  }
  text_add(t, "\"");
}

const char *text_c_string(const Text *t) { return t->data ? t->data : ""; }

void text_free(Text *t) {
  free(t->data);
  *t = (Text){0};
}

char *text_format(const char *format, ...) {
  Text t = {0};
  va_list args;
  va_start(args, format);
  text_addv(&t, format, args);
  va_end(args);
  return t.data;
}

int utf8_length(const char *text, size_t left) {
  const unsigned char *c = (const unsigned char *)text;
  if (left == 0) return 0;
  int n = c[0] < 0x80                   ? 1
          : c[0] >= 0xc2 && c[0] < 0xe0 ? 2
          : c[0] >= 0xe0 && c[0] < 0xf0 ? 3
          : c[0] >= 0xf0 && c[0] < 0xf5 ? 4
                                        : 0;
  if (n == 0 || (size_t)n > left) return 0;
  for (int i = 1; i < n; i++)
    if ((c[i] & 0xc0) != 0x80) return 0;
  return n;
}
