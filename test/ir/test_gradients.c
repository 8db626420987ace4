// Every gradient rule against central differences of the reference interpreter in f64, so, too, the gradient of the
// rule, by nn.gradient, and every expansion of a composite against the composite's own formula. A case is one op with
// its types; its results are weighted by random cotangents and summed.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ops/ops.h"
#include "passes/passes.h"
#include "test/check.h"
#include "test/ir/gradient_cases.h"
#include "test/ir/reference.c"

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
    for (int64_t i = 0; weight[r].data && i < nn_type_elements(&weight[r].type); i++)
      sum += result[r].data[i] * weight[r].data[i];
    tensor_free(&result[r]);
  }
  return sum;
}

static double worst_difference(MlirOperation func, Tensor *args, int k, int n_results, const Tensor *weight,
                               const Tensor *gradient) {
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

// Appends the gradient rule to @f, whose results become the cotangents of the operands with needed[]. Returns how many
// there are.
static int differentiate(MlirModule module, const Case *c, int n, int m, bool *needed, MlirLocation loc) {
  MlirOperation func = nn_module_function(module, "f"), op = mlirBlockGetFirstOperation(nn_function_body(func));
  MlirValue operand[MAX_VALUES], result[MAX_VALUES], cotangent[MAX_VALUES] = {{0}}, out[MAX_VALUES] = {{0}},
                                                     returned[MAX_VALUES];
  for (int i = 0; i < n; i++) operand[i] = mlirOperationGetOperand(op, i);
  for (int i = 0; i < m; i++) {
    result[i] = mlirOperationGetResult(op, i);
    NnType t = nn_value_type(result[i]);
    if (nn_dtype_is_float(t.dtype) && i < m - c->constant_results)
      cotangent[i] = nn_function_add_arg(func, t, loc, 0, NULL);
  }
  NnBuilder b = nn_builder_before(nn_function_return(func));
  NnVjp vjp = {.b = &b,
               .op = op,
               .n_operands = n,
               .n_results = m,
               .operand = operand,
               .result = result,
               .cotangent = cotangent,
               .needed = needed,
               .operand_cotangent = out};
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
    CHECK(worst < 1e-7, "%s(%s) {%s}: operand %d differs by %g", c->op, c->operands, c->attrs ? c->attrs : "", i,
          worst);
    tensor_free(&gradient[at++]);
  }
  for (int i = 0; i < n_args; i++) tensor_free(&args[i]);
  mlirModuleDestroy(forward);
  mlirModuleDestroy(backward);
}

// Adds sum(x * weight) to `sum`, with a weight that is a new argument of the function.
static void add_weighted(NnBuilder *b, MlirOperation func, MlirValue x, MlirValue *sum) {
  NnType t = nn_value_type(x);
  int64_t axes[NN_MAX_RANK];
  for (int i = 0; i < t.rank; i++) axes[i] = i;
  MlirValue product = nn_binary(b, NN_OP_mul, x, nn_function_add_arg(func, t, b->loc, 0, NULL)),
            part = nn_reduce(b, NN_OP_reduce_sum, product, t.rank, axes);
  part = nn_cast(b, part, NN_F64);
  *sum = nn_value_is_null(*sum) ? part : nn_binary(b, NN_OP_add, *sum, part);
}

// @f gives the sum of its float operands' gradients, weighted; with `again` the gradients of that sum by the first
// n_args arguments that are floats. Those are the operands and the weights of the results.
static void build_second(MlirModule module, const Case *c, bool again, int *n_args) {
  MlirOperation func = nn_module_function(module, "f"), op = mlirBlockGetFirstOperation(nn_function_body(func));
  int n = (int)mlirOperationGetNumOperands(op), m = (int)mlirOperationGetNumResults(op), found = 0;
  NnBuilder b = nn_builder_before(nn_function_return(func));
  MlirValue y = nn_null_value(), sum = nn_null_value(), returned[2 * MAX_VALUES];
  for (int i = 0; i < m - c->constant_results; i++)
    if (nn_dtype_is_float(nn_result_type(op, i).dtype)) add_weighted(&b, func, mlirOperationGetResult(op, i), &y);
  *n_args = nn_function_n_args(func);
  for (int i = 0; i < n; i++)
    if (nn_dtype_is_float(nn_value_type(mlirOperationGetOperand(op, i)).dtype))
      add_weighted(&b, func, nn_binary(&b, NN_OP_gradient, y, mlirOperationGetOperand(op, i)), &sum);
  // Of a linear op the gradient does not depend on its operands, which the pass takes for a mistake.
  for (int i = 0; i < *n_args; i++) {
    MlirValue x = mlirBlockGetArgument(nn_function_body(func), i);
    if (nn_dtype_is_float(nn_value_type(x).dtype)) add_weighted(&b, func, x, &sum);
  }
  for (int i = 0; again && i < *n_args; i++) {
    MlirValue x = mlirBlockGetArgument(nn_function_body(func), i);
    if (nn_dtype_is_float(nn_value_type(x).dtype)) returned[found++] = nn_binary(&b, NN_OP_gradient, sum, x);
  }
  if (again) nn_function_set_results(func, found, returned, 0);
  else nn_function_set_results(func, 1, &sum, 0);
  CHECK(nn_pass_gradients(module, NULL) && nn_verify_module(module), "%s: the second gradient", c->op);
}

