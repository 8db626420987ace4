// Stand-in for NCCL: messages between the emulated devices of processes, by what the ranks themselves talk over. As
// with NCCL they are work on a stream: what a group of calls asks for is done when the stream comes to it, in whatever
// order of its calls does not block.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/comm/comm.h"
#include "runtime/cuda/emulator/device.h"
#include "runtime/cuda/nccl.h"

typedef struct Message {
  enum { MESSAGE_SEND, MESSAGE_RECEIVE, MESSAGE_BROADCAST, MESSAGE_SUM, MESSAGE_SCATTERED_SUM } kind;
  char *at;   // device memory
  size_t bytes;
  int other;             // rank, the root of a broadcast
  ncclDataType_t type;   // of what is summed
} Message;

struct NcclComm {
  ncclResult_t error;   // of a message
};
static struct NcclComm communicator;   // a process has one

static struct {
  int depth, n, capacity;
  Message *messages;   // Owned
  CUstream stream;
} group;

static ncclResult_t counted(void) {
  Device *d = emu_device();
  return ++d->nccl_calls == d->nccl_fail ? ncclSystemError : ncclSuccess;
}

static ncclResult_t get_version(int *version) {
  *version = 22800;
  return counted();
}

static ncclResult_t get_unique_id(ncclUniqueId *id) {
  memset(id, 0, sizeof *id);
  snprintf(id->internal, sizeof id->internal, "emulated by process %d", (int)getpid());
  return counted();
}

// All ranks must bring what rank 0 has made.
static ncclResult_t comm_init_rank(ncclComm_t *comm, int size, ncclUniqueId id, int rank) {
  ncclResult_t result = counted();
  if (result) return result;
  if (size != ranks.size || rank != ranks.rank) return ncclInvalidArgument;
  ncclUniqueId first = id;
  ranks_broadcast(&first, sizeof first);
  if (memcmp(&first, &id, sizeof id) != 0 || !*id.internal) return ncclInvalidArgument;
  *comm = &communicator;
  return ncclSuccess;
}

static ncclResult_t comm_destroy(ncclComm_t comm) {
  (void)comm;
  free(group.messages);
  memset(&group, 0, sizeof group);
  return counted();
}

static ncclResult_t comm_get_async_error(ncclComm_t comm, ncclResult_t *error) {
  *error = comm->error;
  return ncclSuccess;
}

static const char *get_error_string(ncclResult_t result) {
  return result == ncclSystemError     ? "unhandled system error"
         : result == ncclRemoteError   ? "remote process exited or there was a network error"
         : result == ncclInvalidUsage  ? "invalid usage"
         : result == ncclInternalError ? "internal error"
                                       : "invalid argument";
}

// ---------------------------------------------------------------------------------------------------------------------
// Calls

static ncclResult_t submit(void) {
  Command c = {.kind = COMMAND_NCCL, .messages = group.messages, .n_messages = group.n};
  int n = group.n;
  group.messages = NULL;
  group.n = group.capacity = 0;
  if (!n) free(c.messages);
  return n && emu_submit(group.stream, &c) ? ncclUnhandledCudaError : ncclSuccess;
}

static ncclResult_t group_start(void) {
  group.depth++;
  return counted();
}

static ncclResult_t group_end(void) {
  if (group.depth == 0) return ncclInvalidUsage;
  ncclResult_t result = counted();
  return --group.depth == 0 && !result ? submit() : result;
}

static size_t element_bytes(ncclDataType_t type) { return type == ncclFloat64 ? 8 : type == ncclFloat32 ? 4 : 1; }

static ncclResult_t add(int kind, const void *at, size_t n, ncclDataType_t type, int other, ncclComm_t comm,
                        CUstream stream) {
  ncclResult_t result = counted();
  if (result) return result;
  bool sums = kind == MESSAGE_SUM || kind == MESSAGE_SCATTERED_SUM;
  bool fits = sums ? type == ncclFloat32 || type == ncclFloat64 : type == ncclUint8;
  if (comm != &communicator || !fits || !n || other < 0 || other >= ranks.size) return ncclInvalidArgument;
  if (kind < MESSAGE_BROADCAST && other == ranks.rank && !group.depth) return ncclInvalidUsage;   // would block
  if (group.n && group.stream != stream) return ncclInvalidUsage;
  if (group.n == group.capacity) {
    Message *more = realloc(group.messages, (size_t)(2 * group.capacity + 16) * sizeof *more);
    if (!more) return ncclSystemError;
    group.messages = more;
    group.capacity = 2 * group.capacity + 16;
  }
  group.stream = stream;
  group.messages[group.n++] = (Message){kind, (char *)(uintptr_t)at, n * element_bytes(type), other, type};
  return group.depth ? ncclSuccess : submit();
}

static ncclResult_t send_to(const void *from, size_t n, ncclDataType_t type, int to, ncclComm_t comm, CUstream stream) {
  return add(MESSAGE_SEND, from, n, type, to, comm, stream);
}

static ncclResult_t receive(void *to, size_t n, ncclDataType_t type, int from, ncclComm_t comm, CUstream stream) {
  return add(MESSAGE_RECEIVE, to, n, type, from, comm, stream);
}

