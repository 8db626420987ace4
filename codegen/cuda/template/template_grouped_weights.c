// The gradient of the weights of convolutions in groups of a few channels. A thread has a vector of a group's outputs
// by a vector of its inputs, for one tap: all their products, added up over pixels. The rows of a block go through
// pixels and meet in shared memory; what the parts of all pixels give is added up in order by conv_sum. Sums are f32 or
// f64, whatever the type in memory.
#include "codegen/cuda/template/template_conv.h"
#include "support/integers.h"
#include "support/text.h"

enum { BLOCKS = 528, LEAST_ROUNDS = 8, MOST_LANES = 4, MOST_WIDTH = 32 };

static int lanes(const ConvShape *c, int64_t channels) {
  int n = conv_grouped_lanes(c, channels);
  return n < MOST_LANES ? n : MOST_LANES;
}
static int outputs(const ConvShape *c) { return lanes(c, c->o / c->groups); }
static int inputs(const ConvShape *c) { return lanes(c, c->c / c->groups); }
static int64_t pairs(const ConvShape *c) { return c->o / outputs(c) * (c->c / c->groups / inputs(c)); }   // of vectors
static TileType wide(const ConvShape *c) { return c->type == TILE_F64 ? TILE_F64 : TILE_F32; }

// Pairs side by side in a block.
static int width(const ConvShape *c) {
  int n = 1;
  while (n < MOST_WIDTH && n < pairs(c)) n *= 2;
  return n;
}

int conv_grouped_parts(const ConvShape *c) {
  int64_t most = c->n * c->oh * c->ow / (CONV_THREADS / width(c) * LEAST_ROUNDS),
          n = BLOCKS / (divide_up(pairs(c), width(c)) * c->kh * c->kw);
  if (n > most) n = most;
  return n < 1 ? 1 : (int)n;
}

char *conv_grouped_weights_symbol(const ConvShape *c) {
  return text_format("conv_grouped_weight_grad_%s_%dx%d_w%d%s", tile_name(c->type), outputs(c), inputs(c), width(c),
                     conv_one_tap(c) ? "_1x1" : "");
}

void conv_grouped_weights_launch(const ConvShape *c, TemplateLaunch *launch) {
  template_divisor(launch->numbers + CONV_COLUMN_TILES, pairs(c));
  launch->grid[0] = divide_up(pairs(c), width(c));
  launch->grid[1] = c->kh * c->kw;
  launch->grid[2] = conv_parts(c);
  launch->shared_bytes = CONV_THREADS * inputs(c) * tile_element_bytes(wide(c));
}

// ---------------------------------------------------------------------------------------------------------------------

typedef struct GroupedWeights {
  Build b;
  const ConvShape *c;   // Borrowed; only what the symbol says may be looked at
  LLVMTypeRef vector;   // of inputs, that is computed with
  Val x, dy;
  Val row, part, tap;           // of the block that the thread is in; of the block
  Val output, channel, input;   // the thread's first, of all groups; its first input of the group, and of all
  Var sum[MOST_LANES];          // of each output, with all inputs
} GroupedWeights;

static Val load_operand(GroupedWeights *w, Val address, int n) {
  TileType t = w->c->type;
  return build_widened(&w->b, t,
                       build_load(&w->b, LLVMVectorType(build_memory_type(&w->b, t), (unsigned)n), address,
                                  n * tile_element_bytes(t)));
}

