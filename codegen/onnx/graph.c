// The graph of an ONNX model (onnx/onnx.proto): nodes in the order of the ops, constants and weights as initialisers.
#include "codegen/onnx/onnx.h"

#include <stdlib.h>
#include <string.h>

#include "passes/passes.h"
#include "runtime/runtime.h"
#include "support/alloc.h"
#include "support/ptr_map.h"
#include "support/text.h"
#include "support/version.h"

// Numbers of fields.
enum { MODEL_VERSION = 1, MODEL_PRODUCER = 2, MODEL_PRODUCER_VERSION = 3, MODEL_GRAPH = 7, MODEL_OPSET = 8 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_TYPE = 4, NODE_ATTRIBUTE = 5 };
enum {
  ATTRIBUTE_NAME = 1,
  ATTRIBUTE_F = 2,
  ATTRIBUTE_I = 3,
  ATTRIBUTE_S = 4,
  ATTRIBUTE_G = 6,
  ATTRIBUTE_INTS = 8,
  ATTRIBUTE_TYPE = 20
};
enum { TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_STRING = 3, TYPE_GRAPH = 5, TYPE_INTS = 7 };
enum { TENSOR_DIM = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_DATA = 9 };
enum { IR_VERSION = 8, OPSET = 18 };

struct OnnxGraph {
  OnnxParts parts;
  PtrMap values;   // of the function, by place in `names`
  int n_names;
  char **names;   // Owned
};

// ORDER DTYPE: onnx.TensorProto.DataType
static int64_t data_type(NnDtype t) {
  static const int types[] = {
      [NN_F32] = 1, [NN_F64] = 11, [NN_BF16] = 16, [NN_F16] = 10, [NN_I32] = 6, [NN_I64] = 7, [NN_U8] = 2, [NN_I1] = 9};
  return types[t];
}

static int keep_name(OnnxGraph *g, char *name) {
  *ARRAY_ADD(g->names, g->n_names) = name;
  return g->n_names - 1;
}

// With a character that no name in a program has.
OnnxName onnx_new_name(OnnxGraph *g) {
  int i = keep_name(g, text_format("/%d", g->n_names));
  return g->names[i];
}

// An input, weight or output, which are found by their names: the path that the program gives it, with a number behind
// where another has that already.
static OnnxName public_name(OnnxGraph *g, MlirAttribute path, const char *otherwise) {
  char *own = mlirAttributeIsNull(path) ? copy_string(otherwise) : nn_string_copy(mlirStringAttrGetValue(path)),
       *name = copy_string(own);
  for (int k = 2, i = 0; i < g->n_names; i++) {
    if (strcmp(g->names[i], name) != 0) continue;
    free(name);
    name = text_format("%s_%d", own, k++);
    i = -1;   // from the beginning
  }
  free(own);
  int i = keep_name(g, name);
  return g->names[i];
}

void onnx_set_name(OnnxGraph *g, MlirValue v, OnnxName name) {
  ptr_map_set(&g->values, v.ptr, keep_name(g, copy_string(name)));
}

OnnxName onnx_name_of(const OnnxGraph *g, MlirValue v) { return g->names[ptr_map_get(&g->values, v.ptr)]; }

OnnxName onnx_operand(OnnxGraph *g, MlirOperation op, int i) { return onnx_name_of(g, nn_operand(op, i)); }

// ---------------------------------------------------------------------------------------------------------------------
// Attributes, nodes

static void add_attribute(Text *t, Text *attribute, const char *name, int type) {
  protobuf_string(attribute, ATTRIBUTE_NAME, name);
  protobuf_int(attribute, ATTRIBUTE_TYPE, type);
  protobuf_message(t, NODE_ATTRIBUTE, attribute);
}

void onnx_attribute_int(Text *t, const char *name, int64_t v) {
  Text a = {0};
  protobuf_int(&a, ATTRIBUTE_I, v);
  add_attribute(t, &a, name, TYPE_INT);
}

void onnx_attribute_float(Text *t, const char *name, double v) {
  Text a = {0};
  protobuf_float(&a, ATTRIBUTE_F, (float)v);
  add_attribute(t, &a, name, TYPE_FLOAT);
}

void onnx_attribute_string(Text *t, const char *name, const char *v) {
  Text a = {0};
  protobuf_string(&a, ATTRIBUTE_S, v);
  add_attribute(t, &a, name, TYPE_STRING);
}

