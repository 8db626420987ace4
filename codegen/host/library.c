// The scratch that oneDNN and the runtime's own loops need for a library op.
#include "runtime/library.h"
#include "codegen/host/host.h"
#include "codegen/op_records.h"

int64_t host_library_scratch(MlirOperation op) {
  NncConv conv;
  NncMatmul matmul;
  if (op_conv_record(op, &conv)) return nnc_conv_scratch(&conv);
  if (op_matmul_record(op, &matmul)) return nnc_matmul_scratch(&matmul);
  if (op_is_attention(op)) {
    NncAttention attention = op_attention_record(op);
    return nnc_attention_scratch(&attention);
  }
  return 0;
}
