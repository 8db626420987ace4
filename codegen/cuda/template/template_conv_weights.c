// Weight gradient of a convolution: rows are output channels, columns taps and input channels, the depth runs over all
// pixels. It is cut into parts for more blocks than the few tiles of the result would give; the parts are added up in
// order by a second kernel.

#include "codegen/cuda/template/template_conv.h"

typedef struct WeightBlock {
  Build b;
  const ConvShape *c;                               // Borrowed
  int depth_block;                                  // pixels of a stage
  int tile_rows;                                    // of the block's results
  Val rows, columns;                                // of the result, per group
  Val first_row, first_column, group, begin, end;   // begin, end: pixels of this part
  Val ky, kx, channel;                              // of the chunk of columns that this thread copies
  Val has_row, has_column;                          // its chunks of both tiles are inside
  Val x, dy, parts, part;
  Tile a, w;   // stage 0: dy (pixels, output channels), x (pixels, taps and input channels)
} WeightBlock;

enum { PANEL = 64 };
static int panel_bytes(const Tile *t) { return t->rows * 128; }

static Val stage_offset(WeightBlock *w, Val stage) {
  return build_mul(&w->b, stage, build_i32(&w->b, tile_bytes(&w->a) + tile_bytes(&w->w)));
}

// Rows of a tile (pixels from `first` on) and its chunk of 16 bytes that this thread copies in round i.
static Val row_of_round(Build *b, const Tile *t, int i, Val *chunk) {
  int chunks = t->columns / tile_chunk(t->type);
  *chunk = build_mod(b, b->tid, chunks);
  return build_add(b, build_div(b, b->tid, chunks), build_i32(b, i * (CONV_THREADS / chunks)));
}

// Where a chunk goes. Products of warpgroups want panels of 64 columns, rows of 128 bytes, one behind the other.
static Val place_of(Build *b, const ConvShape *c, const Tile *t, Val row, Val chunk) {
  if (!c->wgmma) return build_tile_chunk(b, t, row, chunk);
  Tile panel = *t;
  panel.columns = PANEL;
  panel.base = build_offset(b, t->base, build_mul(b, build_div(b, chunk, 8), build_i32(b, panel_bytes(t))));
  return build_tile_chunk(b, &panel, row, build_mod(b, chunk, 8));
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
    Val channel = build_add(b, build_add(b, build_mul(b, w->group, w->rows), w->first_row),
                            build_mul(b, chunk, build_i32(b, tile_chunk(c->type))));
    Val element = build_add(b, build_mul(b, build_i64(b, position), conv_number_i64(b, CONV_RESULT_CHANNELS)),
                            build_i64(b, channel));
    conv_copy_chunk(b, place_of(b, c, &a, row, chunk),
                    build_offset(b, w->dy, build_mul(b, element, build_i64_constant(b, bytes))), valid);
  }
  for (int i = 0; i < rounds(&x); i++) {
    Val row = row_of_round(b, &x, i, &chunk), position = build_add(b, first, row);
    PixelRow pixel = conv_pixel_row(b, c, position);
    Val valid = build_and(b, build_less(b, position, w->end), w->has_column),
        from = conv_pixel(b, c, &pixel, w->x, w->ky, w->kx, w->channel, &valid);
    conv_copy_chunk(b, place_of(b, c, &x, row, chunk), from, valid);
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
    for (int t = 0; t < CONV_N_TILES / 2; t++)
      build_load_b_transposed(b, &x, step, build_mul(b, warp_n, build_i32(b, 32 * bytes)), 16 * t, pairs[t]);
    for (int m = 0; m < sums->m_tiles; m++) {
      Val fragment[4];
      build_load_a_transposed(b, &a, step, build_mul(b, warp_m, build_i32(b, w->tile_rows / 2 * bytes)), 16 * m,
                              fragment);
      conv_accumulate(b, type, sums, m, fragment, pairs);
    }
  }
}

// A warpgroup has 64 rows of the two by all columns or, where there are no more, 64 columns of the two.
static void multiply_stage_wgmma(WeightBlock *w, Val stage, ConvAccumulators *sums) {
  Build *b = &w->b;
  bool two = w->tile_rows > PANEL;
  Wgmma form = {.type = w->c->type, .columns = 8 * sums->n_tiles, .a_transposed = true, .b_transposed = true};
  Val offset = stage_offset(w, stage), a = w->a.base, x = w->w.base, *own = two ? &a : &x;
  *own = build_offset(b, *own, build_mul(b, build_div(b, b->warp, 4), build_i32(b, panel_bytes(&w->a))));
  Val of_a = build_descriptor(b, a, panel_bytes(&w->a), 1024), of_x = build_descriptor(b, x, panel_bytes(&w->w), 1024);
  conv_wgmma(b, &form, sums, w->depth_block / WGMMA_DEPTH, build_descriptor_on(b, of_a, offset),
             build_descriptor_on(b, of_x, offset));
}

