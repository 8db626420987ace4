// The nn dialect from C: types, the table of ops, building and its errors, function signatures, text, and costs.
// Gradient rules have their own program, test_gradients. `test_ir --write-ops-page` renews docs/ops.md, which must be
// what the table says.
#include <stdlib.h>
#include <string.h>

#include "mlir-c/Diagnostics.h"
#include "test/check.h"
#include "test/ir/reference.c"

static MlirContext ctx;
static MlirLocation loc;

// ---------------------------------------------------------------------------------------------------------------------
// Text: diagnostics and printed modules are collected in growing strings

typedef struct Text {
  char *data;
  size_t size;
} Text;

static void append(MlirStringRef part, void *to) {
  Text *text = to;
  text->data = realloc(text->data, text->size + part.length + 1);
  memcpy(text->data + text->size, part.data, part.length);
  text->data[text->size += part.length] = 0;
}

static MlirLogicalResult collect(MlirDiagnostic diagnostic, void *to) {
  mlirDiagnosticPrint(diagnostic, append, to);
  append(mlirStringRefCreateFromCString("\n"), to);
  return mlirLogicalResultSuccess();
}

static Text print(MlirModule module) {
  Text text = {0};
  mlirOperationPrint(mlirModuleGetOperation(module), append, &text);
  return text;
}

static MlirModule parse(const char *text) { return mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text)); }

// ---------------------------------------------------------------------------------------------------------------------

static void test_types(void) {
  char buf[64];
  for (int d = 0; d < NN_DTYPE_COUNT; d++) {
    NnDtype parsed;
    NnType t = nn_type((NnDtype)d, 3, (int64_t[]){2, 3, 5}), back;
    CHECK(nn_dtype_parse(nn_dtype_name((NnDtype)d), &parsed) && parsed == (NnDtype)d, "%s", nn_dtype_name((NnDtype)d));
    CHECK(nn_type_from_mlir(nn_type_to_mlir(ctx, &t), &back) && nn_type_equal(&t, &back), "%s",
          nn_type_format(&t, buf, sizeof buf));
    CHECK(nn_type_bytes(&t) == 30 * nn_dtype_bytes((NnDtype)d), "%s", nn_type_format(&t, buf, sizeof buf));
  }
  NnType image = nn_type(NN_F32, 4, (int64_t[]){128, 1, 28, 28}), scalar = nn_scalar(NN_F64),
         huge = nn_type(NN_U8, 2, (int64_t[]){1ll << 40, 2}), empty = nn_type(NN_I32, 1, (int64_t[]){0});
  CHECK(!strcmp(nn_type_format(&image, buf, sizeof buf), "f32[128, 1, 28, 28]"), "%s", buf);
  CHECK(!strcmp(nn_type_format(&scalar, buf, sizeof buf), "f64"), "%s", buf);
  CHECK(!strcmp(nn_type_format(&image, buf, 8), "f32[128"), "%s", buf);
  CHECK(nn_type_is_representable(&image) && nn_type_is_representable(&scalar), "an image and a scalar");
  CHECK(!nn_type_is_representable(&huge) && !nn_type_is_representable(&empty), "2^41 elements, and none");
  NnType t;
  CHECK(!nn_type_from_mlir(mlirTypeParseGet(ctx, mlirStringRefCreateFromCString("tensor<?xf32>")), &t), "dynamic");
  CHECK(!nn_type_from_mlir(mlirTypeParseGet(ctx, mlirStringRefCreateFromCString("tensor<2xi16>")), &t), "i16");
  CHECK(!nn_type_from_mlir(mlirTypeParseGet(ctx, mlirStringRefCreateFromCString("tensor<2xsi32>")), &t), "si32");
  CHECK(!nn_type_from_mlir(mlirTypeParseGet(ctx, mlirStringRefCreateFromCString("i32")), &t), "no tensor");
}

static void test_table(void) {
  for (int i = 0; i < NN_OP_COUNT; i++) {
    const NnOpInfo *info = nn_op_info((NnOp)i);
    CHECK(info->name && info->infer && info->doc && *info->doc, "row %d", i);
    CHECK(nn_op_by_name(info->name) == (NnOp)i, "%s", info->name);
    CHECK((info->expand != NULL) == (info->kind == NN_KIND_COMPOSITE && i != NN_OP_gradient), "%s", info->name);
    CHECK(info->n_results >= 0 && info->n_results <= NN_MAX_RESULTS && info->n_operands <= NN_MAX_OPERANDS, "%s",
          info->name);
    CHECK((info->n_results == 0) == (info->kind == NN_KIND_MARK), "%s", info->name);
    if (i != NN_OP_stop_gradient && i != NN_OP_gradient &&
        (info->kind == NN_KIND_LIBRARY || info->kind == NN_KIND_COMPOSITE))
      CHECK((info->vjp || i == NN_OP_attention_grad || i == NN_OP_attention_grad_packed || i == NN_OP_argsort) &&
                info->flops,
            "%s", info->name);
  }
  CHECK(nn_op_by_name("conv3d") == NN_OP_NONE && nn_op_by_name("") == NN_OP_NONE, "unknown names");
  char *page = nn_op_table_markdown(), *irdl = nn_irdl_text();
  CHECK(strstr(page, "| `conv2d` | 2 | 1 |") && strstr(page, "## Composites"), "%s", page);
  CHECK(strstr(irdl, "irdl.operation @concat_3 {") && strstr(irdl, "irdl.operation @and {"), "%s", irdl);
  free(page);
  free(irdl);
}

// ---------------------------------------------------------------------------------------------------------------------
// Errors of the shape rules, as a reader of the text sees them

typedef struct Wrong {
  const char *op, *operands, *result, *attrs, *message;
} Wrong;

#define WINDOW "strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>"

#define Q "tensor<2x4x5x8xf32>"
#define K "tensor<2x2x7x8xf32>"
#define RESULTS Q ", tensor<2x4x5xf32>"

