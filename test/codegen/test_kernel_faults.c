// Faults planted in the finished code of every kind of kernel: each barrier is removed; each access of memory that is
// wider than an element is moved by one, which misaligns it; each access is moved on and back by what it reads or
// writes, an index that is off by one; waits for copies and fences are removed. An index in memory that the launch may
// touch all the same must give another result; all else the emulator finds. The code as it is has no fault.
// Convolutions on the tensor cores are in test_conv_faults.c, products of warpgroups by themselves in test_wgmma.c.
#define WIDE 1009
#include "test/codegen/cuda_cases.c"
#include "test/codegen/kernel_cases.c"
#include "test_target.h"

#include "codegen/codegen.h"
#include "codegen/op_records.h"
#include "support/alloc.h"
#include "support/text.h"

static int n_planted, n_found, n_other;   // by the emulator; by another result
static char message[4096];

// A kernel with its operands. The IR is that of all its launches.
typedef struct Planted {
  const EmittedKernel *k;   // Borrowed
  char *ir;                 // Owned
  int n;
  EmulateArgument buffers[MOST_BUFFERS];
  char types[MOST_BUFFERS];
  int n_operands;             // the rest is written
  unsigned char **expected;   // Owned; of those, as the code gives them
  int most;                   // accesses of each memory that are moved, for each launch
  const char *arch;           // Borrowed
} Planted;

static EmuFault run_text(const Planted *p, const char *ir) {
  CudaCode code = {.e = emulate_text(ir, NULL)};
  int at;
  if (!code.e) exit(1);
  strcpy(message, "");
  for (int i = p->n_operands; i < p->n; i++) memset(p->buffers[i].data, 0xff, p->buffers[i].bytes);
  EmuFault fault = launch_kernel(&code, p->k, p->n, p->buffers, p->types, &at, message, sizeof message);
  emulate_free(code.e);
  return fault;
}

static bool same_results(const Planted *p) {
  for (int i = p->n_operands; i < p->n; i++)
    if (p->types[i] != '-' && memcmp(p->expected[i - p->n_operands], p->buffers[i].data, p->buffers[i].bytes) != 0)
      return false;
  return true;
}

// The text with another line. `fault`: what it must end in; EMU_OK: any.
static EmuFault plant(const Planted *p, const char *line, const char *next, const char *with) {
  char *ir = text_format("%.*s%s%s", (int)(line - p->ir), p->ir, with, next);
  EmuFault found = run_text(p, ir);
  n_planted++;
  n_found += found != EMU_OK;
  free(ir);
  return found;
}

static void missed(const Planted *p, const char *line, const char *next, const char *what, EmuFault found) {
  char *text = text_format("%s passes (fault %d%s): %.*s", what, (int)found, message, (int)(next - line), line);
  report_text(p->k->name, text);
  free(text);
}

// "align 16" -> 16, of a load or store; 0: it is neither.
static int alignment_of_line(const char *text) {
  const char *at = strstr(text, ", align ");
  return at && (strstr(text, " = load ") || strstr(text, "  store ")) ? atoi(at + 8) : 0;
}

static int bits_of(const char *type) {
  return *type == 'i'                                               ? atoi(type + 1)
         : !strncmp(type, "float", 5)                               ? 32
         : !strncmp(type, "double", 6)                              ? 64
         : !strncmp(type, "half", 4) || !strncmp(type, "bfloat", 6) ? 16
                                                                    : 0;
}

// Bytes of an element of what is loaded or stored, and how many elements; false: of another type.
static bool element_of_line(const char *text, int *bytes, int *count) {
  const char *at = strstr(text, " = load ");
  at = at ? at + 8 : strstr(text, "  store ") + 8;
  *count = 1;
  if (*at == '<') *count = atoi(at + 1), at = strstr(at, " x ") + 3;
  *bytes = bits_of(at) / 8;
  return *bytes > 0;
}

// A name, or an expression in brackets.
static int pointer_length(const char *pointer) {
  if (*pointer == '%' || *pointer == '@') return (int)strcspn(pointer, " ,)\n");
  const char *at = strchr(pointer, '(');
  for (int depth = 0; *at; at++)
    if ((depth += (*at == '(') - (*at == ')')) == 0) break;
  return (int)(at - pointer) + 1;
}

static EmuFault move_pointer(const Planted *p, const char *line, const char *next, const char *pointer, int space,
                             int bytes) {
  int length = pointer_length(pointer);
  char *text = text_format("  %%planted = getelementptr i8, ptr addrspace(%d) %.*s, i64 %d\n%.*s%%planted%.*s", space,
                           length, pointer, bytes, (int)(pointer - line), line, (int)(next - pointer) - length,
                           pointer + length);
  EmuFault found = plant(p, line, next, text);
  free(text);
  return found;
}

