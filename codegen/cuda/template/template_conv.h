// What the convolution templates share: tiles of 128 by 128 results, or half of that where there are no more than 64
// channels; three or four stages of asynchronous copies; eight warps of 64 by 32 results each, or 32 by 32, or two
// warpgroups of 64 by 128 or 64 by 64, or 64 by 256 of tiles of 128 by 256.
#ifndef NNC_CODEGEN_CUDA_TEMPLATE_CONV_H
#define NNC_CODEGEN_CUDA_TEMPLATE_CONV_H

#include "codegen/cuda/template/template.h"

enum {
  CONV_ROWS = 128,
  CONV_COLUMNS = 128,
  CONV_THREADS = 256,
  CONV_STAGES = 3,
  CONV_M_TILES = 4,
  CONV_N_TILES = 4,
  CONV_WIDE_COLUMNS = 256,
  CONV_MOST_N_TILES = 32
};

// The arguments of every kernel after its buffers. A divisor takes three.
typedef enum ConvNumber {
  CONV_POSITIONS,                                  // pixels of the image whose pixels are gone through
  CONV_IMAGE_POSITIONS,                            // divisor: of one image
  CONV_ROW_POSITIONS = CONV_IMAGE_POSITIONS + 3,   // divisor: of one row of it
  CONV_HEIGHT = CONV_ROW_POSITIONS + 3,            // of the other image, whose pixels are gathered
  CONV_WIDTH,
  CONV_CHANNELS,   // channels: of all groups
  CONV_MULTIPLY,
  CONV_OFFSET = CONV_MULTIPLY + 2,
  CONV_TAP = CONV_OFFSET + 2,   // y, x: for position (y, x) and tap k the pixel (y multiply + offset + k tap) / divide,
                                // if that is whole and inside
  CONV_DIVIDE_Y = CONV_TAP + 2,
  CONV_DIVIDE_X = CONV_DIVIDE_Y + 3,   // divisors
  CONV_DEPTH = CONV_DIVIDE_X + 3,      // channels of a group that are summed in a tap
  CONV_RESULT_COLUMNS,
  CONV_RESULT_ROWS,
  CONV_RESULT_CHANNELS,   // of a group's product; of all groups
  CONV_GROUPS,
  CONV_STEPS,
  CONV_WEIGHTS,
  CONV_PART_POSITIONS,
  CONV_TAP_STEPS,   // divisors from here on
  CONV_KERNEL_WIDTH = CONV_TAP_STEPS + 3,
  CONV_TAPS = CONV_KERNEL_WIDTH + 3,
  CONV_COLUMN_TILES = CONV_TAPS + 3,
  CONV_CHANNELS_IN = CONV_COLUMN_TILES + 3,
  CONV_CHANNELS_OUT = CONV_CHANNELS_IN + 3,
  CONV_PARTS = CONV_CHANNELS_OUT + 3,
  CONV_PARTIALS = CONV_PARTS + 3,
  CONV_PARTIALS_PITCH,
  CONV_ENDING,   // no divisors
  CONV_SLICE_CHANNELS,
  CONV_SLICE_FIRST,
  CONV_NUMBERS
} ConvNumber;

enum { CONV_MAX_BUFFERS = 4 + 2 * EPILOGUE_INPUTS + EPILOGUE_OUTPUTS };
// Begins a kernel over the buffers ("r-pr", as build_kernel has them; the fourth is the workspace) and the numbers.
void conv_kernel(Build *b, LLVMModuleRef module, const char *name, const char *buffers);
Val conv_number(Build *b, ConvNumber which);
Divisor conv_divisor(Build *b, ConvNumber which);
Val conv_number_i64(Build *b, ConvNumber which);

// Of a warp: tiles of 16 by 8 results. Of products of warpgroups one row of them.
typedef struct ConvAccumulators {
  int m_tiles, n_tiles;
  Var c[CONV_M_TILES][CONV_MOST_N_TILES][4];
} ConvAccumulators;

// One thread's place among the copies of a tile with rows of 128 bytes: chunk tid % 8 of rows tid / 8 + 32 i.
// i1; i32 before the tap, far outside unless inside; i32 the number of the image's first pixel or, of a dense shape,
// the pixel
typedef struct PixelRow {
  Val inside, y, x, first;
} PixelRow;
PixelRow conv_pixel_row(Build *b, const ConvShape *c, Val position);
// Address of the pixel at a tap, from a channel of all groups on; *valid: it is inside of the image.
Val conv_pixel(Build *b, const ConvShape *c, const PixelRow *row, Val image, Val ky, Val kx, Val channel, Val *valid);
// Row and column of a tap.
void conv_tap(Build *b, const ConvShape *c, Val tap, Val *ky, Val *kx);
void conv_copy_chunk(Build *b, Val to, Val from, Val valid);   // 16 bytes, or zeros
void conv_accumulators(Build *b, ConvAccumulators *sums, int m_tiles, int n_tiles);
// Row m of the warp's tiles plus fragment (a, as build_load_a gives it) times pairs (b of two neighbouring tiles each).
void conv_accumulate(Build *b, TileType type, const ConvAccumulators *sums, int m, const Val fragment[4],
                     Val (*pairs)[4]);
