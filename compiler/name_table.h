// Where in an array something of a name stands: a hash table beside the array, in the memory of a compilation.
#ifndef NNC_COMPILER_NAME_TABLE_H
#define NNC_COMPILER_NAME_TABLE_H

#include "compiler/pool.h"

typedef struct NameEntry {
  const char *name;   // NULL: free
  int value;
} NameEntry;
// Zero-initialise to create.
typedef struct NameTable {
  int n, capacity;   // 0 or a power of two, at most half full
  NameEntry *entries;
} NameTable;

// name is borrowed, and has to live as long as the table; replaces an older value
void name_table_set(Pool *pool, NameTable *t, const char *name, int value);
int name_table_get(const NameTable *t, const char *name);   // -1: absent

#endif