static const Wrong wrong[] = {
    {"add", "tensor<2x3xf32>, tensor<3x2xf32>", "tensor<2x3xf32>", "", "add: shapes differ: f32[2, 3] and f32[3, 2]"},
    {"add", "tensor<2xf32>, tensor<2xf64>", "tensor<2xf32>", "",
     "add: operands differ in element type: f32[2] and f64[2]"},
    {"add", "tensor<2xi1>, tensor<2xi1>", "tensor<2xi1>", "", "add: operand 0 must be of a numeric type, found i1[2]"},
    {"exp", "tensor<2xi32>", "tensor<2xi32>", "", "exp: operand 0 must be of a floating-point type, found i32[2]"},
    {"exp", "tensor<2xf32>", "tensor<3xf32>", "", "exp: result 0 is f32[3], but the operands give f32[2]"},
    {"exp", "tensor<2xi16>", "tensor<2xi16>", "",
     "exp: operand 0 must be a tensor of f32, f64, bf16, f16, i32, i64, ui8 or i1 with known sizes"},
    {"exp", "tensor<0xf32>", "tensor<0xf32>", "", "exp: operand 0 would be f32[0], but no size may be below 1"},
    {"exp", "tensor<1048576x2097152xf32>", "tensor<1048576x2097152xf32>", "",
     "exp: operand 0 would be f32[1048576, 2097152], which has more elements than any machine holds"},
    {"compare", "tensor<2xf32>, tensor<2xf32>", "tensor<2xi1>", "predicate = \"less\"",
     "compare: predicate must be eq, ne, lt, le, gt or ge, found 'less'"},
    {"select", "tensor<2xf32>, tensor<2xf32>, tensor<2xf32>", "tensor<2xf32>", "",
     "select: operand 0 must be of type i1, found f32[2]"},
    {"select", "tensor<3xi1>, tensor<2xf32>, tensor<2xf32>", "tensor<2xf32>", "",
     "select: the condition i1[3] and the values f32[2] differ in shape"},
    {"cast", "tensor<2xf32>", "tensor<3xf64>", "",
     "cast: changes the element type only, but goes from f32[2] to f64[3]"},
    {"random_uniform", "tensor<3xi32>", "tensor<3xf32>", "", "random_uniform: the key must be i32[4], found i32[3]"},
    {"broadcast", "tensor<2x3xf32>", "tensor<2x4xf32>", "dims = array<i64: 0, 1>",
     "broadcast: axis 1 of f32[2, 3] has size 3, which is neither 1 nor the 4 of axis 1 of f32[2, 4]"},
    {"broadcast", "tensor<2x3xf32>", "tensor<3x2xf32>", "dims = array<i64: 1, 0>",
     "broadcast: dims must increase strictly"},
    {"broadcast", "tensor<2x3xf32>", "tensor<2x3xf32>", "dims = array<i64: 1>",
     "broadcast: 'dims' must have 2 entries, found 1"},
    {"reshape", "tensor<2x3xf32>", "tensor<7xf32>", "", "reshape: f32[2, 3] has 6 elements, f32[7] has 7"},
    {"transpose", "tensor<2x3xf32>", "tensor<2x3xf32>", "perm = array<i64: 0, 0>",
     "transpose: perm must name each of the 2 axes of f32[2, 3] once"},
    {"slice", "tensor<5xf32>", "tensor<3xf32>",
     "starts = array<i64: 1>, sizes = array<i64: 3>, strides = array<i64: 2>",
     "slice: axis 0 of f32[5] has no 3 elements from 1 in steps of 2"},
    {"slice", "tensor<5xf32>", "tensor<3xf32>",
     "starts = array<i64: 0>, sizes = array<i64: 3>, strides = array<i64: 0>",
     "slice: axis 0 of f32[5] has no 3 elements from 0 in steps of 0"},
    {"reduce_sum", "tensor<2x3xf32>", "tensor<3xf32>", "axes = array<i64: 2>",
     "reduce_sum: axis 2 is outside f32[2, 3]"},
    {"reduce_sum", "tensor<2x3xf32>", "tensor<f32>", "axes = array<i64: 1, 0>",
     "reduce_sum: 'axes' must increase strictly"},
    {"pad", "tensor<2xf32>", "tensor<1xf32>",
     "low = array<i64: -1>, high = array<i64: 0>, interior = array<i64: 0>, value = 0.0 : f64",
     "pad: 'low' must be at least 0, found -1"},
    {"pad", "tensor<2xf32>", "tensor<3xf32>",
     "low = array<i64: 1>, high = array<i64: 0>, interior = array<i64: 0>, value = 0 : i64", "attribute 'value'"},
    {"concat", "tensor<2x3xf32>, tensor<2x4xf32>", "tensor<4x3xf32>", "axis = 0 : i64",
     "concat: operands must agree but for axis 0: f32[2, 3] and f32[2, 4]"},
    {"concat", "tensor<2xf32>, tensor<2xf32>", "tensor<4xf32>", "axis = 1 : i64",
     "concat: axis 1 is outside a tensor of 1 axes"},
    {"concat", "tensor<2xf32>, tensor<2xf32>", "tensor<4xf32>", "axis = 0 : i32",
     "concat: attribute 'axis' must be an i64"},
    {"gather", "tensor<5x3xf32>, tensor<2xf32>", "tensor<2x3xf32>", "",
     "gather: operand 1 must be of an integer type, found f32[2]"},
    {"scatter_add_to", "tensor<4x3xf32>, tensor<4xi32>, tensor<5x2xf32>", "tensor<5x2xf32>", "",
     "scatter_add_to: f32[4, 3] are not rows of f32[5, 2] at the indices i32[4]"},
    {"scatter_add", "tensor<2x3xf32>, tensor<4xi32>", "tensor<5x3xf32>", "rows = 5 : i64",
     "scatter_add: the leading axes of f32[2, 3] must be those of the indices i32[4]"},
    {"maxpool2d", "tensor<1x1x4x4xf32>", "tensor<1x1x2x2xf32>, tensor<1x1x2x2xui8>",
     "kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 2, 0, 0, 0>",
     "maxpool2d: padding 2 is not smaller than the kernel size 2"},
    {"maxpool2d", "tensor<1x1x40x40xf32>", "tensor<1x1x1x1xf32>, tensor<1x1x1x1xui8>",
     "kernel = array<i64: 17, 16>, strides = array<i64: 32, 32>, padding = array<i64: 0, 0, 0, 0>",
     "maxpool2d: a window of 17 by 16 has more than 256 places"},
    {"matmul", "tensor<8x16xf32>, tensor<32x4xf32>", "tensor<8x4xf32>", "",
     "matmul: inner dimensions differ: lhs f32[8, 16] has 16, rhs f32[32, 4] has 32"},
    {"matmul", "tensor<2x8x16xf32>, tensor<3x16x4xf32>", "tensor<2x8x4xf32>", "",
     "matmul: leading axes differ: lhs f32[2, 8, 16], rhs f32[3, 16, 4]"},
    {"matmul", "tensor<2x8x16xf32>, tensor<8x4xf32>", "tensor<2x16x4xf32>", "transpose_a = true",
     "matmul: transpose_a needs operands of equal rank"},
    {"matmul", "tensor<8x16xf32>, tensor<16x4xf32>", "tensor<8x4xf32>", "transpose_a = 1 : i64",
     "matmul: attribute 'transpose_a' must be true or false"},
    {"matmul_rows_to", "tensor<8x16xf32>, tensor<8x4xf32>, tensor<16x5xf32>", "tensor<16x5xf32>", "",
     "matmul_rows_to: f32[16, 4] cannot be added to f32[16, 5]"},
    {"matmul_rows", "tensor<2x8x16xf32>, tensor<3x8x4xf32>", "tensor<16x4xf32>", "",
     "matmul_rows: all axes but the last must be equal: lhs f32[2, 8, 16], rhs f32[3, 8, 4]"},
    {"cumulative", "tensor<3x5xf32>", "tensor<3x5xf32>", "axis = 1 : i64, kind = \"mean\"",
     "cumulative: kind must be sum, product, argmax or argmin, found 'mean'"},
    {"cumulative", "tensor<3x5xbf16>", "tensor<3x5xbf16>", "axis = 1 : i64, kind = \"sum\"",
     "cumulative: operand 0 must be of f32, f64, i32 or i64, found bf16[3, 5]"},
    {"cumulative", "tensor<3x5xf32>", "tensor<3x5xf32>", "axis = 2 : i64, kind = \"sum\"",
     "cumulative: axis 2 is outside a tensor of 2 axes"},
    {"recurrence", "tensor<3x5xf32>, tensor<3x4xf32>", "tensor<3x5xf32>", "axis = 1 : i64",
     "recurrence: operands differ: f32[3, 5] and f32[3, 4]"},
    {"argsort", "tensor<3x5xf32>", "tensor<3x6xi32>", "axis = 1 : i64, count = 6 : i64",
     "argsort: 'count' must be from 1 to the 5 elements of axis 1, found 6"},
    {"take_along", "tensor<3x5xf32>, tensor<4x2xi32>", "tensor<4x2xf32>", "axis = 1 : i64",
     "take_along: f32[3, 5] and indices i32[4, 2] differ in another axis than the one gone along"},
    {"take_along", "tensor<3x5xf32>, tensor<3x2xf32>", "tensor<3x2xf32>", "axis = 1 : i64",
     "take_along: indices must be i32 or i64, found f32[3, 2]"},
    {"scatter_along", "tensor<3x5xf32>, tensor<3x4xi32>", "tensor<3x7xf32>", "axis = 1 : i64, size = 7 : i64",
     "scatter_along: f32[3, 5] and indices i32[3, 4] differ"},
    {"attention_3", Q ", tensor<2x3x7x8xf32>, tensor<2x3x7x8xf32>", RESULTS, "scale = 1.0 : f64",
     "attention: 3 heads of keys and values do not divide the 4 heads of queries"},
    {"attention_3", Q ", tensor<2x2x7x8xf32>, tensor<2x2x6x8xf32>", RESULTS, "scale = 1.0 : f64",
     "attention: keys and values differ: k f32[2, 2, 7, 8], v f32[2, 2, 6, 8]"},
    {"attention_3", Q ", tensor<2x2x7x4xf32>, tensor<2x2x7x4xf32>", RESULTS, "scale = 1.0 : f64",
     "attention: queries and keys differ in batch or head dimension: q f32[2, 4, 5, 8], k f32[2, 2, 7, 4]"},
    {"attention_4", Q ", " K ", " K ", tensor<2x5xi1>", RESULTS, "scale = 1.0 : f64",
     "attention: the mask must be i1[2, 7] for keys f32[2, 2, 7, 8], found i1[2, 5]"},
    {"attention_4", Q ", " K ", " K ", tensor<2x7xf32>", RESULTS, "scale = 1.0 : f64",
     "attention: the bias must be f32[1 or 2, 1 or 4, 5, 7], found f32[2, 7]"},
    {"attention_4", Q ", " K ", " K ", tensor<2x7xi64>", RESULTS, "scale = 1.0 : f64",
     "attention: after operand 2 come a mask of i1, a bias of floats and a key of i32, all optional"},
    {"attention_4", Q ", " K ", " K ", tensor<4xi32>", RESULTS, "scale = 1.0 : f64",
     "attention: dropout and a key go together"},
    {"attention_3", Q ", " K ", " K, RESULTS, "scale = 1.0 : f64, layout = \"thbd\"",
     "attention: layout must be bhtd or bthd, found 'thbd'"},
    {"attention_grad_6", Q ", " K ", " K ", " Q ", tensor<2x4x7xf32>, " Q, Q ", " K ", " K, "scale = 1.0 : f64",
     "attention_grad: operand 4 must be f32[2, 4, 5], found f32[2, 4, 7]"},
    {"attention_grad_packed_6", Q ", " K ", " K ", " Q ", tensor<2x4x5xf32>, " Q, "tensor<2x5x64xf32>",
     "scale = 1.0 : f64", "attention_grad_packed: 5 queries and 7 keys: their gradients have no common rows"},
    {"attention_grad_packed_6", Q ", " Q ", " Q ", " Q ", tensor<2x4x5xf32>, " Q, "tensor<2x5x32xf32>",
     "scale = 1.0 : f64", "attention_grad_packed: result 0 is f32[2, 5, 32], but the operands give f32[2, 5, 96]"},
    {"conv2d", "tensor<1x3x8x8xf32>, tensor<4x2x3x3xf32>", "tensor<1x4x6x6xf32>", WINDOW,
     "conv2d: image f32[1, 3, 8, 8] has 3 channels in 1 groups, weight f32[4, 2, 3, 3] expects 2 in each group"},
    {"conv2d", "tensor<1x3x2x8xf32>, tensor<4x3x3x3xf32>", "tensor<1x4x1x6xf32>", WINDOW,
     "conv2d: a window of height 3 does not fit the input of height 2"},
    {"conv2d", "tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>", "tensor<1x4x6x6xf32>", WINDOW ", layout = \"chwn\"",
     "conv2d: layout must be nchw or nhwc, found 'chwn'"},
    {"conv2d", "tensor<1x8x8x3xf32>, tensor<4x3x3x3xf32>", "tensor<1x6x6x5xf32>", WINDOW ", layout = \"nhwc\"",
     "conv2d: result 0 is f32[1, 6, 6, 5], but the operands give f32[1, 6, 6, 4]"},
    {"conv2d_input_grad", "tensor<1x4x6x6xf32>, tensor<4x3x3x3xf32>", "tensor<1x3x9x8xf32>", WINDOW,
     "conv2d_input_grad: the gradient f32[1, 4, 6, 6] does not fit image f32[1, 3, 9, 8] and weight f32[4, 3, 3, 3], "
     "which give f32[1, 4, 7, 6]"},
    {"cross_entropy", "tensor<4x10xf32>, tensor<5xi32>", "tensor<4xf32>, tensor<4xf32>", "",
     "cross_entropy: labels must have the shape of the logits without the last axis: logits f32[4, 10], labels i32[5]"},
    {"layernorm", "tensor<4x10xf32>, tensor<10xf32>, tensor<9xf32>", "tensor<4x10xf32>, tensor<4xf32>, tensor<4xf32>",
     "eps = 1.0e-5 : f64", "layernorm: beta must be f32[10] for f32[4, 10], found f32[9]"},
    {"batchnorm", "tensor<4x3x2xf32>, tensor<4xf32>, tensor<3xf32>", "tensor<4x3x2xf32>, tensor<3xf32>, tensor<3xf32>",
     "eps = 1.0e-5 : f64, axis = 1 : i64", "batchnorm: gamma must be f32[3] for axis 1 of f32[4, 3, 2], found f32[4]"},
    // What ranks give each other.
    {"all_reduce_1", "tensor<2xi32>", "tensor<2xi32>", "", "all_reduce: only floats are exchanged, found i32[2]"},
    {"all_reduce", "tensor<2xf32>, tensor<3xf64>", "tensor<5xf32>", "",
     "all_reduce: operands must have one element type, found f32[2] and f64[3]"},
    {"rank_part", "tensor<5x8xf32>", "tensor<40xf32>", "ranks = 0 : i64",
     "rank_part: ranks must be at least 1, found 0"},
    {"rank_part", "tensor<5x8xf32>", "tensor<20xf32>", "ranks = 2 : i64",
     "rank_part: result 0 is f32[20], but the operands give f32[32]"},
    {"reduce_scatter_3", "tensor<5x8xf32>, tensor<5x8xf32>, tensor<32xf32>", "tensor<32xf32>",
     "ranks = 2 : i64, adds = true", "operands and what they are added to must be as many, found 3 operands"},
    {"reduce_scatter", "tensor<5x8xf32>, tensor<20xf32>", "tensor<32xf32>", "ranks = 2 : i64, adds = true",
     "reduce_scatter: operand 1 must be a part of 32 elements, found f32[20]"},
    {"all_gather_1", "tensor<4x8xf32>", "tensor<5x8xf32>", "ranks = 2 : i64",
     "operand 0 must be a part, flat, found f32[4, 8]"},
    {"all_gather_1", "tensor<32xf64>", "tensor<5x8xbf16>", "ranks = 2 : i64",
     "one part of f32 may be gathered in bf16 or f16, found f64[32] to bf16[5, 8]"},
    {"all_gather_1", "tensor<32xf32>", "tensor<5x16xf32>", "ranks = 2 : i64",
     "parts of 32 elements in all, on 2 ranks, are not those of f32[5, 16]"},
    // Each rule about types, ranks and ranges that the rows above leave out.
    {"scatter_add", "tensor<2x3xf32>, tensor<2xf32>", "tensor<5x3xf32>", "rows = 5 : i64",
     "scatter_add: operand 1 must be of an integer type, found f32[2]"},
    {"scatter_add", "tensor<2x3xi1>, tensor<2xi32>", "tensor<5x3xi1>", "rows = 5 : i64",
     "scatter_add: operand 0 must be of a numeric type, found i1[2, 3]"},
    {"scatter_add", "tensor<2x3xbf16>, tensor<2xi32>", "tensor<5x3xbf16>", "rows = 5 : i64",
     "scatter_add: adds up in f32 or f64, found bf16[2, 3]"},
    {"scatter_add", "tensor<2x3xf32>, tensor<2xi32>", "tensor<5x3xf32>", "rows = 0 : i64",
     "scatter_add: 'rows' must be at least 1, found 0"},
    {"scatter_add", "tensor<2xf32>, tensor<2x3xi32>", "tensor<5xf32>", "rows = 5 : i64",
     "scatter_add: the leading axes of f32[2] must be those of the indices i32[2, 3]"},
    {"scatter_max", "tensor<2x3xi32>, tensor<2xi32>", "tensor<5x3xi32>", "rows = 5 : i64",
     "scatter_max: operand 0 must be of a floating-point type, found i32[2, 3]"},
    {"scatter_add_to", "tensor<4x3xbf16>, tensor<4xi32>, tensor<5x3xbf16>", "tensor<5x3xbf16>", "",
     "scatter_add_to: adds up in f32 or f64, found bf16[4, 3]"},
    {"scatter_add_to", "tensor<4x3xf32>, tensor<4xf32>, tensor<5x3xf32>", "tensor<5x3xf32>", "",
     "scatter_add_to: operand 1 must be of an integer type, found f32[4]"},
    {"scatter_add_to", "tensor<3xf32>, tensor<3xi32>, tensor<f32>", "tensor<f32>", "",
     "scatter_add_to: operand 2 must have at least 1 axis, found f32"},
    {"scatter_add_to", "tensor<4x3xf32>, tensor<4xi32>, tensor<5x3xf64>", "tensor<5x3xf64>", "",
     "scatter_add_to: f32[4, 3] are not rows of f64[5, 3] at the indices i32[4]"},
    {"gather", "tensor<f32>, tensor<2xi32>", "tensor<2xf32>", "",
     "gather: operand 0 must have at least 1 axis, found f32"},
    {"gather", "tensor<2x1x1x1x1xf32>, tensor<2x1x1x1x1xi32>", "tensor<2xf32>", "", "would have more than 8 axes"},
    {"argmax", "tensor<2xi1>", "tensor<i32>", "axis = 0 : i64",
     "argmax: operand 0 must be of a numeric type, found i1[2]"},
    {"argmax", "tensor<2xf32>", "tensor<i32>", "axis = -1 : i64", "argmax: axis -1 is outside a tensor of 1 axes"},
    {"argmax", "tensor<4294967296xf32>", "tensor<i32>", "axis = 0 : i64",
     "argmax: the index along axis 0 of f32[4294967296] does not fit an i32"},
    {"concat", "tensor<2xf32>, tensor<2xf64>", "tensor<4xf32>", "axis = 0 : i64",
     "concat: operands differ in element type: f32[2] and f64[2]"},
    {"concat", "tensor<2x3xf32>, tensor<3xf32>", "tensor<4x3xf32>", "axis = 0 : i64",
     "concat: operands must agree but for axis 0: f32[2, 3] and f32[3]"},
    {"concat", "tensor<1099511627776xf32>, tensor<1xf32>", "tensor<1099511627777xf32>", "axis = 0 : i64",
     "more elements than any machine holds"},
    {"pad", "tensor<1099511627776xf32>", "tensor<2xf32>",
     "low = array<i64: 0>, high = array<i64: 0>, interior = array<i64: 2>, value = 0.0 : f64",
     "pad: interior padding of 2 is too large for f32[1099511627776]"},
    {"slice", "tensor<5xf32>", "tensor<3xf32>",
     "starts = array<i64: 0>, sizes = array<i64: 2199023255552>, strides = array<i64: 1>",
     "slice: 'sizes' is too large: 2199023255552"},
    {"slice", "tensor<5xf32>", "tensor<3xf32>",
     "starts = array<i64: 0>, sizes = array<i64: 0>, strides = array<i64: 1>",
     "slice: 'sizes' must be at least 1, found 0"},
    {"slice", "tensor<5xf32>", "tensor<3xf32>",
     "starts = array<i64: -1>, sizes = array<i64: 3>, strides = array<i64: 1>",
     "slice: 'starts' must be at least 0, found -1"},
    {"broadcast", "tensor<3xf32>", "tensor<2x3xf64>", "dims = array<i64: 1>",
     "broadcast: cannot change the element type: f32[3] to f64[2, 3]"},
    {"broadcast", "tensor<3xf32>", "tensor<2x3xf32>", "dims = array<i64: 2>",
     "broadcast: dims[0] = 2 is outside the result f32[2, 3]"},
    {"reshape", "tensor<6xf32>", "tensor<6xf64>", "", "reshape: cannot change the element type: f32[6] to f64[6]"},
    {"transpose", "tensor<2x3xf32>", "tensor<2x3xf32>", "perm = array<i64: 0, 2>",
     "transpose: perm must name each of the 2 axes of f32[2, 3] once"},
    {"reduce_sum", "tensor<2x3xi1>", "tensor<3xi1>", "axes = array<i64: 0>",
     "reduce_sum: operand 0 must be of a numeric type, found i1[2, 3]"},
    {"reduce_max", "tensor<2x3xi1>", "tensor<3xi1>", "axes = array<i64: 0>",
     "reduce_max: operand 0 must be of a numeric type, found i1[2, 3]"},
    {"reduce_sum", "tensor<2x3xf32>", "tensor<2x3xf32>", "axes = array<i64>",
     "reduce_sum: 'axes' must name 1 to 2 axes of f32[2, 3], found 0"},
    {"reduce_sum", "tensor<2x3xf32>", "tensor<2xf32>", "axes = array<i64: 1, 1>",
     "reduce_sum: 'axes' must increase strictly"},
    {"reduce_sum", "tensor<2x3xf32>", "tensor<2xf32>", "axes = array<i64: -1>",
     "reduce_sum: axis -1 is outside f32[2, 3]"},
    {"moments", "tensor<2x3xi32>", "tensor<3xi32>, tensor<3xi32>", "axes = array<i64: 0>",
     "moments: operand 0 must be of a floating-point type, found i32[2, 3]"},
    {"softmax", "tensor<2xi32>", "tensor<2xi32>", "",
     "softmax: operand 0 must be of a floating-point type, found i32[2]"},
    {"softmax", "tensor<f32>", "tensor<f32>", "", "softmax: operand 0 must have at least 1 axis, found f32"},
    {"matmul", "tensor<16xf32>, tensor<16x4xf32>", "tensor<4xf32>", "",
     "matmul: operand 0 must have at least 2 axes, found f32[16]"},
    {"matmul", "tensor<8x16xf32>, tensor<16xf32>", "tensor<8xf32>", "",
     "matmul: operand 1 must have at least 2 axes, found f32[16]"},
    {"matmul", "tensor<8x16xi32>, tensor<16x4xi32>", "tensor<8x4xi32>", "",
     "matmul: operand 0 must be of a floating-point type, found i32[8, 16]"},
    {"matmul", "tensor<8x16xf32>, tensor<16x4xf64>", "tensor<8x4xf32>", "",
     "matmul: operands differ in element type: f32[8, 16] and f64[16, 4]"},
    {"matmul", "tensor<8x16xf32>, tensor<16x4xf32>", "tensor<8x4xf64>", "",
     "matmul: a product of f32 is f32, found f64"},
    {"matmul_rows", "tensor<8x16xf32>, tensor<1x8x4xf32>", "tensor<16x4xf32>", "",
     "matmul_rows: all axes but the last must be equal: lhs f32[8, 16], rhs f32[1, 8, 4]"},
    {"matmul_rows_to", "tensor<8x16xbf16>, tensor<8x4xbf16>, tensor<16x4xbf16>", "tensor<16x4xbf16>", "",
     "matmul_rows_to: adds up in f32 or f64, found bf16[16, 4]"},
    {"conv2d", "tensor<3x8x8xf32>, tensor<4x3x3x3xf32>", "tensor<1x4x6x6xf32>", WINDOW,
     "conv2d: the image must have 4 axes, found f32[3, 8, 8]"},
    {"conv2d", "tensor<1x3x8x8xf32>, tensor<4x3x3xf32>", "tensor<1x4x6x6xf32>", WINDOW,
     "conv2d: the weight must have 4 axes, [O, I/groups, KH, KW], found f32[4, 3, 3]"},
    {"conv2d", "tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>", "tensor<1x4x6x6xf32>", WINDOW ", groups = 0 : i64",
     "conv2d: 'groups' must be at least 1, found 0"},
    {"conv2d", "tensor<1x4x8x8xf32>, tensor<3x2x3x3xf32>", "tensor<1x3x6x6xf32>", WINDOW ", groups = 2 : i64",
     "conv2d: 3 output channels cannot be split into 2 groups"},
    {"conv2d", "tensor<1x3x8x8xf32>, tensor<4x3x3x3xf64>", "tensor<1x4x6x6xf32>", WINDOW,
     "conv2d: operands differ in element type: f32[1, 3, 8, 8] and f64[4, 3, 3, 3]"},
    {"conv2d", "tensor<1x3x8x8xi32>, tensor<4x3x3x3xi32>", "tensor<1x4x6x6xi32>", WINDOW,
     "conv2d: operand 0 must be of a floating-point type, found i32[1, 3, 8, 8]"},
    {"conv2d", "tensor<1x3x8x2xf32>, tensor<4x3x3x3xf32>", "tensor<1x4x6x1xf32>", WINDOW,
     "conv2d: a window of width 3 does not fit the input of width 2"},
    {"conv2d", "tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>", "tensor<1x4x6x6xf32>",
     WINDOW ", dilation = array<i64: 0, 1>", "conv2d: 'dilation' must be at least 1, found 0"},
    {"avgpool2d", "tensor<1x4x4xf32>", "tensor<1x2x2xf32>", "kernel = array<i64: 2, 2>, " WINDOW,
     "avgpool2d: pools over tensors of 4 axes, found f32[1, 4, 4]"},
    {"avgpool2d", "tensor<1x1x4x4xi32>", "tensor<1x1x3x3xi32>", "kernel = array<i64: 2, 2>, " WINDOW,
     "avgpool2d: operand 0 must be of a floating-point type, found i32[1, 1, 4, 4]"},
    {"maxpool2d", "tensor<1x1x4x4xi1>", "tensor<1x1x3x3xi1>, tensor<1x1x3x3xui8>", "kernel = array<i64: 2, 2>, " WINDOW,
     "maxpool2d: operand 0 must be of a numeric type, found i1[1, 1, 4, 4]"},
    {"avgpool2d_grad", "tensor<1x1x2x2xf32>", "tensor<1x1x4x4xf32>", "kernel = array<i64: 2, 2>, " WINDOW,
     "avgpool2d_grad: the gradient f32[1, 1, 2, 2] does not fit the input f32[1, 1, 4, 4], whose output is f32[1, 1, "
     "3, 3]"},
    {"maxpool2d_grad", "tensor<1x1x3x3xf32>, tensor<1x1x3x3xi32>", "tensor<1x1x4x4xf32>",
     "kernel = array<i64: 2, 2>, " WINDOW,
     "maxpool2d_grad: the winners must be u8 in the shape of the gradient f32[1, 1, 3, 3], found i32[1, 1, 3, 3]"},
    {"cross_entropy", "tensor<4x10xi32>, tensor<4xi32>", "tensor<4xi32>, tensor<4xi32>", "",
     "cross_entropy: operand 0 must be of a floating-point type, found i32[4, 10]"},
    {"cross_entropy", "tensor<4x10xf32>, tensor<4xf32>", "tensor<4xf32>, tensor<4xf32>", "",
     "cross_entropy: labels must be i32 or i64, found f32[4]"},
    {"cross_entropy", "tensor<4x10xf32>, tensor<4xi32>", "tensor<4xf32>, tensor<4xf32>", "classes = 11 : i64",
     "cross_entropy: classes must be 1 to 10, found 11"},
    {"layernorm", "tensor<4x10xi32>, tensor<10xi32>, tensor<10xi32>", "tensor<4x10xi32>, tensor<4xi32>, tensor<4xi32>",
     "eps = 1.0e-5 : f64", "layernorm: operand 0 must be of a floating-point type, found i32[4, 10]"},
    {"layernorm", "tensor<4x10xf32>, tensor<9xf32>, tensor<10xf32>", "tensor<4x10xf32>, tensor<4xf32>, tensor<4xf32>",
     "eps = 1.0e-5 : f64", "layernorm: gamma must be f32[10] for f32[4, 10], found f32[9]"},
    {"batchnorm", "tensor<3xf32>, tensor<3xf32>, tensor<3xf32>", "tensor<3xf32>, tensor<3xf32>, tensor<3xf32>",
     "eps = 1.0e-5 : f64, axis = 0 : i64", "batchnorm: operand 0 must have at least 2 axes, found f32[3]"},
    {"batchnorm", "tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>", "tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>",
     "eps = 1.0e-5 : f64, axis = 2 : i64", "batchnorm: axis 2 is outside a tensor of 2 axes"},
    {"batchnorm", "tensor<4x3xf32>, tensor<3xf32>, tensor<2xf32>", "tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>",
     "eps = 1.0e-5 : f64, axis = 1 : i64", "batchnorm: beta must be f32[3] for axis 1 of f32[4, 3], found f32[2]"},
    {"attention_3", "tensor<2x4x5x8xf32>, tensor<2x2x7x8xf64>, tensor<2x2x7x8xf64>", RESULTS, "scale = 1.0 : f64",
     "attention: operands differ in element type: f32[2, 4, 5, 8] and f64[2, 2, 7, 8]"},
    {"attention_3", "tensor<4x5x8xf32>, " K ", " K, RESULTS, "scale = 1.0 : f64",
     "attention: operand 0 must have 4 axes, found f32[4, 5, 8]"},
    {"attention_3", Q ", " K ", " K, RESULTS, "scale = 1.0 : f64, dropout = 1.0 : f64",
     "attention: dropout must be at least 0 and below 1, found 1"},
    {"attention_3", Q ", " K ", " K, RESULTS, "scale = 1.0 : f64, dropout = -0.5 : f64",
     "attention: dropout must be at least 0 and below 1, found -0.5"},
    {"attention_3", Q ", " K ", " K, RESULTS, "scale = 1.0 : f64, dropout = 0.5 : f64",
     "attention: dropout and a key go together"},
    {"attention_4", Q ", " K ", " K ", tensor<3xi32>", RESULTS, "scale = 1.0 : f64, dropout = 0.5 : f64",
     "attention: the key must be i32[4], found i32[3]"},
    {"random_uniform", "tensor<4xi32>", "tensor<3xi32>", "",
     "random_uniform: the result must be of a floating-point type, found i32[3]"},
    {"iota", "", "tensor<3xi1>", "axis = 0 : i64", "iota: the result must be of a numeric type, found i1[3]"},
    {"iota", "", "tensor<3xi32>", "axis = 1 : i64", "iota: axis 1 is outside a tensor of 1 axes"},
    {"select", "tensor<2xi1>, tensor<2xf32>, tensor<2xf64>", "tensor<2xf32>", "",
     "select: operands differ in element type: f32[2] and f64[2]"},
};

