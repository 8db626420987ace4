// Convolution and its input gradient as one kind of product: rows are pixels of the result, columns its channels, and the depth runs over taps and, within a tap, channels.
#include <stddef.h>
#include <string.h>

#include "codegen/cuda/template_conv.h"
#include "codegen/kernel/text.h"

bool conv_template_shape(const NncConv *c, TileType type, ConvShape *shape) {
  int64_t chunk = tile_chunk(type);
  if (!c->channels_last || (*c->weights_layout && strcmp(c->weights_layout, "oihw") != 0)) return false;
  *shape = (ConvShape){.type = type, .pass = c->pass, .n = c->n, .c = c->c, .h = c->h, .w = c->w, .o = c->o, .oh = c->oh, .ow = c->ow, .kh = c->kh, .kw = c->kw,
                       .stride = {c->stride[0], c->stride[1]}, .pad = {c->pad[0], c->pad[2]}, .dilation = {c->dilation[0], c->dilation[1]}, .groups = c->groups};
  if (c->c / c->groups % chunk || c->o / c->groups % chunk) return false;
  int64_t most = INT32_MAX / 4;
  return c->n * c->h * c->w < most && c->n * c->oh * c->ow < most && c->o * c->c / c->groups * c->kh * c->kw < most && c->h * c->dilation[0] < most && c->w * c->dilation[1] < most &&
         c->groups * conv_parts(shape) < 65536;
}

static bool reorders(const ConvShape *c) { return c->pass == NNC_CONV_INPUT_GRAD || c->kh * c->kw > 1; }

int conv_template_launches(const ConvShape *c) { return c->pass == NNC_CONV_WEIGHT_GRAD || reorders(c) ? 2 : 1; }

int64_t conv_template_workspace(const ConvShape *c) {
  int64_t weights = c->o * c->c / c->groups * c->kh * c->kw;
  if (c->pass == NNC_CONV_WEIGHT_GRAD) return 4 * weights * conv_parts(c);
  return reorders(c) ? weights * tile_element_bytes(c->type) : 0;
}

Gather conv_gather(const ConvShape *c) {
  Gather g = {.positions_h = c->oh, .positions_w = c->ow, .height = c->h, .width = c->w, .channels = c->c, .divide = {1, 1}};
  for (int i = 0; i < 2; i++) g.multiply[i] = c->stride[i], g.offset[i] = -c->pad[i], g.tap[i] = c->dilation[i];
  if (c->pass != NNC_CONV_INPUT_GRAD) return g;
  g = (Gather){.positions_h = c->h, .positions_w = c->w, .height = c->oh, .width = c->ow, .channels = c->o, .multiply = {1, 1}};
  for (int i = 0; i < 2; i++) g.divide[i] = c->stride[i], g.offset[i] = c->pad[i], g.tap[i] = -c->dilation[i];
  return g;
}

static Val i64_constant(Build *b, int64_t v) { return LLVMConstInt(b->i64, (uint64_t)v, true); }

PixelRow conv_pixel_row(Build *b, const Gather *g, Val position, int64_t n_positions, Val channel) {
  Val in_image = build_mod(b, position, g->positions_h * g->positions_w), image = build_div(b, position, g->positions_h * g->positions_w);
  PixelRow row = {.inside = build_less(b, position, build_i32(b, n_positions))};
  row.y = build_add(b, build_mul(b, build_div(b, in_image, g->positions_w), build_i32(b, g->multiply[0])), build_i32(b, g->offset[0]));
  row.x = build_add(b, build_mul(b, build_mod(b, in_image, g->positions_w), build_i32(b, g->multiply[1])), build_i32(b, g->offset[1]));
  row.base = build_add(b, build_mul(b, build_i64(b, image), i64_constant(b, g->height * g->width * g->channels)), build_i64(b, channel));
  return row;
}

