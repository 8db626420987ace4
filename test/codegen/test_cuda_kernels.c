// The CUDA schedule of the same kernels, and convolutions, under the emulator: equal to the interpreter (and,
// convolutions, to the host's own loops), no access outside of the operands, no fault that the emulator knows. The PTX
// of all goes through ptxas where there is one.
#define WIDE 1009
#include "test/codegen/cuda_cases.c"
#include "test/codegen/kernel_cases.c"
#include "test_target.h"

#include "runtime/library_internal.h"
#include "runtime/runtime.h"
#include "support/alloc.h"

// ---------------------------------------------------------------------------------------------------------------------
// Convolutions

static NncConv make_conv(NncConvPass pass, NncDtype dtype, NncDtype result, bool last, const int64_t shape[6],
                         const int64_t strides[4], const int64_t pad[4], int64_t groups) {
  NncConv c = {.pass = pass,
               .dtype = dtype,
               .result = result,
               .channels_last = last,
               .n = shape[0],
               .c = shape[1],
               .h = shape[2],
               .w = shape[2] + 1,
               .o = shape[3],
               .kh = shape[4],
               .kw = shape[5],
               .groups = groups};
  for (int i = 0; i < 2; i++) c.stride[i] = strides[i], c.dilation[i] = strides[2 + i];
  for (int i = 0; i < 4; i++) c.pad[i] = pad[i];
  c.oh = (c.h + pad[0] + pad[1] - c.dilation[0] * (c.kh - 1) - 1) / c.stride[0] + 1;
  c.ow = (c.w + pad[2] + pad[3] - c.dilation[1] * (c.kw - 1) - 1) / c.stride[1] + 1;
  return c;
}

// Whole numbers, so that every order of additions gives the same bits.
static void fill_whole(NncDtype dtype, void *p, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    double v = floor(random_unit() * 9) - 4;
    if (dtype == NNC_F64) ((double *)p)[i] = v;
    else if (dtype == NNC_BF16) ((uint16_t *)p)[i] = float_to_bf16((float)v);
    else if (dtype == NNC_F16) ((uint16_t *)p)[i] = float_to_f16((float)v);
    else ((float *)p)[i] = (float)v;
  }
}

// The host's loops; of bf16 and f16 on f32 copies, the result rounded once.
static void expected_conv(const NncConv *c, const int64_t n[3], void *const buffers[3]) {
  NncConv f = *c;
  if (c->dtype == NNC_F32 || c->dtype == NNC_F64) {
    direct_conv(c, buffers);
    return;
  }
  f.dtype = f.result = NNC_F32;
  float *wide[3];
  for (int i = 0; i < 3; i++) {
    wide[i] = malloc((size_t)n[i] * sizeof *wide[i]);
    if (i < 2) narrow_to_float(c->dtype, buffers[i], wide[i], n[i]);
  }
  direct_conv(&f, (void *const[3]){wide[0], wide[1], wide[2]});
  if (c->result == NNC_F32) memcpy(buffers[2], wide[2], (size_t)n[2] * sizeof *wide[2]);
  else narrow_from_float(wide[2], c->result, buffers[2], n[2]);
  for (int i = 0; i < 3; i++) free(wide[i]);
}

static void check_conv(CudaCode *code, const EmittedKernel *k, const NncConv *c) {
  int64_t x = c->n * c->c * c->h * c->w, y = c->n * c->o * c->oh * c->ow, w = c->o * (c->c / c->groups) * c->kh * c->kw;
  int64_t size[3] = {dtype_bytes(c->dtype), dtype_bytes(c->dtype), dtype_bytes(c->result)},
          n[3][3] = {{x, w, y}, {y, w, x}, {x, y, w}};
  void *buffers[4] = {0};
  EmulateArgument arguments[4];
  for (int i = 0; i < 3; i++) {
    buffers[i] = buffer_new(n[c->pass][i] * size[i]);
    if (i < 2) fill_whole(c->dtype, buffers[i], n[c->pass][i]);
    arguments[i] = (EmulateArgument){"operand", buffers[i], (uint64_t)(n[c->pass][i] * size[i])};
  }
  buffers[3] = buffer_new(k->workspace_bytes);
  arguments[3] = (EmulateArgument){"workspace", buffers[3], (uint64_t)k->workspace_bytes};
  void *expected[3] = {buffers[0], buffers[1], buffer_new(n[c->pass][2] * size[2])};
  expected_conv(c, n[c->pass], expected);
  const char *types = size[0] == 8 ? "ddd-" : size[0] == 4 ? "fff-" : size[2] == 4 ? "--f-" : "----";
  if (launch_all(code, k, k->workspace_bytes ? 4 : 3, arguments, types) &&
      memcmp(expected[2], buffers[2], (size_t)(n[c->pass][2] * size[2])) != 0)
    report_text(k->name, "differs from the host's loops");
  for (int i = 0; i < 4; i++) buffer_free(buffers[i]);
  buffer_free(expected[2]);
}

