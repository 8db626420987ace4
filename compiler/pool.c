// Memory of one compilation, given back at once: a list of blocks, each filled from the front.
#include "compiler/pool.h"

#include <stdlib.h>
#include <string.h>

#include "support/alloc.h"

#define BLOCK_BYTES 65536

typedef struct PoolBlock {
  struct PoolBlock *next;
  size_t used, size;
  _Alignas(max_align_t) char data[];
} PoolBlock;

struct Pool {
  PoolBlock *blocks;
};

Pool *pool_create(void) { return allocate_array(1, sizeof(Pool)); }

void pool_free(Pool *pool) {
  if (!pool) return;
  for (PoolBlock *block = pool->blocks, *next; block; block = next) {
    next = block->next;
    free(block);
  }
  free(pool);
}

void *pool_alloc(Pool *pool, size_t size) {
  const size_t align = _Alignof(max_align_t);
  size = (size + align - 1) / align * align;
  PoolBlock *block = pool->blocks;
  if (!block || block->size - block->used < size) {
    size_t room = size > BLOCK_BYTES ? size : BLOCK_BYTES;
    block = allocate_array(sizeof *block + room, 1);
    block->size = room;
    block->next = pool->blocks;
    pool->blocks = block;
  }
  void *p = block->data + block->used;
  block->used += size;
  return p;
}

char *pool_string(Pool *pool, const char *text, size_t length) {
  char *copy = pool_alloc(pool, length + 1);
  if (length > 0) memcpy(copy, text, length);
  return copy;
}

void *pool_append(Pool *pool, void *items, int n, size_t item_size) {
  // The capacity follows from n alone: 4, 8, 16 …
  if (n != 0 && (n < 4 || (n & (n - 1)) != 0)) return items;
  void *grown = pool_alloc(pool, (size_t)(n < 4 ? 4 : 2 * n) * item_size);
  if (n > 0) memcpy(grown, items, (size_t)n * item_size);
  return grown;
}
