// Collectives of the plan. A sum over ranks has one order, that of the ranks, whatever the engine and however the work
// is shared out: each rank gets its part of everybody's numbers, adds them up as accumulation does, ((0 + g0) + g1) +
// …, and hands the sums out. That moves as many bytes as a ring does, and needs a staging buffer of one bucket.
#include <limits.h>
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

// ---------------------------------------------------------------------------------------------------------------------
// Parts: of a tensor of n elements rank r has [r c, (r+1) c), as far as they are there

static int64_t part_length(const NncCollective *c, int64_t elements) {
  return elements_per_rank(elements, dtype_bytes(c->dtype), c->ranks);
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// Elements [from, from + n) of rank r's part, with zeros behind the end of the tensor.
static void copy_from_part(const NncCollective *c, const char *tensor, int64_t elements, int r, int64_t from, int64_t n,
                           char *to) {
  int64_t size = dtype_bytes(c->dtype), begin = part_length(c, elements) * r + from, there = elements - begin;
  there = there < 0 ? 0 : smaller(there, n);
  if (there) memcpy(to, tensor + begin * size, (size_t)(there * size));
  memset(to + there * size, 0, (size_t)((n - there) * size));
}

// The same of the parts of several tensors, one behind the other.
static void copy_from_parts(const NncCollective *c, int n_tensors, const int64_t *bytes, void *const *tensors, int r,
                            int64_t from, int64_t n, char *to) {
  int64_t size = dtype_bytes(c->dtype), begin = 0;   // of the tensor's part
  for (int i = 0; i < n_tensors; i++) {
    int64_t elements = bytes[i] / size, end = begin + part_length(c, elements), first = from > begin ? from : begin,
            last = smaller(from + n, end);
    if (first < last) {
      copy_from_part(c, tensors[i], elements, r, first - begin, last - first, to);
      to += (last - first) * size;
    }
    begin = end;
  }
}

// Elements [from, from + n) of what lies one behind the other in several buffers.
static void copy_from_all(int n_buffers, const int64_t *bytes, void *const *buffers, int64_t from, int64_t n,
                          char *to) {
  for (int64_t i = 0, begin = 0, end; i < n_buffers; i++, begin = end) {
    end = begin + bytes[i];
    int64_t first = from > begin ? from : begin, last = smaller(from + n, end);
    if (first < last) memcpy(to + (first - from), (const char *)buffers[i] + (first - begin), (size_t)(last - first));
  }
}

static void reduce_scatter(const NncCollective *c, int n_buffers, const int64_t *bytes, void *const *buffers,
                           char *workspace) {
  static int count[NNC_MAX_RANKS], at[NNC_MAX_RANKS];
  int n_tensors = c->adds ? (n_buffers - 1) / 2 : n_buffers - 1;
  int64_t size = dtype_bytes(c->dtype), piece = nnc_scattered_piece(c->elements, size, c->ranks);
  char *sum = buffers[n_buffers - 1], *come = workspace + piece * c->ranks * size;
  for (int64_t from = 0; from < c->elements; from += piece) {
    int64_t n = smaller(piece, c->elements - from);
    for (int r = 0; r < c->ranks; r++) {
      count[r] = (int)(n * size), at[r] = (int)(n * size * r);
      copy_from_parts(c, n_tensors, bytes, buffers, r, from, n, workspace + at[r]);
    }
    if (ranks.size > 1) ranks.comm->exchange(workspace, count, at, come, count, at);
    else memcpy(come, workspace, (size_t)(n * size));
    if (c->adds)
      copy_from_all(n_tensors, bytes + n_tensors, buffers + n_tensors, from * size, n * size, sum + from * size);
    for (int r = 0; r < c->ranks; r++) add_part(c->dtype, sum + from * size, come + at[r], n, r == 0 && !c->adds);
  }
}

// Where a tensor is larger than an int counts, rank after rank tells its part.
static void gather_in_turns(char *tensor, int64_t bytes, int64_t part) {
  enum { MOST = 1 << 30 };
  for (int r = 0; r < ranks.size; r++)
    for (int64_t i = part * r, end = smaller(part * (r + 1), bytes); i < end; i += MOST)
      ranks.comm->broadcast(tensor + i, (int)smaller(MOST, end - i), r);
}

// part: bytes of each in the tensor, whose type is c's; own: of this rank.
static void gather_tensor(const NncCollective *c, const char *own, int64_t part, char *tensor, int64_t bytes) {
  static int count[NNC_MAX_RANKS], at[NNC_MAX_RANKS];
  int64_t begin = part * ranks.rank, n = smaller(part, bytes - begin);
  if (n > 0 && c->from == c->dtype) memcpy(tensor + begin, own, (size_t)n);
  else if (n > 0) narrow_from_float((const float *)own, c->dtype, tensor + begin, n / dtype_bytes(c->dtype));
  if (ranks.size == 1) return;
  if (part * ranks.size > INT_MAX) {
    gather_in_turns(tensor, bytes, part);
    return;
  }
  for (int r = 0; r < ranks.size; r++) {
    at[r] = (int)smaller(part * r, bytes);
    count[r] = (int)smaller(part * (r + 1), bytes) - at[r];
  }
  ranks.comm->all_gather(tensor, count, at);
}

static void all_gather(const NncCollective *c, int n_buffers, const int64_t *bytes, void *const *buffers) {
  char *to = buffers[n_buffers - 1], *end = to + bytes[n_buffers - 1];
  for (int i = 0; i < n_buffers - 1; i++) {
    int64_t part = bytes[i] / dtype_bytes(c->from) * dtype_bytes(c->dtype), n = smaller(c->ranks * part, end - to);
    gather_tensor(c, buffers[i], part, to, n);
    to += n;
  }
}

// What is laid one behind the other first.
static void in_one_buffer(const NncCollective *c, int n_buffers, const int64_t *bytes, void *const *buffers,
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
  default:
    if (ranks.rank < last) comm->send(result, (int)all, ranks.rank + 1);
    comm->broadcast(result, (int)all, last);
  }
}

void collective_run(const NncCollective *c, int n_buffers, const int64_t *bytes, void *const *buffers,
                    void *workspace) {
  switch (c->kind) {
  case NNC_REDUCE_SCATTER: reduce_scatter(c, n_buffers, bytes, buffers, workspace); break;
  case NNC_ALL_GATHER: all_gather(c, n_buffers, bytes, buffers); break;
  case NNC_RANK_PART:
    copy_from_part(c, buffers[0], bytes[0] / dtype_bytes(c->dtype), ranks.rank, 0, c->elements, buffers[1]);
    break;
  default: in_one_buffer(c, n_buffers, bytes, buffers, workspace);
  }
}
