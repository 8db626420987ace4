// The host as the passes see it: costs, scratch, which results may lie in an argument's buffer.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cost_model.h"
#include "codegen/host/host.h"
#include "codegen/kernel/kernel.h"
#include "codegen/kernel/translate.h"
#include "codegen/op_records.h"
#include "codegen/target.h"
#include "runtime/fourier.h"
#include "runtime/library.h"
#include "support/alloc.h"

// The machine that is assumed where no description is given, per core: a server core with AVX-512 at 3.2 GHz. Peaks
// scale with the width of its vectors and the number of threads. Peaks are measured, shares fitted by hand to measured
// kernels, the cache assumed (machines/xeon-avx512-2core.json). Of AMX the rate is that of products whose operands come
// from the first cache, while another thread shares the core (docs/performance.md).
#define CYCLES_PER_SECOND 3.2e9
#define AMX_FLOPS_PER_CYCLE 200
#define BYTES_PER_SECOND 20e9
#define CACHE_BYTES 1.0e6
#define CACHE_BYTES_PER_SECOND 40e9

static const Machine generic = {
    .launch_seconds = 2e-6,
    .far = {1e9, 1e9, 1e-4, 5e-11},   // a file on a disk, past the page cache; another core does half of the copying
    .share = {[COST_matmul] = {0.75, 0.8, 64},
              [COST_conv] = {0.95, 0.8, 16},
              [COST_elementwise] = {0.25, 1, 0},
              [COST_reduction] = {0.25, 1, 0},
              [COST_move] = {0.1, 0.5, 0}},
};

// Operators new and delete, with and without a size, of what is linked with an executable. In a process of others,
// which a library is loaded into, they stay as they are.
// Exported by name: whether a linker sees that oneDNN calls them depends on what it reads of oneDNN's own libraries.
static const char kept_blocks[] = "-Wl,-u,nnc_operator_new,--defsym=_Znwm=nnc_operator_new,"
                                  "--defsym=_ZdlPv=nnc_operator_delete,--defsym=_ZdlPvm=nnc_operator_delete,"
                                  "--export-dynamic-symbol=_Znwm,--export-dynamic-symbol=_ZdlPv,"
                                  "--export-dynamic-symbol=_ZdlPvm";

static const char *library_isa(const HostCpu *c) {
  return c->vector_bytes == 64 ? "avx512_core" : c->vector_bytes == 32 ? "avx2" : "sse41";
}

// A product of so many rows takes some hundred times as long as reading and writing its weights' gradient (1.5 Tflop/s
// and 50 GB/s: 30 flops a byte).
enum { LOSS_ROWS = 1024 };

// Of a convolution's weights the bytes are copied as often: they are brought into the library's layout in each call, in
// short pieces. A depthwise one is no product of tiles; rows of a kernel that are read again are in the cache.
static CostWork work(const CodegenTarget *target, MlirOperation op, MlirOperation kernel) {
  (void)target;
  enum { REORDER = 8 };
  CostWork w = cost_work(op, kernel, &(CostRules){.unit = COST_CPU, .reads_once = true});
  if (!mlirOperationIsNull(kernel)) return w;
  OpRecord r = op_record(op);
  if (r.kind == NNC_STEP_ATTENTION) w.product_dtype = nn_dtype_wide(w.product_dtype);   // tile by tile
  if (r.kind == NNC_STEP_CONV) {
    const NncConv *c = &r.conv;
    w.copied = (double)(REORDER * c->o * (c->c / c->groups) * nnc_conv_sizes(c).kernel *
                        nn_dtype_bytes((NnDtype)c->dtype));
    if (c->groups == c->c && c->groups > 1) w.engine = COST_LOOPS;
  }
  return w;
}

typedef struct HostTarget {
  CodegenTarget base;
  HostCpu cpu;
} HostTarget;

static const HostCpu *cpu_of(const CodegenTarget *target) { return &((const HostTarget *)target)->cpu; }

static void emit_kernels(const CodegenTarget *target, MlirModule module, EmittedKernels *out) {
  host_kernels_emit(module, cpu_of(target), out);
}

static int64_t library_workspace(const CodegenTarget *target, MlirOperation op) {
  (void)target;
  return host_library_scratch(op);
}

static bool packs_once(const NnTarget *target, MlirOperation op) {
  (void)target;
  OpRecord r = op_record(op);
  return r.kind == NNC_STEP_MATMUL && nnc_matmul_packs_once(&r.matmul);
}

static char *library_kernel(const CodegenTarget *target, MlirOperation op) {
  (void)target, (void)op;
  return NULL;
}

static int64_t kernel_workspace(const CodegenTarget *target, MlirOperation kernel) {
  return host_kernel_workspace(kernel, cpu_of(target));
}

