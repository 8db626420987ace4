// See template_attention_wgmma.h.
#include <math.h>
#include <stddef.h>

#include "codegen/cuda/template/template_attention_wgmma.h"
#include "support/alloc.h"

enum { WARPS = 8, PANEL_COLUMNS = 64, ROW_BYTES = 128, MOST_BLOCKS = 65535 };
// of keys and values that heads at work at the same time may have, so that they stay in the L2 cache
enum { NEAR_BYTES = 16 << 20 };

bool attention_wgmma_supported(const Attention *a) {
  int64_t rows = 16 * WARPS;
  return !a->plain && tile_element_bytes(a->type) == 2 && a->n_queries <= rows * MOST_BLOCKS &&
         a->n_keys <= rows * MOST_BLOCKS;
}

// As many rows of a streamed tile as the registers hold without spills; drawing random numbers takes some, and so do
// softcap and bias.
void attention_wgmma_sizes(AttentionBlock *x, AttentionKernel kernel) {
  const Attention *a = x->a;
  bool forward = kernel == ATTENTION_FORWARD, more = a->dropout > 0 || a->biased || a->softcap > 0;
  x->warps = WARPS;
  x->n = more && (!forward || a->head_dim == 128) ? 32 : more || !forward ? 64 : 128;
}

// Blocks that start together have the same rows of different heads, the longest rows first: as many heads as their keys
// and values stay in the L2 cache.
void attention_wgmma_place(AttentionBlock *x, bool keys, int64_t grid[3], Val *block, Val *head) {
  Build *b = &x->b;
  const Attention *a = x->a;
  int64_t heads = grid[1], shared = keys ? 1 : a->heads / a->groups,
          bytes = 2 * x->n_columns * a->head_dim * tile_element_bytes(a->type), near = heads;
  if (keys) bytes *= a->heads / a->groups;
  while (near > 1 && (heads % near || near * bytes > NEAR_BYTES * shared)) near--;
  if (heads / near * grid[2] > MOST_BLOCKS) near = heads;
  int64_t turns = heads / near;
  grid[2] *= turns;
  grid[1] = grid[0];
  grid[0] = near;
  Val z = build_block_id(b, 'z');
  *head = build_add(b, build_block_id(b, 'x'), build_mul(b, build_mod(b, z, turns), build_i32(b, near)));
  *block = build_block_id(b, 'y');
  x->batch = build_div(b, z, turns);
}

// ---------------------------------------------------------------------------------------------------------------------
// Panels

static int panel_bytes(const Panels *p) { return p->rows * ROW_BYTES; }
static int panels_of(const AttentionBlock *x) { return x->a->head_dim / PANEL_COLUMNS; }

void wgmma_panels(AttentionBlock *x, Panels *p, int rows, int buffers, Val base, const AttentionStrides *s,
                  int64_t n_rows, Val head) {
  Build *b = &x->b;
  int element = tile_element_bytes(x->a->type);
  *p = (Panels){.rows = rows,
                .bytes = rows * x->a->head_dim * element,
                .row_bytes = s->row * element,
                .n_rows = n_rows,
                .head_bytes = s->head * element};
  require_promise(x->shared_bytes % WGMMA_ALIGN == 0 && rows % (4 * x->warps) == 0,
                  "panels that are not aligned, or that the threads do not divide");
  Tile tile = {.type = x->a->type,
               .rows = rows,
               .columns = PANEL_COLUMNS,
               .base = attention_allocate(x, buffers * p->bytes)};
  p->descriptor = build_descriptor(b, tile.base, panel_bytes(p), 8 * ROW_BYTES);
  Val row = build_div(b, b->tid, 8), chunk = build_mod(b, b->tid, 8);
  p->to = build_tile_chunk(b, &tile, row, chunk);
  Val offset = build_add(b, build_mul(b, build_i64(b, row), build_i64_constant(b, p->row_bytes)),
                         build_i64(b, build_mul(b, chunk, build_i32(b, 16))));
  p->from = build_offset(b, attention_operand(x, base, s, head), offset);
}

