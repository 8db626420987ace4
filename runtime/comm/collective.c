// Collectives of the plan. A sum over ranks has one order, that of the ranks, whatever the engine and however the work
// is shared out: each rank gets its part of everybody's numbers, adds them up as accumulation does, ((0 + g0) + g1) +
// …, and hands the sums out. That moves as many bytes as a ring does, and needs a staging buffer of one bucket.
#include <limits.h>
#include <string.h>

#include "runtime/comm/comm.h"
#include "runtime/runtime.h"
#include "support/bytes.h"
#include "support/integers.h"

// In the thread of the lane: the team computes meanwhile. sum = ((0 + parts[0]) + parts[1]) + …, or with the sum itself
// in place of 0; one of the parts may be where the sum is. Read and written once, however many ranks there are.
typedef float F32x4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef double F64x2 __attribute__((vector_size(16), aligned(8), may_alias));

#define SUM(type, Vector)                                                   \
  do {                                                                      \
    type *to = sum;                                                         \
    int64_t i = 0, line = (int64_t)(64 / sizeof(type));                     \
    for (; i + line <= n; i += line) {                                      \
      Vector *out = (Vector *)(to + i), a = {0}, b = {0}, c = {0}, d = {0}; \
      if (!starts) a = out[0], b = out[1], c = out[2], d = out[3];          \
      for (int r = 0; r < n_parts; r++) {                                   \
        const Vector *in = (const Vector *)((const type *)parts[r] + i);    \
        a += in[0], b += in[1], c += in[2], d += in[3];                     \
      }                                                                     \
      out[0] = a, out[1] = b, out[2] = c, out[3] = d;                       \
    }                                                                       \
    for (; i < n; i++) {                                                    \
      type x = starts ? 0 : to[i];                                          \
      for (int r = 0; r < n_parts; r++) x += ((const type *)parts[r])[i];   \
      to[i] = x;                                                            \
    }                                                                       \
  } while (0)

// bf16 and f16: in f32, rounded after each addition.
static void add_narrow(NncDtype dtype, uint16_t *sum, const void *const *parts, int n_parts, int64_t n, bool starts) {
  enum { CHUNK = 512 };
  for (int64_t i = 0; i < n; i += CHUNK) {
    float x[CHUNK], y[CHUNK];
    uint16_t rounded[CHUNK];
    int64_t count = n - i < CHUNK ? n - i : CHUNK;
    for (int r = 0; r < n_parts; r++) {
      if (r == 0 && starts) memset(x, 0, sizeof x);
      else narrow_to_float(dtype, r == 0 ? sum + i : rounded, x, count);
      narrow_to_float(dtype, (const uint16_t *)parts[r] + i, y, count);
      for (int64_t k = 0; k < count; k++) x[k] += y[k];
      narrow_from_float(x, dtype, rounded, count);
    }
    memcpy(sum + i, rounded, (size_t)count * sizeof *sum);
  }
}

static void add_parts(NncDtype dtype, void *sum, const void *const *parts, int n_parts, int64_t n, bool starts) {
  if (dtype == NNC_F32) SUM(float, F32x4);
  else if (dtype == NNC_F64) SUM(double, F64x2);
  else add_narrow(dtype, sum, parts, n_parts, n, starts);
}

int64_t collective_part(int64_t n, int r) { return n / ranks.size * r + (n % ranks.size < r ? n % ranks.size : r); }

typedef struct Sum {   // of a part, as it comes
  NncDtype dtype;
  char *to;
  bool starts;   // with 0, not with what is there
} Sum;

static void add_chunk(const void *context, int64_t from, int64_t bytes, const void *const *parts) {
  const Sum *s = context;
  add_parts(s->dtype, s->to + from, parts, ranks.size, bytes / dtype_bytes(s->dtype), s->starts);
}

static void reduce_piece(const NncComm *comm, NncDtype dtype, char *data, int64_t n, char *staging) {
  static int count[MAX_RANKS], at[MAX_RANKS];
  int64_t size = dtype_bytes(dtype);
  for (int r = 0; r < ranks.size; r++) {
    at[r] = (int)(collective_part(n, r) * size);
    count[r] = (int)(collective_part(n, r + 1) * size) - at[r];
  }
  Sum sum = {.dtype = dtype, .to = data + at[ranks.rank], .starts = true};
  comm->exchange(data, count, at, staging, add_chunk, &sum);
  comm->all_gather(data, count, at);
}

// ---------------------------------------------------------------------------------------------------------------------
// Parts: of a tensor of n elements rank r has [r c, (r+1) c), as far as they are there

static int64_t part_length(const NncCollective *c, int64_t elements) {
  return elements_per_rank(elements, dtype_bytes(c->dtype), c->ranks);
}

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

// Bytes [from, from + n) of several buffers one behind the other, those that do not lie there yet.
static void copy_from_all(int n_buffers, const int64_t *bytes, void *const *buffers, int64_t from, int64_t n,
                          char *to) {
  for (int64_t i = 0, begin = 0, end; i < n_buffers; i++, begin = end) {
    end = begin + bytes[i];
    int64_t first = from > begin ? from : begin, last = smaller(from + n, end);
    if (first >= last) continue;
    const char *source = (const char *)buffers[i] + (first - begin);
    if (source != to + (first - from)) memcpy(to + (first - from), source, (size_t)(last - first));
  }
}

static bool by_engine(const NncCollective *c) { return c->fast && ranks.size > 1 && ranks.comm->sum; }