static int count_types(const char *types) {
  int n = *types != 0;
  for (const char *s = types; (s = strchr(s, ',')); s++) n++;
  return n;
}

// A message of NULL: none.
static void expect_refusal(const Wrong *w) {
  Text module = {0}, found = {0};
  FILE *out = open_memstream(&module.data, &module.size);
  int n = count_types(w->operands);
  fprintf(out, "func.func private @make() -> (%s)\nfunc.func @f() {\n", w->operands);
  if (n) fprintf(out, "  %%a:%d = call @make() : () -> (%s)\n", n, w->operands);
  fprintf(out, "  %%r:%d = \"nn.%s\"(", count_types(w->result), w->op);
  for (int k = 0; k < n; k++) fprintf(out, "%s%%a#%d", k ? ", " : "", k);
  fprintf(out, ") {%s} : (%s) -> (%s)\n  return\n}\n", w->attrs, w->operands, w->result);
  fclose(out);
  MlirDiagnosticHandlerID handler = mlirContextAttachDiagnosticHandler(ctx, collect, &found, NULL);
  MlirModule m = parse(module.data);
  // What IRDL sees is reported by the parser already.
  bool refused = mlirModuleIsNull(m) || !nn_verify_module(m);
  CHECK(refused == (w->message != NULL), "%s(%s) was %s; expected: %s; found: %s", w->op, w->operands,
        refused ? "refused" : "accepted", w->message ? w->message : "nothing", found.data ? found.data : "nothing");
  if (w->message)
    CHECK(strstr(w->message, "attribute 'value'") || (found.data && strstr(found.data, w->message)),
          "expected: %s\nfound: %s", w->message, found.data ? found.data : "nothing");
  mlirContextDetachDiagnosticHandler(ctx, handler);
  if (!mlirModuleIsNull(m)) mlirModuleDestroy(m);
  free(module.data);
  free(found.data);
}

