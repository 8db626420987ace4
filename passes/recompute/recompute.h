// Private to the pass `recompute`: the forward values that the backward pass reads, and which of them to keep.
//
// recompute_graph.c  values, how backward ops read them, what may be computed again
// recompute_cut.c    minimum vertex cut
// recompute_parts.c  kept values that are parts of others
// recompute.c        the decision, and the clones
#ifndef NNC_PASSES_RECOMPUTE_H
#define NNC_PASSES_RECOMPUTE_H

#include "ir/ir.h"
#include "support/ptr_map.h"

typedef enum RecomputeMode {
  RECOMPUTE_NONE,      // what backward ops read is kept
  RECOMPUTE_KERNELS,   // only what kernels read is computed again, inside them
  RECOMPUTE_ALL,       // also what library ops read, as a further result of such a kernel; and attention scores
} RecomputeMode;

// An argument of the function, or a result of an op.
typedef struct RecomputeValue {
  MlirValue value;
  int def;    // op, -1: an argument
  int root;   // the value whose memory it is, through aliases; itself for most
  int64_t bytes, elements;
  int64_t span;                    // elements of the largest forward value computed from it by maps and broadcasts
  bool source_only;                // of constants, indices and random draws alone: every kernel computes it itself
  bool random;                     // source_only, and reads a draw
  bool available;                  // costs nothing: in memory in the backward pass whatever is decided, or source_only
  bool recomputable;               // may be computed again from its op's operands
  bool library;                    // recomputable by a library op: a leaf of what is computed from it
  bool in_memory;                  // the forward pass needs it in memory, as far as can be told before kernels are made
  bool read_inside;                // a backward map or reduction reads it element by element
  bool read_stored;                // a backward library op reads it
  int first_inside, last_inside;   // library ops before the first and last such map (distance in the backward pass)
  int first_stored, last_stored;   // the same of the library ops that read it
} RecomputeValue;

typedef struct RecomputeGraph {
  MlirOperation func;
  RecomputeMode mode;
  int n_ops, n_args, n_values;
  MlirOperation *ops;       // Owned
  NnOp *kind;               // Owned, per op
  int *first_operand;       // Owned, n_ops + 1: where its operands begin
  int *operands;            // Owned; values
  int *first_result;        // Owned, per op: number of its first result
  bool *backward;           // Owned, per op: backward or update
  RecomputeValue *values;   // Owned; arguments, then results in the order of the ops
  PtrMap ids;               // MlirValue -> number
} RecomputeGraph;

void recompute_graph_build(RecomputeGraph *g, MlirOperation func, RecomputeMode mode);   // ops and values
void recompute_graph_classify(RecomputeGraph *g);   // how they are read, and what may be computed again
void recompute_graph_free(RecomputeGraph *g);
bool recompute_reads_elements(NnOp op);   // a map or a reduction: reads element i for its element i

// Where a value lies in another one, which is kept as well, along an axis.
typedef struct RecomputePart {
  int whole;   // value; -1: in none
  int axis;
  int64_t start;
} RecomputePart;
// Bytes of forward results that backward ops read, each buffer once; constants and indices, which every kernel makes
// itself, left out. Random draws count where `draws`: as if a mask had to be kept. `again`, per value, or NULL: those
// are computed again, and what that reads counts in their place. `part`, per value, or NULL: the whole counts.
int64_t recompute_crossing_bytes(const RecomputeGraph *g, const bool *again, const RecomputePart *part, bool draws);

// For each value that is not in again[], is read by backward ops element by element alone, and is an operand of a
// concatenation that they read, too (or of one that is an operand of such a one, and so on): that concatenation, of
// several the last. Left out where the parts of a whole together are smaller than it: it lives as long as the last of
// them would.
void recompute_find_parts(const RecomputeGraph *g, const bool *again, RecomputePart *part);

// Minimum vertex cut. Of all sets of vertices of least total capacity that every path from a source to a sink meets,
// the one nearest to the sinks: what ties is not recomputed. beyond[v]: v lies behind the cut (a vertex of the cut does
// not). Dinic's algorithm (1970) on the graph with each vertex split in two, O(V² E), near linear here: paths are a few
// ops long.
typedef struct RecomputeNetwork {
  int n;                     // vertices
  const int64_t *capacity;   // Borrowed; RECOMPUTE_INFINITE: never in the cut
  const bool *source, *sink;
  int n_edges;
  const int *from, *to;   // Borrowed
} RecomputeNetwork;
#define RECOMPUTE_INFINITE (INT64_MAX / 4)
void recompute_min_cut(const RecomputeNetwork *network, bool *beyond);

#endif
