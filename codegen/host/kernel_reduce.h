// Private to kernel_reduce*.c: how a row or column kernel runs.
//
// Two questions decide. Which axis runs over the lanes: a reduced one (then lanes are combined at the end) or the kept
// one inside the reduced ones. And direct or chunked: direct does everything for one kept element (or tile) in one
// outer iteration, reading the reduced elements once per level of reduction; chunked cuts the reduced elements into
// chunks, fixed by the shape alone, whose partial results go to the workspace in one launch and are combined, in order,
// in a second one. A chunk keeps its partial results in registers while it runs down a tile of columns; where rows are
// long that would touch a page for every few lines, so there the chunk is streamed: row after row, a block of columns
// at a time, with the partial results in the workspace, which is in the cache then.
#ifndef NNC_CODEGEN_HOST_KERNEL_REDUCE_H
#define NNC_CODEGEN_HOST_KERNEL_REDUCE_H

#include "codegen/kernel/kernel.h"

#define MAX_UNITS 64    // reductions in one kernel; fuse keeps far below
#define STREAM_ROWS 4   // rows of a streamed chunk that are taken together

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

// The part of the reduced elements one pass covers: rows [low, high), and, with lanes on a reduced axis, its elements
// [from, to).
typedef struct Range {
  Value low, high;
  Value from, to;     // whole tiles only
  bool conditional;   // the rest of the axis belongs to this range only if `is_last`
  Value is_last;
} Range;

// Units, levels, stages and axes, without tiles and chunks.
void reduce_plan_values(const Kernel *k, int lanes, Reduce *r);
void reduce_plan(const Kernel *k, int lanes, Reduce *r);
// Runs over the range once and leaves unit u's value for tile j in value[u][j], for the units with `active` set. M2
// reads its mean's value[][]. count: elements reduced, as a value of the unit's dtype in all lanes, or NULL for the
// whole. Writes the domain-shaped results if `write`.
typedef struct PassValues {
  Value value[MAX_UNITS][MAX_TILE];
} PassValues;
void reduce_emit_pass(Emitter *e, const Reduce *r, const Range *range, int tile, const bool *active, bool write,
                      PassValues *values);
void reduce_emit_chunked(KernelModule *m, const Reduce *r, EmittedKernel *out);
// in partial results; at the current vector
Value reduce_partial_index(Emitter *e, const Reduce *r, Value outer, Value chunk, int tile);
Value reduce_splat_count(Emitter *e, NnDtype dtype, Value count);
// Streams a chunk: block is the index of the column block; units: those to run; write: domain results.
typedef struct StreamChunk {
  Value outer, chunk, block, low, high, count;
  const bool *units;
  bool write;
} StreamChunk;
void reduce_emit_stream(Emitter *e, const Reduce *r, const StreamChunk *c);
void reduce_write_domain_results(Emitter *e, const Kernel *k);
// Opens the scopes of one vector tile of the kept axis: p counts the tiles; calls body for whole tiles and once for the
// masked rest.
typedef void (*TileFn)(Emitter *e, const Reduce *r, int tile, void *user);
void reduce_for_tiles(Emitter *e, const Reduce *r, Value tile_index, int tile, TileFn body, void *user);
int64_t reduce_tiles(const Reduce *r, int tile);
void reduce_emit_kept_results(Emitter *e, const Reduce *r, int tile);
Value reduce_divide(Emitter *e, const Unit *u, Value sum, int64_t count);
Value reduce_combine(Emitter *e, const Unit *u, Value a, Value b);
// total becomes the value of the unit's result
void reduce_bind(Emitter *e, const Unit *u, const IndexMap *kept, Value total);
Value reduce_identity(Emitter *e, const Unit *u);

#endif
