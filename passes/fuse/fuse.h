// Private to the pass `fuse`: the graph of a public function, groups of ops that become one kernel each, and what is
// cloned.
//
// fuse_prepare.c  rewrites that make fusion possible: reductions over scattered axes, unit reshapes before broadcasts
// fuse_graph.c    ops, their classes, and the dependences between them seen through what is cloned
// fuse_group.c    merging: kinds, legality, convexity, siblings, recomputing a value instead of storing it
// fuse_emit.c     kernels and calls
#ifndef NNC_PASSES_FUSE_H
#define NNC_PASSES_FUSE_H

#include "ir/ir.h"
#include "support/ptr_map.h"

typedef enum FuseClass {
  FUSE_FIXED,    // stays in the public function: library ops, marks, aliases (reshape, contiguous slice), the return
  FUSE_MOVE,     // a kernel of its own
  FUSE_NODE,     // MAP, REDUCE, VIEW: member of exactly one kernel
  FUSE_CLONED,   // computed again in every kernel that uses it: sources, broadcasts, cheap chains, absorbed views
} FuseClass;

typedef enum FusePhase { FUSE_FORWARD = 1, FUSE_BACKWARD = 2, FUSE_UPDATE = 4 } FusePhase;

typedef enum FuseVia {
  FUSE_DIRECT,      // element by element, or the operand of a reduction
  FUSE_BROADCAST,   // through broadcasts: axis i of the value runs along axis dims[i] of the consumer's domain
  FUSE_VIEW,        // through a transpose, slice or reshape: the value must be in memory
  FUSE_PART,        // element by element of a slice (FuseEdge.value) that `recompute` made; `from` made the whole
  FUSE_ORDER,       // no data: `from` reads what `to` overwrites
} FuseVia;

typedef struct FuseEdge {
  int from, to;   // ops; from is -1 for an argument of the function
  int value;      // number of the value that is read; -1: FUSE_ORDER
  FuseVia via;
  int8_t dims[NN_MAX_RANK];
} FuseEdge;

typedef struct FuseOp {
  MlirOperation op;
  NnOp kind;
  FuseClass klass;
  bool materialised;   // FUSE_CLONED: an op that stays, or a move, reads it from memory
  bool source_only;    // FUSE_CLONED: reads no tensor but random keys and a few scalars
  bool inlined;        // FUSE_NODE: kernels that use its value compute it again
  bool kept;           // FUSE_NODE: a cast that other kernels repeat reads it from memory
  bool alias;          // nn_is_alias
  bool tiny;           // alias or cheap op on at most FUSE_TINY elements of the function's arguments
  int chain;           // FUSE_CLONED: ops cloned together with it
  double work;         // of a map of sources: bytes of traffic that computing an element again is worth
  bool recomputed;     // a clone that the pass `recompute` made
  int walked_by;       // the last consumer, plus 1, whose dependences were found through it, and how that saw it
  FuseVia walked_via;
  int8_t walked_dims[NN_MAX_RANK];
  FusePhase phase;
  const NnType *shape;    // domain: the result's shape; of a reduction the operand's
  uint32_t axes;          // reductions: mask of the reduced axes
  int first_in, n_in;     // into FuseGraph.edges
  int first_out, n_out;   // into FuseGraph.out
} FuseOp;

// A group is represented by one of its ops, the root; fields are valid at the root only.
typedef struct FuseGroup {
  int parent;              // union-find
  int first, last, size;   // members, linked through FuseGraph.next
  const NnType *shape;     // domain
  uint32_t axes;           // reduced axes; 0: a map
  unsigned phases;         // FusePhase mask
  bool has_view;           // a member reads through a transpose
  bool joined;             // of columns' sums of what a kernel reads and of what it writes
  int position;            // in the topological order of groups
} FuseGroup;

typedef struct FuseGraph {
  bool alone;          // each op is to be a kernel of its own, with its sources, broadcasts and views
  bool few_launches;   // an update that could not be done in place stays out of a kernel; sums around a kernel are one
  MlirOperation func;
  MlirBlock block;
  int n;
  FuseOp *ops;         // Owned, n
  FuseGroup *groups;   // Owned, n
  int *next;           // Owned, n; next member of the group, -1 ends
  int n_edges;
  FuseEdge *edges;              // Owned; grouped by `to`
  int *out;                     // Owned; edges with from >= 0, grouped by `from`
  int n_values;                 // values that edges name
  MlirValue *values;            // Owned
  const NnType **value_types;   // Owned
  PtrMap value_ids, op_ids;
  int *at;            // Owned, n; root at each position of the topological order, -1: none
  int *stamp;         // Owned, n; marks of searches
  int *value_stamp;   // Owned, n_values
  int stamp_now, value_stamp_now;
  // Owned, per argument: the update that is tied to it; FUSE_NO_WRITER, or FUSE_OTHER_WRITER: none of this function's
  // ops
  int *writer;
} FuseGraph;

enum { FUSE_NO_WRITER = -1, FUSE_OTHER_WRITER = -2 };

// Buffers of a kernel; the most where launches cost, and of one that takes what `recompute` made.
enum { FUSE_TINY = 16, FUSE_CHAIN = 16, FUSE_BUFFERS = 24, FUSE_MOST_BUFFERS = 32, FUSE_MEMBERS = 128 };

// ---- fuse_prepare.c ----
void fuse_prepare(MlirOperation func);

// ---- fuse_graph.c ----
// false after reporting an op that has no place in a kernel
bool fuse_graph_build(FuseGraph *g, MlirOperation func, bool alone, bool few_launches);
void fuse_graph_free(FuseGraph *g);
int64_t fuse_value_bytes(const FuseGraph *g, int value);

// ---- fuse_group.c ----
int fuse_find(FuseGraph *g, int op);
bool fuse_group_is_row(const FuseGroup *group);
void fuse_groups_merge(FuseGraph *g);
void fuse_choose_inlined(FuseGraph *g);
// used outside its group, by itself or as a wider type, and not by computing it again
bool fuse_is_stored(FuseGraph *g, int op);

// ---- fuse_emit.c ----
typedef struct FuseKernels FuseKernels;   // the distinct kernels of a module, by structure
FuseKernels *fuse_kernels_create(MlirModule module);
void fuse_kernels_destroy(FuseKernels *kernels);
void fuse_emit(FuseGraph *g, FuseKernels *kernels);   // replaces the block's ops by calls, in the groups' order

#endif
