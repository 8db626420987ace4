// Private to codegen/host: how a row or column kernel runs.
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

#include "codegen/host/host.h"
#include "codegen/kernel/reduce.h"

#define STREAM_ROWS 4   // rows of a streamed chunk that are taken together

// The part of the reduced elements one pass covers: rows [low, high), and, with lanes on a reduced axis, its elements
// [from, to).
typedef struct Range {
  Value low, high;
  Value from, to;     // whole tiles only
  bool conditional;   // the rest of the axis belongs to this range only if `is_last`
  Value is_last;
} Range;

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
// Streams a chunk: block is the index of the column block; units: those to run; write: domain results.
typedef struct StreamChunk {
  Value outer, chunk, block, low, high, count;
  const bool *units;
  bool write;
} StreamChunk;
void reduce_emit_stream(Emitter *e, const Reduce *r, const StreamChunk *c);
// Opens the scopes of one vector tile of the kept axis: p counts the tiles; calls body for whole tiles and once for the
// masked rest.
typedef void (*TileFn)(Emitter *e, const Reduce *r, int tile, void *user);
void reduce_for_tiles(Emitter *e, const Reduce *r, Value tile_index, int tile, TileFn body, void *user);
int64_t reduce_tiles(const Reduce *r, int tile);

#endif
