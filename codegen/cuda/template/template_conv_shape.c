// What the host knows of a convolution on the tensor cores: whether there is a template for it, which kernels it
// launches, and the numbers they get. A kernel is one for all shapes of a variant (pass, type, size of its tile, one
// tap or several): a network's dozens of convolutions are a handful of kernels.
#include <string.h>

#include "codegen/cuda/cuda.h"
#include "codegen/cuda/template/template_conv.h"
#include "support/integers.h"
#include "support/text.h"

static int64_t channels_in(const ConvShape *c) { return c->c / c->groups; }
static int64_t channels_out(const ConvShape *c) { return c->o / c->groups; }
static int64_t weights(const ConvShape *c) { return c->o * channels_in(c) * c->kh * c->kw; }

// Whether a product of warpgroups has 256 columns: a third less to read for each result, but one block on a
// multiprocessor, which nothing hides the beginning and the end of. So it has to have many steps, and there have to be
// blocks for all multiprocessors of a large GPU.
static bool is_wide(const ConvShape *c, int64_t wide_blocks) {
  enum { LEAST_STEPS = 8 };
  if (c->pass == NNC_CONV_WEIGHT_GRAD) {   // the parts of the depth are as many as there are to be blocks
    int64_t columns = channels_in(c) * c->kh * c->kw,
            results = c->groups * divide_up(channels_out(c), CONV_COLUMNS) * (columns / CONV_WIDE_COLUMNS);
    return channels_out(c) > CONV_COLUMNS / 2 && columns % CONV_WIDE_COLUMNS == 0 &&
           c->n * c->oh * c->ow * results >= wide_blocks * LEAST_STEPS * conv_depth_block(c);
  }
  bool input_gradient = c->pass == NNC_CONV_INPUT_GRAD;
  int64_t columns = input_gradient ? channels_in(c) : channels_out(c),
          depth = input_gradient ? channels_out(c) : channels_in(c);
  int64_t rows = c->n * (input_gradient ? c->h * c->w : c->oh * c->ow);
  return columns % CONV_WIDE_COLUMNS == 0 && divide_up(depth, conv_depth_block(c)) * c->kh * c->kw >= LEAST_STEPS &&
         divide_up(rows, CONV_ROWS) * (columns / CONV_WIDE_COLUMNS) * c->groups >= wide_blocks;
}

bool conv_shape(const NncConv *c, TileType type, int64_t wide_blocks, ConvShape *shape) {
  if (!c->channels_last) return false;
  *shape = (ConvShape){.type = type,
                       .result = c->result == c->dtype ? type : TILE_F32,
                       .pass = c->pass,
                       .n = c->n,
                       .c = c->c,
                       .h = c->h,
                       .w = c->w,
                       .o = c->o,
                       .oh = c->oh,
                       .ow = c->ow,
                       .kh = c->kh,
                       .kw = c->kw,
                       .stride = {c->stride[0], c->stride[1]},
                       .pad = {c->pad[0], c->pad[2]},
                       .dilation = {c->dilation[0], c->dilation[1]},
                       .groups = c->groups};
  shape->wgmma = wide_blocks > 0 && tile_element_bytes(type) == 2;
  shape->wide = shape->wgmma && is_wide(shape, wide_blocks);
  int64_t most = INT32_MAX / 4;
  return c->n * c->h * c->w < most && c->n * c->oh * c->ow < most && c->o * c->c / c->groups * c->kh * c->kw < most &&
         c->h * c->dilation[0] < most && c->w * c->dilation[1] < most && c->groups * conv_parts(shape) < 65536;
}

bool conv_template_shape(const NncConv *c, TileType type, int64_t wide_blocks, ConvShape *shape) {
  int64_t chunk = tile_chunk(type);
  return conv_shape(c, type, wide_blocks, shape) && c->c / c->groups % chunk == 0 && c->o / c->groups % chunk == 0;
}

// Each element is loaded once for each tile of columns; with several taps it would go through the map for each of them.
bool conv_takes_prologue(const ConvShape *c) { return c->pass == NNC_CONV_FORWARD && conv_one_tap(c) && !c->grouped; }

bool conv_one_tap(const ConvShape *c) {
  return c->kh * c->kw == 1 && (c->pass != NNC_CONV_WEIGHT_GRAD || c->grouped || conv_dense(c));
}
bool conv_depth_rows(const ConvShape *c) {
  return c->pass == NNC_CONV_INPUT_GRAD && !c->grouped && conv_one_tap(c) && tile_element_bytes(c->type) == 2;
}
bool conv_reorders(const ConvShape *c) {
  return c->pass != NNC_CONV_WEIGHT_GRAD && !conv_depth_rows(c) &&
         (c->grouped || c->pass == NNC_CONV_INPUT_GRAD || !conv_one_tap(c));
}
bool conv_dense(const ConvShape *c) {
  return !c->grouped && c->kh * c->kw == 1 && c->stride[0] * c->stride[1] == 1 && !c->pad[0] && !c->pad[1] &&
         c->h == c->oh && c->w == c->ow;
}
bool conv_divides(const ConvShape *c) {
  return c->pass == NNC_CONV_INPUT_GRAD &&
         (c->stride[0] * c->stride[1] > 1 || (!c->grouped && conv_one_tap(c) && !conv_dense(c)));
}
int conv_depth_block(const ConvShape *c) {
  return c->pass == NNC_CONV_WEIGHT_GRAD ? 4 * tile_k(c->type) : 128 / tile_element_bytes(c->type);
}

