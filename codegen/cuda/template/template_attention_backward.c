// Gradients of attention. Scores and probabilities are computed again from the operands and each row's statistic
// (FlashAttention-2, Dao, 2023). Two kernels instead of one with atomic additions: the first has queries as rows, the
// second keys, so that every sum has one order and one owner.
#include <math.h>
#include <stddef.h>

#include "codegen/cuda/template/template_attention.h"
#include "support/integers.h"

void attention_copy_columns(AttentionBlock *x, const AttentionColumns *c, Val head, Val tile, Val parity) {
  Build *b = &x->b;
  Branch mine;
  build_if(b, &mine, build_less(b, b->tid, build_i32(b, x->n)));
  Val column = build_add(b, build_mul(b, tile, build_i32(b, x->n)), b->tid);
  Val bytes = build_select(b, build_less(b, column, build_i32(b, x->n_columns)), build_i32(b, 4), build_i32(b, 0));
  for (int i = 0; i < 2; i++) {
    Val to = build_offset(b, c->shared[i],
                          build_mul(b, build_add(b, build_mul(b, parity, build_i32(b, x->n)), b->tid),
                                    build_i32(b, 4)));
    Val index = build_i64(b, column);
    if (head)
      index = build_add(b, index,
                        build_mul(b, build_i64(b, head), LLVMConstInt(b->i64, (uint64_t)x->n_columns, false)));
    Val arguments[] = {to, build_offset(b, c->from[i], build_mul(b, index, LLVMConstInt(b->i64, 4, false))), bytes};
    build_intrinsic(b, "llvm.nvvm.cp.async.ca.shared.global.4.s", NULL, 3, arguments);
  }
  build_if_end(b, &mine);
}

static void copy_all(AttentionBlock *x, const Stream streams[2], const AttentionColumns *columns, Val head, Val tile,
                     Val parity) {
  for (int i = 0; i < 2; i++) attention_copy(x, &streams[i], head, tile, parity);
  if (columns) attention_copy_columns(x, columns, head, tile, parity);
}

void attention_pipeline_place(AttentionBlock *x, const Pipeline *p, Val index, Val *head, Val *tile) {
  Build *b = &x->b;
  *head = NULL;
  *tile = build_add(b, index, p->first);
  if (p->heads == 1) return;
  Val n = build_sub(b, p->end, p->first);
  *head = LLVMBuildUDiv(b->builder, index, n, "");
  *tile = build_add(b, build_sub(b, index, build_mul(b, *head, n)), p->first);
}

Val attention_pipeline_open(AttentionBlock *x, Pipeline *p, Val *total) {
  Build *b = &x->b;
  *total = build_mul(b, build_max(b, build_sub(b, p->end, p->first), build_i32(b, 0)), build_i32(b, p->heads));
  Val index = build_loop(b, &p->loop, build_i32(b, 0), *total, 1);
  attention_pipeline_place(x, p, index, &p->head, &p->tile);
  p->parity = build_and(b, index, build_i32(b, 1));
  return build_add(b, index, build_i32(b, 1));
}

// Copies the first tile, opens the loop and makes the current tile readable.
static void pipeline_begin(AttentionBlock *x, Pipeline *p, Stream streams[2], const AttentionColumns *columns) {
  Build *b = &x->b;
  Val total, next = attention_pipeline_open(x, p, &total), next_head, next_tile;
  build_wait(b, 0);
  build_barrier(b);
  Branch more;
  build_if(b, &more, build_less(b, next, total));
  attention_pipeline_place(x, p, next, &next_head, &next_tile);
  copy_all(x, streams, columns, next_head, next_tile, build_xor(b, p->parity, build_i32(b, 1)));
  build_if_end(b, &more);
  build_commit(b);
  for (int i = 0; i < 2; i++) attention_current(x, &streams[i], p->parity);
}

static void pipeline_end(AttentionBlock *x, Pipeline *p) {
  build_loop_end(&x->b, &p->loop);
  build_wait(&x->b, 0);
}

