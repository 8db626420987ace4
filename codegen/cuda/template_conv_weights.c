// Weight gradient of a convolution: rows are output channels, columns taps and input channels, the depth runs over all pixels. It is cut into parts for more blocks than the few
// tiles of the result would give; the parts are added up in order by a second kernel.
#include <stddef.h>

#include "codegen/cuda/template_conv.h"

typedef struct WeightBlock {
  Build b;
  const ConvShape *c;          // Borrowed
  Gather gather;
  int depth_block;             // pixels of a stage
  int tile_rows;               // of the block's results
  int64_t rows, columns, positions;   // of the result, per group; pixels
  Val first_row, first_column, group, begin, end;   // begin, end: pixels of this part
  Val ky, kx, channel;         // of the chunk of columns that this thread copies
  Val has_row, has_column;     // its chunks of both tiles are inside
  Val x, dy, parts, part;
  Tile a, w;                   // stage 0: dy (pixels, output channels), x (pixels, taps and input channels)
} WeightBlock;

static int depth_block(TileType t) { return 4 * tile_k(t); }
static Val i64_constant(Build *b, int64_t v) { return LLVMConstInt(b->i64, (uint64_t)v, true); }
static int64_t tiles(int64_t n, int64_t tile) { return (n + tile - 1) / tile; }
static int tile_rows(const ConvShape *c) { return c->o / c->groups > 64 ? CONV_ROWS : 64; }

int conv_parts(const ConvShape *c) {
  enum { BLOCKS = 264, LEAST_STEPS = 8 };   // two for each multiprocessor of a large GPU
  int64_t results = c->groups * tiles(c->o / c->groups, tile_rows(c)) * tiles(c->c / c->groups * c->kh * c->kw, CONV_COLUMNS);
  int64_t parts = BLOCKS / results, most = c->n * c->oh * c->ow / (LEAST_STEPS * depth_block(c->type));
  if (parts > most) parts = most;
  return parts < 1 ? 1 : (int)parts;
}

static int64_t part_size(const ConvShape *c) {
  int block = depth_block(c->type);
  return tiles(tiles(c->n * c->oh * c->ow, conv_parts(c)), block) * block;
}

static Val stage_offset(WeightBlock *w, Val stage) { return build_mul(&w->b, stage, build_i32(&w->b, tile_bytes(&w->a) + tile_bytes(&w->w))); }

// Rows of a tile (pixels from `first` on) and its chunk of 16 bytes that this thread copies in round i.
static Val row_of_round(Build *b, const Tile *t, int i, Val *chunk) {
  int chunks = t->columns / tile_chunk(t->type);
  *chunk = build_mod(b, b->tid, chunks);
  return build_add(b, build_div(b, b->tid, chunks), build_i32(b, i * (CONV_THREADS / chunks)));
}

static int rounds(const Tile *t) { return t->rows * (t->columns / tile_chunk(t->type)) / CONV_THREADS; }

static void copy_step(WeightBlock *w, Val first, Val stage) {
  Build *b = &w->b;
  const ConvShape *c = w->c;
  int bytes = tile_element_bytes(c->type);
  Tile a = w->a, x = w->w;
  a.base = build_offset(b, a.base, stage_offset(w, stage));
  x.base = build_offset(b, x.base, stage_offset(w, stage));
  Val chunk;
  for (int i = 0; i < rounds(&a); i++) {
    Val row = row_of_round(b, &a, i, &chunk), position = build_add(b, first, row);
    Val valid = build_and(b, w->has_row, build_less(b, position, w->end));
    Val channel = build_add(b, build_add(b, build_mul(b, w->group, build_i32(b, w->rows)), w->first_row), build_mul(b, chunk, build_i32(b, tile_chunk(c->type))));
    Val element = build_add(b, build_mul(b, build_i64(b, position), i64_constant(b, c->o)), build_i64(b, channel));
    conv_copy_chunk(b, build_tile_chunk(b, &a, row, chunk), build_offset(b, w->dy, build_mul(b, element, i64_constant(b, bytes))), valid);
  }
  for (int i = 0; i < rounds(&x); i++) {
    Val row = row_of_round(b, &x, i, &chunk), position = build_add(b, first, row);
    PixelRow pixel = conv_pixel_row(b, &w->gather, position, w->positions, w->channel);
    pixel.inside = build_and(b, build_less(b, position, w->end), w->has_column);
    Val valid = pixel.inside, from = conv_pixel(b, &w->gather, &pixel, w->x, bytes, w->ky, w->kx, build_i32(b, 0), &valid);
    conv_copy_chunk(b, build_tile_chunk(b, &x, row, chunk), from, valid);
  }
}

