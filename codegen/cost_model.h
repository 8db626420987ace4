// What one execution of a step is predicted to take: a roofline over a few rates of the machine. Only ratios between
// steps matter to the passes, and nothing here changes a result.
#ifndef NNC_CODEGEN_COST_MODEL_H
#define NNC_CODEGEN_COST_MODEL_H

#include "ir/ir.h"

// The arithmetic and the traffic of one execution.
typedef struct CostWork {
  CostClass class;
  NnDtype dtype;   // of the arithmetic: f64 where any operand is, else f32
  double flops;    // kernels: an addition counts 1, an exponential as many additions as it costs
  double bytes;    // read and written
  double copied;   // traffic besides, while no arithmetic runs
  // matmul, conv: the smallest of rows, columns and summed elements of (one of) the matrix products; 0: none
  int64_t smallest;
} CostWork;
// `kernel` is the function that a func.call calls, else null.
CostWork cost_work(MlirOperation op, MlirOperation kernel);

// Seconds of one step = launch + max(flops / (peak * share), bytes / (bandwidth * share)) + copied / bandwidth. Read
// from a description file (docs/targets.md).
typedef struct Machine {
  double flops_per_second[NN_DTYPE_COUNT];   // peak: a fused multiply-add counts two; 0: as f32
  // of matrix products and convolutions of f32 operands with --math=tf32; 0: as f32
  double tf32_flops_per_second;
  double bytes_per_second;                      // of memory
  double cache_bytes, cache_bytes_per_second;   // steps whose operands and results fit in cache_bytes; 0: none
  double launch_seconds;
  struct {
    double flops, bytes;   // share of the peaks that steps of this class reach
    // CostWork.smallest at which half of that is reached; 0: any size reaches it
    double half_size;
  } share[COST_CLASSES];
} Machine;
double machine_seconds(const Machine *machine, const CostWork *work);

#endif
