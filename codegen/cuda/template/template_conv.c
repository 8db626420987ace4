// Convolution and its input gradient as one kind of product: rows are pixels of the result, columns its channels, and
// the depth runs over taps and, within a tap, channels.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/template/template_conv.h"

enum { WEIGHTS_PANEL = 64 };   // columns of weights whose rows are the depth, for products of warpgroups

void conv_kernel(Build *b, LLVMModuleRef module, const char *name, const char *buffers) {
  char parameters[CONV_MAX_BUFFERS + CONV_NUMBERS + 1];
  size_t n = strlen(buffers);
  memcpy(parameters, buffers, n);
  memset(parameters + n, 'i', CONV_NUMBERS);
  parameters[n + CONV_NUMBERS] = 0;
  build_kernel(b, module, name, parameters, CONV_THREADS);
}

Val conv_number(Build *b, ConvNumber which) {
  return LLVMGetParam(b->function, LLVMCountParams(b->function) - CONV_NUMBERS + (unsigned)which);
}
Val conv_number_i64(Build *b, ConvNumber which) { return build_i64(b, conv_number(b, which)); }
Divisor conv_divisor(Build *b, ConvNumber which) {
  return (Divisor){conv_number(b, which), conv_number(b, which + 1), conv_number(b, which + 2)};
}

PixelRow conv_pixel_row(Build *b, const ConvShape *c, Val position) {
  if (conv_dense(c))
    return (PixelRow){.inside = build_less(b, position, conv_number(b, CONV_POSITIONS)), .first = position};
  Divisor of_image = conv_divisor(b, CONV_IMAGE_POSITIONS), of_row = conv_divisor(b, CONV_ROW_POSITIONS);
  Val in_image, x, image = build_divide(b, position, &of_image, &in_image), y = build_divide(b, in_image, &of_row, &x);
  // as far above the image as no tap reaches, where it is not
  PixelRow row = {.inside = build_less(b, position, conv_number(b, CONV_POSITIONS))};
  row.y = build_add(b, build_mul(b, y, conv_number(b, CONV_MULTIPLY)), conv_number(b, CONV_OFFSET));
  row.y = build_select(b, row.inside, row.y, build_i32(b, -(1 << 30)));
  row.x = build_add(b, build_mul(b, x, conv_number(b, CONV_MULTIPLY + 1)), conv_number(b, CONV_OFFSET + 1));
  row.first = build_mul(b, image, build_mul(b, conv_number(b, CONV_HEIGHT), conv_number(b, CONV_WIDTH)));
  return row;
}

void conv_tap(Build *b, const ConvShape *c, Val tap, Val *ky, Val *kx) {
  *ky = *kx = build_i32(b, 0);
  if (conv_one_tap(c)) return;
  Divisor width = conv_divisor(b, CONV_KERNEL_WIDTH);
  *ky = build_divide(b, tap, &width, kx);
}

// start + k tap, divided; *valid gets the condition that the quotient is whole and below size.
static Val coordinate(Build *b, const ConvShape *c, int axis, Val start, Val k, Val *valid) {
  Val v = build_add(b, start, build_mul(b, k, conv_number(b, CONV_TAP + (ConvNumber)axis)));
  *valid = build_and(b, *valid, build_less(b, build_i32(b, -1), v));
  if (conv_divides(c)) {
    Divisor by = conv_divisor(b, axis ? CONV_DIVIDE_X : CONV_DIVIDE_Y);
    Val quotient = build_div_by(b, v, &by);
    *valid = build_and(b, *valid, build_equal(b, build_mul(b, quotient, by.value), v));
    v = quotient;
  }
  *valid = build_and(b, *valid, build_less(b, v, conv_number(b, axis ? CONV_WIDTH : CONV_HEIGHT)));
  return v;
}

