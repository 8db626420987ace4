// See template_attention.h.
#include <math.h>
#include <stddef.h>

#include "codegen/cuda/template/template_attention.h"
#include "support/draws.h"
#include "support/integers.h"

// ---------------------------------------------------------------------------------------------------------------------
// All kernels

int attention_launches(const Attention *a) { return a->backward ? 2 : 1; }

int64_t attention_workspace(const Attention *a) {
  return a->backward ? a->batch * a->heads * a->n_queries * (a->type == TILE_F64 ? 8 : 4) : 0;
}

void attention_build(LLVMModuleRef module, const Attention *a, int which, const char *name, TemplateLaunch *launch) {
  AttentionKernel kernel = !a->backward ? ATTENTION_FORWARD : which == 0 ? ATTENTION_BACKWARD_Q : ATTENTION_BACKWARD_KV;
  if (a->plain) attention_plain(module, a, kernel, name, launch);
  else if (a->wgmma)
    (kernel == ATTENTION_FORWARD      ? attention_wgmma_forward
     : kernel == ATTENTION_BACKWARD_Q ? attention_wgmma_backward_q
                                      : attention_wgmma_backward_kv)(module, a, name, launch);
  else if (kernel == ATTENTION_FORWARD) attention_forward(module, a, name, launch);
  else if (kernel == ATTENTION_BACKWARD_Q) attention_backward_q(module, a, name, launch);
  else attention_backward_kv(module, a, name, launch);
}

// Of a head where each token has all heads of q, then those of k and v.
static Val head_of(Build *b, const Attention *a, Val x, int64_t head) {
  return build_offset(b, x, build_i64_constant(b, head * a->head_dim * tile_element_bytes(a->type)));
}

// In order: name, how each kernel uses it (template.h), where it goes, and whether this attention has none.
typedef struct Parameter {
  const char *name;
  char use[3];
  Val *to;
  bool absent;
} Parameter;

AttentionOperands attention_declare(Build *b, LLVMModuleRef module, const Attention *a, AttentionKernel kernel,
                                    const char *name, int threads) {
  AttentionOperands p = {0};
  Val packed = NULL;
  bool unmasked = !a->masked, keeps = a->dropout <= 0;
  const Parameter forward[] = {{"q", "r", &p.q, false},
                               {"k", "r", &p.k, false},
                               {"v", "r", &p.v, false},
                               {"mask", "R", &p.mask, unmasked},
                               {"bias", "R", &p.bias, !a->biased},
                               {"key", "R", &p.key, keeps},
                               {"o", "p", &p.o, false},
                               {"lse", "p", &p.lse, false}};
  const Parameter backward[] = {{"q", "-rr", &p.q, false},
                                {"k", "-rr", &p.k, false},
                                {"v", "-rr", &p.v, false},
                                {"o", "-r-", &p.o, false},
                                {"lse", "-rr", &p.lse, false},
                                {"do", "-rr", &p.dy, false},
                                {"mask", "-RR", &p.mask, unmasked},
                                {"bias", "-RR", &p.bias, !a->biased},
                                {"key", "-RR", &p.key, keeps},
                                {"dq", "-p-", &p.dq, a->packed},
                                {"dk", "--p", &p.dk, a->packed},
                                {"dv", "--p", &p.dv, a->packed},
                                {"gradients", "-pp", &packed, !a->packed},
                                {"delta", "-pr", &p.delta, false}};
  const Parameter *all = a->backward ? backward : forward, *kept[14];
  char uses[15];
  int n = 0, total = a->backward ? 14 : 8;
  for (int i = 0; i < total; i++) {
    if (all[i].absent) continue;
    char use = all[i].use[kernel];
    uses[n] = use == 'r' && a->plain ? 'R' : use;
    kept[n++] = &all[i];
  }
  uses[n] = 0;
  build_kernel(b, module, name, uses, threads);
  for (int i = 0; i < n; i++) {
    Val v = build_parameter(b, i, kept[i]->name);
    if (uses[i] != '-') *kept[i]->to = v;
  }
  if (packed) {
    p.dq = packed;
    p.dk = head_of(b, a, packed, a->heads);
    p.dv = head_of(b, a, packed, a->heads + a->groups);
  }
  if (a->joined && p.k) {
    p.k = head_of(b, a, p.k, a->heads);
    p.v = head_of(b, a, p.v, a->heads + a->groups);
  }
  return p;
}