static void test_errors(void) {
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) expect_refusal(&wrong[i]);
}

// What a map takes: numbers, floats or truth values.
static void test_map_types(void) {
  static const char *const given[] = {"tensor<2xi1>", "tensor<2xi32>", "tensor<2xf32>"};
  static const char *const ops[][3] = {{"of a numeric type", "neg abs sign relu floor", "add sub mul div pow max min"},
                                       {"of a floating-point type", "exp log sqrt rsqrt recip sin cos tanh erf sigmoid",
                                        ""},
                                       {"of type i1", "not", "and or"}};
  for (int kind = 0; kind < 3; kind++)
    for (int n = 1; n <= 2; n++)
      for (const char *at = ops[kind][n]; *at; at += strcspn(at, " "), at += *at == ' ')
        for (int type = 0; type < 3; type++) {
          char op[16] = "", operands[64], message[128];
          snprintf(op, sizeof op, "%.*s", (int)strcspn(at, " "), at);
          snprintf(operands, sizeof operands, n == 1 ? "%s" : "%s, %s", given[type], given[type]);
          snprintf(message, sizeof message, "%s: operand 0 must be %s", op, ops[kind][0]);
          bool fits = kind == 2 ? type == 0 : kind == 1 ? type == 2 : type > 0;
          expect_refusal(&(Wrong){op, operands, given[type], "", fits ? NULL : message});
        }
}