void onnx_attribute_ints(Text *t, const char *name, int n, const int64_t *v) {
  Text a = {0};
  for (int i = 0; i < n; i++) protobuf_int(&a, ATTRIBUTE_INTS, v[i]);
  add_attribute(t, &a, name, TYPE_INTS);
}

void onnx_nodes(OnnxGraph *g, const char *type, int n, const OnnxName *inputs, int n_outputs, const OnnxName *outputs,
                Text *attributes) {
  Text node = {0};
  for (int i = 0; i < n; i++) protobuf_string(&node, NODE_INPUT, inputs[i]);
  for (int i = 0; i < n_outputs; i++) protobuf_string(&node, NODE_OUTPUT, outputs[i]);
  protobuf_string(&node, NODE_TYPE, type);
  if (attributes && attributes->size) text_append(&node, attributes->data, attributes->size);
  if (attributes) text_free(attributes);
  protobuf_message(&g->parts.nodes, GRAPH_NODE, &node);
}

OnnxName onnx_node(OnnxGraph *g, const char *type, int n, const OnnxName *inputs, Text *attributes) {
  OnnxName output = onnx_new_name(g);
  onnx_nodes(g, type, n, inputs, 1, &output, attributes);
  return output;
}

OnnxName onnx_node_second(OnnxGraph *g, const char *type, int n, const OnnxName *inputs, Text *attributes) {
  OnnxName outputs[] = {onnx_new_name(g), onnx_new_name(g)};
  onnx_nodes(g, type, n, inputs, 2, outputs, attributes);
  return outputs[1];
}

OnnxName onnx_unary(OnnxGraph *g, const char *type, OnnxName x) { return onnx_node(g, type, 1, &x, NULL); }

OnnxName onnx_binary(OnnxGraph *g, const char *type, OnnxName x, OnnxName y) {
  return onnx_node(g, type, 2, (OnnxName[]){x, y}, NULL);
}

OnnxName onnx_reshape(OnnxGraph *g, OnnxName x, int rank, const int64_t *dim) {
  return onnx_binary(g, "Reshape", x, onnx_ints(g, rank, dim));
}

OnnxName onnx_expand(OnnxGraph *g, OnnxName x, int rank, const int64_t *dim) {
  return onnx_binary(g, "Expand", x, onnx_ints(g, rank, dim));
}

OnnxName onnx_transpose(OnnxGraph *g, OnnxName x, int rank, const int64_t *perm) {
  Text attributes = {0};
  onnx_attribute_ints(&attributes, "perm", rank, perm);
  return onnx_node(g, "Transpose", 1, &x, &attributes);
}

OnnxName onnx_cast(OnnxGraph *g, OnnxName x, NnDtype dtype) {
  Text attributes = {0};
  onnx_attribute_int(&attributes, "to", data_type(dtype));
  return onnx_node(g, "Cast", 1, &x, &attributes);
}

// ---------------------------------------------------------------------------------------------------------------------
// Constants and weights

static void add_initializer(OnnxGraph *g, OnnxName name, NnType type, const void *data, size_t bytes) {
  Text tensor = {0};
  for (int i = 0; i < type.rank; i++) protobuf_int(&tensor, TENSOR_DIM, type.dim[i]);
  protobuf_int(&tensor, TENSOR_TYPE, data_type(type.dtype));
  protobuf_string(&tensor, TENSOR_NAME, name);
  protobuf_bytes(&tensor, TENSOR_DATA, data, bytes);
  protobuf_message(&g->parts.initializers, GRAPH_INITIALIZER, &tensor);
}

OnnxName onnx_ints(OnnxGraph *g, int n, const int64_t *values) {
  OnnxName name = onnx_new_name(g);
  add_initializer(g, name, nn_type(NN_I64, 1, (int64_t[]){n}), values, sizeof *values * (size_t)n);
  return name;
}

OnnxName onnx_number(OnnxGraph *g, NnDtype dtype, double value) {
  OnnxName name = onnx_new_name(g);
  char data[8];
  convert_elements(NNC_F64, &value, (NncDtype)dtype, data, 1);   // ORDER DTYPE
  add_initializer(g, name, nn_scalar(dtype), data, (size_t)nn_dtype_bytes(dtype));
  return name;
}