// ---------------------------------------------------------------------------------------------------------------------
// Those with tensor cores

// Rows of a block and of a streamed tile: as many as the registers hold without spills and 99 KiB of shared memory, the
// least that an architecture has (8.9).
static void choose_sizes(AttentionBlock *x, AttentionKernel kernel) {
  bool wide = tile_element_bytes(x->a->type) == 4;
  if (x->a->wgmma) {
    attention_wgmma_sizes(x, kernel);
    return;
  }
  x->warps = 4;
  // Drawing random numbers takes registers.
  x->n = !wide ? (x->a->head_dim == 128 && x->a->dropout > 0 ? 32 : 64) : x->a->head_dim == 64 ? 32 : 16;
}

// In shared memory, to be read again for each tile: of a key in registers the rounds' keys, twenty words, would be kept
// there as well, or in local memory. A barrier comes before the first tile.
static void keep_key(AttentionBlock *x) {
  Build *b = &x->b;
  x->key = attention_allocate(x, x->a->wgmma ? WGMMA_ALIGN : 16);
  Branch first;
  build_if(b, &first, build_less(b, b->tid, build_i32(b, 4)));
  Val at = build_mul(b, b->tid, build_i32(b, 4));
  build_store(b, build_load(b, b->i32, build_offset(b, x->p.key, at), 4), build_offset(b, x->key, at), 4);
  build_if_end(b, &first);
}

void attention_begin(AttentionBlock *x, LLVMModuleRef module, const Attention *a, AttentionKernel kernel,
                     const char *name, TemplateLaunch *launch) {
  bool keys = kernel == ATTENTION_BACKWARD_KV;
  *x = (AttentionBlock){.a = a,
                        .n_rows = keys ? a->n_keys : a->n_queries,
                        .n_columns = keys ? a->n_queries : a->n_keys};
  choose_sizes(x, kernel);
  Build *b = &x->b;
  x->p = attention_declare(b, module, a, kernel, name, 32 * x->warps);
  x->shared = a->wgmma ? build_wgmma_base(b) : build_shared_base(b);
  int64_t rows = 16 * x->warps, blocks = divide_up(x->n_rows, rows), shared = a->heads / a->groups;
  *launch = (TemplateLaunch){.grid = {blocks, keys ? a->groups : a->heads, a->batch}, .threads = 32 * x->warps};
  Val block, head = NULL;
  if (a->wgmma) attention_wgmma_place(x, keys, launch->grid, &block, &head);
  else block = build_block_id(b, 'x');
  // Under a causal mask the last rows have the most to do: they go first.
  if (a->causal && !(a->wgmma && keys)) block = build_sub(b, build_i32(b, blocks - 1), block);
  x->first_row = build_mul(b, block, build_i32(b, rows));
  if (!a->wgmma) head = build_block_id(b, 'y');
  x->head = keys && shared > 1 ? build_mul(b, head, build_i32(b, shared)) : head;
  x->group = keys || shared == 1 ? head : build_div(b, head, shared);
  if (!a->wgmma) x->batch = build_block_id(b, 'z');
  x->quad = build_div(b, b->lane, 4);
  x->place = build_mod(b, b->lane, 4);
  x->warp_row = build_mul(b, b->warp, build_i32(b, 16));
  if (x->p.key) keep_key(x);
}

void attention_end(AttentionBlock *x, TemplateLaunch *launch) {
  launch->shared_bytes = x->shared_bytes + (x->a->wgmma ? WGMMA_PADDING : 0);
  build_finish(&x->b);
}

static Val i64_constant(AttentionBlock *x, int64_t v) { return build_i64_constant(&x->b, v); }