void wgmma_copy(AttentionBlock *x, const Panels *p, Val head, Val first_row, Val buffer) {
  Build *b = &x->b;
  int step = 4 * x->warps;   // rows that the block copies at a time
  Val from = build_offset(b, p->from, build_mul(b, build_i64(b, first_row), build_i64_constant(b, p->row_bytes))),
      to = p->to;
  if (head) from = build_offset(b, from, build_mul(b, build_i64(b, head), build_i64_constant(b, p->head_bytes)));
  if (buffer) to = build_offset(b, to, build_mul(b, buffer, build_i32(b, p->bytes)));
  Val left = build_sub(b, build_i32(b, p->n_rows), build_add(b, first_row, build_div(b, b->tid, 8)));
  for (int row = 0; row < p->rows; row += step) {
    Val bytes = build_select(b, build_less(b, build_i32(b, row), left), build_i32(b, 16), build_i32(b, 0));
    for (int panel = 0; panel < panels_of(x); panel++) {
      Val arguments[] = {build_offset(b, to, build_i32(b, panel * panel_bytes(p) + row * ROW_BYTES)),
                         build_offset(b, from, build_i64_constant(b, row * p->row_bytes + panel * ROW_BYTES)), bytes};
      build_intrinsic(b, "llvm.nvvm.cp.async.cg.shared.global.16.s", NULL, 3, arguments);
    }
  }
}

Val wgmma_buffer(AttentionBlock *x, const Panels *p, Val buffer) {
  return build_descriptor_on(&x->b, p->descriptor, build_mul(&x->b, buffer, build_i32(&x->b, p->bytes)));
}

void wgmma_arrived(AttentionBlock *x, int groups_pending) {
  build_wait(&x->b, groups_pending);
  build_async_fence(&x->b);
  build_barrier(&x->b);
}

// ---------------------------------------------------------------------------------------------------------------------
// Products

Val wgmma_rows(AttentionBlock *x, const Panels *p) {
  Build *b = &x->b;
  return build_descriptor_on(b, p->descriptor, build_mul(b, build_div(b, b->warp, 4), build_i32(b, 64 * ROW_BYTES)));
}

// Where depth step `step` begins, of an operand whose columns are the depth.
static Val step_bytes(AttentionBlock *x, const Panels *p, int step) {
  return build_i32(&x->b, step / 4 * panel_bytes(p) + step % 4 * 32);
}

void wgmma_scores(AttentionBlock *x, const Panels *p, Val rows, const Panels *q, Val columns, Scores s) {
  Build *b = &x->b;
  Wgmma w = {.type = x->a->type, .columns = x->n};
  build_wgmma_fence(b);
  for (int t = 0; t < x->n / 8; t++)
    for (int i = 0; i < 4; i++) s[t][i] = LLVMGetPoison(b->f32);   // not read
  for (int step = 0; step < x->a->head_dim / WGMMA_DEPTH; step++) {
    Val a = build_descriptor_on(b, rows, step_bytes(x, p, step));
    build_wgmma(b, &w, s[0], &a, build_descriptor_on(b, columns, step_bytes(x, q, step)), build_i32(b, step > 0));
  }
}

void wgmma_weights(AttentionBlock *x, Scores s, Weights w) {
  for (int step = 0; step < x->n / WGMMA_DEPTH; step++) build_narrow_a(&x->b, x->a->type, s, step, w[step]);
}

void wgmma_accumulate(AttentionBlock *x, Weights weights, Val depth, Val sums[ATTENTION_SUMS]) {
  Build *b = &x->b;
  Wgmma w = {.type = x->a->type, .columns = x->a->head_dim, .a_in_registers = true, .b_transposed = true};
  build_wgmma_fence(b);
  for (int step = 0; step < x->n / WGMMA_DEPTH; step++)
    build_wgmma(b, &w, sums, weights[step], build_descriptor_on(b, depth, build_i32(b, step * WGMMA_DEPTH * ROW_BYTES)),
                NULL);
}

void wgmma_wait_scores(AttentionBlock *x, int groups_pending, Scores s) {
  build_wgmma_wait(&x->b, groups_pending, x->n / 2, s[0]);
}

void wgmma_wait_sums(AttentionBlock *x, Val sums[ATTENTION_SUMS], Weights w) {
  Build *b = &x->b;
  int n = x->a->head_dim / 2;
  Val all[ATTENTION_SUMS + 2 * ATTENTION_N_TILES];
  for (int i = 0; i < n; i++) all[i] = sums[i];
  for (int i = 0; i < x->n / 4; i++) all[n + i] = LLVMBuildBitCast(b->builder, w[i / 4][i % 4], b->f32, "");
  build_wgmma_wait(b, 0, n + x->n / 4, all);
  for (int i = 0; i < n; i++) sums[i] = all[i];
}

void wgmma_get_sums(AttentionBlock *x, const Sums *sums, Val out[ATTENTION_SUMS]) {
  for (int i = 0; i < x->a->head_dim / 2; i++) out[i] = build_get(&x->b, sums->c[i / 4][i % 4]);
}

