// See input_error.h.
#include "support/input_error.h"

#include <stdarg.h>
#include <stdio.h>

static bool fail_with(InputError *error, int line, int column, const char *format, va_list arguments) {
  if (error) {
    error->line = line;
    error->column = column;
    vsnprintf(error->message, sizeof error->message, format, arguments);
  }
  return false;
}

bool input_fail(InputError *error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fail_with(error, 0, 0, format, arguments);
  va_end(arguments);
  return false;
}

bool input_fail_at(InputError *error, int line, int column, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fail_with(error, line, column, format, arguments);
  va_end(arguments);
  return false;
}
