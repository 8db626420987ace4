// Memory of one compilation, given back at once: allocations are never freed alone.
#ifndef NNC_COMPILER_POOL_H
#define NNC_COMPILER_POOL_H

#include <stddef.h>

typedef struct Pool Pool;
Pool *pool_create(void);                     // Owned: pool_free
void pool_free(Pool *pool);                  // NULL is fine
void *pool_alloc(Pool *pool, size_t size);   // zeroed, aligned for any type; exits when memory is out
char *pool_string(Pool *pool, const char *text, size_t length);   // copy, NUL-terminated
// Room for one more at the end of a growing array of n items, which only this function may have grown from NULL.
// Returns the array, perhaps moved.
void *pool_append(Pool *pool, void *items, int n, size_t item_size);

#endif
