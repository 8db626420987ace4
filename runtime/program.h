// The contract between the compiler and the runtime: the tables that codegen/ writes as C initialisers into every
// executable and that runtime/ reads. One static NncProgram named nnc_program. All memory a program uses for tensors is
// one arena of arena_bytes, and perhaps a far arena of far_bytes in other memory. Every offset of a buffer or a tensor
// below is an address (support/bytes.h): bytes from the start of the arena, in units of NNC_ALIGN, or FAR_ADDRESS and
// bytes from the start of the far one, in whole blocks. Only COPY steps and persistent tensors have far addresses.
#ifndef NNC_RUNTIME_PROGRAM_H
#define NNC_RUNTIME_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#define NNC_ALIGN 64
#define NNC_MAX_RANK 8

// Order as NnDtype in ir/ir.h. ORDER DTYPE
typedef enum NncDtype {
  NNC_F32,
  NNC_F64,
  NNC_BF16,
  NNC_F16,
  NNC_I32,
  NNC_I64,
  NNC_U8,
  NNC_I1,
  NNC_U16,   // it and what follows only in data files
  NNC_I8,
  NNC_I16,
  NNC_U32,
} NncDtype;

typedef enum NncRole {
  NNC_INPUT,   // one batch of data, written by the runtime before each call
  NNC_PARAM,   // trained; persistent
  NNC_STATE,   // not trained but updated by steps (batch-norm statistics); persistent
  NNC_OPT,     // optimizer state; persistent
  NNC_ACCUM,   // gradient accumulator; persistent
  NNC_RNG,     // i32[S, 4]: row s = seed low, seed high, step, s; written before each call
  // f64[3 G]: per parameter group the learning rate, 1 - beta1^t, 1 - beta2^t; behind them, as far as it goes, the
  // share of a micro-batch, whether the rank is the last, the number of the step from 1. Written before each call
  NNC_HYPER,
  NNC_LOSS,
  NNC_METRIC,
  NNC_OUTPUT,   // results
  // of decode, kept from call to call: keys or values of all positions so far, in rows, zeros where none are yet
  NNC_CACHE,
} NncRole;

// A tensor the runtime can name: an argument or a result of a function, or a persistent value.
typedef struct NncTensor {
  const char *name;   // "conv2d_1.weight", "image", "loss"
  NncRole role;
  NncDtype dtype;
  int rank;
  int64_t dim[NNC_MAX_RANK];   // logical shape, as the user wrote it and as weight files hold it
  int64_t bytes;
  int64_t offset;
  int group;          // parameter group, -1 none
  const char *init;   // parameters and state: "zeros", "constant(1)", "normal(0.02)", "uniform(-0.1,0.1)";
                      // docs/language.md. Inputs of a prediction: how training draws them, NULL where it does not
  int64_t pitch;      // taps: elements from row to row, where that is more than the last of dim; 0: it is not
  // results: fetched in parts, by the taps of its name, into memory beside the arena, at `offset` there
  bool streamed;
  int64_t first_row, rows;   // taps of a part: which rows of the value, all axes but the last one; rows 0: all
  int64_t limit;             // integer inputs that select a row or a class: values lie in [0, limit); 0: any value
  int64_t besides;           // and this one, a label that is ignored; 0: none
  bool whole;                // inputs: all of the tensor is read, without an axis of records (a graph, a number)
  int n_channels;   // inputs: parts of a record that are normalised alike, x to (x - mean) / deviation, a byte x to
                    // (x/255 - mean) / deviation; 0: none is
  const double *mean, *deviation;   // (n_channels)
  bool carried;                     // states: goes on from batch to batch with a text, and begins anew with it
  const char *average_of;   // states: the parameter whose moving average it is, which begins as that does; NULL: none
                            // is
  bool csr;                 // inputs: files hold the starts of rows, the input the row of each edge
  // persistent: at `offset` lies a rank's part, so many elements of the arena's order (support/bytes.h); 0: all of it
  int64_t part;
} NncTensor;