// How many accesses of a kind were moved so far.
typedef struct Moved {
  int global, shared, waits, fences;
} Moved;

static void plant_in_access(const Planted *p, const char *line, const char *next, const char *text, Moved *moved) {
  int space = strstr(text, "ptr addrspace(1) ")   ? 1
              : strstr(text, "ptr addrspace(3) ") ? 3
                                                  : 0,
      align = alignment_of_line(text), bytes, count;
  int *done = space == 1 ? &moved->global : &moved->shared;
  if (!space || !align || !element_of_line(text, &bytes, &count) || ++*done > p->most) return;
  const char *pointer = line + (strstr(text, space == 1 ? "ptr addrspace(1) " : "ptr addrspace(3) ") - text) +
                        strlen("ptr addrspace(1) ");
  if (count > 1 && align > bytes) {
    EmuFault found = move_pointer(p, line, next, pointer, space, bytes);
    if (found != EMU_MISALIGNED && found != EMU_OUT_OF_BOUNDS) missed(p, line, next, "a misaligned vector", found);
  }
  EmuFault on = move_pointer(p, line, next, pointer, space, bytes * count);
  bool other = on == EMU_OK && !same_results(p);
  EmuFault back = move_pointer(p, line, next, pointer, space, -bytes * count);
  other |= back == EMU_OK && !same_results(p);
  n_other += on == EMU_OK && back == EMU_OK && other;
  if (on == EMU_OK && back == EMU_OK && !other) missed(p, line, next, "an index off by one", EMU_OK);
}

static bool touches_shared(const char *from, const char *to) {
  for (const char *at = from; (at = strstr(at, "addrspace(3)")) && at < to; at++) {
    const char *line = at;
    while (line[-1] != '\n') line--;
    char *text = text_format("%.*s", (int)(at - line), line);
    bool address = strstr(text, " = getelementptr");
    free(text);
    if (!address) return true;
  }
  return false;
}

// What orders asynchronous copies and products of warpgroups.
static void plant_in_order(const Planted *p, const char *line, const char *next, const char *text, Moved *moved) {
  bool wait = strstr(text, "wait.group") && !moved->waits++,
       fence = strstr(text, "fence.proxy.async") && !moved->fences++;
  if (wait && plant(p, line, next, "") != EMU_PENDING_COPY) missed(p, line, next, "a missing wait", EMU_OK);
  if (fence && plant(p, line, next, "") != EMU_UNFENCED) missed(p, line, next, "a missing fence", EMU_OK);
}

static void check_faults(const Planted *p) {
  int barriers = 0;
  for (const char *at = p->ir; (at = strstr(at, "\ndefine ptx_kernel")); at++) {
    const char *end = strstr(at, "\n}\n");
    const char *body = strchr(at + 1, '\n') + 1;
    Moved moved = {0};
    for (const char *line = body, *next; line < end; line = next) {
      next = strchr(line, '\n') + 1;
      char *text = text_format("%.*s", (int)(next - line), line);
      bool waits = strstr(text, "barrier.cta") || strstr(text, "bar.warp.sync");
      // What no access of shared memory stands in front of, or behind, orders nothing in it: the first barrier of a
      // kernel, and one before a result that lies over an operand.
      if (waits && plant(p, line, next, "") == EMU_OK && touches_shared(body, line) && touches_shared(next, end))
        missed(p, line, next, "a missing barrier", EMU_OK);
      barriers += waits;
      plant_in_order(p, line, next, text, &moved);
      plant_in_access(p, line, next, text, &moved);
      free(text);
    }
  }
  if (getenv("NNC_TEST_TABLE"))
    printf("%-40.40s %3d barriers, %d planted so far, %d found by the emulator, %d accesses by other results\n",
           p->k->name, barriers, n_planted, n_found, n_other);
}

// The code must be right and without a fault; then it is given some.
static void check_planted(Planted *p) {
  if (run_text(p, p->ir) != EMU_OK) {
    report_text(p->k->name, message);
    return;
  }
  p->expected = calloc((size_t)(p->n - p->n_operands), sizeof *p->expected);
  for (int i = p->n_operands; i < p->n; i++) {
    p->expected[i - p->n_operands] = malloc(p->buffers[i].bytes);
    memcpy(p->expected[i - p->n_operands], p->buffers[i].data, p->buffers[i].bytes);
  }
  check_faults(p);
  for (int i = p->n_operands; i < p->n; i++) free(p->expected[i - p->n_operands]);
  free(p->expected);
}

