// What ranks give each other, by NCCL: it moves bytes, as an engine on the host does, and sums are a kernel of the
// program that adds in the order of ranks. All of it is work on a stream, and so a part of the step's graph. What each
// collective does, element by element, is what runtime/comm/collective.c does on the host.
#include <string.h>

#include "runtime/comm/comm.h"
#include "runtime/cuda/cuda.h"
#include "runtime/library.h"
#include "support/bytes.h"
#include "support/integers.h"

enum { THREADS = 256 };   // as codegen/cuda/collective.c

// Rank 0 makes the number that all meet by. From here on a rank that fails ends all, as the others wait inside of NCCL.
bool cuda_join(const Arena *arena) {
  CudaMemory *m = arena->memory;
  const char *what = "meeting the other ranks' GPUs";
  ncclUniqueId id = {{0}};
  if (ranks.size == 1) return true;
  if (ranks.rank == 0 && !NCCL(m, what, GetUniqueId, &id)) ranks_abort(EXIT_DIAGNOSTIC);
  ranks_broadcast(&id, sizeof id);
  if (!NCCL(m, what, CommInitRank, &m->nccl, ranks.size, id, ranks.rank)) ranks_abort(EXIT_DIAGNOSTIC);
  return true;
}

typedef struct Collective {
  const CudaMemory *m;
  const NncStep *s;
  CUfunction kernel;
  CUstream stream;
  int64_t size;   // bytes of an element
} Collective;

static void *pointer(CUdeviceptr p) { return (void *)(uintptr_t)p; }

static bool copy(const Collective *c, CUdeviceptr to, CUdeviceptr from, int64_t bytes) {
  return bytes == 0 || to == from || CUDA(c->m, c->s->label, MemcpyDtoDAsync, to, from, (size_t)bytes, c->stream);
}

static bool clear(const Collective *c, CUdeviceptr at, int64_t bytes) {
  return bytes == 0 || CUDA(c->m, c->s->label, MemsetD8Async, at, 0, (size_t)bytes, c->stream);
}

// A thread for each of n elements, which lie at `to`, and what they are made of at `from`.
static bool launch(const Collective *c, int64_t n, CudaRange to, CudaRange from, void **arguments) {
  if (c->m->api.expect_ranges) c->m->api.expect_ranges(c->stream, 2, (CudaRange[]){to, from});
  return CUDA(c->m, c->s->label, LaunchKernel, c->kernel, (unsigned)((n + THREADS - 1) / THREADS), 1, 1, THREADS, 1, 1,
              0, c->stream, arguments, NULL);
}

// To each rank its part of our numbers, from each ours of its: one behind the other in `staging`.
static bool exchange(const Collective *c, CUdeviceptr data, CUdeviceptr staging, int64_t n) {
  const CudaMemory *m = c->m;
  const char *what = c->s->label;
  size_t own = (size_t)((collective_part(n, ranks.rank + 1) - collective_part(n, ranks.rank)) * c->size);
  bool ok = NCCL(m, what, GroupStart);
  for (int r = 0; r < ranks.size && ok; r++) {
    CUdeviceptr part = data + (CUdeviceptr)(collective_part(n, r) * c->size), at = staging + (CUdeviceptr)r * own;
    size_t bytes = (size_t)((collective_part(n, r + 1) - collective_part(n, r)) * c->size);
    if (r == ranks.rank) ok = !own || CUDA(m, what, MemcpyDtoDAsync, at, part, own, c->stream);
    else
      ok = (!bytes || NCCL(m, what, Send, pointer(part), bytes, ncclUint8, r, m->nccl, c->stream)) &&
           (!own || NCCL(m, what, Recv, pointer(at), own, ncclUint8, r, m->nccl, c->stream));
  }
  return ok && NCCL(m, what, GroupEnd);
}

// Bytes [begin, end) of rank r's to all; to be called in a group.
static bool tell(const Collective *c, CUdeviceptr all, int64_t begin, int64_t end, int r) {
  void *part = pointer(all + (CUdeviceptr)begin);
  return begin >= end ||
         NCCL(c->m, c->s->label, Broadcast, part, part, (size_t)(end - begin), ncclUint8, r, c->m->nccl, c->stream);
}

// Every rank's part to all.
static bool hand_out(const Collective *c, CUdeviceptr data, int64_t n) {
  bool ok = NCCL(c->m, c->s->label, GroupStart);
  for (int r = 0; r < ranks.size && ok; r++)
    ok = tell(c, data, collective_part(n, r) * c->size, collective_part(n, r + 1) * c->size, r);
  return ok && NCCL(c->m, c->s->label, GroupEnd);
}

// sum[i] = ((sum[i] + parts[i]) + parts[n + i]) + …, the first 0 unless `adds`
static bool add_parts(const Collective *c, CUdeviceptr sum, CUdeviceptr parts, int n_parts, int64_t n, bool adds) {
  int32_t count = (int32_t)n, size = n_parts, goes_on = adds;
  size_t bytes = (size_t)(n * c->size);
  return n == 0 || launch(c, n, (CudaRange){c->s->label, sum, bytes, false},
                          (CudaRange){c->s->label, parts, bytes * (size_t)size, true},
                          (void *[]){&sum, &parts, &count, &size, &goes_on});
}