// Of the tile, the side that is halved where a group has no more than 64 channels.
int conv_tile_channels(const ConvShape *c) {
  return c->wide && c->pass != NNC_CONV_WEIGHT_GRAD                                 ? CONV_WIDE_COLUMNS
         : (c->pass == NNC_CONV_INPUT_GRAD ? channels_in(c) : channels_out(c)) > 64 ? CONV_COLUMNS
                                                                                    : CONV_COLUMNS / 2;
}

int conv_gradient_columns(const ConvShape *c) { return c->wide ? CONV_WIDE_COLUMNS : CONV_COLUMNS; }

// Of products of warpgroups as many as a multiprocessor has shared memory for: 227 KB for one block, 113 KB for each of
// two.
int conv_stages(const ConvShape *c) {
  return c->wgmma && (c->wide || conv_tile_channels(c) < CONV_COLUMNS) ? CONV_STAGES + 1 : CONV_STAGES;
}
int conv_lag(const ConvShape *c) { return conv_stages(c) - CONV_STAGES; }
int conv_ahead(const ConvShape *c) { return conv_stages(c) - 1 - conv_lag(c); }

int conv_template_rows(void) { return CONV_ROWS; }

int conv_parts(const ConvShape *c) {
  enum { BLOCKS = 264, LEAST_STEPS = 8 };   // two for each multiprocessor of a large GPU, or one
  if (c->pass != NNC_CONV_WEIGHT_GRAD) return 1;
  if (c->grouped) return conv_grouped_parts(c);
  int64_t results = c->groups * divide_up(channels_out(c), conv_tile_channels(c)) *
                    divide_up(channels_in(c) * c->kh * c->kw, conv_gradient_columns(c));
  int64_t parts = (c->wide ? BLOCKS / 2 : BLOCKS) / results,
          most = c->n * c->oh * c->ow / (LEAST_STEPS * conv_depth_block(c));
  if (parts > most) parts = most;
  return parts < 1 ? 1 : (int)parts;
}

int conv_template_launches(const ConvShape *c) { return c->pass == NNC_CONV_WEIGHT_GRAD || conv_reorders(c) ? 2 : 1; }

int64_t conv_template_workspace(const ConvShape *c) {
  if (c->pass == NNC_CONV_WEIGHT_GRAD) return (c->type == TILE_F64 ? 8 : 4) * weights(c) * conv_parts(c);
  return conv_reorders(c) ? weights(c) * tile_element_bytes(c->type) : 0;
}

char *conv_template_symbol(const ConvShape *c, int which) {
  static const char *const passes[] = {"forward", "input_grad", "weight_grad"};
  bool last = which == conv_template_launches(c) - 1;
  if (c->pass == NNC_CONV_WEIGHT_GRAD && last)
    return text_format("conv_weight_grad_sum%s%s", tile_element_bytes(c->result) == 4 ? "" : "_",
                       tile_element_bytes(c->result) == 4 ? "" : tile_name(c->result));
  if (c->grouped) return conv_grouped_symbol(c, last);
  if (conv_reorders(c) && !last) return text_format("conv_%s_reorder_%d", passes[c->pass], tile_element_bytes(c->type));
  if (c->pass == NNC_CONV_WEIGHT_GRAD)
    return text_format("conv_weight_grad_%s_%d%s%s", tile_name(c->type), conv_tile_channels(c), c->wide ? "_wide" : "",
                       conv_dense(c) ? "_1x1" : "");
  bool strided = conv_divides(c) || (conv_one_tap(c) && !conv_dense(c));
  return text_format("conv_%s_%s_%d%s%s%s%s", passes[c->pass], tile_name(c->type), conv_tile_channels(c),
                     conv_one_tap(c) ? "_1x1" : "", strided ? "_strided" : "", *c->prologue.function ? "_" : "",
                     c->prologue.function);
}

// ---------------------------------------------------------------------------------------------------------------------
// Numbers

static void set_divisor(int32_t *out, ConvNumber which, int64_t d) { template_divisor(out + which, d); }