// start + k tap, divided; *valid gets the condition that the quotient is whole and below size.
static Val coordinate(Build *b, Val start, Val k, int64_t tap, int64_t divide, int64_t size, Val *valid) {
  Val v = build_add(b, start, build_mul(b, k, build_i32(b, tap)));
  *valid = build_and(b, *valid, build_less(b, build_i32(b, -1), v));
  if (divide > 1) {
    *valid = build_and(b, *valid, build_equal(b, build_mod(b, v, divide), build_i32(b, 0)));
    v = build_div(b, v, divide);
  }
  *valid = build_and(b, *valid, build_less(b, v, build_i32(b, size)));
  return v;
}

Val conv_pixel(Build *b, const Gather *g, const PixelRow *row, Val image, int element_bytes, Val ky, Val kx, Val first_channel, Val *valid) {
  *valid = build_and(b, *valid, row->inside);
  Val y = coordinate(b, row->y, ky, g->tap[0], g->divide[0], g->height, valid), x = coordinate(b, row->x, kx, g->tap[1], g->divide[1], g->width, valid);
  Val pixel = build_add(b, build_mul(b, y, build_i32(b, g->width)), x);
  Val offset = build_add(b, build_add(b, row->base, build_i64(b, first_channel)), build_mul(b, build_i64(b, pixel), i64_constant(b, g->channels)));
  return build_offset(b, image, build_mul(b, offset, i64_constant(b, element_bytes)));
}

void conv_copy_chunk(Build *b, Val to, Val from, Val valid) {
  build_intrinsic(b, "llvm.nvvm.cp.async.cg.shared.global.16.s", NULL, 3, (Val[]){to, from, build_select(b, valid, build_i32(b, 16), build_i32(b, 0))});
}

void conv_accumulators(Build *b, ConvAccumulators *sums, int m_tiles) {
  sums->m_tiles = m_tiles;
  for (int m = 0; m < m_tiles; m++)
    for (int t = 0; t < CONV_N_TILES; t++)
      for (int i = 0; i < 4; i++) sums->c[m][t][i] = build_var(b, b->f32, build_f32(b, 0));
}

Val conv_next_stage(Build *b, Val stage) {
  Val next = build_add(b, stage, build_i32(b, 1));
  return build_select(b, build_equal(b, next, build_i32(b, CONV_STAGES)), build_i32(b, 0), next);
}

// ---------------------------------------------------------------------------------------------------------------------

typedef struct ConvProductBlock {
  Build b;
  const ConvShape *c;          // Borrowed
  Gather gather;
  int64_t depth, columns;      // per group: channels summed in a tap, channels of the result
  int64_t positions, steps, steps_of_tap;
  Val first_row, first_column, group, chunk_channel;
  int tile_columns, warps_n;   // of the block's results; warps side by side, 32 columns each
  Val warp_m, warp_n;          // of the warp in the tile
  PixelRow rows[4];
  Val image, weights, out;
  Tile a, w;                   // stage 0
} ConvProductBlock;

// Copies of depth step `step` into a stage.
static void copy_step(ConvProductBlock *x, Val step, Val stage) {
  Build *b = &x->b;
  int bytes = tile_element_bytes(x->c->type), block = 128 / bytes;
  Val tap = build_div(b, step, x->steps_of_tap), ky = build_div(b, tap, x->c->kw), kx = build_mod(b, tap, x->c->kw);
  Val channel = build_mul(b, build_mod(b, step, x->steps_of_tap), build_i32(b, block));
  Val has_channel = build_less(b, build_add(b, channel, x->chunk_channel), build_i32(b, x->depth));
  Tile a = x->a, w = x->w;
  Val offset = build_mul(b, stage, build_i32(b, tile_bytes(&a) + tile_bytes(&w)));
  a.base = build_offset(b, a.base, offset);
  w.base = build_offset(b, w.base, offset);
  Val chunk = build_mod(b, b->tid, 8), row = build_div(b, b->tid, 8);
  for (int i = 0; i < 4; i++) {
    Val valid = has_channel, from = conv_pixel(b, &x->gather, &x->rows[i], x->image, bytes, ky, kx, channel, &valid);
    conv_copy_chunk(b, build_tile_chunk(b, &a, build_add(b, row, build_i32(b, 32 * i)), chunk), from, valid);
  }
  for (int i = 0; i < x->tile_columns / 32; i++) {
    Val column = build_add(b, x->first_column, build_add(b, row, build_i32(b, 32 * i)));
    Val valid = build_and(b, has_channel, build_less(b, column, build_i32(b, x->columns)));
    Val at = build_add(b, build_mul(b, build_add(b, build_mul(b, x->group, build_i32(b, x->columns)), column), build_i32(b, x->c->kh * x->c->kw)), tap);
    Val element = build_add(b, build_mul(b, build_i64(b, at), i64_constant(b, x->depth)), build_i64(b, build_add(b, channel, x->chunk_channel)));
    conv_copy_chunk(b, build_tile_chunk(b, &w, build_add(b, row, build_i32(b, 32 * i)), chunk), build_offset(b, x->weights, build_mul(b, element, i64_constant(b, bytes))), valid);
  }
}

