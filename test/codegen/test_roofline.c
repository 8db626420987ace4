// Predicted times of ops and kernels, in four element types, on all machines of machines/, against a roofline of the
// test's own: what a step moves and multiplies at least, at the machine's peaks. No prediction is below it or more than
// ten times above it (on an H100, f64 aside, twice, with named exceptions), and none rises where elements have half the
// bytes. Of kernels all launches are paid.
#include <math.h>

#include "codegen/codegen.h"
#include "codegen/cuda/cuda.h"
#include "compiler/cost_files.h"
#include "support/text.h"
#include "test/codegen/roofline_cases.c"

enum { GPU_WAIT_NANOSECONDS = 500, LAUNCHES = 3 };

static struct {
  MlirOperation op;
  Least least;
} steps[COUNT(cases)][COUNT(types)];

static double larger(double a, double b) { return a > b ? a : b; }

static double product_rate(const Least *l, NnDtype t, const Machine *machine, bool gpu, bool tensor_cores) {
  double f32 = machine->flops_per_second[NN_F32], own = machine->flops_per_second[t];
  if (gpu && (l->maker == LOOPS || (l->maker == TILES && !tensor_cores))) return t == NN_F64 ? own : f32;
  if (gpu && l->maker == TILES && t == NN_F32) return machine->tf32_flops_per_second / 3;
  return own > 0 ? own : f32;
}

// Seconds at the machine's peaks.
static double least_seconds(const Least *l, NnDtype t, const Machine *machine, bool gpu, bool tensor_cores) {
  double rate = machine->flops_per_second[t == NN_F64 ? NN_F64 : NN_F32],
         bytes = l->elements * (double)nn_dtype_bytes(t) + l->bytes,
         bandwidth = bytes <= machine->cache_bytes ? machine->cache_bytes_per_second : machine->bytes_per_second;
  double products = l->products * (gpu && l->zeros > 0 ? l->zeros : 1) / product_rate(l, t, machine, gpu, tensor_cores),
         arithmetic = l->arithmetic * (!gpu && l->passes > 0 ? l->passes : 1) / rate,
         waits = gpu ? l->waits * GPU_WAIT_NANOSECONDS * 1e-9 : 0;
  return larger(waits, larger(products + arithmetic, bytes / bandwidth));
}

// How many times the least a step may cost on an H100 in f32, bf16 and f16, where that is more than twice.
static double most_on_h100(const char *name) {
  static const struct {
    const char *of;   // names that begin so
    double most;
  } dearer[] = {{"attention_grad", 6},   // seven products for five, fragments that are halves
                {"attention", 4},        // exponentials beside the products
                {"conv_stem", 3.5},      // three channels are padded to eight
                {"conv_", 3},            // tiles that are not whole
                {"map_pow", 3},        {"matmul_long", 2.5}, {"rank_receive", 2.5}};   // read, added, written
  for (int i = 0; i < COUNT(dearer); i++)
    if (!strncmp(name, dearer[i].of, strlen(dearer[i].of))) return dearer[i].most;
  return 2;
}

static void check_machine(CodegenTarget *codegen, const char *name, const Machine *machine, bool gpu,
                          bool tensor_cores) {
  const NnTarget *target = codegen_target_facts(codegen);
  codegen_target_set_machine(codegen, machine);
  for (int c = 0; c < COUNT(cases); c++) {
    double before = INFINITY;
    for (int t = 0; t < COUNT(types); t++) {
      MlirOperation joined = steps[c][t].least.joined;
      if (gpu && steps[c][t].least.host_only) continue;
      if (!mlirOperationIsNull(joined) && (!target->epilogue_ok || !target->epilogue_ok(target, joined))) continue;
      double seconds = target->seconds(target, steps[c][t].op),
             least = least_seconds(&steps[c][t].least, types[t], machine, gpu, tensor_cores),
             times = t > 0 && !strcmp(name, "h100") ? most_on_h100(cases[c].name) : 10,
             most = times * least + LAUNCHES * machine->launch_seconds;
      const char *fault = !(seconds >= least)             ? "less than it can take"
                          : seconds > most                ? "too many times what it must take"
                          : seconds > before * (1 + 1e-9) ? "more than with elements of twice the bytes"
                                                          : NULL;
      if (fault) {
        printf("%s, %s, %s: %.3g us, at least %.3g us: %s\n", name, cases[c].name, nn_dtype_name(types[t]),
               1e6 * seconds, 1e6 * least, fault);
        failures++;
      }
      if (t < 2) before = seconds;   // bf16 and f16 are held to f32
    }
  }
}

static Machine read_machine(const char *name) {
  Diagnostics *d = diag_create(stderr, DIAG_COLOR_NEVER, 0);
  Machine machine = {0};
  char *path = text_format(NNC_SOURCE_DIR "/machines/%s.json", name);
  if (!machine_read(d, path, &machine)) printf("%s cannot be read\n", path), failures++;
  free(path);
  diag_free(d);
  return machine;
}

static void check(const char *name, const char *arch, bool tensor_cores) {
  bool gpu = arch != NULL;
  CodegenTarget *target = codegen_target_create(
      &(CodegenTargetOptions){.name = gpu ? "cuda" : "host", .gpu_arch = arch});
  Machine machine = read_machine(name);
  check_machine(target, name, &machine, gpu, tensor_cores);
  codegen_target_destroy(target);
}

