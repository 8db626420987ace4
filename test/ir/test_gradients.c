// Every gradient rule against central differences of the reference interpreter in f64, and every expansion of a composite against the
// composite's own formula. A case is one op with its types; its results are weighted by random cotangents and summed.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test/check.h"
#include "test/ir/reference.c"

typedef struct Case {
  const char *op, *operands, *results, *attrs;   // types as "3x4xf64, 3xi32"
  bool positive;       // floats in [0.5, 1.5) instead of [-1.5, 1.5)
  int low, high;       // integers in [low, high)
  int constant_results;   // the last so many results are constants to differentiation
} Case;

#define POOL "kernel = array<i64: 3, 2>, strides = array<i64: 2, 1>, padding = array<i64: 1, 0, 1, 1>"
#define CONV "strides = array<i64: 2, 1>, padding = array<i64: 1, 2, 0, 1>, dilation = array<i64: 1, 2>, groups = 2 : i64"

static const Case cases[] = {
  {"neg", "2x3xf64", "2x3xf64", .attrs = ""},
  {"abs", "2x3xf64", "2x3xf64", .attrs = ""},
  {"exp", "2x3xf64", "2x3xf64", .attrs = ""},
  {"log", "2x3xf64", "2x3xf64", .positive = true},
  {"sqrt", "2x3xf64", "2x3xf64", .positive = true},
  {"rsqrt", "2x3xf64", "2x3xf64", .positive = true},
  {"recip", "2x3xf64", "2x3xf64", .positive = true},
  {"sin", "2x3xf64", "2x3xf64", .attrs = ""},
  {"cos", "2x3xf64", "2x3xf64", .attrs = ""},
  {"tanh", "2x3xf64", "2x3xf64", .attrs = ""},
  {"erf", "2x3xf64", "2x3xf64", .attrs = ""},
  {"sigmoid", "2x3xf64", "2x3xf64", .attrs = ""},
  {"relu", "4x5xf64", "4x5xf64", .attrs = ""},
  {"add", "2x3xf64, 2x3xf64", "2x3xf64", .attrs = ""},
  {"sub", "2x3xf64, 2x3xf64", "2x3xf64", .attrs = ""},
  {"mul", "2x3xf64, 2x3xf64", "2x3xf64", .attrs = ""},
  {"div", "2x3xf64, 2x3xf64", "2x3xf64", .positive = true},
  {"pow", "2x3xf64, 2x3xf64", "2x3xf64", .positive = true},
  {"max", "4x5xf64, 4x5xf64", "4x5xf64", .attrs = ""},
  {"min", "4x5xf64, 4x5xf64", "4x5xf64", .attrs = ""},
  {"select", "4x5xi1, 4x5xf64, 4x5xf64", "4x5xf64", .high = 2},
  {"cast", "2x3xf64", "2x3xf32", .attrs = ""},
  {"broadcast", "3x1xf64", "2x3x4x5xf64", .attrs = "dims = array<i64: 1, 3>"},
  {"broadcast", "f64", "2x3xf64", .attrs = "dims = array<i64>"},
  {"broadcast", "1x3xf64", "1x3x1xf64", .attrs = "dims = array<i64: 0, 1>"},
  {"reshape", "2x6xf64", "3x4xf64", .attrs = ""},
  {"transpose", "2x3x4xf64", "4x2x3xf64", .attrs = "perm = array<i64: 2, 0, 1>"},
  {"slice", "5x7xf64", "2x3xf64", .attrs = "starts = array<i64: 1, 0>, sizes = array<i64: 2, 3>, strides = array<i64: 3, 2>"},
  {"slice", "5x7xf64", "1x7xf64", .attrs = "starts = array<i64: 4, 0>, sizes = array<i64: 1, 7>, strides = array<i64: 9, 1>"},
  {"reduce_sum", "2x3x4xf64", "3xf64", .attrs = "axes = array<i64: 0, 2>"},
  {"reduce_sum", "2x3xf64", "f64", .attrs = "axes = array<i64: 0, 1>"},
  {"reduce_max", "2x3x4xf64", "2x4xf64", .attrs = "axes = array<i64: 1>"},
  {"moments", "2x3x4xf64", "3xf64, 3xf64", .attrs = "axes = array<i64: 0, 2>"},
  {"pad", "2x3xf64", "5x8xf64", .attrs = "low = array<i64: 1, 0>, high = array<i64: 1, 1>, interior = array<i64: 1, 2>, value = 3.0 : f64"},
  {"pad", "1x3xf64", "4x3xf64", .attrs = "low = array<i64: 1, 0>, high = array<i64: 2, 0>, interior = array<i64: 5, 0>, value = 0.0 : f64"},
  {"concat", "2x3xf64, 2x1xf64, 2x2xf64", "2x6xf64", .attrs = "axis = 1 : i64"},
  {"concat", "2x3xf64, 4x3xf64", "6x3xf64", .attrs = "axis = 0 : i64"},
  {"gather", "5x3xf64, 2x4xi32", "2x4x3xf64", .high = 5},
  {"scatter_add", "2x4x3xf64, 2x4xi32", "5x3xf64", .attrs = "rows = 5 : i64", .high = 5},
  {"scatter_add_to", "2x4x3xf64, 2x4xi32, 5x3xf64", "5x3xf64", .attrs = "", .high = 5},
  {"scatter_max", "2x4x3xf64, 2x4xi32", "5x3xf64", .attrs = "rows = 5 : i64", .high = 5},
  {"maxpool2d", "2x3x7x5xf64", "2x3x3x6xf64, 2x3x3x6xui8", .attrs = POOL},
  {"maxpool2d", "2x7x5x3xf64", "2x3x6x3xf64, 2x3x6x3xui8", .attrs = POOL ", layout = \"nhwc\""},
  {"avgpool2d", "2x3x7x5xf64", "2x3x3x6xf64", .attrs = POOL ", include_pad = true"},
  {"avgpool2d", "2x7x5x3xf64", "2x3x6x3xf64", .attrs = POOL ", include_pad = false, layout = \"nhwc\""},
  {"avgpool2d_grad", "2x3x3x6xf64", "2x3x7x5xf64", .attrs = POOL ", include_pad = false"},
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
  {"conv2d", "2x4x7x5xf64, 6x2x3x2xf64", "2x6x4x4xf64", .attrs = CONV},
  {"conv2d", "2x7x5x4xf64, 6x2x3x2xf64", "2x4x4x6xf64", .attrs = CONV ", layout = \"nhwc\""},
  {"conv2d_input_grad", "2x6x4x4xf64, 6x2x3x2xf64", "2x4x7x5xf64", .attrs = CONV},
  {"conv2d_weight_grad", "2x4x7x5xf64, 2x6x4x4xf64", "6x2x3x2xf64", .attrs = CONV},
  {"attention", "2x3x5x4xf64, 2x3x7x4xf64, 2x3x7x4xf64", "2x3x5x4xf64, 2x3x5xf64", .attrs = "scale = 0.5 : f64", .constant_results = 1},
  {"attention", "1x1x1x1xf64, 1x1x1x1xf64, 1x1x1x1xf64", "1x1x1x1xf64, 1x1x1xf64", .attrs = "scale = 0.5 : f64, causal = true", .constant_results = 1},
  {"attention", "2x4x5x3xf64, 2x2x5x3xf64, 2x2x5x3xf64", "2x4x5x3xf64, 2x4x5xf64", .attrs = "scale = 0.7 : f64, causal = true", .constant_results = 1},
  {"attention", "2x3x6x2xf64, 2x7x2x2xf64, 2x7x2x2xf64", "2x3x6x2xf64, 2x6x3xf64", .attrs = "scale = 0.7 : f64, causal = true, layout = \"bthd\"", .constant_results = 1},
  {"attention", "2x2x7x3xf64, 2x2x5x3xf64, 2x2x5x3xf64", "2x2x7x3xf64, 2x2x7xf64", .attrs = "scale = 0.7 : f64, causal = true", .constant_results = 1},
  {"attention", "2x2x3x3xf64, 2x2x5x3xf64, 2x2x5x3xf64, 2x5xi1", "2x2x3x3xf64, 2x2x3xf64", .attrs = "scale = 0.7 : f64", .high = 2, .constant_results = 1},
  {"attention", "2x2x3x3xf64, 2x1x5x3xf64, 2x1x5x3xf64, 2x5xi1, 4xi32", "2x2x3x3xf64, 2x2x3xf64", .attrs = "scale = 0.7 : f64, causal = true, dropout = 0.4 : f64", .high = 2, .constant_results = 1},
  {"softmax", "2x3x4xf64", "2x3x4xf64", .attrs = ""},
  {"log_softmax", "2x3x4xf64", "2x3x4xf64", .attrs = ""},
  {"cross_entropy", "2x6x4xf64, 2x6xi32", "2x6xf64, 2x6xf64", .low = -1, .high = 6},
  {"cross_entropy", "6x4xf64, 6xi64", "6xf64, 6xf64", .high = 4, .constant_results = 1},
  {"layernorm", "2x3x5xf64, 5xf64, 5xf64", "2x3x5xf64, 2x3xf64, 2x3xf64", .attrs = "eps = 1.0e-5 : f64", .constant_results = 2},
  {"batchnorm", "4x3x5xf64, 3xf64, 3xf64", "4x3x5xf64, 3xf64, 3xf64", .attrs = "eps = 1.0e-5 : f64, axis = 1 : i64", .constant_results = 2},
  {"batchnorm", "4x5x3xf64, 3xf64, 3xf64", "4x5x3xf64, 3xf64, 3xf64", .attrs = "eps = 1.0e-3 : f64, axis = 2 : i64", .constant_results = 2},
};

