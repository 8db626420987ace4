// The CUDA schedule of the same kernels, and convolutions, under the emulator: equal to the interpreter (and, convolutions, to the host's own
// loops), no access outside of the operands, no fault that the emulator knows. The PTX of all goes through ptxas where there is one.
#define WIDE 1009
#include "test/codegen/kernel_cases.c"
#include "test/codegen/emulate.c"

#include "codegen/cuda/cuda.h"
#include "codegen/cuda/template.h"
#include "runtime/library_internal.h"
#include "runtime/runtime.h"

static void report_text(const char *name, const char *what) {
  if (++failures <= 20) fprintf(stderr, "%s: %s\n", name, what);
}

// A pair of address and size for each buffer.
static bool launch_all(const Emulated *e, const HostKernel *k, int n_buffers, const EmulateArgument *buffers, const char *types) {
  for (int l = 0; l < k->n_launches; l++) {
    const HostLaunch *h = &k->launches[l];
    EmulateArgument arguments[NN_MAX_OPERANDS * 4 + TEMPLATE_NUMBERS];
    int n = n_buffers;
    memcpy(arguments, buffers, (size_t)n * sizeof *arguments);
    for (int i = 0; i < h->n_numbers; i++, n++) arguments[n] = (EmulateArgument){"number", &h->numbers[i], 0};
    EmulateLaunch launch = {.grid = {(uint32_t)h->grid[0], (uint32_t)h->grid[1], (uint32_t)h->grid[2]}, .block = {(uint32_t)h->block[0], (uint32_t)h->block[1], (uint32_t)h->block[2]},
                            .dynamic_bytes = (uint32_t)h->shared_bytes, .n = n, .arguments = arguments, .threads = 1, .types = types};
    char message[1024];
    if (emulate_run(e, h->symbol, &launch, message, sizeof message) == EMU_OK) continue;
    report_text(h->symbol, message);
    return false;
  }
  return true;
}

static char type_letter(const NnType *t) { return t->dtype == NN_F32 ? 'f' : t->dtype == NN_F64 ? 'd' : nn_dtype_is_narrow(t->dtype) ? '-' : 'i'; }

static bool run_kernel(const Emulated *e, const HostKernel *k, const Run *r, void *const *buffers) {
  EmulateArgument arguments[NN_MAX_OPERANDS * 4];
  char types[NN_MAX_OPERANDS * 4];
  int n = 0;
  for (int i = 0; i < r->n_args; i++, n++) types[n] = type_letter(&r->args[i].type), arguments[n] = (EmulateArgument){"argument", buffers[n], (uint64_t)nn_type_bytes(&r->args[i].type)};
  for (int i = 0; i < r->n_results; i++, n++) types[n] = type_letter(&r->expected[i].type), arguments[n] = (EmulateArgument){"result", buffers[n], (uint64_t)nn_type_bytes(&r->expected[i].type)};
  types[n] = '-';
  if (k->workspace_bytes) arguments[n] = (EmulateArgument){"workspace", buffers[n], (uint64_t)k->workspace_bytes}, n++;
  return launch_all(e, k, n, arguments, types);
}

static void check_in_place(const Emulated *e, const HostKernel *k, MlirOperation func, const Run *r) {
  int n = r->n_args + r->n_results + 1;
  void **buffers = calloc((size_t)n, sizeof *buffers);
  for (int a = 0; a < r->n_args; a++)
    for (int i = 0; i < r->n_results; i++) {
      if (!host_kernel_inplace_ok(func, i, a)) continue;
      for (int b = 0; b < n; b++) buffers[b] = r->memory[b];
      int64_t bytes = nn_type_bytes(&r->expected[i].type);
      unsigned char *shared = buffer_new(bytes);
      to_memory(&r->args[a], shared);
      buffers[a] = buffers[r->n_args + i] = shared;
      unsigned char *apart = r->memory[r->n_args + i];
      bool ran = run_kernel(e, k, r, buffers);
      if (ran && memcmp(apart, shared, (size_t)bytes) != 0) report(k, func, "another result when computed in place");
      buffer_free(shared);
    }
  free(buffers);
}

static void check_kernel(const Emulated *e, const HostKernel *k, MlirOperation func) {
  Run r = run_new(func, k->workspace_bytes);
  if (k->workspace_bytes != cuda_kernel_workspace(func)) report(k, func, "two opinions on the workspace");
  if (run_kernel(e, k, &r, (void *const *)r.memory)) {
    compare_results(k, func, &r);
    check_in_place(e, k, func, &r);
  }
  if (!buffer_intact(r.memory[r.n_args + r.n_results], k->workspace_bytes)) report(k, func, "writes outside the workspace");
  run_free(&r);
}

