// What exchanges between ranks are predicted to take.
#include <math.h>

#include "codegen/cost_model.h"
#include "test/check.h"

static MlirContext ctx;
static const Machine machine = {.node = {.bytes_per_second = 600e9, .message_seconds = 1e-6},
                                .network = {.bytes_per_second = 50e9, .message_seconds = 3e-6},
                                .node_ranks = 8};

// Of the one op of a function; `text` has %d where the ranks stand.
static double seconds_of(const char *format, int ranks, double *bytes) {
  char text[600];
  snprintf(text, sizeof text, format, ranks);
  MlirModule module = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text));
  MlirOperation op = mlirBlockGetFirstOperation(nn_function_body(nn_module_function(module, "f")));
  double seconds = machine_exchange_seconds(&machine, op, ranks, bytes);
  mlirModuleDestroy(module);
  return seconds;
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-9 * b; }

// 256 MiB that are gathered: each rank receives the parts of all others. On 64 ranks, 8 machines, the parts of 56 come
// from elsewhere, an eighth of them by each link.
static void test_gather(void) {
  static const char text[] =
      "func.func @f(%%x: tensor<1048576xf32>) -> tensor<67108864xf32> { %%y = \"nn.all_gather_1\"(%%x) {ranks = %d : "
      "i64} : (tensor<1048576xf32>) -> tensor<67108864xf32>\n return %%y : tensor<67108864xf32> }";
  double bytes, part = 4194304, seconds = seconds_of(text, 64, &bytes);
  CHECK(bytes == 63 * part, "each sends %g bytes", bytes);
  CHECK(near(seconds, 56 * 1e-6 + 7 * 3e-6 + 56 * part / 8 / 50e9), "64 ranks take %g s", seconds);
}

// Of sums each rank gets its part of everybody's numbers: nothing is the same for two ranks, so each link brings what
// 56 ranks have for its own.
static void test_scatter(void) {
  static const char text[] =
      "func.func @f(%%x: tensor<67108864xf32>) -> tensor<1048576xf32> { %%y = \"nn.reduce_scatter_1\"(%%x) {ranks = %d "
      ": i64} : (tensor<67108864xf32>) -> tensor<1048576xf32>\n return %%y : tensor<1048576xf32> }";
  double bytes, part = 4194304, seconds = seconds_of(text, 64, &bytes);
  CHECK(bytes == 63 * part, "each sends %g bytes", bytes);
  CHECK(near(seconds, 56 * (3e-6 + part / 50e9)), "64 ranks take %g s", seconds);
}

// A sum that all ranks get is both: within a machine, by its links alone.
static void test_all_reduce(void) {
  static const char text[] =
      "func.func @f(%%x: tensor<67108864xf32>) -> tensor<67108864xf32> { %%y = \"nn.all_reduce_1\"(%%x) {test = %d : "
      "i64} : (tensor<67108864xf32>) -> tensor<67108864xf32>\n return %%y : tensor<67108864xf32> }";
  double bytes, all = 268435456, seconds = seconds_of(text, 8, &bytes);
  CHECK(bytes == 2 * 7 * all / 8, "each sends %g bytes", bytes);
  CHECK(near(seconds, 2 * 7 * (1e-6 + all / 8 / 600e9)), "8 ranks take %g s", seconds);
  CHECK(seconds_of(text, 1, &bytes) == 0 && bytes == 0, "one rank takes nothing");
  double many = seconds_of(text, 64, &bytes), told = 56 * 1e-6 + 7 * 3e-6 + 56 * (all / 64) / 8 / 50e9;
  CHECK(near(many, told + 56 * (3e-6 + all / 64 / 50e9)), "64 ranks take %g s", many);
}

int main(void) {
  ctx = nn_context_create();
  test_gather();
  test_scatter();
  test_all_reduce();
  nn_context_destroy(ctx);
  return check_report();
}
