// Attention against its definition (test/ir/reference.c), forward and backward: lengths of 1, primes and multiples of
// tiles, shared heads, both layouts, tensors that have
// queries, keys and values side by side, masks, dropout. On the host, where the bits do not depend on the number of
// threads, and as the kernels of a GPU in the emulator, with tensor cores and without. In f32, f64, bf16 and f16, and
// with f32 products as tf32; the reference computes in f64 from the same rounded operands. Packed gradients have the
// bits of separate ones.
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/cuda.h"
#include "codegen/cuda/template/template.h"
#include "codegen/host/host.h"
#include "codegen/op_records.h"
#include "runtime/library.h"
#include "support/alloc.h"
#include "test/check.h"
#include "test/codegen/buffers.c"
#include "test/codegen/emulate.c"
#include "test/runtime/operation.h"
#include "test_target.h"

// packed: the same with one tensor for all gradients; null: none
typedef struct Ops {
  MlirOperation op, packed;
} Ops;
typedef struct Shape {
  int batch, heads, groups, queries, keys, d;
  bool causal, last, masked;
  double dropout;
  bool joined;   // q, k and v from tensors that have all heads
  // Kernels of a GPU that run on it: f32, d f64, b bf16, h f16 and t tf32 of sm_80, B and H of sm_90a. Each letter has
  // every mask, layout and family of head dimensions; of a pair (f and t, b and h, B and H), which differ in their
  // products alone, one has most shapes. NULL: long rows of keys, which the host splits, or a mask that others have.
  const char *emulated;
} Shape;

static const Shape shapes[] = {
    {1, 1, 1, 1, 1, 1, .causal = true, .emulated = "fd"},
    {2, 3, 3, 1, 67, 16, .causal = true, .emulated = "fdb"},
    {1, 2, 1, 67, 67, 5, .causal = true, .emulated = "fd"},
    {1, 4, 2, 131, 131, 24, .causal = true, .last = true},
    {1, 2, 2, 64, 128, 64, .causal = true, .emulated = "fbB"},
    {1, 1, 1, 193, 70, 17, .causal = true, .emulated = "fdb"},
    {3, 2, 1, 71, 65, 8, .masked = true, .last = true, .emulated = "fd"},
    {2, 2, 1, 37, 37, 33, .causal = true, .masked = true, .dropout = 0.3, .emulated = "fdh"},
    {1, 3, 3, 70, 300, 20, .dropout = 0.1, .emulated = "fd"},
    {1, 2, 1, 130, 600, 16, .causal = true},
    {1, 1, 1, 33, 70, 150, .last = true, .emulated = "fb"},
    {2, 4, 2, 67, 67, 64, .causal = true, .last = true, .emulated = "thH"},
    {1, 2, 1, 37, 101, 64, .masked = true, .emulated = "fbB"},
    {1, 3, 1, 70, 41, 64, .causal = true, .masked = true, .dropout = 0.3, .emulated = "ftbH"},
    {1, 2, 2, 1, 33, 128, .dropout = 0.2, .emulated = "ftbBH"},
    {1, 2, 1, 70, 70, 128, .causal = true, .last = true, .masked = true, .emulated = "fhB"},
    {1, 2, 1, 300, 331, 64, .causal = true, .masked = true, .dropout = 0.1, .emulated = "fbB"},
    {1, 1, 1, 261, 261, 128, .causal = true, .last = true, .emulated = "tbH"},
    {2, 4, 2, 67, 67, 24, .causal = true, .last = true, .joined = true, .emulated = "fdh"},
    {2, 2, 1, 37, 37, 64, .last = true, .masked = true, .dropout = 0.3, .joined = true, .emulated = "fthB"},
    {1, 2, 2, 131, 131, 64, .causal = true, .last = true, .joined = true, .emulated = "tbH"},
    {1, 4, 2, 37, 37, 128, .causal = true, .last = true, .joined = true, .emulated = "tbH"},
    {1, 2, 1, 37, 70, 16, .causal = true, .emulated = "fdbh"},
};

enum { MAX = 11 };