Val attention_operand(AttentionBlock *x, Val base, const AttentionStrides *s, Val head) {
  Build *b = &x->b;
  int bytes = tile_element_bytes(x->a->type);
  Val offset = build_add(b, build_mul(b, build_i64(b, x->batch), i64_constant(x, s->batch * bytes)),
                         build_mul(b, build_i64(b, head), i64_constant(x, s->head * bytes)));
  return build_offset(b, base, offset);
}

Val attention_statistics(AttentionBlock *x, Val base) {
  Build *b = &x->b;
  Val index = build_add(b, build_mul(b, build_i64(b, x->batch), i64_constant(x, x->a->heads)), build_i64(b, x->head));
  return build_offset(b, base, build_mul(b, index, i64_constant(x, 4 * x->a->n_queries)));
}

Val attention_allocate(AttentionBlock *x, int bytes) {
  Val at = build_offset(&x->b, x->shared, build_i32(&x->b, x->shared_bytes));
  x->shared_bytes += (bytes + 127) / 128 * 128;
  return at;
}

void attention_rows(AttentionBlock *x, Rows *rows, Val base, const AttentionStrides *s, Val head) {
  *rows = (Rows){.tile = {x->a->type, 16 * x->warps, x->a->head_dim, NULL}};
  rows->tile.base = attention_allocate(x, tile_bytes(&rows->tile));
  TileSource from = {attention_operand(x, base, s, head), s->row, x->first_row, x->n_rows};
  build_copy_tile(&x->b, &rows->tile, &from, 32 * x->warps);
}

void attention_hold(AttentionBlock *x, Rows *rows) {
  rows->kept = true;
  for (int step = 0; step < x->a->head_dim / tile_k(x->a->type); step++)
    build_load_a(&x->b, &rows->tile, x->warp_row, 0, step, rows->a[step]);
}

void attention_stream(AttentionBlock *x, Stream *stream, Val base, const AttentionStrides *s, Val head) {
  stream->tile = (Tile){.type = x->a->type, .rows = x->n, .columns = x->a->head_dim};
  stream->base = attention_allocate(x, 2 * tile_bytes(&stream->tile));
  stream->source = (TileSource){attention_operand(x, base, s, head), s->row, NULL, x->n_columns};
  stream->head_bytes = s->head * tile_element_bytes(x->a->type);
}

void attention_current(AttentionBlock *x, Stream *stream, Val parity) {
  stream->tile.base = build_offset(&x->b, stream->base,
                                   build_mul(&x->b, parity, build_i32(&x->b, tile_bytes(&stream->tile))));
}

void attention_copy(AttentionBlock *x, const Stream *stream, Val head, Val index, Val parity) {
  Stream to = *stream;
  if (head)
    to.source.base = build_offset(&x->b, to.source.base,
                                  build_mul(&x->b, build_i64(&x->b, head), i64_constant(x, stream->head_bytes)));
  attention_current(x, &to, parity);
  to.source.first_row = build_mul(&x->b, index, build_i32(&x->b, x->n));
  build_copy_tile(&x->b, &to.tile, &to.source, 32 * x->warps);
}

Val attention_row(AttentionBlock *x, int half) {
  Build *b = &x->b;
  return build_add(b, build_add(b, x->first_row, x->warp_row), build_add(b, x->quad, build_i32(b, 8 * half)));
}

Val attention_column(AttentionBlock *x, Val tile_index, int tile, int element) {
  Build *b = &x->b;
  Val first = build_add(b, build_mul(b, tile_index, build_i32(b, x->n)), build_mul(b, x->place, build_i32(b, 2)));
  return build_add(b, first, build_i32(b, 8 * tile + element));
}