// Convolution and matrix product for the library, in elements. Strides let transposed operands be read in place.
typedef struct NncConvAxis {   // of an image: sizes of x and y, the window, the padding on both sides; dilation 1 =
                               // dense
  int64_t in, out, kernel, stride, dilation, before, after;
} NncConvAxis;
typedef enum NncConvPass { NNC_CONV_FORWARD, NNC_CONV_INPUT_GRAD, NNC_CONV_WEIGHT_GRAD } NncConvPass;
typedef struct NncConv {   // buffers: forward x, w, y; input gradient dy, w, dx; weight gradient x, dy, dw
  NncConvPass pass;
  // of the operands; of what is written: the same, or f32 for the weight gradient of narrow ones
  NncDtype dtype, result;
  bool channels_last;   // of x, y and their gradients; w is (o, c/groups, [kd,] kh, kw)
  int64_t n, c, h, w, o, oh, ow, kh, kw;
  int64_t stride[2], pad[4], dilation[2], groups;   // pad: top, bottom, left, right; dilation 1 = dense
  int64_t scratch_bytes;
  NncConvAxis depth;   // of volumes, the axis in front of h, in w too; all 0: images
} NncConv;
enum { NNC_CONV_AXES = 3 };

static inline bool nnc_conv_is_3d(const NncConv *c) { return c->depth.in > 0; }

// The axes of the window, the outermost first; how many there are.
static inline int nnc_conv_axes(const NncConv *c, NncConvAxis axes[NNC_CONV_AXES]) {
  int n = 0;
  if (nnc_conv_is_3d(c)) axes[n++] = c->depth;
  axes[n++] = (NncConvAxis){c->h, c->oh, c->kh, c->stride[0], c->dilation[0], c->pad[0], c->pad[1]};
  axes[n++] = (NncConvAxis){c->w, c->ow, c->kw, c->stride[1], c->dilation[1], c->pad[2], c->pad[3]};
  return n;
}

// Pixels of an image of x and of y, elements of a window.
static inline NncConvAxis nnc_conv_sizes(const NncConv *c) {
  NncConvAxis axes[NNC_CONV_AXES], all = {.in = 1, .out = 1, .kernel = 1};
  int n = nnc_conv_axes(c, axes);
  for (int i = 0; i < n; i++) all.in *= axes[i].in, all.out *= axes[i].out, all.kernel *= axes[i].kernel;
  return all;
}

typedef struct NncMatmul {   // C[b] = A[b] (m x k) * B[b] (k x n), or C[b] += that; buffers A, B, C
  NncDtype dtype, result;    // of A and B; of C: the same, or f32 where they are bf16 or f16
  int64_t batch, m, n, k;
  int64_t a_batch, a_row, a_col, b_batch, b_row, b_col, c_batch, c_row;   // strides; C's columns are contiguous
  int64_t scratch_bytes;
  bool adds;         // to what lies in C, which is f32 or f64 then
  bool packs_once;   // in a loop, B stays the same and is packed in the workspace: the host alone
} NncMatmul;

// softmax(scale q k' + mask) v of each batch and head, and its gradients, without the scores in memory. q and what has
// its shape: (batch, heads, n_queries, head_dim), or with heads_last (batch, n_queries, heads, head_dim); k, v likewise
// with `groups` heads, each for heads / groups heads of q. buffers: q, k, v, mask, bias, key, o, lse; backward q, k, v,
// o, lse, do, mask, bias, key, dq, dk, dv; mask (batch, n_keys) bytes, bias and key i32[4] only where masked, where
// biased and where dropout > 0. bias, of the type of lse, is added to the scores; its element (batch, head, query, key)
// is bias_batch batch + bias_head head + query n_keys + key. -infinity hides a key. packed: the gradients are one
// buffer, (batch, n_queries, (heads + 2 groups) head_dim): of each token dq of all heads, then dk, then dv; n_keys is
// n_queries then. joined (with heads_last): so are the buffers of q, k and v, of each token q of all heads, then k,
// then v; mostly the same three times, of which each is read where it is.
typedef struct NncAttention {
  NncDtype dtype;                                      // lse (batch, heads, n_queries) has the same
  bool backward, packed, causal, heads_last, masked;   // causal: query i sees keys 0 .. i + n_keys - n_queries
  int64_t batch, heads, groups, n_queries, n_keys, head_dim;
  double scale, dropout;
  int64_t scratch_bytes;
  bool biased;
  int64_t bias_batch, bias_head;   // elements; 0: the same for all
  int64_t window;                  // query i sees keys less than that far away from i + n_keys - n_queries; 0: all
  double softcap;                  // scores s become softcap tanh(s / softcap), before the bias; 0: they do not
  bool joined;
} NncAttention;

