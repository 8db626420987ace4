// Gradients of attention with the products of warpgroups: the two kernels of template_attention_backward.c. Scores and
// their gradients are one group of products, what they add to the results another: while one warpgroup works on its
// scores, the other one's products go on.
#include <math.h>
#include <stddef.h>

#include "codegen/cuda/template/template_attention_wgmma.h"
#include "support/integers.h"

typedef struct Gradient {
  AttentionBlock x;
  Panels rows[2], streams[2];   // queries and output gradients, or keys and values; the other two
  Val fixed[2];                 // descriptors of the rows
  AttentionColumns columns;     // of queries, where they are streamed
  bool has_columns;
  Pipeline pipeline;
} Gradient;

static void allocate(Gradient *g, Val rows[2], const AttentionStrides *of_rows[2], Val row_head, Val streams[2],
                     const AttentionStrides *of_streams[2], Val stream_head) {
  AttentionBlock *x = &g->x;
  for (int i = 0; i < 2; i++) wgmma_panels(x, &g->rows[i], 16 * x->warps, 1, rows[i], of_rows[i], x->n_rows, row_head);
  for (int i = 0; i < 2; i++)
    wgmma_panels(x, &g->streams[i], x->n, 2, streams[i], of_streams[i], x->n_columns, stream_head);
  for (int i = 0; i < 2; i++) g->fixed[i] = wgmma_rows(x, &g->rows[i]);
}

static void copy(Gradient *g, Val head, Val tile, Val parity) {
  AttentionBlock *x = &g->x;
  for (int i = 0; i < 2; i++)
    wgmma_copy(x, &g->streams[i], head, build_mul(&x->b, tile, build_i32(&x->b, x->n)), parity);
  if (g->has_columns) attention_copy_columns(x, &g->columns, head, tile, parity);
}

static void copy_first(Gradient *g) {
  AttentionBlock *x = &g->x;
  for (int i = 0; i < 2; i++) wgmma_copy(x, &g->rows[i], NULL, x->first_row, NULL);
  copy(g, NULL, g->pipeline.first, build_i32(&x->b, 0));
  build_commit(&x->b);
}

// Opens the loop, starts the copies of the next tile and multiplies the current one: scores and the gradients of the
// weights. What dropout draws meanwhile.
static Val begin_tile(Gradient *g, Scores s, Scores dp) {
  AttentionBlock *x = &g->x;
  Build *b = &x->b;
  Pipeline *p = &g->pipeline;
  Val total, next = attention_pipeline_open(x, p, &total), next_head, next_tile;
  wgmma_arrived(x, 0);
  Branch more;
  build_if(b, &more, build_less(b, next, total));
  attention_pipeline_place(x, p, next, &next_head, &next_tile);
  copy(g, next_head, next_tile, build_xor(b, p->parity, build_i32(b, 1)));
  build_if_end(b, &more);
  build_commit(b);
  wgmma_scores(x, &g->rows[0], g->fixed[0], &g->streams[0], wgmma_buffer(x, &g->streams[0], p->parity), s);
  wgmma_scores(x, &g->rows[1], g->fixed[1], &g->streams[1], wgmma_buffer(x, &g->streams[1], p->parity), dp);
  build_wgmma_commit(b);
  Val drawn = attention_draw(x, g->has_columns ? p->head : NULL, p->tile, g->has_columns);
  wgmma_wait_scores(x, 0, s);
  wgmma_wait_scores(x, 0, dp);
  return drawn;
}

// n sums += their weights times the current tiles of streams; closes the loop.
static void end_tile(Gradient *g, int n, Scores weights[], const int streams[], Sums sums[]) {
  AttentionBlock *x = &g->x;
  Build *b = &x->b;
  Weights w[2];
  Val held[2][ATTENTION_SUMS];
  for (int i = 0; i < n; i++) {
    wgmma_weights(x, weights[i], w[i]);
    wgmma_get_sums(x, &sums[i], held[i]);
  }
  for (int i = 0; i < n; i++)
    wgmma_accumulate(x, w[i], wgmma_buffer(x, &g->streams[streams[i]], g->pipeline.parity), held[i]);
  build_wgmma_commit(b);
  for (int i = 0; i < n; i++) {
    wgmma_wait_sums(x, held[i], w[i]);
    wgmma_set_sums(x, &sums[i], held[i]);
  }
  build_loop_end(b, &g->pipeline.loop);
  build_wait(b, 0);
}

