// Kernels that begin with a convolution, under the emulator: maps and sums on its results before they are written equal
// the interpreter, which does one op after the other; no fault that the emulator knows, no register spilled.
#include "test/codegen/conv_cases.c"
#include "test_target.h"

#include "codegen/codegen.h"
#include "codegen/cuda/template/template_conv.h"

static void build_cases(MlirModule m) {
  CASE(NN_F32, false, .n = 2, .c = 36, .h = 7, .w = 5, .o = 36, .k = 3, .stride = 1, .pad = 1, .groups = 1,
       .what = AFFINE);
  CASE(NN_F32, false, .n = 1, .c = 16, .h = 1, .w = 1, .o = 132, .k = 1, .stride = 1, .groups = 1,
       .what = AFFINE | RESIDUAL);
  CASE(NN_F32, false, .n = 3, .c = 20, .h = 11, .w = 13, .o = 68, .k = 3, .stride = 2, .pad = 1, .groups = 1,
       .what = RESIDUAL | SCALE | KEEP);
  CASE(NN_F32, false, .n = 2, .c = 32, .h = 9, .w = 9, .o = 64, .k = 1, .stride = 1, .groups = 1, .what = KEEP);
  CASE(NN_F32, false, .n = 1, .c = 32, .h = 6, .w = 7, .o = 72, .k = 3, .stride = 1, .pad = 1, .groups = 2,
       .what = AFFINE | LONG | POSITIVE);
  CASE(NN_F32, true, .n = 2, .c = 36, .h = 9, .w = 6, .o = 20, .k = 3, .stride = 2, .pad = 1, .groups = 1,
       .what = RESIDUAL | MASK);
  CASE(NN_F32, true, .n = 1, .c = 132, .h = 5, .w = 5, .o = 16, .k = 1, .stride = 1, .groups = 1, .what = MASK | KEEP);
  CASE(NN_BF16, false, .n = 2, .c = 16, .h = 9, .w = 7, .o = 40, .k = 3, .stride = 1, .pad = 1, .groups = 1,
       .what = AFFINE | RESIDUAL);
  CASE(NN_F16, true, .n = 1, .c = 72, .h = 5, .w = 5, .o = 24, .k = 3, .stride = 1, .pad = 1, .groups = 1,
       .what = MASK | SCALE);
  CASE(NN_F32, false, .n = 2, .c = 16, .h = 7, .w = 5, .o = 36, .k = 3, .stride = 1, .pad = 1, .groups = 1,
       .what = MOMENTS | KEEP);
  CASE(NN_F32, false, .n = 3, .c = 16, .h = 13, .w = 11, .o = 132, .k = 1, .stride = 1, .groups = 1,
       .what = MOMENTS | KEEP);
  CASE(NN_BF16, false, .n = 3, .c = 16, .h = 9, .w = 9, .o = 72, .k = 1, .stride = 1, .groups = 1,
       .what = MOMENTS | KEEP);
  CASE(NN_F32, false, .n = 1, .c = 32, .h = 17, .w = 9, .o = 64, .k = 3, .stride = 1, .pad = 1, .groups = 2,
       .what = MOMENTS | AFFINE);
  CASE(NN_F32, true, .n = 2, .c = 36, .h = 9, .w = 9, .o = 20, .k = 3, .stride = 1, .pad = 1, .groups = 1,
       .what = MASK | SUMS);
  CASE(NN_F32, true, .n = 1, .c = 100, .h = 17, .w = 9, .o = 16, .k = 1, .stride = 2, .groups = 1,
       .what = RESIDUAL | MASK | SUMS);
  // so many pixels that partial sums are folded
  CASE(NN_F32, false, .n = 3, .c = 16, .h = 65, .w = 65, .o = 32, .k = 1, .stride = 1, .groups = 1,
       .what = MOMENTS | SUMS | KEEP);
  // of tensors with more channels than the result
  CASE(NN_F32, true, .n = 2, .c = 36, .h = 9, .w = 7, .o = 20, .k = 1, .stride = 1, .groups = 1,
       .what = RESIDUAL | SUMS | KEEP, .more = 24, .first = 12);
  CASE(NN_F32, false, .n = 1, .c = 16, .h = 1, .w = 9, .o = 36, .k = 1, .stride = 1, .groups = 1, .what = RESIDUAL,
       .more = 4, .first = 0);
  CASE(NN_F32, false, .n = 1, .c = 32, .h = 6, .w = 7, .o = 72, .k = 3, .stride = 1, .pad = 1, .groups = 2,
       .what = RESIDUAL | AFFINE, .more = 8, .first = 8);
  CASE(NN_F32, false, .n = 2, .c = 100, .h = 9, .w = 9, .o = 36, .k = 1, .stride = 1, .groups = 1,
       .what = FED | MOMENTS | KEEP);
  CASE(NN_F32, false, .n = 1, .c = 44, .h = 7, .w = 9, .o = 132, .k = 1, .stride = 2, .pad = 1, .groups = 1,
       .what = FED | KEEP);
  CASE(NN_F32, false, .n = 1, .c = 64, .h = 5, .w = 5, .o = 64, .k = 1, .stride = 1, .groups = 1,
       .what = FED | AFFINE | RESIDUAL);
  CASE(NN_BF16, false, .n = 2, .c = 80, .h = 6, .w = 7, .o = 40, .k = 1, .stride = 1, .groups = 1,
       .what = FED | MOMENTS | KEEP);
  CASE(NN_F32, false, .n = 2, .c = 64, .h = 6, .w = 7, .o = 80, .k = 1, .stride = 1, .groups = 2, .what = FED | AFFINE);
  CASE(NN_BF16, true, .n = 2, .c = 40, .h = 8, .w = 9, .o = 16, .k = 3, .stride = 1, .pad = 1, .groups = 1,
       .what = MASK | SUMS);
}