Val conv_pixel(Build *b, const ConvShape *c, const PixelRow *row, Val image, Val ky, Val kx, Val channel, Val *valid) {
  Val pixel = row->first;
  if (conv_dense(c)) {
    *valid = build_and(b, *valid, row->inside);
  } else {
    Val y = coordinate(b, c, 0, row->y, ky, valid), x = coordinate(b, c, 1, row->x, kx, valid);
    pixel = build_add(b, pixel, build_add(b, build_mul(b, y, conv_number(b, CONV_WIDTH)), x));
  }
  Val offset = build_add(b, build_mul(b, build_i64(b, pixel), conv_number_i64(b, CONV_CHANNELS)),
                         build_i64(b, channel));
  return build_offset(b, image, build_mul(b, offset, build_i64_constant(b, tile_element_bytes(c->type))));
}

void conv_copy_chunk(Build *b, Val to, Val from, Val valid) {
  build_intrinsic(b, "llvm.nvvm.cp.async.cg.shared.global.16.s", NULL, 3,
                  (Val[]){to, from, build_select(b, valid, build_i32(b, 16), build_i32(b, 0))});
}

static void conv_copy_chunk_cached(Build *b, Val to, Val from, Val valid) {
  build_intrinsic(b, "llvm.nvvm.cp.async.ca.shared.global.16.s", NULL, 3,
                  (Val[]){to, from, build_select(b, valid, build_i32(b, 16), build_i32(b, 0))});
}

void conv_accumulators(Build *b, ConvAccumulators *sums, int m_tiles, int n_tiles) {
  sums->m_tiles = m_tiles;
  sums->n_tiles = n_tiles;
  for (int m = 0; m < m_tiles; m++)
    for (int t = 0; t < n_tiles; t++)
      for (int i = 0; i < 4; i++) sums->c[m][t][i] = build_var(b, b->f32, build_f32(b, 0));
}

Val conv_next_stage(Build *b, const ConvShape *c, Val stage) {
  Val next = build_add(b, stage, build_i32(b, 1));
  return build_select(b, build_equal(b, next, build_i32(b, conv_stages(c))), build_i32(b, 0), next);
}

Val conv_stage_ahead(Build *b, const ConvShape *c, Val stage) {
  // a power of two
  if (conv_lag(c))
    return build_and(b, build_add(b, stage, build_i32(b, conv_ahead(c))), build_i32(b, conv_stages(c) - 1));
  return build_select(b, build_equal(b, stage, build_i32(b, 0)), build_i32(b, conv_stages(c) - 1),
                      build_sub(b, stage, build_i32(b, 1)));
}

// ---------------------------------------------------------------------------------------------------------------------

// As conv_pixel, of row i of this thread's four. Of a dense shape they are as far apart in all threads: one address is
// kept for all.
static Val image_chunk(ConvProductBlock *x, int i, Val ky, Val kx, Val channel, Val *valid) {
  Build *b = &x->b;
  if (!conv_dense(x->c)) return conv_pixel(b, x->c, &x->rows[i], x->image, ky, kx, channel, valid);
  Val all = build_and(b, *valid, build_less(b, x->rows[0].first, build_sub(b, x->positions, build_i32(b, 32 * i))));
  Val first = conv_pixel(b, x->c, &x->rows[0], x->image, ky, kx, channel, valid);
  *valid = all;
  return build_offset(b, first,
                      build_mul(b, conv_number_i64(b, CONV_CHANNELS),
                                build_i64_constant(b, 32 * i * tile_element_bytes(x->c->type))));
}

// This thread's chunks of the weights of a depth step, rows of a column's depth. to: of the first one.
static void copy_columns(ConvProductBlock *x, Val tap, Val channel, Val has_channel, Val to) {
  Build *b = &x->b;
  int bytes = tile_element_bytes(x->c->type);
  Val column = build_add(b, x->first_column, build_div(b, b->tid, 8)),
      at = build_add(b, build_mul(b, x->group, x->columns), column), pitch = x->depth;
  if (!conv_one_tap(x->c)) {
    at = build_add(b, build_mul(b, at, conv_number(b, CONV_TAPS)), tap);
    pitch = build_mul(b, pitch, conv_number(b, CONV_TAPS));
  }
  Val element = build_add(b, build_mul(b, build_i64(b, at), build_i64(b, x->depth)), build_i64(b, channel)),
      from = build_offset(b, x->weights, build_mul(b, element, build_i64_constant(b, bytes)));
  for (int i = 0; i < x->tile_columns / 32; i++) {
    Val valid = build_and(b, has_channel, build_less(b, column, build_sub(b, x->columns, build_i32(b, 32 * i))));
    Val on = build_mul(b, build_i64(b, pitch), build_i64_constant(b, 32 * i * bytes));   // the same in all threads
    conv_copy_chunk(b, build_offset(b, to, build_i32(b, 32 * 128 * i)), build_offset(b, from, on), valid);
  }
}