enum { MAX_VALUES = 8 };

static unsigned long long random_state = 88172645463325252ull;

static double random_unit(void) {   // xorshift
  random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
  return (double)(random_state >> 11) / 9007199254740992.0;
}

static Tensor random_tensor(NnType type, const Case *c) {
  Tensor t = tensor_create(type);
  for (int64_t i = 0; i < nn_type_elements(&type); i++) {
    if (nn_dtype_is_float(type.dtype)) t.data[i] = c->positive ? 0.5 + random_unit() : 3 * random_unit() - 1.5;
    else t.data[i] = floor(c->low + (c->high - c->low) * random_unit());
  }
  return t;
}

// "3x4xf64, 3xi32" as "tensor<3x4xf64>, tensor<3xi32>", each after `prefix` numbered where there is one.
static int write_types(FILE *out, const char *types, const char *prefix) {
  int n = 0;
  for (const char *s = types; *s; n++) {
    size_t length = strcspn(s, ",");
    if (n) fprintf(out, ", ");
    if (prefix) fprintf(out, "%s%d: ", prefix, n);
    fprintf(out, "tensor<%.*s>", (int)length, s);
    s += length;
    s += strspn(s, ", ");
  }
  return n;
}

static char *case_text(const Case *c) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  fprintf(out, "func.func @f(");
  int n = write_types(out, c->operands, "%a");
  fprintf(out, ") -> (");
  int m = write_types(out, c->results, NULL);
  fprintf(out, ") {\n  %%r:%d = \"nn.%s", m, c->op);
  if (nn_op_info(nn_op_by_name(c->op))->n_operands < 0 && n != 2) fprintf(out, "_%d", n);
  fprintf(out, "\"(");
  for (int i = 0; i < n; i++) fprintf(out, "%s%%a%d", i ? ", " : "", i);
  fprintf(out, ") {%s} : (", c->attrs ? c->attrs : "");
  write_types(out, c->operands, NULL);
  fprintf(out, ") -> (");
  write_types(out, c->results, NULL);
  fprintf(out, ")\n  return ");
  for (int i = 0; i < m; i++) fprintf(out, "%s%%r#%d", i ? ", " : "", i);
  fprintf(out, " : ");
  write_types(out, c->results, NULL);
  fprintf(out, "\n}\n");
  fclose(out);
  return text;
}

