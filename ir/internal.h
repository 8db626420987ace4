// Private to ir/: attributes from C values, named lookups, and how our own mistakes end.
#ifndef NNC_IR_INTERNAL_H
#define NNC_IR_INTERNAL_H

#include "ir/ir.h"

// Our own mistake, not the user's: prints the message and exits with status 70.
_Noreturn void nn_bug(const char *format, ...) __attribute__((format(printf, 1, 2)));

MlirNamedAttribute nn_attr_to_named(MlirContext ctx, const NnAttr *attr);

// What is known by addresses in a context, which another one may reuse.
void nn_types_forget(void);
void nn_ops_forget(void);
void nn_names_forget(void);

// "nn.conv2d", "nn.concat_3"
void nn_op_mlir_name(NnOp op, int n_operands, char *buf, size_t size);

// One entry of NnOpInfo.attrs.
typedef struct NnAttrSpec {
  char name[32];
  NnAttrKind kind;
  bool optional;
} NnAttrSpec;
int nn_attr_specs(NnOp op, const NnAttrSpec **specs);   // Borrowed; returns how many
bool nn_attr_is(MlirAttribute attr, NnAttrKind kind);

#endif