static void check_second(MlirContext ctx, const Case *c, const char *text) {
  MlirModule first = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text)),
             second = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text));
  int n_args;
  build_second(first, c, false, &n_args);
  build_second(second, c, true, &n_args);
  MlirOperation func = nn_module_function(first, "f");
  Tensor args[4 * MAX_VALUES], gradient[2 * MAX_VALUES], one = tensor_create(nn_scalar(NN_F64));
  int n = nn_function_n_args(func);
  for (int i = 0; i < n; i++)
    args[i] = random_tensor(nn_value_type(mlirBlockGetArgument(nn_function_body(func), i)), c);
  one.data[0] = 1;
  reference_run(nn_module_function(second, "f"), args, gradient, 2 * MAX_VALUES);
  for (int i = 0, at = 0; i < n_args; i++) {
    if (!nn_dtype_is_float(args[i].type.dtype)) continue;
    double worst = worst_difference(func, args, i, 1, &one, &gradient[at]);
    CHECK(worst < 1e-6, "%s(%s) {%s}: second gradient by argument %d differs by %g", c->op, c->operands,
          c->attrs ? c->attrs : "", i, worst);
    tensor_free(&gradient[at++]);
  }
  for (int i = 0; i < n; i++) tensor_free(&args[i]);
  tensor_free(&one);
  mlirModuleDestroy(first);
  mlirModuleDestroy(second);
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
  for (op = mlirBlockGetFirstOperation(nn_function_body(func)); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op))
    CHECK(nn_op_of(op) == NN_OP_NONE || nn_op_info(nn_op_of(op))->kind != NN_KIND_COMPOSITE,
          "%s expands to a composite", c->op);
  reference_run(func, args, found, MAX_VALUES);
  for (int r = 0; r < m; r++) {
    double worst = 0;
    for (int64_t i = 0; i < nn_type_elements(&expected[r].type); i++)
      worst = fmax(worst, fabs(expected[r].data[i] - found[r].data[i]));
    CHECK(worst < 1e-12, "%s: result %d differs by %g", c->op, r, worst);
    tensor_free(&expected[r]);
    tensor_free(&found[r]);
  }
  for (int i = 0; i < n; i++) tensor_free(&args[i]);
  mlirModuleDestroy(module);
}

static bool has_odd_size(const char *types) {   // other than one, of a dimension
  for (const char *c = types; (c = strchr(c, 'x')); c++) {
    const char *digit = c;
    while (digit > types && digit[-1] >= '0' && digit[-1] <= '9') digit--;
    if (digit < c && atoi(digit) > 1 && atoi(digit) % 2) return true;
  }
  return false;
}

typedef struct Coverage {
  int cases, odd;
} Coverage;

static void check_case(MlirContext ctx, const Case *c, Coverage *coverage) {
  NnOp op = nn_op_by_name(c->op);
  char *text = case_text(c);
  coverage[op].cases++;
  coverage[op].odd += has_odd_size(c->operands) || has_odd_size(c->results);
  check_gradient(ctx, c, text);
  check_second(ctx, c, text);
  if (nn_op_info(op)->expand || op == NN_OP_fourier) check_expansion(ctx, c, text);
  free(text);
}

static void check_map(MlirContext ctx, const MapCase *c, Coverage *coverage) {
  for (size_t k = 0; k < sizeof map_shapes / sizeof *map_shapes; k++) {
    char operands[128], result[32];
    size_t length = 0;
    for (int i = 0; i < 3 && c->operands[i]; i++)
      length += (size_t)snprintf(operands + length, sizeof operands - length, "%s%s%s", i ? ", " : "", map_shapes[k],
                                 c->operands[i]);
    snprintf(result, sizeof result, "%s%s", map_shapes[k], c->result);
    check_case(ctx, &(Case){c->op, operands, result, "", .positive = c->positive, .high = 2}, coverage);
  }
}

int main(void) {
  enum { SHAPES = 6 };
  MlirContext ctx = nn_context_create();
  Coverage coverage[NN_OP_COUNT] = {0};
  for (size_t i = 0; i < sizeof map_cases / sizeof *map_cases; i++) check_map(ctx, &map_cases[i], coverage);
  for (int op = 0; op < NN_OP_COUNT; op++) {
    const NnOpInfo *info = nn_op_info((NnOp)op);
    if (info->kind == NN_KIND_MAP && info->n_operands == 1 && info->vjp && !coverage[op].cases)
      check_map(ctx, &(MapCase){info->name, "f64", .operands = {"f64"}}, coverage);
  }
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(ctx, &cases[i], coverage);
  for (int op = 0; op < NN_OP_COUNT; op++) {
    const NnOpInfo *info = nn_op_info((NnOp)op);
    CHECK(!info->vjp || coverage[op].cases >= SHAPES, "%s has a gradient rule and %d cases here, fewer than %d",
          info->name, coverage[op].cases, SHAPES);
    CHECK(!info->vjp || 2 * coverage[op].odd >= SHAPES, "%s: %d cases with an odd size, fewer than %d", info->name,
          coverage[op].odd, SHAPES / 2);
  }
  nn_context_destroy(ctx);
  return check_report();
}
