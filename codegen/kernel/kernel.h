// For the targets: from one private kernel function (docs/internals.md, Kernels) to MLIR
// text over LLVM pointers and vectors.
//
// A kernel is read as a loop nest over its domain. Every value of the body is an index map over the domain followed by
// a chain of arithmetic that ends in leaves: arguments read with fixed strides, constants, indices, random numbers. The
// emitter writes the loops as nested scopes and puts every value into the outermost scope in which it is known, so that
// what does not vary is hoisted.
#ifndef NNC_CODEGEN_KERNEL_KERNEL_H
#define NNC_CODEGEN_KERNEL_KERNEL_H

#include "codegen/kernel/emitted.h"
#include "codegen/kernel/gpu.h"
#include "codegen/kernel/operations.h"
#include "support/text.h"

#define MAX_TILE 16   // vectors of one tile: accumulators held at once
#define MAX_SCOPES 10

// ---------------------------------------------------------------------------------------------------------------------
// Reading a kernel (read.c)

typedef enum KernelKind { KERNEL_MAP, KERNEL_ROW, KERNEL_COLUMN, KERNEL_MOVE } KernelKind;

typedef struct Kernel {
  MlirOperation func;
  char *name;   // Owned
  KernelKind kind;
  NnType domain;               // dtype unused
  bool reduced[NN_MAX_RANK];   // row, column: the reduced axes of the domain
  int n_args, n_results;
  NnType *arg;           // Owned
  NnType *result_type;   // Owned
  MlirValue *result;     // Owned; func.return's operands
  // map, column: the convolution whose result the body goes over, which maps of its own domain may stand in front of;
  // null: none
  MlirOperation library;
} Kernel;

void kernel_read(MlirOperation func, Kernel *k);   // asserts the contract; kernel_free
void kernel_free(Kernel *k);
bool kernel_is_kept_shaped(const Kernel *k, const NnType *t);   // and not domain-shaped
// Ops of the body as "add mul exp" (each once, in order), for labels and comments. Owned: free().
char *kernel_summary(const Kernel *k);

// inplace.c
// Result r of a call to this kernel may share its buffer with argument a: every element of a is read before r's element
// at the same index is written, and no other access to a exists.
bool kernel_inplace_ok(MlirOperation func, int result, int arg);

// ---------------------------------------------------------------------------------------------------------------------
// Index maps and strides (access.c)

// Index of a value's axis as a function of the domain's indices: offset + scale * index[axis]; axis -1: just the
// offset.
typedef struct IndexTerm {
  int axis;
  int64_t scale, offset;
} IndexTerm;
typedef struct IndexMap {
  int rank;
  IndexTerm term[NN_MAX_RANK];
} IndexMap;
// Position in a buffer, in elements: offset + sum of stride[a] * index[a] over the domain's axes.
typedef struct Access {
  int64_t offset, stride[NN_MAX_RANK];
} Access;

IndexMap index_map_domain(const Kernel *k);
IndexMap index_map_kept(const Kernel *k);
bool index_map_equal(const IndexMap *a, const IndexMap *b);
bool access_equal(const Access *a, const Access *b);
// Map of the operand of a broadcast, transpose, slice or unit-axis reshape, given the map of its result. False for
// other reshapes.
bool index_map_through_view(MlirOperation view, const IndexMap *result, IndexMap *operand);
// True if v is an argument seen through views only; gives the argument and its strides along the axes of v.
typedef struct Layout {
  int rank;
  int64_t offset, stride[NN_MAX_RANK];
} Layout;
bool layout_of_argument(MlirValue v, int *arg, Layout *layout);
Layout layout_row_major(const NnType *t);
Access access_compose(const Layout *layout, const IndexMap *map);

typedef struct AccessList {
  int n;
  Access *items;
} AccessList;   // Owned items
typedef void (*LeafFn)(void *user, int arg, MlirValue value, const Access *access);
// Calls fn for each distinct leaf under v: arguments (arg >= 0) and indices, reductions and results of library ops (arg
// -1), with their strides.
void kernel_walk_leaves(const Kernel *k, MlirValue v, const IndexMap *map, LeafFn fn, void *user);
// All of the kernel: results and operands of reductions.
void kernel_walk_all_leaves(const Kernel *k, LeafFn fn, void *user);

