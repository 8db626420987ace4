// Private to tables.c and tables_program.c.
#ifndef NNC_CODEGEN_HOST_TABLES_H
#define NNC_CODEGEN_HOST_TABLES_H

#include "codegen/host/host.h"
#include "passes/ptr_map.h"

// Arena offsets of a function's values.
typedef struct Offsets {
  PtrMap ids;          // MlirValue -> index into at
  int n, capacity;
  int64_t *at;         // Owned
} Offsets;

typedef struct KernelCost { bool known; double flops, seconds; } KernelCost;

// The arrays of program.c while they are written.
typedef struct Tables {
  MlirModule module;
  const HostKernels *kernels;
  KernelCost *costs;               // Owned; by kernel
  Text keys;                       // K<kernel>
  const CudaImages *cuda;          // Borrowed; NULL: for the host
  const Offsets *offsets;          // Borrowed, of the current function
  int n_buffers;  Text buffers, buffer_bytes;   // B, Z: all steps' buffers one after the other
  int n_records;  Text records;                 // C<i>: convolutions and matrix products
  int n_taps;     Text taps;                    // T
  int n_steps;    Text steps;                   // of the current function; S<function>
} Tables;

// NncData, NncGroup and nnc_program from the module's attributes.
void tables_add_program(Text *out, MlirModule module, const HostCpu *cpu, const CodegenOptions *options, const CudaImages *cuda, int n_functions, int n_persistent);

#endif