void wgmma_set_sums(AttentionBlock *x, const Sums *sums, Val values[ATTENTION_SUMS]) {
  for (int i = 0; i < x->a->head_dim / 2; i++) build_set(&x->b, sums->c[i / 4][i % 4], values[i]);
}

// ---------------------------------------------------------------------------------------------------------------------
// Forward

// s becomes exp(scale (s - max)); fade: what was summed so far is to be multiplied with. Two chains of sums for each
// row.
static void softmax(AttentionBlock *x, Scores s, RowState *state, Val fade[2]) {
  Build *b = &x->b;
  Val scale = build_f32(b, x->a->scale * M_LOG2E);
  for (int half = 0; half < 2; half++) {
    Val before = build_get(b, state->max[half]), most[2], sum[2];
    for (int i = 0; i < 2; i++) {
      most[i] = s[0][2 * half + i];
      for (int t = 1; t < x->n / 8; t++) most[i] = build_fmax(b, most[i], s[t][2 * half + i]);
    }
    most[0] = attention_quad(x, build_fmax(b, before, build_fmax(b, most[0], most[1])), true);
    // A row that has seen no key yet: -infinity minus itself would be NaN.
    Val safe = build_select(b, build_fequal(b, most[0], build_f32(b, -INFINITY)), build_f32(b, 0), most[0]),
        shift = build_fmul(b, safe, scale);
    fade[half] = build_exp2(b, build_fmul(b, build_fsub(b, before, safe), scale));
    sum[0] = build_fmul(b, build_get(b, state->sum[half]), fade[half]);
    sum[1] = build_f32(b, 0);
    for (int t = 0; t < x->n / 8; t++)
      for (int i = 0; i < 2; i++) {
        Val *p = &s[t][2 * half + i];
        *p = build_exp2(b, build_fsub(b, build_fmul(b, *p, scale), shift));
        sum[i] = build_fadd(b, sum[i], *p);
      }
    build_set(b, state->max[half], most[0]);
    build_set(b, state->sum[half], build_fadd(b, sum[0], sum[1]));
  }
}

// How many tiles of keys all rows of the block see in full.
static Val tiles_whole(AttentionBlock *x) {
  Build *b = &x->b;
  Val all = build_i32(b, x->a->n_keys / x->n);
  if (!x->a->causal) return all;
  Val seen = build_max(b, build_add(b, x->first_row, build_i32(b, x->a->n_keys - x->a->n_queries + 1)),
                       build_i32(b, 0));
  return build_min(b, all, build_div(b, seen, x->n));
}

typedef struct Forward {
  AttentionBlock x;
  Panels queries, keys, values;
  Val rows;   // descriptor of the queries
  Sums sums;
  RowState state;
  Var weights[ATTENTION_N_TILES / 2][4];   // of the tile before the current one
} Forward;

// Scores of the tile become weights.
static void weigh(Forward *f, Val tile, Val drawn, Scores s, bool masked, Val fade[2]) {
  attention_adjust(&f->x, tile, false, NULL, s, NULL);
  if (masked) attention_hide_keys(&f->x, tile, s);
  softmax(&f->x, s, &f->state, fade);
  attention_drop(&f->x, drawn, s);
}

// For the next iteration. The assembler wants no product to be on its way when operands of one are made.
static void set_weights(Forward *f, Scores s) {
  AttentionBlock *x = &f->x;
  Weights w;
  wgmma_weights(x, s, w);
  for (int step = 0; step < x->n / WGMMA_DEPTH; step++)
    for (int i = 0; i < 4; i++) build_set(&x->b, f->weights[step][i], w[step][i]);
}

static void get_weights(Forward *f, Weights w) {
  for (int step = 0; step < f->x.n / WGMMA_DEPTH; step++)
    for (int i = 0; i < 4; i++) w[step][i] = build_get(&f->x.b, f->weights[step][i]);
}

static void copy_tile(Forward *f, const Panels *p, Val tile) {
  Build *b = &f->x.b;
  wgmma_copy(&f->x, p, NULL, build_mul(b, tile, build_i32(b, f->x.n)), build_and(b, tile, build_i32(b, 1)));
}

