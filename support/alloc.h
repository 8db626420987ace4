// Allocation that cannot fail: where memory is out the process says so and ends with status 70. What is returned is
// Owned by the caller (free).
#ifndef NNC_SUPPORT_ALLOC_H
#define NNC_SUPPORT_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

// `count` items of `size` bytes, zeroed; also where count * size overflows memory is out. A count of 0 gives a valid
// pointer.
void *allocate_array(size_t count, size_t size);
// The same array with room for `count` items, perhaps moved; what is new is not set. old: NULL or from here.
void *reallocate_array(void *old, size_t count, size_t size);
char *copy_string(const char *text);

// A promise of an earlier pass that does not hold is a bug of the compiler: says so and ends the process with status
// 70, in every build.
void require_promise(bool condition, const char *what);

#endif