// Largest differences over the largest value. Narrow results: their own rounding, in gradients that of o, which their
// row sums are made from, and on the tensor cores that of the weights.
static double host_bound(NnDtype dtype, bool backward) {
  double rounding = dtype == NN_BF16 ? 4e-3 : dtype == NN_F16 ? 5e-4 : 0;
  return rounding > 0 ? (backward ? 2 : 1) * rounding : dtype == NN_F64 ? 1e-13 : 2e-6;
}
static double emulated_bound(NnDtype dtype, bool tf32) {
  return dtype == NN_F64 ? 1e-12 : dtype == NN_BF16 ? 8e-3 : dtype == NN_F16 || tf32 ? 1e-3 : 1e-5;
}

static unsigned state = 7;
static double random_unit(void) { return (double)((state = state * 1664525u + 1013904223u) >> 8) / 16777216.0; }

static NnType type_of(NnDtype dtype, const Shape *s, bool keys) {
  int64_t heads = keys ? s->groups : s->heads, tokens = keys ? s->keys : s->queries;
  return nn_type(dtype, 4,
                 s->last ? (int64_t[]){s->batch, tokens, heads, s->d} : (int64_t[]){s->batch, heads, tokens, s->d});
}

// Of the operands q, k and v.
static NnType operand_type_of(NnDtype dtype, const Shape *s, bool keys) {
  NnType t = type_of(dtype, s, keys);
  if (s->joined) t.dim[2] = s->heads + 2 * s->groups;
  return t;
}

static Tensor random_tensor(NnType t) {
  Tensor x = tensor_create(t);
  for (int64_t i = 0; i < nn_type_elements(&t); i++)
    x.data[i] = t.dtype == NN_I1    ? random_unit() < 0.6
                : t.dtype == NN_I32 ? floor(1000000 * random_unit())
                                    : nn_dtype_round(t.dtype, (float)(2 * random_unit() - 1));
  return x;
}

static int64_t tensor_bytes(const Tensor *t) { return nn_type_bytes(&t->type); }

static unsigned char *buffer_of(const Tensor *t) {
  unsigned char *p = buffer_new(tensor_bytes(t));
  to_memory(t, p);
  return p;
}

// Largest difference over the largest value; infinities must agree.
static double difference(const Tensor *expected, const void *found) {
  double worst = 0, largest = 1e-30;
  for (int64_t i = 0; i < nn_type_elements(&expected->type); i++) {
    double x = expected->data[i], y = element(expected->type.dtype, found, i);
    if (isinf(x) || isnan(y)) worst = x == y ? worst : INFINITY;
    else worst = fmax(worst, fabs(x - y)), largest = fmax(largest, fabs(x));
  }
  return worst / largest;
}

static void execute(NncAttention *a, int n, int n_inputs, const Tensor *x, void **memory, int threads) {
  nnc_library_set_threads(threads);
  omp_set_num_threads(threads);
  a->scratch_bytes = nnc_attention_scratch(a);
  for (int i = n_inputs; i < n; i++) memset(memory[i], 0xff, (size_t)tensor_bytes(&x[i]));
  char error[256] = "";
  NncLibrary *library = nnc_library_open(threads);
  const NncOperation *op = nnc_attention_prepare(library, a, error, sizeof error);
  run_operation(op, error, memory, a->scratch_bytes, 1);
  nnc_library_close(library);
}

// A tolerance for a GPU: sums in another order may turn the rounding of an operand to tf32.
static void run_kernel(Emulated *e, const KernelLaunch *l, int n, const EmulateArgument *arguments, const char *types,
                       bool tf32) {
  char message[4096];
  EmulateLaunch launch = {.dynamic_bytes = (uint32_t)l->shared_bytes,
                          .n = n,
                          .arguments = arguments,
                          .types = types,
                          .order = emulate_order(),
                          .tolerance = tf32 ? 1e-3 : 0};
  for (int i = 0; i < 3; i++) launch.grid[i] = (uint32_t)l->grid[i], launch.block[i] = (uint32_t)l->block[i];
  CHECK(emulate_run(e, l->symbol, &launch, message, sizeof message) == EMU_OK, "%s", message);
}