// What goes along an axis: (outer, length, inner) to (outer, count, inner). Buffers: operands, result.
typedef enum NncRowsKind {
  NNC_ROWS_SUM,
  NNC_ROWS_PRODUCT,
  NNC_ROWS_ARGMAX,
  NNC_ROWS_ARGMIN,
  NNC_ROWS_RECURRENCE,   // a, b, y
  NNC_ROWS_ARGSORT,
  NNC_ROWS_TAKE,      // x, indices (outer, count, inner), y
  NNC_ROWS_SCATTER,   // x (outer, length, inner), indices alike, y
  // Fourier transforms of `outer` rows of `length`, a complex number two elements: of real rows to the first half of
  // their spectra, length / 2 + 1 numbers, its adjoint, and of complex rows
  NNC_ROWS_SPECTRUM,
  NNC_ROWS_OF_SPECTRUM,
  NNC_ROWS_FOURIER,
} NncRowsKind;
typedef struct NncRows {
  NncRowsKind kind;
  NncDtype dtype, index;   // of the first operand; of the indices that are read
  int64_t outer, length, inner, count;
  bool backward;   // of cumulative and recurrence: from the end; of argsort: descending; of FOURIER: the inverse
  bool unique;     // no index is twice in a row
  bool last;       // of a scatter: what comes later takes the place of what is there
  int64_t scratch_bytes;
} NncRows;

// What a library computes, or on a GPU a kernel made for its shape: X(KIND, name, record, on a GPU KERNEL or CUBLAS),
// for each a step NNC_STEP_<KIND> with its record in NncStep.<name>. The ops that are steps of these kinds:
// ir/library.def. Besides the record there are
// - what of an op it holds, and the record as text: read_<name>, write_<name> (codegen/op_records.c);
// - on the host nnc_<name>_scratch, nnc_<name>_prepare, nnc_<name>_implementation (runtime/library.h);
// - on a GPU the kernel, cuda_library_<name> (codegen/cuda), or the call of cuBLAS, cuda_call_<name>
//   (runtime/cuda/library.c); the emulator has its own cuBLAS (cuda/emulator/blas.c).
#define NNC_LIBRARY_RECORDS(X)                  \
  X(CONV, conv, NncConv, KERNEL)                \
  X(MATMUL, matmul, NncMatmul, CUBLAS)          \
  X(ATTENTION, attention, NncAttention, KERNEL) \
  X(ROWS, rows, NncRows, KERNEL)

// What ranks, the processes of a distributed program, give each other. buffers: what is laid one behind the other in
// the last one, which is the result; RANK_RECEIVE skips the first. workspace: scratch_bytes.

// Bytes that are exchanged at once, and of the workspace: of a device as many as keep a network busy, for parts half of
// that, as an all-reduce has its numbers in the result already; on the host what caches still have when it is sent
// (docs/ranks.md).
enum {
  NNC_COLLECTIVE_PIECE = 25 << 20,
  NNC_SCATTER_PIECE = NNC_COLLECTIVE_PIECE / 2,
  NNC_HOST_COLLECTIVE_PIECE = 4 << 20
};
// Parts are those of `ranks` (ir/ops.def, elements_per_rank in support/bytes.h).
typedef enum NncCollectiveKind {
  NNC_ALL_REDUCE,
  NNC_RANK_RECEIVE,
  NNC_RANK_SEND,
  NNC_REDUCE_SCATTER,   // buffers: tensors, where it adds as many parts, the parts of the sums
  // buffers: parts, the tensors one behind the other; of one part the last may be shorter. On the host scratch_bytes,
  // where there are any, are all of it: the parts travel together.
  NNC_ALL_GATHER,
  NNC_RANK_PART,   // buffers: tensor, part; no other rank is asked
} NncCollectiveKind;
typedef struct NncCollective {
  NncCollectiveKind kind;
  NncDtype dtype;
  int64_t elements;   // of the result
  int64_t scratch_bytes;
  NncDtype from;     // of the operands: dtype, or f32 that is gathered in dtype
  int ranks;         // that have parts; 0: any number, which have none
  bool adds, fast;   // fast: the engine's own sum, where it has one; of f32 or f64
} NncCollective;

