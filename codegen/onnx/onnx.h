// @predict of a model as a file of ONNX, opset 18: of the dialect as simplify leaves it, before any layout or kernel.
#ifndef NNC_CODEGEN_ONNX_ONNX_H
#define NNC_CODEGEN_ONNX_ONNX_H

#include "ir/ir.h"
#include "support/text.h"

// Writes the function func of `model` to *out; weights: a safetensors file with the parameters and states, which become
// initialisers, NULL: they are inputs. False after reporting through MLIR: an op that has no counterpart, at its place;
// on stderr: the file. Owned by the caller, also then: text_free(out).
bool onnx_write(MlirOperation func, const char *model, const char *weights, Text *out);

// ---------------------------------------------------------------------------------------------------------------------
// protobuf.c: messages as protobuf encodes them, field by field
void protobuf_int(Text *t, int field, int64_t v);
void protobuf_float(Text *t, int field, float v);
void protobuf_bytes(Text *t, int field, const void *data, size_t n);
void protobuf_string(Text *t, int field, const char *s);
void protobuf_message(Text *t, int field, Text *inner);   // and frees it

// ---------------------------------------------------------------------------------------------------------------------
// graph.c: what the ops write into. Names live as long as the graph.
typedef struct OnnxGraph OnnxGraph;
typedef const char *OnnxName;
typedef struct OnnxParts {
  Text nodes, initializers, inputs, outputs;   // Owned; fields of the graph
} OnnxParts;
OnnxName onnx_new_name(OnnxGraph *g);
void onnx_set_name(OnnxGraph *g, MlirValue v, OnnxName name);
OnnxName onnx_name_of(const OnnxGraph *g, MlirValue v);
// The name of what an op's operand is.
OnnxName onnx_operand(OnnxGraph *g, MlirOperation op, int i);
// A node with one result; attributes: encoded by the functions below, freed; NULL: none.
OnnxName onnx_node(OnnxGraph *g, const char *type, int n, const OnnxName *inputs, Text *attributes);
// One with any number of them, whose names are given.
void onnx_nodes(OnnxGraph *g, const char *type, int n, const OnnxName *inputs, int n_outputs, const OnnxName *outputs,
                Text *attributes);
OnnxName onnx_node_second(OnnxGraph *g, const char *type, int n, const OnnxName *inputs, Text *attributes);   // of two
OnnxName onnx_unary(OnnxGraph *g, const char *type, OnnxName x);
OnnxName onnx_binary(OnnxGraph *g, const char *type, OnnxName x, OnnxName y);
OnnxName onnx_ints(OnnxGraph *g, int n, const int64_t *values);               // a constant [n] of i64
OnnxName onnx_number(OnnxGraph *g, NnDtype dtype, double value);              // a constant without axes
OnnxName onnx_range(OnnxGraph *g, NnDtype dtype, int64_t first, int64_t n);   // a constant [n]: first, first + 1, ...
OnnxName onnx_reshape(OnnxGraph *g, OnnxName x, int rank, const int64_t *dim);
OnnxName onnx_expand(OnnxGraph *g, OnnxName x, int rank, const int64_t *dim);
OnnxName onnx_transpose(OnnxGraph *g, OnnxName x, int rank, const int64_t *perm);
OnnxName onnx_cast(OnnxGraph *g, OnnxName x, NnDtype dtype);
void onnx_attribute_int(Text *t, const char *name, int64_t v);
void onnx_attribute_float(Text *t, const char *name, double v);
void onnx_attribute_string(Text *t, const char *name, const char *v);
void onnx_attribute_ints(Text *t, const char *name, int n, const int64_t *v);
// Nodes for the ops of a function, whose arguments have names; false after reporting those that have no counterpart.
bool onnx_ops(OnnxGraph *g, MlirOperation func);
// The body of a loop is a graph of its own, which may read names from around. What is between these two calls goes into
// it; the second makes it the attribute "body".
OnnxParts onnx_begin_body(OnnxGraph *g);
void onnx_end_body(OnnxGraph *g, const OnnxParts *around, Text *attributes);
OnnxName onnx_body_input(OnnxGraph *g, const NnType *type);
void onnx_body_output(OnnxGraph *g, OnnxName from, const NnType *type);

// loop.c: a scan, and ops that are loops in ONNX; false after reporting, as onnx_ops.
bool onnx_loop(OnnxGraph *g, MlirOperation call, const NnScan *scan);
OnnxName onnx_recurrence(OnnxGraph *g, MlirOperation op);
OnnxName onnx_cumulative(OnnxGraph *g, MlirOperation op);   // but sums

// ops.c: the op's results; false: it has no counterpart, *why may say more (static).
bool onnx_op(OnnxGraph *g, MlirOperation op, OnnxName *results, const char **why);
// attention.c
OnnxName onnx_attention(OnnxGraph *g, MlirOperation op);

#endif