// Rows of more than one operand in shared memory, and a mean that only a later pass can take; what all rows have in
// common stays where it is.
static void layernorm_gradient_row(MlirModule m, NnDtype t, int64_t rows, int64_t columns) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(t, rows, columns), kept = SHAPE(t, rows);
  MlirValue x = arg(&f, type), dy = arg(&f, type), gamma = arg(&f, SHAPE(t, columns));
  NnAttr axes = NN_I64S("axes", I64S(1), 1);
  MlirValue mean = build(&f, NN_OP_moments, 1, &x, 1, &axes, NULL, 0),
            var = mlirOperationGetResult(nn_value_def(mean), 1);
  MlirValue rstd = nn_unary(&f.b, NN_OP_rsqrt, nn_binary(&f.b, NN_OP_add, var, nn_constant(&f.b, kept, 1e-5)));
  MlirValue hat = nn_binary(&f.b, NN_OP_mul, nn_binary(&f.b, NN_OP_sub, x, along(&f, mean, type, 0)),
                            along(&f, rstd, type, 0));
  MlirValue g = nn_binary(&f.b, NN_OP_mul, dy, along(&f, gamma, type, 1)), scaled = nn_binary(&f.b, NN_OP_mul, g, hat);
  MlirValue both = nn_reduce(&f.b, NN_OP_reduce_sum, scaled, 1, I64S(1)),
            top = nn_reduce(&f.b, NN_OP_reduce_max, g, 1, I64S(1));
  MlirValue share =
      nn_binary(&f.b, NN_OP_mul, hat,
                along(&f, nn_binary(&f.b, NN_OP_mul, both, nn_constant(&f.b, kept, 1.0 / (double)columns)), type, 0));
  MlirValue dx = nn_binary(&f.b, NN_OP_mul, nn_binary(&f.b, NN_OP_sub, g, share), along(&f, rstd, type, 0));
  finish(&f, "row", type, 1, I64S(1), RESULTS(dx, top, rstd));
}

// Of the lengths that rows kept in shared memory come in: less than a turn of the loops, with and without a rest, at
// any address; one team on a multiprocessor, or two.
static void long_rows(MlirModule m) {
  softmax_row(m, NN_F32, 3, 8704);
  softmax_row(m, NN_F32, 1, 24576);
  softmax_row(m, NN_F32, 1, 30003);
  softmax_row(m, NN_F64, 1, 9001);
  softmax_row(m, NN_F16, 2, 17000);
  softmax_row(m, NN_BF16, 1, 33028);
  layernorm_row(m, NN_F32, 2, 1, 12301);
  layernorm_row(m, NN_BF16, 1, 1, 16640);
  layernorm_gradient_row(m, NN_F32, 2, 12288);
  layernorm_gradient_row(m, NN_F32, 1, 20001);
  layernorm_gradient_row(m, NN_F32, 1, 30000);   // more than there is room for
  layernorm_gradient_row(m, NN_F64, 1, 8300);
}

// n, channels, height, outputs, kernel; stride and dilation; padding; groups.
static const struct {
  int64_t shape[6], strides[4], pad[4], groups;
} conv_cases[] = {
    {{1, 1, 1, 1, 1, 1}, {1, 1, 1, 1}, {0, 0, 0, 0}, 1},     {{2, 3, 7, 11, 3, 3}, {1, 1, 1, 1}, {1, 1, 1, 1}, 1},
    {{1, 17, 9, 65, 3, 3}, {2, 2, 1, 1}, {1, 1, 1, 1}, 1},   {{2, 8, 10, 8, 5, 3}, {2, 1, 1, 2}, {2, 1, 0, 3}, 1},
    {{1, 6, 8, 6, 3, 3}, {1, 1, 1, 1}, {1, 1, 1, 1}, 6},     {{2, 6, 9, 12, 3, 3}, {2, 2, 1, 1}, {1, 1, 1, 1}, 6},
    {{2, 36, 13, 36, 3, 3}, {1, 1, 1, 1}, {1, 1, 1, 1}, 36}, {{1, 8, 11, 8, 5, 3}, {2, 3, 1, 1}, {2, 2, 1, 1}, 8},
    {{1, 7, 10, 7, 3, 2}, {1, 1, 2, 3}, {2, 2, 0, 3}, 7},    {{3, 12, 21, 12, 3, 3}, {2, 2, 1, 1}, {0, 1, 0, 1}, 12},
    {{1, 32, 5, 24, 3, 3}, {1, 1, 2, 2}, {2, 2, 2, 2}, 2},   {{3, 64, 8, 16, 1, 1}, {1, 1, 1, 1}, {0, 0, 0, 0}, 1},
    {{5, 16, 13, 9, 1, 1}, {3, 2, 1, 1}, {0, 0, 0, 0}, 1},   {{2, 32, 6, 36, 3, 3}, {1, 1, 1, 1}, {1, 1, 1, 1}, 1},
    {{1, 132, 7, 64, 1, 1}, {2, 2, 1, 1}, {0, 0, 0, 0}, 1},  {{2, 72, 5, 64, 3, 3}, {2, 2, 1, 1}, {1, 1, 1, 1}, 2},
};

