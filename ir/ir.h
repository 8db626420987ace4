// The nn dialect seen from C: element types, tensor types, the table of ops, building, reading and walking operations.
// Everything in compiler/, passes/ and codegen/ that touches the IR goes through this header; docs/internals.md tells
// the conventions (roles of arguments and results, phases, kernels) that the operations alone do not show.
//
// Names follow MLIR: Create gives ownership, Get borrows. All MlirXxx handles are borrowed from the context.
#ifndef NNC_IR_IR_H
#define NNC_IR_IR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"
#include "mlir-c/IR.h"
#include "support/ptr_map.h"

// ---------------------------------------------------------------------------------------------------------------------
// Types

// ORDER DTYPE
typedef enum NnDtype { NN_F32, NN_F64, NN_BF16, NN_F16, NN_I32, NN_I64, NN_U8, NN_I1, NN_DTYPE_COUNT } NnDtype;

#define NN_MAX_RANK 8
#define NN_MAX_RESULTS 8
#define NN_MAX_OPERANDS 16     // of one operation; nn_build nests a longer concat
#define NN_MAX_ATTRIBUTES 16   // of one row of the table

// A static tensor type. dim[0] is the outermost dimension; memory is row-major and dense.
typedef struct NnType {
  NnDtype dtype;
  int rank;
  int64_t dim[NN_MAX_RANK];
} NnType;

int64_t nn_dtype_bytes(NnDtype dtype);      // bytes of one element in memory; i1 takes one byte
const char *nn_dtype_name(NnDtype dtype);   // "f32", "f64", "bf16", "f16", "i32", "i64", "u8", "i1"
bool nn_dtype_is_float(NnDtype dtype);
// bf16 or f16: a type to store and to multiply in; sums and statistics need a wider one
bool nn_dtype_is_narrow(NnDtype dtype);
// the type in which arithmetic on it is done: f32 for bf16 and f16, itself otherwise
NnDtype nn_dtype_wide(NnDtype dtype);
NnDtype nn_dtype_common(NnDtype a, NnDtype b);    // of two float types the one that holds both: f32 for bf16 and f16
double nn_dtype_round(NnDtype dtype, double x);   // to the nearest value that the type holds, ties to even; floats only
bool nn_dtype_parse(const char *name, NnDtype *out);
NnType nn_type(NnDtype dtype, int rank, const int64_t *dim);
NnType nn_scalar(NnDtype dtype);
bool nn_type_equal(const NnType *a, const NnType *b);
bool nn_shape_equal(const NnType *a, const NnType *b);   // ignores the dtype
// Strides of its axes in memory, in elements, without gaps.
void nn_row_major_strides(const NnType *t, int64_t *stride);
// Those of a reshape that copies nothing, from those of its operand. False: no strides show it. out is not in.
bool nn_reshape_strides(const NnType *from, const NnType *to, const int64_t *in, int64_t *out);
int64_t nn_type_elements(const NnType *t);
int64_t nn_type_bytes(const NnType *t);
// The product of the dimensions fits in NN_MAX_ELEMENTS; false for what no machine can hold (the frontend reports it).
#define NN_MAX_ELEMENTS ((int64_t)1 << 40)
bool nn_type_is_representable(const NnType *t);
// Writes "f32[128, 1, 28, 28]" (the language's spelling) to buf; returns buf.
const char *nn_type_format(const NnType *t, char *buf, size_t size);

MlirType nn_type_to_mlir(MlirContext ctx, const NnType *t);   // u8 is ui8
// false: not a static ranked tensor of a known element type
bool nn_type_from_mlir(MlirType type, NnType *out);
NnType nn_value_type(MlirValue v);   // asserts that it is one
NnDtype nn_value_dtype(MlirValue v);
const NnType *nn_type_of(MlirValue v);   // nn_value_type without a copy; lives as long as the context

// ---------------------------------------------------------------------------------------------------------------------
// Names of the attributes that stages leave for each other: ATTR_role is "nn.role" (ir/attributes.def).

#define NN_ATTRIBUTE(name, on, type, written_by, read_by, doc) extern const char ATTR_##name[];
#include "ir/attributes.def"
#undef NN_ATTRIBUTE
bool nn_is_stage_attribute(MlirStringRef name);   // "nn.role"; false: an op's own, or MLIR's

// ---------------------------------------------------------------------------------------------------------------------
// The op table (ir/ops.def, ir/library.def): one row per op; docs, IRDL, verification, autodiff and costs read it.