// Of weights that lie as rows of the depth. Products of warpgroups want panels of 64 columns, one behind the other.
static void copy_depth_rows(ConvProductBlock *x, Val step, Val stage) {
  Build *b = &x->b;
  int bytes = tile_element_bytes(x->c->type), chunks = x->tile_columns / tile_chunk(x->c->type),
      rows = CONV_THREADS / chunks;
  Tile w = x->w;
  w.base = build_offset(b, w.base, build_mul(b, stage, build_i32(b, tile_bytes(&x->a) + tile_bytes(&x->w))));
  Val chunk = build_mod(b, b->tid, chunks), row = build_div(b, b->tid, chunks),
      column = build_add(b, x->first_column, build_mul(b, chunk, build_i32(b, tile_chunk(x->c->type)))),
      first = build_mul(b, step, build_i32(b, w.rows));
  Val at = build_add(b, build_mul(b, x->group, x->depth), build_add(b, first, row)),
      element = build_add(b, build_mul(b, build_i64(b, at), build_i64(b, x->columns)), build_i64(b, column)),
      from = build_offset(b, x->weights, build_mul(b, element, build_i64_constant(b, bytes)));
  Val has_column = build_less(b, column, x->columns), left = build_sub(b, x->depth, build_add(b, first, row));
  if (x->c->wgmma) {
    w.columns = WEIGHTS_PANEL;
    w.base = build_offset(b, w.base, build_mul(b, build_div(b, chunk, 8), build_i32(b, tile_bytes(&w))));
    chunk = build_mod(b, chunk, 8);
  }
  for (int i = 0; i < w.rows; i += rows) {
    Val valid = build_and(b, has_column, build_less(b, build_i32(b, i), left)),
        to = build_tile_chunk(b, &w, build_add(b, row, build_i32(b, i)), chunk);
    Val on = build_mul(b, build_i64(b, x->columns), build_i64_constant(b, i * bytes));   // the same in all threads
    conv_copy_chunk(b, to, build_offset(b, from, on), valid);
  }
}

// Copies of depth step `step` into a stage. Returns which of this thread's chunks of the image are inside, as bits.
static Val copy_step(ConvProductBlock *x, Val step, Val stage) {
  Build *b = &x->b;
  int bytes = tile_element_bytes(x->c->type), block = 128 / bytes;
  Val tap = build_i32(b, 0), channel = build_mul(b, step, build_i32(b, block)), ky, kx;
  bool taps_inside = x->c->wgmma && !conv_one_tap(x->c);
  if (taps_inside) {   // the taps of the same channels follow each other: most of their pixels are in the L1 cache
    Divisor taps = conv_divisor(b, CONV_TAPS);
    Val of_channels = build_divide(b, step, &taps, &tap);
    channel = build_mul(b, of_channels, build_i32(b, block));
  } else if (!conv_one_tap(x->c)) {
    tap = build_divide(b, step, &x->steps_of_tap, &channel);
    channel = build_mul(b, channel, build_i32(b, block));
  }
  conv_tap(b, x->c, tap, &ky, &kx);
  channel = build_add(b, channel, x->chunk_channel);
  Val has_channel = build_less(b, channel, x->depth), of_all = build_add(b, build_mul(b, x->group, x->depth), channel);
  Tile a = x->a;
  a.base = build_offset(b, a.base, build_mul(b, stage, build_i32(b, tile_bytes(&x->a) + tile_bytes(&x->w))));
  // Rows that are a multiple of 8 on have the same permutation: constants for them, and for the other tile behind this
  // one.
  Val row = build_div(b, b->tid, 8), inside = build_i32(b, 0),
      place = build_tile_chunk(b, &a, row, build_mod(b, b->tid, 8));
  for (int i = 0; i < 4; i++) {
    Val valid = has_channel, from = image_chunk(x, i, ky, kx, of_all, &valid);
    (taps_inside ? conv_copy_chunk_cached : conv_copy_chunk)(b, build_offset(b, place, build_i32(b, 32 * 128 * i)),
                                                             from, valid);
    inside = build_or(b, inside, build_select(b, valid, build_i32(b, 1 << i), build_i32(b, 0)));
  }
  if (conv_depth_rows(x->c)) copy_depth_rows(x, step, stage);
  else copy_columns(x, tap, channel, has_channel, build_offset(b, place, build_i32(b, tile_bytes(&a))));
  return inside;
}

