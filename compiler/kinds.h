// What an argument of a function can be: the kinds of the signatures in layer.c, of compiler/library/*.nn and of
// blocks.
#ifndef NNC_COMPILER_KINDS_H
#define NNC_COMPILER_KINDS_H

#include "compiler/elaborate.h"

// The kind of that name, as a string that lives as long as the process; NULL: there is none.
const char *kind_find(const char *name);
const char *kind_meaning(const char *kind, size_t length);   // "an integer or two: 3, [3, 5]"
// Checks a value, converting where the language does (3 for 3.0). NULL when it fits, else what was expected.
const char *kind_convert(const char *kind, Value *v);

#endif
