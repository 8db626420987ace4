// What the three attention kernels share. Each keeps the rows of one or two operands for the block (queries, or keys in
// the gradient of keys and values) and streams tiles of two others past them, double-buffered: scores = rows times
// tile', then sums of (function of the scores) times tile.
#ifndef NNC_CODEGEN_CUDA_TEMPLATE_ATTENTION_H
#define NNC_CODEGEN_CUDA_TEMPLATE_ATTENTION_H

#include "codegen/cuda/template/template.h"

typedef enum AttentionKernel { ATTENTION_FORWARD, ATTENTION_BACKWARD_Q, ATTENTION_BACKWARD_KV } AttentionKernel;

// The parameters of a kernel; NULL where it has none of that name. dy: the gradient of o; dq, dk, dv: of packed
// gradients, where they begin.
typedef struct AttentionOperands {
  Val q, k, v, mask, bias, key, o, lse, dy, dq, dk, dv, delta;
} AttentionOperands;
// Begins the kernel and names its parameters.
AttentionOperands attention_declare(Build *b, LLVMModuleRef module, const Attention *a, AttentionKernel kernel,
                                    const char *name, int threads);
// template_attention_plain.c
void attention_plain(LLVMModuleRef module, const Attention *a, AttentionKernel kernel, const char *name,
                     TemplateLaunch *launch);
// with tensor cores
void attention_forward(LLVMModuleRef module, const Attention *a, const char *name, TemplateLaunch *launch);
void attention_backward_q(LLVMModuleRef module, const Attention *a, const char *name, TemplateLaunch *launch);
void attention_backward_kv(LLVMModuleRef module, const Attention *a, const char *name, TemplateLaunch *launch);
// template_attention_wgmma.c
void attention_wgmma_forward(LLVMModuleRef module, const Attention *a, const char *name, TemplateLaunch *launch);
// template_attention_wgmma_backward.c
void attention_wgmma_backward_q(LLVMModuleRef module, const Attention *a, const char *name, TemplateLaunch *launch);
void attention_wgmma_backward_kv(LLVMModuleRef module, const Attention *a, const char *name, TemplateLaunch *launch);

enum { ATTENTION_N_TILES = 16, ATTENTION_COLUMNS = 16, ATTENTION_STEPS = 16 };

typedef struct AttentionBlock {
  Build b;
  const Attention *a;   // Borrowed
  AttentionOperands p;
  int warps;                   // rows of the block: 16 of each
  int n;                       // rows of a streamed tile: columns of the scores
  int64_t n_rows, n_columns;   // of the whole problem
  Val first_row;               // i32; of the block
  Val warp_row;                // of the warp in the block
  Val quad, place;             // lane / 4, lane % 4
  Val batch, head, group;      // i32; head of the queries (of the first of them, where keys are rows), of the keys
  Val key;                     // with dropout, in shared memory
  Val shared;                  // next free byte
  int shared_bytes;
} AttentionBlock;

typedef Val Scores[ATTENTION_N_TILES][4];
typedef struct Sums {
  Var c[ATTENTION_COLUMNS][4];
} Sums;                 // rows by head_dim, f32
typedef struct Rows {   // an operand of the block's rows
  Tile tile;
  bool kept;   // in registers
  Val a[ATTENTION_STEPS][4];
} Rows;
typedef struct Stream {   // one of the operands that are streamed: two tiles
  Tile tile;              // the one of the current iteration, after attention_current
  Val base;
  TileSource source;
  int64_t head_bytes;   // from one head to the next
} Stream;

typedef struct RowState {   // of the online softmax, per row
  // scores' maximum (without the scale); this lane's part of the sum
  Var max[2], sum[2];
} RowState;

// Declares the kernel and works out the place of the block; then come operands, and attention_end closes it.
void attention_begin(AttentionBlock *x, LLVMModuleRef module, const Attention *a, AttentionKernel kernel,
                     const char *name, TemplateLaunch *launch);
