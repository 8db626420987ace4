// Faults planted in the finished code of convolutions that take a prologue and an epilogue: each barrier, and the wait
// for the copies of the loop, is removed, and of products of warpgroups what orders them; each access of global memory
// is moved by an element, which misaligns vectors, and by two vectors, which leaves the buffer; sizes are one too
// large. The emulator finds each; the code as it is has none.
#include "test/codegen/conv_cases.c"
#include "test_target.h"

#include "codegen/codegen.h"
#include "codegen/cuda/template/template_conv.h"
#include "support/text.h"

static char message[4096];
static int n_planted;

typedef struct Planted {
  const EmittedKernel *k;   // Borrowed
  int product;              // the launch whose code is changed
  char *ir;                 // Owned
  EmulateArgument buffers[MOST_BUFFERS];
  char types[MOST_BUFFERS];
  int n;
} Planted;

static EmuFault run_text(const Planted *p, const char *ir) {
  CudaCode code = {.e = emulate_text(ir, NULL)};
  int at;
  if (!code.e) exit(1);
  strcpy(message, "");
  EmuFault fault = launch_kernel(&code, p->k, p->n, p->buffers, p->types, &at, message, sizeof message);
  if (fault != EMU_OK && at != p->product) report_text(p->k->launches[at].symbol, message);   // what was not changed
  emulate_free(code.e);
  return fault;
}

// The text with another one from `at` to `end` must end in the fault, or in any if that is EMU_OK.
static void expect(const Planted *p, const char *at, const char *end, const char *with, EmuFault fault) {
  char *ir = text_format("%.*s%s%s", (int)(at - p->ir), p->ir, with, end), *what;
  EmuFault found = run_text(p, ir);
  n_planted++;
  if (found == EMU_OK || (fault != EMU_OK && found != fault)) {
    what = text_format("fault %d, expected %d, for '%s' in place of '%.*s' %s", (int)found, (int)fault, with,
                       (int)(end - at), at, message);
    report_text(p->k->launches[p->product].symbol, what);
    free(what);
  }
  free(ir);
}

// One access of 16 bytes, whose pointer begins at `pointer`: its address is moved.
static void move_access(const Planted *p, const char *line, const char *next, const char *pointer, int bytes,
                        EmuFault fault) {
  int length = (int)strcspn(pointer, " ,)\n");
  char *text = text_format("  %%planted = getelementptr i8, ptr addrspace(1) %.*s, i64 %d\n%.*s%%planted%.*s", length,
                           pointer, bytes, (int)(pointer - line), line, (int)(next - pointer) - length,
                           pointer + length);
  expect(p, line, next, text, fault);
  free(text);
}

// *copies: how many copies were seen; some are enough.
static void plant_in_line(const Planted *p, const char *line, const char *next, bool *waited, int *copies) {
  char *text = text_format("%.*s", (int)(next - line), line);
  const char *space = strstr(text, "ptr addrspace(1) "),
             *pointer = space ? line + (space - text) + strlen("ptr addrspace(1) ") : NULL;
  bool copy = strstr(text, "cp.async.cg"), loads = strstr(text, " = load "), wide = strstr(text, "align 16");
  if (strstr(text, "barrier.cta")) expect(p, line, next, "", EMU_OK);
  if (strstr(text, "wait.group") && !*waited) {
    *waited = true;
    expect(p, line, next, "", EMU_PENDING_COPY);
  }
  if (strstr(text, "fence.proxy.async")) expect(p, line, next, "", EMU_UNFENCED);
  if (strstr(text, "wgmma.fence") || (strstr(text, "nnc.asm.wgmma.wait") && strstr(text, "call {}")))
    expect(p, line, next, "", EMU_RACE);
  if (strstr(text, "wgmma.commit")) expect(p, line, next, "", EMU_OK);
  if (pointer && (wide || (copy && ++*copies <= 4))) move_access(p, line, next, pointer, 4, EMU_MISALIGNED);
  // sums that are stored one by one stay in the workspace
  if (pointer && !copy && (loads || wide)) move_access(p, line, next, pointer, 32, EMU_OUT_OF_BOUNDS);
  free(text);
}