static bool lower_text(const CodegenTarget *target, const EmittedKernels *kernels, CodegenEmit what,
                       const CodegenOptions *options, Text *out) {
  Text text = {0};
  emitted_kernels_text(kernels, &text);
  translate_initialize_x86();
  bool ok = host_lower(text_c_string(&text), cpu_of(target), options->opt_level,
                       what == CODEGEN_LLVM ? HOST_LLVM : HOST_ASM, options->time_phases, out);
  text_free(&text);
  return ok;
}

static bool lower_objects(const CodegenTarget *target, const EmittedKernels *kernels, const CodegenOptions *options,
                          const char *folder, TargetObjects *out) {
  return host_lower_objects(kernels, cpu_of(target), options, folder, out);
}

static void write_definitions(const CodegenTarget *target, Text *out) { (void)target, (void)out; }

static void write_cpu(const CodegenTarget *target, Text *out) { text_quoted(out, cpu_of(target)->name); }

static MlirWalkResult find_bf16(MlirOperation op, void *found) {
  NnOp kind = nn_op_of(op);
  if (kind == NN_OP_NONE || nn_op_info(kind)->kind != NN_KIND_LIBRARY ||
      nn_value_dtype(mlirOperationGetOperand(op, 0)) != NN_BF16)
    return MlirWalkResultAdvance;
  *(bool *)found = true;
  return MlirWalkResultInterrupt;
}

// What the library must be able to do on the machine that runs the program: for products of f32 no more than
// avx512_core.
static const char *needed_isa(MlirModule module) {
  const char *isa = nnc_library_isa();
  bool bf16 = false;
  mlirOperationWalk(mlirModuleGetOperation(module), find_bf16, &bf16, MlirWalkPreOrder);
  return !bf16 && !strncmp(isa, "avx512_core", 11) ? "avx512_core" : isa;
}

static void write_device(const CodegenTarget *target, MlirModule module, Text *out) {
  (void)target;
  text_add(out, ",.isa=\"%s\",.device=&nnc_device_host,.threads=%d,\n", needed_isa(module), nnc_library_threads());
}

static void destroy(CodegenTarget *target) {
  host_cpu_free(&((HostTarget *)target)->cpu);
  free(target);
}

static const CodegenTarget functions = {
    .emit_kernels = emit_kernels,
    .library_workspace = library_workspace,
    .library_kernel = library_kernel,
    .kernel_workspace = kernel_workspace,
    .work = work,
    .lower_text = lower_text,
    .lower_objects = lower_objects,
    .write_definitions = write_definitions,
    .write_cpu = write_cpu,
    .write_device = write_device,
    .destroy = destroy,
};

static bool fourier_ok(int64_t length, NnDtype dtype) { return fourier_fits(length, (NncDtype)dtype); }

CodegenTarget *codegen_target_host(const CodegenTargetOptions *options) {
  HostCpu cpu;
  const char *name = options->cpu;
  if (!host_cpu_detect(name, &cpu)) {
    fprintf(stderr, "nnc: error: unknown CPU '%s'\n", name);
    return NULL;
  }
  // A CPU named on the command line limits the library too, so that the scratch in the plan is what that machine needs.
  bool native = !name || !strcmp(name, "native");
  if (!native && !nnc_library_set_isa(library_isa(&cpu))) {
    fprintf(stderr,
            "nnc: error: cannot plan for CPU '%s' here: oneDNN's scratch sizes for %s are not known on this machine\n",
            name, library_isa(&cpu));
    host_cpu_free(&cpu);
    return NULL;
  }
  double cores = nnc_library_threads();
  Machine machine = generic;
  // two fused multiply-adds of vector_bytes / 4 lanes
  machine.flops_per_second[NN_F32] = cores * CYCLES_PER_SECOND * cpu.vector_bytes;
  machine.flops_per_second[NN_F64] = machine.flops_per_second[NN_F32] / 2;
  if (nnc_library_has_amx()) machine.flops_per_second[NN_BF16] = cores * CYCLES_PER_SECOND * AMX_FLOPS_PER_CYCLE;
  machine.bytes_per_second = cores * BYTES_PER_SECOND;
  machine.cache_bytes = cores * CACHE_BYTES;
  machine.cache_bytes_per_second = cores * CACHE_BYTES_PER_SECOND;
  HostTarget *target = allocate_array(1, sizeof *target);
  *target = (HostTarget){.base = functions, .cpu = cpu};
  target->base.flags = kept_blocks;
  target->base.facts.far_place = "file:PATH";
  target->base.facts.loss_rows = LOSS_ROWS;
  target->base.facts.convolves_volumes = true;
  target->base.facts.fourier_ok = fourier_ok;
  target->base.facts.packs_once = options->saves_memory ? NULL : packs_once;
  target_initialize(&target->base, "host", &machine);
  return &target->base;
}
