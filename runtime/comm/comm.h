// Ranks: the processes of a distributed program (nnc --shard), each with its own micro-batch. An engine moves bytes
// (mpi.c, tcp.c); what is computed of them, and in what order, is ours (collective.c), so that every engine gives the
// same bits.
#ifndef NNC_RUNTIME_COMM_H
#define NNC_RUNTIME_COMM_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/runtime.h"
#include "runtime/training.h"

// Who has started this process as one of several, by what it left in the environment (starter.c).
typedef struct Starter {
  const char *name;   // "mpirun"
  bool mpi;           // of an MPI, whose library knows the others
  int rank, size;     // size 0: not told
  int local;          // number among those of this machine, -1: not told
} Starter;
// The i-th that has left its variables, in order of preference; false: there is none. A variable that is no number is
// reported, and *bad set.
bool starter_find(int i, Starter *out, bool *bad);

// Bytes [from, from + bytes) of a part, as rank r has them at parts[r].
typedef void (*CommTake)(const void *context, int64_t from, int64_t bytes, const void *const *parts);

// All functions are called by all ranks in the same order, by one thread at a time: in a step by that of the lane
// `comm`. Counts and places in bytes; a call that fails ends the process and, with it, all ranks.
typedef struct NncComm {
  const char *name;
  bool mpi;   // for starters of that kind
  // Joins the others: sets rank and size. timeout: seconds without a sign of life of another rank until all end. False
  // after reporting.
  bool (*open)(const Starter *starter, int *rank, int *size, double timeout);
  bool (*takes_lane)(void);   // calls may come from another thread than that of open; NULL: they may
  // To rank r `count[r]` bytes at `at[r]`. From each other rank come as many as this one has for itself, in chunks
  // (comm_chunk), by way of `staging`, which holds this many bytes of each rank; `take` gets a chunk of all in turn,
  // while a cache still has it, the own one from `send`, and may write there.
  void (*exchange)(void *send, const int *count, const int *at, void *staging, CommTake take, const void *context);
  // Of `all` every rank brings the part of its number.
  void (*all_gather)(void *all, const int *count, const int *at);
  // The engine's own sums over ranks, in an order of its own, of n f32 or f64 in place; `scatters`: of n of each rank,
  // of which each gets its part. NULL: it has none.
  void (*sum)(void *data, int n, NncDtype dtype, bool scatters);
  void (*broadcast)(void *data, int bytes, int root);
  void (*send)(const void *data, int bytes, int to);
  void (*receive)(void *data, int bytes, int from);
  void (*close)(void);
  void (*abort)(int status);   // of all ranks
} NncComm;

// How a part that comes in chunks is divided: so that two chunks of two ranks stay in a core's own cache, and two of
// each rank are no more than a part of each.
static inline int comm_chunk(int part) {
  enum { LARGEST = 256 << 10, LINE = 64 };
  return part <= LARGEST ? part : part / 2 < LARGEST ? part / 2 / LINE * LINE : LARGEST;
}

// This process among the others: rank 0 of 1 until ranks_open.
typedef struct Ranks {
  int rank, size;
  int local;             // its number on this machine
  const NncComm *comm;   // that moves bytes; NULL: nobody has started several
} Ranks;
extern Ranks ranks;

// Of a persistent tensor, how many elements this rank has, from *begin on: all, or its part as far as it is there.
int64_t ranks_own_elements(const NncTensor *t, int64_t *begin);
bool ranks_share_parameters(void);   // no rank has all of them: whatever reads them is done by all at once
const char *ranks_part(void);        // what each rank has a part of, where the program has such: the last of --shard
// For a command of one process, which takes a step or reads parameters: the program keeps all of them in one. False
// after reporting.
bool ranks_are_whole(const char *command, bool trains);
// Joins the others, where a starter has started this process as one of several. False after reporting.
bool ranks_open(double timeout);
// Of what is done alone: whether this is rank 0, which the starter says, without joining the others. False after
// reporting.
bool ranks_find_first(bool *first);
// Everybody's last call. Returns the worst status of all.
int ranks_close(int status);
_Noreturn void ranks_abort(int status);   // something failed here alone: ends all
// All are fine. Where they are not, rank 0 says whose fault it is.
bool ranks_agree(bool ok);
// A number that must be the same on all ranks; shown: its value means something to the user.
typedef struct RankFact {
  const char *what;
  uint64_t value;
  bool shown;
} RankFact;
bool ranks_compare(int n, const RankFact *facts);   // false after rank 0 has reported which rank differs in what
// values of each rank, one rank behind the other; `all` holds size * n numbers
void ranks_gather(const double *values, int n, double *all);
void ranks_broadcast(void *data, int64_t bytes);   // from rank 0

// What ranks compare (alike.c): checksums of the executable, of a data set's records, and of a file, of whose first and
// last 64 MiB; 0: there is none.
uint64_t ranks_program_sum(void);
uint64_t ranks_data_sum(const Dataset *d);
uint64_t ranks_file_sum(const char *path);

// `eval` and `predict` where ranks_share_parameters: all compute the same, and rank 0 alone prints and writes. Else
// rank 0 does it alone, for which the others are not *needed; there, and on one rank, the other two do nothing.
bool ranks_open_together(bool *needed);   // false after reporting
// Behind session_open and the loading of `weights` (NULL: those by default), which went well here or not: all have the
// same program, weights, and facts. False after reporting.
bool ranks_begin_together(bool ok, const Session *s, const char *weights, RankFact fact, RankFact other);
bool ranks_end_together(bool ok);   // ends all where this one alone cannot go on; returns ok

// Seconds since *now, which becomes the present, where this process did not run: it was stopped, and others with it
// perhaps. 0 up to half a second.
double silence_to_excuse(double *now);

// Of n elements that all ranks have, rank r adds up those from here to where r + 1 begins.
int64_t collective_part(int64_t n, int r);
// A step of the plan on the host; buffers and workspace as NncCollective says.
void collective_run(const NncCollective *c, int n_buffers, const int64_t *bytes, void *const *buffers, void *workspace);

#endif
