// The one layout of .nn text: what `nnc fmt` writes.
#ifndef NNC_COMPILER_FORMAT_H
#define NNC_COMPILER_FORMAT_H

#include <stddef.h>

#include "compiler/diagnostics.h"

// The text of a source in the canonical layout; docs/tools.md has the rules. Comments and line breaks stay, spaces,
// indentation and blank lines are made anew. Owned: free(). NULL after reporting the mistakes of a source that does not
// parse.
char *format_source(Diagnostics *d, const Source *source, size_t *length);
// Whether two texts are the same program: the same tokens but for semicolons at line ends, and the same tree. Both must
// parse.
bool format_same_program(const Source *before, const Source *after);

#endif
