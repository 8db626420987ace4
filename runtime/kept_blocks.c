// operator new and operator delete of executables, for the library of convolutions, which asks for some dozens of small
// blocks each time that it executes one, and gives them back: those that come back are kept, so that a step after the
// first asks for none. The linker gives them their names (codegen/host/target.c), so that nothing else has them.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "runtime/runtime.h"

// In front of each block, which is aligned as malloc's are.
typedef struct KeptBlock {
  struct KeptBlock *next;
  int64_t kind;   // has LEAST << kind bytes; KINDS: larger, not kept
} KeptBlock;

enum { LEAST = 32, KINDS = 12 };
static KeptBlock *kept[KINDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void *nnc_operator_new(size_t bytes);
void nnc_operator_delete(void *p);

void *nnc_operator_new(size_t bytes) {
  int kind = 0;
  while (kind < KINDS && (size_t)LEAST << kind < bytes) kind++;
  KeptBlock *b = NULL;
  if (kind < KINDS) {
    pthread_mutex_lock(&lock);
    b = kept[kind];
    if (b) kept[kind] = b->next;
    pthread_mutex_unlock(&lock);
    bytes = (size_t)LEAST << kind;
  }
  if (!b) b = xmalloc(bytes <= PTRDIFF_MAX ? sizeof *b + bytes : SIZE_MAX);
  b->kind = kind;
  return b + 1;
}

void nnc_operator_delete(void *p) {
  if (!p) return;
  KeptBlock *b = (KeptBlock *)p - 1;
  if (b->kind == KINDS) {
    free(b);
    return;
  }
  pthread_mutex_lock(&lock);
  b->next = kept[b->kind];
  kept[b->kind] = b;
  pthread_mutex_unlock(&lock);
}