// Around the ring of stages: while one is multiplied, the one before it is filled for conv_ahead steps later or, where
// products of one more step may be on their way, that before it.
Val conv_next_stage(Build *b, const ConvShape *c, Val stage);
Val conv_stage_ahead(Build *b, const ConvShape *c, Val stage);

// template_conv_shape.c. Of the fields of a shape, kernels may look at these only, and at its pass and type: they make
// up the variant, which is in the kernel's symbol.
bool conv_shape(const NncConv *c, TileType type, int64_t wide_blocks, ConvShape *shape);   // channels last, weights
                                                                                           // oihw, sizes below 2^31
// the kernel knows; that of a weight gradient which is not dense serves any taps
bool conv_one_tap(const ConvShape *c);
bool conv_dense(const ConvShape *c);   // one tap for each pixel: both images have the same
// Weights are read as they lie, rows of the depth: an input gradient of one tap in a type of 16 bits.
bool conv_depth_rows(const ConvShape *c);
bool conv_reorders(const ConvShape *c);          // weights go through the workspace
bool conv_divides(const ConvShape *c);           // an input gradient with a stride, or of one tap and not dense
int conv_tile_channels(const ConvShape *c);      // 64, 128 or 256
int conv_depth_block(const ConvShape *c);        // depth of a stage: channels, or pixels
int conv_gradient_columns(const ConvShape *c);   // of a weight gradient's tile: 128 or 256
int conv_stages(const ConvShape *c);
// groups of products that are on their way while the next stage is waited for
int conv_lag(const ConvShape *c);
int conv_ahead(const ConvShape *c);   // steps that copies are ahead
int conv_parts(const ConvShape *c);   // not for kernels

// template_conv_wgmma.c: the products of a stage as a group on its way, and the end of all.
// a, w: descriptors of the first step
void conv_wgmma(Build *b, const Wgmma *form, const ConvAccumulators *sums, int steps, Val a, Val w);
void conv_wgmma_finish(Build *b, const ConvAccumulators *sums);
// What this thread has copied is made ready for the products, and those that read the stage to be filled next are over,
// behind the barrier that follows.
void conv_wgmma_meet(Build *b, const ConvShape *c);

// One block of a forward pass or an input gradient.
typedef struct ConvProductBlock {
  Build b;
  const ConvShape *c;   // Borrowed
  Val depth, columns;   // per group: channels summed in a tap, channels of the result
  Val positions, steps;
  Divisor steps_of_tap;
  Val first_row, first_column, group, chunk_channel;
  int tile_columns, warps_n;   // of the block's results; warps side by side, 32 columns each
  Val warp_m, warp_n;          // of the warp in the tile
  PixelRow rows[4];
  Val image, weights, out;
  Tile a, w;        // stage 0
  Val descriptor;   // of the warpgroup's rows in it
} ConvProductBlock;

// template_conv_epilogue.c: the results are stored, or go through an epilogue. The parameters of the kernel (Owned:
// free).
char *conv_product_buffers(const ConvShape *c);
void conv_end_product(ConvProductBlock *x, const ConvAccumulators *sums);
Val conv_inlined_function(Build *b, const char *name);   // of the module, made internal and always inlined
// a vector of EPILOGUE_LANES; element: i64, channel: i32
Val conv_load_input(Build *b, const EpilogueValue *v, Val base, Val element, Val channel);

// template_conv_prologue.c: what a thread has copied of the first operand goes through the prologue once it has landed.
// for both halves of a chunk of eight
typedef struct ConvPrologueInputs {
  Val value[EPILOGUE_INPUTS][2];
} ConvPrologueInputs;
// of a depth step, ahead of use
void conv_prologue_load(ConvProductBlock *x, Val step, ConvPrologueInputs *inputs);
// valid: i32, bit i: chunk i of this thread is inside
void conv_prologue_apply(ConvProductBlock *x, const ConvPrologueInputs *inputs, Val stage, Val valid);

// template_grouped.c: `last` of a forward pass or an input gradient is the product. template_grouped_weights.c: the
// first of a weight gradient, whose parts conv_sum adds up.
char *conv_grouped_symbol(const ConvShape *c, bool last);
void conv_grouped_launch(const ConvShape *c, TemplateLaunch *launch);
void conv_grouped(LLVMModuleRef module, const ConvShape *c, bool last, const char *name);
// elements of a vector that divides `channels`: 16 bytes, or less
int conv_grouped_lanes(const ConvShape *c, int64_t channels);
int conv_grouped_parts(const ConvShape *c);
char *conv_grouped_weights_symbol(const ConvShape *c);
void conv_grouped_weights_launch(const ConvShape *c, TemplateLaunch *launch);
void conv_grouped_weights(LLVMModuleRef module, const ConvShape *c, const char *name);

// template_conv_weights.c: the gradient of the weights is cut into parts, which the second kernel adds in order.
void conv_weight_gradient(LLVMModuleRef module, const ConvShape *c, const char *name);
void conv_sum(LLVMModuleRef module, const ConvShape *c, const char *name);

#endif
