// Sources and diagnostics: every message to the user about his program goes through here, with file, line, column, the source
// line and a caret. Errors are counted; past a limit they are only counted.
#ifndef NNC_COMPILER_DIAGNOSTICS_H
#define NNC_COMPILER_DIAGNOSTICS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "compiler/ast.h"

// A source text in memory. name is what messages show ("<stdin>" for -).
typedef struct Source { char *name; char *text; size_t size; struct Source *next; } Source;

// Reads a file ("-": standard input). NULL after reporting: missing, a directory, larger than 64 MiB, holding NUL bytes. Owned by the
// diagnostics (sources must outlive every message): freed by diag_finish.
Source *source_read(const char *path);
Source *source_find(const char *name);     // by name, among those read; for locations that come back from MLIR

typedef enum DiagColor { DIAG_COLOR_AUTO, DIAG_COLOR_ALWAYS, DIAG_COLOR_NEVER } DiagColor;
void diag_set_color(DiagColor color);
void diag_set_limit(int errors);           // 20 unless set
// AstPos with source NULL: no place is shown.
void diag_error(AstPos pos, const char *format, ...) __attribute__((format(printf, 2, 3)));
void diag_verror(AstPos pos, const char *format, va_list args);
void diag_warning(AstPos pos, const char *format, ...) __attribute__((format(printf, 2, 3)));
void diag_note(AstPos pos, const char *format, ...) __attribute__((format(printf, 2, 3)));    // belongs to the last error
void diag_hint(const char *format, ...) __attribute__((format(printf, 1, 2)));                // belongs to the last error
int diag_errors(void);
void diag_finish(void);                    // says how many errors were not shown; frees the sources

#endif
