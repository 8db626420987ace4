// Kernels of a module, with the CUDA schedule, in the emulator: what the tests of kernels share.
#include "test/codegen/emulate.c"
#include "test/codegen/kernel_run.c"
#include "test_target.h"

#include "codegen/cuda/cuda.h"
#include "codegen/cuda/template/template.h"
#include "support/text.h"

// Kernels compiled for the emulator, and what they have read and written so far.
typedef struct CudaCode {
  Emulated *e;
  EmuTraffic traffic;
} CudaCode;

static void report_text(const char *name, const char *what) {
  if (++failures <= 20) fprintf(stderr, "%s: %s\n", name, what);
}

// Ends the test if it cannot be compiled. emulate_free.
__attribute__((unused)) static CudaCode compile_kernels(const EmittedKernels *kernels) {
  LLVMModuleRef module = cuda_module(kernels, cuda_arch("sm_90"), LLVMContextCreate());
  CudaCode code = {.e = module ? emulate_take_module(module, NULL) : NULL};
  if (!code.e) exit(1);
  return code;
}

// A module of cases, its kernels for a GPU, and these compiled for the emulator.
typedef struct CudaCases {
  MlirContext ctx;
  MlirModule module;
  EmittedKernels kernels;
  CudaCode code;
} CudaCases;

__attribute__((unused)) static CudaCases cuda_cases_begin(void (*build)(MlirModule module)) {
  CudaCases c = {.ctx = nn_context_create()};
  c.module = mlirModuleCreateEmpty(mlirLocationUnknownGet(c.ctx));
  build(c.module);
  if (!nn_verify_module(c.module)) exit(1);
  cuda_kernels_emit(test_target(), c.module, &c.kernels);
  c.code = compile_kernels(&c.kernels);
  return c;
}

// The program's exit status.
__attribute__((unused)) static int cuda_cases_end(CudaCases *c) {
  emulate_free(c->code.e);
  emitted_kernels_free(&c->kernels);
  mlirModuleDestroy(c->module);
  nn_context_destroy(c->ctx);
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}

// All launches of a kernel, up to the first that fails, which *at and the message name. A pair of address and size for
// each buffer.
static uint64_t launch_order;
static EmuFault launch_kernel(CudaCode *code, const EmittedKernel *k, int n_buffers, const EmulateArgument *buffers,
                              const char *types, int *at, char *message, int size) {
  EmuFault fault = EMU_OK;
  for (*at = 0; *at < k->n_launches; ++*at) {
    const KernelLaunch *h = &k->launches[*at];
    EmulateArgument arguments[NN_MAX_OPERANDS * 4 + TEMPLATE_NUMBERS];
    char letters[NN_MAX_OPERANDS * 4 + 1] = {0};
    int n = h->buffers ? h->n_buffers : n_buffers;
    for (int i = 0; i < n; i++) {
      int from = h->buffers ? h->buffers[i] : i;
      arguments[i] = buffers[from];
      letters[i] = types[from];
    }
    for (int i = 0; i < h->n_numbers; i++, n++) arguments[n] = (EmulateArgument){"number", &h->numbers[i], 0};
    EmulateLaunch launch = {.grid = {(uint32_t)h->grid[0], (uint32_t)h->grid[1], (uint32_t)h->grid[2]},
                            .block = {(uint32_t)h->block[0], (uint32_t)h->block[1], (uint32_t)h->block[2]},
                            .dynamic_bytes = (uint32_t)h->shared_bytes,
                            .n = n,
                            .arguments = arguments,
                            .threads = 1,
                            .types = letters,
                            .order = launch_order,
                            .traffic = &code->traffic};
    if ((fault = emulate_run(code->e, h->symbol, &launch, message, size)) != EMU_OK) break;
  }
  return fault;
}

static bool launch_all(CudaCode *code, const EmittedKernel *k, int n_buffers, const EmulateArgument *buffers,
                       const char *types) {
  char message[1024];
  int at;
  launch_order = emulate_order();
  if (launch_kernel(code, k, n_buffers, buffers, types, &at, message, sizeof message) == EMU_OK) return true;
  report_text(k->launches[at].symbol, message);
  return false;
}

enum { MOST_BUFFERS = NN_MAX_OPERANDS * 4 };

// Operands, results and workspace of a run; how many.
static int buffers_of_run(const EmittedKernel *k, const Run *r, void *const *memory,
                          EmulateArgument buffers[MOST_BUFFERS], char types[MOST_BUFFERS]) {
  int n = 0;
  for (int i = 0; i < r->n_args; i++, n++)
    types[n] = type_letter(r->args[i].type.dtype),
    buffers[n] = (EmulateArgument){"argument", memory[n], (uint64_t)nn_type_bytes(&r->args[i].type)};
  for (int i = 0; i < r->n_results; i++, n++)
    types[n] = type_letter(r->expected[i].type.dtype),
    buffers[n] = (EmulateArgument){"result", memory[n], (uint64_t)nn_type_bytes(&r->expected[i].type)};
  types[n] = '-';
  if (k->workspace_bytes) buffers[n] = (EmulateArgument){"workspace", memory[n], (uint64_t)k->workspace_bytes}, n++;
  return n;
}

static bool run_kernel(void *code, const EmittedKernel *k, const Run *r, void *const *memory) {
  EmulateArgument buffers[MOST_BUFFERS];
  char types[MOST_BUFFERS];
  int n = buffers_of_run(k, r, memory, buffers, types);
  return launch_all(code, k, n, buffers, types);
}

__attribute__((unused)) static void check_kernel(CudaCode *code, const EmittedKernel *k, MlirOperation func) {
  Run r = run_new(func, k->workspace_bytes);
  if (k->workspace_bytes != cuda_kernel_workspace(test_target(), func))
    report(k, func, "two opinions on the workspace");
  if (run_kernel(code, k, &r, (void *const *)r.memory)) {
    compare_results(k, func, &r);
    check_in_place(k, func, &r, run_kernel, code);
  }
  if (!buffer_intact(r.memory[r.n_args + r.n_results], k->workspace_bytes))
    report(k, func, "writes outside the workspace");
  run_free(&r);
}

// The PTX goes through ptxas, where there is one.
__attribute__((unused)) static void check_ptx(const EmittedKernels *kernels, const char *arch, bool may_spill) {
  Text ptx = {0};
  int registers = 0, spills = 0;
  if (!cuda_lower(kernels, cuda_arch(arch), CUDA_PTX, false, &ptx)) report_text(arch, "no PTX");
  else if (!emulate_assemble(text_c_string(&ptx), arch, &registers, &spills))
    report_text(arch, "ptxas refuses the PTX");
  else if (spills > 0 && !may_spill) report_text(arch, "registers are spilled");
  text_free(&ptx);
}