enum { MAX_CONVS = 256 };

static int build_convs(NncConv *list) {
  static const NncDtype types[] = {NNC_F32, NNC_F32, NNC_F64, NNC_BF16, NNC_F16};
  int n = 0;
  for (int i = 0; i < COUNT(conv_cases); i++)
    for (int pass = 0; pass < 3; pass++)
      for (int form = 0; form < (i % 3 ? 4 : 5); form++)
        list[n++] = make_conv((NncConvPass)pass, types[form],
                              pass == NNC_CONV_WEIGHT_GRAD && i % 2 ? (NncDtype)nn_dtype_wide((NnDtype)types[form])
                                                                    : types[form],
                              form != 1, conv_cases[i].shape, conv_cases[i].strides, conv_cases[i].pad,
                              conv_cases[i].groups);
  assert(n <= MAX_CONVS);
  return n;
}

// ---------------------------------------------------------------------------------------------------------------------

// With a file of a module and an architecture the kernels of that one instead; with "convolutions" these alone.
int main(int argc, char **argv) {
  bool only_convs = argc == 2 && !strcmp(argv[1], "convolutions"), given = argc > 2;
  largest_angle = 1e15;
  function_ulps[0] = 8, function_ulps[1] = 2000;   // f64: e^(y log x)
  MlirContext ctx = nn_context_create();
  MlirModule module = given ? read_module(ctx, argv[1]) : mlirModuleCreateEmpty(mlirLocationUnknownGet(ctx));
  if (!given && !only_convs) {
    build_float_cases(module, NN_F32);
    build_narrow_cases(module, NN_BF16);
    build_few_cases(module, NN_BF16, 1, 37);
    static const NnDtype others[] = {NN_F16, NN_F64};   // of f64 functions are arithmetic of our own
    for (int i = 0; i < COUNT(others); i++) {
      functions(module, others[i], WIDE);
      build_few_cases(module, others[i], 1, 37);
      build_few_cases(module, others[i], 5, 16);
      unary_maps(module, others[i], 37);
      softmax_row(module, others[i], 17, 100);
      moments_column(module, others[i], 7, 97, 35);
      transposes(module, others[i], 3, 8, 37);
    }
    build_integer_cases(module);
    long_rows(module);
    check_coverage(module);
  }
  if (!nn_verify_module(module)) return 1;
  EmittedKernels kernels;
  cuda_kernels_emit(test_target(), module, &kernels);
  NncConv convs[MAX_CONVS];
  int n_convs = given ? 0 : build_convs(convs), n_kernels = kernels.n;
  for (int i = 0; i < n_convs; i++) {
    OpRecord record = {.kind = NNC_STEP_CONV, .conv = convs[i]};
    char *name = cuda_library_conv.name(test_target(), nn_null_operation(), &record);
    kernels.items = reallocate_array(kernels.items, (size_t)kernels.n + 1, sizeof *kernels.items);
    cuda_library_conv.emit(test_target(), nn_null_operation(), &record, name, &kernels.items[kernels.n++]);
    free(name);
  }
  CudaCases all = {ctx, module, kernels, compile_kernels(&kernels)};
  int i = 0;
  MlirBlock body = mlirModuleGetBody(module);
  NN_FOREACH_OP (op, body)
    if (nn_has_attr(op, "nn.kernel")) check_kernel(&all.code, &kernels.items[i++], op);
  for (int c = 0; c < n_convs; c++) check_conv(&all.code, &kernels.items[n_kernels + c], &convs[c]);
  printf("%d kernels, %d convolutions, %d failures\n", n_kernels, n_convs, failures);
  if (given) check_ptx(&kernels, argv[2], true);
  return cuda_cases_end(&all);
}