static void multiply_stage(ConvProductBlock *x, Val stage, ConvAccumulators *sums) {
  Build *b = &x->b;
  TileType type = x->c->type;
  Tile a = x->a, w = x->w;
  Val offset = build_mul(b, stage, build_i32(b, tile_bytes(&a) + tile_bytes(&w)));
  a.base = build_offset(b, a.base, offset);
  w.base = build_offset(b, build_offset(b, w.base, offset), build_mul(b, x->warp_n, build_i32(b, 128)));   // a multiple of 8 rows on: the permutation is the same
  for (int step = 0; step < a.columns / tile_k(type); step++) {
    Val pairs[CONV_N_TILES / 2][4];
    for (int t = 0; t < CONV_N_TILES / 2; t++) build_load_b(b, &w, 16 * t, step, pairs[t]);
    for (int m = 0; m < sums->m_tiles; m++) {
      Val fragment[4];
      build_load_a(b, &a, build_add(b, x->warp_m, build_i32(b, 16 * m)), step, fragment);
      for (int t = 0; t < CONV_N_TILES; t++) {
        Val c[4];
        for (int i = 0; i < 4; i++) c[i] = build_get(b, sums->c[m][t][i]);
        build_mma(b, type, c, fragment, pairs[t / 2] + t % 2 * 2);
        for (int i = 0; i < 4; i++) build_set(b, sums->c[m][t][i], c[i]);
      }
    }
  }
}

static void store_result(ConvProductBlock *x, const ConvAccumulators *sums) {
  Build *b = &x->b;
  int bytes = tile_element_bytes(x->c->type);
  int64_t channels = x->columns * x->c->groups;
  Val group = build_div(b, b->lane, 4), place = build_mod(b, b->lane, 4);
  Val row0 = build_add(b, x->first_row, build_add(b, x->warp_m, group));
  Val column0 = build_add(b, x->first_column, build_add(b, x->warp_n, build_mul(b, place, build_i32(b, 2))));
  for (int m = 0; m < sums->m_tiles; m++)
    for (int half = 0; half < 2; half++) {
      Val row = build_add(b, row0, build_i32(b, 16 * m + 8 * half));
      Val element = build_add(b, build_mul(b, build_i64(b, row), i64_constant(b, channels)), build_i64(b, build_add(b, build_mul(b, x->group, build_i32(b, x->columns)), column0)));
      Val address = build_offset(b, x->out, build_mul(b, element, i64_constant(b, bytes))), inside = build_less(b, row, build_i32(b, x->positions));
      for (int t = 0; t < CONV_N_TILES; t++) {
        Branch write;
        build_if(b, &write, build_and(b, inside, build_less(b, build_add(b, column0, build_i32(b, 8 * t)), build_i32(b, x->columns))));
        Val low = build_get(b, sums->c[m][t][2 * half]), high = build_get(b, sums->c[m][t][2 * half + 1]), at = build_offset(b, address, build_i32(b, 8 * t * bytes));
        if (bytes == 2) {
          build_store(b, build_narrow(b, x->c->type, low, high), at, 4);
        } else {
          Val pair = LLVMBuildInsertElement(b->builder, LLVMGetPoison(LLVMVectorType(b->f32, 2)), low, build_i32(b, 0), "");
          build_store(b, LLVMBuildInsertElement(b->builder, pair, high, build_i32(b, 1), ""), at, 8);
        }
        build_if_end(b, &write);
      }
    }
}