// sum over the differentiable results of result * weight.
static double weighted_sum(MlirOperation func, const Tensor *args, int n_results, const Tensor *weight) {
  Tensor result[MAX_VALUES];
  double sum = 0;
  reference_run(func, args, result, MAX_VALUES);
  for (int r = 0; r < n_results; r++) {
    for (int64_t i = 0; weight[r].data && i < nn_type_elements(&weight[r].type); i++) sum += result[r].data[i] * weight[r].data[i];
    tensor_free(&result[r]);
  }
  return sum;
}

static double worst_difference(MlirOperation func, Tensor *args, int k, int n_results, const Tensor *weight, const Tensor *gradient) {
  const double h = 1e-5;
  double worst = 0;
  for (int64_t i = 0; i < nn_type_elements(&args[k].type); i++) {
    double x = args[k].data[i];
    args[k].data[i] = x + h;
    double up = weighted_sum(func, args, n_results, weight);
    args[k].data[i] = x - h;
    double down = weighted_sum(func, args, n_results, weight);
    args[k].data[i] = x;
    double expected = (up - down) / (2 * h), scale = fmax(1, fabs(expected));
    worst = fmax(worst, fabs(gradient[0].data[i] - expected) / scale);
  }
  return worst;
}

// Appends the gradient rule to @f, whose results become the cotangents of the operands with needed[]. Returns how many there are.
static int differentiate(MlirModule module, const Case *c, int n, int m, bool *needed, MlirLocation loc) {
  MlirOperation func = nn_module_function(module, "f"), op = mlirBlockGetFirstOperation(nn_function_body(func));
  MlirValue operand[MAX_VALUES], result[MAX_VALUES], cotangent[MAX_VALUES] = {{0}}, out[MAX_VALUES] = {{0}}, returned[MAX_VALUES];
  for (int i = 0; i < n; i++) operand[i] = mlirOperationGetOperand(op, i);
  for (int i = 0; i < m; i++) {
    result[i] = mlirOperationGetResult(op, i);
    NnType t = nn_value_type(result[i]);
    if (nn_dtype_is_float(t.dtype) && i < m - c->constant_results) cotangent[i] = nn_function_add_arg(func, t, loc, 0, NULL);
  }
  NnBuilder b = nn_builder_before(nn_function_return(func));
  NnVjp vjp = {.b = &b, .op = op, .n_operands = n, .n_results = m, .operand = operand, .result = result, .cotangent = cotangent,
               .needed = needed, .operand_cotangent = out};
  nn_op_info(nn_op_of(op))->vjp(&vjp);
  int found = 0;
  for (int i = 0; i < n; i++) {
    CHECK(needed[i] == !nn_value_is_null(out[i]), "%s: operand %d", c->op, i);
    if (!nn_value_is_null(out[i])) returned[found++] = out[i];
  }
  nn_function_set_results(func, found, returned, 0);
  CHECK(nn_verify_module(module), "%s: the gradient does not verify", c->op);
  return found;
}