// The three gradients against one tensor [B, T, (H + 2 heads of k) D] that has them side by side, all with elements of
// so many bytes.
static void check_packed(const char *what, const Shape *s, int64_t bytes, const void *const gradient[3],
                         const void *packed) {
  int64_t row = (s->heads + 2 * s->groups) * s->d, first = 0;
  for (int i = 0; i < 3; i++) {
    int64_t heads = i == 0 ? s->heads : s->groups, wrong = 0;
    for (int64_t at = 0; at < s->batch * heads * s->queries; at++) {   // in the order of [B, T, H]
      int64_t head = at % heads, token = at / heads % s->queries, batch = at / heads / s->queries;
      int64_t own = s->last ? at : (batch * heads + head) * s->queries + token;
      const char *beside = (const char *)packed + ((batch * s->queries + token) * row + first + head * s->d) * bytes;
      wrong += memcmp((const char *)gradient[i] + own * s->d * bytes, beside, (size_t)(s->d * bytes)) != 0;
    }
    CHECK(wrong == 0, "%s, %d keys of %d: packed gradient %d differs in %lld rows", what, s->keys, s->d, i,
          (long long)wrong);
    first += heads * s->d;
  }
}

// Runs the kernels that the CUDA target has for the op on its operands x; the arguments get its results behind them.
// Owned: buffer_free of each; the number is returned.
static int emulate_op(MlirOperation op, int n_operands, const Tensor *x, bool tf32,
                      EmulateArgument arguments[MAX + 1]) {
  int n = n_operands + (int)mlirOperationGetNumResults(op);
  OpRecord record = op_record(op);
  char *name = cuda_library_attention.name(test_target(), op, &record);
  EmittedKernel kernel;
  cuda_library_attention.emit(test_target(), op, &record, name, &kernel);
  LLVMModuleRef module = LLVMModuleCreateWithNameInContext("attention", LLVMContextCreate());
  TemplateLaunch ignored;
  for (int i = 0; i < kernel.n_launches; i++)
    attention_build(module, template_attention_of(&kernel), i, kernel.launches[i].symbol, &ignored);
  Emulated *e = emulate_take_module(module, NULL);
  if (!e) exit(1);
  char types[MAX + 2] = {0};
  for (int i = 0; i < n; i++) {
    NnType t = i < n_operands ? x[i].type : nn_value_type(mlirOperationGetResult(op, i - n_operands));
    int64_t bytes = nn_type_bytes(&t);
    arguments[i] = (EmulateArgument){"operand", i < n_operands ? buffer_of(&x[i]) : buffer_new(bytes), (uint64_t)bytes};
    types[i] = type_letter(t.dtype);
    if (i >= n_operands) memset(arguments[i].data, 0xff, (size_t)bytes);
  }
  if (kernel.workspace_bytes)
    arguments[n] = (EmulateArgument){"workspace", buffer_new(kernel.workspace_bytes), (uint64_t)kernel.workspace_bytes};
  types[n] = '-';
  for (int i = 0; i < kernel.n_launches; i++)
    run_kernel(e, &kernel.launches[i], n + (kernel.workspace_bytes > 0), arguments, types, tf32);
  n += kernel.workspace_bytes > 0;
  emulate_free(e);
  EmittedKernels kernels = {.n = 1, .items = allocate_array(1, sizeof kernel)};
  kernels.items[0] = kernel;
  emitted_kernels_free(&kernels);
  free(name);
  return n;
}

