// Kernels that begin with a convolution, under the emulator: maps and sums on its results before they are written equal the interpreter, which does one op after the
// other; no fault that the emulator knows, no register spilled.
#define WIDE 1009
#include "test/codegen/cuda_cases.c"

// What follows the convolution.
enum {
  AFFINE = 1,        // relu((y - a) b + c), a, b and c by channel: a batch-norm in evaluation
  RESIDUAL = 2,      // plus another tensor
  SCALE = 4,         // times a scalar
  MASK = 8,          // where a tensor of i1 is true
  KEEP = 16,         // y is a result, too
  MOMENTS = 32,      // mean and variance by channel, with a running average: a batch-norm in training
  SUMS = 64,         // sums of the result and of its product with a tensor: the gradients of a batch-norm
  POSITIVE = 128,    // a result of i1
  LONG = 256,        // a gelu: many operations
  FED = 512,         // in front: the first operand is relu((x - a) b + c) s, a batch-norm's
};

typedef struct Case {
  NnDtype dtype;
  bool backward;
  int64_t n, c, h, w, o, k, stride, pad, groups;
  int what;
} Case;

static MlirValue by_channel(Fn *f, NnType type) {
  NnType vector = SHAPE(NN_F32, type.dim[3]);
  return along(f, arg(f, vector), type, 3);
}

static MlirValue affine(Fn *f, MlirValue v) {
  NnType type = nn_value_type(v);
  v = nn_binary(&f->b, NN_OP_mul, nn_binary(&f->b, NN_OP_sub, v, by_channel(f, type)), by_channel(f, type));
  return nn_unary(&f->b, NN_OP_relu, nn_binary(&f->b, NN_OP_add, v, by_channel(f, type)));
}

static MlirValue normalised(Fn *f, MlirValue v) {
  return nn_binary(&f->b, NN_OP_mul, affine(f, v), nn_broadcast(&f->b, arg(f, nn_scalar(NN_F32)), nn_value_type(v), NULL));
}

static MlirValue convolution(Fn *f, const Case *c) {
  int64_t pad[4] = {c->pad, c->pad, c->pad, c->pad}, strides[2] = {c->stride, c->stride}, oh = (c->h + 2 * c->pad - c->k) / c->stride + 1, ow = (c->w + 2 * c->pad - c->k) / c->stride + 1;
  NnType x = SHAPE(c->dtype, c->n, c->h, c->w, c->c), w = SHAPE(c->dtype, c->o, c->c / c->groups, c->k, c->k), y = SHAPE(c->dtype, c->n, oh, ow, c->o);
  NnAttr attrs[] = {NN_I64S("strides", strides, 2), NN_I64S("padding", pad, 4), NN_I64("groups", c->groups), NN_STR("layout", "nhwc")};
  MlirValue operands[] = {arg(f, c->backward ? y : x), arg(f, w)};
  if (c->what & FED) operands[0] = nn_cast(&f->b, normalised(f, nn_cast(&f->b, operands[0], NN_F32)), c->dtype);
  return build(f, c->backward ? NN_OP_conv2d_input_grad : NN_OP_conv2d, 2, operands, 4, attrs, c->backward ? &x : NULL, 0);
}

static MlirValue gelu(Fn *f, MlirValue x) {
  MlirValue half = nn_constant_like(&f->b, x, 0.5), one = nn_constant_like(&f->b, x, 1), root = nn_constant_like(&f->b, x, 0.70710678);
  MlirValue e = nn_unary(&f->b, NN_OP_erf, nn_binary(&f->b, NN_OP_mul, x, root));
  return nn_binary(&f->b, NN_OP_mul, nn_binary(&f->b, NN_OP_mul, x, half), nn_binary(&f->b, NN_OP_add, e, one));
}

// In f32; the convolution's type may be narrower.
static MlirValue chain(Fn *f, const Case *c, MlirValue v) {
  NnBuilder *b = &f->b;
  NnType type = nn_value_type(v);
  if (c->what & AFFINE) v = affine(f, v);
  if (c->what & RESIDUAL) v = nn_binary(b, NN_OP_add, v, arg(f, type));
  if (c->what & SCALE) v = nn_binary(b, NN_OP_mul, v, nn_broadcast(b, arg(f, nn_scalar(NN_F32)), type, NULL));
  if (c->what & MASK) v = nn_select(b, arg(f, nn_type(NN_I1, 4, type.dim)), v, nn_constant_like(b, v, 0));
  return c->what & LONG ? gelu(f, v) : v;
}