void attention_scores(AttentionBlock *x, const Rows *rows, const Tile *tile, Scores s) {
  Build *b = &x->b;
  TileType type = x->a->type;
  for (int t = 0; t < x->n / 8; t++)
    for (int i = 0; i < 4; i++) s[t][i] = build_f32(b, 0);
  for (int step = 0; step < x->a->head_dim / tile_k(type); step++) {
    Val a[4];
    if (!rows->kept) build_load_a(b, &rows->tile, x->warp_row, 0, step, a);
    for (int i = 0; i < 4 && rows->kept; i++) a[i] = rows->a[step][i];
    for (int t = 0; t < x->n / 8; t += 2) {
      Val pair[4];
      build_load_b(b, tile, 8 * t, step, pair);
      for (int i = 0; i < 2; i++) build_mma(b, type, s[t + i], a, pair + 2 * i);
    }
  }
}

void attention_sums(AttentionBlock *x, Sums *sums) {
  for (int t = 0; t < x->a->head_dim / 8; t++)
    for (int i = 0; i < 4; i++) sums->c[t][i] = build_var(&x->b, x->b.f32, build_f32(&x->b, 0));
}

void attention_accumulate(AttentionBlock *x, Scores p, const Tile *tile, Sums *sums) {
  Build *b = &x->b;
  TileType type = x->a->type;
  for (int step = 0; step < x->n / tile_k(type); step++) {
    Val a[4];
    build_narrow_a(b, type, p, step, a);
    for (int t = 0; t < x->a->head_dim / 8; t += 2) {
      Val pair[4];
      build_load_b_transposed(b, tile, step, NULL, 8 * t, pair);
      for (int j = 0; j < 2; j++) {
        Val c[4];
        for (int i = 0; i < 4; i++) c[i] = build_get(b, sums->c[t + j][i]);
        build_mma(b, type, c, a, pair + 2 * j);
        for (int i = 0; i < 4; i++) build_set(b, sums->c[t + j][i], c[i]);
      }
    }
  }
}

void attention_store(AttentionBlock *x, const Sums *sums, Val factor[2], Val uniform, Val base,
                     const AttentionStrides *s, Val head) {
  Build *b = &x->b;
  int bytes = tile_element_bytes(x->a->type);
  Val operand = attention_operand(x, base, s, head);
  for (int half = 0; half < 2; half++) {
    Val row = attention_row(x, half), by = factor ? factor[half] : uniform;
    Val address = build_offset(b, operand,
                               build_add(b, build_mul(b, build_i64(b, row), i64_constant(x, s->row * bytes)),
                                         build_i64(b, build_mul(b, x->place, build_i32(b, 2 * bytes)))));
    Branch inside;
    build_if(b, &inside, build_less(b, row, build_i32(b, x->n_rows)));
    for (int t = 0; t < x->a->head_dim / 8; t++) {
      Val low = build_fmul(b, build_get(b, sums->c[t][2 * half]), by),
          high = build_fmul(b, build_get(b, sums->c[t][2 * half + 1]), by);
      Val at = build_offset(b, address, build_i32(b, 8 * t * bytes));
      if (bytes == 2) build_store(b, build_narrow(b, x->a->type, low, high), at, 4);
      else build_store(b, build_pair(b, low, high), at, 8);
    }
    build_if_end(b, &inside);
  }
}

void attention_store_gradient(AttentionBlock *x, const Sums *sums, double factor, Val base, const AttentionStrides *to,
                              Val head) {
  attention_store(x, sums, NULL, build_f32(&x->b, factor), base, to, head);
}

Val attention_quad(AttentionBlock *x, Val v, bool maximum) {
  for (int mask = 1; mask <= 2; mask *= 2) {
    Val other = build_shuffle_xor(&x->b, v, mask);
    v = maximum ? build_fmax(&x->b, v, other) : build_fadd(&x->b, v, other);
  }
  return v;
}

Val attention_seen(AttentionBlock *x, Val key) {
  Build *b = &x->b;
  if (!x->p.mask) return NULL;
  Val index = build_add(b, build_mul(b, build_i64(b, x->batch), i64_constant(x, x->a->n_keys)), build_i64(b, key));
  return LLVMBuildICmp(b->builder, LLVMIntNE, build_load(b, b->i8, build_offset(b, x->p.mask, index), 1),
                       LLVMConstInt(b->i8, 0, false), "");
}

