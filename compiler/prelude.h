// The functions of the language that are written in it: compiler/library/*.nn, which are part of the compiler. Of the
// texts only names are looked for at first; a function is parsed when it is used.
#ifndef NNC_COMPILER_PRELUDE_H
#define NNC_COMPILER_PRELUDE_H

#include "compiler/elaborate.h"

typedef struct PreludeText {
  const char *file, *text;
  size_t length;
} PreludeText;
extern const PreludeText prelude_texts[];   // file NULL ends it; made by cmake/embed.cmake

const LayerInfo *prelude_find(const char *name);   // NULL: there is none
int prelude_count(void);
const LayerInfo *prelude_at(int i);   // in the order of the texts

#endif