static void add_case(MlirModule m, const Case *c) {
  Fn f = fn_begin(m);
  NnBuilder *b = &f.b;
  MlirValue y = convolution(&f, c), results[8];
  NnType type = nn_value_type(y);
  int n = 0;
  MlirValue wide = nn_cast(b, y, NN_F32), v = chain(&f, c, wide);
  bool reduces = c->what & (MOMENTS | SUMS);
  if (!reduces || !mlirValueEqual(v, wide)) results[n++] = nn_cast(b, v, c->dtype);
  if (c->what & POSITIVE) results[n++] = nn_compare(b, "gt", v, nn_constant_like(b, v, 40));
  if (c->what & MOMENTS) {
    NnAttr axes = NN_I64S("axes", I64S(0, 1, 2), 3);
    MlirOperation moments = nn_build(b, NN_OP_moments, 1, &v, 1, &axes, NULL);
    MlirValue mean = mlirOperationGetResult(moments, 0), variance = mlirOperationGetResult(moments, 1), running = arg(&f, nn_value_type(mean));
    results[n++] = mean;
    results[n++] = nn_unary(b, NN_OP_rsqrt, nn_binary(b, NN_OP_add, variance, nn_constant_like(b, variance, 1e-5)));
    results[n++] = nn_binary(b, NN_OP_add, nn_binary(b, NN_OP_mul, running, nn_constant_like(b, running, 0.9)), nn_binary(b, NN_OP_mul, mean, nn_constant_like(b, mean, 0.1)));
  }
  if (c->what & SUMS) {
    MlirValue other = arg(&f, nn_value_type(v)), products = nn_binary(b, NN_OP_mul, v, other);
    results[n++] = nn_reduce(b, NN_OP_reduce_sum, v, 3, I64S(0, 1, 2));
    results[n++] = nn_reduce(b, NN_OP_reduce_sum, products, 3, I64S(0, 1, 2));
  }
  if (c->what & KEEP) results[n++] = y;
  finish(&f, reduces ? "column" : "map", type, reduces ? 3 : 0, I64S(0, 1, 2), n, results);
}

#define CASE(type, back, ...) add_case(m, &(Case){.dtype = type, .backward = back, __VA_ARGS__})

static void build_cases(MlirModule m) {
  CASE(NN_F32, false, .n = 2, .c = 36, .h = 7, .w = 5, .o = 36, .k = 3, .stride = 1, .pad = 1, .groups = 1, .what = AFFINE);
  CASE(NN_F32, false, .n = 1, .c = 16, .h = 1, .w = 1, .o = 132, .k = 1, .stride = 1, .groups = 1, .what = AFFINE | RESIDUAL);
  CASE(NN_F32, false, .n = 3, .c = 20, .h = 11, .w = 13, .o = 68, .k = 3, .stride = 2, .pad = 1, .groups = 1, .what = RESIDUAL | SCALE | KEEP);
  CASE(NN_F32, false, .n = 2, .c = 32, .h = 9, .w = 9, .o = 64, .k = 1, .stride = 1, .groups = 1, .what = KEEP);
  CASE(NN_F32, false, .n = 1, .c = 32, .h = 6, .w = 7, .o = 72, .k = 3, .stride = 1, .pad = 1, .groups = 2, .what = AFFINE | LONG | POSITIVE);
  CASE(NN_F32, true, .n = 2, .c = 36, .h = 9, .w = 6, .o = 20, .k = 3, .stride = 2, .pad = 1, .groups = 1, .what = RESIDUAL | MASK);
  CASE(NN_F32, true, .n = 1, .c = 132, .h = 5, .w = 5, .o = 16, .k = 1, .stride = 1, .groups = 1, .what = MASK | KEEP);
  CASE(NN_BF16, false, .n = 2, .c = 16, .h = 9, .w = 7, .o = 40, .k = 3, .stride = 1, .pad = 1, .groups = 1, .what = AFFINE | RESIDUAL);
  CASE(NN_F16, true, .n = 1, .c = 72, .h = 5, .w = 5, .o = 24, .k = 3, .stride = 1, .pad = 1, .groups = 1, .what = MASK | SCALE);
  CASE(NN_F32, false, .n = 2, .c = 16, .h = 7, .w = 5, .o = 36, .k = 3, .stride = 1, .pad = 1, .groups = 1, .what = MOMENTS | KEEP);
  CASE(NN_F32, false, .n = 3, .c = 16, .h = 13, .w = 11, .o = 132, .k = 1, .stride = 1, .groups = 1, .what = MOMENTS | KEEP);
  CASE(NN_BF16, false, .n = 3, .c = 16, .h = 9, .w = 9, .o = 72, .k = 1, .stride = 1, .groups = 1, .what = MOMENTS | KEEP);
  CASE(NN_F32, false, .n = 1, .c = 32, .h = 17, .w = 9, .o = 64, .k = 3, .stride = 1, .pad = 1, .groups = 2, .what = MOMENTS | AFFINE);
  CASE(NN_F32, true, .n = 2, .c = 36, .h = 9, .w = 9, .o = 20, .k = 3, .stride = 1, .pad = 1, .groups = 1, .what = MASK | SUMS);
  CASE(NN_F32, true, .n = 1, .c = 100, .h = 17, .w = 9, .o = 16, .k = 1, .stride = 2, .groups = 1, .what = RESIDUAL | MASK | SUMS);
  CASE(NN_F32, false, .n = 3, .c = 16, .h = 65, .w = 65, .o = 32, .k = 1, .stride = 1, .groups = 1, .what = MOMENTS | SUMS | KEEP);   // so many pixels that partial sums are folded
  CASE(NN_F32, false, .n = 2, .c = 100, .h = 9, .w = 9, .o = 36, .k = 1, .stride = 1, .groups = 1, .what = FED | MOMENTS | KEEP);
  CASE(NN_F32, false, .n = 1, .c = 44, .h = 7, .w = 9, .o = 132, .k = 1, .stride = 2, .pad = 1, .groups = 1, .what = FED | KEEP);
  CASE(NN_F32, false, .n = 1, .c = 64, .h = 5, .w = 5, .o = 64, .k = 1, .stride = 1, .groups = 1, .what = FED | AFFINE | RESIDUAL);
  CASE(NN_BF16, false, .n = 2, .c = 80, .h = 6, .w = 7, .o = 40, .k = 1, .stride = 1, .groups = 1, .what = FED | MOMENTS | KEEP);
  CASE(NN_F32, false, .n = 2, .c = 64, .h = 6, .w = 7, .o = 80, .k = 1, .stride = 1, .groups = 2, .what = FED | AFFINE);
  CASE(NN_BF16, true, .n = 2, .c = 40, .h = 8, .w = 9, .o = 16, .k = 3, .stride = 1, .pad = 1, .groups = 1, .what = MASK | SUMS);
}

