// program.c: the step tables of a program, whatever its target. The second half is private to tables*.c.
#ifndef NNC_CODEGEN_HOST_TABLES_H
#define NNC_CODEGEN_HOST_TABLES_H

#include "codegen/kernel/groups.h"
#include "codegen/offsets.h"
#include "codegen/target.h"
#include "passes/plan/plan.h"
#include "support/ptr_map.h"
#include "support/text.h"

// program.c: the step tables. folder: where the long arrays of numbers go, for program.c to include; NULL: they are
// part of the text. False after reporting that a file cannot be written.
bool tables_write(const CodegenTarget *target, MlirModule module, const EmittedKernels *kernels,
                  const CodegenOptions *options, const char *folder, Text *out);

typedef struct KernelCost {
  bool known;
  int expression;   // its number, 0: none
  double flops, seconds;
} KernelCost;

// The lanes of the current function's steps while they are written.
typedef struct TableLanes {
  int n;                         // steps of the plan so far
  NnLane *lane_of;               // Owned; NULL: all is on lane compute
  int *last;                     // Owned; the last step of the table of its lane when each was written, -1: none
  int n_settled;                 // so many of `last` tell of all that stands before on their lane, too
  LaneClock settled;             // the last of those of each lane
  PtrMap of_op;                  // op -> step of the plan
  NnLane lane;                   // of the step at hand
  LaneClock waiting[NN_LANES];   // steps of the table that the next one of each lane waits for
  LaneClock end;                 // the last step of the table of each lane
  int n_after;
  LaneClock *after;            // Owned; of each step of the table: who is over when it is
  LaneClock known[NN_LANES];   // the same of the last one of each lane
} TableLanes;

// The arrays of program.c while they are written.
typedef struct Tables {
  const CodegenTarget *target;   // Borrowed
  const EmittedKernels *kernels;
  KernelCost *costs;        // Owned; by kernel
  Text keys;                // K<kernel>
  const Offsets *offsets;   // Borrowed, of the current function
  int n_buffers;
  // B, Z, V: all steps' buffers one after the other, their bytes, what they hold (program.h); the bytes of int64_t
  Text buffers, buffer_bytes, buffer_values;
  int n_places;
  PtrMap place_ids;   // of locations and of texts: P<i>, in records, places in the source
  int n_expressions;
  PtrMap expression_ids;   // of kernels and of texts: their number from 1; 0: none
  Text expressions;
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
  Text steps;     // of the current function; S<function>
  double flops;   // of the current function's steps so far, those inside of scans left out
  TableLanes lanes;
  int n_scans;
  Text scans;   // Q<i>: the loops, with their steps and strides
  // D: how the buffers inside of scans move, as B but `depth` numbers each: the most loops around a step
  int depth;
  Text strides;
  Text stride_rows;                // pointers into D, one per step of the current scan
  const struct ScanPlace *place;   // of the scan whose step is being written; NULL: none
} Tables;

// The most scans inside of each other in a function.
int scan_depth(MlirOperation func);

// "model.nn:12:5, model.nn:13:9": the places of an op, without repeats and not too many.
void tables_places(MlirLocation loc, Text *out);
// tables_expression.c: a text of NncExpression. False: the kernel is a single operation, or one that is not told.
bool tables_expression(MlirOperation func, Text *out);

// What every step has; label and cost_key are expressions of C, NULL: none.
typedef struct StepHead {
  const char *kind, *label;
  int n_buffers, first;   // of w->buffers
  int64_t workspace;
  double flops, bytes, seconds;
  bool recomputed;
  const char *cost_key;
  MlirOperation op;   // whose place in the source is written; null: none
} StepHead;
// Writes it; what the kind has of its own follows, and tables_end_step.
void tables_begin_step(Tables *w, const StepHead *h);

// Steps (tables.c): one op of a function, and the number of buffers written so far.
void tables_add_step(Tables *w, const NnStep *s);
void tables_add_copy(Tables *w, int64_t from, int64_t to, int64_t bytes);
int64_t tables_offset(const Tables *w, MlirValue v);
// arena offset, in the first iteration of the loops around; -1: none
int64_t tables_workspace(const Tables *w, MlirOperation op);
// Those of the op, but for that operand (-1: none is left out); number of the first.
int tables_add_values(Tables *w, MlirOperation op, int but);
// the step that stands last in w->steps, which begins with buffer `first`, is complete but for its lane
void tables_end_step(Tables *w, int first);
// A call of the library.
void tables_add_collective_launch(Tables *w, MlirOperation op);   // where its step launches a kernel
void tables_add_library(Tables *w, const NnStep *s);
// The call of a scan: copies of the initial values, then the loop.
void tables_add_scan(Tables *w, const NnStep *s, const NnScan *scan);

// tables_lanes.c. A function's steps, before the first and behind the last; one step, before and behind what it
// becomes.
void tables_begin_lanes(Tables *w, const NnStepList *steps);
void tables_end_lanes(Tables *w);
void tables_next_lane(Tables *w, const NnStep *s);
void tables_lane_written(Tables *w, const NnStep *s);
void tables_add_lane(Tables *w);     // of the step that is being written, and its waits
void tables_join_lanes(Tables *w);   // what follows, on compute, waits for all of them

unsigned tables_readers(MlirModule module);   // CodegenOptions.readers
// NncData, NncGroup and nnc_program from the module's attributes.
void tables_add_program(const CodegenTarget *target, Text *out, MlirModule module, const CodegenOptions *options,
                        int n_functions, int n_persistent);

#endif