// Those of 16 bits once more, by products of warpgroups.
static void build_narrow_cases(MlirModule m) {
  CASE(NN_BF16, false, .n = 2, .c = 16, .h = 9, .w = 7, .o = 40, .k = 3, .stride = 1, .pad = 1, .groups = 1,
       .what = AFFINE | RESIDUAL);
  CASE(NN_F16, true, .n = 1, .c = 72, .h = 5, .w = 5, .o = 24, .k = 3, .stride = 1, .pad = 1, .groups = 1,
       .what = MASK | SCALE);
  CASE(NN_BF16, false, .n = 3, .c = 16, .h = 9, .w = 9, .o = 72, .k = 1, .stride = 1, .groups = 1,
       .what = MOMENTS | KEEP);
  CASE(NN_BF16, false, .n = 2, .c = 80, .h = 6, .w = 7, .o = 40, .k = 1, .stride = 1, .groups = 1,
       .what = FED | MOMENTS | KEEP);
  CASE(NN_BF16, true, .n = 2, .c = 40, .h = 8, .w = 9, .o = 16, .k = 3, .stride = 1, .pad = 1, .groups = 1,
       .what = MASK | SUMS);
  CASE(NN_BF16, true, .n = 2, .c = 40, .h = 8, .w = 9, .o = 136, .k = 1, .stride = 1, .groups = 1,
       .what = RESIDUAL | SUMS | KEEP, .more = 96, .first = 4);
  CASE(NN_BF16, false, .n = 2, .c = 264, .h = 9, .w = 9, .o = 136, .k = 1, .stride = 1, .groups = 1,
       .what = FED | MOMENTS | KEEP);
  CASE(NN_F16, false, .n = 1, .c = 64, .h = 11, .w = 13, .o = 272, .k = 3, .stride = 2, .pad = 1, .groups = 2,
       .what = AFFINE | RESIDUAL | LONG | POSITIVE);
  CASE(NN_BF16, true, .n = 3, .c = 264, .h = 9, .w = 8, .o = 40, .k = 2, .stride = 2, .pad = 1, .groups = 1,
       .what = RESIDUAL | MASK | SUMS);
  CASE(NN_BF16, false, .n = 3, .c = 16, .h = 65, .w = 65, .o = 32, .k = 1, .stride = 1, .groups = 1,
       .what = MOMENTS | SUMS | KEEP);
  // 256 columns
  CASE(NN_BF16, false, .n = 2, .c = 16, .h = 9, .w = 9, .o = 256, .k = 3, .stride = 1, .pad = 1, .groups = 1,
       .what = MOMENTS | RESIDUAL | KEEP);
  CASE(NN_F16, false, .n = 1, .c = 520, .h = 5, .w = 7, .o = 256, .k = 1, .stride = 1, .groups = 1,
       .what = FED | AFFINE | KEEP);
}

