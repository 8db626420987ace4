// What ptxas makes of kernels against what the schedules, the emulator and the launches suppose: static and dynamic
// shared memory, registers, spills. Rows of 47 to 227 KiB beside a convolution, which on sm_90a has products of
// warpgroups, all in one module, as in the PTX that a driver assembles. Without ptxas the emulator's numbers alone.
#include "test/check.h"
#include "test/codegen/cuda_cases.c"
#include "test_target.h"

enum { RESERVED = 1024, REGISTERS = 64 << 10, QUARTERS = 4 };   // of a block, of a multiprocessor; of a KiB
// rows in quarters of a KiB: those that the figures of docs/cuda.md are about, and their neighbours
static const int rows[] = {47 * 4, 48 * 4, 323, 324, 112 * 4, 451, 113 * 4, 162 * 4, 163 * 4, 226 * 4, 907, 227 * 4};

enum { N_ROWS = sizeof rows / sizeof *rows };

static void softmax_row(MlirModule m, int64_t quarters) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(NN_F32, 64, quarters * 1024 / QUARTERS / 4);
  MlirValue x = arg(&f, type), top = nn_reduce(&f.b, NN_OP_reduce_max, x, 1, I64S(1));
  MlirValue e = nn_unary(&f.b, NN_OP_exp, nn_binary(&f.b, NN_OP_sub, x, along(&f, top, type, 0))),
            sum = nn_reduce(&f.b, NN_OP_reduce_sum, e, 1, I64S(1));
  finish(&f, "row", type, 1, I64S(1), RESULTS(nn_binary(&f.b, NN_OP_div, e, along(&f, sum, type, 0))));
}

static void add_conv(EmittedKernels *kernels) {
  NncConv c = {.pass = NNC_CONV_FORWARD,
               .dtype = NNC_BF16,
               .result = NNC_BF16,
               .channels_last = true,
               .n = 4,
               .c = 64,
               .h = 16,
               .w = 16,
               .o = 64,
               .oh = 16,
               .ow = 16,
               .kh = 3,
               .kw = 3,
               .stride = {1, 1},
               .pad = {1, 1, 1, 1},
               .dilation = {1, 1},
               .groups = 1};
  OpRecord record = {.kind = NNC_STEP_CONV, .conv = c};
  char *name = cuda_library_conv.name(test_target(), nn_null_operation(), &record);
  kernels->items = reallocate_array(kernels->items, (size_t)kernels->n + 1, sizeof *kernels->items);
  cuda_library_conv.emit(test_target(), nn_null_operation(), &record, name, &kernels->items[kernels->n++]);
  free(name);
}

// Two blocks where a multiprocessor has room for their shared memory, one where a block may have it, else the row is
// read again.
static void check_row(const CudaArch *arch, int quarters, const KernelLaunch *l, int64_t static_bytes) {
  int64_t row = quarters * 1024 / QUARTERS, multiprocessor = arch->multiprocessor_shared * INT64_C(1024);
  bool fits = row + static_bytes <= arch->block_shared * INT64_C(1024),
       twice = 2 * (row + static_bytes + RESERVED) <= multiprocessor;
  CHECK(l->shared_bytes == (fits ? row : 0), "%s: row of %lld bytes: %lld of shared memory", arch->name, (long long)row,
        (long long)l->shared_bytes);
  CHECK(!fits || l->alone == !twice, "%s: row of %lld bytes: %s", arch->name, (long long)row,
        l->alone ? "one block on a multiprocessor" : "two blocks");
}

static void check_launch(const CudaArch *arch, const KernelLaunch *l, const NncEmuKernel *emulated,
                         const EmulateResources *made) {
  int64_t threads = l->block[0] * l->block[1] * l->block[2], bytes = emulated->static_bytes + l->shared_bytes;
  CHECK(bytes <= arch->block_shared * INT64_C(1024), "%s, %s: %lld bytes of shared memory", arch->name, l->symbol,
        (long long)bytes);
  if (!made) return;
  CHECK(made->shared == emulated->static_bytes, "%s, %s: %d bytes of static shared memory, the emulator has %lld",
        arch->name, l->symbol, made->shared, (long long)emulated->static_bytes);
  CHECK(made->spills == 0, "%s, %s: %d bytes of spills", arch->name, l->symbol, made->spills);
  int64_t blocks = l->shared_bytes && !l->alone ? 2 : 1;
  CHECK(blocks * threads * ((made->registers + 7) / 8 * 8) <= REGISTERS, "%s, %s: %d registers for %d blocks of %d",
        arch->name, l->symbol, made->registers, (int)blocks, (int)threads);
}

static void check_architecture(const char *name) {
  const CudaArch *arch = cuda_arch(name);
  test_target_choose(name, false);
  MlirContext ctx = nn_context_create();
  MlirModule m = mlirModuleCreateEmpty(mlirLocationUnknownGet(ctx));
  for (int i = 0; i < N_ROWS; i++) softmax_row(m, rows[i]);
  EmittedKernels kernels;
  cuda_kernels_emit(test_target(), m, &kernels);
  add_conv(&kernels);
  LLVMModuleRef module = cuda_module(&kernels, arch, LLVMContextCreate());
  Emulated *e = module ? emulate_take_module(module, NULL) : NULL;
  Text ptx = {0};
  if (!e || !cuda_lower(&kernels, arch, CUDA_PTX, false, &ptx)) exit(1);
  EmulateResources made[64];
  int n = emulate_resources(text_c_string(&ptx), name, made, 64);
  CHECK(n != 0, "ptxas refuses the kernels for %s", name);
  for (int i = 0; i < kernels.n; i++)
    for (int j = 0; j < kernels.items[i].n_launches; j++) {
      const KernelLaunch *l = &kernels.items[i].launches[j];
      const NncEmuKernel *emulated = emulate_kernel(e, l->symbol);
      const EmulateResources *of = NULL;
      for (int r = 0; r < n; r++)
        if (!strcmp(made[r].name, l->symbol)) of = &made[r];
      CHECK(n < 0 || of, "ptxas says nothing of %s", l->symbol);
      check_launch(arch, l, emulated, of);
      if (i < N_ROWS) check_row(arch, rows[i], l, emulated->static_bytes);
    }
  text_free(&ptx);
  emulate_free(e);
  emitted_kernels_free(&kernels);
  mlirModuleDestroy(m);
  nn_context_destroy(ctx);
}

int main(void) {
  check_architecture("sm_80");
  check_architecture("sm_89");
  check_architecture("sm_90a");
  check_architecture("sm_100");
  return check_report();
}
