// The step tables of planned modules that the passes do not make today.
#include <stdlib.h>
#include <string.h>

#include "codegen/host/host.h"
#include "codegen/tables.h"
#include "test/check.h"

// A product added to a tensor, with the result in the tensor's place or in one of its own.
static const char text[] =
    "module attributes {nn.arena = 16384 : i64, nn.persistent = 0 : i64} {\n"
    "func.func @predict(%%x: tensor<32x32xf32> {nn.role = \"input\", nn.name = \"x\", nn.offset = 0 : i64},\n"
    "                   %%s: tensor<32x32xf32> {nn.role = \"input\", nn.name = \"s\", nn.offset = 4096 : i64})\n"
    "    -> (tensor<32x32xf32> {nn.role = \"output\", nn.name = \"y\"}) {\n"
    "  %%y = \"nn.matmul_rows_to\"(%%x, %%x, %%s) {nn.offset = array<i64: %d>} : (tensor<32x32xf32>, "
    "tensor<32x32xf32>, "
    "tensor<32x32xf32>) -> tensor<32x32xf32>\n"
    "  return %%y : tensor<32x32xf32>\n"
    "}\n}\n";

static char *tables_of(MlirContext ctx, int offset) {
  char source[2048];
  snprintf(source, sizeof source, text, offset);
  MlirModule module = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(source));
  EmittedKernels kernels;
  Text out = {0};
  CodegenOptions options = {.output = "-", .source_name = "text.nn"};
  CodegenTarget *target = codegen_target_create(&(CodegenTargetOptions){.name = "host", .cpu = "x86-64"});
  CHECK(target != NULL, "x86-64");
  target->emit_kernels(target, module, &kernels);
  CHECK(tables_write(target, module, &kernels, &options, NULL, &out), "no tables");
  emitted_kernels_free(&kernels);
  codegen_target_destroy(target);
  mlirModuleDestroy(module);
  return out.data;
}

// The product finds what it is added to in its result's buffer: by itself, or because a step before copies it there.
static void test_product_that_adds(MlirContext ctx) {
  char *in_place = tables_of(ctx, 4096), *apart = tables_of(ctx, 8192);
  CHECK(strstr(in_place, "{NNC_STEP_MATMUL,") && !strstr(in_place, "NNC_STEP_COPY"), "%s", in_place);
  const char *copy = strstr(apart, "{NNC_STEP_COPY,"), *product = strstr(apart, "{NNC_STEP_MATMUL,");
  CHECK(copy && product && copy < product && strstr(copy, ".copy_bytes=4096}"), "%s", apart);
  CHECK(strstr(apart, "4096,8192,0,0,8192"), "from, to; the factors and the result: %s", apart);
  free(in_place);
  free(apart);
}

int main(void) {
  MlirContext ctx = nn_context_create();
  test_product_that_adds(ctx);
  nn_context_destroy(ctx);
  return check_report();
}