// The target says no where a kernel would not be right or not worth it.
static void check_refused(MlirContext ctx) {
  static const Case cases[] = {
      {.dtype = NN_F32,
       .n = 1,
       .c = 3,
       .h = 4,
       .w = 4,
       .o = 36,
       .k = 1,
       .stride = 1,
       .groups = 1,
       .what = AFFINE},   // channels that the template does not take
      {.dtype = NN_F32,
       .n = 1,
       .c = 32,
       .h = 4,
       .w = 4,
       .o = 36,
       .k = 3,
       .pad = 1,
       .stride = 1,
       .groups = 1,
       .what = FED | KEEP},   // a prologue of several taps
      {.dtype = NN_F64, .n = 1, .c = 32, .h = 4, .w = 4, .o = 36, .k = 1, .stride = 1, .groups = 1, .what = KEEP},
      {.dtype = NN_F32,
       .n = 1,
       .c = 16,
       .h = 4,
       .w = 4,
       .o = 36,
       .k = 1,
       .stride = 1,
       .groups = 1,
       .what = MOMENTS | SUMS | AFFINE | RESIDUAL | SCALE | MASK | LONG | POSITIVE | KEEP},
  };
  // of a wider tensor: two slices that are not alike, a place and a number of channels that four do not divide
  static const Case slices[] = {
      {.more = 24, .first = 12, .what = RESIDUAL | SUMS | APART},
      {.more = 24, .first = 10, .what = RESIDUAL},
      {.more = 26, .first = 12, .what = RESIDUAL},
      {.more = 24, .first = 12, .what = RESIDUAL | SUMS},   // this one it takes
  };
  MlirModule m = mlirModuleCreateEmpty(mlirLocationUnknownGet(ctx));
  for (int i = 0; i < COUNT(cases); i++) add_case(m, &cases[i]);
  for (int i = 0; i < COUNT(slices); i++) {
    Case c = {.dtype = NN_F32, .backward = true, .n = 2, .c = 36, .h = 9, .w = 7, .o = 20, .k = 1, .stride = 1};
    c.groups = 1, c.more = slices[i].more, c.first = slices[i].first, c.what = slices[i].what;
    add_case(m, &c);
  }
  int n = 0;
  for (MlirOperation op = mlirBlockGetFirstOperation(mlirModuleGetBody(m)); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op), n++)
    if (cuda_epilogue_ok(&test_target()->base.facts, op) != (n == 3 || n == 7))
      report_text("epilogue_ok", "another answer");
  mlirModuleDestroy(m);
}

// The largest: no register is spilled, for one architecture or, with NNC_TEST_TABLE, four.
static void check_registers(MlirContext ctx) {
  static const char *const archs[] = {"sm_90a", "sm_80", "sm_89", "sm_100"};
  MlirModule m = mlirModuleCreateEmpty(mlirLocationUnknownGet(ctx));
  CASE(NN_F32, false, .n = 1, .c = 36, .h = 6, .w = 7, .o = 132, .k = 3, .stride = 1, .pad = 1, .groups = 1,
       .what = AFFINE | RESIDUAL | LONG | POSITIVE);
  CASE(NN_F32, false, .n = 2, .c = 100, .h = 9, .w = 9, .o = 132, .k = 1, .stride = 1, .groups = 1,
       .what = FED | MOMENTS | KEEP);
  CASE(NN_F32, true, .n = 1, .c = 100, .h = 17, .w = 9, .o = 16, .k = 3, .stride = 2, .pad = 1, .groups = 1,
       .what = RESIDUAL | MASK | SUMS);
  EmittedKernels kernels;
  cuda_kernels_emit(test_target(), m, &kernels);
  for (int i = 0; i < (getenv("NNC_TEST_TABLE") ? COUNT(archs) : 1); i++) check_ptx(&kernels, archs[i], false);
  emitted_kernels_free(&kernels);
  mlirModuleDestroy(m);
}

// Those that differ in their epilogues alone are one kernel, and each has its own number in it.
static void check_shared(const EmittedKernels *kernels) {
  int shared = 0;
  for (int i = 0; i < kernels->n; i++)
    for (int j = 0; j < i; j++) {
      const ConvShape *a = template_conv_of(&kernels->items[i]), *b = template_conv_of(&kernels->items[j]);
      bool one_kernel = !strcmp(kernels->items[i].launches[conv_template_launches(a) - 1].symbol,
                                kernels->items[j].launches[conv_template_launches(b) - 1].symbol);
      bool one_ending = !strcmp(a->epilogue.function, b->epilogue.function);
      shared += one_kernel && !one_ending;
      if (one_kernel && one_ending != (a->ending == b->ending))
        report_text(kernels->items[i].name, "has the number of another ending");
    }
  if (shared < 8) report_text("endings", "are hardly shared");
}

static int check_cases(CudaCases *c, bool wgmma) {
  int i = 0;
  NN_FOREACH_OP (op, mlirModuleGetBody(c->module)) {
    if (!cuda_epilogue_ok(&test_target()->base.facts, op)) report_text(c->kernels.items[i].name, "refused");
    const ConvShape *s = template_conv_of(&c->kernels.items[i]);
    if (s->wgmma != wgmma || s->wide != (wgmma && s->o == 256))
      report_text(c->kernels.items[i].name, "is of another kind");
    check_kernel(&c->code, &c->kernels.items[i++], op);
  }
  return i;
}

int main(void) {
  CudaCases c = cuda_cases_begin(build_cases);
  int i = check_cases(&c, false);
  check_shared(&c.kernels);
  check_refused(c.ctx);
  check_registers(c.ctx);
  cuda_cases_end(&c);
  test_target_choose("sm_90a", false);
  ((CudaTarget *)(void *)test_target_now)->wide_blocks = 1;
  c = cuda_cases_begin(build_narrow_cases);
  i += check_cases(&c, true);
  check_ptx(&c.kernels, "sm_90a", false);
  printf("%d kernels, %d failures\n", i, failures);
  return cuda_cases_end(&c);
}
