// The scratch that oneDNN and the runtime's own loops need for a library op.
#include "runtime/library.h"
#include "codegen/host/host.h"
#include "codegen/op_records.h"

int64_t host_library_scratch(MlirOperation op) {
  OpRecord r = op_record(op);
  switch (r.kind) {
#define SCRATCH(KIND, name, Record, gpu) \
  case NNC_STEP_##KIND: return nnc_##name##_scratch(&r.name);
    NNC_LIBRARY_RECORDS(SCRATCH)
#undef SCRATCH
  case NNC_STEP_COLLECTIVE: return nnc_collective_scratch(&r.collective);
  default: return 0;
  }
}