static bool by_nccl(const Collective *c) { return c->s->collective->fast && ranks.size > 1; }

static ncclDataType_t nccl_type(const Collective *c) {
  return c->s->collective->dtype == NNC_F32 ? ncclFloat32 : ncclFloat64;
}

static bool all_reduce(const Collective *c, CUdeviceptr data, CUdeviceptr staging) {
  const CudaMemory *m = c->m;
  if (by_nccl(c))
    return NCCL(m, c->s->label, AllReduce, pointer(data), pointer(data), (size_t)c->s->collective->elements,
                nccl_type(c), ncclSum, m->nccl, c->stream);
  int64_t all = c->s->collective->elements, piece = NNC_COLLECTIVE_PIECE / c->size;
  for (int64_t i = 0; i < all; i += piece) {
    int64_t n = all - i < piece ? all - i : piece, begin = collective_part(n, ranks.rank);
    CUdeviceptr at = data + (CUdeviceptr)(i * c->size);
    if (!exchange(c, at, staging, n) ||
        !add_parts(c, at + (CUdeviceptr)(begin * c->size), staging, ranks.size,
                   collective_part(n, ranks.rank + 1) - begin, false) ||
        !hand_out(c, at, n))
      return false;
  }
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Parts: of a tensor of n elements rank r has [r c, (r+1) c), as far as they are there

static int64_t part_length(const Collective *c, int64_t elements) {
  return elements_per_rank(elements, c->size, c->s->collective->ranks);
}

// Elements [from, from + n) of rank r's part, with zeros behind the end of the tensor.
static bool copy_from_part(const Collective *c, CUdeviceptr tensor, int64_t elements, int r, int64_t from, int64_t n,
                           CUdeviceptr to) {
  int64_t begin = part_length(c, elements) * r + from, there = elements - begin;
  there = there < 0 ? 0 : smaller(there, n);
  return copy(c, to, tensor + (CUdeviceptr)(begin * c->size), there * c->size) &&
         clear(c, to + (CUdeviceptr)(there * c->size), (n - there) * c->size);
}

// The same of the parts of several tensors, one behind the other.
static bool copy_from_parts(const Collective *c, int n_tensors, const CUdeviceptr *tensors, int r, int64_t from,
                            int64_t n, CUdeviceptr to) {
  bool ok = true;
  int64_t begin = 0;   // of the tensor's part
  for (int i = 0; i < n_tensors && ok; i++) {
    int64_t elements = c->s->buffer_bytes[i] / c->size, end = begin + part_length(c, elements),
            first = from > begin ? from : begin, last = smaller(from + n, end);
    if (first < last) {
      ok = copy_from_part(c, tensors[i], elements, r, first - begin, last - first, to);
      to += (CUdeviceptr)((last - first) * c->size);
    }
    begin = end;
  }
  return ok;
}

// Bytes [from, from + n) of what lies one behind the other in buffers [first, end) of the step.
static bool copy_from_all(const Collective *c, int first, int end, const CUdeviceptr *addresses, int64_t from,
                          int64_t n, CUdeviceptr to) {
  bool ok = true;
  for (int64_t i = first, begin = 0; i < end && ok; begin += c->s->buffer_bytes[i++]) {
    int64_t low = from > begin ? from : begin, high = smaller(from + n, begin + c->s->buffer_bytes[i]);
    if (low < high) ok = copy(c, to + (CUdeviceptr)(low - from), addresses[i] + (CUdeviceptr)(low - begin), high - low);
  }
  return ok;
}

// To `come` what ranks have for this one in `parts`, n numbers for each: of each rank, or the sum. Returns how many
// come, 0: it has failed.
static int exchange_parts(const Collective *c, CUdeviceptr parts, CUdeviceptr *come, int64_t n) {
  const CudaMemory *m = c->m;
  if (ranks.size == 1) return copy(c, *come, parts, n * c->size);
  if (!by_nccl(c)) return exchange(c, parts, *come, n * ranks.size) ? ranks.size : 0;
  *come = parts + (CUdeviceptr)(n * ranks.rank * c->size);
  return NCCL(m, c->s->label, ReduceScatter, pointer(parts), pointer(*come), (size_t)n, nccl_type(c), ncclSum, m->nccl,
              c->stream);
}

static bool reduce_scatter(const Collective *c, const CUdeviceptr *addresses, CUdeviceptr workspace) {
  const NncCollective *k = c->s->collective;
  int operands = c->s->n_buffers - 1, n_tensors = k->adds ? operands / 2 : operands;
  int64_t piece = nnc_scattered_piece(k->elements, c->size, k->ranks, NNC_SCATTER_PIECE);
  for (int64_t from = 0; from < k->elements; from += piece) {
    int64_t n = smaller(piece, k->elements - from);
    CUdeviceptr sum = addresses[operands] + (CUdeviceptr)(from * c->size),
                come = workspace + (CUdeviceptr)(piece * k->ranks * c->size);
    bool ok = true;
    for (int r = 0; r < k->ranks && ok; r++)
      ok = copy_from_parts(c, n_tensors, addresses, r, from, n, workspace + (CUdeviceptr)(n * r * c->size));
    int n_parts = ok ? exchange_parts(c, workspace, &come, n) : 0;
    if (!n_parts || (k->adds && !copy_from_all(c, n_tensors, operands, addresses, from * c->size, n * c->size, sum)) ||
        !add_parts(c, sum, come, n_parts, n, k->adds))
      return false;
  }
  return true;
}

// This rank's part to its place in the tensor.
static bool put_part(const Collective *c, CUdeviceptr own, CUdeviceptr at, int64_t bytes) {
  if (c->s->collective->from == c->s->collective->dtype) return copy(c, at, own, bytes);
  enum { MOST = 1 << 30 };   // elements of a launch
  for (int64_t n = bytes / c->size; n > 0; n -= MOST) {
    int32_t count = (int32_t)smaller(n, MOST);
    if (!launch(c, count, (CudaRange){c->s->label, at, (size_t)(count * c->size), false},
                (CudaRange){c->s->label, own, (size_t)count * sizeof(float), true}, (void *[]){&at, &own, &count}))
      return false;
    at += (CUdeviceptr)(count * c->size);
    own += (CUdeviceptr)count * sizeof(float);
  }
  return true;
}

static bool all_gather(const Collective *c, const CUdeviceptr *addresses) {
  const NncStep *s = c->s;
  int n_parts = s->n_buffers - 1;
  CUdeviceptr result = addresses[n_parts];
  int64_t all = s->collective->elements * c->size, narrow = dtype_bytes(s->collective->from) / c->size;
  bool ok = true;
  for (int64_t i = 0, at = 0, part; i < n_parts && ok; i++, at += part * s->collective->ranks) {
    part = s->buffer_bytes[i] / narrow;
    int64_t begin = at + part * ranks.rank;
    if (begin < all) ok = put_part(c, addresses[i], result + (CUdeviceptr)begin, smaller(part, all - begin));
  }
  if (!ok || ranks.size == 1) return ok;
  ok = NCCL(c->m, s->label, GroupStart);
  for (int64_t i = 0, at = 0; i < n_parts && ok; i++)
    for (int r = 0; r < ranks.size && ok; r++) {
      int64_t begin = at;
      at = smaller(at + s->buffer_bytes[i] / narrow, all);
      ok = tell(c, result, begin, at, r);
    }
  return ok && NCCL(c->m, s->label, GroupEnd);
}

// ---------------------------------------------------------------------------------------------------------------------

// What is laid one behind the other in the result first.
static bool in_one_buffer(const Collective *c, const CUdeviceptr *addresses, CUdeviceptr workspace) {
  const NncStep *s = c->s;
  const CudaMemory *m = c->m;
  CUdeviceptr data = addresses[s->n_buffers - 1], at = data;
  size_t bytes = (size_t)(s->collective->elements * c->size);
  int last = ranks.size - 1;
  for (int i = s->collective->kind == NNC_RANK_RECEIVE; i < s->n_buffers - 1; at += (CUdeviceptr)s->buffer_bytes[i++])
    if (!copy(c, at, addresses[i], s->buffer_bytes[i])) return false;
  if (ranks.size == 1) return true;
  switch (s->collective->kind) {
  case NNC_ALL_REDUCE: return all_reduce(c, data, workspace);
  case NNC_RANK_RECEIVE:
    return ranks.rank == 0 ||
           NCCL(m, s->label, Recv, pointer(data), bytes, ncclUint8, ranks.rank - 1, m->nccl, c->stream);
  default:
    return (ranks.rank == last ||
            NCCL(m, s->label, Send, pointer(data), bytes, ncclUint8, ranks.rank + 1, m->nccl, c->stream)) &&
           NCCL(m, s->label, Broadcast, pointer(data), pointer(data), bytes, ncclUint8, last, m->nccl, c->stream);
  }
}

bool cuda_run_collective(const CudaMemory *m, const NncStep *s, const CUdeviceptr *addresses, CUdeviceptr workspace,
                         CUfunction kernel, CUstream stream) {
  const NncCollective *k = s->collective;
  Collective c = {m, s, kernel, stream, dtype_bytes(k->dtype)};
  switch (k->kind) {
  case NNC_REDUCE_SCATTER: return reduce_scatter(&c, addresses, workspace);
  case NNC_ALL_GATHER: return all_gather(&c, addresses);
  case NNC_RANK_PART:
    return copy_from_part(&c, addresses[0], s->buffer_bytes[0] / c.size, ranks.rank, 0, k->elements, addresses[1]);
  default: return in_one_buffer(&c, addresses, workspace);
  }
}
