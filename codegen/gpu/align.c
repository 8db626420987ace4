// Which buffers of a kernel begin at multiples of 16 bytes in all of its calls: wide accesses need to know. The plan's
// buffers begin at multiples of 64, but an argument may be a slice of one, at any element, a row of what a loop goes
// over, and a result may lie in either. Requires: the plan.
#include <stdlib.h>

#include "codegen/gpu/schedule.h"
#include "codegen/offsets.h"
#include "codegen/target.h"
#include "support/alloc.h"

enum { WIDE = 16 };

typedef struct Odd {
  const void *kernel;   // its func.func
  int buffer;           // its arguments, then results
} Odd;

struct GpuAlignment {
  int n;
  Odd *odd;   // Owned; buffers that some call has elsewhere
};

// In every iteration of the loops around.
static bool is_wide(const ScanPlace *place, int64_t offset) {
  bool wide = true;
  for (int64_t stride; place; place = place->around) {
    offset = scan_place(place, offset, &stride);
    wide = wide && stride % WIDE == 0;
  }
  return wide && offset % WIDE == 0;
}

static void add_call(GpuAlignment *a, const Offsets *offsets, const ScanPlace *place, MlirOperation call) {
  int n_operands = (int)mlirOperationGetNumOperands(call), n_results = (int)mlirOperationGetNumResults(call);
  const void *kernel = NULL;
  for (int i = 0; i < n_operands + n_results; i++) {
    MlirValue v = i < n_operands ? mlirOperationGetOperand(call, i)
                                 : mlirOperationGetResult(call, (intptr_t)i - n_operands);
    if (is_wide(place, offsets_of(offsets, v))) continue;
    if (!kernel) kernel = nn_callee(call).ptr;
    *ARRAY_ADD(a->odd, a->n) = (Odd){kernel, i};
  }
}

static void add_function(GpuAlignment *a, MlirOperation func, const ScanPlace *around) {
  NnStepList steps = nn_flatten(func);
  Offsets offsets = {0};
  offsets_build(&offsets, func, &steps);
  for (int i = 0; i < steps.n; i++) {
    NnScan scan;
    MlirOperation op = steps.items[i].op;
    if (steps.items[i].role != NN_STEP_RUN || !nn_is(op, "func.call")) continue;
    if (!nn_scan_of(op, &scan)) {
      add_call(a, &offsets, around, op);
      continue;
    }
    ScanPlace place = scan_place_create(&offsets, around, &scan, op);
    add_function(a, scan.body, &place);
    scan_place_free(&place);
  }
  offsets_free(&offsets);
  nn_steps_free(&steps);
}

GpuAlignment *gpu_alignment_build(MlirModule module) {
  GpuAlignment *a = allocate_array(1, sizeof *a);
  NnFunctions functions = nn_public_functions(module);
  *a = (GpuAlignment){0};
  for (int i = 0; i < functions.n; i++) add_function(a, functions.items[i], NULL);
  return a;
}

bool *gpu_aligned_buffers(const GpuAlignment *a, MlirOperation kernel, int n) {
  bool *aligned = allocate_array((size_t)n, sizeof *aligned);
  for (int i = 0; i < n; i++) aligned[i] = true;
  for (int i = 0; i < a->n; i++)
    if (a->odd[i].kernel == kernel.ptr) aligned[a->odd[i].buffer] = false;
  return aligned;
}

void gpu_alignment_free(GpuAlignment *a) {
  free(a->odd);
  free(a);
}
