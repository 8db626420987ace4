// Messages to the user: file:line:column, severity, sentence, then the source line with a caret. Notes and hints belong
// to the message before them. One Diagnostics object lives for one run of the compiler and owns the sources its
// messages show.
//
//   lenet.nn:7:17: error: linear: 'features' must be an integer, found the string "10"
//       7 |     x |> linear("10")
//         |                 ^~~~
//         = hint: …
#ifndef NNC_COMPILER_DIAGNOSTICS_H
#define NNC_COMPILER_DIAGNOSTICS_H

#include <stdbool.h>
#include <stdio.h>

#include "mlir-c/IR.h"

#include "compiler/source.h"

// auto: when out is a terminal and NO_COLOR is unset
typedef enum DiagColor { DIAG_COLOR_AUTO, DIAG_COLOR_NEVER, DIAG_COLOR_ALWAYS } DiagColor;
#define DIAG_MAX_ERRORS 20
#define DIAG_COMMAND_LINE ((AstPos){0})   // the place of what has none in a source

typedef struct Diagnostics Diagnostics;
Diagnostics *diag_create(FILE *out, DiagColor color, int max_errors);   // max_errors 0: no limit. Owned: diag_free
// From now on messages are not printed but collected for diag_write_json.
void diag_collect_json(Diagnostics *d);
// Writes what was collected: objects joined by commas, one a line; *written counts those before, over several
// Diagnostics.
//   {"file": "a.nn", "line": 3, "column": 5, "end_column": 8, "severity": "error", "message": "…", "related": [ notes
//   and hints, as objects ]}
// Lines and columns count from 1, columns in characters; all three and the file are null for what has no place in a
// source.
void diag_write_json(Diagnostics *d, FILE *out, int *written);
void diag_free(Diagnostics *d);   // also the sources
// Takes ownership of s and returns it, so that messages (also MLIR's, by file name) can show its lines.
const Source *diag_add_source(Diagnostics *d, Source *s);

// Reports an error; always returns false, so that `return diag_error(…)` reads well. Messages start in lower case and
// have no full stop. After max_errors errors one line says so and everything later is dropped.
bool diag_error(Diagnostics *d, AstPos pos, const char *format, ...) __attribute__((format(printf, 3, 4)));
void diag_warning(Diagnostics *d, AstPos pos, const char *format, ...) __attribute__((format(printf, 3, 4)));
// To the message before: another place that matters ("N was bound here"), and advice without a place ("did you mean
// 'relu'?").
void diag_note(Diagnostics *d, AstPos pos, const char *format, ...) __attribute__((format(printf, 3, 4)));
void diag_hint(Diagnostics *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Between the two, messages wait, each with its notes and hints; then they come in the order of the lines, however they
// were found.
void diag_hold(Diagnostics *d);
void diag_release(Diagnostics *d);

int diag_error_count(const Diagnostics *d);
bool diag_is_full(const Diagnostics *d);   // the limit was reached: stop early

// Places as MLIR locations (file:line:column, columns in bytes) and back; what is not in a known source becomes
// DIAG_COMMAND_LINE.
MlirLocation diag_location(MlirContext ctx, AstPos pos);
AstPos diag_position(const Diagnostics *d, MlirLocation loc);
// From now on MLIR's own diagnostics on ctx (verifier, passes, nn_error) are printed here and counted.
void diag_attach(Diagnostics *d, MlirContext ctx);

#endif
