// A hash map from pointers (handles of MLIR operations, values, attributes) to non-negative ints, to number what is
// walked over. Zero-initialise to create; iteration is not offered, so that nothing can depend on addresses.
#ifndef NNC_SUPPORT_PTR_MAP_H
#define NNC_SUPPORT_PTR_MAP_H

#include <stddef.h>

typedef struct PtrMap {
  size_t n, capacity;   // capacity is 0 or a power of two, at most half full
  const void **keys;    // Owned
  int *values;          // Owned
} PtrMap;

void ptr_map_set(PtrMap *map, const void *key, int value);   // key is not NULL; replaces an older value
int ptr_map_get(const PtrMap *map, const void *key);         // -1: absent
void ptr_map_clear(PtrMap *map);                             // forgets the keys, keeps the memory
void ptr_map_free(PtrMap *map);

#endif
