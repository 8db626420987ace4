// How a reader reports a mistake in its input. Every function that can fail on bad input takes an InputError to fill;
// the caller prints it. Mistakes of our own are assertions.
#ifndef NNC_SUPPORT_INPUT_ERROR_H
#define NNC_SUPPORT_INPUT_ERROR_H

#include <stdbool.h>
#include <stddef.h>

typedef struct InputError {
  int line, column;    // 1-based place in the text that was read; 0 when the error is not about a text
  char message[240];   // one sentence, no newline, no full stop
} InputError;

// Fills `error` (which may be NULL) without a place and returns false, so that `return input_fail(...)` reads well.
__attribute__((format(printf, 2, 3))) bool input_fail(InputError *error, const char *format, ...);

// The same with a place in the text.
__attribute__((format(printf, 4, 5))) bool input_fail_at(InputError *error, int line, int column, const char *format,
                                                         ...);

#endif