static void check_gradient(MlirContext ctx, const Case *c, const char *text) {
  MlirModule forward = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text));
  CHECK(!mlirModuleIsNull(forward) && nn_verify_module(forward), "%s", text);
  if (mlirModuleIsNull(forward)) return;
  MlirModule backward = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text));
  MlirOperation func = nn_module_function(forward, "f"), op = mlirBlockGetFirstOperation(nn_function_body(func));
  int n = (int)mlirOperationGetNumOperands(op), m = (int)mlirOperationGetNumResults(op), n_args = n;
  Tensor args[2 * MAX_VALUES], weight[MAX_VALUES] = {{.data = NULL}}, gradient[MAX_VALUES];
  bool needed[MAX_VALUES];
  for (int i = 0; i < n; i++) {
    args[i] = random_tensor(nn_value_type(mlirOperationGetOperand(op, i)), c);
    needed[i] = nn_dtype_is_float(args[i].type.dtype);
  }
  for (int i = 0; i < m - c->constant_results; i++) {
    NnType t = nn_value_type(mlirOperationGetResult(op, i));
    if (nn_dtype_is_float(t.dtype)) args[n_args++] = weight[i] = random_tensor(t, c);
  }
  differentiate(backward, c, n, m, needed, mlirLocationUnknownGet(ctx));
  int found = reference_run(nn_module_function(backward, "f"), args, gradient, MAX_VALUES);
  for (int i = 0, at = 0; i < n; i++) {
    if (!needed[i] || at >= found) continue;
    double worst = worst_difference(func, args, i, m, weight, &gradient[at]);
    CHECK(worst < 1e-7, "%s(%s) {%s}: operand %d differs by %g", c->op, c->operands, c->attrs ? c->attrs : "", i, worst);
    tensor_free(&gradient[at++]);
  }
  for (int i = 0; i < n_args; i++) tensor_free(&args[i]);
  mlirModuleDestroy(forward);
  mlirModuleDestroy(backward);
}

