// Kernel templates: kernels built as LLVM IR directly, for the tensor cores. Here are their building blocks
// (arithmetic, control flow, tiles in shared memory, asynchronous copies, matrix fragments); each template
// (template_*.c) adds a kernel to a module. The same IR goes to PTX and to the emulator.
#ifndef NNC_CODEGEN_CUDA_TEMPLATE_H
#define NNC_CODEGEN_CUDA_TEMPLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "codegen/kernel/emitted.h"
#include "runtime/program.h"
#include "support/draws.h"
#include "llvm-c/Core.h"

typedef LLVMValueRef Val;

// What a template multiplies: 16 bit operands with f32 accumulation; f32 operands rounded to tf32; f32 operands split
// into two tf32 parts each, whose three larger products keep f32's accuracy (Ootomo and Yokota, "Recovering single
// precision accuracy from Tensor Cores", IJHPCA 2022). f64 is for kernels without tensor cores.
typedef enum TileType { TILE_BF16, TILE_F16, TILE_TF32, TILE_F32, TILE_F64 } TileType;
TileType tile_type(NncDtype t);      // of an operand that is computed with as it is
const char *tile_name(TileType t);   // "bf16", "tf32"
static inline int tile_element_bytes(TileType t) { return t <= TILE_F16 ? 2 : t == TILE_F64 ? 8 : 4; }
static inline int tile_chunk(TileType t) { return 16 / tile_element_bytes(t); }   // elements in 16 bytes
static inline int tile_k(TileType t) { return 2 * tile_chunk(t); }                // depth of one product: 16 or 8

// Launch of a template's kernel.
enum { TEMPLATE_NUMBERS = 60 };
typedef struct TemplateLaunch {
  int64_t grid[3];
  int threads, shared_bytes;   // dynamic shared memory
  int n_numbers;               // arguments after the buffers, i32 each
  int32_t numbers[TEMPLATE_NUMBERS];
} TemplateLaunch;

// ---------------------------------------------------------------------------------------------------------------------
// template_build.c: values, control flow

typedef struct Build {
  LLVMModuleRef module;
  LLVMContextRef llvm;
  LLVMBuilderRef builder;   // Owned
  Val function;
  LLVMBasicBlockRef entry;   // variables are declared here
  LLVMTypeRef i1, i8, i16, i32, i64, f32, f64;
  Val tid, lane, warp;   // i32, of the x axis
} Build;

// Begins a kernel with these parameters: 'p' a pointer to global memory (aligned to 16 bytes, not aliased), 'r' one
// that is only read, 'R' a read one aligned to its elements only, 'e' one of which nothing is known, '-' one that is
// not used, 'i' an i32.
void build_kernel(Build *b, LLVMModuleRef module, const char *name, const char *parameters, int threads);
// As few blocks on a multiprocessor are enough: ptxas may give each thread what registers that leaves, rather than keep
// values in local memory for more blocks.
void build_min_blocks(Build *b, int blocks);
void build_finish(Build *b);   // returns from the kernel
Val build_parameter(Build *b, int index, const char *name);

