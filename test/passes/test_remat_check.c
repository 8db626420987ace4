// The judge of sequences: legal ones pass, and each kind of mistake, made on purpose, is found.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passes/remat/remat.h"
#include "support/input_error.h"

// One parameter, one input. m = x p; e = exp m; y = m e'; p -= y.
static const char text[] =
    "func.func @train(%p: tensor<32x32xf32> {nn.role = \"param\", nn.name = \"p\"}, %x: tensor<32x32xf32> {nn.role = "
    "\"input\", nn.name = \"x\"})\n"
    "    -> (tensor<32x32xf32> {nn.role = \"output\", nn.name = \"y\"}, tensor<32x32xf32> {nn.role = \"update\", "
    "nn.tied = 0 : i64}) {\n"
    "  %m = \"nn.matmul\"(%x, %p) {transpose_a = false, transpose_b = false} : (tensor<32x32xf32>, tensor<32x32xf32>) "
    "-> tensor<32x32xf32>\n"
    "  %e = \"nn.exp\"(%m) : (tensor<32x32xf32>) -> tensor<32x32xf32>\n"
    "  %y = \"nn.matmul\"(%m, %e) {transpose_a = false, transpose_b = true} : (tensor<32x32xf32>, tensor<32x32xf32>) "
    "-> tensor<32x32xf32>\n"
    "  %np = \"nn.sub\"(%p, %y) {nn.phase = \"update\"} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>\n"
    "  return %y, %np : tensor<32x32xf32>, tensor<32x32xf32>\n"
    "}\n";

static int failed;

static void expect(const PlanProgram *p, const char *what, const int *exec, int n, const char *message) {
  InputError error = {0};
  bool ok = remat_check_sequence(p, exec, n, &error);
  if (message ? !ok && strstr(error.message, message) : ok) return;
  printf("FAILED: %s: %s\n", what, ok ? "accepted" : error.message);
  failed++;
}
#define EXPECT(what, message, ...) \
  expect(&p, what, (int[]){__VA_ARGS__}, (int)(sizeof(int[]){__VA_ARGS__} / sizeof(int)), message)

int main(void) {
  MlirContext ctx = nn_context_create();
  MlirModule module = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text));
  PlanProgram p;
  plan_program_build(&p, module, nn_module_function(module, "train"), NULL);
  EXPECT("in order", NULL, 0, 1, 2, 3);
  EXPECT("recomputed", NULL, 0, 1, 0, 1, 2, 3);
  EXPECT("the update twice", "step 3 may run only once", 0, 1, 2, 3, 3);
  EXPECT("a value not made yet", "reads what step 1 has not made yet", 0, 2, 1, 3);
  EXPECT("the first value not made yet", "reads what step 0 has not made yet", 1, 0, 2, 3);
  EXPECT("a step left out", "step 3 never runs", 0, 1, 2);
  EXPECT("a reader of the parameter behind its update", "step 0 runs again and reads argument 0 after its update", 0, 1,
         2, 3, 0);
  EXPECT("no such step", "there is no step 7", 0, 7);
  plan_program_free(&p);
  mlirModuleDestroy(module);
  nn_context_destroy(ctx);
  printf("%s\n", failed ? "remat check: FAILED" : "remat check: all passed");
  return failed != 0;
}
