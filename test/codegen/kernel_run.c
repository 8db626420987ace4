// Operands of kernels built in a test, and the comparison of results with the reference interpreter's. Included by
// the tests of kernels.
#ifndef NNC_TEST_CODEGEN_KERNEL_RUN
#define NNC_TEST_CODEGEN_KERNEL_RUN
#include "test/codegen/buffers.c"
#include "test/codegen/kernel_build.c"

#include <stdio.h>

#include "codegen/host/host.h"
#include "codegen/kernel/kernel.h"

static double largest_angle = INFINITY;    // of sin and cos
static double function_ulps[2] = {4, 4};   // allowed of exp, sin … in f32, f64

// Arguments of this length are filled with numbers from -100 to 100, and with infinities, NaN, zeros and a subnormal
// number.
#ifndef WIDE
#define WIDE 40003
#endif

// ---------------------------------------------------------------------------------------------------------------------
// Running

static uint64_t random_state;
static double random_unit(void) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (double)(random_state >> 11) * 0x1p-53;
}

static void fill(Tensor *t) {
  static const double special[] = {0,    -0.0,  INFINITY, -INFINITY, NAN,   1,    -1,    100,   -100,
                                   1000, -1000, 1e-30,    0x1p-149,  -1e30, 88.8, -87.4, -103.9};
  // few values: what record.c writes can be compressed
  bool wide = t->type.rank == 1 && t->type.dim[0] == WIDE, few = nn_type_elements(&t->type) > 2000;
  for (int64_t i = 0; i < nn_type_elements(&t->type); i++) {
    double u = random_unit();
    if (few) u = floor(256 * u) / 256;
    if (wide) {
      double x = i < 2 * COUNT(special) ? special[i % COUNT(special)] : 200 * u - 100;
      t->data[i] = nn_dtype_round(t->type.dtype, x);
      continue;
    }
    switch (t->type.dtype) {
    case NN_F32:
    case NN_F64:
    case NN_BF16:
    case NN_F16: t->data[i] = nn_dtype_round(t->type.dtype, 0.2 + 2 * u); break;
    case NN_U8: t->data[i] = floor(10 * u) + 1; break;
    case NN_I1: t->data[i] = u < 0.5; break;
    default:
      t->data[i] = floor(12 * u) - 3;
      if (t->data[i] == 0) t->data[i] = 5;
      break;
    }
  }
}

typedef struct Run {
  int n_args, n_results;
  Tensor *args, *expected;
  unsigned char **memory;
} Run;

// Operands depend on what a kernel computes alone, so that a new case leaves those of all others as they are.
static void seed_operands(MlirOperation func) {
  random_state = 7;
  MlirBlock body = nn_function_body(func);
  NN_FOREACH_OP (op, body) {
    NnOp kind = nn_op_of(op);
    for (const char *p = kind == NN_OP_NONE ? "" : nn_op_info(kind)->name; *p; p++)
      random_state = random_state * 31 + (unsigned char)*p;
  }
}

// Operands with their values, results as they must be, and memory for both and a workspace. run_free.
static Run run_new(MlirOperation func, int64_t workspace_bytes) {
  Run r = {.n_args = nn_function_n_args(func), .n_results = nn_function_n_results(func)};
  int n = r.n_args + r.n_results + 1;
  seed_operands(func);
  r.args = calloc((size_t)r.n_args + 1, sizeof *r.args);
  r.expected = calloc((size_t)r.n_results, sizeof *r.expected);
  r.memory = calloc((size_t)n, sizeof *r.memory);
  for (int i = 0; i < r.n_args; i++) {
    r.args[i].type = nn_value_type(mlirBlockGetArgument(nn_function_body(func), i));
    r.args[i] = tensor_create(r.args[i].type);
    fill(&r.args[i]);
    r.memory[i] = buffer_new(nn_type_bytes(&r.args[i].type));
    to_memory(&r.args[i], r.memory[i]);
  }
  int n_results = reference_run(func, r.args, r.expected, r.n_results);
  assert(n_results == r.n_results);
  (void)n_results;
  for (int i = 0; i < r.n_results; i++) r.memory[r.n_args + i] = buffer_new(nn_type_bytes(&r.expected[i].type));
  r.memory[n - 1] = buffer_new(workspace_bytes);
  return r;
}

static void run_free(Run *r) {
  for (int i = 0; i < r->n_args; i++) tensor_free(&r->args[i]);
  for (int i = 0; i < r->n_results; i++) tensor_free(&r->expected[i]);
  for (int i = 0; i < r->n_args + r->n_results + 1; i++) buffer_free(r->memory[i]);
  free(r->args);
  free(r->expected);
  free(r->memory);
}