Val build_i32(Build *b, int64_t value);
Val build_f32(Build *b, double value);
Val build_add(Build *b, Val x, Val y);   // i32 or i64, as the operands are
Val build_sub(Build *b, Val x, Val y);
Val build_mul(Build *b, Val x, Val y);
Val build_div(Build *b, Val x, int64_t y);   // unsigned, by a constant
Val build_mod(Build *b, Val x, int64_t y);
typedef struct Divisor {
  Val value, multiplier, shift;
} Divisor;                                             // i32, arguments of the kernel
void template_divisor(int32_t out[3], int64_t d);      // what they are for d
Val build_div_by(Build *b, Val x, const Divisor *d);   // x: i32, below 2^31
Val build_mod_by(Build *b, Val x, const Divisor *d);
Val build_divide(Build *b, Val x, const Divisor *d, Val *rest);   // both
Val build_xor(Build *b, Val x, Val y);
Val build_and(Build *b, Val x, Val y);   // i1 too
Val build_or(Build *b, Val x, Val y);
Val build_less(Build *b, Val x, Val y);   // signed
Val build_equal(Build *b, Val x, Val y);
Val build_min(Build *b, Val x, Val y);
Val build_max(Build *b, Val x, Val y);
Val build_select(Build *b, Val condition, Val yes, Val no);
Val build_i64(Build *b, Val x);   // sign-extended
Val build_i64_constant(Build *b, int64_t value);
Val build_fadd(Build *b, Val x, Val y);   // f32; a product and a sum may become one operation
Val build_fsub(Build *b, Val x, Val y);
Val build_fmul(Build *b, Val x, Val y);
Val build_ffma(Build *b, Val x, Val y, Val z);   // x y + z; f32 or f64, as the operands are, and so the next
Val build_fmax(Build *b, Val x, Val y);
Val build_fequal(Build *b, Val x, Val y);
Val build_exp2(Build *b, Val x);   // approximate, of the special function unit
Val build_log2(Build *b, Val x);
Val build_reciprocal(Build *b, Val x);
Val build_narrow(Build *b, TileType t, Val low, Val high);   // two f32 as one i32 of two 16 bit elements
// What lies in memory, of 16 bits as i16, and what is computed with, f32 or f64: elements, or vectors of them.
LLVMTypeRef build_memory_type(Build *b, TileType t);
LLVMTypeRef build_dtype(Build *b, NncDtype t);   // in memory as kernels from text have it: f16 is half
Val build_widened(Build *b, TileType t, Val x);
Val build_rounded(Build *b, TileType t, Val x);   // to nearest, ties to even; on all architectures
// overload: NULL if the intrinsic has one type only
Val build_intrinsic(Build *b, const char *name, LLVMTypeRef overload, int n, Val *arguments);

Val build_block_id(Build *b, char axis);          // 'x', 'y', 'z'; i32
Val build_thread_number(Build *b, int threads);   // of all blocks along x, which have so many

typedef struct Var {
  Val slot;
  LLVMTypeRef type;
} Var;   // changes over time
Var build_var(Build *b, LLVMTypeRef type, Val initial);
Val build_get(Build *b, Var v);
void build_set(Build *b, Var v, Val value);

typedef struct Loop {
  Var index;
  LLVMBasicBlockRef head, after;
  Val step;
} Loop;
Val build_loop(Build *b, Loop *loop, Val from, Val to, int step);   // for (i = from; i < to; i += step); returns i
void build_loop_end(Build *b, Loop *loop);
typedef struct Branch {
  LLVMBasicBlockRef after;
} Branch;
void build_if(Build *b, Branch *branch, Val condition);
void build_if_end(Build *b, Branch *branch);

void build_barrier(Build *b);
Val build_shuffle_xor(Build *b, Val x, int lane_mask);      // f32 or f64, all lanes
Val build_shuffle_from(Build *b, Val x, Val lane);          // the value of one lane, for all
Val build_offset(Build *b, Val pointer, Val bytes);         // pointer + bytes
Val build_element(Build *b, TileType t, Val base, Val i);   // address of element i, an i64
Val build_load(Build *b, LLVMTypeRef type, Val pointer, int align);
Val build_pair(Build *b, Val low, Val high);   // a vector of two
Val build_splat(Build *b, Val x, int n);       // a vector of n times x
void build_store(Build *b, Val value, Val pointer, int align);
Val build_shared_base(Build *b);   // dynamic shared memory, aligned to GPU_SHARED_ALIGN bytes
// Adds up over the rows of a block, `width` threads each, a power of two: the sum is in the threads of row 0. v:
// `bytes` of an element or a vector; shared: room for one of each thread.
Val build_add_rows(Build *b, Val shared, Val row, int threads, int64_t width, Val v, int bytes);