static void multiply_stage(WeightBlock *w, Val stage, ConvAccumulators *sums) {
  Build *b = &w->b;
  TileType type = w->c->type;
  int bytes = tile_element_bytes(type);
  Tile a = w->a, x = w->w;
  a.base = build_offset(b, a.base, stage_offset(w, stage));
  x.base = build_offset(b, x.base, stage_offset(w, stage));
  Val warp_m = build_div(b, b->warp, 4), warp_n = build_mod(b, b->warp, 4);
  for (int step = 0; step < w->depth_block / tile_k(type); step++) {
    Val pairs[CONV_N_TILES / 2][4];
    for (int t = 0; t < CONV_N_TILES / 2; t++) build_load_b_transposed(b, &x, step, build_mul(b, warp_n, build_i32(b, 32 * bytes)), 16 * t, pairs[t]);
    for (int m = 0; m < sums->m_tiles; m++) {
      Val fragment[4];
      build_load_a_transposed(b, &a, step, build_mul(b, warp_m, build_i32(b, w->tile_rows / 2 * bytes)), 16 * m, fragment);
      for (int t = 0; t < CONV_N_TILES; t++) {
        Val c[4];
        for (int i = 0; i < 4; i++) c[i] = build_get(b, sums->c[m][t][i]);
        build_mma(b, type, c, fragment, pairs[t / 2] + t % 2 * 2);
        for (int i = 0; i < 4; i++) build_set(b, sums->c[m][t][i], c[i]);
      }
    }
  }
}

static void store_part(WeightBlock *w, const ConvAccumulators *sums) {
  Build *b = &w->b;
  Val group = build_div(b, b->lane, 4), place = build_mod(b, b->lane, 4);
  Val row0 = build_add(b, w->first_row, build_add(b, build_mul(b, build_div(b, b->warp, 4), build_i32(b, w->tile_rows / 2)), group));
  Val column0 = build_add(b, w->first_column, build_add(b, build_mul(b, build_mod(b, b->warp, 4), build_i32(b, 32)), build_mul(b, place, build_i32(b, 2))));
  Val base = build_mul(b, build_i64(b, build_add(b, build_mul(b, w->part, build_i32(b, w->c->groups)), w->group)), i64_constant(b, w->rows * w->columns));
  for (int m = 0; m < sums->m_tiles; m++)
    for (int half = 0; half < 2; half++) {
      Val row = build_add(b, row0, build_i32(b, 16 * m + 8 * half)), inside = build_less(b, row, build_i32(b, w->rows));
      Val element = build_add(b, base, build_i64(b, build_add(b, build_mul(b, row, build_i32(b, w->columns)), column0)));
      Val address = build_offset(b, w->parts, build_mul(b, element, i64_constant(b, 4)));
      for (int t = 0; t < CONV_N_TILES; t++) {
        Branch write;
        build_if(b, &write, build_and(b, inside, build_less(b, build_add(b, column0, build_i32(b, 8 * t)), build_i32(b, w->columns))));
        Val pair = LLVMBuildInsertElement(b->builder, LLVMGetPoison(LLVMVectorType(b->f32, 2)), build_get(b, sums->c[m][t][2 * half]), build_i32(b, 0), "");
        pair = LLVMBuildInsertElement(b->builder, pair, build_get(b, sums->c[m][t][2 * half + 1]), build_i32(b, 1), "");
        build_store(b, pair, build_offset(b, address, build_i32(b, 32 * t)), 8);
        build_if_end(b, &write);
      }
    }
}

static void begin_block(WeightBlock *w, TemplateLaunch *launch) {
  Build *b = &w->b;
  const ConvShape *c = w->c;
  int64_t ci = c->c / c->groups;
  int parts = conv_parts(c), chunks = CONV_COLUMNS / tile_chunk(c->type);
  w->gather = conv_gather(c);
  w->depth_block = depth_block(c->type);
  w->rows = c->o / c->groups;
  w->columns = ci * c->kh * c->kw;
  w->positions = c->n * c->oh * c->ow;
  w->tile_rows = tile_rows(c);
  w->a = (Tile){c->type, w->depth_block, w->tile_rows, build_shared_base(b)};
  w->w = (Tile){c->type, w->depth_block, CONV_COLUMNS, NULL};
  w->w.base = build_offset(b, w->a.base, build_i32(b, tile_bytes(&w->a)));
  *launch = (TemplateLaunch){.grid = {tiles(w->columns, CONV_COLUMNS), tiles(w->rows, w->tile_rows), c->groups * parts}, .threads = CONV_THREADS,
                             .shared_bytes = CONV_STAGES * (tile_bytes(&w->a) + tile_bytes(&w->w))};
  w->first_column = build_mul(b, build_intrinsic(b, "llvm.nvvm.read.ptx.sreg.ctaid.x", NULL, 0, NULL), build_i32(b, CONV_COLUMNS));
  w->first_row = build_mul(b, build_intrinsic(b, "llvm.nvvm.read.ptx.sreg.ctaid.y", NULL, 0, NULL), build_i32(b, w->tile_rows));
  Val z = build_intrinsic(b, "llvm.nvvm.read.ptx.sreg.ctaid.z", NULL, 0, NULL);
  w->part = build_mod(b, z, parts);
  w->group = build_div(b, z, parts);
  w->begin = build_mul(b, w->part, build_i32(b, part_size(c)));
  w->end = build_min(b, build_add(b, w->begin, build_i32(b, part_size(c))), build_i32(b, w->positions));
  Val chunk = build_mul(b, build_mod(b, b->tid, chunks), build_i32(b, tile_chunk(c->type))), column = build_add(b, w->first_column, chunk);
  Val tap = build_div(b, column, ci);
  w->ky = build_div(b, tap, c->kw);
  w->kx = build_mod(b, tap, c->kw);
  w->channel = build_add(b, build_mul(b, w->group, build_i32(b, ci)), build_mod(b, column, ci));
  w->has_column = build_less(b, column, build_i32(b, w->columns));
  Val row_chunk = build_mul(b, build_mod(b, b->tid, w->tile_rows / tile_chunk(c->type)), build_i32(b, tile_chunk(c->type)));
  w->has_row = build_less(b, build_add(b, w->first_row, row_chunk), build_i32(b, w->rows));
}

