// What kernels are predicted to cost, relative to each other.
#include <math.h>

#include "codegen/cost_model.h"
#include "test/check.h"

static MlirContext ctx;

// Of the first call in @f.
static CostWork work_of(const char *text) {
  MlirModule module = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text));
  MlirOperation call = mlirBlockGetFirstOperation(nn_function_body(nn_module_function(module, "f")));
  CostWork work = cost_work(call, nn_module_function(module, "k"), &(CostRules){.unit = COST_CPU});
  mlirModuleDestroy(module);
  return work;
}

// Additions that one element of an op costs.
static double weight_of(const char *op, int n_operands) {
  char text[1200];
  snprintf(text, sizeof text,
           "func.func @f(%%x: tensor<1024xf32>) { %%y = call @k(%%x) : (tensor<1024xf32>) -> tensor<1024xf32>\n return "
           "}\n"
           "func.func private @k(%%x: tensor<1024xf32>) -> tensor<1024xf32> attributes {nn.kernel, nn.kind = \"map\", "
           "nn.domain = array<i64: 1024>} {\n"
           "  %%y = \"nn.%s\"(%s) : (%s) -> tensor<1024xf32>\n  return %%y : tensor<1024xf32>\n}\n",
           op, n_operands == 1 ? "%x" : "%x, %x",
           n_operands == 1 ? "tensor<1024xf32>" : "tensor<1024xf32>, tensor<1024xf32>");
  return work_of(text).additions / 1024;
}

// Vector code of one element: an addition is one instruction, a division occupies its unit for about eight, a function
// of a library is a polynomial of some dozen terms after its argument has been reduced, and a power is a logarithm and
// an exponential.
static void test_weights(void) {
  double add = weight_of("add", 2), div = weight_of("div", 2), root = weight_of("sqrt", 1), e = weight_of("exp", 1),
         l = weight_of("log", 1), sine = weight_of("sin", 1), t = weight_of("tanh", 1), s = weight_of("sigmoid", 1),
         pow = weight_of("pow", 2);
  CHECK(add == 1 && weight_of("mul", 2) == 1 && weight_of("relu", 1) == 1, "an addition costs %g", add);
  CHECK(div >= 4 && div <= 16 && root >= 4 && root <= 16, "a division %g, a root %g", div, root);
  CHECK(e >= 20 && e <= 40 && l >= 20 && l <= 40, "an exponential %g, a logarithm %g", e, l);
  CHECK(sine > e && sine < t, "a sine %g", sine);
  CHECK(s >= e + div && s < t, "a sigmoid %g: an exponential and a division", s);
  CHECK(t > e + div && t < pow, "a tanh %g", t);
  CHECK(pow > e + l && pow < 2 * (e + l), "a power %g", pow);
}

static CostWork work_of_scatter(const char *op) {
  char text[1200];
  snprintf(text, sizeof text,
           "func.func @f(%%x: tensor<64x32xf32>, %%i: tensor<64xi32>) { %%y = call @k(%%x, %%i) : (tensor<64x32xf32>, "
           "tensor<64xi32>) -> tensor<8x32xf32>\n return }\n"
           "func.func private @k(%%x: tensor<64x32xf32>, %%i: tensor<64xi32>) -> tensor<8x32xf32> attributes "
           "{nn.kernel, nn.kind = \"map\", nn.domain = array<i64: 8, 32>} {\n"
           "  %%y = \"nn.%s\"(%%x, %%i) {rows = 8 : i64} : (tensor<64x32xf32>, tensor<64xi32>) -> tensor<8x32xf32>\n"
           "  return %%y : tensor<8x32xf32>\n}\n",
           op);
  return work_of(text);
}

// Whether rows are added or the largest is kept: each is read and written in the table, which is begun before.
static void test_scatters(void) {
  CostWork sum = work_of_scatter("scatter_add"), max = work_of_scatter("scatter_max");
  double rows = 64 * 32, table = 8 * 32;
  CHECK(sum.additions >= rows && max.additions >= rows, "%g and %g additions", sum.additions, max.additions);
  CHECK(sum.bytes == 4 * (rows + 64 + 2 * table) && max.bytes == sum.bytes, "%g and %g bytes", sum.bytes, max.bytes);
}

int main(void) {
  ctx = nn_context_create();
  test_weights();
  test_scatters();
  nn_context_destroy(ctx);
  return check_report();
}