// ---------------------------------------------------------------------------------------------------------------------
// template_tile.c: tiles in shared memory, fragments

// rows by columns elements in shared memory, rows of 128 bytes or a multiple. The 16 byte chunks of row r are permuted
// by exclusive or with r mod 8, so that neither the copies nor ldmatrix meet bank conflicts.
typedef struct Tile {
  TileType type;
  int rows, columns;
  Val base;   // i8 pointer in address space 3
  // Bytes to go on from base, which change in a loop; both multiples of 128; NULL: none. Fragments join what tells
  // depth steps apart to the address, so that a loop keeps one number for all steps.
  Val moved;
} Tile;
static inline int tile_bytes(const Tile *t) { return t->rows * t->columns * tile_element_bytes(t->type); }
Val build_tile_chunk(Build *b, const Tile *t, Val row, Val chunk);   // address of 16 bytes

// Where a tile comes from: row r, column c at base + (r row_stride + c) elements; rows from n_rows on are taken as
// zero.
typedef struct TileSource {
  Val base;
  int64_t row_stride;   // elements
  Val first_row;        // i32
  int64_t n_rows;
} TileSource;
// Starts copying the tile, all threads of the block together; the caller commits, waits and meets at a barrier.
void build_copy_tile(Build *b, const Tile *t, const TileSource *from, int threads);
void build_commit(Build *b);
void build_wait(Build *b, int groups_pending);

// Fragments for m16n8k16 (k8 with f32 operands). a: 16 rows from row + rows_on (a multiple of 8) on, depth step s: 4
// registers. What is an int costs no register of its own. columns: b of two neighbouring column tiles, 4 registers.
void build_load_a(Build *b, const Tile *t, Val row, int rows_on, int step, Val a[4]);
// b = tile': its rows row..row+15 are columns of the product
void build_load_b(Build *b, const Tile *t, int row, int step, Val pair[4]);
// b = tile: its rows are the depth, in the order that build_narrow_a and build_load_a_transposed (a = tile') have too.
// first: bytes of the columns in front of `column`, a value whose bits are not in those of `column`; NULL: none.
void build_load_b_transposed(Build *b, const Tile *t, int step, Val first, int column, Val pair[4]);
void build_load_a_transposed(Build *b, const Tile *t, int step, Val first, int column, Val a[4]);
// The accumulators of column tiles make up the a operand of depth step s of a following product, without a shuffle: c
// has tiles of 4.
void build_narrow_a(Build *b, TileType t, Val (*c)[4], int step, Val a[4]);
void build_mma(Build *b, TileType t, Val c[4], const Val a[4], const Val b_pair[2]);   // c += a b

// ---------------------------------------------------------------------------------------------------------------------
// template_wgmma.c: products of a warpgroup (warps 4 g to 4 g + 3), only for sm_90a (cuda_has_wgmma). d (64, columns)
// += a (64, 16) b (16, columns), asynchronously:
//   build_wgmma_fence     before the first product, and wherever accumulators or fragments of a were set or read since
//   the last group build_wgmma ...       products with the same accumulators follow each other without a wait
//   build_wgmma_commit    makes a group of them
//   build_wgmma_wait      until at most so many groups are on their way
// Until the wait the accumulators and fragments of a may not be touched, and what is read of shared memory may not be
// written; the wait returns the values of those accumulators whose groups are over, and accumulators on their way may
// be passed on to further products without one. Shared memory that threads have written (copied, too, after the wait
// for the copy) may be read by products after build_async_fence in the writing thread and a barrier.