void conv_weight_gradient(LLVMModuleRef module, const ConvShape *c, const char *name, TemplateLaunch *launch) {
  WeightBlock w = {.c = c};
  Build *b = &w.b;
  build_kernel(b, module, name, "rr-p", CONV_THREADS);
  w.x = build_parameter(b, 0, "x");
  w.dy = build_parameter(b, 1, "dy");
  w.parts = build_parameter(b, 3, "parts");
  begin_block(&w, launch);
  ConvAccumulators sums;
  conv_accumulators(b, &sums, CONV_M_TILES * w.tile_rows / CONV_ROWS);
  for (int s = 0; s < CONV_STAGES - 1; s++) {
    copy_step(&w, build_add(b, w.begin, build_i32(b, s * w.depth_block)), build_i32(b, s));
    build_commit(b);
  }
  Var read = build_var(b, b->i32, build_i32(b, 0)), write = build_var(b, b->i32, build_i32(b, CONV_STAGES - 1));
  Loop loop;
  Val first = build_loop(b, &loop, w.begin, w.end, w.depth_block), ahead = build_add(b, first, build_i32(b, (CONV_STAGES - 1) * w.depth_block));
  build_wait(b, CONV_STAGES - 2);
  build_barrier(b);
  Branch more;
  build_if(b, &more, build_less(b, ahead, w.end));
  copy_step(&w, ahead, build_get(b, write));
  build_if_end(b, &more);
  build_commit(b);
  multiply_stage(&w, build_get(b, read), &sums);
  build_set(b, read, conv_next_stage(b, build_get(b, read)));
  build_set(b, write, conv_next_stage(b, build_get(b, write)));
  build_loop_end(b, &loop);
  build_wait(b, 0);
  store_part(&w, &sums);
  build_finish(b);
}

void conv_sum(LLVMModuleRef module, const ConvShape *c, const char *name, TemplateLaunch *launch) {
  Build b;
  int64_t ci = c->c / c->groups, taps = c->kh * c->kw, total = c->o * ci * taps;
  *launch = (TemplateLaunch){.grid = {tiles(total, CONV_THREADS), 1, 1}, .threads = CONV_THREADS};
  build_kernel(&b, module, name, "--pr", CONV_THREADS);
  Val parts = build_parameter(&b, 3, "parts"), dw = build_parameter(&b, 2, "dw");
  Val block = build_intrinsic(&b, "llvm.nvvm.read.ptx.sreg.ctaid.x", NULL, 0, NULL), i = build_add(&b, build_mul(&b, block, build_i32(&b, CONV_THREADS)), b.tid);
  Branch inside;
  build_if(&b, &inside, build_less(&b, i, build_i32(&b, total)));
  Var sum = build_var(&b, b.f32, build_f32(&b, 0));
  Val from = build_offset(&b, parts, build_mul(&b, build_i64(&b, i), i64_constant(&b, 4)));
  Loop loop;
  Val p = build_loop(&b, &loop, build_i32(&b, 0), build_i32(&b, conv_parts(c)), 1);
  build_set(&b, sum, build_fadd(&b, build_get(&b, sum), build_load(&b, b.f32, build_offset(&b, from, build_mul(&b, build_i64(&b, p), i64_constant(&b, 4 * total))), 4)));
  build_loop_end(&b, &loop);
  Val channel = build_mod(&b, i, ci), tap = build_mod(&b, build_div(&b, i, ci), taps), o = build_div(&b, i, ci * taps);
  Val to = build_add(&b, build_mul(&b, build_add(&b, build_mul(&b, o, build_i32(&b, ci)), channel), build_i32(&b, taps)), tap);
  build_store(&b, build_get(&b, sum), build_offset(&b, dw, build_mul(&b, build_i64(&b, to), i64_constant(&b, 4))), 4);
  build_if_end(&b, &inside);
  build_finish(&b);
}
