// Attention without tensor cores, for any head dimension, alignment and float type: a warp for each row of queries (or,
// for the gradients of keys and values, of keys) that goes through the other tokens 32 at a time. In the scores a lane
// is a token, in the sums it is a column, so that shuffles hand the weights around.
#include <math.h>

#include "codegen/cuda/template/template_attention.h"
#include "support/draws.h"
#include "support/integers.h"

enum { WARPS = 4, COLUMNS = 4 };   // COLUMNS times 32 columns of the result to a warp; more are other blocks

typedef struct Plain {
  Build b;
  const Attention *a;
  AttentionOperands p;
  LLVMTypeRef type;         // of the arithmetic and of lse: f32 or f64
  Val row;                  // i32
  Val batch, head, group;   // i32; head: of queries
  Val column[COLUMNS];      // i32; of this lane, clamped
  Val inside[COLUMNS];
  Val writes_statistics;   // by lane 0 of the block of the first columns
  RandomKey key;
} Plain;

static Val real(Plain *x, double value) { return LLVMConstReal(x->type, value); }
static Val i64(Plain *x, int64_t value) { return LLVMConstInt(x->b.i64, (uint64_t)value, true); }
static int value_bytes(const Plain *x) { return x->type == x->b.f64 ? 8 : 4; }

// Of a batch and head, row and column 0.
static Val row_address(Plain *x, Val base, const AttentionStrides *s, Val head, Val row) {
  Build *b = &x->b;
  int64_t bytes = tile_element_bytes(x->a->type);
  Val offset = build_mul(b, build_i64(b, x->batch), i64(x, s->batch * bytes));
  offset = build_add(b, offset, build_mul(b, build_i64(b, head), i64(x, s->head * bytes)));
  return build_offset(b, base, build_add(b, offset, build_mul(b, build_i64(b, row), i64(x, s->row * bytes))));
}

static Val load_element(Plain *x, Val row, Val column) {
  Build *b = &x->b;
  int bytes = tile_element_bytes(x->a->type);
  Val at = build_offset(b, row, build_mul(b, build_i64(b, column), i64(x, bytes)));
  return build_widened(b, x->a->type, build_load(b, build_memory_type(b, x->a->type), at, bytes));
}

static void store_element(Plain *x, Val row, Val column, Val value) {
  Build *b = &x->b;
  int bytes = tile_element_bytes(x->a->type);
  Val at = build_offset(b, row, build_mul(b, build_i64(b, column), i64(x, bytes)));
  build_store(b, build_rounded(b, x->a->type, value), at, bytes);
}

// Element of lse or delta: (batch, heads, n_queries).
static Val statistic(Plain *x, Val base, Val head, Val row) {
  Build *b = &x->b;
  Val index = build_add(b, build_mul(b, build_i64(b, x->batch), i64(x, x->a->heads)), build_i64(b, head));
  index = build_add(b, build_mul(b, index, i64(x, x->a->n_queries)), build_i64(b, row));
  return build_offset(b, base, build_mul(b, index, i64(x, value_bytes(x))));
}

// ---------------------------------------------------------------------------------------------------------------------
// Functions

// e^x, 0 below the smallest normal number. f64: reduction by ln 2 in two parts (Cody and Waite), then the Taylor
// series.
static Val exponential(Plain *x, Val v) {
  Build *b = &x->b;
  if (x->type == b->f32) return build_exp2(b, build_fmul(b, v, real(x, M_LOG2E)));
  Val low = LLVMBuildFCmp(b->builder, LLVMRealOLT, v, real(x, -708), "");
  v = build_select(b, low, real(x, 0), v);
  Val n = build_intrinsic(b, "llvm.rint", x->type, 1, (Val[]){build_fmul(b, v, real(x, M_LOG2E))});
  Val r = build_ffma(b, n, real(x, -1.90821492927058770002e-10),
                     build_ffma(b, n, real(x, -6.93147180369123816490e-01), v));
  double factorial = 6227020800.0;   // 13!
  Val sum = real(x, 1 / factorial);
  for (int i = 13; i > 0; i--) {
    factorial /= i;
    sum = build_ffma(b, sum, r, real(x, 1 / factorial));
  }
  Val power = LLVMBuildShl(b->builder, build_add(b, LLVMBuildFPToSI(b->builder, n, b->i64, ""), i64(x, 1023)),
                           i64(x, 52), "");
  return build_select(b, low, real(x, 0), build_fmul(b, sum, LLVMBuildBitCast(b->builder, power, b->f64, "")));
}

