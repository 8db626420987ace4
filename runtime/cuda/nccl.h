// NCCL as the runtime sees it: our own declarations of its documented ABI (NCCL reference manual, versions 2.10 and
// later), one list of symbols, one table. load.c fills it from libnccl with dlopen, an executable for cuda-emu with the
// emulator's stand-ins.
#ifndef NNC_RUNTIME_CUDA_NCCL_H
#define NNC_RUNTIME_CUDA_NCCL_H

#include "runtime/cuda/driver.h"

typedef int ncclResult_t;
typedef int ncclDataType_t;
typedef struct NcclComm *ncclComm_t;
enum { NCCL_UNIQUE_ID_BYTES = 128 };
typedef struct ncclUniqueId {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};
typedef int ncclRedOp_t;
enum { ncclUint8 = 1, ncclFloat32 = 7, ncclFloat64 = 8 };
enum { ncclSum = 0 };

#define NNC_NCCL_SYMBOLS(X)                                                                                        \
  X(ncclResult_t, GetVersion, "ncclGetVersion", (int *version))                                                    \
  X(ncclResult_t, GetUniqueId, "ncclGetUniqueId", (ncclUniqueId * id))                                             \
  X(ncclResult_t, CommInitRank, "ncclCommInitRank", (ncclComm_t * comm, int size, ncclUniqueId id, int rank))      \
  X(ncclResult_t, CommDestroy, "ncclCommDestroy", (ncclComm_t comm))                                               \
  X(ncclResult_t, CommGetAsyncError, "ncclCommGetAsyncError", (ncclComm_t comm, ncclResult_t * error))             \
  X(const char *, GetErrorString, "ncclGetErrorString", (ncclResult_t result))                                     \
  X(ncclResult_t, GroupStart, "ncclGroupStart", (void))                                                            \
  X(ncclResult_t, GroupEnd, "ncclGroupEnd", (void))                                                                \
  X(ncclResult_t, Send, "ncclSend",                                                                                \
    (const void *from, size_t n, ncclDataType_t type, int to, ncclComm_t comm, CUstream stream))                   \
  X(ncclResult_t, Recv, "ncclRecv",                                                                                \
    (void *to, size_t n, ncclDataType_t type, int from, ncclComm_t comm, CUstream stream))                         \
  X(ncclResult_t, AllReduce, "ncclAllReduce",                                                                      \
    (const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, CUstream stream)) \
  X(ncclResult_t, ReduceScatter, "ncclReduceScatter",                                                              \
    (const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, CUstream stream)) \
  X(ncclResult_t, Broadcast, "ncclBroadcast",                                                                      \
    (const void *from, void *to, size_t n, ncclDataType_t type, int root, ncclComm_t comm, CUstream stream))

typedef struct CudaNccl {
#define NNC_FIELD(type, field, name, parameters) type(*field) parameters;
  NNC_NCCL_SYMBOLS(NNC_FIELD)
#undef NNC_FIELD
} CudaNccl;

#endif
