// What goes along an axis, on the host: every kind and type at odd shapes, with and without columns, on one thread and
// several, against the definition of the op (test/ir/rows_reference.h).
#include <omp.h>
#include <stdio.h>

#include "codegen/op_records.h"
#include "runtime/fourier.h"
#include "runtime/library.h"
#include "runtime/runtime.h"
#include "test/check.h"
#include "test/ir/reference.c"
#include "test/runtime/operation.h"

static MlirContext ctx;

// Numbers, some of them equal, NaN, -0 or infinite; indices, some outside.
static double value(int64_t i, NnDtype t, bool special) {
  uint64_t h = ((uint64_t)i + 17) * 0x9E3779B97F4A7C15u;
  double x = (double)(h >> 40) / (1 << 23) - 1;
  if (!nn_dtype_is_float(t)) return floor(x * 9);
  if (special && h % 13 == 0) return h % 2 ? NAN : -0.0;
  if (special && h % 13 == 1) return h % 2 ? INFINITY : 0;
  return h % 3 ? x : floor(x * 4) / 4;
}

static Tensor tensor_of(NnType t, int seed, bool special) {
  Tensor x = tensor_create(t);
  for (int64_t i = 0; i < nn_type_elements(&t); i++) x.data[i] = value(i + 1000003 * (int64_t)seed, t.dtype, special);
  return x;
}

static void *memory_of(const Tensor *x) {
  int64_t n = nn_type_elements(&x->type);
  void *out = aligned_alloc(64, ((size_t)n * 8 + 127) / 64 * 64);
  convert_elements(NNC_F64, x->data, (NncDtype)x->type.dtype, out, n);
  return out;
}

// size: that of the numbers, where a small one may be the sum of larger ones.
static bool same(double a, double b, NnDtype t, double size) {
  if (isnan(a) || isnan(b) || isinf(a) || isinf(b)) return (isnan(a) && isnan(b)) || a == b;
  return fabs(a - b) <= (t == NN_F64 ? 1e-13 : t == NN_F32 ? 2e-6 : 0) * fmax(size, fabs(b));
}

static MlirOperation build(MlirModule module, const char *op, int n, const NnType *types, int n_attrs,
                           const NnAttr *attrs) {
  MlirOperation f = nn_function_create(module, "f", false, mlirLocationUnknownGet(ctx));
  NnBuilder b = nn_builder_at_end(nn_function_body(f), mlirLocationUnknownGet(ctx));
  MlirValue operands[2];
  for (int i = 0; i < n; i++) operands[i] = nn_function_add_arg(f, types[i], b.loc, 0, NULL);
  MlirOperation made = nn_build(&b, nn_op_by_name(op), n, operands, n_attrs, attrs, NULL);
  CHECK(!mlirOperationIsNull(made), "%s", b.error);
  return made;
}

static void check_op(const char *name, int n, const NnType *types, bool special, int n_attrs, const NnAttr *attrs) {
  MlirModule module = mlirModuleCreateEmpty(mlirLocationUnknownGet(ctx));
  MlirOperation op = build(module, name, n, types, n_attrs, attrs);
  Tensor x[2], wanted;
  const Tensor *given[2] = {&x[0], &x[1]};
  void *buffers[3];
  for (int i = 0; i < n; i++) x[i] = tensor_of(types[i], i, special), buffers[i] = memory_of(&x[i]);
  for (int i = 0; i < n; i++)
    convert_elements((NncDtype)types[i].dtype, buffers[i], NNC_F64, x[i].data, nn_type_elements(&types[i]));
  CHECK(reference_op(op, given, &wanted), "%s", name);
  NnType made = wanted.type;
  int64_t elements = nn_type_elements(&made);
  double *got = malloc(sizeof *got * (size_t)elements);
  for (int threads = 1; threads <= 2; threads++) {
    nnc_library_set_threads(threads);
    omp_set_num_threads(threads);
    OpRecord r = op_record(op);
    r.rows.scratch_bytes = nnc_rows_scratch(&r.rows);
    Tensor empty = tensor_of(made, 9, false);
    buffers[n] = memory_of(&empty);
    char error[200] = "";
    NncLibrary *library = nnc_library_open(threads);
    const NncOperation *operation = nnc_rows_prepare(library, &r.rows, error, sizeof error);
    run_operation(operation, error, buffers, r.rows.scratch_bytes, 1);
    convert_elements((NncDtype)made.dtype, buffers[n], NNC_F64, got, elements);
    int64_t wrong = 0;
    double size = nn_op_of(op) == NN_OP_fourier ? sqrt((double)r.rows.length) : 1;
    for (int64_t i = 0; i < elements; i++) wrong += !same(got[i], wanted.data[i], made.dtype, size);
    CHECK(!wrong, "%s of %s along axis of %lld (%lld, %lld), %d threads: %lld of %lld differ", name,
          nn_dtype_name(types[0].dtype), (long long)r.rows.length, (long long)r.rows.outer, (long long)r.rows.inner,
          threads, (long long)wrong, (long long)elements);
    nnc_library_close(library);
    tensor_free(&empty);
    free(buffers[n]);
  }
  for (int i = 0; i < n; i++) tensor_free(&x[i]), free(buffers[i]);
  tensor_free(&wanted);
  free(got);
  mlirModuleDestroy(module);
}