// Of the warp's results in the tile.
static Val warp_row(WeightBlock *w) {
  Build *b = &w->b;
  if (!w->c->wgmma) return build_mul(b, build_div(b, b->warp, 4), build_i32(b, w->tile_rows / 2));
  return w->tile_rows > PANEL ? build_mul(b, b->warp, build_i32(b, 16))
                              : build_mul(b, build_mod(b, b->warp, 4), build_i32(b, 16));
}
static Val warp_column(WeightBlock *w) {
  Build *b = &w->b;
  if (!w->c->wgmma) return build_mul(b, build_mod(b, b->warp, 4), build_i32(b, 32));
  return w->tile_rows > PANEL ? build_i32(b, 0) : build_mul(b, build_div(b, b->warp, 4), build_i32(b, PANEL));
}

static void store_part(WeightBlock *w, const ConvAccumulators *sums) {
  Build *b = &w->b;
  Val group = build_div(b, b->lane, 4), place = build_mod(b, b->lane, 4);
  Val row0 = build_add(b, w->first_row, build_add(b, warp_row(w), group));
  Val column0 = build_add(b, w->first_column, build_add(b, warp_column(w), build_mul(b, place, build_i32(b, 2))));
  Val base = build_mul(b, build_i64(b, build_add(b, build_mul(b, w->part, conv_number(b, CONV_GROUPS)), w->group)),
                       build_mul(b, build_i64(b, w->rows), build_i64(b, w->columns)));
  for (int m = 0; m < sums->m_tiles; m++)
    for (int half = 0; half < 2; half++) {
      Val row = build_add(b, row0, build_i32(b, 16 * m + 8 * half)), inside = build_less(b, row, w->rows);
      Val element = build_add(b, base, build_i64(b, build_add(b, build_mul(b, row, w->columns), column0)));
      Val address = build_offset(b, w->parts, build_mul(b, element, build_i64_constant(b, 4)));
      for (int t = 0; t < sums->n_tiles; t++) {
        Branch write;
        build_if(b, &write,
                 build_and(b, inside, build_less(b, build_add(b, column0, build_i32(b, 8 * t)), w->columns)));
        Val low = build_get(b, sums->c[m][t][2 * half]), high = build_get(b, sums->c[m][t][2 * half + 1]);
        build_store(b, build_pair(b, low, high), build_offset(b, address, build_i32(b, 32 * t)), 8);
        build_if_end(b, &write);
      }
    }
}

static void begin_block(WeightBlock *w) {
  Build *b = &w->b;
  const ConvShape *c = w->c;
  int columns = conv_gradient_columns(c), chunks = columns / tile_chunk(c->type);
  w->depth_block = conv_depth_block(c);
  w->rows = conv_number(b, CONV_RESULT_ROWS);
  w->columns = conv_number(b, CONV_RESULT_COLUMNS);
  w->tile_rows = conv_tile_channels(c);
  w->a = (Tile){.type = c->type, .rows = w->depth_block, .columns = w->tile_rows};
  w->a.base = c->wgmma ? build_wgmma_base(b) : build_shared_base(b);
  w->w = (Tile){.type = c->type, .rows = w->depth_block, .columns = columns};
  w->w.base = build_offset(b, w->a.base, build_i32(b, tile_bytes(&w->a)));
  w->first_column = build_mul(b, build_block_id(b, 'x'), build_i32(b, columns));
  w->first_row = build_mul(b, build_block_id(b, 'y'), build_i32(b, w->tile_rows));
  Val z = build_block_id(b, 'z'), size = conv_number(b, CONV_PART_POSITIONS);
  Divisor parts = conv_divisor(b, CONV_PARTS), channels = conv_divisor(b, CONV_CHANNELS_IN);
  w->group = build_divide(b, z, &parts, &w->part);
  w->begin = build_mul(b, w->part, size);
  w->end = build_min(b, build_add(b, w->begin, size), conv_number(b, CONV_POSITIONS));
  Val chunk = build_mul(b, build_mod(b, b->tid, chunks), build_i32(b, tile_chunk(c->type))),
      column = build_add(b, w->first_column, chunk);
  Val channel, tap = build_divide(b, column, &channels, &channel);
  conv_tap(b, c, tap, &w->ky, &w->kx);
  w->channel = build_add(b, build_mul(b, w->group, channels.value), channel);
  w->has_column = build_less(b, column, w->columns);
  Val row_chunk = build_mul(b, build_mod(b, b->tid, w->tile_rows / tile_chunk(c->type)),
                            build_i32(b, tile_chunk(c->type)));
  w->has_row = build_less(b, build_add(b, w->first_row, row_chunk), w->rows);
}

