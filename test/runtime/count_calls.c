// A library for LD_PRELOAD that counts the calls of pthread_create, malloc and their like, and the blocks of memory
// that nobody has freed, and writes the numbers into the file COUNT_CALLS at the end. From the call of pthread_create
// with the number FAIL_THREAD on there are no more threads.
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_long threads, allocations, freed;

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *p);

void *malloc(size_t bytes) {
  allocations++;
  return __libc_malloc(bytes);
}
void *calloc(size_t n, size_t bytes) {
  allocations++;
  return __libc_calloc(n, bytes);
}
void *realloc(void *p, size_t bytes) {
  allocations++;
  if (p) freed++;
  return __libc_realloc(p, bytes);
}
void free(void *p) {
  if (p) freed++;
  __libc_free(p);
}
void *aligned_alloc(size_t alignment, size_t bytes) {
  allocations++;
  return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **p, size_t alignment, size_t bytes) {
  allocations++;
  *p = __libc_memalign(alignment, bytes);
  return *p ? 0 : 12;
}

int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg) {
  const char *last = getenv("FAIL_THREAD");
  if (++threads >= (last ? atol(last) : LONG_MAX)) return EAGAIN;
  return (__extension__(__typeof__(&pthread_create)) dlsym(RTLD_NEXT, "pthread_create"))(t, attr, run, arg);
}

__attribute__((destructor)) static void write_counts(void) {
  long n_threads = threads, n_allocations = allocations, n_kept = allocations - freed;
  FILE *f = getenv("COUNT_CALLS") ? fopen(getenv("COUNT_CALLS"), "w") : NULL;
  if (!f) return;
  fprintf(f, "threads %ld\nallocations %ld\nkept %ld\n", n_threads, n_allocations, n_kept);
  fclose(f);
}
