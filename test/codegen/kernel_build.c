// Kernels built in a test. Included by the tests of kernels.
#ifndef NNC_TEST_CODEGEN_KERNEL_BUILD
#define NNC_TEST_CODEGEN_KERNEL_BUILD
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static int failures;

typedef struct Fn {
  MlirModule module;
  MlirOperation func;
  NnBuilder b;
} Fn;

static Fn fn_begin(MlirModule module) {
  static int counter;
  char name[32];
  snprintf(name, sizeof name, "kernel_%d", counter++);
  MlirLocation loc = mlirLocationUnknownGet(mlirModuleGetContext(module));
  Fn f = {.module = module, .func = nn_function_create(module, name, true, loc)};
  f.b = nn_builder_at_end(nn_function_body(f.func), loc);
  return f;
}

static NnType shape(NnDtype dtype, int rank, const int64_t *dim) { return nn_type(dtype, rank, dim); }
#define SHAPE(dtype, ...) \
  shape((dtype), (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})
#define I64S(...) ((int64_t[]){__VA_ARGS__})

static MlirValue arg(Fn *f, NnType type) { return nn_function_add_arg(f->func, type, f->b.loc, 0, NULL); }

static void finish(Fn *f, const char *kind, NnType domain, int n_axes, const int64_t *axes, int n,
                   const MlirValue *results) {
  nn_function_set_results(f->func, n, results, 0);
  nn_set_unit(f->func, "nn.kernel");
  nn_set_attr(f->func, &NN_STR("nn.kind", kind));
  nn_set_attr(f->func, &NN_I64S("nn.domain", domain.dim, domain.rank));
  if (n_axes) nn_set_attr(f->func, &NN_I64S("nn.axes", axes, n_axes));
}
#define RESULTS(...) \
  (int)(sizeof((MlirValue[]){__VA_ARGS__}) / sizeof(MlirValue)), (MlirValue[]) { __VA_ARGS__ }

static MlirValue along(Fn *f, MlirValue x, NnType to, int64_t axis) { return nn_broadcast(&f->b, x, to, &axis); }

__attribute__((unused)) static MlirValue build(Fn *f, NnOp op, int n, const MlirValue *x, int n_attrs,
                                               const NnAttr *attrs, const NnType *asked, int result) {
  MlirOperation o = nn_build(&f->b, op, n, x, n_attrs, attrs, asked);
  if (mlirOperationIsNull(o)) {
    fprintf(stderr, "test_kernels: %s\n", f->b.error);
    exit(1);
  }
  return mlirOperationGetResult(o, result);
}

#endif