typedef enum NnOpKind {
  NN_KIND_SOURCE,     // no tensor data read: constant, iota, random_uniform; always cloned into the kernels that use it
  NN_KIND_MAP,        // one result element from the operand elements at the same index
  NN_KIND_VIEW,       // another index map over the same data: broadcast, transpose, slice, reshape
  NN_KIND_REDUCE,     // reduce_sum, reduce_max, moments
  NN_KIND_MOVE,       // own loop nest, not fused with others: pad, concat, gather, scatter_add, argmax, pooling
  NN_KIND_LIBRARY,    // conv2d*, matmul: oneDNN or cuBLAS
  NN_KIND_TRANSFER,   // copies, which may run beside the other steps, on lanes of their own
  NN_KIND_COMPOSITE,   // expanded by the pass `decompose`: softmax, layernorm, batchnorm, cross_entropy …
  NN_KIND_MARK,        // no results, marks a value: tap, checkpoint
} NnOpKind;

typedef enum NnOp {
#define NN_OP(name, kind, operands, results, attrs, class, cpu, gpu, doc) NN_OP_##name,
#include "ir/ops.def"
#undef NN_OP
  NN_OP_COUNT,
  NN_OP_NONE = -1,
} NnOp;

// COST(name): what a step mainly does, first what decides where a kernel does several.
#define COST_CLASS_LIST(COST) COST(matmul) COST(conv) COST(move) COST(reduction) COST(elementwise)
typedef enum CostClass {
#define COST(name) COST_##name,
  COST_CLASS_LIST(COST)
#undef COST
      COST_CLASSES,
} CostClass;
// Whose instructions are counted.
typedef enum CostUnit { COST_CPU, COST_GPU, COST_UNITS } CostUnit;
extern const char *const cost_class_names[COST_CLASSES];

// What a shape rule sees: operand types and attributes, before or after the op exists.
typedef struct NnOpCall {
  NnOp op;
  int n_operands;
  const NnType *operand;
  MlirAttribute attrs;   // DictionaryAttr
  char *error;           // Borrowed, NN_ERROR_SIZE bytes: what was expected and what was found
} NnOpCall;
#define NN_ERROR_SIZE 512

// Shape rule. On entry result[i].rank is -1 where the type is to be inferred, else the type the op has or is asked to
// have (constant, iota, reshape, broadcast, cast … cannot be inferred and must be asked for). Fills every result.
// Returns false and writes call->error when operands, attributes or the asked types do not fit.
typedef bool (*NnInferFn)(NnOpCall *call, int n_results, NnType *result);

struct NnBuilder;
// Gradient rule (vector-Jacobian product). cotangent[i] is null where no gradient reaches result i. Fill
// operand_cotangent[j] for the operands with needed[j]; leave it null where the gradient is zero. Prefer rules that
// read results over operands.
typedef struct NnVjp {
  struct NnBuilder *b;
  MlirOperation op;
  int n_operands, n_results;
  const MlirValue *operand, *result;   // Borrowed
  const MlirValue *cotangent;          // Borrowed, one per result
  const bool *needed;                  // Borrowed, one per operand
  MlirValue *operand_cotangent;        // Borrowed, one per operand; filled by the rule
} NnVjp;
typedef void (*NnVjpFn)(NnVjp *vjp);

typedef struct NnOpInfo {
  // "conv2d"; the MLIR name is "nn.conv2d". A variadic op has that name with two operands and "nn.concat_3" with three:
  // IRDL would force the operands of one variadic group to be of one type. Compare with nn_op_of, not by name.
  const char *name;
  NnOpKind kind;
  int n_operands;   // negative: any number up to that many
  int n_results;
  const char *attrs;   // "strides:i64s axis:i64 eps:f64 mode:str flag:bool"; a trailing ? marks an optional one
  CostClass cost_class;
  // What one element takes, in additions: of the result, of a reduction's operand, a pair of query and key of
  // attention. A library op has its products besides (flops).
  double additions[COST_UNITS];
  const char *doc;   // one sentence
  NnInferFn infer;
  NnVjpFn vjp;                         // NULL: not differentiable (its operands get no gradient)
  double (*flops)(MlirOperation op);   // NULL: one per result element; views, sources, moves, transfers and marks: none
  // Composites only: builds the same results from primitive ops at b and stores one value per result.
  void (*expand)(struct NnBuilder *b, MlirOperation op, MlirValue *results);
} NnOpInfo;