// ---------------------------------------------------------------------------------------------------------------------

static MlirValue input(MlirOperation func, NnDtype dtype, int rank, const int64_t *dim) {
  return nn_function_add_arg(func, nn_type(dtype, rank, dim), loc, 1, &NN_STR("nn.role", "input"));
}

static void test_build(void) {
  MlirModule module = mlirModuleCreateEmpty(loc);
  MlirOperation func = nn_function_create(module, "build", false, loc);
  MlirValue x = input(func, NN_F32, 2, (int64_t[]){2, 3}), y = input(func, NN_F32, 2, (int64_t[]){3, 2});
  NnBuilder b = nn_builder_at_end(nn_function_body(func), loc);
  b.phase = "backward";

  CHECK(mlirOperationIsNull(nn_build(&b, NN_OP_add, 2, (MlirValue[]){x, y}, 0, NULL, NULL)) &&
            strstr(b.error, "add: shapes differ"),
        "%s", b.error);
  CHECK(mlirOperationIsNull(nn_build(&b, NN_OP_add, 1, &x, 0, NULL, NULL)) &&
            strstr(b.error, "takes 2 operands, found 1"),
        "%s", b.error);
  CHECK(mlirOperationIsNull(nn_build(&b, NN_OP_concat, 0, NULL, 1, &NN_I64("axis", 0), NULL)) &&
            strstr(b.error, "at least one operand"),
        "%s", b.error);
  CHECK(mlirOperationIsNull(nn_build(&b, NN_OP_iota, 0, NULL, 1, &NN_I64("axis", 0), NULL)) &&
            strstr(b.error, "result type must be given"),
        "%s", b.error);
  CHECK(mlirOperationIsNull(nn_build(&b, NN_OP_transpose, 1, &x, 0, NULL, NULL)) &&
            strstr(b.error, "attribute 'perm' is missing"),
        "%s", b.error);
  CHECK(mlirOperationIsNull(mlirBlockGetFirstOperation(nn_function_body(func))), "a refused op was built");

  // Forms that would change nothing give their operand back.
  CHECK(mlirValueEqual(x, nn_cast(&b, x, NN_F32)) && mlirValueEqual(x, nn_reshape(&b, x, 2, (int64_t[]){2, 3})),
        "cast, reshape");
  CHECK(mlirValueEqual(x, nn_transpose(&b, x, (int64_t[]){0, 1})) && mlirValueEqual(x, nn_concat(&b, 1, &x, 0)),
        "transpose, concat");
  CHECK(mlirValueEqual(x, nn_slice(&b, x, (int64_t[]){0, 0}, (int64_t[]){2, 3}, NULL)), "slice");
  CHECK(mlirValueEqual(x, nn_pad(&b, x, (int64_t[]){0, 0}, (int64_t[]){0, 0}, (int64_t[]){0, 0}, 0)), "pad");
  CHECK(mlirValueEqual(x, nn_reduce(&b, NN_OP_reduce_sum, x, 0, NULL)) &&
            mlirValueEqual(x, nn_broadcast_trailing(&b, x, nn_value_type(x))),
        "reduce, broadcast");

  MlirValue product = nn_matmul(&b, x, y, false, false);
  MlirOperation def = nn_value_def(product);
  char phase[16];
  CHECK(nn_op_of(def) == NN_OP_matmul && nn_is(def, "nn.matmul"), "matmul");
  CHECK(!strcmp(nn_attr_str(def, "nn.phase", phase, sizeof phase, ""), "backward"), "%s", phase);
  CHECK(!nn_attr_bool(def, "transpose_a", true) && nn_has_attr(def, "transpose_b") && !nn_has_attr(def, "axis"),
        "attributes");
  CHECK(mlirOperationIsNull(nn_value_def(x)) && nn_value_index(y) == 1 && nn_value_index(product) == 0, "definitions");
  MlirValue sum = nn_reduce(&b, NN_OP_reduce_sum, product, 2, (int64_t[]){1, 0});
  int64_t axes[2];
  CHECK(nn_attr_i64s(nn_value_def(sum), "axes", axes, 2) == 2 && axes[0] == 0 && axes[1] == 1, "axes are sorted");
  CHECK(nn_attr_i64s(def, "axes", axes, 2) == -1 && nn_attr_i64(def, "axis", 7) == 7 &&
            nn_attr_f64(def, "eps", 0.5) == 0.5,
        "absent attributes");

  NnBuilder before = nn_builder_before(def);
  MlirValue early = nn_unary(&before, NN_OP_exp, x);
  CHECK(mlirOperationEqual(mlirOperationGetNextInBlock(nn_value_def(early)), def) &&
            !nn_has_attr(nn_value_def(early), "nn.phase"),
        "insertion point");
  nn_tap(&b, sum, "grad.x");
  nn_checkpoint(&b, early);

  // More parts than one operation may have: nested, in order.
  enum { PARTS = 40 };
  MlirValue part[PARTS];
  for (int i = 0; i < PARTS; i++) part[i] = nn_constant(&b, nn_type(NN_F64, 1, (int64_t[]){1 + i % 3}), i);
  MlirValue joined = nn_concat(&b, PARTS, part, 0);
  nn_function_set_results(func, 1, &joined, 0);
  CHECK(nn_verify_module(module), "the built module");
  Tensor args[2] = {tensor_create(nn_value_type(x)), tensor_create(nn_value_type(y))}, result;
  CHECK(reference_run(func, args, &result, 1) == 1 && result.type.dim[0] == 79, "%lld elements",
        (long long)result.type.dim[0]);
  for (int i = 0, at = 0; i < PARTS; i++)
    for (int k = 0; k < 1 + i % 3; k++, at++) CHECK(result.data[at] == i, "element %d is %g", at, result.data[at]);
  tensor_free(&args[0]);
  tensor_free(&args[1]);
  tensor_free(&result);
  mlirModuleDestroy(module);
}

