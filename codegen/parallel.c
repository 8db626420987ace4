// Work on several threads; parallel.h.
#include "codegen/parallel.h"

#include <pthread.h>
#include <stdbool.h>

typedef struct Job {
  void (*work)(void *item);
  void *item;
} Job;

static void *run(void *job) {
  const Job *j = job;
  j->work(j->item);
  return NULL;
}

void codegen_parallel(int n, void (*work)(void *item), void *items, size_t size) {
  pthread_t threads[MAX_PARTS];
  Job jobs[MAX_PARTS];
  bool started[MAX_PARTS] = {false};
  for (int i = 0; i < n; i++) jobs[i] = (Job){work, (char *)items + (size_t)i * size};
  for (int i = 1; i < n; i++) started[i] = pthread_create(&threads[i], NULL, run, &jobs[i]) == 0;
  for (int i = 0; i < n; i++)
    if (!started[i]) run(&jobs[i]);
  for (int i = 0; i < n; i++)
    if (started[i]) pthread_join(threads[i], NULL);
}
