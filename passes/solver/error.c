// error.c: filling a SolverError, and allocation that cannot fail.
#include "error.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static bool fail_with(SolverError *error, int line, int column, const char *format, va_list arguments) {
  if (error) {
    error->line = line;
    error->column = column;
    vsnprintf(error->message, sizeof error->message, format, arguments);
  }
  return false;
}

bool solver_fail(SolverError *error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fail_with(error, 0, 0, format, arguments);
  va_end(arguments);
  return false;
}

bool solver_fail_at(SolverError *error, int line, int column, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fail_with(error, line, column, format, arguments);
  va_end(arguments);
  return false;
}

static _Noreturn void die_out_of_memory(void) {
  fputs("out of memory\n", stderr);
  abort();
}

void *solver_allocate(size_t count, size_t size) {
  void *memory = calloc(count ? count : 1, size ? size : 1);
  if (!memory) die_out_of_memory();
  return memory;
}

void *solver_reallocate(void *memory, size_t count, size_t size) {
  if (size && count > SIZE_MAX / size) die_out_of_memory();
  void *grown = realloc(memory, count && size ? count * size : 1);
  if (!grown) die_out_of_memory();
  return grown;
}