void conv_accumulate(Build *b, TileType type, const ConvAccumulators *sums, int m, const Val fragment[4],
                     Val (*pairs)[4]) {
  for (int t = 0; t < CONV_N_TILES; t++) {
    Val c[4];
    for (int i = 0; i < 4; i++) c[i] = build_get(b, sums->c[m][t][i]);
    build_mma(b, type, c, fragment, pairs[t / 2] + t % 2 * 2);
    for (int i = 0; i < 4; i++) build_set(b, sums->c[m][t][i], c[i]);
  }
}

// Of the warp's 32 columns two tiles of 8.
static void load_weights(ConvProductBlock *x, const Tile *w, int step, int t, Val pair[4]) {
  Build *b = &x->b;
  if (conv_depth_rows(x->c))
    build_load_b_transposed(b, w, step, build_mul(b, x->warp_n, build_i32(b, tile_element_bytes(w->type))), 16 * t,
                            pair);
  else build_load_b(b, w, CONV_ROWS + 16 * t, step, pair);   // the weights lie behind the other tile's rows
}

static void multiply_stage(ConvProductBlock *x, Val stage, ConvAccumulators *sums) {
  Build *b = &x->b;
  TileType type = x->c->type;
  Tile a = x->a, w = x->w;
  Val offset = build_mul(b, stage, build_i32(b, tile_bytes(&a) + tile_bytes(&w)));
  a.moved = offset;
  if (conv_depth_rows(x->c)) {
    w.base = build_offset(b, w.base, offset);
  } else {
    w.moved = offset;
    // a multiple of 8 rows on: the permutation is the same
    w.base = build_offset(b, a.base, build_mul(b, x->warp_n, build_i32(b, 128)));
  }
  for (int step = 0; step < a.columns / tile_k(type); step++) {
    Val pairs[CONV_N_TILES / 2][4];
    for (int t = 0; t < CONV_N_TILES / 2; t++) load_weights(x, &w, step, t, pairs[t]);
    for (int m = 0; m < sums->m_tiles; m++) {
      Val fragment[4];
      build_load_a(b, &a, x->warp_m, 16 * m, step, fragment);
      conv_accumulate(b, type, sums, m, fragment, pairs);
    }
  }
}

// Each warpgroup has 64 rows and all columns.
static void multiply_stage_wgmma(ConvProductBlock *x, Val stage, ConvAccumulators *sums) {
  Build *b = &x->b;
  bool depth_rows = conv_depth_rows(x->c);
  Wgmma form = {.type = x->c->type, .columns = x->tile_columns, .b_transposed = depth_rows};
  int leading = depth_rows ? x->w.rows * WEIGHTS_PANEL * tile_element_bytes(x->c->type) : 16;
  Val offset = build_mul(b, stage, build_i32(b, tile_bytes(&x->a) + tile_bytes(&x->w)));
  conv_wgmma(b, &form, sums, x->a.columns / WGMMA_DEPTH, build_descriptor_on(b, x->descriptor, offset),
             build_descriptor_on(b, build_descriptor(b, x->w.base, leading, 1024), offset));
}

