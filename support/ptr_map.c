// Open addressing with linear probing over a multiplicative hash of the address.
#include "support/ptr_map.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "support/alloc.h"

static size_t slot_of(const PtrMap *map, const void *key) {
  uint64_t hash = (uint64_t)(uintptr_t)key * 0x9E3779B97F4A7C15u;
  size_t i = (size_t)(hash >> 20) & (map->capacity - 1);
  while (map->keys[i] && map->keys[i] != key) i = (i + 1) & (map->capacity - 1);
  return i;
}

static void grow(PtrMap *map) {
  PtrMap old = *map;
  map->capacity = old.capacity ? 2 * old.capacity : 64;
  map->keys = allocate_array(map->capacity, sizeof *map->keys);
  map->values = allocate_array(map->capacity, sizeof *map->values);
  for (size_t i = 0; i < old.capacity; i++) {
    if (!old.keys[i]) continue;
    size_t at = slot_of(map, old.keys[i]);
    map->keys[at] = old.keys[i];
    map->values[at] = old.values[i];
  }
  free(old.keys);
  free(old.values);
}

void ptr_map_set(PtrMap *map, const void *key, int value) {
  assert(key && value >= 0);
  if (2 * (map->n + 1) > map->capacity) grow(map);
  size_t at = slot_of(map, key);
  if (!map->keys[at]) {
    map->keys[at] = key;
    map->n++;
  }
  map->values[at] = value;
}

int ptr_map_get(const PtrMap *map, const void *key) {
  if (!map->capacity) return -1;
  size_t at = slot_of(map, key);
  return map->keys[at] ? map->values[at] : -1;
}

void ptr_map_clear(PtrMap *map) {
  if (map->capacity) memset(map->keys, 0, map->capacity * sizeof *map->keys);
  map->n = 0;
}

void ptr_map_free(PtrMap *map) {
  free(map->keys);
  free(map->values);
  *map = (PtrMap){0};
}
