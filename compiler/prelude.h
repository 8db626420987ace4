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

// Where an item ends that begins at the margin: with the '}' that ends its first line, behind which is next, or begins
// another.
const char *prelude_item_end(const char *next);
const AstItem *prelude_parse(const char *file, const char *text, const char *end, const Source **source);

const LayerInfo *prelude_find(const char *name);   // NULL: there is none
int prelude_count(void);
const LayerInfo *prelude_at(int i);   // in the order of the texts

#endif
