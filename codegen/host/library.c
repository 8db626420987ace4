// The scratch that oneDNN and the runtime's own loops need for a library op.
#include "runtime/library.h"
#include "codegen/host/host.h"
#include "codegen/op_records.h"

// Small tensors travel together: the parts of all ranks, one rank's behind the other's.
static int64_t gather_scratch(MlirOperation op, const NncCollective *c) {
  enum { SMALL = 1 << 20 };
  NnType result = nn_value_type(mlirOperationGetResult(op, 0));
  int64_t bytes = nn_type_bytes(&result);
  bool together = c->kind == NNC_ALL_GATHER && mlirOperationGetNumOperands(op) > 1 && bytes <= SMALL;
  return together ? bytes : nnc_collective_scratch(c, NNC_HOST_COLLECTIVE_PIECE);
}

int64_t host_library_scratch(MlirOperation op) {
  OpRecord r = op_record(op);
  switch (r.kind) {
#define SCRATCH(KIND, name, Record, gpu) \
  case NNC_STEP_##KIND: return nnc_##name##_scratch(&r.name);
    NNC_LIBRARY_RECORDS(SCRATCH)
#undef SCRATCH
  case NNC_STEP_COLLECTIVE: return gather_scratch(op, &r.collective);
  default: return 0;
  }
}
