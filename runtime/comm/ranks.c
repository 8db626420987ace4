// This process as one of several: joining, agreeing, and numbers that all must have.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm.h"
#include "runtime/runtime.h"
#include "support/clock.h"

Ranks ranks = {.size = 1};

static bool joined;

static const NncComm *engine_for(const Starter *s) {
  for (const NncComm *const *comm = nnc_program.comms; *comm; comm++)
    if ((*comm)->mpi == s->mpi) return *comm;
  return NULL;
}

// The first starter whose engine the program has. False after reporting: it has none of them.
static bool choose_engine(Starter *starter) {
  bool bad = false;
  Starter s, first = {0};
  for (int i = 0; !ranks.comm && starter_find(i, &s, &bad); i++) {
    if (i == 0) first = s;
    ranks.comm = engine_for(&s);
    *starter = s;
  }
  if (bad) return false;
  if (ranks.comm || !first.name || first.size == 1) return true;
  report_error("started by %s as one of several, but this program was compiled by an nnc without MPI: build nnc where "
               "there is one (package libopenmpi-dev), or start the ranks with RANK, WORLD_SIZE, MASTER_ADDR and "
               "MASTER_PORT set",
               first.name);
  return false;
}

bool ranks_open(double timeout) {
  Starter starter = {0};
  if (!nnc_program.comms) return true;
  if (!choose_engine(&starter)) return false;
  if (!ranks.comm) return true;
  if (!ranks.comm->open(&starter, &ranks.rank, &ranks.size, timeout)) return false;
  joined = true;
  ranks.local = starter.local >= 0 ? starter.local : ranks.rank;
  if (ranks.size > MAX_RANKS) {
    if (ranks.rank == 0) report_error("%d ranks: there can be %d", ranks.size, MAX_RANKS);
    return false;
  }
  if (ranks.size > 1) report_set_rank(ranks.rank);
  return true;
}

bool ranks_find_first(bool *first) {
  Starter s, by = {0};
  bool bad = false;
  for (int i = 0; nnc_program.comms && starter_find(i, &s, &bad); i++) {
    bool joined_by = engine_for(&s) != NULL;
    if (i == 0 || joined_by) by = s;
    if (joined_by) break;
  }
  *first = by.rank == 0;
  if (!bad && !*first) report_warning("this is rank %d: rank 0 does this alone", by.rank);
  return !bad;
}

double silence_to_excuse(double *now) {
  double before = *now, passed = (*now = seconds_now()) - before;
  return passed > 0.5 ? passed : 0;
}

int64_t ranks_own_elements(const NncTensor *t, int64_t *begin) {
  int64_t n = tensor_elements(t);
  *begin = t->part * ranks.rank;
  if (!t->part || *begin + t->part <= n) return t->part ? t->part : n;
  return *begin < n ? n - *begin : 0;
}

bool ranks_share_parameters(void) { return nnc_program.ranks && strcmp(nnc_program.shard, "parameters") == 0; }

const char *ranks_part(void) {
  return strcmp(nnc_program.shard, "optimizer") == 0 ? "optimizer's state" : nnc_program.shard;
}

bool ranks_are_whole(const char *command, bool trains) {
  const NncProgram *p = &nnc_program;
  if (p->ranks <= 1 || (!trains && !ranks_share_parameters())) return true;
  report_error("'%s' is done by one rank with all of the %s, and %s is compiled for %d with a part each "
               "(nnc --shard=%s): use one compiled with --shard=none, whose checkpoints are the same",
               command, ranks_part(), p->model, p->ranks, p->shard);
  return false;
}

void ranks_gather(const double *values, int n, double *all) {
  memcpy(all + ranks.rank * n, values, (size_t)n * sizeof *all);
  if (ranks.size == 1) return;
  int *count = xcalloc(2 * (size_t)ranks.size, sizeof *count), *at = count + ranks.size;
  for (int r = 0; r < ranks.size; r++) count[r] = n * (int)sizeof *all, at[r] = r * count[r];
  ranks.comm->all_gather(all, count, at);
  free(count);
}

void ranks_broadcast(void *data, int64_t bytes) {
  if (ranks.size > 1) ranks.comm->broadcast(data, (int)bytes, 0);
}

// Everybody's numbers. Owned: free().
static double *gather_one(double value) {
  double *all = xcalloc((size_t)ranks.size, sizeof *all);
  ranks_gather(&value, 1, all);
  return all;
}

int ranks_close(int status) {
  if (!joined) return status;
  double *all = gather_one(status);
  for (int r = 0; r < ranks.size; r++)
    if (all[r] > status) status = (int)all[r];
  free(all);
  ranks.comm->close();
  joined = false;
  return status;
}

void ranks_abort(int status) {
  fflush(stdout);
  if (joined) ranks.comm->abort(status);
  exit(status);
}

bool ranks_agree(bool ok) {
  if (ranks.size == 1) return ok;
  double *all = gather_one(ok);
  bool others = true;
  for (int r = 0; r < ranks.size; r++) {
    if (all[r] == 0 && ok && ranks.rank == 0) report_error("rank %d of %d cannot go on", r, ranks.size);
    others &= all[r] != 0;
  }
  free(all);
  return others;
}

// As doubles each number is two halves, which are exact.
bool ranks_compare(int n, const RankFact *facts) {
  if (ranks.size == 1) return true;
  double *own = xcalloc(2 * (size_t)n * (size_t)(ranks.size + 1), sizeof *own), *all = own + 2 * n;
  for (int i = 0; i < n; i++)
    own[2 * i] = (double)(facts[i].value >> 32), own[2 * i + 1] = (double)(uint32_t)facts[i].value;
  ranks_gather(own, 2 * n, all);
  bool same = true;
  for (int r = 1; r < ranks.size; r++)
    for (int i = 0; i < n; i++) {
      const double *first = all + 2 * i, *other = all + 2 * n * r + 2 * i;
      if (first[0] == other[0] && first[1] == other[1]) continue;
      same = false;
      if (ranks.rank != 0) continue;
      uint64_t theirs = (uint64_t)other[0] << 32 | (uint64_t)other[1];
      if (facts[i].shown)
        report_error("rank %d of %d has %s %" PRIu64 ", rank 0 has %" PRIu64, r, ranks.size, facts[i].what, theirs,
                     facts[i].value);
      else report_error("rank %d of %d has %s than rank 0", r, ranks.size, facts[i].what);
    }
  free(own);
  return same;
}
