// In front of an MPI (LD_PRELOAD): it takes calls of fewer threads, as MPI_THREADS says, `serialized` or `funneled`,
// and a call that then is not allowed ends the process. With MPI_SUMS it tells at the end how often it was asked for a
// sum.
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int level = MPI_THREAD_MULTIPLE;
static pthread_t first;
static atomic_int inside, sums, scattered;

static void enter(const char *name) {
  if (level == MPI_THREAD_FUNNELED && !pthread_equal(pthread_self(), first)) {
    fprintf(stderr, "%s is called by another thread\n", name);
    abort();
  }
  if (atomic_fetch_add(&inside, 1) && level < MPI_THREAD_MULTIPLE) {
    fprintf(stderr, "%s is called beside another call\n", name);
    abort();
  }
}

#define CALL(name, parameters, arguments) \
  int MPI_##name parameters {             \
    enter("MPI_" #name);                  \
    int result = PMPI_##name arguments;   \
    atomic_fetch_sub(&inside, 1);         \
    return result;                        \
  }

CALL(Isend, (const void *from, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r),
     (from, n, t, to, tag, c, r))
CALL(Irecv, (void *to, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request *r),
     (to, n, t, from, tag, c, r))
CALL(Ibcast, (void *data, int n, MPI_Datatype t, int root, MPI_Comm c, MPI_Request *r), (data, n, t, root, c, r))
CALL(Iallgatherv,
     (const void *from, int n, MPI_Datatype t, void *to, const int *count, const int *at, MPI_Datatype u, MPI_Comm c,
      MPI_Request *r),
     (from, n, t, to, count, at, u, c, r))
CALL(Test, (MPI_Request * r, int *done, MPI_Status *status), (r, done, status))

int MPI_Iallreduce(const void *from, void *to, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c, MPI_Request *r) {
  sums++;
  return PMPI_Iallreduce(from, to, n, t, op, c, r);
}

int MPI_Ireduce_scatter_block(const void *from, void *to, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c,
                              MPI_Request *r) {
  scattered++;
  return PMPI_Ireduce_scatter_block(from, to, n, t, op, c, r);
}

int MPI_Finalize(void) {
  if (getenv("MPI_SUMS")) printf("%d sums, %d scattered\n", sums, scattered);
  return PMPI_Finalize();
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  const char *threads = getenv("MPI_THREADS");
  first = pthread_self();
  level = !threads ? required : strcmp(threads, "funneled") == 0 ? MPI_THREAD_FUNNELED : MPI_THREAD_SERIALIZED;
  return PMPI_Init_thread(argc, argv, level, provided);
}