// The first tile of keys, and the copies of the second and of the first of values.
static void first_tile(Forward *f, Val first, Val end) {
  AttentionBlock *x = &f->x;
  Build *b = &x->b;
  Val second = build_add(b, first, build_i32(b, 1)), fade[2];
  wgmma_copy(x, &f->queries, NULL, x->first_row, NULL);
  copy_tile(f, &f->keys, first);
  build_commit(b);
  Branch more;
  build_if(b, &more, build_less(b, second, end));
  copy_tile(f, &f->keys, second);
  build_if_end(b, &more);
  copy_tile(f, &f->values, first);
  build_commit(b);
  attention_sums(x, &f->sums);
  attention_row_state(x, &f->state);
  for (int step = 0; step < x->n / WGMMA_DEPTH; step++)
    for (int i = 0; i < 4; i++) f->weights[step][i] = build_var(b, b->i32, NULL);
  wgmma_arrived(x, 1);
  Val drawn = attention_draw(x, NULL, first, false);
  Scores s;
  Val buffer = wgmma_buffer(x, &f->keys, build_and(b, first, build_i32(b, 1)));
  wgmma_scores(x, &f->queries, f->rows, &f->keys, buffer, s);
  build_wgmma_commit(b);
  wgmma_wait_scores(x, 0, s);
  weigh(f, first, drawn, s, true, fade);
  set_weights(f, s);
}

// The scores of a tile, then the sums of the tile before it: while those are made, the scores become weights. No branch
// comes in between: the assembler would wait for the products.
static void next_tile(Forward *f, Val tile, Val end, bool masked) {
  AttentionBlock *x = &f->x;
  Build *b = &x->b;
  Val parity = build_and(b, tile, build_i32(b, 1)), next = build_add(b, tile, build_i32(b, 1)), sums[ATTENTION_SUMS],
      fade[2];
  wgmma_arrived(x, 0);   // the other buffer of keys has been read, and this one of values
  Branch more;
  build_if(b, &more, build_less(b, next, end));
  copy_tile(f, &f->keys, next);
  build_if_end(b, &more);
  copy_tile(f, &f->values, tile);
  build_commit(b);
  Val drawn = attention_draw(x, NULL, tile, false);
  Scores s;
  Weights w;
  get_weights(f, w);
  wgmma_get_sums(x, &f->sums, sums);
  wgmma_scores(x, &f->queries, f->rows, &f->keys, wgmma_buffer(x, &f->keys, parity), s);
  build_wgmma_commit(b);
  wgmma_accumulate(x, w, wgmma_buffer(x, &f->values, build_xor(b, parity, build_i32(b, 1))), sums);
  build_wgmma_commit(b);
  wgmma_wait_scores(x, 1, s);
  weigh(f, tile, drawn, s, masked, fade);
  wgmma_wait_sums(x, sums, w);
  for (int i = 0; i < x->a->head_dim / 2; i++) sums[i] = build_fmul(b, sums[i], fade[i % 4 / 2]);
  wgmma_set_sums(x, &f->sums, sums);
  set_weights(f, s);
}

void attention_wgmma_forward(LLVMModuleRef module, const Attention *a, const char *name, TemplateLaunch *launch) {
  Forward f;
  AttentionBlock *x = &f.x;
  attention_begin(x, module, a, ATTENTION_FORWARD, name, launch);
  // Beside draws and sums of 64 columns there is room for two, if ptxas is told to see to it.
  if (a->dropout > 0 && a->head_dim <= 64) build_min_blocks(&x->b, 2);
  Build *b = &x->b;
  wgmma_panels(x, &f.queries, 16 * x->warps, 1, x->p.q, &a->q, a->n_queries, x->head);
  wgmma_panels(x, &f.keys, x->n, 2, x->p.k, &a->k, a->n_keys, x->group);
  wgmma_panels(x, &f.values, x->n, 2, x->p.v, &a->v, a->n_keys, x->group);
  f.rows = wgmma_rows(x, &f.queries);
  Val first = attention_tiles_first(x), second = build_add(b, first, build_i32(b, 1)),
      end = build_max(b, attention_tiles_end(x), second);
  first_tile(&f, first, end);
  Val whole = build_min(b, build_max(b, tiles_whole(x), second), end);
  bool all_masked = a->masked || a->window > 0;
  for (int masked = 0; masked < 2; masked++) {
    Loop loop;
    if (!masked && all_masked) continue;
    next_tile(&f, build_loop(b, &loop, masked && !all_masked ? whole : second, masked ? end : whole, 1), end, masked);
    build_loop_end(b, &loop);
  }
  wgmma_arrived(x, 0);
  Weights w;
  Val sums[ATTENTION_SUMS], last = build_sub(b, end, build_i32(b, 1));
  get_weights(&f, w);
  wgmma_get_sums(x, &f.sums, sums);
  wgmma_accumulate(x, w, wgmma_buffer(x, &f.values, build_and(b, last, build_i32(b, 1))), sums);
  build_wgmma_commit(b);
  wgmma_wait_sums(x, sums, w);
  wgmma_set_sums(x, &f.sums, sums);
  attention_finish(x, &f.state, &f.sums);
  attention_end(x, launch);
}