static void set_gather(const ConvShape *c, int32_t *out) {
  bool input_gradient = c->pass == NNC_CONV_INPUT_GRAD;
  int64_t h = input_gradient ? c->h : c->oh, w = input_gradient ? c->w : c->ow;
  out[CONV_POSITIONS] = (int32_t)(c->n * h * w);
  set_divisor(out, CONV_IMAGE_POSITIONS, h * w);
  set_divisor(out, CONV_ROW_POSITIONS, w);
  out[CONV_HEIGHT] = (int32_t)(input_gradient ? c->oh : c->h);
  out[CONV_WIDTH] = (int32_t)(input_gradient ? c->ow : c->w);
  out[CONV_CHANNELS] = (int32_t)(input_gradient ? c->o : c->c);
  for (int i = 0; i < 2; i++) {
    out[CONV_MULTIPLY + i] = (int32_t)(input_gradient ? 1 : c->stride[i]);
    out[CONV_OFFSET + i] = (int32_t)(input_gradient ? c->pad[i] : -c->pad[i]);
    out[CONV_TAP + i] = (int32_t)(input_gradient ? -c->dilation[i] : c->dilation[i]);
    set_divisor(out, i ? CONV_DIVIDE_X : CONV_DIVIDE_Y, input_gradient ? c->stride[i] : 1);
  }
}

static void set_numbers(const ConvShape *c, int32_t *out) {
  bool input_gradient = c->pass == NNC_CONV_INPUT_GRAD, weight_gradient = c->pass == NNC_CONV_WEIGHT_GRAD;
  int64_t depth = input_gradient ? channels_out(c) : channels_in(c),
          columns = input_gradient ? channels_in(c) : channels_out(c), block = conv_depth_block(c);
  set_gather(c, out);
  out[CONV_DEPTH] = (int32_t)depth;
  out[CONV_RESULT_COLUMNS] = (int32_t)(weight_gradient ? channels_in(c) * c->kh * c->kw : columns);
  out[CONV_RESULT_ROWS] = (int32_t)channels_out(c);
  out[CONV_RESULT_CHANNELS] = (int32_t)(input_gradient ? c->c : c->o);
  out[CONV_GROUPS] = (int32_t)c->groups;
  out[CONV_STEPS] = (int32_t)(c->kh * c->kw * divide_up(depth, block));
  out[CONV_WEIGHTS] = (int32_t)weights(c);
  out[CONV_PART_POSITIONS] = (int32_t)(divide_up(divide_up(c->n * c->oh * c->ow, conv_parts(c)), block) * block);
  set_divisor(out, CONV_TAP_STEPS, divide_up(depth, block));
  set_divisor(out, CONV_KERNEL_WIDTH, c->kw);
  set_divisor(out, CONV_TAPS, c->kh * c->kw);
  set_divisor(out, CONV_COLUMN_TILES, divide_up(columns, conv_tile_channels(c)));
  set_divisor(out, CONV_CHANNELS_IN, channels_in(c));
  set_divisor(out, CONV_CHANNELS_OUT, channels_out(c));
  set_divisor(out, CONV_PARTS, conv_parts(c));
  out[CONV_PARTIALS] = (int32_t)c->partials;
  out[CONV_PARTIALS_PITCH] = (int32_t)c->partials_pitch;
  out[CONV_ENDING] = c->ending;
  out[CONV_SLICE_CHANNELS] = (int32_t)c->slice_channels;
  out[CONV_SLICE_FIRST] = (int32_t)c->slice_first;
}

void conv_template_launch(const ConvShape *c, int which, TemplateLaunch *launch) {
  bool last = which == conv_template_launches(c) - 1, weight_gradient = c->pass == NNC_CONV_WEIGHT_GRAD;
  *launch = (TemplateLaunch){.grid = {divide_up(weights(c), CONV_THREADS), 1, 1},
                             .threads = CONV_THREADS,
                             .n_numbers = CONV_NUMBERS};
  set_numbers(c, launch->numbers);
  if (last == weight_gradient) return;   // weights reordered, parts added up: a thread for each
  if (c->grouped) {
    conv_grouped_launch(c, launch);
    return;
  }
  int element = tile_element_bytes(c->type), channels = conv_tile_channels(c), depth = conv_depth_block(c);
  launch->shared_bytes = conv_stages(c) * ((weight_gradient ? conv_gradient_columns(c) : CONV_ROWS) + channels) *
                             depth * element +
                         (c->wgmma ? WGMMA_PADDING : 0);
  if (weight_gradient) {
    launch->grid[0] = divide_up(channels_in(c) * c->kh * c->kw, conv_gradient_columns(c));
    launch->grid[1] = divide_up(channels_out(c), channels);
  } else {   // neighbouring blocks share rows, and the y axis of a grid is too short for them
    launch->grid[0] = divide_up(launch->numbers[CONV_POSITIONS], CONV_ROWS) * launch->numbers[CONV_COLUMN_TILES];
  }
  launch->grid[2] = c->groups * conv_parts(c);
}
