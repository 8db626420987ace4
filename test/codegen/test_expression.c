// The texts of kernels, evaluated by the runtime, against the interpreter: every kernel of several operations that the
// tests of generated code have.
#include "codegen/tables.h"
#include "runtime/expression.h"
#include "test/codegen/kernel_cases.c"

// False: the kernel has no text.
static bool check_kernel(MlirOperation func) {
  Text text = {0};
  bool told = tables_expression(func, &text);
  Kernel kernel;
  kernel_read(func, &kernel);
  EmittedKernel k = {.name = kernel.name, .summary = kernel_summary(&kernel)};
  Expression x;
  if (told && !expression_read(&x, text_c_string(&text))) {
    report(&k, func, "a text that the runtime cannot read");
  } else if (told) {
    Run r = run_new(func, 0);
    assert(x.n_arguments == r.n_args && x.n_results == r.n_results);
    for (int i = 0; i < r.n_args; i++) {
      x.arguments[i] = r.memory[i];
      assert(expression_argument_bytes(&x, i) == nn_type_bytes(&r.args[i].type));
    }
    for (int i = 0; i < r.n_results; i++) {
      Tensor t = tensor_create(r.expected[i].type);
      for (int64_t j = 0; j < nn_type_elements(&t.type); j++) t.data[j] = expression_value(&x, i, j);
      to_memory(&t, r.memory[r.n_args + i]);
      tensor_free(&t);
    }
    compare_results(&k, func, &r);
    run_free(&r);
    expression_free(&x);
  }
  text_free(&text);
  free(k.summary);
  kernel_free(&kernel);
  return told;
}

int main(void) {
  (void)check_in_place;   // of generated code only
  MlirContext ctx = nn_context_create();
  MlirModule module = mlirModuleCreateEmpty(mlirLocationUnknownGet(ctx));
  build_float_cases(module, NN_F32);
  build_float_cases(module, NN_F64);
  build_narrow_cases(module, NN_BF16);
  build_narrow_cases(module, NN_F16);
  build_integer_cases(module);
  int told = 0, all = 0;
  MlirBlock body = mlirModuleGetBody(module);
  NN_FOREACH_OP (op, body)
    if (nn_has_attr(op, "nn.kernel")) all++, told += check_kernel(op);
  mlirModuleDestroy(module);
  nn_context_destroy(ctx);
  printf("%d of %d kernels, %d failures\n", told, all, failures);
  return failures != 0 || told < all / 3;
}