const NnOpInfo *nn_op_info(NnOp op);
int nn_op_adds_to(NnOp op);             // the operand that its one result is added to; -1: none
NnOp nn_op_by_name(const char *name);   // without "nn."; NN_OP_NONE if unknown
NnOp nn_op_of(MlirOperation op);        // NN_OP_NONE for func.*, scf.* …
double nn_op_flops(MlirOperation op);   // also of func.call to a kernel and of regions (the sum over the body)
double nn_op_bytes(MlirOperation op);   // bytes read and written: operands + results
// How many bytes of traffic take as long as computing one element: by it passes weigh computing a value again against
// keeping it.
double nn_op_traffic(NnOp op);
// Checks a call against its row (counts, attributes) and shape rule; fills or checks result[0..n_results) as NnInferFn
// says.
bool nn_infer(NnOpCall *call, int n_results, NnType *result);
// The table as a Markdown document (docs/ops.md). Owned: free().
char *nn_op_table_markdown(void);

// ---------------------------------------------------------------------------------------------------------------------
// Context, modules

// A context with builtin, func, scf and the nn dialect loaded (IRDL, generated from the table), threading off. Owned:
// nn_context_destroy. The second lacks the ops by which ranks exchange values: of so many operands each that a tenth of
// a small compilation would go into their definitions. One thread reads a context of the dialect, and
// one such context is there at a time: what is remembered of types and names is the process's.
MlirContext nn_context_create(void);
MlirContext nn_context_create_alone(void);
void nn_context_destroy(MlirContext ctx);   // and what was remembered of its types and names
// The text of the dialect's IRDL module. Owned: free().
char *nn_irdl_text(void);
// Verifies with MLIR, then every nn op against its shape rule; errors go to the context's diagnostic handlers.
bool nn_verify_module(MlirModule module);
MlirOperation nn_module_function(MlirModule module, const char *name);   // func.func, null if absent
// The public functions of a module, kernels and steps of loops aside, in order: a training in phases, evaluation, a
// prediction of each model. The frontend makes no more, but for updates, which are there until autodiff has run.
#define NN_MAX_FUNCTIONS 256
typedef struct NnFunctions {
  int n;
  MlirOperation items[NN_MAX_FUNCTIONS];
} NnFunctions;
NnFunctions nn_public_functions(MlirModule module);

// The functions of a training: @train, or @train.<phase> of each of its phases; and @accumulate likewise.
bool nn_is_train(MlirOperation func);
bool nn_is_accumulate(MlirOperation func);
bool nn_is_predict(MlirOperation func);             // @predict of the main model, @predict.<model> of another
MlirOperation nn_module_train(MlirModule module);   // the first; null if absent
MlirOperation nn_accumulate_of(MlirModule module, MlirOperation train);   // null if absent
MlirOperation nn_train_of(MlirModule module, MlirOperation accumulate);   // null if absent
const char *nn_phase_of(MlirOperation func, char *text, size_t size);     // its name; "" where there are no phases
// What nn.phases says of the phase; null: there are none.
MlirAttribute nn_phase_entry(MlirModule module, MlirOperation func);
// The function that a func.call calls; null if the module has none of that name.
MlirOperation nn_callee(MlirOperation call);
MlirStringRef nn_callee_name(MlirOperation call);   // empty: no name
MlirBlock nn_function_body(MlirOperation func);
// Ops of a block, the last one too; uses of a value. What the loop looks at must stay where it is.
#define NN_FOREACH_OP(op, block)                                                       \
  for (MlirOperation op = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(op); \
       op = mlirOperationGetNextInBlock(op))
#define NN_FOREACH_USE(use, value) \
  for (MlirOpOperand use = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use))

// ---------------------------------------------------------------------------------------------------------------------
// Building

typedef struct NnBuilder {
  MlirContext ctx;
  MlirBlock block;
  MlirOperation before;   // insert before this op; null op: append to the block
  MlirLocation loc;
  const char *phase;        // Borrowed: "forward", "backward" or "update", set as nn.phase on what is built; NULL: none
  const char *phase_made;   // of which phase_entry is
  MlirNamedAttribute phase_entry;
  char error[NN_ERROR_SIZE];   // set when a shape rule failed
} NnBuilder;