OnnxName onnx_range(OnnxGraph *g, NnDtype dtype, int64_t first, int64_t n) {
  OnnxName name = onnx_new_name(g);
  int64_t bytes = nn_dtype_bytes(dtype);
  char *data = allocate_array((size_t)n, (size_t)bytes);
  for (int64_t i = 0; i < n; i++) {
    int64_t value = first + i;
    convert_elements(NNC_I64, &value, (NncDtype)dtype, data + i * bytes, 1);
  }
  add_initializer(g, name, nn_type(dtype, 1, &n), data, (size_t)(n * bytes));
  free(data);
  return name;
}

// The tensor of a weight file, of the parameter's type or one that is converted into it.
static bool add_weight(OnnxGraph *g, const Safetensors *file, const char *path, OnnxName name, const NnType *type) {
  const SafetensorsEntry *e = safetensors_find(file, path);
  NncDtype dtype;
  if (!e) {
    safetensors_report_missing(file, path, "");
    return false;
  }
  bool fits = e->rank == type->rank && safetensors_dtype(e->dtype, &dtype) &&
              dtype_convertible(dtype, (NncDtype)type->dtype);
  for (int i = 0; fits && i < e->rank; i++) fits = e->dim[i] == type->dim[i];
  if (!fits) {
    report_error("%s: %s is of another type or shape than the parameter", file->path, path);
    return false;
  }
  int64_t n = nn_type_elements(type), bytes = nn_type_bytes(type);
  char *theirs = allocate_array((size_t)e->bytes, 1), *data = allocate_array((size_t)bytes, 1);
  bool ok = safetensors_read(file, e, 0, e->bytes, theirs);
  if (ok) {
    convert_elements(dtype, theirs, (NncDtype)type->dtype, data, n);
    add_initializer(g, name, *type, data, (size_t)bytes);
  }
  free(theirs);
  free(data);
  return ok;
}

// ---------------------------------------------------------------------------------------------------------------------
// The function

// ValueInfoProto { name, TypeProto { Tensor { elem_type, TensorShapeProto { Dimension { dim_value } } } } }
static void add_value(Text *t, int field, OnnxName name, const NnType *type) {
  Text shape = {0}, tensor = {0}, of = {0}, value = {0};
  for (int i = 0; i < type->rank; i++) {
    Text dim = {0};
    protobuf_int(&dim, 1, type->dim[i]);
    protobuf_message(&shape, 1, &dim);
  }
  protobuf_int(&tensor, 1, data_type(type->dtype));
  protobuf_message(&tensor, 2, &shape);
  protobuf_message(&of, 1, &tensor);
  protobuf_string(&value, 1, name);
  protobuf_message(&value, 2, &of);
  protobuf_message(t, field, &value);
}

static bool add_arguments(OnnxGraph *g, MlirOperation func, const Safetensors *weights) {
  bool ok = true;
  for (int a = 0; a < nn_function_n_args(func) && ok; a++) {
    char role[16];
    MlirValue v = mlirBlockGetArgument(nn_function_body(func), a);
    MlirAttribute path = nn_arg_attr(func, a, ATTR_name);
    NnType type = nn_value_type(v);
    nn_arg_str(func, a, ATTR_role, role, sizeof role, "");
    onnx_set_name(g, v, public_name(g, path, "random"));
    bool weight = strcmp(role, "param") == 0 || strcmp(role, "state") == 0;
    char *own = weight && weights ? nn_string_copy(mlirStringAttrGetValue(path)) : NULL;
    if (own) ok = add_weight(g, weights, own, onnx_name_of(g, v), &type);
    else add_value(&g->parts.inputs, GRAPH_INPUT, onnx_name_of(g, v), &type);
    free(own);
  }
  return ok;
}

static void free_parts(OnnxParts *parts) {
  text_free(&parts->nodes);
  text_free(&parts->initializers);
  text_free(&parts->inputs);
  text_free(&parts->outputs);
}

// And frees the parts.
static void write_graph(const char *name, OnnxGraph *g, Text *out) {
  const Text *parts[] = {&g->parts.nodes, &g->parts.initializers, &g->parts.inputs, &g->parts.outputs};
  protobuf_string(out, GRAPH_NAME, name);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (parts[i]->size) text_append(out, parts[i]->data, parts[i]->size);
  free_parts(&g->parts);
}