void attention_end(AttentionBlock *x, TemplateLaunch *launch);
// template_attention_wgmma.c
void attention_wgmma_sizes(AttentionBlock *x, AttentionKernel kernel);
// grid (blocks, heads, batch) becomes another, x->batch is set
void attention_wgmma_place(AttentionBlock *x, bool keys, int64_t grid[3], Val *block, Val *head);
Val attention_operand(AttentionBlock *x, Val base, const AttentionStrides *s, Val head);   // of this batch and a head
// of this batch and head: (n_queries) f32
Val attention_statistics(AttentionBlock *x, Val base);
Val attention_allocate(AttentionBlock *x, int bytes);
// starts the copy
void attention_rows(AttentionBlock *x, Rows *rows, Val base, const AttentionStrides *s, Val head);
void attention_hold(AttentionBlock *x, Rows *rows);   // into registers
void attention_stream(AttentionBlock *x, Stream *stream, Val base, const AttentionStrides *s, Val head);
// tile `index` into buffer 0 or 1, of the head so many further (NULL: 0)
void attention_copy(AttentionBlock *x, const Stream *stream, Val head, Val index, Val parity);
void attention_current(AttentionBlock *x, Stream *stream, Val parity);
// of the problem: row group + 8 half of the warp's
Val attention_row(AttentionBlock *x, int half);
Val attention_column(AttentionBlock *x, Val tile_index, int tile, int element);           // of the problem
void attention_scores(AttentionBlock *x, const Rows *rows, const Tile *tile, Scores s);   // s = rows tile'
void attention_row_state(AttentionBlock *x, RowState *state);                             // no key seen yet
// divides by the sums, writes the output and each row's statistic
void attention_finish(AttentionBlock *x, const RowState *state, const Sums *sums);
// of keys that rows of queries see
Val attention_tiles_end(AttentionBlock *x);
// Masks are behind a branch, of a warp or, with the products of warpgroups, of the block.
// Softcap and bias, of scores that the scale is not in yet. slope: the derivatives of capped scores; NULL: not wanted.
// keys_are_rows: else queries are; head: how many after x->head (NULL: 0).
void attention_adjust(AttentionBlock *x, Val tile, bool keys_are_rows, Val head, Scores s, Scores slope);
// tanh u, of e^(-2 |u|)
Val attention_tanh(Build *b, Val u, Val exponential);
// i1: a key lies in the window of a query; NULL without one. Both of the problem, i32.
Val attention_near(Build *b, const Attention *a, Val query, Val key);
// the first tile of keys that the block's queries see
Val attention_tiles_first(AttentionBlock *x);
// columns are keys: -infinity where a row must not see one
void attention_hide_keys(AttentionBlock *x, Val tile, Scores s);
// the same where some row does not see all of the tile
void attention_mask_keys(AttentionBlock *x, Val tile, Scores s);
// i1: the mask shows the key; NULL without one. key: i32, below n_keys
Val attention_seen(AttentionBlock *x, Val key);
// Which of a thread's weights dropout keeps, a bit for each; NULL without it. head: how many after x->head (NULL: 0).
// All lanes of the warp take part. A word takes less room than the scores: best drawn before there are any.
Val attention_draw(AttentionBlock *x, Val head, Val tile, bool keys_are_rows);
// What it makes of weight i of tile t: 1/(1-p) or 0; NULL without it.
Val attention_kept(AttentionBlock *x, Val drawn, int t, int i);
// the weights that dropout keeps, scaled
void attention_drop(AttentionBlock *x, Val drawn, Scores s);
void attention_sums(AttentionBlock *x, Sums *sums);                                     // zero
void attention_accumulate(AttentionBlock *x, Scores p, const Tile *tile, Sums *sums);   // sums += p tile
// Sums times factor (a value per row; NULL: factor is `uniform`) in the element type to the operand's rows.
void attention_store(AttentionBlock *x, const Sums *sums, Val factor[2], Val uniform, Val base,
                     const AttentionStrides *s, Val head);
void attention_store_gradient(AttentionBlock *x, const Sums *sums, double factor, Val base, const AttentionStrides *to,
                              Val head);
// over the four lanes that share a row
Val attention_quad(AttentionBlock *x, Val v, bool maximum);

// template_attention_backward.c: what both forms of the gradient do.
// from: (n_columns) f32 of the first head, a value for each column; shared: two buffers of n each
typedef struct AttentionColumns {
  Val from[2], shared[2];
} AttentionColumns;
void attention_copy_columns(AttentionBlock *x, const AttentionColumns *c, Val head, Val tile, Val parity);
// of tile t of scores, those of this lane, from the current buffer
void attention_column_values(AttentionBlock *x, const AttentionColumns *c, int which, Val parity, int t, Val out[2]);
// Iterations of the loop: of each of some heads in turn, the tiles from `first` to `end`. head, tile: of the current
// one; head NULL: there is but one.
typedef struct Pipeline {
  Loop loop;
  int64_t heads;
  Val first, end, head, tile, parity;
} Pipeline;
void attention_pipeline_place(AttentionBlock *x, const Pipeline *p, Val index, Val *head, Val *tile);
// Opens the loop and finds the place of the current iteration; the number of the next one, and of all of them.
Val attention_pipeline_open(AttentionBlock *x, Pipeline *p, Val *total);
// where keys are rows: tiles of queries before this one see none of them
Val attention_tiles_begin(AttentionBlock *x);
// p = exp(scale s - lse) and ds = p (dp - delta), for one element; lse times log2 e. kept: what dropout makes of p,
// NULL: nothing.
// slope: of softcap, NULL without it.
void attention_differentiate(AttentionBlock *x, Val *s, Val *dp, Val lse2, Val delta, Val kept, Val slope);
// each row's statistic and delta; delta is written for the other kernel
void attention_row_values(AttentionBlock *x, Val lse2[2], Val deltas[2]);
// -infinity in the rows of keys that the mask hides
void attention_mask_rows(AttentionBlock *x, Scores s);
// under a causal mask, -infinity where the column's query comes before the row's key
void attention_mask_queries(AttentionBlock *x, Val tile, Scores s);

#endif
