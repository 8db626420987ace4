// Depthwise convolutions: each channel has its own window and no other, so there is nothing to multiply in tiles; what
// counts is how often an element is read. A thread makes a strip of results, 16 bytes of channels each (in f32,
// whatever the type in memory), with the weights of these channels in registers, and reads every element under the
// strip once. One kernel serves all shapes of one window: sizes are arguments.
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/template/template_depthwise.h"
#include "support/alloc.h"
#include "support/integers.h"
#include "support/text.h"

enum { THREADS = 256, STRIP = 4, MOST_TAPS = 25, BLOCKS = 528, LEAST_ROUNDS = 8 };

// Arguments of every kernel after its buffers; divisors take three.
typedef enum Number {
  TOTAL,   // threads, or results of the sum
  HEIGHT,
  WIDTH,
  CHANNELS,   // of the image that is gathered from
  OFFSET_Y,
  OFFSET_X,   // of the window at result 0
  RESULT_WIDTH,
  POSITIONS,   // of the image that is gone through
  PART_POSITIONS,
  PARTS,
  RESULTS,
  OF_CHANNELS,
  OF_STRIPS = OF_CHANNELS + 3,
  OF_ROWS = OF_STRIPS + 3,
  NUMBERS = OF_ROWS + 3   // divisors: vectors of channels, strips of a row, rows
} Number;

static int wide_bytes(const NncConv *c) { return c->dtype == NNC_F64 ? 8 : 4; }   // of an element that is computed with
static bool gradient(const NncConv *c) { return c->pass == NNC_CONV_INPUT_GRAD; }
static bool strided(const NncConv *c) {
  return gradient(c) && c->stride[0] * c->stride[1] > 1;
}   // not every pixel lies under every tap
static int taps(const NncConv *c) { return (int)(c->kh * c->kw); }

static int lanes(const NncConv *c) {
  int n = 16 / wide_bytes(c);
  while (c->c % n) n /= 2;
  return n;
}

bool depthwise_supported(const NncConv *c) {
  int64_t most = INT32_MAX / 4;
  return c->channels_last && c->groups == c->c && c->groups == c->o && c->groups > 1 && taps(c) <= MOST_TAPS &&
         c->n * c->h * c->w * c->c < most && c->n * c->oh * c->ow * c->c < most;
}

// ---------------------------------------------------------------------------------------------------------------------
// Launches

static int64_t strip(const NncConv *c) { return strided(c) ? 1 : STRIP; }

// Vectors of channels along a block's x axis; the others go through pixels.
static int64_t block_width(const NncConv *c) {
  int64_t width = 1;
  while (width < 32 && width * lanes(c) < c->c) width *= 2;
  return width;
}

static int64_t parts(const NncConv *c) {
  int64_t rows = THREADS / block_width(c), most = c->n * c->oh * c->ow / (rows * LEAST_ROUNDS),
          n = BLOCKS / divide_up(c->c / lanes(c), block_width(c));
  if (n > most) n = most;
  return n < 1 ? 1 : n;
}

int depthwise_launches(const NncConv *c) { return c->pass == NNC_CONV_WEIGHT_GRAD && parts(c) > 1 ? 2 : 1; }
int64_t depthwise_workspace(const NncConv *c) {
  return depthwise_launches(c) == 2 ? parts(c) * c->c * taps(c) * wide_bytes(c) : 0;
}

char *depthwise_symbol(const NncConv *c, int which) {
  static const char *const passes[] = {"forward", "input_grad", "weight_grad"};
  if (which == 1) return text_format("conv_depthwise_sum_%s", tile_name(tile_type(c->result)));
  bool in_parts = depthwise_launches(c) == 2;
  char *width = c->pass == NNC_CONV_WEIGHT_GRAD ? text_format("_w%d%s", (int)block_width(c),
                                                              in_parts                ? "_parts"
                                                              : c->result != c->dtype ? "_to_f32"
                                                                                      : "")
                                                : copy_string("");
  char *symbol = text_format("conv_depthwise_%s_%s_%dx%d_s%dx%d_d%dx%d_x%d%s", passes[c->pass],
                             tile_name(tile_type(c->dtype)), (int)c->kh, (int)c->kw, (int)c->stride[0],
                             (int)c->stride[1], (int)c->dilation[0], (int)c->dilation[1], lanes(c), width);
  free(width);
  return symbol;
}

