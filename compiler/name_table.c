// Open addressing with linear probing; name_table.h.
#include "compiler/name_table.h"

#include <string.h>

// FNV-1a.
static unsigned hash(const char *s) {
  unsigned h = 2166136261u;
  for (; *s; s++) h = (h ^ (unsigned char)*s) * 16777619u;
  return h;
}

static NameEntry *place_of(const NameTable *t, const char *name) {
  unsigned mask = (unsigned)t->capacity - 1, i = hash(name) & mask;
  while (t->entries[i].name && strcmp(t->entries[i].name, name) != 0) i = (i + 1) & mask;
  return &t->entries[i];
}

static void grow(Pool *pool, NameTable *t) {
  NameTable larger = {.n = t->n, .capacity = t->capacity ? 2 * t->capacity : 32};
  larger.entries = pool_alloc(pool, sizeof *larger.entries * (size_t)larger.capacity);
  for (int i = 0; i < t->capacity; i++)
    if (t->entries[i].name) *place_of(&larger, t->entries[i].name) = t->entries[i];
  *t = larger;
}

void name_table_set(Pool *pool, NameTable *t, const char *name, int value) {
  if (2 * t->n >= t->capacity) grow(pool, t);
  NameEntry *entry = place_of(t, name);
  if (!entry->name) t->n++;
  *entry = (NameEntry){name, value};
}

int name_table_get(const NameTable *t, const char *name) {
  const NameEntry *entry = t->n ? place_of(t, name) : NULL;
  return entry && entry->name ? entry->value : -1;
}
