// What ranks give each other, by NCCL: it moves bytes, as an engine on the host does, and sums are a kernel of the
// program that adds in the order of ranks. All of it is work on a stream, and so a part of the step's graph.
#include <string.h>

#include "runtime/comm/comm.h"
#include "runtime/cuda/cuda.h"

enum { THREADS = 256 };   // as codegen/cuda/rank_sum.c

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
  CUfunction sum;
  CUstream stream;
  int64_t size;   // bytes of an element
} Collective;

static void *pointer(CUdeviceptr p) { return (void *)(uintptr_t)p; }

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

// Every rank's part to all.
static bool hand_out(const Collective *c, CUdeviceptr data, int64_t n) {
  const CudaMemory *m = c->m;
  bool ok = NCCL(m, c->s->label, GroupStart);
  for (int r = 0; r < ranks.size && ok; r++) {
    void *part = pointer(data + (CUdeviceptr)(collective_part(n, r) * c->size));
    size_t bytes = (size_t)((collective_part(n, r + 1) - collective_part(n, r)) * c->size);
    ok = !bytes || NCCL(m, c->s->label, Broadcast, part, part, bytes, ncclUint8, r, m->nccl, c->stream);
  }
  return ok && NCCL(m, c->s->label, GroupEnd);
}

// sum[i] = ((0 + parts[i]) + parts[n + i]) + …
static bool add_parts(const Collective *c, CUdeviceptr sum, CUdeviceptr parts, int64_t n) {
  int32_t count = (int32_t)n, size = ranks.size;
  void *arguments[] = {&sum, &parts, &count, &size};
  if (!n) return true;
  if (c->m->api.expect_ranges)
    c->m->api.expect_ranges(c->stream, 2,
                            (CudaRange[]){{c->s->label, sum, (size_t)(n * c->size), false},
                                          {c->s->label, parts, (size_t)(n * c->size * size), true}});
  return CUDA(c->m, c->s->label, LaunchKernel, c->sum, (unsigned)((n + THREADS - 1) / THREADS), 1, 1, THREADS, 1, 1, 0,
              c->stream, arguments, NULL);
}

static bool all_reduce(const Collective *c, CUdeviceptr data, CUdeviceptr staging) {
  int64_t all = c->s->collective->elements, piece = NNC_COLLECTIVE_PIECE / c->size;
  for (int64_t i = 0; i < all; i += piece) {
    int64_t n = all - i < piece ? all - i : piece, begin = collective_part(n, ranks.rank);
    CUdeviceptr at = data + (CUdeviceptr)(i * c->size);
    if (!exchange(c, at, staging, n) ||
        !add_parts(c, at + (CUdeviceptr)(begin * c->size), staging, collective_part(n, ranks.rank + 1) - begin) ||
        !hand_out(c, at, n))
      return false;
  }
  return true;
}

// The operands behind each other in the result, as on the host.
static bool gather_operands(const Collective *c, const CUdeviceptr *addresses) {
  const NncStep *s = c->s;
  CUdeviceptr at = addresses[s->n_buffers - 1];
  for (int i = s->collective->kind == NNC_RANK_RECEIVE; i < s->n_buffers - 1; at += (CUdeviceptr)s->buffer_bytes[i++])
    if (at != addresses[i] &&
        !CUDA(c->m, s->label, MemcpyDtoDAsync, at, addresses[i], (size_t)s->buffer_bytes[i], c->stream))
      return false;
  return true;
}

bool cuda_run_collective(const CudaMemory *m, const NncStep *s, const CUdeviceptr *addresses, CUdeviceptr workspace,
                         CUfunction sum, CUstream stream) {
  Collective c = {m, s, sum, stream, dtype_bytes(s->collective->dtype)};
  CUdeviceptr data = addresses[s->n_buffers - 1];
  size_t bytes = (size_t)(s->collective->elements * c.size);
  int last = ranks.size - 1;
  if (!gather_operands(&c, addresses)) return false;
  if (ranks.size == 1) return true;
  switch (s->collective->kind) {
  case NNC_ALL_REDUCE: return all_reduce(&c, data, workspace);
  case NNC_RANK_RECEIVE:
    return ranks.rank == 0 || NCCL(m, s->label, Recv, pointer(data), bytes, ncclUint8, ranks.rank - 1, m->nccl, stream);
  case NNC_RANK_SEND:
    return (ranks.rank == last ||
            NCCL(m, s->label, Send, pointer(data), bytes, ncclUint8, ranks.rank + 1, m->nccl, stream)) &&
           NCCL(m, s->label, Broadcast, pointer(data), pointer(data), bytes, ncclUint8, last, m->nccl, stream);
  default: break;   // parts are the host's only
  }
  report_internal("%s: not a collective of a GPU program", s->label);
  return false;
}