typedef enum NnAttrKind { NN_ATTR_I64, NN_ATTR_I64S, NN_ATTR_F64, NN_ATTR_BOOL, NN_ATTR_STR } NnAttrKind;
typedef struct NnAttr {
  const char *name;
  NnAttrKind kind;
  union {
    int64_t i64;
    double f64;
    bool boolean;
    const char *str;
    struct {
      const int64_t *data;
      int n;
    } i64s;
  };
} NnAttr;
#define NN_I64(n, v) ((NnAttr){.name = (n), .kind = NN_ATTR_I64, .i64 = (v)})
#define NN_F64A(n, v) ((NnAttr){.name = (n), .kind = NN_ATTR_F64, .f64 = (v)})
#define NN_BOOL(n, v) ((NnAttr){.name = (n), .kind = NN_ATTR_BOOL, .boolean = (v)})
#define NN_STR(n, v) ((NnAttr){.name = (n), .kind = NN_ATTR_STR, .str = (v)})
#define NN_I64S(n, p, count) ((NnAttr){.name = (n), .kind = NN_ATTR_I64S, .i64s = {(p), (count)}})

NnBuilder nn_builder_at_end(MlirBlock block, MlirLocation loc);
NnBuilder nn_builder_before(MlirOperation op);   // also takes op's location
// Builds any op. Result types are inferred, or taken from `asked` (n_results types) when not NULL.
// Returns the null operation and sets b->error when the shape rule refuses.
MlirOperation nn_build(NnBuilder *b, NnOp op, int n_operands, const MlirValue *operands, int n_attrs,
                       const NnAttr *attrs, const NnType *asked);
// Builds `op` with the attributes of `from` (which must have the same ones) and the asked result type (NULL: inferred).
MlirValue nn_build_like(NnBuilder *b, NnOp op, MlirOperation from, int n_operands, const MlirValue *operands,
                        const NnType *asked);

// Short forms for the passes and layers. They assert that the shape rule holds (exit status 70 otherwise): user
// mistakes must be caught before. A form that would change nothing (a cast to the same dtype, a reshape to the same
// shape, a full slice …) returns x.
MlirValue nn_unary(NnBuilder *b, NnOp op, MlirValue x);
MlirValue nn_binary(NnBuilder *b, NnOp op, MlirValue x, MlirValue y);                  // same shape and dtype
MlirValue nn_compare(NnBuilder *b, const char *predicate, MlirValue x, MlirValue y);   // eq ne lt le gt ge; i1
MlirValue nn_select(NnBuilder *b, MlirValue cond, MlirValue x, MlirValue y);
MlirValue nn_cast(NnBuilder *b, MlirValue x, NnDtype dtype);
MlirValue nn_constant(NnBuilder *b, NnType type, double value);   // splat
MlirValue nn_constant_like(NnBuilder *b, MlirValue like, double value);
MlirValue nn_iota(NnBuilder *b, NnType type, int64_t axis);
// dims[i]: where x's axis i goes in `to`; keeps x's dtype
MlirValue nn_broadcast(NnBuilder *b, MlirValue x, NnType to, const int64_t *dims);
// numpy rule: align trailing axes, stretch 1s
MlirValue nn_broadcast_trailing(NnBuilder *b, MlirValue x, NnType to);
MlirValue nn_reshape(NnBuilder *b, MlirValue x, int rank, const int64_t *dim);
MlirValue nn_transpose(NnBuilder *b, MlirValue x, const int64_t *perm);   // result axis i is x's axis perm[i]
// strides may be NULL
MlirValue nn_slice(NnBuilder *b, MlirValue x, const int64_t *starts, const int64_t *sizes, const int64_t *strides);
MlirValue nn_rows(NnBuilder *b, MlirValue x, int64_t first, int64_t n);   // of the first axis
MlirValue nn_pad(NnBuilder *b, MlirValue x, const int64_t *low, const int64_t *high, const int64_t *interior,
                 double value);
MlirValue nn_concat(NnBuilder *b, int n, const MlirValue *x, int64_t axis);
MlirValue nn_reduce(NnBuilder *b, NnOp op, MlirValue x, int n_axes, const int64_t *axes);   // drops the axes
MlirValue nn_matmul(NnBuilder *b, MlirValue x, MlirValue y, bool transpose_x, bool transpose_y);
void nn_tap(NnBuilder *b, MlirValue x, const char *name);
void nn_checkpoint(NnBuilder *b, MlirValue x);
// Expands a composite, or a Fourier transform (into products), into primitive ops at b; results[i] computes what result
// i of the composite did.
void nn_expand(NnBuilder *b, MlirOperation composite, MlirValue *results);
// Of ops that gradient rules make and that have no such rule of their own: the same results from ops that have one, at
// b. False, and nothing is built, for all other ops.
bool nn_expand_differentiable(NnBuilder *b, MlirOperation op, MlirValue *results);
// The length of its first transforms for rows of n: a divisor near the root, at most 64, or n where a product is best.
int64_t nn_fourier_factor(int64_t n);