static void check_expansion(MlirContext ctx, const Case *c, const char *text) {
  MlirModule module = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text));
  MlirOperation func = nn_module_function(module, "f"), op = mlirBlockGetFirstOperation(nn_function_body(func));
  int n = (int)mlirOperationGetNumOperands(op);
  Tensor args[MAX_VALUES], expected[MAX_VALUES], found[MAX_VALUES];
  for (int i = 0; i < n; i++) args[i] = random_tensor(nn_value_type(mlirOperationGetOperand(op, i)), c);
  int m = reference_run(func, args, expected, MAX_VALUES);
  NnBuilder b = nn_builder_before(op);
  MlirValue replacement[MAX_VALUES];
  nn_expand(&b, op, replacement);
  nn_function_set_results(func, m, replacement, 0);
  mlirOperationDestroy(op);
  CHECK(nn_verify_module(module), "%s: the expansion does not verify", c->op);
  for (op = mlirBlockGetFirstOperation(nn_function_body(func)); !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    CHECK(nn_op_of(op) == NN_OP_NONE || nn_op_info(nn_op_of(op))->kind != NN_KIND_COMPOSITE, "%s expands to a composite", c->op);
  reference_run(func, args, found, MAX_VALUES);
  for (int r = 0; r < m; r++) {
    double worst = 0;
    for (int64_t i = 0; i < nn_type_elements(&expected[r].type); i++) worst = fmax(worst, fabs(expected[r].data[i] - found[r].data[i]));
    CHECK(worst < 1e-12, "%s: result %d differs by %g", c->op, r, worst);
    tensor_free(&expected[r]);
    tensor_free(&found[r]);
  }
  for (int i = 0; i < n; i++) tensor_free(&args[i]);
  mlirModuleDestroy(module);
}

int main(void) {
  MlirContext ctx = nn_context_create();
  bool covered[NN_OP_COUNT] = {0};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    NnOp op = nn_op_by_name(cases[i].op);
    char *text = case_text(&cases[i]);
    covered[op] = true;
    check_gradient(ctx, &cases[i], text);
    if (nn_op_info(op)->expand) check_expansion(ctx, &cases[i], text);
    free(text);
  }
  for (int op = 0; op < NN_OP_COUNT; op++)
    CHECK(covered[op] || !nn_op_info((NnOp)op)->vjp, "%s has a gradient rule and no case here", nn_op_info((NnOp)op)->name);
  mlirContextDestroy(ctx);
  return check_report();
}