// On a machine on which launches alone take time, a kernel takes as long as what is emitted for it has launches.
static void check_launches(MlirContext ctx, NnDtype type) {
  CodegenTarget *codegen = codegen_target_create(&(CodegenTargetOptions){.name = "cuda", .gpu_arch = "sm_90a"});
  const NnTarget *target = codegen_target_facts(codegen);
  Machine machine = read_machine("h100");
  machine.launch_seconds = 1;
  codegen_target_set_machine(codegen, &machine);
  MlirModule module = mlirModuleCreateEmpty(mlirLocationUnknownGet(ctx));
  double seconds[COUNT(cases)] = {0};
  char *kernel[COUNT(cases)] = {NULL};
  for (int c = 0; c < COUNT(cases); c++) {
    Least least = {0};
    MlirOperation step = cases[c].build(module, type, &least);
    MlirAttribute callee = nn_attribute(step, "callee");
    if (!mlirOperationIsNull(least.joined)) {
      mlirOperationDestroy(least.joined);   // a kernel that not all types have
    } else if (!mlirAttributeIsNull(callee)) {
      seconds[c] = target->seconds(target, step);
      kernel[c] = copy_string(mlirFlatSymbolRefAttrGetValue(callee).data);
    }
    mlirOperationDestroy(mlirOperationGetParentOperation(step));   // no plan says where its buffers are
  }
  EmittedKernels kernels;
  cuda_kernels_emit(cuda_target(target), module, &kernels);
  int several = 0;
  for (int c = 0; c < COUNT(cases); c++) {
    const EmittedKernel *k = kernel[c] ? emitted_kernel_find(&kernels, kernel[c]) : NULL;
    int n = k ? k->n_launches : 0;
    several += n > 1;
    if (floor(seconds[c]) != n) {
      printf("%s, %s: %d launches, %.3g are paid\n", cases[c].name, nn_dtype_name(type), n, seconds[c]);
      failures++;
    }
    free(kernel[c]);
  }
  if (!several) printf("no kernel of %s has more than one launch\n", nn_dtype_name(type)), failures++;
  emitted_kernels_free(&kernels);
  mlirModuleDestroy(module);
  codegen_target_destroy(codegen);
}

// Updates that differ in nothing but their sizes become one launch: each of eight pays an eighth of it.
static void check_groups(MlirModule module, const NnTarget *target, double launch) {
  enum { UPDATES = 8 };
  Fn kernel = fn_begin(module);
  NnType type = SHAPE(NN_F32, 256);
  MlirValue x = arg(&kernel, type);
  finish(&kernel, "map", type, 0, NULL, RESULTS(nn_binary(&kernel.b, NN_OP_add, x, x)));
  MlirOperation first = call(&kernel);
  nn_set_attr(first, &NN_STR("nn.phase", "update"));
  double alone = target->seconds(target, first);
  for (int i = 1; i < UPDATES; i++)
    mlirBlockAppendOwnedOperation(mlirOperationGetBlock(first), mlirOperationClone(first));
  double shared = target->seconds(target, first);
  if (alone > launch && fabs(alone - shared - launch * (UPDATES - 1) / UPDATES) < 1e-12) return;
  printf("an update alone %.3g us, one of %d %.3g us\n", 1e6 * alone, UPDATES, 1e6 * shared);
  failures++;
}

// Every op that runs stands in some step; composites and marks do not run, a reshape and a barrier are other names for
// their operand.
static MlirWalkResult note_op(MlirOperation op, void *seen) {
  if (nn_op_of(op) != NN_OP_NONE) ((bool *)seen)[nn_op_of(op)] = true;
  return MlirWalkResultAdvance;
}

static void check_coverage(MlirModule module) {
  bool seen[NN_OP_COUNT] = {[NN_OP_reshape] = true, [NN_OP_optimization_barrier] = true};
  mlirOperationWalk(mlirModuleGetOperation(module), note_op, seen, MlirWalkPreOrder);
  for (int op = 0; op < NN_OP_COUNT; op++) {
    NnOpKind kind = nn_op_info((NnOp)op)->kind;
    if (seen[op] || kind == NN_KIND_COMPOSITE || kind == NN_KIND_MARK) continue;
    printf("no step for %s\n", nn_op_info((NnOp)op)->name);
    failures++;
  }
}

int main(void) {
  MlirContext ctx = nn_context_create();
  MlirModule module = mlirModuleCreateEmpty(mlirLocationUnknownGet(ctx));
  for (int c = 0; c < COUNT(cases); c++)
    for (int t = 0; t < COUNT(types); t++) steps[c][t].op = cases[c].build(module, types[t], &steps[c][t].least);
  check_coverage(module);
  check("h100", "sm_90a", true);
  CodegenTarget *target = codegen_target_create(&(CodegenTargetOptions){.name = "cuda", .gpu_arch = "sm_90a"});
  check_groups(module, codegen_target_facts(target), 3e-6);
  for (int t = 0; t < COUNT(types); t++) check_launches(ctx, types[t]);
  codegen_target_destroy(target);
  check("h200", "sm_90a", true);
  check("a100", "sm_80", true);
  check("rtx4090", "sm_89", true);
  check("rtx2080ti", "sm_75", false);
  check("xeon-avx512-2core", NULL, false);
  mlirModuleDestroy(module);
  nn_context_destroy(ctx);
  printf("%d steps in %d types on 6 machines, %d failures\n", COUNT(cases), COUNT(types), failures);
  return failures > 0;
}