void depthwise_launch(const NncConv *c, int which, TemplateLaunch *launch) {
  bool back = gradient(c);
  int32_t *out = launch->numbers;
  int64_t h = back ? c->h : c->oh, w = back ? c->w : c->ow, vectors = c->c / lanes(c), strips = divide_up(w, strip(c)),
          total = c->n * h * strips * vectors;
  *launch = (TemplateLaunch){.threads = THREADS, .n_numbers = NUMBERS};
  out[HEIGHT] = (int32_t)(back ? c->oh : c->h);
  out[WIDTH] = (int32_t)(back ? c->ow : c->w);
  out[CHANNELS] = (int32_t)c->c;
  // Without a stride the gradient is a convolution with the window turned around.
  for (int i = 0; i < 2; i++) {
    int64_t reach = c->dilation[i] * ((i ? c->kw : c->kh) - 1), pad = c->pad[2 * i];
    out[OFFSET_Y + i] = (int32_t)(!back ? -pad : strided(c) ? pad : pad - reach);
  }
  out[RESULT_WIDTH] = (int32_t)w;
  out[POSITIONS] = (int32_t)(c->n * h * w);
  out[PARTS] = (int32_t)parts(c);
  out[PART_POSITIONS] = (int32_t)divide_up(c->n * h * w, parts(c));
  out[RESULTS] = (int32_t)(c->c * taps(c));
  template_divisor(out + OF_CHANNELS, vectors);
  template_divisor(out + OF_STRIPS, c->pass == NNC_CONV_WEIGHT_GRAD ? w : strips);
  template_divisor(out + OF_ROWS, h);
  if (which == 1) total = c->c * taps(c);
  out[TOTAL] = (int32_t)total;
  launch->grid[0] = divide_up(total, THREADS), launch->grid[1] = launch->grid[2] = 1;
  if (c->pass == NNC_CONV_WEIGHT_GRAD && which == 0) {
    launch->grid[0] = divide_up(vectors, block_width(c));
    launch->grid[1] = parts(c);
    launch->shared_bytes = THREADS * lanes(c) * wide_bytes(c);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Code

typedef struct Depthwise {
  Build b;
  // Borrowed; only the window, the stride, the dilation, the type and the lanes may be looked at
  const NncConv *c;
  int lanes;
  TileType type, wide, result;   // in memory: of operands, of what is computed with, of results
  LLVMTypeRef element, vector;   // that are computed with
  Val channel;                   // first of this thread's
  Val weights[MOST_TAPS];        // vectors
} Depthwise;

static Val number(Depthwise *d, Number which) {
  return LLVMGetParam(d->b.function, LLVMCountParams(d->b.function) - NUMBERS + (unsigned)which);
}
static Divisor divisor(Depthwise *d, Number which) {
  return (Divisor){number(d, which), number(d, which + 1), number(d, which + 2)};
}
static Val constant(Depthwise *d, int64_t v) { return build_i32(&d->b, v); }

static void begin_depthwise(Depthwise *d, LLVMModuleRef module, const NncConv *c, const char *name,
                            const char *buffers) {
  char parameters[4 + NUMBERS + 1];
  size_t n = strlen(buffers);
  memcpy(parameters, buffers, n);
  memset(parameters + n, 'i', NUMBERS);
  parameters[n + NUMBERS] = 0;
  *d = (Depthwise){.c = c,
                   .lanes = lanes(c),
                   .type = tile_type(c->dtype),
                   .wide = c->dtype == NNC_F64 ? TILE_F64 : TILE_F32,
                   .result = tile_type(c->result)};
  build_kernel(&d->b, module, name, parameters, THREADS);
  d->element = build_memory_type(&d->b, d->wide);
  d->vector = LLVMVectorType(d->element, (unsigned)d->lanes);
}

static Val zero(Depthwise *d) { return LLVMConstNull(d->vector); }
static Val multiply_add(Depthwise *d, Val x, Val y, Val sum) {
  return build_intrinsic(&d->b, "llvm.fma", d->vector, 3, (Val[]){x, y, sum});
}

static Val address(Depthwise *d, TileType t, Val base, Val element) {
  return build_element(&d->b, t, base, build_i64(&d->b, element));
}
// Of an operand.
static Val load_vector(Depthwise *d, Val base, Val element) {
  LLVMTypeRef type = LLVMVectorType(build_memory_type(&d->b, d->type), (unsigned)d->lanes);
  return build_widened(&d->b, d->type,
                       build_load(&d->b, type, address(d, d->type, base, element),
                                  d->lanes * tile_element_bytes(d->type)));
}
static void store_as(Depthwise *d, TileType t, Val base, Val element, Val v, int n) {   // n elements
  build_store(&d->b, build_rounded(&d->b, t, v), address(d, t, base, element), n * tile_element_bytes(t));
}

// This thread's channels of pixel (y, x) of the image that is gathered from; zero outside. rows: pixels in front of the
// image.
static Val pixel(Depthwise *d, Val image, Val rows, Val y, Val x, Val valid) {
  Build *b = &d->b;
  Val inside = build_and(b, valid, build_and(b, build_less(b, constant(d, -1), x), build_less(b, x, number(d, WIDTH))));
  Val at = build_add(b,
                     build_mul(b, build_add(b, build_mul(b, build_add(b, rows, y), number(d, WIDTH)), x),
                               number(d, CHANNELS)),
                     d->channel);
  Val v = load_vector(d, image, build_select(b, inside, at, constant(d, 0)));   // the first can always be read
  return build_select(b, inside, v, zero(d));
}

static Val row_inside(Depthwise *d, Val y) {
  Build *b = &d->b;
  return build_and(b, build_less(b, constant(d, -1), y), build_less(b, y, number(d, HEIGHT)));
}

// The channels' windows lie one after the other: whole vectors of them are read, then sorted by tap.
static void load_weights(Depthwise *d, Val w, bool turned) {
  Build *b = &d->b;
  int n = taps(d->c);
  Val flat[MOST_TAPS], first = build_mul(b, d->channel, constant(d, n));
  for (int i = 0; i < n; i++) flat[i] = load_vector(d, w, build_add(b, first, constant(d, (int64_t)i * d->lanes)));
  for (int t = 0; t < n; t++) {
    Val v = LLVMGetPoison(d->vector);
    for (int l = 0; l < d->lanes; l++) {
      int at = l * n + t;
      Val one = LLVMBuildExtractElement(b->builder, flat[at / d->lanes], constant(d, at % d->lanes), "");
      v = LLVMBuildInsertElement(b->builder, v, one, constant(d, l), "");
    }
    d->weights[turned ? n - 1 - t : t] = v;
  }
}

// pixels in front of the image that is gathered from; of the result; the first result's pixel
typedef struct Place {
  Val image_rows, y, x, pixel;
} Place;

// Thread i: vector of channels fastest, then strips, rows, images.
static Place place_of(Depthwise *d, Val i) {
  Build *b = &d->b;
  Divisor of_channels = divisor(d, OF_CHANNELS), of_strips = divisor(d, OF_STRIPS), of_rows = divisor(d, OF_ROWS);
  Val vector, column, y, rest = build_divide(b, i, &of_channels, &vector),
                         row = build_divide(b, rest, &of_strips, &column), image = build_divide(b, row, &of_rows, &y);
  d->channel = build_mul(b, vector, constant(d, d->lanes));
  Val x = build_mul(b, column, constant(d, strip(d->c)));
  return (Place){build_mul(b, image, number(d, HEIGHT)), y, x,
                 build_add(b, build_mul(b, row, number(d, RESULT_WIDTH)), x)};
}

// Elements under the strip, each read once and given to every result that it lies under.
static void strip_sums(Depthwise *d, Val image, const Place *at, Val sum[STRIP]) {
  Build *b = &d->b;
  const NncConv *c = d->c;
  int step = gradient(c) ? 1 : (int)c->stride[1], dilation = (int)c->dilation[1],
      columns = (STRIP - 1) * step + ((int)c->kw - 1) * dilation + 1;
  Val y0 = build_add(b, build_mul(b, at->y, constant(d, gradient(c) ? 1 : c->stride[0])), number(d, OFFSET_Y)),
      x0 = build_add(b, build_mul(b, at->x, constant(d, step)), number(d, OFFSET_X));
  for (int ky = 0; ky < c->kh; ky++) {
    Val y = build_add(b, y0, constant(d, ky * c->dilation[0])), valid = row_inside(d, y);
    for (int column = 0; column < columns; column++) {
      Val v = NULL;
      for (int s = 0; s < STRIP; s++) {
        int reach = column - s * step;
        if (reach < 0 || reach % dilation || reach / dilation >= c->kw) continue;
        if (!v) v = pixel(d, image, at->image_rows, y, build_add(b, x0, constant(d, column)), valid);
        sum[s] = multiply_add(d, v, d->weights[ky * c->kw + reach / dilation], sum[s]);
      }
    }
  }
}

// The input gradient with a stride: result pixels that this one lay under, where the division is whole.
static void strided_sum(Depthwise *d, Val image, const Place *at, Val *sum) {
  Build *b = &d->b;
  const NncConv *c = d->c;
  for (int ky = 0; ky < c->kh; ky++) {
    Val y = build_sub(b, build_add(b, at->y, number(d, OFFSET_Y)), constant(d, ky * c->dilation[0])),
        oy = build_div(b, y, c->stride[0]);
    Val valid = build_and(b,
                          build_and(b, build_less(b, constant(d, -1), y),
                                    build_equal(b, build_mod(b, y, c->stride[0]), constant(d, 0))),
                          row_inside(d, oy));
    for (int kx = 0; kx < c->kw; kx++) {
      Val x = build_sub(b, build_add(b, at->x, number(d, OFFSET_X)), constant(d, kx * c->dilation[1]));
      Val whole = build_and(b, build_less(b, constant(d, -1), x),
                            build_equal(b, build_mod(b, x, c->stride[1]), constant(d, 0)));
      *sum = multiply_add(d,
                          pixel(d, image, at->image_rows, oy, build_div(b, x, c->stride[1]),
                                build_and(b, valid, whole)),
                          d->weights[ky * c->kw + kx], *sum);
    }
  }
}

// Forward and input gradient.
static void build_strip(LLVMModuleRef module, const NncConv *c, const char *name) {
  Depthwise d;
  begin_depthwise(&d, module, c, name, "rrp");
  Build *b = &d.b;
  Val image = build_parameter(b, 0, gradient(c) ? "dy" : "x"), w = build_parameter(b, 1, "w"),
      out = build_parameter(b, 2, gradient(c) ? "dx" : "y"), i = build_thread_number(b, THREADS), sum[STRIP];
  Branch inside;
  build_if(b, &inside, build_less(b, i, number(&d, TOTAL)));
  Place at = place_of(&d, i);
  load_weights(&d, w, gradient(c) && !strided(c));
  for (int s = 0; s < strip(c); s++) sum[s] = zero(&d);
  if (strided(c)) strided_sum(&d, image, &at, sum);
  else strip_sums(&d, image, &at, sum);
  for (int s = 0; s < strip(c); s++) {
    Branch write;
    build_if(b, &write, build_less(b, build_add(b, at.x, constant(&d, s)), number(&d, RESULT_WIDTH)));
    Val element = build_add(b, build_mul(b, build_add(b, at.pixel, constant(&d, s)), number(&d, CHANNELS)), d.channel);
    store_as(&d, d.result, out, element, sum[s], d.lanes);
    build_if_end(b, &write);
  }
  build_if_end(b, &inside);
  build_finish(b);
}

// ---------------------------------------------------------------------------------------------------------------------
// Weight gradient: a block has some vectors of channels and a part of the pixels, its threads meet in shared memory,
// parts are added up by the second kernel.

static void add_pixels(Depthwise *d, Val x, Val dy, Val first_row, int64_t rows, Var *sums) {
  Build *b = &d->b;
  const NncConv *c = d->c;
  Divisor of_width = divisor(d, OF_STRIPS), of_rows = divisor(d, OF_ROWS);
  Val part = build_block_id(b, 'y'), low = build_mul(b, part, number(d, PART_POSITIONS));
  Val high = build_min(b, build_add(b, low, number(d, PART_POSITIONS)), number(d, POSITIONS));
  Loop loop;
  Val p = build_loop(b, &loop, build_add(b, low, first_row), high, (int)rows), ox, oy;
  Val row = build_divide(b, p, &of_width, &ox), image = build_divide(b, row, &of_rows, &oy),
      image_rows = build_mul(b, image, number(d, HEIGHT));
  Val g = load_vector(d, dy, build_add(b, build_mul(b, p, number(d, CHANNELS)), d->channel));
  Val y0 = build_add(b, build_mul(b, oy, constant(d, c->stride[0])), number(d, OFFSET_Y)),
      x0 = build_add(b, build_mul(b, ox, constant(d, c->stride[1])), number(d, OFFSET_X));
  for (int t = 0; t < taps(c); t++) {
    Val y = build_add(b, y0, constant(d, t / c->kw * c->dilation[0])),
        column = build_add(b, x0, constant(d, t % c->kw * c->dilation[1]));
    build_set(b, sums[t],
              multiply_add(d, g, pixel(d, x, image_rows, y, column, row_inside(d, y)), build_get(b, sums[t])));
  }
  build_loop_end(b, &loop);
}

static void build_weights(LLVMModuleRef module, const NncConv *c, const char *name) {
  Depthwise d;
  bool in_parts = depthwise_launches(c) == 2;
  int64_t width = block_width(c), rows = THREADS / width;
  begin_depthwise(&d, module, c, name, in_parts ? "rr-p" : "rrp");
  Build *b = &d.b;
  Val x = build_parameter(b, 0, "x"), dy = build_parameter(b, 1, "dy"),
      out = build_parameter(b, in_parts ? 3 : 2, in_parts ? "parts" : "dw");
  Val row = build_div(b, b->tid, width), of_block = build_mul(b, build_block_id(b, 'x'), constant(&d, width));
  Val vector = build_add(b, of_block, build_mod(b, b->tid, width)),
      has_vector = build_less(b, vector, number(&d, OF_CHANNELS));
  // the others work in vain
  d.channel = build_mul(b, build_select(b, has_vector, vector, constant(&d, 0)), constant(&d, d.lanes));
  Var sums[MOST_TAPS];
  for (int t = 0; t < taps(c); t++) sums[t] = build_var(b, d.vector, zero(&d));
  add_pixels(&d, x, dy, row, rows, sums);
  Val part = build_block_id(b, 'y'), base = build_mul(b, part, number(&d, RESULTS)), shared = build_shared_base(b);
  for (int t = 0; t < taps(c); t++) {
    Val v = build_add_rows(b, shared, row, THREADS, width, build_get(b, sums[t]), d.lanes * tile_element_bytes(d.wide));
    Branch write;
    build_if(b, &write, build_and(b, has_vector, build_equal(b, row, constant(&d, 0))));
    for (int l = 0; l < d.lanes; l++) {
      Val element = build_add(b, base,
                              build_add(b,
                                        build_mul(b, build_add(b, d.channel, constant(&d, l)), constant(&d, taps(c))),
                                        constant(&d, t)));
      store_as(&d, in_parts ? d.wide : d.result, out, element,
               LLVMBuildExtractElement(b->builder, v, constant(&d, l), ""), 1);
    }
    build_if_end(b, &write);
  }
  build_finish(b);
}

static void build_sum(LLVMModuleRef module, const NncConv *c, const char *name) {
  Depthwise d;
  begin_depthwise(&d, module, c, name, "--pr");
  Build *b = &d.b;
  Val out = build_parameter(b, 2, "dw"), from = build_parameter(b, 3, "parts"), i = build_thread_number(b, THREADS);
  Branch inside;
  build_if(b, &inside, build_less(b, i, number(&d, TOTAL)));
  Var sum = build_var(b, d.element, LLVMConstNull(d.element));
  Loop loop;
  Val p = build_loop(b, &loop, constant(&d, 0), number(&d, PARTS), 1),
      element = build_add(b, build_mul(b, p, number(&d, RESULTS)), i);
  build_set(b, sum,
            LLVMBuildFAdd(b->builder, build_get(b, sum),
                          build_load(b, d.element, address(&d, d.wide, from, element), tile_element_bytes(d.wide)),
                          ""));
  build_loop_end(b, &loop);
  store_as(&d, d.result, out, i, build_get(b, sum), 1);
  build_if_end(b, &inside);
  build_finish(b);
}

void depthwise_build(LLVMModuleRef module, const NncConv *c, int which, const char *name) {
  if (which == 1) build_sum(module, c, name);
  else if (c->pass == NNC_CONV_WEIGHT_GRAD) build_weights(module, c, name);
  else build_strip(module, c, name);
}