// The domain's axes, joined where every leaf and every result allows it. Size-1 axes are left out.
typedef enum AxisClass { AXIS_KEPT, AXIS_REDUCED, AXIS_INNER } AxisClass;   // INNER: kept, inside the reduced ones
typedef struct Nest {
  int n;
  int64_t extent[NN_MAX_RANK];
  int axis[NN_MAX_RANK];   // the innermost domain axis of the group: its stride is the group's
  AxisClass klass[NN_MAX_RANK];
} Nest;
void nest_build(const Kernel *k, Nest *nest);

// ---------------------------------------------------------------------------------------------------------------------
// Emitting (emit.c): SSA values, scopes, addresses

typedef struct TypeName {
  char text[32];
} TypeName;
// %v<id>, known from scope `depth` on; varies: differs between lanes or tiles
typedef struct Value {
  int id;
  int depth;
  bool varies;
} Value;

typedef struct Memo {
  const void *value;
  IndexMap map;
  int tile;
  Value result;
} Memo;
typedef struct OffsetMemo {
  Access access;
  int index[NN_MAX_RANK];   // SSA ids of the indices that it is made of; -1: no part of it
  bool lanes;
  Value result;
} OffsetMemo;
typedef struct ConstantMemo {
  char *rest;   // Owned; of its operation
  int64_t value;
  Value result;
} ConstantMemo;
typedef struct Scope {
  Operations body;   // of a region: behind its own operation
} Scope;

// Where the value of a reduction can be read when it is not in a register: its combined result in the workspace.
typedef struct WorkspaceValue {
  const void *value;
  NnDtype dtype;
  int64_t byte_offset;
} WorkspaceValue;

typedef struct Emitter {
  struct KernelModule *module;
  const Kernel *k;
  Nest nest;
  KernelFunction function;   // what is written; its body are the scopes'
  int lanes, index_bits;
  int next_id;
  int depth;   // current scope
  Scope scope[MAX_SCOPES];
  int index_id[NN_MAX_RANK];   // per group of the nest
  int index_depth[NN_MAX_RANK];
  int vector_group;             // the group whose index runs over the lanes; -1: none
  int tile;                     // current vector of the tile
  int vector_index[MAX_TILE];   // index of the first lane, per tile
  int mask;                     // SSA id of the lane mask, or -1
  int valid;                    // lanes in use under the mask
  int *buffer;                  // Owned; SSA ids of the arguments' and results' addresses, then of the workspace
  int n_memo;
  Memo *memo;   // Owned
  int n_offsets;
  OffsetMemo *offsets;   // Owned
  int n_constants;
  ConstantMemo *constants;   // Owned
  // Borrowed; buffers that begin at a multiple of 16 bytes: wide accesses promise it. NULL: none
  const bool *aligned;
  int align;   // bytes that the next vector access promises; 0: an element
  // where the kernel's arguments are not in memory; NULL: they are
  Value (*argument)(struct Emitter *e, int arg, NnDtype dtype, const Access *a);
  void *user;         // Borrowed; the hook's
  bool fetch_ahead;   // the loops read their operands from one end to the other
  int n_workspace;
  const WorkspaceValue *workspace;   // Borrowed
  // Where an argument's elements are kept elsewhere, in a tile: false for those that are not. NULL: none are.
  bool (*load_tiled)(struct Emitter *e, int buffer, const Access *a, Value *out);
  const void *tiled;   // Borrowed; its own
} Emitter;

// k NULL: of a library op
void emitter_begin(Emitter *e, struct KernelModule *module, const Kernel *k, const char *symbol, int n_buffers);
void emitter_end(Emitter *e);   // closes the function, appends it to the module's text, frees
// the same of a function that returns values
void emitter_end_with(Emitter *e, int n, const Value *values, const TypeName *types);
int emit_argument(Emitter *e, const char *type);   // one more of the function; its SSA id
// Writes `%vN = name rest` into the scope of that depth; each %% of the format stands for the next operand.
Value emit(Emitter *e, int depth, const char *name, Values operands, const char *rest, ...)
    __attribute__((format(printf, 5, 6)));
