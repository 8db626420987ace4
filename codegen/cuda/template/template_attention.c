// Attention forward: each block takes some rows of queries and goes through the keys and values in tiles, with the
// softmax computed online (Milakov and Gimelshein, 2018; FlashAttention-2, Dao, 2023). Per row only the logarithm of
// the sum of exponentials is kept for the backward pass.
#include <math.h>
#include <stddef.h>

#include "codegen/cuda/template/template_attention.h"
#include "support/integers.h"

bool attention_supported(const Attention *a) {
  const AttentionStrides *s[] = {&a->q, &a->k, &a->v, &a->o, &a->dq, &a->dk};
  for (int i = 0; i < 6; i++)
    if (s[i]->batch % tile_chunk(a->type) || s[i]->head % tile_chunk(a->type) || s[i]->row % tile_chunk(a->type))
      return false;
  // A scale below 0 would turn the maximum of the scores into their minimum.
  return a->type != TILE_F64 && a->scale > 0 && (a->head_dim == 64 || a->head_dim == 128) && a->n_queries > 0 &&
         a->n_keys > 0 && a->n_queries < 1 << 30 && a->n_keys < 1 << 30 && a->heads < 65536 && a->batch < 65536;
}

// How many tiles of keys the block's rows see.
Val attention_tiles_end(AttentionBlock *x) {
  Build *b = &x->b;
  int64_t all = divide_up(x->n_columns, x->n);
  if (!x->a->causal) return build_i32(b, all);
  int64_t rows = 16 * x->warps;
  Val seen = build_max(b, build_add(b, x->first_row, build_i32(b, rows + x->a->n_keys - x->a->n_queries)),
                       build_i32(b, 0));
  return build_min(b, build_div(b, build_add(b, seen, build_i32(b, x->n - 1)), x->n), build_i32(b, all));
}

void attention_hide_keys(AttentionBlock *x, Val tile, Scores s) {
  Build *b = &x->b;
  const Attention *a = x->a;
  Val seen[ATTENTION_N_TILES][2];   // by the mask
  for (int t = 0; t < x->n / 8; t++)
    for (int i = 0; i < 2; i++)
      seen[t][i] = attention_seen(x, build_min(b, attention_column(x, tile, t, i), build_i32(b, a->n_keys - 1)));
  for (int t = 0; t < x->n / 8; t++)
    for (int i = 0; i < 4; i++) {
      Val column = attention_column(x, tile, t, i % 2), visible = build_less(b, column, build_i32(b, a->n_keys));
      Val reach = build_add(b, attention_row(x, i / 2), build_i32(b, a->n_keys - a->n_queries + 1));
      if (a->causal) visible = build_and(b, visible, build_less(b, column, reach));
      if (a->masked) visible = build_and(b, visible, seen[t][i % 2]);
      if (a->window > 0) visible = build_and(b, visible, attention_near(b, a, attention_row(x, i / 2), column));
      s[t][i] = build_select(b, visible, s[t][i], build_f32(b, -INFINITY));
    }
}

void attention_mask_keys(AttentionBlock *x, Val tile, Scores s) {
  Build *b = &x->b;
  const Attention *a = x->a;
  Val end = build_mul(b, build_add(b, tile, build_i32(b, 1)), build_i32(b, x->n));
  Val needed = build_less(b, build_i32(b, a->n_keys), end);
  if (a->masked || a->window > 0) needed = LLVMConstInt(b->i1, 1, false);
  else if (a->causal)
    needed = build_or(b, needed,
                      build_less(b,
                                 build_add(b, a->wgmma ? x->first_row : build_add(b, x->first_row, x->warp_row),
                                           build_i32(b, a->n_keys - a->n_queries + 1)),
                                 end));
  Var held[ATTENTION_N_TILES][4];
  for (int t = 0; t < x->n / 8; t++)
    for (int i = 0; i < 4; i++) held[t][i] = build_var(b, b->f32, s[t][i]);
  Branch masked;
  build_if(b, &masked, needed);
  attention_hide_keys(x, tile, s);
  for (int t = 0; t < x->n / 8; t++)
    for (int i = 0; i < 4; i++) build_set(b, held[t][i], s[t][i]);
  build_if_end(b, &masked);
  for (int t = 0; t < x->n / 8; t++)
    for (int i = 0; i < 4; i++) s[t][i] = build_get(b, held[t][i]);
}