void conv_weight_gradient(LLVMModuleRef module, const ConvShape *c, const char *name) {
  WeightBlock w = {.c = c};
  Build *b = &w.b;
  conv_kernel(b, module, name, "rr-p");
  if (c->wgmma && !c->wide) build_min_blocks(b, 2);
  w.x = build_parameter(b, 0, "x");
  w.dy = build_parameter(b, 1, "dy");
  w.parts = build_parameter(b, 3, "parts");
  begin_block(&w);
  ConvAccumulators sums;
  if (c->wgmma) conv_accumulators(b, &sums, 1, (w.tile_rows > PANEL ? w.w.columns : PANEL) / 8);
  else conv_accumulators(b, &sums, CONV_M_TILES * w.tile_rows / CONV_ROWS, CONV_N_TILES);
  int copies_ahead = conv_ahead(c);
  for (int s = 0; s < copies_ahead; s++) {
    copy_step(&w, build_add(b, w.begin, build_i32(b, s * w.depth_block)), build_i32(b, s));
    build_commit(b);
  }
  Var read = build_var(b, b->i32, build_i32(b, 0));
  Loop loop;
  Val first = build_loop(b, &loop, w.begin, w.end, w.depth_block),
      ahead = build_add(b, first, build_i32(b, copies_ahead * w.depth_block));
  build_wait(b, copies_ahead - 1);
  if (c->wgmma) conv_wgmma_meet(b, c);
  build_barrier(b);
  if (c->wgmma) multiply_stage_wgmma(&w, build_get(b, read), &sums);
  Branch more;
  build_if(b, &more, build_less(b, ahead, w.end));
  copy_step(&w, ahead, conv_stage_ahead(b, c, build_get(b, read)));
  build_if_end(b, &more);
  build_commit(b);
  if (!c->wgmma) multiply_stage(&w, build_get(b, read), &sums);
  build_set(b, read, conv_next_stage(b, c, build_get(b, read)));
  build_loop_end(b, &loop);
  if (c->wgmma) conv_wgmma_finish(b, &sums);
  build_wait(b, 0);
  store_part(&w, &sums);
  build_finish(b);
}

void conv_sum(LLVMModuleRef module, const ConvShape *c, const char *name) {
  Build b;
  conv_kernel(&b, module, name, "--pr");
  LLVMTypeRef type = c->type == TILE_F64 ? b.f64 : b.f32;   // of the parts
  int bytes = c->type == TILE_F64 ? 8 : 4;
  Val total = conv_number(&b, CONV_WEIGHTS), parts = build_parameter(&b, 3, "parts"), dw = build_parameter(&b, 2, "dw");
  Val i = build_thread_number(&b, CONV_THREADS);
  Branch inside;
  build_if(&b, &inside, build_less(&b, i, total));
  Var sum = build_var(&b, type, LLVMConstNull(type));
  Val from = build_offset(&b, parts, build_mul(&b, build_i64(&b, i), build_i64_constant(&b, bytes))),
      step = build_mul(&b, build_i64(&b, total), build_i64_constant(&b, bytes));
  Loop loop;
  Val p = build_loop(&b, &loop, build_i32(&b, 0), conv_number(&b, CONV_PARTS), 1);
  build_set(&b, sum,
            build_fadd(&b, build_get(&b, sum),
                       build_load(&b, type, build_offset(&b, from, build_mul(&b, build_i64(&b, p), step)), bytes)));
  build_loop_end(&b, &loop);
  Divisor ci = conv_divisor(&b, CONV_CHANNELS_IN), taps = conv_divisor(&b, CONV_TAPS);
  Val channel, tap, row_tap = build_divide(&b, i, &ci, &channel), o = build_divide(&b, row_tap, &taps, &tap);
  Val to = build_add(&b, build_mul(&b, build_add(&b, build_mul(&b, o, ci.value), channel), taps.value), tap);
  int result = tile_element_bytes(c->result);
  build_store(&b, build_rounded(&b, c->result, build_get(&b, sum)),
              build_offset(&b, dw, build_mul(&b, build_i64(&b, to), build_i64_constant(&b, result))), result);
  build_if_end(&b, &inside);
  build_finish(&b);
}
