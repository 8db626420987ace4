// The host as the passes see it: costs, scratch, which results may lie in an argument's buffer.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/host/host.h"
#include "runtime/library.h"

// Per core, rounded from measurements on a 2 GHz AVX-512 server core: only ratios matter to the passes.
#define CYCLES_PER_SECOND 1.8e9
#define BYTES_PER_SECOND 10e9
#define LAUNCH_SECONDS 3e-6
#define ELEMENTWISE_SHARE 0.1   // of peak FLOP/s that maps and reductions reach

// The passes call back without a context, so the one target of this process lives here.
static HostCpu cpu;
static NnTarget target;

static MlirOperation callee(MlirOperation call) {
  MlirOperation top = call;
  for (MlirOperation up = call; !mlirOperationIsNull(up); up = mlirOperationGetParentOperation(up)) top = up;
  MlirAttribute name = mlirOperationGetAttributeByName(call, mlirStringRefCreateFromCString("callee"));
  MlirStringRef wanted = mlirFlatSymbolRefAttrGetValue(name);
  MlirBlock body = mlirRegionGetFirstBlock(mlirOperationGetRegion(top, 0));
  for (MlirOperation op = mlirBlockGetFirstOperation(body); !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    if (!nn_is(op, "func.func")) continue;
    MlirAttribute symbol = mlirOperationGetAttributeByName(op, mlirStringRefCreateFromCString("sym_name"));
    if (mlirStringRefEqual(mlirStringAttrGetValue(symbol), wanted)) return op;
  }
  return nn_null_operation();
}

static int64_t workspace_bytes(MlirOperation op) {
  if (nn_op_of(op) != NN_OP_NONE) return host_library_scratch(op);
  if (!nn_is(op, "func.call")) return 0;
  MlirOperation func = callee(op);
  return mlirOperationIsNull(func) || !nn_has_attr(func, "nn.kernel") ? 0 : host_kernel_workspace(func, &cpu);
}

static double seconds(const NnTarget *t, MlirOperation op) {
  NnOp kind = nn_op_of(op);
  bool library = kind != NN_OP_NONE && nn_op_info(kind)->kind == NN_KIND_LIBRARY;
  double compute = nn_op_flops(op) / (t->flops_per_second * (library ? 0.85 : ELEMENTWISE_SHARE)), memory = nn_op_bytes(op) / t->bytes_per_second;
  return t->launch_seconds + (compute > memory ? compute : memory);
}

static const char *library_isa(const HostCpu *c) { return c->vector_bytes == 64 ? "avx512_core" : c->vector_bytes == 32 ? "avx2" : "sse41"; }

const NnTarget *nn_target_host(const char *name) {
  HostCpu wanted;
  if (!host_cpu_detect(name, &wanted)) {
    fprintf(stderr, "nnc: error: unknown CPU '%s'\n", name);
    return NULL;
  }
  // A CPU named on the command line limits the library too, so that the scratch in the plan is what that machine needs.
  bool native = !name || !strcmp(name, "native");
  if (!native && !nnc_library_set_isa(library_isa(&wanted))) {
    fprintf(stderr, "nnc: error: cannot plan for CPU '%s' here: oneDNN's scratch sizes for %s are not known on this machine\n", name, library_isa(&wanted));
    host_cpu_free(&wanted);
    return NULL;
  }
  host_cpu_free(&cpu);
  cpu = wanted;
  double cores = nnc_library_threads();
  target = (NnTarget){.name = "host", .alignment = NNC_ALIGN, .flops_per_second = cores * CYCLES_PER_SECOND * cpu.vector_bytes, .bytes_per_second = cores * BYTES_PER_SECOND,
                      .launch_seconds = LAUNCH_SECONDS, .workspace_bytes = workspace_bytes, .seconds = seconds, .channels_last = true,
                      .inplace_ok = host_kernel_inplace_ok};
  return &target;
}