static void plant_in_sizes(const Planted *p) {
  static const ConvNumber sizes[] = {CONV_POSITIONS, CONV_RESULT_COLUMNS, CONV_DEPTH};
  for (int i = 0; i < COUNT(sizes); i++) {
    int32_t *number = &p->k->launches[p->product].numbers[sizes[i]];
    ++*number;
    expect(p, p->ir, p->ir, "", EMU_OK);
    --*number;
  }
}

static void check_faults(const Planted *p) {
  char *head = text_format("@%s(", p->k->launches[p->product].symbol);
  const char *at = strstr(p->ir, head), *end = at ? strstr(at, "\n}\n") : NULL;
  bool waited = false;
  int copies = 0;
  free(head);
  if (!end) {
    report_text(p->k->launches[p->product].symbol, "not in the module");
    return;
  }
  for (const char *line = strchr(at, '\n') + 1, *next; line < end; line = next + 1) {
    next = strchr(line, '\n');
    plant_in_line(p, line, next, &waited, &copies);
  }
  plant_in_sizes(p);
  if (!waited) report_text(p->k->name, "has no wait");
}

static void check_all(MlirContext ctx, bool wgmma) {
  MlirModule m = mlirModuleCreateEmpty(mlirLocationUnknownGet(ctx));
  CASE(NN_BF16, false, .n = 3, .c = 264, .h = 7, .w = 9, .o = 40, .k = 1, .stride = 1, .groups = 1,
       .what = FED | MOMENTS | RESIDUAL | KEEP);
  // As many steps as leave the last one where the results are put: else the barrier in between would be idle.
  CASE(NN_BF16, true, .n = 2, .c = 40, .h = 8, .w = 9, .o = wgmma ? 40 : 72, .k = wgmma ? 3 : 2, .stride = 1, .pad = 1,
       .groups = 1, .what = MASK | SUMS);
  if (wgmma)
    CASE(NN_BF16, false, .n = 1, .c = 24, .h = 7, .w = 9, .o = 136, .k = 2, .stride = 1, .pad = 1, .groups = 1,
         .what = KEEP | AFFINE);
  EmittedKernels kernels;
  cuda_kernels_emit(test_target(), m, &kernels);
  LLVMModuleRef code = cuda_module(&kernels, cuda_arch("sm_90"), LLVMContextCreate());
  if (!code) exit(1);
  MlirOperation func = mlirBlockGetFirstOperation(mlirModuleGetBody(m));
  for (int i = 0; i < kernels.n; i++, func = mlirOperationGetNextInBlock(func)) {
    Planted p = {.k = &kernels.items[i],
                 .product = conv_template_launches(template_conv_of(&kernels.items[i])) - 1,
                 .ir = LLVMPrintModuleToString(code)};
    Run r = run_new(func, p.k->workspace_bytes);
    p.n = buffers_of_run(p.k, &r, (void *const *)r.memory, p.buffers, p.types);
    if (run_text(&p, p.ir) != EMU_OK) report_text(p.k->name, message);
    else check_faults(&p);
    LLVMDisposeMessage(p.ir);
    run_free(&r);
  }
  LLVMContextRef llvm = LLVMGetModuleContext(code);
  LLVMDisposeModule(code);
  LLVMContextDispose(llvm);
  emitted_kernels_free(&kernels);
  mlirModuleDestroy(m);
}

int main(void) {
  MlirContext ctx = nn_context_create();
  check_all(ctx, false);
  test_target_choose("sm_90a", false);
  check_all(ctx, true);
  printf("%d faults, %d failures\n", n_planted, failures);
  nn_context_destroy(ctx);
  return failures != 0;
}
