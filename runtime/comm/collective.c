// Collectives of the plan. A sum over ranks has one order, that of the ranks, whatever the engine and however the work
// is shared out: each rank gets its part of everybody's numbers, adds them up as accumulation does, ((0 + g0) + g1) +
// …, and hands the sums out. That moves as many bytes as a ring does, and needs a staging buffer of one bucket.
#include <string.h>

#include "runtime/comm/comm.h"
#include "runtime/runtime.h"

// In the thread of the lane: the team computes meanwhile.
#define SUM(type)                                                                \
  do {                                                                           \
    type *to = sum;                                                              \
    const type *from = part;                                                     \
    for (int64_t i = 0; i < n; i++) to[i] = (first ? (type)0 : to[i]) + from[i]; \
  } while (0)

// bf16 and f16: in f32, rounded after each addition.
static void add_narrow(NncDtype dtype, void *sum, const void *part, int64_t n, bool first) {
  enum { CHUNK = 512 };
  for (int64_t i = 0; i < n; i += CHUNK) {
    float x[CHUNK], y[CHUNK];
    int64_t count = n - i < CHUNK ? n - i : CHUNK;
    narrow_to_float(dtype, (const uint16_t *)part + i, y, count);
    if (first) memset(x, 0, sizeof x);
    else narrow_to_float(dtype, (const uint16_t *)sum + i, x, count);
    for (int64_t k = 0; k < count; k++) x[k] += y[k];
    narrow_from_float(x, dtype, (uint16_t *)sum + i, count);
  }
}

// sum = part, or sum += part.
static void add_part(NncDtype dtype, void *sum, const void *part, int64_t n, bool first) {
  if (dtype == NNC_F32) SUM(float);
  else if (dtype == NNC_F64) SUM(double);
  else add_narrow(dtype, sum, part, n, first);
}

int64_t collective_part(int64_t n, int r) { return n / ranks.size * r + (n % ranks.size < r ? n % ranks.size : r); }

static void reduce_piece(const NncComm *comm, NncDtype dtype, char *data, int64_t n, char *staging) {
  static int count[NNC_MAX_RANKS], at[NNC_MAX_RANKS], own_count[NNC_MAX_RANKS], own_at[NNC_MAX_RANKS];
  int64_t size = dtype_bytes(dtype), begin = collective_part(n, ranks.rank),
          own = collective_part(n, ranks.rank + 1) - begin;
  for (int r = 0; r < ranks.size; r++) {
    at[r] = (int)(collective_part(n, r) * size);
    count[r] = (int)(collective_part(n, r + 1) * size) - at[r];
    own_at[r] = (int)(own * size * r);
    own_count[r] = (int)(own * size);
  }
  comm->exchange(data, count, at, staging, own_count, own_at);
  for (int r = 0; r < ranks.size; r++) add_part(dtype, data + begin * size, staging + own_at[r], own, r == 0);
  comm->all_gather(data, count, at);
}

static void all_reduce(const NncCollective *c, char *data, void *staging) {
  int64_t size = dtype_bytes(c->dtype), piece = NNC_COLLECTIVE_PIECE / size;
  for (int64_t i = 0; i < c->elements; i += piece)
    reduce_piece(ranks.comm, c->dtype, data + i * size, c->elements - i < piece ? c->elements - i : piece, staging);
}

void collective_run(const NncCollective *c, int n_buffers, const int64_t *bytes, void *const *buffers,
                    void *workspace) {
  char *result = buffers[n_buffers - 1], *at = result;
  int64_t all = c->elements * dtype_bytes(c->dtype);
  for (int i = c->kind == NNC_RANK_RECEIVE; i < n_buffers - 1; at += bytes[i++])
    if (at != buffers[i]) memcpy(at, buffers[i], (size_t)bytes[i]);
  if (ranks.size == 1) return;
  const NncComm *comm = ranks.comm;
  int last = ranks.size - 1;
  switch (c->kind) {
  case NNC_ALL_REDUCE: all_reduce(c, result, workspace); break;
  case NNC_RANK_RECEIVE:
    if (ranks.rank > 0) comm->receive(result, (int)all, ranks.rank - 1);
    break;
  case NNC_RANK_SEND:
    if (ranks.rank < last) comm->send(result, (int)all, ranks.rank + 1);
    comm->broadcast(result, (int)all, last);
    break;
  }
}
