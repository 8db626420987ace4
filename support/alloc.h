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
// The array with room for an item behind the `n` it has, where all of them were added so: it doubles. n 0: items is
// NULL or has room.
void *array_with_room(void *items, size_t n, size_t size);
// The new last item, not set; n counts it. In `*ARRAY_ADD(a, n) = x`, x does not depend on n.
#define ARRAY_ADD(items, n) ((items) = array_with_room((items), (size_t)(n), sizeof *(items)), &(items)[(n)++])
char *copy_string(const char *text);

// A promise of an earlier pass that does not hold is a bug of the compiler: says so and ends the process with status
// 70, in every build.
void require_promise(bool condition, const char *what);

#endif
