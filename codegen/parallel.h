// Private to codegen/: work on several threads.
#ifndef NNC_CODEGEN_PARALLEL_H
#define NNC_CODEGEN_PARALLEL_H

#include <stddef.h>

#define MAX_PARTS 8   // threads at once

// Calls work on each of n <= MAX_PARTS items of `size` bytes, each on a thread of its own where threads can be had.
// Returns when all are done.
void codegen_parallel(int n, void (*work)(void *item), void *items, size_t size);

#endif
