// Which result of a kernel may take the place of which operand, by the rule of the pass alone: a target has its own,
// which forbids most of the same.
#include <stdlib.h>

#include "passes/plan/plan.h"
#include "test/check.h"

static const char text[] =
    "func.func @predict(%x: tensor<8x8xf32>, %w: tensor<8x4xf32>, %v: tensor<8xf32>) {\n"
    "  %0 = call @map(%x, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>\n"
    "  %1 = call @turned(%w) : (tensor<8x4xf32>) -> tensor<4x8xf32>\n"
    "  %2 = call @wider(%x) : (tensor<8x8xf32>) -> tensor<8x8xf64>\n"
    "  %3 = call @spread(%v, %x) : (tensor<8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>\n"
    "  %4 = call @row(%x, %v) : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8xf32>\n"
    "  %5:2 = call @moments(%x) : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>)\n"
    "  %6 = call @doubled64(%x, %v) : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8xf32>\n"
    "  %7 = call @doubled65(%x, %v) : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8xf32>\n"
    "  return\n"
    "}\n"
    "func.func private @map(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {nn.kernel, "
    "nn.kind = \"map\", nn.domain = "
    "array<i64: 8, 8>} {\n"
    "  %t = \"nn.transpose\"(%b) {perm = array<i64: 1, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32>\n"
    "  %r = \"nn.add\"(%a, %t) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>\n"
    "  return %r : tensor<8x8xf32>\n"
    "}\n"
    "func.func private @turned(%a: tensor<8x4xf32>) -> tensor<4x8xf32> attributes {nn.kernel, nn.kind = \"map\", "
    "nn.domain = array<i64: 4, 8>} {\n"
    "  %r = \"nn.transpose\"(%a) {perm = array<i64: 1, 0>} : (tensor<8x4xf32>) -> tensor<4x8xf32>\n"
    "  return %r : tensor<4x8xf32>\n"
    "}\n"
    "func.func private @wider(%a: tensor<8x8xf32>) -> tensor<8x8xf64> attributes {nn.kernel, nn.kind = \"map\", "
    "nn.domain = array<i64: 8, 8>} {\n"
    "  %r = \"nn.cast\"(%a) : (tensor<8x8xf32>) -> tensor<8x8xf64>\n"
    "  return %r : tensor<8x8xf64>\n"
    "}\n"
    "func.func private @spread(%a: tensor<8xf32>, %b: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {nn.kernel, "
    "nn.kind = \"map\", nn.domain = "
    "array<i64: 8, 8>} {\n"
    "  %s = \"nn.broadcast\"(%a) {dims = array<i64: 1>} : (tensor<8xf32>) -> tensor<8x8xf32>\n"
    "  %r = \"nn.add\"(%s, %b) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>\n"
    "  return %r : tensor<8x8xf32>\n"
    "}\n"
    "func.func private @row(%a: tensor<8x8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> attributes {nn.kernel, nn.kind = "
    "\"row\", nn.domain = "
    "array<i64: 8, 8>, nn.axes = array<i64: 1>} {\n"
    "  %s = \"nn.reduce_sum\"(%a) {axes = array<i64: 1>} : (tensor<8x8xf32>) -> tensor<8xf32>\n"
    "  %r = \"nn.add\"(%s, %b) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>\n"
    "  return %r : tensor<8xf32>\n"
    "}\n"
    "func.func private @moments(%a: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>) attributes {nn.kernel, "
    "nn.kind = \"column\", nn.domain = "
    "array<i64: 8, 8>, nn.axes = array<i64: 0>} {\n"
    "  %n = \"nn.neg\"(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>\n"
    "  %m:2 = \"nn.moments\"(%a) {axes = array<i64: 0>} : (tensor<8x8xf32>) -> (tensor<8xf32>, tensor<8xf32>)\n"
    "  return %n, %m#1 : tensor<8x8xf32>, tensor<8xf32>\n"
    "}\n";

// A row's value, computed from %b by `length` ops in a row, each of which reads the one before twice.
static void add_doubled(FILE *out, int length) {
  fprintf(out,
          "func.func private @doubled%d(%%a: tensor<8x8xf32>, %%b: tensor<8xf32>) -> tensor<8xf32> attributes "
          "{nn.kernel, nn.kind = \"row\", nn.domain = array<i64: 8, 8>, nn.axes = array<i64: 1>} {\n"
          "  %%s = \"nn.reduce_sum\"(%%a) {axes = array<i64: 1>} : (tensor<8x8xf32>) -> tensor<8xf32>\n"
          "  %%v1 = \"nn.add\"(%%s, %%b) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>\n",
          length);
  for (int i = 2; i <= length; i++)
    fprintf(out, "  %%v%d = \"nn.add\"(%%v%d, %%v%d) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>\n", i, i - 1,
            i - 1);
  fprintf(out, "  return %%v%d : tensor<8xf32>\n}\n", length);
}

int main(void) {
  static const struct {
    int step, result, operand;
    bool allowed;
    const char *why;
  } cases[] = {
      {0, 0, 0, true, "read at the index that is written"},
      {0, 0, 1, false, "read transposed"},
      {1, 0, 0, false, "another shape of as many bytes"},
      {2, 0, 0, false, "elements of another size"},
      {3, 0, 0, false, "spread"},
      {3, 0, 1, true, "beside what is spread"},
      {4, 0, 0, false, "a row for its sum"},
      {4, 0, 1, true, "a value of a row, read when the row is done"},
      {5, 0, 0, false, "read in two passes"},
      {5, 2, 0, false, "no such result"},
      {5, -1, 0, false, "no such result"},
      {6, 0, 1, true, "used twice at each of 64 ops"},
      {7, 0, 1, false, "of more ops in a row than are followed"},
  };
  MlirContext ctx = nn_context_create();
  char *whole = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&whole, &size);
  fputs(text, out);
  add_doubled(out, 64);
  add_doubled(out, 65);
  fclose(out);
  MlirModule module = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(whole));
  free(whole);
  PlanProgram p;
  plan_program_build(&p, module, nn_module_function(module, "predict"), NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    CHECK(plan_inplace_allowed(&p, cases[i].step, cases[i].result, cases[i].operand) == cases[i].allowed, "%s",
          cases[i].why);
  plan_program_free(&p);
  mlirModuleDestroy(module);
  nn_context_destroy(ctx);
  return check_report();
}
