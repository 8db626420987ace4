// MPI as the engine that moves bytes between ranks. Linked to distributed programs only (nnc --shard), compiled against
// the MPI that was there when nnc was built. A thread of its own tells the next rank once a second that this one lives,
// so that a process that was stopped or lost is noticed however long a step takes.
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/comm/comm.h"
#include "runtime/runtime.h"
#include "support/clock.h"

typedef struct Member {   // of the ring of signs of life
  int process;
  char host[60];
} Member;

static MPI_Comm data, signs;
static int own_rank, n_ranks;
static Member before;   // the rank that this one listens to
static double longest;
static pthread_t beat_thread;
static bool beats, takes_lane = true;
static volatile bool is_closing;

static void pause_for(long nanoseconds) { nanosleep(&(struct timespec){0, nanoseconds}, NULL); }

// mpirun ends where it hears of this, perhaps before it has read what the ranks wrote last: of MPICH's the message was
// seen to be lost. So it has a tenth of a second to read.
static void abort_mpi(int status) {
  pause_for(100000000);
  MPI_Abort(MPI_COMM_WORLD, status);
  _exit(status);
}

// A rank that waits leaves the processor to those that compute: its own lanes, and there may be more ranks than cores.
// It sleeps, longer and longer: who yields instead waits for whole slices of the scheduler.
static void wait_for_all(int n, MPI_Request *requests) {
  enum { QUICK = 200, SHORTEST = 20000, LONGEST = 1000000 };   // tries, nanoseconds
  long pause = SHORTEST;
  for (int tries = 0, done = 0; n > 0; tries++) {
    MPI_Test(&requests[n - 1], &done, MPI_STATUS_IGNORE);
    if (done) n--;
    else if (tries > QUICK) pause_for(pause), pause = 2 * pause < LONGEST ? 2 * pause : LONGEST;
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Signs of life

enum { SIGN_ALIVE = 1, SIGN_LEAVING = 2 };

// Sends to the next rank, listens to the one before, until both have said that they leave.
static void *beat(void *unused) {
  (void)unused;
  int next = (own_rank + 1) % n_ranks, previous = (own_rank + n_ranks - 1) % n_ranks, heard = 0, sent = 0, done = 0;
  MPI_Request listening, sending = MPI_REQUEST_NULL;
  double last_heard = seconds_now(), last_sent = 0, now = last_heard;
  bool previous_leaves = false;
  MPI_Irecv(&heard, 1, MPI_INT, previous, 0, signs, &listening);
  for (;;) {
    last_heard += silence_to_excuse(&now);
    MPI_Test(&sending, &done, MPI_STATUS_IGNORE);
    if (done && sent != SIGN_LEAVING && (is_closing || now - last_sent >= 1)) {
      sent = is_closing ? SIGN_LEAVING : SIGN_ALIVE;
      last_sent = now;
      MPI_Isend(&sent, 1, MPI_INT, next, 0, signs, &sending);
      continue;
    }
    if (!previous_leaves) {
      int came = 0;
      MPI_Test(&listening, &came, MPI_STATUS_IGNORE);
      if (came) {
        last_heard = now;
        previous_leaves = heard == SIGN_LEAVING;
        if (!previous_leaves) MPI_Irecv(&heard, 1, MPI_INT, previous, 0, signs, &listening);
        continue;
      }
    }
    if (previous_leaves && sent == SIGN_LEAVING && done) return NULL;
    if (!previous_leaves && now - last_heard > longest) {
      report_error("rank %d of %d (process %d on %s) has given no sign of life for %.0f seconds: all ranks end; the "
                   "last checkpoint stands",
                   previous, n_ranks, before.process, before.host, longest);
      abort_mpi(EXIT_DIAGNOSTIC);
    }
    pause_for(50000000);
  }
}

// ---------------------------------------------------------------------------------------------------------------------

static void know_neighbour(void) {
  Member own = {.process = (int)getpid()}, *all = xcalloc((size_t)n_ranks, sizeof *all);
  gethostname(own.host, sizeof own.host - 1);
  MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, signs);
  before = all[(own_rank + n_ranks - 1) % n_ranks];
  free(all);
}

static bool open_mpi(const Starter *starter, int *rank, int *size, double timeout) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, size);
  own_rank = *rank, n_ranks = *size, longest = timeout;
  if (starter->size > n_ranks) {
    report_error("%s has started %d ranks, but this program's MPI (%s) knows of %d: start it with the mpirun of that "
                 "MPI, or compile it for the other one (nnc --mpi)",
                 starter->name, starter->size, nnc_comm_mpi.name, n_ranks);
    return false;
  }
  MPI_Comm_dup(MPI_COMM_WORLD, &data);
  MPI_Comm_dup(MPI_COMM_WORLD, &signs);
  if (n_ranks == 1) return true;
  know_neighbour();
  takes_lane = provided >= MPI_THREAD_SERIALIZED;
  if (provided < MPI_THREAD_MULTIPLE) {
    if (own_rank == 0)
      report_warning("%s takes calls of one thread%s: a rank that hangs is not noticed%s", nnc_comm_mpi.name,
                     takes_lane ? " at a time" : " only",
                     takes_lane ? "" : ", and ranks compute nothing while they exchange");
    return true;
  }
  beats = pthread_create(&beat_thread, NULL, beat, NULL) == 0;
  if (!beats) report_error("cannot start a thread");
  return beats;
}