static void begin_product(ConvProductBlock *x) {
  Build *b = &x->b;
  const ConvShape *c = x->c;
  int block = conv_depth_block(c);
  x->depth = conv_number(b, CONV_DEPTH);
  x->columns = conv_number(b, CONV_RESULT_COLUMNS);
  x->positions = conv_number(b, CONV_POSITIONS);
  x->steps = conv_number(b, CONV_STEPS);
  x->steps_of_tap = conv_divisor(b, CONV_TAP_STEPS);
  x->tile_columns = conv_tile_channels(c);
  x->warps_n = x->tile_columns / 32;
  x->warp_m = build_mul(b, build_div(b, b->warp, x->warps_n), build_i32(b, CONV_ROWS * x->warps_n / 8));
  x->warp_n = build_mul(b, build_mod(b, b->warp, x->warps_n), build_i32(b, 32));
  x->a = (Tile){.type = c->type, .rows = CONV_ROWS, .columns = block};
  x->a.base = c->wgmma ? build_wgmma_base(b) : build_shared_base(b);
  x->w = conv_depth_rows(c) ? (Tile){.type = c->type, .rows = block, .columns = x->tile_columns}
                            : (Tile){.type = c->type, .rows = x->tile_columns, .columns = block};
  x->w.base = build_offset(b, x->a.base, build_i32(b, tile_bytes(&x->a)));
  if (c->wgmma) {
    x->warp_m = build_mul(b, b->warp, build_i32(b, 16));
    x->warp_n = build_i32(b, 0);
    x->descriptor = build_descriptor(b,
                                     build_offset(b, x->a.base,
                                                  build_mul(b, build_div(b, b->warp, 4), build_i32(b, 64 * 128))),
                                     16, 1024);
  }
  Divisor column_tiles = conv_divisor(b, CONV_COLUMN_TILES);
  Val place = build_block_id(b, 'x');
  x->first_column = build_mul(b, build_mod_by(b, place, &column_tiles), build_i32(b, x->tile_columns));
  x->first_row = build_mul(b, build_div_by(b, place, &column_tiles), build_i32(b, CONV_ROWS));
  x->group = build_block_id(b, 'z');
  x->chunk_channel = build_mul(b, build_mod(b, b->tid, 8), build_i32(b, tile_chunk(c->type)));
  for (int i = 0; i < 4; i++)
    x->rows[i] = conv_pixel_row(b, c,
                                build_add(b, x->first_row,
                                          build_add(b, build_div(b, b->tid, 8), build_i32(b, 32 * i))));
}

// The loop over depth steps. Products of warps are done when the next step begins; those of warpgroups are begun before
// copies and are on their way meanwhile.
static void sum_product(ConvProductBlock *x, ConvAccumulators *sums) {
  Build *b = &x->b;
  const ConvShape *c = x->c;
  bool has_prologue = *c->prologue.function;
  int copies_ahead = conv_ahead(c);
  Var inside[CONV_STAGES];   // what is inside of the image in the step that is multiplied, and in those on their way
  for (int s = 0; s <= copies_ahead && has_prologue; s++) inside[s] = build_var(b, b->i32, build_i32(b, 0));
  for (int s = 0; s < copies_ahead; s++) {
    Branch more;
    build_if(b, &more, build_less(b, build_i32(b, s), x->steps));
    Val bits = copy_step(x, build_i32(b, s), build_i32(b, s));
    if (has_prologue) build_set(b, inside[s], bits);
    build_if_end(b, &more);
    build_commit(b);
  }
  Var read = build_var(b, b->i32, build_i32(b, 0));
  Loop loop;
  Val step = build_loop(b, &loop, build_i32(b, 0), x->steps, 1), ahead = build_add(b, step, build_i32(b, copies_ahead));
  ConvPrologueInputs inputs;
  if (has_prologue) conv_prologue_load(x, step, &inputs);
  build_wait(b, copies_ahead - 1);
  if (has_prologue) conv_prologue_apply(x, &inputs, build_get(b, read), build_get(b, inside[0]));
  if (c->wgmma) conv_wgmma_meet(b, c);
  build_barrier(b);
  if (c->wgmma) multiply_stage_wgmma(x, build_get(b, read), sums);
  Branch more;
  bool branches = has_prologue || !conv_dense(c);   // else no channel is left behind the last step
  if (branches) build_if(b, &more, build_less(b, ahead, x->steps));
  Val bits = copy_step(x, ahead, conv_stage_ahead(b, c, build_get(b, read)));
  if (has_prologue) build_set(b, inside[copies_ahead], bits);
  if (branches) build_if_end(b, &more);
  build_commit(b);
  if (!c->wgmma) multiply_stage(x, build_get(b, read), sums);
  build_set(b, read, conv_next_stage(b, c, build_get(b, read)));
  for (int s = 0; s < copies_ahead && has_prologue; s++) build_set(b, inside[s], build_get(b, inside[s + 1]));
  build_loop_end(b, &loop);
  if (c->wgmma) conv_wgmma_finish(b, sums);
}

