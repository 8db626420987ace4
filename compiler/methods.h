// The optimizers and schedules of the library (compiler/library/optimizers.nn, schedules.nn), which are part of the
// compiler. Each is parsed when it is asked for.
#ifndef NNC_COMPILER_METHODS_H
#define NNC_COMPILER_METHODS_H

#include "compiler/ast.h"

const AstItem *method_find(AstItemKind kind, const char *name);   // NULL: there is none
const AstItem *method_at(AstItemKind kind, int i);                // in the order of the text; NULL behind the last

#endif