void attention_differentiate(AttentionBlock *x, Val *s, Val *dp, Val lse2, Val delta, Val kept, Val slope) {
  Build *b = &x->b;
  if (kept) *dp = build_fmul(b, *dp, kept);
  *s = build_exp2(b, build_fsub(b, build_fmul(b, *s, build_f32(b, x->a->scale * M_LOG2E)), lse2));
  *dp = build_fmul(b, *s, build_fsub(b, *dp, delta));
  if (slope) *dp = build_fmul(b, *dp, slope);
  if (kept) *s = build_fmul(b, *s, kept);
}

// ---------------------------------------------------------------------------------------------------------------------
// Queries as rows

// Element `which` of a 32 bit word as f32.
static Val widen(Build *b, TileType t, Val word, int which) {
  if (tile_element_bytes(t) == 4) return LLVMBuildBitCast(b->builder, word, b->f32, "");
  if (t == TILE_F16) {
    Val pair = LLVMBuildBitCast(b->builder, word, LLVMVectorType(LLVMHalfTypeInContext(b->llvm), 2), "");
    return LLVMBuildFPExt(b->builder, LLVMBuildExtractElement(b->builder, pair, build_i32(b, which), ""), b->f32, "");
  }
  Val bits = which ? build_and(b, word, build_i32(b, (int32_t)0xffff0000))
                   : LLVMBuildShl(b->builder, word, build_i32(b, 16), "");
  return LLVMBuildBitCast(b->builder, bits, b->f32, "");
}

// Sum of o times do over the head dimension, for a row; each of its four lanes reads a quarter, 16 bytes at a time.
static Val row_delta(AttentionBlock *x, Val o, Val dy, Val row) {
  Build *b = &x->b;
  const Attention *a = x->a;
  int bytes = tile_element_bytes(a->type);
  LLVMTypeRef words = LLVMVectorType(b->i32, 4);
  Val start = build_mul(b, build_i64(b, row), LLVMConstInt(b->i64, (uint64_t)(a->o.row * bytes), true)),
      sum = build_f32(b, 0);
  for (int i = 0; i < a->head_dim * bytes / 64; i++) {
    Val offset = build_add(b, start,
                           build_i64(b, build_add(b, build_mul(b, x->place, build_i32(b, 16)), build_i32(b, 64 * i))));
    Val p = build_load(b, words, build_offset(b, o, offset), 16),
        q = build_load(b, words, build_offset(b, dy, offset), 16);
    for (int w = 0; w < 4; w++)
      for (int e = 0; e < 4 / bytes; e++) {
        Val u = widen(b, a->type, LLVMBuildExtractElement(b->builder, p, build_i32(b, w), ""), e);
        sum = build_ffma(b, u, widen(b, a->type, LLVMBuildExtractElement(b->builder, q, build_i32(b, w), ""), e), sum);
      }
  }
  return attention_quad(x, sum, false);
}

void attention_row_values(AttentionBlock *x, Val lse2[2], Val deltas[2]) {
  Build *b = &x->b;
  Val delta = attention_statistics(x, x->p.delta), lse = attention_statistics(x, x->p.lse),
      dy = attention_operand(x, x->p.dy, &x->a->o, x->head), o = attention_operand(x, x->p.o, &x->a->o, x->head);
  Val last = build_i32(b, x->n_rows - 1);
  for (int half = 0; half < 2; half++) {
    Val row = attention_row(x, half), clamped = build_min(b, row, last), at = build_mul(b, clamped, build_i32(b, 4));
    lse2[half] = build_fmul(b, build_load(b, b->f32, build_offset(b, lse, at), 4), build_f32(b, M_LOG2E));
    deltas[half] = row_delta(x, o, dy, clamped);
    Branch writes;
    build_if(b, &writes,
             build_and(b, build_less(b, row, build_i32(b, x->n_rows)), build_equal(b, x->place, build_i32(b, 0))));
    build_store(b, deltas[half], build_offset(b, delta, at), 4);
    build_if_end(b, &writes);
  }
}

