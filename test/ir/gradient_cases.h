// Cases of test_gradients: for every op with a gradient, types and attributes at six shapes or more, odd sizes and
// sizes of one among them. Maps take every shape of a list; the others have a row for each.
#ifndef NNC_TEST_IR_GRADIENT_CASES_H
#define NNC_TEST_IR_GRADIENT_CASES_H

#include <stdbool.h>

typedef struct Case {
  const char *op, *operands, *results, *attrs;   // types as "3x4xf64, 3xi32"
  bool positive;                                 // floats in [0.5, 1.5) instead of [-1.5, 1.5)
  int low, high;                                 // integers in [low, high)
  int constant_results;                          // the last so many results are constants to differentiation
} Case;

typedef struct MapCase {
  const char *op, *result;   // element type of the result
  const char *operands[3];   // element types
  bool positive;
} MapCase;

static const char *const map_shapes[] = {"", "7x", "1x5x", "3x7x", "4x5x", "3x1x5x", "2x3x3x5x"};

// Other maps of one operand that have a gradient are taken from ir/ops.def, at all numbers.
static const MapCase map_cases[] = {
    {"log", "f64", .operands = {"f64"}, .positive = true},
    {"sqrt", "f64", .operands = {"f64"}, .positive = true},
    {"rsqrt", "f64", .operands = {"f64"}, .positive = true},
    {"recip", "f64", .operands = {"f64"}, .positive = true},
    {"add", "f64", .operands = {"f64", "f64"}},
    {"sub", "f64", .operands = {"f64", "f64"}},
    {"mul", "f64", .operands = {"f64", "f64"}},
    {"div", "f64", .operands = {"f64", "f64"}, .positive = true},
    {"pow", "f64", .operands = {"f64", "f64"}, .positive = true},
    {"max", "f64", .operands = {"f64", "f64"}},
    {"min", "f64", .operands = {"f64", "f64"}},
    {"select", "f64", .operands = {"i1", "f64", "f64"}},
    {"cast", "f32", .operands = {"f64"}},
};

#define POOL "kernel = array<i64: 3, 2>, strides = array<i64: 2, 1>, padding = array<i64: 1, 0, 1, 1>"
#define CONV \
  "strides = array<i64: 2, 1>, padding = array<i64: 1, 2, 0, 1>, dilation = array<i64: 1, 2>, groups = 2 : i64"