// ---------------------------------------------------------------------------------------------------------------------

// One kernel of those, whose buffers are in p.
static void check_kernel_alone(const EmittedKernels *kernels, int i, Planted *p) {
  EmittedKernels one = *kernels;
  one.n = 1, one.items = &kernels->items[i];
  LLVMModuleRef code = cuda_module(&one, cuda_arch(p->arch), LLVMContextCreate());
  if (!code) exit(1);
  p->k = &kernels->items[i];
  p->ir = LLVMPrintModuleToString(code);
  check_planted(p);
  LLVMDisposeMessage(p->ir);
  LLVMContextRef llvm = LLVMGetModuleContext(code);
  LLVMDisposeModule(code);
  LLVMContextDispose(llvm);
}

static void check_module(MlirContext ctx, void (*build_module)(MlirModule), int most) {
  MlirModule m = mlirModuleCreateEmpty(mlirLocationUnknownGet(ctx));
  EmittedKernels kernels;
  build_module(m);
  cuda_kernels_emit(test_target(), m, &kernels);
  MlirOperation func = mlirBlockGetFirstOperation(mlirModuleGetBody(m));
  for (int i = 0; i < kernels.n; i++, func = mlirOperationGetNextInBlock(func)) {
    Planted p = {.most = most, .arch = "sm_90"};
    Run r = run_new(func, kernels.items[i].workspace_bytes);
    p.n = buffers_of_run(&kernels.items[i], &r, (void *const *)r.memory, p.buffers, p.types);
    p.n_operands = r.n_args;
    check_kernel_alone(&kernels, i, &p);
    run_free(&r);
  }
  emitted_kernels_free(&kernels);
  mlirModuleDestroy(m);
}

// A kernel that is a whole op.
static void check_op(MlirContext ctx, MlirOperation (*build_op)(MlirModule m, int which), int which, const char *arch,
                     int most) {
  MlirModule m = mlirModuleCreateEmpty(mlirLocationUnknownGet(ctx));
  EmittedKernels kernels;
  test_target_choose(arch, false);
  cuda_kernels_emit(test_target(), m, &kernels);   // none yet
  MlirOperation op = build_op(m, which);
  OpRecord record = op_record(op);
  char *name = cuda_library_kernel(test_target(), op);
  kernels.items = reallocate_array(kernels.items, 1, sizeof *kernels.items);
  cuda_library(record.kind)->emit(test_target(), op, &record, name, &kernels.items[kernels.n++]);
  free(name);
  int i = kernels.n - 1, n_operands = (int)mlirOperationGetNumOperands(op),
      n_results = (int)mlirOperationGetNumResults(op);
  Planted p = {.most = most, .arch = arch, .n_operands = n_operands, .n = n_operands + n_results};
  for (int b = 0; b < p.n; b++) {
    Tensor t = tensor_create(
        nn_value_type(b < n_operands ? mlirOperationGetOperand(op, b) : mlirOperationGetResult(op, b - n_operands)));
    fill(&t);
    p.types[b] = type_letter(t.type.dtype);
    p.buffers[b] = (EmulateArgument){"operand", buffer_new(nn_type_bytes(&t.type)), (uint64_t)nn_type_bytes(&t.type)};
    to_memory(&t, p.buffers[b].data);
    tensor_free(&t);
  }
  int64_t workspace = kernels.items[i].workspace_bytes;
  if (workspace)
    p.types[p.n] = '-', p.buffers[p.n++] = (EmulateArgument){"workspace", buffer_new(workspace), (uint64_t)workspace};
  check_kernel_alone(&kernels, i, &p);
  for (int b = 0; b < p.n; b++) buffer_free(p.buffers[b].data);
  emitted_kernels_free(&kernels);
  mlirModuleDestroy(m);
}

static NnBuilder public_function(MlirModule m, MlirOperation *func) {
  MlirLocation loc = mlirLocationUnknownGet(mlirModuleGetContext(m));
  *func = nn_function_create(m, "f", false, loc);
  return nn_builder_at_end(nn_function_body(*func), loc);
}

