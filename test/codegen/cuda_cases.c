// Kernels of a module, with the CUDA schedule, in the emulator: what test_cuda_kernels.c and test_conv_epilogue.c share.
#include "test/codegen/kernel_run.c"
#include "test/codegen/emulate.c"

#include "codegen/cuda/cuda.h"
#include "codegen/cuda/template.h"

static void report_text(const char *name, const char *what) {
  if (++failures <= 20) fprintf(stderr, "%s: %s\n", name, what);
}

// A pair of address and size for each buffer.
static bool launch_all(const Emulated *e, const HostKernel *k, int n_buffers, const EmulateArgument *buffers, const char *types) {
  for (int l = 0; l < k->n_launches; l++) {
    const HostLaunch *h = &k->launches[l];
    EmulateArgument arguments[NN_MAX_OPERANDS * 4 + TEMPLATE_NUMBERS];
    char letters[NN_MAX_OPERANDS * 4 + 1] = {0};
    int n = h->buffers ? h->n_buffers : n_buffers;
    for (int i = 0; i < n; i++) {
      int from = h->buffers ? h->buffers[i] : i;
      arguments[i] = buffers[from];
      letters[i] = types[from];
    }
    for (int i = 0; i < h->n_numbers; i++, n++) arguments[n] = (EmulateArgument){"number", &h->numbers[i], 0};
    EmulateLaunch launch = {.grid = {(uint32_t)h->grid[0], (uint32_t)h->grid[1], (uint32_t)h->grid[2]}, .block = {(uint32_t)h->block[0], (uint32_t)h->block[1], (uint32_t)h->block[2]},
                            .dynamic_bytes = (uint32_t)h->shared_bytes, .n = n, .arguments = arguments, .threads = 1, .types = letters};
    char message[1024];
    if (emulate_run(e, h->symbol, &launch, message, sizeof message) == EMU_OK) continue;
    report_text(h->symbol, message);
    return false;
  }
  return true;
}

static char type_letter(const NnType *t) { return t->dtype == NN_F32 ? 'f' : t->dtype == NN_F64 ? 'd' : nn_dtype_is_narrow(t->dtype) ? '-' : 'i'; }

static bool run_kernel(const void *emulated, const HostKernel *k, const Run *r, void *const *buffers) {
  EmulateArgument arguments[NN_MAX_OPERANDS * 4];
  char types[NN_MAX_OPERANDS * 4];
  int n = 0;
  for (int i = 0; i < r->n_args; i++, n++) types[n] = type_letter(&r->args[i].type), arguments[n] = (EmulateArgument){"argument", buffers[n], (uint64_t)nn_type_bytes(&r->args[i].type)};
  for (int i = 0; i < r->n_results; i++, n++) types[n] = type_letter(&r->expected[i].type), arguments[n] = (EmulateArgument){"result", buffers[n], (uint64_t)nn_type_bytes(&r->expected[i].type)};
  types[n] = '-';
  if (k->workspace_bytes) arguments[n] = (EmulateArgument){"workspace", buffers[n], (uint64_t)k->workspace_bytes}, n++;
  return launch_all(emulated, k, n, arguments, types);
}

static void check_kernel(const Emulated *e, const HostKernel *k, MlirOperation func) {
  Run r = run_new(func, k->workspace_bytes);
  if (k->workspace_bytes != cuda_kernel_workspace(func)) report(k, func, "two opinions on the workspace");
  if (run_kernel(e, k, &r, (void *const *)r.memory)) {
    compare_results(k, func, &r);
    check_in_place(k, func, &r, run_kernel, e);
  }
  if (!buffer_intact(r.memory[r.n_args + r.n_results], k->workspace_bytes)) report(k, func, "writes outside the workspace");
  run_free(&r);
}

// The PTX goes through ptxas, where there is one.
static void check_ptx(const HostKernels *kernels, const char *arch, bool may_spill) {
  Text ptx = {0};
  int registers = 0, spills = 0;
  if (!cuda_lower(kernels, cuda_arch(arch), CUDA_PTX, false, &ptx)) report_text(arch, "no PTX");
  else if (!emulate_assemble(text_c_string(&ptx), arch, &registers, &spills)) report_text(arch, "ptxas refuses the PTX");
  else if (spills > 0 && !may_spill) report_text(arch, "registers are spilled");
  text_free(&ptx);
}
