// Library ops as the runtime's step records, from which every target takes names, sizes of workspaces and code.
#ifndef NNC_CODEGEN_OP_RECORDS_H
#define NNC_CODEGEN_OP_RECORDS_H

#include "ir/ir.h"
#include "runtime/program.h"

bool op_conv_record(MlirOperation op, NncConv *out);       // false: not a convolution
bool op_matmul_record(MlirOperation op, NncMatmul *out);   // false: not a matrix product
bool op_is_attention(MlirOperation op);
NncAttention op_attention_record(MlirOperation op);   // of attention and its gradients, without scratch

#endif