static ncclResult_t broadcast(const void *from, void *to, size_t n, ncclDataType_t type, int root, ncclComm_t comm,
                              CUstream stream) {
  if (from != to) return ncclInvalidUsage;   // nobody asks for it
  return add(MESSAGE_BROADCAST, to, n, type, root, comm, stream);
}

static ncclResult_t all_reduce(const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, CUstream stream) {
  if (from != to || op != ncclSum) return ncclInvalidUsage;   // nobody asks for it
  return add(MESSAGE_SUM, to, n, type, 0, comm, stream);
}

static ncclResult_t reduce_scatter(const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op,
                                   ncclComm_t comm, CUstream stream) {
  size_t before = (size_t)ranks.rank * n * element_bytes(type);
  if ((const char *)from + before != to || op != ncclSum) return ncclInvalidUsage;
  return add(MESSAGE_SCATTERED_SUM, from, n * (size_t)ranks.size, type, 0, comm, stream);
}

// ---------------------------------------------------------------------------------------------------------------------
// Messages

static EmuRange message_range(const Command *c, int i) {
  const Message *m = &c->messages[i];
  bool reads = m->kind == MESSAGE_SEND || (m->kind == MESSAGE_BROADCAST && m->other == ranks.rank);
  return (EmuRange){"a message of NCCL", (uintptr_t)m->at, m->bytes, reads};
}

static bool inside_memory(const Message *m) {
  int n;
  EmuRange *all = emu_ranges(&(Command){0}, &n);
  bool inside = all && emu_ranges_contain(all, n, m->at, m->bytes);
  free(all);
  return inside;
}

static void pass(const Message *m) {
  if (m->kind == MESSAGE_SEND) ranks.comm->send(m->at, (int)m->bytes, m->other);
  else if (m->kind == MESSAGE_RECEIVE) ranks.comm->receive(m->at, (int)m->bytes, m->other);
  else ranks.comm->broadcast(m->at, (int)m->bytes, m->other);
}

static void pass_all(const Command *c, int kind, int other) {
  for (int i = 0; i < c->n_messages; i++)
    if ((int)c->messages[i].kind == kind && c->messages[i].other == other) pass(&c->messages[i]);
}

// In an order of its own, as NCCL: from the last rank to the first.
static bool sum_up(const Message *m) {
  char *sum = calloc(1, m->bytes), *other = malloc(m->bytes);
  for (int r = ranks.size - 1; r >= 0 && sum && other; r--) {
    if (r == ranks.rank) memcpy(other, m->at, m->bytes);
    ranks.comm->broadcast(other, (int)m->bytes, r);
    if (m->type == ncclFloat64)
      for (size_t i = 0; i < m->bytes / sizeof(double); i++) ((double *)sum)[i] += ((double *)other)[i];
    else
      for (size_t i = 0; i < m->bytes / sizeof(float); i++) ((float *)sum)[i] += ((float *)other)[i];
  }
  bool ok = sum && other, scatters = m->kind == MESSAGE_SCATTERED_SUM;
  size_t n = m->bytes / (size_t)(scatters ? ranks.size : 1), own = scatters ? n * (size_t)ranks.rank : 0;
  if (ok) memcpy(m->at + own, sum + own, n);
  free(sum);
  free(other);
  return ok;
}

// Each two ranks in the same order of all pairs, of which the first rank sends first: then no two wait for each other.
static CUresult pass_messages(const Command *c) {
  Device *d = emu_device();
  for (int i = 0; i < c->n_messages; i++) {
    if (inside_memory(&c->messages[i])) continue;
    return emu_fault(EMU_OUT_OF_BOUNDS, "out of bounds: a message of NCCL that is not inside one allocation");
  }
  d->nccl_messages++;
  if (d->nccl_messages == d->nccl_lose) {
    communicator.error = ncclRemoteError;
    d->stuck = true;
    return CUDA_SUCCESS;
  }
  for (int other = 0; other < ranks.size; other++) {
    bool first = ranks.rank < other;
    pass_all(c, first ? MESSAGE_SEND : MESSAGE_RECEIVE, other);
    pass_all(c, first ? MESSAGE_RECEIVE : MESSAGE_SEND, other);
  }
  for (int root = 0; root < ranks.size; root++) pass_all(c, MESSAGE_BROADCAST, root);
  for (int i = 0; i < c->n_messages; i++)
    if (c->messages[i].kind >= MESSAGE_SUM && !sum_up(&c->messages[i])) return CUDA_ERROR_OUT_OF_MEMORY;
  return CUDA_SUCCESS;
}

void nnc_emu_bind_nccl(CudaApi *api) {
  static CudaNccl nccl = {.GetVersion = get_version,
                          .GetUniqueId = get_unique_id,
                          .CommInitRank = comm_init_rank,
                          .CommDestroy = comm_destroy,
                          .CommGetAsyncError = comm_get_async_error,
                          .GetErrorString = get_error_string,
                          .GroupStart = group_start,
                          .GroupEnd = group_end,
                          .Send = send_to,
                          .Recv = receive,
                          .AllReduce = all_reduce,
                          .ReduceScatter = reduce_scatter,
                          .Broadcast = broadcast};
  api->nccl = &nccl;
  emu_device()->pass_messages = pass_messages;
  emu_device()->message_range = message_range;
}
