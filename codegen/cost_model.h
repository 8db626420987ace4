// What one execution of a step is predicted to take: a roofline over a few rates of the machine. Only ratios between
// steps matter to the passes, and nothing here changes a result.
#ifndef NNC_CODEGEN_COST_MODEL_H
#define NNC_CODEGEN_COST_MODEL_H

#include "ir/ir.h"
#include "passes/passes.h"

// What makes the products of matrices.
typedef enum CostEngine {
  COST_OWN_RATE,     // at the rate of their operands' type: a library's, tensor cores'
  COST_TF32,         // f32 rounded to tf32 on tensor cores
  COST_TF32_PARTS,   // f32 as three products of tf32 parts
  COST_LOOPS,        // own loops on the units for element-wise work, in the type that sums have
} CostEngine;

// The arithmetic and the traffic of one execution.
typedef struct CostWork {
  CostClass class;
  double products;   // two for each multiply-add of matrix products
  CostEngine engine;
  NnDtype product_dtype;   // of their operands
  // the smallest of rows, columns and summed elements of (one of) the matrix products; 0: none
  int64_t smallest;
  double additions;   // all else: an exponential counts as many additions as it costs
  NnDtype dtype;      // of it: f64 where any operand is, else f32
  double bytes;       // read and written
  double copied;      // traffic besides, while no arithmetic runs
  double launches;    // less than 1: one that several steps share
  double serial;      // seconds that some thread has to wait for one access of memory after the other
} CostWork;

// What the processor that runs a kernel makes of it.
typedef struct CostRules {
  CostUnit unit;
  // row kernels: all levels find what they need in registers, or what they read in fast memory
  bool computes_once, reads_once;
  int n_joined;
  MlirValue joined[4];   // reductions whose level goes along with the one before
} CostRules;

// `kernel` is the function that a func.call calls, else null. One launch, engine COST_OWN_RATE: targets know better.
CostWork cost_work(MlirOperation op, MlirOperation kernel, const CostRules *rules);

// Seconds of one step; docs/targets.md has the formula. Read from a description file.
typedef struct Machine {
  double flops_per_second[NN_DTYPE_COUNT];      // peak: a fused multiply-add counts two; 0: as f32
  double tf32_flops_per_second;                 // 0: as f32
  double bytes_per_second;                      // of memory
  double cache_bytes, cache_bytes_per_second;   // steps whose operands and results fit in cache_bytes; 0: none
  double launch_seconds;
  // What joins ranks, in one direction of one rank: those of a machine, `ranks` of them, and machines; 0: not known.
  struct {
    double bytes_per_second, message_seconds;
  } node, network;
  int64_t node_ranks;
  NnFarRates far;   // zero: not known
  struct {
    double flops, bytes;   // share of the peaks that steps of this class reach
    // CostWork.smallest at which half of that is reached; 0: any size reaches it
    double half_size;
  } share[COST_CLASSES];
} Machine;
double machine_seconds(const Machine *machine, const CostWork *work);
// What an op that ranks exchange by takes besides, and the bytes that each rank sends; 0 for others.
double machine_exchange_seconds(const Machine *machine, MlirOperation op, int64_t ranks, double *bytes);

#endif