static void check_emulated(const Ops *ops, const Shape *s, int n_operands, const Tensor *x, const char *arch,
                           bool tf32) {
  test_target_choose(arch, tf32);
  EmulateArgument found[MAX + 1], packed[MAX + 1];
  int n = emulate_op(ops->op, n_operands, x, tf32, found), n_packed = 0;
  char *name = cuda_library_kernel(test_target(), ops->op);
  for (int i = n_operands; i < n_operands + (int)mlirOperationGetNumResults(ops->op); i++) {
    double worst = difference(&x[i], found[i].data);
    CHECK(worst < emulated_bound(x[i].type.dtype, tf32), "%s, %d to %d keys: result %d differs by %g", name, s->queries,
          s->keys, i - n_operands, worst);
  }
  if (!mlirOperationIsNull(ops->packed)) {
    n_packed = emulate_op(ops->packed, n_operands, x, tf32, packed);
    CHECK(buffer_intact(packed[n_operands].data, (int64_t)packed[n_operands].bytes),
          "%s writes outside of packed gradients", name);
    check_packed(name, s, nn_dtype_bytes(x[0].type.dtype),
                 (const void *const[]){found[n_operands].data, found[n_operands + 1].data, found[n_operands + 2].data},
                 packed[n_operands].data);
  }
  for (int i = 0; i < n; i++) buffer_free(found[i].data);
  for (int i = 0; i < n_packed; i++) buffer_free(packed[i].data);
  free(name);
}

// Packed gradients against `gradient`; memory: of the operands.
static void check_packed_on_host(MlirOperation op, const Shape *s, int n_operands, void *const *memory,
                                 const void *const gradient[3]) {
  NncAttention a = op_record(op).attention;
  NnType t = nn_value_type(mlirOperationGetResult(op, 0));
  Tensor x[MAX] = {0};   // execute() wants the type of the result alone
  x[n_operands].type = t;
  void *all[MAX];
  for (int i = 0; i < n_operands; i++) all[i] = memory[i];
  all[n_operands] = buffer_new(nn_type_bytes(&t));
  for (int threads = 3; threads >= 1; threads -= 2) {
    execute(&a, n_operands + 1, n_operands, x, all, threads);
    check_packed("host", s, nn_dtype_bytes(t.dtype), gradient, all[n_operands]);
  }
  CHECK(buffer_intact(all[n_operands], nn_type_bytes(&t)), "writes outside of packed gradients");
  buffer_free(all[n_operands]);
}

// Runs the op in memory with one and with three threads; x holds its operands and, behind them, what its results should
// be.
static void check_op(const Ops *ops, const Shape *s, int n_operands, const Tensor *x) {
  MlirOperation op = ops->op;
  int n = n_operands + (int)mlirOperationGetNumResults(op);
  void *memory[MAX];
  NncAttention a = op_record(op).attention;
  for (int i = 0; i < n; i++) memory[i] = buffer_of(&x[i]);
  for (int threads = 3; threads >= 1; threads -= 2) {
    void *before[MAX];
    for (int i = n_operands; i < n; i++) {
      before[i] = malloc((size_t)tensor_bytes(&x[i]));
      memcpy(before[i], memory[i], (size_t)tensor_bytes(&x[i]));
    }
    execute(&a, n, n_operands, x, memory, threads);
    for (int i = n_operands; i < n; i++) {
      double worst = difference(&x[i], memory[i]);
      CHECK(worst < host_bound(x[i].type.dtype, a.backward),
            "%s %s, %d to %d keys of %d, %d threads: result %d differs by %g", a.backward ? "gradient" : "forward",
            nn_dtype_name((NnDtype)a.dtype), s->queries, s->keys, s->d, threads, i - n_operands, worst);
      if (threads == 1)
        CHECK(!memcmp(before[i], memory[i], (size_t)tensor_bytes(&x[i])), "result %d depends on the threads",
              i - n_operands);
      free(before[i]);
    }
  }
  if (!mlirOperationIsNull(ops->packed))
    check_packed_on_host(ops->packed, s, n_operands, memory,
                         (const void *const[]){memory[n_operands], memory[n_operands + 1], memory[n_operands + 2]});
  for (int i = 0; i < n; i++) {
    CHECK(buffer_intact(memory[i], tensor_bytes(&x[i])), "writes outside of operand %d", i);
    buffer_free(memory[i]);
  }
  for (const char *form = s->emulated; form && *form; form++) {
    bool wanted = a.dtype == NNC_F32    ? *form == 'f' || *form == 't'
                  : a.dtype == NNC_F64  ? *form == 'd'
                  : a.dtype == NNC_BF16 ? *form == 'b' || *form == 'B'
                                        : *form == 'h' || *form == 'H';
    if (wanted) check_emulated(ops, s, n_operands, x, *form == 'B' || *form == 'H' ? "sm_90a" : "sm_80", *form == 't');
  }
}