// Steps of one lane run one after the other, those of several beside each other, but for their waits. Order as NnLane
// in passes/plan/plan.h. ORDER LANE
typedef enum NncLane { NNC_LANE_COMPUTE, NNC_LANE_OUT, NNC_LANE_IN, NNC_LANE_COMM, NNC_LANES } NncLane;

// A generated kernel runs iterations [begin, end) of its outer loop. buffers[i] is the address of its i-th buffer.
typedef void (*NncKernelFn)(void *const *buffers, int64_t begin, int64_t end);

// A kernel on a GPU: one launch. The arguments are the addresses of the step's buffers, in order, then the numbers.
typedef struct NncLaunch {
  const char *symbol;   // in the module of NncCuda
  int64_t grid[3], block[3];
  int64_t shared_bytes;   // dynamic shared memory
  // of the step's buffers, the last: no arguments, the kernel finds them from the first one, the arena
  int n_hidden;
  int n_numbers;
  const int32_t *numbers;
} NncLaunch;

// What a kernel of several operations computes: a text of NncProgram, of which runtime/expression.h evaluates single
// elements.
typedef struct NncExpression {
  int32_t text;       // of expressions, from 1; 0: a single operation, or one that is not told
  int32_t operands;   // of its step's `buffers`, perhaps in front of them: the first operand; results follow
} NncExpression;

// A call among those of one launch: what NncStep says of a step of its own.
typedef struct NncPart {
  const char *cost_key;
  double flops, bytes, seconds;
  NncExpression expression;
} NncPart;

enum { NNC_WRITTEN = 256, NNC_NO_VALUES = -1 };

typedef enum NncStepKind {
  NNC_STEP_KERNEL,
  NNC_STEP_CONV,
  NNC_STEP_MATMUL,
  NNC_STEP_COPY,
  NNC_STEP_TAP,
  NNC_STEP_SCAN,
  NNC_STEP_ATTENTION,
  NNC_STEP_ROWS,
  NNC_STEP_COLLECTIVE
} NncStepKind;
typedef struct NncStep {   // what every step has stands first, so that the tables need not name it
  NncStepKind kind;
  const char *label;   // "kernel_12: bn+relu", "conv2d", for bench and errors
  const char *where;   // "model.nn:12:5, model.nn:13:9": what of the source it computes; NULL: not recorded
  int n_buffers;
  const int64_t *buffers;   // addresses; COPY: source, destination
  // bytes of each buffer, so that the runtime can check what is used against the plan; NULL: not recorded
  const int64_t *buffer_bytes;
  // the element type of each buffer, with NNC_WRITTEN where the step writes it, or NNC_NO_VALUES; NULL: not recorded
  const int64_t *buffer_values;
  int64_t workspace;              // arena offset of the library's scratchpad, or -1
  double flops, bytes, seconds;   // of one execution, from the cost model; a kernel's stand at its first launch
  bool recomputed;
  // what it computes on which shapes: equal for equal work; launches of one kernel share it. NULL: not recorded
  const char *cost_key;
  NncKernelFn kernel;                // KERNEL
  int64_t extent;                    // KERNEL: iterations of the outer loop, shared out over the threads
  int64_t grain;                     // KERNEL: fewest iterations worth a thread of its own
  const NncLaunch *launch;           // KERNEL on a GPU, instead of kernel, extent and grain
  const NncConv *conv;               // CONV
  const NncMatmul *matmul;           // MATMUL
  const NncAttention *attention;     // ATTENTION
  const NncRows *rows;               // ROWS
  const NncCollective *collective;   // COLLECTIVE
  int64_t copy_bytes;                // COPY
  const struct NncScan *scan;        // SCAN; its workspace is that of one iteration
  const NncTensor *tap;              // TAP: name, type and offset of the value
  // KERNEL that does the work of several calls in one launch: them, with their cost_key; then it has none itself
  int n_parts;
  const NncPart *parts;
  NncExpression expression;   // KERNEL
  NncLane lane;
  int n_waits;            // not inside of scans
  const int32_t *waits;   // steps of other lanes before it that must be over: one of a lane, all before it are then,
                          // too
} NncStep;