enum { WGMMA_ALIGN = 1024, WGMMA_DEPTH = 16 };
// Bytes that a launch asks for in addition where its kernel begins at build_wgmma_base.
enum { WGMMA_PADDING = 1024 - 128 };
typedef struct Wgmma {
  TileType type;   // TILE_BF16 or TILE_F16
  int columns;     // a multiple of 8 up to 256
  bool a_in_registers;
  bool a_transposed, b_transposed;   // in shared memory rows are the depth; a in registers cannot be
} Wgmma;
// The first place in dynamic shared memory that is aligned to WGMMA_ALIGN bytes, as tiles for these products have to
// be.
Val build_wgmma_base(Build *b);
// What tells an operand in shared memory: a part of a Tile with rows of 128 bytes, from a row that is a multiple of 8
// on. Not transposed: its rows are those of a or the columns of b, and `pointer` is the first of them, plus 32 bytes
// for each depth step; `stride` (1024) are the bytes from 8 rows to the next 8; `leading` means nothing (16).
// Transposed: its rows are the depth, 16 of them 2048 bytes a depth step on, and each has 64 rows of a or columns of b;
// `leading`: bytes to the tile with the next 64; stride as above.
Val build_descriptor(Build *b, Val pointer, int leading, int stride);   // i64
// the same so many bytes on, a multiple of 16, i32 or i64, in the same matrix or others of the kind
Val build_descriptor_on(Build *b, Val descriptor, Val bytes);
// c: columns / 2 accumulators, f32, replaced by the new ones. Of lane 4 g + p of warp w c[4 t + i] is row 16 (w mod 4)
// + g + 8 (i / 2), column 8 t + 2 p + i mod 2: tiles of build_mma. a: its descriptor, or the 4 registers of the warp's
// 16 rows as in build_mma (build_narrow_a makes them). scale: i32, 0: d = a b; NULL: 1.
void build_wgmma(Build *b, const Wgmma *w, Val *c, const Val *a, Val b_descriptor, Val scale);
void build_wgmma_fence(Build *b);
void build_wgmma_commit(Build *b);
// c: n accumulators, not 1, replaced; those that are still on their way stay so. n: 0, none is looked at
void build_wgmma_wait(Build *b, int groups_pending, int n, Val *c);
void build_async_fence(Build *b);
// The functions that the above calls, as inline assembly: before PTX is written, and not for the emulator.
void template_expand_assembly(LLVMModuleRef module);
// template_build.c: for architectures before 8.0, which have no instruction that rounds to bf16.
void template_expand_bf16(LLVMModuleRef module);

// ---------------------------------------------------------------------------------------------------------------------
// template_random.c: Philox 4x32-10 (Salmon et al., SC 2011), with the draws of random_uniform.

typedef struct RandomKey {
  Val word[4];
} RandomKey;
RandomKey build_random_key(Build *b, Val row);   // row: pointer to i32[4]
// 1/(1-p) where the draw of element `index` (i64) keeps it, else 0; `type` f32 or f64, in which the number is drawn.
Val build_keep(Build *b, const RandomKey *key, Val index, double p, LLVMTypeRef type);
// The same as bits, for the price of one: `word` (i32) with bits from `bit` on set where the draws of the four elements
// from DRAW_BLOCK * block on keep them. block: i64, or i32, not negative.
Val build_keep_block(Build *b, const RandomKey *key, Val block, double p, Val word, int bit);

// ---------------------------------------------------------------------------------------------------------------------
// template_attention*.c