// s becomes exp(scale (s - max)); what was summed so far is scaled to the new maximum.
static void online_softmax(AttentionBlock *x, Scores s, RowState *state, Sums *sums) {
  Build *b = &x->b;
  Val scale = build_f32(b, x->a->scale * M_LOG2E);
  for (int half = 0; half < 2; half++) {
    Val before = build_get(b, state->max[half]), most = before;
    for (int t = 0; t < x->n / 8; t++)
      for (int i = 0; i < 2; i++) most = build_fmax(b, most, s[t][2 * half + i]);
    most = attention_quad(x, most, true);
    // A row that has seen no key yet: -infinity minus itself would be NaN.
    Val safe = build_select(b, build_fequal(b, most, build_f32(b, -INFINITY)), build_f32(b, 0), most),
        shift = build_fmul(b, safe, scale);
    Val fade = build_exp2(b, build_fmul(b, build_fsub(b, before, safe), scale));
    Val sum = build_fmul(b, build_get(b, state->sum[half]), fade);
    for (int t = 0; t < x->n / 8; t++)
      for (int i = 0; i < 2; i++) {
        Val *p = &s[t][2 * half + i];
        *p = build_exp2(b, build_fsub(b, build_fmul(b, *p, scale), shift));
        sum = build_fadd(b, sum, *p);
      }
    build_set(b, state->max[half], most);
    build_set(b, state->sum[half], sum);
    for (int t = 0; t < x->a->head_dim / 8; t++)
      for (int i = 0; i < 2; i++) {
        Var c = sums->c[t][2 * half + i];
        build_set(b, c, build_fmul(b, build_get(b, c), fade));
      }
  }
}

void attention_row_state(AttentionBlock *x, RowState *state) {
  Build *b = &x->b;
  for (int half = 0; half < 2; half++) {
    state->max[half] = build_var(b, b->f32, build_f32(b, -INFINITY));
    state->sum[half] = build_var(b, b->f32, build_f32(b, 0));
  }
}

void attention_finish(AttentionBlock *x, const RowState *state, const Sums *sums) {
  Build *b = &x->b;
  Val factor[2], statistics = attention_statistics(x, x->p.lse);
  for (int half = 0; half < 2; half++) {
    Val sum = attention_quad(x, build_get(b, state->sum[half]), false), none = build_fequal(b, sum, build_f32(b, 0));
    factor[half] = build_select(b, none, build_f32(b, 0), build_reciprocal(b, sum));
    Val log = build_ffma(b, build_get(b, state->max[half]), build_f32(b, x->a->scale),
                         build_fmul(b, build_log2(b, sum), build_f32(b, M_LN2)));
    Val row = attention_row(x, half);
    Branch writes;
    build_if(b, &writes,
             build_and(b, build_less(b, row, build_i32(b, x->n_rows)), build_equal(b, x->place, build_i32(b, 0))));
    build_store(b, build_select(b, none, build_f32(b, INFINITY), log),
                build_offset(b, statistics, build_mul(b, row, build_i32(b, 4))), 4);
    build_if_end(b, &writes);
  }
  attention_store(x, sums, factor, NULL, x->p.o, &x->a->o, x->head);
}

void attention_drop(AttentionBlock *x, Val drawn, Scores s) {
  for (int t = 0; t < x->n / 8 && drawn; t++)
    for (int i = 0; i < 4; i++) s[t][i] = build_fmul(&x->b, s[t][i], attention_kept(x, drawn, t, i));
}

void attention_forward(LLVMModuleRef module, const Attention *a, const char *name, TemplateLaunch *launch) {
  AttentionBlock x;
  attention_begin(&x, module, a, ATTENTION_FORWARD, name, launch);
  Build *b = &x.b;
  Rows queries;
  Stream keys, values;
  Sums sums;
  RowState state;
  attention_stream(&x, &keys, x.p.k, &a->k, x.group);
  attention_stream(&x, &values, x.p.v, &a->v, x.group);
  attention_rows(&x, &queries, x.p.q, &a->q, x.head);
  Val first = attention_tiles_first(&x), begin = build_and(b, first, build_i32(b, 1));
  attention_copy(&x, &keys, NULL, first, begin);
  attention_copy(&x, &values, NULL, first, begin);
  build_commit(b);
  attention_sums(&x, &sums);
  attention_row_state(&x, &state);
  build_wait(b, 0);
  build_barrier(b);
  // 32 registers; else from shared memory each time
  if (a->head_dim * tile_element_bytes(a->type) <= 256) attention_hold(&x, &queries);
  Loop loop;
  Val end = attention_tiles_end(&x), tile = build_loop(b, &loop, first, end, 1);
  Val parity = build_and(b, tile, build_i32(b, 1)), next = build_add(b, tile, build_i32(b, 1));
  build_wait(b, 0);
  build_barrier(b);   // the tile is there, and nobody reads the other buffer any more
  Branch more;
  build_if(b, &more, build_less(b, next, end));
  attention_copy(&x, &keys, NULL, next, build_xor(b, parity, build_i32(b, 1)));
  attention_copy(&x, &values, NULL, next, build_xor(b, parity, build_i32(b, 1)));
  build_if_end(b, &more);
  build_commit(b);
  attention_current(&x, &keys, parity);
  attention_current(&x, &values, parity);
  Val drawn = attention_draw(&x, NULL, tile, false);
  Scores s;
  attention_scores(&x, &queries, &keys.tile, s);
  attention_adjust(&x, tile, false, NULL, s, NULL);
  attention_mask_keys(&x, tile, s);
  online_softmax(&x, s, &state, &sums);
  attention_drop(&x, drawn, s);
  attention_accumulate(&x, s, &values.tile, &sums);
  build_loop_end(b, &loop);
  attention_finish(&x, &state, &sums);
  attention_end(&x, launch);
}