// A loop: the steps run one after the other, `iterations` times. A buffer of theirs lies at its offset plus the
// iteration times its stride: 0 for what is the same in all iterations, the bytes of a row for what is gone through,
// negative for a loop that goes backwards. In a loop inside of another, it moves with the iterations of both.
typedef struct NncScan {
  int64_t iterations;
  int n_steps;
  const NncStep *steps;   // of all kinds but TAP
  int depth;              // strides per buffer
  // per step, then per buffer: by an iteration of this loop, of the one around it, and so on
  const int64_t *const *strides;
} NncScan;

// "train" runs one whole step (forward, backward, update), or in a program with phases "train.<phase>" a part of it.
// With gradient accumulation "accumulate" runs the earlier micro-batches of a step and "train" the last. "eval"
// computes loss and metrics, "predict" the outputs of the main model, "predict.<model>" those of another one of the
// file. "decode" computes those of one position of a text,
// `position` of its inputs, from its token and caches of what came before.
typedef struct NncFunction {
  const char *name;
  // inputs, rng, hyper: their offsets are the function's own; not the persistent ones
  int n_args;
  const NncTensor *args;
  int n_results;
  const NncTensor *results;   // loss, metrics, outputs; read after the last step
  int n_steps;
  const NncStep *steps;
  int64_t arena_bytes;   // peak of this function, persistent part included
  int64_t far_bytes;     // the same of the far arena
  int64_t live_bytes;    // largest sum of live buffers: a lower bound on arena_bytes
  double flops;
  double recompute_overhead;   // predicted added time over no recomputation, 0.07 = 7 %
} NncFunction;

struct Column;
typedef struct NncData {   // one `data` or `eval` line of the train section
  const char *split;       // "train" or "eval"
  const char *reader;      // "idx", "npy", "npz", "safetensors", "bytes", "tokens", "csv", "images", "hdf5"
  int n_names;
  const char *const *names;   // the inputs it feeds, in order
  int n_files;
  const char *const *files;     // names or patterns of files
  const int32_t *file_counts;   // files of each name; NULL: one each
  NncDtype dtype;               // tokens: of raw numbers
  // The records stay in their files, and threads read num_workers * prefetch_factor batches ahead; 0: held in memory.
  int32_t num_workers, prefetch_factor;
  // Of a reader that is linked with programs that need it alone, such as nnc_open_images; NULL: another one.
  bool (*open)(const struct NncData *d, const NncFunction *f, const char *folder, struct Column *columns);
  int32_t resize;     // images: of the shorter side before the middle is cut out; 0: as little as covers it
  bool skip_broken;   // images: of one that cannot be read the next takes the place
  int n_fields;
  const char *const *fields;              // safetensors, npz, hdf5: names of tensors, one per input
  const int32_t *field_counts;            // csv: columns of each name
  int64_t hash;                           // csv: cells are categories, with so many numbers; 0: numbers
  int32_t separator;                      // csv: a character
  int64_t begin_permille, end_permille;   // part of the records used, 0..1000
  // bytes, tokens: tokens per record; names = tokens, targets (shifted by one); records overlap by none
  int64_t sequence;
  bool whole;       // each tensor is one record
  bool continued;   // row i of a batch follows row i of the batch before; not shuffled
  int n_flipped;
  const char *const *flipped;   // inputs whose images are mirrored, left to right, with the chance flip
  // inputs whose images get a black border of crop pixels and are cut back to their size somewhere
  int n_cropped;
  const char *const *cropped;
  double flip;
  int64_t crop;
} NncData;
bool nnc_open_images(const NncData *d, const NncFunction *f, const char *folder, struct Column *columns);
bool nnc_open_hdf5(const NncData *d, const NncFunction *f, const char *folder, struct Column *columns);

