// Faults planted in the finished code of a row that stays in shared memory: each of its stores is removed, each of its
// loads is moved to the neighbour's vector, and the launch asks for a vector less than the row has. The emulator finds
// each, but for loads behind a barrier, which give other results; the code as it is has none.
#include "support/text.h"
#include "test/codegen/cuda_cases.c"
#include "test_target.h"

static int n_planted;

typedef struct Planted {
  const EmittedKernel *k;   // Borrowed
  const char *ir;           // Borrowed
  EmulateArgument buffers[MOST_BUFFERS];
  char types[MOST_BUFFERS];
  int n;
  void *result;   // Owned; of the code as it is
} Planted;

static EmuFault run_text(const Planted *p, const char *ir) {
  char message[4096] = "";
  int at;
  CudaCode code = {.e = emulate_text(ir, NULL)};
  if (!code.e) exit(1);
  EmuFault fault = launch_kernel(&code, p->k, p->n, p->buffers, p->types, &at, message, sizeof message);
  emulate_free(code.e);
  return fault;
}

static bool same_result(const Planted *p) {
  return !memcmp(p->buffers[p->n - 1].data, p->result, p->buffers[p->n - 1].bytes);
}

// The text with another one from `line` to `next` must end in the fault or, if that is EMU_OK, in any or in another
// result.
static void expect(const Planted *p, const char *line, const char *next, const char *with, EmuFault fault) {
  char *ir = text_format("%.*s%s%s", (int)(line - p->ir), p->ir, with, next);
  EmuFault found = run_text(p, ir);
  n_planted++;
  if (fault == EMU_OK ? found == EMU_OK && same_result(p) : found != fault) {
    char *what = text_format("fault %d, expected %d, for '%s' in place of %.*s", (int)found, (int)fault, with,
                             (int)(next - line), line);
    report_text(p->k->name, what);
    free(what);
  }
  free(ir);
}

static void plant_in_line(const Planted *p, const char *line, const char *next, int *stores, int *loads) {
  char *text = text_format("%.*s", (int)(next - line), line), *space = strstr(text, "ptr addrspace(3) ");
  if (space && strstr(text, "align 16") && strstr(text, "store ")) {
    expect(p, line, next, "", EMU_UNINITIALIZED);
    ++*stores;
  } else if (space && strstr(text, "align 16") && strstr(text, " = load ")) {
    const char *pointer = space + strlen("ptr addrspace(3) ");
    int length = (int)strcspn(pointer, " ,)\n");
    char *moved = text_format("  %%planted = getelementptr i8, ptr addrspace(3) %.*s, i64 16\n%.*s%%planted%s", length,
                              pointer, (int)(pointer - text), text, pointer + length);
    expect(p, line, next, moved, EMU_OK);
    free(moved);
    ++*loads;
  }
  free(text);
}

static void softmax_row(MlirModule m, int64_t rows, int64_t columns) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(NN_F32, rows, columns);
  MlirValue x = arg(&f, type), top = nn_reduce(&f.b, NN_OP_reduce_max, x, 1, I64S(1));
  MlirValue e = nn_unary(&f.b, NN_OP_exp, nn_binary(&f.b, NN_OP_sub, x, along(&f, top, type, 0))),
            sum = nn_reduce(&f.b, NN_OP_reduce_sum, e, 1, I64S(1));
  finish(&f, "row", type, 1, I64S(1), RESULTS(nn_binary(&f.b, NN_OP_div, e, along(&f, sum, type, 0))));
}

int main(void) {
  MlirContext ctx = nn_context_create();
  MlirModule m = mlirModuleCreateEmpty(mlirLocationUnknownGet(ctx));
  softmax_row(m, 2, 8704);   // a turn of four vectors a thread, and some of one
  EmittedKernels kernels;
  cuda_kernels_emit(test_target(), m, &kernels);
  LLVMModuleRef code = cuda_module(&kernels, cuda_arch("sm_90"), LLVMContextCreate());
  if (!code) return 1;
  char *ir = LLVMPrintModuleToString(code);
  Planted p = {.k = kernels.items, .ir = ir};
  Run r = run_new(mlirBlockGetFirstOperation(mlirModuleGetBody(m)), 0);
  p.n = buffers_of_run(p.k, &r, (void *const *)r.memory, p.buffers, p.types);
  if (run_text(&p, ir) != EMU_OK) report_text(p.k->name, "fails as it is");
  p.result = malloc(p.buffers[p.n - 1].bytes);
  memcpy(p.result, p.buffers[p.n - 1].data, p.buffers[p.n - 1].bytes);
  int stores = 0, loads = 0;
  for (const char *line = ir, *next; *line; line = next) {
    next = line + strcspn(line, "\n");
    next += *next == '\n';
    plant_in_line(&p, line, next, &stores, &loads);
  }
  if (!stores || !loads) report_text(p.k->name, "does not keep its row");
  p.k->launches[0].shared_bytes -= 16;
  expect(&p, ir, ir, "", EMU_OUT_OF_BOUNDS);
  printf("%d faults, %d failures\n", n_planted, failures);
  free(p.result);
  run_free(&r);
  LLVMDisposeMessage(ir);
  LLVMContextRef llvm = LLVMGetModuleContext(code);
  LLVMDisposeModule(code);
  LLVMContextDispose(llvm);
  emitted_kernels_free(&kernels);
  mlirModuleDestroy(m);
  nn_context_destroy(ctx);
  return failures != 0;
}
