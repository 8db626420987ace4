// A stand-in for libnccl.so.2 that moves nothing, for the cuda target's own dlopen, symbol list and errors.
//   FAKE_NCCL_FAIL=CALL:N:CODE   the Nth call of CALL (from 1) returns CODE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/nccl.h"

static ncclResult_t enter(const char *call) {
  static int count;
  const char *plan = getenv("FAKE_NCCL_FAIL");
  size_t length = strlen(call);
  int nth = 1, code = ncclInternalError;
  if (!plan || strncmp(plan, call, length) || plan[length] != ':' ||
      sscanf(plan + length, ":%d:%d", &nth, &code) != 2 || ++count != nth)
    return ncclSuccess;
  return code;
}

#define CALL(name, ...)                                                  \
  __attribute__((visibility("default"))) ncclResult_t name(__VA_ARGS__); \
  __attribute__((visibility("default"))) ncclResult_t name(__VA_ARGS__) { return enter(#name); }
CALL(ncclGetVersion, int *version)
CALL(ncclGetUniqueId, ncclUniqueId *id)
CALL(ncclCommDestroy, ncclComm_t comm)
CALL(ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t *error)
CALL(ncclGroupStart, void)
CALL(ncclGroupEnd, void)
CALL(ncclSend, const void *from, size_t n, ncclDataType_t type, int to, ncclComm_t comm, CUstream stream)
CALL(ncclRecv, void *to, size_t n, ncclDataType_t type, int from, ncclComm_t comm, CUstream stream)
CALL(ncclAllReduce, const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
     CUstream stream)
CALL(ncclReduceScatter, const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
     CUstream stream)
CALL(ncclBroadcast, const void *from, void *to, size_t n, ncclDataType_t type, int root, ncclComm_t comm,
     CUstream stream)

__attribute__((visibility("default"))) ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id,
                                                                     int rank);
__attribute__((visibility("default"))) ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id,
                                                                     int rank) {
  static int one;
  *comm = (ncclComm_t)(void *)&one;
  return enter("ncclCommInitRank");
}

__attribute__((visibility("default"))) const char *ncclGetErrorString(ncclResult_t result);
__attribute__((visibility("default"))) const char *ncclGetErrorString(ncclResult_t result) {
  return result == ncclInvalidUsage ? "invalid usage" : "unhandled error";
}