typedef struct NncGroup {   // optimizer parameter group, as far as the runtime needs it
  double lr, beta1, beta2;
  // the learning rate in a step, counted from 1, of so many, whatever the schedule; NULL: lr times that
  double (*rate)(double step, double steps);
} NncGroup;

// A part of each step with a loss, an optimizer and parameters of its own: functions "train.<name>" and, with gradient
// accumulation, "accumulate.<name>". It is run in the steps, from 1, that are multiples of `every`.
enum { NNC_MAX_PHASES = 16 };   // with gradient accumulation two functions each

typedef struct NncPhase {
  const char *name;
  const char *optimizer;
  int64_t every;
  int first_group, n_groups;                       // of its parameters
  double (*schedule)(double step, double steps);   // as of the program, of the steps that the phase is run in
} NncPhase;

// What a program for a GPU brings along. One of ptx and module is set.
struct CudaApi;
typedef struct NncCuda {
  const char *arch;            // "sm_90a": what the kernels were made for
  int ptx_version;             // 80: version 8.0 of PTX
  bool tf32;                   // products of f32 operands keep 11 bits of each
  const char *ptx, *ptx_end;   // text, *ptx_end is 0; NULL under the emulator
  // the same in parts, assembled for arch when ptxas was found; NULL behind the last
  const void *const *cubins;
  const void *module;                  // under the emulator: its NncEmuModule
  bool (*load)(struct CudaApi *api);   // fills the table of the driver's functions; reports
} NncCuda;

typedef struct NncProgram {
  const char *model, *source, *compiler;     // name, .nn file name, nnc version
  const char *source_id;                     // tells files of one name apart; NULL: not known
  const char *target, *cpu;                  // "host", LLVM CPU name
  const char *isa;                           // the library instruction set that scratch sizes were asked for
  int64_t arena_bytes, persistent_bytes;     // persistent values lie in [0, persistent_bytes)
  int64_t far_bytes, far_persistent_bytes;   // the same of the far arena
  const char *far_path;                      // of the host's file for it; NULL: the current folder
  int64_t budget_bytes;                      // 0: none asked
  const char *remat;                         // policy used
  int n_persistent;
  const NncTensor *persistent;
  int n_functions;
  const NncFunction *functions;
  const char *const *expressions;   // what kernels compute
  int n_data;
  const NncData *data;
  int n_groups;
  const NncGroup *groups;
  const char *optimizer;   // its name
  // the factor of all learning rates in a step, counted from 1, of so many; NULL: 1
  double (*schedule)(double step, double steps);
  int n_phases;   // 0: a step is the function "train"
  const NncPhase *phases;
  int64_t batch;        // records per micro-batch
  int64_t accumulate;   // micro-batches per step, >= 1
  double epochs;
  int64_t steps;        // one of them > 0
  int64_t eval_every;   // steps; 0: after each epoch
  int64_t seed;
  const struct NncDevice *device;   // what runs the steps: nnc_device_host or nnc_device_cuda
  const NncCuda *cuda;              // NULL for the host
  int64_t patience;                 // evaluations without a better loss before training ends; 0: no such end
  int n_labels;
  const char *const *labels;   // names of the classes, in order
  double validation;           // part of the train data that is left out and evaluated, 0: none
  // threads that scratch sizes were asked for (nnc_library_threads); 0: not recorded
  int threads;
  // what may move bytes between ranks (runtime/comm/comm.h), NULL behind the last; NULL: there is one rank
  const struct NncComm *const *comms;
  const char *shard;   // what ranks keep only a part of: "none", "optimizer", "gradients", "parameters"; NULL: one rank
  int ranks;           // that have parts; 0: any number can run it
} NncProgram;

extern const NncProgram nnc_program;

extern const struct NncDevice nnc_device_host, nnc_device_cuda;
extern const struct NncComm nnc_comm_mpi, nnc_comm_tcp;
bool nnc_cuda_load(struct CudaApi *api);   // libcuda and libcublas by dlopen
bool nnc_cuda_load_emulator(struct CudaApi *api);

#endif