// Groups of channels that fill no tile, depthwise, few channels and f64: all three passes of each.
static MlirOperation convolution_op(MlirModule m, int which) {
  static const struct {
    NnDtype dtype;
    int64_t c, o, groups;
  } forms[] = {{NN_F32, 12, 12, 3}, {NN_F32, 8, 8, 8}, {NN_F32, 3, 5, 1}, {NN_F64, 17, 33, 1}};
  MlirOperation func;
  NnBuilder b = public_function(m, &func);
  NnDtype t = forms[which / 3].dtype;
  int64_t c = forms[which / 3].c, o = forms[which / 3].o, groups = forms[which / 3].groups;
  NnType x = SHAPE(t, 2, 6, 7, c), w = SHAPE(t, o, c / groups, 3, 3), y = SHAPE(t, 2, 6, 7, o);
  NnAttr attrs[] = {NN_I64S("strides", I64S(1, 1), 2), NN_I64S("padding", I64S(1, 1, 1, 1), 4),
                    NN_I64("groups", groups), NN_STR("layout", "nhwc")};
  NnType types[3][2] = {{x, w}, {y, w}, {x, y}}, asked[] = {y, x, w};
  NnOp ops[] = {NN_OP_conv2d, NN_OP_conv2d_input_grad, NN_OP_conv2d_weight_grad};
  MlirValue operands[2];
  for (int i = 0; i < 2; i++) operands[i] = nn_function_add_arg(func, types[which % 3][i], b.loc, 0, NULL);
  MlirOperation op = nn_build(&b, ops[which % 3], 2, operands, 4, attrs, which % 3 ? &asked[which % 3] : NULL);
  if (mlirOperationIsNull(op)) exit(1);
  return op;
}

// Causal: of f32 with heads of 8, a warp for each row; of bf16 with heads of 64, tensor cores. Then the gradients.
static MlirOperation attention_op(MlirModule m, int which) {
  MlirOperation func;
  NnBuilder b = public_function(m, &func);
  bool plain = which < 2, back = which % 2;
  int64_t tokens = plain ? 37 : 131;
  NnType x = SHAPE(plain ? NN_F32 : NN_BF16, 1, 1, tokens, plain ? 8 : 64), row = SHAPE(NN_F32, 1, 1, tokens),
         types[] = {x, x, x, x, row, x};
  NnAttr attrs[] = {NN_F64A("scale", 0.3), NN_BOOL("causal", true), NN_F64A("dropout", 0), NN_STR("layout", "bhtd")};
  MlirValue operands[6];
  for (int i = 0; i < (back ? 6 : 3); i++) operands[i] = nn_function_add_arg(func, types[i], b.loc, 0, NULL);
  MlirOperation op = nn_build(&b, back ? NN_OP_attention_grad : NN_OP_attention, back ? 6 : 3, operands, 4, attrs,
                              NULL);
  if (mlirOperationIsNull(op)) exit(1);
  return op;
}

// Sizes at which every access reaches an end of its buffer: 16 bytes a thread, and what is left.
static void kinds(MlirModule m) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(NN_F32, 3, 512);
  MlirValue x = arg(&f, type), row = arg(&f, SHAPE(NN_F32, 512));
  finish(&f, "map", type, 0, NULL, RESULTS(nn_binary(&f.b, NN_OP_add, x, along(&f, row, type, 1))));
  update_map(m, NN_F32, 11);
  random_map(m, NN_BF16, 5, 16);
  softmax_row(m, NN_F32, 5, 64);
  layernorm_row(m, NN_F32, 2, 3, 367);
  layernorm_row(m, NN_BF16, 3, 1, 96);
  sums_row(m, NN_F32, 2, 1500);
  moments_column(m, NN_F32, 4, 50, 32);
  sums_column(m, NN_F32, 2, 40, 16);
  plain_total_column(m, NN_F32, 9000);
  chained_column(m, NN_F32, 2, 65, 8);
  transposes(m, NN_F32, 2, 37, 40);
  pools(m, NN_F32, true, 4, 6, 5, I64S(3, 2), I64S(2, 1), I64S(1, 1, 0, 1));
  concats(m, NN_F32, 1, 3, 1);
  tables(m, NN_F32, NN_I32, 10, 8, 150);   // more indices than a block reads at once
  tables(m, NN_F32, NN_I32, 9, 3, 150);
  argmaxes(m, NN_F32, 2, 3, 37);
}

int main(void) {
  MlirContext ctx = nn_context_create();
  check_module(ctx, kinds, 6);
  for (int which = 0; which < 12; which++) check_op(ctx, convolution_op, which, "sm_80", 3);
  for (int which = 0; which < 4; which++) check_op(ctx, attention_op, which, "sm_80", 2);
  for (int which = 2; which < 4; which++) check_op(ctx, attention_op, which, "sm_90a", 2);
  printf("%d faults planted, %d found by the emulator, %d accesses only by another result, %d failures\n", n_planted,
         n_found, n_other, failures);
  nn_context_destroy(ctx);
  return failures != 0;
}