static NnType shape(NnDtype t, const int64_t dim[3], int64_t along) {
  return (NnType){.dtype = t, .rank = 3, .dim = {dim[0], along, dim[2]}};
}

static void check_shape(NnDtype t, const int64_t dim[3]) {
  NnType x = shape(t, dim, dim[1]), both[2] = {x, x};
  static const char *const kinds[] = {"sum", "product", "argmax", "argmin"};
  NnAttr axis = NN_I64("axis", 1);
  for (int reverse = 0; reverse < 2; reverse++) {
    for (int k = 0; k < 4; k++) {
      if (k == 1 && !nn_dtype_is_float(t)) continue;   // they wrap around
      check_op("cumulative", 1, &x, k >= 2, 3, (NnAttr[]){axis, NN_STR("kind", kinds[k]), NN_BOOL("reverse", reverse)});
    }
    if (nn_dtype_is_float(t)) check_op("recurrence", 2, both, false, 2, (NnAttr[]){axis, NN_BOOL("reverse", reverse)});
    for (int64_t count = dim[1]; count > 0; count /= 12)
      check_op("argsort", 1, &x, true, 3, (NnAttr[]){axis, NN_I64("count", count), NN_BOOL("descending", reverse)});
    NnType taken[2] = {x, shape(reverse ? NN_I64 : NN_I32, dim, dim[1] / 2 + 1)}, put[2] = {x, taken[1]};
    put[1].dim[1] = dim[1];
    check_op("take_along", 2, taken, false, 1, &axis);
    check_op("scatter_along", 2, put, false, 3, (NnAttr[]){axis, NN_I64("size", 7), NN_BOOL("last", reverse)});
  }
}

// Lengths that each factor divides, primes, and some that a row alone is cut into; few rows, and a vector of them and
// more. A row that is too long to be transformed beside others.
static void check_transforms(NnDtype t) {
  static const int64_t lengths[] = {1, 2, 3, 8, 12, 13, 60, 77, 143, 512, 1001, 1024}, rows[] = {1, 3, 19};
  enum { LONG = 17920 };
  NnAttr of_long[] = {NN_I64("length", LONG), NN_STR("kind", "real")};
  check_op("fourier", 1, &(NnType){.dtype = t, .rank = 2, .dim = {4, LONG}}, false, 2, of_long);
  of_long[1].str = "complex";
  check_op("fourier", 1, &(NnType){.dtype = t, .rank = 3, .dim = {1, LONG, 2}}, false, 2, of_long);
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
      int64_t n = lengths[i], half = n / 2 + 1;
      NnAttr attrs[] = {NN_I64("length", n), NN_STR("kind", "real"), NN_BOOL("inverse", false)};
      CHECK(fourier_fits(n, (NncDtype)t), "%lld", (long long)n);
      check_op("fourier", 1, &(NnType){.dtype = t, .rank = 2, .dim = {rows[k], n}}, false, 2, attrs);
      attrs[1].str = "half";
      check_op("fourier", 1, &(NnType){.dtype = t, .rank = 3, .dim = {rows[k], half, 2}}, false, 2, attrs);
      attrs[1].str = "complex";
      check_op("fourier", 1, &(NnType){.dtype = t, .rank = 3, .dim = {rows[k], n, 2}}, false, 2, attrs);
      attrs[2].boolean = true;
      check_op("fourier", 1, &(NnType){.dtype = t, .rank = 3, .dim = {rows[k], n, 2}}, false, 3, attrs);
    }
  CHECK(!fourier_fits(17, (NncDtype)t) && !fourier_fits(5 * 15625, (NncDtype)t) && fourier_fits(1 << 20, (NncDtype)t),
        "factors of more than 13, and long rows that vectors do not fit in");
}

int main(int argc, char **argv) {
  static const int64_t shapes[][3] = {{1, 1, 1},    {3, 7, 1},  {5, 45, 1},  {2, 300, 1},  {3, 1100, 1},
                                      {1, 3001, 1}, {2, 33, 5}, {1, 9, 131}, {3, 1027, 3}, {9, 64, 1}};
  static const NnDtype types[] = {NN_F32, NN_F64, NN_I32, NN_I64};
  // "avx2", "sse41": the transforms' loops for those on a machine that has more
  if (argc > 1) CHECK(nnc_library_set_isa(argv[1]), "%s", argv[1]);
  ctx = nn_context_create();
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes && argc == 1; s++)
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) check_shape(types[t], shapes[s]);
  check_transforms(NN_F32);
  check_transforms(NN_F64);
  nn_context_destroy(ctx);
  return check_report();
}
