// This process as one of several: joining, agreeing, and numbers that all must have.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm.h"
#include "runtime/runtime.h"

Ranks ranks = {0, 1};

static bool joined;

bool ranks_are_launched(void) { return nnc_program.comm && nnc_program.comm->launched(); }

bool ranks_open(double timeout) {
  if (!ranks_are_launched()) return true;
  if (!nnc_program.comm->open(&ranks.rank, &ranks.size, timeout)) return false;
  joined = true;
  if (ranks.size > NNC_MAX_RANKS) {
    if (ranks.rank == 0) report_error("%d ranks: there can be %d", ranks.size, NNC_MAX_RANKS);
    return false;
  }
  if (ranks.size > 1) report_set_rank(ranks.rank);
  return true;
}

void ranks_gather(const double *values, int n, double *all) {
  memcpy(all + ranks.rank * n, values, (size_t)n * sizeof *all);
  if (ranks.size == 1) return;
  int *count = xcalloc(2 * (size_t)ranks.size, sizeof *count), *at = count + ranks.size;
  for (int r = 0; r < ranks.size; r++) count[r] = n * (int)sizeof *all, at[r] = r * count[r];
  nnc_program.comm->all_gather(all, count, at);
  free(count);
}

void ranks_broadcast(void *data, int64_t bytes) {
  if (ranks.size > 1) nnc_program.comm->broadcast(data, (int)bytes, 0);
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
  nnc_program.comm->close();
  joined = false;
  return status;
}

void ranks_abort(int status) {
  fflush(stdout);
  if (joined) nnc_program.comm->abort(status);
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
