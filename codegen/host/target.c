// The host as the passes see it: costs, scratch, which results may lie in an argument's buffer.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cost_model.h"
#include "codegen/host/host.h"
#include "codegen/kernel/kernel.h"
#include "codegen/op_records.h"
#include "codegen/target.h"
#include "runtime/library.h"

// The machine that is assumed where no description is given, per core: a server core with AVX-512 at 3.2 GHz. Peaks
// scale with the width of its vectors and the number of threads. Peaks are measured, shares fitted by hand to measured
// kernels, the cache assumed (machines/xeon-avx512-2core.json).
#define CYCLES_PER_SECOND 3.2e9
#define BYTES_PER_SECOND 20e9
#define CACHE_BYTES 1.0e6
#define CACHE_BYTES_PER_SECOND 40e9

static const Machine generic = {
    .launch_seconds = 2e-6,
    .share = {[COST_matmul] = {0.75, 0.8, 64},
              [COST_conv] = {0.95, 0.8, 16},
              [COST_elementwise] = {0.25, 1, 0},
              [COST_reduction] = {0.25, 1, 0},
              [COST_move] = {0.1, 0.5, 0}},
};

// The passes call back without a context, so the one processor of this process lives here.
static HostCpu cpu;

static int64_t workspace_bytes(MlirOperation op) {
  if (nn_op_of(op) != NN_OP_NONE) return host_library_scratch(op);
  if (!nn_is(op, "func.call")) return 0;
  MlirOperation func = target_callee(op);
  return mlirOperationIsNull(func) || !nn_has_attr(func, "nn.kernel") || nn_has_attr(func, "nn.body")
             ? 0
             : host_kernel_workspace(func, &cpu);
}

// Of a convolution's weights the bytes are copied as often: they are brought into the library's layout in each call, in
// short pieces. A depthwise one is no product of tiles; rows of a kernel that are read again are in the cache.
static CostWork work(MlirOperation op, MlirOperation kernel) {
  enum { REORDER = 8 };
  CostWork w = cost_work(op, kernel, &(CostRules){.unit = COST_CPU, .reads_once = true});
  NncConv c;
  if (mlirOperationIsNull(kernel) && op_conv_record(op, &c)) {
    w.copied = (double)(REORDER * c.o * (c.c / c.groups) * c.kh * c.kw * nn_dtype_bytes((NnDtype)c.dtype));
    if (c.groups == c.c && c.groups > 1) w.engine = COST_LOOPS;
  }
  return w;
}

static const char *library_isa(const HostCpu *c) {
  return c->vector_bytes == 64 ? "avx512_core" : c->vector_bytes == 32 ? "avx2" : "sse41";
}

// A product of so many rows takes some hundred times as long as reading and writing its weights' gradient (1.5 Tflop/s
// and 50 GB/s: 30 flops a byte).
enum { LOSS_ROWS = 1024 };

const NnTarget *nn_target_host(const char *name) {
  HostCpu wanted;
  if (!host_cpu_detect(name, &wanted)) {
    fprintf(stderr, "nnc: error: unknown CPU '%s'\n", name);
    return NULL;
  }
  // A CPU named on the command line limits the library too, so that the scratch in the plan is what that machine needs.
  bool native = !name || !strcmp(name, "native");
  if (!native && !nnc_library_set_isa(library_isa(&wanted))) {
    fprintf(stderr,
            "nnc: error: cannot plan for CPU '%s' here: oneDNN's scratch sizes for %s are not known on this machine\n",
            name, library_isa(&wanted));
    host_cpu_free(&wanted);
    return NULL;
  }
  host_cpu_free(&cpu);
  cpu = wanted;
  double cores = nnc_library_threads();
  Machine machine = generic;
  // two fused multiply-adds of vector_bytes / 4 lanes
  machine.flops_per_second[NN_F32] = cores * CYCLES_PER_SECOND * cpu.vector_bytes;
  machine.flops_per_second[NN_F64] = machine.flops_per_second[NN_F32] / 2;
  machine.bytes_per_second = cores * BYTES_PER_SECOND;
  machine.cache_bytes = cores * CACHE_BYTES;
  machine.cache_bytes_per_second = cores * CACHE_BYTES_PER_SECOND;
  return target_set("host", &machine, work, workspace_bytes, kernel_inplace_ok, NULL, false, 0, LOSS_ROWS);
}
