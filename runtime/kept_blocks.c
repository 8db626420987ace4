// operator new and operator delete of executables, for the library of convolutions, which asks for some dozens of small
// blocks each time that it executes one, and gives them back: those that come back are kept, so that a step after the
// first asks for none. The linker gives them their names (codegen/host/target.c), so that nothing else has them.
#include <omp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "runtime/runtime.h"

// In front of each block, which is aligned as malloc's are.
typedef struct KeptBlock {
  struct KeptBlock *next;
  int32_t kind;   // has LEAST << kind bytes; KINDS: larger, not kept
  int32_t of;     // the thread of a team that has it; THREADS: it was asked for outside of teams
} KeptBlock;

enum { LEAST = 32, KINDS = 12, THREADS = 64 };

// Threads of a team that ask at the same moment need more blocks than those that do so one after the other. So that it
// does not depend on the moment how many there are, there is a block for each thread of what any of them has had at
// once (of teams beyond THREADS some count as one).
typedef struct Kept {
  KeptBlock *alone, *shared;   // asked for outside of teams; in teams
  int made;                    // of `shared`, handed out or not
  int held[THREADS], most;     // by each thread of a team now; the most by any so far
  int team;                    // threads of the largest
} Kept;
static Kept kept[KINDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void *nnc_operator_new(size_t bytes);
void nnc_operator_delete(void *p);

static KeptBlock *make(size_t bytes) { return xmalloc(bytes <= PTRDIFF_MAX ? sizeof(KeptBlock) + bytes : SIZE_MAX); }

static KeptBlock *take(KeptBlock **list, size_t bytes) {
  KeptBlock *b = *list;
  if (b) *list = b->next;
  return b ? b : make(bytes);
}

static KeptBlock *take_shared(Kept *k, int thread, size_t bytes) {
  if (++k->held[thread] > k->most) k->most = k->held[thread];
  if (omp_get_num_threads() > k->team) k->team = omp_get_num_threads();
  for (; k->made < k->most * k->team; k->made++) {
    KeptBlock *b = make(bytes);
    b->next = k->shared;
    k->shared = b;
  }
  return take(&k->shared, bytes);
}

void *nnc_operator_new(size_t bytes) {
  int kind = 0, of = omp_in_parallel() ? omp_get_thread_num() % THREADS : THREADS;
  while (kind < KINDS && (size_t)LEAST << kind < bytes) kind++;
  KeptBlock *b;
  if (kind < KINDS) {
    bytes = (size_t)LEAST << kind;
    pthread_mutex_lock(&lock);
    b = of < THREADS ? take_shared(&kept[kind], of, bytes) : take(&kept[kind].alone, bytes);
    pthread_mutex_unlock(&lock);
  } else {
    b = make(bytes);
  }
  b->kind = kind, b->of = of;
  return b + 1;
}

void nnc_operator_delete(void *p) {
  if (!p) return;
  KeptBlock *b = (KeptBlock *)p - 1;
  if (b->kind == KINDS) {
    free(b);
    return;
  }
  Kept *k = &kept[b->kind];
  pthread_mutex_lock(&lock);
  KeptBlock **list = b->of < THREADS ? &k->shared : &k->alone;
  if (b->of < THREADS) k->held[b->of]--;
  b->next = *list;
  *list = b;
  pthread_mutex_unlock(&lock);
}