static void check_shape(MlirContext ctx, const Shape *s, NnDtype dtype) {
  MlirLocation loc = mlirLocationUnknownGet(ctx);
  MlirModule module = mlirModuleCreateEmpty(loc);
  MlirOperation func = nn_function_create(module, "f", false, loc);
  NnType q = type_of(dtype, s, false), mask = nn_type(NN_I1, 2, (int64_t[]){s->batch, s->keys}),
         key = nn_type(NN_I32, 1, (int64_t[]){4});
  NnType operand_q = operand_type_of(dtype, s, false), operand_k = operand_type_of(dtype, s, true),
         types[5] = {operand_q, operand_k, operand_k};
  int n = 3;
  if (s->masked) types[n++] = mask;
  if (s->dropout > 0) types[n++] = key;
  Tensor x[MAX] = {0}, g[MAX] = {0};
  MlirValue operand[MAX];
  for (int i = 0; i < n; i++) {
    x[i] = random_tensor(types[i]);
    operand[i] = nn_function_add_arg(func, types[i], loc, 0, NULL);
  }
  MlirValue d_o = nn_function_add_arg(func, q, loc, 0, NULL);
  NnAttr attrs[] = {NN_F64A("scale", 0.3), NN_BOOL("causal", s->causal), NN_F64A("dropout", s->dropout),
                    NN_STR("layout", s->last ? "bthd" : "bhtd"), NN_I64("heads", s->heads)};
  int n_attrs = s->joined ? 5 : 4;
  NnBuilder b = nn_builder_at_end(nn_function_body(func), loc);
  MlirOperation forward = nn_build(&b, NN_OP_attention, n, operand, n_attrs, attrs, NULL);
  const Tensor *in[MAX];
  for (int i = 0; i < n; i++) in[i] = &x[i];
  reference_op(forward, in, x + n);
  check_op(&(Ops){forward, nn_null_operation()}, s, n, x);
  // as the gradient reads it
  for (int64_t i = 0; i < nn_type_elements(&q); i++) x[n].data[i] = nn_dtype_round(dtype, x[n].data[i]);

  g[0] = x[0], g[1] = x[1], g[2] = x[2], g[3] = x[n], g[4] = x[n + 1], g[5] = random_tensor(q);
  MlirValue back[MAX] =
      {operand[0], operand[1], operand[2], mlirOperationGetResult(forward, 0), mlirOperationGetResult(forward, 1), d_o};
  for (int i = 3; i < n; i++) g[3 + i] = x[i], back[3 + i] = operand[i];
  MlirOperation backward = nn_build(&b, NN_OP_attention_grad, n + 3, back, n_attrs, attrs, NULL);
  for (int i = 0; i < n + 3; i++) in[i] = &g[i];
  reference_op(backward, in, g + n + 3);
  Ops gradients = {backward, nn_null_operation()};
  if (s->queries == s->keys) {
    gradients.packed = nn_build(&b, NN_OP_attention_grad_packed, n + 3, back, n_attrs, attrs, NULL);
    Tensor packed;
    reference_op(gradients.packed, in, &packed);
    check_packed("reference", s, sizeof *packed.data,
                 (const void *const[]){g[n + 3].data, g[n + 4].data, g[n + 5].data}, packed.data);
    tensor_free(&packed);
  }
  check_op(&gradients, s, n + 3, g);
  for (int i = 0; i < n + 2; i++) tensor_free(&x[i]);
  tensor_free(&g[5]);
  for (int i = n + 3; i < n + 6; i++) tensor_free(&g[i]);
  mlirModuleDestroy(module);
}

int main(void) {
  MlirContext ctx = nn_context_create();
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int t = 0; t < 4; t++) check_shape(ctx, &shapes[i], (NnDtype[]){NN_F32, NN_F64, NN_BF16, NN_F16}[t]);
  nn_context_destroy(ctx);
  return check_report();
}