void attention_backward_q(LLVMModuleRef module, const Attention *a, const char *name, TemplateLaunch *launch) {
  AttentionBlock x;
  attention_begin(&x, module, a, ATTENTION_BACKWARD_Q, name, launch);
  Build *b = &x.b;
  Rows queries, dy;
  Stream streams[2];   // keys, values
  Sums dq;
  attention_stream(&x, &streams[0], x.p.k, &a->k, x.group);
  attention_stream(&x, &streams[1], x.p.v, &a->v, x.group);
  attention_rows(&x, &queries, x.p.q, &a->q, x.head);
  attention_rows(&x, &dy, x.p.dy, &a->o, x.head);
  Pipeline pipeline = {.heads = 1, .first = attention_tiles_first(&x)};
  copy_all(&x, streams, NULL, NULL, pipeline.first, build_i32(b, 0));
  build_commit(b);
  Val lse2[2], delta[2];
  attention_row_values(&x, lse2, delta);
  attention_sums(&x, &dq);
  pipeline.end = attention_tiles_end(&x);
  pipeline_begin(&x, &pipeline, streams, NULL);
  Scores s, dp, slope;
  bool caps = a->softcap > 0;
  Val drawn = attention_draw(&x, NULL, pipeline.tile, false);
  attention_scores(&x, &queries, &streams[0].tile, s);
  attention_adjust(&x, pipeline.tile, false, NULL, s, slope);
  attention_mask_keys(&x, pipeline.tile, s);
  attention_scores(&x, &dy, &streams[1].tile, dp);
  for (int t = 0; t < x.n / 8; t++)
    for (int i = 0; i < 4; i++)
      attention_differentiate(&x, &s[t][i], &dp[t][i], lse2[i / 2], delta[i / 2], attention_kept(&x, drawn, t, i),
                              caps ? slope[t][i] : NULL);
  attention_accumulate(&x, dp, &streams[0].tile, &dq);
  pipeline_end(&x, &pipeline);
  attention_store_gradient(&x, &dq, a->scale, x.p.dq, &a->dq, x.head);
  attention_end(&x, launch);
}

// ---------------------------------------------------------------------------------------------------------------------
// Keys as rows

Val attention_tiles_begin(AttentionBlock *x) {
  Build *b = &x->b;
  if (!x->a->causal) return build_i32(b, 0);
  Val first = build_max(b, build_sub(b, x->first_row, build_i32(b, x->a->n_keys - x->a->n_queries)), build_i32(b, 0));
  return build_div(b, first, x->n);
}

void attention_mask_rows(AttentionBlock *x, Scores s) {
  Build *b = &x->b;
  for (int half = 0; half < 2 && x->p.mask; half++) {
    Val seen = attention_seen(x, build_min(b, attention_row(x, half), build_i32(b, x->n_rows - 1)));
    for (int t = 0; t < x->n / 8; t++)
      for (int i = 0; i < 2; i++)
        s[t][2 * half + i] = build_select(b, seen, s[t][2 * half + i], build_f32(b, -INFINITY));
  }
}

void attention_mask_queries(AttentionBlock *x, Val tile, Scores s) {
  Build *b = &x->b;
  if (!x->a->causal && x->a->window <= 0) return;
  int64_t ahead = x->a->n_keys - x->a->n_queries;
  Val first_query = build_add(b, build_mul(b, tile, build_i32(b, x->n)), build_i32(b, ahead));
  Val last_key = x->a->wgmma ? build_add(b, x->first_row, build_i32(b, 16 * x->warps - 1))
                             : build_add(b, build_add(b, x->first_row, x->warp_row), build_i32(b, 15));
  Var held[ATTENTION_N_TILES][4];
  for (int t = 0; t < x->n / 8; t++)
    for (int i = 0; i < 4; i++) held[t][i] = build_var(b, b->f32, s[t][i]);
  Branch masked;
  build_if(b, &masked, x->a->window > 0 ? LLVMConstInt(b->i1, 1, false) : build_less(b, first_query, last_key));
  for (int t = 0; t < x->n / 8; t++)
    for (int i = 0; i < 4; i++) {
      Val column = attention_column(x, tile, t, i % 2), row = attention_row(x, i / 2), s_new = s[t][i];
      if (x->a->causal)
        s_new = build_select(b, build_less(b, build_add(b, column, build_i32(b, ahead)), row), build_f32(b, -INFINITY),
                             s_new);
      Val near = attention_near(b, x->a, column, row);
      if (near) s_new = build_select(b, near, s_new, build_f32(b, -INFINITY));
      build_set(b, held[t][i], s_new);
    }
  build_if_end(b, &masked);
  for (int t = 0; t < x->n / 8; t++)
    for (int i = 0; i < 4; i++) s[t][i] = build_get(b, held[t][i]);
}

