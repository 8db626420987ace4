// Row and column kernels as all targets see them: the reductions of a body, which axis runs over the lanes, and what is
// done with a sum. How a target runs them is its own.
#ifndef NNC_CODEGEN_KERNEL_REDUCE_H
#define NNC_CODEGEN_KERNEL_REDUCE_H

#include "codegen/kernel/kernel.h"

#define MAX_UNITS 64   // reductions in one kernel; fuse keeps far below

// `moments` is two units: the mean, and the sum of squared differences from it (M2).
typedef enum UnitKind { UNIT_SUM, UNIT_MAX, UNIT_MEAN, UNIT_M2 } UnitKind;
typedef struct Unit {
  UnitKind kind;
  NnDtype dtype;     // that it is added up in: f32 for bf16 and f16
  MlirValue value;   // the result it computes
  MlirValue operand;
  int level;                   // direct: the pass over the reduced elements that computes it
  int stage;                   // chunked: the pair of launches that computes it
  int mean;                    // M2: the unit of its mean
  int64_t partial, combined;   // chunked: byte offsets in the workspace
  int64_t pilot;               // the same of a streamed mean: a value near it
} Unit;

typedef struct Reduce {
  const Kernel *k;
  Nest nest;
  int lanes;
  int n_units;
  Unit units[MAX_UNITS];
  bool lanes_on_reduced;
  int vector_group;
  int n_outer, outer[NN_MAX_RANK];   // kept groups but the vector group
  int n_rows, rows[NN_MAX_RANK];     // reduced groups but the vector group
  int64_t outer_extent, row_extent, vector_extent;
  int tile;         // vectors side by side
  int write_pass;   // direct: the pass that writes the results of the domain's shape, -1 none
  int n_passes;     // direct
  bool has_domain_result;
  int n_stages;                   // chunked; 0: direct
  int64_t n_chunks, chunk_size;   // of rows, or of elements of the vector group if chunk_vector
  bool chunk_vector;
  bool stream;     // chunked, lanes on the kept axis, partial results in memory
  int64_t block;   // stream: elements of the kept vector axis per outer iteration
  int64_t workspace_bytes;
} Reduce;

// Units, levels, stages and axes; tiles, chunks and the workspace are left to the target.
void reduce_plan_values(const Kernel *k, int lanes, Reduce *r);
Value reduce_identity(Emitter *e, const Unit *u);
// The element that a unit adds up, at the current point. *mean: read of M2.
Value reduce_term(Emitter *e, const Unit *u, const Value *mean);
Value reduce_combine(Emitter *e, const Unit *u, Value a, Value b);
Value reduce_divide(Emitter *e, const Unit *u, Value sum, int64_t count);
Value reduce_splat_count(Emitter *e, NnDtype dtype, Value count);
// Where the reductions of the stages before are, for Emitter's workspace; their number.
int reduce_workspace_values(const Reduce *r, int stage, WorkspaceValue *out);
// total becomes the value of the unit's result
void reduce_bind(Emitter *e, const Unit *u, const IndexMap *kept, Value total);

#endif
