// Who has started this process as one of several: the variables that mpirun, torchrun and srun leave.
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "runtime/comm/comm.h"
#include "runtime/runtime.h"

typedef struct Variables {
  const char *name;
  bool mpi;
  const char *rank, *size, *local;
  bool both;   // one without the other is a mistake
} Variables;

// An MPI's own first: under srun and within a torchrun there may be one, too. Of srun the size is that of the step, as
// in a batch script, which is no rank, SLURM_NTASKS stands as well.
static const Variables known[] = {
    {"mpirun", true, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", false},
    {"mpirun", true, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", false},
    {"a PMIx server", true, "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", false},
    {"RANK and WORLD_SIZE", false, "RANK", "WORLD_SIZE", "LOCAL_RANK", true},
    {"srun", false, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", false},
};

// -1: the variable is not there.
static int read_number(const char *name, bool *bad) {
  const char *text = getenv(name);
  if (!text) return -1;
  char *end;
  errno = 0;
  long v = strtol(text, &end, 10);
  if (*text >= '0' && *text <= '9' && !*end && !errno && v <= INT_MAX) return (int)v;
  report_error("%s is \"%s\", not a number", name, text);
  *bad = true;
  return -1;
}

static bool read_starter(const Variables *v, Starter *out, bool *bad) {
  *out = (Starter){.name = v->name,
                   .mpi = v->mpi,
                   .rank = read_number(v->rank, bad),
                   .size = read_number(v->size, bad),
                   .local = read_number(v->local, bad)};
  if (*bad) return false;
  if (v->both && (out->rank < 0) != (out->size < 0)) {
    report_error("%s is set and %s is not: ranks need both", out->rank < 0 ? v->size : v->rank,
                 out->rank < 0 ? v->rank : v->size);
    *bad = true;
    return false;
  }
  if (out->rank < 0) return false;
  if (out->size < 0 && !v->mpi) return false;
  if (out->size < 0) out->size = 0;
  if (!v->mpi && out->size > MAX_RANKS) {
    report_error("%s is %d: there can be %d ranks", v->size, out->size, MAX_RANKS);
    *bad = true;
    return false;
  }
  if (v->mpi || out->rank < out->size) return true;
  report_error("%s is %d, but %s is %d: ranks are 0 to %d", v->rank, out->rank, v->size, out->size, out->size - 1);
  *bad = true;
  return false;
}

bool starter_find(int i, Starter *out, bool *bad) {
  for (size_t k = 0; k < sizeof known / sizeof *known && !*bad; k++)
    if (read_starter(&known[k], out, bad) && i-- == 0) return true;
  return false;
}