// ---------------------------------------------------------------------------------------------------------------------
// Reading

bool nn_value_is_null(MlirValue v);
MlirStringRef nn_string_ref(const char *text);   // of the text itself, which the caller keeps
char *nn_string_copy(MlirStringRef text);        // Owned: free
MlirNamedAttribute nn_named(MlirContext ctx, const char *name, MlirAttribute value);
MlirValue nn_operand(MlirOperation op, intptr_t i);
MlirValue nn_result(MlirOperation op, intptr_t i);
MlirValue nn_null_value(void);
MlirOperation nn_null_operation(void);
MlirOperation nn_value_def(MlirValue v);                          // null operation for a block argument
int nn_value_index(MlirValue v);                                  // result number, or argument number
MlirAttribute nn_attribute(MlirOperation op, const char *name);   // null if absent
void nn_set_attribute(MlirOperation op, const char *name, MlirAttribute value);
bool nn_has_attr(MlirOperation op, const char *name);
int64_t nn_attr_i64(MlirOperation op, const char *name, int64_t otherwise);
double nn_attr_f64(MlirOperation op, const char *name, double otherwise);
// `value` of a constant or a pad, as the elements of its result hold it: 0.1 is another number in each float type.
double nn_fill_value(MlirOperation op);
bool nn_attr_bool(MlirOperation op, const char *name, bool otherwise);
// Copies the string, or `otherwise` when absent, into buf (truncating) and returns buf.
const char *nn_attr_str(MlirOperation op, const char *name, char *buf, size_t size, const char *otherwise);
int nn_attr_i64s(MlirOperation op, const char *name, int64_t *out, int max);   // count, -1 when absent
// The same on a call's dictionary, for shape rules.
int64_t nn_call_i64(const NnOpCall *c, const char *name, int64_t otherwise);
double nn_call_f64(const NnOpCall *c, const char *name, double otherwise);
bool nn_call_bool(const NnOpCall *c, const char *name, bool otherwise);
const char *nn_call_str(const NnOpCall *c, const char *name, char *buf, size_t size, const char *otherwise);
int nn_call_i64s(const NnOpCall *c, const char *name, int64_t *out, int max);
void nn_set_attr(MlirOperation op, const NnAttr *attr);
void nn_set_unit(MlirOperation op, const char *name);
// writes c->error, returns false
bool nn_fail(NnOpCall *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Function signatures: one dictionary per argument and result (arg_attrs, res_attrs).
MlirAttribute nn_arg_attr(MlirOperation func, int arg, const char *name);   // null attribute if absent
MlirAttribute nn_result_attr(MlirOperation func, int result, const char *name);
void nn_set_arg_attr(MlirOperation func, int arg, const NnAttr *attr);
void nn_set_result_attr(MlirOperation func, int result, const NnAttr *attr);
// of every result r with which[r], in linear time
void nn_set_result_attr_where(MlirOperation func, const bool *which, const NnAttr *attr);
const char *nn_arg_str(MlirOperation func, int arg, const char *name, char *buf, size_t size, const char *otherwise);
const char *nn_result_str(MlirOperation func, int result, const char *name, char *buf, size_t size,
                          const char *otherwise);
int64_t nn_result_i64(MlirOperation func, int result, const char *name, int64_t otherwise);
int64_t nn_arg_i64(MlirOperation func, int arg, const char *name, int64_t otherwise);
// () -> (), empty entry block, at the end of the module
MlirOperation nn_function_create(MlirModule module, const char *name, bool is_private, MlirLocation loc);
MlirValue nn_function_add_arg(MlirOperation func, NnType type, MlirLocation loc, int n_attrs, const NnAttr *attrs);
// Many at once: adding arguments or attributes one by one costs the whole signature each time. One dictionary per
// argument that the entry block has (the function's type follows the block), or per result.
MlirAttribute nn_attr_dictionary(MlirContext ctx, int n, const NnAttr *attrs);
void nn_function_set_arg_attrs(MlirOperation func, int n, const MlirAttribute *dictionaries);
void nn_function_set_result_attrs(MlirOperation func, int n, const MlirAttribute *dictionaries);
// Sets the func.return operands (creating or replacing it) and the result part of the type; result attributes are kept
// for the first `keep` results and empty for the others.
void nn_function_set_results(MlirOperation func, int n, const MlirValue *values, int keep);
void nn_function_remove_arg(MlirOperation func, int arg);   // must have no uses
int nn_function_n_args(MlirOperation func);
int nn_function_n_results(MlirOperation func);
MlirOperation nn_function_return(MlirOperation func);   // func.return, null if absent
bool nn_is(MlirOperation op, const char *full_name);    // nn_is(op, "func.call")

// ---------------------------------------------------------------------------------------------------------------------
// Attention (ops/attention.c): what an attention, attention_grad or attention_grad_packed op computes.

typedef struct NnAttention {
  NnDtype dtype;
  bool backward, causal, heads_last;   // heads_last: q[B, T, H, D] instead of q[B, H, T, D]
  bool packed;                         // the gradients are one tensor, those of each token side by side
  bool joined;                         // so are q, k and v: operands 0, 1 and 2 have all their heads
  int64_t batch, heads, groups, n_queries, n_keys, head_dim;   // groups: heads of keys and values
  double scale, dropout;
  int mask, bias, key;   // operands; -1: none
  int64_t window;        // keys so many or more positions away are not seen; 0: all are
  double softcap;        // scores s become softcap tanh(s / softcap), before the bias; 0: they do not
} NnAttention;
NnAttention nn_attention_of(MlirOperation op);
int64_t nn_attention_first_head(const NnAttention *a, int operand);   // of q, k or v (0, 1, 2), if joined
// The scores [B, H, queries, keys], which only nn_expand_differentiable and the gradient of a bias make as a tensor.
NnType nn_attention_scores(MlirOperation op);
// pairs of a query and a key that it may see by the causal rule, over batch and heads
double nn_attention_pairs(const NnAttention *a);

// ---------------------------------------------------------------------------------------------------------------------
// Scans (scan.c): a loop over the first axis of tensors, kept as a loop. Its step is a public function with
// nn.scan_body, its call a func.call of a declaration with nn.kernel and nn.kind = "scan"; docs/internals.md, "Scans".

// Operands of the call:  slices (T, ...), initial values of stacked and of tied carries, invariants.
// Results of the call:   stacked carries (T + 1, ...), last values of tied carries, outputs (T, ...).
// Arguments of the body: one step of each slice, stacked carries, tied carries, invariants.
// Results of the body:   the new stacked carries, the new tied carries, the step's outputs.
typedef struct NnScan {
  MlirOperation body;   // func.func
  int64_t length;       // T, steps
  // steps T-1 ... 0; a stacked carry then starts in row T
  bool reverse;
  int n_slices, n_stacked, n_tied, n_invariants, n_outputs;
} NnScan;
// Of a func.call or a declaration. False: not a scan.
bool nn_scan_of(MlirOperation op, NnScan *out);
// the same of a call that may stand in a block that is not in the module yet
bool nn_scan_called(MlirModule module, MlirOperation call, NnScan *out);
// Declares @name and calls it at b with operands in the order above. The body's signature says the rest.
MlirOperation nn_scan_build(NnBuilder *b, MlirModule module, const char *name, const NnScan *scan,
                            const MlirValue *operands);
// Makes a scan of a detached block: its arguments are the steps of the slices, the stacked and the tied carries;
// `values` what the body returns. Values from outside that the ops use become invariants, constants are copied. `s`
// needs length, reverse and all counts but that of the invariants; the rest is filled. `operands`: slices and initial
// values. The block is destroyed. Returns the call, made at b.
MlirOperation nn_scan_outline(NnBuilder *b, MlirModule module, const char *name, MlirBlock block, NnScan *s,
                              const MlirValue *operands, const MlirValue *values);
bool nn_is_scan_body(MlirOperation func);
// "train_scan_segments" of the step @train_scan_body and "segments". Owned: free().
char *nn_scan_name(const NnScan *scan, const char *suffix);
MlirModule nn_module_of(MlirOperation op);   // the module that op is in
// The first of "name", "name_2", "name_3" ... that no function of the module has. Owned: free().
char *nn_free_symbol(MlirModule module, const char *name);

#endif