static void begin_product(ConvProductBlock *x, TemplateLaunch *launch) {
  Build *b = &x->b;
  const ConvShape *c = x->c;
  int block = 128 / tile_element_bytes(c->type);
  bool input_gradient = c->pass == NNC_CONV_INPUT_GRAD;
  x->gather = conv_gather(c);
  x->depth = (input_gradient ? c->o : c->c) / c->groups;
  x->columns = (input_gradient ? c->c : c->o) / c->groups;
  x->positions = c->n * x->gather.positions_h * x->gather.positions_w;
  x->steps_of_tap = (x->depth + block - 1) / block;
  x->steps = c->kh * c->kw * x->steps_of_tap;
  x->tile_columns = x->columns > 64 ? CONV_COLUMNS : 64;
  x->warps_n = x->tile_columns / 32;
  x->warp_m = build_mul(b, build_div(b, b->warp, x->warps_n), build_i32(b, CONV_ROWS * x->warps_n / 8));
  x->warp_n = build_mul(b, build_mod(b, b->warp, x->warps_n), build_i32(b, 32));
  x->a = (Tile){c->type, CONV_ROWS, block, build_shared_base(b)};
  x->w = (Tile){c->type, x->tile_columns, block, NULL};
  x->w.base = build_offset(b, x->a.base, build_i32(b, tile_bytes(&x->a)));
  *launch = (TemplateLaunch){.grid = {(x->columns + x->tile_columns - 1) / x->tile_columns, (x->positions + CONV_ROWS - 1) / CONV_ROWS, c->groups},
                             .threads = CONV_THREADS, .shared_bytes = CONV_STAGES * (tile_bytes(&x->a) + tile_bytes(&x->w))};
  // The grid is (column tiles times row tiles, 1, groups): neighbouring blocks share rows, and y has too few.
  Val place = build_intrinsic(b, "llvm.nvvm.read.ptx.sreg.ctaid.x", NULL, 0, NULL);
  x->first_column = build_mul(b, build_mod(b, place, launch->grid[0]), build_i32(b, x->tile_columns));
  x->first_row = build_mul(b, build_div(b, place, launch->grid[0]), build_i32(b, CONV_ROWS));
  x->group = build_intrinsic(b, "llvm.nvvm.read.ptx.sreg.ctaid.z", NULL, 0, NULL);
  launch->grid[0] *= launch->grid[1];
  launch->grid[1] = 1;
  x->chunk_channel = build_mul(b, build_mod(b, b->tid, 8), build_i32(b, tile_chunk(c->type)));
  Val channel = build_add(b, build_mul(b, x->group, build_i32(b, x->depth)), x->chunk_channel);
  for (int i = 0; i < 4; i++) {
    Val row = build_add(b, x->first_row, build_add(b, build_div(b, b->tid, 8), build_i32(b, 32 * i)));
    x->rows[i] = conv_pixel_row(b, &x->gather, row, x->positions, channel);
  }
}