// Weights in the order that is read: (groups, columns, taps, depth), from the workspace or, where they lie so anyway,
// from their own buffer.
static void build_product(LLVMModuleRef module, const ConvShape *c, const char *name) {
  ConvProductBlock x = {.c = c};
  Build *b = &x.b;
  bool input_gradient = c->pass == NNC_CONV_INPUT_GRAD;
  char *buffers = conv_product_buffers(c);
  conv_kernel(b, module, name, buffers);
  free(buffers);
  // ptxas would keep values in local memory for a third
  if (c->wgmma ? conv_tile_channels(c) <= CONV_COLUMNS : conv_tile_channels(c) < CONV_COLUMNS) build_min_blocks(b, 2);
  x.image = build_parameter(b, 0, input_gradient ? "dy" : "x");
  x.weights = build_parameter(b, conv_reorders(c) ? 3 : 1, "weights");
  x.out = build_parameter(b, 2, input_gradient ? "dx" : "y");
  begin_product(&x);
  ConvAccumulators sums;
  if (c->wgmma) conv_accumulators(b, &sums, 1, x.tile_columns / 8);
  else conv_accumulators(b, &sums, CONV_M_TILES * x.warps_n / 4, CONV_N_TILES);
  sum_product(&x, &sums);
  conv_end_product(&x, &sums);
  build_finish(b);
}

// ---------------------------------------------------------------------------------------------------------------------

// Weights (o, channel, tap) to (row, tap, last): rows are output channels and the last axis their inputs, or, for the
// gradient of the input, the other way round in each group.
static void build_reorder(LLVMModuleRef module, const ConvShape *c, const char *name) {
  Build b;
  bool input_gradient = c->pass == NNC_CONV_INPUT_GRAD;
  int bytes = tile_element_bytes(c->type);
  conv_kernel(&b, module, name, "-r-p");
  Val from = build_parameter(&b, 1, "w"), to = build_parameter(&b, 3, "reordered");
  Val i = build_thread_number(&b, CONV_THREADS);
  Branch inside;
  build_if(&b, &inside, build_less(&b, i, conv_number(&b, CONV_WEIGHTS)));
  Divisor ci = conv_divisor(&b, CONV_CHANNELS_IN), oi = conv_divisor(&b, CONV_CHANNELS_OUT),
          taps = conv_divisor(&b, CONV_TAPS), *inner = input_gradient ? &oi : &ci;
  Val last, tap, row_tap = build_divide(&b, i, inner, &last), row = build_divide(&b, row_tap, &taps, &tap), o = row,
                 channel = last;
  if (input_gradient) {
    Val group = build_divide(&b, row, &ci, &channel);
    o = build_add(&b, build_mul(&b, group, oi.value), last);
  }
  Val source = build_add(&b, build_mul(&b, build_add(&b, build_mul(&b, o, ci.value), channel), taps.value), tap);
  LLVMTypeRef type = bytes == 2 ? b.i16 : b.i32;
  Val value = build_load(&b, type,
                         build_offset(&b, from, build_mul(&b, build_i64(&b, source), build_i64_constant(&b, bytes))),
                         bytes);
  build_store(&b, value, build_offset(&b, to, build_mul(&b, build_i64(&b, i), build_i64_constant(&b, bytes))), bytes);
  build_if_end(&b, &inside);
  build_finish(&b);
}

void conv_template_build(LLVMModuleRef module, const ConvShape *c, int which, const char *name) {
  bool last = which == conv_template_launches(c) - 1;
  if (c->pass == NNC_CONV_WEIGHT_GRAD && last) conv_sum(module, c, name);
  else if (c->grouped) conv_grouped(module, c, last, name);
  else if (c->pass == NNC_CONV_WEIGHT_GRAD) conv_weight_gradient(module, c, name);
  else (last ? build_product : build_reorder)(module, c, name);
}
