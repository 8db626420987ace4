// Generated kernels against the interpreter: every kind of kernel, op and element type at sizes that are 1, prime, and
// not a multiple of any vector, for each vector width the machine has. Also: the order and the partition of the outer
// iterations change no bit, a result in an argument's buffer changes no bit, and nothing is written outside the
// results.
#include "codegen/kernel/translate.h"
#include "codegen/output.h"
#include "support/text.h"
#include "test/codegen/kernel_cases.c"

#include <dlfcn.h>
#include <unistd.h>

// Runs all launches; with `pieces` > 1 the outer iterations in that many parts, last part first.
static void run(const EmittedKernel *k, void *library, void *const *buffers, int pieces) {
  for (int l = 0; l < k->n_launches; l++) {
    void *symbol = dlsym(library, k->launches[l].symbol);
    assert(symbol);
    NncKernelFn fn;
    memcpy(&fn, &symbol, sizeof fn);
    int64_t extent = k->launches[l].extent;
    for (int part = pieces - 1; part >= 0; part--) fn(buffers, extent * part / pieces, extent * (part + 1) / pieces);
  }
}

static bool run_in_two(void *library, const EmittedKernel *k, const Run *r, void *const *buffers) {
  (void)r;
  run(k, library, buffers, 2);
  return true;
}

static void check_kernel(const EmittedKernel *k, MlirOperation func, void *library, const HostCpu *cpu) {
  Run r = run_new(func, k->workspace_bytes);
  int n = r.n_args + r.n_results + 1;
  if (k->workspace_bytes != host_kernel_workspace(func, cpu)) report(k, func, "two opinions on the workspace");
  run(k, library, (void *const *)r.memory, 1);
  compare_results(k, func, &r);
  for (int i = 0; i < r.n_results; i++) {
    int64_t bytes = nn_type_bytes(&r.expected[i].type);
    void *keep = malloc((size_t)bytes);
    memcpy(keep, r.memory[r.n_args + i], (size_t)bytes);
    run(k, library, (void *const *)r.memory, 3);
    if (memcmp(keep, r.memory[r.n_args + i], (size_t)bytes) != 0) report(k, func, "another result when cut into parts");
    free(keep);
  }
  if (!buffer_intact(r.memory[n - 1], k->workspace_bytes)) report(k, func, "writes outside the workspace");
  check_in_place(k, func, &r, run_in_two, library);
  run_free(&r);
}

static void check_cpu(MlirModule module, const char *cpu_name, const char *folder) {
  HostCpu cpu;
  bool known = host_cpu_detect(cpu_name, &cpu);
  assert(known);
  (void)known;
  EmittedKernels kernels;
  host_kernels_emit(module, &cpu, &kernels);
  Text text = {0};
  text_append(&text, kernels.declarations.data, kernels.declarations.size);
  for (int i = 0; i < kernels.n; i++) emitted_kernel_text(&kernels.items[i], &text);
  char *object = text_format("%s/kernels.o", folder), *shared = text_format("%s/kernels_%s.so", folder, cpu_name);
  char *command = text_format("cc -shared -o %s %s -lmvec -lm", shared, object);
  void *library = NULL;
  Text code = {0};
  if (host_lower(text.data, &cpu, 2, HOST_OBJECT, false, &code) && output_write(object, code.data, code.size) &&
      system(command) == 0)
    library = dlopen(shared, RTLD_NOW);
  text_free(&code);
  if (!library) {
    fprintf(stderr, "no code for %s: %s\n", cpu_name, dlerror());
    failures++;
  } else {
    int before = failures, i = 0;
    MlirBlock body = mlirModuleGetBody(module);
    NN_FOREACH_OP (op, body)
      if (nn_has_attr(op, "nn.kernel")) check_kernel(&kernels.items[i++], op, library, &cpu);
    printf("%s: %d kernels, %d vector bytes, %d failures\n", cpu_name, kernels.n, cpu.vector_bytes, failures - before);
    dlclose(library);
  }
  unlink(object);
  unlink(shared);
  free(object);
  free(shared);
  free(command);
  text_free(&text);
  emitted_kernels_free(&kernels);
  host_cpu_free(&cpu);
}

int main(int argc, char **argv) {
  char folder[] = "kernels-XXXXXX";
  if (!mkdtemp(folder)) {
    perror("mkdtemp");
    return 1;
  }
  char *path = realpath(folder, NULL);
  MlirContext ctx = nn_context_create();
  MlirModule module = argc > 1 ? read_module(ctx, argv[1]) : mlirModuleCreateEmpty(mlirLocationUnknownGet(ctx));
  if (argc <= 1) {
    build_float_cases(module, NN_F32);
    build_float_cases(module, NN_F64);
    build_narrow_cases(module, NN_BF16), build_few_cases(module, NN_BF16, 1, 37);
    build_narrow_cases(module, NN_F16), build_few_cases(module, NN_F16, 1, 37);
    build_integer_cases(module);
    check_coverage(module);
  }
  if (!nn_verify_module(module)) return 1;
  translate_initialize_x86();
  __builtin_cpu_init();
  check_cpu(module, "x86-64", path);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) check_cpu(module, "x86-64-v3", path);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) check_cpu(module, "x86-64-v4", path);
  mlirModuleDestroy(module);
  nn_context_destroy(ctx);
  rmdir(path);
  free(path);
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}