// Piece by piece, each laid one behind the other when it is its turn: caches still have it when it is sent.
static void all_reduce(const NncCollective *c, int n_buffers, const int64_t *bytes, void *const *buffers,
                       void *staging) {
  int64_t size = dtype_bytes(c->dtype), piece = NNC_HOST_COLLECTIVE_PIECE / size;
  char *data = buffers[n_buffers - 1];
  for (int64_t i = 0; i < c->elements; i += piece) {
    int64_t n = smaller(piece, c->elements - i);
    copy_from_all(n_buffers - 1, bytes, buffers, i * size, n * size, data + i * size);
    if (ranks.size == 1) continue;
    if (by_engine(c)) ranks.comm->sum(data + i * size, (int)n, c->dtype, false);
    else reduce_piece(ranks.comm, c->dtype, data + i * size, n, staging);
  }
}

static void reduce_scatter(const NncCollective *c, int n_buffers, const int64_t *bytes, void *const *buffers,
                           char *workspace) {
  static int count[MAX_RANKS], at[MAX_RANKS];
  int n_tensors = c->adds ? (n_buffers - 1) / 2 : n_buffers - 1;
  int64_t size = dtype_bytes(c->dtype),
          piece = nnc_scattered_piece(c->elements, size, c->ranks, NNC_HOST_COLLECTIVE_PIECE);
  char *sum = buffers[n_buffers - 1], *come = workspace + piece * c->ranks * size;
  for (int64_t from = 0; from < c->elements; from += piece) {
    int64_t n = smaller(piece, c->elements - from);
    for (int r = 0; r < c->ranks; r++) {
      count[r] = (int)(n * size), at[r] = (int)(n * size * r);
      copy_from_parts(c, n_tensors, bytes, buffers, r, from, n, workspace + at[r]);
    }
    if (c->adds)
      copy_from_all(n_tensors, bytes + n_tensors, buffers + n_tensors, from * size, n * size, sum + from * size);
    Sum piece_sum = {.dtype = c->dtype, .to = sum + from * size, .starts = !c->adds};
    if (by_engine(c)) ranks.comm->sum(workspace, (int)n, c->dtype, true);
    if (ranks.size == 1 || by_engine(c))
      add_parts(c->dtype, piece_sum.to, (const void *const[]){workspace}, 1, n, piece_sum.starts);
    else ranks.comm->exchange(workspace, count, at, come, add_chunk, &piece_sum);
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
  static int count[MAX_RANKS], at[MAX_RANKS];
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

// Small tensors, by way of a workspace that has the parts of rank after rank: one message instead of one for each.
static void gather_together(int n_parts, const int64_t *bytes, void *const *parts, char *workspace, char *result) {
  static int count[MAX_RANKS], at[MAX_RANKS];
  int all = 0;
  for (int i = 0; i < n_parts; i++) all += (int)bytes[i];
  for (int r = 0; r < ranks.size; r++) count[r] = all, at[r] = r * all;
  char *own = workspace + at[ranks.rank];
  for (int i = 0; i < n_parts; own += bytes[i++]) memcpy(own, parts[i], (size_t)bytes[i]);
  ranks.comm->all_gather(workspace, count, at);
  const char *from = workspace;
  for (int r = 0; r < ranks.size; r++) {
    char *to = result;
    for (int i = 0; i < n_parts; to += ranks.size * bytes[i], from += bytes[i], i++)
      memcpy(to + r * bytes[i], from, (size_t)bytes[i]);
  }
}

static void all_gather(const NncCollective *c, int n_buffers, const int64_t *bytes, void *const *buffers,
                       char *workspace) {
  if (workspace && ranks.size > 1) {
    gather_together(n_buffers - 1, bytes, buffers, workspace, buffers[n_buffers - 1]);
    return;
  }
  char *to = buffers[n_buffers - 1], *end = to + bytes[n_buffers - 1];
  for (int i = 0; i < n_buffers - 1; i++) {
    int64_t part = bytes[i] / dtype_bytes(c->from) * dtype_bytes(c->dtype), n = smaller(c->ranks * part, end - to);
    gather_tensor(c, buffers[i], part, to, n);
    to += n;
  }
}

// What is laid one behind the other first.
static void in_one_buffer(const NncCollective *c, int n_buffers, const int64_t *bytes, void *const *buffers) {
  char *result = buffers[n_buffers - 1], *at = result;
  int64_t all = c->elements * dtype_bytes(c->dtype);
  for (int i = c->kind == NNC_RANK_RECEIVE; i < n_buffers - 1; at += bytes[i++])
    if (at != buffers[i]) memcpy(at, buffers[i], (size_t)bytes[i]);
  if (ranks.size == 1) return;
  const NncComm *comm = ranks.comm;
  int last = ranks.size - 1;
  switch (c->kind) {
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
  case NNC_ALL_REDUCE: all_reduce(c, n_buffers, bytes, buffers, workspace); break;
  case NNC_REDUCE_SCATTER: reduce_scatter(c, n_buffers, bytes, buffers, workspace); break;
  case NNC_ALL_GATHER: all_gather(c, n_buffers, bytes, buffers, workspace); break;
  case NNC_RANK_PART:
    copy_from_part(c, buffers[0], bytes[0] / dtype_bytes(c->dtype), ranks.rank, 0, c->elements, buffers[1]);
    break;
  default: in_one_buffer(c, n_buffers, bytes, buffers);
  }
}