static void test_functions(void) {
  MlirModule module = mlirModuleCreateEmpty(loc);
  MlirOperation func = nn_function_create(module, "train", false, loc),
                kernel = nn_function_create(module, "k0", true, loc);
  char buf[32];
  CHECK(mlirOperationEqual(nn_module_function(module, "train"), func) &&
            mlirOperationEqual(nn_module_function(module, "k0"), kernel),
        "lookup");
  CHECK(mlirOperationIsNull(nn_module_function(module, "eval")), "absent function");
  CHECK(mlirOperationIsNull(nn_function_return(func)), "no return yet");
  MlirValue x = nn_function_add_arg(func, nn_scalar(NN_F32), loc, 2,
                                    (NnAttr[]){NN_STR("nn.role", "input"), NN_STR("nn.name", "x")});
  nn_function_add_arg(func, nn_scalar(NN_I32), loc, 0, NULL);
  MlirValue w = nn_function_add_arg(func, nn_scalar(NN_F32), loc, 1, &NN_STR("nn.role", "param"));
  nn_set_arg_attr(func, 2, &NN_I64("nn.group", 3));
  nn_set_arg_attr(func, 2, &NN_STR("nn.role", "state"));
  CHECK(nn_function_n_args(func) == 3 && nn_arg_i64(func, 2, "nn.group", 0) == 3, "arguments");
  CHECK(!strcmp(nn_arg_str(func, 2, "nn.role", buf, sizeof buf, ""), "state"), "an attribute is replaced: %s", buf);
  CHECK(mlirAttributeIsNull(nn_arg_attr(func, 1, "nn.role")) &&
            !strcmp(nn_arg_str(func, 1, "nn.role", buf, sizeof buf, "none"), "none"),
        "no attribute");
  nn_function_remove_arg(func, 1);
  CHECK(nn_function_n_args(func) == 2 && nn_value_index(w) == 1 && nn_arg_i64(func, 1, "nn.group", 0) == 3,
        "after removal");
  nn_function_set_results(func, 2, (MlirValue[]){x, w}, 0);
  nn_set_result_attr(func, 0, &NN_STR("nn.role", "loss"));
  nn_set_result_attr(func, 1, &NN_I64("nn.tied", 1));
  nn_function_set_results(func, 3, (MlirValue[]){w, w, x}, 1);
  CHECK(nn_function_n_results(func) == 3 && !strcmp(nn_result_str(func, 0, "nn.role", buf, sizeof buf, ""), "loss"),
        "kept result attributes");
  CHECK(nn_result_i64(func, 1, "nn.tied", -1) == -1 && mlirAttributeIsNull(nn_result_attr(func, 2, "nn.role")),
        "dropped result attributes");
  CHECK(mlirOperationGetNumOperands(nn_function_return(func)) == 3, "one return");
  nn_function_set_results(kernel, 0, NULL, 0);
  nn_set_unit(kernel, "nn.kernel");
  nn_set_attr(kernel, &NN_STR("nn.kind", "map"));
  CHECK(nn_has_attr(kernel, "nn.kernel") && nn_verify_module(module), "verification");
  Text text = print(module), again;
  MlirModule copy = parse(text.data);
  CHECK(!mlirModuleIsNull(copy), "%s", text.data);
  again = print(copy);
  CHECK(!strcmp(text.data, again.data), "%s\n%s", text.data, again.data);
  free(text.data);
  free(again.data);
  mlirModuleDestroy(copy);
  mlirModuleDestroy(module);
}

