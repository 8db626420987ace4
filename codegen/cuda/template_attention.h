// What the three attention kernels share. Each keeps the rows of one or two operands for the block (queries, or keys in the gradient of keys and values) and
// streams tiles of two others past them, double-buffered: scores = rows times tile', then sums of (function of the scores) times tile.
#ifndef NNC_CODEGEN_CUDA_TEMPLATE_ATTENTION_H
#define NNC_CODEGEN_CUDA_TEMPLATE_ATTENTION_H

#include "codegen/cuda/template.h"

enum { ATTENTION_M_TILES = 2, ATTENTION_N_TILES = 8, ATTENTION_COLUMNS = 16, ATTENTION_STEPS = 16 };

typedef struct AttentionBlock {
  Build b;
  const Attention *a;          // Borrowed
  int warps, m_tiles;          // rows of the block: 16 m_tiles warps
  int n;                       // rows of a streamed tile: columns of the scores
  int64_t n_rows, n_columns;   // of the whole problem
  Val first_row;               // i32; of the block
  Val warp_row;                // of the warp in the block
  Val group, place;            // lane / 4, lane % 4
  Val batch, head;             // i32
  Val shared;                  // next free byte
  int shared_bytes;
} AttentionBlock;

typedef Val Scores[ATTENTION_M_TILES][ATTENTION_N_TILES][4];
typedef struct Sums { Var c[ATTENTION_M_TILES][ATTENTION_COLUMNS][4]; } Sums;   // rows by head_dim, f32
typedef struct Rows {          // an operand of the block's rows
  Tile tile;
  bool kept;                   // in registers
  Val a[ATTENTION_M_TILES][ATTENTION_STEPS][4];
} Rows;
typedef struct Stream {        // one of the operands that are streamed: two tiles
  Tile tile;                   // the one of the current iteration, after attention_current
  Val base;
  TileSource source;
} Stream;

// Declares the kernel; then attention_begin works out the place of the block, then come operands, and attention_end closes it.
void attention_open(AttentionBlock *x, LLVMModuleRef module, const Attention *a, const char *name, const char *parameters);
void attention_begin(AttentionBlock *x, const Attention *a, int64_t n_rows, int64_t n_columns, TemplateLaunch *launch);
void attention_end(AttentionBlock *x, TemplateLaunch *launch);
Val attention_operand(AttentionBlock *x, Val base, const AttentionStrides *s);              // of this batch and head
Val attention_statistics(AttentionBlock *x, Val base);                                     // of this batch and head: (n_queries) f32
Val attention_allocate(AttentionBlock *x, int bytes);
void attention_rows(AttentionBlock *x, Rows *rows, Val base, const AttentionStrides *s);    // starts the copy
void attention_keep(AttentionBlock *x, Rows *rows);                                        // into registers
void attention_stream(AttentionBlock *x, Stream *stream, Val base, const AttentionStrides *s);
void attention_copy(AttentionBlock *x, const Stream *stream, Val index, Val parity);       // tile `index` into buffer 0 or 1
void attention_current(AttentionBlock *x, Stream *stream, Val parity);
Val attention_row(AttentionBlock *x, int m, int half);                                     // of the problem: row group + 8 half of tile m
Val attention_column(AttentionBlock *x, Val tile_index, int tile, int element);            // of the problem
void attention_scores(AttentionBlock *x, const Rows *rows, const Tile *tile, Scores s);    // s = rows tile'
Val attention_tiles_end(AttentionBlock *x);                                                 // of keys that rows of queries see
void attention_mask_keys(AttentionBlock *x, Val tile, Scores s);                            // columns are keys: -infinity where a row must not see one
void attention_sums(AttentionBlock *x, Sums *sums);                                        // zero
void attention_accumulate(AttentionBlock *x, Scores p, const Tile *tile, Sums *sums);      // sums += p tile
// Sums times factor (a value per row: m, half; NULL: factor is `uniform`) in the element type to the operand's rows.
void attention_store(AttentionBlock *x, const Sums *sums, Val (*factor)[2], Val uniform, Val base, const AttentionStrides *s);
Val attention_quad(AttentionBlock *x, Val v, bool maximum);                                // over the four lanes that share a row

#endif
