// Convolutions in groups of a few channels, forward and the gradient of the input: too little for a tile of the tensor
// cores. A thread makes 16 bytes of a group's channels of four neighbouring pixels, and goes through taps and the
// group's other channels: each vector of weights serves four pixels, each vector of elements all its channels. One
// kernel serves all shapes of one width of vectors. Sums are f32 or f64, whatever the type in memory.
#include "codegen/cuda/template/template_conv.h"
#include "support/integers.h"
#include "support/text.h"

enum { STRIP = 4 };

static int64_t results(const ConvShape *c) { return (c->pass == NNC_CONV_INPUT_GRAD ? c->c : c->o) / c->groups; }
static int64_t summed(const ConvShape *c) { return (c->pass == NNC_CONV_INPUT_GRAD ? c->o : c->c) / c->groups; }

int conv_grouped_lanes(const ConvShape *c, int64_t channels) {
  int n = 16 / tile_element_bytes(c->type);
  while (channels % n) n /= 2;
  return n;
}

// No more than four of what is summed: a thread has them for each of its pixels.
static int depth_lanes(const ConvShape *c) {
  int n = conv_grouped_lanes(c, summed(c));
  return n < 4 ? n : 4;
}

static int64_t vectors(const ConvShape *c) { return c->groups * results(c) / conv_grouped_lanes(c, results(c)); }
static int64_t positions(const ConvShape *c) {
  return c->pass == NNC_CONV_INPUT_GRAD ? c->n * c->h * c->w : c->n * c->oh * c->ow;
}
static int64_t threads(const ConvShape *c) { return divide_up(positions(c), STRIP) * vectors(c); }

bool conv_grouped_shape(const NncConv *c, int64_t wide_blocks, ConvShape *shape) {
  if (c->groups == 1 || !conv_shape(c, tile_type(c->dtype), wide_blocks, shape)) return false;
  shape->grouped = true;
  shape->wgmma = shape->wide = false;
  return threads(shape) < INT32_MAX / 2;
}

char *conv_grouped_symbol(const ConvShape *c, bool last) {
  const char *pass = c->pass == NNC_CONV_INPUT_GRAD ? "input_grad" : "forward", *type = tile_name(c->type);
  if (c->pass == NNC_CONV_WEIGHT_GRAD) return conv_grouped_weights_symbol(c);
  if (!last) return text_format("conv_grouped_%s_reorder_%d", pass, tile_element_bytes(c->type));
  return text_format("conv_grouped_%s_%s_%dx%d%s%s", pass, type, conv_grouped_lanes(c, results(c)), depth_lanes(c),
                     conv_one_tap(c) ? "_1x1" : "", conv_divides(c) ? "_strided" : "");
}

void conv_grouped_launch(const ConvShape *c, TemplateLaunch *launch) {
  if (c->pass == NNC_CONV_WEIGHT_GRAD) {
    conv_grouped_weights_launch(c, launch);
    return;
  }
  template_divisor(launch->numbers + CONV_COLUMN_TILES, vectors(c));
  launch->grid[0] = divide_up(threads(c), CONV_THREADS);
  launch->grid[1] = launch->grid[2] = 1;
  launch->shared_bytes = 0;
}

// ---------------------------------------------------------------------------------------------------------------------

typedef struct Grouped {
  Build b;
  const ConvShape *c;                    // Borrowed; only what the symbol says may be looked at
  int own, depth, bytes;                 // lanes of results, of what is summed; of an element
  LLVMTypeRef memory, result, operand;   // an element as it lies in memory; vectors of what is computed with
  Val image, weights, out;
  Val group, channel, place;   // the thread's group; its first channel of the group, and of all
  Val first;                   // position
} Grouped;

static Val address(Grouped *g, Val base, Val element) { return build_element(&g->b, g->c->type, base, element); }

static Val load_vector(Grouped *g, Val base, Val element, int n) {
  Build *b = &g->b;
  return build_widened(b, g->c->type,
                       build_load(b, LLVMVectorType(g->memory, (unsigned)n), address(g, base, element), n * g->bytes));
}

static Divisor divisor_of_results(Grouped *g) {
  return conv_divisor(&g->b, g->c->pass == NNC_CONV_INPUT_GRAD ? CONV_CHANNELS_IN : CONV_CHANNELS_OUT);
}

static void begin_grouped(Grouped *g, LLVMModuleRef module, const ConvShape *c, const char *name, const char *buffers) {
  *g = (Grouped){.c = c,
                 .own = conv_grouped_lanes(c, results(c)),
                 .depth = depth_lanes(c),
                 .bytes = tile_element_bytes(c->type)};
  conv_kernel(&g->b, module, name, buffers);
  LLVMTypeRef element = c->type == TILE_F64 ? g->b.f64 : g->b.f32;
  g->memory = build_memory_type(&g->b, c->type);
  g->result = LLVMVectorType(element, (unsigned)g->own);
  g->operand = LLVMVectorType(element, (unsigned)g->depth);
}