// Weights in the order that is read: (groups, columns, taps, depth), from the workspace or, where they lie so anyway, from their own buffer.
static void build_product(LLVMModuleRef module, const ConvShape *c, const char *name, TemplateLaunch *launch) {
  ConvProductBlock x = {.c = c};
  Build *b = &x.b;
  bool input_gradient = c->pass == NNC_CONV_INPUT_GRAD;
  build_kernel(b, module, name, reorders(c) ? "r-pr" : "rrp", CONV_THREADS);
  x.image = build_parameter(b, 0, input_gradient ? "dy" : "x");
  x.weights = build_parameter(b, reorders(c) ? 3 : 1, "weights");
  x.out = build_parameter(b, 2, input_gradient ? "dx" : "y");
  begin_product(&x, launch);
  ConvAccumulators sums;
  conv_accumulators(b, &sums, CONV_M_TILES * x.warps_n / 4);
  for (int s = 0; s < CONV_STAGES - 1; s++) {
    if (s < x.steps) copy_step(&x, build_i32(b, s), build_i32(b, s));
    build_commit(b);
  }
  Var read = build_var(b, b->i32, build_i32(b, 0)), write = build_var(b, b->i32, build_i32(b, CONV_STAGES - 1));
  Loop loop;
  Val step = build_loop(b, &loop, build_i32(b, 0), build_i32(b, x.steps), 1), ahead = build_add(b, step, build_i32(b, CONV_STAGES - 1));
  build_wait(b, CONV_STAGES - 2);
  build_barrier(b);
  Branch more;
  build_if(b, &more, build_less(b, ahead, build_i32(b, x.steps)));
  copy_step(&x, ahead, build_get(b, write));
  build_if_end(b, &more);
  build_commit(b);
  multiply_stage(&x, build_get(b, read), &sums);
  build_set(b, read, conv_next_stage(b, build_get(b, read)));
  build_set(b, write, conv_next_stage(b, build_get(b, write)));
  build_loop_end(b, &loop);
  store_result(&x, &sums);
  build_finish(b);
}

// ---------------------------------------------------------------------------------------------------------------------

static void build_reorder(LLVMModuleRef module, const ConvShape *c, const char *name, TemplateLaunch *launch) {
  Build b;
  bool input_gradient = c->pass == NNC_CONV_INPUT_GRAD;
  int64_t ci = c->c / c->groups, oi = c->o / c->groups, taps = c->kh * c->kw, total = c->o * ci * taps;
  int bytes = tile_element_bytes(c->type);
  *launch = (TemplateLaunch){.grid = {(total + CONV_THREADS - 1) / CONV_THREADS, 1, 1}, .threads = CONV_THREADS};
  build_kernel(&b, module, name, "-r-p", CONV_THREADS);
  Val from = build_parameter(&b, 1, "w"), to = build_parameter(&b, 3, "reordered");
  Val block = build_intrinsic(&b, "llvm.nvvm.read.ptx.sreg.ctaid.x", NULL, 0, NULL);
  Val i = build_add(&b, build_mul(&b, block, build_i32(&b, CONV_THREADS)), b.tid);
  Branch inside;
  build_if(&b, &inside, build_less(&b, i, build_i32(&b, total)));
  int64_t inner = input_gradient ? oi : ci;   // i = (row taps + tap) inner + last
  Val last = build_mod(&b, i, inner), tap = build_mod(&b, build_div(&b, i, inner), taps), row = build_div(&b, i, inner * taps), o = row, channel = last;
  if (input_gradient) {
    o = build_add(&b, build_mul(&b, build_div(&b, row, ci), build_i32(&b, oi)), last);
    channel = build_mod(&b, row, ci);
  }
  Val source = build_add(&b, build_mul(&b, build_add(&b, build_mul(&b, o, build_i32(&b, ci)), channel), build_i32(&b, taps)), tap);
  LLVMTypeRef type = bytes == 2 ? b.i16 : b.i32;
  Val value = build_load(&b, type, build_offset(&b, from, build_mul(&b, build_i64(&b, source), i64_constant(&b, bytes))), bytes);
  build_store(&b, value, build_offset(&b, to, build_mul(&b, build_i64(&b, i), i64_constant(&b, bytes))), bytes);
  build_if_end(&b, &inside);
  build_finish(&b);
}

void conv_template_build(LLVMModuleRef module, const ConvShape *c, int which, const char *name, TemplateLaunch *launch) {
  bool last = which == conv_template_launches(c) - 1;
  if (c->pass == NNC_CONV_WEIGHT_GRAD) (last ? conv_sum : conv_weight_gradient)(module, c, name, launch);
  else (last ? build_product : build_reorder)(module, c, name, launch);
}