bool onnx_ops(OnnxGraph *g, MlirOperation func) {
  bool ok = true;
  NN_FOREACH_OP (op, nn_function_body(func)) {
    NnOp kind = nn_op_of(op);
    NnScan scan;
    const char *why = NULL;
    if (nn_is(op, "func.return")) break;
    if (kind != NN_OP_NONE && nn_op_info(kind)->kind == NN_KIND_MARK) continue;
    if (nn_scan_of(op, &scan)) {
      ok &= onnx_loop(g, op, &scan);
      continue;
    }
    OnnxName results[NN_MAX_RESULTS] = {NULL};
    if (!onnx_op(g, op, results, &why)) {
      nn_error(op, "ONNX has no counterpart of %s%s%s", nn_op_info(kind)->name, why ? ": " : "", why ? why : "");
      ok = false;
    }
    for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++)
      onnx_set_name(g, nn_result(op, r), results[r] ? results[r] : "");
  }
  return ok;
}

OnnxParts onnx_begin_body(OnnxGraph *g) {
  OnnxParts around = g->parts;
  g->parts = (OnnxParts){{0}, {0}, {0}, {0}};
  return around;
}

OnnxName onnx_body_input(OnnxGraph *g, const NnType *type) {
  OnnxName name = onnx_new_name(g);
  add_value(&g->parts.inputs, GRAPH_INPUT, name, type);
  return name;
}

// By a node of its own: a result may be an argument, one from around, or be there twice.
void onnx_body_output(OnnxGraph *g, OnnxName from, const NnType *type) {
  add_value(&g->parts.outputs, GRAPH_OUTPUT, onnx_unary(g, "Identity", from), type);
}

void onnx_end_body(OnnxGraph *g, const OnnxParts *around, Text *attributes) {
  Text graph = {0}, a = {0};
  write_graph("body", g, &graph);
  protobuf_message(&a, ATTRIBUTE_G, &graph);
  add_attribute(attributes, &a, "body", TYPE_GRAPH);
  g->parts = *around;
}

static void add_results(OnnxGraph *g, MlirOperation func) {
  MlirOperation ret = nn_function_return(func);
  for (int r = 0; r < nn_function_n_results(func); r++) {
    char role[16];
    MlirValue v = mlirOperationGetOperand(ret, r);
    NnType type = nn_value_type(v);
    if (strcmp(nn_result_str(func, r, ATTR_role, role, sizeof role, ""), "output") != 0) continue;
    OnnxName from = onnx_name_of(g, v);
    OnnxName to = public_name(g, nn_result_attr(func, r, ATTR_name), "output");
    onnx_nodes(g, "Identity", 1, &from, 1, &to, NULL);
    add_value(&g->parts.outputs, GRAPH_OUTPUT, to, &type);
  }
}

static void write_model(const char *model, OnnxGraph *g, Text *out) {
  Text graph = {0}, opset = {0};
  write_graph(model, g, &graph);
  protobuf_int(&opset, 2, OPSET);   // domain: absent, ONNX's own
  protobuf_int(out, MODEL_VERSION, IR_VERSION);
  protobuf_string(out, MODEL_PRODUCER, "nnc");
  protobuf_string(out, MODEL_PRODUCER_VERSION, NNC_VERSION);
  protobuf_message(out, MODEL_OPSET, &opset);
  protobuf_message(out, MODEL_GRAPH, &graph);
}

static void free_graph(OnnxGraph *g) {
  free_parts(&g->parts);
  for (int i = 0; i < g->n_names; i++) free(g->names[i]);
  free(g->names);
  ptr_map_free(&g->values);
}

bool onnx_write(MlirOperation func, const char *model, const char *weights, Text *out) {
  const size_t most = (size_t)INT32_MAX;   // of a protobuf message
  OnnxGraph g = {0};
  Safetensors file;
  *out = (Text){0};
  report_set_name("nnc");   // what reads the weights calls itself a program otherwise
  if (weights && !safetensors_open(weights, &file)) return false;
  bool ok = add_arguments(&g, func, weights ? &file : NULL);
  if (weights) safetensors_close(&file);
  ok = ok && onnx_ops(&g, func);
  if (ok) add_results(&g, func);
  if (ok && g.parts.initializers.size + g.parts.nodes.size > most) {
    report_error("a file of ONNX holds at most 2 GiB: without --weights the parameters are inputs");
    ok = false;
  }
  if (ok) write_model(model, &g, out);
  free_graph(&g);
  return ok;
}