Value emitv(Emitter *e, int depth, const char *name, Values operands, const char *rest, va_list args);
// At the deepest of its operands; varies where one of them does.
Value emit_of(Emitter *e, const char *name, int n, const Value *operands, const char *rest, ...)
    __attribute__((format(printf, 5, 6)));
#define OF(...) \
  (int)(sizeof((Value[]){__VA_ARGS__}) / sizeof(Value)), (const Value[]) { __VA_ARGS__ }
// an operation without result, current scope
void emit_effect(Emitter *e, const char *name, Values operands, const char *rest, ...)
    __attribute__((format(printf, 4, 5)));
// Constants, in the entry scope, each once. emit_constant: of other types than those below, "dense<5> : vector<4xi64>"
Value emit_constant(Emitter *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
Value emit_integer(Emitter *e, int bits, int64_t value);
Value emit_i32(Emitter *e, int64_t value);
Value emit_i64(Emitter *e, int64_t value);
Value emit_index_with(Emitter *e, const char *op, Value a, int64_t b);
// of two indices, an i1; of i1
Value emit_index_compare(Emitter *e, const char *predicate, Value a, Value b);
Value emit_index_compare_with(Emitter *e, const char *predicate, Value a, int64_t b);
Value emit_and(Emitter *e, Value a, Value b);
Value emit_splat(Emitter *e, NnDtype dtype, double value);   // vector of lanes
// arith.<op> on integers of 32 or 64 bits, at the deeper of the two; emit_index: of index_bits, 64
Value emit_integers(Emitter *e, int bits, const char *op, Value a, Value b);
Value emit_index(Emitter *e, const char *op, Value a, Value b);
Value emit_bounded(Emitter *e, Value v);   // v, just written, is at least 0 and below 2^31
int depth_max(Value a, Value b);

// Types in memory and in registers differ: i1 is i8 in memory; bf16 (in memory i16) and f16 are f32 in registers, where
// a value is always one that the narrow type holds: what computes it rounds it (emit_round), storing only drops bits.
const char *element_type(NnDtype dtype);   // in memory
// "vector<16xf32>"; in registers, and in memory.
TypeName vector_type(const Emitter *e, NnDtype dtype);
TypeName vector_memory_type(const Emitter *e, NnDtype dtype);
Value emit_from_memory(Emitter *e, NnDtype dtype, Value raw);
Value emit_to_memory(Emitter *e, NnDtype dtype, Value v);

// Scopes. `for` binds its induction variable; iteration arguments have the given types.
Value for_begin(Emitter *e, Value low, Value high, int64_t step, int n, const Value *init, const TypeName *types,
                Value *args);
void for_end(Emitter *e, int n, const Value *yield, const TypeName *types, Value *results);
void if_begin(Emitter *e, Value condition);
void if_end(Emitter *e, int n, const Value *then_values, const Value *else_values, const TypeName *types,
            Value *results);
void block_begin(Emitter *e);   // a scope without a loop: what is computed in it is forgotten after it
void block_end(Emitter *e);
// Sets the lane mask to the first `valid` lanes; valid == lanes: none.
void emit_set_mask(Emitter *e, int valid);
void emit_split_index(Emitter *e, Value linear, int n, const int *groups);   // binds the groups' indices, last fastest

// Memory. Group strides come from the nest.
Value emit_load(Emitter *e, int buffer, NnDtype dtype, const Access *a);
// of the type in memory, and from there, whatever is kept elsewhere
Value emit_load_raw(Emitter *e, int buffer, NnDtype dtype, const Access *a);
void emit_store(Emitter *e, int buffer, NnDtype dtype, const Access *a, Value v);
// element offset of the first lane, i64
Value emit_offset(Emitter *e, const Access *a, bool *lanes_vary, int64_t *lane_stride);
// vector of i32 (or i64) first + stride * lane
Value emit_lane_indices(Emitter *e, Value first, int64_t stride, bool wide);
// At an element offset that the caller has computed: a vector, or its first lane alone.
Value emit_load_at(Emitter *e, int buffer, NnDtype dtype, Value offset);
void emit_store_at(Emitter *e, int buffer, NnDtype dtype, Value offset, Value v, bool one_lane);
Value emit_address(Emitter *e, int buffer, NnDtype dtype, Value offset);
Value emit_bytes_on(Emitter *e, int buffer, int64_t bytes);   // the buffer's address and so many bytes
// The same for the workspace at byte_offset + size of dtype * element; one element is loaded into all lanes.
Value emit_load_workspace(Emitter *e, NnDtype dtype, int64_t byte_offset, Value element, bool one_lane);
void emit_store_workspace(Emitter *e, NnDtype dtype, int64_t byte_offset, Value element, Value v, bool one_lane);

// ---------------------------------------------------------------------------------------------------------------------
// Expressions (expr.c): evaluates a value of the body at the current point

Value expression(Emitter *e, MlirValue v, const IndexMap *map);
// Binds a value (a reduction) to a register.
void expression_bind(Emitter *e, MlirValue v, const IndexMap *map, Value value);
Value emit_binary(Emitter *e, NnOp op, NnDtype dtype, Value a, Value b);   // add, mul, max … on vectors
Value emit_cast(Emitter *e, Value x, NnDtype from, NnDtype to);
Value emit_round(Emitter *e, NnDtype dtype, Value x);   // an f32 to the nearest bf16 or f16; x for all other types
// eq ne lt le gt ge; ugt: or unordered
Value emit_compare(Emitter *e, const char *predicate, Value a, Value b, NnDtype dtype);
Value emit_select(Emitter *e, Value condition, Value a, Value b, NnDtype dtype);
Value emit_lowest(Emitter *e, NnDtype dtype);                 // no number is below it
Value emit_exponential(Emitter *e, Value x, NnDtype dtype);   // e^x, 0 where that would be subnormal
// Lanes [first, first + count) of x, as a vector of `width` >= count lanes (the rest repeats them).
Value emit_take_lanes(Emitter *e, Value x, const char *element, int lanes, int first, int count, int width);
// fixed-order tree over the lanes; the result in all lanes
Value emit_horizontal(Emitter *e, NnOp op, NnDtype dtype, Value x);
Value emit_random(Emitter *e, MlirOperation op, NnType type, const IndexMap *map);

// ---------------------------------------------------------------------------------------------------------------------
// Kinds. Each appends its functions to the module and adds its launches to `out`.

// What of the code depends on the target: everything else is written once.
typedef struct KernelTarget {
  const char *pointer;    // MLIR type of a buffer's address; the text calls it !buffer
  const GpuFamily *gpu;   // Borrowed; NULL: no GPU
  int vector_bytes;       // of one register: how many lanes a kernel has; 0: the kernel chooses
  // Gives the function its arguments: binds e->buffer[]; on the host %v1 and %v2 are the range of the outer loop.
  void (*open)(Emitter *e, int n_buffers);
  // exp, log, sin, cos, tanh, erf, pow of lanes: calls of a library, or arithmetic.
  Value (*math)(Emitter *e, const char *name, int n, const Value *x, NnDtype dtype);
  bool approximates;   // in f32: its exp is 0 where the result would be subnormal, and it knows sigmoid, too
  // An f32 to the nearest that bf16 holds, by the machine's instructions; NULL: in integers.
  Value (*round_bf16)(Emitter *e, Value x);
} KernelTarget;

typedef struct KernelModule {
  KernelTarget target;
  Text comment;                // Owned; of the current kernel, as are its functions
  KernelFunctions functions;   // Owned
  Text declarations;           // Owned
  int n_externals;
  char **externals;   // Owned; libmvec functions in declarations
} KernelModule;

// Evaluates the results of the domain's shape at the current point, of a map all; then stores them, for a result may
// lie in an operand's buffer. The same with those of the kept shape, of `tile` vectors.
void kernel_emit_point(Emitter *e);
void kernel_emit_kept_results(Emitter *e, int tile);
void kernel_comment(KernelModule *m, const Kernel *k, const char *space);
void kernel_take(KernelModule *m, EmittedKernel *out);    // what was written since, at the end of what it has
void kernel_comment_again(Text *t, MlirOperation func);   // its last line: what the kernel recomputes
int kernel_lanes(const KernelModule *m, const Kernel *k);

#endif