void attention_wgmma_backward_q(LLVMModuleRef module, const Attention *a, const char *name, TemplateLaunch *launch) {
  Gradient g = {0};
  AttentionBlock *x = &g.x;
  attention_begin(x, module, a, ATTENTION_BACKWARD_Q, name, launch);
  allocate(&g, (Val[]){x->p.q, x->p.dy}, (const AttentionStrides *[]){&a->q, &a->o}, x->head, (Val[]){x->p.k, x->p.v},
           (const AttentionStrides *[]){&a->k, &a->v}, x->group);
  g.pipeline = (Pipeline){.heads = 1, .first = attention_tiles_first(x), .end = attention_tiles_end(x)};
  copy_first(&g);
  Val lse2[2], delta[2];
  attention_row_values(x, lse2, delta);
  Sums dq;
  attention_sums(x, &dq);
  Scores s, dp[1], slope;
  Val drawn = begin_tile(&g, s, dp[0]);
  attention_adjust(x, g.pipeline.tile, false, NULL, s, slope);
  attention_mask_keys(x, g.pipeline.tile, s);
  for (int t = 0; t < x->n / 8; t++)
    for (int i = 0; i < 4; i++)
      attention_differentiate(x, &s[t][i], &dp[0][t][i], lse2[i / 2], delta[i / 2], attention_kept(x, drawn, t, i),
                              a->softcap > 0 ? slope[t][i] : NULL);
  end_tile(&g, 1, dp, (int[]){0}, &dq);
  attention_store_gradient(x, &dq, a->scale, x->p.dq, &a->dq, x->head);
  attention_end(x, launch);
}

void attention_wgmma_backward_kv(LLVMModuleRef module, const Attention *a, const char *name, TemplateLaunch *launch) {
  Gradient g = {.has_columns = true};
  AttentionBlock *x = &g.x;
  attention_begin(x, module, a, ATTENTION_BACKWARD_KV, name, launch);
  Build *b = &x->b;
  allocate(&g, (Val[]){x->p.k, x->p.v}, (const AttentionStrides *[]){&a->k, &a->v}, x->group, (Val[]){x->p.q, x->p.dy},
           (const AttentionStrides *[]){&a->q, &a->o}, x->head);
  g.columns = (AttentionColumns){{attention_statistics(x, x->p.lse), attention_statistics(x, x->p.delta)},
                                 {attention_allocate(x, 8 * x->n), attention_allocate(x, 8 * x->n)}};
  g.pipeline = (Pipeline){.heads = a->heads / a->groups,
                          .first = attention_tiles_begin(x),
                          .end = build_i32(b, divide_up(a->n_queries, x->n))};
  copy_first(&g);
  Sums sums[2];   // dv, dk
  for (int i = 0; i < 2; i++) attention_sums(x, &sums[i]);
  Scores s[2], slope;   // the weights, the gradients of the scores
  Val drawn = begin_tile(&g, s[0], s[1]);
  attention_adjust(x, g.pipeline.tile, true, g.pipeline.head, s[0], slope);
  // Columns beyond the last query need no mask: their rows of q and do, lse and delta are zero, and so is all that they
  // add.
  attention_mask_queries(x, g.pipeline.tile, s[0]);
  attention_mask_rows(x, s[0]);
  for (int t = 0; t < x->n / 8; t++) {
    Val lse[2], delta[2];
    attention_column_values(x, &g.columns, 0, g.pipeline.parity, t, lse);
    attention_column_values(x, &g.columns, 1, g.pipeline.parity, t, delta);
    for (int i = 0; i < 2; i++) lse[i] = build_fmul(b, lse[i], build_f32(b, M_LOG2E));
    for (int i = 0; i < 4; i++)
      attention_differentiate(x, &s[0][t][i], &s[1][t][i], lse[i % 2], delta[i % 2], attention_kept(x, drawn, t, i),
                              a->softcap > 0 ? slope[t][i] : NULL);
  }
  end_tile(&g, 2, s, (int[]){1, 0}, sums);
  attention_store_gradient(x, &sums[1], a->scale, x->p.dk, &a->dk, x->group);
  attention_store_gradient(x, &sums[0], 1, x->p.dv, &a->dk, x->group);
  attention_end(x, launch);
}