static void add_pixels(GroupedWeights *w) {
  Build *b = &w->b;
  Val low = build_mul(b, w->part, conv_number(b, CONV_PART_POSITIONS)),
      high = build_min(b, build_add(b, low, conv_number(b, CONV_PART_POSITIONS)), conv_number(b, CONV_POSITIONS)), ky,
      kx;
  conv_tap(b, w->c, w->tap, &ky, &kx);
  Loop loop;
  Val p = build_loop(b, &loop, build_add(b, low, w->row), high, CONV_THREADS / width(w->c));
  Val gradient =
      load_operand(w,
                   build_element(b, w->c->type, w->dy,
                                 build_add(b, build_mul(b, build_i64(b, p), conv_number_i64(b, CONV_RESULT_CHANNELS)),
                                           build_i64(b, w->output))),
                   outputs(w->c));
  PixelRow row = conv_pixel_row(b, w->c, p);
  Val valid = LLVMConstInt(b->i1, 1, false), at = conv_pixel(b, w->c, &row, w->x, ky, kx, w->input, &valid);
  // the first can always be read
  Val x = build_select(b, valid, load_operand(w, build_select(b, valid, at, w->x), inputs(w->c)),
                       LLVMConstNull(w->vector));
  for (int o = 0; o < outputs(w->c); o++) {
    Val all = build_splat(b, LLVMBuildExtractElement(b->builder, gradient, build_i32(b, o), ""), inputs(w->c));
    build_set(b, w->sum[o], build_intrinsic(b, "llvm.fma", w->vector, 3, (Val[]){all, x, build_get(b, w->sum[o])}));
  }
  build_loop_end(b, &loop);
}

// Parts lie one after the other, each (output, tap, input).
static void store_part(GroupedWeights *w, Val parts, Val has_pair) {
  Build *b = &w->b;
  int bytes = inputs(w->c) * tile_element_bytes(wide(w->c));
  Val shared = build_shared_base(b), base = build_mul(b, build_i64(b, w->part), conv_number_i64(b, CONV_WEIGHTS));
  for (int o = 0; o < outputs(w->c); o++) {
    Val v = build_add_rows(b, shared, w->row, CONV_THREADS, width(w->c), build_get(b, w->sum[o]), bytes);
    Branch write;
    build_if(b, &write, build_and(b, has_pair, build_equal(b, w->row, build_i32(b, 0))));
    Val tap = build_add(b, build_mul(b, build_add(b, w->output, build_i32(b, o)), conv_number(b, CONV_TAPS)), w->tap);
    Val at = build_add(b, build_mul(b, tap, conv_number(b, CONV_CHANNELS_IN)), w->channel);
    build_store(b, v, build_element(b, wide(w->c), parts, build_add(b, base, build_i64(b, at))), bytes);
    build_if_end(b, &write);
  }
}

void conv_grouped_weights(LLVMModuleRef module, const ConvShape *c, const char *name) {
  GroupedWeights w = {.c = c};
  Build *b = &w.b;
  conv_kernel(b, module, name, "rr-p");
  w.x = build_parameter(b, 0, "x");
  w.dy = build_parameter(b, 1, "dy");
  w.vector = LLVMVectorType(build_memory_type(b, wide(c)), (unsigned)inputs(c));
  w.row = build_div(b, b->tid, width(c));
  w.tap = build_block_id(b, 'y');
  w.part = build_block_id(b, 'z');
  Divisor of_inputs = conv_divisor(b, CONV_CHANNELS_IN), of_outputs = conv_divisor(b, CONV_CHANNELS_OUT);
  Val pair = build_add(b, build_mul(b, build_block_id(b, 'x'), build_i32(b, width(c))), build_mod(b, b->tid, width(c)));
  Val has_pair = build_less(b, pair, conv_number(b, CONV_COLUMN_TILES));
  // the others work in vain
  Val place = build_mul(b, build_select(b, has_pair, pair, build_i32(b, 0)), build_i32(b, inputs(c)));
  Val vector = build_divide(b, place, &of_inputs, &w.channel);
  w.output = build_mul(b, vector, build_i32(b, outputs(c)));
  w.input = build_add(b, build_mul(b, build_div_by(b, w.output, &of_outputs), of_inputs.value), w.channel);
  for (int o = 0; o < outputs(c); o++) w.sum[o] = build_var(b, w.vector, LLVMConstNull(w.vector));
  add_pixels(&w);
  store_part(&w, build_parameter(b, 3, "parts"), has_pair);
  build_finish(b);
}