static void report(const EmittedKernel *k, MlirOperation func, const char *what) {
  failures++;
  if (failures > 20) return;
  fprintf(stderr, "%s (%s): %s\n", k->name, k->summary, what);
  if (failures == 1) mlirOperationDump(func);
}

static bool is_one_function(MlirOperation func) {
  MlirOperation op = mlirBlockGetFirstOperation(nn_function_body(func)), next = mlirOperationGetNextInBlock(op);
  NnOp kind = nn_op_of(op);
  return nn_op_of(next) == NN_OP_NONE &&
         (kind == NN_OP_pow || (nn_op_info(kind)->kind == NN_KIND_MAP && mlirOperationGetNumOperands(op) == 1));
}

// What a difference is relative to: the result or, where it is small beside others of its tensor, the largest of those;
// at most 1.
static double scale_of(const Tensor *t) {
  double largest = 0;
  for (int64_t j = 0; j < nn_type_elements(&t->type); j++)
    if (isfinite(t->data[j])) largest = fmax(largest, fabs(t->data[j]));
  return fmin(largest, 1);
}

static void compare_results(const EmittedKernel *k, MlirOperation func, const Run *r) {
  for (int i = 0; i < r->n_results; i++) {
    const Tensor *t = &r->expected[i];
    NnDtype dtype = t->type.dtype;
    // A sum in another order may round to the next bf16 or f16, which is not farther than this.
    double tolerance = dtype == NN_F32    ? 1e-5
                       : dtype == NN_F64  ? 1e-11
                       : dtype == NN_BF16 ? 1e-2
                       : dtype == NN_F16  ? 0x1p-9
                                          : 0,
           scale = scale_of(t);
    bool strict = is_one_function(func);
    // ulp: at least, relative to the value
    double ulp = dtype == NN_F32 ? 0x1p-23 : dtype == NN_F64 ? 0x1p-52 : 0, least = 0x1p-126;
    if (nn_dtype_is_narrow(dtype)) ulp = (dtype == NN_BF16 ? 0x1p-7 : 0x1p-10) / function_ulps[0];
    if (dtype == NN_F64) least = 0x1p-1022;
    if (dtype == NN_F16) least = 0x1p-24;
    for (int64_t j = 0; j < nn_type_elements(&t->type); j++) {
      if (strict && fabs(r->args[0].data[j % nn_type_elements(&r->args[0].type)]) > largest_angle &&
          (nn_op_of(mlirBlockGetFirstOperation(nn_function_body(func))) == NN_OP_sin ||
           nn_op_of(mlirBlockGetFirstOperation(nn_function_body(func))) == NN_OP_cos))
        continue;
      double got = element(dtype, r->memory[r->n_args + i], j),
             want = nn_dtype_is_float(dtype) ? nn_dtype_round(dtype, t->data[j]) : t->data[j];
      if (got == want || (isnan(got) && isnan(want)) || (strict && fabs(got - want) <= least) ||
          fabs(got - want) <=
              (strict ? function_ulps[dtype == NN_F64] * ulp * fabs(want) : tolerance * fmax(scale, fabs(want))))
        continue;
      char text[160];
      snprintf(text, sizeof text, "result %d, element %lld: %.9g instead of %.9g", i, (long long)j, got, want);
      report(k, func, text);
      return;
    }
    if (!buffer_intact(r->memory[r->n_args + i], nn_type_bytes(&t->type))) report(k, func, "writes outside the result");
  }
}

// Runs a kernel on other buffers than the run's own; false after reporting.
typedef bool (*KernelRunner)(void *code, const EmittedKernel *k, const Run *r, void *const *buffers);

// Every result that may take over an argument's buffer does, one at a time; all bits of all results must stay.
static void check_in_place(const EmittedKernel *k, MlirOperation func, const Run *r, KernelRunner run, void *code) {
  int n = r->n_args + r->n_results + 1;
  void **buffers = calloc((size_t)n, sizeof *buffers);
  for (int a = 0; a < r->n_args; a++)
    for (int i = 0; i < r->n_results; i++) {
      if (!kernel_inplace_ok(func, i, a)) continue;
      for (int b = 0; b < n; b++) buffers[b] = r->memory[b];
      for (int q = 0; q < r->n_results; q++) buffers[r->n_args + q] = buffer_new(nn_type_bytes(&r->expected[q].type));
      to_memory(&r->args[a], buffers[r->n_args + i]);
      buffers[a] = buffers[r->n_args + i];
      bool ran = run(code, k, r, buffers);
      for (int q = 0; q < r->n_results; q++) {
        int64_t bytes = nn_type_bytes(&r->expected[q].type);
        if (ran && memcmp(r->memory[r->n_args + q], buffers[r->n_args + q], (size_t)bytes) != 0)
          report(k, func, "another result when computed in place");
        buffer_free(buffers[r->n_args + q]);
      }
    }
  free(buffers);
}

#endif