// softmax(scale q k' + mask) v for each of batch x heads. Rows of q and k are tokens, columns the head dimension with
// stride 1.
typedef struct AttentionStrides {
  int64_t batch, head, row;
} AttentionStrides;   // elements
typedef struct Attention {
  TileType type;
  // groups: heads of keys and values, each for heads / groups of the queries'
  int64_t batch, heads, groups, n_queries, n_keys;
  int head_dim;
  bool backward, causal;   // causal: query i sees keys 0 .. i + n_keys - n_queries
  bool masked;             // keys whose byte of mask is 0 are not seen
  bool biased;             // as NncAttention has it, and so are the next four
  int64_t bias_batch, bias_head, window;
  double softcap;
  bool plain;   // without tensor cores
  bool wgmma;   // with the products of warpgroups
  // the gradients are one tensor (batch, tokens, (heads + 2 groups) head_dim): of each token dq of all heads, then dk,
  // then dv
  bool packed;
  bool joined;   // q, k and v are: each is read from such a tensor, where it is there
  double scale, dropout;
  AttentionStrides q, k, v, o, dq, dk;   // o: its gradient, too; dk: dv, too
} Attention;
// Whether the tensor-core kernels fit: head dimension 64 or 128, rows of multiples of 16 bytes.
bool attention_supported(const Attention *a);
// and those with the products of warpgroups, where the architecture has them
bool attention_wgmma_supported(const Attention *a);
// The kernels of attention or, if `backward`, of its gradients, run in order. All have the same parameters. Forward: q,
// k, v, mask (batch, n_keys) bytes if masked, bias (f32, with f64 f64) if biased, key i32[4] if dropout > 0, o
// (written), lse (batch, heads, n_queries) f32, or f64 with f64 (written): the logarithm of the row's sum of
// exponentials, infinite for a row that sees no key. Backward: q, k, v, o, lse, do, mask, bias, key, dq, dk, dv
// (written; packed: one), delta (as lse; workspace). No sum depends on timing.
int attention_launches(const Attention *a);
int64_t attention_workspace(const Attention *a);   // bytes
void attention_build(LLVMModuleRef module, const Attention *a, int which, const char *name, TemplateLaunch *launch);

// ---------------------------------------------------------------------------------------------------------------------
// template_conv*.c: convolutions as implicit matrix products; the matrix of windows exists only as tiles in shared
// memory

// What is done with results before they are written (epilogue.c): a function of the module from a vector of
// EPILOGUE_LANES neighbouring results in f32, and of each input as it lies in memory, to a vector for each output as it
// lies in memory, then one in f32 for each sum.
enum { EPILOGUE_INPUTS = 12, EPILOGUE_OUTPUTS = 4, EPILOGUE_SUMS = 4, EPILOGUE_LANES = 4 };
// one for each result, for each channel, one in all; SLICE: one for each result, of a tensor that has more channels
typedef enum EpilogueShape { EPILOGUE_ELEMENT, EPILOGUE_CHANNEL, EPILOGUE_SCALAR, EPILOGUE_SLICE } EpilogueShape;
// aligned: its buffer begins at a multiple of 16 bytes
typedef struct EpilogueValue {
  NncDtype dtype;
  EpilogueShape shape;
  bool aligned;
} EpilogueValue;
typedef struct ConvEpilogue {
  char function[24];   // "": none, the results are written as they are
  int n_inputs, n_outputs, n_sums;
  EpilogueValue input[EPILOGUE_INPUTS], output[EPILOGUE_OUTPUTS];   // outputs are of shape EPILOGUE_ELEMENT
  // Over all pixels, by channel: the sum, or the mean and the sum of squared differences from it. Each block leaves
  // what its rows of the product give, one array (row blocks, channels) in f32 for a sum, two for moments, in the
  // workspace.
  bool moments[EPILOGUE_SUMS];
} ConvEpilogue;