static void test_costs(void) {
  MlirModule module = parse(
      "func.func private @k(%x: tensor<8xf32>) -> tensor<8xf32> { %0 = \"nn.exp\"(%x) : (tensor<8xf32>) -> "
      "tensor<8xf32>\n"
      "  %1 = \"nn.neg\"(%0) : (tensor<8xf32>) -> tensor<8xf32>\n return %1 : tensor<8xf32> }\n"
      "func.func @f(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %v: tensor<8xf32>) {\n"
      "  %0 = \"nn.conv2d\"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>} : "
      "(tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x8x8xf32>\n"
      "  %1 = call @k(%v) : (tensor<8xf32>) -> tensor<8xf32>\n"
      "  %2 = scf.execute_region -> tensor<8xf32> no_inline { %3 = func.call @k(%1) : (tensor<8xf32>) -> "
      "tensor<8xf32>\n scf.yield %3 : tensor<8xf32> } {nn.recompute = \"exp\"}\n"
      "  %4 = \"nn.reshape\"(%2) : (tensor<8xf32>) -> tensor<2x4xf32>\n return }");
  double flops[] = {2.0 * 2 * 4 * 64 * 27, 16, 16, 0}, bytes[] = {4.0 * (384 + 108 + 512), 64, 32, 64};
  MlirOperation op = mlirBlockGetFirstOperation(nn_function_body(nn_module_function(module, "f")));
  for (int i = 0; i < 4; i++, op = mlirOperationGetNextInBlock(op)) {
    CHECK(nn_op_flops(op) == flops[i], "operation %d: %g FLOP, expected %g", i, nn_op_flops(op), flops[i]);
    CHECK(nn_op_bytes(op) == bytes[i], "operation %d: %g bytes, expected %g", i, nn_op_bytes(op), bytes[i]);
  }
  mlirModuleDestroy(module);
}

