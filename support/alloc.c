// See alloc.h.
#include "support/alloc.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void end_out_of_memory(void) {
  fputs("nnc: out of memory\n", stderr);
  exit(70);
}

void *allocate_array(size_t count, size_t size) {
  void *memory = calloc(count ? count : 1, size ? size : 1);
  if (!memory) end_out_of_memory();
  return memory;
}

void *reallocate_array(void *old, size_t count, size_t size) {
  if (size && count > SIZE_MAX / size) end_out_of_memory();
  void *grown = realloc(old, count && size ? count * size : 1);
  if (!grown) end_out_of_memory();
  return grown;
}

void *array_with_room(void *items, size_t n, size_t size) {
  enum { FIRST = 8 };
  bool is_full = n == 0 || (n >= FIRST && (n & (n - 1)) == 0);
  return is_full ? reallocate_array(items, n ? 2 * n : FIRST, size) : items;
}

char *copy_string(const char *text) {
  size_t size = strlen(text) + 1;
  return memcpy(allocate_array(size, 1), text, size);
}

void require_promise(bool condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "nnc: internal error in code generation: %s\n", what);
  exit(70);
}
