// Growable text and checked allocation for the code generator.
#include "codegen/kernel/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void out_of_memory(void) {
  fputs("nnc: out of memory\n", stderr);
  exit(70);
}

void host_require(bool condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "nnc: internal error in code generation: %s\n", what);
  exit(70);
}

void *host_alloc(size_t n, size_t size) {
  void *p = calloc(n ? n : 1, size ? size : 1);
  if (!p) out_of_memory();
  return p;
}

void *host_grow(void *old, size_t n, size_t size) {
  if (size && n > (size_t)-1 / size) out_of_memory();
  void *p = realloc(old, n && size ? n * size : 1);
  if (!p) out_of_memory();
  return p;
}

char *host_strdup(const char *s) {
  size_t n = strlen(s) + 1;
  return memcpy(host_alloc(n, 1), s, n);
}

static void text_reserve(Text *t, size_t more) {
  if (t->capacity - t->size > more) return;
  size_t capacity = t->capacity ? t->capacity : 256;
  while (capacity - t->size <= more) capacity *= 2;
  t->data = host_grow(t->data, capacity, 1);
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
  if (n < 0) out_of_memory();
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