// ---------------------------------------------------------------------------------------------------------------------
// Convolutions

static NncConv conv(NncConvPass pass, NncDtype dtype, bool last, const int64_t shape[6], const int64_t strides[4], const int64_t pad[4], int64_t groups) {
  NncConv c = {.pass = pass, .dtype = dtype, .channels_last = last, .n = shape[0], .c = shape[1], .h = shape[2], .w = shape[2] + 1, .o = shape[3], .kh = shape[4], .kw = shape[5],
               .groups = groups, .weights_layout = ""};
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
  f.dtype = NNC_F32;
  float *wide[3];
  for (int i = 0; i < 3; i++) {
    wide[i] = malloc((size_t)n[i] * sizeof *wide[i]);
    if (i < 2) narrow_to_float(c->dtype, buffers[i], wide[i], n[i]);
  }
  direct_conv(&f, (void *const[3]){wide[0], wide[1], wide[2]});
  narrow_from_float(wide[2], c->dtype, buffers[2], n[2]);
  for (int i = 0; i < 3; i++) free(wide[i]);
}

static void check_conv(const Emulated *e, const HostKernel *k, const NncConv *c) {
  int64_t x = c->n * c->c * c->h * c->w, y = c->n * c->o * c->oh * c->ow, w = c->o * (c->c / c->groups) * c->kh * c->kw, size = dtype_bytes(c->dtype);
  int64_t n[3][3] = {{x, w, y}, {y, w, x}, {x, y, w}};
  void *buffers[4] = {0};
  EmulateArgument arguments[4];
  for (int i = 0; i < 3; i++) {
    buffers[i] = buffer_new(n[c->pass][i] * size);
    if (i < 2) fill_whole(c->dtype, buffers[i], n[c->pass][i]);
    arguments[i] = (EmulateArgument){"operand", buffers[i], (uint64_t)(n[c->pass][i] * size)};
  }
  buffers[3] = buffer_new(k->workspace_bytes);
  arguments[3] = (EmulateArgument){"workspace", buffers[3], (uint64_t)k->workspace_bytes};
  void *expected[3] = {buffers[0], buffers[1], buffer_new(n[c->pass][2] * size)};
  expected_conv(c, n[c->pass], expected);
  const char *types = size == 8 ? "ddd-" : size == 4 ? "fff-" : "----";
  if (launch_all(e, k, k->workspace_bytes ? 4 : 3, arguments, types) && memcmp(expected[2], buffers[2], (size_t)(n[c->pass][2] * size)) != 0) report_text(k->name, "differs from the host's loops");
  for (int i = 0; i < 4; i++) buffer_free(buffers[i]);
  buffer_free(expected[2]);
}

// n, channels, height, outputs, kernel; stride and dilation; padding; groups.
static const struct { int64_t shape[6], strides[4], pad[4], groups; } conv_cases[] = {
  {{1, 1, 1, 1, 1, 1}, {1, 1, 1, 1}, {0, 0, 0, 0}, 1},      {{2, 3, 7, 11, 3, 3}, {1, 1, 1, 1}, {1, 1, 1, 1}, 1},
  {{1, 17, 9, 65, 3, 3}, {2, 2, 1, 1}, {1, 1, 1, 1}, 1},    {{2, 8, 10, 8, 5, 3}, {2, 1, 1, 2}, {2, 1, 0, 3}, 1},
  {{1, 6, 8, 6, 3, 3}, {1, 1, 1, 1}, {1, 1, 1, 1}, 6},      {{2, 6, 9, 12, 3, 3}, {2, 2, 1, 1}, {1, 1, 1, 1}, 6},
  {{2, 36, 13, 36, 3, 3}, {1, 1, 1, 1}, {1, 1, 1, 1}, 36},  {{1, 8, 11, 8, 5, 3}, {2, 3, 1, 1}, {2, 2, 1, 1}, 8},
  {{1, 7, 10, 7, 3, 2}, {1, 1, 2, 3}, {2, 2, 0, 3}, 7},     {{3, 12, 21, 12, 3, 3}, {2, 2, 1, 1}, {0, 1, 0, 1}, 12},
  {{1, 32, 5, 24, 3, 3}, {1, 1, 2, 2}, {2, 2, 2, 2}, 2},    {{3, 64, 8, 16, 1, 1}, {1, 1, 1, 1}, {0, 0, 0, 0}, 1},
  {{5, 16, 13, 9, 1, 1}, {3, 2, 1, 1}, {0, 0, 0, 0}, 1},    {{2, 32, 6, 36, 3, 3}, {1, 1, 1, 1}, {1, 1, 1, 1}, 1},
  {{1, 132, 7, 64, 1, 1}, {2, 2, 1, 1}, {0, 0, 0, 0}, 1},   {{2, 72, 5, 64, 3, 3}, {2, 2, 1, 1}, {1, 1, 1, 1}, 2},
};