// log x for x >= 1. f64: from that of f32 by one step of Halley's iteration, y + 2 (x - e^y) / (x + e^y).
static Val logarithm(Plain *x, Val v) {
  Build *b = &x->b;
  bool wide = x->type == b->f64;
  Val y = build_fmul(b, build_log2(b, wide ? LLVMBuildFPTrunc(b->builder, v, b->f32, "") : v), build_f32(b, M_LN2));
  if (!wide) return y;
  y = LLVMBuildFPExt(b->builder, y, b->f64, "");
  Val e = exponential(x, y);
  return build_fadd(b, y,
                    build_fmul(b, real(x, 2), LLVMBuildFDiv(b->builder, build_fsub(b, v, e), build_fadd(b, v, e), "")));
}

static Val over_warp(Plain *x, Val v, bool maximum) {
  for (int mask = 16; mask; mask /= 2) {
    Val other = build_shuffle_xor(&x->b, v, mask);
    v = maximum ? build_fmax(&x->b, v, other) : build_fadd(&x->b, v, other);
  }
  return v;
}

// Product of two rows over the head dimension, by one lane.
static Val dot(Plain *x, Val u, Val v) {
  Build *b = &x->b;
  Var sum = build_var(b, x->type, real(x, 0));
  Loop loop;
  Val d = build_loop(b, &loop, build_i32(b, 0), build_i32(b, x->a->head_dim), 1);
  build_set(b, sum, build_ffma(b, load_element(x, u, d), load_element(x, v, d), build_get(b, sum)));
  build_loop_end(b, &loop);
  return build_get(b, sum);
}

// ---------------------------------------------------------------------------------------------------------------------
// The place of the warp

// Opens a branch for the warps that have a row. heads: of the rows.
static void begin_plain(Plain *x, Branch *branch, LLVMModuleRef module, const Attention *a, AttentionKernel kernel,
                        const char *name, int64_t n_rows, int64_t heads, TemplateLaunch *launch) {
  *x = (Plain){.a = a};
  Build *b = &x->b;
  x->p = attention_declare(b, module, a, kernel, name, 32 * WARPS);
  build_min_blocks(b, 4);
  x->type = a->type == TILE_F64 ? b->f64 : b->f32;
  int64_t parts = (a->head_dim + 32 * COLUMNS - 1) / (32 * COLUMNS);
  *launch = (TemplateLaunch){.grid = {divide_up(n_rows, WARPS), heads * parts, a->batch}, .threads = 32 * WARPS};
  Val block = build_block_id(b, 'x'), y = build_block_id(b, 'y');
  x->batch = build_block_id(b, 'z');
  x->row = build_add(b, build_mul(b, block, build_i32(b, WARPS)), b->warp);
  x->head = build_div(b, y, parts);
  x->group = build_div(b, x->head, heads / a->groups);
  Val part = build_mod(b, y, parts);
  for (int c = 0; c < COLUMNS; c++) {
    Val column = build_add(b, build_mul(b, part, build_i32(b, 32 * COLUMNS)),
                           build_add(b, b->lane, build_i32(b, 32 * c)));
    x->inside[c] = build_less(b, column, build_i32(b, a->head_dim));
    x->column[c] = build_min(b, column, build_i32(b, a->head_dim - 1));
  }
  x->writes_statistics = build_and(b, build_equal(b, b->lane, build_i32(b, 0)), build_equal(b, part, build_i32(b, 0)));
  if (x->p.key) x->key = build_random_key(b, x->p.key);
  build_if(b, branch, build_less(b, x->row, build_i32(b, n_rows)));
}

static void end_plain(Plain *x, Branch *branch) {
  build_if_end(&x->b, branch);
  build_finish(&x->b);
}

static Val seen_by_mask(Plain *x, Val seen, Val query, Val key) {
  Build *b = &x->b;
  Val near = attention_near(b, x->a, query, key);
  if (near) seen = build_and(b, seen, near);
  if (!x->p.mask) return seen;
  Val index = build_add(b, build_mul(b, build_i64(b, x->batch), i64(x, x->a->n_keys)), build_i64(b, key));
  Val byte = build_load(b, b->i8, build_offset(b, x->p.mask, index), 1);
  return build_and(b, seen, LLVMBuildICmp(b->builder, LLVMIntNE, byte, LLVMConstInt(b->i8, 0, false), ""));
}