static const Case cases[] = {
    {"broadcast", "3x1xf64", "2x3x4x5xf64", .attrs = "dims = array<i64: 1, 3>"},
    {"broadcast", "f64", "2x3xf64", .attrs = "dims = array<i64>"},
    {"broadcast", "1x3xf64", "1x3x1xf64", .attrs = "dims = array<i64: 0, 1>"},
    {"broadcast", "1xf64", "7xf64", .attrs = "dims = array<i64: 0>"},
    {"broadcast", "5x1xf64", "5x3xf64", .attrs = "dims = array<i64: 0, 1>"},
    {"broadcast", "3x5xf64", "3x1x5xf64", .attrs = "dims = array<i64: 0, 2>"},
    {"reshape", "2x6xf64", "3x4xf64", .attrs = ""},
    {"reshape", "7xf64", "1x7xf64", .attrs = ""},
    {"reshape", "3x5xf64", "15xf64", .attrs = ""},
    {"reshape", "2x3x5xf64", "5x6xf64", .attrs = ""},
    {"reshape", "1x9xf64", "3x3xf64", .attrs = ""},
    {"reshape", "3x1x7xf64", "7x3xf64", .attrs = ""},
    {"transpose", "2x3x4xf64", "4x2x3xf64", .attrs = "perm = array<i64: 2, 0, 1>"},
    {"transpose", "3x5xf64", "5x3xf64", .attrs = "perm = array<i64: 1, 0>"},
    {"transpose", "1x7xf64", "7x1xf64", .attrs = "perm = array<i64: 1, 0>"},
    {"transpose", "3x1x5xf64", "1x5x3xf64", .attrs = "perm = array<i64: 1, 2, 0>"},
    {"transpose", "3x5x2x3xf64", "3x2x3x5xf64", .attrs = "perm = array<i64: 0, 2, 3, 1>"},
    {"transpose", "5x3x3xf64", "5x3x3xf64", .attrs = "perm = array<i64: 0, 2, 1>"},
    {"slice", "5x7xf64", "2x3xf64",
     .attrs = "starts = array<i64: 1, 0>, sizes = array<i64: 2, 3>, strides = array<i64: 3, 2>"},
    {"slice", "5x7xf64", "1x7xf64",
     .attrs = "starts = array<i64: 4, 0>, sizes = array<i64: 1, 7>, strides = array<i64: 9, 1>"},
    {"slice", "7xf64", "7xf64", .attrs = "starts = array<i64: 6>, sizes = array<i64: 7>, strides = array<i64: -1>"},
    {"slice", "3x11xf64", "2x3xf64",
     .attrs = "starts = array<i64: 2, 9>, sizes = array<i64: 2, 3>, strides = array<i64: -2, -3>"},
    {"slice", "7xf64", "2xf64", .attrs = "starts = array<i64: 3>, sizes = array<i64: 2>, strides = array<i64: 3>"},
    {"slice", "3x5x7xf64", "3x3x5xf64",
     .attrs = "starts = array<i64: 0, 1, 2>, sizes = array<i64: 3, 3, 5>, strides = array<i64: 1, 1, 1>"},
    {"slice", "9x3xf64", "3x3xf64",
     .attrs = "starts = array<i64: 0, 0>, sizes = array<i64: 3, 3>, strides = array<i64: 4, 1>"},
    {"slice", "1x5xf64", "1x1xf64",
     .attrs = "starts = array<i64: 0, 4>, sizes = array<i64: 1, 1>, strides = array<i64: 1, 1>"},
    {"reduce_sum", "2x3x4xf64", "3xf64", .attrs = "axes = array<i64: 0, 2>"},
    {"reduce_sum", "2x3xf64", "f64", .attrs = "axes = array<i64: 0, 1>"},
    {"reduce_sum", "7xf64", "f64", .attrs = "axes = array<i64: 0>"},
    {"reduce_sum", "5x3xf64", "5xf64", .attrs = "axes = array<i64: 1>"},
    {"reduce_sum", "5x3xf64", "3xf64", .attrs = "axes = array<i64: 0>"},
    {"reduce_sum", "3x1x5xf64", "3x5xf64", .attrs = "axes = array<i64: 1>"},
    {"reduce_max", "2x3x4xf64", "2x4xf64", .attrs = "axes = array<i64: 1>"},
    {"reduce_max", "7xf64", "f64", .attrs = "axes = array<i64: 0>"},
    {"reduce_max", "5x3xf64", "5xf64", .attrs = "axes = array<i64: 1>"},
    {"reduce_max", "5x3xf64", "3xf64", .attrs = "axes = array<i64: 0>"},
    {"reduce_max", "3x1x5xf64", "3x5xf64", .attrs = "axes = array<i64: 1>"},
    {"reduce_max", "3x5x2x3xf64", "3x2xf64", .attrs = "axes = array<i64: 1, 3>"},
    {"moments", "2x3x4xf64", "3xf64, 3xf64", .attrs = "axes = array<i64: 0, 2>"},
    {"moments", "7xf64", "f64, f64", .attrs = "axes = array<i64: 0>"},
    {"moments", "5x3xf64", "5xf64, 5xf64", .attrs = "axes = array<i64: 1>"},
    {"moments", "5x3xf64", "3xf64, 3xf64", .attrs = "axes = array<i64: 0>"},
    {"moments", "3x1x5xf64", "3x5xf64, 3x5xf64", .attrs = "axes = array<i64: 1>"},
    {"moments", "3x5x2x3xf64", "3x2xf64, 3x2xf64", .attrs = "axes = array<i64: 1, 3>"},
    {"pad", "2x3xf64", "5x8xf64",
     .attrs = "low = array<i64: 1, 0>, high = array<i64: 1, 1>, interior = array<i64: 1, 2>, value = 3.0 : f64"},
    {"pad", "1x3xf64", "4x3xf64",
     .attrs = "low = array<i64: 1, 0>, high = array<i64: 2, 0>, interior = array<i64: 5, 0>, value = 0.0 : f64"},
    {"pad", "5xf64", "8xf64",
     .attrs = "low = array<i64: 0>, high = array<i64: 3>, interior = array<i64: 0>, value = -1.5 : f64"},
    {"pad", "3x5xf64", "4x7xf64",
     .attrs = "low = array<i64: 1, 2>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>, value = -1.5 : f64"},
    {"pad", "1x1xf64", "4x2xf64",
     .attrs = "low = array<i64: 3, 0>, high = array<i64: 0, 1>, interior = array<i64: 0, 0>, value = -1.5 : f64"},
    {"pad", "3x1x3xf64", "8x1x6xf64",
     .attrs =
         "low = array<i64: 0, 0, 1>, high = array<i64: 1, 0, 0>, interior = array<i64: 2, 0, 1>, value = -1.5 : f64"},
    {"concat", "2x3xf64, 2x1xf64, 2x2xf64", "2x6xf64", .attrs = "axis = 1 : i64"},
    {"concat", "2x3xf64, 4x3xf64", "6x3xf64", .attrs = "axis = 0 : i64"},
    {"concat", "3xf64, 5xf64", "8xf64", .attrs = "axis = 0 : i64"},
    {"concat", "3x5xf64, 3x5xf64", "3x10xf64", .attrs = "axis = 1 : i64"},
    {"concat", "1x3xf64, 5x3xf64, 1x3xf64", "7x3xf64", .attrs = "axis = 0 : i64"},
    {"concat", "3x1x5xf64, 3x7x5xf64", "3x8x5xf64", .attrs = "axis = 1 : i64"},
    {"gather", "5x3xf64, 2x4xi32", "2x4x3xf64", .high = 5},
    {"gather", "7xf64, 3xi32", "3xf64", .attrs = "", .high = 7},
    {"gather", "1x3xf64, 5xi32", "5x3xf64", .attrs = "", .high = 1},
    {"gather", "3x5xf64, 1xi32", "1x5xf64", .attrs = "", .high = 3},
    {"gather", "9x3x5xf64, 7xi32", "7x3x5xf64", .attrs = "", .high = 9},
    {"gather", "5x1xf64, 3x3xi32", "3x3x1xf64", .attrs = "", .high = 5},
    {"scatter_add", "2x4x3xf64, 2x4xi32", "5x3xf64", .attrs = "rows = 5 : i64", .high = 5},
    {"scatter_add", "3xf64, 3xi32", "7xf64", .attrs = "rows = 7 : i64", .high = 7},
    {"scatter_add", "5x3xf64, 5xi32", "1x3xf64", .attrs = "rows = 1 : i64", .high = 1},
    {"scatter_add", "1x5xf64, 1xi32", "3x5xf64", .attrs = "rows = 3 : i64", .high = 3},
    {"scatter_add", "7x3x5xf64, 7xi32", "9x3x5xf64", .attrs = "rows = 9 : i64", .high = 9},
    {"scatter_add", "3x3x1xf64, 3x3xi32", "5x1xf64", .attrs = "rows = 5 : i64", .high = 5},
    {"scatter_add_to", "2x4x3xf64, 2x4xi32, 5x3xf64", "5x3xf64", .attrs = "", .high = 5},
    {"scatter_add_to", "3xf64, 3xi32, 7xf64", "7xf64", .attrs = "", .high = 7},
    {"scatter_add_to", "5x3xf64, 5xi32, 1x3xf64", "1x3xf64", .attrs = "", .high = 1},
    {"scatter_add_to", "1x5xf64, 1xi32, 3x5xf64", "3x5xf64", .attrs = "", .high = 3},
    {"scatter_add_to", "7x3x5xf64, 7xi32, 9x3x5xf64", "9x3x5xf64", .attrs = "", .high = 9},
    {"scatter_add_to", "3x3x1xf64, 3x3xi32, 5x1xf64", "5x1xf64", .attrs = "", .high = 5},
    {"scatter_max", "2x4x3xf64, 2x4xi32", "5x3xf64", .attrs = "rows = 5 : i64", .high = 5},
    {"scatter_max", "3xf64, 3xi32", "7xf64", .attrs = "rows = 7 : i64", .high = 7},
    {"scatter_max", "5x3xf64, 5xi32", "1x3xf64", .attrs = "rows = 1 : i64", .high = 1},
    {"scatter_max", "1x5xf64, 1xi32", "3x5xf64", .attrs = "rows = 3 : i64", .high = 3},
    {"scatter_max", "7x3x5xf64, 7xi32", "9x3x5xf64", .attrs = "rows = 9 : i64", .high = 9},
    {"scatter_max", "3x3x1xf64, 3x3xi32", "5x1xf64", .attrs = "rows = 5 : i64", .high = 5},
    {"maxpool2d", "2x3x7x5xf64", "2x3x3x6xf64, 2x3x3x6xui8", .attrs = POOL},
    {"maxpool2d", "2x7x5x3xf64", "2x3x6x3xf64, 2x3x6x3xui8", .attrs = POOL ", layout = \"nhwc\""},
    {"maxpool2d", "1x1x5x5xf64", "1x1x2x2xf64, 1x1x2x2xui8",
     .attrs = "kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>"},
    {"maxpool2d", "3x1x3x7xf64", "3x1x3x4xf64, 3x1x3x4xui8",
     .attrs = "kernel = array<i64: 3, 3>, strides = array<i64: 1, 2>, padding = array<i64: 1, 1, 1, 1>"},
    {"maxpool2d", "1x5x9x1xf64", "1x5x5x1xf64, 1x5x5x1xui8",
     .attrs = "kernel = array<i64: 3, 1>, strides = array<i64: 2, 1>, padding = array<i64: 1, 1, 0, 0>"},
    {"maxpool2d", "2x3x3x3xf64", "2x3x1x1xf64, 2x3x1x1xui8",
     .attrs = "kernel = array<i64: 3, 3>, strides = array<i64: 3, 3>, padding = array<i64: 0, 0, 0, 0>"},
    {"maxpool2d", "1x3x7x7xf64", "1x3x3x3xf64, 1x3x3x3xui8",
     .attrs = "kernel = array<i64: 2, 3>, strides = array<i64: 3, 2>, padding = array<i64: 0, 1, 1, 0>"},
    {"maxpool2d_grad", "1x1x2x2xf64, 1x1x2x2xui8", "1x1x5x5xf64",
     .attrs = "kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>", .high = 4},
    {"maxpool2d_grad", "3x1x2x3xf64, 3x1x2x3xui8", "3x1x4x7xf64",
     .attrs = "kernel = array<i64: 3, 3>, strides = array<i64: 1, 2>, padding = array<i64: 0, 0, 0, 0>", .high = 9},
    {"maxpool2d_grad", "1x9x4x1xf64, 1x9x4x1xui8", "1x9x9x1xf64",
     .attrs = "kernel = array<i64: 3, 1>, strides = array<i64: 2, 1>, padding = array<i64: 0, 0, 0, 0>", .high = 3},
    {"maxpool2d_grad", "2x3x1x1xf64, 2x3x1x1xui8", "2x3x3x3xf64",
     .attrs = "kernel = array<i64: 3, 3>, strides = array<i64: 3, 3>, padding = array<i64: 0, 0, 0, 0>", .high = 9},
    {"maxpool2d_grad", "1x2x3x3xf64, 1x2x3x3xui8", "1x6x7x3xf64",
     .attrs = "kernel = array<i64: 2, 3>, strides = array<i64: 3, 2>, padding = array<i64: 0, 0, 0, 0>, layout = "
              "\"nhwc\"",
     .high = 6},
    {"maxpool2d_grad", "2x1x3x5xf64, 2x1x3x5xui8", "2x1x3x5xf64",
     .attrs = "kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>", .high = 1},
    {"avgpool2d", "2x3x7x5xf64", "2x3x3x6xf64", .attrs = POOL ", include_pad = true"},
    {"avgpool2d", "2x7x5x3xf64", "2x3x6x3xf64", .attrs = POOL ", include_pad = false, layout = \"nhwc\""},
    {"avgpool2d", "1x1x5x5xf64", "1x1x2x2xf64",
     .attrs = "kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, include_pad = "
              "false"},
    {"avgpool2d", "3x1x3x7xf64", "3x1x3x4xf64",
     .attrs =
         "kernel = array<i64: 3, 3>, strides = array<i64: 1, 2>, padding = array<i64: 1, 1, 1, 1>, include_pad = true"},
    {"avgpool2d", "1x5x9x1xf64", "1x5x5x1xf64",
     .attrs = "kernel = array<i64: 3, 1>, strides = array<i64: 2, 1>, padding = array<i64: 1, 1, 0, 0>, include_pad = "
              "false"},
    {"avgpool2d", "2x3x3x3xf64", "2x3x1x1xf64",
     .attrs =
         "kernel = array<i64: 3, 3>, strides = array<i64: 3, 3>, padding = array<i64: 0, 0, 0, 0>, include_pad = true"},
    {"avgpool2d", "1x3x7x7xf64", "1x3x3x3xf64",
     .attrs = "kernel = array<i64: 2, 3>, strides = array<i64: 3, 2>, padding = array<i64: 0, 1, 1, 0>, include_pad = "
              "false"},
    {"avgpool2d_grad", "2x3x3x6xf64", "2x3x7x5xf64", .attrs = POOL ", include_pad = false"},
    {"avgpool2d_grad", "1x1x2x2xf64", "1x1x5x5xf64",
     .attrs = "kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, include_pad = "
              "false"},
    {"avgpool2d_grad", "3x1x3x4xf64", "3x1x3x7xf64",
     .attrs =
         "kernel = array<i64: 3, 3>, strides = array<i64: 1, 2>, padding = array<i64: 1, 1, 1, 1>, include_pad = true"},
    {"avgpool2d_grad", "1x5x5x1xf64", "1x5x9x1xf64",
     .attrs = "kernel = array<i64: 3, 1>, strides = array<i64: 2, 1>, padding = array<i64: 1, 1, 0, 0>, include_pad = "
              "false"},
    {"avgpool2d_grad", "2x3x1x1xf64", "2x3x3x3xf64",
     .attrs =
         "kernel = array<i64: 3, 3>, strides = array<i64: 3, 3>, padding = array<i64: 0, 0, 0, 0>, include_pad = true"},
    {"avgpool2d_grad", "1x3x3x3xf64", "1x3x7x7xf64",
     .attrs = "kernel = array<i64: 2, 3>, strides = array<i64: 3, 2>, padding = array<i64: 0, 1, 1, 0>, include_pad = "
              "false"},
    {"matmul", "3x4xf64, 4x2xf64", "3x2xf64", .attrs = ""},
    {"matmul", "3x4xf64, 2x4xf64", "3x2xf64", .attrs = "transpose_b = true"},
    {"matmul", "4x3xf64, 4x2xf64", "3x2xf64", .attrs = "transpose_a = true"},
    {"matmul", "4x3xf64, 2x4xf64", "3x2xf64", .attrs = "transpose_a = true, transpose_b = true"},
    {"matmul", "2x3x4xf64, 2x4x2xf64", "2x3x2xf64", .attrs = ""},
    {"matmul", "2x3x4xf64, 2x2x4xf64", "2x3x2xf64", .attrs = "transpose_b = true"},
    {"matmul", "2x4x3xf64, 2x4x2xf64", "2x3x2xf64", .attrs = "transpose_a = true"},
    {"matmul", "2x4x3xf64, 2x2x4xf64", "2x3x2xf64", .attrs = "transpose_a = true, transpose_b = true"},
    {"matmul", "2x5x3x4xf64, 4x2xf64", "2x5x3x2xf64", .attrs = ""},
    {"matmul", "2x5x3x4xf64, 2x4xf64", "2x5x3x2xf64", .attrs = "transpose_b = true"},
    {"matmul_rows", "2x5x3xf64, 2x5x4xf64", "3x4xf64", .attrs = ""},
    {"matmul_rows", "5x3xf64, 5x7xf64", "3x7xf64", .attrs = ""},
    {"matmul_rows", "1x1xf64, 1x5xf64", "1x5xf64", .attrs = ""},
    {"matmul_rows", "3x3x5xf64, 3x3x1xf64", "5x1xf64", .attrs = ""},
    {"matmul_rows", "2x1x3x3xf64, 2x1x3x3xf64", "3x3xf64", .attrs = ""},
    {"matmul_rows", "7x1xf64, 7x1xf64", "1x1xf64", .attrs = ""},
    {"matmul_rows_to", "2x5x3xf64, 2x5x4xf64, 3x4xf64", "3x4xf64", .attrs = ""},
    {"matmul_rows_to", "5x3xf64, 5x7xf64, 3x7xf64", "3x7xf64", .attrs = ""},
    {"matmul_rows_to", "1x1xf64, 1x5xf64, 1x5xf64", "1x5xf64", .attrs = ""},
    {"matmul_rows_to", "3x3x5xf64, 3x3x1xf64, 5x1xf64", "5x1xf64", .attrs = ""},
    {"matmul_rows_to", "2x1x3x3xf64, 2x1x3x3xf64, 3x3xf64", "3x3xf64", .attrs = ""},
    {"matmul_rows_to", "7x1xf64, 7x1xf64, 1x1xf64", "1x1xf64", .attrs = ""},
    {"conv2d", "2x4x7x5xf64, 6x2x3x2xf64", "2x6x4x4xf64", .attrs = CONV},
    {"conv2d", "2x7x5x4xf64, 6x2x3x2xf64", "2x4x4x6xf64", .attrs = CONV ", layout = \"nhwc\""},
    {"conv2d", "1x1x3x3xf64, 1x1x1x1xf64", "1x1x3x3xf64",
     .attrs =
         "strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64"},
    {"conv2d", "2x3x5x7xf64, 5x3x3x3xf64", "2x5x5x7xf64",
     .attrs =
         "strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64"},
    {"conv2d", "1x3x7x7xf64, 3x1x3x3xf64", "1x3x4x4xf64",
     .attrs =
         "strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 3 : i64"},
    {"conv2d", "3x2x5x5xf64, 3x2x5x5xf64", "3x3x1x1xf64",
     .attrs =
         "strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64"},
    {"conv2d", "1x6x3x9xf64, 9x2x1x3xf64", "1x9x3x3xf64",
     .attrs =
         "strides = array<i64: 1, 3>, padding = array<i64: 0, 0, 1, 1>, dilation = array<i64: 1, 1>, groups = 3 : i64"},
    {"conv2d_input_grad", "2x6x4x4xf64, 6x2x3x2xf64", "2x4x7x5xf64", .attrs = CONV},
    {"conv2d_input_grad", "1x1x3x3xf64, 1x1x1x1xf64", "1x1x3x3xf64",
     .attrs =
         "strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64"},
    {"conv2d_input_grad", "2x5x5x7xf64, 5x3x3x3xf64", "2x3x5x7xf64",
     .attrs =
         "strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64"},
    {"conv2d_input_grad", "1x3x4x4xf64, 3x1x3x3xf64", "1x3x7x7xf64",
     .attrs =
         "strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 3 : i64"},
    {"conv2d_input_grad", "3x3x1x1xf64, 3x2x5x5xf64", "3x2x5x5xf64",
     .attrs =
         "strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64"},
    {"conv2d_input_grad", "1x9x3x3xf64, 9x2x1x3xf64", "1x6x3x9xf64",
     .attrs =
         "strides = array<i64: 1, 3>, padding = array<i64: 0, 0, 1, 1>, dilation = array<i64: 1, 1>, groups = 3 : i64"},
    {"conv2d_weight_grad", "2x4x7x5xf64, 2x6x4x4xf64", "6x2x3x2xf64", .attrs = CONV},
    {"conv2d_weight_grad", "1x1x3x3xf64, 1x1x3x3xf64", "1x1x1x1xf64",
     .attrs =
         "strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64"},
    {"conv2d_weight_grad", "2x3x5x7xf64, 2x5x5x7xf64", "5x3x3x3xf64",
     .attrs =
         "strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64"},
    {"conv2d_weight_grad", "1x3x7x7xf64, 1x3x4x4xf64", "3x1x3x3xf64",
     .attrs =
         "strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 3 : i64"},
    {"conv2d_weight_grad", "3x2x5x5xf64, 3x3x1x1xf64", "3x2x5x5xf64",
     .attrs =
         "strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64"},
    {"conv2d_weight_grad", "1x6x3x9xf64, 1x9x3x3xf64", "9x2x1x3xf64",
     .attrs =
         "strides = array<i64: 1, 3>, padding = array<i64: 0, 0, 1, 1>, dilation = array<i64: 1, 1>, groups = 3 : i64"},
    {"conv3d", "2x4x5x4x5xf64, 6x2x2x3x2xf64", "2x6x3x2x3xf64",
     .attrs = "strides = array<i64: 2, 1, 2>, padding = array<i64: 1, 0, 1, 1, 0, 1>, dilation = array<i64: 1, 2, 1>, "
              "groups = 2 : i64, layout = \"ncdhw\""},
    {"conv3d", "2x5x4x5x4xf64, 6x2x2x3x2xf64", "2x3x2x3x6xf64",
     .attrs = "strides = array<i64: 2, 1, 2>, padding = array<i64: 1, 0, 1, 1, 0, 1>, dilation = array<i64: 1, 2, 1>, "
              "groups = 2 : i64, layout = \"ndhwc\""},
    {"conv3d", "1x1x1x1x1xf64, 1x1x1x1x1xf64", "1x1x1x1x1xf64",
     .attrs = "strides = array<i64: 1, 1, 1>, padding = array<i64: 0, 0, 0, 0, 0, 0>, dilation = array<i64: 1, 1, 1>, "
              "groups = 1 : i64"},
    {"conv3d", "1x2x3x3x5xf64, 3x2x3x3x3xf64", "1x3x3x3x5xf64",
     .attrs = "strides = array<i64: 1, 1, 1>, padding = array<i64: 1, 1, 1, 1, 1, 1>, dilation = array<i64: 1, 1, 1>, "
              "groups = 1 : i64"},
    {"conv3d", "1x3x7x3x3xf64, 3x1x3x1x1xf64", "1x3x3x3x3xf64",
     .attrs = "strides = array<i64: 2, 1, 1>, padding = array<i64: 1, 1, 0, 0, 0, 0>, dilation = array<i64: 2, 1, 1>, "
              "groups = 3 : i64"},
    {"conv3d", "3x5x3x3x1xf64, 1x1x5x3x3xf64", "3x1x1x1x1xf64",
     .attrs = "strides = array<i64: 1, 1, 1>, padding = array<i64: 0, 0, 0, 0, 0, 0>, dilation = array<i64: 1, 1, 1>, "
              "groups = 1 : i64, layout = \"ndhwc\""},
    {"conv3d", "1x3x1x3x5xf64, 3x5x2x1x1xf64", "1x1x1x2x3xf64",
     .attrs = "strides = array<i64: 3, 1, 2>, padding = array<i64: 0, 1, 0, 0, 0, 0>, dilation = array<i64: 1, 1, 1>, "
              "groups = 1 : i64, layout = \"ndhwc\""},
    {"conv3d_input_grad", "2x6x3x2x3xf64, 6x2x2x3x2xf64", "2x4x5x4x5xf64",
     .attrs = "strides = array<i64: 2, 1, 2>, padding = array<i64: 1, 0, 1, 1, 0, 1>, dilation = array<i64: 1, 2, 1>, "
              "groups = 2 : i64, layout = \"ncdhw\""},
    {"conv3d_input_grad", "2x3x2x3x6xf64, 6x2x2x3x2xf64", "2x5x4x5x4xf64",
     .attrs = "strides = array<i64: 2, 1, 2>, padding = array<i64: 1, 0, 1, 1, 0, 1>, dilation = array<i64: 1, 2, 1>, "
              "groups = 2 : i64, layout = \"ndhwc\""},
    {"conv3d_input_grad", "1x1x1x1x1xf64, 1x1x1x1x1xf64", "1x1x1x1x1xf64",
     .attrs = "strides = array<i64: 1, 1, 1>, padding = array<i64: 0, 0, 0, 0, 0, 0>, dilation = array<i64: 1, 1, 1>, "
              "groups = 1 : i64"},
    {"conv3d_input_grad", "1x3x3x3x5xf64, 3x2x3x3x3xf64", "1x2x3x3x5xf64",
     .attrs = "strides = array<i64: 1, 1, 1>, padding = array<i64: 1, 1, 1, 1, 1, 1>, dilation = array<i64: 1, 1, 1>, "
              "groups = 1 : i64"},
    {"conv3d_input_grad", "1x3x3x3x3xf64, 3x1x3x1x1xf64", "1x3x7x3x3xf64",
     .attrs = "strides = array<i64: 2, 1, 1>, padding = array<i64: 1, 1, 0, 0, 0, 0>, dilation = array<i64: 2, 1, 1>, "
              "groups = 3 : i64"},
    {"conv3d_input_grad", "3x1x1x1x1xf64, 1x1x5x3x3xf64", "3x5x3x3x1xf64",
     .attrs = "strides = array<i64: 1, 1, 1>, padding = array<i64: 0, 0, 0, 0, 0, 0>, dilation = array<i64: 1, 1, 1>, "
              "groups = 1 : i64, layout = \"ndhwc\""},
    {"conv3d_input_grad", "1x1x1x2x3xf64, 3x5x2x1x1xf64", "1x3x1x3x5xf64",
     .attrs = "strides = array<i64: 3, 1, 2>, padding = array<i64: 0, 1, 0, 0, 0, 0>, dilation = array<i64: 1, 1, 1>, "
              "groups = 1 : i64, layout = \"ndhwc\""},
    {"conv3d_weight_grad", "2x4x5x4x5xf64, 2x6x3x2x3xf64", "6x2x2x3x2xf64",
     .attrs = "strides = array<i64: 2, 1, 2>, padding = array<i64: 1, 0, 1, 1, 0, 1>, dilation = array<i64: 1, 2, 1>, "
              "groups = 2 : i64, layout = \"ncdhw\""},
    {"conv3d_weight_grad", "2x5x4x5x4xf64, 2x3x2x3x6xf64", "6x2x2x3x2xf64",
     .attrs = "strides = array<i64: 2, 1, 2>, padding = array<i64: 1, 0, 1, 1, 0, 1>, dilation = array<i64: 1, 2, 1>, "
              "groups = 2 : i64, layout = \"ndhwc\""},
    {"conv3d_weight_grad", "1x1x1x1x1xf64, 1x1x1x1x1xf64", "1x1x1x1x1xf64",
     .attrs = "strides = array<i64: 1, 1, 1>, padding = array<i64: 0, 0, 0, 0, 0, 0>, dilation = array<i64: 1, 1, 1>, "
              "groups = 1 : i64"},
    {"conv3d_weight_grad", "1x2x3x3x5xf64, 1x3x3x3x5xf64", "3x2x3x3x3xf64",
     .attrs = "strides = array<i64: 1, 1, 1>, padding = array<i64: 1, 1, 1, 1, 1, 1>, dilation = array<i64: 1, 1, 1>, "
              "groups = 1 : i64"},
    {"conv3d_weight_grad", "1x3x7x3x3xf64, 1x3x3x3x3xf64", "3x1x3x1x1xf64",
     .attrs = "strides = array<i64: 2, 1, 1>, padding = array<i64: 1, 1, 0, 0, 0, 0>, dilation = array<i64: 2, 1, 1>, "
              "groups = 3 : i64"},
    {"conv3d_weight_grad", "3x5x3x3x1xf64, 3x1x1x1x1xf64", "1x1x5x3x3xf64",
     .attrs = "strides = array<i64: 1, 1, 1>, padding = array<i64: 0, 0, 0, 0, 0, 0>, dilation = array<i64: 1, 1, 1>, "
              "groups = 1 : i64, layout = \"ndhwc\""},
    {"conv3d_weight_grad", "1x3x1x3x5xf64, 1x1x1x2x3xf64", "3x5x2x1x1xf64",
     .attrs = "strides = array<i64: 3, 1, 2>, padding = array<i64: 0, 1, 0, 0, 0, 0>, dilation = array<i64: 1, 1, 1>, "
              "groups = 1 : i64, layout = \"ndhwc\""},
    {"attention", "2x3x5x4xf64, 2x3x7x4xf64, 2x3x7x4xf64", "2x3x5x4xf64, 2x3x5xf64", .attrs = "scale = 0.5 : f64",
     .constant_results = 1},
    {"attention", "1x1x1x1xf64, 1x1x1x1xf64, 1x1x1x1xf64", "1x1x1x1xf64, 1x1x1xf64",
     .attrs = "scale = 0.5 : f64, causal = true", .constant_results = 1},
    {"attention", "2x4x5x3xf64, 2x2x5x3xf64, 2x2x5x3xf64", "2x4x5x3xf64, 2x4x5xf64",
     .attrs = "scale = 0.7 : f64, causal = true", .constant_results = 1},
    {"attention", "2x3x6x2xf64, 2x7x2x2xf64, 2x7x2x2xf64", "2x3x6x2xf64, 2x6x3xf64",
     .attrs = "scale = 0.7 : f64, causal = true, layout = \"bthd\"", .constant_results = 1},
    {"attention", "2x5x4x3xf64, 2x5x4x3xf64, 2x5x4x3xf64", "2x5x2x3xf64, 2x2x5xf64",
     .attrs = "scale = 0.7 : f64, causal = true, layout = \"bthd\", heads = 2 : i64", .constant_results = 1},
    {"attention", "2x2x7x3xf64, 2x2x5x3xf64, 2x2x5x3xf64", "2x2x7x3xf64, 2x2x7xf64",
     .attrs = "scale = 0.7 : f64, causal = true", .constant_results = 1},
    {"attention", "2x2x3x3xf64, 2x2x5x3xf64, 2x2x5x3xf64, 2x5xi1", "2x2x3x3xf64, 2x2x3xf64",
     .attrs = "scale = 0.7 : f64", .high = 2, .constant_results = 1},
    {"attention", "2x2x3x3xf64, 2x1x5x3xf64, 2x1x5x3xf64, 2x5xi1, 4xi32", "2x2x3x3xf64, 2x2x3xf64",
     .attrs = "scale = 0.7 : f64, causal = true, dropout = 0.4 : f64", .high = 2, .constant_results = 1},
    {"cumulative", "7xf64", "7xf64", .attrs = "axis = 0 : i64, kind = \"sum\""},
    {"cumulative", "3x1xf64", "3x1xf64", .attrs = "axis = 1 : i64, kind = \"product\", reverse = true"},
    {"cumulative", "2x5x3xf64", "2x5x3xf64", .attrs = "axis = 1 : i64, kind = \"sum\", reverse = true"},
    {"cumulative", "3x7xf64", "3x7xf64", .attrs = "axis = 1 : i64, kind = \"product\""},
    {"cumulative", "5x3xf64", "5x3xf64", .attrs = "axis = 0 : i64, kind = \"product\", reverse = true"},
    {"cumulative", "1x9x1xf64", "1x9x1xf64", .attrs = "axis = 1 : i64, kind = \"product\""},
    {"fourier", "3x7xf64", "3x4x2xf64", .attrs = "length = 7 : i64, kind = \"real\""},
    {"fourier", "12xf64", "7x2xf64", .attrs = "length = 12 : i64, kind = \"real\""},
    {"fourier", "2x3x5x2xf64", "2x3x9xf64", .attrs = "length = 9 : i64, kind = \"half\""},
    {"fourier", "2x66x2xf64", "2x130xf64", .attrs = "length = 130 : i64, kind = \"half\""},
    {"fourier", "3x70x2xf64", "3x70x2xf64", .attrs = "length = 70 : i64, kind = \"complex\""},
    {"fourier", "5x2xf64", "5x2xf64", .attrs = "length = 5 : i64, kind = \"complex\", inverse = true"},
    {"recurrence", "7xf64, 7xf64", "7xf64", .attrs = "axis = 0 : i64"},
    {"recurrence", "3x1xf64, 3x1xf64", "3x1xf64", .attrs = "axis = 1 : i64, reverse = true"},
    {"recurrence", "2x5x3xf64, 2x5x3xf64", "2x5x3xf64", .attrs = "axis = 1 : i64"},
    {"recurrence", "3x7xf64, 3x7xf64", "3x7xf64", .attrs = "axis = 1 : i64, reverse = true"},
    {"recurrence", "5x3xf64, 5x3xf64", "5x3xf64", .attrs = "axis = 0 : i64"},
    {"recurrence", "1x9x1xf64, 1x9x1xf64", "1x9x1xf64", .attrs = "axis = 1 : i64"},
    {"take_along", "7xf64, 3xi32", "3xf64", .attrs = "axis = 0 : i64", .high = 7},
    {"take_along", "3x1xf64, 3x5xi64", "3x5xf64", .attrs = "axis = 1 : i64", .high = 1},
    {"take_along", "2x5x3xf64, 2x7x3xi32", "2x7x3xf64", .attrs = "axis = 1 : i64", .high = 5},
    {"take_along", "3x7xf64, 3x2xi32", "3x2xf64", .attrs = "axis = 1 : i64", .high = 7},
    {"take_along", "5x3xf64, 9x3xi64", "9x3xf64", .attrs = "axis = 0 : i64", .high = 5},
    {"take_along", "1x1x9xf64, 1x1x1xi32", "1x1x1xf64", .attrs = "axis = 2 : i64, unique = true", .high = 9},
    {"scatter_along", "7xf64, 7xi32", "5xf64", .attrs = "axis = 0 : i64, size = 5 : i64", .high = 5},
    {"scatter_along", "3x1xf64, 3x1xi64", "3x3xf64", .attrs = "axis = 1 : i64, size = 3 : i64", .high = 3},
    {"scatter_along", "2x5x3xf64, 2x5x3xi32", "2x7x3xf64", .attrs = "axis = 1 : i64, size = 7 : i64", .high = 7},
    {"scatter_along", "3x7xf64, 3x7xi32", "3x1xf64", .attrs = "axis = 1 : i64, size = 1 : i64", .high = 1},
    {"scatter_along", "5x3xf64, 5x3xi64", "9x3xf64", .attrs = "axis = 0 : i64, size = 9 : i64", .high = 9},
    {"scatter_along", "1x1x9xf64, 1x1x9xi32", "1x1x4xf64", .attrs = "axis = 2 : i64, size = 4 : i64", .high = 4},
    {"softmax", "2x3x4xf64", "2x3x4xf64", .attrs = ""},
    {"softmax", "7xf64", "7xf64", .attrs = ""},
    {"softmax", "1x5xf64", "1x5xf64", .attrs = ""},
    {"softmax", "3x1xf64", "3x1xf64", .attrs = ""},
    {"softmax", "5x3x7xf64", "5x3x7xf64", .attrs = ""},
    {"softmax", "2x1x3x5xf64", "2x1x3x5xf64", .attrs = ""},
    {"log_softmax", "2x3x4xf64", "2x3x4xf64", .attrs = ""},
    {"log_softmax", "7xf64", "7xf64", .attrs = ""},
    {"log_softmax", "1x5xf64", "1x5xf64", .attrs = ""},
    {"log_softmax", "3x1xf64", "3x1xf64", .attrs = ""},
    {"log_softmax", "5x3x7xf64", "5x3x7xf64", .attrs = ""},
    {"log_softmax", "2x1x3x5xf64", "2x1x3x5xf64", .attrs = ""},
    {"cross_entropy", "2x6x4xf64, 2x6xi32", "2x6xf64, 2x6xf64", .low = -1, .high = 6},
    {"cross_entropy", "6x4xf64, 6xi64", "6xf64, 6xf64", .high = 4, .constant_results = 1},
    {"cross_entropy", "1x3xf64, 1xi32", "1xf64, 1xf64", .attrs = "", .high = 3},
    {"cross_entropy", "5x7xf64, 5xi32", "5xf64, 5xf64", .attrs = "", .high = 7},
    {"cross_entropy", "3x5x3xf64, 3x5xi32", "3x5xf64, 3x5xf64", .attrs = "", .high = 3},
    {"cross_entropy", "7x1xf64, 7xi32", "7xf64, 7xf64", .attrs = "", .high = 1},
    {"layernorm", "2x3x5xf64, 5xf64, 5xf64", "2x3x5xf64, 2x3xf64, 2x3xf64", .attrs = "eps = 1.0e-5 : f64"},
    {"layernorm", "3x5xf64, 5xf64, 5xf64", "3x5xf64, 3xf64, 3xf64", .attrs = "eps = 1.0e-3 : f64"},
    {"layernorm", "1x7xf64, 7xf64, 7xf64", "1x7xf64, 1xf64, 1xf64", .attrs = "eps = 1.0e-3 : f64"},
    {"layernorm", "5x3xf64, 3xf64, 3xf64", "5x3xf64, 5xf64, 5xf64", .attrs = "eps = 1.0e-3 : f64"},
    {"layernorm", "3x1x9xf64, 9xf64, 9xf64", "3x1x9xf64, 3x1xf64, 3x1xf64", .attrs = "eps = 1.0e-3 : f64"},
    {"layernorm", "2x3x5x3xf64, 3xf64, 3xf64", "2x3x5x3xf64, 2x3x5xf64, 2x3x5xf64", .attrs = "eps = 1.0e-3 : f64"},
    {"batchnorm", "4x3x5xf64, 3xf64, 3xf64", "4x3x5xf64, 3xf64, 3xf64", .attrs = "eps = 1.0e-5 : f64, axis = 1 : i64"},
    {"batchnorm", "4x5x3xf64, 3xf64, 3xf64", "4x5x3xf64, 3xf64, 3xf64", .attrs = "eps = 1.0e-3 : f64, axis = 2 : i64"},
    {"batchnorm", "5x3xf64, 3xf64, 3xf64", "5x3xf64, 3xf64, 3xf64", .attrs = "eps = 1.0e-3 : f64, axis = 1 : i64"},
    {"batchnorm", "3x1x5x7xf64, 1xf64, 1xf64", "3x1x5x7xf64, 1xf64, 1xf64",
     .attrs = "eps = 1.0e-3 : f64, axis = 1 : i64"},
    {"batchnorm", "2x3x3x3xf64, 3xf64, 3xf64", "2x3x3x3xf64, 3xf64, 3xf64",
     .attrs = "eps = 1.0e-3 : f64, axis = 1 : i64"},
    {"batchnorm", "7x5x1xf64, 1xf64, 1xf64", "7x5x1xf64, 1xf64, 1xf64", .attrs = "eps = 1.0e-3 : f64, axis = 2 : i64"},
};

#endif