// Counted one by one: with causal, query i of Q sees the keys 0 .. i + K - Q.
static void test_attention_pairs(void) {
  for (int64_t queries = 1; queries <= 5; queries++)
    for (int64_t keys = 1; keys <= 5; keys++)
      for (int causal = 0; causal < 2; causal++) {
        int64_t pairs = 0;
        for (int64_t i = 0; i < queries; i++)
          for (int64_t j = 0; j < keys; j++) pairs += !causal || j <= i + keys - queries;
        NnAttention a = {.batch = 2, .heads = 3, .n_queries = queries, .n_keys = keys, .causal = causal};
        CHECK(nn_attention_pairs(&a) == 6 * (double)pairs, "%lld queries, %lld keys, causal %d: %g pairs of %lld",
              (long long)queries, (long long)keys, causal, nn_attention_pairs(&a), 6 * (long long)pairs);
      }
}

// Values the finite differences of test_gradients cannot see: ties, and powers at zero.
static void gradient_at(NnOp op, int n_operands, const double *x, int64_t n, int64_t axis, double *out) {
  MlirModule module = mlirModuleCreateEmpty(loc);
  MlirOperation func = nn_function_create(module, "f", false, loc);
  MlirValue arg[2], cotangent, result, gradient[2] = {{0}};
  Tensor args[3], found[2];
  for (int i = 0; i < n_operands; i++) {
    arg[i] = input(func, NN_F64, 1, &n);
    args[i] = tensor_create(nn_value_type(arg[i]));
    memcpy(args[i].data, x + i * n, sizeof(double) * (size_t)n);
  }
  NnBuilder b = nn_builder_at_end(nn_function_body(func), loc);
  result = axis >= 0         ? nn_reduce(&b, op, arg[0], 1, &axis)
           : n_operands == 1 ? nn_unary(&b, op, arg[0])
                             : nn_binary(&b, op, arg[0], arg[1]);
  cotangent = nn_constant_like(&b, result, 1);
  NnVjp vjp = {.b = &b,
               .op = nn_value_def(result),
               .n_operands = n_operands,
               .n_results = 1,
               .operand = arg,
               .result = &result,
               .cotangent = &cotangent,
               .needed = (bool[]){true, true},
               .operand_cotangent = gradient};
  nn_op_info(op)->vjp(&vjp);
  nn_function_set_results(func, n_operands, gradient, 0);
  reference_run(func, args, found, 2);
  for (int i = 0; i < n_operands; i++) {
    memcpy(out + i * n, found[i].data, sizeof(double) * (size_t)n);
    tensor_free(&found[i]);
    tensor_free(&args[i]);
  }
  mlirModuleDestroy(module);
}

static void test_gradient_conventions(void) {
  double g[8];
  gradient_at(NN_OP_reduce_max, 1, (double[]){5, 5, 1, 5}, 4, 0, g);
  CHECK(g[0] == 1.0 / 3 && g[1] == 1.0 / 3 && g[2] == 0 && g[3] == 1.0 / 3, "equal maxima share: %g %g %g %g", g[0],
        g[1], g[2], g[3]);
  gradient_at(NN_OP_max, 2, (double[]){1, 2, 2, 1}, 2, -1, g);
  CHECK(g[0] == 0 && g[1] == 1 && g[2] == 1 && g[3] == 0, "maximum");
  gradient_at(NN_OP_max, 2, (double[]){3, 3}, 1, -1, g);
  CHECK(g[0] == 0.5 && g[1] == 0.5, "equals share the gradient: %g %g", g[0], g[1]);
  gradient_at(NN_OP_min, 2, (double[]){3, 3}, 1, -1, g);
  CHECK(g[0] == 0.5 && g[1] == 0.5, "equals share the gradient: %g %g", g[0], g[1]);
  gradient_at(NN_OP_relu, 1, (double[]){0, 2}, 2, -1, g);
  CHECK(g[0] == 0 && g[1] == 1, "relu is flat at 0: %g", g[0]);
  gradient_at(NN_OP_pow, 2, (double[]){0, 0, 3, 0, 2, 2}, 3, -1, g);
  CHECK(g[0] == 0 && g[1] == 0 && g[2] == 6, "base: %g %g %g", g[0], g[1], g[2]);
  CHECK(g[3] == 0 && g[4] == 0, "exponent at base 0: %g %g", g[3], g[4]);
}

// docs/ops.md beside this source, found from the compiler's name for it.
static FILE *open_page(const char *mode) {
  char path[4096];
  snprintf(path, sizeof path, "%.*s../../docs/ops.md",
           (int)(strrchr(__FILE__, '/') ? strrchr(__FILE__, '/') + 1 - __FILE__ : 0), __FILE__);
  return fopen(path, mode);
}

static bool write_page(void) {
  char *page = nn_op_table_markdown();
  FILE *file = open_page("w");
  bool ok = file && fputs(page, file) >= 0;
  if (file && fclose(file)) ok = false;
  free(page);
  return ok;
}

static void test_page(void) {
  char *page = nn_op_table_markdown();
  size_t size = strlen(page);
  char *found = calloc(size + 2, 1);
  FILE *file = open_page("r");
  CHECK(file && fread(found, 1, size + 1, file) == size && !strcmp(page, found),
        "docs/ops.md is not what the table says: run test_ir --write-ops-page");
  if (file) fclose(file);
  free(found);
  free(page);
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "--write-ops-page")) return write_page() ? 0 : 1;
  ctx = nn_context_create();
  loc = mlirLocationUnknownGet(ctx);
  test_types();
  test_table();
  test_page();
  test_errors();
  test_map_types();
  test_build();
  test_functions();
  test_costs();
  test_attention_pairs();
  test_gradient_conventions();
  mlirContextDestroy(ctx);
  return check_report();
}