static bool takes_lane_of_its_own(void) { return takes_lane; }

static void close_mpi(void) {
  is_closing = true;
  if (beats) pthread_join(beat_thread, NULL);
  MPI_Finalize();
}

static int n_chunks(int part) { return part ? (part + comm_chunk(part) - 1) / comm_chunk(part) : 0; }

// Everything is offered at once, so that who is behind delays nobody. Returns the requests. Owned: free().
static MPI_Request *send_parts(const char *from, const int *count, const int *at, int *n) {
  *n = 0;
  for (int r = 0; r < n_ranks; r++) *n += r == own_rank ? 0 : n_chunks(count[r]);
  MPI_Request *sent = xcalloc((size_t)*n + 1, sizeof *sent), *next = sent;
  for (int r = 0; r < n_ranks; r++)
    for (int i = 0, chunk = comm_chunk(count[r]); i < count[r] && r != own_rank; i += chunk)
      MPI_Isend(from + at[r] + i, chunk < count[r] - i ? chunk : count[r] - i, MPI_BYTE, r, 0, data, next++);
  return sent;
}

// Two chunks of each rank are under way or here: the next come while these are taken.
static void exchange(void *send, const int *count, const int *at, void *staging, CommTake take, const void *context) {
  int n_sent, part = count[own_rank], chunk = comm_chunk(part), chunks = n_chunks(part);
  MPI_Request *sent = send_parts(send, count, at, &n_sent), *coming = xcalloc(2 * (size_t)n_ranks, sizeof *coming);
  const void **parts = xcalloc((size_t)n_ranks, sizeof *parts);
  for (int i = -1; i < chunks; i++) {
    int next = i + 1, begin = next * chunk;
    for (int r = 0; next < chunks && r < n_ranks; r++) {
      MPI_Request *request = &coming[next % 2 * n_ranks + r];
      *request = MPI_REQUEST_NULL;
      if (r == own_rank) continue;
      MPI_Irecv((char *)staging + ((int64_t)(next % 2) * n_ranks + r) * chunk,
                chunk < part - begin ? chunk : part - begin, MPI_BYTE, r, 0, data, request);
    }
    if (i < 0) continue;
    wait_for_all(n_ranks, &coming[i % 2 * n_ranks]);
    for (int r = 0; r < n_ranks; r++) parts[r] = (char *)staging + ((int64_t)(i % 2) * n_ranks + r) * chunk;
    parts[own_rank] = (char *)send + at[own_rank] + (int64_t)i * chunk;
    take(context, (int64_t)i * chunk, chunk < part - i * chunk ? chunk : part - i * chunk, parts);
  }
  wait_for_all(n_sent, sent);
  free(parts);
  free(coming);
  free(sent);
}

static void all_gather(void *all, const int *count, const int *at) {
  MPI_Request request;
  MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, all, count, at, MPI_BYTE, data, &request);
  wait_for_all(1, &request);
}

static void sum(void *numbers, int n, NncDtype dtype, bool scatters) {
  MPI_Request request;
  MPI_Datatype type = dtype == NNC_F32 ? MPI_FLOAT : MPI_DOUBLE;
  if (scatters) MPI_Ireduce_scatter_block(MPI_IN_PLACE, numbers, n, type, MPI_SUM, data, &request);
  else MPI_Iallreduce(MPI_IN_PLACE, numbers, n, type, MPI_SUM, data, &request);
  wait_for_all(1, &request);
}

static void broadcast(void *bytes, int n, int root) {
  MPI_Request request;
  MPI_Ibcast(bytes, n, MPI_BYTE, root, data, &request);
  wait_for_all(1, &request);
}

static void send_to(const void *bytes, int n, int to) {
  MPI_Request request;
  MPI_Isend(bytes, n, MPI_BYTE, to, 0, data, &request);
  wait_for_all(1, &request);
}

static void receive_from(void *bytes, int n, int from) {
  MPI_Request request;
  MPI_Irecv(bytes, n, MPI_BYTE, from, 0, data, &request);
  wait_for_all(1, &request);
}

#ifdef OPEN_MPI
#define NAME "Open MPI"
#elif defined(MPICH_VERSION)
#define NAME "MPICH " MPICH_VERSION
#else
#define NAME "MPI"
#endif

const NncComm nnc_comm_mpi = {.name = NAME,
                              .mpi = true,
                              .open = open_mpi,
                              .takes_lane = takes_lane_of_its_own,
                              .exchange = exchange,
                              .all_gather = all_gather,
                              .sum = sum,
                              .broadcast = broadcast,
                              .send = send_to,
                              .receive = receive_from,
                              .close = close_mpi,
                              .abort = abort_mpi};
