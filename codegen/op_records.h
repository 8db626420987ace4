// Library ops as the runtime's step records, from which every target takes names, sizes of workspaces and code.
#ifndef NNC_CODEGEN_OP_RECORDS_H
#define NNC_CODEGEN_OP_RECORDS_H

#include "ir/ir.h"
#include "runtime/program.h"
#include "support/text.h"

// The record of a library op, without scratch.
typedef struct OpRecord {
  NncStepKind kind;   // NNC_STEP_KERNEL: not a library op
  union {
#define OP_RECORD_MEMBER(KIND, name, Record, gpu) Record name;
    NNC_LIBRARY_RECORDS(OP_RECORD_MEMBER)
#undef OP_RECORD_MEMBER
    NncCollective collective;   // what ranks exchange: no library's, on the host alone
  };
} OpRecord;
OpRecord op_record(MlirOperation op);
bool op_conv_record(MlirOperation op, NncConv *out);   // false: not a convolution

// In program.c. fields: the record's initialiser; label: what the step's label says behind the op's name,
// "3x3/2 56x56x64 to 28x28x128". Both are appended.
void op_record_text(const OpRecord *r, int64_t scratch, Text *fields, Text *label);
// "NNC_STEP_CONV", "NncConv", "conv".
typedef struct OpRecordNames {
  const char *kind, *type, *field;
} OpRecordNames;
OpRecordNames op_record_names(NncStepKind kind);

#endif
