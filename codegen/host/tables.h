// Private to tables*.c and to what needs the arena offsets of values (codegen/cuda/group.c).
#ifndef NNC_CODEGEN_HOST_TABLES_H
#define NNC_CODEGEN_HOST_TABLES_H

#include "codegen/host/host.h"
#include "passes/plan/plan.h"
#include "passes/ptr_map.h"
#include "support/text.h"

// Arena offsets of a function's values.
typedef struct Offsets {
  PtrMap ids;   // MlirValue -> index into at
  int n, capacity;
  int64_t *at;   // Owned
} Offsets;

typedef struct KernelCost {
  bool known;
  double flops, seconds;
} KernelCost;

// The arrays of program.c while they are written.
typedef struct Tables {
  MlirModule module;
  const EmittedKernels *kernels;
  KernelCost *costs;        // Owned; by kernel
  Text keys;                // K<kernel>
  const CudaImages *cuda;   // Borrowed; NULL: for the host
  const Offsets *offsets;   // Borrowed, of the current function
  int n_buffers;
  Text buffers, buffer_bytes;   // B, Z: all steps' buffers one after the other; the bytes of int64_t
  PtrMap launch_ids;
  int n_launches;
  Text launches;   // G: launches, which many steps share
  PtrMap record_ids;
  // C<i>, CL<i>, CK<i>: convolutions, matrix products, attention, which many steps share
  int n_records;
  Text records;
  int n_taps;
  Text taps;   // T
  int n_steps;
  Text steps;   // of the current function; S<function>
  int n_scans;
  Text scans;   // Q<i>: the loops, with their steps and strides
  // D: how the buffers inside of scans move, as B but `depth` numbers each: the most loops around a step
  int depth;
  Text strides;
  Text stride_rows;                // pointers into D, one per step of the current scan
  const struct ScanPlace *place;   // of the scan whose step is being written; NULL: none
} Tables;

// Where the buffers of one step of a scan really are (tables_scan.c): offsets in the plan of the function that calls
// it, which may be the step of another scan.
typedef struct ScanPlace {
  const struct ScanPlace *around;   // Borrowed; of that other scan, NULL: none
  int64_t workspace;                // offset of what is the step's own
  int64_t arena;                    // bytes of that; the offsets of arguments begin here
  int n;
  int64_t *from, *bytes;   // Owned; by argument: its offset in the body's plan, its size
  int64_t *to, *stride;    // Owned; its offset in the first iteration, and how it moves
} ScanPlace;
// Of a scan that is called where values have these offsets, in the step of the scan `around` or, NULL, in a function.
// Owned: scan_place_free.
ScanPlace scan_place_create(const Offsets *offsets, const ScanPlace *around, const NnScan *s, MlirOperation call);
void scan_place_free(ScanPlace *p);
// Where byte `offset` of the body's plan is in that of the caller; *stride 0 or how it moves.
int64_t scan_place(const ScanPlace *p, int64_t offset, int64_t *stride);
// The most scans inside of each other in a function.
int scan_depth(MlirOperation func);

// What every step has; label and cost_key are expressions of C, NULL: none.
typedef struct StepHead {
  const char *kind, *label;
  int n_buffers, first;   // of w->buffers
  int64_t workspace;
  double flops, bytes, seconds;
  bool recomputed;
  const char *cost_key;
} StepHead;
// Writes it; what the kind has of its own and "}," follow.
void tables_begin_step(Tables *w, const StepHead *h);

// Steps (tables.c): one op of a function, and the number of buffers written so far.
void tables_add_step(Tables *w, const NnStep *s);
void tables_add_copy(Tables *w, int64_t from, int64_t to, int64_t bytes);
int64_t tables_offset(const Tables *w, MlirValue v);
// arena offset, in the first iteration of the loops around; -1: none
int64_t tables_workspace(const Tables *w, MlirOperation op);
// the step that stands last in w->steps, which begins with buffer `first`, is complete
void tables_end_step(Tables *w, int first);
void tables_offsets_build(Offsets *o, MlirOperation func, const NnStepList *steps);
void tables_offsets_free(Offsets *o);
int64_t tables_offset_of(const Offsets *o, MlirValue v);
// The call of a scan: copies of the initial values, then the loop.
void tables_add_scan(Tables *w, const NnStep *s, const NnScan *scan);

// NncData, NncGroup and nnc_program from the module's attributes.
void tables_add_program(Text *out, MlirModule module, const HostCpu *cpu, const CodegenOptions *options,
                        const CudaImages *cuda, int n_functions, int n_persistent);

#endif