static Val keep(Plain *x, Val head, Val query, Val key) {
  Build *b = &x->b;
  if (!x->p.key) return NULL;
  Val index = build_add(b, build_mul(b, build_i64(b, x->batch), i64(x, x->a->heads)), build_i64(b, head));
  index = build_add(b, build_mul(b, index, i64(x, x->a->n_queries)), build_i64(b, query));
  return build_keep(b, &x->key,
                    build_add(b, build_mul(b, index, i64(x, attention_row_draws(x->a->n_keys))), build_i64(b, key)),
                    x->a->dropout, x->type);
}

// The score of a pair, with scale, softcap and bias. slope: the derivative of softcap; NULL without it.
static Val score(Plain *x, Val q, Val k, Val head, Val query, Val key, Val *slope) {
  Build *b = &x->b;
  const Attention *a = x->a;
  Val s = build_fmul(b, dot(x, q, k), real(x, a->scale));
  *slope = NULL;
  if (a->softcap > 0) {
    Val u = build_fmul(b, s, real(x, 1 / a->softcap)), size = build_intrinsic(b, "llvm.fabs", x->type, 1, &u);
    Val tanh = attention_tanh(b, u, exponential(x, build_fmul(b, size, real(x, -2))));
    *slope = build_fsub(b, real(x, 1), build_fmul(b, tanh, tanh));
    s = build_fmul(b, tanh, real(x, a->softcap));
  }
  if (!a->biased) return s;
  Val at = build_add(b, build_mul(b, build_i64(b, x->batch), i64(x, a->bias_batch)),
                     build_mul(b, build_i64(b, head), i64(x, a->bias_head)));
  at = build_add(b, at, build_add(b, build_mul(b, build_i64(b, query), i64(x, a->n_keys)), build_i64(b, key)));
  return build_fadd(b, s,
                    build_load(b, x->type, build_offset(b, x->p.bias, build_mul(b, at, i64(x, value_bytes(x)))),
                               value_bytes(x)));
}

typedef struct Totals {
  Var c[COLUMNS];
} Totals;

static void clear(Plain *x, Totals *sums) {
  for (int c = 0; c < COLUMNS; c++) sums->c[c] = build_var(&x->b, x->type, real(x, 0));
}

// sums += sum over the tokens first .. end - 1, at most 32, of the weight that the token's lane holds times the token's
// row. n: how many pairs of weights and operands.
static void accumulate(Plain *x, int n, Totals *const sums[], const Val weight[], const Val base[],
                       const AttentionStrides *const stride[], Val head, Val first, Val end) {
  Build *b = &x->b;
  Loop loop;
  Val t = build_loop(b, &loop, build_i32(b, 0), build_min(b, build_sub(b, end, first), build_i32(b, 32)), 1);
  for (int i = 0; i < n; i++) {
    Val w = build_shuffle_from(b, weight[i], t), row = row_address(x, base[i], stride[i], head, build_add(b, first, t));
    for (int c = 0; c < COLUMNS && 32 * c < x->a->head_dim; c++)
      build_set(b, sums[i]->c[c], build_ffma(b, w, load_element(x, row, x->column[c]), build_get(b, sums[i]->c[c])));
  }
  build_loop_end(b, &loop);
}