typedef struct ConvShape {
  TileType type;
  NncConvPass pass;
  int64_t n, c, h, w, o, oh, ow, kh, kw, stride[2], pad[2], dilation[2], groups;   // pad: top, left
  TileType result;         // TILE_F32 for f32 results of narrow operands: gradients of weights
  bool grouped;            // by the kernels of template_grouped*.c
  bool wgmma, wide;        // products of warpgroups: 16 bit types on sm_90a; with 256 columns
  ConvEpilogue epilogue;   // of the forward pass and the input gradient
  // of a forward pass with one tap: what the first operand goes through; its one input of shape EPILOGUE_ELEMENT is
  // that operand, its one output the new one
  ConvEpilogue prologue;
  int64_t slice_channels, slice_first;   // of the epilogue's inputs of shape EPILOGUE_SLICE, of which all are alike
  // where the arrays of partial sums begin in the workspace, and how far apart, in elements
  int64_t partials, partials_pitch;
  // What the shapes of one kernel do with its results, with an epilogue or without: its ending number `ending`, an
  // argument (conv_endings.c). One: the shape's own.
  int ending;
  int ending_buffers;                    // the most inputs and outputs that an epilogue of the kernel has
  const struct ConvShape *next_ending;   // Borrowed; in the shape that the kernel is built from, and so on; NULL: none
} ConvShape;
// False: not for a template (channels first, other weights than oihw, channel counts per group that are no multiples of
// 16 bytes, sizes beyond 32 bits).
bool conv_template_shape(const NncConv *c, TileType type, int64_t wide_blocks, ConvShape *shape);
// The same for groups of any number of channels, in all types, without tensor cores: *shape is `grouped`, and has all
// functions below.
bool conv_grouped_shape(const NncConv *c, int64_t wide_blocks, ConvShape *shape);
// A convolution is one or two kernels, run in order. All have the same parameters: the buffers of NncConv in its order,
// the workspace if there is one, then the launch's numbers. Weights are (o, c / groups, kh, kw). With an epilogue the
// last kernel's are x, w (or dy, w), y (or dx), or what stands for nothing, the workspace likewise, the epilogue's
// inputs and outputs, so many as ending_buffers says, those inputs of the prologue that are not x.
int conv_template_launches(const ConvShape *c);
bool conv_takes_prologue(const ConvShape *c);
int64_t conv_template_workspace(const ConvShape *c);   // bytes
// rows of a block: pixels whose partial sums are one
int conv_template_rows(void);
// Owned: free. Equal for shapes that one kernel serves
char *conv_template_symbol(const ConvShape *c, int which);
void conv_template_launch(const ConvShape *c, int which, TemplateLaunch *launch);
void conv_template_build(LLVMModuleRef module, const ConvShape *c, int which, const char *name);

// Of what ranks give each other: a kernel that adds up what they have sent, or one that rounds f32 to the type.
typedef struct CollectiveTemplate {
  TileType type;
  bool rounds;
} CollectiveTemplate;

// template_rows.c: what goes along an axis, one launch; the workspace comes last.
int64_t rows_template_workspace(const NncRows *r);   // bytes; 0: none, and no parameter
void rows_template_launch(const NncRows *r, TemplateLaunch *launch);
const char *rows_template_schedule(const NncRows *r);   // in words
void rows_template_build(LLVMModuleRef module, const NncRows *r, const char *name);

// What the functions of a kernel are built from: EmittedKernel.template.
typedef struct CudaTemplate {
  enum { TEMPLATE_CONV, TEMPLATE_DEPTHWISE, TEMPLATE_ATTENTION, TEMPLATE_COLLECTIVE, TEMPLATE_ROWS } kind;
  union {
    ConvShape conv;
    NncConv depthwise;
    Attention attention;
    CollectiveTemplate collective;
    NncRows rows;
  };
} CudaTemplate;
// NULL where the kernel is from another template, or written as text.
static inline ConvShape *template_conv_of(const EmittedKernel *k) {
  CudaTemplate *t = k->template;
  return t && t->kind == TEMPLATE_CONV ? &t->conv : NULL;
}
static inline const Attention *template_attention_of(const EmittedKernel *k) {
  const CudaTemplate *t = k->template;
  return t && t->kind == TEMPLATE_ATTENTION ? &t->attention : NULL;
}

// codegen/cuda/collective.c; parameters: sum (n), parts (ranks, n), n, ranks, adds; or to (n), from (n), n
void collective_build(LLVMModuleRef module, const CollectiveTemplate *c, const char *name);

#endif