void attention_column_values(AttentionBlock *x, const AttentionColumns *c, int which, Val parity, int t, Val out[2]) {
  Build *b = &x->b;
  Val index = build_add(b, build_add(b, build_mul(b, parity, build_i32(b, x->n)), build_i32(b, 8 * t)),
                        build_mul(b, x->place, build_i32(b, 2)));
  Val pair = build_load(b, LLVMVectorType(b->f32, 2),
                        build_offset(b, c->shared[which], build_mul(b, index, build_i32(b, 4))), 8);
  for (int i = 0; i < 2; i++) out[i] = LLVMBuildExtractElement(b->builder, pair, build_i32(b, i), "");
}

void attention_backward_kv(LLVMModuleRef module, const Attention *a, const char *name, TemplateLaunch *launch) {
  AttentionBlock x;
  attention_begin(&x, module, a, ATTENTION_BACKWARD_KV, name, launch);
  Build *b = &x.b;
  Rows keys, values;
  Stream streams[2];   // queries, gradients of the output
  Sums dk, dv;
  AttentionColumns columns = {{attention_statistics(&x, x.p.lse), attention_statistics(&x, x.p.delta)},
                              {attention_allocate(&x, 8 * x.n), attention_allocate(&x, 8 * x.n)}};
  Pipeline pipeline = {.heads = a->heads / a->groups,
                       .first = attention_tiles_begin(&x),
                       .end = build_i32(b, divide_up(a->n_queries, x.n))};
  attention_stream(&x, &streams[0], x.p.q, &a->q, x.head);
  attention_stream(&x, &streams[1], x.p.dy, &a->o, x.head);
  attention_rows(&x, &keys, x.p.k, &a->k, x.group);
  attention_rows(&x, &values, x.p.v, &a->v, x.group);
  copy_all(&x, streams, &columns, NULL, pipeline.first, build_i32(b, 0));
  build_commit(b);
  attention_sums(&x, &dk);
  attention_sums(&x, &dv);
  pipeline_begin(&x, &pipeline, streams, &columns);
  // Columns beyond the last query need no mask: their rows of q and do, lse and delta are zero, and so is all that they
  // add.
  Scores s, dp, slope;
  bool caps = a->softcap > 0;
  Val drawn = attention_draw(&x, pipeline.head, pipeline.tile, true);
  attention_scores(&x, &keys, &streams[0].tile, s);
  attention_adjust(&x, pipeline.tile, true, pipeline.head, s, slope);
  attention_mask_queries(&x, pipeline.tile, s);
  attention_mask_rows(&x, s);
  attention_scores(&x, &values, &streams[1].tile, dp);
  for (int t = 0; t < x.n / 8; t++) {
    Val lse[2], delta[2];
    attention_column_values(&x, &columns, 0, pipeline.parity, t, lse);
    attention_column_values(&x, &columns, 1, pipeline.parity, t, delta);
    for (int i = 0; i < 2; i++) lse[i] = build_fmul(b, lse[i], build_f32(b, M_LOG2E));
    for (int i = 0; i < 4; i++)
      attention_differentiate(&x, &s[t][i], &dp[t][i], lse[i % 2], delta[i % 2], attention_kept(&x, drawn, t, i),
                              caps ? slope[t][i] : NULL);
  }
  attention_accumulate(&x, s, &streams[1].tile, &dv);
  attention_accumulate(&x, dp, &streams[0].tile, &dk);
  pipeline_end(&x, &pipeline);
  attention_store_gradient(&x, &dk, a->scale, x.p.dk, &a->dk, x.group);
  attention_store_gradient(&x, &dv, 1, x.p.dv, &a->dk, x.group);
  attention_end(&x, launch);
}