static Val lane_has(Build *b, int mask) {
  return build_equal(b, build_and(b, b->lane, build_i32(b, mask)), build_i32(b, mask));
}

static Val shuffled(Build *b, Val word, int mask) {
  Val x = build_shuffle_xor(b, LLVMBuildBitCast(b->builder, word, b->f32, ""), mask);
  return LLVMBuildBitCast(b->builder, x, b->i32, "");
}

// Lanes that differ in the bit of `mask` exchange bits: of each `width` of them and the `width` above, the lane without
// it gets the other's first for its second, and gives that for the other's first.
static Val exchange(Build *b, int mask, int width, Val bits) {
  Val first = build_i32(b, width == 1 ? 0x55555555 : 0x33333333), shift = build_i32(b, width);
  Val got = shuffled(b, bits, mask);
  Val low = build_or(b, build_and(b, bits, first), LLVMBuildShl(b->builder, build_and(b, got, first), shift, "")),
      high = build_or(b, build_and(b, LLVMBuildLShr(b->builder, got, shift, ""), first),
                      build_and(b, bits, LLVMBuildNot(b->builder, first, "")));
  return build_select(b, lane_has(b, mask), high, low);
}

// The number of a block of draws: of that query and the DRAW_BLOCK keys among which `key` is. In 32 bits where all have
// room, which saves registers.
static Val block_of_draws(AttentionBlock *x, Val head, Val query, Val key) {
  Build *b = &x->b;
  const Attention *a = x->a;
  int64_t of_row = attention_row_draws(a->n_keys) / DRAW_BLOCK;
  bool narrow = (double)a->batch * (double)a->heads * (double)a->n_queries * (double)of_row < INT32_MAX;
  Val index[] = {x->batch, head ? build_add(b, x->head, head) : x->head, query, build_div(b, key, DRAW_BLOCK)};
  int64_t extent[] = {0, a->heads, a->n_queries, of_row};
  Val number = NULL;
  for (int i = 0; i < 4; i++) {
    Val at = narrow ? index[i] : build_i64(b, index[i]);
    Val all = LLVMConstInt(LLVMTypeOf(at), (uint64_t)extent[i], false);
    number = i ? build_add(b, build_mul(b, number, all), at) : at;
  }
  return number;
}

// A lane has two neighbouring columns of two rows eight apart. Where columns are keys, a pair of lanes has two rows'
// blocks; where rows are, every fourth lane of four has four: each draws one, and they exchange the bits, those of all
// tiles at once.
Val attention_draw(AttentionBlock *x, Val head, Val tile, bool keys_are_rows) {
  Build *b = &x->b;
  if (!x->p.key) return NULL;
  require_promise(x->n <= 64, "more draws of a lane than a word has bits");
  RandomKey key = build_random_key(b, x->key);
  Val rows[2] = {attention_row(x, 0), attention_row(x, 1)}, bits = build_i32(b, 0);
  Val row = build_select(b, lane_has(b, keys_are_rows ? 8 : 1), rows[1], rows[0]);
  for (int t = 0; t < x->n / 8; t++) {
    Val columns[2] = {attention_column(x, tile, t, 0), attention_column(x, tile, t, 1)}, column = columns[0];
    if (keys_are_rows) column = build_select(b, lane_has(b, 4), columns[1], columns[0]);
    Val block = keys_are_rows ? block_of_draws(x, head, column, row) : block_of_draws(x, head, row, column);
    bits = build_keep_block(b, &key, block, x->a->dropout, bits, 4 * t);
  }
  if (keys_are_rows) bits = exchange(b, 4, 1, bits);
  return exchange(b, keys_are_rows ? 8 : 1, 2, bits);
}

Val attention_kept(AttentionBlock *x, Val drawn, int t, int i) {
  Build *b = &x->b;
  if (!drawn) return NULL;
  Val bit = build_and(b, drawn, build_i32(b, (int32_t)(1u << (4 * t + i))));
  return build_select(b, build_equal(b, bit, build_i32(b, 0)), build_f32(b, 0), build_f32(b, 1 / (1 - x->a->dropout)));
}

