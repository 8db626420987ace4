// Attention with the products of warpgroups (Hopper), which read their operands in shared memory and leave results in
// registers as build_mma does: what is done to scores is that of template_attention.h, with one tile of 16 rows a warp.
// After FlashAttention-3 (Shah et al., 2024), without its copy engine: all threads copy, two warpgroups have 64 rows
// each.
#ifndef NNC_CODEGEN_CUDA_TEMPLATE_ATTENTION_WGMMA_H
#define NNC_CODEGEN_CUDA_TEMPLATE_ATTENTION_WGMMA_H

#include "codegen/cuda/template/template_attention.h"

enum { ATTENTION_SUMS = 64 };   // of a lane: 64 rows by head_dim

// rows by head_dim in shared memory, as panels of 64 columns one after the other; of an operand that is streamed there
// are several.
typedef struct Panels {
  int rows, bytes;
  // of the first buffer; for products with these rows, and for those with them as the depth
  Val descriptor;
  Val from, to;   // what this thread copies first: 16 bytes of row 0 of the operand, and where they go
  int64_t row_bytes, n_rows, head_bytes;
} Panels;
// Rows of the operand's n_rows; columns of a product, or its rows.
void wgmma_panels(AttentionBlock *x, Panels *p, int rows, int buffers, Val base, const AttentionStrides *s,
                  int64_t n_rows, Val head);
// starts it; rows beyond the last are zeros. head: so many further, buffer; NULL: 0
void wgmma_copy(AttentionBlock *x, const Panels *p, Val head, Val first_row, Val buffer);
Val wgmma_buffer(AttentionBlock *x, const Panels *p, Val buffer);   // its descriptor
// all copies but so many groups may be read by products, and nobody is in an earlier iteration any more
void wgmma_arrived(AttentionBlock *x, int groups_pending);

// Products, a group each once they are committed. rows: the descriptor of the warpgroup's 64 rows.
Val wgmma_rows(AttentionBlock *x, const Panels *p);
// s = rows columns'
void wgmma_scores(AttentionBlock *x, const Panels *p, Val rows, const Panels *q, Val columns, Scores s);
typedef Val Weights[ATTENTION_N_TILES / 2][4];   // of the scores' rows, as operands
void wgmma_weights(AttentionBlock *x, Scores s, Weights w);
// sums += w times the panels
void wgmma_accumulate(AttentionBlock *x, Weights w, Val depth, Val sums[ATTENTION_SUMS]);
void wgmma_wait_scores(AttentionBlock *x, int groups_pending, Scores s);
// w is kept in its registers until then.
void wgmma_wait_sums(AttentionBlock *x, Val sums[ATTENTION_SUMS], Weights w);
void wgmma_get_sums(AttentionBlock *x, const Sums *sums, Val out[ATTENTION_SUMS]);
void wgmma_set_sums(AttentionBlock *x, const Sums *sums, Val values[ATTENTION_SUMS]);

#endif
