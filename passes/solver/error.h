// error.h: how the solver folder reports a mistake in its input. Every function that can fail on bad input takes a
// SolverError to fill; the caller prints it. Mistakes of our own are assertions, and running out of memory aborts.
#ifndef NNC_SOLVER_ERROR_H
#define NNC_SOLVER_ERROR_H

#include <stdbool.h>
#include <stddef.h>

typedef struct SolverError {
  int line, column;    // 1-based place in the text that was read; 0 when the error is not about a text
  char message[240];   // one sentence, no newline, no full stop
} SolverError;

// Fills `error` (which may be NULL) without a place and returns false, so that `return solver_fail(...)` reads well.
__attribute__((format(printf, 2, 3))) bool solver_fail(SolverError *error, const char *format, ...);

// The same with a place in the text.
__attribute__((format(printf, 4, 5))) bool solver_fail_at(SolverError *error, int line, int column, const char *format,
                                                          ...);

// calloc and realloc of `count` items of `size` bytes that abort the process instead of returning NULL, also when
// count * size overflows. A count of 0 gives a valid pointer. The result is Owned by the caller (free).
void *solver_allocate(size_t count, size_t size);
void *solver_reallocate(void *memory, size_t count, size_t size);

#endif
