// What ranks compare before they begin, and how they begin where none has all of the parameters.
#include <stdio.h>
#include <stdlib.h>

#include "runtime/checksum.h"
#include "runtime/comm/comm.h"
#include "runtime/runtime.h"
#include "runtime/training.h"

enum { MOST = 64 << 20 };   // bytes at the beginning and at the end of a file

uint64_t ranks_program_sum(void) {
  int64_t n = 0;
  char *program = data_file_read_whole("/proc/self/exe", &n);
  uint64_t sum = program ? checksum_of(program, n) : 0;
  free(program);
  return sum;
}

// Of so many bytes at the beginning and at the end. 0: it cannot be read.
static uint64_t file_sum(const char *path, int64_t most) {
  FILE *f = fopen(path, "rb");
  if (!f) return 0;
  char *bytes = xmalloc((size_t)most);
  uint64_t sum = checksum_of(bytes, (int64_t)fread(bytes, 1, (size_t)most, f));
  if (fseeko(f, -(off_t)most, SEEK_END) == 0)
    sum = sum * 31 + checksum_of(bytes, (int64_t)fread(bytes, 1, (size_t)most, f));
  fclose(f);
  free(bytes);
  return sum;
}

uint64_t ranks_file_sum(const char *path) { return file_sum(path, MOST); }

uint64_t ranks_data_sum(const Dataset *d) {
  uint64_t sum = (uint64_t)d->records;
  for (int i = 0; i < d->n_columns; i++) {
    const Column *c = &d->columns[i];
    if (c->borrows) continue;
    for (int k = 0; k < c->n_pieces && !c->block; k++)
      sum = (sum * 31 + (uint64_t)c->pieces[k].bytes) * 31 + file_sum(c->pieces[k].path, MOST / c->n_pieces + 1);
    if (!c->block) continue;
    int64_t n = c->block_bytes < MOST ? c->block_bytes : MOST;
    sum = sum * 31 + checksum_of(c->block, n);
    sum = sum * 31 + checksum_of((const char *)c->block + c->block_bytes - n, n);
  }
  return sum;
}

bool ranks_open_together(bool *needed) {
  *needed = true;
  if (!ranks_share_parameters()) return ranks_find_first(needed);
  if (!ranks_open(45)) return false;
  if (ranks.rank == 0 || freopen("/dev/null", "w", stdout)) return true;
  report_error("cannot open /dev/null");
  return false;
}

bool ranks_begin_together(bool ok, const Session *s, const char *weights, RankFact fact, RankFact other) {
  if (ranks.size == 1) return ok;
  if (!ranks_agree(ok)) return false;
  char *path = weights ? xstrdup(weights) : checkpoint_default_path();
  const RankFact facts[] = {{"another program", ranks_program_sum(), false},
                            {"another file of weights", ranks_file_sum(path), false},
                            fact,
                            other};
  free(path);
  return ranks_compare((int)(sizeof facts / sizeof *facts), facts) && session_join(s);
}

bool ranks_end_together(bool ok) {
  if (!ok && ranks.size > 1) ranks_abort(signals_stop_requested() ? EXIT_INTERRUPTED : EXIT_DIAGNOSTIC);
  return ok;
}