// The target says no where a kernel would not be right or not worth it.
static void check_refused(MlirContext ctx) {
  static const Case cases[] = {
    {.dtype = NN_F32, .n = 1, .c = 3, .h = 4, .w = 4, .o = 36, .k = 1, .stride = 1, .groups = 1, .what = AFFINE},   // channels that the template does not take
    {.dtype = NN_F32, .n = 1, .c = 32, .h = 4, .w = 4, .o = 36, .k = 3, .pad = 1, .stride = 1, .groups = 1, .what = FED | KEEP},   // a prologue of several taps
    {.dtype = NN_F64, .n = 1, .c = 32, .h = 4, .w = 4, .o = 36, .k = 1, .stride = 1, .groups = 1, .what = KEEP},
    {.dtype = NN_F32, .n = 1, .c = 16, .h = 4, .w = 4, .o = 36, .k = 1, .stride = 1, .groups = 1, .what = MOMENTS | SUMS | AFFINE | RESIDUAL | SCALE | MASK | LONG | POSITIVE | KEEP},
  };
  MlirModule m = mlirModuleCreateEmpty(mlirLocationUnknownGet(ctx));
  for (int i = 0; i < COUNT(cases); i++) add_case(m, &cases[i]);
  int n = 0;
  for (MlirOperation op = mlirBlockGetFirstOperation(mlirModuleGetBody(m)); !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op), n++)
    if (cuda_epilogue_ok(op) != (n == 3)) report_text("epilogue_ok", "another answer");
  mlirModuleDestroy(m);
}

// The largest: no register is spilled, for one architecture or, with NNC_TEST_TABLE, four.
static void check_registers(MlirContext ctx) {
  static const char *const archs[] = {"sm_90a", "sm_80", "sm_89", "sm_100"};
  MlirModule m = mlirModuleCreateEmpty(mlirLocationUnknownGet(ctx));
  CASE(NN_F32, false, .n = 1, .c = 36, .h = 6, .w = 7, .o = 132, .k = 3, .stride = 1, .pad = 1, .groups = 1, .what = AFFINE | RESIDUAL | LONG | POSITIVE);
  CASE(NN_F32, false, .n = 2, .c = 100, .h = 9, .w = 9, .o = 132, .k = 1, .stride = 1, .groups = 1, .what = FED | MOMENTS | KEEP);
  CASE(NN_F32, true, .n = 1, .c = 100, .h = 17, .w = 9, .o = 16, .k = 3, .stride = 2, .pad = 1, .groups = 1, .what = RESIDUAL | MASK | SUMS);
  HostKernels kernels;
  cuda_kernels_emit(m, &kernels);
  for (int i = 0; i < (getenv("NNC_TEST_TABLE") ? COUNT(archs) : 1); i++) check_ptx(&kernels, archs[i], false);
  host_kernels_free(&kernels);
  mlirModuleDestroy(m);
}

int main(void) {
  MlirContext ctx = nn_context_create();
  MlirModule module = mlirModuleCreateEmpty(mlirLocationUnknownGet(ctx));
  build_cases(module);
  if (!nn_verify_module(module)) return 1;
  HostKernels kernels;
  cuda_kernels_emit(module, &kernels);
  LLVMContextRef llvm = LLVMContextCreate();
  LLVMModuleRef code = cuda_module(&kernels, cuda_arch("sm_90"), llvm);
  Emulated *e = code ? emulate_take_module(code, NULL) : NULL;
  if (!e) return 1;
  int i = 0;
  for (MlirOperation op = mlirBlockGetFirstOperation(mlirModuleGetBody(module)); !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    if (!cuda_epilogue_ok(op)) report_text(kernels.items[i].name, "refused");
    check_kernel(e, &kernels.items[i++], op);
  }
  check_refused(ctx);
  check_registers(ctx);
  printf("%d kernels, %d failures\n", i, failures);
  emulate_free(e);
  host_kernels_free(&kernels);
  mlirModuleDestroy(module);
  mlirContextDestroy(ctx);
  return failures != 0;
}