static void store_sums(Plain *x, const Totals *sums, Val factor, Val row) {
  Build *b = &x->b;
  for (int c = 0; c < COLUMNS && 32 * c < x->a->head_dim; c++) {
    Branch branch;
    build_if(b, &branch, x->inside[c]);
    store_element(x, row, x->column[c], build_fmul(b, build_get(b, sums->c[c]), factor));
    build_if_end(b, &branch);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Rows of queries

static Val end_of_keys(Plain *x) {
  Build *b = &x->b;
  const Attention *a = x->a;
  if (!a->causal) return build_i32(b, a->n_keys);
  Val seen = build_add(b, x->row, build_i32(b, a->n_keys - a->n_queries + 1));
  return build_min(b, build_max(b, seen, build_i32(b, 0)), build_i32(b, a->n_keys));
}

// The lane's token of those from `first` on, clamped, and whether there is one.
static Val token_of_lane(Plain *x, Val first, Val end, Val *valid) {
  Build *b = &x->b;
  Val token = build_add(b, first, b->lane);
  *valid = build_less(b, token, end);
  return build_min(b, token, build_sub(b, end, build_i32(b, 1)));
}

static void plain_forward(LLVMModuleRef module, const Attention *a, const char *name, TemplateLaunch *launch) {
  Plain state, *x = &state;
  Branch branch;
  begin_plain(x, &branch, module, a, ATTENTION_FORWARD, name, a->n_queries, a->heads, launch);
  Build *b = &x->b;
  Val q = row_address(x, x->p.q, &a->q, x->head, x->row), last = end_of_keys(x), infinity = real(x, INFINITY),
      none = real(x, -INFINITY);
  Var max = build_var(b, x->type, none), sum = build_var(b, x->type, real(x, 0));
  Totals o, *sums[] = {&o};
  clear(x, &o);
  Loop loop;
  Val first = build_loop(b, &loop, build_i32(b, 0), last, 32), valid, key = token_of_lane(x, first, last, &valid);
  Val slope, s = score(x, q, row_address(x, x->p.k, &a->k, x->group, key), x->head, x->row, key, &slope);
  s = build_select(b, seen_by_mask(x, valid, x->row, key), s, none);
  Val before = build_get(b, max), most = build_fmax(b, before, over_warp(x, s, true)),
      safe = build_select(b, build_fequal(b, most, none), real(x, 0), most);
  Val fade = exponential(x, build_fsub(b, before, safe)), p = exponential(x, build_fsub(b, s, safe));
  build_set(b, max, most);
  build_set(b, sum, build_ffma(b, build_get(b, sum), fade, p));
  for (int c = 0; c < COLUMNS; c++) build_set(b, o.c[c], build_fmul(b, build_get(b, o.c[c]), fade));
  Val kept = keep(x, x->head, x->row, key);
  if (kept) p = build_fmul(b, p, kept);
  accumulate(x, 1, sums, (Val[]){p}, (Val[]){x->p.v}, (const AttentionStrides *const[]){&a->v}, x->group, first, last);
  build_loop_end(b, &loop);
  Val total = over_warp(x, build_get(b, sum), false), empty = build_fequal(b, total, real(x, 0));
  store_sums(x, &o, build_select(b, empty, real(x, 0), LLVMBuildFDiv(b->builder, real(x, 1), total, "")),
             row_address(x, x->p.o, &a->o, x->head, x->row));
  Val lse = build_fadd(b, build_get(b, max), logarithm(x, build_select(b, empty, real(x, 1), total)));
  Branch writes;
  build_if(b, &writes, x->writes_statistics);
  build_store(b, build_select(b, empty, infinity, lse), statistic(x, x->p.lse, x->head, x->row), value_bytes(x));
  build_if_end(b, &writes);
  end_plain(x, &branch);
}

// The weight (with dropout) of a pair and the gradient of its score, the scale included; both 0 where the pair is not
// seen. Rows of one lane.
static void pair_gradients(Plain *x, Val q, Val k, Val v, Val dy, Val head, Val query, Val key, Val lse, Val delta,
                           Val seen, Val kept, Val *weight, Val *ds) {
  Build *b = &x->b;
  Val slope, p = exponential(x, build_fsub(b, score(x, q, k, head, query, key, &slope), lse)), dp = dot(x, dy, v);
  p = build_select(b, seen, p, real(x, 0));
  if (kept) dp = build_fmul(b, dp, kept);
  *weight = kept ? build_fmul(b, p, kept) : p;
  *ds = build_fmul(b, build_fmul(b, p, real(x, x->a->scale)), build_fsub(b, dp, delta));
  if (slope) *ds = build_fmul(b, *ds, slope);
}

static void plain_backward_q(LLVMModuleRef module, const Attention *a, const char *name, TemplateLaunch *launch) {
  Plain state, *x = &state;
  Branch branch;
  begin_plain(x, &branch, module, a, ATTENTION_BACKWARD_Q, name, a->n_queries, a->heads, launch);
  Build *b = &x->b;
  Val q = row_address(x, x->p.q, &a->q, x->head, x->row), dy = row_address(x, x->p.dy, &a->o, x->head, x->row),
      o = row_address(x, x->p.o, &a->o, x->head, x->row);
  Val lse = build_load(b, x->type, statistic(x, x->p.lse, x->head, x->row), value_bytes(x));
  Var part = build_var(b, x->type, real(x, 0));
  Loop loop;
  Val d = build_loop(b, &loop, b->lane, build_i32(b, a->head_dim), 32);
  build_set(b, part, build_ffma(b, load_element(x, o, d), load_element(x, dy, d), build_get(b, part)));
  build_loop_end(b, &loop);
  Val delta = over_warp(x, build_get(b, part), false);
  Branch writes;
  build_if(b, &writes, x->writes_statistics);
  build_store(b, delta, statistic(x, x->p.delta, x->head, x->row), value_bytes(x));
  build_if_end(b, &writes);
  Totals dq, *sums[] = {&dq};
  clear(x, &dq);
  Val last = end_of_keys(x), first = build_loop(b, &loop, build_i32(b, 0), last, 32), valid,
      key = token_of_lane(x, first, last, &valid), weight, ds;
  pair_gradients(x, q, row_address(x, x->p.k, &a->k, x->group, key), row_address(x, x->p.v, &a->v, x->group, key), dy,
                 x->head, x->row, key, lse, delta, seen_by_mask(x, valid, x->row, key), keep(x, x->head, x->row, key),
                 &weight, &ds);
  accumulate(x, 1, sums, (Val[]){ds}, (Val[]){x->p.k}, (const AttentionStrides *const[]){&a->k}, x->group, first, last);
  build_loop_end(b, &loop);
  store_sums(x, &dq, real(x, 1), row_address(x, x->p.dq, &a->dq, x->head, x->row));
  end_plain(x, &branch);
}

// ---------------------------------------------------------------------------------------------------------------------
// Rows of keys

static void plain_backward_kv(LLVMModuleRef module, const Attention *a, const char *name, TemplateLaunch *launch) {
  Plain state, *x = &state;
  Branch branch;
  begin_plain(x, &branch, module, a, ATTENTION_BACKWARD_KV, name, a->n_keys, a->groups, launch);
  Build *b = &x->b;
  Val k = row_address(x, x->p.k, &a->k, x->group, x->row), v = row_address(x, x->p.v, &a->v, x->group, x->row),
      last = build_i32(b, a->n_queries), begins = build_i32(b, 0);
  if (a->causal) begins = build_max(b, begins, build_sub(b, x->row, build_i32(b, a->n_keys - a->n_queries)));
  Totals dk, dv, *sums[] = {&dk, &dv};
  clear(x, &dk);
  clear(x, &dv);
  int64_t shared = a->heads / a->groups;
  Loop heads, loop;
  Val from = build_mul(b, x->group, build_i32(b, shared)),
      head = build_loop(b, &heads, from, build_add(b, from, build_i32(b, shared)), 1);
  Val first = build_loop(b, &loop, begins, last, 32), valid, query = token_of_lane(x, first, last, &valid), weight, ds;
  Val lse = build_load(b, x->type, statistic(x, x->p.lse, head, query), value_bytes(x)),
      delta = build_load(b, x->type, statistic(x, x->p.delta, head, query), value_bytes(x));
  pair_gradients(x, row_address(x, x->p.q, &a->q, head, query), k, v, row_address(x, x->p.dy, &a->o, head, query), head,
                 query, x->row, lse, delta, seen_by_mask(x, valid, query, x->row), keep(x, head, query, x->row),
                 &weight, &ds);
  accumulate(x, 2, sums, (Val[]){ds, weight}, (Val[]){x->p.q, x->p.dy}, (const AttentionStrides *const[]){&a->q, &a->o},
             head, first, last);
  build_loop_end(b, &loop);
  build_loop_end(b, &heads);
  store_sums(x, &dk, real(x, 1), row_address(x, x->p.dk, &a->dk, x->group, x->row));
  store_sums(x, &dv, real(x, 1), row_address(x, x->p.dv, &a->dk, x->group, x->row));
  end_plain(x, &branch);
}

void attention_plain(LLVMModuleRef module, const Attention *a, AttentionKernel kernel, const char *name,
                     TemplateLaunch *launch) {
  switch (kernel) {
  case ATTENTION_FORWARD: plain_forward(module, a, name, launch); break;
  case ATTENTION_BACKWARD_Q: plain_backward_q(module, a, name, launch); break;
  case ATTENTION_BACKWARD_KV: plain_backward_kv(module, a, name, launch); break;
  }
}