enum { MAX_CONVS = 256 };

static int build_convs(NncConv *list) {
  static const NncDtype types[] = {NNC_F32, NNC_F32, NNC_F64, NNC_BF16, NNC_F16};
  int n = 0;
  for (int i = 0; i < COUNT(conv_cases); i++)
    for (int pass = 0; pass < 3; pass++)
      for (int form = 0; form < (i % 3 ? 4 : 5); form++)
        list[n++] = conv((NncConvPass)pass, types[form], form != 1, conv_cases[i].shape, conv_cases[i].strides, conv_cases[i].pad, conv_cases[i].groups);
  assert(n <= MAX_CONVS);
  return n;
}

// ---------------------------------------------------------------------------------------------------------------------

static void check_ptx(const HostKernels *kernels, const char *name) {
  Text ptx = {0};
  int registers, spills;
  if (!cuda_lower(kernels, cuda_arch(name), CUDA_PTX, false, &ptx)) report_text(name, "no PTX");
  else if (!emulate_assemble(text_c_string(&ptx), name, &registers, &spills)) report_text(name, "ptxas refuses the PTX");
  text_free(&ptx);
}

int main(int argc, char **argv) {
  largest_angle = 1e15;
  function_ulps[0] = 8, function_ulps[1] = 2000;   // f64: e^(y log x)
  MlirContext ctx = nn_context_create();
  MlirModule module = argc > 1 ? read_module(ctx, argv[1]) : mlirModuleCreateEmpty(mlirLocationUnknownGet(ctx));
  if (argc <= 1) {
    build_float_cases(module, NN_F32);
    functions(module, NN_F64, WIDE);   // f64 is arithmetic of our own; the schedules are the same
    build_narrow_cases(module, NN_BF16);
    functions(module, NN_F16, WIDE);
    unary_maps(module, NN_F16, 37);
    softmax_row(module, NN_F16, 17, 100);
    moments_column(module, NN_F16, 7, 97, 35);
    argmaxes(module, NN_F16, 3, 1, 40);
    softmax_row(module, NN_F64, 7, 33);
    moments_column(module, NN_F64, 40, 3, 9);
    build_integer_cases(module);
    check_coverage(module);
  }
  if (!nn_verify_module(module)) return 1;
  HostKernels kernels;
  cuda_kernels_emit(module, &kernels);
  NncConv convs[MAX_CONVS];
  int n_convs = argc > 1 ? 0 : build_convs(convs), n_kernels = kernels.n;
  for (int i = 0; i < n_convs; i++) {
    char *name = cuda_conv_name(&convs[i]);
    kernels.items = host_grow(kernels.items, (size_t)kernels.n + 1, sizeof *kernels.items);
    cuda_emit_conv(&convs[i], name, &kernels.items[kernels.n++]);
    free(name);
  }
  LLVMContextRef llvm = LLVMContextCreate();
  LLVMModuleRef code = cuda_module(&kernels, cuda_arch("sm_90"), llvm);
  Emulated *e = code ? emulate_take_module(code, NULL) : NULL;
  if (!e) return 1;
  int i = 0;
  MlirBlock body = mlirModuleGetBody(module);
  for (MlirOperation op = mlirBlockGetFirstOperation(body); !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    if (nn_has_attr(op, "nn.kernel")) check_kernel(e, &kernels.items[i++], op);
  for (int c = 0; c < n_convs; c++) check_conv(e, &kernels.items[n_kernels + c], &convs[c]);
  printf("%d kernels, %d convolutions, %d failures\n", n_kernels, n_convs, failures);
  if (argc > 1) check_ptx(&kernels, argv[2]);
  emulate_free(e);
  host_kernels_free(&kernels);
  mlirModuleDestroy(module);
  mlirContextDestroy(ctx);
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}