// Weights (o, channel, tap) to (group, tap, summed, result).
static void build_reorder(LLVMModuleRef module, const ConvShape *c, const char *name) {
  Grouped g;
  begin_grouped(&g, module, c, name, "-R-p");
  Build *b = &g.b;
  Val from = build_parameter(b, 1, "w"), to = build_parameter(b, 3, "reordered"),
      i = build_thread_number(b, CONV_THREADS);
  Branch inside;
  build_if(b, &inside, build_less(b, i, conv_number(b, CONV_WEIGHTS)));
  bool gradient = c->pass == NNC_CONV_INPUT_GRAD;
  Divisor of_results = divisor_of_results(&g),
          of_summed = conv_divisor(b, gradient ? CONV_CHANNELS_OUT : CONV_CHANNELS_IN),
          taps = conv_divisor(b, CONV_TAPS);
  Val result, sum, tap, rest = build_divide(b, i, &of_results, &result),
                        group_tap = build_divide(b, rest, &of_summed, &sum),
                        group = build_divide(b, group_tap, &taps, &tap);
  Divisor *outer = gradient ? &of_summed : &of_results, *inner = gradient ? &of_results : &of_summed;
  Val o = build_add(b, build_mul(b, group, outer->value), gradient ? sum : result);
  Val source = build_add(b,
                         build_mul(b, build_add(b, build_mul(b, o, inner->value), gradient ? result : sum), taps.value),
                         tap);
  build_store(b, build_load(b, g.memory, address(&g, from, build_i64(b, source)), g.bytes),
              address(&g, to, build_i64(b, i)), g.bytes);
  build_if_end(b, &inside);
  build_finish(b);
}

// What one tap adds: goes through the group's channels.
static void add_tap(Grouped *g, const PixelRow *rows, Val tap, Var *sums) {
  Build *b = &g->b;
  Val ky, kx, from[STRIP], valid[STRIP], zero = LLVMConstNull(g->operand), depth = conv_number(b, CONV_DEPTH);
  conv_tap(b, g->c, tap, &ky, &kx);
  for (int s = 0; s < STRIP; s++) {
    valid[s] = LLVMConstInt(b->i1, 1, false);
    Val at = conv_pixel(b, g->c, &rows[s], g->image, ky, kx, build_mul(b, g->group, depth), &valid[s]);
    from[s] = build_select(b, valid[s], at, g->image);   // the first can always be read
  }
  Divisor of_results = divisor_of_results(g);
  Val row = build_mul(b, build_add(b, build_mul(b, g->group, conv_number(b, CONV_TAPS)), tap), depth);
  Loop loop;
  Val d = build_loop(b, &loop, build_i32(b, 0), depth, g->depth), x[STRIP];
  for (int s = 0; s < STRIP; s++)
    x[s] = build_select(b, valid[s], load_vector(g, from[s], build_i64(b, d), g->depth), zero);
  for (int l = 0; l < g->depth; l++) {
    Val at = build_add(b, build_mul(b, build_add(b, row, build_add(b, d, build_i32(b, l))), of_results.value),
                       g->channel);
    Val w = load_vector(g, g->weights, build_i64(b, at), g->own);
    for (int s = 0; s < STRIP; s++) {
      Val all = build_splat(b, LLVMBuildExtractElement(b->builder, x[s], build_i32(b, l), ""), g->own);
      build_set(b, sums[s], build_intrinsic(b, "llvm.fma", g->result, 3, (Val[]){all, w, build_get(b, sums[s])}));
    }
  }
  build_loop_end(b, &loop);
}

static void build_product(LLVMModuleRef module, const ConvShape *c, const char *name) {
  Grouped g;
  begin_grouped(&g, module, c, name, "r-pr");
  Build *b = &g.b;
  build_min_blocks(b, 2);
  g.image = build_parameter(b, 0, "image");
  g.out = build_parameter(b, 2, "out");
  g.weights = build_parameter(b, 3, "weights");
  Divisor of_vectors = conv_divisor(b, CONV_COLUMN_TILES), of_results = divisor_of_results(&g);
  Val vector, strip = build_divide(b, build_thread_number(b, CONV_THREADS), &of_vectors, &vector);
  g.place = build_mul(b, vector, build_i32(b, g.own));
  g.group = build_divide(b, g.place, &of_results, &g.channel);
  g.first = build_mul(b, strip, build_i32(b, STRIP));
  Branch inside;
  build_if(b, &inside, build_less(b, g.first, conv_number(b, CONV_POSITIONS)));
  PixelRow rows[STRIP];
  Var sums[STRIP];
  for (int s = 0; s < STRIP; s++) {
    rows[s] = conv_pixel_row(b, c, build_add(b, g.first, build_i32(b, s)));
    sums[s] = build_var(b, g.result, LLVMConstNull(g.result));
  }
  Loop loop;
  Val tap = build_loop(b, &loop, build_i32(b, 0), conv_number(b, CONV_TAPS), 1);
  add_tap(&g, rows, tap, sums);
  build_loop_end(b, &loop);
  for (int s = 0; s < STRIP; s++) {
    Branch write;
    build_if(b, &write, rows[s].inside);
    Val at = build_mul(b, build_i64(b, build_add(b, g.first, build_i32(b, s))),
                       conv_number_i64(b, CONV_RESULT_CHANNELS));
    build_store(b, build_rounded(b, c->type, build_get(b, sums[s])),
                address(&g, g.out, build_add(b, at, build_i64(b, g.place))), g.own * g.bytes);
    build_if_end(b, &write);
  }
  build_if_end(b, &inside);
  build_finish(b);
}

void conv_grouped(LLVMModuleRef module, const ConvShape *c, bool last, const char *name) {
  if (c->pass == NNC_CONV_WEIGHT_GRAD) conv_grouped_weights(module, c, name);
  else (last ? build_product : build_reorder)(module, c, name);
}