// ---------------------------------------------------------------------------------------------------------------------
// What is done to scores besides the scale

Val attention_tanh(Build *b, Val u, Val exponential) {
  LLVMTypeRef type = LLVMTypeOf(u);
  Val one = LLVMConstReal(type, 1), zero = LLVMConstReal(type, 0);
  Val t = LLVMBuildFDiv(b->builder, build_fsub(b, one, exponential), build_fadd(b, one, exponential), "");
  return build_select(b, LLVMBuildFCmp(b->builder, LLVMRealOLT, u, zero, ""), build_fsub(b, zero, t), t);
}

Val attention_near(Build *b, const Attention *a, Val query, Val key) {
  if (a->window <= 0) return NULL;
  int64_t window = a->window < 1 << 30 ? a->window : 1 << 30;
  Val away = build_sub(b, build_add(b, query, build_i32(b, a->n_keys - a->n_queries)), key);
  Val near = build_less(b, away, build_i32(b, window));
  return a->causal ? near : build_and(b, near, build_less(b, build_i32(b, -window), away));
}

Val attention_tiles_first(AttentionBlock *x) {
  Build *b = &x->b;
  const Attention *a = x->a;
  if (a->window <= 0) return build_i32(b, 0);
  int64_t window = a->window < 1 << 30 ? a->window : 1 << 30;
  Val key = build_add(b, x->first_row, build_i32(b, a->n_keys - a->n_queries + 1 - window));
  return build_div(b, build_max(b, key, build_i32(b, 0)), x->n);
}

void attention_adjust(AttentionBlock *x, Val tile, bool keys_are_rows, Val head, Scores s, Scores slope) {
  Build *b = &x->b;
  const Attention *a = x->a;
  if (!a->biased && a->softcap <= 0) return;
  Val base = x->p.bias;
  if (base) {
    Val of_head = build_i64(b, head ? build_add(b, x->head, head) : x->head);
    Val at = build_add(b, build_mul(b, build_i64(b, x->batch), i64_constant(x, 4 * a->bias_batch)),
                       build_mul(b, of_head, i64_constant(x, 4 * a->bias_head)));
    base = build_offset(b, base, at);
  }
  for (int t = 0; t < x->n / 8; t++)
    for (int i = 0; i < 4; i++) {
      Val row = attention_row(x, i / 2), column = attention_column(x, tile, t, i % 2);
      Val query = build_min(b, keys_are_rows ? column : row, build_i32(b, a->n_queries - 1)),
          key = build_min(b, keys_are_rows ? row : column, build_i32(b, a->n_keys - 1));
      if (a->softcap > 0) {
        Val u = build_fmul(b, s[t][i], build_f32(b, a->scale / a->softcap)),
            size = build_intrinsic(b, "llvm.fabs", b->f32, 1, &u);
        Val tanh = attention_tanh(b, u, build_exp2(b, build_fmul(b, size, build_f32(b, -2 * M_LOG2E))));
        if (slope) slope[t][i] = build_fsub(b, build_f32(b, 1), build_fmul(b, tanh, tanh));
        s[t][i] = build_fmul(b, tanh, build_f32(b, a->softcap / a->scale));
      }
      if (!base) continue;
      Val index = build_add(b, build_mul(b, build_i64(b, query), i64_constant(x, a->n_keys)), build_i64(b, key));
      Val bias = build_load(b, b->f32, build_offset(b, base, build_mul(b, index, i64_constant(x, 4))), 4);
      // Beyond the last query all operands are zeros, and scores too must not become large.
      if (keys_are_rows)
        bias = build_select(b, build_less(b, column, build_i32(b, a->n_queries)), bias, build_f32(b, 0));
      s[t][i] = build_ffma(b, bias, build_f32(b, 1 / a->scale), s[t][i]);
    }
}
